"""Compiled inner loops of the correlated topic model: the local Gaussian of each document (equations.md 6).

A document has W distinct words with counts c, and the rows B (W, K) of what the topics say about them: exp(E log β) up
to a factor per word, which cancels in responsibilities; for the simple bound E log β itself. q(η) = N(m, CᵀC) over
K - 1 coordinates, the last topic's is 0. Expectations are means over S nodes η_s = m + Cᵀε_s.
"""

from __future__ import annotations

import numba
import numpy as np

Array = np.ndarray

compiled = numba.njit(cache=True, nogil=True, error_model="numpy")

OPTIMAL, SIMPLE, MEAN_FIELD = 0, 1, 2
NATURAL, HYBRID, STANDARD, MESSAGES = 0, 1, 2, 3
#: Longest Newton step of a coordinate (log odds), and halvings before a step is given up.
REACH, HALVINGS = 4.0, 12
#: First share by which a Hessian that is not positive definite moves to its convex part.
BLEND = 0.05
#: AdaGrad's rate of means and of C, and the most that C changes as a share of its diagonal.
ADAGRAD_RATE, ROOT_RATE, ROOT_SHARE = 1.0, 0.1, 0.5
#: A pivot below this share of its diagonal entry counts as not positive.
PIVOT = 1e-12


@compiled
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


@compiled
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


@compiled
def project(negative: Array, full: bool, factor: Array) -> int:
    """Π₊ in place: negative eigenvalues (diagonal q: entries) become zero; returns whether there were any."""
    n = len(negative)
    if not full:
        found = 0
        for k in range(n):
            if negative[k, k] < 0.0:
                negative[k, k] = 0.0
                found = 1
        return found
    if n == 0 or cholesky(negative, factor):
        return 0
    values, vectors = np.linalg.eigh(negative)
    if values[0] >= -PIVOT * values[-1]:
        return 0
    kept = vectors.copy()
    for j in range(n):
        for i in range(n):
            kept[i, j] *= max(values[j], 0.0)
    np.dot(kept, vectors.T, negative)
    return 1


@compiled
def inverse_root(precision: Array, negative: Array, full: bool, factor: Array, root: Array) -> None:
    """C of S⁻¹ = Σ⁻¹ + negative, which is positive semi-definite."""
    n = len(precision)
    for i in range(n):
        for j in range(n):
            root[i, j] = 0.0
        root[i, i] = 1.0 / np.sqrt(precision[i, i] + negative[i, i])
    if not full or n == 0:
        return
    cholesky(precision + negative, factor)
    for i in range(n):
        root[i, i] = 1.0 / factor[i, i]
        for k in range(i):
            for j in range(k + 1):
                root[i, j] -= factor[i, k] * root[k, j] / factor[i, i]


@compiled
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


@compiled
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


@compiled
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


@compiled
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


@compiled
def spread(theta: Array, words: float, each: bool, out: Array) -> None:
    """out (P, P) = N (diag θ - θθᵀ): mean over nodes, or at the mean of θ."""
    S, K = theta.shape
    centre = np.zeros(K)
    for s in range(S):
        for k in range(K):
            centre[k] += theta[s, k] / S
    for k in range(K - 1):
        out[k, k] = 0.0
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


@compiled
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


@compiled
def add_corner(a: Array, b: Array, out: Array) -> None:
    """out = a + b, the last row and column of b left out."""
    for j in range(len(out)):
        for k in range(len(out)):
            out[j, k] = a[j, k] + b[j, k]


@compiled
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
            add_corner(safe, pairs(B, counts, theta, ratio, each, table), out)
        for s in range(S):
            for k in range(K - 1):
                out[k, k] -= counted[s, k] / S
        return
    spread(theta, words, each or bound == MEAN_FIELD or bound == SIMPLE, safe)
    out[:] = safe
    if bound == MEAN_FIELD:
        if newton:
            add_corner(safe, pairs(B, counts, single, single_ratio, each, table), out)
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


@compiled
def newton_factor(precision: Array, negative: Array, safe: Array, factor: Array) -> None:
    """Factor of Σ⁻¹ + negative, moved towards its convex part until it has one."""
    share = 0.0
    while not cholesky(precision + (1.0 - share) * negative + share * safe, factor) and share < 1.0:
        share = min(1.0, max(BLEND, 2.0 * share))


@compiled
def local_value(value: float, mean: Array, root: Array, centre: Array, precision: Array, log_det: float) -> float:
    """The document's term of the bound: E log p(words | η) - KL(q(η) ‖ N(μ, Σ))."""
    delta = mean - centre
    p = len(mean)
    spreads = np.sum(np.dot(root, precision) * root)
    logs = 0.0
    for k in range(p):
        logs += np.log(root[k, k])
    return value - 0.5 * (spreads + np.dot(delta, np.dot(precision, delta)) - p + log_det) + logs


