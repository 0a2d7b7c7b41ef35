"""Dirichlet blocks: q of probability vectors, one per plate (the topics of a topic model); of two columns: Beta.

A `Simplex` has them as points: the mode of a Dirichlet.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, Self

import numpy as np
from scipy.special import betaln, digamma, expit, gammaln, logsumexp, polygamma, xlogy

from sksvi._typing.arrays import ArrayLike, RandomState
from sksvi.families.base import RULE_NODES, Draw, NotPositiveDefinite, PointMass, are_positive, in_order
from sksvi.families.flat import Flat, regressed
from sksvi.families.implicit import beta_nodes, corrected_counts

Array = np.ndarray

#: Share of the prior's concentration that a natural step leads to at least.
LEAST_SHARE = 0.1


class Dirichlet(Flat):
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

    LAYOUT = "concentration (…,D) f >0"

    array_dims = {"concentration": 1}
    concentration: Array

    def __init__(self, concentration: Array) -> None:
        concentration = in_order(concentration)
        if not are_positive(concentration):
            worst = concentration.flat[int(np.argmin(np.nan_to_num(concentration, nan=-np.inf, posinf=-np.inf)))]
            raise NotPositiveDefinite(f"a concentration of a Dirichlet distribution is {worst:g}")
        self.concentration = concentration

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
    def cov(self) -> Array:
        """Covariance of β within a plate, (..., V, V): formed only when asked for."""
        mean = self.mean
        outer = mean[..., :, None] * mean[..., None, :]
        return (mean[..., None] * np.eye(mean.shape[-1]) - outer) / (self.total + 1.0)[..., None]

    # ---- the family
    @property
    def theta(self) -> Array:
        """λ, (..., V)."""
        return self.concentration

    def of_theta(self, theta: Array) -> Self:
        """The distribution with this concentration."""
        return type(self)(theta)

    def repeated(self, plates: tuple[int, ...]) -> Self:
        """This one distribution, λ (V,), for each of these ``plates``; its normaliser is found once."""
        found = self.of_theta(np.broadcast_to(self.theta, (*plates, self.theta.shape[-1])))
        found.log_normaliser = np.broadcast_to(self.log_normaliser, plates)
        return found

    @cached_property
    def moments(self) -> Array:
        """E log β = ψ(λ) - ψ(Σλ), (..., V)."""
        return digamma(self.concentration) - digamma(self.total)

    def moments_of(self, columns: Array) -> Array:
        """E log β of some coordinates, (..., len(columns))."""
        return digamma(self.concentration[..., columns]) - digamma(self.total)

    @cached_property
    def log_normaliser(self) -> Array:
        """Σ_v log Γ(λ_v) - log Γ(Σλ), (...)."""
        return gammaln(self.concentration).sum(-1) - gammaln(self.total)[..., 0]

    def _changed(self) -> None:
        for name in ("moments", "log_normaliser"):
            vars(self).pop(name, None)

    def fisher(self, v: Array) -> Array:
        """ψ'(λ) v - ψ'(Σλ) Σv."""
        return polygamma(1, self.concentration) * v - polygamma(1, self.total) * v.sum(-1, keepdims=True)

    @property
    def stretch(self) -> Array:
        """∂λ/∂log λ."""
        return self.concentration

    @property
    def standard_values(self) -> Array:
        """log λ, (..., V)."""
        return np.log(self.concentration)

    def at(self, values: Array) -> Self:
        """The distribution at log λ."""
        return self.of_theta(np.exp(values))

    def in_domain(self, prior: Any, gradient: tuple[Array], rate: Any = 1.0) -> tuple[Array]:
        """Counts of at least -0.9 of the prior's: those of draws, V n, are noisy and may be negative.

        Few large negative ones balance many small ones. Whole, they take words out of topics that draws without them do
        not bring back; raised, mean counts about the prior's size are some per cent too large, others hardly.
        """
        if gradient[0].min(initial=0.0) >= 0.0:
            return gradient
        return (np.maximum(gradient[0], (LEAST_SHARE - 1.0) * prior.theta),)

    @staticmethod
    def statistics(value: Array) -> Array:
        """t(β) = log β."""
        return np.log(value)

    # ---- draws
    def log_gammas(self, rng: np.random.Generator) -> Array:
        """log g of gamma variables with β = g / Σg, (..., V), finite where λ is small: log Gamma(λ + 1) + log(u)/λ."""
        return log_gammas(self.concentration, rng)

    def sample(self, n: int = 1, random_state: RandomState = None) -> Array:
        """Draw (n, ..., V)."""
        from sklearn.utils import check_random_state

        rng = check_random_state(random_state)
        return _shares(log_gammas(np.broadcast_to(self.concentration, (n, *self.concentration.shape)), rng))

    def drawn(self, rng: np.random.Generator) -> Draw:
        """A draw from log g, which is its source."""
        logs = self.log_gammas(rng)
        return Draw(_shares(logs), logs)

    def log_values(self, draw: Draw) -> Array:
        """t(β) = log β of a draw, (..., V), finite where β is 0 to rounding."""
        return draw.source - logsumexp(draw.source, axis=-1, keepdims=True)

    def corrected(self, draw: Draw, gradient: tuple[Array]) -> tuple[Array]:
        """V of Hoffman and Blei 2015 on expected counts, (..., V)."""
        return (corrected_counts(self.concentration, draw.source, gradient[0]),)

    def in_statistics(self, draw: Draw, slope: Array) -> Array:
        """df/dβ as df/dlog β."""
        return draw.value * slope


class Beta(Dirichlet):
    """Independent q(x_k) = Beta(a_k, b_k), 0 < x_k < 1: a Dirichlet of x and 1 - x; natural parameters (a, b).

    Parameters
    ----------
    a, b : array-like of shape (...)

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

    LAYOUT = "a (…) f >0; b (…) f >0"

    array_dims = {"a": 0, "b": 0}

    def __init__(self, a: ArrayLike, b: ArrayLike) -> None:
        self.a, self.b = in_order(a), in_order(b)
        for name, values in (("a", self.a), ("b", self.b)):
            if not are_positive(values):
                worst = int(np.argmin(np.where(np.isfinite(values), values, -np.inf)))
                raise NotPositiveDefinite(f"parameter {name} of a Beta distribution is {values.flat[worst]}", worst)

    @cached_property
    def concentration(self) -> Array:  # type: ignore[override]
        """(a, b), (..., 2)."""
        return np.stack([self.a, self.b], -1)

    @cached_property
    def log_normaliser(self) -> Array:
        """log B(a, b), (...), free of the cancellation between large log Γ."""
        return betaln(self.a, self.b)

    def of_theta(self, theta: Array) -> Self:
        """The distribution with these (a, b)."""
        found = type(self)(theta[..., 0], theta[..., 1])
        found.concentration = theta
        return found

    @property
    def total(self) -> Array:
        """a + b, (..., 1): sums over an axis of two are slow."""
        return (self.a + self.b)[..., None]

    def _changed(self) -> None:
        super()._changed()
        vars(self).pop("concentration", None)

    @property
    def mean(self) -> Array:
        """E x, (...)."""
        return self.a / (self.a + self.b)

    @property
    def variance(self) -> Array:
        """Var x, (...)."""
        total = self.a + self.b
        return self.a * self.b / (np.square(total) * (total + 1.0))

    @property
    def cov(self) -> Array:
        """Covariance matrix of the last axis, (..., K, K): diagonal."""
        return Flat.cov.fget(self)  # type: ignore[attr-defined]

    @staticmethod
    def statistics(value: Array) -> Array:
        """t(x) = (log x, log(1 - x)), (..., 2)."""
        return np.stack([np.log(value), np.log1p(-value)], -1)

    def sample(self, n: int = 1, random_state: RandomState = None) -> Array:
        """Draw (n, ...)."""
        from sklearn.utils import check_random_state

        return check_random_state(random_state).beta(self.a, self.b, (n, *self.a.shape))

    def drawn(self, rng: np.random.Generator) -> Draw:
        """A draw of x from the log g of x and 1 - x, (..., 2), which are its source."""
        logs = self.log_gammas(rng)
        return Draw(expit(logs[..., 0] - logs[..., 1]), logs)

    def nodes(self, n: int = RULE_NODES) -> Draw:
        """Nodes (n, ...) and weights of `implicit.beta_nodes`; the log odds are their source."""
        odds, weight = beta_nodes(self.a, self.b, n)
        return Draw(expit(odds), odds, weight)

    def of_values(self, nodes: Draw, values: Array) -> tuple[Array]:
        """f regressed on log x and log(1 - x), from log odds: both are numbers where x is 0 or 1 to rounding."""
        logs = -np.logaddexp(0.0, np.stack([-nodes.source, nodes.source], -1))
        return (regressed(nodes, logs, values),)

    def log_values(self, draw: Draw) -> Array:
        """log x and log(1 - x) of a draw, (..., 2), finite where x is no number but 0 or 1."""
        return draw.source - np.logaddexp(draw.source[..., 0], draw.source[..., 1])[..., None]

    def in_statistics(self, draw: Draw, slope: Array) -> Array:
        """df/dx as slopes in log x and log(1 - x)."""
        return np.stack([draw.value * slope, np.zeros_like(draw.value)], -1)


def log_gammas(shape: Array, rng: np.random.Generator) -> Array:
    """log g of g ~ Gamma(shape, 1), finite where the shape is small: log Gamma(shape + 1) + log(u)/shape."""
    log_gamma = np.log(rng.standard_gamma(shape + 1.0))
    return log_gamma + np.log(rng.uniform(size=shape.shape)) / shape


def _shares(logs: Array) -> Array:
    draws = np.exp(logs - logs.max(-1, keepdims=True))
    return draws / draws.sum(-1, keepdims=True)


# ---- probability vectors as points
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

    def moments_of(self, columns: Array) -> Array:
        """log β of some coordinates, (..., len(columns))."""
        return self.moments[..., columns]

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
        """Gradient of the bound in logistic coordinates: n + e - β Σ(n + e) (Sheth and Khardon 2016, eq. 62)."""
        counts = gradient[0] + prior.counts
        return counts - self.mean * counts.sum(-1, keepdims=True)

    def in_statistics(self, draw: Draw, slope: Array) -> Array:
        """df/dβ as df/dlog β."""
        return draw.value * slope
