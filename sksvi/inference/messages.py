"""Messages of data about each block: of the earlier portions of a stream, and of single rows, the sites of CVI.

Messages of earlier portions are kept apart from the prior, which is still learned.

With a full covariance the site of a datum is its message about its latent f: natural parameters, two numbers. A step
moves the sites of its rows towards their targets, and the block is prior plus the sum of all sites, kept up to date by
the sites' change. With a diagonal covariance no message lives on the diagonal (pulled back it would multiply two
diagonal approximations of the Gram matrix), so the datum's last gradient is kept instead and the block steps along
their sum. Both sums are exact at the optimum, so mini-batch noise vanishes there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sksvi._runtime.memory import Weighed
from sksvi.algorithms.steps import natural_step, shortened, site_step
from sksvi.families.base import Message
from sksvi.inference.records import replace
from sksvi.models.base import Blocks, LinearTerms


class NoFactors:
    """Factors of no earlier data: the only data are those at hand."""

    LAYOUT = ""

    def times_prior(self, prior: Blocks) -> Blocks:
        """The prior itself, times nothing."""
        return prior

    def expected_log_message(self, q: Blocks) -> tuple[dict[str, Any], float]:
        """Gradient per block and value, nats, of the factors as a part of the data's sum: none."""
        return {}, 0.0

    def lengthened(self, name: str, n: int) -> NoFactors:
        """The factors with n more plates of the block `name`, whose messages are flat."""
        return self

    def of(self, name: str, plates: Any) -> NoFactors:
        """The factors with some `plates` of the block `name` alone."""
        return self

    @property
    def without_rows(self) -> NoFactors:
        """The factors without what belongs to single rows."""
        return self

    def of_fit(self, n: int) -> NoFactors:
        """What a fit to n rows starts from: nothing, since it has all its data at hand."""
        return NO_FACTORS


NO_FACTORS = NoFactors()


@dataclass
class BlockFactors(NoFactors):
    """A message per block: natural parameters to add to the prior's, for plates one per plate."""

    LAYOUT = "by_block dict; by_block[*] Message"

    by_block: dict[str, Any]

    def times_prior(self, prior: Blocks) -> Blocks:
        """The prior of every block times its message."""
        return {name: block.times(self.by_block[name]) for name, block in prior.items()}

    def lengthened(self, name: str, n: int) -> BlockFactors:
        """The factors with n more plates of the block `name`, whose messages are flat."""
        return BlockFactors({**self.by_block, name: self.by_block[name].lengthened(n)})

    def of(self, name: str, plates: Any) -> BlockFactors:
        """The factors with some `plates` of the block `name` alone."""
        return BlockFactors({**self.by_block, name: self.by_block[name].of(plates)})

    def faded(self, share: float) -> BlockFactors:
        """The factors with messages that count less, by `share`."""
        if share == 1.0:
            return self
        return BlockFactors({name: message.faded(share) for name, message in self.by_block.items()})

    @classmethod
    def between(cls, q: Blocks, prior: Blocks) -> BlockFactors:
        """The message of the data about every block that has a prior: q over prior."""
        return cls({name: q[name].over(block) for name, block in prior.items()})


# ---- sites, one per datum, and their sums over the data
Array = np.ndarray


