"""`fit` and `partial_fit` of every estimator.

A fit encodes, builds the model, runs its passes, refines and warns. A chunk is encoded and absorbed, or the stream
begins anew with all its rows.
"""

from __future__ import annotations

from time import perf_counter
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples

from sksvi._runtime import parallel
from sksvi._runtime.user import warn_user
from sksvi.callbacks import FitMonitor
from sksvi.estimators import fit_warnings
from sksvi.estimators.encoding import CHUNK, WHOLE, GivenRows, check_in_memory
from sksvi.estimators.offsets import remember_offset
from sksvi.estimators.working import calibrated
from sksvi.inference import plan, stream
from sksvi.inference.messages import NO_FACTORS
from sksvi.inference.problem import Problem
from sksvi.inference.records import replace
from sksvi.inference.search import EvaluationBudget
from sksvi.inference.start import counting_on
from sksvi.inference.state import State, with_own_lists
from sksvi.partitions.collections import is_collection
from sksvi.partitions.encoded import one_by_one

Array = np.ndarray


def fit(estimator: Any, given: GivenRows) -> Any:
    """Fit an estimator to all rows, from the start or from its last fit; the estimator."""
    X, beside = given.X, {"sample_weight": given.sample_weight, "offset": given.offset}
    with estimator._all_or_nothing(), parallel.working():
        go_on = estimator.warm_start and hasattr(estimator, "state_")
        data = estimator._encoded(given, False, WHOLE) if go_on else _encoded_anew(estimator, given)
        if go_on and estimator._outgrown(data):
            go_on, data = False, _encoded_anew(estimator, given)
        estimator._check_memory(data)
        if not go_on:
            estimator._record = replace(estimator._record, began_among=data.total_weight)
        problem, state = estimator._initialized(estimator._problem(*estimator._build_model(data)), go_on)
        passes = estimator._most_passes() + (state.passes if state.finished else 0)
        metadata = {name: value for name, value in beside.items() if value is not None}
        inputs = {"X": X, "y": given.y, "metadata": metadata}
        with FitMonitor(estimator, passes - state.passes, estimator.verbose, **inputs) as monitor:
            state, undone = _trained(estimator, given, problem, state, passes, monitor)
            interrupted = monitor.interruption.requested
            monitor.ended(how_it_ended(estimator.state_, passes, interrupted))
        found: list[str | Warning] = list(fit_warnings.other_order(X=X, y=given.y, **beside))
        found += fit_warnings.of_weights(estimator, given.y, given.sample_weight)
        if not interrupted:
            found += fit_warnings.of_fit(estimator, problem.data)
            found += estimator._fit_warnings(problem, state)
    # The fit stands, whatever becomes of the warnings.
    if estimator._record.one_sided:
        undone = None  # a warning says so, and more passes are no remedy
    short = _fell_short(estimator, undone, passes, interrupted)
    if short:
        warn_user(short, ConvergenceWarning)
    fit_warnings.warn_all(found)
    return estimator


def _encoded_anew(estimator: Any, given: GivenRows) -> Any:
    """Encoded rows, which fix the encoding; a scale that is found by pilot fits is found first."""
    estimator._record = replace(estimator._record, working=calibrated(estimator, given))
    return estimator._encoded(given, True, WHOLE)


def _trained(
    estimator: Any, given: GivenRows, problem: Problem, state: State, passes: int, monitor: FitMonitor
) -> tuple[State, str | None]:
    """Run the passes of a fit and what refines it; the state after the passes, and what was left undone, or None."""
    interruption = monitor.interruption
    state = estimator._run(problem, state, passes, monitor)
    state = replace(state, converged=state.converged and not interruption.requested)
    one_sided = fit_warnings.all_at_one_end(problem.model, problem.data)
    estimator._record = replace(estimator._record, one_sided=one_sided)
    estimator._finish(problem.model, state, problem.data.total_weight)
    undone: str | None = None
    if interruption.requested:
        return state, undone
    with interruption.heeded():
        undone = _refined(estimator, problem, passes, monitor)
        beside = {"sample_weight": given.sample_weight, "offset": given.offset}
        score = estimator._training_score(given.X, given.y, **beside)
        estimator._record = replace(estimator._record, score=score)
    return state, undone


