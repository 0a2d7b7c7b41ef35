"""Poisson factorization of a table of pairs: who had what, and how often."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self, cast

import numpy as np
import scipy.sparse as sp
from sklearn.base import _fit_context

from sksvi._typing.arrays import ArrayLike, DataFrame, MatrixLike, PerRow, RandomState
from sksvi._typing.parameters import AlgorithmLike, ExpectationLike
from sksvi.callbacks import FitMonitor
from sksvi.decomposition._gamma_fit import PoissonFit, in_order
from sksvi.decomposition._pair_count_encoding import CountedPairs, CountRecord, PairCountEncoding, items_of
from sksvi.decomposition._pair_counts import PairCounts
from sksvi.estimators.encoding import GivenRows, Part
from sksvi.estimators.refit import ANEW, STREAMED, UNCHECKED, given_or_not, stays
from sksvi.estimators.unseen import ON_UNSEEN
from sksvi.estimators.validation import StrOptions, with_own_methods
from sksvi.families import Gamma, Point
from sksvi.families.base import Message
from sksvi.inference import plan, stream
from sksvi.inference.engine import exact_bound
from sksvi.inference.problem import Problem
from sksvi.inference.start import restarted
from sksvi.inference.state import NO_LOCALS, Locals, State
from sksvi.inference.stream_state import StreamState
from sksvi.models.data import Table
from sksvi.models.factorization.columns import SIDES
from sksvi.models.nmf.cells import CountMatrix, table
from sksvi.models.nmf.overdispersed import OverdispersedPoisson, dispersion_gain, jump
from sksvi.models.nmf.poisson import GammaPoisson
from sksvi.models.nmf.side_information import Columns, SideInformation

Array = np.ndarray

#: No population's size: all pairs of users and items are data, those that are absent zeros.
WITHOUT = ("total_samples",)


#: All counts are fitted together once the pairs that came since make up this share of them, and begin anew (`ANEW`).
#: Last.fm in 10 and 50 chunks at random, users' recall at 20 items (fit to all: 0.193): without either 0.118 and 0.085,
#: without beginning anew 0.178 and 0.144 to 0.166, with both 0.184 and 0.187.
SHARE = 0.25


@with_own_methods
class PoissonFactorization(PairCounts):
    """Factorization of counts of pairs (user, item), of which those that are absent are zeros.

    y_ui ~ Poisson(Σ_k H_uk W_ki) for every user and every item of the fit, with W_ki ~ Gamma(component_shape,
    ``component_rate_``) and H_uk ~ Gamma(activation_shape, ``activation_rate_``): the model of
    :class:`GammaPoissonFactorization` with ``bound="auxiliary"``, and its fit to the matrix of users by items, for
    plays, clicks and purchases as they are stored. Zeros are data, and cost nothing: a pass visits the pairs alone. In
    the place of the priors of hierarchical Poisson factorization (Gopalan, Hofman and Blei 2015), with a rate for each
    user and item, there is one rate for all users and one for all items, learned from the data. Counts that vary more,
    as plays do, are negative binomial with the same means and a learned variance, ``dispersion_`` times the mean: sums
    of jumps, whose number is Poisson. What is known of users and items may move their prior means (`user_features`).

    Parameters
    ----------
    n_components : int, default=20
        Components K.
    component_shape : float, default=0.3
        Shape of the Gamma prior of each component's items: the smaller, the fewer items it has.
    activation_shape : float, default=0.3
        Shape of the Gamma prior of users' factors: the smaller, the fewer components a user has.
    overdispersion : {"auto", "none", "negative-binomial"}, default="auto"
        Whether counts vary more than Poisson ones. "auto": `fit` begins with "none", and where whole counts have a
        larger bound under "negative-binomial", by more than the logarithm of their number, begins anew with that.
    user_features, item_features : DataFrame, default=None
        Numbers, indexed by id: log prior means of factors are linear in them, log E H_uk = log(activation_shape /
        ``activation_rate_``) + x_uᵀ w_k, a gamma regression with a log link (McCullagh and Nelder 1989; side
        information of Poisson factors: Hu, Rai and Carin 2016). Coefficients have a Gaussian posterior, and each column
        a learned prior precision, which shrinks one that says nothing away. So users and items without counts are
        predicted from what is known of them. Columns are standardised; a missing value or row counts as the mean.
        Shapes are those of what features leave: where these say much, larger ones than 0.3 may predict better.
    on_unseen : {"warn", "ignore", "error"}, default="warn"
        What is said of users and items to be predicted that neither the fit nor a table of features has. "warn": a
        warning, with ids of both sides, where a column has several and none of them is known, or one of another type
        than all of the fit ("501" where that had 501); single new ids are ordinary. "error": any of them is refused.
        The same values say what is said of a table of features without a row for most ids of the fit, and of items of
        another type that a warm start would add. Missing ids are never told of.
    init : {"groups", "rows", "random"} or array-like of shape (n_components, n_items), default="groups"
        First components: means of groups of users alike (k-means) or users that differ, with all users in a step half
        as many again, of which those alike are merged after a few passes; noise; or given ones.
    uncertainty : {"corrected", "variational"}, default="corrected"
        "corrected": `fit` ends with sweeps of conditional draws that begin at q: which component each count came from,
        users, components, and what these share. Means stay those of q, variances are mean squares of draws about
        them. There are 120 sweeps where these are quick (counts other than 0 times components up to 170,000), else as
        many as take about the time of the fit, but at least 40; none where one visits more than 50 million and the fit
        took few passes. "variational": the variances of q, which are too small. So it is after `partial_fit`.
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
    dispersion_ : float
        Variance of a count over its mean, given both factors: 1 where counts are Poisson.
    draws_ : JointDraws or None
        Draws that variances are of, single precision: ``users`` (n_users, S, K), ``items``; ``n_draws``,
        and ``k_hats``, how far q is from them. None: variances are those of q.
    posterior_ : Posterior
        Blocks ``users`` (n_users, K) and ``components`` (K, n_items); with features ``activation_coefficients`` and
        ``component_coefficients``, a Gaussian per component over the columns of users and of items.
    lower_bound_, lower_bounds_ : float, ndarray
        Bound on the log evidence at `posterior_` and per pass, nats.
    history_ : DataFrame
        One row per pass.
    n_iter_, n_steps_, n_samples_seen_, converged_ : int, int, float, bool
    target_name_ : str
        Name of y, where it is a named Series.
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
    or a missing one (None, NaN), is predicted from the prior. An item that a row with y = 0 names has had its chances
    with all users: what nobody could have yet is left out. In ``partial_fit`` new users and items join, and what a pair
    has adds to what it had. The chunk is fitted beside what earlier counts were split into, and together with all
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
    ['user', 'song', 'rank', 'score', 'mean', 'std']
    """

    LAYOUT = f"""{PoissonFit.LAYOUT}
        users_ labels U; items_ labels I; components_ (k,I); posterior_._blocks.users.mean (U,k)
        dispersion_? number >=1
        posterior_._blocks.activation_coefficients? Gaussian where len(it.mean) == k
        posterior_._blocks.component_coefficients? Gaussian where len(it.mean) == k
        seen_? items 2; seen_[0]? (U+1) i cuts e; seen_[1]? (e) i <I
        _counted CountRecord; draws_? JointDraws; draws_.items? (I,_,k) x; draws_.users? (U,_,k) x
        _counted.counts where len(it) == (0 if self.seen_ is None else len(self.seen_[1]))
    """

    _columns_called = "items"
    _numbers_of_row = 5.0
    _fractions = (
        "y",
        "values",
        "Multiply y by what makes counts of it, or leave sample_weight out where weights made the fractions.",
    )
    _encoding_class = PairCountEncoding
    _parameter_constraints: dict[str, list[Any]] = {
        **{name: rule for name, rule in PoissonFit._parameter_constraints.items() if name not in WITHOUT},
        "on_unseen": [StrOptions(set(ON_UNSEEN))],
        "overdispersion": [StrOptions({"auto", "none", "negative-binomial"})],
        "user_features": [None, object],
        "item_features": [None, object],
    }
    _changes = {
        **{name: change for name, change in {**STREAMED, **PoissonFit._changes}.items() if name not in WITHOUT},
        "on_unseen": UNCHECKED,
        "overdispersion": stays("components count the events of the first fit"),
        "user_features": stays("the prior of factors has weights for them, or none", given_or_not),
        "item_features": stays("the prior of factors has weights for them, or none", given_or_not),
    }

    def __init__(
        self,
        n_components: int = 20,
        *,
        component_shape: float = 0.3,
        activation_shape: float = 0.3,
        overdispersion: str = "auto",
        user_features: DataFrame | None = None,
        item_features: DataFrame | None = None,
        on_unseen: str = "warn",
        init: str | ArrayLike = "groups",
        uncertainty: str = "corrected",
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
        self.overdispersion = overdispersion
        self.user_features = user_features
        self.item_features = item_features
        self.on_unseen = on_unseen
        self.init = init
        self.uncertainty = uncertainty
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
            An id that is missing, negative or infinite counts, bad weights or features, and an `init` of another shape.
        """
        return self._fit(X, y, sample_weight, None)

    def _encoded(self, given: GivenRows, fresh: bool, part: Part) -> CountedPairs:
        data: CountedPairs = super()._encoded(given, fresh, part)
        data = replace(data, X=self._with_columns(data.X, self.users_))
        found = data.X
        if fresh:
            self.dispersion_ = 1.0
            self._encoding = replace(self._encoding, mean=found.mean or 1.0)
            self._counted = CountRecord(began_with=found.counts.nnz)
        earlier = 0.0 if part.whole or fresh else self.n_samples_seen_
        self._counted = replace(self._counted, n_rows=earlier + data.total_weight)
        if part.whole or fresh:
            self.seen_, self._counted = items_of(found), replace(self._counted, counts=found.counts.data, waiting=0)
        else:
            self._remember(found, self._fade(data.total_weight))
        return data

    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X: MatrixLike, y: PerRow | None = None, sample_weight: PerRow | None = None) -> Self:
        """Go on with more counts, of users and items old or new.

        Parameters
        ----------
        X : {DataFrame, array-like} of shape (n, 2)
            User id and item id of each row. What a pair has here adds to what it had.
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
            As `fit`; after a fit that was cut off.
        """
        return self._partial_fit(X, y, sample_weight, None)

    # ---- counts that vary more than Poisson ones
    def _model(self, n_features: int) -> GammaPoisson:
        of_users, of_items = (self._features_of(side) for side in SIDES)
        cells = None if of_items is None else Columns(of_items.of(self.items_[:n_features]))
        side = SideInformation(0 if of_users is None else len(of_users.columns), cells)
        return self._forming_model(n_features).replaced(side=side)

    def _forming_model(self, n_features: int) -> GammaPoisson:
        overdispersed = self.overdispersion == "negative-binomial" or self._dispersion > 1.0
        return self._made(OverdispersedPoisson if overdispersed else GammaPoisson, n_features)

    def _after_passes(self, problem: Problem, state: State, passes: int, monitor: FitMonitor) -> State:
        """The state of a Poisson fit, or of one anew where counts say by more than chance that they vary more."""
        y = cast(Table, problem.data).X.counts.data
        if self.overdispersion != "auto" or self._dispersion > 1.0 or monitor.stopped:
            return state
        if y.max(initial=0.0) <= 1.0 or np.any(y != np.floor(y)):  # clicks have no spread, and fractions no jumps
            return state
        gain, log_dispersion = dispersion_gain(cast(GammaPoisson, problem.model), problem, state)
        if gain <= np.log(len(y)):
            return state
        self.dispersion_ = float(np.exp(log_dispersion))
        anew = self._problem(*self._build_model(cast(Table, problem.data)))
        more = self._most_passes()
        return plan.run(anew, self._new_state(anew), more, self.tol, lambda now: monitor.pass_end(now.history[-1]))

    def _expose(self, model: Any, state: State) -> None:
        q, own = state.q, state.q.get("dispersion")
        if own is not None:
            log_dispersion = float(np.exp(own.value[0]))
            self.dispersion_ = float(np.exp(log_dispersion))
            unit, events = jump(log_dispersion), q["components"]
            rate = Point(q["component_rate"].value - np.log(unit))
            q = {**q, "components": Gamma(events.shape, events.rate / unit), "component_rate": rate}
        super()._expose(model, replace(state, q=q))

    # ---- streams
    def _build_model(self, data: Table) -> tuple[GammaPoisson, Table]:
        return self._model(data.X.shape[1]), table(data.X)

    def _absorbed(
        self, data: CountedPairs, first: bool, new_weight: float, fade: float, counted: float
    ) -> tuple[GammaPoisson, State]:
        """A fit of the chunk beside what earlier ones counted, or of all counts where enough pairs are new."""
        self._check_memory(data)
        problem, before = self._problem(*self._build_model(data)), None if first else self.state_
        if before is None:
            state = self._new_state(problem)
        elif self._refit_due(data):
            problem, state = self._with_all(problem, before)
        else:
            problem, state = self._beside(problem, data.X, before, fade)
        state = stream.as_one_pass(problem, state, before, new_weight, self._most_passes(), self.tol)
        self._counted = replace(self._counted, chunk=cast(Table, problem.data).X)
        return cast(GammaPoisson, problem.model), replace(state, counted=counted)

    # ---- all counts at once
    def _refit_due(self, data: Table) -> bool:
        """Whether enough new pairs have arrived for a refit to all pairs together, if the fit still has these."""
        waiting, overdispersed = self._counted.waiting + data.X.counts.nnz, self._dispersion > 1.0
        if overdispersed and self.seen_ is None:
            raise ValueError(
                f"counts of this {type(self).__name__} are overdispersed, so that a chunk is fitted together with all "
                "earlier ones, and this one is of a file that was saved with training_rows=False."
            )
        due = self.seen_ is not None and (overdispersed or waiting > SHARE * len(self._counted.counts))
        self._counted = replace(self._counted, waiting=0 if due else waiting)
        return due

    def _with_all(self, problem: Problem, before: State) -> tuple[Problem, State]:
        """Problem of all counts instead of the latest chunk, and its first state: q of the stream, or a new start."""
        found = self._fitted_cells
        problem = plan.changed(problem, data=table(found))
        if found.counts.nnz < ANEW * self._counted.began_with or not isinstance(self.init, str):
            return problem, self._begun(problem, before)
        self._counted = replace(self._counted, began_with=found.counts.nnz)
        self._encoding = replace(self._encoding, mean=found.mean or 1.0)
        problem = plan.changed(problem, model=self._model(found.shape[1]))
        return problem, self._new_state(problem)

    def _begun(self, problem: Problem, before: State) -> State:
        """q of the stream, with new items at the prior."""
        q = {name: self._row_blocks.get(name, block) for name, block in before.q.items()}
        return restarted(problem, State(problem.model.grown(q, problem.data), before.seed))

    # ---- what earlier chunks counted
    def _counts_of(self, side: str) -> Array:
        """Counts of each user (U, K), or item (K, I), from each component: shapes of q over the prior's."""
        shape = self._counted.prior_shapes[int(side == "users")]
        # Steps beyond the best value may leave a shape below the prior's: a cell without counts.
        return np.maximum(self.posterior_[side].shape - shape, 0.0)

    def _beside(self, problem: Problem, found: CountMatrix, before: State, fade: float) -> tuple[Problem, State]:
        """Problem of the latest chunk beside the faded counts of earlier ones, and its first state."""
        of_users, of_items = self._counts_of("users"), self._counts_of("components")
        model, earlier = self._model(of_items.shape[1]), stream_state_of(of_items, 0.0)
        without = CountMatrix(sp.csr_matrix((len(of_users), of_items.shape[1])), before=of_users)
        without = self._with_columns(without, self.users_[: len(of_users)])
        rest = plan.changed(problem, model=model, data=table(without), prior_factors=earlier)
        constant = self.lower_bound_ - exact_bound(rest, self._begun(rest, before))
        n_users, n_items = found.shape
        users = np.zeros((n_users, self._k))
        users[: len(of_users)] = fade * of_users
        items = np.zeros((self._k, n_items))
        items[:, : of_items.shape[1]] = fade * of_items
        data, earlier = table(replace(found, before=users)), stream_state_of(items, fade * constant)
        size = None if self.batch_size == "auto" else problem.batch_size
        problem = plan.changed(problem, data=data, prior_factors=earlier, batch_size=size)
        return problem, self._begun(problem, before)

    def _remember(self, found: CountMatrix, fade: float) -> None:
        """Which counts users have, in this chunk and in earlier ones: for `recommend` and `fold_in`."""
        if self.seen_ is None:  # of a file without training rows: what was counted before is not known
            return
        starts, items = self.seen_
        starts = np.concatenate([starts, np.full(found.shape[0] + 1 - len(starts), starts[-1])])
        counts = sp.csr_matrix((fade * self._counted.counts, items, starts), shape=found.shape) + found.counts
        counts.eliminate_zeros()
        counts.sort_indices()
        self.seen_, self._counted = items_of(CountMatrix(counts)), replace(self._counted, counts=counts.data)

    # ---- what a fit leaves behind
    def _finish(self, model: Any, state: State, weight: float, bounds: Array | None = None) -> None:
        super()._finish(model, state, self._counted.n_rows, bounds)
        chunk = self._counted.chunk
        found = self._fitted_cells if chunk is None else chunk
        order = in_order((state.shown["components"].shape - float(self.component_shape)).sum(1))[1]
        if found.before is not None:
            found = replace(found, before=found.before[:, order])
        # A user may have several ways to split counts: users and items have the fit's, or a stream goes on from two.
        start = state.locals.values[:, order] if isinstance(state.locals, Locals) else None
        self.posterior_ = type(self.posterior_)({"users": Gamma(*self._activations(found, start)), **self.posterior_})
        shapes = np.array([self.component_shape, self.activation_shape], float)
        self._counted = replace(self._counted, prior_shapes=shapes, chunk=None)
        if chunk is not None:
            self.state_ = replace(self.state_, locals=NO_LOCALS)

    def _without_rows(self) -> Any:
        bare = super()._without_rows()
        bare._counted = replace(self._counted, counts=np.zeros(0))
        return bare

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.string = tags.input_tags.categorical = True
        return tags


def stream_state_of(counts: Array, constant: float) -> StreamState:
    """Stream state from expected counts (K, I) of earlier chunks: natural parameters that they add to the components.

    The exposure adds nothing: components are exposed to all users, of whatever chunk.
    """
    return StreamState({"components": Message((np.stack([counts, np.zeros_like(counts)], -1),))}, constant)
