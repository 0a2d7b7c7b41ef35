"""The gamma factor model (Knowles 2015; equations.md 9): y_n ~ N(mean, ΛΛᵀ + Ψ) with Λ_dk ~ Gamma, one block of them.

The rows' factors and, if there is one, their mean under a flat prior are integrated out, so that the data enter only
through their scatter and their number. E ξ(Λ) under q is taken over the points of `integrals.gamma_nodes`: it is smooth
in q, its gradient is exact, and steps can be judged. Where draws are asked for they are new in every step.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from sksvi.algorithms.rules import Newton, Rule
from sksvi.families import Gamma, Point
from sksvi.integrals.gamma_nodes import nodes, orders
from sksvi.models.base import Blocks, Gradient, Model, Rows
from sksvi.models.gamma_factor import start
from sksvi.models.gamma_factor.density import log_density, noise_information
from sksvi.models.gamma_factor.scatter import Scatter
from sksvi.models.traits import BoundTraits, Traits

Array = np.ndarray

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
    def begin(self, data: Scatter, rng: np.random.Generator) -> Blocks:
        """The mode with Laplace's widths, or random means and wide distributions."""
        data = self.about_mean(data)
        if self.loadings is None:
            number = 1 if self.init == "random" else start.STARTS
            starts = [start.at_random(self.shape[0], data, rng) for _ in range(number)]
        else:
            starts = [self.loadings]
        log_noise = None
        if self.learns_noise:
            variance = data.variances if self.noise_size > 1 else data.variances.mean(keepdims=True)
            log_noise = np.log(0.5 * np.where(variance > 0, variance, 1.0))
            log_noise = log_noise if self.log_noise is None else self.log_noise
        if self.init == "random":
            q = start.spread(starts[0])
        else:
            loadings, log_noise = start.mode(starts, log_noise, data, self._prior, self._noise_at, self.near_mode)
            q = start.laplace(loadings, self._noise_at(log_noise)[0], data, self._prior)
        return {"loadings": q} if log_noise is None else {"loadings": q, "noise": Point(log_noise)}

    def from_start(self, loadings: Array, noise: Array, near_mode: bool = False) -> GammaFactors:
        """The model whose search for the mode begins at loadings (K, D) and noise variances (D,).

        With `near_mode` it is a short search.
        """
        model = self.replaced(loadings=loadings, near_mode=near_mode)
        if not self.learns_noise:
            return model
        above = np.maximum(noise - self.noise_floor, np.finfo(float).tiny)
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
