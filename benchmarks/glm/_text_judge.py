"""Methods over sets: loss, calibration and CPU seconds, a summary beside LogisticRegressionCV, and what is demanded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks._lib import Array
from benchmarks._lib.tables import progress, report
from benchmarks.glm._text_corpus import versions
from benchmarks.glm._text_methods import CV, CV_LIMIT, LIMIT, LR, OURS, Makers, Score, ours, peers, scored, warm_up
from benchmarks.glm._text_sets import PACKAGES, TextSet

#: Geometric means of ratios to LogisticRegressionCV, and the worst one.
LOSS, WORST, CPU = 1.00, 1.15, 0.3
#: CPU beside one LogisticRegression that takes at least so many seconds.
BESIDE_ONE, AT_LEAST = 4.0, 0.3

Scores = dict[str, list[Score]]
Tables = dict[str, list[dict[str, Any]]]


def run(data: TextSet, makers: Makers, splits: int | None = None) -> tuple[tuple[int, int, int], Scores]:
    """Training rows, columns and classes, and the scores of each split by method; one that fails is not tried again."""
    found: Scores = {name: [] for name in makers}
    size = (0, 0, 0)
    for A, ya, B, yb in data.drawn(splits):
        size = (*A.shape, len(np.unique(ya)))
        negative = A.min() < 0
        for name, make in makers.items():
            if name == "MultinomialNB" and negative:
                found[name].append(Score(fails="negative columns"))
            elif found[name] and found[name][0].fails:
                found[name].append(found[name][0])
            else:
                found[name].append(scored(make, A, ya, B, yb, CV_LIMIT if name == CV else LIMIT))
    return size, found


def mean_of(scores: Sequence[Score], what: str) -> float:
    return float(np.mean([getattr(score, what) for score in scores]))


def rows_of(data: TextSet, size: tuple[int, int, int], found: Scores) -> dict[str, dict[str, Any]]:
    """Rows of the tables of loss (with the standard error of ours less that of CV), calibration and CPU seconds."""
    first = next(iter(found))
    start = {"data": data.name + " *" * data.tuned_on, "kind": data.kind}
    start |= dict(zip(("rows", "columns", "classes"), size, strict=True)) | {"splits": len(found[first])}
    rows = {what: {**start, **{name: mean_of(own, what) for name, own in found.items()}} for what in
            ("loss", "calibration", "cpu")}  # fmt: skip
    if CV in found:
        gaps = [a.loss - b.loss for a, b in zip(found[first], found[CV], strict=True)]
        rows["loss"]["se of difference"] = float(np.std(gaps, ddof=1) / np.sqrt(len(gaps))) if len(gaps) > 1 else None
    rows["loss"]["fails"] = "; ".join(f"{name}: {own[0].fails}" for name, own in found.items() if own[0].fails)
    return rows


def geometric(ratios: Array) -> float:
    return float(np.exp(np.mean(np.log(ratios)))) if len(ratios) else np.nan


def summary(name: str, tables: Tables) -> dict[str, Any]:
    """A method over all sets on which it ends, beside LogisticRegressionCV on the same."""
    value = {what: np.array([row[name] for row in rows]) for what, rows in tables.items()}
    beside = {what: np.array([row[CV] for row in rows]) for what, rows in tables.items()}
    one = np.array([row[LR] for row in tables["cpu"]])
    ends = np.isfinite(value["loss"]) & np.isfinite(beside["loss"])
    ratio = value["loss"][ends] / beside["loss"][ends]
    names = [row["data"] for row, there in zip(tables["loss"], ends, strict=True) if there]
    slow = ends & (one >= AT_LEAST)
    return {
        "method": name,
        "sets": int(ends.sum()),
        "log loss / CV": geometric(ratio),
        "worst": float(ratio.max()) if len(ratio) else None,
        "of": names[int(ratio.argmax())] if len(ratio) else "",
        "sets above 1.15": int(np.sum(ratio > WORST)),
        "calibration error": float(value["calibration"][ends].mean()) if ends.any() else None,
        "that of CV": float(beside["calibration"][ends].mean()) if ends.any() else None,
        "CPU / CV": geometric(value["cpu"][ends] / beside["cpu"][ends]),
        "CPU / one LR, most": float((value["cpu"] / one)[slow].max()) if slow.any() else None,
    }


def demands(total: dict[str, Any], n_sets: int) -> list[dict[str, Any]]:
    """What the first of ours must reach, and what it did."""
    wanted = [
        ("sets on which it ends", total["sets"], n_sets, total["sets"] >= n_sets),
        ("log loss, geometric mean of ratios to CV", total["log loss / CV"], LOSS, total["log loss / CV"] <= LOSS),
        (f"the worst ratio ({total['of']})", total["worst"], WORST, (total["worst"] or np.inf) <= WORST),
        ("calibration error", total["calibration error"], total["that of CV"],
         (total["calibration error"] or np.inf) <= (total["that of CV"] or 0.0)),
        ("CPU, geometric mean of ratios to CV", total["CPU / CV"], CPU, total["CPU / CV"] <= CPU),
    ]  # fmt: skip
    if total["CPU / one LR, most"] is not None:
        found = total["CPU / one LR, most"]
        wanted.append(
            (f"CPU beside one LR of {AT_LEAST:g} s and more, the most", found, BESIDE_ONE, found <= BESIDE_ONE)
        )
    return [dict(zip(("demand", "found", "wanted", "holds"), line, strict=True)) for line in wanted]


def tables_of(sets: Sequence[TextSet], makers: Makers, splits: int | None) -> tuple[Tables, list[str]]:
    """Tables of loss, calibration and CPU seconds over the sets, and the reasons of those left out."""
    tables: Tables = {"loss": [], "calibration": [], "cpu": []}
    skipped = []
    for data in sets:
        try:
            rows = rows_of(data, *run(data, makers, splits))
        except FileNotFoundError as error:
            skipped.append(f"{data.name} is left out: {error}.")
            continue
        for what, row in rows.items():
            tables[what].append(row)
        progress(rows["loss"])
    return tables, skipped


def judged(name: str, title: str, sets: Sequence[TextSet], quick: bool) -> int:
    """All methods on the sets, reported under ``glm/<name>``; demands that the first of ours does not meet."""
    makers = {**ours(), **peers()}
    warm_up(makers)
    tables, skipped = tables_of(sets, makers, 2 if quick else None)
    notes = [
        "Means over random splits; * the table was among those of the tuning, with other splits. The standard error "
        f"is that of the first column's loss less that of {CV}, over the splits.",
        f"A fit of more than {LIMIT:g} CPU seconds ({CV_LIMIT:g} of {CV}) is ended, and its method is not tried again "
        f"on that set. {CV} has ten values of C from 1e-4 to 1e4 and five folds.",
        f"Docstrings of {versions(PACKAGES)}.",
        *skipped,
    ]
    report(f"glm/{name}", f"{title}: log loss", tables["loss"], notes, quick)
    report(f"glm/{name}_calibration", f"{title}: calibration error", tables["calibration"], (), quick)
    report(f"glm/{name}_cpu", f"{title}: CPU seconds of fit", tables["cpu"], (), quick)
    totals = [summary(method, tables) for method in makers]
    report(f"glm/{name}_summary", f"{title}: all sets, beside {CV}", totals, (), quick)
    wanted = demands(totals[0], len(tables["loss"]))
    report(f"glm/{name}_demands", f"{title}: what {next(iter(OURS))} must reach", wanted, (), quick)
    return sum(not row["holds"] for row in wanted)
