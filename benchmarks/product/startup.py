"""Start-up: import time beside scikit-learn's, and what the first fit of an empty compile cache costs.

The second table has the first fit of every estimator: a fresh process and an empty cache each, a small table.
"""

from __future__ import annotations

import tempfile
from typing import Any

from benchmarks._lib.tables import arguments, progress, report
from benchmarks._lib.timing import fresh_process, median
from sksvi.precompile import estimators

IMPORT = """
import json, time
start = time.perf_counter()
import {module}
print(json.dumps(dict(seconds=time.perf_counter() - start)))
"""

FIRST_FIT = """
import json, time
import numpy as np
from sklearn.datasets import load_breast_cancer
X, y = load_breast_cancer(return_X_y=True)
X = (X - X.mean(axis=0)) / X.std(axis=0)
import scipy.sparse as sp
A = sp.csr_matrix(np.where(np.abs(X) > 1, X, 0.0))
from sksvi.linear_model import BayesianGLMClassifier
def fit():
    start = time.perf_counter()
    BayesianGLMClassifier(prior_precision=1.0).fit(X, y)
    BayesianGLMClassifier(prior_precision=1.0).fit(A, y)
    return time.perf_counter() - start
first = fit()
print(json.dumps(dict(first=first, steady=sorted(fit() for _ in range(5))[2])))
"""

COLD_FIT = """
import json, time, warnings
warnings.simplefilter("ignore")
import sksvi
from sksvi.precompile import small_fit
from numba.core import event
compiled = event.RecordingListener()
event.register("numba:compile", compiled)
model, table = small_fit("{name}")
spent = []
for _ in range(2):
    start = time.process_time()
    model.fit(*table)
    spent.append(time.process_time() - start)
functions = sum(one.is_end for _, one in compiled.buffer)
print(json.dumps(dict(functions=functions, cold=spent[0], warm=spent[1])))
"""


def cold_fit(name: str, level: int) -> dict[str, Any]:
    """What the first fit of an estimator takes with an empty compile cache; `level` of LLVM's optimisation: 0 to 3."""
    with tempfile.TemporaryDirectory() as cache:
        return fresh_process(COLD_FIT.format(name=name), {"NUMBA_CACHE_DIR": cache, "NUMBA_OPT": str(level)})


def cold_fits(quick: bool) -> list[dict[str, Any]]:
    """CPU seconds of the first fit of each estimator with an empty compile cache, and of the second."""
    names = estimators()[:2] if quick else estimators()
    rows = []
    for name in names:
        found, plain = (cold_fit(name, level) for level in (3, 0))
        row = {"functions": found["functions"], "first fit, CPU s": found["cold"], "second, CPU s": found["warm"]}
        rows.append({"estimator": name, **row, "first fit without LLVM's optimisation, CPU s": plain["cold"]})
        progress(rows[-1])
    columns = [key for key in rows[0] if key != "estimator"]
    return [*rows, {"estimator": "sum", **{key: sum(row[key] for row in rows) for key in columns}}]


def main(quick: bool = False) -> None:
    repeats = 3 if quick else 11
    modules = ("sklearn.linear_model", "sksvi", "sksvi.linear_model")
    seconds: dict[str, list[float]] = {module: [] for module in modules}
    for round_ in range(repeats + 1):
        for module in modules:
            found = fresh_process(IMPORT.format(module=module))["seconds"]
            if round_:  # the first round fills the disk cache
                seconds[module].append(found)
    base = median(seconds["sklearn.linear_model"])
    rows: list[dict[str, Any]] = [
        {"what": f"import {module}", "seconds": median(seconds[module]), "ratio": median(seconds[module]) / base}
        for module in modules
    ]
    with tempfile.TemporaryDirectory() as cache:
        cold = fresh_process(FIRST_FIT, {"NUMBA_CACHE_DIR": cache})
        warm = [fresh_process(FIRST_FIT, {"NUMBA_CACHE_DIR": cache}) for _ in range(1 if quick else 5)]
    rows.append(
        {
            "what": "first fits (dense, sparse), cold compile cache",
            "seconds": cold["first"],
            "over steady state": cold["first"] - cold["steady"],
        }
    )
    first, steady = median([w["first"] for w in warm]), median([w["steady"] for w in warm])
    rows.append({"what": "first fits, warm compile cache", "seconds": first, "over steady state": first - steady})
    rows.append({"what": "the same fits, steady state", "seconds": steady, "over steady state": 0.0})
    notes = [f"Fresh processes, medians of {repeats} imports in turn."]
    report(
        "product/startup", "Start-up", [{"ratio": None, "over steady state": None, **row} for row in rows], notes, quick
    )
    notes = [
        "One thread. Functions: compiled ones with numba's own, each for the types of its arguments. Without LLVM's "
        "optimisation loops are many times slower: what is left is numba's own work on every function, which is Python."
    ]
    report("product/startup_cold", "First fits with an empty compile cache", cold_fits(quick), notes, quick)


if __name__ == "__main__":
    main(arguments(__doc__))
