"""What a stream remembers of the rows that are gone: their messages' sum, and a sample of rows to look at again.

A row's site belongs to the q that it was found at. Early rows were seen by a wide q, and the sum of their sites stays
wrong while q moves on. So a bounded sample of past rows is kept, each with the site that stands for it in the sum, and
the change of the sampled sites, blown up, corrects the sum (a control variate: only changes are sampled). The sample is
a priority sample (Duffield, Lund and Thorup 2007): row j of importance i_j draws u_j once, the R rows of largest i_j /
u_j stay, and row j stands for 1 / min(1, i_j / τ) rows, τ the largest priority that was ever dropped. Rows of large
leverage stand for themselves alone. While nothing was dropped the stream is the fit to all rows.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sksvi import _parallel
from sksvi.families.base import Message
from sksvi.inference.memory.of_rows import Direct
from sksvi.inference.memory.said import Said
from sksvi.models.base import Blocks, Linear, LinearTerms, Table

if TYPE_CHECKING:
    from sksvi.inference.problem import Problem
    from sksvi.inference.state import State

Array = np.ndarray


class Kept(Direct):
    """Nothing between terms and pull-back; the terms of the last look are kept, with the q that they belong to."""

    def __init__(self) -> None:
        self._seen: dict[int, tuple[Any, LinearTerms]] = {}

    def between(self, terms: Any, rows: Any, problem: Problem, state: State) -> Any:
        """The terms, kept by the first row of their chunk."""
        if isinstance(rows, slice):
            self._seen[rows.start] = state.q[problem.model.main], terms  # type: ignore[attr-defined]
        return terms

    def of(self, q: Any, chunks: list[Any]) -> LinearTerms | None:
        """The terms of all chunks at the main block `q`, or None where they were last seen elsewhere."""
        found = [self._seen.get(rows.start, (None, None)) for rows in chunks]
        if not all(block is q for block, _ in found):
            return None
        out = found[0][1]
        for _, more in found[1:]:
            out = out.joined(more)
        return out


def trailing(values: Array) -> Array:
    """Sum over all axes but the first."""
    return values.reshape(len(values), -1).sum(1)


def sites_of(terms: LinearTerms, q: Blocks, full: bool) -> LinearTerms:
    """What each row says of every block, as numbers that `pull_back` makes messages about zero of.

    ``value``: what the row's part of the bound has beyond the expected logarithm of its messages. Of a diagonal main
    block, on which no row's message lives, gradients are kept as they are.
    """
    value, alpha, gamma = terms.value, terms.alpha, terms.gamma
    points, scalars = {}, terms.scalars
    for name, (g, hessian) in terms.points.items():
        at = q[name].value
        linear = g - hessian @ at
        points[name] = linear, hessian
        value = value - linear @ at - 0.5 * (hessian @ at) @ at
    for name, slope in scalars.items():
        value = value - slope * q[name].moments[0]
    if full:
        alpha, gamma = terms.message()
        m, v = terms.linear, terms.variance
        squares = m[..., :, None] * m[..., None, :] if gamma.ndim == 3 else np.square(m)
        value = value - trailing(alpha * m) - trailing(gamma * (squares + v))
    return LinearTerms(value, alpha, gamma, alpha, points, scalars)


@dataclass
class Sample:
    """Rows of a stream, raw, with their sites and priorities.

    importance, priority (R,): both faded with the row. share (R,): what forgetting left of each row. dropped: largest
    priority that is not here. mean: of the main block where the sites were found (diagonal blocks).
    """

    data: Table
    sites: LinearTerms
    importance: Array
    priority: Array
    share: Array
    dropped: float = 0.0
    mean: Array | None = None

    def __len__(self) -> int:
        return len(self.priority)

    @property
    def factor(self) -> Array:
        """How many rows each stands for."""
        return self.share / np.minimum(1.0, self.importance / self.dropped) if self.dropped > 0 else self.share

    @property
    def blown_up(self) -> Table:
        """The rows with the weight that each stands for."""
        factor = self.factor
        return self.data if np.all(factor == 1.0) else self.data.times(factor)

    def faded(self, share: float) -> Sample:
        """Every row counts less."""
        if share == 1.0:
            return self
        return replace(
            self,
            importance=share * self.importance,
            priority=share * self.priority,
            share=share * self.share,
            dropped=share * self.dropped,
        )

    @property
    def none(self) -> Sample:
        """No row of it."""
        rows = slice(0, 0)
        parts = {name: getattr(self, name)[rows] for name in ROW_PARTS}
        return replace(self, data=self.data.take(rows), sites=self.sites.take(rows), **parts)

    def joined(self, other: Sample, size: int) -> Sample:
        """Of the rows of both those of largest priority."""
        n = len(self) + len(other)
        priority = np.concatenate([self.priority, other.priority])
        rows, dropped = np.arange(n), max(self.dropped, other.dropped)
        if n > size:
            order = np.argpartition(priority, n - size)
            rows, dropped = np.sort(order[n - size :]), max(dropped, float(priority[order[: n - size]].max()))
        # Each part is cut first: portions may be long.
        mine, its = rows[rows < len(self)], rows[rows >= len(self)] - len(self)
        parts = [(a, np.concatenate([getattr(self, a)[mine], getattr(other, a)[its]])) for a in ROW_PARTS]
        data, sites = self.data.take(mine), self.sites.take(mine)
        data, sites = data.joined(other.data.take(its)), sites.joined(other.sites.take(its))
        return Sample(data, sites, **dict(parts), dropped=dropped, mean=other.mean)

    def messages(self, model: Any, q: Blocks) -> tuple[dict[str, Message], float]:
        """What stands for the sampled rows, blown up: a message per block, and the constant."""
        weighted, main = self.sites.weighted(self.factor), model.main

        def one(rows: Any) -> Any:
            return model.pull_back(weighted.take(rows), model.batch(self.data, rows))

        chunks = model.chunks(slice(0, len(self)), self.data)
        sums = _parallel.tree_sum(map(one, chunks))
        found = {name: Message(q[name].natural_gradient(part)) for name, part in sums.items()}
        constant = float(weighted.value.sum())
        if self.mean is not None:
            at = type(q[main])(self.mean, q[main].precision, q[main].root)
            found[main] = at.heard(sums[main])
        return found, constant


#: Arrays of a sample that have one number per row.
ROW_PARTS = ("importance", "priority", "share")


@dataclass
class Past(Said):
    """Messages of all rows that came, about every block.

    constant: what their part of the bound has beyond the messages, nats. weight: of all rows. waiting: of those that
    came since the sample was looked at last. sample: rows to look at again, or None.
    """

    constant: float = 0.0
    weight: float = 0.0
    waiting: float = 0.0
    sample: Sample | None = field(default=None)

    def told(self, q: Blocks) -> tuple[dict[str, Any], float]:
        """Gradient and value of what was said, at q."""
        found = {name: q[name].told(message) for name, message in self.by_block.items()}
        value = self.constant + sum(value for _, value in found.values())
        return {name: gradient for name, (gradient, _) in found.items()}, value

    def faded(self, share: float) -> Past:
        """All rows count less: natural parameters decay towards the prior's."""
        if share == 1.0:
            return self
        by_block = {name: message.faded(share) for name, message in self.by_block.items()}
        sample = None if self.sample is None else self.sample.faded(share)
        rest = {name: share * getattr(self, name) for name in ("constant", "weight", "waiting")}
        return replace(self, by_block=by_block, sample=sample, **rest)

    def without_sample(self, model: Linear, q: Blocks) -> Past:
        """What the rows that are not in the sample said."""
        assert self.sample is not None
        messages, constant = self.sample.messages(model, q)
        by_block = {**self.by_block, **{k: self.by_block[k].plus(m, -1.0) for k, m in messages.items()}}
        return replace(self, by_block=by_block, constant=self.constant - constant)

    @property
    def complete(self) -> bool:
        """Whether nothing was dropped from the sample."""
        return self.sample is not None and self.sample.dropped == 0.0
