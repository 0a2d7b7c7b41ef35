"""Scalar local nodes integrated out: the best bound that there is for a q of their parents.

For a local f_k ~ N(u_k, w_k), u_k and w_k of global nodes, with rows y_i, the term of the element is

    E_q log ∫ Π_i p(y_i | f) N(f | u_k, w_k) df,

equations (6) and (8) of Sheth and Khardon (2016) for networks. The integrals over f are those of mixed-effects models;
that over w_k is a rule for its node.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sksvi import likelihoods
from sksvi.expectations import Auto, Expectation
from sksvi.families import DiagonalGaussian, Rayleigh
from sksvi.integrals.rayleigh import rayleigh_trapezoid
from sksvi.models.base import Blocks, Gradient
from sksvi.models.mixed import noise_bounds
from sksvi.models.network.distributions import Gaussian, Likelihood
from sksvi.models.network.grouped import GroupLikelihood
from sksvi.models.network.model import Factor
from sksvi.models.network.slots import Slot, VarianceSlot, summed_slopes

Array = np.ndarray
#: Value by row, its derivatives in mean and variance of u, and the message to the node of the spread.
Terms = tuple[Array, Array, Array, tuple[Array, ...]]
#: Likelihood, data, and mean and variance of u by row.
RowInput = tuple[likelihoods.Likelihood, Array, Array, Array]

#: Points of the rule for a precision: values to 1e-8 nats, gradients to 1e-6 of themselves for shapes from 3.
POINTS = 24
#: Least shape of a Gamma precision that the rule serves: variances of a smaller one have no mean, nor an end.
LEAST_SHAPE = 1.0


class IntegratedFactor(Factor):
    """Data with a local Gaussian node integrated out given the nodes of its mean and its precision or variance.

    Parameters
    ----------
    name : str
        Of the local node.
    local : Gaussian
        What it is distributed as.
    size : int
        Its elements, K.
    child : Likelihood
        Of the data given the local node: an element for each row, or by index several rows for an element.
    y : ndarray of shape (n,)
    n_rows : int
        As in `Factor`; 0 where elements have several rows.
    """

    conjugate = False

    def __init__(self, name: str, local: Gaussian, size: int, child: Likelihood, y: Array, n_rows: int) -> None:
        self.name, self.size, self.n_rows = name, size, n_rows
        self.likelihood: Any = child.likelihood
        self.y, self.offset = y, np.broadcast_to(np.asarray(child.offset, float), y.shape)
        index = child.links["f"].index
        #: Those that rows inform; the others are as their parents say.
        self.elements: Any = slice(None)
        if index is not None:
            self.likelihood = GroupLikelihood(child.likelihood, y, self.offset, np.asarray(index))
            self.y, self.offset, self.elements = np.arange(size), np.zeros(size), self.likelihood.elements
        self.mean, self.spread = local.slot("mean"), local.slot(local.spread)
        names = [slot.name for slot in (self.mean, self.spread)]
        self.nodes = tuple(name for name in names if name is not None)

    def terms(self, q: Blocks, rows: Any, expect: Expectation | None = None) -> tuple[Array, Gradient]:
        """Value by element, and messages to the nodes of mean and spread."""
        rows = rows if self.n_rows else self.elements
        rule = _at_number if self.spread.name is None else _RULES[type(self.spread)]
        value, alpha, gamma, in_spread = rule(self, q, rows, self._input(q, rows), expect or Auto())
        messages: Gradient = {} if self.spread.name is None else {self.spread.name: in_spread}
        if self.mean.name is not None:
            messages[self.mean.name] = self.mean.pulled(q[self.mean.name], np.stack([alpha, gamma], -1), rows)
        return value, messages

    def _input(self, q: Blocks, rows: Any) -> RowInput:
        """The rows, with mean and variance of u, the offset in the mean."""
        y = self.y[rows]
        m, v = (np.array(np.broadcast_to(part, len(y))) for part in self.mean.moments(q, rows).T)
        return self.likelihood, y, m + self.offset[rows], v

    def local(self, q: Blocks) -> DiagonalGaussian:
        """The local node given its rows, under q of its parents: a Gaussian with the mean and the variance of it."""
        _, _, m, v = self._input(q, slice(None))
        variances, weights = _variances(self, q, slice(None), self.size)
        first, second = m, (weights * variances).sum(0) + v + np.square(m)
        if len(self.y[self.elements]):
            informed = self._input(q, self.elements)
            first, second = first.copy(), second.copy()
            first[self.elements], second[self.elements] = 0.0, 0.0
            for w2, weight in zip(*_variances(self, q, self.elements, len(informed[1])), strict=True):
                parts = noise_bounds.local_moments_at(*informed, np.array(w2), Auto())
                for total, part in zip((first, second), parts, strict=True):
                    total[self.elements] += weight * part
        return DiagonalGaussian(first - self.offset, 1.0 / (second - np.square(first)))


def _variances(factor: IntegratedFactor, q: Blocks, rows: Any, n: int) -> tuple[Array, Array]:
    """Nodes (J, n) and weights, (J, n) or (J, 1), of a rule for the variance of each row under q of its node."""
    if factor.spread.name is None:
        return np.broadcast_to(1.0 / factor.spread.moments(q, rows)[:, 1], (1, n)), np.ones((1, 1))
    block = q[factor.spread.name]
    if isinstance(block, Rayleigh):
        r, weight = rayleigh_trapezoid()
        return np.broadcast_to(block.scale * r[:, None], (len(r), n)), weight[:, None]
    nodes = block.nodes(POINTS)
    precision, weight = (factor.spread.gathered(part[..., None], rows)[..., 0] for part in (nodes.value, nodes.weight))
    return 1.0 / np.broadcast_to(precision, (POINTS, n)), weight


def _at_number(factor: IntegratedFactor, q: Blocks, rows: Any, row_input: RowInput, expect: Expectation) -> Terms:
    """The terms at variances that are numbers."""
    w2, _ = _variances(factor, q, rows, len(row_input[1]))
    value, alpha, gamma, _ = noise_bounds.optimal_at(*row_input, np.array(w2[0]), expect)
    return value, alpha, gamma, ()


def _over_variance(factor: IntegratedFactor, q: Blocks, rows: Any, row_input: RowInput, expect: Expectation) -> Terms:
    """The terms under the Rayleigh q of a variance."""
    value, alpha, gamma, slopes = noise_bounds.optimal(*row_input, q[str(factor.spread.name)].scale, expect)
    return value, alpha, gamma, summed_slopes(slopes)


def _over_precision(factor: IntegratedFactor, q: Blocks, rows: Any, row_input: RowInput, expect: Expectation) -> Terms:
    """The terms under the Gamma q of a precision, by a rule of nodes for each of its elements.

    Beyond what the rule serves they are minus infinity, so that steps that lead there are taken back.
    """
    block = q[str(factor.spread.name)]
    if block.shape.min() < 0.9 * LEAST_SHAPE:
        nothing = np.zeros(len(row_input[1]))
        return nothing - np.inf, nothing, nothing, (np.zeros_like(block.theta),)
    likelihood, *parts = row_input
    w2, weight = _variances(factor, q, rows, len(parts[0]))
    y, m, v = (np.tile(part, POINTS) for part in parts)
    found = noise_bounds.optimal_at(likelihood, y, m, v, w2.ravel(), expect)
    value, alpha, gamma, in_variance = (part.reshape(w2.shape) for part in found)
    slopes = factor.spread.summed((-np.square(w2) * in_variance)[..., None], len(block.shape), rows)[..., 0]
    in_precision = block.of_draws(block.nodes(POINTS), slopes)
    return (weight * value).sum(0), (weight * alpha).sum(0), (weight * gamma).sum(0), in_precision


_RULES = {VarianceSlot: _over_variance, Slot: _over_precision}
