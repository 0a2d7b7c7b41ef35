"""Average slopes and contrasts: closed forms, agreement with the delta method, wrappers, groups of rows."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit
from sklearn.compose import TransformedTargetRegressor, make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import KBinsDiscretizer, OneHotEncoder, StandardScaler

from sksvi import (
    BayesianGLMClassifier,
    BayesianGLMRegressor,
    DynamicGLM,
    GMERegressor,
    PartialEffectDisplay,
    SparseGPRegressor,
)
from sksvi.inspection import marginal_effects, partial_effect

N, DRAWS = 600, 400


@pytest.fixture
def table(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    X = pd.DataFrame(
        {"age": rng.normal(50, 12, N), "dose": rng.gamma(2, 2, N), "sex": rng.choice(["f", "m"], N)},
    )
    f = -3 + 0.05 * X["age"] + 0.2 * X["dose"] + 0.5 * (X["sex"] == "m")
    return X, f.to_numpy(), rng


def pipeline(model):
    columns = make_column_transformer((OneHotEncoder(drop="first"), ["sex"]), remainder=StandardScaler())
    return make_pipeline(columns, model)


def test_a_linear_mean_has_its_coefficients(table):
    """Slopes of an identity link are the coefficients, and their draws the posterior's."""
    X, f, rng = table
    numbers = X[["age", "dose"]]
    model = BayesianGLMRegressor(random_state=0).fit(numbers, 50_000 + 1e4 * (f + rng.standard_normal(N)))
    found = marginal_effects(model, numbers, n_draws=DRAWS)
    assert found.index.tolist() == [("age", "slope"), ("dose", "slope")]
    assert np.all(np.abs(found["mean"] - model.coef_) < 4 * model.coef_std_ / np.sqrt(DRAWS))
    assert np.all(np.abs(found["std"] / model.coef_std_ - 1) < 4 / np.sqrt(2 * DRAWS))


def test_average_slopes_of_a_logit_are_those_of_its_derivative(table):
    X, f, rng = table
    model = pipeline(BayesianGLMClassifier(random_state=0)).fit(X, rng.random(N) < expit(f))
    inner, columns = model[-1], model[0]
    found = marginal_effects(model, X, n_draws=DRAWS)
    A, scale = columns.transform(X), columns.named_transformers_["remainder"].scale_
    draws = inner.posterior_["weights"].sample(4000, 1)
    p = expit(A @ draws[:, :-1].T + draws[:, -1])
    slopes = (p * (1 - p)).mean(axis=0) * draws[:, 1:3].T / scale[:, None]
    with_m, without = A.copy(), A.copy()
    with_m[:, 0], without[:, 0] = 1.0, 0.0
    contrast = (expit(with_m @ draws[:, :-1].T + draws[:, -1]) - expit(without @ draws[:, :-1].T + draws[:, -1])).mean(
        0
    )
    expected = np.vstack([slopes, contrast])
    assert found.index.tolist() == [("age", "slope"), ("dose", "slope"), ("sex", "m - f")]
    error = expected.std(axis=1) / np.sqrt(DRAWS)
    assert np.all(np.abs(found["mean"] - expected.mean(axis=1)) < 4.5 * error)
    assert np.all(np.abs(found["std"] / expected.std(axis=1) - 1) < 4 / np.sqrt(2 * DRAWS))
    assert np.all(found["lower"] < found["mean"]) and np.all(found["direction"].between(0.5, 1.0))


