"""Small fits of every estimator, in every state that files hold, and their answers by all methods."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from sksvi.decomposition import (
    BetaProcessFA,
    GammaFactorModel,
    GammaPoissonFactorization,
    GammaProcessNMF,
    GeneralizedPMF,
    PoissonFactorization,
)
from sksvi.gaussian_process import GPClassifier, SparseGPClassifier, SparseGPRegressor
from sksvi.likelihoods import NegativeBinomial
from sksvi.linear_model import BayesianGLMClassifier, BayesianGLMRegressor
from sksvi.mixed_effects import GMEClassifier, GMERegressor
from sksvi.mixture import BernoulliMixture, CategoricalMixture
from sksvi.network import Beta, Binomial, Categorical, Dirichlet, Gamma, Gaussian, Likelihood, Link, Network, Rayleigh
from sksvi.time_series import DynamicGLM
from sksvi.topics import CorrelatedTopicModel, StructuredLDA

Array = np.ndarray

ROWS, USERS, ITEMS = 40, 7, 6


@functools.cache
def data() -> dict[str, Any]:
    """Rows, targets, pairs and documents that the fits share, the same to the last bit on every machine.

    Returns
    -------
    data : dict
        Tables and targets by name: "X" and "real", "frame", "groups" and so on. Values are multiples of an eighth.
    """
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


def fit_in_chunks(model: Any, *tables: Any, **options: Any) -> Any:
    """Fit a model to two chunks of rows by ``partial_fit``.

    Parameters
    ----------
    model : estimator
        Unfitted.
    *tables : array or DataFrame
        X, and y where the model takes one.
    **options
        Further arguments of ``partial_fit``.

    Returns
    -------
    model : estimator
        The same estimator.
    """
    middle = len(tables[0]) // 2
    for rows in (slice(None, middle), slice(middle, None)):
        chunk = (table.iloc[rows] if hasattr(table, "iloc") else table[rows] for table in tables)
        model.partial_fit(*chunk, **options)
    return model


def stream_of_network(d: dict[str, Any]) -> Network:
    """Fit a network of every family to two portions of rows, each with local nodes of its own."""
    nodes = {
        "line": Gaussian(0.0, 1.0, size=3, covariance="full"),
        "noise": Rayleigh(2.0),
        "spread": Gamma(2.0, 1.0),
        "shares": Dirichlet([1.0, 1.0]),
        "p": Beta(1.0, 1.0),
        "label": Categorical("shares"),
        "heads": Binomial("p", trials=3),
        "f": Gaussian(Link("line", design="X"), variance="noise", size="y", integrated=True),
        "y": Likelihood("poisson", "f", offset="offset"),
        "g": Gaussian(0.0, "spread", size="z"),
        "z": Gaussian("g", 4.0),
    }
    label, offset = (d["two"] == "yes").astype(int), 0.25 * d["X"][:, 0]
    rows = {"X": d["X"], "y": d["count"], "label": label, "heads": d["level"], "z": d["real"], "offset": offset}
    network = Network(nodes)
    for part in (slice(None, 25), slice(25, None)):
        network.partial_fit({name: values[part] for name, values in rows.items()}, max_iter=5)
    return network


#: Parameters of several fits.
_FEW_PASSES = {"random_state": 0, "max_iter": 5}
_DIAGONAL = {"covariance": "diag", **_FEW_PASSES}
_POINTS = {"n_inducing": 4, **_FEW_PASSES}
_FACTORS = {"n_components": 2, **_FEW_PASSES}
#: Key of the data that predictions are made for, and the fit to all data, by name.
FITS: dict[str, tuple[str, Callable[[dict[str, Any]], Any]]] = {
    "glm": ("frame", lambda d: BayesianGLMRegressor(random_state=0).fit(d["frame"], d["real"])),
    "glm-ard": (
        "X",
        lambda d: BayesianGLMRegressor(likelihood="poisson", prior_precision="ard", **_DIAGONAL).fit(
            d["X"], d["count"]
        ),
    ),
    "glm-levels": ("X", lambda d: BayesianGLMRegressor(likelihood="ordinal", **_FEW_PASSES).fit(d["X"], d["level"])),
    "glm-batches": (
        "X",
        lambda d: BayesianGLMRegressor(algorithm="cvi", batch_size=10, **_FEW_PASSES).fit(d["X"], d["real"]),
    ),
    "glm-steps": (
        "sparse",
        lambda d: BayesianGLMRegressor(algorithm="s-dsvi", **_FEW_PASSES).fit(d["sparse"], d["real"]),
    ),
    "glm-stream": (
        "X",
        lambda d: fit_in_chunks(
            BayesianGLMRegressor(likelihood=NegativeBinomial(dispersion=0.5), random_state=0), d["X"], d["count"]
        ),
    ),
    "glm-categories": (
        "groups",
        lambda d: BayesianGLMRegressor(categorical_features=["g", "h"], **_FEW_PASSES).fit(d["groups"], d["real"]),
    ),
    "glm-wide": ("wide", lambda d: BayesianGLMRegressor(**_FEW_PASSES).fit(d["wide"], d["real"][:8])),
    "glm-low-rank": (
        "wide",
        lambda d: BayesianGLMRegressor(covariance="low-rank", likelihood="negative-binomial").fit(
            d["wide"], d["count"][:8]
        ),
    ),
    "classes": ("X", lambda d: BayesianGLMClassifier(**_FEW_PASSES).fit(d["X"], d["two"])),
    "classes-three": ("X", lambda d: BayesianGLMClassifier(**_FEW_PASSES).fit(d["X"], d["three"])),
    "classes-low-rank": (
        "wide",
        lambda d: BayesianGLMClassifier(covariance="low-rank").fit(d["wide"], d["three"][:8]),
    ),
    "classes-diag": (
        "X",
        lambda d: BayesianGLMClassifier(algorithm="h-mc-ssvi", **_DIAGONAL).fit(d["X"], d["three"]),
    ),
    "mixed": ("groups", lambda d: GMERegressor(groups=["g"], **_FEW_PASSES).fit(d["groups"], d["real"])),
    "mixed-slopes": (
        "groups",
        lambda d: GMERegressor(groups=["g", "h"], random_slopes={"g": ["x"]}, likelihood="poisson", **_FEW_PASSES).fit(
            d["groups"], d["count"]
        ),
    ),
    "mixed-stream": (
        "groups",
        lambda d: fit_in_chunks(GMERegressor(groups=["h"], algorithm="cvi", random_state=0), d["groups"], d["real"]),
    ),
    "mixed-classes": ("groups", lambda d: GMEClassifier(groups=["g"], **_FEW_PASSES).fit(d["groups"], d["two"])),
    "sparse-gp": ("X", lambda d: SparseGPRegressor(**_POINTS).fit(d["X"], d["real"])),
    "sparse-gp-stream": ("X", lambda d: fit_in_chunks(SparseGPRegressor(**_POINTS), d["X"], d["real"])),
    "sparse-gp-classes": ("X", lambda d: SparseGPClassifier(**_POINTS).fit(d["X"], d["three"])),
    "gp-classes": ("X", lambda d: GPClassifier(**_FEW_PASSES).fit(d["X"], d["two"])),
    "factors": ("pairs", lambda d: GeneralizedPMF(**_FACTORS).fit(d["pairs"], d["rating"])),
    "factors-features": (
        "pairs",
        lambda d: GeneralizedPMF(user_features=d["users"], **_FACTORS).fit(d["pairs"], d["rating"]),
    ),
    "factors-steps": (
        "pairs",
        lambda d: GeneralizedPMF(algorithm="h-mc-ssvi", covariance="diag", **_FACTORS).fit(d["pairs"], d["rating"]),
    ),
    "factors-stream": ("pairs", lambda d: fit_in_chunks(GeneralizedPMF(**_FACTORS), d["pairs"], d["rating"])),
    "topics": ("words", lambda d: CorrelatedTopicModel(**_FACTORS).fit(d["words"])),
    "topics-steps": (
        "words",
        lambda d: CorrelatedTopicModel(algorithm="s-dsvi", topics="point", **_FACTORS).fit(d["words"]),
    ),
    "topics-stream": ("words", lambda d: fit_in_chunks(CorrelatedTopicModel(**_FACTORS), d["words"])),
    "lda": (
        "words",
        lambda d: StructuredLDA(doc_topic_prior="auto", topic_word_prior="auto", **_FACTORS).fit(d["words"]),
    ),
    "lda-stream": ("words", lambda d: fit_in_chunks(StructuredLDA(algorithm="ssvi", **_FACTORS), d["words"])),
    "poisson-components": ("words", lambda d: GammaPoissonFactorization(**_FACTORS).fit(d["words"])),
    "poisson-components-tight": (
        "words",
        lambda d: GammaPoissonFactorization(bound="tight", **_FACTORS).fit(d["words"]),
    ),
    "poisson-components-stream": (
        "words",
        lambda d: fit_in_chunks(GammaPoissonFactorization(**_FACTORS), d["words"]),
    ),
    "pairs": ("pairs", lambda d: PoissonFactorization(**_FACTORS).fit(d["pairs"], np.abs(d["rating"]) * 4)),
    "pairs-features": (
        "pairs",
        lambda d: PoissonFactorization(user_features=d["users"], **_FACTORS).fit(d["pairs"], np.abs(d["rating"]) * 4),
    ),
    "components": ("words", lambda d: GammaProcessNMF(search_passes=2, **_FACTORS).fit(d["words"])),
    "components-stream": ("words", lambda d: fit_in_chunks(GammaProcessNMF(**_FACTORS), d["words"])),
    "classes-of-bits": ("bits", lambda d: BernoulliMixture(**_FACTORS).fit(d["bits"])),
    "classes-of-bits-gibbs": ("bits", lambda d: BernoulliMixture(algorithm="gibbs", **_FACTORS).fit(d["bits"])),
    "classes-of-bits-stream": ("bits", lambda d: fit_in_chunks(BernoulliMixture(**_FACTORS), d["bits"])),
    "latent-classes": ("answers", lambda d: CategoricalMixture(**_FACTORS).fit(d["answers"])),
    "series": ("X", lambda d: DynamicGLM(trend=True, autoregressive=True, **_FEW_PASSES).fit(d["X"], d["count"])),
    "series-stream": ("X", lambda d: fit_in_chunks(DynamicGLM(seasonal=3, **_FEW_PASSES), d["X"], d["count"])),
    "series-panel": ("groups", lambda d: DynamicGLM(groups="g", **_FEW_PASSES).fit(d["groups"], d["count"])),
    "loadings": ("X", lambda d: GammaFactorModel(noise_variance="auto", **_FACTORS).fit(d["X"])),
    "loadings-stream": ("X", lambda d: fit_in_chunks(GammaFactorModel(**_FACTORS), d["X"])),
    "sparse-factors": ("X", lambda d: BetaProcessFA(**_FACTORS).fit(d["X"])),
    "sparse-factors-gibbs": ("X", lambda d: BetaProcessFA(algorithm="gibbs", **_FACTORS).fit(d["X"])),
    "network": ("X", stream_of_network),
    "sparse-factors-stream": ("X", lambda d: fit_in_chunks(BetaProcessFA(**_FACTORS), d["X"])),
}
#: Methods whose results are compared.
METHODS = ("predict", "predict_proba", "predict_std", "transform", "reconstruct", "recommend", "summary", "top_words")
#: Names of all fits; the first of each estimator is its smallest.
NAMES = list(FITS)


def fit_model(name: str) -> Any:
    """Fit the model of a name in `NAMES`, anew at each call."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return FITS[name][1](data())


def model_answers(name: str, model: Any) -> list[Array]:
    """Call every method in `METHODS` that a model has, with the data of its name.

    Parameters
    ----------
    name : str
        One of `NAMES`.
    model : estimator
        The fit of that name, or what was loaded from its file.

    Returns
    -------
    answers : list of array
        One array per method; of an answer in several parts the first.
    """
    X = data()[FITS[name][0]]
    out = []
    for method in METHODS:
        if not hasattr(model, method):
            continue
        arguments: dict[str, Any] = {"summary": tuple, "top_words": tuple}
        if hasattr(model, "users_"):
            arguments["recommend"] = lambda: (model.users_[:2],)
        # Coefficients as the fit stores them: defaults of summary() may change between versions.
        options = (
            {"effects": "joint", "contrasts": "none"}
            if method == "summary" and hasattr(model, "_shown_coefficients")
            else {}
        )
        found = getattr(model, method)(*arguments.get(method, lambda: (X,))(), **options)
        out.append(np.asarray(found[0] if isinstance(found, tuple) else found))
    return out
