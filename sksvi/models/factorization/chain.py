"""Conditional draws of a factorization: columns given the other side, means and precisions of priors, the likelihood.

A column given the other side is a generalized linear model. Its draw is one Newton step from where it is, with noise
(Gamerman 1997): exact where the likelihood is Gaussian, otherwise taken or not by Metropolis and Hastings. Precisions
are conjugate under a half-Cauchy prior on each factor's standard deviation, of a scale that falls with the number of
factors: those that the data do not need stay small. Parameters of the likelihood are drawn as columns are.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from sksvi._runtime import parallel
from sksvi.models.chains import ChainLength, ConditionalDraws, walk
from sksvi.models.factorization.chain_loops import gaussian_steps, latent_values
from sksvi.models.factorization.columns import SIDES, SideLayout, other_side
from sksvi.models.factorization.gaussian import FactorModel
from sksvi.models.factorization.loops import sampled_accumulate
from sksvi.models.factorization.ratings import Entries, Ratings
from sksvi.models.factorization.side_prior import SidePrior

Array = np.ndarray

#: Sweeps in which precisions stay at their start: columns first follow factors that the fit had shrunk away.
HELD = 5
#: Factors whose product has the scale of f a priori. Of more each has so much less that all together have about as
#: much; what is fitted with 3 of 3 factors, and with 20 for 3, covers from 0.86 to 0.93 (`benchmarks.truth.factors`).
FEW = 3.0
#: Longest step of a likelihood's unconstrained parameters, either way.
FARTHEST = 20.0


@dataclass(frozen=True)
class FactorPoint:
    """One draw: columns (P, F) by side, precisions (F,) and coefficients (p, F) of their priors, the likelihood."""

    columns: dict[str, Array]
    precision: dict[str, Array]
    coefficients: dict[str, Array]
    likelihood: Any


@dataclass(frozen=True)
class FactorChain(ConditionalDraws[FactorPoint]):
    """Conditional draws of a factorization that begin at q.

    Parameters
    ----------
    model : FactorModel
    data : Ratings
    q : dict
        Blocks of the fit, with a plate for every column of the data.
    learned : bool
        Whether the likelihood's parameters are drawn.
    threads : int
    """

    model: FactorModel
    data: Ratings
    q: dict[str, Any]
    learned: bool
    threads: int = 1

    @cached_property
    def prior_scales(self) -> Array:
        """Squared scales of the half-Cauchy priors of the coordinates' standard deviations, (F,)."""
        k, n_active = self.model.n_components, self.model.n_active
        share = np.minimum(1.0, FEW / np.where(np.arange(k) < n_active, n_active, k))
        return np.append(self.model.unit * share**2, self.model.first_variance()[k:])

    @cached_property
    def _chunks(self) -> dict[str, list[slice]]:
        return {side: self.model.layouts[side].chunks(self.data.sides[side]) for side in SIDES}

    def begin(self, rng: np.random.Generator) -> FactorPoint:
        """Columns drawn from q; factors that were shrunk away begin with the variance of a fit's start."""
        most, q = np.minimum(self.model.first_variance(), self.prior_scales), self.q
        columns = {side: q[side].sample(1, np.random.RandomState(rng.integers(2**31)))[0] for side in SIDES}
        precision = {side: np.minimum(np.exp(q[f"{side}_precision"].value), 1.0 / most) for side in SIDES}
        coefficients = {side: q[f"{side}_mean"].value for side in SIDES}
        return FactorPoint(columns, precision, coefficients, self.model.current_likelihood(q))

    def sweep(self, point: FactorPoint, rng: np.random.Generator, number: int) -> FactorPoint:
        """Columns and then the prior of each side, and the likelihood's parameters."""
        for side in SIDES:
            columns = self._columns(point, side, rng)
            point = replace(point, columns={**point.columns, side: columns})
            if self.model.learn_priors and number >= HELD:
                point = self._prior(point, side, rng)
        return replace(point, likelihood=self._likelihood(point, rng)) if self.learned else point

    def _columns(self, point: FactorPoint, side: str, rng: np.random.Generator) -> Array:
        """A draw of every column of a side given the other side."""
        layouts, entries, own = self.model.layouts, self.data.sides[side], point.columns[side]
        prior = self.model.priors[side]
        mean = 0.0 if prior.design is None else prior.design @ point.coefficients[side]
        conditionals = Conditionals(
            layouts[side],
            layouts[other_side(side)].embedded(point.columns[other_side(side)]),
            point.likelihood,
            self.model.offset,
            np.broadcast_to(mean, own.shape),
            point.precision[side],
        )
        noise, level = rng.standard_normal(own.shape), np.log(rng.random(len(own)))

        def one(part: slice) -> Array:
            return conditionals[part].moved(entries.of(part), own[part], noise[part], level[part])

        return np.concatenate(list(parallel.in_order(one, self._chunks[side], self.threads)))

    def _prior(self, point: FactorPoint, side: str, rng: np.random.Generator) -> FactorPoint:
        """Coefficients of a side's prior mean, then precisions."""
        prior, columns = self.model.priors[side], point.columns[side]
        coefficients, precision = point.coefficients[side], point.precision[side]
        if prior.design is not None:
            coefficients = _coefficients(prior, columns, precision, rng)
            columns = columns - prior.design @ coefficients
        squares = np.square(columns).sum(0) + prior.delta @ np.square(coefficients)
        n, k = len(columns) + prior.n_columns * prior.applies, self.model.n_components
        if not prior.by_coordinate:
            squares[:k], n[:k] = squares[:k].sum(), n[:k].sum()
        # Half-Cauchy numbers are mixtures of inverse gamma ones, which are conjugate (Makalic and Schmidt 2016).
        inverse = rng.gamma(1.0, 1.0 / (precision + 1.0 / self.prior_scales))
        drawn = rng.gamma(0.5 * (n + 1.0)) / (0.5 * squares + inverse)
        if not prior.by_coordinate:
            drawn[:k] = drawn[0]
        return replace(
            point, coefficients={**point.coefficients, side: coefficients}, precision={**point.precision, side: drawn}
        )

    def _likelihood(self, point: FactorPoint, rng: np.random.Generator) -> Any:
        """The likelihood after a Newton step with noise in its unconstrained parameters."""
        entries = self.data.sides["users"]
        own, other = (self.model.layouts[side].embedded(point.columns[side]) for side in SIDES)
        f = _latents(entries, own, other, self.model.offset)
        now = point.likelihood.unconstrained
        noise, level = rng.standard_normal((1, len(now))), np.log(rng.random())
        step, log_step, _, value = _parameter_step(point.likelihood, entries, f, noise, np.zeros((1, len(now))))
        if not np.all(np.abs(step) < FARTHEST):  # no maximum in the neighbourhood: no step is proposed from here
            return point.likelihood
        trial = point.likelihood.replace(now + step[0])
        _, _, log_back, trial_value = _parameter_step(trial, entries, f, noise, -step)
        return trial if level < trial_value - value + log_back[0] - log_step[0] else point.likelihood


