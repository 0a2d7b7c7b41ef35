"""What a summary says beside means and intervals: signs, ratios, contrasts of classes, parameters of the likelihood."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.special import softmax
from scipy.stats import norm
from sklearn.base import clone

from sksvi import (
    BayesianGLMClassifier,
    BayesianGLMRegressor,
    CategoricalMixture,
    GMERegressor,
    SparseGPRegressor,
    load,
)
from sksvi.likelihoods import Bernoulli, Gaussian, NegativeBinomial, Ordinal, Poisson, Softmax, StudentT
from tests.cases import LEARNED, TRUTH

N, D, DRAWS = 200, 3, 20_000
#: Names of the rows that each likelihood adds to a table.
ROWS = {
    "gaussian": ["std(residual)"],
    "negative-binomial": ["dispersion"],
    "student-t": ["df", "scale"],
    "ordinal": ["cut_points[0]", "cut_points[1]", "cut_points[2]"],
}


@pytest.fixture
def rng(global_random_seed):
    return np.random.default_rng(global_random_seed)


@pytest.fixture
def X(rng):
    return rng.standard_normal((N, D))


def drawn(likelihood, X, rng):
    """Targets whose latent is 0.8, -0.5 and 0 times the columns; of several classes those times -1, 0 and 1."""
    f = X[:, :3] @ [0.8, -0.5, 0.0]
    if likelihood.n_latents > 1:
        f = f[:, None] * [-1.0, 0.0, 1.0]
    return likelihood.sample(f, rng)


def classified(X, rng, covariance="full"):
    y = np.array(["a", "b", "c"])[drawn(Softmax(n_classes=3), X, rng).astype(int)]
    return BayesianGLMClassifier(covariance=covariance, hyperparameters="point").fit(X, y)


# ---- signs
def test_direction_is_the_share_of_draws_with_the_sign_of_the_mean(X, rng):
    model = BayesianGLMRegressor(prior_precision=1.0, hyperparameters="point")
    model.set_params(likelihood=Gaussian(variance=9.0)).fit(X, drawn(Gaussian(variance=9.0), X, rng))
    table = model.summary().iloc[: D + 1]
    np.testing.assert_allclose(table["direction"], norm.cdf(np.abs(table["mean"]) / table["std"]))
    draws = model.posterior_["weights"].sample(DRAWS, random_state=0)
    share = np.mean(np.sign(draws) == np.sign(table["mean"].to_numpy()), axis=0)
    error = np.sqrt(table["direction"] * (1 - table["direction"]) / DRAWS)
    assert np.all(np.abs(share - table["direction"]) <= 4 * error + 5 / DRAWS)  # near 1 by a few draws


# ---- ratios
@pytest.mark.parametrize("name", ["logit", "binomial", "poisson", "negative-binomial", "ordinal"])
def test_exponentiated_effects_are_exp_of_their_ends(name, X, rng):
    likelihood = TRUTH[name]
    f = X @ [0.8, -0.5, 0.0]
    y = likelihood.sample_trials(f, 3, rng) if name == "binomial" else likelihood.sample(f, rng)
    model = BayesianGLMRegressor(likelihood=name).fit(X, y)
    plain, table = model.summary(0.8), model.summary(0.8, exponentiate=True)
    pd.testing.assert_frame_equal(table[plain.columns], plain)
    assert list(table.columns[5:]) == ["exp(mean)", "exp(lower)", "exp(upper)"]
    effects = D + (name != "ordinal")  # cut points are those less the intercept
    for end in ("mean", "lower", "upper"):
        np.testing.assert_allclose(table[f"exp({end})"][:effects], np.exp(plain[end][:effects]))
        assert table[f"exp({end})"][effects:].isna().all()


@pytest.mark.parametrize(
    "likelihood",
    [Gaussian(), StudentT(), Bernoulli(link="probit"), Poisson(rate="softplus"), Ordinal(slope=2.0)],
    ids=lambda likelihood: type(likelihood).__name__,
)
def test_other_links_have_no_ratios(likelihood, X, rng):
    model = BayesianGLMRegressor(likelihood=likelihood).fit(X, rng.integers(0, 2, N) * 1.0)
    with pytest.raises(ValueError, match=rf"exponentiate=True .*BayesianGLMRegressor.*{type(likelihood).__name__}\("):
        model.summary(exponentiate=True)
    with pytest.raises(TypeError, match="exponentiate must be True or False; found 'yes'"):
        model.summary(exponentiate="yes")


# ---- classes
@pytest.mark.costly
@pytest.mark.parametrize("covariance", ["full", "diag"])
@pytest.mark.parametrize("wide", [False, True])
def test_contrasts_have_the_moments_of_draws(covariance, wide, rng):
    X = rng.standard_normal((25, 40)) + 3.0 if wide else 2.0 * rng.standard_normal((N, D)) + 1.0
    model = classified(X, rng, covariance)
    table = model.summary(reference="b", effects="joint")
    assert list(table.index.unique("class")) == ["a", "c"] and table.index.names == ["class", "coefficient"]
    draws = model.posterior_["weights"].sample(DRAWS, random_state=0)
    differences = (draws[:, [0, 2]] - draws[:, [1]]).reshape(DRAWS, -1)
    std = table["std"].to_numpy()
    assert np.all(np.abs(differences.mean(0) - table["mean"]) < 5 * std / np.sqrt(DRAWS))
    assert np.all(np.abs(differences.std(0) / std - 1) < 5 / np.sqrt(2 * DRAWS))
    np.testing.assert_allclose(table["upper"] - table["mean"], norm.ppf(0.95) * std)
    np.testing.assert_allclose(table["direction"], norm.cdf(np.abs(table["mean"]) / std))


def test_contrasts_do_without_the_shift_that_a_softmax_does_not_feel(X, rng):
    """Each class's own coefficients are known up to a shift of all, their differences are known better."""
    model = classified(X, rng)
    own = model.summary(effects="joint")
    to_a, to_b = (model.summary(reference=name, effects="joint") for name in "ab")
    np.testing.assert_allclose(to_a.loc["b", "mean"], -to_b.loc["a", "mean"])
    np.testing.assert_allclose(to_a.loc["b", "std"], to_b.loc["a", "std"])
    cov = model.posterior_["weights"].inner.cov_blocks
    apart = np.sqrt(np.diagonal(cov[0, 0] + cov[1, 1] - cov[0, 1] - cov[1, 0]))[:D] / model._encoding.columns.scale
    np.testing.assert_allclose(to_a.loc["b", "std"][:D], apart)
    assert np.all(to_a.loc["b", "std"] < np.hypot(own.loc["a", "std"], own.loc["b", "std"]))
    odds = model.summary(reference="a", exponentiate=True, effects="joint")
    np.testing.assert_allclose(odds["exp(upper)"], np.exp(to_a["upper"]))
    with pytest.raises(ValueError, match=r"exponentiate=True.*set reference to one of \['a', 'b', 'c'\]"):
        model.summary(exponentiate=True)
    with pytest.raises(ValueError, match=r"reference='z' is none of the classes, which are \['a', 'b', 'c'\]"):
        model.summary(reference="z")


