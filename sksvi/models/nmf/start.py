"""Where gamma process NMF starts: rows that differ, which components then share."""

from __future__ import annotations

import numpy as np

from sksvi.models.nmf.cells import Cells

Array = np.ndarray

#: Most rows that first components are chosen among, and what every cell has beside the row's own, whose mean is 1
#: (text, digits and spectra: 0.1 to 10 tried).
CHOSEN_AMONG, FLOOR = 5000, 3.0


def from_rows(found: Cells, n_components: int, seed: int) -> Array:
    """Means (K, F) of first components: rows far from each other in the profile that their counts have, of mean 1.

    k-means++ on the square roots of shares. Rows without counts are no profile; components that no row is left for
    begin at random.
    """
    from sklearn.cluster import kmeans_plusplus

    rng = np.random.default_rng([seed, 0, 4])
    some = np.flatnonzero(np.diff(found.counts.indptr))
    if len(some) > CHOSEN_AMONG:
        some = np.sort(rng.choice(some, CHOSEN_AMONG, replace=False))
    start = at_random(n_components, found.shape[1], seed)
    K = min(n_components, len(some))
    if not K:
        return start
    profiles = found.counts[some]
    total = np.asarray(profiles.sum(1)).ravel()
    profiles.data = np.sqrt(profiles.data / np.repeat(total, np.diff(profiles.indptr)))
    _, chosen = kmeans_plusplus(profiles, K, random_state=seed)
    rows = found.counts[some[chosen]].toarray()
    start[:K] = rows / rows.mean(1, keepdims=True) + FLOOR
    return start


def at_random(n_components: int, n_features: int, seed: int) -> Array:
    """Means (K, F) of first components, near 1."""
    return np.random.default_rng([seed, 0, 5]).gamma(100.0, 0.01, (n_components, n_features))
