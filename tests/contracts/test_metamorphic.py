"""What may not matter: weights for repeats, order of rows and columns, names of classes, units of X and y."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

from sksvi import BayesianGLMClassifier, BayesianGLMRegressor, DynamicGLM, GMERegressor, SparseGPRegressor
from sksvi.algorithms import VARIATIONAL
from sksvi.likelihoods import Gaussian, StudentT
from tests.cases import REGRESSORS

N, D = 50, 3
# Rounding alone may differ; a fit that ends a pass sooner differs by what its tolerance leaves.
CLOSE = {"rtol": 1e-6, "atol": 1e-8}


@pytest.fixture
def rng(global_random_seed):
    return np.random.default_rng([global_random_seed, 1])


def target(likelihood, X, rng):
    f = 0.8 * X[:, 0] - 0.4
    if likelihood in ("gaussian", "student-t"):
        return f + 0.5 * rng.standard_normal(len(X))
    if likelihood in ("logit", "probit"):
        return (f + rng.logistic(size=len(X)) > 0) * 1.0
    if likelihood == "binomial":
        wins = rng.binomial(5, 1 / (1 + np.exp(-f)))
        return np.column_stack([wins, 5 - wins])
    if likelihood == "ordinal":
        return np.digitize(f + rng.logistic(size=len(X)), [-0.7, 0.7]) * 1.0
    return rng.poisson(np.exp(f)) * 1.0


def model_for(likelihood, **settings):
    """An estimator for the likelihood: labels ("softmax") go to the classifier."""
    if likelihood in ("softmax", "labels"):
        return BayesianGLMClassifier(**settings)
    return BayesianGLMRegressor(likelihood=likelihood, **settings)


def data_for(likelihood, rng, n=N, d=D):
    X = rng.standard_normal((n, d))
    if likelihood == "softmax":
        return X, np.argmax(X[:, :1] * [-1.0, 0.0, 1.0] + rng.gumbel(size=(n, 3)), axis=1)
    return X, target("logit" if likelihood == "labels" else likelihood, X, rng)


def assert_agree(a, b, columns=slice(None), close=CLOSE):
    """Both fits have the same posterior; `columns` of the second belong to those of the first."""
    # Fits that creep for many passes add up what sums of other orders round to: nothing beside a standard deviation.
    atol = max(close.get("atol", 0.0), 1e-5 * float(np.min(a.coef_std_)))
    np.testing.assert_allclose(a.coef_, b.coef_[..., columns], **(close | {"atol": atol}))
    np.testing.assert_allclose(a.coef_std_, b.coef_std_[..., columns], **close)
    np.testing.assert_allclose(a.intercept_, b.intercept_, **close)
    np.testing.assert_allclose(a.lower_bound_, b.lower_bound_, rtol=1e-7)


# ---- weights and rows


@pytest.mark.parametrize("covariance", ["full", "diag"])
@pytest.mark.parametrize("likelihood", [*REGRESSORS, "labels", "softmax"])
@pytest.mark.parametrize("d", [3, pytest.param(80, marks=pytest.mark.exhaustive)])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore:Student's t has")  # of so few rows, some of them thrice, most may be fitted
@pytest.mark.filterwarnings("ignore:y varies .* times as much as:UserWarning")  # by offsets that y lacks
def test_weights_are_repeats_and_zero_weights_remove(likelihood, covariance, d, rng):
    X, y = data_for(likelihood, rng, n=30, d=d)
    counts = rng.integers(0, 4, 30)
    counts[:3] = 0, 1, 2
    offset = None if likelihood == "softmax" else rng.normal(size=30)
    model = model_for(likelihood, covariance=covariance, max_iter=40)
    weighted = clone(model).fit(X, y, sample_weight=counts, offset=offset)
    again = np.repeat(np.arange(30), counts)
    repeated = clone(model).fit(X[again], y[again], offset=None if offset is None else offset[again])
    assert_agree(weighted, repeated)
    assert weighted.n_samples_seen_ == repeated.n_samples_seen_ == counts.sum()
    kept = counts > 0
    removed = clone(model).fit(X[kept], y[kept], counts[kept], None if offset is None else offset[kept])
    np.testing.assert_array_equal(removed.coef_, weighted.coef_)
    assert removed.lower_bound_ == weighted.lower_bound_
    if likelihood not in ("ordinal", "labels", "softmax"):
        whole = weighted.score(X, y, sample_weight=counts, offset=0)
        assert whole == pytest.approx(weighted.score(X[again], y[again], offset=0))


def test_few_rows_of_large_weight_are_many():
    """The prior of an intercept, which fewer than twenty measured rows leave wide, and rows that weights may fit."""
    rng = np.random.default_rng(13)
    X, y = data_for("gaussian", rng, n=8)
    weighted = model_for("gaussian").fit(X, y, sample_weight=np.full(8, 3.0))
    assert_agree(weighted, model_for("gaussian").fit(np.repeat(X, 3, axis=0), np.repeat(y, 3)))


@pytest.mark.parametrize("algorithm", sorted(VARIATIONAL))
@pytest.mark.parametrize("likelihood", ["labels", "gaussian", "poisson"])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_weights_are_repeats_for_every_algorithm(likelihood, algorithm, rng):
    X, y = data_for(likelihood, rng)
    counts = rng.integers(0, 4, N)
    # Columns that are centred leave the intercept, at its best from the start, gradients that are rounding alone.
    model = model_for(likelihood, algorithm=algorithm, batch_size=None, max_iter=30)
    again = np.repeat(np.arange(N), counts)
    assert_agree(clone(model).fit(X, y, sample_weight=counts), clone(model).fit(X[again], y[again]))


def test_weights_of_a_chunk_are_repeats(rng):
    X, y = data_for("poisson", rng)
    counts = rng.integers(0, 4, N)
    again = np.repeat(np.arange(N), counts)
    for algorithm in ("cvi", "mc-ssvi"):
        model = model_for("poisson", algorithm=algorithm, prior_precision=1.0)
        weighted, repeated = clone(model), clone(model)
        for _ in range(2):
            weighted.partial_fit(X, y, sample_weight=counts)
            repeated.partial_fit(X[again], y[again])
        assert_agree(weighted, repeated)


@pytest.mark.parametrize("likelihood", [*REGRESSORS, "labels", "softmax"])
def test_order_of_rows_and_columns(likelihood, rng):
    X, y = data_for(likelihood, rng)
    # The order of the columns is that of the points of no rule, but for the softmax's pairs of classes.
    model = model_for(likelihood).fit(X, y)
    rows, columns = rng.permutation(N), rng.permutation(D)
    shuffled = clone(model).fit(X[rows], y[rows])
    assert_agree(shuffled, model)
    assert_agree(clone(model).fit(X[:, columns], y), model, columns)
    np.testing.assert_allclose(shuffled.predict(X[rows]), model.predict(X)[rows], rtol=1e-5, atol=1e-8)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("d", [3, 80])
@pytest.mark.parametrize("prior", ["ard", "auto", "array"])
def test_order_of_columns_under_other_priors(prior, d, rng):
    X, y = data_for("poisson", rng, n=40, d=d)
    columns = rng.permutation(d)
    precision = rng.uniform(0.5, 2.0, d) if prior == "array" else prior
    # Useless columns leave at a pace of their own: until they have left, the bound depends on when a fit ends.
    end = {"tol": 1e-6, "max_iter": 2000} if prior == "ard" else {}
    model = BayesianGLMRegressor(likelihood="poisson", prior_precision=precision, **end).fit(X, y)
    turned = clone(model).set_params(prior_precision=precision[columns] if prior == "array" else prior)
    turned.fit(X[:, columns], y)
    if prior == "ard":
        np.testing.assert_allclose(turned.lower_bound_, model.lower_bound_, rtol=1e-4)
    else:
        assert_agree(turned, model, columns, close={"rtol": 1e-5, "atol": 1e-6})


# ---- names


def test_names_of_classes(rng):
    for kind in ("labels", "softmax"):
        X, y = data_for(kind, rng)
        y = y.astype(int)
        model = BayesianGLMClassifier().fit(X, y)
        for names in (
            ["a", "b", "c"],
            [-5, 0, 7],
            [-2.0, 1.0, 7.0],
            [False, True, True][: 2 if kind == "labels" else 0],
        ):
            if len(names) <= y.max():
                continue
            named = BayesianGLMClassifier().fit(X, np.array(names)[y])
            np.testing.assert_array_equal(named.coef_, model.coef_)
            np.testing.assert_array_equal(named.predict(X), np.array(names)[model.predict(X)])
            if isinstance(names[0], str):
                objects = BayesianGLMClassifier().fit(X, np.array(names, dtype=object)[y])
                np.testing.assert_array_equal(objects.coef_, model.coef_)


def test_swapped_classes(rng):
    X, y = data_for("labels", rng)
    model, swapped = BayesianGLMClassifier().fit(X, y), BayesianGLMClassifier().fit(X, 1 - y)
    np.testing.assert_allclose(swapped.coef_, -model.coef_, **CLOSE)
    np.testing.assert_allclose(swapped.predict_proba(X)[:, ::-1], model.predict_proba(X), rtol=1e-5)
    X, y = data_for("softmax", rng)
    order = np.array([2, 0, 1])
    model, turned = BayesianGLMClassifier().fit(X, y), BayesianGLMClassifier().fit(X, order[y])
    # The rule over several classes has points of its own for every order: it agrees to its error.
    np.testing.assert_allclose(turned.coef_[order], model.coef_, atol=0.05 * model.coef_std_.max())
    np.testing.assert_allclose(turned.predict_proba(X)[:, order], model.predict_proba(X), atol=5e-3)


def test_names_of_levels(rng):
    X, y = data_for("ordinal", rng)
    model = BayesianGLMRegressor(likelihood="ordinal").fit(X, y)
    other = BayesianGLMRegressor(likelihood="ordinal").fit(X, np.array([-3.0, 10.0, 11.0])[y.astype(int)])
    np.testing.assert_array_equal(other.coef_, model.coef_)
    np.testing.assert_array_equal(other.predict_proba(X), model.predict_proba(X))
    reversed_ = BayesianGLMRegressor(likelihood="ordinal").fit(X, -y)
    np.testing.assert_allclose(reversed_.coef_, -model.coef_, rtol=2e-2, atol=1e-3)


# ---- units


@pytest.mark.parametrize("likelihood", [*REGRESSORS, "labels", "softmax"])
@pytest.mark.parametrize("covariance", ["full", "diag"])
def test_units_of_X_with_its_prior(likelihood, covariance, rng):
    X, y = data_for(likelihood, rng)
    unit = np.array([1e-3, 4.0, 250.0])
    precision = np.array([1.0, 0.5, 2.0])
    model = model_for(likelihood, covariance=covariance, prior_precision=precision).fit(X, y)
    scaled = clone(model).set_params(prior_precision=precision * unit**2).fit(X * unit, y)
    np.testing.assert_allclose(scaled.coef_ * unit, model.coef_, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(scaled.coef_std_ * unit, model.coef_std_, rtol=1e-4)
    np.testing.assert_allclose(scaled.lower_bound_, model.lower_bound_, rtol=1e-6)
    np.testing.assert_allclose(scaled.predict_latent(X * unit)[1], model.predict_latent(X)[1], rtol=1e-4)


@pytest.mark.parametrize("unit", [1e-3, 1e4])
@pytest.mark.parametrize("algorithm", ["cvi", "fp"])
def test_units_of_X_are_found_by_a_learned_prior(algorithm, unit, rng):
    X, y = data_for("gaussian", rng)
    settings = {"likelihood": Gaussian(variance=0.25), "algorithm": algorithm, "tol": 1e-8}
    model = BayesianGLMRegressor(**settings).fit(X, y)
    scaled = BayesianGLMRegressor(**settings).fit(X * unit, y)
    np.testing.assert_allclose(scaled.coef_ * unit, model.coef_, rtol=1e-2)
    np.testing.assert_allclose(scaled.lower_bound_, model.lower_bound_, rtol=1e-4)


@pytest.mark.parametrize("unit", [1e-3, 1e3])
def test_units_of_y(unit, rng):
    X, y = data_for("gaussian", rng)
    for likelihood, other in (
        (Gaussian(variance=0.25), Gaussian(variance=0.25 * unit**2)),
        (StudentT(scale=0.5, df=4.0), StudentT(scale=0.5 * unit, df=4.0)),
        (Gaussian(), Gaussian()),
        (StudentT(), StudentT()),
    ):
        model = BayesianGLMRegressor(likelihood=likelihood, prior_precision=1.0, tol=1e-8).fit(X, y)
        scaled = BayesianGLMRegressor(likelihood=other, prior_precision=1.0 / unit**2, tol=1e-8).fit(X, y * unit)
        np.testing.assert_allclose(scaled.coef_ / unit, model.coef_, rtol=1e-3, atol=1e-4)
        np.testing.assert_allclose(scaled.predict_interval(X) / unit, model.predict_interval(X), rtol=1e-3, atol=1e-3)
        np.testing.assert_allclose(scaled.lower_bound_ + N * np.log(unit), model.lower_bound_, rtol=1e-6)


def test_offset_is_a_column_whose_coefficient_is_one(rng):
    """With a prior that holds it there: w = 1 + u, u ~ N(0, tiny), is offset z plus column z."""
    X, y = data_for("poisson", rng)
    z = rng.normal(size=N)
    model = BayesianGLMRegressor(likelihood="poisson", prior_precision=1.0).fit(X, y, offset=z)
    held = BayesianGLMRegressor(likelihood="poisson", prior_precision=[1.0, 1.0, 1.0, 1e14])
    held.fit(np.column_stack([X, z]), y, offset=z)
    assert_agree(model, held, slice(0, 3), close={"rtol": 1e-4, "atol": 1e-6})


@pytest.mark.filterwarnings("ignore:y varies:UserWarning")  # as counts times an exposure do
def test_a_constant_offset_is_an_intercept(rng):
    X, y = data_for("poisson", rng)
    model = BayesianGLMRegressor(likelihood="poisson", prior_precision=1.0, intercept_precision=1e-10, tol=1e-8)
    plain, moved = clone(model).fit(X, y), clone(model).fit(X, y, offset=3.0)
    np.testing.assert_allclose(moved.intercept_ + 3.0, plain.intercept_, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(moved.coef_, plain.coef_, rtol=1e-3, atol=1e-4)
    exposure = rng.uniform(1, 5, N)  # frequencies with weights are counts with an exposure
    counts = clone(model).fit(X, np.round(y * exposure), offset=np.log(exposure))
    rates = clone(model).fit(X, np.round(y * exposure) / exposure, sample_weight=exposure)
    np.testing.assert_allclose(rates.coef_, counts.coef_, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("likelihood", ["labels", "poisson", "gaussian"])
def test_sparse_rows_are_dense_ones_but_for_the_default_intercept(likelihood, rng):
    X, y = data_for(likelihood, rng, n=200, d=8)
    X *= rng.random(X.shape) < 0.4
    y = target("logit" if likelihood == "labels" else likelihood, X, rng)
    for options, allowed in (({"intercept_precision": 1e-3}, 1e-6), ({"fit_intercept": False}, 1e-6), ({}, 1e-3)):
        model = model_for(likelihood, tol=1e-8, **options)
        dense, sparse = clone(model).fit(X, y), clone(model).fit(sp.csr_array(X), y)
        assert np.max(np.abs(dense.coef_ - sparse.coef_) / dense.coef_std_) < allowed


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_column_in_a_unit_too_large_for_squares_is_told(rng):
    """1e-160 divided by itself squared: NumPy's own warning, and a standard deviation of infinity."""
    X, y = data_for("gaussian", rng)
    process = SparseGPRegressor(n_inducing=5, max_iter=5, random_state=0)
    for model in (BayesianGLMRegressor(), GMERegressor(), DynamicGLM(likelihood="gaussian"), process):
        for scale in (1e-160, 1e-300):
            with pytest.warns(UserWarning, match=r"column 1 spreads over \S+, whose square is hardly a number") as told:
                model.fit(X * [1.0, scale, 1.0], y)
            assert len([one for one in told if one.category is UserWarning]) == 1
            assert np.all(np.isfinite(model.predict(X * [1.0, scale, 1.0], return_std=True)))


