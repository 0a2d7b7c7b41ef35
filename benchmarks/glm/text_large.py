"""Large texts: 20 newsgroups whole, and simulated documents of 200,000 words; each fit in a process of its own.

Of 50 classes a fit to these words has ten million coefficients.

Log loss, calibration error, CPU seconds and the memory that a fit adds to its data; each demand on the first of ours is
a row of the last table, and one that is not met fails the command.
"""

from __future__ import annotations

import signal
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks._lib import Array
from benchmarks._lib.tables import arguments, progress, report
from benchmarks._lib.timing import fresh_process, peak_memory, reset_peak
from benchmarks.glm._text_methods import CV, LR, OURS, Score, ours, peers, scored, warm_up
from benchmarks.glm._text_sets import TextSet, counts, newsgroups, unchanged

#: CPU seconds of ours, and MiB that its fit may add to what was there: of ten million coefficients what is asked for
#: before it begins, 48 numbers for each of those whose word is there.
MOST_SECONDS = {"newsgroups": 8.0, "simulated": 2.0, "many": 40.0}
MOST_MEMORY = {"newsgroups": 600.0, "simulated": 600.0, "many": 3000.0}
#: CPU seconds after which a fit is ended, those of its process (where a compiled call does not end), its memory in GiB.
PATIENCE, OF_PROCESS, GIB = 40.0, 90, 8
#: Documents tested, words of a document, standard deviation of f in the simulated ones.
TESTED, LENGTH, SPREAD = 2000, 60, 2.0

FIT = """
import json, resource
resource.setrlimit(resource.RLIMIT_CPU, ({seconds}, {seconds} + 1))
resource.setrlimit(resource.RLIMIT_AS, ({gib} << 30, {gib} << 30))
from benchmarks.glm.text_large import measured
print(json.dumps(measured({case!r}, {method!r}, {quick})))
"""


def zipf_documents(n: int, d: int, rng: np.random.Generator) -> Any:
    """Counts (CSR) of documents of LENGTH words that are drawn by Zipf's law from d."""
    chances = np.cumsum(1.0 / (np.arange(d) + 10.0))
    drawn = np.searchsorted(chances, rng.random(n * LENGTH) * chances[-1])
    X = sp.csr_matrix((np.ones(n * LENGTH), drawn, np.arange(0, n * LENGTH + 1, LENGTH)), shape=(n, d))
    X.sum_duplicates()
    return X


def simulated(n: int, d: int, seed: int = 0, classes: int = 2) -> tuple[Any, Array]:
    """TF-IDF of such documents, and labels of f = Xw with normal w, f of standard deviation SPREAD."""
    from sklearn.feature_extraction.text import TfidfTransformer

    rng = np.random.default_rng([3, n, d, seed])
    X = TfidfTransformer(sublinear_tf=True).fit_transform(zipf_documents(n, d, rng)).tocsr()
    if classes > 2:
        f = X @ rng.standard_normal((d, classes))
        return X, (SPREAD * f / f.std() + rng.gumbel(size=f.shape)).argmax(axis=1)
    f = X @ rng.standard_normal(d)
    f = SPREAD * (f - f.mean()) / f.std()
    return X, (rng.random(n) < 1 / (1 + np.exp(-f))).astype(int)


def cases(quick: bool) -> dict[str, TextSet]:
    n, d = (2000, 20_000) if quick else (20_000, 200_000)
    many = (300, 5) if quick else (5000, 50)
    return {
        "newsgroups": TextSet("20 newsgroups", "text, classes", newsgroups, counts, 600 if quick else 11_300, 1),
        "simulated": TextSet("simulated", "text", lambda: simulated(n + TESTED, d), unchanged, n, 1),
        "many": TextSet(
            "simulated, 50 classes",
            "text, classes",
            lambda: simulated(many[0] + TESTED, d, classes=many[1]),
            unchanged,
            many[0],
            1,
        ),
    }


def methods(case: str) -> tuple[str, ...]:
    """All but what fits many times: cross-validation of 11,300 documents takes minutes."""
    if case == "many":  # most of the others are ended
        return (next(iter(OURS)), LR)
    return (*OURS, LR, f"{LR}, C=30", "MultinomialNB", "SGDClassifier")


def measured(case: str, method: str, quick: bool) -> dict[str, Any]:
    """One fit in this process: its scores, and the memory that it added to that of the data, MiB."""
    A, ya, B, yb = next(cases(quick)[case].drawn())
    make = {**ours(), **peers()}[method]
    warm_up({method: make})
    reset_peak()
    before = peak_memory()
    score: Score = scored(make, A, ya, B, yb, PATIENCE)
    found = {"log loss": score.loss, "calibration error": score.calibration, "CPU seconds": score.cpu}
    found = {name: value if np.isfinite(value) else None for name, value in found.items()}
    size = {"rows": A.shape[0], "columns": A.shape[1], "classes": len(np.unique(ya))}
    return {**size, **found, "memory, MiB": round(peak_memory() - before), "fails": score.fails}


def apart(case: str, method: str, quick: bool) -> dict[str, Any] | None:
    """``measured`` in a new process; None where the data are not there."""
    code = FIT.format(case=case, method=method, quick=quick, seconds=OF_PROCESS, gib=GIB)
    try:
        return fresh_process(code, {"OMP_NUM_THREADS": "1"})
    except RuntimeError as error:
        if "FileNotFoundError" in str(error):
            return None
        if f"ended with {-signal.SIGXCPU}" not in str(error):
            raise
        return {"fails": f"over {OF_PROCESS} CPU seconds, killed in a compiled call"}


def main(quick: bool = False) -> int:
    """Demands that are not met."""
    rows, wanted, notes = [], [], []
    columns = dict.fromkeys(
        ("rows", "columns", "classes", "log loss", "calibration error", "CPU seconds", "memory, MiB")
    )
    for case, data in cases(quick).items():
        for method in methods(case):
            found = apart(case, method, quick)
            if found is None:
                notes.append(f"{data.name} is left out: no data.")
                break
            rows.append({"data": data.name, "method": method, **columns, **found})
            progress(rows[-1])
            if method == next(iter(OURS)):
                wanted += demands(case, data.name, rows[-1])
    notes.append(
        f"Each fit in a new process on one thread, after a small one; memory is the largest beyond what the data took. "
        f"Ended after {PATIENCE:g} CPU seconds or with {GIB} GiB. Without {CV}, which fits fifty times. Simulated: "
        f"{LENGTH} words a document by Zipf's law, normal weights of all words, f of standard deviation {SPREAD:g}."
    )
    report("glm/text_large", "Large texts", rows, notes, quick)
    report("glm/text_large_demands", f"Large texts: what {next(iter(OURS))} must reach", wanted, (), quick)
    return sum(not row["holds"] for row in wanted)


def demands(case: str, name: str, found: dict[str, Any]) -> list[dict[str, Any]]:
    seconds, memory = found["CPU seconds"], found["memory, MiB"]
    ends = seconds is not None
    return [
        {"demand": f"{name}, CPU seconds", "found": seconds, "wanted": MOST_SECONDS[case],
         "holds": ends and seconds <= MOST_SECONDS[case]},
        {"demand": f"{name}, MiB", "found": memory if ends else None, "wanted": MOST_MEMORY[case],
         "holds": ends and memory <= MOST_MEMORY[case]},
    ]  # fmt: skip


if __name__ == "__main__":
    raise SystemExit(int(main(arguments(__doc__)) > 0))
