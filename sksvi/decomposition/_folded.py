"""Users folded in after a fit: their posterior with the items held fixed, and the pairs to be predicted for them."""

from __future__ import annotations

from typing import Any

import numpy as np

from sksvi.decomposition._pairs import FoldedIds
from sksvi.families import Gamma, GaussianPlates

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
    draws : ndarray of shape (n, S, F) or None
        Draws of factors and bias, each given a draw of the items.

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
        self,
        ids: Array,
        posterior: GaussianPlates,
        n_components: int,
        rated: tuple[Array, Array],
        fit: tuple[Any, ...],
        draws: Array | None = None,
    ) -> None:
        super().__init__(ids, posterior, rated, fit, draws)
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


class FoldedCounts(FoldedIds):
    """Posterior of users that were not in a fit, or had fewer counts there; `PoissonFactorization.fold_in` makes it.

    It goes where users or pairs go, in `recommend`, `transform`, `predict`, `predict_interval` and every other method
    that predicts pairs: by itself it stands for each user with every item of the fit, `pairs` chooses others.

    Parameters
    ----------
    ids : ndarray of shape (n,)
    posterior : Gamma
        Of factors, a row for each user.
    rated : tuple of ndarray, (n + 1,) and (m,)
        Where each user's items begin, and positions of the items that were counted.
    fit : tuple
        What tells the fit that they belong to from another one.
    draws : ndarray of shape (n, S, K) or None
        Draws of factors, each given a draw of the items.

    Attributes
    ----------
    ids : ndarray of shape (n,)
        In the order in which they came.
    mean, std : ndarray of shape (n, K)
        Of the factors.

    Examples
    --------
    >>> from sksvi import PoissonFactorization
    >>> plays = [(user, item) for user in "abcdef" for item in range(6) if (user in "ace") == item % 2]
    >>> model = PoissonFactorization(n_components=2, random_state=0).fit(plays)
    >>> guests = model.fold_in([("new", 1), ("new", 3), ("other", 0)])
    >>> guests
    FoldedCounts of 2: 'new', 'other'
    >>> model.recommend(guests, n=1)[["user", "item"]].values.tolist()
    [['new', 5], ['other', 2]]
    >>> model.predict(guests).shape, guests.mean.shape
    ((12,), (2, 2))
    """

    _posterior: Gamma
