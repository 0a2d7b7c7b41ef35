"""The two tasks: fill in missing pixels, remove noise."""

from __future__ import annotations

from typing import Any, Literal, TypedDict, Unpack, overload

import numpy as np
from sklearn.base import BaseEstimator

from sksvi._typing.arrays import ArrayLike, RandomState
from sksvi.estimators.checks import check_choice
from sksvi.images._fit import estimated, learned
from sksvi.images._patches import FAST, FAST_COURSE, pixels_of, to_fill_in

Array = np.ndarray

#: The default estimator's parameters by task. From few factors at first fine texture is not discovered. A learned
#: precision of the weights, which is small, takes faint texture for noise: under noise it is held at its prior mean.
INPAINTING = {"n_burn_in": 8, "n_local_samples": 4, "init_factors": 50.0}
DENOISING = {"weight_precision": 1.0, "init_factors": 50.0}
QUALITIES = ("best", "fast")


class Options(TypedDict, total=False):
    """Parameters that both tasks have."""

    quality: str
    estimator: BaseEstimator | None
    max_iter: int | None
    n_jobs: int | None
    verbose: int
    random_state: RandomState


@overload
def inpaint(
    image: ArrayLike, mask: ArrayLike | None = ..., *, return_std: Literal[False] = ..., **options: Unpack[Options]
) -> np.ndarray: ...


@overload
def inpaint(
    image: ArrayLike, mask: ArrayLike | None = ..., *, return_std: Literal[True], **options: Unpack[Options]
) -> tuple[np.ndarray, np.ndarray]: ...


@overload
def inpaint(
    image: ArrayLike, mask: ArrayLike | None = ..., *, return_std: bool = ..., **options: Unpack[Options]
) -> np.ndarray | tuple[np.ndarray, np.ndarray]: ...


def inpaint(
    image: ArrayLike,
    mask: ArrayLike | None = None,
    *,
    quality: str = QUALITIES[0],
    estimator: BaseEstimator | None = None,
    max_iter: int | None = None,
    return_std: bool = False,
    n_jobs: int | None = None,
    verbose: int = 0,
    random_state: RandomState = None,
) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
    """Fill in missing pixels.

    Parameters
    ----------
    image : array-like of shape (height, width) or (height, width, channels)
        Pixels that are NaN are missing.
    mask : array-like of bool, shape (height, width) or that of the image, default=None
        True where a pixel is missing, whatever its value.
    quality : {"best", "fast"}, default="best"
        "fast" takes about 80 steps without checks on held-out pixels, with at most 64 factors, patches of 6 x 6 to
        8 x 8 pixels and two draws of the dictionary: seconds, for some tenths of a dB.
    estimator : BetaProcessFA, default=None
        In the place of what `quality` says; a clone is fitted to the patches, as its own parameters say. None: a
        dictionary whose size and steps follow from the number of patches of 8 x 8 pixels, at most 250 factors and 3,600
        steps of 250 patches; of grey images it ends sooner where observed pixels that are held out are predicted no
        better. Where more than half of the pixels are missing, and there are 20,000 patches, these have up to 10 x 10
        pixels, it takes all of about 5,000 steps, and the noise of its fit is held at 0.15 standard deviations of the
        observed pixels: give an estimator of your own for noisy images.
    max_iter : int or None, default=None
        Passes over the patches at most, of 50,000 of them where there are more (125,000 where most pixels are missing);
        None: by their number, or as the estimator says.
    return_std : bool, default=False
        Whether to return the standard deviation of each pixel too.
    n_jobs : int or None, default=None
        Threads; never changes a bit of the result. None: one, or as the estimator says.
    verbose : int, default=0
        1: a progress bar. 0: none, or as the estimator says.
    random_state : int, RandomState or None, default=None
        Seed of the default estimator, or of one that has none.

    Returns
    -------
    ndarray
        The image in its own scale and type; pixels that are not missing are unchanged, others lie within the range of
        the observed ones of their channel. Integers are rounded to: give ``image.astype(float)`` for finer levels.
    ndarray
        With `return_std`, posterior standard deviations in the image's scale, noise included; 0 where a pixel is not
        missing.

    Raises
    ------
    ValueError
        For an image or mask of a wrong shape or type, if all pixels are missing, or for another quality.

    Examples
    --------
    >>> import numpy as np
    >>> from sksvi.images import inpaint
    >>> image = np.add.outer(np.arange(20.0), np.arange(20.0))
    >>> holes = np.where(np.random.default_rng(0).random(image.shape) < 0.3, np.nan, image)
    >>> filled, std = inpaint(holes, return_std=True, random_state=0)
    >>> bool(np.abs(filled - image).max() < 2), bool(np.all((std > 0) == np.isnan(holes)))
    (True, True)
    """
    check_choice(quality, "quality", QUALITIES)
    pixels, missing = _checked(image, mask)
    defaults = INPAINTING | to_fill_in(pixels, missing, quality)
    dictionary = learned(
        pixels, missing, estimator, defaults, max_iter=max_iter, n_jobs=n_jobs, verbose=verbose, seed=random_state
    )
    mean, variance = estimated(dictionary, pixels)
    filled = _as_given(np.where(missing, mean, pixels), pixels, image)
    if not return_std:
        return filled
    std = dictionary.scale * np.sqrt(variance + dictionary.noise)
    return filled, np.where(missing, std, 0.0).astype(pixels.dtype).reshape(filled.shape)


