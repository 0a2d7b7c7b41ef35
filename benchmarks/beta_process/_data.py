"""Images with missing pixels, and PSNR."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks._lib import Array
from benchmarks._lib.loaders import data_folder

IMAGES = ("house", "peppers", "barbara", "boat", "lena")


def image(name: str) -> Array:
    """An 8-bit grey image as floats."""
    from PIL import Image

    return np.asarray(Image.open(data_folder() / "images" / f"{name}.png")).astype(float)


def observed_mask(shape: tuple[int, ...], share: float = 0.2, seed: int = 0) -> Array:
    """True where a pixel is observed."""
    return np.random.default_rng(seed).random(shape) < share


def psnr(estimate: Array, truth: Array, where: Any = None) -> float:
    """dB over the pixels `where`, the estimate clipped to the range of 8 bits."""
    error = np.square(np.clip(estimate, 0, 255) - truth)
    return float(10 * np.log10(255**2 / np.mean(error if where is None else error[where])))


def hidden(name: str) -> tuple[Array, Array, Array]:
    """An image, its missing pixels and its patches."""
    from sksvi.images import extract_patches

    truth = image(name)
    missing = ~observed_mask(truth.shape)
    return truth, missing, extract_patches(np.where(missing, np.nan, truth), 8, mask=missing)


def qualities(estimate: Array, truth: Array, missing: Array) -> dict[str, float]:
    """The three definitions of PSNR."""
    whole = psnr(np.where(missing, estimate, truth), truth)
    found = {"PSNR": whole, "PSNR missing": psnr(estimate, truth, missing)}
    return found | {"PSNR observed": psnr(estimate, truth, ~missing)}
