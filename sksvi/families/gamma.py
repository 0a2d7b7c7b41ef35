"""Gamma blocks: q of positive numbers, such as the precision of noise."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import digamma, gammaln, polygamma

from sksvi.families.gaussian.dense import NotPositiveDefinite

Array = np.ndarray


class Gamma:
    """Independent q(x_k) = Gamma(shape_k, rate_k), x_k > 0; natural (shape, -rate), moments E log x and E x.

    Parameters
    ----------
    shape, rate : array-like of shape (K,)

    Raises
    ------
    NotPositiveDefinite
        For a parameter that is not positive and finite.

    Examples
    --------
    >>> import numpy as np
    >>> from sksvi.families import Gamma
    >>> q = Gamma(np.array([4.0]), np.array([2.0]))
    >>> print(q.mean, q.std, round(q.kl(Gamma(np.ones(1), np.ones(1))), 3))
    [2.] [1.] 0.67
    """

    kind = "gamma"
    one_number = False
    full = False

    def __init__(self, shape: Any, rate: Any) -> None:
        self.shape, self.rate = np.asarray(shape, float), np.asarray(rate, float)
        for name, values in (("shape", self.shape), ("rate", self.rate)):
            if not np.all((values > 0) & (values < np.inf)):
                worst = int(np.argmin(np.where(np.isfinite(values), values, -np.inf)))
                raise NotPositiveDefinite(f"the {name} of a Gamma distribution is {values.flat[worst]}", worst)

    def prepare(self) -> None:
        """Nothing to factor."""

    @property
    def mean(self) -> Array:
        """E x, (K,)."""
        return self.shape / self.rate

    @property
    def variance(self) -> Array:
        """Var x, (K,)."""
        return self.shape / np.square(self.rate)

    @property
    def std(self) -> Array:
        """Standard deviations, (K,)."""
        return np.sqrt(self.variance)

    @property
    def cov(self) -> Array:
        """Covariance matrix, (K, K)."""
        return np.diag(self.variance)

    @property
    def mean_log(self) -> Array:
        """E log x, (K,)."""
        return digamma(self.shape) - np.log(self.rate)

    @property
    def moments(self) -> Array:
        """E log x and E x, (K, 2)."""
        return np.stack([self.mean_log, self.mean], -1)

    def kl(self, prior: Gamma) -> float:
        """KL(q ‖ prior), nats, summed over coordinates (equations.md 0)."""
        gain = (self.shape - prior.shape) * digamma(self.shape) - gammaln(self.shape) + gammaln(prior.shape)
        gain += prior.shape * np.log(self.rate / prior.rate) + self.shape * (prior.rate / self.rate - 1.0)
        return float(np.sum(gain))

    def natural(self, about: Any) -> tuple[Array]:
        """(shape, -rate), (K, 2)."""
        return (np.stack([self.shape, -self.rate], -1),)

    def replace(self, natural: Any) -> Gamma:
        """The distribution with these natural parameters."""
        (both,) = natural
        return Gamma(both[..., 0], -both[..., 1])

    @staticmethod
    def natural_gradient(gradient: tuple[Array]) -> tuple[Array]:
        """The gradient in the moments, the natural gradient already."""
        return gradient

    @property
    def standard_values(self) -> Array:
        """Unconstrained standard coordinates: log shape and log rate, (K, 2)."""
        return np.log(np.stack([self.shape, self.rate], -1))

    def at(self, values: Array) -> Gamma:
        """The distribution at unconstrained coordinates."""
        both = np.exp(values)
        return Gamma(both[..., 0], both[..., 1])

    def standard_gradient(self, prior: Gamma, gradient: tuple[Array]) -> Array:
        """Gradient of the bound, KL included, in log shape and log rate: Fisher information times natural gradient."""
        (mine,), (its,) = self.natural(self), prior.natural(prior)
        slope = its + gradient[0] - mine
        in_shape = polygamma(1, self.shape) * slope[..., 0] + slope[..., 1] / self.rate
        in_rate = -(slope[..., 0] / self.rate + self.shape / np.square(self.rate) * slope[..., 1])
        return np.stack([self.shape * in_shape, self.rate * in_rate], -1)

    def sample(self, n: int = 1, random_state: Any = None) -> Array:
        """Draw (n, K)."""
        from sklearn.utils import check_random_state

        return check_random_state(random_state).gamma(self.shape, 1.0 / self.rate, (n, *self.shape.shape))

    def blended(self, other: Gamma, weight: float) -> Gamma:
        """(1 - weight) of these natural parameters plus weight of the other's."""
        keep = 1 - weight
        return Gamma(keep * self.shape + weight * other.shape, keep * self.rate + weight * other.rate)

    def __getitem__(self, plate: Any) -> Gamma:
        """Some coordinates."""
        return Gamma(self.shape[plate], self.rate[plate])
