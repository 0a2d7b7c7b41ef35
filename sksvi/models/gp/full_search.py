"""Search for the kernel of a full process: Newton's steps on the bound, with q settled at each kernel.

q settles by natural steps from the messages of the best kernel so far, and no nearer than the next step of the search
needs. The curvature that steps begin with is the average information (Gilmour, Thompson and Cullis 1995) of what the
messages say of the kernel: products of matrices with vectors alone.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from sksvi.algorithms.ascent import WINDOW, climb
from sksvi.algorithms.line_search import backtrack
from sksvi.algorithms.loops import corrected
from sksvi.families import NotPositiveDefinite
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
        self.model, self.rows = model, model.batch(fit.data, slice(0, len(fit.data)))
        #: Where q settled last, and the gain that the next step promises, nats.
        self.latest, self.promised = fit.q, np.inf
        #: What a natural step gains over what the one before it did.
        self.left = LEFT
        #: Points that were looked at last, and the slopes there.
        self.slopes: deque[tuple[Array, Array]] = deque(maxlen=1 + PAIRS)

    def highest(self, start: Array) -> Any:
        """The best evaluation of a search from these parameters; those outside of their bounds start on them."""
        start = np.clip(start, self.low, self.high)
        climb(self, self.curvature, start, self.low, self.high, self.should_stop, self.enough)
        return self.best

    def enough(self, value: float) -> float:
        """Gain of a window of steps that goes on being worth them, nats."""
        return WINDOW * self.tol * self.fit.size(value)

    def should_stop(self, value: float, promised: float) -> bool:
        """After every evaluation; True: the fit must stop, or the next step promises a small share of `tol`."""
        self.promised = promised
        return self.ended or promised < SETTLED_SHARE * self.tol * self.fit.size(value)

    # ---- evaluations
    def evaluated(self, x: Array) -> tuple[Any, Array]:
        """Evaluation at parameters x, and its slope: q settles from the messages of the best parameters so far."""
        q = self.best.q
        here = self.settled(q if np.array_equal(x, q["kernel"].value) else self.model.at(x, q["latents"]))
        self.latest = here.q
        slope, density = self.model.evidence_gradient(here.q), self.model.density
        slope = slope if density is None else slope + density.of("kernel", x)[1]
        self.slopes.append((x, slope))
        return here, slope

    def settled(self, q: Blocks) -> SettledKernel:
        """Evaluation where natural steps from q gain next to nothing of what the search is after.

        What a step leaves of the error is what it leaves of the next gain, and every other one goes on by as much.
        """
        size, before, rate = self.fit.size(self.best.bound), np.inf, 1.0
        least = min(max(SETTLED_SHARE * self.tol * size, LOOSE * self.promised), self.tol * size)
        here = self.valued(q)
        while not self.look(here.bound):
            found = backtrack(partial(self.moved, here, rate), partial(_no_fall, here.bound - ROUNDING * size))
            if found is None:
                break
            gained, here = found.trial.bound - here.bound, found.trial
            if rate == 1.0 and np.isfinite(before):
                self.left = min(max(gained / before, LEFT), MOST_LEFT)
            if self.left * gained < least * (1.0 - self.left):
                self.look(here.bound)
                break
            rate = 1.0 / (1.0 - np.sqrt(self.left)) if rate == 1.0 and np.isfinite(before) else 1.0
            before = gained if rate == 1.0 else np.inf
        return here

    def valued(self, q: Blocks) -> SettledKernel:
        """Gradient and bound at q."""
        terms = self.model.terms(q, self.rows, self.fit.expect, None)
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
        B = average_information(self.model, self.latest)
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
