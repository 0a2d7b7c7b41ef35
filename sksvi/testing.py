"""Checks for one's own likelihoods, families and models: the same that the package's tests run on its own."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np

from .expectations import Auto, Quadrature
from .likelihoods.base import Likelihood
from .quadrature import expect_at

__all__ = ["check_family", "check_likelihood", "check_model"]

Array = Any

_STEP = 1e-5


def check_likelihood(likelihood: Likelihood, y: Array, *, seed: int = 0) -> None:
    """Raise AssertionError if a likelihood contradicts itself.

    Derivatives are compared with finite differences, moments with samples (four standard errors), `cdf` with `ppf`,
    the log density with its own total mass, closed forms with quadrature, and all must stay finite for |f| up to 1e4.

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
        _check_closed_forms(likelihood, y, rng)
        _check_samples(likelihood, rng)
        if likelihood.n_latents == 1:
            _check_quantiles(likelihood)
        if likelihood.n_latents == 1 and y.ndim == 1:
            _check_mass(likelihood)


def _latents(likelihood: Likelihood, n: int, rng: np.random.Generator, scale: float = 1.0) -> Array:
    shape = (n,) if likelihood.n_latents == 1 else (n, likelihood.n_latents)
    return scale * rng.standard_normal(shape)


def _assert_close(found: Array, wanted: Array, what: str, likelihood: Any, tolerance: float = 1e-6) -> None:
    scale = 1.0 + np.abs(wanted)
    error = float(np.max(np.abs(found - wanted) / scale, initial=0.0))
    assert error <= tolerance, f"{what} of {likelihood} is off by {error:.1e}, more than {tolerance:.0e}."


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
        if likelihood.log_concave:
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
    for found, wanted in zip((value, dm, 2 * dv), dense, strict=True):
        _assert_close(found, wanted, "E log p or a derivative of it", likelihood)
    mean = likelihood.expected_mean(m, v)
    if mean is not None:
        wide = Quadrature().integrate(lambda f, rows: likelihood.mean(f), likelihood, m, v)
        _assert_close(mean, wide, "expected_mean", likelihood)


def _check_samples(likelihood: Likelihood, rng: np.random.Generator, n: int = 20000) -> None:
    f = np.repeat(_latents(likelihood, 3, rng)[:, None], n, axis=1)
    draws = likelihood.sample(f, rng)
    if likelihood.n_latents > 1:
        draws = (draws[..., None] == np.arange(likelihood.n_latents)).astype(float)
    mean, variance = likelihood.mean(f)[:, 0], likelihood.conditional_variance(f)[:, 0]
    squares = (draws - mean[:, None]) ** 2
    if not np.all(np.isfinite(variance)):
        return
    error = np.sqrt(variance / n) + 1e-12
    assert np.all(np.abs(draws.mean(axis=1) - mean) <= 4 * error), f"samples of {likelihood} miss its mean."
    error = squares.std(axis=1) / np.sqrt(n) + 1e-12
    assert np.all(np.abs(squares.mean(axis=1) - variance) <= 4 * error), f"samples of {likelihood} miss its variance."


def _check_quantiles(likelihood: Likelihood) -> None:
    f = np.array([-2.0, 0.0, 1.5])
    for p in (0.01, 0.3, 0.5, 0.9, 0.999):
        y = likelihood.ppf(p, f)
        at = likelihood.cdf(y, f)
        if likelihood.discrete:
            assert np.all(at >= p - 1e-12), f"ppf of {likelihood} stops below p = {p}."
            assert np.all(likelihood.cdf(y - 1.0, f) < p + 1e-12), f"ppf of {likelihood} goes beyond p = {p}."
        else:
            _assert_close(at, p, "cdf(ppf(p))", likelihood, 1e-8)


