"""HilbertGPTransformer: covariances and posteriors beside those of the exact process, names, and what is refused."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, Matern
from sklearn.utils.estimator_checks import parametrize_with_checks

from sksvi import BayesianGLMRegressor, GMERegressor
from sksvi.likelihoods import Gaussian
from sksvi.preprocessing import HilbertGPTransformer

NOISE = 0.1


def refused(estimator):
    return {"check_sample_weight_equivalence_on_dense_data": "rows of weight 0 lie beyond the others, and are refused"}


@parametrize_with_checks([HilbertGPTransformer(additive=True)], expected_failed_checks=refused)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def exact(kernel, scale):
    return RBF(scale) if kernel == "rbf" else Matern(scale, nu={"matern32": 1.5, "matern52": 2.5}[kernel])


@pytest.mark.parametrize("kernel", ["matern32", "matern52", "rbf"])
@pytest.mark.parametrize(("n_columns", "error"), [(1, 0.01), (2, 0.03), (3, 0.04)])
def test_products_of_columns_are_the_kernel(kernel, n_columns, error, global_random_seed):
    """At the rows, and a length scale beyond them."""
    rng = np.random.default_rng(global_random_seed)
    X = rng.random((60, n_columns)) * [1.0, 10.0, 0.1][:n_columns]
    scale = 0.6 * np.ptp(X, axis=0)
    process = HilbertGPTransformer(kernel, scale).fit(X)
    outside = X + 0.999 * scale * np.sign(X - X.mean(0))
    for rows in (X, outside):
        found, wanted = process.transform(rows), exact(kernel, scale)(rows)
        np.testing.assert_allclose(found @ found.T, wanted, atol=error)
        variance = np.sum(np.square(found), axis=1)
        assert np.all((1.0 - error < variance) & (variance < 1.0 + error))


@pytest.fixture(scope="module")
def wave():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"x": np.sort(rng.uniform(0.0, 5.0, 80))})
    return X, np.sin(3.0 * X["x"]).to_numpy() + np.sqrt(NOISE) * rng.standard_normal(80)


@pytest.mark.parametrize("kernel", ["matern32", "matern52", "rbf"])
def test_fits_are_those_of_the_exact_process(wave, kernel):
    """Posterior on a dense grid, and the evidence, by which a length scale is chosen."""
    X, y = wave
    grid = pd.DataFrame({"x": np.linspace(-0.5, 5.5, 200)})
    evidence = []
    for scale in (0.3, 0.6, 1.2):
        process = HilbertGPTransformer(kernel, scale, beyond=2.0).fit(X)
        likelihood = Gaussian(variance=NOISE)
        model = BayesianGLMRegressor(likelihood=likelihood, prior_precision={"*": 1.0}, fit_intercept=False, tol=1e-10)
        model.fit(process.transform(X), y)
        gp = GaussianProcessRegressor(exact(kernel, scale), alpha=NOISE, optimizer=None).fit(X, y)
        mean, std = gp.predict(grid, return_std=True)
        m, v = model.predict_latent(process.transform(grid))
        np.testing.assert_allclose(m, mean, atol=0.06)
        np.testing.assert_allclose(np.sqrt(v), std, atol=0.06)
        evidence.append((model.lower_bound_, gp.log_marginal_likelihood()))
    found, wanted = np.transpose(evidence)
    np.testing.assert_allclose(found, wanted, atol=0.5)
    assert np.argmax(found) == np.argmax(wanted)


def test_the_length_scale_is_learned(wave, global_random_seed):
    """Of draws of a process, within four posterior deviations of the logarithm; of labels and repeated rows too."""
    rng = np.random.default_rng(global_random_seed)
    X = np.sort(rng.random((300, 1)), axis=0)
    for scale in (0.05, 0.3):
        f = np.linalg.cholesky(exact("matern32", scale)(X) + 1e-9 * np.eye(300)) @ rng.standard_normal(300)
        y = f + 0.2 * rng.standard_normal(300)
        found = HilbertGPTransformer().fit(X, y).length_scale_[0]
        assert abs(np.log(found / scale)) < 4.0 * 0.4
        assert HilbertGPTransformer().fit(X, 5.0 - 100.0 * y).length_scale_[0] == pytest.approx(found)
    X, y = wave
    weight = np.arange(80) % 3
    weighted = HilbertGPTransformer().fit(X, y, sample_weight=weight)
    copies = HilbertGPTransformer().fit(X.loc[np.repeat(np.arange(80), weight)], np.repeat(y, weight))
    np.testing.assert_allclose(weighted.length_scale_, copies.length_scale_)
    labels, table = np.where(y > 0, "above", "below"), np.column_stack([y, y])
    numbers = HilbertGPTransformer().fit(X, (y > 0).astype(float)).length_scale_[0]
    assert HilbertGPTransformer().fit(X, labels).length_scale_[0] < np.ptp(X["x"])
    assert HilbertGPTransformer().fit(X, y > 0).length_scale_[0] == numbers
    assert HilbertGPTransformer().fit(X, table).length_scale_[0] == np.ptp(X["x"]) / 5.0
    with pytest.raises(ValueError, match="y has 79 rows, and X 80"):
        HilbertGPTransformer().fit(X, y[1:])


def test_the_variance_is_learned_and_the_unit_of_columns_does_not_matter(wave):
    X, y = wave
    process = HilbertGPTransformer().set_output(transform="pandas")
    keys = {"x_gp*": "auto"}
    model = BayesianGLMRegressor(prior_precision=keys).fit(process.fit_transform(X), 10.0 * y)
    assert process.length_scale_[0] == np.ptp(X["x"]) / 5.0
    assert np.sqrt(np.mean(np.square(model.predict(process.transform(X)) - 10.0 * np.sin(3.0 * X["x"])))) < 1.5
    assert np.all(model.hyperparameter_posterior_["scale(x_gp*)"] > 5.0)
    other = BayesianGLMRegressor(prior_precision=keys).fit(process.fit_transform(1000.0 * X), 10.0 * y)
    np.testing.assert_allclose(other.coef_, model.coef_, rtol=1e-6, atol=1e-9)


def test_a_surface_beside_effects_of_levels(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    places = pd.DataFrame(rng.random((200, 2)), columns=["lon", "lat"])
    f = np.sin(4.0 * places["lon"]) * np.cos(3.0 * places["lat"])
    process = HilbertGPTransformer("matern52", [0.5, 0.5]).set_output(transform="pandas")
    X = process.fit_transform(places).assign(site=rng.choice(list("abcdef"), 200))
    effect = dict(zip("abcdef", rng.standard_normal(6), strict=True))
    y = f + X["site"].map(effect) + 0.2 * rng.standard_normal(200)
    model = GMERegressor(groups="site", prior_precision={"lon_lat_gp*": "auto"}).fit(X, y)
    found = model.predict(X, include_groups="none")
    assert np.corrcoef(found, f)[0, 1] > 0.95


def test_names_and_order():
    X = pd.DataFrame({"a": [0.0, 1.0, 2.0], "b": [0.0, 1.0, 5.0]}, index=list("uvw"))
    together = HilbertGPTransformer("rbf", 10.0).set_output(transform="pandas").fit_transform(X)
    assert list(together)[:2] == ["a_b_gp1", "a_b_gp2"] and together.index.equals(X.index)
    apart = HilbertGPTransformer("rbf", [2.0, 5.0], additive=True).set_output(transform="pandas").fit(X)
    names = list(apart.get_feature_names_out())
    assert names[0] == "a_gp1" and "b_gp1" in names
    alone = HilbertGPTransformer("rbf", 5.0).set_output(transform="pandas").fit_transform(X[["b"]])
    np.testing.assert_array_equal(apart.transform(X).filter(like="b_gp"), alone)
    assert HilbertGPTransformer("rbf", 5.0).fit([[1.0], [2.0]]).get_feature_names_out()[0] == "x0_gp1"


@pytest.mark.parametrize(
    ("options", "columns", "error"),
    [
        ({}, 4, "X has 4 columns, and a process is of three at most"),
        ({"length_scale": [1.0, 2.0]}, 1, r"length_scale.shape == \(2,\)"),
        ({"length_scale": [1.0, -2.0]}, 2, "length_scale must be positive; found -2"),
        ({"length_scale": 1e-4}, 2, "columns, more than 5000"),
    ],
)
def test_what_is_refused(options, columns, error):
    X = np.random.default_rng(0).random((20, columns))
    with pytest.raises(ValueError, match=error):
        HilbertGPTransformer(**options).fit(X)


def test_rows_that_lie_too_far_and_constant_columns_are_named():
    X = pd.DataFrame({"age": [20.0, 60.0, 40.0], "dose": [1.0, 2.0, 3.0]})
    process = HilbertGPTransformer().fit(X)
    process.transform(X.assign(age=73.3, dose=2.0))
    with pytest.raises(
        ValueError, match=r"column 'age' of X is 74 in row 2, and columns are there from 6\.66667 to 73"
    ):
        process.transform(X.assign(age=[20.0, 30.0, 74.0]))
    with pytest.raises(ValueError, match="column 'dose' of X has one value alone"):
        HilbertGPTransformer().fit(X.assign(dose=1.0))
