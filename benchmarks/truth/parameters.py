"""Learned parameters of a likelihood that coefficients follow: what 90 % intervals of both hold with nothing set.

One column of slope 0.5 (levels: 2.5). Times of which a share has its event before the end, measurements below a limit
in a share, zeros that are no counts beside small ones, levels of a strong effect; at once, or as a stream. Counted are
the rows of `summary()`; `SKSVI_CELLS="weibull"` runs only the cells whose names begin so.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from benchmarks._lib.cells import AGAIN, stored_rows
from benchmarks._lib.tables import arguments, progress, report
from benchmarks._lib.timing import median

SETS = 60
#: End of the name of a cell whose rows come as a stream, and rows of a chunk.
STREAMED, CHUNK = ", in chunks of 50", 50
Simulation = Callable[[np.ndarray, np.random.Generator], Any]
ERRORS: dict[str, Callable[[np.random.Generator, int], np.ndarray]] = {
    "weibull": lambda rng, n: np.log(rng.weibull(1.5, n)),
    "log-normal": lambda rng, n: 0.7 * rng.standard_normal(n),
    "log-logistic": lambda rng, n: rng.logistic(0.0, 0.5, n),
}
CUTS = (-4.0, -2.0, 0.0, 2.0, 4.0)
SCALES = {"weibull": 1 / 1.5, "log-normal": 0.7, "log-logistic": 0.5}


def times(likelihood: str, end: float) -> Simulation:
    """Times that are censored at one end."""

    def simulated(x: np.ndarray, rng: np.random.Generator) -> pd.DataFrame:
        found = np.exp(1.0 + 0.5 * x + ERRORS[likelihood](rng, len(x)))
        return pd.DataFrame({"time": np.minimum(found, end), "event": found <= end})

    return simulated


def below(limit: float) -> Simulation:
    """Measurements of which those below a limit are not seen."""

    def simulated(x: np.ndarray, rng: np.random.Generator) -> pd.DataFrame:
        value = 1.0 + 0.5 * x + rng.standard_normal(len(x))
        return pd.DataFrame({"lower": np.where(value < limit, -np.inf, value), "upper": np.maximum(value, limit)})

    return simulated


def zeros(log_mean: float, dispersion: float, share: float) -> Simulation:
    """Counts with zeros that are none."""

    def simulated(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        rate = np.exp(log_mean + 0.5 * x)
        if dispersion:
            rate = rate * rng.gamma(1.0 / dispersion, dispersion, len(x))
        return rng.poisson(rate) * (rng.random(len(x)) >= share)

    return simulated


def levels(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Six ordered levels that a column tells apart."""
    return np.digitize(2.5 * x + rng.logistic(size=len(x)), CUTS)


def cells() -> list[tuple[str, str, int, Simulation, dict[str, float]]]:
    """Name, likelihood, rows, simulation, and the truth by the rows of a summary."""
    found: list[tuple[str, str, int, Simulation, dict[str, float]]] = []
    for likelihood, n, end in [
        ("weibull", 100, 0.6),
        ("weibull", 1000, 0.6),
        ("log-normal", 100, 1.0),
        ("log-logistic", 100, 1.0),
    ]:
        truth = {"x": 0.5, "intercept": 1.0, "scale": SCALES[likelihood]}
        found.append((f"{likelihood}, end {end:g}, {n} rows", likelihood, n, times(likelihood, end), truth))
    truth = {"x": 0.5, "intercept": 1.0, "std(residual)": 1.0}
    found += [(f"gaussian, 0.8 below, {n} rows", "gaussian", n, below(2.0), truth) for n in (100, 500)]
    truth = {"x": 0.5, "intercept": -0.7, "odds(zero)": 0.3 / 0.7}
    name = "zero-inflated-poisson"
    found.append((f"{name}, mean 0.5, 2000 rows", name, 2000, zeros(-0.7, 0.0, 0.3), truth))
    truth = {"x": 0.5, "intercept": 0.0, "odds(zero)": 0.3 / 0.7, "dispersion": 1.0}
    name = "zero-inflated-negative-binomial"
    found.append((f"{name}, 500 rows", name, 500, zeros(0.0, 1.0, 0.3), truth))
    cuts = {f"cut_points[{k}]": cut for k, cut in enumerate(CUTS)}
    found += [(f"ordinal, slope 2.5, {n} rows", "ordinal", n, levels, {"x": 2.5, **cuts}) for n in (200, 1000)]
    streamed = [one for one in found if one[0] in ("weibull, end 0.6, 1000 rows", "ordinal, slope 2.5, 200 rows")]
    return found + [(one[0] + STREAMED, *one[1:]) for one in streamed]


def fitted(model: Any, X: pd.DataFrame, y: Any, streamed: bool) -> Any:
    """The model after all rows."""
    if not streamed:
        return model.fit(X, y)
    for start in range(0, len(X), CHUNK):
        model.partial_fit(X[start : start + CHUNK], y[start : start + CHUNK])
    return model


def run(cell: tuple[str, str, int, Simulation, dict[str, float]], sets: int) -> list[dict[str, Any]]:
    """The rows of a cell, one for each number that is known."""
    from sksvi import BayesianGLMRegressor

    name, likelihood, n, simulate, truth = cell
    held: dict[str, list[bool]] = {of: [] for of in truth}
    widths: dict[str, list[float]] = {of: [] for of in truth}
    seconds = []
    for number in range(sets):
        rng = np.random.default_rng([7, number])
        x = rng.standard_normal(n)
        y = simulate(x, rng)
        start = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = BayesianGLMRegressor(likelihood=likelihood)
            found = fitted(model, pd.DataFrame({"x": x}), y, name.endswith(STREAMED)).summary()
        seconds.append(time.process_time() - start)
        for of, value in truth.items():
            held[of].append(bool(found.loc[of, "lower"] <= value <= found.loc[of, "upper"]))
            widths[of].append(float(found.loc[of, "std"]))
    rows = []
    for of, inside in held.items():
        share = float(np.mean(inside))
        error = float(np.sqrt(share * (1.0 - share) / len(inside)))
        row = {"cell": name, "quantity": of, "sets": len(inside), "covered": share, "error": error}
        rows.append({**row, "median sd": median(widths[of]), "CPU seconds": median(seconds)})
    return rows


def main(quick: bool = False) -> None:
    again = {cell[0] for cell in cells() if not AGAIN or cell[0].startswith(AGAIN)}
    before = [] if quick or not AGAIN else stored_rows("truth/parameters")
    rows: list[dict[str, Any]] = []
    for cell in cells()[:: 4 if quick else 1]:
        if cell[0] not in again:
            rows += [row for row in before if row["cell"] == cell[0]]
            continue
        rows += run(cell, 2 if quick else SETS)
        progress(rows[-1])
    notes = ["Sets of 60 seeds; error: of the share. 0.12 and 0.13 of the times up to 0.6 have their event."]
    report("truth/parameters", "Learned parameters that coefficients follow", rows, notes, quick)


if __name__ == "__main__":
    main(arguments(__doc__))
