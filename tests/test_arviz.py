"""Draws for ArviZ: every estimator converts under the user's names, and ArviZ reads what it gets."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import matplotlib

matplotlib.use("Agg")

import numpy as np
import pandas as pd
import pytest
import xarray
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from sksvi import (
    BayesianGLMClassifier,
    BayesianGLMRegressor,
    BernoulliMixture,
    DynamicGLM,
    GeneralizedPMF,
    GMERegressor,
    GPClassifier,
    PoissonFactorization,
    SparseGPRegressor,
)
from sksvi.arviz import to_arviz
from sksvi.inspection import loo
from tests.contracts.test_registry import ESTIMATORS, small

# ArviZ 0.23 announces its next version when it is imported, and its loo where few draws have heavy tails.
pytestmark = [
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:Estimated shape parameter:UserWarning"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]
WITH_ROWS = {"posterior_predictive", "log_likelihood", "observed_data"}


def fake(version):
    """An ArviZ of some version that hands back what it is given."""

    def old(*, coords, dims, **groups):
        return {
            name: SimpleNamespace(values=values, attrs={}, dims=dims, coords=coords) for name, values in groups.items()
        }

    def new(groups, *, coords, dims):
        return old(coords=coords, dims=dims, **groups)

    return SimpleNamespace(__version__=version, from_dict=new if version[0] == "1" else old)


@pytest.fixture(scope="module")
def table(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    X = pd.DataFrame(rng.normal(size=(80, 2)), columns=["age", "dose"], index=[f"p{i}" for i in range(80)])
    X["site"] = rng.choice(list("abcdefgh"), 80)
    y = 1.0 + X["age"] + X["site"].map(dict(zip("abcdefgh", rng.normal(size=8), strict=True))) + rng.normal(size=80)
    return X, y


@pytest.mark.parametrize("cls", ESTIMATORS)
def test_every_estimator_converts(cls):
    """All axes have a name and as many labels as values; whoever gives rows a density has one finite number each."""
    arviz = pytest.importorskip("arviz")
    model, X, y = small(cls)
    data = model.fit(X, y).to_arviz(X, y, n_samples=200, random_state=0)
    assert set(model.posterior_) - {"biases", "components"} <= set(data["posterior"].data_vars)
    for group in data["posterior"].data_vars.values():
        assert group.dims[:2] == ("chain", "draw") and group.shape[:2] == (1, 200)
        assert not {"column", "labels", "forest"} & set(group.dims)  # plot_forest of ArviZ 1.x has them for itself
        for dim, size in zip(group.dims[2:], group.shape[2:], strict=True):
            assert size == 1 or len(group.coords[dim]) == size
    assert data["posterior"].attrs["estimator"] == cls.__name__ and "draws" in data["posterior"].attrs
    if "log_likelihood" in data.groups():
        values = next(iter(data["log_likelihood"].data_vars.values()))
        assert np.all(np.isfinite(values)) and values.shape == (1, 200, 40)
        assert np.isfinite(arviz.loo(data).elpd_loo)
    if y is not None and model.__sklearn_tags__().estimator_type:
        assert set(data.groups()) >= WITH_ROWS and data["observed_data"]["y"].shape == (40,)


@pytest.mark.parametrize("version", ["0.23.4", "1.3.0"])
def test_both_majors_of_arviz_get_named_draws(version, table, monkeypatch):
    monkeypatch.setitem(sys.modules, "arviz", fake(version))
    X, y = table
    model = GMERegressor(noise=False, groups=["site"], random_slopes={"site": "dose"}).fit(X, y)
    found, again = (to_arviz(model, X, y, n_samples=7, random_state=0) for _ in range(2))
    posterior = found["posterior"]
    assert posterior.values["weights"].shape == (1, 7, 3) and posterior.values["groups"].shape == (1, 7, 16)
    assert posterior.dims["weights"] == ["coefficient"] and list(posterior.coords["coefficient"]) == [
        "age",
        "dose",
        "intercept",
    ]
    assert list(posterior.coords["group_effect"])[:2] == ["site[a] intercept", "site[a] dose"]
    assert {"std(site, intercept)", "std(site, dose)", "std(residual)"} <= set(posterior.values)
    assert found["log_likelihood"].values["y"].shape == (1, 7, 80)
    assert list(found["observed_data"].coords["row"]) == list(X.index)
    assert set(found["constant_data"].values) == {"age", "dose", "site"}
    for name, values in posterior.values.items():
        np.testing.assert_array_equal(values, again["posterior"].values[name])
    short = to_arviz(model, 5, 1)
    assert list(short) == ["posterior"] and short["posterior"].values["weights"].shape == (1, 5, 3)


@pytest.mark.parametrize("groups", [None, ["site"]], ids=["linear", "grouped"])
def test_draws_are_of_the_joint_posterior(groups, table):
    """Moments of f and of effects at draws are those that the fit predicts; of scales those of its nodes."""
    pytest.importorskip("arviz")
    X, y = table
    if groups is None:
        X = X[["age", "dose"]]
        model = BayesianGLMRegressor().fit(X, y)
    else:
        model = GMERegressor(noise=False, groups=groups).fit(X, y)
    draws = model._posterior_draws(4000, np.random.RandomState(0))
    f = np.empty((80, 4000))
    for node in draws.nodes:
        f[:, node.at] = node.latents(X, None)[0]
    mean, variance = model.predict_latent(X)
    assert np.all(np.abs(f.mean(1) - mean) < 4.5 * np.sqrt(variance / 4000))  # of 80 correlated numbers
    assert np.all(np.abs(f.var(1) / variance - 1.0) < 4.5 * np.sqrt(2.2 / 4000) * 1.3)  # tails of a mixture
    nodes = model.hyperparameter_posterior_
    for name in nodes.columns[1:]:
        logs, values = np.log(nodes[name]), np.log(draws.variables[name].values)
        centre = nodes["weight"] @ logs
        spread = np.sqrt(nodes["weight"] @ (logs - centre) ** 2)
        assert abs(values.mean() - centre) < 4 * values.std() / np.sqrt(4000) + 1e-12  # one that all nodes share
        assert values.std() > 0.97 * spread - 1e-12


def test_loo_of_arviz_is_near_that_of_messages(table):
    arviz = pytest.importorskip("arviz")
    X, y = table
    X = X[["age", "dose"]]
    model = BayesianGLMRegressor().fit(X, y)
    found = arviz.loo(model.to_arviz(X, y, n_samples=4000, random_state=0))
    assert abs(found.elpd_loo - loo(model, X, y).elpd_loo) < 0.1 * found.se
    other = BayesianGLMRegressor().fit(X[["dose"]], y)
    both = {"all": model.to_arviz(X, y, random_state=0), "dose": other.to_arviz(X[["dose"]], y, random_state=0)}
    assert list(arviz.compare(both).index) == ["all", "dose"]


@pytest.mark.costly
def test_replicated_targets_have_the_predictive_moments(table):
    pytest.importorskip("arviz")
    X, _ = table
    counts = np.random.default_rng(0).poisson(np.exp(0.3 * X["age"]))
    model = GMERegressor(likelihood="poisson", groups=["site"]).fit(X, counts)
    found = model.to_arviz(X, counts, n_samples=500, random_state=0)["posterior_predictive"]["y"].values[0]
    mean, std = model.predict(X, return_std=True)
    assert np.all(np.abs(found.mean(0) - mean) < 5 * std / np.sqrt(500))
    trials = np.random.default_rng(1).integers(1, 6, 80)
    pairs = np.column_stack([trials // 2, trials - trials // 2])
    model = BayesianGLMRegressor(likelihood="binomial").fit(X[["age", "dose"]], pairs)
    data = model.to_arviz(X[["age", "dose"]], pairs, n_samples=50, random_state=0)
    assert np.all(data["posterior_predictive"]["y"].values <= data["constant_data"]["trials"].values)
    np.testing.assert_array_equal(data["observed_data"]["y"], pairs[:, 0])


def test_labels_and_named_levels_are_positions(table):
    pytest.importorskip("arviz")
    X, y = table
    labels = np.array(["high", "low", "middle"])[np.digitize(y, [0.0, 1.5])]
    data = BayesianGLMClassifier().fit(X[["age", "dose"]], labels).to_arviz(X[["age", "dose"]], labels, n_samples=9)
    assert data["posterior"]["weights"].dims[2:] == ("class", "coefficient")
    assert data["posterior"].attrs["classes"] == ["high", "low", "middle"]
    np.testing.assert_array_equal(data["observed_data"]["y"], np.unique(labels, return_inverse=True)[1])
    levels = pd.Series(pd.Categorical(labels, categories=["low", "middle", "high"], ordered=True), index=X.index)
    data = (
        BayesianGLMRegressor(likelihood="ordinal")
        .fit(X[["age", "dose"]], levels)
        .to_arviz(X[["age", "dose"]], levels, n_samples=9)
    )
    assert {"cut_points[0]", "cut_points[1]"} <= set(data["posterior"].data_vars)
    assert data["posterior"].attrs["levels"] == ["low", "middle", "high"]


@pytest.mark.costly
def test_latents_of_processes_and_series(global_random_seed):
    """f at draws has the moments of `predict_latent`: at the rows of a full process, at any of a sparse one."""
    rng = np.random.default_rng(global_random_seed)
    X = rng.uniform(-2, 2, (60, 1))
    y = np.sin(2 * X[:, 0]) + 0.3 * rng.standard_normal(60)
    kernel = ConstantKernel(1.0) * RBF(1.0)
    full = GPClassifier(kernel=kernel).fit(X, y > 0)
    sparse = SparseGPRegressor(kernel=kernel, n_inducing=12, random_state=0).fit(X, y)
    series = DynamicGLM(likelihood="gaussian", level="walk").fit(None, np.cumsum(rng.standard_normal(60)))
    for model, rows in ((full, X), (sparse, X), (series, None)):
        draws = model._posterior_draws(4000, np.random.RandomState(0))
        f, left = np.empty((60, 4000)), np.zeros(60)
        for node in draws.nodes:
            f[:, node.at], own = node.latents(rows, None)
            left += own * len(node.at) / 4000
        mean, variance = model.predict_latent(rows)
        assert np.all(np.abs(f.mean(1) - mean) < 5 * np.sqrt(variance / 4000))
        np.testing.assert_allclose(f.var(1) + left, variance, rtol=0.2, atol=1e-6)
    latents = draws.variables["latents"].values  # those of the series
    assert np.all(np.abs(latents.mean(0) - mean) < 5 * np.sqrt(variance / 4000))
    with pytest.raises(ValueError, match="which are not the 60 of positive weight"):
        full.to_arviz(X[:5], (y > 0)[:5])


def test_draws_of_both_sides_belong_together(global_random_seed):
    """f of pairs at draws has the moments of `predict_latent`, rates those of `predict`."""
    rng = np.random.default_rng(global_random_seed)
    pairs = np.array([(i, j) for i in range(12) for j in range(10)])
    u, v = rng.normal(size=(12, 2)), rng.normal(size=(10, 2))
    y = np.einsum("nk,nk->n", u[pairs[:, 0]], v[pairs[:, 1]]) + 0.3 * rng.standard_normal(120)
    model = GeneralizedPMF(2, random_state=0).fit(pairs, y)
    draws = model._posterior_draws(2000, np.random.RandomState(0))
    f, _ = draws.nodes[0].latents(pairs, None)
    mean, variance = model.predict_latent(pairs)
    about = np.mean(np.square(f - mean[:, None]), axis=1)  # q's own means are what a prediction is about
    np.testing.assert_allclose(about, variance, rtol=0.25)
    counts = rng.poisson(1.0 + np.exp(u[pairs[:, 0], 0]))
    model = PoissonFactorization(2, random_state=0).fit(pairs, counts)
    rates = np.exp(model._posterior_draws(2000, np.random.RandomState(0)).nodes[0].latents(pairs, None)[0])
    assert np.median(np.abs(rates.mean(1) / model.predict(pairs) - 1.0)) < 0.2
    with pytest.raises(ValueError, match=r"row 0 of X names .*99"):
        draws.nodes[0].latents(np.array([[99, 0]]), None)


@pytest.mark.costly
def test_density_of_a_mixture_at_draws_averages_to_its_own(global_random_seed):
    X = np.random.default_rng(global_random_seed).integers(0, 2, (60, 4)).astype(float)
    model = BernoulliMixture(2, uncertainty="variational", random_state=0).fit(X)
    values = model._posterior_draws(4000, np.random.RandomState(0)).log_density(X)
    density = np.exp(values)
    error = density.std(0) / density.mean(0) / np.sqrt(4000)
    assert np.all(np.abs(np.log(density.mean(0)) - model.score_samples(X)) < 5 * error + 0.02)  # weights move together


@pytest.mark.exhaustive
def test_pictures_of_arviz(table):
    arviz = pytest.importorskip("arviz")
    X, y = table
    model = GMERegressor(noise=False, groups=["site"]).fit(X, y)
    data = model.to_arviz(X, y, n_samples=100, random_state=0)
    arviz.plot_forest(data, var_names=["weights", "std(residual)"])
    if hasattr(arviz, "plot_ppc"):
        arviz.plot_ppc(data, num_pp_samples=10)
    matplotlib.pyplot.close("all")


def test_what_is_wrong(table):
    X, y = table
    with pytest.raises(NotFittedError):
        to_arviz(BayesianGLMRegressor())
    for n_samples in (0, 2.5, True):
        with pytest.raises(ValueError, match="n_samples must be an integer of at least 1"):
            to_arviz(BayesianGLMRegressor(), n_samples=n_samples)
    pytest.importorskip("arviz")
    model = BayesianGLMRegressor().fit(X[["age"]], y)
    with pytest.raises(ValueError, match="y without X"):
        model.to_arviz(y=y)
    with pytest.raises(ValueError, match="y is missing"):
        model.to_arviz(X[["age"]])


def test_names_of_columns_that_are_those_of_axes(table):
    pytest.importorskip("arviz")
    X, y = table
    X = X[["age"]].rename(columns={"age": "row"})
    data = BayesianGLMRegressor().fit(X, y).to_arviz(X, y, n_samples=3)
    assert list(data["constant_data"].data_vars) == ["(row)"]
    assert isinstance(
        data["observed_data"].to_dataset() if hasattr(data["observed_data"], "to_dataset") else data["observed_data"],
        xarray.Dataset,
    )
