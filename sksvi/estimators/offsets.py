"""Offsets: what a fit was given, predictions should be given too."""

from __future__ import annotations

import warnings
from typing import Any
from weakref import WeakSet

import numpy as np

from sksvi import likelihoods
from sksvi.estimators.checks import check_numbers, check_row_values
from sksvi.estimators.magnitudes import LARGEST_LATENT, check_magnitudes
from sksvi.partitions.collections import is_collection

#: Estimators whose users have been told; no attribute, as predictions change nothing on an estimator.
_TOLD: WeakSet[Any] = WeakSet()


def remember_offset(estimator: Any, offset: Any, before: bool = False) -> None:
    """Keep whether the rows of a fit, or those of a stream `before` them, had an offset."""
    estimator._had_offset = before or (offset is not None and bool(np.any(offset)))
    _TOLD.discard(estimator)


def checked_offset(estimator: Any, offset: Any, n: int) -> np.ndarray | None:
    """The offset of n rows to predict, or None; the first time that the fit had one and they have none, a warning."""
    if offset is None and getattr(estimator, "_had_offset", False) and estimator not in _TOLD:
        _TOLD.add(estimator)
        warnings.warn(
            f"this {type(estimator).__name__} was fitted with an offset and predicts without one, as if it were 0: "
            "give these rows theirs (offset=..., or exposure=... where the fit had that), or offset=0 where that is "
            "meant.",
            UserWarning,
            stacklevel=5,
        )
    return offset_of(estimator, offset, n)


def with_exposure(estimator: Any, offset: Any, exposure: Any) -> Any:
    """The offset of rows with these exposures: their logarithm is added to it.

    Raises
    ------
    ValueError
        A likelihood whose mean is not exp(f), or an exposure that is not positive.
    """
    if exposure is None:
        return offset
    spec = estimator.likelihood
    if spec == "softmax" or likelihoods.resolve(spec).ratio != "rate":
        raise ValueError(
            f"exposure multiplies a rate exp(f), as 'poisson' and 'negative-binomial' have it, and likelihood={spec!r} "
            "has none: offset= is added to f under any likelihood."
        )
    if is_collection(exposure):
        logarithm = np.log(exposure)
        return logarithm if offset is None else offset + logarithm
    exposure = check_numbers(exposure, "exposure")
    if not np.all(exposure > 0):
        row = int(np.argmin(np.ravel(exposure)))
        raise ValueError(f"exposure must be positive; found {np.ravel(exposure)[row]:g} in row {row}.")
    logarithm = np.log(exposure)
    logarithm = float(logarithm) if logarithm.ndim == 0 else logarithm
    return logarithm if offset is None else check_numbers(offset, "offset") + logarithm


def offset_of(estimator: Any, offset: Any, n: int) -> np.ndarray | None:
    """The offset of n rows, or None; behind a link it cannot be as large as a measured target.

    Raises
    ------
    ValueError
        Naming the row.
    """
    offset = check_row_values(offset, n, "offset")
    spec = estimator.likelihood
    link = spec == "softmax" or not likelihoods.resolve(spec).measured
    if offset is not None and link:
        check_magnitudes(offset, "offset", unit=f" in the latent of likelihood={spec!r}", largest=LARGEST_LATENT)
    return offset
