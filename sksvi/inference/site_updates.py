"""Damped updates of the rows' sites, in the place of terms that are pulled back as they are."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, reduce
from typing import Any

from sksvi._runtime import parallel
from sksvi.algorithms.rules import Rule, StepResult, StepSize
from sksvi.inference.messages import LatentSites, RemoteSites, Sites, no_messages
from sksvi.inference.problem import PlainGradients, Problem, prior_of
from sksvi.inference.records import AveragingState, replace
from sksvi.inference.state import State
from sksvi.models.base import Blocks, Gradient, LinearTerms, Model, Segment


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
        return StepResult(q[name] if self.stays else self.sites.block(q[name], prior, pace.rate, gradient), memory)


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

        return parallel.summed(one, model.chunks(slice(0, len(data)), data), threads)

    @staticmethod
    def _sites(state: State) -> Sites:
        assert isinstance(state.messages, Sites)
        return state.messages


class LatentUpdates(SiteUpdates):
    """Damped updates of a site per latent (CVI, doubly stochastic): with the prior the sites are all there is of q.

    A pass has its block factored once, at its end: within it every step is an update of the rank of its rows.
    """

    def begin(self, problem: Problem, state: State) -> State:
        """The state with the sites that its block is made of, unless it has them already."""
        if isinstance(state.messages, Sites):
            return state
        prior = prior_of(problem, state, state.q)[self.main]
        return replace(state, messages=LatentSites.from_message(state.q[self.main].over(prior)))

    def pass_ended(self, problem: Problem, state: State) -> State:
        """The state with its block anew from the sites, without what rounding has added up to."""
        if self.main in problem.frozen:
            return state
        sites, progress = state.messages, state.progress
        assert isinstance(sites, LatentSites) and isinstance(progress, AveragingState)
        q = {**state.q, self.main: sites.factored(problem.model.prior(state.q)[self.main])}
        return replace(state, q=q, progress=replace(progress, average=q))

    def fresh(self, problem: Problem, state: State) -> None:
        """Nothing to recompute: there are no sums."""


# ---- the terms of the last evaluation of a portion, stored so that each row's site can be read where the portion ends
class RecordedTerms(PlainGradients):
    """Nothing between terms and pull-back; the terms of the last evaluation are stored with their q.

    Parameters
    ----------
    main : str
        The block that tells one q from another.
    lasting : bool, default=False
        Whether a sample stands for past rows: without one their sites stay wrong by more than a fit leaves undone.
    """

    def __init__(self, main: str, lasting: bool = False) -> None:
        self.main, self.lasting = main, lasting
        self._by_first_row: dict[int, tuple[Any, LinearTerms]] = {}

    def between(self, problem: Problem, state: State) -> Any:
        """A function that stores a chunk's terms by its first row, and returns them."""
        return partial(self._keep, state.q[self.main])

    def _keep(self, block: Any, terms: Any, rows: Any, sites: Any) -> Any:
        if isinstance(rows, slice):
            self._by_first_row[rows.start] = block, terms
        return terms

    def of(self, problem: Problem, q: Blocks) -> LinearTerms | None:
        """The terms of all rows at q, or None where some were last evaluated at another q."""
        chunks = problem.model.chunks(slice(0, len(problem.data)), problem.data)
        found = [self._by_first_row.get(rows.start, (None, None)) for rows in chunks]
        if not all(block is q[self.main] for block, _ in found):
            return None
        return reduce(LinearTerms.concatenated, (terms for _, terms in found))  # type: ignore[arg-type]
