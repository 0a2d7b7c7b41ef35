"""Gaussian blocks held as mean and C, S = CᵀC: the coordinates of a gradient step."""

from __future__ import annotations

from typing import Any

import numpy as np

from sksvi.families.base import Draw, Message, NotPositiveDefinite
from sksvi.families.gaussian.normal import Normal
from sksvi.families.gaussian.structures import DENSE, DIAGONAL, Structure

Array = np.ndarray


class StandardGaussian(Normal):
    """N(m, CᵀC) held as mean and C (lower triangular, or a vector when diagonal): the block of a gradient step.

    Parameters
    ----------
    mean : ndarray of shape (..., P)
    root : ndarray of shape (..., P, P) or (..., P)

    Raises
    ------
    NotPositiveDefinite
        When the diagonal of C is not positive.

    Examples
    --------
    >>> import numpy as np
    >>> from sksvi.families import StandardGaussian
    >>> StandardGaussian(np.zeros(2), np.array([[1.0, 0.0], [0.5, 2.0]])).cov
    array([[1.25, 1.  ],
           [1.  , 4.  ]])
    """

    LAYOUT = "mean (…,D) f; root (…,D,D) f diag>0 or (…,D) f >0"

    natural_coordinates = False

    def __init__(self, mean: Array, root: Array) -> None:
        if not np.all((np.diagonal(root, axis1=-2, axis2=-1) if root.ndim > mean.ndim else root) > 0):
            raise NotPositiveDefinite("a standard deviation (diagonal of C) is not positive")
        self.mean, self.root = mean, root

    @property
    def structure(self) -> Structure:  # type: ignore[override]
        """Dense where C is a matrix."""
        return DENSE if self.root.ndim > self.mean.ndim else DIAGONAL

    @property
    def array_dims(self) -> dict[str, int]:  # type: ignore[override]
        """Mean and C."""
        return {"mean": 1, "root": self.structure.rank}

    def converted(self, block: Any) -> Any:
        """Another block held as mean and C."""
        return block.standard()

    def standard(self) -> StandardGaussian:
        """The block itself, which is held by its mean and root."""
        return self

    def natural_form(self) -> Any:
        """This distribution as a block held by its mean and precision."""
        if not self.full:
            return DIAGONAL.block(self.mean, 1.0 / np.square(self.root), self.root)
        inverse = np.linalg.inv(self.root)
        return DENSE.block(self.mean, inverse @ np.swapaxes(inverse, -1, -2), self.root)

    def over(self, prior: Any) -> Message:
        """What the data said."""
        return self.natural_form().over(prior)

    def standard_gradient(self, prior: Any, gradient: tuple[Array, Array]) -> tuple[Array, Array]:
        """Gradient of the bound in mean and C (equations.md 1, `standard`), KL included."""
        g, curvature = gradient
        in_mean = prior.dot(prior.mean - self.mean) + g
        if not self.full:
            return in_mean, 1.0 / self.root + self.root * (2.0 * curvature - prior.precision_like(self))
        entropy = np.eye(self.mean.shape[-1]) / np.diagonal(self.root, axis1=-2, axis2=-1)[..., None]
        return in_mean, np.tril(entropy + self.root @ (2.0 * curvature - prior.precision_like(self)))

    def of_slopes(self, draw: Draw, slope: Array) -> tuple[Array, Array]:
        """The gradient in the moments from slopes, as of the block held by its mean and precision."""
        return self.natural_form().of_slopes(draw, slope)
