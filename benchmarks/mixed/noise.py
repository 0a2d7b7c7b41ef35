"""Counts that vary more than Poisson: noise per row, a row id as a group, negative binomial; CPU seconds and test NLL.

Each likelihood with the same columns and groups, noise per row under the paper's Rayleigh(5), all else at its defaults.
"integrals in each pass" is noise per row without the table of log E p(y | f) (`sksvi.models.mixed.noise_table`), "fresh
process" the first fit of a process for which nothing was ever compiled. A second table has simulated counts with known
noise: is it in its 90 % interval?
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any

import numpy as np

from benchmarks._lib import Array
from benchmarks._lib.tables import arguments, progress, report
from benchmarks.mixed._data import Mixed, doctor_contacts, epil, split
from benchmarks.mixed._peers import timed

#: Splits, 80 and 20 %, of each set.
SPLITS = {"simulated": 5, "epil": 5, "DoctorContacts": 1}
#: Simulated sets, and the variance of their noise.
N_SETS, NOISE = 40, 0.3


def simulated(seed: int = 0) -> Mixed:
    """403 counts, three columns, groups of 40 and 12 levels, crossed, and noise per row."""
    import pandas as pd

    rng = np.random.default_rng(seed)
    n = 403
    X = pd.DataFrame(rng.standard_normal((n, 3)), columns=list("pqr"))
    X["a"], X["b"] = rng.integers(0, 40, n), rng.integers(0, 12, n)
    f = 0.8 + X[["p", "q", "r"]].to_numpy() @ np.array([0.3, -0.2, 0.1]) + np.sqrt(NOISE) * rng.standard_normal(n)
    f += 0.5 * rng.standard_normal(40)[X["a"]] + 0.3 * rng.standard_normal(12)[X["b"]]
    return Mixed("simulated", X, rng.poisson(np.exp(f)).astype(float), groups=["a", "b"])


DATA: dict[str, Callable[[], Mixed]] = {"simulated": simulated, "epil": epil, "DoctorContacts": doctor_contacts}


@contextmanager
def without_table() -> Iterator[None]:
    """Integrals in each pass."""
    from sksvi.models.mixed.glm import MixedModel

    before = MixedModel.tabulated
    MixedModel.tabulated = lambda self, y: self  # type: ignore[method-assign]
    try:
        yield
    finally:
        MixedModel.tabulated = before  # type: ignore[method-assign]


def with_ids(frame: Any, first: int = 0) -> Any:
    """The frame with a level of its own for every row."""
    return frame.assign(row=np.arange(first, first + len(frame)))


def fit(method: str, X: Any, y: Array, groups: list[str]) -> Any:
    from sksvi import GMERegressor

    if method == "row id as a group":
        return GMERegressor(likelihood="poisson", noise=False, groups=[*groups, "row"]).fit(with_ids(X), y)
    likelihood = "negative-binomial" if method == "negative binomial" else "poisson"
    noise = "auto" if method == "negative binomial" else method.startswith("noise")
    return GMERegressor(likelihood=likelihood, noise=noise, noise_prior_scale=5.0, groups=groups or None).fit(X, y)


METHODS = [
    "Poisson, groups alone",
    "negative binomial",
    "row id as a group",
    "noise per row",
    "noise per row, integrals in each pass",
]


def noise_of(model: Any) -> tuple[float | None, float | None]:
    """Mean and standard deviation of the variance of what varies beyond Poisson, on the log rate."""
    if model.noise_variance_:
        return model.noise_variance_, float(model.posterior_["noise"].std[0])
    if model.groups is not None and "row" in model.group_std_.index.get_level_values("group"):
        scales = model._fitted.group_scales
        log_std, within = scales.nodes[:, -1], np.broadcast_to(scales.within, scales.nodes.shape[1:])[-1]
        mean, square = (float(scales.weights @ np.exp(p * log_std + 0.5 * p**2 * within)) for p in (2.0, 4.0))
        return mean, float(np.sqrt(square - mean**2))
    return None, None


def fresh(name: str, method: str) -> float:
    """CPU seconds of a process's first fit, imports aside; what numba compiles is not there yet."""
    code = (
        "import time, pandas\n"
        "from sksvi import GMERegressor\n"
        "from benchmarks.mixed.noise import DATA, fit, split\n"
        f"data = DATA[{name!r}](); X, y, _, _ = split(data, 0); start = time.process_time()\n"
        f"fit({method!r}, X, y, data.groups); print(time.process_time() - start)"
    )
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", code],
            env={**os.environ, "NUMBA_CACHE_DIR": folder},
            capture_output=True,
            text=True,
            check=True,
        )
    return float(done.stdout.split()[-1])


