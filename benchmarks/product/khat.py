"""How good the posteriors of default fits are: `sksvi.inspection.check_posterior` on the small sets of `defaults`.

Each fit is that of a default call to all rows, linear ones also with ``covariance="diag"``. ``missing`` is the log
evidence less the bound, nats: the distance KL(q ‖ posterior). ``shift`` is the largest move of a mean by importance
sampling, in standard deviations of q, ``sd`` the least and the largest ratio of deviations, both for coefficients, or
for f where inducing points or rows are: they are to be trusted where k-hat is below 0.7.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from benchmarks._lib.tables import arguments, progress, report
from benchmarks._lib.timing import Clock
from benchmarks.product import _default_cases as kinds

DRAWS, GOOD = 4000, 0.7
#: Share of the draws that their effective number is at least where ratios hardly differ.
ALIKE = 0.9
QUICK = ("diabetes", "spector", "epil")


def row_of(data: str, model: Any, X: Any, y: Any) -> dict[str, Any]:
    """One fit and its check."""
    from sksvi.inspection import check_posterior

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with Clock() as fit:
            model.fit(X, y)
        with Clock() as check:
            found = check_posterior(model, X, y, n_draws=DRAWS)
    table = found.coefficients
    ratio = table["corrected_std"] / table["std"]
    return {
        "data": data,
        "estimator": type(model).__name__,
        "covariance": model.covariance,
        "rows": len(y),
        "in the table": len(table),
        "k-hat": round(found.k_hat, 2),
        "effective draws": round(found.effective_sample_size),
        "bound": round(found.lower_bound, 2),
        "missing": float(f"{found.log_evidence - found.lower_bound:.3g}"),
        "se": float(f"{found.std_error:.2g}"),
        "shift": round(float((np.abs(table["corrected_mean"] - table["mean"]) / table["std"]).max()), 3),
        "sd": f"{ratio.min():.2f} to {ratio.max():.2f}",
        "fit, s": float(f"{fit.cpu:.2g}"),
        "check, s": float(f"{check.cpu:.2g}"),
    }


def notes_of(rows: list[dict[str, Any]]) -> list[str]:
    notes = []
    for what, diagonal in (("default fits", False), ('linear fits with covariance="diag"', True)):
        mine = [row for row in rows if (row["covariance"] == "diag") == diagonal]
        good = [row for row in mine if row["k-hat"] < GOOD]
        rest = [row for row in mine if row["k-hat"] >= GOOD]
        alike = [row for row in rest if row["effective draws"] >= ALIKE * DRAWS]
        notes.append(
            f"Of {len(mine)} {what} {len(good)} have a k-hat below {GOOD}; of the other {len(rest)}, {len(alike)} have "
            f"ratios that hardly differ (at least {ALIKE:.0%} of the draws are effective)."
        )
    return notes


def main(quick: bool = False) -> None:
    rows = []
    for case in [*kinds.linear_cases(), *kinds.mixed_cases(), *kinds.process_cases()]:
        if quick and case.data not in QUICK:
            continue
        X, y = case.load()
        models = [case.ours()]
        if type(models[0]).__name__.startswith("BayesianGLM"):
            models.append(case.ours().set_params(covariance="diag"))
        for model in models:
            rows.append(row_of(case.data, model.set_params(random_state=0), X, y))
            progress(rows[-1])
    title = f"Posteriors of default fits: k-hat and evidence by importance sampling, {DRAWS:,} draws"
    report("product/khat", title, rows, notes_of(rows), quick=quick)


if __name__ == "__main__":
    main(arguments(__doc__))
