"""Gamma-Poisson factorization (doc/gamma_poisson.md): y_nf ~ Poisson(Σ_k W_fk H_nk), components W global, H local.

W_fk ~ Gamma(a, s), H_nk ~ Gamma(b, r). Blocks: ``components`` (K, F), and the logarithms of both rates, which are found
by empirical Bayes: at their best r = b N K / Σ E H and s = a F K / Σ E W, so that the scale, which data leave open,
costs nothing. Only r s matters: what multiplies H may divide W. The bound is that with auxiliary counts: they are
multinomial, and every update is conjugate.

The tight bound has no auxiliary counts. E log p(y | W, H) is taken as it is: what is linear in W and H is exact, E y
log Σ_k W_fk H_nk and its natural gradients are averages over draws of both, by `Gamma.of_draws`. At one q the bound is
no smaller than that with auxiliary counts (Jensen). A row is left as (n1, c): what its counts said to E log H, and to E
H as a share of the rest of its rate, q(H) = Gamma(b + n1, (r + Σ_f E W_fk)(1 - c)), so that it follows a change of the
components' scale. Auxiliary counts are n1 = N, c = 0, and a row of which nothing is known begins there.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from sksvi._runtime import parallel
from sksvi.algorithms.rules import ClosedForm, Newton, Rule
from sksvi.families import Gamma, Point
from sksvi.families.base import Draw
from sksvi.models.base import Blocks, Gradient
from sksvi.models.data import Table
from sksvi.models.nmf.cells import CountMatrix
from sksvi.models.nmf.rows import CHUNKS, SETTLE, SINGLE, CountChunk, CountRows, FactorView, RowVisit
from sksvi.models.nmf.side_information import SideInformation, columns_of
from sksvi.models.traits import StepTraits
from sksvi.schedules import RobbinsMonro

# ---- auxiliary counts
Array = np.ndarray

#: Rates of noisy steps when none is given. MNIST in batches of 100, one pass, nats per unseen pixel at the mean and
#: averaged over q: -10.0 and -8.8 with kappa = 0.6, -9.8 and -8.2 with 0.5, -10.6 and -8.1 with 0.4.
STEP_RATE = RobbinsMonro(delay=1.0, kappa=0.5)
#: How long a visit of a row is: rows that have settled from the start share their counts among components better than
#: those that follow the components sweep by sweep (digits: -1.93 for -2.02 nats per unseen pixel).
VISIT = RowVisit(10, 1e-2)
#: By which share sweeps go further in batches. MNIST, 60,000 rows, 100 components, one pass in batches of 100, nats per
#: unseen pixel at the mean: -10.2 without it, -9.8 with 0.5; in batches of 200 -10.2, -9.8, and with 0.8 -10.0.
BEYOND = 0.5
#: Components that a start among rows begins with, for one that is wanted. Of the bases of simulated tables 92 % are
#: found from 1, all from 1.5, and no more from 2, where texts take a fifth longer (`benchmarks.nmf.starts`).
SURPLUS = 1.5
#: Counts that a component has at least where those alike are merged.
UNCOUNTED = 1e-3
#: Rows of a chunk at least.
LEAST_ROWS = 64
NO_SIDE_INFORMATION = SideInformation()


@dataclass
class RatedView(FactorView):
    """Components as rows use them, the prior rate of the activations, and where counts are overdispersed L.

    coefficients: of the columns of rows, if these have any.
    """

    rate: float = 1.0
    coefficients: Any = None
    log_dispersion: float = 0.0


class GammaPoisson(CountRows):
    """Model of counts by components under Gamma priors whose rates are learned.

    Parameters
    ----------
    n_components, n_features : int
    component_shape, activation_shape : float
        a and b.
    mean : float
        First mean of components' cells: that of the counts over K, as activations begin at mean 1.
    start : ndarray of shape (K, F), optional
        First components, of mean 1.
    side : SideInformation
        Columns of rows and of cells.
    """

    #: The beginning of the path of a short fit is no part of where it is: there are no averages.
    traits = replace(CountRows.traits, steps=StepTraits(STEP_RATE, longest=1.8, averages=False))
    #: Rows that the first components' shapes are worth.
    certainty = 100.0

    def __init__(
        self,
        n_components: int,
        n_features: int,
        *,
        component_shape: float = 0.3,
        activation_shape: float = 0.3,
        mean: float = 1.0,
        start: Array | None = None,
        side: SideInformation = NO_SIDE_INFORMATION,
    ) -> None:
        self.shape, self.mean, self.start, self.visit, self.side = (n_components, n_features), mean, start, VISIT, side
        self.component_shape, self.activation_shape, self.surplus = component_shape, activation_shape, SURPLUS

    def prior_rate(self, view: FactorView) -> float:
        """The prior rate r of the activations."""
        assert isinstance(view, RatedView)
        return view.rate

    def row_priors(self, view: FactorView, cells: CountMatrix) -> tuple[Any, Any]:
        """E log of the rate of activations a priori and its expectation, of each row (n, K) where it has columns."""
        assert isinstance(view, RatedView)
        log_rate, rate = super().row_priors(view, cells)
        if view.coefficients is not None:
            log_rate = log_rate - columns_of(cells).log_means(view.coefficients)
        return log_rate, rate * self._tilts(view.coefficients, cells)

    def row_rates(self, q: Blocks, cells: CountMatrix) -> Any:
        """The expected rate of activations a priori, of all rows or of each (n, K)."""
        rate = float(np.exp(q["activation_rate"].value[0]))
        return rate * self._tilts(q.get("activation_coefficients"), cells)

    @staticmethod
    def _tilts(coefficients: Any, cells: CountMatrix) -> Any:
        """E exp(-cᵀw) of each row (n, K), 1 where there are no columns."""
        return 1.0 if coefficients is None else columns_of(cells).tilts(coefficients)

    def drawn_scales(self, point: Any, counted: Array, covered: Array, rates: Any, rng: np.random.Generator) -> Any:
        """The point with both rates drawn, under flat priors of their logarithms, and then r as it was.

        The data know r s alone: what multiplies H divides W, and r keeps the scale of q.
        """
        own, components = point.activations, point.components
        scale = rng.standard_gamma(self.activation_shape * own.size) / (rates * own).sum()
        charged = (self.side.tilts_of_cells(point.scales) * components.T).sum()
        rate = scale * rng.standard_gamma(self.component_shape * components.size) / charged
        scales = {**point.scales, "component_rate": Point(np.log([rate]))}
        return replace(point, activations=scale * own, components=components / scale, scales=scales)

    def of_batches(self, largest: float) -> Self:
        """The model of steps on some rows, which are noisy whatever: sweeps go beyond their best value, in single
        precision where the `largest` sum of a row bears it. They begin without components to spare: on MNIST these gain
        2 % of the bound, and lose half a nat per unseen pixel.
        """
        precision = np.float32 if largest <= SINGLE else np.float64
        return self.replaced(visit=replace(self.visit, beyond=BEYOND), surplus=1.0, precision=precision)

    def of_components(self, n_components: int) -> Self:
        """The model with so many components, which share the mean of a cell."""
        return super().of_components(n_components).replaced(mean=self.mean * self.shape[0] / n_components)

    # ---- blocks
    def begin(self, data: Table, rng: Any, threads: int = 1) -> Blocks:
        """Components at their start, rates that make the prior means of both factors those of the start."""
        (K, F), a, s = self.shape, self.component_shape, self.certainty
        assert self.start is not None
        shapes = {"activation": self.activation_shape, "component": a}
        return {
            "components": Gamma(a + s * self.start, np.full((K, F), (a + s) / self.mean)),
            "activation_rate": Point(np.log([self.activation_shape])),
            "component_rate": Point(np.log([a / self.mean])),
            **self.side.begin(data.X, K, shapes),
        }

    def prior(self, q: Blocks) -> Blocks:
        """Gamma of each cell, at the rate that is learned, and what coefficients of columns have."""
        return {"components": self.component_prior(q), **self.side.prior(q)}

    def component_prior(self, q: Blocks) -> Gamma:
        """Gamma of each cell."""
        rate = np.exp(q["component_rate"].value[0]) * self.side.tilts_of_cells(q)
        return Gamma(np.full(self.shape, self.component_shape), np.broadcast_to(rate, self.shape))

    def grown(self, q: Blocks, data: Table) -> Blocks:
        """Blocks with new columns, after the others, at their prior."""
        old, prior = q["components"], self.component_prior(q)
        new = slice(old.shape.shape[1], None)
        if not prior.shape[:, new].size:
            return q
        parts = (np.concatenate([getattr(old, name), getattr(prior, name)[:, new]], 1) for name in ("shape", "rate"))
        return {**q, "components": Gamma(*parts)}

    @property
    def hyper(self) -> dict[str, Rule]:
        """Rules for the learned rates: r of the activations, s of the components."""
        own = {"activation_rate": Newton(), "component_rate": ClosedForm(self._component_rate_step)}
        return {**own, **self.side.hyper(self.component_shape)}

    def _component_rate_step(self, q: Blocks) -> tuple[Array, float]:
        """Step of log s to its best value, and what it gains: no data needed."""
        tilted = self.side.tilts_of_cells(q) * q["components"].mean
        have = float(np.exp(q["component_rate"].value[0]) * tilted.sum())
        wanted = self.component_shape * self.shape[0] * self.shape[1]
        step = np.log(wanted / have)
        return np.array([step]), wanted * step - (wanted - have)

    def explained(self, q: Blocks) -> Array:
        """Profiles, as often as their components counted; of one without counts the profile is left."""
        own = q["components"]
        counted = np.maximum((own.shape - self.component_shape).sum(1), UNCOUNTED)
        return np.asarray(own.mean * (counted / own.mean.sum(1))[:, None])

    # ---- rows
    def chunks(self, rows: Any, data: Table) -> list[Any]:
        """Equal shares of the rows, of so many that their sweeps cost more than sums as large as the components."""
        index = np.arange(len(data))[rows] if isinstance(rows, slice) else rows
        dense = self.shape[1] * len(data) // max(data.X.counts.nnz, 1)  # rows with as many counts as there are columns
        size = max(LEAST_ROWS, -(-len(index) // CHUNKS), min(dense, len(index)))
        return [index[part] for part in parallel.slices(len(index), size)]

    def view(self, q: Blocks, rng: np.random.Generator | None) -> RatedView:
        """Components as rows see them: expectations, or a draw."""
        W, ones = q["components"], np.ones(self.shape[0])
        priors: dict[str, Any] = {
            "rate": float(np.exp(q["activation_rate"].value[0])),
            "coefficients": q.get("activation_coefficients"),
        }
        if rng is None:
            return RatedView(W.mean.T, ones, W.mean_log.T, **priors)
        own = W.drawn(rng)
        logs = own.source - np.log(W.rate)
        return RatedView(own.value.T, ones, logs.T, True, {"components": own}, **priors)

    def pull_back(self, terms: Any, batch: CountChunk) -> Gradient:
        """Gradients in E log and E of components (K, F, 2), and in log r."""
        exposure = np.broadcast_to(terms.exposure, self.shape[::-1])
        components = np.stack([terms.counts.T, -exposure.T], -1)
        found = {"components": (components,), "activation_rate": self._rate_gradient(terms, terms.prior)}
        if terms.view.coefficients is not None:
            charged = terms.prior * terms.activations
            found["activation_coefficients"] = columns_of(batch.cells).gradient(self.activation_shape, charged)
        return found

    def completed(self, gradient: Gradient, q: Blocks) -> Gradient:
        """With the gradient in coefficients of columns of cells, which no row has."""
        return {**gradient, **self._of_cells(q)}

    def in_turn(self, name: str, gradient: Gradient, before: Blocks, q: Blocks) -> Gradient:
        """Coefficients of cells step at the components that have just moved."""
        return self._of_cells(q) if name == "component_coefficients" else gradient

    def _of_cells(self, q: Blocks) -> Gradient:
        if self.side.cells is None:
            return {}
        charged = self.component_prior(q).rate * q["components"].mean
        return {"component_coefficients": self.side.cells.gradient(self.component_shape, charged.T)}

    def _rate_gradient(self, terms: Any, prior: Any) -> tuple[Array, Array]:
        """Slope of the bound in log r, and a curvature.

        The bound is A log r - S there, S = r Σ E H, at its best where both are equal. Its curvature is -S; with the
        mean of -A and -S a step, 2 (A - S) / (A + S), is log (A/S) to third order and never beyond.
        """
        have = float((prior * terms.activations).sum())
        wanted = self.activation_shape * terms.activations.size
        return np.array([wanted - have]), np.array([[-0.5 * (wanted + have)]])


# ---- the bound without auxiliary counts
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
        own = self._rates(view, batch.cells, view.rate)
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
        return {"components": (gradient,), "activation_rate": self._rate_gradient(terms, view.rate)}
