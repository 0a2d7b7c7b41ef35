"""What a stream remembers of the rows that are gone: their messages' sum, and a sample of rows to look at again.

A row's site belongs to the q that it was found at. Early rows were seen by a wide q, and the sum of their sites stays
wrong while q moves on. So a bounded sample of past rows is kept, each with the site that stands for it in the sum, and
the change of the sampled sites, blown up, corrects the sum (a control variate: only changes are sampled). While nothing
was dropped from the sample (`memory.sample`) the stream is the fit to all rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sksvi.algorithms.line_search import backtrack
from sksvi.families.base import Message, NotPositiveDefinite
from sksvi.inference.engine import evaluate, whole
from sksvi.inference.messages import NO_FACTORS, BlockFactors
from sksvi.inference.records import replace
from sksvi.inference.sample import Sample, sites_of, trailing
from sksvi.inference.site_updates import RecordedTerms
from sksvi.models.base import Blocks, Gradient, Linear, LinearTerms
from sksvi.models.data import Table

if TYPE_CHECKING:
    from sksvi.inference.problem import Problem
    from sksvi.inference.state import State

Array = np.ndarray

#: Farthest that a look at the sample takes q, in nats per weight, and how often its step is halved for that.
REACH, REACH_HALVINGS = 0.03, 10
#: Importance that a row of weight 1 has whatever it says; all rows share their number, or more, by what they say.
EVEN = 0.3


def speaks(block: Any, gradient: tuple[Any, ...]) -> bool:
    """Whether a block has messages: all but points that have no curvature."""
    return block.column != "hyper" or len(gradient) > 1


def beyond_reach(block: Any, before: Any, share: float = 1.0) -> bool:
    """Whether a block has moved by more than a share of what a look at the sample may move it."""
    return bool(block.kl(before) > share * REACH * block.mean.size)


def within_reach(prior: Any, message: Message, before: Any) -> bool:
    """Whether the prior times a message is one that a step from `before` may reach."""
    try:
        return not beyond_reach(prior.times(message), before)
    except NotPositiveDefinite:
        return False


@dataclass
class StreamState(BlockFactors):
    """Messages of all rows of a stream so far, about every block.

    constant: what their part of the bound has beyond the messages, nats. weight: of all rows. waiting: how many
    came since the sample was looked at last. sample: rows to look at again, or None.
    """

    LAYOUT = BlockFactors.LAYOUT + "; constant number; weight number >=0; waiting number >=0"

    constant: float = 0.0
    weight: float = 0.0
    waiting: float = 0.0
    sample: Sample | None = None

    @property
    def without_rows(self) -> StreamState:
        """The messages without the sample of rows."""
        return replace(self, sample=None)

    def expected_log_message(self, q: Blocks) -> tuple[dict[str, Any], float]:
        """Gradient per block and value, nats, of the messages' expected logarithm at q, with the constant."""
        found = {name: q[name].expected_log_message(message) for name, message in self.by_block.items()}
        value = self.constant + sum(value for _, value in found.values())
        return {name: gradient for name, (gradient, _) in found.items()}, value

    def bounded(self, q: Blocks) -> StreamState:
        """Messages that are the same near q, and that do not grow without end away from there."""
        by_block = {name: q[name].bounded(message) for name, message in self.by_block.items()}
        found = replace(self, by_block=by_block)
        return replace(
            found, constant=self.constant + self.expected_log_message(q)[1] - found.expected_log_message(q)[1]
        )

    def faded(self, share: float) -> StreamState:
        """The state in which all rows count less, by `share`: natural parameters decay towards the prior's."""
        if share == 1.0:
            return self
        by_block = {name: message.faded(share) for name, message in self.by_block.items()}
        sample = None if self.sample is None else self.sample.faded(share)
        rest = {name: share * getattr(self, name) for name in ("constant", "weight", "waiting")}
        return replace(self, by_block=by_block, sample=sample, **rest)

    def with_rows(self, data: Any, q: Blocks, gradient: Gradient, value: float) -> StreamState:
        """The state after the rows of `data`, from gradient and value of the sum of all rows at q."""
        by_block = {
            name: q[name].message_from_gradient(part) for name, part in gradient.items() if speaks(q[name], part)
        }
        new_weight = data.total_weight
        now = StreamState(by_block, 0.0, self.weight + new_weight, self.waiting + len(data))
        return replace(now, constant=value - now.expected_log_message(q)[1])

    @property
    def samples(self) -> bool:
        """Whether the sample has any row."""
        return self.sample is not None and len(self.sample) > 0

    @property
    def has_certain_rows(self) -> bool:
        """Whether any sampled row stands for itself alone."""
        return self.sample is not None and bool(self.sample.certain.any())

    def split_certain_rows(self, model: Any, q: Blocks) -> tuple[StreamState, Sample]:
        """Split off sampled rows that stand for themselves alone: the state without their messages, and the rows."""
        assert self.sample is not None
        if self.whole:  # nothing is left without them, which the sum of their sites tells up to rounding
            nothing = {k: self.by_block[k].faded(0.0) for k in (model.main, *self.sample.sites.points)}
            by_block = {**self.by_block, **nothing}
            return replace(self, by_block=by_block, constant=0.0, sample=self.sample.none), self.sample
        certain = self.sample.certain
        certain_rows, rest = self.sample.take(certain), self.sample.take(~certain)
        messages, constant = certain_rows.messages(model, q)
        by_block = {**self.by_block, **{k: self.by_block[k].plus(m, -1.0) for k, m in messages.items()}}
        return replace(self, by_block=by_block, constant=self.constant - constant, sample=rest), certain_rows

    def with_updated_sites(self, problem: Problem, state: State, moved_block: str = "") -> StreamState:
        """The stream state with the sample's sites found again at the state's q, and their sum changed accordingly.

        `moved_block`: a block that was put elsewhere, of which sites found where it was say nothing.
        """
        if not self.samples:
            return replace(self, waiting=0.0)
        model, q = problem.model, state.q
        assert isinstance(model, Linear) and self.sample is not None
        sample: Sample = self.sample
        main, block = model.main, q[model.main]
        gradient, terms = sampled_terms(problem, state, sample)
        old, constant = sample.messages(model, q)
        moved = gradient[main][0] - block.expected_log_message(old[main])[0][0]
        sites, share = sites_of(terms, q, block.full), sample.trusted(terms, moved, block)
        prior = model.prior(q)[main]
        before = prior.times(self.by_block[main])

        def exchanged(part: float) -> tuple[Sample, dict[str, Message], float, dict[str, Message]]:
            blended = sample.sites.blended(sites, part * share)
            trial = replace(sample, sites=with_points_of(blended, sites, moved_block, q) if moved_block else blended)
            new, now = trial.messages(model, q)
            by_block = {
                k: q[k].exchanged(message, old[k], new[k]) if k in new else message
                for k, message in self.by_block.items()
            }
            errors = sample.errors(model, terms, part * share)
            by_block[main] = block.carried(self.by_block[main], old[main], new[main], prior, *errors)
            return trial, new, now, by_block

        accepted = backtrack(exchanged, lambda trial: within_reach(prior, trial[3][main], before), REACH_HALVINGS - 1)
        updated, new, now, by_block = exchanged(0.0) if accepted is None else accepted.trial
        found = replace(self, by_block=by_block, constant=0.0, waiting=0.0, sample=updated)
        # Ratios move what the other rows said; what they said of the bound stays.
        value = (
            self.expected_log_message(q)[1]
            + now
            - constant
            + sum(q[k].expected_log_message(new[k])[1] - q[k].expected_log_message(old[k])[1] for k in new)
        )
        return replace(found, constant=value - found.expected_log_message(q)[1])

    @property
    def complete(self) -> bool:
        """Whether nothing was dropped from the sample."""
        return self.sample is not None and self.sample.dropped == 0.0

    @property
    def whole(self) -> bool:
        """Whether all rows that came are in the sample: what a fit said before the stream is of rows that are not."""
        found = self.sample if self.complete else None
        return found is not None and math.isclose(found.blown_up.total_weight, self.weight, rel_tol=1e-5)

    def everything(self) -> Table | None:
        """All rows that came, with the weight that is left of each, or None where some are not in the sample."""
        return self.sample.blown_up if self.sample is not None and self.whole else None


