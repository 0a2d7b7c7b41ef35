"""The posterior of weights over nodes of their hyperparameters: a mixture of Gaussians, each made when it is asked for.

A fit leaves one Gaussian, prior times message. Under the prior of another node, and with messages that weigh as that
node has it, the same message makes another.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from sksvi._typing.arrays import RandomState
from sksvi.families.base import Family
from sksvi.families.gaussian.dense import gaussian, reweighted

Array = np.ndarray


@dataclass
class NodeBlocks:
    """A Gaussian block under the prior of every node.

    Parameters
    ----------
    block : Gaussian block held by its precision
        As the fit left it.
    prior_mean : ndarray, shape of the block's mean
    precision : ndarray of the same shape, dense matrix or LevelBlocks
        Of the prior under which the block was fitted.
    precisions : ndarray of shape (k, ...), or list of k LevelBlocks
        Of the prior of each node.
    information : ndarray of shape (k,)
        What the data weigh at each node, over what they weigh in the fit.
    weights : ndarray of shape (k,)
        Of the nodes; their sum is 1.
    found : list of k blocks, optional
        The block at each node, where it was found there; None: as the message has it.
    widening : ndarray of shape (P, P), optional
        W of `reweighted`, for the block of every node.

    Examples
    --------
    >>> import numpy as np
    >>> from sksvi.families import Gaussian
    >>> from sksvi.families.gaussian.mixture import NodeBlocks
    >>> fitted = Gaussian(np.ones(1), 2.0 * np.eye(1))
    >>> nodes = NodeBlocks(fitted, np.zeros(1), np.ones(1), np.array([[1.0], [3.0]]), np.ones(2), np.full(2, 0.5))
    >>> [float(block.mean[0]) for block in nodes.blocks]
    [1.0, 0.5]
    """

    LAYOUT = """
        prior_mean (…) f where it.shape == self.block.mean.shape
        precision (…) f >0 or (_,_) f or LevelBlocks; precisions (k,…) f >0 or (k,_,_) f or items k
        information (k) f >0; weights (k) f >0; widening? (p,p) f; found? items k
    """

    block: Any
    prior_mean: Array
    precision: Any
    precisions: Any
    information: Array
    weights: Array
    found: list[Any] | None = None
    widening: Array | None = None

    @cached_property
    def blocks(self) -> list[Any]:
        """The Gaussian block under the prior of each node; the fitted block where a node has the fit's own prior."""
        if self.found is not None:
            return self.found
        message = self.block.over(gaussian(self.prior_mean, self.precision))
        found = []
        for precision, share in zip(self.precisions, self.information, strict=True):
            if share == 1.0 and np.array_equal(precision, self.precision):
                found.append(self.block)
            else:
                found.append(gaussian(self.prior_mean, precision).times(message.faded(share)))
        return [reweighted(block, self.widening) for block in found]


