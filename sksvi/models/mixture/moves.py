"""Merge and delete moves of a mixture: what steps of single rows do not find, because they pass through worse places.

At responsibilities r (n, K) and the best q for them the bound is A(prior + counts) - A(prior) - Σ r log r, with A the
log normalisers of all blocks and counts those of r. So a move's gain is known without a fit, and a move is taken only
where it is positive: the bound at the end is no lower than at the start.

Responsibilities and what moves compute from them stay where the rows lie. Most of it needs nothing of a row but its
weight: rows that are read anew for every pass are not read for these.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.special import gammaln, softmax, xlogy

from sksvi._runtime import parallel
from sksvi.models.base import Blocks
from sksvi.models.data import InMemory, Table
from sksvi.models.mixture.model import MixtureModel, MixtureView

# ---- responsibilities of rows
Array = np.ndarray
Counts = dict[str, Array]

#: A responsibility below this is none.
NO_SHARE = 1e-12


@dataclass(frozen=True)
class Shares(InMemory):
    """Responsibilities, a sparse matrix (n, K), and the weights of rows (n,)."""

    shares: Any
    weight: Array

    def __len__(self) -> int:
        return len(self.weight)


def responsibilities_at(model: MixtureModel, view: MixtureView, gone: Array, threads: int, data: Table) -> Shares:
    """Responsibilities of all rows at a view; the components in the mask `gone` (K,) have none."""

    def one(rows: slice) -> Any:
        return sp.csr_matrix(_responsibilities(view, gone, data, rows))

    parts = list(parallel.in_order(one, model.chunks(slice(0, len(data)), data), threads))
    return Shares(sp.vstack(parts, format="csc"), np.ones(len(data)) if data.weight is None else data.weight)


def _responsibilities(view: MixtureView, gone: Array, data: Table, rows: slice | Array) -> Array:
    logs = view.logs(data.X[rows])
    logs[:, gone] = -np.inf
    shares = softmax(logs, axis=1)
    shares[shares < NO_SHARE] = 0.0
    return np.asarray(shares / shares.sum(1, keepdims=True))


def _counted(model: MixtureModel, data: Table, weight: Array, rows: slice | Array, shares: Array) -> Counts:
    counts = model.counted(shares * weight[rows][:, None], data.X[rows])
    return {name: part for name, (part,) in counts.items()}


def all_counts(model: MixtureModel, threads: int, data: Table, shares: Shares) -> Counts:
    """Expected counts of the rows of every component, and of their values."""
    by_row = shares.shares.tocsr()

    def one(rows: slice) -> Counts:
        return _counted(model, data, shares.weight, rows, by_row[rows].toarray())

    return parallel.summed(one, model.chunks(slice(0, len(data)), data), threads)


def _entropy(weight: Array, shares: Array) -> float:
    """-Σ r log r, nats; shares (n,) of one component, or (n, K)."""
    own = xlogy(shares, shares)
    return -float(weight @ (own if own.ndim == 1 else own.sum(1)))


def all_entropy(shares: Shares) -> float:
    """Entropy of all responsibilities, -Σ r log r times the rows' weights, nats."""
    return _entropy(shares.weight[shares.shares.indices], shares.shares.data)


def entropies_of_merges(k: int, others: list[int], shares: Shares) -> Array:
    """Change of the entropy, nats, when component k becomes one with each of the others: at most 0."""
    weight, matrix = shares.weight, shares.shares
    one = matrix[:, [k]]

    def of(column: Any) -> float:
        return _entropy(weight[column.indices], column.data)

    pairs = ((matrix[:, [other]], of(one)) for other in others)
    return np.array([of(one + two) - (own + of(two)) for two, own in pairs])


def reassigned(to: Array, shares: Shares) -> Shares:
    """Responsibilities after components took over those of others: `to` (K, K) is one where a column takes a row's."""
    moved = (shares.shares @ sp.csc_matrix(to)).tocsc()
    moved.eliminate_zeros()
    return Shares(moved, shares.weight)


def changes_of_deletion(
    model: MixtureModel, view: MixtureView, gone: Array, k: int, data: Table, shares: Shares
) -> tuple[Counts, Counts, float]:
    """Counts of the rows of component k before and after they go to the others, and the gain of entropy, nats."""
    rows, old, new = _redistributed(view, gone, k, data, shares)
    before, after = (_counted(model, data, shares.weight, rows, part) for part in (old, new))
    weight = shares.weight[rows]
    return before, after, _entropy(weight, new) - _entropy(weight, old)


