"""The full Gibbs sampler of beta process factor analysis: the reference, and a way to start (equations.md 7).

A sweep draws (z, w) of every row given the globals, by the compiled local step, and then every global given them. All
rows and their local variables are in memory.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol, Self

import numpy as np

from sksvi._runtime import parallel
from sksvi.algorithms.steps import natural_step
from sksvi.families import Beta, DiagonalGaussian, Gamma
from sksvi.models.base import Blocks, Gradient, Rows, Table
from sksvi.models.beta_process.globals import Globals, at_values, log_gamma_draw

Array = np.ndarray


class FactorsInUse(Protocol):
    """A model of rows as sums of features that each row uses or not, with a local step that draws which."""

    shape: tuple[int, int]
    noise_size: int
    seed: int

    def with_local(self, local_step: str, n_burn_in: int, n_local_samples: int) -> Self: ...

    def begin(self, data: Table, rng: Any) -> Blocks: ...

    def prior(self, q: Blocks) -> Blocks: ...

    def chunks(self, rows: Rows, data: Table) -> list[Any]: ...

    def batch(self, data: Table, rows: Rows, start: Array | None = None) -> Any: ...

    def terms(self, view: Globals, batch: Any, expect: Any, rng: Any) -> Any: ...

    def as_terms(self, view: Globals, omega: Array, use: Array, residual: Array, value: Array) -> Any: ...

    def pull_back(self, terms: Any, batch: Any) -> Gradient: ...


@dataclass(frozen=True)
class BetaProcessDraw:
    """One draw of everything; omega (n, K) = z w, in the units of the centred and scaled rows."""

    LAYOUT = """
        features (k,_) f; logit (k) f; noise (_) f >0; weight number >0
        omega (_,_) f where it.size == 0 or it.shape[1] == k
    """

    features: Array
    logit: Array
    noise: Array
    weight: float
    omega: Array

    @property
    def local(self) -> Array:
        """Omega: where the rows are."""
        return self.omega

    @property
    def globals(self) -> BetaProcessDraw:
        """The draw without what belongs to rows."""
        return replace(self, omega=np.empty((0, 0)))

    def view(self) -> Globals:
        """The globals as local steps read them."""
        return at_values(self.features, self.logit, self.noise, self.weight, self.features.shape[1])


class BetaProcessSampler:
    """Gibbs sweeps over rows that stay in memory.

    Parameters
    ----------
    model : BetaProcess
    data : Table
        Centred and scaled rows, NaN where missing.
    threads : int
    """

    def __init__(self, model: FactorsInUse, data: Table, threads: int = 1) -> None:
        self.model, self.data, self.threads = model.with_local("gibbs", 0, 1), data, threads
        self.parts = self.model.chunks(slice(0, len(data)), data)
        self.observed = ~np.isnan(data.X)

    def begin(self, q: dict[str, Any], omega: Array | None = None) -> BetaProcessDraw:
        """Globals at the means of q; rows start at `omega`, or where a greedy search ends."""
        use = q["probabilities"]
        noise, weight = q["noise_precision"].mean, float(q["weight_precision"].mean[0])
        if omega is None or len(omega) != len(self.data):
            omega = np.empty((0, self.model.shape[0]))
        return BetaProcessDraw(q["features"].mean.copy(), np.log(use.a) - np.log(use.b), noise, weight, omega)

    def local(self, draw: BetaProcessDraw, rng: np.random.Generator) -> tuple[Array, Array, float]:
        """Omega and residual of all rows after one sweep, and the sum of the rows' bounds."""
        view, key = draw.view(), int(rng.integers(2**62))

        def one(rows: slice) -> Any:
            batch = self.model.batch(self.data, rows, draw.omega[rows] if len(draw.omega) else None)
            terms = self.model.terms(view, batch, None, np.random.default_rng(key))
            return terms.omega[0], terms.residual[0], float(terms.value.sum())

        parts = list(parallel.in_order(one, self.parts, self.threads))
        omega, residual, values = zip(*parts, strict=True)
        return np.concatenate(omega), np.concatenate(residual) / np.sqrt(view.noise), float(np.sum(values))

    def sweep(self, draw: BetaProcessDraw, rng: np.random.Generator) -> tuple[BetaProcessDraw, float]:
        """The next draw of everything, and the sum of the rows' bounds given the globals before it."""
        omega, residual, value = self.local(draw, rng)
        return self.globals(replace(draw, omega=omega), residual, rng), value

    def globals(self, draw: BetaProcessDraw, residual: Array, rng: np.random.Generator) -> BetaProcessDraw:
        """Features one after the other, then noise, weights' precision and probabilities, given the local draws."""
        from sksvi.models.beta_process.loops.gibbs import draw_features

        (K, D), prior, (n, _) = self.model.shape, self.model.prior({}), draw.omega.shape
        phi, residual = draw.features.copy(), residual.copy()
        noise = np.ascontiguousarray(np.broadcast_to(draw.noise, (D,)))
        draw_features(draw.omega, residual, self.observed, noise, float(D), rng.standard_normal((K, D)), phi)
        counts, squares = self.observed.sum(0), np.square(residual).sum(0)
        if self.model.noise_size == 1:
            counts, squares = counts.sum(keepdims=True), squares.sum(keepdims=True)
        before = prior["noise_precision"]
        new_noise = rng.standard_gamma(before.shape + counts / 2) / (before.rate + squares / 2)
        used = (draw.omega != 0.0).sum(0)
        # The weights of what is not used are integrated out.
        before = prior["weight_precision"]
        weight = rng.standard_gamma(before.shape[0] + used.sum() / 2)
        weight /= before.rate[0] + np.square(draw.omega).sum() / 2
        use = prior["probabilities"]
        logit = log_gamma_draw(use.a + used, rng) - log_gamma_draw(use.b + n - used, rng)
        return BetaProcessDraw(phi, logit, new_noise, float(weight), draw.omega)

    def conditional(self, draw: BetaProcessDraw, residual: Array, q: dict[str, Any], scale: float) -> dict[str, Any]:
        """q after a natural step of rate 1 on the local draws, each row counted `scale` times."""
        view = draw.view()
        batch = self.model.batch(self.data, slice(0, len(self.data)))
        scaled, use = residual[None] * np.sqrt(view.noise), (draw.omega != 0.0).astype(float)
        terms = self.model.as_terms(view, draw.omega[None], use, scaled, np.zeros(len(use)))
        # Given the draw the features move from where they are.
        q = {**q, "features": DiagonalGaussian(draw.features, q["features"].precision)}
        gradient = parallel.scaled(self.model.pull_back(terms, batch), scale)
        prior = self.model.prior(q)
        return {name: natural_step(q[name], prior[name], gradient[name], 1.0) for name in q}

    def matched(self, draws: list[BetaProcessDraw]) -> dict[str, Any]:
        """Blocks with the means and variances of draws: Beta, Gaussian and Gamma by their first two moments."""
        pi = 1.0 / (1.0 + np.exp(-np.stack([draw.logit for draw in draws])))
        phi = np.stack([draw.features for draw in draws])
        noise = np.stack([draw.noise for draw in draws])
        weight = np.array([[draw.weight] for draw in draws])
        tiny = np.finfo(float).tiny
        mean, spread = np.clip(pi.mean(0), 1e-12, 1 - 1e-12), pi.var(0) + tiny
        total = np.maximum(mean * (1 - mean) / spread - 1, 1e-3)
        return {
            "probabilities": Beta(mean * total, (1 - mean) * total),
            "features": DiagonalGaussian(phi.mean(0), 1.0 / (phi.var(0) + tiny**0.5)),
            "weight_precision": _matched_gamma(weight),
            "noise_precision": _matched_gamma(noise),
        }


