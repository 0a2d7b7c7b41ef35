"""Messages of earlier portions of a stream about each block, kept apart from the prior, which is still learned."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sksvi.models.base import Blocks


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
