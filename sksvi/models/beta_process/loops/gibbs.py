"""Compiled Gibbs draws of beta process factor analysis: local steps of a block's rows, and features.

Units are those of ``loops/variational.py``. A row works in its observed columns alone, of which it has a copy that fits
the cache; without missing entries in the K x K matrix ``gram`` = phi phiᵀ. Features come in chunks of a fixed size, a
last one padded with features that are never used. Of a row that lacks few entries the missing columns ``lack`` are
taken out of what all columns say. Each row draws from a stream of its own, so that no split of the rows
changes a bit.
"""

from __future__ import annotations

import numpy as np

from sksvi._runtime.compiled import entry, njit
from sksvi.models.beta_process.loops.variational import FAST, axpy, observed_columns
from sksvi.models.numbers import GOLDEN, LN2, MIX1, MIX2, S11, S27, S30, S31, UNIT, exp_minus, log_of, mixed, normal

Array = np.ndarray
U = np.uint64

#: NumPy's name of single precision, as `np.empty` takes it.
SINGLE = np.dtype(np.float32)
#: Features whose odds are evaluated together.
CHUNK = 64
#: Numbers of which each has its own maximum.
LANES = 16
#: A row that lacks at most one entry in so many works with the K x K matrix and what it lacks.
NEARLY = 8
#: Most features of a greedy start.
MOST_GREEDY = 40
#: Log odds of a feature that is never used, and those beyond which entropies are nothing.
NEVER, CERTAIN_ODDS = -1e100, 30.0
#: Exponent of 1 in a number's bits, and a little more than rounding, to single precision, takes from it.
LINES_AT = 1023.0 + 1e-4
#: Turn of uniform numbers that leaves them where they are.
NO_ROTATION = U(0)


@njit(fastmath=FAST)
def _slopes(own: Array, width: int, end: int, n: int, r: Array, sums: Array, out: Array) -> None:
    """The `width` numbers of out = rᵀ own before `end`, over n columns, four at a time, in `sums`.

    Beyond n columns r is 0. Indices are unsigned here and in `_next`: the compiler then knows that none counts from the
    end, and vectorises.
    """
    b, width = U(end - width), max(width, 1)  # of a loop that may be empty numba counts the arrays
    for k in range(width):
        sums[b + U(k)] = 0.0
    for j in range(0, n, 4):
        i, r_0, r_1, r_2, r_3 = U(j), r[j], r[j + 1], r[j + 2], r[j + 3]
        for k in range(width):
            at = b + U(k)
            sums[at] += r_0 * own[i, at] + r_1 * own[i + U(1), at] + r_2 * own[i + U(2), at] + r_3 * own[i + U(3), at]
    for k in range(width):
        out[b + U(k)] = sums[b + U(k)]


@njit(fastmath=FAST)
def _slope(phi: Array, k: int, index: Array, n: int, r: Array) -> float:
    """phi_k r in the observed columns."""
    total = 0.0
    for j in range(n):
        total += phi[U(k), U(index[U(j)])] * r[U(j)]
    return total


@njit()
def _move(
    change: float, k: int, phi: Array, index: Array, n: int, gram: Array, lack: Array, r: Array, single: Array, c: Array
) -> None:
    """The residual r after omega_k rose by `change`; with `gram`, of all columns less those in `lack`, c = phi r."""
    for j in range(n):
        x = r[U(j)] - change * phi[U(k), U(index[U(j)])]
        r[U(j)], single[U(j)] = x, x
    if len(gram) > 0:
        axpy(-change, gram[k], c, len(gram))
        for i in range(len(lack)):
            axpy(change * lack[i, k], lack[i], c, len(gram))


@njit(fastmath=FAST)
def _least(first: np.uint64, out: Array, rotation: np.uint64 = NO_ROTATION) -> None:
    """Log odds below which no z of a chunk is 1: of each one's uniform number u a line below log u <= logit u.

    The bits of a number are its log by straight lines between powers of 2, and the few z beyond are asked exactly.
    """
    for k in range(CHUNK):
        # `uniform_of`, written out: only so is this loop vectorised.
        z = first + U(k) * GOLDEN
        z = (z ^ (z >> S30)) * MIX1
        z = (z ^ (z >> S27)) * MIX2
        u = (float(((z ^ (z >> S31)) + rotation) >> S11) + 0.5) * UNIT
        out[U(k)] = LN2 * (float(np.float64(u).view(np.int64)) * (2.0 * UNIT) - LINES_AT)


