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


def middle(name: str, size: int | None) -> Array:
    """The middle square of an image, or with None all of it."""
    whole = image(name)
    if size is None:
        return whole
    top, left = ((side - size) // 2 for side in whole.shape)
    return whole[top : top + size, left : left + size]


def hidden(name: str, size: int | None = None) -> tuple[Array, Array, Array]:
    """An image or its middle, its missing pixels and its patches."""
    from sksvi.images import extract_patches

    truth = middle(name, size)
    missing = ~observed_mask(truth.shape)
    return truth, missing, extract_patches(np.where(missing, np.nan, truth), 8, mask=missing)


def filled(data: Array, defaults: dict[str, Any]) -> tuple[Array, Array, Any, dict[str, Any]]:
    """The default's image, its variance without noise, the dictionary, and what it cost; NaN pixels are missing."""
    import time

    from sksvi.images._fit import estimated, learned
    from sksvi.images._patches import pixels_of

    wall, cpu = time.perf_counter(), time.process_time()
    pixels, missing = pixels_of(data, None)
    dictionary = learned(pixels, missing, None, defaults, seed=0)
    image, variance = (moment.reshape(data.shape) for moment in estimated(dictionary, pixels))
    row = {"steps": dictionary.model.n_steps_, "seconds": time.perf_counter() - wall}
    row |= {"CPU seconds": time.process_time() - cpu, "sd": float(dictionary.noise**0.5)}
    row |= {"used": float(dictionary.model.feature_probability_.sum()), "richer": dictionary.richer[0] > 1.0}
    return image, variance, dictionary, row


def cover(estimate: Array, variance: Array, truth: Array, where: Array) -> float:
    """Share of the pixels `where` within the interval of 90 %."""
    return float(np.mean(np.square(estimate - truth)[where] <= 1.6449**2 * variance[where]))


def qualities(estimate: Array, truth: Array, missing: Array) -> dict[str, float]:
    """The three definitions of PSNR."""
    whole = psnr(np.where(missing, estimate, truth), truth)
    found = {"PSNR": whole, "PSNR missing": psnr(estimate, truth, missing)}
    return found | {"PSNR observed": psnr(estimate, truth, ~missing)}
