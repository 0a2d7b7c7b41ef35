"""Rows of counts under Gamma factors: y_nf ~ Poisson(Σ_k θ_k W_fk H_nk), H local, H_nk ~ Gamma(b, r).

What models of components share. A row is left as N_n (K,), its expected counts from each component: q(H_nk) =
Gamma(b + N_nk, r + θ_k Σ_f W_fk), the sum over seen cells. Where the view is a draw, H is drawn too.

How sure a row's counts are of its activations is found by linear response. Under mean field the activations of a row
are independent, each as sure as if the others were known: what one component explains another might. Tilting log p(y,
H) by tᵀH moves the mean of q, and Cov H ≈ ∂ E_q H / ∂t. With s and R shape and rate of q(H), shares φ_fk of a count
among components and J = Σ_f y_f (diag φ_f - φ_f φ_fᵀ), how s follows E log H,

    C = diag(s / R²) + R⁻¹ J (I - ψ'(s) J)⁻¹ R⁻¹.

R. Giordano, T. Broderick and M. Jordan, Covariances, robustness, and variational Bayes, JMLR 2018.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from scipy.special import digamma, gammaln, polygamma

from sksvi._runtime import parallel
from sksvi.families.dirichlet import log_gammas
from sksvi.models.base import Blocks, Local
from sksvi.models.data import Table
from sksvi.models.nmf.cells import CountMatrix
from sksvi.models.traits import BoundTraits, Traits

# ---- linear response
Array = np.ndarray

#: Largest eigenvalue of ψ'(s) J that is believed: at 1 a row could as well follow another component, and the response
#: has no limit. Chosen on digits split by seeds 1 and 2: from 0.95 to 0.99 scores differ by a tenth of the gain.
LARGEST = 0.98


def covariances(counts: Any, logs: Array, shape: Array, rate: Array) -> Array:
    """Covariances (n, K, K) of activations whose q has these shapes and rates (n, K).

    Parameters
    ----------
    counts : CSR matrix of shape (n, F)
    logs : ndarray of shape (F, K)
        E log of what multiplies activations.
    shape, rate : ndarray of shape (n, K)
    """
    follows = np.stack([_following(counts[i], logs, level) for i, level in enumerate(digamma(shape) - np.log(rate))])
    root = np.sqrt(polygamma(1, shape))
    values, vectors = np.linalg.eigh(follows * root[:, :, None] * root[:, None, :])
    gain = np.maximum(values, 0.0) / (1.0 - np.clip(values, 0.0, LARGEST))
    unit = 1.0 / (root * rate)
    out = (vectors * gain[:, None, :]) @ np.swapaxes(vectors, 1, 2) * unit[:, :, None] * unit[:, None, :]
    each = np.arange(shape.shape[1])
    out[:, each, each] += shape / np.square(rate)
    return out


def _following(row: Any, logs: Array, level: Array) -> Array:
    """J of a row (K, K) at E log H."""
    shares = logs[row.indices] + level
    shares = np.exp(shares - shares.max(1, keepdims=True))
    shares /= shares.sum(1, keepdims=True)
    counted = row.data[:, None] * shares
    return np.asarray(np.diag(counted.sum(0)) - shares.T @ counted)


# ---- rows of counts
#: Rows of a chunk at least, and chunks of a segment where that allows.
CHUNK_ROWS, CHUNKS = 16, 16
#: What stands for smaller numbers among bases relative to a column's largest, by type. A row whose counts sum to no
#: more than `SINGLE` leaves the range of neither, whatever its q.
LEAST, SINGLE = {np.float64: 1e-290, np.float32: 1e-30}, 1e7


@dataclass(frozen=True)
class RowVisit:
    """How long a visit of a row is.

    sweeps, tol: of coordinate ascent; it ends where a sweep moved less than `tol` of the row's counts. draws: of H.
    beyond: by which share a sweep goes further than to its best value.
    """

    sweeps: int
    tol: float
    draws: int = 4
    beyond: float = 0.0


#: Rows that are visited again, those that are seen once, and those whose posterior is asked for.
VISIT, PORTION, SETTLE = RowVisit(6, 1e-2), RowVisit(60, 1e-2, 20), RowVisit(500, 1e-6)


@dataclass
class FactorView:
    """Globals as rows use them: W, θ and log θ_k W_fk, (F, K): expectations, or with `drawn` a draw, and H drawn too.

    scaled: the same logarithms as the loops take them, once a chunk has asked.
    """

    components: Array
    weights: Array
    logs: Array
    drawn: bool = False
    draws: dict[str, Any] = field(default_factory=dict)
    scaled: tuple[Array, Array] | None = None

    @cached_property
    def totals(self) -> Array:
        """θ_k Σ_f W_fk over all cells, (K,)."""
        return self.weights * self.sums

    @cached_property
    def sums(self) -> Array:
        """Σ_f W_fk over all cells, (K,)."""
        return np.asarray(self.components.sum(0))


@dataclass
class CountChunk:
    """Rows of a chunk: counts, the mask of observed cells, Σ log Γ(y + 1), and where N starts."""

    cells: CountMatrix
    constant: Array
    start: Array


@dataclass
class RowTerms:
    """Per row its term of the bound, N and q(H): rate and E H (or a draw); expected counts (F, K), Σ H by cell or one.

    exposure (K,) or (F, K): Σ_n H_nk over the rows that saw the cell; without missing cells the same for all. prior:
    expected rate of H a priori, of all rows or of each (n, K).
    """

    value: Array
    local: Array
    rate: Array
    activations: Array
    counts: Array
    exposure: Array
    view: FactorView
    prior: Any
    repairs: ClassVar[int] = 0


class CountRows(Local):
    """Needs `shape` (K, F), `activation_shape`, `visit`, `prior_rate` and `row_rates`."""

    globals: str | None = None
    traits = Traits(
        bound=BoundTraits(at_expectations=True, slack=1e-9),  # rows settle visit by visit
        remedy="Give X in a unit in which its cells are counts.",
        local_rule="counts of components",  # which all ways leave, and start from
    )
    shape: tuple[int, int]
    activation_shape: float
    visit: RowVisit
    #: Type of the numbers that rows are swept in.
    precision: type = np.float64
    #: Components that a start among rows begins with, for one that is wanted.
    surplus: float = 1.0

    def prior_rate(self, view: FactorView) -> float:
        """r, the rate of activations a priori."""
        raise AttributeError(f"{type(self).__name__} has no prior of activations")

    def row_priors(self, view: FactorView, cells: CountMatrix) -> tuple[Any, Any]:
        """E log of the rate of activations a priori and its expectation, of all rows or of each (n, K)."""
        rate = self.prior_rate(view)
        return np.log(rate), rate

    def row_rates(self, q: Blocks, cells: CountMatrix) -> Any:
        """The expected rate of activations a priori, at blocks, of all rows or of each (n, K)."""
        raise AttributeError(f"{type(self).__name__} has no prior of activations")

    def component_prior(self, q: Blocks) -> Any:
        """The prior of the components."""
        return self.prior(q)["components"]

    def drawn_scales(self, point: Any, counted: Array, covered: Array, rates: Any, rng: np.random.Generator) -> Any:
        """A `CountPoint` after a draw of what its components share.

        counted, covered (K,): counts from each component, and what they would be on average were its weight 1. rates:
        those of activations a priori (`row_rates`).
        """
        raise AttributeError(f"{type(self).__name__} draws no scales")

    def count_per_event(self, q: Blocks) -> float:
        """Mean count of an event that components stand for: 1 where these are the counts themselves."""
        return 1.0

    def drawn_events(self, c: Any, activations: Array, bases: Array, scales: Blocks, key: int) -> Array:
        """Events of every cell (nnz,) given its count and a draw of both factors: its count."""
        return np.asarray(c.data)

    def local_begin(self, data: Table) -> Array:
        """Local start of new rows: N = 0 expected counts from every component, (n, K)."""
        return np.zeros((len(data), self.shape[0]))

    # ---- rows
    def chunks(self, rows: Any, data: Table) -> list[Any]:
        """Equal shares of the rows; a chunk's statistics are as large as the components, so there are few."""
        index = np.arange(len(data))[rows] if isinstance(rows, slice) else rows
        return [index[part] for part in parallel.slices(len(index), max(CHUNK_ROWS, -(-len(index) // CHUNKS)))]

    def batch(self, data: Table, rows: Array, start: Array | None = None) -> CountChunk:
        """The rows, and where N starts."""
        start = np.zeros((len(rows), self.shape[0])) if start is None else start
        return CountChunk(data.X[rows], data.y[rows], start)

    def terms(self, view: FactorView, batch: CountChunk, expect: Any, rng: Any) -> RowTerms:
        """Local step of the rows from their start: their terms of the bound and their statistics."""
        return self.settled(view, batch, self.visit, rng)

    def settled(
        self, view: FactorView, batch: CountChunk, effort: RowVisit, rng: Any = None, sums: bool = True
    ) -> RowTerms:
        """The local step of every row, and its term of the bound where it ended."""
        b, cells, local = self.activation_shape, batch.cells, np.array(batch.start, float, order="C")
        earlier_counts = 0.0 if cells.before is None else cells.before
        log_prior, prior = self.row_priors(view, cells)
        rate = self._rates(view, cells, prior)
        counts = np.zeros((self.shape[1] if sums else 0, self.shape[0]))
        if view.drawn:
            shape, log_h, logs = self._drawn(view, cells, rate, local, counts, effort, rng)
            activations = np.exp(log_h)
        else:
            shape, logs = self._ascended(view, cells, rate, local, counts, effort)
            log_h, activations = digamma(shape) - np.log(rate), shape / rate
        # E log p(y, H) - log q(H); what is linear in H cancels, as its rate is that of its own posterior. Counts of
        # earlier chunks are a factor of p that H has to their power.
        at = b * log_prior - shape * np.log(rate)
        value = (b + earlier_counts - shape) * log_h + gammaln(shape) - gammaln(b) + at
        exposure = activations.sum(0) if cells.seen is None else cells.seen.T.astype(float) @ activations
        value = logs + value.sum(1) - batch.constant
        return RowTerms(value, local, rate, activations, counts, exposure, view, prior)

    def _rates(self, view: FactorView, cells: CountMatrix, prior: Any) -> Array:
        """r + θ_k Σ_f W_fk of each row, (n, K), from the `prior` rate r."""
        if cells.seen is None:
            return np.broadcast_to(prior + view.totals, (cells.shape[0], self.shape[0]))
        return prior + view.weights * (cells.seen.astype(float) @ view.components)

    def _ascended(
        self, view: FactorView, cells: CountMatrix, rate: Array, local: Array, counts: Array, effort: RowVisit
    ) -> tuple[Array, Array]:
        """Shape of q(H), and Σ y log Σ_k exp(E log θ + E log W + E log H) of each row; N moves."""
        from sksvi.models.nmf.loops import mean_field_rows

        c, at, logs = cells.counts, np.empty_like(local), np.empty(cells.shape[0])
        whole = np.log(self.prior_rate(view) + view.totals)
        if view.scaled is None:  # as large as the components, and the same for every chunk
            view.scaled = _bases(view.logs - whole, self.precision)
        bases, offset = view.scaled
        alike = cells.seen is None and cells.columns is None
        factor = np.empty((0, self.shape[0])) if alike else np.exp(whole - np.log(rate))
        shape = np.full(self.shape[0], self.activation_shape)
        before = np.empty((0, self.shape[0])) if cells.before is None else cells.before
        mean_field_rows(
            *(c.indptr, c.indices, c.data, bases, factor, shape, before),
            *(effort.sweeps - 1, effort.tol, effort.beyond, local, counts, logs, at),
        )
        return shape + at if cells.before is None else shape + before + at, logs + c @ offset

    def _drawn(
        self, view: FactorView, cells: CountMatrix, rate: Array, local: Array, counts: Array, effort: RowVisit, rng: Any
    ) -> tuple[Array, Array, Array]:
        """Shape that H was last drawn with, log H, and Σ y log Σ_k θ W H there; N moves."""
        from sksvi.models.nmf.loops import counted_rows

        c, logs, none = cells.counts, np.empty(cells.shape[0]), np.empty((0, self.shape[0]))
        if view.scaled is None:
            view.scaled = _bases(view.logs)
        bases, offset = view.scaled
        for left in reversed(range(effort.draws)):
            shape = self.activation_shape + local
            if cells.before is not None:
                shape = shape + cells.before
            log_h = log_gammas(shape, rng) - np.log(rate)
            top, into = log_h.max(1, keepdims=True), none if left else counts
            counted_rows(c.indptr, c.indices, c.data, bases, none, np.exp(log_h - top), local, into, logs)
        return shape, log_h, logs + c @ offset + top[:, 0] * np.asarray(c.sum(1)).ravel()

    def of_portions(self) -> Self:
        """The model for rows visited once, without a surplus of components: these the first chunk alone would shape."""
        return self.replaced(visit=PORTION, surplus=1.0)

    # ---- what is asked of a fit
    def of_components(self, n_components: int) -> Self:
        """The model with so many components, for rows at given blocks, and for a start with some to spare."""
        return self.replaced(shape=(n_components, self.shape[1]))

    def explained(self, q: Blocks) -> Array:
        """What each component has explained of each cell (K, F): its profile times its counts."""
        raise AttributeError(f"{type(self).__name__} does not say what its components explain")

    def rows(self, q: Blocks, found: CountMatrix, threads: int, start: Array | None = None) -> tuple[Array, Array]:
        """Shape and rate (n, K) of q(H) of each row by itself: the same whatever the others are.

        `start` (n, K): expected counts from each component that rows begin with; None: nothing is known of them.
        """
        view = self.view(q, None)
        start_counts = np.zeros((found.shape[0], self.shape[0])) if start is None else start

        def one(part: slice) -> tuple[Array, Array]:
            own = found[part]
            batch = CountChunk(own, np.zeros(own.shape[0]), start_counts[part])
            terms = self.settled(view, batch, SETTLE, sums=False)
            shape = self.activation_shape + terms.local
            return shape if own.before is None else shape + own.before, terms.rate

        parts = list(parallel.in_order(one, parallel.slices(found.shape[0], 64), threads))
        return tuple(np.concatenate(part) for part in zip(*parts, strict=True))  # type: ignore[return-value]

    def covariances(self, q: Blocks, found: CountMatrix, shape: Array, rate: Array, threads: int) -> Array:
        """Covariances (n, K, K) of the activations of rows whose q(H) is that of `rows`."""
        logs = self.view(q, None).logs

        def one(part: slice) -> Array:
            return covariances(found.counts[part], logs, shape[part], rate[part])

        return np.concatenate(list(parallel.in_order(one, parallel.slices(found.shape[0], 64), threads)))


def _bases(logs: Array, precision: Any = np.float64) -> tuple[Array, Array]:
    """exp(logs) (F, K) over each column's largest, in this type of numbers, and the logarithm of that, (F,)."""
    offset = logs.max(1)
    bases = np.maximum(np.exp(np.ascontiguousarray(logs) - offset[:, None]), LEAST[precision])
    return bases.astype(precision, copy=False), offset
