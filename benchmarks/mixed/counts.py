"""Mixed effects GLM on real counts and binary targets with groups: test NLL and seconds beside GLMs and statsmodels.

Poisson and negative binomial GLMs and GMEs are ours, all with their defaults; statsmodels has
``PoissonBayesMixedGLM`` and ``BinomialBayesMixedGLM`` (``fit_vb``). Test rows are a random fifth, so that most of their
levels are known; small sets are split several times. NLL: nats per row, posterior predictive throughout.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from benchmarks._lib import Array
from benchmarks._lib.tables import arguments, progress, report
from benchmarks._lib.timing import median
from benchmarks.mixed._data import SETS, split
from benchmarks.mixed._peers import Result, linear_model, statsmodels_vb, timed

#: Splits of each set; statsmodels is timed on as many.
SPLITS = {
    "epil": 5,
    "salamander": 10,
    "medpar": 1,
    "azpro": 2,
    "NMES1988": 2,
    "VerbAgg": 1,
    "rwm5yr": 1,
    "DoctorContacts": 1,
    "rwm5yr, persons": 1,
}
#: 5,500 persons: too many for statsmodels to end within minutes, and one rate is enough.
MANY_LEVELS = ("rwm5yr, persons",)


def mixed(
    likelihood: str, settings: dict[str, Any], train: Any, y: Array, test: Any, y_test: Array, groups: list[str]
) -> Result:
    """Our GME; without ``groups`` in the settings the columns of groups are left out."""
    from sksvi.mixed_effects import GMEClassifier, GMERegressor

    if "groups" not in settings:
        train, test = train.drop(columns=groups), test.drop(columns=groups)
    estimator = GMEClassifier if likelihood == "logit" else GMERegressor
    model, seconds = timed(lambda: estimator(likelihood=likelihood, **settings).fit(train, y))
    return -model.log_predictive_density(test, y_test), seconds, model


def methods(name: str, likelihood: str, groups: list[str]) -> dict[str, Callable[..., Result]]:
    """Name: function of (training frame, y, test frame, y, groups)."""
    found: dict[str, Callable[..., Result]] = {}
    if likelihood == "logit":
        found["GLM, logit"] = partial(linear_model, "logit")
        found["GME, groups"] = partial(mixed, "logit", {"groups": groups, "noise": False})
    else:
        found["GLM, Poisson"] = partial(linear_model, "poisson")
        found["GLM, negative binomial"] = partial(linear_model, "negative-binomial")
        for link in ("poisson",) if name in MANY_LEVELS else ("poisson", "poisson-softplus"):
            short = "exp" if link == "poisson" else "softplus"
            found[f"GME, {short}, noise"] = partial(mixed, link, {})
            if groups:
                found[f"GME, {short}, groups"] = partial(mixed, link, {"groups": groups, "noise": False})
                found[f"GME, {short}, noise and groups"] = partial(mixed, link, {"groups": groups})
    if groups and name not in MANY_LEVELS:
        found["statsmodels"] = partial(statsmodels_vb, likelihood)
    return found


def rows_of(name: str, n_splits: int) -> list[dict[str, Any]]:
    """A line per method; differences of NLL to the best GLM, with their standard error over the test rows."""
    data = SETS[name]()
    losses: dict[str, list[Array]] = {}
    seconds: dict[str, list[tuple[float, float]]] = {}
    notes: dict[str, str] = {}
    for seed in range(n_splits):
        parts = split(data, seed)
        for method, fit in methods(name, data.likelihood, data.groups).items():
            loss, time, model = fit(*parts, data.groups)
            losses.setdefault(method, []).append(loss)
            seconds.setdefault(method, []).append(time)
            if not getattr(model, "converged_", True):
                notes[method] = f"not converged in {model.n_iter_} passes"
    mean = {method: float(np.mean([loss.mean() for loss in found])) for method, found in losses.items()}
    best = min((method for method in mean if method.startswith("GLM")), key=mean.__getitem__)
    rows = []
    for method, found in losses.items():
        difference, error = compared(found, losses[best])
        rows.append(
            {
                "data": name,
                "rows": len(data.y),
                "method": method,
                "test NLL": mean[method],
                "less the best GLM's": None if method == best else difference,
                "its standard error": None if method == best else error,
                "seconds": median([clock for clock, _ in seconds[method]]),
                "CPU seconds": median([used for _, used in seconds[method]]),
                "splits": n_splits,
                "note": notes.get(method, ""),
            }
        )
        progress(rows[-1])
    return rows


def compared(one: list[Array], other: list[Array]) -> tuple[float, float]:
    """Mean difference of two methods per row; error over rows in one split, over splits (which overlap) in several."""
    differences = [a - b for a, b in zip(one, other, strict=True)]
    if len(differences) == 1:
        return float(differences[0].mean()), float(differences[0].std(ddof=1) / np.sqrt(len(differences[0])))
    means = np.array([difference.mean() for difference in differences])
    return float(means.mean()), float(means.std(ddof=1) / np.sqrt(len(means)))


def main(quick: bool = False) -> None:
    names = ["azpro", "epil", "salamander"] if quick else list(SPLITS)
    rows: list[dict[str, Any]] = []
    for name in names:
        rows += rows_of(name, min(SPLITS[name], 2) if quick else SPLITS[name])
    notes = [
        "exp, softplus: rate of the Poisson; noise: per row, groups: a random intercept per level. statsmodels: "
        "Poisson with rate exp, or logit, the same fixed and group effects, its default priors; its NLL is over its "
        "own factorised q, as described in benchmarks/mixed/_peers.py (its predict leaves the groups out).",
        "Standard errors: over the test rows of one split, over splits where there are several.",
    ]
    report("mixed/counts", "Mixed effects GLM on real data", rows, notes, quick)


if __name__ == "__main__":
    main(arguments(__doc__))
