"""How far leave-one-out is to be trusted row by row, and where left-out rows lie in their predictions."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from sksvi._typing.arrays import Columns, ManyAxes, MatrixLike, PerRow, RandomState
from sksvi.displays._common import COLORS, panels
from sksvi.displays.pit import PITDisplay
from sksvi.inspection import ElpdResult, loo
from sksvi.inspection._loo import NAMED, TRUSTED

Array = np.ndarray


class LooDisplay:
    """Influence and k-hat of every row of a leave-one-out estimate, and where left-out rows lie in their predictions.

    On the left a mark per row: how much its log density loses when it is left out, its influence, and in colours its
    k-hat: up to 0.7 the number can be trusted, best where weights are level; of rows above it the first few are named.
    On the right the probability integral transform of every row without itself: uniform, inside the band, where
    predictions of new rows are right. Labels of several classes have none, and no right picture.

    Parameters
    ----------
    result : ElpdResult
        What `sksvi.inspection.loo` found.

    Attributes
    ----------
    axes_ : ndarray of matplotlib Axes
        The axes.

    figure_ : matplotlib Figure
        The figure.

    marks_ : list of matplotlib PathCollection
        Rows whose weights are level, whose k-hat is at most 0.7, and above it.

    pit_ : PITDisplay or None
        The right picture.

    Raises
    ------
    TypeError
        For anything else.
    ValueError
        For a result without k-hat, as of `kfold`: it is drawn by ``PITDisplay.from_result``.

    See Also
    --------
    PITDisplay : The right picture alone, and of new rows.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sksvi import BayesianGLMRegressor, LooDisplay
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> display = LooDisplay.from_estimator(BayesianGLMRegressor().fit(X, y), X, y)
    >>> len(display.axes_), display.result.untrusted.size
    (2, 0)
    """

    def __init__(self, result: ElpdResult) -> None:
        if not isinstance(result, ElpdResult):
            raise TypeError(f"result is a {type(result).__name__}: give what sksvi.inspection.loo found.")
        if "k_hat" not in result.pointwise:
            raise ValueError(f"a result of {result.method} has no k-hat: PITDisplay.from_result draws it.")
        self.result = result

    def plot(self, axes: ManyAxes | None = None, *, random_state: RandomState = 0, **scatter_kwargs: Any) -> LooDisplay:
        """Draw both pictures.

        Parameters
        ----------
        axes : sequence of matplotlib Axes, default=None
            One for each picture; None makes a new figure.

        random_state : int, RandomState or None, default=0
            Of the draws between P(Y < y) and P(Y <= y) for whole numbers and levels.

        **scatter_kwargs : dict
            Passed on to ``Axes.scatter``.

        Returns
        -------
        display : LooDisplay
            The display itself.
        """
        drawn = "pit_lower" in self.result.pointwise
        what = "axes must be as many as pictures"
        self.axes_, _ = panels(axes, 1 + drawn, what, 2, (5.6, 4.0), 0.0, sharex=False)
        self.marks_: list[Any] = []
        self._rows(self.axes_[0], scatter_kwargs)
        self.pit_ = PITDisplay.from_result(self.result, random_state=random_state, ax=self.axes_[1]) if drawn else None
        self.figure_ = self.axes_[0].figure
        return self

    def _rows(self, ax: Any, scatter_kwargs: dict[str, Any]) -> None:
        """A mark per row."""
        k, lost = self.result.k_hat, self.result.pointwise["p_loo"].to_numpy()
        bad, rows = ~(k <= TRUSTED), np.arange(len(k))
        kinds = ((k == -np.inf, "level", COLORS[0]), ((k > -np.inf) & ~bad, f"up to {TRUSTED}", COLORS[4]))
        for chosen, label, color in (*kinds, (bad, f"above {TRUSTED}", COLORS[1])):
            style: dict[str, Any] = {
                "color": color,
                "s": 18.0,
                "label": f"{label}: {int(chosen.sum())}",
            } | scatter_kwargs
            self.marks_.append(ax.scatter(rows[chosen], np.nan_to_num(lost[chosen]), **style))
        for row in np.flatnonzero(bad)[:NAMED]:
            right = row > 0.8 * len(k)
            style = {"xytext": (-5 if right else 5, 0), "ha": "right" if right else "left", "va": "center"}
            place = row, np.nan_to_num(lost[row])
            ax.annotate(str(self.result.pointwise.index[row]), place, textcoords="offset points", fontsize=8, **style)
        ax.set_yscale("symlog", linthresh=1.0, linscale=2.0)
        ax.yaxis.set_major_formatter("{x:g}")
        ax.axhline(0.0, color="0.2", linewidth=1.0, linestyle="--")
        ax.set(xlabel="Row", ylabel="Nats that its density loses when it is left out")
        low, high = ax.get_ylim()
        ax.set_ylim(low, max(4.0, 4.0 * high))  # room for the legend
        ax.legend(title="k-hat", loc="upper center", ncols=3, fontsize="small", title_fontsize="small")

    @classmethod
    def from_estimator(
        cls,
        estimator: BaseEstimator,
        X: MatrixLike,
        y: PerRow,
        *,
        sample_weight: PerRow | None = None,
        offset: PerRow | None = None,
        exposure: PerRow | None = None,
        groups: Columns | PerRow | None = None,
        axes: ManyAxes | None = None,
        random_state: RandomState = 0,
        **scatter_kwargs: Any,
    ) -> LooDisplay:
        """Leave each row of a fit out, and draw.

        Parameters
        ----------
        estimator : fitted estimator
            As `sksvi.inspection.loo` takes it.

        X, y : array-like
            The rows of the fit.

        sample_weight, offset, exposure : array-like of shape (n,), default=None
            As the fit had them.

        groups : str, int or array-like of shape (n,), default=None
            Whose rows are left out together.

        axes : sequence of matplotlib Axes, default=None
            One for each picture; None makes a new figure.

        random_state : int, RandomState or None, default=0
            Of the draws for whole numbers and levels.

        **scatter_kwargs : dict
            Passed on to ``Axes.scatter``.

        Returns
        -------
        display : LooDisplay
            The display, drawn.
        """
        beside = {"sample_weight": sample_weight, "offset": offset, "exposure": exposure}
        found = loo(estimator, X, y, groups=groups, **beside)
        return cls(found).plot(axes, random_state=random_state, **scatter_kwargs)

    @classmethod
    def from_result(
        cls, result: ElpdResult, *, axes: ManyAxes | None = None, random_state: RandomState = 0, **scatter_kwargs: Any
    ) -> LooDisplay:
        """Draw what `sksvi.inspection.loo` found.

        Parameters
        ----------
        result : ElpdResult
            With k-hat.

        axes : sequence of matplotlib Axes, default=None
            One for each picture; None makes a new figure.

        random_state : int, RandomState or None, default=0
            Of the draws for whole numbers and levels.

        **scatter_kwargs : dict
            Passed on to ``Axes.scatter``.

        Returns
        -------
        display : LooDisplay
            The display, drawn.
        """
        return cls(result).plot(axes, random_state=random_state, **scatter_kwargs)
