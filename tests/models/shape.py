"""A model that is not conjugate, from the seams that are documented alone: doc/add_a_model.md ends with it.

Positive numbers y_n ~ Gamma(z, 1) whose shape z ~ Gamma(shape, rate) is not known. Σ z log y_n is conjugate to z, and
-N log Γ(z) is not: its part of the gradient comes from its slopes -N ψ(z) at the nodes of q(z).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import digamma, gammaln

from sksvi.families import Gamma
from sksvi.models.base import Model
from sksvi.models.data import InMemory


@dataclass(frozen=True)
class Numbers(InMemory):
    """The data: y (n,) > 0."""

    y: np.ndarray
    weight: None = None

    def __len__(self):
        return len(self.y)

    @property
    def total_weight(self):
        """The N of every formula."""
        return float(len(self))

    def take(self, rows):
        """These rows."""
        return Numbers(self.y[rows])


@dataclass
class Terms:
    """The value of all rows together (nats), and its gradient in (E log z, E z)."""

    value: np.ndarray
    gradient: np.ndarray
    repairs: int = 0


class GammaShape(Model):
    """Block "shape" is q(z), a Gamma; `begins` is its first q."""

    def __init__(self, shape, rate, begins):
        self.shape, self.rate, self.begins = shape, rate, begins

    def prior(self, q):
        """Of the one block."""
        return {"shape": Gamma([self.shape], [self.rate])}

    def begin(self, data, rng, threads=1):
        """The first q."""
        return {"shape": Gamma([self.begins[0]], [self.begins[1]])}

    def chunks(self, rows, data):
        """All rows at once: they are a few sums."""
        return [np.arange(len(data))[rows]]

    def batch(self, data, rows, start=None):
        """How many rows, Σ log y and Σ y."""
        y = data.y[rows]
        return len(y), np.log(y).sum(), y.sum()

    def terms(self, view, batch, expect, rng):
        """Both parts: z Σ log y is linear in E z; E log Γ(z) and its gradient are taken at the nodes of q."""
        n, sum_log, total = batch
        q = view["shape"]
        nodes = q.nodes()
        value = (q.mean - 1.0) * sum_log - total - n * nodes.average(gammaln(nodes.value))
        (gradient,) = q.of_draws(nodes, lambda z: -n * digamma(z))
        return Terms(value, gradient + np.array([0.0, sum_log]))

    def pull_back(self, terms, batch):
        """The gradient in the moments of the block, (1, 2)."""
        return {"shape": (terms.gradient,)}
