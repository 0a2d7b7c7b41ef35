"""A Gaussian over the weights of all classes at once, seen class by class."""

from __future__ import annotations

from typing import Any

import numpy as np

from sksvi.families.gaussian.dense import Gaussian, _inverse_factor

Array = np.ndarray


class ClassGaussian:
    """N(m, S) over K x P weights with the K classes as plates: what a softmax fit leaves behind.

    Parameters
    ----------
    joint : Gaussian
        Of K * P coordinates, class by class.
    n_classes : int

    Examples
    --------
    >>> import numpy as np
    >>> from sksvi.families import ClassGaussian, Gaussian
    >>> q = ClassGaussian(Gaussian(np.zeros(4), np.eye(4)), 2)
    >>> q.mean.shape, q.cov.shape, q.joint.cov.shape
    ((2, 2), (2, 2, 2), (4, 4))
    """

    kind = "gaussian"
    one_number = False
    full = True
    through_rows = False

    def __init__(self, joint: Gaussian, n_classes: int) -> None:
        self.joint, self.n_classes = joint, n_classes

    def prepare(self) -> None:
        """Factor the joint block."""
        self.joint.prepare()

    @property
    def mean(self) -> Array:
        """(K, P)."""
        return self.joint.mean.reshape(self.n_classes, -1)

    @property
    def variance(self) -> Array:
        """(K, P)."""
        return self.joint.variance.reshape(self.n_classes, -1)

    @property
    def std(self) -> Array:
        """(K, P)."""
        return np.sqrt(self.variance)

    @property
    def cov_blocks(self) -> Array:
        """Covariance between the weights of class k and those of class l, (K, K, P, P)."""
        k = self.n_classes
        return self.joint.cov.reshape(k, -1, k, self.mean.shape[1]).transpose(0, 2, 1, 3)

    @property
    def cov(self) -> Array:
        """Covariance of each class's own weights, (K, P, P)."""
        index = np.arange(self.n_classes)
        return self.cov_blocks[index, index]

    @property
    def root(self) -> Array:
        """C of each class's own weights, S = CᵀC, (K, P, P)."""
        return np.stack([_inverse_factor(np.linalg.inv(block)) for block in self.cov])

    def latents(self, rows: Any) -> tuple[Array, Array]:
        """Mean (n, K) and covariance (n, K, K) of the K latents of a row block (`models.projection`)."""
        return rows.classes(self.mean, self.cov_blocks)

    def sample(self, n: int = 1, random_state: Any = None) -> Array:
        """Draw (n, K, P), classes together."""
        return self.joint.sample(n, random_state).reshape(n, self.n_classes, -1)

    def lifted(self, lift: Array, off: Array, mean: Array) -> Gaussian:
        """The joint Gaussian whose precision is this one's through `lift` (P', P), plus `off` (P', P') per class."""
        k = self.n_classes
        blocks = self.joint.precision.reshape(k, -1, k, lift.shape[1])
        out = np.einsum("ai,kilj,bj->kalb", lift, blocks, lift, optimize=True)
        index = np.arange(k)
        out[index, :, index] += off
        return Gaussian(mean.ravel(), out.reshape(mean.size, mean.size))
