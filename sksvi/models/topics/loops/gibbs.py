"""Compiled collapsed Gibbs sampling of the topics of a document's words, θ integrated out.

    p(z = k | rest) ∝ (α_k + N_k) b_kw, N without the word itself

Words of a cell that has many are drawn together (`cells`).

A sweep that begins with few topics visits these, N_k b_kw, and seldom all of them, α_k b_kw. Any other weighs all of
them, side by side in lanes, and finds one without a branch: guesses of the processor would be wrong as often as not.
"""

from __future__ import annotations

import numpy as np

from sksvi._runtime.compiled import entry, njit
from sksvi.families.implicit_loops import digamma
from sksvi.models.numbers import GOLDEN, mixed, uniform_of
from sksvi.models.topics.loops.algebra import LDA_DOCUMENTS, compiled
from sksvi.models.topics.loops.cells import TOGETHER, draw_cells

Array = np.ndarray

#: Sums of weights, each of every sixteenth topic, and the topics that are added to them at a time.
LANES, ROUND = 16, 64
#: Topics that occur times this, below which only these are visited: one by itself costs more than one among all.
SPARSE = 8

always = njit(inline="always")


@compiled
def _whole(counts: Array, first: np.uint64, few: Array, many: Array) -> float:
    """Counts rounded up with the probability of their fraction, into `few` or `many`; their sum."""
    total = 0.0
    for w in range(len(counts)):
        low = np.floor(counts[w])
        up = counts[w] > low and uniform_of(first + np.uint64(w + 1) * GOLDEN) < counts[w] - low
        n = low + (1.0 if up else 0.0)
        few[w], many[w] = (int(n), 0.0) if n < TOGETHER else (0, n)
        total += n
    return total


@always
def _lane(weight: Array, row: Array, l: int) -> float:
    """What a round adds to lane l. Plain products and sums in this order: the same bits on any processor."""
    low = weight[l] * row[l] + weight[LANES + l] * row[LANES + l]
    return low + (weight[2 * LANES + l] * row[2 * LANES + l] + weight[3 * LANES + l] * row[3 * LANES + l])


@always
def _fill(weight: Array, row: Array, lanes: Array) -> None:
    for l in range(LANES):
        lanes[l] = _lane(weight, row, l)
    for first in range(ROUND, len(weight), ROUND):
        its, own = weight[first : first + ROUND], row[first : first + ROUND]
        for l in range(LANES):
            lanes[l] += _lane(its, own, l)


@always
def _share(u: float, a: float, b: float, c: float) -> int:
    """Index of the share, of four, that u lies in; a, b and c are the first three."""
    return (1 if u >= a else 0) + (1 if u >= a + b else 0) + (1 if u >= a + b + c else 0)


@always
def _before(share: int, a: float, b: float, c: float) -> float:
    """Sum of the shares before one."""
    return (a if share > 0 else 0.0) + (b if share > 1 else 0.0) + (c if share > 2 else 0.0)


@always
def _found(weight: Array, row: Array, lanes: Array, n_topics: int, u: float) -> int:
    """A topic with probability ∝ `weight` b: four lanes, one of them, a topic of it."""
    _fill(weight, row, lanes)
    a, b = (lanes[0] + lanes[1]) + (lanes[2] + lanes[3]), (lanes[4] + lanes[5]) + (lanes[6] + lanes[7])
    c, d = (lanes[8] + lanes[9]) + (lanes[10] + lanes[11]), (lanes[12] + lanes[13]) + (lanes[14] + lanes[15])
    u *= (a + b) + (c + d)
    four = _share(u, a, b, c)
    u -= _before(four, a, b, c)
    a, b, c = lanes[4 * four], lanes[4 * four + 1], lanes[4 * four + 2]
    lane = _share(u, a, b, c)
    u -= _before(lane, a, b, c)
    lane += 4 * four
    k, below = lane, 0.0
    for first in range(0, len(weight) - LANES, LANES):
        below += weight[first + lane] * row[first + lane]
        k += LANES if u >= below else 0
    return min(k, n_topics - 1)  # rounding may leave a little of u


