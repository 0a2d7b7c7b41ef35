"""Checks for one's own families of posterior blocks."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from sksvi.families import StandardGaussian
from sksvi.families.base import Family, PointMass
from sksvi.families.flat import Flat
from sksvi.families.gaussian.normal import Normal
from sksvi.testing._close import _assert_close, asked_again

Array = np.ndarray


def check_family(q: Family, prior: Family | None = None, *, seed: int = 0) -> None:
    """Raise AssertionError if a posterior block contradicts itself.

    Moments are compared with each other and with draws (four standard errors). A divergence is compared with the closed
    form or its own parts, natural and standard gradients with finite differences of a bound that is linear in the
    moments, gradients from slopes at draws with the derivatives of means and of second moments; a rule of nodes with
    the moments, and its gradients from slopes with those from values. Prior times message must be q again; a point's
    Newton step and memory are compared with the quadratic that they stand for.

    Parameters
    ----------
    q : Family
        See :class:`sksvi.families.Family`.
    prior : Gaussian or DiagonalGaussian for Gaussian blocks, for another family its own class, optional
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
    _check_plates(q, prior, rng)
    _check_drawn(q, rng)
    _check_nodes(q)
    if q.column == "hyper":
        if getattr(q, "information", None) is not None:
            _check_point(q, rng)
        return
    _check_messages(q, prior)
    if q.column != "gaussian":
        _check_flat(q, prior, rng)
        return
    _check_draws(q, rng)
    if prior is not None:
        _check_divergence(q, prior)
        if isinstance(getattr(q.natural_form(), "precision", None), np.ndarray):
            _check_natural_gradient(q, prior, rng)
            _check_standard_gradient(q, prior, rng)


def _check_divergence(q: Any, prior: Any) -> None:
    """The divergence of Gaussian blocks is that of dense algebra."""
    assert abs(prior.kl(prior)) <= 1e-9 * (1 + prior.mean.size), f"KL(p || p) of {prior} is {prior.kl(prior):g}."
    # Of a covariance that is hardly regular dense algebra itself knows less.
    rounding = np.finfo(float).eps * float(np.max(np.linalg.cond(q.cov)))
    _assert_close(q.kl(prior), _dense_kl(q, prior), "KL(q || p)", q, max(1e-8, rounding))


def _check_moments(q: Any) -> None:
    variance = np.diagonal(q.cov, axis1=-2, axis2=-1)
    _assert_close(q.std, np.sqrt(variance), "std against cov", q, 1e-9)
    _assert_close(q.variance, variance, "variance against cov", q, 1e-9)


