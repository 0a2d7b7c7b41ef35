"""Draws from priors, and simulation-based calibration: what is exact passes, what is too narrow does not."""

from __future__ import annotations

from functools import partial

import matplotlib

matplotlib.use("Agg")

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom, halfcauchy, kstest
from sklearn.base import BaseEstimator
from sklearn.naive_bayes import GaussianNB

from sksvi import BayesianGLMClassifier, BayesianGLMRegressor, GMERegressor
from sksvi.displays import RankDisplay
from sksvi.inspection import RankResult, sbc
from sksvi.inspection._bands import band, inside_probability, points_of
from sksvi.inspection._simulation import rank
from sksvi.likelihoods import Gaussian, NegativeBinomial, StudentT

GIVEN = {"likelihood": Gaussian(variance=1.0), "prior_precision": 1.0, "intercept_precision": 1.0}
SMALL = {"intercept_precision": 1.0}


@pytest.fixture(scope="module")
def rows(global_random_seed):
    return np.random.default_rng(global_random_seed).normal(size=(30, 2)) + 1.0


# ---- draws from the prior
def test_draws_of_a_conjugate_prior_have_its_moments(rows):
    """y ~ N(0, 1 + 1 + |x|²) with all given."""
    y = BayesianGLMRegressor(**GIVEN).sample_prior(rows, 4000, random_state=0)
    variance = 2.0 + np.square(rows).sum(1)
    assert y.shape == (4000, 30)
    assert np.all(np.abs(y.mean(0)) < 4.5 * np.sqrt(variance / 4000))
    assert np.all(np.abs(y.var(0) / variance - 1.0) < 4.5 * np.sqrt(2.0 / 4000))


def test_scales_are_from_their_own_priors(rows):
    """Residual deviation half-Cauchy(1), dispersion the square of an exponential, groups half-t."""
    X = pd.DataFrame(rows, columns=["a", "b"]).assign(site=np.repeat(list("pqrst"), 6))
    draw = np.random.RandomState(0)
    _, found = GMERegressor(noise=False, groups=["site"])._prior_draws(X, 800, draw)
    assert kstest(found.variables["std(residual)"].values, halfcauchy.cdf).pvalue > 1e-4
    spread = found.variables["std(site, intercept)"].values / 2.5
    assert kstest(spread, np.abs(np.random.default_rng(1).standard_t(3, 20_000))).pvalue > 1e-4
    effects = found.variables["groups"].values / found.variables["std(site, intercept)"].values[:, None]
    assert kstest(effects.ravel(), "norm").pvalue > 1e-4
    _, found = BayesianGLMRegressor(likelihood=NegativeBinomial())._prior_draws(rows, 800, draw)
    assert kstest(np.sqrt(found.variables["dispersion"].values), "expon").pvalue > 1e-4


def test_targets_are_in_the_words_of_the_fit(rows):
    X = pd.DataFrame(rows, columns=["a", "b"])
    labels = np.where(rows[:, 0] + np.tile([-2.0, 2.0], 15) > 0, "yes", "no")
    fitted = BayesianGLMClassifier().fit(X, labels)
    assert set(np.unique(fitted.sample_prior(X[:7], 20, random_state=0))) == {"no", "yes"}
    y = 100.0 + 10.0 * rows[:, 0] + np.tile([-3.0, 3.0], 15)
    wide = BayesianGLMRegressor().fit(X, y).sample_prior(X, 400, random_state=0)
    assert 20.0 < np.median(np.abs(wide - 100.0)) < 2000.0  # in the units of y: of the intercept ten of its deviations
    exposed = BayesianGLMRegressor(likelihood="poisson", **SMALL).sample_prior(X, 50, 0, exposure=np.full(30, 1e-9))
    assert np.mean(exposed) < 1e-2
    again = fitted.sample_prior(X, 5, random_state=3)
    np.testing.assert_array_equal(again, fitted.sample_prior(X, 5, random_state=3))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"prior_precision": "flat"}, "prior_precision='flat' of this .* is flat"),
        ({"prior_precision": "ard"}, "has a scale for each column"),
        ({"covariance": "low-rank"}, "covariance='low-rank'"),
        ({"likelihood": "ordinal"}, "learns .*cut_points.* without a prior"),
        ({"likelihood": StudentT()}, "learns scale without a prior: give numbers, as in StudentT"),
    ],
)
def test_what_has_no_proper_prior_is_refused(options, words, rows):
    with pytest.raises(ValueError, match=words):
        BayesianGLMRegressor(**options).sample_prior(rows)


@pytest.mark.costly
def test_prior_groups_of_arviz(rows):
    pytest.importorskip("arviz")
    y = rows[:, 0] + 0.1
    data = BayesianGLMRegressor().fit(rows, y).to_arviz(rows, y, n_samples=20, prior=True, random_state=0)
    assert data["prior"]["weights"].shape == (1, 20, 3) and data["prior_predictive"]["y"].shape == (1, 20, 30)


# ---- bands
@pytest.mark.parametrize(("n", "steps"), [(60, 20), (200, 100)])
def test_the_probability_of_a_band_is_that_of_simulations(n, steps, global_random_seed):
    at = points_of(n, steps)
    ranks = np.random.default_rng(global_random_seed).integers(0, steps, (4000, n))
    counts = np.stack([(ranks < r).sum(1) for r in at], axis=1)
    share = at / steps
    tail = 2.0 * np.minimum(binom.cdf(counts, n, share), binom.sf(counts - 1, n, share)).min(1)
    for level in (0.002, 0.01, 0.05):
        exact = inside_probability(level, n, at, steps)
        assert abs(np.mean(tail > level) - exact) < 4 * np.sqrt(exact * (1 - exact) / 4000)


