"""95 % intervals of additive curves of simulated truths, pointwise at the rows, by SmoothTransformer beside mgcv.

The curves are those of gamSim(1) of mgcv (Gu and Wahba's), one of them null, with noise of standard deviation 2.
Surfaces are that of gamSim(2) (Wood's), with noise of standard deviation 0.1, and waves in both directions, with noise
of 0.5, fitted as s(x) + s(z) + ti(x, z).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from benchmarks._lib import Array
from benchmarks._lib.tables import arguments, progress, report
from sksvi import BayesianGLMRegressor
from sksvi.preprocessing import SmoothTransformer

SETS, Z = 200, 1.959964
ALL = "f0 + f1 + f2 + f3"
CURVES = {"f2": ["x2"], ALL: ["x0", "x1", "x2", "x3"]}
#: Standard deviation of the noise.
NOISE = {"f2": 2.0, ALL: 2.0, "surface": 0.1, "sin 9x sin 9z": 0.5}
#: Rows fitted; as many are held out.
SIZES = {"f2": (100, 400), ALL: (400,), "surface": (400,), "sin 9x sin 9z": (400,)}
PRIORS: dict[str, Callable[[list[str]], Any]] = {
    "auto": lambda terms: "auto",
    '{"x_s*": "auto", ...}': lambda terms: {f"{term}_s*": "auto" for term in terms},
}
#: Of 200 sets of 400 rows: mgcv 1.8-41 in R 4.2.2, gam(y ~ s(x0) + s(x1) + s(x2) + s(x3), method = "REML"), intervals
#: of the posterior at its smoothing parameters, and `unconditional = TRUE`, which adds what these may be off.
MGCV = {"mgcv": 0.939, "mgcv, unconditional": 0.9496}
MGCV_ERROR = 0.0028


def curves(X: Array) -> dict[str, Array]:
    """The four curves of gamSim(1) at rows of (0, 1)."""
    x0, x1, x2, x3 = X.T
    bumps = 0.2 * x2**11 * (10.0 * (1.0 - x2)) ** 6 + 10.0 * (10.0 * x2) ** 3 * (1.0 - x2) ** 10
    return {"x0": 2.0 * np.sin(np.pi * x0), "x1": np.exp(2.0 * x1), "x2": bumps, "x3": np.zeros_like(x3)}


def surface(X: Array) -> Array:
    """The surface of gamSim(2) at rows of (0, 1)."""
    x, z = X.T
    low = np.exp(-(((x - 0.2) / 0.3) ** 2) - ((z - 0.3) / 0.4) ** 2)
    high = np.exp(-(((x - 0.7) / 0.3) ** 2) - ((z - 0.8) / 0.4) ** 2)
    return np.pi**0.3 * 0.4 * (1.2 * low + 0.8 * high)


SURFACES: dict[str, Callable[[Array], Array]] = {
    "surface": surface,
    "sin 9x sin 9z": lambda X: np.prod(np.sin(9.0 * X), axis=1),
}


def drawn(truth: str, n: int, rng: np.random.Generator) -> tuple[pd.DataFrame, Array, Array]:
    """Rows, f and y."""
    if truth in SURFACES:
        table = pd.DataFrame(rng.random((n, 2)), columns=["x", "z"])
        f = SURFACES[truth](table.to_numpy())
    else:
        X = rng.random((n, 4))
        parts = curves(X)
        table = pd.DataFrame(X, columns=list(parts))[CURVES[truth]]
        f = np.sum([parts[name] for name in CURVES[truth]], axis=0)
    return table, f, f + NOISE[truth] * rng.standard_normal(n)


def one(truth: str, n: int, prior: Callable[[list[str]], Any], rng: np.random.Generator) -> dict[str, float]:
    """What a fit to one set holds and says."""
    table, f, y = drawn(truth, 2 * n, rng)
    began = time.process_time()
    terms, kinds = list(table), [False]
    if truth in SURFACES:
        terms, kinds = [*terms, "x:z"], [False, True]
    smooths = [SmoothTransformer(interaction=kind).set_output(transform="pandas").fit(table[:n]) for kind in kinds]
    design = pd.concat([smooth.transform(table) for smooth in smooths], axis=1)
    model = BayesianGLMRegressor(prior_precision=prior(terms)).fit(design[:n], y[:n])
    seconds = time.process_time() - began
    mean, variance = model.predict_latent(design[:n])
    return {
        "covers": float(np.mean(np.abs(mean - f[:n]) <= Z * np.sqrt(variance))),
        "width": float(np.mean(2.0 * Z * np.sqrt(variance))),
        "rmse of f": float(np.sqrt(np.mean(np.square(mean - f[:n])))),
        "held-out log density": float(np.mean(model.log_predictive_density(design[n:], y[n:]))),
        "CPU s": seconds,
    }


def run(truth: str, n: int, prior: str, sets: int, seed: int = 0) -> dict[str, Any]:
    """The row of some curves under a prior: means over sets, and the standard error of the cover."""
    found = pd.DataFrame(
        [one(truth, n, PRIORS[prior], np.random.default_rng([seed, n, number])) for number in range(sets)]
    )
    row = {"curves": truth, "rows": n, "prior_precision": prior, "sets": sets, "covers": found["covers"].mean()}
    row |= {"se": found["covers"].std(ddof=1) / np.sqrt(sets)}
    row |= {name: found[name].mean() for name in ("width", "rmse of f", "held-out log density")}
    return {**row, "CPU s": found["CPU s"].median()}


def main(quick: bool = False) -> None:
    rows: list[dict[str, Any]] = []
    for truth in SIZES:
        for n in SIZES[truth]:
            for prior in PRIORS:
                rows.append(run(truth, n, prior, 4 if quick else SETS))
                progress(rows[-1])
    last = {"curves": ALL, "rows": 400, "sets": 200, "se": MGCV_ERROR}
    rows += [{**last, "prior_precision": name, "covers": share} for name, share in MGCV.items()]
    notes = [
        "Shares of the rows of the fit at whose x the 95 % interval of f holds the truth, means over sets with their "
        "standard error. The figures of mgcv are stored, of 200 sets of its own."
    ]
    report("truth/smooths", "Intervals of additive curves", rows, notes, quick)


if __name__ == "__main__":
    main(arguments(__doc__))
