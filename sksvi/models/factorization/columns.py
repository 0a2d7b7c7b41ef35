"""Columns of a factorization: the likelihood of one user's or item's coordinates given the other side.

Three routes to the gradient (doc/factorization.md), all of them through the rows of a generalized linear model:

==================  ===================================================================================
plain               f ~ N(m, v), gradient of the surrogate Σ E log p in mean and covariance
joint               (z, f) jointly Gaussian: the curvature nearer to that of the true bound
sampled             draws of the other side, f integrated out: unbiased for the true bound
==================  ===================================================================================
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from sksvi.algorithms.line_search import backtrack_plates
from sksvi.expectations import Auto
from sksvi.families import GaussianPlates
from sksvi.families.gaussian.plates import packed, pairs, unpacked
from sksvi.models.factorization.ratings import COLUMN_COST, Entries

Array = np.ndarray
Gradient = tuple[Array, Array]

SIDES = ("users", "items")
#: Relative fall of a column's bound that rounding explains.
ROUNDING = 1e-10
#: Variance of f, in squared widths of the likelihood, below which derivatives of its expectations do not change.
LEAST_SHARE = 1e-4


def other_side(side: str) -> str:
    """The other side: items for users, users for items."""
    return SIDES[1 - SIDES.index(side)]


#: What a column's full covariance costs beside its entries, in entries per factor.
MATRIX_COST = 8


@dataclass(frozen=True)
class SideLayout:
    """Which coordinates a side has: x = (u, b, 1) for users, z = (v, 1, c) for items; without biases u and v."""

    n_components: int
    biases: bool
    side: str
    full: bool

    @property
    def width(self) -> int:
        """Coordinates of x or z, W."""
        return self.n_components + 2 * self.biases

    @cached_property
    def free(self) -> Array:
        """Positions of the F free coordinates: the factors, then the bias."""
        bias = self.n_components + (self.side == "items")
        return np.array([*range(self.n_components), bias][: self.n_components + self.biases])

    @cached_property
    def place(self) -> Array:
        """Where the packed pairs of free coordinates are among those of all coordinates."""
        rows, cols, _ = pairs(len(self.free), self.full)
        rows, cols = self.free[rows], self.free[cols]
        return rows * (rows + 1) // 2 + cols if self.full else rows

    @property
    def count(self) -> Array:
        """How often each packed pair of all coordinates counts in a trace."""
        return pairs(self.width, self.full)[2]

    def chunks(self, entries: Entries, columns: Array | None = None) -> list[Any]:
        """Columns in chunks; one with a full covariance has matrices of its own, which count for their memory."""
        return entries.chunks(columns, MATRIX_COST * (self.n_components + 1) if self.full else COLUMN_COST)

    def embedded(self, mean: Array) -> Array:
        """Free coordinates (P, F) among all of them (P, W)."""
        out = np.ones((len(mean), self.width))
        out[:, self.free] = mean
        return out

    def moments(self, block: GaussianPlates) -> tuple[Array, Array]:
        """Means (P, W) and packed second moments (P, R) of all coordinates."""
        from sksvi.models.factorization.loops import second_moments

        mean = self.embedded(block.mean)
        rows, cols, _ = pairs(self.width, self.full)
        out = np.empty((len(mean), len(rows)))
        second_moments(mean, np.ascontiguousarray(block.values), rows, cols, self.place, out)
        return mean, out

    def restricted(self, g: Array, curvature: Array) -> Gradient:
        """Gradient in all coordinates to that in the free ones, matrices from their packed pairs."""
        return self.selected(g, unpacked(curvature, self.width, self.full))

    def selected(self, g: Array, matrices: Array) -> Gradient:
        """Gradient in all coordinates to that in the free ones, of matrices (P, W, W), or their diagonals (P, W)."""
        free = self.free
        if len(free) == self.width:
            return g, matrices
        return g[:, free], matrices[:, free[:, None], free] if self.full else matrices[:, free]


@dataclass(frozen=True)
class ColumnView:
    """The other side's moments or draws, which the columns of one side are fitted against during half a sweep.

    mean (P', W): the other side's coordinates; other: its plates; draws (P', S, W): samples of it, or None; offset:
    the constant part of f; zero_weight: of a y of 0 that every pair counts as besides its entries.
    """

    layout: SideLayout
    mean: Array
    other: GaussianPlates
    other_layout: SideLayout
    likelihood: Any
    offset: float
    draws: Array | None = None
    zero_weight: float = 0.0

    @classmethod
    def of(
        cls,
        layouts: dict[str, SideLayout],
        side: str,
        other: GaussianPlates,
        likelihood: Any,
        offset: float,
        zero_weight: float = 0.0,
    ) -> ColumnView:
        """View of the other side's plates for the columns of `side`."""
        layout = layouts[other_side(side)]
        mean = layout.embedded(other.mean)
        return cls(layouts[side], mean, other, layout, likelihood, offset, zero_weight=zero_weight)

    @cached_property
    def cov(self) -> Array:
        """The other side's packed covariances, (P', R')."""
        return np.ascontiguousarray(self.other.values)

    @cached_property
    def sums(self) -> Gradient:
        """Σ E z (W,) and Σ E zzᵀ, packed (R,), over all plates of the other side."""
        total = packed(self.mean.T @ self.mean, self.layout.full)
        total[self.other_layout.place] += self.cov.sum(0)
        return self.mean.sum(0), total

    def chunks(self, entries: Entries, plates: Array | None = None) -> list[Any]:
        """Columns, or some of them, in chunks."""
        return self.layout.chunks(entries, plates)

    def plates(self, entries: Entries, expect: Any, rng: Any) -> SideColumns:
        """Some columns with their entries, by the route that likelihood, covariance and expectation ask for."""
        if self.draws is not None:
            return SampledColumns(self, entries, expect, rng)
        if self.likelihood.noise_variance is not None and self.layout.full:
            return SquaredColumns(self, entries, expect, rng)
        kind = JointColumns if expect.joint and self.layout.full else SideColumns
        return kind(self, entries, expect, rng)


class SideColumns:
    """Some columns of one side with their entries, by the plain route."""

    #: The gradient is that of `value`, so that a step may be judged by it.
    judged = True

    def __init__(self, view: ColumnView, entries: Entries, expect: Any, rng: Any) -> None:
        self.view, self.entries, self.expect, self.rng = view, entries, expect, rng
        self._last: tuple[Any, tuple[Array, Array]] = None, (np.zeros(0), np.zeros(0))

    def latents(self, block: GaussianPlates) -> tuple[Array, Array]:
        """Mean and variance of f for each entry; those of the last block are cached."""
        if self._last[0] is not block:
            self._last = block, self._latents(block)
        return self._last[1]

    def _latents(self, block: GaussianPlates) -> tuple[Array, Array]:
        from sksvi.models.factorization.loops import latent_moments

        view, entries = self.view, self.entries
        mean, cov = view.layout.embedded(block.mean), np.ascontiguousarray(block.values)
        m, v = np.empty(len(entries)), np.empty(len(entries))
        latent_moments(
            entries.starts, entries.other, mean, cov, view.layout.free, view.mean, view.cov, view.other_layout.free,
            view.layout.n_components, block.full, m, v,
        )  # fmt: skip
        return m + view.offset, v

    def expected(self, m: Array, v: Array) -> tuple[Array, Array, Array]:
        """E log p of each entry, and its weighted slopes in m and v."""
        weight = 1.0 if self.entries.weight is None else self.entries.weight
        value, alpha, gamma = self.expect(self.view.likelihood, self.entries.y, m, v, self.rng)
        return value, weight * alpha, weight * gamma

    def sums(self, block: GaussianPlates, alpha: Array, gamma: Array, m: Array) -> tuple[Array, Array]:
        """Σ alpha z + 2 gamma cov(z) x, (B, W), and Σ gamma E zzᵀ, packed (B, R)."""
        view = self.view
        mean = view.layout.embedded(block.mean)
        g, h = self.accumulated(alpha, gamma, m, mean)
        curvature = unpacked(h, view.layout.width, block.full)
        g += 2.0 * (np.einsum("pij,pj->pi", curvature, mean) if block.full else curvature * mean)
        return g, h

    def accumulated(self, alpha: Array, gamma: Array, m: Array, mean: Array) -> Gradient:
        """The sums over entries that every route needs: (B, W), and Σ gamma E zzᵀ, packed (B, R)."""
        from sksvi.models.factorization.loops import accumulate

        view, entries = self.view, self.entries
        g, h = np.zeros(mean.shape), np.zeros((len(mean), len(view.layout.count)))
        accumulate(
            entries.starts, entries.other, alpha, gamma, m, mean, view.mean, view.cov, view.other_layout.place,
            view.layout.full, g, h,
        )  # fmt: skip
        return g, h

    def terms(self, block: GaussianPlates) -> tuple[Array, Gradient]:
        """Value (B,) of each column, and its gradient in means (B, F) and covariances (B, F, F) or (B, F)."""
        m, v = self.latents(block)
        value, alpha, gamma = self.expected(m, v)
        self.slopes = alpha, gamma
        return self.entries.summed(value), self.view.layout.restricted(
            *self.sums(block, alpha, gamma, m - self.view.offset)
        )

    def value(self, block: GaussianPlates) -> Array:
        """Value (B,) of each column."""
        m, v = self.latents(block)
        return self.entries.summed(self.expect.value(self.view.likelihood, self.entries.y, m, v, self.rng))

    def points(self, block: GaussianPlates) -> Gradient:
        """Gradient (P,) and Hessian (P, P) in the likelihood's unconstrained parameters, summed over entries."""
        m, v = self.latents(block)
        return self.expect.parameter_sums(self.view.likelihood, self.entries.y, m, v, self.entries.weight, self.rng)

    def hyper(self, block: GaussianPlates) -> dict[str, Gradient]:
        """Gradient and Hessian in the likelihood's parameters as block "likelihood"; empty where none is learned."""
        return {"likelihood": self.points(block)} if self.view.likelihood.learned else {}

    def mended(
        self, own: GaussianPlates, new: GaussianPlates, prior: Any, after: Array
    ) -> tuple[GaussianPlates, Array, int]:
        """The plates as they are: nothing to mend."""
        return new, after, 0

    def refined(self, own: GaussianPlates, new: GaussianPlates, prior: Any) -> GaussianPlates:
        """Full columns as they are; diagonal ones, whose means would creep, with the best means."""
        return new if own.full else self.best_means(own, new, prior)

    def best_means(self, block: GaussianPlates, new: GaussianPlates, prior: Any) -> GaussianPlates:
        """Diagonal columns: the means coordinate after coordinate, on the quadratic of the last `terms`."""
        from sksvi.models.factorization.loops import solve_means

        view, entries, (alpha, gamma) = self.view, self.entries, self.slopes
        mean = view.layout.embedded(block.mean)
        precision = np.ascontiguousarray(np.broadcast_to(prior.precision_like(block), block.mean.shape))
        curvature = 0.5 * (precision - 1.0 / new.values)
        gap = np.broadcast_to(prior.mean, block.mean.shape) - block.mean
        solve_means(
            entries.starts, entries.other, alpha.copy(), gamma, curvature, precision, gap, view.mean,
            view.layout.free, mean,
        )  # fmt: skip
        return GaussianPlates(mean[:, view.layout.free], new.values, new.log_det, new.full)


class SquaredColumns(SideColumns):
    """A Gaussian likelihood and full covariances: closed forms of Lim and Teh (2007), no moment of f per entry.

    With r = y - offset, Σ E (r - f)² = Σ r² - 2 (Σ r z)ᵀ x + tr(Σ E zzᵀ E xxᵀ), so the sums over a column's entries are
    all that its value and its gradient need.
    """

    #: A step of rate 1 is the best there is.
    judged = False

    @cached_property
    def _weights(self) -> Array:
        return np.ones(len(self.entries)) if self.entries.weight is None else self.entries.weight

    @cached_property
    def _total(self) -> Array:
        """Weight of each column, (B,)."""
        return self.entries.totals + self.view.zero_weight * len(self.view.mean)

    @cached_property
    def _curvature(self) -> float:
        """-1/(2 variance)."""
        zero = np.zeros(1)
        return float(self.expect(self.view.likelihood, zero, zero, zero)[2][0])

    @cached_property
    def _moments(self) -> tuple[Array, Array, Array]:
        """Σ r² (B,), Σ r z (B, W), Σ E zzᵀ packed (B, R), with a zero for every plate of the other side."""
        entries, weight, view = self.entries, self._weights, self.view
        r = entries.y - self.view.offset
        nowhere = np.zeros((len(entries.starts) - 1, self.view.layout.width))
        g, h = self.accumulated(weight * r, weight, np.zeros(len(r)), nowhere)
        square = entries.summed(np.square(r))
        if view.zero_weight:
            first, second = view.sums
            square += view.zero_weight * len(view.mean) * view.offset**2
            g -= view.zero_weight * view.offset * first
            h += view.zero_weight * second
        return square, g, h

    def _mean_square(self, block: GaussianPlates) -> Array:
        """Mean of E (y - f)² over each column, (B,); 0 for a column without entries."""
        square, g, h = self._moments
        mean, moment = self.view.layout.moments(block)
        total = square - 2.0 * np.sum(g * mean, axis=1) + np.sum(h * (moment * self.view.layout.count), axis=1)
        # Σ r² and what is taken from it may agree to rounding.
        return np.maximum(total, 0.0) / np.where(self._total > 0, self._total, 1.0)

    def value(self, block: GaussianPlates) -> Array:
        """Value (B,) of each column."""
        error = self._mean_square(block)
        zero = np.zeros(len(error))
        return self._total * self.expect.value(self.view.likelihood, zero, zero, error)

    def terms(self, block: GaussianPlates) -> tuple[Array, Gradient]:
        """Value of each column and its gradient."""
        _, g, h = self._moments
        bend = self._curvature
        mean = self.view.layout.embedded(block.mean)
        curvature = unpacked(h, self.view.layout.width, True)
        slope = -2.0 * bend * (g - np.einsum("pij,pj->pi", curvature, mean))
        return self.value(block), self.view.layout.selected(slope, bend * curvature)

    def points(self, block: GaussianPlates) -> Gradient:
        """Gradient and Hessian in the noise, summed over entries."""
        error = self._mean_square(block)
        zero = np.zeros(len(error))
        return self.expect.parameter_sums(self.view.likelihood, zero, zero, error, self._total)


class JointColumns(SideColumns):
    """(z, f) jointly Gaussian, cov(z, f) = cov(z) x: the curvature where covariances are full.

    By Stein's lemma its integrals are derivatives of E l''(f): with k = cov(z) x,
    D = ½ Σ [E l'' E zzᵀ + E l''' (m kᵀ + k mᵀ) + E l'''' k kᵀ].
    """

    judged = False

    def mended(
        self, own: GaussianPlates, new: GaussianPlates, prior: Any, after: Array
    ) -> tuple[GaussianPlates, Array, int]:
        """Means that lowered the bound at the new covariance go half of the way back until they do not.

        The curvature is not the bound's own; its gradient in the mean is.
        """
        mean, after = new.mean.copy(), after.copy()

        def part(at: Array) -> tuple[Array, Array]:
            block = GaussianPlates(at, new.values, new.log_det, new.full)
            value = self.value(block)
            return value, value - block.kl_by_plate(prior)

        _, start = part(own.mean)
        least = start - ROUNDING * (np.abs(start) + 1)

        def attempt(plates: Array, share: float) -> Array:
            mean[plates] = own.mean[plates] + share * (new.mean[plates] - own.mean[plates])
            after[:], now = part(mean)
            return np.asarray(now >= least)[plates]

        repairs = backtrack_plates(~(after - new.kl_by_plate(prior) >= least), attempt)
        return GaussianPlates(mean, new.values, new.log_det, new.full), after, repairs

    def terms(self, block: GaussianPlates) -> tuple[Array, Gradient]:
        """Value of each column, the surrogate's gradient in the mean, and the joint curvature."""
        from sksvi.models.factorization.loops import add_joint_curvature

        view, entries = self.view, self.entries
        m, v = self.latents(block)
        value, alpha, gamma = self.expected(m, v)
        g, h = self.sums(block, alpha, gamma, m - view.offset)
        third, fourth = self._bends(m, v)
        mean = view.layout.embedded(block.mean)
        add_joint_curvature(
            entries.starts, entries.other, third, fourth, mean, view.mean, view.cov,
            view.other_layout.free, h,
        )  # fmt: skip
        return entries.summed(value), view.layout.restricted(g, h)

    def _bends(self, m: Array, v: Array) -> tuple[Array, Array]:
        """½ E l''' and ½ E l'''' of each entry, weighted, from E l'' (f - m) = v E l''' and its like."""
        likelihood, y = self.view.likelihood, self.entries.y

        def moment(power: int) -> Array:
            def times(f: Array, rows: Any) -> Array:
                return likelihood.d2(y[rows], f) * (f - m[rows]) ** power

            return np.asarray(self.expect.integrate(times, likelihood, m, v))

        weight = 1.0 if self.entries.weight is None else self.entries.weight
        # Below this share of the likelihood's width the integrals are those at it, free of cancellation.
        v = np.maximum(v, LEAST_SHARE * min(likelihood.width, 1e150) ** 2)
        first, second = moment(1), moment(2)
        third, fourth = first / v, (second / v - moment(0)) / v
        return 0.5 * weight * third, 0.5 * weight * fourth


class SampledColumns(SideColumns):
    """Draws of the other side; given one, f ~ N(zᵀm, zᵀ S z) and the column is a generalized linear model."""

    judged = False

    def refined(self, own: GaussianPlates, new: GaussianPlates, prior: Any) -> GaussianPlates:
        """The plates as they are."""
        return new

    def _expanded(self) -> tuple[Entries, Array]:
        """Every entry once per draw, each with a share of its weight, and the draws by entry."""
        draws = self.view.draws
        assert draws is not None
        entries, n = self.entries, draws.shape[1]
        weight = np.ones(len(entries)) if entries.weight is None else entries.weight
        rows = (entries.other[:, None].astype(np.int64) * n + np.arange(n)).ravel()
        y, weight = np.repeat(entries.y, n), np.repeat(weight / n, n)
        return Entries(entries.starts * n, rows, y, weight), draws.reshape(-1, draws.shape[2])

    def terms(self, block: GaussianPlates) -> tuple[Array, Gradient]:
        """Unbiased value of each column and its gradient."""
        from sksvi.models.factorization.loops import sampled_accumulate, sampled_moments

        layout = self.view.layout
        entries, draws = self._expanded()
        mean, free = layout.embedded(block.mean), layout.free
        m, v = np.empty(len(entries)), np.empty(len(entries))
        sampled_moments(entries.starts, entries.other, mean, block.values, free, draws, block.full, m, v)
        value, alpha, gamma = Auto()(self.view.likelihood, entries.y, m + self.view.offset, v)
        g = np.zeros(mean.shape)
        h = np.zeros((len(mean), len(layout.count)))
        weight = entries.weight
        every, alpha, gamma = np.arange(layout.width), weight * alpha, weight * gamma
        sampled_accumulate(entries.starts, entries.other, alpha, gamma, draws, every, block.full, g, h)
        return entries.summed(value), layout.restricted(g, h)
