"""A latent in time under any scalar likelihood: one message per point (equations.md 9, `DynamicGLM`)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from sksvi.algorithms.ascent import WINDOW, ascend
from sksvi.algorithms.rules import SEARCHED, Rule
from sksvi.algorithms.steps import MAX_HALVINGS
from sksvi.families import Free
from sksvi.families.base import NotPositiveDefinite
from sksvi.families.gaussian.chain import ChainGaussian
from sksvi.models.base import Fit, Linear, LinearTerms, Table
from sksvi.models.time_series.components import Dynamics

Array = np.ndarray

#: Points whose expectations are found at a time: what is between them stays in the cache.
TOGETHER = 2**13
#: Share of `tol` to which q settles at each point of the search: its gradient needs the best q.
SETTLED_SHARE = 0.1
#: More evaluations than any search takes: `max_iter` ends it.
MOST_EVALUATIONS = 10_000
#: Most e-folds by which a search moves a likelihood's parameter.
WIDEST = 12.0
#: Most Newton steps for the mean, and the gain below which they end, relative to the objective.
NEWTON_STEPS, NEWTON_TOL = 100, 1e-12


class DynamicModel(Linear):
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
    """

    main = "latents"
    batchable = False
    averages = False
    natural_only = True
    searched = "variances and scales", "give each of them a number"
    remedy = "Fix a variance that the data cannot tell (level_variance and the like), or lower initial_variance."

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
    ) -> None:
        self.likelihood = likelihood
        self.dynamics = dynamics
        self.X = X
        self.seen = None if weight is None or np.all(weight > 0) else np.flatnonzero(weight > 0)
        self._last: Any = None  # a point of the search and the likelihood there, asked for several times
        self.learned = learned and chain is None
        self.chain = chain
        self.theta = dynamics.start if theta is None else theta
        self.log_unit = float(np.log(unit))

    # ---- blocks
    def current_likelihood(self, q: dict[str, Any]) -> Any:
        """The likelihood with its learned parameters as q has them."""
        if "likelihood" not in q:
            return self.likelihood
        value = q["likelihood"].value
        if self._last is None or not np.array_equal(self._last[0], value):
            self._last = value, self.likelihood.replace(value)
        return self._last[1]

    def prior(self, q: dict[str, Any]) -> dict[str, Any]:
        """The chain without messages."""
        return {"latents": ChainGaussian(q["latents"].chain)}

    @property
    def exact_only(self) -> bool:  # type: ignore[override]
        """Where parameters are learned."""
        return self.learned and bool(self.theta.size or self.likelihood.learned)

    @property
    def hyper(self) -> dict[str, Rule]:
        """Parameters of the states and of the likelihood: `search` finds them."""
        if self.chain is not None:
            return {}
        return {"dynamics": SEARCHED} | ({"likelihood": SEARCHED} if self.likelihood.learned else {})

    def at(self, values: dict[str, Array], block: ChainGaussian | None = None) -> dict[str, Any]:
        """q under these parameters: the prior, or the messages of `block`."""
        chain = self.dynamics.chain(values["dynamics"], self.X) if self.chain is None else self.chain
        q = {"latents": ChainGaussian(chain) if block is None else block.under(chain)}
        return q | {name: Free(value) for name, value in values.items()}

    def begin(self, data: Table, rng: Any) -> dict[str, Any]:
        """Messages as each point alone would have them: from none, under a wide prior, no first step succeeds."""
        values = {"dynamics": self.theta, "likelihood": self.likelihood.unconstrained}
        q = self.at({name: values[name] for name in self.hyper})
        q["latents"] = ChainGaussian(q["latents"].chain, *first_messages(self.likelihood, data))
        return q

    # ---- data
    def chunks(self, rows: Array | slice, data: Table) -> list[Any]:
        """All points at once: what is per datum is no more than a sweep."""
        return [rows]

    def batch(self, data: Table, rows: Array | slice, start: Any = None) -> Table:
        """The data themselves."""
        return data

    # ---- gradients
    def message_shapes(self, n: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """A number each."""
        return (n,), (n,)

    def terms(self, view: dict[str, Any], batch: Table, expect: Any, rng: Any) -> LinearTerms:
        """Per point: gradients and E log p, unscaled; zeros where nothing was observed."""
        return self._terms_at(view, batch, expect, rng, view["latents"].variance)

    def _terms_at(self, q: dict[str, Any], batch: Table, expect: Any, rng: Any, variance: Array) -> LinearTerms:
        likelihood, linear = self.current_likelihood(q), q["latents"].mean
        value, alpha, gamma = (np.zeros(len(linear)) for _ in range(3))
        for rows in self.parts(len(linear)):
            m = linear[rows] if batch.offset is None else linear[rows] + batch.offset[rows]
            found = expect(likelihood, batch.y[rows], m, variance[rows], rng)
            for out, part in zip((value, alpha, gamma), found, strict=True):
                out[rows] = part
        return LinearTerms(value, alpha, gamma, linear).weighted(batch.weight)

    def parts(self, n: int) -> list[Any]:
        """The observed points, some at a time."""
        if self.seen is None:
            return [slice(start, min(start + TOGETHER, n)) for start in range(0, n, TOGETHER)]
        return [self.seen[start : start + TOGETHER] for start in range(0, len(self.seen), TOGETHER)]

    def pull_back(self, terms: LinearTerms, batch: Table) -> dict[str, Any]:
        """Each latent has its own datum; a message may say that the latent is less sure (Student-t)."""
        return {"latents": (terms.alpha, terms.gamma)}

    def best_mean(
        self, q: dict[str, Any], prior: Any, data: Any, expect: Any, scale: float, threads: int, steps: int
    ) -> ChainGaussian:
        """The best mean at these variances: Newton by messages, halved where the objective falls."""
        block: ChainGaussian = q["latents"]
        variance, chain = block.variance, block.chain
        u = ChainGaussian(chain).mean

        def at(mean: Array, dual: Array) -> tuple[Array, Array, float, LinearTerms]:
            terms = self._terms_at({**q, "latents": _Moments(mean)}, data, expect, None, variance)
            return mean, dual, float(terms.value.sum()) - 0.5 * float(dual @ (mean - u)), terms

        here = at(block.mean, block.dual)
        for _ in range(NEWTON_STEPS):
            mean, dual, value, terms = here
            curvature = np.maximum(-2.0 * terms.gamma, 0.0)
            there = ChainGaussian(chain, terms.alpha + curvature * mean, curvature)
            if (terms.alpha - dual) @ (there.mean - mean) < NEWTON_TOL * (abs(value) + 1):
                break
            moves = ((there.mean - mean) / 2**k for k in range(MAX_HALVINGS))
            pulls = ((there.dual - dual) / 2**k for k in range(MAX_HALVINGS))
            tried = (at(mean + move, dual + pull) for move, pull in zip(moves, pulls, strict=True))
            better = next((found for found in tried if found[2] >= value), None)
            if better is None:
                break
            here = better
        mean, dual, _, _ = here
        return ChainGaussian(chain, dual + block.weights * mean, block.weights)

    # ---- parameters
    def search(self, fit: Fit, tol: float) -> tuple[dict[str, Any], bool]:
        """L-BFGS on the bound as a function of the parameters alone, with q settled at each of them."""
        names = [name for name in self.hyper if name not in fit.frozen and fit.q[name].value.size]
        if not self.learned or not names or already_searched(fit, names):
            return fit.q, False
        search = _Search(self, fit, tol, names)
        ascend(
            search,
            np.clip(search.start, *np.array(search.box, dtype=float).T),
            search.box,
            search.seen,
            lambda value: WINDOW * tol * fit.size(value),
            MOST_EVALUATIONS,
        )
        return search.best.q, search.best.q is not fit.q

    def slopes(self, q: dict[str, Any], data: Table, expect: Any) -> dict[str, Array]:
        """Slope in the parameters of the bound with q at its best."""
        block = q["latents"]
        out = {"dynamics": self.dynamics.slope(q["dynamics"].value, block.chain, block.swept)}
        if "likelihood" in q:
            likelihood, total = self.current_likelihood(q), np.zeros(q["likelihood"].value.size)
            for rows in self.parts(len(data)):
                m, v = block.mean[rows], block.variance[rows]
                m = m if data.offset is None else m + data.offset[rows]
                weight = None if data.weight is None else data.weight[rows]
                total += expect.parameter_sums(likelihood, data.y[rows], m, v, weight)[0]
            out["likelihood"] = total
        return out


class _Moments:
    """A mean in the place of a block."""

    def __init__(self, mean: Array) -> None:
        self.mean = mean


def already_searched(fit: Fit, names: list[str]) -> bool:
    """Whether the fit's last search ended at these parameters."""
    return bool(fit.searched) and all(np.array_equal(fit.searched[n].value, fit.q[n].value) for n in names)


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


class _Search:
    """The bound with q settled, as a function of the parameters; keeps the best q."""

    def __init__(self, model: DynamicModel, fit: Fit, tol: float, names: list[str]) -> None:
        self.model, self.fit, self.tol, self.names = model, fit, tol, names
        self.best: Any = fit.here
        self.flat = self.ended = False
        self.start = np.concatenate([fit.q[name].value for name in names])
        self.box: list[tuple[float | None, float | None]] = []
        for name in names:
            here = fit.q[name].value.tolist()
            self.box += model.dynamics.box if name == "dynamics" else [(x - WIDEST, x + WIDEST) for x in here]

    def look(self, bound: float) -> bool:
        """One more look at all data; True: the fit must stop."""
        self.ended = self.ended or self.fit.tick(max(bound, self.best.bound))
        return self.ended

    def seen(self, best: float) -> bool:
        """After every evaluation; True: the fit must stop, or no parameter's next e-fold promises `tol`."""
        return self.look(self.best.bound) or self.flat

    def settled(self, q: dict[str, Any]) -> Any:
        """Evaluation where steps from q end."""
        try:
            return self.fit.settle(q, MOST_EVALUATIONS, SETTLED_SHARE * self.tol, self.look)
        except ValueError as error:  # no step is possible from here: a point to step back from
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
        low, high = np.array(self.box, dtype=float).T
        inside = np.where(slope > 0, x < high, x > low)
        self.flat = float(np.abs(slope[inside]).sum()) < self.tol * self.fit.size(here.bound)
        if here.bound > self.best.bound:
            self.best = here
        return here.bound, slope
