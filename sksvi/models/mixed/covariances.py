"""Covariances of the effects of a level: their standard deviations, and correlations in unconstrained coordinates.

The effects of a level are N(0, S R S), S = diag(s), R = LLᵀ. Row i of L is made from partial correlations tanh z_ij,
one after the other: L_ij = tanh(z_ij) Π_{k<j} sech(z_ik) (Lewandowski, Kurowicka and Joe 2009, section 2.4). log s and
z have no limits. s is half-Student-t with 3 degrees of freedom, R has the density |R|^(ETA - 1), under which the
partial correlations are independent.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import betaln
from sklearn.utils import check_random_state

from sksvi._typing.arrays import RandomState
from sksvi.families import Rayleigh
from sksvi.integrals.rayleigh import rayleigh_trapezoid

Array = np.ndarray

#: Scale of the prior of a group's standard deviation, in units of the target's natural scale (its sd if measured).
GROUP_PRIOR_SCALE = 2.5
#: Log of the constant of that density of s, a half-Student-t of 3 degrees of freedom, in those units.
GROUP_CONSTANT = float(np.log(4.0 / (np.sqrt(3.0) * np.pi * GROUP_PRIOR_SCALE)))
#: KL of a Rayleigh q(x) of scale s to a `SquaredDeviation` of unit c, less 2 E log(1 + x / c) and log(c / s) / 2.
SQUARED_CONSTANT = float(0.75 * (np.log(2.0) - np.euler_gamma) + np.log(0.5 * np.pi) - 1.0)

#: Of expectations under a standard Rayleigh variable.
NODES, WEIGHTS = rayleigh_trapezoid()


class SquaredDeviation(Rayleigh):
    """Prior of a variance x whose root is half-Student-t with 3 degrees of freedom, beside a Rayleigh q(x).

    It is not conjugate: as a Rayleigh it is the one whose -KL has the same slope where q is.

    Parameters
    ----------
    deviation : float
        Scale of the half-Student-t.
    at : float
        Scale of q.
    """

    def __init__(self, deviation: float, at: float) -> None:
        self.unit = 3.0 * deviation**2
        super().__init__(at * float(1.75 - WEIGHTS @ (1.0 / (1.0 + at / self.unit * NODES))) ** -0.5)

    def kl_of(self, q: Rayleigh) -> float:
        """KL(q ‖ this prior), nats."""
        ratio = q.scale / self.unit
        return float(SQUARED_CONSTANT - 0.5 * np.log(ratio) + 2.0 * WEIGHTS @ np.log1p(ratio * NODES))

    def log_density(self, draws: Array) -> Array:
        """Log density of draws (n, 1), (n,): 2 / (π √(c x) (1 + x / c)²) with c the unit."""
        ratio = draws[:, 0] / self.unit
        return np.asarray(np.log(2.0 / (np.pi * self.unit)) - 0.5 * np.log(ratio) - 2.0 * np.log1p(ratio))

    def sample(self, n: int = 1, random_state: RandomState = None) -> Array:
        """Draw (n, 1)."""
        return self.unit / 3.0 * np.square(check_random_state(random_state).standard_t(3.0, (n, 1)))


#: Shape of the prior of correlations: 1 would be uniform over correlation matrices.
ETA = 2.0
#: Of differences that stand for slopes.
STEP = 1e-4


@dataclass(frozen=True)
class Groups:
    """Where the effects of each factor lie among the weights: first coordinate, levels, effects per level.

    `correlated`: whether the effects of a level have a covariance, of each factor that has several.
    """

    starts: tuple[int, ...]
    levels: tuple[int, ...]
    effects: tuple[int, ...]
    correlated: bool = False

    @cached_property
    def n_scales(self) -> int:
        """Standard deviations to learn: one per effect of each factor."""
        return sum(self.effects)

    @cached_property
    def n_values(self) -> int:
        """Count of what is learned: logarithms of standard deviations, then the z of each factor's pairs."""
        return self.n_scales + sum(r * (r - 1) // 2 for _, r, *_ in self.correlated_factors)

    @cached_property
    def scale_of(self) -> Array:
        """Which standard deviation each weight has, for the weights from the first level on."""
        first = np.cumsum([0, *self.effects])
        parts = [np.tile(np.arange(first[f], first[f + 1]), count) for f, count in enumerate(self.levels)]
        return np.concatenate(parts)

    @property
    def correlated_factors(self) -> Iterator[tuple[int, int, slice, slice]]:
        """Every factor with correlations: its number, its effects, where its log s are among the values and its z."""
        end = self.n_scales
        for f, r in enumerate(self.effects if self.correlated else ()):
            if r > 1:
                first = sum(self.effects[:f])
                yield f, r, slice(first, first + r), slice(end, end + r * (r - 1) // 2)
                end += r * (r - 1) // 2

    def pairs(self, f: int) -> Iterator[tuple[int, int, slice, slice]]:
        """Two effects j > k of factor f, and the coordinates of all its levels' j and k among the weights."""
        start, r = self.starts[f], self.effects[f]
        stop = start + self.levels[f] * r
        for j in range(r):
            for k in range(j):
                yield j, k, slice(start + j, stop, r), slice(start + k, stop, r)

    def covariances(self, values: Array) -> list[Array]:
        """Covariance (r, r) of the effects of a level of each factor."""
        ends = np.cumsum([0, *self.effects])
        found = [np.diag(np.exp(2.0 * values[a:b])) for a, b in itertools.pairwise(ends)]
        for f, r, scales, own in self.correlated_factors:
            root = np.exp(values[scales])[:, None] * correlation_root(values[own], r)
            found[f] = root @ root.T
        return found

    def log_jacobian(self, values: Array) -> float:
        """Log of how standard deviations and correlations move with the values that they are made of."""
        total = float(np.sum(values[: self.n_scales]))
        for _, r, _, own in self.correlated_factors:
            total -= float(np.sum(2.0 * (shapes(r) - ETA + 1.0) * log_cosh(values[own])))
        return total

    def mapped(self, values: Array, maps: list[Array]) -> Array:
        """The values of effects that a matrix (r, r) of each factor makes of these, a diagonal of independent ones."""
        out = values.copy()
        out[: self.n_scales] += np.log(np.concatenate([np.diagonal(own) for own in maps]))
        for f, r, scales, own in self.correlated_factors:
            root = maps[f] @ (np.exp(values[scales])[:, None] * correlation_root(values[own], r))
            upper = np.asarray(np.linalg.qr(root.T, mode="r"))
            root = upper.T * np.sign(np.diagonal(upper))
            out[scales], out[own] = 0.5 * np.log(np.sum(np.square(root), axis=1)), partial_coordinates(root)
        return out

    def correlations(self, values: Array) -> list[Array]:
        """Correlations (k, r, r) of the effects of a level of each factor at nodes with values (k, V)."""
        found = [np.broadcast_to(np.eye(r), (len(values), r, r)) for r in self.effects]
        for f, r, _, own in self.correlated_factors:
            roots = np.stack([correlation_root(z, r) for z in values[:, own]])
            found[f] = roots @ roots.transpose(0, 2, 1)
        return found


# ---- correlations and z
def correlation_root(z: Array, size: int) -> Array:
    """L (r, r), lower triangular, of the correlation matrix LLᵀ whose partial correlations are tanh z (r (r - 1) / 2,).

    Examples
    --------
    >>> import numpy as np
    >>> from sksvi.models.mixed.covariances import correlation_root
    >>> L = correlation_root(np.arctanh([0.6]), 2)
    >>> (L @ L.T).round(6)
    array([[1. , 0.6],
           [0.6, 1. ]])
    """
    root, rows, columns = np.eye(size), *np.tril_indices(size, -1)
    left = np.ones(size)
    for i, j, own in zip(rows, columns, z, strict=True):
        root[i, j] = left[i] * np.tanh(own)
        left[i] /= np.cosh(own)
    np.fill_diagonal(root, left)
    return root


def partial_coordinates(root: Array) -> Array:
    """z of the correlations of a covariance L Lᵀ, from its lower triangular L."""
    rows, columns = np.tril_indices(len(root), -1)
    left = np.sqrt(np.cumsum(np.square(root[:, ::-1]), axis=1)[:, ::-1])  # of a row's square, from each column on
    return np.arcsinh(root[rows, columns] / left[rows, columns + 1])  # a correlation that rounds to 1 has its z, too


def root_slopes(z: Array, root: Array) -> Array:
    """Derivatives (P, r) of the rows of L that each of z (P,) moves."""
    rows, columns = np.tril_indices(len(root), -1)
    out = np.where(np.arange(len(root)) > columns[:, None], -np.tanh(z)[:, None] * root[rows], 0.0)
    left = np.sqrt(np.cumsum(np.square(root[:, ::-1]), axis=1)[:, ::-1])  # of a row's square, from each column on
    out[np.arange(len(z)), columns] = left[rows, columns] / np.square(np.cosh(z))
    return out


def shapes(size: int) -> Array:
    """b of the density sech(z)^2b / B(b, 1/2) of each z under the prior of a correlation matrix."""
    _, columns = np.tril_indices(size, -1)
    return ETA + 0.5 * (size - 2 - columns)


def log_correlation_density(z: Array, size: int) -> float:
    """Log density of z, nats."""
    b = shapes(size)
    return float(-np.sum(2.0 * b * log_cosh(z) + betaln(b, 0.5)))


def log_cosh(z: Array) -> Array:
    """Logarithm of the hyperbolic cosine, of any size."""
    return np.logaddexp(z, -z) - np.log(2.0)


def drawn_correlations(size: int, rng: Any) -> Array:
    """z of a correlation matrix from the prior."""
    b = shapes(size)
    return np.arctanh(2.0 * rng.beta(b, b) - 1.0)


# ---- the best covariance
def covariance_slope(log_std: Array, z: Array, squares: Array, spread: Array, levels: int) -> tuple[Array, Array]:
    """Slope of the bound in (log s, z) at a q of the effects, without what their prior says, and a curvature.

    Parameters
    ----------
    log_std : ndarray of shape (r,)
    z : ndarray of shape (r (r - 1) / 2,)
    squares, spread : ndarray of shape (r, r)
        Σ m mᵀ and Σ S over the levels, of their means and covariances.
    levels : int

    Returns
    -------
    slope : ndarray of shape (V,)
    curvature : ndarray of shape (V, V)
        Positive semidefinite. With A Aᵀ the covariance and D = L I - A⁻¹ ΣS A⁻ᵀ what data determine, that of a move
        A -> A(I + X) is at most Σ X_ij² (D_ii D_jj)^½, twice that where i = j, in expectation.
    """
    root = correlation_root(z, len(log_std))
    factor = np.exp(log_std)[:, None] * root
    inverse = np.linalg.inv(factor)
    norm = inverse @ squares @ inverse.T
    determined = levels * np.eye(len(log_std)) - inverse @ spread @ inverse.T
    rows, _ = np.tril_indices(len(log_std), -1)
    moves = np.concatenate([factor, np.exp(log_std)[rows, None] * root_slopes(z, root)])
    of_row = np.concatenate([np.arange(len(log_std)), rows])
    X = inverse.T[of_row][:, :, None] * moves[:, None, :]
    size = np.sqrt(np.maximum(np.maximum(np.diagonal(norm), np.diagonal(determined)), 0.0))
    bend = np.outer(size, size) * (1.0 + np.eye(len(size)))
    return np.einsum("pij,ij->p", X, norm - determined), np.einsum("pij,ij,qij->pq", X, bend, X)


def correlation_slope(z: Array, size: int) -> tuple[Array, Array]:
    """Slope of the prior's log density in z, and its largest curvature."""
    b = shapes(size)
    return -2.0 * b * np.tanh(z), 2.0 * b


# ---- the posterior of the groups' covariances
@dataclass(frozen=True)
class LogScales:
    """Nodes (k, V) of log standard deviations and what follows them, weights (k,), variances (V,) about every node."""

    LAYOUT = "nodes (n,s) f; weights (n) f >=0; within? (s) f >=0 or no array"

    nodes: Array
    weights: Array
    within: Array | float = 0.0

    def mapped(self, groups: Groups, maps: list[Array]) -> LogScales:
        """Nodes of effects that a matrix of each factor makes of these; what is within follows in first order."""
        nodes = np.stack([groups.mapped(values, maps) for values in self.nodes])
        within = np.zeros(nodes.shape[1]) + self.within
        if within.any():
            steps = self.weights @ self.nodes + STEP * np.vstack([np.eye(len(within)), -np.eye(len(within))])
            ends = np.stack([groups.mapped(values, maps) for values in steps]).reshape(2, *[len(within)] * 2)
            within = within @ np.square((ends[0] - ends[1]) / (2.0 * STEP))
        return LogScales(nodes, self.weights, within)

    @property
    def mean(self) -> Array:
        """E s, (P,)."""
        return self.weights @ np.exp(self.nodes) * np.exp(0.5 * self.within)

    @property
    def std(self) -> Array:
        """Standard deviation of s, (P,): within nodes and between them, so that a point has none."""
        means = np.exp(self.nodes + 0.5 * self.within)
        variances = np.square(means) * np.expm1(self.within) + np.square(means - self.weights @ means)
        return np.sqrt(self.weights @ variances)

    def mean_covariances(self, groups: Groups) -> list[Array]:
        """E of the covariance of each factor's effects: of a level that no row has named."""
        at_nodes = [groups.covariances(values) for values in self.nodes]
        within, ends = np.broadcast_to(self.within, self.nodes.shape[1:]), np.cumsum([0, *groups.effects])
        found = []
        for f, (a, b) in enumerate(itertools.pairwise(ends)):
            # E exp(x + y) of two normal x, y about a node, which are the same on the diagonal.
            beside = np.exp(0.5 * np.add.outer(within[a:b], within[a:b]) + np.diag(within[a:b]))
            found.append(np.einsum("k,kij->ij", self.weights, np.stack([own[f] for own in at_nodes])) * beside)
        return found