@pytest.mark.filterwarnings("ignore:noise is larger where column")
@pytest.mark.parametrize("method", ["fit", "partial_fit"])
@pytest.mark.parametrize("likelihood", ["gaussian", "poisson", "labels"])
@pytest.mark.filterwarnings("ignore:column 0 .and 2 more. spreads over")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_rows_whose_squares_are_nothing_tell_nothing(likelihood, method, rng):
    """NumPy's own warnings are errors here: information of 1e-320 was divided by."""
    X, y = data_for(likelihood, rng)
    options = {} if method == "fit" or likelihood != "labels" else {"classes": [0, 1]}
    model = getattr(model_for(likelihood), method)(1e-160 * X, y, **options)
    assert np.all(np.isfinite(model.summary()[["mean", "std"]].to_numpy()))


# ---- any small data


@pytest.mark.costly
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore:y is .* in (all|every)")
@pytest.mark.filterwarnings("ignore:Student's t has .* degrees of freedom")
@pytest.mark.filterwarnings("ignore:y varies .* times as much as:UserWarning")  # few counts, drawn from no likelihood
@pytest.mark.parametrize("examples", [6, pytest.param(200, marks=pytest.mark.exhaustive)])
def test_any_small_data(examples):
    settings(max_examples=examples, deadline=None, derandomize=True)(given(data=st.data())(assert_of_any_small_data))()


