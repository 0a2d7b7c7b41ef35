"""Censored and truncated targets: how they are given, exact posteriors, predictions, concordance, coverage."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sksvi import BayesianGLMRegressor, DynamicGLM, GMERegressor, SparseGPRegressor
from sksvi.estimators.censoring import censored_rows
from sksvi.estimators.concordance import concordance
from sksvi.inspection import diagnose, loo
from sksvi.likelihoods import Censored, Gamma, Gaussian, LogLogistic, LogNormal, Weibull
from sksvi.persistence import load, save

TIMES = {"weibull": Weibull(scale=0.6), "log-normal": LogNormal(scale=0.8), "log-logistic": LogLogistic(scale=0.5)}


def survival(n, seed, likelihood=TIMES["weibull"], slope=0.7, rate=20.0):
    """A column, and times of which about a third are censored."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(n)
    time, end = likelihood.sample(slope * x + 2.0, rng), rng.exponential(rate, n)
    return pd.DataFrame({"x": x}), pd.DataFrame({"time": np.minimum(time, end), "event": time <= end})


def structured(y):
    out = np.zeros(len(y), dtype=[("event", bool), ("time", float)])
    out["event"], out["time"] = y["event"], y["time"]
    return out


@pytest.mark.costly
def test_every_form_of_a_target_gives_the_same_fit(global_random_seed):
    X, y = survival(60, global_random_seed)
    fit = BayesianGLMRegressor(likelihood="weibull").fit(X, y)
    bounds = pd.DataFrame({"lower": y["time"], "upper": y["time"].where(y["event"], np.inf)})
    for other in (structured(y), bounds, y.assign(event=y["event"].astype(int)), bounds.replace(np.inf, np.nan)):
        assert np.array_equal(BayesianGLMRegressor(likelihood="weibull").fit(X, other).coef_, fit.coef_)
    wrapped = BayesianGLMRegressor(likelihood=Censored(Weibull())).fit(X, y)
    assert np.array_equal(wrapped.coef_, fit.coef_)


def test_without_censoring_it_is_the_likelihood_itself(global_random_seed):
    X, y = survival(60, global_random_seed)
    plain = BayesianGLMRegressor(likelihood="log-normal").fit(X, y["time"])
    seen = BayesianGLMRegressor(likelihood="log-normal").fit(X, y.assign(event=True))
    np.testing.assert_allclose(seen.coef_, plain.coef_, rtol=1e-4)
    np.testing.assert_allclose(seen.coef_std_, plain.coef_std_, rtol=1e-3)


@pytest.mark.parametrize(
    ("likelihood", "peer"),
    [
        (Weibull(scale=0.5), lambda f: stats.weibull_min(2.0, scale=np.exp(f))),
        (LogNormal(scale=0.5), lambda f: stats.lognorm(0.5, scale=np.exp(f))),
        (LogLogistic(scale=0.5), lambda f: stats.fisk(2.0, scale=np.exp(f))),
        (Gamma(dispersion=0.5), lambda f: stats.gamma(2.0, scale=np.exp(f) / 2.0)),
        (Gaussian(variance=0.25), lambda f: stats.norm(f, 0.5)),
    ],
    ids=lambda case: type(case).__name__ if not callable(case) else "",
)
def test_rows_have_the_probabilities_of_scipy(likelihood, peer):
    of = peer(0.3)
    rows = np.array([[1.2, 1.2, 0.0], [1.2, 1.2, 1.0], [1.2, 1.2, 2.0], [0.4, 1.9, 3.0]])
    wanted = [of.logpdf(1.2), of.logsf(1.2), of.logcdf(1.2), np.log(of.cdf(1.9) - of.cdf(0.4))]
    np.testing.assert_allclose(Censored(likelihood).log_prob(rows, np.full(4, 0.3)), wanted, rtol=1e-10)
    late = np.column_stack([rows, np.full(4, 0.2)])
    if likelihood.support.low == 0:
        found = Censored(likelihood, truncated=True).log_prob(late, np.full(4, 0.3))
        np.testing.assert_allclose(found, np.array(wanted) - of.logsf(0.2), rtol=1e-10)


