"""What targets fix: the likelihood that a fit begins with, and the classes or levels among which rows have positions.

given  →  validated with X by the estimator's encoding  →  rows  →  summary  →  fit, or updated  →  encode
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from numbers import Real
from typing import Any, Self

import numpy as np

from sksvi import likelihoods
from sksvi._runtime.user import warn_user
from sksvi.estimators.censoring import censored_rows, is_censored, with_censoring
from sksvi.estimators.class_counts import by_trial, class_counts, counts_classes, in_order
from sksvi.estimators.encoding import Part
from sksvi.estimators.levels import (
    MOST_LEVELS,
    check_labels,
    first_levels,
    given_order,
    is_text,
    levels_in_use,
    positions,
)
from sksvi.estimators.working import check_working
from sksvi.likelihoods import Likelihood
from sksvi.models.data import Table
from sksvi.models.targets import starting
from sksvi.partitions.summary import DataSummary, Targets, Union

Array = np.ndarray

#: Rows per class below which so many numbers are hardly labels.
LEAST_ROWS = 10
#: Unknown labels that an error names.
MOST_NAMED = 5


@dataclass(frozen=True)
class TargetRows(Table):
    """Rows with targets as the model reads them, before anything else about the rows is encoded.

    Parameters
    ----------
    names : ndarray of shape (L,) or None
        Classes, or levels, whose positions the targets are; None: targets are numbers.
    declared : bool
        Whether the type of the target declares them.
    """

    names: Array | None = None
    declared: bool = False

    @property
    def as_given(self) -> Table:
        """The rows with targets in the user's words."""
        y = self.y if self.names is None else self.names[self.y.astype(int)]
        return Table(self.X, y, self.weight, self.offset, self.first)


@dataclass(frozen=True)
class GivenTarget:
    """A target as scikit-learn's validation is to see it beside X.

    Parameters
    ----------
    y : array-like or None
    options : dict
        Of the validation.
    check : function
        Raises for validated targets that the likelihood does not take.
    names, declared
        As of `TargetRows`.
    """

    y: Any
    options: dict[str, Any] = field(default_factory=dict)
    check: Callable[[Array], None] = lambda y: None
    names: Array | None = None
    declared: bool = False


@dataclass(frozen=True)
class TargetEncoding(ABC):
    """Likelihood with which a fit begins, or goes on, and what positions among classes or levels stand for.

    Parameters
    ----------
    likelihood : Likelihood
        Before the passes; `likelihood_` of the estimator is the fitted one.
    names : ndarray of shape (L,) or None
        Classes or levels.
    """

    LAYOUT = "likelihood Likelihood; names? labels"

    likelihood: Likelihood
    names: Array | None = None

    @classmethod
    @abstractmethod
    def given(cls, estimator: Any, y: Any, fixed: Self | None, part: Part) -> GivenTarget:
        """The target of some rows before validation; `fixed`: None where these rows are among the first."""

    @classmethod
    @abstractmethod
    def rows(
        cls, estimator: Any, target: GivenTarget, data: Table, fixed: Self | None, part: Part, dtype: Any
    ) -> TargetRows:
        """Rows that count, with their validated targets as positions or as numbers.

        Parameters
        ----------
        estimator : estimator
        target : GivenTarget
        data : Table
            Rows whose y is validated, without those of weight zero.
        fixed : TargetEncoding or None
        part : Part
        dtype : dtype
            Of targets that are numbers. Those of a partition stay as they are before they are encoded.
        """

    @staticmethod
    def summarized(rows: TargetRows, part: Part) -> dict[str, Any]:
        """Fields ``targets``, ``few`` and ``own`` of a `DataSummary`; rows in memory stand for themselves."""
        own = {} if rows.names is None else {"names": Union(rows.names, rows.declared)}
        if not part.remote:
            return {"targets": None, "few": rows, "own": own}
        given = rows.as_given
        return {"targets": Targets.of(given.y, given.weight, given.offset), "own": own}

    @classmethod
    def by_moments(cls, estimator: Any, fixed: TargetEncoding | None) -> bool:
        """Whether a fit needs no more of its targets than mean and variance; of labels it needs all counts."""
        return False

    @classmethod
    @abstractmethod
    def has_mode(cls, estimator: Any, stream: bool = False) -> bool:
        """Whether fits, or those of a stream, have one mode that a loss of rows left out can judge."""

    @staticmethod
    def n_latents(names: Array | None) -> int:
        """Latents of a row whose targets have these names."""
        return 1

    @classmethod
    @abstractmethod
    def fit(cls, estimator: Any, summary: DataSummary) -> Self:
        """The encoding that rows with this summary fix."""

    @abstractmethod
    def updated(self, estimator: Any, summary: DataSummary) -> Self:
        """The encoding of a fit that goes on: with the likelihood that the last one has learned."""

    @abstractmethod
    def positions(self, y: Array) -> Array:
        """Targets in the user's words as numbers."""

    def row_weight(self, estimator: Any, codes: Array, weight: Array | None) -> Array | None:
        """Weights of rows as a fit counts them, given their targets as numbers."""
        return weight

    def few(self, summary: DataSummary) -> Any:
        """Rows by whose targets a fit starts, as positions or numbers."""
        rows: Any = summary.few
        if summary.targets is not None:
            return rows.mapped(self.positions)
        return replace(rows, y=self.encode(rows.y, rows.X.dtype))

    @abstractmethod
    def encode(self, y: Array, dtype: Any) -> Array:
        """Targets of `TargetRows` as the model has them."""

    @property
    @abstractmethod
    def exposed(self) -> dict[str, Any]:
        """Public attributes: classes or levels, and the likelihood, by name."""


