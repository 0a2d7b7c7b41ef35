"""Pictures of topics: which go together, and which words each is made of."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from sksvi.displays._common import fitted, pyplot, unwrapped

Array = np.ndarray

#: Distance of two topics in a graph is this less their correlation, so that no two topics coincide.
FARTHEST = 1.6
#: Rounds that place the topics of a graph.
ROUNDS = 300


class TopicGraphDisplay:
    """Topics as points, their correlations as edges: wide for strong ones, red for topics that avoid each other.

    Topics that go together are near each other: positions make distances as close as they can to 1.6 - correlation
    (least squares, deterministic).

    Parameters
    ----------
    correlation : array-like of shape (n_topics, n_topics)
        Correlations, for example ``topic_correlation_``. Those of centred log proportions are -1 / (n_topics - 1)
        where topics have nothing to do with each other.

    labels : sequence of str
        Text of each topic.

    weights : array-like of shape (n_topics,), default=None
        Areas of the points are proportional to these; None makes them equal.

    min_correlation : float, default=0.2
        Smallest size of a correlation that is drawn, in [0, 1].

    Attributes
    ----------
    ax_ : matplotlib Axes
        The axes.

    figure_ : matplotlib Figure
        The figure.

    lines_ : matplotlib LineCollection
        The edges, in the order of ``edges``.

    points_ : matplotlib PathCollection
        The topics.

    texts_ : list of matplotlib Text
        The labels.

    edges : list of (int, int)
        Pairs of topics that are joined, weakest correlation first.

    positions : ndarray of shape (n_topics, 2)
        Where the topics are.

    Examples
    --------
    >>> import numpy as np
    >>> from sksvi.displays import TopicGraphDisplay
    >>> correlation = np.array([[1.0, 0.6, -0.7], [0.6, 1.0, -0.1], [-0.7, -0.1, 1.0]])
    >>> display = TopicGraphDisplay(correlation, ["gene dna", "cell protein", "star galaxy"])
    >>> display.edges
    [(0, 1), (0, 2)]
    """

    def __init__(self, correlation: Any, labels: Any, weights: Any = None, *, min_correlation: float = 0.2) -> None:
        if not 0 <= min_correlation <= 1:
            raise ValueError(f"min_correlation must lie in [0, 1]; found {min_correlation!r}.")
        self.correlation, self.labels = np.asarray(correlation, float), [str(label) for label in labels]
        n = len(self.labels)
        self.weights = np.ones(n) if weights is None else np.asarray(weights, float)
        if self.correlation.shape != (n, n) or self.weights.shape != (n,):
            raise ValueError(
                f"correlation {self.correlation.shape}, weights {self.weights.shape} and the {n} labels must agree in "
                "shape."
            )
        if not np.allclose(self.correlation, self.correlation.T):
            raise ValueError("correlation must be symmetric.")
        if not (np.all(self.weights >= 0) and self.weights.sum() > 0):
            raise ValueError("weights must not be negative, and not all zero.")
        self.min_correlation = min_correlation
        first, second = np.triu_indices(n, 1)
        size = np.abs(self.correlation[first, second])
        order = [i for i in np.argsort(size, kind="stable") if size[i] >= min_correlation]
        self.edges = [(int(first[i]), int(second[i])) for i in order]
        self.positions = _placed(FARTHEST - self.correlation)

    def plot(self, ax: Any = None, **text_kwargs: Any) -> TopicGraphDisplay:
        """Draw the graph.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on; None makes a new figure.

        **text_kwargs : dict
            Passed on to ``Axes.text`` for the labels.

        Returns
        -------
        display : TopicGraphDisplay
            The display itself.
        """
        if ax is None:
            _, ax = pyplot().subplots(figsize=(9.0, 7.0), layout="constrained")
        from matplotlib.collections import LineCollection

        values = np.array([self.correlation[pair] for pair in self.edges])
        segments = [self.positions[list(pair)] for pair in self.edges]
        colors = np.where(values > 0, "tab:blue", "tab:red").tolist()
        widths = (5.0 * np.abs(values)).tolist()
        self.lines_ = ax.add_collection(LineCollection(segments, colors=colors, linewidths=widths, alpha=0.5, zorder=1))
        area = 400.0 * self.weights / self.weights.max()
        self.points_ = ax.scatter(*self.positions.T, s=area, color="0.85", edgecolor="0.4", zorder=2)
        style = {"ha": "center", "va": "center", "fontsize": 8, "zorder": 3} | text_kwargs
        self.texts_ = [ax.text(x, y, label, **style) for (x, y), label in zip(self.positions, self.labels, strict=True)]
        ax.margins(0.12)
        ax.autoscale_view()  # before the labels are laid out, which belong to the limits
        ax.set_axis_off()
        self.ax_, self.figure_ = ax, ax.figure
        return self

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        feature_names: Any = None,
        n_words: int = 3,
        min_correlation: float = 0.2,
        ax: Any = None,
        **text_kwargs: Any,
    ) -> TopicGraphDisplay:
        """Draw the topics of a fitted correlated topic model, labelled by their most probable words.

        Topics that no word supports (``topic_prevalence_`` is 0) are left out. The areas of the points are the
        proportions of a document whose log odds are the mean ones.

        Parameters
        ----------
        estimator : fitted estimator
            Has ``topic_correlation_``, ``components_`` and ``topic_log_odds_`` or ``topic_prevalence_``; a Pipeline or
            search stands for the
            estimator inside.

        feature_names : sequence of str, default=None
            Words of the columns; None: those that the estimator saw, or that the Pipeline gives.

        n_words : int, default=3
            Words of a label.

        min_correlation : float, default=0.2
            Smallest size of a correlation that is drawn, in [0, 1].

        ax : matplotlib Axes, default=None
            Axes to draw on; None makes a new figure.

        **text_kwargs : dict
            Passed on to ``Axes.text`` for the labels.

        Returns
        -------
        display : TopicGraphDisplay
            The display, drawn.

        Raises
        ------
        NotFittedError
            If the estimator is not fitted.

        Examples
        --------
        >>> from sksvi import CorrelatedTopicModel, TopicGraphDisplay
        >>> from sksvi.datasets import make_ctm
        >>> X = make_ctm(60, 40, n_components=4, random_state=0).data
        >>> model = CorrelatedTopicModel(4, max_iter=10, tol=1e-2, random_state=0).fit(X)
        >>> len(TopicGraphDisplay.from_estimator(model).texts_)
        4
        """
        inner, before = unwrapped(estimator)
        correlation, components = fitted(inner, "topic_correlation_"), fitted(inner, "components_")
        shown = _supported(inner)
        words = _top(components[shown], _names(inner, before, feature_names), _positive("n_words", n_words))
        labels = ["\n".join(row) for row in words[0]]
        correlation = correlation[np.ix_(shown, shown)]
        weights = _sizes(inner)[shown]
        return cls(correlation, labels, weights, min_correlation=min_correlation).plot(ax, **text_kwargs)


class TopicWordsDisplay:
    """The most probable words of topics as bars, one panel per topic.

    Parameters
    ----------
    words : array-like of shape (n_topics, n_words)
        Words of each topic, the most probable first.

    probability : array-like of shape (n_topics, n_words)
        Their probabilities.

    std : array-like of shape (n_topics, n_words), default=None
        Posterior standard deviations, drawn as lines of mean ± one.

    titles : sequence of str, default=None
        Names of the topics; None: their numbers.

    Attributes
    ----------
    axes_ : ndarray of matplotlib Axes
        One per topic.

    figure_ : matplotlib Figure
        The figure.

    bars_ : list of matplotlib BarContainer
        One per topic.

    Examples
    --------
    >>> from sksvi.displays import TopicWordsDisplay
    >>> display = TopicWordsDisplay([["star", "galaxy"], ["gene", "dna"]], [[0.2, 0.1], [0.3, 0.2]]).plot()
    >>> [ax.get_title() for ax in display.axes_]
    ['topic 0', 'topic 1']
    """

    def __init__(self, words: Any, probability: Any, std: Any = None, titles: Any = None) -> None:
        self.words, self.probability = np.asarray(words, object), np.asarray(probability, float)
        self.std = None if std is None else np.asarray(std, float)
        shapes = {self.words.shape, self.probability.shape} | (set() if std is None else {self.std.shape})
        n = len(self.words)
        self.titles = [f"topic {k}" for k in range(n)] if titles is None else [str(title) for title in titles]
        if len(shapes) > 1 or self.words.ndim != 2 or len(self.titles) != n:
            raise ValueError(
                f"words {self.words.shape}, probability {self.probability.shape}, std and the {len(self.titles)} "
                "titles must agree in shape: a row per topic."
            )

    def plot(self, axes: Any = None, **bar_kwargs: Any) -> TopicWordsDisplay:
        """Draw the bars, most probable word on top.

        Parameters
        ----------
        axes : sequence of matplotlib Axes, default=None
            One per topic; None makes a new figure with at most five in a row.

        **bar_kwargs : dict
            Passed on to ``Axes.barh``.

        Returns
        -------
        display : TopicWordsDisplay
            The display itself.
        """
        n, n_words = self.words.shape
        if axes is None:
            across = min(n, 5)
            down = math.ceil(n / across)
            size = (2.3 * across, down * (0.7 + 0.19 * n_words))
            _, grid = pyplot().subplots(down, across, figsize=size, layout="constrained", squeeze=False, sharex=True)
            for ax in grid.ravel()[n:]:
                ax.set_visible(False)
            axes = grid.ravel()[:n]
        axes = np.atleast_1d(np.asarray(axes, object))
        if axes.shape != (n,):
            raise ValueError(f"axes must hold one Axes per topic, {n}; found shape {axes.shape}.")
        at = np.arange(n_words)
        self.bars_ = []
        for k, ax in enumerate(axes):
            spread = {} if self.std is None else {"xerr": self.std[k], "error_kw": {"linewidth": 0.8}}
            self.bars_.append(ax.barh(at, self.probability[k], **({"color": "tab:blue"} | spread | bar_kwargs)))
            ax.set_yticks(at, [str(word) for word in self.words[k]], fontsize=8)
            ax.set_ylim(n_words - 0.4, -0.6)
            ax.set_title(self.titles[k], fontsize=9)
        self.axes_, self.figure_ = axes, axes[0].figure
        return self

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        feature_names: Any = None,
        topics: Sequence[int] | None = None,
        n_words: int = 10,
        axes: Any = None,
        **bar_kwargs: Any,
    ) -> TopicWordsDisplay:
        """Draw the words of topics of a fitted topic model.

        Parameters
        ----------
        estimator : fitted estimator
            Has ``components_`` (rows are divided by their sums) and, for the standard deviations,
            ``posterior_["topics"]``; a Pipeline or search stands for the estimator inside.

        feature_names : sequence of str, default=None
            Words of the columns; None: those that the estimator saw, or that the Pipeline gives.

        topics : sequence of int, default=None
            The topics to draw; None: the first 20 that words support (``topic_prevalence_`` is not 0).

        n_words : int, default=10
            Words of a topic.

        axes : sequence of matplotlib Axes, default=None
            One per topic; None makes a new figure.

        **bar_kwargs : dict
            Passed on to ``Axes.barh``.

        Returns
        -------
        display : TopicWordsDisplay
            The display, drawn.

        Raises
        ------
        NotFittedError
            If the estimator is not fitted.

        Examples
        --------
        >>> from sksvi import CorrelatedTopicModel, TopicWordsDisplay
        >>> from sksvi.datasets import make_ctm
        >>> X = make_ctm(60, 40, n_components=4, random_state=0).data
        >>> model = CorrelatedTopicModel(4, max_iter=10, tol=1e-2, random_state=0).fit(X)
        >>> TopicWordsDisplay.from_estimator(model, n_words=5, topics=[0, 2]).words.shape
        (2, 5)
        """
        inner, before = unwrapped(estimator)
        components = np.asarray(fitted(inner, "components_"), float)
        total = components.sum(1, keepdims=True)
        n = len(components)
        chosen = _supported(inner)[:20] if topics is None else [int(k) for k in topics]
        if not chosen or any(not 0 <= k < n for k in chosen):
            raise ValueError(f"topics must be some of 0 to {n - 1}; found {topics!r}.")
        n_words = _positive("n_words", n_words)
        words, order = _top(components[chosen], _names(inner, before, feature_names), n_words)
        posterior = getattr(inner, "posterior_", None)
        std = None if posterior is None else np.take_along_axis(posterior["topics"].std[chosen], order, 1)
        probability = np.take_along_axis((components / total)[chosen], order, 1)
        titles = [f"topic {k}" for k in chosen]
        return cls(words, probability, std, titles).plot(axes, **bar_kwargs)


def _positive(name: str, value: Any) -> int:
    if isinstance(value, bool) or int(value) != value or value < 1:
        raise ValueError(f"{name} must be at least 1; found {value!r}.")
    return int(value)


def _sizes(inner: Any) -> Array:
    """How large topics are, over the largest: by their log odds, or by their words."""
    if hasattr(inner, "topic_log_odds_"):
        log_odds = np.append(inner.topic_log_odds_, 0.0)
        return np.asarray(np.exp(log_odds - log_odds.max()))
    prevalence = fitted(inner, "topic_prevalence_")
    return np.asarray(prevalence / prevalence.max())


def _supported(estimator: Any) -> list[int]:
    """Topics that words support: all of a model that does not say."""
    prevalence = getattr(estimator, "topic_prevalence_", None)
    if prevalence is None:
        return list(range(len(estimator.components_)))
    if not np.any(prevalence):
        raise ValueError("No word supports any topic (topic_prevalence_ is 0): there is nothing to draw.")
    return [int(k) for k in np.flatnonzero(prevalence)]


def _names(estimator: Any, before: Any, given: Any) -> Array:
    """Words of the columns: those given, else those that the estimator or the Pipeline knows."""
    from sksvi.displays._common import feature_names

    names = feature_names(estimator, before) if given is None else np.asarray(given, object)
    if names.shape != (estimator.n_features_in_,):
        raise ValueError(f"feature_names has shape {names.shape}, expected {(estimator.n_features_in_,)}.")
    return names


def _top(components: Array, names: Array, n: int) -> tuple[Array, Array]:
    """(k, n) words and their columns, the most probable first."""
    order = np.argsort(-components, axis=1, kind="stable")[:, :n]
    return names[order].astype(str), order


def _placed(distance: Array) -> Array:
    """(n, 2) positions whose distances are close to those given: classical scaling, then stress majorisation."""
    n = len(distance)
    np.fill_diagonal(distance, 0.0)
    centre = np.eye(n) - 1.0 / n
    values, vectors = np.linalg.eigh(-0.5 * centre @ np.square(distance) @ centre)
    keep = np.argsort(-values)[:2]
    at = np.zeros((n, 2))
    at[:, : len(keep)] = vectors[:, keep] * np.sqrt(np.maximum(values[keep], 0.0))
    for _ in range(ROUNDS):
        apart = np.linalg.norm(at[:, None] - at, axis=-1)
        ratio = -distance / np.where(apart > 0, apart, 1.0)
        np.fill_diagonal(ratio, 0.0)
        np.fill_diagonal(ratio, -ratio.sum(1))
        at = ratio @ at / n
    return at
