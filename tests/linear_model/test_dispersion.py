"""Counts that vary more than their likelihood lets them: who is told, and who is not."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy.stats import binom, poisson

from sksvi import BayesianGLMRegressor, GMERegressor
from sksvi.estimators.fit_warnings import Dispersion
from sksvi.likelihoods import Binomial, Poisson

MORE = "times as much as likelihood="


def told(model, X, y, **beside):
    """The warnings that y varies more."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        model.fit(X, y, **beside)
    return [str(warning.message) for warning in found if MORE in str(warning.message)]


def counts(rng, n, mean, dispersion=0.0):
    X = rng.standard_normal((n, 2))
    rate = mean * np.exp(0.3 * X[:, 0])
    if dispersion:
        rate = rate * rng.gamma(1.0 / dispersion, dispersion, n)
    return X, rng.poisson(rate).astype(float)


def trials(rng, n, most, spread=0.0):
    X, size = rng.standard_normal((n, 2)), rng.integers(1, most + 1, n)
    f = -0.8 + 0.3 * X[:, 0] + spread * rng.standard_normal(n)
    successes = rng.binomial(size, 1.0 / (1.0 + np.exp(-f)))
    return X, np.column_stack([successes, size - successes]).astype(float)


@pytest.mark.parametrize(
    ("likelihood", "y"),
    [(Poisson(), np.arange(200.0)), (Binomial(), np.column_stack([np.arange(5.0), 4.0 - np.arange(5.0)]))],
)
@pytest.mark.parametrize("mean", [0.05, 0.4, 0.9])
def test_moments_of_the_excess_are_those_of_the_likelihood(likelihood, y, mean):
    if likelihood.traits.paired:
        p, residual = binom.pmf(y[:, 0], 4, mean), y[:, 0] - 4 * mean
    else:
        mean *= 10.0
        p, residual = poisson.pmf(y, mean), y - mean
    value, square, cube, variance = likelihood.excess(y, np.full(len(y), mean))
    assert p @ value == pytest.approx(0.0, abs=1e-9)
    assert p @ (value * residual) == pytest.approx(0.0, abs=1e-9)
    assert p @ value**2 == pytest.approx(square[0])
    assert p @ value**3 == pytest.approx(np.broadcast_to(cube, len(y))[0])
    assert p @ residual**2 == pytest.approx(variance[0])


@pytest.mark.costly
def test_overdispersed_counts_are_told_of(global_random_seed):
    """95 of 100 at least; of 100 such sets all were, of these 40 no more than two may not be."""
    rng = np.random.default_rng([global_random_seed, 1])
    found = [told(BayesianGLMRegressor(likelihood="poisson"), *counts(rng, 200, 3.0, 0.5)) for _ in range(40)]
    assert sum(map(bool, found)) >= 38
    assert max(map(len, found)) == 1
    first = next(filter(None, found))[0]
    assert "of the width that they should have" in first and 'likelihood="negative-binomial"' in first
    found = [told(BayesianGLMRegressor(likelihood="binomial"), *trials(rng, 200, 10, 1.2)) for _ in range(20)]
    assert sum(map(bool, found)) >= 19 and "GMERegressor(noise=True)" in next(filter(None, found))[0]


@pytest.mark.costly
@pytest.mark.parametrize(("n", "mean"), [(20, 0.05), (200, 0.05), (20, 3.0), (200, 3.0)])
def test_poisson_counts_are_not_told_of(n, mean, global_random_seed):
    """At most once in a thousand by chance: 2 of 50 in one run of a thousand."""
    rng = np.random.default_rng([global_random_seed, 2, n])
    found = [told(BayesianGLMRegressor(likelihood="poisson"), *counts(rng, n, mean)) for _ in range(50)]
    assert sum(map(bool, found)) <= 1


def test_trials_and_labels_are_not_told_of(global_random_seed):
    rng = np.random.default_rng([global_random_seed, 3])
    found = [told(BayesianGLMRegressor(likelihood="binomial"), *trials(rng, 100, most)) for most in (1, 2, 10) * 10]
    assert sum(map(bool, found)) <= 1
    X, y = trials(rng, 300, 1, 3.0)  # one trial varies as much as it can
    assert not told(BayesianGLMRegressor(likelihood="binomial"), X, y)


def test_weights_offsets_and_exposures_are_those_of_the_fit(global_random_seed):
    rng = np.random.default_rng([global_random_seed, 4])
    X, exposure = rng.standard_normal((200, 2)), rng.uniform(0.05, 20.0, 200)
    y = rng.poisson(exposure * np.exp(0.3 * X[:, 0])).astype(float)
    model = BayesianGLMRegressor(likelihood="poisson")
    assert not told(model, X, y, exposure=exposure)
    assert told(model, X, y)
    assert not told(model, X, y / exposure, sample_weight=exposure)
    _, more = counts(rng, 200, 3.0, 0.5)
    # Rows with their number are those rows.
    rows = np.repeat(np.arange(200), rng.integers(1, 4, 200))
    each = Dispersion.of(
        Poisson(), more[rows], (np.ones(len(rows)), np.zeros(len(rows))), np.zeros(len(rows)), None, False
    )
    number = np.bincount(rows, minlength=200).astype(float)
    together = Dispersion.of(Poisson(), more, (np.ones(200), np.zeros(200)), np.zeros(200), number, False)
    assert together.factor == pytest.approx(each.factor) and together.chance == pytest.approx(each.chance)


@pytest.mark.costly
def test_what_has_a_dispersion_of_its_own_is_not_told(global_random_seed):
    rng = np.random.default_rng([global_random_seed, 5])
    X, y = counts(rng, 200, 3.0, 0.5)
    assert not told(BayesianGLMRegressor(likelihood="negative-binomial"), X, y)
    assert not told(GMERegressor(likelihood="poisson", max_iter=50), X, y)
    table = np.column_stack([X, np.arange(200) % 20])
    assert not told(GMERegressor(likelihood="poisson", groups=[2], max_iter=50), table, y)
    assert told(GMERegressor(likelihood="poisson", groups=[2], noise=False), table, y)
    table[:, 2] = np.arange(200)
    assert not told(GMERegressor(likelihood="poisson", groups=[2], noise=False), table, y)


def test_the_factor_makes_intervals_hold(global_random_seed):
    """Of 600 90 % intervals 68 % held the truth, widened by the root of the factor 88 %."""
    rng = np.random.default_rng([global_random_seed, 6])
    plain, wide, total = 0, 0, 0
    for _ in range(60):
        X, y = counts(rng, 200, 3.0, 0.5)
        model = BayesianGLMRegressor(likelihood="poisson", prior_precision="flat")
        (text,) = told(model, X, y)
        wider = np.sqrt(float(text.split(" times")[0].split()[-1]))
        off = np.abs(model.coef_ - [0.3, 0.0]) / model.coef_std_
        plain, wide, total = plain + np.sum(off < 1.645), wide + np.sum(off < 1.645 * wider), total + 2
    for held, share, sign in ((plain, 0.68, 1.0), (wide, 0.88, -1.0)):
        error = np.sqrt(share * (1.0 - share) / total)
        assert sign * (held / total - share) < 4.0 * error
