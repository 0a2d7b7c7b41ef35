"""Images to overlapping patches and back, and what an image's patches say of a good fit.

Where no estimator is given, size of patches and dictionary, steps, and how to estimate it follow from the number of
patches and from the share of their pixels that is observed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

import numpy as np

from sksvi._typing.arrays import NUMBERS, ArrayLike
from sksvi.algorithms import MCSSVI
from sksvi.schedules import RobbinsMonro

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
    return np.moveaxis(np.lib.stride_tricks.sliding_window_view(pixels, (size, size), axis=(0, 1)), 2, -1)


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
    return np.einsum("na,nb,nc->nabc", side[i[at]], side[j[at]], colour[c[at]]).reshape(len(at), -1)


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
    weights = _weights(std, patches.shape) if std is not None else np.broadcast_to(1.0, patches.shape)
    shape = height, width, channels
    mean = added_up(weights * patches, shape) / added_up(weights, shape)
    return mean.reshape(image_shape).astype(patches.dtype, copy=False)


def added_up(patches: Array, shape: tuple[int, ...]) -> Array:
    """Sum of what all patches say of each pixel, (height, width, channels), by rows of patches, which fit the cache."""
    size = math.isqrt(patches.shape[1] // shape[2])
    right, total = shape[1] - size + 1, np.zeros(shape)
    squares = patches.reshape(-1, right, size, size, shape[2]).swapaxes(1, 2)
    for i, row in enumerate(squares):
        for j in range(size):
            total[i : i + size, j : j + right] += row[:, :, j]
    return total


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


# ---- defaults for an image
#: Factors of the odds of use and of the precision of the weights, of which held-out pixels choose.
Choices = tuple[tuple[float, float], ...]

#: Patches that a dictionary is learned from at most, and rows of a step.
MOST_PATCHES, BATCH_ROWS = 50_000, 250
#: Factors: so many times the root of the number of patches, at most the second.
COMPONENTS, MOST_COMPONENTS = 1.5, 250
#: Steps at least, passes, and steps at most.
FEWEST_STEPS, PASSES, MOST_STEPS = 200, 18, 3500
#: Rates of steps on some of the patches, few or many: longer first steps would drop fine factors of small images.
RATE = RobbinsMonro(delay=20.0, kappa=0.5)
THIN_RATE = RobbinsMonro(delay=40.0, kappa=0.5)
#: Share of missing pixels and number of patches from which an image is thinly seen, and where noise is held there, as a
#: share of the standard deviation of the pixels: of a dozen pixels per patch it is learned too small.
MOSTLY_MISSING, MANY_PATCHES, HELD_NOISE = 0.5, 20_000, 0.15
#: There: numbers seen in a patch, which its side follows from, and that side at most.
SEEN, LARGEST_PATCH = 20, 10
#: What the odds of use and the precision of the weights are multiplied by in the end, by which held-out pixels prefer:
#: sparse patches are learned from best, and predicted better by the mean over richer ones.
RICHER = ((1.0, 1.0), (7.0, 4.0))
#: Draws of the dictionary that an image is estimated with.
FINAL_DRAWS = 3


@dataclass(frozen=True)
class Course:
    """When a dictionary is done, and how an image is estimated with it.

    stops: whether held-out pixels say when a fit ends and which dictionary is kept, or it takes all its steps and the
    last one is. richer: what the odds of use and the precision of the weights may be multiplied by in the end.
    sharpness: power of the precisions that overlapping patches are weighted by. sweeps: discarded and kept, for each of
    `draws` draws of the dictionary. most_drawn: patches times draws at most, where one draw is not more. patch_size:
    side of the patches at most. most_patches, passes, most_steps: at most so many patches to learn a dictionary from,
    passes over these, and steps; fewest_steps: at least. most_components: factors at most. cosines: whether it starts
    from products of cosines, else at random.
    """

    stops: bool = True
    richer: Choices = RICHER
    sharpness: float = 1.0
    sweeps: tuple[int, int] = (2, 4)
    draws: int = FINAL_DRAWS
    most_drawn: int = 600_000
    patch_size: int = PATCH_SIZE
    most_patches: int = MOST_PATCHES
    passes: int = PASSES
    most_components: int = MOST_COMPONENTS
    fewest_steps: int = FEWEST_STEPS
    most_steps: int = MOST_STEPS
    cosines: bool = False


#: What holds where nothing else is said.
COURSE = Course()
#: What holds in thinly seen images. Rows of few pixels say little: many short steps find more than few long ones. A
#: hundred held-out pixels tell neither when these steps have done nor what richer patches gain. Errors of overlapping
#: patches go together: the surest of them says more than its precision. Draws of rows begin where a greedy search ends,
#: and an image needs one sweep from there: more draws of the dictionary gain more. Learning needs them all: textures of
#: fine edges lose where it does without burn-in.
THINLY_SEEN = {"n_burn_in": 3, "n_local_samples": 3, "weight_precision": 1.0, "algorithm": MCSSVI(THIN_RATE)}
#: The richness and the weights that all courses without checks fill pixels in with.
FILLED: dict[str, Any] = {"stops": False, "richer": ((5.0, 1.0),), "sharpness": 1.5, "cosines": True}
THIN_COURSE = Course(
    **FILLED, sweeps=(0, 1), draws=4, most_drawn=1_200_000, most_patches=125_000, passes=40, most_steps=5000
)
#: What holds in colour images that are not thinly seen: patches of so many numbers say what they use by a short search.
COLOUR = {"n_burn_in": 1, "n_local_samples": 2, "init_factors": 5.0}
COLOUR_COURSE = Course(**FILLED, sweeps=(0, 1), passes=8, fewest_steps=100)
#: What is fast: the fewest sweeps, steps and draws, one chunk of factors, and smaller patches where much is seen. Their
#: sides, and the numbers seen in a patch that are enough.
FAST = {"n_burn_in": 0, "n_local_samples": 1}
FAST_SIDES, FAST_SEEN = (6, PATCH_SIZE), 50
FAST_COURSE = Course(
    stops=False,
    richer=((1.0, 1.0),),
    sweeps=(0, 1),
    draws=2,
    patch_size=FAST_SIDES[0],
    most_patches=10_000,
    most_components=64,
    passes=2,
    fewest_steps=80,
    cosines=True,
)


def default_estimator(n_patches: int, parameters: dict[str, Any], course: Course = COURSE) -> Any:
    """Default `BetaProcessFA` for so many patches, from which its number of components and of steps follow."""
    from sksvi.decomposition import BetaProcessFA

    n_components = min(course.most_components, math.ceil(COMPONENTS * math.sqrt(n_patches)))
    batches = math.ceil(min(n_patches, course.most_patches) / BATCH_ROWS)
    steps = min(max(course.fewest_steps, course.passes * batches), course.most_steps)
    # All that is chosen here was chosen with weights whose precision is learned.
    found: dict[str, Any] = {"max_iter": math.ceil(steps / batches), "weight_precision": "learned"}
    if batches > 1:
        found["algorithm"] = MCSSVI(RATE)
    # No tolerance: what the noisy bound still gains is hardly seen in an image.
    found["uncertainty"] = "variational"  # an image is estimated with draws of its own
    return BetaProcessFA(n_components, batch_size=BATCH_ROWS, tol=0.0, **(found | parameters))


def to_fill_in(pixels: Array, missing: Array, quality: str) -> dict[str, Any]:
    """Defaults for an image with holes: parameters of the estimator, and perhaps `course`."""
    channels = missing.shape[2]
    if quality == "fast":
        side = round(math.sqrt(FAST_SEEN / (channels * (1.0 - float(missing.mean())))))
        size = min(max(side, FAST_SIDES[0]), FAST_SIDES[1])
        return FAST | {"course": replace(FAST_COURSE, **FILLED, patch_size=size)}
    return thinly_seen(pixels, missing) or (COLOUR | {"course": COLOUR_COURSE} if channels > 1 else {})


def thinly_seen(pixels: Array, missing: Array) -> dict[str, Any]:
    """Defaults for many patches with few observed pixels: parameters of the estimator, and `course`; else empty."""
    spread, observed_share = float(np.nanstd(pixels)), 1.0 - float(missing.mean())
    n_patches = math.prod(side - default_size(missing) + 1 for side in missing.shape[:2])
    if observed_share >= 1.0 - MOSTLY_MISSING or n_patches < MANY_PATCHES or spread == 0.0:
        return {}
    side = round(math.sqrt(SEEN / (observed_share * missing.shape[2])))
    size = default_size(missing, min(max(PATCH_SIZE, side), LARGEST_PATCH))
    return THINLY_SEEN | {"noise": HELD_NOISE * spread, "course": replace(THIN_COURSE, patch_size=size)}


def default_size(missing: Array, most: int = PATCH_SIZE) -> int:
    """Side of the patches: small images need several patches too, and no place of a patch may always be missing."""
    size = min(most, max(1, min(missing.shape[:2]) // 2))
    while windows(missing, size).all((0, 1)).any():
        size -= 1
    return size
