"""Bad input: a clear error that changes nothing, or finite and correct numbers."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone

import sksvi
from sksvi import BayesianGLMClassifier, BayesianGLMRegressor
from sksvi.algorithms import VARIATIONAL
from sksvi.likelihoods import Gaussian, Ordinal
from tests.cases import REGRESSORS

REGRESSORS = [name for name in REGRESSORS if name != "binomial"]


@pytest.fixture
def rng(global_random_seed):
    return np.random.default_rng(global_random_seed)


@pytest.fixture
def X(rng):
    return rng.standard_normal((60, 3))


def target(likelihood, X, rng):
    f = X[:, 0] / np.std(X[:, 0])
    if likelihood in ("gaussian", "student-t"):
        return f + 0.3 * rng.standard_normal(len(X))
    if likelihood in ("logit", "probit", "binary"):
        return (f + rng.logistic(size=len(X)) > 0) * 1.0
    if likelihood == "ordinal":
        return np.digitize(f + rng.logistic(size=len(X)), [-0.7, 0.7]) * 1.0
    return rng.poisson(np.exp(0.5 * f)) * 1.0


#: What these data are is what a fit finds of them; `test_degenerate.py` tests what is said.
FOUND = [
    pytest.mark.filterwarnings("ignore:y is .* in (all|every)"),
    pytest.mark.filterwarnings("ignore:a combination of columns, mostly"),
    pytest.mark.filterwarnings("ignore:degrees of freedom"),
]


def found(test):
    """A test whose data are degenerate by intent."""
    for mark in FOUND:
        test = mark(test)
    return test


def effects(model):
    """The rows of a summary that are about effects, and what it says of them."""
    table = model.summary()
    assert table["direction"].dropna().between(0.5, 1.0).all()
    return table.drop(index=model.likelihood_.reported, errors="ignore").drop(columns="direction")


def assert_finite(model, X, y=None, **arguments):
    """Every number that users can ask for."""
    evidence = model.lower_bound_ if hasattr(model, "lower_bound_") else model.loo_
    out = [model.coef_, model.coef_std_, model.intercept_, evidence, model.lower_bounds_]
    # Parameters of the likelihood are points, whose spread may be unknown; without one there is no sign to ask for.
    out += [effects(model).to_numpy(float), model.summary()["mean"].to_numpy(), *model.predict_latent(X, **arguments)]
    if isinstance(model, BayesianGLMClassifier):
        out += [model.predict_proba(X, **arguments), model.decision_function(X, **arguments)]
    else:
        out += [model.predict(X, **arguments), model.predict_interval(X, **arguments)]
    if y is not None:
        out.append(model.log_predictive_density(X, y, **arguments))
    assert all(np.all(np.isfinite(values)) for values in out)
    assert np.all(model.coef_std_ >= 0)


def refused(model, message, X, y, *, error=ValueError, method="fit", **arguments):
    """The call raises, its message matches, and the estimator is as it was."""
    before = dict(vars(model))
    with pytest.raises(error, match=message):
        getattr(model, method)(X, y, **arguments)
    assert vars(model) == before


# ---- errors


@pytest.mark.parametrize("fitted", [False, True])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_numbers_that_are_not_finite(bad, fitted, X, rng):
    y = target("gaussian", X, rng)
    model = BayesianGLMRegressor(prior_precision=1.0)
    if fitted:
        model.fit(X, y)
    wrong = X.copy()
    wrong[3, 1] = bad
    refused(model, "X contains (NaN|inf)", wrong, y)
    refused(model, "X contains (NaN|inf)", sp.csr_matrix(wrong), y)
    refused(model, "y contains (NaN|inf)", X, np.where(np.arange(60) == 3, bad, y))
    refused(model, "sample_weight contains (NaN|inf)", X, y, sample_weight=np.where(np.arange(60) == 3, bad, 1.0))
    refused(model, "offset contains (NaN|inf)", X, y, offset=np.where(np.arange(60) == 3, bad, 1.0))
    refused(model, "X contains (NaN|inf)", wrong, y, method="partial_fit")
    if fitted:
        for method in (model.predict, model.predict_latent, model.sample_y):
            with pytest.raises(ValueError, match="X contains"):
                method(wrong)
        refused(model, "y contains (NaN|inf)", X, np.full(60, bad), method="score")
        refused(model, "y contains (NaN|inf)", X, np.full(60, bad), method="log_predictive_density")


@pytest.mark.parametrize(
    ("likelihood", "value", "text"),
    [
        ("poisson", -1.0, "Poisson needs y >= 0; found -1 in row 3"),
        ("poisson-softplus", -1.0, "Poisson needs y >= 0; found -1 in row 3"),
        ("negative-binomial", -0.5, "NegativeBinomial needs y >= 0; found -0.5 in row 3"),
        ("logit", 2.0, r"Bernoulli needs y in \{0, 1\}; found 2 in row 3"),
        ("probit", 0.5, r"Bernoulli needs y in \{0, 1\}; found 0.5 in row 3"),
    ],
)
def test_targets_outside_the_support(likelihood, value, text, X, rng):
    y = target(likelihood, X, rng)
    wrong = np.where(np.arange(60) == 3, value, y)
    model = BayesianGLMRegressor(likelihood=likelihood, prior_precision=1.0)
    refused(model, text, X, wrong)
    refused(model.fit(X, y), text, X, wrong)
    for method in ("partial_fit", "score", "log_predictive_density"):
        refused(model, text, X, wrong, method=method)


def test_binomial_pairs(X):
    model = BayesianGLMRegressor(likelihood="binomial")
    refused(model, "shape", X, np.ones(60))
    refused(model, "shape", X, np.ones((60, 3)))
    refused(
        model, "successes and failures >= 0; found .* in row 7", X, np.where(np.arange(60)[:, None] == 7, -1.0, [1, 2])
    )
    refused(BayesianGLMRegressor(), "1d array", X, np.ones((60, 2)))


def test_a_single_class_or_level(X, rng):
    refused(BayesianGLMClassifier(), "only one class: 'a'", X, np.full(60, "a"))
    y = target("binary", X, rng)
    refused(BayesianGLMClassifier(), "only one class", X, y, sample_weight=y)
    refused(BayesianGLMRegressor(likelihood="ordinal"), "at least two levels; it contains only 3", X, np.full(60, 3.0))
    refused(
        BayesianGLMRegressor(likelihood=Ordinal(cut_points=[0.0, 1.0, 2.0])), "4 levels; y has 3", X, np.arange(60) % 3
    )
    model = BayesianGLMClassifier()
    refused(model, "class", X, y, method="partial_fit", classes=[1.0])
    refused(model, "classes must be passed", X, y, method="partial_fit")
    refused(BayesianGLMClassifier(), "[Cc]ontinuous|real-valued", X, rng.standard_normal(60))


def test_wrong_shapes(X, rng):
    y = target("gaussian", X, rng)
    model = BayesianGLMRegressor(prior_precision=1.0).fit(X, y)
    refused(model, r"2 features.*expecting 3 features", X[:, :2], y, method="partial_fit")
    with pytest.raises(ValueError, match="2 features"):
        model.predict(X[:, :2])
    refused(model, "inconsistent numbers of samples", X, y[:50])
    refused(model, "inconsistent numbers of samples", X[:50], y, method="log_predictive_density")
    refused(model, "inconsistent numbers of samples", X[:50], y, method="score")
    refused(model, r"sample_weight.shape == \(50,\), expected \(60,\)", X, y, sample_weight=np.ones(50))
    refused(model, r"offset.shape == \(60, 2\), expected \(60,\)", X, y, offset=np.ones((60, 2)))
    with pytest.raises(ValueError, match=r"offset.shape"):
        model.predict(X, offset=np.ones(3))
    refused(model, "Expected 2D array", X[0], y[:1])
    refused(model, "0 sample", X[:0], y[:0])
    refused(model, "0 feature", X[:, :0], y)
    with pytest.raises(ValueError, match="labels"):
        BayesianGLMClassifier().fit(X, target("binary", X, rng)).log_predictive_density(X, np.full(60, 7))


def test_weights(X, rng):
    y = target("binary", X, rng)
    negative = {"sample_weight": np.where(np.arange(60) == 5, -2.0, 1.0)}
    nothing = {"sample_weight": np.zeros(60)}
    for model in (BayesianGLMClassifier(), BayesianGLMRegressor()):
        for method in ("fit", "partial_fit"):
            streams = method == "partial_fit" and isinstance(model, BayesianGLMClassifier)
            call = {"method": method, **({"classes": [0.0, 1.0]} if streams else {})}
            refused(model, "Negative values .*`sample_weight`: found -2 in row 5", X, y, **call, **negative)
            refused(model, "sample_weight is zero in every row", X, y, **call, **nothing)
    model = BayesianGLMRegressor().fit(X, y)
    refused(model, "Negative values", X, y, method="score", sample_weight=-np.ones(60))
    refused(model, "sample_weight is zero", X, y, method="score", sample_weight=np.zeros(60))


@pytest.mark.parametrize(
    ("name", "value", "valid"),
    [
        ("algorithm", "sgd", "'cvi'"),
        ("expectation", "laplace", "'gauss-hermite'"),
        ("covariance", "dense", "'diag'"),
        ("likelihood", "gama", "'poisson'"),
        ("likelihood", "softmax", "'poisson'"),
        ("prior_precision", "learn", "'ard'"),
        ("prior_precision", -1.0, "prior_precision"),
        ("intercept_precision", 0.0, "intercept_precision"),
        ("batch_size", 0, "batch_size"),
        ("batch_size", "all", "batch_size"),
        ("max_iter", 0, "max_iter"),
        ("tol", -1.0, "tol"),
        ("total_samples", 0, "total_samples"),
        ("n_jobs", 1.5, "n_jobs"),
        ("warm_start", "yes", "warm_start"),
    ],
)
def test_parameters(name, value, valid, X, rng):
    y = target("poisson", X, rng)
    model = BayesianGLMRegressor(**{name: value})
    refused(model, f"'{name}' parameter of BayesianGLMRegressor must be.*{valid if valid != name else ''}", X, y)
    refused(model, f"'{name}' parameter", X, y, method="partial_fit")


def test_prior_per_feature(X, rng):
    y = target("gaussian", X, rng)
    refused(BayesianGLMRegressor(prior_precision=[1.0, 2.0]), r"prior_precision.shape == \(2,\), expected \(3,\)", X, y)
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    refused(BayesianGLMRegressor(prior_precision=[1.0, -2.0, 1.0]), "found -2 for column 'b'", frame, y)
    refused(BayesianGLMRegressor(prior_precision=[1.0, np.nan, 1.0]), "prior_precision contains NaN", X, y)


def test_what_cannot_go_together(X, rng):
    y = target("poisson", X, rng)
    refused(BayesianGLMRegressor(algorithm="fp", batch_size=10), "algorithm='fp'.*batch_size=10", X, y)
    refused(BayesianGLMRegressor(algorithm="fp", expectation="monte-carlo"), "algorithm='fp'.*monte-carlo", X, y)
    refused(BayesianGLMClassifier(likelihood=Gaussian()), "does not describe labels", X, y > 1)
    refused(BayesianGLMClassifier(likelihood="poisson"), "'logit'", X, y > 1)
    refused(
        BayesianGLMClassifier(likelihood="probit"), "Only binary classification is supported.", X, np.arange(60) % 3
    )


@pytest.mark.parametrize("value", [0.0, 1.0, -0.5, 2.0])
def test_coverage_and_quantiles(value, X, rng):
    model = BayesianGLMRegressor().fit(X, target("gaussian", X, rng))
    for call in (model.predict_interval, lambda X, coverage: sksvi.predict_interval(model, X, coverage=coverage)):
        with pytest.raises(ValueError, match="coverage"):
            call(X, coverage=value)
    with pytest.raises(ValueError, match="coverage"):
        model.summary(coverage=value)
    with pytest.raises(ValueError, match=r"\(0, 1\)"):
        model.predict_quantiles(X, [0.5, value])
    with pytest.raises(ValueError, match="number of samples"):
        model.sample_y(X, n_samples=0)


def test_an_impossible_step_names_the_column(rng):
    """Two columns that differ by roundings, hardly any prior: no digit of their difference is known."""
    X = rng.standard_normal((200, 3))
    X[:, 2] = X[:, 1]
    frame = pd.DataFrame(1e5 * X, columns=["age", "income", "income again"])
    model = BayesianGLMRegressor(likelihood=Gaussian(variance=1e-6), prior_precision=1e-14)
    refused(model, "block 'weights', pass 1:.*column 'income again'.*prior_precision", frame, X[:, 0])


# ---- finite, correct numbers


@pytest.mark.parametrize("likelihood", REGRESSORS)
@pytest.mark.parametrize("size", [30.0, 700.0, 1e4])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore:the intercept lies")
@pytest.mark.filterwarnings("ignore:prior_precision=.* the data contradict it:UserWarning")
@pytest.mark.filterwarnings("ignore:Student's t has")
@pytest.mark.filterwarnings("ignore:y varies .* times as much as:UserWarning")  # offsets that y knows nothing of
def test_huge_latents(likelihood, size, X, rng):
    """Offsets take f to either side as far as 1e4."""
    y = target(likelihood, X, rng)
    offset = np.where(np.arange(60) % 2 == 0, size, -size)
    model = BayesianGLMRegressor(likelihood=likelihood, prior_precision=1.0, max_iter=50)
    try:
        model.fit(X, y, offset=offset)
    except ValueError as error:
        assert "pass" in str(error) or "finite" in str(error)
        assert not hasattr(model, "coef_")
    else:
        assert_finite(model, X, offset=offset)
    model = BayesianGLMRegressor(likelihood=likelihood, prior_precision=1.0).fit(X, y)
    assert_finite(model, X, offset=offset)


@pytest.mark.parametrize("algorithm", sorted(VARIATIONAL))
@pytest.mark.parametrize("scale", [1e150, 1e-150])
@pytest.mark.parametrize("likelihood", ["gaussian", "logit", "poisson"])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_scales_of_X(algorithm, scale, likelihood, X, rng):
    y = target(likelihood, X, rng)
    for prior in ("auto", 1.0):
        model = BayesianGLMRegressor(
            likelihood=likelihood, algorithm=algorithm, prior_precision=prior, random_state=0, max_iter=30
        )
        try:
            model.fit(scale * X, y)
        except ValueError as error:
            assert "column" in str(error) or "pass" in str(error), error
        else:
            assert_finite(model, scale * X, y)


@pytest.mark.parametrize("covariance", ["full", "diag"])
@pytest.mark.parametrize("likelihood", REGRESSORS)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_constant_and_duplicated_columns(likelihood, covariance, X, rng):
    y = target(likelihood, X, rng)
    odd = np.column_stack([X, np.zeros(60), np.ones(60), X[:, 0], np.full(60, -3.5)])
    model = BayesianGLMRegressor(likelihood=likelihood, covariance=covariance, prior_precision=1.0).fit(odd, y)
    assert_finite(model, odd, y)
    assert model.coef_[3] == 0.0 and model.coef_std_[3] == pytest.approx(1.0)
    if covariance == "full":
        assert model.coef_[0] == pytest.approx(model.coef_[5], abs=1e-8)
    zeros = BayesianGLMRegressor(likelihood=likelihood, covariance=covariance).fit(np.zeros((60, 2)), y)
    assert_finite(zeros, np.zeros((60, 2)), y)


@pytest.mark.costly
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("algorithm", sorted(VARIATIONAL))
@found
def test_one_row_and_few_rows(algorithm, rng):
    for n in (1, 2):
        X, y = rng.standard_normal((n, 5)), np.arange(n) + 1.0
        for likelihood in ("gaussian", "poisson", "student-t", "negative-binomial"):
            model = BayesianGLMRegressor(likelihood=likelihood, algorithm=algorithm, random_state=0).fit(X, y)
            assert_finite(model, X, y)
    model = BayesianGLMClassifier(algorithm=algorithm, random_state=0).fit(X, y)
    assert_finite(model, X, y)
    assert_finite(BayesianGLMRegressor(algorithm=algorithm, random_state=0).fit(np.zeros((2, 5)), y), X)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_many_more_columns_than_rows(rng):
    X = rng.standard_normal((12, 1000))
    y = target("gaussian", X, rng)
    for container in (np.asarray, sp.csr_matrix):
        for model in (
            BayesianGLMRegressor(),
            BayesianGLMRegressor(covariance="diag"),
            BayesianGLMRegressor(likelihood="student-t"),
            BayesianGLMClassifier(),
        ):
            labels = y > np.median(y) if isinstance(model, BayesianGLMClassifier) else y
            assert_finite(model.fit(container(X), labels), container(X), labels)


@pytest.mark.costly
@pytest.mark.parametrize("algorithm", sorted(VARIATIONAL))
@pytest.mark.parametrize("n_classes", [pytest.param(2, marks=pytest.mark.exhaustive), 3])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@found
def test_separable_classes(algorithm, n_classes, rng):
    y = np.repeat(np.arange(n_classes), 20)
    X = 5.0 * np.eye(3)[y] + 0.1 * rng.standard_normal((20 * n_classes, 3))
    for prior in ("auto", 1e-4):
        model = BayesianGLMClassifier(algorithm=algorithm, prior_precision=prior, random_state=0, max_iter=40).fit(X, y)
        assert_finite(model, X, y)
        assert model.score(X, y) == 1.0


@pytest.mark.costly
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@found
def test_exactly_linear_targets(rng):
    X = rng.standard_normal((60, 3))
    for y in (2 * X[:, 0] - X[:, 1] + 5, np.full(60, 7.5), np.zeros(60), 1e-12 * X[:, 0]):
        for likelihood in ("gaussian", "student-t"):
            model = BayesianGLMRegressor(likelihood=likelihood).fit(X, y)
            assert_finite(model, X, y)
            assert np.max(np.abs(model.predict(X) - y)) <= 1e-3 * np.max(np.abs(y)) + 1e-15


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("likelihood", ["logit", "poisson", "negative-binomial", "student-t"])
@pytest.mark.parametrize("shift", [1e8, 1e12])
def test_a_column_far_from_zero(likelihood, shift, X, rng):
    """A column like a time stamp: an error that names it, or the posterior, in which the intercept cannot follow it."""
    y = target(likelihood, X, rng)
    frame = pd.DataFrame(X + np.array([0.0, shift, 0.0]), columns=["a", "time stamp", "b"])
    without = BayesianGLMRegressor(likelihood=likelihood, prior_precision=1.0, intercept_precision=1.0, tol=1e-8)
    model = clone(without)
    without.fit(X[:, [0, 2]], y)
    try:
        model.fit(frame, y)
    except ValueError as error:
        assert "time stamp" in str(error)
    else:
        assert_finite(model, frame, y)
        # Its weight takes the intercept's part at almost no price: what is left is a free intercept.
        free = clone(without).set_params(intercept_precision=1e-8).fit(X[:, [0, 2]], y)
        np.testing.assert_allclose(model.predict_latent(frame), free.predict_latent(X[:, [0, 2]]), rtol=0.02, atol=1e-3)


@pytest.mark.parametrize("shift", [1e4, 1e6, 1e8])
def test_a_shifted_column_of_a_gaussian_is_exact(shift, X, rng):
    y = target("gaussian", X, rng)
    frame = pd.DataFrame(X + np.array([0.0, shift, 0.0]), columns=["a", "time stamp", "b"])
    model = BayesianGLMRegressor(likelihood=Gaussian(variance=0.1), prior_precision=1.0, intercept_precision=1.0)
    try:
        model.fit(frame, y)
    except ValueError as error:
        assert "time stamp" in str(error)
        return
    A = [[Fraction(float(value)) for value in (*row, 1.0)] for row in frame.to_numpy()]
    system = [[sum(r[i] * r[j] for r in A) * 10 + (i == j) for j in range(4)] for i in range(4)]
    mean = solved(system, [sum(r[i] * Fraction(float(t)) for r, t in zip(A, y)) * 10 for i in range(4)])
    # In exact arithmetic, but for 1/0.1 != 10 in floats.
    np.testing.assert_allclose(np.append(model.coef_, model.intercept_), mean, rtol=1e-4, atol=1e-14)


def solved(A, b):
    """Gauss's elimination in exact fractions."""
    rows = [[*row, value] for row, value in zip(A, b, strict=True)]
    for i in range(len(rows)):
        rows[i] = [value / rows[i][i] for value in rows[i]]
        for j in range(len(rows)):
            if j != i:
                rows[j] = [u - rows[j][i] * v for u, v in zip(rows[j], rows[i], strict=True)]
    return [float(row[-1]) for row in rows]


