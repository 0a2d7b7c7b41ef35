"""SmoothTransformer: what its columns are, by level and beyond the range, and which columns it refuses by name."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.interpolate import BSpline
from sklearn.compose import make_column_transformer
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from sksvi import BayesianGLMRegressor
from sksvi.preprocessing import SmoothTransformer

FEW = "its columns have two or three distinct values, which are no smooth"
FEW_VALUES = [
    "check_estimators_dtypes",
    "check_sample_weights_pandas_series",
    "check_sample_weights_not_an_array",
    "check_sample_weights_shape",
    "check_sample_weights_not_overwritten",
]


@parametrize_with_checks([SmoothTransformer()], expected_failed_checks=lambda _: dict.fromkeys(FEW_VALUES, FEW))
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def frame(seed, n=120):
    rng = np.random.default_rng(seed)
    age, dose = rng.uniform(20.0, 60.0, n), rng.exponential(size=n)
    return pd.DataFrame({"age": age, "dose": dose, "plan": rng.choice(["a", "b", "c"], n)})


def columns(X, rows=None, **options):
    smooth = SmoothTransformer(**options).set_output(transform="pandas").fit(X)
    return smooth.transform(X if rows is None else rows)


def test_names_and_index_of_a_frame(global_random_seed):
    X = frame(global_random_seed)[["age", "dose"]].rename(index=lambda i: f"row {i}")
    found = columns(X, n_basis=5)
    assert list(found) == [f"{name}_{end}" for name in X for end in ("linear", "s1", "s2", "s3")]
    assert found.index.equals(X.index)
    plain = SmoothTransformer(n_basis=5).fit(X.to_numpy())
    assert plain.get_feature_names_out().tolist()[:2] == ["x0_linear", "x0_s1"]
    np.testing.assert_array_equal(plain.transform(X.to_numpy()), found)


def test_columns_are_centred_orthogonal_and_of_variance_one_together(global_random_seed):
    X = frame(global_random_seed)[["dose"]]
    found = columns(X).to_numpy()
    np.testing.assert_allclose(found[:, 0], X["dose"] - X["dose"].mean(), atol=1e-12)
    products = found.T @ found / len(X)
    np.testing.assert_allclose(products - np.diag(np.diag(products)), 0.0, atol=1e-10)
    np.testing.assert_allclose(found.mean(0), 0.0, atol=1e-10)
    variances = found[:, 1:].var(0)
    assert np.all(np.diff(variances) <= 0.0)
    np.testing.assert_allclose(variances.sum(), 1.0)


def test_unit_coefficients_have_the_prior_of_the_difference_penalty(global_random_seed):
    """w'w is the penalty of f, up to the common factor: that of B-spline coefficients fitted to the same curve."""
    X, n_basis = pd.DataFrame({"x": np.linspace(0.0, 1.0, 80)}), 9
    rng = np.random.default_rng(global_random_seed)
    w = rng.standard_normal((n_basis - 2, 5))
    f = columns(X, n_basis=n_basis).to_numpy()[:, 1:] @ w
    basis = BSpline(np.arange(-3, n_basis + 1) / (n_basis - 3), np.eye(n_basis), 3)(X["x"].to_numpy())
    penalty = np.square(np.diff(np.linalg.lstsq(basis, f)[0], 2, axis=0)).sum(0)
    ratio = penalty / np.square(w).sum(0)
    np.testing.assert_allclose(ratio, ratio[0], rtol=1e-8)


def test_a_straight_line_is_the_linear_column(global_random_seed):
    X = frame(global_random_seed)[["age"]]
    y = 3.0 - 0.7 * X["age"]
    coef = np.linalg.lstsq(columns(X).to_numpy(), y - y.mean())[0]
    np.testing.assert_allclose(coef[0], -0.7, rtol=1e-10)
    np.testing.assert_allclose(coef[1:], 0.0, atol=1e-8)


def test_every_column_goes_on_as_a_line(global_random_seed):
    X = frame(global_random_seed)[["age"]]
    low, high = X["age"].min(), X["age"].max()
    for end, way in ((low, -1.0), (high, 1.0)):
        at = pd.DataFrame({"age": end + way * np.array([-1e-6, 0.0, 1e-6, 5.0, 10.0])})
        found = columns(X, at).to_numpy()
        np.testing.assert_allclose(found[4] - found[3], found[3] - found[1], atol=1e-9)
        np.testing.assert_allclose(found[2] - found[1], found[1] - found[0], atol=1e-10)  # one slope on both sides


