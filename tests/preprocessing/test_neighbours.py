"""Neighbours: covariances beside dense algebra of the Laplacian, exact posteriors, names, and maps that are refused."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy.stats import gmean
from sklearn.compose import make_column_transformer
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.utils import estimator_checks

from sksvi import BayesianGLMRegressor, GMERegressor
from sksvi.likelihoods import Gaussian
from sksvi.preprocessing import Neighbours

NOISE, WIDE, TAU = 0.25, 100.0, 0.8
PAIR = {"a": ["b"], "b": ["a"]}


@pytest.mark.parametrize(
    "check",
    [
        estimator_checks.check_estimator_cloneable,
        estimator_checks.check_estimator_repr,
        estimator_checks.check_get_params_invariance,
        estimator_checks.check_no_attributes_set_in_init,
        estimator_checks.check_set_params,
    ],
)
def test_scikit_learn_checks_that_bring_no_rows(check):
    """The others bring real numbers, which are no areas."""
    check("Neighbours", Neighbours(PAIR))


def grid(rows, columns):
    """A map of a chessboard, as lists."""
    fields = [(i, j) for i in range(rows) for j in range(columns)]
    return {f"{i}-{j}": [f"{a}-{b}" for a, b in fields if abs(a - i) + abs(b - j) == 1] for i, j in fields}


def apart():
    """Two boards and two islands, their areas in turn."""
    boards = [{f"{k}{a}": [f"{k}{b}" for b in near] for a, near in grid(3, 4).items()} for k in "AB"]
    mixed = {area: near for both in zip(*(board.items() for board in boards), strict=True) for area, near in both}
    return {"Orkney": [], **mixed, "Shetland": []}


def dense(neighbours):
    """Pseudo-inverse of the Laplacian of a map, scaled part by part; 1 of islands."""
    areas = list(neighbours)
    W = np.array([[float(b in neighbours[a]) for b in areas] for a in areas])
    parts = pd.Series([a[0] if "-" in a else a for a in areas]) if "Orkney" in areas else pd.Series([0] * len(areas))
    covariance = np.zeros_like(W)
    for _, own in parts.groupby(parts).groups.items():
        at = np.ix_(own, own)
        inverse = np.linalg.pinv(np.diag(W[at].sum(0)) - W[at]) if len(own) > 1 else np.ones((1, 1))
        covariance[at] = inverse / gmean(np.diag(inverse))
    return covariance


@pytest.mark.parametrize("neighbours", [grid(4, 5), apart()], ids=["one part", "parts and islands"])
def test_covariance_is_the_scaled_inverse_of_the_laplacian(neighbours):
    X = pd.DataFrame({"district": list(neighbours)})
    model = Neighbours(neighbours).fit(X)
    found = model.transform(X)
    np.testing.assert_allclose(found @ found.T, dense(neighbours), atol=1e-10)
    assert found.shape[1] == np.linalg.matrix_rank(found)
    lengths = np.sum(np.square(found), axis=0)
    assert np.all(np.diff(lengths) <= 1e-12)
    for k in range(model.component_.max() + 1):
        own = model.component_ == k
        np.testing.assert_allclose(gmean(np.sum(np.square(found[own]), axis=1)), 1.0)
        if own.sum() > 1:
            np.testing.assert_allclose(found[own].sum(0), 0.0, atol=1e-10)
    np.testing.assert_array_equal(Neighbours(neighbours, n_components=6).fit_transform(X), found[:, :6])


def test_a_map_is_lists_a_frame_or_a_matrix(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    neighbours = grid(3, 3)
    areas = list(neighbours)
    frame = pd.DataFrame([[b in neighbours[a] for b in areas] for a in areas], areas, areas)
    X = pd.DataFrame({"district": rng.choice(areas, 30)}, index=[f"row {i}" for i in range(30)])
    lists = Neighbours(neighbours).set_output(transform="pandas").fit_transform(X)
    assert list(lists) == [f"district_{k}" for k in range(1, 9)] and lists.index.equals(X.index)
    shuffled = frame[rng.permutation(areas)]
    matrix = sp.csr_matrix(frame.to_numpy(float))
    for found in (
        Neighbours(shuffled).fit_transform(X),
        Neighbours(matrix, areas=areas).fit_transform(X),
        Neighbours(frame.to_numpy(), areas=areas).fit_transform(X.astype("category")),
    ):
        np.testing.assert_array_equal(found, lists)
    codes = X["district"].map({area: 100 + k for k, area in enumerate(areas)})
    numbers = Neighbours(matrix, areas=np.arange(100, 109)).fit(codes.to_numpy()[:, None])
    np.testing.assert_array_equal(numbers.transform(codes.to_numpy(float)[:, None]), lists)
    assert list(numbers.get_feature_names_out()[:2]) == ["x0_1", "x0_2"]
    # Weights of 2 are another unit of the precision, which the scale takes out.
    np.testing.assert_allclose(Neighbours(2.0 * matrix, areas=areas).fit_transform(X), lists, atol=1e-12)


@pytest.fixture(scope="module")
def measured():
    """Rows in some of the areas, of a map's effects and their own; the rest has none."""
    neighbours, rng = grid(4, 5), np.random.default_rng(0)
    areas = np.array(list(neighbours))
    X = pd.DataFrame({"district": rng.choice(areas[:15], 90)})
    X["x"] = rng.standard_normal(90)
    u = np.linalg.cholesky(dense(neighbours) + 1e-10 * np.eye(20)) @ rng.standard_normal(20)
    f = TAU * u[pd.Index(areas).get_indexer(X["district"])] + 0.5 * X["x"]
    return neighbours, X, (f + np.sqrt(NOISE) * rng.standard_normal(90)).to_numpy()


