"""Linear response: how loadings vary together, from how the bound curves where independent ones maximise it.

Giordano, Broderick and Jordan (2018): the covariance of loadings is G J⁻¹ Gᵀ, with J the negative Hessian of the bound
in q's parameters and G the derivative of the means in them. Here those are the log means and the log shapes of q, and
the logarithms of learned noise. Each loading's q has the curvature of that loading alone; what loadings share and trade
with each other stands beside the diagonal of J.

How far two factors turn into each other is no matter of curvature. Those that may turn have draws: from linear
response, and then turned.

A turn is Λ'_j = Λ_j cos t - Λ_k sin t, Λ'_k = Λ_j sin t + Λ_k cos t, which leaves ΛΛᵀ as it is. The data do not tell
such loadings apart, the prior hardly does, and Λ >= 0 ends the turn: how far it goes is not said by any curvature.
Along a turn the posterior is a density of one number on a known interval, from which slices are drawn (Neal 2003): a
step that leaves the posterior as it is, so that draws from near it come nearer.
"""

from __future__ import annotations

from itertools import combinations
from typing import NamedTuple

import numpy as np
from scipy.special import gammaincinv, ndtr, polygamma

from sksvi.families import Gamma
from sksvi.families.gamma import excess
from sksvi.integrals.gamma_nodes import orders
from sksvi.models.base import Blocks
from sksvi.models.gamma_factor.density import Scatter, second_derivatives
from sksvi.models.gamma_factor.model import MANY_POINTS, POINTS, GammaFactors

# ---- turns of two factors
Array = np.ndarray
Pairs = list[tuple[int, int]]

#: Sweeps over all pairs, and most trial points of a slice: each shrinks it by about half.
SWEEPS, MAX_SHRINKS = 10, 60
#: From end to end: most of a normal distribution.
REACH = 4.0
_RIGHT = 0.5 * np.pi
_LEAST = np.finfo(float).tiny


def free(q: Gamma) -> Pairs:
    """Pairs of factors that may turn further than `REACH` times the spread of independent loadings."""
    found = []
    for j, k in combinations(range(len(q.mean)), 2):
        angles = np.arctan2(q.mean[k], q.mean[j])
        reach = angles.min() + _RIGHT - angles.max()
        ratio = np.square(q.mean[k] / q.mean[j])
        curvature = float(np.sum(q.shape[j] * ratio + q.shape[k] / ratio))
        if reach * np.sqrt(curvature) > REACH:
            found.append((j, k))
    return found


def turned(draws: Array, pairs: Pairs, prior: Gamma, rng: np.random.Generator) -> Array:
    """Draws (S, K, D) after turns of all pairs."""
    draws = draws.copy()
    for _ in range(SWEEPS):
        for j, k in pairs:
            ends = [(prior.shape[i] - 1.0, prior.rate[i]) for i in (j, k)]
            draws[:, j], draws[:, k] = _turn(draws[:, j], draws[:, k], ends, rng)
    return draws


def _turn(one: Array, other: Array, prior: list[tuple[Array, Array]], rng: np.random.Generator) -> tuple[Array, Array]:
    """Two factors (S, D) each, turned by a draw from the angles' slices."""
    radius, angle = np.hypot(one, other), np.arctan2(other, one)

    def at(turn: Array, which: Array) -> tuple[Array, Array]:
        moved = angle[which] + turn[:, None]
        return (
            np.maximum(radius[which] * np.cos(moved), _LEAST),
            np.maximum(radius[which] * np.sin(moved), _LEAST),
        )

    def density(turn: Array, which: Array) -> Array:
        both = zip(prior, at(turn, which), strict=True)
        return np.sum([(power * np.log(x) - rate * x).sum(1) for (power, rate), x in both], axis=0)

    low, high, left = -angle.min(1), _RIGHT - angle.max(1), np.arange(len(angle))
    turn = np.zeros(len(angle))
    level = density(turn, left) + np.log(rng.uniform(size=len(angle)))
    for _ in range(MAX_SHRINKS):
        tried = low[left] + (high[left] - low[left]) * rng.uniform(size=len(left))
        inside = density(tried, left) >= level[left]
        turn[left[inside]] = tried[inside]
        left, tried = left[~inside], tried[~inside]
        if not left.size:
            break
        below = tried < 0
        low[left[below]], high[left[~below]] = tried[below], tried[~below]
    return at(turn, np.arange(len(angle)))


# ---- linear response
#: Entries of Hessians over all points: fewer points for more loadings, at least `POINTS`.
ENTRIES = 2**25
#: Draws of loadings whose factors turn.
DRAWS = 2000
#: Step in the logarithm of a shape over which slopes of points are compared.
STEP = 1e-3
_STEPS = (np.exp(-STEP), np.exp(STEP))
#: Least curvature of a direction, as a share of what it is for loadings one by one: spreads are at most ten times q's.
#: Where loadings trade freely (factors that almost turn into each other) it is small, and where a loading may as well
#: be 0 a fit that ended at its tolerance may have none.
LEAST_CURVATURE = 0.01
#: Of the logarithm of a noise variance that has run to its floor, which nothing informs any more.
LEAST_NOISE_CURVATURE = 1e-3


class Response(NamedTuple):
    """Posterior by linear response, in units of the model.

    Parameters
    ----------
    loadings : Gamma
        q's means, with the spreads of loadings that vary together.
    noise_information : ndarray of shape (P, P), or None
        Precision of the noise's coordinates, loadings not held.
    turned : ndarray of shape (S, K, D), or None
        Draws of the loadings; None: no factors turn.
    turning : ndarray of shape (K,)
        Whether each factor turns.
    """

    loadings: Gamma
    noise_information: Array | None
    turned: Array | None
    turning: Array


