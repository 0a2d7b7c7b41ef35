"""Offsets: what a fit was given, predictions should be given too."""

from __future__ import annotations

import warnings
from typing import Any
from weakref import WeakSet

import numpy as np

from sksvi import likelihoods
from sksvi.estimators.checks import check_row_values
from sksvi.estimators.magnitudes import LARGEST_LATENT, check_magnitudes

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
            "give these rows theirs (offset=...), or offset=0 where that is meant.",
            UserWarning,
            stacklevel=5,
        )
    return offset_of(estimator, offset, n)


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
