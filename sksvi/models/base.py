"""What a model answers, in a few small contracts, and the records that travel between model and engine.

A model knows data and structure, and no algorithm. It is asked for the expected log-likelihood of some rows at q and
for its gradient in each block's moments; whoever asks knows neither rows nor structure.

==========  =====================================================================================
`Model`     everyone
`Linear`    latents are linear in one Gaussian block: messages per row, best means
`Local`     something is kept per row between passes
`Bipartite`     plates on two sides, which step in turn
`Sampleable`  has a sampler of its own posterior
==========  =====================================================================================
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self, cast

import numpy as np

from sksvi.models.data import Data, Rows
from sksvi.models.traits import AlternatingTraits, BoundTraits, Traits

if TYPE_CHECKING:
    from sksvi.algorithms.rules import Rule

Array = np.ndarray
#: Blocks of q by name.
Blocks = dict[str, Any]
#: Per block the gradient in its moments: (mean, covariance) of a Gaussian, (gradient, Hessian) of a point, else one.
Gradient = dict[str, tuple[Any, ...]]


@dataclass(frozen=True)
class Segment:
    """One step's share of the data: which blocks move (None: all), on which rows, blown up by `scale`."""

    rows: Rows
    scale: float
    blocks: tuple[str, ...] | None = None


class Terms(Protocol):
    """What `Model.terms` returns of some rows: the engine reads `value`, the rest is between the model's own methods.

    value (n,): each row's part of the bound, nats. repairs: covariances of local variables that had to be projected.
    """

    value: Array
    repairs: int


def summed(values: Array, weight: Array | None) -> Array:
    """Sums over rows, (S,), of numbers per draw and row (S, n), by the weights of the rows."""
    return values.sum(axis=1) if weight is None else values @ weight


@dataclass
class LinearTerms:
    """Numbers per datum, before any sum.

    value (n,): E log p(y|f), nats; of models whose rows are never told apart, sums over some of them. alpha, gamma
    (n,) or (n, K), jointly over classes gamma (n, K, K): its derivatives in mean and (co)variance of f. linear: hᵀm,
    the mean of f without offset (what a site needs). points: derivatives in the unconstrained likelihood parameters,
    (n, P) and (n, P, P). scalars (n, 2): gradient and a curvature in the one moment of a further block. variance: that
    of hᵀw, in the shape of gamma, where rows of a stream are kept.
    """

    LAYOUT = """
        value (n) f; alpha (n) f or (n,_) f
        gamma (n,…) f where it.shape[1:] in (self.alpha.shape[1:], 2 * self.alpha.shape[1:])
        linear (n) f or (n,_) f where it.shape == self.alpha.shape
        points dict
        points[*] items 2 where it[1].shape[1:] == 2 * it[0].shape[1:]
        points[*][0] (n,_) f; points[*][1] (n,_,_) f; scalars dict; scalars[*] (n) f
        variance? (n,…) f where it.shape == self.gamma.shape
    """

    value: Array
    alpha: Array
    gamma: Array
    linear: Array
    points: dict[str, tuple[Array, Array]] = field(default_factory=dict)
    scalars: dict[str, Array] = field(default_factory=dict)
    variance: Array | None = None
    repairs: ClassVar[int] = 0

    def weighted(self, weight: Array | None) -> Self:
        """The terms with every number multiplied by its row's weight: a row of weight k counts as k rows."""
        if weight is None:
            return self

        def times(values: Array) -> Array:
            return values * weight.reshape(-1, *[1] * (values.ndim - 1))

        points = {k: (g * weight[:, None], h * weight[:, None, None]) for k, (g, h) in self.points.items()}
        scalars = {k: times(g) for k, g in self.scalars.items()}
        alpha, gamma = times(self.alpha), times(self.gamma)
        return replace(self, value=self.value * weight, alpha=alpha, gamma=gamma, points=points, scalars=scalars)

    def message(self) -> tuple[Array, Array]:
        """Natural parameters of each datum's message about f: (alpha - 2 gamma hᵀm, gamma)."""
        if self.gamma.ndim == 3:
            return self.alpha - 2 * np.einsum("nkl,nl->nk", self.gamma, self.linear), self.gamma
        return self.alpha - 2 * self.gamma * self.linear, self.gamma

    def take(self, rows: Rows) -> LinearTerms:
        """The terms of some rows."""
        return self._each(lambda part: part[rows])

    def concatenated(self, other: LinearTerms) -> LinearTerms:
        """The terms of these rows, followed by those of the rows of `other`."""
        return self._each(lambda a, b: np.concatenate([a, b]), other)

    def blended(self, other: LinearTerms, share: float) -> LinearTerms:
        """(1 - share) of these numbers plus share of the other's."""
        return self if share == 0.0 else self._each(lambda a, b: (1 - share) * a + share * b, other)

    def _each(self, change: Callable[..., Array], *others: LinearTerms) -> LinearTerms:
        """Terms whose every array is `change` of this array and the corresponding arrays of `others`."""
        of = (self, *others)

        def part(name: str) -> Any:
            return change(*(getattr(terms, name) for terms in of))

        points = {
            k: (change(*(t.points[k][0] for t in of)), change(*(t.points[k][1] for t in of))) for k in self.points
        }
        scalars = {k: change(*(t.scalars[k] for t in of)) for k in self.scalars}
        variance = None if self.variance is None else part("variance")
        return LinearTerms(part("value"), part("alpha"), part("gamma"), part("linear"), points, scalars, variance)


