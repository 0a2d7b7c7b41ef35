"""Figure 1 of Sheth & Khardon (MC-SSVI): the algorithms and the batch version on wide dense data, bound by seconds.

Settings of the paper: mini-batches of 2,000, ten Monte Carlo samples, natural steps at 1/t, AdaGrad with rate 1, prior
N(0, I), standardised columns. "literal": these, and the equations as printed, from m = 0 and S = 10 I, the last iterate
(`literal=True`; natural steps on both have no such setting, and start from S = 1 / (prior precision + curvature)).
"paper": these rates in the product's coordinates, with its start and averages. "default": our defaults (quadrature,
default rates). Every point is a fit of its own with that many passes and the same seed, hence the same path; its
seconds are the fit's own clock, its bound exact.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from benchmarks._lib import Array
from benchmarks._lib.loaders import load_npz, standardised
from benchmarks._lib.tables import arguments, progress, report, store_figure

BATCH = 2000


def data(name: str, quick: bool) -> tuple[Array, Array]:
    if name == "mnist odd/even":
        arrays = load_npz("mnist_t10k")
        X, y = standardised(arrays["X"]), arrays["y"].astype(int) % 2
        return (X[:2000], y[:2000]) if quick else (X, y)
    from sksvi.datasets import make_wide_logistic

    X, y = make_wide_logistic(*((4000, 100) if quick else (10_000, 300)), random_state=0)
    return standardised(X), np.asarray(y).astype(int)


def methods(setting: str) -> dict[str, tuple[Any, int | None]]:
    """Name: (algorithm, batch size)."""
    from sksvi.algorithms import CVI, MCSSVI, SDSVI, HybridMCSSVI
    from sksvi.schedules import AdaGrad, RobbinsMonro

    if setting == "literal":
        printed = HybridMCSSVI(literal=True)
        return {
            "h-mc-ssvi": (printed, BATCH),
            "s-dsvi": (SDSVI(literal=True), BATCH),
            "h-mc-ssvi, batch": (printed, None),
        }
    if setting == "paper":
        harmonic, adagrad = RobbinsMonro(scale=1.0, delay=0.0, kappa=1.0), AdaGrad(rate=1.0)
        hybrid: Any = HybridMCSSVI(schedule=harmonic, adagrad=adagrad)
        rows: dict[str, tuple[Any, int | None]] = {
            "mc-ssvi": (MCSSVI(schedule=harmonic), BATCH),
            "h-mc-ssvi": (hybrid, BATCH),
            "s-dsvi": (SDSVI(adagrad=adagrad), BATCH),
            "cvi": (CVI(schedule=harmonic), BATCH),
            "h-mc-ssvi, batch": (hybrid, None),
        }
        return rows
    names = ("mc-ssvi", "h-mc-ssvi", "s-dsvi", "cvi")
    return {
        **{name: (name, BATCH) for name in names},
        "h-mc-ssvi, batch": ("h-mc-ssvi", None),
        "fp, batch": ("fp", None),
    }


def trajectory(
    X: Array, y: Array, algorithm: Any, batch: int | None, setting: str, passes: list[int]
) -> list[dict[str, Any]]:
    from sksvi.linear_model import BayesianGLMClassifier

    rows: list[dict[str, Any]] = []
    for n in passes:
        model = BayesianGLMClassifier(
            prior_precision=1.0,
            fit_intercept=False,
            algorithm=algorithm,
            expectation="quadrature" if setting == "default" else "monte-carlo",
            batch_size=batch,
            max_iter=n,
            tol=0.0,
            random_state=0,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            try:
                model.fit(X, y)
            except ValueError as error:
                rows.append({"passes": n, "seconds": None, "bound": None, "note": str(error)[:160]})
                break
        history = model.history_
        rows.append(
            {
                "passes": model.n_iter_,
                "seconds": float(history["seconds"].iloc[-1]),
                "bound": model.lower_bound_,
                "note": "",
            }
        )
    return rows


def claims(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The claims of the figure, setting by setting: nats short after the first and the last number of passes."""
    first, last = min(row["passes"] for row in rows), max(row["passes"] for row in rows)
    found = []
    for data, setting in dict.fromkeys((row["data"], row["setting"]) for row in rows):
        short = {
            (row["algorithm"], row["passes"]): row["short"]
            for row in rows
            if (row["data"], row["setting"]) == (data, setting) and row["short"] is not None
        }
        mine = {"data": data, "setting": setting}
        for claim, ahead, behind, passes in (
            ("h-mc-ssvi ahead of s-dsvi", "h-mc-ssvi", "s-dsvi", last),
            ("mc-ssvi ahead of s-dsvi", "mc-ssvi", "s-dsvi", last),
            ("mc-ssvi unstable at first: behind h-mc-ssvi", "h-mc-ssvi", "mc-ssvi", first),
            ("mini-batches ahead of the batch version", "h-mc-ssvi", "h-mc-ssvi, batch", last),
        ):
            if (ahead, passes) in short and (behind, passes) in short:
                pair = {"its": short[ahead, passes], "the other's": short[behind, passes]}
                found.append(
                    {**mine, "claim": claim, "passes": passes, **pair, "holds": pair["its"] < pair["the other's"]}
                )
    return found