def _check_mass(likelihood: Likelihood) -> None:
    f = np.array([-2.0, 0.0, 1.5])
    if likelihood.discrete:
        y = np.arange(likelihood.ppf(1e-9, f).min(), likelihood.ppf(1 - 1e-9, f).max() + 1)
        mass = np.diff(np.concatenate([np.zeros((1, 3)), likelihood.cdf(y[:, None], f)]), axis=0)
        _assert_close(np.exp(likelihood.log_prob(y[:, None], f)), mass, "exp(log_prob) against cdf", likelihood, 1e-8)
        return
    low, high = likelihood.ppf(0.05, f).min(), likelihood.ppf(0.95, f).max()
    y, step = np.linspace(low, high, 9)[:, None], 1e-6 * (high - low)
    density = (likelihood.cdf(y + step, f) - likelihood.cdf(y - step, f)) / (2 * step)
    _assert_close(np.exp(likelihood.log_prob(y, f)), density, "exp(log_prob) against cdf", likelihood, 1e-5)


def check_family(q: Any, prior: Any = None, *, seed: int = 0) -> None:
    """Raise AssertionError if a posterior block contradicts itself.

    Moments are compared with each other and with draws (four standard errors). A Gaussian block's divergence is
    compared with the closed form, and its natural and standard gradients with finite differences of a bound that is
    linear in mean and covariance; a point's Newton step and memory with the quadratic that they stand for.

    Parameters
    ----------
    q : Gaussian, DiagonalGaussian, StandardGaussian, ProjectedGaussian, ClassGaussian, Rayleigh or Point
        Any block that answers as one of these does.
    prior : Gaussian or DiagonalGaussian, for another family its own class, optional
        Of the same coordinates; without it only moments and draws are checked.
    seed : int, default=0
        For draws and directions.

    Examples
    --------
    >>> import numpy as np
    >>> from sksvi.families import DiagonalGaussian
    >>> from sksvi.testing import check_family
    >>> check_family(DiagonalGaussian(np.ones(2), np.full(2, 4.0)), DiagonalGaussian(np.zeros(2), np.ones(2)))
    """
    rng = np.random.default_rng(seed)
    _check_moments(q)
    if q.kind == "point":
        _check_point(q, rng)
        return
    if q.kind != "gaussian":
        _check_flat(q, prior, rng)
        return
    _check_draws(q, rng)
    if prior is not None:
        assert abs(prior.kl(prior)) <= 1e-9 * (1 + prior.mean.size), f"KL(p || p) of {prior} is {prior.kl(prior):g}."
        _assert_close(q.kl(prior), _dense_kl(q, prior), "KL(q || p)", q, 1e-8)
        _check_natural_gradient(q, prior, rng)
        _check_standard_gradient(q, prior, rng)


def check_model(model: Any, data: Any, *, tolerance: float = 1e-4, seed: int = 0) -> None:
    """Raise AssertionError if a model's gradients are not those of its bound.

    At a random q near the model's first one, the pulled-back gradient of every block is compared with finite
    differences of E log p, batches must add up to the whole, a row of weight two must count as two rows, and a step of
    a hyperparameter must point uphill.

    Parameters
    ----------
    model : Model
        See :class:`sksvi.models.base.Model`.
    data : Data
        See :class:`sksvi.models.base.Data`; a few dozen rows do.
    tolerance : float, default=1e-4
        Relative error allowed in a gradient; more where the integral over the latents is itself an approximation.
    seed : int, default=0
        For q and directions.

    Examples
    --------
    >>> import numpy as np
    >>> from sksvi.likelihoods import Poisson
    >>> from sksvi.models.base import Data
    >>> from sksvi.models.linear import LinearModel
    >>> from sksvi.testing import check_model
    >>> model = LinearModel(Poisson(), prior_precision=1.0, intercept_precision=0.1, n_features=1,
    ...                     fit_intercept=True, full=True)
    >>> check_model(model, Data(np.array([[0.0], [1.0], [2.0]]), np.array([0.0, 1.0, 4.0])))
    """
    from . import engine
    from .algorithms import MCSSVI
    from .models.base import Segment

    rng = np.random.default_rng(seed)
    problem = engine.Problem(model, data, MCSSVI(), Auto(), Auto())
    q = dict(model.init(data))
    first = q[model.block]
    q[model.block] = type(first)(first.sample(1, seed)[0], first.precision)

    def evaluated(blocks: dict[str, Any], rows: Any = None, on: Any = problem) -> tuple[dict[str, Any], float]:
        rows = slice(0, len(on.data)) if rows is None else rows
        return engine.evaluate(on, engine.State(blocks, seed), Segment(rows, 1.0))

    def bound(blocks: dict[str, Any]) -> float:
        return evaluated(blocks)[1] - engine.divergence(problem, engine.State(blocks, seed), blocks)

    gradient, value = evaluated(q)
    engine.check_finite(value, gradient, engine.State(q, seed))
    _check_gradient_of_value(q, gradient, lambda blocks: evaluated(blocks)[1], rng, tolerance)
    for name, slope in model.free_gradients(q, gradient).items():
        step = rng.standard_normal(slope.shape)
        high, low = (evaluated({**q, name: type(q[name])(q[name].value + s * step)})[1] for s in (1e-5, -1e-5))
        _assert_close(np.sum(slope * step), (high - low) / 2e-5, f"gradient of {name!r}", q[name], tolerance)
    parts = [evaluated(q, rows) for rows in np.array_split(rng.permutation(len(data)), 3)]
    _assert_sum(gradient, value, parts, "batches do not add up to the whole")
    double = replace(data, weight=np.full(len(data), 2.0) if data.weight is None else 2.0 * data.weight)
    twice = replace(problem, data=double)
    _assert_sum(*evaluated(q, on=twice), [(gradient, value)] * 2, "a row of weight two is not two rows")
    for name, (step, _) in model.point_steps(q, gradient).items():
        here, there = (bound({**q, name: q[name].moved(share * step, 1.0)}) for share in (0.0, 1e-3))
        assert there >= here - 1e-9 * (1 + abs(here)), f"the step of {name!r} goes downhill."