def test_a_reference_needs_coefficients_by_class(X, rng):
    y = np.where(drawn(Bernoulli(), X, rng) > 0, "yes", "no")
    two = BayesianGLMClassifier().fit(X, y)
    with pytest.raises(ValueError, match=r"reference='no'.*BayesianGLMClassifier has the two classes \['no', 'yes'\]"):
        two.summary(reference="no")
    with pytest.raises(ValueError, match=r"reference=0.*BayesianGLMRegressor has no classes"):
        BayesianGLMRegressor().fit(X, X[:, 0]).summary(reference=0)
    each = BayesianGLMClassifier(likelihood="softmax").fit(X, y)
    odds, same = each.summary(reference="no", exponentiate=True), two.summary(exponentiate=True)
    np.testing.assert_allclose(odds["mean"], same["mean"], atol=0.2)
    np.testing.assert_allclose(odds["std"], same["std"], rtol=0.2)


def test_contrasts_of_what_the_prior_shrinks_to_nothing_have_a_width(X, rng):
    y = np.array(["a", "b", "c"])[drawn(Softmax(n_classes=3), X, rng).astype(int)]
    known = np.column_stack([X, y[:, None] == ["a", "b", "c"], BayesianGLMClassifier().fit(X, y).predict_proba(X)])
    idle = rng.standard_normal(N)
    idle -= known @ np.linalg.lstsq(known, idle, rcond=None)[0]  # nothing is left for it to say
    model = BayesianGLMClassifier(prior_precision="ard").fit(np.column_stack([X, idle]), y)
    table, to_b = model.summary(reference="c"), model.summary(reference="b")
    joint = model.summary(reference="c", effects="joint")
    np.testing.assert_allclose(table.loc[("b", "x3"), "mean"], -to_b.loc[("c", "x3"), "mean"], atol=1e-10)
    for name in ("a", "b"):
        row = table.loc[(name, "x3")]
        assert row["std"] > 2.0 * joint.loc[(name, "x3"), "std"] and row["lower"] < 0 < row["upper"]


