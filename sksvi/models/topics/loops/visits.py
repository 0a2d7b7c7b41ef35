"""Compiled visits of documents of latent Dirichlet allocation whose local step is an ascent: mean field, or CVB0.

Mean field: φ_wk ∝ exp(ψ(a_k)) b_kw, a_k = α_k + Σ_w c_w φ_wk. Two products of a matrix and a vector per sweep: s = B e
over words, then Bᵀ(c/s) over topics. Neither needs φ.

CVB0, collapsed, θ integrated out to first order: φ_wk ∝ (α_k + N_k - φ_wk) b_kw, N_k = Σ_w c_w φ_wk.
"""

from __future__ import annotations

import numpy as np

from sksvi._runtime.compiled import entry
from sksvi.families.implicit_loops import digamma, tetragamma
from sksvi.models.numbers import FLOAT
from sksvi.models.topics.loops.algebra import LDA_DOCUMENTS, compiled, gathered, scaled_proportions, smallest, sum_of

# ---- mean field
Array = np.ndarray

#: Least share of the smaller of old and new counts that a sweep beyond its best value leaves.
LEAST_LEFT = 0.3


@compiled
def sweep(own: Array, columns: Array, counts: Array, proportions: Array, ratio: Array, after: Array) -> None:
    """Expected counts over `proportions`, exp(E log θ), `after` (K,); counts over Σ_k φ's numerators, `ratio` (W,)."""
    # Into arrays at hand: numba compiles a product that makes its own array for three times as long.
    np.dot(own, proportions, ratio)
    for w in range(len(counts)):
        ratio[w] = counts[w] / ratio[w]
    np.dot(columns, ratio, after)


@compiled
def ascend(
    own: Array, counts: Array, alpha: Array, sweeps: int, small: float, beyond: float, counted: Array,
    proportions: Array, ratio: Array, after: Array,
) -> int:  # fmt: skip
    """Coordinate ascent on one row's q and φ from `counted` (K,), which moves; number of sweeps.

    It ends after `sweeps`, or where one moved `small` of the counts or less. All sweeps but the first and the last go a
    share `beyond` further than to their best value.
    """
    least, columns, done = smallest(own), own.T, 0
    for s in range(sweeps):
        scaled_proportions(alpha, counted, least, proportions)
        sweep(own, columns, counts, proportions, ratio, after)
        moved = 0.0
        for k in range(len(counted)):
            now = proportions[k] * after[k]
            moved += abs(now - counted[k])
            if beyond > 0.0 and 0 < s < sweeps - 1:
                now = max(now + beyond * (now - counted[k]), LEAST_LEFT * min(now, counted[k]))
            counted[k] = now
        done += 1
        if moved <= small:
            break
    return done


@compiled
def add_counts(own: Array, words: Array, proportions: Array, ratio: Array, word_counts: Array) -> None:
    """word_counts (V, K) += expected counts of one row's words, with `proportions` and `ratio` of the last `sweep`."""
    for w in range(len(words)):
        out = word_counts[words[w]]
        for k in range(len(proportions)):
            out[k] += ratio[w] * proportions[k] * own[w, k]


@compiled
def counted_at(
    own: Array, words: Array, counts: Array, proportions: Array, ratio: Array, after: Array, counted: Array,
    word_counts: Array,
) -> None:  # fmt: skip
    """Expected counts of one row at `proportions` (K,): N into `counted`, those of its words added to `word_counts`."""
    sweep(own, own.T, counts, proportions, ratio, after)
    for k in range(len(counted)):
        counted[k] = proportions[k] * after[k]
    if len(word_counts):
        add_counts(own, words, proportions, ratio, word_counts)


@compiled
def expected(
    own: Array, words: Array, counts: Array, alpha: Array, sweeps: int, small: float, counted: Array, word_counts: Array
) -> int:
    """`ascend` of one document; its expected counts, at the last q(θ), are added to `word_counts`; sweeps."""
    proportions, ratio = np.empty(len(alpha), own.dtype), np.empty(len(counts), own.dtype)
    after = np.empty(len(alpha), own.dtype)
    done = ascend(own, counts, alpha, sweeps, small, 0.0, counted, proportions, ratio, after)
    if len(word_counts):
        scaled_proportions(alpha, counted, smallest(own), proportions)
        sweep(own, own.T, counts, proportions, ratio, after)
        add_counts(own, words, proportions, ratio, word_counts)
    return done


# ---- CVB0
#: Largest responsibility of which the probability that a word is of another topic is taken.
LARGEST = 1.0 - 1e-12


