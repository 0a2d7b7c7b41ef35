"""The mixture of columns: exact where it can be, its noisy gradients against those of the structured bound."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import gammaln, logsumexp

from sksvi import algorithms
from sksvi.families import Beta, Dirichlet, Point
from sksvi.inference import engine, plan
from sksvi.inference.start import first_state
from sksvi.inference.state import State
from sksvi.models.data import Table
from sksvi.models.mixture.cells import ColumnGroups
from sksvi.models.mixture.model import MixtureModel


def table(sizes, n, seed, missing=0.0):
    rng = np.random.default_rng([seed, 30])
    codes = rng.integers(0, np.array(sizes), (n, len(sizes)))
    codes[rng.random(codes.shape) < missing] = -1
    return codes


def data_of(layout, codes, weight=None):
    return Table(layout.cells(codes), np.zeros(len(codes)), weight)


def evidence_of(model, codes):
    """log p(X) summed over all labels, weights and probabilities integrated out: by counts, no code of the model."""
    K, share, c = model.n_components, model.share, model.value_prior
    terms = []
    for labels in product(range(K), repeat=len(codes)):
        labels = np.array(labels)
        rows = np.bincount(labels, minlength=K)
        total = gammaln(K * share) - gammaln(K * share + len(codes)) + np.sum(gammaln(share + rows) - gammaln(share))
        for k, (d, m) in product(range(K), enumerate(model.layout.sizes)):
            its = codes[labels == k, d]
            counts = np.bincount(its[its >= 0], minlength=m)
            total += gammaln(m * c) - gammaln(m * c + counts.sum()) + np.sum(gammaln(c + counts) - gammaln(c))
        terms.append(total)
    return logsumexp(terms)


def settled(model, data, algorithm="svi", **options):
    problem = plan.problem(model, data, algorithms.resolve(algorithm), **options)
    return plan.run(problem, first_state(problem, 0), 300, 1e-10)


@pytest.mark.parametrize("sizes", [(2, 2, 2, 2), (2, 3, 1, 4, 3)])
def test_codes_come_back(sizes, global_random_seed):
    layout, codes = ColumnGroups(sizes), table(sizes, 40, global_random_seed, 0.3)
    np.testing.assert_array_equal(layout.codes(layout.cells(codes)), codes[:, layout.columns])
    assert layout.cells(np.abs(codes)).missing is None


@pytest.mark.parametrize(("sizes", "binary"), [((2, 2, 2), True), ((2, 3, 1, 3), False)])
def test_one_component_is_conjugate(sizes, binary, global_random_seed):
    """The bound is the log evidence, q the posterior."""
    codes = table(sizes, 30, global_random_seed, 0.2)
    model = MixtureModel(1, sizes, concentration=2.0, value_prior=0.6, binary=binary)
    state = settled(model, data_of(model.layout, codes))
    np.testing.assert_allclose(state.bound, evidence_of(model, codes), rtol=1e-10)
    d = 1  # its counts
    counts = np.bincount(codes[:, d][codes[:, d] >= 0], minlength=sizes[d])
    name = "probabilities" if binary else f"values_{sizes[d]}"
    at = list(model.names[name][1]).index(d)
    np.testing.assert_allclose(state.q[name].theta[0, at], 0.6 + counts, rtol=1e-12)


def test_the_bound_is_below_the_evidence_and_by_little(global_random_seed):
    """All labels of seven rows are summed over; the rows are two groups that cannot be mistaken."""
    rng = np.random.default_rng(global_random_seed)
    codes = np.where(rng.random((7, 30)) < np.where(np.arange(7) < 4, 0.03, 0.97)[:, None], 1, 0)
    model = MixtureModel(2, (2,) * 30, concentration=2.0)
    data = data_of(model.layout, codes)
    groups = np.eye(2)[(np.arange(7) >= 4).astype(int)]  # at which it starts

    def begin(data, rng, threads=1):
        return model.updated(model.counted(groups, data.X), {})

    state = settled(model.replaced(begin=begin), data)
    gap = evidence_of(model, codes) - state.bound
    # Labels may be swapped: a bound of one order of the components lacks log 2.
    assert 0.0 < gap < np.log(2.0) + 0.2


@pytest.mark.parametrize("algorithm", ["svi", "ssvi-a", "ssvi", "map", "cvi", "mc-ssvi"])
def test_rows_twice_are_weights_of_two(algorithm, global_random_seed):
    codes = table((2, 3, 2), 25, global_random_seed, 0.2)
    model = MixtureModel(4, (2, 3, 2), concentration=2.0, binary=False)
    weights = np.random.default_rng(global_random_seed).integers(1, 3, 25)
    found = []
    for data in (
        data_of(model.layout, codes, weights.astype(float)),
        data_of(model.layout, np.repeat(codes, weights, axis=0)),
    ):
        problem = plan.problem(model, data, algorithms.resolve(algorithm))
        found.append(plan.run(problem, first_state(problem, 0), 20, 0.0))
    np.testing.assert_allclose(found[0].bound, found[1].bound, rtol=1e-9)
    for name, block in found[0].q.items():
        np.testing.assert_allclose(block.theta, found[1].q[name].theta, rtol=1e-7)


def test_a_missing_cell_is_summed_over(global_random_seed):
    """At known probabilities, a row without a cell is the sum of the rows that it may be."""
    sizes, rng = (2, 3, 2), np.random.default_rng(global_random_seed)
    model = MixtureModel(3, sizes, binary=False)
    logs = {"weights": np.log(rng.dirichlet(np.ones(3)))}
    for name, (m, columns) in model.names.items():
        logs[name] = np.log(rng.dirichlet(np.ones(m), (3, len(columns))))
    view = model.view_of(logs)

    def density(row):
        return logsumexp(view.logs(model.layout.cells(np.array([row]))))

    whole = logsumexp([density([1, v, w]) for v, w in product(range(3), range(2))])
    np.testing.assert_allclose(density([1, -1, -1]), whole, rtol=1e-12)
    np.testing.assert_allclose(density([-1, -1, -1]), 0.0, atol=1e-12)


# ---- the prior count of each value
def learning(sizes=(2, 3, 1, 3), binary=False):
    """A model that learns c, and counts of its four components, one of them empty."""
    codes = table(sizes, 60, 7, 0.2)
    model = MixtureModel(4, sizes, concentration=2.0, learns_prior=True, binary=binary)
    shares = np.eye(4)[np.random.default_rng(8).integers(0, 3, 60)]
    return model, model.counted(shares, model.layout.cells(codes))


def worth(model, said, x):
    """log p(X | labels) + log p(log c): by counts, no code of the model."""
    c, total = np.exp(x), -0.5 * x**2
    for name in model.names:
        counts = said[name][0]
        m = counts.shape[-1]
        total += np.sum(gammaln(c + counts) - gammaln(c))
        total += np.sum(gammaln(m * c) - gammaln(m * c + counts.sum(-1)))
    return total


@pytest.mark.parametrize(("sizes", "binary"), [((2, 2, 2), True), ((2, 3, 1, 3), False)])
def test_the_prior_count_is_the_best_for_complete_data(sizes, binary):
    model, said = learning(sizes, binary)
    found = model.best_prior(said)["value_prior"].value[0]
    wanted = minimize_scalar(
        lambda x: -worth(model, said, x), bounds=(-5.0, 5.0), method="bounded", options={"xatol": 1e-7}
    ).x
    assert found == pytest.approx(wanted, abs=1e-4)
    assert abs(found) > 0.1
    assert not MixtureModel(4, sizes, binary=binary).best_prior(said)


@pytest.mark.parametrize("x", [-4.0, -1.0, 0.0, 1.0, 4.0])
def test_a_step_of_the_prior_count_gains_what_it_promises(x):
    model, said = learning()
    prior = {"value_prior": Point(np.array([x]))}
    step, gain = model.hyper["value_prior"].find(model.updated(said, prior))
    moved = x + step[0]
    assert worth(model, said, moved) - worth(model, said, x) >= gain - 1e-9 > 0.0
    # The slope there is that of the bound, by whose sign it goes.
    slope = (worth(model, said, x + 1e-5) - worth(model, said, x - 1e-5)) / 2e-5
    assert slope * step[0] > 0.0


def test_judged_steps_never_lower_the_bound_while_the_prior_count_moves(global_random_seed):
    sizes = (2, 3, 2, 3)
    codes = table(sizes, 50, global_random_seed, 0.1)
    model = MixtureModel(4, sizes, concentration=2.0, learns_prior=True, binary=False)
    data = data_of(model.layout, codes)
    problem = plan.problem(model, data, algorithms.resolve("svi"))
    state = plan.run(problem, first_state(problem, global_random_seed), 200, 1e-10)
    bounds = np.array(state.bounds[model.traits.warmup.full_batch :])
    assert np.all(np.diff(bounds) > -1e-9 * abs(bounds[-1]))
    assert state.q["value_prior"].value != 0.0


# ---- how rows see draws
def small():
    """Few rows and small concentrations, where a draw is far from its mean."""
    codes = table((2, 2, 2), 12, 5)
    model = MixtureModel(2, (2, 2, 2), concentration=1.0, value_prior=0.5)
    data = data_of(model.layout, codes)
    q = {
        "weights": Dirichlet(np.array([1.2, 0.8])),
        "probabilities": Beta(
            np.array([[0.7, 1.5, 0.9], [2.0, 0.6, 1.1]]), np.array([[1.1, 0.5, 2.0], [0.8, 1.4, 0.7]])
        ),
    }
    return model, data, q


def structured_slope(model, data, q, name, change, uniforms):
    """d/dθ E_β Σ_n log Σ_k of the rows along a change of one block's θ, by differences with common uniforms."""
    from scipy.stats import gamma

    def value(step):
        total = []
        for u in uniforms:
            logs, at = {}, 0
            for key, block in q.items():
                theta = block.theta + (step * change if key == name else 0.0)
                own = u[at : at + theta.size].reshape(theta.shape)
                at += theta.size
                g = np.log(gamma.ppf(own, theta))
                logs[key] = g - logsumexp(g, axis=-1, keepdims=True)
            total.append(logsumexp(model.view_of(logs).logs(data.X), axis=1).sum())
        return np.array(total)

    return (value(1e-4) - value(-1e-4)) / 2e-4


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", ["weights", "probabilities"])
def test_v_follows_the_structured_bound_and_without_it_gradients_are_biased(name):
    """F times the corrected counts is the bound's slope in θ; the expected counts of a draw alone are not."""
    model, data, q = small()
    rng, n = np.random.default_rng(3), 2000
    change = q[name].theta  # their concentration, whose slope is biased most
    size = sum(block.theta.size for block in q.values())
    slopes = structured_slope(model, data, q, name, change, rng.random((n, size)))
    found = {}
    for algorithm in ("ssvi", "ssvi-a"):
        problem = plan.problem(model, data, algorithms.resolve(algorithm))
        problem.warmup_globals = None
        steps = [
            np.sum(change * q[name].fisher(engine.evaluate(problem, State(q, seed), engine.whole(problem))[0][name][0]))
            for seed in range(n)
        ]
        found[algorithm] = np.mean(steps), np.std(steps) / n**0.5
    wanted, error = slopes.mean(), slopes.std() / n**0.5
    mean, noise = found["ssvi"]
    assert abs(mean - wanted) < 4.0 * np.hypot(noise, error)
    biased, noise = found["ssvi-a"]
    assert abs(biased - wanted) > 8.0 * np.hypot(noise, error)


