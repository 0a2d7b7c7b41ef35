"""The second latent of a regressor: which columns predict a scale or the zeros, and where their weights are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from sksvi import likelihoods
from sksvi._typing.arrays import is_compressed
from sksvi.estimators.tables import position
from sksvi.likelihoods import Likelihood
from sksvi.likelihoods.distributional import Distributional
from sksvi.linear_model._columns import ColumnSummary
from sksvi.linear_model._groups import PrecisionGroups
from sksvi.linear_model._prior import FLAT, INTERCEPT_WIDTH
from sksvi.models.linear.named import NamedPriors

Array = np.ndarray

#: Kind of the second latent to its unit, 1 over the root of the curvature that a row has at most: of a logit 2.
UNITS = {"scale": 1.0, "zero": 2.0}


@dataclass(frozen=True)
class SecondPredictor:
    """Columns of the second latent g, which follow those of f in a design, its intercept last.

    Parameters
    ----------
    kind : {"scale", "zero"}
        What g predicts.
    of : ndarray of int
        The columns of f whose copies these are; of a categorical column all levels but the first.
    """

    LAYOUT = "kind text where it in ('scale', 'zero'); of (_) i >=0"

    kind: str
    of: Array

    @classmethod
    def fit(cls, estimator: Any, positions: Sequence[int], categories: Any) -> Self | None:
        """The columns that a parameter names, of those at these positions of X; None without one.

        Raises
        ------
        ValueError
            A column that X does not have, or one that groups rows.
        """
        kind = asked_for(estimator)
        if kind is None:
            return None
        name = f"{kind}_features"
        given, n = getattr(estimator, name), len(positions)
        every = range(n) if isinstance(given, str) else _places(estimator, name, positions)
        if categories is None:
            return cls(kind, np.array(every, np.int64))
        start = np.concatenate([[0], np.cumsum(categories.counts)]).tolist()
        first = [start[j] + (j in categories.columns and not categories.reference) for j in range(n)]
        return cls(kind, np.concatenate([np.arange(0), *(np.arange(first[j], start[j + 1]) for j in every)]))

    @property
    def size(self) -> int:
        """Columns of g with its intercept."""
        return len(self.of) + 1

    def extended(self, X: Any) -> Array:
        """The design of both latents, dense."""
        X = X.toarray() if is_compressed(X) else np.asarray(X)
        return np.hstack([X, X[:, self.of], np.ones((len(X), 1), X.dtype)])

    def names(self, names: Sequence[Any]) -> list[str]:
        """What the coefficients of both latents are called, given those of f."""
        return [*names, *(f"{self.kind}:{names[j]}" for j in self.of), f"{self.kind}:intercept"]

    def each(self, values: Array, intercept: float) -> Array:
        """Values of the columns of f for those of both."""
        return np.concatenate([values, values[self.of], [intercept]])

    def units(self, n: int, unit: float) -> Array:
        """Unit of the latent of each of n columns, (n,): that of f, or 1 behind a link."""
        return np.where(np.arange(n) < n - self.size, unit, 1.0)

    def kind_units(self, kinds: Array, n_kinds: int, unit: float, link: float) -> tuple[Array, Array]:
        """Units of the target and of a link, (K,) each, for every kind of columns: those of g have their own."""
        of_second = np.bincount(kinds[-self.size : -1], minlength=n_kinds) > 0
        return np.where(of_second, 1.0, unit), np.where(of_second, UNITS[self.kind], link)

    def centre(self, centre: Array, columns: ColumnSummary) -> Array:
        """Centres of all columns: those of g have an intercept of their own, whose column stays."""
        own = np.append(columns.mean[-self.size : -1], 0.0)
        return np.append(centre[: -self.size], own)

    def named(self, named: NamedPriors | None, likelihood: Distributional, n: int, flat: bool) -> NamedPriors:
        """Priors by name with that of the intercept of g, about where g alone begins."""
        none = np.zeros(n, bool)
        named = NamedPriors(np.zeros(n), np.ones(n), ~none, none | flat) if named is None else named
        mean, precision, learned = named.mean.copy(), named.precision.copy(), named.learned.copy()
        mean[-1], learned[-1] = likelihood.likelihood.predictor(self.kind), False
        precision[-1] = FLAT if flat else INTERCEPT_WIDTH**-2
        return replace(named, mean=mean, precision=precision, learned=learned)

    def grouped(self, groups: PrecisionGroups) -> PrecisionGroups:
        """The groups of f, and for g a group beside each that it has columns of."""
        used, at = np.unique(groups.of_columns[self.of], return_inverse=True)
        k, names = len(groups.names), [f"{self.kind}:{groups.names[j]}" for j in used]
        # The intercept's prior is its own: whichever group it is in has no part of it.
        of_columns = np.concatenate([groups.of_columns, k + at, groups.of_columns[-1:]]).astype(np.int64)
        precisions = np.append(groups.precisions, groups.precisions[used])
        return PrecisionGroups([*groups.names, *names], of_columns, precisions)


def _places(estimator: Any, parameter: str, positions: Sequence[int]) -> list[int]:
    """Where the columns that a parameter names are among those at these positions of X."""
    found = set()
    for one in getattr(estimator, parameter):
        if (at := position(estimator, one, parameter)) not in positions:
            raise ValueError(
                f"{parameter} has {one!r}, which is a grouping column: levels have effects on the mean alone. Leave it "
                "out, or give a copy of it under another name."
            )
        found.add(positions.index(at))
    return sorted(found)


def with_columns(second: SecondPredictor | None, X: Any) -> Any:
    """The design X of the mean with the columns of a second latent, where there is one."""
    return X if second is None else second.extended(X)


def asked_for(estimator: Any) -> str | None:
    """The kind of a second latent, or None."""
    return next((kind for kind in UNITS if getattr(estimator, f"{kind}_features") is not None), None)


def with_second(estimator: Any, base: Likelihood) -> Likelihood:
    """The likelihood with a second latent where the estimator asks for one.

    Raises
    ------
    ValueError
        Two of them, or a likelihood that has no such parameter.
    """
    kind = asked_for(estimator)
    if kind is None:
        return base
    if estimator.scale_features is not None and estimator.zero_features is not None:
        raise ValueError(
            f"scale_features={estimator.scale_features!r} and zero_features={estimator.zero_features!r}: a fit has one "
            "latent beside that of the mean. Leave one of them out."
        )
    if kind not in base.predictable:
        names = sorted(likelihoods.NAMES - likelihoods.OF_CLASSES)
        able = [name for name in names if kind in likelihoods.resolve(name).predictable]
        raise ValueError(
            f"{kind}_features={getattr(estimator, f'{kind}_features')!r} with likelihood={estimator.likelihood!r}, "
            f"which has no parameter that they predict. Likelihoods that have one are {', '.join(able)}."
        )
    return Distributional(base, kind)


def check_second(estimator: Any) -> None:
    """Raise for what a second latent does not go with, before rows are read.

    Raises
    ------
    ValueError
        Naming both parameters.
    """
    kind = asked_for(estimator)
    if kind is None:
        return
    with_second(estimator, likelihoods.resolve(estimator.likelihood))
    name = f"{kind}_features={getattr(estimator, f'{kind}_features')!r}"
    if isinstance(given := getattr(estimator, f"{kind}_features"), str) and given != "all":
        raise ValueError(f'{name} must be "all", a list of columns (empty: an intercept alone), or None.')
    if estimator.covariance not in ("auto", "full"):
        raise ValueError(
            f"{name} with covariance={estimator.covariance!r}: both latents are in one Gaussian with all covariances. "
            "Set covariance='full'."
        )
    if estimator.expectation not in ("auto", "quadrature"):
        raise ValueError(
            f"{name} with expectation={estimator.expectation!r}: expectations over two latents are by nested "
            "quadrature. Set expectation='auto'."
        )
    if getattr(estimator, "noise", None) is True:
        raise ValueError(
            f"{name} with noise=True: rows have a scale, a dispersion or zeros with columns of their own, and no noise "
            "beside it. Set noise='auto'."
        )


def check_no_second(estimator: Any) -> None:
    """Raise for a stream: rows to come would have to move the scale of each other.

    Raises
    ------
    ValueError
        Naming the parameter.
    """
    kind = asked_for(estimator)
    if kind is not None:
        raise ValueError(
            f"{kind}_features={getattr(estimator, f'{kind}_features')!r} has no partial_fit: a second latent is fitted "
            "to rows in memory, by fit."
        )
