"""Quantiles and log densities of continuous distributions, many at once, where SciPy's have an answer and beyond.

Quantiles lie inside brackets that hold them; those of Beta distributions are of any size.

The log density is log E p(y | f) under f ~ N(m, v), however narrow p(y | f) is against the Gaussian. The nodes sit
around the mode of the tilted density p(y | f) N(f | m, v): adaptive Gauss-Hermite where the tilted density is narrow
against the likelihood's width and so nearly Gaussian, else Gauss-Legendre panels graded towards the mode and the places
where the likelihood bends. All in log space: the integral itself may underflow.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import betaincinv, gammainccinv, gammaincinv, ndtri

from sksvi.integrals import quadrature
from sksvi.likelihoods.base import Likelihood
from sksvi.likelihoods.count_quantiles import apart

Array = np.ndarray

# ---- quantiles of counts: the smallest one whose distribution function reaches a level
#: Where rates saturate, so that quantiles stay finite.
LARGEST_COUNT = 1e305
#: Most looks at the distribution function; a third of them halve a bracket, which 200 do not exhaust.
_LOOKS = 600

#: P(Y <= count) of the rows that are asked for.
Cdf = Callable[[Array, Array], Array]


def smallest_count(cdf: Cdf, level: float, guess: Array) -> Array:
    """Smallest count whose distribution function reaches `level`, one for each row.

    Parameters
    ----------
    cdf : callable
        Of counts and the indices of their rows.
    level : float
    guess : ndarray of shape (n,)
        A count of each row, near or far.
    """
    low, high, at_low, at_high = _bracket(cdf, level, guess)
    score, active = ndtri(level), np.flatnonzero(apart(low, high))
    for look in range(_LOOKS):
        if not len(active):
            break
        # the normal score of the distribution function is nearly linear in log y
        x_low, x_high = (ndtri(np.clip(p[active], 1e-300, 1 - 1e-16)) for p in (at_low, at_high))
        linear = (level - at_low[active]) / np.maximum(at_high[active] - at_low[active], 1e-300)
        share = np.where(x_high > x_low, (score - x_low) / np.maximum(x_high - x_low, 1e-300), linear)
        middle = _between(low[active], high[active], np.full_like(share, 0.5) if look % 3 == 2 else share)
        value = cdf(middle, active)
        up, down = value < level, value >= level
        low[active[up]], at_low[active[up]] = middle[up], value[up]
        high[active[down]], at_high[active[down]] = middle[down], value[down]
        active = active[apart(low[active], high[active])]
    return high


def _bracket(cdf: Cdf, level: float, guess: Array) -> tuple[Array, Array, Array, Array]:
    """Counts low < high, -1 among them, and the distribution function there: below `level`, and not below it."""
    rows, step = np.arange(len(guess)), np.ceil(0.02 * guess) + 1.0
    at_guess = cdf(guess, rows)
    enough_at_guess = at_guess >= level
    low, high = np.where(enough_at_guess, -1.0, guess), guess.copy()
    at_low, at_high = np.where(enough_at_guess, 0.0, at_guess), at_guess.copy()
    active, growth = rows[(enough_at_guess & (guess > 0)) | ~enough_at_guess], 1.0
    while len(active):
        # outwards by steps that grow ever faster: a guess may be hundreds of orders of magnitude away
        down = enough_at_guess[active]
        end = np.where(down, np.maximum(high[active] - step[active], -1.0), low[active] + step[active])
        end = np.minimum(end, LARGEST_COUNT)
        value = np.where(end < 0, 0.0, cdf(np.maximum(end, 0.0), active))
        enough = (end == LARGEST_COUNT) | ((end >= 0) & (value >= level))
        low[active[~enough]], at_low[active[~enough]] = end[~enough], value[~enough]
        high[active[enough]], at_high[active[enough]] = end[enough], value[enough]
        active, growth = active[np.where(down, enough, ~enough)], 4.0 * growth
        step[active] = np.minimum(growth * step[active], LARGEST_COUNT)
    return low, high, at_low, at_high


def _between(low: Array, high: Array, share: Array) -> Array:
    """A count inside a bracket, at a share of the way: in log y where the ends are factors apart, else in y."""
    a, b, share = np.log(low + 1.5), np.log(high + 1.5), np.clip(share, 0.0, 1.0)
    within_factor_two = high < 2.0 * low
    middle = np.floor(np.where(within_factor_two, low + (high - low) * share, np.exp(a + (b - a) * share) - 1.5))
    # beyond 2^53 the next float is no integer beside it
    most = np.minimum(high - 1.0, np.nextafter(high, low))
    return np.clip(middle, np.maximum(low + 1.0, np.nextafter(low, np.inf)), most)


# ---- quantiles of Beta distributions
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
    >>> from sksvi.predictive.quantiles import beta_quantiles
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


# ---- log densities
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
    width = np.broadcast_to(likelihood.width if likelihood.traits.log_concave else likelihood.row_width(y), len(m))
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
            edges = _edges(
                m[at], sd[at], u[at], rho[at], width[at], bends[:, at], levels, likelihood.traits.log_concave
            )
            lengths = np.diff(edges, axis=0)
            standard = (edges[:-1, None] + lengths[:, None] * order[:, None]).reshape(-1, len(at))
            with np.errstate(divide="ignore"):
                log_weights = np.log((lengths[:, None] * weights[:, None]).reshape(standard.shape))
            exponent = likelihood.log_prob(y[at], m[at] + sd[at] * standard) - 0.5 * standard**2 + log_weights
            out[at] = _log_sum_exp(exponent) - 0.9189385332046727
    return out


def _edges(
    m: Array, sd: Array, u: Array, rho: Array, width: Array, bends: Array, levels: int, log_concave: bool
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
