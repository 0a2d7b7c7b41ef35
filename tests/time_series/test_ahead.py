"""One step ahead, residuals, the evidence, points that come later, hostile series."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.integrate import quad
from scipy.stats import kstest, poisson

import sksvi
from sksvi import DynamicGLM
from sksvi.expectations import Auto
from tests.time_series.test_dynamic import NILE, counts, monthly

FIXED = {"level_variance": 0.02}


# ---- one step ahead
def by_hand(likelihood, y, noise, first):
    """Predictions of a level that walks at random, each point's message found on its own before the next."""
    m, s, out = 0.0, first, []
    for value in y:
        out.append((m, s))
        if np.isnan(value):
            s += noise
            continue
        linear, weight = 0.0, 1.0 / s
        for _ in range(200):
            D = 1.0 + weight * s
            mean, v = m + s * (linear - weight * m) / D, s / D
            _, alpha, gamma = (
                float(p[0]) for p in Auto()(likelihood, np.array([value]), np.array([mean]), np.array([v]))
            )
            linear = 0.5 * linear + 0.5 * (alpha - 2.0 * gamma * mean)
            weight = 0.5 * weight - gamma
        D = 1.0 + weight * s
        m, s = m + s * (linear - weight * m) / D, s / D + noise
    return np.array(out).T


@pytest.mark.parametrize("likelihood", ["poisson", "logit"])
def test_predictions_one_step_ahead_know_the_past_alone(likelihood):
    y, _ = counts(40)
    y = y if likelihood == "poisson" else (y > 4.0) * 1.0
    y[7] = np.nan
    model = DynamicGLM(likelihood=likelihood, **FIXED).fit(None, y)
    (ahead,) = model._series.ahead(model._rule())
    m, s = by_hand(model.likelihood_, y, 0.02, 100.0)
    np.testing.assert_allclose(ahead.mean, m, atol=2e-4 * np.sqrt(s).max())
    np.testing.assert_allclose(ahead.variance, s, rtol=2e-4)
    table = model.filter()
    np.testing.assert_allclose(table["mean"].iloc[1:], model._predicted().mean()[1:])


def test_scores_of_later_points_are_those_of_a_longer_series():
    y, _ = counts()
    times = monthly(y)
    short = DynamicGLM(**FIXED).fit(None, times[:60])
    before = short.lower_bound_
    found = short.log_predictive_density(None, times[50:])
    everything = DynamicGLM(**FIXED).fit(None, times).log_predictive_density()
    np.testing.assert_allclose(found[:10], everything[50:60], atol=1e-4)
    # The first of them are predicted from messages that know all 60 points, which are a little better.
    np.testing.assert_allclose(found[10:], everything[60:], atol=5e-2)
    assert short.lower_bound_ == before and len(short.index_) == 60
    gap = times[60:].copy()
    gap.iloc[3] = np.nan
    assert np.flatnonzero(np.isnan(short.log_predictive_density(None, gap))).tolist() == [3]


@pytest.mark.parametrize("likelihood", ["poisson", "negative-binomial", "logit", "gaussian", "binomial"])
def test_quantile_residuals_of_a_simulated_series_are_standard_normal(likelihood, global_random_seed):
    rng = np.random.default_rng([global_random_seed, 61])
    f = np.cumsum(0.1 * rng.standard_normal(600))
    f -= f.mean()
    draws = {
        "poisson": lambda: rng.poisson(np.exp(f)),
        "negative-binomial": lambda: rng.poisson(np.exp(f) * rng.gamma(2.0, 0.5, 600)),
        "logit": lambda: rng.random(600) < 1 / (1 + np.exp(-f)),
        "gaussian": lambda: f + rng.standard_normal(600),
        "binomial": lambda: rng.binomial(7, 1 / (1 + np.exp(-f))),
    }
    y = draws[likelihood]().astype(float)
    y = np.column_stack([y, 7 - y]) if likelihood == "binomial" else y
    model = DynamicGLM(likelihood=likelihood, level_variance=0.01).fit(None, y)
    assert kstest(model.residuals(random_state=0)[20:], "norm").pvalue > 1e-4
    squares = np.square(model.residuals("pearson")[20:])
    assert abs(squares.mean() - 1.0) < 4 * squares.std() / np.sqrt(580) + 0.1


