"""The state before the first step of a fit: new, or gone on from."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from sksvi.algorithms.steps import natural_step, shortened
from sksvi.families.base import NotPositiveDefinite
from sksvi.inference import engine
from sksvi.inference.engine import bound, evaluate, exact_bound, impossible, whole
from sksvi.inference.messages import NO_FACTORS
from sksvi.inference.problem import Problem
from sksvi.inference.records import LineSearchState, Progress, replace
from sksvi.inference.state import NO_LOCALS, Locals, NoLocals, PlateMemory, RemoteLocals, State, with_own_lists
from sksvi.models.base import Bipartite, Linear, Local

Array = np.ndarray

#: Largest relative difference of two looks at one bound.
SAME = 1e-6


def first_state(problem: Problem, seed: int) -> State:
    """The model's first q in the coordinates that the algorithm steps in."""
    rng: Any = np.random.default_rng([seed, 0, 3]) if problem.model.traits.warmup.random_start else None
    try:
        q = dict(problem.model.begin(problem.data, rng, problem.threads))
    except NotPositiveDefinite as error:
        raise impossible(problem, State({}, seed), error) from error
    for name in q.keys() - problem.model.hyper.keys():
        q[name] = beginning(problem, name, q)
    return restarted(problem, informed(problem, State(q, seed)))


def informed(problem: Problem, state: State) -> State:
    """The state with the data's curvature in a main block that begins at its prior, for steps of gradients.

    Their units are the first deviations, of which the mean may have many to go: of a prior's it has one.
    """
    model, spec = problem.model, problem.algorithm.spec
    if spec.natural or spec.literal or not isinstance(model, Linear) or model.main in problem.frozen:
        return state
    prior, block = model.prior(state.q)[model.main], state.q[model.main]
    if block.kl(prior) > 0.0:
        return state
    gradient, _ = evaluate(problem.noiseless, state, whole(problem))
    moved = shortened(lambda share: natural_step(block, prior, gradient[model.main], share))
    return replace(state, q={**state.q, model.main: type(block)(block.mean, moved.precision, moved.root)})


def beginning(problem: Problem, name: str, q: dict[str, Any]) -> Any:
    """The block that a fit begins with: the model's, or one that its rule brings.

    Plates keep their means: those of two sides that are all zero are a saddle, which gradients without noise stay on.
    """
    block, rule = q[name], problem.rule(name, q)
    if not isinstance(problem.model, Bipartite):
        return rule.first(block)
    if not problem.algorithm.spec.literal:  # the others begin where the model does, and need no form of all plates
        return block
    own = block.for_step()
    return block.from_step(type(own)(own.mean, rule.first(own).precision))


def restarted(problem: Problem, state: State) -> State:
    """The state with every block in the algorithm's coordinates, and empty memories."""
    q, memory = dict(state.q), {name: state.memory[name] for name in problem.model.hyper if name in state.memory}
    # Few entries inform a plate, so that a step of AdaGrad's rate is in units of its first deviation.
    weight = 0.0 if isinstance(problem.model, Bipartite) else problem.data.total_weight
    for name in q.keys() - problem.model.hyper.keys():
        block = q[name] if q[name].natural_coordinates else q[name].natural_form()
        q[name], memory[name] = problem.rule(name, q).start(block, weight)
        if isinstance(problem.model, Bipartite):
            memory[name] = PlateMemory.empty(q[name].n_plates, memory[name])
    return replace(state, q=q, memory=memory, progress=state.progress.emptied())


def counting_on(state: State, before: State, again: float) -> State:
    """A stream's new first state with the record of what came before it; rows of weight -`again` are seen again."""
    record = {name: getattr(before, name) for name in ("seed", "passes", "repairs", "bound", "bounds", "history")}
    return replace(state, rows=before.rows + again, **record)


# ---- going on
def continued(problem: Problem, state: State) -> State:
    """The state that another fit left, for these data and this algorithm; nothing of that fit is written to."""
    if state.finished:
        # Passes over two sides write to their plates.
        sides = problem.model.alternating.sides if isinstance(problem.model, Bipartite) else ()
        own = {side: state.q[side].copy() for side in sides}
        return grown(problem, adopted(problem, replace(with_own_lists(state), q={**state.q, **own})))
    # One that was cut off goes on with its sites, plates and lists, and all of them are written in place.
    state = copy.deepcopy(state)
    if state.moved_by == problem.moves:
        return state if same_bound(problem, state) else replace(state, progress=elsewhere(state))
    return adopted(problem, replace(state, messages=NO_FACTORS, progress=state.progress.emptied()))


def same_bound(problem: Problem, state: State) -> bool:
    """Whether the last evaluation of a fit that was cut off holds here: other data or another prior give another bound.

    Local variables move with every look, so that of their models nobody can tell.
    """
    here = state.progress.here if isinstance(state.progress, LineSearchState) else None
    if here is None or isinstance(problem.model, Local):
        return True
    state = replace(state, q=here.q)
    value = evaluate(problem, state, whole(problem), gradient_wanted=False)[1]
    return bound(problem, state, value) == here.bound


