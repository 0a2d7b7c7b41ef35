"""What CVI remembers of each datum: its last message to q (equations.md 1, `cvi site`).

A full block is prior + Σ messages, each a Gaussian in f_i = h_iᵀw: (lambda1, lambda2) damped towards
(alpha - 2 gamma h_iᵀm, gamma). A diagonal block cannot be summed up from messages in f_i, because it ignores how the
h_ij of one datum go together; there each datum's last gradient (alpha, gamma) is kept, and q takes natural steps along
their sum. Both sums are exact at the optimum, so mini-batch noise vanishes there.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sksvi.models.base import Terms
from sksvi.steps import natural_step, shortened, site_step, trusted_step

Array = np.ndarray


@dataclass
class Sites:
    """Messages or last gradients, one per datum, and their sums over the data.

    ``name`` is the Gaussian block. ``start`` (n,) is each datum's share of what q began with; it fades as the datum's
    own site arrives. ``first`` holds that beginning: natural parameters of the first q less the prior's, about zero.
    ``scalars`` are each datum's last gradients in the moment of further blocks, ``fresh`` (n,) says which have none.
    """

    name: str
    linear: Array
    quadratic: Array
    start: Array
    fresh: Array
    scalars: dict[str, Array]
    total: dict[str, Any]
    first: tuple[Array, Array]

    @classmethod
    def empty(
        cls, name: str, q: dict[str, Any], prior: dict[str, Any], linear: tuple[int, ...], quadratic: tuple[int, ...]
    ) -> Sites:
        """No messages yet; the shapes of a row's message begin with the number of rows."""
        n, block, before = linear[0], q[name], prior[name]
        first = block.times(block.mean) - before.times(before.mean), block.precision - before.precision_like(block)
        total: dict[str, Any] = {other: (np.zeros(1),) for other in prior if other != name}
        total[name] = 0.0 * first[0], 0.0 * first[1]
        scalars = {other: np.zeros(n) for other in prior if other != name}
        start, fresh = np.full(n, 1.0 / n), np.ones(n, bool)
        return cls(name, np.zeros(linear), np.zeros(quadratic), start, fresh, scalars, total, first)

    def move(self, terms: Any, rows: Any, rate: float, full: bool) -> Any:
        """Move the rows' sites towards their targets; the change comes back in the place of the terms."""
        old = self.linear[rows].copy(), self.quadratic[rows].copy()
        if full:
            target = terms.message()
            new = site_step(old[0], target[0], rate), site_step(old[1], target[1], rate)
        else:
            new = terms.alpha, terms.gamma
        self.linear[rows], self.quadratic[rows] = new
        self.start[rows] *= (1 - rate) if full else 0.0
        self.fresh[rows] = False
        changes = {}
        for other, gradient in terms.scalars.items():
            changes[other] = gradient - self.scalars[other][rows]
            self.scalars[other][rows] = gradient
        return replace(terms, alpha=new[0] - old[0], gamma=new[1] - old[1], scalars=changes)

    def as_terms(self, rows: Any) -> Terms:
        """The rows' sites in the place of gradients."""
        linear = self.linear[rows]
        scalars = {other: values[rows] for other, values in self.scalars.items()}
        return Terms(np.zeros(len(linear)), linear, self.quadratic[rows], linear, scalars=scalars)

    def add(self, change: dict[str, Any]) -> None:
        """Add the change of some sites, pulled back, to the sums."""
        for name, parts in change.items():
            self.total[name] = tuple(a + b for a, b in zip(self.total[name], parts, strict=True))

    def moved(self, name: str, q: Any, prior: Any, rate: float) -> Any:
        """A block after the sites have moved."""
        if name == self.name and q.full:
            left = float(self.start.sum())
            total, first = self.total[name], self.first
            linear = prior.times(prior.mean) + total[0] + left * first[0]
            precision = prior.precision_like(q) - 2 * total[1] + left * first[1]
            new = type(q)(np.zeros_like(linear), precision)
            return type(q)(new.solve(linear), precision, new.root)
        n = len(self.fresh)
        blown = n / max(n - int(self.fresh.sum()), 1)
        gradient = tuple(blown * part for part in self.total[name])
        if q.kind != "gaussian":
            return trusted_step(q, prior, gradient, rate)
        return shortened(lambda share: natural_step(q, prior, gradient, rate * share))
