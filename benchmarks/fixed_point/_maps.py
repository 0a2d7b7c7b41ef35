"""The fixed-point maps of a Bayesian GLM and their Jacobians, in numpy alone: only likelihoods are sksvi's.

A site per row holds what the data say of f: a precision w and, where the mean moves by natural steps too, a linear
part. With prior N(0, I / p), S = (p I + X' diag(w) X)⁻¹, v = diag(X S X') and g(m, v) = -E l''(f) under N(m, v), the
covariance's map is w <- g(m, v). Derivatives of g need l'' alone, by Stein's identity: for f = m + sd z,
dg/dm = E[-l'' z] / sd and dg/dv = E[-l'' (z² - 1)] / (2 v).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from benchmarks._lib import Array

#: Trapezoidal rule on |z| <= 9: rows take every stride-th node, so that sd * step stays below 0.4.
_Z = np.linspace(-9.0, 9.0, 2881)
_STRIDES, _LARGEST_SD = (32, 16, 8, 4, 2, 1), 64.0
#: Numbers in a table of nodes.
_BLOCK = 2**21


class Curvature(NamedTuple):
    """E log p, E l', g = -E l'' of each row, and g's derivatives in m and v."""

    value: Array
    slope: Array
    g: Array
    in_mean: Array
    in_variance: Array


def curvature(likelihood: Any, y: Array, m: Array, v: Array) -> Curvature:
    """What a row says of f ~ N(m, v); an sd above 64 would need more nodes, and is refused."""
    out, sd, below = np.empty((5, len(m))), np.sqrt(v), 0.0
    if not np.all(sd <= _LARGEST_SD):
        raise ValueError(f"the rule is exact up to a standard deviation of {_LARGEST_SD}; found {np.max(sd):.3g}")
    for stride in _STRIDES:
        limit, z = _LARGEST_SD / stride, _Z[::stride]
        weight = np.exp(-0.5 * z**2)
        weight /= weight.sum()
        inside, below = np.flatnonzero((sd > below) & (sd <= limit)), limit
        for first in range(0, len(inside), _BLOCK // len(z)):
            rows = inside[first : first + _BLOCK // len(z)]
            with np.errstate(over="ignore", invalid="ignore"):
                value, d1, d2 = likelihood.derivatives(y[rows], m[rows] + sd[rows] * z[:, None])
                in_mean, in_variance = -((weight * z) @ d2), -((weight * (z**2 - 1.0)) @ d2)
                out[:, rows] = (
                    weight @ value,
                    weight @ d1,
                    -(weight @ d2),
                    in_mean / sd[rows],
                    in_variance / (2.0 * v[rows]),
                )
    return Curvature(*out)


@dataclass(frozen=True)
class GLM:
    """Rows, targets, a likelihood, the precision of the prior N(0, I / precision) and a number added to every f."""

    X: Array
    y: Array
    likelihood: Any
    precision: float = 1.0
    offset: float = 0.0

    def linear(self, m: Array) -> Array:
        """Mean of f at the mean of the weights."""
        return np.asarray(self.X @ m + self.offset)

    def precision_of(self, w: Array) -> Array:
        """S⁻¹ at the sites' precisions."""
        P = (self.X * w[:, None]).T @ self.X
        P[np.diag_indices_from(P)] += self.precision
        return np.asarray(P)

    def covariance(self, w: Array) -> Array:
        """S at the sites' precisions."""
        return np.linalg.inv(self.precision_of(w))

    def variance(self, S: Array) -> Array:
        """v = diag(X S X')."""
        return np.einsum("ij,ij->i", self.X @ S, self.X)

    def at(self, m: Array, S: Array) -> Curvature:
        """What the rows say at N(m, S) of the weights."""
        return curvature(self.likelihood, self.y, self.linear(m), self.variance(S))

    def kl(self, m: Array, S: Array) -> float:
        """KL(q || prior), nats."""
        D, sign_and_log = len(m), np.linalg.slogdet(S)
        norm = self.precision * (np.trace(S) + m @ m)
        return float(0.5 * (norm - D - D * np.log(self.precision) - sign_and_log[1]))

    def bound(self, m: Array, S: Array) -> float:
        """The bound, nats."""
        return float(self.at(m, S).value.sum()) - self.kl(m, S)


def optimum(glm: GLM, passes: int = 500, gain: float = 1e-12) -> tuple[Array, Array, float]:
    """(m, S, bound) where natural steps on both end, each halved until the bound does not fall."""
    D = glm.X.shape[1]
    m, S = np.zeros(D), np.eye(D) / glm.precision
    S /= max(1.0, float(glm.variance(S).mean()))
    here, best = glm.at(m, S), glm.bound(m, S)
    for _ in range(passes):
        P, target = np.linalg.inv(S), glm.precision_of(here.g)
        slope, rate = glm.X.T @ here.slope - glm.precision * m, 1.0
        found = None
        while rate > 1e-8 and (found is None or not found[2] >= best):
            found = _step(glm, m, (1 - rate) * P + rate * target, rate * slope)
            rate *= 0.5
        if found is None or not found[2] >= best:
            break
        gained, (m, S, best, here) = found[2] - best, found
        if gained < gain * (abs(best) + 1.0):
            break
    return m, S, best