@njit(inline="always")
def _logit_of(first: np.uint64, k: int, rotation: np.uint64 = NO_ROTATION) -> float:
    """Log odds beyond which the k-th z of a chunk is 1."""
    u = (float((mixed(first + np.uint64(k) * GOLDEN) + rotation) >> S11) + 0.5) * UNIT
    return log_of(u / (1.0 - u))


@njit(fastmath=FAST)
def _next(begin: int, c: Array, omega: Array, base: Array, inverse: Array, least: Array, after: int) -> int:
    """The first feature beyond `after` of the chunk at `begin` whose z becomes 1, or was; CHUNK if there is none."""
    found, b = CHUNK, U(begin)
    for k in range(CHUNK):
        at = b + U(k)
        x = base[at] + 0.5 * c[at] * c[at] * inverse[at]
        maybe = (x > least[U(k)]) | (omega[at] != 0.0)
        found = min(found, k if maybe & (k > after) else CHUNK)
    return found


@njit()
def _sweep(
    own: Array,
    phi: Array,
    index: Array,
    gram: Array,
    lack: Array,
    n: int,
    single: Array,
    sums: Array,
    size: Array,
    base: Array,
    inverse: Array,
    omega: Array,
    r: Array,
    c: Array,
    least: Array,
    first: np.uint64,
    rotation: np.uint64,
    state: Array,
    spare: Array,
    chosen: Array,
) -> int:
    """One Gibbs sweep over the (z_k, w_k) of a row, chunk by chunk; the features in use, in `chosen`, and their number.

    With `gram`, c = phi r is kept up to date by its columns; else it is summed for each chunk over the n observed
    columns of the residual r, and after a change for the features that follow.
    """
    shared, used = gram.shape[0] > 0, 0
    for begin in range(0, len(omega), CHUNK):
        end, stale = begin + CHUNK, 0 if shared else CHUNK
        after = -1
        own_first = first + np.uint64(begin) * GOLDEN
        _least(own_first, least, rotation)
        while True:
            if stale:
                _slopes(own, stale, end, n, single, sums, c)
                stale = 0
            # A feature in use is visited in any case: where most are, a search for each would cost their square.
            if after + 1 < CHUNK and omega[begin + after + 1] != 0.0:
                after += 1
            else:
                after = _next(begin, c, omega, base, inverse, least, after)
            if after == CHUNK:
                break
            k = begin + after
            old = omega[k]
            B = (c[k] if shared else _slope(phi, k, index, n, r)) + old * size[k]
            new = 0.0
            if base[k] + 0.5 * B * B * inverse[k] > _logit_of(own_first, after, rotation):
                new = B * inverse[k] + np.sqrt(inverse[k]) * normal(state, spare)
            chosen[used] = k
            used += new != 0.0
            if new == old:
                continue
            omega[k] = new
            _move(new - old, k, phi, index, n, gram, lack, r, single, c)
            stale = 0 if shared else end - (k + 1) // LANES * LANES
    return used


@njit(fastmath=FAST)
def _odds(c: Array, omega: Array, base: Array, inverse: Array, out: Array, highest: Array) -> float:
    """Log odds of use of the features that are not used; their highest, at least 0, by way of those in each lane."""
    highest[:] = 0.0
    for begin in range(0, len(c), LANES):
        for k in range(LANES):  # one number for all would wait for the one before
            at = U(begin) + U(k)
            x = base[at] + 0.5 * c[at] * c[at] * inverse[at]
            x = x if omega[at] == 0.0 else NEVER
            out[at] = x
            highest[U(k)] = x if x > highest[U(k)] else highest[U(k)]
    most = 0.0
    for k in range(LANES):
        most = max(most, highest[U(k)])
    return most


