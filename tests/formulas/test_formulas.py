"""Formulas: their columns, fits with the same numbers as without, what is refused by name, new rows and files."""

from __future__ import annotations

import pickle
import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import KFold, cross_val_score

import sksvi
from sksvi import BayesianGLMClassifier, BayesianGLMRegressor, GMERegressor
from sksvi.formulas import FormulaTransformer
from sksvi.inspection import loo, marginal_effects
from sksvi.preprocessing import HilbertGPTransformer, SmoothTransformer

pytest.importorskip("formulaic")


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    n = 240
    found = pd.DataFrame(
        {
            "x": rng.standard_normal(n),
            "age": rng.uniform(20.0, 70.0, n),
            "z": rng.choice(["a", "b", "c"], n),
            "sex": rng.choice(["f", "m"], n),
            "g": rng.choice([f"g{k}" for k in range(8)], n),
            "h": rng.choice(["p", "q"], n),
            "n": rng.integers(1, 20, n),
        },
        index=[f"row {i}" for i in range(n)],
    )
    found["y"] = rng.poisson(found["n"] * np.exp(0.3 * found["x"] + 0.4 * np.sin(found["age"] / 8.0) - 1.0))
    found["wins"] = rng.binomial(found["n"], 0.3)
    found["time"], found["dead"] = rng.weibull(2.0, n) * np.exp(0.3 * found["x"]), rng.random(n) < 0.7
    found["label"] = np.where(found["x"] + rng.logistic(size=n) > 0, "yes", "no")
    return found


@pytest.fixture(scope="module")
def mixed(data):
    formula = "y ~ x*z + s(age, by=sex, k=6) + (1 + x || g) + offset(log(n))"
    return sksvi.from_formula(formula, data, likelihood="poisson", noise=False).fit(data)


# ---- columns
@pytest.mark.parametrize(
    ("formula", "names"),
    [
        ("y ~ x * z", ["x", "z[T.b]", "z[T.c]", "x:z[T.b]", "x:z[T.c]"]),
        ("y ~ 0 + z + x", ["z[a]", "z[b]", "z[c]", "x"]),
        ("y ~ -1 + z", ["z[a]", "z[b]", "z[c]"]),
        ("y ~ z + x:z", ["z[T.b]", "z[T.c]", "x:z[a]", "x:z[b]", "x:z[c]"]),
        ("y ~ (x + n)**2 - n", ["x", "x:n"]),
        ("y ~ 1", []),
    ],
)
def test_columns_are_those_of_model_matrix(data, formula, names):
    """Of R: treatment contrasts beside an intercept, all levels without one."""
    columns = {"x": data["x"], "n": data["n"]}
    columns |= {f"z[{level}]": data["z"] == level for level in "abc"}
    columns |= {f"z[T.{level}]": data["z"] == level for level in "bc"}
    found = FormulaTransformer(formula).fit_transform(data)
    assert sorted(found) == sorted(names) and found.index.equals(data.index)
    for name in names:
        expected = np.prod([columns[part].to_numpy(float) for part in name.split(":")], axis=0)
        np.testing.assert_array_equal(found[name], expected)


def test_expressions_smooths_and_groups_are_columns(data):
    design = FormulaTransformer("~ log(n) + C(z, contr.sum) + s(age, k=6) + (1 | g/h) + (1 | n)").fit(data)
    found = design.transform(data)
    smooth = SmoothTransformer(6).fit_transform(data[["age"]])
    sums = ["C(z, contr.sum)[S.a]", "C(z, contr.sum)[S.b]"]
    assert list(found) == ["log(n)", *sums, "s(age)_linear", *[f"s(age)_s{k}" for k in range(1, 5)], "g", "h", "n"]
    assert list(found) == design.get_feature_names_out().tolist()
    np.testing.assert_allclose(found.filter(like="s(age)"), smooth)
    np.testing.assert_allclose(found["log(n)"], np.log(data["n"]))
    np.testing.assert_array_equal(found[sums], [{"a": [1, 0], "b": [0, 1], "c": [-1, -1]}[z] for z in data["z"]])
    assert list(design.effects_) == ["g", "g:h", "n"]
    both = FormulaTransformer("~ n + (1 | n)").fit_transform(data)
    assert list(both) == ["n", "(n)"]


