"""Mixtures of Bernoullis as two papers make them, and binarised digits with missing cells."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from benchmarks._lib import Array
from benchmarks._lib.loaders import load_npz

#: Components, concentration, rows and columns of the simulated sets.
K, ALPHA, ROWS, COLUMNS = 100, 20.0, 1000, 100


class Simulated(NamedTuple):
    """Rows to fit with their components, fresh rows, and the truth's mean log-likelihood of these."""

    X: Array
    labels: Array
    fresh: Array
    truth: float


def drawn(r: np.random.Generator, weights: Array) -> Simulated:
    """Rows of a mixture with these weights and uniform probabilities."""
    probability = r.beta(1, 1, (K, COLUMNS))
    z = r.choice(K, 2 * ROWS, p=weights)
    X = (r.random((2 * ROWS, COLUMNS)) < probability[z]).astype(float)
    fresh = X[ROWS:]
    logs = fresh @ np.log(probability).T + (1 - fresh) @ np.log1p(-probability).T + np.log(weights + 1e-300)
    return Simulated(X[:ROWS], z[:ROWS], fresh, float(np.mean(np.logaddexp.reduce(logs, axis=1))))


def paper(seed: int) -> Simulated:
    """Weights ~ Dir(α/K), as Hoffman and Blei (2015) make them."""
    r = np.random.default_rng(seed)
    return drawn(r, r.dirichlet(np.full(K, ALPHA / K)))


def stick_breaking(seed: int) -> Simulated:
    """Weights by stick-breaking with α, cut off at K."""
    r = np.random.default_rng(seed)
    v = r.beta(1, ALPHA, K)
    v[-1] = 1
    weights = v * np.r_[1, np.cumprod(1 - v)[:-1]]
    return drawn(r, weights / weights.sum())


class Digits(NamedTuple):
    """Rows to fit, a tenth of their cells missing; new rows, and the same with half of their cells hidden."""

    X: Array
    fresh: Array
    seen: Array


def digits(rows: int, fresh: int) -> Digits:
    """MNIST's test images, binarised at half of the range."""
    images = load_npz("mnist_t10k")
    X = (np.asarray(images["X"], float).reshape(len(images["X"]), -1) > 127).astype(float)
    r = np.random.default_rng(0)
    X = X[r.permutation(len(X))[: rows + fresh]]
    known = np.where(r.random((rows, X.shape[1])) < 0.1, np.nan, X[:rows])
    new = X[rows:]
    return Digits(known, new, np.where(r.random(new.shape) < 0.5, np.nan, new))
