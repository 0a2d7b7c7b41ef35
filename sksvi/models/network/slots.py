"""Parameters of distributions: constants, or nodes through links, with the moments that a child needs of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.special import digamma, gammaln

from sksvi._typing.arrays import ArrayLike, MatrixLike
from sksvi.models.base import Blocks

Array = np.ndarray


@dataclass(frozen=True)
class Link:
    """A node in the place of a parameter: element by element, by index, or through a design.

    Parameters
    ----------
    name : str
        Of the node.
    index : array-like of int of shape (n,) or str, optional
        Element of the node for each element of the child: groups. A string is a name in the data of a fit.
    design : array-like of shape (n, K) or str, optional
        Rows h, or their name in the data: the parameter of a child's element is hᵀ times the (Gaussian) node.

    Examples
    --------
    >>> from sksvi.network import Gaussian, Link
    >>> effects = Gaussian(Link("mean", index=[0, 0, 1]), 1.0)
    """

    LAYOUT = ""

    name: str
    index: ArrayLike | str | None = None
    design: MatrixLike | str | None = None

    @property
    def data_names(self) -> list[str]:
        """Names in the data of a fit that the link takes rows from."""
        return [part for part in (self.index, self.design) if isinstance(part, str)]

    def with_data(self, data: Mapping[str, Any]) -> Link:
        """The link with rows of the data in the place of their names."""
        index: Any = data[self.index] if isinstance(self.index, str) else self.index
        design: Any = data[self.design] if isinstance(self.design, str) else self.design
        return Link(self.name, index, design)


#: A parameter of a node: numbers, the name of another node, or a link to it.
Given: TypeAlias = "npt.ArrayLike | str | Link"


class Slot:
    """A parameter of a distribution in each of its n elements: a constant, or a node seen through a link.

    Its moments are mean and variance of a Gaussian, (n, 2), else the expected statistics of the family, (n, d).
    """

    def __init__(self, link: Link | None, constant: Array | None = None) -> None:
        self.link, self.constant = link, constant
        self.index = None if link is None or link.index is None else np.asarray(link.index)
        self.design = None if link is None or link.design is None else np.asarray(link.design, float)

    @property
    def name(self) -> str | None:
        """Name of the node; None for a constant."""
        return None if self.link is None else self.link.name

    def moments(self, q: Blocks, rows: slice | np.ndarray) -> Array:
        """Moments of the parameter in each element of the child, (n, d); (1, d) where all are alike."""
        if self.constant is not None:
            return self.constant if len(self.constant) == 1 else self.constant[rows]
        block = q[self.link.name]  # type: ignore[union-attr]
        if self.design is not None:
            design = self.design[rows]
            return np.stack([design @ block.mean, block.spread(design)], -1)
        return self.gathered(self.by_element(block), rows)

    def by_element(self, block: Any) -> Array:
        """Moments of each element of the node, (K, d): mean and variance of a Gaussian, else expected statistics."""
        if block.column == "gaussian":
            return np.stack([block.mean, block.variance], -1)
        return np.atleast_2d(block.moments)

    def gathered(self, each: Array, rows: slice | np.ndarray) -> Array:
        """Numbers of the node's elements (..., K, d) for the child's elements, (..., n, d)."""
        if self.index is not None:
            return each[..., self.index[rows], :]
        return each if each.shape[-2] == 1 else each[..., rows, :]

    def summed(self, gradient: Array, size: int, rows: slice | np.ndarray) -> Array:
        """A gradient by child's element (..., n, d), summed for the node's elements, (..., K, d)."""
        if self.index is None:
            if size == 1:
                return gradient.sum(-2, keepdims=True)
            if isinstance(rows, slice) and rows == slice(None):
                return gradient
        n, at = gradient.shape[-2], np.arange(size)[rows] if self.index is None else self.index[rows]
        chosen = sp.csr_matrix((np.ones(n), (at, np.arange(n))), shape=(size, n))
        flat = np.moveaxis(gradient, -2, 0)
        return np.moveaxis((chosen @ flat.reshape(n, -1)).reshape(size, *flat.shape[1:]), 0, -2)

    def pulled(self, block: Any, gradient: Array, rows: slice | np.ndarray) -> tuple[Array, ...]:
        """A gradient by child's element, (n, d), as one in the block's moments."""
        if self.design is not None:
            design = self.design[rows]
            weighted = design * gradient[:, 1:]
            return design.T @ gradient[:, 0], design.T @ weighted if block.full else (design * weighted).sum(0)
        size = block.mean.shape[-1] if block.column == "gaussian" else len(np.atleast_2d(block.moments))
        each = self.summed(gradient, size, rows)
        if block.column == "gaussian":
            return each[:, 0], np.diag(each[:, 1]) if block.full else each[:, 1]
        return (each.reshape(block.moments.shape),)


class ShapeSlot(Slot):
    """A shape: beside its own moments E log Γ of it, which has no closed form, (n, 3)."""

    def __init__(self, link: Link | None, constant: Array | None = None) -> None:
        if constant is not None:
            constant = np.concatenate([constant, gammaln(constant[:, 1:])], -1)
        super().__init__(link, constant)

    def by_element(self, block: Any) -> Array:
        """Moments E log a, E a and E log Γ(a) of each element of the node, (K, 3)."""
        nodes = block.nodes()
        return np.concatenate([block.moments, nodes.average(gammaln(nodes.value))[..., None]], -1)

    def pulled(self, block: Any, gradient: Array, rows: Any) -> tuple[Array, ...]:
        """The gradient in the node's moments, that of E log Γ(a) included: its coefficient times its own gradient."""
        each = self.summed(gradient, len(block.shape), rows)
        (own,) = block.of_draws(block.nodes(), digamma)
        return (each[:, :2] + each[:, 2:] * own,)


#: E log x less that of the scale, and the scale times E 1/x, of a Rayleigh variable x.
MEAN_LOG, MEAN_INVERSE = 0.5 * float(np.log(2.0) - np.euler_gamma), float(np.sqrt(np.pi / 2))


class VarianceSlot(Slot):
    """A variance in the place of a precision: moments E log(1/x) and E 1/x of each of its elements, (n, 2)."""

    def __init__(self, link: Link | None, constant: Array | None = None) -> None:
        if constant is not None:
            constant = np.stack([-np.log(constant), 1.0 / constant], -1)
        super().__init__(link, constant)

    def by_element(self, block: Any) -> Array:
        """Moments E log(1/x) and E 1/x of the Rayleigh node, (1, 2)."""
        return np.array([[-np.log(block.scale) - MEAN_LOG, MEAN_INVERSE / block.scale]])

    def pulled(self, block: Any, gradient: Array, rows: Any) -> tuple[Array, ...]:
        """Slope in the node's moment E x² = 2 scale², and the outer product of the rows' slopes for its curvature."""
        in_scale = -(gradient[:, 0] + gradient[:, 1] * MEAN_INVERSE / block.scale) / block.scale
        return summed_slopes(in_scale / (4.0 * block.scale))


def summed_slopes(slopes: Array) -> tuple[Array, Array]:
    """Slope (1,) and curvature (1, 1) of a sum over rows in one moment, the curvature from squares of the slopes (n,).

    Streams need to know how well the rows inform that moment.
    """
    return np.array([slopes.sum()]), np.array([[-np.square(slopes).sum()]])
