"""The bound of a Bayesian GLM and its optimum, written without sksvi: figures do not rest on what they judge.

Logistic and Poisson (exp) likelihoods, prior N(0, diag(1 / precision)); a constant column stands for the intercept.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks._lib import Array

#: Trapezoidal rule on |z| <= 8.5 with step 1/80; a row with sd s needs s * step <= 3/4 (error exp(-2 pi^2 / 0.75)).
_Z = np.linspace(-8.5, 8.5, 1361)
_W = np.exp(-0.5 * _Z**2)
_STRIDES = (32, 16, 8, 4, 2, 1)
_LARGEST_SD = 60.0


def _groups(sd: Array) -> Iterator[tuple[Array, Array, Array]]:
    """Rows that share a stride, a few thousand at a time, with their nodes and weights."""
    if np.max(sd) > _LARGEST_SD:
        raise ValueError(f"the benchmark's rule is exact up to sd {_LARGEST_SD}; found {np.max(sd):.3g}")
    below = 0.0
    for stride in _STRIDES:
        limit = _LARGEST_SD / stride
        rows = np.flatnonzero((sd > below) & (sd <= limit) if below else sd <= limit)
        z, w = _Z[::stride], _W[::stride] / _W[::stride].sum()
        for start in range(0, len(rows), 5000):
            yield rows[start : start + 5000], z, w
        below = limit


def expectations(kind: str, y: Array, m: Array, v: Array) -> tuple[Array, Array, Array]:
    """E log p(y|f), E l'(f), E l''(f) under N(m, v); kind is "logit" or "poisson"; blocks of rows bound the memory."""
    if kind == "poisson":
        from scipy.special import gammaln

        rate = np.exp(m + 0.5 * v)
        return y * m - rate - gammaln(y + 1), y - rate, -rate
    value, slope, curvature = np.empty_like(m), np.empty_like(m), np.empty_like(m)
    sd = np.sqrt(v)
    for rows, z, w in _groups(sd):
        f = m[rows, None] + sd[rows, None] * z
        e = np.exp(-np.abs(f))
        p = np.where(f >= 0, 1.0, e) / (1.0 + e)
        value[rows] = y[rows] * m[rows] - (np.maximum(f, 0) + np.log1p(e)) @ w
        slope[rows] = y[rows] - p @ w
        curvature[rows] = -(e / (1.0 + e) ** 2) @ w
    return value, slope, curvature


def with_constant(X: Any) -> Any:
    """X with a last column of ones (dense or CSR)."""
    import scipy.sparse as sp

    ones = np.ones((X.shape[0], 1))
    return sp.csr_matrix(sp.hstack([X, ones])) if sp.issparse(X) else np.hstack([np.asarray(X, dtype=float), ones])


def _square(X: Any) -> Any:
    return X.multiply(X).tocsr() if hasattr(X, "multiply") else X * X


def latent_variance(X: Any, S: Array) -> Array:
    """x' S x per row; S is (D, D), or (D,) for a diagonal covariance."""
    if S.ndim == 1:
        return np.asarray(_square(X) @ S)
    XS = X @ S
    return np.asarray(X.multiply(XS).sum(axis=1)).ravel() if hasattr(X, "multiply") else np.einsum("ij,ij->i", XS, X)


def gaussian_kl(m: Array, S: Array, precision: Array) -> float:
    """KL(N(m, S) || N(0, diag(1 / precision))) in nats; S full or diagonal."""
    if S.ndim == 1:
        log_det, trace = np.sum(np.log(S)), precision @ S
    else:
        log_det, trace = np.linalg.slogdet(S)[1], precision @ np.diag(S)
    return float(0.5 * (trace + precision @ m**2 - len(m) - np.sum(np.log(precision)) - log_det))


def bound(X: Any, y: Array, m: Array, S: Array, precision: Array, kind: str = "logit") -> float:
    """Evidence lower bound in nats of q = N(m, S), by quadrature."""
    v = latent_variance(X, S)
    return float(expectations(kind, y, X @ m, v)[0].sum()) - gaussian_kl(m, S, precision)


def optimum(
    X: Any, y: Array, precision: Array, kind: str = "logit", covariance: str = "full"
) -> tuple[float, Array, Array]:
    """Maximum of :func:`bound` over Gaussian q: natural steps, each halved until the bound does not fall.

    Returns the bound and (m, S). Meant for D up to a few hundred.
    """
    D = X.shape[1]
    diagonal = covariance == "diag"
    S = 1.0 / (precision + 1.0) if diagonal else np.diag(1.0 / (precision + 1.0))
    # a start with latent variance of order one, whatever the columns' scale
    S = S / max(1.0, float(np.mean(latent_variance(X, S))))
    m = np.zeros(D)
    best, settled = bound(X, y, m, S, precision, kind), 0
    for _ in range(2000):
        _, slope, curvature = expectations(kind, y, X @ m, latent_variance(X, S))
        gradient = X.T @ slope - precision * m
        hessian = -(_square(X).T @ curvature) if diagonal else -_gram(X, curvature)
        inverse = 1.0 / S if diagonal else np.linalg.inv(S)
        target = (precision + hessian) if diagonal else (np.diag(precision) + hessian)
        rate, accepted = 1.0, False
        while rate > 1e-10 and not accepted:
            P = (1 - rate) * inverse + rate * target
            S_new = 1.0 / P if diagonal else np.linalg.inv(P)
            m_new = m + rate * (S_new * gradient if diagonal else S_new @ gradient)
            value = _bound_or_low(X, y, m_new, S_new, precision, kind)
            accepted = value >= best
            rate *= 0.5
        if not accepted:
            break
        settled = settled + 1 if value - best < 1e-11 * abs(best) else 0
        m, S, best = m_new, S_new, value
        if settled == 3:
            break
    return best, m, S


def _bound_or_low(X: Any, y: Array, m: Array, S: Array, precision: Array, kind: str) -> float:
    with np.errstate(over="ignore", invalid="ignore"):
        try:
            value = bound(X, y, m, S, precision, kind)
        except ValueError:
            return -np.inf
    return value if np.isfinite(value) else -np.inf


def _gram(X: Any, weight: Array) -> Array:
    if hasattr(X, "multiply"):
        return np.asarray((X.T @ X.multiply(weight[:, None]).tocsr()).toarray())
    return np.asarray(X.T @ (X * weight[:, None]))


def row_space(X: Any) -> Array:
    """X in an orthonormal basis of its rows, for D > N: same latents, same bound under one common prior precision."""
    X = np.asarray(X.toarray() if hasattr(X, "toarray") else X, dtype=float)
    if X.shape[1] <= X.shape[0]:
        return X
    return X @ np.linalg.svd(X, full_matrices=False)[2].T


def posterior_of(model: Any) -> tuple[Array, Array]:
    """(m, S) of a fitted sksvi GLM, intercept last; S is (D,) for a diagonal covariance."""
    weights = model.posterior_["weights"]
    mean = np.ravel(weights.mean)
    return mean, np.ravel(weights.std) ** 2 if model.covariance == "diag" else np.asarray(weights.cov)


def precisions(D: int, prior_precision: float, intercept_precision: float = 1e-4) -> Array:
    """Prior precisions of D coefficients and, last, the intercept."""
    return np.r_[np.full(D, float(prior_precision)), intercept_precision]
