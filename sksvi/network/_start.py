"""Where a fit of a network begins, and whether its end is one: first blocks, and priors that factors have undone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from sksvi import families
from sksvi.inference.engine import exact_bound
from sksvi.inference.passes.line_search import in_whole_nats
from sksvi.inference.problem import Problem
from sksvi.inference.state import NonFinite, State
from sksvi.models.base import Blocks
from sksvi.models.network.distributions import Distribution
from sksvi.models.network.integrated import IntegratedFactor
from sksvi.models.network.model import Factor

#: By how much Gaussian nodes are narrowed at a time until the first bound is a number, and how often at most.
NARROWING, NARROWINGS = 4.0, 20
#: Least precision that a Gaussian node begins with: exp(f) of a wide one is no number.
LEAST_PRECISION = 1.0
#: Least shape that the precision of an integrated node begins with.
LEAST_SHAPE = 4.0


class Decay(NamedTuple):
    """The parameter that makes the density of a node fall: its name, and its values in a family."""

    name: str
    of: Callable[[Any], Any]


#: By family of a node.
DECAY = {
    "gaussian": Decay("precision", lambda block: 1.0 / block.variance),
    "gamma": Decay("rate", lambda block: block.rate),
}
#: Share of its prior's below which factors have undone that.
UNDONE = 1e-6


def first_blocks(priors: Blocks, factors: Mapping[str, Factor]) -> Blocks:
    """First blocks: priors, of Gaussian nodes no wider than standard deviation one.

    Precisions of integrated nodes begin no wider than a shape of `LEAST_SHAPE`: their integrals take long where
    variances have no end.
    """
    starts: Blocks = {}
    for factor in factors.values():
        name = factor.spread.name if isinstance(factor, IntegratedFactor) else None
        if name is not None and isinstance(priors[name], families.Gamma):
            shape = np.maximum(priors[name].shape, LEAST_SHAPE)
            starts[name] = families.Gamma(shape, shape / priors[name].mean)
    for name, block in priors.items():
        if block.column == "gaussian":
            precision = np.maximum(1.0 / block.variance, LEAST_PRECISION)
            starts[name] = type(block)(block.mean, np.diag(precision) if block.full else precision)
    return starts


def checked_start(start: Mapping[str, Any], priors: Blocks) -> Blocks:
    """The user's first blocks, of the families and shapes that the nodes have."""
    for name, block in start.items():
        if name not in priors:
            raise ValueError(f"start names {name!r}, which is no latent node; those are {list(priors)}.")
        if type(block) is not type(priors[name]) or block.mean.shape != priors[name].mean.shape:
            raise ValueError(
                f"start[{name!r}] must be a {type(priors[name]).__name__} of shape {priors[name].mean.shape}."
            )
    return dict(start)


def _bound(problem: Problem, state: State) -> float:
    """The bound, nats; minus infinity where it is no number."""
    try:
        return exact_bound(problem, state)
    except NonFinite:
        return -np.inf


def initialized(problem: Problem, state: State, factors: Mapping[str, Factor]) -> State:
    """The first state, its Gaussian nodes narrowed until the bound is informative; else an error names the factor."""
    here = _bound(problem, state)
    for _ in range(NARROWINGS):
        if not in_whole_nats(here):
            return state
        blocks = {name: block.narrowed(NARROWING) or block for name, block in state.q.items()}
        narrower = replace(state, q=blocks)
        there = _bound(problem, narrower)
        if np.isfinite(here) and not there > here / 2:
            return state  # it is not that they are wide
        state, here = narrower, there
    if np.isfinite(here):
        return state
    with np.errstate(all="ignore"):
        worth = {name: np.sum(factor.terms(state.q, slice(None))[0]) for name, factor in factors.items()}
    bad = [name for name, value in worth.items() if not np.isfinite(value)]
    raise ValueError(f"{', '.join(map(repr, bad))} has no finite expectation at the first q: pass a start.")


def improper(
    factors: Mapping[str, Factor], nodes: Mapping[str, Distribution], priors: Blocks, q: Blocks
) -> Iterator[str]:
    """Warnings for nodes whose prior the user's factors have all but cancelled: that density has no finite integral."""
    affected = dict.fromkeys(node for factor in factors.values() for node in factor.nodes)
    for name in affected:
        decay = DECAY.get(str(nodes[name].latent))
        if decay is None or nodes[name].links:
            continue
        left = float(np.min(decay.of(q[name]) / decay.of(priors[name])))
        if left < UNDONE:
            named = ", ".join(repr(key) for key, factor in factors.items() if name in factor.nodes)
            yield (
                f"node {name!r} has {left:.1g} of its prior's {decay.name} left: the joint density may "
                f"be improper, without a finite integral, so that the bound has no top and the posterior no meaning. "
                f"Look whether {named} grows faster than the prior falls."
            )
