"""Latents of training rows without the row itself, in a linear model at its mode: approximate leave-one-out.

Variances are self-consistent: a row's own message has the curvature γ / (1 + γ v) if v is the variance that the others
leave its latent (Opper and Winther 2000: the cavity of an approximate message passing), with a diagonal for the
weights off r leading directions of the rows, and a matrix of r + 1 numbers a side along these and the intercept. Its
message is taken out of the diagonal again, which matters to rows of few entries. A round costs a product of the squared
entries of X with K columns, and one of their transpose.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sksvi.models.linear.wide_rows import WideRows

Array = np.ndarray

#: Rounds in which variances settle at most, and their mean relative change that ends them.
ROUNDS, SETTLED = 5, 2e-2
#: Leading directions at most, and rows for each of them at least; and of all that variances know.
FEW_DIRECTIONS, MANY_ROWS = 8, 25
MOST_DIRECTIONS, FEW_ROWS = 64, 8
#: Rows times directions at most beyond the leading ones, and numbers of the directions for each entry of the rows.
PRODUCTS, PER_ENTRY = 4e4, 4.0
#: Columns beyond the directions that the sketch of the rows has.
SPARE = 4
TINY = np.finfo(float).tiny
#: The least share of its variance that a row leaves a latent.
LEAST_LEFT = 1e-9


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
