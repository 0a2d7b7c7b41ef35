"""Draws from the priors of processes, mixtures, topics and factors: closed forms, seeds, and refusals with a remedy."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.special import logit
from scipy.stats import expon, halfcauchy, ks_2samp, kstest, norm
from scipy.stats import t as student
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

import sksvi
from sksvi.estimators.base import BaseSVI
from sksvi.estimators.draws import placeholder
from sksvi.estimators.encoding import WHOLE, GivenRows
from sksvi.inspection import sbc
from sksvi.likelihoods import Gaussian
from sksvi.models.gp.hyperpriors import About, Deviation, HyperPrior, Length
from tests.chance import assert_drawn

KERNEL = ConstantKernel(2.0) * RBF(1.0)
GIVEN = {"kernel": KERNEL, "optimize_hyperparameters": False}


@pytest.fixture
def rng(global_random_seed):
    return np.random.default_rng(global_random_seed)


@pytest.fixture
def rows(rng):
    return rng.normal(size=(12, 2))


@pytest.fixture
def counts(rng):
    return rng.poisson(3.0, (12, 5)).astype(float)


def close(found, expected, draws, errors=4.5):
    """Whether means of draws (S, ...) are expected ones, by their standard errors."""
    return np.all(np.abs(found.mean(0) - expected) < errors * draws.std(0) / np.sqrt(len(draws)) + 1e-12)


# ---- processes
@pytest.mark.costly
def test_draws_of_a_process_with_all_given_have_its_covariance(rows, global_random_seed):
    y = sksvi.SparseGPRegressor(noise_variance=0.5, **GIVEN).sample_prior(rows, 4000, random_state=global_random_seed)
    products = np.einsum("sn,sm->snm", y, y)
    assert close(products, KERNEL(rows) + 0.5 * np.eye(12), products)
    assert close(y, 0.0, y)


@pytest.mark.parametrize(
    ("prior", "distribution"),
    [
        (Length(2.0), lambda x: expon.cdf(2.0 * np.exp(-x))),
        (Deviation(1.5, 0.5), lambda x: 2.0 * student.cdf(np.exp(0.5 * x) / 1.5, 3) - 1.0),
        (
            Deviation(1.5, 0.5, 1.0),  # what is above a least size
            lambda x: (
                (student.cdf(np.sqrt(1.0 + np.exp(x)) / 1.5, 3) - student.cdf(1 / 1.5, 3)) / student.sf(1 / 1.5, 3)
            ),
        ),
        (About(0.5, 2.0), lambda x: student.cdf((x - 0.5) / 2.0, 1e9)),
    ],
)
def test_hyperparameters_are_from_their_densities(prior, distribution, global_random_seed):
    rng = np.random.RandomState(global_random_seed)
    drawn = np.array([prior.drawn(rng) for _ in range(2000)])
    assert kstest(distribution(drawn), "uniform").pvalue > 1e-5
    # The drawn mass between two places is that of the density which a fit adds to its bound.
    low, high = np.quantile(drawn, [0.3, 0.7])
    at = np.linspace(low, high, 2001)
    mass = np.trapezoid([np.exp(prior(x)[0]) for x in at], at)
    size = 1.0 if not getattr(prior, "least", 0.0) else 2.0 * student.sf(1 / 1.5, 3)
    assert abs(mass / size - 0.4) < 4.5 * np.sqrt(0.24 / 2000)


def test_what_data_say_nothing_of_stays_as_it_is(global_random_seed):
    prior = HyperPrior((Length(1.0), Length(1.0)), (), (True, False))
    drawn = prior.drawn(RBF([1.0, 3.0]), np.random.RandomState(global_random_seed))
    assert drawn[1] == np.log(3.0) and drawn[0] != 0.0


@pytest.mark.costly
def test_processes_before_and_after_a_fit(rows, global_random_seed):
    labels = np.where(rows[:, 0] > 0, "yes", "no")
    for model in (sksvi.GPClassifier(), sksvi.SparseGPClassifier(n_inducing=6)):
        for each in (model, clone(model).fit(rows, labels)):
            y = each.sample_prior(rows, 20, random_state=global_random_seed)
            assert y.shape == (20, 12) and len(np.unique(y)) == 2
        assert set(np.unique(y)) == {"no", "yes"}
    y = 100.0 + 10.0 * rows[:, 0]
    fitted = sksvi.SparseGPRegressor(n_inducing=6).fit(rows, y)
    wide = fitted.sample_prior(rows, 400, random_state=global_random_seed)
    assert 2.0 < np.median(np.abs(wide - y.mean())) < 50.0  # in the units of the fit


def test_ranks_of_processes_have_their_hyperparameters(rows):
    found = sbc(sksvi.GPClassifier(), X=rows, n=3, n_draws=9, random_state=0)
    assert {"k1__k1__constant_value", "k1__k2__length_scale[1]", "log likelihood"} <= set(found.ranks)


# ---- series
def test_series_with_all_given_have_the_covariance_of_their_states(rng, global_random_seed):
    """A walk from N(0, 2) by steps of variance 0.3, a coefficient of variance 2 and noise of variance 0.4."""
    X = rng.normal(size=(6, 1))
    options = {"level": "walk", "level_variance": 0.3, "initial_variance": 2.0, "coefficient_variance": 0.0}
    model = sksvi.DynamicGLM(likelihood=Gaussian(variance=0.4), **options)
    y = model.sample_prior(X, 4000, random_state=global_random_seed)
    t, centred = np.arange(6), X[:, 0] - X[:, 0].mean()
    expected = 2.0 + 0.3 * np.minimum(t[:, None], t) + 2.0 * np.outer(centred, centred) + 0.4 * np.eye(6)
    products = np.einsum("sn,sm->snm", y, y)
    assert close(products, expected, products) and close(y, 0.0, y)


@pytest.mark.costly
def test_parameters_of_series_are_from_their_densities(global_random_seed):
    options = {"level": "damped", "trend": True, "seasonal": 4, "initial_variance": 1.0}
    model = sksvi.DynamicGLM(likelihood="gaussian", **options)
    draws = model._prior_draws(pd.DataFrame(index=range(40)), 2000, np.random.RandomState(global_random_seed))[1]
    found = {name: part.values for name, part in draws.variables.items()}
    twin = clone(model)
    twin._build_model(twin._encoded(GivenRows(None, placeholder(model, 40), None, None), True, WHOLE))
    unit, steps = twin._encoding.spread, twin._model_of(twin._series.series).weak_prior.steps
    stationary = np.sqrt(found["level_variance"] / (1.0 - found["damping"] ** 2))
    for values, law in (
        (stationary, expon(scale=0.7 * unit)),
        (np.sqrt(found["trend_variance"]), halfcauchy(scale=steps["trend"] * unit)),
        (np.sqrt(found["seasonal_4_variance"]), halfcauchy(scale=steps["seasonal"] * unit)),
        (logit(found["damping"]), norm(2.0, 1.5)),
    ):
        assert kstest(values, law.cdf).pvalue > 1e-5
    noise = found["std(residual)"]
    assert kstest(noise, lambda x: 2.0 * student.cdf(x / unit, 3) - 1.0).pvalue > 1e-5


def test_series_after_a_fit_and_their_ranks(rng):
    index = pd.date_range("2020-01-01", periods=30, freq="D")
    y = pd.Series(100.0 + np.cumsum(rng.normal(size=30)) + rng.normal(size=30), index=index)
    model = sksvi.DynamicGLM(likelihood="gaussian", level="walk", initial_variance=4.0).fit(None, y)
    drawn = model.sample_prior(pd.DataFrame(index=index[:10]), 300, random_state=0)
    assert drawn.shape == (300, 10)
    assert_drawn(np.sum(np.median(drawn, axis=1) > y.mean()), 300, 0.5)  # in the units of the fit, about its mean
    with pytest.raises(ValueError, match=r"give pandas.DataFrame\(index=times\)"):
        model.sample_prior(None)
    found = sbc(clone(model), X=pd.DataFrame(index=index), n=3, n_draws=9, random_state=0)
    assert {"level_variance", "std(residual)"} <= set(found.ranks)


# ---- ratings
def test_factors_have_half_cauchy_deviations(global_random_seed):
    """A factor is s C z, C a Cauchy and z a normal number, one C for all of its side; f of a pair is their product."""
    X = pd.DataFrame({"user": ["a", "a", "b"], "item": [1, 2, 2]})
    model = sksvi.GeneralizedPMF(2, biases=False, likelihood=Gaussian(variance=0.25))
    draws = model._prior_draws(X, 2000, np.random.RandomState(global_random_seed))[1]
    users, items = (draws.variables[side].values for side in ("users", "items"))
    twin = clone(model)
    twin._encoded(GivenRows(X, placeholder(model, 3), None, None), True, WHOLE)
    rng = np.random.default_rng(global_random_seed + 1)
    reference = np.sqrt(twin._encoding.unit) * np.abs(rng.standard_cauchy(20000) * rng.normal(size=20000))
    assert ks_2samp(np.abs(users[:, 0, 1]), reference).pvalue > 1e-5
    assert kstest(users[:, 0, 1] / users[:, 1, 1], "cauchy").pvalue > 1e-5  # of one deviation
    f = np.sum(users[:, [0, 0, 1]] * items[:, [0, 1, 1]], axis=2)
    np.testing.assert_allclose([node.latents(X, None)[0][:, 0] for node in draws.nodes], f, rtol=1e-9, atol=1e-9)
    y = model.sample_prior(X, 2000, random_state=global_random_seed)
    assert y.shape == (2000, 3) and abs(np.mean(y > 0) - 0.5) < 4.5 * 0.5 / np.sqrt(2000)


def test_ratings_after_a_fit_are_of_its_ids(rng):
    X = pd.DataFrame({"user": rng.integers(5, size=40), "item": rng.integers(4, size=40)})
    model = sksvi.GeneralizedPMF(1, likelihood="logit", biases=False, random_state=0).fit(X, rng.integers(2, size=40))
    assert model.sample_prior(X[:7], 20, random_state=0).shape == (20, 7)
    with pytest.raises(ValueError, match="users or items that this GeneralizedPMF has not"):
        model.sample_prior(X.assign(user=99))
    with pytest.raises(ValueError, match=r"learns variance without a prior: .* Gaussian\(variance=...\)"):
        sksvi.GeneralizedPMF(2, biases=False).sample_prior(X)
    with pytest.raises(ValueError, match="set uncertainty='corrected' and covariance='full'"):
        sksvi.GeneralizedPMF(**GIVEN_PAIRS, covariance="diag").sample_prior(X)
    with pytest.raises(ValueError, match="set biases=False"):
        sksvi.GeneralizedPMF(2, likelihood="poisson").sample_prior(X)


# ---- rows without a target
@pytest.mark.costly
def test_rows_of_mixtures_have_the_moments_of_their_priors(global_random_seed):
    """E x = 1/2; two rows of a draw agree in two columns by the share of rows in one component."""
    X = np.zeros((2, 2))
    model = sksvi.BernoulliMixture(3, concentration=3.0, probability_prior=1.0)
    y = model.sample_prior(X, 6000, random_state=global_random_seed)
    assert y.shape == (6000, 2, 2) and close(y, 0.5, y)
    both = y[:, 0] * y[:, 1]
    together = 1.0 / 2.0  # Σ E π² of Dir(1, 1, 1)
    assert close(both, together / 3.0 + (1.0 - together) / 4.0, both)


def test_categories_are_those_of_x(rng):
    X = np.array([["a", "x"], ["b", "y"], ["c", "x"]], dtype=object)
    y = sksvi.CategoricalMixture(2).sample_prior(X, 30, random_state=0)
    assert y.shape == (30, 3, 2) and set(y[..., 0].ravel()) == {"a", "b", "c"} and set(y[..., 1].ravel()) == {"x", "y"}


def test_documents_are_as_long_as_those_of_x(counts, global_random_seed):
    model = sksvi.StructuredLDA(2, doc_topic_prior=0.5, topic_word_prior=1.0)
    y = model.sample_prior(counts, 2000, random_state=global_random_seed)
    np.testing.assert_array_equal(y.sum(-1), np.broadcast_to(counts.sum(1), (2000, 12)))
    shares = y / counts.sum(1)[:, None]
    assert close(shares, 0.2, shares)


@pytest.mark.costly
def test_population_of_correlated_topics_is_normal_wishart(counts, global_random_seed):
    """E Σ = I and E (μ μᵀ - Σ / size) = 0 for ten pseudo-documents; words are alike often."""
    model, draw = sksvi.CorrelatedTopicModel(3, topic_word_prior=1.0), np.random.RandomState(global_random_seed)
    found = model._prior_draws(counts, 3000, draw)[1]
    covariances = np.linalg.inv(found.variables["precision"].values)
    location = found.variables["location"].values
    assert close(covariances, np.eye(2), covariances)
    excess = np.einsum("si,sj->sij", location, location) - covariances / 10.0
    assert close(excess, 0.0, excess)
    shares = np.array(found.rows) / counts.sum(1)[:, None]
    assert close(shares, 0.2, shares)


def test_counts_have_the_mean_that_was_given(counts, global_random_seed):
    model = sksvi.GammaProcessNMF(4, component_shape=1.0, activation_shape=1.0, prior_mean=2.0)
    y = model.sample_prior(counts, 4000, random_state=global_random_seed)
    assert y.shape == (4000, 12, 5) and close(y, 2.0, y)


def test_covariance_of_gamma_factors(counts, global_random_seed):
    """E y² = K E λ² + noise; E y y' = K (E λ)²."""
    options = {"noise_variance": 0.5, "prior_shape": 2.0, "prior_rate": 2.0, "fit_mean": False}
    y = sksvi.GammaFactorModel(3, **options).sample_prior(counts, 4000, random_state=global_random_seed)
    products = np.einsum("sd,se->sde", y[:, 0], y[:, 0])
    assert close(products, 3.0 * (np.ones((5, 5)) + 0.5 * np.eye(5)) + 0.5 * np.eye(5), products)


