"""The terms of the last evaluation of a portion, stored so that each row's site can be read where the portion ends."""

from __future__ import annotations

from functools import partial, reduce
from typing import Any

from sksvi.inference.problem import PlainGradients, Problem
from sksvi.inference.state import State
from sksvi.models.base import Blocks, LinearTerms


class RecordedTerms(PlainGradients):
    """Nothing between terms and pull-back; the terms of the last evaluation are stored with their q.

    Parameters
    ----------
    main : str
        The block that tells one q from another.
    lasting : bool, default=False
        Whether a sample stands for past rows: without one their sites stay wrong by more than a fit leaves undone.
    """

    def __init__(self, main: str, lasting: bool = False) -> None:
        self.main, self.lasting = main, lasting
        self._by_first_row: dict[int, tuple[Any, LinearTerms]] = {}

    def between(self, problem: Problem, state: State) -> Any:
        """A function that stores a chunk's terms by its first row, and returns them."""
        return partial(self._keep, state.q[self.main])

    def _keep(self, block: Any, terms: Any, rows: Any, sites: Any) -> Any:
        if isinstance(rows, slice):
            self._by_first_row[rows.start] = block, terms
        return terms

    def of(self, problem: Problem, q: Blocks) -> LinearTerms | None:
        """The terms of all rows at q, or None where some were last evaluated at another q."""
        chunks = problem.model.chunks(slice(0, len(problem.data)), problem.data)
        found = [self._by_first_row.get(rows.start, (None, None)) for rows in chunks]
        if not all(block is q[self.main] for block, _ in found):
            return None
        return reduce(LinearTerms.concatenated, (terms for _, terms in found))  # type: ignore[arg-type]
