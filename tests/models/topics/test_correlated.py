"""The correlated topic model's bounds, their derivatives and what they bound."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import linear_sum_assignment, minimize
from scipy.special import logsumexp, softmax

from sksvi import CorrelatedTopicModel
from sksvi.algorithms import CVI, MCSSVI, SDSVI, FixedPoint, HybridMCSSVI
from sksvi.datasets import make_ctm, make_lda
from sksvi.families.implicit import corrected_counts, log_slope
from sksvi.inference.problem import GLOBALS
from sksvi.models.data import Table
from sksvi.models.topics import anchors, correlated
from sksvi.models.topics.loops import records
from sksvi.schedules import AdaGrad

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

BOUNDS = ("optimal", "simple", "mean-field")


@pytest.fixture(scope="module")
def loops():
    from sksvi.models.topics.loops import bound

    return bound


class Document:
    """One small document, topics that overlap, a q(η), and the compiled functions at it."""

    def __init__(self, loops, bound, seed, n_nodes=6, full=True):
        rng = np.random.default_rng(seed)
        self.loops, self.bound, self.K, W = loops, correlated.BOUNDS[bound], 4, 7
        self.beta = rng.dirichlet(np.full(W, 0.5), self.K).T.copy() + 1e-3
        self.counts = rng.integers(1, 9, W).astype(float)
        self.words = self.counts.sum()
        self.B = np.log(self.beta) if bound == "simple" else self.beta
        self.nodes = correlated.paired_nodes(1, n_nodes, self.K - 1, rng)[0]
        self.mean = rng.standard_normal(self.K - 1)
        factor = np.tril(0.3 * rng.standard_normal((self.K - 1, self.K - 1))) + 0.5 * np.eye(self.K - 1)
        self.root = factor if full else np.diag(np.diag(factor))
        self.work = loops.workspace(self.parts())

    def parts(self):
        return records.Document(np.arange(len(self.counts)), self.B, self.counts, self.nodes)

    def look(self, mean=None):
        mean = self.mean if mean is None else mean
        return self.loops.look(self.bound, self.parts(), mean, self.root, self.work)

    def curvature(self, each, newton, diagonal=False):
        out, safe = np.zeros((2, self.K - 1, self.K - 1))
        self.loops.curvature(self.bound, self.parts(), each, newton, diagonal, self.work, out, safe)
        return out, safe

    def node_slopes(self):
        slopes = np.empty((len(self.nodes), self.K - 1))
        self.loops.node_slopes(self.bound, self.parts(), self.work, slopes)
        return slopes


def dense_value(document, mean, root, bound, theta=None):
    """E log p(words | η) over the nodes, straight from the definition."""
    eta = np.column_stack([mean + document.nodes @ root, np.zeros(len(document.nodes))])
    theta = softmax(eta, axis=1)
    if bound == "optimal":
        return np.mean(np.log(theta @ document.beta.T) @ document.counts)
    if bound == "simple":
        return np.mean(theta @ np.log(document.beta).T @ document.counts)
    held = np.append(mean, 0.0)
    phi = softmax(np.log(document.beta) + held, axis=1)
    inner = np.sum(phi * (held + np.log(document.beta) - np.log(phi)), 1)
    return document.counts @ inner - document.words * np.mean(logsumexp(eta, axis=1))


@pytest.mark.parametrize("bound", BOUNDS)
def test_value_and_gradient(loops, bound, global_random_seed):
    document = Document(loops, bound, global_random_seed)
    value, slope = document.look()
    assert value == pytest.approx(dense_value(document, document.mean, document.root, bound), rel=1e-12)
    for k, step in enumerate(1e-5 * np.eye(3)):
        high, low = (dense_value(document, document.mean + s * step, document.root, bound) for s in (1, -1))
        assert slope[k] == pytest.approx((high - low) / 2e-5, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("bound", BOUNDS)
def test_hessian(loops, bound, global_random_seed):
    """Minus the derivative of the gradient; where the covariance's differs (mean field), of E log p at held φ."""
    document = Document(loops, bound, global_random_seed)
    document.look()
    found = document.curvature(True, True)[0]
    if bound == "mean-field":
        found, held = document.curvature(True, True)[0], document.curvature(True, False)[0]
        theta = document.work.theta
        spread = np.diag(theta.mean(0)) - theta.T @ theta / len(theta)
        np.testing.assert_allclose(held, document.words * spread[:3, :3], rtol=1e-10, atol=1e-12)
    for k, step in enumerate(1e-5 * np.eye(3)):
        high, low = (document.look(document.mean + s * step)[1] for s in (1, -1))
        np.testing.assert_allclose(found[k], -(high - low) / 2e-5, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("bound", BOUNDS)
def test_diagonal_of_the_hessian(loops, bound, global_random_seed):
    document = Document(loops, bound, global_random_seed, full=False)
    document.look()
    full = np.diag(document.curvature(True, False)[0]).copy()
    np.testing.assert_allclose(np.diag(document.curvature(True, False, True)[0]), full, rtol=1e-12)


@pytest.mark.parametrize("bound", BOUNDS)
def test_gradient_in_the_root(loops, bound, global_random_seed):
    """s-dsvi: derivative in C of the mean over nodes is E ε ∇ᵀ."""
    document = Document(loops, bound, global_random_seed)
    document.look()
    found = document.nodes.T @ document.node_slopes() / 6
    for j in range(3):
        for k in range(j + 1):
            step = np.zeros((3, 3))
            step[j, k] = 1e-5
            high, low = (dense_value(document, document.mean, document.root + s * step, bound) for s in (1, -1))
            assert found[j, k] == pytest.approx((high - low) / 2e-5, rel=1e-6, abs=1e-6)


def test_covariance_by_price(loops, global_random_seed):
    """With many nodes the gradient in S is half the mean Hessian: the fixed point of the covariance is the bound's."""
    document = Document(loops, "optimal", global_random_seed, n_nodes=20000)
    document.look()
    in_root = document.nodes[:, :, None] * document.node_slopes()[:, None, :]
    wanted = -document.root @ document.curvature(True, True)[0]
    error = in_root.std(0) / np.sqrt(10000)
    assert np.all(np.abs(in_root.mean(0) - wanted)[np.tril_indices(3)] <= 4 * error[np.tril_indices(3)] + 1e-2)


def test_bounds_are_in_their_order(loops, global_random_seed):
    """At equal q(η) and topics: optimal >= simple, optimal >= mean field."""
    for seed in range(5):
        values = [Document(loops, bound, [global_random_seed, seed]).look()[0] for bound in BOUNDS]
        assert values[0] >= values[1] and values[0] >= values[2]


@pytest.mark.parametrize("full", [True, False])
def test_projection(full):
    """Π₊ takes away negative eigenvalues (diagonal q: entries), whether or not the precision could bear them."""
    from sksvi.models.topics.loops import algebra as loops

    turn = np.array([[0.8, -0.6], [0.6, 0.8]]) if full else np.eye(2)
    factor, root = np.zeros((2, 2)), np.zeros((2, 2))
    for values in ([3.0, -4.0], [3.0, -0.1], [3.0, 1.0]):
        negative = turn @ np.diag(values) @ turn.T
        assert loops.project(negative, full, factor) == (values[1] < 0)
        np.testing.assert_allclose(negative, turn @ np.diag(np.maximum(values, 0.0)) @ turn.T, atol=1e-12)
        loops.inverse_root(np.eye(2), negative, full, factor, root)
        np.testing.assert_allclose(root.T @ root, np.linalg.inv(np.eye(2) + negative), atol=1e-12)


def test_factors(global_random_seed):
    """Cholesky's factor solves, an indefinite matrix has none, and the root is that of the inverse."""
    from sksvi.models.topics.loops import algebra as loops

    rng = np.random.default_rng(global_random_seed)
    half = rng.standard_normal((6, 6))
    matrix, factor, root, x = half @ half.T + np.eye(6), np.zeros((6, 6)), np.zeros((6, 6)), rng.standard_normal(6)
    assert loops.cholesky(matrix, factor)
    solved = x.copy()
    loops.solve(factor, solved)
    np.testing.assert_allclose(matrix @ solved, x, rtol=1e-10)
    loops.inverse_root(np.eye(6), half @ half.T, True, factor, root)
    np.testing.assert_allclose(root.T @ root @ matrix, np.eye(6), atol=1e-10)
    np.testing.assert_array_equal(root, np.tril(root))
    for without in (matrix - 1e3 * np.eye(6), np.full((6, 6), np.nan)):
        assert not loops.cholesky(without, factor)


# ---- what an algorithm says about documents
def fit_with(algorithm, **options):
    X = make_ctm(40, 30, n_components=3, n_words=40, random_state=0).data
    return CorrelatedTopicModel(3, algorithm=algorithm, max_iter=2, tol=0.0, random_state=0, **options).fit(X)


@pytest.mark.costly
@pytest.mark.parametrize("covariance", ["full", "diag"])
@pytest.mark.parametrize("kind", [HybridMCSSVI, SDSVI])
@pytest.mark.parametrize("adagrad", [AdaGrad(rate=1e-6), AdaGrad(epsilon=1e30)])
def test_documents_stay_without_a_rate(kind, covariance, adagrad):
    """AdaGrad's rate and epsilon are those of the documents' steps."""
    fitted = fit_with(kind(adagrad=adagrad), covariance=covariance)
    start = fitted._model(30).local_begin(Table(np.zeros((40, 30)), np.zeros(40)))
    kept = slice(0, 2) if kind is HybridMCSSVI else np.r_[0:2, 4 : (8 if covariance == "full" else 6)]
    np.testing.assert_allclose(fitted.state_.locals.values[:, kept], start[:, kept], atol=1e-4)
    assert np.abs(fit_with(kind(), covariance=covariance).state_.locals.values[:, :2]).mean() > 0.1


@pytest.mark.costly
@pytest.mark.parametrize("kind", [HybridMCSSVI, SDSVI])
def test_rates_of_documents(kind):
    """By default 1 and 0.1; twice the rate is twice as much, and bits of a default do not depend on how it is said."""
    assert correlated.VISIT.rates == (1.0, 0.1, 1e-12)
    model = CorrelatedTopicModel(3, algorithm=kind(adagrad=AdaGrad(6.0, 1e-3)))
    model.n_features_in_ = 30
    assert model._model(30).rates == (2.0, 0.2, 1e-3)
    found = [fit_with(kind(adagrad=adagrad)) for adagrad in (None, AdaGrad())]
    np.testing.assert_array_equal(found[0].state_.locals.values, found[1].state_.locals.values)
    np.testing.assert_array_equal(found[0].components_, found[1].components_)


@pytest.mark.parametrize("kind", [CVI, FixedPoint, HybridMCSSVI, MCSSVI, SDSVI])
def test_derived_algorithms_keep_their_local_steps(kind):
    class Derived(kind):
        pass

    rules = {CVI: "messages", HybridMCSSVI: "hybrid", SDSVI: "standard"}
    model = CorrelatedTopicModel(3, algorithm=Derived())
    model.n_features_in_ = 30
    assert model._model(30).rule == rules.get(kind, "natural")


# ---- the whole bound
@pytest.mark.parametrize("covariance", ["full", "diag"])
@pytest.mark.parametrize("bound", BOUNDS)
@pytest.mark.parametrize("topics", ["dirichlet", "point"])
def test_full_batches_never_lower_the_bound(bound, covariance, topics):
    X = make_ctm(60, 30, n_components=3, n_words=40, random_state=1).data
    options = {"bound": bound, "covariance": covariance, "topics": topics}
    model = CorrelatedTopicModel(3, max_iter=25, tol=0.0, batch_size=None, random_state=0, **options).fit(X)
    falls = np.diff(model.lower_bounds_)
    assert falls.min() >= -2e-6 * abs(model.lower_bound_)


def annealed(model, X, rng, n_chains=200, n_steps=200):
    """log p(words) of each document at point topics: annealed importance sampling with random walks; mean and se."""
    population, beta = model._seen_globals["population"], model.components_
    width = len(population.location)
    factor = np.linalg.cholesky(population.scale)
    out = np.empty((X.shape[0], 2))
    for i in range(X.shape[0]):
        words, counts = X[i].indices, X[i].data

        def log_words(z, words=words, counts=counts):
            eta = np.column_stack([population.location + z @ factor.T, np.zeros(len(z))])
            return np.log(softmax(eta, axis=1) @ beta[:, words]) @ counts

        z = rng.standard_normal((n_chains, width))
        here, total = log_words(z), np.zeros(n_chains)
        ladder = np.linspace(0.0, 1.0, n_steps + 1) ** 3
        for before, now in itertools.pairwise(ladder):
            total += (now - before) * here
            size = rng.choice([0.1, 0.3, 0.8], (n_chains, 1))
            new = np.sqrt(1 - size**2) * z + size * rng.standard_normal(z.shape)
            there = log_words(new)
            moved = np.log(rng.random(n_chains)) < now * (there - here)
            z[moved], here[moved] = new[moved], there[moved]
        weights = np.exp(total - total.max())
        out[i] = np.log(weights.mean()) + total.max(), weights.std() / weights.mean() / np.sqrt(n_chains)
    return out


@pytest.mark.parametrize("bound", BOUNDS)
def test_bound_is_below_annealed_importance_sampling(bound, global_random_seed):
    """Topics as points without a prior: the documents' terms bound log p(words | β, μ, Σ)."""
    X = make_ctm(40, 20, n_components=3, n_words=15, random_state=2).data.astype(float)
    options = {"topics": "point", "bound": bound, "covariance": "full"}
    model = CorrelatedTopicModel(3, max_iter=10, random_state=0, **options).fit(X)
    part = sp.csr_matrix(X[:6])
    terms = model._documents(model._fitted_model, part).value
    truth = annealed(model, part, np.random.default_rng(global_random_seed))
    # 32 nodes leave an error of their own in a document's term.
    assert np.all(terms <= truth[:, 0] + 4 * truth[:, 1] + 0.02)
    assert np.all(terms >= truth[:, 0] - (3.0 if bound == "optimal" else 30.0))


def test_importance_sampling_agrees_with_annealing(global_random_seed):
    X = make_ctm(40, 20, n_components=3, n_words=15, random_state=2).data.astype(float)
    model = CorrelatedTopicModel(3, max_iter=10, random_state=0, covariance="full").fit(X)
    part = sp.csr_matrix(X[:6])
    found, size = model.importance_score(part, n_samples=4000, random_state=global_random_seed)
    truth = annealed(model, part, np.random.default_rng(global_random_seed + 1))
    assert np.all(size > 100)
    error = np.sqrt(1.0 / size + truth[:, 1] ** 2)
    assert np.all(np.abs(found - truth[:, 0]) <= 4 * error)


@pytest.mark.parametrize("inflation", [0.0, 1.0, np.inf])
def test_every_proposal_estimates_the_same_likelihood(inflation, global_random_seed):
    """The posterior as it is, widened more, or the prior: the four columns of the paper's Figure 13."""
    X = make_ctm(40, 20, n_components=3, n_words=15, random_state=2).data.astype(float)
    model = CorrelatedTopicModel(3, max_iter=10, random_state=0, covariance="full").fit(X)
    part = sp.csr_matrix(X[:6])
    truth, many = model.importance_score(part, n_samples=20_000, random_state=global_random_seed)
    found, size = model.importance_score(
        part, n_samples=20_000, random_state=global_random_seed + 1, inflation=inflation
    )
    assert np.all(np.abs(found - truth) <= 4 * np.sqrt(1.0 / size + 1.0 / many) + 0.01)


@pytest.mark.parametrize("inflation", [-0.1, np.nan])
def test_an_inflation_that_is_no_number_of_at_least_0_is_refused(inflation):
    X = make_ctm(40, 20, n_components=3, n_words=15, random_state=2).data
    model = CorrelatedTopicModel(3, max_iter=10, random_state=0).fit(X)
    with pytest.raises(ValueError, match="inflation must be a number of at least 0"):
        model.importance_score(X[:2], inflation=inflation)


@pytest.mark.costly
def test_completion_agrees_with_importance_sampling(global_random_seed):
    """log p(both halves) - log p(known half), word by word, is what completion estimates."""
    from sksvi.estimators.completion import halved

    corpus = make_ctm(300, 60, n_components=3, n_words=60, random_state=3)
    model = CorrelatedTopicModel(3, max_iter=20, random_state=0).fit(corpus.data)
    part = sp.csr_matrix(corpus.data[:60].astype(float))
    observed, held = halved(part)
    single = held.copy()
    single.data = np.ones_like(single.data)
    for i in range(single.shape[0]):  # one held-out word of each document, so that words do not inform each other
        row = single.data[single.indptr[i] : single.indptr[i + 1]]
        row[1:] = 0.0
    single.eliminate_zeros()
    both, size = model.importance_score(sp.csr_matrix(observed + single), n_samples=4000, random_state=0)
    known, other = model.importance_score(observed, n_samples=4000, random_state=1)
    scored = model.log_predictive_density(observed, single)
    error = np.sqrt(1 / size + 1 / other)
    assert abs(np.mean(both - known - scored)) <= 4 * np.sqrt(np.mean(error**2) / len(error)) + 0.01


# ---- topics
def test_draws_of_gammas_move_with_their_shape(global_random_seed):
    from scipy.special import gammaincinv

    u = np.random.default_rng(global_random_seed).uniform(0.01, 0.99, 20)
    for a in (0.3, 1.0, 4.0, 50.0, 2000.0, 2e4):
        low, high = (np.log(gammaincinv(a * (1 + s), u)) for s in (-1e-5, 1e-5))
        found = log_slope(np.full(20, a), np.log(gammaincinv(a, u)))
        np.testing.assert_allclose(found, (high - low) / (2e-5 * a), rtol=1e-6)


def test_corrected_counts_are_right_on_average(global_random_seed):
    """Over draws, V times the counts has the mean of the counts, within four standard errors."""
    from sksvi.families import Dirichlet

    rng = np.random.default_rng(global_random_seed)
    concentration, counts = np.array([0.5, 2.0, 3.0, 0.8]), np.array([3.0, 1.0, 2.0, 0.5])
    block = Dirichlet(np.tile(concentration, (50000, 1)))
    draws = corrected_counts(block.concentration, block.log_gammas(rng), np.tile(counts, (50000, 1)))
    assert np.all(np.abs(draws.mean(0) - counts) <= 4 * draws.std(0) / np.sqrt(50000))


# ---- the start
def test_points_of_words(global_random_seed):
    """Principal axes of the rows of Q/p, with Q counted pair by pair of different words of a document."""
    rng = np.random.default_rng(global_random_seed)
    X = np.vstack([rng.multinomial(12, p) for p in rng.dirichlet(np.ones(3), 40) @ rng.dirichlet(np.ones(6), 3)])
    Q = np.zeros((6, 6))
    for row in X:
        tokens = np.repeat(np.arange(6), row)
        for one, other in itertools.permutations(range(len(tokens)), 2):
            Q[tokens[one], tokens[other]] += 1.0 / (12 * 11)
    root = 1.0 / np.sqrt(Q.sum(1))
    values, axes = np.linalg.eigh(root[:, None] * Q * root)
    wanted = root[:, None] * axes[:, -3:] * np.maximum(values[-3:], 0.0)
    found, known = anchors.word_points(sp.csr_matrix(X), 3, rng)
    assert known.all()
    np.testing.assert_allclose(found @ found.T, wanted @ wanted.T, rtol=1e-6, atol=1e-8)


def test_start_is_near_the_topics(global_random_seed):
    """Anchor words alone find the topics of many documents."""
    corpus = make_ctm(2000, 300, n_components=5, random_state=global_random_seed)
    shares = anchors.anchored_shares(corpus.data, 5, np.random.default_rng(0))
    np.testing.assert_allclose(shares.sum(0), 1.0)
    found = shares * np.asarray(corpus.data.sum(0))
    assert matched(corpus.components, found)[0].mean() >= 0.95


def documents(X):
    return Table(X, np.zeros(X.shape[0]))


def test_start_where_there_are_too_few_words_or_documents():
    for X in (np.eye(3), np.ones((4, 2)), np.full((1, 5), 2.0), np.full((3, 4), 0.2)):
        counts = anchors.first_counts(documents(sp.csr_matrix(X)), np.full((6, X.shape[1]), 0.1), 0)
        assert np.all(counts >= 0) and np.all(np.isfinite(counts)) and counts.sum() > 0
        assert np.linalg.matrix_rank(counts) == min(counts.shape)  # no two topics start alike


def test_start_puts_topics_where_their_seed_words_are():
    corpus = make_ctm(500, 100, n_components=4, random_state=0)
    prior = np.full((4, 100), 0.2)
    for topic, words in enumerate(np.argsort(-corpus.components, axis=1)[[2, 0, 3, 1], :5]):
        prior[topic, words] += 50.0
    counts = anchors.first_counts(documents(corpus.data), prior, 0) / prior
    np.testing.assert_array_equal(matched(corpus.components[[2, 0, 3, 1]], counts)[1], np.arange(4))


# ---- what fits find
def matched(truth, found):
    """Cosines of matched topics, and which topic each of the truth matches."""
    pairs = (truth / np.linalg.norm(truth, axis=1, keepdims=True)) @ (
        found / np.linalg.norm(found, axis=1, keepdims=True)
    ).T
    rows, columns = linear_sum_assignment(-pairs)
    return pairs[rows, columns], columns


@pytest.mark.exhaustive
@pytest.mark.parametrize("covariance", ["full", pytest.param("diag", marks=pytest.mark.exhaustive)])
def test_recovery(covariance, global_random_seed):
    """Topics and correlations of a simulated corpus, from the first start."""
    corpus = make_ctm(2000, 500, n_words=200, random_state=global_random_seed)
    model = CorrelatedTopicModel(8, covariance=covariance, random_state=global_random_seed).fit(corpus.data)
    cosine, match = matched(corpus.components, model.components_)
    assert cosine.mean() >= 0.95
    found = model.topic_correlation_[np.ix_(match, match)]
    off = ~np.eye(8, dtype=bool)
    assert np.abs(found - corpus.topic_correlation)[off].mean() <= 0.1


def test_bounds_of_forming_passes_are_bounds(global_random_seed):
    """Documents that see E β report their terms of the bound, which has exp(E log β)."""
    X = make_ctm(40, 30, n_components=3, n_words=40, random_state=global_random_seed).data.astype(float)
    fitted = CorrelatedTopicModel(3, max_iter=3, random_state=0).fit(X)
    model, rows, found = fitted._model(30), np.arange(40), []
    batch = model.batch(Table(X, np.zeros(40)), rows)
    for seen, effort in (("mean", correlated.VISIT), ("expected", records.Effort(0, 0, 0.0))):
        view, _ = GLOBALS[seen].view(model, fitted._globals, None).narrowed(model, X)
        batch.indices = view.place[X.indices]
        found.append(model.settled(view, batch, model.nodes, batch.first_node, "natural", effort, False, False))
        batch.start = found[0].local
    np.testing.assert_allclose(found[0].value, found[1].value, rtol=1e-10)


HERMITE, HERMITE_WEIGHTS = np.polynomial.hermite_e.hermegauss(60)


def true_term(bound, counts, logs, mean, variance, place):
    """A document's term of the bound for two topics, by quadrature; q has the mean and the log sd in `place`."""
    m, sd = place[0], np.exp(place[1])
    eta, weights = m + sd * HERMITE, HERMITE_WEIGHTS / HERMITE_WEIGHTS.sum()
    log_mass = np.logaddexp(0.0, eta)
    log_theta = np.stack([eta - log_mass, -log_mass])
    if bound == "simple":
        value = weights @ (np.exp(log_theta).T @ (logs @ counts))
    elif bound == "optimal":
        value = weights @ (np.logaddexp(*(log_theta[:, :, None] + logs[:, None])) @ counts)
    else:
        value = counts @ np.logaddexp(m + logs[0], logs[1]) - counts.sum() * (weights @ log_mass)
    return value - 0.5 * ((sd**2 + (m - mean) ** 2) / variance - 1.0 + np.log(variance) - 2.0 * place[1])


@pytest.mark.parametrize("topics", ["point", "dirichlet"])
@pytest.mark.parametrize("bound", BOUNDS)
def test_no_fit_reports_more_than_the_largest_bound_at_its_topics(bound, topics, global_random_seed):
    """Documents are fitted to four nodes each, where their terms are overstated; others judge them."""
    X = make_ctm(60, 40, n_components=2, n_words=30.0, random_state=global_random_seed).data
    options = {"batch_size": None, "tol": 1e-6, "max_iter": 200, "random_state": 0}
    model = CorrelatedTopicModel(2, bound=bound, topics=topics, **options).fit(X)
    q = model.state_.q
    population = float(q["population"].location[0]), 1.0 / float(q["population"].precision[0, 0])
    largest = -sum(q[name].kl(prior) for name, prior in model._model(X.shape[1]).prior(q).items())
    for counts in sp.csr_array(X).toarray().astype(float):
        seen = counts > 0
        of_document = (counts[seen], q["topics"].moments[:, seen], *population)
        largest -= minimize(lambda place: -true_term(bound, *of_document, place), [0.0, -1.0]).fun  # noqa: B023
    assert largest - 0.01 * abs(largest) < model.lower_bound_ <= largest + 1e-3


@pytest.mark.costly
@pytest.mark.parametrize("topics", ["point", pytest.param("dirichlet", marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize(
    "bound", [pytest.param(name, marks=() if name == BOUNDS[0] else pytest.mark.exhaustive) for name in BOUNDS]
)
def test_gradient_steps_of_documents_lower_no_bound(bound, topics):
    """Steps by AdaGrad that lowered it were blamed on the topics, whose step was halved to nothing."""
    X = make_lda(60, 60, n_components=4, random_state=0).data
    options = {"bound": bound, "topics": topics, "batch_size": None, "tol": 1e-6, "random_state": 0}
    best = CorrelatedTopicModel(4, **options).fit(X).lower_bounds_[-1]
    model = CorrelatedTopicModel(4, algorithm="h-mc-ssvi", max_iter=1000, **options).fit(X)
    assert model.converged_ and model.history_["rate"].min() > 1e-3
    assert model.lower_bounds_[-1] >= best - 2e-3 * abs(best)
    assert np.all(np.diff(model.lower_bounds_) >= -2e-6 * abs(best))