# ---- fits
def test_a_linear_fit_has_the_numbers_of_one_without_a_formula(data):
    model = sksvi.from_formula("y ~ x*z + offset(log(n))", data, likelihood="negative-binomial").fit(data)
    columns = FormulaTransformer("y ~ x*z").fit_transform(data)
    direct = BayesianGLMRegressor(likelihood="negative-binomial").fit(columns, data["y"], offset=np.log(data["n"]))
    np.testing.assert_array_equal(model[-1].coef_, direct.coef_)
    pd.testing.assert_frame_equal(model.summary(), direct.summary())
    assert list(model.summary().index) == ["x", "z[T.b]", "z[T.c]", "x:z[T.b]", "x:z[T.c]", "intercept", "dispersion"]
    offset = np.log(data["n"][:5])
    np.testing.assert_array_equal(model.predict(data[:5]), direct.predict(columns[:5], offset=offset))
    twice = model.predict(data[:5], offset=np.full(5, np.log(2.0)))
    np.testing.assert_allclose(twice, 2.0 * model.predict(data[:5]), rtol=1e-10)


def test_a_mixed_fit_has_the_numbers_of_one_without_a_formula(data, mixed):
    smooth = SmoothTransformer(6, by="sex").set_output(transform="pandas")
    X = FormulaTransformer("~ x*z").fit_transform(data)
    X = pd.concat([X, smooth.fit_transform(data[["age", "sex"]]), data["g"]], axis=1)
    options = {"groups": ["g"], "random_slopes": "x", "noise": False, "likelihood": "poisson", "correlated": False}
    keys = {"age_f_s*": "auto", "age_m_s*": "auto"}
    direct = GMERegressor(prior_precision=keys, **options).fit(X, data["y"], offset=np.log(data["n"]))
    np.testing.assert_allclose(mixed[-1].coef_, direct.coef_, rtol=1e-10)
    np.testing.assert_allclose(mixed[-1].group_effects_, direct.group_effects_, rtol=1e-8)
    names = list(mixed.summary().index)
    assert names[:2] == ["x", "z[T.b]"] and "s(age, by=sex)_m_s2" in names and "std(g, x)" in names
    scales = set(mixed[-1].hyperparameter_posterior_)
    assert {"scale(s(age, by=sex)_f_s*)", "scale(s(age, by=sex)_m_s*)", "std(g, x)"} < scales
    none = mixed.predict(data[:5], include_groups="none")
    offset = np.log(data["n"][:5])
    np.testing.assert_allclose(none, direct.predict(X[:5], offset=offset, include_groups="none"), rtol=1e-8)


@pytest.mark.parametrize(("bar", "correlated"), [("|", True), ("||", False)])
def test_bars_say_whether_slopes_and_intercepts_are_correlated(data, bar, correlated):
    model = sksvi.from_formula(f"time ~ x + n + (1 + x + n {bar} g) + (1 | h)", data)[-1]
    assert model.correlated is correlated and model.groups == ["g", "h"] and model.random_intercepts is True
    assert model.random_slopes == {"g": ["x", "n"]}


def test_a_surface_is_that_of_its_transformer(data):
    formula = "log(time) ~ gp(x, log(n), kernel='matern52', length_scale=[2.0, 1.0]) + (1 | g)"
    model = sksvi.from_formula(formula, data).fit(data)
    places = pd.DataFrame({"x": data["x"], "log(n)": np.log(data["n"])})
    process = HilbertGPTransformer("matern52", [2.0, 1.0]).set_output(transform="pandas")
    X = process.fit_transform(places).assign(g=data["g"])
    direct = GMERegressor(groups="g", prior_precision={"x_log(n)_gp*": "auto"}).fit(X, np.log(data["time"]))
    np.testing.assert_allclose(model[-1].coef_, direct.coef_, rtol=1e-10)
    assert "scale(gp(x, log(n))_*)" in model[-1].hyperparameter_posterior_
    assert model.summary().index[0] == "gp(x, log(n))_1"


