"""Contrasts of levels with intervals that hold one by one and all together."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from sksvi._names import apart, shortened
from sksvi._typing.arrays import Axes, DataFrame
from sksvi.displays._common import LATENT, axes_for, latent_unit, target_name, unwrapped
from sksvi.inspection import Contrasts, contrasts

#: Ends of the two kinds of interval, and how their lines are drawn.
LINES: dict[tuple[str, str], dict[str, Any]] = {
    ("simultaneous_lower", "simultaneous_upper"): {"linewidth": 1.2},
    ("lower", "upper"): {"linewidth": 3.5},
}


class ContrastDisplay:
    """Forest plot of contrasts: thick lines are pointwise intervals, thin ones hold all together.

    Parameters
    ----------
    result : Contrasts
        Of `sksvi.inspection.contrasts`.

    unit : str, default=None
        What contrasts are in; None: units of the latent, or the mean of y.

    Attributes
    ----------
    ax_ : matplotlib Axes
        The axes.

    figure_ : matplotlib Figure
        The figure.

    points_ : matplotlib Line2D
        Posterior means, first contrast on top.

    zero_line_ : matplotlib Line2D
        The vertical line at zero.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from sksvi import BayesianGLMRegressor
    >>> from sksvi.displays import ContrastDisplay
    >>> X = pd.DataFrame({"plan": np.repeat(["A", "B", "C"], 10)})
    >>> model = BayesianGLMRegressor().fit(X, np.arange(30.0))
    >>> display = ContrastDisplay.from_estimator(model, "plan")
    >>> [label.get_text() for label in display.ax_.get_yticklabels()]
    ['A - B', 'A - C', 'B - C']
    """

    def __init__(self, result: Contrasts, unit: str | None = None) -> None:
        self.result, self.unit = result, unit or (LATENT if result.scale == "link" else "mean of y")

    @property
    def table(self) -> DataFrame:
        """The contrasts' table."""
        return self.result.table

    def plot(self, ax: Axes | None = None, **line_kwargs: Any) -> ContrastDisplay:
        """Draw the intervals, first contrast on top.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on; None makes a new figure as tall as the number of rows asks for.

        **line_kwargs : dict
            Passed on to ``Axes.hlines`` and ``Axes.plot``, such as ``color="C3"``.

        Returns
        -------
        display : ContrastDisplay
            The display itself.
        """
        table = self.table
        keys = [key if isinstance(key, tuple) else (key,) for key in table.index]
        at, names = np.arange(len(table)), [", ".join(map(str, (key[-1], *key[:-1]))) for key in keys]
        ax = axes_for(ax, (6.4, max(2.4, 1.2 + 0.25 * len(table))))
        style: dict[str, Any] = {"color": "C0"} | line_kwargs
        dots: dict[str, Any] = {"markersize": 5, "markeredgecolor": "white"} | style
        self.zero_line_ = ax.axvline(0.0, color="0.6", linewidth=0.8, zorder=0)
        for ends, width in LINES.items():
            low, high = (table[end].to_numpy() for end in ends)
            ax.hlines(at, low, high, **(width | style))
        self.points_: Any = ax.plot(table["mean"], at, "o", **dots)[0]
        firsts = [row for row in at[1:] if keys[row][:-1] != keys[row - 1][:-1]]
        ax.hlines(np.array(firsts) - 0.5, 0.0, 1.0, transform=ax.get_yaxis_transform(), color="0.9", linewidth=0.6)
        ax.set_yticks(at, apart(names))
        ax.set_ylim(len(table) - 0.4, -0.6)
        of = f"Contrast of {shortened(str(self.result.feature))} ({self.unit})"
        ax.set_xlabel(
            f"{of}, {100 * self.result.coverage:g} % intervals:\nthick one by one, thin all together", loc="right"
        )
        self.ax_, self.figure_ = ax, ax.figure
        return self

    @classmethod
    def from_result(cls, result: Contrasts, *, ax: Axes | None = None, **line_kwargs: Any) -> ContrastDisplay:
        """Draw contrasts that are there.

        Parameters
        ----------
        result : Contrasts
            Of `sksvi.inspection.contrasts`.

        ax : matplotlib Axes, default=None
            Axes to draw on.

        **line_kwargs : dict
            As in `plot`.

        Returns
        -------
        display : ContrastDisplay
            The display, drawn.
        """
        return cls(result).plot(ax, **line_kwargs)

    @classmethod
    def from_estimator(
        cls, estimator: BaseEstimator, feature: str | int, *, ax: Axes | None = None, **options: Any
    ) -> ContrastDisplay:
        """Draw the contrasts of a column of a fitted estimator.

        Parameters
        ----------
        estimator : fitted estimator
            As `sksvi.inspection.contrasts` takes it.

        feature : str or int
            The column.

        ax : matplotlib Axes, default=None
            Axes to draw on.

        **options : dict
            Of `sksvi.inspection.contrasts`, such as ``by``, ``pairs``, ``X``, ``scale`` and ``coverage``.

        Returns
        -------
        display : ContrastDisplay
            The display, drawn.
        """
        result, inner = contrasts(estimator, feature, **options), unwrapped(estimator)[0]
        return cls(result, latent_unit(inner) if result.scale == "link" else f"mean of {target_name(inner)}").plot(ax)
