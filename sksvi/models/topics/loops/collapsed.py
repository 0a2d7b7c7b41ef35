"""Compiled collapsed local steps of latent Dirichlet allocation, θ integrated out: CVB0, and Gibbs sampling.

    CVB0   φ_wk ∝ (α_k + N_k - φ_wk) b_kw, N_k = Σ_w c_w φ_wk
    Gibbs  p(z = k | rest) ∝ (α_k + N_k) b_kw, N without the word itself

Gibbs visits the topics that occur in the document, N_k b_kw, and seldom all of them, α_k b_kw.
"""

from __future__ import annotations

import numba
import numpy as np

from sksvi._compiled import entry
from sksvi.models.numbers import GOLDEN, mixed, uniform_of
from sksvi.models.topics.loops.algebra import compiled
from sksvi.models.topics.loops.documents import LDA_DOCUMENTS, gathered

Array = np.ndarray


@numba.njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract"})
def _weighted(weight: Array, row: Array, counted: Array, alpha: Array, own: float, old: Array) -> float:
    """(α + N - own φ) b into `weight`; its sum."""
    total = 0.0
    for k in range(len(weight)):
        weight[k] = (alpha[k] + counted[k] - own * old[k]) * row[k]
        total += weight[k]
    return total


@entry(*LDA_DOCUMENTS, "word_counts (V|0, K) f")
@compiled
def cvb0_documents(
    indptr: Array,
    words: Array,
    counts: Array,
    topics: Array,
    alpha: Array,
    sweeps: int,
    tol: float,
    counts_of_topics: Array,
    word_counts: Array,
) -> int:
    """Fixed point of every document; see `mean_field_documents`."""
    K, done = topics.shape[1], 0
    weight = np.empty(K)
    for i in range(len(counts_of_topics)):
        start, stop = indptr[i], indptr[i + 1]
        its, counted = counts[start:stop], counts_of_topics[i]
        own = gathered(topics, words[start:stop])
        phi = np.empty(own.shape)
        for w in range(stop - start):
            phi[w] /= _weighted(phi[w], own[w], counted, alpha, 0.0, counted)
        counted[:] = 0.0
        for w in range(stop - start):
            counted += its[w] * phi[w]
        small = tol * its.sum()
        for _ in range(sweeps):
            moved = 0.0
            for w in range(stop - start):
                old = phi[w]
                # Of a count below 1 there is no whole word to take away.
                share = 1.0 / _weighted(weight, own[w], counted, alpha, min(its[w], 1.0), old)
                for k in range(K):
                    change = share * weight[k] - old[k]
                    counted[k] += its[w] * change
                    moved += its[w] * abs(change)
                    old[k] += change
            done += stop - start
            if moved <= small:
                break
        if len(word_counts):
            for w in range(stop - start):
                word_counts[words[start + w]] += its[w] * phi[w]
    return done


@compiled
def _drawn(
    row: Array, rest: float, counted: Array, occupied: Array, n: int, alpha: Array, u: float, sums: Array
) -> int:
    """A topic with probability ∝ (α + N) b; ``rest`` is Σ α b, the first `n` of `occupied` are topics with N > 0."""
    total = 0.0
    for j in range(n):
        total += counted[occupied[j]] * row[occupied[j]]
        sums[j] = total
    u *= total + rest
    if u < total:
        for j in range(n):
            if u < sums[j]:
                return int(occupied[j])
    u -= total
    for k in range(len(alpha)):
        u -= alpha[k] * row[k]
        if u < 0.0:
            return k
    # Rounding may leave a little of u.
    return int(np.argmax(alpha * row))


@compiled
def _whole(counts: Array, first: np.uint64, out: Array) -> int:
    """Counts rounded up with the probability of their fraction, into `out`; their sum."""
    total = 0
    for w in range(len(counts)):
        low = np.floor(counts[w])
        up = counts[w] > low and uniform_of(first, w + 1) < counts[w] - low
        out[w] = int(low) + (1 if up else 0)
        total += out[w]
    return total


@compiled
def _put(k: int, counted: Array, occupied: Array, place: Array, n: int) -> int:
    """One more word of topic k; how many topics occur."""
    if counted[k] == 0:
        occupied[n], place[k] = k, n
        n += 1
    counted[k] += 1
    return n


@compiled
def _taken(k: int, counted: Array, occupied: Array, place: Array, n: int) -> int:
    """One word less of topic k; how many topics occur."""
    counted[k] -= 1
    if counted[k] == 0:
        n -= 1
        last = occupied[n]
        occupied[place[k]], place[last] = last, place[k]
    return n


@entry(
    *LDA_DOCUMENTS,
    "rest (V) f",
    "streams (n) i",
    "squares (n|0, K) f",
    "word_counts (V|0, K) f",
)
@compiled
def gibbs_documents(
    indptr: Array,
    words: Array,
    counts: Array,
    topics: Array,
    rest: Array,
    alpha: Array,
    burn_in: int,
    kept: int,
    key: int,
    streams: Array,
    counts_of_topics: Array,
    squares: Array,
    word_counts: Array,
) -> int:
    """Sweeps over the words of every document; means over the last `kept` of them. Number of words drawn.

    A document starts from topics drawn by ``counts_of_topics``. ``rest``: Σ_k α_k b_kw of each word. ``streams``: a
    number per document that names its random numbers. ``squares``: mean of N², where asked for.
    """
    K, drawn = topics.shape[1], 0
    N, occupied, place = np.zeros(K, np.int64), np.empty(K, np.int64), np.empty(K, np.int64)
    sums = np.empty(K)
    for i in range(len(counts_of_topics)):
        start, stop = indptr[i], indptr[i + 1]
        state = mixed(np.uint64(key) + np.uint64(streams[i]) * GOLDEN)
        whole = np.empty(stop - start, np.int64)
        total = _whole(counts[start:stop], state, whole)
        state += np.uint64(stop - start) * GOLDEN
        own, counted, z = gathered(topics, words[start:stop]), counts_of_topics[i], np.empty(total, np.int64)
        N[:] = 0
        n, begun = 0, 0
        for k in range(K):
            if counted[k] > 0.0:
                occupied[begun] = k
                begun += 1
        at = 0
        for w in range(stop - start):
            for _ in range(whole[w]):
                state += GOLDEN
                z[at] = _drawn(
                    own[w], rest[words[start + w]], counted, occupied, begun, alpha, uniform_of(state, 0), sums
                )
                at += 1
        for k in z:
            n = _put(k, N, occupied, place, n)
        counted[:] = 0.0
        for number in range(burn_in + kept):
            at = 0
            for w in range(stop - start):
                row, other = own[w], rest[words[start + w]]
                for _ in range(whole[w]):
                    n = _taken(z[at], N, occupied, place, n)
                    state += GOLDEN
                    z[at] = _drawn(row, other, N, occupied, n, alpha, uniform_of(state, 0), sums)
                    n = _put(z[at], N, occupied, place, n)
                    if number >= burn_in and len(word_counts):
                        word_counts[words[start + w], z[at]] += 1.0 / kept
                    at += 1
            drawn += total
            if number >= burn_in:
                for k in range(K):
                    counted[k] += N[k] / kept
                    if len(squares):
                        squares[i, k] += N[k] ** 2 / kept
    return drawn
