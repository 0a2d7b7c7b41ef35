"""Compiled loops of `chain_regression`: a filter and smoother of the moving states along many columns at once."""

from __future__ import annotations

import numpy as np

from sksvi._runtime.compiled import entry, njit
from sksvi.families.gaussian.chain_loops import _copies, _direction, _met, _moved, _spread

Array = np.ndarray


@njit()
def _add(row: Array, factor: float, total: Array) -> None:
    """Total += factor times row."""
    for j in range(len(total)):
        total[j] += factor * row[j]


@njit()
def _times(rows: Array, starts: Array, columns: Array, values: Array, a: Array, work: Array) -> None:
    """a = A a of many columns; `work` of its shape is written."""
    for i in range(len(rows)):
        for j in range(a.shape[1]):
            work[i, j] = 0.0
        for k in range(starts[i], starts[i + 1]):
            for j in range(a.shape[1]):
                work[i, j] += values[k] * a[columns[k], j]
    for i in range(len(rows)):
        for j in range(a.shape[1]):
            a[rows[i], j] = work[i, j]


@njit()
def _times_back(rows: Array, starts: Array, columns: Array, values: Array, r: Array, work: Array) -> None:
    """r = Aᵀr of many columns; `work` of its shape is written."""
    for i in range(len(rows)):
        for j in range(r.shape[1]):
            work[i, j] = r[rows[i], j]
            r[rows[i], j] = 0.0
    for i in range(len(rows)):
        for k in range(starts[i], starts[i + 1]):
            for j in range(r.shape[1]):
                r[columns[k], j] += values[k] * work[i, j]


@njit()
def _one_back(rows: Array, starts: Array, columns: Array, values: Array, r: Array, work: Array) -> None:
    """r = Aᵀr of one column; `work`, one number for each of the rows, is written."""
    for i in range(len(rows)):
        work[i] = r[rows[i]]
        r[rows[i]] = 0.0
    for i in range(len(rows)):
        for k in range(starts[i], starts[i + 1]):
            r[columns[k]] += values[k] * work[i]


@entry(
    "out (T,K) f", "X (T,E) f", "h (S) f", "rows (R) i < K", "starts (R+1) i cuts e", "columns (e) i < K",
    "values (e) f",
)  # fmt: skip
@njit()
def rolled(X: Array, h: Array, rows: Array, starts: Array, columns: Array, values: Array, out: Array) -> None:
    """Rows h_tᵀA^t of f, whose states with their share in `h` and with theirs in X do not depend on one another."""
    S, E = len(h), X.shape[1]
    own = int(np.searchsorted(rows, S))
    here, work = h.copy(), np.empty(own)
    power, product = np.eye(E), np.empty((len(rows) - own, E))
    before, before_starts = rows[:own], starts[: own + 1]
    later, later_starts, shifted = rows[own:] - S, starts[own:], columns - S
    for t in range(len(out)):
        if t:
            _one_back(before, before_starts, columns, values, here, work)
            _times(later, later_starts, shifted, values, power, product)
        for j in range(S):
            out[t, j] = here[j]
        for j in range(E):
            out[t, S + j] = 0.0 if own < len(rows) else X[t, j]
        for i in range(E if own < len(rows) else 0):
            if X[t, i] != 0.0:
                for j in range(E):
                    out[t, S + j] += X[t, i] * power[i, j]


@entry(
    "X (T,E) f", "h (S) f", "noise (S+E) f", "noise (m) f", "rows (R) i < m", "starts (R+1) i cuts e",
    "columns (e) i < m", "values (e) f", "P (m,m) f", "weights (T) f", "Z (T,K) f", "damped (k) i < m", "D (T) f",
    "spread (T,m) f", "reach (T,k,m) f",
)  # fmt: skip
@njit()
def filter_columns(
    X: Array, h: Array, rows: Array, starts: Array, columns: Array, values: Array, noise: Array, P: Array,
    weights: Array, Z: Array, damped: Array, D: Array, spread: Array, reach: Array,
) -> None:  # fmt: skip
    """Columns of Z (T, K) less their predictions by the moving states, in place.

    Written: D = 1 + W s and the vectors P h of each point, and of `damped` states after each message their rows of P.
    """
    m, (T, K) = len(noise), Z.shape
    a = np.zeros((m, K))
    direction, g, none = np.empty(m), np.empty(m), np.zeros(m)
    source, _, sums = _copies(rows, starts, columns, values, m)
    work, new, moved = np.empty((len(sums), m + 1)), np.empty((m, m)), np.empty((m, K))
    for t in range(T):
        _direction(X, h, t, direction)
        M = spread[t]
        D[t] = 1.0 + weights[t] * _spread(P, direction, M)
        for i in range(m):
            _add(a[i], -direction[i], Z[t])
        for i in range(m):
            _add(Z[t], M[i] * weights[t] / D[t], a[i])
        _met(none, P, M, 0.0, weights[t] / D[t], g)
        for i in range(len(damped)):
            for j in range(m):
                reach[t, i, j] = P[damped[i], j]
        if t < T - 1:
            _moved(none, P, rows, starts, columns, values, noise, source, sums, work, new)
            _times(rows, starts, columns, values, a, moved)