# ---- the evidence
def test_the_evidence_of_one_count_is_that_of_an_integral():
    model = DynamicGLM(initial_variance=2.0).fit(None, [3.0])
    exact = np.log(quad(lambda f: poisson.pmf(3, np.exp(f)) * np.exp(-(f**2) / 4) / np.sqrt(4 * np.pi), -20, 6)[0])
    found = model.log_evidence(20_000, random_state=0)
    assert abs(found.value - exact) < 4 * found.std_error + 1e-3
    assert model.lower_bound_ < exact
    assert 1000 < found.effective_sample_size <= 20_000


def test_the_evidence_of_a_gaussian_series_is_the_bound():
    model = DynamicGLM(likelihood="gaussian", hyperparameters="point").fit(None, NILE)
    found = model.log_evidence(10, random_state=0)
    assert found.value == pytest.approx(model.lower_bound_, abs=1e-6)
    assert found.effective_sample_size == pytest.approx(10)


def test_the_bound_is_a_little_below_the_evidence():
    y, _ = counts()
    model = DynamicGLM(seasonal=4, hyperparameters="point").fit(None, y)
    found = model.log_evidence(400, random_state=0)
    assert -4 * found.std_error < found.value - model.lower_bound_ < 0.5


def test_outliers_leave_draws_and_the_evidence(global_random_seed):
    rng = np.random.default_rng([global_random_seed, 62])
    y = np.cumsum(0.1 * rng.standard_normal(60)) + 0.2 * rng.standard_t(2.0, 60)
    y[30] += 8.0
    model = DynamicGLM(likelihood="student-t", hyperparameters="point").fit(None, y)
    assert model.posterior_["latents"].weights.min() < 0
    found = model.log_evidence(2000, random_state=0)
    assert -4 * found.std_error < found.value - model.lower_bound_ < 1.0
    assert found.effective_sample_size > 100


# ---- points that come later
def test_points_that_are_appended_end_where_a_fit_of_all_does():
    y, _ = counts(120)
    X = pd.DataFrame({"x": np.sin(np.arange(120.0))}, index=monthly(y).index)
    whole = DynamicGLM(**FIXED).fit(X, monthly(y))
    model = DynamicGLM(**FIXED).fit(X[:60], monthly(y)[:60])
    for begin in range(60, 120, 15):
        model.partial_fit(X[begin : begin + 15], monthly(y)[begin : begin + 15])
    assert model.index_.equals(whole.index_) and model.n_samples_seen_ == 120
    late = [own.forecast_latent(1, pd.DataFrame({"x": [0.0]})) for own in (model, whole)]
    assert abs(late[0]["mean"].iloc[0] - late[1]["mean"].iloc[0]) < 0.1 * late[1]["std"].iloc[0]
    assert whole.lower_bound_ - 1.0 < model.lower_bound_ <= whole.lower_bound_ + 1e-6
    model.smooth()
    # Columns keep the units of the first points, so that the prior of their coefficient is another one.
    np.testing.assert_allclose(model.predict(), whole.predict(), rtol=2e-2)


def test_smoothing_again_is_the_fit_of_all_points():
    y, _ = counts(100)
    model = DynamicGLM(seasonal=4, seasonal_variance=0.01, **FIXED).fit(None, y[:50]).partial_fit(None, y[50:]).smooth()
    whole = DynamicGLM(seasonal=4, seasonal_variance=0.01, **FIXED).fit(None, y)
    assert model.lower_bound_ == pytest.approx(whole.lower_bound_, abs=1e-4)
    np.testing.assert_allclose(model.predict(), whole.predict(), rtol=1e-3)


