"""What the factors of a decomposition are made of: a heat map of loadings, or bars."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from sksvi._names import apart, feature_names
from sksvi._typing.arrays import ArrayLike, Axes, Names
from sksvi.displays import _common as common
from sksvi.displays._common import COLORS

Array = np.ndarray

#: Weight of each component, in the order in which an estimator is asked for it, and what it is.
WEIGHTS = {"component_shares_": "share", "component_weights_": "weight", "feature_probability_": "use"}


class FactorDisplay:
    """Factors, or components, of a decomposition by the columns that they load on.

    Parameters
    ----------
    components : array-like of shape (K, D)
        Loadings: a row for each factor.

    names : sequence of str, default=None
        Names of the columns; None: x0, x1, …

    weights : array-like of shape (K,), default=None
        How much each factor matters, which its label then says.

    weight_name : str, default="weight"
        What the weights are.

    labels : sequence of str, default=None
        Names of the factors; None: factor 0, factor 1, …

    unit : str, default="Loading (posterior mean)"
        What a loading is, for the axis.

    n_components, n_features : int, default=None
        How many factors and columns there are, where these are but some of them; None: these are all.

    Attributes
    ----------
    ax_ : matplotlib Axes or ndarray of them
        The axes: of bars one for each factor.

    figure_ : matplotlib Figure
        The figure.

    image_ : matplotlib AxesImage
        Heat map: loadings, a row for each factor.

    colorbar_ : matplotlib Colorbar
        Heat map: its scale.

    bars_ : list of matplotlib BarContainer
        Bars: one per factor, largest loading on top.

    Raises
    ------
    ValueError
        For shapes that do not belong together, and loadings that are not finite.

    See Also
    --------
    sksvi.TopicWordsDisplay : The words of topics.
    sksvi.DictionaryDisplay : Factors of image patches, as patches.

    Examples
    --------
    >>> from sksvi.displays import FactorDisplay
    >>> display = FactorDisplay([[1.0, 0.0], [0.0, 2.0]], ["bread", "milk"], [0.7, 0.3], "share").plot()
    >>> [label.get_text() for label in display.ax_.get_yticklabels()]
    ['factor 0 (share 0.7)', 'factor 1 (share 0.3)']
    """

    def __init__(
        self,
        components: ArrayLike,
        names: Names | None = None,
        weights: ArrayLike | None = None,
        weight_name: str = "weight",
        *,
        labels: Names | None = None,
        unit: str = "Loading (posterior mean)",
        n_components: int | None = None,
        n_features: int | None = None,
    ) -> None:
        self.components = np.asarray(components, float)
        if self.components.ndim != 2 or not self.components.size or not np.all(np.isfinite(self.components)):
            raise ValueError(f"components must be finite numbers, a row per factor; found {self.components.shape}.")
        K, D = self.components.shape
        self.names = [f"x{j}" for j in range(D)] if names is None else [str(name) for name in names]
        self.labels = [f"factor {k}" for k in range(K)] if labels is None else [str(label) for label in labels]
        self.weights = None if weights is None else np.asarray(weights, float)
        shape = None if self.weights is None else self.weights.shape
        if len(self.names) != D or len(self.labels) != K or shape not in (None, (K,)):
            raise ValueError(
                f"components {(K, D)}, the {len(self.names)} names, the {len(self.labels)} labels and weights {shape} "
                "must agree in shape."
            )
        self.weight_name, self.unit = weight_name, unit
        self.n_components = K if n_components is None else int(n_components)
        self.n_features = D if n_features is None else int(n_features)

    @property
    def _titles(self) -> list[str]:
        """Labels of the factors, with their weights."""
        if self.weights is None:
            return apart(self.labels, 24)
        weights = zip(apart(self.labels, 24), self.weights, strict=True)
        return [f"{label} ({self.weight_name} {weight:.2g})" for label, weight in weights]

    def _note(self) -> str:
        """How many are shown, where these are not all."""
        K, D = self.components.shape
        parts = [f"{K:,} of {self.n_components:,} factors"] if K < self.n_components else []
        parts += [f"{D:,} of {self.n_features:,} columns, those with the largest loadings"] * (D < self.n_features)
        return ", ".join(parts)

    def plot(
        self, ax: Axes | None = None, *, kind: str = "heatmap", max_bars: int = 10, **kwargs: Any
    ) -> FactorDisplay:
        """Draw the loadings.

        Parameters
        ----------
        ax : matplotlib Axes, or for bars a sequence of them, default=None
            None makes a new figure.

        kind : {"heatmap", "bars"}, default="heatmap"
            All loadings as colours, or the largest of each factor as bars.

        max_bars : int, default=10
            Most bars of a factor: the loadings that are the farthest from zero.

        **kwargs : dict
            Passed on to ``Axes.imshow`` or ``Axes.barh``.

        Returns
        -------
        display : FactorDisplay
            The display itself.
        """
        if common.check_kind(kind, ("heatmap", "bars")) == "heatmap":
            return self._plot_heatmap(ax, kwargs)
        return self._plot_bars(ax, min(common.check_most("max_bars", max_bars) or 10, self.components.shape[1]), kwargs)

    def _plot_heatmap(self, ax: Any, kwargs: dict[str, Any]) -> FactorDisplay:
        K, D = self.components.shape
        ax = common.axes_for(ax, (4.0 + 0.2 * max(D, 8), 2.2 + 0.22 * max(K, 3)))
        top = float(np.abs(self.components).max()) or 1.0
        # Loadings of both signs have colours that meet in white; those of one sign begin at it.
        both = bool(np.any(self.components < 0))
        style: dict[str, Any] = {"cmap": "RdBu" if both else "Blues", "vmin": -top if both else 0.0, "vmax": top}
        self.image_ = ax.imshow(self.components, aspect="auto", **(style | kwargs))
        self.colorbar_ = common.scale_beside(self.image_, self.unit)
        ax.set_yticks(np.arange(K), self._titles, fontsize=8)
        ax.set_xticks(np.arange(D), apart(self.names, 24), fontsize=8, rotation=90)
        common.note_above(ax, self._note())
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _plot_bars(self, axes: Any, n_bars: int, kwargs: dict[str, Any]) -> FactorDisplay:
        K = len(self.components)
        size = (3.0, 0.7 + 0.19 * n_bars)
        axes, made = common.panels(axes, K, "ax must hold one Axes per factor", 4, size, 0.5)
        self.bars_, short = [], apart(self.names, 20)
        for own, loadings, title in zip(axes, self.components, self._titles, strict=True):
            order = np.argsort(-np.abs(loadings), kind="stable")[:n_bars]
            colors = [COLORS[0] if value >= 0 else COLORS[1] for value in loadings[order]]
            names, style = [short[j] for j in order], {"color": colors} | kwargs
            self.bars_.append(common.ranked_bars(own, loadings[order], names, title, 8, style))
            own.axvline(0.0, color="0.5", linewidth=0.8)
        if made:
            note = f"; {self._note()}" if self._note() else ""
            axes[0].figure.supxlabel(f"{self.unit}{note}", fontsize=9)
        self.ax_, self.figure_ = axes, axes[0].figure
        return self

    @classmethod
    def from_estimator(
        cls,
        estimator: BaseEstimator,
        *,
        kind: str = "heatmap",
        side: str = "items",
        feature_names: Names | None = None,
        max_components: int | None = 20,
        max_features: int | None = 30,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> FactorDisplay:
        """Draw the factors of a fitted decomposition.

        Parameters
        ----------
        estimator : fitted estimator
            Has ``components_`` (its order is kept), or factors of users and items as `GeneralizedPMF`; a Pipeline or
            search stands for the estimator inside. Weights are its ``component_shares_``, ``component_weights_`` or
            ``feature_probability_`` ("use"), where it has them; of users and items what a factor adds to a rating, root
            mean square.

        kind : {"heatmap", "bars"}, default="heatmap"
            All loadings as colours, or the largest of each factor as bars.

        side : {"items", "users"}, default="items"
            Whose factors are drawn of a model of users and items, the factor that adds most first.

        feature_names : sequence of str, default=None
            Names of the columns (of the items or users); None: those that the estimator saw, or the Pipeline gives.

        max_components : int or None, default=20
            The most factors to draw, the first ones. None draws all.

        max_features : int or None, default=30
            The most columns of a heat map: those with the largest loadings beside the factor's largest, in the order of
            the data. None draws all. Bars are the largest of all columns.

        ax : matplotlib Axes, or for bars a sequence of them, default=None
            None makes a new figure.

        **kwargs : dict
            Passed on to ``Axes.imshow`` or ``Axes.barh``.

        Returns
        -------
        display : FactorDisplay
            The display, drawn.

        Raises
        ------
        NotFittedError
            If the estimator is not fitted.
        TypeError
            For an estimator without factors.
        ValueError
            For another number of names than columns, and a `side`, `kind` or limit that cannot be.
        """
        most = common.check_most("max_components", max_components)
        widest = common.check_most("max_features", max_features)
        inner, before = common.unwrapped(estimator)
        components, names, weights, weight_name, labels = _factors(inner, before, side)
        names = common.column_names(feature_names, names, components.shape[1])
        n_components, n_features = components.shape
        components = components[:most]
        if kind == "heatmap" and widest is not None and n_features > widest:
            largest = np.abs(components).max(axis=1, keepdims=True)
            score = (np.abs(components) / np.where(largest > 0, largest, 1.0)).max(axis=0)
            selected = np.sort(np.argsort(-score, kind="stable")[:widest])
            components, names = components[:, selected], names[selected]
        limits = {"n_components": n_components, "n_features": n_features}
        weights = None if weights is None else weights[:most]
        display = cls(components, names, weights, weight_name, labels=labels[:most], **limits)
        return display.plot(ax, kind=kind, **kwargs)

    @classmethod
    def from_predictions(
        cls,
        components: ArrayLike,
        *,
        names: Names | None = None,
        weights: ArrayLike | None = None,
        kind: str = "heatmap",
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> FactorDisplay:
        """Draw factors that are given.

        Parameters
        ----------
        components : array-like of shape (K, D)
            Loadings: a row for each factor.

        names : sequence of str, default=None
            Names of the columns.

        weights : array-like of shape (K,), default=None
            How much each factor matters.

        kind : {"heatmap", "bars"}, default="heatmap"
            All loadings as colours, or the largest of each factor as bars.

        ax : matplotlib Axes, or for bars a sequence of them, default=None
            None makes a new figure.

        **kwargs : dict
            Passed on to ``Axes.imshow`` or ``Axes.barh``.

        Returns
        -------
        display : FactorDisplay
            The display, drawn.
        """
        return cls(components, names, weights, unit="Loading").plot(ax, kind=kind, **kwargs)


def _factors(inner: Any, before: Any, side: str) -> tuple[Array, Array, Array | None, str, list[str]]:
    """Loadings, names of their columns, weights and what they are, names of the factors."""
    common.check_one_of("side", side, ("items", "users"))
    if getattr(inner, "item_factors_", None) is None:
        components = np.asarray(common.fitted(inner, "components_"), float)
        present = {name: what for name, what in WEIGHTS.items() if getattr(inner, name, None) is not None}
        weight = next(iter(present), None)
        weights = None if weight is None else np.asarray(getattr(inner, weight), float)
        labels = [f"factor {k}" for k in range(len(components))]
        return components, feature_names(inner, before), weights, present.get(weight or "", ""), labels
    users, items = inner.user_factors_, inner.item_factors_
    adds = np.sqrt(np.mean(np.square(users), axis=0) * np.mean(np.square(items), axis=0))
    order = np.argsort(-adds, kind="stable")
    loadings, ids = (items, inner.items_) if side == "items" else (users, inner.users_)
    return loadings.T[order], np.asarray(ids, object), adds[order], "adds", [f"factor {k}" for k in order]
