"""Latent Dirichlet allocation: local steps against enumeration, the bound, V, and what is learned."""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import partial
from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import digamma, gammaln
from sklearn.exceptions import ConvergenceWarning

from sksvi import StructuredLDA, algorithms
from sksvi.families import Dirichlet
from sksvi.families.dirichlet import Draw
from sksvi.inference import engine, plan
from sksvi.inference.problem import GLOBALS
from sksvi.inference.start import first_state
from sksvi.models.data import Table
from sksvi.models.topics import lda
from sksvi.models.topics.documents import TopicLogs
from sksvi.models.topics.lda import DocumentVisit, LatentDirichlet, LDADocuments, LDAView, dirichlet_marginal
from sksvi.models.topics.loops import gibbs
from sksvi.models.traits import Warmup

K, V = 3, 6
LONG = DocumentVisit(20_000, 1e-13, 200, 4000)


def model_of(local_step="mean-field", **options):
    alpha = options.pop("alpha", np.array([0.3, 0.8, 1.3]))
    options = {"eta": np.full((K, V), 0.6), "start": np.ones((K, V)), **options}
    return LatentDirichlet(K, V, alpha=alpha, local_step=local_step, **options)


def document_of(rng, counts):
    """One document with random topics: view and documents."""
    words, cuts = np.arange(len(counts), dtype=np.int32), np.array([0, len(counts)], np.int32)
    topics = rng.dirichlet(np.ones(V), K)
    offset = np.log(topics).max(0)
    view = LDAView(np.ascontiguousarray(np.exp(np.log(topics) - offset).T), offset, np.array([0.3, 0.8, 1.3]))
    batch = LDADocuments(cuts, words, np.asarray(counts, float), np.array([5]), np.zeros((1, K)))
    return topics, view, batch


def enumerated(topics, alpha, counts):
    """Exact E N, E N² and E log θ, expected counts (V, K), and log p(words), by all assignments of topics."""
    words = np.repeat(np.arange(len(counts)), counts)
    logs, first, cells = [], [], []
    for z in product(range(K), repeat=len(words)):
        N = np.bincount(z, minlength=K)
        logs.append(
            np.log(topics[list(z), words]).sum() + (gammaln(alpha + N) - gammaln(alpha)).sum()
            + gammaln(alpha.sum()) - gammaln(alpha.sum() + len(words))
        )  # fmt: skip
        cell = np.zeros((V, K))
        np.add.at(cell, (words, list(z)), 1.0)
        first.append(N)
        cells.append(cell)
    evidence = np.logaddexp.reduce(logs)
    weight, first = np.exp(np.array(logs) - evidence), np.array(first, float)
    of_n = [weight @ first, weight @ np.square(first), weight @ logs_of_proportions(alpha, first)]
    return np.array(of_n), np.tensordot(weight, np.array(cells), 1), evidence


def logs_of_proportions(alpha, N):
    """E log θ under Dir(α + N)."""
    return digamma(alpha + N) - digamma((alpha + N).sum(-1, keepdims=True))


# ---- local steps
@pytest.mark.costly
@pytest.mark.parametrize("counts", [[1, 1, 2], [3, 0, 1, 1], [4, 3], [1]])
def test_gibbs_is_the_enumeration(counts, global_random_seed):
    """Moments of N, E log θ, and expected counts of words: two dozen numbers, within five standard errors."""
    topics, view, batch = document_of(np.random.default_rng(global_random_seed), counts)
    seen = np.asarray(counts) > 0
    batch.words, batch.counts = batch.words[seen], batch.counts[seen]
    batch.indptr = np.array([0, seen.sum()], np.int32)
    model, runs = model_of("gibbs", learns_alpha="auto"), []
    for key in range(60):
        batch.streams = np.array([key])
        terms = model.settled(view, batch, DocumentVisit(0, 0.0, 30, 300), global_random_seed, squares=True)
        of_n = [terms.local, terms.squares, terms.own_elog]
        runs.append(np.concatenate([one.ravel() for one in (*of_n, terms.counts)]))
    of_n, cells, _ = enumerated(topics, view.alpha, counts)
    wanted = np.concatenate([of_n.ravel(), cells.ravel()])
    error = np.std(runs, 0, ddof=1) / np.sqrt(len(runs))
    # A topic that is due once in 18,000 sweeps may never come, and then shows no error.
    np.testing.assert_array_less(np.abs(np.mean(runs, 0) - wanted), 5.0 * error + 10.0 / (60 * 300))


