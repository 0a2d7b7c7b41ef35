"""Compiled loops of `chain_regression`: a filter and smoother of the moving states along many columns at once."""

from __future__ import annotations

import numpy as np

from sksvi._runtime.compiled import entry, njit
from sksvi.families.gaussian.chain_loops import _copies, _direction, _met, _moved, _spread

Array = np.ndarray


@njit()
def _times(rows: Array, starts: Array, columns: Array, values: Array, a: Array, work: Array) -> None:
    """a = A a of many columns; `work` of its shape is written."""
    for i in range(len(rows)):
        for j in range(a.shape[1]):
            work[i, j] = 0.0
            for k in range(starts[i], starts[i + 1]):
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


@entry(
    "out (T,K) f",
    "X (T,E) f",
    "h (S) f",
    "rows (R) i < K",
    "starts (R+1) i cuts e",
    "columns (e) i < K",
    "values (e) f",
)
@njit()
def rolled(X: Array, h: Array, rows: Array, starts: Array, columns: Array, values: Array, out: Array) -> None:
    """Rows h_tᵀA^t of f, whose states with their share in `h` and with theirs in X do not depend on one another."""
    S, E = len(h), X.shape[1]
    own = int(np.searchsorted(rows, S))
    here, work = np.zeros((S, 1)), np.empty((S, 1))
    here[:, 0] = h
    power, product = np.eye(E), np.empty((len(rows) - own, E))
    before, before_starts = rows[:own], starts[: own + 1]
    later, later_starts, shifted = rows[own:] - S, starts[own:], columns - S
    for t in range(len(out)):
        if t:
            _times_back(before, before_starts, columns, values, here, work)
            _times(later, later_starts, shifted, values, power, product)
        for j in range(S):
            out[t, j] = here[j, 0]
        for j in range(E):
            out[t, S + j] = 0.0 if own < len(rows) else X[t, j]
        for i in range(E if own < len(rows) else 0):
            if X[t, i] != 0.0:
                for j in range(E):
                    out[t, S + j] += X[t, i] * power[i, j]


@entry(
    "X (T,E) f",
    "h (S) f",
    "noise (S+E) f",
    "noise (m) f",
    "rows (R) i < m",
    "starts (R+1) i cuts e",
    "columns (e) i < m",
    "values (e) f",
    "P (m,m) f",
    "weights (T) f",
    "Z (T,K) f",
    "damped (k) i < m",
    "D (T) f",
    "spread (T,m) f",
    "filtered (T,k,K) f",
    "reach (T,k,m) f",
    "a (m,K) f",
)
@njit()
def filter_columns(
    X: Array,
    h: Array,
    rows: Array,
    starts: Array,
    columns: Array,
    values: Array,
    noise: Array,
    P: Array,
    weights: Array,
    Z: Array,
    damped: Array,
    D: Array,
    spread: Array,
    filtered: Array,
    reach: Array,
    a: Array,
) -> None:
    """Columns of Z (T, K) less their predictions by the moving states, in place.

    Written: D = 1 + W s and the vectors P h of each point; of `damped` states after each message what each column
    makes of them, and their rows of P; to `a` (zeros) what the columns make of the last states.
    """
    m, (T, K) = len(noise), Z.shape
    direction, g, none = np.empty(m), np.empty(m), np.zeros(m)
    source, _, sums = _copies(rows, starts, columns, values, m)
    work, new, moved = np.empty((len(sums), m + 1)), np.empty((m, m)), np.empty((m, K))
    for t in range(T):
        _direction(X, h, t, direction)
        M = spread[t]
        D[t] = 1.0 + weights[t] * _spread(P, direction, M)
        for j in range(K):
            for i in range(m):
                Z[t, j] -= direction[i] * a[i, j]
            for i in range(m):
                a[i, j] += M[i] * weights[t] * Z[t, j] / D[t]
        _met(none, P, M, 0.0, weights[t] / D[t], g)
        for i in range(len(damped)):
            for j in range(K):
                filtered[t, i, j] = a[damped[i], j]
            for j in range(m):
                reach[t, i, j] = P[damped[i], j]
        if t < T - 1:
            _moved(none, P, rows, starts, columns, values, noise, source, sums, work, new)
            _times(rows, starts, columns, values, a, moved)


@entry(
    "X (T,E) f",
    "h (S) f",
    "noise (S+E) f",
    "noise (m) f",
    "rows (R) i < m",
    "starts (R+1) i cuts e",
    "columns (e) i < m",
    "values (e) f",
    "weights (T) f",
    "Z (T,K) f",
    "D (T) f",
    "spread (T,m) f",
    "filtered (T,k,K) f",
    "reach (T,k,m) f",
    "score (m) f",
    "r (m,K) f",
    "pull (m,k) f",
)
@njit()
def smooth_columns(
    X: Array,
    h: Array,
    rows: Array,
    starts: Array,
    columns: Array,
    values: Array,
    noise: Array,
    weights: Array,
    Z: Array,
    D: Array,
    spread: Array,
    filtered: Array,
    reach: Array,
    score: Array,
    r: Array,
    pull: Array,
) -> None:
    """Innovations Z become what is left of the columns once all messages are known.

    Added to `score` and `pull` is what the columns' uncertainty of one has in those of `chain_loops.smooth`; to `r`
    (zeros) the columns' slopes in the states before the first message.
    """
    T, m, K = len(weights), len(noise), Z.shape[1]
    direction, back = np.empty(m), np.empty((m, K))
    for t in range(T - 1, -1, -1):
        if t < T - 1:
            for i in range(m):
                for j in range(K):
                    score[i] += r[i, j] * r[i, j]
            for d in range(filtered.shape[1]):
                _pulled(rows, starts, columns, values, reach[t, d], filtered[t, d], r, direction, pull[:, d])
            _times_back(rows, starts, columns, values, r, back)
        _direction(X, h, t, direction)
        for j in range(K):
            for i in range(m):
                Z[t, j] -= spread[t, i] * r[i, j]
            Z[t, j] /= D[t]
            for i in range(m):
                r[i, j] += direction[i] * weights[t] * Z[t, j]


@njit()
def _pulled(
    rows: Array,
    starts: Array,
    columns: Array,
    values: Array,
    reach: Array,
    filtered: Array,
    r: Array,
    moved: Array,
    pull: Array,
) -> None:
    """pull += Σ over columns of r times one smoothed state, whose row of P is `reach`."""
    m, K = r.shape
    for i in range(m):
        moved[i] = reach[i]
    for i in range(len(rows)):
        total = 0.0
        for k in range(starts[i], starts[i + 1]):
            total += values[k] * reach[columns[k]]
        moved[rows[i]] = total
    for j in range(K):
        state = filtered[j]
        for i in range(m):
            state += moved[i] * r[i, j]
        for i in range(m):
            pull[i] += r[i, j] * state
