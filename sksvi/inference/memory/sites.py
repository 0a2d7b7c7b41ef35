"""Memory between terms and pull-back: none, or that of CVI, a site per datum.

With a full covariance the site of a datum is its message about its latent f: natural parameters, two numbers. A step
moves the sites of its rows towards their targets, and the block is prior plus the sum of all sites, kept up to date by
the sites' change. With a diagonal covariance no message lives on the diagonal (pulled back it would multiply two
diagonal approximations of the Gram matrix), so the datum's last gradient is kept instead and the block steps along
their sum. Both sums are exact at the optimum, so mini-batch noise vanishes there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from sksvi._runtime import parallel
from sksvi._runtime.memory import Weighed
from sksvi.algorithms.rules import FIXED, Rule, StepResult, StepSize
from sksvi.algorithms.steps import natural_step, shortened, site_step
from sksvi.inference.memory.factors import NO_FACTORS, NoFactors
from sksvi.inference.priors import prior_of
from sksvi.inference.records import replace
from sksvi.models.base import Blocks, Gradient, LinearTerms, Model, Segment

if TYPE_CHECKING:
    from sksvi.inference.problem import Problem
    from sksvi.inference.state import State

Array = np.ndarray


@dataclass
class Sites(NoFactors, Weighed):
    """Messages or last gradients of the Gaussian block, one per datum, and their sums over the data.

    ``start`` (n,) is each datum's share of what q began with; it fades as the datum's own site arrives. ``first`` holds
    that beginning: natural parameters of the first q less the prior's, about zero.
    """

    linear: Array
    quadratic: Array
    start: Array
    total: tuple[Any, ...] = ()
    first: tuple[Any, ...] = ()

    @property
    def without_rows(self) -> NoFactors:
        """No factors: what the sites say is in q, and a fit that goes on from there finds them anew."""
        return NO_FACTORS

    def of_fit(self, n: int) -> NoFactors:
        """The sites of an unfinished fit to as many rows."""
        return self if self.n == n else NO_FACTORS

    # ---- rows
    @property
    def rows(self) -> Any:
        """The object that holds the sites of the rows, beside the data."""
        return self

    @property
    def n(self) -> int:
        """Number of rows."""
        return len(self.start)

    @property
    def start_left(self) -> float:
        """Share of the first q that is still in the block, in [0, 1]: the sum of `start`."""
        return float(self.start.sum())

    def copy(self) -> Sites:
        """The rows' sites in arrays that may be written to, without the sums."""
        return Sites(self.linear.copy(), self.quadratic.copy(), self.start.copy())

    def move(self, terms: Any, rows: Any, rate: float, full: bool) -> Any:
        """Move the rows' sites towards their targets; the change comes back in the place of the terms."""
        old = self.linear[rows].copy(), self.quadratic[rows].copy()
        if full:
            target = terms.message()
            new = site_step(old[0], target[0], rate), site_step(old[1], target[1], rate)
        else:
            new = terms.alpha, terms.gamma
        self.linear[rows], self.quadratic[rows] = new
        self.start[rows] *= (1 - rate) if full else 0.0
        return replace(terms, alpha=new[0] - old[0], gamma=new[1] - old[1])

    def as_terms(self, rows: Any) -> LinearTerms:
        """The rows' sites in the place of gradients."""
        linear = self.linear[rows]
        return LinearTerms(np.zeros(len(linear)), linear, self.quadratic[rows], linear)

    # ---- sums
    def summing(self, q: Any, prior: Any) -> Sites:
        """Sites of zero with their sums set to zero, and with `first` set to q over its prior."""
        self.first = q.over(prior).parts
        self.total = tuple(0.0 * part for part in self.first)
        return self

    def add(self, change: tuple[Any, ...]) -> None:
        """Add the change of some sites, pulled back, to the sums."""
        self.total = tuple(a + b for a, b in zip(self.total, change, strict=True))

    def block(self, q: Any, prior: Any, rate: float) -> Any:
        """The main block after the sites have moved."""
        start_left = self.start_left
        if q.full:
            linear = prior.dot(prior.mean) + self.total[0] + start_left * self.first[0]
            precision = prior.precision_like(q) - 2 * self.total[1] + start_left * self.first[1]
            new = type(q)(np.zeros_like(linear), precision)
            return type(q)(new.solve(linear), precision, new.root)
        blown = 1.0 / max(1.0 - start_left, 1.0 / self.n)
        gradient = tuple(blown * part for part in self.total)
        return shortened(lambda share: natural_step(q, prior, gradient, rate * share))


class RemoteSites(Sites):
    """The sites of rows in partitions, kept beside these; here are their sums.

    Parameters
    ----------
    apart : object with ``change``
        The sites of each partition, where it lies, and by how much the sum of their starts has changed.
    n : int
        Rows.
    """

    def __init__(self, apart: Any, n: int) -> None:
        self.apart, self._n = apart, n

    @property
    def rows(self) -> Any:
        """The object that holds the sites of the rows, beside the data."""
        return self.apart

    @property
    def n(self) -> int:
        """Number of rows."""
        return self._n

    @property
    def start_left(self) -> float:
        """Share of the first q that is still in the block, in [0, 1], by the partitions' changes."""
        return 1.0 + float(self.apart.change)

    def of_fit(self, n: int) -> NoFactors:
        """No sites: those in partitions end with their fit."""
        return NO_FACTORS


