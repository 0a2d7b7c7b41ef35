"""Who is asked about which small set, and what a user would have called before."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from benchmarks._lib import Array
from benchmarks.product import _default_peers as peers
from benchmarks.product import _default_sets as sets


@dataclass(frozen=True)
class Case:
    """Data, our estimator and a peer, made by calls; ``kind`` of target: "measured", "counts", "labels", "words"."""

    data: str
    kind: str
    load: Callable[[], tuple[Any, Array]]
    ours: Callable[[], Any]
    peer: Callable[[], Any]


def our(name: str, **what: Any) -> Callable[[], Any]:
    """An estimator of ours; ``what`` says what the data are."""
    import sksvi

    return lambda: getattr(sksvi, name)(**what)


def linear_cases() -> list[Case]:
    from sklearn.linear_model import BayesianRidge, LogisticRegression

    measured, labels = our("BayesianGLMRegressor"), our("BayesianGLMClassifier")
    poisson, negative = (our("BayesianGLMRegressor", likelihood=name) for name in ("poisson", "negative-binomial"))
    seatbelts = ["kms", "PetrolPrice", "law"]
    return [
        Case("diabetes", "measured", sets.diabetes, measured, BayesianRidge),
        Case("Boston housing", "measured", lambda: sets.published("pbp_bostonHousing"), measured, BayesianRidge),
        Case("California housing", "measured", sets.california, measured, BayesianRidge),
        Case("abalone", "measured", sets.abalone, measured, BayesianRidge),
        Case("engel", "measured", sets.engel, measured, BayesianRidge),
        Case("wine alcohol", "measured", sets.wine_alcohol, measured, BayesianRidge),
        Case("Lake Huron", "measured", lambda: sets.series("lakehuron", "value", ["time"]), measured, BayesianRidge),
        Case("salaries (simulated)", "measured", sets.salaries, measured, BayesianRidge),
        Case("asthma", "counts", sets.asthma, poisson, peers.PoissonGLM),
        Case("vans", "counts", lambda: sets.series("seatbelts", "VanKilled", seatbelts), poisson, peers.PoissonGLM),
        Case("Utah deaths", "counts", sets.utah, poisson, peers.PoissonGLM),
        Case("articles", "counts", lambda: sets.dummied("pscl_bioChemists", "art"), negative, peers.PoissonGLM),
        Case("crabs", "counts", sets.crabs, negative, peers.PoissonGLM),
        Case("fish", "counts", sets.fish, negative, peers.PoissonGLM),
        Case("iris", "labels", lambda: sets.bundled("iris"), labels, LogisticRegression),
        Case("wine", "labels", lambda: sets.bundled("wine"), labels, LogisticRegression),
        Case("breast cancer", "labels", lambda: sets.bundled("breast_cancer"), labels, LogisticRegression),
        Case("digits (every 3rd)", "labels", lambda: sets.bundled("digits", 3), labels, LogisticRegression),
        Case("spector", "labels", sets.spector, labels, LogisticRegression),
        Case("contraception", "labels", sets.contraception, labels, LogisticRegression),
    ]


def mixed_cases() -> list[Case]:
    def counts(*groups: str) -> Callable[[], Any]:
        return our("GMERegressor", likelihood="poisson", groups=list(groups))

    def bayes(kind: str, *groups: str) -> Callable[[], Any]:
        return lambda: peers.BayesMixed(kind, list(groups))

    subject, county = (our("GMERegressor", groups=name) for name in ("Subject", "county"))
    pairs, district = (our("GMEClassifier", groups=names) for names in (["female", "male"], "district"))
    subjects, counties = (lambda: peers.RandomIntercepts("Subject")), (lambda: peers.RandomIntercepts("county"))
    return [
        Case("sleepstudy", "measured", sets.sleepstudy, subject, subjects),
        Case("radon", "measured", sets.radon, county, counties),
        Case("epil", "counts", sets.epil, counts("subject"), bayes("Poisson", "subject")),
        Case(
            "two groups (simulated)",
            "counts",
            sets.two_groups,
            counts("site", "area"),
            bayes("Poisson", "site", "area"),
        ),
        Case("crabs", "counts", sets.crabs, our("GMERegressor", likelihood="poisson"), peers.PoissonGLM),
        Case("salamanders", "labels", sets.salamander, pairs, bayes("Binomial", "female", "male")),
        Case(
            "contraception", "labels", lambda: sets.contraception("district"), district, bayes("Binomial", "district")
        ),
    ]


def process_cases() -> list[Case]:
    from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor

    measured = our("SparseGPRegressor")
    return [
        Case("temperatures (simulated)", "measured", sets.temperatures, measured, GaussianProcessRegressor),
        Case("yacht", "measured", lambda: sets.published("pbp_yacht"), measured, GaussianProcessRegressor),
        Case("diabetes", "measured", sets.diabetes, measured, GaussianProcessRegressor),
        Case("iris", "labels", lambda: sets.bundled("iris"), our("SparseGPClassifier"), GaussianProcessClassifier),
        Case("tumours", "labels", sets.tumours, our("GPClassifier"), GaussianProcessClassifier),
    ]


def factor_cases() -> list[Case]:
    from sklearn.decomposition import LatentDirichletAllocation
    from sklearn.impute import SimpleImputer

    def ours(shape: tuple[int, int]) -> Callable[[], Any]:
        return lambda: peers.Completed(our("BetaProcessFA")(), shape)

    def means(shape: tuple[int, int]) -> Callable[[], Any]:
        return lambda: peers.Completed(SimpleImputer(keep_empty_features=True), shape)

    topics, dirichlet = (
        (lambda: peers.Topics(our("CorrelatedTopicModel")())),
        (lambda: peers.Topics(LatentDirichletAllocation())),
    )
    return [
        Case("ratings (simulated)", "measured", sets.ratings, our("GeneralizedPMF"), peers.dummies_ridge),
        Case("MovieLens, 25 users", "measured", sets.movielens, our("GeneralizedPMF"), peers.dummies_ridge),
        Case("sparse factors (simulated)", "measured", sets.sparse_factors, ours((200, 10)), means((200, 10))),
        Case("digits (every 9th)", "measured", sets.pixels, ours((200, 64)), means((200, 64))),
        Case("topics (simulated)", "words", sets.simulated_documents, topics, dirichlet),
        Case("Associated Press", "words", sets.associated_press, topics, dirichlet),
    ]


def cases() -> list[Case]:
    return [*linear_cases(), *mixed_cases(), *process_cases(), *factor_cases()]
