"""The terms of a portion's last look, kept for those who read what each row said where the portion ends."""

from __future__ import annotations

from functools import partial, reduce
from typing import TYPE_CHECKING, Any

from sksvi.inference.memory.sites import PlainGradients
from sksvi.models.base import Blocks, LinearTerms

if TYPE_CHECKING:
    from sksvi.inference.problem import Problem
    from sksvi.inference.state import State


class RecordedTerms(PlainGradients):
    """Nothing between terms and pull-back; the terms of the last look are kept, with the q that they belong to.

    Parameters
    ----------
    main : str
        The block that tells one q from another.
    lasting : bool, default=False
        Whether a sample stands for past rows: without one their sites stay wrong by more than a fit leaves undone.
    """

    def __init__(self, main: str, lasting: bool = False) -> None:
        self.main, self.lasting = main, lasting
        self._seen: dict[int, tuple[Any, LinearTerms]] = {}

    def between(self, problem: Problem, state: State) -> Any:
        """Keeps terms by the first row of their chunk."""
        return partial(self._keep, state.q[self.main])

    def _keep(self, block: Any, terms: Any, rows: Any, sites: Any) -> Any:
        if isinstance(rows, slice):
            self._seen[rows.start] = block, terms
        return terms

    def of(self, problem: Problem, q: Blocks) -> LinearTerms | None:
        """The terms of all rows at q, or None where some were last seen elsewhere."""
        chunks = problem.model.chunks(slice(0, len(problem.data)), problem.data)
        found = [self._seen.get(rows.start, (None, None)) for rows in chunks]
        if not all(block is q[self.main] for block, _ in found):
            return None
        return reduce(LinearTerms.joined, (terms for _, terms in found))  # type: ignore[arg-type]
