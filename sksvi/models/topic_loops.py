"""Compiled inner loops of the correlated topic model: the local Gaussian of each document (equations.md 6).

A document has W distinct words with counts c, and the rows B (W, K) of what the topics say about them: exp(E log β) up
to a factor per word, which cancels in responsibilities; for the simple bound E log β itself. q(η) = N(m, CᵀC) over
K - 1 coordinates, the last topic's is 0. Expectations are means over S nodes η_s = m + Cᵀε_s.
"""

from __future__ import annotations

import numba
import numpy as np

Array = np.ndarray

OPTIMAL, SIMPLE, MEAN_FIELD = 0, 1, 2
NATURAL, HYBRID, STANDARD = 0, 1, 2
#: Longest Newton step of a coordinate (log odds), and halvings before a step is given up.
REACH, HALVINGS = 4.0, 12
#: First share by which a Hessian that is not positive definite moves to its convex part.
BLEND = 0.05
#: AdaGrad's rate of means and of C, and the most that C changes as a share of its diagonal.
ADAGRAD_RATE, ROOT_RATE, ROOT_SHARE = 1.0, 0.1, 0.5
#: A pivot below this share of its diagonal entry counts as not positive.
PIVOT = 1e-12


@numba.njit(cache=True, nogil=True)
def cholesky(a: Array, factor: Array) -> bool:
    """Lower factor of a symmetric matrix; False where it has none."""
    n = a.shape[0]
    for i in range(n):
        for j in range(i + 1):
            factor[i, j] = a[i, j]
    for j in range(n):
        if not factor[j, j] > PIVOT * abs(a[j, j]):
            return False
        factor[j, j] = np.sqrt(factor[j, j])
        for i in range(j + 1, n):
            factor[i, j] /= factor[j, j]
        for i in range(j + 1, n):
            scale = factor[i, j]
            for k in range(j + 1, i + 1):
                factor[i, k] -= scale * factor[k, j]
    return True


@numba.njit(cache=True, nogil=True)
def solve(factor: Array, x: Array) -> None:
    """x <- (L Lᵀ)⁻¹ x."""
    n = len(x)
    for i in range(n):
        for k in range(i):
            x[i] -= factor[i, k] * x[k]
        x[i] /= factor[i, i]
    for i in range(n - 1, -1, -1):
        x[i] /= factor[i, i]
        for k in range(i):
            x[k] -= factor[i, k] * x[i]


@numba.njit(cache=True, nogil=True)
def inverse_root(precision: Array, negative: Array, full: bool, factor: Array, root: Array) -> int:
    """C of S⁻¹ = Σ⁻¹ + negative, its negative part removed where S⁻¹ is no precision; returns whether it was."""
    n = len(precision)
    if n == 0:
        return 0
    root[:] = 0.0
    if not full:
        repaired = 0
        for k in range(n):
            if precision[k, k] + negative[k, k] <= PIVOT * precision[k, k]:
                repaired = 1
            root[k, k] = 1.0 / np.sqrt(precision[k, k] + max(negative[k, k], 0.0))
        return repaired
    repaired = 0
    if not cholesky(precision + negative, factor):
        values, vectors = np.linalg.eigh(negative)
        cholesky(precision + np.dot(vectors * np.maximum(values, 0.0), vectors.T), factor)
        repaired = 1
    for i in range(n):
        root[i, i] = 1.0 / factor[i, i]
        for k in range(i):
            for j in range(k + 1):
                root[i, j] -= factor[i, k] * root[k, j] / factor[i, i]
    return repaired


@numba.njit(cache=True, nogil=True)
def softmax(mean: Array, root: Array, nodes: Array, theta: Array) -> float:
    """theta (S, K) at the nodes; returns the mean of log(1 + Σ exp η)."""
    S, p = nodes.shape
    shift = np.dot(nodes, root)
    total = 0.0
    for s in range(S):
        largest = 0.0
        for k in range(p):
            theta[s, k] = mean[k] + shift[s, k]
            largest = max(largest, theta[s, k])
        theta[s, p] = 0.0
        mass = 0.0
        for k in range(p + 1):
            theta[s, k] = np.exp(theta[s, k] - largest)
            mass += theta[s, k]
        for k in range(p + 1):
            theta[s, k] /= mass
        total += largest + np.log(mass)
    return total / S


