"""Networks that take rows in portions against one fit to all rows.

The same rows in portions of each size, in the order they were drawn. Error: distance of the posterior mean from that of
one fit, in deviations of that fit, the mean and the worst over global nodes and data sets; ratio: of the deviations.
"""

from __future__ import annotations

from time import process_time
from typing import Any

import numpy as np

from benchmarks._lib.tables import arguments, progress, report

ROWS, SETS, SIZES = 1000, 5, (20, 100, 500)


def networks() -> dict[str, Any]:
    """By name the nodes, and the names of the global ones."""
    from sksvi.network import Gamma, Gaussian, Likelihood, Link

    line = Gaussian(0.0, 1.0, size=3, covariance="full")
    counts = {
        integrated: {
            "centre": Gaussian(0.0, 1.0),
            "precision": Gamma(4.0, 2.0),
            "f": Gaussian("centre", "precision", size="y", integrated=integrated),
            "y": Likelihood("poisson", "f"),
        }
        for integrated in (False, True)
    }
    design = Link("w", design="X")
    return {
        "line": ({"w": line, "y": Gaussian(design, 4.0)}, ("w",)),
        "line, precision unknown": ({"w": line, "t": Gamma(1.0, 1.0), "y": Gaussian(design, "t")}, ("w", "t")),
        "logistic line": ({"w": line, "y": Likelihood("logit", design)}, ("w",)),
        "counts, locals with a q each": (counts[False], ("centre", "precision")),
        "counts, locals integrated": (counts[True], ("centre", "precision")),
    }


def data_of(name: str, n: int, seed: int) -> dict[str, np.ndarray]:
    """Rows of a network."""
    rng = np.random.default_rng(seed)
    if name.startswith("counts"):
        return {"y": rng.poisson(np.exp(rng.normal(1.0, 0.7, n))).astype(float)}
    X = rng.standard_normal((n, 3))
    f = X @ [1.0, -1.0, 0.5]
    return {"X": X, "y": (rng.random(n) < 1 / (1 + np.exp(-f))) * 1.0 if "logistic" in name else rng.normal(f, 0.5)}


def main(quick: bool = False) -> int:
    """How many rows fall short: a conjugate network that is not one fit to 1e-8 deviations."""
    from sksvi.network import Network

    n, sets, sizes = (80, 1, (20,)) if quick else (ROWS, SETS, SIZES)
    rows, short = [], 0
    for name, (nodes, names) in networks().items():
        whole, seconds = [], 0.0
        for seed in range(sets):
            started = process_time()
            whole.append(Network(nodes).fit(data_of(name, n, seed)))
            seconds += process_time() - started
        for size in sizes:
            errors, ratios, bounds, started = [], [], [], process_time()
            for seed, fit in enumerate(whole):
                data, stream = data_of(name, n, seed), Network(nodes)
                for first in range(0, n, size):
                    stream.partial_fit({key: values[first : first + size] for key, values in data.items()})
                for node in names:
                    q, wanted = stream.posterior_[node], fit.posterior_[node]
                    errors.append(np.abs(q.mean - wanted.mean) / wanted.std)
                    ratios.append(q.std / wanted.std)
                bounds.append(stream.lower_bound_ - fit.lower_bound_)
            row = {
                "network": name,
                "rows of a portion": size,
                "error, mean": float(np.mean(np.concatenate(errors))),
                "error, worst": float(np.max(np.concatenate(errors))),
                "ratio, least": float(np.min(np.concatenate(ratios))),
                "ratio, largest": float(np.max(np.concatenate(ratios))),
                "bound less that of one fit": float(np.mean(bounds)),
                "CPU seconds": (process_time() - started) / sets,
                "CPU seconds, one fit": seconds / sets,
            }
            rows.append(row)
            progress(row)
            short += name == "line" and row["error, worst"] > 1e-8
    report(
        "network/streams",
        "Portions of rows against one fit",
        rows,
        [f"{sets} data sets of {n} rows. Errors in posterior deviations of one fit. Seconds of one thread."],
        quick,
    )
    return short


if __name__ == "__main__":
    main(arguments(__doc__))
