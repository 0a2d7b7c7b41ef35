"""What every block of a posterior answers: its moments, its messages, its draws and how they move.

A family is q of one block. θ are its natural parameters, η = E t(x) its moments; leading axes are plates. What the data
said about a block is a :class:`Message`: natural parameters of q less those of its prior, so that prior times message
is q again, and that under another prior the same message makes another q.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from sksvi._runtime import parallel
from sksvi._typing.arrays import ArrayLike, RandomState

Array = np.ndarray

#: Nodes of a rule for expectations under one coordinate of a block.
RULE_NODES = 64


class NotPositiveDefinite(ValueError):
    """Parameters outside the domain of their family, such as a precision matrix without a usable Cholesky factor.

    Parameters
    ----------
    message : str
    coordinate : int, default=-1
        Where the factorisation broke down; -1: unknown.

    Examples
    --------
    >>> import numpy as np
    >>> from sksvi.families import Gaussian, NotPositiveDefinite
    >>> try:
    ...     Gaussian(np.zeros(2), np.diag([1.0, -1.0])).root
    ... except NotPositiveDefinite as error:
    ...     print(error)
    the precision matrix is not positive definite at coordinate 1
    """

    def __init__(self, message: str, coordinate: int = -1) -> None:
        super().__init__(message)
        self.coordinate = coordinate
        #: Name of the block, once it is known.
        self.block = ""


@dataclass
class Message:
    """Natural parameters to add to a prior's.

    Parameters
    ----------
    parts : tuple
        One entry per natural parameter. Of a Gaussian: what is added to P m, and to P in the block's structure.

    Examples
    --------
    >>> import numpy as np
    >>> from sksvi.families import Dirichlet
    >>> prior, q = Dirichlet(np.ones(2)), Dirichlet(np.array([4.0, 2.0]))
    >>> said = q.over(prior)
    >>> said.parts[0], prior.times(said).concentration
    (array([3., 1.]), array([4., 2.]))
    """

    LAYOUT = "parts tuple where len(it) > 0; parts[*] (…) f or no array"

    parts: tuple[Any, ...]

    def added(self) -> tuple[Any, ...]:
        """The parts as a prior adds them to its own."""
        return self.parts

    def plus(self, other: Message, share: float = 1.0) -> Self:
        """This message with a share of another message's parts added."""
        return replace(self, parts=tuple(a + share * b for a, b in zip(self.parts, other.parts, strict=True)))

    def faded(self, share: float) -> Self:
        """The message with every part multiplied by `share`, as of data of which only a share still counts."""
        return replace(self, parts=tuple(share * part for part in self.parts))

    def of(self, plates: Any) -> Self:
        """The message of some plates."""
        return replace(self, parts=tuple(part[plates] for part in self.parts))

    def lengthened(self, n: int) -> Self:
        """The message with n more plates, whose parts are zero."""
        parts = (np.concatenate([part, np.zeros((n, *part.shape[1:]))]) for part in self.parts)
        return replace(self, parts=tuple(parts))

    def put(self, plates: Any, other: Message) -> None:
        """Write what was said of some plates."""
        for mine, its in zip(self.parts, other.parts, strict=True):
            mine[plates] = its

    def copy(self) -> Self:
        """Arrays of its own, to be written to."""
        return replace(self, parts=tuple(part.copy() for part in self.parts))


@dataclass(frozen=True)
class Draw:
    """A draw of a block.

    Parameters
    ----------
    value : ndarray
        Like one of ``sample``.
    source : ndarray, optional
        What the value was made from and what must be known to move it with the block's parameters: log g of Gamma
        variables, standard normal numbers.
    weight : ndarray, optional
        Of several draws, or nodes of a rule, with an axis in front: their weights, of sum 1; None: all alike.
    """

    value: Array
    source: Any = None
    weight: Any = None

    def average(self, values: Array) -> Array:
        """Mean over several draws, or nodes, of numbers at them: over the first axis."""
        if self.weight is None:
            return np.mean(values, axis=0)
        return np.sum(self.weight.reshape(*self.weight.shape, *[1] * (np.ndim(values) - self.weight.ndim)) * values, 0)


