"""Graphs of topics and their words."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.decomposition import LatentDirichletAllocation
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.pipeline import make_pipeline

from sksvi import BayesianGLMClassifier, CorrelatedTopicModel
from sksvi.datasets import make_ctm
from sksvi.displays import TopicGraphDisplay, TopicWordsDisplay

pytest.importorskip("matplotlib")
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.fixture
def documents(global_random_seed):
    X = make_ctm(60, 40, n_components=4, random_state=global_random_seed).data.toarray()
    return [" ".join(f"w{j:02d} " * int(c) for j, c in enumerate(row)) for row in X]


@pytest.fixture
def pipeline(documents):
    return make_pipeline(CountVectorizer(), CorrelatedTopicModel(4, max_iter=3, random_state=0)).fit(documents)


def correlation_of(n, seed):
    factor = np.random.default_rng(seed).standard_normal((n, n))
    cov = factor @ factor.T
    sd = np.sqrt(np.diagonal(cov))
    return cov / sd / sd[:, None]


def test_graph_of_a_pipeline(pipeline):
    display = TopicGraphDisplay.from_estimator(pipeline, n_words=2, min_correlation=0.0, kind="graph", fontsize=5)
    model, words = pipeline[-1], pipeline[0].get_feature_names_out()
    top = np.argsort(-model.components_, axis=1, kind="stable")[:, :2]
    assert [text.get_text() for text in display.texts_] == ["\n".join(row) for row in words[top]]
    assert display.texts_[0].get_fontsize() == 5
    assert len(display.edges) == 6
    strength = [abs(model.topic_correlation_[pair]) for pair in display.edges]
    assert strength == sorted(strength)
    assert_allclose(display.lines_.get_linewidths(), 5 * np.array(strength))
    assert_allclose(display.points_.get_offsets(), display.positions)
    proportions = np.exp(np.append(model.topic_log_odds_, 0))
    assert_allclose(display.points_.get_sizes() / display.points_.get_sizes().sum(), proportions / proportions.sum())
    display.figure_.canvas.draw()
    named = TopicGraphDisplay.from_estimator(model, feature_names=[w.upper() for w in words], ax=display.ax_)
    assert named.labels[0].startswith("W") and named.ax_ is display.ax_


@pytest.mark.costly
def test_topics_that_go_together_are_side_by_side(pipeline):
    """Two blocks whose topics alternate: the order of the heat map takes them apart."""
    block = np.arange(6) % 2
    correlation = np.where(block[:, None] == block, 0.6, -0.3) + 0.4 * np.eye(6)
    display = TopicGraphDisplay(correlation, [f"w{k}\nv{k}" for k in range(6)], topics=range(10, 16)).plot()
    assert sorted(display.order) == list(range(6)) and len(set(block[display.order[:3]])) == 1
    shown = display.image_.get_array()
    assert np.ma.getmaskarray(shown).diagonal().all()
    assert_allclose(shown[0, 1:3], 0.6)
    assert_allclose(shown[0, 3:], -0.3)
    assert display.image_.get_clim() == (-0.6, 0.6)
    first = display.order[0]
    assert display.texts_[0].get_text() == f"w{first} v{first}  {10 + first}"
    assert [label.get_text() for label in display.ax_.get_xticklabels()] == [str(10 + k) for k in display.order]
    model = TopicGraphDisplay.from_estimator(pipeline)
    assert_allclose(model.image_.get_array()[0, 1], pipeline[-1].topic_correlation_[model.order[0], model.order[1]])
    for n in (1, 2):
        assert TopicGraphDisplay(np.eye(n), "ab"[:n]).plot().order == list(range(n))
    with pytest.raises(ValueError, match="kind='map' is unknown: choose 'heatmap' or 'graph'"):
        display.plot(kind="map")
    with pytest.raises(ValueError, match="topics has 1 numbers for the 6 labels"):
        TopicGraphDisplay(correlation, "abcdef", topics=[1])


@pytest.mark.costly
def test_edges_have_signs_and_a_smallest_size():
    correlation = np.array([[1.0, 0.6, -0.7], [0.6, 1.0, -0.1], [-0.7, -0.1, 1.0]])
    display = TopicGraphDisplay(correlation, "abc").plot(kind="graph")
    assert display.edges == [(0, 1), (0, 2)]
    blue, red = display.lines_.get_colors()
    assert blue[2] > blue[0] and red[0] > red[2]
    assert TopicGraphDisplay(correlation, "abc", min_correlation=1.0).plot(kind="graph").edges == []
    assert TopicGraphDisplay([[1.0]], ["one"]).plot().positions.shape == (1, 2)


def test_positions_follow_the_correlations(global_random_seed):
    """Two dimensions hold three distances exactly, up to what they leave to the rounds; more in order."""
    correlation = correlation_of(3, global_random_seed)
    at = TopicGraphDisplay(correlation, "abc").positions
    found = np.linalg.norm(at[:, None] - at, axis=-1)[np.triu_indices(3, 1)]
    wanted = 1.6 - correlation[np.triu_indices(3, 1)]
    if wanted.max() < 0.95 * (wanted.sum() - wanted.max()):  # else no triangle has these sides
        assert_allclose(found, wanted, rtol=0.02)
    correlation = correlation_of(9, global_random_seed)
    at = TopicGraphDisplay(correlation, "abcdefghi").positions
    found = np.linalg.norm(at[:, None] - at, axis=-1)[np.triu_indices(9, 1)]
    assert np.corrcoef(found, correlation[np.triu_indices(9, 1)])[0, 1] < -0.5
    assert_allclose(TopicGraphDisplay(correlation, "abcdefghi").positions, at)


def test_words_of_a_pipeline(pipeline):
    display = TopicWordsDisplay.from_estimator(pipeline, topics=[2, 0], n_words=5, color="C3")
    model = pipeline[-1]
    order = np.argsort(-model.components_[2])[:5]
    assert list(display.words[0]) == list(pipeline[0].get_feature_names_out()[order])
    assert_allclose(display.probability[0], model.components_[2, order])
    assert_allclose(display.std[0], model.posterior_["topics"].std[2, order])
    assert [ax.get_title() for ax in display.axes_] == ["topic 2", "topic 0"]
    assert_allclose([bar.get_width() for bar in display.bars_[0]], display.probability[0])
    bottom, top = display.axes_[0].get_ylim()
    assert bottom > top  # the most probable word is on top
    display.figure_.canvas.draw()
    again = TopicWordsDisplay.from_estimator(model, topics=[1], axes=display.axes_[0])
    assert again.axes_[0] is display.axes_[0] and again.words.shape == (1, 10) and again.words[0, 0].startswith("x")


def test_words_of_another_model(documents):
    counts = CountVectorizer().fit_transform(documents)
    lda = LatentDirichletAllocation(7, max_iter=2, random_state=0).fit(counts)
    display = TopicWordsDisplay.from_estimator(lda)
    assert display.std is None and len(display.bars_) == 7
    assert display.figure_.get_supxlabel() == "Probability of the word"
    lowest = [ax for ax in display.axes_ if any(label.get_visible() for label in ax.get_xticklabels())]
    assert lowest == list(display.axes_[2:])  # of every column the last panel that is drawn
    assert display.probability.max() < 1  # pseudo-counts are divided by their sums
    assert [ax.get_visible() for ax in display.figure_.axes] == [True] * 7 + [False] * 3


def test_what_cannot_be_drawn_is_said(pipeline):
    model = pipeline[-1]
    for display in (TopicGraphDisplay, TopicWordsDisplay):
        with pytest.raises(NotFittedError):
            display.from_estimator(clone(model))
        with pytest.raises(TypeError, match="must have"):
            display.from_estimator(BayesianGLMClassifier().fit([[0.0], [1.0], [2.0]], [0, 1, 1]))
        with pytest.raises(ValueError, match="n_words must be a whole number of at least 1; found 0"):
            display.from_estimator(model, n_words=0)
        with pytest.raises(ValueError, match="feature_names has shape"):
            display.from_estimator(model, feature_names=["a"])
    for topics in ([4], [-1], []):
        with pytest.raises(ValueError, match="topics must be some of 0 to 3"):
            TopicWordsDisplay.from_estimator(model, topics=topics)
    with pytest.raises(ValueError, match="one Axes per topic"):
        TopicWordsDisplay([["a"], ["b"]], [[0.5], [0.5]]).plot(np.empty(3, object))
    with pytest.raises(ValueError, match="must agree in shape"):
        TopicWordsDisplay([["a"]], [[0.5, 0.1]])
    with pytest.raises(ValueError, match=r"min_correlation must lie in \[0, 1\]"):
        TopicGraphDisplay(np.eye(2), "ab", min_correlation=2.0)
    with pytest.raises(ValueError, match="must agree in shape"):
        TopicGraphDisplay(np.eye(2), "abc")
    with pytest.raises(ValueError, match="symmetric"):
        TopicGraphDisplay(np.triu(np.ones((2, 2))), "ab")
    with pytest.raises(ValueError, match="not all zero"):
        TopicGraphDisplay(np.eye(2), "ab", [0.0, 0.0])


def test_how_many_topics_are_shown():
    many = LatentDirichletAllocation(23, max_iter=1, random_state=0).fit(np.random.default_rng(0).poisson(1, (30, 9)))
    display = TopicWordsDisplay.from_estimator(many, n_words=3)
    assert len(display.axes_) == 20 and "20 of 23 topics shown" in display.figure_.get_supxlabel()
