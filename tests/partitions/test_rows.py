"""Rows without targets in partitions: the fit of the same rows in memory, a stream, the bits of any scheduler."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from sksvi import (
    BernoulliMixture,
    BetaProcessFA,
    CorrelatedTopicModel,
    GammaFactorModel,
    GammaPoissonFactorization,
    GammaProcessNMF,
    StructuredLDA,
)
from sksvi.decomposition import _gamma_fit
from sksvi.models.mixture import model as mixture
from sksvi.models.topics import anchors
from sksvi.topics import _structured

dask = pytest.importorskip("dask", reason="needs the extra dask")
da = pytest.importorskip("dask.array", reason="needs the extra dask")

pytestmark = [
    pytest.mark.usefixtures("local_scheduler"),
    pytest.mark.filterwarnings("ignore:.* did not converge in max_iter"),
]


def bits():
    rng = np.random.default_rng(0)
    found = (rng.random((240, 12)) < rng.random((3, 12))[rng.integers(0, 3, 240)]).astype(float)
    found[::7, 2] = np.nan
    return found


def counts():
    rng = np.random.default_rng(0)
    found = rng.poisson(3.0 * rng.gamma(0.5, 1.0, (150, 3)) @ rng.gamma(0.5, 1.0, (3, 12))).astype(float)
    found[[5, 90]] = 0.0
    return found


def measured():
    rng = np.random.default_rng(1)
    return rng.standard_normal((150, 3)) @ rng.gamma(0.5, 1.0, (3, 8)) + 0.5 * rng.standard_normal((150, 8)) + 4.0


def documents():
    rng = np.random.default_rng(0)
    found = rng.poisson(rng.gamma(0.3, 1.0, (150, 3)) @ rng.gamma(0.2, 1.0, (3, 30)) * 2.0).astype(float)
    found[:, 0] += 1.0
    return sp.csr_matrix(found)


def holes(X):
    """X with missing cells, among them a column that the first partition has nothing of."""
    X[::11, 3] = np.nan
    X[:60, 5] = np.nan
    return X


TABLES = {
    "bits": bits(),
    "counts": counts(),
    "counts with holes": holes(counts()),
    "sparse counts": sp.csr_matrix(counts()),
    "measured": measured(),
    "measured with holes": holes(measured()),
    "documents": documents(),
}


def chunked(X, size=60):
    if sp.issparse(X):
        return da.from_array(X.toarray(), chunks=(size, X.shape[1])).map_blocks(sp.csr_matrix)
    return da.from_array(X, chunks=(size, X.shape[1]))


#: Rows in partitions have the variances of q, which nothing corrects.
OF_Q = {"uncertainty": "variational"}


def made(cls, n_components, **options):
    return cls(n_components, **{"batch_size": None, "max_iter": 4, "random_state": 0, **options})


def binary(**options):
    return made(BernoulliMixture, 8, **{"max_iter": 8, "concentration": 5.0, **OF_Q, **options})


def sparse_factors(**options):
    return made(BetaProcessFA, 5, algorithm="cvi", noise="columns", **options)


GIVEN = np.random.default_rng(2).gamma(1.0, 1.0, (5, 12))
LEARNED = {"algorithm": "svi", "doc_topic_prior": "auto", "topic_word_prior": "auto"}
#: Estimators and their rows.
SAME = {
    "mixture-map": (binary(algorithm="map", moves="none"), "bits"),
    "mixture-merge": (binary(algorithm="svi", moves="merge"), "bits"),
    "mixture-all": (binary(algorithm="svi", moves="all"), "bits"),
    "process": (made(GammaProcessNMF, 5, **OF_Q), "counts with holes"),
    "process-sparse": (made(GammaProcessNMF, 5, init="random", prior_mean=2.0, **OF_Q), "sparse counts"),
    "process-given": (made(GammaProcessNMF, 5, init=GIVEN, **OF_Q), "counts"),
    "poisson": (made(GammaPoissonFactorization, 5, **OF_Q), "counts with holes"),
    "poisson-rows": (made(GammaPoissonFactorization, 5, init="rows", **OF_Q), "counts with holes"),
    "mean-field": (sparse_factors(local_step="mean-field", init="random", **OF_Q), "measured with holes"),
    "spike-slab": (sparse_factors(local_step="spike-slab", init="data", **OF_Q), "measured with holes"),
    "lda": (made(StructuredLDA, 3, **OF_Q), "documents"),
    "lda-learned": (made(StructuredLDA, 3, **LEARNED, **OF_Q), "documents"),
    "ctm": (made(CorrelatedTopicModel, 3, max_iter=3, algorithm="cvi", bound="simple", **OF_Q), "documents"),
}
#: Attributes of fits, with the relative difference that another order of sums may make.
ATTRIBUTES = {"lower_bounds_": 1e-9, "n_components_": 0.0, "weights_": 1e-9, "means_": 1e-9, "components_": 1e-6}
ATTRIBUTES |= {"mean_": 1e-12, "scale_": 1e-12, "topic_correlation_": 1e-8}


def assert_same(found, wanted):
    compared = [name for name in ATTRIBUTES if hasattr(wanted, name)]
    assert len(compared) > 1
    for name in compared:
        rtol = ATTRIBUTES[name] if name != "components_" or not hasattr(wanted, "perplexity") else 1e-9
        np.testing.assert_allclose(getattr(found, name), getattr(wanted, name), rtol=rtol, atol=1e-9 * (rtol > 0.0))


@pytest.mark.costly
@pytest.mark.parametrize("case", SAME)
def test_same_fit(case):
    model, table = SAME[case]
    here, apart = TABLES[table], chunked(TABLES[table])
    found, wanted = clone(model).fit(apart), clone(model).fit(here)
    assert_same(found, wanted)
    for name in ("transform", "predict_proba"):
        if hasattr(model, name):
            answer = getattr(found, name)(apart).compute()
            np.testing.assert_allclose(answer, getattr(wanted, name)(here), rtol=1e-5, atol=1e-8)
    for name in ("score", "perplexity"):
        if hasattr(model, name):
            assert getattr(found, name)(apart) == pytest.approx(getattr(wanted, name)(here), rel=1e-8)
    if hasattr(model, "predict"):
        np.testing.assert_array_equal(found.predict(apart).compute(), wanted.predict(here))
        np.testing.assert_array_equal(clone(model).fit_predict(apart).compute(), wanted.predict(here))


#: Estimators that begin among some of the rows, and the constants that say among how many.
AMONG = {
    "mixture": (binary(max_iter=3), "bits", {(mixture, "CENTRES_AMONG"): 50}),
    **{
        name: (
            clone(SAME[name][0]).set_params(max_iter=2),
            "counts",
            {(_gamma_fit, "STARTS"): {name: (start, 30) for name, (start, _) in _gamma_fit.STARTS.items()}},
        )
        for name in ("process", "poisson", "poisson-rows")
    },
    "lda": (
        made(StructuredLDA, 3, max_iter=2, **OF_Q),
        "documents",
        {(anchors, "MOST_DOCUMENTS"): 40, (_structured, "TRIAL_DOCUMENTS"): 50},
    ),
}


@pytest.mark.parametrize("case", AMONG)
def test_starts_look_at_the_same_few_rows(case, monkeypatch):
    model, table, constants = AMONG[case]
    for (module, name), value in constants.items():
        monkeypatch.setattr(module, name, value)
    assert_same(clone(model).fit(chunked(TABLES[table])), clone(model).fit(TABLES[table]))


#: Estimators that draw, and their rows.
DRAWN = {
    "mixture": (binary(algorithm="ssvi", max_iter=2), "bits"),
    "sparse factors": (made(BetaProcessFA, 5, algorithm="mc-ssvi", max_iter=2), "counts"),
    "process": (made(GammaProcessNMF, 5, algorithm="mc-ssvi", max_iter=2), "counts"),
    "lda": (made(StructuredLDA, 3, algorithm="ssvi", local_step="gibbs", max_iter=2), "documents"),
    "tight": (made(GammaPoissonFactorization, 3, bound="tight", max_iter=8, tol=0.1), "counts"),
}


@pytest.mark.parametrize(("case", "batch_size"), [(case, size) for case in DRAWN for size in (None, 30)][:-1])
def test_draws_are_the_same_bits_for_any_scheduler(case, batch_size):
    model, table = DRAWN[case]
    model, X = clone(model).set_params(batch_size=batch_size), chunked(TABLES[table])
    one = clone(model).fit(X)
    with dask.config.set(scheduler="threads", num_workers=2):
        other = clone(model).fit(X)
    name = "means_" if case == "mixture" else "components_"
    np.testing.assert_array_equal(getattr(other, name), getattr(one, name))


#: Estimators that take chunks, and their rows.
STREAMED = {
    "mixture": (binary(), "bits"),
    "process": (GammaProcessNMF(4, random_state=0), "counts"),
    "poisson": (GammaPoissonFactorization(4, random_state=0), "counts"),
    "sparse factors": (BetaProcessFA(4, random_state=0), "measured"),
    "gamma factors": (GammaFactorModel(2, noise_variance="auto", random_state=0), "measured"),
    "lda": (made(StructuredLDA, 3, random_state=1), "documents"),
}


@pytest.mark.parametrize("case", STREAMED)
def test_partitions_are_a_stream(case):
    model, table = STREAMED[case]
    X, calls = TABLES[table], 2 if case == "lda" else 1
    half = X.shape[0] // 2
    here, apart = clone(model), clone(model)
    for _ in range(calls):
        here.partial_fit(X[:half]).partial_fit(X[half:])
        apart.partial_fit(chunked(X, half))
    name = "means_" if case == "mixture" else "components_"
    np.testing.assert_array_equal(getattr(apart, name), getattr(here, name))
    assert apart.n_samples_seen_ == calls * X.shape[0]
