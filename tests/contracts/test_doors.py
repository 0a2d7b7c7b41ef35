"""What comes in at any door: sparse matrices, frames of any library, magnitudes, labels, weights, memory."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy.special import ndtri

import sksvi
from sksvi import (
    BayesianGLMClassifier,
    BayesianGLMRegressor,
    BetaProcessFA,
    CorrelatedTopicModel,
    GammaFactorModel,
    GeneralizedPMF,
    GMERegressor,
    GPClassifier,
    SparseGPClassifier,
    SparseGPRegressor,
    StructuredLDA,
)
from sksvi._runtime import memory
from sksvi.likelihoods import NegativeBinomial, Poisson
from sksvi.predictive import Predictive
from sksvi.predictive.noisy import NoisyPredictive
from support.memory_cases import MAX_RATIO, estimate_and_peak, glm, gp

pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore:documents? have no words"),
]


def sparse(n=300, d=40, seed=0):
    """Few entries, so that loops over non-zeros serve."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.03)
    return sp.csr_matrix(X), X[:, 0] + rng.standard_normal(n)


def halves(X):
    """The same matrix with each entry stored twice."""
    return sp.csr_matrix((np.repeat(X.data / 2, 2), np.repeat(X.indices, 2), 2 * X.indptr), shape=X.shape)


# ---- warnings
@pytest.mark.filterwarnings("always")
def test_warnings_are_about_the_line_that_called():
    """Whatever lies between: scikit-learn's validation of parameters, or none, and calls of ours."""
    with pytest.warns(UserWarning) as caught:
        BayesianGLMRegressor(likelihood="poisson", prior_precision=1.0).fit(np.arange(4.0)[:, None], np.zeros(4))
        BetaProcessFA(2, max_iter=2).fit(TABLE)
        GammaFactorModel(1, noise_variance="auto").partial_fit(TABLE * [1.0, 1.0, 1e3])
        model = StructuredLDA(1, max_iter=2).fit(words := pd.DataFrame(np.ones((4, 2)), columns=["a", "b"]))
        model.transform(words.rename(columns={"b": "c"}))
    assert all(one.filename == __file__ for one in caught)
    assert len({one.lineno for one in caught}) == 5


# ---- sparse matrices
@pytest.mark.parametrize("covariance", ["full", "diag"])
@pytest.mark.parametrize("name", ["BayesianGLMRegressor", "BayesianGLMClassifier", "GMERegressor"])
def test_entries_that_are_stored_twice_are_one(name, covariance):
    X, y = sparse()
    more = {}
    if name.startswith("GME"):
        X, more = sp.hstack([X, np.arange(300)[:, None] % 5 + 1.0], format="csr"), {"groups": [40]}
    y = (y > 0).astype(int) if name.endswith("Classifier") else y
    model = getattr(sksvi, name)(covariance=covariance, prior_precision=1.0, max_iter=20, **more).fit(X, y)
    twice = halves(X)
    kept = twice.copy()
    for one, other in zip(model.predict_latent(X), model.predict_latent(twice), strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-12)
    np.testing.assert_array_equal(twice.indices, kept.indices)
    again = getattr(sksvi, name)(covariance=covariance, prior_precision=1.0, max_iter=20, **more).fit(twice, y)
    np.testing.assert_allclose(again.coef_, model.coef_, rtol=1e-9)


def broken(X, what):
    X = X.copy()
    if what == "beyond":
        X.indices[3] = 10**6
    elif what == "negative":
        X.indices[3] = -1
    else:
        X.indptr[1:3] = X.indptr[1:3][::-1] + np.array([50, 0], X.indptr.dtype)
    return X


