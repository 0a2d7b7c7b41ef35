"""Which topics go together: a clustered heat map, or a graph."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from sksvi._names import shortened
from sksvi._typing.arrays import ArrayLike, Axes, Names
from sksvi.displays._common import COLORS, axes_for, check_kind, check_whole, fitted, scale_beside, unwrapped
from sksvi.displays.topic_words import supported, top_words

Array = np.ndarray

#: Distance of two topics in a graph is this less their correlation, so that no two topics coincide.
FARTHEST = 1.6
#: Rounds that place the topics of a graph.
ROUNDS = 300
#: Topics up to which a heat map has its correlations as numbers too.
NUMBERED = 12
#: Edges between topics that go together, and that avoid each other.
TOGETHER, APART = COLORS[0], COLORS[1]


class TopicGraphDisplay:
    """Which topics go together: correlations as a clustered heat map, or as a graph.

    The heat map has topics in the order of an average-linkage clustering by 1 - correlation, so that those that go
    together make blocks; blue where they go together, red where they avoid each other. In the graph topics are points
    and correlations edges, wide for strong ones: positions make distances as close as they can to 1.6 - correlation
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
        Smallest size of a correlation that the graph draws, in [0, 1].

    topics : sequence of int, default=None
        Numbers of the topics; None: 0, 1, …

    Attributes
    ----------
    ax_ : matplotlib Axes
        The axes.

    figure_ : matplotlib Figure
        The figure.

    image_ : matplotlib AxesImage
        Heat map: the correlations, rows and columns in ``order``.

    colorbar_ : matplotlib Colorbar
        Heat map: its scale.

    lines_ : matplotlib LineCollection
        Graph: the edges, in the order of ``edges``.

    points_ : matplotlib PathCollection
        Graph: the topics.

    texts_ : list of matplotlib Text
        The labels: of the heat map's rows from the top, of the graph in the order of the topics.

    order : list of int
        Rows of ``correlation`` from the top of the heat map.

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

    def __init__(
        self,
        correlation: ArrayLike,
        labels: Names,
        weights: ArrayLike | None = None,
        *,
        min_correlation: float = 0.2,
        topics: Sequence[int] | None = None,
    ) -> None:
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
        self.topics = list(range(n)) if topics is None else [int(k) for k in topics]
        if len(self.topics) != n:
            raise ValueError(f"topics has {len(self.topics)} numbers for the {n} labels.")
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
        self.order = _clustered(self.correlation)

    def plot(self, ax: Axes | None = None, *, kind: str = "heatmap", **text_kwargs: Any) -> TopicGraphDisplay:
        """Draw the heat map, or the graph.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on; None makes a new figure.

        kind : {"heatmap", "graph"}, default="heatmap"
            What to draw.

        **text_kwargs : dict
            Passed on to ``Axes.text`` for the labels.

        Returns
        -------
        display : TopicGraphDisplay
            The display itself.
        """
        draw = {"heatmap": self._plot_heatmap, "graph": self._plot_graph}
        draw[check_kind(kind, draw)](ax, text_kwargs)
        self.figure_ = self.ax_.figure
        return self

    def _plot_heatmap(self, ax: Any, text_kwargs: dict[str, Any]) -> None:
        n = len(self.labels)
        side = max(2.2, 0.2 * n)
        ax = axes_for(ax, (side + 4.2, side + 1.0))
        shown = self.correlation[np.ix_(self.order, self.order)]
        np.fill_diagonal(shown, np.nan)  # 1 by definition: it would take the ends of the colours
        most = float(np.nanmax(np.abs(shown))) if n > 1 else 1.0
        most = most if most > 0 else 1.0
        import matplotlib

        colours = matplotlib.colormaps["RdBu"].with_extremes(bad="0.85")
        self.image_ = ax.imshow(shown, cmap=colours, vmin=-most, vmax=most)
        self.colorbar_ = scale_beside(self.image_, "Correlation", shrink=0.8)
        style = {"fontsize": 8} | text_kwargs
        labels = [" ".join(self.labels[k].split("\n")) for k in self.order]
        names = [f"{shortened(label)}  {self.topics[k]}" for k, label in zip(self.order, labels, strict=True)]
        ax.set_yticks(np.arange(n), names, **style)
        ax.set_xticks(np.arange(n), [str(self.topics[k]) for k in self.order], **style | {"rotation": 90})
        ax.set_xlabel("Topic", fontsize=8)
        if n <= NUMBERED:
            for (row, column), value in np.ndenumerate(shown):
                dark = np.isfinite(value) and abs(value) > 0.6 * most
                text = f"{value:.2f}" if np.isfinite(value) else ""
                ax.text(column, row, text, ha="center", va="center", fontsize=6, color="w" if dark else "k")
        self.texts_, self.ax_ = ax.get_yticklabels(), ax

    def _plot_graph(self, ax: Any, text_kwargs: dict[str, Any]) -> None:
        # Labels keep their size, so that more of them need more room.
        grown = max(1.0, math.sqrt(len(self.labels) / 20))
        ax = axes_for(ax, (9.0 * grown, 7.0 * grown))
        from matplotlib.collections import LineCollection

        values = np.array([self.correlation[pair] for pair in self.edges])
        segments = [self.positions[list(pair)] for pair in self.edges]
        colors = np.where(values > 0, TOGETHER, APART).tolist()
        widths = (5.0 * np.abs(values)).tolist()
        self.lines_ = ax.add_collection(LineCollection(segments, colors=colors, linewidths=widths, alpha=0.5, zorder=1))
        area = 400.0 * self.weights / self.weights.max()
        self.points_ = ax.scatter(*self.positions.T, s=area, color="0.85", edgecolor="0.4", zorder=2)
        style = {"ha": "center", "va": "center", "fontsize": 8, "zorder": 3} | text_kwargs
        self.texts_ = [ax.text(x, y, label, **style) for (x, y), label in zip(self.positions, self.labels, strict=True)]
        from matplotlib.lines import Line2D

        legend = ((TOGETHER, "go together"), (APART, "avoid each other"))
        lines = [Line2D([], [], color=color, linewidth=2.0, alpha=0.5, label=label) for color, label in legend]
        ax.legend(handles=lines, loc="upper center", bbox_to_anchor=(0.5, 0.0), ncols=2, fontsize=8, frameon=False)
        ax.margins(0.12)
        ax.autoscale_view()  # before the labels are laid out, which belong to the limits
        ax.set_axis_off()
        self.ax_ = ax

    @classmethod
    def from_estimator(
        cls,
        estimator: BaseEstimator,
        *,
        feature_names: Names | None = None,
        n_words: int = 3,
        min_correlation: float = 0.2,
        kind: str = "heatmap",
        ax: Axes | None = None,
        **text_kwargs: Any,
    ) -> TopicGraphDisplay:
        """Draw the topics of a fitted correlated topic model, labelled by their most probable words.

        Topics that no word supports (``topic_prevalence_`` is 0) are left out. The areas of the graph's points are the
        proportions of a document whose log odds are the mean ones.

        Parameters
        ----------
        estimator : fitted estimator
            Has ``topic_correlation_``, ``components_`` and ``topic_log_odds_`` or ``topic_prevalence_``; a Pipeline or
            search stands for the estimator inside.

        feature_names : sequence of str, default=None
            Words of the columns; None: those that the estimator saw, or that the Pipeline gives.

        n_words : int, default=3
            Words of a label.

        min_correlation : float, default=0.2
            Smallest size of a correlation that the graph draws, in [0, 1].

        kind : {"heatmap", "graph"}, default="heatmap"
            What to draw.

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
        correlation, _ = fitted(inner, "topic_correlation_"), fitted(inner, "components_")
        shown = supported(inner)
        words = top_words(inner, before, feature_names, shown, check_whole("n_words", n_words))
        labels = ["\n".join(row) for row in words[0]]
        correlation = correlation[np.ix_(shown, shown)]
        display = cls(correlation, labels, _sizes(inner)[shown], min_correlation=min_correlation, topics=shown)
        return display.plot(ax, kind=kind, **text_kwargs)


def _sizes(inner: Any) -> Array:
    """How large topics are, over the largest: by their log odds, or by their words."""
    if hasattr(inner, "topic_log_odds_"):
        log_odds = np.append(inner.topic_log_odds_, 0.0)
        return np.asarray(np.exp(log_odds - log_odds.max()))
    prevalence = fitted(inner, "topic_prevalence_")
    return np.asarray(prevalence / prevalence.max())


def _clustered(correlation: Array) -> list[int]:
    """Topics in the order of the leaves of an average-linkage clustering by 1 - correlation, neighbours alike."""
    if len(correlation) < 3:
        return list(range(len(correlation)))
    from scipy.cluster.hierarchy import leaves_list, linkage

    apart = 1.0 - correlation[np.triu_indices(len(correlation), 1)]
    return [int(k) for k in leaves_list(linkage(np.maximum(apart, 0.0), "average", optimal_ordering=True))]


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
