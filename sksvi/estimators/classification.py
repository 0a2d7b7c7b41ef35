"""Methods that predict labels, shared by every classifier."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from numbers import Real
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from sksvi import likelihoods
from sksvi._runtime.warned import warn_user
from sksvi._typing.arrays import MatrixLike, PerRow
from sksvi.estimators.checks import check_row_values, check_same_rows
from sksvi.estimators.fit_warnings import other_order, warn_all
from sksvi.estimators.labels import check_labels, is_text
from sksvi.estimators.levels import MOST_LEVELS
from sksvi.estimators.stage import FIRST_PORTION, FIT, PORTION, Stage
from sksvi.estimators.validation import StrOptions
from sksvi.likelihoods import Likelihood
from sksvi.models.base import Table
from sksvi.partitions.collections import is_collection
from sksvi.partitions.lazy import travelling
from sksvi.partitions.summary import DataSummary, Union
from sksvi.partitions.sums import summed

Array = np.ndarray


#: Rows per class below which so many numbers are hardly labels.
LEAST_ROWS = 10
#: Unknown labels that an error names.
MOST_NAMED = 5
#: What scikit-learn's rules are for `class_weight`.
CLASS_WEIGHT = [StrOptions({"balanced"}), dict, None]


def label_weights(y: Any, _: Any, sample_weight: Any, __: Any) -> dict[Any, float]:
    """Weight of the rows of each label."""
    y = check_labels(y)
    weight = check_row_values(sample_weight, len(y), "sample_weight", weights=True)
    labels, codes = np.unique(y, return_inverse=True)
    return dict(zip(labels.tolist(), np.bincount(codes, weight).tolist(), strict=True))


def _both(a: dict[Any, float], b: dict[Any, float]) -> dict[Any, float]:
    return {label: a.get(label, 0.0) + b.get(label, 0.0) for label in {**a, **b}}


def balanced(labels: list[Any], counts: Any) -> dict[Any, float]:
    """Weights with which all labels count alike, and all rows as before."""
    return {label: float(sum(counts) / (len(counts) * n)) for label, n in zip(labels, counts, strict=True)}


class ClassificationMethods(ClassifierMixin):
    """Predictions from ``_predictive(X, offset)``; needs ``likelihood_`` and ``classes_``.

    ``_binary_only`` : the estimator has one latent, so that two classes are all it can tell apart.
    """

    _binary_only = False
    _score_name = "accuracy"
    likelihood: Any
    likelihood_: Any
    classes_: Array
    class_weight: Any
    _predictive: Callable[[Any, Any], Any]

    # ---- labels
    def _fix_classes(self, classes: Any) -> None:
        if isinstance(self.class_weight, str):
            raise ValueError(
                f"class_weight={self.class_weight!r} needs all rows at hand, and partial_fit has one chunk: give a "
                "dict of weights, such as n / (K · n_c) of the frequencies that you expect."
            )
        if not hasattr(self, "state_"):
            if classes is None:
                raise ValueError("classes must be passed on the first call to partial_fit.")
            self.classes_ = np.unique(check_labels(classes, "classes"))
        elif classes is not None and not np.array_equal(self.classes_, np.unique(check_labels(classes, "classes"))):
            raise ValueError(f"classes={classes!r} differ from those of the first call: {self.classes_.tolist()}.")

    def _coded(self, data: Table, start: Stage) -> Table:
        """The data with codes of classes as y; a fresh fit finds its classes and takes its likelihood here."""
        if start is FIT:
            self.classes_ = np.unique(data.y)
        self._check_classes()
        if start is FIT:
            self._check_measured(len(data.y))
        self._check_class_weight()
        codes = self._codes(data.y)
        if start.fresh:
            self.likelihood_ = self._class_likelihood()
        several = self.likelihood_.n_latents > 1
        if several and data.offset is not None:
            raise ValueError(
                "offset shifts every class alike where each has a latent of its own (softmax): it has no effect there. "
                "Leave it out."
            )
        return replace(data, y=codes if several else codes.astype(data.X.dtype))

    def _by_class(self, data: Table) -> Table:
        """The rows with `class_weight` of their labels multiplied into their weights."""
        if self.class_weight is None:
            return data
        labels, codes = np.unique(data.y, return_inverse=True)
        if isinstance(self.class_weight, str):
            weights = balanced(labels.tolist(), np.bincount(codes, data.weight))
        else:
            weights = {key.item() if isinstance(key, np.generic) else key: w for key, w in self.class_weight.items()}
        own = np.array([weights.get(label, 1.0) for label in labels.tolist()])[codes]
        return replace(data, weight=own if data.weight is None else data.weight * own)

    def _check_class_weight(self) -> None:
        """Raise where `class_weight` has a key that is no label, or a value that is no positive number."""
        for label, value in self.class_weight.items() if isinstance(self.class_weight, dict) else ():
            if label not in self.classes_.tolist():
                raise ValueError(f"class_weight names {label!r}, and y has the labels {self.classes_.tolist()}.")
            # Real has no order in typeshed
            if isinstance(value, bool) or not isinstance(value, Real) or not 0 < value < np.inf:  # type: ignore[operator]
                raise ValueError(f"class_weight must have positive numbers; found {value!r} for {label!r}.")

    # ---- rows in partitions
    def _collected(self, X: Any, y: Any, sample_weight: Any, offset: Any, start: Stage) -> Any:
        given = self.class_weight
        if given == "balanced":  # a look at all labels, before partitions are read by what they count for
            name = type(self).__name__
            counts = summed(name, label_weights, y, None, sample_weight, combine=_both)
            self.class_weight = balanced(list(counts), list(counts.values()))
        try:
            return super()._collected(X, y, sample_weight, offset, start)  # type: ignore[misc]
        finally:
            self.class_weight = given

    def _target_facts(self, y: Any, data: Table) -> tuple[Array, dict[str, Any]]:
        """Labels as they are given, and which there are."""
        return data.y, {"labels": Union(np.unique(data.y))}

    def _by_moments(self, fresh: bool) -> bool:
        """False: a fit needs the counts of all labels, not only their moments."""
        return False

    def _fix_target(self, facts: DataSummary, fresh: bool) -> Table:
        """Classes and likelihood of a fresh fit; codes of all labels in few rows."""
        targets = facts.few
        assert targets is not None
        if fresh:
            self.classes_ = facts.own["labels"].values
        self._coded(replace(targets, X=np.empty((len(targets), 0), facts.dtype)), FIRST_PORTION if fresh else PORTION)
        return targets.mapped(lambda y: self._codes(y).astype(float))

    @property
    def _label_likelihoods(self) -> str:
        return "'logit' or 'probit'" if self._binary_only else "'logit', 'probit' or 'softmax'"

    def _check_classes(self) -> None:
        if len(self.classes_) < 2:
            raise ValueError(
                f"{type(self).__name__} needs samples of at least 2 classes in the data; "
                f"it contains only one class: {self.classes_.tolist()[0]!r}."
            )

    def _check_measured(self, n: int) -> None:
        """A warning, before the fit, about numbers of which each was taken for a class and hardly any comes again."""
        k = len(self.classes_)
        if k > MOST_LEVELS and n < LEAST_ROWS * k and not is_text(self.classes_):
            warn_user(
                f"y has {k} distinct numbers in {n} rows, and each is a class with coefficients of its own: if y is "
                "measured or counted, use a regressor; if they are labels, give them as str."
            )

    def _codes(self, y: Array) -> Array:
        """Position of each label in ``classes_``."""
        if is_text(y) or is_text(self.classes_):
            at = {label: code for code, label in enumerate(self.classes_.tolist())}
            codes = np.array([at.get(label, -1) for label in y.tolist()], dtype=np.intp)
        else:
            codes = np.minimum(np.searchsorted(self.classes_, y), len(self.classes_) - 1)
            codes[self.classes_[codes] != y] = -1
        if np.any(codes < 0):
            strange = sorted(set(y[codes < 0].tolist()), key=str)[:MOST_NAMED]
            raise ValueError(
                f"y has labels that the first call did not name: {strange}; known: {self.classes_.tolist()}."
            )
        return codes

    def _class_likelihood(self) -> Any:
        k = len(self.classes_)
        spec = self.likelihood
        if self._binary_only and k > 2:
            raise ValueError(
                f"Only binary classification is supported. The type of the target is multiclass ({k} classes)."
            )
        if isinstance(spec, str) and (spec == "softmax" or (k > 2 and spec in ("logit", "bernoulli"))):
            return likelihoods.Softmax(n_classes=k)
        likelihood = likelihoods.resolve(spec)
        if not likelihood.traits.classifies:
            raise ValueError(
                f"likelihood={spec!r} does not describe labels: choose {self._label_likelihoods}, or use a regressor."
            )
        if likelihood.n_latents == 1 and k > 2:
            raise ValueError(
                f"Only binary classification is supported. The type of the target is multiclass ({k} classes): "
                f"likelihood={spec!r} is binary, 'softmax' takes any number."
            )
        if self._binary_only and likelihood.n_latents > 1:
            raise ValueError(f"likelihood={spec!r} has several latents: choose {self._label_likelihoods}.")
        if likelihood.n_latents not in (1, k):
            raise ValueError(f"likelihood={spec!r} has {likelihood.n_latents} classes, y has {k}.")
        return likelihood

    # ---- prediction
    def predict_proba(self, X: MatrixLike, offset: PerRow | None = None) -> Array:
        """Predictive probabilities, integrated over q.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n, D)
        offset : array-like of shape (n,), default=None

        Returns
        -------
        ndarray of shape (n, K)
            Columns as in ``classes_``.
        """
        return self._predictive(X, offset).probabilities()

    def predict_log_proba(self, X: MatrixLike, offset: PerRow | None = None) -> Array:
        """Logarithm of `predict_proba`.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n, D)
        offset : array-like of shape (n,), default=None

        Returns
        -------
        ndarray of shape (n, K)
        """
        predictive = self._predictive(X, offset)
        n = len(predictive.latent_mean)
        return np.column_stack([predictive.log_prob(np.full(n, k)) for k in range(len(self.classes_))])

    def predict(self, X: MatrixLike, offset: PerRow | None = None) -> Array:
        """Most probable label.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n, D)
        offset : array-like of shape (n,), default=None

        Returns
        -------
        ndarray of shape (n,)
        """
        best = np.argmax(self.predict_proba(X, offset), axis=1)
        return self.classes_[best]

    def decision_function(self, X: MatrixLike, offset: PerRow | None = None) -> Array:
        """Log odds of `predict_proba` (two classes), else its logarithm.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n, D)
        offset : array-like of shape (n,), default=None

        Returns
        -------
        ndarray of shape (n,) or (n, K)
        """
        log_proba = self.predict_log_proba(X, offset)
        return log_proba[:, 1] - log_proba[:, 0] if len(self.classes_) == 2 else log_proba

    def log_predictive_density(self, X: MatrixLike, y: PerRow, offset: PerRow | None = None) -> Array:
        """log p(y) of each row under the predictive distribution, nats.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n, D)
        y : array-like of shape (n,)
        offset : array-like of shape (n,), default=None

        Returns
        -------
        ndarray of shape (n,)
        """
        check_is_fitted(self)
        y = check_labels(y)
        check_same_rows(X, y)
        return self._predictive(X, offset).log_prob(self._codes(y))

    def score(
        self, X: MatrixLike, y: PerRow, sample_weight: PerRow | None = None, offset: PerRow | None = None
    ) -> float:
        """Accuracy.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n, D)
        y : array-like of shape (n,)
        sample_weight, offset : array-like of shape (n,), default=None

        Returns
        -------
        float
        """
        check_is_fitted(self)
        warn_all(other_order(X=X, y=y, sample_weight=sample_weight))
        bare = travelling(self) if is_collection(X) else self
        hits, weight = summed(type(self).__name__, bare._hits, X, y, sample_weight, offset)
        return float(hits / weight)

    def _hits(self, X: Any, y: Any, sample_weight: Any, offset: Any) -> tuple[float, float]:
        """Weight of the rows whose label is predicted, and of all."""
        y = check_labels(y)
        check_same_rows(X, y)
        weight = check_row_values(sample_weight, len(y), "sample_weight", weights=True)
        if is_text(y) != is_text(self.classes_):
            raise ValueError(f"y has labels such as {y.tolist()[0]!r}; the fit had {self.classes_.tolist()}.")
        weight = np.ones(len(y)) if weight is None else weight
        return float(weight @ (self.predict(X, offset) == y)), float(weight.sum())

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        spec = self.likelihood
        several = spec.n_latents > 1 if isinstance(spec, Likelihood) else spec != "probit"
        tags.classifier_tags.multi_class = several and not self._binary_only
        return tags
