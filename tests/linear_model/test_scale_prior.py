"""The default prior of coefficients: its density and step, its limits by what rows tell, units, streams."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad

from sksvi import BayesianGLMClassifier, BayesianGLMRegressor
from sksvi.likelihoods import Bernoulli, Gaussian, NegativeBinomial, Ordinal, Poisson, Softmax, StudentT
from sksvi.linear_model._prior import rate_of, target_totals
from sksvi.models.data import Table
from sksvi.models.linear.scales import FREE_COLUMNS, ROWS_PER_COLUMN, WIDEST, ScalePrior


@pytest.fixture
def rng(global_random_seed):
    return np.random.default_rng(global_random_seed)


def prior(columns, rows, target=1.0, link=1.0, kinds=None, variances=0.25):
    kinds = np.zeros(columns, int) if kinds is None else np.array(kinds)
    rows = np.atleast_1d(np.asarray(rows, float))
    return ScalePrior.of(kinds, np.full(columns, variances), rows, target, link, np.ones(columns, bool))


def targets(y, weight=None):
    y = np.asarray(y, float)
    return Table(np.empty((len(y), 0)), y, weight, None)


# ---- density
@pytest.mark.parametrize(
    ("columns", "rows", "target"), [(1, 20, 1.0), (3, 4, 1.0), (6, 10, 1.0), (6, 40, 3.0), (30, 1e6, 0.01)]
)
def test_the_density_integrates_to_one(columns, rows, target):
    scales = prior(columns, rows, target)

    def density(h):
        return float(np.exp(scales.log_density(np.array([h]))))

    low, high = scales.lowest[0], min(scales.highest[0], scales.lowest[0] + 80.0)
    middle = float(np.clip(-2.0 * np.log(target), low, high))
    total = quad(density, low, middle, limit=200)[0] + quad(density, middle, high, limit=200)[0]
    assert total == pytest.approx(1.0, abs=1e-6)
    assert density(low - 0.01) == 0.0
    assert np.isinf(scales.highest[0]) or density(scales.highest[0] + 0.01) == 0.0


def test_the_density_is_half_cauchy_on_the_deviation_of_f():
    scales = prior(8, 10)  # more columns than rows: from zero to the widest
    h = np.linspace(-2.0, 6.0, 9)
    root = np.sqrt(8 * 0.25 * np.exp(-h))  # of f, in units of it
    cauchy = np.log(root / 2) - np.log1p(root**2)  # with dh = 2 d log √W
    found = scales.log_density(h[:, None])
    np.testing.assert_allclose(found - found[0], cauchy - cauchy[0], rtol=1e-10)


def test_kinds_have_scales_of_their_own():
    both = prior(6, [10.0, 12.0], kinds=[0, 0, 0, 0, 1, 1])
    parts = [prior(4, 10.0), prior(2, 12.0)]
    h = np.array([1.0, 0.5])
    wanted = sum(float(part.log_density(h[k : k + 1])) for k, part in enumerate(parts))
    assert float(both.log_density(h)) == pytest.approx(wanted)


# ---- the step
@pytest.mark.parametrize("columns", [1, 4, 20])
@pytest.mark.parametrize("size", [0.02, 0.3, 2.0])
def test_the_step_ends_where_bound_and_prior_are_level(columns, size, rng):
    """With q held, so that MacKay's γ = D - δ tr S."""
    scales = prior(columns, 1.0 if columns > 3 else 50.0)
    squares, variance = np.square(size * rng.standard_normal(columns)), size**2 * rng.uniform(0.0, 0.1, columns)

    def bound(h):
        return (
            -0.5 * np.exp(h) * np.sum(squares + variance) + 0.5 * columns * h + float(scales.log_density(np.array([h])))
        )

    h = np.clip(np.zeros(1), scales.lowest, scales.highest)
    for _ in range(500):
        moved, gain = scales.step(h, 1.0 - np.exp(h) * variance, squares)
        assert gain >= 0.0
        h = h + moved
    assert np.abs(moved).max() < 1e-9
    slope = (bound(h[0] + 1e-5) - bound(h[0] - 1e-5)) / 2e-5
    if scales.lowest[0] + 1e-4 < h[0] < scales.highest[0] - 1e-4:
        assert slope == pytest.approx(0.0, abs=1e-4)
    else:
        inside = 1e-4 if h[0] <= scales.lowest[0] + 1e-4 else -1e-4
        assert bound(h[0] + inside) < bound(h[0])
    at = np.linspace(scales.lowest[0], min(scales.highest[0], 20.0), 400)
    assert bound(h[0]) >= max(bound(x) for x in at) - 1e-6


