"""A normal prior of all coefficients and the intercept together: the posterior of other rows as `prior`."""

from __future__ import annotations

from typing import Any

import numpy as np

from sksvi._names import own_name
from sksvi.linear_model._columns import ColumnScaling
from sksvi.linear_model._prior import prior_kind
from sksvi.linear_model._second import asked_for
from sksvi.models.linear.named import JointPrior, NamedPriors
from sksvi.priors import MultivariateNormal, Normal

Array = np.ndarray


class JointByName:
    """The normal prior of all coefficients and the intercept, in the order of an estimator's columns.

    Parameters
    ----------
    estimator : estimator
    prior : MultivariateNormal
    columns : list of str
        Names of the columns that have coefficients.
    categories : CategoricalColumns or None

    Raises
    ------
    ValueError
        A name that one of prior and columns has and the other has not, or another parameter that says the same.
    """

    def __init__(self, estimator: Any, prior: MultivariateNormal, columns: list[str], categories: Any) -> None:
        names = columns if categories is None else categories.names(columns)
        names = [str(name) for name in names]
        self.names = names + [own_name("intercept", {*names, *columns})] * bool(estimator.fit_intercept)
        self._check(estimator, prior)
        self.mean, self.cov = prior.ordered(self.names)
        std = np.sqrt(np.diagonal(self.cov))
        self.intercept = Normal(float(self.mean[-1]), float(std[-1])) if estimator.fit_intercept else None

    def _check(self, estimator: Any, prior: MultivariateNormal) -> None:
        kind, last = type(estimator).__name__, " (fit_intercept)"
        for name in prior.names:
            if name not in self.names:
                raise ValueError(
                    f"prior is of a coefficient {name!r}, which is absent here: this {kind} has "
                    f"{', '.join(self.names)}. Give X the columns, levels and intercept that the prior is of."
                )
        for name in self.names:
            if name not in prior.names:
                more = last if name == self.names[-1] and estimator.fit_intercept else ""
                raise ValueError(
                    f"prior has no coefficient {name!r}, which this {kind} has{more}: it is of "
                    f"{', '.join(prior.names)}. Leave the column out, or give each column a prior by name."
                )
        for name, auto in (("prior_precision", prior_kind(estimator.prior_precision)), ("intercept_precision", None)):
            given = getattr(estimator, name)
            if auto != "auto" and not (auto is None and isinstance(given, str)):
                raise ValueError(
                    f"prior is of all coefficients, {self.names[0]!r} among them, and so is {name}={given!r}: set "
                    f"{name}='auto'."
                )
        if estimator.covariance == "diag":
            raise ValueError(
                "prior has correlations, which covariance='diag' leaves out: set covariance='full', or give each "
                "column a prior by name."
            )
        if (second := asked_for(estimator)) is not None:
            raise ValueError(f"prior is of one latent, and {second}_features have another: give priors by name.")

    def check_target(self, likelihood: Any) -> None:
        """Raise for a target whose coefficients are more than one for each column, or which has cut points."""
        if likelihood.n_latents > 1 or likelihood.scales.collinear:
            what = "cut points, which move with the intercept" if likelihood.scales.collinear else "several classes"
            raise ValueError(f"prior is of one set of coefficients, and y has {what}: give priors by name.")

    def in_coordinates(self, columns: ColumnScaling, unit: float | Array) -> tuple[ColumnScaling, NamedPriors]:
        """Coordinates in which the columns have a scale of their own for good, and the prior in these."""
        d = len(columns.scale)
        std = np.sqrt(np.diagonal(self.cov))
        columns = columns.with_scale(np.ones(d, bool), 1.0 / std[:d])
        scale = np.append(columns.scale, [1.0] * (len(std) - d))
        inverse = np.linalg.inv(self.cov / np.outer(std, std))
        width = std * scale
        precision = 0.5 * (inverse + inverse.T) / np.outer(width, width)
        none, mean = np.zeros(d, bool), self.mean * scale
        joint = JointPrior(mean, precision)
        return columns, NamedPriors(mean[:d], np.diagonal(precision)[:d].copy(), none, none, joint=joint)
