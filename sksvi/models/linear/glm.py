"""The generalized linear model: f_i = x_iᵀw + offset_i, one weight vector per latent (doc/glm.md)."""

from __future__ import annotations

import copy
import operator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Self

import numpy as np

from sksvi._runtime import parallel
from sksvi.algorithms.rules import ClosedForm, Fixed, Newton, Rule
from sksvi.families import DiagonalGaussian, NotPositiveDefinite, Point
from sksvi.families.gaussian.dense import gaussian
from sksvi.models.base import Fit, LinearTerms, summed
from sksvi.models.data import Data, Table
from sksvi.models.linear.latents import LinearLatents, as_matrices, like
from sksvi.models.linear.named import NamedPriors, local_density, local_step, local_widening
from sksvi.models.linear.rows import DenseRows, SparseRows, design, project, project_mean, row_slices, stays_sparse
from sksvi.models.linear.scales import POWERS, ScalePrior, SpectralPrior, elsewhere, log_half_cauchy, prior_power
from sksvi.models.linear.sums import GaussianSums
from sksvi.models.targets import starting
from sksvi.models.traits import Traits

Array = np.ndarray

#: Rows (or four per weight) whose curvature gives the first covariance.
START_ROWS = 4096
#: Rows that are looked at before all are.
FIRST_ROWS = 1024
#: Largest mean variance of the latents under the first q, in units of the likelihood's width squared.
START_SPREAD = 16.0
#: How far from the middle of the data the best constant latent is looked for, in the likelihood's widths.
REACH = 10.0
#: Passes in which a fit settles at another maximum of its evidence.
SEARCH_PASSES = 100
#: Passes after which powers of the prior are compared: the fit goes on from the best.
POWER_PASSES = 20
#: Part of a weight that data determine, less than which is rounding.
DETERMINED = 1e-12
#: Numbers of well-determined weights that are as good as none.
SPENT = 1e-6


@dataclass
class GLMChunk:
    """Some rows of the data with their design."""

    data: Table
    rows: DenseRows | SparseRows


