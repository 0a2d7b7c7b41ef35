"""Leave-one-out from the messages of one fit beside fits without each row (or level), and what it costs."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import clone

from benchmarks._lib.tables import arguments, progress, report
from benchmarks.truth._loo_sets import CASES, Case
from sksvi.inspection import _cavities, kfold, loo


def seconds(run: Callable[[], Any], repeats: int = 5) -> tuple[float, Any]:
    """CPU seconds of the quickest of several runs, after one that compiles, and what it returned."""
    out, best = run(), np.inf
    for _ in range(repeats):
        began = time.process_time()
        out = run()
        best = min(best, time.process_time() - began)
    return best, out


def without_second_look(fitted: Any, case: Case) -> float:
    """The estimate of cavities alone, other rows' messages as they are."""
    limit, _cavities.MOVED = _cavities.MOVED, np.inf
    try:
        return float(loo(fitted, case.X, case.y, groups=case.groups).elpd_loo)
    finally:
        _cavities.MOVED = limit


def measured(case: Case) -> dict[str, Any]:
    """What `loo` finds, what fits without each row or level find, and the price of the first in fits."""
    model, X, y, groups = case
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        of_fit, fitted = seconds(lambda: clone(model).fit(X, y))
        of_loo, found = seconds(lambda: loo(fitted, X, y, groups=groups))
        rows = np.arange(len(y)) if groups is None else pd.factorize(X[groups])[0]
        folds = [(np.flatnonzero(rows != one), np.flatnonzero(rows == one)) for one in np.unique(rows)]
        exact = kfold(model, X, y, cv=folds, groups=groups)
        alone = without_second_look(fitted, case)
    off = np.abs(found.pointwise["elpd"] - exact.pointwise["elpd"])
    return {
        "in sample": found.elpd_loo + found.p_loo,
        "elpd, loo": found.elpd_loo,
        "elpd, refits": exact.elpd_loo,
        "se": exact.se,
        "off, in se": (found.elpd_loo - exact.elpd_loo) / exact.se,
        "cavities alone": (alone - exact.elpd_loo) / exact.se,
        "worst row": float(off.max()),
        "its k-hat": float(found.k_hat[int(np.argmax(off))]),
        "k-hat above 0.7": len(found.untrusted),
        "fit, ms": 1e3 * of_fit,
        "times the fit": of_loo / of_fit,
    }


def main(quick: bool = False) -> None:
    rows = []
    for name in list(CASES)[: 2 if quick else None]:
        likelihood, make = CASES[name]
        rows.append({"set": name, "likelihood": likelihood, **measured(make())})
        progress(rows[-1])
    notes = [
        "Sum of log densities of left-out rows, nats, by `loo` and by fits to all rows but one (or but a level); their "
        "difference in standard errors, and that of cavities alone, where the messages of other rows stay; the row in "
        "which both differ most, nats; rows with a k-hat above 0.7; CPU time of `loo`, in fits, the quickest of five "
        "runs each. Where no prior is named nothing is set but likelihood, groups and the number of inducing points, "
        "and hyperparameters are integrated in both. A k-hat of -inf: the weights are level. One seed for each "
        "simulated set."
    ]
    report("truth/loo", "Leave-one-out from messages beside refits", rows, notes, quick)


if __name__ == "__main__":
    main(arguments(__doc__))
