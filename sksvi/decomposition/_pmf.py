"""Probabilistic matrix factorization with any scalar likelihood."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from numbers import Integral, Real
from typing import Any, cast

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin, _fit_context, clone
from sklearn.utils._param_validation import Interval
from sklearn.utils.metaestimators import available_if

from sksvi import algorithms, likelihoods
from sksvi._runtime import memory, parallel
from sksvi._typing.arrays import DataFrame, MatrixLike, PerRow, RandomState
from sksvi._typing.parameters import AlgorithmLike, ExpectationLike, LikelihoodLike
from sksvi.decomposition._joint_draws import JointDraws, chain_length, draws_bytes
from sksvi.decomposition._pmf_encoding import PairEncoding
from sksvi.decomposition._rating_methods import RatingMethods
from sksvi.estimators import refit
from sksvi.estimators.base import BatchRule
from sksvi.estimators.encoding import PARTITION, GivenRows, Part
from sksvi.estimators.first_rows import FirstRows
from sksvi.estimators.offsets import offset_of
from sksvi.estimators.unseen import ON_UNSEEN
from sksvi.estimators.validation import StrOptions, with_own_methods
from sksvi.inference.problem import Problem
from sksvi.inference.search import EvaluationBudget
from sksvi.inference.start import without_new_plates
from sksvi.inference.state import State
from sksvi.models.chains import UNCERTAINTY
from sksvi.models.factorization.chain import FactorChain, draws_of
from sksvi.models.factorization.columns import SIDES
from sksvi.models.factorization.gaussian import FEWEST, FactorModel
from sksvi.models.factorization.ratings import Ratings, ratings_on_disk
from sksvi.partitions.collections import aligned, drop_zero_weight, is_collection
from sksvi.partitions.encoded import PartReader, bare, named, summary_of
from sksvi.partitions.executor import Executor
from sksvi.partitions.summary import DataSummary
from sksvi.predictive import Predictive

Array = np.ndarray

#: A warm fit to so many times the ratings that were asked last which factors they need asks again.
GROWN = 1.1
#: Ratings of a user or an item, about, that say what its factors are: what fewer say is read while nothing is known of
#: either side, and leaves factors near zero, where later ones find nothing to go on from.
EACH = 15


def _has_classes(model: Any) -> bool:
    """Whether the likelihood gives a probability to each of several levels."""
    spec = getattr(model, "likelihood_", None) or likelihoods.resolve(model.likelihood)
    return bool(spec.traits.ordered or spec.traits.classifies)


@with_own_methods
class GeneralizedPMF(RatingMethods, ClassNamePrefixFeaturesOutMixin, TransformerMixin, FirstRows):
    """Factorization of a sparsely observed matrix, with a posterior over users and items.

    y_ij | f_ij ~ likelihood with f_ij = b + b_i + c_j + u_iᵀv_j, Gaussian priors on factors and biases whose variances
    are learned, and q = Π N(u_i, b_i) Π N(v_j, c_j) that maximises the bound (Sheth and Khardon 2016, section 4.3;
    equations in the user guide).

    Parameters
    ----------
    n_components : int, default=20
        Factors K, of which as many begin as a user or an item has ratings, three at least; those that the data do not
        need are shrunk to zero by their learned variances.
    likelihood : str or instance, default="gaussian"
        "gaussian", "student-t", "poisson" (exp), "poisson-softplus", "negative-binomial", "logit", "probit" (y 0 or
        1), "ordinal" (levels are numbers, or the names of an ordered Categorical), "gamma", "inverse-gaussian",
        "log-normal", "weibull", "log-logistic" or "exponential" (y > 0), "tweedie" (y >= 0), "beta" (0 < y < 1),
        "zero-inflated-poisson", "zero-inflated-negative-binomial", "hurdle-poisson" or "hurdle-negative-binomial".
        Scales are learned unless the instance has a number.
    biases : bool, default=True
        Whether there are a global, a user's and an item's bias.
    user_features, item_features : DataFrame, default=None
        Numbers, indexed by id: the prior mean of factors and biases is linear in them, with learned coefficients, so
        that users and items without ratings are predicted from what is known of them. Columns are standardised; a
        missing value or row counts as the mean.
    zero_weight : float, default=None
        For implicit feedback, such as clicks with y = 1: every pair of a user and an item counts as a y of 0 of this
        weight besides what X says of it, in closed form at a cost that does not depend on their number (Hu, Koren and
        Volinsky 2008). A `sample_weight` of 1 and a zero_weight of 1/α are their confidence of 1 + α. For a Gaussian
        likelihood, full covariances and `fit` of rows in memory; `fold_in` takes new users.
    prior_covariance : {"diag", "spherical"}, default="diag"
        A prior variance per factor and side, or one for all factors of a side. With full covariances "diag" is as good
        as a full one: the factors are turned to where both sides' moments are diagonal.
    on_unseen : {"warn", "ignore", "error"}, default="warn"
        What is said of users and items to be predicted that neither the fit nor a table of features has. "warn": a
        warning, with ids of both sides, where a column has several and none of them is known, or one of another type
        than all of the fit ("501" where that had 501); single new ids are ordinary. "error": any of them is refused.
        The same values say what is said of a table of features without a row for most ids of the fit, and of ids of
        another type that `partial_fit` or a warm start would add. Missing ids are never told of.
    algorithm : {"cvi", "mc-ssvi", "h-mc-ssvi", "s-dsvi"} or instance, default="cvi"
        The step of a column (a user or an item): natural ("mc-ssvi"); natural with AdaGrad for the mean
        ("h-mc-ssvi"); AdaGrad on mean and Cholesky factor ("s-dsvi"); natural from all entries, in `partial_fit` kept
        apart from what earlier chunks said ("cvi").
    expectation : {"auto", "quadrature", "gauss-hermite", "monte-carlo"} or instance, default="auto"
        "auto", "gauss-hermite": f is Gaussian and the gradient that of this surrogate bound. "quadrature": factors and
        f jointly Gaussian, a curvature nearer to the true bound's. "monte-carlo": draws of the other side.
    covariance : {"full", "diag"}, default="full"
        Of each user's and each item's q.
    uncertainty : {"corrected", "variational"}, default="corrected"
        "corrected": `fit` ends with 120 sweeps of conditional draws that begin at q, of users, items, precisions and
        the likelihood's parameters. Means stay those of q; every variance is the mean square of the draws about them,
        of a pair of those of its user and item together. "variational": that of q, in which users are as sure as if
        items were given, and whose intervals are too short. So it is with ``covariance="diag"``, a zero_weight,
        after `partial_fit`, and where draws would take more than 1 GB and than q.
    batch_size : int, "auto" or None, default="auto"
        Entries per column and step; "auto" and None: all of them.
    max_iter : int, default=100
        Most passes: all users, then all items.
    tol : float, default=1e-4
        The fit stops when the relative change of the bound per pass stays below it.
    total_samples : float, default=None
        Population size for `partial_fit`; None: the weight seen so far.
    forgetting : float, default=1.0
        Share, in (0, 1], of what earlier chunks said that each `partial_fit` keeps: natural parameters decay towards
        the prior.
    half_life : float, default=None
        The same in rows: what was said counts half when so much weight has come since. At most one of the two.
    n_jobs : int, default=None
        Threads over columns; no value changes a bit of the result.
    warm_start : bool, default=False
        `fit` goes on from the last posterior; with a tenth more ratings, factors that were shrunk away begin anew.
    random_state : int, RandomState or None, default=None
        Of the first factors.
    verbose : int, default=0
        1 shows a progress bar.

    Attributes
    ----------
    users_, items_ : ndarray of shape (n_users,), (n_items,)
        Ids, in the order of the factors.
    user_factors_, item_factors_ : ndarray of shape (n_users, K), (n_items, K)
        Posterior means.
    user_covariance_, item_covariance_ : ndarray of shape (n_users, K, K), (n_items, K, K)
        Posterior covariances; variances (n_users, K), (n_items, K) where ``covariance="diag"``. Formed when read.
    user_biases_, item_biases_, global_bias_ : ndarray, ndarray, float
        Posterior means of the biases, with ``biases=True``; an item's bias is less the global one.
    levels_ : ndarray of shape (L,)
        Ordinal: the sorted values of y, or the names of an ordered Categorical in its order; binary: 0 and 1.
    draws_ : JointDraws or None
        Draws that variances are of, single precision: ``users`` (n_users, S, F), ``items``; ``n_draws``, and ``k_hats``
        by side, how far q is from them. None: variances are those of q.
    likelihood_ : Likelihood
        The fitted likelihood, its learned scales as numbers.
    noise_ : float
        Noise variance, dispersion or scale; where the likelihood has one.
    posterior_ : mapping
        ``users``, ``items``: a Gaussian over the factors of each; ``biases``: global, users', items' in one vector.
    lower_bound_, lower_bounds_ : float, ndarray
        Bound at `posterior_` and per pass, nats. Where the likelihood is not Gaussian, f has the Gaussian of the first
        two moments of its q: a surrogate of the bound.
    history_ : DataFrame
        One row per pass.
    n_iter_, n_steps_, n_samples_seen_, converged_ : int, int, float, bool
    target_name_ : str
        Name of y, where it is a named Series.
    n_features_in_, feature_names_in_ : int, ndarray
        2, and the names of the two columns.

    See Also
    --------
    sklearn.decomposition.NMF : Point estimates of a fully observed matrix.

    Notes
    -----
    A pair that occurs twice counts as two observations. An id that the fit did not see, or a missing one (None, NaN),
    is predicted from the prior; `on_unseen` says when that deserves a word. A rating whose user is missing in ``fit``
    is one of a user of its own, whom nobody asks for again: it still says something about the item. Every method that
    predicts pairs also takes what `fold_in` returns.

    Examples
    --------
    >>> import pandas as pd
    >>> from sksvi import GeneralizedPMF
    >>> X = pd.DataFrame({"user": list("aabbccdd"), "film": [1, 2, 1, 3, 2, 3, 1, 2]})
    >>> y = [5, 4, 5, 1, 4, 2, 5, 4]
    >>> model = GeneralizedPMF(n_components=1, random_state=0).fit(X, y)
    >>> bool(model.predict([("d", 3)])[0] < model.predict([("d", 1)])[0])
    True
    """

    LAYOUT = f"""{FirstRows.LAYOUT}
        _record.choices.n_components count k; users_ labels U; items_ labels I
        _encoding.ids.users (U); _encoding.ids.items (I)
        state_.q.users_precision.value (F) f where F == k + bool(self._record.choices['biases'])
        state_.q.items_precision.value (F) f; state_.q.users GaussianPlates; state_.q.items GaussianPlates
        state_.q.users.mean (>=U,F) f where len(it) == U or not self.state_.finished
        state_.q.items.mean (>=I,F) f where len(it) == I or not self.state_.finished
        state_.q.users_mean.value (_,F) f where len(it) == self._encoding.n_coefficients('users')
        state_.q.items_mean.value (a,F) f
        likelihood_.traits.ordered flag ordered
        state_.q.items_mean where a == self._encoding.n_coefficients('items', F > k and not ordered)
        draws_? JointDraws; draws_.users? (U,_,F) x; draws_.items? (I,_,F) x
        seen_? items 2; seen_[0]? (U+1) i cuts e; seen_[1]? (e) i <I
        _first_rows.X? (_,2) f >=-1 where (it == np.floor(it)) & (it < (U, I))
    """

    noise_: float | None

    #: A fit to fewer ratings stays where it has found something, and what it had shrunk away is revived.
    _outgrown_at = np.inf
    _batch_rule = BatchRule()
    _encoding_class = PairEncoding
    _parameter_constraints: dict[str, list[Any]] = {
        **FirstRows._parameter_constraints,
        "algorithm": [StrOptions({"cvi", "mc-ssvi", "h-mc-ssvi", "s-dsvi"}), algorithms.Algorithm],
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "likelihood": [
            StrOptions(set(likelihoods.NAMES - likelihoods.OF_CLASSES - {"binomial", "beta-binomial"})),
            likelihoods.Likelihood,
        ],
        "biases": ["boolean"],
        "user_features": [None, object],
        "item_features": [None, object],
        "zero_weight": [None, Interval(Real, 0, None, closed="neither")],
        "prior_covariance": [StrOptions({"diag", "spherical"})],
        "on_unseen": [StrOptions(set(ON_UNSEEN))],
        "uncertainty": [StrOptions(set(UNCERTAINTY))],
    }
    _changes = {
        **refit.STREAMED,
        "n_components": refit.COMPONENTS,
        "likelihood": refit.LIKELIHOOD,
        "biases": refit.stays("factors have a coordinate for it, or none"),
        "user_features": refit.stays("the prior of factors has weights for them, or none", refit.given_or_not),
        "item_features": refit.stays("the prior of factors has weights for them, or none", refit.given_or_not),
        "zero_weight": refit.stays("every pair has a zero of that weight"),
        "prior_covariance": refit.stays("the prior of factors has that shape"),
        "on_unseen": refit.UNCHECKED,
        "covariance": refit.COVARIANCE,
        "uncertainty": refit.UNCHECKED,
    }

    def __init__(
        self,
        n_components: int = 20,
        *,
        likelihood: LikelihoodLike = "gaussian",
        biases: bool = True,
        user_features: DataFrame | None = None,
        item_features: DataFrame | None = None,
        zero_weight: float | None = None,
        prior_covariance: str = "diag",
        on_unseen: str = "warn",
        algorithm: AlgorithmLike = "cvi",
        expectation: ExpectationLike = "auto",
        covariance: str = "full",
        uncertainty: str = "corrected",
        batch_size: int | str | None = "auto",
        max_iter: int = 100,
        tol: float = 1e-4,
        total_samples: float | None = None,
        forgetting: float = 1.0,
        half_life: float | None = None,
        n_jobs: int | None = None,
        warm_start: bool = False,
        random_state: RandomState = None,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.likelihood = likelihood
        self.biases = biases
        self.user_features = user_features
        self.item_features = item_features
        self.zero_weight = zero_weight
        self.prior_covariance = prior_covariance
        self.on_unseen = on_unseen
        self.algorithm = algorithm
        self.expectation = expectation
        self.covariance = covariance
        self.uncertainty = uncertainty
        self.batch_size = batch_size
        self.max_iter = max_iter
        self.tol = tol
        self.total_samples = total_samples
        self.forgetting = forgetting
        self.half_life = half_life
        self.n_jobs = n_jobs
        self.warm_start = warm_start
        self.random_state = random_state
        self.verbose = verbose

    # ---- fitting
    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: MatrixLike, y: PerRow, sample_weight: PerRow | None = None) -> GeneralizedPMF:
        """Fit q to ratings.

        Parameters
        ----------
        X : {DataFrame, array-like} of shape (n, 2)
            User id and item id of each rating, of any hashable type.
        y : array-like of shape (n,)
        sample_weight : array-like of shape (n,), default=None
            A rating of weight k counts as k ratings.

        Returns
        -------
        GeneralizedPMF
            Itself.

        Raises
        ------
        ValueError, TypeError
            No id at all on one side, y outside the likelihood's support, numbers that are not finite, bad weights or
            features.
        """
        return self._fit(X, y, sample_weight, None)

    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X: MatrixLike, y: PerRow, sample_weight: PerRow | None = None) -> GeneralizedPMF:
        """Go on with more ratings, of users and items old or new.

        The first ones, 15 for each user and item or 16 MB, are kept and fitted together whenever they have doubled.

        Parameters
        ----------
        X : {DataFrame, array-like} of shape (n, 2)
        y : array-like of shape (n,)
        sample_weight : array-like of shape (n,), default=None

        Returns
        -------
        GeneralizedPMF
            Itself.

        Raises
        ------
        ValueError, TypeError
            As `fit`; ordinal levels that the first call did not have.
        """
        return self._partial_fit(X, y, sample_weight, None)

    def _encoded(self, given: GivenRows, fresh: bool, part: Part) -> Any:
        if self.zero_weight is not None:
            self._check_zeros(given, part)
        data = super()._encoded(given, fresh, part)
        if fresh:
            self._record = replace(self._record, choices=refit.fixed_choices(self))
        self._remember_seen(data, fresh)
        if part.whole and data.at_hand:
            rows = self._encoding.stored(data)
            if not self._are_enough(rows):  # a stream goes on from this fit as from a first chunk
                self._first_rows = rows
        return data

    def _check_zeros(self, given: GivenRows, part: Part) -> None:
        """An error where zeros of all pairs have no closed sum, or nothing beside them."""
        rest = "zero_weight: zeros of all pairs have a closed sum "
        if not part.whole or is_collection(given.X):
            raise ValueError(f"{rest}where `fit` has all pairs in memory: partial_fit and Dask collections have not.")
        traits = likelihoods.resolve(self.likelihood).traits
        if not (traits.additive and traits.by_moments and self.covariance == "full"):
            raise ValueError(f'{rest}only for likelihood="gaussian" and covariance="full".')
        if self.batch_size not in ("auto", None):
            raise ValueError(f'{rest}only where a step takes all entries: leave batch_size at "auto".')
        if not np.any(np.asarray(given.y, float)):
            raise ValueError("zero_weight: y is 0 in every row; give what happened another value, such as 1.")

    def _in_partitions(self, given: GivenRows, fixed: Any) -> Any:
        """Ratings of a collection, counted first, then in two sorted copies on disk, as memory maps."""
        name, (X, y, sample_weight, _) = type(self).__name__, given
        parts, executor = aligned(name, X, y=y, sample_weight=sample_weight, offset=None), Executor()
        reader = PartReader(bare(clone(self) if fixed is None else self), fixed, PARTITION)
        summary = summary_of(self, reader, parts, executor, lambda: False)
        if fixed is None:
            self.__dict__.pop("feature_names_in_", None)
            self.__dict__.update(summary.features)
        encoding = PairEncoding.fit(self, summary) if fixed is None else fixed.updated(self, summary, 0.0)
        self.__dict__.update(encoding.exposed)
        starts = {side: summary.own[side].starts(encoding.ids[side]) for side in SIDES}
        entries = encoding.entries(self, brought(executor, parts, summary), summary, PARTITION)
        targets = encoding.few_targets(summary)
        return ratings_on_disk(entries, starts, sample_weight is not None, targets), encoding, False

    def _remember_seen(self, data: Ratings, fresh: bool) -> None:
        """Which items each user has rated, each once: starts (n_users + 1,) and items, for `recommend`."""
        n_users, n_items = len(self.users_), len(self.items_)
        starts, items = data.items_by_user(n_users, n_items)
        if not fresh:
            if self.seen_ is None:  # of a file without training rows: what was rated before is not known
                return
            old = np.diff(self.seen_[0])
            users = np.repeat(np.arange(n_users), np.diff(starts))
            users = np.concatenate([np.repeat(np.arange(len(old)), old), users])
            pairs = np.unique(users * n_items + np.concatenate([self.seen_[1], items]))
            starts, items = np.searchsorted(pairs, n_items * np.arange(n_users + 1)), (pairs % n_items).astype(np.int32)
        self.seen_ = starts, items

    def _check_memory(self, data: Ratings) -> None:
        plates, width = len(self.users_) + len(self.items_), int(self.n_components) + 1
        full = self.covariance == "full"
        numbers = float(width) * (width + 1) / 2 + width if full else 2.0 * width
        remedy = "set covariance='diag', or lower n_components" if full else "lower n_components"
        what = f"n_components={self.n_components} for {plates} users and items"
        drawn = full and self.uncertainty == "corrected"
        draws = draws_bytes(float(plates * width), 8.0 * plates * (numbers - width)) if drawn else 0.0
        draws += 8.0 * plates * width * width * drawn  # a draw of all columns from q
        memory.need((2 if full else 3) * 8.0 * plates * numbers + draws, what, remedy)

    def _build_model(self, data: Ratings) -> tuple[FactorModel, Ratings]:
        priors = {}
        for side, ids in zip(SIDES, (self.users_, self.items_), strict=True):
            nameless = len(data.sides[side].starts) - 1 - len(ids)
            priors[side] = self._prior(side, np.append(ids.astype(object), [None] * nameless) if nameless else ids)
        n_users, n_items = (len(data.sides[side].starts) - 1 for side in SIDES)
        ratings = data.total_weight + (self.zero_weight or 0.0) * n_users * n_items
        n_active = min(self._k, max(FEWEST, round(ratings / (n_users + n_items))))
        chunk = data.total_weight < self._record.began_among  # which does not say how many ratings there are
        return self._new_model(priors, None if chunk else n_active), data

    def _warm_state(self, problem: Problem) -> State:
        state, data = super()._warm_state(problem), cast(Ratings, problem.data)
        weight = data.total_weight
        if state.finished and weight > GROWN * (self._record.began_among or self.n_samples_seen_):
            self._record = replace(self._record, began_among=weight)
            rng = parallel.stream(state.seed, state.steps, 0)
            state = replace(state, q=cast(FactorModel, problem.model).revived(state.q, data, rng))
        return state

    def _finish(self, model: FactorModel, state: State, weight: float, bounds: Array | None = None) -> None:
        # Nobody asks for those without an id again; a fit that was cut off has passes left in which they count.
        sizes = {"users": len(self.users_), "items": len(self.items_)}
        if state.finished:
            state = without_new_plates(state, sizes)
        else:
            state = replace(state, q={**state.q, **{side: state.q[side].copy() for side in SIDES}})
        self.draws_ = None
        super()._finish(model, state, weight, bounds)

    def _refine(self, problem: Problem, state: State, budget: EvaluationBudget) -> str | None:
        choices = self._record.choices
        if self.uncertainty == "corrected" and choices["covariance"] == "full" and not choices.get("zero_weight"):
            self.draws_ = self._drawn(problem, state)
        return super()._refine(problem, state, budget)

    def _drawn(self, problem: Problem, state: State) -> JointDraws | None:
        """Draws of users and items together from a chain that begins at q; None: they would take too much memory."""
        model, data = cast(FactorModel, problem.model), cast(Ratings, problem.data)
        q, sizes = model.grown(state.q, data), {"users": len(self.users_), "items": len(self.items_)}
        size, q_bytes = (sum(part) for part in zip(*((q[s].mean.size, q[s].values.nbytes) for s in SIDES), strict=True))
        length = chain_length(size, q_bytes)
        if length is None:
            return None
        learned = "likelihood" in q and "likelihood" not in problem.frozen
        chain = FactorChain(model, data, q, learned, problem.threads)
        users, items = draws_of(chain, length, sizes, state.seed).values()
        return JointDraws(users, items).beside({s: (q[s].mean[:n], q[s].variance[:n]) for s, n in sizes.items()})

    # ---- first ratings of a stream: positions of users and items, -1 where an id is missing
    @property
    def _enough_rows(self) -> int:
        return EACH * (len(self.users_) + len(self.items_))

    def _blown_up(self, weight: float) -> float:
        """Factor from ratings of this weight to the stream's population, to which steps on a stream are scaled."""
        return 1.0 if self.total_samples is None or self._algorithm().spec.messages else self.total_samples / weight

    def _concluded(self, problem: Problem, state: State) -> State:
        # What later steps are shares of are ratings that came.
        blown_up = self._blown_up(self._record.began_among)
        memory = {side: replace(state.memory[side], seen=state.memory[side].seen / blown_up) for side in SIDES}
        return replace(state, memory={**state.memory, **memory})

    # ---- what is left behind
    def _expose(self, model: FactorModel, state: State) -> None:
        self.likelihood_ = model.current_likelihood(state.q)
        self.noise_ = self.likelihood_.scales.noise

    # ---- prediction
    def predict_latent(self, X: MatrixLike) -> tuple[Array, Array]:
        """Mean and variance of f for each pair.

        Parameters
        ----------
        X : {DataFrame, array-like} of shape (n, 2), FoldedUsers or FoldedPairs

        Returns
        -------
        mean, variance : ndarray of shape (n,)
        """
        return self._latent(*self._requested_pairs(X))

    def _predictive(self, X: Any, offset: Any = None) -> Predictive:
        m, v = self.predict_latent(X)
        offset = offset_of(self, offset, len(m))
        return Predictive(self.likelihood_, m if offset is None else m + offset, v)

    @available_if(_has_classes)
    def predict_proba(self, X: MatrixLike, offset: PerRow | None = None) -> Array:
        """Probability of each level (binary and ordinal).

        Parameters
        ----------
        X : {DataFrame, array-like} of shape (n, 2)
        offset : array-like of shape (n,), default=None

        Returns
        -------
        ndarray of shape (n, L)
            Columns as in ``levels_``.
        """
        return self._predictive(X, offset).probabilities()

    def transform(self, X: MatrixLike) -> Array:
        """Posterior mean factors of each row's user; the prior's for a user not seen.

        Parameters
        ----------
        X : {DataFrame, array-like} of shape (n, 2) or FoldedUsers
            What `fold_in` returned has one row per user.

        Returns
        -------
        ndarray of shape (n, K)
        """
        return np.asarray(self._users_of(X).mean[:, : self._k])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.string = tags.input_tags.categorical = tags.input_tags.allow_nan = True
        tags.target_tags.required = True
        return tags


def brought(executor: Executor, parts: list[Any], summary: DataSummary) -> Iterator[tuple[int, GivenRows]]:
    """Partitions with ratings, by number, each brought to this process."""
    for number, part in enumerate(parts):
        if summary.rows[number][0]:
            rows = executor.fetched(part)
            with named(number):
                yield number, GivenRows(*drop_zero_weight(*rows))
