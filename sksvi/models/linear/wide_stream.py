"""Chunks of a stream of wide rows: the mode under what earlier rows said, and what these rows say of the weights.

Earlier rows are a message: natural parameters of a diagonal Gaussian, apart from the prior, whose scale may still
change. The mode is found in the space of the rows (Rasmussen and Williams 2006, algorithm 3.1, with conjugate
gradients), where w = m + P⁻¹Xᵀα, and in the columns that the chunk has entries in: no step looks at all D columns. The
message of a row has the mode's gradient and a curvature averaged over the latent's posterior: labels that the mode
tells apart have none at the mode, and would be forgotten.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from sksvi._typing.arrays import is_compressed
from sksvi.algorithms.line_search import backtrack
from sksvi.families.gaussian.low_rank import LowRankGaussian
from sksvi.models.base import Table
from sksvi.models.linear.cavity import Sketch, WideRows
from sksvi.models.linear.low_rank import LowRankModel, PathPoint, WideFit

Array = np.ndarray

#: Newton steps on a chunk, products with its rows in each, and how well these solve it.
NEWTON_STEPS, PRODUCTS, SOLVED = 6, 15, 0.05
#: Gain that is worth a step, relative to the loss and in units of `tol`.
GAIN = 10.0
#: Rounds in which variances of latents and curvatures of their messages settle.
ROUNDS = 2


@dataclass(frozen=True)
class TouchedRows:
    """Rows in the columns that they have entries in.

    columns (d,): their positions among all D. table: the rows in these alone. model: of as many weights. whole: of all.
    """

    columns: Array
    table: Table
    model: LowRankModel
    whole: LowRankModel

    @classmethod
    def of(cls, model: LowRankModel, data: Table) -> TouchedRows:
        """The rows of a sparse table without empty columns; a dense one has none."""
        X, d = data.X, model.n_features
        if not is_compressed(X):
            return cls(np.arange(d), data, model, model)
        has_entry = np.zeros(d, bool)
        has_entry[X.indices] = True
        columns = np.flatnonzero(has_entry)
        place = np.empty(d, X.indices.dtype)
        place[columns] = np.arange(len(columns), dtype=place.dtype)
        narrow = sp.csr_matrix((X.data, place[X.indices], X.indptr), shape=(X.shape[0], len(columns)))
        table = Table(narrow, data.y, data.weight, data.offset, data.first)
        return cls(columns, table, model.replaced(n_features=len(columns)), model)

    @property
    def coordinates(self) -> Array:
        """Positions of these weights and of the intercept among all, (d + extra,)."""
        return np.append(self.columns, -1) if self.model.fit_intercept else self.columns

    def left_by(self, point: PathPoint) -> Left:
        """What the fit to these rows leaves to later ones."""
        return Left(self.widened(of_rows(self, point), point.precision), point.precision)

    def widened(self, block: LowRankGaussian, precision: float) -> LowRankGaussian:
        """A block of these weights as one of all: the others are as the prior has them."""
        d, n_features = len(self.columns), self.whole.n_features
        if d == n_features:
            return block
        shape, extra = block.mean.shape[:-1], block.mean.shape[-1] - d
        mean, diagonal = np.zeros((*shape, n_features + extra)), np.full((*shape, n_features), 1.0 / precision)
        mean[..., self.columns], mean[..., n_features:] = block.mean[..., :d], block.mean[..., d:]
        diagonal[..., self.columns] = block.diagonal
        basis = np.zeros((n_features, block.basis.shape[1]))
        basis[self.columns] = block.basis
        return LowRankGaussian(mean, diagonal, basis, block.inner)


class Left(NamedTuple):
    """What earlier rows left: the posterior of independent weights of all columns, and the prior's precision there."""

    block: LowRankGaussian
    precision: float


def under(model: LowRankModel, mean: Array, total: Array, before: float, now: float) -> tuple[Array, Array]:
    """Mean and precision (..., D + extra) of weights under another scale of the prior: what rows said stays."""
    if now == before:
        return mean, total
    d, linear = model.n_features, mean * total
    total = total + (now - before)
    total[..., d:] -= now - before
    return linear / total, total


def diagonal_block(model: LowRankModel, mean: Array, total: Array) -> LowRankGaussian:
    """The posterior of independent weights with these precisions."""
    d, variance = model.n_features, 1.0 / total
    inner = variance[..., d:, None] * np.eye(total.shape[-1] - d)
    return LowRankGaussian(mean, variance[..., :d], np.zeros((d, 0)), inner)


def rescaled(model: LowRankModel, left: Left, now: float) -> Left:
    """The posterior under another scale of the prior."""
    block = left.block
    if now == left.precision:
        return left
    return Left(diagonal_block(model, *under(model, block.mean, 1.0 / block.variance, left.precision, now)), now)