def test_the_posterior_is_that_of_a_grid(global_random_seed):
    """One coefficient without intercept, scale and prior given: by quadrature, exactly."""
    X, y = survival(25, global_random_seed)
    y = y.assign(time=y["time"] * np.exp(-2.0))
    settings = {"prior_precision": 1.0, "fit_intercept": False}
    model = BayesianGLMRegressor(likelihood=TIMES["weibull"], **settings).fit(X, y)
    grid = np.linspace(-8.0, 8.0, 8001)
    rows = censored_rows(y, Weibull())
    log_p = Censored(TIMES["weibull"]).log_prob(rows[:, None], X["x"].to_numpy()[:, None] * grid).sum(0) - 0.5 * grid**2
    p = np.exp(log_p - log_p.max())
    p /= p.sum()
    mean = p @ grid
    std = np.sqrt(p @ (grid - mean) ** 2)
    assert abs(model.coef_[0] - mean) < 0.1 * std
    assert model.coef_std_[0] == pytest.approx(std, rel=0.1)


def test_survival_and_median_are_those_of_the_predictive_distribution(global_random_seed):
    X, y = survival(80, global_random_seed)
    model = BayesianGLMRegressor(likelihood="weibull").fit(X, y)
    median = model.predict_median(X[:4])
    at = [model.predict_survival(X[k : k + 1], [t])[0, 0] for k, t in enumerate(median)]
    np.testing.assert_allclose(at, 0.5, atol=1e-6)
    found = model.predict_survival(X[:4], [0.0, 1.0, 5.0, 1e6])
    assert found.shape == (4, 4) and np.all(np.diff(found, axis=1) <= 0) and np.all(found[:, 0] == 1.0)
    draws = model.sample_y(X[:4], 20_000, random_state=0)
    np.testing.assert_allclose(found[:, 2], (draws > 5.0).mean(1), atol=4 * 0.5 / np.sqrt(20_000))
    with pytest.raises(ValueError, match="times must be 0 or more; found -1"):
        model.predict_survival(X, [-1.0])
    assert not hasattr(BayesianGLMRegressor(likelihood="poisson"), "predict_survival")


