"""A full Gaussian process under any scalar likelihood: one message per datum (equations.md 4, `full GP by cvi`)."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import lapack

from sksvi.algorithms.ascent import WINDOW, ascend
from sksvi.algorithms.rules import SEARCHED, Rule
from sksvi.algorithms.steps import MAX_HALVINGS
from sksvi.families import Free
from sksvi.families.gaussian.dual import SiteGaussian
from sksvi.models.base import Fit, Linear, LinearTerms, Table
from sksvi.models.gp import kernels

Array = np.ndarray

#: Share of `tol` to which q settles at each point of the search for hyperparameters: their gradient needs the best q.
SETTLED_SHARE = 0.1
#: Most Newton steps for the mean, and the gain below which they end, relative to the objective.
NEWTON_STEPS, NEWTON_TOL = 100, 1e-12
#: Share of the largest prior variance by which an eigenvalue of the kernel matrix may be negative: rounding.
INDEFINITE = 1e-8
#: More evaluations than any search takes: `max_iter` ends it.
MOST_EVALUATIONS = 10_000


class FullGP(Linear):
    """GP prior on the latents of all rows, as one block in its dual form; kernel parameters as a free block.

    Parameters
    ----------
    likelihood : Likelihood
        Of one latent, with every parameter a number.
    kernel : kernel of scikit-learn
    X : ndarray of shape (n, D)
        The rows that the latents belong to.
    learned : bool, default=True
        Whether the kernel's free parameters move.
    """

    main = "latents"
    batchable = False
    averages = False
    natural_only = True

    def __init__(self, likelihood: Any, kernel: Any, X: Array, learned: bool = True) -> None:
        self.likelihood = likelihood
        self.kernel = kernel
        self.X = X
        self.learned = learned

    # ---- blocks
    def current_kernel(self, q: dict[str, Any]) -> Any:
        """The kernel with its parameters as q has them."""
        return self.kernel.clone_with_theta(q["kernel"].value)

    def current_likelihood(self, q: dict[str, Any]) -> Any:
        """The likelihood; none of its parameters is learned."""
        return self.likelihood

    def prior(self, q: dict[str, Any]) -> dict[str, Any]:
        """N(0, K) on the latents."""
        return {"latents": SiteGaussian(q["latents"].prior_cov)}

    def at(self, theta: Array, block: SiteGaussian | None = None) -> dict[str, Any]:
        """q under the kernel with these parameters: the prior, or the messages of `block`."""
        K = kernels.cross(self.kernel.clone_with_theta(theta), self.X, self.X)
        return {"latents": SiteGaussian(K) if block is None else block.under(K), "kernel": Free(theta)}

    @property
    def exact_only(self) -> bool:  # type: ignore[override]
        """Where kernel parameters are learned."""
        return self.learned

    @property
    def hyper(self) -> dict[str, Rule]:
        """Kernel parameters: `search` finds them."""
        return {"kernel": SEARCHED}

    def begin(self, data: Table, rng: Any) -> dict[str, Any]:
        """The prior: no messages yet."""
        q = self.at(self.kernel.theta)
        check_semidefinite(q["latents"].prior_cov, self.kernel)
        return q

    # ---- data
    def chunks(self, rows: Array | slice, data: Table) -> list[Any]:
        """All rows at once: what is per datum is little beside the factor of K."""
        return [rows]

    def batch(self, data: Table, rows: Array | slice, start: Any = None) -> Table:
        """The data themselves."""
        return data

    # ---- gradients
    def message_shapes(self, n: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """A number each."""
        return (n,), (n,)

    def terms(self, view: dict[str, Any], batch: Table, expect: Any, rng: Any) -> LinearTerms:
        """Per datum: gradients and E log p, unscaled."""
        return self._terms_at(view, batch, expect, rng, None)

    def _terms_at(self, q: dict[str, Any], batch: Table, expect: Any, rng: Any, variance: Array | None) -> LinearTerms:
        linear = q["latents"].mean
        v = q["latents"].variance if variance is None else variance
        m = linear if batch.offset is None else linear + batch.offset
        value, alpha, gamma = expect(self.likelihood, batch.y, m, v, rng)
        return LinearTerms(value, alpha, gamma, linear).weighted(batch.weight)

    def pull_back(self, terms: LinearTerms, batch: Table) -> dict[str, Any]:
        """Each latent has its own datum; where a likelihood bends upwards its message says nothing of the variance."""
        return {"latents": (terms.alpha, np.minimum(terms.gamma, 0.0))}

    def best_mean(
        self, q: dict[str, Any], prior: Any, data: Any, expect: Any, scale: float, threads: int, steps: int
    ) -> SiteGaussian:
        """The best mean at these variances: Newton in the dual coordinates, halved where the objective falls."""
        block: SiteGaussian = q["latents"]
        variance = block.variance

        def at(block: SiteGaussian) -> tuple[SiteGaussian, float, LinearTerms]:
            terms = self._terms_at({"latents": block}, data, expect, None, variance)
            return block, float(terms.value.sum()) - 0.5 * float(block.dual @ block.mean), terms

        here = at(block)
        for _ in range(NEWTON_STEPS):
            block, value, terms = here
            slope = terms.alpha - block.dual
            curvature = -2.0 * self.pull_back(terms, data)["latents"][1]
            step = SiteGaussian(block.prior_cov, block.dual, curvature).against(slope)
            if slope @ (block.prior_cov @ step) < NEWTON_TOL * (abs(value) + 1):
                break
            tried = (at(block.moved_by(step / 2**halvings)) for halvings in range(MAX_HALVINGS))
            better = next((there for there in tried if there[1] >= value), None)
            if better is None:
                break
            here = better
        return here[0]

    # ---- hyperparameters
    def evidence_gradient(self, q: dict[str, Any]) -> Array:
        """Gradient in theta of the log evidence of the messages; with q at its optimum, that of the bound."""
        block = q["latents"]
        G = block.evidence_gradient()
        return kernels.cross_pullback(self.current_kernel(q), self.X, self.X, G, block.prior_cov, inputs=False)[0]

    def search(self, fit: Fit, tol: float) -> tuple[dict[str, Any], bool]:
        """L-BFGS on the bound as a function of the kernel's parameters alone, with q settled at each of them."""
        theta = fit.q["kernel"].value
        if not self.learned or not theta.size or kernels.already_searched(fit):
            return fit.q, False
        search = _Search(self, fit, tol)
        low, high = self.kernel.bounds.T
        # As in scikit-learn, parameters that start outside of their bounds start on them.
        box = list(zip(low, high, strict=True))
        ascend(
            search,
            np.clip(theta, low, high),
            box,
            search.seen,
            lambda value: WINDOW * tol * fit.size(value),
            MOST_EVALUATIONS,
        )
        return search.best.q, search.best.q is not fit.q


