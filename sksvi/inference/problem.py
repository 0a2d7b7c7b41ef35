"""The problem of a fit: all that the fit itself does not change, how it sees the globals, how it uses a gradient.

Local steps see the globals by expectations, at their mean, by a draw, or by one that the gradient knows of.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sksvi._runtime import parallel
from sksvi.algorithms.rules import FIXED, Rule
from sksvi.algorithms.specs import MCSSVI, Algorithm
from sksvi.expectations import Expectation
from sksvi.inference.messages import NO_FACTORS, NoFactors
from sksvi.inference.records import replace
from sksvi.inference.state import State
from sksvi.models.base import Blocks, Gradient, Local, Model, Segment
from sksvi.models.data import Data


class ExpectedGlobals:
    """Globals seen by their expectations under q (SVI).

    ``judged`` : a step climbs the bound that it is judged by, without noise.
    """

    judged = True

    def view(self, model: Model, q: Blocks, rng: np.random.Generator) -> Any:
        """The view of the globals that the model's `terms` reads."""
        return model.view(q, None)

    def corrected(self, gradient: Gradient, q: Blocks, view: Any) -> Gradient:
        """The summed gradient as it is."""
        return gradient


class GlobalsAtMean:
    """A block whose moments are its statistics at the mean: t(E x) in the place of E t(x); all else is the block's."""

    def __init__(self, block: Any) -> None:
        self._block = block

    def __getattr__(self, name: str) -> Any:
        return getattr(self._block, name)

    @property
    def moments(self) -> Any:
        """Statistics at the mean, t(E x), in the place of E t(x)."""
        return self._block.statistics(self._block.mean)

    def moments_of(self, columns: Any) -> Any:
        """t(E x) of some coordinates."""
        return self._block.statistics(self._block.mean[..., columns])


class MeanGlobals(ExpectedGlobals):
    """Statistics at the mean of q, as in EM; the view's `bounded` has the expectations, which a bound is taken at."""

    judged = False

    def view(self, model: Model, q: Blocks, rng: np.random.Generator) -> Any:
        """The view of the globals that the model's `terms` reads."""
        at_mean = {name: GlobalsAtMean(block) if block.column != "hyper" else block for name, block in q.items()}
        return replace(model.view(at_mean, None), bounded=model.view(q, None))


class SampledGlobals(ExpectedGlobals):
    """Globals seen by one draw from q per step (SSVI-A)."""

    judged = False

    def view(self, model: Model, q: Blocks, rng: np.random.Generator) -> Any:
        """The view of the globals that the model's `terms` reads."""
        return model.view(q, rng)


class CorrectedGlobals(SampledGlobals):
    """One draw, and the matrix V of Hoffman and Blei 2015: how the draw moves with its parameters (SSVI)."""

    def corrected(self, gradient: Gradient, q: Blocks, view: Any) -> Gradient:
        """The summed gradient, V applied block by block: V is linear, and costs as much as the block."""
        moved = {name: q[name].corrected(draw, gradient[name]) for name, draw in view.draws.items()}
        return {**gradient, **moved}


GLOBALS = {
    "expected": ExpectedGlobals(),
    "sampled": SampledGlobals(),
    "corrected": CorrectedGlobals(),
    "mean": MeanGlobals(),
}


