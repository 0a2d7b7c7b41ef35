"""Table 5 of the CVI paper: Gamma matrix factorization without auxiliary counts, by natural steps and by Adam.

Both climb the same bound with the same draws a step, all numbers of both factors at once, from the same start; the
bound is measured with draws of its own. Beside them auxiliary counts, whose bound is another. On the digits of
scikit-learn, and on rows of MNIST at its 784 pixels with the paper's 100 components and 10 draws.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks._lib import Array
from benchmarks._lib.tables import arguments, progress, report
from benchmarks.nmf.poisson import counts, known_of
from sksvi.algorithms.specs import CVI
from sksvi.algorithms.steps import natural_step
from sksvi.families import Gamma, NotPositiveDefinite
from sksvi.inference import plan
from sksvi.inference.start import first_state
from sksvi.models.nmf.cells import cells, from_groups, table
from sksvi.models.nmf.poisson import ROW_RATE, GammaPoisson, TightGammaPoisson

#: Rates of natural steps, and of Adam in log shape and log rate.
NATURAL, ADAM = (0.1, 0.2, 0.5), (0.01, 0.03, 0.1)
#: Largest count of a pixel of MNIST, and its test images whose reconstruction is judged.
WHITE, JUDGED = 255.0, 200
EVERYWHERE = (
    "Priors Gamma(0.3, learned by auxiliary counts). Every run starts where auxiliary counts are after one pass from "
    "k-means. Seconds: CPU, of all iterations so far, measuring left out. auxiliary: the conjugate updates, whose "
    "bound is below the other at the same q; tight there: the bound without auxiliary counts at the same iterate. "
    "Steps of components that would leave the domain are shortened number by number."
)


@dataclass(frozen=True)
class Setting:
    """One data set of the comparison, how it is run, and what its table says."""

    name: str
    stored: str
    title: str
    note: str
    K: int
    draws: int
    rows: int
    checked: tuple[int, ...]
    natural: tuple[float, ...]
    adam: tuple[float, ...]


SETTINGS = (
    Setting(
        "digits",
        "nmf/table5",
        "Gamma matrix factorization: natural steps and Adam",
        "Bound, nats, at iterations of all 1,437 digits with 20 components and 16 draws.",
        K=20,
        draws=16,
        rows=1437,
        checked=(1, 3, 10, 30, 100, 200),
        natural=NATURAL,
        adam=ADAM,
    ),
    Setting(
        "mnist",
        "nmf/table5_mnist",
        "Gamma matrix factorization of MNIST: natural steps and Adam",
        "Bound, nats, at iterations of 1,000 images of MNIST's 60,000, drawn at random, 784 pixels, 100 components and "
        "10 draws as in the paper, which has all images and 2,500 iterations: rows and iterations are what 25 minutes "
        "of one core allow; one start, one stream of draws. test loss: mean squared error of a pixel in [0, 1] of 200 "
        "test images at the posterior means, their activations fitted to all of their pixels by auxiliary counts.",
        K=100,
        draws=10,
        rows=1000,
        checked=(1, 3, 10, 30, 100, 300),
        natural=(0.1, 0.2),
        adam=(0.03, 0.1),
    ),
)


@dataclass
class Where:
    """Both factors: components, and (n1, c) of rows; the seconds that they took."""

    q: dict[str, Any]
    local: Array
    seconds: float = 0.0


class Run:
    """Gradients and bounds of one data set."""

    def __init__(self, X: Any, test: Any, K: int, draws: int) -> None:
        found = cells(X)
        self.data, self.n, self.K, self.test = table(found), X.shape[0], K, test
        options = {"mean": found.mean / K, "start": from_groups(found, K, 0)}
        self.auxiliary, self.model = (cls(K, X.shape[1], **options) for cls in (GammaPoisson, TightGammaPoisson))
        self.model = self.model.replaced(n_draws=draws)
        problem = plan.problem(self.auxiliary, self.data, CVI())
        settled = plan.run(problem, first_state(problem, 0), 200, 1e-4)
        self.rates = {name: settled.q[name] for name in ("activation_rate", "component_rate")}
        first = plan.run(problem, first_state(problem, 0), 1, 0.0)
        local = np.concatenate([first.locals.values, np.zeros((self.n, self.K))], 1)
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

    def measured(self, at: Where) -> dict[str, float]:
        """Bound, and where there are test rows the error of their reconstruction."""
        if self.test is None:
            return {"bound": self.bound(at)}
        known = known_of(self.test, np.ones(self.test.shape[1], bool))
        shape, rate = self.auxiliary.rows(at.q, known, 1)  # type: ignore[arg-type]
        error = (self.test.toarray() - (shape / rate) @ at.q["components"].mean) / WHITE
        return {"bound": self.bound(at), "test loss": float(np.mean(np.square(error)))}

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
            own = float(np.exp(self.rates["activation_rate"].value[0])) + np.broadcast_to(
                W.mean.sum(1), (self.n, self.K)
            )
            H = Gamma(b + at.local[:, : self.K], own * (1.0 - at.local[:, self.K :]))
            gradient_h = np.stack([said[:, : self.K], own * said[:, self.K :]], -1)
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
            rows.append({"method": method, "iteration": t + 1, "CPU seconds": at.seconds, **run.measured(at)})
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
        local = np.concatenate([state.locals.values, np.zeros((run.n, run.K))], 1)
        made = {"method": "auxiliary", "iteration": passes, "CPU seconds": seconds}
        tight = run.measured(Where({**state.q, **run.rates}, local))
        rows.append({**made, **tight, "bound": state.bound, "tight there": tight["bound"]})
        progress(rows[-1])
    return rows


def compared(setting: Setting, quick: bool) -> None:
    """The table of one data set."""
    train, test, _ = counts(setting.name)
    order = (
        np.arange(setting.rows) if setting.name == "digits" else np.random.default_rng(0).permutation(train.shape[0])
    )
    train = train[np.sort(order[: 100 if quick else setting.rows])]
    run = Run(train, test[: 20 if quick else JUDGED] if setting.name == "mnist" else None, setting.K, setting.draws)
    checked, notes = (1, 3) if quick else setting.checked, [setting.note, EVERYWHERE]
    rows = auxiliary(run, checked)
    rates = (setting.natural[:1], setting.adam[:1]) if quick else (setting.natural, setting.adam)
    steps = [(f"CVI, rate {rate:g}", run.natural(rate)) for rate in rates[0]]
    steps += [(f"Adam, rate {rate:g}", run.adam(rate)) for rate in rates[1]]
    for method, step in steps:
        rows += followed(run, method, step, checked)
        report(setting.stored, setting.title, rows, notes, quick)


def main(quick: bool = False) -> None:
    for setting in SETTINGS[:1] if quick else SETTINGS:
        compared(setting, quick)


if __name__ == "__main__":
    main(arguments(__doc__))
