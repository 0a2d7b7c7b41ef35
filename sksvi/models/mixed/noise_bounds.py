"""A datum's share of the bounds of the mixed effects GLM: f | u ~ N(u, w2), u ~ N(m, v), w2 ~ Rayleigh(sigma).

Three bounds, each with its derivatives in m, in v and in the noise's moment g = E w2^2 = 2 sigma^2:
`optimal` averages log E p(y | f) over u and w2, `simple` averages log p(y | f) itself, `mean_field` has a Gaussian
q(f) of its own per datum.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from sksvi.algorithms.line_search import backtrack_plates
from sksvi.expectations import Expectation, GaussHermite, MonteCarlo
from sksvi.integrals import quadrature, rayleigh
from sksvi.likelihoods.base import Likelihood
from sksvi.models.mixed import noise_marginal

Array = np.ndarray
Terms = tuple[Array, Array, Array, Array]

_MEAN_INVERSE = 1.2533141373155001  # sqrt(pi / 2) = E w2 / sigma = sigma E[1 / w2]
_MEAN_LOG = 0.05796575782920621  # (log 2 - Euler's constant) / 2 = E log(w2 / sigma)
_LOG_2PI = 1.8378770664093453
_MOST_STEPS, _MOST_HALVINGS = 200, 27
_ABRUPT = 8.0  # nats


def optimal(
    likelihood: Likelihood, y: Array, m: Array, v: Array, sigma: float, expect: Expectation, rng: Any = None
) -> Terms:
    """E log E[p(y | f) | u, w2]: the best bound there is for a given q(w).

    With Monte Carlo the logarithm of an average of ``expect.n_inner`` samples is biased downwards, as in the paper.

    Parameters
    ----------
    likelihood : Likelihood
        With one latent, every parameter a number.
    y : ndarray of shape (n,) or (n, 2)
    m, v : ndarray of shape (n,)
        Mean and variance of u.
    sigma : float
        Scale of the Rayleigh distribution of w2.
    expect : Expectation
    rng : numpy.random.Generator, optional
        Needed by Monte Carlo only.

    Returns
    -------
    value, alpha, gamma, dnoise : ndarray of shape (n,)
        The term in nats and its derivatives in m, in v and in g.
    """
    y, m, v = prepared(y, m, v)
    if isinstance(expect, MonteCarlo):
        return _sampled_optimal(likelihood, y, m, v, sigma, expect, rng)

    if not len(m):
        return m, m, m, m
    changes, abrupt = _changes(likelihood, y, m, v)

    def scores(rows: Any, r: Array) -> list[Array]:
        value, r1, r2, square = _log_phi(likelihood, y[rows], m[rows], v[rows], sigma * r, expect)
        return [value, r1, 0.5 * r2, 0.125 * (r / sigma) * (r2 + square)]

    return tuple(rayleigh.over_noise(scores, changes, sigma, abrupt))


def optimal_at(likelihood: Likelihood, y: Array, m: Array, v: Array, w2: Array, expect: Expectation) -> Terms:
    """E log E[p(y | f) | u] at a given variance w2 > 0 of each row, (n,), and its derivatives in m, in v and in w2."""
    value, r1, r2, square = _log_phi(likelihood, y, m, v, w2, expect)
    return value, r1, 0.5 * r2, 0.5 * (r2 + square)


def local_moments_at(
    likelihood: Likelihood, y: Array, m: Array, v: Array, w2: Array, expect: Expectation
) -> tuple[Array, Array]:
    """E f and E f² given y at a given variance w2 of each row, (n,), averaged over u ~ N(m, v).

    Given u they are u + w2 r1 and, less the square of that, w2 + w2² r2 (Tweedie's formula); E u r1 = m E r1 + v E r2.
    """
    _, r1, r2, square = _log_phi(likelihood, y, m, v, w2, expect)
    return m + w2 * r1, w2 + np.square(w2) * (r2 + square) + np.square(m) + v + 2.0 * w2 * (m * r1 + v * r2)


def simple(
    likelihood: Likelihood, y: Array, m: Array, v: Array, sigma: float, expect: Expectation, rng: Any = None
) -> Terms:
    """E log p(y | f) under f ~ N(m, v + w2), averaged over w2; parameters and result as for `optimal`."""
    y, m, v = prepared(y, m, v)
    if isinstance(expect, MonteCarlo):
        value, slope, curve, noise = np.zeros((4, len(m)))
        for w2, z in _outer_draws(m, sigma, expect, rng):
            terms = likelihood.derivatives(y, m + np.sqrt(v + w2) * z)
            value += terms[0]
            slope += terms[1]
            curve += 0.5 * terms[2]
            noise += 0.125 * (w2 / sigma**2) * terms[2]
        return value / expect.n, slope / expect.n, curve / expect.n, noise / expect.n
    closed = None if isinstance(expect, GaussHermite) else _simple_given_rate(likelihood, y, m, v, sigma)
    if closed is not None:
        return closed

    def scores(rows: Any, r: Array) -> list[Array]:
        value, dm, dv = expect(likelihood, y[rows], m[rows], v[rows] + sigma * r)
        return [value, dm, dv, 0.25 * (r / sigma) * dv]

    return tuple(rayleigh.over_noise(scores, _changes_of_mean(likelihood, v), sigma))


def mean_field(
    likelihood: Likelihood, y: Array, m: Array, v: Array, sigma: float, expect: Expectation, rng: Any = None
) -> Terms:
    """E[log p(y | f) + log N(f | u, w2)] + entropy under the best Gaussian q(f) of its own; otherwise as `optimal`."""
    y, m, v = prepared(y, m, v)
    kappa = _MEAN_INVERSE / sigma
    b, s = _local(likelihood, y, m, kappa, expect, rng)
    square = (b - m) ** 2 + s + v
    # Monte Carlo: samples that q(f) was not fitted to
    value = expect.value(likelihood, y, b, s, rng) - 0.5 * (np.log(sigma) + _MEAN_LOG + _LOG_2PI + kappa * square)
    value += 0.5 * (np.log(s) + _LOG_2PI + 1.0)
    return value, kappa * (b - m), np.full_like(m, -0.5 * kappa), 0.125 * (kappa * square - 1.0) / sigma**2


def parameters(
    likelihood: Likelihood,
    y: Array,
    m: Array,
    v: Array,
    sigma: float,
    expect: Expectation,
    rng: Any = None,
    *,
    bound: str = "optimal",
) -> tuple[Array, Array]:
    """Derivatives of a datum's term in the likelihood's learned, unconstrained parameters: (n, P) and (n, P, P).

    ``bound`` is "optimal", "simple" or "mean-field"; q(f) of the last is held where it is best.
    """
    y, m, v = prepared(y, m, v)
    size = len(likelihood.unconstrained)
    if size == 0 or not len(m):
        return np.zeros((len(m), size)), np.zeros((len(m), size, size))
    if bound == "mean-field":
        b, s = _local(likelihood, y, m, _MEAN_INVERSE / sigma, expect, rng)
        return expect.parameters(likelihood, y, b, s, rng)
    if isinstance(expect, MonteCarlo):
        first, second = _sampled_parameters(likelihood, y, m, v, sigma, expect, rng, bound == "simple")
    elif bound == "simple":

        def of_mean(rows: Any, r: Array) -> list[Array]:
            g, h = expect.parameters(likelihood, y[rows], m[rows], v[rows] + sigma * r)
            return [np.moveaxis(g, 0, -1), np.moveaxis(h, 0, -1)]

        first, second = rayleigh.over_noise(of_mean, _changes_of_mean(likelihood, v), sigma)
    else:

        def of_log(rows: Any, r: Array) -> list[Array]:
            return _log_phi(likelihood, y[rows], m[rows], v[rows], sigma * r, expect, True)

        changes, abrupt = _changes(likelihood, y, m, v)
        first, second = rayleigh.over_noise(of_log, changes, sigma, abrupt)
    return np.moveaxis(first, -1, 0), np.moveaxis(second, -1, 0)


#: The bounds by the names that users know.
BOUNDS: dict[str, Callable[..., Terms]] = {"optimal": optimal, "simple": simple, "mean-field": mean_field}


def prepared(y: Array, m: Array, v: Array) -> tuple[Array, Array, Array]:
    """y, and m and v in double precision."""
    return np.asarray(y), np.asarray(m, dtype=np.float64), np.asarray(v, dtype=np.float64)


# ---- the integral over w2
def _changes_of_mean(likelihood: Likelihood, v: Array) -> Array:
    """One over the scale in w2 on which E log p(y | f) changes."""
    if likelihood.noise_variance is not None:
        return np.zeros_like(v)  # linear in w2
    return 1.0 / (likelihood.width**2 + v)


def _changes(likelihood: Likelihood, y: Array, m: Array, v: Array) -> tuple[Array, Array]:
    """One over the scale in w2 on which log E p(y | f) changes, and whether it does so abruptly.

    It does where p(y | f) is far higher elsewhere than where u may be: then f passes from u to there as w2 grows.
    """
    noise = likelihood.noise_variance
    if noise is not None:
        return np.full_like(m, 1.0 / noise), np.zeros(len(m), dtype=bool)
    if not likelihood.traits.log_concave:
        return 1.0 / np.square(likelihood.cdf_width(y)), np.ones(len(m), dtype=bool)
    sd = np.sqrt(v)
    # a rate exp(f) weighs u most about m + v
    f = np.stack([m - 2.5 * sd, m, m + (2.5 + likelihood.traits.exponential * sd) * sd])
    value, slope, curve = likelihood.derivatives(y, f)
    sharp = np.maximum(np.abs(curve), np.abs(slope) / likelihood.width).max(axis=0)
    best = likelihood.log_prob(y, np.atleast_2d(likelihood.centre(y))).max(axis=0)
    factor = 0.4 if likelihood.traits.poles_only else 1.0
    return factor * np.maximum(1.0 / likelihood.width**2, sharp), best - value.min(axis=0) > _ABRUPT


def _simple_given_rate(likelihood: Likelihood, y: Array, m: Array, v: Array, sigma: float) -> Terms | None:
    """Closed form where the rate exp(f) is all that is nonlinear, through E exp(w2 / 2); else None."""
    log_moment, slope = rayleigh.log_exponential_moment(0.5 * sigma)
    closed = likelihood.expected_given_rate(y, m, m + 0.5 * v + log_moment)
    if closed is None:
        return None
    value, alpha, gamma = closed
    return value, alpha, gamma, gamma * (0.25 * slope / sigma)


# ---- the integral of log E p(y | f) over u
def _log_phi(
    likelihood: Likelihood, y: Array, m: Array, v: Array, w2: Array, expect: Expectation, of_parameters: bool = False
) -> list[Array]:
    """E over u of log phi, r1, r2 and r1^2 at each row's w2, (n,); or of the derivatives in the parameters."""
    if likelihood.noise_variance is not None:
        return _gaussian(likelihood, likelihood.noise_variance, y, m, v, w2, of_parameters)

    def scores(u: Array, at: Any) -> list[Array]:
        closed = None if of_parameters else likelihood.log_predictive_derivatives(y[at], u, w2[at])
        if closed is not None:
            parts = list(closed)
        elif isinstance(expect, GaussHermite):
            nodes, weights = quadrature.hermite(expect.n)
            shifts = np.sqrt(w2[at]) * nodes[:, None, None]
            parts = _weighted(likelihood, y[at], u, shifts, weights, of_parameters)
        else:
            parts = noise_marginal.log_marginal(likelihood, y[at], u, w2[at], of_parameters)
        return parts if of_parameters else [*parts, parts[1] ** 2]

    if isinstance(expect, GaussHermite):
        return quadrature.expect_at(scores, m, v, *quadrature.hermite(expect.n))
    return rayleigh.over_mean(scores, likelihood, y, m, v, w2)


def log_phi_at(likelihood: Likelihood, y: Array, u: Array, w2: Array) -> Array:
    """log E p(y | f) under f ~ N(u, w2), row by row, (n,)."""
    if likelihood.noise_variance is not None:
        return _gaussian(likelihood, likelihood.noise_variance, y, u, np.zeros_like(u), w2, False)[0]
    closed = likelihood.log_predictive(y, u, w2)
    return noise_marginal.log_marginal(likelihood, y, u[None], w2)[0][0] if closed is None else closed


def _gaussian(
    likelihood: Likelihood, noise: float, y: Array, m: Array, v: Array, w2: Array, of_parameters: bool
) -> list[Array]:
    total = np.float64(noise) + w2  # overflows to inf, not to an error of Python's
    square = (y - m) ** 2 + v
    if not of_parameters:
        value = -0.5 * (np.log(total) + _LOG_2PI + square / total)
        return [value, (y - m) / total, np.full_like(m, -1.0 / total), square / total**2]
    part = np.float64(noise - likelihood.least)  # d variance / d unconstrained, and its own derivative
    slope = part * (0.5 * square / total - 0.5) / total
    return [slope[None], (slope + part**2 * (0.5 - square / total) / total**2)[None, None]]


def _weighted(
    likelihood: Likelihood, y: Array, u: Array, shifts: Array, weights: Array, of_parameters: bool = False
) -> list[Array]:
    """log phi, r1, r2 at u, (n,) or (J, n), or derivatives in the parameters; f = u + shifts, (L, n) or (L, 1, n)."""
    f = u + shifts
    value, slope, curve = likelihood.derivatives(y, f)
    p = value + np.log(weights).reshape(-1, *[1] * u.ndim)
    top = p.max(axis=0)
    p = np.exp(p - top)
    total = p.sum(axis=0)
    p /= total
    if of_parameters:
        return list(noise_marginal.louis(*noise_marginal.derivatives_in_parameters(likelihood, y, f), p))
    r1 = (p * slope).sum(axis=0)
    return [top + np.log(total), r1, (p * (curve + (slope - r1) ** 2)).sum(axis=0)]


# ---- Monte Carlo
def _check_samples(expect: MonteCarlo, rng: Any) -> None:
    if rng is None:
        raise ValueError("MonteCarlo needs rng, a numpy.random.Generator.")
    for name in ("n", "n_inner"):
        n = getattr(expect, name)
        if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 1:
            raise ValueError(f"MonteCarlo needs {name}, an integer >= 1; found {n!r}.")


def _outer_draws(m: Array, sigma: float, expect: MonteCarlo, rng: Any) -> Iterator[tuple[Array, Array]]:
    """Samples of w2 and standard normal samples, one pair per datum and outer sample."""
    _check_samples(expect, rng)
    for _ in range(expect.n):
        yield rng.rayleigh(sigma, len(m)), rng.standard_normal(len(m))


def _sampled_noise(
    likelihood: Likelihood, y: Array, u: Array, w2: Array, n: int, rng: Any, of_parameters: bool = False
) -> list[Array]:
    """Weighted terms at u, as `_weighted` gives them, over n samples of noise of variance w2."""
    shifts = np.sqrt(w2) * rng.standard_normal((n, len(u)))
    return _weighted(likelihood, y, u, shifts, np.full(n, 1.0 / n), of_parameters)


def _sampled_optimal(
    likelihood: Likelihood, y: Array, m: Array, v: Array, sigma: float, expect: MonteCarlo, rng: Any
) -> Terms:
    out = np.zeros((4, len(m)))
    for w2, z in _outer_draws(m, sigma, expect, rng):
        value, r1, r2 = _sampled_noise(likelihood, y, m + np.sqrt(v) * z, w2, expect.n_inner, rng)
        out += np.stack([value, r1, 0.5 * r2, 0.125 * (w2 / sigma**2) * (r2 + r1**2)])
    return tuple(out / expect.n)


def _sampled_parameters(
    likelihood: Likelihood, y: Array, m: Array, v: Array, sigma: float, expect: MonteCarlo, rng: Any, of_mean: bool
) -> tuple[Array, Array]:
    first: Any = 0.0
    second: Any = 0.0
    for w2, z in _outer_draws(m, sigma, expect, rng):
        if of_mean:
            g, h = likelihood.d_parameters(y, m + np.sqrt(v + w2) * z)
        else:
            g, h = _sampled_noise(likelihood, y, m + np.sqrt(v) * z, w2, expect.n_inner, rng, True)
        first, second = first + g, second + h
    return first / expect.n, second / expect.n


# ---- q(f) of the mean field
def _local(
    likelihood: Likelihood, y: Array, m: Array, kappa: float, expect: Expectation, rng: Any
) -> tuple[Array, Array]:
    """Mean b and variance s of each q(f)."""
    if isinstance(expect, MonteCarlo):
        _check_samples(expect, rng)
    draws = None if not isinstance(expect, MonteCarlo) else rng.standard_normal((expect.n, len(m)))

    def at(b: Array, s: Array, rows: Any = slice(None)) -> Any:
        if draws is None:
            return expect(likelihood, y[rows], b, s)
        # the same samples throughout, and their own derivative in s: a function that has a maximum
        sd, z = np.sqrt(s), draws[:, rows]
        value, slope, _ = likelihood.derivatives(y[rows], b + sd * z)
        return value.mean(axis=0), slope.mean(axis=0), 0.5 * (slope * z).mean(axis=0) / sd

    def objective(value: Array, b: Array, s: Array, rows: Any) -> Array:
        return value - 0.5 * kappa * ((b - m[rows]) ** 2 + s) + 0.5 * np.log(s)

    # Each row goes to the top of its objective, from b = m.
    s = 1.0 / (kappa - np.minimum(likelihood.d2(y, m), 0.0))
    b, rows = m.copy(), np.arange(len(m))
    now = [np.array(part) for part in (b, s, *at(b, s))]
    now.append(objective(now[2], b, s, rows))
    for _ in range(_MOST_STEPS):
        if not len(rows):
            break
        on = _stepped(at, objective, kappa, m[rows], rows, now)
        b[rows], s[rows] = now[0], now[1]
        rows, now = rows[on], [part[on] for part in now]
    return b, s


def _stepped(
    at: Callable[..., Any], objective: Callable[..., Array], kappa: float, m: Array, rows: Array, now: list[Array]
) -> Array:
    """Move b and s of each row in place, by steps that are halved where its objective falls; which rows go on.

    `now` has b, s, E log p, its derivatives in these and the objective.
    """
    b, s, value, slope, half_curve, best = (part.copy() for part in now)
    precision = kappa - 2.0 * half_curve
    # where l is not log-concave the precision may be negative: then s grows, at most fourfold
    ratio = np.where(precision * s > 0.25, 1.0 / np.maximum(precision * s, 0.25), 4.0)
    move = ratio * s * (slope + kappa * (m - b))
    done = (np.abs(move) <= 1e-10 * (np.sqrt(s) + np.abs(b))) & (np.abs(ratio - 1.0) <= 1e-10)
    least, moved = best - 1e-9 * (1.0 + np.abs(value)), np.zeros(len(rows), bool)

    def attempt(which: Array, share: float) -> Array:
        if share == 0.0:
            return np.ones(len(which), bool)
        new_b, new_s = b[which] + share * move[which], s[which] * ratio[which] ** np.full(len(which), share)
        new = [new_b, new_s, *at(new_b, new_s, rows[which])]
        new.append(objective(new[2], new_b, new_s, rows[which]))
        better = new[-1] >= least[which]
        for part, values in zip(now, new, strict=True):
            part[which[better]] = values[better]
        moved[which[better]] = True
        return np.asarray(better)

    backtrack_plates(~attempt(np.arange(len(rows)), 1.0) & ~done, attempt, _MOST_HALVINGS)
    return ~done & moved
