"""Harrell's concordance of predictions with censored times: pairs whose order is known and is predicted."""

from __future__ import annotations

import numpy as np

from sksvi._runtime.compiled import entry, njit
from sksvi.likelihoods.censored import ABOVE, BELOW, EXACT

Array = np.ndarray


def concordance(y: Array, predicted: Array, weight: Array | None = None) -> float:
    """Share of pairs of rows whose order is known that are predicted in it; equal predictions count a half.

    Parameters
    ----------
    y : ndarray of shape (n, 3) or (n, 4)
        As `Censored` has them.
    predicted : ndarray of shape (n,)
        Larger of a row that lasts longer.
    weight : ndarray of shape (n,), default=None
        A pair counts as often as the product of both.

    Returns
    -------
    float
        NaN without a pair whose order is known.
    """
    lower, upper, kind = y[:, 0], y[:, 1], y[:, 2]
    # A row ends at `last` at the latest, and goes on until `first` at least, to its end where that was seen.
    last = np.where(kind == ABOVE, np.inf, upper)
    first = np.where(kind == BELOW, -np.inf, lower)
    ends, starts = np.argsort(last, kind="stable"), np.lexsort((kind != EXACT, first))
    _, rank = np.unique(predicted, return_inverse=True)
    weight = np.ones(len(y)) if weight is None else np.asarray(weight, float)
    right, pairs = _pairs(ends, starts, last, first, kind == EXACT, rank.astype(np.int64), weight)
    return right / pairs if pairs > 0 else float("nan")


@entry("ends (n) i < n", "starts (n) i < n", "last (n)", "first (n)", "exact (n)", "rank (n) i < n", "weight (n)")
@njit()
def _pairs(
    ends: Array, starts: Array, last: Array, first: Array, exact: Array, rank: Array, weight: Array
) -> tuple[float, float]:
    """Weights of pairs that are predicted in order and of all in a known order; a Fenwick tree counts by rank."""
    tree, own = np.zeros(len(rank) + 1), np.zeros(len(rank))
    right = pairs = total = 0.0
    done = 0
    for j in starts:
        # An event at the time of another leaves their order open; a row that goes on beyond it does not.
        while done < len(ends) and (last[ends[done]] < first[j] or (last[ends[done]] == first[j] and not exact[j])):
            i = ends[done]
            done += 1
            total += weight[i]
            own[rank[i]] += weight[i]
            k = rank[i] + 1
            while k < len(tree):
                tree[k] += weight[i]
                k += k & -k
        below, k = 0.0, rank[j]
        while k > 0:
            below += tree[k]
            k -= k & -k
        right += weight[j] * (below + 0.5 * own[rank[j]])
        pairs += weight[j] * total
    return right, pairs
