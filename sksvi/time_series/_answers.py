"""What a fitted series says: smoothed and ahead, of y, of f and of its parts."""

from __future__ import annotations

from typing import Any, Literal, overload

import numpy as np
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from sksvi._machine.kinds import NUMBERS
from sksvi._machine.warned import warn_user
from sksvi._typing import DataFrame, MatrixLike, PerRow, RandomState
from sksvi.estimators.checks import check_count, check_flag, check_seed, interval_table
from sksvi.estimators.offsets import checked_offset, with_exposure
from sksvi.estimators.regression import is_ordered
from sksvi.estimators.summaries import effect_table, exponentiated, joined, learned_rows
from sksvi.estimators.validation import validate_data
from sksvi.families.gaussian.chain import Chain, ChainGaussian
from sksvi.inference.records import replace
from sksvi.predictive import Predictive
from sksvi.predictive.coverage import tail_of
from sksvi.time_series._index import continued, counts_rows, own_index, paired_index, positions, without_times
from sksvi.time_series._rowless import Rowless

Array = np.ndarray

#: Variance of a log rate from which on its mean, exp(variance / 2) times the median, says little.
TAIL = 4.0


def after(chain: Chain, last: Array, last_cov: Array, X: Array) -> Chain:
    """The chain of points after those of a chain whose last states have this mean and covariance."""
    if chain.is_level:
        return replace(chain, X=X, mean=last, cov=last_cov + chain.noise)
    A = chain.transition()
    cov = A @ last_cov @ A.T + np.diag(chain.noise)
    return replace(chain, X=X, mean=A @ last, cov=0.5 * (cov + cov.T))


