"""Regression of text and wide tables: the regressor beside scikit-learn's on sets that it was not tuned on.

Measured targets beside RidgeCV, which has the root mean squared error and a log density by the noise of its own
leave-one-out residuals; counts beside PoissonRegressor under GridSearchCV, by mean deviance. CPU seconds of ``fit`` on
one thread. With few rows ``loo_`` and ``coef_std_`` are compared with exact algebra. Every demand is a row of the last
table, and one that is not met fails the command.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks._lib import Array
from benchmarks._lib.tables import arguments, progress, report
from benchmarks._lib.timing import Clock
from benchmarks.glm._text_judge import geometric
from benchmarks.glm._wide_sets import WideSet, counted, measured
from sksvi import BayesianGLMRegressor

#: Penalties of RidgeCV, and of PoissonRegressor over five folds.
PENALTIES, COUNT_PENALTIES = np.logspace(-4, 5, 19), np.logspace(-4, 4, 13)
#: Rows up to which exact leave-one-out is formed.
MOST_EXACT = 1600
#: What must be reached: geometric means of ratios to the peer, the cover of 90 % intervals on average over sets, and
#: errors of `loo_` (relative, of rows few and many) and of `coef_std_` (median, a quantile).
LOSS, CPU, COVER, LOO, MEDIAN, WORST, QUANTILE = 1.0, 0.3, (0.85, 0.95), 0.05, 0.03, 0.10, 0.98


def timed(fit: Callable[[], Any]) -> tuple[Any, float]:
    with warnings.catch_warnings(), Clock() as clock:
        warnings.simplefilter("ignore")
        model = fit()
    return model, clock.cpu


def ridge(X: Any, y: Array) -> Any:
    from sklearn.linear_model import RidgeCV

    return RidgeCV(PENALTIES, store_cv_results=True).fit(X, y)


def poisson(X: Any, y: Array) -> Any:
    from sklearn.linear_model import PoissonRegressor
    from sklearn.model_selection import GridSearchCV

    grid, score = {"alpha": COUNT_PENALTIES}, "neg_mean_poisson_deviance"
    return GridSearchCV(PoissonRegressor(max_iter=1000), grid, scoring=score, cv=5).fit(X, y)


def log_loss_of(mean: Array, variance: float, y: Array) -> float:
    """Minus the mean log density under normal noise, nats."""
    return float(np.mean(0.5 * np.log(2.0 * np.pi * variance) + 0.5 * np.square(y - mean) / variance))


def own_log_loss(model: Any, X: Any, y: Array) -> float:
    """Minus the mean log density of new targets under the fit, nats: normal of the mean and deviation it predicts."""
    mean, std = model.predict(X, return_std=True)
    return float(np.mean(np.log(std * np.sqrt(2.0 * np.pi)) + 0.5 * np.square((y - mean) / std)))


def cover(model: Any, X: Any, y: Array) -> float:
    low, high = model.predict_interval(X, coverage=0.9).T
    return float(np.mean((low <= y) & (y <= high)))


def exact(model: Any, X: Any, y: Array) -> dict[str, float]:
    """Errors of ``loo_`` and of ``coef_std_`` beside the ridge regression of the same prior and noise."""
    A = X.toarray() if sp.issparse(X) else X - X.mean(axis=0)
    precision, noise = float(np.atleast_1d(model.prior_precision_)[0]), model.noise_
    centre, vague = model._encoding.prior.intercept
    K = A @ A.T / precision + 1.0 / vague
    inverse = np.linalg.inv(K / noise + np.eye(len(y)))
    left = np.diag(inverse)
    residual = inverse @ (y - centre) / left
    loo = np.mean(0.5 * np.log(2.0 * np.pi * noise / left) + 0.5 * np.square(residual) * left / noise)
    std = np.sqrt(1.0 / precision - np.einsum("ij,ij->j", A, inverse @ A / noise) / precision**2)
    error = np.abs(model.coef_std_ / std - 1.0)
    return {
        "loo_ less exact": model.loo_ - float(loo),
        "error of sd, median": float(np.median(error)),
        f"error of sd, {QUANTILE:.0%}": float(np.quantile(error, QUANTILE)),
    }


def of_measured(A: Any, ya: Array, B: Any, yb: Array) -> dict[str, float]:
    peer, peer_cpu = timed(lambda: ridge(A, ya))
    own, cpu = timed(lambda: BayesianGLMRegressor(covariance="low-rank").fit(A, ya))
    noise = float(peer.cv_results_[:, int(np.argmin(np.abs(PENALTIES - peer.alpha_)))].mean())
    found = {
        "ours": float(np.sqrt(np.mean(np.square(own.predict(B) - yb)))),
        "RidgeCV": float(np.sqrt(np.mean(np.square(peer.predict(B) - yb)))),
        "log loss": own_log_loss(own, B, yb),
        "of RidgeCV": log_loss_of(peer.predict(B), noise, yb),
        "loo_": own.loo_,
        "cover": cover(own, B, yb),
        "CPU s": cpu,
        "CPU s of RidgeCV": peer_cpu,
    }
    return found | (exact(own, A, ya) if len(ya) <= MOST_EXACT else {})


def of_counted(A: Any, ya: Array, B: Any, yb: Array) -> dict[str, float]:
    from sklearn.metrics import mean_poisson_deviance

    peer, peer_cpu = timed(lambda: poisson(A, ya))
    own, cpu = timed(lambda: BayesianGLMRegressor(likelihood="poisson", covariance="low-rank").fit(A, ya))
    return {
        "ours": float(mean_poisson_deviance(yb, own.predict(B))),
        "PoissonRegressor": float(mean_poisson_deviance(yb, np.maximum(peer.predict(B), 1e-12))),
        "temperature": own.temperature_,
        "cover": cover(own, B, yb),
        "CPU s": cpu,
        "CPU s of PoissonRegressor": peer_cpu,
    }


def rows_of(sets: list[WideSet], one: Callable[..., dict[str, float]], splits: int | None) -> list[dict[str, Any]]:
    """A row per set: means over its splits, and the standard error of the difference of losses."""
    rows: list[dict[str, Any]] = []
    for data in sets:
        drawn, found = list(data.drawn(splits)), []
        for A, ya, B, yb in drawn:
            found.append(one(A, ya, B, yb))
        n, d = drawn[0][0].shape
        row: dict[str, Any] = {"data": data.name, "kind": data.kind, "rows": n, "columns": d, "splits": len(found)}
        row |= {name: float(np.mean([own[name] for own in found])) for name in found[0]}
        ours, peer = np.array([list(own.values())[:2] for own in found]).T
        row["se of difference"] = float(np.std(ours - peer, ddof=1) / np.sqrt(len(ours))) if len(ours) > 1 else None
        rows.append(row)
        progress(row)
    return rows


def judged(rows: list[dict[str, Any]], peer: str) -> dict[str, Any]:
    """All sets beside the peer."""
    ours, other = (np.array([row[name] for row in rows]) for name in ("ours", peer))
    cpu = np.array([row["CPU s"] / row[f"CPU s of {peer}"] for row in rows])
    slow = np.array([row[f"CPU s of {peer}"] >= 0.3 for row in rows])
    worst = int(np.argmax(ours / other))
    return {
        "beside": peer,
        "sets": len(rows),
        "loss, geometric mean of ratios": geometric(ours / other),
        "worst": float(ours[worst] / other[worst]),
        "of": rows[worst]["data"],
        "CPU, geometric mean of ratios": geometric(cpu),
        "of sets where the peer takes 0.3 s": geometric(cpu[slow]) if slow.any() else None,
        "cover": float(np.mean([row["cover"] for row in rows])),
    }


def demands(totals: list[dict[str, Any]], rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    wanted = []
    for total in totals:
        for name, most in (("loss, geometric mean of ratios", LOSS), ("CPU, geometric mean of ratios", CPU)):
            wanted.append((f"{name}, {total['beside']}", total[name], f"<= {most:g}", total[name] <= most))
        inside = COVER[0] <= total["cover"] <= (COVER[1] if total["beside"] == "RidgeCV" else 1.0)
        wanted.append((f"cover of y by 90 % intervals, {total['beside']}", total["cover"], f"{COVER}", inside))
    known = [row for row in rows if "loo_ less exact" in row]
    error = max(abs(row["loo_ less exact"]) for row in known)
    wanted.append(("loo_ less exact, the most, nats", error, f"<= {LOO:g}", error <= LOO))
    for name, most in (("error of sd, median", MEDIAN), (f"error of sd, {QUANTILE:.0%}", WORST)):
        error = max(row[name] for row in known)
        wanted.append((f"{name}, the most", error, f"<= {most:g}", error <= most))
    gap = float(np.mean([row["log loss"] - row["of RidgeCV"] for row in rows]))
    wanted.append(("log loss less that of RidgeCV, mean, nats", gap, "<= 0", gap <= 0.0))
    return [dict(zip(("demand", "found", "wanted", "holds"), line, strict=True)) for line in wanted]


def main(quick: bool = False) -> int:
    """Demands that are not met."""
    numbers, counts = (sets[-2:] if quick else sets for sets in (measured(), counted()))
    timed(lambda: BayesianGLMRegressor(covariance="low-rank").fit(np.eye(30), np.arange(30.0)))
    rows = rows_of(numbers, of_measured, 2 if quick else None)
    notes = [
        "Root mean squared error at new rows; log loss: minus the mean log density of y there, nats. Means over random "
        "splits. Cover: of y at new rows by 90 % intervals. RidgeCV has 19 penalties from 1e-4 to 1e5 and its own "
        "leave-one-out, and for the log loss the mean square of its leave-one-out residuals as variance.",
        f"Exact: the ridge regression of the same prior and noise, up to {MOST_EXACT:,} rows.",
    ]
    report("glm/wide_regression", "Wide regression of measured targets: root mean squared error", rows, notes, quick)
    of_counts = rows_of(counts, of_counted, 2 if quick else None)
    note = "PoissonRegressor has 13 penalties from 1e-4 to 1e4, by the deviance of five folds."
    report("glm/wide_regression_counts", "Wide regression of counts: mean Poisson deviance", of_counts, [note], quick)
    totals = [judged(rows, "RidgeCV"), judged(of_counts, "PoissonRegressor")]
    report("glm/wide_regression_summary", "Wide regression: all sets", totals, (), quick)
    wanted = demands(totals, rows)
    report("glm/wide_regression_demands", "Wide regression: what must be reached", wanted, (), quick)
    return sum(not row["holds"] for row in wanted)


if __name__ == "__main__":
    raise SystemExit(int(main(arguments(__doc__)) > 0))
