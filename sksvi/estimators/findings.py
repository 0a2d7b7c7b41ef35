"""What a user should know about a fit that stands, and would not see in its numbers: told here and nowhere else.

A finding is one sentence: what was found, and what to do. Any estimator contributes its own in `BaseSVI._findings`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from sksvi._machine.warned import warn_user

Array = np.ndarray


def tell(findings: Iterable[str]) -> None:
    """Each finding as a `UserWarning`."""
    for text in findings:
        warn_user(text)


def of_target(likelihood: Any, y: Array, n: int) -> Iterator[str]:
    """A target that says nothing: no event in any row, events in all that could have one, one measured value.

    Parameters
    ----------
    likelihood : Likelihood
    y : ndarray of shape (n,), or (n, 2) successes and failures
        Or every value that the n rows have.
    n : int
    """
    first = np.ravel(y[0])
    if likelihood.ordered or (not np.all(y == y[0]) and not likelihood.paired):
        return
    if not likelihood.discrete and not likelihood.classifies:
        yield (
            f"y is {first[0]:g} in all {n} rows: there is nothing to explain, and noise and effects were learned "
            "down to the least that a fit allows. Check the target."
        )
    else:
        what = one_sided(likelihood, y)
        if what:
            yield (
                f"{what} in all {n} rows: the data bound the prediction from one side only, the rest is prior, "
                "and they say nothing about columns or dispersion; their best fit is far away, so that `max_iter` may "
                "end the fit. Add rows in which the other happened, or fix the priors to what you know."
            )


def one_sided(likelihood: Any, y: Array) -> str:
    """How the targets are all at one end of what they may be; empty where they are not."""
    if not likelihood.paired:
        at_end = not likelihood.ordered and y[0] in (likelihood.support.low, likelihood.support.high)
        return f"y is {y[0]:g}" if at_end and np.all(y == y[0]) else ""
    ends = ("no success", "no failure")
    return next((text for text, column in zip(ends, likelihood.outcomes(y), strict=True) if not np.any(column)), "")


def separation(names: list[str], n: int) -> str:
    """Labels that a combination of columns tells apart; the columns that matter most in it, the first most."""
    return (
        f"a combination of columns, mostly {', '.join(names)}, tells the labels of all {n} rows apart (perfect "
        "separation): the data say that its coefficients are large and not how large, so that their size is the "
        "prior's. Look whether a column gives the label away; else set prior_precision to a number that says how "
        "large an effect can be, such as 1.0 on scaled columns."
    )


def other_order(X: Any, **beside: Any) -> Iterator[str]:
    """Rows whose labels are those of X in another order: scikit-learn takes them by position, pandas by label.

    Parameters
    ----------
    X : table
    **beside : array-like or None
        What has a value per row, by name.
    """
    labels = _labels(X)
    for name, values in beside.items():
        own = _labels(values)
        if labels is None or own is None or len(own) != len(labels) or own.equals(labels):
            continue
        if own.is_unique and labels.is_unique and np.all(labels.get_indexer(own) >= 0):
            row = int(np.argmin(labels.get_indexer(own) == np.arange(len(own))))
            at_x, at_own = (index[[row]].tolist()[0] for index in (labels, own))
            yield (
                f"X and {name} have the same index in different orders (row {row} is {at_x!r} in X and "
                f"{at_own!r} in {name}), and rows were taken by their position. If they belong together by label, "
                f"give {name}.loc[X.index]; if by position, {name}.to_numpy()."
            )


def _labels(table: Any) -> Any:
    """The index of a frame or series, or None."""
    index = getattr(table, "index", None)
    return index if hasattr(index, "get_indexer") else None
