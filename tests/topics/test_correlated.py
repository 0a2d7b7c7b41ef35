"""CorrelatedTopicModel as an estimator: scikit-learn's checks, streams, hostile input, files, tables."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy.optimize import linear_sum_assignment
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

import sksvi
from sksvi import CorrelatedTopicModel
from sksvi.callbacks import Checkpoint
from sksvi.datasets import make_ctm
from sksvi.estimators.completion import halved
from sksvi.models.data import Table
from sksvi.models.topics.loops.records import Effort
from sksvi.topics import _correlated as correlated
from sksvi.topics._encoding import with_short_indices

pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore:.*documents have no words:UserWarning"),
]

TEXTS = [
    "apple pear apple plum",
    "pear plum fig fig",
    "car train bus bus",
    "train car plane",
    "apple car",
    "bus fig pear",
]


@pytest.fixture(scope="module")
def corpus():
    return make_ctm(120, 40, n_components=3, n_words=40, random_state=0)


@pytest.fixture(scope="module")
def fitted(corpus):
    return CorrelatedTopicModel(3, max_iter=8, random_state=0).fit(corpus.data)


def small(**options):
    return CorrelatedTopicModel(**{"n_components": 3, "max_iter": 4, "random_state": 0, **options})


@parametrize_with_checks([CorrelatedTopicModel(2, bound=b, max_iter=3, random_state=0) for b in ("auto", "mean-field")])
def test_estimator_checks(estimator, check):
    check(estimator)


@pytest.mark.exhaustive
@parametrize_with_checks([CorrelatedTopicModel(2, bound=b, max_iter=3, random_state=0) for b in ("optimal", "simple")])
def test_estimator_checks_of_other_bounds(estimator, check):
    check(estimator)


def cosine(corpus, model):
    """Mean cosine of the topics with those of the truth that they match best."""
    unit = [part / np.linalg.norm(part, axis=1, keepdims=True) for part in (corpus.components, model.components_)]
    pairs = unit[0] @ unit[1].T
    return pairs[linear_sum_assignment(-pairs)].mean()


# ---- every combination runs
@pytest.mark.parametrize("covariance", ["full", "diag"])
@pytest.mark.parametrize("bound", ["optimal", "simple", "mean-field"])
@pytest.mark.parametrize("algorithm", ["mc-ssvi", "h-mc-ssvi", "s-dsvi", "cvi"])
def test_every_algorithm_and_bound(corpus, algorithm, bound, covariance):
    for batch_size in (None, 50):
        model = small(algorithm=algorithm, bound=bound, covariance=covariance, batch_size=batch_size).fit(corpus.data)
        assert model.lower_bounds_[-1] > model.lower_bounds_[0]
        np.testing.assert_allclose(model.components_.sum(1), 1.0)
        np.testing.assert_allclose(model.transform(corpus.data[:5]).sum(1), 1.0)


@pytest.mark.parametrize("topics", ["dirichlet", "point", "sampled", "adagrad"])
@pytest.mark.parametrize("algorithm", ["mc-ssvi", "s-dsvi"])
def test_every_kind_of_topics(corpus, topics, algorithm):
    model = small(topics=topics, algorithm=algorithm, max_iter=10).fit(corpus.data)
    assert model.lower_bounds_[-1] > model.lower_bounds_[0]
    first = small(topics=topics, algorithm=algorithm, max_iter=1).fit(corpus.data)
    assert cosine(corpus, model) > max(0.99, cosine(corpus, first))


@pytest.mark.parametrize("expectation", ["auto", "quadrature", "monte-carlo"])
def test_every_expectation(corpus, expectation):
    model = small(expectation=expectation).fit(corpus.data)
    assert np.isfinite(model.lower_bound_)


# ---- what does not matter, and what does
@pytest.mark.parametrize("options", [{}, {"batch_size": 50}, {"topics": "sampled", "covariance": "full"}], ids=str)
def test_threads_do_not_change_a_bit(corpus, options, small_chunks_of_documents):
    one, two = (small(n_jobs=n, **options).fit(corpus.data) for n in (1, 2))
    np.testing.assert_array_equal(one.components_, two.components_)
    np.testing.assert_array_equal(one.topic_covariance_, two.topic_covariance_)
    np.testing.assert_array_equal(one.transform(corpus.data), two.transform(corpus.data))


def test_the_same_seed_gives_the_same_fit(corpus):
    one, two = small().fit(corpus.data), small().fit(corpus.data)
    np.testing.assert_array_equal(one.components_, two.components_)


def test_containers_agree(corpus, fitted):
    dense = corpus.data.toarray()
    frame = pd.DataFrame(dense, columns=[f"x{j}" for j in range(dense.shape[1])])
    for X in (dense, sp.coo_matrix(dense), sp.csc_array(dense), frame):
        other = CorrelatedTopicModel(3, max_iter=8, random_state=0).fit(X)
        np.testing.assert_allclose(other.components_, fitted.components_, rtol=1e-10)


def test_indices_are_of_32_bits_where_they_are_enough(corpus, fitted):
    """Loops are compiled for one width, whatever a vectorizer or a concatenation left."""
    X = sp.csr_matrix(corpus.data)
    X.indices, X.indptr = X.indices.astype(np.int64), X.indptr.astype(np.int64)
    found = with_short_indices(X.copy())
    assert found.indices.dtype == found.indptr.dtype == np.int32 and (found != corpus.data).nnz == 0
    np.testing.assert_array_equal(fitted.transform(X), fitted.transform(corpus.data))
    assert X.indices.dtype == X.indptr.dtype == np.int64


def test_documents_do_not_depend_on_each_other(corpus, fitted):
    whole, std = fitted.transform(corpus.data, return_std=True)
    order = np.random.default_rng(0).permutation(corpus.data.shape[0])
    np.testing.assert_allclose(fitted.transform(corpus.data[order]), whole[order], rtol=1e-12)
    np.testing.assert_allclose(fitted.transform(corpus.data[3:4]), whole[3:4], rtol=1e-12)
    assert std.shape == whole.shape and np.all(std > 0)


# ---- streams
def test_partial_fit_learns(corpus):
    model = small()
    scores = []
    for _ in range(4):
        for part in range(0, 120, 40):
            model.partial_fit(corpus.data[part : part + 40])
        scores.append(cosine(corpus, model))
    assert scores[-1] > max(0.99, scores[0])
    assert model.n_samples_seen_ == 480


def test_an_iterator_of_chunks_is_read_once(corpus):
    parts = [corpus.data[part : part + 40] for part in range(0, 120, 40)]
    whole, chunks = small(), small()
    for part in parts:
        whole.partial_fit(part)
    chunks.fit(iter(parts))
    np.testing.assert_array_equal(chunks.components_, whole.components_)
    with pytest.raises(ValueError, match="at least one"):
        small().fit(iter([]))


def test_a_failed_chunk_changes_nothing(corpus):
    model = small().partial_fit(corpus.data)
    before = model.components_.copy()
    with pytest.raises(ValueError):
        model.partial_fit(np.full((3, 50), np.nan))
    assert model.n_features_in_ == 40
    np.testing.assert_array_equal(model.components_, before)


def test_warm_start_goes_on(corpus):
    model = small(warm_start=True, tol=0.0).fit(corpus.data)
    bound = model.lower_bound_
    model.fit(corpus.data)
    assert model.n_iter_ == 8 and model.lower_bound_ > bound


# ---- hostile input
def test_impossible_counts_are_refused(corpus):
    X = corpus.data.toarray().astype(float)
    for wrong, words in ((-1.0, "Negative"), (np.nan, "NaN"), (np.inf, "infinity")):
        Y = X.copy()
        Y[3, 2] = wrong
        with pytest.raises(ValueError, match=words):
            small().fit(Y)


def test_fractional_counts_are_weights(corpus):
    X = corpus.data.toarray()
    half = small().fit(0.5 * X)
    assert np.isfinite(half.lower_bound_) and half.lower_bound_ > small().fit(X).lower_bound_


def test_empty_documents_get_the_prior_and_a_warning(corpus):
    X = corpus.data.toarray()
    X[5] = 0
    with pytest.warns(UserWarning, match="1 of 120 documents have no words"):
        model = small().fit(X)
    theta = model.transform(np.zeros((2, 40)))
    np.testing.assert_allclose(theta[0], theta[1])
    np.testing.assert_allclose(theta.sum(1), 1.0)
    with pytest.raises(ValueError, match="no words"):
        model.score(np.zeros((2, 40)))


@pytest.mark.filterwarnings("ignore:one of 2 topics has all the words:UserWarning")
@pytest.mark.parametrize("options", [{}, {"covariance": "full"}, {"bound": "simple"}, {"algorithm": "s-dsvi"}], ids=str)
def test_odd_shapes(corpus, options):
    X = corpus.data.toarray()
    silent = X.copy()
    silent[:, 7] = 0
    for data, k in ((X[:1], 2), (X, 1), (X[:3], 8), (silent, 3), (X[:, :1], 2)):
        model = small(n_components=k, max_iter=6, **options).fit(data)
        assert np.all(np.isfinite(model.transform(data)))
        assert model.topic_covariance_.shape == (k - 1, k - 1)
        assert model.topic_correlation_.shape == (k, k)
        np.testing.assert_allclose(model.components_.sum(1), 1.0)


def test_errors_name_the_parameter(corpus):
    X = corpus.data
    for options, words in (
        ({"topic_word_prior": 0}, "topic_word_prior"),
        ({"prior_words": {5: ["a"]}}, "topic 5"),
        ({"prior_words": {0: ["a"]}}, "'a'"),
        ({"prior_words": {0: {1: -1.0}}}, ">= 0"),
        ({"expectation": "gauss-hermite"}, "gauss-hermite"),
        ({"algorithm": "fp"}, "algorithm"),
        ({"topics": "none"}, "topics"),
    ):
        with pytest.raises(ValueError, match=words):
            small(**options).fit(X)
    with pytest.raises(NotFittedError):
        small().transform(X)
    with pytest.raises(ValueError, match="same ones"):
        small().fit(X).log_predictive_density(X, X[:3])


# ---- results
def test_scores(corpus, fitted):
    observed, held = halved(corpus.data.astype(float))
    density = fitted.log_predictive_density(observed, held)
    assert fitted.score(corpus.data) == pytest.approx(density.sum() / held.sum())
    assert fitted.perplexity(corpus.data) == pytest.approx(np.exp(-fitted.score(corpus.data)))


@pytest.mark.costly
def test_score_beats_word_frequencies():
    # Topics of many words: a topic whose few words are all held out would seem absent.
    X = make_ctm(300, 300, n_components=3, n_words=150, topic_concentration=0.3, random_state=0).data
    model = CorrelatedTopicModel(3, random_state=0).fit(X)
    held = halved(X.astype(float))[1]
    unigram = np.asarray(X.sum(0), float).ravel()
    assert model.score(X) > held.data @ np.log(unigram[held.indices] / unigram.sum()) / held.sum()


def test_halves_depend_on_nothing_but_the_row(corpus):
    observed, held = halved(corpus.data)
    assert (observed + held != corpus.data).nnz == 0 and observed.multiply(held).nnz == 0
    alone = halved(corpus.data[7:8])[0]
    assert (alone != observed[7:8]).nnz == 0
    distinct = np.diff(corpus.data.indptr)
    np.testing.assert_array_equal(np.diff(observed.indptr), distinct // 2)


def test_tables_have_the_users_names():
    vectorizer = CountVectorizer()
    X = vectorizer.fit_transform(TEXTS)
    model = CorrelatedTopicModel(2, max_iter=5, random_state=0).fit(X)
    words = model.top_words(vectorizer.get_feature_names_out(), n=3)
    assert words.shape == (2, 3) and set(words.to_numpy().ravel()) <= set(vectorizer.get_feature_names_out())
    assert list(words.index) == ["correlatedtopicmodel0", "correlatedtopicmodel1"]
    table = model.summary(n=4)
    assert list(table.columns) == ["mean", "std", "lower", "upper"] and len(table) == 8
    assert np.all((table["lower"] <= table["mean"]) & (table["mean"] <= table["upper"]))
    with pytest.raises(ValueError, match="feature_names"):
        model.top_words(["a"])


def test_seed_words_draw_their_topic():
    X = CountVectorizer().fit(TEXTS)
    frame = pd.DataFrame(X.transform(TEXTS * 10).toarray(), columns=X.get_feature_names_out())
    seeds = {1: ["apple", "pear"], 0: {"bus": 30.0}}
    model = CorrelatedTopicModel(2, prior_words=seeds, max_iter=20, random_state=0).fit(frame)
    apple, bus = (list(frame.columns).index(word) for word in ("apple", "bus"))
    assert model.components_[1, apple] > model.components_[0, apple]
    assert model.components_[0, bus] > model.components_[1, bus]


def test_pipeline_search_and_frames():
    search = GridSearchCV(
        make_pipeline(CountVectorizer(), CorrelatedTopicModel(max_iter=3, random_state=0)),
        {"correlatedtopicmodel__n_components": [1, 2]},
        cv=2,
        error_score="raise",
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        search.fit(TEXTS * 3)
    assert np.isfinite(search.best_score_)
    model = CorrelatedTopicModel(2, max_iter=3, random_state=0).set_output(transform="pandas")
    table = model.fit_transform(CountVectorizer().fit_transform(TEXTS))
    assert list(table.columns) == list(model.get_feature_names_out())


def test_files_and_clones(corpus, fitted, tmp_path):
    fitted.save(tmp_path / "topics.sksvi")
    loaded = sksvi.load(tmp_path / "topics.sksvi")
    np.testing.assert_array_equal(loaded.transform(corpus.data), fitted.transform(corpus.data))
    for model in (loaded, fitted):
        model.set_params(warm_start=True)
    np.testing.assert_array_equal(
        loaded.partial_fit(corpus.data).components_, clone(fitted).set_params(max_iter=8).fit(corpus.data)
        .partial_fit(corpus.data).components_
    )  # fmt: skip
    fitted.set_params(warm_start=False)


# ---- what algorithms do
@pytest.mark.parametrize("algorithm", ["mc-ssvi", "h-mc-ssvi", "s-dsvi", "cvi"])
@pytest.mark.parametrize("batch_size", [None, 120])
def test_adagrad_topics_take_adagrads_steps(corpus, algorithm, batch_size, monkeypatch):
    """AdaGrad starts with equally long steps in all logistic coordinates: but for the norm only their signs differ.

    From random topics, where no gradient vanishes.
    """

    def random_counts(data, word_prior, seed, threads=1):
        shares = np.random.default_rng([seed, 3]).exponential(size=word_prior.shape)
        return np.asarray(data.X.sum(0)).ravel() / len(word_prior) * shares

    monkeypatch.setattr(correlated, "first_counts", random_counts)
    options = {"topics": "adagrad", "algorithm": algorithm, "batch_size": batch_size}
    model = small(max_iter=1, **options).fit(corpus.data)
    documents = Table(sp.csr_matrix(corpus.data), np.zeros(corpus.data.shape[0]))
    start = random_counts(documents, model._word_prior(), _seed(model)) + model._word_prior()
    step = np.log(model.components_) - np.log(start / start.sum(1, keepdims=True))
    for row in step:
        above = row > row.mean()
        assert above.any() and not above.all()
        np.testing.assert_allclose(row[above], row[above][0], atol=5e-3)
        np.testing.assert_allclose(row[~above], row[~above][0], atol=5e-3)


def _seed(model):
    return int(np.random.RandomState(model.random_state).randint(np.iinfo(np.int32).max))


@pytest.mark.parametrize("bound", ["mean-field", "optimal"])
@pytest.mark.parametrize("covariance", ["full", "diag"])
def test_messages_find_the_same_posterior(corpus, covariance, bound):
    """Message passing and Newton's steps end at the same posteriors of documents."""
    fitted = small(bound=bound, covariance=covariance, algorithm="cvi").fit(corpus.data)
    model = fitted._model(40)
    view, rows = model.view(fitted._globals, None).narrowed(model, corpus.data)[0], np.arange(60)
    found, effort = [], Effort(20, 100, 1e-8)
    for rule in ("messages", "natural"):
        batch = model.replaced(rule=rule).batch(Table(corpus.data[:60].astype(float), np.zeros(60)), rows)
        batch.indices = view.place[batch.indices]
        found.append(model.settled(view, batch, model.nodes, batch.first_node, rule, effort, False, True))
    # With four nodes the fixed point of the covariance is not quite where the mean over nodes is largest.
    np.testing.assert_allclose(found[0].value, found[1].value, atol=0.4)
    assert np.median(np.abs(found[0].proportions - found[1].proportions)) < 1e-3


