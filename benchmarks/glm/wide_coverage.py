"""Cover of 90 % intervals of coefficients where columns outnumber rows, under both covariances, with the truth known.

Standard normal columns, labels of a logistic regression; effects are of all columns alike, or of few that are strong.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks._lib.tables import arguments, progress, report
from sksvi import BayesianGLMClassifier

#: Rows, columns, how many have an effect, its standard deviation.
DESIGNS = [(100, 120, 120, 0.2), (100, 120, 5, 1.5), (60, 200, 200, 0.1), (60, 200, 3, 2.0), (200, 150, 5, 1.5)]


def one(design: tuple[int, int, int, float], covariance: str, seed: int) -> tuple[float, float, float]:
    """Share of all coefficients in their intervals, of those with an effect, and the expected log loss of new rows."""
    n, d, some, size = design
    rng = np.random.default_rng([seed, n, d, some])
    w = np.zeros(d)
    w[:some] = size * rng.standard_normal(some)
    X, new = rng.standard_normal((n, d)), rng.standard_normal((500, d))
    y = (rng.random(n) < 1.0 / (1.0 + np.exp(-X @ w))).astype(int)
    model = BayesianGLMClassifier(covariance=covariance).fit(X, y)
    table = model.summary()
    found = (table["lower"].to_numpy()[:d] <= w) & (w <= table["upper"].to_numpy()[:d])
    p, q = 1.0 / (1.0 + np.exp(-new @ w)), model.predict_proba(new)[:, 1]
    return float(found.mean()), float(found[:some].mean()), float(-(p * np.log(q) + (1 - p) * np.log1p(-q)).mean())


def main(quick: bool = False) -> None:
    rows: list[dict[str, Any]] = []
    for design in DESIGNS[:1] if quick else DESIGNS:
        for covariance in ("full", "low-rank"):
            found = np.array([one(design, covariance, seed) for seed in range(4 if quick else 100)])
            error = found.std(axis=0, ddof=1) / np.sqrt(len(found))
            n, d, some, size = design
            rows.append(
                {"rows": n, "columns": d, "with an effect": some, "sd of effects": size, "covariance": covariance}
            )
            rows[-1] |= {"cover, all": found[:, 0].mean(), "se": error[0]}
            rows[-1] |= {"cover, with an effect": found[:, 1].mean(), "its se": error[1]}
            rows[-1] |= {"log loss": found[:, 2].mean(), "se of it": error[2]}
            progress(rows[-1])
    note = "100 sets each. The log loss is expected over labels, at 500 new rows."
    report("glm/wide_coverage", "Cover of 90 % intervals where columns outnumber rows", rows, [note], quick)


if __name__ == "__main__":
    main(arguments(__doc__))
