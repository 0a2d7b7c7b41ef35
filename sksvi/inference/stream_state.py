"""What a stream remembers of the rows that are gone: their messages' sum, and a sample of rows to look at again.

A row's site belongs to the q that it was found at. Early rows were seen by a wide q, and the sum of their sites stays
wrong while q moves on. So a bounded sample of past rows is kept, each with the site that stands for it in the sum, and
the change of the sampled sites, blown up, corrects the sum (a control variate: only changes are sampled). While nothing
was dropped from the sample (`memory.sample`) the stream is the fit to all rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sksvi.families.base import Message, NotPositiveDefinite
from sksvi.inference.engine import evaluate, whole
from sksvi.inference.memory.factors import NO_FACTORS, BlockFactors
from sksvi.inference.memory.recorded_terms import RecordedTerms
from sksvi.inference.memory.sample import Sample, sites_of, trailing
from sksvi.inference.records import replace
from sksvi.models.base import Blocks, Gradient, Linear, LinearTerms, Table

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


def far(block: Any, before: Any, share: float = 1.0) -> bool:
    """Whether a block has moved by more than a share of what a look at the sample may move it."""
    return bool(block.kl(before) > share * REACH * block.mean.size)


def near(prior: Any, said: Message, before: Any) -> bool:
    """Whether the prior times a message is one that a step from `before` may reach."""
    try:
        return not far(prior.times(said), before)
    except NotPositiveDefinite:
        return False


@dataclass
class StreamState(BlockFactors):
    """Messages of all rows that came, about every block.

    constant: what their part of the bound has beyond the messages, nats. weight: of all rows. waiting: how many
    came since the sample was looked at last. sample: rows to look at again, or None.
    """

    constant: float = 0.0
    weight: float = 0.0
    waiting: float = 0.0
    sample: Sample | None = None

    @property
    def without_rows(self) -> StreamState:
        """What the rows said, without the sample of them."""
        return replace(self, sample=None)

    def expected_log_message(self, q: Blocks) -> tuple[dict[str, Any], float]:
        """Gradient and value of what was said, at q."""
        found = {name: q[name].expected_log_message(message) for name, message in self.by_block.items()}
        value = self.constant + sum(value for _, value in found.values())
        return {name: gradient for name, (gradient, _) in found.items()}, value

    def bounded(self, q: Blocks) -> StreamState:
        """The same near q, and nothing that grows without end away from there."""
        by_block = {name: q[name].bounded(message) for name, message in self.by_block.items()}
        found = replace(self, by_block=by_block)
        return replace(
            found, constant=self.constant + self.expected_log_message(q)[1] - found.expected_log_message(q)[1]
        )

    def faded(self, share: float) -> StreamState:
        """All rows count less: natural parameters decay towards the prior's."""
        if share == 1.0:
            return self
        by_block = {name: message.faded(share) for name, message in self.by_block.items()}
        sample = None if self.sample is None else self.sample.faded(share)
        rest = {name: share * getattr(self, name) for name in ("constant", "weight", "waiting")}
        return replace(self, by_block=by_block, sample=sample, **rest)

    def with_rows(self, data: Any, q: Blocks, gradient: Gradient, value: float) -> StreamState:
        """After the rows of `data`, where gradient and value of the sum of all rows are known at q."""
        by_block = {
            name: q[name].message_from_gradient(part) for name, part in gradient.items() if speaks(q[name], part)
        }
        came = data.total_weight
        now = StreamState(by_block, 0.0, self.weight + came, self.waiting + len(data))
        return replace(now, constant=value - now.expected_log_message(q)[1])

    @property
    def samples(self) -> bool:
        """Whether any row is here to be looked at."""
        return self.sample is not None and len(self.sample) > 0

    @property
    def samples_alone(self) -> bool:
        """Whether any sampled row stands for itself alone."""
        return self.sample is not None and bool(self.sample.alone.any())

    def parted(self, model: Any, q: Blocks) -> tuple[StreamState, Sample]:
        """What all but the sampled rows that stand for themselves alone said, and those rows."""
        assert self.sample is not None
        alone = self.sample.alone
        sure, rest = self.sample.take(alone), self.sample.take(~alone)
        messages, constant = sure.messages(model, q)
        by_block = {**self.by_block, **{k: self.by_block[k].plus(m, -1.0) for k, m in messages.items()}}
        return replace(self, by_block=by_block, constant=self.constant - constant, sample=rest), sure

    def looked(self, problem: Problem, state: State, wholly: str = "") -> StreamState:
        """The sample's sites at the state's q, and the sum of all sites after them.

        `wholly`: a block that was put elsewhere, of which sites found where it was say nothing.
        """
        if not self.samples:
            return replace(self, waiting=0.0)
        model, q, sample = problem.model, state.q, self.sample
        assert isinstance(model, Linear) and sample is not None
        main, block = model.main, q[model.main]
        kept = RecordedTerms(main)
        there = replace(problem, data=sample.blown_up, messages=kept, prior_factors=NO_FACTORS)
        gradient, _ = evaluate(there, state, whole(there))
        terms = kept.of(there, q)
        assert terms is not None
        terms = terms.weighted(1.0 / sample.factor)
        old, constant = sample.messages(model, q)
        moved = gradient[main][0] - block.expected_log_message(old[main])[0][0]
        sites, share = sites_of(terms, q, block.full), sample.trusted(terms, moved, block)
        prior = model.prior(q)[main]
        before = prior.times(self.by_block[main])
        for halvings in range(REACH_HALVINGS):
            blended = sample.sites.blended(sites, share)
            seen = replace(sample, sites=with_points_of(blended, sites, wholly, q) if wholly else blended)
            new, now = seen.messages(model, q)
            by_block = {
                k: q[k].exchanged(said, old[k], new[k]) if k in new else said for k, said in self.by_block.items()
            }
            errors = sample.errors(model, terms, share)
            by_block[main] = block.carried(self.by_block[main], old[main], new[main], prior, *errors)
            if share == 0.0 or near(prior, by_block[main], before):
                break
            share = share / 2.0 if halvings < REACH_HALVINGS - 2 else 0.0
        sample = seen
        found = replace(self, by_block=by_block, constant=0.0, waiting=0.0, sample=sample)
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

    def everything(self) -> Table | None:
        """All rows that came, with the weight that is left of each, or None where some are not in the sample."""
        if not self.complete:
            return None
        assert self.sample is not None
        rows = self.sample.blown_up
        # What a fit said before the stream is of rows that are not here.
        return rows if np.isclose(rows.total_weight, self.weight) else None


