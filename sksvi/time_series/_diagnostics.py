"""How well a fitted series predicts itself: one step ahead, residuals, the exact evidence."""

from __future__ import annotations

import copy
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtri
from sklearn.utils.validation import check_is_fitted

from sksvi import expectations
from sksvi._runtime import parallel
from sksvi._typing.arrays import DataFrame, MatrixLike, PerRow, RandomState, Series
from sksvi.estimators.checks import check_count, check_row_values, check_seed, n_rows
from sksvi.estimators.fit_warnings import other_order, warn_all
from sksvi.estimators.offsets import offset_of, with_exposure
from sksvi.estimators.posterior import PosteriorTarget
from sksvi.families.base import NotPositiveDefinite, messages_at
from sksvi.families.gaussian.chain import ChainGaussian
from sksvi.models.data import Table
from sksvi.models.time_series.integrated import one_step_ahead
from sksvi.models.time_series.search import first_messages
from sksvi.predictive import Predictive
from sksvi.time_series._fit import NodeView
from sksvi.time_series._forecasting import Forecasts
from sksvi.time_series._index import paired_index
from sksvi.time_series._rows import TOO_FAR, check_series, counting, filled, observed, series

Array = np.ndarray

#: Numbers of draws that are in memory at a time.
NUMBERS_AT_ONCE = 2**22


class LogEvidence(NamedTuple):
    """An estimate of the log evidence, nats, its standard error, and how many independent draws it is worth."""

    value: float
    std_error: float
    effective_sample_size: float


