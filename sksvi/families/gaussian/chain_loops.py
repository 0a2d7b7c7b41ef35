"""Compiled filter and smoother of a chain of Gaussian states that has met one message per point in time.

x_1 ~ N(a, P), x_{t+1} = A x_t + noise, f_t = h_tᵀx_t, message exp(λ f - ½ W f²). With m, s the mean and variance of f_t
before its message, M = P h and D = 1 + W s, everything follows without 1/W: W may be zero (nothing observed) or
negative. Messages of negative precision may leave less than nothing known until later ones make up for it: then D < 0,
and P has a negative eigenvalue, which all formulas bear. The joint precision of all states is positive definite exactly
if no move of the states changes how many eigenvalues are negative, and none is at the end (inertia of its pivots).

Of A only rows that are no identity are given; of h its fixed part and, for states that are coefficients, a row of X.
"""

from __future__ import annotations

import numpy as np

from sksvi._runtime.compiled import entry, njit

Array = np.ndarray

#: A product of D is taken to its logarithm before it leaves this range.
TOP, BOTTOM = 1e150, 1e-150


@njit()
def _direction(X: Array, h: Array, t: int, out: Array) -> None:
    """h_t."""
    k = len(h)
    for j in range(k):
        out[j] = h[j]
    for j in range(X.shape[1]):
        out[k + j] = X[t, j]


@njit()
def _spread(P: Array, h: Array, M: Array) -> float:
    """M = P h, and hᵀM."""
    n = len(h)
    for i in range(n):
        M[i] = 0.0
    for j in range(n):
        if h[j] != 0.0:
            for i in range(n):
                M[i] += P[j, i] * h[j]
    s = 0.0
    for j in range(n):
        s += h[j] * M[j]
    return s


@njit()
def _met(a: Array, P: Array, M: Array, e: float, f: float, scaled: Array) -> None:
    """a += M e, P -= f M Mᵀ, symmetric to the last bit; `scaled` (n,) is written."""
    n = len(a)
    for i in range(n):
        a[i] += M[i] * e
    if f == 0.0:
        return
    root = np.sqrt(abs(f))
    for i in range(n):
        scaled[i] = root * M[i]
    for i in range(n):
        left = scaled[i] if f > 0.0 else -scaled[i]
        for j in range(n):
            P[i, j] -= left * scaled[j]


@njit()
def _copies(rows: Array, starts: Array, columns: Array, values: Array, n: int) -> tuple[Array, Array, Array]:
    """What of A only takes states to other places, as seasons do: of each state after a move which one it was before,
    of each before which it becomes (-1: none alone), and which of `rows` are no such copy."""
    source, target = np.empty(n, np.int64), np.empty(n, np.int64)
    for j in range(n):
        source[j] = j
    for row in rows:
        source[row] = -1
    for j in range(n):
        target[j] = j if source[j] == j else -1
    sums = np.empty(len(rows), np.int64)
    size = 0
    for i in range(len(rows)):
        k = starts[i]
        if starts[i + 1] == k + 1 and values[k] == 1.0 and target[columns[k]] < 0:
            source[rows[i]] = columns[k]
            target[columns[k]] = rows[i]
        else:
            sums[size] = i
            size += 1
    return source, target, sums[:size]


@njit()
def _moved(
    a: Array, P: Array, rows: Array, starts: Array, columns: Array, values: Array, noise: Array, source: Array,
    sums: Array, work: Array, new: Array,
) -> None:  # fmt: skip
    """a = A a, P = A P Aᵀ + diag(noise), symmetric to the last bit; `work` (sums, n+1) and `new` (n, n) are written."""
    n = len(a)
    for q in range(len(sums)):
        total = 0.0
        for j in range(n):
            work[q, j] = 0.0
        for k in range(starts[sums[q]], starts[sums[q] + 1]):
            c, v = columns[k], values[k]
            total += v * a[c]
            for j in range(n):
                work[q, j] += v * P[c, j]
        work[q, n] = total
    for i in range(n):
        at = source[i]
        if at >= 0:
            new[0, i] = a[at]
    for q in range(len(sums)):
        new[0, rows[sums[q]]] = work[q, n]
    for i in range(n):
        a[i] = new[0, i]
    for i in range(n):
        at = source[i]
        if at >= 0:
            for j in range(n):
                if source[j] >= 0:
                    new[i, j] = P[at, source[j]]
    for q in range(len(sums)):
        i = rows[sums[q]]
        for j in range(n):
            if source[j] >= 0:
                new[i, j] = work[q, source[j]]
                new[j, i] = work[q, source[j]]
        for l in range(q + 1):
            total = 0.0
            for k in range(starts[sums[l]], starts[sums[l] + 1]):
                total += values[k] * work[q, columns[k]]
            new[i, rows[sums[l]]] = total
            new[rows[sums[l]], i] = total
    for i in range(n):
        for j in range(n):
            P[i, j] = new[i, j]
        P[i, i] += noise[i]


