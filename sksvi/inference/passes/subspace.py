"""Steps from the best of what the last few q span, where a learned prior and q creep along together.

A natural step of rate 1 leaves what the data say at q, a message, and the prior that is best for it. Along directions
of which little is known both move by a share of what is left, pass after pass; along others, where sites answer a step
by more than it was, they go back and forth. The last q span both. With θ the natural parameters of q, η its moments and
r(q) what the data say at q beyond what they said in it, r is the slope of the bound in η and nearly linear in θ. The
bound is largest in the span where its slope is orthogonal to all of it (Rayleigh and Ritz), and from there the step is

    θ = θ₀ + Σⱼ γⱼ (θⱼ - θ₀) + ρ (r₀ + Σⱼ γⱼ (rⱼ - r₀)),    ⟨ηᵢ - η₀, r₀ + Σⱼ γⱼ (rⱼ - r₀)⟩ = 0,

judged by the bound as every other. Of a linear slope these would be the steps of conjugate gradients.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from sksvi.algorithms.rules import ClosedForm, Newton
from sksvi.families.base import Message, NotPositiveDefinite
from sksvi.families.gaussian.dense import Gaussian
from sksvi.families.point import ascent
from sksvi.inference import engine
from sksvi.inference.problem import Problem, prior_of
from sksvi.inference.records import LineSearchState
from sksvi.inference.state import State
from sksvi.models.base import Blocks, Gradient, Linear

Array = np.ndarray

#: How many q beside the present one a step goes on from, and the most weights that so many are kept of.
DEPTH, MOST_WEIGHTS = 3, 1024
#: A step creeps that gained less, nats, but this share of the gain before, and these errors of the bound's rule.
CREEPING, SLOWLY, ERRORS = 3.0, 0.3, 1e3
#: Directions of the span in which the bound bends by a smaller share of the largest bend are rounding.
FLAT = 1e-8
#: Farthest that hyperparameters go with such a step, in their logarithms. Where rows of one label, or counts that are
#: all zero, speak for no effect at all, no precision is large enough, and a step may end where no row brings it back.
LONGEST = 0.5


@dataclass(eq=False)
class Iterate:
    """A q that was evaluated, with its message, slope and moments: the steps that follow span the last few.

    Parameters
    ----------
    block, prior : the main block and its prior
    gradient : tuple
        Of the main block, at q.
    point, point_slope : ndarray of shape (H,)
        Parameters of the likelihood that are learned, and the slope of the bound in them.
    point_bend : ndarray of shape (H, H)
        Its second derivative.
    """

    LAYOUT = """
        block Gaussian; block.mean (P) f; prior Gaussian/DiagonalGaussian; prior.mean (P) f
        gradient tuple where len(it) == 2; gradient[0] (P) f; gradient[1] (P,P) f
        point (H) f; point_slope (H) f; point_bend (H,H) f
    """

    block: Any
    prior: Any
    gradient: Any
    point: Array
    point_slope: Array
    point_bend: Array

    @property
    def message(self) -> Any:
        """Natural parameters of q less those of its prior."""
        return self.block.over(self.prior)

    @cached_property
    def slope(self) -> Message:
        """The data's message at q less the one that is in q: the slope of the bound in the moments."""
        data_message: Message = self.block.message_from_gradient(self.gradient)
        return data_message.plus(self.message, -1.0)

    @cached_property
    def moments(self) -> tuple[Array, Array]:
        """Moments of the block, E w and E wwᵀ."""
        m = self.block.mean
        return m, self.block.within + m[..., :, None] * m[..., None, :]


def mixes(problem: Problem, q: Blocks) -> bool:
    """Whether q, its prior and its likelihood alone are learned, and q is in arrays."""
    model = problem.model
    if not isinstance(model, Linear) or model.main in problem.frozen:
        return False
    if not problem.algorithm.spec.natural or problem.algorithm.schedule is not None:
        return False
    block, free = q[model.main], q.keys() - problem.frozen - {model.main}
    closed = all(isinstance(model.hyper.get(name), ClosedForm | Newton) for name in free)
    return closed and type(block) is Gaussian and block.mean.ndim == 1 and len(block.mean) <= MOST_WEIGHTS