def _step(glm: GLM, m: Array, P: Array, slope: Array) -> tuple[Array, Array, float, Curvature] | None:
    """m + P⁻¹ slope and P⁻¹ with the bound and the curvature there; None: no distribution, or one beyond the rule."""
    if not np.linalg.eigvalsh(P)[0] > 0.0:
        return None
    S = np.linalg.inv(P)
    v = glm.variance(S)
    if not (np.all(v > 0.0) and np.all(v <= _LARGEST_SD**2)):
        return None
    m = m + S @ slope
    here = curvature(glm.likelihood, glm.y, glm.linear(m), v)
    return m, S, float(here.value.sum()) - glm.kl(m, S), here


# ---- Jacobians
class Certificate(NamedTuple):
    """1 + mu, the largest eigenvalue of I - J, and how many products with J found it."""

    largest: float
    products: int

    @property
    def mu(self) -> float:
        """Minus the least eigenvalue of the map's Jacobian."""
        return self.largest - 1.0

    @property
    def safe(self) -> float:
        """Rates below it contract."""
        return 2.0 / self.largest

    @property
    def rate(self) -> float:
        """The rate under which eigenvalues between -mu and 0 shrink most: 2 / (2 + mu), and at most 1."""
        return 2.0 / (2.0 + max(self.mu, 0.0))


@dataclass(frozen=True)
class Jacobian:
    """Products with the Jacobians of three maps at N(m, S), none of which is formed.

    ``fixed`` : steps of the covariance at a fixed mean. ``solved`` : the mean is solved for after each (FPi).
    ``natural`` : natural steps on both, in the coordinates (change of the linear part less m times that of w, w).
    """

    glm: GLM
    S: Array
    here: Curvature

    @cached_property
    def _half(self) -> Array:
        return np.asarray(self.glm.X @ self.S)

    def spread(self, c: Array) -> Array:
        """X S X' c."""
        return np.asarray(self._half @ (self.glm.X.T @ c))

    def squared(self, w: Array) -> Array:
        """(x_i' S x_j)² summed over j with weights w: what less of w makes of v."""
        inner = (self._half * w[:, None]).T @ self._half
        return np.einsum("ij,ij->i", self.glm.X @ inner, self.glm.X)

    def fixed(self, w: Array) -> tuple[Array, Array]:
        """J w and M w."""
        Mw = self.squared(w)
        return -self.here.in_variance * Mw, Mw

    def solved(self, w: Array) -> tuple[Array, Array]:
        """J w and M w."""
        Mw = self.squared(w)
        bend = self.here.in_mean
        return 0.5 * bend * self.spread(bend * Mw) - self.here.in_variance * Mw, Mw

    def natural(self, u: Array) -> tuple[Array, Array]:
        """J u and the metric's product, for u = (c, w)."""
        c, w = np.split(u, 2)
        Mw, Kc, bend = self.squared(w), self.spread(c), self.here.in_mean
        return np.r_[0.5 * bend * Mw, bend * Kc - self.here.in_variance * Mw], np.r_[2.0 * Kc, Mw]

    def dense(self, kind: str) -> Array:
        """J as an array."""
        n = len(self.glm.y) * (2 if kind == "natural" else 1)
        return np.stack([getattr(self, kind)(e)[0] for e in np.eye(n)], axis=1)


def certificate(
    product: Callable[[Array], tuple[Array, Array]], size: int, seed: int = 0, tol: float = 1e-3, most: int = 200
) -> Certificate:
    """Power iteration on I - J, whose eigenvalues are real and, at a maximum of the bound, positive.

    J is self-adjoint in the metric that comes with its products, and Rayleigh quotients in it have the squared error
    of the vector.
    """
    u, before = np.random.default_rng(seed).standard_normal(size), 0.0
    for number in range(1, most + 1):
        Ju, metric = product(u)
        there = u - Ju
        found = float(metric @ there) / float(metric @ u)
        if abs(found - before) <= tol * abs(found):
            return Certificate(found, number)
        u, before = there / np.linalg.norm(there), found
    return Certificate(found, most)


# ---- the covariance's iteration at a fixed mean
class Run(NamedTuple):
    """w of the iterations (T, N) and how they end: "converged", "cycle", "open" or, without variances, "diverged"."""

    w: Array
    end: str

    @property
    def steps(self) -> int:
        """Iterations."""
        return len(self.w) - 1


#: Largest |g - w| of a run that has converged, as a share of the largest g, and |w_t - w_(t-2)| of one that cycles, as
#: a share of |w_t - w_(t-1)|.
SETTLED, PERIODIC = 1e-8, 1e-6


def iterated(
    glm: GLM,
    m: Array,
    rate: float | Callable[[Array, Curvature], float] = 1.0,
    most: int = 500,
    start: Array | None = None,
) -> Run:
    """Steps w <- (1 - rate) w + rate g at a fixed mean from `start` (None: 0, the prior).

    ``rate`` : a number, or what gives one from S and the rows' curvature there.
    """
    linear, w = glm.linear(m), np.zeros(len(glm.y)) if start is None else start
    path = [w]
    for _ in range(most):
        S = glm.covariance(w)
        v = glm.variance(S)
        if not np.all((v > 0.0) & (v < _LARGEST_SD**2)):
            return Run(np.array(path), "diverged")
        here = curvature(glm.likelihood, glm.y, linear, v)
        unit = np.max(np.abs(here.g))
        if np.max(np.abs(here.g - w)) <= SETTLED * unit:
            return Run(np.array(path), "converged")
        if len(path) > 2 and np.max(np.abs(w - path[-3])) <= PERIODIC * np.max(np.abs(w - path[-2])):
            return Run(np.array(path), "cycle")
        rho = rate if isinstance(rate, float) else rate(S, here)
        w = (1.0 - rho) * w + rho * here.g
        path.append(w)
    return Run(np.array(path), "open")
