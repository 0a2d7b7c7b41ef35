"""Plots of fitted estimators, after scikit-learn's Display convention: data in the object, drawing in ``plot``.

matplotlib is imported when something is drawn, not before.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.special import ndtri

from sksvi._plotting import fitted, pyplot, unwrapped
from sksvi.group_display import GroupEffectsDisplay
from sksvi.image_display import BeforeAfterDisplay, DictionaryDisplay
from sksvi.topic_display import TopicGraphDisplay, TopicWordsDisplay

__all__ = [
    "BeforeAfterDisplay",
    "CoefficientDisplay",
    "DictionaryDisplay",
    "GroupEffectsDisplay",
    "LowerBoundDisplay",
    "TopicGraphDisplay",
    "TopicWordsDisplay",
    "feature_names",
]

_COLUMNS = {"pass": "Passes over the data", "seconds": "Seconds", "rows": "Rows seen", "step": "Steps"}


class LowerBoundDisplay:
    """Lower bound on the log evidence, pass by pass, of one or several fits.

    Parameters
    ----------
    traces : mapping of str to (ndarray of shape (n_passes,), ndarray of shape (n_passes,))
        For each fit its name, the horizontal coordinates and the bounds in nats.

    x : {"pass", "seconds", "rows", "step"}, default="pass"
        What the horizontal coordinates are.

    Attributes
    ----------
    ax_ : matplotlib Axes
        The axes.

    figure_ : matplotlib Figure
        The figure.

    lines_ : list of matplotlib Line2D
        One line per fit, in the order of ``traces``.

    Examples
    --------
    >>> import numpy as np
    >>> from sksvi.displays import LowerBoundDisplay
    >>> display = LowerBoundDisplay({"cvi": (np.array([1, 2, 3]), np.array([-90.0, -81.0, -80.5]))})
    >>> display.plot().ax_.get_ylabel()
    'Lower bound (nats)'
    """

    def __init__(self, traces: Mapping[str, tuple[np.ndarray, np.ndarray]], *, x: str = "pass") -> None:
        if x not in _COLUMNS:
            raise ValueError(f"x must be one of {list(_COLUMNS)}; found {x!r}.")
        self.traces = dict(traces)
        self.x = x

    def plot(self, ax: Any = None, **line_kwargs: Any) -> LowerBoundDisplay:
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
        if ax is None:
            _, ax = pyplot().subplots()
        self.lines_ = []
        for name, (x, bound) in self.traces.items():
            marker = {"marker": "o"} if len(x) == 1 else {}  # a line through one point would be invisible
            self.lines_ += ax.plot(x, bound, **({"label": name} | marker | line_kwargs))
        ax.set_xlabel(_COLUMNS[self.x])
        ax.set_ylabel("Lower bound (nats)")
        ax.legend()
        self.ax_, self.figure_ = ax, ax.figure
        return self

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, x: str = "pass", ax: Any = None, **line_kwargs: Any
    ) -> LowerBoundDisplay:
        """Draw the bound per pass of a fitted estimator, or of several.

        Parameters
        ----------
        estimator : fitted estimator, or mapping of str to fitted estimator
            Estimators with ``history_``; a Pipeline or search stands for the estimator inside. The keys of a mapping
            name the lines.

        x : {"pass", "seconds", "rows", "step"}, default="pass"
            Column of ``history_`` along the horizontal axis.

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
        if x not in _COLUMNS:
            raise ValueError(f"x must be one of {list(_COLUMNS)}; found {x!r}.")
        traces = {}
        for name, fit in fits.items():
            history = fitted(unwrapped(fit)[0], "history_")
            traces[str(name)] = (history[x].to_numpy(), history["bound"].to_numpy())
        return cls(traces, x=x).plot(ax, **line_kwargs)


