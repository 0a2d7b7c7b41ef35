"""log E p(y | f) under f ~ N(m, v), however narrow p(y | f) is against the Gaussian.

The nodes sit around the mode of the tilted density p(y | f) N(f | m, v): adaptive Gauss-Hermite where the tilted
density is narrow against the likelihood's width and so nearly Gaussian, else Gauss-Legendre panels graded towards the
mode and the places where the likelihood bends. All in log space: the integral itself may underflow.
"""

from __future__ import annotations

import numpy as np

from sksvi.integrals import quadrature
from sksvi.likelihoods.base import Likelihood

Array = np.ndarray

_ADAPTIVE_NODES = 24
_NARROW = 0.4  # tilted sd / width up to which adaptive Gauss-Hermite has an error below 1e-7 (tested)
_FAR_IN_SD = 30.0
_CHUNK = 65536


def log_predictive(likelihood: Likelihood, y: Array, m: Array, v: Array) -> Array:
    """Log density of y with f integrated out, shape (n,), in nats.

    Parameters
    ----------
    likelihood : Likelihood
    y : ndarray of shape (n,) or (n, 2)
    m, v : ndarray of shape (n,), softmax (n, K)
        Mean and variance of f.
    """
    m, v = np.asarray(m), np.asarray(v)
    closed = likelihood.log_predictive(y, m, v)
    if closed is not None:
        return closed
    kind = m.dtype
    y, m, v = np.asarray(y), m.astype(np.float64), v.astype(np.float64)
    sd = quadrature.standard_deviation(v)
    if not likelihood.traits.log_concave:
        return _panels(likelihood, y, m, sd, np.zeros_like(m), np.ones_like(m)).astype(kind, copy=False)
    u, rho = tilted_mode(likelihood, y, m, sd)
    narrow = sd * rho <= _NARROW * likelihood.width
    out = np.empty_like(m)
    for rule, rows in ((_adaptive, np.flatnonzero(narrow)), (_panels, np.flatnonzero(~narrow))):
        if len(rows):
            out[rows] = rule(likelihood, y[rows], m[rows], sd[rows], u[rows], rho[rows])
    return out.astype(kind, copy=False)


def tilted_mode(likelihood: Likelihood, y: Array, m: Array, sd: Array) -> tuple[Array, Array]:
    """Mode u and scale rho of the tilted density in u = (f - m) / sd, for a likelihood that is log-concave in f."""

    def slope_and_curve(u: Array) -> tuple[Array, Array]:
        _, d1, d2 = likelihood.derivatives(y, m + sd * u)
        return sd * d1 - u, sd * sd * d2 - 1.0

    # a rate that saturates times a large variance may overflow on the way to the mode, never at it
    with np.errstate(over="ignore", invalid="ignore"):
        slope, _ = slope_and_curve(np.zeros_like(m))
        # l' falls, so the mode lies between 0 and sd l'(m)
        low, high = np.minimum(slope, 0.0), np.maximum(slope, 0.0)
        centre = likelihood.centre(y)
        gap = (centre if centre.ndim == 1 else centre.mean(axis=0)) - m
        u = np.clip(np.divide(gap, sd, out=np.zeros_like(m), where=sd > 0), low, high)
        done = np.zeros(len(m), dtype=bool)
        for step in range(200):
            slope, curve = slope_and_curve(u)
            low, high = np.where(slope > 0, u, low), np.where(slope > 0, high, u)
            newton = u - slope / curve
            # a bisection now and then bounds the number of steps where Newton crawls
            outside = ~((newton >= low) & (newton <= high))
            new = np.where(outside | (step % 4 == 3), 0.5 * low + 0.5 * high, newton)
            done |= (np.abs(slope / curve) <= 1e-7) | (high - low <= 1e-9 * (1.0 + np.abs(u)))
            if done.all():
                break
            u = np.where(done, u, new)
        _, curve = slope_and_curve(u)
    return u, 1.0 / np.sqrt(-curve)


