"""Priors that follow the units of the data: the intercept where the target is, coefficients by what rows tell."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, Self

import numpy as np

from sksvi.estimators.checks import check_row_values
from sksvi.estimators.posterior import Posterior
from sksvi.estimators.refit import text
from sksvi.likelihoods import Likelihood
from sksvi.likelihoods.scales import own_unit, weighted_median
from sksvi.linear_model._columns import ColumnStats
from sksvi.models.data import Table
from sksvi.models.linear.glm import best_constant
from sksvi.models.linear.scales import WIDEST, ScalePrior
from sksvi.priors import MultivariateNormal, Normal

Array = np.ndarray

#: Standard deviation of the intercept's default prior, in natural scales of f.
INTERCEPT_WIDTH = 10.0
#: Precision of a flat prior, in the column's own scale and the natural scale of f: a standard deviation of 10,000.
FLAT = 1e-8
#: Median absolute deviations of a target with heavy tails that its unit is at most.
TAILS = 10.0
#: Fewer rows (a row as often as it weighs) do not say how far a measured target may go.
FEW_ROWS = 20


def prior_kind(given: Any) -> str:
    """The kind of prior that `prior_precision` asks for: "auto", "ard", "flat", "groups" or "fixed"."""
    if isinstance(given, Mapping):
        return "groups"
    if isinstance(given, str):
        return given
    return "flat" if isinstance(given, Real) and given == 0 else "fixed"


def joint_of(given: Any) -> MultivariateNormal | None:
    """The normal prior that a posterior stands for, or the one that is given; None of a prior of another kind.

    Raises
    ------
    ValueError
        For a posterior without names of coefficients, or of several classes.
    """
    if not isinstance(given, Posterior):
        return given if isinstance(given, MultivariateNormal) else None
    if given.names is None:
        raise ValueError(
            "prior is a posterior whose coefficients have no names: give posterior_ of a BayesianGLMRegressor or "
            "BayesianGLMClassifier, or a sksvi.priors.MultivariateNormal."
        )
    weights = given["weights"]
    if weights.mean.ndim > 1:
        raise ValueError(
            f"prior is the posterior of {len(weights.mean)} classes, and one of two classes or of numbers is taken: go "
            "on from the fit itself by partial_fit."
        )
    return MultivariateNormal(given.names, weights.mean, weights.cov)


def prior_text(estimator: Any, name: str) -> str:
    """The parameter `prior` as text, of a posterior its mean and covariance."""
    joint = joint_of(estimator.prior)
    return text(estimator, name) if joint is None else repr(joint)


def natural_unit(likelihood: Likelihood, targets: Table) -> float:
    """The standard deviation of a target in the unit of f; links have a scale of their own, about 1."""
    if not likelihood.traits.additive:
        return 1.0
    y = likelihood.points(targets.y) - (0.0 if targets.offset is None else targets.offset)
    unit = own_unit(y, targets.weight)
    if likelihood.scale_mixture is None:
        return unit
    # Heavy tails: a standard deviation that a few rows make says nothing of the others, nor where f is.
    middle = weighted_median(np.abs(y - weighted_median(y, targets.weight)), targets.weight)
    return min(unit, TAILS * middle) if middle > 0 else unit


def target_totals(likelihood: Any, targets: Table) -> Array:
    """Sums over targets that say what rows tell of their latents: weights of levels, of successes, or of counts.

    Parameters
    ----------
    likelihood : Likelihood
    targets : Table
    """
    weight = np.ones(len(targets.y)) if targets.weight is None else targets.weight
    if likelihood.traits.measured:
        return np.zeros(1)
    if likelihood.traits.paired:
        return np.array([weight @ part for part in likelihood.outcomes(targets.y)])
    if likelihood.levels is not None:
        return np.bincount(targets.y.astype(int), weight, len(likelihood.levels)).astype(float)
    return np.array([weight @ targets.y])


def rate_of(likelihood: Any, totals: Array, weight: float) -> float:
    """What a row tells of its latent on average, as a share of what one tells at most, from sums over rows.

    A measured target tells all, a label 4 p (1 - p) (of several classes the mean over them, of ordered levels
    4/3 (1 - Σ p³)), a count its mean where that is less than 1, successes in trials as many labels, at most all.

    Parameters
    ----------
    likelihood : Likelihood
        As a fit begins.
    totals : ndarray
        Of `target_totals`.
    weight : float
        Of the rows.

    Examples
    --------
    >>> import numpy as np
    >>> from sksvi.likelihoods import Bernoulli
    >>> from sksvi.linear_model._prior import rate_of
    >>> round(rate_of(Bernoulli(), np.array([9.0, 1.0]), 10.0), 2)
    0.36
    """
    if likelihood.traits.measured or weight <= 0.0:
        return 1.0 if likelihood.traits.measured else 0.0
    if likelihood.traits.paired:
        trials = totals.sum()
        share = totals[0] / trials if trials > 0 else 0.0
        return float(min(1.0, trials / weight * 4.0 * share * (1.0 - share)))
    if likelihood.levels is None:
        return float(min(1.0, totals[0] / weight))
    share = totals / totals.sum()
    if likelihood.traits.ordered:  # of a cumulative logit without effects: of two levels 4 p (1 - p)
        return float(4.0 / 3.0 * (1.0 - np.sum(share**3)))
    return float(np.mean(4.0 * share * (1.0 - share)))


@dataclass(frozen=True)
class LinearPrior:
    """The prior of a linear latent, in units of the data.

    Parameters
    ----------
    kind : {"auto", "ard", "flat", "groups", "fixed"}
        Of the coefficients.
    unit : float
        Natural scale of f: the standard deviation of a measured target, 1 behind a link.
    intercept : tuple of float
        Prior mean and precision of the intercept, at the centre of the columns.
    totals, weight : ndarray and float
        `target_totals` of the rows so far, and their weight.
    """

    LAYOUT = """
        kind text where it in ('auto', 'ard', 'flat', 'groups', 'fixed')
        unit number >0; intercept items 2; intercept[0] number; intercept[1] number >=0; totals (_) f >=0
        weight number >=0
    """

    kind: str
    unit: float
    intercept: tuple[float, float]
    totals: Array
    weight: float

    @classmethod
    def fit(cls, estimator: Any, likelihood: Likelihood, targets: Table) -> Self:
        """The prior that the targets of the first rows fix."""
        kind, unit = prior_kind(estimator.prior_precision), natural_unit(likelihood, targets)
        mean, precision = 0.0, estimator.intercept_precision
        if isinstance(precision, str):
            if estimator.fit_intercept and likelihood.n_latents == 1:
                mean = best_constant(likelihood, targets)
            # A few measured rows, as a stream may begin with, say too little of the target's unit.
            unknown = likelihood.traits.additive and targets.total_weight < FEW_ROWS
            precision = (FLAT if unknown or kind == "flat" else INTERCEPT_WIDTH**-2) / unit**2
        totals = target_totals(likelihood, targets)
        return cls(kind, unit, (mean, float(precision)), totals, float(targets.total_weight))

    def updated(self, estimator: Any, likelihood: Likelihood, targets: Table, share: float) -> Self:
        """The prior after more rows, beside a share of what earlier ones told; an intercept's may be the user's."""
        precision, totals = estimator.intercept_precision, target_totals(likelihood, targets)
        intercept = self.intercept if isinstance(precision, str) else (0.0, float(precision))
        totals = totals + share * self.totals if share else totals
        return replace(
            self, intercept=intercept, totals=totals, weight=float(targets.total_weight) + share * self.weight
        )

    def with_intercept(self, normal: Normal) -> Self:
        """The prior with that of the intercept as the user gives it."""
        return replace(self, intercept=(float(normal.mean), float(normal.std) ** -2))

    def scales(
        self,
        likelihood: Likelihood,
        stats: ColumnStats,
        spread: Array,
        kinds: Array,
        most: Array,
        unit: float | Array,
        link: float | Array,
    ) -> ScalePrior | None:
        """The prior of the scales of a learned precision; None where the user gives it, or of one per column.

        Parameters
        ----------
        likelihood : Likelihood
        stats : ColumnStats
            Of the columns.
        spread : ndarray of shape (D,)
            What the prior of each column is for; 0 of a constant one.
        kinds : ndarray of int, shape (D,)
            Kind of each column: those of a kind share a scale.
        most : ndarray
            The most rows that inform each kind.
        unit, link : float or ndarray of shape (K,)
            Of the latent, and of a link: for all kinds, or for each.
        """
        if self.kind not in ("auto", "groups"):
            return None
        with np.errstate(divide="ignore", invalid="ignore"):
            variances = np.where(spread > 0, stats.variance / np.square(spread), 0.0)
        rate = rate_of(likelihood, self.totals, self.weight)
        # Of many rows a sample says what each tells, not how many there are.
        rows = np.minimum(most, rate * max(stats.weight - 1.0, 0.0))
        return ScalePrior.of(kinds, variances, rows, unit, link, spread > 0)

    def precision(self, given: Any, categories: Any, n_features: int, names: Any) -> Any:
        """What a model takes for the precision of its coefficients: "auto", "ard", or numbers.

        Parameters
        ----------
        given : "auto", "ard", "flat", mapping, float or array-like
        categories : CategoricalColumns or None
        n_features : int
            Number of coefficients.
        names : function
            What errors call a coefficient.

        Raises
        ------
        ValueError
            Numbers that are not positive, or not one for each column.
        """
        if self.kind != "fixed":
            return FLAT / self.unit**2 if self.kind == "flat" else "ard" if self.kind == "ard" else "auto"
        if isinstance(given, Real):
            return float(given)
        n_columns = n_features if categories is None else categories.n_columns
        precision = check_row_values(given, n_columns, "prior_precision", each="column")
        assert precision is not None
        precision = precision if categories is None else categories.for_each(precision)
        if not np.all(precision > 0):
            j = int(np.argmin(precision))
            raise ValueError(f"prior_precision must be positive; found {precision[j]:g} for {names(j)}.")
        return precision


def covariance_of(estimator: Any) -> str:
    """The covariance that q has, "full", "diag" or "low-rank", also where the shape of the rows has chosen it."""
    given: str = estimator.covariance
    # A stream that asks finds nothing that waits.
    plain = getattr(vars(estimator).get("_postponed"), "estimator", estimator)
    return plain._fitted.covariance if given == "auto" else given


# ---- a weak prior of single effects
def own_by_default(estimator: Any) -> bool:
    """Whether rows are under a weak prior of their own where nobody asks: the learned one is for prediction."""
    learned = estimator._prior_kind in ("auto", "ard") and bool(np.any(estimator._encoding.learned))
    return learned and covariance_of(estimator) != "diag"


def own_precision(estimator: Any, effects: str | None) -> Array | None:
    """Precision of the weak prior of each effect, (D,); None: rows are under the prior of the fit.

    Raises
    ------
    ValueError
        "own" effects of a prior that was given, or without correlations.
    """
    by_default = own_by_default(estimator)
    if not (by_default if effects is None else effects == "own"):
        return None
    if not by_default:
        raise ValueError(
            "effects='own' replaces a prior that was learned, and needs the correlations of the coefficients: set "
            "prior_precision='auto' and covariance='full' or 'low-rank', or effects='joint'; found "
            f"{estimator.prior_precision!r} and {estimator.covariance!r}"
            f"{'' if estimator.prior is None else ', with priors by name'}."
        )
    spread = estimator._encoding.prior_spread
    # Constant columns, and those whose prior the user has given by name, keep the prior of the fit.
    precision = np.atleast_1d(estimator.prior_precision_)
    # Of classes the difference of two is as wide as a coefficient of two labels is.
    several = 2.0 if estimator.likelihood_.n_latents > 1 else 1.0
    weak = several * np.square(spread / (2.0 * WIDEST * estimator._encoding.units))
    return np.where((spread > 0) & estimator._encoding.learned, weak, precision)
