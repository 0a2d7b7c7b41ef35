"""Why default calls fall short of a peer on four of the sets of ``product.defaults``: the same folds, other calls.

Each cause has a call that differs in it alone: the peer with columns on a scale of their own, as ours have them; ours
with columns in their common unit; the same model by a long Gibbs chain in the place of the approximation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks._lib.tables import arguments, progress, report
from benchmarks.product import _default_peers as peers
from benchmarks.product._default_cases import Case, cases
from benchmarks.product.defaults import FOLDS, Mean, fold

GIBBS_SWEEPS = 1000
#: Points of the rule for E log sum exp, the first what a fit takes where contrasts are wide.
POINTS = (192, 1024, 16384)


def calls() -> dict[str, dict[str, Callable[[], Any]]]:
    """By data: what is called beside the default and its peer."""
    from sklearn.linear_model import BayesianRidge, LogisticRegression, RidgeCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    from sksvi import BayesianGLMClassifier, BayesianGLMRegressor, BetaProcessFA

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
        "salaries (simulated)": {"BayesianRidge, columns standardised": scaled(BayesianRidge())},
        "digits (every 3rd)": {
            "LogisticRegression, columns standardised": scaled(LogisticRegression(max_iter=1000)),
            "prior_precision=10, pixels in their unit": lambda: BayesianGLMClassifier(prior_precision=10.0),
        },
        "digits (every 9th)": {
            f'algorithm="gibbs", {GIBBS_SWEEPS} sweeps': factors(algorithm="gibbs", max_iter=GIBBS_SWEEPS),
            "noise=3": factors(noise=3.0),
        },
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


def softmax_rows(case: Case) -> list[dict[str, Any]]:
    """E log p(y | f) of the rows of the default's fit, nats, by the number of points of its integrals."""
    from sksvi.integrals.joint_softmax import contrasts, points

    X, y = case.load()
    model = case.ours().fit(X, y)
    m, v = model._latent(X, None)
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
    return rows


def main(quick: bool = False) -> None:
    wanted = calls()
    chosen = {case.data: case for case in cases()[::-1]}  # the first of those of one name
    names = ["salaries (simulated)"] if quick else list(wanted)
    rows = [row for name in names for row in rows_of(chosen[name], wanted[name], 2 if quick else FOLDS)]
    notes = ["Data, folds, score and cover of `product.defaults`; its peers, and calls that differ in one thing."]
    report("product/default_causes", "Why default calls fall short of a peer", rows, notes, quick)
    notes = ["At the end of the default's fit to all rows; the shift common to all classes is left out."]
    name, title = "digits (every 3rd)", "The softmax's integrals where contrasts are wide"
    report("product/default_causes_softmax", title, softmax_rows(chosen["iris" if quick else name]), notes, quick)


if __name__ == "__main__":
    main(arguments(__doc__))