def sampled_terms(problem: Problem, state: State, sample: Sample) -> tuple[Gradient, LinearTerms]:
    """Gradient of the sampled rows as they stand for all, and each row's terms with its own weight."""
    model = problem.model
    assert isinstance(model, Linear)
    recorded_terms = RecordedTerms(model.main)
    there = replace(problem, data=sample.blown_up, messages=recorded_terms, prior_factors=NO_FACTORS)
    gradient, _ = evaluate(there, state, whole(there))
    terms = recorded_terms.of(there, state.q)
    assert terms is not None
    return gradient, terms.weighted(1.0 / sample.factor)


def with_points_of(sites: LinearTerms, others: LinearTerms, name: str, q: Blocks) -> LinearTerms:
    """Sites with what others say of one point, and their own value where that is."""
    at = q[name].moments
    (g, hessian), (linear, curvature) = sites.points[name], others.points[name]
    moved = (g - linear) @ at + 0.5 * ((hessian - curvature) @ at) @ at
    return replace(sites, value=sites.value + moved, points={**sites.points, name: (linear, curvature)})


def information_share(terms: LinearTerms, now: StreamState, weight: Array | None) -> Array:
    """Each row's share of what all rows know of each scale or parameter beside the main block, summed, (n,).

    Its squared slope (the outer product is the information), over that of all rows, or of these where that is more. A
    row of weight k has k times its slope, and says k times its square.
    """
    slopes = {name: g for name, (g, _) in terms.points.items()} | {name: g[:, :1] for name, g in terms.scalars.items()}
    found = np.zeros(len(terms.value))
    for name, slope in slopes.items():
        information = np.diagonal(now.by_block[name].added()[1]) if name in now.by_block else np.zeros(1)
        # In a unit in which neither is beyond all floats: slopes have squares that are, or none beside what is known.
        unit = max(np.max(np.abs(slope), initial=np.finfo(float).tiny), np.sqrt(np.max(information, initial=0.0)))
        squares = np.square(slope / unit) / (1.0 if weight is None else weight[:, None])
        total = np.maximum(information / unit / unit, squares.sum(0))
        found += np.divide(squares, total, out=np.zeros_like(squares), where=total > 0).sum(1)
    return found


