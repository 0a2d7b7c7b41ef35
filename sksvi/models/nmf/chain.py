"""Conditional draws of counts by components: which component a count came from, activations, components, scales.

Given which component every count came from all numbers are Gamma, and given these counts are multinomial. Activations
of a row by themselves, given draws of the components, are a step of the same kind (`activations`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from sksvi._runtime import parallel
from sksvi.families import Gamma
from sksvi.models.base import Blocks
from sksvi.models.chains import ChainLength, ConditionalDraws, walk
from sksvi.models.nmf.cells import CountMatrix
from sksvi.models.nmf.rows import CHUNK_ROWS, CHUNKS, CountRows

Array = np.ndarray

#: What keeps the chain's random numbers apart from those of the fit, and the least number that a draw is.
CHAIN, LEAST = 42, np.finfo(np.float32).tiny
#: Steps of a row before its draws are taken; rows at a time.
ROW_BURN_IN, ROWS = 6, 64


@dataclass(frozen=True)
class CountPoint:
    """One draw: activations (n, K), components (F, K), their weights (K,), and the blocks of hyperparameters."""

    activations: Array
    components: Array
    weights: Array
    scales: Blocks


@dataclass(frozen=True)
class CountChain(ConditionalDraws[CountPoint]):
    """Conditional draws of a factorization of counts that begin at q.

    Parameters
    ----------
    model : CountRows
        Its `drawn_scales` draws what components share.
    found : CountMatrix
    q : dict
    threads : int
    """

    model: CountRows
    found: CountMatrix
    q: Blocks
    threads: int = 1

    @cached_property
    def _observed(self) -> Array | None:
        return None if self.found.seen is None else self.found.seen.astype(float)

    @cached_property
    def _parts(self) -> list[tuple[slice, Any]]:
        n = self.found.shape[0]
        size = max(CHUNK_ROWS, -(-n // CHUNKS))
        return [(rows, _in_order(self.found.counts[rows])) for rows in parallel.slices(n, size)]

    def begin(self, rng: np.random.Generator) -> CountPoint:
        """Components and weights drawn from q; rows, whose counts are divided by these alone at first."""
        K = self.model.shape[0]
        components = _positive(_drawn(self.q["components"], rng)).T
        weights = _positive(_drawn(self.q["weights"], rng)) if "weights" in self.q else np.ones(K)
        return CountPoint(np.ones((self.found.shape[0], K)), components, weights, self.q)

    def sweep(self, point: CountPoint, rng: np.random.Generator, number: int) -> CountPoint:
        """Where counts came from, activations, components, and then what these share."""
        model, observed = self.model, self._observed
        row_counts, cell_counts = self._allocated(point, rng)
        rates = model.row_rates(point.scales, self.found)
        bases = point.components * point.weights
        exposed = bases.sum(0) if observed is None else observed @ bases
        own = _positive(rng.standard_gamma(model.activation_shape + row_counts) / (rates + exposed))
        prior = model.component_prior(point.scales)
        exposed = own.sum(0) if observed is None else observed.T @ own
        components = rng.standard_gamma(prior.shape.T + cell_counts) / (prior.rate.T + exposed * point.weights)
        moved = replace(point, activations=own, components=_positive(components))
        covered = (moved.components * exposed).sum(0)
        return model.drawn_scales(moved, cell_counts.sum(0), covered, rates, rng)

    def _allocated(self, point: CountPoint, rng: np.random.Generator) -> tuple[Array, Array]:
        """Counts of every row (n, K), and of every column (F, K), from each component."""
        from sksvi.models.nmf.chain_loops import allocate

        bases, key = np.multiply(point.components, point.weights, order="C"), int(rng.integers(2**62))

        def one(number: int) -> tuple[Array, Array]:
            rows, c = self._parts[number]
            row_counts, cell_counts = np.zeros((c.shape[0], bases.shape[1])), np.zeros(bases.shape)
            own, seed = point.activations[rows], (key + number) % 2**62
            events = self.model.drawn_events(c, own, bases, point.scales, seed)
            allocate(c.indptr, c.indices, events, own, bases, seed, row_counts, cell_counts)
            return row_counts, cell_counts

        parts = list(parallel.in_order(one, list(range(len(self._parts))), self.threads))
        return np.concatenate([part[0] for part in parts]), parallel.tree_sum(part[1] for part in parts)


def _drawn(q: Gamma, rng: np.random.Generator) -> Array:
    return rng.standard_gamma(q.shape) / q.rate


def _in_order(counts: Any) -> Any:
    """Counts by column in each row, without zeros: random numbers go to cells in this order."""
    if not counts.has_sorted_indices or not np.all(counts.data):
        counts = counts.copy()
        counts.eliminate_zeros()
        counts.sort_indices()
    return counts


def _positive(values: Array) -> Array:
    """Values that products of two keep from 0."""
    return np.maximum(values, LEAST)


def draws_of(chain: CountChain, length: ChainLength, seed: int, rows: bool) -> dict[str, Array]:
    """Draws of bases, (F, S, K), of weights, (S, K), and of activations, (n, S, K), or of none, single precision."""
    (K, F), n = chain.model.shape, chain.found.shape[0] if rows else 0
    sizes = {"users": (n, length.draws, K), "items": (F, length.draws, K), "weights": (length.draws, K)}
    out = {name: np.empty(size, np.float32) for name, size in sizes.items()}

    def store(number: int, point: CountPoint) -> None:
        out["users"][:, number] = point.activations[:n]
        unit = chain.model.count_per_event(point.scales)
        out["items"][:, number] = _positive(unit * point.components * point.weights)
        out["weights"][number] = point.weights

    walk(chain, length, np.random.default_rng([seed, CHAIN]), store)
    return out


def activations(
    model: CountRows, rate: Any, bases: Array, found: CountMatrix, start: Array, threads: int
) -> tuple[Array, Array]:
    """Moments (n, S, K) of rows' activations at draws (F, S, K) of the bases, given draws of where counts came from.

    A row's are the same in whatever company; `rate` is that of the prior, of all rows or of each (n, K).
    """
    from sksvi.models.nmf.chain_loops import row_draws

    F, S, K = bases.shape
    out = tuple(np.empty((found.shape[0], S, K), np.float32) for _ in range(2))
    whole = bases.sum(0, dtype=float)[None]

    def one(rows: slice) -> None:
        own, rates = found[rows], whole
        if own.seen is not None:
            rates = (own.seen.astype(np.float32) @ bases.reshape(F, -1)).reshape(-1, S, K).astype(float)
        rates = rates + (rate if np.ndim(rate) == 0 else rate[rows, None])
        c = _in_order(own.counts)
        row_draws(
            *(c.indptr, c.indices, c.data, np.maximum(start[rows], LEAST), bases, rates),
            *(model.activation_shape, ROW_BURN_IN, *(part[rows] for part in out)),
        )

    for _ in parallel.in_order(one, parallel.slices(found.shape[0], ROWS), threads):
        pass
    return out[0], out[1]