@pytest.mark.parametrize("what", ["beyond", "negative", "rows"])
def test_malformed_sparse_matrices_are_refused(what):
    X, y = sparse()
    counts = sp.csr_matrix(np.random.default_rng(0).poisson(1.0, (40, 12)))
    words = CorrelatedTopicModel(n_components=2, max_iter=2, random_state=0).fit(counts)
    glm = BayesianGLMRegressor(max_iter=5).fit(X, y)
    for call in (lambda: glm.predict(broken(X, what)), lambda: glm.fit(broken(X, what), y)):
        with pytest.raises(ValueError, match="X is a sparse matrix whose arrays contradict"):
            call()
    for call in (words.transform, words.fit, words.score):
        with pytest.raises(ValueError, match="X is a sparse matrix whose arrays contradict"):
            call(broken(counts, what))
    coo = X.tocoo()
    coo.row[0] = 10**6
    with pytest.raises(ValueError, match="X is a sparse matrix whose arrays contradict"):
        glm.predict(coo)


# ---- forms of tables
TABLE = np.column_stack([np.linspace(-1, 1, 30), np.sin(np.arange(30.0)), np.arange(30) % 4])
FORMS = {
    "tuples": lambda X: tuple(map(tuple, X.tolist())),
    "other bytes": lambda X: X.astype(">f8"),
    **{form: lambda X, form=form: sp.csr_matrix(X).asformat(form) for form in ("coo", "bsr", "dia", "lil", "csc")},
}


@pytest.mark.parametrize("form", FORMS)
def test_mixed_models_take_tables_of_any_form(form):
    y = TABLE[:, 0] + 0.1 * TABLE[:, 2]
    found = [GMERegressor(groups=[2], max_iter=3).fit(X, y).predict(X) for X in (TABLE, FORMS[form](TABLE))]
    np.testing.assert_allclose(found[1], found[0], atol=1e-6)
    half = GMERegressor(groups=[2], max_iter=3).fit(TABLE.astype(np.float16), y).predict(TABLE.astype(np.float16))
    np.testing.assert_allclose(half, found[0], atol=1e-2)


@pytest.mark.parametrize("X", [TABLE[:, 0], None, 3, {"a": 1}], ids=repr)
def test_mixed_models_say_what_is_no_table(X):
    with pytest.raises(ValueError, match=r"^X"):
        GMERegressor(groups=[0]).fit(X, np.zeros(30))


IDS = np.column_stack([np.arange(24) % 6, np.arange(24) % 5])


@pytest.mark.parametrize("kind", [np.float16, ">i8", ">f8", "S2", "U2", np.longdouble])
def test_ids_of_any_type_are_the_same_ids(kind):
    y = np.sin(np.arange(24.0))
    found = [
        GeneralizedPMF(n_components=1, max_iter=2, random_state=0).fit(X, y).predict(X) for X in (IDS, IDS.astype(kind))
    ]
    np.testing.assert_array_equal(found[1], found[0])


def test_true_is_the_id_one():
    y = np.sin(np.arange(24.0))
    model = GeneralizedPMF(n_components=1, max_iter=2, random_state=0).fit(IDS, y)
    model.partial_fit(IDS[:4] % 2 == 1, y[:4])
    assert len(model.users_) == 6
    with pytest.raises(TypeError, match="complex"):
        model.predict(IDS * 1j)


def test_tables_of_features_that_hold_none():
    y = np.sin(np.arange(24.0))
    for table, words in (
        (pd.DataFrame({"a": []}), "user_features has no rows"),
        (pd.DataFrame({"a": np.arange(6) * 1j}), "column 'a' of type complex"),
        (pd.DataFrame({"a": np.arange(6) * 1e200}), "column 'a' of user_features, row 1"),
    ):
        with pytest.raises(ValueError, match=words):
            GeneralizedPMF(user_features=table).fit(IDS, y)


@pytest.mark.parametrize("library", ["polars", "pyarrow"])
def test_frames_of_other_libraries(library):
    module = pytest.importorskip(library)
    columns = {"x": TABLE[:, 0].tolist(), "site": [f"s{int(k)}" for k in TABLE[:, 2]]}
    frame = module.DataFrame(columns) if library == "polars" else module.table(columns)
    y = TABLE[:, 0]
    found = [GMERegressor(groups=["site"], max_iter=3).fit(X, y).predict(X) for X in (pd.DataFrame(columns), frame)]
    np.testing.assert_array_equal(found[1], found[0])