def assert_of_any_small_data(data):
    """Finite numbers, a bound that its own q earns, weights that are repeats, sparse as dense."""
    n, d = data.draw(st.integers(2, 12)), data.draw(st.integers(1, 15))
    numbers = st.floats(-100, 100, allow_nan=False, width=32)
    X = np.array(data.draw(st.lists(st.lists(numbers, min_size=d, max_size=d), min_size=n, max_size=n)))
    y = np.array(data.draw(st.lists(st.integers(0, 20), min_size=n, max_size=n)), float)
    weight = np.array(data.draw(st.lists(st.integers(1, 3), min_size=n, max_size=n)))
    likelihood = data.draw(st.sampled_from(["gaussian", "poisson", "negative-binomial", "student-t"]))
    # One number for all columns, and about zero: sparse columns are not centred, dense ones would be.
    precision = np.ones(d)
    model = BayesianGLMRegressor(
        likelihood=likelihood, prior_precision=precision, intercept_precision=1e-4, max_iter=20
    )
    weighted = clone(model).fit(X, y, sample_weight=weight)
    mean, std = weighted.predict(X, return_std=True)
    for values in (mean, weighted.coef_, weighted.coef_std_, weighted.lower_bounds_):
        assert np.all(np.isfinite(values))
    # A Student-t that may have at most two degrees of freedom has no variance.
    learned = getattr(weighted.likelihood_, "df", np.inf)
    nodes = getattr(weighted, "hyperparameter_posterior_", {}).get("df", learned)
    assert np.all(np.isfinite(std)) or min(learned, np.min(nodes)) <= 2
    again = np.repeat(np.arange(n), weight)
    repeated = clone(model).fit(X[again], y[again])
    sparse = clone(model).fit(sp.csr_array(X), y, sample_weight=weight)
    for other in (repeated, sparse):
        if np.any(y) or likelihood == "gaussian":  # counts that are all zero have an optimum far beyond twenty passes
            np.testing.assert_allclose(other.lower_bound_, weighted.lower_bound_, rtol=1e-4, atol=1e-4)