def rows_of(name: str, n_splits: int) -> list[dict[str, Any]]:
    """A line per method: test NLL over the splits, CPU seconds of the median."""
    data, rows = DATA[name](), []
    for method in METHODS:
        losses, seconds, model = [], [], None
        for seed in range(n_splits):
            X, y, X_test, y_test = split(data, seed)
            with without_table() if method.endswith("each pass") else nullcontext():
                model, clock = timed(partial(fit, method, X, y, data.groups))
            if method == "row id as a group":
                X_test = with_ids(X_test, len(X))
            losses.append(-float(np.mean(model.log_predictive_density(X_test, y_test))))
            seconds.append(clock[1])
        mean, std = noise_of(model)
        own = {"data": name, "rows": round(0.8 * len(data.y)), "method": method, "test NLL": float(np.mean(losses))}
        own |= {"E noise variance": mean, "its sd": std, "passes": model.n_iter_}
        rows.append({**own, "CPU seconds": float(np.median(seconds)), "fresh process": None, "times the table's": None})
        if method in ("noise per row", "row id as a group"):
            rows[-1]["fresh process"] = fresh(name, method)
        progress(rows[-1])
    table, direct = (row["CPU seconds"] for row in rows[-2:])
    rows[-1]["times the table's"] = direct / table
    return rows


def coverage(n_sets: int) -> list[dict[str, Any]]:
    """Simulated sets: how often 90 % intervals hold the noise variance and the coefficients, their width, seconds."""
    truth = np.array([0.3, -0.2, 0.1])
    found: dict[str, list[list[float]]] = {"noise per row": [], "row id as a group": []}
    for seed in range(n_sets):
        data = simulated(1000 + seed)
        for method, runs in found.items():
            start = time.process_time()
            model = fit(method, data.X, data.y, data.groups)
            seconds, table = time.process_time() - start, model.summary()
            name = "noise variance" if method == "noise per row" else "std(row, intercept)"
            power = 1.0 if method == "noise per row" else 2.0
            mean = noise_of(model)[0]
            low, high = table.loc[name, ["lower", "upper"]].to_numpy(float) ** power
            coef = table.loc[["p", "q", "r"], ["lower", "upper"]].to_numpy(float)
            held = float(np.mean((coef[:, 0] < truth) & (truth < coef[:, 1])))
            runs.append([mean, low < NOISE < high, high - low, held, seconds])
    names = ["E noise variance", "coverage of it", "width of its interval", "coverage of coefficients", "CPU seconds"]
    return [
        {"method": method, **dict(zip(names, map(float, np.mean(runs, axis=0)), strict=True))}
        for method, runs in found.items()
    ]


def main(quick: bool = False) -> None:
    rows = []
    for name in ["epil"] if quick else DATA:
        rows += rows_of(name, min(SPLITS[name], 2) if quick else SPLITS[name])
    notes = [
        "CPU seconds of a fit, the posterior of the standard deviations between levels included; fresh process: of the "
        "first fit of a process with an empty cache of numba.",
        "Noise variance: of the latent, of the last split; test NLL in nats per row, a random fifth of the rows.",
    ]
    report("mixed/noise", "Noise per row and what stands beside it", rows, notes, quick)
    n_sets = 4 if quick else N_SETS
    notes = [
        f"{n_sets} sets of 403 counts with two crossed groups and noise of variance {NOISE} per row; 90 % intervals."
    ]
    report("mixed/noise_coverage", "Noise per row: intervals on simulated counts", coverage(n_sets), notes, quick)


if __name__ == "__main__":
    main(arguments(__doc__))