# ---- magnitudes
def test_one_huge_count_does_not_cost_the_model():
    X = pd.DataFrame({"x": TABLE[:, 0], "site": TABLE[:, 2]})
    y = np.arange(30) % 3
    model = GMERegressor(groups=["site"], likelihood="poisson", algorithm="cvi", max_iter=5).fit(X, y)
    before = model.predict(X)
    for huge in (1e200, 1e300, 1e-310):
        with pytest.raises(ValueError, match=r"Poisson needs y 0 or from 1e-100 to .* in row 4"):
            model.partial_fit(X, np.where(np.arange(30) == 4, huge, y))
        with pytest.raises(ValueError, match=r"Poisson needs y 0 or from"):
            model.log_predictive_density(X, np.where(np.arange(30) == 4, huge, y))
    np.testing.assert_array_equal(model.predict(X), before)


def test_magnitudes_are_limited_where_they_come_in():
    y = np.arange(30) % 3
    model = BayesianGLMRegressor(likelihood="poisson", max_iter=5).fit(TABLE, y)
    with pytest.raises(ValueError, match=r"column 0 of X, row 0: -1e\+150"):
        model.predict_interval(TABLE * 1e150)
    labels = BayesianGLMClassifier(max_iter=5).fit(TABLE, y)
    with pytest.raises(ValueError, match=r"the latent f of row 0 .* X \(or offset\)"):
        labels.decision_function(TABLE * 1e90)
    with pytest.raises(ValueError, match="y, row 0"):
        BayesianGLMRegressor(likelihood="ordinal").fit(TABLE, 1e300 * (1 + y))
    with pytest.raises(ValueError, match=r"X, row 0: .* in the fit's unit"):
        BetaProcessFA(n_components=2, max_iter=2).fit(TABLE).transform(TABLE * 1e140)
    with pytest.raises(ValueError, match=r"offset, row 0: 1e\+20"):
        model.predict(TABLE, offset=np.full(30, 1e20))
    with pytest.raises(ValueError, match="sample_weight must be 0 or lie between"):
        model.score(TABLE, y, sample_weight=np.full(30, 1e-310))
    with pytest.raises(ValueError, match="'intercept_precision' parameter"):
        BayesianGLMRegressor(intercept_precision=1e-300).fit(TABLE, y)


def test_weights_of_zero_are_refused_in_scores():
    y = np.arange(30) % 2
    for model in (BayesianGLMClassifier(max_iter=5), BayesianGLMRegressor(max_iter=5), GPClassifier(max_iter=2)):
        model.fit(TABLE, y)
        with pytest.raises(ValueError, match="sample_weight is zero in every row"):
            model.score(TABLE, y, sample_weight=np.zeros(30))
        with pytest.raises(ValueError, match=r"Negative values.*sample_weight"):
            model.score(TABLE, y, sample_weight=-np.ones(30))


def test_labels_of_another_kind_are_named():
    X, y = TABLE, np.arange(30) % 2
    model = BayesianGLMClassifier(max_iter=5).fit(X, y)
    words = pd.Series(["low", "high"] * 15)
    with pytest.raises(ValueError, match="labels that the first call did not name: \\['high', 'low'\\]"):
        model.partial_fit(X, words)
    with pytest.raises(ValueError, match="y has labels such as 'low'"):
        model.score(X, words)
    with pytest.raises(ValueError, match=r"^y"):
        model.fit(X, y * 1e200)


# ---- counts beyond the digits of floats
@pytest.mark.costly
@pytest.mark.parametrize("likelihood", [Poisson(), NegativeBinomial(dispersion=0.3)], ids=repr)
def test_intervals_of_huge_counts_do_not_cross(likelihood):
    m = np.linspace(35, 60, 26)
    for variance in (0.0, 1e-12, 1.0):
        for predictive in (
            Predictive(likelihood, m, np.full(26, variance)),
            NoisyPredictive(likelihood, m[::6], np.full(5, variance), 0.5),
        ):
            assert np.all(np.diff(predictive.quantile([0.05, 0.5, 0.95]), axis=1) >= 0)


