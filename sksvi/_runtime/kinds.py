"""Kinds of dtypes by name, ``dtype.kind in NUMBERS``, of NumPy's and of those that pandas adds; and of matrices."""

from __future__ import annotations

from typing import TypeAlias, TypeGuard

import scipy.sparse as sp

Compressed: TypeAlias = "sp.csr_array | sp.csr_matrix"
#: Formats that users have; those that are rarer have the same methods.
Sparse: TypeAlias = "Compressed | sp.csc_array | sp.csc_matrix | sp.coo_array | sp.coo_matrix"

#: Whole numbers; numbers; numbers and truth values.
WHOLE, REAL, NUMBERS = "iu", "iuf", "biuf"
#: What arrays in a file are of: no objects, no records.
FILED = NUMBERS + "cUSMm"


def is_sparse(X: object) -> TypeGuard[Sparse]:
    """Whether X is a sparse matrix of any format, as users have them."""
    return bool(sp.issparse(X))


def is_compressed(X: object) -> TypeGuard[Compressed]:
    """Whether X is a sparse matrix, behind the door where each becomes one of compressed rows."""
    return bool(sp.issparse(X))
