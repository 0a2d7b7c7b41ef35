"""How the mean of y follows one column, averaged over rows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state

from sksvi._typing.arrays import ArrayLike, Axes, MatrixLike, Names, PerRow, RandomState
from sksvi.displays._common import COLORS, axes_for, legend_outside
from sksvi.estimators.checks import check_count
from sksvi.inspection._changed_rows import ChangedRowMeans, constant, frame_of, levelled_columns, with_column
from sksvi.inspection._effects import LEAST_DRAWS
from sksvi.predictive.plain import tail_of

#: Share of the data beyond the ends of the curve of a column of numbers, on either side.
OUTSIDE = 0.01


class PartialEffectDisplay:
    """Partial effect: the mean of y, all rows given one value of a column, averaged, against that value; with a band.

    Parameters
    ----------
    values : sequence of shape (G,)
        Values of the column: numbers in increasing order, or categories.

    mean, lower, upper : ndarray of shape (G,) or (G, K)
        Posterior mean of the average and its equal-tailed interval, of K labels where y has several.

    feature : str
        Name of the column.

    response : str, default="Mean of y"
        What the vertical axis shows, with its unit.

    class_names : sequence of str or None
        Name of each label; None for a single curve.

    coverage : float, default=0.9
        Posterior probability of the band, in (0, 1).

    rows : ndarray of shape (n,) or None
        Values that the data have, drawn as ticks along the horizontal axis; None: no ticks.

    Attributes
    ----------
    ax_ : matplotlib Axes
        The axes.

    figure_ : matplotlib Figure
        The figure.

    lines_ : list of matplotlib Line2D
        One curve per label; of categories the points.

    bands_ : list of matplotlib artists
        The intervals.

    Examples
    --------
    >>> import numpy as np
    >>> from sksvi.displays import PartialEffectDisplay
    >>> mean = np.array([1.0, 1.5, 2.5])
    >>> PartialEffectDisplay([0.0, 1.0, 2.0], mean, mean - 0.2, mean + 0.2, "dose").plot().ax_.get_xlabel()
    'dose'
    """

    def __init__(
        self,
        values: ArrayLike,
        mean: ArrayLike,
        lower: ArrayLike,
        upper: ArrayLike,
        feature: str | int,
        response: str = "Mean of y",
        class_names: Names | None = None,
        *,
        coverage: float = 0.9,
        rows: ArrayLike | None = None,
    ) -> None:
        tail_of(coverage)
        self.values, self.feature, self.response = list(cast("Iterable[Any]", values)), str(feature), response
        self.mean, self.lower, self.upper = (
            np.asarray(part, float).reshape(len(np.asarray(part)), -1) for part in (mean, lower, upper)
        )
        shapes = {part.shape for part in (self.mean, self.lower, self.upper)}
        if len(shapes) > 1 or len(self.values) != len(self.mean):
            raise ValueError(
                f"mean, lower and upper, of shapes {sorted(shapes)}, and the {len(self.values)} values must agree."
            )
        self.class_names = None if class_names is None else [str(name) for name in class_names]
        self.coverage, self.rows = coverage, None if rows is None else np.asarray(rows, float)

    def plot(self, ax: Axes | None = None, **line_kwargs: Any) -> PartialEffectDisplay:
        """Draw the curves.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on; None makes a new figure.

        **line_kwargs : dict
            Passed on to ``Axes.plot``, of categories to ``Axes.errorbar``.

        Returns
        -------
        display : PartialEffectDisplay
            The display itself.
        """
        ax = axes_for(ax)
        names: list[Any] = self.class_names or [None] * self.mean.shape[1]
        numbers = len(self.values) > 2 and not any(isinstance(value, bool | str) for value in self.values)
        at = np.asarray(self.values, float) if numbers else np.arange(len(self.values))
        self.lines_, self.bands_ = [], []
        for k, name in enumerate(names):
            mean, lower, upper = self.mean[:, k], self.lower[:, k], self.upper[:, k]
            named = {"label": name} | ({} if "c" in line_kwargs else {"color": COLORS[k % len(COLORS)]})
            if numbers:
                (line,) = ax.plot(at, mean, **(named | line_kwargs))
                self.bands_.append(ax.fill_between(at, lower, upper, alpha=0.25, color=line.get_color(), linewidth=0))
            else:
                shift = (k - (len(names) - 1) / 2) * 0.5 / len(names)
                style = {"fmt": "o"} | named | line_kwargs
                bars = ax.errorbar(at + shift, mean, yerr=[mean - lower, upper - mean], **style)
                line, *_ = bars.lines
                self.bands_.append(bars)
            self.lines_.append(line)
        if not numbers:
            turned = sum(len(str(value)) for value in self.values) > 60
            ax.set_xticks(
                at,
                [str(value) for value in self.values],
                rotation=45 if turned else 0,
                ha="right" if turned else "center",
            )
            ax.set_xlim(-0.5, len(at) - 0.5)
        elif self.rows is not None:
            ends = (self.rows >= at[0]) & (self.rows <= at[-1])
            ax.plot(
                self.rows[ends], np.zeros(ends.sum()), "|", color="0.3", alpha=0.4, transform=ax.get_xaxis_transform()
            )
        ax.set_xlabel(self.feature)
        ax.set_ylabel(f"{self.response}, {100 * self.coverage:g} % interval")
        if self.class_names is not None:
            legend_outside(ax)
        self.ax_, self.figure_ = ax, ax.figure
        return self

    @classmethod
    def from_estimator(
        cls,
        estimator: BaseEstimator,
        X: MatrixLike,
        feature: str | int,
        *,
        coverage: float = 0.9,
        grid_resolution: int = 40,
        max_rows: int | None = 500,
        n_draws: int = 400,
        offset: PerRow | None = None,
        exposure: PerRow | None = None,
        random_state: RandomState = 0,
        ax: Axes | None = None,
        **line_kwargs: Any,
    ) -> PartialEffectDisplay:
        """Draw the partial effect of a column of a fitted model.

        Parameters
        ----------
        estimator : fitted estimator
            A linear model, one with mixed effects or a sparse Gaussian process; or a Pipeline or search around one,
            whose transformers see the changed rows.

        X : {DataFrame, array-like} of shape (n, D)
            Rows to average over, as `predict` takes them.

        feature : str or int
            The column, by name, or by number in an array. A surface of two columns is ``predict`` at a grid of both.

        coverage : float, default=0.9
            Posterior probability of the band, in (0, 1).

        grid_resolution : int, default=40
            Values of a column of numbers, evenly between its 1st and 99th percentile; one of fewer values has those.

        max_rows : int or None, default=500
            The most rows to average over, drawn at random; None: all.

        n_draws : int, default=400
            Draws from the posterior, at least 2.

        offset, exposure : float, default=None
            The same for all rows; None: an offset of 0, an exposure of 1.

        random_state : int, RandomState or None, default=0
            Of rows and draws.

        ax : matplotlib Axes, default=None
            Axes to draw on; None makes a new figure.

        **line_kwargs : dict
            Passed on to ``Axes.plot``, of categories to ``Axes.errorbar``.

        Returns
        -------
        display : PartialEffectDisplay
            The display, drawn.

        Raises
        ------
        TypeError
            If there is no estimator inside that has draws of its latents.
        ValueError
            For a column that X does not have.

        Examples
        --------
        >>> from sklearn.datasets import load_breast_cancer
        >>> from sksvi import BayesianGLMClassifier, PartialEffectDisplay
        >>> X, y = load_breast_cancer(return_X_y=True, as_frame=True)
        >>> X = X[["mean radius", "mean texture"]]
        >>> display = PartialEffectDisplay.from_estimator(BayesianGLMClassifier().fit(X, y), X, "mean radius")
        >>> display.ax_.get_ylabel()
        'P(y = 1), 90 % interval'
        """
        tail, rng = tail_of(coverage), check_random_state(random_state)
        n_draws = check_count(n_draws, "n_draws", least=LEAST_DRAWS, bytes_each=16.0)
        answers = ChangedRowMeans(estimator, n_draws, int(rng.randint(2**31 - 1)), offset, exposure)
        table, named = frame_of(X)
        if feature not in list(table.columns):
            raise ValueError(f"feature must be a column of X, one of {list(table.columns)[:20]}; found {feature!r}.")
        column = table[feature]
        if max_rows is not None and len(table) > check_count(max_rows, "max_rows"):
            table = table.iloc[np.sort(rng.choice(len(table), max_rows, replace=False))]
        grid = check_count(grid_resolution, "grid_resolution", least=2)
        values, numbers = _grid(column, grid, feature in levelled_columns(answers.inner))
        groups, draws = np.zeros(len(table), int), []
        for value in values:
            changed = constant(table[feature], value, numbers)
            draws.append(answers.averages(with_column(table, feature, changed, named), groups, 1, None)[0])
        lower, mean, upper = (part.reshape(len(values), -1) for part in _ends(np.stack(draws), tail))
        labels = answers.names if answers.names[0] is not None else None
        rows = column.to_numpy(float)[:: max(1, len(column) // 200)] if numbers else None
        shown = values if numbers else [str(value) for value in values]
        display = cls(
            shown, mean, lower, upper, feature, _response(answers.inner), labels, coverage=coverage, rows=rows
        )
        return display.plot(ax, **line_kwargs)


def _ends(draws: np.ndarray, tail: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Lower end, mean and upper end over draws, the second axis."""
    lower, upper = np.quantile(draws, [tail, 1.0 - tail], axis=1)
    return lower, draws.mean(axis=1), upper


def _grid(column: Any, resolution: int, levels: bool) -> tuple[list[Any], bool]:
    """Values to show, and whether they are numbers on a line; whole numbers, which may be names, are those of the data.

    levels: its values are names.
    """
    numbers = pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column) and not levels
    found = list(column.cat.categories) if hasattr(column, "cat") else sorted(column.dropna().unique().tolist())
    if len(found) > resolution and (not numbers or pd.api.types.is_integer_dtype(column)):
        found = [found[int(i)] for i in np.linspace(0, len(found) - 1, resolution)]
    elif numbers and len(found) > min(resolution, 10) and not pd.api.types.is_integer_dtype(column):
        low, high = np.nanquantile(column.to_numpy(float), [OUTSIDE, 1.0 - OUTSIDE])
        return np.linspace(low, high, resolution).tolist(), True
    return found, bool(numbers) and len(found) > 2


def _response(inner: Any) -> str:
    """What the mean of y is."""
    likelihood = inner.likelihood_
    if inner._response_names()[0] is not None:
        return "Probability"
    if likelihood.traits.classifies:
        classes = getattr(inner, "classes_", [0, 1])
        return f"P(y = {classes[1]})"
    return "Share of successes" if likelihood.traits.paired else "Mean of y"
