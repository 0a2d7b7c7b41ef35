"""A linear model at its mode under one scale of its weights after another, each judged by leave-one-out.

The mode is found by L-BFGS in coordinates where the prior and the leading directions of the rows are standard, and
variances by :mod:`sksvi.models.linear.cavity`. There is no bound: the scale of the prior is the widest that
leave-one-out asks for (:mod:`sksvi.inference.passes.path` walks along it).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from sksvi.families import Point
from sksvi.families.gaussian.low_rank import LowRankGaussian
from sksvi.models.base import Blocks
from sksvi.models.data import Table
from sksvi.models.linear.cavity import Cavities, Sketch, cavities, sketched
from sksvi.models.linear.climb import Climb
from sksvi.models.linear.few_rows import RowMode, row_mode
from sksvi.models.linear.glm import LinearModel, best_constant
from sksvi.models.linear.loo import LeftOut, averaged_losses, curvature, judging_losses, learned, mode_losses
from sksvi.models.linear.partitioned import PartitionedRows
from sksvi.models.linear.row_matrices import affordable, shifts, taken, variances
from sksvi.models.linear.wide_rows import WideRows
from sksvi.models.traits import Traits

Array = np.ndarray

#: Rounds in which a diagonal is fitted to variances, and share of a prior variance that is lost in rounding.
SHARPENED, LOST = 10, 1e-8
#: Directions at most, and rows for each at least, where only new rows depend on them.
MOST_FOR_NEW, ROWS_FOR_NEW = 16, 10


class LowRankModel(LinearModel):
    """A linear model whose weights get a `LowRankGaussian` about their mode.

    The prior is about the columns as they are, with one precision for all.
    """

    @cached_property
    def traits(self) -> Traits:  # type: ignore[override]
        """Traits of a linear model, with the path of its scales."""
        return replace(super().traits, path=ModePath(self))

    def begin(self, data: Any, rng: Any, threads: int = 1) -> Blocks:
        """Weights at zero, the intercept where it alone fits best, no directions yet."""
        mean = np.broadcast_to(self._prior_mean(), self.shape).copy()
        if self.fit_intercept:
            mean[..., -1] = self._constant(data.targets)
        extra = int(self.fit_intercept)
        inner = np.broadcast_to(np.eye(extra) / self.intercept_precision, (*self.shape[:-1], extra, extra))
        precision = 1.0 if isinstance(self.prior_precision, str) else float(self.prior_precision)
        diagonal = np.full((*self.shape[:-1], self.n_features), 1.0 / precision)
        block = LowRankGaussian(mean, diagonal, np.zeros((self.n_features, 0)), inner.copy())
        return self.blocks(block, precision, self.likelihood.unconstrained)

    def blocks(
        self, block: LowRankGaussian, precision: float, parameters: Array, information: Array | None = None
    ) -> Blocks:
        """Blocks of q: the weights, and where they are learned the prior's precision and the likelihood's parameters.

        Parameters
        ----------
        block : LowRankGaussian
        precision : float
        parameters : ndarray of shape (P,)
            Unconstrained.
        information : ndarray of shape (P, P), optional
            What the rows say of these.
        """
        q: Blocks = {"weights": block}
        if isinstance(self.prior_precision, str):
            q["prior_precision"] = Point(np.log([precision]))
        own = Point(parameters, information=information)
        return {**q, "likelihood": own} if self.likelihood.learned else q

    def _constant(self, data: Table) -> Any:
        """Best latents of all rows, one of each class."""
        if self.likelihood.n_latents == 1:
            return best_constant(self.likelihood, data)
        weight = np.ones(len(data)) if data.weight is None else data.weight
        shares = np.bincount(data.y.astype(int), weight, self.likelihood.n_latents) / weight.sum()
        logs = np.log(np.maximum(shares, 0.5 / weight.sum()))  # a class without rows has half a row
        return logs - logs.mean()

    @property
    def joint(self) -> bool:
        """Classes are plates: what they share, the shift of all, the prior of each determines."""
        return False


@dataclass(frozen=True)
class PathPoint:
    """A mode with what leave-one-out says of it.

    precision : of the prior. block : of the weights of `WideRows.columns`. parameters (P,): what the likelihood
    learned, unconstrained. losses (n,): minus the log density of each row given the latents that the others leave it,
    nats. mean, variance (n, K): of these latents. settled : whether the search for the mode has ended, and parameters
    have.
    """

    LAYOUT = """
        precision number >0; block LowRankGaussian; parameters (_) f
        losses (n) f; mean (n,k) f; variance (n,k) f >=0; settled flag
    """

    precision: float
    block: LowRankGaussian
    parameters: Array
    losses: Array
    mean: Array
    variance: Array
    settled: bool


class ModePath:
    """Fits of a model to all its rows under given precisions of the prior.

    Parameters
    ----------
    model : LowRankModel
    """

    def __init__(self, model: LowRankModel) -> None:
        self.model = model
        self._of: tuple[Table, WideFit] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {"model": self.model, "_of": None}

    def fit(self, data: Table) -> WideFit:
        """What all fits to these rows share; made once."""
        if self._of is None or self._of[0] is not data:
            self._of = data, WideFit.of(self.model, data)
        return self._of[1]


@dataclass(frozen=True)
class WideFit:
    """Rows of a fit, ready for one precision of the prior after the other.

    Parameters
    ----------
    model : LowRankModel
    data : Table
    rows : WideRows
    sketch : Sketch
    weight : ndarray of shape (n,)
    gram : ndarray of shape (n, n), or None
        X Xᵀ of rows few enough for variances by it.
    by_rows : bool
        Whether the mode too is found by it. That of labels is not, whose path was chosen with L-BFGS.
    """

    model: LowRankModel
    data: Table
    rows: WideRows
    sketch: Sketch
    weight: Array
    gram: Array | None
    by_rows: bool

    @classmethod
    def of(cls, model: LowRankModel, data: Table) -> WideFit:
        """The rows with their leading directions."""
        rows = WideRows(data.X) if data.at_hand else PartitionedRows(data)
        table = data if data.at_hand else data.reduced(_without_columns, Table.concatenated)
        weight = np.ones(len(table)) if table.weight is None else table.weight
        exact = affordable(max(weight.sum(), len(weight)), model.likelihood.n_latents)
        by_rows = exact and not model.likelihood.traits.classifies
        rank = max(1, min(MOST_FOR_NEW, int(weight.sum() // ROWS_FOR_NEW))) if by_rows else None
        sketch, gram = sketched(rows, weight, exact, rank), rows.gram() if exact else None
        return cls(model, table, rows, sketch, weight, gram, by_rows)

    @classmethod
    def without_directions(cls, model: LowRankModel, data: Table) -> WideFit:
        """The rows for looks at given weights, which ask for no directions."""
        rows, n = WideRows(data.X), len(data)
        none = Sketch(np.zeros((rows.shape[1], 0)), np.zeros(0), np.zeros((n, 0)))
        return cls(model, data, rows, none, np.ones(n) if data.weight is None else data.weight, None, False)

    @property
    def fixed_precision(self) -> float | None:
        """The precision of a prior that is given; None where it is learned."""
        given = self.model.prior_precision
        return None if isinstance(given, str) else float(given)

    @property
    def products(self) -> float:
        """Numbers that are multiplied for the latents of all rows."""
        return float(self.rows.entries.sum() * self.model.likelihood.n_latents)

    @cached_property
    def mean_square(self) -> float:
        """Mean over rows of the squared length: the variance of a latent under a prior of precision 1."""
        mean = float(self.weight @ self.rows.squares / self.weight.sum())
        return mean if mean > 0.0 else 1.0

    @cached_property
    def _null(self) -> tuple[Any, Array]:
        """A model without columns: its likelihood, and the latents of the rows, (n, K)."""
        model, n, k = self.model, len(self.data), self.model.likelihood.n_latents
        constant = np.atleast_1d(model._constant(self.data)) if model.fit_intercept else np.zeros(k)
        f = self.shifted(np.zeros((n, k)), constant[None, :])
        return learned(model.likelihood, LeftOut(self.data.y, f, np.zeros_like(f), self.weight))[0], f

    @cached_property
    def null_loss(self) -> float:
        """Mean loss of a model without columns, nats a row."""
        likelihood, f = self._null
        return float(self.weight @ -self._terms(likelihood, f)[0] / self.weight.sum())

    @cached_property
    def _least_losses(self) -> Array:
        """What a row loses at least, (n,): for the only one of its class, what it does without columns."""
        likelihood, f = self._null
        least = np.full(len(self.weight), -np.inf)
        if likelihood.traits.classifies:
            label = np.unique(self.data.y, return_inverse=True)[1]
            alone = np.bincount(label, self.weight)[label] <= np.minimum(self.weight, 1.0)
            least[alone] = -self._terms(likelihood, f)[0][alone]
        return least

    @cached_property
    def _unit(self) -> float:
        """The path's unit where noise has no variance: 1, or the least variance that four rows leave a latent."""
        likelihood, f = self._null
        if likelihood.traits.classifies:
            return 1.0
        curve = -self._terms(likelihood, f)[2][:, 0]
        return 1.0 / max(1.0, 4.0 * float(self.weight @ curve / self.weight.sum()))

    def precision_of(self, width: float, likelihood: Any) -> float:
        """Precision of a prior that gives a latent so many units of variance, or the one that is given."""
        return self.fixed_precision or self.mean_square / (width * self.unit_of(likelihood))

    def unit_of(self, likelihood: Any) -> float:
        """Variance of a latent by which priors and temperatures are measured: that of Gaussian noise, where it is."""
        noise = likelihood.noise_variance
        return float(self._unit if noise is None else noise)

    def average(self, values: Array) -> tuple[float, float]:
        """Mean over rows, and its standard error."""
        total = self.weight.sum()
        mean = float(self.weight @ values / total)
        return mean, float(np.sqrt(self.weight @ np.square(values - mean) / total / total))

    # ---- the mode
    def at(self, width: float, mean: Array, parameters: Array, most: int, tol: float) -> PathPoint:
        """The fit under a prior of this width, in `most` steps of L-BFGS at most.

        Parameters
        ----------
        width : float
            Prior variance of a latent: of Gaussian noise its multiple.
        mean : ndarray of shape (..., D + extra)
            Weights to begin with.
        parameters : ndarray of shape (P,)
            Of the likelihood, unconstrained, under which the mode is found.
        most : int
        tol : float
        """
        likelihood = self.likelihood_at(parameters)
        precision = self.precision_of(width, likelihood)
        if self.by_rows:
            found = self._row_mode(likelihood, precision, mean, tol)
            W, ended = self._weights(found.pull, precision), found.settled
            point = self._judged(likelihood, precision, W, found.variance[:, None])
        else:
            W, ended = Climb.of(self, likelihood, precision, mean).run(most, tol)
            point = self._judged(likelihood, precision, W)
        return replace(point, settled=ended and squared_move(likelihood, point.parameters) < tol)

    def likelihood_at(self, parameters: Array) -> Any:
        """The likelihood with these learned parameters, unconstrained (P,)."""
        likelihood = self.model.likelihood
        return likelihood.replace(parameters) if likelihood.learned else likelihood

    def _row_mode(self, likelihood: Any, precision: float, mean: Array, tol: float) -> RowMode:
        """The mode in the space of few rows, begun at weights `mean`."""

        def terms(f: Array) -> tuple[Array, Array, Array]:
            return likelihood.derivatives(self.data.y, f)

        extra = np.full((int(self.model.fit_intercept), 1), self.model.intercept_mean)
        centre = self.shifted(np.zeros((len(self.weight), 1)), extra)[:, 0]
        start = self.latents(np.atleast_2d(mean).T)[:, 0]
        return row_mode(terms, self._prior_covariance(precision), centre, self.weight, start, tol)

    def _weights(self, pull: Array, precision: float) -> Array:
        """Weights (d + extra, 1) of what each row pulls."""
        own, model = self.rows.pull(pull[:, None]) / precision, self.model
        if not model.fit_intercept:
            return own
        return np.append(own, [[model.intercept_mean + pull.sum() / model.intercept_precision]], axis=0)

    def _judged(self, likelihood: Any, precision: float, W: Array, exact: Array | None = None) -> PathPoint:
        """Leave-one-out at weights (d + extra, K), and what the likelihood learns from it.

        `exact` (n, 1): variances of latents without their rows, all copies of these, where they are known.
        """
        model, weight, f = self.model, self.weight[:, None], self.latents(W)
        _, slope, curve = self._terms(likelihood, f)
        gamma = np.minimum(weight, 1.0) * np.maximum(-curve, 1e-12)
        extra = np.full(int(model.fit_intercept), model.intercept_precision)
        found: Cavities = cavities(self.rows, self.sketch, gamma, np.maximum(self.weight, 1.0), precision, extra)
        if exact is None:
            variance, shift = self._without_rows(precision, f, slope, gamma, found.variance)
        else:
            variance, shift = exact, exact * weight * slope
        rows = LeftOut(self.data.y, f - shift, variance, self.weight)
        likelihood, factor = learned(likelihood, rows, tied=self.fixed_precision is None)
        rows = rows._replace(variance=factor * rows.variance)
        block = LowRankGaussian(
            np.ascontiguousarray(W.T).reshape(*model.shape[:-1], -1),
            factor * np.ascontiguousarray(found.diagonal.T).reshape(*model.shape[:-1], -1),
            self.sketch.basis,
            factor * found.inner.reshape(*model.shape[:-1], *found.inner.shape[1:]),
        )
        losses = np.maximum(judging_losses(likelihood, rows), self._least_losses)
        parameters = likelihood.unconstrained
        return PathPoint(precision / factor, block, parameters, losses, rows.mean, rows.variance, False)

    def _without_rows(
        self, precision: float, f: Array, slope: Array, gamma: Array, variance: Array
    ) -> tuple[Array, Array]:
        """Variances of latents without one copy of their rows, and what that adds to them, (n, K)."""
        single, copies = np.minimum(self.weight, 1.0), np.maximum(self.weight, 1.0)
        if self.gram is None:
            return variance, variance * single[:, None] * slope
        prior = self._prior_covariance(precision)
        if f.shape[1] == 1:
            variance = variances(prior, gamma[:, 0], copies)[:, None]
            return variance, variance * single[:, None] * slope
        return variance, shifts(prior, self.model.likelihood.mean(f), slope, single, copies)

    def _prior_covariance(self, precision: float) -> Array:
        """Covariance of the latents of all rows under the prior, where rows are few, (n, n)."""
        assert self.gram is not None
        return self.gram / precision + (1.0 / self.model.intercept_precision if self.model.fit_intercept else 0.0)

    def sharpened(self, point: PathPoint) -> PathPoint:
        """The fit with the exact covariance along the directions, and variance of each weight, where rows are few.

        Those of the Laplace approximation, of each class given the others: softmax predictions take classes for
        independent, and what all of them share, which rows say nothing of, would only blur these.
        """
        if self.gram is None:
            return point
        block, precision, d = point.block, point.precision, self.rows.shape[1]
        terms = self._terms(self.likelihood_at(point.parameters), self.latents(np.atleast_2d(block.mean).T))
        curvature = self.weight[:, None] * -terms[2]
        inner = np.stack([self._along(precision, own) for own in curvature.T]).reshape(block.inner.shape)
        F = [self._taken(precision, own) for own in curvature.T]
        found = np.stack([self.rows.forms(own) for own in F]).reshape(block.diagonal.shape)
        exact = 1.0 / precision - found / precision**2
        block = LowRankGaussian(block.mean, block.diagonal, block.basis, inner)
        lost = exact * precision < LOST  # differences without digits: what the iteration found is positive
        for _ in range(SHARPENED):
            variance = block.variance[..., :d]
            share = np.where(lost, variance, exact) / variance
            diagonal = np.minimum(block.diagonal * share, 1.0 / precision)  # rows only narrow what the prior leaves
            block = LowRankGaussian(block.mean, diagonal, block.basis, inner)
        return replace(point, block=block)

    def _along(self, precision: float, curvature: Array) -> Array:
        """Covariance along the directions and of the intercept, (r + extra, r + extra).

        The inverse of a sum of positive parts: a prior of the intercept may be flat, and a difference from its variance
        would have no digits.
        """
        assert self.gram is not None
        Z, extra = self.sketch.along, int(self.model.fit_intercept)
        off = taken((self.gram - Z @ Z.T) / precision, curvature)
        Z = np.concatenate([Z, np.ones((len(Z), extra))], axis=1)
        prior = np.concatenate([np.full(Z.shape[1] - extra, precision), np.full(extra, self.model.intercept_precision)])
        found = np.linalg.inv(np.diag(prior) + Z.T @ off @ Z)
        return np.asarray(0.5 * (found + found.T))

    def _taken(self, precision: float, curvature: Array) -> Array:
        """What `taken` finds under the whole prior, (n, n): the intercept, whose prior may be flat, is added last."""
        assert self.gram is not None
        F = taken(self.gram / precision, curvature)
        if self.model.fit_intercept:
            sums = F.sum(1)
            F -= np.outer(sums, sums / (self.model.intercept_precision + sums.sum()))
        return F

    def narrowed(self, block: LowRankGaussian) -> Array:
        """Mean of all weights without those of columns that are left out, (..., d + extra)."""
        return self.rows.narrowed(block.mean.T).T

    def widened(self, point: PathPoint) -> LowRankGaussian:
        """The block of all weights: those of columns that are left out have their prior."""
        if self.rows.columns is None:
            return point.block
        rows, block = self.rows, point.block
        mean, diagonal = rows.widened(block.mean.T).T, rows.widened(block.diagonal.T, 1.0 / point.precision).T
        return LowRankGaussian(mean, diagonal, rows.widened(block.basis), block.inner)

    def latents(self, W: Array) -> Array:
        """Latents of the rows, (n, K), at weights (d + extra, K)."""
        d = self.rows.shape[1]
        return self.shifted(self.rows.dot(W[:d]), W[d:])

    def shifted(self, f: Array, intercept: Array) -> Array:
        """Products of rows and weights, in place, with the intercept (extra, K) and the offsets."""
        f += intercept.sum(0)
        if self.data.offset is not None:
            f += self.data.offset[:, None]
        return f

    def _terms(self, likelihood: Any, f: Array) -> tuple[Array, Array, Array]:
        """Log density of each row and its two derivatives in each latent, (n,), (n, K), (n, K)."""
        if f.shape[1] > 1:
            return likelihood.derivatives(self.data.y, f)
        value, slope, curve = likelihood.derivatives(self.data.y, f[:, 0])
        return value, slope[:, None], curve[:, None]

    def _log_prob(self, f: Array) -> Array:
        return self.model.likelihood.log_prob(self.data.y, f if f.shape[1] > 1 else f[:, 0])

    def information(self, point: PathPoint) -> Array | None:
        """What leave-one-out says of the learned parameters of the likelihood, (P, P); None without any."""
        rows = LeftOut(self.data.y, point.mean, point.variance, self.weight)
        return curvature(self.likelihood_at(point.parameters), rows, tied=self.fixed_precision is None)

    # ---- predictions whose variance is tempered
    def tempered_losses(self, point: PathPoint, temperature: float, rows: Any = slice(None)) -> Array:
        """Minus the log density of rows averaged over their latents without them, whose variance is tempered, nats."""
        left_out = LeftOut(self.data.y[rows], point.mean[rows], temperature * point.variance[rows], self.weight[rows])
        return (averaged_losses if temperature else mode_losses)(self.likelihood_at(point.parameters), left_out)

    def left_out_losses(self, point: PathPoint, temperature: float, rows: Any = slice(None)) -> Array:
        """`tempered_losses` of rows of the fit itself, at least what the only row of a class loses, nats."""
        return np.maximum(self.tempered_losses(point, temperature, rows), self._least_losses[rows])


def _without_columns(table: Table) -> Table:
    """Targets, weights and offsets of the rows of a partition."""
    return Table(np.empty((len(table), 0)), table.y, table.weight, table.offset, table.first)


def squared_move(likelihood: Any, parameters: Array) -> float:
    """Square of what learned parameters, (P,), are off those of a likelihood, about the change of the loss, nats."""
    noise = likelihood.noise_variance
    if noise is None or not likelihood.learned:
        return float(np.square(parameters - likelihood.unconstrained).sum())
    return float(np.square(np.log(likelihood.replace(parameters).noise_variance / noise)))
