"""What mixtures of tables share: rows in, components out."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral, Real
from typing import Any, Self, cast

import numpy as np
from scipy.special import logsumexp, softmax
from sklearn.base import DensityMixin
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted

from sksvi import algorithms
from sksvi._names import own_name
from sksvi._runtime import memory, parallel
from sksvi._typing.arrays import DataFrame, MatrixLike, PerRow, RandomState, Series
from sksvi._typing.parameters import AlgorithmLike
from sksvi.callbacks import FitMonitor
from sksvi.estimators.base import BaseSVI, BatchRule
from sksvi.estimators.checks import check_count, check_seed
from sksvi.estimators.draws import PosteriorDraws, block_draws
from sksvi.estimators.encoding import GivenRows, check_variational
from sksvi.estimators.first_rows import FirstRows
from sksvi.estimators.fitting import evaluation_budget
from sksvi.estimators.posterior import Posterior
from sksvi.estimators.refit import COMPONENTS, STREAMED, UNCHECKED, auto_or_number, stays
from sksvi.estimators.summaries import columns_of_draws
from sksvi.estimators.validation import StrOptions
from sksvi.families import Point
from sksvi.inference.problem import Problem
from sksvi.inference.records import replace
from sksvi.inference.search import EvaluationBudget
from sksvi.inference.state import State, with_own_lists
from sksvi.mixture import _split_merge
from sksvi.mixture._criteria import bic, log_labelings
from sksvi.mixture._encoding import MixtureEncoding, column_name
from sksvi.mixture._impute import as_series, filled, gaps
from sksvi.mixture._joint import copies, joint_posterior
from sksvi.models.chains import UNCERTAINTY
from sksvi.models.data import Table
from sksvi.models.mixture.model import MixtureModel
from sksvi.partitions.lazy import added
from sksvi.predictive.plain import tail_of
from sksvi.predictive.quantiles import beta_quantiles

Array = np.ndarray

ALGORITHMS = ("svi", "ssvi-a", "ssvi", "map", "cvi", "mc-ssvi", "gibbs")
#: Rows up to which a step takes all of them; beyond, a share of them within limits: fits end in better optima.
BATCHES = BatchRule(whole=64, smallest=64, largest=2000, share=10)
#: Rows up to which fits from other starts find these optima: steps take all of them.
FEW_ROWS = 500
#: Most judged passes after the moves of a fit that was cut off.
SETTLING_PASSES = 10
#: Share of the bound that an end of fewer components must gain for a stream to go on from there: later rows part what
#: it merged. Moves gain 2 % of images, which are predicted better without, and 7 % and more of surveys
#: (`mixture.small`).
STREAM_GAIN = 0.08
#: Where the learning of the prior count of each value starts: every probability as likely as any other.
PRIOR_START = 1.0
#: α that is chosen by K is the first of these over K, at most the second and at least the third times K: a few
#: components are all meant, and have rows, but not as many each; of many those that rows do not need stay empty.
FEW, EACH, MANY = 40.0, 2.0, 0.05
#: Rows that a component must be expected to have for it to count as used.
LEAST_ROWS = 0.5


def n_used(rows: Array) -> int:
    """How many components have rows, of which each is expected to have so many."""
    return int(np.sum(rows >= LEAST_ROWS))


def batch_rule(self: Any) -> BatchRule:
    """Rows of a step: of few rows all, in fits that other starts follow; of a stream the first ones are no such fit."""
    starts_again = self.moves not in ("none", False) and self._algorithm().spec.globals == "expected"
    return replace(BATCHES, whole=FEW_ROWS) if starts_again and self._first_rows is None else BATCHES


class Mixture(DensityMixin, FirstRows):
    """A mixture whose columns are independent within a component; a subclass encodes its tables."""

    LAYOUT = (
        FirstRows.LAYOUT
        + """
        _record.choices.n_components count k; probability_prior_ number >0
        state_.q.value_prior.value? (1) f; _encoding.sizes items d; categories_[*]? labels
        state_.q where {b: np.shape(q.mean) for b, q in it.items() if b != 'value_prior'} == self._encoding.shapes(k)
        posterior_._blocks where {b: np.shape(q.mean) for b, q in it.items()} == self._encoding.shapes(k)
        posterior_._blocks where len({len(vars(q).get('draws', ())) for q in it.values()}) <= 1
        _own._blocks where {b: np.shape(q.mean) for b, q in it.items()} == self._encoding.shapes(k)
        weights_ (k) f >=0; n_components_ count >=1 <=k
        state_.locals.values? (_,1) f >=0 where (it < k) & (it % 1 == 0)
    """
    )

    #: A chunk is many small steps: one step on all of it would say little more than one on some of its rows.
    _portion_rows = 20
    _batch_rule = property(batch_rule)
    _parameter_constraints: dict[str, list[Any]] = {
        **{k: v for k, v in BaseSVI._parameter_constraints.items() if k not in ("covariance", "expectation")},
        "algorithm": [StrOptions(set(ALGORITHMS)), algorithms.Algorithm],
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "concentration": [StrOptions({"auto"}), Interval(Real, 0, None, closed="neither")],
        "probability_prior": [StrOptions({"auto"}), Interval(Real, 0, None, closed="neither")],
        "moves": [StrOptions({"merge", "all", "none"}), "boolean"],
        "uncertainty": [StrOptions(set(UNCERTAINTY))],
    }
    _changes = {
        **{name: change for name, change in STREAMED.items() if name != "expectation"},
        "n_components": COMPONENTS,
        "concentration": UNCHECKED,
        "probability_prior": stays("q has it, or the model a number", auto_or_number),
        "moves": UNCHECKED,
        "uncertainty": UNCHECKED,
    }
    #: Every expectation has a closed form.
    expectation = "auto"
    #: Whether columns are zeros and ones.
    _binary: bool

    n_components: int
    concentration: float | str
    probability_prior: float | str
    probability_prior_: float
    moves: str | bool
    uncertainty: str
    posterior_: Posterior
    #: Blocks of q, about the means of a chain where there is one, components in use first.
    _own: Posterior
    n_components_: int
    _encoding: MixtureEncoding

    def __init__(
        self,
        n_components: int = 100,
        *,
        concentration: float | str = "auto",
        probability_prior: float | str = "auto",
        moves: str | bool = "merge",
        algorithm: AlgorithmLike = "svi",
        uncertainty: str = "corrected",
        batch_size: int | str | None = "auto",
        max_iter: int = 100,
        tol: float = 3e-4,
        total_samples: float | None = None,
        forgetting: float = 1.0,
        half_life: float | None = None,
        n_jobs: int | None = None,
        warm_start: bool = False,
        random_state: RandomState = None,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.concentration = concentration
        self.probability_prior = probability_prior
        self.moves = moves
        self.algorithm = algorithm
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
    def fit(self, X: MatrixLike, y: object = None, sample_weight: PerRow | None = None) -> Self:
        """Fit to rows.

        Parameters
        ----------
        X : {array-like, sparse matrix, DataFrame} of shape (n, D)
            Missing cells are NaN or None.
        y : None
            Ignored.
        sample_weight : array-like of shape (n,), default=None
            A row of weight w counts as w rows.

        Returns
        -------
        self : object
            The estimator itself.
        """
        self._validate_params()
        return self._fit(X, None, sample_weight, None)

    def fit_predict(self, X: MatrixLike, y: object = None, sample_weight: PerRow | None = None) -> Array:
        """Fit to rows, and their most probable components.

        Parameters
        ----------
        X : {array-like, sparse matrix, DataFrame} of shape (n, D)
        y : None
            Ignored.
        sample_weight : array-like of shape (n,), default=None

        Returns
        -------
        labels : ndarray of shape (n,)
        """
        return self.fit(X, sample_weight=sample_weight).predict(X)

    def partial_fit(self, X: MatrixLike, y: object = None, sample_weight: PerRow | None = None) -> Self:
        """Go on with a chunk of rows.

        The first 2,000 rows of a stream (16 MB) are kept, and fitted together whenever they have doubled; then each
        chunk is a few steps. A stream may so begin with one row.

        Parameters
        ----------
        X : {array-like, sparse matrix, DataFrame} of shape (n, D)
        y : None
            Ignored.
        sample_weight : array-like of shape (n,), default=None

        Returns
        -------
        self : object
            The estimator itself.
        """
        self._validate_params()
        if self._algorithm().spec.sampler:
            raise ValueError("algorithm='gibbs' keeps all rows in memory and cannot take chunks: choose 'svi'.")
        return self._partial_fit(X, None, sample_weight, None)

    def _in_partitions(self, given: GivenRows, fixed: Any) -> Any:
        check_variational(self)
        return super()._in_partitions(given, fixed)

    def _check_memory(self, data: Table) -> None:
        values = float(sum(self._encoding.sizes))
        what = f"n_components={self.n_components} for {len(self._encoding.sizes)} columns"
        memory.need(8.0 * 40 * self.n_components * values, what, "lower n_components")

    def _build_model(self, data: Table) -> tuple[MixtureModel, Table]:
        own, k = isinstance(self.concentration, str), int(self.n_components)
        model = MixtureModel(
            k,
            self._encoding.sizes,
            concentration=max(min(FEW / k, EACH * k), MANY * k) if own else float(self.concentration),
            value_prior=PRIOR_START if isinstance(self.probability_prior, str) else float(self.probability_prior),
            learns_prior=isinstance(self.probability_prior, str),
            binary=self._binary,
        )
        return model, data

    def _after_passes(self, problem: Problem, state: State, passes: int, monitor: FitMonitor) -> State:
        """The state after moves, steps on all rows, and fits from other starts."""
        if self.moves in ("none", False) or problem.algorithm.spec.sampler:
            return state
        left, every = passes - state.passes, self.moves in ("all", True)
        climbs, tol = _split_merge.climbs(problem), _split_merge.SETTLED * self.tol
        if climbs and left > 0 and not monitor.stopped:
            counted = with_own_lists(state)
            budget = evaluation_budget(problem, counted, passes, monitor)
            state = _split_merge.moved(problem, counted, every, left, tol, budget)
            state = replace(state, passes=counted.passes, rows=counted.rows)
        elif climbs or not state.converged:  # what creeps are components that die, and of these moves decide
            state = _split_merge.moved(problem, state, every, SETTLING_PASSES, self.tol)
        else:
            state, _ = _split_merge.merged(problem, state, every)
        other = climbs and not monitor.stopped
        return _split_merge.from_other_starts(problem, state, every, self._most_passes(), tol) if other else state

    def _concluded(self, problem: Problem, state: State) -> State:
        if self.moves in ("none", False) or problem.scale != 1.0 or not _split_merge.climbs(problem):
            return state
        every, most, tol = self.moves in ("all", True), self._most_passes(), _split_merge.SETTLED * self.tol
        found = _split_merge.moved(problem, state, every, most, tol)
        found = _split_merge.from_other_starts(problem, found, every, most, tol)
        model = cast(MixtureModel, problem.model)
        here, there = (n_used(model.rows_of(each.q)) for each in (state, found))
        enough = 0.0 if there >= here else STREAM_GAIN * abs(state.bound)
        return found if found.bound - state.bound > enough else state

    # ---- what a fit leaves behind
    def _refine(self, problem: Problem, state: State, budget: EvaluationBudget) -> str | None:
        rows = copies(problem.data) if self.uncertainty == "corrected" and self.n_components > 1 else None
        if rows is not None:
            hyper = {name: state.q[name] for name in cast(MixtureModel, problem.model).hyper}
            there = replace(problem, data=rows)
            q = {**self._own, **hyper}
            self.posterior_, self._own = joint_posterior(there, state, q, self.n_components_)
            self.weights_ = self._own["weights"].mean
        return super()._refine(problem, state, budget)

    def _expose(self, model: MixtureModel, state: State) -> None:
        rows = model.rows_of(state.q)
        order = np.argsort(-rows, kind="stable")
        self.posterior_ = self._own = Posterior({name: state.q[name][order] for name in model.prior(state.q)})
        self.probability_prior_ = model.value_prior_of(state.q)
        self.weights_ = self._own["weights"].mean
        self.n_components_ = max(n_used(rows), 1)

    # ---- rows
    def _fitted_model(self) -> MixtureModel:
        return self._model_of_blocks(len(self.weights_))

    def _model_of_blocks(self, n_components: int) -> MixtureModel:
        return MixtureModel(n_components, self._encoding.sizes, binary=self._binary)

    def _each(self, X: Any, reduce: Callable[[Array], Array]) -> Array:
        """reduce(log joint density (n, K) of rows and components), rows in blocks."""
        check_is_fitted(self)
        cells = self._encoding.cells(self, X, self._encoding)
        model = self._fitted_model()
        view = model.view_at_mean(dict(self._own.items()))
        data = Table(cells, np.broadcast_to(0.0, (len(cells),)))
        with parallel.working():
            parts = parallel.in_order(
                lambda rows: reduce(view.logs(cells[rows])),
                model.chunks(slice(0, len(cells)), data),
                parallel.n_threads(self.n_jobs),
            )
            return np.concatenate(list(parts))

    def predict(self, X: MatrixLike) -> Array:
        """The most probable component in use of each row.

        Parameters
        ----------
        X : {array-like, sparse matrix, DataFrame} of shape (n, D)

        Returns
        -------
        labels : ndarray of shape (n,)
        """
        return self._each(X, lambda logs: logs[:, : self.n_components_].argmax(1))

    def predict_proba(self, X: MatrixLike) -> Array:
        """Probability of each component for each row, integrated over the posterior.

        Parameters
        ----------
        X : {array-like, sparse matrix, DataFrame} of shape (n, D)

        Returns
        -------
        probabilities : ndarray of shape (n, n_components)
        """
        return self._each(X, lambda logs: softmax(logs, axis=1))

    def score_samples(self, X: MatrixLike) -> Array:
        """Log predictive density of the cells that each row has, integrated over the posterior.

        Parameters
        ----------
        X : {array-like, sparse matrix, DataFrame} of shape (n, D)

        Returns
        -------
        log_density : ndarray of shape (n,)
            Nats.
        """
        return self._each(X, lambda logs: logsumexp(logs, axis=1))

    def score(self, X: MatrixLike, y: object = None) -> float:
        """Mean log predictive density of rows, nats.

        Parameters
        ----------
        X : {array-like, sparse matrix, DataFrame} of shape (n, D)
        y : None
            Ignored.

        Returns
        -------
        score : float
        """
        total, n = added(self, "_scored", X)
        return float(total / n)

    def _scored(self, X: Any) -> tuple[float, int]:
        each = self.score_samples(X)
        return np.sum(each), len(each)

    def impute(self, X: MatrixLike, probabilities: bool = False) -> DataFrame | Series | Array:
        """Fill missing cells with their most probable value, given the others of their row.

        Parameters
        ----------
        X : {array-like, DataFrame} of shape (n, D)
            Missing cells are NaN or None.
        probabilities : bool, default=False
            Whether to return how probable each value of each missing cell is instead.

        Returns
        -------
        DataFrame or ndarray of shape (n, D), or Series
            X without gaps, of the kind that it came in; or `probabilities`, a Series by row, column and value, which
            sum to 1 over the values of a cell. They are integrated over the posterior as `predict_proba` is.

        Raises
        ------
        NotFittedError
            Before `fit`.
        TypeError
            For a sparse matrix.

        Examples
        --------
        >>> import pandas as pd
        >>> from sksvi import CategoricalMixture
        >>> X = pd.DataFrame({"car": ["yes", "no"] * 40, "bus": ["no", "yes"] * 40, "bike": ["no", "yes"] * 40})
        >>> model = CategoricalMixture(4, random_state=0).fit(X)
        >>> model.impute(pd.DataFrame({"car": ["yes", None], "bus": [None, "yes"], "bike": ["no", "yes"]}))
           car  bus bike
        0  yes   no   no
        1   no  yes  yes
        """
        check_is_fitted(self)
        frame, missing = gaps(X)
        of_component = self.predict_proba(X)
        found = {}
        for d in np.flatnonzero(missing.any(0)):
            rows, (values, means) = np.flatnonzero(missing[:, d]), self._values_of(int(d))
            found[int(d)] = rows, values, of_component[rows] @ means
        return as_series(self, frame, found) if probabilities else filled(X, frame, found)

    def _values_of(self, column: int) -> tuple[Array, Array]:
        """Values of a column, and the posterior means (K, values) of their probabilities."""
        for name, (_, columns) in self._fitted_model().names.items():
            for j in np.flatnonzero(np.asarray(columns) == column):
                return self._labels_of(column), self._each_value(name, self._own[name].mean)[:, j]
        return self._labels_of(column), np.ones((len(self.weights_), 1))

    def _labels_of(self, column: int) -> Array:
        """Values of a column in the order of their codes."""
        raise AttributeError(f"{type(self).__name__} does not name its values")

    def _size_criteria(self, X: Any, folds: Any) -> dict[str, Any]:
        """What speaks for this number of components: the bound, with all names of components, and BIC."""
        n_components, rng = int(self.n_components), np.random.default_rng(check_seed(self.random_state).randint(2**31))
        self.set_params(uncertainty="variational", warm_start=False).fit(X)
        bound = self.lower_bound_ + log_labelings(n_components, self.n_components_)
        cells = self._encoding.cells(self, X, self._encoding)
        minus_half_bic = bic(n_components, self._encoding.sizes, self._binary, cells, rng)
        return {"bound": bound, "bic": minus_half_bic, "n_used": self.n_components_}

    def _sampled(self, n_samples: Any, random_state: Any) -> tuple[Array, Array]:
        """Codes (n, D) of new rows, and their components."""
        check_is_fitted(self)
        n = check_count(n_samples, "n_samples", bytes_each=8.0 * len(self._encoding.sizes))
        rng = check_seed(random_state)
        labels = rng.choice(len(self.weights_), n, p=self.weights_ / self.weights_.sum())
        means = {name: block.theta / block.total for name, block in self._own.items() if name != "weights"}
        return self._codes(means, labels, rng), labels

    def _codes(self, probabilities: dict[str, Array], labels: Array, rng: Any) -> Array:
        """Codes (n, D) of rows of these components, from the probabilities of all values."""
        codes = np.zeros((len(labels), len(self._encoding.sizes)), np.intp)
        for name, (_, columns) in self._model_of_blocks(1).names.items():
            ends = np.cumsum(probabilities[name], axis=-1)
            for j, d in enumerate(columns):
                codes[:, d] = np.sum(rng.random_sample(len(labels))[:, None] > ends[labels, j, :-1], axis=1)
        return codes

    def _rows_of(self, codes: Array) -> Any:
        """Rows as a fit takes them."""
        raise AttributeError(f"{type(self).__name__} does not name its values")

    def summary(self, coverage: float = 0.9) -> DataFrame:
        """Posterior of the weight, and of every probability, of the components that are used.

        Parameters
        ----------
        coverage : float, default=0.9
            Of the equal-tailed interval (lower, upper).

        Returns
        -------
        DataFrame
            Columns mean, std, lower, upper, by component, column and value.
        """
        import pandas as pd

        check_is_fitted(self)
        tail, used = tail_of(coverage), self.n_components_
        weight = own_name("weight", [column_name(self, d) for d in range(self.n_features_in_)])
        values = [
            (d, (name, (j, v), column_name(self, d), label))
            for name, (m, columns) in self._fitted_model().names.items()
            for j, d in enumerate(columns)
            for v, label in self._shown_values(d, m)
        ]
        parts: list[Any] = [("weights", (), weight, "")]
        parts += [part for _, part in sorted(values, key=lambda value: value[0])]  # columns as the rows have them
        index = [(k, column, label) for _, _, column, label in parts for k in range(used)]
        table = self._drawn_table(parts, tail) if self._is_drawn else self._beta_table(parts, tail)
        names = ["component", "column", "value"]
        return pd.DataFrame(table, index=pd.MultiIndex.from_tuples(index, names=names)).sort_index(
            level="component", sort_remaining=False, kind="stable"
        )

    def _axes_of_blocks(self) -> dict[str, dict[str, Any]]:
        return self._axes_of_model(self._fitted_model())

    def _axes_of_model(self, model: MixtureModel) -> dict[str, dict[str, Any]]:
        axes: dict[str, dict[str, Any]] = {"weights": {"component": np.arange(model.n_components)}}
        for name, (m, columns) in model.names.items():
            own: dict[str, Any] = {f"column_{name}": [str(column_name(self, d)) for d in columns]}
            own |= {} if self._binary else {f"value_{name}": np.arange(m)}
            axes[name] = axes["weights"] | own
        return axes

    def _posterior_draws(self, n: int, rng: Any) -> PosteriorDraws:
        # One seed: drawn blocks are of the same draws.
        seed = rng.randint(np.iinfo(np.int32).max) if self._is_drawn else rng
        return self._with_density(block_draws(self.posterior_, self._axes_of_blocks(), n, seed), self._fitted_model())

    def _with_density(self, draws: PosteriorDraws, model: MixtureModel) -> PosteriorDraws:
        """Draws of all blocks with the density of rows."""

        def log_density(X: Any) -> Array:
            cells, out = self._encoding.cells(self, X, self._encoding), []
            for s in range(draws.n):
                drawn = {name: draws.variables[name].values[s] for name in ("weights", *model.names)}
                # draws of tiny shapes round to 0
                logs = {
                    name: np.log(np.maximum(self._each_value(name, part), np.finfo(float).tiny))
                    for name, part in drawn.items()
                }
                out.append(logsumexp(model.view_of(logs).logs(cells), axis=1))
            return np.array(out)

        return replace(draws, log_density=log_density)

    def _each_value(self, name: str, drawn: Array) -> Array:
        """A draw of a block; of two values the probabilities of both."""
        return np.stack([drawn, 1.0 - drawn], axis=-1) if self._binary and name != "weights" else drawn

    # ---- the prior
    def _drawn_hyper(self, model: MixtureModel, rng: Any) -> dict[str, Any]:
        """A learned prior count: log c ~ N(0, 1)."""
        return {name: Point(rng.standard_normal(1)) for name in model.hyper}

    def _row_draws(self, model: MixtureModel, q: dict[str, Any], drawn: dict[str, Array], data: Any, rng: Any) -> Any:
        """Rows without missing cells."""
        weights = drawn["weights"] / drawn["weights"].sum()
        each = {name: self._each_value(name, drawn[name]) for name in model.names}
        return self._rows_of(self._codes(each, rng.choice(len(weights), len(data), p=weights), rng))

    @property
    def _is_drawn(self) -> bool:
        return self.posterior_ is not self._own

    def _drawn_table(self, parts: list[Any], tail: float) -> dict[str, Array]:
        """Moments and quantiles of the draws of used components, part by part: block and position in it."""
        used, found = self.n_components_, []
        for name, at, *_ in parts:
            draws = self.posterior_[name].draws
            found.append(draws[:, :used] if not at else draws.reshape(*draws.shape[:3], -1)[:, :used, at[0], at[1]])
        return columns_of_draws(np.concatenate(found, axis=1), tail)

    def _beta_table(self, parts: list[Any], tail: float) -> dict[str, Array]:
        """Moments and quantiles of the Beta margins of used components, part by part."""
        from scipy.stats import beta

        used, counts, totals = self.n_components_, [], []
        for name, at, *_ in parts:
            block = self._own[name]
            counts.append(block.theta[:used] if not at else block.theta[:used, at[0], at[1]])
            totals.append(np.broadcast_to(block.total[0], used) if not at else block.total[:used, at[0], 0])
        a, total = np.concatenate(counts), np.concatenate(totals)
        certain = a >= total  # the weight of a component that is the only one
        others = np.where(certain, 1.0, total - a)
        law = beta(a, others)
        table = {"mean": law.mean(), "std": law.std()}
        table |= {name: beta_quantiles(a, others, p) for name, p in (("lower", tail), ("upper", 1 - tail))}
        return {name: np.where(certain, float(name != "std"), values) for name, values in table.items()}

    def _shown_values(self, column: int, m: int) -> list[tuple[int, Any]]:
        """Codes of a column's values that a summary has, with what users call them."""
        raise AttributeError(f"{type(self).__name__} does not name its values")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        # scikit-learn's own checks bring real numbers.
        tags.input_tags.two_d_array = False
        tags.input_tags.categorical = True
        return tags
