"""The state of a fit: saved, resumed, continued by ``partial_fit``. Plain arrays, numbers and blocks.

Beside the blocks it has the memory of rows, where each row's local variables ended, a start for the next look at it;
and the memory of plates: how often each has moved, the weight of its data so far, AdaGrad's sums.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, NamedTuple

import numpy as np

from sksvi.inference.messages import NO_FACTORS, BlockFactors, NoFactors, Sites
from sksvi.inference.records import START, Progress, replace
from sksvi.models.base import Blocks, Gradient

# ---- memory of rows
Array = np.ndarray


class NoLocals:
    """Local variables of models that have none.

    ``apart`` : what rows in partitions keep beside them, where they do.
    """

    LAYOUT = ""

    repairs = 0
    apart: Any = None

    def of(self, rows: Any) -> Any:
        """No start for any row."""
        return None

    def keep(self, rows: Any, terms: Any) -> None:
        """Write nothing: no row has local variables."""

    def count(self, repairs: int) -> None:
        """Count nothing: no covariance is projected."""

    def copy(self) -> NoLocals:
        """This object itself: there is nothing to copy."""
        return self

    @property
    def without_rows(self) -> NoLocals:
        """The local variables that stay with a fitted estimator: those of rows at hand."""
        return self


NO_LOCALS = NoLocals()


class RemoteLocals(NoLocals):
    """The local variables of rows in partitions, kept beside these.

    Parameters
    ----------
    apart : object with ``copy``
        Those of each partition, where it lies.
    """

    def __init__(self, apart: Any, repairs: int = 0) -> None:
        self.apart, self.repairs = apart, repairs

    def count(self, repairs: int) -> None:
        """Count `repairs` more covariances that had to be projected."""
        self.repairs += repairs

    def copy(self) -> RemoteLocals:
        """A copy with its own list of what lies where."""
        return RemoteLocals(self.apart.copy(), self.repairs)

    @property
    def without_rows(self) -> NoLocals:
        """No local variables: they go with the workers' memory, and a fit that goes on finds them anew."""
        return NO_LOCALS


class Locals(NoLocals):
    """One row of numbers per row of the data, (n, ...), of the local step `rule` (`Problem.local_rule`).

    `repairs` counts covariances that had to be projected.
    """

    LAYOUT = "values (…,_) f; repairs count"

    rule = ""  # of files that did not say

    def __init__(self, values: Array, repairs: int = 0, rule: str = "") -> None:
        self.values, self.repairs, self.rule = values, repairs, rule

    def __len__(self) -> int:
        return len(self.values)

    def of(self, rows: Any) -> Any:
        """Where the local variables of these rows start."""
        return self.values[rows]

    def keep(self, rows: Any, terms: Any) -> None:
        """Write where the local variables of these rows ended."""
        self.values[rows] = terms.local

    def count(self, repairs: int) -> None:
        """Count `repairs` more covariances that had to be projected."""
        self.repairs += repairs

    def copy(self) -> Locals:
        """A copy with arrays of its own."""
        return Locals(self.values.copy(), self.repairs, self.rule)


# ---- memory of plates
@dataclass
class PlateMemory:
    """Memory of the plates of one side.

    clock (P,): steps that each plate has taken. seen (P,): weight of its data so far. rule: what the
    side's rule remembers, arrays of P rows, or None.
    """

    LAYOUT = """
        clock (n) i >=0; seen (n) f >=0
        rule? where all(len(a) == n for a in getattr(it, '__dict__', {}).values() if isinstance(a, np.ndarray))
    """

    clock: Array
    seen: Array
    rule: Any = None

    @classmethod
    def empty(cls, n: int, rule: Any = None) -> PlateMemory:
        """Memory of n plates that no data have informed yet."""
        return cls(np.zeros(n, np.int64), np.zeros(n), rule)

    def copy(self) -> PlateMemory:
        """A copy with arrays of its own."""
        return PlateMemory(self.clock.copy(), self.seen.copy(), copy.deepcopy(self.rule))

    def of(self, plates: Any) -> PlateMemory:
        """Memory of some plates alone."""
        return PlateMemory(self.clock[plates], self.seen[plates], chosen(self.rule, plates))

    def faded(self, share: float) -> PlateMemory:
        """Memory with a share of the weight of earlier data, and of a rule's sums."""
        rule = self.rule.faded(share) if hasattr(self.rule, "faded") else self.rule
        return replace(self, seen=share * self.seen, rule=rule)

    def lengthened(self, new: Any) -> PlateMemory:
        """Memory with empty entries for the plates of the block `new` at its end."""
        n = new.n_plates
        clock = np.concatenate([self.clock, np.zeros(n, self.clock.dtype)])
        return PlateMemory(clock, np.concatenate([self.seen, np.zeros(n)]), lengthened(self.rule, new))


def _arrays(memory: Any) -> dict[str, Array]:
    """Arrays of a rule's memory by name."""
    if not is_dataclass(memory):
        return {}
    return {f.name: a for f in fields(memory) if isinstance(a := getattr(memory, f.name), np.ndarray)}