@entry(
    "a (m,K) f", "rows (R) i < m", "starts (R+1) i cuts e", "columns (e) i < m", "values (e) f", "weights (T) f",
    "Z (T,K) f", "D (T) f", "spread (T,m) f", "damped (k) i < m", "filtered (T,k,K) f",
)  # fmt: skip
@njit()
def states_of_columns(
    rows: Array, starts: Array, columns: Array, values: Array, weights: Array, Z: Array, D: Array, spread: Array,
    damped: Array, filtered: Array, a: Array,
) -> None:  # fmt: skip
    """What columns with innovations Z make of the `damped` states after each message, and in `a` of the last states.

    `a`: zeros.
    """
    m, T = spread.shape[1], len(weights)
    moved = np.empty(a.shape)
    for t in range(T):
        for i in range(m):
            _add(Z[t], spread[t, i] * weights[t] / D[t], a[i])
        for i in range(len(damped)):
            filtered[t, i] = a[damped[i]]
        if t < T - 1:
            _times(rows, starts, columns, values, a, moved)


@entry(
    "X (T,E) f", "h (S) f", "noise (S+E) f", "noise (m) f", "rows (R) i < m", "starts (R+1) i cuts e",
    "columns (e) i < m", "values (e) f", "weights (T) f", "Z (T,K) f", "D (T) f", "spread (T,m) f",
    "filtered (T,k,K) f", "reach (T,k,m) f", "scores (m,K) f", "r (m,K) f", "pulls (k,m,K) f",
)  # fmt: skip
@njit()
def smooth_columns(
    X: Array, h: Array, rows: Array, starts: Array, columns: Array, values: Array, noise: Array, weights: Array,
    Z: Array, D: Array, spread: Array, filtered: Array, reach: Array, scores: Array, r: Array, pulls: Array,
) -> None:  # fmt: skip
    """Innovations Z become what is left of the columns once all messages are known.

    Written over zeros: to `scores` and `pulls` what the uncertainty of each column, of one, has in score and pull of
    `chain_loops.smooth`; to `r` the columns' slopes in the states before the first message.
    """
    T, m, K, k = len(weights), len(noise), Z.shape[1], filtered.shape[1]
    direction, back, state = np.empty(m), np.empty((m, K)), np.empty(K)
    for t in range(T - 1, -1, -1):
        if t < T - 1:
            for i in range(m):
                _add_product(r[i], r[i], scores[i])
            for d in range(k):
                state[:] = filtered[t, d]
                _pulled(rows, starts, columns, values, reach[t, d], r, direction, state, pulls[d])
            _times_back(rows, starts, columns, values, r, back)
        _direction(X, h, t, direction)
        for i in range(m):
            _add(r[i], -spread[t, i], Z[t])
        share = 1.0 / D[t]
        for j in range(K):
            Z[t, j] *= share
        for i in range(m):
            _add(Z[t], direction[i] * weights[t], r[i])


@njit()
def _add_product(one: Array, other: Array, total: Array) -> None:
    """Total += one times other."""
    for j in range(len(total)):
        total[j] += one[j] * other[j]


@njit()
def _pulled(
    rows: Array, starts: Array, columns: Array, values: Array, reach: Array, r: Array, moved: Array, state: Array,
    pulls: Array,
) -> None:  # fmt: skip
    """Pulls += r times one state of each column, whose row of P is `reach`; `state` is filtered, then smoothed."""
    m = len(r)
    for i in range(m):
        moved[i] = reach[i]
    for i in range(len(rows)):
        total = 0.0
        for k in range(starts[i], starts[i + 1]):
            total += values[k] * reach[columns[k]]
        moved[rows[i]] = total
    for i in range(m):
        _add(r[i], moved[i], state)
    for i in range(m):
        _add_product(r[i], state, pulls[i])