def no_messages(shapes: Any, n: int, data: Any) -> Sites:
    """Sites of rows that are some of n: none has said anything, and all of the beginning is left."""
    linear, quadratic = shapes(len(data))
    return Sites(np.zeros(linear), np.zeros(quadratic), np.full(len(data), 1.0 / n))


def moved(rate: float, full: bool, terms: Any, rows: Any, sites: Sites) -> Any:
    """Move the rows' sites towards their targets; their change, in the place of the terms."""
    return sites.move(terms, rows, rate, full)


class FromSites(Rule):
    """The main block from prior, sites and what is left of the first q.

    Parameters
    ----------
    sites : Sites
    stays : bool
        The sites move and the block does not.
    """

    def __init__(self, sites: Sites, stays: bool) -> None:
        self.sites, self.stays = sites, stays

    def step(self, name: str, q: Blocks, prior: Any, gradient: Any, memory: Any, pace: StepSize) -> StepResult:
        """The block after a step; `gradient` is the change of the sites of the rows at hand."""
        self.sites.add(gradient)
        return StepResult(q[name] if self.stays else self.sites.block(q[name], prior, pace.rate), memory)


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
        waits = name in problem.model.frozen_in_warmup and problem.forms(state.passes)
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


DIRECT = PlainGradients()


class SiteUpdates(PlainGradients):
    """Damped updates of a site per row (CVI).

    What is remembered moves once a pass, and so do the points that are learned with it; every other block moves with
    every batch, at the rate of noisy steps.

    Parameters
    ----------
    main : str
        The Gaussian block that the rows' latents are linear in.
    """

    def __init__(self, main: str) -> None:
        self.main = main

    def begin(self, problem: Problem, state: State) -> State:
        """The state with a site of zero for every row, unless it has sites already."""
        if isinstance(state.messages, Sites):
            return state
        prior, n = prior_of(problem, state, state.q)[self.main], len(problem.data)
        rows = problem.data.persist(partial(no_messages, problem.model.message_shapes, n))  # type: ignore[attr-defined]
        sites = rows if isinstance(rows, Sites) else RemoteSites(rows, n)
        return replace(state, messages=sites.summing(state.q[self.main], prior))

    def sites(self, state: State) -> Any:
        """The sites of the rows, beside the data."""
        return self._sites(state).rows

    def between(self, problem: Problem, state: State) -> Callable[[Any, Any, Any], Any]:
        """Move the rows' sites towards their targets; their change, in the place of the terms."""
        return partial(moved, self.reported(problem, state), state.q[self.main].full)

    def blown_up(self, gradient: Gradient, scale: float) -> Gradient:
        """The gradient, blown up to the population except for the change of the sites."""
        rest = {name: part for name, part in gradient.items() if name != self.main}
        return {**parallel.scaled(rest, scale), self.main: gradient[self.main]}

    def in_turn(self, model: Model, name: str, gradient: Gradient, before: Blocks, q: Blocks) -> Gradient:
        """The gradient as it is: of the main block it is the change of the sites, and no slope at q."""
        return gradient

    def rule(self, name: str, problem: Problem, state: State) -> Rule:
        """The rule of a block: the main one is formed from its sites."""
        if name == self.main:
            return FromSites(self._sites(state), name in problem.frozen)
        return super().rule(name, problem, state)

    def rate(self, name: str, problem: Problem, state: State, segment: Segment) -> float:
        """Rate of a block: of messages for the main block, by the share of the rows that moved, and for points."""
        if name == self.main:
            return self.reported(problem, state) * (1.0 / segment.scale)
        if name in problem.model.hyper:
            return self.reported(problem, state)
        return problem.algorithm.rate(state.steps, False)

    def reported(self, problem: Problem, state: State) -> float:
        """The rate of messages, which move once a pass."""
        return problem.algorithm.rate(state.passes, False, True)

    def fresh(self, problem: Problem, state: State) -> None:
        """Recompute the sums of all sites: changes that were added up drift by their rounding."""
        sites = self._sites(state)
        sites.total = problem.data.reduced(partial(self._sum, problem.model, problem.threads), beside=sites.rows)

    def _sum(self, model: Any, threads: int, data: Any, sites: Sites) -> tuple[Any, ...]:
        def one(rows: Any) -> Any:
            return model.pull_back(sites.as_terms(rows), model.batch(data, rows))[self.main]

        return parallel.tree_sum(parallel.in_order(one, model.chunks(slice(0, len(data)), data), threads))

    @staticmethod
    def _sites(state: State) -> Sites:
        assert isinstance(state.messages, Sites)
        return state.messages
