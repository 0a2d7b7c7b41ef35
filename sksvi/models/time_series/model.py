"""A latent in time under any scalar likelihood: one message per point (doc/time_series.md)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np

from sksvi.algorithms.rules import SEARCHED, Rule, Searched
from sksvi.families import Free
from sksvi.families.gaussian.chain import ChainGaussian
from sksvi.models.base import Fit, LinearTerms, Starts
from sksvi.models.data import Table
from sksvi.models.per_latent import MeanTrial, PerLatent
from sksvi.models.time_series.components import Dynamics
from sksvi.models.time_series.population import PopulationPrior
from sksvi.models.time_series.search import ConjugateOptimum, Optimum, SeriesSearch, closed_messages, first_messages
from sksvi.models.time_series.weak_prior import WeakPrior
from sksvi.models.traits import Traits

Array = np.ndarray

#: Points whose expectations are found at a time: what is between them stays in the cache.
TOGETHER = 2**13


@dataclass(frozen=True)
class SeriesStarts(Starts):
    """First messages, which are those of the optimum under Gaussian noise."""

    model: DynamicModel

    def filled(self, q: dict[str, Any], data: Table) -> dict[str, Any]:
        """Messages as each point alone would have them: from none, under a wide prior, no first step succeeds."""
        block = q["latents"]
        if not block.bare_prior:
            return q
        return q | {"latents": ChainGaussian(block.chain, *first_messages(self.model.current_likelihood(q), data))}

    def is_optimal(self, q: dict[str, Any], data: Table) -> bool:
        """Whether q is optimal: under Gaussian noise, where the messages are those of the data."""
        likelihood, block = self.model.current_likelihood(q), q["latents"]
        if likelihood.noise_variance is None:
            return False
        linear, weights = closed_messages(likelihood, data.centred, data.weight)
        return np.array_equal(block.linear, linear) and np.array_equal(block.weights, weights)

    def optimum(self, q: dict[str, Any], data: Table, scale: float) -> Optimum | None:
        """The best q and its bound under Gaussian noise, where the messages are those of the data; else None."""
        searched = "dynamics" in q and self.is_optimal(q, data)
        return ConjugateOptimum(self.model, data, scale)(q)[0] if searched else None


class DynamicModel(PerLatent):
    """States of a latent in time as one block of messages, their parameters and the likelihood's as free blocks.

    Parameters
    ----------
    likelihood : Likelihood
        Of one latent, with every parameter a number; those in ``likelihood.learned`` are searched for too.
    dynamics : Dynamics
    X : ndarray of shape (T, E)
        Columns of the coefficients.
    weight : ndarray of shape (T,), optional
        0 where nothing was observed.
    learned : bool, default=True
        Whether parameters move.
    theta : ndarray, optional
        First parameters; None: the dynamics' own.
    unit : float, default=1.0
        Of a measured target.
    chain : Chain, optional
        Of points that follow others; None: the dynamics' own. With it no parameter is there to move.
    prior : WeakPrior or PopulationPrior, optional
        Of the parameters, whose density the bound then has; None: a flat one of their logarithms.
    messages : ChainGaussian, optional
        Those that a fit begins with; None: those of each point alone.
    walked : ChainGaussian, optional
        Where a level that walks had ended, of one that was chosen among several.
    """

    def __init__(
        self,
        likelihood: Any,
        dynamics: Dynamics,
        X: Array,
        weight: Array | None = None,
        learned: bool = True,
        theta: Array | None = None,
        unit: float = 1.0,
        chain: Any = None,
        prior: WeakPrior | PopulationPrior | None = None,
        messages: ChainGaussian | None = None,
        walked: ChainGaussian | None = None,
    ) -> None:
        self.likelihood = likelihood
        self.dynamics = dynamics
        self.X = X
        self.observed = None if weight is None or np.all(weight > 0) else np.flatnonzero(weight > 0)
        self._last: Any = None  # a point of the search and the likelihood there, asked for several times
        self.learned = learned and chain is None
        self.chain = chain
        self.weak_prior = prior if self.learned else None
        self.theta = dynamics.start if theta is None else theta
        self.messages, self.walked, self.unit = messages, walked, unit

    # ---- blocks
    def current_likelihood(self, q: dict[str, Any]) -> Any:
        """The likelihood with its learned parameters as q has them."""
        if "likelihood" not in q:
            return self.likelihood
        value = q["likelihood"].value
        at = value.tobytes()
        if self._last is None or self._last[0] != at:
            self._last = at, self.likelihood.replace(value)
        return self._last[1]

    def prior(self, q: dict[str, Any]) -> dict[str, Any]:
        """The chain without messages."""
        return {"latents": ChainGaussian(q["latents"].chain)}

    @cached_property
    def traits(self) -> Traits:  # type: ignore[override]
        """The traits of `PerLatent`, whose expectations must be exact where parameters are learned."""
        learns = self.learned and bool(self.theta.size or self.likelihood.learned)
        return replace(
            PerLatent.traits,
            bound=replace(PerLatent.traits.bound, exact_search=learns, log_unit=float(np.log(self.unit))),
            searched=("variances and scales", "give each of them a number"),
            remedy="Fix a variance that the data cannot tell (level_variance and the like), or lower initial_variance.",
        )

    @cached_property
    def hyper(self) -> dict[str, Rule]:
        """Parameters of the states and of the likelihood: `search` finds them."""
        if self.chain is not None:
            return {}
        parts = ["dynamics", *(["likelihood"] if self.likelihood.learned else [])]
        if self.weak_prior is None:
            return dict.fromkeys(parts, SEARCHED)
        return {name: Searched(partial(self._log_prior_of, name)) for name in parts}

    def prior_at(self, name: str, value: Array) -> tuple[float, Array]:
        """Log density of one block of parameters, and its slope."""
        if self.weak_prior is None:
            return 0.0, np.zeros(len(value))
        return self.weak_prior.dynamic(value) if name == "dynamics" else self.weak_prior.of_likelihood(value)

    def _log_prior_of(self, name: str, q: dict[str, Any]) -> float:
        return self.prior_at(name, q[name].value)[0] if name in q else 0.0

    def log_prior(self, q: dict[str, Any]) -> float:
        """Log density of all parameters."""
        return sum(self._log_prior_of(name, q) for name in ("dynamics", "likelihood"))

    def at(self, values: dict[str, Array], block: ChainGaussian | None = None) -> dict[str, Any]:
        """q under these parameters: the prior, or the messages of `block`."""
        chain = self.dynamics.chain(values["dynamics"], self.X) if self.chain is None else self.chain
        q = {"latents": ChainGaussian(chain) if block is None else block.under(chain)}
        return q | {name: Free(value) for name, value in values.items()}

    def begin(self, data: Table, rng: Any, threads: int = 1) -> dict[str, Any]:
        """The prior under the first parameters, or the messages that a fit begins with."""
        values = {"dynamics": self.theta, "likelihood": self.likelihood.unconstrained}
        return self.at({name: values[name] for name in self.hyper}, self.messages)

    @property
    def starts(self) -> Starts:  # type: ignore[override]
        """Messages of each point alone, and under Gaussian noise the optimum."""
        return SeriesStarts(self)

    # ---- gradients
    def parts(self, n: int) -> list[Any]:
        """The observed points, some at a time."""
        if self.observed is None:
            return [slice(start, min(start + TOGETHER, n)) for start in range(0, n, TOGETHER)]
        return [self.observed[start : start + TOGETHER] for start in range(0, len(self.observed), TOGETHER)]

    def pull_back(self, terms: LinearTerms, batch: Table) -> dict[str, Any]:
        """Each latent has its own datum; a message may say that the latent is less sure (Student-t)."""
        return {"latents": (terms.alpha, terms.gamma)}

    def prior_mean(self, block: ChainGaussian) -> Array:
        """Prior mean of f at the points: that of the chain without messages."""
        return ChainGaussian(block.chain).mean

    def stepped(self, block: ChainGaussian, here: MeanTrial) -> tuple[float, Callable[[float], _Moments]]:
        """Slope of the bound along the step to the mean that the data's messages make, and the points on that step."""
        mean, dual, terms = here.point.mean, here.point.dual, here.terms
        curvature = np.maximum(-2.0 * terms.gamma, 0.0)
        there = ChainGaussian(block.chain, terms.alpha + curvature * mean, curvature)
        move, pull = there.mean - mean, there.dual - dual
        return float((terms.alpha - dual) @ move), lambda share: _Moments(mean + move / share, dual + pull / share)

    def with_mean(self, block: ChainGaussian, point: Any) -> ChainGaussian:
        """Messages of the same weights that make this mean."""
        return ChainGaussian(block.chain, point.dual + block.weights * point.mean, block.weights)

    # ---- parameters
    def search(self, fit: Fit, tol: float) -> tuple[dict[str, Any], bool]:
        """Newton's steps on the bound as a function of the parameters alone, with q settled at each of them."""
        names = [name for name in self.hyper if name not in fit.problem.frozen and fit.q[name].value.size]
        if not self.learned or not names or fit.already_searched(names):
            return fit.q, False
        search = SeriesSearch(self, fit, tol, names)
        search.ascend(search.start)
        if "dynamics" in names:
            search.elsewhere()
        best, moved = search.best, search.best.q is not fit.q
        fit.record(best.q, best.gradient, best.bound)
        return best.q, moved

    def slope(self, q: dict[str, Any]) -> Array:
        """Slope of the evidence of the messages, and of the prior, in the parameters of the states."""
        block, theta = q["latents"], q["dynamics"].value
        return self.dynamics.slope(theta, block.chain, block.swept) + self.prior_at("dynamics", theta)[1]

    def slopes(self, q: dict[str, Any], data: Table, expect: Any) -> tuple[dict[str, Array], Array]:
        """Slope in the parameters of the bound with q at its best, and second derivatives in the likelihood's at q."""
        block, out, bend = q["latents"], {"dynamics": self.slope(q)}, np.zeros((0, 0))
        if "likelihood" in q:
            likelihood, P = self.current_likelihood(q), q["likelihood"].value.size
            total, bend = np.zeros(P), np.zeros((P, P))
            for rows in self.parts(len(data)):
                m, v = block.mean[rows], block.variance[rows]
                m = m if data.offset is None else m + data.offset[rows]
                weight = None if data.weight is None else data.weight[rows]
                first, second = expect.parameter_sums(likelihood, data.y[rows], m, v, weight)
                total, bend = total + first, bend + second
            out["likelihood"] = total + self.prior_at("likelihood", q["likelihood"].value)[1]
            bend = bend if self.weak_prior is None else bend + self.weak_prior.bend(q["likelihood"].value)
        return out, bend


class _Moments(NamedTuple):
    """A mean in the place of a block, and its dual."""

    mean: Array
    dual: Array
