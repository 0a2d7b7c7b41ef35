"""Poisson factorization of a table of pairs: who had what, and how often."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import _fit_context

from sksvi._typing.arrays import ArrayLike, MatrixLike, PerRow, RandomState
from sksvi._typing.parameters import AlgorithmLike, ExpectationLike
from sksvi.decomposition._ids import id_columns
from sksvi.decomposition._pair_counts import items_of
from sksvi.decomposition._pair_stream import PairStream
from sksvi.estimators.refit import STREAMED, UNCHECKED
from sksvi.estimators.stage import Stage
from sksvi.estimators.summary_text import counted
from sksvi.estimators.unseen import ON_UNSEEN
from sksvi.estimators.validation import StrOptions, with_own_methods
from sksvi.families import Gamma
from sksvi.inference.state import State
from sksvi.models.base import Table
from sksvi.models.nmf.cells import table

Array = np.ndarray

#: No population's size: all pairs of users and items are data, those that are absent zeros.
WITHOUT = ("total_samples",)


@with_own_methods
class PoissonFactorization(PairStream):
    """Factorization of counts of pairs (user, item), of which those that are absent are zeros.

    y_ui ~ Poisson(Σ_k H_uk W_ki) for every user and every item of the fit, with W_ki ~ Gamma(component_shape,
    ``component_rate_``) and H_uk ~ Gamma(activation_shape, ``activation_rate_``): the model of
    :class:`GammaPoissonFactorization` with ``bound="auxiliary"``, and its fit to the matrix of users by items, for
    plays, clicks and purchases as they are stored. Zeros are data, and cost nothing: a pass visits the pairs alone. In
    the place of the priors of hierarchical Poisson factorization (Gopalan, Hofman and Blei 2015), with a rate for each
    user and item, there is one rate for all users and one for all items, learned from the data.

    Parameters
    ----------
    n_components : int, default=20
        Components K.
    component_shape : float, default=0.3
        Shape of the Gamma prior of each component's items: the smaller, the fewer items it has.
    activation_shape : float, default=0.3
        Shape of the Gamma prior of users' factors: the smaller, the fewer components a user has.
    on_unseen : {"warn", "ignore", "error"}, default="warn"
        What is said of users and items to be predicted that the fit has not seen. "warn": a warning, with ids of both
        sides, where a column has several and none of them is known, or one of another type than all of the fit ("501"
        where that had 501); single new ids are ordinary. "error": any of them is refused. The same values say what is
        said of items of another type that a warm start would add. Missing ids are never told of.
    init : {"groups", "rows", "random"} or array-like of shape (n_components, n_items), default="groups"
        First components: means of groups of users alike (k-means) or users that differ, with all users in a step half
        as many again, of which those alike are merged after a few passes; noise; or given ones.
    algorithm : {"cvi", "svi", "mc-ssvi", "ssvi-a"} or Algorithm, default="cvi"
        How users see components: by expectations ("cvi", also called "svi") or by draws ("mc-ssvi", also called
        "ssvi-a").
    expectation : str or Expectation, default="auto"
        Every expectation of this model has a closed form: all values do the same.
    batch_size : int, "auto" or None, default="auto"
        Users per step; "auto": all up to 20,000, else 100.
    max_iter : int, default=200
        Most passes over the data.
    tol : float, default=1e-4
        Relative change of the bound at which the fit stops.
    forgetting : float, default=1.0
        Share, in (0, 1], of every earlier count that each `partial_fit` keeps, as if its row had that weight.
    half_life : float, default=None
        The same in rows: a count is halved when so much weight has come since. At most one of the two.
    n_jobs : int or None, default=None
        Threads; never changes a bit of the result.
    warm_start : bool, default=False
        Whether ``fit`` goes on from the last one. X are all pairs then, not those that are new; users are those of X,
        and items that are new join the others at their prior.
    random_state : int, RandomState or None, default=None
        Seed.
    verbose : int, default=0
        1: a progress bar.

    Attributes
    ----------
    users_, items_ : ndarray of shape (n_users,), (n_items,)
        Ids, in the order of the factors.
    components_ : ndarray of shape (K, n_items)
        Posterior mean of the components, those with the largest share first.
    component_shares_ : ndarray of shape (K,)
        Share of all counts that each explains.
    n_components_ : int
        Number of components.
    user_factors_, item_factors_ : ndarray of shape (n_users, K), (n_items, K)
        Posterior means; those of items are ``components_.T``.
    user_covariance_, item_covariance_ : ndarray of shape (n_users, K), (n_items, K)
        Posterior variances, those of users given the components. Formed when read.
    activation_rate_, component_rate_ : float
        Learned rates of the priors of users' factors and components.
    posterior_ : Posterior
        Blocks ``users`` (n_users, K) and ``components`` (K, n_items).
    lower_bound_, lower_bounds_ : float, ndarray
        Bound on the log evidence at `posterior_` and per pass, nats.
    history_ : DataFrame
        One row per pass.
    n_iter_, n_steps_, n_samples_seen_, converged_ : int, int, float, bool
    n_features_in_, feature_names_in_ : int, ndarray
        2, and the names of the two columns.

    See Also
    --------
    sksvi.GammaPoissonFactorization : The same of a table, a row per user; missing cells, chunks, another bound.
    sksvi.GeneralizedPMF : Pairs that are absent say nothing; ratings, measurements, labels.

    Notes
    -----
    A pair that occurs several times adds up. A row of weight w stands for w copies of it: it adds w y to the count of
    its pair. A pair with y = 0 is one that is absent, but for naming a user or an item. An id that the fit did not see,
    or a missing one (None, NaN), is predicted from the prior. In ``partial_fit`` new users and items join, and what a
    pair has adds to what it had. The chunk is fitted beside what earlier counts were split into, and together with all
    of them once a quarter of the pairs has come since that was done last; so the counts are kept. With
    ``save(training_rows=False)`` they stay behind, and every later chunk is fitted beside the others.

    Examples
    --------
    >>> import pandas as pd
    >>> from sksvi import PoissonFactorization
    >>> plays = pd.DataFrame({"user": list("aabbccdd"), "song": list("xyxyzwzw"), "times": [5, 2, 3, 4, 6, 1, 2, 2]})
    >>> model = PoissonFactorization(n_components=2, random_state=0).fit(plays[["user", "song"]], plays["times"])
    >>> model.user_factors_.shape, model.components_.shape
    ((4, 2), (2, 4))
    >>> bool(model.predict([("a", "y")])[0] > model.predict([("a", "w")])[0])
    True
    >>> model.recommend(["a"], n=1).columns.tolist()
    ['user', 'song', 'rank', 'mean', 'std']
    """

    _columns_called = "items"
    _numbers_of_row = 5.0
    _at_hand: tuple[str, ...] = ("fold_in", "score", "summary_text")
    _fractions = (
        "y",
        "values",
        "Multiply y by what makes counts of it, or leave sample_weight out where weights made the fractions.",
    )
    _dtype = "float64"
    _parameter_constraints: dict[str, list[Any]] = {
        **{name: rule for name, rule in PairStream._parameter_constraints.items() if name not in WITHOUT},
        "on_unseen": [StrOptions(set(ON_UNSEEN))],
    }
    _changes = {
        **{name: change for name, change in {**STREAMED, **PairStream._changes}.items() if name not in WITHOUT},
        "on_unseen": UNCHECKED,
    }

    def __init__(
        self,
        n_components: int = 20,
        *,
        component_shape: float = 0.3,
        activation_shape: float = 0.3,
        on_unseen: str = "warn",
        init: str | ArrayLike = "groups",
        algorithm: AlgorithmLike = "cvi",
        expectation: ExpectationLike = "auto",
        batch_size: int | str | None = "auto",
        max_iter: int = 200,
        tol: float = 1e-4,
        forgetting: float = 1.0,
        half_life: float | None = None,
        n_jobs: int | None = None,
        warm_start: bool = False,
        random_state: RandomState = None,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.component_shape = component_shape
        self.activation_shape = activation_shape
        self.on_unseen = on_unseen
        self.init = init
        self.algorithm = algorithm
        self.expectation = expectation
        self.batch_size = batch_size
        self.max_iter = max_iter
        self.tol = tol
        self.forgetting = forgetting
        self.half_life = half_life
        self.n_jobs = n_jobs
        self.warm_start = warm_start
        self.random_state = random_state
        self.verbose = verbose

    # ---- fitting
    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: MatrixLike, y: PerRow | None = None, sample_weight: PerRow | None = None) -> Self:
        """Fit to pairs.

        Parameters
        ----------
        X : {DataFrame, array-like} of shape (n, 2)
            User id and item id of each row, of any hashable type.
        y : array-like of shape (n,), default=None
            Counts, or other numbers that are not negative; None: every row counts once.
        sample_weight : array-like of shape (n,), default=None
            A row of weight w counts as w rows: it adds w y to its pair.

        Returns
        -------
        self : object
            The estimator itself.

        Raises
        ------
        ValueError, TypeError
            An id that is missing, negative or infinite counts, bad weights, and an `init` of another shape.
        """
        return self._fit(X, y, sample_weight, None)

    def _encode(self, X: Any, y: Any, sample_weight: Any, offset: Any, start: Stage) -> Table:
        columns = id_columns(self, X, start.fresh)
        for side, column in zip(("user", "item"), columns, strict=True):
            missing = column.isna().to_numpy()
            if missing.any():
                raise ValueError(
                    f"the {side} id in row {int(np.argmax(missing))} of X is missing: a count belongs to a user and an "
                    "item, and all other pairs are zeros. Leave the row out."
                )
        columns, counts = self._events(columns, y, sample_weight)
        more = start.portion and not start.fresh
        self.users_ = self._added("users", columns[0], self.users_ if more else None)
        self.items_ = self._added("items", columns[1], None if start.fresh else self.items_)
        found = self._table(columns, counts, self.users_)
        self._n_rows = float(len(counts) if sample_weight is None else np.sum(sample_weight))
        if more:
            self._remember(found, self._fade(self._n_rows))
        else:
            self.seen_, self._seen_counts, self._waiting = items_of(found), found.counts.data, 0
            self._began_with = found.counts.nnz if start.fresh else self._began_with
        if start.fresh:
            self._fix_mean(found.mean or 1.0)
        else:
            self._check_choices()
        return table(found)

    def _finish(self, model: Any, state: State, weight: float) -> None:
        super()._finish(model, state, self._n_rows)  # rows of X; those of the engine are users

    # ---- what a fit leaves behind
    def _without_rows(self) -> Any:
        bare = super()._without_rows()
        bare._seen_counts = np.zeros(0)
        return bare

    @property
    def _k(self) -> int:
        """Components of the fit."""
        return self.n_components_

    @property
    def user_factors_(self) -> Array:
        """Posterior means, (n_users, K)."""
        return self._fitted("users").mean

    @property
    def item_factors_(self) -> Array:
        """Posterior means, (n_items, K)."""
        return self._fitted("items").mean

    @property
    def user_covariance_(self) -> Array:
        """Posterior variances, (n_users, K)."""
        return self._fitted("users").variance

    @property
    def item_covariance_(self) -> Array:
        """Posterior variances, (n_items, K)."""
        return self._fitted("items").variance

    def _fitted(self, side: str) -> Gamma:
        if not hasattr(self, "posterior_"):
            raise AttributeError(f"{type(self).__name__} has no {side} to show: it is not fitted.")
        return self._block(side)

    def _data_header(self) -> list[tuple[str, str]]:
        sides = [(side, f"{len(ids):,}") for side, ids in (("users", self.users_), ("items", self.items_))]
        return [("rows", counted(self.n_samples_seen_)), *sides, ("components", str(self._k))]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.string = tags.input_tags.categorical = True
        return tags
