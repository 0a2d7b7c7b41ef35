"""Offsets: what a fit was given, predictions should be given too."""

from __future__ import annotations

from typing import Any

import numpy as np

from sksvi import likelihoods
from sksvi._runtime.user import warn_user
from sksvi.estimators.checks import LARGEST_LATENT, check_magnitudes, check_numbers, check_row_values, n_rows
from sksvi.estimators.fit_warnings import other_order, warn_all
from sksvi.inference.records import replace
from sksvi.partitions.collections import is_collection


class Once:
    """Whether a fit has warned; copies that answer for it share it, and files leave it out."""

    warned = False


def remember_offset(estimator: Any, offset: Any, before: bool = False) -> None:
    """Keep whether the rows of a fit, or those of a stream `before` them, had an offset."""
    had_offset = before or (offset is not None and bool(np.any(offset)))
    estimator._record = replace(estimator._record, had_offset=had_offset)
    estimator._offset_warning = Once()


def remember_exposure(estimator: Any, exposure: Any, streams: bool = False) -> Any:
    """The estimator, which knows from now on by which name it got its offset, if it got one.

    streams: the rows go on those of earlier calls.
    """
    had_exposure = exposure is not None or (streams and estimator._record.had_exposure)
    estimator._record = replace(estimator._record, had_exposure=had_exposure)
    return estimator


def checked_offset(estimator: Any, offset: Any, X: Any, **beside: Any) -> np.ndarray | None:
    """The offset of rows to predict, or None; the first time that the fit had one and they have none, a warning.

    beside: what else says which rows they are, by name.
    """
    warn_all(other_order(X=X, **beside, offset=offset))
    once = vars(estimator).setdefault("_offset_warning", Once())
    if offset is None and estimator._record.had_offset and not once.warned:
        once.warned = True
        name, none = ("exposure", 1) if estimator._record.had_exposure else ("offset", 0)
        warn_user(
            f"this {type(estimator).__name__} was fitted with an {name} and predicts without one, as if it were "
            f"{none}: give these rows theirs ({name}=...), or {name}={none} where that is meant."
        )
    return offset_of(estimator, offset, n_rows(_first(X, **beside)))


def _first(*tables: Any, **beside: Any) -> Any:
    """The first of what says which rows there are, or None."""
    return next((table for table in (*tables, *beside.values()) if table is not None), None)


def given_likelihood(estimator: Any) -> Any:
    """The parameter, or what it stands for before a fit where data choose among several."""
    return getattr(estimator, "_likelihood_given", estimator.likelihood)


def with_exposure(estimator: Any, offset: Any, exposure: Any, X: Any, **beside: Any) -> Any:
    """The offset of rows with these exposures: their logarithm is added to it, by position.

    Parameters
    ----------
    estimator : estimator with a ``likelihood``
    offset, exposure : number, array-like or collection, or None
    X : anything with as many rows, or None where exposures, or what is beside it, say how many there are
    **beside : table, array-like, index or None
        What else says which rows they are, by name.

    Raises
    ------
    ValueError
        A likelihood whose mean is not exp(f), an exposure that is not positive, or not one for each row.
    """
    if exposure is None:
        return offset
    spec = given_likelihood(estimator)
    if spec in likelihoods.OF_CLASSES or likelihoods.resolve(spec).ratio != "rate":
        raise ValueError(
            f"exposure multiplies a rate exp(f), as 'poisson' and 'negative-binomial' have it, and likelihood={spec!r} "
            "has none: offset= is added to f under any likelihood."
        )
    rows = _first(X, **beside)
    if is_collection(exposure):
        logarithm = np.log(exposure)
        return logarithm if offset is None else offset + logarithm
    warn_all(other_order(X=X, **beside, offset=offset, exposure=exposure))
    if rows is None or is_collection(rows):
        exposure = check_numbers(exposure, "exposure")
    else:
        exposure = check_row_values(exposure, n_rows(rows), "exposure")
        offset = check_row_values(offset, n_rows(rows), "offset")
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
    spec = given_likelihood(estimator)
    link = spec in likelihoods.OF_CLASSES or not likelihoods.resolve(spec).traits.additive
    if offset is not None and link:
        check_magnitudes(offset, "offset", unit=f" in the latent of likelihood={spec!r}", largest=LARGEST_LATENT)
    return offset
