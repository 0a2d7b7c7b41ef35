"""The compiled sweep of the collapsed sampler: labels one after the other, weights and probabilities integrated out."""

from __future__ import annotations

import numpy as np

from sksvi._runtime.compiled import entry, njit

Array = np.ndarray


@njit()
def _moved(
    values: Array, cuts: Array, prior: float, k: int, by: float, counts: Array, observed: Array, logs: Array
) -> None:
    """A row joins (by = 1) or leaves (by = -1) component k: update its counts, and their log probabilities."""
    for d in range(len(values)):
        if values[d] < 0:
            continue
        start, stop = cuts[d], cuts[d + 1]
        counts[values[d], k] += by
        observed[d, k] += by
        total = np.log((stop - start) * prior + observed[d, k])
        for v in range(start, stop):
            logs[v, k] = np.log(prior + counts[v, k]) - total


@entry(
    "counts (V, K) f", "logs (V, K) f", "rows (K) f", "observed (D, K) f", "cuts (D+1) i cuts V",
    "values (n, D) i ? < V", "uniform (n) f", "labels (n) i < K",
)  # fmt: skip
@njit()
def sweep(
    values: Array,
    cuts: Array,
    share: float,
    prior: float,
    uniform: Array,
    labels: Array,
    rows: Array,
    counts: Array,
    observed: Array,
    logs: Array,
) -> None:
    """p(z_n = k | rest) ∝ (α/K + N_k) Π_d (c + N_kdv)/(m_d c + N_kd) without row n itself, row by row, in place.

    values (n, D): which of all columns' values, -1 where missing; column d has those of cuts[d] to cuts[d + 1]. share:
    α/K. observed (D, K): cells of each column that rows of each component have, N_kd. logs (V, K): log probability of
    each value, updated as counts change.
    """
    K, D = len(rows), len(cuts) - 1
    score = np.empty(K)
    for n in range(len(labels)):
        row, old = values[n], labels[n]
        rows[old] -= 1.0
        _moved(row, cuts, prior, old, -1.0, counts, observed, logs)
        for k in range(K):
            score[k] = np.log(share + rows[k])
        for d in range(D):
            if row[d] >= 0:
                its = logs[row[d]]
                for k in range(K):
                    score[k] += its[k]
        top, total = -np.inf, 0.0
        for k in range(K):  # score.max() takes longer to compile than this loop
            if score[k] > top:
                top = score[k]
        for k in range(K):
            score[k] = np.exp(score[k] - top)
            total += score[k]
        left, new = uniform[n] * total, 0
        while new < K - 1 and left > score[new]:
            left -= score[new]
            new += 1
        labels[n] = new
        rows[new] += 1.0
        _moved(row, cuts, prior, new, 1.0, counts, observed, logs)
