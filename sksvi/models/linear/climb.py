"""Search for the mode of a linear model of many columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sksvi.algorithms.ascent import minimise
from sksvi.models.linear.cavity import Sketch

Array = np.ndarray

#: The least relative gain and slope that L-BFGS goes on for, in units of `tol`: the gain of so many rows, as the
#: standard error of a loss of more is smaller and that of fewer larger than what is left.
GAIN, SLOPE, ROWS = 0.2, 3.0, 10_000


@dataclass(frozen=True)
class Climb:
    """L-BFGS on weights in coordinates where the prior, and what rows say along their directions, are standard.

    With Z the rows along their directions V and the intercept, in units of the prior, and C² = (1 + Zᵀ diag(γ) Z)⁻¹,
    coordinates a have the weights (a + V (C - 1) Vᵀa) / √δ, the intercept among the directions.

    Parameters
    ----------
    fit : WideFit
    likelihood : Likelihood
    precision : float
        Of the prior, δ.
    sketch : Sketch
        Leading directions.
    mix, unmix : ndarray of shape (r + extra, r + extra)
        C - 1, and C⁻¹ - 1.
    unit : float
        Coordinates of the intercept for one of its own.
    start : ndarray of shape (D + extra, K)
        Weights.
    """

    fit: Any
    likelihood: Any
    precision: float
    sketch: Sketch
    mix: Array
    unmix: Array
    unit: float
    start: Array

    @classmethod
    def of(cls, fit: Any, likelihood: Any, precision: float, mean: Array) -> Climb:
        """The climb from weights (..., D + extra), in coordinates that suit the curvature there."""
        start = np.ascontiguousarray(np.atleast_2d(mean).T)
        gamma = -fit._terms(likelihood, fit.latents(start))[2].mean(1) * fit.weight
        sketch, extra = fit.sketch.leading, len(start) - fit.rows.shape[1]
        n, r = sketch.along.shape
        unit = float(np.sqrt(fit.model.intercept_precision + gamma.sum()))
        Z = np.concatenate([sketch.along / np.sqrt(precision), np.full((n, extra), 1.0 / unit)], axis=1)
        prior = np.append(np.ones(r), np.full(extra, fit.model.intercept_precision / unit**2))
        values, axes = np.linalg.eigh(np.diag(prior) + (Z * gamma[:, None]).T @ Z)
        mix, unmix = ((axes * values**power) @ axes.T - np.eye(r + extra) for power in (-0.5, 0.5))
        return cls(fit, likelihood, precision, sketch, mix, unmix, unit, start)

    def run(self, most: int, tol: float) -> tuple[Array, bool]:
        """The weights after `most` steps at most, and whether nothing is left to gain."""
        start, gain = self.coordinates(self.start), GAIN * tol * np.sqrt(self.fit.weight.sum() / ROWS)
        found, settled = minimise(self, start.ravel(), most, gain, SLOPE * tol)
        return self.weights(found.reshape(start.shape)), settled

    def weights(self, a: Array) -> Array:
        """Weights of coordinates, (D + extra, K)."""
        d, W = len(self.sketch.basis), self._added(a, self.mix @ self._along(a))
        W[:d] /= np.sqrt(self.precision)
        W[d:] /= self.unit
        return W

    def coordinates(self, W: Array) -> Array:
        """Coordinates of weights."""
        d, a = len(self.sketch.basis), np.array(W)
        a[:d] *= np.sqrt(self.precision)
        a[d:] *= self.unit
        return self._added(a, self.unmix @ self._along(a))

    def _along(self, a: Array) -> Array:
        """Products with the directions, and what belongs to the intercept, (r + extra, K)."""
        d = len(self.sketch.basis)
        return np.concatenate([self.sketch.basis.T @ a[:d], a[d:]])

    def _added(self, a: Array, more: Array) -> Array:
        """Coordinates with more along the directions and of the intercept."""
        (d, r), out = self.sketch.basis.shape, np.empty_like(a)
        np.matmul(self.sketch.basis, more[:r], out=out[:d])
        out[d:] = more[r:]
        out += a
        return out

    def __call__(self, flat: Array) -> tuple[float, Array]:
        """Minus the log posterior density of weights, but for a constant, and its slope in the coordinates.

        Weights are not formed: their latents and norm follow from those of the coordinates and of what is added.
        """
        fit, (d, r), scale = self.fit, self.sketch.basis.shape, self.precision**-0.5
        a = flat.reshape(self.start.shape)
        z = self._along(a)
        more = self.mix @ z
        intercept = (z[r:] + more[r:]) / self.unit
        f = fit.rows.dot(a[:d])
        f += self.sketch.along @ more[:r]
        f *= scale
        value, slope, _ = fit._terms(self.likelihood, fit.shifted(f, intercept))
        noise = self.likelihood.noise_variance
        if noise is not None:  # gains are a share of the loss, which is not to depend on the unit of y
            value = value + 0.5 * np.log(noise)
        slope *= -fit.weight[:, None]
        off = intercept - fit.model.intercept_mean
        square = np.vdot(a[:d], a[:d]) + np.vdot(more[:r], 2.0 * z[:r] + more[:r])
        loss = 0.5 * (square + fit.model.intercept_precision * np.vdot(off, off)) - fit.weight @ value
        out = np.empty_like(a)
        np.multiply(fit.rows.pull(slope), scale, out=out[:d])
        out[:d] += a[:d]
        out[d:] = (slope.sum(0) + fit.model.intercept_precision * off) / self.unit
        inside = np.concatenate([scale * (self.sketch.along.T @ slope) + z[:r] + more[:r], out[d:]])
        added = self.mix @ inside
        added[:r] += more[:r]
        return float(loss), self._added(out, added).ravel()
