"""The state of a fit: saved, resumed, continued by ``partial_fit``. Plain arrays, numbers and blocks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from sksvi.inference.memory.factors import NO_FACTORS, BlockFactors, NoFactors
from sksvi.inference.memory.locals import NO_LOCALS, Locals, NoLocals
from sksvi.inference.memory.sites import Sites
from sksvi.inference.progress import START, Progress
from sksvi.inference.records import replace
from sksvi.models.base import Blocks, Gradient


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
