"""Checks for one's own likelihoods."""

from __future__ import annotations

import warnings
from functools import partial

import numpy as np

from sksvi.expectations import Auto, Quadrature
from sksvi.integrals.quadrature import expect_at
from sksvi.likelihoods.base import Likelihood
from sksvi.likelihoods.continuous import expected_from_squares
from sksvi.testing._close import _assert_close, asked_again

Array = np.ndarray

_STEP = 1e-5


def check_likelihood(likelihood: Likelihood, y: Array, *, seed: int = 0) -> None:
    """Raise AssertionError if a likelihood contradicts itself.

    Derivatives are compared with finite differences, moments with samples (four standard errors), `cdf` with `ppf`,
    the log density with its own total mass, closed forms with quadrature, what the likelihood declares of itself
    (`levels`, `symmetric`, `additive`, ...) with its density, and all must stay finite for |f| up to 1e4.

    Parameters
    ----------
    likelihood : Likelihood
        With or without "auto" parameters; `start` is called with `y`.
    y : array of shape (n,), binomial (n, 2)
        Targets of which each is in the support; several different ones.
    seed : int, default=0
        For the draws.

    Examples
    --------
    >>> import numpy as np
    >>> from sksvi.likelihoods import Poisson
    >>> from sksvi.testing import check_likelihood
    >>> check_likelihood(Poisson(), np.array([0.0, 1.0, 4.0]))
    """
    y = np.asarray(y)
    rng = np.random.default_rng(seed)
    likelihood.check_target(y)
    likelihood = likelihood.start(y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _check_parameters(likelihood, y, rng)
        _check_derivatives(likelihood, y, rng)
        _check_stable(likelihood, y)
        _check_levels(likelihood, y, rng)
        _check_ratio(likelihood, rng)
        if likelihood.n_latents == 1:
            _check_noise(likelihood, y, rng)
            _check_rate(likelihood, y, rng)
            _check_marginal(likelihood, y, rng)
        _check_closed_forms(likelihood, y, rng)
        _check_samples(likelihood, rng)
        if likelihood.n_latents == 1:
            _check_quantiles(likelihood)
        if likelihood.n_latents == 1 and y.ndim == 1:
            _check_mass(likelihood)


def _latents(likelihood: Likelihood, n: int, rng: np.random.Generator, scale: float = 1.0) -> Array:
    shape = (n,) if likelihood.n_latents == 1 else (n, likelihood.n_latents)
    return scale * rng.standard_normal(shape)


def _directions(likelihood: Likelihood, f: Array) -> list[Array]:
    if likelihood.n_latents == 1:
        return [np.ones_like(f)]
    return [np.broadcast_to(unit, f.shape) for unit in np.eye(likelihood.n_latents)]


def _check_derivatives(likelihood: Likelihood, y: Array, rng: np.random.Generator) -> None:
    for scale in (1.0, 5.0):
        f = _latents(likelihood, len(y), rng, scale)
        value, d1, d2 = likelihood.derivatives(y, f)
        _assert_close(value, likelihood.log_prob(y, f), "log_prob against derivatives()", likelihood, 1e-12)
        for direction in _directions(likelihood, f):
            high, low = f + _STEP * direction, f - _STEP * direction
            slope = (likelihood.log_prob(y, high) - likelihood.log_prob(y, low)) / (2 * _STEP)
            curve = (likelihood.d1(y, high) - likelihood.d1(y, low)) / (2 * _STEP)
            several = likelihood.n_latents > 1
            first = (d1 * direction).sum(axis=-1) if several else d1
            second = (d2 * direction).sum(axis=-1) if several else d2
            curve = (curve * direction).sum(axis=-1) if several else curve
            _assert_close(slope, first, "d1", likelihood)
            _assert_close(curve, second, "d2", likelihood)


def _check_stable(likelihood: Likelihood, y: Array) -> None:
    for f in (-1e4, -745.0, -40.0, -1e-8, 0.0, 40.0, 600.0, 1e4):
        latent = np.full((len(y),) if likelihood.n_latents == 1 else (len(y), likelihood.n_latents), f)
        if likelihood.n_latents > 1:
            latent[:, 0] = -f
        for part in likelihood.derivatives(y, latent):
            assert np.all(np.isfinite(part)), f"{likelihood} is not finite at f = {f:g}."
        if likelihood.traits.log_concave:
            assert np.all(likelihood.d2(y, latent) <= 0), f"{likelihood} says log-concave; d2 > 0 at f = {f:g}."


def _check_parameters(likelihood: Likelihood, y: Array, rng: np.random.Generator) -> None:
    start = likelihood.unconstrained
    if not len(start):
        return
    _assert_close(likelihood.replace(start).unconstrained, start, "replace(unconstrained)", likelihood, 1e-10)
    f = _latents(likelihood, len(y), rng)
    g, h = likelihood.d_parameters(y, f)
    for p, unit in enumerate(_STEP * np.eye(len(start))):
        high, low = likelihood.replace(start + unit), likelihood.replace(start - unit)
        slope = (high.log_prob(y, f) - low.log_prob(y, f)) / (2 * _STEP)
        curve = (high.d_parameters(y, f)[0] - low.d_parameters(y, f)[0]) / (2 * _STEP)
        _assert_close(slope, g[p], f"d_parameters, first, {p}", likelihood)
        _assert_close(curve, h[p], f"d_parameters, second, {p}", likelihood)


def _check_closed_forms(likelihood: Likelihood, y: Array, rng: np.random.Generator) -> None:
    m = _latents(likelihood, len(y), rng)
    v = rng.uniform(0.02, 0.5, size=m.shape)
    auto, step = Auto(), 1e-4
    value, dm, dv = auto(likelihood, y, m, v)
    for direction in _directions(likelihood, m):
        shift = step * direction
        slope = (auto(likelihood, y, m + shift, v)[0] - auto(likelihood, y, m - shift, v)[0]) / (2 * step)
        curve = (auto(likelihood, y, m, v + shift)[0] - auto(likelihood, y, m, v - shift)[0]) / (2 * step)
        several = likelihood.n_latents > 1
        _assert_close(slope, (dm * direction).sum(axis=-1) if several else dm, "dE/dm", likelihood, 2e-5)
        _assert_close(curve, (dv * direction).sum(axis=-1) if several else dv, "dE/dv", likelihood, 2e-5)
    if likelihood.n_latents > 1:
        return
    # A dense trapezoid: Gauss-Hermite itself is wrong where p(y | f) is narrow against q(f).
    nodes = np.linspace(-9.0, 9.0, 4001)
    weights = np.exp(-0.5 * np.square(nodes))
    dense = expect_at(lambda f, rows: likelihood.derivatives(y[rows], f), m, v, nodes, weights / weights.sum())
    smooth = 1 if likelihood.traits.quantile else 3  # derivatives beyond a kink are no integrands
    for found, wanted in zip((value, dm, 2 * dv)[:smooth], dense[:smooth], strict=True):
        _assert_close(found, wanted, "E log p or a derivative of it", likelihood)
    mean = likelihood.expected_mean(m, v)
    if mean is not None:
        wide = Quadrature().integrate(lambda f, rows: likelihood.mean(f), likelihood, m, v)
        _assert_close(mean, wide, "expected_mean", likelihood)


def _check_levels(likelihood: Likelihood, y: Array, rng: np.random.Generator) -> None:
    if likelihood.levels is None:
        return
    f = _latents(likelihood, len(y), rng)
    if likelihood.traits.symmetric:
        _assert_close(likelihood.mean(-f), 1.0 - likelihood.mean(f), "symmetric: mean(-f)", likelihood, 1e-8)
    p = likelihood.probabilities(f)
    assert len(p) == len(likelihood.levels), f"{likelihood} gives {len(p)} probabilities to its levels."
    if not likelihood.traits.paired:
        last = np.exp(likelihood.log_prob(likelihood.levels[-1], f))
        _assert_close(p[-1], last, "probabilities(f) of the last level", likelihood)
    _assert_close(p.sum(axis=0), 1.0, "the sum of probabilities(f)", likelihood, 1e-8)


def _check_noise(likelihood: Likelihood, y: Array, rng: np.random.Generator) -> None:
    f = _latents(likelihood, len(y), rng)
    value = likelihood.log_prob(y, f)
    if likelihood.traits.additive and not likelihood.traits.censored:
        _assert_close(likelihood.log_prob(y + 1.5, f + 1.5), value, "additive: log_prob, both shifted,", likelihood)
    if likelihood.traits.by_moments:
        two, at = y.mean() + np.array([-1.0, 1.0]) * y.std(), f[:, None]
        wanted, found = (likelihood.d1(values, at).mean(axis=1) for values in (y, two))
        _assert_close(found, wanted, "by_moments: mean of d1 over y of the same mean and variance", likelihood)
    noise, mixture = likelihood.noise_variance, likelihood.scale_mixture
    if noise is not None:
        wanted = -0.5 * (np.log(2.0 * np.pi * noise) + np.square(y - f) / noise)
        _assert_close(value, wanted, "noise_variance: log_prob", likelihood)
        total, slope = expected_from_squares(likelihood, np.square(y - f).sum(), len(y))
        _assert_close(total, wanted.sum(), "expected_from_squares", likelihood)
        if likelihood.learned:
            exact_slope = likelihood.d_parameters(y, f)[0].sum()
            _assert_close(slope, exact_slope, "slope of expected_from_squares", likelihood)
    if mixture is not None:
        low, high = mixture.reach(np.square(y - f))
        x = low + (high - low) * np.linspace(0.0, 1.0, 4001)[:, None]
        log_variance = np.log(mixture.unit) + x
        terms = mixture.log_density(x) - 0.5 * (np.log(2 * np.pi) + log_variance + (y - f) ** 2 * np.exp(-log_variance))
        total = np.log(np.exp(terms).sum(axis=0) * (high - low) / 4000.0) - mixture.log_constant
        _assert_close(total, value, "scale_mixture: its density of y", likelihood)


def _check_rate(likelihood: Likelihood, y: Array, rng: np.random.Generator) -> None:
    f, v = _latents(likelihood, len(y), rng), rng.uniform(0.02, 0.5, size=len(y))
    if likelihood.variance_function is not None:
        linear, square = likelihood.variance_function
        rate = np.exp(f)
        _assert_close(likelihood.mean(f), rate, "variance_function: mean", likelihood)
        wanted = linear * rate + square * rate**2
        _assert_close(likelihood.conditional_variance(f), wanted, "variance_function: conditional_variance", likelihood)
    given = likelihood.expected_given_rate(y, f, f + 0.5 * v)
    if given is not None:
        for found, wanted in zip(given, Auto()(likelihood, y, f, v), strict=True):
            _assert_close(found, wanted, "expected_given_rate", likelihood)


def _check_ratio(likelihood: Likelihood, rng: np.random.Generator) -> None:
    """A step of log 2 in f doubles the mean, or the odds of each level, against class 0 or of more than it."""
    f = _latents(likelihood, 5, rng)
    if likelihood.ratio == "rate":
        _assert_close(likelihood.mean(f + np.log(2.0)), 2.0 * likelihood.mean(f), "ratio", likelihood)
    if likelihood.ratio != "odds":
        return
    levels = likelihood.levels
    assert levels is not None, f"{likelihood}: ratio is that of odds, and there are no levels"
    for level in levels[1:]:
        if likelihood.n_latents > 1:
            base = np.asarray(0.0)
            before = likelihood.log_prob(level, f) - likelihood.log_prob(base, f)
            f_after = f + np.log(2.0) * np.eye(likelihood.n_latents)[int(level)]
            after = likelihood.log_prob(level, f_after) - likelihood.log_prob(base, f_after)
        else:
            below = np.stack([likelihood.cdf(level - 1.0, at) for at in (f, f + np.log(2.0))])
            before, after = np.log(1.0 - below) - np.log(below)
        _assert_close(after, before + np.log(2.0), "ratio", likelihood, 1e-9)


def _check_marginal(likelihood: Likelihood, y: Array, rng: np.random.Generator) -> None:
    m, v = _latents(likelihood, len(y), rng), rng.uniform(0.02, 0.5, size=len(y))
    nodes = np.linspace(-15.0, 15.0, 6001)[:, None]  # a row far from its mean moves f by some deviations
    log_weights = -0.5 * np.square(nodes) - np.log(np.exp(-0.5 * np.square(nodes)).sum())
    dense = np.logaddexp.reduce(likelihood.log_prob(y, m + np.sqrt(v) * nodes) + log_weights)
    closed = likelihood.log_predictive(y, m, v)
    if closed is not None:
        _assert_close(closed, dense, "log_predictive", likelihood)
    terms = likelihood.log_predictive_derivatives(y, m, v)
    if terms is not None:
        _assert_close(terms[0], dense, "log_predictive_derivatives, value", likelihood)
        high, low = (likelihood.log_predictive_derivatives(y, m + sign * _STEP, v) for sign in (1.0, -1.0))
        assert high is not None and low is not None
        for k in (0, 1):
            slope = (high[k] - low[k]) / (2 * _STEP)
            _assert_close(slope, terms[k + 1], f"log_predictive_derivatives, {k + 1}", likelihood)


def _check_samples(likelihood: Likelihood, rng: np.random.Generator, n: int = 20000) -> None:
    asked_again(partial(_check_moments, likelihood, _latents(likelihood, 3, rng), rng), n)


def _check_moments(likelihood: Likelihood, latents: Array, rng: np.random.Generator, n: int) -> None:
    """n samples at each latent have its mean and variance."""
    f = np.repeat(latents[:, None], n, axis=1)
    draws = likelihood.sample(f, rng)
    if likelihood.n_latents > 1:
        draws = (draws[..., None] == np.arange(likelihood.n_latents)).astype(float)
    mean, variance = likelihood.mean(f)[:, 0], likelihood.conditional_variance(f)[:, 0]
    squares = (draws - mean[:, None]) ** 2
    if not np.all(np.isfinite(variance)):
        return
    # Few draws leave the likeliest value of a discrete target: no normal law, and a spread that draws do not show. The
    # constant is Bernstein's where four standard errors are allowed and most jumps have size 1.
    rare = (likelihood.traits.discrete or likelihood.traits.ordered or likelihood.n_latents > 1) & (n * variance < 100)
    more = np.where(rare, 16 / (3 * n), 0.0) + 4e-12
    error = 4 * np.sqrt(variance / n) + more
    assert np.all(np.abs(draws.mean(axis=1) - mean) <= error), f"samples of {likelihood} miss its mean."
    error = 4 * np.where(rare, np.sqrt(variance), squares.std(axis=1)) / np.sqrt(n) + more
    assert np.all(np.abs(squares.mean(axis=1) - variance) <= error), f"samples of {likelihood} miss its variance."


def _check_quantiles(likelihood: Likelihood) -> None:
    f = np.array([-2.0, 0.0, 1.5])
    for p in (0.01, 0.3, 0.5, 0.9, 0.999):
        y = likelihood.ppf(p, f)
        at = likelihood.cdf(y, f)
        if likelihood.traits.discrete:
            assert np.all(at >= p - 1e-12), f"ppf of {likelihood} stops below p = {p}."
            assert np.all(likelihood.cdf(y - 1.0, f) < p + 1e-12), f"ppf of {likelihood} goes beyond p = {p}."
        else:
            none = likelihood.cdf(np.asarray(likelihood.support.low), f)  # y may have a mass where it begins
            _assert_close(at, np.maximum(p, none), "cdf(ppf(p))", likelihood, 1e-8)


def _check_mass(likelihood: Likelihood) -> None:
    f = np.array([-2.0, 0.0, 1.5])
    if likelihood.traits.discrete:
        y = np.arange(likelihood.ppf(1e-9, f).min(), likelihood.ppf(1 - 1e-9, f).max() + 1)
        mass = np.diff(np.concatenate([np.zeros((1, 3)), likelihood.cdf(y[:, None], f)]), axis=0)
        _assert_close(np.exp(likelihood.log_prob(y[:, None], f)), mass, "exp(log_prob) against cdf", likelihood, 1e-8)
        return
    least = np.asarray(likelihood.support.low)
    none = likelihood.cdf(least, f)
    if np.any(none > 1e-6):
        _assert_close(np.exp(likelihood.log_prob(least, f)), none, "exp(log_prob) of the least y", likelihood)
    f = f[none < 0.9]  # beyond, the distribution function has no digits for what is not the least y
    if not len(f):
        return
    low, high = likelihood.ppf(0.05, f).min(), likelihood.ppf(0.95, f).max()
    y = np.linspace(low, high, 10)[1:, None]
    # A density may have a pole at an end of the support.
    step = 1e-6 * np.minimum(high - low, np.minimum(y - likelihood.support.low, likelihood.support.high - y))
    density = (likelihood.cdf(y + step, f) - likelihood.cdf(y - step, f)) / (2 * step)
    _assert_close(np.exp(likelihood.log_prob(y, f)), density, "exp(log_prob) against cdf", likelihood, 1e-5)
