"""Predictions along one column, or in time: their mean, their bands and the data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
from scipy.special import ndtri
from sklearn.base import BaseEstimator

from sksvi._names import shortened
from sksvi._typing.arrays import REAL, WHOLE, ArrayLike, Axes, MatrixLike, PerRow
from sksvi.displays import _common as common
from sksvi.displays._common import COLORS
from sksvi.displays._predicted import Unwrapped, unwrap_predictor
from sksvi.estimators.checks import check_row_values, n_rows
from sksvi.predictive.plain import tail_of

Array = np.ndarray


class PredictionBandDisplay:
    """Predictions along one column, or in time: a line, bands of several coverages, and the data.

    Bands are equal-tailed predictive intervals of an observation, noise included. Of labels and successes in trials,
    whose observations are 0 or 1, they are intervals of the probability, and the data are shares.

    Parameters
    ----------
    x : array-like of shape (m,)
        Places, in increasing order: numbers or times.

    centre : array-like of shape (m,)
        The line.

    bands : mapping of float to array-like of shape (m, 2)
        By coverage, in (0, 1): ends of the intervals.

    data : tuple of two array-like of shape (n,), default=None
        Places and values of observations.

    x_name, y_name : str, default="x", "y"
        Names of the axes.

    what : str, default="mean"
        What the line is.

    note : str, default=""
        A line above the axes.

    Attributes
    ----------
    ax_ : matplotlib Axes
        The axes.

    figure_ : matplotlib Figure
        The figure.

    line_ : matplotlib Line2D
        The line.

    bands_ : list of matplotlib PolyCollection
        From the widest to the narrowest.

    points_ : matplotlib Line2D or None
        The data.

    Raises
    ------
    ValueError
        For shapes that do not belong together, and a coverage outside of (0, 1).

    See Also
    --------
    sksvi.TimeSeriesDisplay : Forecasts of time series and their components.

    Examples
    --------
    >>> import numpy as np
    >>> from sksvi import SparseGPRegressor
    >>> from sksvi.displays import PredictionBandDisplay
    >>> X = np.linspace(0, 6, 60)[:, None]
    >>> y = np.sin(X[:, 0]) + 0.1 * np.random.default_rng(0).standard_normal(60)
    >>> display = PredictionBandDisplay.from_estimator(SparseGPRegressor(n_inducing=10).fit(X, y), X, y)
    >>> list(display.bands), len(display.bands_)
    ([0.9, 0.5], 2)
    """

    def __init__(
        self,
        x: ArrayLike,
        centre: ArrayLike,
        bands: Mapping[float, ArrayLike],
        data: tuple[ArrayLike, ArrayLike] | None = None,
        *,
        x_name: str = "x",
        y_name: str = "y",
        what: str = "mean",
        note: str = "",
    ) -> None:
        self.x, self.centre = np.asarray(x), np.asarray(centre, float)
        self.bands = {float(each): np.asarray(ends, float) for each, ends in sorted(bands.items(), reverse=True)}
        if self.x.ndim != 1 or self.centre.shape != self.x.shape:
            raise ValueError(f"x {self.x.shape} and centre {self.centre.shape} must be of one length.")
        for each, ends in self.bands.items():
            tail_of(each)
            if ends.shape != (len(self.x), 2):
                raise ValueError(f"the band of coverage {each:g} has shape {ends.shape}, expected {(len(self.x), 2)}.")
        self.data = None if data is None else (np.asarray(data[0]), np.asarray(data[1], float))
        if self.data is not None and (self.data[1].ndim != 1 or self.data[0].shape != self.data[1].shape):
            raise ValueError(f"data have shapes {self.data[0].shape} and {self.data[1].shape}: give a value per place.")
        self.x_name, self.y_name, self.what, self.note = str(x_name), str(y_name), what, note

    def plot(self, ax: Axes | None = None, **line_kwargs: Any) -> PredictionBandDisplay:
        """Draw bands, line and data.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on; None makes a new figure.

        **line_kwargs : dict
            Passed on to ``Axes.plot`` for the line.

        Returns
        -------
        display : PredictionBandDisplay
            The display itself.
        """
        ax = common.axes_for(ax, (7.0, 4.2))
        style: dict[str, Any] = {"color": COLORS[0], "linewidth": 1.5, "label": self.what} | line_kwargs
        self.bands_ = []
        for k, (each, ends) in enumerate(self.bands.items()):
            shade = 0.18 + 0.22 * k / max(1, len(self.bands) - 1)
            look: dict[str, Any] = {"color": style["color"], "alpha": shade, "label": f"{100 * each:g} %"}
            self.bands_.append(ax.fill_between(self.x, *ends.T, linewidth=0, **look))
        self.line_ = ax.plot(self.x, self.centre, **style)[0]
        self.points_ = None
        if self.data is not None:
            size = 4.0 if len(self.data[0]) <= 300 else 2.0
            look = {"color": "k", "markersize": size, "linestyle": "none", "label": "observed"}
            (self.points_,) = ax.plot(*self.data, ".", **look, alpha=1.0 if size > 2 else 0.4)
        ax.set(xlabel=shortened(self.x_name, 60), ylabel=shortened(self.y_name, 40))
        common.note_above(ax, self.note)
        ax.margins(x=0.01)
        common.legend_above(ax)
        self.ax_, self.figure_ = ax, ax.figure
        return self

    @classmethod
    def from_estimator(
        cls,
        estimator: BaseEstimator,
        X: MatrixLike | None = None,
        y: PerRow | None = None,
        *,
        feature: str | int | None = None,
        coverages: Sequence[float] = (0.5, 0.9),
        n_points: int = 200,
        offset: PerRow | None = None,
        exposure: PerRow | None = None,
        ax: Axes | None = None,
        **line_kwargs: Any,
    ) -> PredictionBandDisplay:
        """Draw what a fitted estimator predicts along one column, or for the points of its time series.

        Parameters
        ----------
        estimator : fitted estimator
            One of sksvi's regressors, classifiers of two classes or time series; a Pipeline, search or
            TransformedTargetRegressor stands for the estimator inside.

        X : array-like of shape (n, D), default=None
            Rows whose column gives the places, from its least value to its greatest, as the estimator's (or its
            wrapper's) ``predict`` takes them. Other columns stay at their medians, or the most frequent value of one
            that has no numbers. A time series without X: the points of the fit, given all data.

        y : array-like of shape (n,), default=None
            Their values, drawn as points; of a time series those of the fit.

        feature : int or str, default=None
            The column, by position or name; None: the only one.

        coverages : sequence of float, default=(0.5, 0.9)
            Of the bands, in (0, 1).

        n_points : int, default=200
            Places.

        offset, exposure : float or array-like of shape (n,), default=None
            As in `fit`: a number for all places; values of the rows of X stay at their median, as other columns do; of
            a time series without X, those of its points. None: an offset of 0, an exposure of 1, with a warning if the
            fit had one; of a time series without X, those of the fit.

        ax : matplotlib Axes, default=None
            Axes to draw on; None makes a new figure.

        **line_kwargs : dict
            Passed on to ``Axes.plot`` for the line.

        Returns
        -------
        display : PredictionBandDisplay
            The display, drawn.

        Raises
        ------
        NotFittedError
            If the estimator is not fitted.
        TypeError
            For an estimator without a predictive distribution.
        ValueError
            For more than two classes and for levels, X without numbers in the column, several columns and no
            `feature`, and one that is not there.
        """
        given = unwrap_predictor(estimator, X)
        _check_target(given)
        data: tuple[Array, Array] | None
        if X is None:
            x, data, x_name, y_name = _times(given.model)
            shift, note = given.shifted(offset, exposure), ""
        else:
            x, rows, at, x_name = _along(X, feature, n_points)
            shift, note = _common_offset(given, offset, exposure, rows.shape[1] > 1)
            given = unwrap_predictor(estimator, rows)
            data = None if y is None else (at, _shares(given, y))
            y_name = common.target_name(given.model, y)
        what, centre, bands = _bands(given, coverages, shift)
        if given.likelihood.traits.paired:
            y_name = "Probability of a success"
        elif given.likelihood.traits.classifies:
            y_name = f"Probability of {common.outcome_name(given.model, y)}"
        names = {"x_name": x_name, "y_name": y_name, "what": what, "note": note}
        return cls(x, centre, bands, data, **names).plot(ax, **line_kwargs)

    @classmethod
    def from_predictions(
        cls,
        x: ArrayLike,
        quantiles: ArrayLike,
        levels: ArrayLike,
        y: PerRow | None = None,
        *,
        ax: Axes | None = None,
        **line_kwargs: Any,
    ) -> PredictionBandDisplay:
        """Draw predicted quantiles along x.

        Parameters
        ----------
        x : array-like of shape (m,)
            Places: numbers or times, in any order.

        quantiles : array-like of shape (m, k)
            Predicted quantiles of each, for example of ``predict_quantiles``.

        levels : array-like of shape (k,)
            Their probabilities, in (0, 1): 0.5, the line, and pairs p and 1 - p, the ends of the bands.

        y : array-like of shape (m,), default=None
            Observations there.

        ax : matplotlib Axes, default=None
            Axes to draw on; None makes a new figure.

        **line_kwargs : dict
            Passed on to ``Axes.plot`` for the line.

        Returns
        -------
        display : PredictionBandDisplay
            The display, drawn.

        Raises
        ------
        ValueError
            For levels without 0.5 or not in pairs, and shapes that do not belong together.
        """
        places, found = np.asarray(x), np.asarray(quantiles, float)
        at = {round(float(level), 9): k for k, level in enumerate(np.atleast_1d(np.asarray(levels)))}
        if found.shape != (len(places), len(at)):
            raise ValueError(f"quantiles has shape {found.shape}, expected {(len(places), len(at))}: x by levels.")
        low = [level for level in at if level < 0.5]
        if 0.5 not in at or 2 * len(low) + 1 != len(at) or any(round(1.0 - level, 9) not in at for level in low):
            raise ValueError(f"levels must be 0.5 and pairs p and 1 - p; found {list(at)}.")
        order = np.argsort(places, kind="stable")
        bands = {round(1.0 - 2.0 * level, 9): found[order][:, [at[level], at[round(1.0 - level, 9)]]] for level in low}
        data = None if y is None else (places, np.asarray(y, float))
        names = {"x_name": common.name_of(x, "x"), "y_name": common.name_of(y), "what": "median"}
        return cls(places[order], found[order, at[0.5]], bands, data, **names).plot(ax, **line_kwargs)


def _check_target(given: Unwrapped) -> None:
    """An error where y has no band: several classes, levels."""
    if given.likelihood.n_latents > 1 or given.likelihood.traits.ordered:
        raise ValueError(
            f"{type(given.model).__name__} predicts several classes or levels, which have no band: use "
            "PosteriorPredictiveDisplay."
        )


def _common_offset(given: Unwrapped, offset: Any, exposure: Any, several: bool) -> tuple[Any, str]:
    """The one offset of all points of the line, and a note on it and on the `several` columns that are fixed."""
    arguments = {"offset": offset, "exposure": exposure}
    each = [name for name, values in arguments.items() if np.ndim(values)]
    middle = [*["other columns"] * several, *each]
    notes = [f"{' and '.join(middle)} at {'their medians' if several else 'its median'}"] if middle else []
    notes += [f"{name} {values:g}" for name, values in arguments.items() if values is not None and name not in each]
    shift = given.shifted(offset, exposure)
    if shift is not None:
        shift = float(np.median(np.asarray(check_row_values(shift, n_rows(given.X), "offset"))))
    return shift, ", ".join(notes)


def _bands(given: Unwrapped, coverages: Any, shift: Any) -> tuple[str, Array, dict[float, Array]]:
    """What the line is, the line, and the intervals."""
    predictive, likelihood = given.predictive(shift), given.likelihood
    tails = {float(each): tail_of(each) for each in np.atleast_1d(coverages).tolist()}
    if likelihood.traits.classifies or likelihood.traits.paired:
        m, sd = (np.asarray(part, float) for part in (predictive.latent_mean, np.sqrt(predictive.latent_variance)))
        ends = {
            each: np.stack([likelihood.mean(m + side * ndtri(tail) * sd) for side in (1.0, -1.0)], axis=1)
            for each, tail in tails.items()
        }
        return "probability", predictive.probabilities()[:, 1], ends
    quantiles = given.outside(predictive.quantile(np.array([0.5, *[q for t in tails.values() for q in (t, 1.0 - t)]])))
    ends = {each: np.sort(quantiles[:, 1 + 2 * k : 3 + 2 * k], axis=1) for k, each in enumerate(tails)}
    # The mean of a transformed target is not the transform of the mean.
    return ("median", quantiles[:, 0], ends) if given.inverses else ("mean", np.asarray(predictive.mean()), ends)


def _shares(given: Unwrapped, y: Any) -> Array:
    """Observations as they are drawn: labels as 0 and 1, successes as shares."""
    if given.likelihood.traits.classifies:
        return (np.asarray(y) == given.classes[1]).astype(float)
    found = np.asarray(y, float)
    if not given.likelihood.traits.paired:
        return found
    successes, failures = given.likelihood.outcomes(found)
    return successes / np.maximum(successes + failures, 1.0)


def _times(model: Any) -> tuple[Array, tuple[Array, Array], str, str]:
    """Places and observations of a fitted time series, and the names of both."""
    from sksvi.displays.series import axis_of, time_name

    if not hasattr(model, "index_"):
        raise ValueError(f"{type(model).__name__} needs X: rows whose column gives the places.")
    observed = model._observed()
    at = axis_of(model.index_, None)
    return at, (at, observed.to_numpy(float)), time_name(model.index_), str(observed.name)


def _places(column: Array, dtype: Any, n_points: int) -> Array:
    """Where to predict along a column: whole numbers, which something may take as categories, are those that it has."""
    if dtype.kind not in WHOLE:
        return np.linspace(np.nanmin(column), np.nanmax(column), n_points)
    found = np.unique(column)
    return found[np.unique(np.linspace(0, len(found) - 1, n_points).round().astype(int))]


def _along(X: Any, feature: Any, n_points: Any) -> tuple[Array, Any, Array, str]:
    """Places, rows of X there, the column as it is, and its name."""
    n_points = common.check_whole("n_points", n_points, 2)
    if sp.issparse(X) or (not hasattr(X, "iloc") and np.ndim(X) != 2):
        raise ValueError("X must be a table of shape (n, D) that is not sparse: places lie along one of its columns.")
    frame = X if hasattr(X, "iloc") else pd.DataFrame(np.asarray(X))
    names = list(frame.columns)
    if feature is None:
        if len(names) != 1:
            raise ValueError(f"X has {len(names)} columns: say by feature along which, one of {names[:10]}.")
        feature = names[0]
    if feature not in names:
        if isinstance(feature, bool) or not isinstance(feature, int | np.integer) or not 0 <= feature < len(names):
            raise ValueError(f"feature must be one of the {len(names)} columns, {names[:10]}; found {feature!r}.")
        feature = names[int(feature)]
    column = pd.to_numeric(frame[feature], errors="coerce").to_numpy(float)
    if not np.any(np.isfinite(column)):
        raise ValueError(f"column {feature!r} has no numbers to go along.")
    places = _places(column, frame[feature].dtype, n_points)
    middle = {name: _typical(frame[name]) for name in names}
    rows = pd.DataFrame({name: [middle[name]] * len(places) for name in names})
    rows = rows.astype({name: frame[name].dtype for name in names if name != feature})
    rows[feature] = places.astype(frame[feature].dtype) if frame[feature].dtype.kind in WHOLE else places
    x_name = str(feature) if hasattr(X, "iloc") else f"x{feature}"
    return places, rows if hasattr(X, "iloc") else rows.to_numpy(), column, x_name


def _typical(column: Any) -> Any:
    """The median of a column of numbers that is one of its values, else its most frequent value."""
    return column.quantile(0.5, interpolation="lower") if column.dtype.kind in REAL else column.mode().iloc[0]
