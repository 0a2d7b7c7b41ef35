"""Figure 2 of Sheth & Khardon (MC-SSVI): mixed effects GLM on counts, algorithms and bounds, test NLL by seconds.

Data as theirs (``sksvi.datasets.make_gme``: 20,000 x 500, Poisson with softplus rate, w2 from Rayleigh(5)), split
80/20, standardised on the training part, prior N(0, I), mini-batches of 2,000. Panel "paper": ten outer and a hundred
inner Monte Carlo samples, natural steps at 1/t, AdaGrad with rate 1; panel "default": quadrature and our rates. Seconds
are the fit's own clock, scoring left out.
A second table has the three bounds at convergence (full batch, quadrature) and what the Rayleigh q(w2) costs.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from benchmarks._lib import Array
from benchmarks._lib.tables import arguments, progress, report, store_figure
from benchmarks.mixed._peers import integrated

BATCH, SEED = 2000, 0
ALGORITHMS = ("mc-ssvi", "h-mc-ssvi", "s-dsvi")
BOUNDS = ("optimal", "simple", "mean-field")
#: Scale of the Rayleigh prior of w2, in the model and of the data.
NOISE_PRIOR_SCALE = 5.0
COMMON: dict[str, Any] = {"prior_precision": 1.0, "fit_intercept": False, "random_state": SEED}


def data(quick: bool) -> dict[str, Any]:
    """Training and test part, standardised, and the truth."""
    from sksvi.datasets import make_gme

    bunch = make_gme(*((3000, 30) if quick else (20_000, 500)), random_state=SEED)
    n = int(0.8 * len(bunch.target))
    mean, sd = bunch.data[:n].mean(axis=0), bunch.data[:n].std(axis=0)
    X = (bunch.data - mean) / sd
    return {
        "train": (X[:n], bunch.target[:n]),
        "test": (X[n:], bunch.target[n:]),
        "training mean": bunch.data[:n] @ bunch.coef,
        "latent mean": bunch.data[n:] @ bunch.coef,
        "w2": bunch.noise_variance,
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


def nll(model: Any, part: tuple[Array, Array]) -> float:
    return float(-np.mean(model.log_predictive_density(*part)))


def trajectory(found: dict[str, Any], name: str, bound: str, setting: str, passes: list[int]) -> list[dict[str, Any]]:
    """One line per number of passes of one fit, which goes on by ``warm_start``; a failure says why and ends it."""
    from sksvi.mixed_effects import GMERegressor

    rows: list[dict[str, Any]] = []
    model = GMERegressor(
        likelihood="poisson-softplus",
        algorithm=algorithm(name, setting),
        bound=bound,
        noise_prior_scale=NOISE_PRIOR_SCALE,
        expectation="monte-carlo" if setting == "paper" else "quadrature",
        batch_size=min(BATCH, len(found["train"][1]) // 4),
        tol=0.0,
        warm_start=True,
        **COMMON,
    )
    seconds, before = 0.0, 0
    for n in passes:
        row: dict[str, Any] = {"setting": setting, "algorithm": name, "fitted bound": bound, "passes": n}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            try:
                model.set_params(max_iter=n - before).fit(*found["train"])
            except ValueError as error:
                rows.append({**row, "seconds": None, "test NLL": None, "E[w2]": None, "note": str(error)[:160]})
                break
        seconds, before = seconds + float(model.history_["seconds"].iloc[-1]), n
        score = nll(model, found["test"])
        rows.append({**row, "seconds": seconds, "test NLL": score, "E[w2]": float(model.noise_variance_), "note": ""})
        progress(rows[-1])
    return rows


def references(found: dict[str, Any]) -> list[dict[str, Any]]:
    """Test NLL of the GLMs with the same prior, and of the true parameters."""
    from sksvi import BayesianGLMRegressor

    rows = []
    for likelihood in ("poisson-softplus", "poisson", "negative-binomial"):
        model = BayesianGLMRegressor(likelihood=likelihood, **{**COMMON, "fit_intercept": likelihood[-1] == "l"})
        model.fit(*found["train"])
        seconds = float(model.history_["seconds"].iloc[-1])
        rows.append({"model": f"GLM, {likelihood}", "seconds": seconds, "test NLL": nll(model, found["test"])})
    truth = integrated(
        "poisson-softplus", found["test"][1], found["latent mean"], np.full(len(found["test"][1]), found["w2"])
    )
    rows.append({"model": "the true parameters", "E[w2]": found["w2"], "test NLL": float(-truth.mean())})
    return rows


def converged(found: dict[str, Any], quick: bool) -> list[dict[str, Any]]:
    """The three bounds at their optima."""
    from sksvi.mixed_effects import GMERegressor

    rows: list[dict[str, Any]] = []
    for bound in BOUNDS:
        exact = {
            "noise_prior_scale": NOISE_PRIOR_SCALE,
            "batch_size": None,
            "expectation": "quadrature",
            "tol": 1e-7,
            "max_iter": 500,
        }
        model = GMERegressor(likelihood="poisson-softplus", bound=bound, **exact, **COMMON)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(*found["train"])
        rows.append(
            {
                "model": f"GME, {bound}",
                "bound": model.lower_bound_,
                "passes": model.n_iter_,
                "seconds": float(model.history_["seconds"].iloc[-1]),
                "E[w2]": float(model.noise_variance_),
                "sd[w2]": float(model.posterior_["noise"].std[0]),
                "test NLL": nll(model, found["test"]),
            }
        )
        progress(rows[-1])
        if bound == "optimal":
            rows += without_rayleigh(model, found)
    return rows


def noise_posterior(mean: Array, variance: Array, y: Array, guess: float) -> tuple[float, float]:
    """Mean and sd of p(w2 | y) for u ~ N(mean, variance): prior times exp(E log p(y | u, w2)), on a grid."""
    from scipy.interpolate import CubicSpline

    grid = guess * np.exp(np.linspace(-0.8, 0.6, 15))
    z, share = np.polynomial.hermite_e.hermegauss(5)
    points = [(mean + np.sqrt(variance) * node, s) for node, s in zip(z, share / share.sum(), strict=True)]
    points = points if np.any(variance) else [(mean, 1.0)]
    values = [
        sum(s * integrated("poisson-softplus", y, u, np.full(len(y), w2), 301).sum() for u, s in points) for w2 in grid
    ]
    fine = np.linspace(grid[0], grid[-1], 4001)
    log_p = CubicSpline(grid, np.array(values))(fine) + np.log(fine) - fine**2 / 50.0
    p = np.exp(log_p - log_p.max())
    p /= p.sum()
    w2 = float(p @ fine)
    return w2, float(np.sqrt(p @ (fine - w2) ** 2))


def without_rayleigh(model: Any, found: dict[str, Any]) -> list[dict[str, Any]]:
    """The posterior of w2 given the optimal bound's q(w1), and given the true w1: what a Rayleigh q keeps of it."""
    (X, y), (X_test, y_test) = found["train"], found["test"]
    q, guess = model.posterior_["weights"], float(model.noise_variance_)
    w2, sd = noise_posterior(X @ q.mean, np.einsum("ij,jk,ik->i", X, q.cov, X), y, guess)
    variance = np.einsum("ij,jk,ik->i", X_test, q.cov, X_test) + w2
    nll = -integrated("poisson-softplus", y_test, X_test @ q.mean, variance).mean()
    rows = [{"model": "its q(w1), w2 by its posterior", "E[w2]": w2, "sd[w2]": sd, "test NLL": float(nll)}]
    w2, sd = noise_posterior(found["training mean"], np.zeros(len(y)), y, guess)
    return [*rows, {"model": "the true w1, w2 by its posterior", "E[w2]": w2, "sd[w2]": sd}]