class Answers(Rowless):
    """Predictions, forecasts and components of a `DynamicGLM`."""

    likelihood_: Any
    posterior_: Any
    index_: Any
    mean_: float
    n_features_in_: int
    _centre: Array
    _scale: Array
    _series: Any
    _last: Array
    _last_cov: Array
    _dynamics: Any
    _values: Any

    # ---- the chain
    @property
    def _block(self) -> ChainGaussian:
        block: ChainGaussian = self.posterior_["latents"]
        return block

    def _share(self) -> Array:
        """What f takes of the states, but for coefficients, (1, n)."""
        chain = self._block.chain
        return np.concatenate([chain.h, np.zeros(chain.X.shape[1])])[None]

    def _after(self, X: Array) -> Chain:
        """The chain of points after the last one; rows of X in units of their own."""
        return after(self._block.chain, self._last, self._last_cov, X)

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
        X = validate_data(self, X, reset=False, dtype=[np.float64, np.float32])
        return np.ascontiguousarray((np.asarray(X, dtype=float) - self._centre) / self._scale), index

    def _places(self, index: Any, columns: Array, y: Array | None = None) -> Array:
        """Which point in time each row is; those that do not say are the first fitted ones where equal, else follow."""
        n, T = len(columns), len(self._series)
        if not without_times(self.index_, index):
            at = positions(self.index_, index) - self._left_out
            self._check_places(at, index)
            if counts_rows(index) and self._others_at(at, columns, y):
                warn_user(
                    f"rows whose index only counts them, 0 to {n - 1}, are fitted points by it, and hold other values "
                    "than these did: where they follow the fit, give them their own index, or ask forecast."
                )
            return at
        self._check_places(None, None)
        same = n <= T and np.array_equal(columns, self._series.X[:n])
        if same and not columns.shape[1]:
            same = y is not None and np.array_equal(y, self._observations()[:n], equal_nan=True)
        if not same and not counts_rows(self.index_):
            warn_user(
                f"rows without times were taken as the {n} that follow {self.index_[-1]!r}, the last fitted point: "
                "give them an index. A step of a Pipeline keeps it under "
                'sklearn.set_config(transform_output="pandas").'
            )
        return np.arange(n) + (0 if same else T)

    def _others_at(self, at: Array, columns: Array, y: Array | None) -> bool:
        """Whether rows of fitted points hold other columns than these; without columns, another y."""
        past = at < len(self._series)
        if columns.shape[1]:
            return not np.array_equal(columns[past], self._series.X[at[past]])
        return y is not None and not np.array_equal(y[past], self._observations()[at[past]], equal_nan=True)

    def _of_rows(self, X: Any, y: Any) -> Any:
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
        timeless, held = without_times(self.index_, index), self.index_[self._left_out :]
        if not (timeless and self._left_out) and (n == len(held) if timeless else index.equals(held)):
            return None
        if self.n_features_in_:
            self._new_columns(None, n, "score")
        return np.zeros((n, 0)) if timeless else pd.DataFrame(index=index)

    def _observations(self) -> Array:
        """y of the fit, NaN where it is missing."""
        y, weight = self._series.y, self._series.weight
        if weight is None:
            return y
        return np.where((weight > 0).reshape(-1, *[1] * (y.ndim - 1)), y, np.nan)

    # ---- latents
    def _latent(self, X: Any, offset: Any) -> tuple[Array, Array]:
        """Mean and variance of f + offset: of fitted points given all data, of later ones ahead."""
        check_is_fitted(self)
        block = self._block
        if X is None and not (offset is not None and np.size(offset) != len(block.chain)):
            index = self._held_index("predict without X")
            mean, variance = block.mean, block.variance
            if offset is None:
                given = self._series.offset
                return (mean if given is None else mean + given), variance
            return mean + self.mean_ + checked_offset(self, offset, index), variance
        columns, index = self._new_columns(X, None if offset is None else np.size(offset), "predict")
        n = len(columns)
        offset = checked_offset(self, offset, columns if X is None else X)
        at = self._places(index, columns)
        mean, variance = np.empty(n), np.empty(n)
        past = at < len(block.chain)
        if np.any(past):
            mean[past], variance[past] = self._of(block, columns[past], at[past], True)
        if not np.all(past):
            later = at[~past] - len(block.chain)
            chain = self._after(np.zeros((int(later.max()) + 1, columns.shape[1])))
            mean[~past], variance[~past] = self._of(ChainGaussian(chain), columns[~past], later, False)
        mean += self.mean_
        return (mean if offset is None else mean + offset), variance

    def _of(self, block: ChainGaussian, columns: Array, at: Array, back: bool) -> tuple[Array, Array]:
        """Mean and variance of f at some points of a chain with these columns there."""
        if len(np.unique(at)) < len(at):
            parts = [self._of(block, columns[i : i + 1], at[i : i + 1], back) for i in range(len(at))]
            return np.concatenate([m for m, _ in parts]), np.concatenate([v for _, v in parts])
        seen = np.zeros((len(block.chain), columns.shape[1]))
        seen[at] = columns
        mean, variance = block.combined(self._share(), np.ones(1), seen, back)
        return mean[at, 0], variance[at, 0]

    def _predictive(self, X: Any, offset: Any) -> Predictive:
        m, v = self._latent(X, offset)
        dtype = np.dtype(getattr(self, "_dtype", "float64"))
        return Predictive(self.likelihood_, m.astype(dtype, copy=False), v.astype(dtype, copy=False))

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
        if X is not None:
            self._tell_of_tails(predictive)
        return self._means(predictive, return_std)  # type: ignore[attr-defined]

    def _tell_of_tails(self, predictive: Predictive) -> None:
        """A warning where means behind exp are ruled by what hardly ever happens."""
        if self.likelihood_.variance_function is not None and np.any(predictive.latent_variance > TAIL):
            warn_user(
                f"the logarithm of the rate has a standard deviation above {np.sqrt(TAIL):g} at some of these points, "
                "so that means there are more than seven times the median and ruled by a tail that hardly ever "
                "happens: look at the median and the interval. autoregressive=True, or smaller variances "
                "(level_variance, seasonal_variance, initial_variance), bound the spread."
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
        return super().predict_proba(X, offset)  # type: ignore[misc]

    # ---- ahead
    def _future(self, steps: Any, X: Any, offset: Any, exposure: Any, what: str) -> tuple[Chain, Array, Any]:
        """Chain, offset and index of the points that follow the last one."""
        import pandas as pd

        check_is_fitted(self)
        if steps is None and X is not None:
            steps = len(X)
        steps = check_count(steps, "steps", bytes_each=8.0 * (len(self._block.chain.noise) + 8))
        columns, given = self._new_columns(X, steps, what)
        if len(columns) != steps:
            raise ValueError(f"steps={steps} and X has {len(columns)} rows: {what} needs one for every step.")
        index = continued(self.index_, steps)
        if given is not None and not given.equals(pd.RangeIndex(steps)):
            at = positions(self.index_, given) - len(self.index_)
            if not np.array_equal(at, np.arange(steps)):
                raise ValueError(
                    f"X begins at {given[0]!r}, and {what} at {index[0]!r}: give the rows that follow the fit."
                )
        offset = with_exposure(self, offset, exposure, X, forecast=index)
        offset = checked_offset(self, offset, X, forecast=index)
        offset = np.full(steps, self.mean_) if offset is None else offset + self.mean_
        return self._after(columns), offset, index

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
        chain, shift, index = self._future(steps, X, offset, exposure, "forecast_latent")
        prior = ChainGaussian(chain)
        return interval_table(prior.mean + shift, prior.std, coverage, index)

    def forecast(
        self,
        steps: int = 1,
        X: MatrixLike | None = None,
        offset: PerRow | None = None,
        coverage: float = 0.9,
        exposure: PerRow | None = None,
    ) -> DataFrame:
        """The observations that follow the last one.

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
        chain, shift, index = self._future(steps, X, offset, exposure, "forecast")
        prior = ChainGaussian(chain)
        predictive = Predictive(self.likelihood_, prior.mean + shift, prior.variance)
        table = self._table(predictive, coverage, index)
        self._tell_of_tails(predictive)
        return table

    def _table(self, predictive: Predictive, coverage: float, index: Any) -> Any:
        """Mean, std, median and interval of observations."""
        import pandas as pd

        tail = tail_of(coverage)
        low, median, high = self._values(predictive.quantile(np.array([tail, 0.5, 1.0 - tail]))).T
        if self.likelihood_.ordered:
            p, levels = predictive.probabilities(), np.asarray(self.levels_)  # type: ignore[attr-defined]
            if levels.dtype.kind not in NUMBERS:
                return pd.DataFrame({"median": median, "lower": low, "upper": high}, index=index)
            mean = p @ levels
            std = np.sqrt(np.maximum(p @ np.square(levels) - mean**2, 0.0))
        else:
            mean, std = predictive.mean(), predictive.std()
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

        chain, shift, index = self._future(steps, X, offset, exposure, "simulate")
        n_samples = check_count(n_samples, "n_samples", bytes_each=16.0 * len(chain))
        rng = np.random.default_rng(check_seed(random_state).randint(np.iinfo(np.int32).max))
        f = ChainGaussian(chain).prior_draws(n_samples, rng) + shift
        return pd.DataFrame(self._values(self.likelihood_.sample(f, rng)).T, index=index)

    # ---- parts
    def _parts(self) -> tuple[list[str], Array, Array]:
        """Names of the parts of f, their combinations of states, and their shares of the columns."""
        dynamics, n = self._dynamics, self._dynamics.n_states
        E = dynamics.n_coefficients
        h = np.concatenate([dynamics.h, np.zeros(E)])
        shift = np.concatenate([np.zeros(n - E), -self._centre / self._scale])
        seasons = [group for group in dynamics.groups if group.startswith("seasonal_")]
        names, parts, by = [], [], []
        for group, states in dynamics.groups.items():
            own = np.zeros(n)
            own[states] = 1.0 if group == "trend" else h[states]
            if group == "level":
                own += shift
            if group == "regression":
                own = -shift
            names.append("seasonal" if group in seasons and len(seasons) == 1 else group)
            parts.append(own)
            by.append(float(group == "regression"))
        return names, np.array(parts), np.array(by)

    @property
    def components_(self) -> Any:
        """Level, trend (the slope), seasons, cycle and regression at every point, given all data: (name, mean or std).

        Their sum, but for the trend, which moves the level, and the offset, is f.
        """
        import pandas as pd

        if not hasattr(self, "posterior_"):
            raise AttributeError("components_ is there after fit")
        index = self._held_index("components_")
        names, parts, by = self._parts()
        mean, variance = self._block.combined(parts, by)
        if "level" in names:
            mean[:, names.index("level")] += self.mean_
        table = {}
        for k, name in enumerate(names):
            table[name, "mean"], table[name, "std"] = mean[:, k], np.sqrt(variance[:, k])
        return pd.DataFrame(table, index=index)

    @property
    def states_(self) -> Any:
        """Every state at every point, given all data: (name, mean or std); columns of X are centred and scaled."""
        import pandas as pd

        if not hasattr(self, "posterior_"):
            raise AttributeError("states_ is there after fit")
        index = self._held_index("states_")
        names = self._dynamics.names
        mean, variance = self._block.combined(np.eye(len(names)))
        table = {}
        for k, name in enumerate(names):
            table[name, "mean"], table[name, "std"] = mean[:, k], np.sqrt(variance[:, k])
        return pd.DataFrame(table, index=index)

    def summary(self, coverage: float = 0.9, exponentiate: bool = False) -> DataFrame:
        """What was learned, the parts of f at the last point, coefficients, and the likelihood's learned parameters.

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
            the last rows are point estimates, whose uncertainty is not known: their std, lower and upper are NaN.

        Raises
        ------
        ValueError
            exponentiate=True with a link that is neither log nor logit.
        """
        import pandas as pd

        check_is_fitted(self)
        tail_of(coverage)
        points: dict[str, float] = {}
        for name in ("level_variance", "trend_variance", "seasonal_variance", "cycle_variance"):
            for k, value in enumerate(np.atleast_1d(getattr(self, f"{name}_", ()))):
                points[name if k == 0 else f"{name}[{k}]"] = float(value)
        for name in ("damping", "cycle_damping", "cycle_period", "noise"):
            value = getattr(self, f"{name}_", None)
            if value is not None:
                points[name] = float(value)
        rows: dict[str, tuple[float, float]] = {}
        names, parts, by = self._parts()
        for name, part, use in zip(names, parts, by, strict=True):
            if use:
                continue
            centre = self.mean_ if name == "level" else 0.0
            rows[name] = float(part @ self._last) + centre, float(np.sqrt(max(part @ self._last_cov @ part, 0.0)))
        columns = [str(name) for name in getattr(self, "feature_names_in_", range(self.n_features_in_))]
        for name, mean, std in zip(columns, self.coef_, self.coef_std_, strict=True):  # type: ignore[attr-defined]
            rows[f"coefficient {name}"] = float(mean), float(std)
        table = np.array(list(rows.values())).reshape(-1, 2)
        effects = effect_table(table[:, 0], table[:, 1], coverage, pd.Index(list(rows)))
        if check_flag(exponentiate, "exponentiate"):
            effects = exponentiated(effects, self.likelihood_, type(self).__name__)
        first = pd.DataFrame({"mean": points}, columns=list(effects), dtype=float).rename_axis("quantity")
        learned = learned_rows(self.likelihood_, self.state_.q.get("likelihood"), coverage)  # type: ignore[attr-defined]
        return joined([first, effects, learned])
