"""`fit` of every estimator: encode, build the model, run its passes, refine, warn."""

from __future__ import annotations

from time import perf_counter
from typing import Any

from sklearn.exceptions import ConvergenceWarning

from sksvi._runtime import parallel
from sksvi._runtime.user import warn_user
from sksvi.callbacks import FitMonitor
from sksvi.estimators import fit_warnings
from sksvi.estimators.encoding import WHOLE, GivenRows
from sksvi.inference.problem import Problem
from sksvi.inference.records import replace
from sksvi.inference.search import EvaluationBudget
from sksvi.inference.state import State, with_own_lists


def fit(estimator: Any, given: GivenRows) -> Any:
    """Fit an estimator to all rows, from the start or from its last fit; the estimator."""
    X, beside = given.X, {"sample_weight": given.sample_weight, "offset": given.offset}
    with estimator._all_or_nothing(), parallel.working():
        go_on = estimator.warm_start and hasattr(estimator, "state_")
        data = estimator._encoded(given, not go_on, WHOLE)
        if go_on and estimator._outgrown(data):
            go_on, data = False, estimator._encoded(given, True, WHOLE)
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
        found = list(fit_warnings.other_order(X=X, y=given.y, **beside))
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
        score = estimator._score_of_rows(given.X, given.y, **beside)
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
