"""Bayesian regression with a linear latent: measured, counted, binomial and ordered targets."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import RegressorMixin, _fit_context
from sklearn.metrics import r2_score
from sklearn.utils import check_array, check_consistent_length, check_random_state, column_or_1d
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from sksvi import likelihoods
from sksvi.base import check_row_values
from sksvi.linear_model._base import FRESH, BayesianGLM
from sksvi.linear_model._subspace import merged
from sksvi.models.base import Data

Array = np.ndarray


def _is_ordered(model: Any) -> bool:
    """Whether the likelihood gives a probability to each of several levels."""
    spec = getattr(model, "likelihood_", None) or likelihoods.resolve(model.likelihood)
    return bool(spec.ordered)


class BayesianGLMRegressor(RegressorMixin, BayesianGLM):
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
    array([[110., 290.]])
    """

    _parameter_constraints: dict[str, list[Any]] = {
        **BayesianGLM._parameter_constraints,
        "likelihood": [StrOptions(set(likelihoods.NAMES - {"softmax"})), likelihoods.Likelihood],
    }

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
        base = self.likelihood_ if how not in FRESH else likelihoods.resolve(self.likelihood)
        if how not in FRESH:
            self._check_choices()
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
        if not base.ordered:
            base.check_target(y)
        data = self._rows(X, y, sample_weight, offset)
        if base.ordered and how in FRESH:
            self._fix_levels(base, data.y)
        data = replace(data, y=self._codes(data.y).astype(X.dtype) if base.ordered else data.y.astype(X.dtype))
        if "chunk" not in how:
            data = merged(data)
        if how in FRESH:
            self.likelihood_ = base.start(data.y, data.weight)
        return data

    def _fix_levels(self, base: Any, y: Array) -> None:
        """The sorted values of y are the levels; cut points that are given say how many there must be."""
        self.levels_ = np.unique(y)
        if len(self.levels_) < 2:
            raise ValueError(
                f"an ordinal y needs at least two levels; it contains only {self.levels_[0]:g} (n_samples={len(y)})."
            )
        if not isinstance(base.cut_points, str) and len(base.cut_points) != len(self.levels_) - 1:
            raise ValueError(
                f"{len(base.cut_points)} cut_points separate {len(base.cut_points) + 1} levels; "
                f"y has {len(self.levels_)}: {self.levels_}."
            )

    def _codes(self, y: Array) -> Array:
        """Position of each value of an ordinal y in ``levels_``."""
        codes = np.minimum(np.searchsorted(self.levels_, y), len(self.levels_) - 1)
        unknown = self.levels_[codes] != y
        if np.any(unknown):
            row = int(np.argmax(unknown))
            raise ValueError(f"y has a level that is not in levels_: {y[row]:g} in row {row}; known: {self.levels_}.")
        return codes

    def _check_y(self, X: Any, y: Any) -> Array:
        """y of a test set, checked against the likelihood; ordinal values as they are."""
        check_is_fitted(self)
        y = check_array(y, ensure_2d=False, dtype=np.float64, input_name="y")
        if not self.likelihood_.paired:
            y = column_or_1d(y)
        check_consistent_length(X, y)
        if not self.likelihood_.ordered:
            self.likelihood_.check_target(y)
        return y

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
        y = self._check_y(X, y)
        return self._predictive(X, offset).log_prob(self._codes(y) if self.likelihood_.ordered else y)

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
        y = self._check_y(X, y)
        prediction = self.predict(X, offset=offset)
        weight = check_row_values(sample_weight, len(y), "sample_weight", weights=True)
        deviance = None if self.likelihood_.ordered else self.likelihood_.unit_deviance(y, prediction)
        if deviance is None:
            return float(r2_score(y, prediction, sample_weight=weight))
        left = np.average(deviance, weights=weight)
        null = np.average(self.likelihood_.unit_deviance(y, self.likelihood_.null_mean(y, weight)), weights=weight)
        # As r2_score does where y is constant.
        return float(1.0 - left / null) if null > 0 else float(left == 0)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        spec = self.likelihood
        if isinstance(spec, likelihoods.Likelihood) or spec in likelihoods.NAMES - {"softmax"}:
            likelihood = likelihoods.resolve(spec)
            tags.target_tags.positive_only = not likelihood.ordered and likelihood.support.low == 0
            tags.target_tags.multi_output, tags.target_tags.single_output = likelihood.paired, not likelihood.paired
        return tags
