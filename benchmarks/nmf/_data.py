"""What the benchmarks of non-negative factorization share: spectra with known bases, images to be completed, fits."""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np

from benchmarks._lib import Array

#: Counts that a mean is taken for at least, where a method has no distribution of it.
FLOOR = 0.01


def spectra(mean_count: float, seed: int = 0, F: int = 257, K: int = 50, T: int = 1000) -> tuple[Array, Array]:
    """Counts (T, F) of overlapping sounds that look like speech, and their bases (F, K), columns of mean 1."""
    r = np.random.default_rng(seed)
    f = np.linspace(0, 8000, F)
    W = np.empty((F, K))
    for k in range(K):
        envelope = np.zeros(F)
        centres = r.uniform(250, 900), r.uniform(900, 2500), r.uniform(2200, 3600), r.uniform(3500, 6500)
        for centre, width in zip(centres, r.uniform(60, 250, 4), strict=True):
            envelope += r.uniform(0.2, 1) / (1 + ((f - centre) / width) ** 2)
        envelope = envelope * (1 + f / 1000) ** -r.uniform(0, 1.5)
        if r.random() < 0.7:
            pitch = r.uniform(80, 300)
            harmonics = pitch * np.arange(1, int(7500 / pitch))
            source = np.exp(-0.5 * ((f[:, None] - harmonics) / 20) ** 2).sum(1) + 0.003
        else:
            source = 0.3 + r.random(F) * 0.2
            envelope = np.roll(envelope, r.integers(0, 60))
        W[:, k] = envelope * source
    W /= W.mean(0)
    r = np.random.default_rng(seed + 1000)
    H = r.gamma(0.2, 5.0, (K, T)) * (mean_count / K)
    return r.poisson(W @ H).T.astype(float), W


def recovered(found: Array, truth: Array, share: Array) -> tuple[int, int]:
    """How many true bases (columns) have a basis of more than 1e-4 of the mass correlated above 0.9 and above 0.8."""
    found = found[:, share > 1e-4 * share.sum()]
    best = np.corrcoef(found.T, truth.T)[: found.shape[1], found.shape[1] :].max(0)
    return int((best > 0.9).sum()), int((best > 0.8).sum())


def digits(seed: int = 0) -> tuple[Array, Array, Array]:
    """Training images (1437, 64), test images (360, 64), and which pixels of these are seen: half, one by one."""
    from sklearn.datasets import load_digits

    X = load_digits().data
    r = np.random.default_rng(seed)
    order = r.permutation(len(X))
    n = int(0.8 * len(X))
    return X[order[:n]], X[order[n:]], r.random((64, len(X) - n)).T < 0.5


def timed(model: Any, X: Any) -> float:
    """CPU seconds of a fit, converged or not."""
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        start = time.process_time()
        model.fit(X)
        return time.process_time() - start


def compiled(X: Any) -> None:
    """Compile (or load) the loops, so that no fit is timed with it."""
    from sksvi import GammaProcessNMF

    model = GammaProcessNMF(3, search_passes=1, max_iter=2, random_state=0)
    timed(model, X[:30])
    model.transform(X[:5])


def peer(n_components: int, max_iter: int = 200) -> Any:
    """scikit-learn's NMF of the same likelihood."""
    from sklearn.decomposition import NMF

    options = {"beta_loss": "kullback-leibler", "solver": "mu", "init": "nndsvda", "random_state": 0}
    return NMF(n_components, max_iter=max_iter, **options)
