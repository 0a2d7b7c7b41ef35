"""Cover of 90 % intervals where columns outnumber rows, under both covariances, with the truth known.

Standard normal columns, or words of documents of unit length; labels of a logistic regression. Effects are of all
columns alike, or of few that are strong: of words, of the commonest. Intervals are of coefficients, by `summary`, and
of the latent f of new rows, by `predict_latent`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import expit
from sklearn.preprocessing import normalize

from benchmarks._lib import Array
from benchmarks._lib.tables import arguments, progress, report
from benchmarks.glm.text_large import zipf_documents
from sksvi import BayesianGLMClassifier

#: Columns, rows, how many columns, how many have an effect, its standard deviation.
NUMBERS, WORDS = "numbers", "words"
DESIGNS = [(NUMBERS, 100, 120, 120, 0.2), (NUMBERS, 100, 120, 5, 1.5), (NUMBERS, 60, 200, 200, 0.1)]
DESIGNS += [(NUMBERS, 60, 200, 3, 2.0), (NUMBERS, 200, 150, 5, 1.5), (WORDS, 200, 1000, 1000, 6.0)]
DESIGNS += [(WORDS, 200, 1000, 10, 15.0), (WORDS, 1000, 3000, 3000, 6.0), (WORDS, 1000, 3000, 10, 15.0)]
#: Rows to come, sets of each design, sets of words, and the commonest words, which say little.
NEW, SETS, SETS_OF_WORDS, COMMON = 500, 100, 20, 20
Z = 1.6448536269514722
MEASURES = ("all coefficients", "those with an effect", "f of new rows", "log loss")


def simulated(design: tuple[str, int, int, int, float], rng: np.random.Generator) -> tuple[Any, Any, Array]:
    """Columns of the rows and of new ones, and coefficients."""
    kind, n, d, some, size = design
    w = np.zeros(d)
    first = COMMON if kind == WORDS and some < d else 0
    w[first : first + some] = size * rng.standard_normal(some)
    if kind == NUMBERS:
        return rng.standard_normal((n, d)), rng.standard_normal((NEW, d)), w
    X = normalize(zipf_documents(n + NEW, d, rng))
    return X[:n], X[n:], w


def one(design: tuple[str, int, int, int, float], covariance: str, seed: int) -> tuple[float, ...]:
    """Shares inside of all coefficients, of those with an effect, of f of new rows; the expected log loss of these."""
    _, n, d, some, _ = design
    rng = np.random.default_rng([seed, n, d, some])
    X, new, w = simulated(design, rng)
    y = (rng.random(n) < expit(X @ w)).astype(int)
    model = BayesianGLMClassifier(covariance=covariance).fit(X, y)
    table = model.summary()
    found = (table["lower"].to_numpy()[:d] <= w) & (w <= table["upper"].to_numpy()[:d])
    f, (m, v) = new @ w, model.predict_latent(new)
    p, q = expit(f), model.predict_proba(new)[:, 1]
    loss = float(-(p * np.log(q) + (1 - p) * np.log1p(-q)).mean())
    return float(found.mean()), float(found[w != 0].mean()), float((np.abs(f - m) <= Z * np.sqrt(v)).mean()), loss


def main(quick: bool = False) -> None:
    rows: list[dict[str, Any]] = []
    for design in (DESIGNS[0], DESIGNS[6]) if quick else DESIGNS:
        kind, n, d, some, size = design
        for covariance in ("full", "low-rank"):
            sets = 4 if quick else SETS if kind == NUMBERS else SETS_OF_WORDS
            found = np.array([one(design, covariance, seed) for seed in range(sets)])
            error = found.std(axis=0, ddof=1) / np.sqrt(len(found))
            row = {"columns are": kind, "rows": n, "columns": d, "with an effect": some, "sd of effects": size}
            row |= {"covariance": covariance, "sets": sets}
            for name, mean, se in zip(MEASURES, found.mean(axis=0), error, strict=True):
                row |= {name: float(mean), f"se of {name}": float(se)}
            rows.append(row)
            progress(row)
    note = f"The log loss is expected over labels, at {NEW} new rows. se: standard error over sets."
    report("glm/wide_coverage", "Cover of 90 % intervals where columns outnumber rows", rows, [note], quick)


if __name__ == "__main__":
    main(arguments(__doc__))
