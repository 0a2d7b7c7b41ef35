"""What fits cannot avoid: bare products of the shapes and numbers of a fit, beside the fit and its peer, in one thread.

Where a target of speed is not reached these floors say how much of a fit is multiply-adds, and whether the target lies
above them. Counts of passes and looks are those of the fit that is timed. Two further tables: small tables and streams,
whose time is calls of Python, and searches of sparse processes.
"""

from __future__ import annotations

import cProfile
import pstats
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any
from unittest.mock import patch

import numpy as np

from benchmarks._lib import Array
from benchmarks._lib.loaders import covtype
from benchmarks._lib.tables import arguments, progress, report
from benchmarks._lib.timing import interleave, median
from benchmarks.gp.regression import SETS
from benchmarks.product.calls import fits, milliseconds, simulated
from benchmarks.product.speed import a9a, bike, visits

#: Sets of processes, and the seconds that were asked for.
ASKED = {"kin8nm": 5.0, "power-plant": 5.0, "pumadyn32nm": 5.0, "housing": 5.0, "pol": 15.0, "kin40k": 15.0}
#: Rows of a chunk of a stream, of 20 columns, and the milliseconds that were asked for.
CHUNKS = {1: 0.3, 10: 0.5, 100: 1.0, 1000: 3.0}
#: Chunks before those that are timed, and of these.
BEFORE, TIMED = 20, 15


def spent(job: Callable[[], Any]) -> float:
    """CPU seconds of a job."""
    start = time.process_time()
    job()
    return time.process_time() - start


@contextmanager
def counted(owner: Any, verb: str, numbers: Callable[..., Any]) -> Iterator[list[Any]]:
    """What calls of a method were of, by a function of their arguments."""
    found, method = list[Any](), getattr(owner, verb)

    def recorded(*given: Any, **named: Any) -> Any:
        found.append(numbers(*given, **named))
        return method(*given, **named)

    with patch.object(owner, verb, recorded):
        yield found


# ---- linear models
def passes_of(model: Any, X: Array, y: Array) -> float:
    """Rows whose products X'WX a fit takes, over those that there are."""
    from sksvi.models.linear import rows as blocks

    def rows_of(block: Any, gamma: Array, full: bool) -> int:
        return len(gamma) if full else 0

    with counted(blocks.DenseRows, "gram", rows_of) as made, counted(blocks.RescaledRows, "gram", rows_of) as raw:
        model.fit(X, y)
    return sum(made + raw) / len(X)


def bare_pass(X: Array, y: Array, likelihood: Any) -> Callable[[], None]:
    """X m, x'Sx by a triangle, E log p(y | f) and its derivatives, X'WX and X'α of all rows, chunk by chunk."""
    from sksvi._runtime import parallel

    n, d = X.shape
    root, mean = np.tril(np.full((d, d), 1e-3)) + 0.1 * np.eye(d), np.zeros(d)
    A, chunks = np.ascontiguousarray(X), parallel.slices(n, parallel.chunk_rows(d, True))

    def run() -> None:
        gram = np.zeros((d, d))
        for rows in chunks:
            part = A[rows]
            m, Z = np.dot(part, mean), parallel.times_triangle(part, root)
            v = np.einsum("ij,ij->i", Z, Z)
            _, alpha, gamma = likelihood.expected(y[rows], m, v)
            scaled = np.einsum("ij,i->ij", part, np.sqrt(np.abs(gamma)))
            gram += np.dot(scaled.T, scaled)
            np.dot(alpha, part)

    return run


def linear_cases(quick: bool) -> Iterator[tuple[str, float, Any, Any, Array, Array]]:
    """Name, ratio that was asked for, our model, its peer, X and y."""
    from sklearn.linear_model import LogisticRegression, PoissonRegressor

    from sksvi.linear_model import BayesianGLMClassifier, BayesianGLMRegressor

    given: dict[str, Any] = {"prior_precision": 1.0, "n_jobs": 1}
    X, y = a9a()
    dense = X.toarray()[: 4000 if quick else None]
    labelled = {"a9a, dense": (dense, y[: len(dense)]), **({} if quick else {"covtype subset": covtype()})}
    for name, (X, y) in labelled.items():
        peer: Any = LogisticRegression(C=1.0, solver="newton-cholesky")
        yield name, 1.0, BayesianGLMClassifier(**given), peer, X, y
    counts = {} if quick else {"bike hour": bike, "doctor visits": visits}
    for name, data in counts.items():
        X, y = data()
        peer = PoissonRegressor(solver="newton-cholesky", alpha=1.0 / len(y))
        yield name, 1.0, BayesianGLMRegressor(likelihood="poisson", **given), peer, X, y
    if not quick:
        X, y = simulated(50_000, 50, "logit")
        models = fits("logit", len(X))
        yield "simulated logit", 1.5, models["ours"].set_params(n_jobs=1), models["scikit-learn"], X, y


