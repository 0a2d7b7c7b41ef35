"""Memory of long fits."""

from __future__ import annotations

from typing import Any

from benchmarks._lib.tables import arguments, progress, report
from benchmarks._lib.timing import fresh_process

TITLE = "Memory of long series"
NOTES = [
    "What a fit adds to a fresh process at its highest, in doubles per point, the series itself left out. States: of "
    "the latent, whose moments a sweep of several keeps.",
]
#: Name -> likelihood, states, other parameters.
FITS: dict[str, tuple[str, int, dict[str, Any]]] = {
    "Poisson, level": ("poisson", 1, {"level_variance": 0.01}),
    "Poisson, level and 12 seasons": (
        "poisson",
        12,
        {"level_variance": 0.01, "seasonal": 12, "seasonal_variance": 1e-4},
    ),
    "Poisson, level, variance learned": ("poisson", 1, {}),
    "negative binomial, level, variance and dispersion learned": ("negative-binomial", 1, {}),
    "Gaussian, level, both variances learned": ("gaussian", 1, {}),
}
CODE = """
import json
from benchmarks._lib.timing import peak_memory, reset_peak
from benchmarks.series.speed import drawn
from sksvi import DynamicGLM
y = drawn("{likelihood}", {points})
make = lambda: DynamicGLM(likelihood="{likelihood}", n_jobs=1, **{own!r})
make().fit(None, y[:100])
reset_peak()
before = peak_memory()
model = make().fit(None, y)
print(json.dumps({{"doubles": (peak_memory() - before) * 2**20 / 8 / {points}, "sweeps": model.n_iter_}}))
"""


def main(quick: bool = False) -> None:
    rows: list[dict[str, Any]] = []
    points = 100_000 if quick else 1_000_000
    for name, (likelihood, states, own) in FITS.items():
        found = fresh_process(CODE.format(likelihood=likelihood, points=points, own=own))
        rows.append({"fit": name, "points": points, "states": states, **found})
        progress(rows[-1])
    report("series/memory", TITLE, rows, NOTES, quick)


if __name__ == "__main__":
    main(arguments(__doc__))
