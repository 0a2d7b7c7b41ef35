"""Categorical columns: the fit that a OneHotEncoder before the model would have, levels of every kind, what is new."""

from __future__ import annotations

import pickle
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import sksvi
from sksvi import (
    BayesianGLMClassifier,
    BayesianGLMRegressor,
    CoefficientDisplay,
    GMEClassifier,
    GMERegressor,
    PartialEffectDisplay,
)
from sksvi.inspection import marginal_effects
from sksvi.linear_model._columns import ColumnScaling, ColumnStats
from sksvi.linear_model._design import stored

N = 300
SIZES = ["s", "m", "l"]


@pytest.fixture
def table(global_random_seed):
    """Text, an ordered type, numbers that are names, a truth value and two columns of numbers."""
    rng = np.random.default_rng(global_random_seed)
    X = pd.DataFrame(
        {
            "city": rng.choice(["rome", "oslo", "bern"], N),
            "size": pd.Categorical(rng.choice(SIZES, N), categories=SIZES, ordered=True),
            "flag": rng.random(N) < 0.4,
            "year": 2000.0 + rng.integers(0, 20, N),
            "w": rng.standard_normal(N),
            "zone": rng.integers(100, 104, N),
        }
    )
    f = 1.0 * (X["city"] == "rome") - 0.5 * (X["size"] == "l") + 0.1 * (X["year"] - 2010) + 0.5 * X["w"]
    return X, f.to_numpy(), rng


def encoded(numbers=StandardScaler, **options):
    """scikit-learn's way to the same columns."""
    columns = (OneHotEncoder(**options), ["city"]), (OneHotEncoder(categories=[SIZES], **options), ["size"])
    return make_column_transformer(*columns, remainder=numbers, verbose_feature_names_out=False)


def target(name, f, rng):
    if name == "gaussian":
        return f + 0.3 * rng.standard_normal(N)
    return rng.poisson(np.exp(f / 2)) if name == "poisson" else f + rng.logistic(size=N) > 0