def test_the_step_ends_within_the_limits():
    scales = prior(2, 50.0)
    for squares in (np.full(2, 1e6), np.zeros(2)):
        h = scales.lowest.copy()
        for _ in range(50):
            h = h + scales.step(h, np.full(2, 0.5), squares)[0]
            assert scales.lowest[0] <= h[0] <= scales.highest[0]


# ---- limits
@pytest.mark.parametrize("columns", [1, 3, 4, 5, 20])
def test_the_floor_falls_to_zero_at_five_rows_a_column_beyond_three(columns):
    least = ROWS_PER_COLUMN * max(columns - FREE_COLUMNS, 0)
    assert (FREE_COLUMNS, ROWS_PER_COLUMN) == (3, 5.0)

    def floor(rows):
        """Least scale per standard deviation of a column."""
        return 0.5 * np.exp(-0.5 * prior(columns, rows).highest[0])

    alone = min(WIDEST, 1.0 / np.sqrt(columns))
    if least == 0:
        assert floor(1.0) == pytest.approx(alone)
    else:
        assert floor(least) == floor(1.0) == 0.0
        assert floor(2 * least) == pytest.approx(np.sqrt(0.5) * alone)
        assert 0 < floor(least + 1) < floor(2 * least) < floor(1e9)
    assert floor(1e9) == pytest.approx(alone, rel=1e-6)


def test_the_widest_scale_is_that_of_the_target():
    for target, link in ((1.0, 1.0), (30.0, 1.0), (1.0, 2.0)):
        scales = prior(2, 50.0, target, link)
        assert 0.5 * np.exp(-0.5 * scales.lowest[0]) == pytest.approx(WIDEST * target)
        assert 0.5 * np.exp(-0.5 * scales.highest[0]) == pytest.approx(target * min(WIDEST, link / np.sqrt(2)))


def test_columns_that_do_not_vary_count_for_nothing():
    varies = np.array([True] * 4 + [False] * 20)
    scales = ScalePrior.of(np.zeros(24, int), 0.25 * varies, np.array([30.0]), 1.0, 1.0, varies)
    np.testing.assert_allclose(scales.highest, prior(4, 30.0).highest)
    nothing = ScalePrior.of(np.zeros(3, int), np.zeros(3), np.array([30.0]), 1.0, 1.0, np.zeros(3, bool))
    assert not nothing.free.any()
    assert np.isfinite(float(nothing.log_density(np.clip(np.zeros(1), nothing.lowest, nothing.highest))))


# ---- what a row tells
def row_information(likelihood, targets):
    return rate_of(likelihood, target_totals(likelihood, targets), targets.total_weight)


@pytest.mark.parametrize("likelihood", [Gaussian(variance=4.0), StudentT(scale=2.0, df=4.0)])
def test_a_measured_target_tells_all(likelihood, rng):
    assert row_information(likelihood, targets(rng.standard_normal(20))) == 1.0


@pytest.mark.parametrize("p", [0.5, 0.2, 0.05])
def test_labels_tell_by_their_rarer_one(p):
    y = np.arange(200) < 200 * p
    assert row_information(Bernoulli(), targets(y)) == pytest.approx(4 * p * (1 - p), rel=0.05)
    assert row_information(Bernoulli(link="probit"), targets(y)) <= 1.0
    few = targets([0.0, 1.0], 100 * np.array([1 - p, p]))  # by weight
    assert row_information(Bernoulli(), few) == pytest.approx(4 * p * (1 - p), rel=0.05)


