"""Beta process factor analysis: y = (z∘w)Φ + noise, with sparse z and missing entries (doc/beta_process.md).

Rows come centred and scaled, with 0 where an entry is missing and a mask of observed entries. Global blocks:
``probabilities`` (Beta, K), ``features`` (diagonal Gaussian, K x D), ``weight_precision`` and ``noise_precision``
(Gamma; the latter one number or one per column). The local step (z, w of each row) is one of ``LOCAL_STEPS``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from sksvi._runtime import parallel
from sksvi._typing.arrays import REAL
from sksvi.families import Beta, DiagonalGaussian, Gamma
from sksvi.models.base import Sampleable, Segment, default_sweep
from sksvi.models.beta_process.sampler import Globals, draw, expected
from sksvi.models.data import Table
from sksvi.models.traits import BoundTraits, StepTraits, Traits
from sksvi.schedules import RobbinsMonro

# ---- the first q: random features, rows, or given ones
Array = np.ndarray

#: Share of the rows that use a feature at first, at most, and share of the variance that is noise: with less noise rows
#: take up many rough features at once.
MOST_START_USE, START_NOISE = 0.2, 0.5


def data_start(model: Any, data: Table) -> dict[str, Any]:
    """A first q whose features are rows, chosen at random, with zeros where an entry is missing."""
    K, n = model.shape[0], len(data)
    rng = np.random.default_rng([model.seed, 2])
    rows = rng.choice(n, K, replace=n < K)
    # A weight of the prior is 1 long or so, but rows are sums of several features.
    order = np.argsort(rows, kind="stable")
    own = data.take(rows[order]).X[np.argsort(order)]
    phi = np.nan_to_num(own) + 0.1 * rng.standard_normal(model.shape) / np.sqrt(model.shape[1])
    return start_at(model, phi, n)


def given_factors(factors: Any, shape: tuple[int, int]) -> Array:
    """The features that a user gives, checked."""
    phi = np.asarray(factors)
    if phi.shape != shape or phi.dtype.kind not in REAL or not np.all(np.isfinite(phi)):
        raise ValueError(
            f"init must be a string or finite numbers of shape {shape}, (n_components, columns of X); "
            f"found shape {phi.shape}, dtype {phi.dtype}."
        )
    return phi.astype(float)


def start_at(model: Any, phi: Array, n: int) -> dict[str, Any]:
    """A q about these features: each used by the same share of the rows, noise half of the variance."""
    K, D = model.shape
    used = min(model.start_use / K, MOST_START_USE) * n
    start = {
        "probabilities": Beta(np.full(K, used + model.a / K), np.full(K, n - used + model.b)),
        "features": DiagonalGaussian(phi, np.full((K, D), D * (1.0 + 0.1 * used))),
        "weight_precision": Gamma(np.full(1, 1.0 + n), np.full(1, 1.0 + n)),
        "noise_precision": Gamma(
            np.full(model.noise_size, 1.0 + n), np.full(model.noise_size, START_NOISE * (1.0 + n))
        ),
    }
    return {**start, **{name: model.prior({})[name] for name in model.known}}


# ---- the model
#: Rates of stochastic steps when none is given (what they reach: benchmarks/beta_process/inpainting.py).
STEP_RATE = RobbinsMonro(delay=20.0, kappa=0.5)
#: Of steps on all rows, or on so many parts of them: nearly full ones while features that nothing needs leave, smaller
#: ones until noise is gone. In images, which have many parts, fine features would leave too.
WHOLE_RATE, WHOLE_STEPS = RobbinsMonro(scale=10.0, delay=20.0, kappa=0.75), 20
STEPS = StepTraits(STEP_RATE, WHOLE_RATE, WHOLE_STEPS)
#: Numbers n K D of a block of rows, about three milliseconds of draws: of less a second thread costs more than it does.
CHUNK_WORK, MOST_ROWS = 2**22, 1024
#: Sweeps of coordinate ascent, and the change of a probability at which it ends.
MAX_SWEEPS, SWEEP_TOL = 50, 1e-3
#: Shape of the prior of a precision that is known: no data moves it.
CERTAIN = 1e12
LOCAL_STEPS = ("gibbs", "mean-field", "spike-slab")
#: Shape and rate of the Gamma priors of noise precision and weight precision.
NOISE_PRIOR, WEIGHT_PRIOR = (1.0, 10.0), (1.0, 1.0)


@dataclass
class BetaProcessRows:
    """Rows of a batch: y with 0 where an entry is missing, the mask of observed entries, each row's random stream.

    rotation: what is added to the uniform numbers of the streams, modulo 1.
    """

    y: Array
    observed: Array
    streams: Array
    start: Array | None = None
    rotation: float = 0.0


@dataclass
class LocalTerms:
    """Results of the local step for each row: S draws (S, n, K), or expectations with S = 1.

    omega: z w. second: E z w², or empty for draws, of which it is omega². use: E z, (n, K). weight, active (n,): E|w|²
    of the weights that count, and how many do. residual (S, n, D): y - omega Φ in units of the noise, 0 where missing.
    law: theta, u and 1/kappa of a variational posterior, (3, n, K).
    """

    value: Array
    omega: Array
    second: Array
    residual: Array
    use: Array
    weight: Array
    active: Array
    view: Globals
    law: Array | None = None
    local: ClassVar[float] = math.nan
    repairs: ClassVar[int] = 0


def split(X: Array) -> tuple[Array, Array]:
    """Rows with 0 where an entry is missing, and the mask of observed entries."""
    observed = ~np.isnan(X)
    return np.where(observed, X, 0.0), observed


class BetaProcess(Sampleable):
    """The model behind ``BetaProcessFA``.

    Parameters
    ----------
    n_components, n_features : int
    a, b : float
        Of the prior Beta(a/K, b(K-1)/K) of each probability.
    local_step : {"gibbs", "mean-field", "spike-slab"}
    n_burn_in, n_local_samples : int
        Gibbs sweeps that are discarded, and that are used.
    noise_size : int
        Noise precisions: 1, or one per column.
    noise, weight_precision : float or None
        Known standard deviation of the noise, and precision of the weights; None: learned.
    start : dict or None
        The first q; None: a random one, drawn by `seed`.
    start_use : float
        Features that a row uses at first.
    seed : int
    """

    globals = None
    traits = Traits(steps=STEPS, remedy="Scale the columns, or lower the step size.")

    def __init__(
        self,
        n_components: int,
        n_features: int,
        *,
        a: float = 10.0,
        b: float = 10.0,
        local_step: str = "gibbs",
        n_burn_in: int = 3,
        n_local_samples: int = 3,
        noise_size: int = 1,
        noise: float | None = None,
        weight_precision: float | None = None,
        start: Any = None,
        start_use: float = 5.0,
        seed: int = 0,
    ) -> None:
        self.shape = (n_components, n_features)
        self.a, self.b = a, b
        self.local_step, self.n_burn_in, self.n_local_samples = local_step, n_burn_in, n_local_samples
        # Local variables of the Gibbs step are drawn.
        self.traits = replace(type(self).traits, bound=BoundTraits(noisy=local_step == "gibbs"))
        self.noise_size, self.start, self.start_use, self.seed = noise_size, start, start_use, seed
        given = {"noise_precision": noise, "weight_precision": weight_precision}
        self.known = [name for name, value in given.items() if value is not None]
        self._prior = self._make_prior(noise, weight_precision)

    def _make_prior(self, noise: float | None, weight: float | None) -> dict[str, Any]:
        K, D = self.shape
        # One factor alone has b (K - 1)/K = 0: its probability keeps the b of two.
        b = self.b * max(K - 1, 0.5) / K
        shape, rate = NOISE_PRIOR if noise is None else (CERTAIN, CERTAIN * noise**2)
        weight_shape, weight_rate = WEIGHT_PRIOR if weight is None else (CERTAIN, CERTAIN / weight)
        return {
            "probabilities": Beta(np.full(K, self.a / K), np.full(K, b)),
            "features": DiagonalGaussian(np.zeros((K, D)), np.full((K, D), float(D))),
            "weight_precision": Gamma(np.full(1, weight_shape), np.full(1, weight_rate)),
            "noise_precision": Gamma(np.full(self.noise_size, shape), np.full(self.noise_size, rate)),
        }

    def prior(self, q: dict[str, Any]) -> dict[str, Any]:
        """The prior of every block; it depends on none."""
        return self._prior

    def begin(self, data: Table, rng: Any, threads: int = 1) -> dict[str, Any]:
        """The first q: the given start, or one about random features of unit length."""
        phi = np.random.default_rng([self.seed, 2]).standard_normal(self.shape) / np.sqrt(self.shape[1])
        return dict(start_at(self, phi, len(data)) if self.start is None else self.start)

    def sweep(self, data: Table, batch_size: int | None, seed: int, number: int) -> Iterator[Segment]:
        """Shuffled batches; in the first pass the population is the rows visited so far, as in the paper."""
        return default_sweep(data, batch_size, seed, number, ramp=True)

    def chain(self, data: Table, threads: int) -> Any:
        """The full Gibbs sampler over these rows."""
        from sksvi.models.beta_process.sampler import BetaProcessSampler

        return BetaProcessSampler(self, data, threads)

    def chunks(self, rows: Any, data: Table) -> list[Any]:
        """Rows in chunks of equal size, whose number is a rule on shapes: a step's usual batch is one."""
        n = rows.stop - rows.start if isinstance(rows, slice) else len(rows)
        count = max(1, round(n * math.prod(self.shape) / CHUNK_WORK))
        return parallel.parts_of(rows, min(max(1, math.ceil(n / count)), MOST_ROWS))

    def batch(self, data: Table, rows: Any, start: Array | None = None) -> BetaProcessRows:
        """The rows, split into values and mask."""
        streams = np.arange(rows.start, rows.stop) if isinstance(rows, slice) else np.asarray(rows)
        return BetaProcessRows(*split(data.X[rows]), data.first + streams, start)

    # ---- globals
    def view(self, q: dict[str, Any], rng: np.random.Generator | None) -> Globals:
        """A draw of the globals, or their expectations, as the local step reads them."""
        return expected(q, self.shape[1]) if rng is None else draw(q, rng, self.shape[1])

    # ---- local variables
    def terms(self, view: Any, batch: BetaProcessRows, expect: Any, rng: Any) -> LocalTerms:
        """Local step of every row: draws or expectations of z w, and the row's share of the bound."""
        y = batch.y * np.sqrt(view.noise)
        if self.local_step == "gibbs":
            terms = self._drawn(view, batch, y, int(rng.integers(2**62)))
        else:
            terms = self._ascended(view, batch, y)
        terms.value += view.log_unused + 0.5 * (batch.observed @ (view.log_noise - np.log(2 * np.pi)))
        return terms

    def _drawn(self, view: Globals, batch: BetaProcessRows, y: Array, key: int) -> LocalTerms:
        from sksvi.models.beta_process.loops.gibbs import NEARLY, gibbs

        K, D = self.shape
        n, n_draws = len(y), self.n_local_samples
        omega, use = np.zeros((n_draws, n, K)), np.zeros((n, K))
        residual, value = np.zeros((n_draws, n, D)), np.empty(n)
        lacking = D - batch.observed.sum(1)
        gram = view.gram if n and NEARLY * lacking.min() <= D else np.empty((0, K))
        start = np.empty((0, K)) if batch.start is None else batch.start
        gibbs(
            y, batch.observed, view.scaled, view.columns, view.spread_columns, gram, view.logit + view.slack,
            view.precision, start, key, batch.rotation, batch.streams, self.n_burn_in, omega, use, residual, value,
        )  # fmt: skip
        return self.as_terms(view, omega, use, residual, value)

    @staticmethod
    def as_terms(view: Globals, omega: Array, use: Array, residual: Array, value: Array) -> LocalTerms:
        """Terms of draws omega (S, n, K), of the share of them that use a feature, and of what they leave of y."""
        # Weights that are not used are integrated out: at their prior they would hold its precision where it is.
        weight = np.einsum("snk,snk->n", omega, omega) / len(omega)
        return LocalTerms(value, omega, np.empty((0, *use.shape)), residual, use, weight, use.sum(1), view)

    def _ascended(self, view: Globals, batch: BetaProcessRows, y: Array) -> LocalTerms:
        from sksvi.models.beta_process.loops.variational import variational

        K, D = self.shape
        n, mean_field = len(y), self.local_step == "mean-field"
        q, residual, value = np.empty((3, n, K)), np.empty((n, D)), np.empty(n)
        logit = view.logit if mean_field else view.logit + view.slack
        variational(
            mean_field, y, batch.observed, view.scaled, view.scaled_spread, logit, view.precision,
            MAX_SWEEPS, SWEEP_TOL, q, residual, value,
        )  # fmt: skip
        if mean_field:
            value += K * view.slack
        theta, u, inverse = q
        own = np.square(u) + inverse
        # Mean field's w_k does not know of z_k; else weights that are not used are integrated out.
        weight, active = (own, np.full(n, float(K))) if mean_field else (theta * own, theta.sum(1))
        omega, second = (theta * u)[None], (theta * own)[None]
        return LocalTerms(value, omega, second, residual[None], theta, weight.sum(1), active, view, q)

    # ---- back to the globals
    def pull_back(self, terms: LocalTerms, batch: BetaProcessRows) -> dict[str, Any]:
        """Expected sufficient statistics of every block, (gradient in mean, in covariance) of the features."""
        from sksvi.models.beta_process.loops.variational import statistics

        view, n_draws, n = terms.view, len(terms.omega), len(terms.value)
        (K, D), second = self.shape, terms.second
        cross, square, lead = np.zeros((K, D)), np.zeros((K, D)), np.zeros((K * len(second), D))
        statistics(terms.omega, second, terms.residual, batch.observed, cross, square, lead)
        cross, square = cross / n_draws, square / n_draws
        lead = lead if len(second) else square
        noise, use = view.noise, terms.use.sum(0)
        linear = np.sqrt(noise) * cross + noise * (square * view.features - lead * view.centre)
        counts, squares = batch.observed.sum(0), np.square(terms.residual).sum((0, 1)) / (n_draws * noise)
        if len(view.spread) or terms.law is not None:  # of draws E[omega]² is E z w², and nothing is left
            squares = squares + (lead * view.square - square * np.square(view.features)).sum(0)
        if self.noise_size == 1:
            counts, squares = counts.sum(keepdims=True), squares.sum(keepdims=True)
        return {
            "probabilities": (np.stack([use, n - use], -1),),
            "features": (linear, -0.5 * noise * lead),
            "weight_precision": (0.5 * np.array([[terms.active.sum(), -terms.weight.sum()]]),),
            "noise_precision": (0.5 * np.stack([counts, -squares], -1),),
        }

    def with_local(self, local_step: str, n_burn_in: int, n_local_samples: int) -> BetaProcess:
        """The model with another local step."""
        traits = replace(self.traits, bound=replace(self.traits.bound, noisy=local_step == "gibbs"))
        return self.replaced(local_step=local_step, n_burn_in=n_burn_in, n_local_samples=n_local_samples, traits=traits)
