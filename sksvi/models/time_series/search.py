"""The search for a dynamic model's parameters: first messages, its steps, and other starts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from sksvi.algorithms.ascent import finite
from sksvi.families.base import NotPositiveDefinite
from sksvi.families.gaussian.chain import ChainGaussian
from sksvi.likelihoods.continuous import expected_from_squares
from sksvi.models.base import Fit
from sksvi.models.data import Table
from sksvi.models.per_latent import ProfileSearch

Array = np.ndarray

#: Most e-folds by which a search moves a likelihood's parameter.
WIDEST = 27.0
#: A search from elsewhere is given up where what it lacks is more than so many times what its next step promises, or
#: what each of so many last ones gained.
PATIENCE, SLOW = 20.0, 3
#: Share of what it lacks by which q need not settle there.
LOOSE = 0.1
#: How far apart slopes are compared, in parameters that are logarithms and logits.
NEARBY = 1e-4


def first_messages(likelihood: Any, data: Table) -> tuple[Array, Array]:
    """The message of each point alone: its log density to second order where its value is likely."""
    if likelihood.noise_variance is not None:  # of that order already
        return closed_messages(likelihood, data.centred, data.weight)
    f = likelihood.cdf_centre(data.y)
    if f.ndim > 1:  # several places where it bends (ordered levels): between them
        f = f.mean(axis=0)
    _, slope, bend = likelihood.derivatives(data.y, f)
    if likelihood.traits.quantile:  # a kink bends nowhere beside it
        slope, bend = np.zeros_like(slope), -1.0 / likelihood.conditional_variance(f)
    weights = np.maximum(-np.broadcast_to(bend, slope.shape), 0.0)
    linear = slope + weights * (f if data.offset is None else f - data.offset)
    if data.weight is None:
        return linear, weights
    # Values that stand for missing ones are never read.
    return np.where(data.weight > 0, linear, 0.0) * data.weight, np.where(data.weight > 0, weights, 0.0) * data.weight


def closed_messages(likelihood: Any, at: Array, weight: Array | None) -> tuple[Array, Array]:
    """The messages of the best q under Gaussian noise: of values without offsets, whatever q is."""
    precision = 1.0 / likelihood.noise_variance
    weights = np.full(len(at), precision) if weight is None else weight * precision
    return at * weights, weights


class Optimum(NamedTuple):
    """The best q under Gaussian noise, and the bound there."""

    q: dict[str, Any]
    bound: float

    @property
    def gradient(self) -> dict[str, Any]:
        """Gradient of the data's part of the bound, E log p: at the best q it is what the messages say."""
        block = self.q["latents"]
        return {"latents": (block.dual, -0.5 * block.weights)}


class ConjugateOptimum:
    """The best q under Gaussian noise, whose messages have a closed form, its bound, and the slopes of that.

    Parameters
    ----------
    model : DynamicModel
    data : Table
    scale : float
        What E log p of the data is multiplied by.
    """

    def __init__(self, model: Any, data: Table, scale: float) -> None:
        self.model, self.weight, self.scale = model, data.weight, scale
        self.at = data.centred
        self.n = float(len(data)) if data.weight is None else float(data.weight.sum())

    def __call__(self, q: dict[str, Any]) -> tuple[Optimum, dict[str, Array]]:
        """The optimum under the parameters of q, whose messages do not matter, and the slopes of its bound."""
        model, at, weight = self.model, self.at, self.weight
        likelihood, chain = model.current_likelihood(q), q["latents"].chain
        block = ChainGaussian(chain, *closed_messages(likelihood, at, weight))
        swept = block.swept
        off, variance = at - swept.mean, swept.variance
        if weight is None:
            total = off @ off + np.add.reduce(variance)  # `sum` takes twice as long to begin
        else:
            total = np.square(off) @ weight + variance @ weight
        value, slope = expected_from_squares(likelihood, float(total), self.n)
        settled = {**q, "latents": block}
        slopes = {"dynamics": model.slope(settled)}
        if "likelihood" in q:
            slopes["likelihood"] = slope + model.prior_at("likelihood", q["likelihood"].value)[1]
        return Optimum(settled, self.scale * value - swept.kl + model.log_prior(q)), slopes


