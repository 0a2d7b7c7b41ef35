"""Fits of two versions in turn: CPU seconds and peak memory of this one over those of another commit's.

    python -m benchmarks product.versions            # beside `BEFORE`
    SKSVI_BEFORE=COMMIT python -m benchmarks product.versions

    SKSVI_STREAMS=1 python -m benchmarks product.versions  # streams of kddcup99 beside those before they had a sample

Every fit runs in a fresh process on one thread, from a checkout of its version, by public names alone; both versions
take turns, so that what else the machine does meets both. The first fit of a process compiles and is not counted.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks._lib import HERE
from benchmarks._lib.tables import arguments, progress, report
from benchmarks._lib.timing import median

#: Run by its own name only: it needs the history.
STORED = True
#: The commit before the engine had rules and passes.
BEFORE = "7328b0b"
#: The commit before streams kept a sample of past rows, and the chunks of a stream.
BEFORE_SAMPLES, CHUNKS = "3e55efc", (200, 1000, 5000)
#: What every process makes first.
DATA = """
import json, resource, sys, time, warnings
import numpy as np
warnings.simplefilter("ignore")
import sksvi
rng = np.random.default_rng(0)
"""
#: Fit: (data, call, fits in a process).
FITS = {
    "GLM, 20,000 x 100, full": (
        "X = rng.normal(size=(20000, 100)); y = (X[:, 0] + rng.normal(size=20000) > 0).astype(int)",
        "sksvi.BayesianGLMClassifier(max_iter=15, tol=0, random_state=0).fit(X, y)",
        6,
    ),
    "GLM, 20,000 x 100, diagonal": (
        "X = rng.normal(size=(20000, 100)); y = (X[:, 0] + rng.normal(size=20000) > 0).astype(int)",
        "sksvi.BayesianGLMClassifier(max_iter=4, tol=0, covariance='diag', random_state=0).fit(X, y)",
        3,
    ),
    "GLM, batches of 256, natural": (
        "X = rng.normal(size=(20000, 50)); y = (X[:, 0] + rng.normal(size=20000) > 0).astype(int)",
        "sksvi.BayesianGLMClassifier(algorithm='mc-ssvi', batch_size=256, max_iter=8, tol=0, random_state=0).fit(X, y)",
        4,
    ),
    "GLM, batches of 256, messages": (
        "X = rng.normal(size=(20000, 50)); y = (X[:, 0] + rng.normal(size=20000) > 0).astype(int)",
        "sksvi.BayesianGLMClassifier(algorithm='cvi', batch_size=256, max_iter=8, tol=0, random_state=0).fit(X, y)",
        4,
    ),
    "GLM, 569 x 30": (
        "from sklearn.datasets import load_breast_cancer; X, y = load_breast_cancer(return_X_y=True); "
        "X = (X - X.mean(0)) / X.std(0)",
        "sksvi.BayesianGLMClassifier(random_state=0).fit(X, y)",
        20,
    ),
    "Sparse GP, 2,000 rows, 50 inducing": (
        "X = rng.normal(size=(2000, 3)); y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=2000)",
        "sksvi.SparseGPRegressor(n_inducing=50, max_iter=40, random_state=0).fit(X, y)",
        3,
    ),
    "Factorization, 200,000 ratings, full": (
        "X = np.column_stack([rng.integers(0, 3000, 200000), rng.integers(0, 2000, 200000)]); "
        "y = rng.normal(size=200000)",
        "sksvi.GeneralizedPMF(16, max_iter=3, tol=0, random_state=0).fit(X, y)",
        2,
    ),
    "Factorization, 200,000 ratings, diagonal": (
        "X = np.column_stack([rng.integers(0, 3000, 200000), rng.integers(0, 2000, 200000)]); "
        "y = (rng.normal(size=200000) > 0).astype(float)",
        "sksvi.GeneralizedPMF(16, likelihood='logit', covariance='diag', max_iter=3, tol=0, random_state=0).fit(X, y)",
        2,
    ),
    "Topics, 2,000 documents, 30 topics": (
        "X = sksvi.datasets.make_ctm(2000, 2000, n_components=30, random_state=0).data; y = None",
        "sksvi.CorrelatedTopicModel(30, max_iter=2, tol=0, random_state=0).fit(X)",
        2,
    ),
    "Sparse factors, 4,000 x 64, batches": (
        "X = rng.normal(size=(4000, 64)); y = None",
        "sksvi.BetaProcessFA(64, max_iter=2, tol=0, batch_size=250, random_state=0).fit(X)",
        3,
    ),
}
#: A stream of shuffled rows that were written to a folder; nothing is compiled in it that the import has not.
STREAM = """
import scipy.sparse as sp
X, y = sp.load_npz("{folder}/X.npz"), np.load("{folder}/y.npy")
order = rng.permutation(len(y))
def stream(chunk):
    model = sksvi.BayesianGLMClassifier(random_state=0)
    for start in range(0, len(y), chunk):
        rows = order[start : start + chunk]
        model.partial_fit(X[rows], y[rows], classes=[0, 1])
