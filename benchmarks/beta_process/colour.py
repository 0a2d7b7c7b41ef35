"""Colour photographs with missing pixels: both qualities of `sksvi.images.inpaint`, beside biharmonic functions.

PSNR over the whole image, observed pixels kept. The photographs come with scikit-learn.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from benchmarks._lib import Array
from benchmarks._lib.tables import arguments, progress, report
from benchmarks.beta_process._data import filled, observed_mask, psnr

CORNERS = {"china": (120, 230), "flower": (150, 260)}
SHARES, SIZES = (0.5, 0.8), (64, 128)
TITLE = "Inpainting of colour photographs"
NOTES = [
    "Squares of two photographs, 8 bits, whose pixels are missing at random (seed 0) in all channels. CPU seconds of "
    "one thread, with what is compiled for scikit-image or us read from the cache. biharmonic: "
    "skimage.restoration.inpaint_biharmonic, where installed. checked: what the default was, checks on held-out pixels "
    "and 8 + 4 sweeps, as for grey images; of the small squares alone. PSNR in dB of the 8-bit image that "
    "is returned, of `checked` before rounding."
]


def photograph(name: str, size: int) -> Array:
    """A square of a photograph of scikit-learn's, (size, size, 3), 8 bits."""
    from sklearn.datasets import load_sample_image

    top, left = CORNERS[name]
    return load_sample_image(f"{name}.jpg")[top : top + size, left : left + size]


def checked(image: Array, missing: Array) -> Array:
    """The image by the course of grey images."""
    from sksvi.images._tasks import INPAINTING

    holes = np.where(missing[..., None], np.nan, image.astype(float))
    found = filled(holes, INPAINTING)[0]
    return np.where(missing[..., None], found, image)


def methods(size: int) -> Iterator[tuple[str, Callable[[Array, Array], Array]]]:
    """Names and functions of an image and its missing pixels."""
    from sksvi.images import inpaint

    try:
        from skimage.restoration import inpaint_biharmonic
    except ImportError:
        pass
    else:
        yield (
            "biharmonic (scikit-image)",
            lambda image, missing: 255.0 * inpaint_biharmonic(image, missing, channel_axis=-1),
        )
    yield "inpaint, fast", lambda image, missing: inpaint(image, missing, quality="fast", random_state=0)
    yield "inpaint, best", lambda image, missing: inpaint(image, missing, random_state=0)
    if size == min(SIZES):
        yield "checked", checked


def main(quick: bool = False) -> None:
    from sklearn.exceptions import ConvergenceWarning

    warnings.simplefilter("ignore", ConvergenceWarning)  # the budget is a number of steps
    rows: list[dict[str, Any]] = []
    for size in (24,) if quick else SIZES:
        for name in CORNERS:
            image = photograph(name, size)
            for share in SHARES:
                missing = ~observed_mask(image.shape[:2], 1.0 - share)
                for method, found in methods(size):
                    start = time.process_time()
                    estimate = found(np.where(missing[..., None], 0, image).astype(np.uint8), missing)
                    row = {"image": name, "size": size, "missing": share, "method": method}
                    row |= {"CPU seconds": time.process_time() - start, "PSNR": psnr(estimate, image.astype(float))}
                    rows.append(row)
                    progress(row)
                    report("beta_process/inpainting_colour", TITLE, rows, NOTES, quick)


if __name__ == "__main__":
    main(arguments(__doc__))
