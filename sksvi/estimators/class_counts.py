"""Counts of classes as targets: a table (n, K) whose rows are so many trials of each class."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from sksvi import likelihoods
from sksvi.estimators.checks import check_numbers
from sksvi.estimators.levels import is_text
from sksvi.likelihoods import Multinomial
from sksvi.models.data import Table

Array = np.ndarray


def counts_classes(estimator: Any) -> bool:
    """Whether y is a table of counts, a column for each class."""
    spec = estimator.likelihood
    return isinstance(spec, Multinomial) if isinstance(spec, likelihoods.Likelihood) else spec == "multinomial"


def class_counts(y: Any, classes: Array | None) -> tuple[Array, Array]:
    """Counts (n, K) and the classes, which are the columns of a frame, else 0 to K - 1.

    Parameters
    ----------
    y : array-like of shape (n, K)
    classes : ndarray of shape (K,) or None
        Those of the fit, whose order columns are brought to; None: the table says them.

    Raises
    ------
    ValueError
        Naming y: not a table, other columns than the fit had, counts that are negative or not finite.
    """
    columns = getattr(y, "columns", None)
    shape = np.shape(y)
    if len(shape) != 2 or shape[1] < 2:
        raise ValueError(
            'likelihood="multinomial" needs y as a table of counts of shape (n, K), a column for each class, K >= 2; '
            f'found shape {shape}. Labels are for likelihood="softmax".'
        )
    counts = check_numbers(y, "y")
    found = np.arange(counts.shape[1]) if columns is None else np.asarray(columns)
    found = found.astype(str) if found.dtype == object else found
    if len(set(found.tolist())) < len(found):
        raise ValueError(f"y has columns of the same name: {found.tolist()}; each class has one.")
    if classes is not None and columns is not None:
        if sorted(found.tolist(), key=str) != sorted(classes.tolist(), key=str):
            raise ValueError(f"y has the columns {found.tolist()}, and the classes of the fit are {classes.tolist()}.")
        at = {name: k for k, name in enumerate(found.tolist())}
        counts, found = counts[:, [at[name] for name in classes.tolist()]], classes
    elif classes is not None and not np.array_equal(found, classes):
        raise ValueError(
            f"y has {len(found)} columns without names, and the classes of the fit are {classes.tolist()}: give a "
            "frame with these columns."
        )
    Multinomial(n_classes=len(found)).check_target(counts)
    return counts, found


def by_trial(data: Table, names: Array) -> Table:
    """Rows of labels with counts as weights, one for each class that a row of counts has.

    Raises
    ------
    ValueError
        No count at all.
    """
    row, column = np.nonzero(data.y)
    if not len(row):
        raise ValueError("y is 0 in every row and column: there is no trial of any class to learn from.")
    counts = np.asarray(data.y)[row, column].astype(float)
    taken = data.take(row)
    weight = counts if taken.weight is None else taken.weight * counts
    return replace(taken, y=names[column], weight=weight)


def in_order(names: Array) -> bool:
    """Whether a binary search finds each name."""
    return not is_text(names) and bool(np.all(names[1:] > names[:-1]))
