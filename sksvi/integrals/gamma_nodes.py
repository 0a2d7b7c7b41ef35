"""Nodes of many independent gamma variables at once: a Latin hypercube of the means of equal strata.

The unit interval is cut into S strata, and node s of a Gamma(a, 1) variable is its mean within stratum s, a smooth
function of a. Every variable runs through its nodes in an order of its own, so that S points stand for the joint
distribution of any number of variables. E x is exact whatever a is; a function of one variable has the error of the
strata, not of S draws. What is between variables remains random, and does so in the same way for every a: the mean of a
function over the points is smooth in all shapes, with an exact derivative.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from scipy.special import gammainc, gammaincinv, ndtri

Array = np.ndarray

#: Shapes between which nodes are interpolated, and knots of that; beyond them formulas hold.
LEAST_SHAPE, LARGEST_SHAPE, KNOTS = 1e-3, 1e4, 400
#: Stands for smaller nodes, whose logarithm would be -inf.
TINY = 1e-300


def orders(n_nodes: int, n: int, seed: int) -> Array:
    """In which order each of n variables runs through its nodes, (S, n)."""
    return np.argsort(np.random.default_rng([seed, n_nodes, 7]).random((n_nodes, n)), axis=0)


def nodes(shape: Array, order: Array) -> tuple[Array, Array]:
    """Nodes of Gamma(shape, 1) and their derivatives in the shape.

    Parameters
    ----------
    shape : ndarray of shape (n,)
    order : ndarray of shape (S, n)
        Of `orders`.

    Returns
    -------
    values, slopes : ndarrays of shape (S, n)

    Examples
    --------
    >>> import numpy as np
    >>> from sksvi.integrals.gamma_nodes import nodes, orders
    >>> values, slopes = nodes(np.array([0.3, 20.0]), orders(8, 2, seed=0))
    >>> values.mean(0).round(6), slopes.mean(0).round(6)
    (array([ 0.3, 20. ]), array([1., 1.]))
    """
    values, slopes = (np.empty((len(shape), len(order))) for _ in range(2))
    spline, slope, normal = _strata(len(order))
    large = shape > LARGEST_SHAPE
    if large.any():
        values[large], slopes[large] = _cornish_fisher(shape[large, None], normal)
    if not large.all():
        own = shape[~large, None]
        within = np.maximum(own, LEAST_SHAPE)
        at = np.log(within[:, 0])
        found = np.exp(spline(at)) * (own / within)  # below the table all but the last node vanish, in proportion
        values[~large] = found
        slopes[~large] = np.where(own < LEAST_SHAPE, found / own, found * slope(at) / own)
    return np.take_along_axis(values.T, order, 0), np.take_along_axis(slopes.T, order, 0)


@lru_cache(maxsize=8)
def _strata(n_nodes: int) -> tuple[Any, Any, Array]:
    """Splines of log node in log shape and their derivative, and E z, E z² and E z³ of a normal z in each stratum."""
    from scipy.interpolate import CubicSpline

    log_shape = np.linspace(np.log(LEAST_SHAPE), np.log(LARGEST_SHAPE), KNOTS)
    a, inner = np.exp(log_shape)[:, None], np.arange(1, n_nodes) / n_nodes
    edge = gammainc(a + 1.0, gammaincinv(a, inner))
    edges = np.concatenate([np.zeros_like(a), edge, np.ones_like(a)], 1)
    logs = np.log(np.maximum(n_nodes * a * np.diff(edges, axis=1), TINY))
    spline = CubicSpline(log_shape, logs, axis=0)
    return spline, spline.derivative(), _normal_strata(inner)


def _normal_strata(inner: Array) -> Array:
    """E z, E z² and E z³ of a standard normal z within each stratum, (3, S)."""
    z = ndtri(inner)
    density = np.exp(-0.5 * z**2) / np.sqrt(2.0 * np.pi)
    ends = [np.concatenate([[0.0], part, [0.0]]) for part in (density, z * density, (z**2 + 2.0) * density)]
    first, second, third = (-(len(inner) + 1) * np.diff(part) for part in ends)
    return np.stack([first, 1.0 + second, third])


def _cornish_fisher(a: Array, normal: Array) -> tuple[Array, Array]:
    """Nodes and slopes of large shapes, relative error a⁻² or so; their mean is a."""
    (z, z2, z3), root = normal, np.sqrt(a)
    third = (z3 - 7.0 * z) / 36.0
    return a + root * z + (z2 - 1.0) / 3.0 + third / root, 1.0 + 0.5 * z / root - 0.5 * third / (a * root)
