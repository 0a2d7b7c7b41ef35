"""Bends of one variable, and of two together: functions whose coefficients are independent under the prior."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
from scipy.interpolate import BSpline

Array = np.ndarray

#: Distinct values of a column that bend more than a parabola through them does.
LEAST_VALUES = 4
#: Intervals between knots that hold rows, at least: in fewer a column is a clump and its outliers.
LEAST_INTERVALS = 3
#: Part of the largest bend, less than which is rounding.
ROUNDING = 1e-10
#: Bends of an interaction at most: its principal axes beyond these have next to no variance under the prior.
MOST_BENDS = 40
#: Rows whose products are in memory at a time.
ROWS = 8192


@dataclass(frozen=True)
class Smooth:
    """Columns of a smooth of one variable: the centred line, and r bends along which rows are orthogonal.

    Parameters
    ----------
    low, width : float
        Range of the variable in the rows of the fit.
    mean : float
        Its mean there.
    knots, coefficients : ndarray of shape (m + degree + 1,) and (m, r)
        Of splines with values (r,) at u = (x - low) / width.
    degree : int
    """

    LAYOUT = """
        low number; width number >0; mean number; coefficients (m,r) f; degree count p; knots (m+p+1) f rising
    """

    low: float
    width: float
    mean: float
    knots: Array
    coefficients: Array
    degree: int

    @classmethod
    def fit(cls, x: Array, weight: Array, n_basis: int, degree: int, name: str) -> Self:
        """The smooth of a variable (n,), rows by their weights; `name`: what errors call it."""
        low, high = float(x.min()), float(x.max())
        n_values, n_intervals = len(np.unique(x)), n_basis - degree
        if n_values < LEAST_VALUES:
            raise ValueError(
                f"{name}: a smooth of {n_values} distinct values, and needs {LEAST_VALUES} or more. Give the column to "
                "the model as it is, or as a categorical one."
            )
        u, width = (x - low) / (high - low), high - low
        occupied = len(np.unique(np.minimum(np.floor(u * n_intervals), n_intervals - 1)))
        if occupied < min(LEAST_INTERVALS, n_intervals):
            raise ValueError(
                f"{name}: its values lie in {occupied} of the {n_intervals} intervals between knots, which are of one "
                f"length from {low:g} to {high:g}. Transform it first (its logarithm, its ranks), or leave out the "
                "outliers."
            )
        share = weight / weight.sum()
        return cls(low, width, float(share @ x), *bends_of(u, share, n_basis, degree), degree)

    @property
    def n_columns(self) -> int:
        """Columns of the smooth."""
        return 1 + self.coefficients.shape[1]

    @cached_property
    def bends(self) -> BSpline:
        """The splines."""
        return BSpline(self.knots, self.coefficients, self.degree)

    def columns(self, x: Array) -> Array:
        """The columns (n, 1 + r) of values (n,); beyond the range of the fit they go on as straight lines."""
        u = (x - self.low) / self.width
        inside = np.clip(u, 0.0, 1.0)
        slopes = self.bends.derivative()(np.where(u < 0.5, 0.0, 1.0))
        return np.column_stack([x - self.mean, self.bends(inside) + (u - inside)[:, None] * slopes])


def bends_of(u: Array, share: Array, n_basis: int, degree: int) -> tuple[Array, Array]:
    """Knots and coefficients of splines on [0, 1] with the prior of the difference penalty.

    Their own coefficients are independent standard normal ones.
    With D the second differences of the B-spline coefficients β and D β = θ ~ N(0, I), β = D⁺ θ but for a straight
    line. Lines are taken out of the rows of B D⁺, which the rotation to their principal axes makes orthogonal.

    Parameters
    ----------
    u : ndarray of shape (n,)
    share : ndarray of shape (n,)
        Weights of the rows, of sum 1.
    n_basis, degree : int
    """
    knots = np.arange(-degree, n_basis + 1) / (n_basis - degree)
    averages = np.array([knots[j + 1 : j + degree + 1].mean() for j in range(n_basis)])  # coefficients of u itself
    inverse = np.linalg.pinv(np.diff(np.eye(n_basis), 2, axis=0))
    root = np.sqrt(share)[:, None]
    lines = root * np.column_stack([np.ones_like(u), u])
    rows = root * BSpline(knots, inverse, degree)(u)
    coefficients = inverse - np.column_stack([np.ones(n_basis), averages]) @ np.linalg.lstsq(lines, rows)[0]
    _, deviations, axes = np.linalg.svd(root * BSpline(knots, coefficients, degree)(u), full_matrices=False)
    axes = axes[deviations > ROUNDING * deviations[0]]
    # A smooth of unit coefficients has variance 1 on average over the rows.
    coefficients = coefficients @ axes.T / np.sqrt(np.sum(np.square(deviations)))
    end = BSpline(knots, coefficients, degree)(1.0)
    return knots, coefficients * np.where(end < 0, -1.0, 1.0)


@dataclass(frozen=True)
class Interaction:
    """Columns of an interaction of two variables: the product of their lines, and r bends, orthogonal on the rows.

    Parameters
    ----------
    margins : tuple of Smooth
        Line and bends of each variable, (n, 1 + r_1) and (n, 1 + r_2).
    axes : ndarray of shape (1 + r_1, 1 + r_2, 1 + r)
        Weights of the products of these in each column.
    means : ndarray of shape (1 + r,)
        What is taken off each column, so that its mean over the rows of the fit is 0.
    """

    LAYOUT = """
        margins items 2; margins[*] Smooth; means (c) f
        axes (_,_,c) f where it.shape[:2] == tuple(one.n_columns for one in self.margins)
    """

    margins: tuple[Smooth, Smooth]
    axes: Array
    means: Array

    @classmethod
    def fit(cls, x: Array, weight: Array, n_basis: int, degree: int, names: list[str]) -> Self:
        """The interaction of variables (n, 2), rows by their weights.

        All products but that of the lines have independent coefficients of one variance, the lines as columns of
        variance 1. Bends are the principal axes, over the rows, of what is then known of f: the prior is the same in
        any rotation of the products, and the first axes have nearly all of its variance.
        """
        first, second = (Smooth.fit(x[:, j], weight, n_basis, degree, name) for j, name in enumerate(names))
        a, b, share = first.columns(x[:, 0]), second.columns(x[:, 1]), weight / weight.sum()
        mean = (((share[:, None] * a).T) @ b).ravel()
        units = np.outer(*(np.r_[np.sqrt(share @ np.square(c[:, 0])), np.ones(c.shape[1] - 1)] for c in (a, b))).ravel()
        scatter = np.zeros((len(mean), len(mean)))
        for k in range(0, len(x), ROWS):
            products = (a[k : k + ROWS, :, None] * b[k : k + ROWS, None, :]).reshape(-1, len(mean)) - mean
            scatter += (products.T * share[k : k + ROWS]) @ products
        variances, axes = np.linalg.eigh((scatter / np.outer(units, units))[1:, 1:])
        most = np.flatnonzero(variances > ROUNDING * variances[-1])[::-1][:MOST_BENDS]
        bends = axes[:, most] / units[1:, None] / np.sqrt(variances[most].sum())
        weights = np.zeros((len(mean), 1 + len(most)))
        weights[0, 0], weights[1:, 1:] = 1.0, bends
        found = cls((first, second), weights.reshape(a.shape[1], b.shape[1], -1), mean @ weights)
        signs = np.where(found.columns(x.max(axis=0)[None])[0] < 0, -1.0, 1.0)
        signs[0] = 1.0
        return cls(found.margins, found.axes * signs, found.means * signs)

    @property
    def n_columns(self) -> int:
        """Columns of the interaction."""
        return len(self.means)

    def columns(self, x: Array) -> Array:
        """The columns (n, 1 + r) of values (n, 2)."""
        a, b = (smooth.columns(x[:, j]) for j, smooth in enumerate(self.margins))
        found = np.tile(-self.means, (len(x), 1))
        for j, own in enumerate(self.axes):
            found += a[:, j, None] * (b @ own)
        return found
