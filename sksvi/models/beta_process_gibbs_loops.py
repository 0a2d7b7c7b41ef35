"""Compiled Gibbs draws of beta process factor analysis: local steps of a block's rows, and features (equations.md 7).

Units are those of ``beta_process_loops``. A row with missing entries works in its observed columns alone; rows without
work in the K x K matrix ``gram`` = phi phiᵀ. Each row draws from a stream of its own, so that no split of the rows
changes a bit.
"""

from __future__ import annotations

import numba
import numpy as np

from sksvi.models.beta_process_loops import FAST, axpy, observed_columns

Array = np.ndarray

#: Features whose odds are looked at together.
CHUNK = 32
#: Most features of a greedy start.
MOST_GREEDY = 40

GOLDEN, MIX1, MIX2 = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
S30, S27, S31, S11 = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(11)
UNIT = 2.0**-53


@numba.njit(cache=True, nogil=True, inline="always")
def _mixed(state: np.uint64) -> np.uint64:
    """One output of SplitMix64 (Steele, Lea and Flood 2014)."""
    z = (state ^ (state >> S30)) * MIX1
    z = (z ^ (z >> S27)) * MIX2
    return z ^ (z >> S31)


@numba.njit(cache=True, nogil=True, inline="always")
def _uniform(state: Array) -> float:
    """In (0, 1)."""
    state[0] += GOLDEN
    return (float(_mixed(state[0]) >> S11) + 0.5) * UNIT


@numba.njit(cache=True, nogil=True, inline="always")
def _chosen(x: float, u: float) -> bool:
    """u < sigmoid(x), without the exponential where a bound on it decides."""
    if x < 0.0:
        if u > 0.5 or (x < -4.0 and u > 0.018):
            return False
        if x < -12.0 and u > 6.2e-6:
            return False
    elif u < 0.5:
        return True
    return u * (1.0 + np.exp(-x)) < 1.0


@numba.njit(cache=True, nogil=True, fastmath=FAST)
def _slopes(phi_t: Array, begin: int, index: Array, n: int, r: Array, out: Array) -> None:
    """phi_k r for the features from `begin` on that `out` has room for: vectorised over features, not over columns."""
    out[:] = 0.0
    for j in range(n):
        row, scale = phi_t[index[j]][begin:], r[j]
        for k in range(len(out)):
            out[k] += scale * row[k]


@numba.njit(cache=True, nogil=True, inline="always")
def _uniform_of(first: np.uint64, k: int) -> float:
    """The k-th number of the stream that begins at `first`, in (0, 1)."""
    return (float(_mixed(first + np.uint64(k) * GOLDEN) >> S11) + 0.5) * UNIT


@numba.njit(cache=True, nogil=True, fastmath=FAST)
def _open(c: Array, omega: Array, size: Array, base: Array, inverse: Array, first: np.uint64) -> bool:
    """Whether any z of a chunk may be 1, or was.

    1/sigmoid(x) = 1 + e^-x is at least a polynomial of -x where x < 0: it settles nearly all z without an exponential.
    """
    hits = 0
    for k in range(len(c)):
        B = c[k] + omega[k] * size[k]
        x = base[k] + 0.5 * B * B * inverse[k]
        below = 2.0 - x * (1.0 - x * (0.5 - x * (1.0 / 6.0 - x / 24.0)))
        # `_uniform_of`, written out: only so is this loop vectorised.
        z = first + np.uint64(k) * GOLDEN
        z = (z ^ (z >> S30)) * MIX1
        z = (z ^ (z >> S27)) * MIX2
        u = (float((z ^ (z >> S31)) >> S11) + 0.5) * UNIT
        hits += 1 if (x >= 0.0) | (u * below < 1.0) | (omega[k] != 0.0) else 0
    return hits > 0


@numba.njit(cache=True, nogil=True, inline="always")
def _normal(state: Array, spare: Array) -> float:
    """Box and Muller; the second of the two waits in `spare`."""
    if spare[0] != 0.0:
        value = spare[0]
        spare[0] = 0.0
        return value
    radius, angle = np.sqrt(-2.0 * np.log(_uniform(state))), 2.0 * np.pi * _uniform(state)
    spare[0] = radius * np.sin(angle)
    return radius * np.cos(angle)