@njit()
def _greedy(
    own: Array,
    phi: Array,
    index: Array,
    gram: Array,
    lack: Array,
    n: int,
    single: Array,
    sums: Array,
    base: Array,
    inverse: Array,
    omega: Array,
    r: Array,
    c: Array,
    odds: Array,
    lanes: Array,
) -> None:
    """Where a row's draws start: features one after the other, the one with the highest odds of use next.

    A first sweep in the order of the features would give each its share of what others explain better, and the few
    sweeps that follow do not undo it.
    """
    shared = gram.shape[0] > 0
    for _ in range(MOST_GREEDY):
        if not shared:
            _slopes(own, len(c), len(c), n, single, sums, c)
        highest = _odds(c, omega, base, inverse, odds, lanes)
        if highest <= 0.0:
            break
        best = 0
        while odds[best] < highest:
            best += 1
        omega[best] = inverse[best] * (c[best] if shared else _slope(phi, best, index, n, r))
        _move(omega[best], best, phi, index, n, gram, lack, r, single, c)


@njit()
def _draw_value(
    square: float, omega: Array, used: Array, inverse: Array, logit: Array, loose: Array, precision: float
) -> float:
    """E log p(y, z, w) at one draw, w's entropy given z included, up to what rows share."""
    total = -0.5 * square
    for k in used:
        w = omega[k]
        total += logit[k] + 0.5 * np.log(precision * inverse[k]) + 0.5 - 0.5 * (precision + loose[k]) * w * w
    return total


@njit(fastmath=FAST)
def _entropies(c: Array, omega: Array, size: Array, base: Array, inverse: Array) -> float:
    """Sum of the entropies of each z_k given everything else at one draw: at most their joint entropy (Han 1978)."""
    total = 0.0
    for k in range(len(c)):
        B = c[k] + omega[k] * size[k]
        x = abs(base[k] + 0.5 * B * B * inverse[k])
        x = x if x < CERTAIN_ODDS else CERTAIN_ODDS
        e = exp_minus(x)
        total += log_of(1.0 + e) + x * e / (1.0 + e)
    return total


