"""Dirichlet blocks: q of probability vectors, one per plate (the topics of a topic model), and their point version."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import digamma, gammaln, polygamma, xlogy

from sksvi.families.gaussian.dense import NotPositiveDefinite

Array = np.ndarray


class Dirichlet:
    """q(β) = ∏ Dir(β_k | λ_k), one probability vector per plate; natural parameter λ, moment E log β.

    Parameters
    ----------
    concentration : ndarray of shape (..., V)
        λ > 0.

    Raises
    ------
    NotPositiveDefinite
        For a concentration that is not positive and finite.

    Examples
    --------
    >>> import numpy as np
    >>> from sksvi.families import Dirichlet
    >>> q = Dirichlet(np.array([[2.0, 1.0, 1.0], [8.0, 1.0, 1.0]]))
    >>> q.mean
    array([[0.5 , 0.25, 0.25],
           [0.8 , 0.1 , 0.1 ]])
    >>> print(round(q.kl(Dirichlet(np.ones((2, 3)))), 3))
    2.196
    """

    kind = "dirichlet"
    one_number = False
    full = False

    def __init__(self, concentration: Array) -> None:
        concentration = np.asarray(concentration, float)
        if not (np.all(concentration > 0) and np.all(np.isfinite(concentration))):
            worst = concentration.flat[int(np.argmin(np.nan_to_num(concentration, nan=-np.inf, posinf=-np.inf)))]
            raise NotPositiveDefinite(f"a concentration of a Dirichlet distribution is {worst:g}")
        self.concentration = concentration

    def prepare(self) -> None:
        """Nothing to factor."""

    @property
    def total(self) -> Array:
        """Σ_v λ_v, (..., 1)."""
        return self.concentration.sum(-1, keepdims=True)

    @property
    def mean(self) -> Array:
        """E β, (..., V)."""
        return self.concentration / self.total

    @property
    def variance(self) -> Array:
        """Var β, (..., V)."""
        mean = self.mean
        return mean * (1.0 - mean) / (self.total + 1.0)

    @property
    def std(self) -> Array:
        """Standard deviation of β, (..., V)."""
        return np.sqrt(self.variance)

    @property
    def cov(self) -> Array:
        """Covariance of β within a plate, (..., V, V): formed only when asked for."""
        mean = self.mean
        outer = mean[..., :, None] * mean[..., None, :]
        return (mean[..., None] * np.eye(mean.shape[-1]) - outer) / (self.total + 1.0)[..., None]

    @cached_property
    def moments(self) -> Array:
        """E log β = ψ(λ) - ψ(Σλ), (..., V)."""
        return digamma(self.concentration) - digamma(self.total)

    @cached_property
    def _log_normaliser(self) -> Array:
        """Σ_v log Γ(λ_v) - log Γ(Σλ), (...)."""
        return gammaln(self.concentration).sum(-1) - gammaln(self.total)[..., 0]

    def kl(self, prior: Dirichlet) -> float:
        """KL(q ‖ prior), nats, summed over plates (equations.md 0)."""
        between = np.sum((self.concentration - prior.concentration) * self.moments)
        there = np.broadcast_to(prior._log_normaliser, self._log_normaliser.shape)
        return float(between - np.sum(self._log_normaliser) + np.sum(there))

    def natural(self, about: Any) -> tuple[Array]:
        """λ."""
        return (self.concentration,)

    def replace(self, natural: list[Array]) -> Dirichlet:
        """The distribution with this natural parameter."""
        return Dirichlet(natural[0])

    @staticmethod
    def natural_gradient(gradient: tuple[Array]) -> tuple[Array]:
        """The gradient in E log β is the natural gradient already: expected counts."""
        return gradient

    @property
    def standard_values(self) -> Array:
        """Unconstrained standard coordinates: log λ, (..., V)."""
        return np.log(self.concentration)

    def at(self, values: Array) -> Dirichlet:
        """The distribution at unconstrained coordinates."""
        return Dirichlet(np.exp(values))

    def standard_gradient(self, prior: Dirichlet, gradient: tuple[Array]) -> Array:
        """Gradient of the bound, KL included, in log λ: λ F(λ) (g + λ_0 - λ) with Fisher information F."""
        ahead = gradient[0] + prior.concentration - self.concentration
        informed = polygamma(1, self.concentration) * ahead
        return self.concentration * (informed - polygamma(1, self.total) * ahead.sum(-1, keepdims=True))

    def log_gammas(self, rng: Any) -> Array:
        """log g of gamma variables with β = g / Σg, (..., V), finite where λ is small: log Gamma(λ + 1) + log(u)/λ."""
        log_gamma = np.log(rng.standard_gamma(self.concentration + 1.0))
        return log_gamma + np.log(rng.uniform(size=self.concentration.shape)) / self.concentration

    def sample(self, n: int = 1, random_state: Any = None) -> Array:
        """Draw (n, ..., V)."""
        from sklearn.utils import check_random_state

        rng = check_random_state(random_state)
        logs = Dirichlet(np.broadcast_to(self.concentration, (n, *self.concentration.shape))).log_gammas(rng)
        draws = np.exp(logs - logs.max(-1, keepdims=True))
        return draws / draws.sum(-1, keepdims=True)

    def blended(self, other: Dirichlet, weight: float) -> Dirichlet:
        """(1 - weight) of this natural parameter plus weight of the other's."""
        return Dirichlet((1 - weight) * self.concentration + weight * other.concentration)

    def __getitem__(self, plate: int) -> Dirichlet:
        """One plate."""
        return Dirichlet(self.concentration[plate])