class ValueTarget(TargetEncoding):
    """Targets of a regressor: numbers, pairs of counts, or ordered levels.

    The estimator has ``_base_likelihood()``, its likelihood before any data, and ``_keeps_levels``.
    """

    @staticmethod
    def base(estimator: Any, fixed: TargetEncoding | None) -> Likelihood:
        """The likelihood before the data have said what is learned, or as they have."""
        return check_working(estimator, estimator._base_likelihood()) if fixed is None else fixed.likelihood

    @classmethod
    def by_moments(cls, estimator: Any, fixed: TargetEncoding | None) -> bool:
        """Whether a fit needs no more of its targets than mean and variance."""
        return cls.base(estimator, fixed).traits.by_moments

    @classmethod
    def has_mode(cls, estimator: Any, stream: bool = False) -> bool:
        """Whether the likelihood is log-concave without cut points to be learned; not of a stream.

        Cut points move with the intercept: leave-one-out and the mode would push both on and on. A stream learns no
        noise.
        """
        base = cls.base(estimator, None)
        log_concave = base.traits.log_concave and not base.traits.quantile
        return not stream and log_concave and not (base.scales.collinear and base._automatic())

    @classmethod
    def given(cls, estimator: Any, y: Any, fixed: TargetEncoding | None, part: Part) -> GivenTarget:
        """The target, an ordinal one as positions among its own levels or those of the fit."""
        base = cls.base(estimator, fixed)
        if is_censored(y) or (y is not None and base.traits.censored):
            y = censored_rows(y, base)
            base = with_censoring(base, y)
        options = {"multi_output": base.traits.paired or base.traits.censored, "y_numeric": True}
        if not base.traits.ordered or y is None:
            return GivenTarget(y, options, base.check_target)
        if fixed is None:
            names, codes = first_levels(y, estimator.likelihood)
        else:
            assert fixed.names is not None
            names, codes = fixed.names, positions(fixed.names, y)
        declared = given_order(y) is not None
        return GivenTarget(codes.astype(float), options, names=names, declared=declared)

    @classmethod
    def rows(
        cls, estimator: Any, target: GivenTarget, data: Table, fixed: TargetEncoding | None, part: Part, dtype: Any
    ) -> TargetRows:
        """Rows with numbers, or with positions among the levels that a fit to them keeps."""
        names, y = target.names, data.y
        if fixed is None and names is not None and not part.remote:
            keeps = target.declared and estimator._keeps_levels
            names, y = levels_in_use(names, y.astype(int), cls.base(estimator, None), target.declared, keeps)
        y = y if part.remote else y.astype(dtype)
        return TargetRows(data.X, y, data.weight, data.offset, data.first, names, target.declared)

    @classmethod
    def fit(cls, estimator: Any, summary: DataSummary) -> Self:
        """Levels that rows have, or that their type declares, and the likelihood with first values by all targets."""
        base, names = cls.base(estimator, None), None
        if base.traits.ordered:
            found: Union = summary.own["names"]
            codes = cls(base, found.values).few(summary).alone.y.astype(int)
            keeps = found.declared and estimator._keeps_levels
            names, _ = levels_in_use(found.values, codes, base, found.declared, keeps)
            base = base.scales.among(len(names))
        base = with_censoring(base, cls(base, names).few(summary).alone.y)
        targets = starting(cls(base, names).few(summary).alone, base.traits.by_moments)
        return cls(base.start(targets.y, targets.weight), names)

    def updated(self, estimator: Any, summary: DataSummary) -> Self:
        """The encoding with the likelihood as the last fit has left it."""
        return replace(self, likelihood=estimator.likelihood_)

    def positions(self, y: Array) -> Array:
        """Numbers, or the positions of levels, in double precision."""
        return y.astype(float) if self.names is None else positions(self.names, y).astype(float)

    def encode(self, y: Array, dtype: Any) -> Array:
        """Numbers of this type."""
        return y.astype(dtype, copy=False)

    @property
    def exposed(self) -> dict[str, Any]:
        """Likelihood, and levels where it orders them."""
        levels = {} if self.names is None else {"levels_": self.names}
        return {"likelihood_": self.likelihood, **levels}