@njit()
def _summed(
    N: Array, rows: Array, starts: Array, columns: Array, values: Array, target: Array, sums: Array, out: Array
) -> None:
    """out = AᵀN."""
    n = len(N)
    for c in range(n):
        at = target[c]
        if at >= 0:
            for d in range(n):
                out[c, d] = N[at, d]
        else:
            for d in range(n):
                out[c, d] = 0.0
    for q in range(len(sums)):
        at = rows[sums[q]]
        for k in range(starts[sums[q]], starts[sums[q] + 1]):
            c, v = columns[k], values[k]
            for d in range(n):
                out[c, d] += v * N[at, d]


@njit()
def _moved_back(
    r: Array, N: Array, rows: Array, starts: Array, columns: Array, values: Array, target: Array, sums: Array,
    half: Array, turned: Array,
) -> None:  # fmt: skip
    """r = Aᵀr, N = AᵀN A; `half` and `turned` (n, n) are written."""
    n = len(r)
    if not len(rows):
        return
    for c in range(n):
        half[0, c] = r[target[c]] if target[c] >= 0 else 0.0
    for q in range(len(sums)):
        for k in range(starts[sums[q]], starts[sums[q] + 1]):
            half[0, columns[k]] += values[k] * r[rows[sums[q]]]
    for c in range(n):
        r[c] = half[0, c]
    _summed(N, rows, starts, columns, values, target, sums, half)
    for c in range(n):
        for d in range(n):
            turned[d, c] = half[c, d]
    _summed(turned, rows, starts, columns, values, target, sums, N)


@njit()
def _lost(W: float, D: float, negative: int) -> int:
    """How many eigenvalues of P are negative after a message, or -1 where D is 0."""
    if D > 0.0:
        return negative
    if D == 0.0 or not np.isfinite(D):
        return -1
    return negative + 1 if W < 0.0 else negative - 1


@njit()
def _sign(P: Array, work: Array) -> float:
    """Sign of the determinant of P, by elimination; `work` (n, n) is written."""
    n, sign = len(P), 1.0
    for i in range(n):
        for j in range(n):
            work[i, j] = P[i, j]
    for k in range(n):
        best = k
        for i in range(k + 1, n):
            if abs(work[i, k]) > abs(work[best, k]):
                best = i
        if work[best, k] == 0.0:
            return 0.0
        if best != k:
            sign = -sign
            for j in range(n):
                work[k, j], work[best, j] = work[best, j], work[k, j]
        if work[k, k] < 0.0:
            sign = -sign
        for i in range(k + 1, n):
            share = work[i, k] / work[k, k]
            for j in range(k, n):
                work[i, j] -= share * work[k, j]
    return sign


@njit()
def _before_message(r: Array, N: Array, h: Array, M: Array, g: Array, e: float, f: float) -> tuple[float, float]:
    """r and N before the message, from those after it; Mᵀr and MᵀN M after it."""
    n = len(r)
    along, twice = 0.0, 0.0
    for i in range(n):
        g[i] = 0.0
    for j in range(n):
        m = M[j]
        for i in range(n):
            g[i] += N[j, i] * m
    for i in range(n):
        along += M[i] * r[i]
        twice += M[i] * g[i]
    if f == 0.0 and e == 0.0:
        return along, twice
    c1, c2 = e - f * along, f + f * f * twice
    for i in range(n):
        if h[i] != 0.0:
            share = h[i]
            r[i] += share * c1
            for j in range(n):
                N[i, j] += share * (0.5 * c2 * h[j] - f * g[j])
            for j in range(n):
                N[j, i] += share * (0.5 * c2 * h[j] - f * g[j])
    return along, twice


