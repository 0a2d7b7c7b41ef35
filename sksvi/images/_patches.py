"""Images to overlapping patches, and patches back to images."""

from __future__ import annotations

import math
from numbers import Integral
from typing import Any

import numpy as np

from sksvi._typing.arrays import NUMBERS, ArrayLike

Array = np.ndarray

#: Side of a patch.
PATCH_SIZE = 8


def extract_patches(image: ArrayLike, patch_size: int = PATCH_SIZE, *, mask: ArrayLike | None = None) -> Array:
    """Every patch of an image as a row: overlapping squares, row by row, channels of a pixel together.

    Parameters
    ----------
    image : array-like of shape (height, width) or (height, width, channels)
    patch_size : int, default=8
        Side of the squares, in pixels; at most the image's sides.
    mask : array-like of bool, shape (height, width) or that of the image, default=None
        True where a pixel is missing; it becomes NaN. Pixels that are NaN are missing in any case.

    Returns
    -------
    ndarray of shape ((height - patch_size + 1) (width - patch_size + 1), patch_size² channels)
        float64, or float32 if the image is.

    Raises
    ------
    ValueError
        For an image of another shape or type, or with infinite values that are not missing.

    Examples
    --------
    >>> import numpy as np
    >>> from sksvi.images import extract_patches
    >>> extract_patches(np.arange(12).reshape(3, 4), 2).shape
    (6, 4)
    """
    pixels, _ = pixels_of(image, mask)
    squares = windows(pixels, _patch_size(patch_size, pixels.shape))
    return np.ascontiguousarray(squares).reshape(squares.shape[0] * squares.shape[1], -1)


def windows(pixels: Array, size: int) -> Array:
    """Every square of (height, width, channels), (down, right, size, size, channels): a view."""
    squares = np.lib.stride_tricks.sliding_window_view(pixels, (size, size), axis=(0, 1))
    return np.moveaxis(squares, 2, -1)


#: Frequencies of each side of a patch, more than it has pixels: the first dictionary is overcomplete.
FREQUENCIES = 16


def cosines(n: int, size: int, channels: int) -> Array:
    """The n slowest products of cosines along the sides of a patch and its channels, of unit length.

    Examples
    --------
    >>> from sksvi.images._patches import cosines
    >>> cosines(250, 8, 1).shape, cosines(3, 2, 1).round(2).tolist()
    ((250, 64), [[0.5, 0.5, 0.5, 0.5], [0.5, -0.5, 0.5, -0.5], [0.5, 0.5, -0.5, -0.5]])
    """
    side, colour = _waves(FREQUENCIES, size), _waves(channels, channels)
    i, j, c = np.unravel_index(np.arange(FREQUENCIES**2 * channels), (FREQUENCIES, FREQUENCIES, channels))
    speed = np.square(i / FREQUENCIES) + np.square(j / FREQUENCIES) + np.square(c / channels)
    at = np.argsort(speed, kind="stable")[:n]
    atoms = np.einsum("na,nb,nc->nabc", side[i[at]], side[j[at]], colour[c[at]])
    return atoms.reshape(len(at), -1)


def _waves(n: int, size: int) -> Array:
    """Cosines of n frequencies at `size` places, (n, size), of unit length and, but for the first, without mean."""
    waves = np.cos(np.pi * np.outer(np.arange(n), np.arange(size) + 0.5) / n)
    if size > 1:
        waves[1:] -= waves[1:].mean(1, keepdims=True)
    return waves / np.linalg.norm(waves, axis=1, keepdims=True)


