"""What earlier chunks of a stream said about each plate, kept apart from the prior."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sksvi.families import GaussianPlates
from sksvi.families.gaussian.dense import DiagonalGaussian, Gaussian
from sksvi.families.gaussian.plates import packed, unpacked
from sksvi.inference.state import Problem, State

Array = np.ndarray


@dataclass
class Messages:
    """What earlier data said about each plate: natural parameters (P, F) and packed (P, R) beside the prior's."""

    linear: Array
    precision: Array

    def of(self, plates: Any) -> Messages:
        """Some plates."""
        return Messages(self.linear[plates], self.precision[plates])

    def lengthened(self, n: int) -> Messages:
        """With n more plates, of which nothing was said."""
        parts = (np.concatenate([a, np.zeros((n, a.shape[1]))]) for a in (self.linear, self.precision))
        return Messages(*parts)

    def joined(self, prior: Any, full: bool) -> Any:
        """Prior times message, plate by plate."""
        size = self.linear.shape[1]
        added = unpacked(self.precision, size, full)
        blank = (Gaussian if full else DiagonalGaussian)(np.zeros_like(self.linear), added)
        blank.precision = prior.precision_like(blank) + added
        mean = blank.solve(prior.times(np.broadcast_to(prior.mean, self.linear.shape)) + self.linear)
        return type(blank)(mean, blank.precision, blank.root)

    @classmethod
    def between(cls, q: GaussianPlates, prior: Any) -> Messages:
        """q over prior."""
        block = q.precise()
        linear = block.times(block.mean) - prior.times(np.broadcast_to(prior.mean, block.mean.shape))
        return cls(linear, packed(block.precision - prior.precision_like(block), q.full))


def all_messages(model: Any, q: dict[str, Any]) -> dict[str, Messages]:
    """What the data so far said about every plate."""
    return {side: Messages.between(q[side], prior) for side, prior in model.prior(q).items()}


def updated_messages(problem: Problem, q: dict[str, Any]) -> dict[str, Messages]:
    """The same, anew for the plates that this chunk has entries of."""
    out = {}
    for side, prior in problem.model.prior(q).items():
        touched = np.flatnonzero(problem.data.sides[side].counts)
        old = problem.so_far[side]
        linear, precision = old.linear.copy(), old.precision.copy()
        new = Messages.between(q[side][touched], prior_rows(prior, touched))
        linear[touched], precision[touched] = new.linear, new.precision
        out[side] = Messages(linear, precision)
    return out


def rejoined(problem: Problem, q: dict[str, Any]) -> dict[str, Any]:
    """q of the chunk's plates with the priors as they are now."""
    q = dict(q)
    for side, prior in problem.model.prior(q).items():
        touched = np.flatnonzero(problem.data.sides[side].counts)
        if len(touched):
            block = q[side].copy()
            joined = problem.so_far[side].of(touched).joined(prior_rows(prior, touched), block.full)
            block.put(touched, GaussianPlates.of(joined))
            q[side] = block
    return q


def prior_rows(prior: Any, plates: Any) -> Any:
    """The prior of some plates: one for all, or a mean each."""
    return type(prior)(prior.mean[plates] if prior.mean.ndim == 2 else prior.mean, prior.precision)


def chunk_divergence(problem: Problem, state: State) -> float:
    """Σ KL of the chunk's plates from what was known of them before, nats."""
    total = sum(block.penalty() for block in state.q.values() if block.kind == "point")
    for side, prior in problem.model.prior(state.q).items():
        touched = np.flatnonzero(problem.data.sides[side].counts)
        before = problem.so_far[side].of(touched).joined(prior_rows(prior, touched), state.q[side].full)
        total += state.q[side][touched].kl(before)
    return float(total)