def slope_change(problem: Problem, state: State, terms: LinearTerms) -> Array:
    """How far each row's slope moves where its latents go a deviation against what it says, in deviations, (n,).

    A row that is told apart already says little where q is now, and may say much where q will be.
    """
    assert isinstance(problem.model, Linear) and isinstance(problem.data, Table) and terms.variance is not None
    v = terms.variance if terms.variance.ndim < 3 else np.diagonal(terms.variance, axis1=1, axis2=2)
    deviation, recorded_terms = np.sqrt(np.abs(v)), RecordedTerms(problem.model.main)
    data = problem.data.moved(-np.copysign(deviation, terms.alpha))
    there = replace(problem, data=data, messages=recorded_terms, prior_factors=NO_FACTORS, expect=problem.exact)
    evaluate(there, state, whole(there))
    found = recorded_terms.of(there, state.q)
    assert found is not None
    return trailing(np.abs(found.alpha - terms.alpha) * deviation)


def sampled(
    problem: Problem,
    state: State,
    terms: LinearTerms,
    before: StreamState,
    now: StreamState,
    keep: int,
    certain_rows: Sample | None,
) -> Sample | None:
    """The sample with this portion's rows in it, of which `terms` holds first theirs and then those of
    `certain_rows`.

    A row's importance is its weight, its leverage in units of the mean leverage of all rows, and the same of what it
    says of scales: a row far out says much of the noise and may have no leverage. A diagonal block has sites at one
    mean only: its sample begins anew when it would have to drop a row.
    """
    model, data, q, n = problem.model, problem.data, state.q, len(problem.data)
    assert isinstance(model, Linear) and isinstance(data, Table)
    block, old, new = q[model.main], before.sample, terms.take(slice(0, n))
    assert new.variance is not None
    leverage = trailing(np.abs(2.0 * new.gamma * new.variance))
    precision = now.by_block[model.main].added()[1]
    total = max(block.structure.expected_quadratic(precision, np.zeros_like(block.mean), block), leverage.sum())
    importance = EVEN * (np.ones(n) if data.weight is None else data.weight)
    if total > 0:
        importance = importance + (leverage + slope_change(problem, state, new)) * (now.weight / total)
    importance = importance + now.weight * information_share(new, now, data.weight)
    draws = np.random.default_rng([state.seed, state.passes, 0, 4]).random(n)
    at = None if block.full else block
    fresh = Sample(data, sites_of(new, q, block.full), importance, importance / (1.0 - draws), np.ones(n), at=at)
    if old is not None and certain_rows is not None:
        own = terms.take(slice(n, None)).weighted(1.0 / certain_rows.factor)
        certain_rows = replace(certain_rows, sites=sites_of(own, q, block.full), at=at)
        old = old.merged(certain_rows, len(old) + len(certain_rows))
    if not block.full and n + (0 if old is None else len(old)) > keep:
        return None if n > keep else fresh.merged(fresh.none, keep)
    return fresh.merged(fresh.none, keep) if old is None else old.merged(fresh, keep)