def _check_moments(q: Any) -> None:
    variance = np.diagonal(q.cov, axis1=-2, axis2=-1)
    _assert_close(q.std, np.sqrt(variance), "std against cov", q, 1e-9)
    if q.kind != "point":
        _assert_close(q.variance, variance, "variance against cov", q, 1e-9)


def _check_draws(q: Any, rng: np.random.Generator, n: int = 20000) -> None:
    size = q.mean.shape[-1]
    draws = q.sample(n, int(rng.integers(2**31))).reshape(n, -1, size)
    for plate, (mean, cov) in enumerate(zip(q.mean.reshape(-1, size), q.cov.reshape(-1, size, size), strict=True)):
        delta = draws[:, plate] - mean
        error = np.sqrt(np.diagonal(cov) / n) + 1e-12
        assert np.all(np.abs(delta.mean(0)) <= 4 * error), f"draws of {type(q).__name__} miss its mean."
        directions = rng.standard_normal((3, size))
        squares = np.square(delta @ directions.T)
        spread = np.einsum("ij,jk,ik->i", directions, cov, directions)
        assert np.all(np.abs(squares.mean(0) - spread) <= 4 * np.sqrt(2 / n) * spread), (
            f"draws of {type(q).__name__} miss its covariance."
        )
        if hasattr(q, "spread"):
            block = q if q.mean.ndim == 1 else q[plate]
            _assert_close(block.spread(directions), spread, "spread of rows", q, 1e-9)


def _precise(q: Any) -> Any:
    """The block held as mean and precision."""
    if hasattr(q, "precision"):
        return q
    return q.precise() if hasattr(q, "precise") else q.dense()


def _dense_kl(q: Any, prior: Any) -> float:
    size = q.mean.shape[-1]
    shapes = (-1, size), (-1, size, size)
    parts = [part.reshape(shape) for block in (q, prior) for part, shape in zip((block.mean, block.cov), shapes)]
    total = 0.0
    for mean, cov, centre, wide in zip(*parts, strict=True):
        delta = mean - centre
        total += np.trace(np.linalg.solve(wide, cov)) + delta @ np.linalg.solve(wide, delta) - size
        total += np.linalg.slogdet(wide)[1] - np.linalg.slogdet(cov)[1]
    return 0.5 * float(total)


def _random_gradient(q: Any, rng: np.random.Generator) -> tuple[Array, Array]:
    """A gradient in mean and covariance, the latter concave."""
    g = rng.standard_normal(q.mean.shape)
    if not q.full:
        return g, -np.square(rng.standard_normal(q.mean.shape))
    factor = rng.standard_normal((*q.mean.shape, q.mean.shape[-1]))
    return g, -factor @ np.swapaxes(factor, -1, -2)


