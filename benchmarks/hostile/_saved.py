"""Small fits of every estimator in the states that files hold, and what is asked of them when they are loaded again."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks._lib import Array

ROWS, USERS, ITEMS = 40, 7, 6


@functools.cache
def data() -> dict[str, Any]:
    """Rows, targets, pairs and documents that the fits share; whole numbers, so that every machine has the same."""
    import pandas as pd
    import scipy.sparse as sp

    rng = np.random.default_rng(0)
    X = rng.integers(-20, 21, (ROWS, 3)) / 8.0
    noise = rng.integers(-8, 9, ROWS) / 8.0
    y = X @ [1.0, 2.0, -1.0] + noise
    pairs = np.column_stack([rng.integers(0, USERS, 80), rng.integers(0, ITEMS, 80)])
    table = pd.DataFrame({"x": X[:, 0], "g": rng.integers(0, 5, ROWS).astype(str), "h": rng.integers(0, 4, ROWS)})
    return {
        "X": X,
        "frame": pd.DataFrame(X, columns=["age", "dose", "weight"]),
        "wide": rng.integers(-4, 5, (8, 20)) / 4.0,
        "sparse": sp.csr_matrix(np.where(np.abs(X) > 1, X, 0.0)),
        "real": y,
        "count": np.maximum(np.round(2 + X[:, 0] + noise), 0.0),
        "level": np.clip(np.round(X[:, 0]), -1, 1) + 1,
        "two": np.where(X[:, 0] + noise > 0, "yes", "no"),
        "three": np.array(["a", "b", "c"])[np.digitize(X[:, 1] + noise, [-1.0, 1.0])],
        "groups": table,
        "pairs": pairs,
        "rating": rng.integers(-8, 9, 80) / 4.0,
        "users": pd.DataFrame(rng.integers(-4, 5, (USERS, 2)) / 2.0),
        "words": rng.integers(0, 4, (12, 10)),
        "bits": np.where(rng.random((ROWS, 6)) < 0.1, np.nan, rng.integers(0, 2, (ROWS, 6)).astype(float)),
        "answers": pd.DataFrame({"a": rng.choice(["no", "yes"], ROWS), "b": rng.integers(0, 4, ROWS)}),
    }


def stream(model: Any, *parts: Any, **first: Any) -> Any:
    """A stream of two portions."""
    middle = len(parts[0]) // 2
    for rows in (slice(None, middle), slice(middle, None)):
        model.partial_fit(*(part.iloc[rows] if hasattr(part, "iloc") else part[rows] for part in parts), **first)
    return model


def _fits() -> dict[str, tuple[str, Callable[[dict[str, Any]], Any]]]:
    """Name -> (the data that predictions are asked of, the fit)."""
    import sksvi
    from sksvi import (
        BayesianGLMClassifier,
        BayesianGLMRegressor,
        BernoulliMixture,
        BetaProcessFA,
        CategoricalMixture,
        CorrelatedTopicModel,
        DynamicGLM,
        GammaFactorModel,
        GammaPoissonFactorization,
        GammaProcessNMF,
        GeneralizedPMF,
        GMEClassifier,
        GMERegressor,
        GPClassifier,
        PoissonFactorization,
        SparseGPClassifier,
        SparseGPRegressor,
        StructuredLDA,
    )

    any_order = {"random_state": 0, "max_iter": 5}
    diagonal = {"covariance": "diag", **any_order}
    points = {"n_inducing": 4, **any_order}
    factors = {"n_components": 2, **any_order}
    likelihood = sksvi.likelihoods.NegativeBinomial(dispersion=0.5)
    glm, gme = BayesianGLMRegressor, GMERegressor
    return {
        "glm": ("frame", lambda d: glm(random_state=0).fit(d["frame"], d["real"])),
        "glm-ard": (
            "X",
            lambda d: glm(likelihood="poisson", prior_precision="ard", **diagonal).fit(d["X"], d["count"]),
        ),
        "glm-levels": ("X", lambda d: glm(likelihood="ordinal", **any_order).fit(d["X"], d["level"])),
        "glm-batches": ("X", lambda d: glm(algorithm="cvi", batch_size=10, **any_order).fit(d["X"], d["real"])),
        "glm-steps": ("sparse", lambda d: glm(algorithm="s-dsvi", **any_order).fit(d["sparse"], d["real"])),
        "glm-stream": ("X", lambda d: stream(glm(likelihood=likelihood, random_state=0), d["X"], d["count"])),
        "glm-categories": (
            "groups",
            lambda d: glm(categorical_features=["g", "h"], **any_order).fit(d["groups"], d["real"]),
        ),
        "glm-wide": ("wide", lambda d: glm(**any_order).fit(d["wide"], d["real"][:8])),
        "classes": ("X", lambda d: BayesianGLMClassifier(**any_order).fit(d["X"], d["two"])),
        "classes-three": ("X", lambda d: BayesianGLMClassifier(**any_order).fit(d["X"], d["three"])),
        "classes-diag": (
            "X",
            lambda d: BayesianGLMClassifier(algorithm="h-mc-ssvi", **diagonal).fit(d["X"], d["three"]),
        ),
        "mixed": ("groups", lambda d: gme(groups=["g"], **any_order).fit(d["groups"], d["real"])),
        "mixed-slopes": (
            "groups",
            lambda d: gme(groups=["g", "h"], random_slopes={"g": ["x"]}, likelihood="poisson", **any_order).fit(
                d["groups"], d["count"]
            ),
        ),
        "mixed-stream": (
            "groups",
            lambda d: stream(gme(groups=["h"], algorithm="cvi", random_state=0), d["groups"], d["real"]),
        ),
        "mixed-classes": ("groups", lambda d: GMEClassifier(groups=["g"], **any_order).fit(d["groups"], d["two"])),
        "sparse-gp": ("X", lambda d: SparseGPRegressor(**points).fit(d["X"], d["real"])),
        "sparse-gp-stream": ("X", lambda d: stream(SparseGPRegressor(**points), d["X"], d["real"])),
        "sparse-gp-classes": ("X", lambda d: SparseGPClassifier(**points).fit(d["X"], d["three"])),
        "gp-classes": ("X", lambda d: GPClassifier(**any_order).fit(d["X"], d["two"])),
        "factors": ("pairs", lambda d: GeneralizedPMF(**factors).fit(d["pairs"], d["rating"])),
        "factors-features": (
            "pairs",
            lambda d: GeneralizedPMF(user_features=d["users"], **factors).fit(d["pairs"], d["rating"]),
        ),
        "factors-steps": (
            "pairs",
            lambda d: GeneralizedPMF(algorithm="h-mc-ssvi", covariance="diag", **factors).fit(d["pairs"], d["rating"]),
        ),
        "factors-stream": ("pairs", lambda d: stream(GeneralizedPMF(**factors), d["pairs"], d["rating"])),
        "topics": ("words", lambda d: CorrelatedTopicModel(**factors).fit(d["words"])),
        "topics-steps": (
            "words",
            lambda d: CorrelatedTopicModel(algorithm="s-dsvi", topics="point", **factors).fit(d["words"]),
        ),
        "topics-stream": ("words", lambda d: stream(CorrelatedTopicModel(**factors), d["words"])),
        "lda": (
            "words",
            lambda d: StructuredLDA(doc_topic_prior="auto", topic_word_prior="auto", **factors).fit(d["words"]),
        ),
        "lda-stream": ("words", lambda d: stream(StructuredLDA(algorithm="ssvi", **factors), d["words"])),
        "poisson-components": ("words", lambda d: GammaPoissonFactorization(**factors).fit(d["words"])),
        "poisson-components-tight": (
            "words",
            lambda d: GammaPoissonFactorization(bound="tight", **factors).fit(d["words"]),
        ),
        "poisson-components-stream": ("words", lambda d: stream(GammaPoissonFactorization(**factors), d["words"])),
        "pairs": ("pairs", lambda d: PoissonFactorization(**factors).fit(d["pairs"], np.abs(d["rating"]) * 4)),
        "components": ("words", lambda d: GammaProcessNMF(search_passes=2, **factors).fit(d["words"])),
        "components-stream": ("words", lambda d: stream(GammaProcessNMF(**factors), d["words"])),
        "classes-of-bits": ("bits", lambda d: BernoulliMixture(**factors).fit(d["bits"])),
        "classes-of-bits-gibbs": ("bits", lambda d: BernoulliMixture(algorithm="gibbs", **factors).fit(d["bits"])),
        "classes-of-bits-stream": ("bits", lambda d: stream(BernoulliMixture(**factors), d["bits"])),
        "latent-classes": ("answers", lambda d: CategoricalMixture(**factors).fit(d["answers"])),
        "series": ("X", lambda d: DynamicGLM(trend=True, autoregressive=True, **any_order).fit(d["X"], d["count"])),
        "series-stream": ("X", lambda d: stream(DynamicGLM(seasonal=3, **any_order), d["X"], d["count"])),
        "series-panel": ("groups", lambda d: DynamicGLM(groups="g", **any_order).fit(d["groups"], d["count"])),
        "loadings": ("X", lambda d: GammaFactorModel(noise_variance="auto", **factors).fit(d["X"])),
        "loadings-stream": ("X", lambda d: stream(GammaFactorModel(**factors), d["X"])),
        "sparse-factors": ("X", lambda d: BetaProcessFA(**factors).fit(d["X"])),
        "sparse-factors-gibbs": ("X", lambda d: BetaProcessFA(algorithm="gibbs", **factors).fit(d["X"])),
        "sparse-factors-stream": ("X", lambda d: stream(BetaProcessFA(**factors), d["X"])),
    }


#: Methods that a loaded model is asked by.
ASKED = ("predict", "predict_proba", "predict_std", "transform", "reconstruct", "recommend", "summary", "top_words")
#: Names of all fits; the first of each estimator's is the smallest.
NAMES = list(_fits())


def fitted(name: str) -> Any:
    """The fit of that name, anew."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return _fits()[name][1](data())


def said(name: str, model: Any) -> list[Array]:
    """What a loaded model answers to the data of that name, through every kind of method."""
    X = data()[_fits()[name][0]]
    out = []
    for method in ASKED:
        if not hasattr(model, method):
            continue
        arguments: dict[str, Any] = {"summary": tuple, "top_words": tuple}
        if hasattr(model, "users_"):
            arguments["recommend"] = lambda: (model.users_[:2],)
        # Coefficients as the fit holds them: what a table answers by default may become another question.
        options = (
            {"effects": "joint", "contrasts": "none"} if method == "summary" and hasattr(model, "_effects") else {}
        )
        found = getattr(model, method)(*arguments.get(method, lambda: (X,))(), **options)
        out.append(np.asarray(found[0] if isinstance(found, tuple) else found))
    return out
