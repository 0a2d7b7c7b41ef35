"""Bayesian estimators beside scikit-learn's point estimates, on real data: `make demo`, or `python -m examples.demo`.

1. Breast cancer (scikit-learn's): `BayesianGLMClassifier` with four algorithms beside `LogisticRegression`.
2. Bike rentals by the hour (ours), from a DataFrame with categorical columns through a Pipeline:
   `BayesianGLMRegressor` beside `PoissonRegressor`.

Prints two tables and writes three figures into `demo-output/`.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_breast_cancer
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, PoissonRegressor
from sklearn.metrics import accuracy_score, log_loss
from sklearn.model_selection import StratifiedShuffleSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from sksvi import BayesianGLMClassifier, BayesianGLMRegressor
from sksvi.datasets import load_bike_sharing

ALGORITHMS = ("cvi", "mc-ssvi", "h-mc-ssvi", "s-dsvi")
LEVELS = np.linspace(0.05, 0.95, 19)
N_SPLITS = 10
WEEK = 7 * 24


def timed_fit(model: Any, X: Any, y: Any) -> tuple[float, bool]:
    """Fit; tell the seconds, and whether it converged within the model's own limit of passes."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        start = time.perf_counter()
        model.fit(X, y)
        seconds = time.perf_counter() - start
    return seconds, not any(issubclass(warning.category, ConvergenceWarning) for warning in caught)


def calibration_error(y: np.ndarray, probability: np.ndarray, n_bins: int = 10) -> float:
    """Mean distance, over equal-width bins weighted by their rows, of the share of ones and the mean probability."""
    bins = np.minimum((probability * n_bins).astype(int), n_bins - 1)
    weight = np.bincount(bins, minlength=n_bins)
    gap = np.bincount(bins, y - probability, minlength=n_bins)
    return float(np.abs(gap).sum() / weight.sum())


def classify() -> tuple[pd.DataFrame, dict[str, Any]]:
    """Table over random halves of the breast cancer data, and the last half's fitted classifiers by algorithm."""
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    models: dict[str, Any] = {"LogisticRegression (scikit-learn)": LogisticRegression(max_iter=1000)}
    # precision 1 is LogisticRegression's default penalty: these rows differ from it in having a posterior
    for name in ALGORITHMS:
        models[f"BayesianGLM {name}"] = BayesianGLMClassifier(algorithm=name, prior_precision=1.0, random_state=0)
    models["BayesianGLM cvi, prior learned"] = BayesianGLMClassifier(random_state=0)
    splits = list(StratifiedShuffleSplit(N_SPLITS, test_size=0.5, random_state=0).split(X, y))
    rows, fitted, bounds = {}, {}, {}
    for name, model in models.items():
        pipeline = make_pipeline(StandardScaler().set_output(transform="pandas"), model)
        scores, bounds[name] = [], []
        for train, test in splits:
            seconds, converged = timed_fit(pipeline, X.iloc[train], y.iloc[train])
            truth, probability = y.to_numpy()[test], pipeline.predict_proba(X.iloc[test])[:, 1]
            errors = log_loss(truth, probability), calibration_error(truth, probability)
            scores.append([*errors, accuracy_score(truth, probability > 0.5), seconds, converged])
            bounds[name].append(getattr(model, "lower_bound_", np.nan))
        loss, calibration, accuracy, seconds, converged = np.array(scores).T
        rows[name] = {
            "log loss": loss.mean(),
            "calibration error": calibration.mean(),
            "accuracy": accuracy.mean(),
            "seconds": np.median(seconds),
            "converged": f"{converged.sum():.0f} of {N_SPLITS}",
            "short, nats": "",
        }
        if name.split()[-1] in ALGORITHMS:
            rows[name]["short, nats"] = f"{np.mean(np.subtract(bounds['BayesianGLM cvi'], bounds[name])):.4f}"
            fitted[model.algorithm] = model
    return pd.DataFrame.from_dict(rows, orient="index"), fitted


def count_pipeline(regressor: Any, categorical: list[str]) -> Any:
    """Categorical columns to indicators, the rest to mean 0 and variance 1, names kept."""
    columns = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore", sparse_output=False), categorical),
        remainder=StandardScaler(),
        verbose_feature_names_out=False,
    )
    return make_pipeline(columns.set_output(transform="pandas"), regressor)


def count_scores(y: np.ndarray, log_density: np.ndarray, quantiles: np.ndarray) -> dict[str, float]:
    """Log loss (nats per row), calibration error (mean distance of P(y <= quantile) from its level), 90 % coverage."""
    below = (y[:, None] <= quantiles).mean(axis=0)
    covered = (quantiles[:, 0] <= y) & (y <= quantiles[:, -1])
    return {
        "log loss": -log_density.mean(),
        "calibration error": np.abs(below - LEVELS).mean(),
        "90 % interval covers": covered.mean(),
    }


