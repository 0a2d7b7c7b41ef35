"""Table 5 of the CVI paper: Gamma matrix factorization without auxiliary counts, by natural steps and by Adam.

Both climb the same bound with the same draws a step, all numbers of both factors at once, from the same start; the
bound is measured with draws of its own. Beside them auxiliary counts, whose bound is another.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks._lib import Array
from benchmarks._lib.tables import arguments, progress, report
from benchmarks.nmf.poisson import counts
from sksvi.algorithms.specs import CVI
from sksvi.algorithms.steps import natural_step
from sksvi.families import Gamma, NotPositiveDefinite
from sksvi.inference import plan
from sksvi.inference.start import first_state
from sksvi.models.nmf.cells import cells, from_groups, table
from sksvi.models.nmf.poisson import ROW_RATE, GammaPoisson, TightGammaPoisson

K, CHECKED = 20, (1, 3, 10, 30, 100, 200)
#: Rates of natural steps, and of Adam in log shape and log rate.
NATURAL, ADAM = (0.1, 0.2, 0.5), (0.01, 0.03, 0.1)
TITLE = "Gamma matrix factorization: natural steps and Adam"
NOTES = [
    "Bound, nats, at iterations of all 1,437 digits with 20 components and 16 draws; priors Gamma(0.3, learned by "
    "auxiliary counts). Every run starts where auxiliary counts are after one pass from k-means. Seconds: CPU, of all "
    "iterations so far, measuring left out. auxiliary: the conjugate updates, whose bound is below the other at the "
    "same q; tight there: the bound without auxiliary counts at the same iterate. Steps of components that would leave "
    "the domain are shortened number by number."
]


@dataclass
class Where:
    """Both factors: components, and (n1, c) of rows; the seconds that they took."""

    q: dict[str, Any]
    local: Array
    seconds: float = 0.0


class Run:
    """Gradients and bounds of one data set."""

    def __init__(self, X: Any) -> None:
        found = cells(X)
        self.data, self.n = table(found), X.shape[0]
        options = {"mean": found.mean / K, "start": from_groups(found, K, 0)}
        self.auxiliary, self.model = (cls(K, X.shape[1], **options) for cls in (GammaPoisson, TightGammaPoisson))
        problem = plan.problem(self.auxiliary, self.data, CVI())
        settled = plan.run(problem, first_state(problem, 0), 200, 1e-4)
        self.rates = {name: settled.q[name] for name in ("activation_rate", "component_rate")}
        first = plan.run(problem, first_state(problem, 0), 1, 0.0)
        local = np.concatenate([first.locals.values, np.zeros((self.n, K))], 1)
        self.start = Where({**first.q, **self.rates}, local)

    def look(self, at: Where, seed: tuple[int, ...]) -> tuple[Any, Any]:
        """Terms and gradient at a place."""
        rngs = [np.random.default_rng([*seed, i]) for i in range(2)]
        view = self.model.view(at.q, rngs[0])
        batch = self.model.batch(self.data, np.arange(self.n), at.local)
        terms = self.model.terms(view, batch, None, rngs[1])
        return terms, self.model.pull_back(terms, batch)["components"]

    def bound(self, at: Where) -> float:
        """The bound without auxiliary counts, by draws of its own."""
        kl = at.q["components"].kl(self.model.prior(at.q)["components"])
        return float(np.mean([self.look(at, (9, i))[0].value.sum() for i in range(3)]) - kl)

    def natural(self, rate: float) -> Any:
        """Steps of CVI; rows at the rate too."""

        def step(at: Where, t: int) -> None:
            terms, gradient = self.look(at, (1, t))
            said = (terms.local - (1.0 - ROW_RATE) * at.local) / ROW_RATE
            at.local = (1.0 - rate) * at.local + rate * said
            W, prior = at.q["components"], self.model.prior(at.q)["components"]
            at.q["components"] = natural_step(W, prior, W.in_domain(prior, gradient, rate), rate)

        return step

    def adam(self, rate: float) -> Any:
        """Steps of Adam on log shape and log rate of both factors."""
        memory: dict[str, Any] = {}

        def moved(name: str, block: Gamma, slope: Array, t: int) -> Gamma:
            mean, square = memory.get(name, (0.0, 0.0))
            mean, square = 0.9 * mean + 0.1 * slope, 0.999 * square + 0.001 * np.square(slope)
            memory[name] = mean, square
            unbiased = mean / (1 - 0.9 ** (t + 1)), square / (1 - 0.999 ** (t + 1))
            return block.at(block.standard_values + rate * unbiased[0] / (np.sqrt(unbiased[1]) + 1e-8))

        def step(at: Where, t: int) -> None:
            terms, gradient = self.look(at, (1, t))
            said = (terms.local - (1.0 - ROW_RATE) * at.local) / ROW_RATE
            W, b = at.q["components"], self.model.activation_shape
            own = float(np.exp(self.rates["activation_rate"].value[0])) + np.broadcast_to(W.mean.sum(1), (self.n, K))
            H = Gamma(b + at.local[:, :K], own * (1.0 - at.local[:, K:]))
            gradient_h = np.stack([said[:, :K], own * said[:, K:]], -1)
            H = moved("rows", H, H.standard_gradient(Gamma(np.full(own.shape, b), own), (gradient_h,)), t)
            slope = W.standard_gradient(self.model.prior(at.q)["components"], gradient)
            at.q["components"] = moved("components", W, slope, t)
            now = own - W.mean.sum(1) + at.q["components"].mean.sum(1)
            at.local = np.concatenate([H.shape - b, 1.0 - H.rate / now], 1)

        return step


def followed(run: Run, method: str, step: Any, checked: tuple[int, ...]) -> list[dict[str, Any]]:
    """The bound where it is measured, until it is no number."""
    at, rows = Where(dict(run.start.q), run.start.local.copy()), []
    for t in range(max(checked)):
        start = time.process_time()
        try:
            step(at, t)
        except NotPositiveDefinite:
            return [*rows, {"method": f"{method}: left the domain", "iteration": t + 1, "CPU seconds": at.seconds}]
        at.seconds += time.process_time() - start
        if t + 1 in checked:
            rows.append({"method": method, "iteration": t + 1, "CPU seconds": at.seconds, "bound": run.bound(at)})
            progress(rows[-1])
    return rows


def auxiliary(run: Run, checked: tuple[int, ...]) -> list[dict[str, Any]]:
    """Their own bound, and the other at the same q."""
    rows = []
    for passes in checked:
        problem = plan.problem(run.auxiliary, run.data, CVI(), frozen=frozenset(run.rates))
        start = time.process_time()
        state = plan.run(problem, first_state(problem, 0), passes, 0.0)
        seconds = time.process_time() - start
        local = np.concatenate([state.locals.values, np.zeros((run.n, K))], 1)
        made = {"method": "auxiliary", "iteration": passes, "CPU seconds": seconds, "bound": state.bound}
        rows.append({**made, "tight there": run.bound(Where({**state.q, **run.rates}, local))})
        progress(rows[-1])
    return rows


def main(quick: bool = False) -> None:
    train = counts("digits")[0]
    run, checked = Run(train[:100] if quick else train), (1, 3) if quick else CHECKED
    rows = auxiliary(run, checked)
    for rate in NATURAL[1:2] if quick else NATURAL:
        rows += followed(run, f"CVI, rate {rate:g}", run.natural(rate), checked)
        report("nmf/table5", TITLE, rows, NOTES, quick)
    for rate in ADAM[1:2] if quick else ADAM:
        rows += followed(run, f"Adam, rate {rate:g}", run.adam(rate), checked)
        report("nmf/table5", TITLE, rows, NOTES, quick)


if __name__ == "__main__":
    main(arguments(__doc__))