def columns(neighbours):
    """The map's columns and the rest, as a frame."""
    parts = [(Neighbours(neighbours), ["district"]), ("passthrough", ["district", "x"])]
    return make_column_transformer(*parts, verbose_feature_names_out=False).set_output(transform="pandas")


def exact(neighbours, X, y, own):
    """Mean and variance of f in every area at x = 0, under given precisions; `own`: variance of unstructured effects,
    without the effects of areas that have no row."""
    areas = list(neighbours)
    at = np.equal.outer(X["district"].to_numpy(), areas).astype(float)
    prior = TAU**2 * dense(neighbours) + own * np.eye(len(areas)) + WIDE
    x = X["x"].to_numpy()
    cross = at @ prior
    joint = cross @ at.T + 0.5 * np.outer(x, x) + NOISE * np.eye(len(y))
    solved = np.linalg.solve(joint, cross)
    return y @ solved, np.diag(prior) - np.sum(cross * solved, axis=0)


OPTIONS = {"likelihood": Gaussian(variance=NOISE), "intercept_precision": 1 / WIDE, "tol": 1e-12}
GIVEN = {"district_*": 1 / TAU**2, "x": 2.0}


def test_predictions_are_those_of_the_exact_field(measured):
    neighbours, X, y = measured
    drop = make_column_transformer(
        (Neighbours(neighbours), ["district"]), ("passthrough", ["x"]), verbose_feature_names_out=False
    )
    design = drop.set_output(transform="pandas").fit(X)
    model = BayesianGLMRegressor(prior_precision=GIVEN, **OPTIONS).fit(design.transform(X), y)
    rows = pd.DataFrame({"district": list(neighbours), "x": 0.0})
    mean, variance = model.predict_latent(design.transform(rows))
    wanted, spread = exact(neighbours, X, y, 0.0)
    np.testing.assert_allclose(mean, wanted, atol=1e-6)
    np.testing.assert_allclose(variance, spread, atol=1e-6)


def test_with_effects_of_areas_it_is_the_model_of_besag_york_and_mollie(measured):
    neighbours, X, y = measured
    effects = GMERegressor(groups="district", prior_precision=GIVEN, hyperparameters="point", **OPTIONS)
    model = make_pipeline(columns(neighbours), effects).fit(X, y)
    rows = pd.DataFrame({"district": list(neighbours), "x": 0.0})
    wanted, _ = exact(neighbours, X, y, model[-1].group_std_["mean"].iloc[0] ** 2)
    np.testing.assert_allclose(model.predict(rows), wanted, atol=1e-6)