class LabelTarget(TargetEncoding):
    """Targets of a classifier: labels of classes, which may have weights."""

    names: Array

    @classmethod
    def has_mode(cls, estimator: Any, stream: bool = False) -> bool:
        """Whether the likelihood that the user gives is log-concave, as each that has a name for labels is."""
        return isinstance(estimator.likelihood, str) or estimator.likelihood.traits.log_concave

    @staticmethod
    def n_latents(names: Array | None) -> int:
        """A latent for each of more than two classes."""
        return len(names) if names is not None and len(names) > 2 else 1

    @classmethod
    def given(cls, estimator: Any, y: Any, fixed: Self | None, part: Part) -> GivenTarget:
        """Checked labels, or counts of each class; no y at all is left to scikit-learn's validation."""
        if y is None or not counts_classes(estimator):
            return GivenTarget(None if y is None else check_labels(y))
        classes = fixed.names if fixed is not None else None if part.whole else estimator.classes_
        counts, names = class_counts(y, classes)
        return GivenTarget(counts, {"multi_output": True}, names=names)

    @classmethod
    def rows(
        cls, estimator: Any, target: GivenTarget, data: Table, fixed: Self | None, part: Part, dtype: Any
    ) -> TargetRows:
        """Rows with positions of their labels, and `class_weight` of these multiplied into their weights.

        The first rows of a stream have the classes that its first call named.
        """
        if target.names is not None:
            names, data = target.names, by_trial(data, target.names)
            codes = codes_of_labels(names, data.y)
        elif fixed is not None or not (part.whole or part.remote):
            names = estimator.classes_ if fixed is None else fixed.names
            check_classes(estimator, names)
            codes = codes_of_labels(names, data.y)
        else:
            names, codes = np.unique(data.y, return_inverse=True)
        if fixed is None and part.whole:
            check_classes(estimator, names[np.unique(codes)])
        if fixed is None and part.whole and target.names is None:
            check_measured(names, len(codes))
        check_class_weight(estimator, None if fixed is None and part.remote else names)
        weight = weighted_by_class(estimator.class_weight, names, codes, data.weight)
        return TargetRows(data.X, codes, weight, data.offset, data.first, names)

    @classmethod
    def fit(cls, estimator: Any, summary: DataSummary) -> Self:
        """Classes, and the likelihood that tells so many apart."""
        names = summary.own["names"].values
        check_classes(estimator, names)
        return cls(class_likelihood(estimator, names), names)._checked(estimator, summary)

    def updated(self, estimator: Any, summary: DataSummary) -> Self:
        """The encoding with the likelihood as the last fit has left it."""
        return replace(self, likelihood=estimator.likelihood_)._checked(estimator, summary)

    def _checked(self, estimator: Any, summary: DataSummary) -> Self:
        check_class_weight(estimator, self.names)
        if self.likelihood.n_latents > 1 and summary.few is not None and summary.few.offset is not None:
            raise ValueError(
                "offset shifts every class alike where each has a latent of its own (softmax): it has no effect there. "
                "Leave it out."
            )
        return self

    def row_weight(self, estimator: Any, codes: Array, weight: Array | None) -> Array | None:
        """Weights of rows times those of their classes."""
        return weighted_by_class(estimator.class_weight, self.names, codes, weight)

    def positions(self, y: Array) -> Array:
        """Positions of labels, in double precision."""
        return codes_of_labels(self.names, y).astype(float)

    def encode(self, y: Array, dtype: Any) -> Array:
        """Positions, whole numbers where each class has a latent of its own."""
        return y if self.likelihood.n_latents > 1 else y.astype(dtype)

    @property
    def exposed(self) -> dict[str, Any]:
        """Likelihood and classes."""
        return {"likelihood_": self.likelihood, "classes_": self.names}


def name_of_target(y: Any) -> str | None:
    """Name of a Series, of pandas, polars or Dask; None where there is none."""
    name = getattr(y, "name", None) if hasattr(y, "to_frame") else None  # a Dask array is named by its tasks
    return name if isinstance(name, str) and name else None


