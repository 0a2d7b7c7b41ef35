"""The grid: which data each estimator meets, with nothing set but what the data are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from sksvi.testing import simulate_glm, simulate_gp, simulate_intermittent, simulate_mixed, simulate_series
from sksvi.testing.simulations import MEASURED, Effect, Rows, Simulated, draw_targets


@dataclass(frozen=True)
class Cell:
    """Data, estimator and peer; ``family`` gathers the cells that one point of the picture shows."""

    name: str
    family: str
    simulate: Callable[[np.random.Generator], Any]
    estimator: Callable[[], Any]
    repetitions: int
    peer: str | None = None


CLASSIFIED = ("logit", "probit", "softmax")
GLM_PEERS = {
    "gaussian": "BayesianRidge()",
    "student-t": "BayesianRidge()",
    "logit": "LogisticRegression()",
    "probit": "LogisticRegression()",
    "softmax": "LogisticRegression()",
    "poisson": "statsmodels Poisson",
    "negative-binomial": "statsmodels NegativeBinomial",
    "ordinal": "statsmodels OrderedModel",
}


def ours(name: str, **what: Any) -> Callable[[], Any]:
    """An estimator of the library; ``what`` says what the data are."""
    import sksvi

    return lambda: getattr(sksvi, name)(**what)


def glm(likelihood: str, n: int, D: int, effects: Any = "one", design: str = "normal", repetitions: int = 100) -> Cell:
    """A cell of the generalised linear models."""
    what = effects if isinstance(effects, str) else "slope " + ", ".join(f"{value:g}" for value in effects)
    name = f"GLM {likelihood} {n} x {D}, {what}{'' if design == 'normal' else ', ' + design}"
    settings = {"likelihood": likelihood, "effects": effects, "design": design}
    estimator = "BayesianGLMClassifier" if likelihood in CLASSIFIED else "BayesianGLMRegressor"
    return Cell(
        name,
        f"GLM {likelihood}",
        lambda rng: simulate_glm(n, D, random_state=rng, **settings),
        ours(estimator, likelihood=likelihood),
        repetitions,
        None
        if likelihood == "ordinal" and D > 10
        else GLM_PEERS.get(likelihood),  # its search takes a second a fit there
    )


def mixed(likelihood: str, n_groups: int, n_each: int, repetitions: int, **truth: Any) -> Cell:
    """A cell of the mixed models."""
    estimator = "GMEClassifier" if likelihood == "logit" else "GMERegressor"
    effect = truth.get("between")
    name = f"Mixed {likelihood}, {n_groups} x {n_each}" + ("" if effect is None else f", treatment {effect:g}")
    name += f", {len(truth['within'])} null columns" if "within" in truth and not any(truth["within"]) else ""
    peers = {"gaussian": "BayesianRidge()", "logit": "LogisticRegression()", "poisson": "PoissonRegressor()"}
    return Cell(
        name,
        f"Mixed {likelihood}",
        lambda rng: simulate_mixed(n_groups, n_each, likelihood=likelihood, random_state=rng, **truth),
        ours(estimator, groups="group", likelihood=likelihood),
        repetitions,
        peers[likelihood],
    )


def gp(estimator: str, n: int, D: int, repetitions: int, **truth: Any) -> Cell:
    """A cell of the Gaussian processes."""
    labels = estimator.endswith("Classifier")
    what = truth.pop("truth", "rbf")
    settings = {"likelihood": "logit" if labels else "gaussian", "truth": what, **truth}
    return Cell(
        f"{estimator} {n} x {D}, {what}",
        estimator,
        lambda rng: simulate_gp(n, D, random_state=rng, **settings),
        ours(estimator),
        repetitions,
        "GaussianProcessClassifier" if labels else "GaussianProcessRegressor",
    )


#: Units of the columns of a process.
UNITS = np.array([1.0, 300.0, 0.01, 20.0])


def units(estimator: str, n: int, repetitions: int, more: int = 0) -> Cell:
    """A cell of the Gaussian processes with columns in different units; one of four and further ones say nothing."""
    labels = estimator.endswith("Classifier")

    def simulate(rng: np.random.Generator) -> Simulated:
        X = rng.uniform(-1.7, 1.7, (n + 40, len(UNITS) + more))
        f = 2.0 * np.sin(1.5 * X[:, 0]) + X[:, 1] + np.square(X[:, 2]) - 1.0
        y = draw_targets("logit", f, rng) if labels else f + 0.5 * rng.standard_normal(len(f))
        X = np.append(UNITS * X[:, : len(UNITS)], 20.0 * X[:, len(UNITS) :], axis=1)
        ahead, likelihood = {"inside": Rows(X[n:], f[n:], y[n:])}, "logit" if labels else "gaussian"
        return Simulated(X[:n], y[:n], f[:n], likelihood, (), ahead)

    name = f"{estimator} {n} x {len(UNITS) + more}, in different units"
    return Cell(name, estimator, simulate, ours(estimator), repetitions)


def waves(estimator: str, likelihood: str, n: int, D: int, count: int, repetitions: int) -> Cell:
    """A cell of the Gaussian processes with so many waves in every column."""
    amplitude = {"gaussian": 1.0, "poisson": 0.8, "logit": 3.0}[likelihood]

    def simulate(rng: np.random.Generator) -> Simulated:
        X = rng.uniform(size=(n + 40, D))
        f = amplitude * np.prod(np.sin(2.0 * np.pi * count * X), axis=1) + (likelihood == "poisson")
        y = f + 0.3 * rng.standard_normal(len(f)) if likelihood == "gaussian" else draw_targets(likelihood, f, rng)
        return Simulated(X[:n], y[:n], f[:n], likelihood, (), {"inside": Rows(X[n:], f[n:], y[n:])})

    what = {"likelihood": likelihood} if estimator == "SparseGPRegressor" else {}
    name = f"{estimator} {likelihood} {n} x {D}, {count} waves"
    return Cell(name, estimator, simulate, ours(estimator, **what), repetitions)


def crossed(estimator: str, likelihood: str, n: int, repetitions: int) -> Cell:
    """A cell of the Gaussian processes with waves in two of three columns, of normal rows."""

    def simulate(rng: np.random.Generator) -> Simulated:
        X = rng.standard_normal((n + 40, 3))
        f = (2.0 if likelihood == "logit" else 1.0) * np.sin(4.0 * X[:, 0]) * np.cos(2.0 * X[:, 1])
        y = f + 1.2 * rng.standard_normal(len(f)) if likelihood == "gaussian" else draw_targets(likelihood, f, rng)
        return Simulated(X[:n], y[:n], f[:n], likelihood, (), {"inside": Rows(X[n:], f[n:], y[n:])})

    what = {"likelihood": likelihood} if estimator == "SparseGPRegressor" else {}
    name = f"{estimator} {likelihood} {n} x 3, waves in two"
    return Cell(name, estimator, simulate, ours(estimator, **what), repetitions)


def series(likelihood: str, n: int, repetitions: int = 100, **truth: Any) -> Cell:
    """A cell of the series."""
    seasonal = truth.get("seasonal")
    extra = "".join((", seasonal" * bool(seasonal), ", regression" * ("coef" in truth)))
    return Cell(
        f"Series {likelihood}, {n} points{extra}",
        f"Series {likelihood}",
        lambda rng: simulate_series(n, likelihood=likelihood, random_state=rng, **truth),
        ours("DynamicGLM", likelihood=likelihood, **({"seasonal": seasonal} if seasonal else {})),
        repetitions,
        "local level" if likelihood == "gaussian" and not seasonal else None,
    )


def rare(estimator: str, likelihood: str, n: int, D: int, base: float, repetitions: int) -> Cell:
    """A cell of the Gaussian processes with f about so small a constant: few positives, rare counts."""

    def simulate(rng: np.random.Generator) -> Simulated:
        X = rng.uniform(-2.0, 2.0, (n + 40, D))
        f = base + 1.2 * np.sin(1.5 * X[:, 0]) + (0.7 * X[:, 1] if D > 1 else 0.0)
        y = draw_targets(likelihood, f, rng)
        while len(np.unique(y[:n])) < 2:
            y = draw_targets(likelihood, f, rng)
        return Simulated(X[:n], y[:n], f[:n], likelihood, (), {"inside": Rows(X[n:], f[n:], y[n:])})

    what = {"likelihood": likelihood} if estimator == "SparseGPRegressor" else {}
    return Cell(
        f"{estimator} {likelihood} {n} x {D}, about {base:g}", estimator, simulate, ours(estimator, **what), repetitions
    )


#: How the level of a series with an intervention goes on from a point to the next: damping, and variance of a step.
LEVELS = {"walks": (1.0, 0.01), "returns": (0.5, 0.75), "returns slowly": (0.9, 0.19), "stays": (1.0, 0.0)}


def intervention(level: str, n: int, repetitions: int) -> Cell:
    """A cell of the series with a column that is 0 before 70 % of the points and 1 after, beside a level."""
    import pandas as pd

    damping, variance = LEVELS[level]

    def simulate(rng: np.random.Generator) -> Simulated:
        steps, x = np.sqrt(variance) * rng.standard_normal(n + 12), (np.arange(n + 12) >= 0.7 * n) * 1.0
        walk = np.zeros(n + 12)
        for t in range(1, n + 12):
            walk[t] = damping * walk[t - 1] + steps[t]
        f, X = 3.0 + walk + x, pd.DataFrame({"step": x})
        y, effects = f + rng.standard_normal(n + 12), (Effect("step", 1.0, "coefficient"),)
        ahead = {"ahead": Rows(X.iloc[n:], f[n:], y[n:])}
        return Simulated(X.iloc[:n], y[:n], f[:n], "gaussian", effects, ahead)

    name = f"Series gaussian, {n} points, a step beside a level that {level}"
    return Cell(name, "Series gaussian", simulate, ours("DynamicGLM", likelihood="gaussian"), repetitions)


def overdispersed_intervention(level: str, n: int, repetitions: int) -> Cell:
    """The same of counts of a dispersion of 0.5, a mean of about 5 and a walk of variance 0.0025: nothing is set."""
    import pandas as pd

    def simulate(rng: np.random.Generator) -> Simulated:
        x = (np.arange(n + 12) >= 0.7 * n) * 1.0
        walk = np.cumsum(0.05 * (level == "walks") * rng.standard_normal(n + 12))
        f, X = 1.6 + walk + 0.5 * x, pd.DataFrame({"step": x})
        y = rng.poisson(np.exp(f) * rng.gamma(2.0, 0.5, n + 12)).astype(float)
        ahead = {"ahead": Rows(X.iloc[n:], f[n:], y[n:])}
        return Simulated(X.iloc[:n], y[:n], f[:n], "auto", (Effect("step", 0.5, "coefficient"),), ahead)

    name = f"Series of overdispersed counts, {n} points, a step beside a level that {level}"
    return Cell(name, "Series of overdispersed counts", simulate, ours("DynamicGLM"), repetitions)


def glm_cells() -> list[Cell]:
    main = ("gaussian", "logit", "poisson")
    one = [(10, 1, 200), (20, 2, 200), (50, 3, 200), (50, 10, 200), (200, 10, 200), (200, 20, 150), (1000, 10, 100)]
    one += [(1000, 50, 60), (10_000, 20, 40), (50, 100, 60), (200, 50, 100)]
    cells = [glm(name, n, D, "one", repetitions=r) for name in main for n, D, r in one]
    kinds = ("null", "few", "many", "heavy", "dense")
    cells += [glm(name, n, D, kind) for name in main for n, D in ((50, 10), (200, 50)) for kind in kinds]
    designs = [(200, 10, "one", "correlated"), (50, 10, "dense", "correlated"), (200, 10, "few", "rare")]
    cells += [glm(name, *setting) for name in main for setting in designs]
    cells += [glm("gaussian", 10_000, 100, "one", repetitions=10), glm("logit", 10_000, 100, "one", repetitions=10)]
    cells += [glm(name, n, 2, "dense", repetitions=200) for name in ("logit", "ordinal") for n in (20, 50)]
    cells += [glm("logit", n, 2, slopes, repetitions=200) for n, slopes in ((10, (1.0,)), (10, (3.0,)), (20, (3.0,)))]
    cells += [glm("logit", 20, 2, (8.0,)), glm("logit", 10, 1, (8.0,))]  # labels that the column separates
    for name in ("probit", "negative-binomial", "student-t", "ordinal"):
        cells += [glm(name, n, D, "one") for n, D in ((21, 3), (50, 10), (200, 10), (1000, 20))]
        cells += [glm(name, 50, 10, "dense"), glm(name, 50, 100, "one", repetitions=40)]
    for name in MEASURED:
        cells += [glm(name, n, D, "one") for n, D in ((21, 3), (50, 10), (200, 10))] + [glm(name, 50, 10, "dense")]
    cells += [glm("softmax", each * 2 * (D + 1), D, "one") for each in (5, 30) for D in (2, 8)]
    cells += [glm("softmax", each * 2 * 4, 3, (1.0, -1.0)) for each in (5, 30)]
    cells += [glm("ordinal", each * (D + 3), D, (1.0, -1.0)) for each in (5, 30) for D in (3,)]
    cells += [glm("negative-binomial", n, 2, "one", "factor") for n in (80, 300)]
    tails = [("logit", 150), ("logit", 1000), ("ordinal", 150), ("ordinal", 1000)]
    cells += [glm(name, n, D, (0.3,), "log-normal") for name, n in tails for D in (1, 3)]
    return cells


def mixed_cells() -> list[Cell]:
    cells = [mixed(name, 20, 30, 80, between=b) for name in ("gaussian", "logit") for b in (0.0, 0.5, 1.0, 2.0)]
    cells += [mixed("poisson", 20, 30, 60, between=1.0), mixed("gaussian", 20, 30, 60, between=1.0, within=(0.0,) * 10)]
    strong = {"within": (0.5, -0.3), "between": None}
    for name, sizes in {
        "gaussian": ((3, 20, 100), (5, 20, 100), (10, 10, 100), (30, 6, 80), (100, 5, 40), (500, 4, 15)),
        "logit": ((5, 20, 100), (10, 10, 100), (30, 5, 80), (100, 2, 40), (500, 3, 15)),
        "poisson": ((3, 20, 60), (10, 10, 60), (30, 6, 40), (500, 3, 8)),
    }.items():
        cells += [mixed(name, n, each, r, std=0.7, **strong) for n, each, r in sizes]
    return cells


def gp_cells() -> list[Cell]:
    regressor, classifier, sparse = "SparseGPRegressor", "GPClassifier", "SparseGPClassifier"
    cells = [gp(regressor, n, D, r) for n, D, r in ((20, 1, 80), (20, 2, 80), (50, 2, 80), (100, 2, 60), (300, 2, 15))]
    cells += [gp(regressor, 100, 2, 40, truth="matern"), gp(regressor, 30, 2, 80, truth="additive", noise=0.5)]
    cells += [gp(regressor, 100, 8, 30, truth="additive", noise=0.5)]
    cells += [gp(classifier, n, 2, r, amplitude=a) for n, r, a in ((30, 80, 2.0), (100, 60, 4.0), (300, 15, 4.0))]
    cells += [gp(sparse, n, 2, r, amplitude=a) for n, r, a in ((30, 60, 2.0), (100, 40, 4.0))]
    sizes = ((120, 1, 10), (300, 1, 10), (1000, 1, 10), (500, 2, 3))
    cells += [waves(regressor, "gaussian", n, D, count, 40) for n, D, count in sizes]
    cells.append(waves(regressor, "poisson", 300, 1, 15, 40))
    cells += [waves(one, "logit", 400, 1, 8, 40) for one in (classifier, sparse)]
    cells += [crossed(regressor, name, n, 20) for name in ("gaussian", "poisson") for n in (1000, 2500)]
    cells += [crossed(one, "logit", 1000, 20) for one in (classifier, sparse)]
    cells += [units(one, n, 60) for one in (regressor, classifier, sparse) for n in (60, 200)]
    cells += [units(one, 200, 40, 8) for one in (regressor, classifier, sparse)]
    cells += [rare(one, "logit", n, 2, -3.0, 60) for one in (classifier, sparse) for n in (200, 600)]
    return cells + [rare(regressor, "poisson", n, 2, -2.5, 60) for n in (100, 300)]


def series_cells() -> list[Cell]:
    cells = [series(name, n, 200 if n < 200 else 100) for name in ("gaussian", "poisson") for n in (10, 20, 50, 200)]
    cells += [series(name, n, coef=0.4) for name in ("gaussian", "poisson") for n in (20, 50, 200)]
    cells += [series(name, 48, 60, seasonal=12, level_variance=0.02) for name in ("gaussian", "poisson")]
    cells += [intervention(level, 100, 200) for level in LEVELS]
    cells += [overdispersed_intervention(level, 150, 200) for level in ("walks", "stays")]
    for name in ("poisson", "negative-binomial"):
        estimator = ours("DynamicGLM", likelihood=name)
        title = f"Intermittent demand, {name}, 208 points"
        r = 200 if name == "poisson" else 40
        cells.append(
            Cell(title, "Intermittent demand", lambda rng: simulate_intermittent(random_state=rng), estimator, r)
        )
    return cells


def cells() -> list[Cell]:
    """All cells; their names differ."""
    return [*glm_cells(), *mixed_cells(), *gp_cells(), *series_cells()]
