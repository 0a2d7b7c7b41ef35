"""Beta process factor analysis as a scikit-learn transformer."""

from __future__ import annotations

import math
from dataclasses import replace
from numbers import Integral, Real
from typing import Any, cast

import numpy as np
from sklearn.utils._param_validation import Interval

from sksvi import algorithms
from sksvi._runtime import memory
from sksvi._typing.arrays import MatrixLike, RandomState
from sksvi._typing.parameters import AlgorithmLike, ExpectationLike
from sksvi.decomposition._beta_process_encoding import BetaProcessEncoding
from sksvi.decomposition._beta_process_methods import BetaProcessMethods, FactorRecord, effective_number
from sksvi.estimators.base import BaseSVI, BatchRule
from sksvi.estimators.encoding import GivenRows, check_variational
from sksvi.estimators.posterior import Posterior
from sksvi.estimators.refit import ANEW, COMPONENTS, STREAMED, UNCHECKED, stays, string_or_array
from sksvi.estimators.validation import StrOptions, with_own_methods
from sksvi.inference.problem import Problem
from sksvi.inference.records import START, SamplingState
from sksvi.inference.search import EvaluationBudget
from sksvi.inference.state import State
from sksvi.models.beta_process.model import LOCAL_STEPS, BetaProcess, data_start, given_factors, start_at
from sksvi.models.beta_process.sampler import BetaProcessSampler, sampled_from, sampled_start, thinned
from sksvi.models.chains import UNCERTAINTY
from sksvi.models.data import Table

Array = np.ndarray

#: Rows of a step when the user leaves it to us.
BATCHES = BatchRule(whole=500, smallest=250, largest=250)
#: Most passes when the user leaves them to us, and sweeps of the full sampler, which no rule ends.
PASSES, SWEEPS = 1000, 100
#: Draws kept of the full sampler.
MOST_DRAWS = 50
#: Most and fewest sweeps of a chain that begins at q, and numbers n K D that all of them may visit whatever a fit took.
MOST_SWEEPS, LEAST_SWEEPS, LITTLE = 300, 60, 5e8
#: Rows and sweeps of the Gibbs run that ``init="gibbs"`` starts from.
INIT_ROWS, INIT_SWEEPS = 2000, 50


