"""Leave-one-out and standard deviations of the wide classifier, beside refits and the exact Laplace approximation.

``loo_`` of a fit with ``covariance="low-rank"`` against as many refits as there are rows, by scikit-learn's
LogisticRegression under the prior that the fit has chosen, each with the exact covariance of its Laplace approximation
at the fit's temperature. Of more rows than matrices of rows are formed for, losses by self-consistent variances beside
those by these matrices, at the mode under the precision that the fit has chosen. And ``coef_std_`` of several
covariances against the exact marginal deviations of the Laplace approximation about the mode under their own prior.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks._lib import Array
from benchmarks._lib.tables import arguments, progress, report
from benchmarks.glm._text_exact import Laplace, extended, leave_one_out
from benchmarks.glm._text_sets import (
    SEVERAL,
    TextSet,
    counts,
    docstrings,
    newsgroups,
    simulated,
    standardised,
    table,
    tumours,
    unchanged,
    words,
)

#: Of the intercept, whose prior is then about 0.
INTERCEPT_PRECISION = 0.04
#: Relative errors of `loo_` allowed of two classes and of more; of deviations in the median and at worst (quantile).
TWO, MORE, MEDIAN, WORST, QUANTILE = 0.02, 0.05, 0.03, 0.10, 0.98
LOW_RANK = {"covariance": "low-rank"}
#: Steps and tolerance of a mode.
STEPS, FIT_TOLERANCE = 1000, 1e-7
#: Whose deviations are compared.
OURS: dict[str, dict[str, Any]] = {
    "low-rank": LOW_RANK,
    "full": {"covariance": "full", "hyperparameters": "point"},
    "diag": {"covariance": "diag", "hyperparameters": "point"},
}


def small_sets() -> list[TextSet]:
    return [
        TextSet("sphinx/docutils", "", lambda: docstrings("sphinx", "docutils"), words, 80),
        TextSet("newsgroups 7/8", "", lambda: newsgroups(7, 8), counts, 80),
        TextSet("factors, 2 classes", "", simulated(300, 400, "factors"), unchanged, 60),
        TextSet("3 packages", "", lambda: docstrings("jax", "sphinx", "polars"), words, 75),
        TextSet("newsgroups rec", "", lambda: newsgroups(7, 8, 9, 10), counts, 80),
        TextSet("tumours of 5 tissues", "", tumours, standardised, 35),
    ]


def wider_sets() -> list[TextSet]:
    return [
        TextSet("hypothesis/_pytest", "", lambda: docstrings("hypothesis", "_pytest"), words, 200),
        TextSet("newsgroups 9/10", "", lambda: newsgroups(9, 10), counts, 200),
        TextSet("factors, 2 classes", "", simulated(300, 1000, "factors"), unchanged, 100),
        TextSet("4 packages", "", lambda: docstrings("jax", "statsmodels", "sphinx", "polars"), words, 160),
    ]


def larger_sets() -> list[TextSet]:
    return [
        TextSet("newsgroups 5/6", "", lambda: newsgroups(5, 6), counts, 1400),
        TextSet("dense truth, 1,500 x 50", "", simulated(2500, 50, "dense"), unchanged, 1500),
        TextSet("8 folders of sklearn", "", lambda: docstrings(*SEVERAL["8 folders of sklearn"]), words, 0.5),
        TextSet("MNIST 10 classes", "", lambda: table("mnist_t10k"), standardised, 500),
        TextSet("newsgroups all", "", newsgroups, counts, 1000),
    ]


def fitted(X: Any, y: Array, options: dict[str, Any]) -> tuple[Any, Array]:
    """The classifier, and the precisions of its columns."""
    from sksvi import BayesianGLMClassifier

    model = BayesianGLMClassifier(intercept_precision=INTERCEPT_PRECISION, **options).fit(X, y)  # type: ignore[arg-type]
    return model, np.broadcast_to(model.prior_precision_, model.coef_.shape[1])


def refits(data: TextSet) -> dict[str, Any]:
    """``loo_`` beside the mean of exact losses, on the first training rows of a set."""
    X, y, _, _ = next(data.drawn(1))
    y = np.unique(y, return_inverse=True)[1]
    model, precision = fitted(X, y, LOW_RANK)
    exact = float(leave_one_out(extended(X, precision, INTERCEPT_PRECISION), y, model.temperature_).mean())
    allowed = TWO if len(model.classes_) == 2 else MORE
    error = model.loo_ / exact - 1
    size = {"data": data.name, "rows": X.shape[0], "columns": X.shape[1], "classes": len(model.classes_)}
    chosen = {"prior precision": float(precision[0]), "temperature": float(model.temperature_)}
    found = {"loo_": float(model.loo_), "by refits": exact, "relative error": error, "allowed": allowed}
    return {**size, **chosen, **found, "holds": abs(error) <= allowed}


def approximate(data: TextSet) -> dict[str, Any]:
    """Leave-one-out by self-consistent variances, beside that by matrices of rows."""
    from sksvi.models.data import Table
    from sksvi.models.linear.low_rank import LowRankModel, WideFit

    X, y, _, _ = next(data.drawn(1))
    y = np.unique(y, return_inverse=True)[1]
    model, precision = fitted(X, y, LOW_RANK)
    options: Any = {"prior_precision": float(precision[0]), "intercept_precision": INTERCEPT_PRECISION}
    own = LowRankModel(model.likelihood_, **options, n_features=X.shape[1], fit_intercept=True, full=False)
    rows = X if sp.issparse(X) else X - X.mean(axis=0)
    fit = WideFit.of(own, Table(rows, y if len(model.classes_) > 2 else y.astype(float), None, None))
    mean = own.begin(fit.data, None)["weights"].mean
    width, none = fit.mean_square / float(precision[0]), np.zeros(0)
    point = replace(fit, gram=None).at(width, mean, none, STEPS, FIT_TOLERANCE)
    exact = replace(fit, gram=fit.rows.gram()).at(width, point.block.mean, none, STEPS, FIT_TOLERANCE)
    size = {"data": data.name, "rows": X.shape[0], "columns": X.shape[1], "classes": len(model.classes_)}
    found = {"self-consistent": float(point.losses.mean()), "by matrices": float(exact.losses.mean())}
    chosen = {"directions": fit.sketch.basis.shape[1], "prior precision": float(precision[0])}
    return {**size, **chosen, **found, "relative error": found["self-consistent"] / found["by matrices"] - 1}


def deviations(data: TextSet, name: str) -> dict[str, Any]:
    """Ratios of ``coef_std_`` to exact deviations."""
    X, y, _, _ = next(data.drawn(1))
    y = np.unique(y, return_inverse=True)[1]
    options = OURS[name]
    if name == "full":  # where it learns its prior, this need not be a diagonal
        options = {**options, "prior_precision": float(fitted(X, y, LOW_RANK)[1][0])}
    model, precision = fitted(X, y, options)
    exact = Laplace.of(extended(X, precision, INTERCEPT_PRECISION), y).deviations()[:, :-1] * precision**-0.5
    error = np.abs(model.coef_std_ / exact - 1)
    size = {"data": data.name, "rows": X.shape[0], "columns": X.shape[1], "classes": len(model.classes_)}
    ratio = float(np.median(model.coef_std_ / exact))
    worst = float(np.quantile(error, QUANTILE))
    found = {"ratio, median": ratio, "error, median": float(np.median(error)), f"error, {QUANTILE:.0%}": worst}
    holds = float(np.median(error)) <= MEDIAN and worst <= WORST
    return {**size, "covariance": name, **found, "largest": float(error.max()), "holds": holds}


def main(quick: bool = False) -> int:
    """Rows of low-rank fits that are less exact than demanded."""
    loo, more, std = [], [], []
    for data in small_sets()[:: 3 if quick else 1]:
        loo.append(refits(data))
        progress(loo[-1])
    for data in larger_sets()[1:2] if quick else larger_sets():
        more.append(approximate(data))
        progress(more[-1])
    for data in wider_sets()[: 1 if quick else None]:
        for name in OURS:
            std.append(deviations(data, name))
            progress(std[-1])
    notes = [
        f"Nats a row. Refits have the prior precision of the whole fit, {INTERCEPT_PRECISION:g} of the intercept, and "
        f"its temperature. Allowed: {TWO:.0%} of two classes, {MORE:.0%} of more."
    ]
    report("glm/text_loo", "Leave-one-out beside refits", loo, notes, quick)
    notes = ["Nats a row, at the mode (temperature 0). Of so many rows no demand is made: refits would take hours."]
    report("glm/text_loo_rows", "Leave-one-out of more rows, beside that by matrices of these", more, notes, quick)
    notes = [
        "Each beside the Laplace approximation about the mode under its own prior; those of `full` and `diag` are of "
        "the best Gaussian instead, `full` under the precision that low-rank has chosen. Demanded of low-rank: "
        f"{MEDIAN:.0%} in the median, {WORST:.0%} of {QUANTILE:.0%}."
    ]
    report("glm/text_loo_deviations", "Standard deviations of coefficients beside exact ones", std, notes, quick)
    return sum(not row["holds"] for row in [*loo, *(row for row in std if row["covariance"] == "low-rank")])


if __name__ == "__main__":
    raise SystemExit(int(main(arguments(__doc__)) > 0))
