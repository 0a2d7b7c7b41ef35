"""Coverage of intervals and probability transforms: numbers worked out by hand, and models that are right."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import binom, kstest, norm, poisson
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from sksvi import BayesianGLMClassifier, BayesianGLMRegressor, DynamicGLM, GMERegressor, predict_interval
from sksvi.datasets import make_glm
from sksvi.displays import IntervalCoverageDisplay, PITDisplay, PosteriorPredictiveDisplay, PredictionBandDisplay
from sksvi.displays._predicted import steps
from sksvi.likelihoods import Binomial
from sksvi.predictive import Predictive

pytest.importorskip("matplotlib")


def four_errors(share, n):
    return 4 * np.sqrt(share * (1 - share) / n)


def times(values, by):
    return by * values


@pytest.fixture
def measured(global_random_seed):
    X, y = make_glm(3000, 2, likelihood="gaussian", random_state=global_random_seed)
    return X, y, BayesianGLMRegressor().fit(X[:1000], y[:1000])


@pytest.fixture
def counted(global_random_seed):
    X, y = make_glm(3000, 2, likelihood="poisson", random_state=global_random_seed)
    return X, y, BayesianGLMRegressor(likelihood="poisson").fit(X[:1000], y[:1000])


def test_coverage_of_a_model_that_is_right(measured):
    X, y, model = measured
    display = IntervalCoverageDisplay.from_estimator(model, X[1000:], y[1000:])
    assert np.all(np.abs(display.observed - display.nominal) < four_errors(display.nominal, 2000) + 0.01)
    assert display.randomized is None and display.randomized_line_ is None
    assert_allclose(display.line_.get_ydata(), 100 * display.observed)
    assert_allclose(display.lower, binom.ppf(0.025, 2000, display.nominal) / 2000)
    # The same shares by the intervals themselves, whose ends other code finds.
    for coverage, share in zip(display.nominal, display.observed, strict=True):
        low, high = predict_interval(model, X[1000:], coverage).T
        assert share == pytest.approx(np.mean((low <= y[1000:]) & (y[1000:] <= high)), abs=1e-3)


def test_intervals_of_counts_hold_more_and_random_ends_what_they_promise(counted):
    X, y, model = counted
    display = IntervalCoverageDisplay.from_estimator(model, X[1000:], y[1000:])
    low, high = model.predict_interval(X[1000:], 0.5).T
    half = int(np.argmin(np.abs(display.nominal - 0.5)))
    assert display.observed[half] == pytest.approx(np.mean((low <= y[1000:]) & (y[1000:] <= high)), abs=1e-3)
    assert np.all(display.observed >= display.randomized)
    assert np.all(np.abs(display.randomized - display.nominal) < four_errors(display.nominal, 2000) + 0.01)
    assert_allclose(display.randomized_line_.get_ydata(), 100 * display.randomized)
    display.figure_.canvas.draw()


def test_coverage_by_hand():
    """Three of four inside the interval of 80 %, one of the 50 %; the median has no interval."""
    y = np.array([0.0, 1.0, 2.0, 9.0])
    levels = [0.5, 0.9, 0.1, 0.25, 0.75]
    quantiles = np.tile([1.0, 2.0, 0.0, 0.5, 1.5], (4, 1))
    display = IntervalCoverageDisplay.from_predictions(y, quantiles, levels)
    assert_allclose(display.nominal, [0.8, 0.5])
    assert_array_equal(display.observed, [0.75, 0.25])
    assert_array_equal(display.line_.get_xdata(), [50, 80])
    for wrong, said in (
        (([0.1, 0.8], 2), r"pairs p and 1 - p.*found \[0.1, 0.8\]"),
        (([0.0, 1.0], 2), "strictly between 0 and 1"),
        (([0.1, 0.9], 3), "3 columns for the 2 levels"),
    ):
        with pytest.raises(ValueError, match=said):
            IntervalCoverageDisplay.from_predictions(y, np.zeros((4, wrong[1])), wrong[0])
    with pytest.raises(ValueError, match=r"quantiles must have a row for each of the 4 of y"):
        IntervalCoverageDisplay.from_predictions(y, np.zeros((3, 2)), [0.1, 0.9])
    with pytest.raises(ValueError, match="y must be finite; found nan in row 1"):
        IntervalCoverageDisplay.from_predictions([0.0, np.nan], np.zeros((2, 2)), [0.1, 0.9])
    with pytest.raises(ValueError, match="coverage must lie strictly between 0 and 1"):
        IntervalCoverageDisplay([1.0], [0.5], 10)
    with pytest.raises(ValueError, match="one for each coverage"):
        IntervalCoverageDisplay([0.5], [1.5], 10)
    with pytest.raises(
        ValueError, match="n, the number of observations, must be a whole number of at least 1; found 0"
    ):
        IntervalCoverageDisplay([0.5], [0.5], 0)


def test_transforms_of_measured_values(measured):
    X, y, model = measured
    display = PITDisplay.from_estimator(model, X[1000:], y[1000:])
    mean, std = model.predict(X[1000:], return_std=True)
    assert_allclose(display.pit, norm.cdf(y[1000:], mean, std), atol=1e-9)
    # Four standard errors, and what a thousand rows leave unknown of the mean and the spread.
    assert kstest(display.pit, "uniform").statistic < 2.0 / np.sqrt(2000) + 0.02
    assert len(display.bars_) == display.bins == 20
    assert_allclose([bar.get_height() for bar in display.bars_], display.density)
    assert np.mean(display.density) == pytest.approx(1.0)
    assert display.lower == pytest.approx(binom.ppf(0.025, 2000, 0.05) / 100)
    assert_array_equal(display.uniform_line_.get_ydata(), [1, 1])


def test_transforms_of_counts_are_drawn_between_two_probabilities(counted):
    X, y, model = counted
    below, at_most = steps(model, X[1000:], y[1000:])
    assert np.all((0 <= below) & (below < at_most) & (at_most <= 1))
    first = PITDisplay.from_estimator(model, X[1000:], y[1000:], random_state=3)
    assert np.all((below <= first.pit) & (first.pit <= at_most))
    assert kstest(first.pit, "uniform").pvalue > 6e-5
    assert_array_equal(first.pit, PITDisplay.from_estimator(model, X[1000:], y[1000:], random_state=3).pit)
    other = PITDisplay.from_estimator(model, X[1000:], y[1000:], random_state=4).pit
    assert not np.array_equal(first.pit, other)
    # A model that knows of no spread beyond the counts' own: heaps at the ends.
    wide = np.random.default_rng(0).negative_binomial(1, 0.1, 2000)
    narrow = PITDisplay.from_predictions(wide, np.random.default_rng(1).poisson(9, (2000, 99)))
    assert min(narrow.density[0], narrow.density[-1]) > narrow.upper > 1 > narrow.lower > narrow.density[10]


@pytest.mark.costly
def test_ranks_among_draws_by_hand():
    """Of 3 draws: none below and none equal lies in (0, 1/4), two equal ones span (1/4, 1)."""
    y, draws = np.repeat([0.0, 5.0], 400), np.repeat([[1.0, 2.0, 3.0], [4.0, 5.0, 5.0]], 400, axis=0)
    pit = PITDisplay.from_predictions(y, draws, bins=4).pit
    assert 0 < pit[:400].min() and 0.23 < pit[:400].max() < 0.25
    assert 0.25 < pit[400:].min() < 0.3 and 0.97 < pit[400:].max() < 1
    with pytest.raises(ValueError, match=r"draws must have a row for each of the 2 of y"):
        PITDisplay.from_predictions([0.0, 1.0], [[1.0]])
    with pytest.raises(ValueError, match=r"pit must lie in \[0, 1\]; found 1.5 in row 1"):
        PITDisplay([0.5, 1.5])
    with pytest.raises(ValueError, match="bins must be a whole number of at least 2, or None; found 1"):
        PITDisplay([0.5], bins=1)
    assert [PITDisplay(np.full(n, 0.5)).bins for n in (10, 240, 10_000)] == [5, 12, 20]


def test_through_wrappers(measured):
    """Pipelines, searches and transformed targets; one that falls turns the transform around."""
    X, y, model = measured
    alone = PITDisplay.from_estimator(model, X[1000:], y[1000:]).pit
    search = GridSearchCV(make_pipeline(StandardScaler(), BayesianGLMRegressor()), {}, cv=2).fit(X[:1000], y[:1000])
    assert_allclose(PITDisplay.from_estimator(search, X[1000:], y[1000:]).pit, alone, atol=1e-3)
    for scale in (2.0, -2.0):
        inside = make_pipeline(FunctionTransformer(), BayesianGLMRegressor())
        unit = FunctionTransformer(times, times, kw_args={"by": 1 / scale}, inv_kw_args={"by": scale})
        transformed = TransformedTargetRegressor(inside, transformer=unit)
        transformed.fit(X[:1000], y[:1000] * scale)
        pit = PITDisplay.from_estimator(transformed, X[1000:], y[1000:] * scale).pit
        assert_allclose(pit, alone if scale > 0 else 1 - alone, atol=1e-3)
        cover = IntervalCoverageDisplay.from_estimator(transformed, X[1000:], y[1000:] * scale, coverages=[0.5])
        low, high = predict_interval(transformed, X[1000:], 0.5).T
        inside = np.mean((low <= y[1000:] * scale) & (y[1000:] * scale <= high))
        assert cover.observed[0] == pytest.approx(inside, abs=1e-3)


def test_series_one_step_ahead(global_random_seed):
    y = pd.Series(np.random.default_rng(global_random_seed).poisson(5, 80).astype(float))
    y[[7, 8]] = np.nan
    model = DynamicGLM(likelihood="poisson", level_variance=0.01).fit(None, y)
    display = PITDisplay.from_estimator(model, random_state=5)
    residuals = model.residuals(random_state=5)
    assert len(display.pit) == 78
    low, high = model._steps_ahead()
    u = norm.cdf(residuals.dropna())
    assert np.all((low - 1e-9 <= u) & (u <= high + 1e-9))
    assert IntervalCoverageDisplay.from_estimator(model).n == 78
    X = pd.DataFrame(index=pd.RangeIndex(80, 90))
    assert PITDisplay.from_estimator(model, X, pd.Series(np.full(10, 5.0), X.index)).pit.shape == (10,)


@pytest.mark.costly
def test_successes_in_trials(global_random_seed):
    """Noise of each row is integrated out: as by draws."""
    rng = np.random.default_rng(global_random_seed)
    x, trials = rng.standard_normal(300), rng.integers(1, 30, 300)
    p = 1 / (1 + np.exp(-x - rng.standard_normal(300)))
    y = np.column_stack([rng.binomial(trials, p), trials])
    y[:, 1] -= y[:, 0]
    X = pd.DataFrame({"x": x})
    model = GMERegressor(likelihood="binomial").fit(X, y)
    predictive = model._predictive(X, None)
    below, at_most = predictive.cdf_steps(y)
    n = 4000
    # Draws of the nodes of the hyperparameters in the shares of their weights.
    counts, f = rng.multinomial(n, predictive.weights), []
    for part, k in zip(predictive.components, counts, strict=True):
        noise = np.sqrt(part._v[:, None] + rng.rayleigh(part.sigma, (300, k)))
        f.append(part._m[:, None] + noise * rng.standard_normal((300, k)))
    f = np.concatenate(f, axis=1)
    draws = rng.binomial(trials[:, None], 1 / (1 + np.exp(-f)))
    for found, share in ((below, draws < y[:, :1]), (at_most, draws <= y[:, :1])):
        wanted = share.mean(1)
        assert np.all(np.abs(found - wanted) < 5 * np.sqrt((wanted * (1 - wanted) + 1 / n) / n) + 1e-9)
    assert kstest(PITDisplay.from_estimator(model, X, y).pit, "uniform").pvalue > 6e-5


def test_steps_of_counts_and_levels(counted):
    X, y, model = counted
    predictive = Predictive(model.likelihood_, np.zeros(3), np.zeros(3))
    below, at_most = predictive.cdf_steps(np.array([0, 1, 4]))
    assert_allclose(below, poisson.cdf([-1, 0, 3], 1.0), atol=1e-12)
    assert_allclose(at_most, poisson.cdf([0, 1, 4], 1.0), atol=1e-12)
    grades = np.array([3, 5, 9])[np.clip(y[:300], 0, 2).astype(int)]
    ordinal = BayesianGLMRegressor(likelihood="ordinal").fit(X[:300], grades)
    low, high = steps(ordinal, X[:300], grades)
    p, at = ordinal.predict_proba(X[:300]), np.searchsorted(ordinal.levels_, grades)
    assert_allclose(high - low, p[np.arange(300), at], atol=1e-6)
    assert np.all(low[at == 0] == 0) and np.allclose(high[at == 2], 1)


def test_what_has_no_intervals_is_said(measured):
    X, y, model = measured
    labels = BayesianGLMClassifier().fit(X[:100], y[:100] > 0)
    for display in (IntervalCoverageDisplay, PITDisplay):
        with pytest.raises(NotFittedError):
            display.from_estimator(clone(model), X, y)
        with pytest.raises(ValueError, match="BayesianGLMClassifier predicts labels, which have no order"):
            display.from_estimator(labels, X[:100], y[:100] > 0)
        with pytest.raises(TypeError, match=r"LinearRegression has no predictive distribution.*from_predictions"):
            display.from_estimator(LinearRegression().fit(X, y), X, y)
        with pytest.raises(ValueError, match="y is needed"):
            display.from_estimator(model, X)
    with pytest.raises(ValueError, match="coverage must lie strictly between 0 and 1; found 90"):
        IntervalCoverageDisplay.from_estimator(model, X, y, coverages=[90])


def test_trials_in_the_place_of_failures(global_random_seed):
    """What is drawn does not depend on how the target says the same."""
    rng = np.random.default_rng(global_random_seed)
    X, trials = rng.standard_normal((200, 1)), rng.integers(1, 20, 200)
    k = rng.binomial(trials, 1 / (1 + np.exp(-X[:, 0])))
    fits = {
        "failures": np.column_stack([k, trials - k]),
        "trials": np.column_stack([k, trials]),
    }
    found = []
    for name, y in fits.items():
        model = BayesianGLMRegressor(likelihood=Binomial(target=name)).fit(X, y)
        check = PosteriorPredictiveDisplay.from_estimator(model, X, y)
        band = PredictionBandDisplay.from_estimator(model, X, y, n_points=3)
        found.append((PITDisplay.from_estimator(model, X, y).pit, check.observed, band.points_.get_ydata()))
    for one, other in zip(*found, strict=True):
        assert_allclose(one, other)


def test_exposure_is_an_offset_of_its_logarithm(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    X, hours = rng.standard_normal((120, 1)), rng.uniform(0.5, 9.0, 120)
    y = rng.poisson(hours * np.exp(0.4 * X[:, 0]))
    model = BayesianGLMRegressor(likelihood="poisson").fit(X, y, exposure=hours)
    for display, name in (
        (IntervalCoverageDisplay, "observed"),
        (PITDisplay, "pit"),
        (PosteriorPredictiveDisplay, "expected"),
    ):
        found = [
            display.from_estimator(model, X, y, **given) for given in ({"exposure": hours}, {"offset": np.log(hours)})
        ]
        assert_allclose(*(getattr(one, name) for one in found))
    texts = [model.summary_text(0.9, X, y, **given) for given in ({"exposure": hours}, {"offset": np.log(hours)})]
    assert texts[0] == texts[1]
