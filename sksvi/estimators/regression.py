"""What is predicted of a measured, counted, binomial or ordered target: shared by every regressor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score
from sklearn.utils import check_array, check_consistent_length, check_random_state, column_or_1d
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from sksvi import likelihoods
from sksvi.estimators.checks import check_row_values

Array = np.ndarray


def _is_ordered(model: Any) -> bool:
    """Whether the likelihood gives a probability to each of several levels."""
    spec = getattr(model, "likelihood_", None) or likelihoods.resolve(model.likelihood)
    return bool(spec.ordered)


class RegressionMethods(RegressorMixin):
    """Predictions from ``_predictive(X, offset)``; needs ``likelihood_``, for ordinal targets ``levels_``."""

    likelihood: Any
    likelihood_: Any
    levels_: Array
    _predictive: Callable[[Any, Any], Any]

    # ---- targets
    def _fix_levels(self, base: Any, y: Array) -> None:
        """The sorted values of y are the levels; a likelihood whose levels are known says how many there must be."""
        self.levels_ = np.unique(y)
        if len(self.levels_) < 2:
            raise ValueError(
                f"an ordinal y needs at least two levels; it contains only {self.levels_[0]:g} (n_samples={len(y)})."
            )
        if base.levels is not None and len(base.levels) != len(self.levels_):
            raise ValueError(
                f"likelihood={base!r} has {len(base.levels)} levels; y has {len(self.levels_)}: {self.levels_}."
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
