"""Whether data look as if the fitted model had drawn them: counts, measured values, labels."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from sksvi._names import apart, shortened
from sksvi._typing.arrays import ArrayLike, Axes, MatrixLike, PerRow, RandomState
from sksvi.displays import _predicted as predicted
from sksvi.displays._common import COLORS, axes_for, check_kind, name_of, target_name
from sksvi.estimators.checks import check_count

Array = np.ndarray

KINDS = ("rootogram", "histogram", "ecdf", "frequencies", "reliability")


class PosteriorPredictiveDisplay:
    """Observed data beside what the fitted model would draw.

    - "rootogram", for counts: how many rows have each count, as bars that hang from what is expected, on the scale of
      square roots (Kleiber and Zeileis 2016): a bar that does not reach the line of zero says too few rows, one that
      crosses it too many.
    - "histogram" and "ecdf", for measured values: densities, or the share of rows up to each value.
    - "frequencies", for labels and levels: how many rows have each.
    - "reliability", for labels: how often the label came among rows to which about the same probability was given: of
      the second of two classes, else of the most probable class; and of successes in trials.

    Bands hold 90 % of what draws of the model make, at each place by itself.

    Parameters
    ----------
    kind : {"rootogram", "histogram", "ecdf", "frequencies", "reliability"}
        What is drawn.

    at : array-like
        Edges of the bins, (m + 1,), of "rootogram" and "histogram"; values, (m,), of "ecdf"; names, (m,), of
        "frequencies"; mean predicted probabilities, (m,), of "reliability".

    observed : array-like of shape (m,)
        Rows in each bin or with each label, densities, or shares.

    expected, lower, upper : array-like of shape (m,)
        The same under the model, and the ends of its band.

    name : str, default="y"
        Name of the target.

    Attributes
    ----------
    ax_ : matplotlib Axes
        The axes.

    figure_ : matplotlib Figure
        The figure.

    bars_ : matplotlib BarContainer
        "rootogram", "histogram" and "frequencies": what was observed.

    observed_ : matplotlib Line2D
        "ecdf" and "reliability": what was observed.

    expected_ : matplotlib Line2D
        What the model expects.

    band_ : matplotlib artist
        Its band.

    Raises
    ------
    ValueError
        For a `kind` that is none of these, and shapes that do not belong together.

    See Also
    --------
    sksvi.PITDisplay : Each observation in its own predictive distribution.

    Examples
    --------
    >>> import numpy as np
    >>> from sksvi.displays import PosteriorPredictiveDisplay
    >>> draws = np.array([[0, 1], [1, 2], [1, 0]])
    >>> display = PosteriorPredictiveDisplay.from_predictions(np.array([0, 1, 2]), draws)
    >>> display.kind, display.observed, display.expected
    ('rootogram', array([1, 1, 1]), array([1. , 1.5, 0.5]))
    """

    def __init__(
        self,
        kind: str,
        at: ArrayLike,
        observed: ArrayLike,
        expected: ArrayLike,
        lower: ArrayLike,
        upper: ArrayLike,
        *,
        name: str = "y",
    ) -> None:
        self.kind, self.name = check_kind(kind, KINDS), str(name)
        self.at = np.asarray(at)
        self.observed, self.expected = np.asarray(observed), np.asarray(expected)
        self.lower, self.upper = np.asarray(lower), np.asarray(upper)
        m = len(self.at) - (self.kind in ("rootogram", "histogram"))
        shapes = [part.shape for part in (self.observed, self.expected, self.lower, self.upper)]
        if any(shape != (m,) for shape in shapes):
            raise ValueError(
                f"observed, expected, lower and upper must have shape ({m},), which at of shape {self.at.shape} asks "
                f"for; found {shapes}."
            )

    def plot(self, ax: Axes | None = None, **kwargs: Any) -> PosteriorPredictiveDisplay:
        """Draw data and expectation.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on; None makes a new figure.

        **kwargs : dict
            Passed on to ``Axes.bar``, or ``Axes.plot``, for what was observed.

        Returns
        -------
        display : PosteriorPredictiveDisplay
            The display itself.
        """
        ax = axes_for(ax, (5.0, 4.8) if self.kind == "reliability" else (6.4, 4.2))
        self.ax_, self.figure_ = ax, ax.figure
        getattr(self, f"_plot_{self.kind}")(ax, kwargs)
        return self

    def _plot_rootogram(self, ax: Any, kwargs: dict[str, Any]) -> None:
        width = np.diff(self.at)
        middle, top = self.at[:-1] + 0.5 * (width - 1.0), np.sqrt(self.expected)
        style = {"color": COLORS[5], "edgecolor": "w", "linewidth": 0.5, "label": "observed, hanging"} | kwargs
        height = np.sqrt(self.observed)
        self.bars_ = ax.bar(middle, height, 0.9 * width, bottom=top - height, **style)
        self._curve(ax, middle, np.sqrt(self.lower), top, np.sqrt(self.upper), marker="o", markersize=3)
        ax.axhline(0.0, color="0.3", linewidth=0.8)
        ax.set_xlabel(f"{shortened(self.name)} (count{'' if np.all(width == 1) else f', {width[0]:.0f} to a bar'})")
        ax.set_ylabel("√ number of rows")
        ax.legend(fontsize="small")

    def _plot_histogram(self, ax: Any, kwargs: dict[str, Any]) -> None:
        style = {"color": COLORS[5], "alpha": 0.6, "align": "edge", "label": "observed"} | kwargs
        self.bars_ = ax.bar(self.at[:-1], self.observed, np.diff(self.at), **style)
        self._curve(ax, 0.5 * (self.at[1:] + self.at[:-1]), self.lower, self.expected, self.upper)
        ax.set(xlabel=shortened(self.name), ylabel=f"Density (per unit of {shortened(self.name)})")
        ax.legend(fontsize="small")

    def _plot_ecdf(self, ax: Any, kwargs: dict[str, Any]) -> None:
        self._curve(ax, self.at, 100 * self.lower, 100 * self.expected, 100 * self.upper)
        style = {"color": COLORS[0], "linewidth": 1.2, "drawstyle": "steps-post", "label": "observed"} | kwargs
        (self.observed_,) = ax.plot(self.at, 100 * self.observed, **style)
        ax.set(xlabel=shortened(self.name), ylabel="Rows up to that value (%)")
        ax.legend(fontsize="small")

    def _plot_frequencies(self, ax: Any, kwargs: dict[str, Any]) -> None:
        m = len(self.at)
        style = {"color": COLORS[5], "alpha": 0.7, "label": "observed"} | kwargs
        self.bars_ = ax.bar(np.arange(m), self.observed, 0.8, **style)
        spread = [self.expected - self.lower, self.upper - self.expected]
        style = {"fmt": "o", "color": COLORS[1], "markersize": 4, "capsize": 3}
        self.band_ = ax.errorbar(np.arange(m), self.expected, yerr=spread, label="expected, 90 %", **style)
        self.expected_ = self.band_.lines[0]
        names = apart(self.at, 20)
        crowded = sum(map(len, names)) > 50 or m > 20
        ax.set_xticks(np.arange(m), names, rotation=90 if crowded else 0)
        top = 1.25 * max(float(np.max(self.upper)), float(np.max(self.observed)))
        ax.set(xlabel=shortened(self.name), ylabel="Number of rows", ylim=(0, top))
        ax.legend(fontsize="small", ncols=2, loc="upper center")

    def _plot_reliability(self, ax: Any, kwargs: dict[str, Any]) -> None:
        at = 100 * self.at
        (self.expected_,) = ax.plot([0, 100], [0, 100], color="0.5", linewidth=0.8, linestyle="--", label="as promised")
        self.band_ = ax.vlines(at, 100 * self.lower, 100 * self.upper, color="0.8", linewidth=6, label="90 % if so")
        style = {"color": COLORS[0], "marker": "o", "markersize": 4, "label": "observed"} | kwargs
        (self.observed_,) = ax.plot(at, 100 * self.observed, **style)
        ax.set(xlim=(-2, 102), ylim=(-2, 102), aspect="equal", ylabel="How often it came (%)")
        ax.set_xlabel(f"Predicted probability of {shortened(self.name, 24)} (%)")
        ax.legend(fontsize="small", loc="upper left")

    def _curve(self, ax: Any, at: Array, lower: Array, middle: Array, upper: Array, **marks: Any) -> None:
        """What the model expects, with its band."""
        style = {"color": COLORS[1], "alpha": 0.25, "linewidth": 0}
        self.band_ = ax.fill_between(at, lower, upper, label="90 % of draws", **style)
        (self.expected_,) = ax.plot(at, middle, color=COLORS[1], linewidth=1.2, label="expected", **marks)

    @classmethod
    def from_estimator(
        cls,
        estimator: BaseEstimator,
        X: MatrixLike,
        y: PerRow,
        *,
        kind: str = "auto",
        n_draws: int = 100,
        offset: PerRow | None = None,
        exposure: PerRow | None = None,
        random_state: RandomState = 0,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> PosteriorPredictiveDisplay:
        """Draw data beside what a fitted estimator predicts for their rows.

        Parameters
        ----------
        estimator : fitted estimator
            One of sksvi's regressors, classifiers or time series; a Pipeline, search or TransformedTargetRegressor
            stands for the estimator inside.

        X : array-like of shape (n, D)
            Rows, as the estimator's (or its wrapper's) ``predict`` takes them.

        y : array-like of shape (n,), binomial (n, 2)
            Their values.

        kind : {"auto", "rootogram", "histogram", "ecdf", "frequencies", "reliability"}, default="auto"
            "auto": "rootogram" for counts, "histogram" for measured values, "reliability" for two classes and for
            successes in trials, "frequencies" for more classes and for levels.

        n_draws : int, default=100
            Draws of all rows, for counts and measured values.

        offset, exposure : array-like of shape (n,), default=None
            Of the rows of X.

        random_state : int, RandomState or None, default=0
            Of the draws.

        ax : matplotlib Axes, default=None
            Axes to draw on; None makes a new figure.

        **kwargs : dict
            Passed on to ``Axes.bar``, or ``Axes.plot``, for what was observed.

        Returns
        -------
        display : PosteriorPredictiveDisplay
            The display, drawn.

        Raises
        ------
        NotFittedError
            If the estimator is not fitted.
        TypeError
            For an estimator without a predictive distribution.
        ValueError
            For a `kind` that does not fit to the target, and y that the likelihood does not allow.

        Examples
        --------
        >>> from sklearn.datasets import load_breast_cancer
        >>> from sksvi import BayesianGLMClassifier, PosteriorPredictiveDisplay
        >>> X, y = load_breast_cancer(return_X_y=True)
        >>> model = BayesianGLMClassifier().fit(X[:400, :5], y[:400])
        >>> PosteriorPredictiveDisplay.from_estimator(model, X[400:, :5], y[400:]).ax_.get_ylabel()
        'How often it came (%)'
        """
        given = predicted.unwrap_predictor(estimator, X)
        likelihood, offset = given.likelihood, given.shifted(offset, exposure)
        if likelihood.traits.classifies or likelihood.traits.ordered or likelihood.traits.paired:
            return cls._of_labels(given, y, kind, offset, ax, kwargs)
        target = given.target(y)
        n_draws = check_count(n_draws, "n_draws", bytes_each=8.0 * len(target))
        draws = given.outside(given.predictive(offset).sample(n_draws, predicted.generator(random_state)))
        if kind == "auto":
            kind = "rootogram" if likelihood.traits.discrete and not given.inverses else "histogram"
        return cls.from_predictions(y, draws, kind=kind, name=target_name(given.model, y), ax=ax, **kwargs)

    @classmethod
    def _of_labels(
        cls, given: Any, y: Any, kind: str, offset: Any, ax: Any, kwargs: dict[str, Any]
    ) -> PosteriorPredictiveDisplay:
        likelihood, probabilities = given.likelihood, given.predictive(offset).probabilities()
        if likelihood.traits.paired:
            check_kind("reliability" if kind == "auto" else kind, ("reliability",))
            successes, failures = likelihood.outcomes(given.target(y))
            parts = predicted.reliability(probabilities[:, 1], successes, successes + failures)
            return cls("reliability", *parts, name="a success").plot(ax, **kwargs)
        names = {"classes": given.classes, "kind": kind, "name": target_name(given.model, y), "ax": ax}
        return cls.from_predictions(y, probabilities=probabilities, **names, **kwargs)

    @classmethod
    def from_predictions(
        cls,
        y: PerRow,
        draws: ArrayLike | None = None,
        *,
        probabilities: ArrayLike | None = None,
        classes: ArrayLike | None = None,
        kind: str = "auto",
        name: str | None = None,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> PosteriorPredictiveDisplay:
        """Draw data beside draws from their predictive distributions, or beside predicted probabilities of labels.

        Parameters
        ----------
        y : array-like of shape (n,)
            Observations, or labels.

        draws : array-like of shape (n, n_draws), default=None
            Draws of each, for example of ``sample_y``.

        probabilities : array-like of shape (n, K), default=None
            Probabilities of each label, in the place of draws, for example of ``predict_proba``.

        classes : array-like of shape (K,), default=None
            The labels that its columns are of; None: the sorted ones of y.

        kind : {"auto", "rootogram", "histogram", "ecdf", "frequencies", "reliability"}, default="auto"
            "auto": of draws "rootogram" where y and they are whole and not negative, else "histogram"; of
            probabilities "reliability" for two classes, else "frequencies".

        name : str, default=None
            Name of the target; None: that of y.

        ax : matplotlib Axes, default=None
            Axes to draw on; None makes a new figure.

        **kwargs : dict
            Passed on to ``Axes.bar``, or ``Axes.plot``, for what was observed.

        Returns
        -------
        display : PosteriorPredictiveDisplay
            The display, drawn.

        Raises
        ------
        ValueError
            For a `kind` that does not fit, labels without a column, shapes that do not belong together, and where
            there are neither draws nor probabilities, or both.
        """
        if (draws is None) == (probabilities is None):
            raise ValueError("give either draws or probabilities, of the n rows of y.")
        name = name_of(y) if name is None else name
        if probabilities is not None:
            codes, probabilities, classes = predicted.coded(y, probabilities, classes)
            kind = ("reliability" if len(classes) == 2 else "frequencies") if kind == "auto" else kind
            if check_kind(kind, ("frequencies", "reliability")) == "frequencies":
                parts, name = predicted.of_labels(codes, probabilities, classes), name if name != "y" else "label"
                return cls(kind, *parts, name=name).plot(ax, **kwargs)
            two = len(classes) == 2
            chance = probabilities[:, 1] if two else probabilities.max(axis=1)
            occurred = codes == (1 if two else probabilities.argmax(axis=1))
            parts = predicted.reliability(chance, occurred.astype(float), np.ones(len(occurred)))
            return cls(kind, *parts, name=f"{name} = {classes[1]}" if two else "the likeliest label").plot(ax, **kwargs)
        y = predicted.values(y)
        draws = predicted.table(draws, len(y), "draws")
        counts = all(np.all((part >= 0) & (part == np.floor(part))) for part in (y, draws))
        kind = ("rootogram" if counts else "histogram") if kind == "auto" else kind
        check_kind(kind, ("rootogram", "histogram", "ecdf"))
        if kind == "rootogram" and not counts:
            raise ValueError("kind='rootogram' needs counts: y and draws hold numbers that are none.")
        parts = getattr(predicted, f"of_{kind}")(y, draws)
        return cls(kind, *parts, name=name).plot(ax, **kwargs)