def of_rows(touched: TouchedRows, point: PathPoint) -> LowRankGaussian:
    """What the fit to some rows leaves to later ones: its mode, and independent weights."""
    model, mean = touched.model, np.atleast_2d(point.block.mean).T
    fit = _fit_of(touched)
    prior = np.full(mean.shape, point.precision)
    prior[model.n_features :] = model.intercept_precision
    start = 1.0 / np.atleast_2d(point.block.variance).T
    curvature = _curvature(fit, fit.latents(mean), prior, start)
    return diagonal_block(model, point.block.mean, (prior + curvature).T.reshape(point.block.mean.shape))


def _fit_of(touched: TouchedRows) -> WideFit:
    """The rows for looks at given weights, which ask for no directions."""
    table, rows = touched.table, WideRows(touched.table.X)
    none = Sketch(*(np.zeros(shape) for shape in ((rows.shape[1], 0), (0,), (len(table), 0))))
    return WideFit(touched.model, table, rows, none, np.ones(len(table)) if table.weight is None else table.weight)


def _curvature(fit: WideFit, f: Array, prior: Array, precision: Array) -> Array:
    """What rows add to the precision (d + extra, K) of each weight, from latents f and the precision before or after.

    Each row's curvature is averaged over its latent, about that at f / κ over κ with κ² = 1 + π v / (2 u²), where u is
    the unit of the link: 1 + π v / 8 for a logit (MacKay 1992).
    """
    d, per_variance = fit.rows.shape[1], 0.5 * np.pi / fit.model.likelihood.link_unit**2
    found = np.zeros(0)
    for _ in range(ROUNDS):
        v = fit.rows.dot_squares(1.0 / precision[:d]) + (1.0 / precision[d:]).sum(0)
        wider = np.sqrt(1.0 + per_variance * v)
        gamma = fit.weight[:, None] * np.maximum(-fit._terms(f / wider)[2], 0.0) / wider
        found = np.concatenate([fit.rows.pull_squares(gamma), np.tile(gamma.sum(0), (len(precision) - d, 1))])
        precision = prior + found
    return found


class Look(NamedTuple):
    """A trial of Newton's method: dual weights α and what they move latents by, the loss, slopes and curvature."""

    alpha: Array
    shift: Array
    loss: float
    slope: Array
    root: Array
    off: Callable[[Array], Array]


