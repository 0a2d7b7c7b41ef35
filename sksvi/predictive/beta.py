"""Quantiles of Beta distributions of any size, where SciPy's have an answer and where they have none."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import betaincinv, gammainccinv, gammaincinv, ndtri

Array = np.ndarray

#: Shapes from which on the distribution is normal, its skewness below 1e-4 of a standard deviation.
NORMAL = 1e8
#: Shape beside which the lesser one has a Gamma distribution of its own, to a billionth.
GAMMA = 1e17


def beta_quantiles(a: Any, b: Any, p: float) -> Array:
    """Quantile p of Beta(a, b), elementwise; SciPy's is NaN at some pairs of 1e16 and more.

    Parameters
    ----------
    a, b : array-like, broadcast
        Shapes, positive.
    p : float
        Probability in (0, 1).

    Returns
    -------
    ndarray
        In [0, 1], of the shape that a and b have together.

    Examples
    --------
    >>> from sksvi.predictive.beta import beta_quantiles
    >>> print(beta_quantiles(1.0, 1.0, 0.25).round(3), beta_quantiles(1e18, 3e18, 0.5).round(3))
    0.25 0.25
    """
    a, b = np.broadcast_arrays(np.asarray(a, float), np.asarray(b, float))
    size = a + b
    out = np.asarray(a / size + ndtri(p) * np.sqrt(a / size) * np.sqrt(b / size) / np.sqrt(size))
    own = np.minimum(a, b) <= NORMAL
    low, high, beside = own & (b > GAMMA), own & (a > GAMMA), own & (np.maximum(a, b) <= GAMMA)
    out[low] = gammaincinv(a[low], p) / size[low]
    out[high] = 1.0 - gammainccinv(b[high], p) / size[high]
    out[beside] = betaincinv(a[beside], b[beside], p)
    return out
