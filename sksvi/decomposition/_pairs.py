"""Base of estimators of pairs of ids: ids of both sides, users folded in after a fit, items to recommend."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from sklearn.utils.validation import check_is_fitted

from sksvi._runtime import parallel
from sksvi._typing.arrays import DataFrame, MatrixLike, RandomState
from sksvi.decomposition._ids import Features, id_columns, positions
from sksvi.decomposition._joint_draws import JointDraws, about
from sksvi.estimators.base import BaseSVI
from sksvi.estimators.checks import check_count, check_flag, n_rows
from sksvi.estimators.summary_text import counted
from sksvi.estimators.unseen import check_predicted_ids, shown
from sksvi.families import Gamma, GaussianPlates
from sksvi.models.factorization.columns import SIDES

Array = np.ndarray
#: Scores of some users' items, and a function of rows and columns of these: what is shown of them, by name.
Scored: TypeAlias = tuple[Array, Callable[[Array, Array], dict[str, Array]]]
#: From folded-in users or None to a function of some users and of positions of items, to their scores.
Scorer: TypeAlias = Callable[[Any], Callable[[Any, Array], Scored]]
#: Ways to rank items; those that take a quantile of what is expected of a pair, with its probability.
STRATEGIES, QUANTILES = ("mean", "lower", "ucb", "thompson"), {"lower": 0.05, "ucb": 0.95}


class FoldedIds:
    """Users folded in after a fit, with their posterior given their pairs.

    ids (n,); posterior: block with a plate for each; rated: where each user's items begin, and their positions; fit:
    what tells the fit that they belong to from another one; draws: of their factors together with those of the items
    of the fit, (n, S, F), or None.
    """

    def __init__(
        self,
        ids: Array,
        posterior: GaussianPlates | Gamma,
        rated: tuple[Array, Array],
        fit: tuple[Any, ...],
        draws: Array | None = None,
    ) -> None:
        self.ids, self._draws = ids, draws
        self._posterior, self._rated, self._fit = posterior, rated, fit

    def __len__(self) -> int:
        return len(self.ids)

    def __repr__(self) -> str:
        return f"{type(self).__name__} of {len(self)}: {shown(self.ids, 5)}"

    def pairs(self, X: MatrixLike) -> FoldedPairs:
        """Pairs of these users with some items, for `predict` and every other method that takes pairs.

        Parameters
        ----------
        X : {DataFrame, array-like} of shape (m, 2)
            Pairs of user and item, as in `fit`.

        Returns
        -------
        FoldedPairs
        """
        return FoldedPairs(self, X)

    # ---- factors
    @property
    def _factors(self) -> Any:
        """The block of the factors alone."""
        return self._posterior

    @property
    def mean(self) -> Array:
        """Posterior means of the factors, (n, K)."""
        return self._factors.mean

    @property
    def std(self) -> Array:
        """Posterior standard deviations of the factors, (n, K)."""
        if self._draws is None:
            return np.asarray(self._factors.std)
        mean = self.mean
        return np.sqrt(about(self._draws[:, :, : mean.shape[1]], mean))

    def sample(self, n: int = 1, random_state: RandomState = None) -> Array:
        """Draw factors.

        Parameters
        ----------
        n : int, default=1
        random_state : int, RandomState or None, default=None

        Returns
        -------
        ndarray of shape (n, n_users, K)
        """
        return self._factors.sample(n, random_state)

    # ---- for the estimator
    def _rows(self, column: Any) -> Any:
        """The plate of each id of a column; every id is one of these users."""
        return self._posterior[positions(self.ids, column)]

    def _seen(self, column: Any) -> tuple[Array, Array]:
        """Rows and items of the pairs that were folded in."""
        return rated_by(positions(self.ids, column), self._rated)

    def _check_ids(self, column: Any) -> None:
        """An error where a row's user is none of these."""
        unknown = positions(self.ids, column) < 0
        if unknown.any():
            row = int(np.argmax(unknown))
            raise ValueError(
                f"row {row} of X has the user {column.iloc[row]!r}, who is none of these {self!r}: fold in all users "
                "that the pairs name."
            )


