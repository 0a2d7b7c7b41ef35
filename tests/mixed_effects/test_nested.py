"""Nested groups by a shorthand, and slopes of categorical columns."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from sksvi import GMERegressor


@pytest.fixture(scope="module")
def table(global_random_seed):
    """Classes 1 to 3 of schools A to F: names of classes come again in each school."""
    rng = np.random.default_rng([global_random_seed, 89])
    school, room = np.repeat(np.arange(6), 12), np.tile(np.repeat(np.arange(3), 4), 6)
    X = pd.DataFrame({"x": rng.standard_normal(72), "school": np.array(list("ABCDEF"))[school], "class": 1 + room})
    y = 0.5 * X["x"] + rng.standard_normal(6)[school] + rng.standard_normal(18)[3 * school + room]
    return X, y + 0.3 * rng.standard_normal(72)


@pytest.fixture(scope="module")
def nested(table):
    return GMERegressor(groups="school/class", random_slopes={"school": "x"}).fit(*table)


def test_the_shorthand_is_a_column_of_both(table, nested):
    X, y = table
    own = X.assign(**{"school:class": X["school"] + ":" + X["class"].astype(str)}).drop(columns="class")
    plain = GMERegressor(groups=["school", "school:class"], random_slopes={"school": "x"}).fit(own, y)
    pd.testing.assert_frame_equal(nested.summary(), plain.summary())
    pd.testing.assert_frame_equal(nested.group_effects_, plain.group_effects_)
    pd.testing.assert_frame_equal(nested.group_covariance_, plain.group_covariance_)
    np.testing.assert_array_equal(nested.predict(X), plain.predict(own))
    assert list(nested.group_std_.index) == [("school", "intercept"), ("school", "x"), ("school:class", "intercept")]
    assert nested.coef_.shape == (1,) and nested.n_features_in_ == 3


def test_inner_levels_are_known_within_their_outer_ones(table, nested):
    """A class that another school has is new; whole numbers as floats are the same classes."""
    X, _ = table
    rows = X.head(3)
    np.testing.assert_array_equal(nested.predict(rows.assign(**{"class": [1.0, 1.0, 1.0]})), nested.predict(rows))
    new = nested.predict_latent(rows.assign(**{"class": 9}))[1]
    marginal = nested.predict_latent(rows.assign(**{"class": [None] * 3}))[1]
    np.testing.assert_array_equal(new, marginal)
    assert np.all(new > nested.predict_latent(rows)[1])
    some = nested.predict(rows, include_groups=["school"])
    assert not np.allclose(some, nested.predict(rows))


def test_an_interaction_alone(table):
    model = GMERegressor(groups="school:class").fit(*table)
    assert list(model.group_std_.index) == [("school:class", "intercept")]
    assert len(model.group_effects_) == 18


def test_colons_that_make_levels_alike_are_refused():
    X = pd.DataFrame({"a": ["p:q", "p"] * 5, "b": ["r", "q:r"] * 5})
    with pytest.raises(ValueError, match=r"levels of 'a:b' are told apart by a colon"):
        GMERegressor(groups="a/b").fit(X, np.arange(10.0))
    with pytest.raises(ValueError, match="groups names the column 'c', which X does not have"):
        GMERegressor(groups="a/c").fit(X, np.arange(10.0))


@pytest.mark.parametrize("prior_precision", ["auto", "flat"])
def test_slopes_of_categories_are_differences_from_the_first(prior_precision, global_random_seed):
    """The same as of indicators that a user makes, whose coefficients are those of a flat prior."""
    rng = np.random.default_rng([global_random_seed, 97])
    site, arm = np.repeat(np.arange(12), 9), rng.choice(["a", "b", "c"], 108)
    X = pd.DataFrame({"arm": arm, "site": site})
    y = rng.standard_normal((12, 3))[site, np.searchsorted(["a", "b", "c"], arm)] + 0.3 * rng.standard_normal(108)
    settings = {"groups": "site", "prior_precision": prior_precision}
    model = GMERegressor(random_slopes="arm", **settings).fit(X, y)
    names = ["intercept", "arm_b", "arm_c"]
    assert list(model.group_covariance_.columns) == names
    own = pd.DataFrame({"arm_b": 1.0 * (arm == "b"), "arm_c": 1.0 * (arm == "c"), "site": site})
    plain = GMERegressor(random_slopes=["arm_b", "arm_c"], **settings).fit(own, y)
    tolerance = 1e-6 if prior_precision == "flat" else 0.1  # learned for two columns, and for three
    np.testing.assert_allclose(model.group_covariance_, plain.group_covariance_, rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(model.predict(X), plain.predict(own), atol=tolerance)


def test_partitions_say_what_all_rows_do(table):
    frames = pytest.importorskip("dask.dataframe")
    X, y = table
    X = X.assign(arm=pd.Categorical(np.where(np.arange(72) % 3 == 0, "a", "b")))
    model = GMERegressor(groups="school/class", random_slopes={"school": "arm"})
    whole = model.fit(X, y).summary()
    parts = (frames.from_pandas(X, npartitions=3), frames.from_pandas(y, npartitions=3))
    pd.testing.assert_frame_equal(model.fit(*parts).summary(), whole, rtol=1e-4, atol=1e-6)
