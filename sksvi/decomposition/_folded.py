"""Users met after a fit: their posterior given the items as they are, and the pairs that they are asked about."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from sksvi import _parallel
from sksvi._typing import MatrixLike, PerRow, RandomState
from sksvi.algorithms import MCSSVI
from sksvi.decomposition._ids import id_columns, positions
from sksvi.estimators.checks import check_row_values
from sksvi.estimators.strangers import shown
from sksvi.families import GaussianPlates
from sksvi.inference import plan
from sksvi.inference.memory.said import Said
from sksvi.inference.passes import by_side
from sksvi.inference.state import State
from sksvi.models.factorization.columns import SIDES
from sksvi.models.factorization.ratings import Ratings

Array = np.ndarray

#: Steps of a folded-in column at most, and the divergence of a step (nats) below which it has settled.
FOLD_STEPS, FOLD_TOL = 100, 1e-6


class FoldedUsers:
    """Posterior of users that a fit has not seen, or has seen less of; `GeneralizedPMF.fold_in` makes it.

    It goes where users or pairs go, in `recommend`, `transform`, `predict`, `predict_interval` and every other method
    that predicts pairs: by itself it stands for each user with every item of the fit, `pairs` chooses others.

    Parameters
    ----------
    ids : ndarray of shape (n,)
    posterior : GaussianPlates
        Of factors and bias.
    n_components : int
    rated : tuple of ndarray, (n + 1,) and (m,)
        Where each user's items begin, and positions of the items rated.
    fit : tuple
        What tells the fit that they belong to from another one.

    Attributes
    ----------
    ids : ndarray of shape (n,)
        In the order in which they came.
    mean, std : ndarray of shape (n, K)
        Of the factors.
    cov : ndarray of shape (n, K, K)
    bias_mean, bias_std : ndarray of shape (n,) or None
        None for a model without biases.

    Examples
    --------
    >>> from sksvi import GeneralizedPMF
    >>> pairs = [(user, item) for user in "abcdef" for item in range(6)]
    >>> y = [5.0 if (user in "ace") == item % 2 else 1.0 for user, item in pairs]
    >>> model = GeneralizedPMF(n_components=1, random_state=0).fit(pairs, y)
    >>> guests = model.fold_in([("new", 0), ("new", 1), ("other", 0), ("other", 1)], [1.0, 5.0, 5.0, 1.0])
    >>> guests
    FoldedUsers of 2: 'new', 'other'
    >>> model.recommend(guests, n=1)[["user", "item"]].values.tolist()
    [['new', 3], ['other', 2]]
    >>> model.predict(guests).shape, model.transform(guests).shape
    ((12,), (2, 1))
    >>> model.predict_interval(guests.pairs([("new", 2), ("other", 2)])).shape
    (2, 2)
    """

    def __init__(
        self, ids: Array, posterior: GaussianPlates, n_components: int, rated: tuple[Array, Array], fit: tuple[Any, ...]
    ) -> None:
        self.ids = ids
        self._posterior, self._k, self._rated, self._fit = posterior, n_components, rated, fit

    def __len__(self) -> int:
        return len(self.ids)

    def __repr__(self) -> str:
        return f"{type(self).__name__} of {len(self)}: {shown(self.ids, 5)}"

    @property
    def _factors(self) -> GaussianPlates:
        return self._posterior.leading(self._k)

    @property
    def mean(self) -> Array:
        """Posterior means of the factors, (n, K)."""
        return self._posterior.mean[:, : self._k]

    @property
    def std(self) -> Array:
        """Posterior standard deviations of the factors, (n, K)."""
        return self._factors.std

    @property
    def cov(self) -> Array:
        """Posterior covariances of the factors, (n, K, K)."""
        return self._factors.cov

    @property
    def bias_mean(self) -> Array | None:
        """Posterior means of the biases, (n,), or None."""
        return self._posterior.mean[:, self._k] if self._posterior.mean.shape[1] > self._k else None

    @property
    def bias_std(self) -> Array | None:
        """Posterior standard deviations of the biases, (n,), or None."""
        return self._posterior.std[:, self._k] if self._posterior.mean.shape[1] > self._k else None

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

    def pairs(self, X: MatrixLike) -> FoldedPairs:
        """Pairs of these users with some items, for `predict` and every other method that takes pairs.

        Parameters
        ----------
        X : {DataFrame, array-like} of shape (m, 2)
            Pairs of user and item, as in `GeneralizedPMF.fit`.

        Returns
        -------
        FoldedPairs
        """
        return FoldedPairs(self, X)

    # ---- for the estimator
    def _rows(self, column: Any) -> GaussianPlates:
        """The plate of each id of a column; every id is one of these users."""
        return self._posterior[positions(self.ids, column)]

    def _seen(self, column: Any) -> tuple[Array, Array]:
        """Rows and items of the pairs that were folded in."""
        return rated_by(positions(self.ids, column), self._rated)

    def _check_ids(self, column: Any) -> None:
        """An error where a row's user is none of these."""
        strange = positions(self.ids, column) < 0
        if strange.any():
            row = int(np.argmax(strange))
            raise ValueError(
                f"row {row} of X has the user {column.iloc[row]!r}, who is none of these {self!r}: fold in all users "
                "that the pairs name."
            )


