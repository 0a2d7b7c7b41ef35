"""Where topics start: words that belong to one topic alone span the others (anchor words).

Q (V, V) is the joint distribution of two words drawn from one document, p its margin. Each word's row of Q/p is a
mixture of K rows with the shares p(topic | word), so that the rows lie in a simplex whose corners are words that one
topic has for its own. Corners are found in the first K principal axes of the rows (in the metric 1/p: correspondence
analysis) by the furthest point from those found before; shares are regressions on the corners.

S. Arora et al., A practical algorithm for topic modeling with provable guarantees, ICML 2013.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sksvi._runtime import parallel
from sksvi.models.data import Table, take_rows

Array = np.ndarray

#: Documents that are looked at, at most.
MOST_DOCUMENTS = 5000
#: Products with Q, and further columns, of the subspace iteration.
PRODUCTS, FURTHER = 6, 8
#: A corner must occur in this share of the documents; words of fewer occurrences than this count less.
RARE_SHARE, RARE_COUNT = 0.01, 50.0
#: Rounds in which a corner becomes the mean of the words near it, that power of their shares being their weight.
ROUNDS, NEARNESS = 2, 4
#: Ridge of the regression as a share of the mean square of the corners, and the smallest share of a word in a topic.
RIDGE, LEAST = 1e-3, 1e-3
#: Squared lengths of axes below this share of the longest are rounding.
ROUNDING = 1e-10
#: Residuals below this share of the largest distance are rounding: there are no more corners.
NO_CORNER = 1e-6
#: Shape of the gamma variables of nearly even shares: they differ by a tenth.
EVEN = 100.0
#: Part of the start that is random: equal starts of two topics would stay equal.
RANDOM = 0.1


def word_totals(data: Table) -> Array:
    """Counts (V,) of each word in all documents."""
    return np.asarray(data.X.sum(0), float).ravel()


def first_counts(data: Any, word_prior: Array, seed: int, threads: int = 1) -> Array:
    """Expected counts (K, V) to start from: each word's total in its shares, seed words where they belong.

    Topics that start as (sums of) documents end at a smaller bound: they are too alike.
    """
    n_topics, rng = len(word_prior), np.random.default_rng([seed, 3])
    total = data.reduced(word_totals)
    random = rng.gamma(1.0, 1.0, word_prior.shape) / n_topics
    n = len(data)
    some = np.arange(n) if n <= MOST_DOCUMENTS else np.sort(rng.choice(n, MOST_DOCUMENTS, replace=False))
    found = anchored_shares(data.take(some).X, n_topics, rng, threads)
    shares = random.copy()
    shares[: len(found)] = RANDOM * shares[: len(found)] + (1.0 - RANDOM) * found
    raised = word_prior / word_prior.min() if word_prior.min() > 0 else 1.0 + word_prior
    return np.asarray(total * _in_seeded_order(shares, raised) * raised)


def even_counts(data: Any, n_topics: int, rng: np.random.Generator) -> Array:
    """Expected counts (K, V) to start from: each word's total in shares that are nearly the same for all topics."""
    shares = rng.gamma(EVEN, 1.0 / EVEN, (n_topics, data.X.shape[1])) / n_topics
    return np.asarray(shares * data.reduced(word_totals))


def _in_seeded_order(shares: Array, raised: Array) -> Array:
    """Rows in the order in which seed words have the largest shares."""
    if np.ptp(raised) == 0:
        return shares
    from scipy.optimize import linear_sum_assignment

    return shares[linear_sum_assignment(-(raised - 1.0) @ shares.T)[1]]