def test_forms_of_X(X, rng, tmp_path):
    y = target("gaussian", X, rng)
    whole = np.round(30 * X).astype(np.int8)
    # Only dense columns are centred, so that the intercept's default prior is about another point.
    settings = {"prior_precision": 1.0, "intercept_precision": 1e-4}
    expected = BayesianGLMRegressor(**settings).fit(whole.astype(float), y)
    file = np.memmap(tmp_path / "X", dtype=np.float64, mode="w+", shape=X.shape)
    file[:] = whole
    file.flush()
    read_only = np.memmap(tmp_path / "X", dtype=np.float64, mode="r", shape=X.shape)
    wide_index = sp.csr_matrix(whole.astype(float))
    wide_index.indices, wide_index.indptr = wide_index.indices.astype(np.int64), wide_index.indptr.astype(np.int64)
    unsorted = sp.csr_matrix(whole[:, ::-1].astype(float))[:, ::-1]
    forms = [
        whole,
        read_only,
        wide_index,
        np.asfortranarray(whole),
        whole.astype(object),
        whole.astype(np.float64)[::1],
    ]
    for form in [*forms, unsorted, sp.csr_matrix(whole), whole.tolist(), pd.DataFrame(whole)]:
        model = BayesianGLMRegressor(**settings).fit(form, y)
        np.testing.assert_allclose(model.coef_, expected.coef_, rtol=1e-8)
        np.testing.assert_allclose(model.predict(form), expected.predict(whole.astype(float)), rtol=1e-8)
    for covariance in ("full", "diag"):
        model = BayesianGLMRegressor(**settings, covariance=covariance)
        dense = clone(model).fit(np.hstack([whole, np.zeros((60, 200))]).astype(float), y)
        big = sp.hstack([wide_index, sp.csr_matrix((60, 200))]).tocsr()
        big.indices, big.indptr = big.indices.astype(np.int64), big.indptr.astype(np.int64)
        np.testing.assert_allclose(model.fit(big, y).coef_, dense.coef_, rtol=1e-6, atol=1e-12)