class Simplex:
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

    one_number = False
    full = False

    def __init__(self, counts: Array, by_gradient: bool = False) -> None:
        counts = np.asarray(counts, float)
        if not np.all(counts >= 0):
            raise NotPositiveDefinite(f"a count of a point on the simplex is {np.min(counts):g}")
        self.counts, self.by_gradient = counts, by_gradient

    @property
    def kind(self) -> str:
        """ "simplex", or "logistic" where steps are AdaGrad's on logistic coordinates."""
        return "logistic" if self.by_gradient else "simplex"

    def prepare(self) -> None:
        """Nothing to factor."""

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
    def std(self) -> Array:
        """Zero: a point has no spread."""
        return np.zeros_like(self.counts)

    variance = std

    @property
    def cov(self) -> Array:
        """Zero."""
        return np.zeros((*self.counts.shape, self.counts.shape[-1]))

    @property
    def moments(self) -> Array:
        """log β, (..., V)."""
        with np.errstate(divide="ignore"):
            return np.log(self.mean)

    def kl(self, prior: Simplex) -> float:
        """Σ e (log of the prior's own mode - log β), nats, with e the prior's counts."""
        at_mode = xlogy(prior.counts, prior.mean)
        return float(np.sum(at_mode - xlogy(prior.counts, self.mean)))

    def natural(self, about: Any) -> tuple[Array]:
        """The counts."""
        return (self.counts,)

    def replace(self, natural: list[Array]) -> Simplex:
        """The point with these counts."""
        return Simplex(natural[0], self.by_gradient)

    @staticmethod
    def natural_gradient(gradient: tuple[Array]) -> tuple[Array]:
        """Expected counts, the gradient in log β."""
        return gradient

    @property
    def standard_values(self) -> Array:
        """Logistic coordinates log β, (..., V)."""
        return self.moments

    def at(self, values: Array) -> Simplex:
        """The point at logistic coordinates, with as many counts in all."""
        weight = np.exp(values - np.max(values, axis=-1, keepdims=True))
        return Simplex(self.total * weight / weight.sum(-1, keepdims=True), self.by_gradient)

    def standard_gradient(self, prior: Simplex, gradient: tuple[Array]) -> Array:
        """Gradient of the bound in logistic coordinates: n + e - β Σ(n + e) (equations.md 6, eq. 62)."""
        counts = gradient[0] + prior.counts
        return counts - self.mean * counts.sum(-1, keepdims=True)

    def sample(self, n: int = 1, random_state: Any = None) -> Array:
        """The point, n times."""
        return np.repeat(self.mean[None], n, axis=0)

    def blended(self, other: Simplex, weight: float) -> Simplex:
        """(1 - weight) of these counts plus weight of the other's."""
        return Simplex((1 - weight) * self.counts + weight * other.counts, self.by_gradient)

    def __getitem__(self, plate: int) -> Simplex:
        """One plate."""
        return Simplex(self.counts[plate], self.by_gradient)
