"""The terms of the optimal bound from a table: E log phi(u, w2) over the noise is a function of y and u alone.

log phi(u, w2) = log E p(y | f) under f ~ N(u, w2) depends on neither q(w) nor q(w2), so one table per distinct y serves
every pass of a fit. Its lattice is fixed in u and in log w2: for any scale of q(w2) the average over w2 is a weighted
sum of columns (the trapezoidal rule in log w2), and what is left is a function of u, a quintic spline, that is averaged
over N(m, v) row by row. Whatever is filled in when, a row's bits depend on that row alone.
"""

from __future__ import annotations

from threading import Lock
from typing import Any
from uuid import uuid4

import numpy as np

from sksvi.expectations import Expectation, Quadrature
from sksvi.integrals import rayleigh
from sksvi.likelihoods.base import Likelihood
from sksvi.models.mixed import noise_bounds, noise_marginal

Array = np.ndarray

#: Step of the lattice in u, in widths of the likelihood, and in log w2; cells of u that are filled together.
STEP, LOG_STEP, CELLS = 0.5, 0.2, 4
#: Ends of the lattice in w2, in scales of q(w2).
LEAST, MOST = 2e-4, 6.6
#: Rows whose nodes of u lie farther out, in widths, are not served: all others ask for less than `BLOCKS`.
FARTHEST = 500.0
BLOCKS = 512
#: Blocks that all values of y may ask for together, 6 kB each: nodes that lie farther from m are not served either.
MOST_BLOCKS = 2**16
#: How far nodes lie from m: so many sd, and so many v / width more where `rayleigh.over_mean` follows a rate exp(u).
REACH, STEEP = 6.5, 1.5
#: Slots times nodes of w2 that are filled at once.
AT_ONCE = 2**12
#: Most distinct y that a table is made for: about 10 kB each, more where u is uncertain.
MOST_VALUES = 2048


def noise_weights(sigma: float) -> tuple[range, Array, Array]:
    """Numbers k of the nodes w2 = exp(k LOG_STEP), their weights under Rayleigh(sigma), derivatives of these in sigma.

    The trapezoidal rule in log w2; what is left below the first node belongs to it.
    """
    numbers = range(int(np.floor(np.log(LEAST * sigma) / LOG_STEP)), int(np.ceil(np.log(MOST * sigma) / LOG_STEP)) + 1)
    square = np.square(np.exp(LOG_STEP * np.array(numbers)) / sigma)
    weight = LOG_STEP * square * np.exp(-0.5 * square)
    slope = weight * (square - 2.0) / sigma
    weight[0] += 1.0 - weight.sum()
    slope[0] -= slope.sum()
    return numbers, weight, slope


