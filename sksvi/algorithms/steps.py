"""Update steps of blocks: pure functions, block in, block out.

``gradient`` is that of the batch's expected log-likelihood times N/B in the block's mean and covariance (moments for
conjugate families); no function here knows a model.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sksvi.algorithms.line_search import MAX_HALVINGS, backtrack
from sksvi.families.base import between
from sksvi.families.gaussian.dense import NotPositiveDefinite
from sksvi.schedules import AdaGrad

Array = np.ndarray


@dataclass(frozen=True)
class AdaGradMemory:
    """Sums of squared gradients per datum of the mean and of C, in coordinates where the first q has covariance I.

    ``unit`` is the first q's C, a lower triangular matrix or a vector: C = C_u unit, and w = reach unitᵀ u. The mean
    has further to go than its own standard deviation: sqrt(N / P) of them when a datum is worth a unit of information.
    No number steps further than naturally: sums of rounding alone, of one that is at its best from the start, would
    make steps as long as any.
    """

    LAYOUT = """
        mean (…,D) f >=0; root (…,D) f >=0 or (…,D,D) f >=0
        unit (…,D) f or (…,D,D) f where it.shape == self.root.shape
        reach number >0
    """

    unit: Array
    mean: Array
    root: Array
    reach: float = 1.0

    @classmethod
    def start(cls, q: Any, n: float) -> AdaGradMemory:
        """Memory with empty sums for a Gaussian block that n data inform."""
        reach = max(1.0, float(np.sqrt(n / q.mean.shape[-1])))
        return cls(q.root, np.zeros_like(q.mean), np.zeros_like(q.root), reach)

    def faded(self, share: float) -> AdaGradMemory:
        """The memory with a share of its sums."""
        return replace(self, mean=share * self.mean, root=share * self.root)

    def raised(self, q: Any, share: Array, n: float, adagrad: AdaGrad) -> AdaGradMemory:
        """Sums at least such that no step is longer than about the natural one of rate `share` (P,).

        What gradients without noise leave behind says nothing about the noise of a small sample. In coordinates in
        which `unit` is standard, with variances s of q, a natural step of the mean is share s times the gradient.
        """
        least = self.least(q, share, n, adagrad)
        root = np.square(least[..., None, :] if self._matrix else least)
        return replace(
            self, mean=np.maximum(self.mean, np.square(self.reach**2 * least)), root=np.maximum(self.root, root)
        )

    def least(self, q: Any, share: Any, n: float, adagrad: AdaGrad) -> Array:
        """Roots of the sums (of the mean: over reach²) that make a step about the natural one of rate `share`."""
        standard = np.linalg.solve(np.swapaxes(self.unit, -1, -2), np.swapaxes(q.root, -1, -2)) if self._matrix else 0.0
        spread = np.square(standard).sum(-1) if self._matrix else np.square(q.root / self.unit)
        return adagrad.rate / (n * by_plate(share, spread) * spread)

    @property
    def _matrix(self) -> bool:
        return self.unit.ndim > self.mean.ndim

    def mean_step(self, gradient: Array, adagrad: AdaGrad, n: float, least: Array) -> tuple[Array, Array]:
        """Step of the mean, and the new sums."""
        inner = np.einsum("...jk,...k->...j", self.unit, gradient) if self._matrix else self.unit * gradient
        step, total = adagrad.step(inner * self.reach / n, self.mean, self.reach**2 * least)
        step = step * self.reach
        return (np.einsum("...j,...jk->...k", step, self.unit) if self._matrix else self.unit * step), total

    def root_step(self, gradient: Array, adagrad: AdaGrad, n: float, least: Array) -> tuple[Array, Array]:
        """Step of C, and the new sums."""
        inner = np.tril(gradient @ np.swapaxes(self.unit, -1, -2)) if self._matrix else self.unit * gradient
        step, total = adagrad.step(inner / n, self.root, least[..., None, :] if self._matrix else least)
        return (step @ self.unit if self._matrix else self.unit * step), total


def by_plate(rate: Any, part: Array) -> Any:
    """A rate, or one per plate in the shape that multiplies `part` (P, ...)."""
    return rate if np.ndim(rate) == 0 else rate.reshape(-1, *[1] * (part.ndim - 1))


def natural_step(q: Any, prior: Any, gradient: Any, rate: Any, left: Any = None) -> Any:
    """theta <- (1 - rate) theta + rate (theta_prior + gradient), for every natural block of the library.

    Where hyperparameters have moved the prior from `left`, theta first changes by as much as the prior did: they moved
    to what is best for what the data said, and a part of the old prior would stay in q as if the data had said it.
    Under a likelihood that is not log-concave the data may have said less than nothing of a direction, and only the old
    prior bears that: then theta steps from where it is.
    """
    start = prior.natural(q)
    # A prior without messages says 0 in one number: no array is made by adding it.
    pairs = zip(start, q.natural_gradient(gradient), strict=True)
    target = [g if isinstance(p, float) and p == 0.0 else p + g for p, g in pairs]
    if np.ndim(rate) == 0 and rate == 1.0:  # nothing is left of what was
        return q.replace(target)
    own = q.natural(q)
    if left is not None:
        try:
            return _between(q, [t + p - b for t, p, b in zip(own, start, left.natural(q), strict=True)], target, rate)
        except NotPositiveDefinite:
            pass
    return _between(q, own, target, rate)


def _between(q: Any, own: Any, target: Any, rate: Any) -> Any:
    """The block whose natural parameters are (1 - rate) of its own plus rate of the target's."""
    return q.replace([between(t, s, by_plate(rate, s)) for t, s in zip(own, target, strict=True)])