def test_later_points_must_follow():
    y = monthly(counts(40)[0])
    model = DynamicGLM(**FIXED).fit(None, y[:20])
    for rows, text in [(y[15:25], "does not follow"), (y[22:30], "leaves a gap after"), (y[:5], "does not follow")]:
        with pytest.raises(ValueError, match=text):
            model.partial_fit(None, rows)
        assert len(model.index_) == 20
    model.partial_fit(None, y[20:30].where(np.arange(10) != 4))
    assert model.n_samples_seen_ == 29
    first = DynamicGLM(**FIXED).partial_fit(None, y[:20])
    assert first.lower_bound_ == pytest.approx(DynamicGLM(**FIXED).fit(None, y[:20]).lower_bound_)


@pytest.mark.parametrize(
    "index",
    [
        pd.date_range("2001-01", periods=30, freq="MS", name="month"),
        pd.period_range("1900", periods=30, freq="Y"),
        pd.date_range("2001-01", periods=30, freq="h", tz="Europe/Berlin"),
        pd.RangeIndex(30),
        pd.Index(0.5 * np.arange(30)),
        pd.Index([*"abcdefghijklmnopqrstuvwxyz", "za", "zb", "zc", "zd"]),
    ],
    ids=lambda index: f"{type(index).__name__}-{index.dtype}",
)
@pytest.mark.filterwarnings("ignore:the time index holds 'a'")
def test_a_saved_series_keeps_its_times_and_goes_on(index, tmp_path):
    y, _ = counts(30)
    model = DynamicGLM(seasonal=[4, 6.5]).fit(pd.DataFrame({"a": np.cos(np.arange(30.0))}, index=index), y)
    model.save(tmp_path / "model.sksvi")
    again = sksvi.load(tmp_path / "model.sksvi")
    pd.testing.assert_frame_equal(again.components_, model.components_)
    more = pd.DataFrame({"a": [0.0, 1.0]})
    pd.testing.assert_frame_equal(again.forecast(2, more), model.forecast(2, more))
    for own in (model, again):
        own.partial_fit(more, [2.0, 3.0]).save(tmp_path / "model.sksvi")
    last = sksvi.load(tmp_path / "model.sksvi")
    pd.testing.assert_frame_equal(last.components_, model.components_)
    assert last.history_.equals(again.history_)


def test_a_fit_goes_on_from_the_last_one():
    y, _ = counts()
    given = {"likelihood": "negative-binomial", "level": "walk", "hyperparameters": "point"}
    model = DynamicGLM(**given, warm_start=True).fit(None, y)
    first, bound = model.n_iter_, model.lower_bound_
    model.fit(None, y)
    assert model.n_iter_ - first <= 4 and model.lower_bound_ >= bound - 1e-6
    model.fit(None, y[:50])
    assert model.lower_bound_ == pytest.approx(DynamicGLM(**given).fit(None, y[:50]).lower_bound_, abs=1e-2)
    with pytest.raises(ValueError, match="seasonal was"):
        model.set_params(seasonal=4).fit(None, y)


@pytest.mark.parametrize("change", [{"level_variance": 0.2}, {"initial_variance": 1.0}])
def test_a_fit_that_goes_on_takes_other_numbers(change):
    y, _ = counts()
    model = DynamicGLM(warm_start=True, **FIXED).fit(None, y).set_params(**change).fit(None, y)
    anew = DynamicGLM(**(FIXED | change)).fit(None, y)
    assert model.lower_bound_ == pytest.approx(anew.lower_bound_, abs=1e-4)
    assert model.level_variance_ == anew.level_variance_


# ---- hostile series
SHIFT = np.concatenate([np.tile([0.0, 1.0, 2.0], 10), np.tile([990.0, 1000.0, 1020.0], 10)])
HOSTILE = {
    "ones": np.ones(30),
    "one point": np.array([4.0]),
    "a tenth is there": np.where(np.arange(60) % 10 == 3, 2.0, np.nan),
    "a spike": np.where(np.arange(60) == 30, 2e4, np.arange(60) % 4),
    "a shift": SHIFT,
    "a million each": 1e6 + 1e3 * np.sin(np.arange(50.0)),
    "halves": 0.5 + np.arange(40) % 3,
}


