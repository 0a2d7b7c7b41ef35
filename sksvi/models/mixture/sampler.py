"""Collapsed Gibbs sampling of a mixture's labels: the reference (equations.md 8)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import gammaln

from sksvi.models.base import Blocks, Table

if TYPE_CHECKING:
    from sksvi.models.mixture.model import MixtureModel

Array = np.ndarray


@dataclass(frozen=True)
class Draw:
    """Labels (n,) of the rows, and the counts that they make: rows of each component (K,), of its values (V, K)."""

    labels: Array
    rows: Array
    counts: Array

    @property
    def local(self) -> Array:
        """Where the rows are, (n, 1)."""
        return self.labels[:, None].astype(float)

    @property
    def globals(self) -> Draw:
        """The draw without what belongs to rows."""
        return replace(self, labels=np.empty(0, np.int64))


class Sampler:
    """Sweeps over rows that stay in memory.

    Parameters
    ----------
    model : MixtureModel
    data : Table
    """

    def __init__(self, model: MixtureModel, data: Table) -> None:
        self.model, self.data = model, data
        self.sizes = np.array([model.layout.sizes[d] for d in model.layout.columns], np.int64)
        self.cuts = np.concatenate([[0], np.cumsum(self.sizes)]).astype(np.int64)
        codes = model.layout.codes(data.X)
        self.values = np.where(codes < 0, -1, codes + self.cuts[:-1])

    def begin(self, q: Blocks, labels: Array | None = None) -> Draw:
        """Labels that go on, or the most probable ones under q."""
        if labels is None or len(labels) != len(self.data):
            view = self.model.seen({name: block.moments for name, block in q.items()})
            labels = view.logs(self.data.X).argmax(1)
        labels = np.array(labels, np.int64).reshape(-1)
        K, V = self.model.n_components, int(self.sizes.sum())
        counts = np.zeros((V, K))
        row, column = np.nonzero(self.values >= 0)
        np.add.at(counts, (self.values[row, column], labels[row]), 1.0)
        return Draw(labels, np.bincount(labels, minlength=K).astype(float), counts)

    def sweep(self, draw: Draw, rng: np.random.Generator) -> tuple[Draw, float]:
        """The next labels, and log p(X, labels), nats."""
        from sksvi.models.mixture.loops import sweep

        share, prior = self.model.share, self.model.value_prior
        labels, rows, counts = draw.labels.copy(), draw.rows.copy(), draw.counts.copy()
        seen = self.seen(counts)
        totals = np.log(self.sizes[:, None] * prior + seen)
        logs = np.log(prior + counts) - np.repeat(totals, self.sizes, axis=0)
        sweep(self.values, self.cuts, share, prior, rng.random(len(labels)), labels, rows, counts, seen, logs)
        return Draw(labels, rows, counts), self.log_joint(rows, counts)

    def seen(self, counts: Array) -> Array:
        """Cells (D, K) that each component has seen of each column."""
        return np.add.reduceat(counts, self.cuts[:-1], axis=0) if len(self.sizes) else np.zeros((0, counts.shape[1]))

    def log_joint(self, rows: Array, counts: Array) -> float:
        """log p(X, labels), weights and probabilities integrated out, nats."""
        K, share, prior = self.model.n_components, self.model.share, self.model.value_prior
        of_labels = (
            gammaln(K * share) - gammaln(K * share + rows.sum()) + np.sum(gammaln(share + rows) - gammaln(share))
        )
        totals = self.sizes[:, None] * prior
        of_cells = np.sum(gammaln(prior + counts) - gammaln(prior))
        return float(of_labels + of_cells + np.sum(gammaln(totals) - gammaln(totals + self.seen(counts))))


def matched(model: MixtureModel, draws: list[Draw]) -> Blocks:
    """Weights and probabilities given the mean counts of draws, whose labels mean the same along a chain."""
    rows, counts = (np.mean([getattr(draw, name) for draw in draws], axis=0) for name in ("rows", "counts"))
    said: dict[str, Any] = {"weights": (rows,)}
    at, K = 0, model.n_components
    for name, (m, columns) in model.names.items():
        width = m * len(columns)
        said[name] = (counts[at : at + width].T.reshape(K, len(columns), m),)
        at += width
    return model.updated(said)