@pytest.mark.costly
def test_curves_of_uniform_ranks_stay_in_the_band(global_random_seed):
    share, low, high = band(100, 100, 0.9)
    ranks = np.random.default_rng(global_random_seed).integers(0, 100, (2000, 100))
    curves = np.stack([(ranks < r).mean(1) for r in np.round(share * 100)], axis=1) - share
    inside = np.mean(np.all((curves >= low - 1e-12) & (curves <= high + 1e-12), axis=1))
    assert 0.9 - 4 * np.sqrt(0.09 / 2000) < inside < 0.96  # counts are whole numbers: a little more


# ---- ranks
class HalfVariance(BayesianGLMRegressor):
    """A posterior with half the variance of the right one."""

    def _posterior_draws(self, n, rng):
        draws = super()._posterior_draws(n, rng)
        values, axes = draws.variables["weights"]
        mean = self.posterior_["weights"].mean
        draws.variables["weights"] = type(draws.variables["weights"])(mean + np.sqrt(0.5) * (values - mean), axes)
        return draws


@pytest.mark.costly
def test_a_conjugate_posterior_passes_and_one_of_half_the_variance_does_not(rows, global_random_seed):
    right = sbc(BayesianGLMRegressor(**GIVEN), X=rows, n=300, random_state=global_random_seed)
    table = right.table
    assert np.all(table["p_value"] > 1e-4) and np.all(np.abs(table["covered"] - 0.9) < 4 * np.sqrt(0.09 / 300))
    assert list(right.ranks) == ["weights[x0]", "weights[x1]", "weights[intercept]", "log likelihood"]
    narrow = sbc(HalfVariance(**GIVEN), X=rows, n=300, random_state=global_random_seed)
    table = narrow.table.filter(like="weights", axis=0)
    expected = 2 * 0.8776 - 1  # Φ(1.645 √½)
    assert np.all(np.abs(table["covered"] - expected) < 4 * np.sqrt(0.19 / 300))
    assert (table["verdict"] == "too narrow").all() and not narrow.passed
    assert "too narrow; 90 % intervals hold" in str(narrow)


@pytest.mark.costly
def test_ranks_do_not_depend_on_processes(rows):
    model = BayesianGLMClassifier(**SMALL)
    one, two = (sbc(model, X=rows, n=6, n_draws=19, n_jobs=n_jobs, random_state=1) for n_jobs in (None, 2))
    pd.testing.assert_frame_equal(one.ranks, two.ranks)


@pytest.mark.costly
def test_simulations_and_quantities_of_ones_own(rows, global_random_seed):
    """The mean of normal numbers: its posterior is exact; of a shifted simulation draws are too low."""

    def simulate(shift, rng):
        mean = rng.standard_normal()
        return np.zeros((20, 0)), mean + rng.standard_normal(20), {"mean": mean + shift}

    class Mean(BaseEstimator):
        def fit(self, X, y):
            self.mean_, self.sd_ = y.sum() / 21, np.sqrt(1 / 21)
            return self

    def draws(model, X, n, rng):
        return {"mean": model.mean_ + model.sd_ * rng.standard_normal(n)}

    found = [
        sbc(Mean(), partial(simulate, shift), 200, quantities=draws, random_state=global_random_seed)
        for shift in (0.0, 0.2)
    ]
    assert found[0].table["p_value"].item() > 1e-4
    assert "biased, draws too low" in found[1].table["verdict"].item() and found[1].table["bias"].item() > 5


def test_what_sbc_refuses(rows):
    with pytest.raises(ValueError, match="X is missing"):
        sbc(BayesianGLMRegressor())
    with pytest.raises(TypeError, match="GaussianNB has no draws from its prior: give simulate"):
        sbc(GaussianNB(), X=rows)
    with pytest.raises(ValueError, match="is flat"):
        sbc(BayesianGLMRegressor(prior_precision="flat"), X=rows)

    def one_class(rng):
        return rows, np.zeros(30), {"weights": np.zeros(3)}

    with pytest.raises(ValueError, match="none of 2 simulations has a fit"):
        sbc(BayesianGLMClassifier(), one_class, 2)


def test_ties_are_broken_at_random():
    rng = np.random.RandomState(0)
    found = [rank(1.0, np.array([0.0, 1.0, 1.0, 2.0]), rng) for _ in range(200)]
    assert set(found) == {1.0, 2.0, 3.0}


@pytest.mark.exhaustive
def test_display_of_ranks(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    ranks = pd.DataFrame({"right": rng.integers(0, 100, 300), "narrow": np.where(rng.random(300) < 0.5, 2, 97)})
    display = RankDisplay.from_result(RankResult(ranks, 99))
    assert display.difference.shape == (2, len(display.share)) and len(display.lines_) == 2
    below = np.mean(ranks["narrow"].to_numpy()[:, None] < np.round(100 * display.share), axis=0) - display.share
    np.testing.assert_allclose(display.difference[1], below)
    assert np.any(display.difference[1] > display.upper) and np.any(display.difference[1] < display.lower)
    assert len(RankDisplay.from_result(RankResult(ranks, 99), quantities=["right"]).lines_) == 1
    with pytest.raises(ValueError, match="there are no ranks of 'x'"):
        RankDisplay.from_result(RankResult(ranks, 99), quantities=["x"])
    with pytest.raises(ValueError, match="ranks must lie between 0 and n_draws=50"):
        RankDisplay(ranks, 50)
    matplotlib.pyplot.close("all")
