"""Sufficient statistics of rows for the gamma factor model: their number, their mean, and their scatter about it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sksvi._runtime import parallel
from sksvi.models.base import InMemory

Array = np.ndarray

#: A column whose standard deviation is at most so many roundings of its mean is a constant.
ROUNDINGS = 8.0


@dataclass(frozen=True)
class Scatter(InMemory):
    """Rows y_n (N, D) as a sum: ``products`` = Σ (y_n - mean)(y_n - mean)ᵀ.

    n: rows, or what forgetting left of them. centred: whether `mean` is that of the rows; else 0.
    """

    LAYOUT = "mean (d) f; products (d,d) f diag>=0; n number >0; centred flag"

    n: float
    mean: Array
    products: Array
    centred: bool

    def __len__(self) -> int:
        return max(1, round(self.n))

    @property
    def total_weight(self) -> float:
        """Number of rows, as weights count them."""
        return self.n

    @property
    def freedom(self) -> float:
        """Rows that inform the covariance: one goes into the mean."""
        return max(self.n - 1.0, 0.0) if self.centred else self.n

    @property
    def variances(self) -> Array:
        """Variance of each column about `mean`, (D,)."""
        return np.diag(self.products) / self.n

    @property
    def informed(self) -> Array:
        """Whether each column varies by more than rounding, (D,)."""
        rounding: Array = ROUNDINGS * np.finfo(float).eps * np.abs(self.mean)
        return np.sqrt(self.variances) > rounding

    def take(self, rows: Any) -> Scatter:
        """All rows: there is no part of a sum."""
        return self

    def divided(self, unit: Array) -> Scatter:
        """The scatter of the same rows in other units: columns divided by `unit` (D,)."""
        return replace(self, mean=self.mean / unit, products=self.products / np.multiply.outer(unit, unit))

    def about_zero(self) -> Scatter:
        """The scatter of the same rows about 0, which is then taken for the mean of their columns."""
        if not self.centred:
            return self
        products = self.products + self.n * np.multiply.outer(self.mean, self.mean)
        return Scatter(self.n, np.zeros_like(self.mean), products, False)

    def faded(self, share: float) -> Scatter:
        """The scatter with every row weighted by `share`."""
        return replace(self, n=share * self.n, products=share * self.products)

    def merged(self, other: Scatter) -> Scatter:
        """The scatter of two sets of rows together, about their common mean."""
        n, delta = self.n + other.n, other.mean - self.mean
        between = self.n * other.n / n * np.multiply.outer(delta, delta)
        mean = self.mean + other.n / n * delta
        return Scatter(n, mean, self.products + other.products + between, self.centred)


def scatter_of(X: Array, centred: bool, threads: int) -> Scatter:
    """The scatter of rows: chunks of fixed size, so that threads change no bit.

    Parameters
    ----------
    X : ndarray of shape (N, D)
    centred : bool
        About the mean of the rows; else about 0.
    threads : int
    """
    parts = parallel.slices(len(X), parallel.chunk_rows(X.shape[1], True))

    def summed(one: Any) -> Any:
        return parallel.tree_sum(parallel.in_order(one, parts, threads))

    mean = np.zeros(X.shape[1])
    if centred:
        mean = summed(lambda part: X[part].sum(0, dtype=np.float64)) / len(X)

    def product(part: slice) -> Array:
        rows = X[part] - mean
        return np.vstack([np.dot(rows.T, rows), rows.sum(0)])

    products, left = np.split(summed(product), [X.shape[1]])
    products = 0.5 * (products + products.T)
    if centred:  # what rounding left of the first mean: of columns far from 0 it would be their scatter
        left = left[0] / len(X)
        mean, products = mean + left, products - len(X) * np.multiply.outer(left, left)
    return Scatter(float(len(X)), mean, products, centred)