@pytest.mark.parametrize("mean", [0.05, 0.4, 1.0, 7.0])
def test_counts_tell_by_their_mean(mean, rng):
    y = rng.poisson(mean, 4000)
    told = row_information(Poisson(), targets(y))
    assert told == pytest.approx(min(1.0, y.mean()), rel=0.1)
    assert row_information(NegativeBinomial(dispersion=1.0), targets(y)) <= told + 1e-12


def test_classes_tell_as_their_mean():
    shares = np.array([0.7, 0.2, 0.1])
    y = np.repeat([0.0, 1.0, 2.0], (shares * 50).round().astype(int))
    wanted = np.mean(4 * shares * (1 - shares))
    assert row_information(Softmax(n_classes=3), targets(y)) == pytest.approx(wanted)
    assert 0 < row_information(Ordinal(cut_points=[-1.0, 1.0]), targets(y)) <= 1.0


# ---- in fits
@pytest.mark.parametrize("n", [12, 60])
def test_units_do_not_matter(n, rng):
    X, new = rng.standard_normal((n, 5)), rng.standard_normal((7, 5))
    X[:, 0] = X[:, 0] > 0
    y = X @ [1.0, 0.5, 0.0, 0.0, -1.0] + rng.standard_normal(n)
    model, wide = BayesianGLMRegressor().fit(X, y), BayesianGLMRegressor().fit(1000.0 * X, y)
    for method in ("predict", "predict_interval"):
        np.testing.assert_allclose(getattr(wide, method)(1000.0 * new), getattr(model, method)(new), rtol=1e-6)
    assert wide.lower_bound_ == pytest.approx(model.lower_bound_, abs=1e-6)
    np.testing.assert_allclose(1000.0 * wide.summary()["std"][:5], model.summary()["std"][:5], rtol=1e-6)
    tall = BayesianGLMRegressor().fit(X, 1000.0 * y)
    np.testing.assert_allclose(tall.predict_interval(new), 1000.0 * model.predict_interval(new), rtol=1e-6)


@pytest.mark.parametrize("likelihood", ["logit", "probit"])
def test_rows_that_are_separated_end_at_a_slope(likelihood):
    X, y = np.array([[-2.0], [-1.0], [1.0], [2.0]]), np.array([0, 0, 1, 1])
    model = BayesianGLMClassifier(likelihood=likelihood).fit(X, y)
    assert model.converged_
    assert 0.1 < model.coef_.item() < 10.0
    own = model.summary().iloc[0]
    assert 0.1 < own["mean"] < 10.0 and own["std"] < 10.0
    assert own["direction"] > 0.8
    # As wide as the prior of one standard deviation of the column lets it be.
    assert own["mean"] * X.std() < 2.0 * WIDEST
    p = model.predict_proba([[-1.5], [1.5]])[:, 1]
    assert 0.01 < p[0] < 0.3 and p[0] == pytest.approx(1 - p[1], rel=1e-4)


def test_limits_of_a_stream_follow_its_rows(rng):
    X = rng.standard_normal((120, 8))
    y = X[:, 0] + rng.standard_normal(120)

    def floor(model):
        return 0.5 * np.exp(-0.5 * model._encoding.scale_prior(model.likelihood_).highest[0])

    stream = BayesianGLMRegressor()
    floors = [floor(stream.partial_fit(X[part], y[part])) for part in (slice(0, 20), slice(20, 60), slice(60, 120))]
    assert floors[0] == 0.0  # 25 rows is where it begins
    assert 0.0 < floors[1] < floors[2]
    fit = BayesianGLMRegressor().fit(X, y)
    assert floors[2] == pytest.approx(floor(fit), rel=0.25)
    new = rng.standard_normal((5, 8))
    np.testing.assert_allclose(stream.predict(new), fit.predict(new), atol=0.1)
    found = stream.state_.q["prior_precision"].value
    scales = stream._encoding.scale_prior(stream.likelihood_)
    assert np.all((found >= scales.lowest - 1e-9) & (found <= scales.highest + 1e-9))
