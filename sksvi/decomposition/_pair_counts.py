"""Predictions of factors of counts for pairs of ids: folded-in users, expected counts, items to recommend."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal, cast, overload

import numpy as np
import scipy.sparse as sp
from scipy.special import gammaincinv
from sklearn.base import TransformerMixin
from sklearn.utils.validation import check_is_fitted

from sksvi._runtime import parallel
from sksvi._typing.arrays import ArrayLike, DataFrame, MatrixLike, PerRow, RandomState
from sksvi.decomposition._folded import FoldedCounts
from sksvi.decomposition._gamma_counts import CELLS
from sksvi.decomposition._gamma_fit import PoissonFit
from sksvi.decomposition._ids import positions
from sksvi.decomposition._joint_draws import about, cell_variance
from sksvi.decomposition._pair_count_encoding import CountRecord, EventRows, PairCountEncoding, checked_counts, items_of
from sksvi.decomposition._pairs import QUANTILES, FoldedIds, FoldedPairs, PairMethods, Request, Scored
from sksvi.estimators.checks import check_count, check_flag, check_levels, check_row_values, check_seed, n_rows
from sksvi.estimators.draws import NodeDraws, PosteriorDraws, Variable
from sksvi.families import Gamma, Point
from sksvi.likelihoods import Poisson
from sksvi.models.factorization.columns import SIDES
from sksvi.models.nmf import density
from sksvi.models.nmf.cells import CountMatrix, cells
from sksvi.models.nmf.overdispersed import OverdispersedPoisson, jump
from sksvi.models.nmf.side_information import Columns
from sksvi.predictive.plain import tail_of

Array = np.ndarray


class PairCounts(TransformerMixin, PairMethods, PoissonFit):
    """Methods of a fitted factorization of counts of pairs."""

    _at_hand: tuple[str, ...] = ("fold_in", "score", "summary_text")
    _encoding: PairCountEncoding
    _stores_rows = True
    #: The counts of the last fit, and how far a stream has come since.
    _counted: CountRecord = CountRecord()

    @property
    def _k(self) -> int:
        return self.n_components_

    @property
    def _dispersion(self) -> float:
        """Variance of a count over its mean; of files that do not say, 1."""
        return float(getattr(self, "dispersion_", 1.0))

    @property
    def _unit(self) -> float:
        """Mean count of an event, of which the model's components are the expected number."""
        return jump(float(np.log(self._dispersion))) if self._dispersion > 1.0 else 1.0

    @property
    def _row_blocks(self) -> dict[str, Any]:
        blocks = super()._row_blocks
        if self._dispersion == 1.0:
            return blocks
        own = blocks["components"]
        events = Gamma(own.shape, own.rate * self._unit)
        return {**blocks, "components": events, "dispersion": Point(np.log([np.log(self._dispersion)]))}

    @property
    def _chain_blocks(self) -> dict[str, Any]:
        return {**super()._chain_blocks, "component_rate": Point(np.log([self.component_rate_ * self._unit]))}

    def _moments_at(self, bases: Array, found: CountMatrix, start: Array) -> tuple[Array, Array]:
        if self._dispersion > 1.0:
            model = cast(OverdispersedPoisson, self._chain_model(found.shape[1]))
            c = found.counts
            events = sp.csr_matrix((model.events(self._row_blocks, c, start), c.indices, c.indptr), shape=c.shape)
            bases, found = bases / np.float32(self._unit), replace(found, counts=events)
        return super()._moments_at(bases, found, start)

    @property
    def _fitted_cells(self) -> CountMatrix:
        """The counts of the fit."""
        assert self.seen_ is not None
        starts, items = self.seen_
        counts = sp.csr_matrix((self._counted.counts, items, starts), shape=(len(self.users_), len(self.items_)))
        return self._with_columns(CountMatrix(counts), self.users_)

    def _with_columns(self, found: CountMatrix, users: Array) -> CountMatrix:
        """Counts with the features of their users, if there are any."""
        features = self._features_of("users")
        return found if features is None else replace(found, columns=features.of(users))

    # ---- plates of ids
    def _prior(self, side: str, ids: Any) -> Gamma:
        """The prior of the factors of some users or items, given their features, (n, K)."""
        name = "activation" if side == "users" else "component"
        shape, rate = getattr(self, f"{name}_shape"), getattr(self, f"{name}_rate_")
        features, n = self._features_of(side), (len(ids), self._k)
        tilts = 1.0 if features is None else Columns(features.of(ids)).tilts(self.posterior_[f"{name}_coefficients"])
        return Gamma(np.full(n, float(shape)), np.broadcast_to(rate * tilts, n))

    def _rows(self, side: str, column: Any, folded: Any = None) -> Gamma:
        """The factors of each id of a column: their posterior, or the prior where the fit did not see it."""
        if side == "users" and folded is not None:
            return folded._rows(column)
        where, q = positions(self._ids(side), column), self._factors_of(side)
        new, prior = (where < 0)[:, None], self._prior(side, column)
        both = zip((prior.shape, prior.rate), (q.shape, q.rate), strict=True)
        return Gamma(*(np.where(new, own, posterior[np.maximum(where, 0)]) for own, posterior in both))

    def _posterior_draws(self, n: int, rng: Any) -> PosteriorDraws:
        sides = self._drawn_sides({side: self._factors_of(side) for side in SIDES}, n, rng)
        components = {"component": self.get_feature_names_out()}
        found = {side: Variable(sides[side], {side[:-1]: self._ids(side)} | components) for side in SIDES}

        def latents(X: Any, offset: Any) -> tuple[Array, Array]:
            if self._dispersion > 1.0:
                raise ValueError(
                    f"counts of this {type(self).__name__} are overdispersed, which the draws of rows do not know: ask "
                    "for draws without rows, or for sample_y."
                )
            of_user, of_item = self._places_of(X)
            rates = np.einsum("snk,snk->ns", sides["users"][:, of_user], sides["items"][:, of_item])
            return np.log(np.maximum(rates, np.finfo(float).tiny)), np.zeros(len(rates))

        return PosteriorDraws(n, found, [NodeDraws(np.arange(n), Poisson(), latents)])

    def _factors_of(self, side: str) -> Gamma:
        if not hasattr(self, "posterior_"):
            raise AttributeError(f"{type(self).__name__} has no {side} to show: it is not fitted.")
        if side == "users":
            return self.posterior_["users"]
        q = self.posterior_["components"]
        return Gamma(q.shape.T, q.rate.T)

    def _predictive(self, X: Any) -> density.CountPredictive:
        columns, folded = self._requested_pairs(X)
        n, K = len(columns[0]), len(self.components_)
        parts = []
        for rows in parallel.slices(n, max(1, CELLS // K)):
            users, items = (column.iloc[rows] for column in columns)
            mean, spread = density.moments_of_pairs(self._rows("users", users, folded), self._rows("items", items))
            own, of_user = self._user_draws(users, folded)
            if own is not None and self.draws_ is not None:
                of_item = positions(self.items_, items)
                both = np.flatnonzero((of_user >= 0) & (of_item >= 0))
                spread[both] = self.draws_.pair_variance(own, of_user[both], of_item[both], mean[both], K)
            parts.append((mean, spread))
        mean, spread = (np.concatenate(part) for part in zip(*parts, strict=True))
        return density.CountPredictive(mean, spread + (self._dispersion - 1.0) * mean)

    @property
    def _moments_by_side(self) -> dict[str, tuple[Array, Array]]:
        sides = {side: self._factors_of(side) for side in SIDES}
        return {side: (q.mean, q.variance) for side, q in sides.items()}

    def _spread_of(self, side: str) -> Array:
        variance = super()._spread_of(side)
        return variance if self.draws_ is None else about(self.draws_.of(side), self._factors_of(side).mean)

    # ---- users
    @overload
    def transform(self, X: MatrixLike | FoldedIds, return_std: Literal[False] = ...) -> np.ndarray: ...

    @overload
    def transform(self, X: MatrixLike | FoldedIds, return_std: Literal[True]) -> tuple[np.ndarray, np.ndarray]: ...

    @overload
    def transform(
        self, X: MatrixLike | FoldedIds, return_std: bool = ...
    ) -> np.ndarray | tuple[np.ndarray, np.ndarray]: ...

    def transform(
        self, X: MatrixLike | FoldedIds, return_std: bool = False
    ) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        """Posterior mean factors of each row's user; the prior's for a user not seen.

        Parameters
        ----------
        X : {DataFrame, array-like} of shape (n, 2), FoldedCounts or FoldedPairs
            What `fold_in` returned has one row per user.
        return_std : bool, default=False
            Whether to return posterior standard deviations too.

        Returns
        -------
        factors : ndarray of shape (n, K)
        std : ndarray of shape (n, K)
            Only if ``return_std``.
        """
        check_is_fitted(self)
        return_std, q = check_flag(return_std, "return_std"), self._users_of(X)
        if not return_std:
            return q.mean
        if isinstance(X, FoldedIds):
            return X.mean, X.std
        (users, _), folded = self._requested_pairs(X, ())
        std, (own, where) = q.std, self._user_draws(users, folded)
        if own is not None:
            there = where >= 0
            std[there] = np.sqrt(about(own[where[there]], q.mean[there]))
        return q.mean, std

    def fold_in(self, X: MatrixLike, y: PerRow | None = None, sample_weight: PerRow | None = None) -> FoldedCounts:
        """Posterior of the users of some pairs, given the items as they are; the estimator stays as it is.

        Parameters
        ----------
        X : {DataFrame, array-like} of shape (n, 2)
            Pairs of user and item. A user that the fit knows keeps what the fit counted, and these are added. An item
            that the fit does not know, or a missing one, says nothing and is left out; `on_unseen` says what is said.
        y : array-like of shape (n,), default=None
            Counts; None: every pair counts once.
        sample_weight : array-like of shape (n,), default=None

        Returns
        -------
        FoldedCounts
            Of one user or many: `recommend`, `transform`, `predict`, `predict_interval` and every other method that
            predicts pairs take it.

        Raises
        ------
        ValueError, TypeError
            A missing user id; otherwise as `fit`.
        """
        import pandas as pd

        rows = EventRows.of(self._to_fold(X), y, sample_weight)
        users, items = rows.ids
        self._check_known("items", items, f"items in column {items.name!r} of X")
        ids = pd.unique(users.astype(object))
        names = np.empty(len(ids), object)
        names[:] = list(ids)
        new, old = rows.cells(names, self.items_).counts, positions(self.users_, pd.Series(names, dtype=object))
        again = np.flatnonzero(old >= 0)
        if len(again) and self.seen_ is None:
            raise ValueError(
                f"{names[again[0]]!r} is a user of the fit, which keeps what it counted, and this one is of a file "
                "that was saved with training_rows=False: fold in users that are new, or save with training rows."
            )
        same = sp.csr_matrix((np.ones(len(again)), (again, old[again])), shape=(len(names), len(self.users_)))
        table = sp.csr_matrix(new + same @ self._fitted_cells.counts if len(again) else new)
        table.sort_indices()  # as those of a fit are: sums of a row in one order
        found = self._with_columns(cells(table), names)
        q = Gamma(*self._activations(found))
        draws = None
        if self.draws_ is not None:
            mean, variance = self._moments_at(self.draws_.items, found, q.mean)
            rate = mean / variance
            draws = np.random.default_rng(0).standard_gamma(rate * mean, dtype=np.float32) / rate
        return FoldedCounts(names, q, items_of(found), self._mark, draws)

    # ---- pairs
    @overload
    def predict(self, X: MatrixLike | FoldedIds | FoldedPairs, return_std: Literal[False] = ...) -> np.ndarray: ...

    @overload
    def predict(
        self, X: MatrixLike | FoldedIds | FoldedPairs, return_std: Literal[True]
    ) -> tuple[np.ndarray, np.ndarray]: ...

    @overload
    def predict(
        self, X: MatrixLike | FoldedIds | FoldedPairs, return_std: bool = ...
    ) -> np.ndarray | tuple[np.ndarray, np.ndarray]: ...

    def predict(
        self, X: MatrixLike | FoldedIds | FoldedPairs, return_std: bool = False
    ) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        """Expected count of each pair.

        Parameters
        ----------
        X : {DataFrame, array-like} of shape (n, 2), FoldedCounts or FoldedPairs
        return_std : bool, default=False
            Whether to return the predictive standard deviation of the count too, Poisson noise included.

        Returns
        -------
        mean : ndarray of shape (n,)
        std : ndarray of shape (n,)
            Only if ``return_std``.
        """
        return_std, predictive = check_flag(return_std, "return_std"), self._predictive(X)
        return (predictive.mean(), predictive.std()) if return_std else predictive.mean()

    def predict_quantiles(self, X: MatrixLike | FoldedIds | FoldedPairs, q: ArrayLike) -> Array:
        """Quantiles of the predictive distribution of each pair's count.

        Parameters
        ----------
        X : {DataFrame, array-like} of shape (n, 2), FoldedCounts or FoldedPairs
        q : array-like of shape (m,)
            In (0, 1).

        Returns
        -------
        ndarray of shape (n, m)
        """
        q = check_levels(q)
        return self._predictive(X).quantile(q)

    def predict_interval(self, X: MatrixLike | FoldedIds | FoldedPairs, coverage: float = 0.9) -> Array:
        """Equal-tailed predictive interval of each pair's count.

        Parameters
        ----------
        X : {DataFrame, array-like} of shape (n, 2), FoldedCounts or FoldedPairs
        coverage : float, default=0.9
            In (0, 1).

        Returns
        -------
        ndarray of shape (n, 2)
        """
        tail = tail_of(coverage)
        return self.predict_quantiles(X, [tail, 1.0 - tail])

    def sample_y(
        self, X: MatrixLike | FoldedIds | FoldedPairs, n_samples: int = 1, random_state: RandomState = None
    ) -> Array:
        """Draws of each pair's count from its predictive distribution, pairs independent.

        Parameters
        ----------
        X : {DataFrame, array-like} of shape (n, 2), FoldedCounts or FoldedPairs
        n_samples : int, default=1
        random_state : int, RandomState or None, default=None

        Returns
        -------
        ndarray of shape (n, n_samples)
        """
        seed = check_seed(random_state).randint(np.iinfo(np.int32).max)
        n_samples = check_count(n_samples, "n_samples, the number of samples,", bytes_each=8.0 * n_rows(X))
        return self._predictive(X).sample(n_samples, np.random.default_rng(seed))

    def log_predictive_density(self, X: MatrixLike | FoldedPairs, y: PerRow | None = None) -> Array:
        """Log probability of each pair's count, integrated over the posterior, pair by pair.

        The Poisson's mean has the posterior's first two moments as those of a gamma distribution, so that the count is
        negative binomial; overdispersion adds ``dispersion_`` - 1 times the mean to the second.

        Parameters
        ----------
        X : {DataFrame, array-like} of shape (n, 2) or FoldedPairs
        y : array-like of shape (n,), default=None
            Counts; None: every pair counts once.

        Returns
        -------
        ndarray of shape (n,)
            Nats.
        """
        predictive = self._predictive(X)
        return predictive.log_prob(checked_counts(y, len(predictive.rate)))

    def score(self, X: MatrixLike | FoldedPairs, y: PerRow | None = None, sample_weight: PerRow | None = None) -> float:
        """Mean log probability of the pairs' counts, nats per pair.

        Pairs that were held out and pairs that nobody counted (y = 0) say together how good a model is: of pairs with
        counts alone the score is larger the more a model expects of everything.

        Parameters
        ----------
        X : {DataFrame, array-like} of shape (n, 2) or FoldedPairs
        y : array-like of shape (n,), default=None
            Counts; None: every pair counts once.
        sample_weight : array-like of shape (n,), default=None

        Returns
        -------
        float
        """
        density = self.log_predictive_density(X, y)
        weight = check_row_values(sample_weight, len(density), "sample_weight", weights=True)
        return float(np.average(density, weights=weight))

    # ---- what to show next
    def recommend(
        self,
        users: ArrayLike | FoldedIds,
        n: int = 10,
        exclude_seen: bool = True,
        strategy: str = "mean",
        random_state: RandomState = None,
        *,
        items: ArrayLike | None = None,
        exclude: ArrayLike | None = None,
    ) -> DataFrame:
        """The items with the largest expected counts for some users.

        Parameters
        ----------
        users : array-like of shape (m,) or FoldedCounts
            Ids, of which one that the fit did not see gets what the prior says (`on_unseen` may object); or what
            `fold_in` returned. Of a Dask Series or array the answer is a lazy frame, a partition for each of its own.
        n : int, default=10
            Items per user, fewer where fewer are left.
        exclude_seen : bool, default=True
            Whether to leave out the items that a user has counts of.
        strategy : {"mean", "lower", "ucb", "thompson"}, default="mean"
            Rank by the expected count; by its 5 % or its 95 % quantile, the lower and the upper end of its 90 %
            interval, as if it were Gamma distributed; or by that at one draw of users and items from the posterior.
        random_state : int, RandomState or None, default=None
            Of the draw.
        items : array-like of shape (c,), default=None
            Ids of the items that may be recommended; None: all of the fit.
        exclude : array-like of shape (e,), default=None
            Ids of items that nobody is recommended, such as those that are sold out.

        Returns
        -------
        DataFrame
            user, item (named as the columns of X in `fit`, if it had names), rank, the score that items are ranked by,
            and mean and std of the count, Poisson noise included.

        Raises
        ------
        ValueError, TypeError
            No users, a table of them, another strategy, or an n that is no integer of at least 1; users folded into
            another fit; users that were not seen, with ``on_unseen="error"``; `items` or `exclude` with an id that the
            fit did not have; ``exclude_seen=True`` after a file without training rows.
        """
        request, rng = Request.of(n, exclude_seen, items, exclude, strategy), check_seed(random_state)

        def scorer(folded: Any) -> Callable[..., Scored]:
            drawn_items, drawn_users = self._one_draw(folded, rng) if strategy == "thompson" else (None, None)

            def answer(some: Any, offered: Array) -> Scored:
                mean, variance = self._rates_of(some, folded, offered)
                if drawn_items is not None and drawn_users is not None:
                    score = drawn_users(some) @ drawn_items[offered].T
                elif strategy in QUANTILES:
                    of_gamma = gammaincinv(np.square(mean) / variance, QUANTILES[strategy])
                    score = np.asarray(of_gamma * variance / mean)
                else:
                    score = mean

                def shown_at(of: Array, item: Array) -> dict[str, Array]:
                    own = mean[of, item]
                    std = np.sqrt(self._dispersion * own + variance[of, item])
                    return {"score": score[of, item], "mean": own, "std": std}

                return score, shown_at

            return answer

        return self._ranked(users, request, CELLS, scorer)

    def _rates_of(self, users: Any, folded: Any, offered: Array) -> tuple[Array, Array]:
        """Mean and variance of the expected counts of some users with each of the items at some positions, (m, c)."""
        q, components = self._rows("users", users, folded), self.posterior_["components"]
        some = Gamma(components.shape[:, offered], components.rate[:, offered])
        mean, variance = density.moments_of(q.mean, q.variance, some)
        own, where = self._user_draws(users, folded)
        if own is not None and self.draws_ is not None:
            there = np.flatnonzero(where >= 0)
            variance[there] = cell_variance(self.draws_.items[offered], own[where[there]], None, mean[there])
        return mean, variance
