"""Successes of so many trials: quantiles, intervals and draws, beside exact distributions and simulation."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import betabinom, binom, norm
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sksvi import BayesianGLMRegressor, DynamicGLM, GMERegressor
from sksvi.likelihoods import BetaBinomial, Binomial
from sksvi.predictive import MixturePredictive, NoisyPredictive, Predictive, predict_interval, sample_y

TRIALS = np.array([0, 1, 12, 807])


def simulated(rng, n=120, precision=None):
    X = rng.standard_normal((n, 2))
    trials = rng.integers(1, 60, n)
    p = expit(-0.5 + 0.6 * X[:, 0])
    p = p if precision is None else rng.beta(precision * p, precision * (1 - p))
    successes = rng.binomial(trials, p)
    return X, np.column_stack([successes, trials - successes]), trials


@pytest.mark.parametrize("likelihood", [Binomial(), BetaBinomial(precision=3.0, target="trials")])
def test_quantiles_are_those_of_the_exact_mixture(likelihood):
    m, v = np.full(4, 0.3), np.full(4, 0.4)
    f = 0.3 + np.sqrt(0.4) * np.linspace(-8.0, 8.0, 801)
    weight = norm.pdf(f, 0.3, np.sqrt(0.4))
    found = Predictive(likelihood, m, v).quantile([0.05, 0.5, 0.95], trials=TRIALS)
    for n, row in zip(TRIALS, found, strict=True):
        k = np.arange(n + 1)[:, None]
        p = expit(f)
        mass = betabinom.pmf(k, n, 3.0 * p, 3.0 * (1 - p)) if hasattr(likelihood, "precision") else binom.pmf(k, n, p)
        cdf = np.cumsum(mass, axis=0) @ (weight / weight.sum())
        np.testing.assert_array_equal(row, [np.argmax(cdf >= level - 1e-12) for level in (0.05, 0.5, 0.95)])


def test_draws_and_quantiles_agree(global_random_seed):
    """Of a mixture over hyperparameters and with noise in each row: P(draw <= quantile) is the level or just more."""
    rng, size = np.random.default_rng(global_random_seed), 4000
    m, v = np.zeros(3), np.array([0.1, 0.4, 0.4])
    trials = np.array([5, 40, 800])
    parts = [Predictive(BetaBinomial(precision=precision), m, v) for precision in (2.0, 20.0)]
    for predicted in (MixturePredictive(parts, np.array([0.3, 0.7])), NoisyPredictive(Binomial(), m, v, 0.5)):
        draws = predicted.sample(size, rng, trials)
        for level in (0.1, 0.8):
            k = predicted.quantile(level, trials)
            error = 4.0 * np.sqrt(level * (1 - level) / size)
            assert np.all((draws <= k).mean(axis=1) >= level - error)
            assert np.all((draws < k).mean(axis=1) <= level + error)


@pytest.mark.parametrize(("likelihood", "precision"), [("binomial", None), ("beta-binomial", 5.0)])
def test_intervals_of_new_rows_hold_their_successes(likelihood, precision, global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    X, y, _ = simulated(rng, precision=precision)
    model = make_pipeline(StandardScaler(), BayesianGLMRegressor(likelihood=likelihood)).fit(X, y)
    X, y, trials = simulated(rng, 400, precision)
    low, high = predict_interval(model, X, 0.9, trials=trials).T
    covered = np.mean((low <= y[:, 0]) & (y[:, 0] <= high))
    assert covered >= 0.9 - 4.0 * np.sqrt(0.09 / 400) - 0.03  # beside the error of the fit of 120 rows
    assert np.all(high <= trials) and np.median(high - low) < 0.8 * np.median(trials)
    draws = sample_y(model, X[:5], 50, 0, trials=807)
    assert draws.shape == (5, 50) and draws.max() > 1 and np.all(draws % 1 == 0)


def test_mixed_effects_and_the_default_of_one_trial():
    X, y, _ = simulated(np.random.default_rng(0))
    X = np.column_stack([X, np.arange(len(X)) % 6])
    model = GMERegressor(groups=[2], likelihood="binomial").fit(X, y)
    assert set(np.unique(model.predict_interval(X))) <= {0.0, 1.0}
    np.testing.assert_array_equal(
        model.predict_interval(X[:3], trials=9), model.predict_quantiles(X[:3], [0.05, 0.95], trials=[9, 9, 9])
    )


@pytest.mark.parametrize(
    ("trials", "message"),
    [([1.5, 2, 2], "found 1.5 in row 0"), ([1, -2, 2], "found -2 in row 1"), ([1, 2], r"trials.shape == \(2,\)")],
)
def test_trials_are_checked(trials, message):
    X, y, _ = simulated(np.random.default_rng(0), 40)
    model = BayesianGLMRegressor(likelihood="binomial").fit(X, y)
    for ask in (model.predict_interval, model.sample_y):
        with pytest.raises(ValueError, match=message):
            ask(X[:3], trials=trials)
    measured = BayesianGLMRegressor().fit(X, X[:, 0] + X[:, 1] ** 2)
    with pytest.raises(ValueError, match="has no "):
        measured.predict_interval(X, trials=3)


def test_trials_of_the_fitted_points_of_a_series():
    y = np.column_stack([np.arange(12) % 4, 5 - np.arange(12) % 4])
    model = DynamicGLM(likelihood="binomial").fit(None, y)
    interval = model.predict_interval(None, trials=np.full(12, 50))
    assert interval.shape == (12, 2) and np.all(interval[:, 1] > 5)
    assert model.sample_y(None, 3, 0, trials=np.full(12, 50)).shape == (12, 3)
    with pytest.raises(ValueError, match=r"trials\.shape == \(3,\), expected \(12,\)"):
        model.predict_interval(None, trials=np.full(3, 50))
