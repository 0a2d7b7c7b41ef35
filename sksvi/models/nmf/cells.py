"""Rows of counts for models: the cells that are not zero, and which cells were observed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.special import gammaln

from sksvi._typing.arrays import is_compressed
from sksvi.models.base import Table

Array = np.ndarray


@dataclass(frozen=True)
class CountMatrix:
    """Counts (n, F) as a CSR matrix without stored zeros, and the mask of observed cells (`seen`; None: all).

    before (n, K): expected counts of each row from each component in earlier chunks of a stream; None: there were none.
    """

    LAYOUT = """
        counts csr_matrix where (it.data >= 0) & np.isfinite(it.data)
        seen? where np.shape(it) == self.counts.shape
    """

    counts: Any
    seen: Array | None = None
    before: Array | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.counts.shape

    def __getitem__(self, rows: Any) -> CountMatrix:
        return CountMatrix(
            self.counts[rows], *(None if part is None else part[rows] for part in (self.seen, self.before))
        )

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
