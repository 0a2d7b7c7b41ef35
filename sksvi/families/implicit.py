"""How a gamma or Dirichlet draw moves with its parameter at a fixed uniform number (equations.md 8)."""

from __future__ import annotations

import numpy as np

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
    return implicit_loops.series(a.ravel(), x.ravel(), LARGE_SHAPE).reshape(a.shape)


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
