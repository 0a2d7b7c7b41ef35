"""A latent in time under any scalar likelihood: one message per point (equations.md 9, `DynamicGLM`)."""

from __future__ import annotations

from typing import Any

import numpy as np

from sksvi.algorithms.rules import SEARCHED, Rule
from sksvi.algorithms.steps import MAX_HALVINGS
from sksvi.families import Free
from sksvi.families.gaussian.chain import ChainGaussian
from sksvi.models.base import Fit, Linear, LinearTerms, Table
from sksvi.models.time_series.components import Dynamics
from sksvi.models.time_series.search import Search, first_messages

Array = np.ndarray

#: Points whose expectations are found at a time: what is between them stays in the cache.
TOGETHER = 2**13
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
        search = Search(self, fit, tol, names)
        search.ascend(search.start)
        # Parameters that a fit brought along are an end of a search already.
        if "dynamics" in names and np.array_equal(fit.q["dynamics"].value, self.dynamics.start):
            search.elsewhere()
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
