"""First inducing points of a sparse GP: centres of k-means, a random subset, or what the user gives."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from sksvi._runtime.parallel import SAMPLE_BLOCK
from sksvi.families import StandardGaussian
from sksvi.models.gp import kernels

Array = np.ndarray

#: k-means looks at this many rows per centre, and at least this many in all.
ROWS_PER_CENTRE, LEAST_ROWS = 20, 4096
#: Rows that points are chosen among; of more of them a sample of about so many.
WHOLE_ROWS, SAMPLED_ROWS = 2**17, 2**14
#: Lloyd's steps.
LLOYD_STEPS = 10
#: Share of a row's variance that no further point explains to more than rounding.
EXPLAINED = 1e-12


def choose(X: Array, weight: Array | None, n_inducing: int, how: Any, scale: Array, seed: int) -> Array:
    """At most `n_inducing` points; all distinct rows where there are no more.

    A row of weight k counts as k rows, and k copies of a row as one of weight k.

    Parameters
    ----------
    X : ndarray of shape (n, D)
    weight : ndarray of shape (n,) or None
    n_inducing : int
    how : "kmeans", "random" or ndarray of shape (M, D)
    scale : ndarray of shape (D,)
        Units of the columns in which k-means measures distances.
    seed : int

    Returns
    -------
    ndarray of shape (M, D)

    Examples
    --------
    >>> import numpy as np
    >>> from sksvi.models.gp.inducing import choose
    >>> choose(np.array([[1.0], [3.0], [1.0]]), None, 5, "kmeans", np.ones(1), 0).ravel()
    array([1., 3.])
    """
    if not isinstance(how, str):
        return np.array(how, float)
    rows, inverse = np.unique(X, axis=0, return_inverse=True)
    if len(rows) <= n_inducing:
        return rows
    weight = np.bincount(inverse.ravel(), weight, minlength=len(rows)).astype(float)
    rng = np.random.default_rng([seed, 0, 3])
    if how == "random":
        return rows[np.sort(_drawn(weight, n_inducing, rng))]
    part = np.sort(_drawn(weight, max(LEAST_ROWS, ROWS_PER_CENTRE * n_inducing), rng))
    return scale * _kmeans(rows[part] / scale, weight[part], n_inducing, seed)


@dataclass(frozen=True)
class RowSample:
    """Rows and their weights (None: ones each); `distinct`: all different rows, sorted, or None where they are many."""

    rows: Array
    weight: Array | None
    distinct: Array | None

    def merged(self, other: RowSample) -> RowSample:
        """The sample of the rows of both."""
        weight = None
        if self.weight is not None and other.weight is not None:
            weight = np.concatenate([self.weight, other.weight])
        distinct = None
        if self.distinct is not None and other.distinct is not None:
            distinct = np.unique(np.concatenate([self.distinct, other.distinct]), axis=0)
        return RowSample(np.concatenate([self.rows, other.rows]), weight, distinct)


def candidates(data: Any, n_inducing: int, seed: int) -> tuple[Array, Array | None]:
    """Rows that `choose` chooses from, and their weights: all of them, or a sample of more than it could look at.

    A row of weight w is in a sample with probability 1 - exp(-w s), independently of all others, and stands there for
    its weight over that. Which rows these are depends on their number in the data, wherever they lie. Where no more
    than `n_inducing` rows differ these are all there are to choose from.

    Parameters
    ----------
    data : Data
    n_inducing, seed : int

    Returns
    -------
    rows : ndarray of shape (n, D)
    weight : ndarray of shape (n,) or None
    """
    wanted = max(SAMPLED_ROWS, 2 * ROWS_PER_CENTRE * n_inducing)
    share = None if len(data) <= max(WHOLE_ROWS, wanted) else wanted / data.total_weight
    found = data.reduced(partial(_sampled, share, n_inducing, seed), RowSample.merged)
    if found.distinct is not None and len(found.distinct) <= n_inducing:
        return found.distinct, None
    return found.rows, found.weight


def _sampled(share: float | None, n_inducing: int, seed: int, data: Any) -> RowSample:
    if share is None:
        return RowSample(data.X, data.weight, None)
    weight = np.ones(len(data)) if data.weight is None else data.weight
    # Where a few rows differ more than that, all of them do.
    some = data.X[: 2 * n_inducing]
    few = len(np.unique(some, axis=0)) <= n_inducing
    distinct = np.unique(data.X, axis=0) if few else None
    chance = -np.expm1(-share * weight)
    chosen = uniforms(seed, getattr(data, "first", 0), len(data)) < chance
    rows = data.X[chosen]
    if distinct is not None and len(distinct) > n_inducing:
        distinct = None
    return RowSample(rows, weight[chosen] / chance[chosen], distinct)


def uniforms(seed: int, first: int, n: int) -> Array:
    """A random number of each row from number `first` on, that depends on its number alone."""
    blocks = range(first // SAMPLE_BLOCK, -(-(first + n) // SAMPLE_BLOCK))
    drawn = [np.random.default_rng([seed, 0, 5, block]).random(SAMPLE_BLOCK) for block in blocks]
    begin = first % SAMPLE_BLOCK
    return np.concatenate([np.zeros(0), *drawn])[begin : begin + n]


def _drawn(weight: Array, size: int, rng: np.random.Generator) -> Array:
    """Rows without replacement, each with a chance that grows with its weight (Gumbel's trick)."""
    if size >= len(weight):
        return np.arange(len(weight))
    return np.argpartition(-(np.log(weight) + rng.gumbel(size=len(weight))), size)[:size]


def _kmeans(X: Array, weight: Array, n_centres: int, seed: int) -> Array:
    """k-means++ and a few of Lloyd's steps, in an order that no number of threads changes."""
    from sklearn.cluster import kmeans_plusplus

    centres, _ = kmeans_plusplus(X, n_centres, sample_weight=weight, random_state=seed)
    for _ in range(LLOYD_STEPS):
        nearest = np.argmin(np.square(centres).sum(1) - 2.0 * X @ centres.T, axis=1)
        total = np.bincount(nearest, weight, minlength=n_centres)
        sums = np.stack([np.bincount(nearest, weight * column, minlength=n_centres) for column in X.T], axis=1)
        full = total > 0
        moved = np.where(full[:, None], sums / np.where(full, total, 1.0)[:, None], centres)
        if np.array_equal(moved, centres):
            break
        centres = moved
    return centres


def unwhitened(L: Array, block: Any) -> StandardGaussian:
    """The Gaussian of w = L v for one of v; its factor by an orthogonal rotation, which loses no digits.

    Of several latents either all v_k follow each other in one block, or the block has a plate for each.
    """
    if block.mean.ndim == 2:
        plates = [unwhitened(L, plate) for plate in map(block.__getitem__, range(len(block.mean)))]
        return StandardGaussian(np.stack([plate.mean for plate in plates]), np.stack([plate.root for plate in plates]))
    lift = np.kron(np.eye(len(block.mean) // len(L)), L)
    root = (block.root if block.full else np.diag(block.root)) @ lift.T
    triangle: Any = np.linalg.qr(root[:, ::-1], mode="r")
    upper = triangle[::-1, ::-1]
    signs = np.where(np.diagonal(upper) < 0, -1.0, 1.0)
    return StandardGaussian(lift @ block.mean, np.ascontiguousarray(upper * signs[:, None]))


def spread_out(kernel: Any, X: Array, most: int, before: Array | None = None) -> Array:
    """Numbers of at most `most` rows, each the one of which those before it explain least (pivoted Cholesky).

    Fewer where these explain every row. Burt, Rasmussen and van der Wilk (2020), "Convergence of sparse variational
    inference in Gaussian processes regression", section 4.2.

    Parameters
    ----------
    kernel : scikit-learn kernel
    X : ndarray of shape (n, D)
    most : int
    before : ndarray of shape (n, M), default=None
        The rows in white coordinates of M points that come before all of them.

    Returns
    -------
    ndarray of shape (m,)

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import RBF
    >>> from sksvi.models.gp.inducing import spread_out
    >>> spread_out(RBF(), np.array([[0.0], [0.1], [3.0], [0.1]]), 3)
    array([0, 2, 1])
    """
    left = kernels.diagonal(kernel, X).copy()
    least = EXPLAINED * float(left.max())
    chosen: list[int] = []
    first = 0 if before is None else before.shape[1]
    root = np.empty((first + min(most, len(X)), len(X)))
    if before is not None:
        root[:first] = before.T
        left -= np.square(before).sum(1)
    for j in range(first, len(root)):
        row = int(np.argmax(left))
        if left[row] <= least:
            break
        explained = root[:j, row] @ root[:j]
        root[j] = (kernels.cross(kernel, X[row : row + 1], X)[0] - explained) / np.sqrt(left[row])
        left -= np.square(root[j])
        left[row] = 0.0
        chosen.append(row)
    return np.array(chosen, np.intp)
