"""Linear response of loadings: how the bound curves, and what follows where the answer is known."""

from __future__ import annotations

import numpy as np
import pytest

from sksvi import GammaFactorModel
from sksvi.families import Gamma, Point
from sksvi.integrals.gamma_nodes import orders
from sksvi.models.gamma_factor.density import Scatter, log_density, scatter_of
from sksvi.models.gamma_factor.model import MANY_POINTS, GammaFactors
from sksvi.models.gamma_factor.response import _bound_curvature, respond

K, D = 2, 4


def made(seed, noise_size):
    """A model, any q, and rows."""
    rng = np.random.default_rng(seed)
    shape = (K, D)
    known = {"noise": rng.uniform(0.3, 0.6, D)} if noise_size == 0 else {"noise_size": noise_size}
    floor = np.full(D, 0.05 if noise_size else 0.0)
    model = GammaFactors(K, D, **known, noise_floor=floor, prior_shape=0.5, prior_rate=2.0, seed=seed)
    q = {"loadings": Gamma(rng.uniform(0.3, 20.0, shape), rng.uniform(1.0, 20.0, shape))}
    if noise_size:
        q["noise"] = Point(rng.normal(-1.0, 0.2, noise_size))
    return model, q, scatter_of(rng.standard_normal((15, D)), True, 1)


@pytest.mark.costly
@pytest.mark.parametrize("noise_size", [0, 1, pytest.param(D, marks=pytest.mark.exhaustive)])
def test_the_curvature_is_that_of_the_bound(noise_size, global_random_seed):
    """By second differences of the bound itself, over the same points."""
    model, q, data = made(global_random_seed, noise_size)
    order, size = orders(MANY_POINTS, K * D, model.seed + 4), K * D
    first = np.concatenate([np.log(q["loadings"].mean).ravel(), np.log(q["loadings"].shape).ravel()])
    if noise_size:
        first = np.concatenate([first, q["noise"].value])

    def bound(at):
        shape = np.exp(at[size : 2 * size]).reshape(K, D)
        own = Gamma(shape, shape / np.exp(at[:size]).reshape(K, D))
        noise = model._noise_at(at[2 * size :])[0]
        return log_density(model.points(own, order)[0], noise, data).value.mean() - own.kl(model.prior(q)["loadings"])

    found, h = _bound_curvature(model, q, data), 1e-3
    steps = h * np.eye(len(first))
    direct = np.empty_like(found)
    for i, one in enumerate(steps):
        for j, other in enumerate(steps):
            corners = [a * b * bound(first + a * one + b * other) for a in (1, -1) for b in (1, -1)]
            direct[i, j] = -sum(corners) / (4 * h**2)
    # What curves by less than a thousandth says nothing, and second differences of it are rounding.
    unit = np.sqrt(np.maximum(np.abs(np.diag(direct)), 1e-3))
    np.testing.assert_allclose(found / np.outer(unit, unit), direct / np.outer(unit, unit), atol=2e-3)


def test_without_data_loadings_have_their_prior():
    model = GammaFactors(K, D, noise=np.full(D, 0.3), prior_shape=0.5, prior_rate=2.0)
    data = Scatter(1.0, np.zeros(D), np.zeros((D, D)), True)
    found = respond(model, {"loadings": model._prior}, data).loadings
    np.testing.assert_allclose(found.shape, 0.5, rtol=1e-6)
    np.testing.assert_allclose(found.rate, 2.0, rtol=1e-6)


def test_spreads_of_many_rows_are_those_of_maximum_likelihood(global_random_seed):
    """One factor: the inverse of the whole information, which q alone falls short of."""
    rng = np.random.default_rng(global_random_seed)
    truth, noise, n = np.array([[0.8, 1.0, 1.2, 0.9, 1.1]]), 0.2, 20_000
    X = rng.standard_normal((n, 1)) @ truth + np.sqrt(noise) * rng.standard_normal((n, 5))
    options = {"noise_variance": noise, "prior_shape": 1.0, "fit_mean": False, "random_state": 0}
    model = GammaFactorModel(1, **options).fit(X)
    L, inverse = truth[0], np.linalg.inv(np.outer(truth, truth) + noise * np.eye(5))
    information = n * (inverse * (L @ inverse @ L) + np.outer(inverse @ L, inverse @ L))
    known = np.sqrt(np.diag(np.linalg.inv(information)))
    np.testing.assert_allclose(model.summary()["std"], known, rtol=0.05)
    assert np.all(model.summary(linear_response=False)["std"] < 0.75 * known)
