"""Ordered levels: the cumulative logit."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, reduce
from operator import add
from typing import Any, Self

import numpy as np

from sksvi._typing.arrays import ArrayLike
from sksvi.likelihoods.base import Likelihood
from sksvi.likelihoods.scales import Scales
from sksvi.likelihoods.traits import Array, LikelihoodTraits, Support, as_float, log_sigmoid_slopes, sigmoid


class CutPoints(Scales["Ordinal"]):
    """The cut points of an ordinal likelihood, as the first one and the logarithms of the increments."""

    collinear = True

    def among(self, n_levels: int) -> Ordinal:
        copied = self.likelihood._replaced({}, self.likelihood.learned)
        copied.n_levels = n_levels
        return copied

    def shifted(self, by: float) -> Ordinal | None:
        own = self.likelihood
        return own._replaced({"cut_points": own._cuts() + by}, own.learned) if own.learned else None

    def moments(self, y: Array, f: Array) -> Sequence[Array]:
        upper, lower, _ = self.likelihood._edges(y, f)
        up, up_curve = log_sigmoid_slopes(upper, np.exp(-np.abs(upper)))
        down, down_curve = log_sigmoid_slopes(lower, np.exp(-np.abs(lower)))
        return up, down, up_curve, down_curve

    def sums(self, y: Array, moments: Sequence[Array], weight: Array | None) -> tuple[Array, Array]:
        # Linear in the moments and in a constant, with coefficients of the level alone: entries are summed by level.
        code = np.asarray(y).astype(np.intp)
        each = np.bincount(code, weight)
        levels = np.flatnonzero(each)
        by = 1.0 if weight is None else weight
        means = [np.bincount(code, by * part)[levels] / each[levels] for part in moments]
        return super().sums(levels, means, each[levels])

    def combined(self, y: Array, moments: Sequence[Array]) -> tuple[Array, Array]:
        slope = self.likelihood._number("slope")
        up, down, up_curve, down_curve = moments
        code = np.asarray(y).astype(np.intp)
        # u - l of every level, infinite for the first and the last
        gaps = slope * np.concatenate([[np.inf], np.diff(self.likelihood._cuts()), [np.inf]])
        decay = np.exp(-gaps)
        odds = (decay / -np.expm1(-gaps))[code]
        bend = (decay / np.expm1(-gaps) ** 2)[code]
        # a = d log p / d cut point (upper, lower), b their second derivatives
        a_up, a_low = slope * (up + odds), -slope * (down + odds)
        b_up, b_low, b_both = slope**2 * (up_curve - bend), slope**2 * (down_curve - bend), slope**2 * bend
        jacobian = self._jacobian()
        ju, jl = jacobian[:, code + 1], jacobian[:, code]
        diagonal = np.arange(len(jacobian)) > 0
        g = a_up * ju + a_low * jl
        h = b_up * (ju[:, None] * ju) + b_low * (jl[:, None] * jl) + b_both * (ju[:, None] * jl + jl[:, None] * ju)
        for p in np.flatnonzero(diagonal):
            h[p, p] += g[p]  # an increment is its own second derivative in its logarithm
        return g, h

    def prior(self) -> tuple[float, Array, Array] | None:
        """Half a row of each level that no row had: in its own middle, or where the nearest level with rows begins."""
        own = self.likelihood
        if not own.without or not own.learned:
            return None
        value, slope, bend = _half_rows(own._cuts(), own.without, own._number("slope"))
        jacobian = self._jacobian()[:, 1:-1]
        g = jacobian @ slope
        h = jacobian @ bend @ jacobian.T
        h[np.diag_indices(len(g))] += np.concatenate([[0.0], g[1:]])  # as of the rows
        return value, g, h

    def _jacobian(self) -> np.ndarray:
        """d c_k / d parameter, (P, L + 1), zero for the infinite first and last cut point."""
        cuts = self.likelihood._cuts()
        size = len(cuts)
        rows = np.concatenate([[1.0], np.diff(cuts)])[:, None] * np.triu(np.ones((size, size)))
        return np.pad(rows, ((0, 0), (1, 1)))


class Ordinal(Likelihood):
    """Cumulative logit likelihood of L ordered levels, P(y <= k | f) = sigmoid(slope (c_{k+1} - f)), y in 0..L-1.

    Parameters
    ----------
    cut_points : array of shape (L - 1,) or "auto", default="auto"
        Increasing thresholds c on the scale of f; "auto" learns them, as c_1 and the logarithms of the increments.
    slope : float, default=1.0
        Steepness s; the latent noise is logistic with scale 1 / s.

    Notes
    -----
    With u = s (c_{k+1} - f) and l = s (c_k - f), log p = log sigmoid(u) + log sigmoid(-l) + log(1 - exp(l - u)), which
    is stable and concave in f everywhere.

    Examples
    --------
    >>> from sksvi.likelihoods import Ordinal
    >>> print(Ordinal(cut_points=[-1.0, 1.0]).mean(0.0))
    1.0
    """

    LAYOUT = "cut_points? (_) f rising or no array"

    traits = LikelihoodTraits(discrete=True, ordered=True, poles_only=True, positive=False)
    #: Levels that no row has had, in the place of each of which half a row stands; and how many there are at least.
    without: tuple[int, ...] = ()
    n_levels: int = 0

    def __init__(self, *, cut_points: ArrayLike = "auto", slope: float = 1.0) -> None:
        self.cut_points = cut_points
        self.slope = slope

    @property
    def support(self) -> Support:  # type: ignore[override]
        if isinstance(self.cut_points, str):
            return Support(0.0, np.inf, True, "integer codes 0, 1, ... of the levels")
        levels = len(self._cuts()) + 1
        return Support(0.0, levels - 1.0, True, f"integer codes of {levels} levels, 0 to {levels - 1}")

    @property
    def width(self) -> float:
        return 1.0 / self._number("slope")

    @property
    def link_unit(self) -> float:
        return 2.0 / self._number("slope")

    @property
    def ratio(self) -> str | None:
        return "odds" if self._number("slope") == 1.0 else None

    @property
    def bends(self) -> np.ndarray:
        return self._cuts()

    def centre(self, y: Array) -> Array:
        return np.repeat(self._cuts()[:, None], np.size(y), axis=1)

    def _cuts(self) -> np.ndarray:
        if isinstance(self.cut_points, str):
            if self.cut_points != "auto":
                raise ValueError(f'Ordinal needs cut_points="auto" or increasing numbers; found {self.cut_points!r}.')
            raise ValueError('Ordinal(cut_points="auto") has no value yet: call start(y), or give cut_points numbers.')
        cuts = np.asarray(self.cut_points, dtype=float)
        if cuts.ndim != 1 or not _increasing(cuts.tobytes()):
            raise ValueError(f"Ordinal needs finite, increasing cut_points; found {self.cut_points!r}.")
        return cuts

    def _edges(self, y: Array, f: Array) -> tuple[Array, Array, Array]:
        """u, -l and log(1 - exp(l - u)), u and l the scaled distances to the level's upper and lower cut point."""
        f = as_float(f)
        slope = self._number("slope")
        low, high, log_gaps = _scaled(self._cuts().tobytes(), slope, f.dtype)
        code = np.asarray(y).astype(np.intp)
        if slope != 1.0:
            f = slope * f
        return high[code] - f, f - low[code], log_gaps[code]

    def derivatives(self, y: Array, f: Array) -> tuple[Array, Array, Array]:
        slope = self._number("slope")
        upper, lower, log_gap = self._edges(y, f)
        above, below = np.exp(-np.abs(upper)), np.exp(-np.abs(lower))
        value = _log_both(upper, lower, above, below)
        value += log_gap
        up, up_curve = log_sigmoid_slopes(upper, above)
        down, down_curve = log_sigmoid_slopes(lower, below)
        down -= up
        up_curve += down_curve
        return (value, down, up_curve) if slope == 1.0 else (value, slope * down, slope**2 * up_curve)

    def log_prob(self, y: Array, f: Array) -> Array:
        upper, lower, log_gap = self._edges(y, f)
        return _log_both(upper, lower, np.exp(-np.abs(upper)), np.exp(-np.abs(lower))) + log_gap

    def mean(self, f: Array) -> Array:
        f, slope = as_float(f), self._number("slope")
        return reduce(add, (sigmoid(slope * (f - cut)) for cut in self._cuts().tolist()))  # P(y >= k) of each level k

    def conditional_variance(self, f: Array) -> Array:
        f, slope = as_float(f), self._number("slope")
        below, variance = np.zeros_like(f), np.zeros_like(f)
        for cut in self._cuts().tolist():
            # cov(1[y >= j], 1[y >= k]) = P(y >= k) P(y < j) for j <= k: a sum of positive terms
            short = sigmoid(slope * (cut - f))
            variance = variance + sigmoid(slope * (f - cut)) * (short + 2.0 * below)
            below = below + short
        return variance

    def cdf(self, y: Array, f: Array) -> Array:
        cuts = np.concatenate([self._cuts(), [np.inf]])
        y = np.asarray(y, dtype=float)
        code = np.clip(np.floor(y), 0, len(cuts) - 1).astype(np.intp)
        return np.where(y < 0, 0.0, sigmoid(self._number("slope") * (cuts[code] - as_float(f))))

    def ppf(self, p: Array | float, f: Array) -> Array:
        f, slope = as_float(f), self._number("slope")
        return reduce(add, ((sigmoid(slope * (cut - f)) < p).astype(float) for cut in self._cuts().tolist()))

    def sample(self, f: Array, rng: np.random.Generator) -> Array:
        return self.ppf(rng.random(np.shape(f)), f)

    def start(self, y: Array, weight: Array | None = None) -> Likelihood:
        if not self._automatic():
            return self._replaced({}, ())
        codes = np.asarray(y).astype(np.intp)
        if len(codes) == 0 or codes.max() < 1:
            raise ValueError("Ordinal needs at least two levels in y; found one.")
        # half a count more per level keeps the increments positive for a level without weight
        counts: Array = np.bincount(codes, weights=weight, minlength=self.n_levels)
        without, counts = tuple(np.flatnonzero(counts == 0.0).tolist()), counts + 0.5
        share = np.cumsum(counts)[:-1] / counts.sum()
        cuts = np.log(share / (1.0 - share)) / self._number("slope")
        started = self._replaced({"cut_points": cuts}, ("cut_points",))
        started.without = without
        return started

    @property
    def scales(self) -> Scales[Ordinal]:
        return CutPoints(self)

    @property
    def unconstrained(self) -> np.ndarray:
        if not self.learned:
            return np.zeros(0)
        cuts = self._cuts()
        return np.concatenate([cuts[:1], np.log(np.diff(cuts))])

    def _constrain(self, unconstrained: np.ndarray) -> dict[str, Any]:
        if not self.learned:
            return {}
        return {"cut_points": np.cumsum(np.concatenate([unconstrained[:1], np.exp(unconstrained[1:])]))}

    def d_parameters(self, y: Array, f: Array) -> tuple[Array, Array]:
        return self.scales.combined(y, self.scales.moments(y, f)) if self.learned else super().d_parameters(y, f)

    def _replaced(self, values: dict[str, Any], learned: tuple[str, ...]) -> Self:
        fitted = super()._replaced(values, learned)
        fitted.without, fitted.n_levels = self.without, self.n_levels
        return fitted


