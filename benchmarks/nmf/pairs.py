"""What listeners and viewers come to next, from tables of ids: by PoissonFactorization and by others."""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks._lib import Array
from benchmarks._lib.loaders import data_folder
from benchmarks._lib.tables import arguments, progress, report
from benchmarks.nmf.poisson import hpfrec
from benchmarks.nmf.recommend import LIKED, TOP
from sksvi.models.nmf.density import log_poisson

K = 20
COLUMNS = ("method", f"recall@{TOP}", f"NDCG@{TOP}", "log score", "log score, averaged", "CPU seconds")
TITLE = "Pairs of users and items"
NOTES = [
    "Last.fm: 92,834 pairs of listener and artist, once each (clicks) or as often as it was played (plays); MovieLens "
    "1M: ratings of 4 and 5 as clicks. A fifth of the pairs, at random, is to be found: mean over users of the share "
    f"of them among {TOP} recommended items (recall), and of their discounted gain. Log score: mean log probability, "
    "nats, of the held-out pairs and as many that are in no part of the data (0), users and items known: a Poisson at "
    "the expected count, and integrated over the posterior. popularity: an item's count; its log score is that of "
    f"user's times item's total. K = {K}. hpfrec: where installed, its defaults, 100 iterations. CPU seconds of one "
    "thread, of the fit."
]


def pairs(name: str) -> tuple[Any, Array, Array]:
    """Users and items of all pairs as columns, their counts, and which of them are held out."""
    import pandas as pd

    movies = name == "MovieLens, clicks"
    with np.load(data_folder() / "ratings" / ("movielens_1m.npz" if movies else "lastfm_hetrec2011.npz")) as z:
        found = {key: z[key] for key in ("user", "item" if movies else "artist", "rating" if movies else "weight")}
    user, item, y = found.values()
    kept = y >= LIKED if movies else y > 0
    frame = pd.DataFrame({"user": user[kept], "item": item[kept]})
    counts = y[kept].astype(float) if name == "Last.fm, plays" else np.ones(len(frame))
    return frame, counts, np.random.default_rng(0).random(len(frame)) < 0.2


def ranked(score: Array, train: Any, users: Array, items: Array) -> Any:
    """A table of recommended items from scores."""
    import pandas as pd

    score = np.where(train.toarray() > 0, -np.inf, score)
    top = np.argsort(-score, axis=1, kind="stable")[:, :TOP]
    rank = np.tile(np.arange(1, TOP + 1), len(users))
    return pd.DataFrame({"user": np.repeat(users, TOP), "item": items[top.ravel()], "rank": rank})


def measured(table: Any, held: Any) -> dict[str, float]:
    """Recall and normalised discounted gain of recommended items, over the users that have pairs to be found."""
    import pandas as pd

    hits = table.merge(held[["user", "item"]], on=["user", "item"])
    asked = held.groupby("user").size()
    discount = 1.0 / np.log2(np.arange(TOP) + 2.0)
    gain = pd.Series(discount[hits["rank"] - 1], index=hits["user"]).groupby(level=0).sum()
    most = np.minimum(asked, TOP)
    recall = (hits.groupby("user").size().reindex(asked.index, fill_value=0) / most).mean()
    best = np.cumsum(discount)[most - 1]
    return {
        f"recall@{TOP}": float(recall),
        f"NDCG@{TOP}": float((gain.reindex(asked.index, fill_value=0.0) / best).mean()),
    }


def main(quick: bool = False) -> None:
    rows: list[dict[str, Any]] = []
    for name in ("Last.fm, clicks", "Last.fm, plays", "MovieLens, clicks"):
        for row in methods(*pairs(name), quick):
            rows.append({"data": name, **dict.fromkeys(COLUMNS), **row})
            progress(rows[-1])
            report("nmf/pairs", TITLE, rows, NOTES, quick)


def methods(frame: Any, y: Array, out: Array, quick: bool) -> Any:
    """A row for each method."""
    from sksvi import PoissonFactorization

    if quick:
        few = (frame["user"].rank(method="dense") <= 200).to_numpy()
        frame, y, out = frame[few], y[few], out[few]
    PoissonFactorization(3, max_iter=2, n_jobs=1).fit(frame[:60], y[:60])  # compiles
    started = time.process_time()
    model = PoissonFactorization(K, uncertainty="variational", random_state=0, n_jobs=1).fit(frame[~out], y[~out])
    seconds = time.process_time() - started
    users, items = model.users_, model.items_
    known = out & frame["user"].isin(users).to_numpy() & frame["item"].isin(items).to_numpy()
    held, asked, target = frame[out & frame["user"].isin(users).to_numpy()], *absent(frame, known, y, users, items)
    train = matrix(frame[~out], y[~out], users, items)
    total = np.asarray(train.sum(0)).ravel()
    score = np.broadcast_to(total, train.shape)
    alone = np.outer(np.asarray(train.sum(1)).ravel(), total / total.sum())
    at = users.searchsorted(asked["user"]), items.searchsorted(asked["item"])
    yield {
        "method": "popularity",
        **measured(ranked(score, train, users, items), held),
        "log score": float(log_poisson(target, alone[at]).mean()),
    }
    yield {
        "method": "PoissonFactorization",
        **measured(model.recommend(users, n=TOP), held),
        "log score": float(log_poisson(target, model.predict(asked)).mean()),
        "log score, averaged": model.score(asked, target),
        "CPU seconds": seconds,
    }
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            started = time.process_time()
            W, H = hpfrec(K, train, 0)
            seconds = time.process_time() - started
    except ImportError:
        return
    expected = H @ W
    yield {
        "method": "hpfrec",
        **measured(ranked(expected, train, users, items), held),
        "log score": float(log_poisson(target, expected[at].astype(float)).mean()),
        "CPU seconds": seconds,
    }


def matrix(frame: Any, y: Array, users: Array, items: Array) -> Any:
    """Counts by user and item."""
    where = users.searchsorted(frame["user"]), items.searchsorted(frame["item"])
    return sp.csr_matrix((y, where), shape=(len(users), len(items)))


def absent(frame: Any, known: Array, y: Array, users: Array, items: Array) -> tuple[Any, Array]:
    """The held-out pairs that are known and as many that are nowhere, and their counts."""
    import pandas as pd

    rng, n = np.random.default_rng(1), int(known.sum())
    drawn = pd.DataFrame({"user": rng.choice(users, 2 * n), "item": rng.choice(items, 2 * n)})
    drawn = drawn[~pd.MultiIndex.from_frame(drawn).isin(pd.MultiIndex.from_frame(frame))][:n]
    return pd.concat([frame[known], drawn], ignore_index=True), np.append(y[known], np.zeros(len(drawn)))


if __name__ == "__main__":
    main(arguments(__doc__))
