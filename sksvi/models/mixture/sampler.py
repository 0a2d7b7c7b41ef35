"""Gibbs sampling of a mixture's labels (doc/mixtures.md): collapsed, the reference; and of many rows side by side.

Collapsed, weights and probabilities are integrated out, so that a row's label waits for the one before. Given a draw of
them rows are independent, and threads share them; a sweep then forgets less of where it began.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Protocol

import numpy as np
from scipy.special import gammaln

from sksvi._runtime import parallel
from sksvi.families import Point
from sksvi.models.base import Blocks, Gradient
from sksvi.models.chains import sliced
from sksvi.models.data import Table
from sksvi.models.mixture.cells import ColumnGroups, MixtureRows

Array = np.ndarray

#: First bracket of the slices of log c, which some tables leave as wide as its prior has it.
SLICE = 1.0


class CountedMixture(Protocol):
    """A mixture whose weights and probabilities can be integrated out, given counts of its values."""

    n_components: int
    layout: ColumnGroups
    share: float
    learns_prior: bool

    @property
    def names(self) -> dict[str, tuple[int, Array]]: ...

    def value_prior_of(self, q: Blocks) -> float: ...

    def log_density_at(self, x: float) -> float: ...

    def view(self, q: Blocks, rng: np.random.Generator | None) -> Any: ...

    def prior(self, q: Blocks) -> Blocks: ...

    def chunks(self, rows: Any, data: Table) -> list[Any]: ...

    def counted(self, shares: Array, cells: MixtureRows) -> Gradient: ...


@dataclass(frozen=True)
class MixtureDraw:
    """Labels (n,) of the rows, counts that they make: rows of each component (K,), of its values (V, K); and log c."""

    LAYOUT = "rows (k) f >=0; counts (_,k) f >=0; labels (_) i <k"

    labels: Array
    rows: Array
    counts: Array
    log_prior: float

    @property
    def local(self) -> Array:
        """Labels of the rows as local variables, (n, 1)."""
        return self.labels[:, None].astype(float)

    @property
    def globals(self) -> MixtureDraw:
        """The draw without its labels, which belong to rows."""
        return replace(self, labels=np.empty(0, np.int64))


class MixtureSampler:
    """Sweeps over rows that stay in memory.

    Parameters
    ----------
    model : MixtureModel
    data : Table
    """

    def __init__(self, model: CountedMixture, data: Table) -> None:
        self.model, self.data = model, data
        self.sizes = np.array([model.layout.sizes[d] for d in model.layout.columns], np.int64)
        self.cuts = np.concatenate([[0], np.cumsum(self.sizes)]).astype(np.int64)

    @cached_property
    def values(self) -> Array:
        """Which of all columns' values each cell (n, D) has, -1 where it is missing."""
        codes = self.model.layout.codes(self.data.X)
        return np.where(codes < 0, -1, codes + self.cuts[:-1])

    def begin(self, q: Blocks, labels: Array | None = None) -> MixtureDraw:
        """The first draw of a chain: from `labels` where these are given, else from the most probable ones under q."""
        if labels is None or len(labels) != len(self.data):
            labels = self.model.view(q, None).logs(self.data.X).argmax(1)
        labels = np.array(labels, np.int64).reshape(-1)
        rows, counts = self._counts_of(labels, self.data.X)
        return MixtureDraw(labels, rows, counts, math.log(self.model.value_prior_of(q)))

    def sweep(self, draw: MixtureDraw, rng: np.random.Generator) -> tuple[MixtureDraw, float]:
        """The next labels, and log p(X, labels), nats."""
        from sksvi.models.mixture.loops import sweep

        share, prior = self.model.share, math.exp(draw.log_prior)
        labels, rows, counts = draw.labels.copy(), draw.rows.copy(), draw.counts.copy()
        observed = self.observed_cells(counts)
        totals = np.log(self.sizes[:, None] * prior + observed)
        logs = np.log(prior + counts) - np.repeat(totals, self.sizes, axis=0)
        sweep(self.values, self.cuts, share, prior, rng.random(len(labels)), labels, rows, counts, observed, logs)
        log_prior = self.next_prior(counts, draw.log_prior, rng)
        return MixtureDraw(labels, rows, counts, log_prior), self.of_labels(rows) + self.of_cells(counts, log_prior)

    def side_by_side(self, draw: MixtureDraw, rng: np.random.Generator, threads: int) -> MixtureDraw:
        """The next labels given a draw of weights and probabilities, which is given the last ones."""
        view = self.model.view(given_counts(self.model, draw.rows, draw.counts, draw.log_prior), rng)
        # To seed random numbers for each chunk takes longer than to draw those of all rows.
        uniform, labels = rng.random(len(self.data)), np.empty(len(self.data), np.int64)
        with parallel.working():
            chunks = self.model.chunks(slice(0, len(self.data)), self.data)
            rows, counts = parallel.summed(partial(self._labelled, view, uniform, labels), chunks, threads)
        return MixtureDraw(labels, rows, counts, self.next_prior(counts, draw.log_prior, rng))

    def _labelled(self, view: Any, uniform: Array, labels: Array, rows: slice) -> tuple[Array, Array]:
        """Label a chunk of rows under a view; the counts that the labels make."""
        cells = self.data.X[rows]
        logs = np.ascontiguousarray(view.logs(cells).T)  # (K, n): numpy is slow along a short last axis
        ends = np.exp(logs - logs.max(0))
        for k in range(1, len(ends)):
            ends[k] += ends[k - 1]
        labels[rows] = (ends[:-1] <= uniform[rows] * ends[-1]).sum(0)
        return self._counts_of(labels[rows], cells)

    def _counts_of(self, labels: Array, cells: MixtureRows) -> tuple[Array, Array]:
        """Rows (K,) of each component, and its values (V, K), that labels of rows make."""
        K = self.model.n_components
        found = self.model.counted((labels[:, None] == np.arange(K)).astype(float), cells)
        values = [found[name][0].transpose(1, 2, 0).reshape(-1, K) for name in self.model.names]
        return found["weights"][0], np.concatenate([np.zeros((0, K)), *values])

    def next_prior(self, counts: Array, log_prior: float, rng: np.random.Generator) -> float:
        """The next log c given the labels' counts, where it is learned."""
        if not self.model.learns_prior:
            return log_prior
        return sliced(lambda x: self.of_cells(counts, x) + self.model.log_density_at(x), log_prior, rng, SLICE)

    def observed_cells(self, counts: Array) -> Array:
        """Number (D, K) of observed cells of each column in the rows of each component."""
        return np.add.reduceat(counts, self.cuts[:-1], axis=0) if len(self.sizes) else np.zeros((0, counts.shape[1]))

    def of_labels(self, rows: Array) -> float:
        """log p(labels), weights integrated out, nats."""
        K, share = self.model.n_components, self.model.share
        total = gammaln(K * share) - gammaln(K * share + rows.sum())
        return float(total + np.sum(gammaln(share + rows) - gammaln(share)))

    def of_cells(self, counts: Array, log_prior: float) -> float:
        """log p(X | labels), probabilities integrated out, nats."""
        prior = math.exp(log_prior)
        totals = self.sizes[:, None] * prior
        of_values = np.sum(gammaln(prior + counts) - gammaln(prior))
        return float(of_values + np.sum(gammaln(totals) - gammaln(totals + self.observed_cells(counts))))

    def matched(self, draws: list[MixtureDraw]) -> Blocks:
        """Weights and probabilities given the mean counts of draws, whose labels mean the same along a chain."""
        rows, counts = (np.mean([getattr(draw, name) for draw in draws], axis=0) for name in ("rows", "counts"))
        log_prior = np.mean([draw.log_prior for draw in draws])
        learned = {"value_prior": Point(np.array([log_prior]))} if self.model.learns_prior else {}
        return {**given_counts(self.model, rows, counts, log_prior), **learned}


def given_counts(model: CountedMixture, rows: Array, counts: Array, log_prior: Any) -> Blocks:
    """Weights and probabilities given rows (..., K) and values (..., V, K) of the components, and log c (...)."""
    prior, c, at = model.prior({}), np.exp(np.asarray(log_prior))[..., None, None, None], 0
    found: Blocks = {"weights": prior["weights"].of_theta(model.share + rows)}
    for name, (m, columns) in model.names.items():
        own = np.swapaxes(counts[..., at : at + m * len(columns), :], -1, -2)
        found[name] = prior[name].of_theta(c + own.reshape(*rows.shape, len(columns), m))
        at += m * len(columns)
    return found