# ---- parameters of the likelihood
@pytest.mark.costly
@pytest.mark.parametrize("name", list(ROWS))
def test_learned_parameters_follow_the_coefficients(name, X, rng, tmp_path):
    y = drawn(TRUTH[name], X, rng)
    point = BayesianGLMRegressor(likelihood=LEARNED[name], hyperparameters="point").fit(X, y)
    assert point.summary().iloc[D + 1 :]["mean"].tolist() == list(point.likelihood_.reported.values())
    model = BayesianGLMRegressor(likelihood=LEARNED[name]).fit(X, y)
    assert model.likelihood_.reported == point.likelihood_.reported
    for fit in (point, model):
        table = fit.summary()
        effects = D + (fit is point or name != "ordinal")  # nodes of cut points are less the intercept
        assert list(table.index[effects:]) == ROWS[name]
        rows = table.iloc[effects:]
        assert rows["direction"].isna().all() and np.all(rows["std"] > 0)
        assert np.all(rows["lower"] < rows["mean"]) and np.all(rows["mean"] < rows["upper"])
        fit.save(tmp_path / "model")
        pd.testing.assert_frame_equal(load(tmp_path / "model").summary(), table)
    # Over nodes the mean of a skewed posterior is somewhat off its mode.
    shift = model.intercept_ if name == "ordinal" else 0.0
    assert np.all(np.abs(rows["mean"] + shift - list(model.likelihood_.reported.values())) < 0.5 * rows["std"])
    # Going on from the fit counts no row twice, and a stream of the same rows knows as much.
    again = model.set_params(warm_start=True).fit(X, y).summary()
    np.testing.assert_allclose(again["std"], table["std"], rtol=0.05)
    # Rows that a stream samples tell nodes what those of a fit do.
    for whole in (point, model):
        stream = clone(whole).set_params(warm_start=False)
        for part in np.array_split(np.arange(N), 2):
            stream.partial_fit(X[part], y[part])
        np.testing.assert_allclose(
            stream.summary()["std"], whole.summary()["std"], rtol=0.1 if whole is point else 0.01
        )


def test_parameters_that_are_fixed_have_no_row(X, rng):
    for likelihood in (NegativeBinomial(dispersion=0.5), Gaussian(variance=1.0), Ordinal(cut_points=[0.5, 1.5])):
        y = drawn(TRUTH["ordinal"], X, rng).clip(0, 2)
        assert len(BayesianGLMRegressor(likelihood=likelihood).fit(X, y).summary()) == D + 1
    half = BayesianGLMRegressor(likelihood=StudentT(df=4.0)).fit(X, X[:, 0] + rng.standard_normal(N)).summary()
    assert list(half.index[D + 1 :]) == ["scale"]


