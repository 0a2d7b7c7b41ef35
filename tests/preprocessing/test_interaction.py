"""Interactions of SmoothTransformer: the prior that their columns have, fits beside dense ones, levels, refusals."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from sksvi import BayesianGLMRegressor
from sksvi.likelihoods import Gaussian
from sksvi.preprocessing import SmoothTransformer


def frame(seed, n=150):
    rng = np.random.default_rng(seed)
    age = rng.uniform(20.0, 60.0, n)
    return pd.DataFrame({"age": age, "dose": 0.02 * age + rng.uniform(size=n), "plan": rng.choice(["a", "b"], n)})


def columns(X, rows=None, **options):
    smooth = SmoothTransformer(interaction=True, **options).set_output(transform="pandas").fit(X)
    return smooth.transform(X if rows is None else rows)


def products(X, rows, n_basis=20):
    """Line by line, and all other products of columns of both, lines of variance 1, centred; their variances add to 1.

    Of the rows, as the rows X have centres and lengths.
    """
    parts = []
    for name in ("age", "dose"):
        smooth = SmoothTransformer(n_basis).fit(X[[name]])
        scale = np.r_[X[name].std(ddof=0), np.ones(n_basis - 2)]
        parts.append([smooth.transform(one[[name]]) / scale for one in (X, rows)])
    fit, found = (np.einsum("ij,ik->ijk", *pair).reshape(len(pair[0]), -1) for pair in zip(*parts, strict=True))
    bends = found[:, 1:] - fit[:, 1:].mean(0)
    return found[:, 0] - fit[:, 0].mean(), bends / np.sqrt(fit[:, 1:].var(0).sum())


def test_bends_have_the_prior_of_all_products(global_random_seed):
    X = frame(global_random_seed)[["age", "dose"]]
    rows = X.iloc[::3] * 1.05  # some lie beyond the rows of the fit
    for n_basis, tolerance in ((6, 1e-10), (20, 0.03)):  # 24 products, and 360 of which 40 axes are left
        line, bends = products(X, rows, n_basis)
        found = columns(X, rows, n_basis=n_basis).to_numpy()
        np.testing.assert_allclose(found[:, 0], line * X["age"].std(ddof=0) * X["dose"].std(ddof=0), rtol=1e-9)
        assert found.shape[1] == min((n_basis - 1) ** 2, 41)
        covariance = bends @ bends.T
        np.testing.assert_allclose(found[:, 1:] @ found[:, 1:].T, covariance, atol=tolerance * np.max(covariance))


def test_bends_are_centred_and_orthogonal(global_random_seed):
    found = columns(frame(global_random_seed)[["age", "dose"]])
    assert list(found)[:2] == ["age:dose_linear", "age:dose_s1"] and list(found)[-1] == "age:dose_s40"
    np.testing.assert_allclose(found.mean(axis=0), 0.0, atol=1e-9)
    scatter = np.cov(found.iloc[:, 1:].T, bias=True)
    np.testing.assert_allclose(scatter - np.diag(np.diag(scatter)), 0.0, atol=1e-10)
    assert np.all(np.diff(np.diag(scatter)) <= 0.0)
    np.testing.assert_allclose(np.trace(scatter), 1.0)


def test_a_fit_is_the_gaussian_conditional_of_the_products(global_random_seed):
    X, noise, precision = frame(global_random_seed)[["age", "dose"]], 0.25, 0.5
    rng = np.random.default_rng(global_random_seed)
    y = np.sin(X["age"] / 6.0) * X["dose"] + np.sqrt(noise) * rng.standard_normal(len(X))
    smooth = SmoothTransformer(8, interaction=True).set_output(transform="pandas").fit(X)
    options = {"likelihood": Gaussian(variance=noise), "fit_intercept": False, "tol": 1e-10}
    model = BayesianGLMRegressor(prior_precision={"age:dose_linear": 2.0, "*": precision}, **options)
    mean, variance = model.fit(smooth.transform(X), y).predict_latent(smooth.transform(X))
    line, bends = products(X, X, 8)
    line = line * X["age"].std(ddof=0) * X["dose"].std(ddof=0)
    prior = np.outer(line, line) / 2.0 + bends @ bends.T / precision
    gain = np.linalg.solve(prior + noise * np.eye(len(X)), prior).T
    np.testing.assert_allclose(mean, gain @ y, atol=1e-3 * np.max(np.abs(mean)))
    np.testing.assert_allclose(variance, np.diag(prior - gain @ prior), rtol=0.02)


def test_an_interaction_per_level(global_random_seed):
    X = frame(global_random_seed)
    found = columns(X, by="plan", n_basis=5)
    assert list(found)[:2] == ["age:dose_a_linear", "age:dose_a_s1"] and list(found)[-1] == "age:dose_b_s15"
    for level, rows in X.groupby("plan"):
        own = found.filter(regex=f"_{level}_")
        assert (own[X["plan"] != level] == 0.0).all(axis=None)
        np.testing.assert_array_equal(own.loc[rows.index], columns(rows[["age", "dose"]], n_basis=5))


def test_weights_are_copies_and_units_are_nothing(global_random_seed):
    X = frame(global_random_seed)[["age", "dose"]]
    weight = np.random.default_rng(global_random_seed).integers(0, 4, len(X))
    fits = [
        SmoothTransformer(interaction=True).fit(X, sample_weight=weight).transform(X)[:, 1:],
        SmoothTransformer(interaction=True).fit(X.loc[X.index.repeat(weight)]).transform(X)[:, 1:],
        SmoothTransformer(interaction=True)
        .fit(X * [7.0, 0.01], sample_weight=weight)
        .transform(X * [7.0, 0.01])[:, 1:],
    ]
    for other in fits[1:]:
        np.testing.assert_allclose(other @ other.T, fits[0] @ fits[0].T, atol=1e-7)


def test_a_surface_is_held_and_an_additive_one_has_no_interaction(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    X = pd.DataFrame(rng.random((300, 2)), columns=["x", "z"])
    margins = SmoothTransformer().set_output(transform="pandas").fit_transform(X)
    design = pd.concat([margins, columns(X)], axis=1)
    keys = dict.fromkeys(["x_s*", "z_s*", "x:z_s*"], "auto")
    scales = []
    for truth in (np.sin(6.0 * X["x"]) * X["z"] ** 2, np.sin(6.0 * X["x"]) + X["z"] ** 2):
        y = truth + 0.2 * rng.standard_normal(300)
        model = BayesianGLMRegressor(prior_precision=keys).fit(design, y)
        mean, variance = model.predict_latent(design)
        assert np.max(np.abs(mean - truth) / np.sqrt(variance)) < 5.0 and np.sqrt(np.mean(variance)) < 0.1
        scales.append(pd.Series(model.prior_precision_, design.columns)["x:z_s1"])
    assert scales[1] > 4.0 * scales[0]


@pytest.mark.parametrize(
    ("names", "options", "error"),
    [
        (["age"], {}, "interaction=True is of two columns of X; found 1: \\['age'\\]"),
        (["age", "plan"], {"by": "plan"}, "interaction=True is of two columns of X; found 1"),
        (["age", "few"], {}, "column 'few' of X: a smooth of 2 distinct values"),
    ],
)
def test_refusals(names, options, error):
    with pytest.raises(ValueError, match=error):
        columns(frame(0).assign(few=np.arange(150) % 2)[names], **options)
