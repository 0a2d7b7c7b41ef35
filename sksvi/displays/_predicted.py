"""The predictive distribution of the model inside wrappers, for displays, and how often it says that data come.

Functions of frequencies answer places, observed, expected, lower and upper, the last two the ends of a band of 90 %.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtri
from sklearn.utils.validation import check_is_fitted

from sksvi._runtime.user import check_seed
from sksvi.displays._common import refuse_several
from sksvi.estimators.offsets import with_exposure
from sksvi.likelihoods.count_quantiles import binomial_quantile
from sksvi.predictive.wrappers import through, unwrapped_with_data

Array = np.ndarray
Parts = tuple[Array, Array, Array, Array, Array]

#: Most bars of counts, and of measured values; places of a distribution function; bins of probabilities.
BARS, PLACES, BINS = 40, 200, 10
#: Shares of draws outside of the picture, at either end, unless data lie there.
OUTSIDE = 5e-3
#: Ends of the band.
LOW, HIGH = 0.05, 0.95


class Unwrapped(NamedTuple):
    """The estimator inside its wrappers, rows as it takes them, the target's transformers, and the rows' own offset."""

    model: Any
    X: Any
    inverses: list[Any]
    own_offset: Any = None

    @property
    def likelihood(self) -> Any:
        """The fitted likelihood."""
        return self.model.likelihood_

    @property
    def classes(self) -> Array:
        """Labels or levels in the order of their probabilities; of a regressor of 0 and 1 these."""
        for name in ("classes_", "levels_"):
            if getattr(self.model, name, None) is not None:
                return np.asarray(getattr(self.model, name))
        return np.asarray(self.likelihood.levels, dtype=int)

    def predictive(self, offset: Any = None) -> Any:
        """Distribution of y, in the units that the model inside was fitted in."""
        return self.model._predictive(self.X, offset)

    def shifted(self, offset: Any, exposure: Any) -> Any:
        """The offset of rows with these exposures, and with what a formula adds."""
        if self.own_offset is not None:
            offset = self.own_offset if offset is None else self.own_offset + np.asarray(offset, float)
        return with_exposure(self.model, offset, exposure, self.X)

    def target(self, y: Any) -> Array:
        """y in those units, as the likelihood takes it: ordinal as positions among the levels."""
        for transformer in reversed(self.inverses):
            y = np.asarray(transformer.transform(np.asarray(y, dtype=float).reshape(-1, 1)), dtype=float).ravel()
        return self.model._check_y(self.X, y)

    def outside(self, values: Array) -> Array:
        """Values in the units of y as it was given."""
        return through(self.inverses, values) if self.inverses else values

    @property
    def falls(self) -> bool:
        """Whether y falls where the model's own target grows."""
        if not self.inverses:
            return False
        ends = self.model._predictive(self.X[:1], None).quantile(np.array([0.25, 0.75]))
        low, high = through(self.inverses, ends)[0]
        return bool(high < low)


def unwrap_predictor(estimator: Any, X: Any) -> Unwrapped:
    """The fitted sksvi estimator inside wrappers, and the rows X as it takes them; TypeError if it predicts no y."""
    model, X, inverses, offset = unwrapped_with_data(estimator, X)
    check_is_fitted(model)
    refuse_several(model)
    if not hasattr(model, "_predictive") or not hasattr(model, "likelihood_"):
        raise TypeError(
            f"{type(model).__name__} has no predictive distribution of y: give one of sksvi's regressors, classifiers "
            "or time series, or use from_predictions."
        )
    return Unwrapped(model, X, inverses, offset)


def steps(estimator: Any, X: Any, y: Any, offset: Any = None, exposure: Any = None) -> tuple[Array, Array]:
    """P(Y < y) and P(Y <= y) of each row: of a time series without X and y those one step ahead in the fit."""
    given = unwrap_predictor(estimator, X)
    if given.likelihood.traits.classifies:
        raise ValueError(
            f"{type(given.model).__name__} predicts labels, which have no order and no intervals: use "
            "PosteriorPredictiveDisplay."
        )
    if X is None and y is None and hasattr(given.model, "_steps_ahead"):
        return given.model._steps_ahead()
    if y is None:
        raise ValueError("y is needed: the values that the predictions are compared with.")
    below, at_most = given.predictive(given.shifted(offset, exposure)).cdf_steps(given.target(y))
    return (1.0 - at_most, 1.0 - below) if given.falls else (below, at_most)


def values(y: Any, name: str = "y") -> Array:
    """y as finite numbers, (n,)."""
    found = np.asarray(y, dtype=float)
    if found.ndim != 1 or not len(found):
        raise ValueError(f"{name} must be numbers of shape (n,), at least one; found shape {found.shape}.")
    if not np.all(np.isfinite(found)):
        row = int(np.argmin(np.isfinite(found)))
        raise ValueError(f"{name} must be finite; found {found[row]} in row {row}.")
    return found


def table(rows: Any, n: int, name: str) -> Array:
    """Finite numbers of shape (n, m), a row for each of y."""
    found = np.asarray(rows, dtype=float)
    if found.ndim != 2 or found.shape[0] != n or not found.shape[1]:
        raise ValueError(f"{name} must have a row for each of the {n} of y, shape ({n}, m); found {found.shape}.")
    if not np.all(np.isfinite(found)):
        row = int(np.argmin(np.isfinite(found).all(axis=1)))
        raise ValueError(f"{name} must be finite; row {row} is not.")
    return found


def generator(random_state: Any) -> np.random.Generator:
    """NumPy's generator for a user's `random_state`."""
    return np.random.default_rng(check_seed(random_state).randint(np.iinfo(np.int32).max))


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
