"""Fits of non-negative factors to counts: where components begin, memory, activations of rows, a table."""

from __future__ import annotations

from collections.abc import Iterator
from numbers import Integral, Real
from typing import Any, cast

import numpy as np
from scipy.special import gammaincinv
from sklearn.base import ClassNamePrefixFeaturesOutMixin
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted

from sksvi import algorithms
from sksvi._names import feature_names
from sksvi._runtime import memory, parallel
from sksvi._typing.arrays import ArrayLike, DataFrame
from sksvi.algorithms.specs import SVI
from sksvi.decomposition._joint_draws import JointDraws, affordable, chain_length, draws_bytes
from sksvi.estimators.base import BaseSVI, BatchRule
from sksvi.estimators.draws import PosteriorDraws, Variable
from sksvi.estimators.posterior import Posterior
from sksvi.estimators.refit import COMPONENTS, SHARED, UNCHECKED, stays, string_or_array
from sksvi.estimators.validation import StrOptions, check_table
from sksvi.families import Gamma, Point
from sksvi.inference import plan
from sksvi.inference.problem import Problem
from sksvi.inference.search import EvaluationBudget
from sksvi.inference.start import first_state
from sksvi.inference.state import State
from sksvi.models.chains import UNCERTAINTY
from sksvi.models.data import Table
from sksvi.models.nmf import cells
from sksvi.models.nmf.chain import CountChain, activations, draws_of
from sksvi.models.nmf.poisson import GammaPoisson
from sksvi.models.nmf.rows import CountRows
from sksvi.models.nmf.side_information import COEFFICIENTS
from sksvi.predictive.plain import tail_of

Array = np.ndarray

#: Passes of a start's components at most, and the relative change of the bound at which they end (spectra of 2 to 50
#: counts a cell, digits and texts: 3 to 18 passes).
START_PASSES, START_TOL = 30, 0.01
#: What every cell of a merged component has beside its own, of mean 1. With 0 digits and texts are predicted worse
#: (-1.901 for -1.888 nats a pixel, -7.331 for -7.327 a word), and the bounds of digits and spectra are larger by 0.4 %;
#: so are they after draws, which find their own way: none before those.
EVENED = 1.0
#: Numbers that a fit holds for each component of a column, and each count (`hostile.memory`).
OF_COLUMNS, OF_COUNTS = 25.0, 4.0
#: Where components begin, and how many rows that is found from.
STARTS = {"groups": (cells.from_groups, cells.GROUPED), "rows": (cells.from_rows, cells.CHOSEN_AMONG)}


