"""Images by sparse dictionaries of patches: fill in missing pixels, remove noise.

Every patch of an image is a row of :class:`sksvi.BetaProcessFA`; overlapping reconstructions are averaged, each pixel
with the precision that its patch predicts it with. Masks are True where a pixel is **missing**, as in scikit-image.
"""

from __future__ import annotations

import copy
import math
import warnings
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

Array = np.ndarray

__all__ = ["denoise", "extract_patches", "inpaint", "reconstruct"]

#: Side of a patch, factors and rows of a step of the default estimator (what it reaches: benchmarks/beta_process).
PATCH_SIZE, N_COMPONENTS, BATCH_ROWS = 8, 250, 250
#: Its steps and the rest of its parameters by task. From few factors at first fine texture is not discovered. A learned
#: precision of the weights, which is small, takes faint texture for noise: under noise it is held at its prior mean.
INPAINT_STEPS, DENOISE_STEPS = 12_000, 6000
INPAINTING = {"n_burn_in": 8, "n_local_samples": 4, "init_factors": 50.0}
DENOISING = {"weight_precision": 1.0, "init_factors": 50.0}
#: The sweeps for each of the draws of the dictionary at the end.
FINAL_SWEEPS = {"n_burn_in": 2, "n_local_samples": 1}


def extract_patches(image: Any, patch_size: int = PATCH_SIZE, *, mask: Any = None) -> Array:
    """Every patch of an image as a row: overlapping squares, row by row, channels of a pixel together.

    Parameters
    ----------
    image : array-like of shape (height, width) or (height, width, channels)
    patch_size : int, default=8
        Side of the squares, in pixels; at most the image's sides.
    mask : array-like of bool, shape (height, width) or that of the image, default=None
        True where a pixel is missing; it becomes NaN.

    Returns
    -------
    ndarray of shape ((height - patch_size + 1) (width - patch_size + 1), patch_size² channels)
        float64, or float32 if the image is.

    Raises
    ------
    ValueError
        For an image of another shape or type, or with values that are not finite and not missing.

    Examples
    --------
    >>> import numpy as np
    >>> from sksvi.images import extract_patches
    >>> extract_patches(np.arange(12).reshape(3, 4), 2).shape
    (6, 4)
    """
    pixels, _ = _pixels(image, mask)
    size = _patch_size(patch_size, pixels.shape)
    windows = np.lib.stride_tricks.sliding_window_view(pixels, (size, size), axis=(0, 1))
    # Windows come as (rows, columns, channels, size, size).
    rows = np.moveaxis(windows, 2, -1)
    return np.ascontiguousarray(rows).reshape(rows.shape[0] * rows.shape[1], -1)


def reconstruct(patches: Any, image_shape: tuple[int, ...], *, std: Any = None) -> Array:
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


def inpaint(image: Any, mask: Any, *, estimator: Any = None, random_state: Any = None) -> Array:
    """Fill in missing pixels.

    Parameters
    ----------
    image : array-like of shape (height, width) or (height, width, channels)
        Values at missing pixels are ignored, NaN included.
    mask : array-like of bool, shape (height, width) or that of the image
        True where a pixel is missing.
    estimator : BetaProcessFA, default=None
        A clone is fitted to the patches. None: 250 factors and a fixed number of steps, 12,000 of 250 patches.
    random_state : int, RandomState or None, default=None
        Seed of the default estimator, or of one that has none.

    Returns
    -------
    ndarray
        The image in its own scale as floating-point numbers; pixels that are not missing are unchanged.

    Raises
    ------
    ValueError
        For an image or mask of a wrong shape or type, or if all pixels are missing.

    Examples
    --------
    >>> import numpy as np
    >>> from sksvi import BetaProcessFA
    >>> from sksvi.images import inpaint
    >>> image = np.add.outer(np.arange(20.0), np.arange(20.0))
    >>> mask = np.random.default_rng(0).random(image.shape) < 0.3
    >>> model = BetaProcessFA(n_components=10, max_iter=100, tol=0.1)
    >>> bool(np.abs(inpaint(image, mask, estimator=model, random_state=0) - image).max() < 8)
    True
    """
    pixels, missing = _pixels(image, mask)
    if missing.all():
        raise ValueError("mask is True everywhere: there is no pixel to learn from.")
    patches = extract_patches(pixels, _default_size(pixels.shape), mask=missing)
    model = _fitted(patches, estimator, random_state, INPAINT_STEPS, INPAINTING)
    return np.where(missing, averaged(model, patches, pixels.shape), pixels).reshape(np.shape(image))