@entry(
    "noise (n) f", "X (T,E) f", "h (S) f", "noise (S+E) f", "rows (R) i < n", "starts (R+1) i cuts e",
    "columns (e) i < n", "values (e) f", "a (n) f", "P (n,n) f", "linear (T) f", "weights (T) f",
    "damped (K) i < n", "mean (T) f", "variance (T) f", "score (n) f", "first (n) f", "information (n,n) f",
    "pull (n,K) f",
)  # fmt: skip
@njit()
def smooth(
    X: Array, h: Array, rows: Array, starts: Array, columns: Array, values: Array, noise: Array, a: Array, P: Array,
    linear: Array, weights: Array, damped: Array, mean: Array, variance: Array, score: Array, first: Array,
    information: Array, pull: Array,
) -> tuple[int, float, float, float]:  # fmt: skip
    """Mean and variance of every f_t given all messages.

    `a`, `P` become the states after the last message. Written: Σ (r² - diag N) over transitions to `score`, twice the
    slope of log Z in the noise; r and N before the first message to `first` and `information`; to `pull` the slope of
    log Z in A, its columns `damped`. Returned: where it fails (-1: nowhere), Σ log D, KL from the prior, log Z, nats.
    """
    T, n, k = len(linear), len(a), len(damped)
    spread = np.empty((T, n))
    after = np.empty((T if k else 0, k, n + 1))
    direction, M, g = np.empty(n), np.empty(n), np.empty(n)
    source, target, sums = _copies(rows, starts, columns, values, n)
    work, half, new = np.empty((len(sums), n + 1)), np.empty((n, n)), np.empty((n, n))
    log_det, product, negative = 0.0, 1.0, 0
    pivots = np.empty((n, n))
    for t in range(T):  # what a message meets, as in `combine`: as a function of its own it makes sweeps slower
        _direction(X, h, t, direction)
        s = _spread(P, direction, M)
        m = 0.0
        for j in range(n):
            m += direction[j] * a[j]
            spread[t, j] = M[j]
        D = 1.0 + weights[t] * s
        negative = _lost(weights[t], D, negative)
        if negative < 0:
            return t, 0.0, 0.0, 0.0
        mean[t] = m
        product *= abs(D)
        if product > TOP or product < BOTTOM:
            log_det += np.log(product)
            product = 1.0
        _met(a, P, M, (linear[t] - weights[t] * m) / D, weights[t] / D, g)
        for i in range(k):
            for j in range(n):
                after[t, i, j] = P[damped[i], j]
            after[t, i, n] = a[damped[i]]
        if t < T - 1:
            _moved(a, P, rows, starts, columns, values, noise, source, sums, work, new)
            if negative and _sign(P, pivots) * (1.0 - 2.0 * (negative % 2)) < 0.0:
                return t, 0.0, 0.0, 0.0
    if negative:
        return T - 1, 0.0, 0.0, 0.0
    log_det += np.log(product)
    r, N = np.empty(n), np.empty((n, n))
    r[:], N[:] = 0.0, 0.0
    score[:] = 0.0
    pull[:, :] = 0.0
    kl, log_z = 0.5 * log_det, -0.5 * log_det
    for t in range(T - 1, -1, -1):
        if t < T - 1:
            for j in range(n):
                score[j] += r[j] * r[j] - N[j, j]
            if k:
                _pulled(r, N, after[t], rows, starts, columns, values, direction, g, pull)
            _moved_back(r, N, rows, starts, columns, values, target, sums, half, new)
        _direction(X, h, t, direction)
        s, m = 0.0, mean[t]
        for j in range(n):
            M[j] = spread[t, j]
            s += direction[j] * M[j]
        D = 1.0 + weights[t] * s
        off = linear[t] - weights[t] * m
        along, twice = _before_message(r, N, direction, M, g, off / D, weights[t] / D)
        step = (s * off + along) / D
        variance[t] = s / D - twice / (D * D)
        mean[t] = m + step
        gain = 0.5 * off * off * s / D
        kl += step * (off - 0.5 * weights[t] * step) - 0.5 * weights[t] * variance[t] - gain
        log_z += m * (linear[t] - 0.5 * weights[t] * m) + gain
    for i in range(n):  # assigning arrays compiles for two seconds more
        first[i] = r[i]
        for j in range(n):
            information[i, j] = N[i, j]
    return -1, log_det, kl, log_z


