"""Figures 4 to 6 of Sheth & Khardon on real ratings and counts: algorithm by batch size, after the same CPU seconds.

MovieLens 1M as labels (ratings 1 and 5) and as ordered levels, Last.fm counts with a softplus rate; "batch" entries per
column and step. The estimator's own expectation and rates, one thread. Fits that are stored are not run again.
"""

from __future__ import annotations

import functools
import warnings
from typing import Any

import numpy as np

from benchmarks._lib.cells import Row, by_cells
from benchmarks._lib.looks import looked
from benchmarks._lib.tables import arguments, store_figure
from benchmarks.factorization._data import Split, lastfm, movielens, small
from benchmarks.factorization.figures import ALGORITHMS, MEASURES, estimate_error

LIKELIHOODS = {"binary": "logit", "ordinal": "ordinal", "count": "poisson-softplus"}
#: Factors (the paper: 100), entries per column and step, seeds, and CPU seconds after which a fit goes no further.
FACTORS, BATCHES, SEEDS, LIMIT = 20, ("50", "all"), (0,), 12.0
#: Passes at which a fit is scored, and scored test entries.
PASSES, SCORED = (1, 2, 4, 7, 12, 20, 35, 60, 100, 170, 300), 20_000


@functools.lru_cache(maxsize=1)
def data(kind: str, quick: bool) -> Split:
    """The split; its first test entries alone."""
    found = lastfm() if kind == "count" else movielens("binary" if kind == "binary" else "all")
    pairs, y, test, y_test = small(found, 5000) if quick else found
    return pairs, y, test[:SCORED], y_test[:SCORED]


def run(cell: Row, quick: bool) -> list[Row]:
    """The rows of one fit."""
    from sksvi.decomposition import GeneralizedPMF

    kind, batch = cell["data"], cell["batch"]
    pairs, y, test, y_test = data(kind, quick)

    def score(fitted: Any) -> Row:
        density = fitted.log_predictive_density(test, y_test)
        row = {"bound": float(fitted.lower_bounds_[-1]), "test NLL": -float(np.mean(density))}
        return row | {"error": estimate_error(kind, y_test, fitted.predict(test))["error"]}

    options = {"likelihood": LIKELIHOODS[kind], "biases": False, "algorithm": cell["algorithm"]}
    options |= {"batch_size": None if batch == "all" else int(batch), "random_state": cell["seed"]}
    options["uncertainty"] = "variational"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        GeneralizedPMF(5, max_iter=1, **options).fit(pairs[:500], y[:500])  # compiles what is timed
    model = GeneralizedPMF(FACTORS, **options)
    return looked(model, (pairs, y), score, PASSES[:2] if quick else PASSES, LIMIT)


def draw(rows: list[Row]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.ticker import NullFormatter

    figure, axes = plt.subplots(3, 3, figsize=(13, 11), layout="constrained")
    for line, kind in zip(axes, LIKELIHOODS, strict=True):
        for ax, what in zip(line, ("bound", "test NLL", "error"), strict=True):
            for i, name in enumerate(ALGORITHMS):
                for style, batch in zip((":", "-"), BATCHES, strict=True):
                    part = [r for r in rows if (r["data"], r["algorithm"], r["batch"]) == (kind, name, batch)]
                    part = [r for r in part if r["seed"] == SEEDS[0] and r.get(what) is not None]
                    seconds, values = [r["CPU seconds"] for r in part], [abs(r[what]) for r in part]
                    ax.plot(seconds, values, style, color=f"C{i}", marker=".", label=f"{name}, {batch}")
            title = {"bound": "minus the bound", "error": MEASURES[kind]}.get(what, what)
            ax.set(xscale="log", yscale="log", title=f"{kind}: {title}")
            ax.xaxis.set_minor_formatter(NullFormatter())
    for ax in axes[-1]:
        ax.set_xlabel("CPU seconds")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), fontsize=8, ncols=3, loc="outside lower center")
    store_figure("factorization/batches", figure)


NOTES = [
    f"80/20, K = {FACTORS} (the paper: 100), no biases, {LIMIT:g} CPU seconds for every fit (the pass in which they "
    f"end is finished), the first {SCORED:,} test entries. NLL in nats per entry; error: zero-one (binary), absolute "
    "(ordinal), relative (count; every count is positive). bound: the surrogate of `lower_bounds_`, an estimate where "
    "entries are drawn. Figure: results/factorization/batches.png."
]


def main(quick: bool = False) -> None:
    cells: list[Row] = [
        {"data": kind, "algorithm": name, "batch": batch, "seed": seed}
        for seed in SEEDS
        for kind in LIKELIHOODS
        for name in ALGORITHMS
        for batch in BATCHES
    ]
    title = "PMF on real matrices: algorithms by batch size (Figures 4 to 6)"
    cells = cells[::2] if quick else cells
    rows = by_cells("factorization/batches", title, cells, lambda cell: run(cell, quick), NOTES, quick)
    if not quick:
        draw(rows)


if __name__ == "__main__":
    main(arguments(__doc__))
