"""The search of many rows begins where the exact process of a few of them ends, and goes on from samples of them."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, RationalQuadratic

from sksvi.gaussian_process import SparseGPRegressor, _base
from sksvi.models.gp import integrated, kernels
from sksvi.models.gp.inducing import spread_out


@pytest.mark.parametrize("kernel", [RBF([0.5, 4.0]), ConstantKernel(7.0) * RBF([0.5, 4.0]), 2.0 * RBF([0.5, 4.0])])
def test_lengths_are_those_of_a_squared_exponential(kernel, global_random_seed):
    Z = np.random.default_rng(global_random_seed).normal(size=(9, 2))
    np.testing.assert_allclose(kernels.lengths(kernel, Z, np.full(2, 1e-2)), [0.5, 4.0], rtol=1e-3)


def test_lengths_of_other_kernels():
    Z = np.array([[3.0, 4.0]])
    # (f(z + s) - f(z))² has the mean s² under a linear kernel, f(z)² that of 25 here.
    np.testing.assert_allclose(kernels.lengths(DotProduct(1e-9), Z, np.full(2, 0.1)), [5.0, 5.0], rtol=1e-6)
    assert kernels.lengths(RationalQuadratic(2.0, alpha=50.0), Z, np.full(2, 0.1))[0] == pytest.approx(2.0, rel=1e-2)
    assert np.all(kernels.lengths(ConstantKernel(2.0), Z, np.full(2, 0.1)) > 1e5)  # finite, and longer than any


def test_points_are_those_of_most_conditional_variance(global_random_seed):
    X = np.random.default_rng(global_random_seed).normal(size=(40, 2))
    kernel, chosen = RBF(0.7), []
    for _ in range(8):
        K = kernel(X[chosen], X)
        left = 1.0 - (np.einsum("ij,ij->j", K, np.linalg.solve(kernel(X[chosen]), K)) if chosen else np.zeros(len(X)))
        chosen.append(int(np.argmax(left)))
    np.testing.assert_array_equal(spread_out(kernel, X, 8), chosen)


def test_points_go_on_from_those_that_are_there(global_random_seed):
    """Given the first five, in white coordinates, the next are those of a choice of all."""
    X, kernel = np.random.default_rng(global_random_seed).normal(size=(40, 2)), RBF(0.7)
    whole = spread_out(kernel, X, 9)
    L = np.linalg.cholesky(kernel(X[whole[:5]]))
    there = np.linalg.solve(L, kernel(X[whole[:5]], X)).T
    np.testing.assert_array_equal(spread_out(kernel, X, 4, there), whole[5:])


def test_equal_rows_are_chosen_once():
    X = np.repeat([[0.0], [5.0], [9.0]], 4, axis=0)
    assert sorted(X[spread_out(RBF(), X, 10), 0]) == [0.0, 5.0, 9.0]


def test_samples_are_parts_of_larger_ones_and_all_begin_the_search(monkeypatch):
    monkeypatch.setattr(integrated, "SAMPLED_ROWS", 22)
    monkeypatch.setattr(integrated, "PER_POINT", 2)
    monkeypatch.setattr(integrated, "MANY_ROWS", 100)
    rng, sizes, climb = np.random.default_rng(0), [], integrated.CollapsedSearch.climb

    def watched(search, *args):
        sizes.append((search.model.bound, len(search.data), frozenset(map(tuple, search.data.X))))
        climb(search, *args)

    monkeypatch.setattr(integrated.CollapsedSearch, "climb", watched)
    X = rng.normal(size=(300, 2))
    SparseGPRegressor(n_inducing=8, hyperparameters="point", random_state=0).fit(X, np.sin(X[:, 0]))
    bounds, lengths, rows = zip(*sizes, strict=True)
    assert bounds[:3] == ("optimal", "simple", "simple") and set(bounds[3:]) == {"simple"}
    assert lengths[1:4] == (22, 66, 300) and rows[1] < rows[2] < rows[3]


@pytest.fixture
def few_points(monkeypatch):
    """Sizes of a hundredth: 6 points, 10 where these leave much open, from 100 rows on."""
    for module in (_base, integrated):
        monkeypatch.setattr(module, "MANY_ROWS", 100)
    monkeypatch.setattr(_base, "POINTS", 6)
    monkeypatch.setattr(_base, "MORE_POINTS", 10)


@pytest.mark.usefixtures("few_points")
def test_points_are_added_where_the_first_leave_much_open(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    X = rng.uniform(-3, 3, (200, 1))
    y = np.sin(2.0 * X[:, 0]) + 0.1 * rng.normal(size=200)
    auto, given, line = (
        SparseGPRegressor(random_state=0, **options).fit(X, target)
        for options, target in (({}, y), ({"n_inducing": 6}, y), ({}, X[:, 0] + 0.1 * rng.normal(size=200)))
    )
    assert [len(model.inducing_points_) for model in (auto, given, line)] == [10, 6, 6]
    assert auto.lower_bound_ > given.lower_bound_ + 0.01 * len(y)
    assert not np.isin(auto.inducing_points_, X).any()
    assert auto.predict(X, return_std=True)[1].shape == (200,)
    assert auto.partial_fit(X[:5], y[:5]).inducing_points_.shape == (10, 1)


@pytest.mark.usefixtures("few_points")
@pytest.mark.parametrize(
    "options",
    [
        {"bound": "v1"},
        {"likelihood": "student-t"},
        {"covariance": "diag"},
        {"optimize_inducing": False},
        {"noise_variance": 0.01},
    ],
    ids=str,
)
def test_where_no_points_are_added(options, global_random_seed):
    """Of other bounds, likelihoods and covariances, and of noise that is given: a search with as many does the same."""
    rng = np.random.default_rng(global_random_seed)
    X = rng.uniform(-3, 3, (120, 1))
    y = np.sin(4.0 * X[:, 0]) + 0.1 * rng.normal(size=120)
    one, two = (SparseGPRegressor(random_state=0, n_inducing=n, **options) for n in ("auto", 6))
    np.testing.assert_array_equal(one.fit(X, y).predict(X), two.fit(X, y).predict(X))


@pytest.mark.usefixtures("few_points")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("passes", [3, 12, 40])
def test_a_search_that_was_cut_off_adds_points_when_it_goes_on(passes, global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    X = rng.uniform(-3, 3, (200, 1))
    y = np.sin(2.0 * X[:, 0]) + 0.1 * rng.normal(size=200)
    model = SparseGPRegressor(random_state=0, max_iter=passes, warm_start=True).fit(X, y)
    model.set_params(max_iter=1000).fit(X, y)
    whole = SparseGPRegressor(random_state=0, max_iter=1000).fit(X, y)
    assert model.converged_ and len(model.inducing_points_) == 10
    assert model.lower_bound_ > whole.lower_bound_ - 0.05 * len(y)


@pytest.mark.exhaustive
def test_a_signal_in_few_of_many_columns_is_found():
    rng = np.random.default_rng(2)  # where a search that begins at the given kernel ends at noise
    X = rng.normal(size=(4600, 24))
    f = np.sin(2.5 * X[:, 0]) * X[:, 1]
    y = f + 0.2 * rng.normal(size=len(f))
    options = {"n_inducing": 40, "hyperparameters": "point", "tol": 1e-3, "random_state": 0}
    model = SparseGPRegressor(**options).fit(X[:4200], y[:4200])
    error = f[4200:] - model.predict(X[4200:])
    assert np.sqrt(np.mean(np.square(error))) < 0.3 * np.std(f)