def _refined(estimator: Any, problem: Problem, passes: int, monitor: FitMonitor) -> str | None:
    """Run `_refine`, whose evaluations of the data count as passes; what it left undone, or None."""
    # Lists of their own: a callback's snapshot is still that of the last step.
    state = with_own_lists(estimator.state_)
    undone = estimator._refine(problem, state, evaluation_budget(problem, state, passes, monitor))
    estimator.state_ = state
    estimator._passes_counted(state)
    return undone if state.converged else "did not converge"


def evaluation_budget(problem: Problem, state: State, passes: int, monitor: FitMonitor) -> EvaluationBudget:
    """Evaluations of the data after the passes of a fit, which go on counting in the state's own lists."""
    seconds = state.history[-1]["seconds"] if state.history else 0.0

    def look_end(state: State, initial: State) -> bool:
        return monitor.pass_end(state.history[-1])

    return EvaluationBudget(problem, state, passes, perf_counter() - seconds, look_end, state.passes >= passes)


def _fell_short(estimator: Any, undone: str | None, passes: int, interrupted: bool) -> str | None:
    """Warning about a fit that ended before it had converged or was refined, or None."""
    name, n_iter = type(estimator).__name__, estimator.n_iter_
    if interrupted:
        return (
            f"{name} was interrupted and keeps what it had reached after {n_iter} passes "
            "(callbacks.KeepInterrupted): warm_start=True and fit go on from there."
        )
    if undone is None or n_iter < passes:
        return None
    return (
        f"{name} {undone} in max_iter={estimator._most_passes()} passes (tol={estimator.tol}): raise max_iter or tol."
    )


def how_it_ended(state: State, passes: int, interrupted: bool) -> str:
    """How a fit ended, as a progress bar shows it; "stopped" is by a callback."""
    if interrupted:
        return "interrupted"
    if state.converged:
        return "converged"
    return "not converged" if state.passes >= passes else "stopped"


# ---- the score of a fit
#: Name of a score that is none of predictions.
SCORE = "score"


def training_score(estimator: Any, X: Any, y: Any, **beside: Any) -> tuple[float, int] | None:
    """`score` of the rows of a fit and how many were scored: a sample of many, as a pass over all would cost a third.

    None where `score` is none of predictions, and where rows are not in memory.
    """
    if estimator._score_name == SCORE or X is None or is_collection(X):
        return None
    beside = {name: one if one is None or np.isscalar(one) else np.asarray(one) for name, one in beside.items()}
    given, weight = {"X": X, "y": y, **beside}, beside["sample_weight"]
    if isinstance(weight, np.ndarray) and not np.all(weight > 0):  # rows that were not there
        given = _subset(np.flatnonzero(weight > 0), given)
    n, most = _num_samples(given["X"]), estimator._most_scored
    given = _subset(parallel.sample(n, most, 0), given) if n > most else given
    if n <= 1:
        return None
    with np.errstate(all="ignore"):
        return float(estimator.score(**given)), min(n, most)


def _subset(rows: Array, given: dict[str, Any]) -> dict[str, Any]:
    """Arrays with an entry per row, restricted to some rows; None and scalars as they are."""
    return {name: one if one is None or np.isscalar(one) else _safe_indexing(one, rows) for name, one in given.items()}


# ---- streams
#: Rows of a stream that are kept where the user leaves it to us, and the most memory that their columns may take.
STREAM_ROWS, STREAM_BYTES = 8000, 2**24


