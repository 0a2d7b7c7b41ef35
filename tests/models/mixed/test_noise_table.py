"""The table of log phi against the integrals that it stands for."""

from __future__ import annotations

import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest

from sksvi import GMERegressor
from sksvi.expectations import Auto, GaussHermite
from sksvi.integrals import rayleigh
from sksvi.likelihoods import Bernoulli, Binomial, Gaussian, NegativeBinomial, Poisson, StudentT
from sksvi.models.mixed import noise_table
from sksvi.models.mixed.glm import MixedModel
from sksvi.models.mixed.noise_bounds import optimal
from sksvi.models.mixed.noise_table import NoiseTable, noise_weights, spline

LIKELIHOODS = {
    "poisson": Poisson(),
    "softplus": Poisson(rate="softplus"),
    "logit": Bernoulli(),
    "probit": Bernoulli(link="probit"),
    "binomial": Binomial(),
    "negative-binomial": NegativeBinomial(dispersion=0.5),
}


@pytest.fixture
def rng(global_random_seed):
    return np.random.default_rng([global_random_seed, 21])


def rows_of(name, n, sigma, rng):
    """y that the model could have drawn, and m and v of rows."""
    m, v = rng.normal(0.7, 1.0, n), 10.0 ** rng.uniform(-4.0, 0.0, n)
    f = np.minimum(m + np.sqrt(v + sigma) * rng.standard_normal(n), 7.0)
    if name == "binomial":
        trials = rng.integers(1, 20, n)
        successes = rng.binomial(trials, 1.0 / (1.0 + np.exp(-f)))
        return np.stack([successes, trials - successes], axis=1).astype(float), m, v
    return LIKELIHOODS[name].sample(f, rng).astype(float), m, v


@pytest.mark.parametrize("sigma", [0.02, 0.4, 3.0])
@pytest.mark.parametrize("name", LIKELIHOODS)
def test_terms_against_the_integrals(name, sigma, rng):
    likelihood = LIKELIHOODS[name]
    y, m, v = rows_of(name, 40, sigma, rng)
    found = NoiseTable(likelihood).optimal(likelihood, y, m, v, sigma, Auto())
    wanted = optimal(likelihood, y, m, v, sigma, Auto())
    for part, other, tolerance in zip(found, wanted, (1e-5, 1e-5, 5e-5, 2e-4), strict=True):
        np.testing.assert_allclose(part, other, rtol=tolerance, atol=tolerance * np.median(np.abs(other)))


@pytest.mark.parametrize("name", LIKELIHOODS)
def test_derivatives_are_those_of_the_value(name, rng):
    likelihood = LIKELIHOODS[name]
    y, m, v = rows_of(name, 12, 0.4, rng)
    table, sigma = NoiseTable(likelihood), 0.4

    def value(h, of):
        shifted = m + (of == "m") * h, v * (1.0 + (of == "v") * h), sigma * (1.0 + (of == "sigma") * h)
        return table.optimal(likelihood, y, *shifted, Auto())[0]

    h = 1e-3
    value_of, alpha, gamma, noise = table.optimal(likelihood, y, m, v, sigma, Auto())
    for of, slope in (("m", alpha), ("v", gamma * v), ("sigma", noise * 4.0 * sigma**2)):
        wanted = (8.0 * (value(h, of) - value(-h, of)) - value(2 * h, of) + value(-2 * h, of)) / (12.0 * h)
        assert np.all(np.abs(slope - wanted) <= 1e-4 * np.abs(wanted) + 1e-5 * (1.0 + np.abs(value_of))), of


@pytest.mark.costly
@pytest.mark.parametrize("name", ["poisson", "softplus", "logit"])
def test_rows_that_are_anything_but_certain(name, rng):
    """Spreads of u of 4 to 15 widths, as data leave that say nothing."""
    likelihood = LIKELIHOODS[name]
    y, m, v = rng.integers(0, 2, 12).astype(float), rng.uniform(-20.0, 5.0, 12), rng.uniform(4.0, 15.0, 12) ** 2
    found = NoiseTable(likelihood).optimal(likelihood, y, m, v, 0.5, Auto())
    wanted = optimal(likelihood, y, m, v, 0.5, Auto())
    for part, other in zip(found, wanted, strict=True):
        assert np.any(part != other)
        np.testing.assert_allclose(part, other, rtol=1e-4, atol=1e-4 * np.median(np.abs(other)))


