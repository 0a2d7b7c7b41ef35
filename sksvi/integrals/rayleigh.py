"""Integrals over the noise of the mixed effects GLM, w2 ~ Rayleigh(sigma), and over the mean u of f.

As everywhere, a row's rule depends on that row alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
from scipy.special import erf

from sksvi.integrals import quadrature

Array = Any

# largest sigma / (scale in w2)  at which n Gauss nodes for the Rayleigh weight keep the relative error near 1e-8
_RAYLEIGH_LIMITS = ((4, 0.02), (5, 0.1), (6, 0.2), (8, 0.5), (10, 0.8), (12, 1.3), (16, 2.2), (20, 3.5))
#: Rows times nodes of w2 that are asked for at once.
_AT_ONCE = 2**14
#: From one rule for steep functions to the next, and the largest sd in widths for which there is one.
_GROWTH, STEEPEST = 1.2, 16.0
_RAYLEIGH_EDGES = np.array([limit for _, limit in _RAYLEIGH_LIMITS])


class TailTraits(Protocol):
    """How log p(y | f) falls in f."""

    @property
    def log_concave(self) -> bool:
        """Whether it is concave."""
        ...

    @property
    def exponential(self) -> bool:
        """Whether it falls exponentially."""
        ...


class LikelihoodScale(Protocol):
    """Where log p(y | f) changes and over which width: what a rule over f asks of a likelihood."""

    @property
    def traits(self) -> TailTraits:
        """How log p falls."""
        ...

    @property
    def width(self) -> float:
        """Scale on which log p changes in f."""
        ...

    def centre(self, y: np.ndarray) -> np.ndarray:
        """Latent about which log p changes."""
        ...


@lru_cache(maxsize=16)
def rayleigh_gauss(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights of the n-point Gauss rule for the density r exp(-r^2 / 2) on r > 0."""
    x, w = quadrature.legendre(200)
    x = 9.0 * x
    w = 9.0 * w * x * np.exp(-0.5 * x * x)
    # discretised Stieltjes procedure, then Golub and Welsch
    before, now = np.zeros_like(x), np.full_like(x, 1.0 / np.sqrt(w.sum()))
    diagonal, side = np.zeros(n), np.zeros(n)
    for k in range(n):
        diagonal[k] = np.sum(w * x * now * now)
        new = (x - diagonal[k]) * now - (side[k - 1] if k else 0.0) * before
        side[k] = np.sqrt(np.sum(w * new * new))
        before, now = now, new / side[k]
    nodes, vectors = np.linalg.eigh(np.diag(diagonal) + np.diag(side[:-1], 1) + np.diag(side[:-1], -1))
    weights = vectors[0] ** 2
    return nodes, weights / weights.sum()


@lru_cache(maxsize=8)
def rayleigh_log_trapezoid(reach: float = 8.5, step: float = 0.4) -> tuple[np.ndarray, np.ndarray]:
    """Nodes r up to about `reach` and logarithms of the weights of the rule of `rayleigh_trapezoid`."""
    t = step * np.arange(int(np.floor(-7.5 / step)), int(reach / step) + 1)
    r = np.logaddexp(0.0, 1.5 * t) / 1.5
    return r, np.log(step * r) - 0.5 * r * r - np.logaddexp(0.0, -1.5 * t)


@lru_cache(maxsize=8)
def rayleigh_trapezoid(step: float = 0.4) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights for functions that change at any scale of r: trapezoidal in t, r = log(1 + exp(1.5 t)) / 1.5.

    Relative error below 1e-7 for 1 / (1 + k r), sqrt(1 + k r) and log(1 + k r) up to k = 100.
    """
    r, log_weights = rayleigh_log_trapezoid(8.5, step)
    weights = np.exp(log_weights)
    return r, weights / weights.sum()


def rayleigh_rule(code: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes r = w2 / sigma and weights of the rule with that code."""
    if code < len(_RAYLEIGH_LIMITS):
        return rayleigh_gauss(_RAYLEIGH_LIMITS[code][0])
    return rayleigh_trapezoid(0.4 if code == len(_RAYLEIGH_LIMITS) else 0.2)