def test_te_is_both_smooths_and_their_interaction(data):
    design = FormulaTransformer("~ te(age, log(n), k=5) + x").fit(data)
    apart = FormulaTransformer("~ x + s(age, k=5) + s(log(n), k=5) + ti(age, log(n), k=5)").fit(data)
    pd.testing.assert_frame_equal(design.transform(data), apart.transform(data))
    assert design.smooth_keys == ["s(age)_s*", "s(log(n))_s*", "ti(age, log(n))_s*"]
    pair = pd.DataFrame({"age": data["age"], "log(n)": np.log(data["n"])})
    found = design.transform(data).filter(like="ti(")
    np.testing.assert_array_equal(found, SmoothTransformer(5, interaction=True).fit_transform(pair))
    assert list(found)[:2] == ["ti(age, log(n))_linear", "ti(age, log(n))_s1"]
    by = sksvi.from_formula("time ~ ti(age, x, by=sex, k=5)", data)[-1]
    assert list(by.prior_precision) == ["ti(age, x, by=sex)_f_s*", "ti(age, x, by=sex)_m_s*"]


@pytest.mark.parametrize("name", ["solar.r", "a b"])
def test_names_of_columns_that_are_no_names_of_python(data, name):
    other, quoted = data.rename(columns={"x": name, "sex": "the sex"}), f"`{name}`"
    formula = "time ~ {0} + log(2 + {0}**2) + s({0}, k=5) + ti(age, {0}, k=5, by={1}) + gp(exp({0})) + offset({0})"
    plain, changed = formula.format("x", "sex"), formula.format(quoted, "`the sex`")
    designs = [FormulaTransformer(text).fit(rows, data["time"]) for text, rows in ((plain, data), (changed, other))]
    found = [design.transform(rows) for design, rows in zip(designs, (data, other), strict=True)]
    np.testing.assert_array_equal(found[1], found[0])
    np.testing.assert_array_equal(designs[1].offset_of(other), data["x"])
    assert {name, f"s({quoted})_s1", f"ti(age, {quoted}, by=the sex)_f_s1"} < set(found[1])
    counts = FormulaTransformer("cbind(wins, `the n`) ~ x").response(data.rename(columns={"n": "the n"}))
    assert list(counts) == ["wins", "the n"]


def test_nested_groups_are_those_of_the_estimator(data):
    model = sksvi.from_formula("time ~ x + (1 | g/h)", data).fit(data)
    direct = GMERegressor(groups="g/h").fit(data[["x", "g", "h"]], data["time"])
    pd.testing.assert_frame_equal(model[-1].group_effects_, direct.group_effects_)
    inner = model.predict(data[:5], include_groups="g")
    np.testing.assert_array_equal(inner, direct.predict(data[["x", "g", "h"]][:5], include_groups=["g"]))
    assert not np.array_equal(inner, model.predict(data[:5]))
    np.testing.assert_allclose(inner, model.predict(data[:5].assign(h=None), include_groups="g"))


def test_responses(data):
    pairs = sksvi.from_formula("cbind(wins, n - wins) ~ x + (1 | g)", data, likelihood="binomial", noise=False).fit(
        data
    )
    np.testing.assert_array_equal(pairs.response(data), np.column_stack([data["wins"], data["n"] - data["wins"]]))
    assert pairs.predict_interval(data[:3], trials=20).max() > 1
    times = sksvi.from_formula("Surv(time, dead) ~ x", data, likelihood="weibull").fit(data)
    direct = BayesianGLMRegressor(likelihood="weibull").fit(
        data[["x"]], data[["time", "dead"]].rename(columns={"dead": "event"})
    )
    np.testing.assert_array_equal(times[-1].coef_, direct.coef_)
    assert times.predict_survival(data[:3], [1.0]).shape == (3, 1) and 0.5 < times.score(data) < 1.0
    labels = sksvi.from_formula("label ~ x", data, likelihood="logit").fit(data)
    assert isinstance(labels[-1], BayesianGLMClassifier)
    np.testing.assert_allclose(labels.predict_proba(data[:3]).sum(1), 1.0)
    assert not hasattr(labels, "predict_interval") and not hasattr(times, "predict_proba")
    logs = FormulaTransformer("log(time) ~ x").response(data)
    np.testing.assert_allclose(logs, np.log(data["time"]))
    late = FormulaTransformer("Surv(x, time, dead == True) ~ 1").response(data)
    assert list(late) == ["entry", "time", "event"] and set(late["event"]) == {0, 1}


