"""kddcup99, 494,021 connections: a Dask DataFrame through a ColumnTransformer against the stream of its chunks."""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np

from benchmarks._lib.loaders import data_folder
from benchmarks._lib.tables import arguments, progress, report
from benchmarks.partitions._data import cluster, model

#: Columns of words; all others are numbers.
WORDS, PARTS = ["c1", "c2", "c3"], 16


def table(quick: bool) -> tuple[Any, Any]:
    """Connections with categorical columns, shuffled once, and whether each is an attack."""
    import pandas as pd

    frame = pd.read_csv(data_folder() / "tabular" / "kddcup99_10pct.csv.xz", header=None).add_prefix("c")
    order = np.random.default_rng(0).permutation(len(frame))[: 20_000 if quick else None]
    frame = frame.iloc[order].reset_index(drop=True)
    y = (frame.pop("c41") != "normal.").astype(int)
    return frame.astype({name: "category" for name in WORDS}), y


def encoder(X: Any) -> Any:
    """A ColumnTransformer that knows every category from the frame's type, fitted to a few rows."""
    from sklearn.compose import ColumnTransformer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

    numbers = [name for name in X if name not in WORDS]
    words = OneHotEncoder(categories=[X[name].cat.categories for name in WORDS], sparse_output=False)
    logs = make_pipeline(FunctionTransformer(np.log1p, feature_names_out="one-to-one"), StandardScaler())
    return (
        ColumnTransformer([("words", words, WORDS), ("numbers", logs, numbers)]).set_output(transform="pandas").fit(X)
    )


def main(quick: bool = False) -> int:
    import dask.dataframe as dd
    from sklearn.metrics import log_loss

    X, y = table(quick)
    cut = int(0.8 * len(X))
    steps, found = encoder(X.iloc[:cut]), []
    test = steps.transform(X.iloc[cut:])

    def told(name: str, fitted: Any, seconds: float) -> None:
        loss = log_loss(y.iloc[cut:], fitted.predict_proba(test))
        found.append({"fit": name, "rows": cut, "log loss": loss, "seconds": round(seconds, 1)})
        progress(found[-1])

    with cluster(2), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # nearly separable
        frame = dd.from_pandas(X.iloc[:cut].assign(y=y.iloc[:cut]), npartitions=PARTS)
        columns = frame.drop(columns="y").map_partitions(steps.transform, meta=steps.transform(X.iloc[:2]).iloc[:0])
        start = time.perf_counter()
        fitted = model("logit").fit(columns, frame["y"])
        told("collection, fit", fitted, time.perf_counter() - start)
        start, stream = time.perf_counter(), model("logit")
        for rows in np.array_split(np.arange(cut), PARTS):
            stream.partial_fit(steps.transform(X.iloc[rows]), y.iloc[rows], classes=[0, 1])
        told("chunks, partial_fit", stream, time.perf_counter() - start)
        start = time.perf_counter()
        told(
            "in memory, fit",
            model("logit").fit(steps.transform(X.iloc[:cut]), y.iloc[:cut]),
            time.perf_counter() - start,
        )
    report(
        "partitions/streams", "kddcup99 as a Dask DataFrame", found, ["Log loss of the last fifth, shuffled."], quick
    )
    return int(found[0]["log loss"] > found[1]["log loss"] + 1e-3)


if __name__ == "__main__":
    raise SystemExit(main(arguments(__doc__)))
