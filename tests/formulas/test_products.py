"""Interactions and powers of columns far from zero: what is told of them, and that centred ones find their effect."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest

import sksvi


@pytest.fixture
def data(global_random_seed):
    """Years of which the arm changes the slope by 0.6 a standard deviation."""
    rng = np.random.default_rng([global_random_seed, 31])
    z, arm = rng.standard_normal(200), rng.choice(["a", "b"], 200)
    y = 0.4 * z + (arm == "b") * (0.2 + 0.6 * z) + rng.standard_normal(200)
    others = {"dose": rng.standard_normal(200), "nearly": np.append(np.ones(199), 0.0), "age": 50 + 15 * z}
    return pd.DataFrame({"year": 2010 + 5 * z, "arm": arm, "y": y, **others}).assign(**{"the year": 2010 + 5 * z})


@pytest.mark.parametrize(
    ("formula", "term", "name"),
    [
        ("y ~ year * arm", "year:arm", "year"),
        ("y ~ `the year` * dose", "the year:dose", "`the year`"),
        ("y ~ year + I(year**2)", r"I\(year \*\* 2\)", "year"),
        ("y ~ log(year):arm", r"log\(year\):arm", r"log\(year\)"),
        ("y ~ year * arm + (1 | arm)", "year:arm", "year"),
    ],
)
def test_products_of_columns_far_from_zero_are_told(formula, term, name, data):
    with pytest.warns(UserWarning, match=rf"term '{term}' .* values of '{name}' are .* center\({name}\)"):
        sksvi.from_formula(formula, data)


@pytest.mark.parametrize(
    "formula",
    [
        "y ~ year + arm",
        "y ~ center(year) * arm",
        "y ~ center(year) + I(center(year)**2)",
        "y ~ poly(year, 2) * arm",
        "y ~ bs(year, df=4) * arm",
        "y ~ age * arm",
        "y ~ nearly * dose",
        "y ~ C(arm) * dose",
        "y ~ s(year, by=arm) + arm",
    ],
)
def test_other_columns_are_not(formula, data):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        sksvi.from_formula(formula, data)
    assert not [str(one.message) for one in found]


def test_centred_products_have_their_effect(data):
    table = sksvi.from_formula("y ~ center(year) * arm", data).fit(data).summary()
    row = table.loc["center(year):arm[T.b]"]
    year, arm = data["year"] - data["year"].mean(), data["arm"] == "b"
    least = np.linalg.lstsq(np.column_stack([np.ones(200), year, arm, year * arm]), data["y"], rcond=None)[0][3]
    assert row["mean"] == pytest.approx(least, abs=0.3 * row["std"])
