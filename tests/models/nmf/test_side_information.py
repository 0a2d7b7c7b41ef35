"""Log-linear prior means: gradients and bound beside their definitions, and coefficients beside a gamma regression."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import GammaRegressor

from sksvi.algorithms.specs import SVI
from sksvi.families import Gamma, Gaussian
from sksvi.inference import plan
from sksvi.inference.engine import evaluate, exact_bound, whole
from sksvi.inference.start import first_state
from sksvi.models.nmf.cells import cells, table
from sksvi.models.nmf.overdispersed import OverdispersedPoisson
from sksvi.models.nmf.poisson import GammaPoisson
from sksvi.models.nmf.rows import SETTLE
from sksvi.models.nmf.side_information import COEFFICIENTS, Columns, SideInformation


def simulated(rng, n=40, F=25, K=2, kind=GammaPoisson):
    """Problem of counts whose factors depend on columns of rows and cells."""
    x, z = rng.standard_normal((n, 2)), rng.standard_normal((F, 1))
    H, W = rng.gamma(0.5, np.exp(x @ rng.standard_normal((2, K)))), rng.gamma(0.5, np.exp(0.5 * z), (F, K))
    found = replace(cells(rng.poisson(2.0 * H @ W.T).astype(float)), columns=x)
    start, side = rng.gamma(1.0, 1.0, (K, F)), SideInformation(2, Columns(z))
    model = kind(K, F, mean=found.mean / K, start=start, side=side).replaced(visit=SETTLE)
    return plan.problem(model, table(found), SVI())


@pytest.mark.parametrize("kind", [GammaPoisson, OverdispersedPoisson])
@pytest.mark.parametrize("name", COEFFICIENTS)
def test_gradients_are_those_of_the_bound(kind, name, global_random_seed):
    problem = simulated(np.random.default_rng(global_random_seed), kind=kind)
    state = plan.run(problem, first_state(problem, 0), 15, 0.0)
    rng, block = np.random.default_rng(global_random_seed + 1), state.q[name]
    away = Gaussian(block.mean + 0.3 * rng.standard_normal(block.mean.shape), 0.5 * block.precision)

    def data_part(mean, cov):
        """The bound at other coefficients, less what they pay for being away from their prior."""
        moved = Gaussian(mean, np.linalg.inv(cov))
        here = replace(state, q={**state.q, name: moved})
        return exact_bound(problem, here) + moved.kl(problem.model.prior(here.q)[name])

    at = replace(state, q={**state.q, name: away})
    for _ in range(20 if kind is OverdispersedPoisson else 1):  # events settle from look to look
        gradient, _ = evaluate(problem, at, whole(problem))
    in_mean, in_cov = gradient[name]
    step, bend = (1e-4 * rng.standard_normal(part.shape) for part in (away.mean, away.cov))
    bend = 0.1 * (bend + np.swapaxes(bend, 1, 2)) * away.variance.min()
    for mean, cov in ((step, 0.0), (0.0, bend)):
        change = data_part(away.mean + mean, away.cov + cov) - data_part(away.mean - mean, away.cov - cov)
        expected = 2.0 * (np.sum(in_mean * mean) + np.sum(in_cov * cov))
        np.testing.assert_allclose(change, expected, rtol=2e-3, atol=1e-7)


def test_the_bound_has_the_expected_divergence_from_the_prior(global_random_seed):
    """KL(q(W) ‖ prior given w), on average over w ~ q(w), is what the bound takes off for components."""
    rng = np.random.default_rng(global_random_seed)
    problem = simulated(rng)
    model, q = problem.model, first_state(problem, 0).q
    q["component_coefficients"] = block = Gaussian(rng.standard_normal((2, 1)), np.full((2, 1, 1), 4.0))
    paid = q["components"].kl(model.component_prior(q)) - model.hyper["component_precision"].log_density(q)
    rate, draws = np.exp(q["component_rate"].value[0]), block.sample(4000, np.random.RandomState(global_random_seed))
    each = []
    for w in draws:
        prior = Gamma(np.full(model.shape, 0.3), rate * np.exp(-w @ model.side.cells.values.T))
        each.append(q["components"].kl(prior))
    assert abs(np.mean(each) - paid) < 4.0 * np.std(each) / np.sqrt(len(each))


@pytest.mark.parametrize("kind", [GammaPoisson, OverdispersedPoisson])
def test_no_step_lowers_the_bound(kind, global_random_seed):
    problem = simulated(np.random.default_rng(global_random_seed), kind=kind)
    state = plan.run(problem, first_state(problem, 0), 60, 0.0)
    assert np.all(np.diff(state.bounds) >= -1e-9 * np.abs(state.bounds[1:]))
    assert state.bounds[-1] > state.bounds[0] + 1.0


def test_coefficients_are_those_of_a_gamma_regression(global_random_seed):
    """One component and many counts: factors are known, and a column that says nothing has a coefficient of zero."""
    rng, n = np.random.default_rng(global_random_seed), 1500
    x = rng.standard_normal((n, 3))
    H = rng.gamma(0.8, np.exp(x @ [1.0, -0.5, 0.0]))
    found = replace(cells(rng.poisson(3000.0 * H[:, None] * np.ones(4)).astype(float)), columns=x)
    model = GammaPoisson(1, 4, activation_shape=0.8, mean=found.mean, start=np.ones((1, 4)), side=SideInformation(3))
    problem = plan.problem(model, table(found), SVI())
    q = plan.run(problem, first_state(problem, 0), 100, 1e-8).q
    block = q["activation_coefficients"]
    reference = GammaRegressor(alpha=0.0, tol=1e-8).fit(x, np.maximum(H, 1e-12)).coef_
    np.testing.assert_allclose(block.mean[0, :2], reference[:2], atol=0.02)
    assert abs(block.mean[0, 2]) <= abs(reference[2]) + 0.01
    np.testing.assert_allclose(block.std[0, :2], 1.0 / np.sqrt(0.8 * n), rtol=0.2)
    assert np.exp(q["activation_precision"].value[2]) > 20.0