@dataclass
class Fit(ABC):
    """What a search for hyperparameters may ask of the fit that it serves (`Model.search`).

    Parameters
    ----------
    problem, state : Problem and State
        The fit's: ``data``, ``expect``, ``threads``, ``scale`` and names of ``frozen`` blocks; blocks have settled.
    tick : callable
        Tell the fit of another look at all data, by the bound; True: it must stop.
    """

    problem: Any
    state: Any
    tick: Callable[[float], bool]

    @property
    def q(self) -> Blocks:
        """The blocks."""
        return cast(Blocks, self.state.q)

    @property
    def here(self) -> Any:
        """Evaluation (q, gradient, bound) there."""
        return self.state.progress.here

    @property
    def under_way(self) -> dict[str, Any]:
        """What a search had recorded when the fit was cut off; empty: it begins."""
        return dict(self.state.progress.under_way)

    def already_searched(self, names: list[str]) -> bool:
        """Whether the last search of this fit ended at these hyperparameters."""
        found = self.state.progress.searched
        return bool(found) and all(n in found and np.array_equal(found[n].value, self.q[n].value) for n in names)

    def size(self, bound: float) -> float:
        """What `tol` is relative to at a bound, nats."""
        return float(self.problem.size(bound))

    @abstractmethod
    def divergence(self, q: Blocks) -> float:
        """What q pays for its distance from the prior, nats."""

    @abstractmethod
    def settle(
        self, q: Blocks, passes: int, tol: float, stop: Callable[[float], bool] | None = None, model: Any = None
    ) -> Any:
        """Evaluation after at most `passes` line-search passes from q; `stop`, called with the bound, ends it too.

        With another `model` the steps are natural ones, whatever the fit's own are.
        """

    @abstractmethod
    def record(self, q: Blocks, gradient: Gradient, bound: float, **under_way: Any) -> None:
        """Let the fit be at this q, with gradient and bound there: where it goes on, or is cut off.

        ``under_way`` : all that a search needs to go on with from there; nothing: it has ended.
        """


class Starts:
    """What a fit with a line search may begin with, beside the first q of `Model.begin`.

    ``settled_by_search`` : whether the search for hyperparameters settles q at each of them: it begins after one pass,
    and none follows.
    """

    settled_by_search = False

    def filled(self, q: Blocks, data: Any) -> Blocks:
        """The first q with what is as large as the data: passes begin with it, and who holds the first q does not."""
        return q

    def others(self, q: Blocks) -> list[Blocks]:
        """Hyperparameters that a fit may also begin with, where its own first ones need not lead to the best optimum.

        The first steps hold them, so that the other blocks are where they belong before these move.
        """
        return []

    def optimum(self, q: Blocks, data: Any, scale: float) -> Any:
        """``q``, ``gradient`` and ``bound`` where they are known without a look at every row's terms; else None."""
        return None

    def is_optimal(self, q: Blocks, data: Any) -> bool:
        """Whether q is known to be the best under its hyperparameters, so that no step leads on from there."""
        return False