class GammaFit(ClassNamePrefixFeaturesOutMixin, BaseSVI):
    """A fit of components to cells; a subclass says by which model (`_model`)."""

    _parameter_constraints: dict[str, list[Any]] = {
        **{name: rule for name, rule in BaseSVI._parameter_constraints.items() if name != "covariance"},
        "algorithm": [StrOptions({"svi", "ssvi-a", "cvi", "mc-ssvi"}), algorithms.Algorithm],
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "component_shape": [Interval(Real, 1e-3, 1e3, closed="both")],
        "activation_shape": [Interval(Real, 1e-3, 1e3, closed="both")],
        "uncertainty": [StrOptions(set(UNCERTAINTY))],
    }
    _changes = {
        **SHARED,
        "n_components": COMPONENTS,
        "component_shape": UNCHECKED,
        "activation_shape": UNCHECKED,
        "uncertainty": UNCHECKED,
        "init": stays("a fit that goes on has begun", string_or_array),
    }
    _batch_rule = BatchRule(whole=20_000, smallest=5_000, largest=5_000)
    #: Numbers that a fit holds for each component of a row.
    _numbers_of_row = 1.2

    n_components: int
    init: str | ArrayLike
    n_jobs: int | None
    components_: Array
    component_shares_: Array
    #: What users call the columns.
    _columns_called = "columns"
    #: What every cell of a merged component has beside its own.
    _evened: Any = EVENED
    uncertainty: str
    draws_: JointDraws | None
    #: Whether there are draws of rows, as ids of the fit, besides those of components.
    _stores_rows = False

    def _model(self, n_features: int) -> CountRows:
        """The model of rows of so many cells."""
        raise AttributeError(f"{type(self).__name__} has no model")

    @property
    def _row_blocks(self) -> dict[str, Any]:
        """The blocks that a row's posterior depends on."""
        return dict(self.posterior_)

    @property
    def _summarised(self) -> Gamma:
        """The block of `summary`, a number per component."""
        raise AttributeError(f"{type(self).__name__} does not say what its summary is of")

    # ---- fitting
    def _given(self, n_features: int) -> Array:
        """The components of `init`, scaled to mean 1 as the prior's are."""
        given = check_table(self.init, name="init", dtype=np.float64)
        shape = (int(self.n_components), n_features)
        if given.shape != shape:
            raise ValueError(f"init.shape == {given.shape}, expected {shape}: a row per component.")
        if np.any(given < 0) or not np.all(given.sum(1) > 0):
            raise ValueError("init must have no negative number, and in every row one that is not 0.")
        return np.asarray(given / given.mean(1, keepdims=True))

    def _check_memory(self, data: Table) -> None:
        self._check_size(int(self.n_components), data.X.shape[1], data.X if data.at_hand else None)

    def _check_size(self, K: int, F: int, X: cells.CountMatrix | None, start_text: str = "", remedy: str = "") -> None:
        """Raise an error where K components of F columns and these counts take more memory than there is."""
        what = f"n_components={self.n_components} for {F} {self._columns_called}{start_text}"
        rows = 0.0 if X is None else self._numbers_of_row * K * X.shape[0] + OF_COUNTS * X.counts.nnz
        numbers = float(K * (F + (X.shape[0] if X is not None and self._stores_rows else 0)))
        draws = draws_bytes(numbers, 0.0) if X is not None and self.uncertainty == "corrected" else 0.0
        memory.need(8.0 * (OF_COLUMNS * K * F + rows) + draws, what, f"lower n_components{remedy}")

    def _build_model(self, data: Table) -> tuple[Any, Table]:
        return self._model(data.X.shape[1]), data

    def _model_at_start(self, problem: Problem, seed: int) -> Any:
        return problem.model.replaced(start=self._start(problem, seed))

    def _start(self, problem: Problem, seed: int) -> Array:
        """Means (K, F) of first components; from rows more than are wanted, of which those alike are merged."""
        K, model, data = int(self.n_components), cast(CountRows, problem.model), cast(Table, problem.data)
        n_features = data.X.shape[1]
        if not isinstance(self.init, str):
            return self._given(n_features)
        if self.init == "random":
            return cells.at_random(K, n_features, seed)
        start, most = STARTS[self.init]
        found = cells.some_rows(data, seed, most)
        more = min(int(np.ceil(model.surplus * K)), found.shape[0])
        if more <= K:
            return start(found, K, seed)
        self._check_size(more, n_features, found, f", begun with {more},", ', or take init="random"')
        return self._fewer(found, start(found, more, seed), problem.threads, seed)

    def _fewer(self, found: cells.CountMatrix, start: Array, threads: int, seed: int) -> Array:
        """Means (K, F) of the components that remain of a surplus after a short fit and the merging of similar ones.

        A component that holds two true ones stays there as long as two others share one; with some to spare few hold
        two, and those that hold the same are one in the end.
        """
        model = self._forming_model(found.shape[1]).of_components(len(start)).replaced(start=start)
        trial = plan.problem(model, cells.table(found), SVI(), threads=threads)
        q = plan.run(trial, first_state(trial, seed), START_PASSES, START_TOL).q
        left = cells.merged(model.explained(q), int(self.n_components))
        return np.asarray(left / left.mean(1, keepdims=True) + self._evened)

    def _forming_model(self, n_features: int) -> Any:
        """The model that a start is found by."""
        return self._model(n_features)

    # ---- draws
    def _finish(self, model: Any, state: State, weight: float, bounds: Array | None = None) -> None:
        self.draws_ = None
        super()._finish(model, state, weight, bounds)

    def _refine(self, problem: Problem, state: State, budget: EvaluationBudget) -> str | None:
        data = cast(Table, problem.data)
        if self.uncertainty == "corrected" and data.at_hand:
            found, K = data.X, len(self.components_)
            rows = found.shape[0] if self._stores_rows else 0
            work = max(found.counts.nnz, 1) * K
            length = affordable(chain_length((rows + found.shape[1]) * K, 0.0), work, state.passes)
            if length is not None:
                chain = CountChain(self._chain_model(found.shape[1]), found, self._chain_blocks, problem.threads)
                users, items, weights = draws_of(chain, length, state.seed, self._stores_rows).values()
                self.draws_ = JointDraws(users, items, weights).beside(self._moments_by_side)
        return super()._refine(problem, state, budget)

    def _chain_model(self, n_features: int) -> CountRows:
        """The model of the components in the results."""
        return self._model(n_features).of_components(len(self.components_))

    @property
    def _chain_blocks(self) -> dict[str, Any]:
        """The blocks that a chain begins at."""
        return self._row_blocks

    @property
    def _moments_by_side(self) -> dict[str, tuple[Array, Array]]:
        """Means and variances (P, K) of q of what there are draws of."""
        q = self.posterior_["components"]
        return {"items": (q.mean.T, q.variance.T)}

    def _moments_at(self, bases: Array, found: cells.CountMatrix, start: Array) -> tuple[Array, Array]:
        """Means and variances (n, S, K) of the activations of rows at draws of the components, from a start (n, K)."""
        model = self._chain_model(found.shape[1])
        with parallel.working():
            rate, threads = model.row_rates(self._row_blocks, found), parallel.n_threads(self.n_jobs)
            return activations(model, rate, bases, found, start, threads)

    # ---- rows
    def _activations(self, found: cells.CountMatrix, start: Array | None = None) -> tuple[Array, Array]:
        """Shape and rate (n, K) of the posterior of activations, of rows that begin at `start` or with nothing."""
        model = self._model(found.shape[1]).of_components(len(self.components_))
        with parallel.working():
            return model.rows(self._row_blocks, found, parallel.n_threads(self.n_jobs), start)

    def _covariances(self, found: cells.CountMatrix, shape: Array, rate: Array) -> Array:
        """Covariances (n, K, K) of the activations of rows, given the shape and rate of `_activations`."""
        model = self._model(found.shape[1]).of_components(len(self.components_))
        with parallel.working():
            return model.covariances(self._row_blocks, found, shape, rate, parallel.n_threads(self.n_jobs))

    # ---- tables
    def summary(self, coverage: float = 0.9) -> DataFrame:
        """Posterior of the components' weights, or of the sum of each component's cells where they have none.

        Parameters
        ----------
        coverage : float, default=0.9
            Of the equal-tailed interval (lower, upper).

        Returns
        -------
        DataFrame
            Columns mean, std, lower, upper; one row per component.
        """
        import pandas as pd

        check_is_fitted(self)
        tail, q = tail_of(coverage), self._summarised
        lower, upper = (gammaincinv(q.shape, end) / q.rate for end in (tail, 1.0 - tail))
        index = pd.Index(self.get_feature_names_out(), name="component")
        return pd.DataFrame({"mean": q.mean, "std": q.std, "lower": lower, "upper": upper}, index=index)

    def _axes_of_blocks(self) -> dict[str, dict[str, Any]]:
        own = {"component": self.get_feature_names_out()}
        return {"components": own | {"feature": feature_names(self)}, "weights": own}

    def _posterior_draws(self, n: int, rng: Any) -> PosteriorDraws:
        if self.draws_ is None:
            return super()._posterior_draws(n, rng)
        chosen, axes = rng.randint(self.draws_.n_draws, size=n), self._axes_of_blocks()
        components = np.transpose(self.draws_.items[:, chosen].astype(float), (1, 2, 0))
        found = {"components": Variable(components, axes["components"])}
        if "weights" in self.posterior_:
            found["weights"] = Variable(self.draws_.weights[chosen].astype(float), axes["weights"])
        return PosteriorDraws(n, found)

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)


