"""The fits that R's users would make: lme4, glmmTMB, mgcv and glmnet beside ours on the same rows and held-out rows.

CPU seconds of the fit alone, once compiled loops and packages are there; a loss of held-out rows in nats; and estimates
of both side by side: standard deviations of groups, sizes.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.special import gammaln, xlogy

from benchmarks._lib import Array, r
from benchmarks._lib.loaders import load_csv, load_libsvm
from benchmarks._lib.tables import arguments, progress, report
from benchmarks._lib.timing import Clock
from benchmarks.mixed._data import Mixed, doctor_contacts, epil, inst_eval, split, verb_agg
from sksvi import BayesianGLMClassifier, BayesianGLMRegressor, GMEClassifier, GMERegressor, SparseGPRegressor

#: Rows of a first fit that does not count.
WARM = 400


# ---------------------------------------------------------------- losses of held-out rows, nats a row
def gaussian(y: Array, mean: Array, extra: Array) -> float:
    sd = extra[-1]
    return float(np.mean(0.5 * np.square((y - mean) / sd) + np.log(sd) + 0.5 * np.log(2 * np.pi)))


def bernoulli(y: Array, p: Array, extra: Array) -> float:
    p = np.clip(p, 1e-12, 1 - 1e-12)
    return float(-np.mean(xlogy(y, p) + xlogy(1 - y, 1 - p)))


def noisy_poisson(y: Array, f: Array, extra: Array) -> float:
    """With a normal effect of each row, integrated out."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    rate = np.exp(f[:, None] + extra[-1] * nodes)
    p = np.exp(xlogy(y[:, None], rate) - rate - gammaln(y + 1)[:, None])
    return float(-np.mean(np.log(p @ (weights / weights.sum()))))


def negative_binomial(y: Array, mean: Array, extra: Array) -> float:
    size = extra[-1]
    log = gammaln(y + size) - gammaln(size) - gammaln(y + 1)
    return float(-np.mean(log + size * np.log(size / (size + mean)) + xlogy(y, mean / (size + mean))))


@dataclass(frozen=True)
class Case:
    """A data set, our estimator and R's call.

    script : sets ``prediction`` (means of the test rows) and ``extra`` (numbers beside, the last a scale or a size).
    loss : of R's prediction; ours is minus the mean log predictive density. shared: numbers of ours that ``extra``
    begins with.
    """

    task: str
    data: Callable[[], Mixed]
    model: Callable[[], Any]
    packages: tuple[str, ...]
    call: str
    script: str
    loss: Callable[[Array, Array, Array], float]
    shared: Callable[[Any], Array] = field(default=lambda model: np.empty(0))
    named: str = ""


def group_stds(model: Any) -> Array:
    return np.asarray(model.group_std_["mean"], float)


def a9a() -> Mixed:
    """Incomes above a limit, 123 columns of zeros and ones."""
    import pandas as pd

    X, y = load_libsvm("a9a", 123)
    return Mixed("a9a", pd.DataFrame(X.toarray()).add_prefix("x"), (y > 0).astype(int), "logit")


def abalone() -> Mixed:
    """Rings of shells by their sizes and weights."""
    X, y = load_csv("abalone", "Rings")
    return Mixed("abalone", X.select_dtypes("number"), np.asarray(y, float), "gaussian")


FORMULA = 'paste("y ~", paste(setdiff(names(train), c("y", {groups})), collapse = " + "), "{random}")'


def formula(*groups: str) -> str:
    random = "".join(f" + (1 | {group})" for group in groups)
    return FORMULA.format(groups=", ".join(f'"{group}"' for group in groups), random=random).replace(", )", ")")


