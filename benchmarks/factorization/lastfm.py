"""Last.fm listening counts (1,892 users, 17,632 artists, 92,834 counts up to 352,698), 80/20, by generalized PMF.

Poisson with both rates and the negative binomial, beside models without factors. Relative error: mean over test entries
of |estimate - count| / count (every count is positive), the estimate being the predictive mean or median.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.stats import nbinom, poisson

from benchmarks._lib import Array
from benchmarks._lib.tables import arguments, progress, report
from benchmarks.factorization._data import Split, lastfm, small, whole_fit

OURS: dict[str, dict[str, Any]] = {
    "Poisson softplus, K = 20": {"likelihood": "poisson-softplus"},
    "Poisson exp, K = 20": {"likelihood": "poisson"},
    "Poisson softplus, K = 5": {"likelihood": "poisson-softplus", "n_components": 5},
    "Poisson exp, K = 5": {"likelihood": "poisson", "n_components": 5},
    "negative binomial, K = 5": {"likelihood": "negative-binomial", "n_components": 5},
    "negative binomial, K = 20": {"likelihood": "negative-binomial"},
}


def relative(y: Array, estimate: Array) -> float:
    return float(np.mean(np.abs(estimate - y) / y))


def fitted(name: str, settings: dict[str, Any], split: Split) -> dict[str, Any]:
    """The row of one of ours; a fit that fails says why."""
    from sksvi.decomposition import GeneralizedPMF

    pairs, y, test, y_test = split
    model = GeneralizedPMF(uncertainty="variational", random_state=0, **settings)
    try:
        spent = whole_fit(model, (pairs, y))
    except ValueError as error:
        return {"model": f"GeneralizedPMF, {name}", "note": str(error)[:160]}
    low, high = model.predict_interval(test, coverage=0.9).T
    return {
        "model": f"GeneralizedPMF, {name}",
        **spent,
        "log density": float(np.mean(model.log_predictive_density(test, y_test))),
        "relative error, mean": relative(y_test, model.predict(test)),
        "relative error, median": relative(y_test, model.predict_quantiles(test, [0.5])[:, 0]),
        "coverage 90 %": float(np.mean((low <= y_test) & (y_test <= high))),
    }


def rates(split: Split) -> Array:
    """Test rates of user times artist over the mean, each with one count of the mean added."""
    pairs, y, test, _ = split
    mean, rate = y.mean(), np.full(len(test), y.mean())
    for side in range(2):
        n = max(pairs[:, side].max(), test[:, side].max()) + 1
        total = np.bincount(pairs[:, side], y, n) + mean
        rate *= (total / (np.bincount(pairs[:, side], minlength=n) + 1))[test[:, side]] / mean
    return rate


def simple(split: Split) -> list[dict[str, Any]]:
    """Models without factors: one rate, or one by user and artist; Poisson, or negative binomial with its best size.

    The negative binomial's size is the one that is best for the test, so that its density is the most that it can get.
    """
    y, y_test = split[1], split[3]
    rows = []
    for name, mu in (("one rate", np.full(len(y_test), y.mean())), ("rate by user and artist", rates(split))):
        best = minimize_scalar(
            lambda t, mu=mu: -nbinom.logpmf(y_test, np.exp(t), np.exp(t) / (np.exp(t) + mu)).mean(),
            bounds=(-6, 6),
            method="bounded",
        )
        size = np.exp(best.x)
        laws = {"Poisson": poisson(mu), "negative binomial": nbinom(size, size / (size + mu))}
        for law, found in laws.items():
            inside = (found.ppf(0.05) <= y_test) & (y_test <= found.ppf(0.95))
            rows.append(
                {
                    "model": f"{law}, {name}",
                    "log density": float(found.logpmf(y_test).mean()),
                    "relative error, mean": relative(y_test, mu),
                    "relative error, median": relative(y_test, found.ppf(0.5)),
                    "coverage 90 %": float(inside.mean()),
                }
            )
    return rows


def main(quick: bool = False) -> None:
    split = small(lastfm(), 10_000) if quick else lastfm()
    rows = simple(split)
    for name, settings in OURS.items():
        rows.append(fitted(name, settings, split))
        progress(rows[-1])
    columns: tuple[str, ...] = (
        "model",
        "passes",
        "seconds",
        "log density",
        "relative error, mean",
        "relative error, median",
    )
    columns += ("coverage 90 %", "bound", "note")
    notes = ["log density: nats per test count. The baselines' negative binomial has the size best for the test."]
    report(
        "factorization/lastfm", "Last.fm counts", [{key: row.get(key) for key in columns} for row in rows], notes, quick
    )


if __name__ == "__main__":
    main(arguments(__doc__))
