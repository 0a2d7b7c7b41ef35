"""Contrasts: R's emmeans, closed forms, the joint distribution of intervals, interactions, every kind of likelihood."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm, studentized_range, t
from sklearn.compose import make_column_transformer
from sklearn.feature_selection import VarianceThreshold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, PolynomialFeatures, StandardScaler

from sksvi import BayesianGLMClassifier, BayesianGLMRegressor, GMERegressor, SparseGPRegressor
from sksvi.inspection import contrasts, marginal_effects
from sksvi.inspection._simultaneous import joint_coverage, joint_coverage_of
from tests.inspection.peers import pigs, warpbreaks

#: As R fits: no prior, the residual variance RSS / (n - p), t quantiles.
AS_R = {"prior_precision": "flat"}
MEANS, PAIRS = ["mean", "std", "lower", "upper"], ["mean", "std", "simultaneous_lower", "simultaneous_upper"]


def crossed(X):
    """Treatment contrasts of wool * tension, as R's formula has them."""
    B, L, M = X["wool"] == "B", X["tension"] == "L", X["tension"] == "M"
    return np.column_stack([B, L, M, B & L, B & M]).astype(float)


# ---- R 4.2.2, emmeans 1.8.4-1
def test_pigs_has_the_means_and_tukey_intervals_of_emmeans():
    """emmeans(lm(log(conc) ~ source + factor(percent)), "source" and "percent"); pairs(); basics vignette."""
    X, y = pigs()
    model = BayesianGLMRegressor(**AS_R).fit(X, np.log(y))
    means = marginal_effects(model, None, kind="means", coverage=0.95)
    expected = [
        [3.39449241, 0.03668122, 3.31861152, 3.4703733],
        [3.79677009, 0.03938283, 3.71530049, 3.87823969],
        [3.66726025, 0.03744798, 3.5897932, 3.74472731],
    ]
    np.testing.assert_allclose(means.loc["source", MEANS], expected, rtol=1e-4)
    np.testing.assert_allclose(means.loc["percent", "mean"], [3.44530689, 3.62486139, 3.6627059, 3.74515615], rtol=1e-5)
    balanced = marginal_effects(model, X, ["source"], kind="means", grid="balanced", coverage=0.95)
    np.testing.assert_allclose(balanced, means.loc[["source"]], rtol=1e-9)
    found = contrasts(model, "source", coverage=0.95)
    tukey = [
        [-0.40227768, 0.05415929, -0.53791075, -0.26664461],
        [-0.27276784, 0.0529345, -0.40533363, -0.14020206],
        [0.12950983, 0.0530428, -0.00332716, 0.26234683],
    ]
    assert found.df == pytest.approx(23, abs=1e-4)
    np.testing.assert_allclose(found.table[PAIRS], tukey, atol=1e-4)
    assert found.table.index.tolist() == ["fish - skim", "fish - soy", "skim - soy"]
    steps = contrasts(model, "percent", coverage=0.95).table
    np.testing.assert_allclose(
        steps.loc["9 - 18", PAIRS], [-0.29984926, 0.06762263, -0.48698166, -0.11271686], atol=5e-4
    )


def test_warpbreaks_has_the_intervals_of_emmeans_within_each_wool():
    """emmeans(lm(breaks ~ wool * tension), ~ tension | wool); pairs(): Tukey's family is within a wool."""
    X, y = warpbreaks()
    model = make_pipeline(FunctionTransformer(crossed), BayesianGLMRegressor(**AS_R)).fit(X, y)
    means = marginal_effects(model, X, ["tension"], by="wool", kind="means", coverage=0.95)
    expected = [24.55555556, 44.55555556, 24, 18.77777778, 28.22222222, 28.77777778]
    np.testing.assert_allclose(means["mean"], expected, rtol=1e-6)
    np.testing.assert_allclose(means["std"], 3.64676135, rtol=1e-4)
    np.testing.assert_allclose(means[["lower", "upper"]].iloc[0], [17.22325044, 31.88786067], rtol=1e-4)
    found = contrasts(model, "tension", by="wool", X=X, coverage=0.95).table
    assert found.index.tolist()[:3] == [("A", "H - L"), ("A", "H - M"), ("A", "L - M")]
    tukey = [[-32.47286462, -7.52713538], [-11.91730907, 13.02842018], [8.08269093, 33.02842018]]
    tukey += [[-21.91730907, 3.02842018], [-22.47286462, 2.47286462], [-13.02842018, 11.91730907]]
    np.testing.assert_allclose(found[["simultaneous_lower", "simultaneous_upper"]], tukey, atol=0.02)
    np.testing.assert_allclose(found["std"], 5.15729935, rtol=1e-4)