def _matched_gamma(x: Array) -> Gamma:
    mean, spread = x.mean(0), x.var(0) + 1e-12 * np.square(x.mean(0))
    return Gamma(np.square(mean) / spread, mean / spread)


def sampled_start(model: FactorsInUse, data: Table, n_rows: int, n_sweeps: int, threads: int) -> dict[str, Any]:
    """A first q from a Gibbs run on some of the rows, blown up to all."""
    rng = np.random.default_rng([model.seed, 3])
    n = len(data)
    rows = np.sort(rng.choice(n, min(n_rows, n), replace=False))
    sampler = BetaProcessSampler(model, data.take(rows), threads)
    q = model.begin(sampler.data, rng)
    draw = sampler.begin(q)
    for _ in range(n_sweeps):
        draw, _ = sampler.sweep(draw, rng)
    omega, residual, _ = sampler.local(draw, rng)
    return sampler.conditional(replace(draw, omega=omega), residual, q, n / len(rows))


def thinned(draws: list[BetaProcessDraw], n: int) -> dict[str, Array]:
    """At most n of the draws, spread over all: features, log odds, noise and weight precisions."""
    chosen = [draws[i] for i in np.unique(np.linspace(0, len(draws) - 1, n).round().astype(int))]
    stored = {name: np.stack([getattr(d, name) for d in chosen]) for name in ("features", "logit", "noise")}
    stored["weight"] = np.array([d.weight for d in chosen])
    return stored
