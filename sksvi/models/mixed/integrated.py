"""Mixed models with one effect per level of one factor: the effects integrated by quadrature (doc/mixed_effects.md).

Given the fixed effects b, levels are independent of each other, and what a level adds is an integral over one number:

    log p(y | b, s) = Σ_l log ∫ Π_{i in l} p(y_i | x_iᵀb + z_i u) N(u | 0, s²) du

Gradient and curvature in b are moments of u under each level's integrand. Newton's step from q(b) and a quadratic about
where it ends integrate b too; the bound of a Gaussian q falls short of the result by the more, the less Gaussian the
integrands are: strong effects of binary rows, of which a level has few.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.special import logsumexp

from sksvi.families.gaussian.arrow import ArrowMatrix
from sksvi.families.gaussian.dense import gaussian
from sksvi.models.data import Table
from sksvi.models.mixed.levels import GroupedDesign

Array = np.ndarray

#: Standard deviations about the mean of a level's integrand that its nodes reach, and their step at most: the
#: trapezoidal rule, whose error falls geometrically where the integrand vanishes at both ends (Trefethen & Weideman
#: 2014). A step is at most so many widths of the likelihood, and nodes are at most so many.
REACH, STEP, WIDTHS, MOST_NODES = 6.0, 0.5, 0.95, 201
#: Most steps to the best fixed effects, and nats that a step promises at which they are the last.
STEPS, SETTLED = 30, 2e-3
#: What is said of a fit where neither is enough.
UNSETTLED = (
    f"fixed effects with the effects of levels integrated have not settled after {STEPS} steps, so that coefficients "
    "and group_std_ may be off: columns of very different sizes, or that rows hardly determine, do this. Scale "
    "columns, or give prior_precision a number"
)
COARSE = (
    f"effects of levels are so uncertain that {MOST_NODES} nodes do not follow their likelihood, and group_std_ and "
    "its interval may be off: levels whose rows are all alike do this. Merge such levels, or give columns that tell "
    "them apart a prior (prior_precision=1.0)"
)
#: Rows beyond which q(w) stands as it is, and numbers per level and fixed effect.
MOST_ROWS, MOST = 20_000, 2**20


class LevelMoments(NamedTuple):
    """Log likelihood of fixed effects with the levels' effects integrated, its gradient (D,) and negative Hessian.

    ``mean``, ``std`` (L,): of each level's effect; ``slope`` (L, D): of the mean in the fixed effects. ``coarse``:
    whether nodes are farther apart than the likelihood is wide.
    """

    value: float
    gradient: Array
    curvature: Array
    mean: Array
    std: Array
    slope: Array
    coarse: bool


def has_one_effect_a_level(model: Any, data: Any) -> bool:
    """Whether levels' effects can be integrated one by one, in rows that are at hand."""
    groups, likelihood = model.groups, model.likelihood
    if groups is None or groups.effects != (1,) or model.noise_prior_scale is not None or not model.full:
        return False
    smooth = likelihood.traits.log_concave and not likelihood.traits.quantile and likelihood.noise_variance is None
    smooth = smooth and likelihood.n_latents == 1
    small = data.at_hand and len(data) <= MOST_ROWS and groups.levels[0] * model.width <= MOST
    return bool(smooth and small and not data.X.sparse)


