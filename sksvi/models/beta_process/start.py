"""The first q of beta process factor analysis: random features, rows, or given ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from sksvi._typing.arrays import REAL
from sksvi.families import Beta, DiagonalGaussian, Gamma
from sksvi.models.base import Table

Array = np.ndarray

#: Share of the rows that use a feature at first, at most, and share of the variance that is noise: with less noise rows
#: take up many rough features at once.
MOST_START_USE, START_NOISE = 0.2, 0.5


def random_start(model: Any, n: int) -> dict[str, Any]:
    """A first q: random features of unit length."""
    phi = np.random.default_rng([model.seed, 2]).standard_normal(model.shape) / np.sqrt(model.shape[1])
    return start_at(model, phi, n)


def data_start(model: Any, data: Table) -> dict[str, Any]:
    """A first q whose features are rows, chosen at random, with zeros where an entry is missing."""
    K, n = model.shape[0], len(data)
    rng = np.random.default_rng([model.seed, 2])
    rows = rng.choice(n, K, replace=n < K)
    # A weight of the prior is 1 long or so, but rows are sums of several features.
    order = np.argsort(rows, kind="stable")
    own = data.take(rows[order]).X[np.argsort(order)]
    phi = np.nan_to_num(own) + 0.1 * rng.standard_normal(model.shape) / np.sqrt(model.shape[1])
    return start_at(model, phi, n)


def given_factors(factors: Any, shape: tuple[int, int]) -> Array:
    """The features that a user gives, checked."""
    phi = np.asarray(factors)
    if phi.shape != shape or phi.dtype.kind not in REAL or not np.all(np.isfinite(phi)):
        raise ValueError(
            f"init must be a string or finite numbers of shape {shape}, (n_components, columns of X); "
            f"found shape {phi.shape}, dtype {phi.dtype}."
        )
    return phi.astype(float)


def start_at(model: Any, phi: Array, n: int) -> dict[str, Any]:
    """A q about these features: each used by the same share of the rows, noise half of the variance."""
    K, D = model.shape
    used = min(model.start_use / K, MOST_START_USE) * n
    start = {
        "probabilities": Beta(np.full(K, used + model.a / K), np.full(K, n - used + model.b)),
        "features": DiagonalGaussian(phi, np.full((K, D), D * (1.0 + 0.1 * used))),
        "weight_precision": Gamma(np.full(1, 1.0 + n), np.full(1, 1.0 + n)),
        "noise_precision": Gamma(
            np.full(model.noise_size, 1.0 + n), np.full(model.noise_size, START_NOISE * (1.0 + n))
        ),
    }
    return {**start, **{name: model.prior({})[name] for name in model.known}}
