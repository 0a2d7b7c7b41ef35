"""Gamma-Poisson factorization by the bound without auxiliary counts (equations.md 9).

E log p(y | W, H) is taken as it is: what is linear in W and H is exact, E y log Σ_k W_fk H_nk and its natural gradients
are averages over draws of both, by `Gamma.of_draws`. At one q the bound is no smaller than that with auxiliary counts
(Jensen). A row is left as (n1, c): what its counts said to E log H, and to E H as a share of the rest of its rate,
q(H) = Gamma(b + n1, (r + Σ_f E W_fk)(1 - c)), so that it follows a change of the components' scale. Auxiliary counts
are n1 = N, c = 0, and a row of which nothing is known begins there.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from sksvi.families import Gamma
from sksvi.families.base import Draw
from sksvi.models.base import Blocks, Gradient, Table
from sksvi.models.nmf.poisson import GammaPoisson, RatedView
from sksvi.models.nmf.rows import SETTLE, CountChunk
from sksvi.schedules import RobbinsMonro

Array = np.ndarray

#: Draws of a step, and the rate of a row's own: all numbers step at once, and at 0.5 they overshoot (digits).
DRAWS, ROW_RATE = 16, 0.2


@dataclass
class DrawnView(RatedView):
    """Globals as rows use them: expectations, and `n` draws of the components' `block`, seeded by `stream`."""

    block: Any = None
    n: int = DRAWS
    stream: int = 0

    @cached_property
    def several(self) -> Draw:
        """Draws of the components, made on first use and the same for every chunk."""
        return self.block.draws(self.n, np.random.default_rng(self.stream))


@dataclass
class NamedRows(CountChunk):
    """Rows with a number each that names its random numbers."""

    names: Array


@dataclass
class DrawnTerms:
    """Per row its term of the bound at the draws, and (n1, c); E H, its sum by cell; slopes (S, F, K) in W."""

    value: Array
    local: Array
    activations: Array
    exposure: Array
    slopes: Array
    view: DrawnView
    repairs: ClassVar[int] = 0


class TightGammaPoisson(GammaPoisson):
    """See `GammaPoisson`; `n_draws` of a step."""

    globals = "sampled"
    traits = replace(
        GammaPoisson.traits,
        bound=replace(GammaPoisson.traits.bound, at_expectations=False, noisy=True),
        steps=replace(GammaPoisson.traits.steps, full_batch_schedule=RobbinsMonro(delay=1.0, kappa=0.5)),
        local_rule="slopes of rows",
    )
    n_draws = DRAWS

    def local_begin(self, data: Table) -> Array:
        """Local start of new rows: (n1, c) = 0, (n, 2K)."""
        return np.zeros((len(data), 2 * self.shape[0]))

    def view(self, q: Blocks, rng: np.random.Generator | None) -> DrawnView:
        """Expectations and draws; without `rng` these are always from the same random numbers."""
        expected, stream = super().view(q, None), 0 if rng is None else int(rng.integers(2**62))
        own = q["components"]
        means = expected.components, expected.weights, expected.logs
        return DrawnView(*means, rate=expected.rate, block=own, n=self.n_draws, stream=stream)

    def batch(self, data: Table, rows: Array, start: Array | None = None) -> NamedRows:
        """The rows, and where (n1, c) start."""
        start = np.zeros((len(rows), 2 * self.shape[0])) if start is None else start
        return NamedRows(data.X[rows], data.y[rows], start, data.first + np.asarray(rows))

    def started(self, view: RatedView, batch: CountChunk) -> Array:
        """(n1, c) of every row: where it was, or at its auxiliary counts."""
        new = ~batch.start.any(1)
        if not new.any():
            return np.array(batch.start)
        K = self.shape[0]
        own = CountChunk(batch.cells[new], batch.constant[new], np.zeros((int(new.sum()), K)))
        found = np.array(batch.start, float)
        found[new, :K] = self.settled(view, own, SETTLE, sums=False).local
        return found

    def _drawn_activations(self, q: Gamma, names: Array, rng: Any) -> Draw:
        """Draws (S, n, K), each row's from random numbers of its own: the same in whatever company."""
        key = int(rng.integers(2**62))
        rows = (np.random.Generator(np.random.Philox(key=key, counter=int(name) << 128)) for name in names)
        each = [q[i].draws(self.n_draws, own) for i, own in enumerate(rows)]
        value, source = (np.stack([getattr(draw, part) for draw in each], 1) for part in ("value", "source"))
        return Draw(value, source)

    # terms are read by the model's own methods alone
    def terms(self, view: Any, batch: Any, expect: Any, rng: Any) -> DrawnTerms:  # type: ignore[override]
        """The bound at the rows' current (n1, c), its slopes in the components, and the rows after a step."""
        from sksvi.models.nmf.loops import drawn_rows

        K, b, local = self.shape[0], self.activation_shape, self.started(view, batch)
        own = self._rates(view, batch.cells)
        prior = Gamma(np.full(own.shape, b), np.full(own.shape, view.rate))
        q = Gamma(b + local[:, :K], own * (1.0 - local[:, K:]))
        draws = self._drawn_activations(q, batch.names, rng)
        W = np.ascontiguousarray(np.swapaxes(view.several.value, 1, 2))
        c, logs = batch.cells.counts, np.empty(len(own))
        slopes, component_slopes = np.empty_like(draws.value), np.zeros_like(W)
        drawn_rows(c.indptr, c.indices, c.data, W, draws.value, slopes, component_slopes, logs)
        (gradient,) = q.of_draws(draws, slopes)
        value = logs - (q.mean * (own - view.rate)).sum(1) - q.divergence(prior).sum(1) - batch.constant
        # The rate's exact part is in the prior of the step: what remains is what counts say.
        (gradient,) = q.in_domain(Gamma(prior.shape, own), (gradient,), ROW_RATE)
        target = np.concatenate([gradient[..., 0], gradient[..., 1] / own], 1)
        observed = batch.cells.seen
        exposure = q.mean.sum(0) if observed is None else observed.T.astype(float) @ q.mean
        moved = (1.0 - ROW_RATE) * local + ROW_RATE * target
        return DrawnTerms(value, moved, q.mean, exposure, component_slopes, view)

    def pull_back(self, terms: Any, batch: CountChunk) -> Gradient:
        """Gradients in E log and E of components (K, F, 2), and in log r (see `GammaPoisson`)."""
        view = terms.view
        (gradient,) = view.block.of_draws(view.several, np.swapaxes(terms.slopes, 1, 2))
        gradient[..., 1] -= np.broadcast_to(terms.exposure, self.shape[::-1]).T
        return {"components": (gradient,), "activation_rate": self._rate_gradient(terms)}
