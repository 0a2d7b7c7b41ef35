"""Why default calls fall short of a peer on four of the sets of ``product.defaults``: the same folds, other calls.

Each cause has a call that differs in it alone: the peer with columns on a scale of their own, as ours have them; ours
with columns in their common unit; the same model by a long Gibbs chain in the place of the approximation.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np

from benchmarks._lib.measures import LEVEL
from benchmarks._lib.tables import arguments, progress, report
from benchmarks.product import _default_peers as peers
from benchmarks.product._default_cases import Case, cases
from benchmarks.product.defaults import FOLDS, SEED, Mean, fold
from sksvi.integrals import race
from sksvi.linear_model._integrated import mixed_latents

GIBBS_SWEEPS = 1000
#: Points of the rule for E log sum exp, the first what a fit takes where contrasts are wide.
POINTS = (192, 512, 1024, 4096, 16384)
#: Most points that fits are made by.
MOST_REFITTED = 4096


def calls() -> dict[str, dict[str, Callable[[], Any]]]:
    """By data: what is called beside the default and its peer."""
    from sklearn.linear_model import BayesianRidge, LogisticRegression, RidgeCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    from sksvi import BayesianGLMClassifier, BayesianGLMRegressor, BetaProcessFA, GMERegressor

    def scaled(model: Any) -> Callable[[], Any]:
        return lambda: make_pipeline(StandardScaler(), model)

    def factors(**parameters: Any) -> Callable[[], Any]:
        return lambda: peers.Completed(BetaProcessFA(**parameters), (200, 64))

    return {
        "wine alcohol": {
            "BayesianRidge, columns standardised": scaled(BayesianRidge()),
            "RidgeCV, columns standardised": scaled(RidgeCV(np.logspace(-4, 4, 60))),
            'prior_precision="ard"': lambda: BayesianGLMRegressor(prior_precision="ard"),
        },
        "crabs": {
            "GMERegressor, noise per row": lambda: GMERegressor(likelihood="poisson"),
            "GMERegressor(noise=False)": lambda: GMERegressor(likelihood="poisson", noise=False),
        },
        "digits (every 3rd)": {
            "LogisticRegression, columns standardised": scaled(LogisticRegression(max_iter=1000)),
            "prior_precision=10, pixels in their unit": lambda: BayesianGLMClassifier(prior_precision=10.0),
        },
        "digits (every 9th)": {
            f'algorithm="gibbs", {GIBBS_SWEEPS} sweeps': factors(algorithm="gibbs", max_iter=GIBBS_SWEEPS),
            "noise=3": factors(noise=3.0),
            'weight_precision="learned"': factors(weight_precision="learned"),
        },
    }


def noise_calls() -> dict[str, Callable[[], Any]]:
    """Other local steps, and a noise per column."""
    from sksvi import BetaProcessFA

    def factors(**parameters: Any) -> Callable[[], Any]:
        return lambda: peers.Completed(BetaProcessFA(**parameters), (200, 64))

    return {
        'local_step="mean-field"': factors(local_step="mean-field"),
        'noise="columns"': factors(noise="columns"),
    }


def rows_of(case: Case, others: dict[str, Callable[[], Any]], folds: int) -> list[dict[str, Any]]:
    """The default, its peer and the other calls on the same folds; cover of those that are ours."""
    data, rows = case.load(), []

    def losses(make: Callable[[], Any], own: bool = False) -> tuple[np.ndarray, np.ndarray]:
        asked = Case(case.data, case.kind, case.load, make if own else case.ours, case.peer)
        parts = [fold(asked, make, data, i) for i in range(folds)]
        return np.concatenate([part["losses"] for part in parts]), np.concatenate([part["hits"] for part in parts])

    null = losses(lambda: Mean(case.kind))[0].mean()
    peer, _ = losses(case.peer)
    for name, make in {"default": case.ours, "peer": case.peer, **others}.items():
        mine, hits = losses(make, name != "peer" and hasattr(make(), "predict_interval"))
        behind = (mine - peer) / null
        rows.append(
            {
                "data": case.data,
                "call": name,
                "score": float(1 - mine.mean() / null),
                "less than the peer": float(behind.mean()),
                "its error": float(behind.std(ddof=1) / np.sqrt(len(behind))),
                "covered": float(hits.mean()) if len(hits) else None,
            }
        )
        progress(rows[-1])
    return rows


def noise_rows(case: Case, calls: dict[str, Callable[[], Any]], folds: int) -> list[dict[str, Any]]:
    """What each call takes for the noise, and how it says of held-out pixels what it says: means over folds."""
    (X, y), rows = map(np.asarray, case.load()), []
    for name, make in calls.items():
        found = []
        for i in range(folds):
            test = np.arange(len(y)) % FOLDS == i
            np.random.seed(SEED)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # a chain of fixed length says that it has not converged
                fitted = make().fit(X[~test], y[~test])
            low, high = fitted.predict_interval(X[test], coverage=LEVEL).T
            noise = np.mean(1.0 / np.asarray(fitted.model.noise_precision_))
            squares = np.mean(np.square(y[test] - 0.5 * (low + high)))
            said = np.mean(np.square(fitted.std[tuple(X[test].T)]))
            found.append([noise, said, squares, np.mean((low <= y[test]) & (y[test] <= high))])
        means = np.mean(found, axis=0)
        row: dict[str, Any] = {"data": case.data, "call": name}
        names = ("noise, sd", "held out, sd said", "held out, RMSE")
        row |= {column: float(np.sqrt(value)) for column, value in zip(names, means, strict=False)}
        rows.append(row | {"covered": float(means[3])})
        progress(rows[-1])
    return rows


def score_by(case: Case, n: int, null: float, folds: int) -> float:
    """Score of the default where contrasts that are wide are integrated by n points."""
    levels = (*race.LEVELS[:-1], (4.0, race.LEVELS[-1][1]), (np.inf, n))
    with mock.patch.object(race, "LEVELS", levels):
        losses = [fold(case, case.ours, case.load(), i)["losses"] for i in range(folds)]
    return float(1 - np.concatenate(losses).mean() / null)


def softmax_rows(case: Case, folds: int) -> list[dict[str, Any]]:
    """E log p(y | f) of the rows of the default's fit, nats, by the number of points of its integrals."""
    from sksvi.integrals.race import contrasts, points

    X, y = case.load()
    null = np.concatenate([fold(case, lambda: Mean(case.kind), (X, y), i)["losses"] for i in range(folds)]).mean()
    model = case.ours().fit(X, y)
    m, v = mixed_latents(model, X, None)
    basis, own = contrasts(m.shape[1]), m[np.arange(len(y)), np.searchsorted(model.classes_, y)]
    inner = np.einsum("ka,nkl,lb->nab", basis, v, basis, optimize=True)
    widest = float(np.median(np.sqrt(np.diagonal(inner, axis1=1, axis2=2).max(axis=1))))
    rows = []
    for n in POINTS:
        z, total = points(n, m.shape[1] - 1), 0.0
        for i in range(len(y)):
            f = m[i] + z @ np.linalg.cholesky(inner[i]).T @ basis.T
            total += own[i] - np.logaddexp.reduce(f, axis=1).mean()
        rows.append({"data": case.data, "widest contrast, sd": widest, "points": n, "E log p, nats": float(total)})
        rows[-1]["bound, nats"] = model.lower_bound_ + rows[-1]["E log p, nats"] - rows[0]["E log p, nats"]
        rows[-1]["score of fits by them"] = score_by(case, n, null, folds) if n <= MOST_REFITTED else None
        progress(rows[-1])
    return rows


def main(quick: bool = False) -> None:
    wanted = calls()
    folds = 2 if quick else FOLDS
    chosen = {case.data: case for case in cases()[::-1]}  # the first of those of one name
    names = ["crabs"] if quick else list(wanted)
    rows = [row for name in names for row in rows_of(chosen[name], wanted[name], folds)]
    notes = ["Data, folds, score and cover of `product.defaults`; its peers, and calls that differ in one thing."]
    report("product/default_causes", "Why default calls fall short of a peer", rows, notes, quick)
    if not quick:
        name = "digits (every 9th)"
        asked = {"default": chosen[name].ours, **noise_calls(), **wanted[name]}
        notes = ["Standard deviations in units of the pixels, 0 to 16; 40 % of them are seen."]
        rows = noise_rows(chosen[name], asked, folds)
        report("product/default_causes_noise", "What factors take for noise", rows, notes)
    notes = ["At the end of the default's fit to all rows; the shift common to all classes is left out."]
    name, title = "digits (every 3rd)", "The softmax's integrals where contrasts are wide"
    report(
        "product/default_causes_softmax", title, softmax_rows(chosen["iris" if quick else name], folds), notes, quick
    )


if __name__ == "__main__":
    main(arguments(__doc__))
