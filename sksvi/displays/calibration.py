"""Whether predictive intervals hold what they promise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from sksvi._names import shortened
from sksvi._typing.arrays import ArrayLike, Axes, MatrixLike, PerRow
from sksvi.displays._common import COLORS, axes_for, check_whole, legend_above, name_of, target_name, unwrapped
from sksvi.displays._predicted import steps, table, values
from sksvi.likelihoods.count_quantiles import binomial_quantile
from sksvi.predictive.plain import tail_of

Array = np.ndarray

#: Coverages that are looked at.
COVERAGES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)


class IntervalCoverageDisplay:
    """Share of observations inside predictive intervals, beside the share that the intervals promise.

    Below the diagonal intervals are too narrow, above it too wide. The band holds 95 % of what sampling alone makes of
    intervals that are right, at each coverage by itself: binomial, rows independent. Intervals of whole numbers hold
    more than they promise, since they cannot end between two; with ends drawn at random (Dunn and Smyth 1996) those of
    a model that is right hold exactly what they promise, and their share is the second line.

    Parameters
    ----------
    nominal : array-like of shape (m,)
        Coverages that the intervals promise, in (0, 1).

    observed : array-like of shape (m,)
        Shares of the observations inside.

    n : int
        Observations.

    randomized : array-like of shape (m,), default=None
        The shares with random ends, on average over these, where observations are whole numbers.

    name : str, default="y"
        Name of what is observed.

    Attributes
    ----------
    ax_ : matplotlib Axes
        The axes.

    figure_ : matplotlib Figure
        The figure.

    line_ : matplotlib Line2D
        Observed shares.

    randomized_line_ : matplotlib Line2D or None
        Those with random ends.

    band_ : matplotlib collection
        What sampling alone makes of intervals that are right.

    lower, upper : ndarray of shape (m,)
        Its ends.

    Raises
    ------
    ValueError
        For coverages outside of (0, 1), shares outside of [0, 1], and shapes that differ.

    See Also
    --------
    sksvi.PITDisplay : The whole distribution, not its intervals.

    Examples
    --------
    >>> import numpy as np
    >>> from sksvi.displays import IntervalCoverageDisplay
    >>> y = np.arange(10.0)
    >>> quantiles = np.column_stack([np.full(10, 2.0), np.full(10, 6.0)])
    >>> display = IntervalCoverageDisplay.from_predictions(y, quantiles, [0.25, 0.75])
    >>> display.nominal, display.observed
    (array([0.5]), array([0.5]))
    """

    def __init__(
        self, nominal: ArrayLike, observed: ArrayLike, n: int, randomized: ArrayLike | None = None, name: str = "y"
    ) -> None:
        self.nominal, self.observed = values(nominal, "nominal"), values(observed, "observed")
        self.randomized = None if randomized is None else values(randomized, "randomized")
        for coverage in self.nominal:
            tail_of(float(coverage))
        shares = [self.observed] if self.randomized is None else [self.observed, self.randomized]
        for share in shares:
            if share.shape != self.nominal.shape or not np.all((share >= 0) & (share <= 1)):
                raise ValueError(
                    f"shares must be {len(self.nominal)} numbers in [0, 1], one for each coverage; found {share!r}."
                )
        self.n, self.name = check_whole("n, the number of observations,", n), name
        self.lower, self.upper = (binomial_quantile(end, self.n, self.nominal) / self.n for end in (0.025, 0.975))

    def plot(self, ax: Axes | None = None, **line_kwargs: Any) -> IntervalCoverageDisplay:
        """Draw the shares.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on; None makes a new figure.

        **line_kwargs : dict
            Passed on to ``Axes.plot`` for the observed shares.

        Returns
        -------
        display : IntervalCoverageDisplay
            The display itself.
        """
        ax = axes_for(ax, (5.0, 4.8))
        x, order = 100 * self.nominal, np.argsort(self.nominal)
        ax.plot([0, 100], [0, 100], color="0.5", linewidth=0.8, linestyle="--", label="as promised")
        at, lower, upper = (
            np.concatenate([[0.0], 100 * part[order], [100.0]]) for part in (self.nominal, self.lower, self.upper)
        )
        self.band_ = ax.fill_between(at, lower, upper, color="0.85", linewidth=0, label="95 % by sampling alone")
        self.randomized_line_ = None
        style: dict[str, Any] = {"color": COLORS[0], "marker": "o", "markersize": 4, "label": "observed"}
        if self.randomized is not None:
            other = style | {"color": COLORS[1], "marker": "s", "linewidth": 1.0, "label": "with random ends"}
            (self.randomized_line_,) = ax.plot(x[order], 100 * self.randomized[order], **other)
            style["label"] = "observed, of whole numbers"
        style |= line_kwargs
        self.line_ = ax.plot(x[order], 100 * self.observed[order], **style)[0]
        ax.set(xlim=(0, 100), ylim=(0, 100), aspect="equal", xlabel="Coverage of the interval (%)")
        ax.set_ylabel(f"Share of {self.n:,} observations of {shortened(self.name)} inside (%)")
        legend_above(ax, ncols=2)
        self.ax_, self.figure_ = ax, ax.figure
        return self

    @classmethod
    def from_estimator(
        cls,
        estimator: BaseEstimator,
        X: MatrixLike | None = None,
        y: PerRow | None = None,
        *,
        coverages: Sequence[float] = COVERAGES,
        offset: PerRow | None = None,
        exposure: PerRow | None = None,
        ax: Axes | None = None,
        **line_kwargs: Any,
    ) -> IntervalCoverageDisplay:
        """Draw the coverage of the equal-tailed predictive intervals of a fitted regressor.

        Parameters
        ----------
        estimator : fitted estimator
            One of sksvi's regressors or time series; a Pipeline, search or TransformedTargetRegressor stands for the
            estimator inside.

        X : array-like of shape (n, D)
            Rows that the fit has not seen, as the estimator's (or its wrapper's) ``predict`` takes them.

        y : array-like of shape (n,), binomial (n, 2)
            Their values. A `DynamicGLM` without X and y: the fitted points, as predicted one step ahead.

        coverages : sequence of float, default=(0.1, …, 0.9, 0.95)
            In (0, 1).

        offset, exposure : array-like of shape (n,), default=None
            Of the rows of X.

        ax : matplotlib Axes, default=None
            Axes to draw on; None makes a new figure.

        **line_kwargs : dict
            Passed on to ``Axes.plot``.

        Returns
        -------
        display : IntervalCoverageDisplay
            The display, drawn.

        Raises
        ------
        NotFittedError
            If the estimator is not fitted.
        TypeError
            For an estimator without a predictive distribution.
        ValueError
            For a classifier, y that the likelihood does not allow, and coverages outside of (0, 1).

        Examples
        --------
        >>> from sklearn.datasets import load_diabetes
        >>> from sksvi import BayesianGLMRegressor, IntervalCoverageDisplay
        >>> X, y = load_diabetes(return_X_y=True)
        >>> model = BayesianGLMRegressor().fit(X[:300], y[:300])
        >>> display = IntervalCoverageDisplay.from_estimator(model, X[300:], y[300:], coverages=[0.5, 0.9])
        >>> bool((display.observed >= display.lower).all() and (display.observed <= display.upper).all())
        True
        """
        nominal = values(coverages, "coverages")
        tails = np.array([tail_of(float(coverage)) for coverage in nominal])[:, None]
        below, at_most = steps(estimator, X, y, offset, exposure)
        # y is no less than the quantile of `tail` where P(Y <= y) reaches it, and the like above: no quantile needed.
        observed = np.mean((at_most >= tails) & (below < 1.0 - tails), axis=1)
        randomized = None
        if np.any(at_most > below):
            width = np.where(at_most > below, at_most - below, 1.0)
            inside = np.minimum(at_most, 1.0 - tails) - np.maximum(below, tails)
            randomized = np.mean(np.where(at_most > below, np.maximum(inside, 0.0) / width, 0.0), axis=1)
        name = target_name(unwrapped(estimator)[0], y)
        return cls(nominal, observed, len(below), randomized, name).plot(ax, **line_kwargs)

    @classmethod
    def from_predictions(
        cls, y: PerRow, quantiles: ArrayLike, levels: ArrayLike, *, ax: Axes | None = None, **line_kwargs: Any
    ) -> IntervalCoverageDisplay:
        """Draw the coverage of intervals between predicted quantiles.

        Parameters
        ----------
        y : array-like of shape (n,)
            Observations.

        quantiles : array-like of shape (n, m)
            Predicted quantiles of each, for example of ``predict_quantiles``.

        levels : array-like of shape (m,)
            Their probabilities, in (0, 1), in pairs p and 1 - p. A level of 0.5 has no interval and is left out.

        ax : matplotlib Axes, default=None
            Axes to draw on; None makes a new figure.

        **line_kwargs : dict
            Passed on to ``Axes.plot``.

        Returns
        -------
        display : IntervalCoverageDisplay
            The display, drawn.

        Raises
        ------
        ValueError
            For levels that are not in pairs, and shapes that do not belong together.
        """
        name, y, levels = name_of(y), values(y), values(levels, "levels")
        quantiles = table(quantiles, len(y), "quantiles")
        if quantiles.shape[1] != len(levels):
            raise ValueError(f"quantiles has {quantiles.shape[1]} columns for the {len(levels)} levels.")
        if not np.all((levels > 0) & (levels < 1)):
            raise ValueError(f"levels must lie strictly between 0 and 1; found {levels.tolist()}.")
        lower = np.sort(levels[levels < 0.5 - 1e-9])
        at_low = [int(np.argmin(np.abs(levels - level))) for level in lower]
        at_high = [int(np.argmin(np.abs(levels - (1.0 - level)))) for level in lower]
        if (
            not len(lower)
            or 2 * len(lower) != np.sum(np.abs(levels - 0.5) > 1e-9)
            or not np.allclose(levels[at_high], 1.0 - lower, atol=1e-9)
        ):
            raise ValueError(f"levels must come in pairs p and 1 - p, an interval's two ends; found {levels.tolist()}.")
        inside = (y[:, None] >= quantiles[:, at_low]) & (y[:, None] <= quantiles[:, at_high])
        return cls(1.0 - 2.0 * lower, inside.mean(axis=0), len(y), name=name).plot(ax, **line_kwargs)
