"""What a fitted factorization says of pairs, of users it has just met, and of items not yet rated."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from sksvi import _parallel
from sksvi.algorithms import MCSSVI
from sksvi.decomposition._ids import id_columns, positions
from sksvi.estimators.checks import check_row_values, check_seed
from sksvi.families import GaussianPlates
from sksvi.families.gaussian.views import FoldedUsers
from sksvi.inference import plan
from sksvi.inference.memory.said import Said
from sksvi.inference.passes import by_side
from sksvi.inference.state import State
from sksvi.models.factorization.columns import SIDES, Columns, View
from sksvi.models.factorization.ratings import Entries, Ratings
from sksvi.predictive import Predictive

Array = np.ndarray

#: Steps of a folded-in column at most, and the divergence of a step (nats) below which it has settled.
FOLD_STEPS, FOLD_TOL = 100, 1e-6
#: Standard deviations of f that an upper confidence bound adds.
UCB_REACH = 1.645
#: Pairs that are ranked at a time.
RANKED = 2**18


class RecommendationMethods:
    """Needs `_blocks`, `_prior_q` (learned priors), `_prior(side, ids)` and the ids of both sides."""

    users_: Array
    items_: Array
    likelihood_: Any
    _blocks: dict[str, GaussianPlates]
    _prior_q: dict[str, Any]
    _model: Any
    n_components: Any
    n_jobs: Any
    random_state: Any

    # ---- plates of ids
    def _ids(self, side: str) -> Array:
        return self.users_ if side == "users" else self.items_

    def _unseen(self, side: str, ids: Any) -> GaussianPlates:
        """Prior of ids without ratings: what their features say, the coefficients' spread included."""
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

    def _rows(self, side: str, column: Any) -> GaussianPlates:
        """The plate of each id of a column: its posterior, or the prior where the fit did not see it."""
        where = positions(self._ids(side), column)
        block = self._blocks[side]
        found = block[np.maximum(where, 0)].copy()
        new = np.flatnonzero(where < 0)
        if len(new):
            found.put(new, self._unseen(side, column.iloc[new]))
        return found

    def _latent(self, columns: Any) -> tuple[Array, Array]:
        """Mean and variance of f for pairs of ids (two Series)."""
        import pandas as pd

        coded, plates = [], []
        for side, column in zip(SIDES, columns, strict=True):
            codes, ids = pd.factorize(column, use_na_sentinel=False)
            coded.append(codes)
            plates.append(self._rows(side, pd.Series(ids, dtype=object)))
        n = len(coded[0])
        m, v = np.empty(n), np.empty(n)
        order = np.argsort(coded[0], kind="stable")
        entries = Entries.sorted_by(*coded, np.zeros(n), None, len(plates[0]))
        model = self._model
        view = View.of(model.layouts, "users", plates[1], self.likelihood_, model.offset)

        def one(part: slice) -> tuple[Array, Array]:
            return Columns(view, entries.of(part), None, None).latents(plates[0][part])

        with _parallel.single_threaded_blas():
            parts = list(_parallel.in_order(one, model.column_chunks(entries), _parallel.n_threads(self.n_jobs)))
        m[order], v[order] = (np.concatenate([part[i] for part in parts]) for i in (0, 1))
        return m, v

    # ---- users met after the fit
    def fold_in(self, X: Any, y: Any, sample_weight: Any = None) -> FoldedUsers:
        """Posterior of the users of some ratings, given the items as they are; the estimator stays as it is.

        Parameters
        ----------
        X : {DataFrame, array-like} of shape (n, 2)
            Pairs of user and item. A user that the fit knows starts from what it knows.
        y : array-like of shape (n,)
        sample_weight : array-like of shape (n,), default=None

        Returns
        -------
        FoldedUsers
            ``ids`` (in order of appearance), ``mean`` (n_users, K), ``cov``, ``std``, ``sample``; ``bias_mean`` and
            ``bias_std`` (n_users,).

        Raises
        ------
        ValueError, TypeError
            A missing user id; otherwise as `fit`. An item that is missing or was not seen is the prior's.
        """
        import pandas as pd

        check_is_fitted(self)
        columns = id_columns(self, X, False)
        missing = columns[0].isna().to_numpy()
        if missing.any():
            raise ValueError(f"the user id in row {int(np.argmax(missing))} of X is missing: whose posterior is it?")
        y = self._targets(self.likelihood_, columns, y, fresh=False)  # type: ignore[attr-defined]
        weight = check_row_values(sample_weight, len(y), "sample_weight", weights=True)
        codes, ids = pd.factorize(columns[0], use_na_sentinel=False)
        others, items = pd.factorize(columns[1], use_na_sentinel=False)
        names = pd.Series(ids, dtype=object)
        model = self._model.for_users(self._prior("users", names))  # type: ignore[attr-defined]
        q = {
            **self._blocks,
            "users": self._rows("users", names),
            "items": self._rows("items", pd.Series(items, dtype=object)),
        }
        prior = model.prior(q)["users"]
        said = Said({"users": q["users"].over(prior)})
        data = Ratings(codes, others, y, weight, len(ids), len(items))
        problem = plan.problem(model, data, MCSSVI(), threads=_parallel.n_threads(self.n_jobs))
        state = State(q, 0)
        with _parallel.single_threaded_blas():
            for _ in range(FOLD_STEPS):
                block = by_side.moved(problem, state, "users", said).block
                change = block.kl_by_plate(state.q["users"].precise()).max()
                state.q["users"] = block
                if change < FOLD_TOL:
                    break
        k, block = self._k, state.q["users"]
        biased = block.mean.shape[1] > k
        bias = (block.mean[:, k], block.std[:, k]) if biased else (None, None)
        return FoldedUsers(np.asarray(ids), block.leading(k), *bias)

    # ---- what to show next
    def recommend(
        self, users: Any, n: int = 10, exclude_seen: bool = True, strategy: str = "mean", random_state: Any = None
    ) -> Any:
        """The best items for some users.

        Parameters
        ----------
        users : array-like of shape (m,)
            Ids; one that the fit did not see gets what the prior says.
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
        ValueError
            No users, another strategy, or an n that is no integer of at least 1.
        """
        import pandas as pd

        check_is_fitted(self)
        if strategy not in ("mean", "ucb", "thompson"):
            raise ValueError(f"strategy must be 'mean', 'ucb' or 'thompson'; found {strategy!r}.")
        if not isinstance(n, Integral) or n < 1:
            raise ValueError(f"n must be an integer of at least 1; found {n!r}.")
        # A list of tuples is a list of ids, not a table.
        users = pd.Series(list(users) if pd.api.types.is_list_like(users) else [users], dtype=object)
        if not len(users):
            raise ValueError("users is empty: name at least one.")
        rng = check_seed(random_state)
        drawn_items = self._blocks["items"].sample(1, rng)[0] if strategy == "thompson" else None
        size = max(1, RANKED // max(len(self.items_), 1))
        tables = []
        for start in range(0, len(users), size):
            part = users.iloc[start : start + size]
            tables.append(self._ranked(part, n, exclude_seen, strategy, drawn_items, rng))
        names = list(getattr(self, "feature_names_in_", ["user", "item"]))
        table = pd.concat(tables, ignore_index=True)
        return table.rename(columns=dict(zip(["user", "item"], names, strict=True)))

    def _ranked(
        self, users: Any, n: int, exclude_seen: bool, strategy: str, drawn_items: Array | None, rng: Any
    ) -> Any:
        """The table of some users."""
        import pandas as pd

        m, v = self._all_latents(users)
        score = self._scores(users, m, v, strategy, drawn_items, rng)
        if exclude_seen:
            score[self._seen(users)] = -np.inf
        n = min(n, score.shape[1])
        # Ties go to the item that comes first.
        top = np.argsort(-score, axis=1, kind="stable")[:, :n]
        row = np.arange(len(users))[:, None]
        keep = np.isfinite(score[row, top])
        where, item = np.nonzero(keep)[0], top[keep]
        predictive = Predictive(self.likelihood_, m[where, item], v[where, item])
        mean = self._in_levels(predictive)
        return pd.DataFrame(
            {
                "user": users.to_numpy()[where],
                "item": self.items_[item],
                "rank": np.concatenate([np.arange(1, count + 1) for count in keep.sum(1)] or [np.zeros(0, int)]),
                "score": score[where, item],
                "mean": mean[0],
                "std": mean[1],
            }
        )

    def _in_levels(self, predictive: Predictive) -> tuple[Array, Array]:
        """Mean and standard deviation of y, or of the positions of its named levels."""
        if not self.likelihood_.ordered:
            return predictive.mean(), predictive.std()
        levels = self.levels_  # type: ignore[attr-defined]
        p = predictive.probabilities()
        levels = np.arange(len(levels)) if self._named_levels else levels.astype(float)  # type: ignore[attr-defined]
        mean = p @ levels
        return mean, np.sqrt(np.maximum(p @ np.square(levels) - np.square(mean), 0.0))

    def _all_latents(self, users: Any) -> tuple[Array, Array]:
        """Mean and variance of f of users (rows) with every item."""
        import pandas as pd

        items = pd.Series(np.tile(np.asarray(self.items_, object), len(users)), dtype=object)
        m, v = self._latent((users.repeat(len(self.items_)).reset_index(drop=True), items))
        return m.reshape(len(users), -1), v.reshape(len(users), -1)

    def _scores(self, users: Any, m: Array, v: Array, strategy: str, drawn_items: Array | None, rng: Any) -> Array:
        """What the items are ranked by."""
        if strategy == "mean":
            return self._in_levels(Predictive(self.likelihood_, m.ravel(), v.ravel()))[0].reshape(m.shape)
        if strategy == "ucb":
            f = m + UCB_REACH * np.sqrt(v)
        else:
            layouts = self._model.layouts
            drawn = layouts["users"].embedded(self._rows("users", users).sample(1, rng)[0])
            f = self._model.offset + drawn @ layouts["items"].embedded(drawn_items).T
        # A draw, or a quantile, has no spread of its own.
        return self._in_levels(Predictive(self.likelihood_, f.ravel(), np.zeros(f.size)))[0].reshape(m.shape)

    def _seen(self, users: Any) -> tuple[Array, Array]:
        """Rows and items of the pairs that were rated."""
        where = positions(self.users_, users)
        starts, items = self.seen_  # type: ignore[attr-defined]
        count = np.where(where >= 0, np.diff(starts)[where], 0)
        rows = np.repeat(np.arange(len(where)), count)
        first = np.repeat(starts[np.maximum(where, 0)], count)
        within = np.arange(len(rows)) - np.repeat(np.cumsum(count) - count, count)
        return rows, items[first + within]
