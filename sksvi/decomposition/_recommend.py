"""Predictions of a fitted factorization for pairs, and recommendation of items not yet rated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from sksvi._runtime import parallel
from sksvi._typing.arrays import ArrayLike, DataFrame, RandomState
from sksvi.decomposition._folded import FoldedUsers, FoldingMethods
from sksvi.decomposition._ids import positions
from sksvi.decomposition._pairs import best, crossed
from sksvi.estimators.checks import check_count, check_flag, check_seed
from sksvi.families import GaussianPlates
from sksvi.models.factorization.columns import SIDES, ColumnView, SideColumns
from sksvi.models.factorization.ratings import Entries
from sksvi.predictive import Predictive

Array = np.ndarray

#: Standard deviations of f that an upper confidence bound adds.
UCB_REACH = 1.645
#: Pairs that are ranked at a time.
RANKED = 2**18


@dataclass(frozen=True)
class RecommendRequest:
    """Arguments of `recommend`; `folded` holds the users' posterior where the fit does not."""

    n: int
    exclude_seen: bool
    strategy: str
    drawn_items: Array | None
    rng: Any
    folded: FoldedUsers | None


class RecommendationMethods(FoldingMethods):
    """Needs `_blocks`, `_prior_q` (learned priors), `_prior(side, ids)` and the ids of both sides."""

    likelihood_: Any
    _blocks: dict[str, GaussianPlates]
    _prior_q: dict[str, Any]
    _model: Any
    n_components: Any
    n_jobs: Any
    random_state: Any

    # ---- plates of ids
    def _unseen(self, side: str, ids: Any) -> GaussianPlates:
        """Prior of ids without ratings given their features, the coefficients' spread included."""
        prior = self._prior(side, ids)  # type: ignore[attr-defined]
        precision = np.exp(self._blocks[f"{side}_precision"].value)
        mean = np.broadcast_to(prior.mean(self._blocks, side), (len(ids), len(precision)))
        block = GaussianPlates.constant(mean, 1.0 / precision, self._blocks[side].full)
        if prior.design is None:
            return block
        spread = self._prior(side, self._ids(side)).spread  # type: ignore[attr-defined]
        share = np.einsum("np,pq,nq->n", prior.design, spread, prior.design)
        variance = (1.0 + share[:, None] * prior.applies) / precision
        values = block.values.copy()
        rows, cols = np.tril_indices(len(precision)) if block.full else (np.arange(len(precision)),) * 2
        values[:, rows == cols] = variance
        return GaussianPlates(block.mean, values, None, block.full)

    def _rows(self, side: str, column: Any, folded: FoldedUsers | None = None) -> GaussianPlates:
        """The plate of each id of a column: its posterior, or the prior where the fit did not see it."""
        if side == "users" and folded is not None:
            return folded._rows(column)
        where = positions(self._ids(side), column)
        block = self._blocks[side]
        found = block[np.maximum(where, 0)].copy()
        new = np.flatnonzero(where < 0)
        if len(new):
            found.put(new, self._unseen(side, column.iloc[new]))
        return found

    def _latent(self, columns: Any, folded: FoldedUsers | None = None) -> tuple[Array, Array]:
        """Mean and variance of f for pairs of ids (two Series), of users of the fit or folded-in ones."""
        import pandas as pd

        coded, plates = [], []
        for side, column in zip(SIDES, columns, strict=True):
            codes, ids = pd.factorize(column, use_na_sentinel=False)
            coded.append(codes)
            plates.append(self._rows(side, pd.Series(ids, dtype=object), folded))
        n = len(coded[0])
        m, v = np.empty(n), np.empty(n)
        order = np.argsort(coded[0], kind="stable")
        entries = Entries.sorted_by(*coded, np.zeros(n), None, len(plates[0]))
        model = self._model
        view = ColumnView.of(model.layouts, "users", plates[1], self.likelihood_, model.offset)

        def one(part: slice) -> tuple[Array, Array]:
            return SideColumns(view, entries.of(part), None, None).latents(plates[0][part])

        with parallel.working():
            parts = list(parallel.in_order(one, view.chunks(entries), parallel.n_threads(self.n_jobs)))
        m[order], v[order] = (np.concatenate([part[i] for part in parts]) for i in (0, 1))
        return m, v

    # ---- what to show next
    def recommend(
        self,
        users: ArrayLike | FoldedUsers,
        n: int = 10,
        exclude_seen: bool = True,
        strategy: str = "mean",
        random_state: RandomState = None,
    ) -> DataFrame:
        """The best items for some users.

        Parameters
        ----------
        users : array-like of shape (m,) or FoldedUsers
            Ids, of which one that the fit did not see gets what the prior says (`on_unseen` may object); or what
            `fold_in` returned. Of a Dask Series or array the answer is a lazy frame, a partition for each of its own.
        n : int, default=10
            Items per user, fewer where fewer are left.
        exclude_seen : bool, default=True
            Whether to leave out the items that a user has rated.
        strategy : {"mean", "ucb", "thompson"}, default="mean"
            Rank by the predictive mean of y, by the mean of y at the 95 % quantile of f, or by that at one draw of
            users and items from q.
        random_state : int, RandomState or None, default=None
            Of the draw.

        Returns
        -------
        DataFrame
            user, item (named as the columns of X in `fit`, if it had names), rank, score, mean, std of y; where levels
            are names, of their positions 0, 1, ….

        Raises
        ------
        ValueError, TypeError
            No users, a table of them, another strategy, or an n that is no integer of at least 1; users folded into
            another fit; users that were not seen, with ``on_unseen="error"``; ``exclude_seen=True`` after a file
            without training rows.
        """
        check_is_fitted(self)
        if strategy not in ("mean", "ucb", "thompson"):
            raise ValueError(f"strategy must be 'mean', 'ucb' or 'thompson'; found {strategy!r}.")
        n, exclude_seen = check_count(n, "n"), check_flag(exclude_seen, "exclude_seen")
        users, folded = self._audience(users)
        if exclude_seen:
            self._check_seen()
        if not len(users):
            raise ValueError("users is empty: name at least one.")
        rng = check_seed(random_state)
        drawn_items = self._blocks["items"].sample(1, rng)[0] if strategy == "thompson" else None
        request = RecommendRequest(n, exclude_seen, strategy, drawn_items, rng, folded)
        size = max(1, RANKED // max(len(self.items_), 1))
        tables = [self._ranked(users.iloc[start : start + size], request) for start in range(0, len(users), size)]
        return self._tables(tables)

    def _ranked(self, users: Any, request: RecommendRequest) -> Any:
        """Table of the best items for some users, one row per user and item."""
        import pandas as pd

        m, v = (part.reshape(len(users), -1) for part in self._latent(crossed(users, self.items_), request.folded))
        score = self._scores(users, m, v, request)
        if request.exclude_seen:
            score[self._seen(users, request.folded)] = -np.inf
        where, item, rank = best(score, request.n)
        predictive = Predictive(self.likelihood_, m[where, item], v[where, item])
        mean = self._in_levels(predictive)
        return pd.DataFrame(
            {
                "user": users.to_numpy()[where],
                "item": self.items_[item],
                "rank": rank,
                "score": score[where, item],
                "mean": mean[0],
                "std": mean[1],
            }
        )

    def _in_levels(self, predictive: Predictive) -> tuple[Array, Array]:
        """Mean and standard deviation of y, or of the positions of its named levels."""
        if not self.likelihood_.traits.ordered:
            return predictive.mean(), predictive.std()
        levels = self.levels_  # type: ignore[attr-defined]
        p = predictive.probabilities()
        levels = np.arange(len(levels)) if self._named_levels else levels.astype(float)  # type: ignore[attr-defined]
        mean = p @ levels
        return mean, np.sqrt(np.maximum(p @ np.square(levels) - np.square(mean), 0.0))

    def _scores(self, users: Any, m: Array, v: Array, request: RecommendRequest) -> Array:
        """Scores (n_users, n_items) by which items are ranked."""
        if request.strategy == "mean":
            return self._in_levels(Predictive(self.likelihood_, m.ravel(), v.ravel()))[0].reshape(m.shape)
        if request.strategy == "ucb":
            f = m + UCB_REACH * np.sqrt(v)
        else:
            layouts = self._model.layouts
            drawn = layouts["users"].embedded(self._rows("users", users, request.folded).sample(1, request.rng)[0])
            f = self._model.offset + drawn @ layouts["items"].embedded(request.drawn_items).T
        # A draw, or a quantile, has no spread of its own.
        return self._in_levels(Predictive(self.likelihood_, f.ravel(), np.zeros(f.size)))[0].reshape(m.shape)
