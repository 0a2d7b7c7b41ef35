"""Groups of columns with a precision each: fixed ones, learned ones, units, and keys that have no column."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import sksvi
from sksvi import BayesianGLMClassifier, BayesianGLMRegressor
from sksvi.preprocessing import SmoothTransformer

GROUPS = {"a*": "auto", "b": 2.0, "plan": "auto"}


def rows(seed, n=150):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.standard_normal((n, 5)) * [1.0, 5.0, 0.1, 1.0, 3.0], columns=["a1", "a2", "a3", "b", "c"])
    X["plan"] = pd.Categorical(rng.choice(["u", "v", "w"], n), categories=["u", "v", "w"])
    return X, X["a1"] + 0.2 * X["a2"] + rng.standard_normal(n)


def groups(**options):
    return BayesianGLMRegressor(prior_precision=GROUPS, **options)


def test_numbers_of_all_groups_are_those_of_an_array(global_random_seed):
    X, y = rows(global_random_seed)
    by_key = BayesianGLMRegressor(prior_precision={"a*": 4.0, 3: 0.5, "plan": 2.0, "*": 1.0}, tol=1e-10).fit(X, y)
    by_column = BayesianGLMRegressor(prior_precision=[4.0, 4.0, 4.0, 0.5, 1.0, 2.0], tol=1e-10).fit(X, y)
    np.testing.assert_allclose(by_key.prior_precision_, by_column.prior_precision_, rtol=1e-12)
    # Off by d standard deviations a bound is d²/2 below its best, which tol leaves open.
    left_open = np.sqrt(2.0 * 1e-10 * (1.0 + abs(by_column.lower_bound_)))
    assert np.all(np.abs(by_key.coef_ - by_column.coef_) < left_open * by_column.coef_std_)
    np.testing.assert_allclose(by_key.coef_std_, by_column.coef_std_, rtol=1e-4)


def test_a_group_has_one_precision_for_its_columns_as_given(global_random_seed):
    X, y = rows(global_random_seed)
    model = groups().fit(X, y)
    precision = model.prior_precision_
    np.testing.assert_allclose(precision[:3], precision[0])
    np.testing.assert_allclose(precision[5:], precision[5])
    assert precision[3] == pytest.approx(2.0)
    table = model.hyperparameter_posterior_
    assert list(table) == ["weight", "scale(a*)", "scale(b)", "scale(plan)", "scale(*)", "std(residual)"]
    np.testing.assert_allclose(table["scale(b)"], 2.0**-0.5)
    assert table["scale(a*)"].between(0.5 * precision[0] ** -0.5, 2.0 * precision[0] ** -0.5).any()


def test_another_unit_of_a_group_moves_its_scale_and_nothing_else(global_random_seed):
    X, y = rows(global_random_seed)
    model = groups().fit(X, y)
    other = X.assign(**{name: X[name] / 8.0 for name in ("a1", "a2", "a3")})
    moved = groups().fit(other, y)
    np.testing.assert_allclose(moved.predict(other), model.predict(X), rtol=1e-6, atol=1e-8)
    scales = [one.hyperparameter_posterior_["scale(a*)"] for one in (moved, model)]
    np.testing.assert_allclose(scales[0], 8.0 * scales[1], rtol=1e-6)


def test_columns_of_no_key_are_as_under_auto(global_random_seed):
    X, y = rows(global_random_seed)
    np.testing.assert_array_equal(BayesianGLMRegressor(prior_precision={}).fit(X, y).coef_, auto(X, y).coef_)
    np.testing.assert_array_equal(BayesianGLMRegressor(prior_precision={"*": "auto"}).fit(X, y).coef_, auto(X, y).coef_)


def auto(X, y):
    return BayesianGLMRegressor().fit(X, y)


def test_a_null_smooth_is_left_out_beside_one_that_bends(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    X = pd.DataFrame(rng.random((300, 2)), columns=["wave", "null"])
    y = np.sin(8.0 * X["wave"]) + 0.3 * rng.standard_normal(300)
    design = SmoothTransformer().set_output(transform="pandas").fit_transform(X)
    keys = {"wave_s*": "auto", "null_s*": "auto"}
    model = BayesianGLMRegressor(prior_precision=keys).fit(design, y)
    precision = pd.Series(model.prior_precision_, design.columns)
    assert precision["null_s1"] > 10.0 * precision["wave_s1"]
    truth = np.sin(8.0 * X["wave"]) - np.mean(np.sin(8.0 * X["wave"])) + np.mean(y)
    off = [np.sqrt(np.mean(np.square(one.predict(design) - truth))) for one in (model, auto(design, y))]
    assert off[0] < off[1]


def test_files_streams_and_labels_have_groups(global_random_seed, tmp_path):
    X, y = rows(global_random_seed)
    model = groups().fit(X, y)
    model.save(tmp_path / "model.sksvi")
    np.testing.assert_array_equal(sksvi.load(tmp_path / "model.sksvi").predict(X), model.predict(X))
    stream = groups().partial_fit(X[:50], y[:50]).partial_fit(X[50:], y[50:])
    np.testing.assert_allclose(stream.coef_[:2], model.coef_[:2], atol=0.1)
    with pytest.raises(ValueError, match="a fit that goes on"):
        stream.set_params(prior_precision={"a*": "auto"}).partial_fit(X, y)
    labels = BayesianGLMClassifier(prior_precision=GROUPS).fit(X, np.digitize(y, [-1.0, 1.0]))
    assert "scale(plan)" in labels.hyperparameter_posterior_


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"dose*": "auto"}, "key 'dose\\*' has no column of X, which has \\['a1'"),
        ({"*": "auto", "a1": 1.0}, "key 'a1' has only columns that a key before it has"),
        ({"a1": -1.0}, "prior_precision\\['a1'\\] must be 'auto' or a positive number; found -1.0"),
        ({"a1": "ard"}, "prior_precision\\['a1'\\] must be 'auto' or a positive number; found 'ard'"),
        ({9: "auto"}, "prior_precision key=9 is no column of X"),
    ],
)
def test_keys_and_values_that_are_none(given, error, global_random_seed):
    with pytest.raises(ValueError, match=error):
        BayesianGLMRegressor(prior_precision=given).fit(*rows(global_random_seed))


def test_what_takes_no_groups_says_so(global_random_seed):
    X, y = rows(global_random_seed)
    with pytest.raises(ValueError, match=r"prior_precision=.*one scale is for all"):
        groups(covariance="low-rank").fit(X, y)
