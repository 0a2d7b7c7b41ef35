"""Compiled loops of the factorization over the entries of some columns.

A column is a user or an item; its entries are rows e = starts[p] .. starts[p+1], `other[e]` the plate on the other
side. Vectors x (P, W) hold a column's coordinates, constants included; second moments E x xᵀ are packed (P, R), as
`families.gaussian.plates` has it.
"""

import numpy as np

from sksvi._runtime.compiled import entry, njit

# A sum may be taken in another order than written, once and for all when the loop is compiled.
SUMS = {"reassoc", "contract"}


#: Rows that are gathered at a time: with a matrix or two they stay in the second-level cache.
GATHERED = 128


@njit()
def gathered(rows, vectors, columns, out):
    """Some coordinates of some vectors, side by side for a matrix product."""
    for i in range(rows.shape[0]):
        z = vectors[rows[i]]
        for k in range(columns.shape[0]):
            out[i, k] = z[columns[k]]
    return out[: rows.shape[0]]


@njit()
def unpack(values, matrix):
    """The symmetric matrix whose lower triangle `values` has row by row."""
    s = 0
    for i in range(matrix.shape[0]):
        for j in range(i + 1):
            matrix[i, j] = matrix[j, i] = values[s]
            s += 1


@entry("mean (p, W) f", "out (p, R) f", "cov (p, S) f", "rows (R) i < W", "cols (R) i < W", "place (S) i < R")
@njit()
def second_moments(mean, cov, rows, cols, place, out):
    """E x_a x_b for each packed pair: products of the means, and the covariance of the free coordinates."""
    for p in range(mean.shape[0]):
        for r in range(rows.shape[0]):
            out[p, r] = mean[p, rows[r]] * mean[p, cols[r]]
        for s in range(place.shape[0]):
            out[p, place[s]] += cov[p, s]


@entry(
    "mean (p, W) f", "other_mean (q, W) f", "free (F) i < W", "other_free (G) i < W", "cov (p, F~) f",
    "other_cov (q, G~) f", "starts (p+1) i cuts e", "other (e) i < q", "m (e) f", "v (e) f",
)  # fmt: skip
@njit(fastmath=SUMS)
def latent_moments(starts, other, mean, cov, free, other_mean, other_cov, other_free, shared, full, m, v):
    """Mean and variance of f = xᵀz: tr(cov(x) cov(z)) + E zᵀ cov(x) E z + E xᵀ cov(z) E x.

    `cov` and `other_cov` are packed pairs of the coordinates `free` and `other_free`; the first `shared` are of both.
    """
    size, its_size = free.shape[0], other_free.shape[0]
    facing, matrix = np.empty(other_cov.shape[1]), np.empty((size, size))
    matrix[:] = 0.0
    space, products = np.empty((GATHERED, size)), np.empty((GATHERED, size))
    for p in range(mean.shape[0]):
        x, own = mean[p], cov[p]
        # What the other side's covariance is multiplied with, the same for all entries of the column.
        s = 0
        for i in range(its_size):
            for j in range(0 if full else i, i + 1):
                facing[s] = x[other_free[i]] * x[other_free[j]] + (own[s] if i < shared else 0.0)
                facing[s] *= 1.0 if i == j else 2.0
                s += 1
        first, last = starts[p] - starts[0], starts[p + 1] - starts[0]
        if not full:
            # A coordinate that is not shared meets a one on the other side.
            alone = 0.0
            for k in range(shared, its_size):
                alone += own[k]
            for e in range(first, last):
                its_mean, its_cov = other_mean[other[e]], other_cov[other[e]]
                total, variance = 0.0, alone
                for k in range(shared):
                    total += x[k] * its_mean[k]
                    variance += own[k] * its_mean[k] * its_mean[k] + facing[k] * its_cov[k]
                for k in range(shared, x.shape[0]):
                    total += x[k] * its_mean[k]
                for s in range(shared, its_size):
                    variance += facing[s] * its_cov[s]
                m[e], v[e] = total, variance
            continue
        unpack(own, matrix)
        for start in range(first, last, GATHERED):
            rows = other[start : min(start + GATHERED, last)]
            z = gathered(rows, other_mean, free, space)
            spread = products[: rows.shape[0]]
            np.dot(z, matrix, spread)
            for e in range(rows.shape[0]):
                its_mean, its_cov = other_mean[rows[e]], other_cov[rows[e]]
                total, variance = 0.0, 0.0
                for k in range(x.shape[0]):
                    total += x[k] * its_mean[k]
                for i in range(size):
                    variance += spread[e, i] * z[e, i]
                for s in range(facing.shape[0]):
                    variance += facing[s] * its_cov[s]
                m[start + e] = total
                # Covariances are positive semidefinite but for rounding.
                v[start + e] = max(variance, 0.0)