def test_new_rows_have_levels_as_the_estimator_has_them(data, mixed):
    new = data[["x", "z", "age", "sex", "g", "n"]].iloc[[0, 0, 0]].assign(g=["g1", "new", None])  # no response
    m, v = mixed.predict_latent(new)
    assert v[1] > 1.05 * v[0]
    np.testing.assert_allclose([m[1], v[1]], [m[2], v[2]], rtol=1e-10)
    with pytest.raises(ValueError, match=r"column 'z' has level 'q', which no row of the fit had: it had \['a', 'b'"):
        mixed.predict(new.assign(z="q"))
    with pytest.raises(ValueError, match="level 'd' of column 'sex' has no smooth"):
        mixed.predict(new.assign(sex="d"))
    with pytest.raises(ValueError, match="'z' of the formula is no column of data"):
        mixed.predict(new.drop(columns="z"))
    with pytest.raises(ValueError, match="column 'x' of data has no value in row 1"):
        mixed.predict(new.assign(x=[1.0, np.nan, 1.0]))


def test_pipelines_and_copies(data, mixed):
    again = pickle.loads(pickle.dumps(mixed))
    np.testing.assert_array_equal(again.predict(data), mixed.predict(data))
    plain = sksvi.from_formula("y ~ x + offset(log(n))", data, likelihood="negative-binomial")
    found = cross_val_score(plain, data, cv=KFold(3))
    np.testing.assert_allclose(found, cross_val_score(clone(plain), data, data["y"], cv=KFold(3)))
    weighted = clone(plain).fit(data, sample_weight=np.full(len(data), 2.0))
    twice = clone(plain).fit(pd.concat([data, data]))
    np.testing.assert_allclose(weighted[-1].coef_, twice[-1].coef_, rtol=1e-6)


def test_functions_of_pipelines_find_the_offset(data, mixed):
    np.testing.assert_array_equal(sksvi.predict_interval(mixed, data[:9]), mixed.predict_interval(data[:9]))
    np.testing.assert_array_equal(sksvi.predict_std(mixed, data[:9]), mixed.predict(data[:9], return_std=True)[1])
    density = mixed.log_predictive_density(data)
    np.testing.assert_array_equal(sksvi.log_predictive_density(mixed, data, data["y"]), density)
    assert loo(mixed, data, data["y"]).elpd_loo < density.sum()
    plain = sksvi.from_formula("y ~ x + offset(log(n))", data, likelihood="negative-binomial").fit(data)
    slope = marginal_effects(plain, data, features=["x"], random_state=0)
    mean = np.average(plain.predict(data))
    assert slope["mean"].iloc[0] == pytest.approx(plain[-1].coef_[0] * mean, rel=0.1)


def test_streams_are_those_of_the_estimator(data):
    declared = data.assign(g=pd.Categorical(data["g"]), z=pd.Categorical(data["z"]))
    model = sksvi.from_formula("y ~ x + z + (1 | g) + offset(log(n))", declared, likelihood="poisson", noise=False)
    design = FormulaTransformer("~ x + z + (1 | g)").fit(declared)
    direct = GMERegressor(groups="g", likelihood="poisson", noise=False)
    for rows in (slice(0, 120), slice(120, 240)):
        chunk = declared[rows]
        model.partial_fit(chunk)
        direct.partial_fit(design.transform(chunk), chunk["y"], offset=np.log(chunk["n"]))
    np.testing.assert_array_equal(model.predict(data), direct.predict(design.transform(data), offset=np.log(data["n"])))