def test_projections_are_told(corpus):
    """The simple bound's Hessians are indefinite: they are projected, and the history says so."""
    for options in ({"covariance": "full"}, {"covariance": "diag", "batch_size": 50}):
        model = small(bound="simple", **options).fit(corpus.data)
        assert model.history_["repairs"].sum() > 0


# ---- when a fit is done
@pytest.mark.costly
@pytest.mark.filterwarnings("error::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    "options",
    [*(pytest.param(more, marks=pytest.mark.exhaustive) for more in ({}, {"algorithm": "cvi"})), {"topics": "point"}],
    ids=str,
)
def test_a_default_fit_converges_and_has_little_left_to_gain(options, global_random_seed):
    """Twice as many passes bring no more than what `tol` says is too little."""
    X = make_ctm(500, 100, n_components=5, n_words=60, random_state=global_random_seed).data
    model = CorrelatedTopicModel(5, random_state=0, **options).fit(X)
    assert model.converged_
    longer = clone(model).set_params(tol=0.0, max_iter=2 * model.n_iter_)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        longer.fit(X)
    assert longer.lower_bound_ - model.lower_bound_ < 10 * model.tol * abs(model.lower_bound_)


def test_forming_passes_settle_nothing(corpus):
    """No check and no average reaches back to them: the fit goes on, however little they gain."""
    few = small(batch_size=50, max_iter=12, tol=1e-2).fit(corpus.data)
    assert not few.converged_ and few.state_.progress.checks == []
    done = small(batch_size=50, max_iter=60, tol=1e-2).fit(corpus.data)
    assert done.converged_ and done.n_iter_ == 21 and done.state_.progress.since == few.n_steps_