def beyond_step(q: Any, prior: Any, gradient: Any, rate: float) -> Any:
    """The natural step of a rate above 1: over-relaxation, kept in the domain entry by entry (see `Family.beyond`)."""
    return natural_step(q, prior, gradient, 1.0).beyond(q, rate - 1.0)


#: Longest natural step of a one-number block in its unconstrained coordinate: it doubles or halves a scale.
TRUSTED = float(np.log(2.0))


def trusted_step(q: Any, prior: Any, gradient: Any, rate: float) -> Any:
    """The natural step of a block of one number, cut to a trust region: a few rows may ask for any scale."""
    (theta,), (start,), (slope,) = q.natural(q), prior.natural(q), q.natural_gradient(gradient)
    ends = [q.at(q.standard_values + reach).natural(q)[0] for reach in (-TRUSTED, TRUSTED)]
    return q.replace([np.clip((1 - rate) * theta + rate * (start + slope), *ends)])


#: Longest secant step in unconstrained coordinates (e-folds of a scale), and ends of the bend that it trusts, in shares
#: of what q and the rows know.
SECANT_REACH, SECANT_BENDS = 1.0, (0.7, 1.5)


def secant_step(q: Any, prior: Any, gradient: Any, damping: float, memory: Any) -> tuple[Any, Any, float]:
    """A step towards the zero of a one-number block's gradient, for fits without noise.

    A natural step of rate 1 overshoots back and forth where a block's gradient depends on the block itself. Here the
    slope of the bound in the unconstrained coordinate is followed to where the last two slopes say that it vanishes.
    It changes with the other blocks too: the bend is held near the information of q and of the rows, the squares of
    their slopes, which the first step is by. ``memory`` is the last coordinate and its slope; the whole step promises
    what is returned last, nats.
    """
    here, slope = q.standard_values, q.standard_gradient(prior, gradient)
    moment = q.stretch * q.fisher(np.ones_like(slope))  # how fast the moment moves
    bend = -(q.stretch * moment - gradient[1][0] * np.square(moment))
    if memory is not None and here != memory[0]:
        secant = (slope - memory[1]) / (here - memory[0])
        bend = np.clip(secant, *(share * bend for share in SECANT_BENDS[::-1]))
    step = np.clip(-slope / bend, -SECANT_REACH, SECANT_REACH)
    return q.at(here + damping * step), (here, slope), 0.5 * float(np.abs(slope @ step))


