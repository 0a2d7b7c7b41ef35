"""Streams against the batch fit: errors of means and deviations by chunk, order, sample and algorithm; a drift."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from benchmarks._lib import Array
from benchmarks._lib.loaders import covtype, data_folder, load_libsvm
from benchmarks._lib.tables import arguments, progress, report

#: Rows of kddcup99, drawn once and left in their order.
KDD_ROWS = 60_000
SEEDS = 3


def kddcup() -> tuple[Any, Array]:
    """Attacks against normal connections: numbers as log(1 + x) over their deviation, text one-hot, CSR.

    Nearly separable: the labels are worth 75 rows of even odds, for 111 coefficients.
    """
    import pandas as pd
    import scipy.sparse as sp
    from sklearn.preprocessing import OneHotEncoder

    frame = pd.read_csv(data_folder() / "tabular" / "kddcup99_10pct.csv.xz", header=None)
    rows = np.sort(np.random.default_rng(0).choice(len(frame), KDD_ROWS, replace=False))
    frame = frame.iloc[rows]
    numbers = np.log1p(frame.drop(columns=[1, 2, 3, 41]).to_numpy(float))
    numbers = numbers[:, numbers.std(0) > 0]
    text = OneHotEncoder().fit_transform(frame[[1, 2, 3]].to_numpy(str))
    X = sp.hstack([text, sp.csr_matrix(numbers / numbers.std(0))]).tocsr()
    return X, (frame[41].to_numpy() != "normal.").astype(int)


def sets(quick: bool) -> dict[str, tuple[str, Any, Array]]:
    from benchmarks.product.speed import bike

    found: dict[str, tuple[str, Any, Array]] = {
        "bike, Poisson": ("poisson", *bike()),
        "bike, negative binomial": ("negative-binomial", *bike()),
    }
    if not quick:
        X, y = load_libsvm("a9a", 123)
        found["a9a"] = "logit", X.tocsr(), (y > 0).astype(int)
        X, y = covtype()
        found["covtype subset"] = "logit", X[:, X.std(0) > 0], y
        found["kddcup99"] = "logit", *kddcup()
    return found


def model(likelihood: str, **options: Any) -> Any:
    from sksvi import BayesianGLMClassifier, BayesianGLMRegressor

    return (BayesianGLMClassifier if likelihood == "logit" else BayesianGLMRegressor)(likelihood=likelihood, **options)


def streamed(likelihood: str, X: Any, y: Array, order: Array, chunk: int, **options: Any) -> tuple[Any, float]:
    """The estimator after the stream, and CPU seconds."""
    estimator, started = model(likelihood, **options), time.process_time()
    more = {"classes": [0, 1]} if likelihood == "logit" else {}
    for first in range(0, len(y), chunk):
        rows = order[first : first + chunk]
        estimator.partial_fit(X[rows], y[rows], **more)
    return estimator, time.process_time() - started


def row(name: str, data: tuple[str, Any, Array], batch: Any, chunk: int, shuffled: bool, **options: Any) -> dict:
    """Worst of the seeds: the largest error of a coefficient and the range of ratios of deviations."""
    errors, low, high, seconds = [], [], [], []
    for seed in range(SEEDS if shuffled else 1):
        n = len(data[2])
        order = np.random.default_rng(seed).permutation(n) if shuffled else np.arange(n)
        found, spent = streamed(*data, order, chunk, random_state=seed, **options)
        weights = found.posterior_["weights"]
        errors.append(np.max(np.abs(weights.mean - batch.mean) / batch.std))
        ratio = weights.std / batch.std
        low.append(ratio.min())
        high.append(ratio.max())
        seconds.append(spent)
    return {
        "data": name,
        "order": "shuffled" if shuffled else "time",
        "chunk": chunk,
        "algorithm": options.get("algorithm", "cvi"),
        "sample": options.get("stream_sample", "auto"),
        "largest error, sd": round(float(max(errors)), 3),
        "sd ratio, least": round(float(min(low)), 3),
        "sd ratio, most": round(float(max(high)), 3),
        "CPU seconds": round(float(np.median(seconds)), 2),
    }


def tolerances(quick: bool) -> list[dict[str, Any]]:
    """What `tol` is worth on kddcup99: the fit to all rows, and streams, against the fit with tol=1e-9."""
    data = "logit", *kddcup()
    if quick:
        data = data[0], data[1][::10], data[2][::10]
    batch, table = model("logit", tol=1e-9).fit(*data[1:]), []
    at = batch.posterior_["weights"]
    for tol in (1e-4, 1e-6):
        started = time.process_time()
        found = model("logit", tol=tol).fit(*data[1:])
        spent, own = time.process_time() - started, found.posterior_["weights"]
        ratio = own.std / at.std
        table.append({"fit": "all rows", "chunk": len(data[2]), "tol": tol})
        table[-1]["largest error, sd"] = round(float(np.max(np.abs(own.mean - at.mean) / at.std)), 3)
        table[-1] |= {"sd ratio, least": round(float(ratio.min()), 3), "sd ratio, most": round(float(ratio.max()), 3)}
        table[-1]["CPU seconds"] = round(spent, 2)
        for chunk in (1000,) if quick else (1000, 5000):
            told = row("kddcup99", data, at, chunk, True, tol=tol)
            kept = ("largest error, sd", "sd ratio, least", "sd ratio, most", "CPU seconds")
            table.append({"fit": "stream, shuffled", "chunk": chunk, "tol": tol} | {name: told[name] for name in kept})
            progress(table[-1])
    return table


def drift(quick: bool) -> list[dict[str, Any]]:
    """A logistic stream whose ten weights turn slowly: log loss of every chunk before it is learned from."""
    from scipy.special import expit
    from sklearn.linear_model import SGDClassifier
    from sklearn.metrics import log_loss

    rng = np.random.default_rng(0)
    chunks, size, d = (20 if quick else 200), 200, 10
    angle = np.linspace(0.0, 2.0 * np.pi, chunks)
    a, b = rng.standard_normal((2, d))
    X = rng.standard_normal((chunks, size, d))
    f = np.einsum("csd,cd->cs", X, np.outer(np.cos(angle), a) + np.outer(np.sin(angle), b))
    y = (rng.random(f.shape) < expit(f)).astype(int)
    sgd = SGDClassifier(loss="log_loss", alpha=1e-4, random_state=0)
    kinds = {
        "half_life=600": model("logit", half_life=600.0),
        "forgetting=0.8": model("logit", forgetting=0.8),
        "half_life=600, mc-ssvi": model("logit", half_life=600.0, algorithm="mc-ssvi"),
        "no forgetting": model("logit"),
        "refit to all rows so far": None,
        "refit to the last 1,000 rows": None,
        "SGDClassifier.partial_fit": sgd,
        "SGDClassifier.partial_fit, constant rate 0.01": SGDClassifier(
            loss="log_loss", learning_rate="constant", eta0=0.01, random_state=0
        ),
    }
    table = []
    for name, estimator in kinds.items():
        fitted: Any = None
        losses, started = [], time.process_time()
        for t in range(chunks):
            if t:
                losses.append(log_loss(y[t], fitted.predict_proba(X[t])[:, 1], labels=[0, 1]))
            if estimator is None:
                first = 0 if "all" in name else max(0, t - 4)
                part = slice(first, t + 1)
                fitted = model("logit").fit(X[part].reshape(-1, d), y[part].ravel())
            else:
                fitted = estimator.partial_fit(X[t], y[t], classes=[0, 1])
        spent = time.process_time() - started
        table.append({"method": name, "log loss": float(np.mean(losses)), "CPU seconds": round(spent, 2)})
        progress(table[-1])
    best = float(np.mean(np.where(y[1:], np.log1p(np.exp(-f[1:])), np.log1p(np.exp(f[1:])))))
    table.append({"method": "the true weights", "log loss": best, "CPU seconds": None})
    return table


def main(quick: bool = False) -> None:
    rows = []
    for name, data in sets(quick).items():
        batch = model(data[0], tol=1e-9).fit(*data[1:]).posterior_["weights"]
        for chunk in (1000,) if quick else (200, 1000, 5000):
            for shuffled in (True, False):
                for sample in ("auto", 0):
                    rows.append(row(name, data, batch, chunk, shuffled, stream_sample=sample))
                    progress(rows[-1])
        for more in () if quick or name == "kddcup99" else (500, 5000):
            rows.append(row(name, data, batch, 1000, True, stream_sample=more))
            progress(rows[-1])
        for algorithm in () if quick or name == "kddcup99" else ("mc-ssvi", "h-mc-ssvi", "s-dsvi"):
            rows.append(row(name, data, batch, 1000, True, algorithm=algorithm))
            rows[-1]["sample"] = None
            progress(rows[-1])
    notes = [
        f"Against a fit to all rows (tol=1e-9), prior precision learned, everything else default; worst of {SEEDS} "
        "shufflings, CPU seconds their median. Errors in posterior standard deviations of the batch fit.",
        f"kddcup99: {KDD_ROWS:,} rows, 110 columns, nearly separable.",
    ]
    report("glm/streams", "partial_fit against the batch fit", rows, notes, quick)
    notes = ["Worst of 3 shufflings; errors in posterior standard deviations of the fit to all rows with tol=1e-9."]
    report(
        "glm/streams_tolerance",
        "kddcup99, nearly separable: what the tolerance is worth",
        tolerances(quick),
        notes,
        quick,
    )
    notes = [
        "200 chunks of 200 rows whose ten weights turn once round; mean log loss of each chunk before it is learned "
        "from. SGD is scikit-learn's, in the place of river's."
    ]
    report("glm/streams_drift", "A stream that drifts", drift(quick), notes, quick)


if __name__ == "__main__":
    main(arguments(__doc__))
