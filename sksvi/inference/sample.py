"""A priority sample of rows that are gone (Duffield, Lund and Thorup 2007), each with the site that stands for it.

Row j of importance i_j draws u_j once, the R rows of largest i_j / u_j stay, and row j stands for 1 / min(1, i_j / τ)
rows, τ the largest priority that was ever dropped. Rows of large importance stand for themselves alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sksvi._runtime import parallel
from sksvi.families.base import Message
from sksvi.inference.records import replace
from sksvi.models.base import Blocks, LinearTerms
from sksvi.models.data import Rows, Table

Array = np.ndarray

#: Arrays of a sample that have one number per row.
ROW_PARTS = ("importance", "priority", "share")


def trailing(values: Array) -> Array:
    """Sum over all axes but the first."""
    return values.reshape(len(values), -1).sum(1)


def sites_of(terms: LinearTerms, q: Blocks, full: bool) -> LinearTerms:
    """What each row says of every block, as numbers that `pull_back` makes messages about zero of.

    ``value``: what the row's part of the bound has beyond the expected logarithm of its messages. Of a diagonal main
    block, on which no row's message lives, gradients are kept as they are.
    """
    value, alpha, gamma = terms.value, terms.alpha, terms.gamma
    points = {}
    slopes = {name: (part[:, :1], part[:, 1:, None]) for name, part in terms.scalars.items()}
    for name, (g, hessian) in {**terms.points, **slopes}.items():
        at = q[name].moments
        linear = g - hessian @ at
        points[name] = linear, hessian
        value = value - linear @ at - 0.5 * (hessian @ at) @ at
    if full:
        alpha, gamma = terms.message()
        m, v = terms.linear, terms.variance
        squares = m[..., :, None] * m[..., None, :] if gamma.ndim == 3 else np.square(m)
        value = value - trailing(alpha * m) - trailing(gamma * (squares + v))
    return LinearTerms(value, alpha, gamma, alpha, points)


@dataclass
class Sample:
    """Rows of a stream, raw, with their sites and priorities.

    importance, priority (R,): both faded with the row. share (R,): what forgetting left of each row. dropped: largest
    priority that is not here. at: the main block where the sites were found, if it is diagonal.
    """

    LAYOUT = """
        priority (n) f >=0; importance (n) f >=0; share (n) f >=0; dropped number >=0
        data where len(it.y) == n
        sites where len(it.value) == n
    """

    data: Table
    sites: LinearTerms
    importance: Array
    priority: Array
    share: Array
    dropped: float = 0.0
    at: Any = None

    def __len__(self) -> int:
        return len(self.priority)

    @property
    def factor(self) -> Array:
        """How many rows of the stream each row stands for, (R,)."""
        return self.share / np.minimum(1.0, self.importance / self.dropped) if self.dropped > 0 else self.share

    @property
    def blown_up(self) -> Table:
        """The rows with the weight that each stands for."""
        factor = self.factor
        return self.data if np.all(factor == 1.0) else self.data.times(factor)

    def faded(self, share: float) -> Sample:
        """The sample in which every row counts less, by `share`."""
        if share == 1.0:
            return self
        return replace(
            self,
            importance=share * self.importance,
            priority=share * self.priority,
            share=share * self.share,
            dropped=share * self.dropped,
        )

    def take(self, rows: Rows) -> Sample:
        """The sample of some of its rows."""
        parts = {name: getattr(self, name)[rows] for name in ROW_PARTS}
        return replace(self, data=self.data.take(rows), sites=self.sites.take(rows), **parts)

    @property
    def none(self) -> Sample:
        """The sample with none of its rows."""
        return self.take(slice(0, 0))

    @property
    def certain(self) -> Array:
        """Mask of the rows that are certain to be sampled and stand for themselves alone, (R,)."""
        return self.importance >= self.dropped

    def merged(self, other: Sample, size: int) -> Sample:
        """One sample of the rows of both: the `size` rows of largest priority."""
        n = len(self) + len(other)
        if not len(self) and n <= size:
            return replace(other, dropped=max(self.dropped, other.dropped))
        priority = np.concatenate([self.priority, other.priority])
        mine: Rows = slice(None)
        its: Rows = slice(None)
        dropped = max(self.dropped, other.dropped)
        if n > size:  # each part is cut first: portions may be long
            order = np.argpartition(priority, n - size)
            rows, dropped = np.sort(order[n - size :]), max(dropped, float(priority[order[: n - size]].max()))
            mine, its = rows[rows < len(self)], rows[rows >= len(self)] - len(self)
        parts = [(a, np.concatenate([getattr(self, a)[mine], getattr(other, a)[its]])) for a in ROW_PARTS]
        data, sites = self.data.take(mine), self.sites.take(mine)
        data, sites = data.concatenated(other.data.take(its)), sites.concatenated(other.sites.take(its))
        return Sample(data, sites, **dict(parts), dropped=dropped, at=other.at)

    def messages(self, model: Any, q: Blocks) -> tuple[dict[str, Message], float]:
        """The sum of the sampled rows' sites, blown up: a message per block, and the constant."""
        weighted, main = self.sites.weighted(self.factor), model.main
        model.view(q, None)
        sums = self.summed(model, weighted)
        found = {name: q[name].summed(part) for name, part in sums.items()}
        constant = float(weighted.value.sum())
        if self.at is not None:
            found[main] = self.at.message_from_gradient(sums[main])
            constant -= self.at.expected_log_message(found[main])[1]
        return found, constant

    def changes(self, now: LinearTerms) -> tuple[Array, Array]:
        """Gradient of the stored sites at the q of `now`, and by how much that of `now` differs."""
        curved, f = self.sites.gamma, now.linear
        bent = np.einsum("nkl,nl->nk", curved, f) if curved.ndim == 3 else curved * f
        before = self.sites.alpha + 2.0 * bent
        return before, now.alpha - before

    def trusted(self, now: LinearTerms, moved: Array, block: Any) -> float:
        """Share of the sites' change that is more than its sampling error (James and Stein), in [0, 1].

        Errors are those of the main block's gradient, in units of posterior deviations. A change that one row makes
        alone is one of that row alone, however many it stands for.
        """
        _, change = self.changes(now)
        v = now.variance
        assert v is not None
        spread = np.einsum("nk,nkl,nl->n", change, v, change) if v.ndim == 3 else trailing(np.square(change) * v)
        error = float(np.sum(self.noise * spread))
        size = float(np.sum(moved * block.solve(moved)))
        return max(0.0, 1.0 - error / size) if size > 0 else 1.0

    @property
    def noise(self) -> Array:
        """Variance that each row's blowing up adds to a sum, in squares of what it adds itself."""
        return self.factor * np.maximum(self.factor - self.share, 0.0)

    def errors(self, model: Any, now: LinearTerms, share: float) -> tuple[Any, Any]:
        """Covariance of the sampling errors of the gradients before and after a share of the change, and before."""
        before, change = self.changes(now)
        noise = self.noise.reshape(-1, *[1] * (before.ndim - 1)) * before

        def gram(other: Array) -> Any:
            both = noise[:, :, None] * other[:, None, :] if self.sites.gamma.ndim == 3 else noise * other
            return self.summed(model, replace(self.sites, gamma=both, points={}))[model.main][1]

        return gram(before + share * change), gram(before)

    def summed(self, model: Any, terms: LinearTerms) -> Any:
        """Gradient per block: the rows' terms pulled back and summed."""

        def one(rows: Any) -> Any:
            return model.pull_back(terms.take(rows), model.batch(self.data, rows))

        return parallel.tree_sum(map(one, model.chunks(slice(0, len(self)), self.data)))
