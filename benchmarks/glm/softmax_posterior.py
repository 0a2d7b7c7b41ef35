"""Labels of digits by q, by the posterior that it approximates, and by that posterior's maximum.

Every third digit, two folds of ``product.defaults``, columns over twice their standard deviation (the default
scales those of two values by their distance). By prior precision: the bound, and the score (share of the null
model's -log p explained) of the Gaussian q, of the posterior itself by Hamiltonian Monte Carlo in coordinates in which
q is spherical, and of the posterior's maximum. ``halves`` are the scores by the two halves of the chain.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from benchmarks._lib import Array
from benchmarks._lib.tables import arguments, progress, report
from benchmarks.product._default_sets import bundled
from benchmarks.product.defaults import FOLDS

PRECISIONS, SAMPLED = (3.2, 0.8, 0.4, 0.25, 0.1, 0.03), (0.25, 0.03)
TESTS = (0, 1)
STEPS, BURN_IN, LEAPFROGS, ACCEPTED = 1500, 300, 15, 0.8
#: Of the intercepts: the default's prior has a standard deviation of 10.
INTERCEPT_PRECISION = 0.01


def log_softmax(F: Array) -> Array:
    F = F - F.max(axis=-1, keepdims=True)
    return np.asarray(F - np.log(np.exp(F).sum(axis=-1, keepdims=True)))


def halves(i: int) -> tuple[Array, Array, Array, Array]:
    """Rows of the fit and of fold i, in units of twice the standard deviations of the first."""
    X, y = map(np.asarray, bundled("digits", 3))
    test = np.arange(len(y)) % FOLDS == i
    varies = X[~test].std(axis=0) > 0
    X = (X - X[~test].mean(axis=0))[:, varies] / (2.0 * X[~test].std(axis=0)[varies])
    return X[~test], y[~test], X[test], y[test]


def sampled(model: Any, X: Array, y: Array, Xt: Array, delta: float, steps: int) -> Array:
    """Probabilities of the labels of new rows at each kept draw of the posterior, (S, n, K)."""
    rng, q = np.random.default_rng(0), model.posterior_["weights"]
    mean, draws = np.asarray(q.mean), np.asarray(q.sample(4000, 0)).reshape(4000, -1)
    root = np.linalg.cholesky(np.cov(draws.T) + 1e-10 * np.eye(draws.shape[1]))
    A, At = (np.c_[part, np.ones(len(part))] for part in (X, Xt))
    Y = np.eye(len(mean))[y]
    prior = np.full(mean.shape, delta)
    prior[:, -1] = INTERCEPT_PRECISION

    def at(v: Array) -> tuple[float, Array, Array]:
        W = (mean.ravel() + root @ v).reshape(mean.shape)
        F = log_softmax(A @ W.T)
        slope = (Y - np.exp(F)).T @ A - prior * W
        return float(np.sum(Y * F) - 0.5 * np.sum(prior * W**2)), root.T @ slope.ravel(), W

    v, step, kept = rng.standard_normal(mean.size), 0.1, []
    value, slope, W = at(v)
    for t in range(steps):
        r = rng.standard_normal(v.size)
        before, there, g = value - 0.5 * r @ r, v, slope
        size = step * rng.uniform(0.7, 1.3)
        for _ in range(LEAPFROGS):
            r = r + 0.5 * size * g
            there = there + size * r
            new, g, moved = at(there)
            r = r + 0.5 * size * g
        chance = np.exp(min(0.0, new - 0.5 * r @ r - before))
        if rng.random() < chance:
            v, value, slope, W = there, new, g, moved
        if t < BURN_IN:
            step *= np.exp(0.05 * (chance - ACCEPTED))
        else:
            kept.append(np.exp(log_softmax(At @ W.T)))
    return np.array(kept)


def measured(i: int, delta: float, draws: bool, steps: int) -> dict[str, float]:
    """Bound, and scores on fold i."""
    from sklearn.linear_model import LogisticRegression

    from sksvi import BayesianGLMClassifier

    X, y, Xt, yt = halves(i)
    null = -np.log(np.bincount(y)[yt] / len(y)).mean()

    def score(p: Array) -> float:
        return float(1 + np.log(p[np.arange(len(yt)), yt]).mean() / null)

    model = BayesianGLMClassifier(prior_precision=delta).fit(X, y)
    found = {"bound, nats": model.lower_bound_, "q": score(model.predict_proba(Xt))}
    if draws:
        p = sampled(model, X, y, Xt, delta, steps)
        first, last = np.array_split(p, 2)
        found["posterior by HMC"] = score(p.mean(axis=0))
        found["halves differ by"] = abs(score(first.mean(axis=0)) - score(last.mean(axis=0)))
    maximum = LogisticRegression(C=1.0 / delta, max_iter=5000).fit(X, y)
    return found | {"maximum": score(maximum.predict_proba(Xt))}


def main(quick: bool = False) -> None:
    warnings.simplefilter("ignore")
    rows = []
    for delta in SAMPLED[:1] if quick else PRECISIONS:
        draws, steps = delta in SAMPLED, BURN_IN + 50 if quick else STEPS
        parts = [measured(i, delta, draws, steps) for i in TESTS[: 1 if quick else None]]
        names = ("bound, nats", "q", "posterior by HMC", "halves differ by", "maximum")
        means = {name: float(np.mean([part[name] for part in parts])) if name in parts[0] else None for name in names}
        rows.append({"prior precision": delta, **means})
        progress(rows[-1])
    notes = [f"Scores on {len(TESTS)} folds of {FOLDS}; HMC has {STEPS} moves of {LEAPFROGS} leapfrogs, "
             f"{BURN_IN} of them discarded."]  # fmt: skip
    title = "Softmax: the posterior itself beside q and the maximum"
    report("glm/softmax_posterior", title, rows, notes, quick)


if __name__ == "__main__":
    main(arguments(__doc__))