@pytest.mark.parametrize(
    "likelihood",
    [
        "poisson",
        "student-t",
        pytest.param("negative-binomial", marks=pytest.mark.exhaustive),
        pytest.param("gaussian", marks=pytest.mark.exhaustive),
        pytest.param("poisson-softplus", marks=pytest.mark.exhaustive),
    ],
)
@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_series_has_a_finite_and_sensible_answer(name, likelihood):
    y = HOSTILE[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of one value in all rows, and of wide tails
        model = DynamicGLM(likelihood=likelihood).fit(None, y)
        ahead = model.forecast(2)[["median", "lower", "upper"]].to_numpy()
    assert model.converged_ and np.isfinite(model.lower_bound_) and np.all(np.isfinite(ahead))
    low, high = np.nanmin(y), np.nanmax(y)
    if name == "one point" and likelihood == "negative-binomial":  # any dispersion may be: the tail rules the mean
        with pytest.warns(UserWarning, match="ruled by a tail"):
            model.predict()
        level = np.exp(model.predict_latent()[0])
    else:
        level = model.predict()
    assert np.all(level <= 3 * high + 3) and np.all(level >= low - (high - low) - 0.1 * abs(low) - 1)
    assert np.all(ahead[:, 0] <= 3 * high + 3)


def test_an_offset_beyond_what_a_link_takes_is_refused_by_densities_too():
    y = np.arange(20.0) % 5
    with pytest.raises(ValueError, match="offset, row 3: 1e\\+99 in the latent"):
        DynamicGLM(**FIXED).fit(None, y).log_predictive_density(None, y, offset=np.where(np.arange(20) == 3, 1e99, 0.0))


@pytest.mark.parametrize("likelihood", ["poisson", "negative-binomial", "logit"])
def test_zeros_alone_are_told(likelihood):
    with pytest.warns(UserWarning, match="y is 0 in every row"):
        model = DynamicGLM(likelihood=likelihood).fit(None, np.zeros(30))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "the logarithm of the rate")
        ahead = model.forecast(3)
    assert np.all(model.predict() < 0.1) and np.all(np.isfinite(ahead.to_numpy()))


@pytest.mark.parametrize(
    ("options", "y", "text"),
    [
        ({}, [1.0, -1.0, 2.0], "needs y >= 0; found -1 in row 1"),
        ({}, [np.nan, 1.0, -1.0], "needs y >= 0; found -1 in row 2"),
        ({"likelihood": "logit"}, [0.0, 1.0, 2.0], "found 2 in row 2"),
        ({}, [np.nan, np.nan], "no observed value among 2"),
        ({}, [1.0, np.inf], "y contains infinity"),
        ({"level": False}, [1.0, 2.0], "nothing to fit"),
        ({"level": False, "trend": True}, [1.0, 2.0], "set level=True"),
        ({"seasonal": [4, 4]}, [1.0, 2.0], "a period twice"),
        ({"seasonal": [4, 1]}, [1.0, 2.0], "2 or more; found 1"),
        ({"seasonal": [4, 7], "seasonal_variance": [0.1]}, [1.0, 2.0], "one for each of the 2"),
        ({"likelihood": "softmax"}, [0.0, 1.0], "likelihood"),
    ],
)
def test_mistakes_are_named(options, y, text):
    with pytest.raises(ValueError, match=text):
        DynamicGLM(**options).fit(None, np.array(y))


def test_a_mistake_ahead_is_named():
    y, _ = counts(30)
    model = DynamicGLM().fit(np.ones((30, 1)) * np.arange(30)[:, None], y)
    for steps, X, text in [(2, None, "needs X"), (2, [[1.0]], "steps=2 and X has 1"), (0, [[1.0]], "integer >= 1")]:
        with pytest.raises(ValueError, match=text):
            model.forecast(steps, X)
    with pytest.raises(ValueError, match="fitted without columns"):
        DynamicGLM().fit(None, y).forecast(1, [[1.0]])


