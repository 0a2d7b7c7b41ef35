"""Search for the kernel of a full process: Newton's steps on the bound, with q settled at each kernel.

q settles by natural steps from the messages of the best kernel so far, and no nearer than the next step of the search
needs. The curvature that steps begin with is the average information (Gilmour, Thompson and Cullis 1995) of what the
messages say of the kernel: products of matrices with vectors alone.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from sksvi.algorithms.ascent import value_or_none
from sksvi.algorithms.line_search import backtrack
from sksvi.algorithms.loops import corrected
from sksvi.families import Free, NotPositiveDefinite
from sksvi.families.gaussian.dual import SiteGaussian
from sksvi.models.base import Blocks, Fit, Gradient
from sksvi.models.gp import kernels
from sksvi.models.per_latent import SETTLED_SHARE, ProfileSearch

Array = np.ndarray

#: Share of what the next step of the search promises by which q need not settle.
LOOSE = 0.03
#: What a natural step gains, over what the one before it did, at least, and at most.
LEFT, MOST_LEFT = 0.2, 0.7
#: Step of differences in a log parameter.
NEARBY = 1e-4
#: Changes of the slope that correct a curvature.
PAIRS = 3
#: Relative fall of the bound that rounding explains.
ROUNDING = 1e-10


class SettledKernel(NamedTuple):
    """q, and the gradient of E log p and the bound there."""

    q: Blocks
    gradient: Gradient
    bound: float

    def without_prior(self) -> tuple[Any, ...]:
        """The kernel's parameters in the place of its matrix, which is as large as all rows squared."""
        return self.q["kernel"].value, self.q["latents"].dual, self.q["latents"].weights, self.gradient, self.bound


class KernelSearch(ProfileSearch):
    """Search for the kernel's parameters, within their bounds.

    Parameters
    ----------
    model : FullGP
    fit : Fit
    tol : float
    """

    def __init__(self, model: Any, fit: Fit, tol: float) -> None:
        super().__init__(fit, tol, list(zip(*model.kernel.bounds.T, strict=True)))
        self.model, self.rows = model, model.batch(fit.problem.data, slice(0, len(fit.problem.data)))
        #: Where q was at first and settled last, and the gain that the next step promises, nats.
        self.first = self.best = self.latest = SettledKernel(fit.q, fit.here.gradient, fit.here.bound)
        self.promised = np.inf
        #: What a natural step gains over what the one before it did.
        self.left = LEFT
        #: Points that were looked at last, and the slopes there.
        self.slopes: deque[tuple[Array, Array]] = deque(maxlen=1 + PAIRS)
        #: Parameters and what was found there, in turn; what is found again where a fit goes on; where q then settles.
        self.found: list[tuple[Array, Any]] = []
        self.ahead: deque[tuple[Array, Any]] = deque()
        self.halfway: tuple[SettledKernel, float, float] | None = None
        if fit.under_way:
            self.go_on(**fit.under_way)

    # ---- going on
    def go_on(self, found: Any, left: float, settled: Any, here: Any, before: float, rate: float) -> None:
        """Begin where a fit was cut off, as `counted` has recorded it."""
        self.ahead.extend(found)
        self.first, self.best, self.latest = (self.under_kernel(*one) for one in settled)
        self.left, self.halfway = left, (self.under_kernel(*here), before, rate)

    def under_kernel(self, theta: Array, dual: Array, weights: Array, *there: Any) -> SettledKernel:
        """An evaluation from what `SettledKernel.without_prior` left of it."""
        K = kernels.gram(self.model.kernel.clone_with_theta(theta), self.model.X)
        return SettledKernel({"latents": SiteGaussian(K, dual, weights), "kernel": Free(theta)}, *there)

    def counted(self, here: SettledKernel, before: float, rate: float) -> bool:
        """`look` at a natural step, with a record of all that the search goes on with from there."""
        settled = tuple(one.without_prior() for one in (self.first, self.best, self.latest))
        halfway: dict[str, Any] = {"here": here.without_prior(), "before": before, "rate": rate}
        best = here if here.bound > self.best.bound else self.best
        self.fit.record(*best, found=tuple(self.found), left=self.left, settled=settled, **halfway)
        return self.look(here.bound)

    def once(self, find: Callable[[Array], Any], x: Array) -> Any:
        """Return what is found at x, or was found before the fit was cut off."""
        if self.ahead and not np.array_equal(self.ahead[0][0], x):  # to another tolerance or within other bounds
            self.ahead.clear()
        self.found.append((x, self.ahead.popleft()[1] if self.ahead else find(x)))
        return self.found[-1][1]

    def should_stop(self, value: float, promised: float) -> bool:
        """After every evaluation; True: the fit must stop, or the next step promises a small share of `tol`."""
        self.promised = promised
        return self.ended or promised < SETTLED_SHARE * self.tol * self.fit.size(value)

    # ---- evaluations
    def __call__(self, x: Array) -> tuple[float, Array]:
        """Bound and its slope."""
        found: tuple[float, Array] | None = self.once(partial(value_or_none, super().__call__), x)
        if found is None:
            raise NotPositiveDefinite(f"the kernel has no finite bound at theta = {x}")
        self.slopes.append((x, found[1]))
        return found

    def evaluated(self, x: Array) -> tuple[Any, Array]:
        """Evaluation at parameters x, and its slope: q settles from the messages of the best parameters so far."""
        here = self.latest = self.settled(x)
        slope, density = self.model.evidence_gradient(here.q), self.model.density
        return here, slope if density is None else slope + density.of("kernel", x)[1]

    def settled(self, x: Array) -> SettledKernel:  # type: ignore[override]
        """Evaluation at parameters x where natural steps gain next to nothing of what the search is after.

        What a step leaves of the error is what it leaves of the next gain, and every other one goes on by as much.
        """
        size, q = self.fit.size(self.best.bound), self.best.q
        least = min(max(SETTLED_SHARE * self.tol * size, LOOSE * self.promised), self.tol * size)
        if self.halfway is not None and np.array_equal(x, self.halfway[0].q["kernel"].value):
            (here, before, rate), ended = self.halfway, False
        else:
            q = q if np.array_equal(x, q["kernel"].value) else self.model.at(x, q["latents"])
            here, before, rate = self.valued(q), np.inf, 1.0
            ended = self.counted(here, before, rate)
        self.halfway = None
        while rate and not ended:
            found = backtrack(partial(self.moved, here, rate), partial(_no_fall, here.bound - ROUNDING * size))
            if found is None:
                break
            gained, here = found.trial.bound - here.bound, found.trial
            again = rate == 1.0 and np.isfinite(before)
            if again:
                self.left = min(max(gained / before, LEFT), MOST_LEFT)
            rate = 1.0 / (1.0 - np.sqrt(self.left)) if again else 1.0
            if self.left * gained < least * (1.0 - self.left):
                rate = 0.0  # q has settled
            before = gained if rate == 1.0 else np.inf
            ended = self.counted(here, before, rate)
        return here

    def valued(self, q: Blocks) -> SettledKernel:
        """Gradient and bound at q."""
        terms = self.model.terms(q, self.rows, self.fit.problem.expect, None)
        gradient = self.model.pull_back(terms, self.rows)
        bound = float(terms.value.sum()) - self.fit.divergence(q)
        if not np.isfinite(bound):
            raise NotPositiveDefinite("the bound is not finite under this kernel")
        return SettledKernel(q, gradient, bound)

    def moved(self, here: SettledKernel, rate: float, share: float) -> SettledKernel | None:
        """Evaluation after a share of a natural step of this rate; None: it leads to no q."""
        block = here.q["latents"]
        target = block.natural_gradient(here.gradient["latents"])
        own = block.natural(block)
        try:
            new = block.replace(tuple(a + rate * share * (b - a) for a, b in zip(own, target, strict=True)))
            return self.valued({**here.q, "latents": new})
        except NotPositiveDefinite:
            return None

    def curvature(self, x: Array, slope: Array) -> Array:
        """Average information where q settled last, corrected by how slopes have changed between the last points.

        Messages that settle anew take a part of the curvature away, which is two thirds of it where rows are few.
        """
        B = self.once(lambda x: average_information(self.model, self.latest.q), x).copy()
        for (before, first), (after, second) in pairwise(self.slopes):
            corrected(B, after - before, first, second)
        return B


def _no_fall(least: float, there: SettledKernel) -> bool:
    return there.bound >= least


def average_information(model: Any, q: Blocks) -> Array:
    """Average information of the kernel's parameters under the messages of q, with the log prior's curvature, (P, P).

    With A = (K + W⁻¹)⁻¹ and a = K⁻¹ m it is ½ aᵀ K_i A K_j a: the mean of minus the second derivatives of the messages'
    log evidence and what these are on average, without the traces of either.
    """
    theta, block, density = q["kernel"].value, q["latents"], model.density
    rows, own = np.empty((len(theta), len(block.dual))), np.zeros(len(theta))
    for place in range(len(theta)):
        there = theta.copy()
        there[place] += NEARBY
        K = kernels.gram(model.kernel.clone_with_theta(there), model.X)
        rows[place] = (K @ block.dual - block.mean) / NEARBY
        if density is not None:
            own[place] = (density.of("kernel", theta)[1] - density.of("kernel", there)[1])[place] / NEARBY
    weighed = np.array([block.against(block.weights * row) for row in rows])
    return 0.5 * rows @ weighed.T + np.diag(own)
