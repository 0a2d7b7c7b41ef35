"""The log evidence of scales that each column has for itself, which the fit holds at their best values.

With the other scales at theirs, the data say of coefficient w_j a Gaussian factor of precision P_j and linear term b_j,
and log ∫ N(w_j | 0, exp(-h)) exp(b_j w_j - P_j w_j² / 2) dw_j = ½ log(δ / (δ + P_j)) + ½ b_j² / (δ + P_j), δ = exp(h)
(Tipping & Faul 2003, eq. 20). Integrated over a prior of h this says what the choice of δ_j costs, a column at a time.
"""

from __future__ import annotations

import numpy as np

from sksvi.models.linear.scales import log_half_cauchy

Array = np.ndarray

#: Scale of the half-Cauchy prior of the deviation of f that a column makes, in units of f, over √D: measured
#: (`benchmarks glm.ranks`).
SCALE = 0.3
#: Logarithms of a scale between which the prior has all of its mass but a ten thousandth, and their step.
REACH, STEP = 9.5, 0.25


def integrated_gain(h: Array, mean: Array, variance: Array, unit: float) -> float:
    """Log of the integral over the columns' scales, over the value at those of the fit, nats.

    Parameters
    ----------
    h : ndarray of shape (D,)
        Log precisions of the fit, of coefficients on the spread of their columns.
    mean, variance : ndarray of shape (K, D)
        Of these coefficients under q, for each latent.
    unit : float
        Unit of f.

    Returns
    -------
    float
        Below 0 where h is the best: what an average over the prior loses to it.

    Examples
    --------
    >>> import numpy as np
    >>> from sksvi.models.linear.column_evidence import integrated_gain
    >>> h, information = np.full(1, 20.0), 50.0  # of a column that the fit has no use for
    >>> variance = np.full((1, 1), 1.0 / (np.exp(20.0) + information))
    >>> print(round(integrated_gain(h, np.zeros((1, 1)), variance, 1.0), 2))
    -1.11
    """
    information, linear = np.maximum(1.0 / variance - np.exp(h), 0.0), mean / variance

    def value(at: Array) -> Array:
        precision = np.exp(at) + information
        return 0.5 * np.sum(at - np.log(precision) + np.square(linear) / precision, axis=0)

    # A standard deviation of a column, half of its spread, gives f this deviation under the median of the prior.
    middle = np.log(2.0 * unit * SCALE / np.sqrt(len(h)))
    moves = np.arange(-REACH, REACH + STEP / 2.0, STEP)
    weight = np.exp(log_half_cauchy(np.exp(2.0 * moves)))
    fitted, total = value(h), np.full(len(h), -np.inf)
    for move, share in zip(moves, weight / weight.sum(), strict=True):
        total = np.logaddexp(total, np.log(share) + value(np.full(len(h), -2.0 * (middle + move))))
    return float(np.sum(total - fitted))