@njit()
def _pulled(
    r: Array, N: Array, after: Array, rows: Array, starts: Array, columns: Array, values: Array, moved: Array,
    g: Array, pull: Array,
) -> None:  # fmt: skip
    """pull += (r rᵀ - N) A P + r aᵀ, some columns; `after` (k, n+1): those of P, and a, after the message."""
    n = len(r)
    for i in range(len(after)):
        for j in range(n):
            moved[j] = after[i, j]
        for l in range(len(rows)):
            total = 0.0
            for k in range(starts[l], starts[l + 1]):
                total += values[k] * after[i, columns[k]]
            moved[rows[l]] = total
        along = after[i, n]
        for j in range(n):
            along += r[j] * moved[j]
        for j in range(n):
            total = r[j] * along
            for l in range(n):
                total -= N[j, l] * moved[l]
            pull[j, i] += total


@entry("linear (T) f", "weights (T) f", "mean (T) f", "variance (T) f", "out (>=5) f")
@njit()
def smooth_level(
    noise: float, a: float, P: float, linear: Array, weights: Array, mean: Array, variance: Array, out: Array
) -> tuple[int, float, float, float]:
    """`smooth` of one state that walks at random and is f itself; `out`: last a and P, score, r, N."""
    T = len(linear)
    log_det, product = 0.0, 1.0
    for t in range(T):
        mean[t], variance[t] = a, P
        D = 1.0 + weights[t] * P
        if D == 0.0 or not np.isfinite(D):
            return t, 0.0, 0.0, 0.0
        product *= abs(D)
        if product > TOP or product < BOTTOM:
            log_det += np.log(product)
            product = 1.0
        P /= D
        a += P * (linear[t] - weights[t] * a)
        if t < T - 1:
            if P < 0.0 and P + noise >= 0.0:
                return t, 0.0, 0.0, 0.0
            P += noise
    if not P >= 0.0:
        return T - 1, 0.0, 0.0, 0.0
    out[0], out[1] = a, P
    log_det += np.log(product)
    r, N, score = 0.0, 0.0, 0.0
    kl, log_z = 0.5 * log_det, -0.5 * log_det
    for t in range(T - 1, -1, -1):
        if t < T - 1:
            score += r * r - N
        s, m, w = variance[t], mean[t], weights[t]
        share = 1.0 / (1.0 + w * s)
        off = linear[t] - w * m
        step = s * share * (off + r)
        mean[t] = m + step
        v = s * share * (1.0 - s * share * N)
        variance[t] = v
        gain = 0.5 * off * off * s * share
        kl += step * (off - 0.5 * w * step) - 0.5 * w * v - gain
        log_z += m * (linear[t] - 0.5 * w * m) + gain
        r = share * (r + off)
        N = share * (w + share * N)
    out[2], out[3], out[4] = score, r, N
    return -1, log_det, kl, log_z


@entry(
    "linear (T) f", "weights (T) f", "mean (T) f", "variance (T) f", "other_linear (T) f", "other_weights (T) f",
    "other_mean (T) f",
)  # fmt: skip
@njit()
def distance(
    linear: Array,
    weights: Array,
    mean: Array,
    variance: Array,
    other_linear: Array,
    other_weights: Array,
    other_mean: Array,
) -> float:
    """Twice the divergence between two sets of messages about one chain, but for their determinants."""
    total = 0.0
    for t in range(len(linear)):
        delta, w = mean[t] - other_mean[t], other_weights[t]
        dual, other = linear[t] - weights[t] * mean[t], other_linear[t] - w * other_mean[t]
        total += (w - weights[t]) * variance[t] + delta * (dual - other + w * delta)
    return total


