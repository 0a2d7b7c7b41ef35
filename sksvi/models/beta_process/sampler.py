"""Draws of beta process factor analysis: the globals that a local step reads, and the full Gibbs sampler of all.

Globals are a draw, expectations, or given values. The sampler is the reference, and a way to start. A
sweep draws (z, w) of every row given the globals, by the compiled local step, and then every global given them. All
rows and their local variables are in memory.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol, Self

import numpy as np
from scipy.special import digamma

from sksvi._runtime import parallel
from sksvi.algorithms.steps import natural_step
from sksvi.families import Beta, DiagonalGaussian, Gamma
from sksvi.models.base import Blocks, Gradient
from sksvi.models.data import Rows, Table

# ---- globals as local steps read them
Array = np.ndarray

#: What keeps the random numbers of a chain that begins at q apart from those of the fit.
CHAIN = 4


@dataclass(frozen=True)
class Globals:
    """One draw of the globals, or expectations, as local steps read them.

    features (K, D), spread (K, D) its variance or (0, D) for a draw; centre: E features under q, for the gradient.
    noise, log_noise (D,): precision of the noise and its log. logit (K,), log_unused: log odds of use and
    sum_k log(1 - pi_k). precision, log_precision: of the weights.
    """

    features: Array
    spread: Array
    centre: Array
    noise: Array
    log_noise: Array
    logit: Array
    log_unused: float
    precision: float
    log_precision: float

    @cached_property
    def scaled(self) -> Array:
        """Features in units of the noise."""
        return np.ascontiguousarray(self.features * np.sqrt(self.noise))

    @cached_property
    def scaled_spread(self) -> Array:
        """Variances in units of the noise."""
        return np.ascontiguousarray(self.spread * self.noise)

    @cached_property
    def columns(self) -> Array:
        """Features in units of the noise, (D, K)."""
        return np.ascontiguousarray(self.scaled.T)

    @cached_property
    def spread_columns(self) -> Array:
        """Variances in units of the noise, (D, K) or (0, K)."""
        return np.ascontiguousarray(self.scaled_spread.T) if len(self.spread) else np.empty((0, len(self.features)))

    @property
    def slack(self) -> float:
        """(E log γ_w - log E γ_w)/2, 0 for a draw: what expectations cost each weight that counts."""
        return 0.5 * (self.log_precision - float(np.log(self.precision)))

    @cached_property
    def gram(self) -> Array:
        """Φ Φᵀ in units of the noise, what rows without missing entries share."""
        return self.scaled @ self.scaled.T

    @cached_property
    def square(self) -> Array:
        """E φ², (K, D)."""
        return np.square(self.features) + (self.spread if len(self.spread) else 0.0)


def expected(q: dict[str, Any], n_features: int) -> Globals:
    """Expectations of the globals."""
    features, use = q["features"], q["probabilities"]
    noise, weight = q["noise_precision"], q["weight_precision"]
    moments = use.moments
    return Globals(
        features.mean,
        features.variance,
        features.mean,
        np.broadcast_to(noise.mean, (n_features,)),
        np.broadcast_to(noise.mean_log, (n_features,)),
        digamma(use.a) - digamma(use.b),
        float(moments[:, 1].sum()),
        float(weight.mean[0]),
        float(weight.mean_log[0]),
    )


def draw(q: dict[str, Any], rng: np.random.Generator, n_features: int) -> Globals:
    """One draw of the globals from q."""
    features, use = q["features"], q["probabilities"]
    phi = features.mean + features.root * rng.standard_normal(features.mean.shape)
    # As a ratio of Gamma variables in logs: a small `a` would give probabilities of exactly 0.
    log_a, log_b = log_gamma_draw(use.a, rng), log_gamma_draw(use.b, rng)
    noise = rng.standard_gamma(q["noise_precision"].shape) / q["noise_precision"].rate
    weight = rng.standard_gamma(q["weight_precision"].shape) / q["weight_precision"].rate
    return at_values(phi, log_a - log_b, noise, float(weight[0]), n_features, features.mean)


def at_values(
    phi: Array, logit: Array, noise: Array, weight: float, n_features: int, centre: Array | None = None
) -> Globals:
    """Globals of these values: features, log odds of use, precisions of noise and weights."""
    return Globals(
        phi,
        np.empty((0, n_features)),
        phi if centre is None else centre,
        np.broadcast_to(noise, (n_features,)),
        np.broadcast_to(np.log(noise), (n_features,)),
        logit,
        -float(np.logaddexp(0.0, logit).sum()),
        weight,
        float(np.log(weight)),
    )


def log_gamma_draw(shape: Array, rng: np.random.Generator) -> Array:
    """Log of a Gamma(shape, 1) draw, also where the draw itself would be 0."""
    return np.log(rng.standard_gamma(shape + 1.0)) + np.log1p(-rng.random(shape.shape)) / shape


# ---- the sampler
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


def sampled_from(sampler: BetaProcessSampler, q: dict[str, Any], n_sweeps: int) -> list[BetaProcessDraw]:
    """Draws of the globals by sweeps that begin at q; the first fifth is dropped."""
    rng, draw, found = np.random.default_rng([sampler.model.seed, CHAIN]), sampler.begin(q), []
    for _ in range(n_sweeps):
        draw, _ = sampler.sweep(draw, rng)
        found.append(draw.globals)
    return found[n_sweeps // 5 :]


def thinned(draws: list[BetaProcessDraw], n: int) -> dict[str, Array]:
    """At most n of the draws, spread over all: features, log odds, noise and weight precisions."""
    chosen = [draws[i] for i in np.unique(np.linspace(0, len(draws) - 1, n).round().astype(int))]
    stored = {name: np.stack([getattr(d, name) for d in chosen]) for name in ("features", "logit", "noise")}
    stored["weight"] = np.array([d.weight for d in chosen])
    return stored