class CoefficientDisplay:
    """Forest plot: posterior mean and interval of each coefficient.

    The posterior is Gaussian, so that the equal-tailed interval of coverage c is mean ± z sd with z the (1 + c)/2
    quantile of the standard normal. Coefficients are in units of the latent predictor per unit of the column.

    Parameters
    ----------
    mean, std : ndarray of shape (n_classes, n_features)
        Posterior means and standard deviations; one row for regression and for two classes.

    feature_names : sequence of str
        Name of each column.

    class_names : sequence of str or None
        Name of each row; None for a single one.

    coverage : float, default=0.9
        Posterior probability of each interval, in (0, 1).

    Attributes
    ----------
    ax_ : matplotlib Axes
        The axes.

    figure_ : matplotlib Figure
        The figure.

    errorbars_ : list of matplotlib ErrorbarContainer
        Points and intervals, one container per class.

    zero_line_ : matplotlib Line2D
        The vertical line at zero.

    lower, upper : ndarray of shape (n_classes, n_features)
        Ends of the intervals.

    Examples
    --------
    >>> import numpy as np
    >>> from sksvi.displays import CoefficientDisplay
    >>> display = CoefficientDisplay(np.array([[1.0, -0.2]]), np.array([[0.1, 0.3]]), ["age", "dose"])
    >>> np.round(display.lower, 2)
    array([[ 0.84, -0.69]])
    >>> [label.get_text() for label in display.plot().ax_.get_yticklabels()]
    ['age', 'dose']
    """

    def __init__(
        self, mean: Any, std: Any, feature_names: Any, class_names: Any = None, *, coverage: float = 0.9
    ) -> None:
        if not 0 < coverage < 1:
            raise ValueError(f"coverage must lie strictly between 0 and 1; found {coverage!r}.")
        self.mean, self.std = np.atleast_2d(mean), np.atleast_2d(std)
        self.feature_names = [str(name) for name in feature_names]
        self.class_names = None if class_names is None else [str(name) for name in class_names]
        self.coverage = coverage
        if self.mean.shape != self.std.shape or self.mean.shape[1] != len(self.feature_names):
            raise ValueError(
                f"mean {self.mean.shape}, std {self.std.shape} and the {len(self.feature_names)} feature_names "
                "must agree in shape."
            )
        half = ndtri((1 + coverage) / 2) * self.std
        self.lower, self.upper = self.mean - half, self.mean + half

    def plot(self, ax: Any = None, **errorbar_kwargs: Any) -> CoefficientDisplay:
        """Draw the intervals, first column on top.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on; None makes a new figure as tall as the number of rows asks for.

        **errorbar_kwargs : dict
            Passed on to ``Axes.errorbar``.

        Returns
        -------
        display : CoefficientDisplay
            The display itself.
        """
        n_classes, n_features = self.mean.shape
        if ax is None:
            height = 1.2 + 0.25 * n_features * max(1.0, 0.5 * n_classes)
            _, ax = pyplot().subplots(figsize=(6.4, max(2.4, height)), layout="constrained")
        at = np.arange(n_features)
        offsets = (np.arange(n_classes) - (n_classes - 1) / 2) * 0.7 / n_classes
        names = [None] * n_classes if self.class_names is None else self.class_names
        self.zero_line_ = ax.axvline(0.0, color="0.6", linewidth=0.8, zorder=0)
        self.errorbars_ = []
        for mean, lower, upper, offset, name in zip(self.mean, self.lower, self.upper, offsets, names):
            style = {"fmt": "o", "markersize": 4, "label": name} | errorbar_kwargs
            self.errorbars_.append(ax.errorbar(mean, at + offset, xerr=[mean - lower, upper - mean], **style))
        ax.set_yticks(at, self.feature_names)
        ax.set_ylim(n_features - 0.4, -0.6)
        ax.set_xlabel(f"Coefficient, {100 * self.coverage:g} % posterior interval")
        if self.class_names is not None:
            ax.legend()
        self.ax_, self.figure_ = ax, ax.figure
        return self

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        coverage: float = 0.9,
        max_features: int | None = 30,
        ax: Any = None,
        **errorbar_kwargs: Any,
    ) -> CoefficientDisplay:
        """Draw the coefficients of a fitted estimator.

        Parameters
        ----------
        estimator : fitted estimator
            Has ``coef_`` and ``coef_std_``; a Pipeline or search stands for the estimator inside, with the names that
            the steps before it give to its columns.

        coverage : float, default=0.9
            Posterior probability of each interval, in (0, 1).

        max_features : int or None, default=30
            The most columns to draw: those whose mean is the most standard deviations from zero (in any class), in the
            order of the data. None draws all.

        ax : matplotlib Axes, default=None
            Axes to draw on; None makes a new figure.

        **errorbar_kwargs : dict
            Passed on to ``Axes.errorbar``.

        Returns
        -------
        display : CoefficientDisplay
            The display, drawn.

        Raises
        ------
        NotFittedError
            If the estimator is not fitted.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from sksvi import BayesianGLMClassifier, CoefficientDisplay
        >>> X, y = load_iris(return_X_y=True, as_frame=True)
        >>> display = CoefficientDisplay.from_estimator(BayesianGLMClassifier().fit(X, y))
        >>> len(display.errorbars_), display.feature_names[0]
        (3, 'sepal length (cm)')
        """
        if max_features is not None and (isinstance(max_features, bool) or int(max_features) < 1):
            raise ValueError(f"max_features must be at least 1, or None; found {max_features!r}.")
        inner, before = unwrapped(estimator)
        mean, std = np.atleast_2d(fitted(inner, "coef_")), np.atleast_2d(fitted(inner, "coef_std_"))
        names = feature_names(inner, before)
        if max_features is not None and mean.shape[1] > max_features:
            # Without spread a coefficient counts by its size alone, far beyond all others.
            score = (np.abs(mean) / np.maximum(std, np.finfo(float).tiny)).max(0)
            kept = np.sort(np.argsort(-score, kind="stable")[:max_features])
            mean, std, names = mean[:, kept], std[:, kept], names[kept]
        classes = inner.classes_ if len(mean) > 1 else None
        return cls(mean, std, names, classes, coverage=coverage).plot(ax, **errorbar_kwargs)


def feature_names(estimator: Any, before: Any = None) -> np.ndarray:
    """Return the names of the columns that an estimator was fitted on, those of grouping columns left out.

    Parameters
    ----------
    estimator : fitted estimator
        Its ``feature_names_in_`` are used where it has them, else x0, x1, …

    before : Pipeline or None, default=None
        Transformers before it, asked where the estimator itself saw no names; a step may have none to give.

    Returns
    -------
    names : ndarray of shape (n_features,) of str
        The names.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> from sksvi.displays import feature_names
    >>> feature_names(SimpleNamespace(n_features_in_=2)).tolist()
    ['x0', 'x1']
    """
    return np.delete(_all_names(estimator, before), getattr(estimator, "_factors", None) or [])


def _all_names(estimator: Any, before: Any) -> np.ndarray:
    if hasattr(estimator, "feature_names_in_"):
        return np.asarray(estimator.feature_names_in_, dtype=object)
    if before is not None:
        try:
            return np.asarray(before.get_feature_names_out(), dtype=object)
        except AttributeError:  # a step that gives no names
            pass
    return np.array([f"x{i}" for i in range(estimator.n_features_in_)], dtype=object)
