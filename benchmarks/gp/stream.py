"""A million rows of ten columns through ``SparseGPRegressor.partial_fit``, 200 inducing points, in a fresh process."""

from __future__ import annotations

from typing import Any

from benchmarks._lib.tables import arguments, progress, report
from benchmarks._lib.timing import fresh_process

STREAM = """
import json, time, warnings
import numpy as np
from benchmarks._lib.timing import peak_memory, reset_peak
from benchmarks.gp.stream import NOISE, rows_of
from sksvi.gaussian_process import SparseGPRegressor
warnings.simplefilter("ignore")
reset_peak()
imports = peak_memory()
model = SparseGPRegressor(n_inducing=200, random_state=0, **{settings})
start, seconds = time.perf_counter(), 0.0
for chunk in range({chunks}):
    X, y = rows_of(chunk, {rows})
    began = time.perf_counter()
    model.partial_fit(X, y)
    seconds += time.perf_counter() - began
peak = peak_memory()
X, y, f = rows_of(10**6, 20_000, truth=True)
nll = -float(np.mean(model.log_predictive_density(X, y)))
rmse = float(np.sqrt(np.mean((y - model.predict(X)) ** 2)))
best = float(0.5 * np.mean(np.log(2 * np.pi * NOISE**2) + (y - f) ** 2 / NOISE**2))
seen = int(model.n_samples_seen_)
print(json.dumps(dict(imports=imports, peak=peak, seconds=seconds, nll=nll, rmse=rmse, seen=seen, best=best)))
"""
NOISE = 0.3


def rows_of(chunk: int, n: int, truth: bool = False) -> tuple[Any, ...]:
    """Simulated rows: a smooth function of four of ten normal columns (`truth`: that too), and noise of sd 0.3."""
    import numpy as np

    rng = np.random.default_rng([chunk, 7])
    X = rng.standard_normal((n, 10))
    f = np.sin(X[:, 0] + 0.5 * X[:, 1]) + 0.5 * X[:, 2] * np.tanh(X[:, 3])
    y = f + NOISE * rng.standard_normal(n)
    return (X, y, f) if truth else (X, y)


def main(quick: bool = False) -> None:
    chunks, rows = (5, 2000) if quick else (100, 10_000)
    table = []
    for name, settings in {
        "default": {},
        "mc-ssvi, batches of 1,000": {"algorithm": "mc-ssvi", "batch_size": 1000},
    }.items():
        found = fresh_process(STREAM.format(settings=settings, chunks=chunks, rows=rows))
        table.append(
            {
                "settings": name,
                "rows": found["seen"],
                "imports, MiB": found["imports"],
                "peak, MiB": found["peak"],
                "seconds": found["seconds"],
                "test NLL": found["nll"],
                "test RMSE": found["rmse"],
            }
        )
        progress(table[-1])
    notes = [
        f"Chunks of {rows:,} rows, made as they are needed. The true function has test NLL {found['best']:.4f}. "
        "Peak: largest resident size of the whole process; seconds: partial_fit alone."
    ]
    report("gp/stream", "A stream of 1,000,000 x 10 rows through partial_fit", table, notes, quick)


if __name__ == "__main__":
    main(arguments(__doc__))
