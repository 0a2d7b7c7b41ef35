"""The lower bound pass by pass."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from sksvi._names import apart
from sksvi._typing.arrays import Axes
from sksvi.displays._common import COLORS, axes_for, check_one_of, fitted, legend_outside, note_above, unwrapped

_COLUMNS = {"pass": "Passes over the data", "seconds": "Seconds", "rows": "Rows seen", "step": "Steps"}

#: Least distance that is told apart from none, in nats.
LEAST = 1e-3
#: Lines of more fits than there are colours.
DASHES = ("-", "--", ":", "-.")
#: Entries of a legend that has room beside lines.
MOST_INSIDE = 7


class LowerBoundDisplay:
    """Lower bound on the log evidence, pass by pass, of one or several fits.

    By default on a logarithmic scale of the distance to the best bound that any of the fits reached, so that the first
    passes do not hide the last ones. A fit by mini-batches or draws estimates its bound, and evaluates it over all rows
    where it ends: estimates are a pale line, exact values points. The last bound of such a fit is its `lower_bound_`,
    free of noise but for models that say otherwise.

    Parameters
    ----------
    traces : mapping of str to (ndarray, ndarray) or (ndarray, ndarray, ndarray)
        For each fit its name, the horizontal coordinates, the bounds in nats, and whether each is exact; all are where
        that is not said. Of shape (n_passes,) each.

    x : {"pass", "seconds", "rows", "step"}, default="pass"
        What the horizontal coordinates are.

    scale : {"distance", "bound"}, default="distance"
        "distance": to the best exact bound of all (to the best estimate where none is exact), plus `small`, on a
        logarithmic scale; estimates above it have no logarithm and are left out, which the legend says. "bound": the
        bounds themselves.

    Attributes
    ----------
    ax_ : matplotlib Axes
        The axes.

    figure_ : matplotlib Figure
        The figure.

    lines_ : list of matplotlib Line2D
        One line per fit, in the order of ``traces``: its estimates where it has any.

    exact_ : list of matplotlib Line2D
        The exact values of each fit that has estimates too.

    best : float
        The best bound, in nats.

    small : float
        What is added to distances, in nats: half of the smallest one, at least 0.001, so that the best bound has a
        place.

    Examples
    --------
    >>> import numpy as np
    >>> from sksvi.displays import LowerBoundDisplay
    >>> display = LowerBoundDisplay({"cvi": (np.array([1, 2, 3]), np.array([-90.0, -81.0, -80.5]))})
    >>> display.plot().lines_[0].get_ydata()  # 9.5, 0.5 and 0 nats below the best, plus 0.25
    array([9.75, 0.75, 0.25])
    """

    def __init__(self, traces: Mapping[str, tuple], *, x: str = "pass", scale: str = "distance") -> None:
        check_one_of("x", x, _COLUMNS)
        check_one_of("scale", scale, ("distance", "bound"))
        self.traces = {name: _trace(name, *trace) for name, trace in traces.items()}
        self.x, self.scale = x, scale
        every, exact = (np.concatenate([trace[i] for trace in self.traces.values()] or [np.empty(0)]) for i in (1, 2))
        every, exact = every.astype(float), exact.astype(bool)
        judged = every[exact & np.isfinite(every)] if np.any(exact & np.isfinite(every)) else every[np.isfinite(every)]
        self.best = float(judged.max()) if len(judged) else float("nan")
        below = self.best - every[np.isfinite(every) & (every < self.best)]
        self.small = max(LEAST, 0.5 * float(below.min())) if len(below) else LEAST

    def plot(self, ax: Axes | None = None, **line_kwargs: Any) -> LowerBoundDisplay:
        """Draw the bounds.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on; None makes a new figure.

        **line_kwargs : dict
            Passed on to ``Axes.plot`` for every line.

        Returns
        -------
        display : LowerBoundDisplay
            The display itself.
        """
        ax = axes_for(ax, (6.4 if len(self.traces) <= MOST_INSIDE else 9.0, 4.8))
        self.lines_: list[Any] = []
        self.exact_: list[Any] = []
        left_out = 0
        for k, (name, (x, bound, exact)) in enumerate(zip(apart(self.traces), self.traces.values(), strict=True)):
            style: dict[str, Any] = {"color": COLORS[k % len(COLORS)], "label": name}
            style["linestyle"] = DASHES[k // len(COLORS) % len(DASHES)]
            if len(x) == 1:  # a line through one point would be invisible
                style["marker"] = "o"
            elif not exact.all():
                style |= {"alpha": 0.5, "linewidth": 1.0}
            height, above = self._heights(bound)
            left_out += above
            drawn = np.ones(len(x), bool) if exact.all() else ~exact
            self.lines_ += ax.plot(x[drawn], height[drawn], **(style | line_kwargs))
            if not exact.all():
                color = self.lines_[-1].get_color()
                self.exact_ += ax.plot(x[exact], height[exact], "o", color=color, markersize=4, label="_exact")
        ax.set_xlabel(_COLUMNS[self.x])
        if self.x in ("pass", "step") and ax.get_xscale() == "linear":
            ax.locator_params(axis="x", integer=True)
        ax.set_ylabel("Lower bound (nats)")
        if self.scale == "distance":
            ax.set_yscale("log")
            ax.set_ylabel("Distance to the best lower bound (nats)")
            note_above(ax, f"best lower bound: {self.best:,.2f} nats, distance 0, drawn at {self.small:.2g}")
        self._name_lines(ax, left_out)
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _heights(self, bound: np.ndarray) -> tuple[np.ndarray, int]:
        """Vertical coordinates of bounds, NaN where there is none, and of how many that is so."""
        if self.scale == "bound":
            return bound, 0
        above = bound > self.best
        return np.where(above, np.nan, self.best - bound + self.small), int(above.sum())

    def _name_lines(self, ax: Any, left_out: int) -> None:
        """The legend: the fits, and which values are exact."""
        from matplotlib.lines import Line2D

        handles = list(self.lines_)
        if self.exact_:
            more = f" ({left_out:,} above the best left out)" if left_out else ""
            handles.append(Line2D([], [], color="0.4", linewidth=1.0, alpha=0.5, label=f"estimated{more}"))
            handles.append(Line2D([], [], color="0.4", marker="o", markersize=4, linestyle="none", label="exact"))
        if len(handles) > MOST_INSIDE:
            legend_outside(ax, handles=handles)
        else:
            ax.legend(handles=handles, fontsize="small")

    @classmethod
    def from_estimator(
        cls,
        estimator: BaseEstimator,
        *,
        x: str = "pass",
        scale: str = "distance",
        ax: Axes | None = None,
        **line_kwargs: Any,
    ) -> LowerBoundDisplay:
        """Draw the bound per pass of a fitted estimator, or of several.

        Parameters
        ----------
        estimator : fitted estimator, or mapping of str to fitted estimator
            Estimators with ``history_``; a Pipeline or search stands for the estimator inside. The keys of a mapping
            name the lines.

        x : {"pass", "seconds", "rows", "step"}, default="pass"
            Column of ``history_`` along the horizontal axis.

        scale : {"distance", "bound"}, default="distance"
            Distances to the best exact bound of all fits on a logarithmic scale, or the bounds themselves.

        ax : matplotlib Axes, default=None
            Axes to draw on; None makes a new figure.

        **line_kwargs : dict
            Passed on to ``Axes.plot`` for every line.

        Returns
        -------
        display : LowerBoundDisplay
            The display, drawn.

        Raises
        ------
        NotFittedError
            If an estimator is not fitted.

        Examples
        --------
        >>> from sklearn.datasets import load_breast_cancer
        >>> from sklearn.preprocessing import scale
        >>> from sksvi import BayesianGLMClassifier, LowerBoundDisplay
        >>> X, y = load_breast_cancer(return_X_y=True)
        >>> fits = {name: BayesianGLMClassifier(algorithm=name).fit(scale(X), y) for name in ("cvi", "mc-ssvi")}
        >>> len(LowerBoundDisplay.from_estimator(fits).lines_)
        2
        """
        fits = estimator if isinstance(estimator, Mapping) else {type(unwrapped(estimator)[0]).__name__: estimator}
        check_one_of("x", x, _COLUMNS)
        traces = {str(name): _history(unwrapped(fit)[0], x) for name, fit in fits.items()}
        return cls(traces, x=x, scale=scale).plot(ax, **line_kwargs)


def _history(inner: Any, x: str) -> tuple[np.ndarray, ...]:
    """The trace of a fit: its passes, and the exact bound that one with estimates ends with."""
    history = fitted(inner, "history_")
    at, bound = history[x].to_numpy(), history["bound"].to_numpy()
    if "exact" not in history:
        return at, bound
    exact = history["exact"].to_numpy()
    if len(exact) and not exact[-1] and getattr(getattr(inner, "state_", None), "finished", False):
        return np.append(at, at[-1]), np.append(bound, inner.lower_bound_), np.append(exact, True)
    return at, bound, exact


def _trace(name: str, x: Any, bound: Any, exact: Any = None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Coordinates, bounds and which are exact, checked."""
    x, bound = np.asarray(x), np.asarray(bound, float)
    exact = np.ones(bound.shape, bool) if exact is None else np.asarray(exact, bool)
    if bound.ndim != 1 or not x.shape == bound.shape == exact.shape:
        raise ValueError(f"the trace {name!r} has shapes {x.shape}, {bound.shape}, {exact.shape}: give one per pass.")
    return x, bound, exact
