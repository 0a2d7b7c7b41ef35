"""The default prior of coefficients: which columns share a scale, and between which limits it is learned."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from sksvi.linear_model._columns import Columns
from sksvi.models.base import Table
from sksvi.models.linear.glm import best_constant
from sksvi.models.linear.scales import ScalePrior

Array = np.ndarray


def row_information(likelihood: Any, targets: Table) -> float:
    """What a row tells of its latent on average, as a share of what one of the likelihood tells at most.

    A measured target tells all. Behind a link it is the curvature of log p at the best constant latent, in units in
    which that of a fair coin, or of a count of 1, is 1; a row counts as one at most. Of several classes it is the mean
    over them, at their shares.

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
    if likelihood.measured:
        return 1.0
    offset = 0.0 if targets.offset is None else targets.offset
    if likelihood.n_latents > 1:
        k = likelihood.n_latents
        slope = likelihood.derivatives(targets.y, np.zeros((len(targets.y), k)))[1]
        share = np.average(slope, axis=0, weights=targets.weight) + 1.0 / k
        return float(np.mean(4.0 * share * (1.0 - share)))
    f = np.full(len(targets.y), best_constant(likelihood, targets)) + offset
    bend = -np.broadcast_to(likelihood.derivatives(targets.y, f)[2], f.shape)
    told = np.clip(bend * likelihood.link_unit**2, 0.0, 1.0)
    return float(np.average(told, weights=targets.weight))


class SharedScales:
    """An estimator whose learned `prior_precision` is shared by columns of a kind."""

    likelihood_: Any
    n_samples_seen_: float
    _columns: Columns
    _prior_kind: str
    _subspace: Any
    _unit: float
    #: Mean of `row_information` over the rows so far, and their weight.
    _information: tuple[float, float] = (1.0, 0.0)
    _fade: Callable[[float], float]

    def _inform(self, targets: Table, share: float) -> None:
        """What these rows tell, beside a share of those before."""
        rate, weight = self._information
        new = float(targets.total_weight)
        weight *= share
        total = weight + new
        if total > 0:
            rate = (weight * rate + new * row_information(self.likelihood_, targets)) / total
        self._information = rate, total

    def _kinds(self, n_columns: int) -> tuple[Array, Array]:
        """Kind of each column that has a coefficient, and the most rows that inform each kind."""
        return np.zeros(n_columns, int), np.array([np.inf])

    def _scale_prior(self, n_features: int) -> ScalePrior | None:
        """The prior of the scales of a learned precision; None where the user gives it, or of one per column."""
        known = self._columns.known
        if self._prior_kind != "auto" or known is None:
            return None
        spread = known.spread
        with np.errstate(divide="ignore", invalid="ignore"):
            variances = (known.square - np.square(known.mean)) / np.square(spread)
        variances = np.where(spread > 0, np.maximum(variances, 0.0), 0.0)
        varies = spread > 0
        kinds, most = self._kinds(len(spread))
        rate, weight = self._information
        rows = np.minimum(most, rate * max(weight - 1.0, 0.0))
        prior = ScalePrior.of(kinds, variances, rows, self._unit, self.likelihood_.link_unit, varies)
        return prior.alike(n_features) if self._subspace is not None else prior
