"""Mixture of independent columns of values, zeros and ones among them (doc/mixtures.md).

π ~ Dir(α/K), φ_kd ~ Dir(c) over the values of column d, row n of component z_n ~ π has value v in column d with
probability φ_{z_n d v}; a missing cell says nothing. Global blocks: ``weights``, and per number of values m the columns
that have it, ``values_<m>`` (K, D_m, m); zeros and ones are ``probabilities`` (Beta, K x D). The only local variable is
z_n, so that its step is exact: r_nk ∝ exp(what the row sees of component k).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar

import numpy as np
from scipy.optimize import brentq
from scipy.special import digamma, wrightomega

from sksvi._runtime import parallel
from sksvi.algorithms.rules import ClosedForm, Rule
from sksvi.families import Beta, Dirichlet, Point
from sksvi.models.base import Blocks, Gradient, Sampleable
from sksvi.models.data import Table
from sksvi.models.mixture.cells import ColumnGroups, MixtureRows
from sksvi.models.traits import BoundTraits, StepTraits, Traits, Warmup
from sksvi.schedules import RobbinsMonro

Array = np.ndarray

#: Rates of steps when none is given, several in a pass and one.
STEP_RATE, WHOLE_RATE = RobbinsMonro(delay=20.0, kappa=0.6), RobbinsMonro(delay=1.0, kappa=0.5)
#: Passes in which rows see the globals at their mean: components form, and none is starved for being small.
FORMING_PASSES = 10
#: Weight of a row that is the centre of a component at the start; the rest is what all rows have in common, so that
#: many components find the rows that are theirs.
START_SHARE = 0.1
#: Rounds in which rows find their nearest centre, where c is learned.
NEAREST_ROUNDS = 2
#: Where log c is looked for in complete data, and how close.
WIDEST, PRIOR_TOL = 20.0, 1e-6
#: Most rows that centres are chosen among.
CENTRES_AMONG = 2**16


@dataclass
class MixtureView:
    """What rows see of each component: log weight plus log probability of last values (K,), what other values add to
    it (W, K), and the last values by column (D, K).

    ``bounded`` is what a row's term of the bound is taken at where that is another view.
    """

    base: Array
    ones: Array
    last: Array
    bounded: MixtureView | None = None
    draws: dict[str, Any] = field(default_factory=dict)

    def logs(self, cells: MixtureRows) -> Array:
        """Log of weight times probability of the seen cells, (n, K)."""
        found = np.asarray(cells.ones @ self.ones) + self.base
        return found if cells.missing is None else found - np.asarray(cells.missing @ self.last)


@dataclass
class MixtureTerms:
    """Per row its term of the bound (nats), and responsibilities (n, K); both times the row's weight."""

    value: Array
    shares: Array
    local: ClassVar[float] = math.nan
    repairs: ClassVar[int] = 0