@pytest.mark.costly
def test_rows_of_a_beta_process_have_the_units_of_x(counts, global_random_seed):
    """Var y = scale² K E z E w² E φ² + noise², about the means of X; E z = a / (a + b (K - 1)), E φ² = 1 / D."""
    X = 100.0 + 10.0 * counts
    X[0, 1] = np.nan
    options = {"a": 2.0, "b": 1.0, "noise": 5.0, "weight_precision": 0.5, "tol": 0.5, "random_state": 0}
    model = sksvi.BetaProcessFA(4, **options)
    for each in (model, clone(model).fit(X)):
        y = each.sample_prior(X, 4000, random_state=global_random_seed)
        assert y.shape == (4000, 12, 5) and close(y, np.nanmean(X, 0), y)
        square = np.square(y - np.nanmean(X, 0))[:, 0]
        scale = np.sqrt(np.nanmean(np.square(X - np.nanmean(X, 0))))
        assert close(square, scale**2 * 4.0 * 0.4 * 2.0 / 5.0 + 25.0, square)


# ---- every estimator
ROWS = {
    "BernoulliMixture": {},
    "CategoricalMixture": {},
    "StructuredLDA": {"n_components": 3},
    "CorrelatedTopicModel": {"n_components": 3},
    "GammaProcessNMF": {"n_components": 3, "prior_mean": 2.0},
    "GammaFactorModel": {"n_components": 2, "fit_mean": False},
    "BetaProcessFA": {"n_components": 3},
}
GIVEN_PAIRS = {"n_components": 2, "likelihood": "poisson", "biases": False}
GIVEN_SERIES = {"likelihood": "poisson", "level": "walk", "initial_variance": 0.1}
REFUSED = {
    "PoissonFactorization": "flat priors",
    "GammaPoissonFactorization": "flat priors",
}


