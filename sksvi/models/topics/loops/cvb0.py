"""Compiled collapsed local step of latent Dirichlet allocation, θ integrated out to first order: CVB0.

φ_wk ∝ (α_k + N_k - φ_wk) b_kw, N_k = Σ_w c_w φ_wk
"""

from __future__ import annotations

import numpy as np

from sksvi._runtime.compiled import njit
from sksvi.families.implicit_loops import digamma, tetragamma
from sksvi.models.topics.loops.algebra import compiled

Array = np.ndarray

#: Largest responsibility of which the probability that a word is of another topic is taken.
LARGEST = 1.0 - 1e-12

#: Of loops that add and store nothing: with stores, bits would depend on where arrays lie.
adding = njit(error_model="numpy", fastmath={"reassoc", "contract"})


@adding
def _total(weight: Array) -> float:
    total = 0.0
    for k in range(len(weight)):
        total += weight[k]
    return total


@compiled
def _weighted(weight: Array, row: Array, counted: Array, alpha: Array, own: float, old: Array) -> float:
    """(α + N - own φ) b into `weight`; its sum. Of 1e14 words rounding loses some: none are left then, not less."""
    for k in range(len(weight)):
        others = alpha[k] + counted[k] - own * old[k]
        weight[k] = (others if counted[k] > own * old[k] else alpha[k]) * row[k]
    return _total(weight)


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
    own: Array,
    words: Array,
    counts: Array,
    alpha: Array,
    sweeps: int,
    small: float,
    counted: Array,
    logs: Array,
    word_counts: Array,
) -> int:
    """Fixed point of one document from `counted` (K,), which moves; E log θ into `logs` (K|0,).

    Otherwise as `mean_field.expected`.
    """
    K, n, done = len(alpha), len(counts), 0
    weight, phi = np.empty(K), np.empty(own.shape)
    for w in range(n):
        phi[w] /= _weighted(phi[w], own[w], counted, alpha, 0.0, counted)
    counted[:] = 0.0
    for w in range(n):
        counted += counts[w] * phi[w]
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
            word_counts[words[w]] += counts[w] * phi[w]
    if len(logs):
        expected_logs(alpha, counts, phi, counted, logs)
    return done
