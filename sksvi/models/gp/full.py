"""A full Gaussian process under any scalar likelihood: one message per datum (doc/gaussian_processes.md)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy.linalg import lapack

from sksvi.algorithms.rules import SEARCHED, Rule, Searched
from sksvi.families import Free
from sksvi.families.base import Message
from sksvi.families.gaussian.dual import SiteGaussian
from sksvi.models.base import Fit, LinearTerms, Starts
from sksvi.models.data import Rows, Table
from sksvi.models.gp import kernels
from sksvi.models.gp.full_search import KernelSearch
from sksvi.models.gp.hyperpriors import HyperPrior
from sksvi.models.per_latent import SETTLED_SHARE, MeanTrial, PerLatent
from sksvi.models.traits import Traits

Array = np.ndarray

#: Share of the largest prior variance by which an eigenvalue of the kernel matrix may be negative: rounding.
INDEFINITE = 1e-8


@dataclass(frozen=True)
class LatentRows(Table):
    """Rows of a table with the numbers of their latents among all of them.

    numbers : slice or (b,). n : of all latents.
    """

    numbers: Rows = field(default_factory=lambda: slice(None))
    n: int = 0


class SearchedStart(Starts):
    """The start of a fit whose search for the kernel settles q at every kernel, the first one too."""

    settled_by_search = True


class FullGP(PerLatent):
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
    density : HyperPrior, optional
        Their prior; None: the bound alone is maximised.
    first : Message, optional
        What a fit begins with; None: no message, the prior.
    """

    def __init__(
        self,
        likelihood: Any,
        kernel: Any,
        X: Array,
        learned: bool = True,
        density: HyperPrior | None = None,
        first: Message | None = None,
    ) -> None:
        self.likelihood = likelihood
        self.kernel = kernel
        self.X = X
        self.learned = learned
        self.density = density
        self.first = first

    # ---- blocks
    def current_kernel(self, q: dict[str, Any]) -> Any:
        """The kernel with its parameters as q has them."""
        return self.kernel.clone_with_theta(q["kernel"].value)

    def prior(self, q: dict[str, Any]) -> dict[str, Any]:
        """N(0, K) on the latents."""
        return {"latents": SiteGaussian(q["latents"].prior_cov)}

    def at(self, theta: Array, block: SiteGaussian | None = None) -> dict[str, Any]:
        """q under the kernel with these parameters: the prior, or the messages of `block`."""
        K = kernels.gram(self.kernel.clone_with_theta(theta), self.X)
        return {"latents": SiteGaussian(K) if block is None else block.under(K), "kernel": Free(theta)}

    @property
    def traits(self) -> Traits:  # type: ignore[override]
        """The traits of `PerLatent`, whose expectations must be exact where kernel parameters are learned."""
        traits = PerLatent.traits
        bound, steps = replace(traits.bound, exact_search=self.learned), replace(traits.steps, own_messages=True)
        return replace(traits, bound=bound, steps=steps)

    @property
    def starts(self) -> Starts:  # type: ignore[override]
        """What a fit begins with: the search, where it has something to find."""
        return SearchedStart() if self.learned and self.kernel.theta.size else Starts()

    @property
    def hyper(self) -> dict[str, Rule]:
        """Kernel parameters: `search` finds them."""
        return {"kernel": SEARCHED if self.density is None else Searched(self.density)}

    def begin(self, data: Table, rng: Any, threads: int = 1) -> dict[str, Any]:
        """The prior, with the first messages where there are any."""
        q = self.at(self.kernel.theta)
        check_semidefinite(q["latents"].prior_cov, self.kernel)
        return q if self.first is None else {**q, "latents": q["latents"].times(self.first)}

    # ---- data
    def batch(self, data: Table, rows: Rows, start: Any = None) -> LatentRows:
        """The rows, and which latents are theirs."""
        part = data.take(rows)
        return LatentRows(part.X, part.y, part.weight, part.offset, numbers=rows, n=len(data))

    # ---- gradients
    def terms(self, view: dict[str, Any], batch: Any, expect: Any, rng: Any) -> LinearTerms:
        """Per datum gradients and E log p, summed, at the moments of the rows' own latents."""
        block = view["latents"]
        return self.terms_at(view, block.mean[batch.numbers], block.variance[batch.numbers], batch, expect, rng)

    def pull_back(self, terms: LinearTerms, batch: LatentRows) -> dict[str, Any]:
        """Each latent has its own datum, zeros where that is not at hand.

        Where a likelihood bends upwards its message says nothing of the variance.
        """
        return {"latents": (_among(batch, terms.alpha), _among(batch, downward(terms)))}

    def stepped(self, block: SiteGaussian, here: MeanTrial) -> tuple[float, Callable[[float], SiteGaussian]]:
        """Newton's step in the dual coordinates: slope of the bound along it, and the points on it by their share."""
        point, _, terms = here
        slope = terms.alpha - point.dual
        curvature = -2.0 * downward(terms)
        step = SiteGaussian(point.prior_cov, point.dual, curvature).against(slope)
        return float(slope @ (point.prior_cov @ step)), lambda share: point.moved_by(step / share)

    def with_mean(self, block: SiteGaussian, point: SiteGaussian) -> SiteGaussian:
        """The point itself: it has moved from the block, and kept its messages' precisions."""
        return point

    # ---- hyperparameters
    def evidence_gradient(self, q: dict[str, Any]) -> Array:
        """Gradient in theta of the log evidence of the messages; with q at its optimum, that of the bound."""
        block = q["latents"]
        G = block.evidence_gradient()
        return kernels.cross_pullback(self.current_kernel(q), self.X, self.X, G, block.prior_cov, inputs=False)[0]

    def search(self, fit: Fit, tol: float) -> tuple[dict[str, Any], bool]:
        """Newton's steps on the bound as a function of the kernel's parameters alone, q settled at each of them."""
        if not self.starts.settled_by_search or fit.already_searched(["kernel"]):
            return fit.q, False
        search = KernelSearch(self, fit, tol)
        first = search.first
        search.ascend(first.q["kernel"].value)
        moved = search.best.bound - first.bound >= SETTLED_SHARE * tol * fit.size(search.best.bound)
        fit.record(*(search.best if moved else first))
        return fit.q, moved


def downward(terms: Any) -> Array:
    """Slopes in the variance where these are negative, as of log-concave likelihoods, else 0."""
    return np.minimum(terms.gamma, 0.0)


def _among(batch: LatentRows, values: Array) -> Array:
    """Numbers of the rows at the place of their latents, (n,)."""
    if len(values) == batch.n:
        return values
    out = np.zeros(batch.n)
    out[batch.numbers] = values
    return out


def check_semidefinite(K: Array, kernel: Any) -> None:
    """Raise ValueError where a kernel is none: a few of scikit-learn's pairwise ones are indefinite."""
    raised = K.copy()
    raised.flat[:: len(K) + 1] += INDEFINITE * float(np.max(np.diagonal(K)))
    info = lapack.dpotrf(raised.T, lower=1, clean=0, overwrite_a=1)[1]
    if info or not np.all(np.isfinite(np.diagonal(K))):
        raise ValueError(
            f"kernel={kernel!r} is not positive semi-definite on the rows of X, so that it is no covariance: choose "
            "other parameters or another kernel."
        )
