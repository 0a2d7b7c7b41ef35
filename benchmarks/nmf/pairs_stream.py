"""Pairs of users and items in chunks: how near a stream of PoissonFactorization comes to the fit to all pairs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks._lib import Array
from benchmarks._lib.tables import arguments, progress, report
from benchmarks.nmf.pairs import K, absent, measured, pairs
from benchmarks.nmf.recommend import TOP
from sksvi import PoissonFactorization
from sksvi.models.nmf.density import log_poisson

COLUMNS = (
    "chunks",
    f"recall@{TOP}",
    f"NDCG@{TOP}",
    "log score",
    "log score, averaged",
    "product of the rates",
    "bound, thousands",
    "CPU seconds",
)
TITLE = "Pairs of users and items in chunks"
NOTES = [
    "The data, held-out pairs and measures of the table of pairs. The others come in chunks: at random; user by user, "
    "so that every chunk brings new users; or item by item. The first chunk is `fit`, the others are `partial_fit`. "
    f"Only the product of both priors' rates means something. K = {K}. CPU seconds of one thread, of all chunks."
]
#: How often, and in which order chunks come.
CHUNKS = (1, 2, 10, 50)
ORDERS = ("at random", "by user", "by item")


def main(quick: bool = False) -> None:
    rows: list[dict[str, Any]] = []
    for name in ("Last.fm, clicks", "Last.fm, plays", "MovieLens, clicks"):
        frame, y, out = pairs(name)
        if quick:
            few = (frame["user"].rank(method="dense") <= 200).to_numpy()
            frame, y, out = frame[few], y[few], out[few]
        for row in streams(frame, y, out, CHUNKS[:2] if quick else CHUNKS):
            rows.append({"data": name, **row})
            progress(rows[-1])
            report("nmf/pairs_stream", TITLE, rows, NOTES, quick)


def streams(frame: Any, y: Array, out: Array, numbers: tuple[int, ...]) -> Iterator[dict[str, Any]]:
    """A row for each stream."""
    train, counts = frame[~out], y[~out]
    PoissonFactorization(3, max_iter=2, n_jobs=1).fit(train[:60], counts[:60])  # compiles
    users, items = (np.unique(train[name]) for name in ("user", "item"))
    known = out & frame["user"].isin(users).to_numpy() & frame["item"].isin(items).to_numpy()
    held, asked = frame[out & frame["user"].isin(users).to_numpy()], absent(frame, known, y, users, items)
    for order in ORDERS:
        for n in numbers if order == ORDERS[0] else numbers[1:]:
            started = time.process_time()
            model = streamed(train, counts, in_order(train, order), n)
            seconds = time.process_time() - started
            yield {
                "order": order if n > 1 else "",
                **dict(zip(COLUMNS, (n, *said(model, users, held, *asked), seconds), strict=True)),
            }


def in_order(train: Any, order: str) -> Array:
    """Rows in the order in which they come."""
    mixed = np.random.default_rng(1).permutation(len(train))
    if order == "at random":
        return mixed
    ids = train["user" if order == "by user" else "item"].to_numpy()[mixed]
    shuffled = np.random.default_rng(2).permutation(ids.max() + 1)
    return mixed[np.argsort(shuffled[ids], kind="stable")]


def streamed(train: Any, counts: Array, rows: Array, n: int) -> PoissonFactorization:
    """A model that has seen the rows in so many chunks."""
    model = PoissonFactorization(K, uncertainty="variational", random_state=0, n_jobs=1)
    for i, part in enumerate(np.array_split(rows, n)):
        part = np.sort(part)
        (model.partial_fit if i else model.fit)(train.iloc[part], counts[part])
    return model


def said(model: Any, users: Array, held: Any, asked: Any, target: Array) -> tuple[float, ...]:
    """What is measured of a model, without its seconds."""
    return (
        *measured(model.recommend(users, n=TOP), held).values(),
        float(log_poisson(target, model.predict(asked)).mean()),
        model.score(asked, target),
        model.activation_rate_ * model.component_rate_,
        model.lower_bound_ / 1000,
    )


if __name__ == "__main__":
    main(arguments(__doc__))
