"""Where each row's local variables ended: a start for the next look at the row."""

from __future__ import annotations

from typing import Any

import numpy as np

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
