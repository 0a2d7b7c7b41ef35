"""Softmax under Gaussian logits: independent ones by one-dimensional integrals, joint ones by quasi-Monte Carlo.

With independent standard Gumbel g_j the largest X_j = f_j + g_j has P(argmax = c | f) = softmax(f)_c and
E[max | f] = log sum exp(f) + 0.5772..., so under f_j ~ N(m_j, v_j), with F_j the distribution function of X_j and
r_j = F_j' / F_j,

    E p_c = int r_c prod F,   d E p_c / d m_c = E p_c (1 - p_c) = int r_c (sum_j r_j - r_c) prod F,
    E log sum exp(f) = int t (sum_j r_j) prod F - 0.5772...

K one-dimensional functions replace a K-dimensional integral. Absolute error below 1e-6 for every m and v; that of
E log sum exp(f) is below 1e-5 largest standard deviations where these are more than 1
(`test_two_classes_are_one_integral`).
"""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Any

import numpy as np
from scipy.special import logsumexp, ndtr, ndtri

from sksvi.integrals.quadrature import hermite, standard_deviation, trapezoid

Array = Any

EULER_GAMMA = 0.5772156649015329
_SQRT_2PI = 2.5066282746310002
# inner rule of F_j by the sd of f_j: Gauss-Hermite nodes, trapezoidal step in sd, Gauss nodes in the Gumbel variable
_HERMITE = {1e-8: 1, 0.09: 3, 0.155: 4, 0.21: 5, 0.27: 6, 0.36: 8, 0.43: 10, 0.5: 12, 0.61: 16}
_TRAPEZOID = {1.0: 0.55, 1.3: 0.46, 1.6: 0.375, 2.0: 0.3}
_GUMBEL = {3.0: 16, np.inf: 12}
_EDGES = np.array([*_HERMITE, *_TRAPEZOID, *_GUMBEL])
_N_IN_F = len(_HERMITE) + len(_TRAPEZOID)
_TAIL_IN_SD, _LEFT, _RIGHT, _BEND = 5.5, 3.1, 17.0, 2.0
_STEP = 0.42
_LEAST_NODES, _GROWTH = 16, 1.15
_CHUNK = 16384


