"""The prior of the scales that columns share: half-Cauchy on the deviation of f that each kind of columns makes.

A coefficient on the spread of its column is N(0, exp(-h)); columns of one kind share h. Under the prior the columns of
kind k give f the variance W_k u² = exp(-h_k) v_k, v_k the sum of the variances of the columns on their spreads and u
the unit of f, and √W_k is half-Cauchy(1) between the least and the largest scale that are allowed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

Array = np.ndarray

#: Largest prior standard deviation of the effect of one standard deviation of a column, in units of the target.
WIDEST = 2.5
#: Columns that may be as uncertain as the target is wide, however few the rows, and rows that each further one needs.
FREE_COLUMNS, ROWS_PER_COLUMN = 3, 5.0


def log_half_cauchy(square: Array) -> Array:
    """Log density of the log of a square whose root is half-Cauchy(1), up to -log π, nats."""
    return 0.5 * np.log(square) - np.log1p(square)


@dataclass(frozen=True)
class ScalePrior:
    """Prior of the log precisions h (K,), one of each kind of columns.

    Parameters
    ----------
    kinds : ndarray of int, shape (D,)
        Kind of each column.
    variance : ndarray of shape (K,)
        v: variance of f that the columns of each kind make at coefficients of variance 1 on their spread.
    unit : float
        u: unit of f.
    lowest, highest : ndarray of shape (K,)
        Limits of h.
    """

    kinds: Array
    variance: Array
    unit: float
    lowest: Array
    highest: Array

    @classmethod
    def of(cls, kinds: Array, variances: Array, rows: Array, target: float, link: float, varies: Array) -> ScalePrior:
        """The prior found from the kinds and variances of the columns.

        Parameters
        ----------
        kinds : ndarray of int, shape (D,)
        variances : ndarray of shape (D,)
            Of the columns on their spreads, two standard deviations or the distance of two values.
        rows : ndarray of shape (K,)
            Rows that inform each kind, one that tells all of f counting 1.
        target : float
            Unit of the target: its standard deviation where it is measured, else 1.
        link : float
            Unit of f in units of the target: 1, of a logit 2.
        varies : ndarray of bool, shape (D,)
            Which columns do: others count for nothing.
        """
        n_kinds = len(rows)
        count = np.bincount(kinds, varies, n_kinds)
        variance = np.bincount(kinds, variances, n_kinds)
        with np.errstate(divide="ignore"):
            share = 1.0 - ROWS_PER_COLUMN * np.maximum(count - FREE_COLUMNS, 0.0) / np.maximum(rows, 1e-300)
            # A coefficient on two standard deviations is twice that on one.
            least = link / np.sqrt(4.0 * variance) * np.sqrt(np.maximum(share, 0.0))
            highest = -2.0 * np.log(2.0 * target * np.minimum(WIDEST, least))
        lowest = np.full(n_kinds, -2.0 * np.log(2.0 * target * WIDEST))
        return cls(kinds, variance, target * link, lowest, highest)

    def alike(self, size: int) -> ScalePrior:
        """The prior for `size` coordinates of one kind, as those of a subspace that the columns span."""
        return replace(self, kinds=np.zeros(size, int))

    def ratio(self, h: Array) -> Array:
        """Ratio W of the variance of f that each kind of columns makes to u², (K,) or (..., K)."""
        return np.exp(-h) * self.variance / self.unit**2

    @cached_property
    def free(self) -> Array:
        """Which scales are learned: those of limits that do not meet, of columns that vary, (K,)."""
        return (self.highest > self.lowest) & (self.variance > 0)

    @cached_property
    def _log_constant(self) -> float:
        """Log normalising constant of the half-Cauchy density between the limits, summed over free scales."""
        low, high = (np.arctan(np.sqrt(self.ratio(end)[self.free])) for end in (self.highest, self.lowest))
        return float(-np.sum(np.log(2.0 * (high - low))))

    def log_density(self, h: Array) -> Array:
        """log p(h) summed over kinds, nats; -inf beyond the limits."""
        inside = np.all((h >= self.lowest - 1e-9) & (h <= self.highest + 1e-9), axis=-1)
        W = self.ratio(h)[..., self.free]
        return np.where(inside, np.sum(log_half_cauchy(W), axis=-1) + self._log_constant, -np.inf)

    def step(self, h: Array, determined: Array, squares: Array) -> tuple[Array, float]:
        """The step to the best h for q, and the gain that it promises, nats.

        With γ well-determined coefficients of a kind and δ = exp(h) the bound is stationary where
        δ Σ m² + 1 = γ + 2 W / (1 + W) (MacKay 1992, eq. 4.10, with the slope of the prior).

        Parameters
        ----------
        h : ndarray of shape (K,)
        determined : ndarray of shape (D,)
            Share of each coefficient that the data determine.
        squares : ndarray of shape (D,)
            m² of each coefficient on the spread of its column.
        """
        size, W = len(h), self.ratio(h)
        total = np.maximum(np.bincount(self.kinds, determined, size), 0.0)
        norm = np.bincount(self.kinds, squares, size)
        wanted = np.log(np.maximum(total + 2.0 * W / (1.0 + W), np.finfo(float).tiny))
        new = np.clip(h + wanted - np.log1p(np.exp(h) * norm), self.lowest, self.highest)
        moved = new - h
        return moved, 0.25 * float(np.sum((total + 1.0) * np.square(moved)))


# ---- the posterior of one effect under a weak prior of its own
# A prior that is learned for prediction shrinks each effect towards what effects are on average. A row of a table
# answers for one: there its prior is replaced by a weak one. With S the covariance under q, Δ the precisions of the
# prior that q has and W those of the weak one, for a set J of effects
#     L = S_JJ⁻¹ - Δ_J + W_J,    mean = L⁻¹ S_JJ⁻¹ m_J,    covariance = L⁻¹,
# exact for a Gaussian likelihood at its noise, of first order through the messages of q otherwise. What q knows beyond
# its prior, S_JJ⁻¹ - Δ_J, is at least nothing: its eigenvalues are floored at 0.
def own_effects(mean: Array, variance: Array, precision: Array, own: Array) -> tuple[Array, Array]:
    """Mean and variance of every effect, each under a prior of its own.

    Parameters
    ----------
    mean, variance : ndarray of shape (..., D)
        Under q.
    precision, own : ndarray of shape (D,)
        Of the prior that q has, and of the weak one.

    Examples
    --------
    >>> import numpy as np
    >>> from sksvi.models.linear.scales import own_effects
    >>> mean, variance = own_effects(np.array([0.5]), np.array([0.5]), np.array([1.0]), np.array([0.0]))
    >>> mean, variance
    (array([1.]), array([1.]))
    """
    information = np.maximum(1.0 / variance - precision, 0.0)
    total = information + own
    return mean / (variance * total), 1.0 / total


def own_sets(mean: Array, cov: Array, precision: Array, own: Array) -> tuple[Array, Array]:
    """Mean and covariance of sets of effects, each set under a prior of its own.

    Parameters
    ----------
    mean : ndarray of shape (..., J)
        Under q.
    cov : ndarray of shape (..., J, J)
    precision, own : ndarray of shape (..., J)
        Of the prior that q has, and of the weak one.
    """
    unit = np.sqrt(np.diagonal(cov, axis1=-2, axis2=-1))
    inverse = np.linalg.inv(cov / (unit[..., :, None] * unit[..., None, :]))
    square = np.square(unit)
    information = inverse - _diagonal(precision * square)
    values, vectors = np.linalg.eigh(0.5 * (information + np.swapaxes(information, -1, -2)))
    information = (vectors * np.maximum(values, 0.0)[..., None, :]) @ np.swapaxes(vectors, -1, -2)
    after = np.linalg.inv(information + _diagonal(own * square))
    moved = after @ (inverse @ (mean / unit)[..., None])
    return unit * moved[..., 0], after * (unit[..., :, None] * unit[..., None, :])


def _diagonal(values: Array) -> Array:
    """Diagonal matrices (..., J, J)."""
    return values[..., :, None] * np.eye(values.shape[-1])
