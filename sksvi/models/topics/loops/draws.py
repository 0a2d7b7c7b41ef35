"""Compiled moves of documents for chains: topics of words and θ, or log odds by elliptical slices.

Log odds move on ellipses (Murray, Adams and MacKay 2010) of their q(η), independent and widened, not of the population:
the more words a document has the nearer that is to the posterior (Nishihara, Murray and Adams 2014). Any such
distribution leaves the posterior as it is.
"""

from __future__ import annotations

import numpy as np

from sksvi._runtime.compiled import entry
from sksvi.models.numbers import FLOAT, GOLDEN, mixed, normal, uniform, uniform_of
from sksvi.models.topics.loops.algebra import LDA_DOCUMENTS, compiled, gathered
from sksvi.models.topics.loops.bound import SMALLEST_PRODUCT
from sksvi.models.topics.loops.cells import binomial_of, gamma_of

Array = np.ndarray

#: Tells these random numbers from those of a sweep of the same key.
APART = np.uint64(0x5851F42D4C957F2D)
#: Words of a document below which a sweep with θ integrated out is done twice: where it mixes slowest, and costs least.
SHORT = 32
#: Words of a cell below which topics are drawn for each by itself: others go topic by topic.
SINGLY = 16.0


@entry("alpha (K) f", "counts (n, K) f", "streams (n) i", "out (n, K) f")
@compiled
def gamma_numbers(alpha: Array, counts: Array, key: int, streams: Array, out: Array) -> None:
    """Gamma(α + N, 1) numbers of every document, into `out`; a sum of 0 becomes that of the largest shape's topic."""
    state, spare = np.empty(1, np.uint64), np.empty(1, FLOAT)
    for i in range(len(counts)):
        state[0] = mixed((np.uint64(key) ^ APART) + np.uint64(streams[i]) * GOLDEN)
        spare[0], total, most = 0.0, 0.0, 0
        for k in range(len(alpha)):
            out[i, k] = gamma_of(alpha[k] + counts[i, k], state, spare)
            total += out[i, k]
            most = k if alpha[k] + counts[i, k] > alpha[most] + counts[i, most] else most
        if total == 0.0:  # tiny shapes underflow
            out[i, most] = 1.0


@compiled
def _topic(weight: Array, row: Array, ends: Array, u: float) -> int:
    """A topic with probability ∝ `weight` b."""
    K, total = len(ends), 0.0
    for k in range(K):
        total += weight[k] * row[k]
        ends[k] = total
    u *= total
    k = 0
    while k < K - 1 and u >= ends[k]:
        k += 1
    return k


@compiled
def _whole(counts: Array, first: np.uint64, whole: Array) -> int:
    """Counts rounded up with the probability of their fraction, into `whole`; their sum."""
    total = 0
    for w in range(len(counts)):
        low = np.floor(counts[w])
        up = counts[w] > low and uniform_of(first + np.uint64(w + 1) * GOLDEN) < counts[w] - low
        whole[w] = int(low) + (1 if up else 0)
        total += whole[w]
    return total


@compiled
def _sweep(
    its: Array, cells: Array, topics: Array, weight: Array, taken: float, z: Array, ends: Array, state: np.uint64
) -> np.uint64:
    """A topic for every word by `weight`, each first taken away, or, where `taken` is 0, none; the random state."""
    at = 0
    for w in range(len(cells)):
        row = topics[its[w]]
        for _ in range(cells[w]):
            state += GOLDEN
            weight[z[at]] -= taken
            z[at] = _topic(weight, row, ends, uniform_of(state))
            weight[z[at]] += taken
            at += 1
    return state


@compiled
def _add_words(its: Array, cells: Array, z: Array, word_counts: Array) -> None:
    at = 0
    for w in range(len(cells)):
        for _ in range(cells[w]):
            word_counts[its[w], z[at]] += 1.0
            at += 1


