"""A collection's fit against the in-memory fit of the same rows: bound, posterior, and bits by who does the work."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks._lib.tables import arguments, progress, report
from benchmarks.partitions._data import ESTIMATORS, Rows, bits, chunked, cluster, model, simulated

#: Likelihoods of fits with an offset, which start from a sample of targets.
OFFSET = ("logit", "poisson", "negative-binomial", "student-t")


def forms(rows: Rows, parts: int) -> dict[str, tuple[Any, Any, Any]]:
    """The rows as collections, and as the table in memory that each stands for."""
    import dask.dataframe as dd
    import pandas as pd
    import scipy.sparse as sp

    X, y = rows
    table = pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])])
    array, target = chunked(rows, parts)
    sparse = np.where(np.abs(X) > 1.0, X, 0.0)
    return {
        "array": (array, target, X),
        "frame": (dd.from_pandas(table, npartitions=parts), dd.from_pandas(pd.Series(y), npartitions=parts), table),
        "CSR blocks": (chunked((sparse, y), parts)[0].map_blocks(sp.csr_matrix), target, sp.csr_matrix(sparse)),
    }


def compared(
    name: str, estimator: Any, form: str, given: tuple[Any, Any, Any], y: Any, client: Any, **beside: Any
) -> dict[str, Any]:
    """`beside`: of every row besides, as a collection and in memory."""
    import dask
    from sklearn.base import clone

    apart, here = ({key: pair[k] for key, pair in beside.items()} for k in range(2))
    inside = clone(estimator).fit(given[2], y, **here)
    with dask.config.set(scheduler="synchronous"):
        local = clone(estimator).fit(*given[:2], **apart)
        score = local.score(*given[:2], **apart)
    spread = clone(estimator).fit(*given[:2], **apart)
    addresses = sorted(client.scheduler_info(n_workers=-1)["workers"])
    with dask.annotate(workers=addresses[-1:]):
        one = clone(estimator).fit(*given[:2], **apart)
    q, own = local.posterior_["weights"], inside.posterior_["weights"]
    return {
        "estimator": name,
        "form": form,
        "bound, relative difference": abs(local.lower_bound_ / inside.lower_bound_ - 1.0),
        "means, in sd": float(np.max(np.abs(q.mean - own.mean) / own.std)),
        "sds, relative": float(np.max(np.abs(q.std / own.std - 1.0))),
        "score, difference": abs(score - inside.score(given[2], y, **here)),
        "passes": f"{local.n_iter_}/{inside.n_iter_}",
        "same bits on 1 and 2 workers": bits(local) == bits(spread) == bits(one),
    }


def main(quick: bool = False) -> int:
    n, found = (2_000 if quick else 100_000), []
    with cluster(2) as client:
        for name, (maker, made) in ESTIMATORS.items():
            rows = made(n, 10, 0)
            for form, given in forms(rows, 7).items():
                found.append(compared(name, maker(), form, given, rows[1], client))
                progress(found[-1])
        offset = 0.5 * np.random.default_rng(18).standard_normal(n)
        for likelihood in OFFSET:
            rows = simulated("poisson" if likelihood == "negative-binomial" else likelihood, n, 10, 0)
            given, pair = forms(rows, 7)["array"], (chunked((rows[0], offset), 7)[1], offset)
            name = f"GLM, {likelihood}, offset"
            found.append(compared(name, model(likelihood), "array", given, rows[1], client, offset=pair))
            progress(found[-1])
    notes = [f"{n} rows, 10 columns, 7 partitions; `passes`: of the collection's fit / of the fit in memory."]
    report("partitions/equality", "A collection's fit against the in-memory fit", found, notes, quick)
    columns = ("bound, relative difference", "means, in sd", "sds, relative", "score, difference")
    return sum(max(row[c] for c in columns) > 1e-9 or not row["same bits on 1 and 2 workers"] for row in found)


if __name__ == "__main__":
    raise SystemExit(main(arguments(__doc__)))
