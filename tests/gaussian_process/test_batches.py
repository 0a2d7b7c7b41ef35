"""The full Gaussian process in batches of rows (Khan and Lin 2017, eq. 14): the fit of all rows, by other steps."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct

from sksvi import GPClassifier
from sksvi.algorithms import CVI
from sksvi.callbacks import Checkpoint
from sksvi.expectations import Auto
from sksvi.families import NotPositiveDefinite
from sksvi.families.gaussian.dual import SiteGaussian
from sksvi.likelihoods import Bernoulli, Binomial, Gaussian, NegativeBinomial, Ordinal, Poisson, StudentT
from sksvi.models.data import Table
from sksvi.models.gp.full import FullGP
from sksvi.persistence import load
from sksvi.schedules import Constant
from tests.cases import fitted, problem_for
from tests.gaussian_process.test_full import KERNEL, labels

SAME = 1e-6


def fixed(**options):
    return GPClassifier(**{"kernel": KERNEL, "optimize_hyperparameters": False, "tol": 1e-12, **options})


# ---- the update of a block
def sites(seed, n=9):
    """A kernel matrix, messages of which one is silent, and those after the messages of three latents have changed."""
    rng = np.random.default_rng([seed, 21])
    half = rng.standard_normal((n, n))
    linear, weights = rng.standard_normal(n), rng.uniform(0.1, 2.0, n)
    weights[3] = 0.0
    rows = np.array([1, 3, 6])
    after, heavier = linear.copy(), weights.copy()
    after[rows] += rng.standard_normal(3)
    heavier[rows] = rng.uniform(0.0, 3.0, 3)  # lighter ones too
    return half @ half.T, (linear, weights), rows, (after, heavier)


def block_of(K, linear, weights):
    new = SiteGaussian(K, linear, weights)
    return new.moved_by(new.against(linear) - linear)


def test_an_update_is_the_factored_block(global_random_seed):
    K, before, rows, after = sites(global_random_seed)
    whole = block_of(K, *after)
    by_one = block_of(K, *before).updated(rows, *after, (after[0] - before[0])[rows])
    half = [part.copy() for part in before]
    for part, new in zip(half, after, strict=True):
        part[rows[:2]] = new[rows[:2]]
    by_two = block_of(K, *before).updated(rows[:2], *half, (half[0] - before[0])[rows[:2]])
    by_two = by_two.updated(rows[2:], *after, (after[0] - before[0])[rows[2:]])
    prior = SiteGaussian(K)
    for found in (by_one, by_two):
        np.testing.assert_allclose(found.mean, whole.mean, atol=1e-9)
        np.testing.assert_allclose(found.dual, whole.dual, atol=1e-9)
        np.testing.assert_allclose(found.variance, whole.variance, atol=1e-9)
        assert found.log_det() == pytest.approx(whole.log_det(), abs=1e-9)
        assert found.kl(prior) == pytest.approx(whole.kl(prior), abs=1e-9)


def test_an_update_of_the_prior_and_of_all_latents(global_random_seed):
    K, _, _, after = sites(global_random_seed)
    found = SiteGaussian(K).updated(np.arange(9), *after, after[0])
    np.testing.assert_allclose(found.mean, block_of(K, *after).mean, atol=1e-9)
    np.testing.assert_allclose(found.variance, block_of(K, *after).variance, atol=1e-9)


def test_messages_that_leave_no_covariance_are_refused(global_random_seed):
    K, (linear, weights), rows, _ = sites(global_random_seed)
    less = weights.copy()
    less[rows] -= 50.0
    with pytest.raises(NotPositiveDefinite):
        block_of(K, linear, weights).updated(rows, linear, less, np.zeros(3))


# ---- the same fit
@pytest.mark.parametrize("batch_size", [1, 7, 40])
@pytest.mark.parametrize("likelihood", ["logit", "probit"])
def test_it_is_the_fit_of_all_rows(likelihood, batch_size, global_random_seed):
    X, y = labels(global_random_seed)
    rng = np.random.default_rng(global_random_seed)
    rows = {"sample_weight": rng.integers(0, 3, 60).astype(float), "offset": rng.standard_normal(60)}
    whole = fixed(likelihood=likelihood, tol=1e-15).fit(X, y, **rows)  # a gain of 4e-12 nats moves means by 1.5e-6
    model = fixed(likelihood=likelihood, batch_size=batch_size, random_state=global_random_seed).fit(X, y, **rows)
    latents, of_all = model.posterior_["latents"], whole.posterior_["latents"]
    np.testing.assert_allclose(latents.mean, of_all.mean, atol=SAME)
    np.testing.assert_allclose(latents.variance, of_all.variance, atol=SAME)
    assert model.lower_bound_ == pytest.approx(whole.lower_bound_, abs=SAME)
    assert model.converged_ and model.n_steps_ == model.n_iter_ * -(-len(model.X_train_) // batch_size)


LIKELIHOODS = {
    "logit": (Bernoulli(), lambda f, rng: (rng.random(len(f)) < 1 / (1 + np.exp(-f))).astype(float)),
    "probit": (Bernoulli(link="probit"), lambda f, rng: (f + rng.standard_normal(len(f)) > 0).astype(float)),
    "gaussian": (Gaussian(variance=0.3), lambda f, rng: f + rng.standard_normal(len(f))),
    "binomial": (Binomial(), lambda f, rng: np.column_stack([rng.poisson(2.0, len(f)), rng.poisson(np.exp(f))])),
    "poisson": (Poisson(), lambda f, rng: rng.poisson(np.exp(f)).astype(float)),
    "negative-binomial": (NegativeBinomial(dispersion=0.5), lambda f, rng: rng.poisson(np.exp(f)).astype(float)),
    "ordinal": (
        Ordinal(cut_points=[-1.0, 1.0]),
        lambda f, rng: np.digitize(f + rng.logistic(size=len(f)), [-1.0, 1.0]).astype(float),
    ),
}


@pytest.mark.parametrize("name", LIKELIHOODS)
def test_every_likelihood_of_one_latent(name, global_random_seed):
    likelihood, drawn = LIKELIHOODS[name]
    X, _ = labels(global_random_seed, 40)
    y = drawn(np.sin(1.5 * X[:, 0]), np.random.default_rng(global_random_seed))
    model, data = FullGP(likelihood, KERNEL, X, learned=False), Table(X, y)
    whole = fitted(problem_for(model, data, "cvi"), max_iter=2000, tol=1e-13)
    state = fitted(problem_for(model, data, "cvi", batch_size=9), max_iter=2000, tol=1e-13)
    np.testing.assert_allclose(state.q["latents"].mean, whole.q["latents"].mean, atol=SAME)
    np.testing.assert_allclose(state.q["latents"].variance, whole.q["latents"].variance, atol=SAME)
    assert state.bound == pytest.approx(whole.bound, abs=SAME) and state.converged


def steps_of_all_rows(likelihood, y, block, rate=0.5, passes=300):
    """Natural steps of all sites at once, cut at precisions of zero, that no bound judges."""
    linear, weights = block.dual + block.weights * block.mean, block.weights
    for _ in range(passes):
        _, alpha, gamma = Auto()(likelihood, y, block.mean, block.variance)
        target = np.maximum(-2.0 * gamma, 0.0)
        linear = linear + rate * (alpha + target * block.mean - linear)
        weights = weights + rate * (target - weights)
        block = block_of(block.prior_cov, linear, weights)
    return block


@pytest.mark.costly
def test_sites_of_a_likelihood_that_is_not_log_concave(global_random_seed):
    """Where sites are cut the judged steps of all rows stop by the largest bound, batches where a step is none."""
    X, _ = labels(global_random_seed, 40)
    y = np.sin(1.5 * X[:, 0]) + np.random.default_rng(global_random_seed).standard_t(3.0, 40)
    likelihood = StudentT(scale=0.5, df=4.0)
    model, data = FullGP(likelihood, KERNEL, X, learned=False), Table(X, y)
    whole = fitted(problem_for(model, data, "cvi"), max_iter=500, tol=1e-10)
    state = fitted(problem_for(model, data, "cvi", batch_size=9), max_iter=500, tol=1e-10)
    assert state.converged and state.bound <= whole.bound + SAME
    found, end = state.q["latents"], steps_of_all_rows(likelihood, y, whole.q["latents"])
    assert np.all(found.weights >= 0.0)
    np.testing.assert_allclose(found.mean, end.mean, atol=SAME)
    np.testing.assert_allclose(found.variance, end.variance, atol=SAME)


def test_a_singular_kernel(global_random_seed):
    X, y = labels(global_random_seed)
    whole = fixed(kernel=DotProduct()).fit(X, y)
    model = fixed(kernel=DotProduct(), batch_size=11, random_state=global_random_seed).fit(X, y)
    np.testing.assert_allclose(model.predict_proba(X), whole.predict_proba(X), atol=SAME)


@pytest.mark.parametrize("hyperparameters", ["integrated", "point"])
def test_learned_parameters_are_those_of_all_rows(hyperparameters, global_random_seed):
    X, y = labels(global_random_seed)
    options = {"hyperparameters": hyperparameters, "tol": 1e-9, "max_iter": 5000}
    whole = GPClassifier(**options).fit(X, y)
    model = GPClassifier(**options, batch_size=20, random_state=global_random_seed).fit(X, y)
    # Two searches that end within tol of one bound: its slope there is flat.
    assert model.lower_bound_ == pytest.approx(whole.lower_bound_, abs=1e-5)
    np.testing.assert_allclose(model.predict_proba(X), whole.predict_proba(X), atol=1e-4)
    assert (model._process.nodes is None) == (hyperparameters == "point")
    again = fixed(kernel=model.kernel_).fit(X, y)
    mode = model.state_.q["latents"]
    np.testing.assert_allclose(mode.mean, again.state_.q["latents"].mean, atol=1e-4)


def test_defaults_stop_by_themselves_close_to_the_optimum(global_random_seed):
    X, y = labels(global_random_seed)
    best = GPClassifier(tol=1e-8, max_iter=5000).fit(X, y).lower_bound_
    model = GPClassifier(batch_size=20, random_state=global_random_seed).fit(X, y)
    assert model.converged_ and model.lower_bound_ == pytest.approx(best, abs=0.05)


def test_repeats_are_weights_and_seeds_are_bits(global_random_seed):
    X, y = labels(global_random_seed)
    times = np.random.default_rng(global_random_seed).integers(0, 3, 60)
    options = {"batch_size": 8, "tol": 1e-6, "random_state": global_random_seed}
    weighted = fixed(**options).fit(X, y, sample_weight=times)
    repeated = fixed(**options).fit(np.repeat(X, times, 0), np.repeat(y, times))
    again = fixed(**options, n_jobs=2).fit(X, y, sample_weight=times)
    for other in (repeated, again):
        np.testing.assert_array_equal(other.predict_proba(X), weighted.predict_proba(X))
        assert other.lower_bound_ == weighted.lower_bound_
    assert fixed(**{**options, "random_state": 977}).fit(X, y).lower_bound_ != weighted.lower_bound_


@pytest.mark.parametrize("learned", [False, True])
def test_a_fit_that_was_cut_off_goes_on_to_the_same_bits(learned, tmp_path, global_random_seed):
    X, y = labels(global_random_seed, 40)
    options = {"batch_size": 9, "tol": 1e-5, "random_state": global_random_seed, "optimize_hyperparameters": learned}
    whole = fixed(**options).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cut = fixed(**{**options, "max_iter": 5}).set_callbacks(Checkpoint(tmp_path / "file", every=5))
        cut.fit(X, y)
    resumed = load(tmp_path / "file").set_params(warm_start=True, max_iter=1000).fit(X, y)
    np.testing.assert_array_equal(resumed.predict_proba(X), whole.predict_proba(X))
    assert resumed.lower_bound_ == whole.lower_bound_


def test_a_warm_start_begins_at_the_last_sites(global_random_seed):
    X, y = labels(global_random_seed)
    options = {"batch_size": 20, "random_state": global_random_seed, "warm_start": True}
    model = fixed(**options, tol=1e-8).fit(X, y)
    bound, passes = model.lower_bound_, model.n_iter_
    model.fit(X, y)
    assert model.lower_bound_ == bound and model.n_iter_ == passes
    y[0] = 1.0 - y[0]
    model.fit(X, y)
    assert model.n_iter_ > passes and model.lower_bounds_[passes] > model.lower_bounds_[0]
    assert model.lower_bound_ == pytest.approx(fixed(tol=1e-10).fit(X, y).lower_bound_, abs=1e-4)


# ---- drawn expectations, refusals
def test_drawn_expectations_and_batches_at_once(global_random_seed):
    X, y = labels(global_random_seed)
    exact = fixed().fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        noisy = fixed(expectation="monte-carlo", batch_size=20, tol=1e-4, random_state=global_random_seed).fit(X, y)
    assert exact.lower_bound_ - 0.5 < noisy.lower_bound_ <= exact.lower_bound_ + SAME


def test_bounds_of_passes_rise_to_the_last_one(global_random_seed):
    X, y = labels(global_random_seed)
    model = fixed(batch_size=20, random_state=global_random_seed).fit(X, y)
    assert model.lower_bounds_[-1] == pytest.approx(model.lower_bound_, abs=1e-4)
    checks = np.array(model.state_.progress.checks)
    assert np.all(np.diff(checks) > -SAME)


@pytest.mark.parametrize("algorithm", ["mc-ssvi", "fp"])
def test_other_algorithms_take_all_rows(algorithm, global_random_seed):
    X, y = labels(global_random_seed)
    with pytest.raises(ValueError, match=f"algorithm='{algorithm}' moves the messages of all rows.*choose 'cvi'"):
        fixed(algorithm=algorithm, batch_size=20).fit(X, y)
    fixed(algorithm=algorithm, batch_size=60).fit(X, y)


@pytest.mark.costly
def test_the_rate_is_the_users(global_random_seed):
    """A rate of one has no cure for sites that overshoot, as with few rows in a wide prior; a third of it has."""
    X, y = labels(global_random_seed)
    kernel = ConstantKernel(1e4) * RBF(0.3)
    options = {"kernel": kernel, "batch_size": 10, "random_state": global_random_seed, "max_iter": 400, "tol": 1e-9}
    whole = fixed(kernel=kernel, tol=1e-10).fit(X, y)
    damped = fixed(**options, algorithm=CVI(Constant(0.3))).fit(X, y)
    assert damped.lower_bound_ == pytest.approx(whole.lower_bound_, abs=1e-4)
