"""What the benchmarks of matrix factorization share: ratings and counts with their splits, measures, stored peers.

Measures are per test entry, natural logarithms. "log density" is that of the likelihood that was fitted: of the level
for ordinal and binary models, of a real number for Gaussian ones (the two do not compare). A Gaussian model's "log
mass" is what its predictive distribution leaves the levels when every value is rounded to the nearest one.
"""

from __future__ import annotations

import json
import warnings
from typing import Any

import numpy as np

from benchmarks._lib import Array
from benchmarks._lib.loaders import data_folder
from benchmarks._lib.tables import RESULTS
from benchmarks._lib.timing import Clock

#: Training pairs, training values, test pairs, test values.
Split = tuple[Array, Array, Array, Array]
LEVELS = np.arange(1.0, 6.0)


# ---------------------------------------------------------------- data


def archive(name: str) -> dict[str, Array]:
    """All arrays of ``ratings/<name>.npz``."""
    with np.load(data_folder() / "ratings" / f"{name}.npz") as found:
        return dict(found)


def parted(pairs: Array, y: Array, order: Array) -> Split:
    """80 % of ``order`` for training, the rest for the test."""
    n = int(0.8 * len(order))
    return pairs[order[:n]], y[order[:n]], pairs[order[n:]], y[order[n:]]


def movielens(kind: str = "all", seed: int = 0) -> Split:
    """MovieLens 1M, 80/20; ``kind``: "all" (1 to 5) or "binary" (1 is 0, 5 is 1, the others are dropped)."""
    z = archive("movielens_1m")
    pairs, y = np.c_[z["user"], z["item"]], z["rating"].astype(float)
    order = np.random.default_rng(seed).permutation(len(y))
    if kind == "binary":
        order = order[(y[order] == 1) | (y[order] == 5)]
        y = (y == 5).astype(float)
    return parted(pairs, y, order)


def lastfm(seed: int = 0) -> Split:
    """Last.fm (HetRec 2011): pairs of user and artist, listening counts, 80/20."""
    z = archive("lastfm_hetrec2011")
    pairs, y = np.c_[z["user"], z["artist"]], z["weight"].astype(float)
    return parted(pairs, y, np.random.default_rng(seed).permutation(len(y)))


def small(split: Split, n: int = 20_000) -> Split:
    """The first ``n`` training entries and a quarter as many of the test, for quick runs."""
    return split[0][:n], split[1][:n], split[2][: n // 4], split[3][: n // 4]


def side_features() -> tuple[Any, Any]:
    """DataFrames of 0/1 by user id (sex, age group, occupation) and by movie id (genres, decade)."""
    import pandas as pd

    z = archive("movielens_1m")
    users = pd.DataFrame(
        {
            "sex": z["user_gender"].astype(str),
            "age": z["user_age"].astype(str),
            "job": z["user_occupation"].astype(str),
        },
        index=np.arange(1, len(z["user_age"]) + 1),
    )
    users = pd.get_dummies(users).astype(float)
    titles = pd.Series(z["movie_title"].astype(str), index=z["movie_id"])
    genres = pd.Series(z["movie_genres"].astype(str), index=z["movie_id"]).str.get_dummies("|")
    decade = titles.str.extract(r"\((\d{3})\d\)\s*$")[0].fillna("other")
    return users, pd.concat([genres, pd.get_dummies(decade, prefix="from")], axis=1).astype(float)


def count_features(pairs: Array) -> tuple[Any, Any]:
    """DataFrames by user id and by movie id: the logarithm of how often each occurs among the pairs of a fit."""
    import pandas as pd

    counts = (pd.Series(column).value_counts() for column in pairs.T)
    users, items = (np.log(n).to_frame("log count") for n in counts)
    return users, items


# ---------------------------------------------------------------- measures


def errors(y: Array, mean: Array) -> dict[str, float]:
    return {"rmse": float(np.sqrt(np.mean((y - mean) ** 2))), "mae": float(np.mean(np.abs(y - mean)))}


def auc(y: Array, score: Array) -> float:
    """Area under the ROC curve."""
    from sklearn.metrics import roc_auc_score

    return float(roc_auc_score(y, score))


def rounded_mass(y: Array, mean: Array, sd: Array | float) -> Array:
    """Mass that N(mean, sd^2) leaves the level y when rounded to the nearest of 1, ..., 5."""
    from scipy.special import ndtr

    low = np.where(y > LEVELS[0], y - 0.5, -np.inf)
    high = np.where(y < LEVELS[-1], y + 0.5, np.inf)
    return np.asarray(ndtr((high - mean) / sd) - ndtr((low - mean) / sd))


def level_scores(y: Array, p: Array, levels: Array = LEVELS) -> dict[str, float]:
    """Scores of the probabilities of the levels, one column each."""
    at = np.searchsorted(levels, y)
    return {**errors(y, p @ levels), "log density": float(np.mean(np.log(p[np.arange(len(y)), at])))}


def binary_scores(y: Array, p: Array) -> dict[str, float]:
    """Scores of the probability of a 1."""
    with np.errstate(divide="ignore"):  # a probability of 0 for what happened scores minus infinity
        found = {"log density": float(np.mean(np.log(np.where(y == 1, p, 1 - p)))), "auc": auc(y, p)}
    return {**found, "error": float(np.mean((p > 0.5) != (y == 1)))}


def scores(model: Any, test: Array, y: Array, kind: str) -> dict[str, float]:
    """Scores of one of our fitted models on MovieLens; ``kind``: "ordinal", "gaussian" or "binary"."""
    if kind == "ordinal":
        return level_scores(y, model.predict_proba(test), model.levels_)
    if kind == "binary":
        return binary_scores(y, model.predict_proba(test)[:, 1])
    mean, sd = model.predict(test, return_std=True)
    low, high = model.predict_interval(test, coverage=0.9).T
    return {
        **errors(y, mean),
        "log density": float(np.mean(model.log_predictive_density(test, y))),
        "log mass": float(np.mean(np.log(rounded_mass(y, mean, sd)))),
        "coverage 90 %": float(np.mean((low <= y) & (y <= high))),
    }


# ---------------------------------------------------------------- runs


def whole_fit(model: Any, train: tuple[Array, Array]) -> dict[str, Any]:
    """Seconds of a fit that ends by itself, all of it included, its passes and its bound."""
    with warnings.catch_warnings(), Clock() as clock:
        warnings.simplefilter("ignore")
        model.fit(*train)
    return {"passes": model.n_iter_, **clock.spent, "bound": float(model.lower_bound_)}


# ---------------------------------------------------------------- peers


def stored_peers(name: str = "factorization/peers") -> list[dict[str, Any]]:
    """Rows that ``benchmarks.factorization.peers`` stored; none where it never ran."""
    path = RESULTS / f"{name}.json"
    return list(json.loads(path.read_text())["rows"]) if path.exists() else []
