"""Priors, with what streams left behind, and what q pays for its distance from them: no data needed."""

from __future__ import annotations

from sksvi.algorithms.rules import Rule
from sksvi.inference.problem import Problem
from sksvi.inference.state import State
from sksvi.models.base import Blocks


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
