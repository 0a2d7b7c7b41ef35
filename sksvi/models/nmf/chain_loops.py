"""Compiled conditional draws of counts: which component each came from, and activations of rows given the bases."""

from __future__ import annotations

import numpy as np

from sksvi._runtime.compiled import entry, njit
from sksvi.models.numbers import FLOAT, GOLDEN, mixed, uniform
from sksvi.models.topics.loops.cells import gamma_of, split

Array = np.ndarray

compiled = njit()

#: Counts of a cell up to which each is drawn by itself.
FEW = 4.0


@njit(inline="always")
def _one(h: Array, bases: Array, w: int, u: float, tail: Array) -> int:
    """A component with probability ∝ h b of row `w` of the bases, from a number u in (0, 1)."""
    K, total, k = len(h), 0.0, 0
    for j in range(K):
        total += h[j] * bases[w, j]
        tail[j] = total
    u *= total
    while k < K - 1 and tail[k] < u:
        k += 1
    return k


@compiled
def _cell(count: float, h: Array, bases: Array, w: int, state: Array, spare: Array, tail: Array, out: Array) -> int:
    """Draw which components a cell's counts came from: -1 and their numbers in `out`, or of one count which it was.

    A fraction of a count is rounded up as often as it says.
    """
    n = np.floor(count)
    if count > n:
        n += 1.0 if uniform(state) < count - n else 0.0
    if n == 1.0:
        return _one(h, bases, w, uniform(state), tail)
    for k in range(len(out)):
        out[k] = 0.0
    if n > FEW:
        split(n, h, bases[w], tail, state, spare, out)
        return -1
    for _ in range(int(n)):
        out[_one(h, bases, w, uniform(state), tail)] += 1.0
    return -1


@entry(
    "activations (n, K) f",
    "bases (F, K) f",
    "indptr (n+1) i cuts e",
    "columns (e) i < F",
    "counts (e) f",
    "row_counts (n, K) f",
    "cell_counts (F, K) f",
)
@compiled
def allocate(
    indptr: Array,
    columns: Array,
    counts: Array,
    activations: Array,
    bases: Array,
    seed: int,
    row_counts: Array,
    cell_counts: Array,
) -> None:
    """Draw which component every count came from: sums of rows into `row_counts`, of columns += `cell_counts`."""
    K = activations.shape[1]
    h, tail, out = np.empty(K, FLOAT), np.empty(K, FLOAT), np.empty(K, FLOAT)
    state, spare = np.empty(1, np.uint64), np.empty(1, FLOAT)
    state[0], spare[0] = mixed(np.uint64(seed)), 0.0
    first = indptr[0]
    for i in range(len(activations)):
        for k in range(K):
            h[k] = activations[i, k]
        for e in range(indptr[i] - first, indptr[i + 1] - first):
            w = columns[e]
            only = _cell(counts[e], h, bases, w, state, spare, tail, out)
            if only >= 0:
                row_counts[i, only] += 1.0
                cell_counts[w, only] += 1.0
                continue
            for k in range(K):
                row_counts[i, k] += out[k]
                cell_counts[w, k] += out[k]


@entry(
    "start (n, K) f",
    "bases (F, S, K) f",
    "indptr (n+1) i cuts e",
    "columns (e) i < F",
    "counts (e) f",
    "rates (r, S, K) f",
    "mean (n, S, K) f",
    "variance (n, S, K) f",
)
@compiled
def row_draws(
    indptr: Array,
    columns: Array,
    counts: Array,
    start: Array,
    bases: Array,
    rates: Array,
    shape: float,
    burn_in: int,
    mean: Array,
    variance: Array,
) -> None:
    """Moments of the activations of rows given where counts came from, drawn at each draw of the bases, from `start`.

    ``rates``: what the prior and the seen cells of a row say of its activations at each draw; one for all rows, or one
    each. Every row has the same random numbers: its moments depend on nothing but itself.
    """
    K, S = start.shape[1], bases.shape[1]
    h, tail, out, own = np.empty(K, FLOAT), np.empty(K, FLOAT), np.empty(K, FLOAT), np.empty(K, FLOAT)
    state, spare = np.empty(1, np.uint64), np.empty(1, FLOAT)
    first = indptr[0]
    for i in range(len(start)):
        state[0], spare[0] = mixed(GOLDEN), 0.0
        for k in range(K):
            h[k] = start[i, k]
        rate = rates[i if len(rates) > 1 else 0]
        room = np.empty((indptr[i + 1] - indptr[i], K))
        for step in range(-burn_in, S):
            s = step % S
            for k in range(K):
                own[k] = shape
            for e in range(len(room)):
                at = indptr[i] - first + e
                for k in range(K):
                    room[e, k] = bases[columns[at], s, k]
                only = _cell(counts[at], h, room, e, state, spare, tail, out)
                if only >= 0:
                    own[only] += 1.0
                    continue
                for k in range(K):
                    own[k] += out[k]
            for k in range(K):
                h[k] = gamma_of(own[k], state, spare) / rate[s, k]
                if step >= 0:
                    mean[i, s, k] = own[k] / rate[s, k]
                    variance[i, s, k] = own[k] / rate[s, k] / rate[s, k]