@compiled
def _dense_sweep(
    own: Array, whole: Array, weight: Array, lanes: Array, n_topics: int, taken: float, z: Array, state: np.uint64
) -> np.uint64:
    """A topic for every word by `weight`, α + N, which is padded with zeros as rows of `own` are; the random state.

    Each word is first taken away, or, where `taken` is 0, none is there yet and `weight` stands.
    """
    at = 0
    for w in range(len(whole)):
        row = own[w]
        for _ in range(whole[w]):
            state += GOLDEN
            weight[z[at]] -= taken
            k = _found(weight, row, lanes, n_topics, uniform_of(state))
            weight[k] += taken
            z[at] = k
            at += 1
    return state


@compiled
def _sparse(row: Array, rest: float, occupied: Array, occupied_counts: Array, n: int, alpha: Array, u: float) -> int:
    """A topic with probability ∝ (α + N) b; ``rest`` is Σ α b, `occupied_counts` N of the `n` topics `occupied`."""
    total = 0.0
    for j in range(n):
        total += occupied_counts[j] * row[occupied[j]]
    u *= total + rest
    if u < total:
        for j in range(n):
            u -= occupied_counts[j] * row[occupied[j]]
            if u < 0.0:
                return int(occupied[j])
        return int(occupied[n - 1])  # rounding left a little of u
    u -= total
    for k in range(len(alpha)):
        u -= alpha[k] * row[k]
        if u < 0.0:
            return k
    return int(np.argmax(alpha * row[: len(alpha)]))  # the same


@compiled
def _put(k: int, occupied: Array, occupied_counts: Array, place: Array, n: int) -> int:
    """Add a word to topic k; returns how many topics occur. ``place`` is where a topic is among them, or -1."""
    if place[k] < 0:
        occupied[n], occupied_counts[n], place[k] = k, 1.0, n
        return n + 1
    occupied_counts[place[k]] += 1.0
    return n


@compiled
def _taken(k: int, occupied: Array, occupied_counts: Array, place: Array, n: int) -> int:
    """Remove a word from topic k; returns how many topics occur."""
    at = place[k]
    occupied_counts[at] -= 1.0
    if occupied_counts[at] > 0.0:
        return n
    last = occupied[n - 1]
    occupied[at], occupied_counts[at], place[last] = last, occupied_counts[n - 1], at
    place[k] = -1
    return n - 1


@compiled
def _sparse_sweep(own: Array, whole: Array, rest: Array, alpha: Array, z: Array, state: np.uint64) -> np.uint64:
    """As `_dense_sweep`, where few topics occur; ``rest`` is Σ α b of every word."""
    K, n, at = len(alpha), 0, 0
    occupied, occupied_counts, place = np.empty(K, np.int64), np.empty(K), np.full(K, -1)
    for k in z:
        n = _put(k, occupied, occupied_counts, place, n)
    for w in range(len(whole)):
        for _ in range(whole[w]):
            n = _taken(z[at], occupied, occupied_counts, place, n)
            state += GOLDEN
            z[at] = _sparse(own[w], rest[w], occupied, occupied_counts, n, alpha, uniform_of(state))
            n = _put(z[at], occupied, occupied_counts, place, n)
            at += 1
    return state


@compiled
def _counted(z: Array, cell_counts: Array, topic_counts: Array) -> np.intp:
    """Count the words of every topic, N, into `topic_counts`; returns how many topics occur."""
    topic_counts[:] = 0.0
    for j in range(len(cell_counts)):
        topic_counts += cell_counts[j]
    for k in z:
        topic_counts[k] += 1.0
    return np.count_nonzero(topic_counts)


@compiled
def _add_words(words: Array, whole: Array, z: Array, share: float, word_counts: Array) -> None:
    at = 0
    for w in range(len(words)):
        out = word_counts[words[w]]
        for _ in range(whole[w]):
            out[z[at]] += share
            at += 1