@njit(fastmath=SUMS)
def add_products(starts, other, alpha, gamma, m, vectors, g, h):
    """Σ (alpha - 2 gamma m) z to g (P, W) and Σ gamma z zᵀ to h, packed (P, R), some rows at a time."""
    width = vectors.shape[1]
    space, bent, product = np.empty((GATHERED, width)), np.empty((GATHERED, width)), np.empty((width, width))
    every = np.empty(width, np.int64)
    for k in range(width):
        every[k] = k
    for p in range(g.shape[0]):
        own_g, own_h = g[p], h[p]
        last = starts[p + 1] - starts[0]
        for first in range(starts[p] - starts[0], last, GATHERED):
            rows = other[first : min(first + GATHERED, last)]
            z, n = gathered(rows, vectors, every, space), rows.shape[0]
            for i in range(n):
                bend = gamma[first + i]
                linear = alpha[first + i] - 2.0 * bend * m[first + i]
                for a in range(width):
                    own_g[a] += linear * z[i, a]
                    bent[i, a] = bend * z[i, a]
            np.dot(bent[:n].T, z, product)
            s = 0
            for a in range(width):
                for b in range(a + 1):
                    own_h[s] += product[a, b]
                    s += 1


@njit(fastmath=SUMS)
def add_covariances(starts, other, gamma, cov, place, h):
    """Σ gamma cov(z) to h, packed (P, R); `place` says where the pairs of `cov` are there.

    One plate of the other side after another: its covariance is read once, and the sums stay in the cache.
    """
    n_in_place = 0
    while n_in_place < place.shape[0] and place[n_in_place] == n_in_place:
        n_in_place += 1
    column, at = np.empty(starts[-1] - starts[0], np.int64), np.empty(cov.shape[0] + 1, np.int64)
    at[:] = 0
    for p in range(h.shape[0]):
        for e in range(starts[p] - starts[0], starts[p + 1] - starts[0]):
            column[e] = p
            at[other[e] + 1] += 1
    order = np.empty(column.shape[0], np.int64)
    for q in range(cov.shape[0]):  # np.cumsum takes 0.5 s to compile
        at[q + 1] += at[q]
    for e in range(column.shape[0]):
        order[at[other[e]]] = e
        at[other[e]] += 1
    for i in range(order.shape[0]):
        e = order[i]
        own, its, bend = h[column[e]], cov[other[e]], gamma[e]
        for s in range(n_in_place):
            own[s] += bend * its[s]
        for s in range(n_in_place, place.shape[0]):
            own[place[s]] += bend * its[s]


@entry(
    "mean (p, W) f", "other_mean (q, W) f", "other_cov (q, T) f", "starts (p+1) i cuts e", "other (e) i < q",
    "alpha (e) f", "gamma (e) f", "m (e) f", "g (p, W) f", "h (p, W~) f", "h (p, R) f", "place (T) i < R",
)  # fmt: skip
@njit(fastmath=SUMS)
def accumulate(starts, other, alpha, gamma, m, mean, other_mean, other_cov, place, full, g, h):
    """Gradient of Σ E log p(y|f) in the mean, (P, W), and in the covariance, packed (P, R).

    Σ gamma E zzᵀ, and Σ alpha z + 2 gamma cov(z) x, written as Σ (alpha - 2 gamma m) z + 2 (Σ gamma E zzᵀ) x.
    `place` says where the pairs of `other_cov` are among all packed pairs.
    """
    if full:
        add_products(starts, other, alpha, gamma, m, other_mean, g, h)
        add_covariances(starts, other, gamma, other_cov, place, h)
        return
    for p in range(mean.shape[0]):
        own_mean, own_g, own_h = mean[p], g[p], h[p]
        for e in range(starts[p] - starts[0], starts[p + 1] - starts[0]):
            z, its_cov, bend = other_mean[other[e]], other_cov[other[e]], gamma[e]
            for s in range(place.shape[0]):
                own_h[place[s]] += bend * its_cov[s]
            for a in range(mean.shape[1]):
                own_h[a] += bend * z[a] * z[a]
                own_g[a] += z[a] * (alpha[e] - 2.0 * bend * z[a] * own_mean[a])


@entry(
    "mean (p, W) f", "other_mean (q, W) f", "starts (p+1) i cuts e", "other (e) i < q", "alpha (e) f",
    "gamma (e) f", "free (F) i < W", "curvature (p, F) f", "precision (p, F) f", "prior_gap (p, F) f",
)  # fmt: skip
@njit(fastmath=SUMS)
def solve_means(starts, other, alpha, gamma, curvature, precision, prior_gap, other_mean, free, mean):
    """Means of diagonal columns, coordinate after coordinate, on the quadratic that alpha and gamma describe.

    `curvature` (P, F) is Σ gamma E z², `prior_gap` (P, F) the prior's mean less the column's, `precision` (F,) or
    (P, F). A column's mean in all coordinates at once would overshoot: a diagonal covariance ignores how the other
    side's coordinates go together. `alpha` is overwritten by the slope at the new mean.
    """
    for p in range(mean.shape[0]):
        first, last = starts[p] - starts[0], starts[p + 1] - starts[0]
        for c in range(free.shape[0]):
            k = free[c]
            slope, means_only = 0.0, 0.0
            for e in range(first, last):
                z = other_mean[other[e], k]
                slope += alpha[e] * z
                means_only += gamma[e] * z * z
            # The spread of z pulls the mean to zero as a prior would: 2 gamma var(z) x.
            spread = 2.0 * (curvature[p, c] - means_only)
            slope += spread * mean[p, k] + precision[p, c] * prior_gap[p, c]
            step = slope / (precision[p, c] - 2.0 * curvature[p, c])
            mean[p, k] += step
            prior_gap[p, c] -= step
            for e in range(first, last):
                alpha[e] += 2.0 * gamma[e] * step * other_mean[other[e], k]