def _linear_bound(q: Any, prior: Any, gradient: tuple[Array, Array]) -> float:
    """A term that is linear in mean and covariance, less KL(q || p)."""
    g, curvature = gradient
    return float(np.sum(g * q.mean) + np.sum(curvature * (q.cov if q.full else q.variance))) - _dense_kl(q, prior)


def _moved(q: Any, dm: Array, ds: Array, share: float) -> Any:
    """The block with its mean and covariance moved."""
    if not q.full:
        return type(q)(q.mean + share * dm, 1.0 / (q.variance + share * ds))
    return type(q)(q.mean + share * dm, np.linalg.inv(q.cov + share * ds))


def _directions_of(q: Any, rng: np.random.Generator) -> tuple[Array, Array]:
    """Directions of mean and covariance on the scale of the block itself."""
    dm = q.std * rng.standard_normal(q.mean.shape)
    if not q.full:
        return dm, q.variance * rng.uniform(-1, 1, q.mean.shape)
    tilt = rng.standard_normal((*q.mean.shape, q.mean.shape[-1]))
    return dm, np.swapaxes(q.root, -1, -2) @ (tilt + np.swapaxes(tilt, -1, -2)) @ q.root / 4


def _check_natural_gradient(q: Any, prior: Any, rng: np.random.Generator) -> None:
    """The step of the natural parameters is the gradient of the bound in the mean parameters (m, S + mmᵀ)."""
    from .steps import natural_step

    q = _precise(q)
    gradient = _random_gradient(q, rng)
    new = natural_step(q, prior, gradient, 1.0)
    dm, ds = _directions_of(q, rng)
    cross = q.mean[..., :, None] * dm[..., None, :] if q.full else q.mean * dm
    cross = cross + np.swapaxes(cross, -1, -2) if q.full else 2 * cross
    linear, quadratic = new.times(new.mean) - q.times(q.mean), -0.5 * (new.precision - q.precision)
    found = np.sum(linear * dm) + np.sum(quadratic * (ds + cross))
    high, low = (_linear_bound(_moved(q, dm, ds, share), prior, gradient) for share in (1e-4, -1e-4))
    _assert_close(found, (high - low) / 2e-4, "natural gradient", q, 1e-5)


def _check_standard_gradient(q: Any, prior: Any, rng: np.random.Generator) -> None:
    """The gradient in mean and C, S = CᵀC, by finite differences."""
    q = (q if hasattr(q, "standard") else _precise(q)).standard()
    gradient = _random_gradient(q, rng)
    in_mean, in_root = q.standard_gradient(prior, gradient)
    dm, tilt = rng.standard_normal(q.mean.shape), rng.uniform(-1, 1, q.root.shape)
    dc = np.tril(tilt) if q.full else tilt
    unit = 1e-4 * q.std.min()
    high, low = (_linear_bound(type(q)(q.mean + s * dm, q.root + s * dc), prior, gradient) for s in (unit, -unit))
    found = np.sum(in_mean * dm) + np.sum(in_root * dc)
    _assert_close(found, (high - low) / (2 * unit), "standard gradient", q, 1e-5)


def _check_point(q: Any, rng: np.random.Generator) -> None:
    """Newton reaches the maximum of a quadratic plus what is remembered, and absorbing it remembers it."""
    size = len(q.value)
    assert np.array_equal(q.sample(3), np.repeat(q.value[None], 3, axis=0)), "a point's draws are not the point."
    factor = rng.standard_normal((size, size + 2))
    hessian = -factor @ factor.T
    g = -hessian @ rng.uniform(-0.1, 0.1, size) + q.information @ (q.value - q.centre)
    new = q.moved(q.newton((g, hessian)), 1.0)
    left = g + hessian @ (new.value - q.value) - q.information @ (new.value - q.centre)
    _assert_close(left, np.zeros(size), "gradient after a Newton step", q, 1e-8)
    held, delta = q.absorbed(hessian), 0.1 * rng.standard_normal(size)
    _assert_close(held.moved(delta, 1.0).penalty(), 0.5 * delta @ (q.information - hessian) @ delta, "penalty", q, 1e-9)
    assert held.penalty() == 0.0, "a point that has just absorbed its data pays a penalty."