def draw(rows: list[dict[str, Any]], lines: list[dict[str, Any]]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(11, 5.5), sharey=True, layout="constrained")
    styles = dict(zip(BOUNDS, ("-", "--", ":"), strict=True))
    for ax, setting in zip(axes, ("paper", "default"), strict=True):
        for i, name in enumerate(ALGORITHMS):
            for bound in BOUNDS:
                mine = [r for r in rows if (r["setting"], r["algorithm"], r["fitted bound"]) == (setting, name, bound)]
                points = [(r["seconds"], r["test NLL"]) for r in mine if r["test NLL"] is not None]
                if points:
                    label = f"{name}, {bound}"
                    ax.plot(*zip(*points, strict=True), styles[bound], color=f"C{i}", marker=".", label=label)
        for i, line in enumerate(lines):
            ax.axhline(line["test NLL"], color="0.3", lw=0.8 + 0.4 * i, ls=("-", "--", ":", "-.")[i % 4])
            at = {"xycoords": ("axes fraction", "data"), "ha": "right", "va": "bottom", "fontsize": 7}
            ax.annotate(line["model"], (0.99, line["test NLL"]), **at)
        ax.set(xscale="log", xlabel="seconds", title=setting)
    axes[0].set_ylabel("test NLL, nats per row")
    figure.legend(*axes[0].get_legend_handles_labels(), fontsize=8, ncols=3, loc="outside lower center")
    store_figure("mixed/figure2", figure)


def bounds(found: dict[str, Any], quick: bool) -> list[dict[str, Any]]:
    """The table of the bounds at convergence; returns the lines of the figure."""
    lines = references(found)
    final = converged(found, quick)
    best = {row["model"]: row["bound"] for row in final if "bound" in row}
    gain = [best["GME, optimal"] - best[f"GME, {other}"] for other in ("simple", "mean-field")]
    notes = [
        f"True w2 {found['w2']:.3f}. Optimal bound above the simple one by {gain[0]:.1f} nats, above the mean field by "
        f"{gain[1]:.1f}. A Rayleigh's sd is 0.52 of its mean whatever the data say; the posteriors of w2 are on a grid."
    ]
    keys = ("model", "bound", "passes", "seconds", "E[w2]", "sd[w2]", "test NLL")
    everything = [{key: row.get(key) for key in keys} for row in (*final, *lines)]
    report("mixed/figure2_bounds", "Mixed effects GLM: the bounds at convergence", everything, notes, quick)
    return lines


def main(quick: bool = False) -> None:
    found = data(quick)
    lines = bounds(found, quick)
    rows: list[dict[str, Any]] = []
    passes = [1, 4] if quick else [1, 2, 4, 8]
    for setting in ("paper", "default"):
        for bound in BOUNDS:
            for name in ALGORITHMS:
                rows += trajectory(found, name, bound, setting, passes)
    notes = ["The figure is results/mixed/figure2.png. Two cores."]
    report("mixed/figure2", "Mixed effects GLM: algorithms and bounds (Figure 2)", rows, notes, quick)
    if not quick:
        draw(rows, [line for line in lines if line["model"] != "GLM, poisson"])


if __name__ == "__main__":
    main(arguments(__doc__))
