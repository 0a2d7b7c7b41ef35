"""Rows of counts for models: the cells that are not zero, which were observed, and rows that differ for a start.

A fit of gamma process NMF starts at rows that differ, which components then share.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.special import gammaln, xlogy

from sksvi._typing.arrays import is_compressed
from sksvi.models.data import Table

# ---- cells
Array = np.ndarray


@dataclass(frozen=True)
class CountMatrix:
    """Counts (n, F) as a CSR matrix without stored zeros, and the mask of observed cells (`seen`; None: all).

    before (n, K): expected counts of each row from each component in earlier chunks of a stream; None: there were none.
    columns (n, p): what is known of each row besides; None: nothing.
    """

    LAYOUT = """
        counts csr_matrix where (it.data >= 0) & np.isfinite(it.data)
        seen? where np.shape(it) == self.counts.shape
    """

    counts: Any
    seen: Array | None = None
    before: Array | None = None
    columns: Array | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.counts.shape

    def __getitem__(self, rows: Any) -> CountMatrix:
        beside = (None if part is None else part[rows] for part in (self.seen, self.before, self.columns))
        return CountMatrix(self.counts[rows], *beside)

    @property
    def nbytes(self) -> int:
        """Bytes of the counts and their mask."""
        parts = (self.counts.data, self.counts.indices, self.counts.indptr)
        return sum(part.nbytes for part in parts) + (0 if self.seen is None else self.seen.nbytes)

    @property
    def mean(self) -> float:
        """Mean of the observed cells; 0 if there are none."""
        total, n = self.sums
        return float(total / n) if n else 0.0

    @property
    def sums(self) -> Array:
        """Sum of the counts, and number of observed cells, (2,)."""
        n = float(np.prod(self.shape, dtype=float)) if self.seen is None else float(self.seen.sum())
        return np.array([float(self.counts.sum()), n])

    def stacked(self, other: CountMatrix) -> CountMatrix:
        """Counts of two sets of rows, one below the other."""
        counts = sp.vstack([self.counts, other.counts], format="csr")
        if self.seen is None and other.seen is None:
            return CountMatrix(counts)
        masks = (np.ones(part.shape, bool) if part.seen is None else part.seen for part in (self, other))
        return CountMatrix(counts, np.concatenate(list(masks)))


def cells(X: Any) -> CountMatrix:
    """Cells of a CSR matrix, or of an array whose missing cells are NaN."""
    if is_compressed(X):
        counts = sp.csr_matrix(X, dtype=np.float64, copy=True)
        counts.eliminate_zeros()
        return CountMatrix(counts)
    missing = np.isnan(X)
    counts = sp.csr_matrix(np.where(missing, 0.0, X).astype(np.float64))
    return CountMatrix(counts, ~missing if missing.any() else None)


def table(found: CountMatrix) -> Table:
    """Rows with what their density owes to counts alone, Σ log Γ(y + 1)."""
    counts = found.counts
    row = np.repeat(np.arange(found.shape[0]), np.diff(counts.indptr))
    return Table(found, np.bincount(row, gammaln(counts.data + 1.0), found.shape[0]))


# ---- rows that differ
#: Most rows that first components are chosen among, and what every cell has beside the row's own, whose mean is 1
#: (text, digits and spectra: 0.1 to 10 tried).
CHOSEN_AMONG, FLOOR = 5000, 3.0
#: Most rows that are grouped, rounds of k-means, and what every cell has beside its group's mean.
GROUPED, GROUPINGS, GROUP_FLOOR = 2000, 10, 0.3


def some_rows(data: Any, seed: int, most: int) -> CountMatrix:
    """At most `most` rows with counts, drawn at random, which a start is found from."""
    parts = data.reduced(_with_counts, operator.add)
    ends = np.cumsum([0, *(n for _, n in parts)])
    wanted = _some(int(ends[-1]), seed, most)
    own = {first: wanted[(wanted >= a) & (wanted < b)] - a for (first, _), a, b in zip(parts, ends, ends[1:])}
    return data.reduced(partial(_those, own), Table.concatenated).X


def _with_counts(data: Table) -> list[tuple[int, int]]:
    """The number of the first row, and how many of the rows have counts."""
    return [(data.first, int(np.count_nonzero(np.diff(data.X.counts.indptr))))]


def _those(wanted: dict[int, Array], data: Table) -> Table:
    return data.take(np.flatnonzero(np.diff(data.X.counts.indptr))[wanted[data.first]])


def _some(n: int, seed: int, most: int) -> Array:
    """At most so many of n rows."""
    return np.arange(n) if n <= most else np.sort(np.random.default_rng([seed, 0, 4]).choice(n, most, replace=False))


def from_rows(found: CountMatrix, n_components: int, seed: int) -> Array:
    """Means (K, F) of first components: rows far from each other in the profile that their counts have, of mean 1.

    k-means++ on the square roots of shares. Rows without counts are no profile; components that no row is left for
    begin at random.
    """
    some = _chosen(found, seed)
    start, first = at_random(n_components, found.shape[1], seed), _differing(found, some, n_components, seed)
    rows = found.counts[some[first]].toarray()
    start[: len(first)] = rows / rows.mean(1, keepdims=True) + FLOOR
    return start


def _chosen(found: CountMatrix, seed: int, most: int = CHOSEN_AMONG) -> Array:
    """Rows with counts, not too many."""
    some = np.flatnonzero(np.diff(found.counts.indptr))
    return some[_some(len(some), seed, most)]


def _differing(found: CountMatrix, some: Array, n_components: int, seed: int) -> Array:
    """Indices of rows to start from: far from each other in the square roots of their counts' shares."""
    from sklearn.cluster import kmeans_plusplus

    K = min(n_components, len(some))
    if not K:
        return np.zeros(0, int)
    profiles = found.counts[some]
    total = np.asarray(profiles.sum(1)).ravel()
    profiles.data = np.sqrt(profiles.data / np.repeat(total, np.diff(profiles.indptr)))
    return np.asarray(kmeans_plusplus(profiles, K, random_state=seed)[1])