@numba.njit(cache=True, nogil=True)
def mixture(B: Array, counts: Array, theta: Array, ratio: Array, counted: Array) -> float:
    """Mean over nodes of Σ c log θᵀB; ratio (W, S) = c / θᵀB, counted (S, K) = Σ c r."""
    S, K = theta.shape
    np.dot(B, theta.T, ratio)
    value = 0.0
    for w in range(len(counts)):
        for s in range(S):
            value += counts[w] * np.log(ratio[w, s])
            ratio[w, s] = counts[w] / ratio[w, s]
    np.dot(ratio.T, B, counted)
    for s in range(S):
        for k in range(K):
            counted[s, k] *= theta[s, k]
    return value / S


@numba.njit(cache=True, nogil=True)
def pairs(B: Array, counts: Array, theta: Array, ratio: Array, each: bool, work: Array) -> Array:
    """(K, K): mean of Σ c r rᵀ over nodes; with each=False of the responsibilities' mean, which costs one product."""
    S, K = theta.shape
    out = np.zeros((K, K))
    for s in range(S if each else 1):
        for w in range(len(counts)):
            for k in range(K):
                work[w, k] = 0.0
            for t in range(s, s + 1) if each else range(S):
                for k in range(K):
                    work[w, k] += ratio[w, t] * theta[t, k]
            scale = 1.0 / np.sqrt(counts[w] * S) if each else 1.0 / (np.sqrt(counts[w]) * S)
            for k in range(K):
                work[w, k] *= scale * B[w, k]
        out += np.dot(work.T, work)
    return out


@numba.njit(cache=True, nogil=True)
def squares(counts: Array, B: Array, theta: Array, ratio: Array) -> Array:
    """(K,): mean of Σ c r² over nodes, the diagonal of `pairs`."""
    S, K = theta.shape
    out = np.zeros(K)
    for w in range(len(counts)):
        for s in range(S):
            scale = ratio[w, s] * ratio[w, s] / (counts[w] * S)
            for k in range(K):
                out[k] += scale * (theta[s, k] * B[w, k]) ** 2
    return out


@numba.njit(cache=True, nogil=True)
def spread(theta: Array, words: float, each: bool, out: Array) -> None:
    """out (P, P) = N (diag θ - θθᵀ): mean over nodes, or at the mean of θ."""
    S, K = theta.shape
    out[:] = 0.0
    centre = np.zeros(K)
    for s in range(S):
        centre += theta[s] / S
    for j in range(K - 1):
        for k in range(j + 1):
            outer = 0.0
            if each:
                for s in range(S):
                    outer += theta[s, j] * theta[s, k]
                outer /= S
            else:
                outer = centre[j] * centre[k]
            out[j, k] = -words * outer
            out[k, j] = out[j, k]
        out[j, j] += words * centre[j]


@numba.njit(cache=True, nogil=True)
def look(
    bound: int, B: Array, counts: Array, words: float, mean: Array, root: Array, nodes: Array, work: tuple
) -> tuple:
    """E log p(words | η) and its gradient in the mean (P,); leaves theta, ratio and counted in `work`."""
    theta, ratio, counted, single, single_ratio, single_counted = work[:6]
    S, K = theta.shape
    p = K - 1
    slope = np.zeros(p)
    log_mass = softmax(mean, root, nodes, theta)
    if bound == OPTIMAL:
        value = mixture(B, counts, theta, ratio, counted)
        for s in range(S):
            for k in range(p):
                slope[k] += (counted[s, k] - words * theta[s, k]) / S
        return value, slope
    if bound == MEAN_FIELD:
        flat = softmax(mean, np.zeros((p, p)), nodes[:1] * 0.0, single)
        value = mixture(B, counts, single, single_ratio, single_counted) + words * (flat - log_mass)
        for k in range(p):
            slope[k] = single_counted[0, k]
            for s in range(S):
                slope[k] -= words * theta[s, k] / S
        return value, slope
    logs = np.dot(counts, B)
    value = 0.0
    for s in range(S):
        centre = np.dot(theta[s], logs)
        value += centre / S
        for k in range(p):
            slope[k] += theta[s, k] * (logs[k] - centre) / S
    return value, slope