@compiled
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
    yes = len(nodes) > 0  # a constant would make the compiler write another version of `curvature`
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
        curvature(bound, B, counts, words, not yes, yes, not yes, work, negative, safe)
        newton_factor(precision, negative, safe, factor)
        step[:] = slope - pull
        solve(factor, step)
        rate = min(1.0, REACH / max(np.max(np.abs(step)), 1e-300))
        new[:] = mean + rate * step


@compiled
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
    rule: int,
    mean: Array,
    root: Array,
    sums: Array,
    root_sums: Array,
    work: tuple,
    sampled_slopes: Array,
) -> None:
    """AdaGrad on the mean, and for the standard rule on C by reparameterised gradients (s-dsvi)."""
    p = len(mean)
    for _ in range(steps):
        _, slope = look(bound, B, counts, words, mean, root, nodes, work)
        slope -= np.dot(precision, mean - centre)
        if rule == STANDARD:
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


@compiled
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


@compiled
def settle_root(
    bound: int,
    B: Array,
    counts: Array,
    words: float,
    nodes: Array,
    precision: Array,
    full: bool,
    mean: Array,
    root: Array,
    work: tuple,
    buffers: tuple,
) -> int:
    """Covariance from its fixed point S⁻¹ = Σ⁻¹ + Π₊(-E[Hessian]); returns repairs."""
    negative, safe, factor = buffers
    look(bound, B, counts, words, mean, root, nodes, work)
    yes = len(nodes) > 0
    curvature(bound, B, counts, words, yes, not yes, not full, work, negative, safe)
    repairs = project(negative, full, factor)
    inverse_root(precision, negative, full, factor, root)
    return repairs


@compiled
def message_target(
    bound: int, slope: Array, negative: Array, full: bool, mean: Array, work: tuple, held: Array, target: Array
) -> None:
    """What the words say about η given their topics (`held`), and the natural parameter of what is left (`target`)."""
    for k in range(len(mean)):
        held[k] = work[5][0, k] if bound == MEAN_FIELD else 0.0
        target[k] = slope[k] - held[k]
        for j in range(len(mean)):
            if full or j == k:
                target[k] += negative[k, j] * mean[j]


@compiled
def message_mean(
    precision: Array, centre: Array, full: bool, linear: Array, mean: Array, root: Array, out: Array
) -> None:
    """Mean of the product of N(μ, Σ) and messages; a diagonal q hears the other coordinates through their means."""
    p = len(mean)
    pull = np.dot(precision, centre) + linear
    if not full:
        pull -= np.dot(precision, mean)
        for k in range(p):
            pull[k] += precision[k, k] * mean[k]
    out[:] = np.dot(root.T, np.dot(root, pull))


@compiled
def message_steps(
    bound: int,
    B: Array,
    counts: Array,
    words: float,
    nodes: Array,
    centre: Array,
    precision: Array,
    log_det: float,
    steps: int,
    tol: float,
    full: bool,
    mean: Array,
    root: Array,
    site: Array,
    site_precision: Array,
    work: tuple,
    buffers: tuple,
) -> int:
    """Message passing: the site of the softmax term (other bounds: of the whole term) by natural steps of rate 1.

    Words of the mean-field bound answer in closed form. A step that lowers the bound is halved. Returns repairs.
    """
    negative, safe, factor = buffers
    p, repairs, rate = len(mean), 0, 1.0
    held, target = np.zeros(p), np.zeros(p)
    inverse_root(precision, site_precision, full, factor, root)
    value, slope = look(bound, B, counts, words, mean, root, nodes, work)
    best = local_value(value, mean, root, centre, precision, log_det)
    new, new_root, new_site, new_precision = mean.copy(), root.copy(), site.copy(), site_precision.copy()
    yes = len(nodes) > 0
    for _ in range(steps if p else 0):
        curvature(bound, B, counts, words, yes, not yes, not full, work, negative, safe)
        repairs += project(negative, full, factor)
        message_target(bound, slope, negative, full, mean, work, held, target)
        gain = -1.0
        for _ in range(HALVINGS):
            for k in range(p):
                new_site[k] = (1.0 - rate) * site[k] + rate * target[k]
                for j in range(p):
                    new_precision[k, j] = (1.0 - rate) * site_precision[k, j] + rate * negative[k, j]
            inverse_root(precision, new_precision, full, factor, new_root)
            message_mean(precision, centre, full, held + new_site, mean, new_root, new)
            value, slope = look(bound, B, counts, words, new, new_root, nodes, work)
            gain = local_value(value, new, new_root, centre, precision, log_det) - best
            if gain >= 0.0:
                break
            rate *= 0.5
        if not gain >= 0.0:
            break
        best += gain
        mean[:], root[:], site[:], site_precision[:] = new, new_root, new_site, new_precision
        if gain < tol:
            break
        rate = min(1.0, 2.0 * rate)
    return repairs


@compiled
def gathered(indices: Array, topics: Array, out: Array) -> None:
    """Rows of the topics that a document's words have."""
    for w in range(len(indices)):
        for k in range(topics.shape[1]):
            out[w, k] = topics[indices[w], k]


@compiled
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


