"""Mixture of independent columns of values, zeros and ones among them (equations.md 8).

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

from sksvi._machine import parallel
from sksvi.families import Beta, Dirichlet
from sksvi.models.base import Blocks, Gradient, Sampleable, Table
from sksvi.models.mixture.cells import Cells, Layout
from sksvi.schedules import RobbinsMonro

Array = np.ndarray

#: Rates of steps when none is given, several in a pass and one.
STEP_RATE, WHOLE_RATE = RobbinsMonro(delay=20.0, kappa=0.6), RobbinsMonro(delay=1.0, kappa=0.5)
#: Passes in which rows see the globals at their mean: components form, and none is starved for being small.
FORMING_PASSES = 10
#: Weight of a row that is the centre of a component at the start; the rest is what all rows have in common.
START_SHARE = 0.1
#: Most rows that centres are chosen among.
CENTRES_AMONG = 2**16


@dataclass
class View:
    """What rows see of each component: log weight plus log probability of last values (K,), what other values add to
    it (W, K), and the last values by column (D, K).

    ``bounded`` is what a row's term of the bound is taken at where that is another view.
    """

    base: Array
    ones: Array
    last: Array
    bounded: View | None = None
    draws: dict[str, Any] = field(default_factory=dict)

    def logs(self, cells: Cells) -> Array:
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
        c, prior count of each value.
    binary : bool
        Whether columns are zeros and ones, whose probabilities are Beta.
    """

    globals = None
    seen_as = ("expected", "sampled", "corrected", "mean")
    expected_bound = True
    forming_passes = forming_whole = FORMING_PASSES
    step_rate, whole_rate = STEP_RATE, WHOLE_RATE
    remedy = "Raise concentration or probability_prior."

    def __init__(
        self,
        n_components: int,
        sizes: tuple[int, ...],
        *,
        concentration: float = 20.0,
        value_prior: float = 1.0,
        binary: bool = True,
    ) -> None:
        self.n_components, self.layout, self.binary = n_components, Layout(tuple(sizes)), binary
        self.concentration, self.value_prior = float(concentration), float(value_prior)
        self.share = self.concentration / n_components
        counts = {"weights": np.full(n_components, self.share)}
        for name, (m, columns) in self.names.items():
            counts[name] = np.full((n_components, len(columns), m), self.value_prior)
        self._prior = self.blocks(counts)

    @property
    def names(self) -> dict[str, tuple[int, Array]]:
        """Number of values and columns of each block of probabilities."""
        groups = self.layout.groups
        return {"probabilities" if self.binary else f"values_{m}": (m, columns) for m, columns in groups.items()}

    def blocks(self, counts: dict[str, Array]) -> Blocks:
        """Blocks with these concentrations."""
        beta = {"probabilities"} if self.binary else set()
        return {
            name: Beta(value[..., 0], value[..., 1]) if name in beta else Dirichlet(value)
            for name, value in counts.items()
        }

    def prior(self, q: Blocks) -> Blocks:
        """The prior of every block; it depends on none."""
        return self._prior

    # ---- the sampler
    def chain(self, data: Table, threads: int) -> Any:
        """The collapsed Gibbs sampler over these rows."""
        from sksvi.models.mixture.sampler import Sampler

        return Sampler(self, data)

    def matched(self, draws: list[Any]) -> Blocks:
        """Blocks given the mean counts of draws."""
        from sksvi.models.mixture.sampler import matched

        return matched(self, draws)

    # ---- start
    def begin(self, data: Any, rng: np.random.Generator) -> Blocks:
        """Random rows as centres, drawn towards what all rows have in common."""
        centres = self._centres(data, rng)
        each = data.total_weight / self.n_components
        everything = data.reduced(self._in_common)
        own = self.counted(np.eye(self.n_components), centres)
        common = (1.0 - START_SHARE) / self.n_components
        return self.updated({name: (START_SHARE * each * own[name][0] + common * everything[name][0],) for name in own})

    def _in_common(self, data: Table) -> Gradient:
        """Counts of all rows."""
        return self.counted(np.ones((len(data), 1)) if data.weight is None else data.weight[:, None], data.X)

    def _centres(self, data: Any, rng: np.random.Generator) -> Cells:
        """A row for each component, by weight; which, does not depend on their order, or on how repeats are told.

        Of many rows the centres are among a sample.
        """
        line = rng.standard_normal(self.layout.width), rng.standard_normal(len(self.layout.columns))
        if len(data) > CENTRES_AMONG:
            data = data.portion(CENTRES_AMONG, int(rng.integers(2**62)))
        place, weight = data.reduced(partial(self._places, line), parallel.end_to_end)
        # Rounded, so that equal rows are equal wherever they stand.
        order = np.argsort(np.round(place, 9), kind="stable")
        ends = np.cumsum(weight[order])
        at = (rng.permutation(self.n_components) + rng.random(self.n_components)) / self.n_components
        rows = order[np.minimum(np.searchsorted(ends, at * ends[-1], side="right"), len(order) - 1)]
        given = np.argsort(rows, kind="stable")
        return data.take(rows[given]).X[np.argsort(given)]  # type: ignore[no-any-return]

    def _places(self, line: tuple[Array, Array], data: Table) -> tuple[Array, Array]:
        """Where rows are along a random line, and their weights."""
        place = data.X.ones @ line[0]
        place = place if data.X.missing is None else place + data.X.missing @ line[1]
        return place, np.ones(len(data)) if data.weight is None else data.weight

    def updated(self, said: Gradient) -> Blocks:
        """The posterior of complete data."""
        return {name: block.of_theta(block.theta + said[name][0]) for name, block in self._prior.items()}

    # ---- rows
    def chunks(self, rows: Any, data: Table) -> list[Any]:
        """Rows in chunks whose table and responsibilities fit the cache."""
        size = parallel.chunk_rows(self.n_components + self.layout.width, False)
        if isinstance(rows, slice):
            return [
                slice(rows.start + p.start, rows.start + p.stop) for p in parallel.slices(rows.stop - rows.start, size)
            ]
        return [rows[part] for part in parallel.slices(len(rows), size)]

    def batch(self, data: Table, rows: Any, start: Array | None = None) -> Table:
        """These rows."""
        return data.take(rows)

    def view(self, q: Blocks, rng: np.random.Generator | None) -> View:
        """Log probabilities: expected, or of a draw."""
        if rng is None:
            return self.seen({name: block.moments for name, block in q.items()})
        draws = {name: block.drawn(rng) for name, block in q.items()}
        view = self.seen({name: q[name].log_values(draw) for name, draw in draws.items()})
        view.draws = draws
        return view

    def seen(self, logs: dict[str, Array]) -> View:
        """The view at log weights and log probabilities by block."""
        K = self.n_components
        ones, last = [np.empty((0, K))], [np.empty((0, K))]
        for name in self.names:
            part = logs[name]
            ones.append((part[..., :-1] - part[..., -1:]).reshape(K, -1).T)
            last.append(part[..., -1].T)
        last_ones = np.concatenate(last)
        return View(logs["weights"] + last_ones.sum(0), np.concatenate(ones), last_ones)

    def terms(self, view: View, batch: Table, expect: Any, rng: Any) -> MixtureTerms:
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

    def counted(self, shares: Array, cells: Cells) -> Gradient:
        """Counts that responsibilities make of cells."""
        K, rows = shares.shape[1], shares.sum(0)
        ones = np.asarray(cells.ones.T @ shares).T
        seen = np.broadcast_to(rows[:, None], (K, len(self.layout.columns)))
        if cells.missing is not None:
            seen = seen - np.asarray(cells.missing.T @ shares).T
        found: Gradient = {"weights": (rows,)}
        at = here = 0
        for name, (m, columns) in self.names.items():
            width = (m - 1) * len(columns)
            first = ones[:, at : at + width].reshape(K, len(columns), m - 1)
            # What is left for the last value is no less than 0 but for rounding.
            rest = np.maximum(seen[:, here : here + len(columns)] - first.sum(-1), 0.0)
            found[name] = (np.concatenate([first, rest[..., None]], -1),)
            at, here = at + width, here + len(columns)
        return found
