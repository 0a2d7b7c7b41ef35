"""What stands between terms and pull-back: nothing, or CVI's memory, a site per datum.

With a full covariance the site of a datum is its message about its latent f: natural parameters, two numbers. A step
moves the sites of its rows towards their targets, and the block is prior plus the sum of all sites, kept up to date by
the sites' change. With a diagonal covariance no message lives on the diagonal (pulled back it would multiply two
diagonal approximations of the Gram matrix), so the datum's last gradient is kept instead and the block steps along
their sum. Both sums are exact at the optimum, so mini-batch noise vanishes there.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sksvi import _parallel
from sksvi.algorithms.rules import Moved, Pace, Rule
from sksvi.algorithms.steps import natural_step, shortened, site_step
from sksvi.inference.memory.said import NOTHING_SAID, NothingSaid
from sksvi.inference.priors import prior_of
from sksvi.models.base import Blocks, Gradient, LinearTerms, Segment

if TYPE_CHECKING:
    from sksvi.inference.problem import Problem
    from sksvi.inference.state import State

Array = np.ndarray


@dataclass
class Sites(NothingSaid):
    """Messages or last gradients of the Gaussian block, one per datum, and their sums over the data.

    ``start`` (n,) is each datum's share of what q began with; it fades as the datum's own site arrives. ``first`` holds
    that beginning: natural parameters of the first q less the prior's, about zero.
    """

    linear: Array
    quadratic: Array
    start: Array
    total: tuple[Any, ...]
    first: tuple[Any, ...]

    @classmethod
    def empty(cls, q: Any, prior: Any, linear: tuple[int, ...], quadratic: tuple[int, ...]) -> Sites:
        """No messages yet; the shapes of a row's message begin with the number of rows."""
        n, first = linear[0], q.over(prior).parts
        zero = tuple(0.0 * part for part in first)
        return cls(np.zeros(linear), np.zeros(quadratic), np.full(n, 1.0 / n), zero, first)

    def of_fit(self, n: int) -> NothingSaid:
        """The sites of an unfinished fit to as many rows."""
        return self if len(self.start) == n else NOTHING_SAID

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

    def add(self, change: tuple[Any, ...]) -> None:
        """Add the change of some sites, pulled back, to the sums."""
        self.total = tuple(a + b for a, b in zip(self.total, change, strict=True))

    def block(self, q: Any, prior: Any, rate: float) -> Any:
        """q after the sites have moved."""
        left = float(self.start.sum())
        if q.full:
            linear = prior.dot(prior.mean) + self.total[0] + left * self.first[0]
            precision = prior.precision_like(q) - 2 * self.total[1] + left * self.first[1]
            new = type(q)(np.zeros_like(linear), precision)
            return type(q)(new.solve(linear), precision, new.root)
        blown = 1.0 / max(1.0 - left, 1.0 / len(self.start))
        gradient = tuple(blown * part for part in self.total)
        return shortened(lambda share: natural_step(q, prior, gradient, rate * share))


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

    def step(self, name: str, q: Blocks, prior: Any, gradient: Any, memory: Any, pace: Pace) -> Moved:
        """`gradient` is the change of the sites of the rows at hand."""
        self.sites.add(gradient)
        return Moved(q[name] if self.stays else self.sites.block(q[name], prior, pace.rate), memory)


class Direct:
    """No memory: terms are pulled back as they are, and the sum is blown up to the population."""

    def begin(self, problem: Problem, state: State) -> State:
        """The state as it is: nothing to remember."""
        return state

    def between(self, terms: Any, rows: Any, problem: Problem, state: State) -> Any:
        """What is pulled back."""
        return terms

    def blown_up(self, gradient: Gradient, scale: float) -> Gradient:
        """The gradient of the population."""
        return _parallel.scaled(gradient, scale)

    def rule(self, name: str, problem: Problem, state: State) -> Rule:
        """How a block moves."""
        return problem.rule(name, state.q)

    def rate(self, name: str, problem: Problem, state: State, segment: Segment) -> float:
        """How far."""
        return self.reported(problem, state)

    def reported(self, problem: Problem, state: State) -> float:
        """The rate that the history tells of a step."""
        return max(problem.algorithm.rate(state.steps, problem.deterministic), problem.least_rate)

    def fresh(self, problem: Problem, state: State) -> None:
        """Sums that changes have not drifted from, now and then."""


DIRECT = Direct()


class OfRows(Direct):
    """A site per row (CVI).

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
        """No site has arrived yet."""
        if isinstance(state.messages, Sites):
            return state
        shapes = problem.model.message_shapes(len(problem.data))  # type: ignore[attr-defined]
        prior = prior_of(problem, state, state.q)[self.main]
        return replace(state, messages=Sites.empty(state.q[self.main], prior, *shapes))

    def between(self, terms: Any, rows: Any, problem: Problem, state: State) -> Any:
        """The change of the rows' sites."""
        return self._sites(state).move(terms, rows, self.reported(problem, state), state.q[self.main].full)

    def blown_up(self, gradient: Gradient, scale: float) -> Gradient:
        """Changes of sites are what they are; the rest is scaled."""
        rest = {name: part for name, part in gradient.items() if name != self.main}
        return {**_parallel.scaled(rest, scale), self.main: gradient[self.main]}

    def rule(self, name: str, problem: Problem, state: State) -> Rule:
        """The main block is what its sites say."""
        if name == self.main:
            return FromSites(self._sites(state), name in problem.frozen)
        return super().rule(name, problem, state)

    def rate(self, name: str, problem: Problem, state: State, segment: Segment) -> float:
        """Of messages for the main block, by the share of the rows that moved, and for points."""
        if name == self.main:
            return self.reported(problem, state) * (1.0 / segment.scale)
        if name in problem.model.hyper:
            return self.reported(problem, state)
        return problem.algorithm.rate(state.steps, False)

    def reported(self, problem: Problem, state: State) -> float:
        """That of messages, which move once a pass."""
        return problem.algorithm.rate(state.passes, False, True)

    def fresh(self, problem: Problem, state: State) -> None:
        """The sums of all sites, afresh: changes that were added up drift by their rounding."""
        model, data, sites = problem.model, problem.data, self._sites(state)

        def one(rows: Any) -> Any:
            return model.pull_back(sites.as_terms(rows), model.batch(data, rows))[self.main]

        chunks = model.chunks(slice(0, len(data)), data)
        sites.total = _parallel.tree_sum(_parallel.in_order(one, chunks, problem.threads))

    @staticmethod
    def _sites(state: State) -> Sites:
        assert isinstance(state.messages, Sites)
        return state.messages
