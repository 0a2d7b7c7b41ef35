"""Where a fit of the gamma factor model begins: at the mode, as wide as Laplace's approximation, or at random.

All loadings step side by side, each with a curvature of its own alone, so that natural steps far from the optimum are
short. The mode in log Λ is found by L-BFGS, which knows how they correlate.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sksvi.algorithms.ascent import ascend
from sksvi.families import Gamma
from sksvi.models.gamma_factor.density import information, log_density
from sksvi.models.gamma_factor.scatter import Scatter

Array = np.ndarray

#: Most looks of L-BFGS, and the gain, nats per number of the data, that a few iterations have to bring.
LOOKS, GAIN = 1000, 2e-8
#: Shape of a random start.
RANDOM_SHAPE = 10.0
#: Longest and shortest learned noise variances, in e-folds beside the first.
REACH = 12.0


def at_random(n_components: int, data: Scatter, rng: np.random.Generator) -> Array:
    """Loadings (K, D) that explain about half of each column's variance."""
    spread = np.sqrt(data.variances)
    spread = np.where(spread > 0, spread, spread.mean() if spread.any() else 1.0)
    return rng.gamma(1.0, 1.0, (n_components, len(spread))) * spread / np.sqrt(2.0 * n_components)


def mode(
    loadings: Array, log_noise: Array | None, data: Scatter, prior: Gamma, noise_of: Any
) -> tuple[Array, Array | None]:
    """The mode in log Λ, and in the noise's own coordinate where that is learned.

    Parameters
    ----------
    loadings : ndarray of shape (K, D)
        Where to begin.
    log_noise : ndarray of shape (P,) or None
        None: the noise is known.
    data : Scatter
    prior : Gamma
    noise_of : callable
        `log_noise` to noise variances (D,) and the pull-back of a gradient in them.
    """
    size, shape = loadings.size, loadings.shape
    first = np.log(loadings).ravel()
    first = first if log_noise is None else np.concatenate([first, log_noise])
    unit = max(data.n, 1.0) * shape[1]

    def climbed(at: Array) -> tuple[float, Array]:
        L = np.exp(at[:size]).reshape(shape)
        noise, pulled = noise_of(at[size:])
        found = log_density(L, noise, data, log_noise is not None)
        value = float(found.value + np.sum(prior.shape * at[:size].reshape(shape) - prior.rate * L))
        slope = (L * (found.in_loadings - prior.rate) + prior.shape).ravel()
        if log_noise is not None:
            slope = np.concatenate([slope, pulled(found.in_noise)])
        return value / unit, slope / unit

    ends: list[tuple[float | None, float | None]] = [(None, None)] * size
    if log_noise is not None:
        ends += [(float(t) - REACH, float(t) + REACH) for t in log_noise]
    with np.errstate(over="ignore", invalid="ignore"):  # a search looks too far, and is sent back
        best, _ = ascend(climbed, first, ends, lambda value: False, lambda value: GAIN, LOOKS)
    return np.exp(best[:size]).reshape(shape), None if log_noise is None else best[size:]


def laplace(loadings: Array, noise: Array, data: Scatter, prior: Gamma) -> Gamma:
    """Gamma distributions with mean at the mode and the curvature in log Λ there."""
    shape = prior.shape + information(loadings, noise, data.freedom) * loadings**2
    return Gamma(shape, shape / loadings)


def spread(loadings: Array) -> Gamma:
    """Wide gamma distributions about given means."""
    return Gamma(np.full(loadings.shape, RANDOM_SHAPE), RANDOM_SHAPE / loadings)
