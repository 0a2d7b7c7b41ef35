"""Slow and plain matrix factorization: what the tests of ``GeneralizedPMF`` compare with.

Nothing here uses the package. A ``Scalar`` is log p(y | f) with its first two derivatives in f; expectations are sums
over a dense grid. Factors are pairs ``(mean, cov)`` of shapes (n, K) and (n, K, K); ``pairs`` are integers (n, 2), row
of the users' side and of the items'; ``offset`` is the known or Gaussian part of f besides u'v, ``(mean, variance)``,
scalars or one per entry. Bounds are in nats.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from scipy.special import expit, gammaln, logsumexp, softmax

# trapezoidal rule of a standard normal: exact to rounding for what is smooth on the scale of a tenth of its sd
Z = np.linspace(-9.0, 9.0, 1201)
W = np.exp(-0.5 * Z**2)
W /= W.sum()
NO_OFFSET = (0.0, 0.0)


class Scalar(NamedTuple):
    """log p(y | f), its first and its second derivative in f."""

    log_p: Callable
    first: Callable
    second: Callable


class Factors(NamedTuple):
    """Gaussians of the rows of one side."""

    mean: np.ndarray
    cov: np.ndarray


# ---------------------------------------------------------------- likelihoods


def gaussian(variance: float) -> Scalar:
    return Scalar(
        lambda y, f: -0.5 * ((y - f) ** 2 / variance + np.log(2 * np.pi * variance)),
        lambda y, f: (y - f) / variance,
        lambda y, f: np.full(np.broadcast_shapes(np.shape(y), np.shape(f)), -1 / variance),
    )


def logit() -> Scalar:
    """y is 0 or 1."""
    return Scalar(
        lambda y, f: y * f - np.logaddexp(0, f),
        lambda y, f: y - expit(f),
        lambda y, f: -expit(f) * expit(-f) + 0 * y,
    )


def poisson() -> Scalar:
    """Rate exp(f)."""
    return Scalar(
        lambda y, f: y * f - np.exp(f) - gammaln(y + 1),
        lambda y, f: y - np.exp(f),
        lambda y, f: -np.exp(f) + 0 * y,
    )


def poisson_softplus() -> Scalar:
    """Rate log(1 + exp(f))."""

    def rate(f):
        return np.logaddexp(0, f)

    return Scalar(
        lambda y, f: y * np.log(rate(f)) - rate(f) - gammaln(y + 1),
        lambda y, f: (y / rate(f) - 1) * expit(f),
        lambda y, f: (y / rate(f) - 1) * expit(f) * expit(-f) - y * (expit(f) / rate(f)) ** 2,
    )


def ordinal(cuts, slope: float = 1.0) -> Scalar:
    """y is the level's code, 0 to len(cuts)."""
    edges = np.concatenate([[-np.inf], cuts, [np.inf]])

    def below(y, f, step):
        return expit(slope * (edges[np.asarray(y, int) + step] - f))

    return Scalar(
        lambda y, f: np.log(below(y, f, 1) - below(y, f, 0)),
        lambda y, f: slope * (below(y, f, 0) + below(y, f, 1) - 1),
        lambda y, f: -(slope**2) * sum(below(y, f, step) * (1 - below(y, f, step)) for step in (0, 1)),
    )


#: By the package's names; scales that a fit may not learn when compared with these.
SCALARS = {
    "gaussian": gaussian(0.7),
    "logit": logit(),
    "poisson": poisson(),
    "poisson-softplus": poisson_softplus(),
    "ordinal": ordinal((-1.0, 0.3, 1.2)),
}


def expected(function: Callable, y, mean, variance):
    """E of function(y, f) over f ~ N(mean, variance), entry by entry."""
    mean, variance = np.asarray(mean, float)[..., None], np.asarray(variance, float)[..., None]
    return function(np.asarray(y, float)[..., None], mean + np.sqrt(variance) * Z) @ W


# ---------------------------------------------------------------- the surrogate of the deterministic route


