"""Priors of coefficients, which linear models and mixed effects take by name (`prior`).

A normal distribution is one prior of a coefficient; others are mixtures of normal ones over scales that each
coefficient has for itself. Of these a fit needs the *tangent*: with r the expected squares of coefficients under q, in
units of the prior, K of them for each scale,

    Φ(r) = log ∫ p(s) Π_j (2π s_j²)^(-K/2) exp(-r_j / 2 s_j²) ds

is the best bound that scales independent of the coefficients have, it is convex, and -2 Φ'(r) are the expected
precisions E 1/s_j² (Jaakkola and Jordan 2000; Palmer et al. 2006).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from numbers import Real
from typing import ClassVar

import numpy as np
from scipy.special import gammaln, logsumexp

Array = np.ndarray


def _check_numbers(prior: object, **values: float) -> None:
    """Raise for what is no finite number."""
    kind = type(prior).__name__
    for name, value in values.items():
        if not isinstance(value, Real) or isinstance(value, bool):
            raise TypeError(f"{name} of a {kind} prior must be a number; found {value!r}.")
        if not np.isfinite(value):
            raise ValueError(f"{name} of a {kind} prior must be finite; found {value!r}.")


def _check_positive(prior: object, **values: float) -> None:
    """Raise for what is no positive number."""
    _check_numbers(prior, **values)
    for name, value in values.items():
        if not value > 0:
            raise ValueError(f"{name} of a {type(prior).__name__} prior must be positive; found {value!r}.")


@dataclass(frozen=True)
class Normal:
    """Normal prior of a coefficient, in the units of its column as it is given.

    Parameters
    ----------
    mean : float, default=0.0
    std : float, default=1.0
        Standard deviation, positive.

    Raises
    ------
    TypeError, ValueError
        A mean or standard deviation that is no finite number, or `std` of 0 or less.

    Examples
    --------
    >>> from sksvi.priors import Normal
    >>> Normal(0.5, 0.2)
    Normal(mean=0.5, std=0.2)
    """

    LAYOUT = "mean number; std number >0"

    mean: float = 0.0
    std: float = 1.0

    #: Whether it is a mixture, with a scale of each coefficient's own; and of coefficients on one standard deviation.
    mixture: ClassVar[bool] = False
    standardized: ClassVar[bool] = False

    def __post_init__(self) -> None:
        _check_numbers(self, mean=self.mean)
        _check_positive(self, std=self.std)

    @property
    def location_scale(self) -> tuple[float, float]:
        """Centre and unit of the coefficient."""
        return float(self.mean), float(self.std)


@dataclass(frozen=True)
class StudentT:
    """Student's t prior of a coefficient, in the units of its column as it is given: a few may be far from the centre.

    Parameters
    ----------
    df : float, default=4.0
        Degrees of freedom, positive; 1 is a Cauchy distribution.
    loc : float, default=0.0
        Centre.
    scale : float, default=1.0
        Positive; the standard deviation is ``scale * sqrt(df / (df - 2))`` for more than two degrees of freedom.

    Raises
    ------
    TypeError, ValueError
        What is no finite number, and `df` or `scale` of 0 or less.

    Notes
    -----
    N(loc, scale² / τ) over τ ~ Gamma(df/2, df/2). Of more than two classes the coefficients of a column share τ.

    Examples
    --------
    >>> from sksvi.priors import StudentT
    >>> StudentT(3, 0, 0.5)
    StudentT(df=3, loc=0, scale=0.5)
    """

    LAYOUT = "df number >0; loc number; scale number >0"

    df: float = 4.0
    loc: float = 0.0
    scale: float = 1.0
    mixture: ClassVar[bool] = True
    standardized: ClassVar[bool] = False

    def __post_init__(self) -> None:
        _check_numbers(self, loc=self.loc)
        _check_positive(self, df=self.df, scale=self.scale)

    @property
    def location_scale(self) -> tuple[float, float]:
        """Centre and unit of the coefficient."""
        return float(self.loc), float(self.scale)

    def tangent(self, squares: Array, n_each: int = 1) -> tuple[float, Array]:
        """Φ, nats, and expected precisions (M,), at expected squares (M,) of `n_each` coefficients in units of `scale`.

        The precisions are (df + K) / (df + r): the mean of the gamma distribution that is best for τ.
        """
        df, total = float(self.df), float(self.df) + n_each
        constant = gammaln(0.5 * total) - gammaln(0.5 * df) - 0.5 * n_each * np.log(df * np.pi)
        value = len(squares) * constant - 0.5 * total * np.sum(np.log1p(squares / df))
        return float(value), total / (df + squares)

    def slopes(self, squares: Array, n_each: int = 1) -> Array:
        """Derivatives of the expected precisions in the expected squares, (M, M)."""
        return np.diag(-(self.df + n_each) / np.square(self.df + squares))

    def drawn_precisions(self, n: int, rng: np.random.RandomState) -> Array:
        """n draws of the precision of a coefficient, in units of `scale`."""
        return np.asarray(rng.chisquare(self.df, n) / self.df)


@dataclass(frozen=True)
class Horseshoe:
    """Regularised horseshoe prior of the coefficients that a key names: most are about zero, a few are not.

    Parameters
    ----------
    scale : float, default=1.0
        Of the half-Cauchy prior of the one scale τ that all these coefficients share. Where p₀ of D are expected to be
        other than zero, about p₀ / (D - p₀) / √n.
    slab : float, default=2.5
        Standard deviation of a coefficient that τ and its own scale leave free.

    Raises
    ------
    TypeError, ValueError
        What is no positive, finite number.

    Notes
    -----
    Coefficients of one standard deviation of their columns, in units of the standard deviation of a measured target (of
    1 behind a link), are N(0, v_j) with 1/v_j = 1/(τ λ_j)² + 1/slab², λ_j half-Cauchy(1): equation 2.8 of Piironen and
    Vehtari (2017), the slab given. Scales are summed over a grid in logarithms, τ and all λ_j together. Of more than
    two classes the coefficients of a column share λ_j.

    Examples
    --------
    >>> from sksvi.priors import Horseshoe
    >>> Horseshoe(scale=0.1)
    Horseshoe(scale=0.1, slab=2.5)
    """

    LAYOUT = "scale number >0; slab number >0"

    scale: float = 1.0
    slab: float = 2.5
    mixture: ClassVar[bool] = True
    standardized: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _check_positive(self, scale=self.scale, slab=self.slab)

    @property
    def location_scale(self) -> tuple[float, float]:
        """Centre and unit of the standardised coefficient."""
        return 0.0, 1.0

    def tangent(self, squares: Array, n_each: int = 1) -> tuple[float, Array]:
        """Φ, nats, and expected precisions (M,), at expected squares (M,) of `n_each` standardised coefficients."""
        value, share, (mean,) = self._moments(squares, n_each, 1)
        return value, share @ mean

    def slopes(self, squares: Array, n_each: int = 1) -> Array:
        """Derivatives of the expected precisions in the expected squares, (M, M): minus half of their covariance."""
        _, share, (mean, square) = self._moments(squares, n_each, 2)
        off = mean - share @ mean
        return -0.5 * ((off.T * share) @ off + np.diag(share @ (square - np.square(mean))))

    def _moments(self, squares: Array, n_each: int, highest: int) -> tuple[float, Array, list[Array]]:
        """Φ, probabilities of τ (G,), and moments of the precisions given τ, (G, M) each."""
        log_shared, own, variance = _horseshoe_grid(float(self.scale), float(self.slab))
        logs = -0.5 * squares / variance[:, None] - 0.5 * n_each * np.log(2.0 * np.pi * variance)[:, None]
        top = logs.max(axis=0)
        weight = np.exp(logs - top)
        total = own @ weight
        by_shared = log_shared + np.sum(np.log(total) + top, axis=1)
        value = float(logsumexp(by_shared))
        moments = [own @ (weight / variance[:, None] ** k) / total for k in range(1, highest + 1)]
        return value, np.exp(by_shared - value), moments

    def drawn_precisions(self, n: int, rng: np.random.RandomState) -> Array:
        """Precisions of n standardised coefficients under one draw of τ."""
        shared = self.scale * np.abs(rng.standard_cauchy())
        return 1.0 / np.square(shared * rng.standard_cauchy(n)) + self.slab**-2.0


#: Logarithms of τ, and of τ λ, over the scale of τ that the grid of a horseshoe goes between, and its step.
SHARED, PRODUCT, STEP = (-12.0, 10.0), (-24.0, 16.0), 0.25


@lru_cache(maxsize=32)
def _horseshoe_grid(scale: float, slab: float) -> tuple[Array, Array, Array]:
    """Log probabilities of τ (G,), those of τ λ given τ (G, V), and the variance that each of these means (V,)."""
    shared, product = (np.arange(low, high + 0.5 * STEP, STEP) for low, high in (SHARED, PRODUCT))
    log_shared = -np.log(2.0 * np.cosh(shared))  # of log τ, half-Cauchy: 2/π τ / (1 + τ²)
    own = 1.0 / (2.0 * np.cosh(product - shared[:, None]))
    variance = 1.0 / (np.exp(-2.0 * (product + np.log(scale))) + slab**-2.0)
    return log_shared - logsumexp(log_shared), own / own.sum(axis=1, keepdims=True), variance


class MultivariateNormal:
    """Normal prior of all coefficients and the intercept together: what an earlier fit of other rows left.

    ``prior=model.posterior_`` is this prior with the names, the mean and the covariance of a posterior.

    Parameters
    ----------
    names : sequence of str
        Of the coefficients, as `summary` shows them with ``contrasts="none"``, and of the intercept, in any order.
    mean : array-like of shape (P,)
        In the units of the columns as they are given; the intercept is f at 0 of all columns.
    cov : array-like of shape (P, P)
        Positive definite.

    Raises
    ------
    ValueError
        Shapes that do not fit together, names that appear twice, or a covariance that is not symmetric and positive
        definite.

    Examples
    --------
    >>> from sksvi.priors import MultivariateNormal
    >>> MultivariateNormal(["age", "intercept"], [0.5, 0.0], [[0.04, -0.1], [-0.1, 1.0]])
    MultivariateNormal(['age', 'intercept'], mean=[0.5, 0.0], cov=[[0.04, -0.1], [-0.1, 1.0]])
    """

    LAYOUT = "names items p; names[*] text; mean (p) f; cov (p,p) f"

    def __init__(self, names: Sequence[str], mean: object, cov: object) -> None:
        self.names = [str(name) for name in names]
        self.mean, self.cov = np.array(mean, float), np.array(cov, float)
        p = len(self.names)
        if self.mean.shape != (p,) or self.cov.shape != (p, p):
            raise ValueError(
                f"a MultivariateNormal of {p} names needs a mean of shape {(p,)} and a covariance of shape {(p, p)}; "
                f"found {self.mean.shape} and {self.cov.shape}."
            )
        if len(set(self.names)) < p:
            twice = next(name for name in self.names if self.names.count(name) > 1)
            raise ValueError(f"names of a MultivariateNormal must differ; found {twice!r} more than once.")
        self._check_cov()

    def _check_cov(self) -> None:
        std = np.sqrt(np.maximum(np.diagonal(self.cov), 0.0))
        finite = np.all(np.isfinite(self.mean)) and np.all(np.isfinite(self.cov))
        if not finite or not np.all(std > 0):
            raise ValueError("mean and cov of a MultivariateNormal must be finite, with positive variances.")
        correlation = self.cov / np.outer(std, std)
        if not np.allclose(correlation, correlation.T, rtol=0.0, atol=1e-8):
            raise ValueError("cov of a MultivariateNormal must be symmetric.")
        if not np.linalg.eigvalsh(correlation)[0] > 0:
            raise ValueError("cov of a MultivariateNormal must be positive definite.")

    def __repr__(self) -> str:
        return f"MultivariateNormal({self.names}, mean={self.mean.tolist()}, cov={self.cov.tolist()})"

    def __eq__(self, other: object) -> bool:
        return repr(self) == repr(other)

    def __hash__(self) -> int:
        return hash(repr(self))

    def ordered(self, names: Sequence[str]) -> tuple[Array, Array]:
        """Mean and covariance in the order of these names."""
        at = [self.names.index(name) for name in names]
        return self.mean[at], self.cov[np.ix_(at, at)]
