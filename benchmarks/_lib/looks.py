"""Scores after some passes of one fit, whose clock stands still meanwhile."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from benchmarks._lib.tables import progress
from benchmarks._lib.timing import Clock


class Looks:
    """Callback: a row of scores after each of `passes`, and once more than `limit` CPU seconds are spent: then it ends.

    ``score(fitted)`` gives the row's entries; with a true ``"ends"`` among them the fit ends too.
    """

    def __init__(self, score: Callable[[Any], dict[str, Any]], passes: Sequence[int], limit: float = np.inf) -> None:
        self.score, self.passes, self.last, self.limit = score, set(passes), max(passes), limit
        self.clock = Clock()
        self.rows: list[dict[str, Any]] = []

    def setup(self, estimator: Any, context: Any) -> None:
        self.clock.__enter__()

    def on_fit_task_begin(self, estimator: Any, context: Any) -> None:
        pass

    def on_fit_task_end(self, estimator: Any, context: Any, *, fitted_estimator: Any = None) -> bool:
        if context.task_name != "pass":
            return False
        self.clock.__exit__()
        done = context.task_id + 1
        ends = self.clock.cpu > self.limit or done == self.last
        if done in self.passes or ends:
            row = {"passes": done, **self.clock.spent, **self.score(fitted_estimator)}
            ends = bool(row.pop("ends", False)) or ends
            self.rows.append(row)
            progress(row)
        self.clock.__enter__()
        return ends

    def teardown(self, estimator: Any, context: Any) -> None:
        pass


def looked(
    model: Any,
    train: tuple[Any, ...],
    score: Callable[[Any], dict[str, Any]],
    passes: Sequence[int],
    limit: float = np.inf,
) -> list[dict[str, Any]]:
    """Rows of one fit; a failure says why in the last one."""
    looks = Looks(score, passes, limit)
    model.set_params(max_iter=max(passes), tol=0.0).set_callbacks(looks)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            model.fit(*train)
        except (ValueError, FloatingPointError) as error:
            looks.rows.append({**looks.clock.spent, "note": str(error)[:160]})
    return looks.rows