@pytest.mark.costly
def test_gibbs_of_two_words_and_many_topics(global_random_seed):
    """So few of them occur that only these are visited; the exact p(z₁, z₂) is a matrix."""
    n_topics, rng, runs = 30, np.random.default_rng(global_random_seed), []
    topics, alpha = rng.dirichlet(np.ones(n_topics), 2), rng.gamma(2.0, 0.1, n_topics) + 0.02
    joint = (np.outer(alpha, alpha) + np.diag(alpha)) * np.outer(*topics)
    cells = np.stack([joint.sum(1), joint.sum(0)]) / joint.sum()
    wanted = np.concatenate([cells.ravel(), cells.sum(0) + 2.0 * np.diagonal(joint) / joint.sum()])
    model = LatentDirichlet(n_topics, 2, alpha=alpha, eta=np.ones((n_topics, 2)), local_step="gibbs")
    words, cuts = np.arange(2, dtype=np.int32), np.array([0, 2], np.int32)
    batch = LDADocuments(cuts, words, np.ones(2), np.array([5]), np.zeros((1, n_topics)))
    for key in range(60):
        terms = model.settled(
            LDAView(topics, np.zeros(2), alpha), batch, DocumentVisit(0, 0.0, 30, 600), key, squares=True
        )
        np.testing.assert_allclose(terms.counts.sum(0), terms.local[0])
        runs.append(np.concatenate([terms.counts.ravel(), terms.squares.ravel()]))
    error = np.std(runs, 0, ddof=1) / np.sqrt(len(runs))
    # Bernstein's: sums of few jumps follow no normal law.
    rare = np.repeat([1.0, 4.0], [cells.size, n_topics]) * 16 / (3 * 60 * 600)
    np.testing.assert_array_less(np.abs(np.mean(runs, 0) - wanted), 5.5 * error + rare)