def linear_models(quick: bool) -> None:
    rows: list[dict[str, Any]] = []
    for name, asked, ours, peer, X, y in linear_cases(quick):
        passes = passes_of(ours, X, y)
        jobs: dict[str, Callable[[], Any]] = {"ours": partial(ours.fit, X, y), "peer": partial(peer.fit, X, y)}
        jobs["bare"] = bare_pass(X, y.astype(float), ours.likelihood_)
        seconds = {key: median(found) for key, found in interleave(jobs, 2 if quick else 9).items()}
        bare, fit, its = seconds["bare"], seconds["ours"], seconds["peer"]
        row = {"data": name, "rows": X.shape[0], "columns": X.shape[1], "asked": asked, "ratio": fit / its}
        row |= {"ours, s": fit, "peer, s": its, "passes": passes, "bare pass, s": bare}
        row |= {"share of bare passes": passes * bare / fit, "bare passes over peer": passes * bare / its}
        rows.append(row | {"passes that fit into the asked": asked * its / bare})
        progress(rows[-1])
    notes = [
        "Peers: Newton's method of scikit-learn, which finds a point. passes: rows whose X'WX a fit takes, over the "
        "number of rows; looks at samples before the first whole pass are in them. bare pass: X m, x'Sx of each row "
        "by a triangular product, E log p and its derivatives, X'WX and X'α, by BLAS in chunks of the fit's size, and "
        "nothing else. A posterior needs x'Sx of each row beside what a point does."
    ]
    report("product/limits", "Linear models and the products that they need", rows, notes, quick)


# ---- calls of Python
def calls_of(job: Callable[[], Any]) -> int:
    """Calls of Python and of compiled functions."""
    profile = cProfile.Profile()
    profile.runcall(job)
    return int(pstats.Stats(profile).total_calls)  # type: ignore[attr-defined]


def validated(X: Array, y: Array) -> Callable[[], Any]:
    """What scikit-learn asks of any fit."""
    from sklearn.linear_model import BayesianRidge
    from sklearn.utils.validation import validate_data

    return lambda: validate_data(BayesianRidge(), X, y, y_numeric=True)


def small_tables(quick: bool) -> Iterator[dict[str, Any]]:
    for kind in ("gaussian", "logit", "poisson"):
        X, y = simulated(400, 10, kind)
        models = fits(kind, len(X))
        ours, peer = models["ours"].fit(X, y), models["scikit-learn"].fit(X, y)
        jobs: dict[str, Callable[[], Any]] = {
            "ours": partial(ours.fit, X, y),
            "peer": partial(peer.fit, X, y),
            "validated": validated(X, y),
        }
        if kind != "gaussian":  # of which one pass has all sums
            jobs["bare"] = bare_pass(X, y.astype(float), ours.likelihood_)
        ms = milliseconds(jobs, 2 if quick else 25)
        bare = ms.get("bare", 0.0) * (passes_of(ours, X, y) if "bare" in ms else 0.0)
        calls = {name: calls_of(jobs[name]) for name in ("ours", "peer")}
        yield {
            "what": f"fit, {kind}, 400 x 10",
            "asked, ms": 3.0 * ms["peer"],
            "ours, ms": ms["ours"],
            "peer, ms": ms["peer"],
            "validation, ms": ms["validated"],
            "bare passes, ms": bare,
            "our calls": calls["ours"],
            "its calls": calls["peer"],
            "microseconds a call": 1e3 * ms["ours"] / calls["ours"],
        }


