"""90 % intervals of new targets: ours, conformal ones of MAPIE around scikit-learn's estimators, and a bootstrap."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import PoissonRegressor, RidgeCV
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks._lib import Array
from sksvi import BayesianGLMRegressor, SparseGPRegressor

#: Ends (n, 2) of the intervals of the rows of Z by a fit of X and y; the number seeds splits and resamples.
Method = Callable[[Array, Array, Array, int], Array]
N_REFITS = 100
#: Share of the rows that split methods leave for their scores, and how many of these quantiles of 5 and 95 % need.
SCORES, LEAST_SCORES = 0.25, 21
OURS = "BayesianGLMRegressor"


def of_ours(make: Callable[[], Any]) -> Method:
    return lambda X, y, Z, seed: np.asarray(make().fit(X, y).predict_interval(Z))


def linear(kind: str) -> Any:
    """What scikit-learn has for the target: of counts a Poisson regression, else a ridge whose penalty is validated."""
    return make_pipeline(StandardScaler(), PoissonRegressor(max_iter=1000) if kind == "counts" else RidgeCV())


def boosted(kind: str) -> Any:
    return HistGradientBoostingRegressor(loss="poisson" if kind == "counts" else "squared_error", random_state=0)


def split_conformal(make: Callable[[], Any]) -> Method:
    """A quarter of the rows for the scores, as MAPIE's first example has."""
    from mapie.regression import SplitConformalRegressor

    def ends(X: Array, y: Array, Z: Array, seed: int) -> Array:
        X_fit, X_score, y_fit, y_score = train_test_split(X, y, test_size=SCORES, random_state=seed)
        model = SplitConformalRegressor(make(), prefit=False).fit(X_fit, y_fit).conformalize(X_score, y_score)
        return np.asarray(model.predict_interval(Z)[1][:, :, 0])

    return ends


def cross_conformal(make: Callable[[], Any], folds: int = 5) -> Method:
    """CV+ with the package's own five folds."""
    from mapie.regression import CrossConformalRegressor

    def ends(X: Array, y: Array, Z: Array, seed: int) -> Array:
        model = CrossConformalRegressor(make(), cv=folds, random_state=seed).fit_conformalize(X, y)
        return np.asarray(model.predict_interval(Z)[1][:, :, 0])

    return ends


def quantile_conformal() -> Method:
    """Conformalized quantile regression by boosted trees, whose widths follow the rows; a quarter for the scores."""
    from mapie.regression import ConformalizedQuantileRegressor

    def ends(X: Array, y: Array, Z: Array, seed: int) -> Array:
        X_fit, X_score, y_fit, y_score = train_test_split(X, y, test_size=SCORES, random_state=seed)
        trees = HistGradientBoostingRegressor(loss="quantile", quantile=0.5, random_state=0)
        model = ConformalizedQuantileRegressor(trees, confidence_level=0.9, prefit=False)
        model.fit(X_fit, y_fit).conformalize(X_score, y_score)
        return np.asarray(model.predict_interval(Z)[1][:, :, 0])

    return ends


def bootstrap(make: Callable[[], Any]) -> Method:
    """Percentiles of predictions of refits to resampled rows, each plus a residual of the fit to all rows."""

    def ends(X: Array, y: Array, Z: Array, seed: int) -> Array:
        rng = np.random.default_rng(seed)
        residuals = y - make().fit(X, y).predict(X)
        found = np.empty((N_REFITS, len(Z)))
        for i in range(N_REFITS):
            rows = rng.integers(len(y), size=len(y))
            while not np.any(y[rows]):  # a Poisson regression needs an event
                rows = rng.integers(len(y), size=len(y))
            found[i] = make().fit(X[rows], y[rows]).predict(Z) + rng.choice(residuals, len(Z))
        return np.asarray(np.quantile(found, [0.05, 0.95], axis=0).T)

    return ends


def methods(kind: str, n: int) -> dict[str, Method]:
    """Those of a kind of target and n rows; without MAPIE none of its."""
    if kind == "counts":
        found = {
            OURS: of_ours(lambda: BayesianGLMRegressor(likelihood="negative-binomial")),
            f"{OURS}, Poisson": of_ours(lambda: BayesianGLMRegressor(likelihood="poisson")),
        }
    else:
        found = {OURS: of_ours(BayesianGLMRegressor), "SparseGPRegressor": of_ours(SparseGPRegressor)}
    found["bootstrap, linear"] = bootstrap(lambda: linear(kind))
    if missing() is None:
        found["split conformal, linear"] = split_conformal(lambda: linear(kind))
        found["CV+, linear"] = cross_conformal(lambda: linear(kind))
        found["CV+, boosted trees"] = cross_conformal(lambda: boosted(kind))
        if SCORES * n > LEAST_SCORES:
            found["conformal quantiles, boosted trees"] = quantile_conformal()
    return found


def missing() -> str | None:
    """Why there are no conformal intervals."""
    return None if find_spec("mapie") else "MAPIE is not installed: no conformal intervals were measured."