@dataclass(frozen=True)
class Conditionals:
    """Conditional distributions of columns given the other side.

    Parameters
    ----------
    layout : SideLayout
    other : ndarray of shape (P', W)
        The other side's coordinates.
    likelihood : Likelihood
    offset : float
    mean : ndarray of shape (P, F)
    precision : ndarray of shape (F,)
        Of the columns' prior.
    """

    layout: SideLayout
    other: Array
    likelihood: Any
    offset: float
    mean: Array
    precision: Array

    def __getitem__(self, part: slice) -> Conditionals:
        return replace(self, mean=self.mean[part])

    @cached_property
    def _facing(self) -> Array:
        """The other side's coordinates that columns' own are multiplied with."""
        return np.ascontiguousarray(self.other[:, self.layout.free])

    def moved(self, entries: Entries, own: Array, noise: Array, level: Array) -> Array:
        """Columns after one step; `level`: log of uniform numbers, below which a step is taken."""
        step, log_step, _, value = self._step(entries, own, noise, np.zeros_like(own))
        trial = own + step
        if self.likelihood.noise_variance is not None:
            return trial
        _, _, log_back, trial_value = self._step(entries, trial, noise, -step)
        taken = level < trial_value - value + log_back - log_step
        return np.where(taken[:, None], trial, own)

    def updated(self, entries: Entries, own: Array, precision: Array, noise: Array) -> Array:
        """Draws of columns after more entries: Matheron's rule, of which each is a draw before them.

        precision (P, R): packed, of columns given the other side; noise (e,): standard normal. A linear step where the
        likelihood is not Gaussian.
        """
        f = _latents(entries, self.layout.embedded(own), self.other, self.offset)
        _, slope, curvature = self._sums(entries, f, own.shape, noise)
        zero = np.zeros(own.shape)
        return own + _gaussian(curvature + precision, np.zeros(own.shape[1]), slope, zero, zero)[0]

    def _sums(self, entries: Entries, f: Array, shape: tuple[int, ...], noise: Any = 0.0) -> tuple[Array, Array, Array]:
        """Log density of each column's entries (P,), its slope (P, F) and curvature (P, R), packed.

        noise (e,): standard normal numbers that entries' slopes have by their curvature.
        """
        derivatives = self.likelihood.derivatives(entries.y, f)
        value, first, second = (np.broadcast_to(part, f.shape) for part in derivatives)
        weight = 1.0 if entries.weight is None else entries.weight
        bend = weight * np.maximum(-second, 0.0)
        slope, curvature = np.zeros(shape), np.zeros((shape[0], shape[1] * (shape[1] + 1) // 2))
        sampled_accumulate(
            *(entries.starts, entries.other, weight * first + np.sqrt(bend) * noise, bend, self._facing),
            *(np.arange(shape[1]), True, slope, curvature),
        )
        return entries.summed(value), slope, curvature

    def _step(self, entries: Entries, own: Array, noise: Array, there: Array) -> tuple[Array, Array, Array, Array]:
        """A step, log densities of steps at it and `there`, and the log density of the columns, (P,)."""
        f = _latents(entries, self.layout.embedded(own), self.other, self.offset)
        with np.errstate(all="ignore"):  # a trial may be anywhere; where its density is not finite it is not taken
            value, slope, curvature = self._sums(entries, f, own.shape)
            gap = own - self.mean
            log_density = value - 0.5 * np.square(gap) @ self.precision
            return *_gaussian(curvature, self.precision, slope - self.precision * gap, noise, there), log_density


def _gaussian(
    curvature: Array, precision: Array, slope: Array, noise: Array, there: Array
) -> tuple[Array, Array, Array]:
    step, log_step, log_there = np.empty(slope.shape), np.empty(len(slope)), np.empty(len(slope))
    gaussian_steps(curvature, precision, slope, noise, there, step, log_step, log_there)
    return step, log_step, log_there


def _latents(entries: Entries, own: Array, other: Array, offset: float) -> Array:
    f = np.empty(len(entries))
    latent_values(entries.starts, entries.other, own, other, f)
    return f + offset


def _coefficients(prior: SidePrior, columns: Array, precision: Array, rng: np.random.Generator) -> Array:
    """A draw of the coefficients of a side's prior mean."""
    assert prior.design is not None
    root = np.linalg.cholesky(prior.spread)
    noise = root @ rng.standard_normal((prior.n_columns, len(precision))) / np.sqrt(precision)
    return np.where(prior.applies, prior.spread @ (prior.design.T @ columns) + noise, 0.0)


def _parameter_step(
    likelihood: Any, entries: Entries, f: Array, noise: Array, there: Array
) -> tuple[Array, Array, Array, float]:
    """A step of the likelihood's parameters, its log densities as `gaussian_steps` has them, and Σ log p."""
    with np.errstate(all="ignore"):
        moments = likelihood.scales.moments(entries.y, f)
        slope, bend = likelihood.scales.sums(entries.y, moments, entries.weight)
        rows, cols = np.tril_indices(len(slope))
        logs = np.broadcast_to(likelihood.derivatives(entries.y, f)[0], f.shape)
        value = float(logs.sum() if entries.weight is None else logs @ entries.weight)
        steps = _gaussian(-bend[rows, cols][None], np.zeros(len(slope)), slope[None], noise, there)
    return *steps, value


# ---- what is stored of a chain
def turned(columns: dict[str, Array], means: dict[str, Array], k: int) -> dict[str, Array]:
    """Columns whose first k coordinates are turned and scaled as close to the means as can be, f unchanged.

    u -> c R u, v -> R v / c, R orthogonal (Procrustes) and c such that both sides differ in size as the means do.
    """
    own, given = ([np.linalg.norm(part[side][:, :k]) for side in SIDES] for part in (columns, means))
    scale = np.sqrt(own[1] * given[0] / (own[0] * given[1])) if min(*own, *given) > 0 else 1.0
    scales = dict(zip(SIDES, (scale, 1.0 / scale), strict=True))
    left, _, right = np.linalg.svd(sum(scales[side] * columns[side][:, :k].T @ means[side][:, :k] for side in SIDES))
    return {
        side: np.hstack([scales[side] * columns[side][:, :k] @ (left @ right), columns[side][:, k:]]) for side in SIDES
    }


def draws_of(chain: FactorChain, length: ChainLength, sizes: dict[str, int], seed: int) -> dict[str, Array]:
    """Draws (P, S, F) of the first columns of each side, in q's coordinates, single precision."""
    means = {side: chain.q[side].mean for side in SIDES}
    out = {side: np.empty((sizes[side], length.draws, means[side].shape[1]), np.float32) for side in SIDES}

    def store(number: int, point: FactorPoint) -> None:
        columns = turned(point.columns, means, chain.model.n_components)
        for side in SIDES:
            out[side][:, number] = columns[side][: sizes[side]]

    walk(chain, length, np.random.default_rng([seed, CHAIN]), store)
    return out


#: What keeps the chain's random numbers apart from those of the fit.
CHAIN = 42
