"""E log p(y | f) and its derivatives: by tables that all rows share, and by the nodes that serve any likelihood.

    python -m benchmarks glm.expectations

Times per row at several numbers of rows, and the largest difference of the two. Means and deviations of f as fits have
them: most rows are well determined, some are not.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks._lib.tables import arguments, progress, report

#: Seconds that each way is timed for, and how often; the least is told.
SECONDS, TIMES = 0.1, 5


def per_row(function: Callable[[], Any], n: int) -> float:
    """CPU nanoseconds."""
    found = []
    for _ in range(TIMES):
        calls, started = 0, time.process_time()
        while time.process_time() - started < SECONDS:
            function()
            calls += 1
        found.append((time.process_time() - started) / calls / n * 1e9)
    return min(found)


def row(name: str, likelihood: Any, draw: Any, n: int) -> dict[str, Any]:
    from sksvi.expectations import Auto, Quadrature

    rng = np.random.default_rng(0)
    m, v = 3.0 * rng.standard_normal(n), np.exp(rng.normal(-2.0, 1.5, n))
    y = draw(rng, n)
    tables, nodes = Auto()(likelihood, y, m, v), Quadrature()(likelihood, y, m, v)
    apart = max(float(np.max(np.abs(a - b) / (1.0 + np.abs(b)))) for a, b in zip(tables, nodes, strict=True))
    told = {"likelihood": name, "rows": n}
    told["by tables, ns a row"] = per_row(lambda: Auto()(likelihood, y, m, v), n)
    told["by nodes, ns a row"] = per_row(lambda: Quadrature()(likelihood, y, m, v), n)
    told["times as fast"] = told["by nodes, ns a row"] / told["by tables, ns a row"]
    return told | {"largest difference over 1 + its size": apart}


def main(quick: bool = False) -> None:
    from sksvi.likelihoods import Bernoulli, Binomial, NegativeBinomial

    kinds = {
        "Bernoulli": (Bernoulli(), lambda rng, n: rng.integers(0, 2, n).astype(float)),
        "Binomial": (Binomial(), lambda rng, n: rng.integers(0, 9, (n, 2)).astype(float)),
        "NegativeBinomial": (NegativeBinomial(dispersion=0.5), lambda rng, n: rng.poisson(3.0, n).astype(float)),
    }
    table = []
    for name, (likelihood, draw) in kinds.items():
        for n in (50,) if quick else (50, 1_000, 30_000, 500_000):
            table.append(row(name, likelihood, draw, n))
            progress(table[-1])
    notes = ["One thread where BLAS and the machine are given one; the least of five times 0.1 s."]
    report("glm/expectations", "Expected log likelihoods, by tables and by nodes", table, notes, quick)


if __name__ == "__main__":
    main(arguments(__doc__))
