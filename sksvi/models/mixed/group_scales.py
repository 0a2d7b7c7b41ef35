"""The posterior of the groups' standard deviations: a point estimate of a variance is not its posterior."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

Array = np.ndarray

#: Most passes to settle q(w) at other scales, and the change in nats at which it has settled.
SETTLING_PASSES, SETTLED = 50, 0.3


@dataclass(frozen=True)
class LogScales:
    """Nodes (k, P) of log standard deviations, their weights (k,), and variances (P,) about every node."""

    LAYOUT = "nodes (n,s) f; weights (n) f >=0; within? (s) f >=0 or no array"

    nodes: Array
    weights: Array
    within: Array | float = 0.0

    @property
    def mean(self) -> Array:
        """E s, (P,)."""
        return self.weights @ np.exp(self.nodes) * np.exp(0.5 * self.within)

    @property
    def mean_square(self) -> Array:
        """E s², (P,): the variance of a level that no row has named."""
        return self.weights @ np.exp(2.0 * self.nodes) * np.exp(2.0 * self.within)

    @property
    def std(self) -> Array:
        """Standard deviation of s, (P,): within nodes and between them, so that a point has none."""
        means = np.exp(self.nodes + 0.5 * self.within)
        variances = np.square(means) * np.expm1(self.within) + np.square(means - self.weights @ means)
        return np.sqrt(self.weights @ variances)
