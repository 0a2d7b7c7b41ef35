"""What the data say of one effect: its posterior under a weak prior of its own, that of the others as it was learned.

A prior that is learned for prediction shrinks each effect towards what effects are on average. A row of a table answers
for one: there its prior is replaced by a weak one. With S the covariance under q, Δ the precisions of the prior that q
has and W those of the weak one, for a set J of effects

    L = S_JJ⁻¹ - Δ_J + W_J,    mean = L⁻¹ S_JJ⁻¹ m_J,    covariance = L⁻¹,

exact for a Gaussian likelihood at its noise, of first order through the messages of q otherwise. What q knows beyond
its prior, S_JJ⁻¹ - Δ_J, is at least nothing: its eigenvalues are floored at 0.
"""

from __future__ import annotations

import numpy as np

Array = np.ndarray


def own_effects(mean: Array, variance: Array, precision: Array, own: Array) -> tuple[Array, Array]:
    """Mean and variance of every effect, each under a prior of its own.

    Parameters
    ----------
    mean, variance : ndarray of shape (..., D)
        Under q.
    precision, own : ndarray of shape (D,)
        Of the prior that q has, and of the weak one.

    Examples
    --------
    >>> import numpy as np
    >>> from sksvi.models.linear.own_prior import own_effects
    >>> mean, variance = own_effects(np.array([0.5]), np.array([0.5]), np.array([1.0]), np.array([0.0]))
    >>> mean, variance
    (array([1.]), array([1.]))
    """
    information = np.maximum(1.0 / variance - precision, 0.0)
    total = information + own
    return mean / (variance * total), 1.0 / total


def own_sets(mean: Array, cov: Array, precision: Array, own: Array) -> tuple[Array, Array]:
    """Mean and covariance of sets of effects, each set under a prior of its own.

    Parameters
    ----------
    mean : ndarray of shape (..., J)
        Under q.
    cov : ndarray of shape (..., J, J)
    precision, own : ndarray of shape (..., J)
        Of the prior that q has, and of the weak one.
    """
    unit = np.sqrt(np.diagonal(cov, axis1=-2, axis2=-1))
    inverse = np.linalg.inv(cov / (unit[..., :, None] * unit[..., None, :]))
    square = np.square(unit)
    information = inverse - _diagonal(precision * square)
    values, vectors = np.linalg.eigh(0.5 * (information + np.swapaxes(information, -1, -2)))
    information = (vectors * np.maximum(values, 0.0)[..., None, :]) @ np.swapaxes(vectors, -1, -2)
    after = np.linalg.inv(information + _diagonal(own * square))
    moved = after @ (inverse @ (mean / unit)[..., None])
    return unit * moved[..., 0], after * (unit[..., :, None] * unit[..., None, :])


def _diagonal(values: Array) -> Array:
    """Diagonal matrices (..., J, J)."""
    return values[..., :, None] * np.eye(values.shape[-1])
