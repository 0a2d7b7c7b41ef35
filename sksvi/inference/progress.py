"""How far a pass has come: what it judges the next step by, or averages. Each kind of pass has its own record."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from sksvi.inference.records import replace
from sksvi.models.base import Blocks, Gradient


@dataclass
class Evaluation:
    """Gradient and bound at one q: what a step needs, and what taking it back needs."""

    LAYOUT = "q dict; gradient dict"

    q: Blocks
    gradient: Gradient
    bound: float
    memory: dict[str, Any] = field(default_factory=dict)


class Progress:
    """Record of a pass that has nothing to remember yet. ``damping``: what taking steps back left of the rate."""

    LAYOUT = "damping number >=0"

    damping: float = 1.0

    def shown(self, q: Blocks) -> Blocks:
        """The blocks as users see them in the middle of a fit."""
        return q

    def emptied(self) -> Progress:
        """The record without what belongs to coordinates that q has left."""
        return START

    @property
    def without_rows(self) -> Progress:
        """The record without what belongs to single rows."""
        return self

    def elsewhere(self, n_bounds: int) -> Progress:
        """The record for other data, without earlier checks of convergence; `n_bounds` bounds are of earlier data."""
        return self

    def mapped(self, grow: Callable[[Blocks], Blocks]) -> Progress:
        """The record with its blocks of q grown as q itself was."""
        return self


START = Progress()


@dataclass
class LineSearchState(Progress):
    """Record of a pass whose steps are judged one by one.

    here: the last q whose bound is known. small_changes: passes in a row that
    changed the bound by less than `tol`. since: number of bounds that are of earlier data. searched: hyperparameters
    where this fit's last search ended. recent: the last q that were looked at, where steps go on from several
    (`passes.mixed`). creeping: whether the last step gained little.
    """

    LAYOUT = "damping number >=0; small_changes number >=0; since number >=0"

    here: Evaluation | None = None
    damping: float = 1.0
    small_changes: int = 0
    since: int = 0
    searched: Blocks = field(default_factory=dict)
    recent: tuple[Any, ...] = ()
    creeping: bool = False

    def elsewhere(self, n_bounds: int) -> LineSearchState:
        """The record with bounds that count from here."""
        return replace(self, since=n_bounds)


@dataclass
class BlockwiseState(LineSearchState):
    """Record of a pass whose segments are judged one by one: what is left of the rate of each, by its blocks."""

    dampings: dict[str, float] = field(default_factory=dict)


@dataclass
class AveragingState(Progress):
    """Record of a noisy pass: the weighted mean of q since the step `since`, and the exact bounds of earlier checks."""

    LAYOUT = "damping number >=0; checks list; checks[*] number; since number >=0"

    damping: float = 1.0
    average: Blocks = field(default_factory=dict)
    checks: list[float] = field(default_factory=list)
    since: int = 0

    def shown(self, q: Blocks) -> Blocks:
        """The average, once there is one."""
        return self.average or q

    def elsewhere(self, n_bounds: int) -> AveragingState:
        """The record without the bounds of earlier checks."""
        return replace(self, checks=[])

    def emptied(self) -> AveragingState:
        """The record without the average; the exact bounds stay."""
        return replace(self, average={})

    def mapped(self, grow: Callable[[Blocks], Blocks]) -> AveragingState:
        """The record with the average grown as q itself was."""
        return replace(self, average=grow(self.average) if self.average else {})


@dataclass
class AlternatingState(Progress):
    """Record of a pass over two sides, one after the other.

    gradient: what the last pass found for hyperparameters that columns inform, and `value`, the data's part of the
    bound there. bound: of the last pass, where passes are judged.
    """

    LAYOUT = "damping number >=0; small_changes number >=0; checks list; checks[*] number"

    gradient: Gradient = field(default_factory=dict)
    value: float = float("-inf")
    bound: float | None = None
    small_changes: int = 0
    checks: list[float] = field(default_factory=list)

    def elsewhere(self, n_bounds: int) -> AlternatingState:
        """The record without the bounds of earlier checks."""
        return replace(self, checks=[])


@dataclass
class SamplingState(Progress):
    """Record of a sampler: the pass at which its chain began, the last draw, and the stored draws."""

    first: int = 0
    draw: Any = None
    draws: list[Any] = field(default_factory=list)

    @property
    def without_rows(self) -> Progress:
        """An empty record: the last draw is one of each row, and a chain that goes on begins at q."""
        return START
