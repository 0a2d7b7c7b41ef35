"""How the mean of y follows one column, or two together, averaged over rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator

from sksvi._names import shortened
from sksvi._typing.arrays import Axes, DataFrame, MatrixLike, PerRow, RandomState
from sksvi.displays import _common as common
from sksvi.displays._common import COLORS, MARKERS
from sksvi.inspection._changed_rows import frame_of, label_of
from sksvi.inspection._partial import partial_effect
from sksvi.predictive.plain import tail_of
from sksvi.predictive.wrappers import unwrapped

Array = np.ndarray

#: Rows of the data that a picture marks at most.
MOST_ROWS = 200
#: Lines of curves, another for each round of the colours, and the most curves of a panel.
LINES, MOST_CURVES = ("-", "--"), 2 * len(COLORS)


class PartialEffectDisplay:
    """Partial effect: the mean of y, all rows given one value of a column or of two, averaged, with its interval.

    One column is a curve with a band; a column of numbers and one of categories are a curve for each category; two
    columns of numbers are a map of the mean, with lines where half the interval's width is the same.

    Parameters
    ----------
    effects : DataFrame or list of DataFrame
        Tables of :func:`sksvi.inspection.partial_effect`, each a panel; of two columns and several labels of y a panel
        for each label. Categorical values, words and truth values are categories, others are numbers on a line.

    response : str, default="Mean of y"
        What the mean of y is, with its unit.

    coverage : float, default=0.9
        Posterior probability of the intervals, in (0, 1).

    rows : DataFrame or None
        Rows of the data, marked as ticks along axes of numbers, in a map as dots; None: no marks.

    Attributes
    ----------
    ax_ : matplotlib Axes or ndarray of them
        The axes: of several panels one for each.

    figure_ : matplotlib Figure
        The figure.

    lines_ : list of matplotlib Line2D
        Curves, panel by panel; of categories the points.

    bands_ : list of matplotlib artists
        Their intervals.

    contours_ : list of matplotlib QuadContourSet
        Maps of two columns of numbers.

    See Also
    --------
    sksvi.inspection.partial_effect : The numbers.

    Examples
    --------
    >>> import pandas as pd
    >>> from sksvi.displays import PartialEffectDisplay
    >>> mean = pd.Series([1.0, 1.5, 2.5], index=pd.Index([0.0, 1.0, 2.0], name="dose"))
    >>> effect = pd.DataFrame({"mean": mean, "lower": mean - 0.2, "upper": mean + 0.2})
    >>> PartialEffectDisplay(effect).plot().ax_.get_xlabel()
    'dose'
    """

    def __init__(
        self,
        effects: DataFrame | Sequence[DataFrame],
        response: str = "Mean of y",
        *,
        coverage: float = 0.9,
        rows: DataFrame | None = None,
    ) -> None:
        tail_of(coverage)
        self.effects = [effects] if isinstance(effects, pd.DataFrame) else list(effects)
        if not self.effects:
            raise ValueError("there is no effect to draw: name a column, or a pair, in features.")
        self.response, self.coverage, self.rows = response, coverage, rows
        for table in self.effects:
            if {"mean", "lower", "upper"} - set(table.columns) or table.index.nlevels > 3 or not table.index.is_unique:
                raise ValueError(
                    "a table of an effect has columns mean, lower, upper, and a row for each value of a column or pair "
                    f"(and each class); found columns {list(table.columns)}, levels {list(table.index.names)}."
                )

    def plot(self, ax: Axes | None = None, **line_kwargs: Any) -> PartialEffectDisplay:
        """Draw the effects.

        Parameters
        ----------
        ax : matplotlib Axes, or of several panels a sequence of them, default=None
            Axes to draw on; None makes a new figure, in which curves share their vertical scale.

        **line_kwargs : dict
            Passed on to ``Axes.plot``, of categories to ``Axes.errorbar``, of maps to ``Axes.contourf``.

        Returns
        -------
        display : PartialEffectDisplay
            The display itself.
        """
        parts = [part for table in self.effects for part in _by_label(table)]
        size = (6.4, 4.8) if len(parts) == 1 else (4.8, 3.6)
        axes, made = common.panels(ax, len(parts), "ax must hold one Axes per panel", 3, size, 0.0, sharex=False)
        self.lines_: list[Any] = []
        self.bands_: list[Any] = []
        self.contours_: list[Any] = []
        curves = []
        for own, (label, table) in zip(axes, parts, strict=True):
            if table.index.nlevels == 2 and all(_numbers(table.index.unique(j)) for j in range(2)):
                self._plot_map(own, table, label, line_kwargs)
                continue
            shown = self._plot_curves(own, table, line_kwargs)
            common.note_above(own, "; ".join(filter(None, [label, shown])))
            curves.append(own)
        if made and len(curves) > 1:
            low, high = zip(*(own.get_ylim() for own in curves), strict=True)
            for own in curves:
                own.set_ylim(min(low), max(high))
        self.ax_, self.figure_ = axes[0] if len(axes) == 1 else axes, axes[0].figure
        return self

    def _plot_map(self, ax: Any, table: Any, label: str, kwargs: dict[str, Any]) -> None:
        names = list(table.index.names)
        x, y = (table.index.unique(j) for j in range(2))
        mean, lower, upper = (_by_second(table[part]).to_numpy().T for part in ("mean", "lower", "upper"))
        filled = ax.contourf(x, y, mean, **{"levels": 10, "cmap": "Blues"} | kwargs)
        half = (upper - lower) / 2.0
        if np.ptp(half) > 0.0:
            ax.clabel(ax.contour(x, y, half, levels=4, colors=COLORS[1], linewidths=1.0), fontsize="small")
        if self.rows is not None:
            ax.plot(*self.rows[names].to_numpy(float).T, ".", color="0.2", markersize=3, alpha=0.5)
        ax.set(xlim=(x[0], x[-1]), ylim=(y[0], y[-1]), xlabel=shortened(names[0], 60), ylabel=shortened(names[1], 60))
        common.scale_beside(filled, self.response)
        note = f"lines: half the width of the {100 * self.coverage:g} % interval"
        common.note_above(ax, "; ".join(filter(None, [label, note])))
        self.contours_.append(filled)

    def _plot_curves(self, ax: Any, table: Any, kwargs: dict[str, Any]) -> str:
        """Draw a curve for each category, evenly spaced ones where there are many; what is to be said of that."""
        if table.index.nlevels == 2 and _numbers(table.index.unique(1)):
            table = table.swaplevel()
        values = table.index.unique(0)
        several = table.index.nlevels == 2
        parts = [_by_second(table[part]) if several else table[[part]] for part in ("mean", "lower", "upper")]
        numbers, found = _numbers(values), parts[0].shape[1]
        count = min(found, MOST_CURVES)
        at = np.asarray(values, float) if numbers else np.arange(len(values))
        for k, place in enumerate(np.linspace(0, found - 1, count).astype(int)):
            mean, lower, upper = (part.iloc[:, place].to_numpy(float) for part in parts)
            style = {"label": shortened(parts[0].columns[place], 20)} if several else {}
            style |= {} if "c" in kwargs else {"color": COLORS[k % len(COLORS)]}
            round_of_colors = k // len(COLORS)
            if numbers:
                (line,) = ax.plot(at, mean, **style | {"linestyle": LINES[round_of_colors % len(LINES)]} | kwargs)
                look = {"alpha": 0.5 / (1 + count), "color": line.get_color(), "linewidth": 0}
                self.bands_.append(ax.fill_between(at, lower, upper, **look))
            else:
                style |= {"marker": MARKERS[round_of_colors % len(MARKERS)], "linestyle": "none"} | kwargs
                shift = (k - (count - 1) / 2) * 0.5 / count
                bars = ax.errorbar(at + shift, mean, yerr=[mean - lower, upper - mean], **style)
                line, *_ = bars.lines
                self.bands_.append(bars)
            self.lines_.append(line)
        if numbers:
            self._mark_rows(ax, at, values.name)
        else:
            _name_places(ax, [str(value) for value in values])
        ax.set(xlabel=shortened(values.name, 60), ylabel=f"{self.response}, {100 * self.coverage:g} % interval")
        if several:
            common.legend_outside(ax, title=shortened(table.index.names[1], 20))
        return f"{count} of {found} categories, evenly spaced" if count < found else ""

    def _mark_rows(self, ax: Any, at: Array, name: Any) -> None:
        """Ticks along the axis of numbers where the rows lie."""
        if self.rows is not None:
            rows = self.rows[name].to_numpy(float)
            rows = rows[(rows >= at[0]) & (rows <= at[-1])]
            place = {"color": "0.3", "alpha": 0.4, "transform": ax.get_xaxis_transform()}
            ax.plot(rows, np.zeros(len(rows)), "|", **place)

    @classmethod
    def from_estimator(
        cls,
        estimator: BaseEstimator,
        X: MatrixLike,
        features: str | int | tuple[str | int, str | int] | Sequence[str | int | tuple[str | int, str | int]],
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
        """Draw partial effects of columns of a fitted model, or of pairs of columns.

        Parameters
        ----------
        estimator : fitted estimator
            A linear model, one with mixed effects or a sparse Gaussian process; or a Pipeline, formula or search around
            one, whose transformers see the changed rows.

        X : {DataFrame, array-like} of shape (n, D)
            Rows to average over, as `predict` takes them.

        features : str, int, tuple of two, or list of these
            A column, by name, or by number in an array; a tuple of two columns is what both do together; a list has a
            panel for each.

        coverage : float, default=0.9
            Posterior probability of the intervals, in (0, 1).

        grid_resolution : int, default=40
            Values of a column of numbers, evenly between its 1st and 99th percentile, and half as many of either of two
            such columns; one of fewer values has those, and whole numbers are always those of the data. Of more
            categories so many, evenly spaced in their order.

        max_rows : int or None, default=500
            The most rows to average over, drawn at random; None: all.

        n_draws : int, default=400
            Draws from the posterior, at least 2.

        offset, exposure : float, default=None
            The same for all rows; None: an offset of 0, an exposure of 1.

        random_state : int, RandomState or None, default=0
            Of rows and draws; a number makes them the same for all panels.

        ax : matplotlib Axes, or of several panels a sequence of them, default=None
            Axes to draw on; None makes a new figure.

        **line_kwargs : dict
            Passed on to ``Axes.plot``, of categories to ``Axes.errorbar``, of maps to ``Axes.contourf``.

        Returns
        -------
        display : PartialEffectDisplay
            The display, drawn.

        Raises
        ------
        TypeError
            If there is no estimator inside that has draws of its latents.
        ValueError
            For a column that X does not have, and axes of another number than panels.

        Examples
        --------
        >>> from sklearn.datasets import load_breast_cancer
        >>> from sksvi import BayesianGLMClassifier, PartialEffectDisplay
        >>> X, y = load_breast_cancer(return_X_y=True, as_frame=True)
        >>> X = X[["mean radius", "mean texture"]]
        >>> model, pair = BayesianGLMClassifier().fit(X, y), ("mean radius", "mean texture")
        >>> display = PartialEffectDisplay.from_estimator(model, X, ["mean radius", pair], n_draws=50)
        >>> [ax.get_ylabel() for ax in display.ax_]
        ['P(target = 1), 90 % interval', 'mean texture']
        """
        options: dict[str, Any] = {"coverage": coverage, "grid_resolution": grid_resolution, "max_rows": max_rows}
        options |= {"n_draws": n_draws, "offset": offset, "exposure": exposure, "random_state": random_state}
        parts = [features] if isinstance(features, str | int | tuple) else list(features)
        tables = [partial_effect(estimator, X, part, **options) for part in parts]
        rows, named = frame_of(X)
        rows = rows.iloc[:: max(1, len(rows) // MOST_ROWS)]
        rows = rows.set_axis([label_of(name, named) for name in rows.columns], axis=1)
        display = cls(tables, _response(unwrapped(estimator)[0]), coverage=coverage, rows=rows)
        return display.plot(ax, **line_kwargs)


def _by_label(table: Any) -> list[tuple[str, Any]]:
    """What of a table is a panel: all of it, or of two columns the part of each label of y, with the label."""
    if table.index.nlevels < 3:
        return [("", table)]
    return [(str(label), table.xs(label, level=2)) for label in table.index.unique(2)]


def _by_second(column: Any) -> Any:
    """A column with two levels of the index as a table, in their order: rows by the first, columns by the second."""
    first, second = (column.index.unique(j) for j in range(2))
    return column.unstack().reindex(index=first, columns=second)


def _numbers(values: Any) -> bool:
    """Whether values are numbers on a line."""
    return bool(pd.api.types.is_numeric_dtype(values) and not pd.api.types.is_bool_dtype(values))


def _name_places(ax: Any, names: list[str]) -> None:
    """Names of places along the horizontal axis, turned where they are long together."""
    turned = sum(map(len, names)) > 60
    ax.set_xticks(np.arange(len(names)), names, rotation=45 if turned else 0, ha="right" if turned else "center")
    ax.set_xlim(-0.5, len(names) - 0.5)


def _response(inner: Any) -> str:
    """What the mean of y is."""
    likelihood = inner.likelihood_
    name = common.target_name(inner)
    if inner._response_names()[0] is not None:
        return "Probability" if name == "y" else f"Probability of {shortened(name, 20)}"
    if likelihood.traits.classifies:
        return f"P({shortened(common.outcome_name(inner), 30)})"
    return "Share of successes" if likelihood.traits.paired else f"Mean of {shortened(name, 20)}"
