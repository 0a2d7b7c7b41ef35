"""The Monte Carlo structured SVI paper's Figure 3: how the four bounds of a sparse GP predict, by training set size.

California housing, 67/33, 206 random inducing points of the training part, an RBF kernel with one length scale.
Length scale, variance and noise by the paper's grid: 20 points each on [0.1, 50], [0.01, 100], [0.01, 1] (spaced evenly
in logarithms), best log evidence on a random 100-row subset. Each repeat has its own split, inducing set and grid.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve, eigh

from benchmarks.common import RESULTS, Array, arguments, progress, report
from benchmarks.gaussian_processes import LOG_2PI, gaussian_nll, held_out, housing, timed_fit

SIZES = (100, 200, 500, 1000, 2000, 5000, 10_000, 13_000)
#: The optimal bound and the full GP go up to here, cubic in the rows.
LARGEST_EXACT = 1000
BOUNDS = ("simple", "optimal", "v1", "v2")


def grid(X: Array, y: Array) -> tuple[float, float, float]:
    """Length scale, kernel variance and noise variance of the best log evidence, by one eigenbasis per length scale."""
    from sklearn.gaussian_process.kernels import RBF

    variance, noise = np.meshgrid(np.geomspace(0.01, 100, 20), np.geomspace(0.01, 1, 20), indexing="ij")
    best = (-np.inf, 0.0, 0.0, 0.0)
    for scale in np.geomspace(0.1, 50, 20):
        values, vectors = eigh(RBF(scale)(X))
        projected = (vectors.T @ y) ** 2
        total = variance[..., None] * np.maximum(values, 0.0) + noise[..., None]
        evidence = -0.5 * np.sum(projected / total + np.log(total) + LOG_2PI, axis=-1)
        i = np.unravel_index(np.argmax(evidence), evidence.shape)
        best = max(best, (float(evidence[i]), float(scale), float(variance[i]), float(noise[i])))
    return best[1:]


def full_gp(kernel: Any, noise: float, X: Array, y: Array, Xt: Array, yt: Array) -> float:
    """Test NLL of the exact GP."""
    factor = cho_factor(kernel(X) + noise * np.eye(len(X)), lower=True)
    K = kernel(X, Xt)
    mean = K.T @ cho_solve(factor, y)
    variance = kernel.diag(Xt) - np.einsum("ij,ij->j", K, cho_solve(factor, K)) + noise
    return gaussian_nll(yt, mean, variance)


def one_repeat(seed: int, sizes: tuple[int, ...]) -> list[dict[str, Any]]:
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel

    from sksvi.gaussian_process import SparseGPRegressor

    X, y, Xt, yt = housing(seed)
    rng = np.random.default_rng([seed, 3])
    subset = rng.permutation(len(X))[:100]
    scale, variance, noise = grid(X[subset], y[subset])
    kernel = ConstantKernel(variance) * RBF(scale)
    Z = X[rng.permutation(len(X))[:206]]
    rows = []
    for n in sizes:
        part = rng.permutation(len(X))[:n]
        for bound in BOUNDS:
            if bound == "optimal" and n > LARGEST_EXACT:
                continue
            model = SparseGPRegressor(
                kernel=kernel,
                inducing=Z,
                bound=bound,
                noise_variance=noise,
                optimize_hyperparameters=False,
                optimize_inducing=False,
            )
            seconds = timed_fit(model, X[part], y[part])
            rows.append({"rows": n, "bound": bound, "nll": held_out(model, Xt, yt)["nll"], "seconds": seconds})
        if n <= LARGEST_EXACT:
            nll = full_gp(kernel, noise, X[part], y[part], Xt, yt)
            rows.append({"rows": n, "bound": "full GP", "nll": nll, "seconds": None})
    return rows


def draw(rows: list[dict[str, Any]]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, ax = plt.subplots(figsize=(7, 4.5), layout="constrained")
    for bound in ("optimal", "v1", "v2", "full GP"):
        mine = [row for row in rows if row["bound"] == bound]
        x, mean, se = ([row[key] for row in mine] for key in ("rows", "less simple", "se"))
        ax.errorbar(x, mean, yerr=se, marker="o", markersize=3, capsize=2, label=bound)
    ax.axhline(0.0, color="0.6", linewidth=0.8)
    ax.set(xscale="log", xlabel="training rows", ylabel="test NLL less that of the simple bound, nats")
    ax.legend()
    RESULTS.mkdir(exist_ok=True)
    figure.savefig(RESULTS / "gp_figure3.png", dpi=110)


def main(quick: bool = False) -> None:
    repeats, sizes = (2, (100, 500, 2000)) if quick else (20, SIZES)
    found: dict[tuple[int, str], list[tuple[float, float, float]]] = {}
    for seed in range(repeats):
        rows = one_repeat(seed, sizes)
        simple = {row["rows"]: row["nll"] for row in rows if row["bound"] == "simple"}
        for row in rows:
            difference = row["nll"] - simple[row["rows"]]
            found.setdefault((row["rows"], row["bound"]), []).append((row["nll"], difference, row["seconds"] or np.nan))
        progress({"repeat": seed, **{f"simple, {n} rows": nll for n, nll in simple.items()}})
    table = []
    for (n, bound), values in sorted(found.items(), key=lambda item: item[0][0]):
        nll, difference, seconds = np.array(values).T
        table.append(
            {
                "rows": n,
                "bound": bound,
                "test NLL": nll.mean(),
                "less simple": difference.mean(),
                "se": difference.std(ddof=1) / np.sqrt(len(values)),
                "better in": f"{np.sum(difference < 0)} of {len(values)}",
                "seconds": float(np.median(seconds)) if np.isfinite(seconds).all() else None,
            }
        )
    notes = [
        f"{repeats} repeats, each with its own split, grid search, inducing set and subsets. NLL in nats per row of "
        'the z-scored target; "less simple": mean of the paired difference to the simple bound and its standard error '
        "(negative is better). The figure is results/gp_figure3.png."
    ]
    report("gp_figure3", "Bounds of a sparse GP by training set size (Figure 3)", table, notes, quick)
    if not quick:
        draw(table)


if __name__ == "__main__":
    main(arguments(__doc__))
