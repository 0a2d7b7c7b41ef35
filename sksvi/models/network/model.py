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

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from sksvi._runtime import parallel
from sksvi.expectations import Expectation
from sksvi.models.base import Blocks, Gradient, Model, Segment, default_sweep
from sksvi.models.data import InMemory
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

    @property
    def data_names(self) -> list[str]:
        """Names in the data of a fit that it takes rows from; such a factor is of each portion of a stream."""
        return []

    def with_data(self, data: Mapping[str, Any]) -> Factor:
        """The factor with rows of the data in the place of their names."""
        return self

    def finer(self) -> Factor:
        """The factor as the bound of a fit is reported with: where that is drawn, from more draws."""
        return self


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
        self, priors: Blocks, factors: Any, starts: Blocks | None = None, n_rows: int = 0, in_turn: bool = True
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

    def begin(self, data: NetworkRows, rng: np.random.Generator, threads: int = 1) -> Blocks:
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
    slope = np.zeros_like(block.theta)
    return (slope,) if block.instead is None else (slope, np.zeros((slope.size, slope.size)))


def added(total: Gradient, messages: Gradient) -> Gradient:
    """A sum of messages plus those of one more factor."""
    more = {name: tuple(a + b for a, b in zip(total[name], parts, strict=True)) for name, parts in messages.items()}
    return {**total, **more}
