"""Latents that are linear in one Gaussian block, one or several per datum: what GLM and sparse GP share."""

from __future__ import annotations

from functools import cached_property, partial
from typing import Any

import numpy as np

from sksvi._runtime import parallel
from sksvi.families import ClassGaussian
from sksvi.models.base import Blocks, Linear, LinearTerms
from sksvi.models.linear.rows import DenseRows, SparseRows, project, project_mean, pull_back, pull_back_classes
from sksvi.models.traits import BoundTraits, Traits

Array = np.ndarray


class LinearLatents(Linear):
    """The block's shape, the moments of A w, and gradients pulled back through the rows A.

    A subclass has ``likelihood``, ``unit`` (of a measured target), ``full`` (the covariance of q) and ``width``
    (weights of one latent, P).
    """

    full: bool
    unit: float
    _class_moments: tuple[Any, Array, Array] | None = None

    def __getstate__(self) -> dict[str, Any]:
        """The state without what is found again from the weights, which is larger than they are."""
        return {**vars(self), "_class_moments": None}

    @property
    def width(self) -> int:
        """Weights of one latent, P."""
        raise AttributeError(f"{type(self).__name__} has no width")

    @property
    def joint(self) -> bool:
        """Whether one full block spans the weights of several latents.

        A softmax does not feel a shift common to all classes, so that weights of different classes are strongly
        correlated: blocks per class would report a fraction of the spread (coverage of 90 % intervals near 50 %).
        """
        return bool(self.full and self.likelihood.n_latents > 1)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the mean of the weights."""
        return self.shape_of(self.width)

    def shape_of(self, width: int) -> tuple[int, ...]:
        """Shape of the mean of P weights per latent: (P,), jointly over K latents (K P,), else (K, P)."""
        k = self.likelihood.n_latents
        return (k * width,) if k == 1 or self.joint else (k, width)

    def message_shapes(self, n: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Shapes of the linear and the quadratic part of n messages."""
        k = self.likelihood.n_latents
        linear = (n,) if k == 1 else (n, k)
        return linear, (*linear, k) if self.joint else linear

    @cached_property
    def traits(self) -> Traits:  # type: ignore[override]
        """The bound of several latents has the relative error of its deterministic rule, quasi-Monte Carlo."""
        slack = 0.0 if self.likelihood.n_latents == 1 else 1e-6
        return Traits(BoundTraits(seeded=False, slack=slack, log_unit=float(np.log(self.unit))))

    def by_latent(self, values: Array) -> Array:
        """Values per weight as (K, P)."""
        return values.reshape(self.likelihood.n_latents, -1)

    def _project(self, rows: DenseRows | SparseRows, weights: Any) -> tuple[Array, Array]:
        """Mean and (co)variance of the latents, without offset."""
        if not self.joint:
            return project(rows, weights)
        cached = self._class_moments
        if cached is None or cached[0] is not weights:  # the same for all blocks of rows
            classes = ClassGaussian(weights, self.likelihood.n_latents)
            cached = self._class_moments = weights, classes.mean, classes.cov_blocks
        return rows.classes(*cached[1:])

    def _project_mean(self, rows: DenseRows | SparseRows, weights: Any) -> Array:
        """Mean of the latents, without offset."""
        return project_mean(rows, weights.mean if self.likelihood.n_latents == 1 else self.by_latent(weights.mean))

    def _latents_at(self, rows: Any, draws: Array, offset: Array | None) -> Array:
        """Latents at draws (S, ...) of the main block, (S, n) or (S, n, K)."""
        k = self.likelihood.n_latents
        found = rows.dots(draws.reshape(len(draws) * k, -1)).T.reshape(len(draws), k, -1)
        f = found[:, 0] if k == 1 else np.moveaxis(found, 1, 2)
        return f if offset is None else f + offset.reshape(-1, *[1] * (f.ndim - 2))

    def _pull(self, rows: DenseRows | SparseRows, alpha: Array, gamma: Array) -> tuple[Array, Array]:
        """Gradient in the mean and the covariance of the weights."""
        return pull_back_classes(rows, alpha, gamma) if self.joint else pull_back(rows, alpha, gamma, self.full)

    def pull_back_mean(self, terms: LinearTerms, batch: Any) -> Array:
        """The gradient in the mean alone: no Gram product."""
        if terms.alpha.ndim == 1:
            return batch.rows.pull(terms.alpha).astype(float, copy=False)
        stacked = np.stack([batch.rows.pull(alpha).astype(float, copy=False) for alpha in terms.alpha.T])
        return stacked.ravel() if self.joint else stacked

    def best_mean(self, q: Blocks, prior: Any, data: Any, expect: Any, scale: float, threads: int, steps: int) -> Any:
        """The main block with the mean that is best at its covariance, by L-BFGS in coordinates where q is standard."""
        from scipy.optimize import minimize

        block = q[self.main]
        block.prepare()
        variances = data.persist(partial(self._variances, q, threads))

        def negative(flat: Array) -> tuple[float, Array]:
            mean = block.mean + block.coloured(flat.reshape(block.mean.shape))
            here = {**q, self.main: type(block)(mean, block.precision, block.root)}

            g, value = data.reduced(partial(self._slope, here, expect, threads), beside=variances)
            delta = mean - prior.mean
            slope = g * scale - prior.dot(delta)
            value = (value + data.total_weight * self.traits.bound.log_unit) * scale  # L-BFGS looks at relative changes
            return 0.5 * float(np.sum(delta * prior.dot(delta))) - value, -block.uncoloured(slope).ravel()

        first = np.zeros(block.mean.size)
        best = minimize(negative, first, jac=True, method="L-BFGS-B", options={"gtol": 1e-5, "maxiter": steps})
        mean = block.mean + block.coloured(best.x.reshape(block.mean.shape))
        return type(block)(mean, block.precision, block.root)

    def _variances(self, q: Blocks, threads: int, data: Any) -> list[Array]:
        """Variance of the latents of every chunk."""
        chunks = self.chunks(slice(0, len(data)), data)
        return list(parallel.in_order(lambda rows: self.latent_variance(q, self.batch(data, rows)), chunks, threads))

    def _slope(self, q: Blocks, expect: Any, threads: int, data: Any, variances: list[Array]) -> tuple[Array, float]:
        """Gradient in the mean of the main block and E log p at known variances."""

        def one(item: tuple[Any, Array]) -> tuple[Array, float]:
            batch = self.batch(data, item[0])
            terms = self.terms_at(q, batch, expect, None, item[1])
            return self.pull_back_mean(terms, batch), float(terms.value.sum())

        chunks = self.chunks(slice(0, len(data)), data)
        return parallel.summed(one, list(zip(chunks, variances, strict=True)), threads)

    def latent_variance(self, q: Blocks, batch: Any) -> Array:
        """(Co)variance of the latents of a chunk."""
        raise AttributeError(f"{type(self).__name__} has no latent_variance")

    def terms_at(self, q: Blocks, batch: Any, expect: Any, rng: Any, variance: Array | None) -> LinearTerms:
        """`terms` where the latents' variance is known already."""
        raise AttributeError(f"{type(self).__name__} has no terms_at")

    def exposed(self, weights: Any) -> Any:
        """The weights as users see them: classes as plates."""
        return ClassGaussian(weights, self.likelihood.n_latents) if self.joint else weights


def moments(rows: Any, weights: Any, n_latents: int) -> tuple[Array, Array]:
    """Mean and (co)variance of A w for weights as users see them: (n,), (n, K), or jointly (n, K) and (n, K, K)."""
    return weights.latents(rows) if weights.full and n_latents > 1 else project(rows, weights)


def as_matrices(v: Array) -> Array:
    """Variances of K independent latents as covariances, (n, K, K): one rule serves both; others as they are."""
    return v[..., None] * np.eye(v.shape[1]) if v.ndim == 2 else v


def like(gamma: Array, v: Array) -> Array:
    """gamma in the form of v: its diagonal where the latents are independent."""
    return np.diagonal(gamma, axis1=1, axis2=2) if v.ndim == 2 else gamma