@numba.njit(cache=True, nogil=True)
def _sweep(
    phi_t: Array,
    gram: Array,
    index: Array,
    n: int,
    size: Array,
    base: Array,
    inverse: Array,
    omega: Array,
    r: Array,
    c: Array,
    first: np.uint64,
    state: Array,
    spare: Array,
) -> None:
    """One Gibbs sweep over the (z_k, w_k) of a row, chunk by chunk.

    With `gram`, c = phi r is kept up to date by its columns; else it is summed for each chunk over the n observed
    columns `index` of the residual r, and again after a change for what is left of the chunk.
    """
    K, shared = len(omega), gram.shape[0] > 0
    for begin in range(0, K, CHUNK):
        end = min(begin + CHUNK, K)
        part = slice(begin, end)
        if not shared:
            _slopes(phi_t, begin, index, n, r, c[part])
        if not _open(c[part], omega[part], size[part], base[part], inverse[part], first + np.uint64(begin) * GOLDEN):
            continue
        for k in range(begin, end):
            old = omega[k]
            B = c[k] + old * size[k]
            new = 0.0
            if _chosen(base[k] + 0.5 * B * B * inverse[k], _uniform_of(first, k)):
                new = B * inverse[k] + np.sqrt(inverse[k]) * _normal(state, spare)
            if new == old:
                continue
            omega[k] = new
            if shared:
                axpy(old - new, gram[k], c, K)
            else:
                for j in range(n):
                    r[j] += (old - new) * phi_t[index[j], k]
                _slopes(phi_t, k + 1, index, n, r, c[k + 1 : end])


@numba.njit(cache=True, nogil=True, fastmath=FAST | {"nnan"})
def _highest(c: Array, omega: Array, base: Array, inverse: Array) -> float:
    """Highest log odds of use among the features that are not used, at least 0."""
    highest = 0.0
    for k in range(len(c)):
        x = base[k] + 0.5 * c[k] * c[k] * inverse[k]
        highest = max(highest, x if omega[k] == 0.0 else 0.0)
    return highest


@numba.njit(cache=True, nogil=True, fastmath=FAST)
def _best(c: Array, omega: Array, base: Array, inverse: Array) -> int:
    """The feature of the highest odds, -1 where none is more likely used than not."""
    highest = _highest(c, omega, base, inverse)
    if highest > 0.0:
        for k in range(len(c)):
            # The two loops may round apart.
            if omega[k] == 0.0 and base[k] + 0.5 * c[k] * c[k] * inverse[k] >= highest * (1.0 - 1e-12):
                return k
    return -1


@numba.njit(cache=True, nogil=True)
def _greedy(
    phi_t: Array,
    gram: Array,
    index: Array,
    n: int,
    size: Array,
    base: Array,
    inverse: Array,
    omega: Array,
    r: Array,
    c: Array,
) -> None:
    """Where a row's draws start: features one after the other, the one with the highest odds of use next.

    A first sweep in the order of the features would give each its share of what others explain better, and the few
    sweeps that follow do not undo it.
    """
    K, shared = len(omega), gram.shape[0] > 0
    for _ in range(min(K, MOST_GREEDY)):
        if not shared:
            _slopes(phi_t, 0, index, n, r, c)
        best = _best(c, omega, base, inverse)
        if best < 0:
            break
        omega[best] = c[best] * inverse[best]
        if shared:
            axpy(-omega[best], gram[best], c, K)
        for j in range(n):
            r[j] -= omega[best] * phi_t[index[j], best]


@numba.njit(cache=True, nogil=True)
def _draw_value(square: float, omega: Array, inverse: Array, logit: Array, loose: Array, precision: float) -> float:
    """E log p(y, z, w) at one draw, w's entropy given z included, up to what rows share."""
    total = -0.5 * square
    for k in range(len(omega)):
        w = omega[k]
        if w != 0.0:
            total += logit[k] + 0.5 * np.log(precision * inverse[k]) + 0.5 - 0.5 * (precision + loose[k]) * w * w
    return total


@numba.njit(cache=True, nogil=True)
def _entropies(c: Array, omega: Array, size: Array, base: Array, inverse: Array) -> float:
    """Sum of the entropies of each z_k given everything else at one draw: at most their joint entropy (Han 1978)."""
    total = 0.0
    for k in range(len(c)):
        B = c[k] + omega[k] * size[k]
        x = abs(base[k] + 0.5 * B * B * inverse[k])
        if x < 30.0:
            e = np.exp(-x)
            total += (e if x > 18.0 else np.log1p(e)) + x * e / (1.0 + e)
    return total


