"""Words by name: any order, missing words, new ones; topics that no word supports."""

from __future__ import annotations

import dataclasses
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.feature_extraction.text import CountVectorizer

import sksvi
from sksvi import CorrelatedTopicModel, StructuredLDA
from sksvi.datasets import make_ctm, make_lda
from sksvi.topics._words import ORDERS, c_v, npmi, overlaps, pointwise_information

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

NAMES = np.array([f"word {j:02d}" for j in range(40)], dtype=object)
COUNTS = make_ctm(120, 40, n_components=3, n_words=40, random_state=0).data.toarray()
FRAME = pd.DataFrame(COUNTS, columns=NAMES)
#: Ways to say which column is which word.
WAYS = {
    "frame": lambda counts, names: (pd.DataFrame(counts, columns=names), {}),
    "names": lambda counts, names: (sp.csr_matrix(counts), {"feature_names": names}),
}


def small(**options):
    return CorrelatedTopicModel(**{"n_components": 3, "max_iter": 4, "random_state": 0, **options})


def order(seed):
    return np.random.default_rng(seed).permutation(len(NAMES))


@pytest.fixture(params=WAYS)
def given(request):
    return WAYS[request.param]


@pytest.fixture(scope="module")
def fitted():
    return small().fit(FRAME)


# ---- any order
@pytest.mark.parametrize("call", ["transform", "score", "perplexity", "importance_score"])
def test_words_come_in_any_order(fitted, given, call, global_random_seed):
    turned = order(global_random_seed)
    X, more = given(COUNTS[:, turned], NAMES[turned])
    np.testing.assert_array_equal(getattr(fitted, call)(X, **more), getattr(fitted, call)(FRAME))


