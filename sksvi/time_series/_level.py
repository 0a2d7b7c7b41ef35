"""Where the fit of a series begins: its kind of level by the log evidence, and what the first points of a long one say.

Of counts the evidence says too whether they vary more than a Poisson.
"""

from __future__ import annotations

from numbers import Real
from typing import Any, NamedTuple

import numpy as np

from sksvi import algorithms, likelihoods
from sksvi.families.gaussian.chain import ChainGaussian
from sksvi.inference import plan
from sksvi.inference.problem import Problem
from sksvi.inference.start import first_state
from sksvi.integrals.nodes import Nodes
from sksvi.likelihoods import Likelihood
from sksvi.models.data import Table
from sksvi.models.time_series.integrated import nodes_of
from sksvi.models.time_series.model import DynamicModel
from sksvi.models.time_series.weak_prior import WeakPrior
from sksvi.time_series._rows import values_of, worth_of_noise

Array = np.ndarray

#: A level that walks at random, one that returns to its mean, and one that stays.
KINDS = ("walk", "damped", "constant")
#: Nats by which another level, or a dispersion, must have more evidence than a walk: a walk may stand still, and loses
#: little where it does, while intervals of coefficients take what is chosen for certain.
MARGIN = 2.0
#: Counts above zero below which a series says little of how its level moves: forecasts of a walk would have any mean.
#: One that stays is taken there beside a dispersion, where it is within so many nats of the best.
FEW_EVENTS, STAYS = 20, 1.5
#: Tolerance of the fits that are compared: their evidence is an integral about where they end.
TOL = 1e-4
#: Nats by which the bound at the mode of another level may be below the walk's: its integral adds less.
BEHIND = 2.0
#: Dampings and stationary standard deviations, in units of f, that a search for those of a level may begin with.
DAMPINGS, DEVIATIONS = (0.4, 0.8, 0.95), (0.2, 0.6)
#: Slope of the evidence in independent noise, in standard errors, from which on a dispersion is tried.
NOISY = 1.0
#: Points of a long series, and one over the share of them that parameters are first learned from.
LONG, PARTS = 2**14, 8
#: The fewest seasons, and the least share of points observed, that say something.
SEASONS, OBSERVED = 20, 0.5


class LevelFit(NamedTuple):
    """A fit of one kind: its log evidence and its bound, nats, parameters by name, messages, and nodes."""

    kind: str
    likelihood: Likelihood
    evidence: float
    bound: float
    values: dict[str, float]
    block: ChainGaussian
    nodes: tuple[Nodes, Array | None] | None


def requested_kind(estimator: Any) -> str:
    """The kind of level that the parameters ask for: one of `KINDS`, "none" without a level, or "auto".

    Raises
    ------
    ValueError
        Where they contradict each other.
    """
    level, returns, variance = estimator.level, estimator.autoregressive, estimator.level_variance
    given = isinstance(variance, Real)
    if not isinstance(level, str):
        return ("damped" if returns else "walk") if level else "none"
    if level in ("walk", "constant") and returns:
        raise ValueError(f"autoregressive=True is a level that returns, and level={level!r}: leave one of them out.")
    if level == "constant" and given and variance > 0:
        raise ValueError(f"level='constant' does not move, and level_variance={variance!r}: leave one of them out.")
    if level != "auto":
        return level
    if returns:
        return "damped"
    shared = estimator.share_variances or bool(estimator._shared)
    return "walk" if given or shared else "auto"


def structure_of(kind: str, structure: dict[str, Any]) -> dict[str, Any]:
    """The parameters that say which states there are, with a level of this kind."""
    if kind == "none":
        return {**structure, "level": False}
    own = {"level": True, "autoregressive": kind == "damped"}
    return {**structure, **own, **({"level_variance": 0.0} if kind == "constant" else {})}


