"""StructuredLDA as an estimator: scikit-learn's checks, what does not matter, streams, hostile input, intervals."""

from __future__ import annotations

import itertools
from time import process_time

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy.optimize import linear_sum_assignment
from scipy.special import gammaln, polygamma
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

import sksvi
from sksvi import StructuredLDA
from sksvi.datasets import make_lda
from sksvi.estimators.completion import halved
from sksvi.models.topics.lda import LOCAL_STEPS
from sksvi.topics._structured import ALGORITHMS
from tests.cases import best_of

pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore:.*documents have no words:UserWarning"),
    pytest.mark.filterwarnings("ignore:.*rounds each up with the probability:UserWarning"),
]
SIZES = {"n": 240, "words": 60, "topics": 4}


class Corpus:
    """Documents of the model itself."""

    def __init__(self, seed, n=240, words=60, topics=4, length=80, own=False):
        rng = np.random.default_rng([seed, 16])
        self.components = rng.dirichlet(np.full(words, 0.1), topics)
        if own:  # words of a block for each topic
            self.components = np.kron(np.eye(topics), np.ones(words // topics)) * rng.gamma(0.4, 1.0, words)
            self.components /= self.components.sum(1, keepdims=True)
        self.theta = rng.dirichlet(np.full(topics, 0.3), n)
        shares = self.theta @ self.components
        self.data = sp.csr_matrix(np.array([rng.multinomial(length, row) for row in shares]))

    def matched(self, model):
        """Places of the model's topics, in the order of the truth, and the mean cosine of the pairs."""
        unit = [part / np.linalg.norm(part, axis=1, keepdims=True) for part in (self.components, model.components_)]
        pairs = unit[0] @ unit[1].T
        rows = linear_sum_assignment(-pairs)
        return rows[1], pairs[rows].mean()


@pytest.fixture(scope="module")
def corpus(global_random_seed):
    return Corpus(global_random_seed)


@pytest.fixture(scope="module")
def apart(global_random_seed):
    """Documents whose topics have fifteen words each of their own, and the start of three that leads to the best bound.

    Learned priors are those of the topics that were found, and an optimum may mix two.
    """
    corpus = Corpus(global_random_seed, own=True)
    bounds = [small(batch_size=None, random_state=start).fit(corpus.data).lower_bound_ for start in range(3)]
    return corpus, int(np.argmax(bounds))


def small(**options):
    return StructuredLDA(**{"n_components": 4, "max_iter": 8, "random_state": 0, **options})


@parametrize_with_checks([StructuredLDA(2, local_step=step, max_iter=3, random_state=0) for step in LOCAL_STEPS])
def test_estimator_checks(estimator, check):
    check(estimator)


@pytest.mark.exhaustive
@parametrize_with_checks(
    [StructuredLDA(2, algorithm=algorithm, max_iter=3, random_state=0) for algorithm in ("svi", "ssvi-a", "ssvi")]
)
def test_estimator_checks_of_other_fits(estimator, check):
    check(estimator)


# ---- every combination
@pytest.mark.parametrize("batch_size", [pytest.param(None, marks=pytest.mark.exhaustive), 60])
@pytest.mark.parametrize("local_step", LOCAL_STEPS)
@pytest.mark.parametrize("algorithm", sorted(ALGORITHMS))
def test_every_algorithm_and_local_step_finds_the_topics(apart, algorithm, local_step, batch_size):
    corpus, start = apart
    options = {"algorithm": algorithm, "local_step": local_step, "batch_size": batch_size, "random_state": start}
    model = small(**options, max_iter=20).fit(corpus.data)
    assert corpus.matched(model)[1] > 0.95
    np.testing.assert_allclose(model.components_.sum(1), 1.0)
    np.testing.assert_allclose(model.transform(corpus.data[:5]).sum(1), 1.0)


@pytest.mark.costly
@pytest.mark.parametrize("key", [(19, 1), (20, 3)])
def test_a_start_that_few_documents_cannot_tell_is_chosen_by_the_bound(key):
    """Predictions of 60 documents were for the even start by 0.1 and 0.6 standard errors, the bounds against it."""
    options = {"n_components": 4, "n_words": 150, "doc_topic_prior": 0.5}
    corpus = make_lda(300, 200, **options, random_state=int(np.random.default_rng(key).integers(2**31)))
    model, other = (
        StructuredLDA(4, doc_topic_prior="symmetric", random_state=start).fit(corpus.data) for start in range(2)
    )
    assert model.lower_bound_ == pytest.approx(other.lower_bound_, abs=50.0)  # 2,899 and 1,903 below it


@pytest.mark.costly
@pytest.mark.parametrize("learned", ["auto", pytest.param("symmetric", marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize(("local_step", "share"), [("mean-field", 0.61), ("cvb0", 0.83), ("gibbs", 0.75)])
def test_learned_priors_are_near_the_truth(apart, learned, local_step, share):
    """α of 0.3, and one number where one was asked for; η of 0.1."""
    corpus, start = apart
    options = {"local_step": local_step, "max_iter": 60, "tol": 0.0, "batch_size": None, "random_state": start}
    options["uncertainty"] = "variational"
    model = small(doc_topic_prior=learned, topic_word_prior="auto", **options).fit(corpus.data)
    # Topics at their mean fit the words too well, which takes a quarter off α, and mean field takes more: shares are
    # means over 30 corpora. Four standard errors of the logarithm, were each document's θ seen; of words alone those of
    # one topic are twice that (0.125 for 0.065).
    error = 4.0 / (0.3 * np.sqrt(240 * (polygamma(1, 0.3) - polygamma(1, 1.2))))
    found = np.log(model.doc_topic_prior_ / (share * 0.3))
    assert np.all(np.abs(found) < (error if learned == "symmetric" else 2.0 * error))
    assert (np.ptp(found) == 0.0) == (learned == "symmetric")
    assert 0.05 < model.topic_word_prior_ < 0.3
    if local_step == "mean-field":
        assert model.lower_bound_ > small(**options).fit(corpus.data).lower_bound_


@pytest.mark.costly
@pytest.mark.parametrize("local_step", LOCAL_STEPS)
def test_a_small_alpha_is_learned_from_few_words(local_step, global_random_seed):
    """Thirty words of one or two topics: ψ at the mean of their counts made 0.13 of 0.05 under CVB0."""
    options = {"n_components": 10, "n_words": 30, "doc_topic_prior": 0.05}
    corpus = make_lda(500, 200, **options, random_state=global_random_seed)
    options = {"max_iter": 20, "tol": 0.0, "batch_size": None, "random_state": global_random_seed}
    options |= {"doc_topic_prior": "symmetric", "local_step": local_step, "uncertainty": "variational"}
    model = StructuredLDA(10, **options).fit(corpus.data)
    assert 0.05 * 0.9 < model.doc_topic_prior_[0] < 0.05 * 1.55  # 1.03 to 1.36, deviations of 0.04


@pytest.mark.exhaustive
def test_topics_keep_their_alpha_until_they_have_formed(global_random_seed):
    """Those that no document had taken up in the first batches lost it, and some hundred nats of the bound with it."""
    corpus = Corpus(global_random_seed, n=1000, words=200, topics=20)
    options = {"batch_size": 50, "max_iter": 8}
    learned, given = (
        best_of(lambda start, a=a: StructuredLDA(20, doc_topic_prior=a, random_state=start, **options).fit(corpus.data))
        for a in ("auto", None)
    )
    assert learned.doc_topic_prior_.min() > 0.06  # at least 0.106 where it waits, 0.012 to 0.031 where it does not
    # Optima of their own differ by 25 nats from start to start. Without waiting 400 to 2,600 nats are lost.
    assert learned.lower_bound_ > given.lower_bound_ - 4.0 * 25.0


# ---- what does not matter, and what does
@pytest.mark.costly
@pytest.mark.parametrize("local_step", LOCAL_STEPS)
@pytest.mark.parametrize("algorithm", ["map", "ssvi"])
def test_threads_do_not_change_a_bit(corpus, algorithm, local_step, small_chunks_of_documents):
    options = {"algorithm": algorithm, "local_step": local_step, "batch_size": 60, "max_iter": 3}
    one, two = (small(n_jobs=n, **options).fit(corpus.data) for n in (1, 2))
    np.testing.assert_array_equal(one.components_, two.components_)
    for found in zip(one.transform(corpus.data, True), two.transform(corpus.data, True), strict=True):
        np.testing.assert_array_equal(*found)


def test_containers_agree(corpus):
    dense = corpus.data.toarray()
    frame = pd.DataFrame(dense, columns=[f"x{j}" for j in range(dense.shape[1])])
    models = [small().fit(X) for X in (dense, corpus.data, sp.coo_matrix(dense), frame)]
    for other in models[1:]:
        np.testing.assert_allclose(other.components_, models[0].components_, rtol=1e-10)


@pytest.mark.costly
def test_32_bit_counts_make_32_bit_local_steps_of_nearly_the_same_topics(corpus):
    wide, narrow = small().fit(corpus.data.astype(np.float64)), small().fit(corpus.data.astype(np.float32))
    np.testing.assert_allclose(narrow.components_, wide.components_, atol=1e-4)
    assert narrow._model(60).dtype == np.float32 and wide._model(60).dtype == np.float64
    assert narrow.components_.dtype == np.float64


def test_documents_do_not_depend_on_each_other(corpus):
    model = small().fit(corpus.data)
    whole, std = model.transform(corpus.data, return_std=True)
    order = np.random.default_rng(0).permutation(corpus.data.shape[0])
    for found, wanted in zip(model.transform(corpus.data[order], return_std=True), (whole, std), strict=True):
        np.testing.assert_allclose(found, wanted[order], rtol=1e-10)


# ---- streams
def test_partial_fit_learns_and_new_words_join(corpus):
    names = np.array([f"word{j}" for j in range(60)])
    frame = pd.DataFrame(corpus.data.toarray(), columns=names)

    def streamed(seed):
        model = small(random_state=seed)
        for _ in range(3):
            for first in range(0, 240, 80):
                chunk = frame.iloc[first : first + 80]
                model.partial_fit(chunk[names[:50]] if not hasattr(model, "state_") else chunk)
        return model

    model = best_of(streamed)
    assert model.n_samples_seen_ == 720 and list(model.feature_names_in_) == list(names)
    assert corpus.matched(model)[1] > 0.9


def test_a_fit_goes_on(corpus, tmp_path):
    model = small(warm_start=True, tol=0.0).fit(corpus.data)
    before = model.lower_bound_
    model.save(tmp_path / "topics.sksvi")
    loaded = sksvi.load(tmp_path / "topics.sksvi")
    for other in (model, loaded):
        other.fit(corpus.data)
    assert model.n_iter_ == 16 and model.lower_bound_ > before
    np.testing.assert_array_equal(model.components_, loaded.components_)


# ---- hostile input
@pytest.mark.costly
@pytest.mark.parametrize("local_step", LOCAL_STEPS)
def test_odd_shapes(corpus, local_step):
    """Empty documents, one word, one topic, columns of zeros, more topics than documents, counts of 1e9 and more."""
    X = corpus.data.toarray().astype(float)
    silent, empty, huge = X.copy(), X.copy(), X[:6].copy()
    silent[:, 7], empty[5] = 0, 0
    for data, k in (
        (X[:1], 2),
        (X, 1),
        (X[:3], 8),
        (silent, 3),
        (X[:, :1], 2),
        (empty, 3),
        (1e9 * huge, 2),
        (1e15 * huge, 4),
        (1e60 * huge, 4),
    ):
        model = small(n_components=k, max_iter=4, local_step=local_step).fit(data)
        mean, std = model.transform(data[:4], return_std=True)
        assert np.all(np.isfinite(mean)) and np.all(np.isfinite(std)) and np.isfinite(model.lower_bound_)
        np.testing.assert_allclose(model.components_.sum(1), 1.0)


@pytest.mark.costly
def test_gibbs_draws_many_words_of_a_cell_together(corpus):
    """The work is that of the cells: words by the billion took a minute, more were refused; the topics are found."""
    started = process_time()
    model = best_of(lambda seed: small(local_step="gibbs", random_state=seed).fit(1e8 * corpus.data))
    assert process_time() - started < 20.0 and corpus.matched(model)[1] > 0.9
    assert np.all(np.isfinite(model.transform(1e15 * corpus.data, return_std=True)))


@pytest.mark.costly
def test_fractions_weigh_words_and_gibbs_says_what_it_does_with_them(corpus):
    half = 0.5 * corpus.data.astype(float)
    for local_step in ("mean-field", "cvb0"):
        options = {"local_step": local_step, "max_iter": 20}
        model = best_of(lambda seed, options=options: small(**options, random_state=seed).fit(half))
        assert corpus.matched(model)[1] > 0.9
    with pytest.warns(UserWarning, match="rounds each up with the probability"):
        small(local_step="gibbs").fit(half)
    with pytest.warns(UserWarning, match="sampler of deviations and intervals rounds each up"):
        model.transform(half[:3], return_std=True)
    with pytest.warns(UserWarning, match="sampler of deviations and intervals rounds each up"):
        model.proportion_interval(half[:3])


def test_errors_name_the_parameter(corpus):
    for options, words in (
        ({"doc_topic_prior": -1.0}, "doc_topic_prior"),
        ({"doc_topic_prior": [0.1, 0.2]}, "doc_topic_prior.*4 of them"),
        ({"doc_topic_prior": "learned"}, "doc_topic_prior"),
        ({"topic_word_prior": 0.0}, "topic_word_prior"),
        ({"topic_word_prior": "auto", "prior_words": {0: [1]}}, "prior_words"),
        ({"prior_words": {9: [1]}}, "topic 9"),
        ({"local_step": "em"}, "local_step"),
        ({"algorithm": "fp"}, "algorithm"),
    ):
        with pytest.raises(ValueError, match=words):
            small(**options).fit(corpus.data)
    model = small(warm_start=True).fit(corpus.data)
    with pytest.raises(ValueError, match="doc_topic_prior"):
        model.set_params(doc_topic_prior="auto").fit(corpus.data)


# ---- results
def test_scores_and_tables(corpus):
    vectorizer = CountVectorizer()
    texts = ["apple pear apple plum", "pear plum fig", "car train bus", "train car plane", "apple car", "bus fig"] * 5
    model = make_pipeline(vectorizer, small(n_components=2)).fit(texts)[-1]
    words = model.top_words(vectorizer.get_feature_names_out(), n=3)
    assert words.shape == (2, 3) and list(words.index) == ["structuredlda0", "structuredlda1"]
    table = model.summary(n=4)
    assert np.all((table["lower"] <= table["mean"]) & (table["mean"] <= table["upper"]))
    model = small(max_iter=20).fit(corpus.data)
    observed, held = halved(corpus.data.astype(float))
    density = model.log_predictive_density(observed, held)
    assert model.score(corpus.data) == pytest.approx(density.sum() / held.sum())
    assert model.perplexity(corpus.data) == pytest.approx(np.exp(-model.score(corpus.data)))
    assert model.topic_prevalence_.sum() == pytest.approx(1.0)


@pytest.mark.costly
def test_intervals_of_proportions_hold_the_truth(global_random_seed):
    """90 % intervals given the topics: four standard errors; those of mean field's Dirichlet hold it less often."""
    corpus = Corpus(global_random_seed, n=800, topics=3)
    model = small(n_components=3, doc_topic_prior="symmetric", max_iter=30, local_step="gibbs").fit(corpus.data)
    place, near = corpus.matched(model)
    assert near > 0.97
    fresh = Corpus(global_random_seed, n=800, topics=3)
    interval = model.proportion_interval(fresh.data)[:, place]
    held = (interval[..., 0] <= fresh.theta) & (fresh.theta <= interval[..., 1])
    # Topics are at their posterior means here: 2 % are theirs.
    assert 0.85 - 4 * np.sqrt(0.09 / 2400) < held.mean() < 0.96
    mean, std = model.transform(fresh.data, return_std=True)
    narrow = np.sqrt(mean * (1 - mean) / (model.doc_topic_prior_.sum() + 81.0))
    assert np.mean(std) > 1.02 * np.mean(narrow)


def test_topics_that_go_together_are_seen_in_the_documents(corpus):
    """Correlations of the centred log proportions of the documents of the fit; a graph draws them."""
    from sksvi import TopicGraphDisplay

    model = small(max_iter=20).fit(corpus.data)
    logs = np.log(0.1 + model.state_.locals.values)
    found = model.topic_correlation_
    np.testing.assert_allclose(found, np.corrcoef((logs - logs.mean(1, keepdims=True)).T))
    shown = np.sum(model.topic_prevalence_ > 0)
    assert len(TopicGraphDisplay.from_estimator(model).texts_) == shown
    with pytest.raises(AttributeError, match="topic_correlation_"):
        _ = small().partial_fit(corpus.data).topic_correlation_


def test_the_spread_of_a_short_document_is_not_that_of_few_draws(global_random_seed):
    """Five words: all assignments of topics are summed over; 40 draws of them would be off by a tenth."""
    corpus = make_lda(200, 40, n_components=3, random_state=0)
    model = small(n_components=3, doc_topic_prior=0.3, random_state=0).fit(corpus.data)
    words = np.random.default_rng(global_random_seed).integers(0, 40, 5)
    x = np.bincount(words, minlength=40)[None]
    shares = total = 0.0
    for z in itertools.product(range(3), repeat=5):
        counts = 0.3 + np.bincount(z, minlength=3)
        weights = model._draws.topics[:, list(z), words].prod(1, dtype=float) * np.exp(np.sum(gammaln(counts)))
        share = counts / counts.sum()
        shares = shares + np.multiply.outer(weights, [share, share * (counts + 1.0) / (counts.sum() + 1.0)])
        total += weights
    first, second = np.mean(shares / total[:, None, None], 0)
    found = model.transform(x, return_std=True)[1][0]
    np.testing.assert_allclose(found, np.sqrt(second - np.square(first)), atol=0.05)
    low, high = model.proportion_interval(x)[0].T
    assert np.all(low < first) and np.all(first < high)