@numba.njit(cache=True, nogil=True)
def curvature(
    bound: int,
    B: Array,
    counts: Array,
    words: float,
    each: bool,
    newton: bool,
    diagonal: bool,
    work: tuple,
    out: Array,
    safe: Array,
) -> None:
    """out (P, P): minus the Hessian of E log p(words | η) after `look`, `safe` a convex part of it.

    For the covariance responsibilities of the mean-field bound are held; `newton` lets them follow the mean. With
    `diagonal` only the diagonal is right.
    """
    theta, ratio, counted, single, single_ratio, single_counted, table = work
    S, K = theta.shape
    if bound == OPTIMAL:
        spread(theta, words, each, safe)
        if diagonal:
            own = squares(counts, B, theta, ratio)
            for k in range(K - 1):
                out[k, k] = safe[k, k] + own[k]
        else:
            out[:] = safe + pairs(B, counts, theta, ratio, each, table)[: K - 1, : K - 1]
        for s in range(S):
            for k in range(K - 1):
                out[k, k] -= counted[s, k] / S
        return
    spread(theta, words, True, safe)
    out[:] = safe
    if bound == MEAN_FIELD:
        if newton:
            out += pairs(B, counts, single, single_ratio, False, table)[: K - 1, : K - 1]
            for k in range(K - 1):
                out[k, k] -= single_counted[0, k]
        return
    logs = np.dot(counts, B)
    out[:] = 0.0
    for s in range(S):
        along = theta[s] * (logs - np.dot(theta[s], logs)) / S
        for j in range(K - 1):
            for k in range(K - 1):
                out[j, k] += along[j] * theta[s, k] + along[k] * theta[s, j]
            out[j, j] -= along[j]


@numba.njit(cache=True, nogil=True)
def newton_factor(precision: Array, negative: Array, safe: Array, factor: Array) -> int:
    """Factor of Σ⁻¹ + negative, moved towards its convex part until it has one; returns whether it had to be."""
    share = 0.0
    while not cholesky(precision + (1.0 - share) * negative + share * safe, factor):
        if share >= 1.0:
            return 1
        share = min(1.0, max(BLEND, 2.0 * share))
    return 1 if share > 0.0 else 0


@numba.njit(cache=True, nogil=True)
def local_value(value: float, mean: Array, root: Array, centre: Array, precision: Array, log_det: float) -> float:
    """The document's term of the bound: E log p(words | η) - KL(q(η) ‖ N(μ, Σ))."""
    delta = mean - centre
    p = len(mean)
    spreads = np.sum(np.dot(root, precision) * root)
    logs = 0.0
    for k in range(p):
        logs += np.log(root[k, k])
    return value - 0.5 * (spreads + np.dot(delta, np.dot(precision, delta)) - p + log_det) + logs


@numba.njit(cache=True, nogil=True)
def settle_mean(
    bound: int,
    B: Array,
    counts: Array,
    words: float,
    nodes: Array,
    centre: Array,
    precision: Array,
    steps: int,
    tol: float,
    mean: Array,
    root: Array,
    work: tuple,
    buffers: tuple,
) -> None:
    """Newton steps of the mean at a fixed covariance; one that lowers the bound is halved."""
    negative, safe, factor = buffers
    if len(mean) == 0:
        return
    new, step = mean.copy(), np.zeros(len(mean))
    best, rate, halvings = -np.inf, 1.0, 0
    for t in range(steps + 1):
        value, slope = look(bound, B, counts, words, new, root, nodes, work)
        pull = np.dot(precision, new - centre)
        value -= 0.5 * np.dot(new - centre, pull)
        if t > 0 and not value >= best - 1e-12 * abs(best):
            halvings += 1
            if halvings > HALVINGS:
                return
            rate *= 0.5
            new[:] = mean + rate * step
            continue
        gain = value - best
        best = value
        mean[:] = new
        if t == steps or (t > 0 and gain < tol):
            return
        curvature(bound, B, counts, words, False, True, False, work, negative, safe)
        newton_factor(precision, negative, safe, factor)
        step[:] = slope - pull
        solve(factor, step)
        rate = min(1.0, REACH / max(np.max(np.abs(step)), 1e-300))
        new[:] = mean + rate * step


