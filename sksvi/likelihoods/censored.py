"""Censored and truncated y: what is known of a value that was not seen to its end.

Where a quantile of y moves by w(y) with f, the distribution function falls by w p(y | f), so that log P(y > c) and log
P(y <= c) have derivatives from log p alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from operator import attrgetter
from typing import Any

import numpy as np

from sksvi.integrals import quadrature
from sksvi.likelihoods.base import Likelihood
from sksvi.likelihoods.scales import Scales
from sksvi.likelihoods.tails import Tails
from sksvi.likelihoods.traits import Array, LikelihoodTraits, as_float

Terms = tuple[Array, Array, Array]

#: What a row says of its value: that it is `lower`, above it, below `upper`, or between the two.
EXACT, ABOVE, BELOW, BETWEEN = 0.0, 1.0, 2.0, 3.0
#: Step of differences in the learned parameters.
STEP = 5e-3
#: Width of a bound or interval in f, per width of the density.
NARROWER = 0.3


class Censored(Likelihood):
    """A likelihood of measured y of which some rows know a bound or an interval alone.

    y has columns lower, upper and what they say (0: y = lower; 1: y > lower; 2: y <= upper; 3: lower < y <= upper), and
    under truncation the value above which the row could be seen at all. Estimators make them of a frame with columns
    ``time`` and ``event``, or ``lower`` and ``upper``, and of scikit-survival's structured arrays.

    Parameters
    ----------
    likelihood : Likelihood
        Of y itself: Gaussian, Student-t, Gamma, exponential, log-normal, Weibull or log-logistic, or one of your own
        with `tails`.
    truncated : bool, default=False
        Whether y has a fourth column.

    Examples
    --------
    >>> import numpy as np
    >>> from sksvi.likelihoods import Censored, Exponential
    >>> rows = np.array([[2.0, 2.0, 0.0], [2.0, 2.0, 1.0]])  # an event at 2, and none until 2
    >>> print(Censored(Exponential()).log_prob(rows, np.zeros(2)))
    [-2. -2.]
    """

    support = property(attrgetter("likelihood.support"))
    width = property(attrgetter("likelihood.width"))
    link_unit = property(attrgetter("likelihood.link_unit"))
    ratio = property(attrgetter("likelihood.ratio"))
    bends = property(attrgetter("likelihood.bends"))
    reported = property(attrgetter("likelihood.reported"))
    unconstrained = property(attrgetter("likelihood.unconstrained"))

    def __init__(self, likelihood: Likelihood, truncated: bool = False) -> None:
        self.likelihood = likelihood
        self.truncated = truncated

    # ---- of the likelihood of y itself
    @property
    def traits(self) -> LikelihoodTraits:  # type: ignore[override]
        own = self.likelihood.traits
        concave = own.log_concave and not self.truncated
        return LikelihoodTraits(additive=own.additive, log_concave=concave, positive=own.positive, censored=True)

    def mean(self, f: Array) -> Array:
        return self.likelihood.mean(f)

    def conditional_variance(self, f: Array) -> Array:
        return self.likelihood.conditional_variance(f)

    def expected_mean(self, m: Array, v: Array) -> Array | None:
        return self.likelihood.expected_mean(m, v)

    def cdf(self, y: Array, f: Array) -> Array:
        return self.likelihood.cdf(y, f)

    def ppf(self, p: Array | float, f: Array) -> Array:
        return self.likelihood.ppf(p, f)

    def sample(self, f: Array, rng: np.random.Generator) -> Array:
        return self.likelihood.sample(f, rng)

    def cdf_centre(self, y: Array) -> Array:
        return self.likelihood.cdf_centre(y)

    def cdf_width(self, y: Array) -> Array:
        return self.likelihood.cdf_width(y)

    @property
    def tails(self) -> Tails | None:
        return self.likelihood.tails

    @property
    def uncensored(self) -> Likelihood:
        return self.likelihood

    def points(self, y: Array) -> Array:
        lower, upper, kind = (as_float(y)[..., k] for k in range(3))
        return np.where(kind == BETWEEN, 0.5 * (lower + upper), np.where(kind == BELOW, upper, lower))

    def centre(self, y: Array) -> Array:
        return self.likelihood.centre(self.points(y))

    def row_width(self, y: Array) -> Array:
        return self.likelihood.row_width(self.points(y))

    # ---- y
    def check_target(self, y: Array) -> None:
        columns = 4 if self.truncated else 3
        if np.ndim(y) != 2 or np.shape(y)[1] != columns:
            raise ValueError(f"Censored needs y of {columns} columns; found shape {np.shape(y)}: give a frame.")
        y = np.asarray(y, dtype=float)
        lower, upper, kind = y[:, 0], y[:, 1], y[:, 2]
        self.likelihood.check_target(self.points(y))
        if np.any(wrong := (kind == BETWEEN) & ~(lower < upper)):
            row = int(np.argmax(wrong))
            raise ValueError(f"y needs lower <= upper; found {lower[row]:g} and {upper[row]:g} in row {row}.")
        if self.truncated and np.any(wrong := y[:, 3] >= np.where(kind == BELOW, upper, lower)):
            row = int(np.argmax(wrong))
            raise ValueError(f"y needs entry < time; found {y[row, 3]:g} and {lower[row]:g} in row {row}.")

    @property
    def _tails(self) -> Tails:
        found = self.likelihood.tails
        if found is None:
            raise ValueError(f"y of {type(self.likelihood).__name__} cannot be censored: it has no tails.")
        return found

    # ---- log p and its derivatives
    def derivatives(self, y: Array, f: Array) -> Terms:
        f = as_float(f)
        y = np.asarray(y, dtype=f.dtype)
        out = self._by_kind(y, f, lambda kind, rows, at: self._of_kind(kind, rows, at))
        return out[0], out[1], out[2]

    def _by_kind(self, y: Array, f: Array, terms: Any) -> Array:
        """Terms of every row by what it says, (3, ..., n)."""
        shape = np.broadcast_shapes(y.shape[:-1], f.shape)
        f, rows = np.broadcast_to(f, shape), np.broadcast_to(y, (*shape, y.shape[-1]))
        out = np.zeros((3, *shape), f.dtype)
        for kind in (EXACT, ABOVE, BELOW, BETWEEN):
            at = rows[..., 2] == kind
            if at.any():
                out[:, at] = np.stack(terms(kind, rows[at], f[at]))
        late = self._late(rows)
        if late.any():
            out[:, late] -= np.stack(self._tails.above(rows[late][:, 3], f[late]))
        return out

    def _late(self, rows: Array) -> Array:
        """Which rows could not be seen from the start."""
        return rows[..., 3] > self.support.low if self.truncated else np.zeros(rows.shape[:-1], dtype=bool)

    def _of_kind(self, kind: float, rows: Array, f: Array) -> Terms:
        lower, upper = rows[:, 0], rows[:, 1]
        if kind == EXACT:
            return self.likelihood.derivatives(lower, f)
        if kind == ABOVE:
            return self._tails.above(lower, f)
        return self._tails.below(upper, f) if kind == BELOW else self._tails.between(lower, upper, f)

    def expected(self, y: Array, m: Array, v: Array) -> Terms:
        m = as_float(m)
        y, v = np.asarray(y, dtype=m.dtype), np.asarray(v, dtype=m.dtype)
        out = np.zeros((3, len(m)), m.dtype)
        late = self._late(y)
        for kind in (EXACT, ABOVE, BELOW, BETWEEN):
            at = np.flatnonzero(y[:, 2] == kind)
            if not len(at):
                continue
            ends = y[at, 0]
            closed = self.likelihood.expected(ends, m[at], v[at]) if kind == EXACT else None
            closed = self._tails.expected_above(ends, m[at], v[at]) if kind == ABOVE else closed
            out[:, at] = self._integrated(kind, y[at], m[at], v[at]) if closed is None else np.stack(closed)
        if late.any():
            entry, mean, variance = y[late, 3], m[late], v[late]
            closed = self._tails.expected_above(entry, mean, variance)
            rows = np.column_stack([entry, entry])
            out[:, late] -= self._integrated(ABOVE, rows, mean, variance) if closed is None else np.stack(closed)
        return out[0], out[1], out[2]

    def _integrated(self, kind: float, rows: Array, m: Array, v: Array) -> Array:
        """E of terms of rows that say the same, and of its derivatives in m and v, (3, n)."""

        def terms(f: Array, at: Any) -> Terms:
            flat = np.broadcast_to(rows[at], (*f.shape, rows.shape[1])).reshape(-1, rows.shape[1])
            value, slope, curve = self._of_kind(kind, flat, f.ravel())
            return value.reshape(f.shape), slope.reshape(f.shape), curve.reshape(f.shape)

        ends = rows[:, 1] if kind == BELOW else rows[:, 0]
        found = np.stack(quadrature.expect(terms, m, v, NARROWER * self.width, lambda: self.likelihood.centre(ends)))
        found[2] *= 0.5
        return found

    # ---- learned parameters
    def start(self, y: Array, weight: Array | None = None) -> Likelihood:
        if np.all(y[:, 2] == ABOVE):
            raise ValueError(f"y has no event: all {len(y)} rows are censored to the right.")
        return self._with(self.likelihood.start(self.points(y), weight))

    def _with(self, likelihood: Any) -> Censored:
        found = Censored(likelihood, self.truncated)
        found.learned, found.least = likelihood.learned, likelihood.least
        return found

    @property
    def scales(self) -> Scales[Likelihood]:
        return CensoredScales(self)

    def replace(self, unconstrained: Array) -> Censored:
        return self._with(self.likelihood.replace(unconstrained))

    def d_parameters(self, y: Array, f: Array) -> tuple[Array, Array]:
        """By differences of fourth order: few distribution functions have closed derivatives in a shape."""
        at = self.unconstrained
        size, steps = len(at), STEP * np.eye(len(at))

        @cache
        def value(*step: int) -> Array:
            return self.replace(at + np.array(step) @ steps).log_prob(y, f)

        def along(p: int, r: int, k: int) -> Array:
            """Second difference over k steps."""
            a, b = k * np.eye(size, dtype=int)[[p, r]]
            return (value(*(a + b)) + value(*(-a - b)) - value(*(a - b)) - value(*(b - a))) / (2.0 * k * STEP) ** 2

        shape = np.broadcast_shapes(y.shape[:-1], np.shape(f))
        g, h = np.zeros((size, *shape)), np.zeros((size, size, *shape))
        for p, unit in enumerate(np.eye(size, dtype=int)):
            one, two = (value(*(k * unit)) - value(*(-k * unit)) for k in (1, 2))
            g[p] = (8.0 * one - two) / (12.0 * STEP)
            for r in range(p + 1):
                h[p, r] = h[r, p] = (4.0 * along(p, r, 1) - along(p, r, 2)) / 3.0
        return g, h


@dataclass(frozen=True)
class CensoredScales(Scales[Censored]):
    """The learned parameters of the likelihood of y itself."""

    @property
    def _own(self) -> Scales[Any]:
        return self.likelihood.likelihood.scales

    @property
    def size(self) -> int:
        return self._own.size

    @property
    def noise(self) -> float | None:
        return self._own.noise

    @property
    def flat(self) -> tuple[str, ...]:
        return self._own.flat

    @property
    def example(self) -> str:
        return f"Censored({self._own.example})"

    def moved_off_limits(self) -> Censored:
        return self.likelihood._with(self._own.moved_off_limits())

    def drawn(self, unit: float, rng: Any) -> Array:
        return self._own.drawn(unit, rng)

    def warnings(self) -> list[str]:
        return self._own.warnings()

    def prior(self) -> tuple[float, Array, Array] | None:
        return self._own.prior()
