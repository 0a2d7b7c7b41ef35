"""Users folded in after a fit to counts of pairs: their posterior with the items held fixed."""

from __future__ import annotations

import numpy as np

from sksvi.decomposition._pairs import FoldedIds
from sksvi.families import Gamma

Array = np.ndarray


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
