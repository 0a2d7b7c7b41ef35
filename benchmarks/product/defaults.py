"""Default calls as a stranger makes them, beside what he called before: thirty small sets, raw units, rows unshuffled.

Ours get no parameter but what says what the data are (the likelihood of counts, the names of the groups), the others
none either. Five folds: fold i holds out rows i, i + 5, ... and the others keep their order. ``score`` is the share of
a loss explained, 1 - loss / loss of the training rows' mean (squares for measured targets, the Poisson deviance for
counts, -log p for labels and for words). Each row is judged, see ``judged``; one that fails ends the command with 1.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks._lib import Array
from benchmarks._lib.measures import LEVEL
from benchmarks._lib.tables import arguments, progress, report
from benchmarks._lib.timing import Clock
from benchmarks.product import _default_peers as peers
from benchmarks.product._default_cases import Case, cases

FOLDS = 5
#: CPU seconds that a default call may take below so many rows and columns; standard errors behind the peer.
MOST_SECONDS, SMALL_ROWS, SMALL_COLUMNS, BEHIND = 5.0, 1000, 50, 2.0
#: Shares of new targets that 90 % intervals may hold.
COVERS = {"measured": (0.85, 0.95), "counts": (0.88, 1.0)}
#: CPU seconds of the first fold beyond which the other folds are left out.
PATIENCE = 15.0
#: Characters of a warning in the table.
SHOWN = 44
#: What numpy's generator is set to before a fit: random_state=None falls back on it.
SEED = 14


# ---------------------------------------------------------------- what is measured


def losses(kind: str, model: Any, X: Any, y: Array) -> Array:
    """Loss of each new row."""
    if kind == "words":
        return np.asarray(model.word_losses(X))
    if kind == "labels":
        p = np.asarray(model.predict_proba(X))[np.arange(len(y)), np.searchsorted(model.classes_, y)]
        return -np.log(np.maximum(p, np.finfo(float).tiny))
    mean = np.asarray(model.predict(X), float)
    return (y - mean) ** 2 if kind == "measured" else deviance(y, mean)


def deviance(y: Array, mean: Array) -> Array:
    """Poisson deviance of each count."""
    from scipy.special import xlogy

    mean = np.maximum(mean, np.finfo(float).tiny)
    return 2.0 * (xlogy(y, y / mean) - (y - mean))


class Mean:
    """The mean of the training rows (shares of labels, of words) for every new one."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def fit(self, X: Any, y: Array) -> Mean:
        if self.kind == "words":
            self.words = np.asarray(X.sum(0), float).ravel() + peers.FLOOR
        elif self.kind == "labels":
            self.classes_, counts = np.unique(y, return_counts=True)
            self.shares = counts / counts.sum()
        else:
            self.mean = float(np.mean(y))
        return self

    def predict(self, X: Any) -> Array:
        return np.full(len(X), self.mean)

    def predict_proba(self, X: Any) -> Array:
        return np.tile(self.shares, (len(X), 1))

    def word_losses(self, X: Any) -> Array:
        _, held = peers.halved(X)
        log_p = np.log(self.words / self.words.sum())
        return np.asarray(-(held @ log_p) / np.maximum(np.asarray(held.sum(1)).ravel(), 1.0))


def fold(case: Case, make: Callable[[], Any], data: tuple[Any, Array], i: int) -> dict[str, Any]:
    """One fit without fold i: losses on it, hits of 90 % intervals, CPU seconds, the warnings said."""
    X, y = data
    n = X.shape[0]
    test = np.arange(n) % FOLDS == i
    at = X.loc if hasattr(X, "loc") else X
    np.random.seed(SEED)
    with warnings.catch_warnings(record=True) as said, np.errstate(all="ignore"), Clock() as clock:
        warnings.simplefilter("always")
        model = make().fit(at[~test], y[~test])
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        found = {"losses": losses(case.kind, model, at[test], y[test]), "hits": np.array([])}
        if case.kind in COVERS and make is case.ours:
            low, high = np.asarray(model.predict_interval(at[test], coverage=LEVEL)).T
            found["hits"] = (low <= y[test]) & (y[test] <= high)
    return {**found, "seconds": clock.cpu, "said": [f"{w.category.__name__}: {w.message}" for w in said]}