def hybrid_step(
    q: Any, prior: Any, gradient: Any, rate: float, memory: AdaGradMemory, adagrad: AdaGrad, n: float, most: float = 1.0
) -> tuple[Any, AdaGradMemory]:
    """AdaGrad on the Gaussian mean, no number of it further than a natural step of rate `most`; natural on S."""
    in_mean = prior.dot(prior.mean - q.mean) + gradient[0]
    step, total = memory.mean_step(in_mean, adagrad, n, memory.least(q, most, n, adagrad))
    moved = natural_step(q, prior, gradient, rate)
    return type(q)(q.mean + step, moved.precision, moved.root), replace(memory, mean=total)


#: Most that a gradient step may change a spread, as a share of what it is.
TRUSTED_SPREAD = 0.5


def trusted_root(root: Array, step: Array, full: bool) -> Array:
    """The step of C, cut so that in coordinates where q is standard no deviation changes by more than a share.

    AdaGrad's first steps have the length of their rate whatever the gradient's size, noise included; where the
    likelihood grows like exp(f), one step to a far too wide q brings slopes that fill its sums for good.
    """
    if full:
        relative = np.linalg.solve(np.swapaxes(root, -1, -2), np.swapaxes(step, -1, -2))
        change = np.sqrt(np.square(relative).sum(-1))
    else:
        change = np.abs(step / root)
    largest = change.max(axis=-1)[(..., None, None) if full else (..., None)]
    return step * (TRUSTED_SPREAD / np.maximum(largest, TRUSTED_SPREAD))


def euclidean_step(
    q: Any, prior: Any, gradient: Any, memory: AdaGradMemory, adagrad: AdaGrad, n: float, most: float = 1.0
) -> tuple[Any, AdaGradMemory]:
    """AdaGrad on mean and Cholesky factor; a factor that leaves its domain is shortened (see `shortened`)."""
    in_mean, in_root = q.standard_gradient(prior, gradient)
    least = memory.least(q, most, n, adagrad)
    mean_step, mean_total = memory.mean_step(in_mean, adagrad, n, least)
    root_step, root_total = memory.root_step(in_root, adagrad, n, least)
    root_step = trusted_root(q.root, root_step, q.full)
    step = shortened(lambda share: type(q)(q.mean + share * mean_step, q.root + share * root_step))
    return step, replace(memory, mean=mean_total, root=root_total)


@dataclass(frozen=True)
class GradientSums:
    """Sums of squared gradients of mean and C as they are: AdaGrad as printed, in the coordinates of the block."""

    LAYOUT = "mean (…,D) f >=0; root (…,D) f >=0 or (…,D,D) f >=0"

    mean: Array
    root: Array

    @classmethod
    def start(cls, q: Any) -> GradientSums:
        """Empty sums for a Gaussian block."""
        return cls(np.zeros_like(q.mean), np.zeros_like(q.root))

    def faded(self, share: float) -> GradientSums:
        """The memory with a share of its sums."""
        return GradientSums(share * self.mean, share * self.root)


def literal_mean(q: Any, prior: Any, gradient: Any, memory: GradientSums, adagrad: AdaGrad) -> tuple[Array, Array]:
    """The mean after the step of Sheth and Khardon's (63), whose rates are AdaGrad's, and the new sums."""
    step, total = adagrad.step(prior.dot(prior.mean - q.mean) + gradient[0], memory.mean)
    return q.mean + step, total


def literal_hybrid_step(
    q: Any, prior: Any, gradient: Any, rate: Any, memory: GradientSums, adagrad: AdaGrad
) -> tuple[Any, GradientSums]:
    """Sheth and Khardon's (63) for the mean and (24) for the covariance, as printed."""
    mean, total = literal_mean(q, prior, gradient, memory, adagrad)
    moved = natural_step(q, prior, gradient, rate)
    return type(q)(mean, moved.precision, moved.root), replace(memory, mean=total)