def latent_moments(pairs, users: Factors, items: Factors, offset=NO_OFFSET):
    """Mean and variance of every entry's f."""
    mu, su = (part[pairs[:, 0]] for part in users)
    mv, sv = (part[pairs[:, 1]] for part in items)
    variance = np.einsum("nij,nji->n", su, sv)
    variance = variance + np.einsum("ni,nij,nj->n", mu, sv, mu) + np.einsum("ni,nij,nj->n", mv, su, mv)
    return np.einsum("ni,ni->n", mu, mv) + offset[0], variance + offset[1]


def kl_to_prior(side: Factors, prior_variance: float) -> float:
    """Sum over rows of KL(N(mean, cov) || N(0, prior_variance I))."""
    n, K = side.mean.shape
    square = np.sum(side.mean**2) + np.trace(side.cov, axis1=1, axis2=2).sum()
    log_det = np.linalg.slogdet(side.cov)[1].sum()
    return 0.5 * (square / prior_variance - n * K + n * K * np.log(prior_variance) - log_det)


def surrogate_bound(scalar, pairs, y, users, items, user_variance=1.0, item_variance=1.0, offset=NO_OFFSET) -> float:
    """Sum of E over N(m_ij, s_ij) of log p, less the KLs: the joint-Gaussian route's (exact for a Gaussian)."""
    mean, variance = latent_moments(pairs, users, items, offset)
    value = expected(scalar.log_p, y, mean, variance).sum()
    return float(value - kl_to_prior(users, user_variance) - kl_to_prior(items, item_variance))


def surrogate_gradient(scalar, pairs, y, users, items, offset=NO_OFFSET):
    """Gradient of the surrogate's first sum in the items' means (n, K) and covariances (n, K, K)."""
    mean, variance = latent_moments(pairs, users, items, offset)
    first = expected(scalar.first, y, mean, variance)
    half = 0.5 * expected(scalar.second, y, mean, variance)
    d, D = np.zeros_like(items.mean), np.zeros_like(items.cov)
    for (i, j), e0, h in zip(pairs, first, half, strict=True):
        mu, su = users.mean[i], users.cov[i]
        d[j] += e0 * mu + 2 * h * su @ items.mean[j]
        D[j] += h * (su + np.outer(mu, mu))
    return d, D


def joint_gaussian(scalar, y, user: Factors, item: Factors, offset=NO_OFFSET):
    """d = E[l'(f) u] and D = 1/2 E[l''(f) u u'] of one entry with (u, f) taken as jointly Gaussian, by brute force.

    ``user`` and ``item`` hold one row each: mean (K,), cov (K, K).
    """
    (mu, su), (mv, sv) = user, item
    m = mu @ mv + offset[0]
    s = np.trace(su @ sv) + mu @ sv @ mu + mv @ su @ mv + offset[1]
    k = su @ mv / s
    left = su - s * np.outer(k, k)
    d, D = np.zeros_like(mu), np.zeros_like(su)
    for z, w in zip(Z, W, strict=True):
        f = m + np.sqrt(s) * z
        u = mu + k * (f - m)
        d += w * float(scalar.first(y, f)) * u
        D += 0.5 * w * float(scalar.second(y, f)) * (left + np.outer(u, u))
    return d, D


# ---------------------------------------------------------------- the true bound, K = 2


def true_term(scalar, y, user: Factors, item: Factors, offset=NO_OFFSET, step: int = 15):
    """E[l(u'v + offset)] of one entry with K = 2 and its gradients in the item's mean and covariance.

    Dense quadrature over u (every ``step``-th node per axis) and f given u.
    """
    z, w = Z[::step], W[::step] / W[::step].sum()
    root = np.linalg.cholesky(user.cov)
    u = user.mean + np.stack(np.meshgrid(z, z, indexing="ij"), axis=-1).reshape(-1, 2) @ root.T
    weight = np.outer(w, w).ravel()
    keep = weight > 1e-17
    u, weight = u[keep], weight[keep]
    m = u @ item.mean + offset[0]
    s = np.einsum("ni,ij,nj->n", u, item.cov, u) + offset[1]
    f = m[:, None] + np.sqrt(s)[:, None] * z
    value, first, second = (weight * (part(y, f) @ w) for part in scalar)
    return value.sum(), first @ u, 0.5 * np.einsum("n,ni,nj->ij", second, u, u)