class SeriesSearch(ProfileSearch):
    """Search for the parameters of states and likelihood, from several starts."""

    def __init__(self, model: Any, fit: Fit, tol: float, names: list[str]) -> None:
        self.model, self.names = model, names
        self.refused: ValueError | None = None
        #: Where q settled last.
        self.block: Any = None
        #: Values of all parameters, and where those that are searched for stand in a vector of them.
        self.values = {name: fit.q[name].value for name in model.hyper}
        ends = np.cumsum([self.values[name].size for name in names]).tolist()
        self.places = {name: slice(end - self.values[name].size, end) for name, end in zip(names, ends, strict=True)}
        self.start = np.concatenate([self.values[name] for name in names])
        self.n_dynamics = self.values["dynamics"].size if "dynamics" in names else 0
        box: list[tuple[float | None, float | None]] = []
        for name in names:
            here = fit.q[name].value.tolist()
            box += model.dynamics.box if name == "dynamics" else [(x - WIDEST, x + WIDEST) for x in here]
        super().__init__(fit, tol, box)
        self.closed = ConjugateOptimum(model, fit.problem.data, fit.problem.scale)

    def look(self, bound: float) -> bool:
        """Count one more evaluation on all data; an error of a callback's is remembered as such."""
        try:
            return super().look(bound)
        except ValueError as error:
            self.refused = error
            raise

    def elsewhere(self) -> None:
        """Searches from where one parameter or several began in another place: the bound has more than one top.

        Parameters that a fit brought along, or found on a part of the points, are an end of such searches already.
        """
        assert self.names[0] == "dynamics"
        first = self.model.dynamics.start
        prior, others = self.model.weak_prior, self.model.dynamics.others
        others = others if prior is None else [prior.starts(other) for other in others]
        for other in {tuple(sorted(other.items())): other for other in others}.values():
            if self.ended:
                return
            if not any(self.start[place] == first[place] for place in other):
                continue
            start = self.start.copy()
            for place, value in other.items():
                start[place] = value
            before, periods = self.best, [place for place in self.model.dynamics.periods if place in other]
            try:
                with self.fixed(periods, start):
                    self.ascend(start, _Rival(self))
            except NotPositiveDefinite:  # without a bound there no search begins
                continue
            finally:
                self.slack = 0.0
            if periods and self.best is not before and not self.ended:
                self.ascend(np.concatenate([self.best.q[name].value for name in self.names]))

    @contextmanager
    def fixed(self, places: list[int], start: Array) -> Iterator[None]:
        """Context of a search with some parameters fixed at their start.

        A period runs off before variances and damping are its own.
        """
        free = self.box, self.low, self.high
        ends = {place: start[place] for place in places}
        self.box = [(ends.get(place, low), ends.get(place, high)) for place, (low, high) in enumerate(self.box)]
        self.low, self.high = np.array(self.box, dtype=float).T
        try:
            yield
        finally:
            self.box, self.low, self.high = free

    def settled(self, q: dict[str, Any]) -> Any:
        """Evaluation where steps from q end."""
        try:
            return super().settled(q)
        except ValueError as error:  # no step is possible from here: a point to step back from
            if error is self.refused:  # a callback's own
                raise
            raise NotPositiveDefinite(str(error)) from error

    def under(self, x: Array, block: ChainGaussian) -> dict[str, Any]:
        """q with the messages of `block` under parameters x."""
        return self.model.at({**self.values, **{name: x[rows] for name, rows in self.places.items()}}, block)

    def evaluated(self, x: Array) -> tuple[Any, Array]:
        """Evaluation at parameters x, and its slope: q settles from the best messages so far, or has a closed form."""
        self.block = None  # else its arrays are held beside those of this one
        q = self.under(x, self.best.q["latents"])
        if self.model.likelihood.noise_variance is not None:
            here, slopes = self.closed(q)
        else:
            here = self.settled(q)
            slopes, self.bend = self.model.slopes(here.q, self.fit.problem.data, self.fit.problem.expect)
        slope = self.stacked(slopes)
        if not finite(here.bound, slope):
            raise NotPositiveDefinite("the bound or its slope is not finite at these parameters")
        self.block = here.q["latents"]
        return here, slope

    def stacked(self, slopes: dict[str, Array]) -> Array:
        """Slopes of all blocks as one vector, in the order of `names`."""
        return np.concatenate([slopes[name] for name in self.names])

    def curvature(self, x: Array, slope: Array) -> Array:
        """Minus the second derivatives where q settled last, by differences of slopes at messages that stay.

        What messages do to the slopes as they settle is the smaller part, and would take sweeps; closed ones are known.
        """
        n, H, block = self.n_dynamics, np.zeros((len(x), len(x))), self.block
        try:
            for place in range(n):
                neighbour, step = self.neighbour(x, place)
                H[:n, place] = (slope[:n] - self.model.slope(self.under(neighbour, block))) / step
            H[:n, :n] = 0.5 * (H[:n, :n] + H[:n, :n].T)
            if n < len(x) and self.model.likelihood.noise_variance is not None:
                neighbour, step = self.neighbour(x, n)
                H[:, n] = H[n] = (slope - self.stacked(self.closed(self.under(neighbour, block))[1])) / step
            elif n < len(x):
                H[n:, n:] = -self.bend
        except NotPositiveDefinite:
            return np.diag(np.abs(slope))
        return H

    def neighbour(self, x: Array, place: int) -> tuple[Array, float]:
        """A point beside x, one coordinate moved, and the step that was taken."""
        there = x.copy()
        there[place] += NEARBY if x[place] + NEARBY < self.high[place] else -NEARBY
        return there, float(there[place] - x[place])


class _Rival:
    """Stopping rule of a search from another start: it has ended, or gains too little to catch up with the best."""

    def __init__(self, search: SeriesSearch) -> None:
        self.search, self.best, self.last, self.slow = search, search.best.bound, -np.inf, 0

    def __call__(self, value: float, promised: float) -> bool:
        lacks, search, gained = self.best - value, self.search, value - self.last
        self.last, search.slack = value, LOOSE * max(lacks, 0.0)
        # A step that found nothing says only that it was too long.
        self.slow = self.slow + (gained > 0.0) if gained * PATIENCE < lacks else 0
        hopeless = promised * PATIENCE < lacks or self.slow >= SLOW
        little = search.tol * search.fit.size(self.best)
        again = promised < little and lacks > -little  # it ends where the best did, and need not get there
        return search.should_stop(value, promised) or hopeless or again
