"""How often what was observed came, and how often a model says that it should: the numbers behind pictures of both.

Each answers places, observed, expected, lower and upper, the last two the ends of a band of 90 %.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import ndtri

from sksvi.displays._predicted import table
from sksvi.likelihoods.count_quantiles import binomial_quantile

Array = np.ndarray
Parts = tuple[Array, Array, Array, Array, Array]

#: Most bars of counts, and of measured values; places of a distribution function; bins of probabilities.
BARS, PLACES, BINS = 40, 200, 10
#: Shares of draws outside of the picture, at either end, unless data lie there.
OUTSIDE = 5e-3
#: Ends of the band.
LOW, HIGH = 0.05, 0.95


def _band(each: Array) -> tuple[Array, Array, Array]:
    """Mean and ends of the band over draws, (n_draws, m)."""
    lower, upper = np.quantile(each, [LOW, HIGH], axis=0)
    return each.mean(axis=0), lower, upper


def _counted(draws: Array, edges: Array) -> Array:
    """Rows of each draw in each bin, (n_draws, m)."""
    return np.stack([np.histogram(draw, edges)[0] for draw in draws.T])


def of_rootogram(y: Array, draws: Array) -> Parts:
    """Rows with each count, or with counts of a bin; edges are the least count of each."""
    most = max(float(y.max()), float(np.quantile(draws, 1.0 - OUTSIDE)))
    width = max(1.0, np.ceil((most + 1.0) / BARS))
    edges = width * np.arange(np.floor(most / width) + 2.0)
    # The last bin of numpy's histograms holds its right end too, where the next count begins.
    observed, each = (_counted(part, edges - 0.5) for part in (y[:, None], draws))
    return edges, observed[0], *_band(each)


def of_histogram(y: Array, draws: Array) -> Parts:
    """Densities in bins of one width."""
    low, high = np.quantile(draws, [OUTSIDE, 1.0 - OUTSIDE])
    low, high = min(float(low), float(y.min())), max(float(high), float(y.max()))
    high = high if high > low else low + 1.0
    fine = np.histogram_bin_edges(y, "fd", (low, high))
    edges = np.linspace(low, high, int(np.clip(len(fine) - 1, 5, BARS)) + 1)
    scale = 1.0 / (len(y) * np.diff(edges))
    observed = _counted(y[:, None], edges)[0]
    return edges, observed * scale, *(part * scale for part in _band(_counted(draws, edges)))


def of_ecdf(y: Array, draws: Array) -> Parts:
    """Shares of the rows up to each of some values."""
    low, high = np.quantile(draws, [OUTSIDE, 1.0 - OUTSIDE])
    at = np.linspace(min(float(low), float(y.min())), max(float(high), float(y.max())), PLACES)
    observed, each = (
        np.stack([np.searchsorted(np.sort(column), at, "right") / len(y) for column in part.T])
        for part in (y[:, None], draws)
    )
    return at, observed[0], *_band(each)


def coded(y: Any, probabilities: Any, classes: Any) -> tuple[Array, Array, Array]:
    """Positions of labels among the columns, the probabilities and the columns' labels."""
    labels = np.asarray(y)
    if labels.ndim != 1 or not len(labels):
        raise ValueError(f"y must hold labels, shape (n,), at least one; found shape {labels.shape}.")
    probabilities = table(probabilities, len(labels), "probabilities")
    if np.any(probabilities < 0) or not np.allclose(probabilities.sum(axis=1), 1.0, atol=1e-4):
        raise ValueError("probabilities must not be negative, and sum to 1 in every row.")
    labels_of_columns = np.unique(labels) if classes is None else np.asarray(classes)
    if labels_of_columns.shape != (probabilities.shape[1],):
        raise ValueError(
            f"probabilities has {probabilities.shape[1]} columns for the classes {labels_of_columns.tolist()}."
        )
    at = {label: code for code, label in enumerate(labels_of_columns.tolist())}
    strange = sorted({label for label in labels.tolist() if label not in at}, key=str)
    if strange:
        raise ValueError(
            f"y has labels without a column of probabilities: {strange[:5]}; known: {labels_of_columns.tolist()}."
        )
    return np.array([at[label] for label in labels.tolist()]), probabilities, labels_of_columns


def of_labels(codes: Array, probabilities: Array, classes: Array) -> Parts:
    """Rows with each label; a sum of independent indicators is nearly normal."""
    n, k = probabilities.shape
    expected = probabilities.sum(axis=0)
    half = ndtri(HIGH) * np.sqrt((probabilities * (1.0 - probabilities)).sum(axis=0))
    lower, upper = np.maximum(expected - half, 0.0), np.minimum(expected + half, n)
    return classes, np.bincount(codes, minlength=k), expected, lower, upper


def reliability(chance: Array, successes: Array, trials: Array) -> Parts:
    """How often successes came in bins of rows by their predicted probability, about as many rows in each."""
    edges = np.unique(np.quantile(chance, np.linspace(0.0, 1.0, BINS + 1)))
    at = np.clip(np.searchsorted(edges, chance, "right") - 1, 0, max(0, len(edges) - 2))
    total = np.bincount(at, trials)
    some = np.flatnonzero(total > 0)
    total = total[some]
    mean = np.bincount(at, trials * chance)[some] / total
    lower, upper = (binomial_quantile(end, np.round(total), mean) / total for end in (LOW, HIGH))
    return mean, np.bincount(at, successes)[some] / total, mean, lower, np.minimum(upper, 1.0)
