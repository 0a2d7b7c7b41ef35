"""Coefficients with their intervals."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from sksvi._names import apart, categorical_columns, feature_names, grouping_columns
from sksvi._typing.arrays import ArrayLike, Axes, MatrixLike, Names, is_compressed
from sksvi.displays import _common as common
from sksvi.estimators.tables import as_table
from sksvi.predictive.plain import tail_of

#: Orders of columns from the top, by their means.
ORDERS = {
    "mean": lambda mean: np.argsort(-mean, kind="stable"),
    "distance": lambda mean: np.argsort(-np.abs(mean), kind="stable"),
}


class CoefficientDisplay:
    """Forest plot: posterior mean and interval of each coefficient.

    Of a Gaussian posterior the equal-tailed interval of coverage c is mean ± z sd with z the (1 + c)/2 quantile of the
    standard normal; of linear models it is that of `summary`. Coefficients are in units of the latent predictor per
    unit of the column.

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

    sort : {"mean", "distance"}, default=None
        Order of the columns from the top: "mean", the largest mean first; "distance", the one farthest from zero. Of
        several classes the mean farthest from zero counts. None: as they are given.

    standardized : bool, default=False
        Whether the coefficients are per spread of their column, which the axis then says.

    n_features : int, default=None
        How many columns there are, where these are but some of them; None: these are all.

    interval : (ndarray, ndarray), default=None
        Lower and upper ends of the intervals, each of the shape of `mean`; None: those of a Gaussian.

    unit : str, default="units of the latent"
        What coefficients are in, as the axis says: "log odds", "log rate", ...

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
        self,
        mean: ArrayLike,
        std: ArrayLike,
        feature_names: Names,
        class_names: Names | None = None,
        *,
        coverage: float = 0.9,
        sort: str | None = None,
        standardized: bool = False,
        n_features: int | None = None,
        interval: tuple[ArrayLike, ArrayLike] | None = None,
        unit: str = common.LATENT,
    ) -> None:
        tail_of(coverage)
        if sort not in (None, *ORDERS):
            raise ValueError(f"sort must be None or one of {list(ORDERS)}; found {sort!r}.")
        self.mean, self.std = np.atleast_2d(np.asarray(mean)), np.atleast_2d(np.asarray(std))
        self.feature_names = [str(name) for name in feature_names]
        self.class_names = None if class_names is None else [str(name) for name in class_names]
        self.coverage = coverage
        if self.mean.shape != self.std.shape or self.mean.shape[1] != len(self.feature_names):
            raise ValueError(
                f"mean {self.mean.shape}, std {self.std.shape} and the {len(self.feature_names)} feature_names "
                "must agree in shape."
            )
        ends = common.central(self.mean, self.std, coverage) if interval is None else interval
        self.lower, self.upper = (np.atleast_2d(np.asarray(end)) for end in ends)
        if not self.lower.shape == self.upper.shape == self.mean.shape:
            raise ValueError(
                f"interval has ends of shapes {self.lower.shape} and {self.upper.shape} for means of {self.mean.shape}."
            )
        self.sort, self.standardized, self.unit = sort, standardized, unit
        self.n_features = len(self.feature_names) if n_features is None else int(n_features)
        if sort is not None:
            order = ORDERS[sort](self.mean[np.abs(self.mean).argmax(0), np.arange(self.mean.shape[1])])
            self.mean, self.std = self.mean[:, order], self.std[:, order]
            self.lower, self.upper = self.lower[:, order], self.upper[:, order]
            self.feature_names = [self.feature_names[i] for i in order]

    def plot(self, ax: Axes | None = None, **errorbar_kwargs: Any) -> CoefficientDisplay:
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
            longest = max(map(len, apart(self.class_names or [""])))
            width = 6.4 + (0.7 + 0.07 * longest if self.class_names else 0.0)  # the legend's own room
            ax = common.axes_for(None, (width, max(2.4, height)))
        at = np.arange(n_features)
        offsets = (np.arange(n_classes) - (n_classes - 1) / 2) * 0.7 / n_classes
        names = [None] * n_classes if self.class_names is None else apart(self.class_names)
        self.zero_line_ = ax.axvline(0.0, color="0.6", linewidth=0.8, zorder=0)
        self.errorbars_ = []
        rows = zip(self.mean, self.lower, self.upper, offsets, names)
        for k, (mean, lower, upper, offset, name) in enumerate(rows):
            style = common.style_of(k) | {"linestyle": "none", "markersize": 4, "label": name} | errorbar_kwargs
            self.errorbars_.append(ax.errorbar(mean, at + offset, xerr=[mean - lower, upper - mean], **style))
        if n_classes > 1:  # the classes of one column belong together
            ax.hlines(at[1:] - 0.5, 0.0, 1.0, transform=ax.get_yaxis_transform(), color="0.9", linewidth=0.6, zorder=0)
        ax.set_yticks(at, apart(self.feature_names))
        ax.set_ylim(n_features - 0.4, -0.6)
        per = "spread of its column (2 sd; of two values their distance)" if self.standardized else "unit of its column"
        interval = f"{100 * self.coverage:g} % posterior interval"
        # Towards the names there is room: a line that begins below them is not cut off.
        ax.set_xlabel(f"Coefficient ({self.unit}), {interval},\nper {per}", loc="right")
        of_class = self.class_names is not None and n_classes == 1
        rule = "those that speak most for the class" if of_class else "the clearest from zero"
        common.say_shown(ax, n_features, self.n_features, f"columns shown, {rule}")
        if self.class_names is not None:
            common.legend_outside(ax, title="class")
        self.ax_, self.figure_ = ax, ax.figure
        return self

    @classmethod
    def from_estimator(
        cls,
        estimator: BaseEstimator,
        *,
        coverage: float = 0.9,
        max_features: int | None = 30,
        sort: str | None = None,
        standardize: bool = False,
        class_name: object = None,
        X: MatrixLike | None = None,
        ax: Axes | None = None,
        **errorbar_kwargs: Any,
    ) -> CoefficientDisplay:
        """Draw the coefficients of a fitted estimator, of linear models the rows of `summary`.

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

        sort : {"mean", "distance"}, default=None
            Order of the columns from the top: "mean", the largest mean first; "distance", the one farthest from zero.
            Of several classes the mean farthest from zero counts. None: the order of the data.

        standardize : bool, default=False
            Whether to draw coefficients times the spread of their column, so that columns of any unit compare: two
            standard deviations, of a column of two values their distance (Gelman 2008). A linear model knows what
            its columns spread over unless its ``prior_precision`` is a fixed number; of another one give `X`.

        class_name : label, default=None
            One of ``classes_``, drawn alone: the columns that speak most for it, as the words of a text do, the largest
            mean first (of two classes the first has the other's coefficients with the other sign). Means and intervals
            are of ``coef_`` under the prior that all coefficients share, which shrinks rare words; `summary` has each
            under a weak prior of its own. None: all classes.

        X : {array-like, sparse matrix} of shape (n, D), default=None
            Rows that say what columns spread over, as the estimator (or its wrapper) takes them; for `standardize`.

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
        ValueError
            For `standardize` of a model that does not know what its columns spread over, without `X`; for `X` of other
            columns, a `class_name` that is no class, and for a `coverage`, `max_features` or `sort` that cannot be.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from sksvi import BayesianGLMClassifier, CoefficientDisplay
        >>> X, y = load_iris(return_X_y=True, as_frame=True)
        >>> display = CoefficientDisplay.from_estimator(BayesianGLMClassifier().fit(X, y))
        >>> len(display.errorbars_), display.feature_names[0]
        (3, 'sepal length (cm)')
        """
        max_features = common.check_most("max_features", max_features)
        inner, before = common.unwrapped(estimator)
        mean, std = np.atleast_2d(common.fitted(inner, "coef_")), np.atleast_2d(common.fitted(inner, "coef_std_"))
        names, n_features = feature_names(inner, before), mean.shape[1]
        spread = _spread(inner, before, X, n_features) if standardize else np.ones(n_features)
        interval = None
        if class_name is not None:
            mean, std = _of_class(inner, mean, std, class_name)
        elif hasattr(inner, "_shown_coefficients"):
            (mean, std, *ends), named = inner._shown_coefficients(coverage)
            names, spread, n_features = names[named], spread[named], len(named)
            interval = ends[0] * spread, ends[1] * spread
        mean, std = mean * spread, std * spread
        if max_features is not None and n_features > max_features:
            # Without spread a coefficient counts by its size alone, far beyond all others.
            score = mean[0] if class_name is not None else (np.abs(mean) / np.maximum(std, np.finfo(float).tiny)).max(0)
            selected = np.sort(np.argsort(-score, kind="stable")[:max_features])
            mean, std, names = mean[:, selected], std[:, selected], names[selected]
            interval = None if interval is None else (interval[0][:, selected], interval[1][:, selected])
        classes = inner.classes_ if len(mean) > 1 else None
        if class_name is not None:
            classes, sort = [class_name], sort or "mean"
        options = {"coverage": coverage, "sort": sort, "standardized": standardize, "n_features": n_features}
        options["unit"] = common.latent_unit(inner)
        return cls(mean, std, names, classes, interval=interval, **options).plot(ax, **errorbar_kwargs)


