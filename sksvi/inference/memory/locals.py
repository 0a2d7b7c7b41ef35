"""Where each row's local variables ended: a start for the next look at the row."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray


class NoLocals:
    """For models that keep nothing per row.

    ``apart`` : what rows in partitions keep beside them, where they do.
    """

    repairs = 0
    apart: Any = None

    def of(self, rows: Any) -> Any:
        """No start."""
        return None

    def keep(self, rows: Any, terms: Any) -> None:
        """Nothing."""

    def count(self, repairs: int) -> None:
        """Nothing to repair."""

    def copy(self) -> NoLocals:
        """Itself."""
        return self

    @property
    def left(self) -> NoLocals:
        """What is left of them with a fitted estimator."""
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
        """So many more had to be projected."""
        self.repairs += repairs

    def copy(self) -> RemoteLocals:
        """Its own list of what lies where."""
        return RemoteLocals(self.apart.copy(), self.repairs)

    @property
    def left(self) -> NoLocals:
        """Nothing: they go with the workers' memory, and a fit that goes on finds them anew."""
        return NO_LOCALS


class Locals(NoLocals):
    """One row of numbers per row of the data, (n, ...), of the local step `rule` (`Problem.local_rule`).

    `repairs` counts covariances that had to be projected.
    """

    rule = ""  # of files that did not say

    def __init__(self, values: Array, repairs: int = 0, rule: str = "") -> None:
        self.values, self.repairs, self.rule = values, repairs, rule

    def __len__(self) -> int:
        return len(self.values)

    def of(self, rows: Any) -> Any:
        """Where the local variables of these rows start."""
        return self.values[rows]

    def keep(self, rows: Any, terms: Any) -> None:
        """Write where they ended."""
        self.values[rows] = terms.local

    def count(self, repairs: int) -> None:
        """So many more had to be projected."""
        self.repairs += repairs

    def copy(self) -> Locals:
        """Arrays of its own."""
        return Locals(self.values.copy(), self.repairs, self.rule)
