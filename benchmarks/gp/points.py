"""How many inducing points: `n_inducing="auto"` beside 200, on published splits of thousands of rows.

CPU seconds of one thread; coverage is that of 90 % intervals of new targets.
"""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np

from benchmarks._lib.tables import arguments, progress, report
from benchmarks.gp._data import held_out
from benchmarks.gp.regression import SETS

#: Sets with their splits.
SPLITS = (
    ("kin8nm", 0), ("kin8nm", 1), ("power-plant", 0), ("power-plant", 1),
    ("housing", 0), ("pumadyn32nm", 0), ("pol", 0), ("kin40k", 0),
)  # fmt: skip
#: Rows of a quick run, enough for points to be added.
QUICK = 4200


def main(quick: bool = False) -> None:
    from sklearn.ensemble import HistGradientBoostingRegressor

    from sksvi.gaussian_process import SparseGPRegressor

    rows: list[dict[str, Any]] = []
    for name, split in SPLITS[: 1 if quick else None]:
        X, y, Xt, yt = SETS[name][0](split)
        X, y = (X[:QUICK], y[:QUICK]) if quick else (X, y)
        boosting = HistGradientBoostingRegressor(random_state=0)
        for n_inducing in ("auto", 200, None):
            model = boosting if n_inducing is None else SparseGPRegressor(n_inducing=n_inducing, random_state=0)
            began = time.process_time()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model.fit(X, y)
            row = {"data": name, "split": split, "rows": len(X), "columns": X.shape[1]}
            row |= {"n_inducing": "boosting" if n_inducing is None else n_inducing}
            row["CPU seconds"] = time.process_time() - began
            if n_inducing is None:
                row |= {"RMSE": float(np.sqrt(np.mean(np.square(model.predict(Xt) - yt))))}
            else:
                found = held_out(model, Xt, yt)
                low, high = model.predict_interval(Xt, 0.9).T
                row |= {"points": len(model.inducing_points_), "NLL": found["nll"], "RMSE": found["rmse"]}
                row["coverage"] = float(np.mean((low <= yt) & (yt <= high)))
            rows.append(row)
            progress(rows[-1])
            columns = dict.fromkeys(key for one in rows for key in one)
            table = [{key: one.get(key) for key in columns} for one in rows]
            report("gp/points", "How many inducing points", table, NOTES, quick)


NOTES = [
    "Published splits, hyperparameters learned, nothing else set. NLL: nats per row of the z-scored target; RMSE in "
    "its standard deviation; coverage: share of new targets in their 90 % intervals. boosting: scikit-learn's "
    "HistGradientBoostingRegressor with nothing set. One thread."
]


if __name__ == "__main__":
    main(arguments(__doc__))