def test_within_values_of_a_column(table):
    X, f, rng = table
    model = pipeline(BayesianGLMRegressor(likelihood="poisson", random_state=0)).fit(X, rng.poisson(np.exp(f / 2)))
    within = marginal_effects(model, X, "dose", by="sex", n_draws=50)
    for value in ("f", "m"):
        alone = marginal_effects(model, X[X["sex"] == value], "dose", n_draws=50)
        # the step of the difference is that of the column's own spread
        np.testing.assert_allclose(within.loc[("dose", "slope", value)], alone.loc[("dose", "slope")], rtol=1e-6)
    weight = (X["sex"] == "f").to_numpy(float)
    alone = marginal_effects(model, X, "dose", sample_weight=weight, n_draws=50)
    np.testing.assert_allclose(within.loc[("dose", "slope", "f")], alone.loc[("dose", "slope")], rtol=1e-9)
    doubled = marginal_effects(model, X, "dose", exposure=2.0, n_draws=50)
    once = marginal_effects(model, X, "dose", n_draws=50)
    np.testing.assert_allclose(doubled["mean"], 2 * once["mean"], rtol=1e-9)


def test_labels_have_effects_that_cancel(table):
    X, f, rng = table
    y = np.digitize(f + rng.logistic(size=N), [0.0, 1.5])
    model = pipeline(BayesianGLMClassifier(random_state=0)).fit(X, np.array(["low", "mid", "high"])[y])
    found = marginal_effects(model, X, ["dose"], n_draws=100)
    assert found.index.names == ["feature", "contrast", "class"] and len(found) == 3
    assert abs(found["mean"].sum()) < 1e-9
    ordered = pd.Categorical.from_codes(y, ["low", "mid", "high"], ordered=True)
    model = pipeline(BayesianGLMRegressor(likelihood="ordinal", random_state=0)).fit(X, ordered)
    found = marginal_effects(model, X, ["dose"], n_draws=100)
    assert found.index.get_level_values("class").tolist() == ["low", "mid", "high"]
    assert abs(found["mean"].sum()) < 1e-9 and found["mean"].iloc[0] < 0 < found["mean"].iloc[-1]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_groups_noise_and_processes(table):
    X, f, rng = table
    y = rng.poisson(np.exp(f / 2))
    grouped = GMERegressor(likelihood="poisson", groups="sex", bound="simple", random_state=0).fit(X, y)
    found = marginal_effects(grouped, X, n_draws=50)
    assert found.index.get_level_values("feature").tolist() == ["age", "dose"]
    # behind exp the average slope is the coefficient times the average rate
    rate = grouped.predict(X).mean()
    assert np.all(np.abs(found["mean"] / (grouped.coef_ * rate) - 1) < 0.25)
    process = SparseGPRegressor(n_inducing=15, max_iter=30, random_state=0).fit(X[["age", "dose"]], f)
    found = marginal_effects(process, X[["age", "dose"]], n_draws=50)
    np.testing.assert_allclose(found["mean"], [0.05, 0.2], rtol=0.2)


@pytest.mark.parametrize("unknown", [pytest.param("ignore", marks=pytest.mark.exhaustive), "error"])
def test_numbers_that_become_categories_have_contrasts(table, unknown):
    """A small step leads to no category: a slope would be nothing, or nonsense."""
    X, f, rng = table
    X = X.assign(hour=rng.integers(0, 4, N), day=np.arange(N) % 300)
    y = f + 2.0 * (X["hour"] == 2) + 0.1 * rng.standard_normal(N)
    columns = make_column_transformer(
        (OneHotEncoder(handle_unknown=unknown), ["hour", "sex"]), remainder=StandardScaler()
    )
    model = make_pipeline(columns, BayesianGLMRegressor(random_state=0)).fit(X, y)
    found = marginal_effects(model, X, n_draws=50)
    assert found.loc["hour"].index.tolist() == ["1 - 0", "2 - 0", "3 - 0"]
    assert abs(found.loc[("hour", "2 - 0"), "mean"] - 2.0) < 0.1
    assert found.loc["day"].index.tolist() == ["slope"]
    columns = make_column_transformer((KBinsDiscretizer(3, quantile_method="linear"), ["age", "day"]))
    model = make_pipeline(columns, BayesianGLMRegressor(random_state=0)).fit(X, y)
    with pytest.raises(ValueError, match="the mean of y jumps along column 'age' of X, which has 600 values"):
        marginal_effects(model, X, ["age"], n_draws=20)