@compiled
def settle(
    bound: int,
    rule: int,
    B: Array,
    counts: Array,
    words: float,
    nodes: Array,
    centre: Array,
    precision: Array,
    log_det: float,
    full: bool,
    rounds: int,
    steps: int,
    tol: float,
    state: Array,
    root: Array,
    work: tuple,
    buffers: tuple,
) -> int:
    """q(η) of a document from its `state`, by the rule; returns repairs."""
    p, S = len(root), len(nodes)
    mean, sums, table = state[:p], state[p : 2 * p], np.zeros((p, p))
    slopes = np.empty((S, p))
    if rule == STANDARD or rule == MESSAGES:
        unpack(state[2 * p :], full, root, table)
    if rule == STANDARD:
        adagrad_steps(
            bound, B, counts, words, nodes, centre, precision, steps, full, rule, mean, root, sums, table, work, slopes
        )
        pack(root, table, full, state[2 * p :])
        return 0
    if rule == MESSAGES:
        repairs = message_steps(
            bound, B, counts, words, nodes, centre, precision, log_det, steps, tol, full, mean, root, sums, table, work,
            buffers,
        )  # fmt: skip
        pack(np.zeros((p, p)), table, full, state[2 * p :])
        return repairs
    repairs, root[:] = 0, 0.0
    for t in range(rounds + 1):
        if t > 0 and rule == HYBRID:
            adagrad_steps(
                bound, B, counts, words, nodes, centre, precision, steps, full, rule, mean, root, sums, table, work,
                slopes,
            )  # fmt: skip
        elif t > 0:
            settle_mean(bound, B, counts, words, nodes, centre, precision, steps, tol, mean, root, work, buffers)
        repairs += settle_root(bound, B, counts, words, nodes, precision, full, mean, root, work, buffers)
    return repairs


@compiled
def unpack(stored: Array, full: bool, root: Array, table: Array) -> None:
    """C and a table of its size from a document's state: full, or diagonals."""
    p = len(root)
    size = p * p if full else p
    for j in range(p):
        for k in range(p):
            here = j * p + k if full else j
            root[j, k] = stored[here] if full or j == k else 0.0
            table[j, k] = stored[size + here] if full or j == k else 0.0


@compiled
def pack(root: Array, table: Array, full: bool, stored: Array) -> None:
    """The inverse of `unpack`."""
    p = len(root)
    size = p * p if full else p
    for j in range(p):
        for k in range(p):
            if full or j == k:
                here = j * p + k if full else j
                stored[here], stored[size + here] = root[j, k], table[j, k]


@compiled
def add_moments(mean: Array, root: Array, out: Array) -> None:
    """out += E(1, η)(1, η)ᵀ."""
    out[0, 0] += 1.0
    covariance = np.dot(root.T, root)
    for j in range(len(mean)):
        out[0, j + 1] += mean[j]
        out[j + 1, 0] += mean[j]
        for k in range(len(mean)):
            out[j + 1, k + 1] += mean[j] * mean[k] + covariance[j, k]


@compiled
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

    `state` (n, width) holds means (and AdaGrad's sums, s-dsvi: C and its sums, messages: sites) and is changed in
    place; `values` (n,) are the documents' terms of the bound; `proportions`, `squares` (n, K: E θ, E θ²), `roots`
    (n, P, P), `word_sums` (V, K) and `moment_sums` (K, K) are filled where they have rows. Returns repairs.
    """
    K = topics.shape[1]
    p, S = K - 1, nodes.shape[1]
    root, buffers = np.zeros((p, p)), (np.zeros((p, p)), np.zeros((p, p)), np.zeros((p, p)))
    theta, counted = np.empty((S, K)), np.empty((S, K))
    single, single_counted = np.empty((1, K)), np.empty((1, K))
    repairs = 0
    for i in range(len(indptr) - 1):
        words_of = indices[indptr[i] : indptr[i + 1]]
        counts = data[indptr[i] : indptr[i + 1]]
        n = len(words_of)
        B = np.empty((n, K))
        gathered(words_of, topics, B)
        words = 0.0
        for w in range(n):
            words += counts[w]
        work = (theta, np.empty((n, S)), counted, single, np.empty((n, 1)), single_counted, np.empty((n, K)))
        eps, mean = nodes[first_node[i]], state[i, :p]
        repairs += settle(
            bound, rule, B, counts, words, eps, centre, precision, log_det, full, rounds, steps, tol, state[i], root,
            work, buffers,
        )  # fmt: skip
        value, _ = look(bound, B, counts, words, mean, root, eps, work)
        for w in range(n):
            value += counts[w] * offset[words_of[w]]
        values[i] = local_value(value, mean, root, centre, precision, log_det)
        for k in range(K if len(proportions) else 0):
            for s in range(S):
                proportions[i, k] += theta[s, k] / S
                squares[i, k] += theta[s, k] ** 2 / S
        if len(roots):
            roots[i] = root
        if len(word_sums):
            add_words(bound, words_of, counts, B, work, word_sums)
        if len(moment_sums):
            add_moments(mean, root, moment_sums)
    return repairs
