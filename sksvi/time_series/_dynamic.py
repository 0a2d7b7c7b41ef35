"""DynamicGLM: a state-space model with any scalar likelihood."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Sequence
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from sklearn.base import _fit_context
from sklearn.utils._param_validation import Interval

from sksvi import algorithms, expectations, likelihoods
from sksvi._runtime import memory
from sksvi._typing.arrays import Columns, DataFrame, MatrixLike, PerRow, RandomState
from sksvi._typing.parameters import AlgorithmLike, ExpectationLike, LikelihoodLike
from sksvi.estimators.base import BaseSVI
from sksvi.estimators.draws import PosteriorDraws
from sksvi.estimators.encoding import GivenRows, Part
from sksvi.estimators.offsets import remember_exposure, with_exposure
from sksvi.estimators.refit import LIKELIHOOD, SHARED, UNCHECKED, ParameterChange, auto_or_number, stays
from sksvi.estimators.summaries import CHANGES, CONSTRAINTS
from sksvi.estimators.validation import StrOptions, with_own_methods
from sksvi.families.gaussian.chain import ChainGaussian
from sksvi.inference.problem import Problem
from sksvi.inference.records import START, replace
from sksvi.inference.search import EvaluationBudget
from sksvi.inference.state import State
from sksvi.likelihoods import NegativeBinomial
from sksvi.models.data import Table
from sksvi.models.time_series.components import dominant_period
from sksvi.models.time_series.integrated import all_parameters, nodes_of
from sksvi.models.time_series.model import DynamicModel
from sksvi.models.time_series.population import PopulationPrior
from sksvi.models.time_series.weak_prior import WeakPrior
from sksvi.time_series._diagnostics import Diagnostics
from sksvi.time_series._draws import prior_draws, series_draws
from sksvi.time_series._dynamics import long_seasons, periods_of, plain
from sksvi.time_series._encoding import EncodedSeries, SeriesEncoding
from sksvi.time_series._fit import SeriesFit
from sksvi.time_series._forecasting import parameters_of
from sksvi.time_series._frequency import clock_warning
from sksvi.time_series._index import frequency_warning
from sksvi.time_series._level import (
    KINDS,
    arrays_held,
    choose,
    first_part,
    requested_kind,
    started_at_part,
    structure_of,
)
from sksvi.time_series._online import Online
from sksvi.time_series._panel import SeriesPanel, answering, fit_with_groups, forget, of_one_series, with_groups
from sksvi.time_series._rows import count_warnings, noise_taken_in, shown, steps_of_a_quantile, unobserved_seasons

if TYPE_CHECKING:
    from sksvi._typing.arrays import Index

Array = np.ndarray

#: How often a series is differenced where the period of a cycle is looked for.
DIFFERENCES = 2
#: Parameters that say which states there are.
STRUCTURE = (
    "level", "trend", "seasonal", "seasonal_type", "autoregressive", "cycle", "level_variance", "trend_variance",
    "seasonal_variance", "coefficient_variance", "damping", "initial_variance",
)  # fmt: skip
#: Numbers that a fit learns, or has been given.
LEARNED = (
    "level_variance", "trend_variance", "seasonal_variance", "cycle_variance", "coefficient_variance", "damping",
    "cycle_damping", "cycle_period",
)  # fmt: skip
VARIANCE: list[Any] = [StrOptions({"auto"}), Interval(Real, 0, None, closed="left")]
#: What the states are: a fit that goes on keeps them.
STATES = stays("the fit has states for it, or none")


@with_own_methods
@answering(with_groups)
class DynamicGLM(Online):
    """Time series of counts, rates, binary, measured or ordered values: a structural model with any likelihood.

    y_t | f_t ~ likelihood with f_t = level_t + seasonal_t + cycle_t + x_tᵀβ_t + offset_t, of which every part is a
    linear Gaussian process in time. q is the prior times one Gaussian message per point, so that a Kalman filter and
    smoother fit it in O(T); it maximises the bound -KL(q‖p) + Σ E log p(y_t|f_t) (Khan and Lin 2017, CVI, appendix E).
    Variances, damping and the likelihood's scales maximise the same bound.

    Parameters
    ----------
    likelihood : str or instance, default="auto"
        "auto": of counts "poisson", or "negative-binomial" where they vary more, as `level` is chosen. "gaussian",
        "student-t", "poisson" (exp), "poisson-softplus", "negative-binomial", "binomial" (y of shape (T, 2):
        successes, failures), "logit", "probit" (y 0 or 1), "ordinal", "gamma", "inverse-gaussian",
        "log-normal", "weibull", "log-logistic" or "exponential" (y > 0), "tweedie" (y >= 0), "beta" (0 < y < 1),
        "beta-binomial" (as "binomial"), "zero-inflated-poisson", "zero-inflated-negative-binomial", "hurdle-poisson" or
        "hurdle-negative-binomial". Scales are learned unless the instance has a number.
    level : {"auto", "walk", "damped", "constant"} or bool, default="auto"
        How the level of f moves: it walks at random, it returns to a constant (with `trend` to a line), or it stays.
        "auto": as ``lower_bound_`` likes best; a walk gives way to what has two nats more. True: "walk", or "damped"
        with `autoregressive`. False: there is no level. A given `level_variance`, and `share_variances`, are of a walk.
    trend : bool, default=False
        Whether the level has a slope that walks at random.
    seasonal : int, float, list of them, dict or None, default=None
        Periods of seasons, in points in time. A dict from each period to "full" or to its number of waves, as
        ``{24: "full", 168: 40}``, has profiles that stay as they are, unless `seasonal_variance` is a number: hours of
        a week in seconds. In a time zone, seasons of days follow its clock, in steps of less than a day.
    seasonal_type : {"dummy", "trigonometric"}, default="dummy"
        How a season moves: point by point or wave by wave. Seasons longer than 31 points are six waves, of which
        "dummy" warns; those whose period is no whole number are waves.
    autoregressive : bool, default=False
        Whether the level returns, as with ``level="damped"``: forecasts far ahead then have a bounded spread.
    cycle : bool or float, default=False
        Whether f has a damped cycle, of a learned period or of this one.
    level_variance, trend_variance : "auto" or float, default="auto"
        Variance of a step of the level and of the slope, in squared units of f; 0: constant; "auto": learned.
    seasonal_variance : "auto", float or a list with one for each season, default="auto"
    coefficient_variance : "auto" or float, default=0.0
        Variance of a step of the coefficients of X. 0: they are constant. A number is for columns as given; "auto"
        learns one for all, for columns divided by their standard deviation.
    damping : "auto" or float, default="auto"
        Share of the distance that is left after a step, in (0, 1), of `autoregressive` and of `cycle`.
    initial_variance : "auto" or float, default="auto"
        Prior variance of the first states. "auto": 100 in squared units of f (of a measured y: times its variance; of
        coefficients: for columns divided by their standard deviation). The bound falls by half of the logarithm of it
        for every state that it makes wide: ``diffuse_lower_bound_`` does not.
    hyperparameters : {"integrated", "point"}, default="integrated"
        "integrated": variances, dampings, periods and the likelihood's scales have weakly informative priors and a
        posterior, ``hyperparameter_posterior_``, over whose nodes predictions, components and tables are mixtures.
        "point": they are where the bound has its maximum.
    groups : str or int, default=None
        Column of X, or level of its index or of that of y, that says which of several series a row is of; each is
        fitted by itself, in threads. None: there is one.
    share_variances : bool or "partial", default=False
        With `groups`: whether the variances, dampings, periods and the likelihood's scales are the same for all series,
        which learn them together. False: each learns its own. "partial": each has its own, from a normal population of
        their logarithms (of dampings logits), ``population_``, which all series learn: short ones borrow, long ones
        have what they show, and series that were not fitted are forecast, or begun by `partial_fit`.
    algorithm : {"cvi", "mc-ssvi", "fp"} or instance, default="cvi"
        How q is fitted; see :mod:`sksvi.algorithms`.
    expectation : {"auto", "quadrature", "gauss-hermite"} or instance, default="auto"
        How E log p(y|f) is integrated.
    max_iter : int, default=5000
        Most sweeps of filter and smoother, those of the search for variances included. Series of 16,384 points or more
        are searched over by their first eighth before, with a `max_iter` of its own.
    tol : float, default=1e-6
        The fit stops when the relative change of the bound per sweep stays below it.
    n_jobs : int, default=None
        Threads; no value changes a bit of the result.
    warm_start : bool, default=False
        `fit` goes on from the last variances and, for as many points, from the last messages.
    random_state : int, RandomState or None, default=None
        Of draws.
    verbose : int, default=0
        1 shows a progress bar.

    Attributes
    ----------
    index_ : pandas Index of length T
        Points in time: of X or y, else 0, 1, ...
    components_ : DataFrame
        Level, trend, seasons, cycle and regression at every point: mean and std given all data.
    states_ : DataFrame
        The same of every state.
    level_ : str
        How the level moves, "walk", "damped" or "constant"; "none" without one.
    level_evidence_ : dict
        Where it was chosen: the log evidence of each level and likelihood that was tried, nats.
    level_variance_, trend_variance_, cycle_variance_ : float
        Those that the model has.
    seasonal_variance_ : float or ndarray
        One for each season.
    coefficient_variance_ : ndarray of shape (D,)
        For the columns as given.
    damping_, cycle_damping_, cycle_period_ : float
    coef_, coef_std_ : ndarray of shape (D,)
        Coefficients of X at the last point.
    noise_ : float
        Noise variance, dispersion or scale; where the likelihood has one.
    likelihood_ : Likelihood
        Its learned scales as numbers.
    series_ : dict
        With `groups`: a fitted DynamicGLM for each series; tables (`forecast`, `components_`, `summary`) have the
        series first in their index, and what else is said of one series, as ``level_variance_``, is theirs.
    groups_ : ndarray
        With `groups`: their names.
    population_ : DataFrame
        With ``share_variances="partial"``: median, and the ends between which 90 % of series are.
    posterior_ : mapping
        ``posterior_["latents"]``: ``mean``, ``std``, ``sample`` of f without offset.
    lower_bound_, lower_bounds_ : float, ndarray
        Bound on the log evidence at `posterior_` and per sweep, nats.
    diffuse_lower_bound_ : float
        The bound plus half of the log variances of the wide first states, which has a limit as these grow.
    history_ : DataFrame
        One row per sweep.
    n_iter_, n_steps_, n_samples_seen_, converged_ : int, int, float, bool
        Sweeps, steps, the sum of weights. Of a long series those of its first eighth, which cost an eighth each, are
        not among them.
    target_name_ : str
        Name of y, where it is a named Series.
    n_features_in_, feature_names_in_ : int, ndarray

    See Also
    --------
    BayesianGLMRegressor : Rows without an order.

    Examples
    --------
    >>> import numpy as np
    >>> from sksvi import DynamicGLM
    >>> rng = np.random.default_rng(0)
    >>> y = rng.poisson(np.exp(2 + np.cumsum(0.1 * rng.standard_normal(100))))
    >>> model = DynamicGLM().fit(None, y)
    >>> model.forecast(2)[["lower", "upper"]].to_numpy().shape
    (2, 2)
    """

    LAYOUT = f"""{BaseSVI.LAYOUT}
        mean_ number; _encoding.centre (d); _series.series.X (T,x); _series.dynamics.n_states count n
        _series.dynamics.n_coefficients count d; state_.q.latents.chain.noise (n); state_.q.latents.chain.X (T,x)
        state_.q.dynamics.value (p) where p == len(self._series.dynamics.parameters)
        _series.last (n); _series.last_cov (n,n)
        _series.nodes.values? (_,_) where it.shape[1] == p + np.size(self.likelihood_.unconstrained)
        _series.nodes? where self._series.has_posteriors(self.state_.q['latents'].weights)
    """

    level_variance_: float
    trend_variance_: float
    cycle_variance_: float
    seasonal_variance_: float | np.ndarray
    coefficient_variance_: np.ndarray
    damping_: float
    cycle_damping_: float
    cycle_period_: float
    noise_: float | None
    groups_: np.ndarray
    diffuse_lower_bound_: float

    _encoding_class = SeriesEncoding
    _quantile_errors = "calibrated"
    #: The fit to several series.
    _panel: SeriesPanel | None = None
    _at_hand: tuple[str, ...] = ("*",)
    _parameter_constraints: dict[str, list[Any]] = {
        **{
            name: rule
            for name, rule in BaseSVI._parameter_constraints.items()
            if name not in ("covariance", "batch_size", "total_samples", "forgetting", "half_life")
        },
        "expectation": [StrOptions({"auto", "quadrature", "gauss-hermite"}), expectations.Expectation],
        "likelihood": [StrOptions(set(likelihoods.NAMES - likelihoods.OF_CLASSES | {"auto"})), likelihoods.Likelihood],
        "level": [StrOptions({"auto", *KINDS}), "boolean"],
        "trend": ["boolean"],
        "seasonal": [Interval(Real, 2, None, closed="left"), "array-like", dict, None],
        "seasonal_type": [StrOptions({"dummy", "trigonometric"})],
        "autoregressive": ["boolean"],
        "cycle": ["boolean", Interval(Real, 2, None, closed="neither")],
        "level_variance": VARIANCE,
        "trend_variance": VARIANCE,
        "seasonal_variance": [*VARIANCE, "array-like"],
        "coefficient_variance": VARIANCE,
        "groups": [str, Integral, None],
        "share_variances": ["boolean", StrOptions({"partial"})],
        "damping": [StrOptions({"auto"}), Interval(Real, 0, 1, closed="neither")],
        "initial_variance": [StrOptions({"auto"}), Interval(Real, 0, None, closed="neither")],
        "algorithm": [StrOptions({"cvi", "fp", "mc-ssvi"}), algorithms.Algorithm],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        **CONSTRAINTS,
    }
    _changes: dict[str, ParameterChange] = {
        **{name: change for name, change in SHARED.items() if name not in ("batch_size", "total_samples")},
        "likelihood": LIKELIHOOD,
        "level": STATES,
        "trend": STATES,
        "seasonal": stays("the fit has states for it, or none", lambda estimator, name: repr(estimator.seasonal)),
        "seasonal_type": STATES,
        "autoregressive": STATES,
        "cycle": STATES,
        "level_variance": stays("a variance has been learned, or not", auto_or_number),
        "trend_variance": stays("a variance has been learned, or not", auto_or_number),
        "seasonal_variance": stays(
            "variances have been learned, or not", lambda estimator, name: repr(estimator.seasonal_variance)
        ),
        "coefficient_variance": stays("a variance has been learned, or not", auto_or_number),
        "damping": stays("it has been learned, or not", auto_or_number),
        "initial_variance": UNCHECKED,
        **CHANGES,
        "groups": stays("the fit is to these series"),
        "share_variances": stays("the series have learned their variances together, or not"),
    }

    def __init__(
        self,
        *,
        likelihood: LikelihoodLike = "auto",
        level: str | bool = "auto",
        trend: bool = False,
        seasonal: float | Sequence[float] | dict[float, int | str] | None = None,
        seasonal_type: str = "dummy",
        autoregressive: bool = False,
        cycle: bool | float = False,
        level_variance: float | str = "auto",
        trend_variance: float | str = "auto",
        seasonal_variance: float | str | Sequence[float] = "auto",
        coefficient_variance: float | str = 0.0,
        damping: float | str = "auto",
        initial_variance: float | str = "auto",
        hyperparameters: str = "integrated",
        groups: Columns | None = None,
        share_variances: bool | str = False,
        algorithm: AlgorithmLike = "cvi",
        expectation: ExpectationLike = "auto",
        max_iter: int = 5000,
        tol: float = 1e-6,
        n_jobs: int | None = None,
        warm_start: bool = False,
        random_state: RandomState = None,
        verbose: int = 0,
    ) -> None:
        self.likelihood = likelihood
        self.level = level
        self.trend = trend
        self.seasonal = seasonal
        self.seasonal_type = seasonal_type
        self.autoregressive = autoregressive
        self.cycle = cycle
        self.level_variance = level_variance
        self.trend_variance = trend_variance
        self.seasonal_variance = seasonal_variance
        self.coefficient_variance = coefficient_variance
        self.damping = damping
        self.initial_variance = initial_variance
        self.hyperparameters = hyperparameters
        self.groups = groups
        self.share_variances = share_variances
        self.algorithm = algorithm
        self.expectation = expectation
        self.max_iter = max_iter
        self.tol = tol
        self.n_jobs = n_jobs
        self.warm_start = warm_start
        self.random_state = random_state
        self.verbose = verbose

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(
        self,
        X: MatrixLike | None,
        y: PerRow,
        sample_weight: PerRow | None = None,
        offset: PerRow | None = None,
        exposure: PerRow | None = None,
    ) -> DynamicGLM:
        """Fit q, and what is to be learned, to a series.

        Parameters
        ----------
        X : array-like of shape (T, D), or None
            Columns whose coefficients are fitted, in the order of time; None, or a table that has an index and no
            column (``pandas.DataFrame(index=times)``, which searches and cross-validation can split): there are none.
        y : array-like of shape (T,), binomial (T, 2)
            NaN where nothing was observed. Its pandas index, or that of X, is kept.
        sample_weight : array-like of shape (T,), default=None
            A weight of k counts as k observations at that point.
        offset : array-like of shape (T,), default=None
            Added to f.
        exposure : array-like of shape (T,), default=None
            What a count is a count of, such as time, area or persons: positive, multiplies the rate exp(f) of
            "poisson" and "negative-binomial" (its logarithm is added to f).

        Returns
        -------
        DynamicGLM
            Itself.

        Raises
        ------
        ValueError
            y outside the likelihood's support or without any value, times that are repeated, out of order or others
            than their frequency gives, numbers that are not finite in X, negative or only zero weights.

        Warns
        -----
        UserWarning
            For a target that a likelihood of counts takes, and that is measured: fractions without weights, or whole
            numbers that vary far less than counts do, or of which a learned level had to take in what a Poisson has no
            noise for. For times without a single frequency, seasons of which some
            points were never observed, and long seasons that are not fitted point by point.
        """
        if self.groups is not None:
            return fit_with_groups(self, "fit", X, y, sample_weight, offset, exposure)
        if self._panel is not None:
            self._leave_panel(self.warm_start)
        offset = with_exposure(self, offset, exposure, X, y=y)
        return remember_exposure(self._fit(X, y, sample_weight, offset), exposure)

    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(
        self,
        X: MatrixLike | None,
        y: PerRow,
        sample_weight: PerRow | None = None,
        offset: PerRow | None = None,
        exposure: PerRow | None = None,
    ) -> DynamicGLM:
        """Append points that follow the last one, with what has been learned as it is; the first call is a `fit`.

        Messages of earlier points stay as they are until `smooth`.

        Parameters
        ----------
        X : array-like of shape (n, D), or None
            As in `fit`.
        y : array-like of shape (n,), binomial (n, 2)
            Gaps are rows of NaN. Rows with an index must follow the last point; rows without one do.
        sample_weight, offset, exposure : array-like of shape (n,), default=None

        Returns
        -------
        DynamicGLM
            Itself.

        Raises
        ------
        ValueError
            As `fit`; times that the series has, that lie before its end, or that leave a gap.
        """
        if self.groups is not None:
            return fit_with_groups(self, "partial_fit", X, y, sample_weight, offset, exposure)
        if self._panel is not None:
            self._leave_panel(True)
        offset = with_exposure(self, offset, exposure, X, y=y)
        return remember_exposure(self._partial_fit(X, y, sample_weight, offset), exposure, streams=True)

    # ---- several series
    log_evidence = of_one_series(Diagnostics.log_evidence)
    online = of_one_series(Online.online)
    _latent = of_one_series(Diagnostics._latent, "latent")
    _joint = of_one_series(Diagnostics._joint, "check_posterior")

    def smooth(self) -> DynamicGLM:
        """Sweep over the whole series again: messages of earlier points learn what later ones said; variances stay.

        Returns
        -------
        DynamicGLM
            Itself.
        """
        if self._panel is None:
            return super().smooth()
        with self._all_or_nothing():
            self._panel = copy.copy(self._panel).smooth()
            self.__dict__.update(self._panel.totals)
        return self

    @property
    def population_(self) -> DataFrame:
        """Median of what series learn with ``share_variances="partial"``, and the ends of 90 % of them."""
        if self._panel is None:
            raise AttributeError('population_ is there after a fit with groups and share_variances="partial"')
        return self._panel.population_

    @property
    def components_(self) -> DataFrame:
        """Level, trend (the slope), seasons, cycle and regression at every point, given all data: (name, mean or std).

        Their sum, but for the trend, which moves the level, and the offset, is f.
        """
        return super().components_ if self._panel is None else self._panel.components_

    @property
    def states_(self) -> DataFrame:
        """Every state at every point, given all data: (name, mean or std); columns of X are centred and scaled."""
        return super().states_ if self._panel is None else self._panel.states_

    @property
    def series_(self) -> dict[Any, DynamicGLM]:
        """A fitted `DynamicGLM` for each series of a fit with `groups`."""
        if self._panel is None:
            raise AttributeError("series_ is there after a fit with groups")
        return self._panel.series_

    def _leave_panel(self, goes_on: bool) -> None:
        """Forget a fit to several series where one series is fitted; an error where that one would go on from it."""
        if goes_on:
            raise ValueError(
                "groups=None, and this is a fit to several series: set groups as it was, or go on with one of series_."
            )
        forget(self)

    @property
    def _score_name(self) -> str:
        return super()._score_name if self._panel is None else str(next(iter(self.series_.values()))._score_name)

    def _data_header(self) -> list[tuple[str, str]]:
        lines = super()._data_header()
        more = self._level_lines() if self._panel is None else [("series", f"{len(self.series_):,}")]
        return [*lines, *more]

    # ---- from rows to a model
    @property
    def _likelihood_given(self) -> Any:
        """The parameter, or where counts choose between several the first of these."""
        return "poisson" if self.likelihood == "auto" else self.likelihood

    @property
    def index_(self) -> Index:
        """Points in time that the fit has rows of."""
        return self._fitted_series("index_").index

    def _encoded(self, given: GivenRows, fresh: bool, part: Part) -> Any:
        data = super()._encoded(given, fresh, part)
        if fresh:
            for name in ("level_", "level_evidence_"):
                self.__dict__.pop(name, None)
            self.likelihood_ = self._encoding.likelihood
        if self._encoding.clock is not None and part.whole:
            dynamics = self._encoding.dynamics(self._structure_given(data, 0.0))
            data = replace(data, X=self._encoding.rows_at(dynamics, data.X, np.arange(len(data))))
        return data

    def _structure_given(self, data: Any, turn: float) -> dict[str, Any]:
        """What says which states there are: parameters, the length of the series, the first period of a cycle."""
        return {name: plain(getattr(self, name)) for name in STRUCTURE} | {"length": len(data), "turn": turn}

    def _build_model(
        self, data: EncodedSeries, periods: list[float] | None = None
    ) -> tuple[DynamicModel, EncodedSeries]:
        turn, *others = self._first_periods([shown(self.likelihood_, data)]) if periods is None else periods
        structure = self._structure_given(data, turn)
        kind, found, walked = vars(self).get("level_", requested_kind(self)), None, None
        if kind == "auto" and periods is not None:  # series that learn together
            kind = "walk"
        self._check_points(len(data), kind, structure)
        if kind == "auto":
            found, tried = choose(self, data, structure, others)
            self.level_evidence_ = {f"{t.kind}, {type(t.likelihood).__name__}": t.evidence for t in tried}
            walked = tried[0].block
            kind, self.likelihood_ = found.kind, found.likelihood
        self.level_ = kind
        self._series = self._unfitted(data, structure_of(kind, structure))
        dynamics = self._series.dynamics
        dynamics.turns = others
        if found is None:
            return self._model_of(data), data
        theta = np.array([found.values[p.name] for p in dynamics.parameters])
        if len(found.block.chain) != len(data) or self.hyperparameters != "integrated":
            return self._model_of(data, walked=walked, theta=dynamics.moving(theta)), data
        self._series = self._series.changed(candidates=found.nodes)
        return self._model_of(data, walked=walked, theta=theta, messages=found.block), data

    def _unfitted(self, data: EncodedSeries, structure: dict[str, Any]) -> SeriesFit:
        """The points of a series, and the first states of this structure, without any message."""
        dynamics = self._encoding.dynamics(structure)
        chain = dynamics.chain(dynamics.start, data.X)
        points = Table(data.X, data.y, data.weight, data.offset)
        parts = data.index_record, self.likelihood_, ChainGaussian(chain), chain.mean, chain.cov
        return SeriesFit(self._encoding, structure, points, *parts)

    def _check_points(self, n: int, kind: str, structure: dict[str, Any]) -> None:
        """An error where a fit of n points in time takes more memory than there is."""
        tries = kind == "auto"
        dynamics = self._encoding.dynamics(structure_of("walk" if tries else kind, structure))
        given, closed = self._shared and "population" not in self._shared, self.likelihood_.noise_variance is not None
        searched = 0 if given else len(dynamics.parameters) + len(self.likelihood_.learned)
        n_arrays = arrays_held(dynamics.n_states, searched, closed=closed, tries=tries)
        what = f"a smoother of {n} points in time and {dynamics.n_states} states"
        memory.need(8.0 * n * n_arrays, what, "take fewer points, or shorter seasons")

    def _first_periods(self, shown: Iterable[Array]) -> list[float]:
        """Periods that the search for that of a cycle begins with: the one that dominates f as single points show it.

        The other ones are those of first and second differences: a level that walks hides a short cycle, which
        differences show, and second ones below a slope.
        """
        if self.cycle is not True:
            return [0.0]
        shown = list(shown)
        return [dominant_period([np.diff(values, n) for values in shown]) for n in range(1 + DIFFERENCES)]

    def _model_of(self, data: Table, **start: Any) -> DynamicModel:
        """The model of a series with the states of the fit; `start`: where it begins, as `DynamicModel` takes it."""
        population = self._shared.get("population")
        prior: WeakPrior | PopulationPrior | None = None
        own = {"learned": population is not None, "theta": self._shared["theta"]} if self._shared else {}
        encoding, dynamics = self._encoding, self._series.dynamics
        if population is not None:
            prior = PopulationPrior(population[0], population[1], len(dynamics.parameters))
        elif self.hyperparameters == "integrated":
            prior = WeakPrior(dynamics, self.likelihood_, encoding.spread, self._series.structure["length"])
        own |= {"unit": encoding.unit, "prior": prior, **start}
        return DynamicModel(self.likelihood_, dynamics, data.X, data.weight, **own)

    #: What a series learned together with others: parameters of its states, and the likelihood.
    _shared: dict[str, Any] = {}

    #: What steps are made of, for errors that name it.
    batch_size = None

    def _new_state(self, problem: Problem) -> State:
        model = cast(DynamicModel, problem.model)
        part = first_part(model, self._series.series, periods_of(self))
        if part is not None:
            on_part = self._problem(self._model_of(part), part)
            problem = replace(problem, model=started_at_part(on_part, model, self._most_passes(), self.tol))
        return super()._new_state(problem)

    def _continued(self, problem: Problem) -> State:
        state = super()._continued(problem)
        model, data = cast(DynamicModel, problem.model), self._series.series
        block, values = state.q["latents"], {name: state.q[name].value for name in model.hyper}
        if len(block.chain) != len(data):  # messages are of other points
            block = model.starts.filled(model.begin(data, None), data)["latents"]
        q = model.at(values, block)
        same = block is state.q["latents"] and q["latents"].chain.equals(block.chain)
        return state if same else replace(state, q=q, progress=START)

    def _fit_warnings(self, problem: Problem, state: State) -> Iterator[str]:
        data, walked = self._series.series, cast(DynamicModel, problem.model).walked
        yield from self._too_small(data.X)
        block, learned = state.q["latents"], bool(state.q["dynamics"].value.size)
        name = self._likelihood_given if type(self.likelihood_) is not NegativeBinomial else "negative-binomial"
        mistaken = list(count_warnings(self.likelihood_, name, data))
        block = block if walked is None else walked  # what returns takes noise in unseen
        yield from mistaken or noise_taken_in(self.likelihood_, name, learned, block, data)
        yield from steps_of_a_quantile(self.likelihood_, name, learned)
        yield from filter(None, [frequency_warning(self.index_)])
        if self._encoding.clock is None:
            yield from filter(None, [clock_warning(self.index_, periods_of(self))])
        yield from unobserved_seasons(periods_of(self), data)
        yield from long_seasons(self)

    # ---- what a fit leaves behind
    def _finish(self, model: DynamicModel, state: State, weight: float, bounds: Array | None = None) -> None:
        block = state.q["latents"]
        super()._finish(model, state, weight, bounds)
        ends = {}
        if "swept" in vars(block):  # points that were appended are swept alone
            ends = {"last": block.swept.last, "last_cov": block.swept.last_cov}
        shown_block = self.state_.shown["latents"]
        if ends or self._series.block is not shown_block:  # else points were appended, and nothing else is new
            self._series = self._series.changed(likelihood=self.likelihood_, block=shown_block, **ends)
        self._add_gain()
        if self._series.nodes is None:
            _ = self._series.views  # predictions leave an estimator as it is

    def _add_gain(self) -> None:
        """Turn the bound at the mode into the log evidence, by the gain of the integral."""
        self.lower_bound_ += self._series.gain
        self.diffuse_lower_bound_ += self._series.gain

    def _refine(self, problem: Problem, state: State, budget: EvaluationBudget) -> str | None:
        """Nodes of what was learned."""
        fit, found = self._series, None
        if self.hyperparameters == "integrated":
            frozen = "likelihood" in problem.frozen
            found = fit.candidates
            if not fit.near_end(state.shown):
                found = nodes_of(problem.model, fit.series, self._rule(), state.shown, frozen)
        if found is not None:
            gain = float(found[0].log_integral - self.lower_bound_)
            self._series = fit.changed(nodes=found[0], node_messages=found[1], gain=gain, candidates=None)
            self._add_gain()
            _ = self._series.views  # predictions leave an estimator as it is
        return super()._refine(problem, state, budget)

    def _expose(self, model: DynamicModel, state: State) -> None:
        q = state.q
        self.likelihood_ = model.current_likelihood(q)
        self.noise_ = self.likelihood_.scales.noise
        self._expose_parameters(model.dynamics, q["dynamics"].value)
        self.diffuse_lower_bound_ = self.lower_bound_ + model.dynamics.diffuse_log_sd

    def _expose_parameters(self, dynamics: Any, theta: Array) -> None:
        """Variances, dampings and periods under the user's names."""
        for name in LEARNED:
            self.__dict__.pop(f"{name}_", None)
        for name, value in parameters_of(dynamics, theta, self._encoding.scale).items():
            setattr(self, f"{name}_", value)

    def _without_rows(self) -> Any:
        bare = super()._without_rows()
        if self._panel is not None:
            bare._panel = self._panel._without_rows()
        elif hasattr(self, "_series"):
            bare._series = self._series.without_rows
            q = {**bare.state_.q, "latents": bare._series.block}
            bare.state_ = replace(bare.state_, q=q)
        return bare

    def _posterior_draws(self, n: int, rng: Any) -> PosteriorDraws:
        self._series.stored_index("to_arviz")
        return series_draws(self._series, all_parameters(self.state_.q), n, rng)

    def _prior_draws(self, X: Any, n: int, rng: Any, offset: Any = None) -> tuple[Any, PosteriorDraws]:
        return prior_draws(self, X, n, rng)

    def _base_likelihood(self) -> likelihoods.Likelihood:
        """The likelihood before any data."""
        return self._record.working or likelihoods.resolve(self._likelihood_given)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags
