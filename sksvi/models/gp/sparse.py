"""The sparse Gaussian process: a GLM whose rows are h_i = L⁻¹ k_w(x_i), each with a variance d_i of its own.

The inducing values are held in white coordinates v = L⁻¹ f(Z), so that q(v) keeps its meaning while kernel and inducing
inputs move. Several latents (softmax) share kernel and inducing points: v_k of each is a part of one
block, their prior is independent, and d_i adds to the variance of each.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from threading import Lock
from typing import Any

import numpy as np

from sksvi.algorithms.rules import FIXED, SEARCHED, Adam, Newton, Rule, Searched
from sksvi.families import DiagonalGaussian, Free, Gaussian, NotPositiveDefinite, Point
from sksvi.models.base import Fit, LinearTerms, summed
from sksvi.models.data import Table
from sksvi.models.gp import kernels
from sksvi.models.gp.bounds import BOUNDS, LOG_2PI, VALUES, Geometry, left_over, whitened_rows
from sksvi.models.gp.hyperpriors import HyperPrior
from sksvi.models.gp.inducing import candidates, choose
from sksvi.models.linear.latents import LinearLatents, as_matrices, like
from sksvi.models.linear.rows import DenseRows, row_slices
from sksvi.models.traits import StepTraits, Traits

Array = np.ndarray

#: Rows h_i are kept between two looks at the same data up to this many numbers (and as many of k_w(x_i)).
CACHED_NUMBERS = 2**23
_ROWS = DenseRows(np.empty((0, 0)), False)
#: Cached fields of a model that has not been evaluated yet.
NO_PLACE: dict[str, Any] = {"_place": None, "_adjoint": None}
#: In the place of a sum that is not needed.
NONE = np.zeros((0, 0))


@dataclass
class SparseGPChunk:
    """A chunk of rows of the data; `fill` computes their h_i, k_w(x_i) and d_i."""

    data: Table
    key: tuple[Any, int, int] | None
    rows: Any = None
    K: Array | None = None
    d: Any = 0.0
    constant: float = 0.0

    def cross(self, geometry: Geometry) -> Array:
        """k_w(x_i) of the rows, or what the last evaluation on the same data had."""
        if self.key is None:
            return kernels.cross(geometry.kernel, self.data.X, geometry.Z)
        X, *place = self.key
        stored = geometry.cache.get(("cross", *place))
        if stored is None or stored[0] is not X:
            stored = geometry.cache["cross", *place] = X, kernels.cross(geometry.kernel, self.data.X, geometry.Z)
        return stored[1]

    def fill(self, model: SparseGPModel, geometry: Geometry, q: dict[str, Any]) -> None:
        """Compute rows and their left-over variance, or take them from the last evaluation on the same data."""
        if model.bound == "optimal":
            stored = geometry.cache.get("optimal")
            noise = model.current_likelihood(q).noise_variance
            if stored is None or stored[0] != noise or stored[1] is not self.data.X:
                stored = noise, self.data.X, whitened_rows(geometry, self.data, noise)
                geometry.cache["optimal"] = stored
            H, y, self.constant = stored[2]
            self.rows, self.data = _ROWS.replaced(H), Table(self.data.X, y)
            return
        stored = None if self.key is None else geometry.cache.get(self.key[1:])
        if stored is None or stored[0] is not self.key[0]:  # type: ignore[index]
            stored = (None if self.key is None else self.key[0], *geometry.rows(self.data.X))
            if self.key is not None:
                geometry.cache[self.key[1:]] = stored
        _, self.K, H, self.d = stored
        self.rows = _ROWS.replaced(H)


@dataclass
class GPTerms(LinearTerms):
    """Terms with what kernel and inputs need: `own` at the block `at`, K latents as the second axis.

    ``own``: alpha (n, K), gamma (n, K, K), delta (n,), and where delta is not the trace of gamma what it has beyond.
    """

    own: tuple[Array, ...] | None = None
    at: Any = None

    def weighted(self, weight: Array | None) -> GPTerms:
        """Every number times its row's weight."""
        if weight is None or self.own is None:
            return self
        own = tuple(part * weight.reshape(-1, *[1] * (part.ndim - 1)) for part in self.own)
        return replace(super().weighted(weight), own=own)


