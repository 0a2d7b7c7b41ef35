"""Start of a fit of the gamma factor model: the mode with Laplace's approximation, or random loadings.

All loadings step side by side, each with a curvature of its own alone, so that natural steps far from the optimum are
short. The mode in log Λ is found by L-BFGS, which knows how they correlate.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from sksvi.algorithms.ascent import ascend
from sksvi.families import Gamma
from sksvi.models.gamma_factor.density import information, log_density
from sksvi.models.gamma_factor.scatter import Scatter

Array = np.ndarray

#: Random starts, and most evaluations of each in log Λ and in Λ, after which the best goes on.
STARTS, FIRST_LOG_EVALUATIONS, FIRST_EVALUATIONS = 4, 100, 150
#: Most evaluations of L-BFGS in Λ and then in log Λ.
EVALUATIONS, LOG_EVALUATIONS = 600, 300
#: What a few iterations have to gain to go on: nats per number of the data, and in all.
GAIN, LEAST_GAIN = 2e-8, 1e-3
#: Loadings that begin the search in log Λ, in units of their columns, at least.
LEAST = 1e-4
#: Shape of a random start.
RANDOM_SHAPE = 10.0
#: Longest and shortest learned noise variances, in e-folds beside the first.
REACH = 12.0


def at_random(n_components: int, data: Scatter, rng: np.random.Generator) -> Array:
    """Loadings (K, D) that explain about half of each column's variance."""
    unit = unit_of(data)
    return rng.gamma(1.0, 1.0, (n_components, len(unit))) * unit / np.sqrt(2.0 * n_components)


def unit_of(data: Scatter) -> Array:
    """Standard deviation of each column; of a constant one the mean of all."""
    spread = np.sqrt(data.variances)
    return np.where(spread > 0, spread, spread.mean() if spread.any() else 1.0)


def mode(
    starts: list[Array], log_noise: Array | None, data: Scatter, prior: Gamma, noise_of: Any, near_mode: bool = False
) -> tuple[Array, Array | None]:
    """The mode in log Λ, and in the noise's own coordinate where that is learned.

    In log Λ a loading near 0 hardly moves, and many belong there that did not begin there, or do not and did: so the
    long search is one in Λ >= 0 itself, without the prior's pole at 0, and ends in log Λ. One start in a few leads to
    an optimum in which a factor is missing.

    Parameters
    ----------
    starts : list of ndarray of shape (K, D)
        Where to begin.
    log_noise : ndarray of shape (P,) or None
        None: the noise is known.
    data : Scatter
    prior : Gamma
    noise_of : callable
        `log_noise` to noise variances (D,) and the pull-back of a gradient in them.
    near_mode : bool
        The start is the mode of about as many rows: what the short search leaves, passes find.
    """
    least = LEAST * unit_of(data)
    noise = np.zeros(0) if log_noise is None else log_noise
    search = _DensitySearch(starts[0].shape, noise, data, prior, noise_of)
    found = [(-np.inf, loadings, noise) for loadings in starts]
    if len(starts) > 1:
        for number, loadings in enumerate(starts):
            _, there, its_noise = search(np.maximum(loadings, least), noise, True, FIRST_LOG_EVALUATIONS)
            found[number] = search(there, its_noise, False, FIRST_EVALUATIONS)
    _, loadings, noise = found[int(np.argmax([value for value, *_ in found]))]
    if near_mode:
        _, loadings, noise = search(np.maximum(loadings, least), noise, True, LOG_EVALUATIONS)
        return loadings, None if log_noise is None else noise
    _, loadings, noise = search(loadings, noise, False, EVALUATIONS)
    value, loadings, noise = search(np.maximum(loadings, least), noise, True, LOG_EVALUATIONS)
    # Where a column's noise is nearly 0 the curvature that L-BFGS began with misleads it: begun anew it goes on.
    before = -np.inf
    while value - before > search.gain:
        before = value
        value, loadings, noise = search(loadings, noise, True, LOG_EVALUATIONS)
    return loadings, None if log_noise is None else noise


class _DensitySearch:
    """Searches for the largest density, in Λ or in log Λ, and in the noise's coordinate."""

    def __init__(self, shape: tuple[int, int], first: Array, data: Scatter, prior: Gamma, noise_of: Any) -> None:
        self.shape, self.size, self.data = shape, shape[0] * shape[1], data
        self.prior, self.noise_of, self.learned = prior, noise_of, len(first) > 0
        self.unit = max(data.n, 1.0) * shape[1]
        self.gain = max(GAIN, LEAST_GAIN / self.unit)
        self.ends: list[tuple[float | None, float | None]] = [(float(t) - REACH, float(t) + REACH) for t in first]

    def __call__(self, loadings: Array, noise: Array, in_logs: bool, limit: int) -> tuple[float, Array, Array]:
        """The value, loadings and the noise's coordinate after at most `limit` evaluations."""
        first = np.concatenate([(np.log(loadings) if in_logs else loadings).ravel(), noise])
        ends: list[tuple[float | None, float | None]] = [(None if in_logs else 0.0, None)] * self.size
        climbed = partial(self.climbed, in_logs=in_logs)
        with np.errstate(over="ignore", invalid="ignore"):  # a trial step may overflow, and is then cut
            best, value = ascend(climbed, first, ends + self.ends, lambda value: False, lambda value: self.gain, limit)
        found = best[: self.size].reshape(self.shape)
        return value, np.exp(found) if in_logs else found, best[self.size :]

    def climbed(self, at: Array, in_logs: bool) -> tuple[float, Array]:
        """Log density, nats per number of the data, and its slope."""
        own = at[: self.size].reshape(self.shape)
        L = np.exp(own) if in_logs else own
        noise, pulled = self.noise_of(at[self.size :])
        found = log_density(L, noise, self.data, self.learned)
        value, slope = found.value - np.sum(self.prior.rate * L), found.in_loadings - self.prior.rate
        if in_logs:
            value, slope = value + np.sum(self.prior.shape * own), L * slope + self.prior.shape
        parts = [slope.ravel(), pulled(found.in_noise)] if self.learned else [slope.ravel()]
        return float(value) / self.unit, np.concatenate(parts) / self.unit


def laplace(loadings: Array, noise: Array, data: Scatter, prior: Gamma) -> Gamma:
    """Gamma distributions with mean at the mode and the curvature in log Λ there."""
    shape = prior.shape + information(loadings, noise, data.freedom) * loadings**2
    return Gamma(shape, shape / loadings)


def spread(loadings: Array) -> Gamma:
    """Wide gamma distributions about given means."""
    return Gamma(np.full(loadings.shape, RANDOM_SHAPE), RANDOM_SHAPE / loadings)
