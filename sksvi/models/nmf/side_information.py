"""Columns that are known of rows and of cells: log-linear prior means of activations and components.

With columns c_n of row n the rate of its activations is r exp(-c_nᵀ w_k), so that their prior mean is (b / r)
exp(c_nᵀ w_k): a gamma regression with a log link, whose responses are latent. Components have the same by columns of
their cells, beside a and s. Coefficients w_k ~ N(0, diag(1/λ)) with q(w_k) = N(m_k, V_k); λ, one for each column,
maximises the bound, so that columns which say nothing are shrunk away. With

    t_nk = E exp(-c_nᵀ w_k) = exp(-c_nᵀ m_k + ½ c_nᵀ V_k c_n)

what the bound has of w is Σ_n [-b c_nᵀ m_k - r t_nk E H_nk] - KL(q(w_k) ‖ prior), concave in m_k; its gradients are
Σ_n (r t_nk E H_nk - b) c_n in the mean and -½ Σ_n r t_nk E H_nk c_n c_nᵀ in the covariance.

P. McCullagh and J. Nelder, Generalized linear models, 1989, chapter 8. C. Hu, P. Rai and L. Carin, Non-negative matrix
factorization for discrete data with hierarchical side-information, AISTATS 2016, have levels of categories in the place
of columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from sksvi.algorithms.rules import ClosedForm, Rule
from sksvi.families import Gaussian, Point
from sksvi.families.gaussian.plates import packed, pairs, unpacked
from sksvi.models.base import Blocks
from sksvi.models.nmf.cells import CountMatrix

Array = np.ndarray

#: Precision of a coefficient before it is learned, of columns of standard deviation 1.
FIRST_PRECISION = 1.0
#: Steps of expectation maximisation from pass to pass.
PRECISION_STEPS = 20
#: Blocks of coefficients.
COEFFICIENTS = ("activation_coefficients", "component_coefficients")


@dataclass(frozen=True)
class Columns:
    """Columns (n, p) of rows or of cells, as the prior means of their factors use them."""

    values: Array

    @cached_property
    def products(self) -> Array:
        """c_i c_j for i >= j, (n, p (p + 1) / 2)."""
        rows, cols, _ = pairs(self.values.shape[1], True)
        return self.values[:, rows] * self.values[:, cols]

    def log_means(self, q: Gaussian) -> Array:
        """E cᵀw, (n, K)."""
        return np.asarray(self.values @ q.mean.T)

    def spreads(self, q: Gaussian) -> Array:
        """cᵀ V c, (n, K)."""
        count = pairs(self.values.shape[1], True)[2]
        return np.asarray(self.products @ (packed(q.cov, True) * count).T)

    def tilts(self, q: Gaussian) -> Array:
        """E exp(-cᵀw), (n, K)."""
        return np.exp(0.5 * self.spreads(q) - self.log_means(q))

    def gradient(self, shape: float, charged: Array) -> tuple[Array, Array]:
        """Gradient in means (K, p) and covariances (K, p, p) of coefficients.

        charged (n, K): rate times expected factor, whose prior mean is `shape`.
        """
        curvature = unpacked(charged.T @ self.products, self.values.shape[1], True)
        return (charged - shape).T @ self.values, -0.5 * curvature


def columns_of(cells: CountMatrix) -> Columns:
    """Columns of some rows."""
    assert cells.columns is not None
    return Columns(cells.columns)


@dataclass(frozen=True)
class SideInformation:
    """What a factorization of counts knows of its rows and of its cells besides counts.

    Parameters
    ----------
    n_row_columns : int, default=0
        Columns of rows, which the data bring; 0: none.
    cells : Columns, optional
        Of all cells.
    """

    n_row_columns: int = 0
    cells: Columns | None = None

    @property
    def names(self) -> list[str]:
        """What has columns: "activation", "component"."""
        have = {"activation": self.n_row_columns > 0, "component": self.cells is not None}
        return [name for name, there in have.items() if there]

    def begin(self, rows: CountMatrix, n_components: int, shapes: dict[str, float]) -> Blocks:
        """Coefficients at zero, as certain as known factors of those `shapes` make them."""
        found: Blocks = {}
        for name in self.names:
            own = columns_of(rows) if name == "activation" else self.cells
            assert own is not None
            p = own.values.shape[1]
            information = shapes[name] * own.values.T @ own.values + FIRST_PRECISION * np.eye(p)
            stack = np.repeat(information[None], n_components, 0)
            found[f"{name}_coefficients"] = Gaussian(np.zeros((n_components, p)), stack)
            found[f"{name}_precision"] = Point(np.full(p, np.log(FIRST_PRECISION)))
        return found

    def prior(self, q: Blocks) -> Blocks:
        """Priors of the coefficients."""
        found = {}
        for name in self.names:
            coefficients, precision = q[f"{name}_coefficients"], np.exp(q[f"{name}_precision"].value)
            stack = np.broadcast_to(np.diag(precision), coefficients.precision.shape)
            found[f"{name}_coefficients"] = Gaussian(np.zeros_like(coefficients.mean), stack)
        return found

    def hyper(self, component_shape: float) -> dict[str, Rule]:
        """Rules of the precisions; that of the cells has what the spread of their coefficients takes from the bound."""
        density = {"activation": None, "component": partial(self._spread_of_cells, component_shape)}
        return {f"{name}_precision": ClosedForm(partial(_precision_step, name), density[name]) for name in self.names}

    def _spread_of_cells(self, shape: float, q: Blocks) -> float:
        """E log of the cells' prior rates less the log of their expectations, times their shape, nats."""
        assert self.cells is not None
        return -0.5 * shape * float(self.cells.spreads(q["component_coefficients"]).sum())

    def tilts_of_cells(self, q: Blocks) -> Any:
        """E exp(-cᵀw) of every cell, (K, F); 1 where there are no columns."""
        return 1.0 if self.cells is None else self.cells.tilts(q["component_coefficients"]).T


def _precision_step(name: str, q: Blocks) -> tuple[Array, float]:
    """Step of the log precisions to where they are best once coefficients follow, and what it gains, nats.

    What data say of each coefficient is taken as independent, precision I and linear part h: λ by expectation
    maximisation of ½ Σ_k [log λ - log(λ + I) + h² / (λ + I)], which alone creeps where a column says nothing.
    """
    coefficients, now = q[f"{name}_coefficients"], np.exp(q[f"{name}_precision"].value)
    variance = coefficients.variance
    information, linear = np.maximum(1.0 / variance - now, 0.0), coefficients.mean / variance

    def evidence(precision: Array) -> float:
        total = precision + information
        return 0.5 * float(np.sum(np.log(precision / total) + np.square(linear) / total))

    best = now
    for _ in range(PRECISION_STEPS):
        total = best + information
        best = 1.0 / np.mean(1.0 / total + np.square(linear / total), axis=0)
    return np.log(best / now), evidence(best) - evidence(now)