class Model(ABC):
    """What every model answers.

    ``traits`` : what inference must know of it besides its formulas.
    ``main`` : the Gaussian block in which latents are linear, if there is one.
    ``globals`` : how local steps see the global blocks: "expected" or "corrected"; None: as the algorithm says, one of
    ``global_modes``.
    ``starts`` : what a fit with a line search may begin with, beside `begin`.
    """

    traits: Traits = Traits()
    main: str | None = None
    globals: str | None = "expected"
    global_modes: tuple[str, ...] = ("expected", "sampled")
    starts: Starts = Starts()

    def replaced(self, **changes: Any) -> Self:
        """Copy with other attributes: arrays are shared, and what is computed once is computed again.

        Parameters
        ----------
        **changes
            Attributes, of which no other one depends that the model was made with, and their new values.

        Raises
        ------
        TypeError
            For a name that is no attribute of the model.
        """
        other = copy.copy(self)
        for name in _computed_once(type(self)):
            vars(other).pop(name, None)
        for name, value in changes.items():
            if not hasattr(self, name):
                raise TypeError(f"{type(self).__name__} has no attribute {name!r}")
            setattr(other, name, value)
        return other

    @property
    def hyper(self) -> dict[str, Rule]:
        """How each hyperparameter moves: every block of q without an entry has a prior, and the algorithm's rule."""
        return {}

    @abstractmethod
    def begin(self, data: Any, rng: np.random.Generator, threads: int = 1) -> Blocks:
        """The first q; what is asked of all rows is shared among `threads`, which leaves its bits."""

    @abstractmethod
    def prior(self, q: Blocks) -> Blocks:
        """Prior of every block that has one; may read hyperparameters."""

    def sweep(self, data: Any, batch_size: int | None, seed: int, number: int) -> Iterator[Segment]:
        """Pass `number` over the data as segments: all blocks, one batch of rows each."""
        return default_sweep(data, batch_size, seed, number)

    @abstractmethod
    def chunks(self, rows: Rows, data: Any) -> list[Any]:
        """The rows of a segment in chunks of fixed size, whose sums may be formed anywhere."""

    @abstractmethod
    def batch(self, data: Any, rows: Any, start: Any = None) -> Any:
        """What `terms` needs of a chunk; `start`: where its local variables ended, for a model that is `Local`."""

    def view(self, q: Blocks, rng: np.random.Generator | None) -> Any:
        """What `terms` reads of q, once per step: with `rng` one draw of the globals, else expectations."""
        return q

    def narrowed(self, view: Any, data: Any, rows: Rows) -> tuple[Any, Callable[[Gradient], Gradient]]:
        """The view of the columns that rows have, where it is made column by column; a summed gradient in all."""
        return view, lambda gradient: gradient

    @abstractmethod
    def terms(self, view: Any, batch: Any, expect: Any, rng: Any) -> Any:
        """Per datum: its part of the bound, and what `pull_back` makes a gradient of; unscaled."""

    @abstractmethod
    def pull_back(self, terms: Any, batch: Any) -> Gradient:
        """Gradient per block: linear in the terms, summed over rows."""

    def sums(self, q: Blocks, gradient: Gradient, value: float, n: float) -> SufficientStatistics | None:
        """What rows of weight n say at any q, from gradient and E log p at one; None: the rows alone say it."""
        return None

    def completed(self, gradient: Gradient, q: Blocks) -> Gradient:
        """The summed gradient, once what is no sum over rows has been added to it."""
        return gradient

    def in_turn(self, name: str, gradient: Gradient, before: Blocks, q: Blocks) -> Gradient:
        """The gradient when it is a block's turn to step, from `before`; blocks before it have moved in q."""
        return gradient

    def search(self, fit: Fit, tol: float) -> tuple[Blocks, bool]:
        """A settled q with hyperparameters where the bound is larger, and whether that was worth `tol`."""
        return fit.q, False

    def grown(self, q: Blocks, data: Any) -> Blocks:
        """q for data that bring more of what its blocks are about: new words, new ids, later times."""
        return q

    def concentrated(self, q: Blocks, data: Any) -> Blocks:
        """q that has a bound, and a step, on rows that say what no row before them did."""
        return q


class SufficientStatistics(Protocol):
    """Sums over all rows that say at any q what the rows say."""

    def at(self, model: Model, q: Blocks) -> tuple[Gradient, float] | None:
        """Gradient and E log p at q, nats; None where their digits are lost."""
        ...


@cache
def _computed_once(kind: type[Model]) -> tuple[str, ...]:
    """Names of the cached properties of a class."""
    return tuple(name for name in dir(kind) if isinstance(getattr(kind, name, None), cached_property))


