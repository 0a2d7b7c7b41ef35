"""Responsibilities of rows, and what moves ask of them where the rows lie.

Most questions need no row but its weight: rows that are read anew for every question are not read for these.
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


def found_shares(model: MixtureModel, view: MixtureView, gone: Array, data: Table) -> Shares:
    """Those of components that are not gone."""
    parts = model.chunks(slice(0, len(data)), data)
    found = sp.vstack([sp.csr_matrix(_found(view, gone, data, rows)) for rows in parts], format="csc")
    return Shares(found, np.ones(len(data)) if data.weight is None else data.weight)


def _found(view: MixtureView, gone: Array, data: Table, rows: slice | Array) -> Array:
    logs = view.logs(data.X[rows])
    logs[:, gone] = -np.inf
    shares = softmax(logs, axis=1)
    shares[shares < NO_SHARE] = 0.0
    return np.asarray(shares / shares.sum(1, keepdims=True))


def _counted(model: MixtureModel, data: Table, weight: Array, rows: slice | Array, shares: Array) -> Counts:
    said = model.counted(shares * weight[rows][:, None], data.X[rows])
    return {name: part for name, (part,) in said.items()}


def all_counts(model: MixtureModel, data: Table, known: Shares) -> Counts:
    """Counts of components, and of their values."""
    by_row = known.shares.tocsr()
    parts = model.chunks(slice(0, len(data)), data)
    found = [_counted(model, data, known.weight, rows, by_row[rows].toarray()) for rows in parts]
    return {name: np.sum([part[name] for part in found], axis=0) for name in found[0]}


def _entropy(weight: Array, shares: Array) -> float:
    """-Σ r log r, nats; shares (n,) of one component, or (n, K)."""
    own = xlogy(shares, shares)
    return -float(weight @ (own if own.ndim == 1 else own.sum(1)))


def all_entropy(known: Shares) -> float:
    """That of all components."""
    return _entropy(known.weight[known.shares.indices], known.shares.data)


def entropies_of_merges(k: int, others: list[int], known: Shares) -> Array:
    """What a component's becoming one with each other gains, at most 0."""
    weight, shares = known.weight, known.shares
    one = shares[:, [k]]

    def of(column: Any) -> float:
        return _entropy(weight[column.indices], column.data)

    pairs = ((shares[:, [other]], of(one)) for other in others)
    return np.array([of(one + two) - (own + of(two)) for two, own in pairs])


def in_other_columns(to: Array, known: Shares) -> Shares:
    """Those that other components take over: `to` (K, K) is one where a column takes over a row's."""
    moved = (known.shares @ sp.csc_matrix(to)).tocsc()
    moved.eliminate_zeros()
    return Shares(moved, known.weight)


def changes_without(
    model: MixtureModel, view: MixtureView, gone: Array, k: int, data: Table, known: Shares
) -> tuple[Counts, Counts, float]:
    """Counts of the rows of a component before and after they go to others, and what entropy gains by that."""
    rows, old, new = _redistributed(view, gone, k, data, known)
    before, after = (_counted(model, data, known.weight, rows, part) for part in (old, new))
    weight = known.weight[rows]
    return before, after, _entropy(weight, new) - _entropy(weight, old)


def without(view: MixtureView, gone: Array, k: int, data: Table, known: Shares) -> Shares:
    """Those once the rows of a component went to others."""
    rows, _, new = _redistributed(view, gone, k, data, known)
    changed = known.shares.tolil()
    changed[rows] = new
    return Shares(changed.tocsc(), known.weight)


def _redistributed(view: MixtureView, gone: Array, k: int, data: Table, known: Shares) -> tuple[Array, Array, Array]:
    rows = np.sort(known.shares[:, [k]].indices)
    return rows, known.shares.tocsr()[rows].toarray(), _found(view, gone, data, rows)
