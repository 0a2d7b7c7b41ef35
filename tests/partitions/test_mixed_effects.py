"""Mixed models of a collection: levels, slopes, noise and findings as of the same rows in memory."""

from __future__ import annotations

import pickle
import warnings
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from sksvi import GMEClassifier, GMERegressor
from sksvi.likelihoods import Poisson
from sksvi.mixed_effects._encoding import arrow_of
from sksvi.models.data import Table
from sksvi.models.mixed.levels import GroupedDesign
from sksvi.models.mixed.noise_table import NoiseTable

dask = pytest.importorskip("dask", reason="needs the extra dask")
dd = pytest.importorskip("dask.dataframe", reason="needs the extra dask")
#: Where partitions end: of very different sizes, one without rows.
CUTS = [0, 4, 120, 120, 290, 300]
pytestmark = pytest.mark.filterwarnings("ignore:.* in max_iter=")


def table(seed, n=300):
    """Two grouping columns, one of which names no level in some rows of several partitions, and a latent."""
    rng = np.random.default_rng(seed)
    g, h = rng.integers(0, 6, n), rng.integers(0, 12, n)
    g[:120][g[:120] == 2] = 3  # the first partitions have no "c"
    X = pd.DataFrame({"a": rng.standard_normal(n), "b": 1.0 + rng.standard_normal(n), "h": h})
    X.insert(1, "g", pd.Series(np.array(list("abcdef"), dtype=object)[g]))
    X.loc[[2, 50, 51, 295], "g"] = None
    slope, effect = rng.standard_normal(6), rng.standard_normal(12)
    return X, 0.8 * X["a"] + slope[g] * X["b"] + 0.5 * effect[h]


def target(likelihood, f, seed):
    rng = np.random.default_rng([seed, 1])
    if likelihood == "gaussian":
        return f + 0.4 * rng.standard_normal(len(f))
    if likelihood == "poisson":
        return pd.Series(rng.poisson(np.exp(np.minimum(f, 4.0))).astype(float))
    if likelihood == "ordinal":
        return (f + rng.standard_normal(len(f))).round().clip(-1, 1)
    return pd.Series(np.where(f + rng.logistic(size=len(f)) > 0, "yes", "no"))


def parts(values, cuts=CUTS):
    rows = [dask.delayed(values.iloc[a:b]) for a, b in pairwise(cuts)]
    return dd.from_delayed(rows, meta=values.iloc[:0], verify_meta=False)


def close(found, wanted, rtol=1e-9):
    np.testing.assert_allclose(found, wanted, rtol=rtol, atol=rtol * np.max(np.abs(wanted)))


def same(apart, model, rtol=1e-9):
    """Bound, posterior and what users see of two fits."""
    assert apart.n_iter_ == model.n_iter_
    close(apart.lower_bounds_, model.lower_bounds_, rtol)
    for name, block in model.posterior_.items():
        close(apart.posterior_[name].mean, block.mean, rtol)
        close(apart.posterior_[name].std, block.std, rtol)
    if model.groups is not None:
        assert apart.group_effects_.index.equals(model.group_effects_.index)
        close(apart.group_std_, model.group_std_, rtol)


def both(model, X, y, weight=None):
    """Fits to rows in memory and to the same in partitions."""
    apart = clone(model).fit(parts(X), parts(y), sample_weight=None if weight is None else parts(weight))
    return apart, model.fit(X, y, sample_weight=weight)


CROSSED, SLOPES = {"groups": ["g", "h"]}, {"groups": "g", "random_slopes": {"g": ["b"]}}


@pytest.mark.costly
@pytest.mark.parametrize(
    ("likelihood", "options"),
    [
        pytest.param(
            "gaussian",
            {**CROSSED, **SLOPES, "groups": ["g", "h"], "covariance": "diag", "max_iter": 3},
            marks=pytest.mark.exhaustive,
        ),
        pytest.param("poisson", {**CROSSED, "noise": True}, marks=pytest.mark.exhaustive),
        pytest.param("poisson", {**SLOPES, "noise": True, "bound": "simple"}, marks=pytest.mark.exhaustive),
        ("poisson", {"noise": True, "bound": "mean-field"}),
        ("poisson", {}),
        ("ordinal", SLOPES),
        ("logit", {**CROSSED, "random_slopes": "b"}),
        ("logit", {"groups": "h", "noise": True, "algorithm": "cvi"}),
    ],
    ids=lambda value: value if isinstance(value, str) else "-".join(value),
)
def test_as_in_memory(likelihood, options, global_random_seed):
    X, f = table(global_random_seed)
    X = X if "groups" in options and "g" in options["groups"] else X.drop(columns="g")
    y = target(likelihood, f, global_random_seed)
    weight = pd.Series(1.0 + np.arange(len(y)) % 2) if "noise" in options else None
    kind, own = (GMEClassifier, {}) if likelihood == "logit" else (GMERegressor, {"likelihood": likelihood})
    model = kind(**{"groups": None, "max_iter": 12, "random_state": 0, **options, **own})
    apart, model = both(model, X, y, weight)
    same(apart, model)
    predicted = apart.predict(parts(X))
    assert predicted.npartitions == len(CUTS) - 1
    wanted = model.predict(X)
    found = predicted.compute()
    assert found.index.equals(X.index)
    np.testing.assert_array_equal(found, wanted) if likelihood == "logit" else close(found, wanted)


