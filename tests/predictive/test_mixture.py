"""Mixtures of predictive distributions against sums over components and integrals on a fine grid of f."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

from sksvi.likelihoods import Bernoulli, Gaussian, NegativeBinomial, Poisson, Softmax, StudentT
from sksvi.predictive import MixturePredictive, Predictive
from sksvi.predictive.mixture import LEAST, merged, mixed_moments, normal_quantiles
from sksvi.predictive.quantiles import LARGEST_COUNT
from tests.chance import errors_allowed

WEIGHTS = np.array([0.5, 0.3, 0.2])
MEANS = np.array([[-1.0, 0.4, 1.5], [-0.6, 0.5, 2.0], [0.3, -0.2, 1.0]])
VARIANCES = np.array([[0.0, 0.2, 0.5], [0.1, 0.3, 0.4], [0.05, 0.6, 0.02]])
LIKELIHOODS = {
    "gaussian": [Gaussian(variance=v) for v in (0.3, 0.6, 2.0)],
    "poisson": [Poisson()] * 3,
    "negative-binomial": [NegativeBinomial(dispersion=r) for r in (0.2, 0.4, 1.0)],
    "logit": [Bernoulli()] * 3,
    "student-t": [StudentT(scale=s, df=d) for s, d in ((0.5, 5.0), (0.6, 4.5), (0.4, 12.0))],
}
COUNTS = ["poisson", "negative-binomial"]
MEASURED = ["gaussian", "student-t"]


@pytest.fixture
def rng(global_random_seed):
    return np.random.default_rng(global_random_seed)


def mixture(name, dtype=float):
    parts = [
        Predictive(likelihood, m.astype(dtype), v.astype(dtype))
        for likelihood, m, v in zip(LIKELIHOODS[name], MEANS, VARIANCES, strict=True)
    ]
    return MixturePredictive(parts, WEIGHTS)


def integrated(name, of):
    """Sum over components of E of(likelihood, f), per row: the trapezoidal rule of a normal, which is exact here."""
    z = np.linspace(-9.0, 9.0, 4001)
    share = norm.pdf(z) / norm.pdf(z).sum()
    out = np.zeros(3)
    for weight, likelihood, m, v in zip(WEIGHTS, LIKELIHOODS[name], MEANS, VARIANCES, strict=True):
        for i in range(3):
            out[i] += weight * share @ np.broadcast_to(of(likelihood, m[i] + np.sqrt(v[i]) * z, i), z.shape)
    return out


# ---- moments
@pytest.mark.parametrize("name", LIKELIHOODS)
def test_moments_are_those_of_all_components(name):
    found = mixture(name)
    mean = integrated(name, lambda likelihood, f, i: likelihood.mean(f))
    np.testing.assert_allclose(found.mean(), mean, rtol=1e-6)

    def about(likelihood, f, i):
        return likelihood.conditional_variance(f) + np.square(likelihood.mean(f) - mean[i])

    np.testing.assert_allclose(found.variance(), integrated(name, about), rtol=1e-5)
    np.testing.assert_allclose(np.square(found.std()), found.variance())
    m, v = mixed_moments(MEANS, VARIANCES, WEIGHTS)
    np.testing.assert_allclose(found.latent_mean, WEIGHTS @ MEANS)
    np.testing.assert_allclose(found.latent_variance, WEIGHTS @ (VARIANCES + np.square(MEANS - m)))
    np.testing.assert_array_equal(found.latent_variance, v)


@pytest.mark.parametrize("name", LIKELIHOODS)
def test_draws_have_its_moments(name, rng):
    n, found = 40_000, mixture(name)
    draws = found.sample(n, rng)
    assert draws.shape == (3, n)
    allowed = errors_allowed(6) / np.sqrt(n)
    assert np.all(np.abs(draws.mean(axis=1) - found.mean()) <= allowed * draws.std(axis=1))
    if name != "student-t":  # whose fourth moment is hardly there
        squares = np.square(draws - found.mean()[:, None])
        assert np.all(np.abs(squares.mean(axis=1) - found.variance()) <= allowed * squares.std(axis=1))


def test_one_draw_has_one_component_for_all_rows(rng):
    """Rows are as dependent as a common hyperparameter makes them."""
    parts = [Predictive(Gaussian(variance=1e-4), np.full(2, m), np.zeros(2)) for m in (-5.0, 5.0)]
    draws = MixturePredictive(parts, np.array([0.5, 0.5])).sample(500, rng)
    np.testing.assert_array_equal(np.sign(draws[0]), np.sign(draws[1]))
    assert 0 < np.sum(draws[0] > 0) < 500


# ---- densities and probabilities
@pytest.mark.parametrize("name", LIKELIHOODS)
def test_densities_and_distribution_functions_are_weighted_sums(name):
    found = mixture(name)
    for y in (0.0, 1.0, 4.0):
        if name == "logit" and y > 1.0:
            continue
        at = np.full(3, y)
        density = integrated(name, lambda lik, f, i: np.exp(lik.log_prob(np.full(f.shape, y), f)))  # noqa: B023
        np.testing.assert_allclose(found.log_prob(at), np.log(density), rtol=1e-5, atol=1e-6)
        if name != "logit":
            cdf = integrated(name, lambda lik, f, i: lik.cdf(np.full(f.shape, y), f))  # noqa: B023
            np.testing.assert_allclose(found.cdf(at), cdf, atol=1e-6)
            below, at_most = found.cdf_steps(at)
            np.testing.assert_allclose(at_most, cdf, atol=1e-6)
            step = density if name in COUNTS else 0.0
            np.testing.assert_allclose(at_most - below, step, atol=1e-6)


def test_probabilities_of_labels():
    p = integrated("logit", lambda likelihood, f, i: likelihood.mean(f))
    found = mixture("logit").probabilities()
    np.testing.assert_allclose(found, np.stack([1 - p, p], axis=1), rtol=1e-7)
    np.testing.assert_array_equal(
        mixture("logit").quantile([0.2, 0.5, 0.9]), [[q > 1 - p_ for q in (0.2, 0.5, 0.9)] for p_ in p]
    )


def test_several_classes(rng):
    m = rng.standard_normal((2, 4, 3))
    v = np.stack([0.3 * np.eye(3) + 0.1, 0.8 * np.eye(3)])[:, None] * np.ones((1, 4, 1, 1))
    parts = [Predictive(Softmax(n_classes=3), *part) for part in zip(m, v, strict=True)]
    found = MixturePredictive(parts, np.array([0.7, 0.3]))
    np.testing.assert_allclose(found.probabilities(), 0.7 * parts[0].probabilities() + 0.3 * parts[1].probabilities())
    np.testing.assert_allclose(found.probabilities().sum(1), 1.0)
    off = m - np.tensordot([0.7, 0.3], m, 1)
    wanted = np.tensordot([0.7, 0.3], v + off[..., :, None] * off[..., None, :], 1)
    np.testing.assert_allclose(found.latent_variance, wanted)
    with pytest.raises(ValueError, match="no order"):
        found.quantile(0.5)


# ---- quantiles
@pytest.mark.parametrize("name", COUNTS)
def test_quantiles_of_counts_are_the_first_that_reach_the_level(name):
    found, levels = mixture(name), [0.01, 0.05, 0.3, 0.5, 0.9, 0.95, 0.999]
    for level, y in zip(levels, found.quantile(levels).T, strict=True):
        np.testing.assert_array_equal(y, np.round(y))
        assert np.all(found.cdf(y) >= level)
        assert np.all((y == 0) | (np.where(y > 0, found.cdf(y - 1.0), 0.0) < level))


@pytest.mark.parametrize("name", COUNTS)
def test_quantiles_of_counts_of_any_size_take_few_looks(name, monkeypatch):
    """Beyond 2^53 brackets were closed float by float: 24 seconds for 60 rows of negative binomials."""
    m, v = np.array([-1e4, 20.0, 400.0, 690.0, 1e4, 0.0]), np.array([1.0, 4.0, 1.0, 3.0, 1.0, 1e4])
    parts = [Predictive(likelihood, m + 0.1 * k, v) for k, likelihood in enumerate(LIKELIHOODS[name])]
    looks, cdf = [], MixturePredictive._cdf
    monkeypatch.setattr(MixturePredictive, "_cdf", lambda *args: looks.append(0) or cdf(*args))
    found = MixturePredictive(parts, WEIGHTS)
    y = found.quantile([0.9])[:, 0]
    assert len(looks) < 200
    below = np.maximum(np.minimum(y - 1.0, np.nextafter(y, 0.0)), 0.0)
    rows = np.arange(len(m))
    assert np.all((found._cdf(y, rows) >= 0.9) | (y == LARGEST_COUNT))
    assert np.all((found._cdf(below, rows) < 0.9) | (y == 0))


def test_spreads_of_means_far_apart_are_finite():
    parts = [Predictive(Poisson(), np.array([f]), np.array([0.1])) for f in (0.0, 700.0)]
    assert np.isfinite(MixturePredictive(parts, np.array([0.5, 0.5])).std()).all()


@pytest.mark.parametrize("name", MEASURED)
def test_quantiles_invert_the_distribution_function(name):
    found, levels = mixture(name), [0.001, 0.05, 0.4, 0.5, 0.95, 0.999]
    quantiles = found.quantile(levels)
    for level, y in zip(levels, quantiles.T, strict=True):
        np.testing.assert_allclose(found.cdf(y), level, rtol=2e-6)
    np.testing.assert_allclose(found.interval(0.9), quantiles[:, [1, 4]], rtol=1e-12)


@pytest.mark.parametrize("name", [*COUNTS, *MEASURED])
def test_equal_components_are_one(name):
    part = mixture(name).components[1]
    found = MixturePredictive([part, part], np.array([0.4, 0.6]))
    np.testing.assert_allclose(found.quantile([0.1, 0.8]), part.quantile([0.1, 0.8]), rtol=1e-6)
    np.testing.assert_allclose(found.variance(), part.variance(), rtol=1e-12)


@pytest.mark.parametrize("name", LIKELIHOODS)
def test_single_precision_stays(name):
    found, wide = mixture(name, np.float32), mixture(name)
    at = np.ones(3)
    for method in (
        lambda p: p.mean(),
        lambda p: p.variance(),
        lambda p: p.std(),
        lambda p: p.log_prob(at),
        lambda p: p.quantile([0.25, 0.75]),
        lambda p: p.latent_variance,
    ):
        assert method(found).dtype == np.float32
        np.testing.assert_allclose(method(found), method(wide), rtol=1e-4, atol=1e-5)


# ---- mixtures of normals
def by_root(means, stds, weights, level):
    def off(x):
        parts = [norm.cdf(x, m, s) if s > 0 else float(x >= m) for m, s in zip(means, stds, strict=True)]
        return weights @ np.array(parts) - level

    reach = 1.0 + 9.0 * stds.max()
    return brentq(off, means.min() - reach, means.max() + reach, xtol=1e-13)


@pytest.mark.parametrize("level", [1e-4, 0.05, 0.37, 0.5, 0.95, 0.9999])
@pytest.mark.parametrize("zero", ["none", "one", "all"])
def test_quantiles_of_mixtures_of_normals(level, zero, rng):
    weights = rng.dirichlet(np.ones(4))
    means, stds = rng.standard_normal((4, 6)) * [0.0, 1e-3, 1.0, 1.0, 10.0, 100.0], rng.uniform(0.1, 3.0, (4, 6))
    stds[:, 3] *= [1e-6, 1.0, 1.0, 1e3]
    if zero == "one":
        stds[0] = 0.0
    elif zero == "all":
        stds[:] = 0.0
    with np.errstate(over="ignore"):  # see the test below
        found = normal_quantiles(means.reshape(4, 2, 3), stds.reshape(4, 2, 3), weights, level)
    assert found.shape == (2, 3)
    centre = weights @ means
    spread = np.sqrt(weights @ (np.square(stds) + np.square(means - centre)))
    wanted = [by_root(means[:, j], stds[:, j], weights, level) for j in range(6)]
    assert np.all(np.abs(found.ravel() - wanted) <= 1e-6 * spread + 1e-12)


def test_quantiles_between_components_far_apart_warn_of_nothing():
    found = normal_quantiles(np.array([[0.0], [1.9]]), np.full((2, 1), 0.02), np.array([0.6, 0.4]), 0.5)
    np.testing.assert_allclose(found, 0.02 * norm.ppf(0.5 / 0.6), rtol=1e-4)


# ---- fewer components
@pytest.mark.parametrize("weights", [[0.3, 0.05, 0.25, 0.3, 0.1], [0.96, 0.01, 0.01, 0.01, 0.01], [0.05] * 4 + [0.8]])
def test_merged_components_keep_both_moments(weights, rng):
    weights = np.array(weights)
    means, variances = list(rng.standard_normal((5, 7))), list(rng.uniform(0.1, 2.0, (5, 7)))
    m, v, w = merged(means, variances, weights, rng.permutation(5).astype(float))
    assert len(m) == len(v) == len(w) <= 5
    assert w.sum() == pytest.approx(1.0)
    assert np.all(w >= LEAST - 1e-12)
    for found, wanted in zip(mixed_moments(m, v, w), mixed_moments(means, variances, weights), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-12)


def test_components_merged_by_given_spreads_say_the_same_of_a_row_beside_any_others(rng):
    weights, spreads = np.array([0.1, 0.25, 0.15, 0.3, 0.2]), rng.permutation(5).astype(float)
    means, variances = list(rng.standard_normal((5, 7))), list(rng.uniform(0.1, 2.0, (5, 7)))
    whole = merged(means, variances, weights, spreads)
    assert 1 < len(whole[2]) < 5
    for row in range(7):
        alone = merged([m[[row]] for m in means], [v[[row]] for v in variances], weights, spreads)
        for found, wanted in zip(alone[:2], whole[:2], strict=True):
            np.testing.assert_array_equal(np.ravel(found), np.array(wanted)[:, row])
        np.testing.assert_array_equal(alone[2], whole[2])


def test_merged_covariances_of_classes(rng):
    means, weights = list(rng.standard_normal((3, 5, 2))), np.array([0.45, 0.45, 0.1])
    covs = [s * (np.eye(2) + 0.2) * np.ones((5, 1, 1)) for s in (1.0, 2.0, 3.0)]
    m, v, w = merged(means, covs, weights, [1.0, 2.0, 3.0])
    np.testing.assert_allclose(w, [0.45, 0.55])  # the last is light
    for found, wanted in zip(mixed_moments(m, v, w), mixed_moments(means, covs, weights), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-12)