def test_missing_values_are_left_out_by_name(table):
    X, f, _ = table
    X = X[["age", "dose"]].assign(age=X["age"].where(X["age"] < 60))
    model = make_pipeline(SimpleImputer(), BayesianGLMRegressor()).fit(X, f)
    with pytest.warns(UserWarning, match=r"columns \['age'\] of X have missing values and are left out"):
        assert marginal_effects(model, X, n_draws=20).index.tolist() == [("dose", "slope")]
    with pytest.raises(ValueError, match="column 'age' of X has missing values"):
        marginal_effects(model, X, ["age"])


def test_what_has_no_effects_says_so(table):
    X, f, _ = table
    numbers = X[["age", "dose"]]
    model = BayesianGLMRegressor().fit(numbers, f)
    with pytest.raises(ValueError, match="features has 'height', which is no column of X"):
        marginal_effects(model, numbers, ["height"])
    with pytest.raises(ValueError, match="column 'age' of X has one value only"):
        marginal_effects(model, numbers.assign(age=3.0), ["age"])
    with pytest.raises(ValueError, match="by='town' is no column"):
        marginal_effects(model, numbers, by="town")
    with pytest.raises(TypeError, match="transformed target"):
        marginal_effects(
            TransformedTargetRegressor(BayesianGLMRegressor(), transformer=StandardScaler()).fit(numbers, f), X
        )
    with pytest.raises(TypeError, match="DynamicGLM has no draws of its latents"):
        marginal_effects(DynamicGLM(likelihood="gaussian", max_iter=3), numbers)


def test_the_legend_of_classes_hides_no_curve(table):
    pytest.importorskip("matplotlib")
    X, f, rng = table
    y = np.array(["low", "mid", "high"])[np.digitize(f + rng.standard_normal(N), [-0.5, 0.5])]
    model = pipeline(BayesianGLMClassifier(random_state=0)).fit(X, y)
    for feature in ("age", "sex"):
        display = PartialEffectDisplay.from_estimator(model, X, feature, n_draws=20)
        display.figure_.canvas.draw()
        legend, axes = display.ax_.get_legend().get_window_extent(), display.ax_.get_window_extent()
        assert legend.x0 >= axes.x1 and legend.x1 <= display.figure_.bbox.x1  # beside the data, inside the figure
        assert len({line.get_color() for line in display.lines_}) == 3
        assert display.plot(c="red").lines_[0].get_color() == "red"


def test_the_curve_is_the_average_over_rows(table):
    pytest.importorskip("matplotlib")
    X, f, rng = table
    model = pipeline(BayesianGLMClassifier(random_state=0)).fit(X, rng.random(N) < expit(f))
    for value, row in partial_effect(model, X, "age", max_rows=None, grid_resolution=5, n_draws=DRAWS).iterrows():
        expected = model.predict_proba(X.assign(age=value))[:, 1].mean()
        assert abs(row["mean"] - expected) < 4 * row["std"] / np.sqrt(DRAWS) + 1e-3
    display = PartialEffectDisplay.from_estimator(model, X, "sex", n_draws=20)
    assert [label.get_text() for label in display.ax_.get_xticklabels()] == ["f", "m"]
    codes = X.assign(day=np.arange(N) % 60)
    days = pipeline(BayesianGLMClassifier(random_state=0)).fit(codes, rng.random(N) < expit(f))
    display = PartialEffectDisplay.from_estimator(days, codes, "day", n_draws=20)
    shown = display.effects[0].index
    assert set(shown) <= set(codes["day"]) and len(shown) == 40  # never between whole numbers
    with pytest.raises(ValueError, match="features has 'height', which is no column of X"):
        PartialEffectDisplay.from_estimator(model, X, "height")


