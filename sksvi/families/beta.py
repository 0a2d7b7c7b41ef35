"""Beta blocks: q of probabilities, such as those that a factor is used."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import betaln, digamma, polygamma

from sksvi.families.gaussian.dense import NotPositiveDefinite

Array = np.ndarray


class Beta:
    """Independent q(x_k) = Beta(a_k, b_k), 0 < x_k < 1; natural parameters (a, b), moments E log x and E log(1 - x).

    Parameters
    ----------
    a, b : array-like of shape (K,)

    Raises
    ------
    NotPositiveDefinite
        For a parameter that is not positive and finite.

    Examples
    --------
    >>> import numpy as np
    >>> from sksvi.families import Beta
    >>> q = Beta(np.array([1.0, 3.0]), np.array([1.0, 1.0]))
    >>> print(q.mean, round(q.kl(Beta(np.ones(2), np.ones(2))), 3))
    [0.5  0.75] 0.432
    """

    kind = "beta"
    one_number = False
    full = False

    def __init__(self, a: Any, b: Any) -> None:
        self.a, self.b = np.asarray(a, float), np.asarray(b, float)
        for name, values in (("a", self.a), ("b", self.b)):
            if not np.all((values > 0) & (values < np.inf)):
                worst = int(np.argmin(np.where(np.isfinite(values), values, -np.inf)))
                raise NotPositiveDefinite(f"parameter {name} of a Beta distribution is {values.flat[worst]}", worst)

    def prepare(self) -> None:
        """Nothing to factor."""

    @property
    def mean(self) -> Array:
        """E x, (K,)."""
        return self.a / (self.a + self.b)

    @property
    def variance(self) -> Array:
        """Var x, (K,)."""
        total = self.a + self.b
        return self.a * self.b / (np.square(total) * (total + 1.0))

    @property
    def std(self) -> Array:
        """Standard deviations, (K,)."""
        return np.sqrt(self.variance)

    @property
    def cov(self) -> Array:
        """Covariance matrix, (K, K)."""
        return np.diag(self.variance)

    @property
    def moments(self) -> Array:
        """E log x and E log(1 - x), (K, 2)."""
        return np.stack([digamma(self.a), digamma(self.b)], -1) - digamma(self.a + self.b)[..., None]

    def kl(self, prior: Beta) -> float:
        """KL(q ‖ prior), nats, summed over coordinates (equations.md 0)."""
        (mine,), (its,) = self.natural(self), prior.natural(prior)
        return float(np.sum(betaln(prior.a, prior.b) - betaln(self.a, self.b)) + np.sum((mine - its) * self.moments))

    def natural(self, about: Any) -> tuple[Array]:
        """(a, b), (K, 2)."""
        return (np.stack([self.a, self.b], -1),)

    def replace(self, natural: Any) -> Beta:
        """The distribution with these natural parameters."""
        (both,) = natural
        return Beta(both[..., 0], both[..., 1])

    @staticmethod
    def natural_gradient(gradient: tuple[Array]) -> tuple[Array]:
        """The gradient in the moments, the natural gradient already."""
        return gradient

    @property
    def standard_values(self) -> Array:
        """Unconstrained standard coordinates: log a and log b, (K, 2)."""
        return np.log(self.natural(self)[0])

    def at(self, values: Array) -> Beta:
        """The distribution at unconstrained coordinates."""
        return self.replace((np.exp(values),))

    def standard_gradient(self, prior: Beta, gradient: tuple[Array]) -> Array:
        """Gradient of the bound, KL included, in log a and log b: Fisher information times the natural gradient."""
        (mine,), (its,) = self.natural(self), prior.natural(prior)
        slope = its + gradient[0] - mine
        shared = polygamma(1, self.a + self.b) * slope.sum(-1)
        return mine * (polygamma(1, mine) * slope - shared[..., None])

    def sample(self, n: int = 1, random_state: Any = None) -> Array:
        """Draw (n, K)."""
        from sklearn.utils import check_random_state

        return check_random_state(random_state).beta(self.a, self.b, (n, *self.a.shape))

    def blended(self, other: Beta, weight: float) -> Beta:
        """(1 - weight) of these natural parameters plus weight of the other's."""
        return Beta((1 - weight) * self.a + weight * other.a, (1 - weight) * self.b + weight * other.b)

    def __getitem__(self, plate: Any) -> Beta:
        """Some coordinates."""
        return Beta(self.a[plate], self.b[plate])
