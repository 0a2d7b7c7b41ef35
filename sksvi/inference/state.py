"""What a fit knows: its problem, its state, and the algebra of q that needs no data."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from sksvi.families.gaussian.dense import NotPositiveDefinite
from sksvi.inference.memory.of_rows import Sites
from sksvi.models.base import Data

Array = np.ndarray

#: When closed-form steps of the log prior precision stop.
PRIOR_TOL = 1e-3


class NonFinite(ValueError):
    """A bound or gradient that is not a finite number."""


@dataclass
class Evaluation:
    """Gradient and bound at one q: what a step needs, and what taking it back needs."""

    q: dict[str, Any]
    gradient: dict[str, Any]
    bound: float
    memory: dict[str, Any] = field(default_factory=dict)


@dataclass
class State:
    """All that a fit knows: saved, resumed, continued by ``partial_fit``. Plain arrays, numbers and blocks.

    ``local`` (n, ...): where each row's local variables ended, a start for the next look at the row.
    ``local_repairs`` counts covariances of local variables that had to be projected.
    """

    q: dict[str, Any]
    seed: int
    passes: int = 0
    steps: int = 0
    rows: float = 0.0
    damping: float = 1.0
    memory: dict[str, Any] = field(default_factory=dict)
    sites: Sites | None = None
    local: Array | None = None
    average: dict[str, Any] = field(default_factory=dict)
    absorbed: dict[str, Any] | None = None
    previous: Evaluation | None = None
    bound: float = -np.inf
    bounds: list[float] = field(default_factory=list)
    checks: list[float] = field(default_factory=list)
    history: list[dict[str, Any]] = field(default_factory=list)
    converged: bool = False
    finished: bool = False
    repairs: int = 0
    local_repairs: int = 0
    small_changes: int = 0


@dataclass
class Problem:
    """What a fit does not change: model, data, algorithm, expectations and how to split the work.

    ``expect`` serves the steps, ``exact`` the bound that a fit reports at its end. ``total`` is the population's
    weight where the data are a part of it, ``frozen`` names blocks that stay as they are, ``past`` is the size of the
    bound of earlier chunks (nats): `tol` is relative to all data seen. ``so_far`` is what a stream left,
    the prior of this chunk, by block. ``stream``: one step on a chunk, at the rates of noisy steps.
    """

    model: Any
    data: Data
    algorithm: Any
    expect: Any
    exact: Any
    batch_size: int | None = None
    threads: int = 1
    total: float | None = None
    frozen: frozenset[str] = frozenset()
    past: float = 0.0
    so_far: Any = None
    stream: bool = False

    @property
    def full_batch(self) -> bool:
        """Whether one segment is all the data."""
        return self.batch_size is None or self.batch_size >= len(self.data)

    @property
    def deterministic(self) -> bool:
        """No mini-batch and no sampling noise."""
        exact = self.expect.exact and not self.stream
        return self.full_batch and exact and not self.model.noisy(self.algorithm.samples_globals)

    @property
    def remembers(self) -> bool:
        """Whether data keep sites; for conjugate blocks the damped message is the natural step."""
        return self.algorithm.remembers and self.model.linear

    @property
    def remembers_plates(self) -> bool:
        """Whether a plate's message is kept apart from its prior in a stream."""
        return self.algorithm.remembers and self.model.plates

    @property
    def scale(self) -> float:
        """Population size over the data's weight."""
        return 1.0 if self.total is None else self.total / self.data.total_weight


@dataclass(frozen=True)
class StepInfo:
    """One row of ``history_``."""

    bound: float
    exact: bool
    rate: float
    repairs: int


def prior_of(problem: Problem, state: State) -> dict[str, Any]:
    """The prior of every block, with what streamed chunks left behind."""
    prior = dict(problem.model.prior(state.q))
    if problem.so_far is not None:
        prior.update(problem.so_far)
    elif state.absorbed is not None:
        prior = {name: joined(block, state.absorbed[name]) for name, block in prior.items()}
    return prior


def joined(prior: Any, absorbed: Any) -> Any:
    """Product of a prior and a message."""
    return prior.times(absorbed)


def divergence(problem: Problem, state: State, q: dict[str, Any]) -> float:
    """Σ KL(q ‖ prior) over the blocks that have a prior, nats."""
    prior = prior_of(problem, replace(state, q=q))
    paid = sum(block.penalty() for block in q.values() if block.kind == "point")
    return sum(q[name].kl(block) for name, block in prior.items()) + paid - problem.model.log_hyperprior(q)


def divergence_between(new: dict[str, Any], old: dict[str, Any]) -> float:
    """KL of the blocks after a natural step to those before, nats: to second order what the step gains."""
    return sum(block.kl(old[name]) for name, block in new.items() if block.kind not in ("point", "free"))


def messages(problem: Problem, blocks: dict[str, Any]) -> dict[str, Any]:
    """What the data said about each block: natural parameters of q less those of the prior."""
    return {name: message(blocks[name], prior) for name, prior in problem.model.prior(blocks).items()}


def message(q: Any, prior: Any) -> Any:
    """What the data said about one block."""
    return q.over(prior)


def settled_prior(problem: Problem, q: dict[str, Any], said: Any, n_steps: int) -> dict[str, Any]:
    """Learned precisions of the prior, given what the data said about the weights: closed-form steps, no data."""
    model, name = problem.model, problem.model.block
    steps = {key: step for key, step in model.prior_steps(q).items() if key not in problem.frozen}
    if not steps:
        return q
    said = message(q[name], model.prior(q)[name]) if said is None else said
    for _ in range(n_steps):
        moved = {**q, **{key: q[key].moved(step, 1.0) for key, step in steps.items()}}
        try:
            moved[name] = joined(model.prior(moved)[name], said)
        except NotPositiveDefinite:  # too little data to bear so small a precision: the last one stands
            break
        q = moved
        if max(np.max(np.abs(step), initial=0.0) for step in steps.values()) < PRIOR_TOL:
            break
        steps = {key: step for key, step in model.prior_steps(q).items() if key in steps}
    return q


def remembered_points(q: dict[str, Any], gradient: dict[str, Any]) -> dict[str, Any]:
    """Points keep the curvature of the data that they were learned from, for data to come."""
    return {
        name: block.absorbed(gradient[name][1]) if block.kind == "point" and name in gradient else block
        for name, block in q.items()
    }
