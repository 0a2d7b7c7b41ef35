"""Where observations lie in their predictive distributions."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from sksvi._names import shortened
from sksvi._typing.arrays import ArrayLike, Axes, MatrixLike, PerRow, RandomState
from sksvi.displays._common import COLORS, axes_for, check_most, name_of, target_name, unwrapped
from sksvi.displays._predicted import generator, steps, table, values
from sksvi.inspection import ElpdResult
from sksvi.likelihoods.count_quantiles import binomial_quantile

Array = np.ndarray


class PITDisplay:
    """Histogram of the probability integral transform: where each observation lies in its predictive distribution.

    Under predictions that are right F(y) is uniform. A heap in the middle says that they are too wide, two heaps at the
    ends that they are too narrow, a slope that they are too high or too low. Of whole numbers and levels F jumps: the
    transform is drawn between P(Y < y) and P(Y <= y), which makes it uniform too (Dunn and Smyth 1996). The band holds
    95 % of what sampling alone makes of each bar.

    Parameters
    ----------
    pit : array-like of shape (n,)
        Transforms, in [0, 1].

    bins : int, default=None
        Bars of equal width; None: 20, fewer where that leaves less than 20 observations to a bar, at least 5.

    name : str, default="y"
        Name of what is observed.

    Attributes
    ----------
    ax_ : matplotlib Axes
        The axes.

    figure_ : matplotlib Figure
        The figure.

    bars_ : matplotlib BarContainer
        The histogram: heights are densities, 1 where uniform.

    band_ : matplotlib PolyCollection
        What sampling alone makes of a bar.

    uniform_line_ : matplotlib Line2D
        The uniform density.

    density : ndarray of shape (bins,)
        Heights of the bars.

    lower, upper : float
        Ends of the band.

    Raises
    ------
    ValueError
        For transforms outside of [0, 1], and `bins` below 2.

    See Also
    --------
    sksvi.IntervalCoverageDisplay : Coverage of intervals.

    Examples
    --------
    >>> import numpy as np
    >>> from sksvi.displays import PITDisplay
    >>> display = PITDisplay(np.linspace(0.005, 0.995, 100), bins=5).plot()
    >>> display.density
    array([1., 1., 1., 1., 1.])
    """

    def __init__(self, pit: ArrayLike, *, bins: int | None = None, name: str = "y") -> None:
        self.pit, self.name = values(pit, "pit"), name
        if not np.all((self.pit >= 0) & (self.pit <= 1)):
            row = int(np.argmax((self.pit < 0) | (self.pit > 1)))
            raise ValueError(f"pit must lie in [0, 1]; found {self.pit[row]:g} in row {row}.")
        n = len(self.pit)
        self.bins = check_most("bins", bins, 2) or int(np.clip(n // 20, 5, 20))
        self.density = np.histogram(self.pit, self.bins, (0.0, 1.0))[0] * self.bins / n
        self.lower, self.upper = (
            float(binomial_quantile(end, n, 1.0 / self.bins)) * self.bins / n for end in (0.025, 0.975)
        )

    def plot(self, ax: Axes | None = None, **bar_kwargs: Any) -> PITDisplay:
        """Draw the histogram.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on; None makes a new figure.

        **bar_kwargs : dict
            Passed on to ``Axes.bar``.

        Returns
        -------
        display : PITDisplay
            The display itself.
        """
        ax = axes_for(ax, (6.0, 4.0))
        style: dict[str, Any] = {"color": COLORS[5], "edgecolor": "w", "linewidth": 0.8, "align": "edge"} | bar_kwargs
        self.bars_ = ax.bar(np.arange(self.bins) / self.bins, self.density, 1.0 / self.bins, **style)
        label = "95 % of each bar by sampling alone"
        style = {"color": "0.3", "alpha": 0.25, "linewidth": 0, "label": label}
        self.band_ = ax.fill_between([0.0, 1.0], self.lower, self.upper, **style)
        self.uniform_line_ = ax.plot([0, 1], [1, 1], color="0.2", linewidth=1.0, linestyle="--", label="uniform")[0]
        top = max(float(self.density.max()), self.upper)
        ax.set(xlim=(0.0, 1.0), ylim=(0.0, 1.3 * top))  # room for the legend
        ax.set_xlabel(f"Probability that the prediction gives to smaller values, F({shortened(self.name)})")
        ax.set_ylabel(f"Density of {len(self.pit):,} observations")
        ax.legend(loc="upper center", ncols=2, fontsize="small")
        self.ax_, self.figure_ = ax, ax.figure
        return self

    @classmethod
    def from_estimator(
        cls,
        estimator: BaseEstimator,
        X: MatrixLike | None = None,
        y: PerRow | None = None,
        *,
        bins: int | None = None,
        offset: PerRow | None = None,
        exposure: PerRow | None = None,
        random_state: RandomState = 0,
        ax: Axes | None = None,
        **bar_kwargs: Any,
    ) -> PITDisplay:
        """Draw the transforms of observations under the predictive distribution of a fitted regressor.

        Parameters
        ----------
        estimator : fitted estimator
            One of sksvi's regressors or time series; a Pipeline, search or TransformedTargetRegressor stands for the
            estimator inside.

        X : array-like of shape (n, D)
            Rows that the fit has not seen, as the estimator's (or its wrapper's) ``predict`` takes them.

        y : array-like of shape (n,), binomial (n, 2)
            Their values. A `DynamicGLM` without X and y: the fitted points, as predicted one step ahead.

        bins : int, default=None
            Bars of equal width; None: by the number of observations.

        offset, exposure : array-like of shape (n,), default=None
            Of the rows of X.

        random_state : int, RandomState or None, default=0
            Of the draws for whole numbers and levels.

        ax : matplotlib Axes, default=None
            Axes to draw on; None makes a new figure.

        **bar_kwargs : dict
            Passed on to ``Axes.bar``.

        Returns
        -------
        display : PITDisplay
            The display, drawn.

        Raises
        ------
        NotFittedError
            If the estimator is not fitted.
        TypeError
            For an estimator without a predictive distribution.
        ValueError
            For a classifier, whose labels have no order, and y that the likelihood does not allow.

        Examples
        --------
        >>> from sksvi import BayesianGLMRegressor, PITDisplay
        >>> from sksvi.datasets import make_glm
        >>> X, y = make_glm(800, 3, likelihood="poisson", random_state=0)
        >>> model = BayesianGLMRegressor(likelihood="poisson").fit(X[:400], y[:400])
        >>> PITDisplay.from_estimator(model, X[400:], y[400:]).density.shape
        (20,)
        """
        below, at_most = steps(estimator, X, y, offset, exposure)
        name = target_name(unwrapped(estimator)[0], y)
        return cls(_drawn(below, at_most, random_state), bins=bins, name=name).plot(ax, **bar_kwargs)

    @classmethod
    def from_result(
        cls,
        result: ElpdResult,
        *,
        bins: int | None = None,
        random_state: RandomState = 0,
        ax: Axes | None = None,
        **bar_kwargs: Any,
    ) -> PITDisplay:
        """Draw the transforms of left-out rows under predictions without themselves.

        Parameters
        ----------
        result : ElpdResult
            What `sksvi.inspection.loo` or `leave_future_out` found.

        bins : int, default=None
            Bars of equal width; None: by the number of observations.

        random_state : int, RandomState or None, default=0
            Of the draws for whole numbers and levels.

        ax : matplotlib Axes, default=None
            Axes to draw on; None makes a new figure.

        **bar_kwargs : dict
            Passed on to ``Axes.bar``.

        Returns
        -------
        display : PITDisplay
            The display, drawn.

        Raises
        ------
        ValueError
            For a result without transforms, as of labels of several classes and of `kfold`.
        """
        if "pit_lower" not in result.pointwise:
            raise ValueError(f"{result.method} has no transforms: those of kfold and of several classes have none.")
        ends = result.pointwise[["pit_lower", "pit_upper"]].dropna().to_numpy()
        return cls(_drawn(ends[:, 0], ends[:, 1], random_state), bins=bins).plot(ax, **bar_kwargs)

    @classmethod
    def from_predictions(
        cls,
        y: PerRow,
        draws: ArrayLike,
        *,
        bins: int | None = None,
        random_state: RandomState = 0,
        ax: Axes | None = None,
        **bar_kwargs: Any,
    ) -> PITDisplay:
        """Draw the transforms of observations among draws from their predictive distributions.

        Each is the rank of the observation among its draws, drawn at random among ties, over one more than there are
        draws: uniform for predictions that are right, whatever the number of draws.

        Parameters
        ----------
        y : array-like of shape (n,)
            Observations.

        draws : array-like of shape (n, n_draws)
            Draws of each, for example of ``sample_y``.

        bins : int, default=None
            Bars of equal width; None: by the number of observations.

        random_state : int, RandomState or None, default=0
            Of the draws between ranks.

        ax : matplotlib Axes, default=None
            Axes to draw on; None makes a new figure.

        **bar_kwargs : dict
            Passed on to ``Axes.bar``.

        Returns
        -------
        display : PITDisplay
            The display, drawn.

        Raises
        ------
        ValueError
            For shapes that do not belong together, and numbers that are not finite.
        """
        name, y = name_of(y), values(y)
        draws = table(draws, len(y), "draws")
        n_draws = draws.shape[1]
        below = (draws < y[:, None]).sum(axis=1) / (n_draws + 1)
        at_most = ((draws <= y[:, None]).sum(axis=1) + 1) / (n_draws + 1)
        return cls(_drawn(below, at_most, random_state), bins=bins, name=name).plot(ax, **bar_kwargs)


def _drawn(below: Array, at_most: Array, random_state: Any) -> Array:
    """Uniform draws between the two, which are one number of what is measured."""
    return np.clip(below + generator(random_state).random(len(below)) * (at_most - below), 0.0, 1.0)