@pytest.mark.parametrize("n_topics", [1, 3, 16, 17, 50, 64, 65, 200])
def test_topics_are_found_as_often_as_they_weigh(n_topics, global_random_seed):
    """Of numbers in even steps; one at the end of the range is no topic beyond the last."""
    rng, n = np.random.default_rng(global_random_seed), 20000
    weight, row, lanes = np.zeros((3, gibbs.ROUND * (1 + (n_topics - 1) // gibbs.ROUND)))
    weight[:n_topics], row[:n_topics] = rng.gamma(0.3, 1.0, (2, n_topics))
    found = [gibbs._found(weight, row, lanes[: gibbs.LANES], n_topics, u) for u in (np.arange(n) + 0.5) / n]
    share = (weight * row)[:n_topics] / (weight * row).sum()
    np.testing.assert_allclose(np.bincount(found, minlength=n_topics) / n, share, atol=1.01 / n)
    assert gibbs._found(weight, row, lanes[: gibbs.LANES], n_topics, 1.0) < n_topics


@pytest.mark.costly
def test_local_steps_and_their_order(global_random_seed):
    """Of N, CVB0 is nearer to the truth than mean field; no bound is above log p(words)."""
    errors = {"mean-field": [], "cvb0": []}
    for number in range(12):
        rng = np.random.default_rng([global_random_seed, number])
        topics, view, batch = document_of(rng, [2, 1, 2, 1, 1])
        (mean, _, _), _, evidence = enumerated(topics, view.alpha, [2, 1, 2, 1, 1])
        for name, found in errors.items():
            terms = model_of(name).settled(view, batch, LONG, 0)
            found.append(np.abs(terms.local - mean).sum())
            assert terms.value[0] <= evidence + 1e-12
            np.testing.assert_allclose(terms.local.sum(), 7.0)
            # Slow documents still move by 1e-7 a sweep after thousands.
            np.testing.assert_allclose(terms.counts.sum(0), terms.local[0], rtol=1e-6)
    assert np.mean(errors["cvb0"]) < np.mean(errors["mean-field"])


@pytest.mark.costly
def test_mean_field_never_lowers_the_bound(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    _, view, batch = document_of(rng, rng.integers(1, 9, V))
    batch.start = rng.gamma(1.0, 3.0, (1, K))
    values = [model_of().settled(view, batch, DocumentVisit(n, 0.0, 0, 0), 0).value[0] for n in range(1, 30)]
    assert np.all(np.diff(values) >= -1e-10)


def test_mean_field_is_a_fixed_point_of_the_equations(global_random_seed):
    """φ ∝ exp(ψ(a)) b and a = α + Σ c φ, and the document's term of the bound from its definition."""
    rng = np.random.default_rng(global_random_seed)
    topics, view, batch = document_of(rng, rng.integers(1, 9, V))
    terms = model_of().settled(view, batch, LONG, 0)
    a = view.alpha + terms.local[0]
    phi = np.exp(digamma(a))[:, None] * topics
    phi /= phi.sum(0)
    np.testing.assert_allclose(view.alpha + phi @ batch.counts, a, rtol=1e-9)
    np.testing.assert_allclose(terms.counts.T, phi * batch.counts, rtol=1e-8)
    elog = digamma(a) - digamma(a.sum())
    np.testing.assert_allclose(terms.elog[0], elog, rtol=1e-9)
    divergence = float(np.sum(terms.local * elog)) + gammaln(a.sum()) - gammaln(view.alpha.sum())
    divergence += np.sum(gammaln(view.alpha) - gammaln(a))
    wanted = np.sum(batch.counts * phi * (elog[:, None] + np.log(topics) - np.log(phi))) - divergence
    assert terms.value[0] == pytest.approx(wanted, rel=1e-9)


def test_cvb0_is_at_its_fixed_point(global_random_seed):
    """φ_w ∝ (α + N - φ_w) b_w of every word, N = Σ c φ."""
    rng = np.random.default_rng(global_random_seed)
    topics, view, batch = document_of(rng, rng.integers(1, 9, V))
    terms = model_of("cvb0").settled(view, batch, LONG, 0)
    phi = terms.counts / batch.counts[:, None]
    wanted = (view.alpha + terms.local - phi) * topics.T
    np.testing.assert_allclose(phi, wanted / wanted.sum(1, keepdims=True), rtol=1e-8)


def test_cvb0_knows_that_a_topic_may_have_no_word(global_random_seed):
    """E log θ where each word has its topic by φ, by all assignments: ψ(α + E N) is far from it, and too large."""
    rng, errors = np.random.default_rng(global_random_seed), []
    for _ in range(10):
        _, view, batch = document_of(rng, [1] * V)
        terms = model_of("cvb0", learns_alpha="auto").settled(view, batch, LONG, 0)
        z = np.array(list(product(range(K), repeat=V)))
        weight = terms.counts[np.arange(V), z].prod(1)
        N = (z[:, :, None] == np.arange(K)).sum(1)
        wanted = weight @ logs_of_proportions(view.alpha, N)
        errors.append(
            np.abs([terms.own_elog[0] - wanted, logs_of_proportions(view.alpha, terms.local[0]) - wanted]).sum(1)
        )
    ours, plain = np.mean(errors, 0)
    assert ours < 0.1 * plain


def test_gibbs_rounds_fractions_to_their_mean(global_random_seed):
    _, view, batch = document_of(np.random.default_rng(global_random_seed), [0.3, 1.75, 2.0])
    totals = []
    for key in range(2000):
        batch.streams = np.array([key])
        totals.append(model_of("gibbs").settled(view, batch, DocumentVisit(0, 0.0, 0, 1), 7).local.sum())
    error = np.std(totals) / np.sqrt(len(totals))
    assert abs(np.mean(totals) - 4.05) < 4.0 * error


@pytest.mark.parametrize("local_step", lda.LOCAL_STEPS)
@pytest.mark.parametrize("n_topics", [1, 3, 9, 40])
def test_documents_are_the_same_by_themselves(local_step, n_topics, global_random_seed):
    """Whatever else is in the chunk; and one topic has all words."""
    rng = np.random.default_rng(global_random_seed)
    X = sp.csr_matrix(rng.poisson(1.0, (5, V)).astype(float))
    q = {"topics": Dirichlet(rng.gamma(1.0, 1.0, (n_topics, V)) + 0.1)}
    model = LatentDirichlet(
        n_topics, V, alpha=np.full(n_topics, 0.2), eta=np.full((n_topics, V), 0.1), local_step=local_step
    )
    together = model.documents(q, X, 1)
    for i in range(5):
        np.testing.assert_array_equal(model.documents(q, X[[i]], 1).local[0], together.local[i])
    np.testing.assert_allclose(together.local.sum(1), np.asarray(X.sum(1)).ravel())


# ---- V


def small_corpus(rng):
    topics = rng.dirichlet(np.full(V, 0.5), K)
    theta = rng.dirichlet(np.full(K, 0.5), 8)
    return Table(sp.csr_matrix(np.array([rng.multinomial(12, t @ topics) for t in theta]).astype(float)), np.zeros(8))


def moved_draw(block, source, other):
    """The draw of `other` with the uniform numbers of a draw of `block`, to first order in log g."""
    from sksvi.families.implicit import log_slope

    logs = source + log_slope(block.concentration, source) * (other.concentration - block.concentration)
    shifted = np.exp(logs - logs.max(-1, keepdims=True))
    return Draw(shifted / shifted.sum(-1, keepdims=True), logs)


def test_structured_gradient_is_that_of_the_bound(global_random_seed):
    """E over draws of the local bound: its slope in λ is F V n, and not F n, which leaves out that draws move."""
    rng = np.random.default_rng([global_random_seed, 8])
    data, model = small_corpus(rng), model_of(alpha=np.full(K, 0.5))
    block = Dirichlet(rng.gamma(1.0, 1.0, (K, V)) + 0.3)
    direction, eps = rng.uniform(0.5, 1.0, (K, V)), 1e-4
    batch = model.batch(data, np.arange(8))

    def value(draw):
        return model.settled(model.view_of(block.log_values(draw), model.alpha), batch, LONG, 0)

    by_difference, with_v, without = [], [], []
    for number in range(100):
        draw = block.drawn(np.random.default_rng([global_random_seed, 9, number]))
        here = value(draw)
        ends = [
            value(moved_draw(block, draw.source, Dirichlet(block.concentration + s * eps * direction))) for s in (1, -1)
        ]
        by_difference.append((ends[0].value.sum() - ends[1].value.sum()) / (2 * eps))
        gradient = here.counts.T
        with_v.append(np.sum(direction * block.fisher(block.corrected(draw, (gradient,))[0])))
        without.append(np.sum(direction * block.fisher(gradient)))
    by_difference, with_v, without = map(np.array, (by_difference, with_v, without))
    # The uniform numbers are common: draw by draw the two agree.
    np.testing.assert_allclose(with_v, by_difference, rtol=2e-3, atol=2e-3 * np.abs(by_difference).mean())
    gap = without - with_v
    assert abs(gap.mean()) > 4.0 * gap.std() / np.sqrt(len(gap))


# ---- the engine's part
def test_natural_steps_of_svi_never_lower_the_bound(global_random_seed):
    data = small_corpus(np.random.default_rng(global_random_seed))
    model = model_of(alpha=np.full(K, 0.5), start=np.random.default_rng(global_random_seed).gamma(1.0, 1.0, (K, V)))
    model = model.replaced(visit=LONG, traits=replace(model.traits, warmup=Warmup()))
    problem = plan.problem(model, data, algorithms.SVI())
    state = plan.run(problem, first_state(problem, 0), 20, 0.0)
    assert state.repairs == 0 and np.all(np.diff(state.bounds) >= -1e-9)


@pytest.mark.parametrize("algorithm", algorithms.STRUCTURED)
def test_every_algorithm_gains(algorithm, global_random_seed):
    """From a random start, and the bound at the end is that of expectations at the q that is shown."""
    data = small_corpus(np.random.default_rng(global_random_seed))
    model = model_of(alpha=np.full(K, 0.5), start=np.random.default_rng(global_random_seed).gamma(1.0, 1.0, (K, V)))
    problem = plan.problem(model, data, algorithms.resolve(algorithm), batch_size=4)
    begun = plan.initialized(problem, first_state(problem, 0))
    state = plan.run(problem, first_state(problem, 0), 15, 0.0)
    assert state.bound > engine.exact_bound(problem, begun)
    there = engine.exact_bound(problem, state)
    assert state.bound == pytest.approx(there, rel=1e-2)


def test_views_are_what_the_algorithms_say(global_random_seed):
    """E log β, log E β with the bound at E log β, and log β of a draw, up to a factor per word."""
    rng = np.random.default_rng(global_random_seed)
    q, model = {"topics": Dirichlet(rng.gamma(1.0, 1.0, (K, V)) + 0.3)}, model_of()

    words = np.sort(rng.permutation(V)[: V - 1])
    X = sp.csr_matrix((np.ones(V - 1), words, [0, V - 1]), (1, V))

    def seen(name):
        view = GLOBALS[name].view(model, q, rng)
        return view, view.narrowed(model, X)[0]

    def logs(view):
        np.testing.assert_array_equal(view.place[words], np.arange(V - 1))
        return (np.log(view.topics) + view.offset[:, None]).T

    block = q["topics"]
    np.testing.assert_allclose(logs(seen("expected")[1]), block.moments[:, words])
    mean = seen("mean")[1]
    np.testing.assert_allclose(logs(mean), np.log(block.mean)[:, words])
    np.testing.assert_allclose(logs(mean.bounded), block.moments[:, words])
    view, drawn = seen("sampled")
    np.testing.assert_allclose(logs(drawn), np.log(view.draws["topics"].value)[:, words])


def test_a_gradient_is_that_of_documents_among_all_words(global_random_seed):
    """A batch that has some of the words moves these as if no others were there; of the others it says nothing."""
    rng = np.random.default_rng(global_random_seed)
    few, some = sp.csr_matrix(1.0 + rng.poisson(2.0, (6, 4))), np.array([1, 4, 5, 8], np.int32)
    wide = sp.csr_matrix((few.data, some[few.indices], few.indptr), (6, 9))
    logs, found = np.log(rng.dirichlet(np.ones(9), K)), []
    for X, own in ((wide, logs), (few, logs[:, some])):
        model, data = (
            LatentDirichlet(K, X.shape[1], alpha=np.full(K, 0.5), eta=np.ones(own.shape)),
            Table(X, np.zeros(6)),
        )
        view, widened = TopicLogs(partial(np.take, own, axis=1), np.full(K, 0.5)).narrowed(model, X)
        batch = model.batch(data, np.arange(6))
        terms = model.terms(view, batch, None, rng)
        found.append((terms.value, widened(model.pull_back(terms, batch))["topics"][0]))
    (value, gradient), (expected, of_few) = found
    np.testing.assert_array_equal(value, expected)
    np.testing.assert_array_equal(gradient[:, some], of_few)
    assert np.count_nonzero(gradient) == np.count_nonzero(of_few) and gradient.shape == (K, 9)


# ---- hyperparameters
@pytest.mark.parametrize("learns", ["auto", "symmetric"])
def test_slope_and_curvature_in_log_alpha(learns, global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    data, model = small_corpus(rng), model_of(learns_alpha=learns)
    size = K if learns == "auto" else 1
    topics, at = Dirichlet(rng.gamma(1.0, 1.0, (K, V)) + 0.3), rng.normal(-0.5, 0.3, size)
    batch = model.batch(data, np.arange(8))
    held = model.settled(model.view_of(topics.moments, np.exp(at) * np.ones(K)), batch, LONG, 0).local

    def look(log_alpha):
        """q(θ) = Dir(a) stays where it is while α moves."""
        alpha = np.exp(log_alpha) * np.ones(K)
        a = np.exp(at) * np.ones(K) + held
        elog = digamma(a) - digamma(a.sum(1, keepdims=True))
        value = 8 * (gammaln(alpha.sum()) - gammaln(alpha).sum()) + ((alpha - 1.0) * elog).sum()
        return value, model._alpha_slope(alpha, elog.sum(0), 8)

    _, (slope, bend) = look(at)
    for j, step in enumerate(1e-5 * np.eye(size)):
        high, low = look(at + step), look(at - step)
        assert slope[j] == pytest.approx((high[0] - low[0]) / 2e-5, rel=1e-5, abs=1e-4)
        np.testing.assert_allclose(bend[j], (high[1][0] - low[1][0]) / 2e-5, rtol=1e-5, atol=1e-4)


def test_eta_settles_where_the_divergence_is_least(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    model = model_of(learns_eta=True)
    q = {"topics": Dirichlet(rng.gamma(2.0, 1.0, (K, V)) + 0.3)}
    q["eta"] = model.begin(None, rng)["eta"]
    for _ in range(60):
        q["eta"] = q["eta"].moved(model.hyper["eta"].find(q)[0], 1.0)
    here, log_eta = q["topics"].kl(model.prior(q)["topics"]), q["eta"].value[0]
    for shift in (-0.05, 0.05):
        other = Dirichlet(np.full((K, V), np.exp(log_eta + shift)))
        assert q["topics"].kl(other) > here


def test_the_law_of_total_variance(global_random_seed):
    """Moments of θ from those of N are those of all assignments of topics."""
    topics, view, _ = document_of(np.random.default_rng(global_random_seed), [2, 1, 2])
    (mean, square, _), _, _ = enumerated(topics, view.alpha, [2, 1, 2])
    found = dirichlet_marginal(view.alpha, mean[None], square[None])
    total = view.alpha.sum() + 5.0
    first = (view.alpha + mean) / total
    # E θ² = E (a (a + 1)) / (total (total + 1)), a = α + N.
    a_square = np.square(view.alpha) + 2 * view.alpha * mean + square
    second = (a_square + view.alpha + mean) / (total * (total + 1.0))
    np.testing.assert_allclose(found[0][0], first)
    np.testing.assert_allclose(found[1][0], np.sqrt(second - np.square(first)))


@pytest.mark.costly
def test_corrected_counts_do_not_empty_topics_of_rare_words(global_random_seed):
    """Words by Zipf's law: with V n as it falls, 3.5 nats a word are lost, as rare words leave and do not return."""
    rng = np.random.default_rng(global_random_seed)
    topics = rng.gamma(0.3, 1.0, (10, 2000)) / np.arange(1, 2001)
    shares = rng.dirichlet(np.full(10, 0.1), 300) @ (topics / topics.sum(1, keepdims=True))
    X = sp.csr_matrix(np.stack([rng.multinomial(80, p) for p in shares]).astype(float))
    options = {"topic_word_prior": 0.01, "max_iter": 10, "batch_size": 60, "tol": 0.0, "random_state": 0}
    bounds = []
    for algorithm in ("svi", "ssvi"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = StructuredLDA(10, algorithm=algorithm, **options).fit(X)
        bounds.append(model.lower_bound_ / X.sum())
    assert bounds[1] > bounds[0] - 0.2
