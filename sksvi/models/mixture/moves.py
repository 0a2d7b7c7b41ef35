"""Merge and delete moves of a mixture: what steps of single rows do not find, because they pass through worse places.

At responsibilities r (n, K) and the best q for them the bound is A(prior + counts) - A(prior) - Σ r log r, with A the
log normalisers of all blocks and counts those of r. So a move's gain is known without a fit, and a move is taken only
where it is positive: the bound at the end is no lower than at the start.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from scipy.special import gammaln, softmax, xlogy

from sksvi.models.base import Blocks, Table
from sksvi.models.mixture.model import MixtureModel

Array = np.ndarray
Counts = dict[str, Array]

#: Rows that both components must have for them to be merged. Whether two rows are one group or two is no question for
#: a mean-field bound: with all merges that it likes the mixture has fewer components than the posterior.
SEVERAL_ROWS = 5.0
#: Rows of a component that moves of every kind take for one.
ANY_ROWS = 1e-2
#: Share of the bound that merges of smaller components must gain together. Noise split into a group per few rows gains
#: several hundredths to a quarter; small groups that the data do have, less than a thousandth.
CLEAR_GAIN = 0.01
#: Least gain of a move, nats; a responsibility below `NO_SHARE` is none.
LEAST_GAIN, NO_SHARE = 1e-3, 1e-12


class Moves:
    """Responsibilities of all rows, and what moves do to them.

    Parameters
    ----------
    model : MixtureModel
    data : Table
    q : dict
        Blocks that responsibilities are found at.
    """

    def __init__(self, model: MixtureModel, data: Table, q: Blocks) -> None:
        self.model, self.data = model, data
        self.weight = np.ones(len(data)) if data.weight is None else data.weight
        self.view, self.gone = model.view(q, None), np.zeros(model.n_components, bool)
        self.parts = model.chunks(slice(0, len(data)), data)
        self.shares = sp.vstack([sp.csr_matrix(self._found(rows)) for rows in self.parts], format="csc")
        self.counts = self._all_counts()

    def _found(self, rows: slice | Array) -> Array:
        """Responsibilities of some rows, of components that are still there."""
        logs = self.view.logs(self.data.X[rows])
        logs[:, self.gone] = -np.inf
        shares = softmax(logs, axis=1)
        shares[shares < NO_SHARE] = 0.0
        return np.asarray(shares / shares.sum(1, keepdims=True))

    def _counted(self, rows: slice | Array, shares: Array) -> Counts:
        said = self.model.counted(shares * self.weight[rows][:, None], self.data.X[rows])
        return {name: part for name, (part,) in said.items()}

    def _all_counts(self) -> Counts:
        shares = self.shares.tocsr()
        found = [self._counted(rows, shares[rows].toarray()) for rows in self.parts]
        return {name: np.sum([part[name] for part in found], axis=0) for name in found[0]}

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
        return self.model.updated({name: (part,) for name, part in self._all_counts().items()}), taken

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
        for name, block in self.model.prior({}).items():
            if name in self.model.names:
                here = block.of_theta(block.theta[0] + counts[name]).log_normaliser
                total = total + here.sum(-1) - block.log_normaliser[0].sum()
        return total

    def _of_weights(self, rows: Array) -> Array:
        """The same of the weights of components, but for what depends on the number of all rows."""
        share = self.model.share
        return np.asarray(gammaln(share + rows) - gammaln(share))

    def _entropy(self, rows: Array, shares: Array) -> float:
        """-Σ r log r of some rows, nats; shares (n,) of one component, or (n, K)."""
        own = xlogy(shares, shares)
        return -float(self.weight[rows] @ (own if own.ndim == 1 else own.sum(1)))

    def bound(self) -> float:
        """The bound at these responsibilities and the best q for them, nats."""
        all_rows = self.weight.sum()
        worth = self._worth(self.counts, np.arange(self.model.n_components))
        worth += float(gammaln(self.model.concentration) - gammaln(self.model.concentration + all_rows))
        return worth + self._entropy(self.shares.indices, self.shares.data)

    # ---- moves
    def _clearly_merged(self) -> int:
        """Merges of components of any size, if together they gain a clear share of the bound; how many they were."""
        before = self.shares, {name: part.copy() for name, part in self.counts.items()}, self.gone.copy()
        old, taken = self.bound(), 0
        while self._merged(ANY_ROWS):
            taken += 1
        if self.bound() - old > CLEAR_GAIN * abs(old):
            return taken
        self.shares, self.counts, self.gone = before
        return 0

    def _gathered(self) -> int:
        """Whether all rows are one component because that has the higher bound: pairs need not lead there."""
        used = self._used(0.0)
        before, old = (self.shares, self.counts, self.gone), self.bound()
        to = np.zeros((self.model.n_components, self.model.n_components))
        to[:, used[-1]] = 1.0
        self.shares = (self.shares @ sp.csr_matrix(to)).tocsc()
        self.counts = {name: np.tensordot(to.T, part, axes=1) for name, part in self.counts.items()}
        self.gone = np.arange(len(to)) != used[-1]
        if self.bound() > old:
            return 1
        self.shares, self.counts, self.gone = before
        return 0

    def _merged(self, least: float) -> bool:
        """Whether two components became one."""
        used = self._used(least)
        if len(used) < 2:
            return False
        own, rows = self._evidence(self._of(self.counts, used)), self.counts["weights"]
        for i, k in enumerate(used[:-1]):
            others = used[i + 1 :]
            both = {name: part[others] + part[k] for name, part in self.counts.items()}
            gains = self._evidence(both) - own[i] - own[i + 1 :]
            gains += self._of_weights(both["weights"]) - self._of_weights(rows[others]) - self._of_weights(rows[k])
            for j in np.argsort(-gains, kind="stable"):
                if gains[j] <= LEAST_GAIN:  # entropy falls
                    break
                if gains[j] + self._entropy_of_merge(k, others[j]) > LEAST_GAIN:
                    self._merge(k, others[j])
                    return True
        return False

    def _entropy_of_merge(self, k: int, other: int) -> float:
        one, two = self.shares[:, [k]], self.shares[:, [other]]
        together, *apart = (self._entropy(column.indices, column.data) for column in (one + two, one, two))
        return together - sum(apart)

    def _merge(self, k: int, other: int) -> None:
        keep = sp.identity(self.model.n_components, format="lil")
        keep[k, k], keep[k, other] = 0.0, 1.0
        self.shares = (self.shares @ keep.tocsc()).tocsc()
        self.shares.eliminate_zeros()
        self.gone[k] = True
        for part in self.counts.values():
            part[other] += part[k]
            part[k] = 0.0

    def _deleted(self) -> bool:
        """Whether the rows of a component went to the others."""
        used = self._used(ANY_ROWS)
        by_row = self.shares.tocsr()
        for k in used[:-1]:
            rows = np.sort(self.shares[:, [k]].indices)
            self.gone[k] = True
            old, new = by_row[rows].toarray(), self._found(rows)
            before, after = self._counted(rows, old), self._counted(rows, new)
            # What is taken away was there but for rounding.
            counts = {name: np.maximum(part - before[name], 0.0) + after[name] for name, part in self.counts.items()}
            gain = self._worth(counts, used) - self._worth(self.counts, used)
            gain += self._entropy(rows, new) - self._entropy(rows, old)
            if gain > LEAST_GAIN:
                changed = by_row.tolil()
                changed[rows] = new
                self.shares, self.counts = changed.tocsc(), counts
                return True
            self.gone[k] = False
        return False

    def _worth(self, counts: Counts, used: Array) -> float:
        return float(self._evidence(self._of(counts, used)).sum()) + float(
            self._of_weights(counts["weights"][used]).sum()
        )