# ---- slopes without an intercept
#: Reaction times (ms, rounded) of 18 drivers on days 0 to 9 of short nights: sleepstudy of lme4 (Belenky et al. 2003).
SLEEP = """
    250 259 251 321 357 415 382 290 431 466 223 205 203 205 208 216 214 218 224 237 199 194 234 233 229 220 235 256 261
    248 322 300 284 285 286 298 280 318 305 354 288 285 302 320 316 293 290 335 294 372 235 243 273 310 317 310 454 347
    330 254 284 290 277 300 297 338 332 349 333 362 265 276 243 255 279 284 306 332 336 377 242 274 254 271 251 255 245
    235 236 237 312 314 292 346 366 392 404 417 456 459 236 230 239 255 251 270 282 308 336 352 256 243 256 256 269 330
    379 363 394 389 251 300 270 281 272 305 288 267 322 348 222 298 327 347 349 353 354 360 376 389 272 268 257 278 315
    317 298 348 340 367 225 235 239 240 268 344 281 348 365 372 270 272 278 282 279 285 259 305 351 369 269 273 298 311
    287 330 334 343 369 364
"""
#: What lmer of lme4 1.1-31 answers to these: fixed effects, their standard errors, standard deviations, residual one.
LME4 = {
    "(0 + Days | Subject)": ([10.467003, 251.426263], [1.8699089, 4.0198709], [7.2616908], 29.0170259),
    "(Days || Subject)": ([10.467003, 251.426263], [1.5597605, 6.8957651], [25.1100860, 5.9901721], 25.5442414),
    "(1 | Subject) + (0 + Days | Subject)": (
        [10.467003, 251.426263],
        [1.5597605, 6.8957651],
        [25.1100860, 5.9901721],
        25.5442414,
    ),
}


@pytest.fixture(scope="module")
def sleep():
    times = np.array(SLEEP.split(), float)
    return pd.DataFrame(
        {"Reaction": times, "Days": np.tile(np.arange(10), 18), "Subject": np.repeat(np.arange(18), 10)}
    )


@pytest.mark.parametrize("term", LME4)
def test_terms_of_one_group_are_those_of_lme4(sleep, term):
    """Standard deviations are modes under a wide prior, which lets them be a few percent larger."""
    fixed, errors, deviations, residual = LME4[term]
    options = {"prior_precision": "flat", "hyperparameters": "point"}
    model = sksvi.from_formula(f"Reaction ~ Days + {term}", sleep, **options).fit(sleep)
    table = model.summary()
    np.testing.assert_allclose(table.loc[["Days", "intercept"], "mean"], fixed, rtol=1e-4)
    np.testing.assert_allclose(table.loc[["Days", "intercept"], "std"], errors, rtol=0.04)
    found = model[-1].group_std_["mean"]
    np.testing.assert_allclose(found, deviations, rtol=0.06)
    assert list(found.index.get_level_values("effect")) == ["intercept", "Days"][2 - len(deviations) :]
    assert table.loc["std(residual)", "mean"] == pytest.approx(residual, rel=0.01)


@pytest.mark.parametrize("label", [False, True])
def test_a_slope_of_a_column_of_ones_is_an_intercept(data, label):
    rows = data.assign(one=1.0, y=np.log(data["time"]))
    y, likelihood = ("label", "logit") if label else ("y", "gaussian")
    options = {"likelihood": likelihood, "prior_precision": "flat"}
    alone = sksvi.from_formula(f"{y} ~ x + (1 | g)", rows, **options).fit(rows)
    slope = sksvi.from_formula(f"{y} ~ 0 + one + x + (0 + one | g)", rows, **options).fit(rows)
    assert slope[-1].random_intercepts == [] and list(slope[-1].group_std_.index) == [("g", "one")]
    np.testing.assert_allclose(slope[-1].group_effects_, alone[-1].group_effects_, rtol=0.02, atol=1e-3)
    np.testing.assert_allclose(slope[-1].group_std_, alone[-1].group_std_, rtol=0.02)
    new = rows[:3].assign(g=["g0", "new", None])
    found = [np.array(model.predict_latent(new)) for model in (slope, alone)]
    np.testing.assert_allclose(*found, rtol=0.02, atol=1e-3)


def test_effects_of_several_groups(data, tmp_path):
    """One with slopes alone, one with both and one with an intercept, in streams and files too."""
    rows = data.assign(y=np.log(data["time"]), x2=data["x"] ** 2)
    model = sksvi.from_formula("y ~ x + x2 + (0 + x + x2 | g) + (1 | h)", rows)
    assert model[-1].random_intercepts == ["h"] and model[-1].correlated
    model.fit(rows)
    effects = [("g", "x"), ("g", "x2"), ("h", "intercept")]
    assert list(model[-1].group_std_.index) == effects and "cor(g, x, x2)" in model.summary().index
    at_zero = rows[:1].assign(x=0.0, x2=0.0, g=["new"])
    included = [model.predict_latent(at_zero, include_groups=which)[1] for which in ("all", "h")]
    np.testing.assert_allclose(*included)
    X = model[0].transform(rows)
    stream = clone(model[-1]).partial_fit(X[:120], rows["y"][:120]).partial_fit(X[120:], rows["y"][120:])
    assert list(stream.group_std_.index) == effects
    stream.save(tmp_path / "stream.sksvi")
    np.testing.assert_array_equal(sksvi.load(tmp_path / "stream.sksvi").predict(X), stream.predict(X))


