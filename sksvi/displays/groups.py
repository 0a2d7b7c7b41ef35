"""Caterpillar plot of a mixed model's group effects."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from sksvi._names import apart, shortened
from sksvi._typing.arrays import ArrayLike, Axes, Names
from sksvi.displays._common import LATENT, axes_for, central, check_most, fitted, latent_unit, say_shown, unwrapped
from sksvi.predictive.plain import tail_of


class GroupEffectsDisplay:
    """Caterpillar plot: posterior mean and interval of one effect of every level of a group, sorted by mean.

    The posterior is Gaussian, so that the equal-tailed interval of coverage c is mean ± z sd with z the (1 + c)/2
    quantile of the standard normal. Effects are in units of the latent predictor, slopes per unit of their column.

    Parameters
    ----------
    mean, std : ndarray of shape (n_levels,)
        Posterior means and standard deviations.

    level_names : sequence
        Name of each level.

    group : str, default="group"
        Name of the grouping column.

    effect : str, default="intercept"
        Name of the effect: the intercept, or the column of a random slope.

    coverage : float, default=0.9
        Posterior probability of each interval, in (0, 1).

    n_levels : int, default=None
        How many levels there are, where these are but some of them; None: these are all.

    unit : str, default="units of the latent"
        What effects are in, as the axis says: "log odds", "log rate", ...

    Attributes
    ----------
    ax_ : matplotlib Axes
        The axes.

    figure_ : matplotlib Figure
        The figure.

    errorbar_ : matplotlib ErrorbarContainer
        Points and intervals, from the lowest mean at the bottom to the highest on top.

    zero_line_ : matplotlib Line2D
        The vertical line at zero.

    lower, upper : ndarray of shape (n_levels,)
        Ends of the intervals.

    Examples
    --------
    >>> import numpy as np
    >>> from sksvi.displays import GroupEffectsDisplay
    >>> display = GroupEffectsDisplay(np.array([0.4, -0.2]), np.array([0.1, 0.3]), ["north", "south"], "region")
    >>> np.round(display.upper, 2)
    array([0.29, 0.56])
    >>> [label.get_text() for label in display.plot().ax_.get_yticklabels()]
    ['south', 'north']
    """

    def __init__(
        self,
        mean: ArrayLike,
        std: ArrayLike,
        level_names: Names,
        group: str = "group",
        effect: str = "intercept",
        *,
        coverage: float = 0.9,
        n_levels: int | None = None,
        unit: str = LATENT,
    ) -> None:
        tail_of(coverage)
        mean, std, names = np.asarray(mean, float), np.asarray(std, float), list(level_names)
        if mean.ndim != 1 or mean.shape != std.shape or len(mean) != len(names):
            raise ValueError(
                f"mean {mean.shape}, std {std.shape} and the {len(names)} level_names must agree in shape."
            )
        order = np.argsort(mean, kind="stable")
        self.mean, self.std = mean[order], std[order]
        self.level_names = [str(names[i]) for i in order]
        self.n_levels = len(names) if n_levels is None else int(n_levels)
        self.group, self.effect, self.coverage, self.unit = str(group), str(effect), coverage, unit
        self.lower, self.upper = central(self.mean, self.std, coverage)

    def plot(self, ax: Axes | None = None, **errorbar_kwargs: Any) -> GroupEffectsDisplay:
        """Draw the intervals, highest mean on top.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on; None makes a new figure as tall as the number of levels asks for.

        **errorbar_kwargs : dict
            Passed on to ``Axes.errorbar``.

        Returns
        -------
        display : GroupEffectsDisplay
            The display itself.
        """
        n_shown = len(self.mean)
        ax = axes_for(ax, (6.4, max(2.4, 1.2 + 0.2 * n_shown)))
        at = np.arange(n_shown)
        style: dict[str, Any] = {"fmt": "o", "markersize": 4} | errorbar_kwargs
        self.zero_line_ = ax.axvline(0.0, color="0.6", linewidth=0.8, zorder=0)
        self.errorbar_ = ax.errorbar(self.mean, at, xerr=[self.mean - self.lower, self.upper - self.mean], **style)
        ax.set_yticks(at, apart(self.level_names))
        ax.set(ylim=(-0.6, n_shown - 0.4), ylabel=self.group)
        what = "Effect" if self.effect == "intercept" else f"Slope of {shortened(self.effect)}"
        ax.set_xlabel(f"{what} ({self.unit}), {100 * self.coverage:g} % posterior interval", loc="right")
        say_shown(ax, n_shown, self.n_levels, "levels, evenly spaced by rank")
        self.ax_, self.figure_ = ax, ax.figure
        return self

    @classmethod
    def from_estimator(
        cls,
        estimator: BaseEstimator,
        *,
        group: str | int | None = None,
        effect: str = "intercept",
        coverage: float = 0.9,
        max_levels: int | None = 50,
        ax: Axes | None = None,
        **errorbar_kwargs: Any,
    ) -> GroupEffectsDisplay:
        """Draw the effects of one group of a fitted mixed model.

        Parameters
        ----------
        estimator : fitted estimator
            Has ``group_effects_``; a Pipeline or search stands for the estimator inside.

        group : str, default=None
            A group of ``group_effects_``; None is the first.

        effect : str, default="intercept"
            An effect of that group.

        coverage : float, default=0.9
            Posterior probability of each interval, in (0, 1).

        max_levels : int or None, default=50
            The most levels to draw: of more, those at evenly spaced ranks of their means, lowest and highest among
            them. None draws all.

        ax : matplotlib Axes, default=None
            Axes to draw on; None makes a new figure.

        **errorbar_kwargs : dict
            Passed on to ``Axes.errorbar``.

        Returns
        -------
        display : GroupEffectsDisplay
            The display, drawn.

        Raises
        ------
        NotFittedError
            If the estimator is not fitted.

        Examples
        --------
        >>> import numpy as np
        >>> import pandas as pd
        >>> from sksvi import GMERegressor
        >>> from sksvi.displays import GroupEffectsDisplay
        >>> rng = np.random.default_rng(0)
        >>> X = pd.DataFrame({"x": rng.standard_normal(60), "site": list("abc") * 20})
        >>> y = rng.poisson(np.exp(X["x"] / 2 + X["site"].map({"a": 0.0, "b": 1.0, "c": -1.0})))
        >>> model = GMERegressor(likelihood="poisson", noise=False, groups="site").fit(X, y)
        >>> GroupEffectsDisplay.from_estimator(model).level_names
        ['c', 'a', 'b']
        """
        max_levels = check_most("max_levels", max_levels)
        inner = unwrapped(estimator)[0]
        effects = fitted(inner, "group_effects_")
        groups = list(dict.fromkeys(effects.index.get_level_values("group")))
        group = groups[0] if group is None else group
        if group not in groups:
            raise ValueError(f"group must be one of {groups}; found {group!r}.")
        table = effects[effects.index.get_level_values("group") == group]
        effect_names = list(dict.fromkeys(table.index.get_level_values("effect")))
        if effect not in effect_names:
            raise ValueError(f"effect must be one of {effect_names} for group {group!r}; found {effect!r}.")
        table = table[table.index.get_level_values("effect") == effect]
        n_levels = len(table)
        if max_levels is not None and n_levels > max_levels:
            ranks = np.round(np.linspace(0, n_levels - 1, max_levels)).astype(int)
            table = table.iloc[np.argsort(table["mean"].to_numpy(), kind="stable")[ranks]]
        names = table.index.get_level_values("level")
        options: dict[str, Any] = {"coverage": coverage, "n_levels": n_levels, "unit": latent_unit(inner)}
        return cls(table["mean"], table["std"], names, str(group), effect, **options).plot(ax, **errorbar_kwargs)