def check_semidefinite(K: Array, kernel: Any) -> None:
    """Raise ValueError where a kernel is none: a few of scikit-learn's pairwise ones are indefinite."""
    raised = K + INDEFINITE * float(np.max(np.diagonal(K))) * np.eye(len(K))
    info = lapack.dpotrf(raised.T, lower=1, overwrite_a=1)[1]
    if info or not np.all(np.isfinite(np.diagonal(K))):
        raise ValueError(
            f"kernel={kernel!r} is not positive semi-definite on the rows of X, so that it is no covariance: choose "
            "other parameters or another kernel."
        )


class _Search:
    """The bound with q settled, as a function of the kernel's parameters; keeps the best q."""

    def __init__(self, model: FullGP, fit: Fit, tol: float) -> None:
        self.model, self.fit, self.tol, self.flat = model, fit, tol, False
        self.best: Any = fit.here
        self.ended = False

    def look(self, bound: float) -> bool:
        """One more look at all data; True: the fit must stop."""
        self.ended = self.ended or self.fit.tick(max(bound, self.best.bound))
        return self.ended

    def seen(self, best: float) -> bool:
        """After every evaluation; True: the fit must stop, or no parameter's next e-fold promises `tol`."""
        return self.look(self.best.bound) or self.flat

    def __call__(self, theta: Array) -> tuple[float, Array]:
        """Bound and its gradient; q starts from the messages of the best parameters so far."""
        q = self.model.at(theta, self.best.q["latents"])
        here = self.fit.settle(q, MOST_EVALUATIONS, SETTLED_SHARE * self.tol, self.look)
        gradient = self.model.evidence_gradient(here.q)
        low, high = self.model.kernel.bounds.T
        inside = np.where(gradient > 0, theta < high, theta > low)
        self.flat = float(np.abs(gradient[inside]).sum()) < self.tol * self.fit.size(here.bound)
        if here.bound > self.best.bound:
            self.best = here
        return here.bound, gradient
