"""Peak memory of dense, sparse and streamed fits, each in a fresh process; MiB above what was resident before."""

from __future__ import annotations

from typing import Any

from benchmarks._lib.loaders import data_folder
from benchmarks._lib.tables import arguments, progress, report
from benchmarks._lib.timing import fresh_process

FIT = """
import json, warnings
import numpy as np, scipy.sparse as sp
from benchmarks._lib.timing import peak_memory, reset_peak
from sksvi.linear_model import BayesianGLMClassifier, BayesianGLMRegressor
warnings.simplefilter("ignore")
rng = np.random.default_rng(0)
n, d, density = {n}, {d}, {density}
if density < 1:
    X = sp.random(n, d, density, format="csr", random_state=rng)
    size = X.data.nbytes + X.indices.nbytes + X.indptr.nbytes
else:
    X = np.empty((n, d))
    for start in range(0, n, 10_000):
        X[start : start + 10_000] = rng.standard_normal((min(10_000, n - start), d))
    size = X.nbytes
f = X @ (rng.standard_normal(d) / (d * min(density, 1.0)) ** 0.5)
y = (rng.random(n) < 1 / (1 + np.exp(-f))).astype(int)
del f
small = BayesianGLMClassifier(prior_precision=1.0, max_iter=2).fit(X[:1000], y[:1000])  # compiled loops, thread pools
reset_peak()
before = peak_memory()
model = BayesianGLMClassifier(prior_precision=1.0, **{settings}).fit(X, y)
print(json.dumps(dict(before=before, added=peak_memory() - before, data=size / 2**20, passes=int(model.n_iter_))))
"""

STREAM = """
import json, warnings
import numpy as np, pandas as pd, scipy.sparse
import sklearn.linear_model, sklearn.preprocessing, numba
import sksvi.linear_model
from benchmarks._lib.timing import peak_memory, reset_peak
from benchmarks.product.memory import stream_kddcup
reset_peak()
imports = peak_memory()
found = stream_kddcup({limit})
print(json.dumps(dict(imports=imports, added=peak_memory() - imports, **found)))
"""


def chunks(limit: int | None = None, columns: list[int] | None = None) -> Any:
    import pandas as pd

    path = data_folder() / "tabular" / "kddcup99_10pct.csv.xz"
    return pd.read_csv(path, header=None, chunksize=10_000, nrows=limit, usecols=columns)


def stream_kddcup(limit: int | None = None) -> dict[str, Any]:
    """kddcup99, "normal." against attacks, in three readings by chunks of 10,000 rows.

    Levels of the three text columns; ``partial_fit`` of nine rows in ten; log loss of the tenth rows. Numbers enter as
    log(1 + x), text one-hot, as CSR.
    """
    import time

    import numpy as np
    import scipy.sparse as sp
    from sklearn.preprocessing import OneHotEncoder

    from sksvi.linear_model import BayesianGLMClassifier

    levels: list[set[str]] = [set(), set(), set()]
    for chunk in chunks(limit, [1, 2, 3]):
        for seen, column in zip(levels, (1, 2, 3), strict=True):
            seen.update(chunk[column].unique())
    encoder = OneHotEncoder(categories=[sorted(seen) for seen in levels])

    def design(chunk: Any) -> tuple[Any, Any, Any]:
        numbers = np.log1p(chunk.drop(columns=[1, 2, 3, 41]).to_numpy(float))
        text = encoder.fit_transform(chunk[[1, 2, 3]].to_numpy(str))
        held_out = (chunk.index.to_numpy() % 10) == 9
        return sp.hstack([sp.csr_matrix(numbers), text]).tocsr(), (chunk[41] == "normal.").to_numpy(int), held_out

    model = BayesianGLMClassifier(prior_precision=1.0)
    rows, start = 0, time.perf_counter()
    for chunk in chunks(limit):
        X, y, held_out = design(chunk)
        model.partial_fit(X[~held_out], y[~held_out], classes=[0, 1])
        rows += len(y)
    seconds, loss, tested = time.perf_counter() - start, 0.0, 0
    for chunk in chunks(limit):
        X, y, held_out = design(chunk)
        loss -= float(model.log_predictive_density(X[held_out], y[held_out]).sum())
        tested += int(held_out.sum())
    return {"rows": rows, "columns": X.shape[1], "held-out rows": tested, "log loss": loss / tested, "seconds": seconds}


def in_vectors(case: dict[str, Any], added: float) -> float:
    """What the fit added, less three row blocks and ten D x D matrices, in vectors of N numbers."""
    from sksvi._runtime.parallel import chunk_rows

    n, d = case["n"], case["d"]
    return (added * 2**20 / 8 - 3 * chunk_rows(d, True) * d - 10 * d * d) / n


def main(quick: bool = False) -> None:
    share = 0.1 if quick else 1.0
    cases: list[dict[str, Any]] = [
        {"case": "dense", "n": int(300_000 * share), "d": 100, "density": 1.0, "settings": {}},
        {"case": "dense, wide", "n": int(40_000 * share), "d": 800, "density": 1.0, "settings": {}},
        {"case": "sparse", "n": int(300_000 * share), "d": 300, "density": 0.02, "settings": {}},
        {
            "case": "dense, diagonal",
            "n": int(300_000 * share),
            "d": 100,
            "density": 1.0,
            "settings": {"covariance": "diag"},
        },
        {
            "case": "dense, batches of 1000",
            "n": int(300_000 * share),
            "d": 100,
            "density": 1.0,
            "settings": {"batch_size": 1000},
        },
    ]
    rows = []
    for case in cases:
        found = fresh_process(FIT.format(**{key: case[key] for key in ("n", "d", "density", "settings")}))
        rows.append(
            {
                "case": case["case"],
                "rows": case["n"],
                "columns": case["d"],
                "data, MiB": found["data"],
                "dense copy, MiB": case["n"] * case["d"] * 8 / 2**20,
                "added by the fit, MiB": found["added"],
                "D x D matrix, MiB": case["d"] ** 2 * 8 / 2**20,
                "rest in vectors of N": in_vectors(case, found["added"]),
                "passes": found["passes"],
            }
        )
        progress(rows[-1])
    notes = [
        "Rest: what was added less 3 row blocks and 10 matrices of D x D (diagonal fits have none), in vectors of N: "
        "gradients and sites of a fit, further matrices, the allocator's reserve."
    ]
    report("product/memory", "Peak memory of a fit", rows, notes, quick)
    found = fresh_process(STREAM.format(limit=50_000 if quick else None))
    row = {
        "rows": found["rows"],
        "columns": found["columns"],
        "imports, MiB": found["imports"],
        "peak beyond imports, MiB": found["added"],
        "held-out rows": found["held-out rows"],
        "held-out log loss": found["log loss"],
        "seconds": found["seconds"],
    }
    notes = ["Every tenth row held out; seconds: reading, encoding and partial_fit of the training pass."]
    report("product/memory_stream", "kddcup99 streamed by pandas.read_csv(chunksize=10000)", [row], notes, quick)


if __name__ == "__main__":
    main(arguments(__doc__))
