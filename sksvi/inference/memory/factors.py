"""What earlier portions of a stream said about each block, kept apart from the prior, which is learned on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sksvi.models.base import Blocks


class NoFactors:
    """No data but those at hand."""

    def joined(self, prior: Blocks) -> Blocks:
        """The prior itself."""
        return prior

    def expected_log_message(self, q: Blocks) -> tuple[dict[str, Any], float]:
        """Gradient per block and value, nats, of what was said as a part of the data's sum: none."""
        return {}, 0.0

    def lengthened(self, name: str, n: int) -> NoFactors:
        """Of a block with n more plates, of which nothing was said."""
        return self

    def of(self, name: str, plates: Any) -> NoFactors:
        """Of some plates of a block."""
        return self

    @property
    def without_rows(self) -> NoFactors:
        """Without what belongs to single rows."""
        return self

    def of_fit(self, n: int) -> NoFactors:
        """What a fit to n rows starts from: nothing, since it has all its data at hand."""
        return NO_FACTORS


NO_FACTORS = NoFactors()


@dataclass
class BlockFactors(NoFactors):
    """A message per block: natural parameters to add to the prior's, for plates one per plate."""

    by_block: dict[str, Any]

    def joined(self, prior: Blocks) -> Blocks:
        """Prior times message, block by block."""
        return {name: block.times(self.by_block[name]) for name, block in prior.items()}

    def lengthened(self, name: str, n: int) -> BlockFactors:
        """Of a block with n more plates, of which nothing was said."""
        return BlockFactors({**self.by_block, name: self.by_block[name].lengthened(n)})

    def of(self, name: str, plates: Any) -> BlockFactors:
        """Of some plates of a block."""
        return BlockFactors({**self.by_block, name: self.by_block[name].of(plates)})

    def faded(self, share: float) -> BlockFactors:
        """A share of what was said."""
        if share == 1.0:
            return self
        return BlockFactors({name: message.faded(share) for name, message in self.by_block.items()})

    @classmethod
    def between(cls, q: Blocks, prior: Blocks) -> BlockFactors:
        """What the data said about every block that has a prior: q over prior."""
        return cls({name: q[name].over(block) for name, block in prior.items()})
