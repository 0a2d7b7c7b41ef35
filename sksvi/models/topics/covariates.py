"""Counts of documents beside the covariates that their proportions depend on."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

Array = np.ndarray


class DocumentCounts(sp.csr_matrix):
    """Counts (n, V) whose rows have covariates.

    ``design`` (n, D): standardised columns.
    """

    design: Array

    @classmethod
    def of(cls, counts: Any, design: Array) -> DocumentCounts:
        """Counts beside a design."""
        new = cls(counts)
        new.design = design
        return new

    def __getitem__(self, key: Any) -> Any:
        """Rows, with their covariates, or words."""
        rows = key[0] if isinstance(key, tuple) else key
        return type(self).of(super().__getitem__(key), self.design[rows])


def design_of(X: Any) -> Array:
    """Covariates (n, D) of documents; D = 0 of those that have none."""
    return X.design if isinstance(X, DocumentCounts) else np.empty((X.shape[0], 0))
