"""Predictions with the effects of some groups, of none, and averaged over new levels."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm, poisson
from sklearn.pipeline import make_pipeline

import sksvi
from sksvi import GMEClassifier, GMERegressor

SITES, DAYS = list("abcdefgh"), list("uvwxyz")


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(
        {"x": rng.standard_normal(300), "site": rng.choice(SITES, 300), "day": rng.choice(DAYS, 300)},
    )
    f = (
        0.5 * X["x"]
        + X["site"].map(dict(zip(SITES, rng.standard_normal(8))))
        + rng.choice([-0.3, 0.3], 6)[X["day"].map(DAYS.index)]
    )
    return X, rng.poisson(np.exp(0.5 + f)), np.where(f + rng.standard_normal(300) > 0, "yes", "no")


@pytest.fixture(scope="module")
def counts(rows):
    X, y, _ = rows
    model = GMERegressor(
        likelihood="poisson", groups=["site", "day"], random_slopes={"site": "x"}, noise=False, hyperparameters="point"
    )
    return model.fit(X, y)


def test_effects_of_groups_left_out_are_zero(rows, counts):
    X = rows[0][:20]
    effects = counts.group_effects_["mean"].unstack("effect")
    site = effects.loc["site"].loc[X["site"]]
    of_site = site["intercept"].to_numpy() + site["x"].to_numpy() * X["x"].to_numpy()
    of_day = effects.loc["day"]["intercept"].loc[X["day"]].to_numpy()
    mean = {name: counts.predict_latent(X, include_groups=name)[0] for name in ("all", "none", "site", "day")}
    np.testing.assert_allclose(mean["none"], counts.intercept_ + X["x"] * counts.coef_[0], rtol=1e-10)
    np.testing.assert_allclose(mean["site"] - mean["none"], of_site, atol=1e-10)
    np.testing.assert_allclose(mean["day"] - mean["none"], of_day, atol=1e-10)
    np.testing.assert_allclose(mean["all"] - mean["none"], of_site + of_day, atol=1e-10)
    np.testing.assert_array_equal(mean["all"], counts.predict_latent(X, include_groups=["day", 1])[0])
    np.testing.assert_array_equal(mean["none"], counts.predict_latent(X, include_groups=[])[0])


def test_variance_of_what_is_left_out_is_that_of_the_other_coefficients(rows, counts):
    """Not that of a new level: "none" is about levels at zero."""
    X = rows[0][:20]
    A = np.column_stack([X["x"], np.ones(20)])
    v = np.einsum("ni,ij,nj->n", A, counts.posterior_["weights"].cov, A)
    np.testing.assert_allclose(counts.predict_latent(X, include_groups="none")[1], v, rtol=1e-8)
    site = counts.group_covariance_.loc["site", ["intercept", "x"]].to_numpy()
    new = np.einsum("ni,ij,nj->n", A[:, ::-1], site, A[:, ::-1]) + counts.group_std_.loc["day", "mean"].item() ** 2
    np.testing.assert_allclose(counts.predict_latent(X, include_groups="marginal")[1], v + new, rtol=1e-8)


def test_marginal_predictions_are_those_of_new_levels(rows, counts, global_random_seed):
    """Mean exp(m + v/2), quantiles and draws of it, beside draws of coefficients and of effects of new levels."""
    X, n = rows[0][:6], 40_000
    m, v = counts.predict_latent(X, include_groups="marginal")
    mean = counts.predict(X, include_groups="marginal")
    np.testing.assert_allclose(mean, np.exp(m + 0.5 * v), rtol=1e-10)
    unknown = X.assign(site="new", day="newer")
    np.testing.assert_array_equal(mean, counts.predict(unknown))

    rng = np.random.default_rng(global_random_seed)
    weights = counts.posterior_["weights"].sample(n, rng.integers(2**31))
    std = counts.group_std_["mean"].to_numpy()
    effects = std * rng.standard_normal((n, 3))  # site, its slope, day
    x = X["x"].to_numpy()[:, None]
    f = x * (weights[:, 0] + effects[:, 1]) + weights[:, 1] + effects[:, 0] + effects[:, 2]
    y = rng.poisson(np.exp(f))
    error = mean * np.sqrt(np.expm1(v) / n)
    np.testing.assert_array_less(np.abs(np.exp(f).mean(1) - mean), 4 * error)
    q = counts.predict_quantiles(X, [0.1, 0.9], include_groups="marginal")
    error = 4 * np.sqrt(0.09 / n)
    for level, ends in zip((0.1, 0.9), q.T):
        assert np.all((y <= ends[:, None]).mean(1) >= level - error)
        assert np.all((y < ends[:, None]).mean(1) <= level + error)
    np.testing.assert_array_equal(counts.predict_interval(X, 0.8, include_groups="marginal"), q)
    drawn = counts.sample_y(X, n, global_random_seed, include_groups="marginal")
    share = (y <= 3).mean(1)
    np.testing.assert_array_less(np.abs((drawn <= 3).mean(1) - share), 4 * np.sqrt(2 * 0.25 / n))
    density = np.exp(counts.log_predictive_density(X, np.full(6, 3), include_groups="marginal"))
    chance = poisson.pmf(3, np.exp(f))
    np.testing.assert_array_less(np.abs(density - chance.mean(1)), 4 * chance.std(1) / np.sqrt(n) + 1e-6)


def test_classifiers_have_it_everywhere(rows):
    X, _, y = rows
    model = GMEClassifier(likelihood="probit", groups=["site", "day"], hyperparameters="point").fit(X, y)
    for choice in ("none", "marginal", "site"):
        m, v = model.predict_latent(X, include_groups=choice)
        p = norm.cdf(m / np.sqrt(1 + v))
        np.testing.assert_allclose(model.predict_proba(X, include_groups=choice)[:, 1], p, rtol=1e-6)
        log_p = model.predict_log_proba(X, include_groups=choice)
        np.testing.assert_allclose(log_p[:, 1], np.log(p), rtol=1e-6)
        np.testing.assert_array_equal(model.decision_function(X, include_groups=choice), log_p[:, 1] - log_p[:, 0])
        labels = model.predict(X, include_groups=choice)
        np.testing.assert_array_equal(labels == "yes", p > 0.5)
        density = model.log_predictive_density(X, labels, include_groups=choice)
        np.testing.assert_allclose(density, log_p.max(1), rtol=1e-10)
    assert np.any(model.predict(X, include_groups="none") != model.predict(X))


def test_times_have_it_too(rows):
    X, y, _ = rows
    times = np.exp(0.2 * y) + 0.1
    model = GMERegressor(likelihood="weibull", groups="site", hyperparameters="point").fit(X[["x", "site"]], times)
    new, at = X[["x", "site"]][:5], [0.5, 2.0]
    known = {choice: model.predict_survival(new, at, include_groups=choice) for choice in ("all", "none", "marginal")}
    assert not np.allclose(known["all"], known["none"], atol=1e-3)
    assert not np.allclose(known["marginal"], known["none"], atol=1e-4)
    median = model.predict_median(new, include_groups="marginal")
    at_median = [
        model.predict_survival(new[i : i + 1], [t], include_groups="marginal")[0, 0] for i, t in enumerate(median)
    ]
    np.testing.assert_allclose(at_median, 0.5, atol=1e-6)


def test_levels_of_an_ordinal_target_and_wrappers(rows):
    X, y, _ = rows
    model = make_pipeline(GMERegressor(likelihood="ordinal", groups="site", hyperparameters="point"))
    model.fit(X[["x", "site"]], np.minimum(y, 2))
    inner, new = model[-1], X[["x", "site"]][:4]
    p = inner.predict_proba(new, include_groups="none")
    np.testing.assert_allclose(model.predict(new, include_groups="none"), p @ [0, 1, 2], rtol=1e-10)
    found = sksvi.predict_std(model, new, include_groups="marginal")
    np.testing.assert_array_equal(found, inner.predict(new, return_std=True, include_groups="marginal")[1])
    assert not np.allclose(found, sksvi.predict_std(model, new))
    with pytest.raises(TypeError, match="include_groups"):
        sksvi.predict_std(sksvi.BayesianGLMRegressor().fit(X[["x"]], y), X[["x"]], include_groups="none")


@pytest.mark.parametrize("wrong", ["sites", "", 0, 7, None, True, ["site", "x"], 0.5])
def test_what_is_no_group_is_refused(rows, counts, wrong):
    with pytest.raises(ValueError, match=r"include_groups=.*is no group of this fit.*\['site', 'day'\]"):
        counts.predict(rows[0], include_groups=wrong)


def test_without_groups_and_in_partitions(rows, counts):
    dd = pytest.importorskip("dask.dataframe")
    X, y, _ = rows
    found = counts.predict(dd.from_pandas(X, npartitions=2), include_groups="none").compute()
    np.testing.assert_allclose(found, counts.predict(X, include_groups="none"), rtol=1e-12)
    plain = GMERegressor(likelihood="negative-binomial").fit(X[["x"]], y)
    np.testing.assert_array_equal(plain.predict(X[["x"]], include_groups="none"), plain.predict(X[["x"]]))
    with pytest.raises(ValueError, match=r"some of its groups, \[\]"):
        plain.predict(X[["x"]], include_groups="site")
