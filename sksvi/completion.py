"""Completion of documents: what the known words of a document say about its other words."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray


def halved(X: Any) -> tuple[Any, Any]:
    """Half of each row's distinct words, and the others: every second one in the order of a fixed shuffle of columns.

    The order is a multiplicative hash of the column, so that which half a word is in depends on nothing but the words
    of its own row.

    Parameters
    ----------
    X : CSR matrix
        Counts.

    Returns
    -------
    observed, held_out : CSR matrices
        Of the shape of X; a row with one word has it held out.

    Examples
    --------
    >>> import numpy as np
    >>> import scipy.sparse as sp
    >>> from sksvi.completion import halved
    >>> observed, held_out = halved(sp.csr_matrix(np.array([[3, 1, 0, 2, 4]])))
    >>> observed.nnz, held_out.nnz, (observed + held_out).toarray().tolist()
    (2, 2, [[3, 1, 0, 2, 4]])
    """
    import scipy.sparse as sp

    key = (X.indices.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(11)
    row = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
    order = np.lexsort((X.indices, key, row))
    observed = np.zeros(len(order), bool)
    observed[order] = (np.arange(len(order)) - X.indptr[row[order]]) % 2 == 1
    parts = []
    for kept in (observed, ~observed):
        ends = np.concatenate([[0], np.cumsum(kept)])[X.indptr]
        parts.append(sp.csr_matrix((X.data[kept], X.indices[kept], ends), shape=X.shape))
    return parts[0], parts[1]
