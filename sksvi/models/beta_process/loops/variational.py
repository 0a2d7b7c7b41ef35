"""Compiled mean-field local steps of beta process factor analysis, and what all local steps hand on.

Rows ``y`` (n, D) and features ``phi`` (K, D) come times the root of the noise precision, missing entries of y as 0
with ``observed`` False; so noise has precision 1 here, and with the residual r = o (y - omega phi) it is
B_k = phi_k r + omega_k |phi_k|². A row with missing entries works in its observed columns alone; rows without share
|phi_k|². The draws are in ``loops/gibbs.py``.
"""

from __future__ import annotations

import numpy as np

from sksvi._runtime.compiled import entry, njit

Array = np.ndarray

#: Reassociated sums are vectorised. No loop adds and stores: its bits would depend on where arrays lie.
FAST = {"reassoc", "contract", "nsz"}
#: Columns of a row with missing entries are padded to a multiple of this.
LANES = 8


@njit(fastmath=FAST)
def dot(a: Array, b: Array, n: int) -> float:
    """Product a b over n entries."""
    total = 0.0
    for d in range(n):
        total += a[d] * b[d]
    return total


@njit(fastmath=FAST)
def axpy(scale: float, a: Array, b: Array, n: int) -> None:
    """b += scale a."""
    for d in range(n):
        b[d] += scale * a[d]


@njit()
def observed_columns(observed: Array, index: Array) -> int:
    """The observed columns of a row, in `index`; their number."""
    n = 0
    for d in range(len(observed)):  # without a branch, which no processor would foresee
        index[n] = d
        n += observed[d]
    return n


@njit(fastmath=FAST)
def _gathered(
    phi: Array, spread: Array, index: Array, n: int, width: int, own: Array, size: Array, loose: Array
) -> None:
    """own = phi[:, index] padded with zeros to `width`; size_k = |own_k|², loose_k its posterior variance."""
    has_spread = spread.shape[0] > 0
    for k in range(phi.shape[0]):
        for j in range(n):
            own[k, j] = phi[k, index[j]]
        for j in range(n, width):
            own[k, j] = 0.0
        size[k] = dot(own[k], own[k], n)
        loose[k] = 0.0
        if has_spread:
            total = 0.0
            for j in range(n):
                total += spread[k, index[j]]
            loose[k] = total


@njit()
def sizes(phi: Array, spread: Array) -> tuple[Array, Array]:
    """|phi_k|² over all columns and its posterior variance, shared by the rows without missing entries."""
    size, loose = np.empty(len(phi)), np.zeros(len(phi))
    for k in range(len(phi)):
        size[k] = dot(phi[k], phi[k], phi.shape[1])
        if spread.shape[0] > 0:
            loose[k] = spread[k].sum()
    return size, loose


@njit()
def _prepared(
    phi: Array,
    spread: Array,
    shared: tuple[Array, Array],
    y: Array,
    observed: Array,
    index: Array,
    own: Array,
    size: Array,
    loose: Array,
    r: Array,
) -> tuple[Array, int]:
    """The row's features in its observed columns, their sizes, and the row itself in `r`; the padded width."""
    n = observed_columns(observed, index)
    if n == len(observed):
        size[:], loose[:] = shared
        r[:n] = y
        return phi, n
    width = (n + LANES - 1) // LANES * LANES
    _gathered(phi, spread, index, n, width, own, size, loose)
    for j in range(n):
        r[j] = y[index[j]]
    r[n:width] = 0.0
    return own, width


@njit()
def _spill(r: Array, observed: Array, out: Array) -> float:
    """The residual back in all columns, 0 where missing; its squared length."""
    j, total = 0, 0.0
    for d in range(len(observed)):
        out[d] = 0.0
        if observed[d]:
            out[d] = r[j]
            total += r[j] * r[j]
            j += 1
    return total


@njit()
def _logistic(x: float) -> float:
    if x >= 0.0:
        return 1.0 / (1.0 + np.exp(-x))
    e = np.exp(x)
    return e / (1.0 + e)


@njit(inline="always")
def _factor(
    mean_field: bool, B: float, size: float, logit: float, precision: float, theta: float
) -> tuple[float, float, float]:
    """theta_k, u_k and 1/kappa_k that maximise the local bound given the other factors, theta_k's own line last."""
    if mean_field:
        inverse = 1.0 / (precision + theta * size)
        u = theta * B * inverse
        x = logit + u * B - 0.5 * size * (u * u + inverse)
    else:
        inverse = 1.0 / (precision + size)
        u = B * inverse
        x = logit + 0.5 * np.log(precision * inverse) + 0.5 * B * u
    return _logistic(x), u, inverse


@njit()
def _local_bound(
    mean_field: bool, square: float, size: Array, loose: Array, logit: Array, precision: float, q: Array
) -> float:
    """The local bound of a row up to what rows share; q (3, K) holds theta, u and 1/kappa."""
    total = -0.5 * square
    for k in range(q.shape[1]):
        theta, u, inverse = q[0, k], q[1, k], q[2, k]
        second = u * u + inverse
        total -= 0.5 * (theta * second * (size[k] + loose[k]) - theta * theta * u * u * size[k])
        total += theta * logit[k]
        if 0.0 < theta < 1.0:
            total -= theta * np.log(theta) + (1.0 - theta) * np.log1p(-theta)
        gain = 0.5 * np.log(precision * inverse) + 0.5 - 0.5 * precision * second
        total += gain if mean_field else theta * gain
    return total


