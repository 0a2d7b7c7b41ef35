"""Counts of pairs in chunks: expected counts of earlier chunks are stored, and the next chunk is fitted beside them.

What a pair had before and what it has now are split among components apart. Of earlier chunks q needs no more than how
many counts each user and each item has from each component, which is by how much the shapes of q exceed those of the
priors; rates follow from the factors of all. What was split early was split by components of which little was known: so
all counts, which the fit keeps, are split anew whenever enough of them have come.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.base import _fit_context

from sksvi._runtime import parallel
from sksvi._typing.arrays import MatrixLike, PerRow
from sksvi.decomposition._gamma_fit import PoissonFit, in_order
from sksvi.decomposition._pair_counts import PairCounts, items_of
from sksvi.estimators import fit_warnings
from sksvi.estimators.refit import ANEW
from sksvi.estimators.stage import FIRST_PORTION, PORTION
from sksvi.families import Gamma
from sksvi.families.base import Message
from sksvi.inference import plan, stream
from sksvi.inference.engine import exact_bound
from sksvi.inference.memory.locals import NO_LOCALS, Locals
from sksvi.inference.problem import Problem
from sksvi.inference.start import counting_on, restarted
from sksvi.inference.state import State
from sksvi.inference.stream_state import StreamState
from sksvi.models.base import Table
from sksvi.models.nmf.cells import CountMatrix, table
from sksvi.partitions.collections import in_memory, is_collection
from sksvi.partitions.encoded import one_by_one

Array = np.ndarray
#: All counts are fitted together once the pairs that came since make up this share of them, and begin anew (`ANEW`).
#: Last.fm in 10 and 50 chunks at random, users' recall at 20 items (fit to all: 0.193): without either 0.118 and 0.085,
#: without beginning anew 0.178 and 0.144 to 0.166, with both 0.184 and 0.187.
SHARE = 0.25


class PairStream(PairCounts, PoissonFit):
    """Chunks of pairs for `partial_fit`; needs `_encode`, which sets `_n_rows` to the weight of the new rows."""

    _n_rows: float
    _first_mean: float = 1.0
    #: Shapes of the priors, components' and users', that the counts of a fit are in q beside.
    _prior_shapes: Array
    #: The cells of the chunk whose fit is being left behind.
    _portion: CountMatrix | None = None
    #: Pairs that came since all were fitted together.
    _waiting: int = 0
    #: Pairs that the components began with.
    _began_with: int = 0

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
        if is_collection(X):
            with self._all_or_nothing():
                beside = {"y": y, "sample_weight": sample_weight, "offset": None}
                for *part, _ in one_by_one(type(self).__name__, X, **beside):
                    self.partial_fit(*part)
            return self
        in_memory(type(self).__name__, X, y=y, sample_weight=sample_weight)
        with self._all_or_nothing(), parallel.working():
            first = self._stream_begins()
            before, previous_weight = (None, 0.0) if first else (self.state_, self.n_samples_seen_)
            old = None if first else self._without_counts()
            data = self._encode(X, y, sample_weight, None, FIRST_PORTION if first else PORTION)
            new_weight, fade = self._n_rows, self._fade(self._n_rows)
            self._check_memory(data)
            problem = self._problem(*self._build_model(data))
            if before is None or old is None:
                state = self._new_state(problem)
            elif self._refit_due(problem.data):
                problem, state = self._with_all(problem, before)
            else:
                problem, state = self._beside(problem, old, before, fade)
            state = stream.as_one_pass(problem, state, before, new_weight, self._most_passes(), self.tol)
            counted = new_weight + (0.0 if before is None else fade * (before.counted or previous_weight))
            self._n_rows = previous_weight + new_weight
            self._finish(problem.model, replace(state, counted=counted), self._n_rows)
            self.state_ = replace(self.state_, locals=NO_LOCALS)
            self._portion = None
            found = list(fit_warnings.other_order(X=X, y=y, sample_weight=sample_weight))
            found += self._unit_warnings(problem.data) if first else []
        fit_warnings.warn_all(found)
        return self

    def _fix_mean(self, mean: float) -> None:
        self._first_mean = mean / int(self.n_components)

    # ---- all counts at once
    def _refit_due(self, data: Table) -> bool:
        """Whether enough new pairs have arrived for a refit to all pairs together, if the fit still has these."""
        self._waiting += data.X.counts.nnz
        due = self.seen_ is not None and self._waiting > SHARE * len(self._seen_counts)
        if due:
            self._waiting = 0
        return due

    def _with_all(self, problem: Problem, before: State) -> tuple[Problem, State]:
        """Problem of all counts instead of the latest chunk, and its first state: q of the stream, or a new start."""
        found = self._fitted_cells
        problem = plan.changed(problem, data=table(found))
        if found.counts.nnz < ANEW * self._began_with or not isinstance(self.init, str):
            return problem, self._begun(problem, before)
        self._began_with = found.counts.nnz
        self._fix_mean(found.mean or 1.0)
        problem = plan.changed(problem, model=self._model(found.shape[1]))
        return problem, counting_on(self._new_state(problem), before, 0.0)

    def _begun(self, problem: Problem, before: State) -> State:
        """q of the stream, with new items at the prior, and its record."""
        rates = {name: before.q[name] for name in ("activation_rate", "component_rate")}
        q = {"components": self.posterior_["components"], **rates}
        state = restarted(problem, State(problem.model.grown(q, problem.data), before.seed))
        return counting_on(state, before, 0.0)

    # ---- what earlier chunks counted
    def _without_counts(self) -> Table:
        """The users of the fit in a chunk of which none has counts."""
        shape = len(self.users_), len(self.items_)
        return table(CountMatrix(sp.csr_matrix(shape), before=self._counts_of("users")))

    def _counts_of(self, side: str) -> Array:
        """Counts of each user (U, K), or item (K, I), from each component: shapes of q over the prior's."""
        shape = self._prior_shapes[int(side == "users")]
        # Steps beyond the best value may leave a shape below the prior's: a cell without counts.
        return np.maximum(self.posterior_[side].shape - shape, 0.0)

    def _beside(self, problem: Problem, old: Table, before: State, fade: float) -> tuple[Problem, State]:
        """Problem of the latest chunk beside the faded counts of earlier ones, and its first state."""
        counts = self._counts_of("components")
        model, earlier = self._model(counts.shape[1]), stream_state_of(counts, 0.0)
        rest = plan.changed(problem, model=model, data=old, prior_factors=earlier)
        constant = self.lower_bound_ - exact_bound(rest, self._begun(rest, before))
        n_users, n_items = problem.data.X.shape
        users = np.zeros((n_users, self._k))
        users[: len(old)] = fade * old.X.before
        items = np.zeros((self._k, n_items))
        items[:, : counts.shape[1]] = fade * counts
        self._portion = replace(problem.data.X, before=users)
        data, size = replace(problem.data, X=self._portion), None if self.batch_size == "auto" else problem.batch_size
        earlier = stream_state_of(items, fade * constant)
        problem = plan.changed(problem, data=data, prior_factors=earlier, batch_size=size)
        return problem, self._begun(problem, before)

    def _remember(self, found: CountMatrix, fade: float) -> None:
        """Which counts users have, in this chunk and in earlier ones: for `recommend` and `fold_in`."""
        if self.seen_ is None:  # of a file without training rows: what was counted before is not known
            return
        starts, items = self.seen_
        starts = np.concatenate([starts, np.full(found.shape[0] + 1 - len(starts), starts[-1])])
        counts = sp.csr_matrix((fade * self._seen_counts, items, starts), shape=found.shape) + found.counts
        counts.eliminate_zeros()
        counts.sort_indices()
        self.seen_, self._seen_counts = items_of(CountMatrix(counts)), counts.data

    # ---- what a fit leaves behind
    def _expose(self, model: Any, state: State) -> None:
        found, q = self._fitted_cells if self._portion is None else self._portion, state.q["components"]
        order = in_order((q.shape - float(self.component_shape)).sum(1))[1]
        if found.before is not None:
            found = replace(found, before=found.before[:, order])
        # A user may have several ways to split counts: users and items have the fit's, or a stream goes on from two.
        start = state.locals.values[:, order] if isinstance(state.locals, Locals) else None
        super()._expose(model, state)
        self.posterior_ = type(self.posterior_)({"users": Gamma(*self._activations(found, start)), **self.posterior_})
        self._prior_shapes = self._shapes

    @property
    def _shapes(self) -> Array:
        return np.array([self.component_shape, self.activation_shape], float)


def stream_state_of(counts: Array, constant: float) -> StreamState:
    """Stream state from expected counts (K, I) of earlier chunks: natural parameters that they add to the components.

    The exposure adds nothing: components are exposed to all users, of whatever chunk.
    """
    return StreamState({"components": Message((np.stack([counts, np.zeros_like(counts)], -1),))}, constant)