# ---------------------------------------------------------------- Gaussian likelihood


def gaussian_side(rows, columns, y, other: Factors, n: int, noise: float, prior_variance: float, offset=0.0) -> Factors:
    """Lim & Teh's update of one side: the exact optimum of each of its n rows given the other side.

    ``rows``: row of this side of every entry, ``columns``: of the other; ``offset``: the mean of the rest of f.
    """
    K = other.mean.shape[1]
    precision = np.tile(np.eye(K) / prior_variance, (n, 1, 1))
    linear = np.zeros((n, K))
    for i, j, value in zip(rows, columns, y - offset, strict=True):
        precision[i] += (np.outer(other.mean[j], other.mean[j]) + other.cov[j]) / noise
        linear[i] += value * other.mean[j] / noise
    cov = np.linalg.inv(precision)
    return Factors(np.einsum("nij,nj->ni", cov, linear), cov)


def gaussian_noise(pairs, y, users, items, offset=NO_OFFSET) -> float:
    """The noise variance that maximises the bound."""
    mean, variance = latent_moments(pairs, users, items, offset)
    return float(np.mean((y - mean) ** 2 + variance))


def learned_variance(side: Factors) -> float:
    """The prior variance that maximises the bound."""
    return float((np.sum(side.mean**2) + np.trace(side.cov, axis1=1, axis2=2).sum()) / side.mean.size)


def lim_teh(pairs, y, items: Factors, n_users: int, *, noise=1.0, variances=(1.0, 1.0), sweeps=10, learn=False):
    """Coordinate ascent, users first, from the items given.

    Returns users, items, noise, the two prior variances and the bound after every sweep. With ``learn`` the prior
    variances, then the noise, are set to their optima after each sweep.
    """
    bounds, (user_variance, item_variance) = [], variances
    for _ in range(sweeps):
        users = gaussian_side(*pairs.T, y, items, n_users, noise, user_variance)
        items = gaussian_side(*pairs.T[::-1], y, users, len(items.mean), noise, item_variance)
        if learn:
            user_variance, item_variance = learned_variance(users), learned_variance(items)
            noise = gaussian_noise(pairs, y, users, items)
        bounds.append(surrogate_bound(gaussian(noise), pairs, y, users, items, user_variance, item_variance))
    return users, items, noise, (user_variance, item_variance), np.array(bounds)


# ---------------------------------------------------------------- Nakajima et al. (2013)


def analytic_component(gamma, L: int, M: int, noise: float, user_variance: float, item_variance: float):
    """The global optimum for one singular value gamma of a fully observed L x M matrix.

    Returns user scale and variance, item scale and variance: users are scale * left singular vector with variance per
    row, items likewise; their product's singular value is the product of the scales.
    """
    c = user_variance * item_variance
    half = 0.5 * (L + M + noise / c)
    threshold = np.sqrt(noise * (half + np.sqrt(half**2 - L * M)))
    if gamma <= threshold:
        # item = noise / (L user + noise / c_v) and user = noise / (M item + noise / c_u) make a quadratic for item
        b = L * c + noise - M * c
        item = (-b + np.sqrt(b**2 + 4 * M * c * noise)) / (2 * M * user_variance)
        return 0.0, noise / (M * item + noise / user_variance), 0.0, item
    shrunk = gamma - noise / (2 * gamma) * (L + M + np.sqrt((M - L) ** 2 + 4 * gamma**2 / c))
    # ratio of the items' scale to the users'
    delta = item_variance / noise * (gamma - shrunk - L * noise / gamma)
    return (
        np.sqrt(shrunk / delta),
        noise / (gamma * delta),
        np.sqrt(shrunk * delta),
        noise * delta / gamma,
    )


