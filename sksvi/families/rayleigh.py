"""Rayleigh blocks: q of a positive number with one parameter, the noise variance of a mixed-effects model."""

from __future__ import annotations

from typing import Any

import numpy as np

from sksvi.families.gaussian.dense import NotPositiveDefinite

Array = np.ndarray

#: E x / scale, and Var x / scale², of a Rayleigh variable x.
MEAN, SPREAD = float(np.sqrt(np.pi / 2)), 2.0 - np.pi / 2


class Rayleigh:
    """q(x) = (x / scale²) exp(-x² / (2 scale²)), x > 0; natural parameter -1/(2 scale²), moment E x² = 2 scale².

    Its standard deviation is 0.52 of its mean at every scale.

    Parameters
    ----------
    scale : float
        Mode of x.

    Raises
    ------
    NotPositiveDefinite
        For a scale that is not positive and finite.

    Examples
    --------
    >>> from sksvi.families import Rayleigh
    >>> q = Rayleigh(2.0)
    >>> print(q.mean.round(3), q.std.round(3), round(q.kl(Rayleigh(5.0)), 3))
    [2.507] [1.31] 0.993
    """

    kind = "rayleigh"
    #: A block of one number in a model that is not conjugate: its steps are cut or follow secants.
    one_number = True
    full = False

    def __init__(self, scale: float) -> None:
        if not 0 < scale < np.inf:
            raise NotPositiveDefinite(f"the scale of a Rayleigh distribution is {scale}")
        self.scale = float(scale)

    def prepare(self) -> None:
        """Nothing to factor."""

    @property
    def mean(self) -> Array:
        """E x, (1,)."""
        return np.array([MEAN * self.scale])

    @property
    def variance(self) -> Array:
        """Var x, (1,)."""
        return np.array([SPREAD * self.scale**2])

    @property
    def std(self) -> Array:
        """Standard deviation of x, (1,)."""
        return np.sqrt(self.variance)

    @property
    def cov(self) -> Array:
        """Var x as a matrix."""
        return self.variance[:, None]

    @property
    def moments(self) -> Array:
        """E x², what the natural parameter multiplies, (1,)."""
        return np.array([2.0 * self.scale**2])

    def kl(self, prior: Rayleigh) -> float:
        """KL(q ‖ prior), nats (equations.md 0)."""
        ratio = self.scale / prior.scale
        return float(ratio**2 - 1.0 - 2.0 * np.log(ratio))  # the square may be too small for a logarithm

    def natural(self, about: Any) -> tuple[Array]:
        """-1/(2 scale²)."""
        return (np.array([-0.5 / self.scale**2]),)

    def replace(self, natural: list[Array]) -> Rayleigh:
        """The distribution with this natural parameter."""
        theta = float(natural[0][0])
        if not theta < 0:
            raise NotPositiveDefinite(f"the natural parameter {theta:g} of a Rayleigh distribution is not negative")
        return Rayleigh(np.sqrt(-0.5 / theta))

    @staticmethod
    def natural_gradient(gradient: tuple[Array]) -> tuple[Array]:
        """The gradient in E x² is the natural gradient already."""
        return gradient

    @property
    def standard_values(self) -> Array:
        """Unconstrained standard coordinates: log scale, (1,)."""
        return np.array([np.log(self.scale)])

    def at(self, values: Array) -> Rayleigh:
        """The distribution at unconstrained coordinates."""
        return Rayleigh(np.exp(values[0]))

    def standard_gradient(self, prior: Rayleigh, gradient: tuple[Array]) -> Array:
        """Gradient of the bound, KL included, in the log scale: d/d log s = 4 s² d/d(2 s²) for the data's part."""
        square = self.scale**2
        return 2.0 - 2.0 * square / prior.scale**2 + 4.0 * square * gradient[0]

    def sample(self, n: int = 1, random_state: Any = None) -> Array:
        """Draw (n, 1)."""
        from sklearn.utils import check_random_state

        return check_random_state(random_state).rayleigh(self.scale, (n, 1))

    def blended(self, other: Rayleigh, weight: float) -> Rayleigh:
        """(1 - weight) of this natural parameter plus weight of the other's."""
        (a,), (b,) = self.natural(self), other.natural(other)
        return self.replace([(1 - weight) * a + weight * b])
