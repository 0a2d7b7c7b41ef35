"""The default prior of coefficients: which columns share a scale, and between which limits it is learned."""

from __future__ import annotations

from typing import Any

import numpy as np

from sksvi.linear_model._columns import ColumnScaling
from sksvi.models.base import Table
from sksvi.models.linear.scales import ScalePrior

Array = np.ndarray


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
    """What a row tells of its latent on average, from the sums over rows of this weight."""
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


def row_information(likelihood: Any, targets: Table) -> float:
    """What a row tells of its latent on average, as a share of what one of the likelihood tells at most.

    A measured target tells all, a label 4 p (1 - p) (of several classes the mean over them, of ordered levels
    4/3 (1 - Σ p³)), a count its mean where that is less than 1, successes in trials as many labels, at most all.

    Parameters
    ----------
    likelihood : Likelihood
        As a fit begins.
    targets : Table
        The targets by which it begins.

    Examples
    --------
    >>> import numpy as np
    >>> from sksvi.likelihoods import Bernoulli
    >>> from sksvi.linear_model._scale_prior import row_information
    >>> from sksvi.models.base import Table
    >>> y = np.repeat([0.0, 1.0], [9, 1])
    >>> round(row_information(Bernoulli(), Table(np.empty((10, 0)), y, None, None)), 2)
    0.36
    """
    return rate_of(likelihood, target_totals(likelihood, targets), targets.total_weight)


class SharedScales:
    """An estimator whose learned `prior_precision` is shared by columns of a kind."""

    likelihood_: Any
    n_samples_seen_: float
    _columns: ColumnScaling
    _prior_kind: str
    _subspace: Any
    _unit: float
    #: `target_totals` of the rows so far, and their weight.
    _information: tuple[Any, float] = (0.0, 0.0)

    def _inform(self, targets: Table, share: float) -> None:
        """What these rows tell, beside a share of those before."""
        totals, weight = self._information
        new = target_totals(self.likelihood_, targets)
        self._information = new + share * totals if share else new, float(targets.total_weight) + share * weight

    def _kinds(self, n_columns: int) -> tuple[Array, Array]:
        """Kind of each column that has a coefficient, and the most rows that inform each kind."""
        return np.zeros(n_columns, int), np.array([np.inf])

    def _scale_prior(self, n_features: int) -> ScalePrior | None:
        """The prior of the scales of a learned precision; None where the user gives it, or of one per column."""
        stats = self._columns.known
        if self._prior_kind != "auto" or stats is None:
            return None
        spread = stats.spread
        with np.errstate(divide="ignore", invalid="ignore"):
            variances = (stats.square - np.square(stats.mean)) / np.square(spread)
        variances = np.where(spread > 0, np.maximum(variances, 0.0), 0.0)
        varies = spread > 0
        kinds, most = self._kinds(len(spread))
        rate = rate_of(self.likelihood_, *self._information)
        # Of many rows a sample says what each tells, not how many there are.
        rows = np.minimum(most, rate * max(stats.weight - 1.0, 0.0))
        prior = ScalePrior.of(kinds, variances, rows, self._unit, self.likelihood_.link_unit, varies)
        return prior.alike(n_features) if self._subspace is not None else prior
