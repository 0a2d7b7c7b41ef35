"""The bound of Gamma-Poisson factorization without auxiliary counts: exact values, gradients, Jensen's inequality."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import polygamma

from sksvi.algorithms.specs import CVI
from sksvi.families import Gamma, Point
from sksvi.inference import plan
from sksvi.inference.start import first_state
from sksvi.models.nmf.cells import cells, table
from sksvi.models.nmf.poisson import ROW_RATE, GammaPoisson, TightGammaPoisson

#: Nodes in log t of an integral over t > 0.
LOG_T = np.linspace(-40.0, 12.0, 1500)


def expected_log(a, b, c, d):
    """E log Σ_k u_k v_k, u_k ~ Gamma(a, b), v_k ~ Gamma(c, d): ∫ (e^-t - E e^-tS) / t dt, E over u in closed form."""
    nodes = Gamma(c, d).nodes()  # (64, K)
    t = np.exp(LOG_T)
    each = (nodes.weight * (1.0 + t[:, None, None] * nodes.value / b) ** -a).sum(1)
    return np.trapezoid(np.exp(-t) - each.prod(1), LOG_T)


def blocks(rng, K, F):
    """Some q."""
    return {
        "components": Gamma(rng.uniform(1.0, 3.0, (K, F)), rng.uniform(0.5, 2.0, (K, F))),
        "activation_rate": Point(np.log([0.8])),
        "component_rate": Point(np.log([1.4])),
    }


def at(model, q, X, local, seed=0):
    """Terms of rows at given (n1, c)."""
    data = table(cells(X))
    view = model.view(q, np.random.default_rng([seed, 1]))
    batch = model.batch(data, np.arange(len(X)), local)
    return model.terms(view, batch, None, np.random.default_rng([seed, 2])), batch


def test_the_expectation_that_tests_trust():
    one = Gamma([2.3], [0.7]), Gamma([1.4], [1.9])
    found = expected_log(one[0].shape, one[0].rate, one[1].shape, one[1].rate)
    assert found == pytest.approx((one[0].mean_log + one[1].mean_log)[0], rel=1e-6)


def test_one_cell_has_the_bound_of_its_definition(global_random_seed):
    """A cell and two components, against an integral; and no smaller than with auxiliary counts."""
    rng = np.random.default_rng(global_random_seed)
    q, y, b = blocks(rng, 2, 1), 4.0, 0.7
    model = TightGammaPoisson(2, 1, activation_shape=b)
    local = np.array([[1.5, 2.1, -0.2, 0.1]])
    W, r = q["components"], 0.8
    H = Gamma(b + local[0, :2], (r + W.mean[:, 0]) * (1.0 - local[0, 2:]))
    rest = -float(H.mean @ W.mean[:, 0]) - H.kl(Gamma([b, b], [r, r])) - np.log(24.0)
    exact = y * expected_log(H.shape, H.rate, W.shape[:, 0], W.rate[:, 0]) + rest
    auxiliary = y * np.log(np.exp(H.mean_log + W.mean_log[:, 0]).sum()) + rest
    model = model.replaced(n_draws=400)
    each = [at(model, q, np.array([[y]]), local, seed)[0].value[0] for seed in range(30)]
    assert abs(np.mean(each) - exact) < 4.0 * np.std(each) / np.sqrt(30)
    assert exact > auxiliary


def test_gradients_are_those_of_the_bound(global_random_seed):
    """Natural gradients of E y log Σ u v in u and v, on average over draws, against finite differences."""
    rng = np.random.default_rng(global_random_seed)
    q, y, b = blocks(rng, 2, 1), 3.0, 1.2
    model = TightGammaPoisson(2, 1, activation_shape=b)
    model = model.replaced(n_draws=400)
    local = np.array([[1.5, 2.1, 0.0, 0.0]])
    W = q["components"]
    H = Gamma(b + local[0, :2], 0.8 + W.mean[:, 0])
    here = np.array([H.shape, H.rate, W.shape[:, 0], W.rate[:, 0]])

    def natural(row):
        """Gradient in (E log, E) of the block in rows `row` and `row + 1` of `here`, by central differences."""
        found = np.empty((2, 2))
        for k in range(2):
            slopes = []
            for i in (row, row + 1):
                step = np.zeros_like(here)
                step[i, k] = 1e-4 * here[i, k]
                slopes.append(y * (expected_log(*(here + step)) - expected_log(*(here - step))) / (2 * step[i, k]))
            a, rate = here[row, k], here[row + 1, k]
            fisher = np.array([[polygamma(1, a), 1 / rate], [1 / rate, a / rate**2]])  # in (shape, -rate)
            found[k] = np.linalg.solve(fisher, [slopes[0], -slopes[1]])
        return found

    rows, components = [], []
    for seed in range(60):
        terms, batch = at(model, q, np.array([[y]]), local, seed)
        said = ((terms.local - (1.0 - ROW_RATE) * local) / ROW_RATE)[0].reshape(2, 2).T
        rows.append(said * np.stack([np.ones(2), H.rate], -1))
        gradient = model.pull_back(terms, batch)["components"][0][:, 0]
        components.append(gradient + np.stack([np.zeros(2), H.mean], -1))  # less what is linear
    for found, exact in ((rows, natural(0)), (components, natural(2))):
        error = np.std(found, 0) / np.sqrt(len(found))
        # Ratios of averages over draws are biased by 1 / 400 of their size at most.
        assert np.all(np.abs(np.mean(found, 0) - exact) < 4.0 * error + 5e-3 * np.abs(exact).max())


def test_no_smaller_than_with_auxiliary_counts(global_random_seed):
    """At one q: Jensen's inequality, row by row."""
    rng = np.random.default_rng(global_random_seed)
    X = rng.poisson(2.0, (12, 6)).astype(float)
    X[rng.random(X.shape) < 0.2] = np.nan
    q = blocks(rng, 3, 6)
    tight, auxiliary = TightGammaPoisson(3, 6), GammaPoisson(3, 6)
    tight.n_draws = 200
    data = table(cells(X))
    from sksvi.models.nmf.rows import RowVisit

    settled = auxiliary.settled(auxiliary.view(q, None), auxiliary.batch(data, np.arange(12)), RowVisit(3000, 0.0))
    local = np.concatenate([settled.local, np.zeros_like(settled.local)], 1)
    each = np.array([at(tight, q, X, local, seed)[0].value for seed in range(20)])
    error = each.std(0) / np.sqrt(20)
    assert np.all(each.mean(0) > settled.value - 4.0 * error)
    assert each.mean(0).sum() > settled.value.sum() + 4.0 * np.sqrt(np.square(error).sum())