@with_own_methods
class BetaProcessFA(BetaProcessMethods):
    """Sparse factor analysis with a learned number of factors and missing entries (beta process factor analysis).

    Each row is y = (z∘w)Φ + noise: of K factors Φ_k it uses those with z_k = 1, which is rare, with weights w_k.
    Probabilities of use, factors and both precisions are learned by stochastic variational inference (Shah, Knowles and
    Ghahramani 2015). Entries that are NaN are missing; ``impute`` fills them in. Columns are centred and divided by one
    common standard deviation first, and results are in the units of X again.

    Parameters
    ----------
    n_components : int, default=150
        Number of factors to choose from; more than are needed do little harm.
    local_step : {"gibbs", "mean-field", "spike-slab"}, default="gibbs"
        Posterior of a row's (z, w): Gibbs draws, or products over factors. Where factors overlap only draws know
        that one of them is enough.
    init : {"random", "gibbs", "data"} or array-like of shape (n_components, D), default="random"
        First factors: random ones, those of a Gibbs run on some of the rows, rows, or given ones for centred and scaled
        X, of length 1 or so.
    init_factors : float, default=5
        Factors that a row uses at first, at most a fifth of all. The fewer they are, the fewer and the more general
        factors are found soon; many let fine ones grow, as images with missing pixels need them.
    a, b : float, default=10
        Of the prior Beta(a/K, b(K-1)/K) of each factor's probability of use: a row uses about a/b factors a priori.
    n_burn_in, n_local_samples : int, default=3
        Gibbs sweeps over a row that are discarded, and kept.
    noise : {"shared", "columns"} or float, default="shared"
        One noise precision, one per column, or the known standard deviation of the noise in units of X. A learned one
        has a prior that counts as ten squares of scaled entries, so that little noise in few rows is learned as more;
        a known one much smaller than the data can end a fit at a poor optimum.
    weight_precision : "auto", "learned" or float, default="auto"
        Precision of the weights of factors that are used, or a known one, for centred and scaled X. Learned, it becomes
        small where few factors are used, which makes further ones dear, and intervals of missing entries too narrow.
        "auto": 1, but learned where a fit begins with fewer rows (or `total_samples`) than 1.5 times its columns.
    prune : bool, default=False
        Whether factors that fewer than one row is expected to use are left out of the results.
    algorithm : {"mc-ssvi", "h-mc-ssvi", "s-dsvi", "cvi", "gibbs"} or Algorithm, default="mc-ssvi"
        Globals enter the local step as draws, or as expectations ("cvi"). "gibbs" is the full Gibbs sampler, which
        keeps all rows in memory: a reference for small data; its second half of `max_iter` sweeps is kept.
    expectation : str or Expectation, default="auto"
        Every expectation of this model has a closed form: all values do the same.
    uncertainty : {"corrected", "variational"}, default="corrected"
        Spreads. Factors and probabilities are independent in q, and so too narrow. "corrected": standard deviations,
        densities, `transform_draws`, `summary`, `posterior_` and `to_arviz` have draws of a Markov chain of everything,
        the full sampler's, which begins at q and walks after `fit` for up to 300 sweeps, as many as the fit had passes
        or a few seconds. "variational": those of q, as after `partial_fit`, of Dask collections, and where less than 60
        sweeps are left. Other means are of q at any rate.
    batch_size : int, "auto" or None, default="auto"
        Rows per step; "auto": all up to 500, else 250.
    max_iter : int or "auto", default="auto"
        Most passes over the data, fewer where the bound gains no more than its noise; sweeps of "gibbs". "auto": 1,000
        passes at most, 100 sweeps.
    tol : float, default=1e-4
        Relative change of the bound at which the fit stops.
    total_samples : float or None, default=None
        Rows of the population, for ``partial_fit``; None: those seen so far.
    forgetting : float, default=1.0
        Share, in (0, 1], of what earlier chunks said that each `partial_fit` keeps: natural parameters decay towards
        the prior.
    half_life : float, default=None
        The same in rows: what was said counts half when so much weight has come since. At most one of the two.
    n_jobs : int or None, default=None
        Threads; never changes a bit of the result.
    warm_start : bool, default=False
        Whether ``fit`` goes on from the last one; with twice the rows that its components began among, or more, it
        begins anew.
    random_state : int, RandomState or None, default=None
        Seed.
    verbose : int, default=0
        1: a progress bar.

    Attributes
    ----------
    components_ : ndarray of shape (K, D)
        Posterior mean of the factors in units of X, the most used first.
    feature_probability_ : ndarray of shape (K,)
        Posterior mean of the probability that a row uses the factor.
    mean_, scale_ : ndarray of shape (D,), float
        Column means and the common standard deviation of the observed entries of the first fit.
    noise_precision_ : float or ndarray of shape (D,)
        Posterior mean, in units of X.
    posterior_ : Posterior
        Blocks ``probabilities``, ``features``, ``weight_precision``, ``noise_precision``, for centred and scaled X; by
        draws where there are some: `mean`, `std`, `sample`, `draws`.

    See Also
    --------
    sksvi.images.inpaint, sksvi.images.denoise : images on top of this estimator.
    sklearn.decomposition.FactorAnalysis : dense factors, no missing entries.

    Examples
    --------
    >>> import numpy as np
    >>> from sksvi import BetaProcessFA
    >>> from sksvi.datasets import make_beta_process
    >>> bunch = make_beta_process(300, 8, n_components=4, random_state=0)
    >>> X = bunch.data.copy()
    >>> X[::7, 2] = np.nan
    >>> model = BetaProcessFA(n_components=10, max_iter=60, tol=1e-2, random_state=0).fit(X)
    >>> model.transform(X).shape, model.impute(X).shape
    ((300, 10), (300, 8))
    """

    _outgrown_at = ANEW
    _batch_rule = BATCHES
    _encoding_class = BetaProcessEncoding
    _parameter_constraints: dict[str, list[Any]] = {
        **{name: rule for name, rule in BaseSVI._parameter_constraints.items() if name != "covariance"},
        "algorithm": [StrOptions({"mc-ssvi", "h-mc-ssvi", "s-dsvi", "cvi", "gibbs"}), algorithms.Algorithm],
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "local_step": [StrOptions(set(LOCAL_STEPS))],
        "max_iter": [StrOptions({"auto"}), *BaseSVI._parameter_constraints["max_iter"]],
        "init": ["array-like", StrOptions({"random", "gibbs", "data"})],
        "init_factors": [Interval(Real, 0, None, closed="neither")],
        "a": [Interval(Real, 1e-6, 6e4, closed="both")],
        "b": [Interval(Real, 1e-6, 6e4, closed="both")],
        "n_burn_in": [Interval(Integral, 0, None, closed="left")],
        "n_local_samples": [Interval(Integral, 1, None, closed="left")],
        "noise": [StrOptions({"shared", "columns"}), Interval(Real, 0, None, closed="neither")],
        "weight_precision": [StrOptions({"auto", "learned"}), Interval(Real, 0, None, closed="neither")],
        "prune": ["boolean"],
        "uncertainty": [StrOptions(set(UNCERTAINTY))],
    }
    _changes = {
        **STREAMED,
        "n_components": COMPONENTS,
        "local_step": UNCHECKED,
        "init": stays("a fit that goes on has begun", string_or_array),
        "init_factors": stays("a fit that goes on has begun"),
        "a": UNCHECKED,
        "b": UNCHECKED,
        "n_burn_in": UNCHECKED,
        "n_local_samples": UNCHECKED,
        "noise": stays("q has one precision of the noise, one per column, or a number"),
        "weight_precision": stays("q has it, or the model a number"),
        "prune": UNCHECKED,
        "uncertainty": UNCHECKED,
    }

    def __init__(
        self,
        n_components: int = 150,
        *,
        local_step: str = "gibbs",
        init: str = "random",
        init_factors: float = 5.0,
        a: float = 10.0,
        b: float = 10.0,
        n_burn_in: int = 3,
        n_local_samples: int = 3,
        noise: float | str = "shared",
        weight_precision: float | str = "auto",
        prune: bool = False,
        algorithm: AlgorithmLike = "mc-ssvi",
        expectation: ExpectationLike = "auto",
        uncertainty: str = "corrected",
        batch_size: int | str | None = "auto",
        max_iter: int | str = "auto",
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
        self.local_step = local_step
        self.init = init
        self.init_factors = init_factors
        self.a = a
        self.b = b
        self.n_burn_in = n_burn_in
        self.n_local_samples = n_local_samples
        self.noise = noise
        self.weight_precision = weight_precision
        self.prune = prune
        self.algorithm = algorithm
        self.expectation = expectation
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

    def _row_draws(self, model: Any, q: dict[str, Any], drawn: dict[str, Array], data: Any, rng: Any) -> Array:
        """Rows in the units that X fixes, without missing entries."""
        n, (K, D) = len(data), model.shape
        use = rng.random_sample((n, K)) < drawn["probabilities"]
        weights = use * rng.standard_normal((n, K)) / np.sqrt(drawn["weight_precision"])
        noise = rng.standard_normal((n, D)) / np.sqrt(drawn["noise_precision"])
        return np.asarray(self.mean_ + self.scale_ * (weights @ drawn["features"] + noise))

    # ---- fitting
    def fit(self, X: MatrixLike, y: object = None) -> BetaProcessFA:
        """Fit to rows, NaN where an entry is missing.

        Parameters
        ----------
        X : array-like of shape (n, D)
        y : None
            Ignored.

        Returns
        -------
        BetaProcessFA
            The estimator itself.
        """
        self._validate_params()
        return self._fit(X, None, None, None)

    def partial_fit(self, X: MatrixLike, y: object = None) -> BetaProcessFA:
        """Go on with a chunk of rows; the first chunk fixes centre and scale.

        Parameters
        ----------
        X : array-like of shape (n, D)
        y : None
            Ignored.

        Returns
        -------
        BetaProcessFA
            The estimator itself.
        """
        self._validate_params()
        if self._algorithm().spec.sampler:
            raise ValueError("algorithm='gibbs' keeps all rows in memory and cannot take chunks: choose 'mc-ssvi'.")
        return self._partial_fit(X, None, None, None)

    def _in_partitions(self, given: GivenRows, fixed: Any) -> Any:
        check_variational(self)
        return super()._in_partitions(given, fixed)

    def _fixed_weight_precision(self) -> float | None:
        """The fixed precision of the weights; None where it is learned, which few rows of many columns need."""
        if not isinstance(self.weight_precision, str):
            return float(self.weight_precision)
        return None if self.weight_precision == "learned" or self._encoding.wide else 1.0

    def _model(self, n_components: int) -> BetaProcess:
        return BetaProcess(
            n_components,
            len(self._encoding.mean),
            a=float(self.a),
            b=float(self.b),
            local_step=self.local_step,
            n_burn_in=self.n_burn_in,
            n_local_samples=self.n_local_samples,
            noise_size=self._encoding.noise_size,
            noise=None if isinstance(self.noise, str) else float(self.noise) / self.scale_,
            weight_precision=self._fixed_weight_precision(),
            start_use=float(self.init_factors),
        )

    def _check_memory(self, data: Table) -> None:
        K, (n, d) = float(self.n_components), data.X.shape
        if self._algorithm().spec.sampler:
            numbers = 30.0 * K * d + n * (3.0 * K + 3.0 * d)
        else:
            numbers = 3.0 * (8 * K * d + K**2 + K * min(n, BATCHES.largest) * (2 + self.n_local_samples))
        memory.need(8.0 * numbers, f"n_components={self.n_components} for {d} columns", "lower n_components")

    def _build_model(self, data: Table) -> tuple[BetaProcess, Table]:
        return self._model(int(self.n_components)), data

    def _most_passes(self) -> int:
        if self.max_iter != "auto":
            return int(self.max_iter)
        return SWEEPS if self._algorithm().spec.sampler else PASSES

    def _model_at_start(self, problem: Problem, seed: int) -> Any:
        model, data = cast(BetaProcess, problem.model).replaced(seed=seed), cast(Table, problem.data)
        if not isinstance(self.init, str):
            return model.replaced(start=start_at(model, given_factors(self.init, model.shape), len(data)))
        if self.init == "data":
            return model.replaced(start=data_start(model, data))
        if self.init == "gibbs":
            return model.replaced(start=sampled_start(model, data, INIT_ROWS, INIT_SWEEPS, problem.threads))
        return model  # which has a random start of its own

    # ---- what a fit leaves behind
    def _expose(self, model: Any, state: State) -> None:
        use = state.q["probabilities"]
        order = np.argsort(-use.mean, kind="stable")
        if self.prune:
            order = order[: max(1, int(np.sum(use.mean * max(self.n_samples_seen_, 1.0) >= 1.0)))]
        draws = self._stored_draws(state)
        self._factors = FactorRecord(order, draws, draws is not None)
        self.posterior_ = Posterior(self._own)
        selected, q = self._own["features"], self._own
        self.components_ = (selected.mean * self.scale_).astype(self._encoding.dtype)
        self.feature_probability_ = use.mean[order]
        precision = q["noise_precision"].mean / self.scale_**2
        self.noise_precision_ = float(precision[0]) if self._encoding.noise_size == 1 else precision
        self.n_effective_components_ = float(effective_number(self.feature_probability_))

    def _refine(self, problem: Problem, state: State, budget: EvaluationBudget) -> str | None:
        data, sampled = cast(Table, problem.data), problem.algorithm.spec.sampler
        if self.uncertainty == "corrected" and data.at_hand and not sampled:
            model = cast(BetaProcess, problem.model)
            most = max(state.passes, int(LITTLE / (len(data) * math.prod(model.shape))))
            if most >= LEAST_SWEEPS:
                sampler = BetaProcessSampler(model, data, problem.threads)
                draws = sampled_from(sampler, state.shown, min(MOST_SWEEPS, most))
                self._factors = replace(self._factors, draws=thinned(draws, MOST_DRAWS))
                self.posterior_ = Posterior(self._drawn)
        return super()._refine(problem, state, budget)

    def _stored_draws(self, state: State) -> dict[str, Any] | None:
        """Draws of the sampler, where one has ended: its progress is left behind."""
        if not (state.finished and isinstance(state.progress, SamplingState)):
            return None
        self.state_ = replace(self.state_, progress=START)
        return thinned(state.progress.draws or [state.progress.draw.globals], MOST_DRAWS)