def test_noise_has_the_spread_of_a_standard_deviation(X, rng):
    """σ/√(2n), and an interval of its logarithm; weights count as rows."""
    y = drawn(Gaussian(variance=4.0), X, rng)
    weight = rng.integers(1, 4, N)
    relative = 1 / np.sqrt(2 * weight.sum())
    # Nodes know of the degrees of freedom that coefficients take, and of the prior.
    integrated = BayesianGLMRegressor().fit(X, y, weight).summary(0.8).loc["std(residual)"]
    assert integrated["std"] == pytest.approx(integrated["mean"] * relative, rel=0.05)
    table = BayesianGLMRegressor(hyperparameters="point").fit(X, y, weight).summary(0.8)
    noise = table.loc["std(residual)"]
    assert noise["std"] == pytest.approx(noise["mean"] * relative, rel=1e-3)
    ends = noise["mean"] * np.exp(norm.ppf([0.1, 0.9]) * relative)
    np.testing.assert_allclose(noise[["lower", "upper"]].astype(float), ends, rtol=1e-3)


def test_dispersion_has_the_curvature_of_its_likelihood(rng):
    """Where q(w) is narrow: that of the log likelihood in the logarithm of the dispersion, at the fitted rate."""
    X = rng.standard_normal((4000, 2))
    y = NegativeBinomial(dispersion=0.5).sample(X @ [0.5, -0.3] + 1.0, rng)
    model = BayesianGLMRegressor(likelihood="negative-binomial", hyperparameters="point").fit(X, y)
    f, at, step = model.predict_latent(X)[0], np.log(model.noise_), 1e-3
    below, here, above = (
        NegativeBinomial(dispersion=float(np.exp(at + side * step))).log_prob(y, f).sum() for side in (-1, 0, 1)
    )
    curvature = (2 * here - below - above) / step**2
    assert model.summary().loc["dispersion", "std"] == pytest.approx(model.noise_ / np.sqrt(curvature), rel=0.01)
    # With nodes too, also of other axes that hardly move it.
    integrated = BayesianGLMRegressor(likelihood="negative-binomial").fit(X, y).summary().loc["dispersion"]
    assert integrated["std"] == pytest.approx(model.noise_ / np.sqrt(curvature), rel=0.05)


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", list(ROWS))
def test_intervals_of_learned_parameters_cover(name, rng):
    """90 % of them have the truth: 100 data sets, four standard errors, and 2 % that the normal in logs costs."""
    likelihood, n_sets = TRUTH[name], 100
    truth = likelihood._replaced({}, LEARNED[name]._automatic()).reported
    hits = []
    for _ in range(n_sets):
        X = rng.standard_normal((400, D))
        model = BayesianGLMRegressor(likelihood=LEARNED[name]).fit(X, drawn(likelihood, X, rng))
        rows, at = model.summary().loc[list(truth)], np.array(list(truth.values()))
        if name == "ordinal":  # data say how far cut points are from the intercept
            at = at + model.intercept_
        hits.append((rows["lower"] < at) & (at < rows["upper"]))
    assert np.all(np.abs(np.mean(hits, axis=0) - 0.9) < 4 * np.sqrt(0.9 * 0.1 / n_sets) + 0.02)


def test_what_is_told_of_rows_that_say_nothing_is_not_known(X):
    """Counts without any event leave the dispersion as it began: without a spread, or with an interval that has it."""
    with pytest.warns(UserWarning, match="y is 0 in every row"):
        table = BayesianGLMRegressor(likelihood="negative-binomial").fit(X[:40], np.zeros(40)).summary()
    row = table.loc["dispersion"]
    assert np.isnan(row["std"]) or row["lower"] < row["mean"] < row["upper"]


# ---- other estimators
def test_kernels_are_named_by_their_columns(rng):
    X = pd.DataFrame(rng.standard_normal((60, 2)), columns=["price", "age"])
    y = np.sin(X["price"]) + 0.1 * rng.standard_normal(60)
    table = SparseGPRegressor(n_inducing=6).fit(X, y).summary()
    assert list(table.index[:4]) == ["k1__constant_value", "length_scale(price)", "length_scale(age)", "noise_variance"]
    table = SparseGPRegressor(n_inducing=6).fit(X.to_numpy(), y).summary()
    assert list(table.index[1:3]) == ["k2__length_scale[0]", "k2__length_scale[1]"]