@dataclass
class Sites(NoFactors, Weighed):
    """Messages or last gradients of the Gaussian block, one per datum, and their sums over the data.

    ``start`` (n,) is each datum's share of what q began with; it fades as the datum's own site arrives. ``first`` holds
    that beginning: natural parameters of the first q less the prior's, about zero.
    """

    LAYOUT = """
        start (n) f >=0; linear (n) f or (n,_) f
        quadratic (n,…) f where it.shape[1:] in (self.linear.shape[1:], 2 * self.linear.shape[1:])
        total items t; first items t
    """

    linear: Array
    quadratic: Array
    start: Array
    total: tuple[Any, ...] = ()
    first: tuple[Any, ...] = ()

    @property
    def without_rows(self) -> NoFactors:
        """No factors: what the sites say is in q, and a fit that goes on from there finds them anew."""
        return NO_FACTORS

    def of_fit(self, n: int) -> NoFactors:
        """The sites of an unfinished fit to as many rows."""
        return self if self.n == n else NO_FACTORS

    # ---- rows
    @property
    def rows(self) -> Any:
        """The object that holds the sites of the rows, beside the data."""
        return self

    @property
    def n(self) -> int:
        """Number of rows."""
        return len(self.start)

    @property
    def start_left(self) -> float:
        """Share of the first q that is still in the block, in [0, 1]: the sum of `start`."""
        return float(self.start.sum())

    def copy(self) -> Sites:
        """The rows' sites in arrays that may be written to, without the sums."""
        return Sites(self.linear.copy(), self.quadratic.copy(), self.start.copy())

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

    # ---- sums
    def summing(self, q: Any, prior: Any) -> Sites:
        """Sites of zero with their sums set to zero, and with `first` set to q over its prior."""
        self.first = q.over(prior).parts
        self.total = tuple(0.0 * part for part in self.first)
        return self

    def add(self, change: tuple[Any, ...]) -> None:
        """Add the change of some sites, pulled back, to the sums."""
        self.total = tuple(a + b for a, b in zip(self.total, change, strict=True))

    def block(self, q: Any, prior: Any, rate: float, change: Any) -> Any:
        """The main block after the sites have moved, which changed their sums by `change`."""
        start_left = self.start_left
        if q.full:
            linear = prior.dot(prior.mean) + self.total[0] + start_left * self.first[0]
            precision = prior.precision_like(q) - 2 * self.total[1] + start_left * self.first[1]
            new = type(q)(np.zeros_like(linear), precision)
            return type(q)(new.solve(linear), precision, new.root)
        blown = 1.0 / max(1.0 - start_left, 1.0 / self.n)
        gradient = tuple(blown * part for part in self.total)
        return shortened(lambda share: natural_step(q, prior, gradient, rate * share))


class LatentSites(Sites):
    """Sites of latents that are one for each datum: with the prior they are the block itself, and have no sums."""

    LAYOUT = "start (n) f >=0; linear (n) f; quadratic (n) f; total items 0; first items 0"

    @classmethod
    def from_message(cls, message: Message) -> LatentSites:
        """Sites that say what a block says of its latents: natural parameters about zero, λ1 and W."""
        linear, weights = message.added()
        return cls(np.array(linear), -0.5 * weights, np.zeros(len(linear)))

    def move(self, terms: Any, rows: Any, rate: float, full: bool) -> Any:
        """Move the rows' sites; where a likelihood bends upwards a site says nothing of the variance."""
        return super().move(replace(terms, gamma=np.minimum(terms.gamma, 0.0)), rows, rate, full)

    def add(self, change: tuple[Any, ...]) -> None:
        """Nothing: there are no sums to which the change would be added."""

    def block(self, q: Any, prior: Any, rate: float, change: Any) -> Any:
        """The block after the sites of some rows have moved, by an update of their rank."""
        rows = np.flatnonzero(np.logical_or(*change))
        return q.updated(rows, self.linear.copy(), -2.0 * self.quadratic, change[0][rows]) if len(rows) else q

    def factored(self, prior: Any) -> Any:
        """The block of these sites, found at once."""
        return prior.times(Message((self.linear.copy(), -2.0 * self.quadratic)))


class RemoteSites(Sites):
    """The sites of rows in partitions, kept beside these; here are their sums.

    Parameters
    ----------
    apart : object with ``change``
        The sites of each partition, where it lies, and by how much the sum of their starts has changed.
    n : int
        Rows.
    """

    def __init__(self, apart: Any, n: int) -> None:
        self.apart, self._n = apart, n

    @property
    def rows(self) -> Any:
        """The object that holds the sites of the rows, beside the data."""
        return self.apart

    @property
    def n(self) -> int:
        """Number of rows."""
        return self._n

    @property
    def start_left(self) -> float:
        """Share of the first q that is still in the block, in [0, 1], by the partitions' changes."""
        return 1.0 + float(self.apart.change)

    def of_fit(self, n: int) -> NoFactors:
        """No sites: those in partitions end with their fit."""
        return NO_FACTORS


def no_messages(shapes: Any, n: int, data: Any) -> Sites:
    """Sites of rows that are some of n: none has said anything, and all of the beginning is left."""
    linear, quadratic = shapes(len(data))
    return Sites(np.zeros(linear), np.zeros(quadratic), np.full(len(data), 1.0 / n))
