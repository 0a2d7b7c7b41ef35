"""Base classes of non-negative factorizations of counts: encoding of rows, start, and size of batches."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from sklearn.utils._param_validation import Interval

from sksvi import algorithms
from sksvi._runtime import memory
from sksvi._typing.arrays import MatrixLike
from sksvi.algorithms.specs import SVI
from sksvi.decomposition._gamma_predictions import GammaPredictions
from sksvi.estimators.base import BaseSVI, BatchRule
from sksvi.estimators.first_rows import FirstRows
from sksvi.estimators.from_partitions import RowsFromPartitions
from sksvi.estimators.refit import COMPONENTS, SHARED, STREAMED, UNCHECKED, stays, string_or_array
from sksvi.estimators.stage import Stage
from sksvi.estimators.validation import StrOptions, check_table
from sksvi.inference import plan
from sksvi.inference.problem import Problem
from sksvi.inference.start import first_state
from sksvi.models.base import Table
from sksvi.models.nmf.cells import CountMatrix, table
from sksvi.models.nmf.start import CHOSEN_AMONG, GROUPED, at_random, from_groups, from_rows, merged, some_rows
from sksvi.partitions.summary import DataSummary, Total

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
STARTS = {"groups": (from_groups, GROUPED), "rows": (from_rows, CHOSEN_AMONG)}


class GammaFit(BaseSVI):
    """A fit to cells; needs `_fix_mean(mean)`, `_model(n_features)` and `_expose`."""

    _parameter_constraints: dict[str, list[Any]] = {
        **{name: rule for name, rule in BaseSVI._parameter_constraints.items() if name != "covariance"},
        "algorithm": [StrOptions({"svi", "ssvi-a", "cvi", "mc-ssvi"}), algorithms.Algorithm],
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "component_shape": [Interval(Real, 1e-3, 1e3, closed="both")],
        "activation_shape": [Interval(Real, 1e-3, 1e3, closed="both")],
    }
    _changes = {
        **SHARED,
        "n_components": COMPONENTS,
        "component_shape": UNCHECKED,
        "activation_shape": UNCHECKED,
        "init": stays("a fit that goes on has begun", string_or_array),
    }
    _batch_rule = BatchRule(whole=20_000, smallest=5_000, largest=5_000)
    #: Numbers that a fit holds for each component of a row.
    _numbers_of_row = 1.2

    n_components: int
    init: Any
    #: What users call the columns.
    _columns_called = "columns"
    #: What every cell of a merged component has beside its own.
    _evened: Any = EVENED

    # ---- fitting
    def _weighted_table(self, found: CountMatrix, start: Stage) -> Table:
        """Rows with what a first fit fixes by them."""
        if start.fresh:
            self._fix_mean(found.mean or 1.0)
        elif not start.share:
            self._check_choices()
        if start.fresh and not isinstance(self.init, str):
            self._given(found.shape[1])
        return table(found)

    def _fix_mean(self, mean: float) -> None:
        """Fix what depends on the mean of the cells, such as the scale of the priors."""
        raise AttributeError(f"{type(self).__name__} does not say what a mean fixes")

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

    def _check_size(self, K: int, F: int, X: CountMatrix | None, start_text: str = "", remedy: str = "") -> None:
        """Raise an error where K components of F columns and these counts take more memory than there is."""
        what = f"n_components={self.n_components} for {F} {self._columns_called}{start_text}"
        rows = 0.0 if X is None else self._numbers_of_row * K * X.shape[0] + OF_COUNTS * X.counts.nnz
        memory.need(8.0 * (OF_COLUMNS * K * F + rows), what, f"lower n_components{remedy}")

    def _build_model(self, data: Table) -> tuple[Any, Table]:
        return self._model(data.X.shape[1]), data

    def _model_at_start(self, problem: Problem, seed: int) -> Any:
        return problem.model.replaced(start=self._start(problem, seed))

    def _start(self, problem: Problem, seed: int) -> Array:
        """Means (K, F) of first components; from rows more than are wanted, of which those alike are merged."""
        K, n_features = int(self.n_components), problem.data.X.shape[1]
        if not isinstance(self.init, str):
            return self._given(n_features)
        if self.init == "random":
            return at_random(K, n_features, seed)
        start, most = STARTS[self.init]
        found = some_rows(problem.data, seed, most)
        more = min(int(np.ceil(problem.model.surplus * K)), found.shape[0])
        if more <= K:
            return start(found, K, seed)
        self._check_size(more, n_features, found, f", begun with {more},", ', or take init="random"')
        return self._fewer(found, start(found, more, seed), problem.threads, seed)

    def _fewer(self, found: CountMatrix, start: Array, threads: int, seed: int) -> Array:
        """Means (K, F) of the components that remain of a surplus after a short fit and the merging of similar ones.

        A component that holds two true ones stays there as long as two others share one; with some to spare few hold
        two, and those that hold the same are one in the end.
        """
        model = self._forming_model(found.shape[1]).of_components(len(start)).replaced(start=start)
        trial = plan.problem(model, table(found), SVI(), threads=threads)
        q = plan.run(trial, first_state(trial, seed), START_PASSES, START_TOL).q
        left = merged(model.explained(q), int(self.n_components))
        return np.asarray(left / left.mean(1, keepdims=True) + self._evened)

    def _forming_model(self, n_features: int) -> Any:
        """The model that a start is found by."""
        return self._model(n_features)


class CountFactorization(GammaPredictions, RowsFromPartitions, FirstRows, GammaFit):
    """A factorization fitted to tables of counts, to chunks of them, and to collections of partitions."""

    _changes = {**GammaFit._changes, **STREAMED}

    # ---- fitting
    def fit(self, X: MatrixLike, y: object = None) -> Self:
        """Fit to rows of counts.

        Parameters
        ----------
        X : {array-like, sparse matrix, DataFrame} of shape (n, F)
            Counts, or other numbers that are not negative; NaN in a dense one where a cell is missing.
        y : None
            Ignored.

        Returns
        -------
        self : object
            The estimator itself.

        Raises
        ------
        ValueError
            For negative or infinite numbers in X, and an `init` of another shape.
        """
        self._validate_params()
        return self._fit(X, None, None, None)

    def partial_fit(self, X: MatrixLike, y: object = None) -> Self:
        """Go on with a chunk of rows.

        The first 2,000 rows of a stream (16 MB) are kept, and fitted together whenever they have doubled; then each
        chunk is a few steps. A stream may so begin with one row.

        Parameters
        ----------
        X : {array-like, sparse matrix, DataFrame} of shape (n, F)
            Counts; NaN in a dense one where a cell is missing.
        y : None
            Ignored.

        Returns
        -------
        self : object
            The estimator itself.

        Raises
        ------
        ValueError
            As `fit`; for other columns than those of earlier chunks, and after a fit that was cut off.
        """
        self._validate_params()
        return self._partial_fit(X, None, None, None)

    def _encode(self, X: Any, y: Any, sample_weight: Any, offset: Any, start: Stage) -> Table:
        return self._weighted_table(self._cells(X, reset=start.fresh), start)

    def _row_facts(self, data: Table) -> dict[str, Any]:
        return {"cells": Total(data.X.sums)}

    def _fix_rows(self, facts: DataSummary, fresh: bool) -> None:
        if fresh:
            total, n = facts.own["cells"].value
            self._fix_mean(float(total / n) if total else 1.0)

    def _fix_first(self, rows: Table) -> None:
        self._fix_mean(rows.X.mean or 1.0)

    def _streaming_model(self, data: Table, first: bool) -> Any:
        return self._model(data.X.shape[1]).of_portions()