def race(m: Array, v: Array) -> tuple[Array, Array, Array]:
    """E log sum exp(f), E p and E p(1 - p), shapes (n,), (n, K), (n, K), under independent f_j ~ N(m_j, v_j)."""
    m, sd = np.asarray(m, dtype=np.float64), standard_deviation(np.asarray(v, dtype=np.float64))
    n, k = m.shape
    shift = m.max(axis=1)
    m = (m - shift[:, None]).T.copy()
    sd = sd.T.copy()
    low = (m - _TAIL_IN_SD * sd).max(axis=0) - _LEFT
    bend = (m + _TAIL_IN_SD * sd).max(axis=0) + _BEND
    high = bend + np.log(_RIGHT)
    step = _STEP * np.maximum(1.0, sd.min(axis=0))
    codes = np.ceil(np.log(np.maximum((high - low) / step / _LEAST_NODES, 1.0)) / np.log(_GROWTH)).astype(np.intp)
    inner = np.searchsorted(_EDGES, sd.max(axis=0))
    log_sum, p, q = np.empty(n), np.empty((k, n)), np.empty((k, n))
    for key in np.unique(codes * len(_EDGES) + inner):
        code, rule = divmod(int(key), len(_EDGES))
        rows = np.flatnonzero((codes == code) & (inner == rule))
        size = int(np.ceil(_LEAST_NODES * _GROWTH**code)) + 1
        block = max(2, _CHUNK // (size * k))
        for start in range(0, len(rows), block):
            at = rows[start : start + block]
            if len(at) == 1:
                at = np.repeat(at, 2)  # a single column would be summed in another order
            log_sum[at], p[:, at], q[:, at] = _block(m[:, at], sd[:, at], low[at], high[at], bend[at], size, rule)
    return log_sum + shift, p.T, q.T


def _block(
    m: Array, sd: Array, low: Array, high: Array, bend: Array, size: int, rule: int
) -> tuple[Array, Array, Array]:
    """The three integrals of rows that share the number of nodes and the inner rule; m and sd of shape (K, rows)."""
    x = low + (high - low) * np.linspace(0.0, 1.0, size)[:, None]
    # exp(x - bend) stretches the exponential right tail of the largest X, which saves half of the nodes
    stretch = np.exp(x - bend)
    t = x + stretch
    gap = t[:, None, :] - m
    cdf, density = _distribution(gap.reshape(size, -1), sd.reshape(-1), rule)
    shape = gap.shape
    cdf, density = cdf.reshape(shape), density.reshape(shape)
    hazard = density / np.maximum(cdf, 1e-300)
    product, total = cdf[:, 0].copy(), hazard[:, 0].copy()
    for j in range(1, shape[1]):
        product *= cdf[:, j]
        total += hazard[:, j]
    product *= 1.0 + stretch
    mass = _sum(total * product)
    weighted = hazard * product[:, None]
    p = _sum(weighted)
    q = _sum(weighted * (total[:, None] - hazard))
    return _sum(t * total * product) / mass - EULER_GAMMA, p / mass, q * ((high - low) / (size - 1))


def _sum(values: Array) -> Array:
    """Sum over the first axis, in order."""
    return np.einsum("t...->...", values)


def _distribution(gap: Array, sd: Array, rule: int) -> tuple[Array, Array]:
    """Distribution function and density of N(0, sd^2) + Gumbel at gap, (nodes, columns); `rule` serves the widest."""
    if rule < _N_IN_F:
        return _over_latent(gap, sd, rule)
    # the rule for a wide class does not serve a narrow one
    codes = np.asarray(np.searchsorted(_EDGES, sd))
    cdf, density = np.empty_like(gap), np.empty_like(gap)
    for code in np.unique(codes):
        at = np.flatnonzero(codes == code)
        one_rule = _over_latent if code < _N_IN_F else _over_gumbel
        cdf[:, at], density[:, at] = one_rule(gap[:, at], sd[at], int(code))
    return cdf, density


def _over_latent(gap: Array, sd: Array, rule: int) -> tuple[Array, Array]:
    """E G(gap - f) and E G'(gap - f) under f ~ N(0, sd^2), G the Gumbel distribution function."""
    cdf, density = np.zeros_like(gap), np.zeros_like(gap)
    if rule < len(_HERMITE):
        nodes, weights = hermite(list(_HERMITE.values())[rule])
    else:
        nodes, weights = trapezoid(list(_TRAPEZOID.values())[rule - len(_HERMITE)])
    decay = -np.exp(np.minimum(-gap, 300.0))
    for z, w in zip(nodes, weights, strict=True):
        # exp(-exp(-(gap - sd z))): one exponential per node
        part = decay * np.exp(sd * z)
        value = np.exp(part)
        value *= w
        cdf += value
        part *= value
        density -= part
    return cdf, density


def _over_gumbel(gap: Array, sd: Array, rule: int) -> tuple[Array, Array]:
    """E G(gap - f) and E G'(gap - f), as averages of normal cdf and density over the Gumbel variable."""
    cdf, density = np.zeros_like(gap), np.zeros_like(gap)
    for g, w in zip(*_gumbel_rule(list(_GUMBEL.values())[rule - _N_IN_F]), strict=True):
        t = (gap - g) / sd
        cdf += w * ndtr(t)
        density += np.exp(-0.5 * np.minimum(t * t, 1400.0)) * (w / (_SQRT_2PI * sd))
    return cdf, density


@lru_cache(maxsize=16)
def _gumbel_rule(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Gauss nodes and weights for the Gumbel density, by Lanczos on a dense grid."""
    grid = np.linspace(-5.0, 40.0, 9001)
    mass = np.exp(-grid - np.exp(-grid))
    basis = [np.sqrt(mass / mass.sum())]
    diagonal, beside = [], []
    for _ in range(n):
        image = grid * basis[-1]
        diagonal.append(image @ basis[-1])
        for _again in range(2):  # twice: Lanczos vectors lose orthogonality
            for vector in basis:
                image = image - (vector @ image) * vector
        beside.append(np.sqrt(image @ image))
        basis.append(image / beside[-1])
    jacobi = np.diag(diagonal) + np.diag(beside[:-1], 1) + np.diag(beside[:-1], -1)
    nodes, vectors = np.linalg.eigh(jacobi)
    return nodes, vectors[0] ** 2


# ---- softmax under a Gaussian over all K latents of a datum
# A shift common to all latents changes nothing, so the integral is over the K - 1 contrasts only. The rule is quasi-
# Monte Carlo with one point set for all rows: a Kronecker sequence through the normal quantile, made antithetic and
# whitened, so that it is exact for polynomials of degree three and the error starts with the fourth derivative of log-
# sum-exp. Rows with a small V need few points; the choice looks at the row alone.
#: Largest variance of a contrast, and the points that rows up to it get.
LEVELS = ((0.03, 32), (0.5, 64), (np.inf, 192))
_CHUNK_NUMBERS = 2**17
#: Most Newton steps to the mode of counts, and halvings of one.
MODE_STEPS, MODE_HALVINGS = 50, 30


@cache
def points(n: int, k: int) -> np.ndarray:
    """n whitened antithetic points of the K-dimensional standard normal, (n, K)."""
    half = max(n // 2, k)
    # The root of x^(k+1) = x + 1 generalises the golden ratio: its powers fill the cube evenly.
    root = 2.0
    for _ in range(60):
        root = (1.0 + root) ** (1.0 / (k + 1))
    step = root ** -np.arange(1.0, k + 1)
    z = ndtri((0.5 + np.outer(np.arange(1.0, half + 1), step)) % 1.0)
    factor = np.linalg.cholesky(z.T @ z / half)
    z = np.linalg.solve(factor, z.T).T
    return np.concatenate([z, -z])


@cache
def contrasts(k: int) -> np.ndarray:
    """Orthonormal basis of the contrasts of k classes, (k, k - 1): Helmert's."""
    basis = np.tril(-np.ones((k, k)), -1).T + np.diag(np.arange(k, dtype=float))
    return (basis / np.maximum(np.linalg.norm(basis, axis=0), 1.0))[:, 1:]


def joint_softmax(m: Array, cov: Array, hessian: bool = True) -> tuple[Array, Array, Array | None]:
    """E log sum exp f (n,), E p (n, K) and E (diag p - ppᵀ) (n, K, K) for f ~ N(m, cov)."""
    n, k = m.shape
    shift = m.mean(axis=1)
    basis = contrasts(k)
    inner = np.einsum("ka,nkl,lb->nab", basis, cov, basis, optimize=True)
    total, p, bend = np.empty(n), np.empty((n, k)), np.empty((n, k, k)) if hessian else None
    widest = np.diagonal(inner, axis1=1, axis2=2).max(axis=1)
    low = -np.inf
    for high, size in LEVELS:
        rows = np.flatnonzero((widest > low) & (widest <= high))
        low, across = high, np.ascontiguousarray(points(size, k - 1).T)
        chunk = max(1, _CHUNK_NUMBERS // (size * k))
        for start in range(0, len(rows), chunk):
            part = rows[start : start + chunk]
            draws = basis @ _factor(inner[part]) @ across
            total[part], p[part], bent = _average(m[part] - shift[part, None], draws, hessian)
            if bend is not None:
                bend[part] = bent
    return total + shift, p, bend


def log_mean_product(counts: Array, m: Array, cov: Array) -> Array:
    """log E prod_c softmax(f)_c ** counts_c, shape (n,), for f ~ N(m, cov), cov (n, K, K), or (n, K) of independent f.

    Counts pull f to where they are likely, so the points are about the mode, with its curvature: importance sampling.
    """
    cov = np.asarray(cov, dtype=float)
    cov = cov[:, :, None] * np.eye(m.shape[1]) if cov.ndim == 2 else cov
    basis, z = contrasts(m.shape[1]), points(4 * LEVELS[-1][1], m.shape[1] - 1)
    centre = np.asarray(m, dtype=float) @ basis
    prior = np.einsum("ka,nkl,lb->nab", basis, cov, basis, optimize=True)
    prior += 1e-12 * (np.einsum("naa->n", prior)[:, None, None] + np.finfo(float).tiny) * np.eye(prior.shape[1])
    size = max(1, _CHUNK_NUMBERS // (len(z) * m.shape[1]))
    parts = (slice(start, start + size) for start in range(0, max(len(m), 1), size))
    found: Array = np.concatenate([_importance(counts[at], centre[at], prior[at], basis, z) for at in parts])
    return found


def _importance(counts: Array, centre: Array, prior: Array, basis: Array, z: Array) -> Array:
    mode, posterior = _mode(counts, centre, prior, basis)
    u = mode[:, None] + z @ np.swapaxes(np.linalg.cholesky(posterior), 1, 2)
    f, off = u @ basis.T, u - centre[:, None]
    log_p = f - logsumexp(f, axis=2, keepdims=True)
    pull = np.swapaxes(np.linalg.solve(prior, np.swapaxes(off, 1, 2)), 1, 2)
    terms = np.einsum("nk,nsk->ns", counts, log_p) - 0.5 * np.einsum("nsa,nsa->ns", off, pull)
    terms += 0.5 * np.square(z).sum(axis=1)
    volume = np.linalg.slogdet(posterior)[1] - np.linalg.slogdet(prior)[1]
    found: Array = logsumexp(terms, axis=1) - np.log(len(z)) + 0.5 * volume
    return found


def _mode(counts: Array, centre: Array, prior: Array, basis: Array) -> tuple[Array, Array]:
    """Mode of the contrasts given the counts, and the inverse of the curvature there, by damped Newton steps."""
    u, trials = centre.copy(), counts.sum(axis=1)
    inverse = np.linalg.inv(prior)

    def at(u: Array) -> tuple[Array, Array, Array]:
        f, off = u @ basis.T, u - centre
        log_p = f - logsumexp(f, axis=1, keepdims=True)
        pull = np.einsum("nab,nb->na", inverse, off)
        return (counts * log_p).sum(axis=1) - 0.5 * (off * pull).sum(axis=1), np.exp(log_p), pull

    value, p, pull = at(u)
    for _ in range(MODE_STEPS):
        q = p @ basis
        bend = np.einsum("ka,nk,kb->nab", basis, p, basis, optimize=True) - q[:, :, None] * q[:, None]
        curvature = inverse + trials[:, None, None] * bend
        slope = (counts - trials[:, None] * p) @ basis - pull
        step, length = np.linalg.solve(curvature, slope[:, :, None])[:, :, 0], np.ones((len(u), 1))
        for _ in range(MODE_HALVINGS):
            value_there, p_there, pull_there = at(u + length * step)
            short = value_there < value
            if not short.any():
                break
            length[short] *= 0.5
        moved = length * step
        u, value, p, pull = u + moved, value_there, p_there, pull_there
        if np.abs(moved).max(initial=0.0) < 1e-8:
            break
    return u, np.linalg.inv(curvature)


def _average(m: Array, draws: Array, hessian: bool) -> tuple[Array, Array, Array]:
    """Averages over draws (n, K, points) about means m: classes one below the other are added and compared fastest."""
    f = m[:, :, None] + draws
    top = f.max(axis=1)
    f -= top[:, None]
    np.exp(f, out=f)
    size = f.sum(axis=1)
    f /= size[:, None]
    mean = f.mean(axis=2)
    log_sum = (np.log(size) + top).mean(axis=1)
    if not hessian:
        return log_sum, mean, np.empty(0)
    bend = -(f @ np.swapaxes(f, 1, 2)) / f.shape[2]
    index = np.arange(f.shape[1])
    bend[:, index, index] += mean
    return log_sum, mean, bend


def _factor(cov: Array) -> Array:
    """Cholesky factor of each covariance, smooth in it; rounding alone is added to the diagonal."""
    size = np.einsum("naa->n", cov)[:, None, None] + np.finfo(float).tiny
    return np.linalg.cholesky(cov + 1e-12 * size * np.eye(cov.shape[1]))