def test_one_component_needs_no_draws(global_random_seed):
    """log u v = log u + log v: the step is that with auxiliary counts, whatever was drawn."""
    rng = np.random.default_rng(global_random_seed)
    X, q = rng.poisson(3.0, (5, 4)).astype(float), blocks(rng, 1, 4)
    model = TightGammaPoisson(1, 4)
    local = np.concatenate([X.sum(1, keepdims=True), np.zeros((5, 1))], 1)
    terms, batch = at(model, q, X, local)
    np.testing.assert_allclose(terms.local, local, rtol=1e-8, atol=1e-8)
    gradient = model.pull_back(terms, batch)["components"][0][0]
    np.testing.assert_allclose(gradient[:, 0], X.sum(0), rtol=1e-8)
    np.testing.assert_allclose(gradient[:, 1], -terms.exposure * np.ones(4), rtol=1e-8)


@pytest.mark.costly
def test_a_fit_goes_up_from_auxiliary_counts(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    X = rng.poisson(rng.gamma(0.4, 4.0, (60, 3)) @ rng.gamma(0.4, 2.0, (3, 10))).astype(float)
    options = {"mean": 0.5, "start": rng.gamma(0.5, 2.0, (4, 10))}
    first, then = GammaPoisson(4, 10, **options), TightGammaPoisson(4, 10, **options)
    then.n_draws = 100
    problem = plan.problem(first, table(cells(X)), CVI())
    state = plan.run(problem, first_state(problem, 0), 200, 1e-6)
    ends = [plan.run(plan.problem(then, problem.data, CVI(), threads=n), state, state.passes + 30, 0.0) for n in (1, 3)]
    # Each pass has draws of its own: what its bound is off by is independent of the others.
    after = np.array(ends[0].bounds[-20:])
    assert after.mean() > state.bound + 4.0 * after.std() / np.sqrt(20)
    np.testing.assert_array_equal(ends[0].q["components"].theta, ends[1].q["components"].theta)