def test_paths_are_kept_where_two_parts_have_numbers_of_one_name():
    from sklearn.gaussian_process.kernels import RBF

    from sksvi.gaussian_process._start import hyperparameters

    names, values = hyperparameters(RBF([1.0, 2.0]) + RBF([3.0, 4.0]), ["a", "b"])
    assert names == [f"k{k}__length_scale({column})" for k in (1, 2) for column in "ab"]
    assert values == [1.0, 2.0, 3.0, 4.0]


def test_mixed_effects_have_the_parameters_of_their_likelihood(rng):
    X = pd.DataFrame({"x": rng.standard_normal(N), "g": np.arange(N) % 8})
    y = NegativeBinomial(dispersion=0.5).sample(0.5 * X["x"].to_numpy() + 0.2 * (X["g"] % 3).to_numpy(), rng)
    model = GMERegressor(likelihood="negative-binomial", groups="g").fit(X, y)
    table = model.summary(exponentiate=True)
    assert list(table.index) == ["x", "intercept", "std(g, intercept)", "dispersion"]
    assert table["direction"].notna().tolist() == [True, True, False, False]
    assert table["exp(mean)"].notna().tolist() == [True, True, False, False]
    assert 0 < table.loc["dispersion", "lower"] < table.loc["dispersion", "mean"]
    pd.testing.assert_series_equal(
        table.loc[["std(g, intercept)"], ["mean", "std"]].iloc[0],
        model.group_std_.iloc[0],
        check_names=False,
    )
    np.testing.assert_array_equal(
        model.summary(0.5).loc["dispersion", ["mean", "std"]], table.loc["dispersion", ["mean", "std"]]
    )


# ---- columns that are called as a table calls rows of its own
OWN = ["intercept", "std(residual)", "(intercept)", "std(shop, intercept)", "noise variance", "dispersion"]


def test_a_column_may_have_the_name_of_any_row(rng):
    names = [*OWN, "dose"]
    X = pd.DataFrame(rng.standard_normal((60, len(names))), columns=names)
    y = X.to_numpy() @ np.arange(1.0, len(names) + 1) + 100.0 + rng.standard_normal(60)
    assert BayesianGLMRegressor().fit(X, y).summary().index.tolist() == [*names, "((intercept))", "(std(residual))"]
    model = BayesianGLMRegressor(hyperparameters="point").fit(X, y)
    table = model.summary(effects="joint")
    assert table.index.tolist() == [*names, "((intercept))", "(std(residual))"]
    np.testing.assert_array_equal(table["mean"].iloc[: len(names)], model.coef_)
    assert table.loc["intercept", "mean"] == model.coef_[0]
    assert table.loc["((intercept))", "mean"] == model.intercept_
    plain = BayesianGLMRegressor(hyperparameters="point").fit(X[["dose"]], y)
    assert plain.summary().index.tolist() == ["dose", "intercept", "std(residual)"]
    assert plain.summary(effects="joint").loc["intercept", "mean"] == plain.intercept_


def test_a_column_of_classes_or_groups_may_have_the_name_of_any_row(rng):
    X = pd.DataFrame(rng.standard_normal((80, len(OWN))), columns=OWN)
    three = BayesianGLMClassifier(max_iter=500).fit(X, np.arange(80) % 3)
    assert three.summary().index.is_unique
    assert three.summary().loc[0].index.tolist() == [*OWN, "((intercept))"]
    X["shop"] = np.arange(80) % 8
    y = rng.poisson(2.0, 80)
    mixed = GMERegressor(likelihood="poisson", groups="shop", random_slopes="intercept")
    mixed.fit(X, y)
    assert mixed.summary().index.is_unique and mixed.group_std_.index.is_unique
    assert mixed.group_effects_.index.is_unique
    assert mixed.group_std_.loc["shop"].index.tolist() == ["(intercept)", "intercept"]
    assert "std(shop, (intercept))" in mixed.summary().index
    assert "(noise variance)" in mixed.summary().index


