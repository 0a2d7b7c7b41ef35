"""Classes of a mixture by how probable each answer is within them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from scipy.special import xlogy
from sklearn.base import BaseEstimator

from sksvi._names import apart, shortened
from sksvi._typing.arrays import Axes, DataFrame
from sksvi.displays._common import axes_for, check_most, fitted, legend_outside, say_shown, style_of, unwrapped

Array = np.ndarray

#: Names of values are cut to so many characters.
LONGEST = 32


class ClassProfileDisplay:
    """Probability of each value within each class of a mixture, with intervals.

    Parameters
    ----------
    mean, lower, upper : DataFrame of shape (values, classes)
        Probabilities and the ends of their intervals: a row per column and value of the rows, a column per class. Of
        two values one is enough.

    weights : array-like of shape (classes,)
        Share of the rows that each class has.

    coverage : float, default=0.9
        Posterior probability of each interval.

    n_columns, n_classes : int, default=None
        How many columns and classes there are, where these are but some of them; None: these are all.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure

    errorbars_ : list of matplotlib ErrorbarContainer
        Points and intervals, one container per class.

    See Also
    --------
    sksvi.NComponentsDisplay : How many classes rows speak for.

    Examples
    --------
    >>> import pandas as pd
    >>> from sksvi.displays import ClassProfileDisplay
    >>> rows = pd.MultiIndex.from_tuples([("car", "yes"), ("bus", "yes")], names=["column", "value"])
    >>> mean = pd.DataFrame([[0.9, 0.1], [0.2, 0.7]], index=rows)
    >>> display = ClassProfileDisplay(mean, mean - 0.05, mean + 0.05, [0.6, 0.4]).plot()
    >>> [label.get_text() for label in display.ax_.get_yticklabels()]
    ['car = yes', 'bus = yes']
    """

    def __init__(
        self,
        mean: DataFrame,
        lower: DataFrame,
        upper: DataFrame,
        weights: Array,
        *,
        coverage: float = 0.9,
        n_columns: int | None = None,
        n_classes: int | None = None,
    ) -> None:
        self.mean, self.lower, self.upper = (pd.DataFrame(part) for part in (mean, lower, upper))
        self.weights, self.coverage = np.asarray(weights, float), coverage
        if not self.mean.shape == self.lower.shape == self.upper.shape or self.weights.shape != self.mean.shape[1:]:
            raise ValueError(
                f"mean {self.mean.shape}, lower {self.lower.shape} and upper {self.upper.shape} must agree in shape, "
                f"and weights {self.weights.shape} have one number per class."
            )
        self.n_columns = self._columns.nunique() if n_columns is None else int(n_columns)
        self.n_classes = self.mean.shape[1] if n_classes is None else int(n_classes)

    @property
    def _columns(self) -> Any:
        """Which column of the rows each probability is of."""
        return self.mean.index.get_level_values(0)

    def plot(self, ax: Axes | None = None, **errorbar_kwargs: Any) -> ClassProfileDisplay:
        """Draw the probabilities, first column on top.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on; None makes a new figure as tall as the number of values asks for.

        **errorbar_kwargs : dict
            Passed on to ``Axes.errorbar``.

        Returns
        -------
        display : ClassProfileDisplay
            The display itself.
        """
        n, n_classes = self.mean.shape
        ax = axes_for(None, (7.4, max(2.4, 1.2 + 0.25 * n * max(1.0, 0.45 * n_classes)))) if ax is None else ax
        at, self.errorbars_ = np.arange(n), []
        offsets = (np.arange(n_classes) - (n_classes - 1) / 2) * 0.7 / n_classes
        for k, name in enumerate(self.mean):
            mean, lower, upper = (part[name].to_numpy() for part in (self.mean, self.lower, self.upper))
            label = f"{name} ({100 * self.weights[k]:.0f} %)"
            style = style_of(k) | {"linestyle": "none", "markersize": 4, "label": label} | errorbar_kwargs
            # The mean of a probability close to 0 or 1 may lie outside an interval of equal tails.
            ends = np.maximum([mean - lower, upper - mean], 0.0)
            self.errorbars_.append(ax.errorbar(mean, at + offsets[k], xerr=ends, **style))
        new = np.flatnonzero(self._columns[1:] != self._columns[:-1])
        ax.hlines(new + 0.5, 0.0, 1.0, transform=ax.get_yaxis_transform(), color="0.85", linewidth=0.6, zorder=0)
        ax.set_yticks(at, apart([shortened(f"{column} = {value}", LONGEST) for column, value in self.mean.index]))
        ax.set(xlim=(-0.02, 1.02), ylim=(n - 0.4, -0.6))
        ax.set_xlabel(f"Probability within the class, {100 * self.coverage:g} % posterior interval")
        say_shown(ax, self._columns.nunique(), self.n_columns, "columns shown, those that tell most of the class")
        fewer = f", {n_classes} of {self.n_classes}" if n_classes < self.n_classes else ""
        legend_outside(ax, title=f"class (share){fewer}")
        self.ax_, self.figure_ = ax, ax.figure
        return self

    @classmethod
    def from_estimator(
        cls,
        estimator: BaseEstimator,
        *,
        coverage: float = 0.9,
        max_columns: int | None = 15,
        max_classes: int | None = 7,
        ax: Axes | None = None,
        **errorbar_kwargs: Any,
    ) -> ClassProfileDisplay:
        """Draw the classes of a fitted mixture: the rows of its `summary`.

        Parameters
        ----------
        estimator : fitted estimator
            A `BernoulliMixture` or `CategoricalMixture`; a Pipeline or search stands for the estimator inside.

        coverage : float, default=0.9
            Posterior probability of each interval, in (0, 1).

        max_columns : int or None, default=15
            The most columns to draw: those that tell most of the class (mutual information), in the order of the data.
            None draws all.

        max_classes : int or None, default=7
            The most classes to draw: the largest. None draws all that are used.

        ax : matplotlib Axes, default=None
            Axes to draw on; None makes a new figure.

        **errorbar_kwargs : dict
            Passed on to ``Axes.errorbar``.

        Returns
        -------
        display : ClassProfileDisplay
            The display, drawn.

        Raises
        ------
        NotFittedError
            If the estimator is not fitted.
        ValueError
            For a `coverage`, `max_columns` or `max_classes` that cannot be.

        Examples
        --------
        >>> import numpy as np, pandas as pd
        >>> from sksvi import CategoricalMixture, ClassProfileDisplay
        >>> rng = np.random.default_rng(0)
        >>> often = np.where(rng.random((200, 1)) < 0.4, 0.9, 0.2)
        >>> X = pd.DataFrame(np.where(rng.random((200, 6)) < often, "yes", "no"), columns=list("abcdef"))
        >>> display = ClassProfileDisplay.from_estimator(CategoricalMixture(10, random_state=0).fit(X))
        >>> display.mean.shape  # "yes" of six columns in two classes
        (6, 2)
        """
        max_columns, max_classes = check_most("max_columns", max_columns), check_most("max_classes", max_classes)
        inner, _ = unwrapped(estimator)
        weights = fitted(inner, "weights_")[: fitted(inner, "n_components_")]
        table = inner.summary(coverage)
        each = table[table.index.get_level_values("value") != ""].unstack("component", sort=False)
        columns = each.index.get_level_values("column")
        shown = columns.unique()
        if max_columns is not None and len(shown) > max_columns:
            shown = _information(each["mean"], weights).nlargest(max_columns).index
        # Of two values the last one says it all.
        spare = (columns.value_counts()[columns] == 2).to_numpy() & ~columns.duplicated()
        each = each[columns.isin(shown) & ~spare]
        mean, lower, upper = (each[part].iloc[:, :max_classes] for part in ("mean", "lower", "upper"))
        n_columns, n_classes = columns.nunique(), len(weights)
        display = cls(
            mean, lower, upper, weights[:max_classes], coverage=coverage, n_columns=n_columns, n_classes=n_classes
        )
        return display.plot(ax, **errorbar_kwargs)


def _information(mean: DataFrame, weights: Array) -> pd.Series:
    """Mutual information, nats, of each column and the class; of two values there may be one alone."""
    others = 1.0 - mean.groupby(level="column", sort=False).sum().clip(upper=1.0)
    every, shares = pd.concat([mean.droplevel("value"), others]), weights / weights.sum()
    overall = every @ shares
    return (xlogy(every, every) @ shares - xlogy(overall, overall)).groupby(level="column", sort=False).sum()
