"""What models of documents share: the words that documents have, and the covariates that proportions depend on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp

from sksvi.models.base import Gradient
from sksvi.models.data import Rows, take_rows

Array = np.ndarray
#: Words of documents for each of the vocabulary from which on they have nearly all of it: to look takes longer.
ALL_WORDS = 64


class DocumentCounts(sp.csr_matrix):
    """Counts (n, V) whose rows have covariates.

    ``design`` (n, D): standardised columns.
    """

    design: Array

    @classmethod
    def of(cls, counts: Any, design: Array) -> DocumentCounts:
        """Counts beside a design."""
        new = cls(counts)
        new.design = design
        return new

    def __getitem__(self, key: Any) -> Any:
        """Rows, with their covariates, or words."""
        rows = key[0] if isinstance(key, tuple) else key
        return type(self).of(super().__getitem__(key), self.design[rows])


def design_of(X: Any) -> Array:
    """Covariates (n, D) of documents; D = 0 of those that have none."""
    return X.design if isinstance(X, DocumentCounts) else np.empty((X.shape[0], 0))


@dataclass
class TopicLogs:
    """Logarithms of the topics, made for the words that documents have: of columns (W,) to (K, W).

    ``rest`` : what documents see of other blocks. ``bounded`` : what their terms of the bound are taken at where that
    is not what they are fitted to.
    """

    of: Callable[[Array], Array]
    rest: Any
    draws: dict[str, Any] = field(default_factory=dict)
    bounded: TopicLogs | None = None

    @classmethod
    def drawn(cls, block: Any, rest: Any, rng: Any) -> TopicLogs:
        """Logarithms of a draw of q, or with rng=None their expectations."""
        if rng is None:
            return cls(block.moments_of, rest)
        draw = block.drawn(rng)
        return cls(partial(np.take, block.log_values(draw), axis=1), rest, {"topics": draw})

    def narrowed(self, model: Any, X: Any, rows: Rows | None = None) -> tuple[Any, Callable[[Gradient], Gradient]]:
        """A model's view of the words of documents (CSR), and what makes a gradient in all words of one in these.

        ``rows`` : of X; None: all.
        """
        rows, (documents, n_words) = slice(0, X.shape[0]) if rows is None else rows, X.shape
        n = rows.stop - rows.start if isinstance(rows, slice) else len(rows)
        present = np.ones(n_words, bool)
        if n * X.nnz < ALL_WORDS * n_words * documents:
            present[:] = False
            present[take_rows(X, rows).indices] = True
        words, place = np.flatnonzero(present), np.cumsum(present, dtype=X.indices.dtype)
        place -= 1
        return self._shown(model, words, place), partial(widened, words, len(present))

    def _shown(self, model: Any, words: Array, place: Array) -> Any:
        bounded = None if self.bounded is None else self.bounded._shown(model, words, place)
        return replace(model.view_of(self.of(words), self.rest), bounded=bounded, place=place)


def widened(words: Array, n_words: int, gradient: Gradient) -> Gradient:
    """A gradient with sums (K, V) of all words from one with those (K, W) of some."""
    if "topics" not in gradient:
        return gradient
    (counts,) = gradient["topics"]
    wide = np.zeros((len(counts), n_words))
    wide[:, words] = counts
    return {**gradient, "topics": (wide,)}
