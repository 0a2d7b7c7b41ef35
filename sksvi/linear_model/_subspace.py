"""Carry the weights of a fit over to a fit on other rows: from one subspace of a wide design to another, or to all D."""

from __future__ import annotations

from typing import Any

import numpy as np

from sksvi.families import Gaussian, ProjectedGaussian, StandardGaussian

Array = np.ndarray


def precise(block: Any) -> Any:
    """The block held as mean and precision."""
    return block.precise() if isinstance(block, StandardGaussian) else block


def in_subspace(before: Any, block: Any, subspace: tuple[Array, Array] | None) -> Any:
    """The block of a fit in the coordinates of the next one; itself where they are the same.

    Parameters
    ----------
    before : Gaussian block
        Posterior of all weights after the fit.
    block : Gaussian block
        The block that was fitted, held as mean and precision: inside ``before`` for a wide design.
    subspace : (scale, basis) or None
        Where the next fit takes place; None: all weights.
    """
    wide = isinstance(before, ProjectedGaussian)
    if subspace is None:
        return before.dense() if wide else block
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
