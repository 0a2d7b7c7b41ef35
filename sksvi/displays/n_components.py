"""What speaks for each number of classes or topics."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pandas as pd
from sklearn.base import BaseEstimator

from sksvi._typing.arrays import DataFrame, ManyAxes, MatrixLike
from sksvi.displays._common import panels, style_of

#: Criterion -> what its axis says, and its name in the legend.
CRITERIA = {
    "bound": ("Nats less the best", "bound on the log evidence"),
    "bic": ("Nats less the best", "-1/2 BIC"),
    "score": ("Held-out log likelihood\nper word, nats", "score"),
    "coherence": ("Coherence (NPMI)", "coherence"),
}
#: Criteria that count less their best value.
RELATIVE = ("bound", "bic")


class NComponentsDisplay:
    """What speaks for each number of classes of a mixture, or of topics, with the best number of each marked.

    Parameters
    ----------
    table : DataFrame
        As of `n_components_curve`: a row per number; columns "bound" and "bic", drawn in one panel less their best
        values, or "score", with "score_se", and "coherence", in a panel each.

    Attributes
    ----------
    best : dict
        Criterion to the number that it is best for; of "score" the smallest number within one standard error of the
        difference from the best (Breiman, Friedman, Olshen and Stone 1984, 3.4.3).

    axes_ : ndarray of matplotlib Axes

    figure_ : matplotlib Figure

    lines_ : dict
        Criterion to its matplotlib ErrorbarContainer.

    See Also
    --------
    sksvi.inspection.n_components_curve : Where the numbers come from.

    Examples
    --------
    >>> import pandas as pd
    >>> from sksvi.displays import NComponentsDisplay
    >>> table = pd.DataFrame({"bound": [-90.0, -70.0, -72.0], "bic": [-91.0, -73.0, -80.0]}, index=[1, 2, 3])
    >>> NComponentsDisplay(table).plot().best
    {'bound': 2, 'bic': 2}
    """

    def __init__(self, table: DataFrame) -> None:
        self.table = pd.DataFrame(table)
        self.best: dict[str, int] = {}
        for name in (name for name in CRITERIA if name in self.table):
            values = self.table[name]
            error = self.table.get(f"{name}_se", pd.Series(0.0, values.index))
            self.best[name] = int(values.index[(values + error >= values.max()).argmax()])
        if not self.best:
            raise ValueError(f"table has the columns {list(self.table)}: it must have one of {list(CRITERIA)}.")

    def plot(self, axes: ManyAxes | None = None, **line_kwargs: Any) -> NComponentsDisplay:
        """Draw the curves.

        Parameters
        ----------
        axes : matplotlib Axes or sequence of them, default=None
            One per panel; None makes a new figure.

        **line_kwargs : dict
            Passed on to ``Axes.errorbar``.

        Returns
        -------
        display : NComponentsDisplay
            The display itself.
        """
        units = list(dict.fromkeys(CRITERIA[name][0] for name in self.best))
        axes, _ = panels(axes, len(units), "axes must hold one Axes per panel", 2, (5.2, 3.2), 0.3)
        self.lines_ = {}
        for k, (name, best) in enumerate(self.best.items()):
            unit, label = CRITERIA[name]
            ax, values = axes[units.index(unit)], self.table[name]
            values = values - values.max() if name in RELATIVE else values
            style = style_of(k) | {"markersize": 4, "label": f"{label}: {best}"} | line_kwargs
            self.lines_[name] = ax.errorbar(values.index, values, self.table.get(f"{name}_se"), **style)
            ax.plot(best, values[best], marker="o", markersize=11, color=style["color"], fillstyle="none")
            ax.set(xlabel="Number of components", ylabel=unit)
            ax.locator_params(axis="x", integer=True)
            ax.legend(title="best number", fontsize="small", title_fontsize="small")
        self.axes_, self.figure_ = axes, axes[0].figure
        return self

    @classmethod
    def from_estimator(
        cls,
        estimator: BaseEstimator,
        X: MatrixLike,
        *,
        n_components: Iterable[int],
        cv: int = 5,
        axes: ManyAxes | None = None,
        **line_kwargs: Any,
    ) -> NComponentsDisplay:
        """Fit clones of a mixture or a topic model with each number, and draw what speaks for it.

        Parameters
        ----------
        estimator : estimator
            A mixture or a topic model, or a Pipeline around one.

        X : {array-like, sparse matrix, DataFrame} of shape (n, D)
            Rows, or documents.

        n_components : iterable of int
            Numbers to compare.

        cv : int, default=5
            Folds of documents, of topic models.

        axes : matplotlib Axes or sequence of them, default=None
            One per panel; None makes a new figure.

        **line_kwargs : dict
            Passed on to ``Axes.errorbar``.

        Returns
        -------
        display : NComponentsDisplay
            The display, drawn; its ``table`` is that of `n_components_curve`.

        Examples
        --------
        >>> from sksvi import CorrelatedTopicModel, NComponentsDisplay
        >>> from sksvi.datasets import make_ctm
        >>> X = make_ctm(60, 40, n_components=3, random_state=0).data
        >>> model = CorrelatedTopicModel(max_iter=5, tol=1e-2, random_state=0)
        >>> display = NComponentsDisplay.from_estimator(model, X, n_components=[2, 4], cv=2)
        >>> list(display.table)
        ['score', 'score_se', 'coherence']
        """
        from sksvi.inspection import n_components_curve

        return cls(n_components_curve(estimator, X, n_components, cv=cv)).plot(axes, **line_kwargs)