def with_points_of(sites: LinearTerms, others: LinearTerms, name: str, q: Blocks) -> LinearTerms:
    """Sites with what others say of one point, and their own value where that is."""
    at = q[name].moments
    (g, hessian), (linear, curvature) = sites.points[name], others.points[name]
    moved = (g - linear) @ at + 0.5 * ((hessian - curvature) @ at) @ at
    return replace(sites, value=sites.value + moved, points={**sites.points, name: (linear, curvature)})


def informing(terms: LinearTerms, now: StreamState, weight: Array | None) -> Array:
    """Each row's share of what all rows know of each scale or parameter beside the main block, summed, (n,).

    Its squared slope (the outer product is the information), over that of all rows, or of these where that is more. A
    row of weight k has k times its slope, and says k times its square.
    """
    slopes = {name: g for name, (g, _) in terms.points.items()} | {name: g[:, :1] for name, g in terms.scalars.items()}
    found = np.zeros(len(terms.value))
    for name, slope in slopes.items():
        known = np.diagonal(now.by_block[name].added()[1]) if name in now.by_block else np.zeros(1)
        # In a unit in which neither is beyond all floats: slopes have squares that are, or none beside what is known.
        unit = max(np.max(np.abs(slope), initial=np.finfo(float).tiny), np.sqrt(np.max(known, initial=0.0)))
        squares = np.square(slope / unit) / (1.0 if weight is None else weight[:, None])
        total = np.maximum(known / unit / unit, squares.sum(0))
        found += np.divide(squares, total, out=np.zeros_like(squares), where=total > 0).sum(1)
    return found


def wavering(problem: Problem, state: State, terms: LinearTerms) -> Array:
    """How far each row's slope moves where its latents go a deviation against what it says, in deviations, (n,).

    A row that is told apart already says little where q is now, and may say much where q will be.
    """
    assert isinstance(problem.model, Linear) and isinstance(problem.data, Table) and terms.variance is not None
    v = terms.variance if terms.variance.ndim < 3 else np.diagonal(terms.variance, axis1=1, axis2=2)
    deviation, kept = np.sqrt(np.abs(v)), RecordedTerms(problem.model.main)
    data = problem.data.moved(-np.copysign(deviation, terms.alpha))
    there = replace(problem, data=data, messages=kept, prior_factors=NO_FACTORS, expect=problem.exact)
    evaluate(there, state, whole(there))
    found = kept.of(there, state.q)
    assert found is not None
    return trailing(np.abs(found.alpha - terms.alpha) * deviation)


def sampled(
    problem: Problem,
    state: State,
    terms: LinearTerms,
    past: StreamState,
    now: StreamState,
    keep: int,
    sure: Sample | None,
) -> Sample | None:
    """The sample with this portion's rows in it, of which `terms` holds first theirs and then those of `sure`.

    A row's importance is its weight, its leverage in units of the mean leverage of all rows, and the same of what it
    says of scales: a row far out says much of the noise and may have no leverage. A diagonal block has sites at one
    mean only: its sample begins anew when it would have to drop a row.
    """
    model, data, q, n = problem.model, problem.data, state.q, len(problem.data)
    assert isinstance(model, Linear) and isinstance(data, Table)
    block, old, new = q[model.main], past.sample, terms.take(slice(0, n))
    assert new.variance is not None
    leverage = trailing(np.abs(2.0 * new.gamma * new.variance))
    precision = now.by_block[model.main].added()[1]
    total = max(block.structure.expected_quadratic(precision, np.zeros_like(block.mean), block), leverage.sum())
    importance = EVEN * (np.ones(n) if data.weight is None else data.weight)
    if total > 0:
        importance = importance + (leverage + wavering(problem, state, new)) * (now.weight / total)
    importance = importance + now.weight * informing(new, now, data.weight)
    draws = np.random.default_rng([state.seed, state.passes, 0, 4]).random(n)
    at = None if block.full else block
    fresh = Sample(data, sites_of(new, q, block.full), importance, importance / (1.0 - draws), np.ones(n), at=at)
    if old is not None and sure is not None:
        own = terms.take(slice(n, None)).weighted(1.0 / sure.factor)
        sure = replace(sure, sites=sites_of(own, q, block.full), at=at)
        old = old.joined(sure, len(old) + len(sure))
    if not block.full and n + (0 if old is None else len(old)) > keep:
        return None if n > keep else fresh.joined(fresh.none, keep)
    return fresh.joined(fresh.none, keep) if old is None else old.joined(fresh, keep)
