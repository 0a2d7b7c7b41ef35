"""Held-out log density on thirty real sets, 20 to 400 rows fitted: ours with nothing set beside the usual peers."""

from __future__ import annotations

import time
import warnings
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks._lib import Array
from benchmarks._lib.tables import arguments, progress, report
from benchmarks.truth import _peers
from benchmarks.truth._real_sets import RealSet, sets

#: Rows fitted, and random splits of each.
SPLITS = {20: 16, 40: 12, 100: 10, 400: 6}
N_HELD_OUT, N_LEFT = 500, 12
PEERS = {
    "measured": {"BayesianRidge()": _peers.bayesian_ridge, "RidgeCV()": _peers.ridge_cv},
    "counts": {"PoissonRegressor()": _peers.poisson_regressor},
    "labels": {"LogisticRegression()": _peers.logistic, "LogisticRegression(), scaled": _peers.scaled_logistic},
}


def ours(kind: str) -> Any:
    """What a user calls for a target of this kind."""
    from sksvi import BayesianGLMClassifier, BayesianGLMRegressor

    if kind == "labels":
        return BayesianGLMClassifier
    return (lambda: BayesianGLMRegressor(likelihood="poisson")) if kind == "counts" else BayesianGLMRegressor


def splits(chosen: RealSet, X: Array, y: Array, n: int, count: int) -> Iterator[tuple[Array, Array]]:
    """Rows to fit and rows held out, of classes that were fitted."""
    rng = np.random.default_rng([zlib.crc32(chosen.name.encode()), n])
    for _ in range(count):
        order = rng.permutation(len(y))
        train, test = order[:n], order[n : n + N_HELD_OUT]
        if chosen.kind == "labels":
            test = test[np.isin(y[test], y[train])]
            if len(np.unique(y[train])) < 2:
                continue
        elif not np.any(y[train]):
            continue
        yield train, test


def differences(chosen: RealSet, X: Array, y: Array, n: int, count: int) -> Iterator[dict[str, Any]]:
    """A row for each peer: mean difference over splits and its standard error."""
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in PEERS[chosen.kind]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for train, test in splits(chosen, X, y, n, count):
            model = ours(chosen.kind)().fit(X[train], y[train])
            mean = float(np.mean(model.log_predictive_density(X[test], y[test])))
            for name, peer in PEERS[chosen.kind].items():
                found[name].append((mean, float(np.mean(peer(X[train], y[train])(X[test], y[test])))))
    for name, values in found.items():
        if values:
            pairs = np.array(values)
            gap = pairs[:, 0] - pairs[:, 1]
            row = {"kind": chosen.kind, "set": chosen.name, "n": n, "D": X.shape[1], "peer": name, "splits": len(gap)}
            error = float(gap.std(ddof=1) / np.sqrt(len(gap))) if len(gap) > 1 else None
            yield {**row, "ours": pairs[:, 0].mean(), "ours - peer": gap.mean(), "error": error}


def behind(row: dict[str, Any]) -> bool:
    """Whether the peer is ahead by more than 0.01 nats a row and three standard errors."""
    return row["ours - peer"] < -max(0.01, 3 * (row["error"] or 0.0))


def summed(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A row for each peer and size: mean and worst difference, and on how many sets we are behind."""
    out = []
    for key in dict.fromkeys((row["kind"], row["n"], row["peer"]) for row in rows):
        kept = [row for row in rows if (row["kind"], row["n"], row["peer"]) == key]
        gaps = np.array([row["ours - peer"] for row in kept])
        worst = kept[int(np.argmin(gaps))]
        row = {"kind": key[0], "n": key[1], "peer": key[2], "sets": len(kept), "mean": gaps.mean()}
        row |= {"median": float(np.median(gaps)), "worst": gaps.min(), "worst set": worst["set"]}
        out.append({**row, "sets behind": sum(map(behind, kept))})
    return out


def main(quick: bool = False) -> None:
    rows: list[dict[str, Any]] = []
    listed = []
    for chosen in sets()[:: 5 if quick else 1]:
        start = time.perf_counter()
        X, y = chosen.load()
        listed.append(
            {"set": chosen.name, "kind": chosen.kind, "rows": len(y), "columns": X.shape[1], "from": chosen.source}
        )
        for n, count in SPLITS.items():
            if len(y) >= n + N_LEFT:
                rows += differences(chosen, X, y, n, 2 if quick else count)
        progress({"set": chosen.name, "s": round(time.perf_counter() - start, 1), "gap": rows[-1]["ours - peer"]})
    notes = [
        f"At most {N_HELD_OUT} rows held out, of classes that were fitted; RidgeCV's density has the variance of its "
        "residuals. Behind: by more than 0.01 nats a row and three standard errors over splits."
    ]
    report("truth/real_sets", "Real sets", listed, quick=quick)
    report("truth/real", "Held-out log density of real sets, nats a row", rows, notes, quick)
    report(
        "truth/real_summary", "Held-out log density of real sets less a peer's, nats a row", summed(rows), notes, quick
    )


if __name__ == "__main__":
    main(arguments(__doc__))