@numba.njit(cache=True, nogil=True)
def gibbs(
    y: Array,
    seen: Array,
    phi_t: Array,
    spread_t: Array,
    gram: Array,
    logit: Array,
    precision: float,
    start: Array,
    key: int,
    streams: Array,
    burn_in: int,
    omega: Array,
    residual: Array,
    value: Array,
) -> None:
    """Draws of omega = z w of each row: `burn_in` sweeps, then one sweep for each of the omega (S, n, K) kept.

    ``value`` is the mean over draws of log p(y, z, w) plus the entropies of each (z_k, w_k) given the others. The joint
    entropy is at least the sum of these, so that at stationarity it estimates a lower bound on log p(y).
    phi_t, spread_t (D, K); gram: phi phiᵀ, or (0, K) to do without. start: (n, K) or, for a greedy one, (0, K).
    streams (n,): a number per row that names its stream under `key`.
    """
    n_kept, n_rows, K = omega.shape
    D, none = phi_t.shape[0], np.empty((0, K))
    index, r = np.empty(D, np.int64), np.zeros(D)
    size, loose, base, inverse = np.empty(K), np.empty(K), np.empty(K), np.empty(K)
    w, c = np.empty(K), np.empty(K)
    state, spare = np.empty(1, np.uint64), np.zeros(1)
    ready = False
    for i in range(n_rows):
        begin = _mixed(np.uint64(key) + GOLDEN * _mixed(np.uint64(streams[i]) + GOLDEN))
        state[0], spare[0] = ~begin, 0.0
        n = observed_columns(seen[i], index)
        if not (ready and n == D):
            _sizes(phi_t, spread_t, index, n, size, loose)
            _constants(size, loose, logit, precision, base, inverse)
            ready = n == D
        for j in range(n):
            r[j] = y[i, index[j]]
        w[:] = 0.0
        if start.shape[0] > 0:
            w[:] = start[i]
            for k in range(K):
                if w[k] != 0.0:
                    for j in range(n):
                        r[j] -= w[k] * phi_t[index[j], k]
        columns = gram if n == D else none
        if columns.shape[0] > 0:
            _slopes(phi_t, 0, index, n, r, c)
        if start.shape[0] == 0:
            _greedy(phi_t, columns, index, n, size, base, inverse, w, r, c)
        value[i] = 0.0
        for sweep in range(burn_in + n_kept):
            first = begin + np.uint64(sweep * K) * GOLDEN
            _sweep(phi_t, columns, index, n, size, base, inverse, w, r, c, first, state, spare)
            kept = sweep - burn_in
            if kept < 0:
                continue
            omega[kept, i] = w
            square = _residual(phi_t, index, n, y[i], w, residual[kept, i])
            value[i] += _draw_value(square, w, inverse, logit, loose, precision) / n_kept
        if columns.shape[0] == 0:
            _slopes(phi_t, 0, index, n, r, c)
        value[i] += _entropies(c, w, size, base, inverse)


@numba.njit(cache=True, nogil=True)
def _residual(phi_t: Array, index: Array, n: int, y: Array, w: Array, out: Array) -> float:
    """y - w phi in the observed columns, 0 elsewhere; its squared length."""
    out[:] = 0.0
    total = 0.0
    used = np.flatnonzero(w)
    for j in range(n):
        value, row = y[index[j]], phi_t[index[j]]
        for k in used:
            value -= w[k] * row[k]
        out[index[j]] = value
        total += value * value
    return total


@numba.njit(cache=True, nogil=True, fastmath=FAST)
def _sizes(phi_t: Array, spread_t: Array, index: Array, n: int, size: Array, loose: Array) -> None:
    """|phi_k|² over the observed columns, and its posterior variance."""
    size[:], loose[:] = 0.0, 0.0
    for j in range(n):
        row = phi_t[index[j]]
        for k in range(len(size)):
            size[k] += row[k] * row[k]
    if spread_t.shape[0] > 0:
        for j in range(n):
            row = spread_t[index[j]]
            for k in range(len(size)):
                loose[k] += row[k]


@numba.njit(cache=True, nogil=True)
def _constants(size: Array, loose: Array, logit: Array, precision: float, base: Array, inverse: Array) -> None:
    """Log odds of z_k at B_k = 0, and 1/kappa_k."""
    for k in range(len(size)):
        inverse[k] = 1.0 / (precision + size[k] + loose[k])
        base[k] = logit[k] + 0.5 * np.log(precision * inverse[k])


@numba.njit(cache=True, nogil=True)
def draw_features(
    omega: Array, residual: Array, seen: Array, noise: Array, prior: float, normals: Array, phi: Array
) -> None:
    """One Gibbs draw of each feature given the others, in place; the residual y - omega phi follows."""
    (n, K), D = omega.shape, residual.shape[1]
    linear, precision = np.empty(D), np.empty(D)
    for k in range(K):
        linear[:], precision[:] = 0.0, prior
        for i in range(n):
            w = omega[i, k]
            if w != 0.0:
                for d in range(D):
                    if seen[i, d]:
                        linear[d] += noise[d] * w * (residual[i, d] + w * phi[k, d])
                        precision[d] += noise[d] * w * w
        for d in range(D):
            linear[d] = linear[d] / precision[d] + normals[k, d] / np.sqrt(precision[d]) - phi[k, d]
            phi[k, d] += linear[d]
        for i in range(n):
            w = omega[i, k]
            if w != 0.0:
                for d in range(D):
                    if seen[i, d]:
                        residual[i, d] -= w * linear[d]
