"""No tuning needed? ``prior_precision="auto"`` against ``LogisticRegressionCV(Cs=10, cv=5)`` on twelve small sets.

Twenty random halves each (stratified, columns standardised on the training half): test log loss, calibration error (10
bins) and seconds per fit; a set is won by the smaller mean.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks._lib import Array
from benchmarks._lib.loaders import load_csv, load_libsvm, load_npz
from benchmarks._lib.measures import calibration_error, log_loss
from benchmarks._lib.tables import arguments, progress, report


def _libsvm(name: str, columns: int) -> tuple[Array, Array]:
    X, y = load_libsvm(name, columns)
    return X.toarray(), (y == y.max()).astype(int)


def _published_split(name: str) -> tuple[Array, Array]:
    arrays = load_npz(name)
    X, y = np.r_[arrays["X_train"], arrays["X_test"]], np.r_[arrays["y_train"].ravel(), arrays["y_test"].ravel()]
    return X.astype(float), (y > 0).astype(int)


def _wdbc() -> tuple[Array, Array]:
    from sklearn.datasets import load_breast_cancer

    X, y = load_breast_cancer(return_X_y=True)
    return X, y


def _parkinson() -> tuple[Array, Array]:
    X, y = load_csv("parkinson_speech", "class", drop=["rownames"])
    return X.to_numpy(float), (y == "PD").astype(int) if y.dtype.kind not in "biuf" else (y == y.max()).astype(int)


def _flare() -> tuple[Array, Array]:
    import pandas as pd

    X, y = load_csv("solar_flare", "C")
    X = pd.get_dummies(X.drop(columns=["M", "X"], errors="ignore").astype(str))
    return X.to_numpy(float), (y > 0).astype(int)


def _musk() -> tuple[Array, Array]:
    arrays = load_npz("musk2_134")
    rows = np.random.default_rng(0).permutation(len(arrays["y"]))[:400]
    return arrays["X"][rows].astype(float), arrays["y"][rows].astype(int)


def _usps() -> tuple[Array, Array]:
    arrays = load_npz("usps")
    X, y = np.r_[arrays["X_train"], arrays["X_test"]] / 1000.0, np.r_[arrays["y_train"], arrays["y_test"]]
    rows = np.flatnonzero((y == 3) | (y == 5))
    rows = np.random.default_rng(0).permutation(rows)[:300]
    return X[rows], (y[rows] == 5).astype(int)


SETS: dict[str, Callable[[], tuple[Array, Array]]] = {
    "australian": lambda: _libsvm("australian_scale", 14),
    "breast-cancer": lambda: _libsvm("breast-cancer_scale", 10),
    "colon-cancer": lambda: _libsvm("colon-cancer", 2000),
    "diabetes": lambda: _libsvm("diabetes_scale", 8),
    "heart": lambda: _libsvm("heart_scale", 13),
    "ionosphere": lambda: _published_split("ionosphere_cvi_split"),
    "sonar": lambda: _published_split("sonar_cvi_split"),
    "wdbc": _wdbc,
    "parkinson": _parkinson,
    "solar flare": _flare,
    "musk (400 rows)": _musk,
    "usps 3/5 (300 rows)": _usps,
}


def halves(X: Array, y: Array, seed: int) -> tuple[Array, Array, Array, Array]:
    """A stratified random half, columns standardised by it (constant ones dropped)."""
    from sklearn.model_selection import train_test_split

    X, Xt, y, yt = train_test_split(X, y, test_size=0.5, stratify=y, random_state=seed)
    keep = X.std(axis=0) > 0
    mean, sd = X[:, keep].mean(axis=0), X[:, keep].std(axis=0)
    return (X[:, keep] - mean) / sd, y, (Xt[:, keep] - mean) / sd, yt


def row_of(name: str, n_splits: int) -> dict[str, Any]:
    from sklearn.linear_model import LogisticRegressionCV

    from sksvi.linear_model import BayesianGLMClassifier

    makers = {
        "ours": lambda: BayesianGLMClassifier(prior_precision="auto"),
        "cv": lambda: LogisticRegressionCV(Cs=10, cv=5, scoring="neg_log_loss"),
    }
    X, y = SETS[name]()
    found: dict[str, list[tuple[float, float, float]]] = {key: [] for key in makers}
    for seed in range(n_splits):
        A, a, B, b = halves(X, y, seed)
        for key, make in makers.items():
            model = make()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                start = time.perf_counter()
                model.fit(A, a)
                seconds = time.perf_counter() - start
            p = model.predict_proba(B)[:, 1]
            found[key].append((log_loss(b, p), calibration_error(b, p), seconds))
    ours, cv = (np.array(found[key]) for key in makers)
    mean = {"ours": ours.mean(axis=0), "cv": cv.mean(axis=0)}
    time_ours, time_cv = float(np.median(ours[:, 2])), float(np.median(cv[:, 2]))
    return {
        "data": name,
        "rows": len(y),
        "columns": X.shape[1],
        "log loss": mean["ours"][0],
        "log loss CV": mean["cv"][0],
        "se of difference": float((ours[:, 0] - cv[:, 0]).std(ddof=1) / np.sqrt(n_splits)),
        "calibration": mean["ours"][1],
        "calibration CV": mean["cv"][1],
        "seconds": time_ours,
        "seconds CV": time_cv,
        "time ratio": time_ours / time_cv,
    }


def main(quick: bool = False) -> None:
    names = ["heart", "sonar"] if quick else list(SETS)
    rows = []
    for name in names:
        rows.append(row_of(name, 4 if quick else 20))
        progress(rows[-1])
    losses = sum(row["log loss"] <= row["log loss CV"] for row in rows)
    calibrated = sum(row["calibration"] < row["calibration CV"] for row in rows)
    fast = sum(row["time ratio"] <= 0.2 for row in rows)
    total = sum(row["seconds"] for row in rows) / sum(row["seconds CV"] for row in rows)
    notes = [
        f"Log loss no worse on {losses} of {len(rows)} sets, better calibrated on {calibrated}, within a fifth of the "
        f"time on {fast}; all together {total:.3f} of the time."
    ]
    report(
        "glm/small_sets", "No tuning needed: prior_precision='auto' against LogisticRegressionCV", rows, notes, quick
    )


if __name__ == "__main__":
    main(arguments(__doc__))