def _adaptive(likelihood: Likelihood, y: Array, m: Array, sd: Array, u: Array, rho: Array) -> Array:
    nodes, weights = quadrature.hermite(_ADAPTIVE_NODES)
    out = np.empty_like(m)
    for at in _chunks(len(m), len(nodes)):
        standard = u[at] + rho[at] * nodes[:, None]
        exponent = likelihood.log_prob(y[at], m[at] + sd[at] * standard)
        exponent += 0.5 * (nodes[:, None] ** 2 - standard**2) + np.log(weights)[:, None]
        out[at] = _log_sum_exp(exponent) + np.log(rho[at])
    return out


def _panels(likelihood: Likelihood, y: Array, m: Array, sd: Array, u: Array, rho: Array) -> Array:
    width = likelihood.width if likelihood.traits.log_concave else float(likelihood.cdf_width(y)[0])
    bends = np.atleast_2d(likelihood.centre(y))
    codes = np.ceil(np.log2(np.maximum(np.maximum(sd / width, 1.0 / rho), 4.0))).astype(np.intp)
    order, weights = quadrature.legendre(12)
    out = np.empty_like(m)
    for code in np.unique(codes):
        rows = np.flatnonzero(codes == code)
        levels = quadrature.panel_levels(2.0 ** int(code))
        size = 12 * (2 * (2 * levels + 1) + 50)
        for block in _chunks(len(rows), size):
            at = rows[block]
            edges = _edges(m[at], sd[at], u[at], rho[at], width, bends[:, at], levels, likelihood.traits.log_concave)
            lengths = np.diff(edges, axis=0)
            standard = (edges[:-1, None] + lengths[:, None] * order[:, None]).reshape(-1, len(at))
            with np.errstate(divide="ignore"):
                log_weights = np.log((lengths[:, None] * weights[:, None]).reshape(standard.shape))
            exponent = likelihood.log_prob(y[at], m[at] + sd[at] * standard) - 0.5 * standard**2 + log_weights
            out[at] = _log_sum_exp(exponent) - 0.9189385332046727
    return out


def _edges(
    m: Array, sd: Array, u: Array, rho: Array, width: float, bends: Array, levels: int, log_concave: bool
) -> Array:
    """Sorted edges of the panels in u = (f - m) / sd, (edges, rows)."""
    bends = (bends - m) / np.maximum(sd, 1e-300)
    if log_concave:
        own = u + 1.3 * np.arange(-5, 6)[:, None]
    else:
        # mass may sit anywhere between the mean and an outlier
        other = np.clip(bends[0], -_FAR_IN_SD, _FAR_IN_SD)
        low, high = np.minimum(other, 0.0) - 6.5, np.maximum(other, 0.0) + 6.5
        own = low + (high - low) * np.linspace(0.0, 1.0, 40)[:, None]
    reach = 4.0 * 2.5 ** np.arange(levels)
    graded = np.concatenate([-reach[::-1], [0.0], reach])[:, None]
    around = [u + 0.5 * rho * graded]
    around += [bend + (width / np.maximum(sd, 1e-300)) * graded for bend in bends]
    return np.sort(np.concatenate([own, *(np.clip(part, own[0], own[-1]) for part in around)]), axis=0)


def _chunks(n: int, size: int) -> list[slice]:
    step = max(2, _CHUNK // size)
    return [slice(start, min(start + step, n)) for start in range(0, n, step)]


def _log_sum_exp(exponent: Array) -> Array:
    """log Σ exp over the first axis, summed in its order for every column."""
    top = exponent.max(axis=0)
    terms = np.exp(exponent - top)
    if terms.shape[1] == 1:
        terms = np.repeat(terms, 2, axis=1)  # a single column would be summed in another order
    return top + np.log(np.einsum("kn->n", terms)[: len(top)])