@entry(*LDA_DOCUMENTS, "streams (n) i", "word_counts (V|0, K) f")
@compiled
def few_topics(
    indptr: Array,
    words: Array,
    counts: Array,
    topics: Array,
    alpha: Array,
    key: int,
    streams: Array,
    counts_of_topics: Array,
    word_counts: Array,
) -> None:
    """Topics of all words given α + `counts_of_topics`, then sweeps with θ integrated out: what `gibbs_documents` does.

    Every topic is visited, and words of a cell are visited one by one: for few topics, and cells of few words.
    Documents of fewer than `SHORT` words are swept twice.
    """
    ends, weight = np.empty(len(alpha), FLOAT), np.empty(len(alpha), FLOAT)
    for i in range(len(counts_of_topics)):
        start, stop = indptr[i], indptr[i + 1]
        its, cells, N = words[start:stop], np.empty(stop - start, np.int64), counts_of_topics[i]
        state = mixed(np.uint64(key) + np.uint64(streams[i]) * GOLDEN)
        z = np.empty(_whole(counts[start:stop], state, cells), np.int64)
        z[:] = 0
        state += np.uint64(stop - start) * GOLDEN
        for k in range(len(alpha)):
            weight[k] = alpha[k] + N[k]
        state = _sweep(its, cells, topics, weight, 0.0, z, ends, state)
        for k in range(len(alpha)):
            weight[k] = alpha[k]
        for k in z:
            weight[k] += 1.0
        for _ in range(1 + (len(z) < SHORT)):
            state = _sweep(its, cells, topics, weight, 1.0, z, ends, state)
        N[:] = 0.0
        for k in z:
            N[k] += 1.0
        if len(word_counts):
            _add_words(its, cells, z, word_counts)


# ---- log odds
@compiled
def _proportions(eta: Array, theta: Array) -> None:
    """theta = softmax(η, 0)."""
    p, largest, total = len(eta), 0.0, 0.0
    for k in range(p):
        largest = max(largest, eta[k])
    for k in range(p):
        theta[k] = np.exp(eta[k] - largest)
        total += theta[k]
    theta[p] = np.exp(-largest)
    total += theta[p]
    for k in range(p + 1):
        theta[k] /= total


@compiled
def log_words(eta: Array, own: Array, counts: Array, theta: Array, fits: Array) -> float:
    """log p(words | η), nats, of words whose topics are `own` (W, K); θ and θᵀβ are left in `theta` and `fits` (W,)."""
    _proportions(eta, theta)
    np.dot(own, theta, fits)
    value, product = 0.0, 1.0
    for w in range(len(counts)):
        if counts[w] != 1.0:
            value += counts[w] * np.log(fits[w])
            continue
        product *= fits[w]
        if product < SMALLEST_PRODUCT:
            value += np.log(product)
            product = 1.0
    return value + np.log(product)


@compiled
def log_ratio(a: Array, b: Array, off: Array, precision: Array, spread: Array, out: Array) -> None:
    """What log N(m + v | m - off, Σ) - log N(m + v | m, spread²) is on the ellipse v = c a + s b, up to a constant.

    It is c, s, c², cs and s² times the numbers of `out` (5,): one product with Σ⁻¹ of each axis serves all its points.
    """
    of_a, of_b = np.empty(len(a), FLOAT), np.empty(len(a), FLOAT)
    np.dot(precision, a, of_a)
    np.dot(precision, b, of_b)
    out[:] = 0.0
    for k in range(len(a)):
        base = 1.0 / (spread[k] * spread[k])
        out[0] -= of_a[k] * off[k]
        out[1] -= of_b[k] * off[k]
        out[2] -= 0.5 * a[k] * (of_a[k] - base * a[k])
        out[3] -= b[k] * (of_a[k] - base * a[k])
        out[4] -= 0.5 * b[k] * (of_b[k] - base * b[k])


