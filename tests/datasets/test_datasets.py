"""Data sets: scikit-learn's conventions, agreement with the source, and simulators that draw what they say."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from sksvi import likelihoods
from sksvi.datasets import (
    load_bike_sharing,
    load_census_income,
    load_epilepsy,
    load_inaugural,
    make_glm,
    make_gme,
    make_pmf,
    make_wide_logistic,
)
from tests.chance import errors_allowed

NAMES = [
    "logit",
    "probit",
    "softmax",
    "binomial",
    "poisson",
    "poisson-softplus",
    "negative-binomial",
    "gaussian",
    "student-t",
    "ordinal",
]


def test_bike_sharing_bunch_follows_scikit_learn():
    bunch = load_bike_sharing()
    assert bunch.data.shape == (17379, 9) and bunch.target.shape == (17379,)
    assert bunch.feature_names == list(bunch.data.columns)
    assert list(bunch.frame.columns) == [*bunch.feature_names, *bunch.target_names]
    assert "CC BY 4.0" in bunch.DESCR
    assert bunch.categorical_features == list(bunch.data.select_dtypes("category").columns)
    assert not bunch.frame.isna().any(axis=None)
    X, y = load_bike_sharing(return_X_y=True)
    pd.testing.assert_frame_equal(X, bunch.data)
    pd.testing.assert_series_equal(y, bunch.target)


def test_bike_sharing_as_arrays():
    bunch = load_bike_sharing(as_frame=False)
    frame = load_bike_sharing().frame
    assert bunch.frame is None
    assert isinstance(bunch.data, np.ndarray) and isinstance(bunch.target, np.ndarray)
    assert np.issubdtype(bunch.target.dtype, np.integer)
    np.testing.assert_array_equal(bunch.data[:, 2], frame["weekday"].astype(str))


def test_bike_sharing_agrees_with_its_source(shared_data):
    source = pd.read_csv(shared_data / "tabular" / "bike_hour.csv.xz")
    frame = load_bike_sharing().frame
    np.testing.assert_array_equal(frame["rentals"], source["cnt"])
    np.testing.assert_array_equal(frame["month"].cat.codes + 1, source["mnth"])
    np.testing.assert_array_equal(frame["weekday"].cat.codes, source["weekday"])
    np.testing.assert_array_equal(frame["weather"].cat.codes + 1, source["weathersit"])
    np.testing.assert_array_equal(frame["holiday"].cat.codes, source["holiday"])
    np.testing.assert_array_equal(frame["hour"].astype(int), source["hr"])
    np.testing.assert_allclose(frame["temperature"], 47 * source["temp"] - 8, atol=0.006)
    np.testing.assert_allclose(frame["humidity"], 100 * source["hum"], atol=0.6)
    np.testing.assert_allclose(frame["wind_speed"], 67 * source["windspeed"], atol=0.06)


def test_epilepsy_bunch_follows_scikit_learn():
    bunch = load_epilepsy()
    assert bunch.data.shape == (236, 5) and bunch.target.shape == (236,)
    assert bunch.feature_names == list(bunch.data.columns)
    assert list(bunch.frame.columns) == [*bunch.feature_names, *bunch.target_names]
    assert "Thall" in bunch.DESCR
    assert bunch.categorical_features == list(bunch.data.select_dtypes("category").columns)
    assert not bunch.frame.isna().any(axis=None)
    X, y = load_epilepsy(return_X_y=True)
    pd.testing.assert_frame_equal(X, bunch.data)
    pd.testing.assert_series_equal(y, bunch.target)
    data, target = load_epilepsy(return_X_y=True, as_frame=False)
    assert isinstance(data, np.ndarray) and np.issubdtype(target.dtype, np.integer)
    np.testing.assert_array_equal(data[:, 4], bunch.data["subject"].astype(int))


def test_epilepsy_has_four_periods_of_each_patient():
    by_patient = load_epilepsy().frame.groupby("subject", observed=False)
    assert len(by_patient) == 59
    assert all(periods == [1, 2, 3, 4] for periods in by_patient["period"].agg(list))
    for column in ("treatment", "baseline", "age"):
        assert (by_patient[column].nunique() == 1).all()


def test_epilepsy_agrees_with_its_source(shared_data):
    source = pd.read_csv(shared_data / "tabular" / "counts" / "MASS_epil.csv.xz")
    frame = load_epilepsy().frame
    names = {"treatment": "trt", "baseline": "base", "age": "age", "period": "period", "subject": "subject"}
    for ours, theirs in (names | {"seizures": "y"}).items():
        assert frame[ours].tolist() == source[theirs].tolist()


@pytest.mark.parametrize(
    ("load", "words"),
    [(load_census_income, "CC BY 4.0"), (load_inaugural, "public domain")],
    ids=["census", "inaugural"],
)
def test_counts_of_persons_and_texts_follow_scikit_learn(load, words):
    bunch = load()
    assert bunch.feature_names == list(bunch.data.columns) and words in bunch.DESCR
    assert list(bunch.frame.columns) == [*bunch.feature_names, *bunch.target_names]
    assert bunch.categorical_features == list(bunch.data.select_dtypes("category").columns)
    assert not bunch.frame.isna().any(axis=None)
    data, target = load(return_X_y=True, as_frame=False)
    np.testing.assert_array_equal(data[:, 0], bunch.data.iloc[:, 0].to_numpy())
    np.testing.assert_array_equal(target, bunch.target.to_numpy())


def test_cells_of_the_census_are_disjoint():
    frame = load_census_income().frame
    assert not frame.duplicated(["sex", "age", "education", "occupation"]).any()
    assert (frame["above_50k"] <= frame["persons"]).all() and (frame["persons"] > 0).all()
    assert frame["persons"].sum() == 30162 and frame["above_50k"].sum() == 7508


@pytest.mark.parametrize("name", NAMES)
def test_make_glm_shapes_support_and_seed(name, global_random_seed):
    X, y, weights = make_glm(
        50, 4, likelihood=name, coef=True, intercept_precision=1.0, random_state=global_random_seed
    )
    again = make_glm(50, 4, likelihood=name, intercept_precision=1.0, random_state=global_random_seed)
    np.testing.assert_array_equal(again[0], X)
    np.testing.assert_array_equal(again[1], y)
    assert X.shape == (50, 4)
    assert y.shape == ((50, 2) if name == "binomial" else (50,))
    assert weights.shape == ((3, 5) if name == "softmax" else (5,))
    if name == "binomial":
        np.testing.assert_array_equal(y.sum(axis=1), 10)
    if name == "softmax":
        assert set(np.unique(y)) <= {0, 1, 2}
    else:
        likelihoods.resolve(name).check_target(y)


@pytest.mark.parametrize("name", ["logit", "poisson", "gaussian", "binomial"])
def test_make_glm_draws_around_the_mean(name, global_random_seed):
    # prior precision 25 per feature keeps f small, so that y has moments to rely on
    X, y, w = make_glm(4000, 2, likelihood=name, prior_precision=25.0, coef=True, random_state=global_random_seed)
    f = X @ w
    mean = {"poisson": np.exp(f), "gaussian": f}.get(name, 1 / (1 + np.exp(-f)))
    if name == "binomial":
        y, mean = y[:, 0], 10 * mean
    residual = y - mean
    for direction in (np.ones(len(f)), f / f.std()):
        score = residual * direction
        assert abs(score.mean()) < errors_allowed(8) * score.std() / np.sqrt(len(f))  # two directions of four


def test_make_glm_weights_have_the_prior_variance(global_random_seed):
    precision = np.repeat([4.0, 100.0], 1500)
    _, _, weights = make_glm(
        1, 3000, likelihood="gaussian", prior_precision=precision, coef=True, random_state=global_random_seed
    )
    scaled = weights**2 * precision
    for part in (scaled[:1500], scaled[1500:]):
        assert abs(part.mean() - 1) < 4 * np.sqrt(2 / 1500)


@pytest.mark.parametrize("kind", [np.random.default_rng, np.random.RandomState])
def test_make_glm_takes_generators(kind):
    first, second = (make_glm(5, 2, random_state=kind(3)) for _ in range(2))
    np.testing.assert_array_equal(first[0], second[0])


def test_make_wide_logistic(global_random_seed):
    X, y, weights = make_wide_logistic(3000, 40, coef=True, random_state=global_random_seed)
    np.testing.assert_allclose((X**2).sum(axis=1), 1)
    assert X.shape == (3000, 40) and weights.shape == (40,) and set(np.unique(y)) == {0, 1}
    residual = y - 1 / (1 + np.exp(-(X @ weights)))
    assert abs(residual.mean()) < 4 * 0.5 / np.sqrt(3000)


def test_make_gme_draws_noise_of_the_variance_it_returns(global_random_seed):
    n = 20_000
    bunch = make_gme(n, 5, random_state=global_random_seed)
    again = make_gme(n, 5, random_state=global_random_seed)
    np.testing.assert_array_equal(again.target, bunch.target)
    np.testing.assert_allclose((bunch.data**2).sum(axis=1), 1)
    noise = bunch.latent - bunch.data @ bunch.coef
    assert abs(noise.var() / bunch.noise_variance - 1) < 4 * np.sqrt(2 / n)
    rate = np.logaddexp(0, bunch.latent)
    assert abs(np.mean(bunch.target - rate)) < 4 * np.sqrt(rate.mean() / n)
    likelihoods.resolve("poisson-softplus").check_target(bunch.target)


def test_make_gme_draws_the_variance_from_its_prior(global_random_seed):
    """Rayleigh(2): E w2^2 = 8, sd of w2^2 8."""
    rng = np.random.default_rng(global_random_seed)
    drawn = np.array([make_gme(1, 1, noise_prior_scale=2.0, random_state=rng).noise_variance for _ in range(2000)])
    assert abs(np.mean(drawn**2) - 8) < 4 * 8 / np.sqrt(2000)
    assert make_gme(1, 1, noise_variance=0.5, random_state=0).noise_variance == 0.5


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"noise_variance": 0.0}, "noise_variance must be positive and finite; found 0.0"),
        ({"noise_prior_scale": np.inf}, "noise_prior_scale must be positive and finite; found inf"),
        ({"likelihood": "softmax"}, "one latent"),
        ({"likelihood": "binomial"}, "one latent"),
        ({"n_samples": -3}, "n_samples must be at least 1; found -3"),
    ],
)
def test_make_gme_refuses(arguments, text):
    with pytest.raises(ValueError, match=text):
        make_gme(**arguments)


@pytest.mark.parametrize("name", sorted({*NAMES} - {"softmax", "binomial"}))
def test_make_pmf_draws_from_its_factors(name, global_random_seed):
    arguments = {"likelihood": name, "observed": 0.4, "user_variance": 0.5, "random_state": global_random_seed}
    bunch = make_pmf(60, 50, 3, **arguments)
    np.testing.assert_array_equal(make_pmf(60, 50, 3, **arguments).target, bunch.target)
    assert bunch.data.shape == (1200, 2) and bunch.target.shape == (1200,)
    assert len(np.unique(bunch.data, axis=0)) == 1200
    assert bunch.data.min(axis=0).tolist() == [0, 0] and bunch.data.max(axis=0).tolist() == [59, 49]
    users, items = bunch.data.T
    np.testing.assert_allclose(bunch.latent, (bunch.user_factors[users] * bunch.item_factors[items]).sum(axis=1))
    bunch.likelihood.check_target(bunch.target)
    if name != "student-t":
        error = (bunch.target - bunch.likelihood.mean(bunch.latent)) / np.sqrt(
            np.maximum(bunch.likelihood.conditional_variance(bunch.latent), 1e-3)
        )
        assert abs(error.mean()) < 4 / np.sqrt(1200)


def test_make_pmf_ordinal_is_the_paper_s(global_random_seed):
    """Cut points 15 apart and slope 100 for 100 components; the five levels in the shares of a normal latent."""
    bunch = make_pmf(200, 200, 100, likelihood="ordinal", random_state=global_random_seed)
    np.testing.assert_allclose(bunch.likelihood.cut_points, [-22.5, -7.5, 7.5, 22.5])
    assert bunch.likelihood.slope == 100.0
    variance = np.array([bunch.user_factors.var(), bunch.item_factors.var()])
    assert np.all(abs(variance - 1) < 4 * np.sqrt(2 / 20_000))
    shares = np.bincount(bunch.target.astype(int), minlength=5) / 40_000
    # the rows of a column share v, whose length varies by 7 %: shares are known to about 0.01
    np.testing.assert_allclose(shares, [0.0122, 0.2144, 0.5467, 0.2144, 0.0122], atol=0.04)


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"n_items": 0}, ValueError, "n_items must be at least 1; found 0"),
        ({"n_components": 2.0}, TypeError, "n_components must be an integer; found 2.0"),
        ({"observed": 0.0}, ValueError, r"observed must be in \(0, 1\]; found 0.0"),
        ({"item_variance": -1.0}, ValueError, "item_variance must be positive and finite; found -1.0"),
        ({"likelihood": "softmax"}, ValueError, "one latent"),
        ({"likelihood": likelihoods.Gaussian()}, ValueError, "variance='auto'"),
    ],
)
def test_make_pmf_refuses(arguments, error, text):
    with pytest.raises(error, match=text):
        make_pmf(**arguments)


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"n_samples": 0}, ValueError, "n_samples must be at least 1; found 0"),
        ({"n_features": 2.5}, TypeError, "n_features must be an integer; found 2.5"),
        ({"prior_precision": -1.0}, ValueError, "must be positive"),
        ({"prior_precision": [1.0, 2.0]}, ValueError, r"shape \(10,\); found \(2,\)"),
        ({"likelihood": "normal"}, ValueError, "gaussian"),
        ({"likelihood": likelihoods.NegativeBinomial()}, ValueError, "dispersion='auto'"),
    ],
)
def test_make_glm_refuses(arguments, error, text):
    with pytest.raises(error, match=text):
        make_glm(**arguments)