def denoise(image: Any, *, sigma: float | None = None, estimator: Any = None, random_state: Any = None) -> Array:
    """Remove Gaussian noise.

    Parameters
    ----------
    image : array-like of shape (height, width) or (height, width, channels)
        NaN where a pixel is missing: it is filled in.
    sigma : float or None, default=None
        Standard deviation of the noise in units of the image; None: learned.
    estimator : BetaProcessFA, default=None
        A clone is fitted to the patches. None: 250 factors and a fixed number of steps, 6,000 of 250 patches.
    random_state : int, RandomState or None, default=None
        Seed of the default estimator, or of one that has none.

    Returns
    -------
    ndarray
        The image without its noise, in its own scale as floating-point numbers.

    Raises
    ------
    ValueError
        For an image of a wrong shape or type, or a sigma that is not positive.

    Examples
    --------
    >>> import numpy as np
    >>> from sksvi import BetaProcessFA
    >>> from sksvi.images import denoise
    >>> clean = np.add.outer(np.arange(20.0), np.arange(20.0))
    >>> noisy = clean + np.random.default_rng(0).standard_normal(clean.shape)
    >>> model = BetaProcessFA(n_components=10, max_iter=100, tol=0.1)
    >>> better = denoise(noisy, estimator=model, random_state=0)
    >>> bool(np.std(better - clean) < np.std(noisy - clean))
    True
    """
    if sigma is not None and not 0 < sigma < np.inf:
        raise ValueError(f"sigma must be positive and finite, or None; found {sigma!r}.")
    raw = np.asarray(image)
    missing = np.isnan(raw) if raw.dtype.kind == "f" else np.zeros(raw.shape, bool)
    if missing.all():
        raise ValueError("image has no pixel that is not NaN.")
    pixels, missing = _pixels(image, missing)
    patches = extract_patches(pixels, _default_size(pixels.shape), mask=missing)
    known = {} if sigma is None else {"noise": float(sigma)}
    model = _fitted(patches, estimator, random_state, DENOISE_STEPS, DENOISING, known)
    return averaged(model, patches, pixels.shape).reshape(raw.shape)


def averaged(model: Any, patches: Array, shape: tuple[int, ...]) -> Array:
    """The image by a fitted model: means of a pixel over its patches, weighted by their predictive precisions."""
    # Means over draws of the dictionary: a few sweeps for each are enough.
    short = copy.copy(model).set_params(**FINAL_SWEEPS)
    mean, std = short.reconstruct(patches, return_std=True)
    return reconstruct(mean, shape, std=np.sqrt(np.square(std) + 1.0 / model.noise_precision_))


def _fitted(
    patches: Array, estimator: Any, random_state: Any, steps: int, defaults: dict[str, Any], parameters: Any = ()
) -> Any:
    """The estimator, or the default one, fitted to the patches."""
    model = default_estimator(len(patches), steps, defaults) if estimator is None else clone(estimator)
    if model.get_params()["random_state"] is None:
        model.set_params(random_state=random_state)
    model.set_params(**dict(parameters))
    if estimator is not None:
        return model.fit(patches)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(patches)


def default_estimator(n_patches: int, steps: int, parameters: dict[str, Any]) -> Any:
    """What is fitted where no estimator is given."""
    from sksvi.decomposition import BetaProcessFA

    passes = math.ceil(steps / math.ceil(n_patches / BATCH_ROWS))
    # A budget of steps instead of a tolerance: what the noisy bound still gains is hardly seen in an image.
    return BetaProcessFA(N_COMPONENTS, batch_size=BATCH_ROWS, max_iter=passes, tol=0.0, **parameters)


def _pixels(image: Any, mask: Any) -> tuple[Array, Array]:
    """The image as (height, width, channels) of floating-point numbers, NaN where missing, and its mask alike."""
    pixels = np.asarray(image)
    if pixels.ndim not in (2, 3) or 0 in pixels.shape:
        raise ValueError(f"image must be (height, width) or (height, width, channels); found shape {pixels.shape}.")
    if pixels.dtype.kind not in "fiub":
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
    missing = np.broadcast_to(missing, pixels.shape)
    if not np.all(np.isfinite(pixels[~missing])):
        raise ValueError("image has NaN or infinite values where mask does not say that they are missing.")
    return np.where(missing, pixels.dtype.type(np.nan), pixels), missing


def _default_size(shape: tuple[int, ...]) -> int:
    """Side of the patches of an image: small ones need several patches too."""
    return min(PATCH_SIZE, max(1, min(shape[:2]) // 2))


def _patch_size(size: Any, shape: tuple[int, ...]) -> int:
    if isinstance(size, bool) or not isinstance(size, Integral) or not 1 <= int(size) <= min(shape[:2]):
        raise ValueError(f"patch_size must be an integer from 1 to {min(shape[:2])}; found {size!r}.")
    return int(size)
