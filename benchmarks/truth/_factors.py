"""Tables of factors whose truth is known, and what an estimator says of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.stats import gamma

from sksvi import (
    BetaProcessFA,
    GammaFactorModel,
    GammaPoissonFactorization,
    GammaProcessNMF,
    GeneralizedPMF,
    PoissonFactorization,
)

Array = np.ndarray

#: Users of one to three ratings, and most pairs that are asked for.
COLD, ASKED = 20, 2000
#: Standard normal quantile of 90 % intervals, and their ends.
REACH, ENDS = 1.6449, (0.05, 0.95)


@dataclass(frozen=True)
class Asked:
    """Truth, and a 90 % interval, of one quantity; its mean and standard deviation."""

    truth: Array
    low: Array
    high: Array
    mean: Array
    std: Array

    @classmethod
    def normal(cls, truth: Array, mean: Array, std: Array) -> Asked:
        """Intervals of a Gaussian."""
        return cls(truth, mean - REACH * std, mean + REACH * std, mean, std)

    @classmethod
    def positive(cls, truth: Array, mean: Array, variance: Array) -> Asked:
        """Intervals of a gamma distribution of these moments, as predictions take expected counts."""
        ends = (gamma.ppf(p, mean**2 / variance, scale=variance / mean) for p in ENDS)
        return cls(truth, *ends, mean, np.sqrt(variance))

    @property
    def covered(self) -> float:
        """Share of the truth inside."""
        return float(np.mean((self.low <= self.truth) & (self.truth <= self.high)))

    @property
    def ratio(self) -> float:
        """Root mean square error over root mean variance."""
        return float(np.sqrt(np.mean(np.square(self.mean - self.truth)) / np.mean(np.square(self.std))))


@dataclass(frozen=True)
class Setting:
    """A way to simulate: `fit` of a data set fits and returns what is to be asked; sets, and the names of the answers.

    corrected : whether the estimator has `uncertainty`.
    """

    estimator: str
    name: str
    data: Callable[[np.random.Generator], Any]
    fit: Callable[[Any, str], Callable[[], Iterator[tuple[str, Asked]]]]
    sets: int
    corrected: bool = True


# ---- ratings
#: How y comes from f.
NOISE: dict[str, Callable[[Array, np.random.Generator], Array]] = {
    "gaussian": lambda f, rng: f + 0.7 * rng.standard_normal(f.shape),
    "student-t": lambda f, rng: f + 0.5 * rng.standard_t(4.0, f.shape),
    "poisson": lambda f, rng: rng.poisson(np.exp(f)),
    "negative-binomial": lambda f, rng: rng.negative_binomial(3, 3.0 / (3.0 + np.exp(f))),
    "logit": lambda f, rng: rng.logistic(size=f.shape) < f,
}


def ratings(likelihood: str, n_users: int, n_items: int, share: float) -> Callable[[np.random.Generator], Any]:
    """Three factors and biases, of variances that are no prior's; some users have one to three ratings."""

    def simulate(rng: np.random.Generator) -> Any:
        u, v = (np.sqrt(0.5) * rng.standard_normal((n, 3)) for n in (n_users, n_items))
        f = (3.0 if likelihood in ("gaussian", "student-t") else 0.0) + u @ v.T
        f = f + 0.5 * rng.standard_normal((n_users, 1)) + 0.5 * rng.standard_normal(n_items)
        there = rng.random(f.shape) < share
        there[:COLD] = False
        for user in range(COLD):
            there[user, rng.choice(n_items, rng.integers(1, 4), replace=False)] = True
        y = NOISE[likelihood](f, rng).astype(float)
        left = np.argwhere(~there & there.any(1)[:, None] & there.any(0))
        left = rng.permutation(left)[:ASKED]
        return np.argwhere(there), y[there], left, f[tuple(left.T)]

    return simulate


def fit_ratings(likelihood: str, n_components: int) -> Any:
    """f of cells left out, of users with many ratings and with few."""

    def fit(data: Any, uncertainty: str) -> Any:
        X, y, left, f = data
        options = {"likelihood": likelihood, "uncertainty": uncertainty, "on_unseen": "ignore", "random_state": 0}
        model = GeneralizedPMF(n_components, **options).fit(X, y)

        def ask() -> Iterator[tuple[str, Asked]]:
            mean, variance = model.predict_latent(left)
            cold = left[:, 0] < COLD
            for name, own in (("f of cells left out", ~cold), ("f, users of 1 to 3 ratings", cold)):
                yield name, Asked.normal(f[own], mean[own], np.sqrt(variance[own]))

        return ask

    return fit


# ---- counts
def counts(rng: np.random.Generator) -> Any:
    """Three components, a fifth of the cells missing."""
    mean = rng.gamma(0.5, 2.0, (80, 3)) @ rng.gamma(0.5, 2.0, (3, 40))
    return mean, rng.poisson(mean).astype(float), rng.random(mean.shape) < 0.2


def fit_counts(kind: Any, n_components: int) -> Any:
    """Expected counts of missing cells; of pairs, which have none, of all."""

    def fit(data: Any, uncertainty: str) -> Any:
        truth, y, missing = data
        model = kind(n_components, uncertainty=uncertainty, random_state=0)
        if kind is PoissonFactorization:
            cells = np.argwhere(np.outer(y.any(1), y.any(0)))
            model.fit(np.argwhere(y), y[y > 0])

            def ask_pairs() -> Iterator[tuple[str, Asked]]:
                mean, std = model.predict(cells, return_std=True)
                yield "expected counts of pairs", Asked.positive(truth[tuple(cells.T)], mean, np.square(std) - mean)

            return ask_pairs
        rows = np.where(missing, np.nan, y)
        model.fit(rows)

        def ask() -> Iterator[tuple[str, Asked]]:
            mean, std = model.reconstruct(rows, return_std=True)
            yield "expected counts, missing", Asked.positive(truth[missing], mean[missing], np.square(std[missing]))

        return ask

    return fit


