"""Ranks of true values among draws, as simulation-based calibration has them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from sksvi._typing.arrays import Axes, DataFrame
from sksvi.displays._common import axes_for, style_of
from sksvi.inspection import RankResult
from sksvi.inspection._bands import band

Array = np.ndarray

#: Quantities with an entry of their own in the legend.
NAMED = 8


class RankDisplay:
    """Distribution function of ranks less that of uniform ones, with a band that all of it stays in.

    A curve above 0 on the left and below it on the right is of a posterior that is too narrow, the opposite of one too
    wide; one on one side of 0 is of bias: above it draws are too high.

    Parameters
    ----------
    ranks : DataFrame of shape (n, quantities)
        How many draws are below the true value, one column per quantity.
    n_draws : int
    coverage : float, default=0.95
        Probability that a whole curve of uniform ranks stays inside the band (Säilynoja, Bürkner and Vehtari 2022).

    Attributes
    ----------
    share, lower, upper : ndarray of shape (points,)
        Where distribution functions are compared, and the ends of the band.
    difference : ndarray of shape (quantities, points)
    lines_ : list of matplotlib Line2D
    band_ : matplotlib PolyCollection
    ax_, figure_ : matplotlib Axes and Figure

    See Also
    --------
    sksvi.inspection.sbc : Where ranks come from.

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> from sksvi.displays import RankDisplay
    >>> ranks = pd.DataFrame({"slope": np.arange(100), "scale": np.arange(100) // 2 + 25})
    >>> display = RankDisplay(ranks, 99).plot()
    >>> ((display.difference < display.lower) | (display.difference > display.upper)).any(axis=1)  # scale is too wide
    array([False,  True])
    """

    def __init__(self, ranks: DataFrame, n_draws: int, *, coverage: float = 0.95) -> None:
        self.ranks, self.n_draws, self.coverage = pd.DataFrame(ranks), n_draws, coverage
        values = self.ranks.to_numpy()
        if not len(values) or np.any(values < 0) or np.any(values > n_draws):
            raise ValueError(f"ranks must lie between 0 and n_draws={n_draws}, one row at least.")
        self.share, self.lower, self.upper = band(len(values), n_draws + 1, coverage)
        at = np.round(self.share * (n_draws + 1))
        self.difference = np.mean(values.T[:, :, None] < at, axis=1) - self.share

    def plot(self, ax: Axes | None = None, **line_kwargs: Any) -> RankDisplay:
        """Draw a curve per quantity, those that leave the band in colour.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on; None makes a new figure.
        **line_kwargs : dict
            Passed on to ``Axes.plot``.

        Returns
        -------
        display : RankDisplay
            The display itself.
        """
        ax = axes_for(ax, (6.0, 4.0))
        label = f"{100 * self.coverage:g} % of uniform curves"
        ends = np.concatenate([[0.0], self.share, [1.0]])
        low, high = (np.concatenate([[0.0], part, [0.0]]) for part in (self.lower, self.upper))
        self.band_ = ax.fill_between(ends, low, high, color="0.3", alpha=0.2, linewidth=0, label=label)
        ax.axhline(0.0, color="0.2", linewidth=0.8, linestyle="--")
        outside = np.any((self.difference < self.lower) | (self.difference > self.upper), axis=1)
        self.lines_: list[Any] = []
        coloured = 0
        for name, curve, out in zip(self.ranks, self.difference, outside, strict=True):
            style: dict[str, Any] = {"color": "0.55", "linewidth": 0.9}
            if out:
                style = {"color": style_of(coloured)["color"], "linewidth": 1.6}
                style |= {"label": str(name)} if coloured < NAMED else {}
                coloured += 1
            line = ax.plot(ends, np.concatenate([[0.0], curve, [0.0]]), **(style | line_kwargs))
            self.lines_ += line
        top = 1.45 * max(float(np.abs(self.difference).max()), float(self.upper.max()))
        # Room for the legend.
        ax.set(xlim=(0.0, 1.0), ylim=(-top, top), xlabel="Share of draws below the true value")
        ax.set_ylabel(f"Distribution function of {len(self.ranks):,} ranks\nless that of uniform ones")
        ax.legend(loc="upper right", fontsize="small")
        self.ax_, self.figure_ = ax, ax.figure
        return self

    @classmethod
    def from_result(
        cls,
        result: RankResult,
        *,
        quantities: Sequence[str] | None = None,
        coverage: float = 0.95,
        ax: Axes | None = None,
        **line_kwargs: Any,
    ) -> RankDisplay:
        """Draw the ranks that `sbc` found.

        Parameters
        ----------
        result : RankResult
        quantities : list of str, default=None
            Some of its quantities; None: all.
        coverage : float, default=0.95
        ax : matplotlib Axes, default=None
            Axes to draw on; None makes a new figure.
        **line_kwargs : dict
            Passed on to ``Axes.plot``.

        Returns
        -------
        display : RankDisplay
            The display, drawn.

        Raises
        ------
        ValueError
            For a quantity without ranks.
        """
        ranks = result.ranks
        if quantities is not None:
            missing = [name for name in quantities if name not in ranks]
            if missing:
                raise ValueError(f"quantities={list(quantities)!r}: there are no ranks of {missing[0]!r}.")
            ranks = ranks[list(quantities)]
        return cls(ranks, result.n_draws, coverage=coverage).plot(ax, **line_kwargs)