def test_an_arrow_of_many_levels(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    X = pd.DataFrame({"x": rng.standard_normal(300), "g": np.arange(300) % 280, "h": rng.integers(0, 5, 300)})
    apart, model = both(GMERegressor(groups=["h", "g"], max_iter=10), X, X["x"] + rng.standard_normal(300))
    assert arrow_of(model, model._encoding.factors, 1) == 1
    same(apart, model)


def test_goes_on_with_known_levels(global_random_seed):
    X, f = table(global_random_seed)
    y, named = target("poisson", f, global_random_seed), X["g"].notna()
    options = {"likelihood": "poisson", "groups": "g", "warm_start": True, "max_iter": 4, "random_state": 0}
    model = GMERegressor(**options).fit(X, y).fit(X[named], y[named])
    apart = GMERegressor(**options).fit(parts(X), parts(y))
    cuts = [0, 100, len(y[named])]
    apart.fit(parts(X[named], cuts), parts(y[named], cuts))
    same(apart, model)
    before = apart.lower_bound_
    missing = X["g"].isna()
    X.loc[missing & (X.index != 51), "g"] = "a"
    with pytest.raises(ValueError, match=r"partition 1: row 47 has level .* in grouping column 'g'"):
        apart.fit(parts(X), parts(y))
    X.loc[51, "g"], X.loc[200, "g"] = "a", "new"
    with pytest.raises(ValueError, match="partition 3: row 80 has level 'new' in grouping column 'g'"):
        apart.fit(parts(X), parts(y))
    assert apart.lower_bound_ == before


def test_levels_that_partitions_declare(global_random_seed):
    X, f = table(global_random_seed)
    y = target("gaussian", f, global_random_seed)
    X["g"] = pd.Categorical(X["g"], categories=list("fedcbaz"))
    apart, model = both(GMERegressor(groups="g"), X, y)
    same(apart, model)
    assert list(apart.group_effects_.loc["g"].index.get_level_values("level")) == list("fedcbaz")
    pieces = [X[:120].assign(g=X["g"][:120].cat.remove_unused_categories()), X[120:]]
    apart = GMERegressor(groups="g").fit(parts_of(pieces), parts_of([y[:120], y[120:]]))
    same(apart, GMERegressor(groups="g").fit(pd.concat(pieces), y))
    assert list(apart.group_effects_.loc["g"].index.get_level_values("level")) == list("abcdef")


def parts_of(pieces):
    return dd.from_delayed([dask.delayed(piece) for piece in pieces], meta=pieces[0].iloc[:0], verify_meta=False)


def test_levels_of_two_types_are_named():
    pieces = [pd.DataFrame({"x": [1.0, 2.0], "g": ["a", "b"]}), pd.DataFrame({"x": [1.0, 3.0], "g": [1, 2]})]
    y = parts_of([pd.Series([1.0, 2.0]), pd.Series([2.0, 1.0])])
    model = GMERegressor(groups="g")
    with pytest.raises(TypeError, match=r"grouping column 'g' mixes \['int', 'str'\]"):
        model.fit(parts_of(pieces), y)
    assert not hasattr(model, "classes_") and not hasattr(model, "coef_")


@pytest.mark.costly
def test_findings_are_those_of_all_rows(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    X = pd.DataFrame({"far": 50.0 + rng.standard_normal(300), "g": np.arange(300), "h": np.arange(300) % 5})
    y = pd.Series(rng.standard_normal(300))
    told = []
    for rows, values in ((X, y), (parts(X), parts(y))):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model = GMERegressor(groups=["g", "h"], random_slopes={"h": "far"}, correlated=False, max_iter=3)
            model.fit(rows, values)
        told.append(sorted(str(w.message) for w in caught))
    assert told[0] == told[1]
    assert sum("one row in each level" in text or "standard deviations from 0" in text for text in told[1]) == 2


def test_single_precision_in_one_partition(global_random_seed):
    X, f = table(global_random_seed)
    y, X = target("gaussian", f, global_random_seed), X[["a", "h"]]
    X = X.assign(a=X["a"].astype(np.float32))
    pieces = [X[:150].astype({"h": np.float32}), X[150:].assign(a=X["a"][150:].astype(float))]
    apart = GMERegressor(groups="h").fit(parts_of(pieces), parts_of([y[:150], y[150:]]))
    same(apart, GMERegressor(groups="h").fit(X.astype(float), y), rtol=1e-6)
    assert apart.coef_.dtype == float


def test_a_noise_table_is_found_again():
    """Each pass sends it to the workers, and what they filled in stays with them."""
    table = NoiseTable(Poisson(), 3)
    there = pickle.loads(pickle.dumps(table))
    assert there is not table
    assert pickle.loads(pickle.dumps(table)) is there
    assert pickle.loads(pickle.dumps(NoiseTable(Poisson(), 3))) is not there


def test_a_design_of_another_type():
    design = GroupedDesign(np.ones((2, 1)), np.array([[0], [1]], np.int32), (None,), (2,))
    assert Table(design.astype(np.float32), np.zeros(2)).X.dtype == np.float32
    np.testing.assert_array_equal(design.astype(np.float32).rows(True).dense(), design.rows(True).dense())
