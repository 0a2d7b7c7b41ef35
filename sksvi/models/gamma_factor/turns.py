"""Turns of two factors: Λ'_j = Λ_j cos t - Λ_k sin t, Λ'_k = Λ_j sin t + Λ_k cos t leaves ΛΛᵀ as it is.

The data do not tell such loadings apart, the prior hardly does, and Λ >= 0 ends the turn: how far it goes is not said
by any curvature. Along a turn the posterior is a density of one number on a known interval, from which slices are drawn
(Neal 2003): a step that leaves the posterior as it is, so that draws from near it come nearer.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np

from sksvi.families import Gamma

Array = np.ndarray
Pairs = list[tuple[int, int]]

#: Sweeps over all pairs, and most trial points of a slice: each shrinks it by about half.
SWEEPS, MAX_SHRINKS = 10, 60
#: From end to end: most of a normal distribution.
REACH = 4.0
_RIGHT = 0.5 * np.pi
_LEAST = np.finfo(float).tiny


def free(q: Gamma) -> Pairs:
    """Pairs of factors that may turn further than `REACH` times the spread of independent loadings."""
    found = []
    for j, k in combinations(range(len(q.mean)), 2):
        angles = np.arctan2(q.mean[k], q.mean[j])
        reach = angles.min() + _RIGHT - angles.max()
        ratio = np.square(q.mean[k] / q.mean[j])
        curvature = float(np.sum(q.shape[j] * ratio + q.shape[k] / ratio))
        if reach * np.sqrt(curvature) > REACH:
            found.append((j, k))
    return found


def turned(draws: Array, pairs: Pairs, prior: Gamma, rng: np.random.Generator) -> Array:
    """Draws (S, K, D) after turns of all pairs."""
    draws = draws.copy()
    for _ in range(SWEEPS):
        for j, k in pairs:
            ends = [(prior.shape[i] - 1.0, prior.rate[i]) for i in (j, k)]
            draws[:, j], draws[:, k] = _turn(draws[:, j], draws[:, k], ends, rng)
    return draws


def _turn(one: Array, other: Array, prior: list[tuple[Array, Array]], rng: np.random.Generator) -> tuple[Array, Array]:
    """Two factors (S, D) each, turned by a draw from the angles' slices."""
    radius, angle = np.hypot(one, other), np.arctan2(other, one)

    def at(turn: Array, which: Array) -> tuple[Array, Array]:
        moved = angle[which] + turn[:, None]
        return (
            np.maximum(radius[which] * np.cos(moved), _LEAST),
            np.maximum(radius[which] * np.sin(moved), _LEAST),
        )

    def density(turn: Array, which: Array) -> Array:
        both = zip(prior, at(turn, which), strict=True)
        return np.sum([(power * np.log(x) - rate * x).sum(1) for (power, rate), x in both], axis=0)

    low, high, left = -angle.min(1), _RIGHT - angle.max(1), np.arange(len(angle))
    turn = np.zeros(len(angle))
    level = density(turn, left) + np.log(rng.uniform(size=len(angle)))
    for _ in range(MAX_SHRINKS):
        tried = low[left] + (high[left] - low[left]) * rng.uniform(size=len(left))
        inside = density(tried, left) >= level[left]
        turn[left[inside]] = tried[inside]
        left, tried = left[~inside], tried[~inside]
        if not left.size:
            break
        below = tried < 0
        low[left[below]], high[left[~below]] = tried[below], tried[~below]
    return at(turn, np.arange(len(angle)))