def _check_plates(q: Any, prior: Any, rng: np.random.Generator) -> None:
    """Plates are taken and written like those of an array, and have a share of the divergence each."""
    if not q.array_dims or q.plate_axes < 1:
        return
    n = len(q.std)
    chosen, others = np.arange(n)[: max(n // 2, 1)], np.arange(n)[::-1][: max(n // 2, 1)]
    np.testing.assert_array_equal(q[chosen].std, q.std[chosen])
    wanted, new = np.array(q.std), q.copy()
    new.put(chosen, q[others])
    wanted[chosen] = q.std[others]
    np.testing.assert_array_equal(new.std, wanted)
    if prior is not None:
        _assert_close(q.kl_by_plate(prior).sum(), q.kl(prior), "divergence by plate", q, 1e-9)


def _check_messages(q: Any, prior: Any) -> None:
    """Prior times the message of the data is q, and q over the prior is that message again."""
    if prior is None or type(q).over is Family.over:
        return
    message = q.over(prior)
    back = prior.times(message)
    _assert_close(back.mean, q.mean, "mean of prior times message", q, 1e-8)
    _assert_close(back.std, q.std, "std of prior times message", q, 1e-8)
    if q.column != "gaussian":
        _assert_close(back.theta, q.theta, "prior times message", q, 1e-12)
    again = back.over(prior)
    for mine, its in zip(again.added(), message.added(), strict=True):
        mine, its = (part.dense() if hasattr(part, "dense") else part for part in (mine, its))
        _assert_close(mine, its, "message of prior times message", q, 1e-8)


def _scalars_close(found: Any, wanted: float, what: str, q: Any) -> None:
    """A mean of draws within four standard errors."""
    found = np.asarray(found)
    error = 4 * found.std() / np.sqrt(len(found)) + 1e-6 * (1 + abs(wanted))
    assert abs(found.mean() - wanted) <= error, (
        f"{what} of {type(q).__name__}: {found.mean():g} on average, not {wanted:g}."
    )


def _check_drawn(q: Any, rng: np.random.Generator, n: int = 1000) -> None:
    """Single draws have the mean and the variance; V is 1 on average; slopes at draws give derivatives of E f."""
    if type(q).drawn is Family.drawn and type(q).of_slopes is Family.of_slopes and not isinstance(q, PointMass):
        return
    asked_again(partial(_check_averages, q, rng), n)


def _check_averages(q: Any, rng: np.random.Generator, n: int) -> None:
    """What n single draws say on average."""
    draws = [q.drawn(rng) for _ in range(n)]
    weights = rng.uniform(0.5, 1.5, q.mean.shape)
    _scalars_close([np.sum(weights * d.value) for d in draws], float(np.sum(weights * q.mean)), "draws", q)
    squares = float(np.sum(weights * q.variance))
    _scalars_close([np.sum(weights * (d.value - q.mean) ** 2) for d in draws], squares, "spread of draws", q)
    if isinstance(q, Flat):
        gradient, direction = (rng.uniform(0.5, 1.5, q.theta.shape) for _ in range(2))
        found = [np.sum(direction * q.corrected(d, (gradient,))[0]) for d in draws]
        _scalars_close(found, float(np.sum(direction * gradient)), "V", q)
    if type(q).of_slopes is Family.of_slopes or (isinstance(q, Flat) and _without_slopes(q)):
        return
    for what, slope, wanted in _test_functions(q, weights, rng):
        _scalars_close([slope(d) for d in draws], wanted, f"gradient of {what} from slopes", q)


def _check_nodes(q: Any) -> None:
    """A rule of nodes knows means and variances, and its gradients from slopes are those from values."""
    if type(q).nodes is Family.nodes:
        return
    nodes = q.nodes()
    mean = nodes.average(nodes.value)
    _assert_close(mean, q.mean, "mean of nodes", q, 1e-7)
    _assert_close(nodes.average(np.square(nodes.value - mean)), q.variance, "variance of nodes", q, 1e-6)
    if q.slopes_at_nodes:
        # A wave as long as q is wide: no rule of finitely many nodes follows one that turns many times under it.
        unit = np.sqrt(q.variance)
        found = q.of_draws(nodes, lambda x: np.cos(x / unit))
        same = q.of_values(nodes, unit * np.sin(nodes.value / unit))
        for mine, its in zip(found, same, strict=True):
            _assert_close(mine, its, "gradient from slopes and from values at nodes", q, 1e-5)


def _without_slopes(q: Any) -> bool:
    return type(q).in_statistics is Flat.in_statistics


def _test_functions(q: Any, weights: Array, rng: np.random.Generator) -> list[tuple[str, Any, float]]:
    """Σ w x and Σ w x²: derivatives of E f along a direction, from slopes at one draw and exactly."""
    if isinstance(q, Flat):
        step = 1e-5
        high, low = q.at(q.standard_values + step), q.at(q.standard_values - step)
        rise = (high.moments - low.moments) / (2 * step)
        first, second = (np.sum(weights * f(high)) - np.sum(weights * f(low)) for f in (_mean, _square))

        def along(gradient: Any) -> float:
            return float(np.sum(gradient[0] * rise))

        exact = float(first) / (2 * step), float(second) / (2 * step)
    else:
        dm, ds = _directions_of(q, rng)
        bend = np.diagonal(ds, axis1=-2, axis2=-1) if q.full else ds

        def along(gradient: Any) -> float:
            curvature = gradient[1].dense() if hasattr(gradient[1], "dense") else gradient[1]
            return float(np.sum(gradient[0] * dm) + np.sum(curvature * ds))

        exact = float(np.sum(weights * dm)), float(np.sum(weights * (2 * q.mean * dm + bend)))
    return [
        ("E x", lambda draw: along(q.of_slopes(draw, weights)), exact[0]),
        ("E x²", lambda draw: along(q.of_slopes(draw, 2 * weights * draw.value)), exact[1]),
    ]


def _mean(q: Any) -> Array:
    return q.mean


def _square(q: Any) -> Array:
    return q.variance + np.square(q.mean)


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
        if isinstance(q, Normal):
            block = q if q.mean.ndim == 1 else q[plate]
            _assert_close(block.spread(directions), spread, "spread of rows", q, 1e-9)


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
    root = q.root if isinstance(q.root, np.ndarray) else np.swapaxes(np.linalg.cholesky(q.cov), -1, -2)
    return dm, np.swapaxes(root, -1, -2) @ (tilt + np.swapaxes(tilt, -1, -2)) @ root / 4


def _check_natural_gradient(q: Any, prior: Any, rng: np.random.Generator) -> None:
    """The step of the natural parameters is the gradient of the bound in the mean parameters (m, S + mmᵀ)."""
    from sksvi.algorithms.steps import natural_step

    q = q.natural_form()
    gradient = _random_gradient(q, rng)
    new = natural_step(q, prior, gradient, 1.0)
    dm, ds = _directions_of(q, rng)
    cross = q.mean[..., :, None] * dm[..., None, :] if q.full else q.mean * dm
    cross = cross + np.swapaxes(cross, -1, -2) if q.full else 2 * cross
    linear, quadratic = new.dot(new.mean) - q.dot(q.mean), -0.5 * (new.precision - q.precision)
    found = np.sum(linear * dm) + np.sum(quadratic * (ds + cross))
    high, low = (_linear_bound(_moved(q, dm, ds, share), prior, gradient) for share in (1e-4, -1e-4))
    _assert_close(found, (high - low) / 2e-4, "natural gradient", q, 1e-5)


def _check_standard_gradient(q: Any, prior: Any, rng: np.random.Generator) -> None:
    """The gradient in mean and C, S = CᵀC, by finite differences."""
    q = (q if isinstance(q, StandardGaussian) else q.natural_form()).standard()
    gradient = _random_gradient(q, rng)
    in_mean, in_root = q.standard_gradient(prior, gradient)
    dm, tilt = rng.standard_normal(q.mean.shape), rng.uniform(-1, 1, q.root.shape)
    dc = np.tril(tilt) if q.full else tilt
    unit = 1e-4 * q.std.min()
    high, low = (_linear_bound(type(q)(q.mean + s * dm, q.root + s * dc), prior, gradient) for s in (unit, -unit))
    found = np.sum(in_mean * dm) + np.sum(in_root * dc)
    _assert_close(found, (high - low) / (2 * unit), "standard gradient", q, 1e-5)


def _check_point(q: Any, rng: np.random.Generator) -> None:
    """A Newton step ends at the maximum of a quadratic plus the stored one, and `absorbed` stores the new one."""
    size = len(q.value)
    assert np.array_equal(q.sample(3), np.repeat(q.value[None], 3, axis=0)), "a point's draws are not the point."
    factor = rng.standard_normal((size, size + 2))
    hessian = -factor @ factor.T
    g = -hessian @ rng.uniform(-0.1, 0.1, size) + q.information @ (q.value - q.centre)
    new = q.moved(q.newton((g, hessian)), 1.0)
    left = g + hessian @ (new.value - q.value) - q.information @ (new.value - q.centre)
    _assert_close(left, np.zeros(size), "gradient after a Newton step", q, 1e-8)
    absorbed, delta = q.absorbed(hessian), 0.1 * rng.standard_normal(size)
    _assert_close(
        absorbed.moved(delta, 1.0).penalty(), 0.5 * delta @ (q.information - hessian) @ delta, "penalty", q, 1e-9
    )
    assert absorbed.penalty() == 0.0, "a point that has just absorbed its data pays a penalty."


def _check_flat(q: Any, prior: Any, rng: np.random.Generator, n: int = 20000) -> None:
    """A family with a vector of natural parameters: draws, coordinates, and gradients of a bound linear in moments."""
    from sksvi.algorithms.steps import natural_step

    delta = q.sample(n, int(rng.integers(2**31))) - q.mean
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
    rate = 1e-3  # a whole step along a gradient that no data gave may leave the family
    new = natural_step(q, prior, gradient, rate)
    along = np.sum((new.natural(q)[0] - q.natural(q)[0]) / rate * (high.moments - low.moments)) / (2 * step)
    _assert_close(along, slope, "natural gradient", q, 1e-6)
