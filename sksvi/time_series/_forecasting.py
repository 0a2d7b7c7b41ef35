"""Predictions of a fitted series, smoothed and ahead: of y, of f and of its parts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, overload

import numpy as np
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from sksvi._runtime.user import warn_user
from sksvi._typing.arrays import NUMBERS, DataFrame, MatrixLike, PerRow, RandomState
from sksvi.estimators.base import BaseSVI
from sksvi.estimators.checks import check_count, check_flag, check_seed
from sksvi.estimators.offsets import checked_offset, with_exposure
from sksvi.estimators.posterior import Posterior
from sksvi.estimators.regression import RegressionMethods, is_ordered, quantiles_of
from sksvi.estimators.summaries import concatenated, exponentiated, learned_rows, posterior_of_nodes
from sksvi.estimators.validation import validate_data
from sksvi.families.gaussian.chain import ChainGaussian
from sksvi.likelihoods import Likelihood
from sksvi.predictive import Predictive
from sksvi.predictive.plain import tail_of
from sksvi.time_series._dynamics import periods_of
from sksvi.time_series._encoding import SeriesEncoding
from sksvi.time_series._fit import NodeView, SeriesFit, mixed_table, moments_table, node_rows
from sksvi.time_series._frequency import clock_warning
from sksvi.time_series._index import continued, counts_rows, own_index, paired_index, positions, without_times

Array = np.ndarray

#: Variance of a log rate from which on its mean, exp(variance / 2) times the median, says little.
TAIL = 4.0


class Forecasts(RegressionMethods, BaseSVI):
    """Predictions, forecasts and components of a `DynamicGLM`."""

    likelihood_: Likelihood
    mean_: float
    _encoding: SeriesEncoding
    #: The fit, which is there after the first one to a single series.
    _series: SeriesFit
    hyperparameter_posterior_ = posterior_of_nodes(
        lambda self: self._series.nodes if hasattr(self, "_series") else None,
        lambda self, values: self._series.hyperparameter_columns(values),
    )

    def _fitted_series(self, name: str) -> SeriesFit:
        """The fit, for an attribute that is there after it."""
        if getattr(self, "_panel", None) is not None:
            raise AttributeError(f"{name} is each series' own, and this fit has groups: ask one of series_.")
        if not hasattr(self, "_series"):
            raise AttributeError(f"{name} is there after fit")
        return self._series

    @property
    def posterior_(self) -> Posterior:  # found when it is asked for
        """The posterior of f, over the nodes of the hyperparameters."""
        return self._fitted_series("posterior_").posterior

    @property
    def coef_(self) -> Array:
        """Coefficients of X at the last point."""
        return self._fitted_series("coef_").coefficients[0]

    @property
    def coef_std_(self) -> Array:
        """Standard deviations of the coefficients of X at the last point."""
        return self._fitted_series("coef_std_").coefficients[1]

    def _new_columns(self, X: Any, n: int | None, what: str) -> tuple[Array, Any]:
        """Columns of new rows in their own units, and the index that they bring."""
        if X is None:
            if self.n_features_in_:
                raise ValueError(
                    f"{what} needs X, the {self.n_features_in_} columns that {type(self).__name__} was fitted to, for "
                    "every point."
                )
            return np.zeros((0 if n is None else n, 0)), None
        if not self.n_features_in_:
            found = np.shape(X)
            if len(found) != 2:
                raise ValueError(
                    f"X must be a table with an index of times, or an array of shape (n, 0): {type(self).__name__} was "
                    f"fitted without columns, and points are all that X can say. Found {type(X).__name__}."
                )
            if found[1]:
                raise ValueError(f"X has {found[1]} features, but {type(self).__name__} was fitted without columns.")
            return np.zeros((found[0], 0)), own_index(X)
        index = own_index(X)
        X = validate_data(self, X, reset=False, dtype=[np.float64, np.float32], order="C")
        return self._encoding.columns(np.asarray(X, dtype=float)), index

    def _places(self, index: Any, columns: Array, y: Array | None = None) -> Array:
        """Which point in time each row is; those that do not say are the first fitted ones where equal, else follow."""
        fit = self._series
        n, T = len(columns), len(fit.series)
        if not without_times(fit.index, index):
            at = positions(fit.index, index) - fit.left_out
            fit.check_places(at, index)
            if counts_rows(index) and fit.differs_at(at, columns, y):
                warn_user(
                    f"rows whose index only counts them, 0 to {n - 1}, are fitted points by it, and hold other values "
                    "than these did: where they follow the fit, give them their own index, or ask forecast."
                )
            return at
        fit.check_places(None, None)
        same = n <= T and np.array_equal(columns, fit.columns[:n])
        if same and not columns.shape[1]:
            same = y is not None and np.array_equal(y, fit.observations[:n], equal_nan=True)
        if not same and not counts_rows(fit.index):
            warn_user(
                f"rows without times were taken as the {n} that follow {fit.index[-1]!r}, the last fitted point: "
                "give them an index. A step of a Pipeline keeps it under "
                'sklearn.set_config(transform_output="pandas").'
            )
        return np.arange(n) + (0 if same else T)

    def _with_times(self, X: Any, y: Any) -> Any:
        """X with the times that X or y has; None: the fitted points, all of them, or points without columns or times.

        Raises
        ------
        ValueError
            X and y that have different times.
        """
        import pandas as pd

        index, n = paired_index(X, y), len(y)
        if X is not None:
            if index is None or own_index(X) is index or np.shape(X)[0] != n:
                return X
            return X.set_axis(index) if hasattr(X, "set_axis") else pd.DataFrame(np.asarray(X), index=index)
        fit = self._series
        timeless, stored = without_times(fit.index, index), fit.index[fit.left_out :]
        if not (timeless and fit.left_out) and (n == len(stored) if timeless else index.equals(stored)):
            return None
        if self.n_features_in_:
            self._new_columns(None, n, "score")
        return np.zeros((n, 0)) if timeless else pd.DataFrame(index=index)

    # ---- latents
    def _latent(self, X: Any, offset: Any) -> tuple[Array, Array]:
        """Mean and variance of f + offset: of fitted points given all data, of later ones ahead."""
        found = self._latents(X, offset)  # which raises for a model that is not fitted
        return self._series.mixture(found)

    def _latents(self, X: Any, offset: Any) -> Callable[[NodeView], tuple[Array, Array]]:
        """Function of a `NodeView` that returns mean and variance of f + offset at rows as in `predict`."""
        check_is_fitted(self)
        T = len(self._series.block.chain)
        if X is None and not (offset is not None and np.size(offset) != T):
            index = self._series.stored_index("predict without X")
            own = None if offset is None else checked_offset(self, offset, index)
            own = self._series.series.on(np.zeros(T)) if own is None else self.mean_ + own
            return lambda view: (view.block.mean + own, view.block.variance)
        columns, index = self._new_columns(X, None if offset is None else np.size(offset), "predict")
        offset = checked_offset(self, offset, columns if X is None else X)
        shift = self.mean_ + (0.0 if offset is None else offset)
        at = self._places(index, columns)
        columns, fitted = self._series.rows_at(columns, at), at < T

        def found(view: NodeView) -> tuple[Array, Array]:
            mean, variance = np.empty(len(columns)), np.empty(len(columns))
            if np.any(fitted):
                mean[fitted], variance[fitted] = self._latent_moments(view.block, columns[fitted], at[fitted], True)
            if not np.all(fitted):
                later = at[~fitted] - T
                chain = view.after(np.zeros((int(later.max()) + 1, columns.shape[1])))
                mean[~fitted], variance[~fitted] = self._latent_moments(
                    ChainGaussian(chain), columns[~fitted], later, False
                )
            return mean + shift, variance

        return found

    def _latent_moments(self, block: ChainGaussian, columns: Array, at: Array, back: bool) -> tuple[Array, Array]:
        """Mean and variance of f at some points of a chain with these columns there."""
        if len(np.unique(at)) < len(at):
            parts = [self._latent_moments(block, columns[i : i + 1], at[i : i + 1], back) for i in range(len(at))]
            return np.concatenate([m for m, _ in parts]), np.concatenate([v for _, v in parts])
        all_columns = np.zeros((len(block.chain), columns.shape[1]))
        all_columns[at] = columns
        mean, variance = block.combined(self._series.share(), np.ones(1), all_columns, back)
        return mean[at, 0], variance[at, 0]

    def _predictive(self, X: Any, offset: Any) -> Predictive:
        found = self._latents(X, offset)  # which raises for a model that is not fitted
        return self._series.predictive(found)

    @overload
    def predict(
        self,
        X: MatrixLike | None = ...,
        return_std: Literal[False] = ...,
        offset: PerRow | None = ...,
        exposure: PerRow | None = ...,
    ) -> np.ndarray: ...

    @overload
    def predict(
        self,
        X: MatrixLike | None,
        return_std: Literal[True],
        offset: PerRow | None = ...,
        exposure: PerRow | None = ...,
    ) -> tuple[np.ndarray, np.ndarray]: ...

    @overload
    def predict(
        self,
        X: MatrixLike | None = ...,
        *,
        return_std: Literal[True],
        offset: PerRow | None = ...,
        exposure: PerRow | None = ...,
    ) -> tuple[np.ndarray, np.ndarray]: ...

    @overload
    def predict(
        self,
        X: MatrixLike | None = ...,
        return_std: bool = ...,
        offset: PerRow | None = ...,
        exposure: PerRow | None = ...,
    ) -> np.ndarray | tuple[np.ndarray, np.ndarray]: ...

    def predict(
        self,
        X: MatrixLike | None = None,
        return_std: bool = False,
        offset: PerRow | None = None,
        exposure: PerRow | None = None,
    ) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        """Predictive mean of y: at fitted points given all data (smoothed), at later ones ahead.

        Parameters
        ----------
        X : array-like of shape (n, D), default=None
            Rows with an index are those points in time. Rows without one are the fitted points where they are equal to
            their rows, from the first on; else they follow the last one. None: all fitted points, with their own
            columns and offset.
        return_std : bool, default=False
            Whether to return the predictive standard deviation of y too, noise included.
        offset, exposure : array-like of shape (n,), default=None
            As in `fit`.

        Returns
        -------
        mean : ndarray of shape (n,)
        std : ndarray of shape (n,)
            With ``return_std=True``.

        Raises
        ------
        ValueError
            For a time before the first point, or between two.
        """
        return_std = check_flag(return_std, "return_std")
        predictive = self._predictive(X, with_exposure(self, offset, exposure, X))
        if X is not None or not self._record.one_sided:  # of which the fit has told
            self._warn_of_tails(predictive)
        return self._means(predictive, return_std)

    def _warn_of_tails(self, predictive: Predictive) -> None:
        """A warning where means behind exp are ruled by what hardly ever happens."""
        if self.likelihood_.variance_function is None:
            return
        median = self.likelihood_.mean(predictive.latent_mean)
        if np.any(predictive.mean() > np.exp(0.5 * TAIL) * median):
            warn_user(
                "the logarithm of the rate is so uncertain at some of these points that means there are more than "
                f"{np.exp(0.5 * TAIL):.2g} times the median and ruled by a tail that hardly ever happens: look at the "
                "median and the interval. autoregressive=True, or smaller variances (level_variance, "
                "seasonal_variance, initial_variance), bound the spread."
            )

    def predict_latent(
        self, X: MatrixLike | None = None, offset: PerRow | None = None, exposure: PerRow | None = None
    ) -> tuple[Array, Array]:
        """Mean and variance of f + offset, rows as in `predict`.

        Parameters
        ----------
        X : array-like of shape (n, D), default=None
        offset, exposure : array-like of shape (n,), default=None
            As in `fit`.

        Returns
        -------
        mean, variance : ndarrays of shape (n,)
        """
        return self._latent(X, with_exposure(self, offset, exposure, X))

    @available_if(is_ordered)
    def predict_proba(self, X: MatrixLike | None = None, offset: PerRow | None = None) -> Array:
        """Probability of each level (ordinal only), rows as in `predict`.

        Parameters
        ----------
        X : array-like of shape (n, D), default=None
        offset : array-like of shape (n,), default=None

        Returns
        -------
        ndarray of shape (n, L)
            Columns as in ``levels_``.
        """
        return super().predict_proba(X, offset)

    # ---- ahead
    def _future(self, steps: Any, X: Any, offset: Any, exposure: Any, what: str) -> tuple[Array, Array, Any]:
        """Columns, offset and index of the points that follow the last one."""
        import pandas as pd

        check_is_fitted(self)
        if steps is None and X is not None:
            steps = len(X)
        steps = check_count(steps, "steps", bytes_each=8.0 * (len(self._series.block.chain.noise) + 8))
        columns, given = self._new_columns(X, steps, what)
        if len(columns) != steps:
            raise ValueError(f"steps={steps} and X has {len(columns)} rows: {what} needs one for every step.")
        index = continued(self.index_, steps)
        if self._encoding.clock is None and (
            message := clock_warning(self.index_[-1:].append(index), periods_of(self))
        ):
            warn_user(message)
        if given is not None and not given.equals(pd.RangeIndex(steps)):
            at = positions(self.index_, given) - len(self.index_)
            if not np.array_equal(at, np.arange(steps)):
                raise ValueError(
                    f"X begins at {given[0]!r}, and {what} at {index[0]!r}: give the rows that follow the fit."
                )
        offset = with_exposure(self, offset, exposure, X, forecast=index)
        offset = checked_offset(self, offset, X, forecast=index)
        offset = np.full(steps, self.mean_) if offset is None else offset + self.mean_
        return self._series.rows_at(columns, len(self._series.series) + np.arange(steps)), offset, index

    @staticmethod
    def _ahead(columns: Array, shift: Array) -> Callable[[NodeView], tuple[Array, Array]]:
        """Function of a `NodeView` that returns mean and variance of f at the points that follow."""

        def found(view: NodeView) -> tuple[Array, Array]:
            prior = ChainGaussian(view.after(columns))
            return prior.mean + shift, prior.variance

        return found

    def forecast_latent(
        self,
        steps: int = 1,
        X: MatrixLike | None = None,
        offset: PerRow | None = None,
        coverage: float = 0.9,
        exposure: PerRow | None = None,
    ) -> DataFrame:
        """The latent f of the points that follow the last one.

        Parameters
        ----------
        steps : int, default=1
        X : array-like of shape (steps, D), default=None
        offset : array-like of shape (steps,), default=None
        coverage : float, default=0.9
        exposure : array-like of shape (steps,), default=None
            As in `fit`.

        Returns
        -------
        DataFrame
            Columns mean, std, lower, upper on the continued index.

        Raises
        ------
        ValueError
            As `forecast`.
        """
        columns, shift, index = self._future(steps, X, offset, exposure, "forecast_latent")
        means, variances = zip(*map(self._ahead(columns, shift), self._series.views), strict=True)
        table = mixed_table(np.array(means), np.sqrt(variances), self._series.weights, coverage, index)
        return table.drop(columns="direction")

    def forecast(
        self,
        steps: int = 1,
        X: MatrixLike | None = None,
        offset: PerRow | None = None,
        coverage: float = 0.9,
        exposure: PerRow | None = None,
    ) -> DataFrame:
        """The observations that follow the last one; of a quantile (`AsymmetricLaplace`) itself.

        Parameters
        ----------
        steps : int, default=1
            How many.
        X : array-like of shape (steps, D), default=None
            Their columns.
        offset : array-like of shape (steps,), default=None
        coverage : float, default=0.9
            Of the equal-tailed interval (lower, upper) of each observation; binomial: of one further trial, whose mean
            is the proportion.
        exposure : array-like of shape (steps,), default=None
            As in `fit`.

        Returns
        -------
        DataFrame
            Columns mean, std, median, lower, upper on the continued index.

        Raises
        ------
        ValueError
            Columns that are missing, or as many rows as there are no steps.
        """
        columns, shift, index = self._future(steps, X, offset, exposure, "forecast")
        predictive = self._series.predictive(self._ahead(columns, shift))
        table = self._table(predictive, coverage, index)
        self._warn_of_tails(predictive)
        return table

    def _table(self, predictive: Predictive, coverage: float, index: Any) -> Any:
        """Mean, std, median and interval of observations."""
        import pandas as pd

        tail = tail_of(coverage)
        levels = np.array([tail, 0.5, 1.0 - tail])
        low, median, high = self._values(quantiles_of(self.likelihood_, predictive, levels)).T
        if self.likelihood_.traits.ordered:
            p, levels = predictive.probabilities(), np.asarray(self.levels_)
            if levels.dtype.kind not in NUMBERS:
                return pd.DataFrame({"median": median, "lower": low, "upper": high}, index=index)
            mean = p @ levels
            std = np.sqrt(np.maximum(p @ np.square(levels) - mean**2, 0.0))
        else:
            mean, std = self._means(predictive, True)
        return pd.DataFrame({"mean": mean, "std": std, "median": median, "lower": low, "upper": high}, index=index)

    def simulate(
        self,
        steps: int = 1,
        n_samples: int = 1,
        X: MatrixLike | None = None,
        offset: PerRow | None = None,
        random_state: RandomState = None,
        exposure: PerRow | None = None,
    ) -> DataFrame:
        """Draws of the observations that follow the last one, each a path with all that they have in common.

        Parameters
        ----------
        steps : int, default=1
        n_samples : int, default=1
        X : array-like of shape (steps, D), default=None
        offset : array-like of shape (steps,), default=None
        random_state : int, RandomState or None, default=None
        exposure : array-like of shape (steps,), default=None
            As in `fit`.

        Returns
        -------
        DataFrame of shape (steps, n_samples)
            On the continued index.

        Raises
        ------
        ValueError
            As `forecast`.
        """
        import pandas as pd

        columns, shift, index = self._future(steps, X, offset, exposure, "simulate")
        n_samples = check_count(n_samples, "n_samples", bytes_each=16.0 * len(columns))
        rng = np.random.default_rng(check_seed(random_state).randint(np.iinfo(np.int32).max))
        views, weights, paths = self._series.views, self._series.weights, []
        counts = [n_samples] if len(views) == 1 else rng.multinomial(n_samples, weights)
        for view, count in zip(views, counts, strict=True):
            f = ChainGaussian(view.after(columns)).prior_draws(int(count), rng) + shift
            paths.append(self._values(view.likelihood.sample(f, rng)))
        drawn = np.concatenate(paths)
        return pd.DataFrame((drawn if len(paths) == 1 else drawn[rng.permutation(n_samples)]).T, index=index)

    # ---- parts
    def _level_lines(self) -> list[tuple[str, str]]:
        """Line about a level that was chosen: its kind, and the log evidence of each that was tried."""
        tried = vars(self).get("level_evidence_")
        if not tried:
            return []
        evidence = "; ".join(f"{name} {value:,.1f}" for name, value in tried.items())
        return [("level", f"{self.level_}, by the log evidence ({evidence})")]

    def _parts(self) -> tuple[list[str], Array, Array]:
        """Names of the parts of f, their combinations (K, n) of states, and those (K, n) that columns are of."""
        dynamics, encoding = self._series.dynamics, self._encoding
        n = dynamics.n_states
        E = dynamics.n_coefficients
        h = np.concatenate([dynamics.h, np.zeros(E)])
        shift = np.concatenate([np.zeros(n - E), -encoding.centre / encoding.scale])
        seasons = [group for group in dynamics.groups if group.startswith("seasonal_")]
        names, parts, by = [], [], np.zeros((len(dynamics.groups), n), dtype=bool)
        for k, (group, states) in enumerate(dynamics.groups.items()):
            own = np.zeros(n)
            by[k, states] = group in ("regression", *dynamics.by_clock)
            own[states] = 1.0 if group == "trend" else h[states] * ~by[k, states]
            if group == "level":
                own += shift
            own = -shift if group == "regression" else own
            names.append("seasonal" if group in seasons and len(seasons) == 1 else group)
            parts.append(own)
        return names, np.array(parts), by

    def _combined(self, view: NodeView, parts: Array, by: Array) -> tuple[Array, Array]:
        """Mean and variance, (T, K), of `_parts` at a node."""
        block, first = view.block, self._series.dynamics.first_column
        if self._encoding.clock is None:
            return block.combined(parts, by.any(axis=1).astype(float))
        each = [
            block.combined(part[None], np.ones(1), block.chain.X * own[first:])
            for part, own in zip(parts, by, strict=True)
        ]
        return np.hstack([mean for mean, _ in each]), np.hstack([variance for _, variance in each])

    @property
    def components_(self) -> Any:
        """Level, trend (the slope), seasons, cycle and regression at every point, given all data: (name, mean or std).

        Their sum, but for the trend, which moves the level, and the offset, is f.
        """
        index = self._fitted_series("components_").stored_index("components_")
        names, parts, by = self._parts()
        mean, variance = self._series.mixture(lambda view: self._combined(view, parts, by))
        if "level" in names:
            mean[:, names.index("level")] += self.mean_
        return moments_table(names, mean, variance, index)

    @property
    def states_(self) -> Any:
        """Every state at every point, given all data: (name, mean or std); columns of X are centred and scaled."""
        index = self._fitted_series("states_").stored_index("states_")
        names = self._series.dynamics.names
        mean, variance = self._series.mixture(lambda view: view.block.combined(np.eye(len(names))))
        return moments_table(names, mean, variance, index)

    def summary(self, coverage: float = 0.9, exponentiate: bool = False) -> DataFrame:
        """Learned numbers, the parts of f at the last point, coefficients, and the likelihood's learned parameters.

        Parameters
        ----------
        coverage : float, default=0.9
            Of the equal-tailed interval (lower, upper).
        exponentiate : bool, default=False
            Whether to add ``exp(mean)``, ``exp(lower)`` and ``exp(upper)`` of parts and coefficients: odds ratios of a
            logit link, rate ratios of a log link.

        Returns
        -------
        DataFrame
            Columns mean, std, lower, upper, direction (the posterior probability of the mean's sign, of parts and
            coefficients). Variances, dampings, periods, ``noise`` and what the likelihood calls by its own names in
            the last rows are those of ``hyperparameter_posterior_``; given numbers, and all of them with
            ``hyperparameters="point"``, have NaN in the place of a spread.

        Raises
        ------
        ValueError
            exponentiate=True with a link that is neither log nor logit.
        """
        import pandas as pd

        check_is_fitted(self)
        tail_of(coverage)
        (names, parts, by), fit = self._parts(), self._series
        last = fit.rows_at(np.zeros((1, fit.dynamics.n_coefficients)), len(fit.series) - 1 + np.zeros(1, int))
        parts[:, fit.dynamics.first_column :] += by[:, fit.dynamics.first_column :] * last
        shown = [(name, part) for name, part in zip(names, parts, strict=True) if name != "regression"]
        columns = [str(name) for name in getattr(self, "feature_names_in_", range(self.n_features_in_))]
        index = [name for name, _ in shown] + [f"coefficient {name}" for name in columns]
        means, stds = zip(*(self._last_parts(view, shown) for view in self._series.views), strict=True)
        effects = mixed_table(np.array(means), np.array(stds), self._series.weights, coverage, pd.Index(index))
        if check_flag(exponentiate, "exponentiate"):
            effects = exponentiated(effects, self.likelihood_, type(self).__name__)
        first = self._learned_numbers(coverage).reindex(columns=list(effects)).rename_axis("quantity")
        return concatenated([first, effects, self._learned_by_likelihood(coverage)])

    def _last_parts(self, view: NodeView, shown: list[tuple[str, Array]]) -> tuple[Array, Array]:
        """Mean and std at the last point of the parts of f and of the coefficients for columns as given, at a node."""
        E = self._series.dynamics.n_coefficients
        combined = np.array([part for _, part in shown]).reshape(len(shown), len(view.last))
        units = np.eye(len(view.last))[len(view.last) - E :] / self._encoding.scale[:, None]
        whole = np.concatenate([combined, units])
        centre = np.array([self.mean_ if name == "level" else 0.0 for name, _ in shown] + [0.0] * E)
        variance = np.einsum("rn,nm,rm->r", whole, view.last_cov, whole)
        return whole @ view.last + centre, np.sqrt(np.maximum(variance, 0.0))

    def _learned_numbers(self, coverage: float) -> DataFrame:
        """Rows of variances, dampings, periods and noise: over the nodes, or the points that they are."""
        fit, points = self._series, [(self.state_.shown["dynamics"].value, self.likelihood_)]
        points = list(map(fit.at_node, fit.nodes.values)) if fit.nodes is not None else points
        values = [numbers_of(fit.dynamics, theta, self._encoding.scale, likelihood) for theta, likelihood in points]
        columns = {name: np.array([one[name] for one in values]) for name in values[0]}
        return node_rows(columns, fit.weights, coverage)

    def _learned_by_likelihood(self, coverage: float) -> DataFrame:
        """Rows of the likelihood's parameters as it calls them; of cut points those of the mode."""
        learned = learned_rows(self.likelihood_, self.state_.q.get("likelihood"), coverage)
        if self._series.nodes is None or self.likelihood_.traits.ordered or not len(learned):
            return learned
        columns = self._series.hyperparameter_columns(self._series.nodes.values)
        own = {name: columns[name] for name in learned.index if name in columns}
        return node_rows(own, self._series.weights, coverage)


