"""The marginal phi(u, w2) = E p(y | f) under f ~ N(u, w2): log phi, r1 = phi'/phi and r2 = phi''/phi - r1^2 in u.

For many rows and several u of each row at once, in logarithms and without cancellation whichever of p(y | f) and
N(f | u, w2) is the narrower factor. A row's nodes depend on that row alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sksvi.integrals.rayleigh import write
from sksvi.likelihoods.base import Likelihood
from sksvi.likelihoods.traits import ScaleMixture

Array = Any

_REACH = 6.6  # in sd of f given u
_DROP = 21.8  # nats below the mode at which the tilted density is cut: 6.6^2 / 2
_SIZES = np.unique(np.ceil(8.0 * 1.2 ** np.arange(80)).astype(np.intp))
_CHUNK = 16384
_IN_SD = 0.8  # step of the grid in sd of the tilted density
_FAR = 50.0  # widths
_HALF_LOG_2PI = 0.9189385332046727


def log_marginal(
    likelihood: Likelihood, y: Array, u: Array, w2: Array | float, parameters: bool = False
) -> list[Array]:
    """log phi, r1, r2 at u; or the derivatives of log phi in the likelihood's learned parameters.

    Parameters
    ----------
    likelihood : Likelihood
    y : ndarray of shape (n,) or (n, 2)
    u : ndarray of shape (J, n)
        Means of f, increasing along the first axis.
    w2 : float or ndarray of shape (n,)
        Variance of f given u, > 0.
    parameters : bool, default=False

    Returns
    -------
    list of ndarray of shape (J, n), for parameters (P, J, n) and (P, P, J, n)
    """
    w2 = np.broadcast_to(w2, u.shape[1:])
    if likelihood.scale_mixture is not None:
        return _mixture(likelihood.scale_mixture, y, u, w2, parameters)
    if not likelihood.traits.log_concave:
        raise ValueError(
            f"bound='optimal' needs a likelihood that is log-concave in f or has a scale_mixture, and "
            f"{type(likelihood).__name__} is neither: choose bound='simple' or 'mean-field'."
        )
    out: list[Array] = []
    root, count = np.sqrt(w2), len(u)
    # one grid of f serves all u of a row that lie within a few sd of f given u; else each has its own
    shared = u[-1] - u[0] <= 6.0 * root
    for rows in (np.flatnonzero(shared), np.flatnonzero(~shared)):
        if not len(rows):
            continue
        k = 1 if shared[rows[0]] else count
        repeated = np.tile(y[rows], (k, *[1] * (y.ndim - 1)))
        parts = _tilted(likelihood, repeated, u[:, rows].reshape(count // k, -1), np.tile(w2[rows], k), parameters)
        write(out, [part.reshape(*part.shape[:-2], count, len(rows)) for part in parts], rows, u.shape[1])
    return out


def _tilted(likelihood: Likelihood, y: Array, u: Array, w2: Array, parameters: bool) -> list[Array]:
    """`log_marginal` for a log-concave likelihood by the trapezoidal rule, one grid of f for the u of each column."""
    n, root = u.shape[1], np.sqrt(w2)
    low, high, size, narrow = _grid(likelihood, y, u, root)
    out: list[Array] = []
    codes = 2 * np.searchsorted(_SIZES, size) + narrow
    for code in np.unique(codes):
        count = int(_SIZES[code // 2])
        for at in _chunks(np.flatnonzero(codes == code), count * len(u)):
            step = (high[at] - low[at]) / count
            f = low[at] + step * np.arange(count + 1)[:, None]
            terms = likelihood.derivatives(y[at], f)
            # log N(f | u, w2) as a parabola about the middle u and what is linear in f: one product per node and u
            middle, centre = u[len(u) // 2, at], f[count // 2]
            shift, x = (u[:, at] - middle) / w2[at], f - centre
            base = terms[0] - (0.5 / w2[at]) * np.square(f - middle)
            top = base.max(axis=0)
            base -= top
            p = x[:, None] * shift
            p += base[:, None]
            np.exp(p, out=p)
            total = p.sum(axis=0)
            if parameters:
                p /= total
                write(out, louis(*derivatives_in_parameters(likelihood, y[at], f[:, None]), p), at, n)
                continue
            value = (
                top
                + shift * (centre - 0.5 * middle - 0.5 * u[:, at])
                + np.log(total * (step / root[at]))
                - _HALF_LOG_2PI
            )
            if code % 2:  # p(y | f) is the narrower factor: moments of f do not cancel
                mean, square = _moments(p, x, x * x, total)
                r1 = (centre + mean - u[:, at]) / w2[at]
                r2 = ((square - mean * mean) / w2[at] - 1.0) / w2[at]
            else:
                slope = terms[1] - terms[1][count // 2]
                weighed = p.any(axis=1)  # where p is zero a slope may be no number
                slope, curve = np.where(weighed, slope, 0.0), np.where(weighed, terms[2], 0.0)
                mean, square = _moments(p, slope, curve + slope * slope, total)
                r1, r2 = mean + terms[1][count // 2], square - mean * mean
            write(out, [value, r1, r2], at, n)
    return out


def _moments(p: Array, first: Array, second: Array, total: Array) -> tuple[Array, Array]:
    """Means of two functions of f, (L, r), under the weights p, (L, J, r), that sum to `total`."""
    return np.einsum("ljn,ln->jn", p, first) / total, np.einsum("ljn,ln->jn", p, second) / total


def derivatives_in_parameters(likelihood: Likelihood, y: Array, f: Array) -> tuple[Array, Array]:
    """``likelihood.d_parameters`` at f of any leading axes, y (n,)."""
    return likelihood.d_parameters(np.broadcast_to(y, f.shape), f)


def louis(g: Array, h: Array, p: Array) -> tuple[Array, Array]:
    """Derivatives of log E p from those of log p, (P, L, ...) and (P, P, L, ...), tilted probabilities p (L, ...)."""
    first = (p * g).sum(axis=1)
    spread = g - first[:, None]
    second = (p * (h + spread[:, None] * spread)).sum(axis=2)
    return first, second


def _mixture(mixture: ScaleMixture, y: Array, u: Array, w2: Array, parameters: bool) -> list[Array]:
    """A mixture of Gaussians over their variance: log phi has closed form given that variance, unit exp(x)."""
    low, high = mixture.reach(np.maximum(np.square(y - u).max(axis=0), w2))
    codes = np.searchsorted(_SIZES, np.ceil((high - low) / mixture.step))
    out: list[Array] = []
    for code in np.unique(codes):
        count = int(_SIZES[code])
        for at in _chunks(np.flatnonzero(codes == code), count * len(u)):
            step = (high[at] - low) / count
            x = low + step * np.arange(count + 1)[:, None]
            total = w2[at] + mixture.unit * np.exp(x)
            square = np.square(y[at] - u[:, at])
            inverse = 1.0 / total
            base = mixture.log_density(x) - 0.5 * np.log(total)
            p = (-0.5 * inverse)[:, None] * square
            p += base[:, None]
            top = p.max(axis=0)
            p -= top
            np.exp(p, out=p)
            mass = p.sum(axis=0)
            if parameters:
                p /= mass
                write(out, louis(*mixture.d_parameters(x[:, None]), p), at, u.shape[1])
                continue
            value = top + np.log(mass * step) - mixture.log_constant - _HALF_LOG_2PI
            mean, second = _moments(p, inverse, inverse * inverse, mass)
            write(out, [value, (y[at] - u[:, at]) * mean, square * (second - mean * mean) - mean], at, u.shape[1])
    return out


def _grid(likelihood: Likelihood, y: Array, u: Array, root: Array) -> tuple[Array, Array, Array, Array]:
    """Ends of each column's grid, its number of steps, and whether p(y | f) is narrow against the Gaussian.

    The tilted densities for the first and the last u enclose those between: stochastically they increase with u.
    """
    n = u.shape[1]
    ends = np.concatenate([u[0], u[-1]])
    both, spread = np.concatenate([y, y]), np.concatenate([root, root])
    if len(u) > 1:
        mode, rho = _modes(likelihood, both, ends, np.square(spread))
    else:  # both ends are one
        mode, rho = np.tile(_modes(likelihood, y, u[0], np.square(root)), 2)
    sign = np.repeat([-1.0, 1.0], n)
    # by concavity the density has fallen far enough at 6.6 sd of the Gaussian, often long before
    most = _REACH * spread
    reach = np.minimum(1.2 * _REACH * rho, most)
    rows = np.flatnonzero(reach < 0.8 * most)
    reach[reach >= 0.8 * most] = most[reach >= 0.8 * most]
    if len(rows):
        peak = likelihood.log_prob(both[rows], mode[rows]) - 0.5 * ((mode[rows] - ends[rows]) / spread[rows]) ** 2
    while len(rows):
        f = mode[rows] + sign[rows] * reach[rows]
        fall = peak - likelihood.log_prob(both[rows], f) + 0.5 * ((f - ends[rows]) / spread[rows]) ** 2
        reach[rows] = np.where(fall < _DROP, np.minimum(1.4 * reach[rows], most[rows]), reach[rows])
        short = (fall < _DROP) & (reach[rows] < most[rows])
        rows, peak = rows[short], peak[short]
    low, high = mode[:n] - reach[:n], mode[n:] + reach[n:]
    between = mode[:n] + (mode[n:] - mode[:n]) * np.array([[1.0 / 3.0], [2.0 / 3.0]])
    bend = np.minimum(likelihood.d2(y, between).min(axis=0), 0.0)
    sharp = np.minimum(1.0 / np.sqrt(1.0 / root**2 - bend), np.minimum(rho[:n], rho[n:]))
    size = np.ceil(
        (high - low) / np.minimum(_IN_SD * sharp, (0.75 if likelihood.traits.poles_only else 0.5) * likelihood.width)
    )
    return low, high, size, np.maximum(rho[:n], rho[n:]) < 0.5 * root


def _modes(likelihood: Likelihood, y: Array, u: Array, w2: Array) -> tuple[Array, Array]:
    """Mode of p(y | f) N(f | u, w2), (n,), to a few per cent of its sd, and that sd at the mode."""
    _, slope, curve = likelihood.derivatives(y, u)
    # l' falls, so the mode lies between u and u + w2 l'(u)
    low, high = u + w2 * np.minimum(slope, 0.0), u + w2 * np.maximum(slope, 0.0)
    f = u + slope / (1.0 / w2 - curve)
    centre = likelihood.centre(y)
    centre = centre if centre.ndim == 1 else centre.mean(axis=0)
    # where Newton from u would pass the place where p(y | f) bends, or has far to go, look there first
    passes = (f - centre) * (u - centre) < 0
    f = np.where(passes | (high - low > _FAR * likelihood.width), np.clip(centre, low, high), f)
    rho = np.empty_like(u)
    rows = np.arange(len(u))
    for step in range(200):
        _, slope, curve = likelihood.derivatives(y[rows], f[rows])
        slope = slope - (f[rows] - u[rows]) / w2[rows]
        precision = 1.0 / w2[rows] - curve
        rho[rows] = 1.0 / np.sqrt(precision)
        low[rows] = np.where(slope > 0, f[rows], low[rows])
        high[rows] = np.where(slope > 0, high[rows], f[rows])
        new = f[rows] + slope / precision
        # a bisection now and then bounds the number of steps where Newton crawls
        halve = ~((new >= low[rows]) & (new <= high[rows])) | (step % 4 == 3)
        close = np.abs(slope) * rho[rows] <= 0.05
        new = np.where(halve & ~close, 0.5 * low[rows] + 0.5 * high[rows], new)
        f[rows] = new
        rows = rows[~close & (high[rows] - low[rows] > 1e-9 * (1.0 + np.abs(new)))]
        if not len(rows):
            break
    return f, rho


def _chunks(rows: Array, size: int) -> list[Array]:
    """Index arrays of at least two columns each: a single column would be summed in another order."""
    width = max(2, _CHUNK // size)
    parts = [rows[start : start + width] for start in range(0, len(rows), width)]
    return [np.repeat(part, 2) if len(part) == 1 else part for part in parts]