@pytest.mark.costly
@pytest.mark.parametrize("name", ["poisson", "logit"])
def test_the_farthest_rows_lie_within_the_lattice(name, monkeypatch):
    likelihood, sd = LIKELIHOODS[name], np.concatenate([np.linspace(0.01, 16.0, 40), np.linspace(16.01, 76.0, 40)])
    steep = likelihood.traits.exponential & (sd <= 16.0)
    m = noise_table.FARTHEST - (noise_table.REACH + noise_table.STEEP * steep * sd) * sd
    sd, m, table = sd[m > 0], 0.999 * m[m > 0], NoiseTable(likelihood)
    monkeypatch.setattr(NoiseTable, "_direct", lambda *arguments: pytest.fail("a row was integrated"))
    for side in (-m, m):
        assert np.all(np.isfinite(table.optimal(likelihood, np.ones(len(m)), side, np.square(sd), 0.5, Auto())))
    assert -noise_table.BLOCKS // 2 < table._block.min() and table._block.max() < noise_table.BLOCKS // 2 - 1


def test_many_values_leave_uncertain_rows_to_the_integrals():
    """Each value's own blocks would be a gigabyte together, and more."""
    likelihood, y = Poisson(rate="softplus"), np.arange(3.0)
    few, many = NoiseTable(likelihood, 3), NoiseTable(likelihood, noise_table.MOST_VALUES)
    m, v = np.zeros(3), np.array([0.1, 9.0, 900.0])
    found, direct = many.optimal(likelihood, y, m, v, 0.5, Auto()), optimal(likelihood, y, m, v, 0.5, Auto())
    served = few.optimal(likelihood, y, m, v, 0.5, Auto())
    np.testing.assert_array_equal(found[0][:2], served[0][:2])
    assert found[0][2] == direct[0][2] != served[0][2]
    assert len(many._block) * noise_table.MOST_VALUES / 2 < noise_table.MOST_BLOCKS


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_counts_that_are_all_zero_ask_the_table_alone(method, monkeypatch, rng):
    """Their optimum is far away and u uncertain there: every pass integrated every row, at a third of a second."""
    X = pd.DataFrame({"dose": rng.standard_normal(24), "site": np.arange(24) % 4})
    model = GMERegressor(likelihood="poisson", groups="site", random_slopes="dose", noise=True, max_iter=20)
    asked: list[int] = []
    served = NoiseTable._terms
    monkeypatch.setattr(NoiseTable, "_direct", lambda self, y, *rest: pytest.fail(f"{len(y)} rows were integrated"))
    monkeypatch.setattr(NoiseTable, "_terms", lambda self, y, *rest: asked.append(len(y)) or served(self, y, *rest))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        getattr(model, method)(X, np.zeros(24))
    looks = {"fit": 20, "partial_fit": 10}[method]  # a stream settles sooner
    assert len(asked) >= looks and np.all(model.predict_quantiles(X, [0.5]) == 0)


def test_rows_that_are_not_served_are_integrated(rng):
    likelihood = Poisson(rate="softplus")
    y, m, v = np.array([3.0, 3.0, 3.0]), np.array([1.0, 1.0, 501.0]), np.array([0.1, 7000.0, 0.1])
    found = NoiseTable(likelihood).optimal(likelihood, y, m, v, 0.5, Auto())
    wanted = optimal(likelihood, y, m, v, 0.5, Auto())
    for part, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(part[1:], other[1:])
        assert part[0] != other[0]
        assert part[0] == pytest.approx(other[0], rel=1e-5)
    hermite = GaussHermite(12)
    for part, other in zip(
        NoiseTable(likelihood).optimal(likelihood, y[:1], m[:1], v[:1], 0.5, hermite),
        optimal(likelihood, y[:1], m[:1], v[:1], 0.5, hermite),
        strict=True,
    ):
        np.testing.assert_array_equal(part, other)


def test_a_rows_bits_do_not_depend_on_the_others_or_on_what_was_there(rng):
    likelihood = Poisson()
    y, m, v = rows_of("poisson", 60, 0.4, rng)
    whole = np.stack(NoiseTable(likelihood).optimal(likelihood, y, m, v, 0.4, Auto()))
    used = NoiseTable(likelihood)
    for sigma in (3.0, 0.1, 0.4):
        parts = [
            used.optimal(likelihood, y[at], m[at], v[at], sigma, Auto()) for at in np.split(rng.permutation(60), 6)
        ]
    assert len(parts) == 6
    with ThreadPoolExecutor(4) as pool:
        shared = NoiseTable(likelihood)
        orders = [slice(start, start + 7) for start in range(0, 60, 7)]
        found = pool.map(lambda at: shared.optimal(likelihood, y[at], m[at], v[at], 0.4, Auto()), orders)
        np.testing.assert_array_equal(np.concatenate([np.stack(part) for part in found], axis=1), whole)
    for at in (slice(0, 1), np.array([5, 3, 59])):
        np.testing.assert_array_equal(
            np.stack(used.optimal(likelihood, y[at], m[at], v[at], 0.4, Auto())), whole[:, at]
        )