@entry("linear (T) f", "weights (T) f", "mean (T) f", "variance (T) f")
@njit()
def filter_level(noise: float, a: float, P: float, linear: Array, weights: Array, mean: Array, variance: Array) -> int:
    """Mean and variance of one state that walks at random before each message; where that is none, or -1."""
    for t in range(len(linear)):
        mean[t], variance[t] = a, P
        D = 1.0 + weights[t] * P
        if not D > 0.0:
            return t
        P /= D
        a += P * (linear[t] - weights[t] * a)
        P += noise
    return -1


@entry(
    "noise (n) f", "X (T,E) f", "h (S) f", "noise (S+E) f", "rows (R) i < n", "starts (R+1) i cuts e",
    "columns (e) i < n", "values (e) f", "a (n) f", "P (n,n) f", "linear (T) f", "weights (T) f", "design (T,E) f",
    "parts (K,n) f", "by (K) f", "mean (T,K) f", "variance (T,K) f",
)  # fmt: skip
@njit()
def combine(
    X: Array, h: Array, rows: Array, starts: Array, columns: Array, values: Array, noise: Array, a: Array, P: Array,
    linear: Array, weights: Array, design: Array, parts: Array, by: Array, mean: Array, variance: Array, back: bool,
) -> int:  # fmt: skip
    """Mean and variance of linear combinations of the states at every point in time, (T, K).

    Combination k is `parts[k]` and `by[k]` times the row of `design` on the coefficients. back: given all messages;
    else given those before t. `a`, `P` become the states after the last message. Returned: where that fails, or -1.
    """
    T, n, K, S = len(linear), len(a), len(parts), len(h)
    spread = np.empty((T if back else 0, n))
    reach = np.empty((T if back else 0, K, n))
    level = np.empty(T if back else 0)
    direction, M, g, part = np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    source, target, sums = _copies(rows, starts, columns, values, n)
    work, half, new = np.empty((len(sums), n + 1)), np.empty((n, n)), np.empty((n, n))
    for t in range(T):
        for k in range(K):
            _part(parts[k], by[k], design, t, S, part)
            variance[t, k] = _spread(P, part, g)
            total = 0.0
            for j in range(n):
                total += part[j] * a[j]
                if back:
                    reach[t, k, j] = g[j]
            mean[t, k] = total
        _direction(X, h, t, direction)
        s = _spread(P, direction, M)
        m = 0.0
        for j in range(n):
            m += direction[j] * a[j]
            if back:
                spread[t, j] = M[j]
        D = 1.0 + weights[t] * s
        if D == 0.0 or (D < 0.0 and not back):
            return t
        if back:
            level[t] = m
        _met(a, P, M, (linear[t] - weights[t] * m) / D, weights[t] / D, g)
        if t < T - 1:
            _moved(a, P, rows, starts, columns, values, noise, source, sums, work, new)
    if not back:
        return -1
    r, N = np.zeros(n), np.zeros((n, n))
    for t in range(T - 1, -1, -1):
        if t < T - 1:
            _moved_back(r, N, rows, starts, columns, values, target, sums, half, new)
        _direction(X, h, t, direction)
        s = 0.0
        for j in range(n):
            M[j] = spread[t, j]
            s += direction[j] * M[j]
        D = 1.0 + weights[t] * s
        _before_message(r, N, direction, M, g, (linear[t] - weights[t] * level[t]) / D, weights[t] / D)
        for k in range(K):
            along, twice = 0.0, 0.0
            for i in range(n):
                along += reach[t, k, i] * r[i]
                total = 0.0
                for j in range(n):
                    total += N[i, j] * reach[t, k, j]
                twice += reach[t, k, i] * total
            mean[t, k] += along
            variance[t, k] -= twice
    return -1


@njit()
def _part(fixed: Array, by: float, design: Array, t: int, S: int, out: Array) -> None:
    """Coefficients of one linear combination of the states at time t, written to `out`."""
    for j in range(len(fixed)):
        out[j] = fixed[j]
    if by != 0.0:
        for j in range(design.shape[1]):
            out[S + j] += by * design[t, j]
