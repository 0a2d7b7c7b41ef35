"""What a mixture has to beat: columns by themselves, and expectation maximisation with a given number of components."""

from __future__ import annotations

import numpy as np
from scipy.special import logsumexp, softmax

from benchmarks._lib import Array


class Columns:
    """Independent columns, probabilities with one count added to each value."""

    n_components_ = 1

    def fit(self, X: Array) -> Columns:
        """Counts of the seen cells."""
        seen = ~np.isnan(X)
        self.means_ = ((np.nansum(X, 0) + 1.0) / (seen.sum(0) + 2.0))[None]
        self.weights_ = np.ones(1)
        return self

    def logs(self, X: Array) -> Array:
        """Log of weight times probability of the seen cells, (n, K)."""
        seen, ones = ~np.isnan(X), np.nan_to_num(X)
        high, low = np.log(self.means_), np.log1p(-self.means_)
        return ones @ (high - low).T + seen @ low.T + np.log(self.weights_)

    def score(self, X: Array) -> float:
        """Mean log density of rows."""
        return float(logsumexp(self.logs(X), axis=1).mean())

    def predict(self, X: Array) -> Array:
        """The most probable component."""
        return self.logs(X).argmax(1)


class EM(Columns):
    """Expectation maximisation from random responsibilities, one count added to each value.

    Parameters
    ----------
    n_components : int
    passes : int
    """

    def __init__(self, n_components: int, passes: int = 60) -> None:
        self.n_components_, self.passes = n_components, passes

    def fit(self, X: Array) -> EM:
        """So many passes."""
        seen, ones = (~np.isnan(X)).astype(float), np.nan_to_num(X)
        shares = np.random.default_rng(0).dirichlet(np.ones(self.n_components_), len(X))
        for _ in range(self.passes):
            self.means_ = (shares.T @ ones + 1.0) / (shares.T @ seen + 2.0)
            self.weights_ = (shares.sum(0) + 1e-2) / (len(X) + 1e-2 * self.n_components_)
            shares = softmax(self.logs(X), axis=1)
        return self
