"""What is the scale of a column? Three answers of ``prior_precision="auto"`` on the twelve small sets, raw columns.

Ten random halves each (stratified, columns as the file has them): test log loss where a column counts by one or two
standard deviations and one of two values by their distance, and where every column counts by its standard deviation.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from benchmarks._lib import Array
from benchmarks._lib.measures import log_loss
from benchmarks._lib.tables import arguments, progress, report
from benchmarks.glm.small_sets import SETS

SPLITS = 10


def deviations(stats: Any) -> Array:
    """Standard deviation of every column, whatever its values."""
    return np.sqrt(stats.variance)


@contextmanager
def answered(spread: float, rule: Callable[..., Array] | None) -> Iterator[None]:
    """The package with another scale of columns."""
    from sksvi.linear_model import _columns

    before = _columns.SPREAD, _columns.ColumnStats.spread
    _columns.SPREAD = spread
    if rule is not None:
        _columns.ColumnStats.spread = property(rule)
    try:
        yield
    finally:
        _columns.SPREAD, _columns.ColumnStats.spread = before


ANSWERS: dict[str, tuple[float, Callable[..., Array] | None]] = {
    "2 sd, distance": (2.0, None),
    "1 sd, distance": (1.0, None),
    "1 sd for all": (1.0, deviations),
}


def row_of(name: str, n_splits: int) -> dict[str, Any]:
    from sklearn.model_selection import train_test_split

    from sksvi.linear_model import BayesianGLMClassifier

    X, y = SETS[name]()
    found: dict[str, list[float]] = {answer: [] for answer in ANSWERS}
    for seed in range(n_splits):
        A, B, a, b = train_test_split(X, y, test_size=0.5, stratify=y, random_state=seed)
        for answer, (spread, rule) in ANSWERS.items():
            with answered(spread, rule), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                p = BayesianGLMClassifier().fit(A, a).predict_proba(B)[:, 1]
            found[answer].append(log_loss(b, p))
    first = np.array(found["2 sd, distance"])
    row = {"data": name, "columns": X.shape[1], "of two values": sum(len(np.unique(column)) == 2 for column in X.T)}
    for answer, losses in found.items():
        row[answer] = float(np.mean(losses))
    for answer in list(ANSWERS)[1:]:
        difference = np.array(found[answer]) - first
        row[f"{answer}: se of difference"] = float(difference.std(ddof=1) / np.sqrt(n_splits))
    return row


def main(quick: bool = False) -> None:
    rows = []
    for name in ["heart"] if quick else SETS:
        rows.append(row_of(name, 3 if quick else SPLITS))
        progress(rows[-1])
    means = {answer: round(float(np.mean([row[answer] for row in rows])), 4) for answer in ANSWERS}
    notes = [f"Mean log loss over {len(rows)} sets: {', '.join(f'{a}: {loss}' for a, loss in means.items())}."]
    report("glm/spreads", "The scale of a column under one learned prior", rows, notes, quick)


if __name__ == "__main__":
    main(arguments(__doc__))
