"""What models with one message per latent have in common: all rows at once, a Newton solve for the mean, and a search.

A full Gaussian process and a latent in time differ in how their prior is held; of the data both see one latent each.
Hyperparameters are searched for by the bound with q settled at each of them: the block has no collapsed bound.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from sksvi.algorithms.ascent import WINDOW, climb
from sksvi.algorithms.line_search import backtrack
from sksvi.models.base import Blocks, Fit, Linear, LinearTerms, summed
from sksvi.models.data import Table
from sksvi.models.traits import BoundTraits, StepTraits, Traits, Warmup

# ---- Newton steps and the model
Array = np.ndarray

#: Most Newton steps for the mean, and the gain below which they end, relative to the objective.
NEWTON_STEPS, NEWTON_TOL = 100, 1e-12


class MeanTrial(NamedTuple):
    """A mean that was tried, its objective, nats, and the terms of the data there."""

    point: Any
    value: float
    terms: LinearTerms


def newton(here: MeanTrial, propose: Callable[[MeanTrial], tuple[float, Callable[[float], MeanTrial]]]) -> MeanTrial:
    """Where Newton steps end, each of them halved while the objective falls.

    Parameters
    ----------
    here : MeanTrial
        Where they begin.
    propose : callable
        From a point to twice what its full step gains to second order, nats, and what is found at a share of that step.
    """
    for _ in range(NEWTON_STEPS):
        promised, over = propose(here)
        if promised < NEWTON_TOL * (abs(here.value) + 1):
            break
        found = backtrack(over, partial(_not_below, here.value))
        if found is None:
            break
        here = found.trial
    return here


def _not_below(value: float, trial: MeanTrial) -> bool:
    return trial.value >= value


class PerLatent(Linear):
    """A Gaussian block `latents` with one message per row, whose moments need all of them.

    A subclass says how its block is held (`stepped`, `prior_mean`, `with_mean`) and how parameters move. What these ask
    of a block, and of a point that stands for a mean, is ``mean`` (n,) and ``dual`` (n,) = K⁻¹(mean - prior mean).
    """

    main = "latents"
    traits = Traits(
        bound=BoundTraits(additive=False, seeded=False),
        warmup=Warmup(random_start=False),
        steps=StepTraits(averages=False, natural_only=True),
    )

    # ---- data
    def chunks(self, rows: Array | slice, data: Table) -> list[Any]:
        """All rows at once: what is per datum is little beside the moments of the block."""
        return [rows]

    def batch(self, data: Table, rows: Array | slice, start: Any = None) -> Table:
        """The data themselves."""
        return data

    def parts(self, n: int) -> list[Any]:
        """Rows whose expectations are wanted, some at a time."""
        return [slice(None)]

    # ---- gradients
    def message_shapes(self, n: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """A number each."""
        return (n,), (n,)

    def terms(self, view: dict[str, Any], batch: Table, expect: Any, rng: Any) -> LinearTerms:
        """Per datum gradients, zeros where nothing was observed, and E log p of every part; times their weights."""
        return self.terms_at(view, view["latents"].mean, view["latents"].variance, batch, expect, rng)

    def terms_at(
        self, q: dict[str, Any], mean: Array, variance: Array, batch: Table, expect: Any, rng: Any
    ) -> LinearTerms:
        """`terms` at these moments of the latents, whatever those of q are."""
        likelihood, values = self.current_likelihood(q), []
        alpha, gamma = np.zeros(len(mean)), np.zeros(len(mean))
        for rows in self.parts(len(mean)):
            m = mean[rows] if batch.offset is None else mean[rows] + batch.offset[rows]
            value, slope, bend = expect(likelihood, batch.y[rows], m, variance[rows], rng)
            if batch.weight is not None:
                weight = batch.weight[rows]
                value, slope, bend = value * weight, slope * weight, bend * weight
            alpha[rows], gamma[rows] = slope, bend
            values.append(value.sum())
        return LinearTerms(np.array(values), alpha, gamma, mean)

    def log_likelihood_at(self, q: dict[str, Any], draws: dict[str, Array], batch: Table, expect: Any) -> Array:
        """log p(rows | latents), summed; nothing where nothing was observed."""
        likelihood, f = self.current_likelihood(q), draws["latents"]
        total = np.zeros(len(f))
        for rows in self.parts(len(batch)):
            at = f[:, rows] if batch.offset is None else f[:, rows] + batch.offset[rows]
            weight = None if batch.weight is None else batch.weight[rows]
            total += summed(likelihood.log_prob(batch.y[rows], at), weight)
        return total

    # ---- the mean
    def prior_mean(self, block: Any) -> Array | float:
        """Mean of the latents before any message."""
        return 0.0

    @abstractmethod
    def stepped(self, block: Any, here: MeanTrial) -> tuple[float, Callable[[float], Any]]:
        """A Newton step for the mean at the variances of `block`: what it promises, and the point at a share of it."""

    @abstractmethod
    def with_mean(self, block: Any, point: Any) -> Any:
        """The block with the mean of a point and its own variances."""

    def best_mean(
        self, q: dict[str, Any], prior: Any, data: Any, expect: Any, scale: float, threads: int, steps: int
    ) -> Any:
        """The best mean at these variances: Newton by messages, halved where the objective falls."""
        block = q["latents"]
        variance, centre = block.variance, self.prior_mean(block)

        def at(point: Any) -> MeanTrial:
            terms = self.terms_at(q, point.mean, variance, data, expect, None)
            return MeanTrial(point, float(terms.value.sum()) - 0.5 * float(point.dual @ (point.mean - centre)), terms)

        def propose(here: MeanTrial) -> tuple[float, Callable[[float], MeanTrial]]:
            promised, over = self.stepped(block, here)
            return promised, lambda share: at(over(1.0 / share))

        return self.with_mean(block, newton(at(block), propose).point)


# ---- hyperparameters
#: Share of `tol` to which q settles at each point of the search: its gradient needs the best q.
SETTLED_SHARE = 0.1
#: More evaluations than any search takes: `max_iter` ends it.
MOST_EVALUATIONS = 10_000


class ProfileSearch(ABC):
    """The bound with q settled, as a function of hyperparameters alone; keeps the best q.

    Parameters
    ----------
    fit : Fit
    tol : float
    box : list of (low, high)
        Between what each hyperparameter lies; None: no bound on that side.
    """

    def __init__(self, fit: Fit, tol: float, box: list[tuple[float | None, float | None]]) -> None:
        self.fit, self.tol, self.box = fit, tol, box
        self.low, self.high = np.array(box, dtype=float).T
        #: The best evaluation, with ``q`` and ``bound``.
        self.best: Any = fit.here
        self.flat = self.ended = False
        #: Nats by which q need not settle: of a search that is still far below the best.
        self.slack = 0.0

    @abstractmethod
    def evaluated(self, x: Array) -> tuple[Any, Array]:
        """Evaluation where q has settled at these hyperparameters, and the slope of its bound."""

    @abstractmethod
    def curvature(self, x: Array, slope: Array) -> Array:
        """Minus the second derivatives where q settled last."""

    def look(self, bound: float) -> bool:
        """Tell the fit of one more evaluation over all data; True: the fit must stop."""
        self.ended = self.ended or self.fit.tick(max(bound, self.best.bound))
        return self.ended

    def should_stop(self, value: float, promised: float) -> bool:
        """Whether the search ends after an evaluation: the fit must stop, or no further e-fold promises `tol`."""
        return self.look(self.best.bound) or self.flat

    def enough(self, value: float) -> float:
        """Gain of a window of steps that goes on being worth them, nats."""
        return WINDOW * self.tol * self.fit.size(value)

    def ascend(self, start: Array, stop: Callable[[float, float], bool] | None = None) -> None:
        """Newton's steps from these hyperparameters; those that start outside of their bounds start on them."""
        start = np.minimum(np.maximum(start, self.low), self.high)
        climb(self, self.curvature, start, self.low, self.high, stop or self.should_stop, self.enough)

    def settled(self, q: Blocks) -> Any:
        """Evaluation where steps from q end."""
        loose = self.slack / self.fit.size(self.best.bound)
        return self.fit.settle(q, MOST_EVALUATIONS, max(SETTLED_SHARE * self.tol, loose), self.look)

    def __call__(self, x: Array) -> tuple[float, Array]:
        """Bound and its slope; q starts from the messages of the best hyperparameters so far."""
        here, slope = self.evaluated(x)
        each = zip(slope.tolist(), x.tolist(), self.low.tolist(), self.high.tolist(), strict=True)
        promised = sum(abs(s) for s, at, low, high in each if (at < high if s > 0 else at > low))
        self.flat = promised < self.tol * self.fit.size(here.bound)
        if here.bound > self.best.bound:
            self.best = here
        return here.bound, slope
