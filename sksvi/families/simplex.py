"""Probability vectors known as points: the mode of a Dirichlet."""

from __future__ import annotations

from typing import Self

import numpy as np
from scipy.special import xlogy

from sksvi.families.base import Draw, NotPositiveDefinite, PointMass
from sksvi.families.flat import Flat

Array = np.ndarray


class Simplex(PointMass, Flat):
    """Probability vectors known as points: the mode β ∝ counts of a Dirichlet with `counts` + 1, one per plate.

    The prior Dir(1 + e) is the block of counts e; a step adds expected counts to it. Its ``kl`` is what the log density
    of the prior loses between its own mode and this point, so that the bound is the log joint density (MAP).

    Parameters
    ----------
    counts : ndarray of shape (..., V)
        Not negative; zero counts make a zero probability.
    by_gradient : bool, default=False
        Whether every algorithm moves it by AdaGrad on logistic coordinates; else by counts where steps are natural.

    Raises
    ------
    NotPositiveDefinite
        For a negative count.

    Examples
    --------
    >>> import numpy as np
    >>> from sksvi.families import Simplex
    >>> Simplex(np.array([2.0, 1.0, 1.0])).mean
    array([0.5 , 0.25, 0.25])
    """

    LAYOUT = "counts (…,D) f >=0; by_gradient? flag"

    array_dims = {"counts": 1}

    def __init__(self, counts: Array, by_gradient: bool = False) -> None:
        counts = np.asarray(counts, float)
        if not np.all(counts >= 0):
            raise NotPositiveDefinite(f"a count of a point on the simplex is {np.min(counts):g}")
        self.counts, self.by_gradient = counts, by_gradient

    @property
    def instead(self) -> str | None:
        """AdaGrad on logistic coordinates, where asked for."""
        return "flat" if self.by_gradient else None

    @property
    def total(self) -> Array:
        """Σ_v of the counts, (..., 1)."""
        return self.counts.sum(-1, keepdims=True)

    @property
    def mean(self) -> Array:
        """The point β, (..., V); uniform where nothing was counted."""
        total, size = self.total, self.counts.shape[-1]
        return np.where(total > 0, self.counts / np.where(total > 0, total, 1.0), 1.0 / size)

    @property
    def theta(self) -> Array:
        """The counts."""
        return self.counts

    def of_theta(self, theta: Array) -> Self:
        """The point with these counts."""
        return self._made(theta)

    def _made(self, counts: Array) -> Self:
        return type(self)(counts, self.by_gradient)

    @property
    def moments(self) -> Array:
        """log β, (..., V)."""
        with np.errstate(divide="ignore"):
            return np.log(self.mean)

    def kl(self, prior: Simplex) -> float:
        """Σ e (log of the prior's own mode - log β), nats, with e the prior's counts."""
        return float(np.sum(self.divergence(prior)))

    def divergence(self, prior: Simplex) -> Array:
        """e (log of the prior's own mode - log β) of each coordinate, nats, with e the prior's counts."""
        return xlogy(prior.counts, prior.mean) - xlogy(prior.counts, self.mean)

    @property
    def standard_values(self) -> Array:
        """Logistic coordinates log β, (..., V)."""
        return self.moments

    def at(self, values: Array) -> Self:
        """The point at logistic coordinates, with as many counts in all."""
        weight = np.exp(values - np.max(values, axis=-1, keepdims=True))
        return self.of_theta(self.total * weight / weight.sum(-1, keepdims=True))

    def standard_gradient(self, prior: Simplex, gradient: tuple[Array]) -> Array:
        """Gradient of the bound in logistic coordinates: n + e - β Σ(n + e) (equations.md 6, eq. 62)."""
        counts = gradient[0] + prior.counts
        return counts - self.mean * counts.sum(-1, keepdims=True)

    def in_statistics(self, draw: Draw, slope: Array) -> Array:
        """df/dβ as df/dlog β."""
        return draw.value * slope
