"""What Gaussian processes say where there are data and where there are none. `python -m examples.gp_bands`.

1. A measured curve with a gap: `SparseGPRegressor` with ten inducing points beside the exact Gaussian process.
2. Counts along a line: the same estimator with a Poisson likelihood.
3. Two classes in the plane: `SparseGPClassifier` beside `GPClassifier`, which needs no inducing points.

Data are simulated, so that the truth is known. Prints a table and draws `demo-output/gp_bands.png`.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.datasets import make_moons
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from sksvi import GPClassifier, SparseGPClassifier, SparseGPRegressor

GRID = np.linspace(-1.0, 11.0, 241)[:, None]
LOW, HIGH = 4.5, 6.5


def curve(x: np.ndarray) -> np.ndarray:
    """The truth behind the first two data sets."""
    return np.sin(x) + 0.4 * np.sin(2.5 * x)


def places(n: int, rng: np.random.Generator) -> np.ndarray:
    """Points between 0 and 10, none in the gap."""
    x = np.sort(rng.uniform(0.0, 10.0, n))
    return x[(x < LOW) | (x > HIGH)][:, None]


def measured() -> dict[str, Any]:
    """Curve plus Gaussian noise of standard deviation 0.3; a sparse and an exact GP."""
    rng = np.random.default_rng(0)
    X = places(150, rng)
    y = curve(X[:, 0]) + 0.3 * rng.standard_normal(len(X))
    sparse = SparseGPRegressor(n_inducing=10, random_state=0)
    exact = SparseGPRegressor(bound="optimal", n_inducing=len(X), random_state=0)
    return {"X": X, "y": y, "models": {"sparse, 10 points": sparse.fit(X, y), "exact": exact.fit(X, y)}}


def counted() -> dict[str, Any]:
    """Poisson counts of rate exp(1 + curve)."""
    rng = np.random.default_rng(1)
    X = places(150, rng)
    y = rng.poisson(np.exp(1.0 + curve(X[:, 0])))
    model = SparseGPRegressor(likelihood="poisson", n_inducing=10, random_state=0)
    return {"X": X, "y": y, "models": {"Poisson, 10 points": model.fit(X, y)}}


def labelled() -> dict[str, Any]:
    """Two moons; twenty inducing points, and none, with kernels of one form."""
    X, y = make_moons(200, noise=0.25, random_state=0)
    kernel = ConstantKernel(1.0) * RBF(1.0)
    sparse = SparseGPClassifier(kernel=kernel, n_inducing=20, random_state=0)
    full = GPClassifier(kernel=kernel)
    return {"X": X, "y": y, "models": {"logit, 20 points": sparse.fit(X, y), "logit, full": full.fit(X, y)}}


def table(parts: dict[str, dict[str, Any]]) -> pd.DataFrame:
    """Bound and passes of every fit, and what the kernel became."""
    rows = {}
    for what, part in parts.items():
        for name, model in part["models"].items():
            sizes = len(part["X"]), model.lower_bound_, model.n_iter_
            rows[what, name] = [*sizes, getattr(model, "noise_variance_", None), str(model.kernel_)]
    heads = ["rows", "bound (nats)", "passes", "noise variance", "kernel"]
    return pd.DataFrame.from_dict(rows, orient="index", columns=heads)


def draw_line(part: dict[str, Any], truth: np.ndarray, ax: Any) -> None:
    """Data, truth, mean and bands of the first model; where its inducing points lie."""
    name, model = next(iter(part["models"].items()))
    low, high = model.predict_interval(GRID, coverage=0.9).T
    x = GRID[:, 0]
    ax.fill_between(x, low, high, alpha=0.25, linewidth=0, label="90 % of y")
    if model.likelihood_.traits.discrete:
        ax.plot(x, model.predict(GRID), color="C0", label=f"mean, {name}")
    else:
        m, v = model.predict_latent(GRID)
        ax.fill_between(x, m - 1.645 * np.sqrt(v), m + 1.645 * np.sqrt(v), alpha=0.4, linewidth=0, color="C0")
        ax.plot(x, m, color="C0", label=f"mean and 90 % of f, {name}")
        exact = part["models"]["exact"]
        ax.plot(x, exact.predict(GRID), "C1--", linewidth=1, label="mean, exact")
    ax.plot(x, truth, "k:", linewidth=1, label="truth")
    ax.plot(part["X"][:, 0], part["y"], "k.", markersize=3)
    ax.plot(
        model.inducing_points_[:, 0],
        np.full(len(model.inducing_points_), 0.02),
        "C3|",
        markersize=10,
        transform=ax.get_xaxis_transform(),
        label="inducing points",
    )
    ax.set(xlabel="x", xlim=(-1, 11))
    ax.legend(frameon=False, fontsize="small")


def draw_plane(part: dict[str, Any], ax: Any) -> None:
    """Probabilities of the first model as colours, contours of the second, data and inducing points."""
    X, y = part["X"], part["y"]
    sides = [np.linspace(X[:, j].min() - 1.0, X[:, j].max() + 1.0, 80) for j in range(2)]
    grid = np.stack(np.meshgrid(*sides), axis=-1)
    sparse, full = (
        model.predict_proba(grid.reshape(-1, 2))[:, 1].reshape(grid.shape[:2]) for model in part["models"].values()
    )
    shades = ax.contourf(*sides, sparse, levels=np.linspace(0, 1, 11), cmap="RdBu_r", alpha=0.7)
    lines = ax.contour(*sides, full, levels=[0.1, 0.5, 0.9], colors="k", linewidths=1)
    ax.clabel(lines, fontsize="small")
    for label, colour in ((0, "C0"), (1, "C3")):
        ax.plot(*X[y == label].T, ".", color=colour, markersize=4)
    ax.plot(*part["models"]["logit, 20 points"].inducing_points_.T, "k+", markersize=8)
    ax.set(title="Classes: P(red); lines: full GP", xlabel="x[0]", ylabel="x[1]")
    ax.figure.colorbar(shades, ax=ax)


def draw(parts: dict[str, dict[str, Any]], path: Path) -> None:
    """Write the figure."""
    import matplotlib.pyplot as plt

    truth = curve(GRID[:, 0])
    figure, axes = plt.subplots(1, 3, figsize=(15, 4.2), width_ratios=[1, 1, 1.15])
    draw_line(parts["measured"], truth, axes[0])
    axes[0].set(title="Measured: Gaussian noise", ylabel="y", ylim=(-3.2, 4.5))
    draw_line(parts["counted"], np.exp(1.0 + truth), axes[1])
    axes[1].set(title="Counted: Poisson", ylabel="count", ylim=(-1.5, 27))
    draw_plane(parts["labelled"], axes[2])
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.tight_layout()
    figure.savefig(path, dpi=110, bbox_inches="tight")
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description="Gaussian processes with bands.")
    parser.add_argument("--output", type=Path, default=Path("demo-output"), help="folder of the figure")
    path = parser.parse_args().output / "gp_bands.png"
    start = time.perf_counter()
    parts = {"measured": measured(), "counted": counted(), "labelled": labelled()}
    print(table(parts).to_string(float_format="{:.3f}".format), end="\n\n")
    draw(parts, path)
    print(f"wrote {path}")
    print(f"{time.perf_counter() - start:.0f} seconds in all")


if __name__ == "__main__":
    main()