def from_groups(found: CountMatrix, n_components: int, seed: int) -> Array:
    """Means (K, F) of first components: groups of rows alike in the profile that their counts have, of mean 1.

    k-means on square roots of shares, from `from_rows`'s choice of rows. A group that empties keeps its
    row.
    """
    some = _chosen(found, seed, GROUPED)
    start, first = at_random(n_components, found.shape[1], seed), _differing(found, some, n_components, seed)
    K = len(first)
    if not K:
        return start
    counts = found.counts[some]
    profiles = np.sqrt(counts)
    profiles = sp.diags_array(1.0 / np.sqrt(np.asarray(counts.sum(1)).ravel()), format="csr") @ profiles
    centres = profiles[first].toarray()
    for _ in range(GROUPINGS):
        group = np.argmax(profiles @ centres.T - 0.5 * np.square(centres).sum(1), axis=1)
        member = sp.csr_matrix((np.ones(len(group)), (group, np.arange(len(group)))), shape=(K, len(group)))
        size = np.asarray(member.sum(1))
        centres = np.where(size > 0, (member @ profiles).toarray() / np.maximum(size, 1.0), centres)
    totals = (member @ counts).toarray()
    empty = totals.sum(1) == 0
    totals[empty] = counts[first[empty]].toarray()
    start[:K] = totals / totals.mean(1, keepdims=True) + GROUP_FLOOR
    return start


def merged(parts: Array, n_components: int) -> Array:
    """Expected counts (K, F) of so many components: while there are more, the two most alike are added together.

    Two after two, those whose rows are explained worse by the least nats where one profile stands for both.
    """
    parts = parts.copy()
    own, mass = xlogy(parts, parts).sum(1), parts.sum(1)
    loss = np.full((len(parts), len(parts)), np.inf)

    def losses(k: int) -> Array:
        both = xlogy(together := parts + parts[k], together).sum(1) - xlogy(mass + mass[k], mass + mass[k])
        alone = own - xlogy(mass, mass)
        found = alone + alone[k] - both
        found[k] = np.inf
        return np.asarray(found)

    for k in range(len(parts)):
        loss[k] = losses(k)
    left = np.ones(len(parts), bool)
    while left.sum() > n_components:
        k, gone = map(int, np.unravel_index(int(np.argmin(loss)), loss.shape))
        parts[k] += parts[gone]
        own[k], mass[k], left[gone] = xlogy(parts[k], parts[k]).sum(), parts[k].sum(), False
        loss[k] = loss[:, k] = np.where(left, losses(k), np.inf)
        loss[gone] = loss[:, gone] = np.inf
    return np.asarray(parts[left])


def at_random(n_components: int, n_features: int, seed: int) -> Array:
    """Means (K, F) of first components, near 1."""
    return np.random.default_rng([seed, 0, 5]).gamma(100.0, 0.01, (n_components, n_features))