class NodeMixture(Family):
    """What users see of a block under several nodes: moments and draws of the mixture, and a view of each node.

    Parameters
    ----------
    view : Gaussian view
        Of the block of the fit, `InUnits` and the like.
    node_blocks : NodeBlocks
    prior_std : ndarray of shape (k,), optional
        Of what the fit does not hold, over that in the fit: the weights off a subspace.
    """

    LAYOUT = "node_blocks.weights (k) f; prior_std? (k) f >0"

    column = "gaussian"
    full = True

    def __init__(self, view: Any, node_blocks: NodeBlocks, prior_std: Array | None = None) -> None:
        self.view, self.node_blocks, self.prior_std = view, node_blocks, prior_std

    @property
    def weights(self) -> Array:
        """Weights of the mixture's components, (k,)."""
        return self.node_blocks.weights

    @cached_property
    def components(self) -> list[Any]:
        """A view per node."""
        stds = np.ones(len(self.weights)) if self.prior_std is None else self.prior_std
        return [self.view.around(block, float(std)) for block, std in zip(self.node_blocks.blocks, stds, strict=True)]

    @property
    def inner(self) -> Any:
        """The block of the fit inside its view."""
        return self.view.inner

    def prepare(self) -> None:
        """Factor the blocks."""
        for part in self.components:
            part.prepare()

    def __getitem__(self, plate: int) -> MixedGaussian:
        """The mixture of one plate."""
        return MixedGaussian([part[plate] for part in self.components], self.weights)

    def contrast(self, plate: int, other: int) -> MixedGaussian:
        """The distribution of one plate less another."""
        return MixedGaussian([part.contrast(plate, other) for part in self.components], self.weights)

    @cached_property
    def _mixed(self) -> MixedGaussian:
        return MixedGaussian(self.components, self.weights)

    @property
    def mean(self) -> Array:
        """(..., P)."""
        return self._mixed.mean

    @property
    def variance(self) -> Array:
        """(..., P)."""
        return self._mixed.variance

    @property
    def std(self) -> Array:
        """(..., P)."""
        return self._mixed.std

    @property
    def cov(self) -> Array:
        """(..., P, P)."""
        return self._mixed.cov

    def spread(self, rows: Array) -> Array:
        """Variance of aᵀw for each row a of (n, P)."""
        return self._mixed.spread(rows)

    def sample(self, n: int = 1, random_state: RandomState = None) -> Array:
        """Draw (n, ..., P)."""
        return self._mixed.sample(n, random_state)


class MixedGaussian(Family):
    """A mixture of Gaussians of one shape.

    Parameters
    ----------
    components : list of Gaussian
    weights : ndarray of shape (k,)
        Their sum is 1.

    Examples
    --------
    >>> import numpy as np
    >>> from sksvi.families import DiagonalGaussian
    >>> from sksvi.families.gaussian.mixture import MixedGaussian
    >>> parts = [DiagonalGaussian(np.array([m]), np.ones(1)) for m in (-1.0, 1.0)]
    >>> MixedGaussian(parts, np.array([0.5, 0.5])).variance
    array([2.])
    """

    column = "gaussian"
    full = True

    def __init__(self, components: list[Any], weights: Array) -> None:
        self.components, self.weights = components, weights

    def _average(self, of: Callable[[Any], Array]) -> Array:
        return np.asarray(sum(w * of(part) for w, part in zip(self.weights, self.components, strict=True)))

    @cached_property
    def mean(self) -> Array:
        """(..., P)."""
        return self._average(lambda part: part.mean)

    @cached_property
    def variance(self) -> Array:
        """(..., P)."""
        return self._average(lambda part: part.variance + np.square(part.mean - self.mean))

    @property
    def cov(self) -> Array:
        """(..., P, P)."""

        def second(part: Any) -> Array:
            off = part.mean - self.mean
            return part.cov + off[..., :, None] * off[..., None, :]

        return self._average(second)

    def spread(self, rows: Array) -> Array:
        """Variance of aᵀw for each row a of (n, P)."""
        return self._average(lambda part: part.spread(rows) + np.square(rows @ (part.mean - self.mean)))

    def sample(self, n: int = 1, random_state: RandomState = None) -> Array:
        """Draw (n, ..., P), components in the shares that their weights draw."""
        from sklearn.utils import check_random_state

        rng = check_random_state(random_state)
        return sample_mixture(self.components, self.weights / self.weights.sum(), n, rng)


def sample_mixture(
    components: Sequence[Any], weights: Array, n: int, rng: Any, axis: int = 0, **settings: Any
) -> Array:
    """Draw n times along an axis from a mixture: from its components in the shares that their weights draw."""
    counts = rng.multinomial(n, weights)
    drawn = [part.sample(int(c), rng, **settings) for part, c in zip(components, counts, strict=True) if c]
    return np.concatenate(drawn, axis).take(rng.permutation(n), axis)
