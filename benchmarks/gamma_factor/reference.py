"""Long Gibbs runs of small gamma factor models, stored as moments of loadings and of the covariance of rows.

``python -m benchmarks gamma_factor.reference`` rewrites results/gamma_factor/reference.json; it is read by
benchmarks/tests/test_gamma_factor_reference.py. With prior shape 1 a loading given all else is a truncated normal, so
that every step of the sampler is exact. Draws whose factors have changed places are put in the order of the first
chain.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.special import log_ndtr, ndtri_exp

from benchmarks._lib import Array
from benchmarks._lib.tables import RESULTS, arguments, progress, report

#: A long run: done anew only when it is named.
STORED = True
N_CHAINS, N_DRAWS, N_WARM_UP, SEED = 4, 20_000, 1000, 20261122
NOISE, RATE = 0.5, 1.0
#: Rows, columns and factors.
SETTINGS = {"one factor": (60, 5, 1), "two factors": (200, 6, 2)}


def rows(name: str) -> Array:
    """Rows whose factors load on columns of their own, and on one that they share."""
    n, d, k = SETTINGS[name]
    rng = np.random.default_rng([SEED, n])
    loadings = rng.uniform(0.4, 1.4, (k, d)) * (np.arange(d) % k == np.arange(k)[:, None])
    loadings[:, 0] = 0.8
    return rng.standard_normal((n, k)) @ loadings + np.sqrt(NOISE) * rng.standard_normal((n, d))


def truncated(mean: Array, sd: Array, rng: np.random.Generator) -> Array:
    """Normal draws that are positive, by the logarithm of the upper tail."""
    tail = log_ndtr(mean / sd) + np.log(rng.uniform(size=mean.shape))
    return mean - sd * ndtri_exp(tail)


def chain(Y: Array, k: int, seed: int) -> Array:
    """Draws of the loadings (draws, K, D)."""
    rng = np.random.default_rng([SEED, seed])
    L, found = rng.gamma(1.0, 1.0, (k, Y.shape[1])), []
    for number in range(N_WARM_UP + N_DRAWS):
        precision = np.eye(k) + L @ L.T / NOISE
        root = np.linalg.inv(np.linalg.cholesky(precision))  # precision⁻¹ = rootᵀ root
        x = (Y @ L.T / NOISE) @ root.T @ root + rng.standard_normal((len(Y), k)) @ root
        squares, products = x.T @ x, x.T @ Y
        for j in range(k):
            apart = products[j] - squares[j] @ L + squares[j, j] * L[j]
            mean = (apart - NOISE * RATE) / squares[j, j]
            L[j] = truncated(mean, np.full(len(mean), np.sqrt(NOISE / squares[j, j])), rng)
        if number >= N_WARM_UP:
            found.append(L.copy())
    return np.array(found)


def ordered(draws: Array) -> Array:
    """Chains (C, S, K, D) with the factors of each in the order that is nearest to the first one's mean."""
    first = draws[0].mean(0)
    out = []
    for own in draws:
        distance = np.square(own.mean(0)[:, None] - first).sum(-1)
        out.append(own[:, linear_sum_assignment(distance.T)[1]])
    return np.array(out)


def moments(draws: Array) -> dict[str, Array]:
    """Mean and sd over draws (C, S, ...), and the error of the mean from batches of 500."""
    batches = draws.reshape(-1, 500, *draws.shape[2:]).mean(1)
    return {
        "mean": draws.mean((0, 1)),
        "sd": draws.std((0, 1)),
        "mean_error": batches.std(0, ddof=1) / np.sqrt(len(batches)),
        "between": draws.mean(1).std(0, ddof=1),
    }


def main(quick: bool = False) -> None:
    stored: dict[str, Any] = {}
    table: list[dict[str, Any]] = []
    for name, (_, _, k) in SETTINGS.items():
        Y = rows(name)
        draws = ordered(np.array([chain(Y, k, seed) for seed in range(N_CHAINS)]))
        covariance = np.swapaxes(draws, -1, -2) @ draws + NOISE * np.eye(draws.shape[-1])
        stored[name] = {"loadings": moments(draws), "covariance": moments(covariance)}
        for what, own in stored[name].items():
            error, between = (
                float(np.max(own[part] / np.maximum(own["sd"], 1e-12))) for part in ("mean_error", "between")
            )
            table.append({"setting": name, "what": what, "largest error / sd": error, "between chains / sd": between})
            progress(table[-1])
    report("gamma_factor/reference_quality", "Gibbs runs of gamma factor models", table, [], quick)
    if not quick:
        plain = {
            name: {
                what: {part: np.round(value, 7).tolist() for part, value in own.items()} for what, own in parts.items()
            }
            for name, parts in stored.items()
        }
        (RESULTS / "gamma_factor/reference.json").write_text(json.dumps(plain, indent=1) + "\n")


if __name__ == "__main__":
    main(arguments(__doc__))
