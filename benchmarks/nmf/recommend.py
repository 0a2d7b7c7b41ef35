"""Films that users like, from those that they liked: MovieLens 1M as clicks, by this model and by others."""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks._lib import Array
from benchmarks._lib.loaders import data_folder
from benchmarks._lib.tables import arguments, progress, report
from benchmarks.nmf._data import timed
from benchmarks.nmf.poisson import of_peer

K, TOP, LIKED = 20, 20, 4
TITLE = "Films recommended from clicks"
NOTES = [
    "MovieLens 1M: a rating of 4 or 5 counts as one click, all else as none; a fifth of the clicks, at random, is to "
    "be found. Mean over users of the share of them among 20 recommended films (recall), and of their discounted gain. "
    "popularity: clicks of each film. NMF: scikit-learn's, Kullback-Leibler, 200 iterations. hpfrec, poismf: where "
    "installed. CPU seconds of one thread, of the fit."
]


def clicks(quick: bool) -> tuple[Any, Any]:
    """Clicks to fit and to find, users by films."""
    with np.load(data_folder() / "ratings" / "movielens_1m.npz") as z:
        user, item, liked = z["user"], z["item"], z["rating"] >= LIKED
    user, item = (np.unique(ids[liked], return_inverse=True)[1] for ids in (user, item))
    if quick:
        few = user < 200
        user, item = user[few], item[few]
    test = np.random.default_rng(0).random(len(user)) < 0.2
    shape = (user.max() + 1, item.max() + 1)
    train, held = (
        sp.csr_matrix((np.ones(part.sum()), (user[part], item[part])), shape=shape) for part in (~test, test)
    )
    return train, held


def found(score: Array, train: Any, held: Any) -> dict[str, float]:
    """Recall and normalised discounted gain of the films with the largest scores that are not in `train`."""
    score = np.where(train.toarray() > 0, -np.inf, score)
    top = np.argsort(-score, axis=1, kind="stable")[:, :TOP]
    asked, hits = np.diff(held.indptr), np.take_along_axis(held.toarray(), top, 1)
    some = asked > 0
    discount = 1.0 / np.log2(np.arange(TOP) + 2.0)
    best = np.cumsum(discount)[np.minimum(asked, TOP)[some] - 1]
    return {
        f"recall@{TOP}": float(np.mean(hits[some].sum(1) / np.minimum(asked[some], TOP))),
        f"NDCG@{TOP}": float(np.mean(hits[some] @ discount / best)),
    }


def main(quick: bool = False) -> None:
    from sksvi import GammaPoissonFactorization

    train, held = clicks(quick)
    popularity = np.broadcast_to(np.asarray(train.sum(0)), train.shape)
    rows: list[dict[str, Any]] = [{"method": "popularity", "K": 0, **found(popularity, train, held)}]
    timed(GammaPoissonFactorization(3, max_iter=2, n_jobs=1), train[:60])
    for size in (5,) if quick else (K, 2 * K):
        model = GammaPoissonFactorization(size, uncertainty="variational", random_state=0, n_jobs=1)
        seconds = timed(model, train)
        rows.append({"method": "GammaPoissonFactorization", "K": size, "CPU seconds": seconds})
        rows[-1] |= found(model.reconstruct(train), train, held)
        progress(rows[-1])
        report("nmf/recommend", TITLE, rows, NOTES, quick)
    for name in ("NMF",) if quick else ("NMF", "hpfrec", "poismf"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            start = time.process_time()
            try:
                W, H = of_peer(name, K, train, 0, 5 if quick else 200)
            except ImportError:
                continue
            seconds = time.process_time() - start
        rows.append({"method": name, "K": K, "CPU seconds": seconds, **found(H @ W, train, held)})
        progress(rows[-1])
        report("nmf/recommend", TITLE, rows, NOTES, quick)


if __name__ == "__main__":
    main(arguments(__doc__))