def _check_flat(q: Any, prior: Any, rng: np.random.Generator, n: int = 20000) -> None:
    """A family with a vector of natural parameters: draws, coordinates, and gradients of a bound linear in moments."""
    from .steps import natural_step

    draws = q.sample(n, int(rng.integers(2**31)))
    delta = draws - q.mean
    assert np.all(np.abs(delta.mean(0)) <= 4 * q.std / np.sqrt(n)), f"draws of {type(q).__name__} miss its mean."
    squares = np.square(delta)
    off = np.abs(squares.mean(0) - q.variance)
    assert np.all(off <= 4 * squares.std(0) / np.sqrt(n)), f"draws of {type(q).__name__} miss its variance."
    for other in (q.replace(q.natural(q)), q.at(q.standard_values)):
        _assert_close(other.moments, q.moments, "moments after a change of coordinates", q, 1e-10)
    if prior is None:
        return
    assert abs(prior.kl(prior)) <= 1e-12, f"KL(p || p) of {prior} is {prior.kl(prior):g}."
    gradient = tuple(rng.uniform(-0.1, 0.0, np.shape(part)) for part in q.natural(q))

    def bound(values: Array) -> float:
        at = q.at(values)
        return float(np.sum(gradient[0] * at.moments)) - at.kl(prior)

    here, step = q.standard_values, 1e-5
    high, low = q.at(here + step), q.at(here - step)
    slope = (bound(here + step) - bound(here - step)) / (2 * step)
    _assert_close(q.standard_gradient(prior, gradient).sum(), slope, "standard gradient", q, 1e-6)
    new = natural_step(q, prior, gradient, 1.0)
    along = np.sum((new.natural(q)[0] - q.natural(q)[0]) * (high.moments - low.moments)) / (2 * step)
    _assert_close(along, slope, "natural gradient", q, 1e-6)


def _check_gradient_of_value(
    q: dict[str, Any], gradient: dict[str, Any], value: Any, rng: np.random.Generator, tolerance: float
) -> None:
    """Each block's gradient against finite differences of E log p."""
    for name, slopes in gradient.items():
        if name not in q:  # sums that `free_gradients` turns into a gradient
            continue
        block = q[name]
        if len(slopes) == 1:
            high, low = (value({**q, name: block.at(block.standard_values + s)}) for s in (1e-4, -1e-4))
            rise = block.at(block.standard_values + 1e-4).moments - block.at(block.standard_values - 1e-4).moments
            _assert_close(np.sum(slopes[0] * rise), high - low, f"gradient of {name!r}", block, tolerance)
            continue
        first, second = slopes
        if block.kind == "point":
            step = rng.standard_normal(first.shape)
            high, low = (value({**q, name: block.moved(s * step, 1.0)}) for s in (1e-4, -1e-4))
            _assert_close(np.sum(first * step), (high - low) / 2e-4, f"gradient of {name!r}", block, tolerance)
            continue
        dm, ds = _directions_of(block, rng)
        for what, moves in (("mean", (dm, 0.0 * ds)), ("covariance", (0.0 * dm, ds))):
            high, low = (value({**q, name: _moved(block, *moves, s)}) for s in (1e-3, -1e-3))
            found = np.sum(first * moves[0]) + np.sum(second * moves[1])
            _assert_close(found, (high - low) / 2e-3, f"gradient of {name!r} in its {what}", block, tolerance)


def _assert_sum(gradient: dict[str, Any], value: float, parts: list[Any], what: str) -> None:
    wanted = [value, *(part for pair in gradient.values() for part in pair)]
    summands = [[other, *(part for pair in each.values() for part in pair)] for each, other in parts]
    for whole, *pieces in zip(wanted, *summands, strict=True):
        error = np.max(np.abs(sum(pieces) - whole), initial=0.0) / (1 + np.max(np.abs(whole), initial=0.0))
        assert error <= 1e-10, f"{what}: off by {error:.1e}."
