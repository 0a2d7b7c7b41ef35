"""How a gamma or Dirichlet draw moves with its parameter at a fixed uniform number (equations.md 8)."""

from __future__ import annotations

import numpy as np
from scipy.special import polygamma

Array = np.ndarray

#: Shape beyond which the Wilson-Hilferty cube root stands for the gamma quantile.
LARGE_SHAPE = 1e4


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
    large = a > LARGE_SHAPE
    out = implicit_loops.series(np.where(large, 1.0, a).ravel(), np.where(large, 0.0, x).ravel()).reshape(a.shape)
    if np.any(large):
        b, root = a[large], np.exp((x[large] - np.log(a[large])) / 3.0)
        z = 3.0 * np.sqrt(b) * (root - 1.0 + 1.0 / (9.0 * b))
        out[large] = 1.0 / b + 3.0 * (1.0 / (9.0 * b**2) - z / (6.0 * b**1.5)) / root
    return out


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
    draws = np.exp(log_gamma - log_gamma.max(-1, keepdims=True))
    beta = draws / draws.sum(-1, keepdims=True)
    pulled = log_slope(concentration, log_gamma) * (counts - beta * counts.sum(-1, keepdims=True))
    inverse = 1.0 / polygamma(1, concentration)
    c = polygamma(1, concentration.sum(-1, keepdims=True))
    q = pulled * inverse
    return q + inverse * (c * q.sum(-1, keepdims=True) / (1.0 - c * inverse.sum(-1, keepdims=True)))
