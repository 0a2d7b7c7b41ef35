"""Titsias's bound at its best q for Gaussian noise of one variance, from sums of k kᵀ and k y over rows.

With L Lᵀ = K_ww, B = L⁻¹ (Σ k kᵀ) L⁻ᵀ, P = I + B / noise and c = L⁻¹ (Σ k y) / noise the best q(v) is N(P⁻¹ c, P⁻¹).
No row is whitened, which saves a third of a look at many rows, and is exact enough where K_ww is well-conditioned.

M. K. Titsias, Variational learning of inducing variables in sparse Gaussian processes, AISTATS 2009, equation 9.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import blas

from sksvi.families import Gaussian
from sksvi.models.gp import kernels
from sksvi.models.gp.bounds import LOG_2PI

Array = np.ndarray

#: Rounding of B / noise up to which rows are not whitened, and of how many: of few whitening costs little.
ROUNDING, LEAST_ROWS = 1e-4, 2560


def by_sums(model: Any, q: dict[str, Any], data: Any) -> bool:
    """Whether sums of rows that are not whitened have all that the bound is of, and leave digits enough."""
    if model.likelihood.noise_variance is None or model.bound != "simple" or not model.full or len(data) < LEAST_ROWS:
        return False
    geometry, noise = model.geometry(q), model.current_likelihood(q).noise_variance
    variance = np.diagonal(geometry.K)
    least = float(np.min(np.square(np.diagonal(geometry.L)) / variance))
    return bool(np.finfo(float).eps * data.total_weight * float(np.mean(variance)) < ROUNDING * noise * least)


def at_best(value: float, linear: Array, precision: Array) -> tuple[float, Gaussian]:
    """Bound at the best q(v), and that, (M,), from its natural parameters and the bound's part of the rows alone."""
    best = Gaussian(np.zeros_like(linear), precision)
    mean = best.solve(linear)
    bound = value + 0.5 * float(linear @ mean) - 0.5 * best.log_det_precision()
    return bound, Gaussian(mean, precision, best.root)


def summed(model: Any, q: dict[str, Any], over_rows: Any) -> tuple[float, Array, Array, float, float]:
    """The bound's part of the rows alone, c, B, Σ y² + Σ d, and the weight; `over_rows` sums a function of rows."""
    noise, V = model.current_likelihood(q).noise_variance, model.geometry(q).inverse
    gram, linear, open_, squares, weight = over_rows(_sums, q)
    B = V @ gram @ V.T
    left = squares + open_ - float(np.trace(B))
    return -0.5 * (weight * (LOG_2PI + np.log(noise)) + left / noise), V @ linear / noise, B, left, weight


def collapsed(model: Any, q: dict[str, Any], over_rows: Any) -> tuple[float, dict[str, Array], Gaussian]:
    """Bound, nats, its gradient in hyperparameters, and the best q(v), (M,); `over_rows` sums a function of rows."""
    geometry, likelihood = model.geometry(q), model.current_likelihood(q)
    noise, V = likelihood.noise_variance, geometry.inverse
    value, c, B, left, weight = summed(model, q, over_rows)
    one = np.eye(len(B))
    value, best = at_best(value, c, one + B / noise)
    mean, cov = best.mean, best.cov
    slope = 0.5 * (one - cov - np.outer(mean, mean)) / noise  # in B
    theta, inputs = over_rows(_pulled, q, 2.0 * V.T @ slope @ V, V.T @ mean / noise)
    more, moved = geometry.pull_factor(2.0 * slope @ B + np.outer(mean, c), model.learn_inputs)
    gradient = {"kernel": theta + more}
    if model.learn_inputs:
        gradient["inputs"] = (inputs + moved) * model.scale
    if "likelihood" in q:
        left += float(np.vdot(cov, B)) + float(mean @ B @ mean)
        in_noise = 0.5 * left / noise**2 - (0.5 * weight + float(c @ mean)) / noise
        gradient["likelihood"] = np.array([in_noise * (noise - likelihood.least)])
    return value, gradient, best


def _sums(model: Any, data: Any, q: dict[str, Any], rows: Any) -> tuple[Any, ...]:
    """Σ k kᵀ, Σ k y, Σ k(x, x), Σ y² and the number of rows, weighted."""
    batch, geometry = model.batch(data, rows), model.geometry(q)
    part, K = batch.data, batch.cross(geometry)
    weight = np.ones(len(part)) if part.weight is None else part.weight
    A = K if part.weight is None else K * np.sqrt(weight)[:, None]
    y, variance = weight * part.centred, kernels.diagonal(geometry.kernel, part.X)
    return A.T @ A, y @ K, float(weight @ variance), float(y @ part.centred), float(weight.sum())


def _pulled(model: Any, data: Any, q: dict[str, Any], slope: Array, along: Array, rows: Any) -> tuple[Array, Any]:
    """Derivatives in theta and Z through the rows, given those in Σ k kᵀ, twice, and in Σ k y."""
    batch, geometry = model.batch(data, rows), model.geometry(q)
    part, K = batch.data, batch.cross(geometry)
    slopes = np.outer(part.centred, along)
    blas.dgemm(1.0, slope.T, K.T, beta=1.0, c=slopes.T, overwrite_c=1)  # in place: K @ slope comes to it
    delta = np.full(len(part), -0.5 / model.current_likelihood(q).noise_variance)
    if part.weight is not None:
        slopes, delta = slopes * part.weight[:, None], delta * part.weight
    return geometry.pull_rows(part.X, K, slopes, delta, model.learn_inputs)