def unit_warnings(data: Any, texts: tuple[str, str, str]) -> Iterator[str]:
    """Warning about fractions in a unit in which a number that is not 0 says less than one count would.

    texts: what holds the numbers, what they are called, and the remedy.
    """
    total, n, fractions = data.reduced(_sums)
    mean = float(total / max(n, 1))
    if mean < 1.0 and fractions:
        name, numbers, remedy = texts
        yield (
            f"{name} has fractions, and its {numbers} that are not 0 have a mean of {mean:.3g}: as counts they say "
            f"little, and the priors draw the fit towards them. {remedy}"
        )


def _largest(data: Table) -> float:
    """The largest sum of a row's counts."""
    return float(np.max(np.asarray(data.X.counts.sum(1)), initial=0.0))


def in_order(explained: Array) -> tuple[Array, Array]:
    """Share of all counts that each component explains beyond its prior, and the order of the shares."""
    explained = np.maximum(explained, 0.0)
    total = explained.sum()
    shares = explained / total if total > 0 else np.zeros_like(explained)
    return shares, np.argsort(-shares, kind="stable")


def _sums(data: Table) -> tuple[float, int, int]:
    """Sum and number of the cells that are not 0, and how many of them are no counts."""
    counts = data.X.counts.data
    return counts.sum(), len(counts), int(np.sum(counts != np.floor(counts)))


