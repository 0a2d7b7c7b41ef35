"""What inference must know of a model besides its formulas: frozen records, one per question."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class BoundTraits:
    """What kind of number the bound is.

    Parameters
    ----------
    additive : bool, default=True
        Whether it is a sum over data; otherwise mini-batches are refused.
    batched : bool, default=True
        Whether steps on mini-batches find its optimum; otherwise they are refused.
    noisy : bool, default=False
        Whether terms are random although no expectation is, because local variables are drawn.
    seeded : bool, default=True
        Whether terms take random numbers, if only for a start, where the expectation takes none.
    at_expectations : bool, default=False
        Whether the bound of all data is taken at expectations of the globals, whatever steps see.
    exact_search : bool, default=False
        Whether hyperparameters are found by line searches on the bound, which noise would mislead.
    slack : float, default=0.0
        Relative fall of the bound that the error of the model's own rule explains.
    log_unit : float, default=0.0
        Log of a measured target's natural unit, nats per datum: tolerances are relative to the bound of a target in
        that unit, so that the user's unit does not matter.
    """

    additive: bool = True
    batched: bool = True
    noisy: bool = False
    seeded: bool = True
    at_expectations: bool = False
    exact_search: bool = False
    slack: float = 0.0
    log_unit: float = 0.0


@dataclass(frozen=True)
class Warmup:
    """First passes that look for a start and not for the largest bound: local steps see the globals at their mean.

    Parameters
    ----------
    passes : int, default=0
        Noisy passes; averages and checks begin after them.
    full_batch : int, default=0
        Passes on all rows, and portions of a stream.
    frozen : frozenset of str, default=frozenset()
        Hyperparameters that stay meanwhile.
    random_start : bool, default=True
        Whether the first q takes random numbers.
    """

    passes: int = 0
    full_batch: int = 0
    frozen: frozenset[str] = frozenset()
    random_start: bool = True


@dataclass(frozen=True)
class StepTraits:
    """How far the steps of a model's blocks go, and of what kind they must be.

    Parameters
    ----------
    schedule : schedule, default=None
        Rates of noisy steps, where the model knows better than the algorithm; None: the algorithm's.
    full_batch_schedule : schedule, default=None
        Rates of steps on all rows, whose noise is mostly that of drawn variables; None: `schedule`.
    full_batch_steps : int, default=1
        Most steps of a pass that count as steps on all rows.
    longest : float, default=1.0
        Longest rate of natural steps in a line search: above 1 they go on beyond the best value while the bound rises.
    averages : bool, default=True
        Whether the mean of q along a noisy path is a q; not where coordinates move with hyperparameters.
    natural_only : bool, default=False
        Whether blocks have no Cholesky factor to step on.
    blockwise : bool, default=False
        Whether every segment of a pass without noise has a line search of its own.
    own_messages : bool, default=False
        Whether the main block is its prior and a message per row and nothing else, so that batches update their own
        rows' messages alone: only algorithms that keep messages take batches then.
    conjugate : frozenset of str, default=frozenset()
        Blocks whose natural step of rate 1 is then their optimum given the others: no schedule shortens it.
    """

    schedule: Any = None
    full_batch_schedule: Any = None
    full_batch_steps: int = 1
    longest: float = 1.0
    averages: bool = True
    natural_only: bool = False
    blockwise: bool = False
    own_messages: bool = False
    conjugate: frozenset[str] = frozenset()


@dataclass(frozen=True)
class AlternatingTraits:
    """The two sides of a model whose plates step in turn, and when what they share begins to move.

    Parameters
    ----------
    sides : (str, str)
        The two blocks.
    before_priors : int, default=0
        Passes before the priors are learned.
    before_hyper : int, default=0
        Passes of a new fit before hyperparameters are learned.
    longest_hyper : float, default=inf
        Longest step of a hyperparameter, in unconstrained coordinates, that is taken before the bound after it is
        known.
    """

    sides: tuple[str, str]
    before_priors: int = 0
    before_hyper: int = 0
    longest_hyper: float = float("inf")


@dataclass(frozen=True)
class Traits:
    """All that inference must know of a model besides its formulas.

    Parameters
    ----------
    bound : BoundTraits
    warmup : Warmup
    steps : StepTraits
    searched : (str, str)
        What the searched hyperparameters are, and how a user fixes them, in words.
    remedy : str
        What a user can do about a numerically impossible step.
    local_rule : str
        What the numbers that a `Local` model has per row belong to: those of another rule have another width and
        meaning.
    path : object, default=None
        Fits at the mode under one precision of the prior after another, judged by leave-one-out
        (`models.linear.low_rank.ModePath`); None: the model is fitted by its bound.
    """

    bound: BoundTraits = field(default_factory=BoundTraits)
    warmup: Warmup = field(default_factory=Warmup)
    steps: StepTraits = field(default_factory=StepTraits)
    searched: tuple[str, str] = "the kernel's parameters", "optimize_hyperparameters=False"
    remedy: str = "Standardise the columns, or drop duplicated ones."
    local_rule: str = "local"
    path: Any = None