class Linear(Model):
    """Latents linear in the Gaussian block `main`, so that a datum's message about it is a few numbers."""

    main: str = "weights"
    traits = Traits(bound=BoundTraits(seeded=False))
    likelihood: Any

    def current_likelihood(self, q: dict[str, Any]) -> Any:
        """The likelihood with its learned parameters as q has them."""
        return self.likelihood.replace(q["likelihood"].value) if "likelihood" in q else self.likelihood

    @abstractmethod
    def message_shapes(self, n: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Shapes of the linear and the quadratic part of n messages."""

    def log_likelihood_at(self, q: Blocks, draws: dict[str, Array], batch: Any, expect: Any) -> Array:
        """log p(rows | draw) of a chunk, (S,), nats: rows counted by their weights, summed.

        draws: (S, ...) of every block that has a prior; all else as q has it.
        """
        raise AttributeError(f"{type(self).__name__} has no density at draws")

    def recentred(self, q: Blocks) -> Blocks:
        """q moved along what the data do not feel to where it is nearest its prior: E log p stays."""
        return q

    @abstractmethod
    def best_mean(self, q: Blocks, prior: Any, data: Any, expect: Any, scale: float, threads: int, steps: int) -> Any:
        """The main block with the mean that is best at its covariance: a concave problem without Gram products."""


class Local(Model):
    """Keeps something per row between passes, by `Traits.local_rule`."""

    @abstractmethod
    def local_begin(self, data: Any) -> Array:
        """Values at which each row's local variables start, (n, ...)."""


class Bipartite(Model):
    """Plates on two sides, independent given the other side: users given items, then items given users.

    ``alternating`` : the sides, and when what they share begins to move.
    """

    alternating: AlternatingTraits

    def tempered(self, passes: int) -> Bipartite | None:
        """The model that pass number `passes` of a new fit serves, on its way to this one; None: this one."""
        return None

    @abstractmethod
    def side_view(self, q: Blocks, side: str, expect: Any, rng: Any) -> SideView:
        """The other side as the plates of `side` depend on it during half a sweep."""

    @abstractmethod
    def learned(self, q: Blocks, natural: bool) -> Blocks:
        """q with what is learned of all plates at once; `natural`: in the coordinates that cost least.

        AdaGrad's sums belong to the coordinates that they were found in.
        """


class Sampleable(Model):
    """Has a sampler of its own posterior."""

    @abstractmethod
    def chain(self, data: Any, threads: int) -> MarkovChain:
        """Sweeps over these rows."""


class MarkovChain(Protocol):
    """A sampler of the posterior of some rows."""

    def begin(self, q: Blocks, local: Array | None) -> Any:
        """The first draw: at q, and where each row's local variables were."""
        ...

    def sweep(self, draw: Any, rng: np.random.Generator) -> tuple[Any, float]:
        """The next draw, and its log density or bound, nats."""
        ...

    def matched(self, draws: list[Any]) -> Blocks:
        """Blocks with the first two moments of draws."""
        ...


class SideView(Protocol):
    """One side as the plates of the other depend on it."""

    def chunks(self, entries: Any, plates: Array | None = None) -> list[Any]:
        """Plates that have these entries, or some of them, in chunks."""
        ...

    def plates(self, entries: Any, expect: Any, rng: Any) -> SidePlates:
        """The bound as a function of some plates, given their entries."""
        ...


class SidePlates(Protocol):
    """Some plates of one side, given the other.

    ``judged`` : the gradient is that of `value`, so that steps may be judged, and halved, by it.
    """

    judged: bool

    def terms(self, block: Any) -> tuple[Array, tuple[Any, ...]]:
        """Value (B,) of each plate, and the gradient in its moments."""
        ...

    def value(self, block: Any) -> Array:
        """Value (B,) of each plate."""
        ...

    def hyper(self, block: Any) -> Gradient:
        """Gradient in hyperparameters, summed over the plates."""
        ...

    def refined(self, own: Any, new: Any, prior: Any) -> Any:
        """The plates after a step of rate 1, where more is known of them than that step used."""
        ...

    def mended(self, own: Any, new: Any, prior: Any, after: Array) -> tuple[Any, Array, int]:
        """Plates whose steps are not judged by their gradient, their value, and how many were taken back in part."""
        ...


def default_sweep(data: Data, batch_size: int | None, seed: int, number: int, ramp: bool = False) -> Iterator[Segment]:
    """Segments of one pass: all blocks, on rows in shuffled batches, each blown up to the data's weight.

    With `ramp` the population of the first pass is the rows that it has visited so far.
    """
    n = len(data)
    if batch_size is None or batch_size >= n:
        yield Segment(slice(0, n), 1.0)
        return
    total, n_visited = data.total_weight, 0
    for rows, count, weight in data.batches(batch_size, seed, number):
        n_visited += count
        if weight > 0:
            yield Segment(rows, min(n_visited, n) / count if ramp and number == 0 else total / weight)
