"""The posterior of the groups' standard deviations: a point estimate of a variance is not its posterior."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

Array = np.ndarray

#: Most passes to settle q(w) at other scales, and the change in nats at which it has settled.
SETTLING_PASSES, SETTLED = 50, 0.3


@dataclass(frozen=True)
class LogScales:
    """Nodes (k, P) of log standard deviations and their weights (k,): a discrete stand-in for q(h)."""

    nodes: Array
    weights: Array

    @property
    def mean(self) -> Array:
        """E s, (P,)."""
        return self.weights @ np.exp(self.nodes)

    @property
    def mean_square(self) -> Array:
        """E s², (P,): the variance of a level that no row has named."""
        return self.weights @ np.exp(2.0 * self.nodes)

    @property
    def std(self) -> Array:
        """Standard deviation of s, (P,)."""
        return np.sqrt(np.maximum(self.mean_square - np.square(self.mean), 0.0))