def remembered(problem: Problem, state: State, gradient: Gradient) -> tuple[Iterate, ...]:
    """The last q that were evaluated, and that of the state, where the next step begins, at the end."""
    return (*_recent(state)[-DEPTH:], *_current_iterate(problem, state, gradient))


def taken_back(problem: Problem, state: State, gradient: Gradient) -> tuple[Iterate, ...]:
    """The last q that were evaluated, for a step that is taken back: where that step began comes at the end."""
    recent = _recent(state)
    return (*recent[:-1][1 - DEPTH :], *_current_iterate(problem, state, gradient), *recent[-1:])


def _recent(state: State) -> tuple[Iterate, ...]:
    assert isinstance(state.progress, LineSearchState)
    return state.progress.recent


def _current_iterate(problem: Problem, state: State, gradient: Gradient) -> tuple[Iterate, ...]:
    if not mixes(problem, state.q):
        return ()
    name: str = problem.model.main  # type: ignore[assignment]
    q, rule = state.q, problem.model.hyper.get("likelihood")
    point, slopes = np.empty(0), (np.empty(0), np.empty((0, 0)))
    if isinstance(rule, Newton) and "likelihood" in gradient and "likelihood" not in problem.frozen:
        point, slopes = q["likelihood"].value, q["likelihood"].slopes(rule.with_density(q, gradient["likelihood"]))
    return (Iterate(q[name], prior_of(problem, state, q)[name], gradient[name], point, *slopes),)


def mixed(problem: Problem, state: State, rate: float) -> Blocks | None:
    """q after a step of some rate from the best that the last q span; None: the last step did not creep, or none."""
    progress, model = state.progress, problem.model
    assert isinstance(progress, LineSearchState) and isinstance(model, Linear)
    if not progress.creeping or len(progress.recent) < 2:
        return None
    name = model.main
    *others, here = progress.recent
    away = [tuple(b - a for a, b in zip(here.moments, iterate.moments, strict=True)) for iterate in others]
    turned = [iterate.slope.plus(here.slope, -1.0) for iterate in others]
    moved = np.array([iterate.point - here.point for iterate in others])
    steeper = np.array([iterate.point_slope - here.point_slope for iterate in others])
    bend = -np.array([[paired(a, t) for t in turned] for a in away]) - moved @ steeper.T
    climb = np.array([paired(a, here.slope) for a in away]) + moved @ here.point_slope
    share = highest(0.5 * (bend + bend.T), climb)
    if share is None:
        return None
    message = here.message.plus(here.slope, rate)
    for part, iterate, turn in zip(share, others, turned, strict=True):
        message = message.plus(iterate.message.plus(here.message, -1.0), part).plus(turn, part * rate)
    q = dict(state.q)
    if len(here.point):
        step = ascent(here.point_slope + share @ steeper, here.point_bend)
        q["likelihood"] = q["likelihood"].at(here.point + share @ moved + rate * step)
    try:
        q[name] = prior_of(problem, state, q)[name].times(message)
    except NotPositiveDefinite:
        return None
    q = engine.optimized(problem, q, message)
    changes = [q[n].value - state.q[n].value for n in model.hyper if n in q]
    return q if all(np.max(np.abs(change)) < LONGEST for change in changes) else None


def paired(away: tuple[Array, ...], message: Message) -> float:
    """⟨η, θ⟩ of a difference of moments and one of natural parameters."""
    linear, precision = message.added()
    return float(np.sum(away[0] * linear) - 0.5 * np.sum(away[1] * precision))


def highest(bend: Array, climb: Array) -> Array | None:
    """Where climbᵀγ - ½ γᵀ bend γ is largest, in the directions in which it bends down; None: in none."""
    unit = np.sqrt(np.abs(np.diagonal(bend)))
    if not (np.all(np.isfinite(bend)) and np.all(np.isfinite(climb)) and np.all(unit > 0)):
        return None
    values, U = np.linalg.eigh(bend / np.outer(unit, unit))
    down = values > FLAT * values[-1]
    if not values[-1] > 0:
        return None
    found: Array = (U[:, down] @ ((U[:, down].T @ (climb / unit)) / values[down])) / unit
    return found
