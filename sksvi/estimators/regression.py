"""Methods that predict a measured, counted, binomial or ordered target, shared by every regressor."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Literal, overload

import numpy as np
from scipy.special import ndtri
from sklearn.base import RegressorMixin
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.utils import column_or_1d
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from sksvi import likelihoods
from sksvi._runtime.user import warn_user
from sksvi._typing.arrays import ArrayLike, MatrixLike, PerRow, RandomState
from sksvi.estimators.censoring import censored_rows
from sksvi.estimators.checks import (
    check_count,
    check_flag,
    check_levels,
    check_numbers,
    check_row_values,
    check_same_rows,
    check_seed,
    n_rows,
)
from sksvi.estimators.fit_warnings import other_order, warn_all
from sksvi.estimators.levels import are_numbers, positions
from sksvi.estimators.offsets import given_likelihood, with_exposure
from sksvi.estimators.refit import FitRecord
from sksvi.likelihoods.traits import LARGEST_COUNT
from sksvi.partitions.collections import is_collection
from sksvi.partitions.lazy import summed, travelling
from sksvi.predictive.plain import tail_of

Array = np.ndarray


def is_ordered(model: Any) -> bool:
    """Whether the likelihood gives a probability to each of several levels."""
    spec = getattr(model, "likelihood_", None) or likelihoods.resolve(given_likelihood(model))
    return bool(spec.traits.ordered)


def is_positive(model: Any) -> bool:
    """Whether y is a positive measurement, which may be a time."""
    spec = getattr(model, "likelihood_", None) or likelihoods.resolve(given_likelihood(model))
    return bool(spec.support.low >= 0 and spec.tails is not None)


def quantile_of(likelihood: Any, predictive: Any, return_std: bool) -> Any:
    """f, which is the quantile of y, and its standard deviation, from the moments of y."""
    away, noise = likelihood.mean(np.zeros(1))[0], likelihood.conditional_variance(np.zeros(1))[0]
    value = predictive.mean() - away
    return (value, np.sqrt(np.maximum(np.square(predictive.std()) - noise, 0.0))) if return_std else value


def quantiles_of(likelihood: Any, predictive: Any, levels: Array, trials: Array | None = None) -> Array:
    """Quantiles (n, k) of the predictive distribution; where f is a quantile of y those of f, by its two moments."""
    if not likelihood.traits.quantile:
        return np.asarray(predictive.quantile(levels, trials))
    value, std = quantile_of(likelihood, predictive, True)
    return np.asarray(value[:, None] + std[:, None] * ndtri(levels))


class RegressionMethods(RegressorMixin):
    """Predictions from ``_predictive(X, offset)``; needs ``likelihood_``, for ordinal targets ``levels_``."""

    likelihood: Any
    likelihood_: Any
    levels_: Array
    #: Whether a fit keeps declared levels that no row has.
    _keeps_levels = False
    _predictive: Callable[[Any, Any], Any]
    #: Means of f by rows and offset, where they take less than the variances beside them.
    _latent_means: Callable[[Any, Any], Array] | None = None
    _record: FitRecord
    #: Whether X may be a sparse matrix.
    _accepts_sparse: bool

    # ---- targets
    def _base_likelihood(self) -> likelihoods.Likelihood:
        """The likelihood before any data."""
        base = self._record.working or likelihoods.resolve(self.likelihood)
        if base.n_latents > 1:
            classifier = type(self).__name__.replace("Regressor", "Classifier")
            raise ValueError(f"likelihood={self.likelihood!r} is for labels: use {classifier}.")
        return base

    def _check_y(self, X: Any, y: Any) -> Array:
        """y of a test set, checked against the likelihood; an ordinal one as positions in ``levels_``."""
        check_is_fitted(self)
        if self.likelihood_.traits.ordered:
            codes = positions(self.levels_, y)
            check_same_rows(X, codes)
            return codes
        y = censored_rows(y, self.likelihood_) if self.likelihood_.traits.censored else check_numbers(y, "y")
        if not (self.likelihood_.traits.paired or self.likelihood_.traits.censored):
            y = y if y.ndim == 1 else column_or_1d(y)
        check_same_rows(X, y)
        self.likelihood_.check_target(y)
        return y

    def _check_trials(self, predictive: Any, trials: Any) -> Array | None:
        """Trials of each row to predict, as whole numbers of shape (n,), or None."""
        if trials is None:
            return None
        if not self.likelihood_.traits.paired:
            raise ValueError(
                f"trials= counts the successes of a binomial or beta-binomial y; likelihood={self.likelihood!r} has no "
                "trials: leave it out."
            )
        trials = check_row_values(trials, len(predictive.latent_mean), "trials")
        good = (trials >= 0) & (trials % 1 == 0) & (trials <= LARGEST_COUNT)
        if not np.all(good):
            row = int(np.argmin(good))
            raise ValueError(f"trials must be whole numbers from 0 to 2^53; found {trials[row]:g} in row {row}.")
        return trials.astype(np.int64)

    def _with_times(self, X: Any, y: Any) -> Any:
        """Rows of a fit as predictions take them."""
        return X

    # ---- prediction
    def _values(self, codes: Array) -> Array:
        """Levels for codes, or the numbers themselves."""
        return self.levels_[codes.astype(int)] if self.likelihood_.traits.ordered else codes

    @property
    def _named_levels(self) -> bool:
        """Whether y has levels that are names: they have an order and no mean."""
        return bool(self.likelihood_.traits.ordered) and not are_numbers(self.levels_)

    @overload
    def predict(
        self,
        X: MatrixLike,
        return_std: Literal[False] = ...,
        offset: PerRow | None = ...,
        exposure: PerRow | None = ...,
    ) -> np.ndarray: ...

    @overload
    def predict(
        self, X: MatrixLike, return_std: Literal[True], offset: PerRow | None = ..., exposure: PerRow | None = ...
    ) -> tuple[np.ndarray, np.ndarray]: ...

    @overload
    def predict(
        self, X: MatrixLike, return_std: bool = ..., offset: PerRow | None = ..., exposure: PerRow | None = ...
    ) -> np.ndarray | tuple[np.ndarray, np.ndarray]: ...

    def predict(
        self, X: MatrixLike, return_std: bool = False, offset: PerRow | None = None, exposure: PerRow | None = None
    ) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        """Predictive mean of y; of levels that are names the median level, of a quantile (`AsymmetricLaplace`) itself.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n, D)
        return_std : bool, default=False
            Whether to return the predictive standard deviation of y too, noise included.
        offset, exposure : array-like of shape (n,), default=None
            As in `fit`: f has the logarithm of the exposure added.

        Returns
        -------
        mean : ndarray of shape (n,)
        std : ndarray of shape (n,)
            With ``return_std=True``. Infinite under a Student-t that may have at most two degrees of freedom, as few
            rows often leave open: its intervals are finite.

        Raises
        ------
        ValueError
            ``return_std=True`` where levels are names.
        """
        return_std, offset = check_flag(return_std, "return_std"), with_exposure(self, offset, exposure, X)
        if self._latent_means is not None:
            check_is_fitted(self)
            if self.likelihood_.traits.additive and not self.likelihood_.traits.quantile:
                mean = self._latent_means(X, offset)
                return (mean, self._predictive(X, offset).std()) if return_std else mean
        return self._means(self._predictive(X, offset), return_std)

    def _means(self, predictive: Any, return_std: bool) -> Any:
        """Values that `predict` returns for a predictive distribution."""
        if self._named_levels:
            if return_std:
                raise ValueError(
                    f"return_std=True needs numbers, and y has the levels {self.levels_.tolist()}, which have no "
                    "standard deviation: use predict_proba or predict_interval."
                )
            return self._values(predictive.quantile(np.array([0.5]))[:, 0])
        if self.likelihood_.traits.ordered:
            p = predictive.probabilities()
            mean = p @ self.levels_.astype(p.dtype)
            variance = np.einsum("nk,nk->n", p, np.square(self.levels_ - mean[:, None]).astype(p.dtype))
            return (mean, np.sqrt(variance)) if return_std else mean
        if self.likelihood_.traits.quantile:
            return quantile_of(self.likelihood_, predictive, return_std)
        return (predictive.mean(), predictive.std()) if return_std else predictive.mean()

    def predict_quantiles(
        self,
        X: MatrixLike,
        q: ArrayLike,
        offset: PerRow | None = None,
        exposure: PerRow | None = None,
        trials: PerRow | None = None,
    ) -> Array:
        """Quantiles of the predictive distribution of y; of a quantile (`AsymmetricLaplace`) those of its posterior.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n, D)
        q : array-like of shape (m,)
            In (0, 1).
        offset, exposure : array-like of shape (n,), default=None
            As in `fit`: f has the logarithm of the exposure added.
        trials : int or array-like of shape (n,), default=None
            Of binomial and beta-binomial y: how many trials each row has, whose successes are counted; None: one
            further trial.

        Returns
        -------
        ndarray of shape (n, m)

        Raises
        ------
        ValueError
            Trials that are no whole numbers of 0 or more, or of a likelihood that has none.
        """
        q = check_levels(q)
        predictive = self._predictive(X, with_exposure(self, offset, exposure, X))
        return self._values(quantiles_of(self.likelihood_, predictive, q, self._check_trials(predictive, trials)))

    def predict_interval(
        self,
        X: MatrixLike,
        coverage: float = 0.9,
        offset: PerRow | None = None,
        exposure: PerRow | None = None,
        trials: PerRow | None = None,
    ) -> Array:
        """Equal-tailed predictive interval of y; of a quantile (`AsymmetricLaplace`) the interval of itself.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n, D)
        coverage : float, default=0.9
            In (0, 1).
        offset, exposure : array-like of shape (n,), default=None
            As in `fit`: f has the logarithm of the exposure added.
        trials : int or array-like of shape (n,), default=None
            Of binomial and beta-binomial y: how many trials each row has, whose successes are counted; None: one
            further trial.

        Returns
        -------
        ndarray of shape (n, 2)

        Raises
        ------
        ValueError
            Trials that are no whole numbers of 0 or more, or of a likelihood that has none.
        """
        tail = tail_of(coverage)
        return self.predict_quantiles(X, [tail, 1.0 - tail], offset, exposure, trials)

    @available_if(is_positive)
    def predict_median(self, X: MatrixLike, offset: PerRow | None = None, exposure: PerRow | None = None) -> Array:
        """Median of the predictive distribution of a positive y, such as a time.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n, D)
        offset, exposure : array-like of shape (n,), default=None
            As in `fit`.

        Returns
        -------
        ndarray of shape (n,)
        """
        return self.predict_quantiles(X, [0.5], offset, exposure)[:, 0]

    @available_if(is_positive)
    def predict_survival(
        self, X: MatrixLike, times: ArrayLike, offset: PerRow | None = None, exposure: PerRow | None = None
    ) -> Array:
        """P(y > t) of each row at each of some times, f integrated out.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n, D)
        times : array-like of shape (m,)
            In the unit of y, not negative.
        offset, exposure : array-like of shape (n,), default=None
            As in `fit`.

        Returns
        -------
        ndarray of shape (n, m)

        Raises
        ------
        ValueError
            For a time below 0.
        """
        at = np.ravel(check_numbers(times, "times"))
        if np.any(at < 0):
            raise ValueError(f"times must be 0 or more; found {at[np.argmax(at < 0)]:g}.")
        predictive = self._predictive(X, with_exposure(self, offset, exposure, X))
        survival = np.empty((len(predictive.latent_mean), len(at)))
        for k, time in enumerate(at):
            survival[:, k] = 1.0 - predictive.cdf(np.full(len(survival), time))
        return survival

    def sample_y(
        self,
        X: MatrixLike,
        n_samples: int = 1,
        random_state: RandomState = None,
        offset: PerRow | None = None,
        exposure: PerRow | None = None,
        trials: PerRow | None = None,
    ) -> Array:
        """Draws of y from the predictive distribution, rows independent.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n, D)
        n_samples : int, default=1
        random_state : int, RandomState or None, default=None
        offset, exposure : array-like of shape (n,), default=None
            As in `fit`: f has the logarithm of the exposure added.
        trials : int or array-like of shape (n,), default=None
            Of binomial and beta-binomial y: how many trials each row has, whose successes are counted; None: one
            further trial.

        Returns
        -------
        ndarray of shape (n, n_samples)

        Raises
        ------
        ValueError
            Trials that are no whole numbers of 0 or more, or of a likelihood that has none.
        """
        seed = check_seed(random_state).randint(np.iinfo(np.int32).max)
        n_samples = check_count(n_samples, "n_samples, the number of samples,", bytes_each=8.0 * n_rows(X))
        predictive = self._predictive(X, with_exposure(self, offset, exposure, X))
        trials = self._check_trials(predictive, trials)
        return self._values(predictive.sample(n_samples, np.random.default_rng(seed), trials))

    def log_predictive_density(
        self, X: MatrixLike, y: PerRow, offset: PerRow | None = None, exposure: PerRow | None = None
    ) -> Array:
        """log p(y) of each row under the predictive distribution, nats.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n, D)
        y : array-like of shape (n,), binomial (n, 2)
        offset, exposure : array-like of shape (n,), default=None
            As in `fit`: f has the logarithm of the exposure added.

        Returns
        -------
        ndarray of shape (n,)
        """
        y = self._check_y(X, y)
        return self._predictive(X, with_exposure(self, offset, exposure, X, y=y)).log_prob(y)

    @available_if(is_ordered)
    def predict_proba(self, X: MatrixLike, offset: PerRow | None = None) -> Array:
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

    def score(
        self,
        X: MatrixLike,
        y: PerRow,
        sample_weight: PerRow | None = None,
        offset: PerRow | None = None,
        exposure: PerRow | None = None,
    ) -> float:
        """R², or the share of deviance explained (D²) for counts, rates and binary y.

        Where levels are names: the share of absolute error explained, in steps from level to level. Of censored y:
        Harrell's concordance, the share of pairs whose order is known that the predicted medians have in it.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n, D)
        y : array-like of shape (n,), binomial (n, 2)
        sample_weight, offset, exposure : array-like of shape (n,), default=None

        Returns
        -------
        float
        """
        check_is_fitted(self)
        name, bare = type(self).__name__, travelling(self) if is_collection(X) else self
        warn_all(other_order(X=X, y=y, sample_weight=sample_weight))
        offset = with_exposure(self, offset, exposure, X, y=y)
        if self.likelihood_.traits.censored:
            from sksvi.estimators.concordance import concordance

            rows = self._check_y(X, y)
            weight = check_row_values(sample_weight, len(rows), "sample_weight", weights=True)
            return concordance(rows, self.predict_quantiles(X, [0.5], offset)[:, 0], weight)
        sums = summed(name, bare._losses, X, y, sample_weight, offset)
        # What the mean of all rows would lose: a second look, at y alone.
        return self._saved(sums, lambda mean: summed(name, partial(bare._null_loss, mean), y, None, sample_weight))

    def _saved(self, sums: Any, null_loss: Callable[[float], float]) -> float:
        """Score of rows by their sums of `_losses`; `null_loss`: loss of one mean for all of them."""
        n, weight, left, totals = sums
        if self._named_levels:  # beside the level from which all rows are the fewest steps away
            at = np.arange(len(totals))
            return share_saved(left, float((np.abs(at[:, None] - at) @ totals).min()), n, "D^2 score")
        mean = self._constant_mean(np.asarray(totals / weight))
        return share_saved(left, null_loss(mean), n if self._by_squares else 2, "R^2 score")

    def _constant_mean(self, average: Array) -> Any:
        """The mean that ignores every feature, given the average target."""
        if not self.likelihood_.traits.paired:
            return average
        successes, failures = self.likelihood_.outcomes(average)
        return successes / (successes + failures)

    @property
    def _by_squares(self) -> bool:
        """Whether the score is R², of squared errors."""
        one = np.full((1, 2) if self.likelihood_.traits.paired else 1, 0.5)
        return bool(self.likelihood_.traits.ordered) or self.likelihood_.unit_deviance(one, one.ravel()[:1]) is None

    @property
    def _score_name(self) -> str:
        if self._named_levels:
            return "D² of levels"
        if self.likelihood_.traits.censored:
            return "concordance"
        return "R²" if self._by_squares else "D²"

    def _losses(self, X: Any, y: Any, sample_weight: Any, offset: Any) -> Any:
        """Sums of `scores.losses` over some rows: their number, weight, loss and target."""
        y = self._check_y(X, y)
        prediction = self.predict(X, offset=offset)
        weight = check_row_values(sample_weight, len(y), "sample_weight", weights=True)
        if self._named_levels:
            return level_losses(y, positions(self.levels_, prediction), len(self.levels_), weight)
        y = self._values(y)
        return losses(self._loss(y, prediction), y, weight)

    def _null_loss(self, mean: float, y: Any, _: Any, sample_weight: Any, __: Any) -> float:
        """Summed loss of some rows that are all predicted by one mean."""
        y = self._values(self._check_y(y, y))
        weight = check_row_values(sample_weight, len(y), "sample_weight", weights=True)
        loss = self._loss(y, np.full(len(y), mean))
        return float(loss.sum() if weight is None else weight @ loss)

    def _loss(self, y: Array, prediction: Array) -> Array:
        """Deviance of each row, or its squared error."""
        return np.square(y - prediction) if self._by_squares else self.likelihood_.unit_deviance(y, prediction)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self._accepts_sparse
        spec = given_likelihood(self)
        if isinstance(spec, likelihoods.Likelihood) or spec in likelihoods.NAMES - likelihoods.OF_CLASSES:
            likelihood = likelihoods.resolve(spec)
            tags.target_tags.positive_only = not likelihood.traits.ordered and likelihood.support.low == 0
            tags.target_tags.multi_output = likelihood.traits.paired
            tags.target_tags.single_output = not likelihood.traits.paired
        return tags


# ---- scores R² and D²: shares of a loss that predictions save, from sums over rows, which may lie in partitions
def losses(loss: Array, y: Array, weight: Array | None) -> tuple[int, float, float, Any]:
    """Sums over rows: their number, their weight, their weighted loss, and the weighted sum of y."""
    weight = np.ones(len(loss)) if weight is None else weight
    return len(loss), float(weight.sum()), float(weight @ loss), weight @ np.asarray(y, float)


def level_losses(codes: Array, predicted: Array, n_levels: int, weight: Array | None) -> tuple[int, float, float, Any]:
    """Sums over rows with ordered levels: number, weight, absolute error in levels, and the weight of each level."""
    weight = np.ones(len(codes)) if weight is None else weight
    steps = np.abs(codes - predicted).astype(float)
    return len(codes), float(weight.sum()), float(weight @ steps), np.bincount(codes, weight, n_levels)


def share_saved(left: float, null: float, n: int, name: str) -> float:
    """1 - left/null as scikit-learn's scores have it: 1 or 0 where y is constant, undefined for one row."""
    if n < 2:
        warn_user(f"{name} is not well-defined with less than two samples.", UndefinedMetricWarning)
        return float("nan")
    return float(1.0 - left / null) if null > 0 else float(left == 0)
