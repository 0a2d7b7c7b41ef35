"""Responsibilities of rows, and what moves compute from them where the rows lie.

Most of it needs nothing of a row but its weight: rows that are read anew for every pass are not read for these.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.special import softmax, xlogy

from sksvi.models.base import InMemory, Table
from sksvi.models.mixture.model import MixtureModel, MixtureView

Array = np.ndarray
Counts = dict[str, Array]

#: A responsibility below this is none.
NO_SHARE = 1e-12


@dataclass(frozen=True)
class Shares(InMemory):
    """Responsibilities, a sparse matrix (n, K), and the weights of rows (n,)."""

    shares: Any
    weight: Array

    def __len__(self) -> int:
        return len(self.weight)


def responsibilities_at(model: MixtureModel, view: MixtureView, gone: Array, data: Table) -> Shares:
    """Responsibilities of all rows at a view; the components in the mask `gone` (K,) have none."""
    parts = model.chunks(slice(0, len(data)), data)
    found = sp.vstack([sp.csr_matrix(_responsibilities(view, gone, data, rows)) for rows in parts], format="csc")
    return Shares(found, np.ones(len(data)) if data.weight is None else data.weight)


def _responsibilities(view: MixtureView, gone: Array, data: Table, rows: slice | Array) -> Array:
    logs = view.logs(data.X[rows])
    logs[:, gone] = -np.inf
    shares = softmax(logs, axis=1)
    shares[shares < NO_SHARE] = 0.0
    return np.asarray(shares / shares.sum(1, keepdims=True))


def _counted(model: MixtureModel, data: Table, weight: Array, rows: slice | Array, shares: Array) -> Counts:
    counts = model.counted(shares * weight[rows][:, None], data.X[rows])
    return {name: part for name, (part,) in counts.items()}


def all_counts(model: MixtureModel, data: Table, shares: Shares) -> Counts:
    """Expected counts of the rows of every component, and of their values."""
    by_row = shares.shares.tocsr()
    parts = model.chunks(slice(0, len(data)), data)
    found = [_counted(model, data, shares.weight, rows, by_row[rows].toarray()) for rows in parts]
    return {name: np.sum([part[name] for part in found], axis=0) for name in found[0]}


def _entropy(weight: Array, shares: Array) -> float:
    """-Σ r log r, nats; shares (n,) of one component, or (n, K)."""
    own = xlogy(shares, shares)
    return -float(weight @ (own if own.ndim == 1 else own.sum(1)))


def all_entropy(shares: Shares) -> float:
    """Entropy of all responsibilities, -Σ r log r times the rows' weights, nats."""
    return _entropy(shares.weight[shares.shares.indices], shares.shares.data)


def entropies_of_merges(k: int, others: list[int], shares: Shares) -> Array:
    """Change of the entropy, nats, when component k becomes one with each of the others: at most 0."""
    weight, matrix = shares.weight, shares.shares
    one = matrix[:, [k]]

    def of(column: Any) -> float:
        return _entropy(weight[column.indices], column.data)

    pairs = ((matrix[:, [other]], of(one)) for other in others)
    return np.array([of(one + two) - (own + of(two)) for two, own in pairs])


def reassigned(to: Array, shares: Shares) -> Shares:
    """Responsibilities after components took over those of others: `to` (K, K) is one where a column takes a row's."""
    moved = (shares.shares @ sp.csc_matrix(to)).tocsc()
    moved.eliminate_zeros()
    return Shares(moved, shares.weight)


def changes_of_deletion(
    model: MixtureModel, view: MixtureView, gone: Array, k: int, data: Table, shares: Shares
) -> tuple[Counts, Counts, float]:
    """Counts of the rows of component k before and after they go to the others, and the gain of entropy, nats."""
    rows, old, new = _redistributed(view, gone, k, data, shares)
    before, after = (_counted(model, data, shares.weight, rows, part) for part in (old, new))
    weight = shares.weight[rows]
    return before, after, _entropy(weight, new) - _entropy(weight, old)


def without_component(view: MixtureView, gone: Array, k: int, data: Table, shares: Shares) -> Shares:
    """Responsibilities after the rows of component k went to the others."""
    rows, _, new = _redistributed(view, gone, k, data, shares)
    changed = shares.shares.tolil()
    changed[rows] = new
    return Shares(changed.tocsc(), shares.weight)


def _redistributed(view: MixtureView, gone: Array, k: int, data: Table, shares: Shares) -> tuple[Array, Array, Array]:
    rows = np.sort(shares.shares[:, [k]].indices)
    return rows, shares.shares.tocsr()[rows].toarray(), _responsibilities(view, gone, data, rows)