def test_counts_with_exposure_learn_the_scale_and_areas_without_rows(global_random_seed):
    """A smooth risk on a board, a fourth of whose areas have no row."""
    rng = np.random.default_rng(global_random_seed)
    neighbours = grid(8, 8)
    areas = np.array(list(neighbours))
    log_risk = np.add.outer(np.sin(np.linspace(0.0, 3.0, 8)), np.linspace(-1.0, 1.0, 8)).ravel()
    without = rng.permutation(64) < 16
    X = pd.DataFrame({"district": areas, "x": rng.standard_normal(64)})
    exposure = rng.uniform(50.0, 150.0, 64)
    y = rng.poisson(exposure * np.exp(log_risk + 0.2 * X["x"]))
    effects = GMERegressor(likelihood="poisson", groups="district", noise=False, prior_precision={"district_*": "auto"})
    model = make_pipeline(columns(neighbours), effects)
    model.fit(X[~without], y[~without], gmeregressor__exposure=exposure[~without])
    found = np.log(model.predict(X.assign(x=0.0), exposure=1.0))
    assert np.corrcoef(found[~without], log_risk[~without])[0, 1] > 0.95
    assert np.corrcoef(found[without], log_risk[without])[0, 1] > 0.8
    nodes = model[-1].hyperparameter_posterior_
    assert nodes["weight"] @ nodes["scale(district_*)"] > nodes["weight"] @ nodes["std(district, intercept)"]


@pytest.mark.parametrize(
    ("neighbours", "options", "error"),
    [
        ({"a": ["b"], "b": []}, {}, "not symmetric: 'b' is a neighbour of 'a' with weight 1, and 'a' of 'b' with"),
        ({"a": ["a", "b"], "b": ["a"]}, {}, "area 'a' is a neighbour of itself"),
        ({"a": ["c"], "b": []}, {}, "'c', a neighbour of 'a', is no area"),
        ({"a": ["b", "b"], "b": ["a"]}, {}, "neighbours of 'a': area 'b' is there twice"),
        ({}, {}, "adjacency: there is no area"),
        (PAIR, {"areas": ["a", "b"]}, "areas is for a matrix, and adjacency is a dict"),
        (PAIR, {"n_components": 2}, "n_components=2 is more than the 1 columns of the map"),
        (np.eye(2)[::-1], {}, "adjacency is a matrix without names: give areas"),
        (np.eye(2)[::-1], {"areas": ["a", "a"]}, "areas: area 'a' is there twice"),
        (np.eye(2)[::-1], {"areas": ["a", None]}, "areas: an area has no id"),
        (np.eye(2)[::-1], {"areas": list("abc")}, r"shape \(2, 2\), and areas names 3"),
        (-np.eye(2)[::-1], {"areas": list("ab")}, "weights of neighbours are positive, of others 0; found -1"),
        (pd.DataFrame(np.eye(2)[::-1], list("ab"), list("ac")), {}, "area 'b' is not in both its index and its"),
        (3, {}, "'adjacency' parameter of Neighbours must be"),
    ],
)
def test_maps_that_are_refused(neighbours, options, error):
    with pytest.raises(ValueError, match=error):
        Neighbours(neighbours, **options).fit(pd.DataFrame({"district": ["a", "b"]}))


def test_rows_that_are_refused():
    X = pd.DataFrame({"district": ["a", "b", "c"]})
    with pytest.raises(ValueError, match="column 'district' of X: 'c' is not on the map, which has 2 areas: 'a', 'b'"):
        Neighbours(PAIR).fit(X)
    with pytest.raises(ValueError, match="X has 2 features, and Neighbours takes 1"):
        Neighbours(PAIR).fit(X.assign(x=1.0))
    with pytest.raises(NotFittedError):
        Neighbours(PAIR).transform(X)
    model = Neighbours(PAIR).fit(X[:2])
    with pytest.raises(ValueError, match="column 'district' of X: row 1 has no area"):
        model.transform(X.mask(X == "b"))
    with pytest.raises(ValueError, match="feature names"):
        model.transform(X.rename(columns={"district": "region"}))