@numba.njit(cache=True, nogil=True)
def adagrad_steps(
    bound: int,
    B: Array,
    counts: Array,
    words: float,
    nodes: Array,
    centre: Array,
    precision: Array,
    steps: int,
    full: bool,
    moves_root: bool,
    mean: Array,
    root: Array,
    sums: Array,
    root_sums: Array,
    work: tuple,
    sampled_slopes: Array,
) -> None:
    """AdaGrad on the mean, and with `moves_root` on C by reparameterised gradients (s-dsvi)."""
    p = len(mean)
    for _ in range(steps):
        _, slope = look(bound, B, counts, words, mean, root, nodes, work)
        slope -= np.dot(precision, mean - centre)
        if moves_root:
            node_slopes(bound, B, counts, words, work, sampled_slopes)
            in_root = np.dot(nodes.T, sampled_slopes) / len(nodes) - np.dot(root, precision)
            for j in range(p):
                in_root[j, j] += 1.0 / root[j, j]
                for k in range(j + 1):
                    if full or j == k:
                        root_sums[j, k] += in_root[j, k] ** 2
                        step = ROOT_RATE * in_root[j, k] / np.sqrt(root_sums[j, k] + 1e-12)
                        limit = ROOT_SHARE * min(root[j, j], root[k, k])
                        root[j, k] += min(max(step, -limit), limit)
        for k in range(p):
            sums[k] += slope[k] ** 2
            mean[k] += ADAGRAD_RATE * slope[k] / np.sqrt(sums[k] + 1e-12)


@numba.njit(cache=True, nogil=True)
def node_slopes(bound: int, B: Array, counts: Array, words: float, work: tuple, out: Array) -> None:
    """out (S, P): gradient of the term in η at each node, after `look`; what moves with C alone for the mean field."""
    theta, counted = work[0], work[2]
    S, K = theta.shape
    logs = np.dot(counts, B) if bound == SIMPLE else np.zeros(K)
    for s in range(S):
        centre = np.dot(theta[s], logs)
        for k in range(K - 1):
            if bound == OPTIMAL:
                out[s, k] = counted[s, k] - words * theta[s, k]
            elif bound == MEAN_FIELD:
                out[s, k] = -words * theta[s, k]
            else:
                out[s, k] = theta[s, k] * (logs[k] - centre)


@numba.njit(cache=True, nogil=True)
def settle_root(
    bound: int,
    B: Array,
    counts: Array,
    words: float,
    nodes: Array,
    precision: Array,
    full: bool,
    sweeps: int,
    mean: Array,
    root: Array,
    work: tuple,
    buffers: tuple,
) -> int:
    """Covariance from its fixed point S⁻¹ = Σ⁻¹ - E[Hessian]; returns repairs."""
    negative, safe, factor = buffers
    repairs = 0
    for _ in range(sweeps):
        look(bound, B, counts, words, mean, root, nodes, work)
        curvature(bound, B, counts, words, True, False, not full, work, negative, safe)
        repairs += inverse_root(precision, negative, full, factor, root)
    return repairs


@numba.njit(cache=True, nogil=True)
def gathered(indices: Array, topics: Array, out: Array) -> None:
    """Rows of the topics that a document's words have."""
    for w in range(len(indices)):
        for k in range(topics.shape[1]):
            out[w, k] = topics[indices[w], k]


@numba.njit(cache=True, nogil=True)
def add_words(bound: int, indices: Array, counts: Array, B: Array, work: tuple, out: Array) -> None:
    """out (V, K) += c E r for the document's words."""
    theta, ratio, _, single, single_ratio, _ = work[:6]
    S, K = theta.shape
    if bound == MEAN_FIELD:
        weights = np.dot(single_ratio, single)
    else:
        weights = np.dot(ratio, theta) / S
    for w in range(len(indices)):
        for k in range(K):
            if bound == SIMPLE:
                for s in range(S):
                    out[indices[w], k] += counts[w] * theta[s, k] / S
            else:
                out[indices[w], k] += weights[w, k] * B[w, k]


