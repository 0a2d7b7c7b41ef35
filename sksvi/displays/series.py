"""A time series with its fitted band and a forecast fan, or the parts of its latent with theirs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator

from sksvi._typing.arrays import REAL, WHOLE, Axes, DataFrame, MatrixLike, PerRow, Series
from sksvi.displays import _common as common
from sksvi.displays._common import COLORS
from sksvi.predictive.plain import tail_of

Array = np.ndarray


class TimeSeriesDisplay:
    """A fitted time series: observations, their smoothed band, a fan of forecasts; or the parts of the latent.

    Bands are equal-tailed intervals: of the observations (noise included) for the series and its forecasts, but of the
    probability where an observation is 0 or 1, or a number of successes, whose share is drawn; of the parts themselves
    for the components.

    Parameters
    ----------
    observed : Series
        Observations, NaN where there is none, on their index.

    smoothed : DataFrame
        Columns mean, lower, upper on the same index, given all data.

    forecasts : dict of float to DataFrame, default=None
        By coverage: columns mean (or median), lower, upper on the index that follows.

    components : DataFrame, default=None
        Columns (name, mean) and (name, std).

    coverage : float, default=0.9
        Of the bands of `smoothed` and of the components, in (0, 1).

    unit : str, default="units of the latent"
        What the components are in.

    Attributes
    ----------
    ax_ : matplotlib Axes or ndarray of them
        The axes: of components one for each.

    figure_ : matplotlib Figure
        The figure.

    points_ : matplotlib Line2D
        The observations.

    lines_ : list of matplotlib Line2D
        Means: of the smoothed series and of the forecasts, or of the components.

    bands_ : list of matplotlib collections
        Intervals, in the order of `lines_`; of forecasts from the widest to the narrowest.

    Raises
    ------
    ValueError
        For a coverage outside of (0, 1), and for `observed` and `smoothed` of different lengths.

    See Also
    --------
    sksvi.DynamicGLM : The estimator whose fits are drawn.

    Examples
    --------
    >>> import numpy as np
    >>> from sksvi import DynamicGLM
    >>> from sksvi.displays import TimeSeriesDisplay
    >>> model = DynamicGLM().fit(None, np.random.default_rng(0).poisson(5, 40))
    >>> display = TimeSeriesDisplay.from_estimator(model, steps=6)
    >>> len(display.bands_)  # smoothed, and the forecasts' 90 % and 50 %
    3
    """

    def __init__(
        self,
        observed: Series,
        smoothed: DataFrame,
        forecasts: Mapping[float, DataFrame] | None = None,
        components: DataFrame | None = None,
        *,
        coverage: float = 0.9,
        unit: str = common.LATENT,
    ) -> None:
        tail_of(coverage)
        for each in forecasts or {}:
            tail_of(each)
        if len(observed) != len(smoothed):
            raise ValueError(f"observed has {len(observed)} points and smoothed {len(smoothed)}: give both for all.")
        self.observed, self.smoothed, self.coverage = observed, smoothed, coverage
        self.forecasts = dict(sorted((forecasts or {}).items(), reverse=True))
        self.components, self.unit = components, unit

    def plot(self, ax: Axes | None = None, *, kind: str = "series", last: int | None = None) -> TimeSeriesDisplay:
        """Draw the series, or its components.

        Parameters
        ----------
        ax : matplotlib Axes, or for components a sequence of them, default=None
            None makes a new figure.

        kind : {"series", "components"}, default="series"
            What to draw.

        last : int, default=None
            So many of the last observed points; None: all.

        Returns
        -------
        display : TimeSeriesDisplay
            The display itself.

        Raises
        ------
        ValueError
            For a `kind` that is neither, a `last` below 1, components that are not there, or another number of axes.
        """
        draw = {"series": self._plot_series, "components": self._plot_components}
        n, check = len(self.observed), common.check_kind(kind, draw)
        return draw[check](ax, max(0, n - (common.check_most("last", last) or n)))

    def _plot_series(self, ax: Any, start: int) -> TimeSeriesDisplay:
        ax = common.axes_for(ax, (8.0, 4.0))
        n, after = len(self.observed), next(iter(self.forecasts.values()), None)
        at = axis_of(self.observed.index, None if after is None else after.index)
        now = at[start:n]
        band, mean = self.smoothed.iloc[start:], COLORS[0]
        self.lines_, self.bands_ = [], []
        label = f"smoothed mean, {100 * self.coverage:g} %"
        self.bands_.append(ax.fill_between(now, band["lower"], band["upper"], color=mean, alpha=0.2, linewidth=0))
        self.lines_ += ax.plot(now, band["mean"], color=mean, linewidth=1.2, label=label)
        for k, table in enumerate(self.forecasts.values()):
            later, shade = at[n:], 0.2 + 0.25 * k / max(1, len(self.forecasts) - 1)
            ends = table["lower"], table["upper"]
            if len(table) > 1:
                fan = ax.fill_between(later, *ends, color=COLORS[1], alpha=shade, linewidth=0)
            else:  # a band of one point has no width
                fan = ax.vlines(later, *ends, color=COLORS[1], alpha=shade, linewidth=6)
            self.bands_.append(fan)
            if k == len(self.forecasts) - 1:
                shares = " and ".join(f"{100 * each:g} %" for each in sorted(self.forecasts))
                centre = table["mean" if "mean" in table else "median"]
                mark = {"marker": "o", "markersize": 3} if len(table) == 1 else {}
                self.lines_ += ax.plot(
                    later, centre, color=COLORS[1], linewidth=1.5, label=f"forecast {centre.name}, {shares}", **mark
                )
        size = 3.0 if n - start <= 300 else 1.5
        (self.points_,) = ax.plot(
            now, self.observed.iloc[start:], "k.", markersize=size, label="observed", linestyle="none"
        )
        ax.margins(x=0.01)
        ax.set(xlabel=time_name(self.observed.index), ylabel=common.name_of(self.observed))
        common.legend_above(ax)
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _plot_components(self, ax: Any, start: int) -> TimeSeriesDisplay:
        if self.components is None:
            raise ValueError("there are no components to draw: give components, or use from_estimator.")
        names = list(dict.fromkeys(self.components.columns.get_level_values(0)))
        if ax is None:
            options: dict[str, Any] = {"sharex": True, "squeeze": False, "layout": "constrained"}
            _, ax = common.pyplot().subplots(len(names), 1, figsize=(8.0, 0.8 + 1.6 * len(names)), **options)
        axes = np.atleast_1d(np.asarray(ax, dtype=object)).ravel()
        if len(axes) != len(names):
            raise ValueError(f"ax has {len(axes)} axes for the {len(names)} components {names}.")
        at = axis_of(self.components.index, None)[start:]
        self.lines_, self.bands_ = [], []
        for own, name in zip(axes, names, strict=True):
            part = self.components[name].iloc[start:]
            low, high = common.central(part["mean"], part["std"], self.coverage)
            self.bands_.append(own.fill_between(at, low, high, color=COLORS[0], alpha=0.2, linewidth=0))
            self.lines_ += own.plot(at, part["mean"], color=COLORS[0], linewidth=1.2)
            if name != "level":
                own.axhline(0.0, color="0.6", linewidth=0.8, zorder=0)
            own.set_ylabel(name)
            own.margins(x=0.01)
        axes[-1].set_xlabel(time_name(self.components.index))
        title = f"Parts of the latent ({self.unit}), {100 * self.coverage:g} % intervals"
        axes[0].set_title(title, fontsize="medium")
        self.ax_, self.figure_ = axes, axes[0].figure
        return self

    @classmethod
    def from_estimator(
        cls,
        estimator: BaseEstimator,
        *,
        kind: str = "series",
        steps: int = 0,
        X: MatrixLike | None = None,
        offset: PerRow | None = None,
        coverage: float = 0.9,
        fan: Sequence[float] = (0.5, 0.9),
        last: int | None = None,
        ax: Axes | None = None,
    ) -> TimeSeriesDisplay:
        """Draw a fitted `DynamicGLM`.

        Parameters
        ----------
        estimator : fitted estimator
            Has ``forecast`` and ``components_``; a Pipeline or search stands for the estimator inside, whose columns
            `X` are.

        kind : {"series", "components"}, default="series"
            The series with its forecasts, or the parts of its latent.

        steps : int, default=0
            Points ahead.

        X : array-like of shape (steps, D), default=None
            Of the points ahead, as ``forecast`` takes them.

        offset : array-like of shape (steps,), default=None
            The same: the log exposure of counts.

        coverage : float, default=0.9
            Of the band around the observed points, and of the components, in (0, 1).

        fan : sequence of float, default=(0.5, 0.9)
            Coverages of the intervals of forecasts.

        last : int, default=None
            So many of the last observed points; None: all.

        ax : matplotlib Axes, or for components a sequence of them, default=None
            None makes a new figure.

        Returns
        -------
        display : TimeSeriesDisplay
            The display, drawn.

        Raises
        ------
        NotFittedError
            If the estimator is not fitted.
        ValueError
            For a fit to several series, `steps` that are no whole number from 0 on, a coverage outside of (0, 1), and
            whatever ``forecast`` and `plot` refuse.
        """
        model = common.unwrapped(estimator)[0]
        common.refuse_several(model)
        components = common.fitted(model, "components_")
        steps = common.check_whole("steps", steps, 0)
        observed = model._observed()
        ahead = model.forecast
        if model.likelihood_.traits.paired or model.likelihood_.traits.classifies:
            mean, variance = model.predict_latent()
            low, high = map(model.likelihood_.mean, common.central(mean, np.sqrt(variance), coverage))
            ahead = partial(_forecast_probabilities, model)
        else:
            low, high = model.predict_interval(None, coverage).T
        smoothed = pd.DataFrame({"mean": model.predict(), "lower": low, "upper": high}, index=observed.index)
        forecasts = {float(each): ahead(steps, X, offset, each) for each in fan} if steps else None
        display = cls(observed, smoothed, forecasts, components, coverage=coverage, unit=common.latent_unit(model))
        return display.plot(ax, kind=kind, last=last)


def _forecast_probabilities(model: Any, *arguments: Any) -> Any:
    """Median and interval of the probability of success, in the place of the latent's."""
    latent = model.forecast_latent(*arguments)
    columns = {"median": latent["mean"], "lower": latent["lower"], "upper": latent["upper"]}
    found = {name: model.likelihood_.mean(column.to_numpy()) for name, column in columns.items()}
    return pd.DataFrame(found, index=latent.index)


def time_name(index: Any) -> str:
    """What the axis of time is called: by the index, else by what its values are."""
    if index.name is not None:
        return str(index.name)
    return "Point" if index.dtype.kind in WHOLE else "Time"


def axis_of(index: Any, later: Any) -> Array:
    """Places of points on the axis of time: dates or numbers where the index has them, else their count."""
    whole = index if later is None else index.append(later) if type(index) is type(later) else None
    n = len(index) + (0 if later is None else len(later))
    if isinstance(index, pd.RangeIndex) and isinstance(later, pd.RangeIndex):
        whole = pd.Index(np.concatenate([np.asarray(index), np.asarray(later)]))
    if isinstance(whole, pd.PeriodIndex):
        return np.asarray(whole.to_timestamp())
    if isinstance(whole, pd.DatetimeIndex):
        return np.asarray(whole.tz_localize(None) if whole.tz is not None else whole)
    return np.asarray(whole) if whole is not None and whole.dtype.kind in REAL else np.arange(n)