def choose(
    estimator: Any, data: Table, structure: dict[str, Any], turns: list[float]
) -> tuple[LevelFit, list[LevelFit]]:
    """The fit whose kind of level and likelihood have the most evidence, and all fits that were tried.

    turns: other periods that a learned cycle may have. Long series are judged by their first part.
    """
    part = data.take(slice(0, len(data) // PARTS)) if len(data) >= LONG else data
    found = _levels(estimator, estimator.likelihood_, part, structure, turns)
    if estimator.likelihood == "auto" and found and _takes_noise(found):
        wider = likelihoods.resolve("negative-binomial")
        wider = wider.start(*values_of(wider, data))
        found += _levels(estimator, wider, part, structure, turns)
    if not found:
        raise ValueError("no level has a fit to these data: lower initial_variance, or say level='constant'.")
    return _best(found, int(np.sum(part.y > 0))), found


def _takes_noise(found: list[LevelFit]) -> bool:
    """Whether a level may move because counts vary more than a Poisson lets them: noise has a worth, or it returns."""
    return max(found, key=lambda each: each.evidence).kind == "damped" or any(
        worth_of_noise(each.block) > NOISY for each in found
    )


def _levels(
    estimator: Any, likelihood: Likelihood, data: Table, structure: dict[str, Any], turns: list[float]
) -> list[LevelFit]:
    """A fit of each kind, the others from where the walk ended."""
    walk = _tried(estimator, KINDS[0], likelihood, data, structure, turns, None)
    others = [_tried(estimator, kind, likelihood, data, structure, turns, walk) for kind in KINDS[1:]]
    return [each for each in (walk, *others) if each is not None]


def _best(found: list[LevelFit], events: int) -> LevelFit:
    """The walk, unless another has clearly more evidence: first of a dispersion, then of another level beside it.

    A level that walked through noise need not walk once the noise has a name: of few events none does.
    """
    best = max(found, key=lambda each: each.evidence)
    if best.evidence <= found[0].evidence + MARGIN:
        return found[0]
    rivals = {each.kind: each for each in found if type(each.likelihood) is type(best.likelihood)}
    few = type(best.likelihood) is not type(found[0].likelihood) and events < FEW_EVENTS
    first, least = (rivals.get("constant"), STAYS) if few else (rivals.get("walk"), MARGIN)
    return first if first is not None and best.evidence <= first.evidence + least else best


def _tried(
    estimator: Any,
    kind: str,
    likelihood: Likelihood,
    data: Table,
    structure: dict[str, Any],
    turns: list[float],
    walk: LevelFit | None,
) -> LevelFit | None:
    """A fit with a level of this kind; None where there is none, or one far behind the walk's."""
    dynamics = estimator._encoding.dynamics(structure_of(kind, structure))
    dynamics.turns = turns
    likelihood = likelihood if walk is None else walk.likelihood
    prior = WeakPrior(dynamics, likelihood, estimator._encoding.spread, structure["length"])
    model = DynamicModel(likelihood, dynamics, data.X, data.weight, unit=estimator._encoding.unit, prior=prior)
    if walk is not None:
        model = model.replaced(theta=_starting_parameters(model, prior, walk), messages=walk.block)
    rule = estimator._rule()
    problem = plan.problem(model, data, algorithms.resolve("cvi"), rule, threads=1)
    if not likelihood.scales.informed(data.y):
        problem = plan.changed(problem, frozen=problem.frozen | {"likelihood"})
    try:
        state = plan.run(problem, first_state(problem, 0), estimator._most_passes(), max(TOL, estimator.tol))
        q = state.shown
        if walk is not None and state.bound < walk.bound - BEHIND:
            return None
        nodes = nodes_of(model, data, rule, q, "likelihood" in problem.frozen)
    except ValueError:  # no step from where it began, or no positive precision
        return None
    evidence = float(state.bound if nodes is None else nodes[0].log_integral)
    values = dict(zip([p.name for p in dynamics.parameters], q["dynamics"].value, strict=True))
    return LevelFit(kind, model.current_likelihood(q), evidence, state.bound, values, q["latents"], nodes)


def _starting_parameters(model: DynamicModel, prior: WeakPrior, walk: LevelFit) -> Array:
    """Parameters of another level to begin with: the walk's, with the damping and variance that its messages like."""
    dynamics = model.dynamics
    names = [p.name for p in dynamics.parameters]
    theta = np.array([walk.values.get(p.name, p.start) for p in dynamics.parameters])
    if "level_damping" not in names or "level_variance" not in names:
        return theta
    starts = []
    for damping in DAMPINGS:
        for deviation in DEVIATIONS:
            start = theta.copy()
            start[names.index("level_damping")] = np.log(damping / (1.0 - damping))
            variance = (deviation * prior.unit) ** 2 * (1.0 - damping**2)
            start[names.index("level_variance")] = np.log(variance)
            starts.append(start)
    return max(starts, key=lambda start: _worth(model, prior, start, walk.block))


def _worth(model: DynamicModel, prior: WeakPrior, theta: Array, block: ChainGaussian) -> float:
    """Log evidence of messages under these parameters, their prior included."""
    try:
        found = block.under(model.dynamics.chain(theta, model.X)).log_evidence()
    except ValueError:
        return -np.inf
    return found + float(prior.dynamic(theta)[0])


#: Arrays of the length of the series, beside one for each state, of a fit that searches for nothing.
GIVEN = 12.0
#: Of one that searches: all in all, and for each number that it looks for; under messages that are closed, and others.
CLOSED, OTHERS = (12.0, 8.0), (30.0, 20.0)
#: What other levels leave where they are tried: for each state, and all in all; the same two.
TRIED_CLOSED, TRIED_OTHERS = (1.0, 0.0), (2.0, 15.0)


def arrays_held(states: int, searched: int, *, closed: bool, tries: bool) -> float:
    """Arrays of the length of a series that a fit of so many states and searched numbers holds at once."""
    if not searched:
        return states + GIVEN
    all_in_all, each = CLOSED if closed else OTHERS
    of_states, beside = (TRIED_CLOSED if closed else TRIED_OTHERS) if tries else (0.0, 0.0)
    return states * (1.0 + of_states) + all_in_all + beside + each * searched


# ---- long series
def first_part(model: DynamicModel, data: Table, periods: list[float]) -> Table | None:
    """The first points of a long series, where they make one of their own and are to be searched over; else None."""
    n = len(data) // PARTS
    # The search of a closed posterior takes as long as what it saves.
    sweeps = model.traits.bound.exact_search and model.likelihood.noise_variance is None
    if not sweeps or len(data) < LONG or n < SEASONS * max(periods, default=0.0):
        return None
    part = data.take(slice(0, n))
    n_observed = n if part.weight is None else np.count_nonzero(part.weight)
    return part if n_observed >= OBSERVED * n else None


def started_at_part(part: Problem, model: DynamicModel, most_passes: int, tol: float) -> DynamicModel:
    """The model with parameters that begin where a fit to a part of the points ends: most of the way at an eighth."""
    try:
        q = plan.run(part, first_state(part, 0), most_passes, tol).q
    except ValueError:  # of a part that has no fit nothing is known
        return model
    theta = model.dynamics.moving(q["dynamics"].value)
    return model.replaced(theta=theta, likelihood=model.current_likelihood(q))