class Family:
    """A block of q. A subclass has at least ``mean``, ``std``, ``sample`` and, where steps are natural, the algebra."""

    #: Which column of an algorithm's row moves the block: "gaussian", "other" or "hyper".
    column: ClassVar[str] = "other"
    #: Whether matrices belong to the block; many shapes follow from it.
    full: bool = False
    #: Whether the block is held in the coordinates of natural steps.
    natural_coordinates: ClassVar[bool] = True
    #: Whether slopes of a function at `nodes` give its gradient; else values do.
    slopes_at_nodes: ClassVar[bool] = False
    #: Names of the arrays that hold the block and how many axes of each are no plates; all else is found from them.
    array_dims: ClassVar[dict[str, int]] = {}

    @property
    def instead(self) -> str | None:
        """Name of the rule that takes the place of a natural step where that is wrong; None: it is right."""
        return None

    # ---- what users see
    if TYPE_CHECKING:  # attributes of some families

        @property
        def mean(self) -> Array:
            """E x."""

        @property
        def variance(self) -> Array:
            """Var x."""

    @property
    def std(self) -> Array:
        """Standard deviations."""
        return np.sqrt(self.variance)

    def sample(self, n: int = 1, random_state: RandomState = None) -> Array:
        """Draw (n, ...)."""
        raise AttributeError(f"{type(self).__name__} has no draws")

    def draws_against(self, prior: Any, n: int, random_state: RandomState = None) -> tuple[Array, Array]:
        """Draws (n, ...), and at each of them log q - log prior, (n,), nats: its mean is `kl`."""
        raise AttributeError(f"{type(self).__name__} has no draws with densities")

    # ---- steps
    def prepare(self) -> None:
        """Factor now, before threads ask for it: here nothing."""

    def release(self) -> None:
        """Let go of what is large and can be found again: here nothing."""

    def kl(self, prior: Any) -> float:
        """KL(q ‖ prior), nats, summed over plates."""
        raise AttributeError(f"{type(self).__name__} has no divergence")

    def penalty(self) -> float:
        """What earlier data lose by where the block is, nats, where that is no divergence from a prior."""
        return 0.0

    def in_domain(self, prior: Any, gradient: tuple[Any, ...], rate: Any = 1.0) -> tuple[Any, ...]:
        """The gradient of a natural step of this rate, kept from leading out of the family's domain entry by entry."""
        return gradient

    def beyond(self, before: Any, share: float) -> Any:
        """The block a share further than the step that led here from `before`, still in the family's domain."""
        raise AttributeError(f"{type(self).__name__} has no steps of a rate above 1")

    def narrowed(self, factor: float) -> Any:
        """The block of the same mean with `factor` times the precision; None: it is not held so that it has one."""
        return None

    def forgotten(self) -> Any:
        """The block without its memory of earlier data, from which a new fit starts."""
        return self

    def absorbed(self, curvature: Any) -> Any:
        """The block, once it knows the curvature of the data that it was learned from."""
        return self

    def faded(self, share: float) -> Any:
        """The block with a share of what it remembers of earlier data."""
        return self

    def blended(self, other: Any, weight: float) -> Any:
        """(1 - weight) of what holds this block plus weight of the other's: an average over a fit's path."""
        mine, its = ([getattr(block, name) for name in self.array_dims] for block in (self, other))
        return self._made(*(between(a, b, weight) for a, b in zip(mine, its, strict=True)))

    def _made(self, *parts: Any) -> Any:
        """A block of this kind from the arrays of `array_dims`."""
        return type(self)(*parts)

    # ---- messages
    def over(self, prior: Any) -> Message:
        """What the data said: natural parameters of this block less those of its prior."""
        raise AttributeError(f"{type(self).__name__} has no messages")

    def times(self, message: Message) -> Any:
        """This prior times a message, in the structure of the message."""
        raise AttributeError(f"{type(self).__name__} has no messages")

    def message_from_gradient(self, gradient: tuple[Any, ...]) -> Message:
        """The message whose expected logarithm has this gradient in the block's moments, here."""
        raise AttributeError(f"{type(self).__name__} has no messages")

    def expected_log_message(self, message: Message) -> tuple[tuple[Any, ...], float]:
        """Gradient in the block's moments and value of E log of a message, nats; the message need not be proper."""
        raise AttributeError(f"{type(self).__name__} has no messages")

    def remembered(self, message: Message) -> Message:
        """What the data of a fit said, for a stream that goes on from it, with what the block knows of them."""
        return message

    def summed(self, sites: tuple[Any, ...]) -> Message:
        """The message that a sum of rows' sites makes."""
        return Message(self.natural_gradient(sites))  # type: ignore[attr-defined]

    def exchanged(self, total: Message, old: Message, new: Message) -> Message:
        """A message with what a part of its rows says now in the place of what they had said."""
        return total.plus(new.plus(old, -1.0))

    def bounded(self, message: Message) -> Message:
        """A message as the block may go on with where its rows are not at hand."""
        return message

    # ---- plates
    @property
    def plate_axes(self) -> int:
        """Leading axes that are plates."""
        name, own = next(iter(self.array_dims.items()))
        return int(np.ndim(getattr(self, name))) - own

    def __getitem__(self, plates: Any) -> Any:
        """The block of some plates."""
        return self._made(*(getattr(self, name)[plates] for name in self.array_dims))

    @property
    def n_plates(self) -> int:
        """Plates of the first axis."""
        return len(getattr(self, next(iter(self.array_dims))))

    def of_plates(self, plates: Any, q: Family) -> Any:
        """This prior for some plates of q: what all plates share stays as it is."""
        parts = ((getattr(self, name), own) for name, own in self.array_dims.items())
        return self._made(*(a[plates] if np.ndim(a) - own == q.plate_axes else a for a, own in parts))

    def kl_by_plate(self, prior: Any) -> Array:
        """KL of each plate of the first axis, nats."""
        return np.array([self[k].kl(prior.of_plates(k, self)) for k in range(self.n_plates)])

    def copy(self) -> Self:
        """Arrays of its own, to be written to."""
        new = copy.copy(self)
        for name in self.array_dims:
            setattr(new, name, np.array(getattr(self, name)))
        new._changed()
        return new

    def put(self, plates: Any, other: Any) -> None:
        """Write some plates."""
        for name in self.array_dims:
            getattr(self, name)[plates] = getattr(other, name)
        self._changed()

    def _changed(self) -> None:
        """Forget what was found from arrays that have changed."""

    def natural_form(self) -> Any:
        """This distribution as a block in the coordinates in which natural steps are taken."""
        return self

    def converted(self, block: Any) -> Any:
        """Another block, of natural coordinates, in the coordinates of this one."""
        return block

    def for_step(self) -> Any:
        """The block as a step wants it."""
        return self

    def for_full_step(self) -> Any:
        """The block for a step of rate 1, which does not look at all that it replaces."""
        return self.for_step()

    @classmethod
    def from_step(cls, block: Any) -> Any:
        """The way back: plates as they are kept after a step."""
        return block

    # ---- draws
    def drawn(self, rng: np.random.Generator) -> Draw:
        """A draw, with what `corrected` and `of_slopes` want to know of it."""
        return Draw(self.mean)

    def corrected(self, draw: Draw, gradient: Any) -> Any:
        """V gradient with V = F(θ)⁻¹ ∂t(x)/∂θ of this draw, E V = I (Hoffman and Blei 2015); here V = I."""
        return gradient

    def of_slopes(self, draw: Draw, slope: Array) -> Any:
        """An unbiased gradient of E f(x) as ``pull_back`` gives it, from the slope of f at a draw.

        Parameters
        ----------
        draw : Draw
            Of this block.
        slope : ndarray
            df/dx at its value, of the same shape.

        Returns
        -------
        gradient : tuple of arrays
            In the moments η; of Gaussians in mean and covariance.
        """
        raise AttributeError(f"{type(self).__name__} has no gradient from slopes")

    def draws(self, n: int, rng: np.random.Generator) -> Draw:
        """Several draws, an axis of them in front, for `of_draws`."""
        each = [self.drawn(rng) for _ in range(n)]
        source = None if each[0].source is None else np.stack([draw.source for draw in each])
        return Draw(np.stack([draw.value for draw in each]), source)

    def nodes(self, n: int = RULE_NODES) -> Draw:
        """Nodes (n, ...) and weights of a rule for expectations in the place of draws; each coordinate has its own."""
        raise AttributeError(f"{type(self).__name__} has no rule of nodes")

    def of_values(self, nodes: Draw, values: Array) -> Any:
        """The gradient of E f(x) as ``pull_back`` gives it, from values of f at `nodes`: no slope is needed.

        Parameters
        ----------
        nodes : Draw
            From `nodes`.
        values : ndarray of the shape of their values
            Of each coordinate's own f.

        Returns
        -------
        gradient : tuple of arrays
        """
        raise AttributeError(f"{type(self).__name__} has no gradient from values")

    def of_draws(self, draws: Draw, slope: Any) -> Any:
        """The gradient of E f(x) as ``pull_back`` gives it, from slopes of f at several draws or at nodes.

        Parameters
        ----------
        draws : Draw
            From `draws` or `nodes`.
        slope : ndarray or callable
            df/dx at their values, of the same shape; or the function that gives it.

        Returns
        -------
        gradient : tuple of arrays
            In the moments η; of Gaussians in mean and covariance.
        """
        slope = slope(draws.value) if callable(slope) else slope
        n = len(draws.value)
        share = np.full(n, 1.0 / n) if draws.weight is None else draws.weight
        total: Any = None
        for k in range(n):
            one = Draw(draws.value[k], None if draws.source is None else draws.source[k])
            parts = tuple(np.multiply(share[k], part) for part in self.of_slopes(one, slope[k]))
            total = parts if total is None else tuple(a + b for a, b in zip(total, parts, strict=True))
        return total


