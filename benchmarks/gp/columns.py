"""Intervals of noise, length scales and new y of a process of many columns, of few rows, and of many.

f is of a process with an RBF kernel of which five columns have the length scales of LENGTHS and the others none; noise
0.3. "density": nodes of more than twelve hyperparameters weigh what the density is there, and are followed of any
number of rows, as before they weighed as normals. held: share of 90 % intervals that hold the truth. width: of the
noise's interval, as the standard deviation of a logarithm, over sqrt(2 / rows). NLL: nats a new row.
"""

from __future__ import annotations

import time
import warnings
from unittest.mock import patch

import numpy as np

from benchmarks._lib import Array
from benchmarks._lib.tables import arguments, progress, report

LENGTHS, NOISE, N_NEW = np.array([1.5, 2.0, 2.5, 3.0, 4.0]), 0.3, 200
#: Rows, columns, sets.
CASES = [(40, 10, 40), (40, 24, 40), (60, 5, 40), (150, 24, 24), (400, 20, 24), (150, 8, 24), (7000, 8, 6)]


def drawn(seed: int, n: int, d: int) -> tuple[Array, Array]:
    """Rows and y, of which the last are new."""
    from scipy.spatial.distance import cdist

    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.7, 1.7, (n + N_NEW, d))
    used = X[:, : len(LENGTHS)] / LENGTHS
    K = np.exp(-0.5 * cdist(used, used, "sqeuclidean"))
    K.flat[:: len(K) + 1] += 1e-8
    f = np.linalg.cholesky(K) @ rng.standard_normal(len(K))
    return X, f + NOISE * rng.standard_normal(len(f))


def judged(seed: int, n: int, d: int) -> list[float]:
    """Whether intervals hold noise, length scales and new y; width; density; seconds."""
    from sksvi.gaussian_process import SparseGPRegressor

    X, y = drawn(seed, n, d)
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = SparseGPRegressor(random_state=0).fit(X[:n], y[:n])
    seconds, table = time.process_time() - began, model.summary()
    noise = table.loc["noise_variance"]
    scales = table.loc[[f"k2__length_scale[{k}]" for k in range(len(LENGTHS))]]
    low, high = model.predict_interval(X[n:], 0.9).T
    width = np.log(noise["upper"] / noise["lower"]) / (2.0 * 1.6449) / np.sqrt(2.0 / n)
    return [
        noise["lower"] <= NOISE**2 <= noise["upper"],
        np.mean((scales["lower"] <= LENGTHS) & (LENGTHS <= scales["upper"])),
        np.mean((low <= y[n:]) & (y[n:] <= high)),
        width,
        -float(model.log_predictive_density(X[n:], y[n:]).mean()),
        seconds,
    ]


def main(quick: bool = False) -> None:
    from sksvi.models.gp import evaluations, integrated

    rows = []
    for n, d, sets in [(60, 14, 2)] if quick else CASES:
        for name, most in (("default", None), ("density", 2**62)):
            with (
                patch.object(integrated, "MOST_WEIGHED", most or integrated.MOST_WEIGHED),
                patch.object(evaluations, "NORMAL_NUMBERS", most or evaluations.NORMAL_NUMBERS),
            ):
                found = np.array([judged(seed, n, d) for seed in range(sets)], float)
            names = ("noise held", "scales held", "new y held", "width", "NLL", "CPU seconds")
            rows.append({"rows": n, "columns": d, "sets": sets, "nodes": name})
            rows[-1] |= dict(zip(names, found.mean(axis=0).tolist(), strict=True))
            progress(rows[-1])
    notes = ["Means over sets; standard errors of what is held 0.03 to 0.12 for the noise, 0.02 to 0.05 for scales."]
    report("gp/columns", "Intervals of a process of many columns, of few rows, and of many", rows, notes, quick)


if __name__ == "__main__":
    main(arguments(__doc__))
