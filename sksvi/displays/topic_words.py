"""The words that topics are made of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from sksvi._names import feature_names as fitted_names
from sksvi._names import shortened
from sksvi._typing.arrays import ArrayLike, ManyAxes, Names
from sksvi.displays._common import check_whole, column_names, fitted, panels, ranked_bars, unwrapped

Array = np.ndarray


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

    n_topics : int, default=None
        How many topics there are, where these are but some of them; None: these are all.

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

    def __init__(
        self,
        words: ArrayLike,
        probability: ArrayLike,
        std: ArrayLike | None = None,
        titles: Names | None = None,
        *,
        n_topics: int | None = None,
    ) -> None:
        self.words, self.probability = np.asarray(words, object), np.asarray(probability, float)
        self.std = None if std is None else np.asarray(std, float)
        shapes = {part.shape for part in (self.words, self.probability, self.std) if part is not None}
        n = len(self.words)
        self.n_topics = n if n_topics is None else int(n_topics)
        self.titles = [f"topic {k}" for k in range(n)] if titles is None else [str(title) for title in titles]
        if len(shapes) > 1 or self.words.ndim != 2 or len(self.titles) != n:
            raise ValueError(
                f"words {self.words.shape}, probability {self.probability.shape}, std and the {len(self.titles)} "
                "titles must agree in shape: a row per topic."
            )

    def plot(self, axes: ManyAxes | None = None, **bar_kwargs: Any) -> TopicWordsDisplay:
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
        words = [[shortened(word, 20) for word in row] for row in self.words]
        longest = max((len(word) for row in words for word in row), default=0)
        size = (1.8 + 0.065 * longest, 0.7 + 0.19 * n_words)
        axes, made = panels(axes, n, "axes must hold one Axes per topic", 5, size, 0.3)
        self.bars_ = []
        for k, ax in enumerate(axes):
            error = {} if self.std is None else {"xerr": self.std[k], "error_kw": {"linewidth": 0.8}}
            style = {"color": "tab:blue"} | error | bar_kwargs
            self.bars_.append(ranked_bars(ax, self.probability[k], words[k], self.titles[k], 9, style))
            ax.locator_params(axis="x", nbins=3)
        if made:
            shown = f"; {n:,} of {self.n_topics:,} topics shown" if n < self.n_topics else ""
            spread = "" if self.std is None else " ± posterior standard deviation"
            axes[0].figure.supxlabel(f"Probability of the word{spread}{shown}", fontsize=9)
        self.axes_, self.figure_ = axes, axes[0].figure
        return self

    @classmethod
    def from_estimator(
        cls,
        estimator: BaseEstimator,
        *,
        feature_names: Names | None = None,
        topics: Sequence[int] | None = None,
        n_words: int = 10,
        axes: ManyAxes | None = None,
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
        n = len(fitted(inner, "components_"))
        chosen = supported(inner)[:20] if topics is None else [int(k) for k in topics]
        if not chosen or any(not 0 <= k < n for k in chosen):
            raise ValueError(f"topics must be some of 0 to {n - 1}; found {topics!r}.")
        words, order = top_words(inner, before, feature_names, chosen, check_whole("n_words", n_words))
        posterior = getattr(inner, "posterior_", None)
        std = None if posterior is None else np.take_along_axis(posterior["topics"].std[chosen], order, 1)
        components = np.asarray(inner.components_, float)
        probability = np.take_along_axis((components / components.sum(1, keepdims=True))[chosen], order, 1)
        titles = [f"topic {k}" for k in chosen]
        return cls(words, probability, std, titles, n_topics=len(supported(inner))).plot(axes, **bar_kwargs)


def supported(estimator: Any) -> list[int]:
    """Topics that words support: all of a model that does not say."""
    prevalence = getattr(estimator, "topic_prevalence_", None)
    if prevalence is None:
        return list(range(len(estimator.components_)))
    if not np.any(prevalence):
        raise ValueError("No word supports any topic (topic_prevalence_ is 0): there is nothing to draw.")
    return [int(k) for k in np.flatnonzero(prevalence)]


def top_words(inner: Any, before: Any, names: Any, topics: list[int], n: int) -> tuple[Array, Array]:
    """(k, n) words of these topics and their columns, the most probable first."""
    order = np.argsort(-np.asarray(inner.components_, float)[topics], axis=1, kind="stable")[:, :n]
    names = column_names(names, fitted_names(inner, before), inner.n_features_in_)
    return names[order].astype(str), order