@numba.njit(cache=True, nogil=True)
def documents(
    indptr: Array,
    indices: Array,
    data: Array,
    topics: Array,
    offset: Array,
    centre: Array,
    precision: Array,
    log_det: float,
    nodes: Array,
    first_node: Array,
    bound: int,
    rule: int,
    full: bool,
    rounds: int,
    steps: int,
    tol: float,
    state: Array,
    values: Array,
    proportions: Array,
    squares: Array,
    roots: Array,
    word_sums: Array,
    moment_sums: Array,
) -> int:
    """The local step of every document of a block.

    `state` (n, width) holds means (and AdaGrad's sums, s-dsvi: C and its sums) and is changed in place; `values` (n,)
    are the documents' terms of the bound; `proportions`, `squares` (n, K: E θ, E θ²), `roots` (n, P, P), `word_sums`
    (V, K) and `moment_sums` (K, K) are filled where they have rows. Returns repairs of covariances.
    """
    K = topics.shape[1]
    p, S = K - 1, nodes.shape[1]
    root, negative, safe, factor = np.zeros((p, p)), np.empty((p, p)), np.empty((p, p)), np.zeros((p, p))
    theta, counted = np.empty((S, K)), np.empty((S, K))
    single, single_counted = np.empty((1, K)), np.empty((1, K))
    root_sums, slopes, ahead = np.zeros((p, p)), np.empty((S, p)), np.ones(K)
    buffers = (negative, safe, factor)
    repairs = 0
    for i in range(len(indptr) - 1):
        words_of = indices[indptr[i] : indptr[i + 1]]
        counts = data[indptr[i] : indptr[i + 1]]
        n = len(words_of)
        B = np.empty((n, K))
        gathered(words_of, topics, B)
        words = counts.sum()
        ratio, single_ratio, table = np.empty((n, S)), np.empty((n, 1)), np.empty((n, K))
        work = (theta, ratio, counted, single, single_ratio, single_counted, table)
        eps = nodes[first_node[i]]
        mean = state[i, :p].copy()
        if rule == STANDARD:
            sums = state[i, p : 2 * p]
            if full:
                root[:] = state[i, 2 * p : 2 * p + p * p].copy().reshape(p, p)
                root_sums[:] = state[i, 2 * p + p * p :].copy().reshape(p, p)
            else:
                root[:], root_sums[:] = np.diag(state[i, 2 * p : 3 * p]), np.diag(state[i, 3 * p :])
            adagrad_steps(
                bound,
                B,
                counts,
                words,
                eps,
                centre,
                precision,
                steps,
                full,
                True,
                mean,
                root,
                sums,
                root_sums,
                work,
                slopes,
            )
            if full:
                state[i, 2 * p : 2 * p + p * p] = root.copy().reshape(p * p)
                state[i, 2 * p + p * p :] = root_sums.copy().reshape(p * p)
            else:
                state[i, 2 * p : 3 * p], state[i, 3 * p :] = np.diag(root), np.diag(root_sums)
        else:
            root[:] = 0.0
            repairs += settle_root(bound, B, counts, words, eps, precision, full, 1, mean, root, work, buffers)
            for _ in range(rounds):
                if rule == HYBRID:
                    adagrad_steps(
                        bound,
                        B,
                        counts,
                        words,
                        eps,
                        centre,
                        precision,
                        steps,
                        full,
                        False,
                        mean,
                        root,
                        state[i, p:],
                        root_sums,
                        work,
                        slopes,
                    )
                else:
                    settle_mean(bound, B, counts, words, eps, centre, precision, steps, tol, mean, root, work, buffers)
                repairs += settle_root(bound, B, counts, words, eps, precision, full, 1, mean, root, work, buffers)
        state[i, :p] = mean
        value, _ = look(bound, B, counts, words, mean, root, eps, work)
        for w in range(n):
            value += counts[w] * offset[words_of[w]]
        values[i] = local_value(value, mean, root, centre, precision, log_det)
        if len(proportions):
            for k in range(K):
                for s in range(S):
                    proportions[i, k] += theta[s, k] / S
                    squares[i, k] += theta[s, k] ** 2 / S
        if len(roots):
            roots[i] = root
        if len(word_sums):
            add_words(bound, words_of, counts, B, work, word_sums)
        if len(moment_sums):
            ahead[1:] = mean
            moment_sums += np.outer(ahead, ahead)
            moment_sums[1:, 1:] += np.dot(root.T, root)
    return repairs