@compiled
def _move(
    eta: Array, own: Array, counts: Array, location: Array, precision: Array, centre: Array, spread: Array,
    state: Array, spare: Array, theta: Array, fits: Array,
) -> None:  # fmt: skip
    """One elliptical slice: the next η, in place, its θ, and θᵀβ of the words."""
    K, ratio = len(eta), np.empty(5, FLOAT)
    new, a, b, off = np.empty(K, FLOAT), np.empty(K, FLOAT), np.empty(K, FLOAT), np.empty(K, FLOAT)
    for k in range(K):  # whole arrays compile for a second more
        a[k], off[k] = eta[k] - centre[k], centre[k] - location[k]
        b[k] = spread[k] * normal(state, spare)
    log_ratio(a, b, off, precision, spread, ratio)
    level = log_words(eta, own, counts, theta, fits) + ratio[0] + ratio[2] + np.log(uniform(state))
    angle = 2.0 * np.pi * uniform(state)
    low, high = angle - 2.0 * np.pi, angle
    while True:
        c, s = np.cos(angle), np.sin(angle)
        for k in range(len(eta)):
            new[k] = centre[k] + c * a[k] + s * b[k]
        found = log_words(new, own, counts, theta, fits) + c * ratio[0] + s * ratio[1]
        found += c * (c * ratio[2] + s * ratio[3]) + s * s * ratio[4]
        if found >= level or high - low < 1e-12:  # the bracket has shrunk to η itself
            break
        if angle < 0.0:
            low = angle
        else:
            high = angle
        angle = low + (high - low) * uniform(state)
    for k in range(K):
        eta[k] = new[k]


@compiled
def _draw_words(
    words: Array, counts: Array, own: Array, theta: Array, fits: Array, state: Array, spare: Array, word_counts: Array
) -> None:
    """The topics of all words given θ; fractions of counts are rounded at random. Few are drawn one by one."""
    K = len(theta)
    for w in range(len(words)):
        row, out, total = own[w], word_counts[words[w]], fits[w]
        left = np.floor(counts[w])
        left += 1.0 if uniform(state) < counts[w] - left else 0.0
        while 0.0 < left < SINGLY:
            rest, k = total * uniform(state) - theta[0] * row[0], 0
            while rest >= 0.0 and k < K - 1:
                k += 1
                rest -= theta[k] * row[k]
            out[k] += 1.0
            left -= 1.0
        for k in range(K):
            if left <= 0.0:
                break
            share = theta[k] * row[k]
            drawn = left if k == K - 1 or share >= total else binomial_of(left, share / total, state, spare)
            out[k] += drawn
            left -= drawn
            total -= share


@entry(
    "location (n, P) f",
    "topics (V, P+1) f",
    "streams (n) i",
    "indptr (n+1) i cuts e",
    "words (e) i < V",
    "counts (e) f",
    "precision (P, P) f",
    "states (n, >=3*P) f",
    "word_counts (V|0, P+1) f",
)
@compiled
def move_documents(
    indptr: Array,
    words: Array,
    counts: Array,
    topics: Array,
    location: Array,
    precision: Array,
    moves: int,
    key: int,
    streams: Array,
    states: Array,
    word_counts: Array,
) -> None:
    """Elliptical slices of every document, in place; then the topics of its words where these are counted.

    A document's state is η, and mean and standard deviation of the distribution whose ellipses it moves on;
    `location` is the mean of its prior.
    """
    p = location.shape[1]
    theta, state, spare = np.empty(p + 1, FLOAT), np.empty(1, np.uint64), np.empty(1, FLOAT)
    for i in range(len(states)):
        state[0], spare[0] = mixed(np.uint64(key) + np.uint64(streams[i]) * GOLDEN), 0.0
        its, many = words[indptr[i] : indptr[i + 1]], counts[indptr[i] : indptr[i + 1]]
        own, fits = gathered(topics, its), np.empty(len(its), FLOAT)
        eta, centre, spread = states[i, :p], states[i, p : 2 * p], states[i, 2 * p : 3 * p]
        for _ in range(moves):
            _move(eta, own, many, location[i], precision, centre, spread, state, spare, theta, fits)
        if len(word_counts):
            _draw_words(its, many, own, theta, fits, state, spare, word_counts)
