"""Wide designs: the subspace that the rows inform, and the weights of a fit carried over from one to another."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from sksvi._typing.arrays import is_compressed
from sksvi.families import ClassGaussian, Gaussian, ProjectedGaussian, StandardGaussian
from sksvi.models.base import Table
from sksvi.models.linear.rows import Design, informed_subspace

Array = np.ndarray


def merged(data: Table) -> Table:
    """Equal rows of a wide design as one row with the sum of their weights, sorted.

    Fewer rows than weights may be fitted exactly, where roundings grow: this way repeats and weights share their bits.
    """
    if data.X.shape[1] <= len(data) or isinstance(data.X, Design):
        return data
    X, y = data.X, np.ascontiguousarray(data.y)
    offset = None if data.offset is None else np.ascontiguousarray(data.offset)
    weight = np.ones(len(data)) if data.weight is None else data.weight
    first: dict[bytes, int] = {}
    total: dict[bytes, list[float]] = {}
    for i in range(len(data)):
        if is_compressed(X):
            part = slice(X.indptr[i], X.indptr[i + 1])
            row = X.indices[part].astype(np.int64).tobytes() + X.data[part].tobytes()
        else:
            row = np.asarray(X[i]).tobytes()
        key = y[i].tobytes() + (b"" if offset is None else offset[i].tobytes()) + row
        first.setdefault(key, i)
        total.setdefault(key, []).append(float(weight[i]))
    keys = sorted(first)
    weights = np.array([sum(sorted(total[key])) for key in keys])
    return replace(data.take(np.array([first[key] for key in keys])), weight=weights)


def informed(data: Table, scale: Array) -> tuple[Array, Array]:
    """Rows in the coordinates of the subspace that they inform, (n, r), and its basis, (D, r).

    A row of weight k counts as k rows, so that the directions are those of the weighted data.
    """
    root = np.ones(len(data)) if data.weight is None else np.sqrt(data.weight)
    X = sp.csr_matrix(data.X.multiply(root[:, None])) if is_compressed(data.X) else data.X * root[:, None]
    columns, basis = informed_subspace(X, scale)
    return columns / root[:, None], basis


def in_basis(X: Any, scale: Array, basis: Array) -> Array:
    """Rows of a fit in the coordinates of its subspace, (n, r); an error for a row that lies outside of it."""
    scaled = X.multiply(scale).tocsr() if is_compressed(X) else X * scale
    inner = np.asarray(scaled @ basis)
    squares = scaled.power(2).sum(axis=1) if is_compressed(X) else np.square(scaled).sum(axis=1)
    squares = np.asarray(squares, float).ravel()
    off = squares - np.square(inner, dtype=float).sum(axis=1)
    outside = off > np.sqrt(np.finfo(X.dtype).eps) * squares.max(initial=0.0)
    if outside.any():
        raise ValueError(
            f"row {int(np.argmax(outside))} of X is none of the fit's, nor a combination of them: of a design with more"
            " columns than rows give the rows of the fit."
        )
    return inner


def natural_form(block: Any) -> Any:
    """The block held as mean and precision."""
    if isinstance(block, ClassGaussian):
        return ClassGaussian(natural_form(block.joint), block.n_classes)
    return block.natural_form() if isinstance(block, StandardGaussian) else block


def in_subspace(before: Any, block: Any, subspace: tuple[Array, Array] | None) -> Any:
    """The block of a fit in the coordinates of the next one; itself where they are the same.

    Parameters
    ----------
    before : Gaussian block
        Posterior of all weights after the fit.
    block : Gaussian block
        The block that was fitted: inside ``before`` for a wide design.
    subspace : (scale, basis) or None
        Where the next fit takes place; None: all weights.
    """
    wide = isinstance(before, ProjectedGaussian)
    if subspace is None and wide:
        return ProjectedGaussian(before.scale, before.basis, natural_form(before.inner), before.off_std).dense()
    if subspace is None:
        return block
    if wide and np.array_equal(before.scale, subspace[0]) and np.array_equal(before.basis, subspace[1]):
        return block
    if block.mean.ndim != before.mean.ndim:
        raise ValueError(
            "warm_start=True cannot carry a fit of more than two classes over to other rows of a design that has more "
            "columns than rows: set warm_start=False, or use partial_fit."
        )
    scale, basis = subspace
    extra = before.mean.shape[-1] - len(scale)
    rows = np.zeros((basis.shape[1] + extra, len(scale) + extra))
    rows[: basis.shape[1], : len(scale)] = (basis / scale[:, None]).T
    rows[basis.shape[1] :, len(scale) :] = np.eye(extra)
    return Gaussian(before.mean @ rows.T, np.linalg.inv(covariance_of(before, rows)))


def covariance_of(block: Any, rows: Array) -> Array:
    """Covariance of A w for the rows A, plates first."""
    if not isinstance(block, ProjectedGaussian):
        half = rows @ np.swapaxes(block.root, -1, -2)
        return half @ np.swapaxes(half, -1, -2)
    d = len(block.scale)
    inner, scaled = block.inner_rows(rows), rows[:, :d] * block.scale
    informed = scaled @ block.basis
    off = scaled @ scaled.T - informed @ informed.T
    return covariance_of(block.inner, inner) + block.off_std**2 * off
