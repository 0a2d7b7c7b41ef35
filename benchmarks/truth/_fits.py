"""Kinds of fits that mislead, each with a word of its reason, and kinds that do not, from seeded generators."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from sksvi import (
    BayesianGLMClassifier,
    BayesianGLMRegressor,
    BernoulliMixture,
    DynamicGLM,
    GeneralizedPMF,
    GMERegressor,
    GPClassifier,
    SparseGPRegressor,
    StructuredLDA,
)
from sksvi.likelihoods import StudentT

Array = np.ndarray
#: Estimator, rows and targets.
Made = tuple[Any, Any, Any]


@dataclass(frozen=True)
class Kind:
    """A kind of fit; `reason`: a pattern of words that an alarm for the right reason has, empty for a good one."""

    name: str
    make: Callable[[np.random.Generator], Made]
    reason: str = ""


def _lines(rng: np.random.Generator, n: int, d: int = 3, slope: float = 0.5) -> tuple[Array, Array]:
    X = rng.normal(size=(n, d))
    return X, slope * X @ np.linspace(1.0, -1.0, d)


def two_lines(rng: np.random.Generator) -> Made:
    X, f = _lines(rng, 60, 1, 0.5)
    y = f + np.where(rng.random(60) < 0.5, 4.0, -4.0) + 0.4 * rng.normal(size=60)
    return BayesianGLMRegressor(likelihood=StudentT(df=2.0, scale=0.5)), X, y


def few_levels(levels: int, rows: int) -> Callable[[np.random.Generator], Made]:
    def make(rng: np.random.Generator) -> Made:
        g = np.repeat(np.arange(levels), rows)
        X = pd.DataFrame({"x": rng.normal(size=len(g)), "g": g})
        return GMERegressor(groups="g"), X, X["x"] + rng.normal(size=levels)[g] + rng.normal(size=len(g))

    return make


def collapsed(rng: np.random.Generator) -> Made:
    g = np.repeat(np.arange(5), 4)
    X = pd.DataFrame({"x": rng.normal(size=20), "g": g})
    return GMERegressor(groups="g"), X, X["x"] + 0.3 * rng.normal(size=5)[g] + 2.0 * rng.normal(size=20)


def series(n: int) -> Callable[[np.random.Generator], Made]:
    def make(rng: np.random.Generator) -> Made:
        f = np.cumsum(0.5 * rng.normal(size=n))
        return DynamicGLM(likelihood="gaussian"), None, f + 0.5 * rng.normal(size=n)

    return make


def point(make: Callable[[np.random.Generator], Made]) -> Callable[[np.random.Generator], Made]:
    """The same fit with its hyperparameters as points."""

    def made(rng: np.random.Generator) -> Made:
        model, X, y = make(rng)
        return model.set_params(hyperparameters="point"), X, y

    return made


def process(target: Callable[[Array, np.random.Generator], Array]) -> Callable[[np.random.Generator], Made]:
    def make(rng: np.random.Generator) -> Made:
        x = rng.uniform(-2, 2, (60, 1))
        y = target(x[:, 0], rng)
        kernel = ConstantKernel() * RBF(1.0)
        return GPClassifier() if y.dtype == int else SparseGPRegressor(kernel=kernel, n_inducing=15), x, y

    return make


def shares(varying: bool) -> Callable[[np.random.Generator], Made]:
    def make(rng: np.random.Generator) -> Made:
        X, f = _lines(rng, 200)
        p = 1.0 / (1.0 + np.exp(-f))
        k = rng.binomial(10, rng.beta(4.0 * p, 4.0 * (1.0 - p)) if varying else p)
        return BayesianGLMRegressor(likelihood="binomial"), X, np.column_stack([k, 10 - k])

    return make


def group_left_out(rng: np.random.Generator) -> Made:
    X, f = _lines(rng, 120)
    return BayesianGLMRegressor(), X, f + np.repeat(2.0 * rng.normal(size=30), 4) + rng.normal(size=120)


def normal_noise(rng: np.random.Generator) -> Made:
    X, f = _lines(rng, 200)
    return BayesianGLMRegressor(likelihood="student-t"), X, f + rng.normal(size=200)


def gamma_rates(rng: np.random.Generator) -> Made:
    X, f = _lines(rng, 150)
    return BayesianGLMRegressor(likelihood="poisson"), X, rng.poisson(np.exp(1.0 + f) * rng.gamma(1.0, 1.0, 150))


def extra_zeros(rng: np.random.Generator) -> Made:
    X, f = _lines(rng, 200, slope=0.3)
    return BayesianGLMRegressor(likelihood="poisson"), X, rng.poisson(np.exp(1.5 + f)) * (rng.random(200) > 0.4)


def heavy_tails(rng: np.random.Generator) -> Made:
    X, f = _lines(rng, 150)
    return BayesianGLMRegressor(), X, f + rng.standard_t(2.0, 150)


def lengths(n: int, d: int) -> Callable[[np.random.Generator], Made]:
    def make(rng: np.random.Generator) -> Made:
        X = rng.uniform(-2, 2, (n, d))
        kernel = ConstantKernel() * RBF(np.ones(d) if d > 1 else 1.0)
        return SparseGPRegressor(kernel=kernel, n_inducing=20), X, np.sin(2 * X[:, 0]) + 0.3 * rng.normal(size=n)

    return make


def skewed(rng: np.random.Generator) -> Made:
    X, f = _lines(rng, 150, slope=0.3)
    return BayesianGLMRegressor(), X, np.exp(f + 0.9 * rng.normal(size=150))


def leverage(rng: np.random.Generator) -> Made:
    X, f = _lines(rng, 50)
    y = f + 0.5 * rng.normal(size=50)
    X[7] *= 6.0
    y[7] = 12.0
    return BayesianGLMRegressor(), X, y


def separated(rng: np.random.Generator) -> Made:
    X, f = _lines(rng, 30)
    return BayesianGLMClassifier(), X, (f > 0).astype(int)


def correlated(rng: np.random.Generator) -> Made:
    X = rng.normal(size=(100, 4)) * 0.15 + rng.normal(size=(100, 1))
    return BayesianGLMClassifier(covariance="diag"), X, (X.sum(1) + rng.logistic(size=100) > 0).astype(int)


def cells(users: int, items: int, each: int) -> Callable[[np.random.Generator], Made]:
    def make(rng: np.random.Generator) -> Made:
        U, V = rng.normal(size=(users, 3)), rng.normal(size=(items, 3))
        pairs = np.array([(i, j) for i in range(users) for j in rng.choice(items, each, replace=False)])
        y = np.sum(U[pairs[:, 0]] * V[pairs[:, 1]], axis=1) + 0.5 * rng.normal(size=len(pairs))
        return GeneralizedPMF(n_components=3, likelihood="gaussian", random_state=0), pairs, y

    return make


def binary_groups(apart: float) -> Callable[[np.random.Generator], Made]:
    def make(rng: np.random.Generator) -> Made:
        z = rng.integers(0, 2, 200)
        p = 0.5 + apart * (2 * z[:, None] - 1) * np.where(np.arange(10) % 2, 1, -1)
        return BernoulliMixture(n_components=2, random_state=0), (rng.random((200, 10)) < p).astype(float), None

    return make


def cut_off(rng: np.random.Generator) -> Made:
    X, f = _lines(rng, 200)
    return BayesianGLMRegressor(likelihood="negative-binomial", max_iter=1), X, rng.poisson(np.exp(1.0 + f))


BAD = [
    Kind("Student-t on two lines", two_lines, "two clusters|bimodal"),
    Kind("variance between levels, collapsed", collapsed, "may be zero"),
    Kind("series of 12", series(12), "may be zero|not known"),
    Kind("Student-t on normal noise", normal_noise, "Degrees of freedom"),
    Kind("three levels", few_levels(3, 10), "may be zero|few levels"),
    Kind("Poisson on overdispersed counts", gamma_rates, "overdispersed"),
    Kind("Gaussian on heavy tails", heavy_tails, "Tails|outliers"),
    Kind("GP of 8 length scales, 40 rows", lengths(40, 8), "length scales"),
    Kind("Poisson on zero-inflated counts", extra_zeros, "zero inflation"),
    Kind("Gaussian on skewed y", skewed, "skewed"),
    Kind("a row of high leverage", leverage, "outlier|hangs"),
    Kind("separated labels", separated, "separate"),
    Kind("diag, correlated columns", correlated, "not the posterior"),
    Kind("factors, 4 cells a user", cells(60, 40, 4), "Too few cells"),
    Kind("mixture of overlapping groups", binary_groups(0.1), "overlap"),
    Kind("not converged", cut_off, "converge"),
    Kind("three levels, point", point(few_levels(3, 10)), "may be zero"),
    Kind("series of 12, point", point(series(12)), "may be zero|collapsed"),
    Kind("Student-t on normal noise, point", point(normal_noise), "Degrees of freedom"),
    Kind("process on noise, point", point(process(lambda x, rng: rng.normal(size=len(x)))), "collapsed"),
    Kind("process on separated labels, point", point(process(lambda x, rng: (x > 0).astype(int))), "ran away"),
    Kind("a group left out, rows in its order", group_left_out, "follow one another"),
    Kind("binomial on beta-binomial", shares(True), "overdispersed"),
]


def _glm(likelihood: str, n: int, target: Callable[[Array, np.random.Generator], Array]) -> Any:
    def make(rng: np.random.Generator) -> Made:
        X, f = _lines(rng, n)
        labels = likelihood in ("logit", "probit", "softmax")
        cls = BayesianGLMClassifier if labels else BayesianGLMRegressor
        return cls(likelihood=likelihood), X, target(f, rng)

    return make


def ordered(by: Callable[[Array, Array], Array]) -> Callable[[np.random.Generator], Made]:
    def make(rng: np.random.Generator) -> Made:
        X, f = _lines(rng, 150)
        y = f + rng.normal(size=150)
        order = np.argsort(by(X, y))
        return BayesianGLMRegressor(), X[order], y[order]

    return make


def wide_labels(rng: np.random.Generator) -> Made:
    X = rng.normal(size=(80, 2000))
    return BayesianGLMClassifier(), X, (X[:, :5].sum(1) + rng.logistic(size=80) > 0).astype(int)


def gp_labels(rng: np.random.Generator) -> Made:
    X = rng.uniform(-2, 2, (100, 2))
    return GPClassifier(), X, (2 * np.sin(2 * X[:, 0]) + rng.logistic(size=100) > 0).astype(int)


def topics(rng: np.random.Generator) -> Made:
    words = rng.dirichlet(np.full(30, 0.1), 3)
    X = np.array([rng.multinomial(100, rng.dirichlet(np.ones(3)) @ words) for _ in range(60)])
    return StructuredLDA(n_components=3, random_state=0), X, None


GOOD = [
    Kind("Gaussian", _glm("gaussian", 100, lambda f, rng: f + rng.normal(size=len(f)))),
    Kind("Gaussian, 25 rows", _glm("gaussian", 25, lambda f, rng: f + rng.normal(size=len(f)))),
    Kind("Student-t", _glm("student-t", 300, lambda f, rng: f + rng.standard_t(3.0, len(f)))),
    Kind("Poisson", _glm("poisson", 150, lambda f, rng: rng.poisson(np.exp(0.5 + f)))),
    Kind(
        "negative binomial",
        _glm("negative-binomial", 200, lambda f, rng: rng.poisson(np.exp(1.0 + f) * rng.gamma(2.0, 0.5, len(f)))),
    ),
    Kind("logit", _glm("logit", 200, lambda f, rng: (f + rng.logistic(size=len(f)) > 0).astype(int))),
    Kind("probit", _glm("probit", 200, lambda f, rng: (f + rng.normal(size=len(f)) > 0).astype(int))),
    Kind("30 levels", few_levels(30, 8)),
    Kind("series of 150", series(150)),
    Kind("GP of one length scale", lengths(100, 1)),
    Kind("GP of two length scales", lengths(150, 2)),
    Kind("GP labels", gp_labels),
    Kind("factors, 20 cells a user", cells(60, 40, 20)),
    Kind("mixture of distinct groups", binary_groups(0.35)),
    Kind("Student-t, point", point(_glm("student-t", 300, lambda f, rng: f + rng.standard_t(3.0, len(f))))),
    Kind("30 levels, point", point(few_levels(30, 8))),
    Kind("series of 150, point", point(series(150))),
    Kind("GP of one length scale, point", point(lengths(100, 1))),
    Kind("GP labels, point", point(gp_labels)),
    Kind("Gaussian, rows in the order of a column", ordered(lambda X, y: X[:, 0])),
    Kind("Gaussian, rows in the order of y", ordered(lambda X, y: y)),
    Kind("binomial", shares(False)),
    Kind(
        "softmax",
        _glm("softmax", 200, lambda f, rng: np.argmax(np.outer(f, [1, 0, -1]) + rng.gumbel(size=(200, 3)), 1)),
    ),
    Kind("2,000 columns, 80 rows, labels", wide_labels),
]


# ---- kinds that no threshold was chosen on
def _uneven(rng: np.random.Generator) -> Made:
    X, f = _lines(rng, 200)
    return BayesianGLMRegressor(), X, f + np.exp(1.5 * X[:, 1]) * rng.normal(size=200)


def _bend(rng: np.random.Generator) -> Made:
    X, f = _lines(rng, 200)
    return BayesianGLMRegressor(), X, f + 2.0 * X[:, 0] ** 2 + 0.5 * rng.normal(size=200)


def _regular(rng: np.random.Generator) -> Made:
    X, f = _lines(rng, 200)
    return BayesianGLMRegressor(likelihood="poisson"), X, rng.binomial(8, 1 / (1 + np.exp(-1.0 - f)))


def _one_count(rng: np.random.Generator) -> Made:
    X, f = _lines(rng, 100)
    y = rng.poisson(np.exp(1.0 + f))
    y[5] = 80
    return BayesianGLMRegressor(likelihood="poisson"), X, y


def _autocorrelated(rng: np.random.Generator) -> Made:
    X, f = _lines(rng, 100)
    return BayesianGLMRegressor(), X, f + np.cumsum(0.5 * rng.normal(size=100))


OTHER_BAD = [
    Kind("noise grows with a column", _uneven, "Tails|calibrated"),
    Kind("a column's square is missing", _bend, "skewed|calibrated"),
    Kind("Poisson on binomial counts", _regular, "underdispersed"),
    Kind("a count of 80", _one_count, "outlier|hangs"),
    Kind("residuals follow in time", _autocorrelated, "follow one another"),
]


def _wide(rng: np.random.Generator) -> Made:
    X = rng.normal(size=(60, 30))
    return BayesianGLMRegressor(), X, X[:, 0] - X[:, 1] + rng.normal(size=60)


def _levels(rng: np.random.Generator) -> Made:
    X, y, g = rng.normal(size=300), np.zeros(300), np.repeat(np.arange(25), 12)
    y = rng.poisson(np.exp(0.5 + 0.5 * X + 0.6 * rng.normal(size=25)[g]))
    return GMERegressor(groups="g", likelihood="poisson", noise=False), pd.DataFrame({"x": X, "g": g}), y


OTHER_GOOD = [
    Kind("30 columns, 60 rows", _wide),
    Kind("ordered levels", _glm("ordinal", 200, lambda f, rng: np.digitize(f + rng.logistic(size=len(f)), [-1, 1]))),
    Kind("counts of 25 levels", _levels),
    Kind("topics", topics),
]
