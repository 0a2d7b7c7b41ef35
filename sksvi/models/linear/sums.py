"""Sufficient statistics of rows with Gaussian noise: what all of them say at any q of the weights, from one look.

About a mean c of the weights, with residuals r = y - offset - Ac and weights of rows W, they are G = AᵀWA, b = AᵀWr and
rᵀWr. Under q = N(c + δ, S) the expected squares are

    E Σ w (y - f)² = rᵀWr - 2 bᵀδ + δᵀGδ + tr GS,

exact in every structure of G. Where they are a small share of what they were at the look, their digits are lost to
cancellation, and the rows are looked at anew.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sksvi.families.gaussian.structures import Structure
from sksvi.likelihoods.continuous import expected_from_squares

Array = np.ndarray

#: Share of the expected squares at the look below which they are not taken from the sums: four digits are lost there.
CANCELLED = 1e-4


@dataclass(frozen=True)
class GaussianSums:
    """Sums over rows about a mean of the weights.

    ``centre``, ``slope`` (P,): c and b. ``gram``: G, in the structure whose verbs are ``structure``. ``square``: rᵀWr.
    ``spread``: tr GS at the look. ``n``: weight of the rows.
    """

    centre: Array
    slope: Array
    gram: Any
    structure: Structure
    square: float
    spread: float
    n: float

    @classmethod
    def of(cls, likelihood: Any, block: Any, gradient: tuple[Array, Any], value: float, n: float) -> GaussianSums:
        """The sums from E log p of all rows at one block of weights, nats, and its gradient there."""
        noise, (slope, curvature) = likelihood.noise_variance, gradient
        gram = (-2.0 * noise) * curvature
        spread = block.structure.expected_quadratic(gram, np.zeros_like(block.mean), block)
        squares = -2.0 * noise * (value - expected_from_squares(likelihood, 0.0, n)[0])
        return cls(block.mean, noise * slope, gram, block.structure, squares - spread, spread, n)

    def at(self, model: Any, q: dict[str, Any]) -> tuple[dict[str, Any], float] | None:
        """Gradient per block and E log p at another q, nats; None where these need the rows."""
        likelihood, block = model.current_likelihood(q), q[model.main]
        if likelihood.noise_variance is None:  # another model of these rows
            return None
        verbs, noise, delta = self.structure, likelihood.noise_variance, block.mean - self.centre
        square = self.square - 2.0 * float(self.slope @ delta) + verbs.expected_quadratic(self.gram, delta, block)
        if not square > CANCELLED * (self.square + self.spread):
            return None
        weights = (self.slope - verbs.dot(self.gram, delta)) / noise, (-0.5 / noise) * self.gram
        gradient: dict[str, Any] = {model.main: weights}
        if "likelihood" in q:
            zero, mean_square = np.zeros(1), np.array([square / self.n])
            slope, hessian = likelihood.scales.expected(zero, zero, mean_square)
            gradient["likelihood"] = self.n * slope[:, 0], self.n * hessian[..., 0]
        return gradient, float(expected_from_squares(likelihood, square, self.n)[0])