class SparseGPModel(LinearLatents):
    """Sparse GP with M inducing points and any likelihood.

    Parameters
    ----------
    likelihood : Likelihood
        With every scale a number; those in ``likelihood.learned`` become the point block "likelihood".
    kernel : scikit-learn kernel
        Its free parameters are the block "kernel", in scikit-learn's logarithms.
    bound : {"simple", "v1", "v2", "optimal"}
    n_inducing, inducing, seed
        See :func:`sksvi.models.gp.inducing.choose`; the points are the block "inputs", in units of `scale`.
    scale : ndarray of shape (D,)
    full : bool
        Covariance of q.
    learn_kernel, learn_inputs : bool
    by : {"evidence", "gradient", "nothing"}
        How hyperparameters are learned: `search` once q has settled, gradients of every batch, or not at all.
    unit : float, default=1.0
        Of a measured target.
    keep : bool, default=True
        Whether rows h_i may be kept between two looks, where data are few.
    density : HyperPrior, optional
        Prior of kernel and likelihood, where the evidence finds them; None: the bound alone is maximised.
    n_first : int, optional
        Points that a fit begins with where the search may take all of `n_inducing`; None: as many.
    """

    main = "inducing"

    def __init__(
        self,
        likelihood: Any,
        kernel: Any,
        *,
        bound: str = "simple",
        n_inducing: int = 200,
        inducing: Any = "kmeans",
        seed: int = 0,
        scale: Array,
        full: bool = True,
        learn_kernel: bool = True,
        learn_inputs: bool = True,
        by: str = "evidence",
        unit: float = 1.0,
        keep: bool = True,
        density: HyperPrior | None = None,
        n_first: int | None = None,
    ) -> None:
        self.likelihood, self.kernel, self.bound = likelihood, kernel, bound
        self.n_inducing = n_inducing if isinstance(inducing, str) else len(inducing)
        self.inducing, self.seed, self.scale, self.full = inducing, seed, scale, full
        self.learn_kernel = learn_kernel and kernel.n_dims > 0
        self.learn_inputs = learn_inputs and bound != "optimal"
        self.by, self.unit, self.keep, self.density, self.n_first = by, unit, keep, density, n_first
        self._place: tuple[Any, Any, Geometry] | None = None
        self._adjoint: tuple[Any, Any, tuple[Array, ...]] | None = None
        self._lock = Lock()

    def __getstate__(self) -> dict[str, Any]:
        """State for another process: geometry is computed again on request."""
        return {name: value for name, value in vars(self).items() if name not in ("_lock", "_class_moments")} | NO_PLACE

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._lock = Lock()

    @cached_property
    def traits(self) -> Traits:  # type: ignore[override]
        """All bounds but the optimal one are sums over data; averages of q are none where the kernel moves."""
        traits = super().traits
        return replace(
            traits,
            bound=replace(traits.bound, additive=self.bound != "optimal", batched=self.bound != "v2"),
            steps=StepTraits(averages=self.by == "nothing" or not (self.learn_kernel or self.learn_inputs)),
            remedy="Scale the columns of X, drop duplicated rows, or raise noise_variance.",
        )

    @property
    def teacher(self) -> str:
        """The bound that hyperparameters are learned by: "v2" itself would have no noise at all."""
        return "v1" if self.bound == "v2" else self.bound

    @property
    def width(self) -> int:
        """Inducing points of a latent, at most."""
        return self.n_inducing

    # ---- blocks
    def prior(self, q: dict[str, Any]) -> dict[str, Any]:
        """v ~ N(0, I)."""
        shape = q["inducing"].mean.shape
        return {"inducing": DiagonalGaussian(np.zeros(shape), np.ones(shape))}

    @property
    def hyper(self) -> dict[str, Rule]:
        """Kernel and inducing inputs along their gradient, the likelihood by Newton; the evidence finds all of them."""
        found = self.by == "evidence"
        rules: dict[str, Rule] = {name: SEARCHED if found else Adam() for name in ("kernel", "inputs")}
        if found and self.density is not None:
            rules["kernel"] = Searched(self.density)
        if self.likelihood.learned:
            rules["likelihood"] = FIXED if found else Newton()
        return rules

    def begin(self, data: Table, rng: Any, threads: int = 1) -> dict[str, Any]:
        """q at the prior, inducing points chosen from the data, kernel and noise where they are given."""
        m = self.n_first or self.n_inducing
        Z = choose(*candidates(data, m, self.seed), m, self.inducing, self.scale, self.seed)
        q: dict[str, Any] = {"kernel": Free(self.kernel.theta), "inputs": Free(Z / self.scale)}
        if self.likelihood.learned:
            q["likelihood"] = Point(self.likelihood.unconstrained)
        shape = self.shape_of(len(Z))
        prior = DiagonalGaussian(np.zeros(shape), np.ones(shape))
        q["inducing"] = Gaussian(prior.mean, np.diag(prior.precision)) if self.full else prior
        # With every row an inducing point nothing is gained by moving one.
        self.learn_inputs = self.learn_inputs and not (self.by == "evidence" and len(Z) >= len(data))
        try:
            first = data.take(self.chunks(slice(0, len(data)), data)[0])
            self.batch(first, slice(0, len(first))).fill(self, self.geometry(q), q)
        except NotPositiveDefinite as error:
            raise ValueError(f"{error}. {self.traits.remedy}") from error
        return q

    def current_kernel(self, q: dict[str, Any]) -> Any:
        """The kernel with its hyperparameters as q has them."""
        return self.kernel.clone_with_theta(q["kernel"].value)

    def geometry(self, q: dict[str, Any]) -> Geometry:
        """Kernel matrix and factor at q's hyperparameters; kept until they change."""
        with self._lock:
            kernel, inputs = q["kernel"], q["inputs"]
            if self._place is None or self._place[0] is not kernel or self._place[1] is not inputs:
                self._place = kernel, inputs, Geometry(self.current_kernel(q), inputs.value * self.scale)
            return self._place[2]

    # ---- data
    def chunks(self, rows: Array | slice, data: Table) -> list[Any]:
        """Rows in chunks of fixed size; the optimal bound takes all of them at once."""
        if self.bound == "optimal":
            return [slice(0, len(data))]
        return row_slices(rows, data, self.n_inducing, False, False)

    def batch(self, data: Table, rows: Array | slice, start: Any = None) -> SparseGPChunk:
        """The chunk of some rows, whose h_i are not yet computed."""
        keep = self.keep and isinstance(rows, slice) and len(data) * self.n_inducing <= CACHED_NUMBERS
        first = getattr(data, "first", 0)
        return SparseGPChunk(data.take(rows), (data.X, first + rows.start, first + rows.stop) if keep else None)  # type: ignore[union-attr]

    def view(self, q: dict[str, Any], rng: Any) -> dict[str, Any]:
        """q, with its geometry at hand for whatever is pulled back."""
        self.geometry(q)
        return q

    # ---- gradients
    def terms(self, view: dict[str, Any], batch: SparseGPChunk, expect: Any, rng: Any) -> LinearTerms:
        """T and its derivatives per datum."""
        return self.terms_at(view, batch, expect, rng, None)

    def terms_at(
        self, q: dict[str, Any], batch: SparseGPChunk, expect: Any, rng: Any, variance: Array | None
    ) -> LinearTerms:
        """T and its derivatives per datum, given the `variance` of h_iᵀv where it is known already."""
        block = q["inducing"]
        if batch.rows is None:
            batch.fill(self, self.geometry(q), q)
        linear = self._project_mean(batch.rows, block)
        s = self._project(batch.rows, block)[1] if variance is None else variance
        y = batch.data.y
        if self.bound == "optimal":
            r = y - linear
            value = -0.5 * (LOG_2PI + np.square(r) + s) + batch.constant / len(y)
            return LinearTerms(value, r, np.full(len(y), -0.5), linear)
        mu = linear if batch.data.offset is None else linear + batch.data.offset
        arguments = self.current_likelihood(q), y, mu, as_matrices(s), batch.d, expect, rng
        t = BOUNDS[self.bound](*arguments)
        h = t if self.teacher == self.bound else BOUNDS[self.teacher](*arguments)
        own = hyper_terms(h)
        return GPTerms(t.value, t.alpha, like(t.gamma, s), linear, h.points, variance=s, own=own, at=block).weighted(
            batch.data.weight
        )

    def log_likelihood_at(self, q: dict[str, Any], draws: dict[str, Array], batch: SparseGPChunk, expect: Any) -> Array:
        """Sum of T_i over rows at given inducing values (draws,): exp of it times the prior is the best q."""
        if batch.rows is None:
            batch.fill(self, self.geometry(q), q)
        data = batch.data
        mu = self._latents_at(batch.rows, draws["inducing"], data.offset)
        if self.bound == "optimal":
            return summed(-0.5 * (LOG_2PI + np.square(data.y - mu)) + batch.constant / len(data), None)
        y, d = (np.tile(part, (len(mu), *[1] * (part.ndim - 1))) for part in (data.y, batch.d))
        flat = mu.reshape(len(y), *mu.shape[2:])
        value = VALUES[self.bound](self.current_likelihood(q), y, flat, left_over(np.zeros_like(flat), d), expect)
        return summed(value.reshape(mu.shape[:2]), data.weight)

    def latent_variance(self, q: dict[str, Any], batch: SparseGPChunk) -> Array:
        """(Co)variance of h_iᵀv."""
        if batch.rows is None:
            batch.fill(self, self.geometry(q), q)
        return self._project(batch.rows, q["inducing"])[1]

    def pull_back(self, terms: LinearTerms, batch: SparseGPChunk) -> dict[str, Any]:
        """Gradient per block, and under "hyper" the sums from which `completed` makes those of kernel and inputs."""
        if batch.rows is None:
            assert self._place is not None
            batch.fill(self, self._place[2], {})
        out: dict[str, Any] = {"inducing": self._pull(batch.rows, terms.alpha, terms.gamma)}
        for name, (g, hessian) in terms.points.items():
            out[name] = (g.sum(0), hessian.sum(0))
        if self.by == "gradient" and isinstance(terms, GPTerms) and (self.learn_kernel or self.learn_inputs):
            out["hyper"] = self.hyper_sums(terms, batch)
        return out

    def hyper_sums(self, terms: GPTerms, batch: SparseGPChunk, gram: bool = True) -> tuple[Any, ...]:
        """Additive parts of the gradients in kernel parameters and inputs.

        theta, Z, Σ alpha_a h (K, M), Σ gamma_ab h hᵀ (K, K, M, M) and Σ (delta - tr gamma) h hᵀ.
        """
        assert terms.own is not None and self._place is not None and batch.K is not None
        alpha, gamma, delta, *beyond = terms.own
        a, inner, inverse = self._adjoints(terms.at, self._place[2])
        H, k = batch.rows.A, alpha.shape[1]
        first = np.empty((len(H), H.shape[1] + k))  # one product for what a sum of two would pass over twice
        np.multiply(H, 2.0 * gamma[:, 0, 0, None], out=first[:, :-k])
        first[:, -k:] = alpha
        slopes = np.dot(first, np.concatenate([inner[0, 0], a]))
        for b, c in list(zip(*np.tril_indices(k), strict=True))[1:]:
            both = inner[b, c] if b == c else inner[b, c] + inner[c, b]
            slopes += np.dot(2.0 * gamma[:, b, c, None] * H, both)
        left = NONE
        for extra in beyond:
            slopes -= np.dot(2.0 * extra[:, None] * H, inverse)
            left = batch.rows.gram(extra, True)
        theta, inputs = self._place[2].pull_rows(batch.data.X, batch.K, slopes, delta, self.learn_inputs)
        inputs = NONE if inputs is None else inputs
        return theta, inputs, np.dot(alpha.T, H), grams(batch.rows, gamma) if gram else NONE, left

    def _adjoints(self, block: Any, geometry: Geometry) -> tuple[Array, ...]:
        """mᵀL⁻¹ (K, M), (S - I) L⁻¹ (K, K, M, M) and L⁻¹: once per q."""
        with self._lock:
            if self._adjoint is None or self._adjoint[0] is not block or self._adjoint[1] is not geometry:
                mean, spread = self._moments(block)
                self._adjoint = block, geometry, (mean @ geometry.inverse, spread @ geometry.inverse, geometry.inverse)
            return self._adjoint[2]

    def _moments(self, block: Any) -> tuple[Array, Array]:
        """Means (K, M) of v_k and what their covariances have beyond the prior's, S - I as (K, K, M, M)."""
        mean = self.by_latent(block.mean)
        k, m = mean.shape
        if self.joint:
            spread = (block.cov - np.eye(k * m)).reshape(k, m, k, m).transpose(0, 2, 1, 3)
        else:
            spread = np.zeros((k, k, m, m))
            spread[np.arange(k), np.arange(k)] = block.cov - np.eye(m)
        return mean, spread

    def completed(self, gradient: dict[str, Any], q: dict[str, Any]) -> dict[str, Any]:
        """Gradient with its "hyper" sums turned into that in kernel parameters and inducing inputs at fixed q(v)."""
        if "hyper" not in gradient:
            return gradient
        rest = {name: part for name, part in gradient.items() if name != "hyper"}
        return {**rest, **{name: (part,) for name, part in self.slopes(q, gradient["hyper"]).items()}}

    def slopes(self, q: dict[str, Any], sums: tuple[Any, ...]) -> dict[str, Array]:
        """Gradient of the bound in kernel parameters and inducing inputs, from `hyper_sums` over all rows."""
        theta, inputs, g, gram, left = sums
        mean, spread = self._moments(q["inducing"])
        P = mean.T @ g + 2.0 * np.einsum("abij,abjk->ik", spread, gram, optimize=True)
        if left.size:
            P -= 2.0 * left
        more, moved = self.geometry(q).pull_factor(P, self.learn_inputs)
        out = {"kernel": theta + more} if self.learn_kernel else {}
        if self.learn_inputs:
            out["inputs"] = (inputs + moved) * self.scale
        return out

    def search(self, fit: Fit, tol: float) -> tuple[dict[str, Any], bool]:
        """Hyperparameters by L-BFGS on the bound at its best q."""
        from sksvi.models.gp.integrated import improved

        return improved(self, fit, tol) if self.by == "evidence" else (fit.q, False)

    def kernel_and_points(self, q: dict[str, Any]) -> tuple[Any, Array]:
        """The kernel and the inducing points as users see them."""
        return self.current_kernel(q), q["inputs"].value * self.scale


def hyper_terms(t: Any) -> tuple[Array, ...]:
    """alpha, gamma, delta of a bound as `GPTerms.own` holds them."""
    if t.alpha.ndim == 2:
        return t.alpha, t.gamma, t.delta
    own = t.alpha[:, None], t.gamma[:, None, None], t.delta
    return own if t.delta is t.gamma else (*own, t.delta - t.gamma)


def grams(rows: DenseRows, gamma: Array) -> Array:
    """Σ gamma_iab h_i h_iᵀ, (K, K, M, M)."""
    k, m = gamma.shape[1], rows.A.shape[1]
    out = np.empty((k, k, m, m))
    for a in range(k):
        for b in range(a + 1):
            out[a, b] = out[b, a] = rows.gram(gamma[:, a, b], True)
    return out
