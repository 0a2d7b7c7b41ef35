"""MovieLens 1M, 80/20: what one change of generalized PMF with K = 32 gives, beside `factorization.movielens`."""

from __future__ import annotations

from typing import Any

from benchmarks._lib.tables import arguments, report
from benchmarks.factorization._data import movielens, small
from benchmarks.factorization.movielens import COLUMNS, fitted

#: By task; "tables": the features of users and films that come with the data, "counts": numbers of training ratings.
VARIANTS: dict[str, dict[str, dict[str, Any]]] = {
    "binary": {"side features": {"features": "tables"}},
    "gaussian": {
        "side features": {"features": "tables"},
        "counts as features": {"features": "counts"},
        "spherical priors": {"prior_covariance": "spherical"},
        "K = 64": {"n_components": 64},
    },
    "ordinal": {"side features": {"features": "tables"}, "counts as features": {"features": "counts"}},
}
NOTES = [
    "K = 32, full covariances, one change each; columns as in factorization.movielens. Counts as features: the prior "
    "means are linear in the logarithm of how often a user, a film was rated in the training."
]


def main(quick: bool = False) -> None:
    rows = []
    for task, variants in VARIANTS.items():
        split = movielens("binary" if task == "binary" else "all")
        if quick:
            split = small(split)
        for name, settings in variants.items():
            row = fitted(task, name, {"n_components": 32, **settings}, split)
            rows.append({key: row.get(key) for key in COLUMNS})
            # Stored as it goes: the whole takes minutes.
            report("factorization/variants", "MovieLens 1M: variants", rows, NOTES, quick)
    routes(quick)


def routes(quick: bool) -> None:
    """Both deterministic routes to the expectations on binary and on ordinal ratings, K = 20."""
    rows = []
    for task in ("binary", "ordinal"):
        split = movielens("binary" if task == "binary" else "all")
        if quick:
            split = small(split)
        for name in ("auto", "quadrature"):
            row = fitted(task, f'expectation="{name}"', {"expectation": name}, split)
            rows.append({key: row.get(key) for key in COLUMNS if key not in ("log mass", "coverage 90 %")})
    notes = [
        '"auto": the gradient of the surrogate whose f is Gaussian; "quadrature": factors and f jointly Gaussian, with '
        "another curvature (covariances differ, so that the surrogate at its end is lower). K = 20, full covariances."
    ]
    report("factorization/variants_routes", "MovieLens 1M: routes to the expectations", rows, notes, quick)


if __name__ == "__main__":
    main(arguments(__doc__))
