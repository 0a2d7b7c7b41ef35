"""Mixed models with a second latent: effects of levels on f, columns that predict a scale or zeros on g."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import sksvi
from sksvi import BayesianGLMRegressor, GMERegressor
from sksvi.expectations import Auto

#: Standard deviation between sites.
STD = 0.6


@pytest.fixture(scope="module")
def counts(global_random_seed):
    """Zero-inflated counts of 25 sites in raw units; z moves the zeros alone."""
    rng = np.random.default_rng([global_random_seed, 5])
    site = np.repeat(np.arange(25), 30)
    X = pd.DataFrame({"x": rng.normal(size=750), "z": 40.0 + rng.normal(size=750)})
    X["site"] = np.array([f"site {k}" for k in range(25)])[site]
    f = 1.0 + 0.5 * X["x"] + STD * rng.normal(size=25)[site]
    zero = rng.random(750) < 1.0 / (1.0 + np.exp(0.5 - 0.8 * (X["z"] - 40.0)))
    return X, np.where(zero, 0.0, rng.poisson(np.exp(f)))


@pytest.fixture(scope="module")
def fitted(counts):
    return GMERegressor(likelihood="zero-inflated-poisson", groups="site", zero_features=["z"]).fit(*counts)


def test_coefficients_of_both_latents_are_within_four_deviations(fitted):
    rows = fitted.summary()
    truth = {"x": 0.5, "z": 0.0, "zero:z": 0.8, "zero:intercept": -0.5 - 0.8 * 40.0}
    for name, value in truth.items():
        assert abs(rows.loc[name, "mean"] - value) < 4.0 * rows.loc[name, "std"], name
    std = fitted.hyperparameter_posterior_["std(site, intercept)"]
    ends = rows.loc["std(site, intercept)", ["lower", "upper"]].to_numpy(float)
    spread = np.diff(np.log(ends))[0] / 3.29  # of its logarithm, by the 90 % interval
    assert abs(np.log(STD) - np.log(ends).mean()) < 4.0 * spread
    assert std.nunique() > 1
    assert fitted.zero_coef_.shape == (1,) and fitted.coef_.shape == (2,) and len(fitted.group_effects_) == 25


def test_predictions_are_mixtures_over_the_pair_that_the_groups_ask_for(fitted, counts):
    X = counts[0][:6].assign(site=["site 0"] * 3 + ["elsewhere"] * 3)
    m, v = fitted.predict_latent(X)
    none, _ = fitted.predict_latent(X, include_groups="none")
    np.testing.assert_allclose(m[:, 1], none[:, 1])  # levels move f alone
    effect = fitted.group_effects_.loc[("site", "site 0", "intercept"), "mean"]
    np.testing.assert_allclose((m - none)[:, 0], [effect] * 3 + [0.0] * 3, rtol=1e-3, atol=1e-8)
    inside, beyond = v[:3], v[3:]
    assert np.all(beyond[:, 0] > inside[:, 0]) and np.all(beyond[:, 1] < 1.0)
    marginal = fitted.predict(X, include_groups="marginal")
    np.testing.assert_allclose(marginal[3:], fitted.predict(X)[3:])
    draws = fitted.sample_y(X, 4000, random_state=0)
    error = draws.std(axis=1) / np.sqrt(4000)
    assert np.all(np.abs(draws.mean(axis=1) - fitted.predict(X)) < 4.0 * error)
    ends = fitted.predict_interval(X, 0.9)
    assert np.all(np.mean((draws >= ends[:, :1]) & (draws <= ends[:, 1:]), axis=1) > 0.9 - 4.0 * np.sqrt(0.09 / 4000))


@pytest.mark.exhaustive
def test_draws_give_the_variance_of_a_new_level_to_the_mean_alone(fitted, counts):
    X = counts[0][:5].assign(site="elsewhere")
    (_, draws), *_ = fitted._mean_draws(X, 2000, 0)
    error = draws[..., 0].std(axis=1) / np.sqrt(2000)
    assert np.all(np.abs(draws[..., 0].mean(axis=1) - fitted.predict(X)) < 4.0 * error)


@pytest.mark.exhaustive
def test_the_bound_is_largest_where_a_fit_ends(counts):
    X, y = counts[0][:120], counts[1][:120]
    options = {"likelihood": "zero-inflated-poisson", "zero_features": ["z"], "tol": 1e-10, "prior_precision": 1.0}
    model = GMERegressor(groups="site", hyperparameters="point", **options).fit(X, y)
    problem, _ = model._with_rows_of_fit(X, y, None, None)
    q, prior = model.state_.q, problem.model.prior(model.state_.q)["weights"]

    def at(mean):
        block = type(q["weights"])(mean, q["weights"].precision)
        batch = problem.model.batch(problem.data, slice(0, 120))
        return problem.model.terms({**q, "weights": block}, batch, Auto(), None).value.sum() - block.kl(prior)

    mean = q["weights"].mean
    for unit in np.diag(q["weights"].std):  # slopes by differences, against those of a move by a deviation
        assert abs(at(mean + 1e-3 * unit) - at(mean - 1e-3 * unit)) / 2e-3 < 5e-3


def test_without_groups_it_is_the_linear_model(counts):
    X, y = counts[0][:150], counts[1][:150]
    options = {"likelihood": "zero-inflated-poisson", "zero_features": "all", "prior_precision": 1.0, "tol": 1e-9}
    plain = BayesianGLMRegressor(algorithm="mc-ssvi", **options).fit(X[["x", "z"]], y)
    own = GMERegressor(groups=None, algorithm="mc-ssvi", **options).fit(X[["x", "z"]], y)
    np.testing.assert_array_equal(own.zero_coef_, plain.zero_coef_)
    np.testing.assert_array_equal(own.coef_, plain.coef_)


def test_a_weight_of_k_is_k_rows_and_an_offset_moves_the_mean_alone(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    X = pd.DataFrame({"x": rng.normal(size=120), "site": rng.choice(list("abcdef"), 120)})
    y, weight, offset = rng.normal(size=120) * np.exp(0.3 * X["x"]), rng.integers(1, 4, 120), rng.normal(size=120)
    model = GMERegressor(groups="site", scale_features="all", prior_precision=0.1, hyperparameters="point", tol=1e-9)
    copies = np.repeat(np.arange(120), weight)
    once = model.fit(X, y, sample_weight=weight)
    coef, std = once.scale_coef_, once.group_std_["mean"].to_numpy()
    again = model.fit(X.iloc[copies], y.iloc[copies])
    np.testing.assert_allclose(coef, again.scale_coef_, rtol=1e-5)
    np.testing.assert_allclose(std, again.group_std_["mean"], rtol=1e-3)
    plain = model.fit(X, y).scale_coef_
    moved = model.fit(X, y + offset, offset=offset)
    np.testing.assert_allclose(moved.scale_coef_, plain, rtol=5e-3, atol=1e-4)
    np.testing.assert_allclose(moved.predict(X, offset=offset) - offset, moved.predict(X, offset=0 * offset))


def test_a_file_has_both_latents_and_the_groups(fitted, counts, tmp_path):
    fitted.save(tmp_path / "fit")
    again = sksvi.load(tmp_path / "fit")
    np.testing.assert_array_equal(again.predict_interval(counts[0][:20]), fitted.predict_interval(counts[0][:20]))
    np.testing.assert_array_equal(again.zero_coef_, fitted.zero_coef_)
    pd.testing.assert_frame_equal(again.group_effects_, fitted.group_effects_)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"zero_features": ["site"]}, "grouping column"),
        ({"zero_features": ["month"]}, "does not have"),
        ({"zero_features": "all", "noise": True}, "noise='auto'"),
        ({"zero_features": "all", "covariance": "diag"}, "covariance='full'"),
        ({"scale_features": "all"}, "gaussian, negative-binomial"),
    ],
)
def test_what_does_not_go_together_is_refused(options, words, counts):
    with pytest.raises(ValueError, match=words):
        GMERegressor(likelihood="zero-inflated-poisson", groups="site", **options).fit(*counts)


def test_streams_are_refused(counts):
    with pytest.raises(ValueError, match="has no partial_fit"):
        GMERegressor(likelihood="zero-inflated-poisson", groups="site", zero_features="all").partial_fit(*counts)


def test_a_formula_takes_the_columns_of_the_second_latent(counts):
    X, y = counts[0][:150], counts[1][:150]
    data, options = X.assign(n=y), {"likelihood": "zero-inflated-poisson", "hyperparameters": "point"}
    options["prior_precision"] = 1.0
    model = sksvi.from_formula("n ~ x + z + (1 | site)", data, zero_features=["z"], **options).fit(data)
    own = GMERegressor(groups="site", zero_features=["z"], **options).fit(X[["x", "z", "site"]], y)
    np.testing.assert_allclose(model[-1].zero_coef_, own.zero_coef_)
    assert list(model.summary().index[:4]) == ["x", "z", "zero:z", "zero:intercept"]
