"""Methods that predict labels, shared by every classifier."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from sksvi._typing.arrays import MatrixLike, PerRow
from sksvi.estimators.checks import check_row_values, check_same_rows
from sksvi.estimators.class_counts import class_counts, counts_classes
from sksvi.estimators.encoding import GivenRows
from sksvi.estimators.fit_warnings import other_order, warn_all
from sksvi.estimators.levels import check_labels, is_text
from sksvi.estimators.targets import balanced, codes_of_labels
from sksvi.estimators.validation import StrOptions
from sksvi.likelihoods import Likelihood
from sksvi.partitions.collections import is_collection
from sksvi.partitions.lazy import summed, travelling

Array = np.ndarray


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
    #: Whether X may be a sparse matrix.
    _accepts_sparse: bool

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
        elif classes is None or np.array_equal(self.classes_, classes):
            return
        elif not np.array_equal(self.classes_, np.unique(check_labels(classes, "classes"))):
            raise ValueError(f"classes={classes!r} differ from those of the first call: {self.classes_.tolist()}.")

    def _check_y(self, X: Any, y: Any) -> Array:
        """Labels of a test set, checked, as positions in ``classes_``."""
        check_is_fitted(self)
        if counts_classes(self):
            counts = class_counts(y, self.classes_)[0]
            check_same_rows(X, counts)
            return counts
        y = check_labels(y)
        check_same_rows(X, y)
        return self._codes(y)

    # ---- rows in partitions
    @contextmanager
    def _class_weights_of(self, y: Any, sample_weight: Any) -> Iterator[None]:
        """Context in which `class_weight` has numbers: a look at all labels, before partitions are read by them."""
        given = self.class_weight
        if given == "balanced":
            counts = summed(type(self).__name__, label_weights, y, None, sample_weight, combine=_both)
            self.class_weight = balanced(list(counts), list(counts.values()))
        try:
            yield
        finally:
            self.class_weight = given

    def _in_partitions(self, given: GivenRows, fixed: Any) -> Any:
        with self._class_weights_of(given.y, given.sample_weight):
            return super()._in_partitions(given, fixed)

    def _codes(self, y: Array) -> Array:
        """Position of each label in ``classes_``."""
        return codes_of_labels(self.classes_, y)

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
        codes = self._check_y(X, y)
        return self._predictive(X, offset).log_prob(codes)

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
        """Weight of the rows, or trials, whose label is predicted, and of all."""
        if counts_classes(self):
            counts = self._check_y(X, y)
            weight = check_row_values(sample_weight, len(counts), "sample_weight", weights=True)
            weighted = counts if weight is None else counts * weight[:, None]
            best = self._codes(self.predict(X, offset))
            return float(weighted[np.arange(len(counts)), best].sum()), float(weighted.sum())
        y = check_labels(y)
        check_same_rows(X, y)
        weight = check_row_values(sample_weight, len(y), "sample_weight", weights=True)
        if is_text(y) != is_text(self.classes_):
            raise ValueError(f"y has labels such as {y.tolist()[0]!r}; the fit had {self.classes_.tolist()}.")
        weight = np.ones(len(y)) if weight is None else weight
        return float(weight @ (self.predict(X, offset) == y)), float(weight.sum())

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self._accepts_sparse
        spec = self.likelihood
        several = spec.n_latents > 1 if isinstance(spec, Likelihood) else spec != "probit"
        tags.classifier_tags.multi_class = several and not self._binary_only
        return tags