def test_a_fit_that_stops_short_says_so(corpus):
    with pytest.warns(ConvergenceWarning, match="max_iter=5"):
        assert not small(batch_size=50, max_iter=5).fit(corpus.data).converged_


class Cut:
    """Ends a fit after some passes."""

    def __init__(self, after):
        self.after = after

    def setup(self, estimator, context):
        pass

    def teardown(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context, **kwargs):
        pass

    def on_fit_task_end(self, estimator, context, **kwargs):
        if context.task_name == "pass" and context.task_id + 1 == self.after:
            raise KeyboardInterrupt


@pytest.mark.costly
@pytest.mark.parametrize("after", [11, 12, 13])
def test_a_fit_cut_off_at_the_end_of_the_forming_passes_goes_on_to_the_same_bits(corpus, after, tmp_path):
    path, options = tmp_path / "fit.sksvi", {"batch_size": 50, "max_iter": 18}
    cut = small(**options).set_callbacks(Checkpoint(path), Cut(after))
    with pytest.raises(KeyboardInterrupt):
        cut.fit(corpus.data)
    on = sksvi.load(path).set_params(warm_start=True).fit(corpus.data)
    whole = small(**options).fit(corpus.data)
    np.testing.assert_array_equal(on.components_, whole.components_)
    assert on.state_.progress.checks == whole.state_.progress.checks and len(whole.state_.progress.checks) == 2
