"""Leave-one-out losses of rows given their latents without them, and what a likelihood learns from these."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtri, softmax

from sksvi.integrals.quadrature import hermite

Array = np.ndarray

#: Step in unconstrained parameters by which a curvature is found.
STEP = 1e-2
#: Nodes of one latent, and points, in pairs about the mean, of several.
NODES, POINTS = 16, 32


class LeftOut(NamedTuple):
    """Rows beside Gaussians of their latents that do not know them.

    y (n,): targets. mean, variance (n, K). weight (n,): how often a row counts.
    """

    y: Array
    mean: Array
    variance: Array
    weight: Array

    @property
    def nodes(self) -> tuple[Array, Array]:
        """Values of one latent (n, S), and their weights (S,)."""
        nodes, weights = points_of(1)
        return self.mean + np.sqrt(self.variance) * nodes[:, 0], weights

    @property
    def paired(self) -> Array:
        """Targets with an axis for the nodes of a latent, (n, 1)."""
        return self.y[:, None]


def points_of(k: int) -> tuple[Array, Array]:
    """Nodes (S, k) and weights of a rule for k independent standard normal variables, the same in every call."""
    if k == 1:
        nodes, weights = hermite(NODES)
        return nodes[:, None], weights
    rng, half = np.random.default_rng(0), POINTS // 2
    strata = ndtri((np.arange(half) + 0.5) / half)  # a Latin hypercube
    z = np.stack([rng.permutation(strata) for _ in range(k)], axis=1) / np.sqrt(np.mean(np.square(strata)))
    return np.concatenate([z, -z]), np.full(POINTS, 1.0 / POINTS)


def mode_losses(likelihood: Any, rows: LeftOut) -> Array:
    """Minus the log density of each row at the mean of its latents, (n,), nats."""
    f = rows.mean
    return np.asarray(-likelihood.log_prob(rows.y, f if f.shape[1] > 1 else f[:, 0]))


def averaged_losses(likelihood: Any, rows: LeftOut) -> Array:
    """Minus the log of each row's density averaged over its latents, (n,), nats."""
    mean, sd = rows.mean, np.sqrt(rows.variance)
    if likelihood.noise_variance is not None:
        return np.asarray(-likelihood.log_predictive(rows.y, mean[:, 0], rows.variance[:, 0]))
    total, k = np.full(len(mean), -np.inf), mean.shape[1]
    for z, weight in zip(*points_of(k), strict=True):
        f = mean + sd * z
        np.logaddexp(total, likelihood.log_prob(rows.y, f if k > 1 else f[:, 0]) + np.log(weight), out=total)
    return -total


def judging_losses(likelihood: Any, rows: LeftOut) -> Array:
    """Losses by which a scale is judged, (n,), nats.

    Labels, whose predictions may be tempered to any degree, are judged at the mode; what was learned about noise is
    judged as it was learned, averaged; other targets by the better of both.
    """
    if likelihood.learned:
        return averaged_losses(likelihood, rows)
    mode = mode_losses(likelihood, rows)
    if likelihood.traits.classifies:
        return mode
    averaged = averaged_losses(likelihood, rows)
    return averaged if rows.weight @ averaged < rows.weight @ mode else mode


def learned(likelihood: Any, rows: LeftOut, tied: bool = True) -> tuple[Any, float]:
    """The likelihood whose learned parameters the rows left out find most probable, and what variances become.

    `tied`: under a prior whose scale is a multiple of Gaussian noise the variances of latents are multiples of it too:
    those of `rows` are times the second number at the noise that is found, which minimises the loss in closed form.
    Else, and where other parameters are learned, variances stay.
    """
    if not likelihood.learned or not likelihood.scales.informed(rows.y):
        return likelihood, 1.0
    before = likelihood.noise_variance
    if before is None:
        return likelihood.replace(_best(likelihood, rows)), 1.0
    square, v = np.square(rows.y - rows.mean[:, 0]), rows.variance[:, 0]
    if tied:
        found = float(rows.weight @ (square / (1.0 + v / before)) / rows.weight.sum())
    else:
        found = _best_noise(square, v, rows.weight, likelihood.least)
    likelihood = likelihood.replace(np.log([max(found - likelihood.least, np.finfo(float).tiny)]))
    return likelihood, likelihood.noise_variance / before if tied else 1.0


def curvature(likelihood: Any, rows: LeftOut, tied: bool = True) -> Array | None:
    """Curvature (P, P) of the loss that `learned` minimises, where it did; None where nothing was learned.

    `tied`: variances of latents move with Gaussian noise.
    """
    if not likelihood.learned or not likelihood.scales.informed(rows.y):
        return None
    noise = likelihood.noise_variance if tied else None

    def loss(move: Array) -> float:
        own = likelihood.replace(likelihood.unconstrained + move)
        share = 1.0 if noise is None else own.noise_variance / noise
        prior = own.scales.prior()
        total = rows.weight @ averaged_losses(own, rows._replace(variance=share * rows.variance))
        return float(total) - (0.0 if prior is None else float(prior[0]))

    steps = STEP * np.eye(len(likelihood.unconstrained))
    pairs = [[loss(a + b) - loss(a - b) - loss(b - a) + loss(-a - b) for b in steps] for a in steps]
    return np.array(pairs) / (4.0 * STEP**2)


def _best_noise(square: Array, variance: Array, weight: Array, least: float) -> float:
    """Noise variance of the least averaged loss, for squared residuals and variances of latents that stay, (n,)."""
    from scipy.optimize import minimize_scalar

    def loss(log_noise: float) -> float:
        total = np.exp(log_noise) + variance
        return float(weight @ (np.log(total) + square / total))

    most = max(float(square.max(initial=0.0)), 2.0 * least)
    found = minimize_scalar(loss, bounds=(np.log(least), np.log(most)), method="bounded", options={"xatol": 1e-6})
    return float(np.exp(found.x))


def _best(likelihood: Any, rows: LeftOut) -> Array:
    """Unconstrained parameters of the least averaged loss, their own prior included, (P,)."""
    from scipy.optimize import minimize

    f, weights = rows.nodes
    y, logs, total = rows.paired, np.log(weights), rows.weight.sum()

    def loss(parameters: Array) -> tuple[float, Array]:
        own = likelihood.replace(parameters)
        terms = own.log_prob(y, f) + logs
        top = terms.max(axis=1)
        value = rows.weight @ (top + np.log(np.exp(terms - top[:, None]).sum(axis=1)))
        share = rows.weight[:, None] * softmax(terms, axis=1)
        slope = np.sum(own.d_parameters(y, f)[0] * share, axis=(1, 2))
        prior = own.scales.prior()
        if prior is not None:
            value, slope = value + prior[0], slope + prior[1]
        return -float(value) / total, -slope / total

    return np.asarray(minimize(loss, likelihood.unconstrained, jac=True, method="L-BFGS-B").x)
