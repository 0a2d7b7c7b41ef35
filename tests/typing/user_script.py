"""What a user would write, with the types that a user would expect; read by mypy, and run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

import sksvi
from sksvi import (
    BayesianGLMClassifier,
    BayesianGLMRegressor,
    CorrelatedTopicModel,
    DynamicGLM,
    GammaProcessNMF,
    GeneralizedPMF,
    GMERegressor,
    SparseGPRegressor,
)
from sksvi.inspection import (
    BoundReport,
    FixedPointCertificate,
    PosteriorCheck,
    bound_report,
    check_posterior,
    fixed_point_certificate,
    marginal_effects,
    partial_effect,
)


def linear(X: np.ndarray, y: np.ndarray, folder: Path) -> float:
    """Fit, predict, how sure, save and load."""
    model: BayesianGLMRegressor = BayesianGLMRegressor(likelihood="gaussian", random_state=0).fit(X, y)
    mean: np.ndarray = model.predict(X)
    interval: np.ndarray = model.predict_interval(X, coverage=0.9)
    quantiles: np.ndarray = model.predict_quantiles(X, [0.1, 0.9])
    draws: np.ndarray = model.sample_y(X, n_samples=3, random_state=0)
    table: pd.DataFrame = model.summary()
    score: float = model.score(X, y)
    model.save(folder / "model.sksvi")
    mean, std = model.predict(X, return_std=True)
    text: str = model.summary_text()
    bound: float = model.lower_bound_
    weights: np.ndarray = model.coef_
    history: pd.DataFrame = model.history_
    loaded = sksvi.load(folder / "model.sksvi", BayesianGLMRegressor)
    again: np.ndarray = loaded.predict(X)
    unknown = sksvi.load(folder / "model.sksvi")  # whatever the file holds
    known: tuple[pd.DataFrame, float] = unknown.summary(coverage=0.5), unknown.lower_bound_
    same: bool = bool(np.array_equal(again, mean) and np.array_equal(unknown.predict(X), mean))
    assert known[1] == bound and len(known[0]) == len(table)
    assert len(text) and np.isfinite(bound) and len(weights) == X.shape[1] and len(history) and len(std) == len(X)
    assert same and interval.shape == quantiles.shape == (len(X), 2)
    assert draws.shape[0] == len(X) and len(table) == X.shape[1] + 2  # intercept and residual
    return score


def functions(X: np.ndarray, y: np.ndarray, folder: Path) -> None:
    """The functions that see through wrappers."""
    model = BayesianGLMRegressor().fit(X, y)
    interval: np.ndarray = sksvi.predict_interval(model, X, coverage=0.8)
    quantiles: np.ndarray = sksvi.predict_quantiles(model, X, [0.5])
    spread: np.ndarray = sksvi.predict_std(model, X)
    draws: np.ndarray = sksvi.sample_y(model, X, 2, 0)
    density: np.ndarray = sksvi.log_predictive_density(model, X, y)
    table: pd.DataFrame = sksvi.summary(model)
    effects: pd.DataFrame = marginal_effects(model, X)
    curve: pd.DataFrame = partial_effect(model, X, 0)
    check: PosteriorCheck = check_posterior(model, X, y, n_draws=100)
    certificate: FixedPointCertificate = fixed_point_certificate(model, X, y, mean="fixed")
    evidence: float = check.log_evidence
    assert np.isfinite(evidence) and len(check.coefficients) and certificate.largest_rate > 0
    sksvi.save(model, folder / "again.sksvi")
    sksvi.show_versions()
    assert all(len(found) > 0 for found in (interval, quantiles, spread, draws, density, table, effects, curve))


def labels(X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """A stream of labels."""
    model = BayesianGLMClassifier(random_state=0)
    named = np.where(y > 0, "yes", "no")
    for begin in range(0, len(X), 20):
        rows = slice(begin, begin + 20)
        model = model.partial_fit(X[rows], named[rows], classes=["no", "yes"])
    predicted: np.ndarray = model.predict(X)
    known: np.ndarray = model.classes_
    assert known.tolist() == ["no", "yes"]
    probabilities: np.ndarray = model.predict_proba(X)
    assert probabilities.shape == (len(predicted), 2)
    return probabilities


def groups(table: pd.DataFrame, y: np.ndarray) -> pd.DataFrame:
    """Effects per level."""
    model: GMERegressor = GMERegressor(groups=["g"], max_iter=20, random_state=0).fit(table, y)
    effects: pd.DataFrame = model.group_effects_
    deviations: pd.DataFrame = model.group_std_
    report: BoundReport = bound_report(model, table, y)
    worst: pd.DataFrame = report.worst(3)
    assert len(worst) == 3
    return pd.concat([effects, deviations])


def others(X: np.ndarray, y: np.ndarray, counts: np.ndarray, pairs: np.ndarray) -> None:
    """Processes, series, ratings, topics, components."""
    process: SparseGPRegressor = SparseGPRegressor(n_inducing=6, random_state=0).fit(X, y)
    series: DynamicGLM = DynamicGLM(likelihood="gaussian", random_state=0).fit(X, y)
    ratings: GeneralizedPMF = GeneralizedPMF(n_components=2, random_state=0).fit(pairs, y)
    smooth: np.ndarray = process.predict(X)
    ahead: np.ndarray = series.predict(X)
    films: pd.DataFrame = ratings.recommend(ratings.users_[:1])
    topics: CorrelatedTopicModel = CorrelatedTopicModel(2, random_state=0).fit(counts)
    proportions: np.ndarray = topics.transform(counts)
    words: pd.DataFrame = topics.top_words()
    weights: np.ndarray = GammaProcessNMF(2, random_state=0).fit(counts).transform(counts)
    bound: float = process.lower_bound_
    converged: bool = process.converged_
    assert len(smooth) == len(ahead) == len(X) and len(weights) == len(proportions) == len(counts)
    assert len(films) and len(words) and np.isfinite(bound) and converged in (True, False)


def main(folder: Path) -> None:
    """All of it, on data that are made up."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 2))
    y = X @ np.array([1.0, -1.0]) + 0.3 * rng.standard_normal(40)
    assert linear(X, y, folder) > 0.5
    functions(X, y, folder)
    labels(X, y)
    groups(pd.DataFrame({"x": X[:, 0], "g": rng.integers(0, 4, 40).astype(str)}), y)
    others(X, y, rng.integers(0, 4, (12, 8)), rng.integers(0, 6, (40, 2)))
