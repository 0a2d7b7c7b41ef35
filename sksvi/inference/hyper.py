"""Hyperparameters between two looks at the data: what needs none, and what they remember."""

from __future__ import annotations

from typing import Any

import numpy as np

from sksvi.algorithms.rules import ClosedForm
from sksvi.families.base import NotPositiveDefinite
from sksvi.inference.memory.factors import NO_FACTORS
from sksvi.inference.problem import Problem
from sksvi.inference.records import replace
from sksvi.inference.state import State
from sksvi.models.base import Blocks, Gradient, Linear

#: When closed-form steps stop, in the largest change of a coordinate.
TOL = 1e-3
#: Most of them between two looks at the data.
PRIOR_STEPS = 10


def optimized(problem: Problem, q: Blocks, message: Any = None, n_steps: int = PRIOR_STEPS) -> Blocks:
    """q with hyperparameters of the main block's prior settled, given the data's `message` (None: q over its prior)."""
    model = problem.model
    rules = {
        name: rule
        for name, rule in model.hyper.items()
        if isinstance(rule, ClosedForm) and name in q and name not in problem.frozen
    }
    if not rules or not isinstance(model, Linear) or model.main in problem.frozen:
        return q
    message = q[model.main].over(model.prior(q)[model.main]) if message is None else message
    steps = {name: rule.find(q)[0] for name, rule in rules.items()}
    for _ in range(n_steps):
        moved = {**q, **{name: q[name].moved(step, 1.0) for name, step in steps.items()}}
        try:
            moved[model.main] = model.prior(moved)[model.main].times(message)
        except NotPositiveDefinite:  # too little data to bear so small a precision: the last one stands
            break
        q = moved
        if max(np.max(np.abs(step), initial=0.0) for step in steps.values()) < TOL:
            break
        steps = {name: rule.find(q)[0] for name, rule in rules.items()}
    return q


def recentred(problem: Problem, state: State, q: Blocks) -> Blocks:
    """q along what rows at hand do not feel, where all data are at hand: rows that went say what they said about q."""
    model = problem.model
    alone = state.messages is NO_FACTORS and problem.prior_factors is NO_FACTORS
    if not alone or not isinstance(model, Linear) or problem.frozen & {model.main, "likelihood"}:
        return q
    return model.recentred(q)


def remembering(problem: Problem, q: Blocks, gradient: Gradient) -> Blocks:
    """Blocks of one number or few keep the curvature of the data that they were learned from, for data to come."""
    curved = {name for name in q if len(gradient.get(name, ())) > 1}
    return {name: block.absorbed(gradient[name][1]) if name in curved else block for name, block in q.items()}


def forgetting(q: Blocks) -> Blocks:
    """The blocks without what they remember of earlier data."""
    return {name: block.forgotten() for name, block in q.items()}


def faded(state: State, share: float) -> State:
    """The state with a share of what points, and rules by AdaGrad, remember of earlier data."""
    if share == 1.0:
        return state
    q = {name: block.faded(share) for name, block in state.q.items()}
    memory = {name: fading(own, share) for name, own in state.memory.items()}
    return replace(state, q=q, memory=memory)


def fading(memory: Any, share: float) -> Any:
    """A rule's memory with a share of its sums over earlier steps, where it has any."""
    return memory.faded(share) if hasattr(memory, "faded") else memory


def with_fixed_hyper(problem: Problem, **changes: Any) -> Problem:
    """The problem with every hyperparameter fixed where it is."""
    return replace(problem, frozen=problem.frozen | frozenset(problem.model.hyper), **changes)