class PoissonFit(GammaFit):
    """Components and activations under Gamma priors with learned rates."""

    LAYOUT = f"""{GammaFit.LAYOUT}
        _record.choices.n_components count k; n_components_ count k
        activation_rate_ number >0; component_rate_ number >0
        state_.q.activation_rate.value (1) f; state_.q.component_rate.value (1) f
        state_.q.components.mean (k,f); posterior_._blocks.components.mean (k,f)
        components_ (k,f) x >=0; component_shares_ (k) f >=0
        state_.locals.values? (_,k|2*k) f where it.shape[1] == k * (1 + (self.state_.locals.rule == 'slopes of rows'))
        state_.locals.values? where self.state_.locals.rule == 'slopes of rows' or np.all(it >= 0)
    """

    n_components_: int
    activation_rate_: float
    component_rate_: float
    component_shape: float
    activation_shape: float
    #: Has `dtype`, that of answers, and `mean`, that of cells.
    _encoding: Any

    _batch_rule = BatchRule(whole=20_000, smallest=100, largest=100)
    _parameter_constraints: dict[str, list[Any]] = {
        **GammaFit._parameter_constraints,
        "init": ["array-like", StrOptions({"groups", "rows", "random"})],
    }
    #: What holds the counts, what they are there, and what to do where they are fractions.
    _fractions = (
        "X",
        "cells",
        "Multiply X by what makes counts of it (255 for pixels in [0, 1]), or take the counts that it was made from "
        "(of words, in the place of tf-idf).",
    )

    @property
    def _improper(self) -> str:
        return (
            "the rates of its gamma priors are learned under flat priors: simulate factors of rates that you believe "
            "in, and give sbc that function"
        )

    def _model(self, n_features: int) -> GammaPoisson:
        return self._made(GammaPoisson, n_features)

    def _made(self, kind: type[GammaPoisson], n_features: int) -> GammaPoisson:
        return kind(
            int(self.n_components),
            n_features,
            component_shape=float(self.component_shape),
            activation_shape=float(self.activation_shape),
            mean=self._encoding.mean / int(self.n_components),  # of the cells of a component, at first
        )

    def _model_for_steps(self, problem: Problem) -> GammaPoisson:
        model = cast(GammaPoisson, problem.model)
        return model if problem.full_batch else model.of_batches(problem.data.reduced(_largest, max))

    def _fit_warnings(self, problem: Problem, state: State) -> Iterator[str]:
        yield from unit_warnings(problem.data, self._fractions)

    def _stream_warnings(self, data: Any, first: bool) -> Iterator[str]:
        yield from super()._stream_warnings(data, first)
        if first:
            yield from unit_warnings(data, self._fractions)

    # ---- what a fit leaves behind
    def _expose(self, model: Any, state: State) -> None:
        q = state.q["components"]
        shares, order = in_order((q.shape - float(self.component_shape)).sum(1))
        coefficients = {name: state.q[name][order] for name in COEFFICIENTS if name in state.q}
        self.posterior_ = Posterior({"components": q[order], **coefficients})
        self.components_ = self.posterior_["components"].mean.astype(self._encoding.dtype)
        self.component_shares_, self.n_components_ = shares[order], len(order)
        self.activation_rate_, self.component_rate_ = (
            float(np.exp(state.q[name].value[0])) for name in ("activation_rate", "component_rate")
        )

    @property
    def _row_blocks(self) -> dict[str, Any]:
        return {**self.posterior_, "activation_rate": Point(np.log([self.activation_rate_]))}

    @property
    def _chain_blocks(self) -> dict[str, Any]:
        return {**self._row_blocks, "component_rate": Point(np.log([self.component_rate_]))}

    @property
    def _summarised(self) -> Gamma:
        """The sum of each component's cells, by its first two moments."""
        q = self.posterior_["components"]
        mean = q.mean.sum(1)
        variance = q.variance.sum(1) if self.draws_ is None else self.draws_.summed(mean)
        return Gamma(np.square(mean) / variance, mean / variance)