def test_independent_effects_of_a_categorical_column_are_told(data):
    """lme4 has correlated ones there."""
    with pytest.warns(
        UserWarning, match=r"effects of the levels of 'g' on z\[T.b\] and others are independent, as brms"
    ):
        model = sksvi.from_formula("time ~ x + z + (1 + x + z || g)", data)[-1]
    assert model.correlated is False and model.random_slopes == {"g": ["x", "z[T.b]", "z[T.c]"]}
    whole = sksvi.from_formula("time ~ 0 + z + (0 + z | g)", data)[-1]
    assert whole.random_slopes == {"g": ["z[a]", "z[b]", "z[c]"]} and whole.random_intercepts == []


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"random_intercepts": False}, r"random_intercepts=False: levels of 'g' have neither an intercept nor a slope"),
        ({"random_slopes": "x", "random_intercepts": ["x"]}, r"random_intercepts=\['x'\] must name groups, .* 'g'"),
        ({"groups": None, "random_intercepts": False}, "random_intercepts=False is of the levels of a group"),
    ],
)
def test_intercepts_that_cannot_be(data, options, error):
    with pytest.raises(ValueError, match=error):
        GMERegressor(**{"groups": "g"} | options).fit(data[["x", "g"]], data["time"])


# ---- what is refused
@pytest.mark.parametrize(
    ("formula", "error"),
    [
        ("y ~ agee", r"'agee' of the formula is no column of data \(did you mean 'age'\?\), which has \['x', 'age'"),
        ("y ~ s(agee)", "'agee' of the formula is no column"),
        ("y ~ s(age, by=sexx)", r"'sexx' of the formula is no column of data \(did you mean 'sex'"),
        ("y ~ x + (1 | gg)", "'gg' of the formula is no column"),
        ("yy ~ x", "'yy' of the formula is no column"),
        ("y ~ x + offset(log(nn))", "'nn' of the formula is no column"),
        ("y ~ x + t2(x, age)", r"term t2\(...\) of the formula is not understood"),
        ("y ~ te(x)", r"term 'te\(x\)' of the formula has 1 arguments without a name, and takes 2; surfaces are te"),
        ("y ~ ti(x, x)", r"term 'ti\(x, x\)' of the formula: a surface is of two different columns"),
        ("y ~ s(x) + te(x, age)", r"has s\(x\) twice"),
        ("y ~ s(x, age)", r"term 's\(x, age\)' of the formula has 2 arguments"),
        ("y ~ s(age, bs='cr')", r"has bs=, which is not understood: it takes by, k.*areas of a map are mrf\(area\)"),
        ("y ~ mrf(z, by=sex)", "has by=, which is not understood: it takes k"),
        ("y ~ mrf(z, h)", "has 2 arguments without a name, and takes 1"),
        ("y ~ mrf(z)", r"term 'mrf\(z\)' of the formula: maps has no map of 'z': .* maps={'z': neighbours}"),
        ("y ~ s(age, k=2.5)", "k= must be a whole number"),
        (
            "y ~ x:s(age)",
            r"a term with s\(\), ti\(\), te\(\), gp\(\), mrf\(\) or offset\(\) stands alone",
        ),
        ("y ~ gp(x, length_scale=age)", "kernel= and length_scale= must be a text, a number or a list"),
        ("y ~ gp(x, scale=2)", "has scale=, which is not understood: it takes kernel, length_scale"),
        ("y ~ x - (1 | g)", r"term '\(1 \| g\)' of the formula: a term with a group stands alone, after a \+"),
        ("y ~ x | g", r"effects of levels stand in brackets, as \(1 \+ x \| g\)"),
        ("y ~ (x | g)", r"\(x \| g\)' of the formula: x varies between levels .* add it to the terms outside"),
        ("y ~ x + (0 + xx | g)", "'xx' of the formula is no column of data"),
        ("y ~ z + (0 + z | g)", r"z\[a\] varies between levels .* 0 \+ there and in the bracket, or in neither"),
        ("y ~ 0 + z + (1 + z | g)", r"z\[T.b\] varies between levels"),
        ("y ~ x + age + (x | g) + (age || h)", r"effects of a level that are correlated, with \|, and some that are"),
        ("y ~ x + age + (x | g) + (0 + age | g)", "or in a term of their own: one of them is for all groups"),
        ("y ~ (1 | g + h)", "right of the bar stand names"),
        ("y ~ (1 | g) + (1 | g)", "levels of 'g' have Intercept in another term too"),
        ("y ~ x + (", "cannot be read|not understood"),
        ("y ~ s(x) + s(x, k=9)", r"has s\(x\) twice"),
        ("y ~ x ~ z", "more than one ~"),
        ("y ~ .", "has a . for all columns: name them"),
        ("y ~ x +", r"has a \+ without a term after it"),
        ("y ~ ", "no term right of the ~"),
        ("cbind(y) ~ x", r"give cbind\(successes, failures\)"),
        (7, "formula must be a string"),
    ],
)
def test_what_is_not_understood_is_named(data, formula, error):
    with pytest.raises(ValueError, match=error):
        sksvi.from_formula(formula, data, likelihood="poisson")


