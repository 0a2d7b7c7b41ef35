"""Searches for hyperparameters by the bound with q settled at each of them: where the block has no collapsed bound."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np

from sksvi.algorithms.ascent import WINDOW, ascend
from sksvi.models.base import Blocks, Fit

Array = np.ndarray

#: Share of `tol` to which q settles at each point of the search: its gradient needs the best q.
SETTLED_SHARE = 0.1
#: More evaluations than any search takes: `max_iter` ends it.
MOST_EVALUATIONS = 10_000


class ProfileSearch(ABC):
    """The bound with q settled, as a function of hyperparameters alone; keeps the best q.

    Parameters
    ----------
    fit : Fit
    tol : float
    box : list of (low, high)
        Between what each hyperparameter lies; None: no bound on that side.
    """

    def __init__(self, fit: Fit, tol: float, box: list[tuple[float | None, float | None]]) -> None:
        self.fit, self.tol, self.box = fit, tol, box
        self.low, self.high = np.array(box, dtype=float).T
        #: The best evaluation, with ``q`` and ``bound``.
        self.best: Any = fit.here
        self.flat = self.ended = False
        #: Nats by which q need not settle: of a search that is still far below the best.
        self.slack = 0.0

    @abstractmethod
    def evaluated(self, x: Array) -> tuple[Any, Array]:
        """Evaluation where q has settled at these hyperparameters, and the slope of its bound."""

    def look(self, bound: float) -> bool:
        """Tell the fit of one more evaluation over all data; True: the fit must stop."""
        self.ended = self.ended or self.fit.tick(max(bound, self.best.bound))
        return self.ended

    def search_ends(self, best: float) -> bool:
        """Whether the search ends after an evaluation: the fit must stop, or no further e-fold promises `tol`."""
        return self.look(self.best.bound) or self.flat

    def ascend(self, start: Array, stop: Callable[[float], bool] | None = None) -> None:
        """L-BFGS from these hyperparameters; those that start outside of their bounds start on them."""
        start = np.clip(start, self.low, self.high)
        enough = lambda value: WINDOW * self.tol * self.fit.size(value)  # noqa: E731
        ascend(self, start, self.box, stop or self.search_ends, enough, MOST_EVALUATIONS)

    def settled(self, q: Blocks) -> Any:
        """Evaluation where steps from q end."""
        loose = self.slack / self.fit.size(self.best.bound)
        return self.fit.settle(q, MOST_EVALUATIONS, max(SETTLED_SHARE * self.tol, loose), self.look)

    def __call__(self, x: Array) -> tuple[float, Array]:
        """Bound and its slope; q starts from the messages of the best hyperparameters so far."""
        here, slope = self.evaluated(x)
        each = zip(slope.tolist(), x.tolist(), self.low.tolist(), self.high.tolist(), strict=True)
        promised = sum(abs(s) for s, at, low, high in each if (at < high if s > 0 else at > low))
        self.flat = promised < self.tol * self.fit.size(here.bound)
        if here.bound > self.best.bound:
            self.best = here
        return here.bound, slope