def test_densities_align_both_halves(fitted, given, global_random_seed):
    turned = order(global_random_seed)
    straight = [pd.DataFrame(part, columns=NAMES) for part in (COUNTS // 2, COUNTS - COUNTS // 2)]
    (X, more), (held, _) = (given(part[NAMES].to_numpy()[:, turned], NAMES[turned]) for part in straight)
    np.testing.assert_array_equal(
        fitted.log_predictive_density(X, held, **more), fitted.log_predictive_density(*straight)
    )


def test_a_stream_in_another_order_is_the_same_stream(given, global_random_seed):
    turned = order(global_random_seed)
    straight, other = small(), small()
    for part in (slice(0, 60), slice(60, 120)):
        straight.partial_fit(pd.DataFrame(COUNTS[part], columns=NAMES))
    for part, columns in ((slice(0, 60), np.arange(40)), (slice(60, 120), turned)):
        X, more = given(COUNTS[part][:, columns], NAMES[columns])
        other.partial_fit(X, **more)
    np.testing.assert_array_equal(other.components_, straight.components_)
    assert list(other.feature_names_in_) == list(NAMES) and other.n_features_in_ == 40


def test_a_warm_start_takes_words_by_name(given, global_random_seed):
    turned = order(global_random_seed)
    straight, other = (small(warm_start=True).fit(FRAME) for _ in range(2))
    straight.fit(FRAME)
    X, more = given(COUNTS[:, turned], NAMES[turned])
    np.testing.assert_array_equal(other.fit(X, **more).components_, straight.components_)


# ---- missing words and new ones
def test_missing_words_have_no_counts(fitted, given):
    narrow = COUNTS.copy()
    narrow[:, ::3] = 0
    kept = np.arange(40) % 3 > 0
    X, more = given(COUNTS[:, kept], NAMES[kept])
    expected = fitted.transform(pd.DataFrame(narrow, columns=NAMES))
    np.testing.assert_array_equal(fitted.transform(X, **more), expected)


def test_new_words_are_ignored_and_named(fitted, given):
    wide = np.column_stack([np.full(120, 2), COUNTS, np.ones(120, int)])
    X, more = given(wide, np.array(["new", *NAMES, "newer"], dtype=object))
    with pytest.warns(UserWarning, match="2 of X's words are unknown .* with 360 counts: 'new', 'newer'. partial_fit"):
        found = fitted.transform(X, **more)
    np.testing.assert_array_equal(found, fitted.transform(FRAME))
    assert fitted.n_features_in_ == 40 and list(fitted.feature_names_in_) == list(NAMES)


def test_new_words_join_a_stream(given, global_random_seed):
    """Wherever their columns stand, and with the posterior that they would have after the known ones.

    By steps: before documents have doubled, when those that are kept are fitted anew.
    """
    turned = order(global_random_seed)
    model, other = small(), small()
    for fit in (model, other):
        fit.partial_fit(pd.DataFrame(COUNTS[:60, :30], columns=NAMES[:30]))
    model.partial_fit(pd.DataFrame(COUNTS[60:110], columns=NAMES))
    X, more = given(COUNTS[60:110, turned], NAMES[turned])
    other.partial_fit(X, **more)
    assert set(other.feature_names_in_) == set(NAMES) and list(other.feature_names_in_[:30]) == list(NAMES[:30])
    place = pd.Index(other.feature_names_in_).get_indexer(NAMES)
    np.testing.assert_allclose(other.components_[:, place], model.components_, rtol=1e-10)
    np.testing.assert_allclose(other.components_.sum(1), 1.0)
    # A narrow chunk afterwards: the words that it lacks have no counts there.
    other.partial_fit(pd.DataFrame(COUNTS[:60, :30], columns=NAMES[:30]))
    assert other.components_.shape == (3, 40)


def test_the_vocabulary_grows_without_names():
    model = small().partial_fit(COUNTS[:60, :30])
    prior = model._word_prior()[0, 0]
    model.partial_fit(COUNTS[60:])
    assert model.components_.shape == (3, 40)
    assert np.all(model.posterior_["topics"].concentration >= 0.5 * prior)
    with pytest.raises(ValueError, match="40 features"):
        model.partial_fit(COUNTS[:, :30])


def test_a_refitted_vectorizer_goes_on():
    chunks = [["apple pear apple plum", "pear plum fig"] * 5, ["car train bus", "bus fig car apple"] * 5]
    model = small(n_components=2)
    for chunk in chunks:
        vectorizer = CountVectorizer()
        model.partial_fit(vectorizer.fit_transform(chunk), feature_names=vectorizer.get_feature_names_out())
    assert set(model.feature_names_in_) == set("apple pear plum fig car train bus".split())
    other = CountVectorizer().fit(chunks[1])
    found = model.transform(other.transform(["bus car car", "apple fig"]), feature_names=other.get_feature_names_out())
    same = CountVectorizer(vocabulary=list(model.feature_names_in_)).transform(["bus car car", "apple fig"])
    np.testing.assert_array_equal(found, model.transform(same, feature_names=model.feature_names_in_))
    assert set(model.top_words(n=7).iloc[0]) == set(model.feature_names_in_)


def test_an_iterator_and_fit_transform_take_names():
    X = sp.csr_matrix(COUNTS)
    model = small().fit(iter([X[:60], X[60:]]), feature_names=NAMES)
    assert list(model.feature_names_in_) == list(NAMES)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = small(tol=1.0).fit_transform(X, feature_names=NAMES)
    np.testing.assert_array_equal(found, small(tol=1.0).fit_transform(X))


def test_seed_words_may_be_given_names():
    model = small(prior_words={1: ["word 03"]}).fit(sp.csr_matrix(COUNTS), feature_names=NAMES)
    assert model._word_prior()[1, 3] > model._word_prior()[0, 3]


def test_names_survive_a_file(tmp_path):
    model = small().partial_fit(pd.DataFrame(COUNTS[:60, :30], columns=NAMES[:30]))
    model.save(tmp_path / "topics.sksvi")
    loaded = sksvi.load(tmp_path / "topics.sksvi")
    turned = FRAME[NAMES[::-1]]
    np.testing.assert_array_equal(loaded.partial_fit(turned).components_, model.partial_fit(turned).components_)
    np.testing.assert_array_equal(loaded.feature_names_in_, model.feature_names_in_)
    np.testing.assert_array_equal(loaded.topic_prevalence_, model.topic_prevalence_)


# ---- what is refused, and changes nothing
@pytest.mark.parametrize(
    ("X", "names", "words"),
    [
        (COUNTS, NAMES[:3], r"feature_names has shape \(3,\), expected \(40,\)"),
        (COUNTS, np.arange(40), "feature_names must be strings; found 0"),
        (COUNTS, np.append(NAMES[:-1], NAMES[:1]), "'word 00' more than once"),
        (FRAME, NAMES[::-1], "not the names of X's columns"),
        (pd.DataFrame(COUNTS[:, [0, 1, 1]], columns=NAMES[[0, 1, 1]]), None, "'word 01'"),
        (np.ones((3, 41)), None, "41 columns without names and the 40 known words have names"),
        (-FRAME[NAMES[::-1]], None, "Negative"),
        (pd.DataFrame(np.full((3, 41), np.nan), columns=[*NAMES, "new"]), None, "NaN"),
    ],
)
def test_wrong_names_are_refused(X, names, words):
    model = small().partial_fit(FRAME)
    before = dict(vars(model))
    with pytest.raises(ValueError, match=words):
        model.partial_fit(X, feature_names=names)
    assert vars(model).keys() == before.keys() and all(vars(model)[key] is before[key] for key in before)


def test_scikit_learns_rule_where_one_side_has_no_names(fitted):
    with pytest.warns(UserWarning, match="X does not have valid feature names"):
        fitted.transform(COUNTS)
    with pytest.warns(UserWarning, match="fitted without feature names"):
        small().fit(COUNTS).transform(FRAME)


# ---- topics that no word supports
@pytest.mark.parametrize("options", [{}, {"topics": "point"}], ids=str)
def test_prevalence_is_the_share_of_words(options):
    """Two topics, and more than a few short documents can tell apart."""
    X = make_ctm(30, 100, n_components=2, n_words=60, random_state=0).data
    model = small(n_components=10, max_iter=20, uncertainty="variational", **options).fit(X)
    share = model.topic_prevalence_
    assert share.sum() == pytest.approx(1.0) and np.any(share == 0)
    # Less than one word moves a probability by less than one part in the prior's counts.
    assert np.abs(model.components_[share == 0] - 1 / 100).max() < 1 / model._word_prior()[0].sum()
    theta = model.transform(X)
    words = np.asarray(X.sum(1)).ravel()
    np.testing.assert_allclose(share, words @ theta / words.sum(), atol=0.05)
    names = model.get_feature_names_out()[share > 0]
    assert list(model.top_words().index) == list(names)
    assert list(model.summary(n=3).index.unique("topic")) == list(names)


def test_points_by_gradient_have_no_counts():
    model = small(topics="adagrad").fit(COUNTS)
    assert np.all(np.isnan(model.topic_prevalence_)) and len(model.top_words()) == 3


def test_displays_leave_out_topics_without_words():
    pytest.importorskip("matplotlib")
    X = make_ctm(30, 100, n_components=2, n_words=60, random_state=0).data
    model = small(n_components=10, max_iter=20, uncertainty="variational").fit(X)
    shown = np.flatnonzero(model.topic_prevalence_)
    graph = sksvi.TopicGraphDisplay.from_estimator(model)
    assert 0 < len(graph.labels) == len(shown) < 10
    np.testing.assert_array_equal(graph.correlation, model.topic_correlation_[np.ix_(shown, shown)])
    words = sksvi.TopicWordsDisplay.from_estimator(model)
    assert words.titles == [f"topic {k}" for k in shown]
    assert sksvi.TopicWordsDisplay.from_estimator(model, topics=[2]).titles == ["topic 2"]
    nothing = small().fit(1e-6 * COUNTS)
    with pytest.raises(ValueError, match="No word supports any topic"):
        sksvi.TopicGraphDisplay.from_estimator(nothing)


# ---- the first documents of a stream
@pytest.mark.parametrize("cls", [CorrelatedTopicModel, sksvi.StructuredLDA])
def test_a_stream_in_a_file_goes_on_with_its_first_documents(cls, tmp_path, global_random_seed):
    """New words among them; documents of words that the model does not know are no such file."""
    rows = np.random.default_rng(global_random_seed).permutation(len(COUNTS))
    model = cls(n_components=3, max_iter=4, random_state=0).partial_fit(FRAME.iloc[rows[:20], :30])
    model.save(tmp_path / "model")
    again = sksvi.load(tmp_path / "model")
    assert again._first_rows.X.shape == (20, 30)
    for one in (model, again):
        one.partial_fit(FRAME.iloc[rows[20:60]])
    np.testing.assert_array_equal(model.components_, again.components_)
    assert again._first_rows.X.shape == (60, 40)
    model.save(tmp_path / "bare", training_rows=False)
    assert sksvi.load(tmp_path / "bare")._first_rows is None
    X = again._first_rows.X
    again._first_rows = dataclasses.replace(again._first_rows, X=sp.csr_matrix((60, X.shape[1] + 1)))
    again.save(tmp_path / "other")
    with pytest.raises(ValueError, match=r"_first_rows\.X"):
        sksvi.load(tmp_path / "other")


@pytest.mark.costly
@pytest.mark.parametrize("cls", [pytest.param(CorrelatedTopicModel, marks=pytest.mark.exhaustive), sksvi.StructuredLDA])
@pytest.mark.parametrize("first", [1, *(pytest.param(n, marks=pytest.mark.exhaustive) for n in (0, 3, 10))])
def test_topics_that_begin_among_few_documents_part_later(cls, first, global_random_seed):
    """One document, or empty ones, say nothing of topics; the first documents of a stream are fitted together."""
    seed = int(np.random.default_rng(global_random_seed).integers(1000))
    bunch = make_lda(900, 120, n_components=4, random_state=seed)
    X, new = bunch.data[:700].toarray(), bunch.data[700:]
    stream = cls(n_components=4, random_state=0)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*documents have no words")
        stream.partial_fit(X[:first] if first else 0 * X[:3])
        for at in range(first, 700, 100):
            stream.partial_fit(X[at : at + 100])
    fit, one = (cls(n_components=k, random_state=0).fit(X).score(new) for k in (4, 1))
    assert stream.score(new) > fit - 0.1 * (fit - one)


@pytest.mark.costly
def test_one_topic_that_has_all_words_is_told_of(global_random_seed):
    """Fractions of words that differ by chance alone, as TF-IDF may make them, tell no topics apart."""
    rng = np.random.default_rng(global_random_seed)
    few = 0.2 * rng.poisson(0.3 * np.exp(rng.standard_normal(400)), (200, 400))
    with pytest.warns(UserWarning, match="one of 10 topics has all the words.*CountVectorizer"):
        model = CorrelatedTopicModel(10, uncertainty="variational", random_state=0).fit(few)
    assert np.count_nonzero(model.topic_prevalence_) == 1


# ---- which words, how coherent, how stable
@pytest.fixture(scope="module", params=[StructuredLDA, CorrelatedTopicModel])
def of_three(request):
    truth = make_ctm(150, 60, n_components=3, random_state=0)
    return truth, request.param(3, random_state=0, uncertainty="variational").fit(truth.data)


def test_words_by_frex_and_relevance_are_those_of_their_formulas(of_three):
    _, model = of_three
    beta = model.components_
    orders = {by: [[int(word[1:]) for word in row] for row in model.top_words(n=60, by=by).to_numpy()] for by in ORDERS}
    share = beta / beta.sum(0)
    ranks = [np.array([[np.mean(row <= x) for x in row] for row in part]) for part in (share, beta)]
    relevance = 0.6 * np.log(beta) + 0.4 * np.log(beta / (model.topic_prevalence_ @ beta))
    for by, score in (("probability", beta), ("frex", 2 / (1 / ranks[0] + 1 / ranks[1])), ("relevance", relevance)):
        along = np.take_along_axis(score, np.array(orders[by]), 1)
        assert np.all(np.diff(along, axis=1) <= 1e-12)
    with pytest.raises(ValueError, match="by must be one of"):
        model.top_words(by="lift")


def test_coherence_is_that_of_pairs(of_three):
    truth, model = of_three
    found, (occurs, order) = model.coherence(truth.data, n=4), ((truth.data > 0).toarray(), model._top(4)[1])
    for score, words in zip(found, order, strict=True):
        pairs = []
        for i in range(4):
            for j in range(i):
                a, b = occurs[:, words[i]], occurs[:, words[j]]
                both = np.mean(a & b)
                pairs.append(np.log(both / a.mean() / b.mean()) / -np.log(both) if 0 < both < 1 else -float(both == 0))
        assert score == pytest.approx(np.mean(pairs))
    assert np.all(model.coherence(truth.data, "c_v").between(-1.0, 1.0))
    apart = model.coherence(np.eye(60), "npmi")  # no two words together
    np.testing.assert_array_equal(apart, -1.0)
    with pytest.raises(ValueError, match="measure must be one of"):
        model.coherence(truth.data, "umass")


def test_c_v_of_words_that_are_always_together_is_one():
    together = sp.csr_matrix(np.repeat(np.eye(3), 4, axis=1).repeat(5, axis=0))
    information = pointwise_information(together.tocsc(), np.arange(4))
    assert c_v(information) == pytest.approx(1.0)
    assert npmi(information) == pytest.approx(1.0)


def test_topics_of_other_seeds_are_matched(of_three):
    truth, model = of_three
    table = model.stability(truth.data, 2)
    assert list(table.index) == list(model.get_feature_names_out())
    assert np.all((table["least"] <= table["mean"]) & (table["mean"] <= 1.0)) and table["mean"].min() > 0.5
    np.testing.assert_allclose(overlaps(model.components_, model.components_[::-1]), 1.0)


def test_arguments_of_pyldavis(of_three):
    truth, model = of_three
    found = model.to_pyldavis(truth.data)
    np.testing.assert_allclose(found["topic_term_dists"].sum(1), 1.0)
    np.testing.assert_allclose(found["doc_topic_dists"].sum(1), 1.0)
    assert found["doc_lengths"].sum() == found["term_frequency"].sum() == truth.data.sum()
    assert found["vocab"][:2] == ["x0", "x1"]