def test_a_column_of_a_mixture_may_be_called_weight(rng):
    X = pd.DataFrame({"weight": rng.choice(["", "a"], 60), "size": rng.choice(["s", "l"], 60)})
    table = CategoricalMixture(n_components=2, random_state=0).fit(X).summary()
    assert table.index.is_unique
    assert (0, "(weight)", "") in table.index


# ---- a flat prior of more than two classes
@pytest.mark.parametrize("algorithm", ["cvi", "mc-ssvi"])
def test_contrasts_under_a_flat_prior_are_those_of_maximum_likelihood(algorithm, rng):
    n = 2000
    X = pd.DataFrame(rng.standard_normal((n, 2)) * [1.0, 10.0] + [0.0, 30.0], columns=["dose", "age"])
    f = np.c_[0.6 * X["dose"], 0.03 * (X["age"] - 30.0) - 0.3 * X["dose"], np.zeros(n)]
    y = np.array(["a", "b", "c"])[np.argmax(f + rng.gumbel(size=f.shape), axis=1)]
    model = BayesianGLMClassifier(prior_precision="flat", algorithm=algorithm).fit(X, y)
    A, codes = np.c_[X, np.ones(n)], np.unique(y, return_inverse=True)[1]
    w = np.zeros((2, 3))  # of b and c against a
    for _ in range(30):
        p = softmax(np.c_[np.zeros(n), A @ w.T], axis=1)[:, 1:]
        slope = ((codes[:, None] == [1, 2]) - p).T @ A
        bend = np.einsum("nij,nd,ne->idje", p[:, :, None] * (np.eye(2) - p[:, None, :]), A, A).reshape(6, 6)
        w = w + np.linalg.solve(bend, slope.ravel()).reshape(2, 3)
    error = np.sqrt(np.diagonal(np.linalg.inv(bend))).reshape(2, 3)
    table = model.summary()
    assert table.index.tolist() == [(label, name) for label in "bc" for name in ("dose", "age", "intercept")]
    assert np.all(np.abs(table["mean"].to_numpy().reshape(2, 3) - w) < 0.1 * error)
    np.testing.assert_allclose(table["std"].to_numpy().reshape(2, 3), error, rtol=0.03)
    pd.testing.assert_frame_equal(table, model.summary(reference="a"))
    assert model.summary(reference="b").loc[("a", "age"), "mean"] == pytest.approx(-table.loc[("b", "age"), "mean"])
    draws = softmax(np.einsum("nd,skd->nsk", A[:20], model.posterior_["weights"].sample(4000, 0)), axis=2)
    assert np.all(np.abs(model.predict_proba(X[:20]) - draws.mean(1)) < 0.002 + 4 * draws.std(1) / np.sqrt(4000))
    assert "exp(mean)" in model.summary(exponentiate=True)
    assert "dose" in model.summary_text()


@pytest.mark.filterwarnings("ignore:noise is larger where column")
def test_a_fixed_prior_that_the_data_contradict_is_warned_of(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    X = rng.normal(size=(200, 2))
    y = 300.0 + 200.0 * X[:, 1] + 100.0 * rng.normal(size=200)
    with pytest.warns(UserWarning, match="prior_precision=1 expects coefficients .* most of all for column 1"):
        BayesianGLMRegressor(prior_precision=1.0).fit(X, y)
    BayesianGLMRegressor(prior_precision=1.0).fit(X, y / 200.0)  # no warning


def test_a_page_shows_itself(global_random_seed):
    X = np.random.default_rng(global_random_seed).normal(size=(30, 1))
    text = BayesianGLMRegressor().fit(X, X[:, 0] + 0.1 * np.arange(30)).summary_text()
    assert isinstance(text, str) and repr(text) == str(text) and "\n" in repr(text)
