"""One table for newcomers: a task, what one would use, and quality and seconds of both, from the tables stored so far.

Each line names the study that measured it, and reads its last stored run: nothing is measured here. What 90 % intervals
hold is of simulated data whose truth is known, by the kind of estimator (``truth.defaults``).
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from benchmarks._lib import HERE
from benchmarks._lib.cells import stored_rows
from benchmarks._lib.tables import RESULTS, arguments, report, table
from benchmarks.truth.trust import gathered, shares


@dataclass(frozen=True)
class Line:
    """A task, and where its two rows are.

    study : folder and module. ours, theirs : column -> value of the rows that are averaged, None: rows have both.
    quality : column, of the peer too, and what it is called. seconds : column, of the peer too.
    of_seconds : study whose rows have these, where another one's do.
    """

    task: str
    estimator: str
    peer: str
    study: str
    quality: tuple[str, str, str]
    seconds: tuple[str, str]
    ours: dict[str, Any] = field(default_factory=dict)
    theirs: dict[str, Any] | None = None
    of_seconds: str | None = None


def texts(task: str, study: str, own: dict[str, Any]) -> Line:
    """TF-IDF of documents, for which the default chooses a low-rank covariance: means over sets and splits."""
    columns = ("low-rank", "LogisticRegressionCV")
    quality = (*columns, "held-out nats a row ↓")
    peer = "scikit-learn LogisticRegressionCV"
    return Line(task, "BayesianGLMClassifier", peer, study, quality, columns, own, of_seconds=f"{study}_cpu")


SCORE = ("score", "peer's score", "share of loss explained ↑")
R_LOSS = ("held-out loss", "R's loss", "held-out nats a row ↓")
R_SECONDS = ("CPU seconds", "R's seconds")
CPU = ("CPU seconds", "CPU seconds")


def default(task: str, data: str, estimator: str, peer: str) -> Line:
    """A default call, five-fold."""
    own = {"data": data, "estimator": estimator}
    return Line(task, estimator, peer, "product/defaults", SCORE, ("CPU seconds", "peer's seconds"), own)


def beside_r(task: str, begins: str, estimator: str, peer: str) -> Line:
    return Line(task, estimator, peer, "product/beside_r", R_LOSS, R_SECONDS, {"task": begins})


def completion(name: str, peer: str) -> Line:
    quality = ("log p per word", "log p per word", "log p per held-out word ↑")
    own = {"split": 0, "method": "StructuredLDA, float64", "passes": 20}
    return Line(
        "topics of NIPS papers", "StructuredLDA", peer, "topics/lda", quality, CPU, own, {"split": 0, "method": name}
    )


LINES = [
    default("disease progression, 442 patients", "diabetes", "BayesianGLMRegressor", "scikit-learn BayesianRidge"),
    default("tumour or not, 569 cells", "breast cancer", "BayesianGLMClassifier", "scikit-learn LogisticRegression"),
    texts("20 sets of texts, two classes, TF-IDF", "glm/text", {"kind": "text"}),
    beside_r("incomes, 32,561 rows", "32,561", "BayesianGLMClassifier", "R glmnet, cv.glmnet"),
    beside_r("visits to doctors, 20,186 counts", "20,186", "BayesianGLMRegressor", "R glmmTMB, nbinom2"),
    beside_r("73,421 ratings, crossed groups", "ratings", "GMERegressor", "R lme4, lmer"),
    beside_r("answers of 316 persons to 24 items", "yes or no", "GMEClassifier", "R lme4, glmer"),
    beside_r("seizures of 59 patients", "seizures", "GMERegressor", "R lme4, glmer with an effect per row"),
    beside_r("rings of 4,177 shells", "rings", "SparseGPRegressor", "R mgcv, gam"),
    Line(
        "quality of 1,599 wines",
        "SparseGPRegressor",
        "GPflow SGPR",
        "gp/regression",
        ("NLL", "NLL", "held-out nats a row ↓"),
        ("seconds", "seconds"),
        {"data": "wine", "method": "default"},
        {"data": "wine", "method": "GPflow SGPR"},
    ),
    Line(
        "drivers killed, one month ahead",
        "DynamicGLM",
        "statsmodels UnobservedComponents of log(1 + y)",
        "series/forecasts",
        ("1 ahead", "1 ahead", "log p of the next count ↑"),
        ("online, CPU s", "online, CPU s"),
        {"series": "VanKilled", "method": "DynamicGLM"},
        {"series": "VanKilled", "method": "UnobservedComponents of log(1 + y)"},
    ),
    Line(
        "MovieLens, a million ratings",
        "GeneralizedPMF, ordinal",
        "SMURFF",
        "factorization/movielens",
        ("rmse", "rmse", "rmse ↓"),
        CPU,
        {"task": "ordinal", "model": "GeneralizedPMF, K = 20"},
        {"task": "gaussian", "model": "SMURFF, K = 32"},
    ),
    completion("LDA (scikit-learn, batch)", "scikit-learn LatentDirichletAllocation"),
    completion("LDA (tomotopy)", "tomotopy"),
    Line(
        "missing counts of digits",
        "GammaPoissonFactorization",
        "hpfrec",
        "nmf/poisson",
        ("averaged", "averaged", "log p per held-out count ↑"),
        CPU,
        {"data": "digits", "method": "200 passes at most"},
        {"data": "digits", "method": "hpfrec"},
    ),
    Line(
        "4 million rows on two workers",
        "BayesianGLMClassifier",
        "dask_ml LogisticRegression",
        "partitions/cost_peer",
        ("log loss", "log loss", "nats a row ↓"),
        ("seconds", "seconds"),
        {"package": "sksvi"},
        {"package": "dask_ml, lbfgs"},
    ),
]
#: Whose intervals were counted on simulated data, by task. Others were not counted.
FAMILIES = {
    "disease progression, 442 patients": "GLM gaussian",
    "tumour or not, 569 cells": "GLM logit",
    "incomes, 32,561 rows": "GLM logit",
    "visits to doctors, 20,186 counts": "GLM negative-binomial",
    "73,421 ratings, crossed groups": "Mixed gaussian",
    "answers of 316 persons to 24 items": "Mixed logit",
    "seizures of 59 patients": "Mixed poisson",
    "rings of 4,177 shells": "SparseGPRegressor",
    "quality of 1,599 wines": "SparseGPRegressor",
    "drivers killed, one month ahead": "Series poisson",
    "4 million rows on two workers": "GLM logit",
}


def rows_of(study: str, wanted: dict[str, Any]) -> list[dict[str, Any]]:
    """Rows of a stored table whose columns have these values; of words, that begin so."""
    found = json.loads((RESULTS / f"{study}.json").read_text())["rows"]

    def fits(value: Any, want: Any) -> bool:
        return str(value).startswith(want) if study == "product/beside_r" else value == want

    return [row for row in found if all(fits(row.get(name), want) for name, want in wanted.items())]


def mean(rows: list[dict[str, Any]], column: str, what: str) -> float:
    values = [float(row[column]) for row in rows if row.get(column) is not None]
    if not values:
        raise LookupError(f"no stored row has {column!r} of {what}: run its study first.")
    return float(np.mean(values))


def held(family: str | None) -> str:
    """What 90 % intervals of strong effects, and of y (of f where labels are), hold: means over kinds of data."""
    found = {
        what: rows for (name, what), rows in gathered(stored_rows("truth/defaults_covered")).items() if name == family
    }
    asked = ["strong effect", "y" if "y" in found else "f"]
    return ", ".join(f"{what.split()[-1]} {shares(found[what])['mean']:.2f}" for what in asked if what in found)


def told(line: Line) -> dict[str, Any]:
    ours = rows_of(line.study, line.ours)
    theirs = ours if line.theirs is None else rows_of(line.study, line.theirs)
    quality = (mean(ours, line.quality[0], line.task), mean(theirs, line.quality[1], line.task))
    timed = (ours, theirs) if line.of_seconds is None else (rows_of(line.of_seconds, line.ours),) * 2
    seconds = tuple(mean(rows, column, line.task) for rows, column in zip(timed, line.seconds, strict=True))
    return {
        "task": line.task,
        "sksvi": line.estimator,
        "you would use": line.peer,
        "quality": line.quality[2],
        "ours / theirs": " / ".join(f"{value:.4g}" for value in quality),
        HOLD: held(FAMILIES.get(line.task)),
        "seconds, ours / theirs": " / ".join(f"{value:.2g}" for value in seconds),
        "study": f"`{line.study.replace('/', '.')}`",
    }


#: The column of intervals.
HOLD = "90 % intervals hold"
#: What stands around the table in README.
BEFORE, AFTER = "<!-- beside -->\n", "<!-- /beside -->"
#: Its columns there.
SHORT = ["task", "sksvi", "you would use", "quality", "ours / theirs", HOLD, "seconds, ours / theirs"]


def readme(text: str) -> str:
    """README with the table as the stored runs have it."""
    head, rest = text.split(BEFORE)
    return head + BEFORE + table([told(line) for line in LINES], SHORT) + "\n" + AFTER + rest.split(AFTER)[1]


def main(quick: bool = False) -> int:
    notes = [
        "↑ more is better, ↓ less is. Seconds are CPU seconds of a fit, of GPflow and on workers seconds by the clock; "
        "the forecasts' are of 96 months ahead, one by one. Each line is the last stored run of the study named, where "
        "rows, splits and machine are told: seconds compare within a line. Intervals are those of `truth.defaults`, on "
        "simulated data: of a strong effect (2.5 standard errors and more; in series a coefficient), and of y, or of "
        "f where y is a label."
    ]
    rows = [told(line) for line in LINES]
    report("product/beside", "What you would use, and sksvi", rows, notes, quick)
    if not quick:
        page = HERE.parent / "README.md"
        page.write_text(readme(page.read_text()))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(arguments(__doc__)))
