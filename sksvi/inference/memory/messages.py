"""What earlier chunks of a stream said about each plate, kept apart from the prior."""

from __future__ import annotations

from typing import Any

import numpy as np

from sksvi.families import GaussianPlates, Message
from sksvi.inference.state import Problem, State


def all_messages(model: Any, q: dict[str, Any]) -> dict[str, Message]:
    """What the data so far said about every plate."""
    return {side: q[side].over(prior) for side, prior in model.prior(q).items()}


def updated_messages(problem: Problem, q: dict[str, Any]) -> dict[str, Message]:
    """The same, anew for the plates that this chunk has entries of."""
    out = {}
    for side, prior in problem.model.prior(q).items():
        touched = np.flatnonzero(problem.data.sides[side].counts)
        out[side] = problem.so_far[side].copy()
        out[side].put(touched, q[side][touched].over(prior.of_plates(touched, q[side])))
    return out


def rejoined(problem: Problem, q: dict[str, Any]) -> dict[str, Any]:
    """q of the chunk's plates with the priors as they are now."""
    q = dict(q)
    for side, prior in problem.model.prior(q).items():
        touched = np.flatnonzero(problem.data.sides[side].counts)
        if len(touched):
            block = q[side].copy()
            joined = prior.of_plates(touched, block).times(problem.so_far[side].of(touched))
            block.put(touched, GaussianPlates.held(joined))
            q[side] = block
    return q


def chunk_divergence(problem: Problem, state: State) -> float:
    """Σ KL of the chunk's plates from what was known of them before, nats."""
    total = sum(block.penalty() for block in state.q.values() if block.kind == "point")
    for side, prior in problem.model.prior(state.q).items():
        touched = np.flatnonzero(problem.data.sides[side].counts)
        before = prior.of_plates(touched, state.q[side]).times(problem.so_far[side].of(touched))
        total += state.q[side][touched].kl(before)
    return float(total)