class Diagnostics(Forecasts):
    """One-step-ahead predictions, residuals and the evidence of a `DynamicGLM`."""

    def _rule(self) -> Any:
        """The rule of expectations, without noise."""
        rule = expectations.resolve(self.expectation)
        return rule if rule.exact else expectations.resolve("auto")

    def _predicted(self) -> Predictive:
        """Distribution of each fitted observation given those before it."""
        check_is_fitted(self)
        self._series.stored_index("what is predicted one step ahead")
        each = iter(self._series.ahead(self._rule()))

        def ahead(view: NodeView) -> tuple[Array, Array]:
            found = next(each)
            return self._series.series.on(found.mean), found.variance

        return self._series.predictive(ahead)

    def _steps_ahead(self) -> tuple[Array, Array]:
        """P(Y < y) and P(Y <= y) of the points that were observed, each as predicted one step ahead."""
        below, at_most = self._predicted().cdf_steps(self._series.series.y)
        mask = self._series.observed
        return below[mask], at_most[mask]

    def _observed(self) -> Any:
        """Observations on ``index_``, NaN where there is none; of a binomial the shares of successes."""
        import pandas as pd

        y = self._series.series.y
        if y.ndim > 1:
            y = np.divide(*_shares(self.likelihood_, y))
        elif self.likelihood_.traits.ordered:
            y = np.asarray(self.levels_)[y.astype(int)]
        index = self._series.stored_index("what was observed")
        return pd.Series(
            np.where(self._series.observed, y, np.nan), index=index, name=getattr(self, "target_name_", "y")
        )

    def filter(self, coverage: float = 0.9) -> DataFrame:
        """Each fitted observation predicted from those before it, with the parameters as they were learned from all.

        Parameters
        ----------
        coverage : float, default=0.9
            Of the equal-tailed interval (lower, upper).

        Returns
        -------
        DataFrame
            Columns mean, std, median, lower, upper on ``index_``. The first points, as many as there are states, are
            predicted from the wide prior of these: their means behind exp say nothing.
        """
        return self._table(self._predicted(), coverage, self._series.stored_index("filter"))

    def log_predictive_density(
        self,
        X: MatrixLike | None = None,
        y: PerRow | None = None,
        offset: PerRow | None = None,
        exposure: PerRow | None = None,
    ) -> Array:
        """Log density of each observation, one step ahead: given those before it (prequential).

        Parameters
        ----------
        X : array-like of shape (n, D), default=None
        y : array-like of shape (n,), binomial (n, 2), default=None
            None: the fitted series. Rows with an index are those points in time; rows without one are the first fitted
            ones if equal to them, else they follow the last one. A fitted point is predicted from the fitted ones
            before it; a later one from all fitted ones and from the rows of `y` between.
        offset, exposure : array-like of shape (n,), default=None
            As in `fit`.

        Returns
        -------
        ndarray of shape (n,)
            Nats; NaN where y is missing.

        Raises
        ------
        ValueError
            For X, offset or exposure without y, X and y that differ in length, y outside the support, and times
            before the first point or between two.
        """
        check_is_fitted(self)
        if y is None:
            given = [name for name, part in (("X", X), ("offset", offset), ("exposure", exposure)) if part is not None]
            if given:
                raise ValueError(
                    f"{given[0]} was given without y: give the observations whose "
                    "density is wanted, or nothing for that of the fitted ones."
                )
            mask = self._series.observed
            return np.where(mask, self._predicted().log_prob(self._series.series.y), np.nan)
        values = self._target(y)
        there = observed(values)
        offset = with_exposure(self, offset, exposure, X, y=y)
        warn_all(other_order(X=X, y=y, offset=offset))
        columns, _ = self._new_columns(X, len(values), "log_predictive_density")
        if len(columns) != len(values):
            raise ValueError(f"X and y differ in length: {len(columns)} and {len(values)} rows.")
        at, T = self._places(paired_index(X, y), columns, values), len(self._series.series)
        shift = offset_of(self, offset, len(values))
        shift = self.mean_ + (0.0 if shift is None else shift) + np.zeros(len(values))
        requested = Table(self._series.rows_at(columns, at), values, there.astype(float), shift)
        logs = [self._log_densities(k, requested, at, T) for k in range(len(self._series.views))]
        return np.where(there, self._sequential(np.array(logs), at, at < T), np.nan)

    def _log_densities(self, k: int, rows: Table, at: Array, T: int) -> Array:
        """Log densities of observations at node k, each given those before it; 0 where there is none."""
        view, there = self._series.views[k], counting(rows)
        mean, variance = np.empty(len(rows)), np.empty(len(rows))
        fitted = at < T
        if np.any(fitted):
            all_columns = np.zeros((T, rows.X.shape[1]))
            all_columns[at[fitted]] = rows.X[fitted]
            m, v = self._series.ahead(self._rule())[k].block.combined(
                self._series.share(), np.ones(1), all_columns, back=False
            )
            mean[fitted], variance[fitted] = m[at[fitted], 0], v[at[fitted], 0]
        if not np.all(fitted):
            mean[~fitted], variance[~fitted] = self._later(view, rows.take(np.flatnonzero(~fitted)), at[~fitted] - T)
        filled = series(rows.X, rows.y, there, None, None).y if np.any(there) else np.zeros_like(rows.y)
        return np.where(there, Predictive(view.likelihood, rows.on(mean), variance).log_prob(filled), 0.0)

    def _sequential(self, logs: Array, at: Array, fitted: Array) -> Array:
        """Log densities over the nodes, (k, n) to (n,): those of later points weigh what observations between say."""
        weights = np.log(self._series.weights)[:, None]
        out = np.logaddexp.reduce(weights + logs, axis=0)
        later = np.flatnonzero(~fitted)
        if len(logs) > 1 and len(later):
            order = later[np.argsort(at[later], kind="stable")]
            total = np.logaddexp.reduce(weights + np.cumsum(logs[:, order], axis=1), axis=0)
            out[order] = np.diff(total, prepend=0.0)
        return out

    def _later(self, view: NodeView, rows: Table, at: Array) -> tuple[Array, Array]:
        """Predictions of points `at` steps after the first that follows the fit, from it and from those between."""
        n, there = int(at.max()) + 1, counting(rows)
        columns, offset, weight = np.zeros((n, rows.X.shape[1])), np.zeros(n), np.zeros(n)
        values = np.zeros((n, *rows.y.shape[1:])) + (rows.y[there][0] if np.any(there) else 0.0)
        columns[at], offset[at], weight[at] = rows.X, rows.on(np.zeros(len(rows))), there
        values[at[there]] = rows.y[there]
        data = Table(columns, values, weight, offset)
        chain = view.after(columns)
        if not np.any(there):
            m, v = ChainGaussian(chain).ahead()
            return m[at], v[at]
        first = ChainGaussian(chain, *first_messages(view.likelihood, data))
        try:
            found = one_step_ahead(view.likelihood, first, data, self._rule())
        except NotPositiveDefinite as error:
            raise ValueError(TOO_FAR) from error
        return found.mean[at], found.variance[at]

    def _target(self, y: Any) -> Array:
        """y of rows to be scored, NaN where it is missing; an ordered one as positions in ``levels_``."""
        if self.likelihood_.traits.ordered:
            return np.asarray(self._check_y(y, y), float)
        values = check_series(self, y, self.likelihood_.traits.paired)
        if np.any(observed(values)):
            self.likelihood_.check_target(series(np.zeros((len(values), 0)), values, observed(values), None, None).y)
        return values

    def _training_score(self, X: Any, y: Any, **beside: Any) -> None:
        """No score: a smoothed series was fitted to each of its points, and follows noise to a score near 1."""

    def score(
        self,
        X: MatrixLike | None,
        y: PerRow,
        sample_weight: PerRow | None = None,
        offset: PerRow | None = None,
        exposure: PerRow | None = None,
    ) -> float:
        """R², or the share of deviance explained (D²) for counts, rates and binary y, of what was observed.

        With `groups`: of the rows of all series, beside one mean for all of them.

        Parameters
        ----------
        X : array-like of shape (n, D), or None
            Rows as in `predict`; times are those of X or of y. None: the fitted points, or without columns those of y.
        y : array-like of shape (n,), binomial (n, 2)
            NaN where nothing was observed.
        sample_weight, offset, exposure : array-like of shape (n,), default=None

        Returns
        -------
        float

        Raises
        ------
        ValueError
            For y without any value, X and y with different times, and what `predict` refuses.
        """
        check_is_fitted(self)
        return super().score(*self._to_score(X, y, sample_weight, offset, exposure))

    def _to_score(
        self, X: Any, y: Any, sample_weight: Any = None, offset: Any = None, exposure: Any = None
    ) -> tuple[Any, Any, Any, Any]:
        """X with its times, y, weights that are 0 where y is missing, and the offset."""
        X = X if y is None else self._with_times(X, y)
        offset = with_exposure(self, offset, exposure, X, y=y)
        warn_all(other_order(X=X, y=y, sample_weight=sample_weight))
        sample_weight = check_row_values(sample_weight, n_rows(y), "sample_weight", weights=True)
        if self.likelihood_.traits.ordered:
            return X, y, sample_weight, offset
        y = check_series(self, y, self.likelihood_.traits.paired)
        there = observed(y)
        if not np.any(there):
            raise ValueError(f"y has no observed value among {len(y)}: there is nothing to compare with.")
        if not np.all(there):  # rows without weight may hold any value
            sample_weight = np.where(there, 1.0 if sample_weight is None else sample_weight, 0.0)
            y = filled(y, there)
        return X, y, sample_weight, offset

    def residuals(self, kind: str = "quantile", random_state: RandomState = None) -> Series:
        """Residuals of the one-step-ahead predictions.

        Parameters
        ----------
        kind : {"quantile", "pearson", "response"}, default="quantile"
            "quantile": what a standard normal variable is at the probability of the observation, which of a count is
            drawn between P(Y < y) and P(Y <= y) (Dunn and Smyth 1996); standard normal and independent where the model
            holds. "pearson": divided by the predictive standard deviation. "response": y less its mean.
        random_state : int, RandomState or None, default=None
            Of the draws between the probabilities of counts.

        Returns
        -------
        Series
            On ``index_``; NaN where nothing was observed.

        Raises
        ------
        ValueError
            For another `kind`.
        """
        import pandas as pd

        if kind not in ("quantile", "pearson", "response"):
            raise ValueError(f"kind={kind!r} is unknown: choose 'quantile', 'pearson' or 'response'.")
        predicted, mask = self._predicted(), self._series.observed
        y = self._series.series.y
        if kind == "quantile":
            seed = check_seed(random_state).randint(np.iinfo(np.int32).max)
            low, high = predicted.cdf_steps(y)
            u = low + np.random.default_rng(seed).random(len(low)) * (high - low)
            tiny = np.finfo(float).eps
            found = ndtri(np.clip(u, tiny, 1.0 - tiny))
        else:
            successes, trials = _shares(self.likelihood_, y) if y.ndim > 1 else (y, 1.0)
            response, spread = successes / trials - predicted.mean(), predicted.std() / np.sqrt(trials)
            found = response / spread if kind == "pearson" else response
        return pd.Series(
            np.where(mask, found, np.nan), index=self._series.stored_index("residuals"), name=f"{kind} residual"
        )

    def _joint(self, X: Any, y: Any, sample_weight: Any, offset: Any) -> PosteriorTarget:
        """The fit with its series, for a comparison of q with its posterior."""
        check_is_fitted(self)
        self._series.check_whole("check_posterior")
        given = {"X": X, "y": y, "sample_weight": sample_weight, "offset": offset}
        named = [name for name, value in given.items() if value is not None]
        if named:
            raise ValueError(f"{type(self).__name__} holds its series: leave {', '.join(named)} out.")
        twin, q = copy.copy(self), self._series.block
        return PosteriorTarget(
            problem=twin._problem(self._model_of(self._series.series), self._series.series),
            q={**self.state_.shown, "latents": q},
            block="latents",
            index=self.index_,
            mean=q.mean + self.mean_,
            std=q.std,
            shown=lambda draws: draws + self.mean_,
        )

    def log_evidence(self, n_samples: int = 1000, random_state: RandomState = None) -> LogEvidence:
        """Log evidence of the data at the mode of the learned parameters by importance sampling.

        Paths of f are drawn from q there, in pairs about its mean. The bound at that mode is below it; `lower_bound_`
        is, where parameters have a posterior, an integral over them, their prior included.

        Parameters
        ----------
        n_samples : int, default=1000
            Paths, rounded up to an even number.
        random_state : int, RandomState or None, default=None

        Returns
        -------
        LogEvidence
            value and std_error in nats, effective_sample_size of at most n_samples; where that is small, neither of the
            others is to be trusted.
        """
        check_is_fitted(self)
        self._series.check_whole("log_evidence")
        pairs = (check_count(n_samples, "n_samples", 2, bytes_each=48.0) + 1) // 2
        rng = np.random.default_rng(check_seed(random_state).randint(np.iinfo(np.int32).max))
        q, data = self._series.block, self._series.series
        model, prior, parts = self._model_of(data), ChainGaussian(q.chain), []

        def log_weight(f: Array) -> Array:
            return model.log_likelihood_at({}, {"latents": f}, data, None) - messages_at(q, prior, f)

        for part in parallel.slices(pairs, max(1, NUMBERS_AT_ONCE // len(data))):
            draws = q.sample(part.stop - part.start, np.random.RandomState(rng.integers(2**31)))
            parts.append([log_weight(draws), log_weight(2.0 * q.mean - draws)])
        weights = np.concatenate(parts, axis=1).T
        top = weights.max()
        ratio = np.exp(weights - top)
        each = ratio.mean(axis=1)
        mean = float(each.mean())
        error = float(each.std(ddof=1) / np.sqrt(pairs) / mean) if pairs > 1 else np.inf
        return LogEvidence(float(top) + float(np.log(mean)), error, float(ratio.sum() ** 2 / np.square(ratio).sum()))


def _shares(likelihood: Any, y: Array) -> tuple[Array, Array]:
    """Successes, and trials, at least one."""
    successes, failures = likelihood.outcomes(y)
    return successes, np.maximum(successes + failures, 1.0)