@entry(
    "omega (S, n, K) f",
    "phi (K, D) f",
    "y (n, D) f",
    "observed (n, D)",
    "phi_t (D, K) f",
    "spread_t (D|0, K) f",
    "gram (K|0, K) f",
    "logit (K) f",
    "start (n|0, K) f",
    "streams (n) i",
    "use (n, K) f",
    "residual (S, n, D) f",
    "value (n) f",
)
@njit()
def gibbs(
    y: Array,
    observed: Array,
    phi: Array,
    phi_t: Array,
    spread_t: Array,
    gram: Array,
    logit: Array,
    precision: float,
    start: Array,
    key: int,
    rotation: float,
    streams: Array,
    burn_in: int,
    omega: Array,
    use: Array,
    residual: Array,
    value: Array,
) -> None:
    """Draws of omega = z w of each row: `burn_in` sweeps, then one sweep for each of the S draws omega (S, n, K).

    ``value`` is the mean over draws of log p(y, z, w) plus the entropies of each (z_k, w_k) given the others. The joint
    entropy is at least the sum of these, so that at stationarity it estimates a lower bound on log p(y).
    phi (K, D); phi_t, spread_t (D, K); gram: phi phiᵀ, or (0, K) to do without it. start: (n, K) or, for a greedy one,
    (0, K). streams (n,): a number per row that names its stream under `key`; rotation: what is added to each of its
    uniform numbers, modulo 1. use (n, K): shares of the draws that use a feature. residual (S, n, D): y - omega phi, 0
    where missing. use, omega and residual are 0 at first.
    """
    n_draws, n_rows, K = omega.shape
    D, none, padded = phi_t.shape[0], np.empty((0, K)), (K + CHUNK - 1) // CHUNK * CHUNK
    index, chosen, own = np.empty(D, np.int64), np.empty(K + 1, np.int64), np.empty((D + 3, padded + LANES), SINGLE)
    r, size, loose = np.empty(D), np.empty(padded), np.empty(padded)
    inverse, base, w, c = np.empty(padded), np.empty(padded), np.empty(padded), np.empty(padded)
    odds, least, state, spare = np.empty(padded), np.empty(CHUNK), np.empty(1, np.uint64), np.empty(1)
    lacking, single, sums = np.empty((D // NEARLY, K)), np.empty(D + 3, SINGLE), np.empty(padded, SINGLE)
    own[:], r[:], size[:], loose[:], inverse[:], base[:], c[:] = 0.0, 0.0, 0.0, 0.0, 1.0, NEVER, 0.0
    complete, shift = False, np.uint64(rotation * 2.0**63) * np.uint64(2)
    for i in range(n_rows):
        begin = mixed(np.uint64(key) + GOLDEN * mixed(np.uint64(streams[i]) + GOLDEN))
        state[0], spare[0] = ~(begin ^ shift), 0.0
        n = observed_columns(observed[i], index)
        if not (complete and n == D):
            _gather(phi_t, spread_t, index, n, own, size, loose)
            _constants(size, loose, logit, precision, base, inverse)
            complete = n == D
        single[:] = 0.0
        for j in range(n):
            r[j] = single[j] = y[i, index[j]]
        columns = gram if NEARLY * (D - n) <= D else none
        lack = lacking[: _missing(phi_t, observed[i], lacking) if len(columns) > 0 else 0]
        w[:] = 0.0
        if start.shape[0] > 0:
            for k in range(K):
                w[k] = start[i, k]
                if w[k] != 0.0:
                    _move(w[k], k, phi, index, n, columns, lack, r, single, c)
        if len(columns) > 0:
            c[:] = 0.0
            for j in range(n):
                axpy(r[j], phi_t[index[j]], c, K)
        if start.shape[0] == 0:
            _greedy(own, phi, index, columns, lack, n, single, sums, base, inverse, w, r, c, odds, least[:LANES])
        value[i] = 0.0
        for sweep in range(burn_in + n_draws):
            n_used = _sweep(
                own, phi, index, columns, lack, n, single, sums, size, base, inverse, w, r, c, least,
                begin + np.uint64(sweep * padded) * GOLDEN, shift, state, spare, chosen,
            )  # fmt: skip
            draw = sweep - burn_in
            if draw < 0:
                continue
            square, used = 0.0, chosen[:n_used]
            for j in range(n):
                residual[draw, i, index[j]] = r[j]
                square += r[j] * r[j]
            for k in used:
                omega[draw, i, k] = w[k]
                use[i, k] += 1.0 / n_draws
            value[i] += _draw_value(square, w, used, inverse, logit, loose, precision) / n_draws
        if columns.shape[0] == 0:
            _slopes(own, padded, padded, n, single, sums, c)
        value[i] += _entropies(c, w, size, base, inverse)


@njit()
def _missing(phi_t: Array, observed: Array, out: Array) -> int:
    """The features in the columns that a row lacks, in `out`; how many these are."""
    n = 0
    for d in range(len(observed)):
        if not observed[d]:
            for k in range(phi_t.shape[1]):  # assigning rows compiles for two seconds more
                out[n, k] = phi_t[d, k]
            n += 1
    return n


@njit(fastmath=FAST)
def _gather(phi_t: Array, spread_t: Array, index: Array, n: int, own: Array, size: Array, loose: Array) -> None:
    """The features in the observed columns; |phi_k|² over these, and its posterior variance."""
    K = phi_t.shape[1]
    size[:K], loose[:K] = 0.0, 0.0
    for j in range(n):
        i, d = U(j), U(index[j])
        for k in range(K):
            x = phi_t[d, U(k)]
            own[i, U(k)] = x
            size[U(k)] += x * x
    if spread_t.shape[0] > 0:
        for j in range(n):
            axpy(1.0, spread_t[index[j]], loose, K)


@njit(fastmath=FAST)
def _constants(size: Array, loose: Array, logit: Array, precision: float, base: Array, inverse: Array) -> None:
    """Log odds of z_k at B_k = 0, and 1/kappa_k."""
    for k in range(len(logit)):
        inverse[k] = 1.0 / (precision + size[k] + loose[k])
        base[k] = logit[k] + 0.5 * log_of(precision * inverse[k])


@entry("omega (n, K) f", "residual (n, D) f", "observed (n, D)", "noise (D) f", "normals (K, D) f", "phi (K, D) f")
@njit()
def draw_features(
    omega: Array, residual: Array, observed: Array, noise: Array, prior: float, normals: Array, phi: Array
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
                    if observed[i, d]:
                        linear[d] += noise[d] * w * (residual[i, d] + w * phi[k, d])
                        precision[d] += noise[d] * w * w
        for d in range(D):
            linear[d] = linear[d] / precision[d] + normals[k, d] / np.sqrt(precision[d]) - phi[k, d]
            phi[k, d] += linear[d]
        for i in range(n):
            w = omega[i, k]
            if w != 0.0:
                for d in range(D):
                    if observed[i, d]:
                        residual[i, d] -= w * linear[d]
