"""The table of a fitted linear model: coefficients or contrasts of classes, ratios, what else was learned."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from sksvi._names import own_name
from sksvi._typing import DataFrame
from sksvi.estimators.checks import check_flag
from sksvi.estimators.summaries import (
    COLUMNS,
    checked_reference,
    contrasts,
    effect_table,
    exponentiated,
    joined,
    learned_rows,
)
from sksvi.predictive.coverage import tail_of


class CoefficientTables:
    """Needs what a fit of a linear latent leaves behind."""

    fit_intercept: bool
    classes_: np.ndarray
    likelihood_: Any
    posterior_: Any
    state_: Any
    _prior_kind: str
    _column_names: Callable[[], list[str]]
    _names_of_columns: Callable[[], list[str]]
    _categories: Any

    def summary(self, coverage: float = 0.9, exponentiate: bool = False, reference: object = None) -> DataFrame:
        """Posterior of every coefficient, then the learned parameters of the likelihood.

        A categorical column has a row per level, ``column_level``; under a flat prior the first level, with which the
        others are compared, has none. Differences between two levels are those of the effects that
        :func:`sksvi.inspection.marginal_effects` has, with their own intervals.

        Parameters
        ----------
        coverage : float, default=0.9
            Of the equal-tailed interval (lower, upper).
        exponentiate : bool, default=False
            Whether to add ``exp(mean)``, ``exp(lower)`` and ``exp(upper)``: odds ratios of a logit link (of an ordinal
            target: of more than any level), rate ratios of a log link.
        reference : label, default=None
            For more than two classes: the class that coefficients of the others are compared with; rows are then the
            differences w_c - w_reference, with the covariance between classes that the posterior has. Under a flat
            prior, where the data determine nothing else, None is the first class.

        Returns
        -------
        DataFrame
            Columns mean, std, lower, upper, direction; one row per coefficient, by class for more than two classes.
            A row that is no column's has a name that no column has: where a column is called "intercept", that of the
            intercept is ``(intercept)``.
            ``direction`` is the posterior probability that a coefficient has the sign of its mean. Parameters of the
            likelihood that were learned follow (``std(residual)`` of Gaussian noise, ``dispersion``, ``scale``, ``df``,
            ``cut_points[k]``), without direction and exp: points with the spread that the data's curvature leaves them,
            all else as fitted, NaN where the fit keeps none. Fixed ones have no row. Where the learned prior switched
            coefficients off, a column switched_off says which, and std, lower, upper and direction are those under the
            widest prior that the data allow (a 90 % profile-likelihood interval of its scale): the posterior under the
            best one has no width.

        Raises
        ------
        ValueError
            exponentiate=True with another link, or for more than two classes without `reference`; a `reference` that is
            none of more than two classes.
        """
        check_is_fitted(self)
        tail_of(coverage)
        if reference is None and self._prior_kind == "flat" and self.likelihood_.n_latents > 1:
            reference = self.classes_[0]
        effects = self._effects(coverage, reference)
        if check_flag(exponentiate, "exponentiate"):
            if reference is None and self.likelihood_.n_latents > 1:
                raise ValueError(
                    "exponentiate=True of more than two classes needs a class that the odds are against: set reference "
                    f"to one of {self.classes_.tolist()}."
                )
            effects = exponentiated(effects, self.likelihood_, type(self).__name__)
        return joined([effects, *self._scale_tables(coverage)])

    def _told_of_data(self) -> list[tuple[str, str]]:
        """Header lines about the data: beside rows and columns what became of categorical ones."""
        lines: list[tuple[str, str]] = super()._told_of_data()  # type: ignore[misc]
        if self._categories is None:
            return lines
        return [*lines, ("categorical", self._categories.told(self._names_of_columns()))]

    def _scale_tables(self, coverage: float) -> list[Any]:
        """What a summary has below the coefficients."""
        return [learned_rows(self.likelihood_, self.state_.q.get("likelihood"), coverage)]

    def _effects(self, coverage: float, reference: Any) -> Any:
        """A summary's table of the coefficients."""
        import pandas as pd

        weights, off = self.posterior_["weights"], getattr(self, "_switched_off", None)
        classes = getattr(self, "classes_", None)
        mean, std = weights.mean, weights.std
        own = std if off is None else off.std.reshape(mean.shape) * std
        centre = mean if off is None else off.mean.reshape(mean.shape) * std
        which = None if off is None else off.which.reshape(mean.shape)
        if reference is not None:
            at = checked_reference(reference, classes, mean.ndim == 2, type(self).__name__)
            kept, mean, std = contrasts(weights, at)
            # Under the widest prior the classes of a coefficient that is off are as good as independent.
            own, centre = np.hypot(own[kept], own[at]), centre[kept] - centre[at]
            classes, which = classes[kept], None if which is None else which[kept]
        columns = self._column_names()
        names = columns + [own_name("intercept", columns)] * self.fit_intercept
        index = pd.Index(names, name="coefficient")
        if mean.ndim == 2:
            index = pd.MultiIndex.from_product([classes, names], names=["class", "coefficient"])
        table = effect_table(mean, std, coverage, index)
        if which is None:
            return table
        wide, rows = effect_table(centre, own, coverage, index), which.ravel()
        told = ["std", "lower", "upper", "direction"]
        table.loc[rows, told] = wide.loc[rows, told]
        table.insert(len(COLUMNS), "switched_off", rows)
        return table