def reconstruct(patches: ArrayLike, image_shape: tuple[int, ...], *, std: ArrayLike | None = None) -> Array:
    """The image whose overlapping patches these are: every pixel is the mean over its patches.

    Parameters
    ----------
    patches : array-like of shape (n, patch_size² channels)
        In the order of :func:`extract_patches`.
    image_shape : tuple of int
        (height, width) or (height, width, channels).
    std : array-like of the shape of patches, default=None
        Standard deviation of every entry: the mean is then weighted by 1/std².

    Returns
    -------
    ndarray of shape image_shape

    Raises
    ------
    ValueError
        If there are not as many patches as such an image has, or a std is not positive and finite.

    Examples
    --------
    >>> import numpy as np
    >>> from sksvi.images import extract_patches, reconstruct
    >>> image = np.arange(12.0).reshape(3, 4)
    >>> bool(np.allclose(reconstruct(extract_patches(image, 2), image.shape), image))
    True
    """
    patches = np.asarray(patches)
    height, width = image_shape[:2]
    channels = math.prod(image_shape[2:])
    size = math.isqrt(patches.shape[1] // channels) if patches.ndim == 2 else 0
    down, right = height - size + 1, width - size + 1
    if size < 1 or patches.shape != (down * right, size * size * channels):
        raise ValueError(f"patches.shape == {patches.shape} are not all patches of an image of shape {image_shape}.")
    squares = patches.reshape(down, right, size, size, channels)
    weights = _weights(std, patches.shape).reshape(squares.shape) if std is not None else np.ones((1, 1, size, size, 1))
    total, count = np.zeros((height, width, channels)), np.zeros((height, width, channels))
    for i in range(size):
        for j in range(size):
            weight = weights[:, :, i, j]
            total[i : i + down, j : j + right] += weight * squares[:, :, i, j]
            count[i : i + down, j : j + right] += weight
    return (total / count).reshape(image_shape).astype(patches.dtype, copy=False)


def _weights(std: Any, shape: tuple[int, ...]) -> Array:
    std = np.asarray(std, float)
    if std.shape != shape:
        raise ValueError(f"std.shape == {std.shape}, expected that of patches, {shape}.")
    if not np.all((std > 0) & (std < np.inf)):
        raise ValueError("std must be positive and finite everywhere.")
    # Relative to the smallest: squares of tiny or huge numbers would leave the range of floats.
    return np.square(std.min() / std)


def pixels_of(image: Any, mask: Any) -> tuple[Array, Array]:
    """The image as (height, width, channels) of floating-point numbers, NaN where missing, and its mask alike."""
    pixels = np.asarray(image)
    if pixels.ndim not in (2, 3) or 0 in pixels.shape:
        raise ValueError(f"image must be (height, width) or (height, width, channels); found shape {pixels.shape}.")
    if pixels.dtype.kind not in NUMBERS:
        raise ValueError(f"image must hold real numbers; found dtype {pixels.dtype}.")
    shape = pixels.shape
    pixels = pixels.astype(np.float32 if pixels.dtype == np.float32 else np.float64)
    missing = np.zeros(shape[:2], bool) if mask is None else np.asarray(mask)
    if missing.dtype != bool:
        raise ValueError(f"mask must be boolean, True where a pixel is missing; found dtype {missing.dtype}.")
    if missing.shape not in (shape, shape[:2]):
        expected = f"{shape[:2]} or {shape}" if len(shape) > 2 else f"{shape}"
        raise ValueError(f"mask.shape == {missing.shape}, expected {expected}.")
    missing = missing[..., None] if missing.ndim == 2 else missing
    pixels = pixels.reshape(*shape[:2], -1)
    missing = missing | np.isnan(pixels)
    if np.any(np.isinf(pixels[~missing])):
        raise ValueError("image has infinite values where mask does not say that they are missing: make them NaN.")
    return np.where(missing, pixels.dtype.type(np.nan), pixels), missing


def _patch_size(size: Any, shape: tuple[int, ...]) -> int:
    if isinstance(size, bool) or not isinstance(size, Integral) or not 1 <= int(size) <= min(shape[:2]):
        raise ValueError(f"patch_size must be an integer from 1 to {min(shape[:2])}; found {size!r}.")
    return int(size)
