"""What pictures of topics share: which are shown, and their words."""

from __future__ import annotations

from typing import Any

import numpy as np

from sksvi._names import feature_names

Array = np.ndarray


def positive(name: str, value: Any) -> int:
    if isinstance(value, bool) or int(value) != value or value < 1:
        raise ValueError(f"{name} must be at least 1; found {value!r}.")
    return int(value)


def supported(estimator: Any) -> list[int]:
    """Topics that words support: all of a model that does not say."""
    prevalence = getattr(estimator, "topic_prevalence_", None)
    if prevalence is None:
        return list(range(len(estimator.components_)))
    if not np.any(prevalence):
        raise ValueError("No word supports any topic (topic_prevalence_ is 0): there is nothing to draw.")
    return [int(k) for k in np.flatnonzero(prevalence)]


def words_of(estimator: Any, before: Any, given: Any) -> Array:
    """Words of the columns: those given, else those that the estimator or the Pipeline knows."""
    names = feature_names(estimator, before) if given is None else np.asarray(given, object)
    if names.shape != (estimator.n_features_in_,):
        raise ValueError(f"feature_names has shape {names.shape}, expected {(estimator.n_features_in_,)}.")
    return names


def top_words(components: Array, names: Array, n: int) -> tuple[Array, Array]:
    """(k, n) words and their columns, the most probable first."""
    order = np.argsort(-components, axis=1, kind="stable")[:, :n]
    return names[order].astype(str), order