@dataclass(frozen=True)
class StreamChunk:
    """Rows of a chunk, to be predicted and learned after what earlier ones left.

    Parameters
    ----------
    touched : TouchedRows
    fit : WideFit
        Of the touched columns; it makes no sketch of them.
    """

    touched: TouchedRows
    fit: WideFit

    def before(self, left: Left, precision: float) -> tuple[Array, Array]:
        """Mean and precision (d + extra, K) of the weights before the chunk, under a scale of the prior."""
        block, columns = left.block, self.touched.columns
        inner = np.diagonal(block.inner, axis1=-2, axis2=-1)
        total = 1.0 / np.concatenate([block.diagonal[..., columns], inner], axis=-1)
        mean = block.mean[..., self.touched.coordinates]
        mean, total = under(self.touched.model, mean, total, left.precision, precision)
        return np.atleast_2d(mean).T, np.atleast_2d(total).T

    def losses(self, trials: Sequence[tuple[Left, float]]) -> Array:
        """Minus the log density of each row before it is learned, after each and under its scale, (n, m), nats."""
        mean = np.concatenate([self.before(*trial)[0] for trial in trials], axis=1)
        f = np.split(self.fit.latents(mean), len(trials), axis=1)
        return np.stack([-self.fit._log_prob(part) for part in f], axis=1)

    def point(self, left: Left) -> PathPoint:
        """The prediction of the rows before they are learned, with its variances, as leave-one-out has them."""
        d, (mean, total) = self.touched.model.n_features, self.before(left, left.precision)
        f = self.fit.latents(mean)
        v = self.fit.rows.dot_squares(1.0 / total[:d]) + (1.0 / total[d:]).sum(0)
        return PathPoint(left.precision, left.block, -self.fit._log_prob(f), f, v, True)

    def learned(self, left: Left, tol: float) -> Left:
        """The posterior after these rows."""
        model, block = self.touched.model, left.block
        mean, total = self.before(left, left.precision)
        alpha, shift = self._dual(mean, total, tol)
        found = mean + self._pulled(alpha) / total
        variance = 1.0 / (total + _curvature(self.fit, self.fit.latents(mean) + shift, total, total))
        shape, d = block.mean.shape[:-1], model.n_features
        new, diagonal = block.mean.copy(), block.diagonal.copy()
        new[..., self.touched.coordinates] = found.T.reshape(*shape, -1)
        diagonal[..., self.touched.columns] = variance[:d].T.reshape(*shape, -1)
        inner = variance[d:].T.reshape(*shape, -1, 1) * np.eye(len(variance) - d)
        return Left(LowRankGaussian(new, diagonal, block.basis, inner), left.precision)

    # ---- the mode
    def _pulled(self, alpha: Array) -> Array:
        """Xᵀα with the intercept's row, (d + extra, K)."""
        extra = int(self.touched.model.fit_intercept)
        return np.concatenate([self.fit.rows.pull(alpha), np.tile(alpha.sum(0), (extra, 1))])

    def _dual(self, mean: Array, total: Array, tol: float) -> tuple[Array, Array]:
        """Dual weights (n, K) of the mode, and what they move latents by."""
        d, shape = self.touched.model.n_features, (len(self.touched.table), mean.shape[1])
        start, rows = self.fit.latents(mean), self.fit.rows

        def moved(alpha: Array) -> Array:
            return np.asarray(rows.dot(rows.pull(alpha) / total[:d]) + (alpha.sum(0) / total[d:]).sum(0))

        now = self._look(start, np.zeros(shape), np.zeros(shape))
        for _ in range(NEWTON_STEPS):
            target = now.slope - now.alpha
            reached = moved(target)
            if np.vdot(target, reached) <= 2.0 * GAIN * tol * abs(now.loss):  # no step gains more than half of it
                break
            step = _newton(now, target, reached, moved)
            shift = moved(step)

            def attempt(share: float, now: Look = now, step: Array = step, shift: Array = shift) -> Look:
                return self._look(start, now.alpha + share * step, now.shift + share * shift)

            found = backtrack(attempt, lambda trial, worst=now.loss: trial.loss <= worst)  # type: ignore[misc]
            if found is None:  # rounding is all that is left
                break
            now = found.trial
        return now.alpha, now.shift

    def _look(self, start: Array, alpha: Array, shift: Array) -> Look:
        """The trial at dual weights."""
        fit, likelihood = self.fit, self.touched.model.likelihood
        f = start + shift
        value, slope, curve = fit._terms(f)
        root, off = likelihood.curvature_root(f, curve)
        weight = fit.weight[:, None]
        loss = float(-(fit.weight @ value) + 0.5 * np.vdot(alpha, shift))
        return Look(alpha, shift, loss, weight * slope, np.sqrt(weight) * root, off)


def _newton(now: Look, target: Array, reached: Array, moved: Callable[[Array], Array]) -> Array:
    """Newton step Δ of dual weights, (1 + Γ G) Δ = target: symmetric with Γ = R Rᵀ in the middle; reached: G target."""
    from scipy.sparse.linalg import LinearOperator, cg

    root, off, shape = now.root, now.off, now.alpha.shape
    right = off(root * reached)

    def product(flat: Array) -> Array:
        v = flat.reshape(shape)
        return np.asarray((v + off(root * moved(root * off(v)))).ravel())

    operator = LinearOperator((right.size, right.size), matvec=product, dtype=float)
    found = cg(operator, right.ravel(), rtol=SOLVED, maxiter=PRODUCTS)[0].reshape(shape)
    return np.asarray(target - root * off(found))


class ChunkPath:
    """What a stream asks of a model whose fits are at the mode.

    Parameters
    ----------
    model : LowRankModel
    """

    def __init__(self, model: LowRankModel) -> None:
        self.model = model

    def touched(self, data: Table) -> TouchedRows:
        """Rows in the columns that they have entries in."""
        return TouchedRows.of(self.model, data)

    def chunk(self, data: Table) -> StreamChunk:
        """Rows to be predicted and learned."""
        touched = self.touched(data)
        return StreamChunk(touched, _fit_of(touched))

    def rescaled(self, left: Left, precision: float) -> Left:
        """What earlier rows left, under another scale of the prior."""
        return rescaled(self.model, left, precision)

    def left(self, block: LowRankGaussian, precision: float, share: float) -> Left:
        """What is left of a posterior whose rows count less, by `share`: independent weights."""
        if share == 1.0 and not block.basis.shape[1]:
            return Left(block, precision)
        d, variance = self.model.n_features, block.variance
        prior = np.full(variance.shape, precision)
        prior[..., d:] = self.model.intercept_precision
        said = share * np.maximum(1.0 / variance - prior, 0.0)
        linear = share * (block.mean / variance)
        linear[..., d:] += (1.0 - share) * self.model.intercept_precision * self.model.intercept_mean
        return Left(diagonal_block(self.model, linear / (prior + said), prior + said), precision)