@pytest.mark.filterwarnings("ignore:y varies .* times as much as:UserWarning")  # by offsets that y knows nothing of
@pytest.mark.filterwarnings("ignore:sample_weight says how many rows")
def test_inputs_are_left_alone(X, rng):
    y = target("poisson", X, rng)
    weight, offset = rng.uniform(0, 2, 60), rng.standard_normal(60)
    given = [X, y, weight, offset, sp.csr_matrix(X)]
    before = [a.copy() for a in given]
    for data in (X, given[4]):
        model = BayesianGLMRegressor(likelihood="poisson").fit(data, y, weight, offset)
        model.partial_fit(data, y, weight, offset).score(data, y, weight, offset)
    for now, then in zip(given[:4], before[:4], strict=True):
        np.testing.assert_array_equal(now, then)
    assert (given[4] != before[4]).nnz == 0


def test_extreme_weights(X, rng):
    y = target("gaussian", X, rng)
    for scale in (1e-8, 1e8):
        settings = {"prior_precision": 1.0, "intercept_precision": 1e-4}
        model = BayesianGLMRegressor(likelihood=Gaussian(variance=1.0), **settings)
        model.fit(X, y, sample_weight=np.full(60, scale))
        A = np.column_stack([X, np.ones(60)])
        exact = np.linalg.solve(np.diag([1, 1, 1, 1e-4]) + scale * A.T @ A, scale * A.T @ y)
        np.testing.assert_allclose(np.append(model.coef_, model.intercept_), exact, rtol=1e-5, atol=1e-10)


# A step that is taken back may overflow on its way.
@pytest.mark.filterwarnings("ignore:overflow encountered")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("likelihood", REGRESSORS)
@found
@pytest.mark.filterwarnings("ignore:y varies .* times as much as:UserWarning")
def test_extreme_targets(likelihood, X, rng):
    y = target(likelihood, X, rng)
    if likelihood in ("gaussian", "student-t"):
        targets = [1e140 * y, 1e-140 * y, np.where(np.arange(60) == 0, 1e12, y)]
    elif likelihood in ("poisson", "poisson-softplus", "negative-binomial"):
        targets = [np.zeros(60), np.where(np.arange(60) == 0, 1e3, y), 1e4 * y, 1e-9 * y]
    elif likelihood == "ordinal":
        targets = [np.arange(60.0) % 30, np.where(np.arange(60) == 0, 1e6, y)]
    else:
        targets = [np.zeros(60), np.ones(60)]
    for extreme in targets:
        model = BayesianGLMRegressor(likelihood=likelihood, max_iter=60)
        try:
            model.fit(X, extreme)
        except ValueError as error:
            assert "pass" in str(error) or "another unit" in str(error)
        else:
            assert_finite(model, X, extreme)
