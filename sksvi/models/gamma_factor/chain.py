"""Draws of loadings and learned noise together, factors and means integrated out.

Each loading is drawn given all else, and each noise variance. Then factors are turned, two at a time:
Λ'_j = Λ_j cos t - Λ_k sin t, Λ'_k = Λ_j sin t + Λ_k cos t leaves ΛΛᵀ as it is. The data do not tell such loadings
apart, the prior hardly does, and Λ >= 0 ends the turn: by steps of one loading a chain would creep there.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment

from sksvi.models.base import Blocks
from sksvi.models.chains import ChainLength, ConditionalDraws, sliced, walk
from sksvi.models.gamma_factor.density import Scatter
from sksvi.models.gamma_factor.model import GammaFactors

Array = np.ndarray

#: What keeps the chain's random numbers apart from those of the fit.
CHAIN = 5
#: Least loading of a draw that is stored.
POSITIVE = np.finfo(np.float32).tiny
#: Sweeps before draws are stored and draws, every second one; as shares of them where all are much work.
BURN_IN, DRAWS, THIN, LEAST_SHARE = 200, 400, 2, 0.2
#: Multiplications of a chain, a few seconds of them, and of a draw of one loading.
WORK, OF_SLICE = 3e9, 300.0
#: Rows that inform the covariance, from which on noise has a posterior under a prior flat in its standard deviation.
LEAST_FREEDOM = 2.0


class LoadingPoint(NamedTuple):
    """One draw: loadings (K, D) and noise variances (D,)."""

    loadings: Array
    noise: Array


@dataclass(frozen=True)
class LoadingChain(ConditionalDraws[LoadingPoint]):
    """Conditional draws of loadings and learned noise that begin at q.

    Parameters
    ----------
    model : GammaFactors
    q : dict
    data : Scatter
        In the model's units, about the mean that the fit has.
    """

    model: GammaFactors
    q: Blocks
    data: Scatter

    @cached_property
    def _prior(self) -> Array:
        """Shape and rate that loadings have in common, (2,)."""
        prior = self.model.prior(self.q)["loadings"]
        return np.array([prior.shape.flat[0], prior.rate.flat[0]])

    @cached_property
    def _learned(self) -> int:
        """Noise variances that are drawn."""
        return self.model.noise_size if self.model.learns_noise and self.data.freedom >= LEAST_FREEDOM else 0

    @property
    def length(self) -> ChainLength:
        """Sweeps of a few seconds, or the fewest that say something."""
        K, D = self.model.shape
        work = K * D * (OF_SLICE + K**2 + D) * (BURN_IN + THIN * DRAWS)
        share = float(np.clip(WORK / work, LEAST_SHARE, 1.0))
        return ChainLength(int(share * BURN_IN), int(share * DRAWS), THIN)

    def begin(self, rng: np.random.Generator) -> LoadingPoint:
        """Loadings drawn from q, and the noise of the fit."""
        from sksvi.models.gamma_factor.chain_loops import LEAST

        own = self.q["loadings"]
        return LoadingPoint(np.maximum(rng.standard_gamma(own.shape) / own.rate, LEAST), self.model.noise_of(self.q))

    def sweep(self, point: LoadingPoint, rng: np.random.Generator, number: int) -> LoadingPoint:
        """Turns of factors, every loading and the noise of its column, and a noise that all columns share."""
        from sksvi.models.gamma_factor.chain_loops import WIDTH, entries, turns

        L, noise, S = point.loadings.copy(), point.noise.copy(), self.data.products
        turns(L, self._prior, int(rng.integers(2**62)))
        scaled = L / noise
        inverse, cross = np.linalg.inv(np.eye(len(L)) + scaled @ L.T), scaled @ S
        floor = self.model.noise_floor if self._learned > 1 else np.empty(0)
        widths, key = WIDTH / np.sqrt(self.q["loadings"].shape), int(rng.integers(2**62))
        entries(L, noise, floor, S, self.data.freedom, widths, self._prior, inverse, cross, cross @ scaled.T, key)
        return LoadingPoint(L, self._common_noise(L, noise, rng) if self._learned == 1 else noise)

    def _common_noise(self, L: Array, noise: Array, rng: np.random.Generator) -> Array:
        """A noise variance that all columns share, given the loadings."""
        from sksvi.models.gamma_factor.chain_loops import NOISE_POWER

        size, axes = np.linalg.eigh(L @ L.T)
        own, S = axes.T @ L, self.data.products
        explained, total, least = np.sum((own @ S) * own, axis=1), np.trace(S), np.log(self.model.noise_floor[0])

        def density(log_noise: float) -> float:
            if log_noise < least:
                return -np.inf
            variance = np.exp(log_noise)
            log_det = len(noise) * log_noise + np.log1p(size / variance).sum()
            trace = (total - np.sum(explained / (variance + size))) / variance
            return float(NOISE_POWER * log_noise - 0.5 * (self.data.freedom * log_det + trace))

        return np.full(len(noise), np.exp(sliced(density, float(np.log(noise[0])), rng)))


def draws_of(chain: LoadingChain, seed: int) -> tuple[Array, Array]:
    """Draws of loadings (S, K, D), each factor in the place of the one of q that it is most like, and of noise (S, D).

    Single precision.
    """
    length, mean = chain.length, chain.q["loadings"].mean
    loadings = np.empty((length.draws, *mean.shape), np.float32)
    noise = np.empty((length.draws, mean.shape[1]), np.float32)

    def store(number: int, point: LoadingPoint) -> None:
        _, order = linear_sum_assignment(-mean @ point.loadings.T)
        loadings[number], noise[number] = np.maximum(point.loadings[order], POSITIVE), point.noise

    walk(chain, length, np.random.default_rng([seed, CHAIN]), store)
    return loadings, noise
