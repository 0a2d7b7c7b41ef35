"""Compiled collapsed local steps of latent Dirichlet allocation, θ integrated out: CVB0, and Gibbs sampling.

    CVB0   φ_wk ∝ (α_k + N_k - φ_wk) b_kw, N_k = Σ_w c_w φ_wk
    Gibbs  p(z = k | rest) ∝ (α_k + N_k) b_kw, N without the word itself

Gibbs visits the topics that occur in the document, N_k b_kw, and seldom all of them, α_k b_kw; where most of them
occur, all, whose weights it adds in blocks.
"""

from __future__ import annotations

import numba
import numpy as np

from sksvi._compiled import entry
from sksvi.models.numbers import GOLDEN, mixed, uniform_of
from sksvi.models.topics.loops.algebra import compiled
from sksvi.models.topics.loops.documents import LDA_DOCUMENTS, gathered

Array = np.ndarray

#: Topics of a block, and those that occur times this beyond which all are visited: blocks cost less each.
BLOCK, DENSE = 8, 4


#: Of loops that add and store nothing: with stores, bits would depend on where arrays lie.
adding = numba.njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract"})


@adding
def _total(weight: Array) -> float:
    total = 0.0
    for k in range(len(weight)):
        total += weight[k]
    return total


@compiled
def _weighted(weight: Array, row: Array, counted: Array, alpha: Array, own: float, old: Array) -> float:
    """(α + N - own φ) b into `weight`; its sum."""
    for k in range(len(weight)):
        weight[k] = (alpha[k] + counted[k] - own * old[k]) * row[k]
    return _total(weight)


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


@adding
def _occupied_sum(row: Array, occupied: Array, held: Array, n: int) -> float:
    """Σ N b over the topics that occur."""
    total = 0.0
    for j in range(n):
        total += held[j] * row[occupied[j]]
    return total


@compiled
def _sparse(row: Array, rest: float, occupied: Array, held: Array, n: int, alpha: Array, u: float) -> int:
    """A topic with probability ∝ (α + N) b; ``rest`` is Σ α b, `held` N of the `n` topics that are `occupied`."""
    total = _occupied_sum(row, occupied, held, n)
    u *= total + rest
    if u < total:
        for j in range(n):
            u -= held[j] * row[occupied[j]]
            if u < 0.0:
                return int(occupied[j])
        return int(occupied[n - 1])  # rounding left a little of u
    u -= total
    for k in range(len(alpha)):
        u -= alpha[k] * row[k]
        if u < 0.0:
            return k
    return int(np.argmax(alpha * row[: len(alpha)]))  # the same


@adding
def _block_sum(weight: Array, row: Array, first: int) -> float:
    total = 0.0
    for k in range(first, first + BLOCK):
        total += weight[k] * row[k]
    return total


@compiled
def _dense(row: Array, weight: Array, sums: Array, u: float) -> int:
    """A topic with probability ∝ `weight` b, both with zeros up to a whole block."""
    total = 0.0
    for b in range(len(sums)):
        total += _block_sum(weight, row, BLOCK * b)
        sums[b] = total
    u *= total
    b = 0
    while b < len(sums) - 1 and u >= sums[b]:
        b += 1
    if b > 0:
        u -= sums[b - 1]
    last = BLOCK * b
    for k in range(BLOCK * b, BLOCK * (b + 1)):
        part = weight[k] * row[k]
        if part > 0.0:
            last = k  # rounding may leave a little of u
        u -= part
        if u < 0.0:
            break
    return last


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
def _put(k: int, occupied: Array, held: Array, place: Array, n: int) -> int:
    """One more word of topic k; how many topics occur. ``place`` is where a topic is among them, or -1."""
    if place[k] < 0:
        occupied[n], held[n], place[k] = k, 1.0, n
        return n + 1
    held[place[k]] += 1.0
    return n


@compiled
def _taken(k: int, occupied: Array, held: Array, place: Array, n: int) -> int:
    """One word less of topic k; how many topics occur."""
    at = place[k]
    held[at] -= 1.0
    if held[at] > 0.0:
        return n
    last = occupied[n - 1]
    occupied[at], held[at], place[last] = last, held[n - 1], at
    place[k] = -1
    return n - 1


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
    K, drawn, share = topics.shape[1], 0, 1.0 / kept
    n_blocks = -(-K // BLOCK)
    occupied, held, place = np.empty(K, np.int64), np.empty(K), np.empty(K, np.int64)
    weight, sums = np.zeros(n_blocks * BLOCK), np.empty(n_blocks)
    for i in range(len(counts_of_topics)):
        start, stop = indptr[i], indptr[i + 1]
        state = mixed(np.uint64(key) + np.uint64(streams[i]) * GOLDEN)
        whole = np.empty(stop - start, np.int64)
        total = _whole(counts[start:stop], state, whole)
        state += np.uint64(stop - start) * GOLDEN
        own = np.zeros((stop - start, n_blocks * BLOCK))
        for w in range(stop - start):
            own[w, :K] = topics[words[start + w]]
        counted, z = counts_of_topics[i], np.empty(total, np.int64)
        n = 0
        for k in range(K):
            if counted[k] > 0.0:
                occupied[n], held[n] = k, counted[k]
                n += 1
        at = 0
        for w in range(stop - start):
            for _ in range(whole[w]):
                state += GOLDEN
                z[at] = _sparse(own[w], rest[words[start + w]], occupied, held, n, alpha, uniform_of(state, 0))
                at += 1
        n = 0
        place[:] = -1
        counted[:] = 0.0
        weight[:K] = alpha
        for k in z:
            n = _put(k, occupied, held, place, n)
            weight[k] += 1.0
        for number in range(burn_in + kept):
            at = 0
            for w in range(stop - start):
                row, other = own[w], rest[words[start + w]]
                for _ in range(whole[w]):
                    n = _taken(z[at], occupied, held, place, n)
                    weight[z[at]] -= 1.0
                    state += GOLDEN
                    u = uniform_of(state, 0)
                    if DENSE * n < K:
                        z[at] = _sparse(row, other, occupied, held, n, alpha, u)
                    else:
                        z[at] = _dense(row, weight, sums, u)
                    n = _put(z[at], occupied, held, place, n)
                    weight[z[at]] += 1.0
                    at += 1
            drawn += total
            if number < burn_in:
                continue
            for j in range(n):
                counted[occupied[j]] += share * held[j]
                if len(squares):
                    squares[i, occupied[j]] += share * held[j] ** 2
            if len(word_counts):
                at = 0
                for w in range(stop - start):
                    out = word_counts[words[start + w]]
                    for _ in range(whole[w]):
                        out[z[at]] += share
                        at += 1
    return drawn
