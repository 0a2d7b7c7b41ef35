"""Sparse Gaussian processes of more than two classes: against the GLM, against two classes, and what users see."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, Matern

import sksvi
from sksvi import BayesianGLMClassifier, SparseGPClassifier, algorithms, expectations
from sksvi.inference import plan
from sksvi.inference.passes.line_search import run_until_settled
from sksvi.inference.search import Fitting
from sksvi.inference.start import first_state
from sksvi.integrals import race
from sksvi.likelihoods import Softmax
from sksvi.models.data import Table
from sksvi.models.gp.integrated import CollapsedSearch
from sksvi.models.gp.sparse import SparseGPModel
from sksvi.testing import check_model
from tests.gaussian_process.test_sparse import numerical

KERNEL = ConstantKernel(1.3) * RBF([0.8, 1.5]) + ConstantKernel(0.2) * Matern(1.0, nu=1.5)
FULL = pytest.mark.parametrize("full", [True, False], ids=["full", "diag"])
#: The rule for a softmax is quasi-Monte Carlo: its gradients are those of its values up to this (as in test_exact.py).
RULE_ERROR = 3e-2
FIXED = {"optimize_hyperparameters": False, "optimize_inducing": False, "tol": 1e-10}


def rows(seed, n=60, k=3):
    """Classes that a smooth function of two columns tells apart, with noise; every class present."""
    rng = np.random.default_rng([seed, 21])
    X = rng.uniform(-2, 2, (n, 2))
    f = np.column_stack([np.sin((1 + j) * X[:, 0]) + X[:, 1] * (j - 1) for j in range(k)])
    y = np.argmax(f + rng.gumbel(size=f.shape), axis=1)
    y[:k] = np.arange(k)
    return X, y


def problem_for(seed, full, weight=True, by="evidence", learn_inputs=True):
    X, y = rows(seed, 24)
    weight = np.random.default_rng(seed).uniform(0.5, 2.0, len(X)) if weight else None
    options = {"n_inducing": 5, "scale": X.std(axis=0), "full": full, "by": by, "learn_inputs": learn_inputs}
    model = SparseGPModel(Softmax(n_classes=3), KERNEL, **options)
    return plan.problem(model, Table(X, y, weight), algorithms.resolve("mc-ssvi"), expectations.resolve("auto"))


@FULL
def test_gradients_are_those_of_the_bound(full, global_random_seed):
    problem = problem_for(global_random_seed, full, by="gradient")
    check_model(problem.model, problem.data, tolerance=RULE_ERROR)


@pytest.mark.costly
@FULL
def test_the_search_follows_the_slope(full, global_random_seed, monkeypatch):
    # The slope is a small rest of a gradient ten times as long, of which the 192 points of a fit miss up to 1 / 400.
    monkeypatch.setattr(race, "LEVELS", ((np.inf, 2048),))
    problem = problem_for(global_random_seed, full)
    state = run_until_settled(problem, first_state(problem, 0), 50, 1e-10)
    search = CollapsedSearch(
        problem.model, Fitting(problem, state, lambda bound: False), ["kernel", "inputs"], problem.data
    )
    x = search.start()
    direction = np.random.default_rng(global_random_seed).standard_normal(len(x)) / np.sqrt(len(x))
    slope = search(x)[1] @ direction
    found = numerical(lambda t: search(x + t[0] * direction)[0], np.zeros(1), step=3e-3)[0]
    assert slope == pytest.approx(found, rel=2e-2, abs=5e-3)


@pytest.mark.parametrize("covariance", ["full", "diag"])
def test_a_linear_kernel_is_the_glm(covariance, global_random_seed):
    """With as many inducing points as columns nothing is left open: f = xᵀw, w ~ N(0, I)."""
    X, y = rows(global_random_seed)
    # In white coordinates at orthogonal points of unit length v is w itself, so that both "diag" are the same family.
    options = {"kernel": DotProduct(0.0, "fixed"), "inducing": np.eye(2), "covariance": covariance}
    model = SparseGPClassifier(**options, **FIXED).fit(X, y)
    glm = BayesianGLMClassifier(prior_precision=1.0, fit_intercept=False, covariance=covariance, tol=1e-10).fit(X, y)
    # A fit may stop where the rule's value and its gradient disagree: the spread is as good as that.
    assert model.lower_bound_ == pytest.approx(glm.lower_bound_, rel=1e-4)
    for found, wanted in zip(model.predict_latent(X), glm.predict_latent(X), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=RULE_ERROR, atol=2e-3)
    np.testing.assert_allclose(model.predict_proba(X), glm.predict_proba(X), atol=2e-3)
    np.testing.assert_allclose(model.posterior_.inducing.mean, glm.coef_, atol=2e-3)
    np.testing.assert_allclose(model.posterior_.inducing.std, glm.coef_std_, rtol=RULE_ERROR)


def test_softmax_of_two_classes_is_logit_with_twice_the_kernel(global_random_seed):
    """f_1 - f_0 is all that two classes feel, and a GP of variance k + k."""
    X, y = rows(global_random_seed, k=2)
    kernel = RBF([0.8, 1.5])
    options = {"n_inducing": 12, "random_state": 0, **FIXED}
    softmax = SparseGPClassifier(likelihood="softmax", kernel=kernel, **options).fit(X, y)
    logit = SparseGPClassifier(kernel=ConstantKernel(2.0) * kernel, **options).fit(X, y)
    np.testing.assert_array_equal(softmax.inducing_points_, logit.inducing_points_)
    assert softmax.lower_bound_ == pytest.approx(logit.lower_bound_, rel=1e-3)
    np.testing.assert_allclose(softmax.predict_proba(X), logit.predict_proba(X), atol=2e-3)


@pytest.mark.parametrize("batch_size", [None, 20], ids=["full batch", "mini-batch"])
@pytest.mark.parametrize("algorithm", ["cvi", "mc-ssvi", "h-mc-ssvi", "s-dsvi", "fp"])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_every_algorithm_nears_one_optimum(algorithm, batch_size, global_random_seed):
    if algorithm == "fp" and batch_size is not None:
        pytest.skip("works on all rows at once")
    X, y = rows(global_random_seed)
    options = {"kernel": RBF([0.8, 1.5]), "n_inducing": 8, "random_state": 0, **FIXED}
    best = SparseGPClassifier(**options).fit(X, y).lower_bound_
    options["tol"] = 1e-5
    model = SparseGPClassifier(algorithm=algorithm, batch_size=batch_size, max_iter=150, **options).fit(X, y)
    # Where the rule's gradient vanishes its value has not its maximum: a mean that is off by RULE_ERROR deviations in
    # each of 3 x 8 coordinates is below it by half the sum of their squares.
    above = 0.5 * 24 * RULE_ERROR**2
    assert best - (0.02 if algorithm != "s-dsvi" else 0.15) * abs(best) <= model.lower_bound_ <= best + above


@pytest.mark.costly
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_what_a_fit_leaves(tmp_path, global_random_seed):
    X, y = (part[::2] for part in load_iris(return_X_y=True))
    names = np.array(["setosa", "versicolor", "virginica"])[y]
    model = SparseGPClassifier(n_inducing=15, random_state=0, max_iter=150, tol=1e-3, n_jobs=1).fit(X, names)
    assert model.score(X, names) > 0.95 and list(model.classes_) == ["setosa", "versicolor", "virginica"]
    proba, (m, v) = model.predict_proba(X), model.predict_latent(X)
    assert proba.shape == m.shape == v.shape == (75, 3) and np.all(v > 0)
    np.testing.assert_allclose(proba.sum(axis=1), 1.0, atol=1e-12)
    assert model.decision_function(X).shape == (75, 3) and model.noise_variance_ is None
    assert model.posterior_.inducing.mean.shape == (3, 15) and model.posterior_.inducing.cov.shape == (3, 15, 15)
    assert model.posterior_.inducing.sample(4, 0).shape == (4, 3, 15)
    assert "f[2](inducing_points_[14])" in model.summary().index
    assert np.all(np.diff(model.lower_bounds_) > -1e-4 * abs(model.lower_bound_))
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(sksvi.load(tmp_path / "model").predict_proba(X), proba)
    # f at the inducing points is what the posterior says of them, which is q at the mode.
    model = clone(model).set_params(hyperparameters="point").fit(X, names)
    at = model.predict_latent(model.inducing_points_)
    np.testing.assert_allclose(at[0].T, model.posterior_.inducing.mean, atol=1e-4)
    np.testing.assert_allclose(np.sqrt(at[1]).T, model.posterior_.inducing.std, atol=1e-3)


@pytest.mark.costly
@pytest.mark.parametrize("algorithm", ["cvi", "mc-ssvi"])
def test_chunks(algorithm, global_random_seed):
    X, y = rows(global_random_seed, 600)
    model = SparseGPClassifier(algorithm=algorithm, kernel=RBF(), n_inducing=15, random_state=0, total_samples=600)
    for start in range(0, 600, 100):
        model.partial_fit(X[start : start + 100], y[start : start + 100], classes=[0, 1, 2])
    whole = SparseGPClassifier(kernel=RBF(), n_inducing=15, random_state=0).fit(X, y)
    assert model.score(X, y) > whole.score(X, y) - 0.06
    assert model.log_predictive_density(X, y).mean() > whole.log_predictive_density(X, y).mean() - 0.1


def test_errors_say_what_to_do():
    X, y = rows(0)
    with pytest.raises(ValueError, match="offset shifts every class alike"):
        SparseGPClassifier().fit(X, y, None, np.ones(60))
    with pytest.raises(ValueError, match="likelihood='probit' is binary, 'softmax' takes any number"):
        SparseGPClassifier(likelihood="probit").fit(X, y)
    with pytest.raises(ValueError, match="has 4 classes, y has 3"):
        SparseGPClassifier(likelihood=Softmax(n_classes=4)).fit(X, y)
    for bound in ("optimal", "v1", "v2"):
        with pytest.raises(ValueError, match=f"bound='{bound}' is for likelihood='gaussian'.*set bound='simple'"):
            SparseGPClassifier(bound=bound).fit(X, y)
    with pytest.raises(
        ValueError, match=r"noise_variance=0.1 is for likelihood='gaussian'.*leave noise_variance='auto'"
    ):
        SparseGPClassifier(noise_variance=0.1).fit(X, y)
    with pytest.raises(ValueError, match="'noise_variance' parameter of SparseGPClassifier must be"):
        SparseGPClassifier(noise_variance="none").fit(X, y)
