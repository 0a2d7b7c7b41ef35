"""Responsibilities (n, K) of some rows, a sparse matrix: what moves ask of them, where the rows lie."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.special import softmax, xlogy

from sksvi.models.base import Table
from sksvi.models.mixture.model import MixtureModel, View

Array = np.ndarray
Counts = dict[str, Array]

#: A responsibility below this is none.
NO_SHARE = 1e-12


def found_shares(model: MixtureModel, view: View, gone: Array, data: Table) -> Any:
    """Those of components that are not gone."""
    parts = model.chunks(slice(0, len(data)), data)
    return sp.vstack([sp.csr_matrix(_found(view, gone, data, rows)) for rows in parts], format="csc")


def _found(view: View, gone: Array, data: Table, rows: slice | Array) -> Array:
    logs = view.logs(data.X[rows])
    logs[:, gone] = -np.inf
    shares = softmax(logs, axis=1)
    shares[shares < NO_SHARE] = 0.0
    return np.asarray(shares / shares.sum(1, keepdims=True))


def _weight(data: Table) -> Array:
    return np.ones(len(data)) if data.weight is None else data.weight


def _counted(model: MixtureModel, data: Table, rows: slice | Array, shares: Array) -> Counts:
    said = model.counted(shares * _weight(data)[rows][:, None], data.X[rows])
    return {name: part for name, (part,) in said.items()}


def all_counts(model: MixtureModel, data: Table, shares: Any) -> Counts:
    """Counts of components, and of their values."""
    by_row = shares.tocsr()
    parts = model.chunks(slice(0, len(data)), data)
    found = [_counted(model, data, rows, by_row[rows].toarray()) for rows in parts]
    return {name: np.sum([part[name] for part in found], axis=0) for name in found[0]}


def _entropy(weight: Array, shares: Array) -> float:
    """-Σ r log r, nats; shares (n,) of one component, or (n, K)."""
    own = xlogy(shares, shares)
    return -float(weight @ (own if own.ndim == 1 else own.sum(1)))


def all_entropy(data: Table, shares: Any) -> float:
    """That of all components."""
    return _entropy(_weight(data)[shares.indices], shares.data)


def entropies_of_merges(k: int, others: list[int], data: Table, shares: Any) -> Array:
    """What a component's becoming one with each other gains, at most 0."""
    weight, one = _weight(data), shares[:, [k]]

    def of(column: Any) -> float:
        return _entropy(weight[column.indices], column.data)

    pairs = ((shares[:, [other]], of(one)) for other in others)
    return np.array([of(one + two) - (own + of(two)) for two, own in pairs])


def in_other_columns(to: Array, data: Table, shares: Any) -> Any:
    """Responsibilities that other components take over: `to` (K, K) is one where a row's does its column's."""
    moved = (shares @ sp.csc_matrix(to)).tocsc()
    moved.eliminate_zeros()
    return moved


def changes_without(
    model: MixtureModel, view: View, gone: Array, k: int, data: Table, shares: Any
) -> tuple[Counts, Counts, float]:
    """Counts of the rows of a component before and after they go to others, and what entropy gains by that."""
    rows, old, new = _redistributed(view, gone, k, data, shares)
    before, after = (_counted(model, data, rows, part) for part in (old, new))
    weight = _weight(data)[rows]
    return before, after, _entropy(weight, new) - _entropy(weight, old)


def without(model: MixtureModel, view: View, gone: Array, k: int, data: Table, shares: Any) -> Any:
    """Responsibilities once the rows of a component went to others."""
    rows, _, new = _redistributed(view, gone, k, data, shares)
    changed = shares.tolil()
    changed[rows] = new
    return changed.tocsc()


def _redistributed(view: View, gone: Array, k: int, data: Table, shares: Any) -> tuple[Array, Array, Array]:
    rows = np.sort(shares[:, [k]].indices)
    return rows, shares.tocsr()[rows].toarray(), _found(view, gone, data, rows)
