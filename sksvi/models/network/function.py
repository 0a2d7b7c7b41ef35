"""Factors that are any function: of a few numbers per row by integrals over each row's own, of whole nodes by draws."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from sksvi._typing.arrays import ArrayLike
from sksvi.expectations import Expectation
from sksvi.models.base import Blocks, Gradient
from sksvi.models.network.model import Factor
from sksvi.models.network.slots import Link, Slot

Array = np.ndarray

#: Nodes of the rule for each number that a row depends on, by how many there are.
RULES = {1: 64, 2: 32, 3: 16}
#: Draws that the bound of a fit is estimated from.
BOUND_DRAWS = 4096


class Function(Factor):
    """A factor of one's own: its logarithm as a function of at most three numbers per row, and its derivatives.

    Row i depends on one element of each node: the only one, its own, or that of a link's index. Expectations are taken
    at the nodes of product rules (64, 32² or 16³ for a row).

    Parameters
    ----------
    nodes : sequence of str or Link
        Gaussian, Gamma or Beta nodes.
    log_density : callable
        ``log_density(*values, *data)``: log of the factor, nats. A value of each node comes as (S, n) or (S, 1), rows
        in the last axis; data come as they are given, (n,).
    slopes : callable, optional
        The same arguments to a sequence of derivatives, one per node. None: gradients come from values alone, as they
        do for Beta nodes. Derivatives are more exact where q is narrow.
    data : sequence of array-like of shape (n,) or str, default=()
        What the rows are of, or their names in the data of a fit; without any the factor is one term.

    Examples
    --------
    The rate of a Poisson count is what two unknown probabilities leave over of 50:

    >>> import numpy as np
    >>> from sksvi.network import Beta, Function, Network
    >>> def log_density(a, b, y):
    ...     return y * np.log(50 * a * b) - 50 * a * b
    >>> factor = Function(["a", "b"], log_density, data=[np.array([12.0, 15.0])])
    >>> network = Network({"a": Beta(2.0, 2.0), "b": Beta(8.0, 2.0)}, [factor]).fit()
    >>> print(network.posterior_["a"].mean.round(2))
    [0.35]
    """

    conjugate = False

    def __init__(
        self,
        nodes: Sequence[str | Link],
        log_density: Callable[..., Array],
        slopes: Callable[..., Sequence[Array]] | None = None,
        data: Sequence[ArrayLike | str] = (),
    ) -> None:
        self.links = [Link(node) if isinstance(node, str) else node for node in nodes]
        self.slots, self.log_density, self.slopes = [Slot(link) for link in self.links], log_density, slopes
        self.nodes, self.data = tuple(link.name for link in self.links), as_rows(data)
        self.n_rows = len(self.data[0]) if self.data else 0

    @property
    def data_names(self) -> list[str]:
        """Names in the data of a fit of its rows, and of those of links."""
        return names_in(self.data) + [name for link in self.links for name in link.data_names]

    def with_data(self, data: Mapping[str, Any]) -> Function:
        """The factor with rows of the data in the place of their names."""
        links = [link.with_data(data) for link in self.links]
        return type(self)(links, self.log_density, self.slopes, with_rows(self.data, data))

    def terms(self, q: Blocks, rows: slice | np.ndarray, expect: Expectation | None = None) -> tuple[Array, Gradient]:
        """Value and messages, by the product of the quadrature rules of each row's numbers."""
        blocks = [q[name] for name in self.nodes]
        d = len(blocks)
        rules = [block.nodes(RULES[d]) for block in blocks]
        row_rules = [self._rule_for_rows(k, rules[k], rows) for k in range(d)]
        values, weights = ([_along(each[part], k, d) for k, each in enumerate(row_rules)] for part in (0, 1))
        data = [part[rows] for part in self.data]
        grid = np.broadcast_shapes(*(value.shape for value in values), *(part.shape for part in data))
        flat = [np.broadcast_to(value, (*grid[:-1], value.shape[-1])).reshape(-1, value.shape[-1]) for value in values]
        log_density = np.broadcast_to(self.log_density(*flat, *data), (int(np.prod(grid[:-1])), grid[-1])).reshape(grid)
        slopes = None if self.slopes is None else self.slopes(*flat, *data)
        messages: Gradient = {}
        for k, (name, block) in enumerate(zip(self.nodes, blocks, strict=True)):
            if slopes is None or not block.slopes_at_nodes:
                parts = block.of_values(rules[k], self._over_other_nodes(k, log_density, weights, block, rows))
            else:
                slope = np.broadcast_to(slopes[k], (int(np.prod(grid[:-1])), grid[-1])).reshape(grid)
                parts = block.of_draws(rules[k], self._over_other_nodes(k, slope, weights, block, rows))
            messages[name] = parts
        return _over(log_density, weights, range(d)), messages

    def _rule_for_rows(self, k: int, rule: Any, rows: slice | np.ndarray) -> tuple[Array, Array]:
        """Values and weights of a node's rule for the rows, (J, n) or (J, 1)."""
        both = (self.slots[k].gathered(part[..., None], rows) for part in (rule.value, rule.weight))
        value, weight = (part[..., 0] for part in both)
        return value, weight

    def _over_other_nodes(
        self, k: int, part: Array, weights: list[Array], block: Any, rows: slice | np.ndarray
    ) -> Array:
        """Expectation over the other nodes of numbers on the grid, at node k's points, summed by element, (J, K)."""
        others = [axis for axis in range(len(weights)) if axis != k]
        left = _over(part, weights, others)
        return self.slots[k].summed(left[..., None], block.mean.shape[-1], rows)[..., 0]