# ---- the problem
class PlainGradients:
    """No memory: terms are pulled back as they are, and the sum is blown up to the population.

    ``lasting`` : what a fit leaves undone stays so, and would be the largest error of what it says.
    """

    lasting = False

    def begin(self, problem: Problem, state: State) -> State:
        """The state as it is: nothing to remember."""
        return state

    def sites(self, state: State) -> Any:
        """The object that holds the sites of the rows, beside the data; None: there is none."""
        return None

    def between(self, problem: Problem, state: State) -> Callable[[Any, Any, Any], Any] | None:
        """What makes of terms, rows and sites that which is pulled back; None: the terms are."""
        return None

    def blown_up(self, gradient: Gradient, scale: float) -> Gradient:
        """The gradient, blown up to the population."""
        return parallel.scaled(gradient, scale)

    def in_turn(self, model: Model, name: str, gradient: Gradient, before: Blocks, q: Blocks) -> Gradient:
        """The gradient when it is a block's turn to step."""
        return model.in_turn(name, gradient, before, q)

    def rule(self, name: str, problem: Problem, state: State) -> Rule:
        """The rule of a block; blocks that wait until a start is found are fixed."""
        waits = name in problem.model.traits.warmup.frozen and problem.in_warmup(state.passes)
        return FIXED if waits else problem.rule(name, state.q)

    def rate(self, name: str, problem: Problem, state: State, segment: Segment) -> float:
        """Rate of a block's step on a segment."""
        return self.reported(problem, state)

    def reported(self, problem: Problem, state: State) -> float:
        """The rate of a step that the history reports."""
        rate = problem.rate_share * problem.algorithm.rate(state.steps, problem.deterministic)
        return max(rate, problem.least_rate)

    def fresh(self, problem: Problem, state: State) -> None:
        """Recompute sums that drift by rounding, now and then: there are none."""

    def pass_ended(self, problem: Problem, state: State) -> State:
        """The state after the last batch of a pass: as it is."""
        return state


DIRECT = PlainGradients()


@dataclass
class RowSums:
    """Sufficient statistics of the rows of some data, once they were looked at where they have any."""

    data: Data | None = None
    found: Any = None

    def of(self, data: Data) -> Any:
        """The statistics of these data, or None."""
        return self.found if self.data is data else None