@lru_cache(maxsize=64)
def _increasing(cuts: bytes) -> bool:
    """Whether there are cut points, all finite, each above the one before."""
    values = np.frombuffer(cuts)
    return bool(len(values) and np.all(np.isfinite(values)) and np.all(np.diff(values) > 0))


@lru_cache(maxsize=64)
def _scaled(cuts: bytes, slope: float, dtype: np.dtype) -> tuple[Array, Array, Array]:
    """Lower and upper scaled cut point l and u of each level, and log(1 - exp(l - u))."""
    edges = slope * np.concatenate([[-np.inf], np.frombuffer(cuts), [np.inf]])
    low, high = edges[:-1], edges[1:]
    return low.astype(dtype), high.astype(dtype), np.log(-np.expm1(low - high)).astype(dtype)


def _log_both(t: Array, s: Array, small_t: Array, small_s: Array) -> Array:
    """log sigmoid(t) + log sigmoid(s), t + s > 0, given exp(-|t|) and exp(-|s|)."""
    both = small_t * small_s
    both += small_t
    both += small_s
    value = np.minimum(t, 0.0)
    value += np.minimum(s, 0.0)
    value -= np.log1p(both)
    return value


def _half_rows(cuts: Array, without: tuple[int, ...], slope: float) -> tuple[float, Array, Array]:
    """Half the log probability of each level without rows, its gradient (L - 1,) and Hessian in the cut points.

    Each at a latent of its own: the middle of a level between two with rows; below all of these the upper cut point of
    the lowest, above all the lower one of the highest. So nothing changes where all cut points move together, and the
    cut point of an end settles where the rows together are expected to have half a row beyond it.

    Parameters
    ----------
    cuts : ndarray of shape (L - 1,)
    without : tuple of int
        Levels, of which at least two others have rows.
    slope : float
    """
    rows = np.setdiff1d(np.arange(len(cuts) + 1), without)
    value, gradient, hessian = 0.0, np.zeros(len(cuts)), np.zeros((len(cuts), len(cuts)))
    unit = slope * np.eye(len(cuts))
    for level in without:
        if level < rows[0]:
            at = unit[rows[0]]
        elif level > rows[-1]:
            at = unit[rows[-1] - 1]
        else:
            at = 0.5 * (unit[level] + unit[level - 1])
        sides = [unit[level] - at] if level < len(cuts) else []
        sides += [at - unit[level - 1]] if level > 0 else []
        for side in sides:  # log sigmoid of the distance to an edge
            distance = side @ cuts
            beyond = float(sigmoid(-distance))
            first, second = beyond, beyond * (beyond - 1.0)
            value -= 0.5 * float(np.logaddexp(0.0, -distance))
            gradient += 0.5 * first * side
            hessian += 0.5 * second * np.outer(side, side)
        if len(sides) == 2:  # log(1 - exp(-width))
            width = sides[0] + sides[1]
            size = width @ cuts
            odds = 1.0 / np.expm1(size)
            value += 0.5 * float(np.log(-np.expm1(-size)))
            gradient += 0.5 * odds * width
            hessian -= 0.5 * odds * (1.0 + odds) * np.outer(width, width)
    return value, gradient, hessian