def test_a_pipeline_has_the_levels_of_its_encoders():
    """Without rows the grid is what encoders and scalers have; a column of none of them is named."""
    X, y = warpbreaks()
    X["length"] = np.linspace(3.0, 4.0, len(X))
    encoder, products = OneHotEncoder(drop="first", sparse_output=False), PolynomialFeatures(interaction_only=True)
    columns = make_column_transformer((encoder, ["wool", "tension"]), (StandardScaler(), ["length"]))
    steps = [products, VarianceThreshold(), BayesianGLMRegressor(**AS_R)]
    model = make_pipeline(columns, *steps).fit(X, y)
    found = contrasts(model, "tension", by="wool").table
    given = contrasts(model, "tension", by="wool", X=X, grid="balanced").table
    np.testing.assert_allclose(found, given, rtol=1e-6)
    columns = make_column_transformer((encoder, ["wool", "tension"]), remainder="passthrough")
    model = make_pipeline(columns, *steps).fit(X, y)
    with pytest.raises(ValueError, match=r"levels or means of columns \['length'\]"):
        contrasts(model, "tension", by="wool")


@pytest.mark.costly
def test_rates_of_warpbreaks_are_those_of_emmeans_and_their_logarithms_posterior_means():
    """glm(breaks ~ wool * tension, poisson): means on the scale of y are the counts', those of f lower by v / 2."""
    X, y = warpbreaks()
    cells = pd.DataFrame({"cell": X["wool"] + X["tension"]})
    with pytest.warns(UserWarning, match="varies 4.25 times"):
        model = BayesianGLMRegressor(likelihood="poisson", prior_precision="flat", tol=1e-10).fit(cells, y)
    latent = marginal_effects(model, cells, kind="means", scale="link", coverage=0.95)
    order = [f"{wool}{tension}" for wool in "AB" for tension in "HLM"]
    latent = latent.loc["cell"].loc[order]
    mode = np.array([3.20093812, 3.79673685, 3.17805383, 2.93267414, 3.34010969, 3.35960348])
    error = np.array([0.06726714, 0.04993753, 0.06804134, 0.07692307, 0.06274555, 0.06213696])
    np.testing.assert_allclose(latent["std"], error, rtol=1e-3)
    np.testing.assert_allclose(latent["mean"], mode - error**2 / 2, atol=1e-5)
    n_draws = 20_000
    rate = marginal_effects(model, cells, kind="means", n_draws=n_draws).loc["cell"].loc[order]
    sd = np.array([1.65178192, 2.22499423, 1.63299205, 1.44444438, 1.77081, 1.78816])
    means = np.exp(mode)
    assert np.all(np.abs(rate["mean"] - means) < 4 * sd / np.sqrt(n_draws))
    np.testing.assert_allclose(rate["std"], means * error, rtol=0.05)


