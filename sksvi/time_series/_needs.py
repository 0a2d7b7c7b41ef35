"""Most memory that a fit of a series takes, its search for hyperparameters included (`hostile.memory`)."""

from __future__ import annotations

#: Arrays of the length of the series, beside one for each state, of a fit that searches for nothing.
GIVEN = 12.0
#: Of one that searches: all in all, and for each number that it looks for; under messages that are closed, and others.
CLOSED, OTHERS = (12.0, 8.0), (30.0, 20.0)
#: What other levels leave where they are tried: for each state, and all in all; the same two.
TRIED_CLOSED, TRIED_OTHERS = (1.0, 0.0), (2.0, 15.0)


def arrays_held(states: int, searched: int, *, closed: bool, tries: bool) -> float:
    """Arrays of the length of a series that a fit of so many states and searched numbers holds at once."""
    if not searched:
        return states + GIVEN
    all_in_all, each = CLOSED if closed else OTHERS
    of_states, beside = (TRIED_CLOSED if closed else TRIED_OTHERS) if tries else (0.0, 0.0)
    return states * (1.0 + of_states) + all_in_all + beside + each * searched