# ---- classes
def codes_of_labels(classes: Array, y: Array) -> Array:
    """Position of each label among the classes.

    Raises
    ------
    ValueError
        Naming labels that are none of them.
    """
    if is_text(y) or not in_order(classes):
        at = {label: code for code, label in enumerate(classes.tolist())}
        codes = np.array([at.get(label, -1) for label in y.tolist()], dtype=np.intp)
    else:
        codes = np.minimum(np.searchsorted(classes, y), len(classes) - 1)
        codes[classes[codes] != y] = -1
    if np.any(codes < 0):
        strange = sorted(set(y[codes < 0].tolist()), key=str)[:MOST_NAMED]
        raise ValueError(f"y has labels that the first call did not name: {strange}; known: {classes.tolist()}.")
    return codes


def check_classes(estimator: Any, classes: Array) -> None:
    """Raise where there is one class alone."""
    if len(classes) < 2:
        raise ValueError(
            f"{type(estimator).__name__} needs samples of at least 2 classes in the data; "
            f"it contains only one class: {classes.tolist()[0]!r}."
        )


def check_measured(classes: Array, n: int) -> None:
    """A warning, before the fit, about numbers of which each was taken for a class and hardly any comes again."""
    k = len(classes)
    if k > MOST_LEVELS and n < LEAST_ROWS * k and not is_text(classes):
        warn_user(
            f"y has {k} distinct numbers in {n} rows, and each is a class with coefficients of its own: if y is "
            "measured or counted, use a regressor; if they are labels, give them as str."
        )


def check_class_weight(estimator: Any, classes: Array | None) -> None:
    """Raise where `class_weight` has a key that is none of the classes, or a value that is no positive number.

    `classes`: None where not all of them are known yet.
    """
    given = estimator.class_weight
    for label, value in given.items() if isinstance(given, dict) else ():
        if classes is not None and label not in classes.tolist():
            raise ValueError(f"class_weight names {label!r}, and y has the labels {classes.tolist()}.")
        # Real has no order in typeshed
        if isinstance(value, bool) or not isinstance(value, Real) or not 0 < value < np.inf:  # type: ignore[operator]
            raise ValueError(f"class_weight must have positive numbers; found {value!r} for {label!r}.")


def balanced(labels: list[Any], counts: Any) -> dict[Any, float]:
    """Weights with which all labels count alike, and all rows as before."""
    return {label: float(sum(counts) / (len(counts) * n)) for label, n in zip(labels, counts, strict=True)}


def weighted_by_class(class_weight: Any, classes: Array, codes: Array, weight: Array | None) -> Array | None:
    """Weights of rows with those of their classes multiplied into them.

    Parameters
    ----------
    class_weight : {"balanced"}, dict or None
    classes : ndarray of shape (K,)
    codes : ndarray of int, shape (n,)
        Class of each row.
    weight : ndarray of shape (n,) or None
    """
    if class_weight is None:
        return weight
    labels = classes.tolist()
    if isinstance(class_weight, str):
        counts = np.bincount(codes, weight, len(labels))
        present = np.flatnonzero(counts)
        weights = balanced([labels[k] for k in present], counts[present])
    else:
        weights = {key.item() if isinstance(key, np.generic) else key: w for key, w in class_weight.items()}
    own = np.array([weights.get(label, 1.0) for label in labels])[codes]
    return own if weight is None else weight * own


def class_likelihood(estimator: Any, classes: Array) -> Likelihood:
    """The likelihood of a classifier for so many classes.

    Raises
    ------
    ValueError
        More classes than the estimator or the likelihood tells apart, or a likelihood that is not one of labels.
    """
    k, spec, binary_only = len(classes), estimator.likelihood, estimator._binary_only
    label_likelihoods = "'logit' or 'probit'" if binary_only else "'logit', 'probit' or 'softmax'"
    if binary_only and k > 2:
        raise ValueError(
            f"Only binary classification is supported. The type of the target is multiclass ({k} classes)."
        )
    if isinstance(spec, str) and spec == "multinomial":
        return likelihoods.Multinomial(n_classes=k)
    if isinstance(spec, str) and (spec == "softmax" or (k > 2 and spec in ("logit", "bernoulli"))):
        return likelihoods.Softmax(n_classes=k)
    likelihood = likelihoods.resolve(spec)
    if not likelihood.traits.classifies:
        raise ValueError(
            f"likelihood={spec!r} does not describe labels: choose {label_likelihoods}, or use a regressor."
        )
    if likelihood.n_latents == 1 and k > 2:
        raise ValueError(
            f"Only binary classification is supported. The type of the target is multiclass ({k} classes): "
            f"likelihood={spec!r} is binary, 'softmax' takes any number."
        )
    if binary_only and likelihood.n_latents > 1:
        raise ValueError(f"likelihood={spec!r} has several latents: choose {label_likelihoods}.")
    if likelihood.n_latents not in (1, k):
        raise ValueError(f"likelihood={spec!r} has {likelihood.n_latents} classes, y has {k}.")
    return likelihood
