"""Fixed batch sizes, all rows, and a batch that grows by itself: bound, time and coverage on data of known truth.

Factorizations of 200 x 150 matrices, half of the cells seen, rank 3, of measured, binary and counted entries, and
generalized linear models of 10,000 rows and 20 columns. Every method stops by its own rule (``tol=1e-4``) or after 100
passes. The growing batch is that of `benchmarks.factorization._growing`, no option of the package. Cover: of the true
latents of the cells that were not seen by the posterior's mean ± 1.645 standard deviations, and of the true
coefficients.
"""

from __future__ import annotations

import warnings
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks._lib import Array
from benchmarks._lib.cells import by_cells
from benchmarks._lib.measures import inside
from benchmarks._lib.tables import arguments
from benchmarks._lib.timing import Clock
from benchmarks.factorization._growing import growing

SEEDS, PASSES = 3, 100
#: The batch that grows begins with this many rows, or entries of a plate.
FIRST = {"GeneralizedPMF": 16, "BayesianGLM": 32}


@dataclass(frozen=True)
class Case:
    """Data of known truth, by seed, and batch sizes beside all rows and the growing one."""

    name: str
    model: str
    likelihood: str
    sizes: tuple[int, ...]
    n_seeds: int = SEEDS
    shape: tuple[int, int, int] = (200, 150, 3)
    observed: float = 0.5
    algorithms: tuple[str, ...] = ("mc-ssvi", "h-mc-ssvi", "s-dsvi")


#: Where the third, the slowest to its end, is left out.
TWO = ("mc-ssvi", "h-mc-ssvi")
CASES = [
    Case("Gaussian", "GeneralizedPMF", "gaussian", (16, 64)),
    Case("Bernoulli", "GeneralizedPMF", "logit", (16, 64)),
    Case("counts", "GeneralizedPMF", "poisson-softplus", (16, 64)),
    Case("Bernoulli", "BayesianGLM", "logit", (32, 256, 2048), shape=(10_000, 20, 0), algorithms=TWO),
    Case("counts", "BayesianGLM", "poisson", (32, 256, 2048), shape=(10_000, 20, 0), algorithms=TWO),
]


def factorized(case: Case, seed: int) -> tuple[Any, Any, Any]:
    """Estimator, its data, and a function of the fit that says how often it holds the truth."""
    from sksvi import GeneralizedPMF
    from sksvi.datasets import make_pmf

    n_users, n_items, k = case.shape
    made = make_pmf(
        n_users, n_items, k, likelihood=case.likelihood, observed=case.observed,
        user_variance=0.7, item_variance=0.7, random_state=seed,
    )  # fmt: skip
    pairs, truth = np.asarray(made.data), made.user_factors @ made.item_factors.T
    seen = np.zeros(truth.shape, bool)
    seen[pairs[:, 0], pairs[:, 1]] = True
    cells = np.argwhere(~seen)

    def cover(model: Any) -> float:
        mean, variance = model.predict_latent(cells)
        return inside(truth[tuple(cells.T)] - mean, np.sqrt(variance))

    return (
        GeneralizedPMF(k, likelihood=case.likelihood, biases=False, uncertainty="variational", random_state=seed),
        (pairs, made.target),
        cover,
    )


def regressed(case: Case, seed: int) -> tuple[Any, Any, Any]:
    """The same of a generalized linear model."""
    from sksvi import BayesianGLMRegressor
    from sksvi.datasets import make_glm

    n, d, _ = case.shape
    X, y, truth = make_glm(n, d, likelihood=case.likelihood, coef=True, random_state=seed)

    def cover(model: Any) -> float:
        return inside(np.ravel(truth) - model.coef_, model.coef_std_)

    # At a point, so that the bound is that of q and not of nodes about its hyperparameters.
    own = BayesianGLMRegressor(likelihood=case.likelihood, hyperparameters="point", random_state=seed)
    return own, (X, y), cover


def fit(case: Case, algorithm: str, batch: int | str | None, seed: int) -> dict[str, Any]:
    """One fit: its bound, cover, CPU seconds, passes and whether it stopped by itself."""
    model, data, cover = (factorized if case.model == "GeneralizedPMF" else regressed)(case, seed)
    grows = batch == "growing"
    model.set_params(algorithm=algorithm, batch_size=FIRST[case.model] if grows else batch, max_iter=PASSES)
    with warnings.catch_warnings(), growing() if grows else nullcontext(), Clock() as clock:
        warnings.simplefilter("ignore")  # of fits that have not converged
        model.fit(*data)
    found = {"bound": model.lower_bound_, "cover": cover(model), "CPU seconds": clock.cpu}
    return found | {"passes": float(model.n_iter_), "stopped": float(model.converged_)}


def run(case: Case, algorithm: str, quick: bool) -> list[dict[str, Any]]:
    """A line per batch size: means and standard deviations over the seeds."""
    methods: list[int | str | None] = [*case.sizes, None, "growing"]
    runs = {b: [fit(case, algorithm, b, seed) for seed in range(1 if quick else case.n_seeds)] for b in methods}
    best = np.max([[run["bound"] for run in own] for own in runs.values()], axis=0)
    return [row_of(case, batch, own, best) for batch, own in runs.items()]


def row_of(case: Case, batch: Any, runs: list[dict[str, Any]], best: Array) -> dict[str, Any]:
    columns = {
        "below the best": best - [run["bound"] for run in runs],
        "cover of 90 %": np.array([run["cover"] for run in runs]),
        "CPU seconds": np.array([run["CPU seconds"] for run in runs]),
    }
    label = {None: "all", "growing": f"growing from {FIRST[case.model]}"}.get(batch, str(batch))
    row = {"batch": label, "seeds": len(runs)}
    for name, values in columns.items():
        row[name] = float(f"{values.mean():.3g}")
        row[f"sd of {name}"] = float(f"{values.std(ddof=1):.2g}") if len(values) > 1 else None
    row["passes"] = float(np.mean([run["passes"] for run in runs]))
    row["stopped by itself"] = float(np.mean([run["stopped"] for run in runs]))
    return row


def main(quick: bool = False) -> None:
    cases = [small(case) for case in (CASES[1], CASES[3])] if quick else CASES
    of = {(case.model, case.name, name): case for case in cases for name in case.algorithms[: 1 if quick else None]}
    cells = [dict(zip(("model", "data", "algorithm"), cell, strict=True)) for cell in of]
    by_cells(
        "factorization/batch_sizes",
        "Batch sizes, fixed and growing",
        cells,
        lambda cell: run(of[tuple(cell.values())], cell["algorithm"], quick),
        NOTES,
        quick,
    )


def small(case: Case) -> Case:
    """A case of few rows."""
    if case.model == "GeneralizedPMF":
        return Case(case.name, case.model, case.likelihood, (8,), 1, (30, 20, 2), 0.8)
    return Case(case.name, case.model, case.likelihood, (64,), 1, (800, 4, 0))


NOTES = [
    "Batch: entries of each user, then item, in a step (of 75 and 100 on average), or rows of a linear "
    "model. Below the best: nats that the bound at the end, of all rows and without noise, is below the best of the "
    "same algorithm, data and seed. Standard deviations are between seeds. Passes of a growing batch are those on all "
    "its sizes. Stopped by itself: share of fits that did, the others after 100 passes."
]


if __name__ == "__main__":
    main(arguments(__doc__))