class FoldedPairs:
    """Pairs whose users are folded in; `FoldedUsers.pairs` makes it.

    Parameters
    ----------
    users : FoldedUsers
    X : {DataFrame, array-like} of shape (m, 2)

    Attributes
    ----------
    users : FoldedUsers
    X : {DataFrame, array-like} of shape (m, 2)
    """

    def __init__(self, users: FoldedUsers, X: MatrixLike) -> None:
        self.users, self.X = users, X

    def __len__(self) -> int:
        return len(self.X)


class FoldingMethods:
    """Needs the plates of ids (`_rows`), the fitted model and its targets."""

    items_: Array
    likelihood_: Any
    _blocks: dict[str, GaussianPlates]
    _model: Any
    _k: Any
    _rows: Any
    _check_known: Any
    n_jobs: Any
    n_steps_: int
    n_samples_seen_: float
    lower_bound_: float

    def fold_in(self, X: MatrixLike, y: PerRow, sample_weight: PerRow | None = None) -> FoldedUsers:
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
            Of one user or many: `recommend`, `transform`, `predict`, `predict_interval` and every other method that
            predicts pairs take it.

        Raises
        ------
        ValueError, TypeError
            A missing user id; otherwise as `fit`. An item that is missing or was not seen is the prior's; `on_unseen`
            says whether of items that were not seen something is said.
        """
        import pandas as pd

        check_is_fitted(self)
        columns = id_columns(self, X, False)
        missing = columns[0].isna().to_numpy()
        if missing.any():
            raise ValueError(f"the user id in row {int(np.argmax(missing))} of X is missing: whose posterior is it?")
        y = self._targets(self.likelihood_, columns, y, fresh=False)  # type: ignore[attr-defined]
        weight = check_row_values(sample_weight, len(y), "sample_weight", weights=True)
        self._check_known("items", columns[1], f"items in column {columns[1].name!r} of X")
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
        with _parallel.working():
            for _ in range(FOLD_STEPS):
                block = by_side.moved(problem, state, "users", said).block
                change = block.kl_by_plate(state.q["users"].precise()).max()
                state.q["users"] = block
                if change < FOLD_TOL:
                    break
        known = data.sides["users"]
        where = positions(self.items_, pd.Series(items, dtype=object))[known.other]
        rated = known.chosen(where >= 0).starts, where[where >= 0]
        return FoldedUsers(np.asarray(ids), state.q["users"], self._k, rated, self._mark)

    @property
    def _mark(self) -> tuple[Any, ...]:
        """What tells this fit from another one, in files and copies too."""
        level = getattr(self, "global_bias_", None)
        return self.n_steps_, self.n_samples_seen_, self.lower_bound_, level, len(self.items_), self._k

    def _check_folded(self, users: FoldedUsers) -> None:
        """An error where users belong to another fit: its factors mean something else."""
        check_is_fitted(self)
        if users._fit != self._mark:
            raise ValueError(
                f"{users!r} were folded into another fit than this one, whose factors mean something else: call "
                "fold_in again after fit or partial_fit."
            )

    def _asked(self, X: Any, needed: Any = SIDES) -> tuple[tuple[Any, Any], FoldedUsers | None]:
        """Columns of users and items, and the users where they are folded in; told of strangers among those needed."""
        import pandas as pd

        check_is_fitted(self)
        if isinstance(X, FoldedUsers):
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
