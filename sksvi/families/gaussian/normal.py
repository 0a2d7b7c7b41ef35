"""What every Gaussian block answers, given its mean and C, S = CᵀC.

Conventions. ``P`` is the number of coordinates, ``...`` the plates. Every class answers the same questions: ``mean``
(..., P), ``variance`` (..., P), ``std``, ``cov`` (..., P, P), ``root`` (lower triangular C, a vector of standard
deviations, or what the structure has), ``kl``, ``sample``. They differ in the coordinates they are held in, because a
step should not convert: :mod:`dense` holds mean and precision (natural steps), :mod:`standard` mean and C (gradient
steps).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sksvi._typing.arrays import RandomState
from sksvi.families.base import RULE_NODES, Draw, Family
from sksvi.families.gaussian.structures import DENSE, DIAGONAL, Structure

Array = np.ndarray

#: Standard deviations that 64 nodes of a rule reach: the mass beyond is 1e-16.
NODES_REACH = 8.3
#: Draws per coefficient of a regression of slopes on draws.
DRAWS_PER_NUMBER = 2


class Normal(Family):
    """A Gaussian in any coordinates."""

    column = "gaussian"
    slopes_at_nodes = True
    structure: Structure = DENSE
    mean: Array
    root: Any

    @property
    def full(self) -> bool:  # type: ignore[override]
        """Whether coordinates are correlated."""
        return self.structure.full

    @property
    def std(self) -> Array:
        """Posterior standard deviations, (..., P)."""
        return np.sqrt(self.variance)

    @property
    def variance(self) -> Array:
        """Diagonal of S, (..., P)."""
        return self.structure.variance(self.root)

    @property
    def cov(self) -> Array:
        """S, (..., P, P)."""
        return self.structure.cov(self.root)

    @property
    def within(self) -> Any:
        """S on the pattern of the precision."""
        return self.structure.within(self.root)

    def prepare(self) -> None:
        """Factor now, and find what rows ask for, before threads do."""
        self.structure.prepare(self.root)

    def coloured(self, z: Array) -> Array:
        """Cᵀz: standard coordinates to a deviation from the mean."""
        return self.structure.coloured(self.root, z)

    def uncoloured(self, g: Array) -> Array:
        """C g: a gradient in the mean as gradient in standard coordinates."""
        return self.structure.uncoloured(self.root, g)

    def log_det_cov(self) -> float:
        """log |S| summed over plates, nats."""
        return self.structure.log_det(self.root)

    def spread(self, rows: Array) -> Array:
        """x S xᵀ for each row x of (n, P)."""
        return self.structure.spread(self.root, rows)

    def contrast(self, plate: int, other: int) -> Any:
        """The distribution of one plate less another, whose coordinates have no covariance: plates are independent."""
        assert not self.full and self.mean.ndim == 2
        precision = 1.0 / (self.variance[plate] + self.variance[other])
        return DIAGONAL.block(self.mean[plate] - self.mean[other], precision)

    def spread_of(self, rows: Any) -> Array:
        """diag(A S Aᵀ) for a row block A (`models.linear.rows`), by the way that is cheapest for both."""
        return self.structure.spread_of(self, rows)

    def crossed(self, rows: Array) -> Array:
        """Covariance (K, m, K, m) of A w for rows A (m, P), K = 1 without plates, which are independent."""
        if self.mean.ndim > 1:
            out = np.zeros((len(self.mean), len(rows)) * 2)
            for k in range(len(out)):
                out[k, :, k] = self[k].crossed(rows)[0, :, 0]
            return out
        half = self.uncoloured(rows)
        return (half @ half.T)[None, :, None, :]

    def across(self) -> Array:
        """Covariance (P, K, K) between the plates of each coordinate: they are independent."""
        return self.variance.T[..., None] * np.eye(len(self.variance))

    def around(self, block: Any, prior_std: float = 1.0) -> Any:
        """What a view of this block shows of another: the block itself."""
        return block

    # ---- expectations under one coordinate at a time
    def nodes(self, n: int = RULE_NODES) -> Draw:
        """Nodes (n, ..., P) and weights of the trapezoidal rule for each coordinate; standard nodes are the source."""
        reach = NODES_REACH * min(1.0, (n / RULE_NODES) ** 0.25)
        z = np.linspace(-reach, reach, n).reshape(-1, *[1] * self.mean.ndim)
        weight = np.exp(-0.5 * np.square(z))
        value = self.mean + self.std * z
        return Draw(value, np.broadcast_to(z, value.shape), np.broadcast_to(weight / weight.sum(), value.shape))

    def of_draws(self, draws: Draw, slope: Any) -> tuple[Array, Array]:
        """Gradient of E f in the moments: at nodes E f' and ½ E f' z / sd per coordinate; at draws f' regressed on x.

        Half of the regression is the gradient in the covariance, so that what is conjugate, a slope linear in x, is
        found without noise. Fewer draws than `DRAWS_PER_NUMBER` per coefficient are averaged one by one.
        """
        slope = slope(draws.value) if callable(slope) else slope
        if draws.weight is not None:
            return draws.average(slope), self._on_diagonal(draws.average(slope * draws.source) / self.std)
        least = DRAWS_PER_NUMBER * (1 + (self.mean.shape[-1] if self.full else 1))
        if not isinstance(self.root, np.ndarray) or len(draws.value) < least:
            return super().of_draws(draws, slope)
        away = draws.value.mean(0)
        x, s = draws.value - away, slope - slope.mean(0)
        if self.full:
            square, cross = (np.einsum("n...j,n...k->...jk", x, part) for part in (x, s))
            bend = np.linalg.solve(square, cross)
            bend = 0.5 * (bend + np.swapaxes(bend, -1, -2))
            shift = np.einsum("...jk,...k->...j", bend, away - self.mean)
        else:
            bend = np.sum(x * s, 0) / np.sum(x * x, 0)
            shift = bend * (away - self.mean)
        return slope.mean(0) - shift, 0.5 * bend

    def of_values(self, nodes: Draw, values: Array) -> tuple[Array, Array]:
        """E f z / sd in the mean and ½ E f (z² - 1) / sd² in the variance of each coordinate."""
        curvature = nodes.average(values * (np.square(nodes.source) - 1.0)) / self.variance
        return nodes.average(values * nodes.source) / self.std, self._on_diagonal(curvature)

    def _on_diagonal(self, curvature: Array) -> Array:
        """Half of it as the gradient in the covariance."""
        return 0.5 * curvature[..., None] * np.eye(curvature.shape[-1]) if self.full else 0.5 * curvature

    def kl(self, prior: Any) -> float:
        """KL(q ‖ prior), nats, summed over plates (equations.md 0)."""
        size = self.mean.size
        return 0.5 * (prior.expected_quadratic(self) - size - prior.log_det_precision() - self.log_det_cov())

    def sample(self, n: int = 1, random_state: RandomState = None) -> Array:
        """Draw (n, ..., P) from q."""
        from sklearn.utils import check_random_state

        z = check_random_state(random_state).standard_normal((n, *self.mean.shape))
        return self.mean + self.coloured(z)

    def draws_against(self, prior: Any, n: int, random_state: RandomState = None) -> tuple[Array, Array]:
        """Draws (n, ..., P) and log q - log prior at each, for a prior that is held by its precision."""
        from sklearn.utils import check_random_state

        z = check_random_state(random_state).standard_normal((n, *self.mean.shape))
        draws = self.mean + self.coloured(z)
        away, axes = draws - prior.mean, tuple(range(1, z.ndim))
        squares = np.sum(away * prior.dot(away), axis=axes) - np.sum(np.square(z), axis=axes)
        return draws, 0.5 * (squares - prior.log_det_precision() - self.log_det_cov())

    def shown(self, draws: Array) -> Array:
        """Draws of the block that a fit holds, (S, ...), as this view of it has them: here they are the same."""
        return draws

    def drawn(self, rng: np.random.Generator) -> Draw:
        """A draw m + Cᵀz; z is its source."""
        z = rng.standard_normal(self.mean.shape)
        return Draw(self.mean + self.coloured(z), z)