def test_times_of_another_kind_are_named():
    y = monthly(counts(30)[0])
    model = DynamicGLM(**FIXED).fit(None, y[:20])
    for index in (y.index[20:].tz_localize("UTC"), y.index[20:].to_period("M"), pd.Index(list("abcdefghij"))):
        with pytest.raises(ValueError, match="give both the same kind of index"):
            model.partial_fit(None, pd.Series(y[20:].to_numpy(), index=index))
    with pytest.raises(ValueError, match="the index has 2 levels"):
        DynamicGLM().fit(None, pd.concat({"a": y[:10], "b": y[:10]}))
    for X in (3, ["2024-02-18"]):
        with pytest.raises(ValueError, match="a table with an index of times"):
            model.predict(X)


# ---- which points rows are
def test_scores_pair_times_and_not_places():
    y, _ = counts(60)
    times = monthly(y)
    x = pd.DataFrame({"x": np.sin(np.arange(60.0))}, times.index)
    model = DynamicGLM(**FIXED).fit(x[:40], times[:40])
    for ask in (model.score, model.log_predictive_density):
        with pytest.raises(ValueError, match="X and y have different indices"):
            ask(x[40:50], times[41:51])
    bare = DynamicGLM(**FIXED).fit(x[:40].to_numpy(), times[:40])
    assert bare.score(x[30:50].to_numpy(), times[30:50]) == model.score(x[30:50], times[30:50].to_numpy())
    alone = DynamicGLM(**FIXED).fit(None, times[:40])
    assert alone.score(None, times[40:50]) == alone.score(pd.DataFrame(index=times.index[40:50]), times[40:50])
    assert alone.score(None, times[:40]) == alone.score(None, times[:40].to_numpy())
    with pytest.warns(UserWarning, match="rows without times were taken as the 10 that follow"):
        assert alone.score(None, times[40:50].to_numpy()) == alone.score(None, times[40:50])


def test_densities_of_no_observations_are_refused():
    y, _ = counts(30)
    x = np.arange(30.0)[:, None]
    model = DynamicGLM(**FIXED).fit(x, y)
    with pytest.raises(ValueError, match="X was given without y"):
        model.log_predictive_density(x + 1)
    with pytest.raises(ValueError, match="offset was given without y"):
        model.log_predictive_density(offset=np.zeros(30))


def test_rows_that_lost_their_times_are_told_of():
    y, _ = counts(60)
    x = pd.DataFrame({"x": np.sin(np.arange(60.0))})
    model = DynamicGLM(**FIXED).fit(x[:40], y[:40])
    later = x[40:].reset_index(drop=True)
    for ask in (model.predict, model.predict_interval, lambda rows: model.score(rows, y[40:])):
        with pytest.warns(UserWarning, match="rows whose index only counts them, 0 to 19, are fitted points.*forecast"):
            ask(later)
    model.predict(x)  # the fit's own, and those that follow
    times = monthly(y)
    alone = DynamicGLM(**FIXED).fit(None, y[:40])
    with pytest.warns(UserWarning, match="rows whose index only counts them"):
        alone.log_predictive_density(None, pd.Series(y[40:]))
    dated = DynamicGLM(**FIXED).fit(x[:40].to_numpy(), times[:40])
    dated.predict(x[:40].to_numpy())
    with pytest.warns(UserWarning, match="rows without times were taken as the 20 that follow.*transform_output"):
        dated.predict(x[40:].to_numpy())


@pytest.mark.parametrize("freq", ["D", "MS", "ME", "QS"])
def test_a_date_alone_is_kept_until_a_second_one_says_the_step(freq):
    times = pd.date_range("2024-01-01", periods=5, freq=freq)
    y = pd.Series([3.0, 4.0, 2.0, 5.0, 4.0], [*times])
    with pytest.warns(UserWarning, match="alone does not say how far apart points are"):
        model = DynamicGLM(**FIXED).partial_fit(None, y[:1])
    for t in range(1, 4):
        model.partial_fit(None, y[t : t + 1])
        assert model.index_.equals(times[: t + 1])
    assert model.forecast(1).index[0] == times[4]


