"""90 % intervals of coefficients of a mean and of a scale, or of zeros, with nothing else set.

Three columns each: the second latent has the first two. Standard normal columns; coefficients of f are 0.4, -0.2 and
0, of the second latent 0.4 and 0. Then articles of biochemists under a flat prior, beside stored fits of R's pscl:
this needs their folder, as `truth.responses` does.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from benchmarks._lib import Array
from benchmarks._lib.tables import arguments, progress, report
from benchmarks.truth.responses import distances, read, references
from sksvi import BayesianGLMRegressor

SIZES, SETS = (100, 400), 200
F, G = pd.Series({"x1": 0.4, "x2": -0.2, "x3": 0.0}), pd.Series({"x1": 0.4, "x2": 0.0})


def gaussian(f: Array, g: Array, rng: Any) -> Array:
    return np.asarray(f + np.exp(g - 0.5) * rng.standard_normal(len(f)))


def negative_binomial(f: Array, g: Array, rng: Any) -> Array:
    shape = np.exp(g + 0.5)
    return np.asarray(rng.poisson(np.exp(f + 1.0) * rng.gamma(shape) / shape), float)


def gamma(f: Array, g: Array, rng: Any) -> Array:
    shape = np.exp(g + 0.5)
    return np.asarray(np.exp(f) * rng.gamma(shape) / shape)


def inflated(f: Array, g: Array, rng: Any) -> Array:
    zero = rng.random(len(f)) < 1.0 / (1.0 + np.exp(1.0 - g))
    return np.where(zero, 0.0, rng.poisson(np.exp(f + 1.0)))


CASES = {
    "gaussian": ("scale", gaussian),
    "gamma": ("scale", gamma),
    "negative-binomial": ("scale", negative_binomial),
    "zero-inflated-poisson": ("zero", inflated),
}


def run(likelihood: str, n: int, sets: int, seed: int = 0) -> dict[str, Any]:
    """The row of a likelihood: what intervals of coefficients of both latents hold."""
    (latent, draw), held = CASES[likelihood], {"f": [], "second": []}  # type: ignore[var-annotated]
    for number in range(sets):
        rng = np.random.default_rng([seed, n, number])
        X = pd.DataFrame(rng.standard_normal((n, 3)), columns=list(F.index))
        y = draw(X.to_numpy() @ F.to_numpy(), X[G.index].to_numpy() @ G.to_numpy(), rng)
        model = BayesianGLMRegressor(likelihood=likelihood, **{f"{latent}_features": list(G.index)}).fit(X, y)
        table = model.summary()
        for name, truth, prefix in (("f", F, ""), ("second", G, f"{latent}:")):
            rows = table.loc[[prefix + column for column in truth.index]]
            held[name].append(((rows["lower"] <= truth.to_numpy()) & (truth.to_numpy() <= rows["upper"])).mean())
    row: dict[str, Any] = {"likelihood": likelihood, "second latent": latent, "rows": n, "sets": sets}
    for name, shares in held.items():
        row |= {f"{name} covers": np.mean(shares), f"se ({name})": np.std(shares) / np.sqrt(sets)}
    return row


def articles() -> list[dict[str, Any]]:
    """Zeros with columns of their own beside pscl: of a hurdle it has the probability of none but zero."""
    data, rows = read("bioChemists"), []
    X, names = data[["kid5", "phd", "ment"]].astype(float), {}
    X["femWomen"], X["marSingle"] = (data["fem"] == "Women").astype(float), (data["mar"] == "Single").astype(float)
    for name in ("intercept", *X):
        theirs = "(Intercept)" if name == "intercept" else name
        names |= {name: f"count_{theirs}", f"zero:{name}": f"zero_{theirs}"}
    for kind in ("hurdle poisson", "zero-inflated poisson"):
        peer = next(one for one in references() if one["set"] == "bioChemists" and one["model"] == kind)
        sign = -1.0 if kind.startswith("hurdle") else 1.0
        means = {key: value * (sign if key.startswith("zero_") else 1.0) for key, value in peer["est"].items()}
        likelihood = kind.replace(" ", "-")
        model = BayesianGLMRegressor(likelihood=likelihood, zero_features="all", prior_precision="flat")
        table = model.fit(X, data["art"].astype(float)).summary()
        for part in ("count", "zero"):
            own = {ours: theirs for ours, theirs in names.items() if theirs.startswith(part)}
            rows.append({"model": kind, "part": part, **distances(table, means, peer["se"], own)})
    return rows


def main(quick: bool = False) -> None:
    rows: list[dict[str, Any]] = []
    for likelihood in CASES:
        for n in SIZES:
            rows.append(run(likelihood, n, 3 if quick else SETS))
            progress(rows[-1])
    notes = [
        "Shares of coefficients whose 90 % interval in `summary()` holds the truth, of f and of the second latent."
    ]
    report("truth/two_latents", "Intervals of two latents", rows, notes, quick)
    if not quick:
        report("truth/two_latents_articles", "Articles of biochemists beside pscl", articles())


if __name__ == "__main__":
    main(arguments(__doc__))