def anchored_shares(X: Any, n_topics: int, rng: np.random.Generator, threads: int = 1) -> Array:
    """p(topic | word), (K, V), or fewer rows where the documents do not tell so many topics apart."""
    points, has_point = word_points(X, n_topics, rng, threads)
    total = np.asarray(X.sum(0), float).ravel()
    often = np.diff(X.tocsc().indptr) >= max(2.0, RARE_SHARE * X.shape[0])
    trusted = np.flatnonzero(has_point & often)
    if not len(trusted):
        return np.empty((0, X.shape[1]))
    candidates, its = points[trusted], total[trusted]
    centre = (total * has_point) @ points / (total * has_point).sum()
    anchors = candidates[corners(candidates, centre, np.sqrt(its / (its + RARE_COUNT)), n_topics)]
    for _ in range(ROUNDS):
        weight = regressed(candidates, anchors) ** NEARNESS * its[:, None]
        anchors = (weight.T @ candidates) / weight.sum(0)[:, None]
    shares = np.where(has_point[:, None], regressed(points, anchors), 1.0 / len(anchors))
    return shares.T * (len(anchors) / n_topics)


def word_points(X: Any, n_axes: int, rng: np.random.Generator, threads: int = 1) -> tuple[Array, Array]:
    """Rows of Q/p on their first principal axes, (V, axes), and which words have one."""
    size = np.asarray(X.sum(1), float).ravel()
    X, size = X[size > 1.0], size[size > 1.0]
    each = 1.0 / np.sqrt(size * (size - 1.0))
    scaled = X.multiply(each[:, None]).tocsr()
    # A word drawn twice is no pair: the diagonal loses what a single draw would add.
    single = np.asarray(scaled.T @ each).ravel()
    margin = scaled.T @ np.asarray(scaled.sum(1)).ravel() - single
    has_point = margin > 1e-12 * np.max(margin, initial=1e-300)
    root = np.where(has_point, 1.0 / np.sqrt(np.where(has_point, margin, 1.0)), 0.0)
    across = scaled.T.tocsr()

    def times(matrix: Any, columns: Array) -> Array:
        parts = parallel.slices(matrix.shape[0], matrix.shape[0] // (parallel.PARTS_EACH * threads) + 1)
        return np.concatenate(list(parallel.in_order(lambda part: take_rows(matrix, part) @ columns, parts, threads)))

    def product(columns: Array) -> Array:
        inner = root[:, None] * columns
        return root[:, None] * (times(across, times(scaled, inner)) - single[:, None] * inner)

    axes = rng.standard_normal((X.shape[1], min(n_axes + FURTHER, X.shape[1])))
    for _ in range(PRODUCTS):
        axes = orthonormal(product(axes))
    inner = axes.T @ product(axes)
    values, turn = np.linalg.eigh(0.5 * (inner + inner.T))
    first = np.argsort(-values)[:n_axes]
    return root[:, None] * (axes @ turn[:, first]) * np.maximum(values[first], 0.0), has_point


def orthonormal(columns: Array) -> Array:
    """Orthonormal columns of the same span, by their Gram matrix, without directions that are rounding."""
    squares, turn = np.linalg.eigh(np.dot(columns.T, columns))
    clear = squares > ROUNDING * squares.max(initial=0.0)
    return np.asarray(columns @ (turn[:, clear] / np.sqrt(squares[clear])))


def corners(points: Array, centre: Array, trust: Array, most: int) -> list[int]:
    """Words furthest from the flat through those before, distances shrunk by `trust`; the first from the centre."""
    distance = trust * np.linalg.norm(points - centre, axis=1)
    furthest = distance.max()
    found = [int(np.argmax(distance))]
    rest = points - points[found[0]]
    while len(found) < most:
        length = np.linalg.norm(rest, axis=1)
        new = int(np.argmax(trust * length))
        if not trust[new] * length[new] > NO_CORNER * furthest:
            break
        found.append(new)
        along = rest[new] / length[new]
        rest = rest - np.outer(rest @ along, along)
    return found


def regressed(points: Array, anchors: Array) -> Array:
    """Shares (V, K) of each point in the anchors: ridge regression, small shares raised, rows sum to 1."""
    gram = anchors @ anchors.T
    gram[np.diag_indices_from(gram)] += RIDGE * max(np.trace(gram) / len(gram), 1e-300)
    shares = np.maximum(np.linalg.solve(gram, anchors @ points.T).T, LEAST)
    return shares / shares.sum(1, keepdims=True)
