"""The gamma factor model (Knowles 2015): y_n ~ N(mean, ΛΛᵀ + Ψ) with Λ_dk ~ Gamma, one block of them.

The rows' factors and, if there is one, their mean under a flat prior are integrated out, so that the data enter only
through their scatter and their number. E ξ(Λ) under q is taken over the points of `integrals.gamma_nodes`: it is smooth
in q, its gradient is exact, and steps can be judged. Where draws are asked for they are new in every step.

A fit starts at the mode with Laplace's approximation, or at random loadings. All loadings step side by side, each with
a curvature of its own alone, so that natural steps far from the optimum are short. The mode in log Λ is found by
L-BFGS, which knows how they correlate.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np

from sksvi.algorithms.ascent import ascend
from sksvi.algorithms.rules import Newton, Rule
from sksvi.families import Gamma, Point
from sksvi.integrals.gamma_nodes import nodes, orders
from sksvi.models.base import Blocks, Gradient, Model
from sksvi.models.data import Rows
from sksvi.models.gamma_factor.density import Scatter, information, log_density, noise_information
from sksvi.models.traits import BoundTraits, Traits

# ---- where a fit starts
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
    deviation = np.sqrt(data.variances)
    return np.where(deviation > 0, deviation, deviation.mean() if deviation.any() else 1.0)


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


# ---- the model
#: Points over which a step's expectation is taken, those of a bound that is reported, and most at a time.
POINTS, MANY_POINTS, AT_A_TIME = 32, 512, 64
#: Numbers among the points that are held at a time.
NUMBERS = 2**22


@dataclass
class ExpectedLogDensity:
    """E ξ as one number, and its gradients."""

    value: Array
    gradient: Gradient = field(default_factory=dict)
    repairs: ClassVar[int] = 0


class GammaFactors(Model):
    """Model of Gaussian rows with non-negative loadings.

    Parameters
    ----------
    n_components, n_features : int
    prior_shape, prior_rate : float
        Of every loading, in the units that the data come in.
    noise : ndarray of shape (D,), optional
        Known noise variances; None: learned.
    noise_size : int, default=1
        How many are learned: one for all columns, or D.
    noise_floor : ndarray of shape (D,), optional
        Least learned variances: where the factors explain a column altogether, the density has no upper bound.
    unit : ndarray of shape (D,), optional
        The user's units of one of the data's, for the bound.
    init : {"map", "random"}, default="map"
    loadings, log_noise : ndarray, optional
        Where the search for the mode begins; None: at random.
    near_mode : bool, default=False
        Whether these loadings are close to the mode.
    without_mean : bool, default=False
        Whether the columns' means are 0, though the data are about that of the rows.
    seed : int, default=0
        Of the order in which loadings run through points.
    """

    traits = Traits(bound=BoundTraits(additive=False), remedy="Standardise the columns, or learn the noise.")

    def __init__(
        self,
        n_components: int,
        n_features: int,
        *,
        prior_shape: float = 0.1,
        prior_rate: float = 1.0,
        noise: Array | None = None,
        noise_size: int = 1,
        noise_floor: Array | None = None,
        unit: Array | None = None,
        init: str = "map",
        loadings: Array | None = None,
        log_noise: Array | None = None,
        near_mode: bool = False,
        without_mean: bool = False,
        seed: int = 0,
    ) -> None:
        self.shape = (n_components, n_features)
        self.noise, self.noise_size = noise, noise_size
        self.noise_floor = np.zeros(n_features) if noise_floor is None else noise_floor
        self.log_jacobian = 0.0 if unit is None else float(np.log(unit).sum())
        self.traits = replace(type(self).traits, bound=BoundTraits(additive=False, log_unit=self.log_jacobian))
        self.init, self.loadings, self.log_noise, self.near_mode = init, loadings, log_noise, near_mode
        self.without_mean, self.seed = without_mean, seed
        self._prior = Gamma(np.full(self.shape, prior_shape), np.full(self.shape, prior_rate))

    @property
    def learns_noise(self) -> bool:
        """Whether the noise is a block."""
        return self.noise is None

    @property
    def hyper(self) -> dict[str, Rule]:
        """The noise along its expected curvature."""
        return {"noise": Newton()} if self.learns_noise else {}

    # ---- blocks
    def begin(self, data: Scatter, rng: np.random.Generator, threads: int = 1) -> Blocks:
        """The mode with Laplace's widths, or random means and wide distributions."""
        data = self.about_mean(data)
        if self.loadings is None:
            number = 1 if self.init == "random" else STARTS
            starts = [at_random(self.shape[0], data, rng) for _ in range(number)]
        else:
            starts = [self.loadings]
        log_noise = None
        if self.learns_noise:
            variance = data.variances if self.noise_size > 1 else data.variances.mean(keepdims=True)
            log_noise = np.log(0.5 * np.where(variance > 0, variance, 1.0))
            log_noise = log_noise if self.log_noise is None else self.log_noise
        if self.init == "random":
            q = spread(starts[0])
        else:
            loadings, log_noise = mode(starts, log_noise, data, self._prior, self._noise_at, self.near_mode)
            q = laplace(loadings, self._noise_at(log_noise)[0], data, self._prior)
        return {"loadings": q} if log_noise is None else {"loadings": q, "noise": Point(log_noise)}

    def from_start(self, loadings: Array, noise: Array, near_mode: bool = False) -> GammaFactors:
        """The model whose search for the mode begins at loadings (K, D) and noise variances (D,).

        With `near_mode` it is a short search. Noise at its floor begins beside it, where the density has a slope.
        """
        model = self.replaced(loadings=loadings, near_mode=near_mode)
        if not self.learns_noise:
            return model
        above = np.maximum(noise - self.noise_floor, np.maximum(self.noise_floor, np.finfo(float).tiny))
        return model.replaced(log_noise=np.log(above if self.noise_size > 1 else above[:1]))

    def prior(self, q: Blocks) -> Blocks:
        """Gamma of each loading."""
        return {"loadings": self._prior}

    def noise_of(self, q: Blocks) -> Array:
        """Noise variances (D,)."""
        return self._noise_at(q["noise"].value if self.learns_noise else None)[0]

    def _noise_at(self, log_noise: Array | None) -> tuple[Array, Any]:
        """Noise variances (D,), and what pulls a gradient in them back to the noise's own coordinates."""
        if self.noise is not None:
            return self.noise, None
        assert log_noise is not None
        above = np.broadcast_to(np.exp(log_noise), self.shape[1:])

        def pulled(slope: Array) -> Array:
            return self.shared(above * slope)

        return self.noise_floor + above, pulled

    def shared(self, by_column: Array) -> Array:
        """Sums over the columns that share a noise variance, the last axis."""
        return by_column if self.noise_size > 1 else by_column.sum(-1, keepdims=True)

    # ---- what the data say
    def chunks(self, rows: Rows, data: Scatter) -> list[Any]:
        """The scatter is one chunk."""
        return [rows]

    def batch(self, data: Scatter, rows: Any, start: Any = None) -> Scatter:
        """The scatter."""
        return self.about_mean(data)

    def about_mean(self, data: Scatter) -> Scatter:
        """The scatter about the columns' mean in this model: that of the rows, or 0 with `without_mean`."""
        return data.about_zero() if self.without_mean else data

    def away(self, q: Blocks, data: Scatter) -> float:
        """N ȳᵀC⁻¹ȳ per column, how far the rows' mean is from 0: about 1 where that of the columns is 0."""
        own = q["loadings"]
        covariance = own.mean.T @ own.mean + np.diag(own.variance.sum(0) + self.noise_of(q))
        return data.n * float(data.mean @ np.linalg.solve(covariance, data.mean)) / len(data.mean)

    def terms(self, view: Blocks, batch: Scatter, expect: Any, rng: Any) -> ExpectedLogDensity:
        """E ξ and its gradient in the loadings' moments: over points that stay, or over draws that are new."""
        q, noise = view["loadings"], self.noise_of(view)
        if expect.exact:
            loadings, moved = self.points(q, self._order)
            found = log_density(loadings, noise, batch, self.learns_noise)
            in_shape = np.mean(found.in_loadings * moved, axis=0)
            in_rate = -np.mean(found.in_loadings * loadings, axis=0) / q.rate
            gradient: Gradient = {"loadings": q.of_parameters(in_shape, in_rate)}
        else:
            draws = q.draws(expect.n, rng)
            found = log_density(draws.value, noise, batch, self.learns_noise)
            gradient = {"loadings": q.of_draws(draws, found.in_loadings)}
        if self.learns_noise:
            gradient["noise"] = self._noise_gradient(view, found.in_noise, batch)
        return ExpectedLogDensity(np.atleast_1d(found.value.mean() - batch.freedom * self.log_jacobian), gradient)

    @cached_property
    def _order(self) -> Array:
        """In which order loadings run through the points of steps, (S, K D)."""
        return orders(POINTS, self.shape[0] * self.shape[1], self.seed)

    @staticmethod
    def points(q: Gamma, order: Array) -> tuple[Array, Array]:
        """Points (S, K, D) that stand for q, and their derivatives in its shape."""
        values, slopes = (part.reshape(-1, *q.shape.shape) for part in nodes(q.shape.ravel(), order))
        return values / q.rate, slopes / q.rate

    def _noise_gradient(self, q: Blocks, slopes: Any, data: Scatter) -> tuple[Array, Array]:
        """Gradient and expected Hessian in the noise's own coordinates."""
        noise, pulled = self._noise_at(q["noise"].value)
        above = noise - self.noise_floor
        matrix = noise_information(q["loadings"].mean, noise, data.freedom) * np.multiply.outer(above, above)
        matrix = matrix if self.noise_size > 1 else matrix.sum(keepdims=True)
        return pulled(slopes.mean(0)), -matrix

    def pull_back(self, terms: ExpectedLogDensity, batch: Scatter) -> Gradient:
        """The gradient: there is one chunk."""
        return terms.gradient

    # ---- what is asked of a fit
    def expected_density(self, q: Blocks, data: Scatter) -> float:
        """E ξ over many points in an order that no step has seen, nats."""
        noise, total, n_done, data = self.noise_of(q), 0.0, 0, self.about_mean(data)
        size = max(1, min(AT_A_TIME, NUMBERS // q["loadings"].shape.size))
        points = self.points(q["loadings"], orders(MANY_POINTS, q["loadings"].shape.size, self.seed + 1))[0]
        while n_done < MANY_POINTS:
            part = points[n_done : n_done + size]
            total, n_done = total + float(log_density(part, noise, data).value.sum()), n_done + len(part)
        return total / MANY_POINTS - data.freedom * self.log_jacobian
