"""An array that is learned along the gradient of the bound: kernel hyperparameters, inducing inputs."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray


class Free:
    """A learned array without prior and without spread.

    A :class:`Point` takes Newton steps with the curvature of its data; a free block has only a gradient.

    Parameters
    ----------
    value : ndarray of any shape
        Unconstrained coordinates.

    Examples
    --------
    >>> import numpy as np
    >>> from sksvi.families import Free
    >>> Free(np.zeros(2)).blended(Free(np.ones(2)), 0.25).value
    array([0.25, 0.25])
    """

    kind = "free"
    full = False

    def __init__(self, value: Array) -> None:
        self.value = np.asarray(value, float)

    def prepare(self) -> None:
        """Nothing to factor."""

    @property
    def mean(self) -> Array:
        """The value."""
        return self.value

    @property
    def std(self) -> Array:
        """Zero: a point has no spread."""
        return np.zeros_like(self.value)

    def sample(self, n: int = 1, random_state: Any = None) -> Array:
        """The value, n times."""
        return np.repeat(self.value[None], n, axis=0)

    def blended(self, other: Free, weight: float) -> Free:
        """(1 - weight) of this value plus weight of the other's."""
        return Free((1 - weight) * self.value + weight * other.value)