class MixtureModel(Sampleable):
    """Model of a table by components whose columns are independent.

    Parameters
    ----------
    n_components : int
    sizes : tuple of int
        Values of each column.
    concentration : float
        α of the weights' prior Dir(α/K).
    value_prior : float
        c, prior count of each value, or where its learning starts.
    learns_prior : bool
        Whether c is learned, under log c ~ N(0, 1): the block ``value_prior``.
    binary : bool
        Whether columns are zeros and ones, whose probabilities are Beta.
    """

    globals = None
    global_modes = ("expected", "sampled", "corrected", "mean")
    traits = Traits(
        bound=BoundTraits(at_expectations=True),
        # Components that are alike at the start would make c large, and stay alike under it.
        warmup=Warmup(FORMING_PASSES, FORMING_PASSES, frozenset({"value_prior"})),
        steps=StepTraits(STEP_RATE, WHOLE_RATE),
        remedy="Raise concentration or probability_prior.",
    )

    def __init__(
        self,
        n_components: int,
        sizes: tuple[int, ...],
        *,
        concentration: float = 20.0,
        value_prior: float = 1.0,
        learns_prior: bool = False,
        binary: bool = True,
    ) -> None:
        self.n_components, self.layout, self.binary = n_components, ColumnGroups(tuple(sizes)), binary
        #: Components that begin at a row, and the share of the row in what they begin with.
        self.n_centres, self.start_share = n_components, START_SHARE
        self.concentration, self.value_prior = float(concentration), float(value_prior)
        self.share, self.learns_prior = self.concentration / n_components, learns_prior
        #: The last prior that was asked for, and its c.
        self._made = self.value_prior, self.prior_of(self.value_prior)

    @property
    def names(self) -> dict[str, tuple[int, Array]]:
        """Number of values and columns of each block of probabilities."""
        groups = self.layout.groups
        return {"probabilities" if self.binary else f"values_{m}": (m, columns) for m, columns in groups.items()}

    def prior_of(self, value_prior: float) -> Blocks:
        """The prior of every block with c."""
        found: Blocks = {"weights": Dirichlet(np.full(self.n_components, self.share))}
        for name, (m, columns) in self.names.items():
            one = Beta(value_prior, value_prior) if self.binary else Dirichlet(np.full(m, value_prior))
            found[name] = one.repeated((self.n_components, len(columns)))
        return found

    def prior(self, q: Blocks) -> Blocks:
        """The prior of every block, which depends on c alone."""
        value, made = self.value_prior_of(q), self._made
        if made[0] != value:
            made = self._made = value, self.prior_of(value)
        return made[1]

    def value_prior_of(self, q: Blocks) -> float:
        """c, the prior count of each value: learned in q, or given."""
        return float(np.exp(q["value_prior"].value[0])) if "value_prior" in q else self.value_prior

    def rows_of(self, q: Blocks) -> Array:
        """Rows that each component is expected to have, (K,)."""
        return np.asarray(q["weights"].concentration - self.share)

    # ---- the prior count of each value
    @property
    def hyper(self) -> dict[str, Rule]:
        """The rule by which c is learned from the probabilities."""
        return {"value_prior": ClosedForm(self._prior_step, self.log_prior_density)} if self.learns_prior else {}

    @property
    def start_of_prior(self) -> Blocks:
        """The block of c at the value where its learning starts."""
        return {"value_prior": Point(np.array([math.log(self.value_prior)]))}

    def log_prior_density(self, q: Blocks) -> float:
        """Log density of the prior of log c at its value in q, nats up to a constant."""
        return self.log_density_at(float(q["value_prior"].value[0]))

    @staticmethod
    def log_density_at(x: float) -> float:
        """Log density of the prior N(0, 1) of log c at x, nats up to a constant."""
        return -0.5 * x**2

    def _prior_step(self, q: Blocks) -> tuple[Array, float]:
        """A step of x = log c that the bound never falls by, counts n fixed, and the least that it gains.

        What c is worth, Σ_v log Γ(c + n_v)/Γ(c) - log Γ(mc + N)/Γ(mc) a column, is at least a x - b exp x up to a
        constant, with equality here (Minka, Estimating a Dirichlet distribution, 2000). Empty components say nothing.
        """
        x, a, b = self._worth(q)
        worth = lambda y: a * y - b * math.exp(y) + self.log_density_at(y)  # noqa: E731
        best = float(a - wrightomega(a + np.log(b))) if b > 0 else a  # where a - b exp x - x = 0
        return np.array([best - x]), worth(best) - worth(x)

    def _worth(self, q: Blocks) -> tuple[float, float, float]:
        """x = log c, and a and b of the bound's slope there, a - b exp x - x with the prior's."""
        x = float(q["value_prior"].value[0])
        c, a, b = math.exp(x), 0.0, 0.0
        for name, (m, _) in self.names.items():
            block, totals = q[name], float(digamma(q[name].total).sum())
            a += c * (float(block.moments.sum()) + m * totals - block.theta.size * digamma(c))
            b += m * totals - block.theta.size * digamma(m * c)
        return x, a, b

    def best_prior(self, counts: Gradient) -> Blocks:
        """The block of c at its optimum given the counts of complete data; empty where it is not learned."""

        def at(x: float) -> Blocks:
            return {"value_prior": Point(np.array([x]))}

        def slope(x: float) -> float:
            x, a, b = self._worth(self.updated(counts, at(x)))
            return a - b * math.exp(x) - x

        return at(brentq(slope, -WIDEST, WIDEST, xtol=PRIOR_TOL)) if self.learns_prior else {}

    # ---- the sampler
    def chain(self, data: Table, threads: int) -> Any:
        """The collapsed Gibbs sampler over these rows."""
        from sksvi.models.mixture.sampler import MixtureSampler

        return MixtureSampler(self, data)

    # ---- start
    def begin(self, data: Any, rng: np.random.Generator, threads: int = 1) -> Blocks:
        """Random rows as centres, drawn towards what all rows have in common; components without one are empty."""
        each = data.total_weight / self.n_centres
        everything = data.reduced(self._in_common)
        first = np.eye(self.n_centres, self.n_components)
        own = self.counted(first, self._centres(data, rng))
        common = (1.0 - self.start_share) / self.n_centres * first.sum(0)
        counts = {
            name: (self.start_share * each * own[name][0] + np.tensordot(common, everything[name][0][0], 0),)
            for name in own
        }
        return self.updated(counts, self._first_prior(data, own, threads) if self.learns_prior else {})

    def _first_prior(self, data: Any, counts: Gradient, threads: int) -> Blocks:
        """c learned from rows by their nearest centre, in a few rounds: under too large a c few components form.

        Not more than it starts at: components begin alike, and under a large c they stay so.
        """
        prior = self.start_of_prior
        for _ in range(NEAREST_ROUNDS):
            view = self.view(self.updated(counts, prior), None)
            counts = data.reduced(partial(self._expected_counts, view, threads))
            prior = self.best_prior(counts)
        return min(prior, self.start_of_prior, key=self.value_prior_of)

    def _expected_counts(self, view: MixtureView, threads: int, data: Table) -> Gradient:
        """Expected counts of all rows, their responsibilities found at a view."""

        def one(rows: Any) -> Gradient:
            part = self.batch(data, rows)
            return self.pull_back(self.terms(view, part, None, None), part)

        return parallel.summed(one, self.chunks(slice(0, len(data)), data), threads)

    def _in_common(self, data: Table) -> Gradient:
        """Counts of all rows, as of one component."""
        return self.counted(np.ones((len(data), 1)) if data.weight is None else data.weight[:, None], data.X)

    def _centres(self, data: Any, rng: np.random.Generator) -> MixtureRows:
        """A row for each component, drawn by weight; it depends neither on the rows' order nor on how repeats come.

        Of many rows the centres are among a sample.
        """
        line = rng.standard_normal(self.layout.width), rng.standard_normal(len(self.layout.columns))
        data = data.portion(CENTRES_AMONG, int(rng.integers(2**62))) if len(data) > CENTRES_AMONG else data
        place, weight = data.reduced(partial(self._places, line), parallel.end_to_end)
        # Rounded, so that equal rows are equal wherever they stand.
        order = np.argsort(np.round(place, 9), kind="stable")
        ends = np.cumsum(weight[order])
        at = (rng.permutation(self.n_centres) + rng.random(self.n_centres)) / self.n_centres
        rows = order[np.minimum(np.searchsorted(ends, at * ends[-1], side="right"), len(order) - 1)]
        given = np.argsort(rows, kind="stable")
        return data.take(rows[given]).X[np.argsort(given)]

    def _places(self, line: tuple[Array, Array], data: Table) -> tuple[Array, Array]:
        """Where rows are along a random line, and their weights."""
        place = data.X.ones @ line[0]
        place = place if data.X.missing is None else place + data.X.missing @ line[1]
        return place, np.ones(len(data)) if data.weight is None else data.weight

    def updated(self, counts: Gradient, q: Blocks) -> Blocks:
        """The posterior given the counts of complete data, with c of q."""
        found = {name: block.of_theta(block.theta + counts[name][0]) for name, block in self.prior(q).items()}
        return {**found, **{name: q[name] for name in self.hyper}}

    # ---- rows
    def chunks(self, rows: Any, data: Table) -> list[Any]:
        """Rows in chunks whose table and responsibilities fit the cache."""
        return parallel.parts_of(rows, parallel.chunk_rows(self.n_components + self.layout.width, False))

    def batch(self, data: Table, rows: Any, start: Array | None = None) -> Table:
        """The rows of a step: those of the data with the given indices."""
        return data.take(rows)

    def view(self, q: Blocks, rng: np.random.Generator | None) -> MixtureView:
        """What rows see of q: expected log weights and log probabilities, or those of a draw."""
        if rng is None:
            return self.view_of({name: block.moments for name, block in q.items()})
        draws = {name: q[name].drawn(rng) for name in self.prior(q)}
        view = self.view_of({name: q[name].log_values(draw) for name, draw in draws.items()})
        view.draws = draws
        return view

    def view_of(self, logs: dict[str, Array]) -> MixtureView:
        """What rows see of the components, from log weights and log probabilities by block."""
        K = self.n_components
        ones, last = [np.empty((0, K))], [np.empty((0, K))]
        for name in self.names:
            part = logs[name]
            ones.append((part[..., :-1] - part[..., -1:]).reshape(K, -1).T)
            last.append(part[..., -1].T)
        last_ones = np.concatenate(last)
        return MixtureView(logs["weights"] + last_ones.sum(0), np.concatenate(ones), last_ones)

    def view_at_mean(self, q: Blocks) -> MixtureView:
        """Logarithms of the means of q."""
        return self.view_of({name: np.log(q[name].theta) - np.log(q[name].total) for name in ("weights", *self.names)})

    def terms(self, view: MixtureView, batch: Table, expect: Any, rng: Any) -> MixtureTerms:
        """Responsibilities of the components for each row."""
        logs = view.logs(batch.X)
        top = logs.max(1, keepdims=True)
        shares = np.exp(logs - top)
        total = shares.sum(1, keepdims=True)
        shares /= total
        if view.bounded is None:
            value = (top + np.log(total))[:, 0]
        else:  # -Σ r log r = log Σ exp(logs) - Σ r logs
            value = (top + np.log(total))[:, 0] + np.einsum("nk,nk->n", shares, view.bounded.logs(batch.X) - logs)
        if batch.weight is None:
            return MixtureTerms(value, shares)
        return MixtureTerms(value * batch.weight, shares * batch.weight[:, None])

    def pull_back(self, terms: MixtureTerms, batch: Table) -> Gradient:
        """Expected counts: rows of each component, and of them those with each value."""
        return self.counted(terms.shares, batch.X)

    def counted(self, shares: Array, cells: MixtureRows) -> Gradient:
        """Expected counts under responsibilities: rows of each component, and of them those with each value."""
        K, rows = shares.shape[1], shares.sum(0)
        ones = np.asarray(cells.ones.T @ shares).T
        observed = np.broadcast_to(rows[:, None], (K, len(self.layout.columns)))
        if cells.missing is not None:
            observed = observed - np.asarray(cells.missing.T @ shares).T
        found: Gradient = {"weights": (rows,)}
        at = here = 0
        for name, (m, columns) in self.names.items():
            width = (m - 1) * len(columns)
            first = ones[:, at : at + width].reshape(K, len(columns), m - 1)
            # What is left for the last value is no less than 0 but for rounding.
            rest = np.maximum(observed[:, here : here + len(columns)] - first.sum(-1), 0.0)
            found[name] = (np.concatenate([first, rest[..., None]], -1),)
            at, here = at + width, here + len(columns)
        return found