@compiled
def _add_cells(words: Array, cells: Array, cell_counts: Array, share: float, word_counts: Array) -> None:
    for j in range(len(cells)):
        word_counts[words[cells[j]]] += share * cell_counts[j]


@compiled
def _add_logs(alpha: Array, topic_counts: Array, share: float, logs: Array) -> None:
    """Add a share of E log θ under Dir(α + N) to `logs` (K,)."""
    common = digamma(alpha.sum() + topic_counts.sum())
    for k in range(len(alpha)):
        logs[k] += share * (digamma(alpha[k] + topic_counts[k]) - common)


@entry(*LDA_DOCUMENTS, "rest (V) f", "streams (n) i", "squares (n|0, K) f", "logs (n|0, K) f", "word_counts (V|0, K) f")
@compiled
def gibbs_documents(
    indptr: Array,
    words: Array,
    counts: Array,
    topics: Array,
    rest: Array,
    alpha: Array,
    burn_in: int,
    averaged_sweeps: int,
    draws: int,
    key: int,
    streams: Array,
    counts_of_topics: Array,
    squares: Array,
    logs: Array,
    word_counts: Array,
) -> float:
    """Sweeps over the words of every document; means over the last `averaged_sweeps` of them, more where those are
    fewer than `draws` words. Returns the number of words drawn.

    A document starts from topics drawn by ``counts_of_topics``. ``rest``: Σ_k α_k b_kw of each word. ``streams``: a
    number per document that names its random numbers. ``squares``: mean of N²; ``logs``: of E log θ given N; both
    where asked for.
    """
    K, drawn = topics.shape[1], 0.0
    padded = -(-K // ROUND) * ROUND
    weight, lanes, topic_counts = np.zeros(padded), np.empty(LANES), np.empty(K)
    for i in range(len(counts_of_topics)):
        start, stop = indptr[i], indptr[i + 1]
        its, counted = words[start:stop], counts_of_topics[i]
        state = mixed(np.uint64(key) + np.uint64(streams[i]) * GOLDEN)
        few, many = np.empty(len(its), np.int64), np.empty(len(its))
        total = _whole(counts[start:stop], state, few, many)
        state += np.uint64(len(its)) * GOLDEN
        own, others = np.zeros((len(its), padded)), np.empty(len(its))
        for w in range(len(its)):
            own[w, :K], others[w] = topics[its[w]], rest[its[w]]
        z, cells = np.zeros(few.sum(), np.int64), np.flatnonzero(many)
        cell_counts = np.zeros((len(cells), K))
        weight[:K] = alpha + counted
        state = draw_cells(cells, many, own, weight, False, state, cell_counts)
        state = _dense_sweep(own, few, weight, lanes, K, 0.0, z, state)
        n, counted[:] = _counted(z, cell_counts, topic_counts), 0.0
        own_sweeps = max(averaged_sweeps, int(np.ceil(draws / max(total, 1.0))))
        share = 1.0 / own_sweeps
        for number in range(burn_in + own_sweeps):
            if len(cells):
                weight[:K] = alpha + topic_counts
                state = draw_cells(cells, many, own, weight, True, state, cell_counts)
                n = _counted(z, cell_counts, topic_counts)
            if SPARSE * n < K and not len(cells):
                state = _sparse_sweep(own, few, others, alpha, z, state)
            else:
                weight[:K] = alpha + topic_counts
                state = _dense_sweep(own, few, weight, lanes, K, 1.0, z, state)
            n = _counted(z, cell_counts, topic_counts)
            if number < burn_in:
                continue
            counted += share * topic_counts
            if len(squares):
                squares[i] += share * topic_counts**2
            if len(logs):
                _add_logs(alpha, topic_counts, share, logs[i])
            if len(word_counts):
                _add_words(its, few, z, share, word_counts)
                _add_cells(its, cells, cell_counts, share, word_counts)
        drawn += (burn_in + own_sweeps) * total
    return drawn