CASES = [
    Case(
        "ratings, three crossed groups of thousands of levels",
        inst_eval,
        lambda: GMERegressor(noise=False, groups=["student", "lecturer", "department"], n_jobs=1),
        ("lme4",),
        "lmer",
        f"m <- timed(lmer(as.formula({formula('student', 'lecturer', 'department')}), train, REML = FALSE));"
        "prediction <- predict(m, test, allow.new.levels = TRUE);"
        "v <- as.data.frame(VarCorr(m)); sds <- setNames(v$sdcor, v$grp);"
        'extra <- sds[c("student", "lecturer", "department", "Residual")]',
        gaussian,
        group_stds,
        "sd of student, lecturer, department",
    ),
    Case(
        "yes or no of 316 persons to 24 items",
        verb_agg,
        lambda: GMEClassifier(noise=False, groups=["person", "item"], n_jobs=1),
        ("lme4",),
        "glmer, binomial",
        f"m <- timed(glmer(as.formula({formula('person', 'item')}), train, family = binomial));"
        'prediction <- predict(m, test, type = "response", allow.new.levels = TRUE);'
        'v <- as.data.frame(VarCorr(m)); sds <- setNames(v$sdcor, v$grp); extra <- sds[c("person", "item")]',
        bernoulli,
        group_stds,
        "sd of person, item",
    ),
    Case(
        "seizures of 59 patients, noise per row",
        epil,
        lambda: GMERegressor(likelihood="poisson", groups=["subject"], n_jobs=1),
        ("lme4",),
        "glmer, Poisson with an effect per row",
        "train$row <- factor(seq_len(nrow(train)));"
        f"m <- timed(glmer(as.formula({formula('subject', 'row')}), train, family = poisson));"
        'test$row <- "new"; v <- as.data.frame(VarCorr(m)); sds <- setNames(v$sdcor, v$grp);'
        "prediction <- predict(m, test, re.form = ~ (1 | subject), allow.new.levels = TRUE);"
        'extra <- sds[c("subject", "row")]',
        noisy_poisson,
        group_stds,
        "sd of subject",
    ),
    Case(
        "20,186 counts of visits, overdispersed",
        doctor_contacts,
        lambda: BayesianGLMRegressor(likelihood="negative-binomial", n_jobs=1),
        ("glmmTMB",),
        "glmmTMB, nbinom2",
        f"m <- timed(glmmTMB(as.formula({formula()}), train, family = nbinom2));"
        'prediction <- predict(m, test, type = "response"); extra <- sigma(m)',
        negative_binomial,
        lambda model: np.array([1.0 / model.noise_]),
        "size (1 / dispersion)",
    ),
    Case(
        "32,561 incomes, 123 columns, a penalty to be found",
        a9a,
        lambda: BayesianGLMClassifier(n_jobs=1),
        ("glmnet",),
        "cv.glmnet, ridge",
        'x <- as.matrix(train[, names(train) != "y"]); z <- as.matrix(test[, names(test) != "y"]);'
        'set.seed(0); m <- timed(cv.glmnet(x, train$y, family = "binomial", alpha = 0));'
        'prediction <- predict(m, z, s = "lambda.min", type = "response"); extra <- 1',
        bernoulli,
    ),
    Case(
        "rings of 4,177 shells, smooth in seven columns",
        abalone,
        lambda: SparseGPRegressor(n_inducing=100, random_state=0, n_jobs=1),
        ("mgcv",),
        "gam, a spline per column",
        'names <- setdiff(names(train), "y");'
        'm <- timed(gam(as.formula(paste("y ~", paste0("s(", names, ")", collapse = " + "))), data = train));'
        "prediction <- predict(m, test); extra <- sqrt(m$sig2)",
        gaussian,
    ),
]


def ours(case: Case, X: Any, y: Array, X_test: Any, y_test: Array) -> tuple[float, float, Array]:
    """CPU seconds, held-out loss and shared numbers of our fit."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        case.model().set_params(max_iter=2).fit(X[:WARM], y[:WARM])
        clock = Clock()
        with clock:
            model = case.model().fit(X, y)
        loss = -float(model.log_predictive_density(X_test, y_test).mean())
    return clock.cpu, loss, case.shared(model)


def with_target(X: Any, y: Array) -> Any:
    import pandas as pd

    return pd.concat([X.reset_index(drop=True), pd.Series(y, name="y")], axis=1)


def compared(case: Case, quick: bool) -> dict[str, Any]:
    data = case.data()
    X, y, X_test, y_test = split(data, 0)
    if quick:
        X, y, X_test, y_test = X[:WARM], y[:WARM], X_test[:100], y_test[:100]
    X, X_test = (part.rename(columns=lambda name: str(name).translate(PLAIN)) for part in (X, X_test))
    seconds, loss, numbers = ours(case, X, y, X_test, y_test)
    row = {"task": case.task, "rows": len(y), "sksvi": type(case.model()).__name__, "CPU seconds": seconds}
    row |= {"held-out loss": loss, "R": case.call}
    why = r.installed(*case.packages)
    if why:
        return row | {"R": f"{case.call}: left out, {why}"}
    theirs, prediction, extra = r.asked(
        case.script, case.packages, with_target(X, y), with_target(X_test, y_test), tuple(data.groups)
    )
    shared = "; ".join(f"{a:.3g} / {b:.3g}" for a, b in zip(numbers, extra, strict=False))
    return row | {
        "R's seconds": theirs,
        "R's loss": case.loss(y_test, prediction, extra),
        "estimates, ours / R's": f"{case.named}: {shared}" if shared else None,
    }


#: Characters of column names that an R formula would read as something else.
PLAIN = str.maketrans({mark: "_" for mark in " ^-+*/()[]<>=.,:&"})


def main(quick: bool = False) -> int:
    rows = []
    for case in CASES:
        rows.append(compared(case, quick))
        progress(rows[-1])
    columns = list(dict.fromkeys(name for row in rows for name in row))
    rows = [{name: row.get(name) for name in columns} for row in rows]
    notes = [
        "One thread each. A loss is minus the mean log density of the fifth of the rows that was held out, in nats: "
        "ours averages over the posterior, R's is at its point estimate.",
    ]
    report("product/beside_r", "Beside R", rows, notes, quick)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(arguments(__doc__)))
