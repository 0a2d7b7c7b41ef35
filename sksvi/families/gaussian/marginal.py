"""Some coordinates of a Gaussian block, as users see them."""

from __future__ import annotations

from typing import Any

import numpy as np

from sksvi.families.gaussian.dense import _inverse_factor, _Normal

Array = np.ndarray


class Marginal(_Normal):
    """The marginal distribution of some coordinates of a joint Gaussian, which stays within reach as `joint`.

    Parameters
    ----------
    joint : Gaussian block
    index : ndarray of int, shape (P,)
        Coordinates of the joint block.

    Examples
    --------
    >>> import numpy as np
    >>> from sksvi.families import Gaussian, Marginal
    >>> joint = Gaussian(np.arange(3.0), np.diag([1.0, 4.0, 16.0]))
    >>> Marginal(joint, np.array([0, 2])).std
    array([1.  , 0.25])
    """

    full = True

    def __init__(self, joint: Any, index: Array) -> None:
        self.joint, self.index = joint, index

    def prepare(self) -> None:
        """Factor the joint block."""
        self.joint.prepare()

    @property
    def mean(self) -> Array:  # type: ignore[override]
        """(P,)."""
        return self.joint.mean[self.index]

    @property
    def variance(self) -> Array:
        """Marginal variances, (P,)."""
        return self.joint.variance[self.index]

    @property
    def cov(self) -> Array:
        """S of these coordinates, (P, P): rows of the joint one, formed when asked for."""
        unit = np.zeros((len(self.index), self.joint.mean.shape[-1]))
        unit[np.arange(len(self.index)), self.index] = 1.0
        half = self.joint.uncoloured(unit)
        return half @ half.T

    @property
    def root(self) -> Array:  # type: ignore[override]
        """C lower triangular, S = CᵀC."""
        return _inverse_factor(np.linalg.inv(self.cov))

    def sample(self, n: int = 1, random_state: Any = None) -> Array:
        """Draw (n, P)."""
        return self.joint.sample(n, random_state)[:, self.index]