def test_months_without_a_frequency_and_regular_spans():
    y, _ = counts(20)
    middle = pd.date_range("2024-01-01", periods=20, freq="MS") + pd.Timedelta(days=14)
    with pytest.warns(UserWarning, match=r'no single frequency.*give y.to_period\("M"\)'):
        DynamicGLM(**FIXED).fit(None, pd.Series(y, middle))
    spans = pd.timedelta_range("0h", periods=20, freq="6h")
    model = DynamicGLM(**FIXED).fit(None, pd.Series(y[:15], spans[:15]))
    assert model.forecast(5).index.equals(spans[15:])
    model.partial_fit(None, pd.Series(y[15:18], spans[15:18]))
    assert model.index_.equals(spans[:18])
    assert model.predict(pd.DataFrame(index=spans[18:])).shape == (2,)


def test_means_that_a_tail_rules_are_told_of():
    y, _ = counts(30)
    model = DynamicGLM(level_variance=0.3).fit(None, y)
    model.forecast(5)
    for ask in (lambda: model.forecast(30), lambda: model.predict(pd.DataFrame(index=pd.RangeIndex(50, 60)))):
        with pytest.warns(UserWarning, match="ruled by a tail.*look at the median.*autoregressive=True"):
            ask()
    model.predict_interval(pd.DataFrame(index=pd.RangeIndex(50, 60)))
    DynamicGLM(likelihood="gaussian", level_variance=9.0).fit(None, y).forecast(30)


def test_a_stream_that_begins_with_few_points_is_told_of():
    y, _ = counts(40)
    with pytest.warns(UserWarning, match="began with 8 points: variances were learned from these alone"):
        model = DynamicGLM().partial_fit(None, y[:8])
    model.partial_fit(None, y[8:12])
    DynamicGLM(**FIXED).partial_fit(None, y[:8])
    DynamicGLM().partial_fit(None, y[:30])


TIMES = {
    "days": pd.date_range("2024-02-20", periods=40, freq="D"),
    "months": pd.date_range("2020-01-31", periods=40, freq="ME"),
    "first days of months": pd.date_range("2020-01-01", periods=40, freq="MS"),
    "hours, clocks go forward": pd.date_range("2024-03-30", periods=40, freq="h", tz="Europe/Berlin"),
    "days, clocks go forward": pd.date_range("2024-03-10", periods=40, freq="D", tz="Europe/Berlin"),
    "periods": pd.period_range("2020-01", periods=40, freq="M"),
    "numbers": pd.RangeIndex(7, 127, 3),
    "no frequency": pd.DatetimeIndex(pd.date_range("2024-02-20", periods=40, freq="D").to_numpy()),
}


@pytest.mark.parametrize("times", TIMES.values(), ids=TIMES.keys())
def test_times_of_a_stream_are_those_of_its_parts(times):
    y = pd.Series(np.arange(40.0) % 5, times)
    model = DynamicGLM(**FIXED).fit(None, y[:25])
    for begin, end in ((25, 26), (26, 27), (27, 33), (33, 40)):
        model.partial_fit(None, y[begin:end])
    assert model.index_.equals(times)
    assert model.index_.dtype == times.dtype
    for rows in (y[39:], y[30:31]):
        with pytest.raises(ValueError, match="does not follow"):
            model.partial_fit(None, rows)


@pytest.mark.parametrize("times", [times for name, times in TIMES.items() if name != "no frequency"])
def test_a_gap_in_a_stream_is_an_error(times):
    y = pd.Series(np.arange(40.0) % 5, times)
    model = DynamicGLM(**FIXED).fit(None, y[:25]).partial_fit(None, y[25:27])
    with pytest.raises(ValueError, match="leaves a gap"):
        model.partial_fit(None, y[28:30])
    assert model.partial_fit(None, y[27:28]).index_.equals(times[:28])