def streams(quick: bool) -> Iterator[dict[str, Any]]:
    from sksvi.linear_model import BayesianGLMClassifier

    rng, w = np.random.default_rng(0), np.random.default_rng(1).standard_normal(20) / np.sqrt(20)
    for size, asked in CHUNKS.items():
        parts = []
        for _ in range(BEFORE + TIMED + 1):
            X = rng.standard_normal((size, 20))
            parts.append((X, (rng.random(size) < 1.0 / (1.0 + np.exp(-(X @ w)))) * 1))
        model = BayesianGLMClassifier(n_jobs=1, random_state=0)
        for part in parts[:BEFORE]:
            model.partial_fit(*part, classes=[0, 1])
        taken = [spent(partial(model.partial_fit, *part)) for part in parts[BEFORE:-1][: 2 if quick else None]]
        check = median([spent(validated(*parts[0])) for _ in range(TIMED)])
        yield {
            "what": f"partial_fit of {size} x 20, logit",
            "asked, ms": asked,
            "ours, ms": 1e3 * median(taken),
            "validation, ms": 1e3 * check,
            "our calls": calls_of(partial(model.partial_fit, *parts[-1])),
        }


def calls(quick: bool) -> None:
    rows = []
    for row in (*small_tables(quick), *streams(quick)):
        rows.append(row)
        progress(row)
    names = list(rows[0])
    rows = [{name: row.get(name) for name in names} for row in rows]
    notes = [
        "CPU milliseconds. validation: scikit-learn's `validate_data` of X and y alone. bare passes: products of the "
        "fit's passes as above; of Gaussian noise one pass has all sums. calls: of Python and of compiled functions, "
        "by cProfile, under which they are not timed. What is neither is calls, spread over reading, passes, nodes of "
        "hyperparameters and the score."
    ]
    report("product/limits_calls", "Small tables and streams: calls of Python", rows, notes, quick)


# ---- sparse processes
def bare_look(n: int, m: int, d: int) -> float:
    """CPU seconds of the products of one look at n rows by m points: K, KᵀK, K times a matrix, and derivatives."""
    rng = np.random.default_rng(0)
    size = max(1, 2**17 // m)
    X, Z, slope = rng.standard_normal((min(n, size), d)), rng.standard_normal((m, d)), rng.standard_normal((m, m))

    def chunk() -> None:
        K = np.exp(-np.abs(np.dot(X, Z.T)))
        np.dot(K.T, K)
        P = np.dot(K, slope)
        P *= K
        np.dot(P, Z)
        np.dot(P.T, X)

    chunk()
    return min(spent(chunk) for _ in range(7)) * n / len(X)


def processes(quick: bool) -> None:
    from sksvi.gaussian_process import SparseGPRegressor
    from sksvi.models.gp.integrated import CollapsedSearch

    def numbers(search: Any, q: dict[str, Any]) -> tuple[int, int]:
        points = q["inputs"].value if "inputs" in q else search.model.Z
        return len(search.data), len(points)

    rows: list[dict[str, Any]] = []
    for name, asked in {"yacht": 5.0}.items() if quick else ASKED.items():
        X, y = SETS[name][0](0)[:2]
        model = SparseGPRegressor(random_state=0, n_jobs=1)
        with counted(CollapsedSearch, "look", numbers) as looks:
            seconds = spent(partial(model.fit, X, y))
        cost = {(n, m): bare_look(n, m, X.shape[1]) for n, m in set(looks)}
        bare = sum(cost[shape] for shape in looks)
        most = max(n for n, _ in looks)  # equal rows are one
        whole = sum(1 for n, _ in looks if n == most)
        row = {"data": name, "rows": len(X), "columns": X.shape[1], "asked, s": asked}
        row |= {"ours, s": seconds, "looks": len(looks), "looks at all rows": whole, "most points": max(looks)[1]}
        rows.append(row | {"bare looks, s": bare, "share of bare looks": bare / seconds})
        progress(rows[-1])
    notes = [
        "CPU seconds of one thread, defaults. look: bound and gradient at some kernel, noise and inducing points, of a "
        "sample or of all rows. Its products: exponentials of all rows and points, their Gram matrix, a product with a "
        "matrix of all points, and derivatives in points and lengths; no factor, whitening or check. What is left is "
        "those, the start, and nodes of hyperparameters."
    ]
    report("product/limits_processes", "Searches of sparse processes and their products", rows, notes, quick)


def main(quick: bool = False) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for tables in (linear_models, calls, processes):
            tables(quick)


if __name__ == "__main__":
    main(arguments(__doc__))
