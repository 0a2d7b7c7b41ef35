"""Bayesian generalized linear models: which model, which likelihood, what is predicted."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import ClassifierMixin, RegressorMixin, _fit_context
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils import check_array, check_random_state, column_or_1d
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from sksvi import batches, engine, likelihoods
from sksvi.base import BaseSVI, Posterior, check_row_values
from sksvi.families import ProjectedGaussian
from sksvi.models.base import Data
from sksvi.models.linear import LinearModel
from sksvi.models.projection import informed_subspace
from sksvi.predictive import Predictive

Array = np.ndarray

#: Ways to encode that fix classes, levels and likelihood: `fit`, and the first `partial_fit`.
FRESH = ("fit", "first chunk")


class _BayesianGLM(BaseSVI):
    """Parameters and fitted attributes that classifier and regressor share."""

    _parameter_constraints: dict[str, list[Any]] = {  # noqa: RUF012
        **BaseSVI._parameter_constraints,
        "likelihood": [str, likelihoods.Likelihood],
        "prior_precision": [StrOptions({"auto", "ard"}), Interval(Real, 0, None, closed="neither"), "array-like"],
        "intercept_precision": [Interval(Real, 0, None, closed="neither")],
        "fit_intercept": ["boolean"],
    }

    def __init__(
        self,
        *,
        likelihood: Any = "gaussian",
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
        self.likelihood = likelihood
        self.prior_precision = prior_precision
        self.intercept_precision = intercept_precision
        self.fit_intercept = fit_intercept
        self.algorithm = algorithm
        self.expectation = expectation
        self.covariance = covariance
        self.batch_size = batch_size
        self.max_iter = max_iter
        self.tol = tol
        self.total_samples = total_samples
        self.n_jobs = n_jobs
        self.warm_start = warm_start
        self.random_state = random_state
        self.verbose = verbose

    # ---- model
    def _model(self, n_features: int, likelihood: Any, precision: Any, n_uninformed: int = 0) -> LinearModel:
        return LinearModel(
            likelihood,
            prior_precision=precision,
            intercept_precision=self.intercept_precision,
            n_features=n_features,
            fit_intercept=self.fit_intercept,
            full=self.covariance == "full",
            n_uninformed=n_uninformed,
        )

    def _data(self, X: Any, target: Array, sample_weight: Any, offset: Any) -> Data:
        """Encoded rows, CSR in canonical form, with checked weights and offsets."""
        n = X.shape[0]
        if sp.issparse(X) and not X.has_canonical_format:
            X = X.copy()
            X.sum_duplicates()
        weight = check_row_values(sample_weight, n, "sample_weight", weights=True)
        self._dtype = X.dtype.name
        return Data(X, target, weight, check_row_values(offset, n, "offset"))

    def _precision(self, n_features: int) -> Any:
        if isinstance(self.prior_precision, str | Real):
            return self.prior_precision
        precision = check_row_values(self.prior_precision, n_features, "prior_precision")
        assert precision is not None
        if not np.all(precision > 0):
            j = int(np.argmin(precision))
            raise ValueError(f"prior_precision must be positive; found {precision[j]:g} for column {j}.")
        return precision

    def _build_model(self, data: Data) -> tuple[Any, Data]:
        n, d = data.X.shape
        precision = self._precision(d)
        self._subspace = None
        if self.covariance == "diag" or d <= n or (isinstance(precision, str) and precision == "ard"):
            return self._model(d, self.likelihood_, precision), data
        scale = np.ones(d) if isinstance(precision, str) else np.broadcast_to(1 / np.sqrt(precision), (d,))
        columns, basis = informed_subspace(data.X, scale)
        self._subspace = scale, basis
        model = self._model(columns.shape[1], self.likelihood_, precision if isinstance(precision, str) else 1.0)
        return model, Data(columns, data.y, data.weight, data.offset)

    def _streaming_model(self, data: Data, first: bool) -> Any:
        if first:
            self._subspace = None
        elif self._subspace is not None:
            self._leave_subspace()
        return self._model(data.X.shape[1], self.likelihood_, self._precision(data.X.shape[1]))

    def _leave_subspace(self) -> None:
        """Go on from a wide fit with all D weights: the same posterior, held in full."""
        self._subspace = None
        self.state_ = engine.with_block(self.state_, "weights", self.posterior_["weights"].dense())

    def _warm_state(self, problem: engine.Problem) -> engine.State:
        state = super()._warm_state(problem)
        if state.q["weights"].mean.shape != problem.model.shape:
            raise ValueError(
                f"warm_start=True needs data of the shape that was fitted: the weights had shape "
                f"{state.q['weights'].mean.shape}, now they have {problem.model.shape}. Set warm_start=False."
            )
        return state

    def _expose(self, model: Any, state: engine.State) -> None:
        q = state.q
        weights = q["weights"]
        if self._subspace is not None:
            scale, basis = self._subspace
            off = 1.0 / np.sqrt(model.precision(q)[0]) if "prior_precision" in q else 1.0
            weights = ProjectedGaussian(scale, basis, weights, off)
        self.posterior_ = Posterior({"weights": weights})
        self.likelihood_ = model.current_likelihood(q)
        precision = model.precision(q) if self._subspace is None else model.precision(q)[0] / np.square(self._subspace[0])
        shared = isinstance(self.prior_precision, Real) or self.prior_precision_is("auto")
        self.prior_precision_ = float(precision[0]) if shared else np.array(precision)
        mean, std = weights.mean.astype(self._dtype), weights.std.astype(self._dtype)
        d = self.n_features_in_
        self._expose_coefficients(mean[..., :d], std[..., :d], mean[..., d] if self.fit_intercept else 0.0 * mean[..., 0])

    def prior_precision_is(self, name: str) -> bool:
        """Whether ``prior_precision`` is this string (it may be an array)."""
        return isinstance(self.prior_precision, str) and self.prior_precision == name

    def _expose_coefficients(self, coef: Array, std: Array, intercept: Any) -> None:
        raise AttributeError(f"{type(self).__name__} does not name its coefficients")

    # ---- prediction
    def _latent(self, X: Any, offset: Any) -> tuple[Array, Array]:
        X = self._check_X(X)
        offset = check_row_values(offset, X.shape[0], "offset")
        weights = self.posterior_["weights"]
        model = self._model(X.shape[1], self.likelihood_, 1.0)
        size = max(batches.block_rows(X.shape[1], False), 512)

        def one(rows: slice) -> tuple[Array, Array]:
            return model.predict_latent(weights, X[rows], None if offset is None else offset[rows])

        with batches.single_threaded_blas():
            weights.prepare()
            parts = list(batches.in_order(one, batches.blocks(X.shape[0], size), batches.n_threads(self.n_jobs)))
        m, v = (np.concatenate(part) for part in zip(*parts, strict=True))
        return m.astype(X.dtype, copy=False), v.astype(X.dtype, copy=False)

    def predict_latent(self, X: Any, offset: Any = None) -> tuple[Array, Array]:
        """Mean and variance of f = Xw + offset under the posterior.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n, D)
        offset : array-like of shape (n,), default=None

        Returns
        -------
        mean, variance : ndarrays of shape (n,), or (n, K) for more than two classes
        """
        check_is_fitted(self)
        return self._latent(X, offset)

    def _predictive(self, X: Any, offset: Any) -> Predictive:
        m, v = self._latent(X, offset)
        return Predictive(self.likelihood_, m, v)

    def summary(self, coverage: float = 0.9) -> Any:
        """Posterior of every coefficient.

        Parameters
        ----------
        coverage : float, default=0.9
            Of the equal-tailed interval (lower, upper).

        Returns
        -------
        DataFrame
            Columns mean, std, lower, upper; one row per coefficient, by class for more than two classes.
        """
        import pandas as pd
        from scipy.special import ndtri

        check_is_fitted(self)
        weights = self.posterior_["weights"]
        mean, std = weights.mean, weights.std
        half = ndtri(0.5 + coverage / 2) * std
        names = list(getattr(self, "feature_names_in_", [f"x{j}" for j in range(self.n_features_in_)]))
        names += ["intercept"] * self.fit_intercept
        index = pd.Index(names, name="coefficient")
        if mean.ndim == 2:
            index = pd.MultiIndex.from_product([self.classes_, names], names=["class", "coefficient"])
        columns = {"mean": mean, "std": std, "lower": mean - half, "upper": mean + half}
        return pd.DataFrame({name: values.ravel() for name, values in columns.items()}, index=index)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


class BayesianGLMClassifier(ClassifierMixin, _BayesianGLM):
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
            raise ValueError(f"classes={classes!r} differ from those of the first call: {self.classes_!r}.")

    def _encode(self, X: Any, y: Any, sample_weight: Any, offset: Any, how: str) -> Data:
        X, y = validate_data(self, X, y, reset=how in FRESH, accept_sparse="csr", dtype=[np.float64, np.float32])
        check_classification_targets(y)
        if how == "fit":
            self.classes_ = np.unique(y)
        codes = np.minimum(np.searchsorted(self.classes_, y), len(self.classes_) - 1)
        unknown = self.classes_[codes] != y
        if np.any(unknown):
            raise ValueError(
                f"y has labels that the first call did not name: {np.unique(y[unknown])!r}; known: {self.classes_!r}."
            )
        if len(self.classes_) < 2:
            raise ValueError(
                f"{type(self).__name__} needs samples of at least 2 classes in the data; "
                f"it contains only one class: {self.classes_[0]!r}."
            )
        if how in FRESH:
            self.likelihood_ = self._class_likelihood()
        if offset is not None and self.likelihood_.n_latents > 1:
            raise ValueError("offset shifts every class alike with more than two classes: it has no effect there.")
        target = codes if self.likelihood_.n_latents > 1 else codes.astype(X.dtype)
        return self._data(X, target, sample_weight, offset)

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
        n = len(predictive.mean_f)
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
        return self.classes_[np.argmax(self.predict_proba(X, offset), axis=1)]

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
        codes = np.minimum(np.searchsorted(self.classes_, y), len(self.classes_) - 1)
        if np.any(self.classes_[codes] != y):
            raise ValueError(f"y has labels that were not fitted; known: {self.classes_!r}.")
        return self._predictive(X, offset).log_prob(codes)

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
        tags.classifier_tags.multi_class = not (
            (isinstance(self.likelihood, str) and self.likelihood == "probit")
            or (isinstance(self.likelihood, likelihoods.Likelihood) and self.likelihood.n_latents == 1)
        )
        return tags


def _is_ordered(model: Any) -> bool:
    """Whether the likelihood gives a probability to each of several levels."""
    spec = getattr(model, "likelihood_", None) or likelihoods.resolve(model.likelihood)
    return bool(spec.ordered)


class BayesianGLMRegressor(RegressorMixin, _BayesianGLM):
    """Bayesian linear, count, robust, binomial and ordinal regression.

    y | f ~ likelihood with f = Xw + b + offset, w_j ~ N(0, 1/prior_precision), and a Gaussian q(w) that maximises the
    bound -KL(q‖p) + Σ E log p(y|f) (Sheth and Khardon 2016, eq. 3; Khan and Lin 2017).

    Parameters
    ----------
    likelihood : str or instance, default="gaussian"
        "gaussian", "student-t", "poisson" (exp), "poisson-softplus", "negative-binomial", "binomial" (y of shape
        (n, 2): successes, failures), "logit", "probit" (y 0 or 1), "ordinal". Scales are learned unless the instance
        has a number.
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
    coef_, coef_std_ : ndarray of shape (D,)
        Posterior means and standard deviations.
    intercept_ : float
    noise_ : float
        Noise variance, dispersion or scale; where the likelihood has one.
    levels_ : ndarray of shape (L,)
        Ordinal: the sorted values of y.
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
    BayesianGLMClassifier : The same for labels.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.preprocessing import scale
    >>> from sksvi import BayesianGLMRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = BayesianGLMRegressor().fit(scale(X), y)
    >>> model.predict_interval(scale(X)[:1], coverage=0.9).round(-1)
    array([[120., 300.]])
    """

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: Any = None, offset: Any = None) -> BayesianGLMRegressor:
        """Fit q to (X, y).

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n, D)
        y : array-like of shape (n,), binomial (n, 2)
        sample_weight : array-like of shape (n,), default=None
            A row of weight k counts as k rows.
        offset : array-like of shape (n,), default=None
            Added to f; the log exposure for "poisson".

        Returns
        -------
        BayesianGLMRegressor
            Itself.

        Raises
        ------
        ValueError
            y outside the likelihood's support, numbers that are not finite, negative or only zero weights.
        """
        return self._fit(X, y, sample_weight, offset)

    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None, offset: Any = None) -> BayesianGLMRegressor:
        """Go on with one more chunk of data.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n, D)
        y : array-like of shape (n,), binomial (n, 2)
        sample_weight, offset : array-like of shape (n,), default=None

        Returns
        -------
        BayesianGLMRegressor
            Itself.

        Raises
        ------
        ValueError
            As `fit`; ordinal levels that the first call did not have.
        """
        return self._partial_fit(X, y, sample_weight, offset)

    def _encode(self, X: Any, y: Any, sample_weight: Any, offset: Any, how: str) -> Data:
        base = likelihoods.resolve(self.likelihood)
        if base.n_latents > 1:
            raise ValueError(f"likelihood={self.likelihood!r} is for labels: use BayesianGLMClassifier.")
        X, y = validate_data(
            self,
            X,
            y,
            reset=how in FRESH,
            accept_sparse="csr",
            dtype=[np.float64, np.float32],
            multi_output=base.paired,
            y_numeric=True,
        )
        y = self._target(base, y, how).astype(X.dtype)
        weight = check_row_values(sample_weight, X.shape[0], "sample_weight", weights=True)
        if how in FRESH:
            self.likelihood_ = base.start(y, weight)
        return self._data(X, y, weight, offset)

    def _target(self, base: Any, y: Array, how: str) -> Array:
        """y checked against the support; ordinal values as codes of their level."""
        if not base.ordered:
            base.check_target(y)
            return y
        if how in FRESH:
            self.levels_ = np.unique(y)
        codes = np.minimum(np.searchsorted(self.levels_, y), len(self.levels_) - 1)
        if np.any(self.levels_[codes] != y):
            row = int(np.argmax(self.levels_[codes] != y))
            raise ValueError(f"y has a level that the first call did not: {y[row]:g} in row {row}; known: {self.levels_}.")
        if len(self.levels_) < 2:
            raise ValueError(f"an ordinal y needs at least two levels; it contains only {self.levels_[0]:g}.")
        return codes

    def _expose_coefficients(self, coef: Array, std: Array, intercept: Any) -> None:
        self.coef_, self.coef_std_, self.intercept_ = coef, std, intercept[()]
        self.noise_ = self.likelihood_.noise

    # ---- prediction
    def _values(self, codes: Array) -> Array:
        """Levels for codes, or the numbers themselves."""
        return self.levels_[codes.astype(int)] if self.likelihood_.ordered else codes

    def predict(self, X: Any, return_std: bool = False, offset: Any = None) -> Any:
        """Predictive mean of y.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n, D)
        return_std : bool, default=False
            Whether to return the predictive standard deviation of y too, noise included.
        offset : array-like of shape (n,), default=None

        Returns
        -------
        mean : ndarray of shape (n,)
        std : ndarray of shape (n,)
            With ``return_std=True``.
        """
        predictive = self._predictive(X, offset)
        if self.likelihood_.ordered:
            p = predictive.probabilities()
            mean = p @ self.levels_.astype(p.dtype)
            variance = np.einsum("nk,nk->n", p, np.square(self.levels_ - mean[:, None]).astype(p.dtype))
            return (mean, np.sqrt(variance)) if return_std else mean
        return (predictive.mean(), predictive.std()) if return_std else predictive.mean()

    def predict_quantiles(self, X: Any, q: Any, offset: Any = None) -> Array:
        """Quantiles of the predictive distribution of y.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n, D)
        q : array-like of shape (m,)
            In (0, 1).
        offset : array-like of shape (n,), default=None

        Returns
        -------
        ndarray of shape (n, m)
        """
        q = np.atleast_1d(np.asarray(q, float))
        if not np.all((q > 0) & (q < 1)):
            raise ValueError(f"q must lie in (0, 1); found {q}.")
        return self._values(self._predictive(X, offset).quantile(q))

    def predict_interval(self, X: Any, coverage: float = 0.9, offset: Any = None) -> Array:
        """Equal-tailed predictive interval of y.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n, D)
        coverage : float, default=0.9
            In (0, 1).
        offset : array-like of shape (n,), default=None

        Returns
        -------
        ndarray of shape (n, 2)
        """
        if not 0 < coverage < 1:
            raise ValueError(f"coverage must lie in (0, 1); found {coverage}.")
        return self.predict_quantiles(X, [0.5 - coverage / 2, 0.5 + coverage / 2], offset)

    def sample_y(self, X: Any, n_samples: int = 1, random_state: Any = None, offset: Any = None) -> Array:
        """Draws of y from the predictive distribution, rows independent.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n, D)
        n_samples : int, default=1
        random_state : int, RandomState or None, default=None
        offset : array-like of shape (n,), default=None

        Returns
        -------
        ndarray of shape (n, n_samples)
        """
        seed = check_random_state(random_state).randint(np.iinfo(np.int32).max)
        return self._values(self._predictive(X, offset).sample(n_samples, np.random.default_rng(seed)))

    def log_predictive_density(self, X: Any, y: Any, offset: Any = None) -> Array:
        """log p(y) of each row under the predictive distribution, nats.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n, D)
        y : array-like of shape (n,), binomial (n, 2)
        offset : array-like of shape (n,), default=None

        Returns
        -------
        ndarray of shape (n,)
        """
        check_is_fitted(self)
        y = check_array(y, ensure_2d=False, dtype=np.float64, input_name="y")
        return self._predictive(X, offset).log_prob(self._target(self.likelihood_, y, "predict"))

    @available_if(_is_ordered)
    def predict_proba(self, X: Any, offset: Any = None) -> Array:
        """Probability of each level (ordinal only).

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n, D)
        offset : array-like of shape (n,), default=None

        Returns
        -------
        ndarray of shape (n, L)
            Columns as in ``levels_``.
        """
        return self._predictive(X, offset).probabilities()

    def score(self, X: Any, y: Any, sample_weight: Any = None, offset: Any = None) -> float:
        """R², or the share of deviance explained (D²) for counts, rates and binary y.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n, D)
        y : array-like of shape (n,), binomial (n, 2)
        sample_weight, offset : array-like of shape (n,), default=None

        Returns
        -------
        float
        """
        prediction = self.predict(X, offset=offset)
        y = check_array(y, ensure_2d=False, dtype=np.float64, input_name="y")
        weight = check_row_values(sample_weight, len(y), "sample_weight", weights=True)
        deviance = None if self.likelihood_.ordered else self.likelihood_.unit_deviance(y, prediction)
        if deviance is None:
            return float(r2_score(y, prediction, sample_weight=weight))
        null = self.likelihood_.unit_deviance(y, self.likelihood_.null_mean(y, weight))
        return float(1.0 - np.average(deviance, weights=weight) / np.average(null, weights=weight))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        likelihood = likelihoods.resolve(self.likelihood)
        tags.target_tags.positive_only = likelihood.support.low == 0
        if likelihood.paired:
            tags.target_tags.two_d_labels = True
        return tags