@overload
def denoise(
    image: ArrayLike, *, sigma: float | None = ..., return_std: Literal[False] = ..., **options: Unpack[Options]
) -> np.ndarray: ...


@overload
def denoise(
    image: ArrayLike, *, sigma: float | None = ..., return_std: Literal[True], **options: Unpack[Options]
) -> tuple[np.ndarray, np.ndarray]: ...


@overload
def denoise(
    image: ArrayLike, *, sigma: float | None = ..., return_std: bool = ..., **options: Unpack[Options]
) -> np.ndarray | tuple[np.ndarray, np.ndarray]: ...


def denoise(
    image: ArrayLike,
    *,
    sigma: float | None = None,
    quality: str = QUALITIES[0],
    estimator: BaseEstimator | None = None,
    max_iter: int | None = None,
    return_std: bool = False,
    n_jobs: int | None = None,
    verbose: int = 0,
    random_state: RandomState = None,
) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
    """Remove Gaussian noise.

    Parameters
    ----------
    image : array-like of shape (height, width) or (height, width, channels)
        NaN where a pixel is missing: it is filled in.
    sigma : float or None, default=None
        Standard deviation of the noise in units of the image; None: learned.
    quality : {"best", "fast"}, default="best"
        As in `inpaint`.
    estimator : BetaProcessFA, default=None
        As in `inpaint`.
    max_iter : int or None, default=None
        As in `inpaint`.
    return_std : bool, default=False
        Whether to return the standard deviation of each pixel too.
    n_jobs : int or None, default=None
        As in `inpaint`.
    verbose : int, default=0
        As in `inpaint`.
    random_state : int, RandomState or None, default=None
        Seed of the default estimator, or of one that has none.

    Returns
    -------
    ndarray
        The image without its noise, in its own scale, type and range, as of `inpaint`.
    ndarray
        With `return_std`, posterior standard deviations of the pixels without noise, in the image's scale.

    Raises
    ------
    ValueError
        For an image of a wrong shape or type, another quality, or a sigma that is not positive.

    Examples
    --------
    >>> import numpy as np
    >>> from sksvi.images import denoise
    >>> clean = np.add.outer(np.arange(20.0), np.arange(20.0))
    >>> noisy = clean + np.random.default_rng(0).standard_normal(clean.shape)
    >>> better = denoise(noisy, random_state=0)
    >>> bool(np.std(better - clean) < 0.8 * np.std(noisy - clean))
    True
    """
    if sigma is not None and not 0 < sigma < np.inf:
        raise ValueError(f"sigma must be positive and finite, or None; found {sigma!r}.")
    check_choice(quality, "quality", QUALITIES)
    pixels, missing = _checked(image, None)
    fixed = {} if sigma is None else {"noise": float(sigma)}
    dictionary = learned(
        pixels,
        missing,
        estimator,
        DENOISING | (FAST | {"course": FAST_COURSE} if quality == "fast" else {}),
        fixed,
        max_iter=max_iter,
        n_jobs=n_jobs,
        verbose=verbose,
        seed=random_state,
    )
    mean, variance = estimated(dictionary, pixels)
    clean = _as_given(mean, pixels, image)
    return (clean, np.sqrt(variance).astype(pixels.dtype).reshape(clean.shape)) if return_std else clean


def _as_given(estimate: Array, pixels: Array, image: Any) -> Array:
    """The estimate within the range of each channel's observed pixels, in the image's shape and type."""
    given = np.asarray(image)
    inside = np.clip(estimate, np.nanmin(pixels, (0, 1)), np.nanmax(pixels, (0, 1)))
    return (inside if given.dtype.kind == "f" else np.rint(inside)).astype(given.dtype).reshape(given.shape)


def _checked(image: Any, mask: Any) -> tuple[Array, Array]:
    """Pixels and their mask, (height, width, channels), with at least one observed in every channel."""
    pixels, missing = pixels_of(image, mask)
    if missing.all():
        raise ValueError("every pixel is missing, by mask or as NaN: there is none to learn from.")
    empty = np.flatnonzero(missing.all((0, 1)))
    if len(empty):
        raise ValueError(f"channel {empty[0]} of image has no observed pixel: leave it out.")
    return pixels, missing