def without_component(view: MixtureView, gone: Array, k: int, data: Table, shares: Shares) -> Shares:
    """Responsibilities after the rows of component k went to the others."""
    rows, _, new = _redistributed(view, gone, k, data, shares)
    changed = shares.shares.tolil()
    changed[rows] = new
    return Shares(changed.tocsc(), shares.weight)


def _redistributed(view: MixtureView, gone: Array, k: int, data: Table, shares: Shares) -> tuple[Array, Array, Array]:
    rows = np.sort(shares.shares[:, [k]].indices)
    return rows, shares.shares.tocsr()[rows].toarray(), _responsibilities(view, gone, data, rows)


# ---- merge and delete moves
#: Rows that both components must have for them to be merged. Whether two rows are one group or two is no question for
#: a mean-field bound: with all merges that it likes the mixture has fewer components than the posterior.
SEVERAL_ROWS = 5.0
#: Rows of a component that moves of every kind take for one.
ANY_ROWS = 1e-2
#: Share of the bound that merges of smaller components must gain together. Noise split into a group per few rows gains
#: several hundredths to a quarter; small groups that the data do have, less than a thousandth.
CLEAR_GAIN = 0.01
#: Least gain of a move, nats.
LEAST_GAIN = 1e-3


class Moves:
    """Responsibilities of all rows, and what moves do to them; they stay where the rows are.

    Parameters
    ----------
    model : MixtureModel
    data : Data
    q : dict
        Blocks that responsibilities are found at.
    threads : int
    """

    def __init__(self, model: MixtureModel, data: Any, q: Blocks, threads: int = 1) -> None:
        self.model, self.data, self.threads = model, data, threads
        self.prior = model.prior(q)
        self.view, self.gone = model.view(q, None), np.zeros(model.n_components, bool)
        self.shares = data.mapped(partial(responsibilities_at, model, self.view, self.gone, threads))
        self.counts = self._counted()
        #: Change of the entropy when two components become one, of the pairs for which it was computed.
        self.lost: dict[tuple[int, int], float] = {}

    def _counted(self) -> Counts:
        """Counts that the responsibilities make of the rows."""
        return self.data.reduced(partial(all_counts, self.model, self.threads), beside=self.shares)

    def run(self, every: bool) -> tuple[Blocks, int]:
        """The best q after moves that gain, and how many they were.

        Parameters
        ----------
        every : bool
            Merges of components of any size and deletions; else merges of those with several rows, and of any size only
            where that is a clear gain.
        """
        taken = 0
        while self._merged(ANY_ROWS if every else SEVERAL_ROWS) or (every and self._deleted()):
            taken += 1
        taken += 0 if every else self._clearly_merged()
        taken += self._gathered()
        counts = {name: (part,) for name, part in self._counted().items()}
        return self.model.updated(counts, self.model.best_prior(counts)), taken

    # ---- what responsibilities are worth
    def _used(self, least: float) -> Array:
        """Components of so many rows, the smallest first."""
        rows = self.counts["weights"]
        found = np.flatnonzero(rows >= least)
        return found[np.argsort(rows[found], kind="stable")]

    def _of(self, counts: Counts, components: Array) -> Counts:
        return {name: part[components] for name, part in counts.items()}

    def _evidence(self, counts: Counts) -> Array:
        """A(prior + counts) - A(prior) of the probabilities of components, the leading axis of counts; nats."""
        total = np.zeros(len(counts["weights"]))
        for name, block in self.prior.items():
            if name in self.model.names:
                here = block.of_theta(block.theta[0] + counts[name]).log_normaliser
                total = total + here.sum(-1) - block.log_normaliser[0].sum()
        return total

    def _of_weights(self, rows: Array) -> Array:
        """log Γ(α/K + rows) - log Γ(α/K) of each component: A of the weights but for its term of all rows."""
        share = self.model.share
        return np.asarray(gammaln(share + rows) - gammaln(share))

    def bound(self) -> float:
        """The bound at these responsibilities and the best q for them, nats."""
        all_rows = self.data.total_weight
        worth = self._worth(self.counts)
        worth += float(gammaln(self.model.concentration) - gammaln(self.model.concentration + all_rows))
        return worth + float(self.shares.reduced(all_entropy))

    # ---- moves
    def _clearly_merged(self) -> int:
        """Merge components of any size if that gains a clear share of the bound; return the number of merges."""
        before = self.shares, {name: part.copy() for name, part in self.counts.items()}, self.gone.copy()
        old, taken = self.bound(), 0
        while self._merged(ANY_ROWS):
            taken += 1
        if self.bound() - old > CLEAR_GAIN * abs(old):
            return taken
        self.shares, self.counts, self.gone = before
        self.lost.clear()
        return 0

    def _gathered(self) -> int:
        """Put all rows into one component if that raises the bound, which merges of pairs may miss; 1 if so, else 0."""
        used = self._used(0.0)
        before, old = (self.shares, self.counts, self.gone), self.bound()
        to = np.zeros((self.model.n_components, self.model.n_components))
        to[:, used[-1]] = 1.0
        self.shares = self.shares.mapped(partial(reassigned, to))
        self.counts = {name: np.tensordot(to.T, part, axes=1) for name, part in self.counts.items()}
        self.gone = np.arange(len(to)) != used[-1]
        if self.bound() > old:
            return 1
        self.shares, self.counts, self.gone = before
        return 0

    def _merged(self, least: float) -> bool:
        """Merge the first pair of components that gains; whether there was one."""
        used = self._used(least)
        if len(used) < 2:
            return False
        own, rows = self._evidence(self._of(self.counts, used)), self.counts["weights"]
        for i, k in enumerate(used[:-1]):
            others = used[i + 1 :]
            both = {name: part[others] + part[k] for name, part in self.counts.items()}
            gains = self._evidence(both) - own[i] - own[i + 1 :]
            gains += self._of_weights(both["weights"]) - self._of_weights(rows[others]) - self._of_weights(rows[k])
            order = np.argsort(-gains, kind="stable")
            for j in self._likely(k, others, order[: np.sum(gains > LEAST_GAIN)]):  # entropy falls
                if gains[j] + self.lost[k, others[j]] > LEAST_GAIN:
                    self._merge(k, others[j])
                    return True
        return False

    def _likely(self, k: int, others: Array, order: Array) -> Iterator[int]:
        """Positions of merges in their order; the loss of entropy is computed before, of ever more at a time."""
        at, size = 0, 1
        while at < len(order):
            some = order[at : at + size]
            new = [others[j] for j in some if (k, others[j]) not in self.lost]
            if new:
                lost = self.shares.reduced(partial(entropies_of_merges, k, new))
                self.lost.update(zip(((k, other) for other in new), lost, strict=True))
            yield from some
            at, size = at + size, 2 * size

    def _merge(self, k: int, other: int) -> None:
        to = np.eye(self.model.n_components)
        to[k, k], to[k, other] = 0.0, 1.0
        self.shares = self.shares.mapped(partial(reassigned, to))
        self.gone[k] = True
        for part in self.counts.values():
            part[other] += part[k]
            part[k] = 0.0
        self.lost = {pair: lost for pair, lost in self.lost.items() if not {k, other} & set(pair)}

    def _deleted(self) -> bool:
        """Delete the first component whose rows gain in the others; whether there was one."""
        used = self._used(ANY_ROWS)
        for k in used[:-1]:
            gone = self.gone.copy()
            gone[k] = True
            how = self.view, gone, k
            changes = partial(changes_of_deletion, self.model, *how)
            before, after, gain = self.data.reduced(changes, beside=self.shares)
            # What is taken away was there but for rounding.
            counts = {name: np.maximum(part - before[name], 0.0) + after[name] for name, part in self.counts.items()}
            gain += self._worth(counts) - self._worth(self.counts)  # rows may go to components that had none
            if gain > LEAST_GAIN:
                self.shares = self.data.mapped(partial(without_component, *how), beside=self.shares)
                self.counts, self.gone = counts, gone
                self.lost.clear()
                return True
        return False

    def _worth(self, counts: Counts) -> float:
        return float(self._evidence(counts).sum()) + float(self._of_weights(counts["weights"]).sum())
