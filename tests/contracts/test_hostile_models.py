"""Bad input for mixed effects and Gaussian processes: a clear error that changes nothing, or finite numbers."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import is_classifier

from sksvi import GMEClassifier, GMERegressor, GPClassifier, SparseGPClassifier, SparseGPRegressor
from sksvi.gaussian_process._start import hyperparameters
from sksvi.likelihoods import Gaussian
from tests.contracts.test_hostile import refused

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

#: Few passes: nothing here depends on how good a fit is.
NOISY = {"noise": True, "bound": "simple", "max_iter": 15}
MODELS = {
    "GMERegressor": lambda **o: GMERegressor(**NOISY | {"likelihood": "poisson"} | o),
    "GMEClassifier": lambda **o: GMEClassifier(**NOISY | o),
    "SparseGPRegressor": lambda **o: SparseGPRegressor(**{"n_inducing": 8, "max_iter": 15, "random_state": 0} | o),
    "SparseGPClassifier": lambda **o: SparseGPClassifier(**{"n_inducing": 8, "max_iter": 15, "random_state": 0} | o),
    "GPClassifier": lambda **o: GPClassifier(**{"max_iter": 15} | o),
}
EVERY = pytest.mark.parametrize("name", MODELS)
LABELS = pytest.mark.parametrize("name", [name for name in MODELS if name.endswith("Classifier")])
GP = pytest.mark.parametrize("name", [name for name in MODELS if "GP" in name])
GROUPED = pytest.mark.parametrize("name", [name for name in MODELS if name.startswith("GME")])


@pytest.fixture
def rng(global_random_seed):
    return np.random.default_rng([global_random_seed, 31])


@pytest.fixture
def X(rng):
    return rng.standard_normal((40, 2))


def target(name, X, rng):
    """Labels, counts or measurements of the first column."""
    if name.endswith("Classifier"):
        f = X[:, 0] + rng.standard_normal(len(X))  # no plane tells forty of these apart, of which a fit would warn
        return (f > np.median(f)).astype(int)
    f = X[:, 0] + 0.3 * rng.standard_normal(len(X))
    return rng.poisson(np.exp(np.clip(0.5 * f, -3, 3))) * 1.0 if name.startswith("GME") else f


def assert_finite(model, X, y):
    """Every number that users can ask for."""
    table = model.summary()
    # Points without a standard deviation, rows without a sign.
    table = table.drop(columns="direction", errors="ignore").drop(index=model.likelihood_.reported, errors="ignore")
    if hasattr(model, "kernel_"):
        points = hyperparameters(model.kernel_, getattr(model, "feature_names_in_", None))[0]
        table = table.drop(index=[*points, "noise_variance"], errors="ignore")
    out = [model.lower_bound_, model.lower_bounds_, table.to_numpy(float), model.summary()["mean"]]
    out += model.predict_latent(X)
    out.append(model.predict_proba(X) if is_classifier(model) else model.predict_interval(X))
    out.append(model.log_predictive_density(X, y))
    assert all(np.all(np.isfinite(values)) for values in out)


def assert_fits_or_refuses(model, X, y, *words):
    """Finite numbers, or an error that has one of these words and leaves nothing behind."""
    before = dict(vars(model))
    try:
        model.fit(X, y)
    except ValueError as error:
        assert any(word in str(error) for word in words), error
        assert vars(model) == before
    else:
        assert_finite(model, X, y)


# ---- errors
@EVERY
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_numbers_that_are_not_finite(name, bad, X, rng):
    y = target(name, X, rng)
    model = MODELS[name]().fit(X, y)
    wrong = np.where(np.arange(40)[:, None] == 3, bad, X)
    third = np.arange(40) == 3
    refused(model, "X contains (NaN|inf)", wrong, y)
    refused(model, "sample_weight contains (NaN|inf)", X, y, sample_weight=np.where(third, bad, 1.0))
    refused(model, "offset contains (NaN|inf)", X, y, offset=np.where(third, bad, 0.0))
    refused(model, "y contains (NaN|inf)", X, np.where(third, bad, y))
    for method in (model.predict, model.predict_latent):
        with pytest.raises(ValueError, match="X contains"):
            method(wrong)
    if hasattr(model, "partial_fit"):
        refused(model, "X contains (NaN|inf)", wrong, y, method="partial_fit")


@EVERY
def test_wrong_shapes_and_weights(name, X, rng):
    y = target(name, X, rng)
    model = MODELS[name]().fit(X, y)
    with pytest.raises(ValueError, match=r"1 features, but .* is expecting 2 features"):
        model.predict(X[:, :1])
    refused(model, "inconsistent numbers of samples", X, y[:30])
    refused(model, r"sample_weight.shape == \(30,\), expected \(40,\)", X, y, sample_weight=np.ones(30))
    refused(model, r"offset.shape == \(30,\), expected \(40,\)", X, y, offset=np.ones(30))
    refused(
        model,
        "Negative values .*`sample_weight`: found -2 in row 5",
        X,
        y,
        sample_weight=1 - 3.0 * (np.arange(40) == 5),
    )
    refused(model, "sample_weight is zero in every row", X, y, sample_weight=np.zeros(40))
    refused(model, "0 sample", X[:0], y[:0])
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        model.log_predictive_density(X, y[:30])
    if hasattr(model, "partial_fit"):
        refused(model, "1 features.*expecting 2 features", X[:, :1], y, method="partial_fit")


@LABELS
def test_labels(name, X, rng):
    refused(MODELS[name](), "only one class: 'a'", X, np.full(40, "a"))
    y = target(name, X, rng)
    refused(MODELS[name](), "only one class", X, y, sample_weight=y)
    refused(MODELS[name](), "[Cc]ontinuous|real-valued", X, rng.standard_normal(40))
    model = MODELS[name]()
    if name != "SparseGPClassifier":
        refused(model, "Only binary classification is supported", X, np.arange(40) % 3)
    if hasattr(model, "partial_fit"):
        refused(model, "classes must be passed", X, y, method="partial_fit")
        refused(model, "only one class", X, y, method="partial_fit", classes=[1])
        model.partial_fit(X, y, classes=[0, 1])
        refused(model, "labels that the first call did not name: .*7", X, np.where(y == 0, 7, y), method="partial_fit")
    with pytest.raises(ValueError, match="labels"):
        model.fit(X, y).log_predictive_density(X, np.full(40, 7))


@pytest.mark.parametrize(
    ("likelihood", "value", "text"),
    [
        ("poisson", -1.0, "Poisson needs y >= 0; found -1 in row 3"),
        ("negative-binomial", -0.5, "NegativeBinomial needs y >= 0; found -0.5 in row 3"),
        ("logit", 2.0, r"Bernoulli needs y in \{0, 1\}; found 2 in row 3"),
    ],
)
@pytest.mark.parametrize("name", ["GMERegressor", "SparseGPRegressor"])
def test_targets_outside_the_support(name, likelihood, value, text, X, rng):
    y = target("GMERegressor", X, rng) if likelihood != "logit" else target("GMEClassifier", X, rng) * 1.0
    model = MODELS[name](likelihood=likelihood)
    wrong = np.where(np.arange(40) == 3, value, y)
    refused(model, text, X, wrong)
    refused(model.fit(X, y), text, X, wrong)
    for method in ("partial_fit", "score", "log_predictive_density"):
        refused(model, text, X, wrong, method=method)


@EVERY
def test_unknown_strings_list_the_valid_ones(name, X, rng):
    y = target(name, X, rng)
    for parameter, valid in (("algorithm", "'cvi'"), ("expectation", "'monte-carlo'"), ("covariance", "'full'")):
        refused(MODELS[name](**{parameter: "nothing"}), f"'{parameter}' parameter of {name} must be.*{valid}", X, y)
    if name != "GPClassifier":
        refused(MODELS[name](bound="tight"), f"'bound' parameter of {name} must be.*'simple'", X, y)


@GP
def test_gaussian_processes_take_dense_rows(name, X, rng):
    refused(MODELS[name](), "dense|Sparse", sp.csr_matrix(X), target(name, X, rng), error=TypeError)


# ---- groups
def grouped(X, rng, levels=("a", "b", "c", "d")):
    return pd.DataFrame({"x": X[:, 0], "site": rng.permutation(np.resize(levels, len(X))), "z": X[:, 1]})


@GROUPED
def test_levels_that_the_fit_did_not_see(name, X, rng):
    frame, y = grouped(X, rng), target(name, X, rng)
    # Labels may be separable: a learned prior then runs to variances beside which a level's is rounding.
    model = MODELS[name](groups="site", prior_precision=1.0).fit(frame, y)
    known, unknown = frame.assign(site="a"), frame.assign(site="from nowhere")
    assert_finite(model, unknown, y)
    assert np.all(model.predict_latent(unknown)[1] > model.predict_latent(known)[1])
    for missing in (None, np.nan):
        there = frame.assign(site=pd.Series([missing] * 40, dtype=object))
        np.testing.assert_allclose(model.predict_latent(there), model.predict_latent(unknown))
    before = model.group_effects_
    refused(model, "site", unknown, y, method="partial_fit")
    pd.testing.assert_frame_equal(model.group_effects_, before)


@GROUPED
def test_groups_that_make_no_sense(name, X, rng):
    frame, y = grouped(X, rng), target(name, X, rng)
    refused(MODELS[name](groups="place"), "place", frame, y)
    refused(MODELS[name](groups=7), "7", frame, y)
    refused(MODELS[name](groups="site", random_slopes="w"), "w", frame, y)
    refused(MODELS[name](groups="site", random_slopes="site"), "site", frame, y)
    refused(MODELS[name](categorical_features=None), "could not convert string to float|site", frame, y)
    refused(MODELS[name](groups="site"), "X contains NaN", frame.assign(x=np.nan), y)


@pytest.mark.costly
@GROUPED
@pytest.mark.filterwarnings("ignore:y is .* in (all|every)")
@pytest.mark.filterwarnings("ignore:a combination of columns, mostly")
@pytest.mark.filterwarnings("ignore:group .* has one row in each level")
def test_groups_of_few_rows(name, X, rng):
    """A single level, a level per row, levels of one row: the standard deviation is hardly known, all is finite."""
    y = target(name, X, rng)
    for levels in (("a",), tuple(range(40)), ("a", *map(str, range(39)))):
        frame = grouped(X, rng, np.array(levels, dtype=object))
        for noise in (True, False):
            assert_finite(MODELS[name](groups="site", noise=noise).fit(frame, y), frame, y)


# ---- finite numbers
@pytest.mark.costly
@EVERY
@pytest.mark.filterwarnings("ignore:column 2 is 3.5 in every row")
def test_constant_and_duplicated_columns(name, X, rng):
    y = target(name, X, rng)
    assert_finite(MODELS[name]().fit(X[:, [0, 0, 1]], y), X[:, [0, 0, 1]], y)
    constant = np.column_stack([X, np.full(40, 3.5)])
    assert_finite(MODELS[name]().fit(constant, y), constant, y)


@EVERY
@pytest.mark.parametrize("scale", [1e150, 1e-150])
def test_scales_of_X(name, scale, X, rng):
    assert_fits_or_refuses(MODELS[name](), scale * X, target(name, X, rng), "column", "pass", "kernel")


@EVERY
@pytest.mark.parametrize("value", [1e6, 1e12])
def test_one_huge_value(name, value, X, rng):
    X[3, 0] = value
    assert_fits_or_refuses(MODELS[name](), X, target(name, X, rng), "column", "pass", "kernel")


@EVERY
def test_a_column_far_from_zero(name, X, rng):
    y = target(name, X, rng)
    frame = pd.DataFrame(X + np.array([0.0, 1e8]), columns=["a", "time stamp"])
    assert_fits_or_refuses(MODELS[name](), frame, y, "time stamp", "kernel")


@pytest.mark.costly
@pytest.mark.filterwarnings("ignore:overflow encountered")
@pytest.mark.parametrize("name", ["GMERegressor", "SparseGPRegressor"])
@pytest.mark.filterwarnings("ignore:y is .* in (all|every)")
@pytest.mark.filterwarnings("ignore:a combination of columns, mostly")
@pytest.mark.filterwarnings("ignore:group .* has one row in each level")
def test_extreme_targets(name, X, rng):
    f, counts = target("SparseGPRegressor", X, rng), target("GMERegressor", X, rng)
    first = np.arange(40) == 0
    for likelihood, targets in (
        ("gaussian", [1e100 * f, 1e-100 * f, np.where(first, 1e9, f), np.zeros(40), np.full(40, 7.5)]),
        ("poisson", [np.zeros(40), np.where(first, 1e4, counts), 1e4 * counts, 1e-9 * counts]),
    ):
        for y in targets:
            assert_fits_or_refuses(
                MODELS[name](likelihood=likelihood), X, y, "pass", "likelihood", "noise", "another unit"
            )


@pytest.mark.costly
@EVERY
def test_huge_offsets(name, X, rng):
    y = target(name, X, rng)
    model = MODELS[name]().fit(X, y)
    offset = np.where(np.arange(40) % 2 == 0, 500.0, -500.0)
    answers = (
        model.predict_proba(X, offset=offset) if is_classifier(model) else model.predict(X, offset=-np.abs(offset))
    )
    assert np.all(np.isfinite(answers))
    assert not np.any(np.isnan(model.log_predictive_density(X, y, offset=offset)))


@EVERY
def test_two_rows(name, X, rng):
    y = np.array([0, 1])
    assert_finite(MODELS[name]().fit(X[:2], y), X[:2], y)


@pytest.mark.filterwarnings("ignore:sample_weight says how many rows")
@EVERY
def test_inputs_are_left_alone(name, X, rng):
    y, weight, offset = target(name, X, rng), rng.uniform(0, 2, 40), rng.standard_normal(40)
    given = [X, y, weight, offset]
    before = [part.copy() for part in given]
    MODELS[name]().fit(X, y, sample_weight=weight, offset=offset).predict(X, offset=offset)
    for now, then in zip(given, before, strict=True):
        np.testing.assert_array_equal(now, then)


@pytest.mark.costly
def test_equal_rows_and_tiny_noise(rng):
    """Rows that differ by roundings only: the kernel matrix says so, or the jitter carries them."""
    X = np.repeat(rng.standard_normal((10, 1)), 4, axis=0) + 1e-9 * rng.standard_normal((40, 1))
    y = rng.standard_normal(40)
    for bound in ("simple", "optimal", "v1", "v2"):
        assert_fits_or_refuses(
            MODELS["SparseGPRegressor"](bound=bound, n_inducing=40), X, y, "kernel", "jitter", "pass"
        )
    assert_fits_or_refuses(MODELS["GPClassifier"](), X, y > 0, "kernel", "pass")
    assert_fits_or_refuses(
        GMERegressor(likelihood=Gaussian(variance=1e-12), noise=True, max_iter=15), X, y, "column", "pass"
    )
