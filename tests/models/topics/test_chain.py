"""Chains of the joint posterior of topic models: beside enumeration, quadrature and grids."""

from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import gammaln, logsumexp
from scipy.stats import wishart as wishart_law

from sksvi.models.chains import ChainLength, walk
from sksvi.models.topics import lda_chain
from sksvi.models.topics.chain import ChainDocuments, Round, TopicChain, TopicDraws, drawn_proportions, matched
from sksvi.models.topics.correlated import CorrelatedTopics
from sksvi.models.topics.correlated_chain import CorrelatedSampler, wishart
from sksvi.models.topics.lda import LatentDirichlet
from sksvi.models.topics.lda_chain import LDASampler, each_given, symmetric_given
from sksvi.models.topics.loops.draws import log_ratio, log_words

TOPICS = np.array([[0.6, 0.3, 0.1], [0.1, 0.2, 0.7]])
DOCUMENT = sp.csr_matrix(np.array([[2.0, 1.0, 2.0]]))


def certain(topics, prior, n=32):
    """Draws that are all the same: documents given topics and prior."""
    return TopicDraws(
        np.repeat(topics[None].astype(np.float32), n, 0), {name: np.repeat(v[None], n, 0) for name, v in prior.items()}
    )


def repeated(sampler, draws, n=40):
    """Mean of θ_1 and θ_1² over chains of their own, and standard errors."""
    means = []
    for seed in range(n):
        shuffled = sp.vstack([DOCUMENT, DOCUMENT]).tocsr()
        state = sampler.begin(draws.mean_topics, draws.mean_prior, shuffled, 1)
        view, found = sampler.view(draws.topics[0].astype(float), draws.prior_at(0)), []
        for number in range(60):
            sampler.sweep(view, shuffled, state, 1000 * seed + number, np.arange(2), np.empty((0, 2)))
            if number >= 10:
                found.append(sampler.proportions(view, state, 1000 * seed + number)[..., 0])
        means.append([np.mean(found), np.mean(np.square(found))])
    return np.mean(means, 0), np.std(means, 0) / np.sqrt(n)


# ---- a document given topics
@pytest.mark.costly
@pytest.mark.parametrize("few", [0, 16], ids=["all at once", "few topics"])
def test_a_document_of_few_words_has_its_exact_posterior(few, monkeypatch):
    monkeypatch.setattr(lda_chain, "FEW", few)
    alpha, model = np.array([0.4, 0.7]), LatentDirichlet(2, 3, alpha=np.full(2, 0.1), eta=np.ones((2, 3)))
    theta = (np.arange(20_000) + 0.5) / 20_000
    logs = DOCUMENT.toarray()[0] @ np.log(np.outer(TOPICS[0], theta) + np.outer(TOPICS[1], 1 - theta))
    logs += (alpha[0] - 1) * np.log(theta) + (alpha[1] - 1) * np.log1p(-theta)
    weight = np.exp(logs - logsumexp(logs))
    found, error = repeated(LDASampler(model, ""), certain(TOPICS, {"alpha": alpha}))
    assert np.all(np.abs(found - [weight @ theta, weight @ theta**2]) < 4 * error)


def correlated_model():
    return CorrelatedTopics(2, 3, word_prior=np.ones((2, 3)), pseudo_documents=4.0, full=False)


def test_log_odds_have_their_exact_posterior():
    prior = {"location": np.array([0.5]), "precision": np.array([[0.6]])}
    eta = np.linspace(-12, 12, 20_001)
    theta = 1 / (1 + np.exp(-eta))
    logs = DOCUMENT.toarray()[0] @ np.log(np.outer(TOPICS[0], theta) + np.outer(TOPICS[1], 1 - theta))
    logs -= 0.5 * 0.6 * (eta - 0.5) ** 2
    weight = np.exp(logs - logsumexp(logs))
    found, error = repeated(CorrelatedSampler(correlated_model(), 2), certain(TOPICS, prior))
    assert np.all(np.abs(found - [weight @ theta, weight @ theta**2]) < 4 * error)