def partial_fit(estimator: Any, given: GivenRows) -> Any:
    """Absorb a chunk of rows, or of a Dask collection one partition after the other; the estimator."""
    X, name = given.X, type(estimator).__name__
    beside = {"y": given.y, "sample_weight": given.sample_weight, "offset": given.offset}
    if is_collection(X):
        with estimator._all_or_nothing():
            for part in one_by_one(name, X, **beside):
                partial_fit(estimator, GivenRows(*part))
        return estimator
    check_in_memory(estimator, given)
    with estimator._all_or_nothing(), parallel.working():
        first, before = estimator._stream_begins(), estimator._record
        data = estimator._encoded(given, first, CHUNK)
        remember_offset(estimator, given.offset, before=not first and before.had_offset)
        new_weight, fade = data.total_weight, estimator._fade(data.total_weight)
        total_weight = new_weight + (0.0 if first else estimator.n_samples_seen_)
        counted = new_weight + (0.0 if first else fade * (estimator.state_.counted or estimator.n_samples_seen_))
        model, state = estimator._absorbed(data, first, new_weight, fade, counted)
        one_sided = (first or before.one_sided) and fit_warnings.all_at_one_end(model, data)
        estimator._record = replace(estimator._record, one_sided=one_sided)
        estimator._finish(model, state, total_weight)
        found = [*fit_warnings.other_order(X=X, **beside), *estimator._stream_warnings(data, first)]
        found += fit_warnings.of_weights(estimator, given.y, given.sample_weight)
    fit_warnings.warn_all(found)
    return estimator


def absorbed(estimator: Any, data: Any, first: bool, new_weight: float, fade: float, counted: float) -> tuple[Any, Any]:
    """Absorb an encoded chunk: the model of it, and the state after it.

    Parameters
    ----------
    estimator : estimator
    data : encoded rows of the chunk
    first : bool
        Whether it is the first one.
    new_weight, counted : float
        Weight of its rows, and of all rows that have not been forgotten.
    fade : float
        Share that is left of what was said before.
    """
    everything = None if first else estimator._restart_rows(data, fade)
    begins, data = first or everything is not None, data if everything is None else everything
    estimator._check_memory_of_portion(data)
    whole = {"batch_size": estimator._portion_rows} if estimator.batch_size == "auto" else {}
    problem = estimator._problem(estimator._streaming_model(data, begins), data)
    problem = plan.changed(problem, total=estimator.total_samples or counted, **whole)
    if begins:
        estimator._record = replace(estimator._record, began_among=data.total_weight)
    state = estimator._new_state(problem) if begins else estimator._continued(problem)
    if begins and not first:
        state = counting_on(state, estimator.state_, new_weight - data.total_weight)
    if not begins and not state.population:  # a fit's rows stand for themselves alone
        state = replace(state, population=estimator.state_.counted or estimator.n_samples_seen_)
    state = replace(state, counted=counted)
    if not plan.remembers(problem):
        state = replace(state, messages=NO_FACTORS)
    with estimator._columns_named():
        return problem.model, stream.absorb(problem, state, estimator.tol, stream_rows(estimator, data), fade)


def check_finished(estimator: Any) -> None:
    """Raise where a stream would continue a fit that was cut off, which has not used all that its rows say."""
    if not estimator.state_.finished:
        raise ValueError(
            f"this is the checkpoint of a fit that was cut off after {estimator.n_iter_} passes, which partial_fit "
            "cannot go on from: end it first by set_params(warm_start=True).fit(X, y) with the rows that it began "
            "with."
        )


def fade(estimator: Any, weight: float) -> float:
    """Factor by which earlier data are forgotten when data of this weight arrive."""
    if estimator.half_life is None:
        return float(estimator.forgetting)
    if estimator.forgetting != 1.0:
        raise ValueError(
            f"forgetting={estimator.forgetting!r} and half_life={estimator.half_life!r} say the same in two ways: set "
            "forgetting=1.0 or half_life=None."
        )
    return float(0.5 ** (weight / estimator.half_life))


def stream_rows(estimator: Any, data: Any) -> int:
    """Number of rows of a stream that are stored, for models that can evaluate them again."""
    rows = getattr(estimator, "stream_sample", 0)
    return min(STREAM_ROWS, int(STREAM_BYTES // data.bytes_per_row)) if rows == "auto" else int(rows)