@pytest.mark.parametrize("prior", ["auto", 2.0, pytest.param("ard", marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize("name", ["gaussian", "poisson", "logit"])
def test_as_behind_an_encoder(table, name, prior):
    X, f, rng = table
    y = target(name, f, rng)
    X = X.drop(columns="zone").assign(year=X["year"] - 2010)
    model = BayesianGLMClassifier() if name == "logit" else BayesianGLMRegressor(likelihood=name)
    model.set_params(prior_precision=prior, random_state=0)
    before = encoded("passthrough")
    other = make_pipeline(before, clone(model)).fit(X, y)[-1]
    model.fit(X, y)
    for attribute in ("coef_", "coef_std_", "intercept_", "lower_bounds_", "prior_precision_"):
        np.testing.assert_array_equal(getattr(model, attribute), getattr(other, attribute))
    names = [*before.get_feature_names_out()]
    assert model.summary(effects="joint", contrasts="none").index[: len(names)].get_level_values(-1).tolist() == names
    assert model.n_features_in_ == 5 and model.feature_names_in_.tolist() == list(X.columns)
    np.testing.assert_array_equal(model.predict(X), other.predict(before.transform(X)))


def test_levels_stand_where_their_column_does(table):
    X, f, _ = table
    turned = X[["w", "size", "year", "flag", "city"]]
    model = BayesianGLMRegressor(prior_precision=2.0).fit(turned, f)
    assert model.summary(effects="joint", contrasts="none").index[:5].tolist() == [
        "w",
        "size_s",
        "size_m",
        "size_l",
        "year",
    ]
    other = BayesianGLMRegressor(prior_precision=2.0).fit(X[turned.columns[::-1]], f)
    np.testing.assert_allclose(other.predict(X[turned.columns[::-1]]), model.predict(turned), rtol=1e-8)


@pytest.mark.costly
def test_many_levels_are_sparse_and_numbers_are_centred_all_the_same(table):
    X, f, rng = table
    X = X[["city", "year", "w"]].assign(shop=rng.choice([f"shop {k}" for k in range(40)], N))
    y = target("gaussian", f, rng)
    model = BayesianGLMRegressor().fit(X, y)
    design = model._validated(X)
    assert sp.issparse(design) and design.nnz == 4 * N and design.has_canonical_format
    columns = make_column_transformer((OneHotEncoder(), ["city", "shop"]), remainder=StandardScaler())
    scaled = make_pipeline(columns, BayesianGLMRegressor()).fit(X, y)
    assert sp.issparse(columns.transform(X))
    np.testing.assert_allclose(model.predict(X), scaled.predict(X), rtol=1e-6)
    np.testing.assert_allclose(model.lower_bound_, scaled[-1].lower_bound_, rtol=1e-8)
    # A year far from zero is centred: the intercept's prior, at the centre, does not pull.
    np.testing.assert_allclose(
        model.predict(X),
        clone(model).fit(X.assign(year=X["year"] - 2010), y).predict(X.assign(year=X["year"] - 2010)),
        rtol=1e-8,
    )
    stats = ColumnStats.about_means(design.toarray(), None, stored(design, model._encoding.categorical))
    dense = ColumnScaling.from_stats(stats, stats.centre, True)
    columns = model._encoding.columns
    np.testing.assert_allclose(columns.applied(design).toarray(), dense.applied(design.toarray()), atol=1e-12)
    assert sp.issparse(columns.applied(design))


@pytest.mark.costly
def test_under_a_flat_prior_the_first_level_is_the_reference(table):
    """Estimates and standard errors are those of statsmodels' C(x); means of a Poisson's are a little off its mode."""
    formula = pytest.importorskip("statsmodels.formula.api")
    families = pytest.importorskip("statsmodels.api").families
    X, f, rng = table
    X = X.assign(year=X["year"] - 2010)[["city", "size", "year"]]
    names = ["city_oslo", "city_rome", "size_m", "size_l", "year", "intercept"]
    own = ["C(city)[T.oslo]", "C(city)[T.rome]", "C(size)[T.m]", "C(size)[T.l]", "year", "Intercept"]
    for name, off, family in (("gaussian", 1e-4, families.Gaussian()), ("poisson", 0.15, families.Poisson())):
        y = target(name, f, rng)
        model = BayesianGLMRegressor(likelihood=name, prior_precision="flat", tol=1e-8).fit(X, y)
        theirs = formula.glm("y ~ C(city) + C(size) + year", X.assign(y=y), family=family).fit()
        found = model.summary(effects="joint", contrasts="none").iloc[:6]
        assert found.index.tolist() == names
        assert np.all(np.abs(found["mean"].to_numpy() - theirs.params[own]) < off * theirs.bse[own])
        np.testing.assert_allclose(found["std"], theirs.bse[own], rtol=0.02)
    assert "categorical  city (3 levels against bern), size (3 levels against s)" in model.summary_text()
    same = make_pipeline(encoded("passthrough", drop="first"), clone(model)).fit(X, y)
    np.testing.assert_array_equal(model.coef_, same[-1].coef_)
    with pytest.raises(ValueError, match=r"coefficient of column 'size_xl': .*remove_unused_categories"):
        clone(model).fit(X.assign(size=X["size"].cat.add_categories("xl")), y)


@pytest.mark.costly
def test_which_columns(table):
    X, f, _ = table
    automatic = BayesianGLMRegressor().fit(X, f)
    assert automatic.summary_text().splitlines()[3] == "categorical  city (3 levels), size (3 levels)"
    names, positions = ["zone", "city", "size"], [0, 1, -1]
    mask = np.isin(X.columns, names)
    fits = [BayesianGLMRegressor(categorical_features=given).fit(X, f) for given in (names, positions, mask)]
    for fit in fits:
        assert fit.summary(effects="joint", contrasts="none").index[-6:-2].tolist() == [
            "zone_100",
            "zone_101",
            "zone_102",
            "zone_103",
        ]
        np.testing.assert_array_equal(fit.coef_, fits[0].coef_)
    unnamed = BayesianGLMRegressor(categorical_features=mask).fit(X.to_numpy(), f)
    np.testing.assert_allclose(unnamed.predict(X.to_numpy()), fits[0].predict(X), rtol=1e-8)
    assert unnamed.summary(effects="joint", contrasts="none").index[0] == "x0_bern"
    sparse = sp.csr_matrix(X[["w", "zone"]].to_numpy())
    kinds = BayesianGLMRegressor(categorical_features=[1]).fit(sparse, f)
    assert kinds.summary(effects="joint", contrasts="none").index[:3].tolist() == ["x0", "x1_100.0", "x1_101.0"]
    # What was read as numbers still is: numbers written out, truth values, and nothing where nothing is asked for.
    written = pd.DataFrame({"a": X["year"].astype(str), "b": X["flag"]})
    numbers = BayesianGLMRegressor().fit(written, f)
    np.testing.assert_array_equal(numbers.coef_, BayesianGLMRegressor().fit(written.astype(float), f).coef_)
    empty = BayesianGLMRegressor(categorical_features=[]).fit(X[["w"]], f)
    np.testing.assert_array_equal(empty.coef_, BayesianGLMRegressor(categorical_features=None).fit(X[["w"]], f).coef_)
    # Other values, such as intervals, by their text.
    cut = BayesianGLMRegressor().fit(X.assign(w=pd.cut(X["w"], [-9, 0, 9])), f)
    assert "w_(-9, 0]" in cut.summary(effects="joint", contrasts="none").index
    with pytest.raises((TypeError, ValueError), match=r"array element|unhashable"):
        BayesianGLMRegressor().fit(X[["w"]].assign(w=[[1], [2, 3]] * (N // 2)), f)


@pytest.mark.parametrize("prior", ["auto", "flat"])
def test_levels_that_are_new(table, prior):
    """They have no effect, or are the reference; one warning says which they are."""
    X, f, _ = table
    X = X[["city", "w", "size"]]
    model = BayesianGLMRegressor(prior_precision=prior).fit(X, f)
    new = X.iloc[:4].assign(city=["cork", None, "bern", "cork"])
    new["size"] = pd.Categorical(["s", "xl", "s", "s"])
    with pytest.warns(UserWarning, match="column 'city' has 'cork' and missing values in 3 of 4 rows") as told:
        found = model.predict(new)
    assert len(told) == 1 and "column 'size' has 'xl' in 1 of 4 rows" in str(told[0].message)
    assert told[0].filename == __file__
    coef = model.summary(effects="joint", contrasts="none")["mean"]
    if prior == "flat":
        known = new.assign(city=["bern"] * 4, size=pd.Categorical(["s"] * 4))
        np.testing.assert_array_equal(found, model.predict(known))
    else:
        expected = coef["intercept"] + coef["w"] * new["w"] + np.where(new["city"] == "bern", coef["city_bern"], 0.0)
        np.testing.assert_allclose(found, expected + np.array([1, 0, 1, 1]) * coef["size_s"], rtol=1e-9)


@pytest.mark.parametrize("nothing", [None, np.nan, pd.NA])
def test_a_missing_value_is_a_level_where_the_fit_saw_one(table, nothing):
    X, f, _ = table
    X = X[["city", "w", "zone"]].astype({"city": object, "zone": float})
    X.loc[:59, "city"], X.loc[200:, "zone"] = nothing, np.nan
    f = f + 3.0 * X["city"].isna()
    model = BayesianGLMRegressor(categorical_features=["city", "zone"]).fit(X, f)
    coef = model.summary(effects="joint", contrasts="none")["mean"]
    assert list(coef.index[:4]) == ["city_bern", "city_oslo", "city_rome", "city_nan"] and "zone_nan" in coef
    assert coef["city_nan"] - coef["city_bern"] > 2.0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_allclose(
            model.predict(X.assign(city=pd.Series([np.nan] * N, dtype=object)))[:60], model.predict(X)[:60]
        )


def test_streams_keep_the_first_levels(table):
    X, f, _ = table
    X = X[["city", "size", "w"]]
    X = X.assign(city=X["city"].astype("category"))
    parts = [X.index[X["city"] != "rome"][:100], X.index[X["city"] == "rome"]]
    stream, all_at_once = (
        BayesianGLMRegressor(),
        BayesianGLMRegressor().fit(X.loc[np.concatenate(parts)], f[np.concatenate(parts)]),
    )
    for rows in parts:
        stream.partial_fit(X.loc[rows], f[rows])
    assert (
        stream.summary(effects="joint", contrasts="none").index.tolist()
        == all_at_once.summary(effects="joint", contrasts="none").index.tolist()
    )
    np.testing.assert_allclose(stream.predict(X), all_at_once.predict(X), atol=0.05)
    text = X.assign(city=X["city"].astype(object))
    stream = BayesianGLMRegressor().partial_fit(text.loc[parts[0]], f[parts[0]])
    with pytest.warns(UserWarning, match="column 'city' has 'rome' in"):
        stream.partial_fit(text.loc[parts[1]], f[parts[1]])
    assert "city_rome" not in stream.summary(effects="joint", contrasts="none").index
    with pytest.raises(ValueError, match=r"categorical_features was 'from_dtype' .* and is 'None' now"):
        stream.set_params(categorical_features=None).partial_fit(text, f)


def test_fits_that_are_copied_and_go_on(table, tmp_path):
    X, f, _ = table
    model = BayesianGLMRegressor(warm_start=True).fit(X, f)
    model.save(tmp_path / "fit.sksvi")
    loaded, pickled = sksvi.load(tmp_path / "fit.sksvi"), pickle.loads(pickle.dumps(model))
    for copy in (loaded, pickled):
        np.testing.assert_array_equal(copy.predict(X), model.predict(X))
        assert copy.summary(effects="joint", contrasts="none").equals(model.summary(effects="joint", contrasts="none"))
    again = loaded.fit(X.iloc[::-1], f[::-1])
    np.testing.assert_allclose(again.predict(X), model.predict(X), rtol=1e-4)
    # A fit to a table without categories forgets them, and a file from before there were any reads as it did.
    plain = model.set_params(warm_start=False).fit(X[["w", "year"]], f)
    assert plain.coef_.shape == (2,) and "categorical" not in plain.summary_text()
    vars(plain).pop("categorical_features")
    plain._record.choices.pop("categorical_features")
    plain.__dict__["categorical_features"] = None
    plain.save(tmp_path / "old.sksvi")
    np.testing.assert_array_equal(
        sksvi.load(tmp_path / "old.sksvi").predict(X[["w", "year"]]), plain.predict(X[["w", "year"]])
    )


@pytest.mark.parametrize("kind", [BayesianGLMRegressor, GMERegressor])
@pytest.mark.parametrize("change", [{"n_columns": 9}, {"missing": [True, False]}, {"reference": True}])
def test_a_file_whose_levels_are_not_those_of_its_coefficients_is_refused(table, kind, change, tmp_path):
    X, f, _ = table
    model = kind(**({"groups": "zone", "max_iter": 60} if kind is GMERegressor else {})).fit(X, f)
    categories = replace(model._encoding.categorical, **change)
    model._encoding = replace(model._encoding, categorical=categories)
    model.save(tmp_path / "fit.sksvi")
    with pytest.raises(ValueError, match=r"cannot be loaded: (_encoding|state_|posterior_|coef_)"):
        sksvi.load(tmp_path / "fit.sksvi")


def test_weights_of_zero_remove_levels(table):
    X, f, _ = table
    odd = X.iloc[[0]].assign(city="cork")
    more, g = pd.concat([X, odd]), np.append(f, 5.0)
    weight = np.append(np.ones(N), 0.0)
    model = BayesianGLMRegressor().fit(more, g, sample_weight=weight)
    np.testing.assert_array_equal(model.coef_, BayesianGLMRegressor().fit(X, f, sample_weight=np.ones(N)).coef_)


def test_a_prior_per_column_is_that_of_all_its_levels(table):
    X, f, _ = table
    X = X[["city", "w"]]
    model = BayesianGLMRegressor(prior_precision=[4.0, 0.5]).fit(X, f)
    np.testing.assert_array_equal(model.prior_precision_, [4.0, 4.0, 4.0, 0.5])


@pytest.mark.costly
def test_a_name_in_each_row_is_told(table):
    X, *_ = table
    with pytest.warns(UserWarning, match="column 'who' of X has 300 levels in 300 rows"):
        BayesianGLMRegressor(prior_precision=1.0).fit(X[["w"]].assign(who=[f"p{i}" for i in range(N)]), X["w"])


@pytest.mark.filterwarnings("ignore:noise is larger where column")
def test_effects_and_pictures(table):
    """Contrasts of levels, also of numbers that are names and where some are missing."""
    X, f, _ = table
    X.loc[:9, "city"] = None
    model = BayesianGLMRegressor(categorical_features=["city", "size", "zone"]).fit(X, f + 2.0 * (X["zone"] == 101))
    found = marginal_effects(model, X, n_draws=50)
    assert found.loc["city"].index.tolist() == ["oslo - bern", "rome - bern"]
    assert found.loc["zone"].index.tolist() == ["101 - 100", "102 - 100", "103 - 100"]
    assert abs(found.loc[("zone", "101 - 100"), "mean"] - 2.0) < 0.2
    coef = model.summary(effects="joint", contrasts="none")["mean"]
    assert abs(found.loc[("size", "l - s"), "mean"] - coef["size_l"] + coef["size_s"]) < 0.05
    points = PartialEffectDisplay.from_estimator(model, X, "zone", n_draws=20)
    assert points.effects[0].index.tolist() == [100, 101, 102, 103] and points.bands_[0].has_yerr
    for given in (None, X):
        display = CoefficientDisplay.from_estimator(model, max_features=None, standardize=True, X=given)
        # The first level of each is what the others are compared with; missing values come behind levels.
        assert [name for name in display.feature_names if name.startswith("city")] == [
            "city_oslo",
            "city_rome",
            "city_nan",
        ]
        assert not {"city_bern", "size_s", "zone_100"} & set(display.feature_names)
        assert {"size_m", "size_l", "zone_101", "zone_102", "zone_103"} < set(display.feature_names)


def test_frames_of_other_libraries(table):
    pl = pytest.importorskip("polars")
    X, f, _ = table
    X = X[["city", "size", "w"]]
    model = BayesianGLMRegressor().fit(X, f)
    kinds = {"size": pl.Series(X["size"].astype(str).tolist(), dtype=pl.Enum(SIZES)), "w": X["w"].to_numpy()}
    frame = pl.DataFrame({"city": pl.Series(X["city"].tolist(), dtype=pl.Categorical), **kinds})
    other = BayesianGLMRegressor().fit(frame, f)
    assert other.summary(effects="joint", contrasts="none").equals(model.summary(effects="joint", contrasts="none"))
    np.testing.assert_array_equal(other.predict(frame), model.predict(X))
    strings = X.astype({"city": pd.ArrowDtype(pytest.importorskip("pyarrow").string())})
    np.testing.assert_array_equal(BayesianGLMRegressor().fit(strings, f).coef_, model.coef_)
    arrow = BayesianGLMRegressor().fit(frame.drop("size").to_arrow(), f) if hasattr(frame, "to_arrow") else None
    assert arrow is None or arrow.summary(effects="joint", contrasts="none").index[:3].tolist() == [
        "city_bern",
        "city_oslo",
        "city_rome",
    ]


@pytest.mark.parametrize("kind", [GMERegressor, GMEClassifier])
def test_the_fixed_part_of_mixed_models(table, kind):
    """Beside groups, with slopes of a column of numbers that stands behind the indicators."""
    X, f, rng = table
    y = f + 0.3 * rng.standard_normal(N) if kind is GMERegressor else f + rng.logistic(size=N) > 0
    model = kind(groups="zone", random_slopes="w", max_iter=20, random_state=0)
    indicators = pd.get_dummies(X[["city", "size"]], dtype=float)
    beside = pd.concat([indicators, X.drop(columns=["city", "size"])], axis=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the most passes
        own, other = clone(model).fit(X, y), clone(model).fit(beside, y)
    np.testing.assert_allclose(own.coef_, other.coef_, rtol=1e-10)
    np.testing.assert_allclose(own.group_effects_, other.group_effects_, rtol=1e-10)
    assert own.n_features_in_ == 6 and own.summary(effects="joint", contrasts="none").index.equals(
        other.summary(effects="joint", contrasts="none").index
    )
    with pytest.raises(ValueError, match=r"column 'city' has 'cork' in 300 of 300 rows\. Leave such rows out"):
        own.set_params(on_unseen="error").predict(X.assign(city="cork"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        own.set_params(on_unseen="ignore").predict(X.assign(city="cork"))


def test_names_of_which_some_are_figures_are_names():
    X = pd.DataFrame({"drive": ["4", "f", "r"] * 20, "power": np.linspace(-1.0, 1.0, 60)})
    model = BayesianGLMRegressor().fit(X, (X["drive"] == "4") + X["power"])
    assert {"drive_4", "drive_f", "drive_r"} <= set(model.summary(effects="joint", contrasts="none").index)
    with pytest.raises(ValueError, match=r"'\?' in row 2, which is no number, beside '4'"):
        BayesianGLMRegressor().fit(X.assign(drive=["4", "6", "?"] * 20), X["power"])
