"""Coefficients with their intervals."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import ndtri

from sksvi.displays._common import feature_names, fitted, pyplot, unwrapped
from sksvi.predictive.coverage import tail_of


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
        tail = tail_of(coverage)
        self.mean, self.std = np.atleast_2d(mean), np.atleast_2d(std)
        self.feature_names = [str(name) for name in feature_names]
        self.class_names = None if class_names is None else [str(name) for name in class_names]
        self.coverage = coverage
        if self.mean.shape != self.std.shape or self.mean.shape[1] != len(self.feature_names):
            raise ValueError(
                f"mean {self.mean.shape}, std {self.std.shape} and the {len(self.feature_names)} feature_names "
                "must agree in shape."
            )
        half = -ndtri(tail) * self.std
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
