"""Bayesian classification with a linear latent: logit, probit, softmax."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin, _fit_context
from sklearn.metrics import accuracy_score
from sklearn.utils import check_consistent_length, column_or_1d
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from sksvi import likelihoods
from sksvi.likelihoods import Likelihood
from sksvi.linear_model._base import FRESH, BayesianGLM
from sksvi.linear_model._subspace import merged
from sksvi.models.base import Data

Array = np.ndarray


class BayesianGLMClassifier(ClassifierMixin, BayesianGLM):
    """Bayesian logistic or probit regression; softmax regression for more than two classes.

    p(y|f) = σ(±f) with f = Xw + b (softmax: one f per class), w_j ~ N(0, 1/prior_precision), and a Gaussian q(w) that
    maximises the bound -KL(q‖p) + Σ E log p(y|f) (Sheth and Khardon 2016, eq. 3; Khan and Lin 2017).

    Parameters
    ----------
    likelihood : {"logit", "probit", "softmax"} or instance, default="logit"
        "logit" becomes softmax for more than two classes; "probit" is binary.
    prior_precision : {"auto", "ard"}, float or array-like of shape (D,), default="auto"
        Precision (1/variance) of the zero-mean Gaussian prior of the coefficients. "auto" learns one for all, "ard"
        one per coefficient, both by maximising the bound (empirical Bayes).
    intercept_precision : float, default=1e-4
        Prior precision of the intercept.
    fit_intercept : bool, default=True
    algorithm : {"cvi", "mc-ssvi", "h-mc-ssvi", "s-dsvi", "fp"} or instance, default="cvi"
        How q is fitted; see :mod:`sksvi.algorithms`.
    expectation : {"auto", "quadrature", "gauss-hermite", "monte-carlo"} or instance, default="auto"
        How E log p(y|f) is integrated.
    covariance : {"full", "diag"}, default="full"
        Of the Gaussian q over the coefficients.
    batch_size : int, "auto" or None, default="auto"
        Rows per step; None: all of them. "auto": all rows up to about a million.
    max_iter : int, default=300
        Most passes over the data.
    tol : float, default=1e-4
        The fit stops when the relative change of the bound per pass stays below it.
    total_samples : float, default=None
        Population size for `partial_fit`; None: the weight seen so far.
    n_jobs : int, default=None
        Threads over row blocks; no value changes a bit of the result.
    warm_start : bool, default=False
        `fit` goes on from the last posterior.
    random_state : int, RandomState or None, default=None
    verbose : int, default=0
        1 shows a progress bar.

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
    coef_, coef_std_ : ndarray of shape (1, D), or (K, D) for more than two classes
        Posterior means and standard deviations.
    intercept_ : ndarray of shape (1,) or (K,)
    prior_precision_ : float or ndarray of shape (D,)
        The precision used, learned or fixed.
    likelihood_ : Likelihood
        The fitted likelihood, its learned scales as numbers.
    posterior_ : mapping
        ``posterior_["weights"]``: ``mean``, ``cov``, ``std``, ``sample``; the intercept is the last coordinate.
    lower_bound_, lower_bounds_ : float, ndarray
        Bound on the log evidence at `posterior_` and per pass, nats.
    history_ : DataFrame
        One row per pass.
    n_iter_, n_steps_, n_samples_seen_, converged_ : int, int, float, bool
    n_features_in_, feature_names_in_ : int, ndarray

    See Also
    --------
    BayesianGLMRegressor : The same for measured, counted and ordered targets.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from sksvi import BayesianGLMClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = BayesianGLMClassifier(prior_precision=1.0).fit(scale(X), y)
    >>> model.predict_proba(scale(X)[:1]).round(2)
    array([[1., 0.]])
    """

    _parameter_constraints: dict[str, list[Any]] = {
        **BayesianGLM._parameter_constraints,
        "likelihood": [StrOptions({"logit", "bernoulli", "probit", "softmax"}), Likelihood],
    }

    def __init__(
        self,
        *,
        likelihood: Any = "logit",
        prior_precision: Any = "auto",
        intercept_precision: float = 1e-4,
        fit_intercept: bool = True,
        algorithm: Any = "cvi",
        expectation: Any = "auto",
        covariance: str = "full",
        batch_size: Any = "auto",
        max_iter: int = 300,
        tol: float = 1e-4,
        total_samples: float | None = None,
        n_jobs: int | None = None,
        warm_start: bool = False,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        super().__init__(
            likelihood=likelihood,
            prior_precision=prior_precision,
            intercept_precision=intercept_precision,
            fit_intercept=fit_intercept,
            algorithm=algorithm,
            expectation=expectation,
            covariance=covariance,
            batch_size=batch_size,
            max_iter=max_iter,
            tol=tol,
            total_samples=total_samples,
            n_jobs=n_jobs,
            warm_start=warm_start,
            random_state=random_state,
            verbose=verbose,
        )

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None, offset: Any = None) -> BayesianGLMClassifier:
        """Fit q to (X, y).

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n, D)
        y : array-like of shape (n,)
            Labels of any type.
        sample_weight : array-like of shape (n,), default=None
            A row of weight k counts as k rows.
        offset : array-like of shape (n,), default=None
            Added to f; two classes only.

        Returns
        -------
        BayesianGLMClassifier
            Itself.

        Raises
        ------
        ValueError
            A single class, numbers that are not finite, negative or only zero weights, an impossible combination.
        """
        return self._fit(X, y, sample_weight, offset)

    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(
        self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None, offset: Any = None
    ) -> BayesianGLMClassifier:
        """Go on with one more chunk of data.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n, D)
        y : array-like of shape (n,)
        classes : array-like of shape (K,), default=None
            All labels that will come; needed in the first call.
        sample_weight, offset : array-like of shape (n,), default=None

        Returns
        -------
        BayesianGLMClassifier
            Itself.

        Raises
        ------
        ValueError
            First call without `classes`, or labels that the first call did not name.
        """
        with self._all_or_nothing():
            self._fix_classes(classes)
            return self._partial_fit(X, y, sample_weight, offset)

    def _fix_classes(self, classes: Any) -> None:
        if not hasattr(self, "state_"):
            if classes is None:
                raise ValueError("classes must be passed on the first call to partial_fit.")
            self.classes_ = np.unique(classes)
        elif classes is not None and not np.array_equal(self.classes_, np.unique(classes)):
            raise ValueError(f"classes={classes!r} differ from those of the first call: {self.classes_.tolist()}.")

    def _encode(self, X: Any, y: Any, sample_weight: Any, offset: Any, how: str) -> Data:
        X, y = validate_data(self, X, y, reset=how in FRESH, accept_sparse="csr", dtype=[np.float64, np.float32])
        check_classification_targets(y)
        if how not in FRESH:
            self._check_choices()
        data = self._rows(X, y, sample_weight, offset)
        if how == "fit":
            self.classes_ = np.unique(data.y)
        if len(self.classes_) < 2:
            raise ValueError(
                f"{type(self).__name__} needs samples of at least 2 classes in the data; "
                f"it contains only one class: {self.classes_.tolist()[0]!r}."
            )
        codes = self._codes(data.y)
        if how in FRESH:
            self.likelihood_ = self._class_likelihood()
        if offset is not None and self.likelihood_.n_latents > 1:
            raise ValueError("offset shifts every class alike with more than two classes: it has no effect there.")
        data = replace(data, y=codes if self.likelihood_.n_latents > 1 else codes.astype(X.dtype))
        return data if "chunk" in how else merged(data)

    def _codes(self, y: Array) -> Array:
        """Position of each label in ``classes_``."""
        codes = np.minimum(np.searchsorted(self.classes_, y), len(self.classes_) - 1)
        unknown = self.classes_[codes] != y
        if np.any(unknown):
            raise ValueError(
                f"y has labels that the first call did not name: {np.unique(y[unknown]).tolist()}; "
                f"known: {self.classes_.tolist()}."
            )
        return codes

    def _class_likelihood(self) -> Any:
        k = len(self.classes_)
        spec = self.likelihood
        if isinstance(spec, str) and (spec == "softmax" or (k > 2 and spec in ("logit", "bernoulli"))):
            return likelihoods.Softmax(n_classes=k)
        likelihood = likelihoods.resolve(spec)
        if not likelihood.classifies:
            raise ValueError(
                f"likelihood={spec!r} does not describe labels: choose 'logit', 'probit' or 'softmax', "
                "or use BayesianGLMRegressor."
            )
        if likelihood.n_latents == 1 and k > 2:
            raise ValueError(
                f"Only binary classification is supported. The type of the target is multiclass ({k} classes): "
                f"likelihood={spec!r} is binary, 'softmax' takes any number."
            )
        if likelihood.n_latents not in (1, k):
            raise ValueError(f"likelihood={spec!r} has {likelihood.n_latents} classes, y has {k}.")
        return likelihood

    def _expose_coefficients(self, coef: Array, std: Array, intercept: Any) -> None:
        self.coef_, self.coef_std_ = np.atleast_2d(coef), np.atleast_2d(std)
        self.intercept_ = np.atleast_1d(intercept)

    # ---- prediction
    def predict_proba(self, X: Any, offset: Any = None) -> Array:
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

    def predict_log_proba(self, X: Any, offset: Any = None) -> Array:
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

    def predict(self, X: Any, offset: Any = None) -> Array:
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

    def decision_function(self, X: Any, offset: Any = None) -> Array:
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

    def log_predictive_density(self, X: Any, y: Any, offset: Any = None) -> Array:
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
        y = column_or_1d(y)
        check_consistent_length(X, y)
        return self._predictive(X, offset).log_prob(self._codes(y))

    def score(self, X: Any, y: Any, sample_weight: Any = None, offset: Any = None) -> float:
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
        return float(accuracy_score(y, self.predict(X, offset), sample_weight=sample_weight))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        spec = self.likelihood
        tags.classifier_tags.multi_class = spec.n_latents > 1 if isinstance(spec, Likelihood) else spec != "probit"
        return tags