def draw(rows: list[dict[str, Any]]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.ticker import LogLocator, NullFormatter

    colours = {name: f"C{i}" for i, name in enumerate(dict.fromkeys(row["algorithm"] for row in rows))}
    panels = list(dict.fromkeys((row["data"], row["setting"]) for row in rows))
    figure, axes = plt.subplots(2, (len(panels) + 1) // 2, figsize=(14, 8), squeeze=False, layout="constrained")
    for ax, panel in zip(axes.flat, panels, strict=False):
        mine = [row for row in rows if (row["data"], row["setting"]) == panel and row["bound"] is not None]
        for name in dict.fromkeys(row["algorithm"] for row in mine):
            points = [(row["seconds"], row["short"]) for row in mine if row["algorithm"] == name]
            ax.plot(*zip(*points, strict=True), marker="o", markersize=3, label=name, color=colours[name])
        ax.set(xscale="log", yscale="log", xlabel="seconds", ylabel="optimum - bound, nats", title=", ".join(panel))
        ax.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        ax.xaxis.set_major_formatter("{x:g}")
        ax.xaxis.set_minor_formatter(NullFormatter())
        ax.legend(fontsize=8)
    store_figure("glm/figure1", figure)


def main(quick: bool = False) -> None:
    from sksvi.linear_model import BayesianGLMClassifier

    passes = [1, 2, 5, 10] if quick else [1, 2, 4, 8]
    rows: list[dict[str, Any]] = []
    for name in ("mnist odd/even", "wide"):
        X, y = data(name, quick)
        common: dict[str, Any] = {"prior_precision": 1.0, "fit_intercept": False, "expectation": "quadrature"}
        best = (
            BayesianGLMClassifier(algorithm="cvi", batch_size=None, max_iter=200, tol=1e-9, **common)
            .fit(X, y)
            .lower_bound_
        )
        for setting in ("literal", "paper", "default"):
            for algorithm, (instance, batch) in methods(setting).items():
                for point in trajectory(X, y, instance, batch, setting, passes):
                    key = {"data": name, "setting": setting, "algorithm": algorithm}
                    short = None if point["bound"] is None else best - point["bound"]
                    rows.append({**key, **point, "short": short})
                progress(rows[-1])
    notes = ["short: nats below the optimum (full batch, quadrature, tol 1e-9). The figure is results/glm/figure1.png."]
    report("glm/figure1", "Algorithms on wide dense data (Figure 1)", rows, notes, quick)
    note = "Nats below the optimum after as many passes; one run each, so that small differences say nothing."
    report("glm/figure1_claims", "Claims of Figure 1", claims(rows), [note], quick)
    if not quick:
        draw(rows)


if __name__ == "__main__":
    main(arguments(__doc__))