def test_no_fit_ends_while_its_start_forms(global_random_seed):
    """Whatever `tol` is: only passes that see expectations say that nothing is left to gain."""
    codes = table((2, 2, 2, 2), 20, global_random_seed)
    model = MixtureModel(3, (2,) * 4, concentration=3.0)
    problem = plan.problem(model, data_of(model.layout, codes), algorithms.resolve("svi"))
    state = plan.run(problem, first_state(problem, global_random_seed), 100, 0.1)
    assert model.traits.warmup.full_batch <= state.passes < 100 and state.converged


def test_rows_see_means_first_and_their_bound_is_that_of_expectations(global_random_seed):
    codes = table((2, 2, 2, 2), 20, global_random_seed)
    model = MixtureModel(3, (2,) * 4, concentration=3.0)
    data = data_of(model.layout, codes)
    for algorithm in ("svi", "ssvi-a", "map"):
        problem = plan.problem(model, data, algorithms.resolve(algorithm))
        state = first_state(problem, global_random_seed)
        means = model.view_of({name: block.statistics(block.mean) for name, block in state.q.items()})
        shares = np.exp(means.logs(data.X) - logsumexp(means.logs(data.X), axis=1, keepdims=True))
        gradient, value = engine.evaluate(problem, state, engine.whole(problem))
        np.testing.assert_allclose(gradient["weights"][0], shares.sum(0), rtol=1e-12)
        logs = model.view(state.q, None).logs(data.X)
        np.testing.assert_allclose(value, np.sum(shares * (logs - np.log(shares))), rtol=1e-10)