def chosen(memory: Any, plates: Any) -> Any:
    """A rule's memory of some plates."""
    arrays = _arrays(memory)
    return replace(memory, **{name: a[plates] for name, a in arrays.items()}) if arrays else memory


def put(memory: Any, plates: Any, rows: Any) -> None:
    """Write a rule's sums of some plates."""
    for name, a in _arrays(memory).items():
        a[plates] = getattr(rows, name)


def lengthened(memory: Any, new: Any) -> Any:
    """A rule's memory with empty entries for new plates at its end."""
    arrays, n = _arrays(memory), new.n_plates
    if not arrays:
        return memory
    own = {"unit": new.root} if "unit" in arrays else {}
    longer = {name: np.concatenate([a, own.get(name, np.zeros((n, *a.shape[1:])))]) for name, a in arrays.items()}
    return replace(memory, **longer)


# ---- the state
class NonFinite(ValueError):
    """A bound or gradient that is not a finite number."""


class StepInfo(NamedTuple):
    """What a pass reports: a row of ``history_``."""

    bound: float
    exact: bool
    rate: float
    repairs: int


@dataclass
class State:
    """All that a fit changes: its blocks, memories, messages, record and history.

    q: the blocks. memory: what each block's rule remembers. messages: of the data, by row or by block. locals:
    where each row's local variables ended. counted: weight of a stream, faded rows by what is left of them. population:
    weight that a stream's q stands for; 0: of a fit, or of nothing yet. progress: the pass's own (what it judges by,
    what it averages). moved_by: whom a fit's memories and messages belong to (`Problem.moves`).
    """

    LAYOUT = """
        q dict where len(it) > 0
        q[*] Family; passes count; steps count; repairs count; seed count; rows number >=0; counted number >=0
        converged flag; finished flag; bounds list; bounds[*] number; history items
        history[*] dict where 'seconds' in it
        memory dict
    """

    q: Blocks
    seed: int
    passes: int = 0
    steps: int = 0
    rows: float = 0.0
    counted: float = 0.0
    population: float = 0.0
    memory: dict[str, Any] = field(default_factory=dict)
    messages: NoFactors | BlockFactors | Sites = NO_FACTORS
    locals: NoLocals | Locals = NO_LOCALS
    progress: Progress = START
    bound: float = -np.inf
    bounds: list[float] = field(default_factory=list)
    history: list[dict[str, Any]] = field(default_factory=list)
    converged: bool = False
    finished: bool = False
    moved_by: str = ""
    repairs: int = 0

    @property
    def shown(self) -> Blocks:
        """The blocks as users see them: where noisy steps go on, their average."""
        return self.progress.shown(self.q)

    @property
    def without_rows(self) -> State:
        """The state of a fit at its end without local variables, messages, samples and draws of single rows."""
        messages = self.messages.without_rows
        return replace(self, locals=NO_LOCALS, messages=messages, progress=self.progress.without_rows)

    @property
    def without_history(self) -> State:
        """The blocks alone, without what is kept per row and without the way that led here."""
        return State(self.shown, self.seed)


#: Sees the state after a look of a search, and the one to go on from where the fit is cut off there; True ends the fit.
LookEnd = Callable[[State, State], bool]


def with_own_lists(state: State) -> State:
    """The state with lists of its own, which grow in place."""
    return replace(state, bounds=list(state.bounds), history=list(state.history))


#: Largest gradient: steps take multiples of it.
LARGEST = 1e-3 * np.finfo(float).max


def check_finite(value: float, gradient: Gradient, state: State) -> None:
    """A non-finite bound or gradient stops the fit, naming pass and block."""
    for name, parts in gradient.items():
        # Of arrays as large as the data no magnitudes are held; what is no number is not between.
        if not all(-LARGEST <= part.min() and part.max() <= LARGEST for part in parts if np.size(part)):
            raise NonFinite(f"the gradient of block {name!r} is not finite in pass {state.passes + 1}")
    if not np.isfinite(value):
        raise NonFinite(f"the bound is not finite in pass {state.passes + 1}")


#: Most rows of a history, and bounds beside them.
MOST_RECORDS = 10_000


def recorded(state: State, info: StepInfo, seconds: float) -> State:
    """The state with a row of the history and a bound more; lists grow in place."""
    if not np.isnan(info.bound):  # of a fit that has a bound
        state.bounds.append(float(info.bound))
    state.history.append(
        {
            "pass": int(state.passes),
            "step": int(state.steps),
            "rows": float(state.rows),
            "seconds": float(seconds),
            "bound": float(info.bound),
            "exact": bool(info.exact),
            "rate": float(info.rate),
            "repairs": int(info.repairs),
        }
    )
    return state


def thinned(state: State) -> State:
    """The state of a stream with at most `MOST_RECORDS`: where they are reached, every second of the older half goes.

    The newest stay as they are, older ones lie the farther apart the older they are. Both lists are the state's own.
    """
    for records in (state.bounds, state.history):
        if len(records) > MOST_RECORDS:
            del records[1 : MOST_RECORDS // 2 : 2]
    return state
