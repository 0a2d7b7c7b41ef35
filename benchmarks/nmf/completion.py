"""Half of each image's pixels from the other half: digits, log probability of a pixel.

Of this model with the posterior's mean as known, and integrated over the posterior; of scikit-learn's NMF with its
mean, activations of the seen pixels by 300 multiplicative updates.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import gammaln, xlogy

from benchmarks._lib import Array
from benchmarks._lib.tables import arguments, progress, report
from benchmarks.nmf._data import FLOOR, compiled, digits, peer, timed

K = 40
METHODS: dict[str, dict[str, Any]] = {
    "mean field": {},
    "10 passes of draws first": {"search_passes": 10},
    "150 passes of draws first": {"search_passes": 150},
}
TITLE = "Completion of digits"
NOTES = [
    "scikit-learn's digits: 1,437 to fit, 360 of which half of the pixels are seen, one by one at random. Log "
    "probability: nats per pixel that was not seen; plug-in: Poisson at the posterior mean. NMF: scikit-learn's, "
    f"Kullback-Leibler, 200 iterations; its means are {FLOOR} at least. CPU seconds of one thread, of the fit."
]


def log_poisson(y: Array, mean: Array) -> float:
    """Mean log probability."""
    return float(np.mean(xlogy(y, mean) - mean - gammaln(y + 1.0)))


def folded_in(W: Array, X: Array, seen: Array) -> Array:
    """Means of all pixels from those seen, for given components."""
    H = np.ones((len(X), len(W)))
    for _ in range(300):
        ratio = np.where(seen, X / np.maximum(H @ W, 1e-12), 0.0)
        H *= (ratio @ W.T) / np.maximum(seen @ W.T, 1e-12)
    return np.maximum(H @ W, FLOOR)


def main(quick: bool = False) -> None:
    from sksvi import GammaProcessNMF

    rows: list[dict[str, Any]] = []
    for seed in range(1 if quick else 3):
        train, test, seen = digits(seed)
        compiled(train)
        known, asked = np.where(seen, test, np.nan), np.where(seen, np.nan, test)
        for method, options in METHODS.items():
            model = GammaProcessNMF(K, uncertainty="variational", random_state=seed, n_jobs=1, **options)
            model.set_params(max_iter=5, search_passes=0) if quick else None
            seconds = timed(model, train)
            made = {"method": method, "split": seed, "K": K, "passes": model.n_iter_, "CPU seconds": seconds}
            made["plug-in"] = log_poisson(test[~seen], model.reconstruct(known)[~seen])
            made["integrated"] = float(model.log_predictive_density(known, asked).sum() / np.sum(~seen))
            rows.append(made)
            progress(made)
        for size in (10,) if quick else (5, 10, 20, 40):
            nmf = peer(size, 20 if quick else 200)
            made = {"method": "NMF", "split": seed, "K": size, "CPU seconds": timed(nmf, train)}
            made["plug-in"] = log_poisson(test[~seen], folded_in(nmf.components_, test, seen)[~seen])
            rows.append(made)
            progress(made)
    report("nmf/completion", TITLE, rows, NOTES, quick)


if __name__ == "__main__":
    main(arguments(__doc__))
