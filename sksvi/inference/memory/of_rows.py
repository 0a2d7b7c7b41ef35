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

from sksvi.algorithms.steps import natural_step, shortened, site_step
from sksvi.models.base import Terms

Array = np.ndarray


@dataclass
class Sites:
    """Messages or last gradients of the Gaussian block, one per datum, and their sums over the data.

    ``start`` (n,) is each datum's share of what q began with; it fades as the datum's own site arrives. ``first`` holds
    that beginning: natural parameters of the first q less the prior's, about zero.
    """

    linear: Array
    quadratic: Array
    start: Array
    total: tuple[Any, Any]
    first: tuple[Any, Any]

    @classmethod
    def empty(cls, q: Any, prior: Any, linear: tuple[int, ...], quadratic: tuple[int, ...]) -> Sites:
        """No messages yet; the shapes of a row's message begin with the number of rows."""
        n = linear[0]
        first = q.over(prior).parts
        zero = 0.0 * first[0], 0.0 * first[1]
        return cls(np.zeros(linear), np.zeros(quadratic), np.full(n, 1.0 / n), zero, first)

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
        return replace(terms, alpha=new[0] - old[0], gamma=new[1] - old[1])

    def as_terms(self, rows: Any) -> Terms:
        """The rows' sites in the place of gradients."""
        linear = self.linear[rows]
        return Terms(np.zeros(len(linear)), linear, self.quadratic[rows], linear)

    def add(self, change: tuple[Any, Any]) -> None:
        """Add the change of some sites, pulled back, to the sums."""
        self.total = self.total[0] + change[0], self.total[1] + change[1]

    def block(self, q: Any, prior: Any, rate: float) -> Any:
        """q after the sites have moved."""
        left = float(self.start.sum())
        if q.full:
            linear = prior.dot(prior.mean) + self.total[0] + left * self.first[0]
            precision = prior.precision_like(q) - 2 * self.total[1] + left * self.first[1]
            new = type(q)(np.zeros_like(linear), precision)
            return type(q)(new.solve(linear), precision, new.root)
        blown = 1.0 / max(1.0 - left, 1.0 / len(self.start))
        gradient = blown * self.total[0], blown * self.total[1]
        return shortened(lambda share: natural_step(q, prior, gradient, rate * share))