def nakajima(Y, K: int, noise: float, user_variance: float = 1.0, item_variance: float = 1.0):
    """Users and items at the global optimum of the bound of a fully observed Gaussian matrix, in the SVD's basis.

    Any rotation of both sides is as good: compare products, eigenvalues of covariances and bounds.
    """
    L, M = Y.shape
    left, gamma, right = np.linalg.svd(Y, full_matrices=False)
    gamma = np.concatenate([gamma, np.zeros(max(K - len(gamma), 0))])[:K]
    parts = np.array([analytic_component(g, L, M, noise, user_variance, item_variance) for g in gamma])
    a, a_variance, b, b_variance = parts.T
    k = min(K, len(left.T))
    user_mean, item_mean = np.zeros((L, K)), np.zeros((M, K))
    user_mean[:, :k], item_mean[:, :k] = left[:, :k] * a[:k], right[:k].T * b[:k]
    return (
        Factors(user_mean, np.tile(np.diag(a_variance), (L, 1, 1))),
        Factors(item_mean, np.tile(np.diag(b_variance), (M, 1, 1))),
    )


# ---------------------------------------------------------------- annealed importance sampling


def annealed_evidence(
    scalar, pairs, y, n_users, n_items, K, *, user_variance=1.0, item_variance=1.0, offset=0.0, chains=100, steps=1000,
    seed=0,
):  # fmt: skip
    """Log evidence of the factorization and its standard error: (estimate, error).

    Chains go from the prior to the posterior by powers of the likelihood, one Hamiltonian move (five leapfrogs) at
    each; the logarithm of the mean weight is on average too small, by half of error^2. The error is the jackknife's.
    """
    rng = np.random.default_rng(seed)
    scale = np.concatenate([np.full(n_users * K, user_variance), np.full(n_items * K, item_variance)]) ** 0.5
    rows, columns = pairs.T
    by_row, by_column = (np.eye(n)[side] for n, side in ((n_users, rows), (n_items, columns)))

    def split(x):
        x = x * scale
        return x[:, : n_users * K].reshape(-1, n_users, K), x[:, n_users * K :].reshape(-1, n_items, K)

    def log_likelihood(x):
        u, v = split(x)
        f = np.einsum("cnk,cnk->cn", u[:, rows], v[:, columns]) + offset
        return scalar.log_p(y, f).sum(axis=1)

    def gradient(x):
        u, v = split(x)
        u, v = u[:, rows], v[:, columns]
        first = scalar.first(y, np.einsum("cnk,cnk->cn", u, v) + offset)[..., None]
        du, dv = np.swapaxes(first * v, 1, 2) @ by_row, np.swapaxes(first * u, 1, 2) @ by_column
        flat = [np.swapaxes(part, 1, 2).reshape(len(x), -1) for part in (du, dv)]
        return np.concatenate(flat, axis=1) * scale

    def leapfrogs(x, momentum, step, power, n=5):
        momentum = momentum + 0.5 * step * (power * gradient(x) - x)
        for leap in range(n):
            x = x + step * momentum
            momentum = momentum + (step if leap < n - 1 else 0.5 * step) * (power * gradient(x) - x)
        return x, momentum

    x = rng.standard_normal((chains, len(scale)))
    # more powers near the prior, where the likelihood changes most
    powers = np.linspace(0, 1, steps + 1) ** 2
    log_weight, size, value = np.zeros(chains), 0.2, log_likelihood(x)
    for before, power in pairwise(powers):
        log_weight += (power - before) * value
        momentum = rng.standard_normal(x.shape)
        start = power * value - 0.5 * np.sum(x**2 + momentum**2, axis=1)
        step = size * rng.uniform(0.7, 1.3)
        with np.errstate(over="ignore", invalid="ignore"):  # a trajectory that runs away is refused below
            move, momentum = leapfrogs(x, momentum, step, power)
            proposed = log_likelihood(move)
            end = power * proposed - 0.5 * np.sum(move**2 + momentum**2, axis=1)
        accept = np.log(rng.random(chains)) < end - start
        x, value = np.where(accept[:, None], move, x), np.where(accept, proposed, value)
        # the size follows the acceptance of earlier powers only, so every move leaves its power's target as it is
        size *= 1.05 if accept.mean() > 0.8 else 0.95
    estimate = float(logsumexp(log_weight) - np.log(chains))
    share = softmax(log_weight)
    left_out = np.log1p(-share) + logsumexp(log_weight) - np.log(chains - 1)
    return estimate, float(np.sqrt((chains - 1) * np.mean((left_out - left_out.mean()) ** 2)))
