"""What a user would have called before, with ``fit`` and ``predict`` (labels: ``predict_proba``), no parameter either.

And what brings our own factors and topics to the same questions: an entry of a matrix, the words of a document.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks._lib import Array
from benchmarks._lib.measures import Z
from benchmarks.mixed._peers import indicators

#: Where a document's words are split: every second distinct word is held out.
FLOOR = 1e-12


# ---------------------------------------------------------------- statsmodels


class PoissonGLM:
    """``statsmodels.GLM(y, add_constant(X), Poisson())``."""

    def fit(self, X: Any, y: Array) -> PoissonGLM:
        import statsmodels.api as sm

        self.result = sm.GLM(y, self.design(X), family=sm.families.Poisson()).fit()
        return self

    def design(self, X: Any) -> Array:
        return np.column_stack([np.ones(len(X)), np.asarray(X, float)])

    def predict(self, X: Any) -> Array:
        return np.asarray(self.result.predict(self.design(X)))


class RandomIntercepts:
    """``statsmodels.MixedLM`` with an intercept for each level of a group; a new level has the mean."""

    def __init__(self, group: str) -> None:
        self.group = group

    def fit(self, X: Any, y: Array) -> RandomIntercepts:
        from statsmodels.regression.mixed_linear_model import MixedLM

        self.result = MixedLM(y, self.design(X), groups=X[self.group].to_numpy()).fit()
        self.effects = {level: float(np.ravel(effect)[0]) for level, effect in self.result.random_effects.items()}
        return self

    def design(self, X: Any) -> Array:
        return np.column_stack([np.ones(len(X)), X.drop(columns=self.group).to_numpy(float)])

    def predict(self, X: Any) -> Array:
        effects = np.array([self.effects.get(level, 0.0) for level in X[self.group]])
        return self.design(X) @ np.asarray(self.result.fe_params) + effects


class BayesMixed:
    """statsmodels' ``PoissonBayesMixedGLM`` or ``BinomialBayesMixedGLM`` by ``fit_vb``, predictions with the effects.

    Its ``predict`` has the fixed effects alone; here f of a row has the mean and variance of its (factorised) q.
    """

    def __init__(self, kind: str, groups: list[str]) -> None:
        self.kind, self.groups = kind, groups

    def fit(self, X: Any, y: Array) -> BayesMixed:
        import scipy.sparse as sp
        from statsmodels.genmod import bayes_mixed_glm

        self.levels = [list(X[group].unique()) for group in self.groups]
        identity = np.repeat(np.arange(len(self.groups)), [len(levels) for levels in self.levels])
        kind = getattr(bayes_mixed_glm, f"{self.kind}BayesMixedGLM")
        model = kind(y, self.fixed(X), sp.csr_matrix(self.random(X)), identity)
        self.result = model.fit_vb(rng=np.random.default_rng(0))
        self.classes_ = np.unique(y)
        return self

    def fixed(self, X: Any) -> Array:
        return np.column_stack([np.ones(len(X)), X.drop(columns=self.groups).to_numpy(float)])

    def random(self, X: Any) -> Any:
        import scipy.sparse as sp

        parts = []
        for group, levels in zip(self.groups, self.levels, strict=True):
            at = {level: j for j, level in enumerate(levels)}
            parts.append(indicators(np.array([at.get(level, -1) for level in X[group]]), len(levels)))
        return sp.hstack(parts).tocsr()

    def latent(self, X: Any) -> tuple[Array, Array]:
        fixed, random = self.fixed(X), self.random(X)
        mean = fixed @ self.result.fe_mean + random @ self.result.vc_mean
        return mean, fixed**2 @ self.result.fe_sd**2 + random.power(2) @ self.result.vc_sd**2

    def predict(self, X: Any) -> Array:
        mean, variance = self.latent(X)
        return np.exp(mean + 0.5 * variance)

    def predict_proba(self, X: Any) -> Array:
        from scipy.special import expit

        mean, variance = self.latent(X)
        p = expit(mean / np.sqrt(1 + np.pi * variance / 8))
        return np.column_stack([1 - p, p])


# ---------------------------------------------------------------- entries of a matrix


def dummies_ridge() -> Any:
    """scikit-learn's ``Ridge`` on an indicator per row and per column of the matrix."""
    from sklearn.linear_model import Ridge
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder

    return make_pipeline(OneHotEncoder(handle_unknown="ignore"), Ridge())


class Completed:
    """A model of whole matrices asked for entries, of which X is the rows and columns; ``shape`` that of the matrix."""

    def __init__(self, model: Any, shape: tuple[int, int]) -> None:
        self.model, self.shape = model, shape

    def fit(self, X: Any, y: Array) -> Completed:
        M = np.full(self.shape, np.nan)
        M[tuple(np.asarray(X).T)] = y
        if hasattr(self.model, "impute"):
            self.mean, self.std = self.model.fit(M).impute(M, return_std=True)
        else:
            self.mean = self.model.fit_transform(M)
        return self

    def predict(self, X: Any) -> Array:
        return self.mean[tuple(np.asarray(X).T)]

    def predict_interval(self, X: Any, coverage: float) -> Array:
        """Mean and 1.645 standard deviations to each side."""
        at = tuple(np.asarray(X).T)
        return self.mean[at][:, None] + Z * self.std[at][:, None] * np.array([-1.0, 1.0])


# ---------------------------------------------------------------- words


def halved(X: Any) -> tuple[Any, Any]:
    """Documents with every second of their distinct words, and with the others."""
    seen, held = X.tocsr().astype(float), X.tocsr().astype(float)
    first = np.arange(X.nnz) - np.repeat(X.indptr[:-1], np.diff(X.indptr))
    seen.data, held.data = np.where(first % 2 == 0, seen.data, 0.0), np.where(first % 2 == 1, held.data, 0.0)
    for part in (seen, held):
        part.eliminate_zeros()
    return seen, held


class Topics:
    """A topic model asked for a log probability of each word of a document from the other half of its words."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def fit(self, X: Any, y: Any = None) -> Topics:
        self.model.fit(X)
        self.topics = np.maximum(self.model.components_, FLOOR)
        self.topics = self.topics / self.topics.sum(axis=1, keepdims=True)
        return self

    def word_losses(self, X: Any) -> Array:
        """-log p of the held-out words of each document, per word of it."""
        seen, held = halved(X)
        p = np.asarray(self.model.transform(seen)) @ self.topics
        rows = np.repeat(np.arange(X.shape[0]), np.diff(held.indptr))
        loss = np.bincount(rows, -held.data * np.log(p[rows, held.indices]), minlength=X.shape[0])
        return loss / np.maximum(np.asarray(held.sum(1)).ravel(), 1.0)
