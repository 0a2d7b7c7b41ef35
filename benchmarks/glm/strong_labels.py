"""One strong effect on labels: why its estimate is too large, and what a lower floor of the shared scale would do.

The first of the columns has an effect of three standard errors, the others none (`simulate_glm`). Ratios are means of
estimate / truth: "table" is the row of ``summary()``, "joint" that of ``effects="joint"``, "refit" averages fits with
the table's own prior of the effect and the others' at each node, "likelihood" is its maximum. "covered" is the table's
90 % interval. The last columns have `ROWS_PER_COLUMN` at 10 in the place of 5: nats of a new row beyond
`LogisticRegression()`, and before it those of the default.
"""

from __future__ import annotations

import warnings
from typing import Any
from unittest import mock

import numpy as np
from sklearn.linear_model import LogisticRegression

from benchmarks._lib import Array
from benchmarks._lib.tables import arguments, progress, report
from sksvi import BayesianGLMClassifier
from sksvi.models.linear import scales
from sksvi.testing import Simulated, simulate_glm

SIZES, REPLICAS, NEW, TEN = ((50, 10), (200, 20), (1000, 20)), 100, 400, 10.0


def gain(model: BayesianGLMClassifier, data: Simulated) -> float:
    """Nats of a new row beyond `LogisticRegression`."""
    new, peer = data.new["new"], LogisticRegression(max_iter=1000).fit(data.X, data.y)
    rows = np.arange(len(new.y)), new.y.astype(int)
    return float(np.mean(np.log(model.predict_proba(new.X)[rows]) - np.log(peer.predict_proba(new.X)[rows])))


def row_of(model: BayesianGLMClassifier, data: Simulated) -> tuple[float, bool]:
    """Estimate / truth of the strong effect, and whether its interval holds it."""
    row, truth = model.summary().iloc[0], data.effects[0].value
    return float(row["mean"]) / truth, bool(row["lower"] <= truth <= row["upper"])


def refitted(model: BayesianGLMClassifier, X: Array, y: Array) -> float:
    """The first coefficient under its own weak prior and the others' at each node, averaged."""
    nodes, spread, found = model.hyperparameter_posterior_, X.std(axis=0), 0.0
    for weight, scale in zip(nodes["weight"], nodes["scale(coefficients)"], strict=True):
        precision = np.square(spread / scale)
        precision[0] = np.square(spread[0] / scales.WIDEST)
        fit = BayesianGLMClassifier(prior_precision=precision, hyperparameters="point").fit(X, y)
        found += weight * float(np.ravel(fit.coef_)[0])
    return found


def one(n: int, d: int, seed: int) -> list[float]:
    data = simulate_glm(n, d, likelihood="logit", n_new=NEW, random_state=seed)
    X, y, truth = data.X, data.y, data.effects[0].value
    model = BayesianGLMClassifier().fit(X, y)
    table, held = row_of(model, data)
    joint = float(model.summary(effects="joint")["mean"].iloc[0]) / truth
    largest = LogisticRegression(C=np.inf, max_iter=1000).fit(X, y).coef_[0, 0] / truth
    with mock.patch.object(scales, "ROWS_PER_COLUMN", TEN):
        lower = BayesianGLMClassifier().fit(X, y)
    again, held_again = row_of(lower, data)
    refit = refitted(model, X, y) / truth
    return [table, joint, refit, largest, held, gain(model, data), again, held_again, gain(lower, data)]


NAMES = ["table", "joint", "refit", "likelihood", "covered", "gain"]
NAMES += [f"{name}, ten" for name in ("table", "covered", "gain")]


def main(quick: bool = False) -> None:
    rows: list[dict[str, Any]] = []
    replicas = 4 if quick else REPLICAS
    for n, d in SIZES:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = np.array([one(n, d, seed) for seed in range(replicas)], float)
        rows.append({"rows x columns": f"{n} x {d}", **dict(zip(NAMES, found.mean(axis=0).tolist(), strict=True))})
        rows[-1]["error of the ratio"] = float(found[:, 0].std() / np.sqrt(replicas))
        progress(rows[-1])
    notes = [
        f"{replicas} sets of each size, the first effect three standard errors strong, the others none. Ratios are "
        'means of estimate / truth: of a row of `summary()`, of one with `effects="joint"`, of refits with the own '
        "prior of the effect and the others' at each node, of maximum likelihood. Covered: by the 90 % interval of the "
        "row, with a standard error of about 0.04. Gain: nats of a new row beyond `LogisticRegression()`. Ten: with "
        "ten rows for each column in the place of five."
    ]
    report("glm/strong_labels", "One strong effect on labels", rows, notes, quick)


if __name__ == "__main__":
    main(arguments(__doc__))
