"""The search for a dynamic model's parameters: where it begins, what it sees, and where else it looks."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from sksvi.algorithms.ascent import WINDOW, ascend
from sksvi.families.base import NotPositiveDefinite
from sksvi.families.gaussian.chain import ChainGaussian
from sksvi.models.base import Fit, Table

Array = np.ndarray

#: Share of `tol` to which q settles at each point of the search: its gradient needs the best q.
SETTLED_SHARE = 0.1
#: More evaluations than any search takes: `max_iter` ends it.
MOST_EVALUATIONS = 10_000
#: Most e-folds by which a search moves a likelihood's parameter.
WIDEST = 12.0
#: A search from elsewhere is given up where what it lacks is more than so many of its last gains.
PATIENCE = 20.0


def first_messages(likelihood: Any, data: Table) -> tuple[Array, Array]:
    """The message of each point alone: its log density to second order where its value is likely."""
    f = likelihood.cdf_centre(data.y)
    if f.ndim > 1:  # several places where it bends (ordered levels): between them
        f = f.mean(axis=0)
    _, slope, bend = likelihood.derivatives(data.y, f)
    weights = np.maximum(-np.broadcast_to(bend, slope.shape), 0.0)
    linear = slope + weights * (f if data.offset is None else f - data.offset)
    if data.weight is None:
        return linear, weights
    # Values that stand for missing ones are never read.
    return np.where(data.weight > 0, linear, 0.0) * data.weight, np.where(data.weight > 0, weights, 0.0) * data.weight


class Reached(NamedTuple):
    """Blocks, and the bound there."""

    q: dict[str, Any]
    bound: float


class Search:
    """The bound with q settled, as a function of the parameters; keeps the best q."""

    def __init__(self, model: Any, fit: Fit, tol: float, names: list[str]) -> None:
        self.model, self.fit, self.tol, self.names = model, fit, tol, names
        self.best: Any = fit.here
        self.flat = self.ended = False
        self.refused: ValueError | None = None
        self.start = np.concatenate([fit.q[name].value for name in names])
        self.box: list[tuple[float | None, float | None]] = []
        for name in names:
            here = fit.q[name].value.tolist()
            self.box += model.dynamics.box if name == "dynamics" else [(x - WIDEST, x + WIDEST) for x in here]

    def look(self, bound: float) -> bool:
        """One more look at all data; True: the fit must stop."""
        try:
            self.ended = self.ended or self.fit.tick(max(bound, self.best.bound))
        except ValueError as error:
            self.refused = error
            raise
        return self.ended

    def seen(self, best: float) -> bool:
        """After every evaluation; True: the fit must stop, or no parameter's next e-fold promises `tol`."""
        return self.look(self.best.bound) or self.flat

    def ascend(self, start: Array, seen: Any = None) -> None:
        """L-BFGS from these parameters."""
        start = np.clip(start, *np.array(self.box, dtype=float).T)
        enough = lambda value: WINDOW * self.tol * self.fit.size(value)  # noqa: E731
        ascend(self, start, self.box, seen or self.seen, enough, MOST_EVALUATIONS)

    def elsewhere(self) -> None:
        """Searches from where one parameter or several began in another place: the bound has more than one top."""
        assert self.names[0] == "dynamics"
        for other in self.model.dynamics.others:
            if self.ended:
                return
            start = self.start.copy()
            for place, value in other.items():
                start[place] = value
            try:
                self.ascend(start, _Rival(self))
            except NotPositiveDefinite:  # without a bound there no search begins
                continue

    def settled(self, q: dict[str, Any]) -> Any:
        """Evaluation where steps from q end."""
        try:
            return self.fit.settle(q, MOST_EVALUATIONS, SETTLED_SHARE * self.tol, self.look)
        except ValueError as error:  # no step is possible from here: a point to step back from
            if error is self.refused:  # a callback's own
                raise
            raise NotPositiveDefinite(str(error)) from error

    def closed(self, q: dict[str, Any]) -> Reached:
        """The best q, whose messages are known, and its bound."""
        model, data = self.model, self.fit.data
        chain = q["latents"].chain
        q["latents"] = ChainGaussian(chain, *first_messages(model.current_likelihood(q), data))
        value = float(model.terms(q, data, self.fit.expect, None).value.sum())
        return Reached(q, self.fit.scale * value - self.fit.divergence(q))

    def __call__(self, x: Array) -> tuple[float, Array]:
        """Bound and its slope; q starts from the messages of the best parameters so far."""
        values = {name: self.fit.q[name].value for name in self.model.hyper}
        begin = 0
        for name in self.names:
            size = values[name].size
            values[name], begin = x[begin : begin + size], begin + size
        q = self.model.at(values, self.best.q["latents"])
        here = self.closed(q) if self.model.likelihood.closed_posterior else self.settled(q)
        slopes = self.model.slopes(here.q, self.fit.data, self.fit.expect)
        slope = np.concatenate([slopes[name] for name in self.names])
        if not (np.isfinite(here.bound) and np.all(np.isfinite(slope))):
            raise NotPositiveDefinite("the bound or its slope is not finite at these parameters")
        low, high = np.array(self.box, dtype=float).T
        inside = np.where(slope > 0, x < high, x > low)
        self.flat = float(np.abs(slope[inside]).sum()) < self.tol * self.fit.size(here.bound)
        if here.bound > self.best.bound:
            self.best = here
        return here.bound, slope


class _Rival:
    """Tells when a search from elsewhere has ended, or gains so little that it will not catch up with the best."""

    def __init__(self, search: Search) -> None:
        self.search, self.best, self.last = search, search.best.bound, -np.inf

    def __call__(self, bound: float) -> bool:
        gained, self.last = bound - self.last, bound
        return self.search.seen(bound) or 0 < gained * PATIENCE < self.best - bound