def test_the_second_look_costs_no_integral(monkeypatch, rng):
    likelihood = Poisson()
    y, m, v = rows_of("poisson", 30, 0.4, rng)
    table = NoiseTable(likelihood)
    first = table.optimal(likelihood, y, m, v, 0.4, Auto())

    def never(*args):
        raise AssertionError("an integral")

    monkeypatch.setattr(noise_table.noise_marginal, "log_marginal", never)
    second = table.optimal(likelihood, y, m, v, 0.4, Auto())
    np.testing.assert_array_equal(np.stack(first), np.stack(second))
    with pytest.raises(AssertionError, match="an integral"):
        table.optimal(likelihood, y + 1000.0, m, v, 0.4, Auto())


@pytest.mark.parametrize("sigma", [1e-4, 0.3, 50.0])
def test_weights_of_the_noise(sigma):
    numbers, weight, slope = noise_weights(sigma)
    w2 = np.exp(noise_table.LOG_STEP * np.array(numbers))
    assert weight.sum() == pytest.approx(1.0, abs=1e-14)
    assert slope.sum() == pytest.approx(0.0, abs=1e-10 / sigma)
    np.testing.assert_allclose(weight @ w2, sigma * np.sqrt(np.pi / 2), rtol=1e-6)
    np.testing.assert_allclose(weight @ np.square(w2), 2.0 * sigma**2, rtol=1e-6)
    np.testing.assert_allclose(slope @ np.square(w2), 4.0 * sigma, rtol=1e-5)
    for t in (0.3, 2.0):
        moment = np.log(weight @ np.exp(t * w2 / sigma))
        np.testing.assert_allclose(moment, rayleigh.log_exponential_moment(t)[0], rtol=1e-5)


def test_splines_keep_polynomials_of_degree_five(rng):
    c = rng.standard_normal(6)
    x = np.arange(4.0)
    values = np.stack([np.polyval(np.polyder(c, k), x) for k in range(3)], axis=-1)
    for cell, own in enumerate(spline(values)):
        np.testing.assert_allclose(np.polyval(own[::-1], 0.4), np.polyval(c, cell + 0.4), rtol=1e-10, atol=1e-10)


def tabulated(likelihood, y, **options):
    settings = {"bound": "optimal", "noise_prior_scale": 5.0, "prior_precision": 1.0, "intercept_precision": 1.0}
    model = MixedModel(likelihood, **{**settings, **options}, n_features=1, fit_intercept=True, full=True)
    return model.tabulated(y).table is not None


def test_who_has_a_table():
    y = np.arange(4000.0) % 7
    assert tabulated(Poisson(), y) and tabulated(Binomial(), np.stack([y, 7 - y], axis=1))
    assert tabulated(NegativeBinomial(dispersion=0.5), y)
    assert not tabulated(Poisson(), np.arange(4000.0))  # a value per row
    assert not tabulated(NegativeBinomial().start(y), y)  # it would be another one in every pass
    assert not tabulated(Gaussian(variance=1.0), y)  # closed form
    assert not tabulated(StudentT(scale=1.0, df=4.0), y)  # where an outlier's f lies changes abruptly
    assert not tabulated(Poisson(), y, bound="mean-field") and not tabulated(Poisson(), y, noise_prior_scale=None)


@pytest.mark.costly
def test_a_fit_is_the_same_with_and_without(rng, monkeypatch):
    X = rng.standard_normal((60, 2))
    y = rng.poisson(np.exp(0.5 + 0.4 * X[:, 0] + 0.6 * rng.standard_normal(60)))
    settings = {"likelihood": "poisson", "tol": 1e-8}
    found = GMERegressor(**settings).fit(X, y)
    monkeypatch.setattr(MixedModel, "tabulated", lambda self, y: self)
    wanted = GMERegressor(**settings).fit(X, y)
    assert found.lower_bound_ == pytest.approx(wanted.lower_bound_, rel=1e-7)
    assert np.all(np.abs(found.coef_ - wanted.coef_) < 1e-3 * wanted.coef_std_)
    np.testing.assert_allclose(found.coef_std_, wanted.coef_std_, rtol=1e-3)
    assert found.noise_variance_ == pytest.approx(wanted.noise_variance_, rel=1e-2)