def test_the_compiled_log_density_is_the_models(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    topics, eta, theta, fits = rng.dirichlet(np.ones(30), 4).T.copy(), rng.standard_normal(3), np.empty(4), np.empty(30)
    counts = rng.integers(1, 4, 30).astype(float)
    found = log_words(eta, topics, counts, theta, fits)
    full = np.append(eta, 0.0)
    share = np.exp(full - logsumexp(full))
    assert found == pytest.approx(counts @ np.log(topics @ share), rel=1e-12)
    np.testing.assert_allclose(theta, share, rtol=1e-12)
    np.testing.assert_allclose(fits, topics @ share, rtol=1e-12)


def test_an_ellipse_knows_prior_and_base_at_all_its_points(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    a, b, off, spread, found = *rng.standard_normal((3, 3)), rng.uniform(0.5, 2.0, 3), np.empty(5)
    root = rng.standard_normal((3, 3))
    log_ratio(a, b, off, root @ root.T, spread, found)

    def direct(v):
        return 0.5 * np.sum(np.square(v / spread)) - 0.5 * np.sum(np.square((v + off) @ root))

    for angle in rng.uniform(0.0, 2.0 * np.pi, 5):
        c, s = np.cos(angle), np.sin(angle)
        expected = direct(c * a + s * b) - direct(np.zeros(3))
        assert found @ [c, s, c * c, c * s, s * s] == pytest.approx(expected, rel=1e-10, abs=1e-10)


# ---- what their prior learns
def log_density(concentration, counts):
    """log p(counts | concentration), (...,), of concentrations (..., K)."""
    total, rows = concentration.sum(-1)[..., None], counts.sum(1)
    value = np.sum(gammaln(total) - gammaln(total + rows), -1)
    inner = concentration[..., None, :]
    return value + np.sum(gammaln(inner + counts) - gammaln(inner), (-1, -2))


def log_prior(x):
    return -0.5 * np.square((x - np.log(lda_chain.MEDIAN)) / lda_chain.WIDTH)


def is_mean_of(chain, expected):
    batches = np.reshape(chain[200:], (28, 100, -1)).mean(1)
    return np.all(np.abs(batches.mean(0) - expected) < 4 * batches.std(0) / np.sqrt(28))


def test_slices_of_one_concentration_follow_its_density(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    counts = rng.multinomial(6, [0.7, 0.2, 0.1], 15).astype(float)
    grid = np.linspace(-6, 5, 4001)
    logs = log_density(np.repeat(np.exp(grid)[:, None], 3, 1), counts) + log_prior(grid)
    weight, value, chain = np.exp(logs - logsumexp(logs)), 0.5, []
    for _ in range(3000):
        value = symmetric_given(counts, value, rng)
        chain.append(np.log(value))
    assert is_mean_of(chain, weight @ grid)


@pytest.mark.costly
def test_slices_of_a_concentration_per_topic_follow_their_density(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    counts = rng.multinomial(6, [0.7, 0.3], 15).astype(float)
    grid = np.stack(np.meshgrid(*2 * [np.linspace(-6, 5, 150)], indexing="ij"), -1).reshape(-1, 2)
    logs = log_density(np.exp(grid), counts) + log_prior(grid).sum(1)
    weight, values, chain = np.exp(logs - logsumexp(logs)), np.array([0.5, 0.5]), []
    for _ in range(3000):
        values = each_given(counts, values, rng)
        chain.append(np.log(values))
    assert is_mean_of(chain, weight @ grid)


def test_wishart_numbers_have_their_moments(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    root = np.array([[1.0, 0.0], [0.5, 2.0]])
    found = np.array([wishart(7.0, root, rng) for _ in range(4000)])
    law = wishart_law(7, root.T @ root)
    error = np.sqrt(law.var() / len(found))
    assert np.all(np.abs(found.mean(0) - law.mean()) < 4 * error)


# ---- the chain
def test_the_joint_posterior_of_a_tiny_corpus_is_that_of_enumeration():
    """Two documents of three words: every assignment of words to topics, whose names the words' prior tells apart."""
    X = np.array([[2.0, 1.0], [0.0, 3.0]])
    alpha, eta = np.array([0.5, 0.5]), np.array([[1.5, 0.4], [0.4, 1.5]])
    words = [[0, 0, 1], [1, 1, 1]]
    weights, topics, shares = [], [], []
    for z in product(range(2), repeat=6):
        N, M = np.zeros((2, 2)), np.zeros((2, 2))
        for i, k in enumerate(z):
            N[i // 3, k] += 1
            M[k, words[i // 3][i % 3]] += 1
        log_p = np.sum(gammaln(alpha + N)) + np.sum(gammaln(eta + M)) - np.sum(gammaln((eta + M).sum(1)))
        weights.append(log_p)
        topics.append((eta + M)[0, 0] / (eta + M)[0].sum())
        shares.append((alpha + N)[0, 0] / (alpha + N)[0].sum())
    weight = np.exp(np.array(weights) - logsumexp(weights))
    model = LatentDirichlet(2, 2, alpha=alpha, eta=eta)
    sampler, corpus = LDASampler(model, ""), ChainDocuments(sp.csr_matrix(X), [np.arange(2)], 3, 1)
    first = Round(np.full((2, 2), 0.5), {"alpha": alpha}, np.ones((2, 2)), np.zeros((2, 2)))
    found = []

    def store(number, at):
        found.append([at.topics[0, 0], ((alpha + at.states) / (alpha + at.states).sum(1, keepdims=True))[0, 0]])

    walk(TopicChain(sampler, corpus, first), ChainLength(100, 6000), np.random.default_rng(0), store)
    batches = np.reshape(found, (30, 200, 2)).mean(1)
    error = batches.std(0) / np.sqrt(30)
    assert np.all(np.abs(batches.mean(0) - [weight @ topics, weight @ shares]) < 4 * error)


def test_every_document_is_drawn_as_if_it_were_alone(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    topics = rng.dirichlet(np.full(20, 0.3), (32, 3)).astype(np.float32)
    X = sp.csr_matrix(rng.poisson(0.7, (70, 20)).astype(float))
    dirichlet = LatentDirichlet(3, 20, alpha=np.full(3, 0.3), eta=np.ones((3, 20)))
    correlated = CorrelatedTopics(3, 20, word_prior=np.ones((3, 20)), pseudo_documents=4.0, full=False)
    normal = {"location": np.zeros((32, 2)), "precision": np.repeat(np.eye(2)[None], 32, 0)}
    for sampler, prior in (
        (LDASampler(dirichlet, ""), {"alpha": np.full((32, 3), 0.3)}),
        (CorrelatedSampler(correlated), normal),
    ):
        draws = TopicDraws(topics, prior)
        together = np.concatenate([theta for _, theta in drawn_proportions(sampler, draws, X, 2)], 1)
        ((_, alone),) = drawn_proportions(sampler, draws, X[67:68], 1)
        np.testing.assert_allclose(together[:, 67:68], alone, rtol=1e-8)
        np.testing.assert_allclose(together.sum(2), 1.0)


def test_topics_are_matched_whatever_their_order(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    topics, order = rng.dirichlet(np.full(30, 0.2), 6), rng.permutation(6)
    np.testing.assert_array_equal(topics[order][matched(topics[order], topics)], topics)