# ---- closed forms
@pytest.fixture
def groups(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    X = pd.DataFrame({"x1": rng.normal(size=120), "plan": rng.choice(["a", "b", "c", "d"], 120)})
    f = X["x1"] + X["plan"].map({"a": 0.0, "b": 0.5, "c": 1.0, "d": -0.5})
    return X, f.to_numpy(), rng


def test_contrasts_are_those_of_a_refit_under_the_weak_prior(groups):
    """Gaussian noise as fitted: the prior of all levels in the place of the learned one, all else as it was."""
    X, f, rng = groups
    model = BayesianGLMRegressor(hyperparameters="point").fit(X, f + rng.normal(size=len(f)))
    view, levels = model.posterior_["weights"], np.arange(1, 5)
    precision = np.linalg.inv(view.cov)
    shift = precision @ view.mean
    # x: half of two standard deviations to a scale of 2.5 sd of y; a level: half of the distance of its two values.
    unit = model._encoding.prior.unit
    precision[levels, levels] += (0.5 / (2.5 * unit)) ** 2 - model.prior_precision_[levels]
    cov = np.linalg.inv(precision)
    mean = cov @ shift
    units = np.eye(6)[levels]
    rows = np.array([units[i] - units[j] for i in range(4) for j in range(i + 1, 4)])
    found = contrasts(model, "plan")
    assert found.effects == "own"
    np.testing.assert_allclose(found.table["mean"], rows @ mean, rtol=1e-8)
    np.testing.assert_allclose(found.table["std"], np.sqrt(np.einsum("rd,de,re->r", rows, cov, rows)), rtol=1e-8)


@pytest.mark.parametrize("options", [{}, {"hyperparameters": "point"}, {"prior_precision": 1.0}])
def test_differences_from_the_first_level_are_the_rows_of_summary(groups, options):
    X, f, rng = groups
    model = BayesianGLMRegressor(**options).fit(X, f + rng.normal(size=len(f)))
    found = contrasts(model, "plan", pairs="reference").table
    shown = model.summary().loc[["plan_b", "plan_c", "plan_d"]]
    np.testing.assert_allclose(found[[*MEANS, "direction"]], shown[[*MEANS, "direction"]], rtol=1e-6)
    given = contrasts(model, "plan", pairs="reference", X=X).table
    np.testing.assert_allclose(given, found, rtol=1e-6)
    response = contrasts(model, "plan", pairs="reference", scale="response").table
    np.testing.assert_allclose(response, found, rtol=1e-6)


def test_kinds_of_pairs(groups):
    X, f, rng = groups
    model = BayesianGLMRegressor().fit(X, f + rng.normal(size=len(f)))
    whole = contrasts(model, "plan").table["mean"]
    steps = contrasts(model, "plan", pairs="sequential").table["mean"]
    assert steps.index.tolist() == ["b - a", "c - b", "d - c"]
    np.testing.assert_allclose(steps, -whole[["a - b", "b - c", "c - d"]])
    against = contrasts(model, "plan", pairs="reference", reference_level="c").table["mean"]
    np.testing.assert_allclose(against, whole[["a - c", "b - c", "c - d"]] * [1, 1, -1])
    own = contrasts(model, "plan", pairs={"b and c against a": [-1, 0.5, 0.5, 0]}).table["mean"]
    assert own["b and c against a"] == pytest.approx(-whole[["a - b", "a - c"]].mean())
    plain = contrasts(model, "plan", pairs=[[-1, 0.5, 0.5, 0]]).table["mean"]
    assert plain.index.tolist() == ["-1 a +0.5 b +0.5 c"]


# ---- intervals that hold together
def test_one_family_of_equal_sizes_has_tukeys_quantile():
    cov = np.eye(4)
    rows = np.array([cov[i] - cov[j] for i in range(4) for j in range(i + 1, 4)])
    each = joint_coverage(np.zeros((1, 6)), (rows @ rows.T)[None], np.ones(1), 20.0, 0.95)
    assert t.ppf(0.5 + each / 2, 20) == pytest.approx(studentized_range.ppf(0.95, 4, 20) / np.sqrt(2), rel=2e-3)
    alone = joint_coverage(np.zeros((1, 1)), np.ones((1, 1, 1)), np.ones(1), None, 0.95)
    assert alone == 0.95
    twice = joint_coverage(np.zeros((1, 2)), np.ones((1, 2, 2)), np.ones(1), None, 0.95)
    assert twice == pytest.approx(0.95, abs=1e-3)


def test_intervals_of_a_mixture_hold_together(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    means = np.array([[0.0, 1.0, -1.0], [0.5, 1.5, -2.0]])
    roots = rng.normal(size=(2, 3, 3)) + np.eye(3)
    covs, weights, n = roots @ roots.transpose(0, 2, 1), np.array([0.3, 0.7]), 20_000
    each = joint_coverage(means, covs, weights, None, 0.9)
    parts = [rng.multivariate_normal(m, c, size) for m, c, size in zip(means, covs, (int(0.3 * n), int(0.7 * n)))]
    draws = np.concatenate(parts)
    stds = np.sqrt(np.einsum("krr->kr", covs))
    u = sum(w * norm.cdf(draws, m, s) for w, m, s in zip(weights, means, stds))
    holds = np.mean(np.all(np.abs(2 * u - 1) < each, axis=1))
    assert abs(holds - 0.9) < 4 * np.sqrt(0.09 / n)
    assert joint_coverage_of(draws, 0.9) == pytest.approx(each, abs=0.01)


# ---- likelihoods and models
def test_odds_ratios_and_probabilities_of_a_label(groups):
    X, f, rng = groups
    model = BayesianGLMClassifier().fit(X, rng.random(len(f)) < 1 / (1 + np.exp(-2 * f)))
    link = contrasts(model, "plan", exponentiate=True).table
    np.testing.assert_allclose(np.log(link["exp(lower)"]), link["lower"])
    np.testing.assert_allclose(np.log(link["exp(simultaneous_upper)"]), link["simultaneous_upper"])
    response = contrasts(model, "plan", X=X, scale="response")
    effects = marginal_effects(model, X, ["plan"], n_draws=2000)
    first = response.table.loc[["a - b", "a - c", "a - d"]]
    error = 4 * np.hypot(first["std"].to_numpy(), effects["std"].to_numpy()) / np.sqrt(2000)
    assert np.all(np.abs(first["mean"].to_numpy() + effects["mean"].to_numpy()) < error)
    wider = response.table["simultaneous_upper"] - response.table["simultaneous_lower"]
    assert np.all(wider > response.table["upper"] - response.table["lower"])
    assert response.effects == "own" and "own" in str(response) and "a - b" in str(response)


def test_classes_are_compared_with_one_of_them(groups):
    X, f, rng = groups
    y = np.array(["no", "so", "yes"])[np.clip(np.round(f + rng.normal(size=len(f))), -1, 1).astype(int) + 1]
    model = BayesianGLMClassifier().fit(X, y)
    found = contrasts(model, "plan", reference="so", pairs="reference").table
    shown = model.summary(reference="so")
    for label in ("no", "yes"):
        rows = [(label, f"plan_{level}") for level in "bcd"]
        np.testing.assert_allclose(found.loc[label, MEANS], shown.loc[rows, MEANS], rtol=1e-6)
    probabilities = contrasts(model, "plan", X=X, scale="response").table
    assert probabilities.index.get_level_values("class").unique().tolist() == ["no", "so", "yes"]
    np.testing.assert_allclose(probabilities["mean"].groupby(level="contrast").sum(), 0, atol=1e-9)


@pytest.mark.parametrize(
    "likelihood, target",
    [
        ("poisson", lambda f, rng: rng.poisson(np.exp(f))),
        ("ordinal", lambda f, rng: np.clip(np.round(f + rng.logistic(size=len(f))), -1, 1).astype(int) + 1),
        ("binomial", lambda f, rng: np.column_stack([k := rng.binomial(9, 1 / (1 + np.exp(-f))), 9 - k])),
        ("student-t", lambda f, rng: f + rng.standard_t(4, size=len(f))),
    ],
)
def test_contrasts_of_a_likelihood_are_rows_of_its_summary(groups, likelihood, target):
    X, f, rng = groups
    model = BayesianGLMRegressor(likelihood=likelihood).fit(X, target(f, rng))
    found = contrasts(model, "plan", pairs="reference").table
    np.testing.assert_allclose(found[MEANS], model.summary().loc[["plan_b", "plan_c", "plan_d"], MEANS], rtol=1e-6)
    response = contrasts(model, "plan", scale="response", n_draws=200).table
    assert np.all(response["lower"] < response["upper"])


def test_mixed_models_have_contrasts_of_their_fixed_columns(groups):
    X, f, rng = groups
    site = rng.integers(0, 8, len(f))
    X = X.assign(site=site)
    model = GMERegressor(groups="site").fit(X, f + 0.5 * rng.normal(size=8)[site] + rng.normal(size=len(f)))
    found = contrasts(model, "plan", pairs="reference").table
    np.testing.assert_allclose(found[MEANS], model.summary().loc[["plan_b", "plan_c", "plan_d"], MEANS], rtol=1e-6)
    given = contrasts(model, "plan", pairs="reference", X=X, grid="balanced").table
    np.testing.assert_allclose(given, found, rtol=1e-6)
    means = marginal_effects(model, X, ["plan"], kind="means")
    np.testing.assert_allclose(means["mean"].diff().iloc[1:].sum(), means["mean"].iloc[-1] - means["mean"].iloc[0])


def test_a_pipeline_gives_what_the_model_itself_gives(groups):
    X, f, rng = groups
    y = f + rng.normal(size=len(f))
    inner = BayesianGLMRegressor(hyperparameters="point", prior_precision="flat", tol=1e-10)
    one_hot = make_pipeline(
        FunctionTransformer(lambda X: pd.get_dummies(X, columns=["plan"], drop_first=True).astype(float)), inner
    )
    own = BayesianGLMRegressor(hyperparameters="point", prior_precision="flat", tol=1e-10).fit(X, y)
    columns = X.astype({"plan": pd.CategoricalDtype(["a", "b", "c", "d"])})
    found = contrasts(one_hot.fit(columns, y), "plan", X=columns).table
    np.testing.assert_allclose(found, contrasts(own, "plan").table, rtol=1e-5)
    with pytest.raises(ValueError, match="X is needed: a pipeline"):
        contrasts(one_hot, "plan")


def test_weights_count_as_repeats(groups):
    X, f, rng = groups
    model = BayesianGLMClassifier().fit(X, rng.random(len(f)) < 1 / (1 + np.exp(-f)))
    weight = rng.integers(0, 3, len(f))
    repeated = X.loc[np.repeat(X.index, weight)]
    options = {"scale": "response", "n_draws": 50, "pairs": "sequential"}
    by_weight = contrasts(model, "plan", X=X, sample_weight=weight, **options).table
    np.testing.assert_allclose(by_weight, contrasts(model, "plan", X=repeated, **options).table, rtol=1e-6)


def test_a_gaussian_process_has_contrasts_on_the_response_scale(groups):
    X, f, rng = groups
    rows = np.column_stack([X["x1"], X["plan"] == "c"]).astype(float)
    model = SparseGPRegressor(n_inducing=10, random_state=0).fit(rows, f + rng.normal(size=len(f)))
    found = contrasts(model, 1, X=rows, scale="response", n_draws=100).table
    assert found.index.tolist() == ["0.0 - 1.0"] and np.isfinite(found.to_numpy()).all()
    with pytest.raises(TypeError, match="scale='response'"):
        contrasts(model, 1, X=rows)


# ---- what is refused
@pytest.mark.parametrize(
    "options, match",
    [
        ({"feature": "plans"}, "is no column"),
        ({"feature": "x1"}, "one value only: .* a fit keeps no values"),
        ({"pairs": "every"}, "pairs must be one of"),
        ({"pairs": [[1, -1]]}, "weight for each of the 4 levels"),
        ({"pairs": [[1, -1, 1, 0]]}, "must sum to 0"),
        ({"pairs": [[0, 0, 0, 0]]}, "must not all be 0"),
        ({"reference_level": "b"}, "is for pairs='reference'"),
        ({"pairs": "reference", "reference_level": "z"}, "none of the levels"),
        ({"scale": "logit"}, "scale must be one of"),
        ({"exponentiate": True}, "logit or log link"),
        ({"exponentiate": True, "scale": "response"}, "set scale='link'"),
        ({"reference": "yes"}, "more than two classes"),
        ({"effects": "mine"}, "effects"),
        ({"grid": "full"}, "grid must be one of"),
        ({"by": "site"}, "is no column"),
        ({"n_draws": 1}, "n_draws"),
        ({"coverage": 1.0}, "coverage"),
    ],
)
def test_refusals_name_what_was_found(groups, options, match):
    X, f, rng = groups
    model = BayesianGLMRegressor().fit(X, f + rng.normal(size=len(f)))
    with pytest.raises(ValueError, match=match):
        contrasts(model, **({"feature": "plan"} | options))


def test_a_balanced_grid_that_is_too_large_is_refused(groups):
    X, f, rng = groups
    wide = X.assign(**{f"c{j}": rng.integers(0, 30, len(X)).astype(str) for j in range(3)})
    columns = list(wide.columns[1:])
    model = BayesianGLMRegressor().fit(wide, f + rng.normal(size=len(f)))
    assert len(contrasts(model, "plan").table) == 6
    with pytest.raises(ValueError, match="rows, a row for every combination"):
        contrasts(model, "plan", X=wide[["x1", *columns]], grid="balanced")


def test_a_column_that_the_model_does_not_see_is_refused(groups):
    X, f, _ = groups
    model = make_pipeline(FunctionTransformer(lambda X: X[["x1"]]), BayesianGLMRegressor()).fit(X, f)
    with pytest.raises(ValueError, match="do not differ in what the model sees"):
        contrasts(model, "plan", X=X)