def log_exponential_moment(t: float) -> tuple[float, float]:
    """log E exp(t r) of a standard Rayleigh variable r, and its derivative in t."""
    tail = np.sqrt(0.5 * np.pi) * (1.0 + erf(t / np.sqrt(2.0)))
    small = np.exp(-0.5 * t * t)
    moment = t * tail + small  # times exp(t^2 / 2)
    return float(0.5 * t * t + np.log(moment)), float((tail * (1.0 + t * t) + t * small) / moment)


def over_noise(
    scores: Callable[[Array, Array], list[Array]], changes: Array, sigma: float, abrupt: Array | bool = False
) -> list[Array]:
    """Sum over the nodes of w2 of what `scores` gives at w2 = sigma r for the rows that share a rule.

    ``scores(rows, r)`` is asked for several nodes at once: rows come once for each, r is theirs.
    """
    out: list[Array] = []
    ratio = sigma * changes  # sigma over the scale on which its function of w2 changes
    codes = np.searchsorted(_RAYLEIGH_EDGES, ratio) + (abrupt & (ratio > _RAYLEIGH_EDGES[-1]))
    for code in np.unique(codes) if len(codes) else [0]:
        rows = np.flatnonzero(codes == code)
        nodes, weights = rayleigh_rule(int(code))
        many = max(1, _AT_ONCE // max(len(rows), 1))
        total: list[Array] = []
        for start in range(0, len(nodes), many):
            r = nodes[start : start + many]
            parts = scores(np.tile(rows, len(r)), np.repeat(r, len(rows)))
            parts = [part.reshape(*np.shape(part)[:-1], len(r), len(rows)) for part in parts]
            if not total:
                total = [np.zeros(part[..., 0, :].shape) for part in parts]
            for k, weight in enumerate(weights[start : start + many]):
                for target, part in zip(total, parts, strict=True):
                    target += weight * part[..., k, :]
        write(out, total, rows, len(codes))
    return out


def over_mean(
    function: quadrature.Integrand, likelihood: LikelihoodScale, y: Array, m: Array, v: Array, w2: Array | float
) -> list[Array]:
    """E of what `function` returns under u ~ N(m, v), for functions such as log phi(u, w2): wider than log p itself.

    w2 is one number or each row's own.
    """
    width = np.sqrt(likelihood.width**2 + np.broadcast_to(w2 if likelihood.traits.log_concave else 0.25 * w2, len(m)))
    ratio = np.sqrt(v) / width
    steep = (ratio > 1.1) & (ratio <= STEEPEST) if likelihood.traits.exponential else np.zeros(len(m), dtype=bool)
    out: list[Array] = []
    plain = np.flatnonzero(~steep)
    if len(plain) or not len(m):
        write(
            out,
            quadrature.expect(
                _at_rows(function, plain), m[plain], v[plain], width[plain], lambda: likelihood.centre(y[plain])
            ),
            plain,
            len(m),
        )
    # a rate exp(u) weighs N(m, v) most at m + v: the nodes go that much farther
    rows = np.flatnonzero(steep)
    codes = np.ceil(np.log(np.stack([ratio[rows], width[rows]])) / np.log(_GROWTH)).astype(np.intp)
    for code in np.unique(codes, axis=1).T:
        own = rows[(codes == code[:, None]).all(axis=0)]
        edge, widest = _GROWTH ** code.astype(float)
        step = min(0.6, 0.95 / edge)
        nodes = np.arange(-6.5, 6.5 + edge * widest + step, step)
        weights = np.exp(-0.5 * nodes**2)
        parts = quadrature.expect_at(_at_rows(function, own), m[own], v[own], nodes, weights / weights.sum())
        write(out, parts, own, len(m))
    return out


def _at_rows(function: quadrature.Integrand, rows: Array) -> quadrature.Integrand:
    return lambda u, at: function(u, rows[at])


def write(out: list[Array], values: Sequence[Array], at: Array, n: int) -> None:
    """Put `values` for the rows `at` into `out`, arrays whose last axis has all n rows, made on the first call."""
    if not out:
        out.extend(np.empty((*np.shape(part)[:-1], n)) for part in values)
    for target, part in zip(out, values, strict=True):
        target[..., at] = part
