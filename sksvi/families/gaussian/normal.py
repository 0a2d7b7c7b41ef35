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

from sksvi.families.base import Draw, Family
from sksvi.families.gaussian.structures import DENSE, Structure

Array = np.ndarray


class Normal(Family):
    """A Gaussian in any coordinates."""

    column = "gaussian"
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

    def spread_of(self, rows: Any) -> Array:
        """diag(A S Aᵀ) for a row block A (`models.linear.rows`), by the way that is cheapest for both."""
        return self.structure.spread_of(self, rows)

    def kl(self, prior: Any) -> float:
        """KL(q ‖ prior), nats, summed over plates (equations.md 0)."""
        size = self.mean.size
        return 0.5 * (prior.expected_quadratic(self) - size - prior.log_det_precision() - self.log_det_cov())

    def sample(self, n: int = 1, random_state: Any = None) -> Array:
        """Draw (n, ..., P) from q."""
        from sklearn.utils import check_random_state

        z = check_random_state(random_state).standard_normal((n, *self.mean.shape))
        return self.mean + self.coloured(z)

    def drawn(self, rng: Any) -> Draw:
        """A draw m + Cᵀz; z is its source."""
        z = rng.standard_normal(self.mean.shape)
        return Draw(self.mean + self.coloured(z), z)
