"""Records of a fit: how far a pass has come, by which it judges the next step or ends, and copies of records.

Each kind of pass has its own record. The bounds of single passes with noise are estimates, and near the end their noise
hides what is still to gain. So at passes that lie a factor apart the bound of the averaged q is evaluated exactly, and
two such checks are compared. If the error falls as C/t, the gain from t/FACTOR to t is (FACTOR - 1) C/t: as much as is
left, up to that factor.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from functools import cache, cached_property, lru_cache
from itertools import pairwise
from statistics import fmean, variance
from typing import Any, TypeVar

from sksvi.models.base import Blocks, Gradient

# ---- copies of dataclasses whose making runs no code of their own
Record = TypeVar("Record")


def replace(record: Record, **changes: Any) -> Record:
    """`dataclasses.replace` of a record, in half of the time: a pass over few rows makes a dozen.

    Parameters
    ----------
    record : dataclass
        Without ``__post_init__`` and slots.
    **changes
        Fields and their new values.

    Raises
    ------
    TypeError
        For a name that is no field.

    Examples
    --------
    >>> from sksvi.inference.records import replace
    >>> from sksvi.inference.state import State
    >>> replace(State({}, seed=3), passes=2).passes
    2
    """
    kind: Any = type(record)
    field_names, cached_names = _parts(kind)
    if not changes.keys() <= field_names:
        raise TypeError(f"{kind.__name__} has no fields {sorted(changes.keys() - field_names)}")
    values = {**record.__dict__, **changes}
    for name in cached_names:
        values.pop(name, None)
    new = object.__new__(kind)
    object.__setattr__(new, "__dict__", values)
    return new


@cache
def _parts(kind: Any) -> tuple[frozenset[str], tuple[str, ...]]:
    """Names of its fields, and of what is found from them once and lies beside them."""
    found = tuple(name for name in dir(kind) if isinstance(getattr(kind, name, None), cached_property))
    return frozenset(field.name for field in fields(kind)), found


# ---- how far a pass has come
@dataclass
class Evaluation:
    """Gradient and bound at one q: what a step needs, and what taking it back needs."""

    LAYOUT = "q dict; gradient dict"

    q: Blocks
    gradient: Gradient
    bound: float
    memory: dict[str, Any] = field(default_factory=dict)


class Progress:
    """Record of a pass that has nothing to remember yet.

    ``damping``: what taking steps back left of the rate. ``under_way``: what a search that has not ended has to
    remember; empty: no search goes on from a state.
    """

    LAYOUT = "damping number >=0"

    damping: float = 1.0
    under_way: dict[str, Any] = {}

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
    (`passes.mixed`). creeping: whether the last step gained little. under_way: as of `Progress`.
    """

    LAYOUT = """
        damping number >=0; small_changes number >=0; since number >=0; under_way? dict
        recent? tuple; recent[*]? Iterate
    """

    here: Evaluation | None = None
    damping: float = 1.0
    small_changes: int = 0
    since: int = 0
    searched: Blocks = field(default_factory=dict)
    recent: tuple[Any, ...] = ()
    creeping: bool = False
    under_way: dict[str, Any] = field(default_factory=dict)

    def elsewhere(self, n_bounds: int) -> LineSearchState:
        """The record with bounds that count from here."""
        return replace(self, since=n_bounds)


@dataclass
class BlockwiseState(LineSearchState):
    """Record of a pass whose segments are judged one by one: what is left of the rate of each, by its blocks."""

    dampings: dict[str, float] = field(default_factory=dict)


@dataclass
class AveragingState(Progress):
    """Record of a noisy pass: the weighted mean of q since the step `since`, and the exact bounds of earlier checks.

    before: passes before those that the checks are of. searched: hyperparameters where this fit's last search ended.
    """

    LAYOUT = "damping number >=0; checks list; checks[*] number; since number >=0; before number >=0"

    damping: float = 1.0
    average: Blocks = field(default_factory=dict)
    checks: list[float] = field(default_factory=list)
    since: int = 0
    before: int = 0
    searched: Blocks = field(default_factory=dict)

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


# ---- tests of whether a fit has converged
#: The first check, and the ratio of the passes of successive checks.
FIRST_CHECK, FACTOR = 4, 1.5
#: Most passes over one portion of a stream, and most closed-form steps of hyperparameters after it.
PORTION_PASSES = 50
#: Relative fall of a bound that rounding explains.
ROUNDING = 1e-10
#: Passes between two checks whose mean says something of a bound with noise.
LEAST_PASSES = 7
#: Gain between two checks, in units of tol, that is too little to go on.
GAIN = 10.0


def check_due(t: int) -> bool:
    """Whether the bound is evaluated exactly after pass t = 1, 2, ...

    Examples
    --------
    >>> from sksvi.inference.records import check_due
    >>> [t for t in range(1, 60) if check_due(t)]
    [4, 6, 9, 14, 21, 32, 48]
    """
    return t in checks_until(t)


@lru_cache(maxsize=4096)
def checks_until(t: int) -> tuple[int, ...]:
    """The passes up to t after which the bound is evaluated exactly."""
    found, check = [], FIRST_CHECK
    while check <= t:
        found.append(check)
        check = round(check * FACTOR + 1e-9)
    return tuple(found)


def has_settled(bounds: list[float], tol: float, size: Callable[[float], float]) -> bool:
    """Whether the exact bounds at the last three checks gained too little, twice, to go on.

    `size` says what `tol` is relative to at a bound.

    Examples
    --------
    >>> from sksvi.inference.records import has_settled
    >>> has_settled([-120.0, -110.0, -109.99], 1e-4, abs), has_settled([-110.0, -109.99, -109.98], 1e-4, abs)
    (False, True)
    """
    if len(bounds) < 3:
        return False
    small = GAIN * tol * size(bounds[-1])
    return abs(bounds[-1] - bounds[-2]) < small and abs(bounds[-2] - bounds[-3]) < small


def hidden(bounds: list[float], tol: float, size: Callable[[float], float]) -> bool:
    """Whether what the passes' own bounds gained is too little to go on, or less than their noise, twice.

    For models that draw local variables: there no bound is exact, and means over the passes between two checks have
    less noise than another look. `bounds` ends at a check.
    """
    ends = checks_until(len(bounds))[-4:]
    if len(ends) < 4 or ends[-1] != len(bounds) or ends[-1] - ends[-2] < LEAST_PASSES:
        return False
    parts = [bounds[low:high] for low, high in pairwise(ends)]
    small = GAIN * tol * size(fmean(parts[-1]))
    noise = [variance(part) / len(part) for part in parts]
    return all(
        fmean(after) - fmean(before) < small + 2.0 * (noise[i] + noise[i + 1]) ** 0.5
        for i, (before, after) in enumerate(pairwise(parts))
    )
