"""The state before the first step of a fit: new, or gone on from."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sksvi.families.base import NotPositiveDefinite
from sksvi.inference import hyper
from sksvi.inference.engine import impossible
from sksvi.inference.memory.locals import NO_LOCALS, Locals, NoLocals
from sksvi.inference.memory.of_plates import PlateMemory
from sksvi.inference.problem import Problem
from sksvi.inference.progress import START
from sksvi.inference.state import State
from sksvi.models.base import Local, Sided


def first_state(problem: Problem, seed: int) -> State:
    """The model's first q in the coordinates that the algorithm steps in."""
    try:
        q = dict(problem.model.begin(problem.data, np.random.default_rng([seed, 0, 3])))
    except NotPositiveDefinite as error:
        raise impossible(problem, State({}, seed), error) from error
    return restarted(problem, State(q, seed))


def restarted(problem: Problem, state: State) -> State:
    """The state with every block in the algorithm's coordinates, and empty memories."""
    q, memory = dict(state.q), {}
    # Few entries inform a plate, so that a step of AdaGrad's rate is in units of its first deviation.
    weight = 0.0 if isinstance(problem.model, Sided) else problem.data.total_weight
    for name in q.keys() - problem.model.hyper.keys():
        q[name], memory[name] = problem.rule(name, q).start(q[name], weight)
        if isinstance(problem.model, Sided):
            memory[name] = PlateMemory.empty(len(q[name]), memory[name])
    return replace(state, q=q, memory=memory, progress=START)


def begun(problem: Problem, state: State) -> State:
    """The state at the start of a fit: earlier data are forgotten, an unfinished fit's row memories stay."""
    return replace(
        state,
        q=hyper.forgetting(state.q),
        messages=state.messages.of_fit(len(problem.data)),
        locals=locals_of(problem, state),
        finished=False,
        converged=False,
    )


def locals_of(problem: Problem, state: State) -> NoLocals | Locals:
    """Local starts of an unfinished fit on as many rows, else fresh ones."""
    if not isinstance(problem.model, Local):
        return NO_LOCALS
    if isinstance(state.locals, Locals) and len(state.locals) == len(problem.data):
        return state.locals.copy()
    return Locals(problem.model.local_begin(problem.data))
