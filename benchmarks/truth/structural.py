"""90 % intervals of the effects of covariates on topics, of simulated documents of known effects, beside R's stm.

A number and a category with three levels move the log odds of four topics. stm has no intervals of the coefficients of
its prior: `estimateEffect` regresses proportions on covariates, and its intervals are held against the regression of
the true expected proportions.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import softmax

import sksvi
from benchmarks._lib import Array, r
from benchmarks._lib.cells import Row, same, stored_rows
from benchmarks._lib.tables import arguments, progress, report
from benchmarks.truth.topics import nearest

#: Effects on the log odds of three topics against the fourth: of a year, and of two parties against the first.
EFFECTS = np.array([[0.3, -0.2, 0.0], [1.0, 0.0, -1.0], [0.0, 0.8, 0.5]])
MEAN, COVARIANCE = np.array([0.0, 0.3, -0.3]), 0.5 * np.eye(3) + 0.25
K, V = 4, 200
#: Documents, words of each in the mean, and corpora.
CASES = [(300, 20, 20), (300, 100, 20), (1000, 50, 10)]
#: Draws of log odds for true expected proportions.
DRAWS = 2000
#: Standard errors on either side of a 90 % interval.
NORMAL = 1.645
STM = """
meta <- train[, c("year", "party")]; X <- as.matrix(train[, grepl("^w", names(train))])
seen <- which(colSums(X) > 0)
documents <- lapply(seq_len(nrow(X)), function(i) {
  at <- which(X[i, seen] > 0); rbind(as.integer(at), as.integer(X[i, seen][at])) })
fit <- timed(stm(documents, colnames(X)[seen], K = 4, prevalence = ~ year + party, data = meta, seed = 1,
                 verbose = FALSE))
set.seed(1)
effects <- summary(estimateEffect(1:4 ~ year + party, fit, metadata = meta, uncertainty = "Global"))$tables
beta <- matrix(0, 4, ncol(X)); beta[, seen] <- exp(fit$beta$logbeta[[1]])
prediction <- as.numeric(as.matrix(fit$mu$gamma)[2:4, ])
extra <- c(as.numeric(beta), unlist(lapply(effects, function(t) as.numeric(t[2:4, 1:2]))))
"""


def centred(effects: Array) -> Array:
    """Effects (3, 4) on log proportions less their mean over topics."""
    full = np.column_stack([effects, np.zeros(3)])
    return np.asarray(full - full.mean(1, keepdims=True))


def corpus(rng: np.random.Generator, n: int, words: int) -> dict[str, Any]:
    """Counts, covariates, topics, and the regression (3, K) of true expected proportions on the covariates."""
    frame = pd.DataFrame({"year": rng.normal(2000.0, 3.0, n), "party": rng.choice(["a", "b", "c"], n)})
    design = np.column_stack([frame["year"] - 2000.0, frame["party"] == "b", frame["party"] == "c"]).astype(float)
    means, root = MEAN + design @ EFFECTS, np.linalg.cholesky(COVARIANCE)
    noise = rng.standard_normal((DRAWS, 3)) @ root.T
    expected = np.stack([softmax(np.pad(mean + noise, ((0, 0), (0, 1))), 1).mean(0) for mean in means])
    shares = softmax(np.pad(means + rng.standard_normal((n, 3)) @ root.T, ((0, 0), (0, 1))), 1)
    topics, sizes = rng.dirichlet(np.full(V, 0.1), K), np.maximum(rng.poisson(words, n), 2)
    counts = np.stack([rng.multinomial(m, p / p.sum()) for m, p in zip(sizes, shares @ topics, strict=True)])
    regression = np.linalg.lstsq(np.column_stack([np.ones(n), design]), expected, rcond=None)[0][1:]
    return {"counts": counts, "frame": frame, "topics": topics, "regression": regression}


def ours(data: dict[str, Any]) -> dict[str, float]:
    """Cover, width and error of the effects of a fit with nothing set but K, and its CPU seconds."""
    began = time.process_time()
    model = sksvi.CorrelatedTopicModel(K, random_state=0).fit(data["counts"], covariates=data["frame"])
    seconds = time.process_time() - began
    rows, of_truth = nearest(model.components_, data["topics"])
    table, truth = model.effects_.to_numpy().reshape(K, 3, 4)[rows], centred(EFFECTS).T[of_truth]
    inside = (table[..., 2] <= truth) & (truth <= table[..., 3])
    error, width = table[..., 0] - truth, table[..., 3] - table[..., 2]
    return {"covers": inside.mean(), "width": width.mean(), "error": np.sqrt(np.square(error).mean()), "s": seconds}


def stm(data: dict[str, Any]) -> dict[str, float]:
    """Error of stm's coefficients, cover of its regression of proportions, and its CPU seconds."""
    words = pd.DataFrame(data["counts"], columns=[f"w{j}" for j in range(V)])
    train = pd.concat([words, data["frame"]], axis=1)
    seconds, gamma, extra = r.asked(STM, ("stm",), train, train.head(1), ("party",))
    rows, of_truth = nearest(extra[: K * V].reshape(V, K).T, data["topics"])
    error = (centred(gamma.reshape(K - 1, 3).T)[:, rows] - centred(EFFECTS)[:, of_truth]).T
    table = extra[K * V :].reshape(K, 2, 3)[rows]
    apart = np.abs(table[:, 0] - data["regression"].T[of_truth]) / table[:, 1]
    return {"error": np.sqrt(np.square(error).mean()), "covers": np.mean(apart < NORMAL), "s": seconds}


def run(n: int, words: int, sets: int, peer: bool, seed: int = 0, stored: Sequence[Row] = ()) -> Row:
    """The row of a case; without stm what a row that is stored has of it."""
    data = [corpus(np.random.default_rng([seed, number]), n, words) for number in range(sets)]
    ours(data[0])  # compiles
    own = pd.DataFrame([ours(one) for one in data])
    row: dict[str, Any] = {"data": f"{n} documents of {words} words", "corpora": sets}
    row |= {"covers": round(own["covers"].mean(), 3), "se": round(own["covers"].std() / sets**0.5, 3)}
    row |= {"width": round(own["width"].mean(), 3), "rms error": round(own["error"].mean(), 3)}
    row["CPU s"] = round(own["s"].median(), 1)
    if peer:
        other = pd.DataFrame([stm(one) for one in data])
        row |= {"stm: rms error": round(other["error"].mean(), 3), "stm: CPU s": round(other["s"].median(), 1)}
        row["stm: covers (its regression)"] = round(other["covers"].mean(), 3)
        return row
    before = next((own for own in stored if same(own, {"data": row["data"]})), {})
    return {**row, **{name: value for name, value in before.items() if name.startswith("stm")}}


def main(quick: bool = False) -> None:
    why = r.installed("stm")
    notes = [
        "Effects on centred log proportions of a number (standard deviation 3, at most 0.3 a unit) and of two levels "
        "(at most 1), topics learned from the same documents. rms error: of both in the same twelve numbers. stm's own "
        "intervals are of its regression of proportions, a linear summary of the true expected ones. "
        + (f"{why}: its columns are of an earlier run, on the same documents." if why else "")
    ]
    rows, stored = [], stored_rows("truth/structural")
    for n, words, sets in CASES[:1] if quick else CASES:
        rows.append(run(n, words, 2 if quick else sets, not why, stored=stored))
        progress(rows[-1])
        report("truth/structural", TITLE, rows, notes, quick)


TITLE = "Intervals of effects of covariates on topics"


if __name__ == "__main__":
    main(arguments(__doc__))
