"""Users folded in after a fit: their posterior with the items held fixed, and the pairs to be predicted for them."""

from __future__ import annotations

from typing import Any

import numpy as np

from sksvi._runtime import parallel
from sksvi._typing.arrays import MatrixLike, PerRow
from sksvi.algorithms import MCSSVI
from sksvi.decomposition._ids import positions
from sksvi.decomposition._pairs import FoldedIds, PairMethods
from sksvi.estimators.checks import check_row_values
from sksvi.families import GaussianPlates
from sksvi.inference import plan
from sksvi.inference.memory.factors import BlockFactors
from sksvi.inference.passes import alternating
from sksvi.inference.state import State
from sksvi.models.factorization.ratings import Ratings

Array = np.ndarray

#: Steps of a folded-in column at most, and the divergence of a step (nats) below which it has settled.
FOLD_STEPS, FOLD_TOL = 100, 1e-6


class FoldedUsers(FoldedIds):
    """Posterior of users that were not in a fit, or had fewer ratings there; `GeneralizedPMF.fold_in` makes it.

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

    _posterior: GaussianPlates

    def __init__(
        self, ids: Array, posterior: GaussianPlates, n_components: int, rated: tuple[Array, Array], fit: tuple[Any, ...]
    ) -> None:
        super().__init__(ids, posterior, rated, fit)
        self._k = n_components

    @property
    def _factors(self) -> GaussianPlates:
        return self._posterior.leading(self._k)

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


class FoldingMethods(PairMethods):
    """Needs the plates of ids (`_rows`), the fitted model and its targets."""

    likelihood_: Any
    _blocks: dict[str, GaussianPlates]
    _model: Any
    _rows: Any
    n_jobs: Any

    _at_hand: tuple[str, ...] = ("fold_in",)

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

        columns = self._to_fold(X)
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
        prior_factors = BlockFactors({"users": q["users"].over(prior)})
        data = Ratings(codes, others, y, weight, len(ids), len(items))
        problem = plan.problem(model, data, MCSSVI(), threads=parallel.n_threads(self.n_jobs))
        state = State(q, 0)
        with parallel.working():
            for _ in range(FOLD_STEPS):
                block = alternating.half_sweep(problem, state, "users", prior_factors).block
                change = block.kl_by_plate(state.q["users"].natural_form()).max()
                state.q["users"] = block
                if change < FOLD_TOL:
                    break
        entries = data.sides["users"]
        where = positions(self.items_, pd.Series(items, dtype=object))[entries.other]
        rated = entries.chosen(where >= 0).starts, where[where >= 0]
        return FoldedUsers(np.asarray(ids), state.q["users"], self._k, rated, self._mark)

    @property
    def _mark(self) -> tuple[Any, ...]:
        """Numbers that identify this fit: those of every estimator of pairs, and the constant of f."""
        return (*super()._mark, getattr(self, "global_bias_", None))
