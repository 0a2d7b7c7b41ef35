"""Two latents of a row with columns of their own: f of the mean, g of a scale or of zeros, in one Gaussian block.

The columns of g follow those of f, so that a weight that does not exist is no coordinate: f = a₁ᵀw₁ and g = a₂ᵀw₂ with
disjoint w₁ and w₂ of one w ~ q. The intercept of g is its last column, that of f the last coordinate. Offsets are of f,
and so are effects of levels, which stand between (`models.mixed.two_predictors`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sksvi.models.data import Table
from sksvi.models.linear.glm import START_ROWS, LinearModel, best_constant, informed_block
from sksvi.models.linear.rows import design
from sksvi.models.targets import starting

Array = np.ndarray

#: Share that each latent has in offsets, and in the variance of levels that a fit did not have.
OF_MEAN = np.array([1.0, 0.0])


@dataclass(frozen=True)
class PairRows:
    """Designs of both latents, (n, P₁) and (n, P₂), and the coordinates of their weights."""

    designs: tuple[Array, Array]
    at: tuple[Array, Array]

    @property
    def width(self) -> int:
        """Coordinates of both."""
        return sum(len(one) for one in self.at)

    def dots(self, draws: Array) -> Array:
        """Latents at weights (..., P), (..., n, 2)."""
        return np.stack([draws[..., at] @ A.T for A, at in zip(self.designs, self.at, strict=True)], -1)

    def moments(self, block: Any) -> tuple[Array, Array]:
        """Mean (n, 2) and covariance (n, 2, 2) of the latents."""
        cov = block.cov
        v = np.empty((len(self.designs[0]), 2, 2))
        for k, (A, at) in enumerate(zip(self.designs, self.at, strict=True)):
            for j in range(k + 1):
                part = np.einsum("np,np->n", A @ cov[np.ix_(at, self.at[j])], self.designs[j])
                v[:, k, j] = v[:, j, k] = part
        return self.dots(block.mean), v

    def pulled(self, alpha: Array) -> Array:
        """Σ alpha_i a_i, (P,)."""
        out = np.empty(self.width)
        for k, (A, at) in enumerate(zip(self.designs, self.at, strict=True)):
            out[at] = A.T @ alpha[:, k]
        return out

    def gram(self, gamma: Array) -> Array:
        """Σ gamma_ikj a_ik a_ijᵀ, (P, P)."""
        out = np.empty((self.width, self.width))
        for k, (A, at) in enumerate(zip(self.designs, self.at, strict=True)):
            for j in range(k + 1):
                part = (A * gamma[:, k, j, None]).T @ self.designs[j]
                out[np.ix_(at, self.at[j])] = part
                out[np.ix_(self.at[j], at)] = part.T
        return out


class TwoPredictors(LinearModel):
    """GLM of two latents, the last `n_second` fixed columns those of the second one.

    Parameters
    ----------
    likelihood : Distributional
    n_second : int
        Its intercept among them, which is the last.
    **options
        As of `LinearModel`.
    """

    def __init__(self, likelihood: Any, *, n_second: int, **options: Any) -> None:
        super().__init__(likelihood, **options)
        self.n_second = n_second

    @property
    def _at(self) -> tuple[Array, Array]:
        """Coordinates of the weights of each latent."""
        index = np.arange(self.width)
        second = (index >= self.n_fixed - self.n_second) & (index < self.n_fixed)
        return np.flatnonzero(~second), np.flatnonzero(second)

    @property
    def of_second(self) -> Array:
        """Coordinates of the weights of the second latent."""
        return self._at[1]

    def message_shapes(self, n: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Shapes of the linear and the quadratic part of n messages."""
        return (n, 2), (n, 2, 2)

    def _pair(self, rows: Any) -> PairRows:
        A, at = rows.dense(), self._at
        return PairRows((A[:, at[0]], A[:, at[1]]), at)

    # ---- latents and gradients
    def _project(self, rows: Any, weights: Any) -> tuple[Array, Array]:
        return self._pair(rows).moments(weights)

    def _project_mean(self, rows: Any, weights: Any) -> Array:
        return self._pair(rows).dots(weights.mean)

    def _latents_at(self, rows: Any, draws: Array, offset: Array | None) -> Array:
        f = self._pair(rows).dots(draws)
        return f if offset is None else f + offset

    def _pull(self, rows: Any, alpha: Array, gamma: Array) -> tuple[Array, Array]:
        pair = self._pair(rows)
        return pair.pulled(alpha), pair.gram(gamma)

    def pull_back_mean(self, terms: Any, batch: Any) -> Array:
        """The gradient in the mean alone: no Gram product."""
        return self._pair(batch.rows).pulled(terms.alpha)

    def with_offset(self, latents: Array, offset: Array | None) -> Array:
        """Latents (n, ..., 2), the first with the offsets (n,) of their rows."""
        return latents + super().with_offset(np.zeros_like(latents), offset) * OF_MEAN.astype(latents.dtype)

    def with_unseen(self, variance: Array, X: Any) -> Array:
        """Covariance (n, 2, 2), that of f with what the weights say nothing of."""
        return variance + self.unseen_variance(X)[:, None, None] * np.diag(OF_MEAN)

    def predict_latent(self, weights: Any, X: Any, offset: Array | None = None) -> tuple[Array, Array]:
        """Mean (n, 2) and covariance (n, 2, 2) of both latents of the rows of X."""
        m, v = self._project(design(X, self.fit_intercept, False), weights)
        return self.with_offset(m, offset), self.with_unseen(v, X)

    def latents_at(self, draws: Array, X: Any) -> tuple[Array, Array]:
        """Latents of the rows of X at each draw of the weights, (n, S, 2), and variances (n, 2) they have besides."""
        found = self._pair(design(X, self.fit_intercept, False)).dots(draws)
        return np.moveaxis(found, 0, 1), self.unseen_variance(X)[:, None] * OF_MEAN

    # ---- the start
    def _mean_without_columns(self) -> Array:
        """Weights at zero, both intercepts at their prior mean."""
        mean = super()._mean_without_columns()
        mean[self.n_fixed - 1] = self.named.mean[-1]  # type: ignore[union-attr]  # the second intercept is named
        return mean

    def _best_intercept(self, data: Table) -> float:
        few = starting(data, self.likelihood.traits.by_moments)
        own = few if few.offset is None else replace(few, offset=few.offset[:, 0])
        return best_constant(self.likelihood.likelihood, own)

    def _start(self, data: Table, mean: Array, prior: Array, threads: int) -> Any:
        """Prior precision plus the mean curvature of rows at the start, as if the latents were independent."""
        part = data.take(slice(None, None, max(1, len(data) // max(START_ROWS, 4 * len(mean)))))
        rows = design(part.X, self.fit_intercept, False)
        f = part.on(self._pair(rows).dots(mean))
        bend = np.average(self.likelihood.derivatives(part.y, f)[2], axis=0, weights=part.weight)
        weight = np.ones(len(part)) if part.weight is None else part.weight
        gamma = np.einsum("n,k,kj->nkj", weight, np.minimum(bend, 0.0), np.eye(2))
        gamma *= data.total_weight / part.total_weight
        return informed_block(mean, prior, self._pull(rows, np.zeros(f.shape), gamma)[1])