def literal_euclidean_step(
    q: Any, prior: Any, gradient: Any, memory: GradientSums, adagrad: AdaGrad
) -> tuple[Any, GradientSums]:
    """Sheth and Khardon's (63) and (64), of plates (67), as printed: S = CᵀC with C upper triangular for the step.

    A row of C whose diagonal entry has passed zero is turned round, which changes neither S nor squares of gradients.
    """
    mean, mean_total = literal_mean(q, prior, gradient, memory, adagrad)
    C = upper_root(q.root) if q.full else q.root
    towards = 2.0 * gradient[1] - prior.precision_like(q)
    if q.full:
        entropy = np.eye(C.shape[-1]) / np.diagonal(C, axis1=-2, axis2=-1)[..., None]
        in_root = np.triu(entropy + C @ towards)
    else:
        in_root = 1.0 / C + C * towards
    step, root_total = adagrad.step(in_root, memory.root)
    C = lower_root(C + step) if q.full else np.abs(C + step)
    return type(q)(mean, C), GradientSums(mean_total, root_total)


def upper_root(root: Array) -> Array:
    """The upper triangular C with the product CᵀC of a root and a diagonal that is not negative."""
    C: Array = np.linalg.qr(root, mode="r")  # type: ignore[assignment]
    return np.where(np.diagonal(C, axis1=-2, axis2=-1)[..., None] < 0, -C, C)


def lower_root(root: Array) -> Array:
    """The lower triangular C with the product CᵀC of a root: blocks are in its coordinates."""
    return np.ascontiguousarray(upper_root(root[..., ::-1])[..., ::-1, ::-1])


@dataclass(frozen=True)
class FlatMemory:
    """AdaGrad's sums for a block of a few unconstrained standard coordinates (a log scale), and its first step."""

    LAYOUT = "total (…) f >=0; unit number >0"

    total: Array
    unit: float = 0.1

    @classmethod
    def start(cls, q: Any) -> FlatMemory:
        """Memory with empty sums."""
        return cls(np.zeros_like(q.standard_values))

    def faded(self, share: float) -> FlatMemory:
        """The memory with a share of its sums."""
        return replace(self, total=share * self.total)


def flat_step(
    q: Any, prior: Any, gradient: Any, memory: FlatMemory, adagrad: AdaGrad, n: float
) -> tuple[Any, FlatMemory]:
    """AdaGrad on unconstrained standard coordinates."""
    slope = q.standard_gradient(prior, gradient)
    step, total = adagrad.step(slope * memory.unit / n, memory.total)
    return q.at(q.standard_values + memory.unit * step), replace(memory, total=total)


#: Adam's step in the units of a free block (e-folds of a length scale), how it falls, and its two memories.
ADAM_RATE, ADAM_DELAY, ADAM_FIRST, ADAM_SECOND = 0.03, 1000.0, 0.9, 0.99


def adam_step(block: Any, gradient: Array, memory: Any) -> tuple[Any, Any]:
    """A free block moved along its gradient (Kingma and Ba 2015), with a rate that falls as 1/sqrt(t)."""
    mean, square, t = memory or (np.zeros_like(gradient), np.zeros_like(gradient), 0)
    t += 1
    mean = ADAM_FIRST * mean + (1 - ADAM_FIRST) * gradient
    square = ADAM_SECOND * square + (1 - ADAM_SECOND) * np.square(gradient)
    rate = ADAM_RATE / np.sqrt(1.0 + t / ADAM_DELAY)
    unbiased = mean / (1 - ADAM_FIRST**t), square / (1 - ADAM_SECOND**t)
    step = rate * unbiased[0] / np.maximum(np.sqrt(unbiased[1]), np.finfo(float).tiny)
    return type(block)(block.value + step), (mean, square, t)


def site_step(sites: Array, target: Array, rate: float) -> Array:
    """Damped messages: (1 - rate) site + rate target, one per datum (CVI, doc/algorithms.md)."""
    return (1 - rate) * sites + rate * target


def shortened(step: Callable[[float], Any]) -> Any:
    """The first of step(1), step(1/2), ... whose precision is positive definite: the one PSD policy.

    Raises
    ------
    NotPositiveDefinite
        After ``MAX_HALVINGS`` halvings.
    """

    def attempt(share: float) -> tuple[Any] | None:
        try:
            return (step(share),)
        except NotPositiveDefinite:
            return None

    found = backtrack(attempt, lambda trial: True)
    return step(0.5**MAX_HALVINGS) if found is None else found.trial[0]
