"""Compiled local steps of gamma process NMF: the expected counts of each row from each component.

Given the globals a row is a document of latent Dirichlet allocation whose proportions are not normalised: cell f has
expected count z_fk ∝ exp(ψ(b + N_k)) B_fk from component k, N_k = Σ_f z_fk, B_fk = θ_k W_fk / (b + θ_k Σ_f W_fk).
"""

from __future__ import annotations

import numpy as np

from sksvi._runtime.compiled import entry
from sksvi.families.implicit_loops import digamma
from sksvi.models.numbers import FLOAT
from sksvi.models.topics.loops.algebra import compiled, gathered, scaled_proportions, smallest, sum_of
from sksvi.models.topics.loops.visits import ascend, counted_at

Array = np.ndarray

#: What both loops take: rows as CSR parts, B up to a factor per column, what it is multiplied by in each row (none: 1).
ROWS = (
    "bases (F, K) f",
    "counted (n, K) f",
    "factor (n|0, K) f",
    "indptr (n+1) i cuts e",
    "columns (e) i < F",
    "counts (e) f",
    "logs (n) f",
    "cell_counts (F|0, K) f",
)


@compiled
def bases_of(bases: Array, columns: Array, factor: Array, row: int) -> Array:
    """B of the columns of one row, (e, K); of all columns, which are in order, no copy."""
    if len(columns) == len(bases) and not len(factor):
        return bases
    own = gathered(bases, columns)
    if len(factor):
        for w in range(len(own)):
            for k in range(own.shape[1]):
                own[w, k] *= factor[row, k]
    return own


@compiled
def log_likelihood(counts: Array, ratio: Array) -> float:
    """Σ c log Σ_k of one row, from counts over sums."""
    value = 0.0
    for w in range(len(counts)):
        value += counts[w] * np.log(counts[w] / ratio[w])
    return value


@entry(*ROWS, "shape (K) f", "before (n|0, K) f", "at (n, K) f")
@compiled
def mean_field_rows(
    indptr: Array, columns: Array, counts: Array, bases: Array, factor: Array, shape: Array, before: Array,
    sweeps: int, tol: float, beyond: float, counted: Array, cell_counts: Array, logs: Array, at: Array,
) -> None:  # fmt: skip
    """Coordinate ascent on q(H) = Gamma(b + N, ·) and z of every row, from N = `counted` (n, K).

    b is ``shape``, and ``before`` (n, K; none: 0) more of it in each row. `sweeps`, `tol`, `beyond`: see `ascend`.
    It ends at N = ``at`` (n, K) and the best z there, whose sums go into `counted`: the next look at the row begins
    with the best q(H) at that z. ``cell_counts`` (F, K) += z. ``logs`` (n,): Σ_f c log Σ_k exp(ψ(b + N_k)) B_fk.
    """
    proportions, least = np.empty(bases.shape[1], bases.dtype), smallest(bases)
    after, mine = np.empty(len(proportions), bases.dtype), np.empty(len(shape), FLOAT)
    for i in range(len(counted)):
        start, stop = indptr[i], indptr[i + 1]
        own = bases_of(bases, columns[start:stop], factor, i)
        its, ratio = counts[start:stop], np.empty(stop - start, bases.dtype)
        for k in range(len(shape)):
            mine[k] = shape[k] + before[i, k] if len(before) else shape[k]
        mass, now = sum_of(its), counted[i]
        ascend(own, its, mine, sweeps, tol * mass, beyond, now, proportions, ratio, after)
        for k in range(len(now)):
            at[i, k] = now[k]
        top = scaled_proportions(mine, now, least, proportions) + digamma(sum_of(mine) + sum_of(now))
        counted_at(own, columns[start:stop], its, proportions, ratio, after, now, cell_counts)
        logs[i] = log_likelihood(its, ratio) + top * mass


@entry(*ROWS, "weights (n, K) f")
@compiled
def counted_rows(
    indptr: Array, columns: Array, counts: Array, bases: Array, factor: Array, weights: Array, counted: Array,
    cell_counts: Array, logs: Array,
) -> None:  # fmt: skip
    """Expected counts z_fk ∝ h_k B_fk at given `weights` h (n, K): N into `counted`; the rest as `mean_field_rows`."""
    after = np.empty(bases.shape[1], FLOAT)
    for i in range(len(counted)):
        start, stop = indptr[i], indptr[i + 1]
        own = bases_of(bases, columns[start:stop], factor, i)
        its, ratio = counts[start:stop], np.empty(stop - start, FLOAT)
        counted_at(own, columns[start:stop], its, weights[i], ratio, after, counted[i], cell_counts)
        logs[i] = log_likelihood(its, ratio)


@entry(
    "components (S, F, K) f",
    "activations (S, n, K) f",
    "indptr (n+1) i cuts e",
    "columns (e) i < F",
    "counts (e) f",
    "slopes (S, n, K) f",
    "component_slopes (S, F, K) f",
    "logs (n) f",
)
@compiled
def drawn_rows(
    indptr: Array,
    columns: Array,
    counts: Array,
    components: Array,
    activations: Array,
    slopes: Array,
    component_slopes: Array,
    logs: Array,
) -> None:
    """At S draws of both factors: Σ_f c log Σ_k w_fk h_k on average into `logs`, and its slopes, draw by draw.

    ``slopes`` in h, ``component_slopes`` in w, the latter +=.
    """
    S, n, K = activations.shape
    logs[:] = 0.0
    for s in range(S):
        first = indptr[0]
        for i in range(n):
            h, slope = activations[s, i], slopes[s, i]
            slope[:] = 0.0
            for e in range(indptr[i] - first, indptr[i + 1] - first):
                w, into, total = components[s, columns[e]], component_slopes[s, columns[e]], 0.0
                for k in range(K):
                    total += w[k] * h[k]
                ratio = counts[e] / total
                logs[i] += counts[e] * np.log(total) / S
                for k in range(K):
                    slope[k] += ratio * w[k]
                    into[k] += ratio * h[k]
