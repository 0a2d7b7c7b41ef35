"""Chunks of a stream of wide rows: the mode under what earlier rows said, and what these rows say of the weights.

Earlier rows are a message: natural parameters of a diagonal Gaussian, apart from the prior, whose scale may still
change. The mode is found in the space of the rows (Rasmussen and Williams 2006, algorithm 3.1, with conjugate
gradients), where w = m + P⁻¹Xᵀα, and in the columns that the chunk has entries in: no step looks at all D columns. The
message of a row has the mode's gradient and a curvature averaged over the latent's posterior: labels that the mode
tells apart have none at the mode, and would be forgotten.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from sksvi.algorithms.line_search import backtrack
from sksvi.families.gaussian.low_rank import LowRankGaussian
from sksvi.models.data import Table
from sksvi.models.linear.low_rank import LowRankModel, PathPoint, WideFit

Array = np.ndarray

#: Newton steps on a chunk, products with its rows in each, and how well these solve it.
NEWTON_STEPS, PRODUCTS, SOLVED = 6, 15, 0.05
#: Share of what the slope promises that a step has to gain, half of which is a quadratic's whole.
SUFFICIENT = 0.25
#: Gain that is worth a step, relative to the loss and in units of `tol`.
GAIN = 10.0
#: Rounds in which variances of latents and curvatures of their messages settle.
ROUNDS = 2


class Left(NamedTuple):
    """What earlier rows left: the posterior of independent weights of all columns, and the prior's precision there."""

    block: LowRankGaussian
    precision: float


def under(d: int, mean: Array, total: Array, before: float, now: float) -> tuple[Array, Array]:
    """Mean and precision (..., d + extra) of weights under another scale of the prior: what rows told stays."""
    if now == before:
        return mean, total
    linear = mean * total
    total = total + (now - before)
    total[..., d:] -= now - before
    return linear / total, total


def diagonal_block(d: int, mean: Array, total: Array) -> LowRankGaussian:
    """The posterior of d independent weights and what follows them, with these precisions."""
    variance = 1.0 / total
    inner = variance[..., d:, None] * np.eye(total.shape[-1] - d)
    return LowRankGaussian(mean, variance[..., :d], np.zeros((d, 0)), inner)


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
        gamma = fit.weight[:, None] * np.maximum(-fit._terms(fit.model.likelihood, f / wider)[2], 0.0) / wider
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
    fit : WideFit
        Of the columns that they have entries in; it makes no sketch of them.
    """

    fit: WideFit
    _looked_up: dict[str, Any] = field(default_factory=dict)

    @property
    def _places(self) -> tuple[Any, Any]:
        """Where these weights are among all, without and with what follows them."""
        rows = self.fit.rows
        if rows.columns is None:
            return slice(0, rows.width), slice(None)
        extra = rows.width + np.arange(int(self.fit.model.fit_intercept))
        return rows.columns, np.concatenate([rows.columns, extra])

    def before(self, left: Left, precision: float) -> tuple[Array, Array]:
        """Mean and precision (d + extra, K) of the weights before the chunk, under a scale of the prior."""
        mean, total = under(self.fit.rows.shape[1], *self._own(left), left.precision, precision)
        return np.atleast_2d(mean).T, np.atleast_2d(total).T

    def _own(self, left: Left) -> tuple[Array, Array]:
        """Mean and precision (..., d + extra) of these weights, which are looked up once."""
        if self._looked_up.get("left") is not left:
            block, (columns, coordinates) = left.block, self._places
            inner = np.diagonal(block.inner, axis1=-2, axis2=-1)
            total = 1.0 / np.concatenate([block.diagonal[..., columns], inner], axis=-1)
            self._looked_up.update(left=left, own=(block.mean[..., coordinates], total))
        found: tuple[Array, Array] = self._looked_up["own"]
        return found

    def losses(self, trials: Sequence[tuple[Left, float]]) -> Array:
        """Minus the log density of each row before it is learned, after each and under its scale, (n, m), nats."""
        mean = np.concatenate([self.before(*trial)[0] for trial in trials], axis=1)
        f = np.split(self.fit.latents(mean), len(trials), axis=1)
        return np.stack([-self.fit._log_prob(part) for part in f], axis=1)

    def point(self, left: Left) -> PathPoint:
        """The prediction of the rows before they are learned, with its variances, as leave-one-out has them."""
        d, (mean, total) = self.fit.rows.shape[1], self.before(left, left.precision)
        f = self.fit.latents(mean)
        v = self.fit.rows.dot_squares(1.0 / total[:d]) + (1.0 / total[d:]).sum(0)
        return PathPoint(left.precision, left.block, np.zeros(0), -self.fit._log_prob(f), f, v, True)

    def learned(self, left: Left, tol: float) -> Left:
        """The posterior after these rows."""
        block, (columns, coordinates) = left.block, self._places
        mean, total = self.before(left, left.precision)
        alpha, shift = self._dual(mean, total, tol)
        found = mean + self._pulled(alpha) / total
        variance = 1.0 / (total + _curvature(self.fit, self.fit.latents(mean) + shift, total, total))
        shape, d = block.mean.shape[:-1], self.fit.rows.shape[1]
        new, diagonal = block.mean.copy(), block.diagonal.copy()
        new[..., coordinates] = found.T.reshape(*shape, -1)
        diagonal[..., columns] = variance[:d].T.reshape(*shape, -1)
        inner = variance[d:].T.reshape(*shape, -1, 1) * np.eye(len(variance) - d)
        return Left(LowRankGaussian(new, diagonal, block.basis, inner), left.precision)

    # ---- the mode
    def _pulled(self, alpha: Array) -> Array:
        """Xᵀα with the intercept's row, (d + extra, K)."""
        extra = int(self.fit.model.fit_intercept)
        return np.concatenate([self.fit.rows.pull(alpha), np.tile(alpha.sum(0), (extra, 1))])

    def _dual(self, mean: Array, total: Array, tol: float) -> tuple[Array, Array]:
        """Dual weights (n, K) of the mode, and what they move latents by."""
        d, shape = self.fit.rows.shape[1], (len(self.fit.data), mean.shape[1])
        start, rows = self.fit.latents(mean), self.fit.rows

        def moved(alpha: Array) -> Array:
            return np.asarray(rows.dot(rows.pull(alpha) / total[:d]) + (alpha.sum(0) / total[d:]).sum(0))

        now = self._look(start, np.zeros(shape), np.zeros(shape))
        for _ in range(NEWTON_STEPS):
            target = now.slope - now.alpha
            toward = moved(target)
            if np.vdot(target, toward) <= 2.0 * GAIN * tol * abs(now.loss):  # no step gains more than half of it
                break
            step = _newton(now, target, toward, moved)
            shift = moved(step)

            due = SUFFICIENT * float(np.vdot(target, shift))

            def attempt(
                share: float, now: Look = now, step: Array = step, shift: Array = shift, due: float = due
            ) -> Look | None:
                trial = self._look(start, now.alpha + share * step, now.shift + share * shift)
                return trial if trial.loss <= now.loss - share * due else None

            found = backtrack(attempt, lambda trial: True)
            if found is None:  # rounding is all that is left
                break
            now = found.trial
        return now.alpha, now.shift

    def _look(self, start: Array, alpha: Array, shift: Array) -> Look:
        """The trial at dual weights."""
        fit, likelihood = self.fit, self.fit.model.likelihood
        f = start + shift
        value, slope, curve = fit._terms(fit.model.likelihood, f)
        root, off = likelihood.curvature_root(f, curve)
        weight = fit.weight[:, None]
        loss = float(-(fit.weight @ value) + 0.5 * np.vdot(alpha, shift))
        return Look(alpha, shift, loss, weight * slope, np.sqrt(weight) * root, off)