@entry(
    "mean (p, W) f", "other_mean (q, W) f", "starts (p+1) i cuts e", "other (e) i < q", "third (e) f",
    "fourth (e) f", "free (F) i < W", "other_cov (q, F~) f", "h (p, W~) f",
)  # fmt: skip
@njit(fastmath=SUMS)
def add_joint_curvature(starts, other, third, fourth, mean, other_mean, other_cov, free, h):
    """Σ third (m kᵀ + k mᵀ) + fourth k kᵀ with k = cov(z) x, added to packed curvatures (P, R)."""
    width, size = mean.shape[1], free.shape[0]
    k = np.zeros(width)
    for p in range(mean.shape[0]):
        x, own_h = mean[p], h[p]
        for e in range(starts[p] - starts[0], starts[p + 1] - starts[0]):
            z, cov = other_mean[other[e]], other_cov[other[e]]
            k[:] = 0.0
            s = 0
            for i in range(size):
                for j in range(i):
                    k[free[i]] += cov[s] * x[free[j]]
                    k[free[j]] += cov[s] * x[free[i]]
                    s += 1
                k[free[i]] += cov[s] * x[free[i]]
                s += 1
            r = 0
            for a in range(width):
                left, both = third[e] * z[a] + fourth[e] * k[a], third[e] * k[a]
                for b in range(a + 1):
                    own_h[r] += left * k[b] + both * z[b]
                    r += 1


@entry(
    "mean (p, W) f", "draws (q, W) f", "starts (p+1) i cuts e", "other (e) i < q", "free (F) i < W",
    "cov (p, F~) f", "m (e) f", "v (e) f",
)  # fmt: skip
@njit()
def sampled_moments(starts, other, mean, cov, free, draws, full, m, v):
    """zᵀ E x and zᵀ cov(x) z for draws z of the other side."""
    size, width = free.shape[0], mean.shape[1]
    matrix = np.empty((size, size))
    matrix[:] = 0.0
    space, products = np.empty((GATHERED, size)), np.empty((GATHERED, size))
    for p in range(mean.shape[0]):
        if full:
            unpack(cov[p], matrix)
        else:
            for i in range(size):
                matrix[i, i] = cov[p, i]
        first, last = starts[p] - starts[0], starts[p + 1] - starts[0]
        for start in range(first, last, GATHERED):
            rows = other[start : min(start + GATHERED, last)]
            z = gathered(rows, draws, free, space)
            spread = products[: rows.shape[0]]
            np.dot(z, matrix, spread)
            for i in range(rows.shape[0]):
                total, variance = 0.0, 0.0
                for k in range(width):
                    total += mean[p, k] * draws[rows[i], k]
                for k in range(size):
                    variance += spread[i, k] * z[i, k]
                m[start + i], v[start + i] = total, max(variance, 0.0)


@entry(
    "every (W) i < W", "draws (q, >=W) f", "g (p, W) f", "h (p, W~) f", "starts (p+1) i cuts e", "other (e) i < q",
    "alpha (e) f", "gamma (e) f",
)  # fmt: skip
@njit()
def sampled_accumulate(starts, other, alpha, gamma, draws, every, full, g, h):
    """Σ alpha z and Σ gamma z zᵀ, packed; `every` (W,) numbers the coordinates."""
    width = every.shape[0]
    space, weighted = np.empty((GATHERED, width)), np.empty((GATHERED, width))
    matrix, part = np.empty((width, width)), np.empty((width, width))
    for p in range(g.shape[0]):
        matrix[:] = 0.0
        first, last = starts[p] - starts[0], starts[p + 1] - starts[0]
        for start in range(first, last, GATHERED):
            rows = other[start : min(start + GATHERED, last)]
            z = gathered(rows, draws, every, space)
            times = weighted[: rows.shape[0]]
            for i in range(rows.shape[0]):
                for k in range(width):
                    times[i, k] = gamma[start + i] * z[i, k]
                    g[p, k] += alpha[start + i] * z[i, k]
            if full:
                np.dot(times.T, z, part)
                for a in range(width):
                    for b in range(width):
                        matrix[a, b] += part[a, b]
            else:
                for i in range(rows.shape[0]):
                    for k in range(width):
                        matrix[k, k] += times[i, k] * z[i, k]
        r = 0
        for a in range(width):
            for b in range(0 if full else a, a + 1):
                h[p, r] = matrix[a, b]
                r += 1