#: Numbers of a block that fits a cache, and of an array from which on temporaries cost more than the work.
CACHED, LARGE = 2**15, 2**20


def in_order(values: ArrayLike) -> Array:
    """Values as an array of floats in C order: a file would return no other, in which sums are rounded otherwise."""
    return np.asarray(values, float, order="C")


def are_positive(values: Array) -> bool:
    """Whether all numbers are positive and finite; NaN is not."""
    return not values.size or bool(values.min() > 0.0 and values.max() < np.inf)


def between(a: Any, b: Any, weight: Any) -> Any:
    """(1 - weight) a + weight b; of large arrays a few rows at a time, for the sake of memory: the same bits."""
    if not isinstance(a, np.ndarray) or a.size < LARGE or a.ndim < 2 or a.shape != np.shape(b) or np.ndim(weight):
        return (1 - weight) * a + weight * b
    out = np.empty_like(a)
    for part in parallel.slices(len(a), max(1, CACHED * len(a) // a.size)):
        np.multiply(a[part], 1 - weight, out=out[part])
        out[part] += weight * b[part]
    return out


class MessageGaussian(Family):
    """A Gaussian that is its bare prior times a message for each coordinate."""

    column = "gaussian"
    full = True

    @staticmethod
    def natural_gradient(gradient: tuple[Array, Array]) -> tuple[Array, Array]:
        """(alpha, gamma), per latent, as gradient in the (centred) mean parameters."""
        alpha, gamma = gradient
        return alpha, -2.0 * gamma

    def draws_against(self, prior: Any, n: int, random_state: RandomState = None) -> tuple[Array, Array]:
        """Draws (n, P) and what the messages say there, for the prior without messages."""
        draws = self.sample(n, random_state)
        return draws, messages_at(self, prior, draws)


def messages_at(block: Any, prior: Any, draws: Array) -> Array:
    """log q - log prior of such a block at draws (n, P): λx - Wx²/2, less the logarithm of the messages' evidence."""
    linear, weights = block.over(prior).added()
    return draws @ linear - 0.5 * np.square(draws) @ weights - block.log_evidence()


class PointMass(Family):
    """A block without spread, known as its mean."""

    @property
    def variance(self) -> Array:
        """Zero."""
        return np.zeros_like(self.mean)

    @property
    def cov(self) -> Array:
        """Zero."""
        return np.zeros((*self.mean.shape, *self.mean.shape[-1:]))

    def sample(self, n: int = 1, random_state: RandomState = None) -> Array:
        """The point, n times."""
        return np.repeat(self.mean[None], n, axis=0)