def _newton(now: Look, target: Array, toward: Array, moved: Callable[[Array], Array]) -> Array:
    """Newton step Δ of dual weights, (1 + Γ G) Δ = target: symmetric with Γ = R Rᵀ in the middle; toward: G target."""
    from scipy.sparse.linalg import LinearOperator, cg

    root, off, shape = now.root, now.off, now.alpha.shape
    right = off(root * toward)

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

    def chunk(self, data: Table) -> StreamChunk:
        """Rows to be predicted and learned."""
        return StreamChunk(WideFit.without_directions(self.model, data))

    def left_by(self, fit: WideFit, point: PathPoint) -> Left:
        """The mode of a fit and independent weights, for later rows."""
        d, mean = fit.rows.shape[1], np.atleast_2d(point.block.mean).T
        prior = np.full(mean.shape, point.precision)
        prior[d:] = self.model.intercept_precision
        curvature = _curvature(fit, fit.latents(mean), prior, 1.0 / np.atleast_2d(point.block.variance).T)
        block = diagonal_block(d, point.block.mean, (prior + curvature).T.reshape(point.block.mean.shape))
        return Left(fit.widened(replace(point, block=block)), point.precision)

    def rescaled(self, left: Left, precision: float) -> Left:
        """The posterior of independent weights under another scale of the prior."""
        if precision == left.precision:
            return left
        d, block = self.model.n_features, left.block
        parts = under(d, block.mean, 1.0 / block.variance, left.precision, precision)
        return Left(diagonal_block(d, *parts), precision)

    def faded(self, block: LowRankGaussian, precision: float, share: float) -> Left:
        """A posterior whose rows count less, by `share`, with independent weights."""
        if share == 1.0 and not block.basis.shape[1]:
            return Left(block, precision)
        linear, rows = self._message(block, precision)
        prior, mean = self._prior(precision, rows.shape)
        total = prior + share * rows
        return Left(diagonal_block(self.model.n_features, (prior * mean + share * linear) / total, total), precision)

    def with_message(self, left: Left, other: Left) -> Left:
        """The posterior with what other rows said besides, under its own scale of the prior."""
        linear, rows = self._message(*other)
        own = 1.0 / left.block.variance
        total = own + rows
        return Left(
            diagonal_block(self.model.n_features, (own * left.block.mean + linear) / total, total), left.precision
        )

    def _prior(self, precision: float, shape: tuple[int, ...]) -> tuple[Array, Array]:
        """Precision and mean of the prior, (..., D + extra)."""
        d, total, mean = self.model.n_features, np.full(shape, precision), np.zeros(shape)
        total[..., d:], mean[..., d:] = self.model.intercept_precision, self.model.intercept_mean
        return total, mean

    def _message(self, block: LowRankGaussian, precision: float) -> tuple[Array, Array]:
        """What rows said of each weight by itself: a precision times a mean, and the precision, (..., D + extra)."""
        own = 1.0 / block.variance
        prior, mean = self._prior(precision, own.shape)
        return own * block.mean - prior * mean, np.maximum(own - prior, 0.0)