class NoiseTable:
    """log phi of one likelihood, filled as rows ask for it.

    Parameters
    ----------
    likelihood : Likelihood
        With one latent, every parameter a number.
    n_values : int, default=1
        Distinct y of the fit, as many as which share the table's memory.
    """

    def __init__(self, likelihood: Likelihood, n_values: int = 1) -> None:
        self.likelihood, self.n_values, self.key = likelihood, n_values, uuid4().hex
        # A block has CELLS * STEP = 2 widths, nodes lie to both sides.
        self._reach = MOST_BLOCKS / n_values * 0.5 * CELLS * STEP
        self._step = STEP * likelihood.width
        self._lock = Lock()
        self._ids: dict[bytes, int] = {}
        #: The y that were asked for last, and their numbers.
        self._last_rows = np.empty(0), np.empty(0, np.intp)
        #: The distinct y by their numbers.
        self._y: Array | None = None
        #: By number of y times `BLOCKS` and block of cells the slot in what follows, -1: none yet; and back.
        self._slot_of = np.empty(0, np.intp)
        self._of, self._block = np.empty(0, np.intp), np.empty(0, np.intp)
        #: By slot and node of w2, from the number `_first` on: log phi, r1, r2 at the lattice points; NaN where not
        #: asked for.
        self._first, self._nodes = 0, np.empty((0, 0, CELLS + 1, 3))
        self._sigma = 0.0
        self._ready = np.empty(0, bool)
        self._cells = np.empty((12, 0))

    def __reduce__(self) -> Any:
        """Another process fills a table of its own, and finds it again in the next pass: rows' bits are the same."""
        return _arrived, (self.likelihood, self.n_values, self.key)

    def optimal(
        self, likelihood: Likelihood, y: Array, m: Array, v: Array, sigma: float, expect: Expectation, rng: Any = None
    ) -> noise_bounds.Terms:
        """`noise_bounds.optimal` of the table's own likelihood: from the table where q(u) is narrow, else directly."""
        if not isinstance(expect, Quadrature) or not len(m):
            return noise_bounds.optimal(likelihood, y, m, v, sigma, expect, rng)
        y, m, v = noise_bounds.prepared(y, m, v)
        ratio = np.sqrt(v) / likelihood.width
        steep = likelihood.traits.exponential & (ratio <= rayleigh.STEEPEST)
        reach = (REACH + STEEP * steep * ratio) * ratio
        tabulated = (reach <= self._reach) & (np.abs(m) / likelihood.width + reach <= FARTHEST)
        out: list[Array] = []
        for one, rows in ((self._terms, np.flatnonzero(tabulated)), (self._direct, np.flatnonzero(~tabulated))):
            if len(rows):
                rayleigh.write(out, one(y[rows], m[rows], v[rows], sigma, expect), rows, len(m))
        return tuple(out)  # type: ignore[return-value]

    def _direct(self, y: Array, m: Array, v: Array, sigma: float, expect: Expectation) -> noise_bounds.Terms:
        return noise_bounds.optimal(self.likelihood, y, m, v, sigma, expect)

    def _terms(self, y: Array, m: Array, v: Array, sigma: float, expect: Expectation) -> list[Array]:
        last, number = self._last_rows
        if not np.array_equal(y, last):  # the same rows come in every pass
            values, own = np.unique(y, axis=0, return_inverse=True)
            number = self._known(values)[own.ravel()]
            self._last_rows = y, number
        middle = number * BLOCKS + BLOCKS // 2
        wanted = np.zeros(len(self._slot_of), bool)

        def place(u: Array, at: Any) -> tuple[Array, Array, Array]:
            position = u / self._step
            cell = np.floor(position)
            block, within = np.divmod(cell.astype(np.intp), CELLS)
            return middle[at] + block, within, position - cell

        def look(u: Array, at: Any) -> list[Array]:
            wanted[place(u, at)[0]] = True
            return []

        def scores(u: Array, at: Any) -> list[Array]:
            code, within, x = place(u, at)
            c = cells.take(slot_of[code] * CELLS + within, axis=1)
            value = ((((c[5] * x + c[4]) * x + c[3]) * x + c[2]) * x + c[1]) * x + c[0]
            slope = (((5.0 * c[5] * x + 4.0 * c[4]) * x + 3.0 * c[3]) * x + 2.0 * c[2]) * x + c[1]
            bend = ((10.0 * c[5] * x + 6.0 * c[4]) * x + 3.0 * c[3]) * x + c[2]
            noise = ((((c[11] * x + c[10]) * x + c[9]) * x + c[8]) * x + c[7]) * x + c[6]
            return [value, slope / self._step, bend / self._step**2, noise]

        # What all rules ask for is filled at once: of few rows calls take longer than numbers.
        rayleigh.over_mean(look, self.likelihood, y, m, v, 0.0)
        slot_of, cells = self._requested(np.flatnonzero(wanted), sigma)
        return rayleigh.over_mean(scores, self.likelihood, y, m, v, 0.0)

    # ---- all that follows is done by one thread at a time; arrays that another may be reading are made anew
    def _known(self, values: Array) -> Array:
        """Numbers of these distinct y, new ones entered."""
        with self._lock:
            keys = [value.tobytes() for value in values]
            new = [i for i, key in enumerate(keys) if key not in self._ids]
            if new:
                self._ids.update({keys[i]: len(self._ids) + at for at, i in enumerate(new)})
                self._y = values[new] if self._y is None else np.concatenate([self._y, values[new]])
                self._slot_of = np.append(self._slot_of, np.full(len(new) * BLOCKS, -1))
            return np.array([self._ids[key] for key in keys])

    def _requested(self, codes: Array, sigma: float) -> tuple[Array, Array]:
        """Slots by code of y and block, and the coefficients of all slots, those of `codes` filled for `sigma`."""
        with self._lock:
            if sigma != self._sigma:
                self._sigma, self._ready = sigma, np.zeros_like(self._ready)
            new = codes[self._slot_of[codes] < 0]
            if len(new):
                self._enter(new)
            slots = self._slot_of[codes]
            todo = slots[~self._ready[slots]]
            if len(todo):
                self._contract(todo)
            return self._slot_of, self._cells

    def _enter(self, codes: Array) -> None:
        """Slots for pairs of y and block."""
        y, block = np.divmod(codes, BLOCKS)
        first, more = len(self._block), len(codes)
        self._slot_of[codes] = first + np.arange(more)
        self._of = np.concatenate([self._of, y])
        self._block = np.concatenate([self._block, block - BLOCKS // 2])
        self._ready = np.concatenate([self._ready, np.zeros(more, bool)])
        self._cells = np.concatenate([self._cells, np.empty((12, more * CELLS))], axis=1)
        self._nodes = np.concatenate([self._nodes, np.full((more, *self._nodes.shape[1:]), np.nan)])

    def _contract(self, slots: Array) -> None:
        """Spline coefficients of the average over w2, and of its derivative in the noise's moment, for these slots."""
        numbers, weights, slopes = noise_weights(self._sigma)
        own = self._filled(numbers, slots).reshape(len(slots), len(numbers), -1)
        # One product for each slot: its bits do not depend on how many there are.
        sums = np.stack([weights, slopes * (0.25 / self._sigma)]) @ own
        both = spline(sums.reshape(len(slots), 2, CELLS + 1, 3) * self._step ** np.arange(3))
        self._cells = self._cells.copy()
        self._cells.reshape(12, -1, CELLS)[:, slots] = both.transpose(1, 3, 0, 2).reshape(12, len(slots), CELLS)
        self._ready[slots] = True

    def _filled(self, numbers: range, slots: Array) -> Array:
        """log phi, r1, r2 (slots, nodes, lattice points, 3) at these nodes of w2, computed where not known yet."""
        self._extend(numbers)
        at = slice(numbers.start - self._first, numbers.stop - self._first)
        row, column = np.nonzero(np.isnan(self._nodes[slots, at, 0, 0]))
        for start in range(0, len(row), AT_ONCE):
            slot, k = slots[row[start : start + AT_ONCE]], column[start : start + AT_ONCE] + numbers.start
            u = self._step * (CELLS * self._block[slot] + np.arange(CELLS + 1)[:, None])
            y = self._y[self._of[slot]]  # type: ignore[index]
            parts = noise_marginal.log_marginal(self.likelihood, y, u, np.exp(LOG_STEP * k))
            self._nodes[slot, k - self._first] = np.stack(parts, axis=-1).swapaxes(0, 1)
        return self._nodes[slots, at]

    def _extend(self, numbers: range) -> None:
        """Places for nodes of these numbers."""
        n_slots, n_nodes = self._nodes.shape[:2]
        if not n_nodes:
            self._first = numbers.start
        before, after = max(self._first - numbers.start, 0), max(numbers.stop - self._first - n_nodes, 0)
        if before or after:
            ends = (np.full((n_slots, size, CELLS + 1, 3), np.nan) for size in (before, after))
            self._nodes = np.concatenate([next(ends), self._nodes, next(ends)], axis=1)
            self._first -= before


#: Tables that came to this process last, the latest at the end, and how many stay.
_ARRIVED: dict[str, NoiseTable] = {}
_MOST_ARRIVED, _ARRIVING = 2, Lock()


def _arrived(likelihood: Likelihood, n_values: int, key: str) -> NoiseTable:
    """The table of a fit that another process leads, with what this process has filled in."""
    with _ARRIVING:
        table = _ARRIVED.pop(key, None) or NoiseTable(likelihood, n_values)
        table.key = key
        _ARRIVED[key] = table
        while len(_ARRIVED) > _MOST_ARRIVED:
            del _ARRIVED[next(iter(_ARRIVED))]
        return table


def spline(values: Array) -> Array:
    """Coefficients (..., cells, 6) of each cell's quintic, in its own unit, from value and derivatives at its ends."""
    a, b = values[..., :-1, :], values[..., 1:, :]
    rise = b[..., 0] - a[..., 0]
    d0, d1, s0, s1 = a[..., 1], b[..., 1], a[..., 2], b[..., 2]
    third = 10.0 * rise - 6.0 * d0 - 4.0 * d1 - 1.5 * s0 + 0.5 * s1
    fourth = -15.0 * rise + 8.0 * d0 + 7.0 * d1 + 1.5 * s0 - s1
    fifth = 6.0 * rise - 3.0 * (d0 + d1) - 0.5 * (s0 - s1)
    return np.stack([a[..., 0], d0, 0.5 * s0, third, fourth, fifth], axis=-1)
