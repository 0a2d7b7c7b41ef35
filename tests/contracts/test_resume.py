"""Going on from a fit: partial_fit, warm_start, save and load, wide designs."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

import sksvi
from sksvi import BayesianGLMClassifier, BayesianGLMRegressor
from sksvi.algorithms import VARIATIONAL
from sksvi.likelihoods import Gaussian

STREAMING = [name for name in sorted(VARIATIONAL) if name != "fp"]


@pytest.fixture
def rng(global_random_seed):
    return np.random.default_rng(global_random_seed)


@pytest.fixture
def binary(rng):
    X = rng.standard_normal((400, 3))
    return X, np.where(X[:, 0] + rng.logistic(size=400) > 0, "yes", "no")


def equal(a, b):
    return np.array_equal(a.coef_, b.coef_) and np.array_equal(a.coef_std_, b.coef_std_)


def test_partial_fit_of_cvi_in_any_chunking_is_the_batch_fit(rng):
    X = rng.standard_normal((90, 3))
    y = X[:, 0] + rng.standard_normal(90)
    # The default prior of the intercept is about the mean of the first chunk.
    settings = {"prior_precision": 0.5, "intercept_precision": 1e-4}
    model = BayesianGLMRegressor(likelihood=Gaussian(variance=1.0), **settings, tol=1e-10)
    batch = clone(model).fit(X, y)
    for edges in ([0, 90], [0, 1, 40, 90], list(range(0, 91, 10))):
        stream = clone(model)
        for a, b in pairwise(edges):
            assert stream.partial_fit(X[a:b], y[a:b]) is stream
        np.testing.assert_allclose(stream.coef_, batch.coef_, rtol=1e-8)
        np.testing.assert_allclose(stream.posterior_["weights"].cov, batch.posterior_["weights"].cov, rtol=1e-8)
        np.testing.assert_allclose(stream.lower_bound_, batch.lower_bound_, rtol=1e-8)
        assert stream.n_samples_seen_ == 90 and stream.n_iter_ == len(edges) - 1


@pytest.mark.parametrize("algorithm", STREAMING)
@pytest.mark.parametrize("covariance", ["full", "diag"])
def test_partial_fit_comes_near_the_batch_fit(algorithm, covariance, binary):
    X, y = binary
    batch = BayesianGLMClassifier(prior_precision=1.0, covariance=covariance).fit(X, y)
    model = BayesianGLMClassifier(
        prior_precision=1.0,
        algorithm=algorithm,
        covariance=covariance,
        batch_size=50,
        total_samples=400,
        random_state=0,
    )
    for _ in range(1 if algorithm == "cvi" else 20):
        for chunk in np.split(np.arange(400), 4):
            model.partial_fit(X[chunk], y[chunk], classes=["no", "yes"])
    assert np.mean(model.predict(X) == batch.predict(X)) > 0.9
    assert np.all(np.isfinite(model.lower_bounds_)) and np.isfinite(model.lower_bound_)
    assert len(model.history_) == model.n_iter_ == (4 if algorithm == "cvi" else 80)


def test_first_chunk_fixes_the_classes(binary):
    X, y = binary
    with pytest.raises(ValueError, match="classes"):
        BayesianGLMClassifier().partial_fit(X, y)
    model = BayesianGLMClassifier(prior_precision=1.0).partial_fit(X[:1], y[:1], classes=["yes", "no"])
    assert list(model.classes_) == ["no", "yes"]
    model.partial_fit(X, y)
    before = dict(vars(model))
    with pytest.raises(ValueError, match="maybe"):
        model.partial_fit(X[:2], ["yes", "maybe"])
    with pytest.raises(ValueError, match="classes"):
        model.partial_fit(X, y, classes=["yes", "no", "maybe"])
    assert vars(model) == before
    three = BayesianGLMClassifier(prior_precision=1.0).partial_fit(X, y, classes=["maybe", "no", "yes"])
    assert three.predict_proba(X).shape == (400, 3)


def test_first_chunk_fixes_the_levels(rng):
    X = rng.standard_normal((60, 2))
    y = rng.integers(0, 3, 60)
    y[:3] = 0, 1, 2
    model = BayesianGLMRegressor(likelihood="ordinal").partial_fit(X, y)
    model.partial_fit(X[:5], np.zeros(5))
    np.testing.assert_array_equal(model.levels_, [0, 1, 2])
    with pytest.raises(ValueError, match="level"):
        model.partial_fit(X[:2], [0, 7])


def test_population_and_chunks(binary):
    X, y = binary
    model = BayesianGLMClassifier(algorithm="mc-ssvi", total_samples=4000, prior_precision=1.0)
    small = clone(model).set_params(total_samples=None)
    for _ in range(30):
        model.partial_fit(X, y, classes=["no", "yes"])
        small.partial_fit(X[:400], y[:400], classes=["no", "yes"], sample_weight=np.full(400, 0.5))
    assert model.n_samples_seen_ == 12000 and small.n_samples_seen_ == 6000
    assert np.all(model.coef_std_ < 0.5 * BayesianGLMClassifier(prior_precision=1.0).fit(X, y).coef_std_)


@pytest.mark.parametrize("algorithm", STREAMING)
def test_partial_fit_goes_on_after_fit_save_and_load(algorithm, binary, tmp_path):
    X, y = binary
    model = BayesianGLMClassifier(algorithm=algorithm, prior_precision=1.0, random_state=0)
    model.fit(X[:200], y[:200])
    model.save(tmp_path / "model.sksvi")
    loaded = sksvi.load(tmp_path / "model.sksvi")
    assert loaded.n_samples_seen_ == 200
    for one in (model, loaded):
        for part in (slice(200, 300), slice(300, 400)):
            one.partial_fit(X[part], y[part])
    assert equal(model, loaded) and model.lower_bound_ == loaded.lower_bound_ and model.n_samples_seen_ == 400
    if algorithm == "cvi":
        batch = BayesianGLMClassifier(prior_precision=1.0).fit(X, y)
        assert np.all(np.abs(model.coef_ - batch.coef_) < 0.3 * batch.coef_std_)
        np.testing.assert_allclose(model.coef_std_, batch.coef_std_, rtol=0.1)


def test_fit_after_partial_fit_starts_anew(binary):
    X, y = binary
    fresh = BayesianGLMClassifier().fit(X, y)
    model = BayesianGLMClassifier().partial_fit(X[:50], y[:50], classes=["no", "yes"])
    assert equal(model.fit(X, y), fresh) and model.n_samples_seen_ == 400


@pytest.mark.parametrize("algorithm", sorted(VARIATIONAL))
def test_warm_start_goes_on(algorithm, binary):
    X, y = binary
    settings = {"algorithm": algorithm, "prior_precision": 1.0, "random_state": 0, "tol": 0.0, "batch_size": None}
    with pytest.warns(ConvergenceWarning):
        whole = BayesianGLMClassifier(max_iter=6, **settings).fit(X, y)
        model = BayesianGLMClassifier(max_iter=3, warm_start=True, **settings).fit(X, y)
        first = model.lower_bound_
        model.fit(X, y)
    assert model.n_iter_ == 6 and len(model.lower_bounds_) == 6
    assert model.lower_bound_ >= first
    np.testing.assert_allclose(model.lower_bound_, whole.lower_bound_, rtol=1e-3)


def test_warm_start_of_a_converged_fit_is_short(binary):
    X, y = binary
    model = BayesianGLMClassifier(warm_start=True).fit(X, y)
    passes = model.n_iter_
    model.fit(X, y)
    assert model.n_iter_ <= passes + 3
    model.fit(X[:300], y[:300])
    cold = BayesianGLMClassifier().fit(X[:300], y[:300])
    np.testing.assert_allclose(model.lower_bound_, cold.lower_bound_, rtol=2e-3)


@pytest.mark.parametrize("algorithm", STREAMING)
@pytest.mark.parametrize("batch_size", [None, 100], ids=["whole", "batches"])
def test_a_converged_fit_goes_on_with_other_data(algorithm, batch_size, binary):
    """What settled one fit settles nothing on other rows, however the fit knew that it was done."""
    X, y = binary
    settings = {"algorithm": algorithm, "batch_size": batch_size, "prior_precision": 1.0, "random_state": 0}
    model = BayesianGLMClassifier(warm_start=True, tol=1e-3, **settings).fit(X, y)
    assert model.converged_
    passes, before = model.n_iter_, model.coef_.copy()
    model.fit(X, y)
    assert model.n_iter_ <= passes + 3
    passes = model.n_iter_
    other = np.where(y == model.classes_[0], *model.classes_[::-1])
    model.fit(X, other)
    cold = BayesianGLMClassifier(tol=1e-3, **settings).fit(X, other)
    assert model.n_iter_ > passes
    assert np.sign(model.coef_ @ before.T).item() == np.sign(cold.coef_ @ before.T).item() == -1.0
    np.testing.assert_allclose(model.lower_bound_, cold.lower_bound_, rtol=0.05)


@pytest.mark.parametrize("before", STREAMING)
@pytest.mark.parametrize("after", STREAMING)
def test_the_algorithm_may_change_between_fits(before, after, binary):
    X, y = binary
    model = BayesianGLMClassifier(algorithm=before, prior_precision=1.0, random_state=0, warm_start=True).fit(X, y)
    bound = model.lower_bound_
    model.set_params(algorithm=after, batch_size=100).partial_fit(X[:200], y[:200])
    assert np.all(np.isfinite(model.coef_std_))
    model.set_params(batch_size=None).fit(X, y)
    assert model.lower_bound_ > bound - 0.02 * abs(bound)


@pytest.mark.parametrize(
    ("name", "value"),
    [("likelihood", "probit"), ("covariance", "diag"), ("fit_intercept", False), ("prior_precision", "ard")],
)
def test_what_a_fit_that_goes_on_cannot_change(name, value, binary):
    X, y = binary
    model = BayesianGLMClassifier(warm_start=True).fit(X, y)
    before = dict(vars(model.set_params(**{name: value})))
    for go_on in (model.fit, model.partial_fit):
        with pytest.raises(ValueError, match=f"{name} was"):
            go_on(X, y)
    assert vars(model) == before
    model.set_params(warm_start=False).fit(X, y)


# ---- more columns than rows


def wide(rng, n=25, d=60):
    X = rng.standard_normal((n, d))
    return X, X[:, 0] - X[:, 1] + 0.3 * rng.standard_normal(n)


def test_wide_gaussian_is_exact(rng):
    X, y = wide(rng)
    for prior in (0.7, rng.uniform(0.5, 2.0, 60)):
        model = BayesianGLMRegressor(likelihood=Gaussian(variance=0.1), prior_precision=prior, intercept_precision=0.01)
        model.set_params(tol=1e-12).fit(X, y)
        A = np.column_stack([X, np.ones(25)])
        precision = np.diag(np.append(np.broadcast_to(prior, 60), 0.01)) + A.T @ A / 0.1
        cov = np.linalg.inv(precision)
        np.testing.assert_allclose(np.append(model.coef_, model.intercept_), cov @ A.T @ y / 0.1, rtol=1e-7, atol=1e-10)
        np.testing.assert_allclose(model.coef_std_, np.sqrt(np.diagonal(cov))[:-1], rtol=1e-8)
        np.testing.assert_allclose(model.posterior_["weights"].cov, cov, atol=1e-9)
        fresh = rng.standard_normal((5, 60))
        B = np.column_stack([fresh, np.ones(5)])
        np.testing.assert_allclose(model.predict_latent(fresh)[1], np.einsum("ij,jk,ik->i", B, cov, B), rtol=1e-8)
        sparse = clone(model).fit(sp.csr_matrix(X), y)
        np.testing.assert_allclose(sparse.coef_, model.coef_, rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(sparse.predict_latent(sp.csr_matrix(fresh))[1], model.predict_latent(fresh)[1])
        assert np.ndim(model.prior_precision_) == np.ndim(prior)
        np.testing.assert_allclose(model.prior_precision_, prior)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("algorithm", STREAMING)
@pytest.mark.parametrize("covariance", ["full", "diag"])
def test_wide_fits_stream_on(algorithm, covariance, rng, tmp_path):
    X, y = wide(rng)
    settings = {"prior_precision": 1.0, "algorithm": algorithm, "covariance": covariance, "max_iter": 1000}
    settings["intercept_precision"] = 1e-4
    model = BayesianGLMRegressor(likelihood=Gaussian(variance=0.1), random_state=0, **settings).fit(X, y)
    model.save(tmp_path / "wide.sksvi")
    loaded = sksvi.load(tmp_path / "wide.sksvi")
    assert equal(model, loaded) and np.array_equal(model.predict(X), loaded.predict(X))
    more, more_y = wide(rng, n=40)
    for one in (model, loaded):
        one.partial_fit(more, more_y)
        one.partial_fit(more[:1], more_y[:1])
    assert equal(model, loaded) and model.posterior_["weights"].mean.shape == (61,)
    assert np.all(np.isfinite(model.predict(X, return_std=True)))
    if algorithm == "cvi" and covariance == "full":
        rows, values = np.vstack([X, more, more[:1]]), np.concatenate([y, more_y, more_y[:1]])
        batch = BayesianGLMRegressor(likelihood=Gaussian(variance=0.1), **settings).fit(rows, values)
        np.testing.assert_allclose(model.coef_, batch.coef_, rtol=1e-6, atol=1e-8)
        np.testing.assert_allclose(model.coef_std_, batch.coef_std_, rtol=1e-6)


def test_wide_warm_starts(rng):
    X, y = wide(rng)
    model = BayesianGLMRegressor(prior_precision=1.0, warm_start=True).fit(X, y)
    passes, bound = model.n_iter_, model.lower_bound_
    assert model.fit(X, y).n_iter_ <= passes + 3 and model.lower_bound_ >= bound - 1e-6 * abs(bound)
    for rows in (slice(0, 20), slice(5, 25)):  # another subspace
        cold = BayesianGLMRegressor(prior_precision=1.0).fit(X[rows], y[rows])
        np.testing.assert_allclose(model.fit(X[rows], y[rows]).lower_bound_, cold.lower_bound_, rtol=3e-2)
    tall, tall_y = wide(rng, n=90)
    cold = BayesianGLMRegressor(prior_precision=1.0).fit(tall, tall_y)
    np.testing.assert_allclose(model.fit(tall, tall_y).lower_bound_, cold.lower_bound_, rtol=3e-2)
    np.testing.assert_allclose(  # and back
        model.fit(X, y).lower_bound_, BayesianGLMRegressor(prior_precision=1.0).fit(X, y).lower_bound_, rtol=3e-2
    )


@pytest.mark.costly
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("algorithm", STREAMING)
def test_wide_classes(algorithm, rng, tmp_path):
    X, value = wide(rng)
    y = np.digitize(value, [-0.7, 0.7])
    model = BayesianGLMClassifier(covariance="full", prior_precision=1.0, algorithm=algorithm, random_state=0).fit(X, y)
    assert model.coef_.shape == model.coef_std_.shape == (3, 60)
    assert model.posterior_["weights"].sample(2, random_state=0).shape == (2, 3, 61)
    np.testing.assert_allclose(model.predict_proba(X).sum(1), 1.0)
    model.save(tmp_path / "wide.sksvi")
    np.testing.assert_array_equal(sksvi.load(tmp_path / "wide.sksvi").predict_proba(X), model.predict_proba(X))
    model.partial_fit(X[:10], y[:10])
    assert np.all(np.isfinite(model.predict_proba(X)))
