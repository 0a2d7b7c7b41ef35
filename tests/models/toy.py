"""A model of one's own, from the seams that are documented alone: doc/add_a_model.md explains it line by line.

Counts y_i ~ Poisson(λ z_i) with one rate λ ~ Gamma(shape, rate) and a factor per row, z_i ~ Gamma(a, a) of mean 1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln

from sksvi.families import Gamma
from sksvi.models.base import Local
from sksvi.models.data import InMemory

#: Rows whose sum is formed at once.
CHUNK_ROWS = 256


@dataclass(frozen=True)
class Counts(InMemory):
    """The data: counts (n,), and how many rows each stands for (None: one)."""

    y: np.ndarray
    weight: np.ndarray | None = None

    def __len__(self):
        return len(self.y)

    @property
    def total_weight(self):
        """The N of every formula."""
        return float(len(self) if self.weight is None else self.weight.sum())

    def take(self, rows):
        """These rows."""
        return Counts(self.y[rows], None if self.weight is None else self.weight[rows])


@dataclass
class Terms:
    """Per row: its part of the bound (nats), E z_i, and its gradient in (E log λ, E λ)."""

    value: np.ndarray
    local: np.ndarray
    gradient: np.ndarray
    repairs: int = 0


class GammaPoisson(Local):
    """Overdispersed counts: block "rate" is q(λ), a Gamma; q(z_i) = Gamma(a + y_i, a + E λ) is local.

    Parameters
    ----------
    shape, rate : float
        Of the prior of λ.
    a : float
        Of the factors of the rows, whose variance is 1/a.
    """

    def __init__(self, shape, rate, a):
        self.shape, self.rate, self.a = shape, rate, a

    def prior(self, q):
        """Of every block that has one."""
        return {"rate": Gamma([self.shape], [self.rate])}

    def begin(self, data, rng, threads=1):
        """The first q: the prior, as if one row had been seen."""
        return {"rate": Gamma([self.shape + np.average(data.y, weights=data.weight)], [self.rate + 1.0])}

    def local_begin(self, data):
        """E z_i before any look at the data."""
        return np.ones(len(data))

    def chunks(self, rows, data):
        """Rows by number, a fixed count at a time: their sums may be formed by any thread."""
        numbers = np.arange(len(data))[rows]
        return [numbers[first : first + CHUNK_ROWS] for first in range(0, len(numbers), CHUNK_ROWS)]

    def batch(self, data, rows, start=None):
        """The counts of a chunk; `start`, the last E z_i, is of no use to a local optimum in closed form."""
        return data.take(rows)

    def view(self, q, rng):
        """What rows read of q: E log λ and E λ."""
        return q["rate"].moments[0]

    def terms(self, view, batch, expect, rng):
        """Each row at its own optimum q(z_i) = Gamma(shape, rate); nothing is summed yet."""
        mean_log, mean = view
        y, a = batch.y, self.a
        shape, rate = a + y, a + mean
        value = y * mean_log + gammaln(shape) - gammaln(a) + a * np.log(a) - shape * np.log(rate) - gammaln(y + 1)
        local = shape / rate
        weight = np.ones(len(y)) if batch.weight is None else batch.weight
        return Terms(weight * value, local, weight[:, None] * np.stack([y, -local], -1))

    def pull_back(self, terms, batch):
        """The sum: the gradient of block "rate" in its moments, (1, 2)."""
        return {"rate": (terms.gradient.sum(0, keepdims=True),)}