def respond(model: GammaFactors, q: Blocks, data: Scatter) -> Response:
    """Linear response of a fit.

    Parameters
    ----------
    model : GammaFactors
    q : dict
        Blocks of the fit.
    data : Scatter
        In the model's units.
    """
    own, size = q["loadings"], model.shape[0] * model.shape[1]
    curvature = _bound_curvature(model, q, data)
    of_noise = np.maximum(np.diag(curvature)[2 * size :], LEAST_NOISE_CURVATURE)
    alone = np.concatenate([_alone(own), of_noise])
    root = _root(curvature, alone)
    inverse = root @ root.T
    # Relative to its mean no loading is wider than a priori: a gamma distribution of less shape would be all but 0.
    spread = np.diag(inverse)[:size].reshape(own.shape.shape)
    shape = np.clip(1.0 / spread, np.minimum(model.prior(q)["loadings"].shape, own.shape), own.shape)
    noise = np.linalg.inv(inverse[2 * size :, 2 * size :]) if model.learns_noise else None
    pairs = free(own)
    turning = np.isin(np.arange(len(own.mean)), np.array(pairs))
    correlated = Gamma(shape, shape / own.mean)
    found = _turned(correlated, root[:size], pairs, model.prior(q)["loadings"], model.seed) if pairs else None
    return Response(correlated, noise, found, turning)


def _turned(own: Gamma, root: Array, pairs: Pairs, prior: Gamma, seed: int) -> Array:
    """Draws of the loadings (S, K, D): correlated as `root` says, each with its own distribution, and turned."""
    rng = np.random.default_rng([seed, 5])
    normal = rng.standard_normal((DRAWS, root.shape[1])) @ (root / np.linalg.norm(root, axis=1)[:, None]).T
    draws = gammaincinv(own.shape, ndtr(normal.reshape(-1, *own.shape.shape))) / own.rate
    return turned(draws, pairs, prior, rng)


def _alone(q: Gamma) -> Array:
    """Fisher information of log means and log shapes: the curvature that q has at its optimum, each loading alone."""
    a = q.shape.ravel()
    return np.concatenate([a, a * excess(a, polygamma(1, a))])


def _root(curvature: Array, alone: Array) -> Array:
    """A root of the curvature's inverse, lifted to a least share of what is beside it."""
    unit = 1.0 / np.sqrt(alone)
    values, vectors = np.linalg.eigh(curvature * np.multiply.outer(unit, unit))
    return unit[:, None] * vectors / np.sqrt(np.maximum(values, LEAST_CURVATURE))


def _bound_curvature(model: GammaFactors, q: Blocks, data: Scatter) -> Array:
    """Negative Hessian of the bound in log means, log shapes (K D each) and the noise's coordinates."""
    own, noise = q["loadings"], model.noise_of(q)
    size, above = own.shape.size, noise - model.noise_floor
    number = int(np.clip(ENTRIES // size**2, POINTS, MANY_POINTS))
    order = orders(number, size, model.seed + 4)
    values, paths = _paths(model, own, order)
    ends = [_paths(model, Gamma(own.shape * factor, own.rate * factor), order)[1] for factor in _STEPS]
    bends = (ends[1] - ends[0]) / (2.0 * STEP)  # of the second path along the log shape; the mean bends nothing else
    loadings, mixed, of_noise = (
        np.zeros((2, size, 2, size)),
        np.zeros((2, size, len(noise))),
        np.zeros((len(noise),) * 2),
    )
    bent = np.zeros((2, 2, size))
    for x, path, bend in zip(values, paths, bends, strict=True):
        found = second_derivatives(x, noise, data)
        both = np.stack([x.ravel(), path.ravel()])
        loadings += both[:, :, None, None] * found.loadings[None, :, None, :] * both
        mixed += both[:, :, None] * (found.mixed * above)
        of_noise += found.noise * np.multiply.outer(above, above) + np.diag(found.in_noise * above)
        bent += found.slope.ravel() * np.array([[both[0], both[1]], [both[1], bend.ravel()]])
    divergence = _divergence(own, model.prior(q)["loadings"])
    at = np.arange(size)
    for one in (0, 1):
        for other in (0, 1):
            loadings[one, at, other, at] += bent[one, other] - number * divergence[one, other]
    full = loadings.reshape(2 * size, 2 * size)
    if model.learns_noise:
        mixed, of_noise = model.shared(mixed), model.shared(model.shared(of_noise).T)
        mixed = mixed.reshape(2 * size, -1)
        full = np.block([[full, mixed], [mixed.T, of_noise]])
    return -0.5 / number * (full + full.T)


def _paths(model: GammaFactors, own: Gamma, order: Array) -> tuple[Array, Array]:
    """Points (S, K, D), which are their derivatives in the log mean, and those in the log shape at the same mean."""
    values, moved = model.points(own, order)
    return values, own.shape * moved - values


def _divergence(own: Gamma, prior: Gamma) -> Array:
    """Hessian of KL(q | prior) in log mean and log shape, (2, 2, K D)."""
    a, extra = own.shape, own.shape - prior.shape
    first, second = polygamma(1, a), polygamma(2, a)
    in_shape = a * (extra * first - 1.0) + a**2 * (first + extra * second)
    nothing = np.zeros(a.size)
    return np.array([[(prior.rate * own.mean).ravel(), nothing], [nothing, in_shape.ravel()]])