class LinearModel(LinearLatents):
    """GLM with Gaussian weights, plates for several latents, the intercept as last coordinate.

    Parameters
    ----------
    likelihood : Likelihood
        With every scale a number; those in ``likelihood.learned`` become the point block "likelihood".
    prior_precision : float, ndarray of shape (D,), "auto" or "ard"
        Fixed, or learned as the point block "prior_precision" (log precision, one or D).
    intercept_precision : float
    n_features : int
    fit_intercept, full : bool
    intercept_mean : float, default=0.0
        Prior mean of every intercept.
    unit : float, default=1.0
        Natural scale of f: the first standard deviation of a prior that is learned, and the unit of a measured target.
    relative_scale : float or ndarray of shape (D,), default=1.0
        What each of the first columns spreads over here: their prior is that of columns that spread over 1.
    scales : ScalePrior, optional
        Prior of the log precision of each kind of columns, where these are learned.
    shapes : SpectralPrior, optional
        What else the prior variances may be in proportion to, as the point block "prior_power"; None: all are equal.
    named : NamedPriors, optional
        Priors of single weights, or of all together, in the place of `prior_precision`.
    """

    def __init__(
        self,
        likelihood: Any,
        *,
        prior_precision: Any,
        intercept_precision: float,
        n_features: int,
        fit_intercept: bool,
        full: bool,
        intercept_mean: float = 0.0,
        unit: float = 1.0,
        relative_scale: Any = 1.0,
        scales: ScalePrior | None = None,
        shapes: SpectralPrior | None = None,
        named: NamedPriors | None = None,
    ) -> None:
        self.likelihood = likelihood
        self.prior_precision = prior_precision
        self.intercept_precision = intercept_precision
        self.n_features = n_features
        self.fit_intercept = fit_intercept
        self.full = full
        self.intercept_mean, self.unit, self.relative_scale, self.scales = intercept_mean, unit, relative_scale, scales
        self.shapes, self.named = shapes, named

    @cached_property
    def traits(self) -> Traits:  # type: ignore[override]
        """Traits of linear latents, with what a user may do."""
        remedy = "Standardise the columns, drop duplicated ones, or raise prior_precision."
        return replace(super().traits, remedy=remedy)

    @property
    def width(self) -> int:
        """Weights of one latent, P."""
        return self.n_features + int(self.fit_intercept)

    @property
    def n_fixed(self) -> int:
        """Weights that share the prior precision of this model, the first ones."""
        return self.n_features

    # ---- blocks
    def units(self, q: dict[str, Any]) -> Array:
        """What the learned precision is of: each weight but the intercept times its unit, (D,)."""
        own = np.broadcast_to(np.asarray(self.relative_scale, float), (self.n_fixed,))
        return own if self.shapes is None else own / np.sqrt(self.shapes.variance(prior_power(q)))

    @cached_property
    def _squared_scale(self) -> Array:
        return np.square(self.relative_scale)

    def precision(self, q: dict[str, Any]) -> Array:
        """Prior precision of every weight but the intercept."""
        learned = q.get("prior_precision")
        value = self.prior_precision if learned is None else np.exp(learned.value)
        if learned is not None and self.scales is not None:
            value = value[self.scales.kinds]
        units = self._squared_scale if self.shapes is None else np.square(self.units(q))
        shared = value * units
        if np.shape(shared) != (self.n_fixed,):
            shared = np.broadcast_to(np.asarray(shared, float), (self.n_fixed,))
        if self.named is None:
            return shared
        named = self.named.precision
        if "local_scales" in q:
            named = named * self.named.tangent(np.exp(q["local_scales"].value), self.likelihood.n_latents)[1]
        return np.where(self.named.learned, shared, named)

    def prior(self, q: dict[str, Any]) -> dict[str, Any]:
        """N(0, diag(1/precision)) on the weights, about the means that are named and `intercept_mean`."""
        if self.named is not None and self.named.joint is not None:
            return {"weights": gaussian(self.named.joint.mean, self.named.joint.precision)}
        tail = [self.intercept_precision] if self.fit_intercept else []
        precision = np.concatenate([self.precision(q), tail])
        if self.joint:
            precision = np.tile(precision, self.likelihood.n_latents)
        if precision.shape != self.shape:
            precision = np.broadcast_to(precision, self.shape)
        return {"weights": DiagonalGaussian(self._prior_mean(), precision)}

    def _prior_mean(self) -> Array:
        mean = self._mean_without_columns()
        if self.named is not None:
            self.by_latent(mean)[:, : self.n_fixed] = self.named.mean
        return mean

    def _mean_without_columns(self) -> Array:
        """Weights at zero, intercepts at their prior mean."""
        mean = np.zeros(self.shape)
        if self.fit_intercept:
            self.by_latent(mean)[:, -1] = self.intercept_mean
        return mean

    @cached_property
    def hyper(self) -> dict[str, Rule]:
        """The likelihood's scales by Newton, the prior precision by MacKay's fixed point."""
        rules: dict[str, Rule] = {}
        if isinstance(self.prior_precision, str):
            rules["prior_precision"] = ClosedForm(self._precision_step, self._scale_density)
        if self.named is not None and self.named.mixtures:
            rules["local_scales"] = ClosedForm(partial(local_step, self), partial(local_density, self))
        if self.shapes is not None:
            rules["prior_power"] = Fixed(lambda q: SpectralPrior.log_probability(prior_power(q)))
        if self.likelihood.learned:
            rules["likelihood"] = Newton(self._likelihood_density)
        return rules

    def with_likelihood(self, likelihood: Any) -> Self:
        """The model of a likelihood whose parameters are given."""
        out = copy.copy(self)
        out.likelihood = likelihood
        return out

    def _likelihood_density(self, q: dict[str, Any]) -> tuple[float, Array, Array] | None:
        """Log density of the likelihood's learned parameters with its slopes, or None where it is flat.

        Noise has its prior here where coefficients have a learned scale: the two may fit every row, at no noise.
        """
        if self.likelihood.noise_variance is not None and "prior_precision" in self.hyper:
            return self.noise_density(q)
        return self.current_likelihood(q).scales.prior()

    def noise_density(self, q: dict[str, Any]) -> tuple[float, Array, Array]:
        """Log density of Gaussian noise, whose deviation is half-Cauchy in the unit, and its slopes above the least."""
        likelihood = self.current_likelihood(q)
        ratio = likelihood.noise_variance / self.unit**2
        share, odds = 1.0 - likelihood.least / likelihood.noise_variance, ratio / (1.0 + ratio)
        bend = share * ((1.0 - share) * (0.5 - odds) - share * odds * (1.0 - odds))
        return float(log_half_cauchy(ratio)) - np.log(np.pi), np.array([share * (0.5 - odds)]), np.array([[bend]])

    def begin(self, data: Table, rng: Any, threads: int = 1) -> dict[str, Any]:
        """Weights at zero, the intercept where it alone fits best, points at their start."""
        q = self.first_hyper()
        if isinstance(self.prior_precision, str):
            q["prior_precision"] = Point(self._first_precision())
        if self.named is not None and self.named.mixtures:
            q["local_scales"] = Point(np.zeros(self.n_fixed))
        if self.shapes is not None:
            q["prior_power"] = Point(np.zeros(1))
        if self.likelihood.learned:
            q["likelihood"] = Point(self.likelihood.unconstrained)
        first = self.prior(q)["weights"]
        prior = first.structure.diagonal(first.precision)
        mean = self._mean_without_columns()
        if self.fit_intercept and self.likelihood.n_latents == 1:
            mean[-1] = self._best_intercept(data.targets)
        q["weights"] = self._start(data, mean, prior, threads)
        return q

    def _best_intercept(self, targets: Table) -> float:
        """The intercept that fits best alone."""
        return best_constant(self.likelihood, starting(targets, self.likelihood.traits.by_moments))

    def in_turn(self, name: str, gradient: Any, before: dict[str, Any], q: dict[str, Any]) -> Any:
        """Weights step at the cut points that have just moved: both would make the whole of a shift that one owes."""
        block = q["weights"]
        if name != "weights" or not (self._doubled(q) and block.full and block.natural_coordinates):
            return gradient
        slope, curvature = gradient["weights"]
        hessian, moved = gradient["likelihood"][1], q["likelihood"].value - before["likelihood"].value
        along = self.current_likelihood(before).scales.shifted(1.0).unconstrained - before["likelihood"].value
        bend = along @ hessian @ along
        if not bend < 0.0:
            return gradient
        shift = np.zeros(self.width)
        shift[-1] = -(along @ hessian @ moved) / bend
        return {**gradient, "weights": (slope + 2.0 * block.structure.dot(curvature, shift), curvature)}

    def _doubled(self, q: dict[str, Any]) -> bool:
        """Whether the intercept and learned parameters say one thing twice: rows do not feel a shift of both."""
        return self.fit_intercept and self.likelihood.scales.collinear and "likelihood" in q

    def recentred(self, q: dict[str, Any]) -> dict[str, Any]:
        """The intercept at its prior mean where learned parameters take the rest of it, as cut points do.

        Steps of the one given the other creep there, by the share that the prior has in what is known of the intercept.
        """
        if not self._doubled(q):
            return q
        block, mean = q["weights"], q["weights"].mean.copy()
        shifted = self.current_likelihood(q).scales.shifted(self.intercept_mean - float(mean[-1]))
        if shifted is None:
            return q
        mean[-1] = self.intercept_mean
        points = q["likelihood"].at(shifted.unconstrained)
        return {**q, "weights": type(block)(mean, block.precision, block.root), "likelihood": points}

    def _first_precision(self) -> Array:
        """Log precision of each kind of columns, or each column: a deviation of one unit, within the prior's limits."""
        first = -2.0 * np.log(self.unit)
        if self.scales is None:
            return np.full(self.n_fixed if self.prior_precision == "ard" else 1, first)
        return np.clip(first, self.scales.lowest, self.scales.highest)

    def log_prior(self, h: Array) -> Array:
        """Log density of one log precision for all weights, (...,), nats; 0 where it has no prior."""
        return np.zeros(np.shape(h)) if self.scales is None else self.scales.log_density(np.asarray(h)[..., None])

    def _scale_density(self, q: dict[str, Any]) -> float:
        """Log density of the log precisions, nats; a precision per column has none."""
        if self.scales is None:
            return 0.0
        # An average of noisy steps may lie beyond limits that have moved since.
        h = np.minimum(np.maximum(q["prior_precision"].value, self.scales.lowest), self.scales.highest)
        return float(self.scales.log_density_within(h))

    def drawn_hyper(self, rng: Any) -> dict[str, Any]:
        """Blocks of `first_hyper` that are points, drawn from their prior."""
        return {}

    def first_hyper(self) -> dict[str, Any]:
        """Blocks that stand beside the weights and the GLM's own hyperparameters."""
        return {}

    def _start(self, data: Table, mean: Array, prior: Array, threads: int) -> Any:
        """Prior precision plus the curvature of the data at the start, from at most a few thousand rows."""
        step, squares = max(1, len(data) // max(START_ROWS, 4 * mean.shape[-1])), np.zeros(self.width)
        if step == 1:
            part = data.take(slice(None))
        else:
            part, squares = data.reduced(partial(self._subsample, step, threads), _merged_subsamples)
        if not part.total_weight > 0:
            part = data
        k = self.likelihood.n_latents
        f = np.zeros((len(part), k)) + (self.by_latent(mean)[:, -1] if self.fit_intercept else 0.0)
        f = part.on(f[:, 0] if k == 1 else f)
        bend = np.minimum(self.likelihood.derivatives(part.y, f)[2], 0.0)
        bend = np.broadcast_to(np.average(bend, axis=0, weights=part.weight), f.shape)
        weight = np.ones(len(part)) if part.weight is None else part.weight
        gamma = bend * weight.reshape(-1, *[1] * (bend.ndim - 1)) * (data.total_weight / part.total_weight)
        batch = self.batch(part, slice(0, len(part)))
        if self.joint:
            # At f = 0 every class has p = 1/K: diag p - ppᵀ in the place of its diagonal.
            gamma = (gamma / (1.0 - 1.0 / k))[..., None] * (np.eye(k) - 1.0 / k)
        _, curvature = self._pull(batch.rows, np.zeros(f.shape), gamma)
        start = informed_block(mean, prior, curvature)
        if len(part) < len(data):
            # A column that those rows hardly hold is informed by others: its own sum of squares says how much.
            informed = start.structure.diagonal(start.precision) - prior
            due = np.average(-bend, axis=0)[..., None] * squares
            start = informed_block(mean, prior + np.maximum(due.reshape(mean.shape) - informed, 0.0), curvature)
        if not self.likelihood.traits.discrete:
            return start
        # Data without curvature (counts that are all zero) leave the flat prior, under which nothing is finite.
        v = self._project(batch.rows, start)[1]
        width = self.likelihood.width if np.isfinite(self.likelihood.width) else 1.0
        v = v if v.ndim < 3 else np.diagonal(v, axis1=1, axis2=2)
        excess = float(np.average(v, axis=0, weights=part.weight).mean()) / (START_SPREAD * width**2)
        return start if excess <= 1 else type(start)(mean, start.precision * excess)

    def concentrated(self, q: dict[str, Any], data: Table) -> dict[str, Any]:
        """q as sure of a column as these rows make it, where that is more than the prior and all rows before did.

        A column that is new to a stream has the prior's spread, under which E exp(f) overflows where rows hold it.
        """
        likelihood = self.current_likelihood(q)
        if not likelihood.traits.discrete:
            return q
        block = q["weights"]
        block = block if block.natural_coordinates else block.natural_form()
        bend, total = np.zeros(()), 0.0
        for rows in self.chunks(slice(0, len(data)), data):
            batch = self.batch(data, rows)
            f = batch.data.on(self._project_mean(batch.rows, block))
            weight = np.ones(len(batch.data)) if batch.data.weight is None else batch.data.weight
            bend = bend + weight @ np.minimum(likelihood.derivatives(batch.data.y, f)[2], 0.0)
            total += float(weight.sum())
        due = (-bend / total)[..., None] * data.reduced(partial(self._squares_of, 1))
        due = np.broadcast_to(due.reshape(-1, self.width), (likelihood.n_latents, self.width)).reshape(self.shape)
        more = np.where(due > block.structure.diagonal(block.precision), due, 0.0)
        return {**q, "weights": informed_block(block.mean, more, -block.precision)} if np.any(more) else q

    def _subsample(self, step: int, threads: int, data: Table) -> tuple[Table, Array]:
        """Every `step`-th row of those that are here, and the sum of squares of each column of the design."""
        return data.take(slice(-data.first % step, None, step)), self._squares_of(threads, data)

    def _squares_of(self, threads: int, data: Table) -> Array:
        """Sum of the squares of each column of the design over rows, (P,)."""

        def one(rows: Any) -> Array:
            batch = self.batch(data, rows)
            weight = np.ones(len(batch.data)) if batch.data.weight is None else batch.data.weight
            return np.asarray(batch.rows.gram(weight, False))

        return np.asarray(parallel.summed(one, self.chunks(slice(0, len(data)), data), threads))

    # ---- data
    def chunks(self, rows: Array | slice, data: Table) -> list[Any]:
        """Rows in chunks of fixed size."""
        return row_slices(rows, data, self.width, stays_sparse(data.X, self.full), self.full)

    def batch(self, data: Table, rows: Array | slice, start: Any = None) -> GLMChunk:
        """The design of these rows."""
        part = data.take(rows)
        return GLMChunk(part, design(part.X, self.fit_intercept, stays_sparse(data.X, self.full)))

    # ---- gradients
    def terms(self, view: dict[str, Any], batch: GLMChunk, expect: Any, rng: Any) -> LinearTerms:
        """alpha, gamma and E log p per datum."""
        return self.terms_at(view, batch, expect, rng, None)

    def terms_at(
        self, q: dict[str, Any], batch: GLMChunk, expect: Any, rng: Any, variance: Array | None
    ) -> LinearTerms:
        """alpha, gamma and E log p per datum; `variance`: that of the latents where it is known already, else None."""
        likelihood = self.current_likelihood(q)
        weights = q["weights"]
        if variance is None:
            linear, v = self._project(batch.rows, weights)
        else:
            linear, v = self._project_mean(batch.rows, weights), variance
        m = batch.data.on(linear)
        terms = self.expected(q, likelihood, batch.data.y, m, as_matrices(v), expect, rng)
        return replace(terms, gamma=like(terms.gamma, v), linear=linear, variance=v).weighted(batch.data.weight)

    def expected(
        self, q: dict[str, Any], likelihood: Any, y: Array, m: Array, v: Array, expect: Any, rng: Any
    ) -> LinearTerms:
        """E log p(y|f) and its derivatives for f ~ N(m, v)."""
        points = {"likelihood": expect.parameters(likelihood, y, m, v, rng)} if "likelihood" in q else {}
        value, alpha, gamma = expect(likelihood, y, m, v, rng)
        return LinearTerms(value, alpha, gamma, m, points)

    def log_likelihood_at(self, q: dict[str, Any], draws: dict[str, Array], batch: GLMChunk, expect: Any) -> Array:
        """log p(rows | weights), summed."""
        data = batch.data
        f = self._latents_at(batch.rows, draws["weights"], data.offset)
        return summed(self.log_prob_at(self.current_likelihood(q), data.y, f, draws), data.weight)

    def log_prob_at(self, likelihood: Any, y: Array, f: Array, draws: dict[str, Array]) -> Array:
        """log p(y | f), (S, n)."""
        return likelihood.log_prob(y, f)

    def latent_variance(self, q: dict[str, Any], batch: GLMChunk) -> Array:
        """Variance of the latents, (n,) or (n, K)."""
        return self._project(batch.rows, q["weights"])[1]

    def pull_back(self, terms: LinearTerms, batch: GLMChunk) -> dict[str, Any]:
        """Gradient per block: linear in the terms."""
        out: dict[str, Any] = {"weights": self._pull(batch.rows, terms.alpha, terms.gamma)}
        for name, (g, hessian) in terms.points.items():
            out[name] = (g.sum(0), hessian.sum(0))
        for name, values in terms.scalars.items():
            slope, curvature = values.sum(0)
            out[name] = (np.array([slope]), np.array([[curvature]]))
        return out

    def sums(self, q: dict[str, Any], gradient: dict[str, Any], value: float, n: float) -> GaussianSums | None:
        """Sufficient statistics of rows with Gaussian noise, of a block that holds all entries of their gram matrix."""
        likelihood, block = self.current_likelihood(q), q["weights"]
        others = gradient.keys() - {"weights", "likelihood"}
        if likelihood.noise_variance is None or others or not (block.full and block.natural_coordinates):
            return None
        return GaussianSums.of(likelihood, block, gradient["weights"], value, n)

    def separates(self, q: dict[str, Any], data: Data) -> bool:
        """Whether the mean of the latents makes each row's own label, or level, the most probable one."""
        likelihood = self.current_likelihood(q)
        if likelihood.levels is None or likelihood.traits.paired:
            return False
        # The first rows answer for nearly all data, at less than a round of all partitions.
        if not self._separates(q, likelihood, data.take(slice(0, FIRST_ROWS))):
            return False
        return bool(data.reduced(partial(self._separates, q, likelihood), operator.and_))

    def _separates(self, q: dict[str, Any], likelihood: Any, data: Table) -> bool:
        for rows in self.chunks(slice(0, len(data)), data):
            batch = self.batch(data, rows)
            f = batch.data.on(self._project_mean(batch.rows, q["weights"]))
            if np.any(np.argmax(likelihood.probabilities(f), axis=0) != batch.data.y):
                return False
        return True

    def _precision_step(self, q: dict[str, Any]) -> tuple[Array, float]:
        """log of (number of well-determined weights) / Σ m², whose fixed point is δ = D / (tr S + ‖m‖²).

        The fixed point is that of an EM step and is reached in fewer passes (MacKay 1992, eq. 4.10).
        """
        d = self.n_fixed
        delta = self.precision(q)[:d]
        determined = 1.0 - delta * self.by_latent(q["weights"].variance)[:, :d]
        squares = np.square(self.units(q) * self.by_latent(q["weights"].mean)[:, :d])
        if self.named is not None:
            determined, squares = (np.where(self.named.learned, part, 0.0) for part in (determined, squares))
        if self.scales is not None:
            return self.scales.step(q["prior_precision"].value, determined.sum(0), squares.sum(0))
        if self.prior_precision != "ard":
            determined, squares = determined.sum(keepdims=True), squares.sum(keepdims=True)
        total, norm = determined.sum(0).ravel(), squares.sum(0).ravel()
        tiny = np.finfo(float).tiny
        step = np.log(np.maximum(total, tiny)) - np.log(np.maximum(norm, tiny)) - q["prior_precision"].value
        # What no row says a thing of, to rounding, has no best precision: it keeps the one that it has. Nor does one
        # rise for next to nothing: where rounding hides what rows say, those of another chunk cannot bring it back.
        step = np.where((total > DETERMINED) & ((step < 0.0) | (total > SPENT)), step, 0.0)
        gain = 0.25 * float(np.sum(np.maximum(total, 0.0) * np.square(step)))
        return step, gain

    def widening(self, q: dict[str, Any]) -> Array | None:
        """W (P, P) of `reweighted`, for the covariance that the weights have; None: that of q."""
        return local_widening(self, q) if "local_scales" in q else None

    # ---- other maxima
    def search(self, fit: Fit, tol: float) -> tuple[dict[str, Any], bool]:
        """Move to the best shape of the prior, then to where the evidence of prior and noise is largest.

        That is known (`evidence`) where no covariance is learned but the weights' own, and these are of one latent.
        """
        found = self._best_power(fit, tol)
        if found is not None:
            return found, True
        q, names = fit.q, ["prior_precision", *["likelihood"] * ("likelihood" in fit.q)]
        one = self.named is None and (self.scales is None or len(self.scales.lowest) == 1)
        learned = self.hyper.keys() - {"prior_power"}
        if set(names) != learned or not one or self.likelihood.n_latents > 1 or set(names) & fit.problem.frozen:
            return q, False
        if not (q["weights"].full and q["weights"].natural_coordinates) or fit.already_searched(names):
            return q, False
        worth = tol * fit.size(fit.here.bound)
        there = elsewhere(self, q, fit.here.gradient, fit.problem.data.total_weight * fit.problem.scale, worth)
        if there is None:
            return q, False
        try:
            there = fit.settle(there, SEARCH_PASSES, tol, fit.tick)
        except ValueError:  # no step leads on from there
            return q, False
        return (there.q, True) if there.bound > fit.here.bound + worth else (q, False)

    def _best_power(self, fit: Fit, tol: float) -> dict[str, Any] | None:
        """q where it has settled under the power of the prior whose bound is largest; None: where it is."""
        q, frozen = fit.q, "prior_power" in fit.problem.frozen
        if (
            self.shapes is None
            or frozen
            or not q["weights"].natural_coordinates
            or fit.already_searched(["prior_power"])
        ):
            return None
        message = q["weights"].over(self.prior(q)["weights"])
        best, found = fit.here.bound + tol * fit.size(fit.here.bound), None
        for power in POWERS:
            there = {**q, "prior_power": Point(np.array([float(power)]))}
            if power == prior_power(q):
                continue
            try:
                there["weights"] = self.prior(there)["weights"].times(message)
            except NotPositiveDefinite:  # messages that say less than nothing where this prior is weak
                continue
            here = fit.settle(there, POWER_PASSES, tol, fit.tick)
            if here.bound > best:
                best, found = here.bound, here.q
        return found

    def predict_latent(self, weights: Any, X: Any, offset: Array | None = None) -> tuple[Array, Array]:
        """Mean and variance of f for the rows of X: (n,) or (n, K), (co)variance (n, K, K) for joint weights."""
        rows = design(X, self.fit_intercept, stays_sparse(X, weights.full))
        m, v = weights.latents(rows) if self.joint else project(rows, weights)
        return self.with_offset(m, offset), v

    def with_offset(self, latents: Array, offset: Array | None) -> Array:
        """Latents (n, ...) with the offsets (n,) of their rows."""
        return latents if offset is None else latents + offset.reshape(-1, *[1] * (latents.ndim - 1))

    def latents_at(self, draws: Array, X: Any) -> tuple[Array, Array]:
        """f of the rows of X at each draw of the weights, (n, S) or (n, S, K), and the variance (n,) it has besides."""
        rows = design(X, self.fit_intercept, stays_sparse(X, False))
        if draws.ndim == 2:
            latents = project_mean(rows, draws)
        else:
            latents = np.stack([project_mean(rows, draw) for draw in draws], axis=1)
        return latents, self.unseen_variance(X)

    def unseen_variance(self, X: Any) -> Array:
        """Variance of what the weights say nothing of, (n,)."""
        return np.zeros(X.shape[0])

    def with_unseen(self, variance: Array, X: Any) -> Array:
        """Variance of the latents with that of what the weights say nothing of."""
        return variance + self.unseen_variance(X)


def _merged_subsamples(a: tuple[Table, Array], b: tuple[Table, Array]) -> tuple[Table, Array]:
    """Combine what `_subsample` returns of two parts of the rows: the rows concatenated, the sums of squares added."""
    return a[0].concatenated(b[0]), a[1] + b[1]


def informed_block(mean: Array, prior: Array, curvature: Any) -> Any:
    """The Gaussian whose precision is a diagonal prior's less the curvature, in the curvature's own structure."""
    data = gaussian(mean, -curvature)
    return gaussian(mean, DiagonalGaussian(mean, prior).precision_like(data) + data.precision)


def best_constant(likelihood: Any, data: Table) -> float:
    """The constant latent that fits best, to a tenth of the likelihood's width: Newton, steps at most 10 widths.

    Behind a link, counts that are all zero and the like have it at infinity: there it is pulled towards the middle of
    the data by a normal density of `REACH` widths.
    """
    weight = 1.0 if data.weight is None else data.weight
    offset = 0.0 if data.offset is None else data.offset
    width = likelihood.width if np.isfinite(likelihood.width) else 1.0
    centre = likelihood.centre(data.y)
    centre = centre if centre.ndim == 1 else centre.mean(axis=0)  # an ordinal level has two edges
    middle = value = float(np.average(centre - offset, weights=data.weight))
    pull = 0.0 if likelihood.traits.additive else (REACH * width) ** -2
    for _ in range(50):
        _, d1, d2 = likelihood.derivatives(data.y, value + offset)
        slope = float(np.sum(weight * d1)) - pull * (value - middle)
        bend = float(np.sum(weight * np.minimum(d2, 0.0))) - pull
        step = slope / max(-bend, abs(slope) / (10.0 * width), np.finfo(float).tiny)
        value += step
        if abs(step) < 0.1 * width:
            break
    return value
