"""Figures 4 to 6 and 12 of Sheth & Khardon (MC-SSVI): PMF on artificial 1000 x 1000 matrices, algorithms by seconds.

Data as theirs (``sksvi.datasets.make_pmf``: K = 100, variances 1, fully observed; binary, counts with a softplus rate,
five ordered levels), split 80/20, no biases. Setting "paper": Monte Carlo expectations, natural steps at 1/t, AdaGrad
with rate 1; the ordinal's cut points and slope are those that drew the data. "default": the estimator's expectation and
rates. "learned ordinal": slope 1 and learned cut points, as a user gets them. "batch": entries per column and step.
Seconds are CPU seconds of the passes, on one thread. Test scores are of the first 20,000 test entries.
Coverage: share of the test entries' true latents in their central 90 % intervals (the same for any rotation of the
factors), which says whether covariances are too narrow.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks._lib import Array
from benchmarks._lib.looks import looked
from benchmarks._lib.tables import arguments, progress, report, store_figure

DATA = {"binary": "logit", "count": "poisson-softplus", "ordinal": "ordinal"}
ALGORITHMS = ("h-mc-ssvi", "s-dsvi", "mc-ssvi")
BATCHES = (50, None)
#: Passes at which a fit is scored, the CPU seconds after which it goes no further, and scored entries.
PASSES, LIMIT, SCORED = (1, 2, 4, 7, 12, 20, 35, 60), 40.0, 20_000
MEASURES = {"binary": "zero-one error", "count": "relative error", "ordinal": "absolute error"}


def data(kind: str, shape: tuple[int, int, int]) -> dict[str, Any]:
    """Training and test entries with the true latents of the test."""
    from sksvi.datasets import make_pmf

    bunch = make_pmf(*shape, likelihood=DATA[kind], random_state=0)
    n = int(0.8 * len(bunch.target))
    return {
        "train": (bunch.data[:n], bunch.target[:n]),
        "test": (bunch.data[n : n + SCORED], bunch.target[n : n + SCORED]),
        "latent": bunch.latent[n : n + SCORED],
        "likelihood": bunch.likelihood,
        "K": bunch.user_factors.shape[1],
    }


def algorithm(name: str, setting: str) -> Any:
    """The algorithm with the rates of the setting."""
    from sksvi.algorithms import MCSSVI, SDSVI, HybridMCSSVI
    from sksvi.schedules import AdaGrad, RobbinsMonro

    if setting != "paper":
        return name
    harmonic, adagrad = RobbinsMonro(scale=1.0, delay=0.0, kappa=1.0), AdaGrad(rate=1.0)
    instances: dict[str, Any] = {
        "mc-ssvi": MCSSVI(schedule=harmonic),
        "h-mc-ssvi": HybridMCSSVI(schedule=harmonic, adagrad=adagrad),
        "s-dsvi": SDSVI(adagrad=adagrad),
    }
    return instances[name]


def estimate_error(kind: str, y: Array, estimate: Array) -> dict[str, Any]:
    """Their error of an estimate: zero-one, relative over positive counts (and of zeros), absolute."""
    if kind == "binary":
        return {"error": float(np.mean((estimate > 0.5) != (y == 1)))}
    if kind == "ordinal":
        return {"error": float(np.mean(np.abs(estimate - y)))}
    some = y > 0
    zero_error = float(np.mean(np.round(estimate[~some]) > 0)) if np.any(~some) else None
    return {"error": float(np.mean(np.abs(estimate[some] - y[some]) / y[some])), "zeros taken for counts": zero_error}


def score(model: Any, kind: str, found: dict[str, Any]) -> dict[str, Any]:
    pairs, y = found["test"]
    mean, variance = model.predict_latent(pairs)
    nll = -float(np.mean(model.log_predictive_density(pairs, y)))
    row: dict[str, Any] = {"bound": float(model.lower_bounds_[-1]), "test NLL": nll}
    row |= estimate_error(kind, y, model.predict(pairs))
    # cut points that are learned have a scale of their own, so that f does not compare with the truth
    if kind != "ordinal" or not model.likelihood_.get_params()["slope"] == 1.0:
        row["coverage 90 %"] = float(np.mean(np.abs(mean - found["latent"]) < 1.6448536 * np.sqrt(variance)))
    return row


def one(
    kind: str, name: str, batch: int | None, setting: str, found: dict[str, Any], passes: Any, limit: float = LIMIT
) -> list[dict[str, Any]]:
    """The rows of one fit, which stops at the limit of CPU seconds."""
    from sksvi.decomposition import GeneralizedPMF

    model = GeneralizedPMF(
        n_components=found["K"],
        likelihood="ordinal" if setting == "learned ordinal" else found["likelihood"],
        biases=False,
        uncertainty="variational",
        algorithm=algorithm(name, setting),
        expectation="monte-carlo" if setting == "paper" else "auto",
        batch_size=batch,
        random_state=0,
    )
    head = {"data": kind, "setting": setting, "algorithm": name, "batch": "all" if batch is None else batch}
    progress(head)
    rows = looked(model, found["train"], lambda fitted: score(fitted, kind, found), passes, limit)
    return [{**head, **row} for row in rows]


def runs(kind: str, quick: bool) -> list[tuple[str, int | None, str]]:
    """Algorithm, batch and setting of every fit."""
    batches = (20, None) if quick else BATCHES
    wanted: list[tuple[str, int | None, str]] = [(name, batch, "paper") for name in ALGORITHMS for batch in batches]
    wanted += [(name, None, "default") for name in ALGORITHMS]
    if kind == "ordinal":
        wanted += [(name, None, "learned ordinal") for name in ALGORITHMS[:2]]
    return wanted


def draw(rows: list[dict[str, Any]]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    for setting in ("paper", "default"):
        figure, axes = plt.subplots(3, 3, figsize=(13, 11), layout="constrained")
        for line, kind in zip(axes, DATA, strict=True):
            mine = [row for row in rows if row["data"] == kind and row["setting"] == setting and "bound" in row]
            for ax, what in zip(line, ("bound", "test NLL", "error"), strict=True):
                for i, name in enumerate(ALGORITHMS):
                    for style, batch in zip((":", "-"), ("50", "all"), strict=True):
                        part = [r for r in mine if r["algorithm"] == name and str(r["batch"]) == batch]
                        values = [abs(r[what]) for r in part]
                        label = f"{name}, {batch}"
                        if part:
                            seconds = [r["CPU seconds"] for r in part]
                            ax.plot(seconds, values, style, color=f"C{i}", marker=".", label=label)
                ax.set(xscale="log", yscale="log", title=f"{kind}: {MEASURES[kind] if what == 'error' else what}")
        axes[0, 0].set_title("binary: minus the bound")
        for ax in axes[1:, 0]:
            ax.set_title(ax.get_title().replace("bound", "minus the bound"))
        for ax in axes[-1]:
            ax.set_xlabel("CPU seconds")
        figure.legend(*axes[0, 0].get_legend_handles_labels(), fontsize=8, ncols=3, loc="outside lower center")
        store_figure(f"factorization/figures_{setting}", figure)


COLUMNS: tuple[str, ...] = (
    "data",
    "setting",
    "algorithm",
    "batch",
    "passes",
    "CPU seconds",
    "bound",
    "test NLL",
    "error",
)
COLUMNS += ("zeros taken for counts", "coverage 90 %", "note")


def main(quick: bool = False) -> None:
    rows: list[dict[str, Any]] = []
    for kind in DATA:
        found = data(kind, (60, 50, 5) if quick else (1000, 1000, 100))
        for name, batch, setting in runs(kind, quick):
            rows += one(kind, name, batch, setting, found, PASSES[:2] if quick else PASSES)
            stored(rows, quick)
    settled(quick)


def settled(quick: bool) -> None:
    """A matrix that is small enough for every algorithm to come to its end: scores and coverage there."""
    rows: list[dict[str, Any]] = []
    for kind in DATA:
        found = data(kind, (60, 50, 5) if quick else (300, 300, 10))
        for name in ALGORITHMS:
            for batch in (20, None):
                setting = "learned ordinal" if kind == "ordinal" else "default"
                rows += one(kind, name, batch, setting, found, (2,) if quick else (50, 150))
    notes = [
        "300 x 300, K = 10, variances 1, default settings; the ordinal's cut points are learned. Coverage: of the test "
        "entries' true latents by central 90 % intervals: below 0.9 covariances are too narrow."
    ]
    trimmed = [{key: row.get(key) for key in COLUMNS if key != "setting"} for row in rows]
    report("factorization/figures_settled", "PMF on smaller artificial matrices, to the end", trimmed, notes, quick)


def stored(rows: list[dict[str, Any]], quick: bool) -> None:
    """The table so far: a run that is cut off leaves the fits that it finished."""
    notes = [
        "error: zero-one (binary), relative where the count is positive (count), absolute (ordinal). Coverage: of the "
        "test entries' true latents by central 90 % intervals. Figures: results/factorization/figures_paper.png "
        "(Figures 4 to 6, 12) and results/factorization/figures_default.png."
    ]
    trimmed = [{key: row.get(key) for key in COLUMNS} for row in rows]
    report(
        "factorization/figures", "PMF on artificial matrices: algorithms (Figures 4 to 6, 12)", trimmed, notes, quick
    )
    if not quick:
        draw(rows)


if __name__ == "__main__":
    main(arguments(__doc__))
