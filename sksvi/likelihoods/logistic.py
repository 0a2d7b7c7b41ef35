"""Expected logistic log likelihoods: s log sigmoid(f) + r log sigmoid(-f) under f ~ N(m, v), row by row.

Labels, trials and negative binomial counts are of this form. The trapezoidal rule has its nodes at multiples of a step
h that rows of like deviation share, so that the five functions stand in a table and a row costs two multiplications per
node for its Gaussian weights. Its relative error is exp(-2 π² / h + π² / 2v) by the poles at ±iπ, and exp(-2 π² v / h²)
by the weights: with h at most 0.8 and sd / 1.4 below 1e-7. Where q(f) is wide, log sigmoid is a kink, which has a
closed form, and what is beyond it, which ends soon. Where it is narrow, Taylor's series about its mean ends soon.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from sksvi.integrals.quadrature import HALF_RANGE, expect, standard_deviation
from sksvi.likelihoods.traits import log_sigmoid_terms

Array = np.ndarray

#: Largest step, how often it is halved, and least sd in steps.
STEP, HALVINGS, LEAST = 0.8, 2, 1.4
#: Where tables end: that of the largest step serves wide q(f).
REACH, FARTHEST = 64.0, 512.0
#: From which sd on the kink is integrated in closed form, and where what is beyond it ends.
WIDE, END = 24.0, 40.0


class Tables(NamedTuple):
    """steps (L,); centres, reaches (L,): row of f = 0, and rows on each side of it. values (N, 5)."""

    steps: Array
    centres: Array
    reaches: Array
    values: Array


@lru_cache(maxsize=1)
def tables() -> Tables:
    """log sigmoid(f), log sigmoid(-f), sigmoid(-f), sigmoid(f) and their product at the nodes of every step."""
    steps = STEP / 2.0 ** np.arange(HALVINGS + 1)
    reaches = (np.where(steps == STEP, FARTHEST, REACH) / steps).astype(np.intp)
    centres = np.cumsum(2 * reaches + 1) - reaches - 1
    values = []
    for step, reach in zip(steps, reaches, strict=True):
        f = step * np.arange(-reach, reach + 1)
        up, down = log_sigmoid_terms(f), log_sigmoid_terms(-f)
        values.append(np.stack([up[0], down[0], up[1], down[1], -up[2]], axis=1))
    return Tables(steps, centres, reaches, np.concatenate(values))


def expected_outcomes(up: Array, down: Array, m: Array, v: Array) -> tuple[Array, Array, Array]:
    """E of up log sigmoid(f) + down log sigmoid(-f) under f ~ N(m, v), and its derivatives in m and v.

    Parameters
    ----------
    up, down, m, v : ndarray of shape (n,)
        Weights of the two outcomes, mean and variance of f.

    Returns
    -------
    value, dm, dv : ndarray of shape (n,)
        Value in nats.

    Raises
    ------
    ValueError
        For a variance that is negative or no finite number.

    References
    ----------
    L. N. Trefethen and J. A. C. Weideman, The exponentially convergent trapezoidal rule, SIAM Review 2014.
    """
    from sksvi.likelihoods.logistic_loops import by_table

    m_, sd, up_, down_ = (np.ascontiguousarray(part, float) for part in (m, standard_deviation(v), up, down))
    found, beyond = np.empty((3, len(m_))), np.empty(len(m_), np.intp)
    small = np.exp(-np.abs(m_))
    n = by_table(
        up_, down_, m_, sd, small, np.log1p(small), *tables(), LEAST, HALF_RANGE, WIDE, int(END / STEP), found, beyond
    )
    if n:
        rows = beyond[:n]
        a, b = up_[rows], down_[rows]

        def terms(f: Array, at: Any) -> tuple[Array, Array, Array]:
            (value, slope, curve), (other, back, _) = log_sigmoid_terms(f), log_sigmoid_terms(-f)
            return a[at] * value + b[at] * other, a[at] * slope - b[at] * back, (a[at] + b[at]) * curve

        found[:, rows] = expect(terms, m_[rows], np.square(sd[rows]))
        found[2, rows] *= 0.5
    value, dm, dv = found.astype(np.result_type(m), copy=False)
    return value, dm, dv