def test_parameters_and_tables_that_do_not_fit(data):
    with pytest.raises(ValueError, match=r"groups='g': the formula says it, as \(1 \| g\)"):
        sksvi.from_formula("y ~ x", data, groups="g")
    with pytest.raises(ValueError, match="data must be a DataFrame"):
        sksvi.from_formula("y ~ x", data["x"].to_numpy()[:, None])
    with pytest.raises(ValueError, match="has no response"):
        sksvi.from_formula("~ x", data).fit(data)
    with pytest.raises(ValueError, match=r"column 'x' of data has no value in row 3: .*dropna\(subset=\['x'\]\)"):
        sksvi.from_formula("y ~ x", data.assign(x=[1.0, 2.0, 3.0, np.nan] * 60))
    given = sksvi.from_formula("y ~ s(age)", data, prior_precision={"s(age)_linear": 1.0})
    assert given[-1].prior_precision == {"s(age)_linear": 1.0, "s(age)_s*": "auto"}
    assert sksvi.from_formula("y ~ 0 + x + s(age)", data, prior_precision="auto")[-1].prior_precision == "auto"


def test_without_formulaic_an_error_says_how_to_get_it(data, monkeypatch):
    monkeypatch.setitem(sys.modules, "formulaic", None)
    with pytest.raises(ImportError, match=r"pip install 'sksvi\[formula\]'"):
        sksvi.from_formula("y ~ x", data)


def test_counts_by_class_are_a_response():
    rng = np.random.default_rng(0)
    data = pd.DataFrame({"x": rng.standard_normal(40)}).assign(
        **dict(zip("abc", rng.multinomial(8, [0.2, 0.3, 0.5], 40).T, strict=True))
    )
    model = sksvi.from_formula("cbind(a, b, c) ~ x", data, likelihood="multinomial").fit(data)
    own = sksvi.BayesianGLMClassifier(likelihood="multinomial").fit(data[["x"]], data[["a", "b", "c"]])
    np.testing.assert_array_equal(model.predict_proba(data), own.predict_proba(data[["x"]]))
    assert list(model[-1].classes_) == ["a", "b", "c"]


def test_draws_take_the_offset_of_the_formula():
    pytest.importorskip("arviz")
    rng = np.random.default_rng(0)
    data = pd.DataFrame({"x": rng.standard_normal(40), "n": 5.0}).assign(y=rng.poisson(5.0, 40))
    model = sksvi.from_formula("y ~ x + offset(log(n))", data, likelihood="poisson").fit(data)
    given = {"offset": np.log(data["n"]), "random_state": 0}
    own = model[-1].sample_prior(data[["x"]], 3, **given)
    np.testing.assert_array_equal(model.sample_prior(data, 3, random_state=0), own)
    found, wanted = model.to_arviz(data, random_state=0), model[-1].to_arviz(data[["x"]], data["y"], **given)
    for group in ("posterior_predictive", "log_likelihood"):
        np.testing.assert_array_equal(found[group]["y"], wanted[group]["y"])
