"""Gamma factor model as a scikit-learn transformer."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import replace
from numbers import Integral, Real
from typing import Any, cast

import numpy as np
from sklearn.base import clone
from sklearn.utils._param_validation import Interval

from sksvi import algorithms, expectations
from sksvi._typing.arrays import MatrixLike, RandomState
from sksvi._typing.parameters import AlgorithmLike, ExpectationLike
from sksvi.decomposition._gamma_factor_encoding import ScatterEncoding
from sksvi.decomposition._gamma_factor_methods import NOISE_FLOOR, GammaFactorMethods, noise_warnings
from sksvi.estimators.base import BaseSVI, drawn_seed
from sksvi.estimators.draws import PosteriorDraws
from sksvi.estimators.encoding import PARTITION, GivenRows
from sksvi.estimators.posterior import DrawnBlock, Posterior
from sksvi.estimators.refit import ANEW, COMPONENTS, STREAMED, UNCHECKED, stays, truth
from sksvi.estimators.validation import StrOptions, with_own_methods
from sksvi.families import Gamma
from sksvi.inference import plan, stream
from sksvi.inference.problem import Problem, divergence
from sksvi.inference.start import first_state
from sksvi.inference.state import State
from sksvi.models.chains import UNCERTAINTY
from sksvi.models.gamma_factor.chain import LoadingChain, draws_of
from sksvi.models.gamma_factor.density import Scatter
from sksvi.models.gamma_factor.model import GammaFactors
from sksvi.partitions.encoded import summarised

Array = np.ndarray

#: Fewest draws that a natural gradient is found from.
LEAST_DRAWS = 4
#: How far means are from 0 (`GammaFactors.away`, 1 by chance): the most at which they are taken for 0; what they
#: surely are not; and the least that is not what rounding left of means that were subtracted, and so learned, before.
MOST_AWAY, SURELY_AWAY, LEAST_AWAY = 2.0, 6.0, 1e-6


def as_chance_leaves(away: float) -> bool:
    """Whether means are about as far from 0 as chance leaves them."""
    return LEAST_AWAY < away <= MOST_AWAY


def noise_kind(estimator: Any, name: str) -> str:
    """How it is learned; a number may be another."""
    given = getattr(estimator, name)
    return given if isinstance(given, str) else "fixed"


@with_own_methods
class GammaFactorModel(GammaFactorMethods):
    """Factor analysis with non-negative loadings that have gamma priors.

    y_n ~ N(mean, ΛΛᵀ + Ψ) with diagonal Ψ, as in scikit-learn's ``FactorAnalysis``, and Λ_dk ~ Gamma(prior_shape,
    prior_rate) in the columns' units: a small prior shape makes most loadings small. What is added are parts instead of
    contrasts, a posterior and intervals of loadings, and no rotation that is left open; factors that only move columns
    in opposite directions cannot be had. Fitted by conjugate-computation variational inference (Khan and Lin 2017; the
    model is Knowles 2015). Data enter through their covariance alone, so that a pass costs the same for any number of
    rows.

    Parameters
    ----------
    n_components : int, default=10
        Factors K; more than columns are allowed.
    noise_variance : "auto", "per-feature" or float, default=0.1
        Ψ. A number is absolute, in the units of X, and so is then the prior of the loadings: for columns whose standard
        deviations are near 1. "auto" learns one for all columns, whose common standard deviation is then the loadings'
        unit; "per-feature" learns one per column and measures each in its own standard deviation, so that no unit
        matters. Learned ones are at least 1/10,000 of the columns' variance.
    prior_shape, prior_rate : float, default=0.1, 1.0
        Of the gamma prior of every loading. The smaller the shape, the sparser are loadings.
    fit_mean : bool or "auto", default="auto"
        Whether columns have means of their own, which are integrated out; False: they are 0, as in the paper. "auto":
        0 where new rows are better off so, which is where those of the rows are about as far from 0 as chance leaves
        them: N ȳᵀC⁻¹ȳ is at most 2D, twice what chance leaves, and not 0. The means of rows that were centred
        before were learned from them, and so are those of a fit with ``init="random"``, which is nowhere that could
        tell. `fit_mean_` says what was found.
    init : {"map", "random"}, default="map"
        Where the fit begins: at the mode (L-BFGS), as wide as Laplace's approximation there, or at random.
    algorithm : {"cvi", "s-dsvi"} or Algorithm, default="cvi"
        Natural steps on every loading ("mc-ssvi" is the same here), or gradient steps on log shape and log rate:
        AdaGrad's, or AdaDelta's by ``SDSVI(adagrad=AdaDelta())``. Where steps are the paper's own say so with
        ``init="random"``, ``expectation="monte-carlo"`` and a schedule, ``CVI(schedule=Constant(0.05))``.
    expectation : str or Expectation, default="auto"
        "monte-carlo": over draws that are new in every step, ``MonteCarlo(n=10)``, at least 4. All others: over 32
        points that are the same in every step, so that no step lowers the bound.
    uncertainty : {"corrected", "variational"}, default="corrected"
        Spreads. Loadings are independent in q, and so too narrow. "corrected": `summary`, `posterior_`, `sample` and
        `to_arviz` have draws of a Markov chain of all loadings and learned noise together, which begins at q and walks
        after every fit and chunk for about the time that these take. "variational": those of q. Points, factors and
        densities of rows and bounds are of q at any rate.
    max_iter : int, default=200
        Most steps after the start.
    tol : float, default=1e-4
        Relative change of the bound at which the fit stops.
    forgetting : float, default=1.0
        Share, in (0, 1], of what earlier chunks said that each `partial_fit` keeps.
    half_life : float, default=None
        The same in rows: what was said counts half when so many rows have come since. At most one of the two.
    n_jobs : int or None, default=None
        Threads; never changes a bit of the result.
    warm_start : bool, default=False
        Whether ``fit`` goes on from the last one; with twice the rows that its components began among, or more, it
        begins anew.
    random_state : int, RandomState or None, default=None
        Seed of the start and of the points.
    verbose : int, default=0
        1: a progress bar.

    Attributes
    ----------
    components_ : ndarray of shape (K, D)
        Mean of the loadings Λᵀ under q, non-negative; those that explain most, in units of `scale_`, come first.
    noise_variance_ : ndarray of shape (D,)
        Ψ of the fit.
    fit_mean_ : bool
        Whether columns have means of their own.
    mean_ : ndarray of shape (D,)
        Those; else 0.
    scale_ : ndarray of shape (D,)
        Units in which the prior holds: 1 for a fixed noise variance.
    posterior_ : Posterior
        Block ``loadings``, and ``noise_variance`` where it is learned, by draws: `mean`, `std`, `sample`, `draws`. With
        ``uncertainty="variational"`` ``loadings`` alone, a gamma distribution per entry.
    lower_bound_ : float
        Bound on the log evidence, nats, over points that no step has seen.
    lower_bounds_ : ndarray
        The bound per step, over the points that steps see.
    history_ : DataFrame
        One row per step.
    n_iter_, n_steps_, n_samples_seen_, converged_ : int, int, float, bool
    n_features_in_, feature_names_in_ : int, ndarray of shape (D,)

    See Also
    --------
    sklearn.decomposition.FactorAnalysis : loadings of both signs, by maximum likelihood.
    GammaProcessNMF : non-negative factors of counts.

    Examples
    --------
    >>> import numpy as np
    >>> from sksvi import GammaFactorModel
    >>> rng = np.random.default_rng(0)
    >>> parts = np.array([[1.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 1.0]])
    >>> X = rng.standard_normal((200, 2)) @ parts + 0.3 * rng.standard_normal((200, 4))
    >>> model = GammaFactorModel(n_components=2, noise_variance="per-feature", random_state=0).fit(X)
    >>> bool((model.components_ >= 0).all()), model.transform(X).shape
    (True, (200, 2))
    """

    _outgrown_at = ANEW
    _encoding_class = ScatterEncoding
    #: A step is on the scatter of all rows.
    batch_size = None
    _parameter_constraints: dict[str, list[Any]] = {
        **{
            name: rule
            for name, rule in BaseSVI._parameter_constraints.items()
            if name not in ("covariance", "batch_size", "total_samples")
        },
        "algorithm": [StrOptions({"cvi", "mc-ssvi", "s-dsvi"}), algorithms.Algorithm],
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "noise_variance": [StrOptions({"auto", "per-feature"}), Interval(Real, 0, None, closed="neither")],
        "prior_shape": [Interval(Real, 1e-3, 1e3, closed="both")],
        "prior_rate": [Interval(Real, 0, None, closed="neither")],
        "fit_mean": [StrOptions({"auto"}), "boolean"],
        "init": [StrOptions({"map", "random"})],
        "uncertainty": [StrOptions(set(UNCERTAINTY))],
    }
    _changes = {
        **{name: change for name, change in STREAMED.items() if name not in ("batch_size", "total_samples")},
        "n_components": COMPONENTS,
        "noise_variance": stays("the fit's units belong to it", noise_kind),
        "prior_shape": UNCHECKED,
        "prior_rate": UNCHECKED,
        "fit_mean": stays("the scatter of earlier rows is about what it says", truth),
        "init": UNCHECKED,
        "uncertainty": UNCHECKED,
    }

    def __init__(
        self,
        n_components: int = 10,
        *,
        noise_variance: float | str = 0.1,
        prior_shape: float = 0.1,
        prior_rate: float = 1.0,
        fit_mean: bool | str = "auto",
        init: str = "map",
        algorithm: AlgorithmLike = "cvi",
        expectation: ExpectationLike = "auto",
        uncertainty: str = "corrected",
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
        self.noise_variance = noise_variance
        self.prior_shape = prior_shape
        self.prior_rate = prior_rate
        self.fit_mean = fit_mean
        self.init = init
        self.algorithm = algorithm
        self.expectation = expectation
        self.uncertainty = uncertainty
        self.max_iter = max_iter
        self.tol = tol
        self.forgetting = forgetting
        self.half_life = half_life
        self.n_jobs = n_jobs
        self.warm_start = warm_start
        self.random_state = random_state
        self.verbose = verbose

    # ---- fitting
    def fit(self, X: MatrixLike, y: object = None) -> GammaFactorModel:
        """Fit to rows.

        Parameters
        ----------
        X : array-like of shape (n, D)
        y : None
            Ignored.

        Returns
        -------
        GammaFactorModel
            The estimator itself.

        Raises
        ------
        ValueError
            For numbers in X that are missing or not finite.

        Warns
        -----
        UserWarning
            Where noise variances end at their least, or one for all columns explains rows worse than independent
            columns would; for constant columns beside others in units that are far apart.
        """
        self._validate_params()
        return self._fit(X, None, None, None)

    def partial_fit(self, X: MatrixLike, y: object = None) -> GammaFactorModel:
        """Go on with a chunk of rows: it joins the covariance, and the fit begins where the last one ended.

        Parameters
        ----------
        X : array-like of shape (n, D)
        y : None
            Ignored.

        Returns
        -------
        GammaFactorModel
            The estimator itself.

        Raises
        ------
        ValueError
            As `fit`; for other columns than those of earlier chunks, and after a fit that was cut off.
        """
        self._validate_params()
        return self._partial_fit(X, None, None, None)

    def _validate_params(self) -> None:
        super()._validate_params()
        expect = expectations.resolve(self.expectation)
        if not expect.exact and expect.n < LEAST_DRAWS:
            raise ValueError(
                f"expectation={self.expectation!r} has fewer than {LEAST_DRAWS} draws, from which no natural gradient "
                "of a gamma distribution can be found: give MonteCarlo(n=10)."
            )

    def _in_partitions(self, given: GivenRows, fixed: Any) -> Any:
        """The scatter of all partitions, the only statistics that a fit needs of them."""
        encoding = summarised(self, given, fixed, PARTITION).encoding
        return encoding.scatter, encoding, False

    def _absorbed(
        self, data: Any, first: bool, new_weight: float, fade: float, counted: float
    ) -> tuple[GammaFactors, State]:
        """A fit to all rows so far, started at the previous estimates (if any), and its state; one row of history."""
        scatter, before = self._encoding.scatter, None if first else self.state_
        problem = self._problem(*self._build_model(scatter))
        # The optimum of few rows, or of a column that had no unit yet, may be no place to go on from.
        few = scatter.n >= ANEW * (self._record.began_among or scatter.n)
        if before is None or few or self._encoding.varies_anew:
            self._record = replace(self._record, began_among=scatter.n)
            problem, state = self._initialized(problem, False)
        else:
            loadings, noise = self._own.mean / self.scale_, self.noise_variance_ / self.scale_**2
            model = cast(GammaFactors, problem.model).from_start(loadings, noise, near_mode=True)
            problem, state = self._begun(plan.changed(problem, model=model), before.seed)
        state = stream.as_one_pass(problem, state, before, new_weight, int(self.max_iter), self.tol)
        return cast(GammaFactors, problem.model), replace(state, counted=scatter.n)

    def _build_model(self, data: Scatter) -> tuple[GammaFactors, Scatter]:
        n_features, learned = len(data.mean), isinstance(self.noise_variance, str)
        model = GammaFactors(
            int(self.n_components),
            n_features,
            prior_shape=float(self.prior_shape),
            prior_rate=float(self.prior_rate),
            noise=None if learned else np.full(n_features, float(self.noise_variance)),
            noise_size=n_features if self.noise_variance == "per-feature" else 1,
            noise_floor=np.full(n_features, NOISE_FLOOR),
            unit=self.scale_,
            init=self.init,
        )
        return model, data.divided(self.scale_)

    @property
    def _improper(self) -> str:
        if isinstance(self.noise_variance, str):
            return f"noise_variance={self.noise_variance!r} learns it without a prior: give a number"
        if self.fit_mean is not False:
            return f"fit_mean={self.fit_mean!r} has a mean under a flat prior: set fit_mean=False"
        return ""

    def _prior_draws(self, X: Any, n: int, rng: Any, offset: Any = None) -> tuple[Any, PosteriorDraws]:
        """Draws before a fit and after it: a noise variance that is given leaves units as they are."""
        return super(GammaFactorModel, clone(self))._prior_draws(X, n, rng, offset)

    def _row_draws(self, model: GammaFactors, q: dict[str, Any], drawn: dict[str, Array], data: Any, rng: Any) -> Array:
        """Rows of normal factors and noise."""
        loadings, n = drawn["loadings"], int(data.n)
        noise = np.sqrt(float(self.noise_variance)) * rng.standard_normal((n, loadings.shape[1]))
        return np.asarray(rng.standard_normal((n, len(loadings))) @ loadings + noise)

    def _initialized(self, problem: Any, go_on: bool) -> tuple[Problem, State]:
        if not go_on:
            return self._begun(problem, drawn_seed(self.random_state))
        before, without_mean = self.state_, self.fit_mean == "auto" and not self.fit_mean_
        if before.finished and without_mean:  # other rows may have means
            without_mean = as_chance_leaves(problem.model.away(before.q, problem.data))
        model = problem.model.replaced(seed=before.seed, without_mean=without_mean)
        return super()._initialized(plan.changed(problem, model=model), go_on)

    def _begun(self, problem: Any, seed: int) -> tuple[Problem, State]:
        """The fit and its first state, about means of 0 where new rows are better off so.

        To learn D means costs a new row D/2N nats, and 0 in their place (D/2N) (`away` - 1). The covariance at the mode
        of few rows is too small, that of the fit is not: so a fit decides where the mode is too near to say.
        """
        model: GammaFactors = problem.model.replaced(seed=seed)
        problem = plan.changed(problem, model=model)
        state = first_state(problem, seed)
        if self.fit_mean != "auto" or self.init != "map":
            return problem, state
        away = model.away(state.q, problem.data)
        if MOST_AWAY < away <= SURELY_AWAY:
            fit = plan.run(problem, copy.deepcopy(state), int(self.max_iter), self.tol)
            away = model.away(fit.q, problem.data)
        if as_chance_leaves(away):
            model = model.from_start(state.q["loadings"].mean, model.noise_of(state.q), model.near_mode)
            problem = plan.changed(problem, model=model.replaced(without_mean=True))
            state = first_state(problem, seed)
        return problem, state

    # ---- what a fit leaves behind
    def _finish(self, model: Any, state: State, weight: float, bounds: Array | None = None) -> None:
        super()._finish(model, state, weight, bounds)
        if state.finished:
            data = self._encoding.scatter.divided(self.scale_)
            problem = self._problem(model, data)
            self.lower_bound_ = model.expected_density(state.q, data) - divergence(problem, state, state.q)
            if self.uncertainty == "corrected":
                self.posterior_ = self._drawn_posterior(model, state)

    def _drawn_posterior(self, model: GammaFactors, state: State) -> Posterior:
        """Draws of a chain that begins at q, in the units of X."""
        own = {**state.shown, "loadings": Gamma(self._own.shape, self._own.rate * self.scale_)}
        loadings, noise = draws_of(LoadingChain(model, own, self._fitted_to.divided(self.scale_)), state.seed)
        blocks = {"loadings": DrawnBlock(loadings * self.scale_.astype(np.float32))}
        if model.learns_noise:
            blocks["noise_variance"] = DrawnBlock(noise * np.square(self.scale_).astype(np.float32))
        return Posterior(blocks)

    def _expose(self, model: Any, state: State) -> None:
        q = state.q["loadings"]
        explained = np.sum(np.square(q.mean) + q.variance, axis=1)
        order = np.argsort(-explained, kind="stable")
        self._own = Gamma(q.shape[order], q.rate[order] / self.scale_)
        self.posterior_ = Posterior({"loadings": self._own})
        self.components_ = self._own.mean.astype(self._encoding.dtype)
        self.noise_variance_ = model.noise_of(state.q) * self.scale_**2
        self.fit_mean_ = self._encoding.scatter.centred and not model.without_mean
        self.mean_ = self._fitted_to.mean

    def _fit_warnings(self, problem: Problem, state: State) -> Iterator[str]:
        yield from noise_warnings(self)

    def _stream_warnings(self, data: Any, first: bool) -> Iterator[str]:
        yield from noise_warnings(self)