# ---- loadings and pixels
def loadings(n: int, share: float) -> Callable[[np.random.Generator], Any]:
    """Rows of three factors with non-negative loadings, of which a share is not 0."""

    def simulate(rng: np.random.Generator) -> Any:
        truth = rng.gamma(1.0, 0.7, (3, 12)) * (rng.random((3, 12)) < share)
        return truth, rng.standard_normal((n, 3)) @ truth + 0.5 * rng.standard_normal((n, 12))

    return simulate


def unit(rows: Array) -> Array:
    """Rows of length 1, or of zeros."""
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)


def fit_loadings(n_components: int, prior_shape: float) -> Any:
    """Loadings that are not 0, of the factors that are most alike, and what factors explain of covariances."""

    def fit(data: Any, uncertainty: str) -> Any:
        truth, X = data
        options = {"prior_shape": prior_shape, "noise_variance": "auto", "random_state": 0}
        model = GammaFactorModel(n_components, uncertainty=uncertainty, **options).fit(X)

        def ask() -> Iterator[tuple[str, Asked]]:
            table = model.summary().iloc[: n_components * X.shape[1]]
            own, found = (unit(rows) for rows in (truth, model.components_))
            mine, its = linear_sum_assignment(-own @ found.T)
            columns = table[["lower", "upper", "mean", "std"]].to_numpy().T.reshape(4, -1, X.shape[1])[:, its]
            used = truth[mine] > 0
            yield "loadings not 0", Asked(truth[mine][used], *columns[:, used])
            drawn = model.posterior_["loadings"].sample(250, 0)
            both = (np.swapaxes(drawn, 1, 2) @ drawn)[:, truth.T @ truth > 0]
            ends = np.quantile(both, ENDS, axis=0)
            yield "covariances not 0", Asked((truth.T @ truth)[truth.T @ truth > 0], *ends, both.mean(0), both.std(0))

        return ask

    return fit


def pixels(n_columns: int, n_factors: int) -> Callable[[np.random.Generator], Any]:
    """Rows that use each factor with probability 0.3, a fifth of the entries missing."""

    def simulate(rng: np.random.Generator) -> Any:
        factors, n = rng.standard_normal((n_factors, n_columns)), 300
        truth = ((rng.random((n, n_factors)) < 0.3) * rng.standard_normal((n, n_factors))) @ factors
        return truth, truth + 0.3 * rng.standard_normal(truth.shape), rng.random(truth.shape) < 0.2

    return simulate


def fit_pixels(data: Any, uncertainty: str) -> Any:
    """Entries that are missing, without their noise."""
    truth, X, missing = data
    rows = np.where(missing, np.nan, X)
    model = BetaProcessFA(20, uncertainty=uncertainty, random_state=0).fit(rows)

    def ask() -> Iterator[tuple[str, Asked]]:
        mean, std = model.reconstruct(rows, return_std=True)
        yield "missing entries without noise", Asked.normal(truth[missing], mean[missing], std[missing])

    return ask


def settings() -> list[Setting]:
    """All of them."""
    found = []
    for likelihood, users, items, share, k in [
        ("gaussian", 100, 50, 0.5, 3),
        ("gaussian", 100, 50, 0.15, 3),
        ("gaussian", 300, 200, 0.1, 3),
        ("gaussian", 100, 50, 0.3, 20),
        ("gaussian", 100, 50, 0.15, 20),
        ("gaussian", 300, 200, 0.05, 20),
        ("gaussian", 100, 50, 0.3, 1),
        ("poisson", 100, 50, 0.3, 3),
        ("poisson", 100, 50, 0.3, 20),
        ("poisson", 100, 50, 0.15, 20),
        ("negative-binomial", 100, 50, 0.3, 3),
        ("logit", 100, 50, 0.3, 3),
        ("logit", 100, 50, 0.3, 20),
        ("student-t", 100, 50, 0.3, 3),
    ]:
        name = f"{likelihood}, {users} x {items}, {share:.0%} seen, K = {k} for 3"
        data, fit = ratings(likelihood, users, items, share), fit_ratings(likelihood, k)
        found.append(Setting("GeneralizedPMF", name, data, fit, 30))
    for kind, k in [(PoissonFactorization, 3), (PoissonFactorization, 20)] + [
        (kind, k) for kind in (GammaPoissonFactorization, GammaProcessNMF) for k in (3, 10)
    ]:
        found.append(Setting(kind.__name__, f"80 x 40, K = {k} for 3", counts, fit_counts(kind, k), 30))
    for n, share, k, shape in [
        (200, 0.4, 3, 0.1),
        (1000, 0.4, 3, 0.1),
        (200, 0.4, 6, 0.1),
        (200, 0.9, 3, 0.1),
        (200, 0.4, 3, 0.5),
        (200, 0.9, 3, 0.5),
    ]:
        prior = "" if shape == 0.1 else f", prior_shape={shape}"
        name = f"{n} x 12, {share:.0%} of loadings not 0, K = {k} for 3{prior}"
        found.append(Setting("GammaFactorModel", name, loadings(n, share), fit_loadings(k, shape), 20))
    for columns, k in [(16, 4), (36, 8)]:
        name = f"300 rows of {columns} columns, K = 20 for {k}"
        found.append(Setting("BetaProcessFA", name, pixels(columns, k), fit_pixels, 10))
    return found