def numbers_of(dynamics: Any, theta: Array, scale: Array, likelihood: Any) -> dict[str, float]:
    """Variances, dampings, periods and noise under the names of `summary`."""
    found: dict[str, float] = {}
    for name, value in parameters_of(dynamics, theta, scale).items():
        if name != "coefficient_variance":
            for k, number in enumerate(np.atleast_1d(value)):
                found[name if k == 0 else f"{name}[{k}]"] = float(number)
    return found if likelihood.scales.noise is None else found | {"noise": float(likelihood.scales.noise)}


def parameters_of(dynamics: Any, theta: Array, scale: Array) -> dict[str, Any]:
    """Variances, dampings and periods under the user's names, without their last underscore."""
    found: dict[str, Any] = {}
    variances = {group: dynamics.amounts[states[0]].at(theta) for group, states in dynamics.groups.items()}
    if "level" in dynamics.groups:  # of a damped one the mean comes first, which does not move
        found["level_variance"] = dynamics.amounts[dynamics.groups["level"][-1]].at(theta)
    if "trend" in dynamics.groups:
        found["trend_variance"] = variances["trend"]
    seasons = [variances[group] for group in dynamics.groups if group.startswith("seasonal_")]
    if seasons:
        found["seasonal_variance"] = seasons[0] if len(seasons) == 1 else np.array(seasons)
    turning = [part for part in dynamics.damped if len(part.states) > 1]
    for part in turning:
        found["cycle_variance"] = part.amount.at(theta)
    if dynamics.n_coefficients:
        amounts = [dynamics.amounts[state].at(theta) for state in dynamics.groups["regression"]]
        found["coefficient_variance"] = np.array(amounts) / np.square(scale)
    for part in dynamics.damped:
        if len(part.states) == 1:
            found["damping"] = part.damping.at(theta)
    for part in turning:
        found["cycle_damping"] = part.damping.at(theta)
        found["cycle_period"] = float(2.0 * np.pi / part.angle(theta))
    return found