class LevelRows:
    """Rows as the integrals want them: columns of fixed effects, what multiplies the level's effect, sums by level."""

    def __init__(self, data: Table, intercept: bool) -> None:
        design: GroupedDesign = data.X
        n, codes, (values,) = len(data), design.codes[:, 0], design.values
        self.A = np.column_stack([sp.csr_array(design.X).toarray(), np.ones((n, int(intercept)))])
        own = np.ones(n) if values is None else np.asarray(values[:, 0], float)
        self.slope, self.level = np.where(codes < 0, 0.0, own), np.maximum(codes, 0)
        self.y, self.offset = data.y, 0.0 if data.offset is None else data.offset
        self.weight = np.ones(n) if data.weight is None else np.asarray(data.weight, float)
        self.sums = sp.csr_array((self.weight, (self.level, np.arange(n))), shape=(design.levels[0], n))

    def moments(self, likelihood: Any, b: Array, std: float, centre: Array, spread: Array) -> LevelMoments:
        """Moments at fixed effects b (D,), with nodes about `centre` (L,) as wide as `spread` (L,)."""
        widest = float(np.max(spread[self.level] * np.abs(self.slope)) / likelihood.width)
        wanted = np.ceil(REACH * max(widest / WIDTHS, 1.0 / STEP))
        z = np.linspace(-REACH, REACH, 2 * int(min(wanted, MOST_NODES // 2)) + 1)
        u = centre[:, None] + spread[:, None] * z
        f = self.A @ b + self.offset + self.slope * u[self.level].T
        value, first, second = likelihood.derivatives(self.y, f)
        logs = self.sums @ value.T - 0.5 * np.square(u / std) + np.log(spread[:, None] * (z[1] - z[0]) / std)
        total = logsumexp(logs, axis=1)
        share = np.exp(logs - total[:, None])
        own = share[self.level].T
        mean = np.sum(share * u, axis=1)
        score = self.sums @ (np.sum(own * first, axis=0)[:, None] * self.A)
        curvature = -self.A.T @ ((self.weight * np.sum(own * second, axis=0))[:, None] * self.A)
        slope = np.zeros_like(score)
        for k in range(len(z)):
            off = self.sums @ (first[k][:, None] * self.A) - score
            curvature -= off.T @ (share[:, [k]] * off)
            slope += (share[:, k] * (u[:, k] - mean))[:, None] * off
        deviation = np.sqrt(np.sum(share * np.square(u - mean[:, None]), axis=1))
        integral = float(np.sum(total)) - 0.5 * len(total) * np.log(2.0 * np.pi)
        return LevelMoments(
            integral, score.sum(axis=0), curvature, mean, deviation, slope, bool(wanted > MOST_NODES // 2)
        )


class IntegratedLevels:
    """A fit whose levels' effects are integrated, at any hyperparameters.

    Parameters
    ----------
    model : MixedModel
        One that `has_one_effect_a_level`.
    q : dict
        Blocks of a fit that has settled.
    data : Table
    look : callable
        Called once per look at the data.
    """

    def __init__(self, model: Any, q: dict[str, Any], data: Table, look: Callable[[], None]) -> None:
        self.model, self.look, self.rows = model, look, LevelRows(data, model.fit_intercept)
        self.message = self._message(q)
        self.evaluated: dict[bytes, float] = {}
        #: What was not found to the error that it should have, of weights that were asked for.
        self.undone: set[str] = set()

    def _message(self, q: dict[str, Any]) -> Any:
        block = q["weights"]
        block = block if block.natural_coordinates else block.natural_form()
        return block.over(self.model.prior(q)["weights"])

    def about(self, q: dict[str, Any]) -> IntegratedLevels:
        """Integrals that begin at another q, nearer to where they end."""
        out = copy.copy(self)
        out.message, out.evaluated = self._message(q), {}
        return out

    def log_density(self, q: dict[str, Any]) -> float:
        """Log evidence with the weights integrated, nats, at the hyperparameters that q has, with what these pay."""
        key = b"".join(np.asarray(q[name].value).tobytes() for name in self.model.hyper if name in q)
        if key not in self.evaluated:
            paid = sum(rule.log_density(q) for rule in self.model.hyper.values())
            self.evaluated[key] = self._integral(q)[0] + float(paid - sum(block.penalty() for block in q.values()))
        return self.evaluated[key]

    def weights(self, q: dict[str, Any]) -> Any:
        """The Gaussian of the weights' moments at the hyperparameters that q has."""
        _, found, undone = self._integral(q)
        self.undone |= undone
        return found

    def _integral(self, q: dict[str, Any]) -> tuple[float, Any, set[str]]:
        """Log evidence, the Gaussian of the weights, from what the message makes of their prior, and what is undone."""
        start, (levels,) = self.model.n_fixed, self.model.groups.levels
        prior = self.model.prior(q)["weights"]
        block = prior.times(self.message)
        dense = isinstance(block.precision, np.ndarray)
        precision = ArrowMatrix.of_dense(block.precision, levels, 1, start) if dense else block.precision
        others = np.r_[0:start, start + levels : len(block.mean)]
        b, centre, spread = block.mean[others], block.mean[start:][:levels], precision.diag[:, 0, 0] ** -0.5
        std, delta, about = float(np.exp(q["group_std"].value[0])), prior.precision[others], prior.mean[others]
        likelihood = self.model.current_likelihood(q)
        for _ in range(STEPS):
            self.look()
            found = self.rows.moments(likelihood, b, std, centre, spread)
            own = found.curvature + np.diag(delta)
            slope = found.gradient - delta * (b - about)
            step = np.linalg.solve(own, slope)
            promised = float(slope @ step)
            if not np.isfinite(promised):  # hyperparameters under which steps lead where rows have no density
                return -np.inf, block, set()
            value = found.value + 0.5 * float(np.sum(np.log(delta)) - delta @ np.square(b - about) + promised)
            # Shorter where it is long: it then ends at the best b from anywhere (Nesterov & Nemirovskii 1994).
            step = step if promised < SETTLED else step / (1.0 + np.sqrt(promised))
            b, centre, spread = b + step, found.mean + found.slope @ step, found.std
            if promised < SETTLED:
                break
        undone = ({UNSETTLED} if promised >= SETTLED else set()) | ({COARSE} if found.coarse else set())
        value -= 0.5 * float(np.linalg.slogdet(own)[1])
        out = ArrowMatrix.zeros(levels, 1, len(others), start)
        out.diag[:, 0, 0] = spread**-2
        out.border[:] = -(found.slope / np.square(spread)[:, None]).T
        out.corner[:] = own - out.border @ found.slope
        mean = block.mean.copy()
        mean[others], mean[start : start + levels] = b, centre
        return value, gaussian(mean, out.dense() if dense else out), undone
