"""A stream of a million hashed documents in chunks of 1,000: ``partial_fit`` beside scikit-learn's SGDClassifier.

Documents of 60 words by Zipf's law out of a million, hashed with signs into 2^18 columns, rows of length 1; labels of
f = Xw before hashing, normal weights, f of standard deviation 2. Chunks are predicted before they are learned; memory
is what the process has after a tenth of the stream and at its end.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks._lib import Array
from benchmarks._lib.tables import arguments, progress, report
from benchmarks._lib.timing import Clock, fresh_process
from benchmarks.glm._text_methods import losses
from benchmarks.glm.text_large import SPREAD, zipf_documents

CHUNK, CHUNKS, WORDS, COLUMNS = 1000, 1000, 1_000_000, 2**18
#: Chunks between two that are predicted, and CPU seconds of learning after which a stream is ended.
EVERY, PATIENCE = 10, 100.0
#: Ratio of seconds to SGD's that is allowed, and of memory at the end to that after a tenth.
SLOWER, GROWTH = 5.0, 1.05
SGD = "SGDClassifier"
#: Ours, by the names of the table.
OURS: dict[str, dict[str, str]] = {"ours": {}, "ours, diag": {"covariance": "diag"}}

STREAM = """
import json
from benchmarks.glm.text_stream import streamed
print(json.dumps(streamed({method!r}, {chunks})))
"""


def documents(chunks: int) -> Iterator[tuple[Any, Array, Array]]:
    """Hashed rows, labels and the true f of one chunk after the other."""
    from sklearn.preprocessing import normalize

    rng = np.random.default_rng(41)
    weights, sign = rng.standard_normal(WORDS), rng.choice([-1.0, 1.0], WORDS)
    bucket = rng.integers(0, COLUMNS, WORDS)
    scale = None
    for _ in range(chunks):
        X = normalize(zipf_documents(CHUNK, WORDS, rng))
        f = X @ weights
        scale = SPREAD / f.std() if scale is None else scale
        y = (rng.random(CHUNK) < 1 / (1 + np.exp(-scale * f))).astype(int)
        hashed = sp.csr_matrix((X.data * sign[X.indices], bucket[X.indices], X.indptr), shape=(CHUNK, COLUMNS))
        hashed.sum_duplicates()
        yield hashed, y, scale * f


def maker(method: str) -> Any:
    from sklearn.linear_model import SGDClassifier

    from sksvi import BayesianGLMClassifier

    if method == SGD:
        return SGDClassifier(loss="log_loss", random_state=0)
    return BayesianGLMClassifier(**OURS[method])  # type: ignore[arg-type]


def resident() -> float:
    """MiB of this process."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def streamed(method: str, chunks: int) -> dict[str, Any]:
    """One method through the stream; it ends early where a chunk is refused or the seconds are spent."""
    model, found, best, clock, memory, taken, fails = maker(method), [], [], Clock(), [], 0, ""
    warnings.simplefilter("ignore")
    for t, (X, y, f) in enumerate(documents(chunks)):
        if t and t % EVERY == 0:
            found.append(float(losses(model.predict_proba(X), y).mean()))
            best.append(float(np.logaddexp(0, np.where(y, -f, f)).mean()))
        try:
            with clock:
                model.partial_fit(X, y, classes=[0, 1])
        except (MemoryError, ValueError) as error:
            fails = f"{type(error).__name__}: {' '.join(str(error).split())[:90]}"
            break
        taken = t + 1
        memory.append(resident())
        if clock.cpu > PATIENCE:
            fails = f"ended after {PATIENCE:g} CPU seconds"
            break
    later = slice(len(found) // 2, None)
    return {
        "documents": taken * CHUNK,
        "log loss": float(np.mean(found)) if found else None,
        "of the second half": float(np.mean(found[later])) if found else None,
        "of the true weights": float(np.mean(best)) if best else None,
        "CPU seconds": round(clock.cpu, 3),
        "MiB after a tenth": round(memory[max(len(memory) // 10, 1) - 1]) if memory else None,
        "MiB at the end": round(memory[-1]) if memory else None,
        "fails": fails,
    }


def holds(row: dict[str, Any], sgd: dict[str, Any]) -> bool:
    """SGD's loss, five times its seconds, the same memory at the end."""
    if row["fails"] or row["log loss"] is None:
        return False
    steady = row["MiB at the end"] <= GROWTH * row["MiB after a tenth"]
    return bool(steady and row["log loss"] <= sgd["log loss"] and row["CPU seconds"] <= SLOWER * sgd["CPU seconds"])


def main(quick: bool = False) -> int:
    """1 where the first of ours is not what it must be."""
    chunks = 40 if quick else CHUNKS
    rows = []
    for method in (SGD, *OURS):
        found = fresh_process(STREAM.format(method=method, chunks=chunks), {"OMP_NUM_THREADS": "1"})
        rows.append({"method": method, **found})
        progress(rows[-1])
    rows = [{**row, "holds": None if row is rows[0] else holds(row, rows[0])} for row in rows]
    notes = [
        f"Chunks of {CHUNK:,} documents, each {EVERY}th predicted before it is learned; CPU seconds of partial_fit "
        f"alone, one thread, one run. Demanded: the loss of {SGD}, at most {SLOWER:g} times its seconds, memory at the "
        f"end at most {GROWTH:g} times that after a tenth."
    ]
    report("glm/text_stream", "A million hashed documents", rows, notes, quick)
    return int(not rows[1]["holds"])


if __name__ == "__main__":
    raise SystemExit(main(arguments(__doc__)))
