"""The end of a mixture's fit: moves, steps on all rows after them, and fits from other starts if these are better.

Mini-batches find components and settle slowly, and a merge leaves q where no step has been; steps on all rows gain
their last nats. Where each component begins with a few rows all are about alike, and end as one; among fewer they part.
Where there are as many components as groups, two may begin in one group and none in another.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from sksvi import algorithms
from sksvi.inference import plan
from sksvi.inference.engine import exact_bound
from sksvi.inference.passes import line_search
from sksvi.inference.problem import Problem
from sksvi.inference.records import replace
from sksvi.inference.start import first_state
from sksvi.inference.state import State
from sksvi.models.mixture.model import MixtureModel
from sksvi.models.mixture.moves import Moves

#: Relative change of the bound, in `tol`, at which steps on all rows end.
SETTLED = 1.0 / 30.0
#: Most rounds of moves and steps.
ROUNDS = 3
#: Other starts have so many rows for each component at least, so many responsibilities at most, and there are so many.
ROWS_EACH, MOST_LOGS, STARTS = 10, 50_000, 3
#: What of a component's start is its own row there.
OTHER_SHARE = 0.5

#: Called with every bound; True ends the fit.
Callback = Callable[[float], bool]


def on_all_rows(problem: Problem, **changes: object) -> Problem:
    """Coordinate ascent by passes over all rows, whatever the fit did."""
    return plan.changed(problem, batch_size=None, algorithm=algorithms.SVI(), expect=problem.exact, **changes)


def merged(problem: Problem, state: State, every: bool) -> tuple[State, int]:
    """The state after moves, and the number of moves; without any, q is a step on all rows further if those climb."""
    moves = Moves(cast(MixtureModel, problem.model), problem.data, state.q, problem.threads)
    q, taken = moves.run(every)
    if not (taken or climbs(problem)):
        return state, 0
    return replace(state, q=q, bound=exact_bound(problem, replace(state, q=q))), taken


def climbs(problem: Problem) -> bool:
    """Whether the fit climbs the same bound as steps on all rows; algorithms with other views of q settle elsewhere."""
    return problem.globals is problem.for_bound.globals


def moved(
    problem: Problem, state: State, every: bool, passes: int, tol: float, callback: Callback | None = None
) -> State:
    """The state after moves and steps on all rows, in turn while moves gain.

    Parameters
    ----------
    problem : Problem
    state : State
    every : bool
        As in `Moves.run`.
    passes : int
        Most steps; with them the fit has not converged.
    tol : float
        Relative change of the bound at which steps end.
    callback : callable, optional
        Called with the bound after every step; True ends them, and the fit has not converged.
    """
    settled = replace(on_all_rows(problem), warmup_globals=None)
    stopped = False

    def should_stop(bound: float) -> bool:
        nonlocal stopped
        return callback is not None and callback(bound)

    for _ in range(ROUNDS):
        state, taken = merged(problem, state, every)
        inner = line_search.run_until_settled(settled, state, passes, tol, should_stop)
        here, passes = line_search.line_search_state(inner).here, passes - len(inner.bounds)
        if here is not None and here.bound >= state.bound:
            state = replace(state, q=here.q, bound=here.bound)
        if not taken or stopped or passes <= 0:
            break
    return replace(state, converged=not stopped and passes > 0)


def from_other_starts(problem: Problem, state: State, every: bool, passes: int, tol: float) -> State:
    """The best of this state and of fits to all rows from other starts, of fewer components where rows are few."""
    n = int(problem.data.total_weight)
    centres = min(n // ROWS_EACH, cast(MixtureModel, problem.model).n_components)
    if centres < 2 or centres * n > MOST_LOGS:
        return state
    model = problem.model.replaced(n_centres=centres, start_share=OTHER_SHARE)
    other = on_all_rows(problem, model=model)
    for start in range(STARTS):
        found = plan.run(other, first_state(other, state.seed + start), passes, tol)
        found = moved(problem, replace(state, q=found.q, bound=found.bound), every, passes, tol)
        state = found if found.bound > state.bound else state
    return state