def test_a_smooth_per_level(global_random_seed):
    X = frame(global_random_seed)
    found = columns(X, by="plan", n_basis=6)
    assert list(found)[:6] == ["age_a_linear", *(f"age_a_s{k}" for k in range(1, 5)), "age_b_linear"]
    for level, rows in X.groupby("plan"):
        own = found.filter(regex=f"_{level}_")
        assert (own[X["plan"] != level] == 0.0).all(axis=None)
        alone = columns(rows[["age", "dose"]], n_basis=6)
        np.testing.assert_array_equal(own.loc[rows.index], alone)
    np.testing.assert_array_equal(SmoothTransformer(6, by=2).fit_transform(X.to_numpy(dtype=object)), found.to_numpy())


def test_weights_are_copies(global_random_seed):
    X = frame(global_random_seed)[["age", "dose"]]
    weight = np.random.default_rng(global_random_seed).integers(0, 4, len(X))
    weighted = SmoothTransformer().fit(X, sample_weight=weight).transform(X)
    copies = SmoothTransformer().fit(X.loc[X.index.repeat(weight)]).transform(X)
    np.testing.assert_allclose(weighted, copies, atol=1e-8)


def test_few_distinct_values_have_few_bends():
    X = pd.DataFrame({"dose": np.tile([1.0, 2.0, 3.0, 4.0, 6.0], 8)})
    found = columns(X)
    assert list(found) == ["dose_linear", "dose_s1", "dose_s2", "dose_s3"]
    assert np.linalg.matrix_rank(found) == 4


@pytest.mark.parametrize(
    ("values", "options", "error"),
    [
        ([1.0, 2.0, 3.0], {}, "column 'dose' of X: a smooth of 3 distinct values"),
        ([1.0, 2.0, 3.0, 4.0, 1e4], {}, "column 'dose' of X: its values lie in 2 of the 17 intervals between knots"),
        ([1.0, 2.0, np.nan, 4.0], {}, "column 'dose' of X, row 2"),
        (["low", "high", "low", "low"], {}, "column 'dose' of X"),
        ([1.0, 2.0, 3.0, 4.0], {"n_basis": 4, "degree": 4}, "n_basis=4 must be above the degree"),
        ([1.0, 2.0, 3.0, 4.0], {"by": "plan"}, "by names the column 'plan', which X does not have"),
    ],
)
def test_refusals(values, options, error):
    with pytest.raises(ValueError, match=error):
        SmoothTransformer(**options).fit(pd.DataFrame({"dose": values}))


def test_refusals_by_level(global_random_seed):
    X = frame(global_random_seed)
    smooth = SmoothTransformer(by="plan").fit(X)
    with pytest.raises(ValueError, match="level 'd' of column 'plan' has no smooth"):
        smooth.transform(X.assign(plan="d"))
    with pytest.raises(ValueError, match="row 3 of that column has no level"):
        SmoothTransformer(by="plan").fit(X.assign(plan=X["plan"].mask(X.index == 3)))
    with pytest.raises(ValueError, match="column 'age' of X, level 'rare' of 'plan': a smooth of 2 distinct values"):
        SmoothTransformer(by="plan").fit(X.assign(plan=X["plan"].mask(X.index < 2, "rare")))


def test_one_smooth_in_a_pipeline_holds_a_sine(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    X = pd.DataFrame({"time": rng.uniform(0.0, 10.0, 200), "treated": rng.integers(0, 2, 200)})
    truth = np.sin(X["time"])
    y = truth + 0.5 * X["treated"] + 0.3 * rng.standard_normal(200)
    design = make_column_transformer((SmoothTransformer(), ["time"]), remainder="passthrough")
    regressor = BayesianGLMRegressor(prior_precision={"*time_s*": "auto"})
    model = make_pipeline(design.set_output(transform="pandas"), regressor).fit(X, y)
    mean, variance = model[-1].predict_latent(model[:-1].transform(X))
    assert np.max(np.abs(mean - truth - 0.5 * X["treated"]) / np.sqrt(variance)) < 5.0
    assert np.max(np.sqrt(variance)) < 0.3