def test_two_columns_together(table):
    """A pair of numbers is a map, a pair with categories a curve for each, and panels stand beside each other."""
    pytest.importorskip("matplotlib")
    X, f, rng = table
    model = pipeline(BayesianGLMClassifier(random_state=0)).fit(X, rng.random(N) < expit(f))
    options = {"max_rows": None, "grid_resolution": 6, "n_draws": 100}
    parts = ["dose", ("age", "dose"), ("sex", "age"), ("sex", "dose")]
    display = PartialEffectDisplay.from_estimator(model, X, parts, **options)
    for pair in (("age", "dose"), ("sex", "age")):
        effect = partial_effect(model, X, pair, **options)
        pd.testing.assert_frame_equal(effect, display.effects[parts.index(pair)])
        assert effect.index.names == list(pair) and len(effect) == (9 if pair[0] == "age" else 12)
        for values, row in list(effect.iterrows())[::4]:
            expected = model.predict_proba(X.assign(**dict(zip(pair, values))))[:, 1].mean()
            assert abs(row["mean"] - expected) < 4 * row["std"] / np.sqrt(100) + 1e-3
    assert len(display.ax_) == 4 and len(display.contours_) == 1 and len(display.lines_) == 1 + 2 + 2
    assert [ax.get_xlabel() for ax in display.ax_] == ["dose", "age", "age", "dose"]  # numbers along the axis
    assert display.ax_[1].get_ylabel() == "dose" and len({ax.get_ylim() for ax in display.ax_[[0, 2, 3]]}) == 1
    for wrong in (("age", "age"), ("age", "dose", "sex"), []):
        with pytest.raises(ValueError, match="features must be a column or a pair of two"):
            partial_effect(model, X, wrong)
    with pytest.raises(ValueError, match="there is no effect to draw"):
        PartialEffectDisplay.from_estimator(model, X, [])


def test_many_categories_are_thinned_out_and_counted(table):
    pytest.importorskip("matplotlib")
    X, f, _ = table
    X = X[["age"]].assign(town=[f"town {k % 20:02d}" for k in range(N)])
    model = BayesianGLMRegressor(random_state=0).fit(X, f)
    display = PartialEffectDisplay.from_estimator(model, X, ("town", "age"), n_draws=10, grid_resolution=20)
    assert len(display.effects[0]) == 400 and len(display.lines_) == 14
    assert display.ax_.get_title(loc="left") == "14 of 20 categories, evenly spaced"


def test_pairs_of_several_labels_have_a_panel_each(table):
    pytest.importorskip("matplotlib")
    X, f, rng = table
    y = np.digitize(f + rng.standard_normal(N), [-0.5, 0.5])
    model = BayesianGLMClassifier(random_state=0).fit(X[["age", "dose"]].to_numpy(), y)
    display = PartialEffectDisplay.from_estimator(model, X[["age", "dose"]].to_numpy(), [(0, 1), 1], n_draws=20)
    assert len(display.contours_) == 3 and len(display.lines_) == 3 and len(display.ax_) == 4
    assert [table.index.names for table in display.effects] == [["x0", "x1", "class"], ["x1", "class"]]
    np.testing.assert_allclose(display.effects[0]["mean"].groupby(level=[0, 1]).sum(), 1.0, rtol=1e-9)