class SampledFunction(Factor):
    """A factor of one's own that is a function of whole nodes: its expectation is a mean over draws.

    For vectors, Dirichlet nodes and more than three numbers. Steps are noisy then: rates fall, nothing is judged, the
    posterior is an average over the path, and the bound an estimate from 4,096 draws.

    Parameters
    ----------
    nodes : sequence of str
    log_density : callable
        ``log_density(*values, *data)``: log of the factor at each draw, (S,), or by row of the data, (S, n), nats. A
        value of each node comes as (S, K), of Dirichlet nodes as (S, V) or (S, K, V).
    slopes : callable
        The same arguments to a sequence of derivatives of the sum over rows, one per node and of its shape.
    n_draws : int, default=20
        Per step, at least 4.
    data : sequence of array-like of shape (n,) or str, default=()
        What the rows are of, or their names in the data of a fit; without any the factor is one term.

    Raises
    ------
    ValueError
        By a fit, for derivatives that have not the shape of their node's draws.

    Examples
    --------
    Blood groups: of alleles with unknown shares, A and B dominate O.

    >>> import numpy as np
    >>> from sksvi.network import Dirichlet, Network, SampledFunction
    >>> counts = np.array([182.0, 60.0, 17.0, 176.0])  # A, B, AB, O
    >>> def log_density(p):
    ...     a, b, o = p.T
    ...     return counts @ np.log([a * a + 2 * a * o, b * b + 2 * b * o, 2 * a * b, o * o])
    >>> def slopes(p):
    ...     a, b, o = p.T
    ...     only_a, only_b, both, none = counts
    ...     in_a = only_a * (2 * a + 2 * o) / (a * a + 2 * a * o) + both / a
    ...     in_b = only_b * (2 * b + 2 * o) / (b * b + 2 * b * o) + both / b
    ...     in_o = only_a * 2 / (a + 2 * o) + only_b * 2 / (b + 2 * o) + 2 * none / o
    ...     return [np.stack([in_a, in_b, in_o], -1)]
    >>> network = Network({"p": Dirichlet([1.0, 1.0, 1.0])}, [SampledFunction(["p"], log_density, slopes)])
    >>> shares = network.fit(max_iter=200, tol=1e-6, random_state=0).posterior_["p"].mean
    >>> print(shares.round(2))
    [0.27 0.09 0.64]
    """

    conjugate, drawn = False, True

    def __init__(
        self,
        nodes: Sequence[str],
        log_density: Callable[..., Array],
        slopes: Callable[..., Sequence[Array]],
        n_draws: int = 20,
        data: Sequence[ArrayLike | str] = (),
    ) -> None:
        self.nodes, self.log_density, self.slopes, self.n_draws = tuple(nodes), log_density, slopes, n_draws
        self.data = as_rows(data)
        self.n_rows = len(self.data[0]) if self.data else 0

    @property
    def data_names(self) -> list[str]:
        """Names in the data of a fit of its rows."""
        return names_in(self.data)

    def with_data(self, data: Mapping[str, Any]) -> SampledFunction:
        """The factor with rows of the data in the place of their names."""
        return type(self)(self.nodes, self.log_density, self.slopes, self.n_draws, with_rows(self.data, data))

    def finer(self) -> SampledFunction:
        """The factor with at least `BOUND_DRAWS` draws."""
        new = copy.copy(self)
        new.n_draws = max(self.n_draws, BOUND_DRAWS)
        return new

    def terms(
        self,
        q: Blocks,
        rows: slice | np.ndarray,
        expect: Expectation | None = None,
        rng: np.random.Generator | None = None,
    ) -> tuple[Array | float, Gradient]:
        """Value and messages as means over joint draws of all nodes."""
        rng = np.random.default_rng(0) if rng is None else rng
        draws = [q[name].draws(self.n_draws, rng) for name in self.nodes]
        values, data = [draw.value for draw in draws], [part[rows] for part in self.data]
        value = np.mean(self.log_density(*values, *data), axis=0)
        slopes = self.slopes(*values, *data)
        for name, draw, slope in zip(self.nodes, draws, slopes, strict=True):
            if np.shape(slope) != draw.value.shape:
                found = np.shape(slope)
                raise ValueError(
                    f"slopes in node {name!r} must have its draws' shape, {draw.value.shape}; found {found}"
                )
        messages = {
            name: q[name].of_draws(draw, np.asarray(slope))
            for name, draw, slope in zip(self.nodes, draws, slopes, strict=True)
        }
        return value, messages


def as_rows(data: Sequence[ArrayLike | str]) -> list[Any]:
    """Rows of a factor as arrays, or names of these in the data of a fit."""
    return [part if isinstance(part, str) else np.asarray(part, float) for part in data]


def names_in(data: Sequence[Any]) -> list[str]:
    """Names among the rows of a factor."""
    return [part for part in data if isinstance(part, str)]


def with_rows(own: Sequence[Any], data: Mapping[str, Any]) -> list[Any]:
    """Rows of a factor, those of the data in the place of their names."""
    return [data[part] if isinstance(part, str) else part for part in own]


def _along(part: Array, axis: int, d: int) -> Array:
    """(J, n) as an array whose axis of a product of d rules has the nodes, (1, ..., J, ..., 1, n)."""
    shape = [1] * d
    shape[axis] = len(part)
    return part.reshape(*shape, part.shape[-1])


def _over(part: Array, weights: list[Array], axes: Any) -> Array:
    """Weighted sum over some axes of the grid."""
    for axis in axes:
        part = (part * weights[axis]).sum(axis, keepdims=True)
    return part.reshape(*(size for k, size in enumerate(part.shape[:-1]) if k not in axes), part.shape[-1])