def run(case: Case, make: Callable[[], Any], data: tuple[Any, Array], folds: int) -> list[dict[str, Any]]:
    """Folds that were run: all, or the first where it took long."""
    found = []
    for i in range(folds):
        found.append(fold(case, make, data, i))
        if found[0]["seconds"] > PATIENCE:
            break
    return found


def row_of(case: Case, folds: int) -> dict[str, Any]:
    data = case.load()
    n, d = data[0].shape
    name = type(getattr(case.ours(), "model", case.ours())).__name__
    peer_name = type(getattr(case.peer(), "model", case.peer())).__name__
    row: dict[str, Any] = {"data": case.data, "estimator": name, "peer": peer_name, "rows": n, "columns": d}
    try:
        ours = run(case, case.ours, data, folds)
    except Exception as error:  # what a stranger would see
        row["fails"] = f"{type(error).__name__}: {str(error)[:100]}"
        return row
    theirs = [fold(case, case.peer, data, i) for i in range(len(ours))]
    null = np.concatenate([fold(case, lambda: Mean(case.kind), data, i)["losses"] for i in range(len(ours))])
    mine, other = (np.concatenate([part["losses"] for part in parts]) for parts in (ours, theirs))
    gain = (other - mine) / null.mean()
    hits = np.concatenate([part["hits"] for part in ours])
    row |= {
        "folds": len(ours),
        "score": float(1 - mine.mean() / null.mean()),
        "peer's score": float(1 - other.mean() / null.mean()),
        "error of difference": float(gain.std(ddof=1) / np.sqrt(len(gain))),
        "covered": float(hits.mean()) if len(hits) else None,
        "CPU seconds": float(np.median([part["seconds"] for part in ours])),
        "peer's seconds": float(np.median([part["seconds"] for part in theirs])),
        "warnings": said(ours),
        "peer's warnings": sum(len(part["said"]) for part in theirs),
    }
    row["fails"] = ", ".join(judged(case.kind, row))
    return row


def said(parts: list[dict[str, Any]]) -> str:
    """The warnings of the folds by the beginning of their texts, each once, and in how many folds they were said."""
    begins = Counter(text[:SHOWN].replace("|", "/").replace("\n", " ") for part in parts for text in set(part["said"]))
    return "; ".join(f"{begin}… ({count})" for begin, count in sorted(begins.items()))


def judged(kind: str, row: dict[str, Any]) -> list[str]:
    """What falls short of the promise: seconds, score beside the peer's, cover of the intervals."""
    short = []
    if row["CPU seconds"] > MOST_SECONDS and row["rows"] < SMALL_ROWS and row["columns"] < SMALL_COLUMNS:
        short.append("seconds")
    # No gap to a peer without a finite score.
    gap = row["peer's score"] - row["score"]
    if gap > BEHIND * row["error of difference"] or not np.isfinite(row["score"]):
        short.append("score")
    if kind in COVERS and not COVERS[kind][0] <= row["covered"] <= COVERS[kind][1]:
        short.append("cover")
    return short


def main(quick: bool = False) -> int:
    """Rows that fall short."""
    rows = []
    for case in cases()[:: 6 if quick else 1]:
        rows.append(row_of(case, 2 if quick else FOLDS))
        progress(rows[-1])
    columns = {key: None for row in rows for key in row}
    rows = [{**columns, **row} for row in rows]
    failed = sum(bool(row["fails"]) for row in rows)
    low, high = COVERS["measured"]
    notes = [
        f"{len(rows) - failed} of {len(rows)} default calls hold what they promise: at most {MOST_SECONDS:g} CPU "
        f"seconds below {SMALL_ROWS} rows and {SMALL_COLUMNS} columns (median of the folds), a score no more than "
        f"{BEHIND:g} standard errors below the peer's, 90 % intervals that hold {low} to {high} of measured targets "
        f"and at least {COVERS['counts'][0]} of counts. A set whose first fold takes over {PATIENCE:g} s is judged "
        "by it alone."
    ]
    report("product/defaults", "Default calls beside what was called before", rows, notes, quick)
    return failed


if __name__ == "__main__":
    raise SystemExit(int(main(arguments(__doc__)) > 0))
