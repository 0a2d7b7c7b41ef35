"""Draws of a fitted q and their importance ratios p(y, draw) / q(draw), hyperparameters held as q has them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from sksvi._runtime import parallel
from sksvi.inference.engine import evaluate, prepare, whole
from sksvi.inference.problem import Problem
from sksvi.inference.state import State
from sksvi.models.base import Blocks

Array = np.ndarray

#: Numbers that are drawn at a time, and pairs of a row and a draw that are looked at together. Draws are told apart by
#: their block, so that the first of these two is a part of what a seed means.
DRAWN, PAIRS = 2**21, 2**17


def drawn(problem: Problem, q: Blocks, n_draws: int, seed: int) -> Iterator[tuple[slice, dict[str, Array], Array]]:
    """Draws in blocks: which they are, those of every block of q that has a prior, and log q - log prior, (S,)."""
    prior = problem.model.prior(q)
    numbers = sum(int(np.size(q[name].mean)) for name in prior)
    for number, part in enumerate(parallel.slices(n_draws, max(1, DRAWN // numbers))):
        rng = np.random.RandomState(np.random.MT19937(np.random.SeedSequence([seed, number])))
        found = {name: q[name].draws_against(prior[name], part.stop - part.start, rng) for name in sorted(prior)}
        excess: Any = sum(above for _, above in found.values())
        yield part, {name: draws for name, (draws, _) in found.items()}, excess


def log_ratios(problem: Problem, q: Blocks, n_draws: int, seed: int) -> Array:
    """log p(y, draw) - log q(draw) of each draw, (S,), nats."""
    prepare(q)
    out = np.empty(n_draws)
    for part, draws, excess in drawn(problem, q, n_draws, seed):
        out[part] = _log_likelihood(problem, q, draws, len(excess)) - excess
    return out


def _log_likelihood(problem: Problem, q: Blocks, draws: dict[str, Array], n_draws: int) -> Array:
    """log p(y | draw), (S,): chunk by chunk of the rows, whose sums meet in a fixed order."""
    model, data = problem.model, problem.data

    def of_chunk(rows: Any) -> Array:
        batch, total = model.batch(data, rows), np.empty(n_draws)
        for part in parallel.slices(n_draws, max(1, PAIRS // max(1, len(np.arange(len(data))[rows])))):
            some = {name: values[part] for name, values in draws.items()}
            total[part] = model.log_likelihood_at(q, some, batch, problem.exact)  # type: ignore[attr-defined]
        return total

    chunks = model.chunks(slice(0, len(data)), data)
    return parallel.tree_sum(parallel.in_order(of_chunk, chunks, problem.threads))


def bound_at(problem: Problem, q: Blocks) -> float:
    """E log p(y, draw) - log q(draw) under q, nats: the bound without what hyperparameters pay themselves."""
    there, prior = problem.for_bound, problem.model.prior(q)
    _, value = evaluate(there, State(q, 0), whole(there), gradient_wanted=False)
    return float(value - sum(q[name].kl(prior[name]) for name in prior))
