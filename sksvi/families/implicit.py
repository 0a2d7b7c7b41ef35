"""How a gamma or Dirichlet draw moves with its parameter at a fixed uniform number (equations.md 8)."""

from __future__ import annotations

import numpy as np
from scipy.special import gammainccinv, gammaincinv, gammaln, wrightomega

Array = np.ndarray

#: Shape beyond which the Wilson-Hilferty cube root stands for the gamma quantile.
LARGE_SHAPE = 1e4
#: Nodes of expectations under a gamma distribution, and the mass that lies beyond them on either side.
GAMMA_NODES, BEYOND = 64, 1e-14
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


def gamma_nodes(shape: Array) -> tuple[Array, Array]:
    """Nodes log g and weights, of sum 1, of expectations under g ~ Gamma(shape, 1).

    The trapezoidal rule in t with log g = t - exp(-t), between the 1e-14 quantiles: to the right it is one in log g;
    to the left its nodes lie the farther apart the farther out they are, as far as the tail of a small shape reaches.
    E log g, E g and E g² to 1e-10 for every shape from 1e-3.

    Parameters
    ----------
    shape : ndarray of shape (...)

    Returns
    -------
    log_g, weight : ndarrays of shape (GAMMA_NODES, ...)

    Examples
    --------
    >>> import numpy as np
    >>> from sksvi.families.implicit import gamma_nodes
    >>> log_g, weight = gamma_nodes(np.array([0.01, 3.0]))
    >>> (weight * np.exp(log_g)).sum(0).round(9)
    array([0.01, 3.  ])
    """
    shape = np.asarray(shape, float)
    least = (np.log(BEYOND) + gammaln(shape + 1.0)) / shape
    usual = np.log(np.maximum(gammaincinv(shape, BEYOND), np.finfo(float).tiny))
    low, high = np.where(least < SMALL_LOG, least, usual), np.log(gammainccinv(shape, BEYOND))
    first, last = (-np.log(wrightomega(-end)) for end in (low, high))
    t = first + (last - first) * np.linspace(0.0, 1.0, GAMMA_NODES).reshape(-1, *[1] * shape.ndim)
    left = np.exp(-t)
    log_g = t - left
    log_weight = shape * log_g - np.exp(log_g) + np.log1p(left)
    weight = np.exp(log_weight - log_weight.max(0))
    return log_g, weight / weight.sum(0)


def moments_with_slope(shape: Array, log_draw: Array, scaled: Array, weight: Array) -> Array:
    """Of draws g ~ Gamma(shape, 1), numbers s at them, with p = ∂ log g / ∂a: E s, E g, Cov(s, p), Cov(g, p).

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
