"""Latents of training rows without the row itself, in a linear model at its mode: approximate leave-one-out.

Variances are self-consistent: a row's own message has the curvature γ / (1 + γ v) if v is the variance that the others
leave its latent (Opper and Winther 2000: the cavity of an approximate message passing), with a diagonal for the
weights off r leading directions of the rows, and a matrix of r + 1 numbers a side along these and the intercept. Its
message is taken out of the diagonal again, which matters to rows of few entries. A round costs a product of the squared
entries of X with K columns, and one of their transpose.

Of few rows the same is found by matrices of n a side, exact but for the curvature at the mode of all rows: latents have
the precision G⁻¹ + W for the covariance G of the prior and the curvature W of the rows, and a row's own W is taken out
again (Rad and Maleki 2020: a Newton step from the mode). Of K classes W couples those of a row, and K + 1 matrices of
n a side do for one of nK (Rasmussen and Williams 2006, algorithm 3.3).
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.linalg import lapack

from sksvi._runtime import parallel
from sksvi._typing.arrays import is_compressed

Array = np.ndarray

#: Rounds in which variances settle at most, and their mean relative change that ends them.
ROUNDS, SETTLED = 5, 2e-2
#: Leading directions at most, and rows for each of them at least; and of all that variances know.
FEW_DIRECTIONS, MANY_ROWS = 8, 25
MOST_DIRECTIONS, FEW_ROWS = 64, 8
#: Rows times directions at most beyond the leading ones, and numbers of the directions for each entry of the rows.
PRODUCTS, PER_ENTRY = 4e4, 4.0
#: Share of the columns with an entry below which the others are left out.
MOST_FILLED = 0.5
#: Columns of a product that is formed at a time.
COLUMNS = 16
#: Columns beyond the directions that the sketch of the rows has.
SPARE = 4
TINY = np.finfo(float).tiny
#: The least share of its variance that a row leaves a latent.
LEAST_LEFT = 1e-9
#: Columns of a dense table whose squares are summed at a time.
MANY_COLUMNS = 4096
#: Rows cubed, for each latent of several twice, for which matrices of rows serve; the least curvature of a row there.
MOST_CUBED, LEAST_CURVATURE = 1.4e9, 1e-12


def filled_columns(X: Any) -> Array | None:
    """Columns of a CSR matrix with an entry, if others are many; else None."""
    return many_left_out(has_entry(X)) if is_compressed(X) else None


def has_entry(X: Any) -> Array:
    """Whether a column of a CSR matrix has an entry, (D,)."""
    found = np.zeros(X.shape[1], bool)
    found[X.indices] = True
    return found


def many_left_out(filled: Array) -> Array | None:
    """Columns with an entry, (d,), if others are many; else None."""
    columns = np.flatnonzero(filled)
    return columns if 0 < len(columns) < MOST_FILLED * len(filled) else None


class WideRows:
    """Rows of a fit with the products that many columns of weights at a time need.

    Parameters
    ----------
    X : CSR matrix or array of shape (n, D)
        Stays as it is; squares of CSR entries are stored once, beside its own indices.

    Attributes
    ----------
    columns : ndarray of shape (d,) or None
        Those of X that the products are about, where most of a CSR matrix are empty, as hashed ones are; None: all.
    shape : tuple of int
        (n, d).
    width : int
        D.
    """

    def __init__(self, X: Any) -> None:
        self.X: Any = X if is_compressed(X) else np.asarray(X)
        self.width: int = X.shape[1]
        self.columns = filled_columns(X)
        if self.columns is not None:
            number = np.empty(self.width, X.indices.dtype)
            number[self.columns] = np.arange(len(self.columns))
            self.X = sp.csr_matrix((X.data, number[X.indices], X.indptr), shape=(X.shape[0], len(self.columns)))
        self.shape: tuple[int, int] = self.X.shape

    def narrowed(self, W: Array) -> Array:
        """Weights (D + extra, K) without those of columns that are left out: (d + extra, K)."""
        return W if self.columns is None else np.concatenate([W[self.columns], W[self.width :]])

    def widened(self, W: Array, other: float = 0.0) -> Array:
        """Numbers (d + extra, K) with one number for all columns that are left out: (D + extra, K)."""
        if self.columns is None:
            return W
        d = self.shape[1]
        out = np.full((self.width + len(W) - d, *W.shape[1:]), other)
        out[self.columns], out[self.width :] = W[:d], W[d:]
        return out

    @cached_property
    def _squared(self) -> Any:
        return sp.csr_matrix((np.square(self.X.data), self.X.indices, self.X.indptr), shape=self.shape)

    @cached_property
    def _transposed(self) -> Any:
        return self.X.T

    def dot(self, W: Array) -> Array:
        """X W, (n, K)."""
        return np.asarray(self.X @ W.astype(self.X.dtype, copy=False), float)

    def pull(self, R: Array) -> Array:
        """Xᵀ R, (D, K)."""
        return np.asarray(self._transposed @ R.astype(self.X.dtype, copy=False), float)

    @property
    def entries(self) -> Array:
        """Number of stored entries of each row, (n,)."""
        return np.diff(self.X.indptr) if is_compressed(self.X) else np.full(len(self.X), float(self.shape[1]))

    @cached_property
    def squares(self) -> Array:
        """Squared lengths, (n,)."""
        return self.dot_squares(np.ones((self.shape[1], 1)))[:, 0]

    def gram(self) -> Array:
        """X Xᵀ in double precision, (n, n)."""
        if is_compressed(self.X):
            X = self.X.astype(float, copy=False)
            return np.asarray((X @ X.T).toarray())
        columns = parallel.slices(self.shape[1], MANY_COLUMNS)
        return np.asarray(parallel.tree_sum(part @ part.T for part in (self.X[:, at].astype(float) for at in columns)))

    def forms(self, F: Array) -> Array:
        """xᵀ F x for each column x of X and a symmetric F (n, n), (D,)."""
        (n, d), F = self.shape, F.astype(self.X.dtype, copy=False)
        if not is_compressed(self.X):
            columns = parallel.slices(d, parallel.chunk_rows(n, False))
            return np.concatenate([np.einsum("ij,ij->j", self.X[:, at], F @ self.X[:, at]) for at in columns])
        out = np.zeros(d)
        for rows in parallel.slices(n, COLUMNS):
            own, products = self.X[rows], self.X.T @ F[:, rows]
            row = np.repeat(np.arange(own.shape[0]), np.diff(own.indptr))
            out += np.bincount(own.indices, own.data * products[own.indices, row], minlength=d)
        return out

    def dot_squares(self, S: Array) -> Array:
        """X² S for the squares of the entries, (n, K)."""
        S = S.astype(self.X.dtype, copy=False)
        if is_compressed(self.X):
            return np.asarray(self._squared @ S, float)
        return np.concatenate([np.square(self.X[rows]) @ S for rows in self._blocks()]).astype(float, copy=False)

    def dot_fourths(self, S: Array) -> Array:
        """Sum of (x² S)² over the entries of each row, for S (d,): (n,)."""
        if is_compressed(self.X):
            terms = np.square(self._squared.data * S[self.X.indices])
            return sp.csr_matrix((terms, self.X.indices, self.X.indptr), shape=self.shape) @ np.ones(len(S))
        return np.concatenate([np.square(np.square(self.X[rows]) * S).sum(1) for rows in self._blocks()])

    def pull_squares(self, T: Array) -> Array:
        """(X²)ᵀ T, (D, K)."""
        T = T.astype(self.X.dtype, copy=False)
        if is_compressed(self.X):
            return np.asarray(self._squared.T @ T, float)
        return parallel.tree_sum(np.square(self.X[rows]).T @ T[rows] for rows in self._blocks()).astype(float)

    def _blocks(self) -> list[slice]:
        return parallel.slices(len(self.X), parallel.chunk_rows(self.X.shape[1], False))


class Sketch(NamedTuple):
    """Leading directions of weighted rows: V (D, r) orthonormal, their squares e (r,), and X V, (n, r)."""

    basis: Array
    squares: Array
    along: Array

    @property
    def leading(self) -> Sketch:
        """The few that pay in every step of a climb."""
        few = slice(FEW_DIRECTIONS)
        return Sketch(np.ascontiguousarray(self.basis[:, few]), self.squares[few], self.along[:, few])


def directions_of(total: float, d: int, entries: float, few: bool) -> int:
    """How many directions rows of a total weight get, in d columns with so many entries that are stored."""
    most = max(1, min(FEW_DIRECTIONS, int(total // MANY_ROWS)))
    if few or most < FEW_DIRECTIONS:
        return most
    more = min(MOST_DIRECTIONS, total / FEW_ROWS, PRODUCTS / total, PER_ENTRY * entries / d)
    return max(most, int(more))


def sketched(rows: WideRows, weight: Array, few: bool = True, rank: int | None = None) -> Sketch:
    """Leading directions of the rows by randomized subspace iteration (Halko, Martinsson and Tropp 2011).

    The random start is the same in every fit: directions only speed up and sharpen what follows. `few` are enough where
    variances do not depend on them; `rank`: so many at most, whatever they are for.
    """
    n, d = rows.shape
    rank = min(directions_of(weight.sum(), d, weight @ rows.entries, few) if rank is None else rank, n, d)
    root = np.sqrt(weight)[:, None]
    start = np.random.default_rng(0).standard_normal((d, min(rank + SPARE, n, d)))
    Q = np.linalg.qr(root * rows.dot(start))[0]
    Q = np.linalg.qr(root * rows.dot(rows.pull(root * Q)))[0]
    lifted = rows.pull(root * Q)
    squares, U = np.linalg.eigh(lifted.T @ lifted)
    lead = np.argsort(-squares)[:rank]
    lead = lead[squares[lead] > np.finfo(rows.X.dtype).eps * max(n, d) * squares.max(initial=0.0)]
    basis = lifted @ (U[:, lead] / np.sqrt(squares[lead]))
    return Sketch(basis, squares[lead], rows.dot(basis))


class Cavities(NamedTuple):
    """What leave-one-out looks at, and the covariance that weights have.

    variance (n, K): of a latent without its row. diagonal (D, K) and inner (K, r+e, r+e): as of `LowRankGaussian`.
    """

    variance: Array
    diagonal: Array
    inner: Array


def _share_off(base: Array, across: Array, along: Array, inner: Array) -> Array:
    """Share of a quadratic form that lies off the directions: of s x² its part ((I - VVᵀ) x)² s, summed."""
    inside = 2.0 * np.einsum("ij,ij->i", across, along) - np.einsum("ij,ij->i", along @ inner, along)
    return np.clip(1.0 - inside / np.maximum(base, TINY), 0.0, 1.0)[:, None]


def cavities(rows: WideRows, sketch: Sketch, gamma: Array, copies: Array, delta: float, extra: Array) -> Cavities:
    """Variances of latents without their rows, and of the weights with all of them.

    What the directions take out of the rows and columns is found for the mean curvature of the classes and serves each.

    Parameters
    ----------
    rows : WideRows
    sketch : Sketch
    gamma : ndarray of shape (n, K)
        Minus the second derivative of a row's log density in its latents.
    copies : ndarray of shape (n,)
        How often a row counts.
    delta : float
        Precision of the prior of the weights.
    extra : ndarray of shape (e,)
        That of the intercept, or none.
    """
    V, Z = sketch.basis, np.concatenate([sketch.along, np.ones((len(gamma), len(extra)))], axis=1)
    prior = np.diag(np.concatenate([np.full(V.shape[1], delta), extra]))
    S, v = np.full((rows.shape[1], gamma.shape[1]), 1.0 / delta), np.zeros(0)
    column_share = inner = np.zeros(0)
    message, concentration, most = np.zeros_like(gamma), np.zeros((len(gamma), 1)), rows.squares[:, None] / delta
    inside = np.square(sketch.along).sum(1) / np.maximum(rows.squares, TINY)
    row_share = np.clip(1.0 - inside, 0.0, 1.0)[:, None]  # under equal variances of the weights
    for number in range(ROUNDS):
        if number == 1:
            row_share = _row_share(rows, sketch, S.mean(1))
            concentration = _concentration(rows, S.mean(1), column_share)
        off = rows.dot_squares(S)
        off = row_share * np.minimum(off / np.maximum(1.0 - message * concentration * off, LEAST_LEFT), most)
        inner, along = _along(Z, prior, gamma / (1.0 + gamma * off), copies)
        before, v = v, off + along
        if number and np.abs(v - before).mean() < SETTLED * v.mean():
            break
        message = gamma / (1.0 + gamma * v)
        tau = copies[:, None] * message
        if number == 0:
            column_share = _column_share(rows, sketch, tau.mean(1))
        S = 1.0 / (delta + rows.pull_squares(tau) * column_share)
    return Cavities(v, S, inner)


def _concentration(rows: WideRows, S: Array, column_share: Array) -> Array:
    """Sum of the squared shares that columns have in the variance of a row, (n, 1): 1 / entries where all are equal."""
    parts = rows.dot_fourths(S * np.sqrt(column_share[:, 0]))
    return (parts / np.maximum(np.square(rows.dot_squares(S[:, None])[:, 0]), TINY))[:, None]


def _row_share(rows: WideRows, sketch: Sketch, S: Array) -> Array:
    V = sketch.basis
    scaled = V * S[:, None]
    return _share_off(rows.dot_squares(S[:, None])[:, 0], rows.dot(scaled), sketch.along, V.T @ scaled)


def _column_share(rows: WideRows, sketch: Sketch, tau: Array) -> Array:
    scaled = sketch.along * tau[:, None]
    base = rows.pull_squares(tau[:, None])[:, 0]
    return _share_off(base, rows.pull(scaled), sketch.basis, sketch.along.T @ scaled)


def _along(Z: Array, prior: Array, tau: Array, copies: Array) -> tuple[Array, Array]:
    """Covariance of each class along the directions, and the variance that it gives a row without the row itself."""
    inner, variance = np.empty((tau.shape[1], *prior.shape)), np.empty(tau.shape)
    for k, own in enumerate(tau.T):
        inner[k] = np.linalg.inv(prior + (Z * (copies * own)[:, None]).T @ Z)
        inner[k] = 0.5 * (inner[k] + inner[k].T)
        variance[:, k] = np.einsum("ij,ij->i", Z @ inner[k], Z)
    return inner, variance / np.maximum(1.0 - tau * variance, LEAST_LEFT)


# ---- by matrices of rows
def affordable(rows: float, latents: int) -> bool:
    """Whether matrices of so many rows a side are no burden."""
    return float(rows) ** 3 * (2 * latents if latents > 1 else 1) <= MOST_CUBED


def inverse_of(gram: Array, root: Array) -> Array:
    """Lower half of the inverse of 1 + R G R for a diagonal R (n,); what is above has no meaning."""
    B = gram * root
    B *= root[:, None]
    B[np.diag_indices_from(B)] += 1.0
    factor, failed = lapack.dpotrf(B, lower=1, overwrite_a=1, clean=0)
    inverse, wrong = lapack.dpotri(factor, lower=1, overwrite_c=1)
    if failed or wrong:
        raise np.linalg.LinAlgError("leave-one-out: the prior's covariance of the latents is not positive definite.")
    return np.asarray(inverse)


def variances(gram: Array, gamma: Array, copies: Array) -> Array:
    """Variance (n,) of each latent without its row.

    Parameters
    ----------
    gram : ndarray of shape (n, n)
        Covariance of the latents under the prior.
    gamma : ndarray of shape (n,)
        Minus the second derivative of a row's log density.
    copies : ndarray of shape (n,)
        How often a row counts; one of them is left out.
    """
    gamma = np.maximum(gamma, LEAST_CURVATURE)
    left = np.diagonal(inverse_of(gram, np.sqrt(copies * gamma)))
    return (1.0 - left) / (gamma * (copies - 1.0 + left))


def shifts(gram: Array, chances: Array, slope: Array, share: Array, copies: Array) -> Array:
    """What a row of K classes adds to its own latents (n, K).

    Parameters
    ----------
    gram : ndarray of shape (n, n)
        Covariance of the latents of a class under the prior.
    chances : ndarray of shape (n, K)
        Probabilities p of a softmax, whose curvature is diag(p) - ppᵀ.
    slope : ndarray of shape (n, K)
        Derivatives of a row's log density.
    share, copies : ndarray of shape (n,)
        What a copy counts, and how many of a row there are; one of them is left out.
    """
    (n, k), p = chances.shape, np.maximum(chances, LEAST_CURVATURE)
    weight = share * copies
    across, total, S = np.empty((k, n, n)), np.zeros((n, n)), np.zeros((n, k, k))
    for c in range(k):
        root = np.sqrt(weight * p[:, c])
        inverse = inverse_of(gram, root)
        inverse = np.tril(inverse) + np.tril(inverse, -1).T
        S[:, c, c] = (1.0 - np.diagonal(inverse)) / root**2
        inverse *= root[:, None]
        np.divide(inverse, -root, out=across[c])
        across[c][np.diag_indices(n)] += 1.0
        total += np.multiply(inverse, root, out=inverse)
    across = lapack.dtrtri(np.linalg.cholesky(total), lower=1)[0] @ across
    for c in range(k):
        for d in range(c + 1):
            S[:, c, d] += np.einsum("ai,ai->i", across[c], across[d])
            S[:, d, c] = S[:, c, d]
    curvature = share[:, None, None] * (np.eye(k) * p[:, None, :] - p[:, :, None] * p[:, None, :])
    left = np.eye(k) - curvature @ S
    return np.asarray((S @ np.linalg.solve(left, (share[:, None] * slope)[:, :, None]))[:, :, 0])


def taken(gram: Array, curvature: Array) -> Array:
    """F (n, n): given all rows the covariance of latents is G - G F G.

    Parameters
    ----------
    gram : ndarray of shape (n, n)
        G, their covariance under the prior.
    curvature : ndarray of shape (n,)
        Minus the second derivative of the rows' log density, weighted.
    """
    root = np.sqrt(np.maximum(curvature, LEAST_CURVATURE))
    inverse = np.tril(inverse_of(gram, root))
    return root * (inverse + np.tril(inverse, -1).T) * root[:, None]