@njit()
def _greedy(
    features: Array, width: int, size: Array, loose: Array, base: Array, precision: float, r: Array, q: Array
) -> None:
    """Set a row's q to features in certain use, that with the highest odds next; `r` becomes what they leave."""
    q[0], q[1] = 0.0, 0.0
    for _ in range(q.shape[1]):
        best, highest, weight = -1, 0.0, 0.0
        for k in range(q.shape[1]):
            if q[0, k] == 0.0:
                B, inverse = dot(features[k], r, width), 1.0 / (precision + size[k] + loose[k])
                odds = base[k] + 0.5 * np.log(precision * inverse) + 0.5 * B * B * inverse
                if odds > highest:
                    best, highest, weight = k, odds, B * inverse
        if best < 0:
            return
        q[0, best], q[1, best] = 1.0, weight
        axpy(-weight, features[best], r, width)


@njit()
def _ascended(
    mean_field: bool,
    features: Array,
    width: int,
    size: Array,
    loose: Array,
    logit: Array,
    precision: float,
    max_sweeps: int,
    tol: float,
    r: Array,
    q: Array,
) -> None:
    """Coordinate ascent of a row's local bound from q (3, K), whose residual is `r`."""
    for _ in range(max_sweeps):
        moved = 0.0
        for k in range(q.shape[1]):
            before, mean = q[0, k], q[0, k] * q[1, k]
            B = dot(features[k], r, width) + mean * size[k]
            theta, u, inverse = _factor(mean_field, B, size[k] + loose[k], logit[k], precision, before)
            change = theta * u - mean
            if change != 0.0:
                axpy(-change, features[k], r, width)
            q[0, k], q[1, k], q[2, k] = theta, u, inverse
            moved = max(moved, abs(theta - before))
        if moved < tol:
            break


@entry(
    "q (3, n, K) f",
    "phi (K, D) f",
    "y (n, D) f",
    "observed (n, D)",
    "spread (K|0, D) f",
    "logit (K) f",
    "residual (n, D) f",
    "value (n) f",
)
@njit()
def variational(
    mean_field: bool,
    y: Array,
    observed: Array,
    phi: Array,
    spread: Array,
    logit: Array,
    precision: float,
    max_sweeps: int,
    tol: float,
    q: Array,
    residual: Array,
    value: Array,
) -> None:
    """Ascend each row's local bound from two starts, until no theta moves by `tol` in a sweep, and keep the better end.

    mean_field: q(z_k) q(w_k), else the spike and slab q(z_k, w_k). q (3, n, K): theta, u, 1/kappa. Ascent from even
    odds lets the first features explain what later ones explain better, the more so the surer the features are; from a
    greedy choice it keeps features where noise hides the best ones.
    """
    n_rows, K = q.shape[1:]
    D = phi.shape[1]
    index, r, other = np.empty(D, np.int64), np.zeros(D + LANES), np.empty((3, K))
    own, size, loose, left = np.empty((K, D + LANES)), np.empty(K), np.empty(K), np.empty(D)
    shared = sizes(phi, spread)
    for i in range(n_rows):
        features, width = _prepared(phi, spread, shared, y[i], observed[i], index, own, size, loose, r)
        _greedy(features, width, size, loose, logit, precision, r, other)
        _ascended(mean_field, features, width, size, loose, logit, precision, max_sweeps, tol, r, other)
        square = _spill(r, observed[i], left)
        greedy = _local_bound(mean_field, square, size, loose, logit, precision, other)
        features, width = _prepared(phi, spread, shared, y[i], observed[i], index, own, size, loose, r)
        q[0, i], q[1, i] = 0.5, 0.0
        _ascended(mean_field, features, width, size, loose, logit, precision, max_sweeps, tol, r, q[:, i])
        square = _spill(r, observed[i], residual[i])
        value[i] = _local_bound(mean_field, square, size, loose, logit, precision, q[:, i])
        if greedy > value[i]:
            q[:, i], residual[i], value[i] = other, left, greedy


@njit(fastmath=FAST)
def _add_moments(w: float, r: Array, observed: Array, cross: Array, square: Array) -> None:
    """One feature's share of one draw."""
    for d in range(len(r)):
        cross[d] += w * r[d]
        square[d] += observed[d] * (w * w)


@entry(
    "omega (S, n, K) f",
    "second (S|0, n, K) f",
    "residual (S, n, D) f",
    "observed (n, D)",
    "cross (K, D) f",
    "square (K, D) f",
    "lead (K|0, D) f",
)
@njit()
def statistics(
    omega: Array, second: Array, residual: Array, observed: Array, cross: Array, square: Array, lead: Array
) -> None:
    """Sums over rows and draws: cross_kd = E omega r, square_kd = o E[omega]², lead_kd = o E[z w²].

    second and lead are empty for draws, of which E[omega]² is E z w².
    """
    n_draws, n_rows, K = omega.shape
    observed_row = np.empty(residual.shape[2])
    for i in range(n_rows):
        for d in range(len(observed_row)):
            observed_row[d] = observed[i, d]
        for s in range(n_draws):
            for k in range(K):
                if omega[s, i, k] != 0.0:
                    _add_moments(omega[s, i, k], residual[s, i], observed_row, cross[k], square[k])
        for s in range(len(second)):
            for k in range(K):
                if second[s, i, k] != 0.0:
                    axpy(second[s, i, k], observed_row, lead[k], len(observed_row))
