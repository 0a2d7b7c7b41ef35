"""Compiled draws of the topics of all words of a cell at once, for cells that have many.

Given θ ~ Dir(α + N) the words of a cell are multinomial: together with a sweep over all others, θ integrated out, that
is a Gibbs sampler of the same distribution (van Dyk and Park 2008), whose cost does not grow with a count.
"""

from __future__ import annotations

from math import lgamma

import numpy as np

from sksvi._runtime.compiled import njit
from sksvi.models.numbers import FLOAT, normal, uniform

Array = np.ndarray

compiled = njit()

#: Words of a cell from which on they are drawn together.
TOGETHER = 200
#: Mean below which a binomial number is found by adding up probabilities, by rejection above.
FEW = 10.0
#: Mean above which it is normal with its skewness: probabilities are then right to about one in this.
NORMAL = 1e4
#: Trials of a binomial of a lesser mean; of more it is Poisson, as that of so many is.
TRIALS = 1e9


@compiled
def gamma_of(shape: float, state: Array, spare: Array) -> float:
    """A Gamma(shape, 1) number, by Marsaglia and Tsang (2000)."""
    d = (shape if shape >= 1.0 else shape + 1.0) - 1.0 / 3.0
    while True:
        z = normal(state, spare)
        v = (1.0 + z / np.sqrt(9.0 * d)) ** 3
        if v > 0.0 and np.log(uniform(state)) < 0.5 * z * z + d - d * v + d * np.log(v):
            return d * v if shape >= 1.0 else d * v * uniform(state) ** (1.0 / shape)


@compiled
def _added_up(n: float, p: float, state: Array) -> float:
    """A binomial number of a small mean: the first that the probabilities add up to a uniform one at."""
    k, u, term = 0.0, uniform(state), np.exp(n * np.log1p(-p))
    while u > term and k < n:
        u -= term
        k += 1.0
        term *= (n - k + 1.0) / k * p / (1.0 - p)
    return k


@compiled
def _rejected(n: float, p: float, state: Array) -> float:
    """A binomial number of mean 10 or more, p <= 1/2, by BTRS (Hörmann 1993)."""
    sd = np.sqrt(n * p * (1.0 - p))
    b = 1.15 + 2.53 * sd
    a = -0.0873 + 0.0248 * b + 0.01 * p
    mode = np.floor((n + 1.0) * p)
    most = lgamma(mode + 1.0) + lgamma(n - mode + 1.0)
    while True:
        u, v = uniform(state) - 0.5, uniform(state)
        room = 0.5 - abs(u)
        k = np.floor((2.0 * a / room + b) * u + n * p + 0.5)
        if k < 0.0 or k > n:
            continue
        if room >= 0.07 and v <= 0.92 - 4.2 / b:
            return k
        height = np.log(v * (2.83 + 5.1 / b) * sd / (a / (room * room) + b))
        if height <= most - lgamma(k + 1.0) - lgamma(n - k + 1.0) + (k - mode) * np.log(p / (1.0 - p)):
            return k


@compiled
def _at_most_half(n: float, p: float, state: Array, spare: Array) -> float:
    """A binomial number of n trials of probability p <= 1/2."""
    mean = n * p
    if mean > NORMAL:
        z = normal(state, spare)
        return np.rint(mean + np.sqrt(mean * (1.0 - p)) * z + (1.0 - 2.0 * p) * (z * z - 1.0) / 6.0)
    if n > TRIALS:
        n, p = TRIALS, mean / TRIALS
    return _added_up(n, p, state) if mean < FEW else _rejected(n, p, state)


@compiled
def binomial_of(n: float, p: float, state: Array, spare: Array) -> float:
    """A binomial number of n trials, however many."""
    if p > 0.5:
        return n - _at_most_half(n, 1.0 - p, state, spare)
    return _at_most_half(n, p, state, spare)


@compiled
def split(n: float, weight: Array, row: Array, tail: Array, state: Array, spare: Array, out: Array) -> None:
    """n words among topics of probability ∝ `weight` b, into `out`."""
    K, total = len(out), 0.0
    for k in range(K - 1, -1, -1):
        total += weight[k] * row[k]
        tail[k] = total
    for k in range(K):
        out[k] = 0.0
        if n > 0.0 and tail[k] > 0.0:
            last = k == K - 1 or tail[k + 1] == 0.0
            out[k] = n if last else binomial_of(n, weight[k] * row[k] / tail[k], state, spare)
            n -= out[k]


@compiled
def draw_cells(
    cells: Array, many: Array, own: Array, weight: Array, settled: bool, state: np.uint64, cell_counts: Array
) -> np.uint64:
    """Draw the topics of every cell of `many` words: counts into `cell_counts` (cells, K); returns the random state.

    `weight` is α + N, of which θ is drawn where N has `settled`, and its mean stands where it has not begun.
    """
    if not len(cells):
        return state
    K = cell_counts.shape[1]
    current, spare = np.empty(1, np.uint64), np.empty(1, FLOAT)
    tail, theta = np.empty(K, FLOAT), np.empty(K, FLOAT)
    current[0], spare[0] = state, 0.0
    for k in range(K):
        theta[k] = gamma_of(weight[k], current, spare) if settled else weight[k]
    for j in range(len(cells)):
        split(many[cells[j]], theta, own[cells[j]], tail, current, spare, cell_counts[j])
    return current[0]