def every():
    return [
        name
        for name in sksvi.__all__
        if isinstance(getattr(sksvi, name), type) and issubclass(getattr(sksvi, name), BaseSVI)
    ]


@pytest.mark.parametrize("name", every())
def test_every_estimator_draws_or_says_why_not(name, counts):
    model = getattr(sksvi, name)(**{**ROWS, "DynamicGLM": GIVEN_SERIES, "GeneralizedPMF": GIVEN_PAIRS}.get(name, {}))
    X = counts[:, :2] if name == "GeneralizedPMF" else (counts > 2.0).astype(float) if "Mixture" in name else counts
    if name in REFUSED:
        with pytest.raises(TypeError, match=f"{name} has no draws from its prior: .*{REFUSED[name]}.* give sbc"):
            model.sample_prior(X)
        return
    one = model.sample_prior(X, 2, random_state=7)
    assert one.shape == ((2, *X.shape) if name in ROWS else (2, len(X)))
    if "n_jobs" in model.get_params():
        model.set_params(n_jobs=2)
    np.testing.assert_array_equal(model.sample_prior(X, 2, random_state=7), one)
    assert not hasattr(model, "state_")  # nothing is left on the estimator


@pytest.mark.parametrize(
    ("model", "error", "words"),
    [
        (sksvi.GammaProcessNMF(2), TypeError, "prior_mean='auto' .* give a number"),
        (sksvi.GammaFactorModel(2), TypeError, "set fit_mean=False"),
        (sksvi.GammaFactorModel(2, noise_variance="auto"), TypeError, "noise_variance='auto' learns it .* number"),
        (
            sksvi.StructuredLDA(2, doc_topic_prior="auto", uncertainty="variational"),
            TypeError,
            "doc_topic_prior='auto' is learned by the bound, without a prior",
        ),
        (sksvi.CorrelatedTopicModel(2, topics="point"), TypeError, "topics='point' are points: set topics='dirichlet'"),
        (sksvi.CorrelatedTopicModel(2, covariance_prior=0.0), TypeError, "covariance_prior=0 .* a number above 0"),
        (sksvi.DynamicGLM(), ValueError, "likelihood='auto' and level='auto' .* is chosen by y"),
        (sksvi.DynamicGLM(groups="g"), ValueError, "one series"),
        (sksvi.DynamicGLM(likelihood="poisson", level="walk"), ValueError, "give the prior variance of its first"),
        (sksvi.DynamicGLM(**GIVEN_SERIES, hyperparameters="point"), ValueError, "finds level_variance without a prior"),
        (sksvi.DynamicGLM(**{**GIVEN_SERIES, "likelihood": "ordinal"}), ValueError, "learns cut_points without"),
        (sksvi.GPClassifier(hyperparameters="point"), ValueError, "set hyperparameters='integrated'"),
        (sksvi.SparseGPRegressor(**GIVEN), ValueError, "learns variance without a prior"),
    ],
)
def test_what_would_have_to_be_set_is_named(model, error, words, counts):
    with pytest.raises(error, match=words):
        model.sample_prior(counts)


def test_ranks_without_a_density_of_rows_need_quantities(counts):
    with pytest.raises(TypeError, match="StructuredLDA has parameters that may be numbered otherwise"):
        sbc(sksvi.StructuredLDA(2), X=counts, n=2)


@pytest.mark.costly
@pytest.mark.parametrize("kind", [sksvi.BernoulliMixture, sksvi.CategoricalMixture])
def test_ranks_of_mixtures_are_of_their_density(kind, counts):
    found = sbc(kind(2), X=(counts > 2.0).astype(float), n=3, n_draws=9, random_state=0)
    assert list(found.ranks) == ["log likelihood"] and len(found.ranks) == 3


@pytest.mark.costly
def test_prior_of_rows_in_arviz(counts):
    pytest.importorskip("arviz")
    X = (counts > 2.0).astype(float)
    data = sksvi.BernoulliMixture(3).fit(X).to_arviz(X, n_samples=10, prior=True, random_state=0)
    assert data["prior"]["probabilities"].shape == (1, 10, 3, 5)