def count() -> tuple[pd.DataFrame, dict[str, Any]]:
    """Table on held-out weeks of bike rentals, and what the figures need."""
    bikes = load_bike_sharing()
    held_out = np.arange(len(bikes.target)) // WEEK % 4 == 3
    X, y = bikes.data[~held_out], bikes.target[~held_out]
    X_test, y_test = bikes.data[held_out], bikes.target[held_out].to_numpy()
    rows, quantiles, fitted = {}, {}, {}

    name = "PoissonRegressor (scikit-learn)"
    point = count_pipeline(PoissonRegressor(alpha=1e-4, solver="newton-cholesky"), bikes.categorical_features)
    seconds, _ = timed_fit(point, X, y)
    plug_in = stats.poisson(point.predict(X_test))
    quantiles[name] = np.column_stack([plug_in.ppf(level) for level in LEVELS])
    rows[name] = count_scores(y_test, plug_in.logpmf(y_test), quantiles[name]) | {"seconds": seconds}

    for likelihood in ("poisson", "negative-binomial"):
        name = f"BayesianGLM {likelihood}"
        regressor = BayesianGLMRegressor(likelihood=likelihood, random_state=0)
        model = count_pipeline(regressor, bikes.categorical_features)
        seconds, _ = timed_fit(model, X, y)
        Z = model[:-1].transform(X_test)
        quantiles[name] = model[-1].predict_quantiles(Z, LEVELS)
        rows[name] = count_scores(y_test, model[-1].log_predictive_density(Z, y_test), quantiles[name])
        rows[name]["seconds"] = seconds
        fitted[name] = model[-1]
    return pd.DataFrame.from_dict(rows, orient="index"), {"fitted": fitted, "quantiles": quantiles, "y": y_test}


def draw_week(quantiles: dict[str, np.ndarray], y: np.ndarray, axes: Any, week: int = 6) -> None:
    """90 % intervals of one held-out week, a panel per model."""
    hours = slice(week * WEEK, (week + 1) * WEEK)
    for ax, (name, q) in zip(axes, quantiles.items()):
        days = np.arange(WEEK) / 24
        ax.fill_between(days, q[hours, 0], q[hours, -1], alpha=0.35, linewidth=0, label="90 % interval")
        ax.plot(days, q[hours, len(LEVELS) // 2], linewidth=1, label="median")
        ax.plot(days, y[hours], "k.", markersize=3, label="rentals")
        covered = np.mean((q[:, 0] <= y) & (y <= q[:, -1]))
        ax.set(title=f"{name}\ncovers {covered:.0%} of all held-out hours", xlabel="day", xlim=(0, 7))
    axes[0].set_ylabel("bikes rented per hour")
    axes[0].legend(frameon=False, loc="upper left")


def draw(classifiers: dict[str, Any], counts: dict[str, Any], folder: Path) -> list[Path]:
    """Write the three figures."""
    import matplotlib.pyplot as plt

    from sksvi import CoefficientDisplay, LowerBoundDisplay

    folder.mkdir(parents=True, exist_ok=True)
    figures = {}
    figures["lower_bound.png"], ax = plt.subplots(figsize=(6, 4))
    LowerBoundDisplay.from_estimator(classifiers, ax=ax)
    figures["coefficients.png"], ax = plt.subplots(figsize=(6, 8))
    CoefficientDisplay.from_estimator(counts["fitted"]["BayesianGLM negative-binomial"], ax=ax, max_features=30)
    shown = [name for name in counts["quantiles"] if name != "BayesianGLM poisson"]
    figures["intervals.png"], axes = plt.subplots(1, len(shown), figsize=(10, 3.8), sharey=True)
    draw_week({name: counts["quantiles"][name] for name in shown}, counts["y"], axes)
    for name, figure in figures.items():
        figure.savefig(folder / name, dpi=110, bbox_inches="tight")
        plt.close(figure)
    return [folder / name for name in figures]


def main() -> None:
    parser = argparse.ArgumentParser(description="Bayesian estimators beside scikit-learn's, on real data.")
    parser.add_argument("--output", type=Path, default=Path("demo-output"), help="folder of the figures")
    output = parser.parse_args().output
    start = time.perf_counter()

    table, classifiers = classify()
    print(f"Breast cancer, 569 rows, 30 features: means over {N_SPLITS} random halves, median seconds of a fit\n")
    print(table.to_string(float_format="{:.4f}".format), end="\n\n")
    unfinished = [name for name, share in table["converged"].items() if share != f"{N_SPLITS} of {N_SPLITS}"]
    if unfinished:
        print(f"Not converged: {', '.join(unfinished)}.")
    print("'short, nats': how far the lower bound of a fit is below cvi's, which is the bound of the same model.\n")
    table, counts = count()
    print("Bike rentals by the hour, 17,379 rows, five categorical columns: every fourth week held out\n")
    print(table.to_string(float_format="{:.4f}".format), end="\n\n")
    print("Log loss: nats per row, smaller is better. Calibration error: 0 is perfect.")
    for path in draw(classifiers, counts, output):
        print(f"wrote {path}")
    print(f"{time.perf_counter() - start:.0f} seconds in all")


if __name__ == "__main__":
    main()