@dataclass
class Problem:
    """Model, data, algorithm, expectations and how to split the work: made by `plan.problem`.

    ``expect`` serves the steps, ``exact`` the bound that a fit reports at its end. ``globals`` and ``messages``: how
    local steps see the globals, and what stands between terms and pull-back. ``warmup_globals``: how they
    see them while a fit looks for its start, where that is another way. ``total`` is the population's weight where the
    data are a part of it, ``frozen`` names blocks that stay as they are, ``previous_bound`` is the
    size of the bound of earlier portions (nats): `tol` is relative to all data so far. ``prior_factors``: messages of
    rows that are no longer at hand, a part of the data's sum. ``stream``: one step on a portion, at the rates of noisy
    steps, and at least at `least_rate`: what forgets faster; ``rate_share``: of a rate, for less than a batch of rows.
    ``sums``: sufficient statistics of the rows, where they have any.
    """

    model: Model
    data: Data
    algorithm: Algorithm
    expect: Expectation
    exact: Expectation
    globals: ExpectedGlobals = GLOBALS["expected"]
    warmup_globals: ExpectedGlobals | None = None
    messages: PlainGradients = DIRECT
    batch_size: int | None = None
    threads: int = 1
    total: float | None = None
    frozen: frozenset[str] = frozenset()
    previous_bound: float = 0.0
    prior_factors: NoFactors = NO_FACTORS
    stream: bool = False
    least_rate: float = 0.0
    rate_share: float = 1.0
    sums: RowSums = field(default_factory=RowSums)

    @property
    def steps_per_pass(self) -> int:
        """Number of batches that the rows are taken in."""
        return 1 if self.batch_size is None or self.full_batch else -(-len(self.data) // self.batch_size)

    @property
    def full_batch(self) -> bool:
        """Whether one segment is all the data."""
        return self.batch_size is None or self.batch_size >= self.data.largest_batch

    @property
    def deterministic(self) -> bool:
        """Whether steps are judged one by one: without mini-batches and sampling noise, and not as printed."""
        drawn = self.model.traits.bound.noisy or not self.globals.judged
        judged = self.expect.exact and not (self.stream or drawn or self.algorithm.spec.literal)
        return self.full_batch and judged

    def looks_at_all(self, segment: Segment) -> bool:
        """Whether a segment is all the data as one, seen without noise and as they are."""
        rows = segment.rows
        whole = isinstance(rows, slice) and rows.indices(len(self.data)) == (0, len(self.data), 1)
        return whole and segment.scale == 1.0 and self.messages is DIRECT and self.deterministic

    @property
    def exact_batches(self) -> bool:
        """Whether steps on batches leave no noise, since every message of q is that of a row and exact at the end."""
        own = self.model.traits.steps.own_messages and not self.full_batch
        return own and self.expect.exact and not self.stream

    def in_warmup(self, number: int) -> bool:
        """Whether pass (or portion) `number` looks for a start."""
        whole = self.stream or self.deterministic
        return number < (self.model.traits.warmup.full_batch if whole else self.model.traits.warmup.passes)

    def globals_in(self, number: int) -> ExpectedGlobals:
        """How local steps see the globals in pass (or portion) `number`."""
        return self.globals if self.warmup_globals is None or not self.in_warmup(number) else self.warmup_globals

    @property
    def for_bound(self) -> Problem:
        """The problem whose bound a fit reports: without noise, and by expectations where they have a closed form."""
        globals_mode = GLOBALS["expected"] if self.model.traits.bound.at_expectations else self.globals
        return replace(self, expect=self.exact, messages=DIRECT, globals=globals_mode, warmup_globals=None)

    @property
    def noiseless(self) -> Problem:
        """The problem by natural steps on all rows at once, without noise."""
        return replace(self, expect=self.exact, batch_size=None, messages=DIRECT, algorithm=MCSSVI())

    @property
    def scale(self) -> float:
        """Population size over the data's weight."""
        return 1.0 if self.total is None else self.total / self.data.total_weight

    @property
    def weight(self) -> float:
        """Weight of the population: the N that gradients are blown up to."""
        return self.data.total_weight * self.scale

    def size(self, bound: float) -> float:
        """What `tol` is relative to at a bound: the size for all data so far, in the target's own unit, nats."""
        return abs(bound + self.weight * self.model.traits.bound.log_unit) + self.previous_bound + 1

    @property
    def moves(self) -> str:
        """Key of a fit's memories and messages (algorithm, full batch or not, messages): only its equal reads them."""
        name = f"{self.algorithm.name} as printed" if self.algorithm.spec.literal else self.algorithm.name
        return f"{name}, {'all rows' if self.full_batch else 'batches'}, {type(self.messages).__name__}"

    @property
    def local_rule(self) -> str:
        """Name of the rule that local variables belong to: the sampler, or the model's local step; '': of none."""
        if self.algorithm.spec.sampler:
            return self.algorithm.name
        return self.model.traits.local_rule if isinstance(self.model, Local) else ""

    def rule(self, name: str, q: Blocks) -> Rule:
        """The rule by which a block moves."""
        if name in self.frozen:
            return FIXED
        hyper = self.model.hyper
        return hyper[name] if name in hyper else self.algorithm.rule(q[name])


# ---- priors, with what streams left behind, and what q pays for its distance from them: no data needed
def prior_of(problem: Problem, state: State, q: Blocks) -> Blocks:
    """The prior of every block, with what streamed portions left behind."""
    return state.messages.times_prior(problem.model.prior(q))


def divergence(problem: Problem, state: State, q: Blocks) -> float:
    """Σ KL(q ‖ prior) over the blocks that have a prior, nats, and what hyperparameters pay."""
    prior = prior_of(problem, state, q)
    paid = sum(block.penalty() for block in q.values())
    density = sum(rule.log_density(q) for rule in problem.model.hyper.values())
    return float(sum(q[name].kl(block) for name, block in prior.items()) + paid - density)


def divergence_between(new: Blocks, old: Blocks, hyper: dict[str, Rule]) -> float:
    """KL of the blocks after a natural step to those before, nats: to second order what the step gains."""
    return float(sum(block.kl(old[name]) for name, block in new.items() if name not in hyper))
