"""Implicit derivatives of gamma and Dirichlet draws in their parameters, at a fixed uniform number."""

from __future__ import annotations

import numpy as np
from scipy.special import betaincinv, betaln, gammainccinv, gammaincinv, gammaln, wrightomega

from sksvi.families.base import RULE_NODES

Array = np.ndarray

#: Shape beyond which the Wilson-Hilferty cube root stands for the gamma quantile.
LARGE_SHAPE = 1e4
#: Mass that lies beyond 64 nodes of expectations under gamma and beta distributions, on either side.
BEYOND = 1e-14
#: log g below which P(a, g) is g^a / Γ(a + 1) to rounding.
SMALL_LOG = -36.0


def log_slope(shape: Array, log_draw: Array) -> Array:
    """∂ log g / ∂a of draws g ~ Gamma(a, 1), from log g.

    Parameters
    ----------
    shape, log_draw : ndarrays of one shape

    Returns
    -------
    slope : ndarray

    Examples
    --------
    >>> import numpy as np
    >>> from sksvi.families.implicit import log_slope
    >>> log_slope(np.array([1.0]), np.log(np.array([1.0]))).round(4)
    array([1.1736])
    """
    from sksvi.families import implicit_loops

    a, x = np.asarray(shape, float), np.asarray(log_draw, float)
    return implicit_loops.series(a.ravel(), x.ravel(), LARGE_SHAPE).reshape(a.shape)


def gamma_nodes(shape: Array, n: int = RULE_NODES) -> tuple[Array, Array]:
    """Nodes log g and weights, of sum 1, of expectations under g ~ Gamma(shape, 1).

    The trapezoidal rule in t with log g = t - exp(-t), between the 1e-14 quantiles: to the right it is one in log g;
    to the left its nodes lie the farther apart the farther out they are, as far as the tail of a small shape reaches.
    E log g, E g and E g² to 1e-10 for every shape from 1e-3. Fewer nodes than 64 lie between wider quantiles.

    Parameters
    ----------
    shape : ndarray of shape (...)
    n : int, default=64

    Returns
    -------
    log_g, weight : ndarrays of shape (n, ...)

    Examples
    --------
    >>> import numpy as np
    >>> from sksvi.families.implicit import gamma_nodes
    >>> log_g, weight = gamma_nodes(np.array([0.01, 3.0]))
    >>> (weight * np.exp(log_g)).sum(0).round(9)
    array([0.01, 3.  ])
    """
    shape, beyond = np.asarray(shape, float), _beyond(n)
    least = (np.log(beyond) + gammaln(shape + 1.0)) / shape
    usual = np.log(np.maximum(gammaincinv(shape, beyond), np.finfo(float).tiny))
    low, high = np.where(least < SMALL_LOG, least, usual), np.log(gammainccinv(shape, beyond))
    first, last = (-np.log(wrightomega(-end)) for end in (low, high))
    t = first + (last - first) * np.linspace(0.0, 1.0, n).reshape(-1, *[1] * shape.ndim)
    left = np.exp(-t)
    log_g = t - left
    log_weight = shape * log_g - np.exp(log_g) + np.log1p(left)
    weight = np.exp(log_weight - log_weight.max(0))
    return log_g, weight / weight.sum(0)


def beta_nodes(a: Array, b: Array, n: int = RULE_NODES) -> tuple[Array, Array]:
    """Nodes log x/(1 - x) and weights, of sum 1, of expectations under x ~ Beta(a, b).

    The trapezoidal rule in t with log odds t + 2 sinh t: in the tails of small parameters nodes lie farther apart.

    Parameters
    ----------
    a, b : ndarrays of one shape
    n : int, default=64

    Returns
    -------
    log_odds, weight : ndarrays of shape (n, ...)

    Examples
    --------
    >>> import numpy as np
    >>> from sksvi.families.implicit import beta_nodes
    >>> log_odds, weight = beta_nodes(np.array([0.3, 20.0]), np.array([0.9, 30.0]))
    >>> (weight / (1 + np.exp(-log_odds))).sum(0).round(9)
    array([0.25, 0.4 ])
    """
    a, b = np.broadcast_arrays(np.asarray(a, float), np.asarray(b, float))
    ends = -_log_odds_beyond(a, b, n), _log_odds_beyond(b, a, n)
    first, last = (_stretched(end) for end in ends)
    t = first + (last - first) * np.linspace(0.0, 1.0, n).reshape(-1, *[1] * a.ndim)
    log_odds = t + 2.0 * np.sinh(t)
    log_weight = -a * np.logaddexp(0.0, -log_odds) - b * np.logaddexp(0.0, log_odds) + np.log(1.0 + 2.0 * np.cosh(t))
    weight = np.exp(log_weight - log_weight.max(0))
    return log_odds, weight / weight.sum(0)


def _log_odds_beyond(a: Array, b: Array, n: int) -> Array:
    """-log odds below which Beta(a, b) has the mass that rules of n nodes leave out."""
    mass = _beyond(n)
    least = (np.log(mass) + np.log(a) + betaln(a, b)) / a
    x = betaincinv(a, b, mass)
    return -np.where(least < SMALL_LOG, least, np.log(np.maximum(x, np.finfo(float).tiny)) - np.log1p(-x))


def _stretched(y: Array) -> Array:
    """t with t + 2 sinh t = y, by Newton's method from where sinh alone would be."""
    t = np.arcsinh(y / 3.0)
    for _ in range(30):
        t = t - (t + 2.0 * np.sinh(t) - y) / (1.0 + 2.0 * np.cosh(t))
    return t


def _beyond(n: int) -> float:
    """Mass that lies beyond n nodes on either side."""
    return float(BEYOND ** min(1.0, (n / RULE_NODES) ** 0.5))


def moments_with_slope(shape: Array, log_draw: Array, scaled: Array, weight: Array) -> Array:
    """Moments E s, E g, Cov(s, p), Cov(g, p) of draws g ~ Gamma(a, 1) and numbers s at them, p = ∂ log g / ∂a.

    Parameters
    ----------
    shape : ndarray of shape (...)
    log_draw, scaled, weight : ndarrays of shape (S, ...)
        log g, s, and weights of sum 1.

    Returns
    -------
    moments : ndarray of shape (..., 4)
    """
    from sksvi.families import implicit_loops

    size = (len(log_draw), shape.size)
    parts = (np.ascontiguousarray(np.broadcast_to(part, log_draw.shape), float) for part in (log_draw, scaled, weight))
    flat = (part.reshape(size) for part in parts)
    return implicit_loops.moments_with_slope(shape.ravel(), *flat, LARGE_SHAPE).reshape(*shape.shape, 4)


def corrected_counts(concentration: Array, log_gamma: Array, counts: Array) -> Array:
    """V(β, λ) n of a Dirichlet draw β = g/Σg, with E V = I: the natural gradient of what depends on the draw.

    Parameters
    ----------
    concentration : ndarray of shape (..., V)
        λ.
    log_gamma : ndarray of shape (..., V)
        log g of the draw.
    counts : ndarray of shape (..., V)
        n, the gradient in log β.

    Returns
    -------
    corrected : ndarray of shape (..., V)
    """
    if concentration.shape[-1] == 1:  # β = 1 whatever λ is: there is nothing to correct, and F is 0
        return counts
    from sksvi.families import implicit_loops

    width = concentration.shape[-1]
    parts = (np.ascontiguousarray(part, float).reshape(-1, width) for part in (concentration, log_gamma, counts))
    return implicit_loops.corrected(*parts, LARGE_SHAPE).reshape(concentration.shape)