class FoldedPairs:
    """Pairs whose users are folded in; `pairs` of what `fold_in` returned makes it.

    Parameters
    ----------
    users : FoldedUsers or FoldedCounts
    X : {DataFrame, array-like} of shape (m, 2)

    Attributes
    ----------
    users : FoldedUsers or FoldedCounts
    X : {DataFrame, array-like} of shape (m, 2)
    """

    def __init__(self, users: FoldedIds, X: MatrixLike) -> None:
        self.users, self.X = users, X

    def __len__(self) -> int:
        return n_rows(self.X)


class PairMethods(BaseSVI):
    """An estimator of pairs of users and items, `seen_` the items that each user had in the fit."""

    users_: Array
    items_: Array
    seen_: tuple[Array, Array] | None
    on_unseen: str
    n_jobs: int | None
    draws_: JointDraws | None
    #: Has `features`, a table by side or None.
    _encoding: Any

    @property
    def _k(self) -> int:
        """Factors of the fit."""
        raise AttributeError(f"{type(self).__name__} has no factors")

    #: What `summary_text` calls the rows of X, and the factors.
    _header_names = ("rows", "components")

    def _data_header(self) -> list[tuple[str, str]]:
        rows, factors = self._header_names
        sides = [(side, f"{len(ids):,}") for side, ids in zip(SIDES, (self.users_, self.items_), strict=True)]
        return [(rows, counted(self.n_samples_seen_)), *sides, (factors, str(self._k))]

    # ---- factors of both sides
    def _factors_of(self, side: str) -> Any:
        """The posterior of one side's factors, (P, K); an AttributeError before a fit."""
        raise AttributeError(f"{type(self).__name__} has no {side} to show")

    def _spread_of(self, side: str) -> Array:
        """Posterior covariances of one side's factors, or variances where they are independent."""
        return np.asarray(self._factors_of(side).variance)

    def _rows(self, side: str, column: Any, folded: Any = None) -> Any:
        """The plate of each id of a column: its posterior, or the prior where the fit did not see it."""
        raise AttributeError(f"{type(self).__name__} has no {side}")

    @property
    def user_factors_(self) -> Array:
        """Posterior means, (n_users, K)."""
        return np.asarray(self._factors_of("users").mean)

    @property
    def item_factors_(self) -> Array:
        """Posterior means, (n_items, K)."""
        return np.asarray(self._factors_of("items").mean)

    @property
    def user_covariance_(self) -> Array:
        """Posterior covariances, (n_users, K, K), or variances, (n_users, K), where factors are independent."""
        return self._spread_of("users")

    @property
    def item_covariance_(self) -> Array:
        """Posterior covariances, (n_items, K, K), or variances, (n_items, K), where factors are independent."""
        return self._spread_of("items")

    def _drawn_sides(self, blocks: Any, n: int, rng: Any) -> dict[str, Array]:
        """Draws of the factors of each side, (n, ids, columns): from the stored ones, else from blocks by side."""
        if self.draws_ is None:
            return {side: np.asarray(blocks[side].sample(n, rng)) for side in SIDES}
        chosen = rng.randint(self.draws_.n_draws, size=n)
        return {side: np.swapaxes(self.draws_.of(side)[:, chosen], 0, 1).astype(float) for side in SIDES}

    # ---- ids
    def _ids(self, side: str) -> Array:
        return self.users_ if side == "users" else self.items_

    def _known(self, side: str, column: Any) -> Array:
        """Which ids of a column the fit or its table of features has, (n,) bool."""
        in_fit = positions(self._ids(side), column) >= 0
        features = self._features_of(side)
        return in_fit if features is None else in_fit | (positions(features.ids, column) >= 0)

    def _features_of(self, side: str) -> Features | None:
        """The fit's table of features of a side, if there is one."""
        by_side = self._encoding.features
        return None if by_side is None else by_side[side]  # files of early versions have none

    def _check_known(self, side: str, column: Any, what: str) -> None:
        """Warn or raise, as `on_unseen` says, about ids to be predicted that the fit does not know."""
        if self.on_unseen != "ignore":
            check_predicted_ids(self.on_unseen, what, column, self._known(side, column), self._ids(side))

    # ---- users that are folded in
    @property
    def _mark(self) -> tuple[Any, ...]:
        """Numbers that identify this fit, in files and copies too."""
        return self.n_steps_, self.n_samples_seen_, self.lower_bound_, len(self.items_), self._k

    def _check_folded(self, users: FoldedIds) -> None:
        """An error where users belong to another fit: its factors mean something else."""
        check_is_fitted(self)
        if users._fit != self._mark:
            raise ValueError(
                f"{users!r} were folded into another fit than this one, whose factors mean something else: call "
                "fold_in again after fit or partial_fit."
            )

    def _to_fold(self, X: Any) -> tuple[Any, Any]:
        """Columns of users and items of pairs to fold in; an error where a user id is missing."""
        check_is_fitted(self)
        columns = id_columns(self, X, False)
        missing = columns[0].isna().to_numpy()
        if missing.any():
            raise ValueError(f"the user id in row {int(np.argmax(missing))} of X is missing: whose posterior is it?")
        return columns

    def _requested_pairs(self, X: Any, needed: Any = SIDES) -> tuple[tuple[Any, Any], Any]:
        """Columns of users and items to predict, and folded-in users or None; checks the ids of the `needed` sides."""
        import pandas as pd

        check_is_fitted(self)
        if isinstance(X, FoldedIds):
            self._check_folded(X)
            return crossed(pd.Series(X.ids, dtype=object), self.items_), X
        folded = X.users if isinstance(X, FoldedPairs) else None
        columns = id_columns(self, X if folded is None else X.X, False)
        if folded is not None:
            self._check_folded(folded)
            folded._check_ids(columns[0])
        for side, column in zip(SIDES, columns, strict=True):
            if side in needed and (side == "items" or folded is None):
                self._check_known(side, column, f"{side} in column {column.name!r} of X")
        return columns, folded

    def _places_of(self, X: Any) -> list[Array]:
        """Positions of the user and the item of each pair among those of the fit.

        Raises
        ------
        ValueError
            For one that the fit did not have.
        """
        pairs = zip(SIDES, self._requested_pairs(X)[0], strict=True)
        return [fitted_places(self._ids(side), column, side, "row {} of X") for side, column in pairs]

    def _user_draws(self, users: Any, folded: Any) -> tuple[Array | None, Array]:
        """Draws (P, S, F) of users of the fit, or of folded-in ones, and which of them each of a column is, or -1."""
        if folded is not None:
            return folded._draws, positions(folded.ids, users)
        return None if self.draws_ is None else self.draws_.users, positions(self.users_, users)

    def _one_draw(self, folded: Any, rng: Any) -> tuple[Array, Callable[[Any], Array]]:
        """Items (I, F) of the fit at one draw from the posterior, and a function to users (m, F) at the same draw."""
        draws = self.draws_
        number = 0 if draws is None else rng.randint(draws.n_draws)
        items = self._rows("items", _column(self.items_)).sample(1, rng)[0] if draws is None else draws.items[:, number]

        def drawn(users: Any) -> Array:
            columns = np.asarray(self._rows("users", users, folded).sample(1, rng)[0])
            own, where = self._user_draws(users, folded)
            if own is None:
                return columns
            return np.where((where >= 0)[:, None], own[np.maximum(where, 0), number], columns)

        return items, drawn

    def _users_of(self, X: Any) -> Any:
        """The posterior of the user of each row, or of each user that was folded in."""
        if isinstance(X, FoldedIds):
            self._check_folded(X)
            return X._posterior
        (users, _), folded = self._requested_pairs(X, ("users",))
        return self._rows("users", users, folded)

    # ---- what users had
    def _without_rows(self) -> Any:
        """Copy of the estimator without the training pairs; ids and their factors, which are the model, stay."""
        bare = super()._without_rows()
        if hasattr(self, "seen_"):
            bare.seen_ = None
        return bare

    def _check_seen(self) -> tuple[Array, Array]:
        """Training items of each user, as starts and item positions; an error after a file that leaves them out."""
        if self.seen_ is None:
            raise ValueError(
                "exclude_seen=True: this fit is of a file that was saved with training_rows=False, so that "
                "nobody knows what users have rated. Ask with exclude_seen=False, and leave out what you know."
            )
        return self.seen_

    # ---- what to show next
    def _audience(self, users: Any) -> tuple[Any, Any]:
        """Ids to recommend to, and where their posterior is if not in the fit."""
        if isinstance(users, FoldedIds):
            self._check_folded(users)
            return _column(users.ids), users
        if isinstance(users, FoldedPairs):
            raise TypeError("recommend takes users, not pairs: give it what fold_in returned, without `pairs`.")
        users = _list_of_ids(users, "users")
        if not len(users):
            raise ValueError("users is empty: name at least one.")
        self._check_known("users", users, "users")
        return users, None

    def _seen(self, users: Any, folded: Any) -> tuple[Array, Array]:
        """Rows and items of the users' pairs, those of the fit and those that were folded in."""
        rows, items = rated_by(positions(self.users_, users), self._check_seen())
        if folded is None:
            return rows, items
        more = folded._seen(users)
        return np.concatenate([rows, more[0]]), np.concatenate([items, more[1]])

    def _ranked(self, users: Any, request: Request, pairs: int, scorer: Scorer) -> DataFrame:
        """Table of the n best items of each user, named as the columns of pairs are in the fit.

        Parameters
        ----------
        users : array-like or FoldedIds
        request : Request
        pairs : int
            Pairs that are ranked at a time, about.
        scorer : Scorer
        """
        import pandas as pd

        check_is_fitted(self)
        ids, folded = self._audience(users)
        offered = offered_among(self.items_, request, "items")
        if request.exclude_seen:
            self._check_seen()
        place = np.full(len(self.items_), -1)
        place[offered] = np.arange(len(offered))
        answer, tables = scorer(folded), []
        for part in parallel.slices(len(ids), max(1, pairs // max(len(offered), 1))):
            some = ids.iloc[part]
            score, shown_at = answer(some, offered)
            if request.exclude_seen:
                row, column = self._seen(some, folded)
                column = place[column]
                score = score.copy()
                score[row[column >= 0], column[column >= 0]] = -np.inf
            of, item, rank = best(score, request.n)
            columns = {"user": some.to_numpy()[of], "item": self.items_[offered[item]], "rank": rank}
            tables.append(pd.DataFrame({**columns, **shown_at(of, item)}))
        return pd.concat(tables, ignore_index=True).rename(columns=self._column_names)

    @property
    def _column_names(self) -> dict[str, str]:
        """What the fit calls users and items."""
        return dict(zip(["user", "item"], getattr(self, "feature_names_in_", ["user", "item"]), strict=True))

    # ---- what is alike
    def similar_items(self, item: object, n: int = 10) -> DataFrame:
        """The items that the same users like or have, by what the fit expects of all users.

        The similarity of items i and j is the cosine of f_ui and f_uj over the users u of the fit, where f_ui is the
        product of posterior mean factors, without biases. In the factors it is the cosine in the metric of the users'
        second moments, so that it does not depend on how large a factor happens to be on either side.

        Parameters
        ----------
        item : object
            Id of an item of the fit.
        n : int, default=10
            Items in the answer, fewer where there are fewer. The item itself is none of them, nor is one whose factors
            are all 0.

        Returns
        -------
        DataFrame
            The items (named as the column of X in `fit`, if it had a name), and ``similarity``, in [-1, 1], the
            largest first.

        Raises
        ------
        ValueError
            For an item that the fit did not have, or whose factors are all 0; for an n below 1.
        """
        return self._similar("items", item, n)

    def similar_users(self, user: object, n: int = 10) -> DataFrame:
        """The users who like or have the same items, by what the fit expects of all items.

        The similarity of users u and w is the cosine of f_ui and f_wi over the items i of the fit, where f_ui is the
        product of posterior mean factors, without biases: see `similar_items`.

        Parameters
        ----------
        user : object
            Id of a user of the fit.
        n : int, default=10
            Users in the answer, fewer where there are fewer. The user is none of them, nor is one whose factors are
            all 0.

        Returns
        -------
        DataFrame
            The users (named as the column of X in `fit`, if it had a name), and ``similarity``, in [-1, 1], the
            largest first.

        Raises
        ------
        ValueError
            For a user that the fit did not have, or whose factors are all 0; for an n below 1.
        """
        return self._similar("users", user, n)

    def _similar(self, side: str, one: Any, n: int) -> DataFrame:
        """Table of the n ids of a side that are most like one of them."""
        import pandas as pd

        check_is_fitted(self)
        n, name = check_count(n, "n"), side[:-1]
        ids = self._ids(side)
        place = int(fitted_places(ids, _column([one]), side, name)[0])
        own, others = (self._factors_of(of).mean for of in ((side, *set(SIDES) - {side})))
        metric = others.T @ others / len(others)
        along = own @ metric
        lengths = np.sqrt(np.maximum(np.einsum("pk,pk->p", along, own), 0.0))
        if not lengths[place]:
            raise ValueError(f"{name} {one!r} has factors that are all 0: no {name} is like it, or all are.")
        there = np.flatnonzero(lengths)
        score = np.full(len(ids), -np.inf)
        score[there] = np.clip(own[there] @ along[place] / (lengths[there] * lengths[place]), -1.0, 1.0)
        score[place] = -np.inf
        _, found, _ = best(score[None], n)
        return pd.DataFrame({self._column_names[name]: ids[found], "similarity": score[found]})


@dataclass(frozen=True)
class Request:
    """What a user of `recommend` asks for: how many items, which may be among them."""

    n: int
    exclude_seen: bool
    items: Any = None
    exclude: Any = None

    @classmethod
    def of(
        cls, n: Any, exclude_seen: Any, items: Any = None, exclude: Any = None, strategy: str = STRATEGIES[0]
    ) -> Request:
        """The request, or an error where a value has no meaning."""
        if strategy not in STRATEGIES:
            raise ValueError(f"strategy must be one of {', '.join(map(repr, STRATEGIES))}; found {strategy!r}.")
        return cls(check_count(n, "n"), check_flag(exclude_seen, "exclude_seen"), items, exclude)


def offered_among(ids: Array, request: Request, kind: str) -> Array:
    """Positions of the items that may be recommended, in order; `kind` is what the fit calls its items."""
    offered = np.ones(len(ids), bool)
    if request.items is not None:
        candidates = _list_of_ids(request.items, "items")
        if not len(candidates):
            raise ValueError("items is empty: name at least one that may be recommended, or leave it out.")
        offered[:] = False
        offered[fitted_places(ids, candidates, kind, "items")] = True
    if request.exclude is not None:
        offered[fitted_places(ids, _list_of_ids(request.exclude, "exclude"), kind, "exclude")] = False
    return np.flatnonzero(offered)


def fitted_places(ids: Array, requested: Any, kind: str, what: str) -> Array:
    """Positions of requested ids (a Series) among those of the fit; an error names the first that is none of them.

    what : what holds the ids, with {} for the row.
    """
    where = positions(ids, requested)
    if np.any(where < 0):
        row = int(np.argmax(where < 0))
        unknown = requested.iloc[row]
        raise ValueError(
            f"{what.format(row)} names {unknown!r} ({type(unknown).__name__}), which is none of the {kind} of the fit: "
            f"these are {shown(ids, 5)}."
        )
    return where


def _column(ids: Any) -> Any:
    """A Series of ids as they are: tuples are ids, no levels."""
    import pandas as pd

    return pd.Series(list(ids), dtype=object)


def _list_of_ids(ids: Any, name: str) -> Any:
    """Ids that a user gave, one or a list, as a Series; a list of tuples is a list of ids, not a table."""
    import pandas as pd

    if getattr(ids, "ndim", 1) > 1:
        raise TypeError(f"{name} is a table of shape {ids.shape}: give its column of ids.")
    return _column(ids if pd.api.types.is_list_like(ids) else [ids])


def best(score: Array, n: int) -> tuple[Array, Array, Array]:
    """Row, column and rank of the n largest finite scores of each row; ties go to the column that comes first."""
    top = np.argsort(-score, axis=1, kind="stable")[:, :n]
    keep = np.isfinite(np.take_along_axis(score, top, 1))
    rank = np.broadcast_to(np.arange(1, top.shape[1] + 1), top.shape)
    return np.nonzero(keep)[0], top[keep], rank[keep]


def crossed(users: Any, items: Array) -> tuple[Any, Any]:
    """Columns of some users (a Series), each with every item."""
    import pandas as pd

    others = pd.Series(np.tile(np.asarray(items, object), len(users)), dtype=object)
    return users.repeat(len(items)).reset_index(drop=True), others


def rated_by(where: Array, rated: tuple[Array, Array]) -> tuple[Array, Array]:
    """Rows and items of the pairs rated by the users at some positions, of whom -1 has rated nothing."""
    starts, items = rated
    count = np.where(where >= 0, np.diff(starts)[where], 0)
    rows = np.repeat(np.arange(len(where)), count)
    first = np.repeat(starts[np.maximum(where, 0)], count)
    within = np.arange(len(rows)) - np.repeat(np.cumsum(count) - count, count)
    return rows, items[first + within]