def elsewhere(state: State) -> Progress:
    """The record of a judged pass without what was evaluated, settled or searched on other terms."""
    assert isinstance(state.progress, LineSearchState)
    return replace(state.progress.elsewhere(len(state.bounds)), here=None, small_changes=0, searched={}, under_way={})


def adopted(problem: Problem, state: State) -> State:
    """The algorithm may be another one than before, with other coordinates and other memory."""
    for name in state.q.keys() - problem.model.hyper.keys():
        rule, block = problem.rule(name, state.q), state.q[name]
        # Plates are held in coordinates of their own, whoever moves them.
        strange = not isinstance(problem.model, Bipartite) and rule.natural_coordinates != block.natural_coordinates
        if strange or not rule.knows(own_memory(state, name)):
            return restarted(problem, state)
    return state


def with_scale_inside_range(problem: Problem, state: State) -> State:
    """The state with a likelihood's scale moved off an end of its range, where these data would have it leave.

    In unconstrained values it is a matter of e-folds, and the bound's slope next to nothing: a step promises no gain.
    """
    likelihood = getattr(problem.model, "likelihood", None)
    if likelihood is None or "likelihood" not in state.q or "likelihood" in problem.frozen:
        return state
    block = state.q["likelihood"]
    there = likelihood.replace(block.value)
    away = there.scales.moved_off_limits().unconstrained - there.unconstrained
    if not away.any():
        return state

    def moved(by: Array) -> State:
        return replace(state, q={**state.q, "likelihood": block.at(there.unconstrained + by)})

    # Half way, since a step of one e-fold is lost in what integrals err by.
    if exact_bound(problem, moved(0.5 * away)) <= exact_bound(problem, moved(0.0 * away)):
        return state
    return replace(moved(away), progress=state.progress.emptied())


def own_memory(state: State, name: str) -> Any:
    """The memory of a block's rule."""
    memory = state.memory.get(name)
    return memory.rule if isinstance(memory, PlateMemory) else memory


def grown(problem: Problem, state: State) -> State:
    """The state for data that bring new words or ids: their part of a block begins at its prior."""
    model, data = problem.model, problem.data
    q = model.grown(state.q, data)
    longer = [name for name in q if q[name] is not state.q[name]]
    if not longer:
        return state
    memory, messages = dict(state.memory), state.messages
    for name in longer:
        if isinstance(model, Bipartite):
            new = q[name][state.q[name].n_plates :]
            memory[name], messages = memory[name].lengthened(new), messages.lengthened(name, new.n_plates)
        else:
            memory[name] = problem.rule(name, q).start(q[name], data.total_weight)[1]
    progress = state.progress.mapped(lambda blocks: model.grown(blocks, data))
    return replace(state, q=q, memory=memory, messages=messages, progress=progress)


def without_new_plates(state: State, sizes: dict[str, int]) -> State:
    """The state without the plates after the first `sizes` of each side."""
    q, memory, messages = dict(state.q), dict(state.memory), state.messages
    for side, n in sizes.items():
        if n < q[side].n_plates:
            first = slice(0, n)
            q[side], memory[side] = q[side][first].copy(), memory[side].of(first)
            messages = messages.of(side, first)
    return replace(state, q=q, memory=memory, messages=messages)


def initialized(problem: Problem, state: State) -> State:
    """The state at the start of a fit: earlier data are forgotten, memories of the same number of rows stay."""
    if on_other_data(problem, state):
        state = replace(state, progress=state.progress.elsewhere(len(state.bounds)))
    return replace(
        state,
        q=engine.forgetting(state.q),
        messages=state.messages.of_fit(len(problem.data)),
        locals=locals_of(problem, state),
        counted=0.0,
        population=0.0,
        finished=False,
        converged=False,
        moved_by=problem.moves,
    )


def on_other_data(problem: Problem, state: State) -> bool:
    """Whether the bound where the last fit ended is another one here: then what settled that fit settles nothing.

    Natural steps without noise say themselves what there is to gain; a bound with drawn variables says nothing.
    """
    drawn = problem.model.traits.bound.noisy or not problem.for_bound.globals.judged
    if not state.finished or drawn or (problem.deterministic and problem.algorithm.spec.natural):
        return False
    here = exact_bound(problem, replace(state, locals=locals_of(problem, state)))
    return abs(here - state.bound) > SAME * (abs(state.bound) + 1)


def locals_of(problem: Problem, state: State) -> NoLocals | Locals:
    """Where local variables of a fit on as many rows ended, else fresh ones; a sampler makes its own."""
    keeps = (isinstance(problem.model, Local) or problem.algorithm.spec.sampler) and problem.data.at_hand
    stored, n, rule = state.locals, len(problem.data), problem.local_rule
    if keeps and isinstance(stored, Locals) and stored.rule == rule and len(stored) == n:
        return stored.copy()
    if not isinstance(problem.model, Local):
        return NO_LOCALS
    if not problem.data.at_hand:
        return RemoteLocals(problem.data.persist(problem.model.local_begin))
    return Locals(problem.model.local_begin(problem.data), rule=problem.local_rule)
