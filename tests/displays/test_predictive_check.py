"""Data beside what a model would draw: rootograms, densities, frequencies, reliability."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import binom, norm
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sksvi import BayesianGLMClassifier, BayesianGLMRegressor, GeneralizedPMF, GMERegressor
from sksvi.datasets import make_glm
from sksvi.displays import PosteriorPredictiveDisplay

pytest.importorskip("matplotlib")
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def heights(bars):
    return np.array([bar.get_height() for bar in bars])


def test_bars_of_a_rootogram_hang_from_what_is_expected():
    y, draws = np.array([0, 0, 2, 3]), np.array([[0, 1], [0, 0], [1, 1], [2, 2]])
    display = PosteriorPredictiveDisplay.from_predictions(y, draws)
    assert display.kind == "rootogram"
    assert_array_equal(display.observed, [2, 0, 1, 1])
    assert_array_equal(display.expected, [1.5, 1.5, 1, 0])
    assert_allclose(heights(display.bars_), np.sqrt([2, 0, 1, 1]))
    tops = [bar.get_y() + bar.get_height() for bar in display.bars_]
    assert_allclose(tops, np.sqrt(display.expected))
    assert_allclose(display.expected_.get_ydata(), np.sqrt([1.5, 1.5, 1, 0]))
    assert_allclose(display.expected_.get_xdata(), [0, 1, 2, 3])
    assert "(count)" in display.ax_.get_xlabel()


def test_counts_of_a_model_that_is_right(global_random_seed):
    """Expected rows are those of the predictive distributions, up to the error of 100 draws of all rows."""
    rng = np.random.default_rng(global_random_seed)
    X = rng.standard_normal((2000, 2))
    y = pd.Series(rng.poisson(np.exp(0.5 + 0.4 * X[:, 0])), name="visits")
    model = make_pipeline(StandardScaler(), BayesianGLMRegressor(likelihood="poisson")).fit(X, y)
    display = PosteriorPredictiveDisplay.from_estimator(model, X, y)
    rows, counts = model[0].transform(X), np.arange(len(display.expected))
    wanted = np.array([np.exp(model[-1].log_predictive_density(rows, np.full(2000, k))).sum() for k in counts])
    assert_array_equal(display.at, np.arange(len(counts) + 1))
    assert np.all(np.abs(display.expected - wanted) < 4 * np.sqrt(wanted / 100) + 0.1)
    assert np.all(np.abs(display.observed - wanted) < 4 * np.sqrt(wanted) + 1)
    assert np.all(display.lower <= display.expected + 1e-9) and np.all(display.expected <= display.upper + 1)
    assert display.ax_.get_xlabel() == "visits (count)" and "√" in display.ax_.get_ylabel()
    again = PosteriorPredictiveDisplay.from_estimator(model, X, y)
    assert_array_equal(again.expected, display.expected)
    other = PosteriorPredictiveDisplay.from_estimator(model, X, y, random_state=1)
    assert not np.array_equal(other.expected, display.expected)


def test_large_counts_share_bars():
    rng = np.random.default_rng(0)
    y, draws = rng.poisson(300, 500), rng.poisson(300, (500, 20))
    display = PosteriorPredictiveDisplay.from_predictions(y, draws)
    assert len(display.bars_) <= 40 and display.observed.sum() == 500
    width = display.at[1] - display.at[0]
    first = display.at[:-1][display.observed > 0][0]
    assert display.observed[display.observed > 0][0] == np.sum((y >= first) & (y < first + width))
    assert f"{width:.0f} to a bar" in display.ax_.get_xlabel()


def test_densities_and_distribution_functions_of_measured_values(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    y, draws = rng.standard_normal(2000), rng.standard_normal((2000, 50))
    display = PosteriorPredictiveDisplay.from_predictions(y, draws)
    width = np.diff(display.at)
    assert display.kind == "histogram" and np.sum(display.observed * width) == pytest.approx(1.0)
    wanted = np.diff(norm.cdf(display.at)) / width
    assert np.all(np.abs(display.expected - wanted) < 4 * np.sqrt(wanted / (2000 * 50 * width)) + 1e-3)
    assert_allclose(heights(display.bars_), display.observed)
    ecdf = PosteriorPredictiveDisplay.from_predictions(y, draws, kind="ecdf")
    assert_allclose(ecdf.expected, norm.cdf(ecdf.at), atol=4 * 0.5 / np.sqrt(2000 * 50))
    assert_allclose(ecdf.observed, [np.mean(y <= at) for at in ecdf.at])
    assert_allclose(ecdf.observed_.get_ydata(), 100 * ecdf.observed)
    assert np.mean((ecdf.lower <= ecdf.observed) & (ecdf.observed <= ecdf.upper)) > 0.3


def test_transformed_targets_are_drawn_in_their_own_unit(global_random_seed):
    X, y = make_glm(300, 2, likelihood="gaussian", random_state=global_random_seed)
    model = TransformedTargetRegressor(BayesianGLMRegressor(), func=np.log, inverse_func=np.exp).fit(X, np.exp(y))
    display = PosteriorPredictiveDisplay.from_estimator(model, X, np.exp(y))
    assert display.kind == "histogram" and display.at.min() >= 0


def test_labels_by_hand():
    y = np.array(["no", "yes", "yes", "no"])
    p = np.array([[0.9, 0.1], [0.5, 0.5], [0.2, 0.8], [0.4, 0.6]])
    counts = PosteriorPredictiveDisplay.from_predictions(y, probabilities=p, kind="frequencies")
    assert_array_equal(counts.observed, [2, 2])
    assert_allclose(counts.expected, [2.0, 2.0])
    assert_allclose(counts.upper - 2, 1.6448536 * np.sqrt(0.09 + 0.25 + 0.16 + 0.24))
    assert_array_equal(heights(counts.bars_), [2, 2])
    assert_allclose(counts.expected_.get_ydata(), [2, 2])
    assert [label.get_text() for label in counts.ax_.get_xticklabels()] == ["no", "yes"]
    chance = np.repeat([0.1, 0.7], 50)
    came = np.r_[np.ones(4), np.zeros(46), np.ones(40), np.zeros(10)].astype(int)
    two = PosteriorPredictiveDisplay.from_predictions(came, probabilities=np.c_[1 - chance, chance])
    assert two.kind == "reliability"
    assert_allclose(two.at, [0.1, 0.7])
    assert_allclose(two.observed, [0.08, 0.8])
    assert_allclose(two.lower, binom.ppf(0.05, 50, [0.1, 0.7]) / 50)
    assert_allclose(two.observed_.get_ydata(), [8, 80])
    three = np.tile([0.5, 0.3, 0.2], (10, 1))
    likeliest = PosteriorPredictiveDisplay.from_predictions(
        np.repeat([4, 5, 6], [6, 3, 1]), probabilities=three, kind="reliability"
    )
    assert_allclose(likeliest.at, [0.5])
    assert_allclose(likeliest.observed, [0.6])


def test_labels_levels_and_trials_of_models(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    X = rng.standard_normal((600, 2))
    p = 1 / (1 + np.exp(-X[:, 0]))
    labels = np.where(rng.random(600) < p, "b", "a")
    model = make_pipeline(StandardScaler(), BayesianGLMClassifier()).fit(X, labels)
    display = PosteriorPredictiveDisplay.from_estimator(model, X, labels)
    assert display.kind == "reliability" and "Predicted probability of y = b" in display.ax_.get_xlabel()
    assert np.all(np.abs(display.observed - display.at) < 4 * np.sqrt(0.25 / 60) + 0.02)
    names = np.array(["low", "mid", "high"])[np.digitize(X[:, 0] + rng.standard_normal(600), [-1, 1])]
    several = BayesianGLMClassifier(max_iter=20).fit(X, names)
    counts = PosteriorPredictiveDisplay.from_estimator(several, X, names)
    assert counts.kind == "frequencies" and counts.at.tolist() == ["high", "low", "mid"]
    assert_allclose(counts.expected, several.predict_proba(X).sum(0), rtol=1e-6)
    ordered = pd.Series(pd.Categorical(names, ["low", "mid", "high"], ordered=True))
    ordinal = BayesianGLMRegressor(likelihood="ordinal").fit(X, ordered)
    levels = PosteriorPredictiveDisplay.from_estimator(ordinal, X, ordered)
    assert levels.at.tolist() == ["low", "mid", "high"] and levels.observed.sum() == 600
    trials = rng.integers(1, 20, 600)
    k = rng.binomial(trials, p)
    pairs = np.column_stack([k, trials - k])
    rates = GMERegressor(likelihood="binomial", noise=False).fit(X, pairs)
    display = PosteriorPredictiveDisplay.from_estimator(rates, X, pairs)
    assert display.kind == "reliability" and np.all(np.abs(display.observed - display.at) < 0.1)
    liked = GeneralizedPMF(1, likelihood="logit", max_iter=2).fit(np.c_[trials, k], (labels == "b").astype(int))
    display = PosteriorPredictiveDisplay.from_estimator(liked, np.c_[trials, k], (labels == "b").astype(int))
    assert display.kind == "reliability" and "probability of y = 1" in display.ax_.get_xlabel()
    with pytest.raises(ValueError, match="kind='rootogram' is unknown: choose 'reliability'"):
        PosteriorPredictiveDisplay.from_estimator(rates, X, pairs, kind="rootogram")


def test_what_does_not_fit_is_said():
    y, draws = np.array([0.5, 1.0]), np.ones((2, 3))
    with pytest.raises(ValueError, match="either draws or probabilities"):
        PosteriorPredictiveDisplay.from_predictions(y)
    with pytest.raises(ValueError, match="needs counts"):
        PosteriorPredictiveDisplay.from_predictions(y, draws, kind="rootogram")
    with pytest.raises(ValueError, match="kind='reliability' is unknown: choose 'rootogram' or 'histogram' or 'ecdf'"):
        PosteriorPredictiveDisplay.from_predictions(y, draws, kind="reliability")
    with pytest.raises(
        ValueError, match=r"draws must have a row for each of the 2 of y, shape \(2, m\); found \(3, 1\)"
    ):
        PosteriorPredictiveDisplay.from_predictions(y, np.ones((3, 1)))
    p = np.array([[0.5, 0.5], [0.5, 0.5]])
    with pytest.raises(ValueError, match=r"labels without a column of probabilities: \['c'\]; known: \['a', 'b'\]"):
        PosteriorPredictiveDisplay.from_predictions(["a", "c"], probabilities=p, classes=["a", "b"])
    with pytest.raises(ValueError, match="sum to 1 in every row"):
        PosteriorPredictiveDisplay.from_predictions(["a", "b"], probabilities=2 * p)
    with pytest.raises(ValueError, match=r"2 columns for the classes \['a'\]"):
        PosteriorPredictiveDisplay.from_predictions(["a", "a"], probabilities=p)
    with pytest.raises(ValueError, match=r"must have shape \(2,\)"):
        PosteriorPredictiveDisplay("histogram", [0, 1, 2], [1], [1, 1], [1, 1], [1, 1])
    X = np.arange(20.0)[:, None]
    model = BayesianGLMRegressor().fit(X, X[:, 0])
    with pytest.raises(NotFittedError):
        PosteriorPredictiveDisplay.from_estimator(clone(model), X, X[:, 0])
    with pytest.raises(ValueError, match="n_draws"):
        PosteriorPredictiveDisplay.from_estimator(model, X, X[:, 0], n_draws=0)
    with pytest.raises(TypeError, match="LogisticRegression has no predictive distribution"):
        PosteriorPredictiveDisplay.from_estimator(LogisticRegression().fit(X, X[:, 0] > 9), X, X[:, 0] > 9)
