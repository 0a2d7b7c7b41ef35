"""Seconds and memory of generalized PMF: sweeps against their unavoidable products, diagonal sweeps, sizes, scale.

A sweep updates every user and every item once. The two products that no full-covariance sweep can do without are, for
every entry of both orders, one K x K matrix times a vector and one weighted K x K matrix added to a sum; they are
measured alone, by BLAS (dsymv, daxpy) on one thread in the same process. Memory and scale run in fresh processes.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from benchmarks._lib import Array
from benchmarks._lib.tables import arguments, progress, report
from benchmarks._lib.timing import fresh_process, median
from benchmarks.factorization._data import archive, whole_fit


def movielens() -> tuple[Array, Array]:
    """All of MovieLens 1M."""
    z = archive("movielens_1m")
    return np.c_[z["user"], z["item"]], z["rating"].astype(float)


def seconds_per_sweep(pairs: Array, y: Array, sweeps: int, **settings: Any) -> float:
    """Median seconds from one pass to the next, the first (start, compilation) left out."""
    from sksvi.decomposition import GeneralizedPMF

    model = GeneralizedPMF(max_iter=sweeps + 1, tol=0.0, uncertainty="variational", random_state=0, **settings)
    whole_fit(model, (pairs, y))
    return median(np.diff(model.history_["seconds"].to_numpy())[:sweeps])


def products(pairs: Array, K: int) -> float:
    """Seconds of both products over the entries in both orders, one thread of BLAS."""
    from scipy.linalg.blas import daxpy, dsymv
    from threadpoolctl import threadpool_limits

    rng = np.random.default_rng(0)
    sides = [np.unique(column, return_inverse=True)[1] for column in pairs.T]
    root = rng.standard_normal((K, K)) / np.sqrt(K)
    one = np.asfortranarray(root @ root.T)
    covariances = [np.repeat(one[None], side.max() + 1, axis=0) for side in sides]
    total = 0.0
    with threadpool_limits(1):
        for own in range(2):
            order = np.argsort(sides[own], kind="stable")
            own_of, other_of = sides[own][order].tolist(), sides[1 - own][order].tolist()
            matrices, flat = list(covariances[1 - own]), list(covariances[1 - own].reshape(-1, K * K))
            mean, sums = rng.standard_normal(K), np.zeros((len(covariances[own]), K * K))
            began = time.perf_counter()
            for i, j in zip(own_of, other_of, strict=True):
                dsymv(1.0, matrices[j].T, mean)
                daxpy(flat[j], sums[i], a=0.3)
            total += time.perf_counter() - began
    return total


def speed(quick: bool) -> None:
    pairs, y = movielens()
    if quick:
        pairs, y = pairs[:20_000], y[:20_000]
    rows: list[dict[str, Any]] = []
    K = 20 if quick else 100
    alone = products(pairs, K)
    rows.append({"what": f"the two products by BLAS, K = {K}, one thread", "seconds": alone})
    progress(rows[-1])
    calls = products(pairs, 1)
    rows.append({"what": "of them the calls, with K = 1", "seconds": calls, "times the products": calls / alone})
    progress(rows[-1])
    for jobs in (1, 2):
        for likelihood in ("gaussian", "ordinal"):
            spent = seconds_per_sweep(pairs, y, 2, n_components=K, likelihood=likelihood, n_jobs=jobs)
            name = f"full sweep, K = {K}, {likelihood}, {jobs} thread{'s' * (jobs > 1)}"
            rows.append({"what": name, "seconds": spent, "times the products": spent / alone})
            progress(rows[-1])
    for jobs in (1, 2):
        for likelihood in ("gaussian", "ordinal", "poisson-softplus"):
            settings = {"n_components": 32, "covariance": "diag", "likelihood": likelihood, "n_jobs": jobs}
            spent = seconds_per_sweep(pairs, y, 4, **settings)
            name = f"diagonal sweep, K = 32, {likelihood}, {jobs} thread{'s' * (jobs > 1)}"
            rows.append({"what": name, "seconds": spent, "seconds per million entries": spent / len(y) * 1e6})
            progress(rows[-1])
    columns = ("what", "seconds", "times the products", "seconds per million entries")
    notes = [f"{len(y):,} ratings. A sweep updates all users and all items; medians, the first sweep left out."]
    report(
        "factorization/speed",
        "PMF: seconds of a sweep",
        [{c: row.get(c) for c in columns} for row in rows],
        notes,
        quick,
    )


#: What a fresh process runs: simulated entries, a fit of a few sweeps, the peak above what the data need.
FIT = """
import json, time, warnings
import numpy as np
from benchmarks._lib.timing import peak_memory, reset_peak
from sksvi.decomposition import GeneralizedPMF
warnings.simplefilter("ignore")
n, users, items = {n}, {users}, {items}
rng = np.random.default_rng(0)
pairs = np.column_stack([rng.integers(0, size, n, dtype=np.int32) for size in (users, items)])
u, v = rng.standard_normal((users, 4), dtype=np.float32), rng.standard_normal((items, 4), dtype=np.float32)
y = np.einsum("ij,ij->i", u[pairs[:, 0]], v[pairs[:, 1]]) + rng.standard_normal(n, dtype=np.float32)
y = y.astype(float)
GeneralizedPMF(n_components=2, max_iter=1, covariance="{covariance}").fit(pairs[:1000], y[:1000])
reset_peak()
before = peak_memory()
options = dict(max_iter={sweeps}, tol=0.0, uncertainty="variational", random_state=0)
model = GeneralizedPMF({K}, covariance="{covariance}", **options)
began = time.perf_counter()
model.fit(pairs, y)
seconds = model.history_["seconds"].to_numpy()
print(json.dumps(dict(
    whole=time.perf_counter() - began, sweep=float(np.median(np.diff(seconds))),
    before=before, peak=peak_memory(), rows=len(model.users_) + len(model.items_),
)))
"""


def sizes(quick: bool) -> None:
    """Peak memory of full covariances against twice the factors, covariances and entries in both orders."""
    rows = []
    for K, users, items, n in (
        [(10, 600, 400, 5000)] if quick else [(100, 6000, 4000, 200_000), (32, 6040, 3706, 10**6)]
    ):
        found = fresh_process(FIT.format(n=n, users=users, items=items, K=K, covariance="full", sweeps=2))
        held = found["rows"] * (K + K * (K + 1) / 2) * 8 / 2**20
        entries = 2 * n * (4 + 8) / 2**20
        rows.append(
            {
                "K": K,
                "users and items": found["rows"],
                "entries": n,
                "factors and packed covariances, MiB": held,
                "entries in both orders, MiB": entries,
                "fit's peak above its data, MiB": found["peak"] - found["before"],
                "whole process, MiB": found["peak"],
                "ratio to twice the first and the entries": (found["peak"] - found["before"]) / (2 * held + entries),
            }
        )
        progress(rows[-1])
    notes = ["Peak resident memory of a fresh process from the fit's start to its end, less what it held at the start."]
    report("factorization/speed_memory", "PMF: memory of full covariances", rows, notes, quick)


def scale(quick: bool) -> None:
    """Simulated ratings, diagonal covariances, K = 32: time per sweep by entries."""
    rows = []
    for n in [20_000, 40_000] if quick else [2_500_000, 5_000_000, 10_000_000, 20_000_000]:
        users, items = (600, 200) if quick else (60_000, 20_000)
        found = fresh_process(FIT.format(n=n, users=users, items=items, K=32, covariance="diag", sweeps=4))
        rows.append(
            {
                "entries": n,
                "seconds per sweep": found["sweep"],
                "per million entries": found["sweep"] / n * 1e6,
                "whole fit, 4 sweeps": found["whole"],
                "process before the fit, MiB": found["before"],
                "peak, MiB": found["peak"],
            }
        )
        progress(rows[-1])
    notes = ["60,000 users, 20,000 items, Gaussian ratings, K = 32, diagonal covariances, a fresh process each."]
    report("factorization/speed_scale", "PMF: time per sweep by entries", rows, notes, quick)


def main(quick: bool = False) -> None:
    speed(quick)
    sizes(quick)
    scale(quick)


if __name__ == "__main__":
    main(arguments(__doc__))
