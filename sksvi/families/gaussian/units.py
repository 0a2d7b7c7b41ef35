"""Weights in the units of the user's columns: a fit works with columns that are centred and on their own scale."""

from __future__ import annotations

from typing import Any

import numpy as np

from sksvi._typing.arrays import RandomState
from sksvi.families.gaussian.normal import Normal
from sksvi.families.gaussian.structures import lower_root

Array = np.ndarray


class InUnits(Normal):
    """Weights w = u / scale and an intercept b = a - centreᵀw, for a posterior `inner` of (u, a).

    Since uᵀ(x - centre) / scale + a = wᵀx + b, it is the same latent in other coordinates. Rows with a large common
    value are better projected in the inner ones: there nothing cancels.

    Parameters
    ----------
    inner : Gaussian block
        Of D weights, and the intercept last where there is one; its plates are the plates of this block.
    centre, scale : ndarray of shape (D,)

    Examples
    --------
    >>> import numpy as np
    >>> from sksvi.families import DiagonalGaussian, InUnits
    >>> q = InUnits(DiagonalGaussian(np.array([2.0, 5.0]), np.array([1.0, 4.0])), np.array([10.0]), np.array([2.0]))
    >>> q.mean, q.std
    (array([ 1., -5.]), array([0.5       , 5.02493781]))
    """

    LAYOUT = "scale (d) f >0; centre (d) f; inner Family; inner.mean (…,d|d+1)"

    def __init__(self, inner: Any, centre: Array, scale: Array) -> None:
        self.inner, self.centre, self.scale = inner, centre, scale

    def _lift(self, z: Array) -> Array:
        """Inner coordinates (..., D + extra) in the user's units."""
        d = len(self.scale)
        w = z[..., :d] / self.scale
        return np.concatenate([w, z[..., d:] - (w @ self.centre)[..., None]], axis=-1)

    def inner_rows(self, rows: Array) -> Array:
        """Rows a (n, D + extra) as those c for which aᵀ(w, b) = cᵀ(u, a)."""
        d = len(self.scale)
        return np.concatenate([(rows[:, :d] - rows[:, d:].sum(1)[:, None] * self.centre) / self.scale, rows[:, d:]], 1)

    def around(self, block: Any, prior_std: float = 1.0) -> InUnits:
        """The view of another block in the same units."""
        return InUnits(self.inner.around(block, prior_std), self.centre, self.scale)

    def prepare(self) -> None:
        """Factor the inner block."""
        self.inner.prepare()

    def __getitem__(self, plate: int) -> InUnits:
        """The view of one plate."""
        return InUnits(self.inner[plate], self.centre, self.scale)

    def contrast(self, plate: int, other: int) -> InUnits:
        """The distribution of one plate less another."""
        return InUnits(self.inner.contrast(plate, other), self.centre, self.scale)

    @property
    def mean(self) -> Array:  # type: ignore[override]
        """(..., D + extra)."""
        return self._lift(self.inner.mean)

    @property
    def variance(self) -> Array:
        """Diagonal of S, (..., D + extra)."""
        d, inner = len(self.scale), self.inner.variance
        w = inner[..., :d] / np.square(self.scale)
        if inner.shape[-1] == d or not self.centre.any():
            return np.concatenate([w, inner[..., d:]], axis=-1)
        row = self.inner_rows(np.append(np.zeros(d), 1.0)[None])
        plates = [self.inner] if inner.ndim == 1 else [self.inner[k] for k in range(len(inner))]
        b = np.stack([plate.spread(row) for plate in plates])
        return np.concatenate([w, b.reshape(*inner.shape[:-1], 1)], axis=-1)

    @property
    def cov(self) -> Array:
        """S, (..., D + extra, D + extra): formed when asked for."""
        half = self._lift(self.inner.cov)
        return self._lift(np.swapaxes(half, -1, -2))

    @property
    def root(self) -> Array:
        """C lower triangular, S = CᵀC."""
        if self.mean.ndim > 1:
            return np.stack([self[k].root for k in range(len(self.mean))])
        return lower_root(self.inner.uncoloured(self.inner_rows(np.eye(len(self.mean)))))

    def spread(self, rows: Array) -> Array:
        """a S aᵀ for each row a of (n, D + extra)."""
        return self.inner.spread(self.inner_rows(rows))

    def crossed(self, rows: Array) -> Array:
        """Covariance (K, m, K, m) of A w between classes, for rows A (m, D + extra)."""
        return self.inner.crossed(self.inner_rows(rows))

    def across(self) -> Array:
        """Covariance (D, K, K) between the classes of each weight, without what follows them."""
        return self.inner.across()[: len(self.scale)] / np.square(self.scale)[:, None, None]

    def shown(self, draws: Array) -> Array:
        """Draws of the block inside in the user's units."""
        return self._lift(self.inner.shown(draws))

    def sample(self, n: int = 1, random_state: RandomState = None) -> Array:
        """Draw (n, ..., D + extra)."""
        return self._lift(self.inner.sample(n, random_state))