# ---- effects under a weak prior of their own
@pytest.mark.parametrize("groups", [False, True])
def test_effects_of_a_linear_model_are_those_of_the_summary(groups, global_random_seed):
    n, n_draws, rng = 300, 4000, np.random.default_rng(global_random_seed)
    X = pd.DataFrame(rng.standard_normal((n, 4)), columns=list("abcd")).assign(kind=rng.choice(list("uvw"), n))
    y = X["a"] + rng.standard_normal(n)
    model = GMERegressor(groups="g") if groups else BayesianGLMRegressor()
    X = X.assign(g=np.arange(n) % 10) if groups else X
    table = model.fit(X, y).summary()
    effects = marginal_effects(model, X, ["b", "kind"], n_draws=n_draws)
    rows = table.loc[["b", "kind_v", "kind_w"]]
    error = 4 * rows["std"].to_numpy() / np.sqrt(n_draws)
    assert np.all(np.abs(effects["mean"].to_numpy() - rows["mean"].to_numpy()) < error)
    np.testing.assert_allclose(effects["std"], rows["std"], rtol=6 / np.sqrt(2 * n_draws))
    for end in ("lower", "upper"):  # of a 5 % quantile of a normal: 2.1 standard errors of the mean
        assert np.all(np.abs(effects[end].to_numpy() - rows[end].to_numpy()) < 2.4 * error)


# ---- what makes no groups, and no spread
def test_a_spread_needs_two_draws(table):
    X, f, rng = table
    model = BayesianGLMRegressor().fit(X[["age", "dose"]], f + rng.standard_normal(N))
    for call in (
        lambda n: marginal_effects(model, X[["age", "dose"]], n_draws=n),
        lambda n: PartialEffectDisplay.from_estimator(model, X[["age", "dose"]], "age", n_draws=n),
    ):
        with pytest.raises(ValueError, match=r"n_draws must be .*2.*found 1"):
            call(1)
    assert np.all(marginal_effects(model, X[["age", "dose"]], n_draws=2)["std"] > 0)


def test_numbers_with_fractions_make_no_groups(table):
    X, f, rng = table
    numbers = X[["age", "dose"]]
    model = BayesianGLMRegressor().fit(numbers, f + rng.standard_normal(N))
    with pytest.raises(ValueError, match=f"by='age' has {N} values with fractions.*pandas.qcut"):
        marginal_effects(model, numbers, ["dose"], by="age", n_draws=2)
    with pytest.raises(ValueError, match=f"^by has {N} values with fractions"):
        marginal_effects(model, numbers, ["dose"], by=X["age"], n_draws=2)
    quarters = pd.qcut(X["age"], 4)
    found = marginal_effects(model, numbers, ["dose"], by=quarters, n_draws=2)
    assert found.index.get_level_values("by").tolist() == quarters.cat.categories.tolist()
    for groups in (X["age"].round(-1) / 4, np.arange(N) // 6 * 1.0, np.arange(N) // 6):  # few, or whole numbers
        assert len(marginal_effects(model, numbers, ["dose"], by=groups, n_draws=2)) == len(np.unique(groups))


def test_rows_as_they_are_are_averaged_by_their_weight():
    """Poststratification: the mean of a linear model is that of its predictions, and intervals hold for the average."""
    rng = np.random.default_rng(0)
    cells = pd.DataFrame({"place": rng.choice(list("abc"), 60), "x": rng.normal(size=60)})
    model = BayesianGLMRegressor().fit(cells, cells["x"] + rng.normal(size=60))
    people = rng.integers(1, 50, 60)
    found = marginal_effects(model, cells, [], by="place", kind="means", sample_weight=people)
    totals = pd.DataFrame({"sum": model.predict(cells) * people, "people": people}).groupby(cells["place"]).sum()
    np.testing.assert_allclose(found["mean"], totals["sum"] / totals["people"], rtol=1e-6)
    assert found.index.tolist() == list("abc") and found.index.name == "place"
    everyone = marginal_effects(model, cells, [], kind="means", sample_weight=people)
    assert len(everyone) == 1 and everyone["std"].item() < found["std"].min()
    labels = BayesianGLMClassifier().fit(cells, rng.choice(list("xyz"), 60))
    shares = marginal_effects(labels, cells, [], kind="means")
    assert shares.index.tolist() == list("xyz")
    np.testing.assert_allclose(shares["mean"].sum(), 1.0)
    with pytest.raises(ValueError, match="features names no column"):
        marginal_effects(model, cells, [])
