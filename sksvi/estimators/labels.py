"""Labels of classes: words, or numbers that are whole or two; never measurements, never missing."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets

from sksvi.estimators.magnitudes import check_magnitudes

Array = np.ndarray


def check_labels(y: Any, name: str = "y") -> Array:
    """A column of labels in a type of which each has its place.

    Raises
    ------
    ValueError
        Naming the parameter: no column, a missing label, words among numbers, measurements.
    """
    if y is None:
        raise ValueError(f"{name} is None and must be labels.")
    try:
        labels = column_or_1d(y, warn=True)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} should be a 1d array of labels: {error}") from error
    if not len(labels) and name != "y":  # rows are counted with those of X
        raise ValueError(f"{name} is empty (0 sample(s)): it must hold labels.")
    if labels.dtype.kind in "cmMV":
        raise ValueError(f"{name} has type {labels.dtype}: labels are words or whole numbers.")
    if labels.dtype.kind == "O":
        labels = _plain(labels, name)
    if labels.dtype.kind == "f":
        finite = np.isfinite(labels)
        if not np.all(finite):
            raise ValueError(f"{name} contains NaN or infinity: row {int(np.argmin(finite))} has no label.")
        check_magnitudes(labels, name, largest=2.0**53)
    try:
        check_classification_targets(labels)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be labels: {error}") from error
    return labels


def is_text(labels: Array) -> bool:
    """Whether labels are words."""
    return labels.dtype.kind in "OUS"


def _plain(labels: Array, name: str) -> Array:
    """Objects that are all numbers as numbers; words stay."""
    import pandas as pd

    missing = pd.isna(labels)
    if np.any(missing):
        raise ValueError(f"{name} contains NaN: row {int(np.argmax(missing))} has no label.")
    kinds = sorted({"a word" if isinstance(value, str | bytes) else "a number" for value in labels})
    if len(kinds) > 1:
        raise ValueError(f"{name} mixes words and numbers: make its labels all of one kind.")
    if kinds == ["a number"]:
        try:
            return np.array(labels.tolist())
        except ValueError as error:
            raise ValueError(f"{name} must be labels: {error}") from error
    return labels