@compiled
def _weighted(weight: Array, row: Array, counted: Array, alpha: Array, own: float, old: Array) -> float:
    """(α + N - own φ) b into `weight`; its sum. Of 1e14 words rounding loses some: none are left then, not less."""
    for k in range(len(weight)):
        others = alpha[k] + counted[k] - own * old[k]
        weight[k] = (others if counted[k] > own * old[k] else alpha[k]) * row[k]
    return sum_of(weight)


@compiled
def expected_logs(alpha: Array, counts: Array, phi: Array, counted: Array, logs: Array) -> None:
    """E log θ into `logs` (K,), words independent: E ψ(α + n) - ψ(Σ(α + n)), n the words of a topic.

    n is 0 with probability Π (1 - φ)^c; of the others, mean and variance are matched to second order (as Teh, Kurihara
    and Welling 2008 do): ψ at the mean takes a topic of few words for one that every document has.
    """
    total = 0.0
    for k in range(len(alpha)):
        total += alpha[k] + counted[k]
    common = digamma(total)
    for k in range(len(alpha)):
        log_none, variance = 0.0, 0.0
        for w in range(len(counts)):
            log_none += counts[w] * np.log1p(-min(phi[w, k], LARGEST))
            variance += counts[w] * phi[w, k] * (1.0 - phi[w, k])
        some = -np.expm1(log_none)
        logs[k] = np.exp(log_none) * digamma(alpha[k]) - common
        if some > 0.0:
            mean = counted[k] / some
            spread = max(variance / some - np.exp(log_none) * mean * mean, 0.0)
            at = alpha[k] + mean
            logs[k] += some * (digamma(at) + 0.5 * spread * tetragamma(at))


@compiled
def collapsed(
    own: Array, words: Array, counts: Array, alpha: Array, sweeps: int, small: float,
    counted: Array, logs: Array, word_counts: Array,
) -> int:  # fmt: skip
    """Fixed point of one document from `counted` (K,), which moves; E log θ into `logs` (K|0,).

    Otherwise as `mean_field.expected`.
    """
    K, n, done = len(alpha), len(counts), 0
    weight, phi = np.empty(K, FLOAT), np.empty((n, K), FLOAT)
    for w in range(n):
        mass = _weighted(phi[w], own[w], counted, alpha, 0.0, counted)
        for k in range(K):  # sums of whole arrays compile for two seconds more
            phi[w, k] /= mass
    for k in range(K):
        counted[k] = 0.0
    for w in range(n):
        for k in range(K):
            counted[k] += counts[w] * phi[w, k]
    for _ in range(sweeps):
        moved = 0.0
        for w in range(n):
            old = phi[w]
            # Of a count below 1 there is no whole word to take away.
            share = 1.0 / _weighted(weight, own[w], counted, alpha, min(counts[w], 1.0), old)
            for k in range(K):
                change = share * weight[k] - old[k]
                counted[k] += counts[w] * change
                moved += counts[w] * abs(change)
                old[k] += change
        done += 1
        if moved <= small:
            break
    for k in range(K):
        counted[k] = max(counted[k], 0.0)  # as above
    if len(word_counts):
        for w in range(n):
            for k in range(K):
                word_counts[words[w], k] += counts[w] * phi[w, k]
    if len(logs):
        expected_logs(alpha, counts, phi, counted, logs)
    return done


# ---- visits
@entry(*LDA_DOCUMENTS, "logs (n|0, K) f", "word_counts (V|0, K) f")
@compiled
def visited_documents(
    indptr: Array, words: Array, counts: Array, topics: Array, alpha: Array, integrated: bool, sweeps: int, tol: float,
    counts_of_topics: Array, logs: Array, word_counts: Array,
) -> int:  # fmt: skip
    """Expected counts of every document, θ `integrated` out (CVB0) or by mean field; number of sweeps times words.

    A document ends after `sweeps`, or where a sweep moved less than `tol` of its words. ``word_counts`` += expected
    counts of each word in each topic. ``logs``: E log θ of CVB0, where asked for.
    """
    done, none = 0, np.empty(0, FLOAT)
    for i in range(len(counts_of_topics)):
        start, stop = indptr[i], indptr[i + 1]
        its, at, counted = words[start:stop], counts[start:stop], counts_of_topics[i]
        own, small = gathered(topics, its), tol * sum_of(at)
        if integrated:
            own_logs = logs[i] if len(logs) else none
            done += (stop - start) * collapsed(own, its, at, alpha, sweeps, small, counted, own_logs, word_counts)
        else:
            done += (stop - start) * expected(own, its, at, alpha, sweeps, small, counted, word_counts)
    return done
