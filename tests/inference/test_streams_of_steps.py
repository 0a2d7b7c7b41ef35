"""Streams by steps: each is of all rows so far, and so is what they end at."""

import numpy as np
import pytest
from sklearn.base import clone

from sksvi import BayesianGLMClassifier, BernoulliMixture, GammaPoissonFactorization, GammaProcessNMF, StructuredLDA

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*documents have no words"),
    pytest.mark.filterwarnings("ignore:the components of this"),
]


@pytest.fixture
def rng(global_random_seed):
    return np.random.default_rng(global_random_seed)


def counts_by_components(rng, n=1200):
    return rng.poisson(rng.gamma(0.5, 4.0, (n, 5)) @ rng.gamma(0.3, 1.0, (5, 40))).astype(float)


def stood_for(model):
    """Weight that the data's part of a posterior has."""
    if isinstance(model, StructuredLDA):
        topics = model.posterior_["topics"].concentration
        return topics.sum() - model.topic_word_prior_ * topics.size
    K = model.n_components
    return model.posterior_["weights"].concentration.sum() - max(min(40 / K, 2 * K), K / 20)


@pytest.mark.costly
@pytest.mark.parametrize("size", [100, pytest.param(300, marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize("first", ["fit", "stream"])
@pytest.mark.parametrize("kind", ["topics", "mixture"])
def test_a_stream_without_a_population_stands_for_all_that_came(rng, kind, first, size):
    """Each step is of the rows so far; what was said when they were fewer grows with them."""
    if kind == "topics":
        X = rng.poisson(1.0, (1200, 30)).astype(float)
        model, whole = StructuredLDA(3, random_state=0), X.sum()
    else:
        X = (rng.random((4200, 6)) < 0.4).astype(float)
        model, whole = BernoulliMixture(3, random_state=0), 4200.0
    start = len(X) // 2
    model = model.fit(X[:start]) if first == "fit" else chunked_rows(model, X[:start], size)
    chunked_rows(model, X[start:], size)
    assert stood_for(model) == pytest.approx(whole, rel=0.02 if kind == "topics" else 1e-6)
    more = model.set_params(total_samples=3.0 * len(X)).partial_fit(X[:size])
    assert stood_for(more) == pytest.approx(3.0 * whole, rel=0.1)


def chunked_rows(model, X, size):
    for first in range(0, len(X), size):
        model.partial_fit(X[first : first + size])
    return model


@pytest.mark.costly
@pytest.mark.parametrize(
    "model",
    [
        StructuredLDA(5, random_state=0),
        pytest.param(BernoulliMixture(5, random_state=0), marks=pytest.mark.exhaustive),
        pytest.param(GammaProcessNMF(5, random_state=0), marks=pytest.mark.exhaustive),
        GammaPoissonFactorization(5, random_state=0),
    ],
    ids=lambda model: type(model).__name__,
)
@pytest.mark.parametrize("size", [100, pytest.param(400, marks=pytest.mark.exhaustive)])
def test_the_bound_of_steps_is_that_of_all_that_came(model, size, rng):
    """Not of the rows of an average chunk; a little below the bound of a fit, since early portions saw a poor q."""
    X = counts_by_components(rng)
    X = (X > 0).astype(float) if isinstance(model, BernoulliMixture) else X
    fit, stream = clone(model).fit(X), chunked_rows(clone(model), X, size)
    after = chunked_rows(clone(model).fit(X[:400]), X[400:], size)
    for streamed in (stream, after):
        assert 1.15 * fit.lower_bound_ < streamed.lower_bound_ < 0.98 * fit.lower_bound_


@pytest.mark.costly
@pytest.mark.parametrize("size", [20, 100, 500])
def test_deviations_of_streamed_weights_are_those_of_all_rows(rng, size):
    X = rng.standard_normal((4000, 4))
    y = (rng.random(4000) < 1 / (1 + np.exp(-X @ [1.0, -0.5, 0.0, 0.3]))).astype(int)
    fit = BayesianGLMClassifier(prior_precision=1.0).fit(X, y)
    stream = BayesianGLMClassifier(prior_precision=1.0, algorithm="mc-ssvi", random_state=0)
    for first in range(0, 4000, size):
        stream.partial_fit(X[first : first + size], y[first : first + size], classes=[0, 1])
    np.testing.assert_allclose(stream.coef_std_, fit.coef_std_, rtol=0.08)
    assert np.max(np.abs(stream.coef_ - fit.coef_) / fit.coef_std_) < 2.5


@pytest.mark.costly
@pytest.mark.parametrize("size", [50, 1200])
def test_what_is_forgotten_altogether_is_no_ground_to_stand_on(size, rng):
    """Half a row's life is so short that the share left of earlier chunks is 0: a chunk stands for itself."""
    X = (rng.random((3600, 6)) < 0.4).astype(float)
    stream = chunked_rows(BernoulliMixture(3, half_life=0.5, random_state=0), X, size)
    assert np.isfinite(stream.lower_bound_) and stood_for(stream) == pytest.approx(size, rel=1e-6)