"""
LOOP = """
fit = lambda: {call}
fit()
seconds = []
for _ in range({n}):
    start = time.process_time()
    fit()
    seconds.append(time.process_time() - start)
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(json.dumps(dict(seconds=min(seconds), mib=peak)))
"""


def measured(checkout: Path, data: str, call: str, n: int) -> dict[str, Any]:
    """Least CPU seconds of n fits, and the peak of the process, with the package of a checkout."""
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    done = subprocess.run(
        [sys.executable, "-c", DATA + data + LOOP.format(call=call, n=n)],
        capture_output=True,
        text=True,
        check=True,
        cwd=checkout,
        env={**os.environ, **threads, "PYTHONPATH": str(checkout)},
    )
    return dict(json.loads(done.stdout.splitlines()[-1]))


def streams(folder: str) -> dict[str, tuple[str, str, int]]:
    """Streams of kddcup99, whose rows are written to a folder that both versions read."""
    import numpy as np
    import scipy.sparse as sp

    from benchmarks.glm.streams import kddcup

    X, y = kddcup()
    sp.save_npz(f"{folder}/X.npz", X)
    np.save(f"{folder}/y.npy", y)
    data = STREAM.format(folder=folder)
    return {f"kddcup99, shuffled, chunks of {chunk}": (data, f"stream({chunk})", 1) for chunk in CHUNKS}


def main(quick: bool = False) -> None:
    own = bool(os.environ.get("SKSVI_STREAMS"))
    turns, before = 2 if quick or own else 5, os.environ.get("SKSVI_BEFORE", BEFORE_SAMPLES if own else BEFORE)
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        other = Path(folder) / "before"
        git = ["git", "-C", str(HERE.parent)]
        subprocess.run([*git, "worktree", "add", "--detach", str(other), before], check=True, capture_output=True)
        try:
            for name, fit in (streams(folder) if own else FITS).items():
                pairs = [(measured(other, *fit), measured(HERE.parent, *fit)) for _ in range(turns)]
                rows.append(
                    {
                        "fit": name,
                        "before s": min(a["seconds"] for a, _ in pairs),
                        "now s": min(b["seconds"] for _, b in pairs),
                        "now / before": min(b["seconds"] for _, b in pairs) / min(a["seconds"] for a, _ in pairs),
                        "median ratio": median([b["seconds"] / a["seconds"] for a, b in pairs]),
                        "memory now / before": median([b["mib"] / a["mib"] for a, b in pairs]),
                    }
                )
                progress(rows[-1])
        finally:
            subprocess.run([*git, "worktree", "remove", "--force", str(other)], check=False, capture_output=True)
    notes = [f"Before: commit {before}. Seconds: least CPU seconds of a fit over {turns} turns, one thread."]
    title = "Default streams beside those without a sample" if own else "This version beside the one before"
    report("product/versions_streams" if own else "product/versions", title, rows, notes, quick)


if __name__ == "__main__":
    main(arguments(__doc__))
