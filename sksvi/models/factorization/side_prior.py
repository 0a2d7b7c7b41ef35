"""The prior of one side of a factorization: learned precisions, and a mean that is linear in features."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from sksvi.families import DiagonalGaussian, Free, GaussianPlates
from sksvi.families.gaussian.plates import unpacked

Array = np.ndarray

#: Prior precision of a coefficient, per prior precision of the factor: of a constant, and of a standardised feature.
CONSTANT_PRECISION, FEATURE_PRECISION = 1e-4, 1.0


class SidePrior:
    """Plates p of one side: N(Bᵀ d_p, diag(1/precision)), with features d_p and coefficients B (p, F).

    The coefficients of coordinate k have prior N(0, diag(1/delta) / precision_k), conjugate to its plates, so that
    their covariance is V / precision_k with one V = (diag(delta) + Σ d dᵀ)⁻¹, and precisions have a closed form.

    Parameters
    ----------
    design : ndarray of shape (P, p) or None
        Features of each plate, a column of ones first where the mean is learned; None: mean zero.
    applies : ndarray of shape (F,), bool
        Coordinates whose mean is learned; the others' is zero.
    by_coordinate : bool
        A precision per factor, else one for all of them.
    """

    def __init__(self, design: Array | None, applies: Array, by_coordinate: bool) -> None:
        self.design, self.applies, self.by_coordinate = design, applies, by_coordinate

    @property
    def n_columns(self) -> int:
        """Features, the constant included."""
        return 0 if self.design is None else self.design.shape[1]

    @cached_property
    def delta(self) -> Array:
        """Prior precisions of the coefficients, relative to the factor's."""
        delta = np.full(self.n_columns, FEATURE_PRECISION)
        delta[:1] = CONSTANT_PRECISION
        return delta

    @cached_property
    def spread(self) -> Array:
        """V (p, p)."""
        assert self.design is not None
        return np.linalg.inv(np.diag(self.delta) + self.design.T @ self.design)

    def mean(self, q: dict[str, Any], side: str) -> Array:
        """Prior mean of each plate, (P, F), or (F,) of zeros."""
        coefficients = q[f"{side}_mean"].value
        return np.zeros(coefficients.shape[1]) if self.design is None else self.design @ coefficients

    def block(self, q: dict[str, Any], side: str) -> DiagonalGaussian:
        """The prior of all plates."""
        return DiagonalGaussian(self.mean(q, side), np.exp(q[f"{side}_precision"].value))

    def coefficients(self, q: dict[str, Any], side: str) -> GaussianPlates:
        """Posterior of the coefficients, a plate per coordinate: means (F, p)."""
        variance = np.exp(-q[f"{side}_precision"].value)
        values = self.spread[np.tril_indices(self.n_columns)]
        log_det = np.linalg.slogdet(self.spread)[1] + self.n_columns * np.log(variance)
        return GaussianPlates(q[f"{side}_mean"].value.T, variance[:, None] * values, log_det, True)

    def divergence(self, q: dict[str, Any], side: str) -> float:
        """KL of the coefficients, and what their spread adds to the expected divergence of the plates, nats.

        Per coordinate ½ [tr(diag(delta) V) + Σ dᵀ V d - p - log|V| - log|diag(delta)| + precision_k B_kᵀ diag(delta)
        B_k], where the first three cancel.
        """
        if self.design is None:
            return 0.0
        coefficients = q[f"{side}_mean"].value
        logs = -np.linalg.slogdet(self.spread)[1] - np.log(self.delta).sum()
        weights = self.delta @ np.square(coefficients)
        return 0.5 * float(self.applies.sum() * logs + np.exp(q[f"{side}_precision"].value) @ weights)

    def centred(self, q: dict[str, Any], side: str) -> tuple[Array, Array]:
        """Means of the plates less the prior's, (P, F), and what the coefficients add to their squares, (F, F)."""
        coefficients = q[f"{side}_mean"].value
        return q[side].mean - self.mean(q, side), coefficients.T @ (self.delta[:, None] * coefficients)

    def second_moment(self, q: dict[str, Any], side: str, size: int) -> Array:
        """Mean second moment of the first `size` coordinates about the prior mean, (size, size)."""
        block = q[side]
        centred, added = self.centred(q, side)
        cov = unpacked(block.values.mean(0), block.mean.shape[1], block.full)[:size, :size]
        return cov + (centred.T @ centred + added)[:size, :size] / len(block)

    def learned(self, q: dict[str, Any], side: str, n_components: int, precisions: bool) -> dict[str, Any]:
        """The coefficients, then the precisions, that are best for the plates as they are."""
        q = dict(q)
        block = q[side]
        if self.design is not None:
            coefficients = self.spread @ (self.design.T @ block.mean)
            q[f"{side}_mean"] = Free(np.where(self.applies, coefficients, 0.0))
        if precisions:
            centred, added = self.centred(q, side)
            squares = (block.variance + np.square(centred)).mean(0) + np.diagonal(added) / len(block)
            if not self.by_coordinate:
                squares[:n_components] = squares[:n_components].mean()
            q[f"{side}_precision"] = Free(-np.log(squares))
        return {name: q[name] for name in (f"{side}_mean", f"{side}_precision")}


def rotation(left: Array, right: Array) -> Array:
    """R with R left Rᵀ = R⁻ᵀ right R⁻¹ diagonal, largest first.

    With left = L Lᵀ and Lᵀ right L = Q diag(d) Qᵀ, R = diag(d^¼) Qᵀ L⁻¹.
    """
    factor = np.linalg.cholesky(left)
    values, vectors = np.linalg.eigh(factor.T @ right @ factor)
    values, vectors = values[::-1], vectors[:, ::-1]
    return np.sqrt(np.sqrt(values))[:, None] * np.linalg.solve(factor.T, vectors).T
