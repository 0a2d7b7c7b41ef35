"""Priors by name: exact beside Gaussian noise, found by the names that tables show, refused before a fit changes."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy.stats import multivariate_normal
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sksvi import BayesianGLMClassifier, BayesianGLMRegressor, GMERegressor, load
from sksvi.inspection import power_scale
from sksvi.likelihoods import Gaussian
from sksvi.priors import Normal

NOISE = 0.49
PRIOR = {"age": Normal(0.5, 0.02), "dose": Normal(-1.0, 0.3), "bit": Normal(0.0, 1.0)}
INTERCEPT = Normal(2.0, 4.0)


@pytest.fixture
def frame(global_random_seed):
    """Columns in units of their own, one of which first varies late."""
    rng = np.random.default_rng(global_random_seed)
    late = np.repeat([0.0, 1.0], [60, 60]) * rng.permutation(np.repeat([0.0, 1.0], 60))
    return pd.DataFrame({"age": rng.normal(40.0, 10.0, 120), "dose": rng.exponential(3.0, 120), "bit": late})


@pytest.fixture
def target(frame, global_random_seed):
    noise = np.random.default_rng(global_random_seed + 1).normal(0.0, 0.7, len(frame))
    return 3.0 + 0.1 * frame.age - 0.4 * frame.dose + frame.bit + noise


def regressor(prior, **options):
    return BayesianGLMRegressor(likelihood=Gaussian(variance=NOISE), prior=prior, **options)


def conjugate(X, y, normals, weight=1.0):
    """Mean and standard deviation of coefficients and intercept under independent normal priors, in closed form."""
    A = np.column_stack([X, np.ones(len(X))])
    mean, precision = np.array([p.mean for p in normals]), np.array([p.std**-2.0 for p in normals])
    L = (A.T * weight) @ A / NOISE + np.diag(precision)
    S = np.linalg.inv(L)
    return S @ ((A.T * weight) @ y / NOISE + precision * mean), np.sqrt(np.diag(S))


def assert_conjugate(model, mean, std):
    np.testing.assert_allclose(np.append(model.coef_, model.intercept_), mean, rtol=0, atol=1e-8)
    np.testing.assert_allclose(model.coef_std_, std[:-1], rtol=0, atol=1e-8)


# ---- exact beside Gaussian noise of given variance
@pytest.mark.parametrize("algorithm", ["cvi", "mc-ssvi", "h-mc-ssvi", "s-dsvi", "fp"])
def test_named_priors_give_the_conjugate_posterior(algorithm, frame, target):
    model = regressor({**PRIOR, "intercept": INTERCEPT}, algorithm=algorithm, tol=1e-10).fit(frame, target)
    assert_conjugate(model, *conjugate(frame, target, [*PRIOR.values(), INTERCEPT]))
    A = np.column_stack([frame, np.ones(len(frame))])
    normals = [*PRIOR.values(), INTERCEPT]
    cov = (A * np.square([p.std for p in normals])) @ A.T + NOISE * np.eye(len(A))
    evidence = multivariate_normal(A @ [p.mean for p in normals], cov).logpdf(target)
    assert model.lower_bound_ == pytest.approx(evidence, abs=1e-6)
    np.testing.assert_allclose(model.prior_precision_, [p.std**-2.0 for p in PRIOR.values()], rtol=1e-12)


def test_without_the_intercept_its_prior_is_about_f_at_the_means_of_columns(frame, target):
    model = regressor(PRIOR).fit(frame, target)
    centre, (mean, precision) = frame.mean().to_numpy(), model._encoding.prior.intercept
    w, std = conjugate(frame - centre, target, [*PRIOR.values(), Normal(mean, precision**-0.5)])
    w[-1] -= centre @ w[:-1]
    assert_conjugate(model, w, std)


def test_a_stream_sparse_rows_and_weights_say_the_same(frame, target, global_random_seed):
    prior = {**PRIOR, "intercept": INTERCEPT}
    expected = conjugate(frame, target, [*PRIOR.values(), INTERCEPT])
    stream = regressor(prior)
    for start in range(0, 120, 40):  # "bit" does not vary in the first chunk
        stream.partial_fit(frame[start : start + 40], target[start : start + 40])
    assert_conjugate(stream, *expected)
    by_position = {j: normal for j, normal in enumerate(PRIOR.values())} | {"intercept": INTERCEPT}
    assert_conjugate(regressor(by_position).fit(sp.csr_matrix(frame.to_numpy()), target), *expected)
    weight = np.random.default_rng(global_random_seed).integers(1, 4, len(frame))
    weighted = regressor(prior).fit(frame, target, sample_weight=weight)
    assert_conjugate(weighted, *conjugate(frame, target, [*PRIOR.values(), INTERCEPT], weight))


def test_more_columns_than_rows(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    X, y = rng.normal(size=(15, 40)), rng.normal(size=15)
    model = regressor({"*": Normal(0.1, 0.2), "intercept": Normal()}).fit(X, y)
    assert_conjugate(model, *conjugate(X, y, [Normal(0.1, 0.2)] * 40 + [Normal()]))


# ---- other targets
@pytest.mark.parametrize("n_classes", [2, 3])
def test_normals_about_zero_are_given_precisions(n_classes, global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    X = rng.normal(size=(60, 2))
    y = rng.integers(0, n_classes, 60) * (X[:, 0] > 0) + (X[:, 0] <= 0)
    by_number = BayesianGLMClassifier(prior_precision=[4.0, 1.0], intercept_precision=0.5, tol=1e-8).fit(X, y)
    prior = {"x0": Normal(0.0, 0.5), 1: Normal(0.0, 1.0), "intercept": Normal(0.0, 2**0.5)}
    by_name = BayesianGLMClassifier(prior=prior, tol=1e-8).fit(X, y)
    np.testing.assert_allclose(by_name.coef_, by_number.coef_, atol=1e-4)
    np.testing.assert_allclose(by_name.coef_std_, by_number.coef_std_, rtol=1e-4)
    assert by_name.lower_bound_ == pytest.approx(by_number.lower_bound_, abs=1e-5)


def test_a_prior_mean_is_an_offset(frame, global_random_seed):
    X, mean = frame.to_numpy(), np.array([0.02, 0.1, -0.3])
    y = np.random.default_rng(global_random_seed).poisson(np.exp(0.2 * X[:, 1] - 1.0))
    stds = (0.1, 0.5, 1.0)
    about = {j: Normal(m, s) for j, (m, s) in enumerate(zip(mean, stds, strict=True))}
    zero = {j: Normal(0.0, s) for j, s in enumerate(stds)}
    options = {"likelihood": "poisson", "tol": 1e-12}
    moved = BayesianGLMRegressor(prior={**about, "intercept": INTERCEPT}, **options).fit(X, y)
    offset = BayesianGLMRegressor(prior={**zero, "intercept": INTERCEPT}, **options).fit(X, y, offset=X @ mean)
    np.testing.assert_allclose(moved.coef_ - mean, offset.coef_, atol=1e-5)
    assert moved.lower_bound_ == pytest.approx(offset.lower_bound_, abs=1e-6)


# ---- names
@pytest.mark.filterwarnings("ignore:noise is larger where column")
def test_the_closest_key_counts(frame, target):
    X = frame.assign(site=pd.Categorical(np.resize(["n", "s", "w"], len(frame))))
    prior = {"*": "auto", "s*": Normal(9, 1e-5), "site": Normal(0, 1e-5), "site_w": Normal(5, 1e-5), 0: Normal(1, 1e-5)}
    model = regressor(prior).fit(X, target)
    np.testing.assert_allclose(model.coef_[[0, 3, 4, 5]], [1.0, 0.0, 0.0, 5.0], atol=1e-3)
    assert model.prior_precision_[1:3] == pytest.approx(model.prior_precision_[1:3]) and model.coef_std_[1] > 1e-3
    first = regressor({"site_?": Normal(2, 1e-5), "site_*": Normal(0, 1e-5)}).fit(X, target)
    np.testing.assert_allclose(first.coef_[3:], 2.0, atol=1e-3)


def test_a_column_called_intercept(frame, target):
    X = frame.rename(columns={"bit": "intercept"})
    prior = {"age": PRIOR["age"], "dose": PRIOR["dose"], "intercept": PRIOR["bit"], "(intercept)": INTERCEPT}
    assert_conjugate(regressor(prior).fit(X, target), *conjugate(X, target, [*PRIOR.values(), INTERCEPT]))


def test_all_auto_is_no_prior(frame, target):
    model, plain = (
        BayesianGLMRegressor(prior={"*": "auto"}).fit(frame, target),
        BayesianGLMRegressor().fit(frame, target),
    )
    np.testing.assert_array_equal(model.coef_, plain.coef_)
    pd.testing.assert_frame_equal(model.summary(), plain.summary())


@pytest.mark.filterwarnings("ignore:noise is larger where column")
@pytest.mark.parametrize(
    ("prior", "options", "words"),
    [
        ({"agee": Normal()}, {}, "'agee', which is no coefficient.*age, dose, bit, and 'intercept'"),
        ({7: Normal()}, {}, "names 7, which is no coefficient"),
        ({"x*": Normal()}, {}, r"'x\*', which is no coefficient"),
        ({"age": 1.0}, {}, r"prior\['age'\] must be a Normal"),
        ({"age": "ard"}, {}, r"prior\['age'\] must be a Normal"),
        ({"a*": Normal()}, {"prior_precision": 1.0}, "'age', which prior_precision=1.0 gives a prior too"),
        ({"dose": "auto"}, {"prior_precision": "flat"}, "'dose', which prior_precision='flat'"),
        ({"intercept": Normal()}, {"intercept_precision": 1.0}, "'intercept', which intercept_precision=1.0"),
        ({"intercept": Normal()}, {"fit_intercept": False}, "fit_intercept=False"),
        ({"intercept": "flat"}, {}, r"prior\['intercept'\] must be"),
        ({"age": Normal()}, {"covariance": "low-rank"}, "prior with covariance='low-rank'"),
        ("auto", {}, "'prior' parameter"),
    ],
)
def test_a_prior_is_refused_before_the_fit_changes(prior, options, words, frame, target):
    model = BayesianGLMRegressor(prior=PRIOR).fit(frame, target)
    coef, before, given = model.coef_, model.predict(frame), model.get_params()
    with pytest.raises(ValueError, match=words):
        model.set_params(prior=prior, **options).fit(frame, target)
    assert model.coef_ is coef
    np.testing.assert_array_equal(model.set_params(**given).predict(frame), before)


def test_a_stream_keeps_its_prior(frame, target):
    model = regressor(PRIOR).partial_fit(frame, target)
    with pytest.raises(ValueError, match=r"prior was .* when this model was fitted"):
        model.set_params(prior={**PRIOR, "age": Normal(0.0, 1.0)}).partial_fit(frame, target)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [((0.0, 0.0), ValueError), ((0.0, -1.0), ValueError), ((np.nan, 1.0), ValueError), (("a", 1.0), TypeError)],
)
def test_what_is_no_normal(arguments, error):
    with pytest.raises(error, match="Normal prior must be"):
        Normal(*arguments)


# ---- beside what is learned
def test_columns_under_auto_share_the_learned_precision(frame, target):
    prior = {"dose": PRIOR["dose"], "intercept": INTERCEPT}
    point = regressor(prior, hyperparameters="point", tol=1e-12).fit(frame, target)
    learned = point.prior_precision_
    fixed = {"age": Normal(0, learned[0] ** -0.5), "bit": Normal(0, learned[2] ** -0.5)}
    assert_conjugate(point, *conjugate(frame, target, [fixed["age"], prior["dose"], fixed["bit"], INTERCEPT]))
    assert learned[1] == pytest.approx(0.3**-2)
    integrated = regressor(prior).fit(frame, target)
    assert list(integrated.hyperparameter_posterior_) == ["weight", "scale(coefficients)"]
    precisions = integrated.posterior_["weights"].node_blocks.precisions
    assert np.ptp(precisions[:, 1]) == 0.0 < np.ptp(precisions[:, 0])


def test_a_summary_keeps_a_named_prior(frame, target):
    prior = {"dose": PRIOR["dose"]}
    model = regressor(prior, hyperparameters="point", tol=1e-12).fit(frame, target)
    own, joint = model.summary(), model.summary(effects="joint")
    pd.testing.assert_series_equal(own.loc["dose"], joint.loc["dose"], rtol=1e-8)
    # The row of age is that of a fit in which age alone has the weak prior of 2.5 units on its standard deviation.
    weak = 2.5 * np.std(target) / np.std(frame.age)
    others = {"age": Normal(0.0, weak), "bit": Normal(0.0, model.prior_precision_[2] ** -0.5)}
    alone = regressor(prior | others).fit(frame, target).summary()
    np.testing.assert_allclose(own.loc["age"].astype(float), alone.loc["age"].astype(float), rtol=1e-6)
    assert "priors by name as given" in model.summary_text()
    named = regressor(PRIOR).fit(frame, target)
    pd.testing.assert_frame_equal(named.summary(), named.summary(effects="joint"))
    with pytest.raises(ValueError, match="with priors by name"):
        named.summary(effects="own")


def test_flat_columns(frame, target):
    least = regressor({"age": "flat", "dose": "flat", "bit": "flat"}, tol=1e-10).fit(frame, target)
    A = np.column_stack([frame, np.ones(len(frame))])
    np.testing.assert_allclose(least.coef_, np.linalg.lstsq(A, target, rcond=None)[0][:3], atol=1e-5)
    with pytest.raises(ValueError, match=r"flat.*the coefficient of column"):
        BayesianGLMRegressor(prior={"age": "flat", "twin": "flat"}).fit(frame.assign(twin=frame.age), target)
    site = frame.assign(site=pd.Categorical(np.resize(["n", "s"], len(frame))))
    with pytest.raises(ValueError, match="'site_n' a flat prior"):
        BayesianGLMRegressor(prior={"site": "flat"}).fit(site, target)
    with pytest.raises(ValueError, match=r"prior\['age'\] of this BayesianGLMRegressor is flat"):
        BayesianGLMRegressor(prior={"age": "flat"}).sample_prior(frame)


def test_draws_of_the_prior(frame, target):
    n = 2000
    prior = {**PRIOR, "intercept": INTERCEPT}
    A = np.column_stack([frame, np.ones(len(frame))])
    mean = A @ [p.mean for p in prior.values()]
    variance = np.square(A) @ np.square([p.std for p in prior.values()]) + NOISE
    for model in (regressor(prior), regressor(prior).fit(frame, target)):
        y = model.sample_prior(frame, n, random_state=0)
        assert np.abs((y.mean() - mean.mean()) / np.sqrt(variance.max() / n)) < 4.0
        np.testing.assert_allclose(y[:, 0].var(ddof=1), variance[0], rtol=4.0 * np.sqrt(2.0 / n))


@pytest.mark.costly
def test_power_scaling_tells_a_prior_that_rows_contradict(frame, target):
    coef = BayesianGLMRegressor().fit(frame, target).coef_[0]
    there, off = (
        power_scale(BayesianGLMRegressor(prior={"age": Normal(mean, 0.02)}).fit(frame, target), frame, target)
        for mean in (coef, coef + 0.2)
    )
    assert off.loc["age", "prior"] > 2.0 * there.loc["age", "prior"]


# ---- the rest of the ways
@pytest.mark.filterwarnings("ignore:noise is larger where column")
def test_saved_cloned_and_in_a_pipeline(frame, target, tmp_path):
    prior = {"age": PRIOR["age"], 1: PRIOR["dose"]}
    model = BayesianGLMRegressor(prior=prior).fit(frame, target)
    model.save(tmp_path / "model.sksvi")
    loaded = load(tmp_path / "model.sksvi")
    assert loaded.get_params()["prior"] == prior == clone(loaded).prior
    np.testing.assert_array_equal(loaded.predict(frame), model.predict(frame))
    pd.testing.assert_frame_equal(loaded.summary(), model.summary())
    loaded.partial_fit(frame, target)
    steps = make_pipeline(StandardScaler().set_output(transform="pandas"), regressor({"age": Normal(0.0, 1e-6)}))
    assert abs(steps.fit(frame, target)[-1].coef_[0]) < 1e-3
    assert clone(steps).get_params()["bayesianglmregressor__prior"] == {"age": Normal(0.0, 1e-6)}


def test_fixed_coefficients_of_mixed_effects(frame, target):
    X = frame.assign(group=np.resize(list("abcd"), len(frame)))
    model = GMERegressor(groups="group", prior={"age": Normal(0.3, 1e-6), "*": "auto"}).fit(X, target)
    assert model.coef_[0] == pytest.approx(0.3, abs=1e-4) and model.coef_std_[1] > 1e-3
    with pytest.raises(ValueError, match="'group', which is no coefficient"):
        model.set_params(prior={"group": Normal()}).fit(X, target)