def _of_class(inner: Any, mean: np.ndarray, std: np.ndarray, class_name: object) -> tuple[np.ndarray, np.ndarray]:
    """Coefficients (1, D) of one class, of two classes with their sign for it."""
    if not hasattr(inner, "classes_"):
        raise ValueError(f"class_name={class_name!r}: {type(inner).__name__} has no classes. Leave class_name out.")
    classes = np.asarray(inner.classes_).tolist()
    if class_name not in classes:
        raise ValueError(f"class_name={class_name!r} is none of the classes {classes[:20]} of the fit.")
    k = classes.index(class_name)
    return (mean[k : k + 1], std[k : k + 1]) if len(mean) > 1 else (mean if k else -mean, std)


def _spread(inner: Any, before: Any, X: Any, n_features: int) -> np.ndarray:
    """What each column with a coefficient spreads over: in X, else in the rows of the fit where the model knows it."""
    from sksvi.estimators.tables import fixed_columns
    from sksvi.linear_model._columns import ColumnStats

    if X is None:
        fitted_spread = getattr(inner, "_column_spread", None)
        if fitted_spread is None:
            raise ValueError(
                f"standardize=True: {type(inner).__name__} does not know what its columns spread over (the linear "
                "models do under prior_precision='auto', 'ard' or 'flat'). Give X, the rows of the fit."
            )
        return np.asarray(fitted_spread, float)
    rows = X if before is None else before.transform(X)
    rows = fixed_columns(rows if hasattr(rows, "shape") else np.asarray(rows), grouping_columns(inner))
    categories = categorical_columns(inner)
    if categories is not None:
        rows = categories.applied(as_table(rows), inner._for_text)
    rows = rows.tocsr().astype(float) if is_compressed(rows) else np.asarray(rows, float)
    if rows.ndim != 2 or rows.shape[1] != n_features or not rows.shape[0]:
        raise ValueError(f"X has shape {rows.shape} where columns have a coefficient, expected (n, {n_features}).")
    return ColumnStats.about_means(rows, None, True).spread
