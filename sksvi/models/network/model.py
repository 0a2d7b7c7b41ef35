"""A mean-field network as the engine sees it: a block per latent node, and a sum of factors.

The engine pays each block its divergence from a fixed prior. A node whose distribution has other nodes for parameters
gets the prior that their priors' means make, and its factor is relative to that prior, so that bound and messages
are those of the network, whatever that prior is.

A factor is a term of the log joint density: its expectation under q, and its messages to its nodes.

A message to a node is the gradient of the factor's expectation in the node's moments. Where a factor is conjugate to a
node that is a natural parameter which does not depend on the node itself: the message of variational message passing.
Where it is not, it is the gradient at the node as it is (Khan and Lin 2017, Algorithm 2).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from sksvi._runtime import parallel
from sksvi._typing.arrays import ArrayLike, MatrixLike
from sksvi.expectations import Expectation
from sksvi.models.base import Blocks, Gradient, InMemory, Model, Segment, default_sweep
from sksvi.models.traits import BoundTraits, StepTraits, Traits

# ---- factors
Array = np.ndarray


class Factor:
    """A term of the log joint density, for a class of one's own: `terms` is all that it must have.

    Attributes
    ----------
    nodes : tuple of str
        Names of the nodes that it joins.
    n_rows : int, default=0
        Rows of data that it is a sum over, independent given the nodes, for mini-batches; 0: it is one term.
    conjugate : bool, default=True
        Whether the gradient in each node's moments does not depend on that node: a step of rate 1 is then the node's
        optimum.
    drawn : bool, default=False
        Whether `terms` takes a random generator as a fourth argument, and its answer is random.

    Examples
    --------
    Zeros and ones of a Beta node, by hand:

    >>> import numpy as np
    >>> from sksvi.network import Beta, Factor, Network
    >>> class Coin(Factor):
    ...     nodes = ("p",)
    ...     def __init__(self, y):
    ...         self.y, self.n_rows = y, len(y)
    ...     def terms(self, q, rows, expect=None):
    ...         y = self.y[rows]
    ...         value = np.stack([y, 1 - y], -1) @ q["p"].moments[0]
    ...         return value, {"p": (np.array([[y.sum(), (1 - y).sum()]]),)}
    >>> network = Network({"p": Beta(1.0, 1.0)}, [Coin(np.array([1, 1, 0]))]).fit()
    >>> q = network.posterior_["p"]
    >>> print(q.a.round(6), q.b.round(6))
    [3.] [2.]
    """

    nodes: tuple[str, ...] = ()
    n_rows: int = 0
    conjugate: bool = True
    drawn: bool = False

    def terms(
        self, q: Blocks, rows: slice | np.ndarray, expect: Expectation | None = None
    ) -> tuple[Array | float, Gradient]:
        """Expectation of the logarithm of the factor under q, and its messages.

        Parameters
        ----------
        q : dict
            Blocks of the latent nodes by name: families, of one dimension more than the node where it is a vector.
        rows : slice or ndarray of shape (n,)
            Of its data; all of them where it has none.
        expect : Expectation, optional
            The rule for latents of a likelihood.

        Returns
        -------
        value : ndarray of shape (n,) or float
            E log of the factor, by row where it has rows, nats.
        messages : dict
            For each of its nodes a tuple: the gradient of the sum in the node's moments, (K, 2) of Gamma and Beta, the
            shape of the concentration of Dirichlet; of Gaussian nodes in mean and covariance (variances if diagonal).
        """
        raise AttributeError(f"{type(self).__name__} has no terms")

    def conjugate_to(self, name: str) -> bool:
        """Whether its message to a node does not depend on that node."""
        return self.conjugate

    def finer(self) -> Factor:
        """The factor as the bound of a fit is reported with: where that is drawn, from more draws."""
        return self


@dataclass(frozen=True)
class Link:
    """A node in the place of a parameter: element by element, by index, or through a design.

    Parameters
    ----------
    name : str
        Of the node.
    index : array-like of int of shape (n,), optional
        Element of the node for each element of the child: groups.
    design : array-like of shape (n, K), optional
        Rows h: the parameter of a child's element is hᵀ times the (Gaussian) node.

    Examples
    --------
    >>> from sksvi.network import Gaussian, Link
    >>> effects = Gaussian(Link("mean", index=[0, 0, 1]), 1.0)
    """

    name: str
    index: ArrayLike | None = None
    design: MatrixLike | None = None


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


# ---- the model
@dataclass(frozen=True)
class NetworkRows(InMemory):
    """The rows that mini-batches are drawn of; the factors hold the data themselves."""

    numbers: Array
    weight: None = None

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def total_weight(self) -> float:
        """Number of rows, N."""
        return float(len(self))

    def take(self, rows: Any) -> NetworkRows:
        """The rows with these indices."""
        return NetworkRows(self.numbers[rows])


@dataclass
class NetworkView:
    """q, with the summed values (nats) and messages of the factors that have neither rows nor draws."""

    q: Blocks
    value: float
    messages: Gradient


@dataclass
class NetworkTerms:
    """Value (n,) of each row, nats, and the gradient of their sum."""

    value: Array
    gradient: Gradient
    repairs: int = 0


class NetworkModel(Model):
    """Latent nodes with their priors, and factors.

    Parameters
    ----------
    priors : dict
        Block by name: what the engine measures divergences from.
    factors : sequence of Factor
        Every other term of the log joint density.
    starts : dict, optional
        First blocks; by default the priors.
    n_rows : int, default=0
        Rows of the factors that mini-batches are taken of; 0: every factor is evaluated as a whole, at every step.
    in_turn : bool, default=True
        Whether nodes step one after the other in a pass over all data.

    Examples
    --------
    >>> import numpy as np
    >>> from sksvi.families import Gamma
    >>> from sksvi.models.network.distributions import DistributionFactor, Poisson
    >>> from sksvi.models.network.model import NetworkModel
    >>> factor = DistributionFactor("y", Poisson("rate"), np.array([3.0, 5.0]), 2)
    >>> model = NetworkModel({"rate": Gamma([1.0], [1.0])}, [factor])
    >>> model.conjugate
    frozenset({'rate'})
    """

    def __init__(
        self,
        priors: Blocks,
        factors: Any,
        starts: Blocks | None = None,
        n_rows: int = 0,
        in_turn: bool = True,
    ) -> None:
        self.priors, self.first, self.n_rows, self.turns = priors, {**priors, **(starts or {})}, n_rows, in_turn
        self.by_row = [factor for factor in factors if n_rows and factor.n_rows]
        self.whole = [factor for factor in factors if not factor.drawn and factor not in self.by_row]
        self.drawn = [factor for factor in factors if factor.drawn and factor not in self.by_row]
        self.traits = Traits(
            bound=BoundTraits(additive=bool(n_rows), noisy=any(factor.drawn for factor in factors)),
            steps=StepTraits(blockwise=True, conjugate=self.conjugate),
            remedy="Give narrower priors or a start that is nearer to the data.",
        )

    @property
    def factors(self) -> list[Factor]:
        """All factors: those of one term, those that are drawn, and those that are sums over rows."""
        return self.whole + self.drawn + self.by_row

    @property
    def conjugate(self) -> frozenset[str]:
        """Nodes that every factor is conjugate to."""
        factors_of = {name: [factor for factor in self.factors if name in factor.nodes] for name in self.priors}
        return frozenset(name for name, all_ in factors_of.items() if all(factor.conjugate_to(name) for factor in all_))

    def begin(self, data: NetworkRows, rng: np.random.Generator) -> Blocks:
        """The first q."""
        return dict(self.first)

    def prior(self, q: Blocks) -> Blocks:
        """The prior of every node, which does not depend on q."""
        return self.priors

    def sweep(self, data: NetworkRows, batch_size: int | None, seed: int, number: int) -> Iterator[Segment]:
        """A segment per node over all rows, or one of all nodes; mini-batches move all nodes."""
        if batch_size is not None and batch_size < len(data):
            yield from default_sweep(data, batch_size, seed, number)
        elif self.turns:
            yield from (Segment(slice(0, len(data)), 1.0, (name,)) for name in self.priors)
        else:
            yield Segment(slice(0, len(data)), 1.0)

    def chunks(self, rows: Any, data: NetworkRows) -> list[Any]:
        """All rows of a segment at once."""
        return [np.arange(len(data))[rows]]

    def batch(self, data: NetworkRows, rows: Any, start: Any = None) -> Array:
        """Numbers of the rows in the factors."""
        return data.numbers[rows]

    def view(self, q: Blocks, rng: np.random.Generator | None) -> NetworkView:
        """q, and the factors without rows, once."""
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            value, messages = self.summed_terms(self.whole, q, slice(None))
        return NetworkView(q, float(value.sum()), messages)

    def terms(self, view: NetworkView, batch: Array, expect: Any, rng: Any) -> NetworkTerms:
        """Values and messages of the factors with rows, at those of the batch, and the batch's share of the others."""
        share = 1.0 / max(self.n_rows, 1)
        with np.errstate(divide="ignore"):
            value, messages = self.summed_terms(self.by_row, view.q, batch, expect, rng)
            drawn, drawn_messages = self.summed_terms(self.drawn, view.q, slice(None), expect, rng)
        others = parallel.scaled(added(view.messages, drawn_messages), share * len(batch))
        each = share * (view.value + float(drawn.sum()))
        return NetworkTerms(value + each * np.ones(len(batch)), added(messages, others))

    def pull_back(self, terms: NetworkTerms, batch: Array) -> Gradient:
        """The gradient of the sum over rows, which the terms already have."""
        return terms.gradient

    def summed_terms(
        self, factors: list[Factor], q: Blocks, rows: Any, expect: Any = None, rng: Any = None
    ) -> tuple[Array, Gradient]:
        """Values of some factors by row, or summed, and the sum of their messages to every node."""
        value: Any = np.zeros(1)
        total: Gradient = {name: zero(block) for name, block in q.items()}
        for factor in factors:
            each, messages = factor.terms(q, rows, expect, rng) if factor.drawn else factor.terms(q, rows, expect)  # type: ignore[call-arg]
            value = value + (each if factor in self.by_row else np.sum(each))
            total = added(total, messages)
        return value, total


def zero(block: Any) -> tuple[Any, ...]:
    """A gradient of nothing in the block's moments."""
    if block.column == "gaussian":
        return np.zeros_like(block.mean), np.zeros_like(block.precision)
    return (np.zeros_like(block.theta),)


def added(total: Gradient, messages: Gradient) -> Gradient:
    """A sum of messages plus those of one more factor."""
    more = {name: tuple(a + b for a, b in zip(total[name], parts, strict=True)) for name, parts in messages.items()}
    return {**total, **more}
