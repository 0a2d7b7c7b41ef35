"""The NIPS papers as rows of counts: held-out words of papers, by this model and by scikit-learn's NMF."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks._lib.tables import arguments, progress, report
from benchmarks.nmf._data import compiled, peer, timed
from benchmarks.topics._data import Split, nips, per_word

K = 50
#: Passes of draws, and passes in all.
METHODS = {
    "20 passes": (0, 20),
    "to the end": (0, 400),
    "10 passes of draws, then to the end": (10, 400),
}
TITLE = "Words of the NIPS papers"
NOTES = [
    "1,200 papers to fit, 300 of which half of the distinct words are scored, as in the tables of topic models: "
    "components and what they add up to as topics and proportions. nats per word. CPU seconds of one thread, of the "
    "fit. NMF: scikit-learn's, Kullback-Leibler, 200 iterations."
]


def words(model: Any, found: Split, weights: Any) -> float:
    """The score, activations times weights and sizes of the components as proportions."""
    return per_word(model.components_, model.transform(found.observed) * weights * model.components_.sum(1), found.held)


def main(quick: bool = False) -> None:
    from sksvi import GammaProcessNMF

    found, rows = nips(quick), []
    compiled(found.train)
    for method, (search, passes) in METHODS.items():
        for seed in range(1 if quick or passes > 100 else 3):
            model = GammaProcessNMF(
                K, search_passes=search, max_iter=passes, uncertainty="variational", random_state=seed, n_jobs=1
            )
            model.set_params(search_passes=0, max_iter=2) if quick else None
            seconds = timed(model, found.train)
            score = words(model, found, model.component_weights_)
            rows.append({"method": method, "seed": seed, "per word": score, "CPU seconds": seconds})
            rows[-1] |= {"passes": model.n_iter_, "bound": model.lower_bound_}
            progress(rows[-1])
            report("nmf/nips", TITLE, rows, NOTES, quick)
    model = peer(K, 5 if quick else 200)
    seconds = timed(model, found.train)
    rows.append({"method": "NMF", "seed": 0, "per word": words(model, found, np.ones(K)), "CPU seconds": seconds})
    progress(rows[-1])
    report("nmf/nips", TITLE, rows, NOTES, quick)


if __name__ == "__main__":
    main(arguments(__doc__))
