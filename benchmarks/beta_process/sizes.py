"""`inpaint` and `denoise` as a user calls them, on crops and whole images: dB, CPU seconds, cover of the intervals.

``python -m benchmarks.beta_process.sizes`` stores a row after each call; ``--sizes 96`` and ``--images house`` do part of them.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from benchmarks._lib import Array
from benchmarks.beta_process._data import image, observed_mask, psnr

SIGMA = 15.0


def crop(name: str, size: int) -> Array:
    """The middle of an image."""
    whole = image(name)
    top, left = ((side - size) // 2 for side in whole.shape)
    return whole[top : top + size, left : left + size]


def called(name: str, size: int, task: str, **parameters: Any) -> dict[str, Any]:
    """One call on an image's middle, as a row of the table."""
    from sksvi.images import denoise, inpaint

    truth = crop(name, size)
    missing = ~observed_mask(truth.shape)
    noisy = truth + SIGMA * np.random.default_rng(1).standard_normal(truth.shape)
    start = time.process_time()
    if task == "inpaint":
        result = inpaint(np.where(missing, np.nan, truth), missing, random_state=0, **parameters)
    else:
        result = denoise(noisy, random_state=0, **parameters)
    spent = time.process_time() - start
    return {"task": task, "image": name, "size": size, "CPU seconds": spent, "PSNR": psnr(result, truth)}
