"""Where a fit of the gamma factor model begins: at the mode, as wide as Laplace's approximation, or at random.

All loadings step side by side, each with a curvature of its own alone, so that natural steps far from the optimum are
short. The mode in log Λ is found by L-BFGS, which knows how they correlate.
"""

from __future__ import annotations

import numpy as np

from sksvi.families import Gamma
from sksvi.models.gamma_factor.density import information, log_density
from sksvi.models.gamma_factor.scatter import Scatter

Array = np.ndarray

#: Iterations of L-BFGS, pairs that it remembers, and the relative gain at which it ends.
ITERATIONS, MEMORY, GAIN = 1000, 10, 1e-9
#: Shape of a random start.
RANDOM_SHAPE = 2.0
#: Longest and shortest learned noise variances, in e-folds beside the first.
REACH = 12.0


def at_random(n_components: int, data: Scatter, rng: np.random.Generator) -> Array:
    """Loadings (K, D) that explain about half of each column's variance."""
    spread = np.sqrt(data.variances)
    spread = np.where(spread > 0, spread, spread.mean() if spread.any() else 1.0)
    return rng.gamma(1.0, 1.0, (n_components, len(spread))) * spread / np.sqrt(2.0 * n_components)


def mode(
    loadings: Array, log_noise: Array | None, data: Scatter, prior: Gamma, noise_of: object
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
    from scipy.optimize import minimize

    size, shape = loadings.size, loadings.shape
    first = np.log(loadings).ravel()
    first = first if log_noise is None else np.concatenate([first, log_noise])
    unit = max(data.n, 1.0) * shape[1]

    def falling(at: Array) -> tuple[float, Array]:
        L = np.exp(at[:size]).reshape(shape)
        noise, pulled = noise_of(at[size:])  # type: ignore[operator]
        found = log_density(L, noise, data, log_noise is not None)
        value = float(found.value + np.sum(prior.shape * at[:size].reshape(shape) - prior.rate * L))
        slope = (L * (found.in_loadings - prior.rate) + prior.shape).ravel()
        if log_noise is not None:
            slope = np.concatenate([slope, pulled(found.in_noise)])
        return -value / unit, -slope / unit

    ends = [(None, None)] * size
    if log_noise is not None:
        ends += [(t - REACH, t + REACH) for t in log_noise]
    options = {"maxiter": ITERATIONS, "maxfun": 2 * ITERATIONS, "maxcor": MEMORY, "ftol": GAIN, "gtol": 1e-9}
    best = minimize(falling, first, jac=True, method="L-BFGS-B", bounds=ends, options=options).x
    return np.exp(best[:size]).reshape(shape), None if log_noise is None else best[size:]


def laplace(loadings: Array, noise: Array, data: Scatter, prior: Gamma) -> Gamma:
    """Gamma distributions with mean at the mode and the curvature in log Λ there."""
    shape = prior.shape + information(loadings, noise, data.freedom) * loadings**2
    return Gamma(shape, shape / loadings)


def spread(loadings: Array) -> Gamma:
    """Wide gamma distributions about given means."""
    return Gamma(np.full(loadings.shape, RANDOM_SHAPE), RANDOM_SHAPE / loadings)
