"""Priors that follow the units of the data: columns on their own scale, the intercept where the target is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from numbers import Real
from typing import Any

import numpy as np

from sksvi.estimators.checks import check_row_values
from sksvi.estimators.stage import Stage
from sksvi.inference.problem import Problem
from sksvi.inference.state import State
from sksvi.likelihoods.scales import own_unit, weighted_median
from sksvi.linear_model._columns import ColumnScaling, ColumnStats, spreads
from sksvi.models.base import Table
from sksvi.models.linear.glm import LinearModel, best_constant
from sksvi.models.targets import starting

Array = np.ndarray

#: Prior standard deviations between an intercept and zero from which a user is told.
PINNED = 5.0
#: Standard deviation of the intercept's default prior, in natural scales of f.
INTERCEPT_WIDTH = 10.0
#: Precision of a flat prior, in the column's own scale and the natural scale of f: a standard deviation of 10,000.
FLAT = 1e-8
#: Median absolute deviations of a target with heavy tails that its unit is at most.
TAILS = 10.0
#: Fewer rows (a row as often as it weighs) do not say how far a measured target may go.
FEW_ROWS = 20
#: Share of a coefficient that the data must determine where the prior is flat.
DETERMINED = 0.99
#: Share of the intercept's deviation that columns without variation make up, from which a user is told, and how many of
#: them are named.
WIDENED, LARGEST = 0.1, 5
#: Ratio of spreads among columns from which a fixed prior is questioned.
UNEVEN = 100.0


class PriorScaling:
    """What an estimator with a linear latent makes of `prior_precision` and `intercept_precision`."""

    prior_precision: Any
    intercept_precision: Any
    fit_intercept: bool
    likelihood_: Any
    intercept_: Any
    posterior_: Any
    _subspace: Any
    _coordinate_name: Callable[[int], str]
    _largest: Callable[[Problem, State], list[str]]
    _coordinate_names: Callable[[], list[str]]
    _fade: Callable[[float], float]
    _inform: Callable[[Table, float], None]
    _to_centre: Callable[[Any], Any]
    _categories: Any

    @property
    def _prior_kind(self) -> str:
        """ "auto", "ard", "flat" or "fixed"."""
        given = self.prior_precision
        if isinstance(given, str):
            return given
        return "flat" if isinstance(given, Real) and given == 0 else "fixed"

    def _working(self, data: Table, start: Stage) -> Table:
        """The rows in the coordinates of the fit; the first ones fix these."""
        fixed = self._fixed_part(data.X)
        if start.fresh:
            self._columns = ColumnScaling.of(fixed, data.weight, self._to_centre(fixed), self._scaled)
            self._fix_scales(data)
            self._spreads = spreads(fixed, data.weight) if self._one_for_all else None
        elif not start.share:
            share = self._fade(data.total_weight) if start.portion else 0.0
            self._fix_more(self._columns.updated(fixed, data.weight, share), data, share)
        return replace(
            data, X=self._columns.by_block(data.X) if self._passes_over(data, start) else self._in_units(data.X)
        )

    def _passes_over(self, data: Table, start: Stage) -> bool:
        """Whether a fit reads rows in blocks from first to last, so that none need be held in its coordinates."""
        X, own = data.X, self._columns.own
        if own or not isinstance(X, np.ndarray) or not X.flags.c_contiguous or X.shape[1] > len(data):
            return False
        if start.share:
            return not start.fresh and self.batch_size in ("auto", None)
        return not start.portion and self._batch_size(len(data), self._algorithm()) is None

    @property
    def _centred(self) -> bool:
        return self.fit_intercept and isinstance(self.intercept_precision, str)

    @property
    def _column_spread(self) -> Array | None:
        """What each column that has a coefficient spreads over; None under a fixed prior, which does not ask."""
        stats = self._columns.known
        return None if stats is None else stats.spread

    @property
    def _scaled(self) -> bool:
        return self._prior_kind != "fixed"

    def _fix_scales(self, targets: Table) -> None:
        """What the targets of the first rows fix."""
        targets = starting(targets, self.likelihood_.traits.by_moments)
        self._unit = self._natural_unit(targets)
        self._intercept_prior = self._intercept(targets)
        self._inform(targets, 0.0)

    def _fix_more(self, columns: ColumnScaling, targets: Table, share: float) -> None:
        """What more rows change: what columns spread over and rows tell, an intercept's prior that the user gives."""
        self._inform(starting(targets, self.likelihood_.traits.by_moments), share)
        self._relative_scale_before, self._columns = self._columns.relative_scale, columns
        if not isinstance(self.intercept_precision, str):
            self._intercept_prior = self._intercept(targets)

    def _fix_by_stats(self, stats: ColumnStats, targets: Table, fresh: bool, centred: Any) -> None:
        """Fix coordinates and priors by statistics of rows that lie elsewhere; `centred`: which columns are."""
        if not fresh:
            columns = self._columns.updated_from_stats(stats, 0.0) if self._scaled else self._columns
            self._fix_more(columns, targets, 0.0)
            return
        self._columns = ColumnScaling.from_stats(stats, centred, self._scaled)
        self._fix_scales(targets)
        self._spreads = stats.about(stats.centre + stats.mean).spread if self._one_for_all else None

    @property
    def _one_for_all(self) -> bool:
        """Whether one fixed number is the prior precision of columns as they are."""
        return self._prior_kind == "fixed" and isinstance(self.prior_precision, Real)

    def _fixed_part(self, X: Any) -> Any:
        """The columns that have a coefficient."""
        return X

    def _in_units(self, X: Any) -> Any:
        """Rows in the coordinates of the fit."""
        return self._columns.applied(X)

    def _natural_unit(self, data: Table) -> float:
        """The standard deviation of a measured target; links have a scale of their own, about 1."""
        if not self.likelihood_.traits.measured:
            return 1.0
        y = data.y if data.offset is None else data.y - data.offset
        unit = own_unit(y, data.weight)
        if self.likelihood_.scale_mixture is None:
            return unit
        # Heavy tails: a standard deviation that a few rows make says nothing of the others, nor where f is.
        middle = weighted_median(np.abs(y - weighted_median(y, data.weight)), data.weight)
        return min(unit, TAILS * middle) if middle > 0 else unit

    def _intercept(self, data: Table) -> tuple[float, float]:
        """Prior mean and precision of the intercept at the centre of the columns."""
        if not isinstance(self.intercept_precision, str):
            return 0.0, float(self.intercept_precision)
        mean = best_constant(self.likelihood_, data) if self.fit_intercept and self.likelihood_.n_latents == 1 else 0.0
        # A few measured rows, as a stream may begin with, say too little of the target's unit.
        unknown = self.likelihood_.traits.measured and data.total_weight < FEW_ROWS
        precision = FLAT if unknown or self._prior_kind == "flat" else INTERCEPT_WIDTH**-2
        return mean, precision / self._unit**2

    def _precision(self, n_features: int) -> Any:
        kind = self._prior_kind
        if kind != "fixed":
            return FLAT / self._unit**2 if kind == "flat" else kind
        if isinstance(self.prior_precision, Real):
            return float(self.prior_precision)
        own = self._categories
        n_columns = n_features if own is None else own.n_columns
        precision = check_row_values(self.prior_precision, n_columns, "prior_precision", each="column")
        assert precision is not None
        precision = precision if own is None else own.for_each(precision)
        if not np.all(precision > 0):
            j = int(np.argmin(precision))
            raise ValueError(
                f"prior_precision must be positive; found {precision[j]:g} for {self._coordinate_name(j)}."
            )
        return precision

    @property
    def _unused_levels(self) -> str:
        """What helps against levels of a categorical type that no row has."""
        return "" if self._categories is None else ", and levels without rows (.cat.remove_unused_categories())"

    # ---- what a fit shows of them
    def _check_determined(self, problem: Problem, state: State) -> None:
        """Raise where the data do not determine all coefficients under a flat prior; names the least determined one."""
        if self._prior_kind != "flat":
            return
        if self._subspace is not None:
            raise ValueError(
                f"prior_precision={self.prior_precision!r} is a flat prior, but X has more columns than rows: the data "
                "do not determine their coefficients. Choose prior_precision='auto'."
            )
        model, weights = problem.model, state.q["weights"]
        assert isinstance(model, LinearModel)
        precision, variance = (
            model.by_latent(part) for part in (model.prior(state.q)["weights"].precision, weights.variance)
        )
        if len(variance) > 1:  # a shift of all classes changes nothing: what is asked for are their differences
            inner: Any = self.posterior_["weights"].inner
            variance = np.stack([inner.contrast(k, 0).variance for k in range(1, len(variance))])
            precision = 1.0 / (1.0 / precision[1:] + 1.0 / precision[:1])
        share = (1.0 - precision * variance).min(axis=0)
        share = np.append(share[: model.n_fixed], share[-1:] if self.fit_intercept else [])
        said_least = None
        if len(share) and share.min() < DETERMINED:
            said_least = self._coordinate_name(int(np.argmin(share)))
        elif model.n_fixed + self.fit_intercept == model.width and model.separates(state.q, problem.data):
            # Larger is better without end, however far the passes went.
            said_least = next(iter(self._largest(problem, state)), None)
        if said_least is not None:
            raise ValueError(
                f"prior_precision={self.prior_precision!r} is a flat prior, but the data do not determine the "
                f"coefficient of {said_least}: drop columns that others explain or that separate the "
                f"labels{self._unused_levels}, or choose prior_precision='auto'."
            )

    def _uneven(self) -> Iterator[str]:
        """Warning of one fixed prior precision for columns on different scales."""
        some = np.flatnonzero(self._spreads > 0) if self._spreads is not None else []
        if not len(some):
            return
        low, high = (some[int(f(self._spreads[some]))] for f in (np.argmin, np.argmax))
        if self._spreads[high] > UNEVEN * self._spreads[low]:
            names = self._coordinate_names()
            yield (
                f"prior_precision={self.prior_precision:g} is one prior for columns on different scales: "
                f"{names[high]} spreads over {self._spreads[high]:.3g}, "
                f"{names[low]} over {self._spreads[low]:.3g}. Set prior_precision='auto', or scale "
                "the columns."
            )

    def _constants(self, n: int) -> Iterator[str]:
        """Columns that do not vary, where they leave the intercept, which is f at 0 of them, uncertain."""
        stats = self._columns.known
        if stats is None or not self.fit_intercept or n < 2:
            return
        same = np.flatnonzero((stats.low == stats.high) & (stats.low != 0.0))
        if not len(same):
            return
        weights: Any = self.posterior_["weights"]
        at = np.zeros((2, weights.mean.shape[-1]))
        at[:, -1], at[1, same] = 1.0, stats.low[same]
        plates = [weights] if weights.mean.ndim == 1 else [weights[k] for k in range(len(weights.mean))]
        if not any(np.subtract(*np.sqrt(plate.spread(at))) > WIDENED * plate.std[-1] for plate in plates):
            return
        names, values = self._coordinate_names(), stats.low[same]
        constants = ", ".join(f"{names[j]} is {value:g}" for j, value in zip(same[:LARGEST], values, strict=False))
        more = f" (and {len(same) - LARGEST} more)" if len(same) > LARGEST else ""
        yield (
            f"{constants}{more} in all {n} rows: the data say nothing of the coefficient of a column that does not "
            "vary. It keeps its prior, and the intercept, which is f where the column is 0, takes that uncertainty; "
            "predictions at the same value are as sure as without the column. Leave it out; a column of ones in the "
            "place of an intercept needs fit_intercept=False."
        )

    def _pinned(self) -> Iterator[str]:
        """An absolute prior of the intercept that the data contradict."""
        if isinstance(self.intercept_precision, str) or not self.fit_intercept or self.likelihood_.traits.discrete:
            return
        pull = float(np.max(np.abs(self.intercept_))) * np.sqrt(self.intercept_precision)
        if pull >= PINNED:
            yield (
                f"the intercept lies {pull:.1f} standard deviations of its prior from zero, which pulls it there: "
                f"set intercept_precision='auto', or lower {self.intercept_precision:g}."
            )