def test_quantiles_of_huge_counts_are_those_of_their_rate():
    """Beside a rate that is uncertain, the noise of a Poisson count of 1e17 and more is nothing."""
    m, q = np.array([40.0, 100.0, 700.0]), np.array([0.05, 0.5, 0.8])
    found = Predictive(Poisson(), m, np.ones(3)).quantile(q)
    np.testing.assert_allclose(found, np.exp(m[:, None] + ndtri(q)), rtol=1e-6)


# ---- memory
BIG = [
    (lambda: BayesianGLMRegressor(), np.ones((30, 3)), "covariance='full'.*set covariance='diag'"),
    (lambda: GMERegressor(groups=[2]), TABLE, "covariance='full'.*set covariance='diag'"),
    (lambda: GPClassifier(), TABLE, "between 30 rows.*SparseGPClassifier"),
    (lambda: SparseGPRegressor(n_inducing=20), TABLE, "20 inducing points.*lower n_inducing"),
    (lambda: GeneralizedPMF(n_components=9), IDS, "n_components=9 for 11 users and items.*covariance='diag'"),
    (lambda: BetaProcessFA(n_components=9), TABLE, "n_components=9 for 3 columns.*lower n_components"),
    (lambda: GammaFactorModel(n_components=9), TABLE, "n_components=9 for 3 columns.*lower n_components"),
    (lambda: CorrelatedTopicModel(n_components=9), np.ones((9, 4)), "n_components=9 for 4 words.*lower n_components"),
]


@pytest.mark.parametrize(("make", "X", "words"), BIG, ids=[row[2][:20] for row in BIG])
def test_too_little_memory_is_said_before_work(make, X, words, monkeypatch):
    monkeypatch.setattr(memory, "SMALL", 0)
    monkeypatch.setattr(memory, "available", lambda: 100.0)
    model = make()
    before = dict(vars(model))
    with pytest.raises(ValueError, match=f"{words}|GiB.*{words.split('.*')[-1]}") as caught:
        model.fit(X, np.arange(len(X)) % 2)
    assert "GiB of memory" in str(caught.value)
    assert vars(model) == before


def test_a_wide_sparse_table_is_refused_at_once():
    """20,000 rows and 200,000 columns: rows among each other would take 3 GB, several times."""
    rows = np.arange(2000)
    X = sp.csr_array((np.ones(2000), (rows, 100 * rows)), shape=(2000, 200_000))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(memory, "available", lambda: 1e8)
        with pytest.raises(ValueError, match=r"2000 rows.*GiB.*set covariance='diag'"):
            BayesianGLMRegressor(covariance="full").fit(X, np.arange(2000.0))


def test_a_stream_takes_the_memory_of_all_columns_and_a_fit_that_of_its_rows(monkeypatch):
    """A second fit too: that there was a first one says nothing of where coefficients lie."""
    X = np.eye(5, 60)
    monkeypatch.setattr(memory, "SMALL", 0)
    monkeypatch.setattr(memory, "available", lambda: 2e5)  # enough for 5 rows, not for 61 coefficients
    model = BayesianGLMRegressor(prior_precision=1.0).fit(X, np.arange(5.0)).fit(X, np.arange(5.0))
    for one in (model, BayesianGLMRegressor(prior_precision=1.0)):
        with pytest.raises(ValueError, match="61 coefficients"):
            one.partial_fit(X, np.arange(5.0))


@pytest.mark.costly
@pytest.mark.parametrize(
    "case",
    [
        glm(400, 350),
        glm(400, 120, 3),
        gp(SparseGPClassifier(n_inducing=200, random_state=0), 250, 2),
        gp(SparseGPRegressor(n_inducing=50, random_state=0), 10_000),
    ],
    ids=["glm", "classes", "labels by a process", "many rows of a process"],
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_fit_takes_what_it_says(case):
    """Processes: with their search for a kernel."""
    estimate_and_peak(*case)  # what is imported and cached once
    asked, took = estimate_and_peak(*case)
    assert 1 / MAX_RATIO < took / asked < MAX_RATIO


def test_what_is_available_is_a_number():
    assert memory.available() > 1e6
    memory.need(1e7, "ten megabytes", "nothing")
