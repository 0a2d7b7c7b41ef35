"""The likelihood of all rows of a local node: what integrals over the node ask of it, as if it were of one row."""

from __future__ import annotations

from typing import Any

import numpy as np

from sksvi.likelihoods.base import Likelihood
from sksvi.likelihoods.traits import LikelihoodTraits

Array = np.ndarray


class GroupLikelihood:
    """Π p(y_i | f_k + offset_i) over the rows i of each element k; its "data" are numbers of elements.

    Parameters
    ----------
    likelihood : Likelihood
        Log-concave in f.
    y, offset : ndarray of shape (n,)
        Of all rows.
    element : ndarray of int of shape (n,)
        Of each row.

    Attributes
    ----------
    elements : ndarray
        Those that have rows; only these are asked for.
    """

    scale_mixture = None
    noise_variance = None

    def __init__(self, likelihood: Likelihood, y: Array, offset: Array, element: Array) -> None:
        order = np.argsort(element, kind="stable")
        self.likelihood, self.y, self.offset = likelihood, y[order], offset[order]
        self.elements, first, count = np.unique(element[order], return_index=True, return_counts=True)
        size = 1 + int(element.max())
        self.first, self.count = np.zeros((2, size), int)
        self.first[self.elements], self.count[self.elements] = first, count

    @property
    def traits(self) -> LikelihoodTraits:
        """Traits of one row: sums of concave functions are concave, and poles stay where they are."""
        return self.likelihood.traits

    @property
    def width(self) -> float:
        """Width of one row: how far off its nearest pole is."""
        return self.likelihood.width

    def _rows(self, k: Array) -> tuple[Array, Array]:
        """Rows of the elements k one after the other, and where those of each begin."""
        count = self.count[k]
        starts = np.concatenate([[0], np.cumsum(count)[:-1]])
        return np.repeat(self.first[k] - starts, count) + np.arange(count.sum()), starts

    def _summed(self, function: Any, k: Array, f: Array) -> Any:
        """Sum of arrays (..., n) that a function of (y, f) gives, over the rows of each element."""
        k = np.asarray(k, int)
        rows, starts = self._rows(k)
        f = np.broadcast_to(f, (*np.shape(f)[:-1], len(k)))
        found = function(self.y[rows], np.repeat(f, self.count[k], axis=-1) + self.offset[rows])
        parts = found if isinstance(found, tuple) else (found,)
        sums = tuple(np.add.reduceat(part, starts, axis=-1) for part in parts)
        return sums if isinstance(found, tuple) else sums[0]

    def log_prob(self, k: Array, f: Array) -> Array:
        """Log likelihood of the rows of each element at f (..., K)."""
        return np.asarray(self._summed(self.likelihood.log_prob, k, f))

    def derivatives(self, k: Array, f: Array) -> tuple[Array, Array, Array]:
        """The log likelihood and its first and second derivative in f."""
        value, slope, curve = self._summed(lambda y, f: tuple(self.likelihood.derivatives(y, f)), k, f)
        return value, slope, curve

    def d2(self, k: Array, f: Array) -> Array:
        """Second derivative in f."""
        return np.asarray(self._summed(self.likelihood.d2, k, f))

    def centre(self, k: Array) -> Array:
        """Mean over the rows of where each bends most."""
        k = np.asarray(k, int)
        rows, starts = self._rows(k)
        each = np.atleast_2d(self.likelihood.centre(self.y[rows])).mean(0) - self.offset[rows]
        return np.add.reduceat(each, starts) / self.count[k]

    def log_predictive_derivatives(self, k: Array, u: Array, w2: Array) -> None:
        """No closed form."""
