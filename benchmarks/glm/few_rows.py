"""Intervals of few rows: Gaussian noise that is learned, beside t intervals of least squares and `BayesianRidge`.

y = Xw + b + e with standard normal columns, coefficients and noise, 1,000 data sets of each size. Coverage is of 90 %
intervals, over 20 new rows (their y) and over the coefficients of each data set.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import stats

from benchmarks._lib import Array
from benchmarks._lib.tables import arguments, progress, report

ROWS, COLUMNS, NEW, REPLICAS = (10, 15, 20, 30), (2, 5), 20, 1000
COVERAGE = 0.9
NORMAL = float(stats.norm.ppf(0.5 + 0.5 * COVERAGE))
OURS: dict[str, dict[str, str]] = {
    "default": {},
    "flat": {"prior_precision": "flat"},
    "point": {"hyperparameters": "point"},
}

#: A method: centres and half widths of the coefficients, then of y in new rows.
Intervals = tuple[Array, Array, Array, Array]


def least_squares(X: Array, y: Array, new: Array) -> Intervals:
    import statsmodels.api as sm

    fit = sm.OLS(y, sm.add_constant(X)).fit()
    ends = fit.conf_int(1.0 - COVERAGE)[1:]
    found = fit.get_prediction(sm.add_constant(new)).summary_frame(1.0 - COVERAGE)
    half = 0.5 * (found["obs_ci_upper"] - found["obs_ci_lower"]).to_numpy()
    return fit.params[1:], 0.5 * (ends[:, 1] - ends[:, 0]), found["mean"].to_numpy(), half


def ridge(X: Array, y: Array, new: Array) -> Intervals:
    from sklearn.linear_model import BayesianRidge

    fit = BayesianRidge().fit(X, y)
    mean, std = fit.predict(new, return_std=True)
    return fit.coef_, NORMAL * np.sqrt(np.diag(fit.sigma_)), mean, NORMAL * std


def ours(X: Array, y: Array, new: Array, options: dict[str, str]) -> Intervals:
    from sksvi import BayesianGLMRegressor

    fit = BayesianGLMRegressor(**options).fit(X, y)
    table, ends = fit.summary(COVERAGE).iloc[: X.shape[1]], fit.predict_interval(new, COVERAGE)
    low, high = table["lower"].to_numpy(), table["upper"].to_numpy()
    return 0.5 * (low + high), 0.5 * (high - low), ends.mean(axis=1), 0.5 * (ends[:, 1] - ends[:, 0])


def methods(X: Array, y: Array, new: Array) -> Iterator[tuple[str, Intervals]]:
    for name, options in OURS.items():
        yield name, ours(X, y, new, options)
    yield "BayesianRidge", ridge(X, y, new)
    yield "OLS", least_squares(X, y, new)


def study(n: int, d: int, replicas: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Coverage of y in new rows and of coefficients, by method."""
    of_y: dict[str, list[float]] = {}
    of_weights: dict[str, list[float]] = {}
    for replica in range(replicas):
        rng = np.random.default_rng([n, d, replica])
        X, new, weights = rng.standard_normal((n, d)), rng.standard_normal((NEW, d)), rng.standard_normal(d)
        intercept = rng.standard_normal()
        y, to_come = (rows @ weights + intercept + rng.standard_normal(len(rows)) for rows in (X, new))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of few rows there is often something to say
            for name, (coef, of_coef, mean, half) in methods(X, y, new):
                of_y.setdefault(name, []).append(float(np.mean(np.abs(to_come - mean) <= half)))
                of_weights.setdefault(name, []).append(float(np.mean(np.abs(weights - coef) <= of_coef)))
    size = {"rows": n, "columns": d}
    of_both = ({name: round(float(np.mean(held)), 3) for name, held in each.items()} for each in (of_y, of_weights))
    first, second = of_both
    return {**size, **first}, {**size, **second}


def main(quick: bool = False) -> None:
    of_y, of_weights = [], []
    for n in ROWS[:1] if quick else ROWS:
        for d in COLUMNS[:1] if quick else COLUMNS:
            for rows, row in zip((of_y, of_weights), study(n, d, 20 if quick else REPLICAS), strict=True):
                rows.append(row)
                progress(row)
    notes = ["Standard errors are below 0.006 of predictions and 0.01 of coefficients."]
    report("glm/few_rows", "90 % intervals of y in new rows, learned noise", of_y, notes, quick)
    report("glm/few_rows_weights", "90 % intervals of coefficients, learned noise", of_weights, notes, quick)


if __name__ == "__main__":
    main(arguments(__doc__))
