"""The posterior of the groups' standard deviations: a point estimate of a variance is not its posterior."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

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

    def table(self, names: list[str], coverage: float) -> Any:
        """Mean, std and an interval from a log-normal of the same moments of log s."""
        import pandas as pd
        from scipy.special import ndtri

        centre = self.weights @ self.nodes
        half = ndtri(0.5 + coverage / 2) * np.sqrt(self.weights @ np.square(self.nodes - centre))
        columns = {"mean": self.mean, "std": self.std, "lower": np.exp(centre - half), "upper": np.exp(centre + half)}
        return pd.DataFrame(columns, index=names)
