"""The table of a fitted linear model: coefficients or contrasts of classes, ratios, what else was learned."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from sksvi._names import own_name
from sksvi._typing.arrays import DataFrame
from sksvi.estimators.checks import check_choice, check_flag
from sksvi.estimators.hyperparameters import node_table
from sksvi.estimators.summaries import (
    COLUMNS,
    STEP,
    checked_reference,
    concatenated,
    exponentiated,
    learned_rows,
    mixture_table,
)
from sksvi.families.gaussian.mixture import NodeMixture
from sksvi.linear_model._contrasts import LevelContrasts
from sksvi.linear_model._effects import Question, answers
from sksvi.models.linear.scales import WIDEST
from sksvi.predictive.coverage import tail_of

Array = np.ndarray


class CoefficientTables:
    """Needs what a fit of a linear latent leaves behind."""

    covariance: str
    fit_intercept: bool
    n_samples_seen_: float
    prior_precision: Any
    prior_precision_: Any
    _column_spread: Array | None
    _columns: Any
    _kinds: Callable[[int], tuple[Array, Array]]
    _likelihood_columns: Callable[[Array], dict[str, Any]]
    _node_fits: Callable[[], list[Any]]
    _nodes: Any
    _places: dict[str, list[int]]
    _subspace: Any
    _unit: float
    _values_of: Callable[[str, Any], Any]
    classes_: np.ndarray
    likelihood_: Any
    posterior_: Any
    state_: Any
    _prior_kind: str
    _column_names: Callable[[], list[str]]
    _names_of_columns: Callable[[], list[str]]
    _categories: Any

    def summary(
        self,
        coverage: float = 0.9,
        exponentiate: bool = False,
        reference: object = None,
        *,
        effects: str | None = None,
        contrasts: str = "reference",
        reference_levels: Mapping[Any, Any] | None = None,
    ) -> DataFrame:
        """What the data say of every effect, then the learned parameters of the likelihood.

        Each row answers for one effect: under a weak prior of its own, that of the others as it was learned
        (``effects="own"``, the default where the prior was learned). `coef_` and predictions are under the prior that
        all share, as rows of ``effects="joint"`` are. A categorical column has a row ``column_level`` for every level
        but its first, with which it is compared; the intercept is f at these first levels and at 0 of all numbers.

        Parameters
        ----------
        coverage : float, default=0.9
            Of the equal-tailed interval (lower, upper).
        exponentiate : bool, default=False
            Whether to add ``exp(mean)``, ``exp(lower)`` and ``exp(upper)``: odds ratios of a logit link (of an ordinal
            target: of more than any level), rate ratios of a log link.
        reference : label, default=None
            For more than two classes: the class that coefficients of the others are compared with; rows are then the
            differences w_c - w_reference, with the covariance between classes that the posterior has. None: the first
            class under a flat prior; the mean of all classes where effects are "own", which the data do not tell
            beyond; else none.
        effects : {"own", "joint"}, default=None
            "own": each effect (of a categorical column, of the classes, all together) under N(0, (2.5 u / s)²), u the
            standard deviation of a measured target, 1 behind a link, s that of the column, half the distance of its two
            values; of classes half that variance. "joint": under the prior that all effects share, the only one for
            ``covariance="diag"``. None: "own" where `prior_precision` is "auto" or "ard", else "joint".
        contrasts : {"reference", "mean", "none"}, default="reference"
            Levels of a categorical column less its reference, less the mean of all rows, or each level beside zero.
        reference_levels : dict, default=None
            Column to the level that others are compared with; None: the first of each.

        Returns
        -------
        DataFrame
            Columns mean, std, lower, upper, direction; one row per coefficient, by class for more than two classes.
            A row that is no column's has a name that no column has: where a column is called "intercept", that of the
            intercept is ``(intercept)``.
            ``direction`` is the posterior probability that a coefficient has the sign of its mean. Parameters of the
            likelihood that were learned follow (``std(residual)`` of Gaussian noise, ``dispersion``, ``scale``, ``df``,
            ``cut_points[k]``), without direction and exp: points with the spread that the data's curvature leaves them,
            all else as fitted, NaN where the fit keeps none. Fixed ones have no row.

        Raises
        ------
        ValueError
            exponentiate=True with another link, or for more than two classes without `reference`; a `reference` that is
            none of more than two classes; ``effects="own"`` of a prior that was given, or without correlations; an
            unknown column or level in `reference_levels`.

        Notes
        -----
        With S the covariance of q, Δ the prior's precisions and W the weak ones a set J of effects has the covariance
        (S_JJ⁻¹ - Δ_J + W_J)⁻¹: exact for a Gaussian likelihood given its hyperparameters, over whose posterior rows are
        mixed. Nothing is corrected for many looks: to rank many columns use `coef_`.
        """
        check_is_fitted(self)
        check_choice(effects, "effects", (None, "own", "joint"))
        check_choice(contrasts, "contrasts", ("reference", "mean", "none"))
        tail_of(coverage)
        if reference is None and self._prior_kind == "flat" and self.likelihood_.n_latents > 1:
            reference = self.classes_[0]
        table = self._effects(coverage, reference, effects, contrasts, reference_levels)
        if check_flag(exponentiate, "exponentiate"):
            if reference is None and self.likelihood_.n_latents > 1:
                raise ValueError(
                    "exponentiate=True of more than two classes needs a class that the odds are against: set reference "
                    f"to one of {self.classes_.tolist()}."
                )
            table = exponentiated(table, self.likelihood_, type(self).__name__)
        return concatenated([table, *self._scale_tables(coverage)])

    def _data_header(self) -> list[tuple[str, str]]:
        """Header lines about the data: beside rows and columns what became of categorical ones."""
        lines: list[tuple[str, str]] = super()._data_header()  # type: ignore[misc]
        if self._categories is None:
            return lines
        return [*lines, ("categorical", self._categories.description(self._names_of_columns()))]

    def _table_header(self, effects: str | None = None, **options: Any) -> list[tuple[str, str]]:
        """A header line about the question that rows answer."""
        own = self._own_by_default if effects is None else effects == "own"
        if own:
            return [("effects", "each under a weak prior of its own, the others' as learned")]
        if self._prior_kind in ("auto", "ard"):
            return [("effects", "under the prior that was learned for all")]
        return []

    def _shown_coefficients(self, coverage: float) -> tuple[list[Array], Array]:
        """Mean, std, lower and upper, (C, R) each, of the rows that `summary` has by default but the intercept.

        And (R,) their coefficients: of a categorical column a row belongs to the level that is compared.
        """
        table = self._effects(coverage, None, None, "reference", None)
        named = np.array(self._level_contrasts("reference", None).named, int)
        width = len(named) + self.fit_intercept
        columns = [table[name].to_numpy(float).reshape(-1, width) for name in COLUMNS]
        return [column[:, : len(named)] for column in columns], named

    def _scale_tables(self, coverage: float) -> list[Any]:
        """What a summary has below the coefficients."""
        columns = {} if self._nodes is None else self._likelihood_columns(self._nodes.values)
        if columns:
            within = self._likelihood_within()
            return [node_table(columns, self._nodes.weights, coverage, self.likelihood_.traits.positive, within)]
        return [learned_rows(self.likelihood_, self.state_.q.get("likelihood"), coverage)]

    def _likelihood_within(self) -> Array:
        """Variance of the learned parameters of the likelihood about the heaviest node, on the scale of tables."""
        nodes = self._nodes
        at = nodes.values[int(np.argmax(nodes.weights))]
        rows = self._likelihood_columns(np.vstack([at, at + STEP * np.eye(len(at))]))
        on = np.array([np.log(row) if self.likelihood_.traits.positive else row for row in rows.values()])
        slopes = (on[:, 1:] - on[:, :1]) / STEP
        return np.square(slopes) @ (np.zeros(len(at)) if nodes.within is None else nodes.within)

    # ---- coefficients
    @property
    def _own_by_default(self) -> bool:
        """Whether rows are under a weak prior of their own where nobody asks: the learned one is for prediction."""
        return self._prior_kind in ("auto", "ard") and self.covariance == "full"

    def _own_precision(self, effects: str | None) -> Array | None:
        """Precision of the weak prior of each effect, (D,); None: rows are under the prior of the fit."""
        own = self._own_by_default if effects is None else effects == "own"
        if not own:
            return None
        if not self._own_by_default:
            raise ValueError(
                "effects='own' replaces a prior that was learned, and needs the correlations of the coefficients: set "
                f"prior_precision='auto' and covariance='full', or effects='joint'; found {self.prior_precision!r} and "
                f"{self.covariance!r}."
            )
        spread = self._column_spread
        assert spread is not None
        # Constant columns keep the prior of the fit.
        precision = np.atleast_1d(self.prior_precision_)
        # Of classes the difference of two is as wide as a coefficient of two labels is.
        several = 2.0 if self.likelihood_.n_latents > 1 else 1.0
        return np.where(spread > 0, several * np.square(spread / (2.0 * WIDEST * self._unit)), precision)

    def _effects(
        self,
        coverage: float,
        reference: Any,
        effects: str | None = "joint",
        contrasts: str = "none",
        reference_levels: Any = None,
    ) -> Any:
        """A summary's table of the coefficients."""
        import pandas as pd

        classes = getattr(self, "classes_", None)
        view = self.posterior_["weights"]
        several = view.mean.ndim == 2
        own = self._own_precision(effects)
        maps, shown_classes = self._class_contrasts(reference, several, own is not None)
        levels = self._level_contrasts(contrasts, reference_levels)
        columns = self._column_names()
        question = Question(levels.plain, levels.factors, maps, self.fit_intercept, own)
        parts = [answers(question, part, precision) for part, precision in self._views_and_priors(view)]
        means, stds = np.array([m for m, _ in parts]), np.sqrt([v for _, v in parts])
        order = np.concatenate([levels.order, [question.n_rows - 1] * self.fit_intercept]).astype(int)
        names = [columns[j] for j in levels.named] + [own_name("intercept", columns)] * self.fit_intercept
        index = pd.Index(names, name="coefficient")
        if several:
            labels = [classes[k] for k in shown_classes]
            index = pd.MultiIndex.from_product([labels, names], names=["class", "coefficient"])
        weights = np.ones(1) if self._nodes is None else self._nodes.weights
        df = self._degrees_of_freedom() if len(parts) == 1 else None
        return mixture_table(means[..., order], stds[..., order], weights, coverage, index, df)

    def _prior_at(self, fit: Any) -> Array:
        """Precision of the prior of the coefficients at a node, in the user's units, (D,)."""
        d = len(self._columns.scale)
        fitted = np.broadcast_to(np.atleast_1d(np.asarray(self.prior_precision_, float)), (d,))
        own = None if fit.values is None else self._values_of("prior_precision", fit.values)
        if own is None:
            return fitted
        # In a subspace the columns are of one kind.
        kinds = np.zeros(d, int) if self._subspace is not None else self._kinds(d)[0]
        return fitted * np.exp(own - self.state_.q["prior_precision"].value)[kinds]

    def _views_and_priors(self, view: Any) -> list[tuple[Any, Array]]:
        """The weights in the user's units and the precision of their prior, (D,), of every node."""
        views = view.components if isinstance(view, NodeMixture) else [view]
        return [(part, self._prior_at(fit)) for part, fit in zip(views, self._node_fits(), strict=True)]

    def _degrees_of_freedom(self) -> float | None:
        """Degrees of freedom of t quantiles where a noise without nodes was learned; None: quantiles are normal."""
        likelihood = self.likelihood_
        if likelihood.noise_variance is None or "likelihood" not in self.state_.q or "likelihood" in self._places:
            return None
        view = self.posterior_["weights"]
        precision, d = self._views_and_priors(view)[0][1], len(self._columns.scale)
        determined = float(np.sum(np.maximum(1.0 - precision * view.variance[..., :d], 0.0)))
        return max(1.0, self.n_samples_seen_ - self.fit_intercept - determined)

    def _class_contrasts(self, reference: Any, several: bool, own: bool) -> tuple[Array, list[int]]:
        """Rows (C, K) that make contrasts of classes, and the classes that rows are called by."""
        classes = getattr(self, "classes_", None)
        if reference is not None:
            at = checked_reference(reference, classes, several, type(self).__name__)
            compared = [k for k in range(len(classes)) if k != at]
            return np.eye(len(classes))[compared] - np.eye(len(classes))[at], compared
        if not several:
            return np.ones((1, 1)), [0]
        k = len(classes)
        # A shift of all classes changes nothing: under weak priors only differences are known.
        return np.eye(k) - (1.0 / k if own else 0.0), list(range(k))

    def _level_contrasts(self, contrasts: str, reference_levels: Any) -> LevelContrasts:
        """Which coefficients have rows, and contrasts of levels."""
        categories, d = self._categories, len(self._columns.scale)
        if categories is None:
            if reference_levels:
                raise ValueError(f"reference_levels={reference_levels!r}: X has no categorical column.")
            return LevelContrasts.plain_columns(d)
        return LevelContrasts.of(categories, self._names_of_columns(), contrasts, reference_levels, self._shares())

    def _shares(self) -> Array | None:
        """Share of the rows that each indicator has, (D,); None under a fixed prior, which keeps no such thing."""
        stats = self._columns.known
        return None if stats is None else stats.centre + stats.mean