def test_concordance_counts_pairs_of_known_order(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    time, event = rng.integers(1, 9, 40).astype(float), rng.random(40) < 0.6
    predicted, weight = rng.integers(0, 6, 40).astype(float), rng.integers(1, 4, 40).astype(float)
    rows = censored_rows(pd.DataFrame({"time": time, "event": event}), Weibull())
    right = pairs = 0.0
    for i in range(40):
        for j in range(40):
            if event[i] and (time[i] < time[j] or (time[i] == time[j] and not event[j])):
                pairs += weight[i] * weight[j]
                right += weight[i] * weight[j] * (0.5 * (predicted[i] == predicted[j]) + (predicted[i] < predicted[j]))
    assert concordance(rows, predicted, weight) == pytest.approx(right / pairs)
    assert np.isnan(concordance(rows[:1], predicted[:1]))


def test_truth_values_and_numbers_have_one_diagnosis(global_random_seed):
    """Events are given as truth values, whose frame is an array of objects, or as 1 and 0."""
    X, y = survival(60, global_random_seed)
    model = BayesianGLMRegressor(likelihood="weibull").fit(X, y)
    truth, numbers = (diagnose(model, X, form).parts for form in (y, y.astype(float)))
    assert truth.loc["autocorrelation", "state"] != "not applicable"
    pd.testing.assert_frame_equal(truth, numbers)


@pytest.mark.costly
def test_scores_frailties_and_processes(global_random_seed, tmp_path):
    X, y = survival(90, global_random_seed)
    pipeline = make_pipeline(StandardScaler(), BayesianGLMRegressor(likelihood="weibull"))
    scores = cross_val_score(pipeline, X, structured(y), cv=3)
    assert np.all((scores > 0.5) & (scores <= 1.0))
    frail = GMERegressor(likelihood="weibull", groups="site").fit(X.assign(site=np.arange(90) % 9), y)
    assert "std(site, intercept)" in frail.summary().index
    assert SparseGPRegressor(likelihood="log-normal", n_inducing=8).fit(X, y).score(X, y) > 0.6
    model = BayesianGLMRegressor(likelihood="weibull").fit(X, y)
    save(model, tmp_path / "model")
    assert np.array_equal(load(tmp_path / "model").predict_median(X), model.predict_median(X))
    found = loo(model, X, y)
    assert found.elpd_loo == pytest.approx(model.log_predictive_density(X, y).sum(), abs=6.0)
    assert "Censored(Weibull(scale=" in model.summary_text() and "concordance" in model.summary_text()


@pytest.mark.costly
def test_weights_are_copies_and_streams_see_all_rows(global_random_seed):
    X, y = survival(40, global_random_seed)
    twice = BayesianGLMRegressor(likelihood="weibull").fit(pd.concat([X, X]), pd.concat([y, y]))
    weighted = BayesianGLMRegressor(likelihood="weibull").fit(X, y, sample_weight=np.full(40, 2.0))
    np.testing.assert_allclose(weighted.coef_, twice.coef_, rtol=1e-8)
    whole = BayesianGLMRegressor(likelihood="weibull").fit(X, y)
    stream = BayesianGLMRegressor(likelihood="weibull").partial_fit(X[:20], y[:20]).partial_fit(X[20:], y[20:])
    assert abs(stream.coef_[0] - whole.coef_[0]) < whole.coef_std_[0]


def test_rows_without_any_event_are_judged_and_stream_on(global_random_seed):
    X, y = survival(60, global_random_seed)
    model = BayesianGLMRegressor(likelihood="weibull").fit(X, y)
    at = [1.0, 4.0, 20.0]
    rows = pd.DataFrame({"time": at, "event": 0})
    density = np.exp(model.log_predictive_density(X[:3], rows))
    np.testing.assert_allclose(density, np.diag(model.predict_survival(X[:3], at)), atol=1e-6)
    stream = BayesianGLMRegressor(likelihood="weibull").partial_fit(X, y)
    assert stream.partial_fit(X[:3], rows).n_samples_seen_ == 63


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"event": 0}, "y has no event: all 20 rows are censored"),
        ({"event": 2}, r"y's event must be 0 or 1, or bool; found .*2.* in row 0"),
        ({"time": 0.0}, "Weibull needs y > 0; found 0 in row 0"),
        ({"time": np.nan}, "y's time contains NaN"),
        ({"entry": 1e6}, "y needs entry < time; found 1e\\+06"),
    ],
)
def test_a_bad_target_is_named_and_nothing_is_fitted(change, message):
    X, y = survival(20, 0)
    model = BayesianGLMRegressor(likelihood="weibull")
    with pytest.raises(ValueError, match=message):
        model.fit(X, y.assign(**change))
    assert not hasattr(model, "coef_")


def test_bounds_that_are_none_and_likelihoods_without_tails_are_refused():
    X, y = survival(20, 0)
    bounds = pd.DataFrame({"lower": y["time"], "upper": y["time"] - 0.01})
    for wrong, message in ((bounds, "row 0 has lower > upper"), (bounds * np.nan, "row 0 has no bound")):
        with pytest.raises(ValueError, match=message):
            BayesianGLMRegressor(likelihood="weibull").fit(X, wrong)
    with pytest.raises(ValueError, match="Poisson cannot be: use one of"):
        BayesianGLMRegressor(likelihood="poisson").fit(X, y)
    with pytest.raises(ValueError, match="takes no censored y"):
        DynamicGLM(likelihood="weibull").fit(None, y)


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", TIMES)
def test_intervals_of_a_coefficient_hold_it(name, global_random_seed):
    held = []
    for seed in range(60):
        X, y = survival(60, [global_random_seed, seed], TIMES[name])
        row = BayesianGLMRegressor(likelihood=name).fit(X, y).summary().loc["x"]
        held.append(row["lower"] <= 0.7 <= row["upper"])
    assert abs(np.mean(held) - 0.9) < 4 * np.sqrt(0.09 / len(held))
