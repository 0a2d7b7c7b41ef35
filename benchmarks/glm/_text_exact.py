"""The mode of a logistic regression by scikit-learn, and what the Laplace approximation about it says exactly.

Columns have precisions of their own and the intercept another; classes more than two have the symmetric softmax with
weights each. All covariances by dense algebra in the space of the rows, with the classes' joint curvature.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.special import softmax

from benchmarks._lib import Array

#: Of scikit-learn's mode, and points of the Gaussian integrals of several latents.
TOLERANCE, POINTS = 1e-8, 1024


def extended(X: Any, precision: Array, intercept_precision: float) -> Any:
    """Columns in which all weights have a standard normal prior, the intercept's last."""
    ones = np.full((X.shape[0], 1), intercept_precision**-0.5)
    if sp.issparse(X):
        return sp.hstack([X.multiply(precision**-0.5), ones]).tocsr()
    return np.hstack([X * precision**-0.5, ones])


@dataclass(frozen=True)
class Laplace:
    """Mode of standard normal weights (K, D) of columns Z, K = 1 for two classes, and the curvature of the rows.

    ``root`` (n, K, K) has root rootᵀ = the curvature of -log p of a row's latents, ``inner`` (nK, nK) is the inverse of
    1 + rootᵀ Z Zᵀ root.
    """

    Z: Any
    weights: Array
    root: Array
    inner: Array

    @classmethod
    def of(cls, Z: Any, y: Array) -> Laplace:
        from sklearn.linear_model import LogisticRegression

        fit = LogisticRegression(C=1.0, fit_intercept=False, tol=TOLERANCE, max_iter=20_000).fit(Z, y)
        weights = np.asarray(fit.coef_)
        f = np.asarray(Z @ weights.T)
        if weights.shape[0] == 1:
            p = 1.0 / (1.0 + np.exp(-f))
            root = np.sqrt(p * (1.0 - p))[:, :, None]
        else:
            p = softmax(f, axis=1)
            # diag(p) - pp' = R R' with R = diag(√p) - p √p'.
            root = np.eye(p.shape[1]) * np.sqrt(p)[:, :, None] - p[:, :, None] * np.sqrt(p)[:, None, :]
        n, k = p.shape
        gram = np.asarray((Z @ Z.T).toarray() if sp.issparse(Z) else Z @ Z.T)
        inner = np.einsum("iab,ij,jac->ibjc", root, gram, root, optimize=True).reshape(n * k, n * k)
        return cls(Z, weights, root, np.linalg.inv(np.eye(n * k) + inner))

    def covariance(self, z: Any) -> Array:
        """Of the latents (K, K) of a new row z (1, D)."""
        n, k = self.root.shape[:2]
        cross = np.asarray((self.Z @ z.T).toarray() if sp.issparse(z) else self.Z @ z.T).ravel()
        own = float((z.multiply(z) if sp.issparse(z) else z * z).sum())
        right = (cross[:, None, None] * self.root.swapaxes(1, 2)).reshape(n * k, k)
        return own * np.eye(k) - right.T @ self.inner @ right

    def deviations(self) -> Array:
        """Standard deviations (K, D) of the weights, in units of their prior's."""
        n, k = self.root.shape[:2]
        Z = self.Z.toarray() if sp.issparse(self.Z) else self.Z
        inner = self.inner.reshape(n, k, n, k)
        found = [np.einsum("jb,jbic,ic->ji", self.root[:, a], inner, self.root[:, a], optimize=True) for a in range(k)]
        return np.sqrt(np.array([1.0 - np.einsum("jd,ji,id->d", Z, own, Z, optimize=True) for own in found]))


def chance(mean: Array, covariance: Array, label: int, temperature: float) -> float:
    """E p(label) of latents N(mean, temperature * covariance), by points in pairs about the mean."""
    from scipy.stats import norm, qmc

    k = len(mean)
    z = norm.ppf(qmc.Sobol(k, seed=0).random(POINTS // 2))
    z = np.concatenate([z, -z])
    values, axes = np.linalg.eigh(covariance)
    f = mean + z @ (axes * np.sqrt(temperature * np.maximum(values, 0.0))).T
    p = softmax(f, axis=1) if k > 1 else softmax(np.column_stack([np.zeros(len(f)), f]), axis=1)
    return float(p[:, label].mean())


def leave_one_out(Z: Any, y: Array, temperature: float) -> Array:
    """-log p of each label (0, 1, …) under the fit to all other rows, nats."""
    losses = []
    for i in range(len(y)):
        others = np.arange(len(y)) != i
        fit = Laplace.of(Z[others], y[others])
        mean = np.ravel(Z[[i]] @ fit.weights.T)
        losses.append(-np.log(chance(mean, fit.covariance(Z[[i]]), int(y[i]), temperature)))
    return np.array(losses)
