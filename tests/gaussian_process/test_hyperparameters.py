"""Hyperparameters of Gaussian processes have a posterior: against quadrature, weights, files, coverage."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.integrate import quad
from scipy.special import expit, logsumexp
from scipy.stats import t as student
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, RationalQuadratic

import sksvi
from sksvi import GPClassifier, SparseGPClassifier, SparseGPRegressor
from sksvi.integrals.nodes import Nodes, design, nodes_about, scattered, shape_about, simplex
from sksvi.models.gp import evaluations
from sksvi.models.gp.hyperpriors import About, Deviation, Length, hyper_prior
from sksvi.predictive.mixture import normal_quantiles
from tests.chance import ERRORS


def process(seed, n, d=1, noise=0.3, length=1.0, more=0):
    """Rows, f and y of a process with an RBF kernel."""
    rng = np.random.default_rng([seed, 37])
    X = rng.uniform(-2, 2, (n + more, d))
    K = np.exp(-0.5 * ((X[:, None] - X[None]) ** 2).sum(-1) / length**2)
    f = np.linalg.cholesky(K + 1e-8 * np.eye(len(X))) @ rng.standard_normal(len(X))
    return X, f, f + noise * rng.standard_normal(len(X))


def labels(seed, n, d=2, variance=2.0, more=0):
    X, f, _ = process(seed, n, d, more=more)
    f = np.sqrt(variance) * f
    y = (np.random.default_rng([seed, 38]).random(len(f)) < expit(f)).astype(int)
    return X, f, y


# ---- the layer
@pytest.mark.parametrize("prior", [Length(2.0), Deviation(3.0, 0.5), Deviation(0.5, 1.0, 1e-3), About(1.0, 1.5)])
def test_a_prior_is_a_density_with_its_slope(prior):
    total, _ = quad(lambda x: np.exp(prior(x)[0]), -60, 60, points=[-10, 0, 10], limit=500)
    least = getattr(prior, "least", 0.0)
    assert total == pytest.approx(1.0 if least == 0 else 2 * student.sf(least / prior.unit, 3), rel=1e-6)
    for x in (-3.0, 0.2, 2.5):
        assert prior(x)[1] == pytest.approx((prior(x + 1e-5)[0] - prior(x - 1e-5)[0]) / 2e-5, rel=1e-6, abs=1e-8)


def test_priors_are_in_the_units_of_columns_and_target():
    kernel = ConstantKernel(1.0) * RBF([1.0, 1.0, 1.0])
    prior = hyper_prior(
        kernel, sksvi.likelihoods.Gaussian().start(np.arange(9.0), None), np.array([2.0, 0.5, 0.0]), 7.0
    )
    signal, *lengths = prior.kernel
    assert signal == Deviation(7.0, 0.5) and prior.columns == (True, True, True, False)
    assert [length.unit for length in lengths[:2]] == pytest.approx([2.0 * 2**0.5, 0.5 * 2**0.5])
    assert prior.likelihood[0].unit == 7.0


@pytest.mark.parametrize("size", [1, 2, 3, 4, 6, 10])
def test_designs_are_exact_for_a_normal_density(size):
    rng = np.random.default_rng(size)
    A = rng.standard_normal((size, size)) / np.sqrt(size)
    precision, mode = A @ A.T + np.eye(size), rng.standard_normal(size)

    def density(h):
        return 3.0 - 0.5 * (h - mode) @ precision @ (h - mode)

    exact = 3.0 + 0.5 * size * np.log(2 * np.pi) - 0.5 * np.linalg.slogdet(precision)[1]
    shape = shape_about(density, mode)
    for nodes in (nodes_about(density, mode), shape.nodes(simplex(size))):
        assert nodes.weights.sum() == pytest.approx(1.0)
        assert nodes.log_integral == pytest.approx(exact, abs=0.02)
        off = nodes.values - nodes.mean
        np.testing.assert_allclose(nodes.mean, mode, atol=0.02)
        np.testing.assert_allclose((off.T * nodes.weights) @ off, np.linalg.inv(precision), atol=0.03)
    if size > 1:
        assert shape.nodes(scattered(size, 256)).log_integral == pytest.approx(exact, abs=0.15)
    assert shape.wide(0.0).axes.shape == (size, size) and shape.wide(100.0).axes.shape == (size, 0)
    assert len(nodes_about(density, mode, sharp=100.0).values) == 1
    for rule in (design(size), design(size, 6), simplex(size), scattered(size, 32)):
        assert rule[1].sum() == pytest.approx(1.0)


def test_few_nodes_drop_little():
    nodes = Nodes(np.arange(4.0)[:, None], np.array([0.5, 0.485, 0.005, 0.01]), 1.0).few()
    assert nodes.values.ravel().tolist() == [0.0, 1.0] and nodes.weights.sum() == pytest.approx(1.0)


# ---- against quadrature over a grid
def grid(model, X, y, at):
    """Log evidence, and mean and variance of f at rows, by a sum over a grid of all three hyperparameters."""
    prior = hyper_prior(model.kernel_, model.likelihood_, X.std(0), y.std())
    r, least, unit = y - y.mean(), model.likelihood_.least, 2 * np.log(y.std())
    lengths = np.linspace(-4, 6, 41) + np.log(X.std())
    signals, noises = np.linspace(-8, 10, 55) + unit, np.linspace(-14, 5, 58) + unit
    logs, means, squares = [], [], []
    for length in lengths:
        R, k = (np.exp(-0.5 * (rows - X.T) ** 2 / np.exp(2 * length)) for rows in (X, at))
        w, V = np.linalg.eigh(R)
        a, c, z = np.exp(signals)[:, None, None], (least + np.exp(noises))[None, :, None], k @ V
        v = a * np.maximum(w, 0.0) + c
        value = -0.5 * (np.log(2 * np.pi * v) + (V.T @ r) ** 2 / v).sum(-1) + prior.kernel[1](length)[0]
        value += np.array([prior.kernel[0](x)[0] for x in signals])[:, None]
        logs.append(value + np.array([prior.likelihood[0](x)[0] for x in noises]))
        mean = (a * (V.T @ r) / v) @ z.T
        means.append(mean)
        squares.append(a - (a**2 / v) @ (z**2).T + mean**2)
    cell = (lengths[1] - lengths[0]) * (signals[1] - signals[0]) * (noises[1] - noises[0])
    total = logsumexp(logs)
    weights = np.exp(np.array(logs) - total)
    mean, square = (np.einsum("lan,lanr->r", weights, np.array(part)) for part in (means, squares))
    return total + np.log(cell), mean + y.mean(), square - mean**2


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_evidence_and_predictions_are_those_of_quadrature(seed):
    X, _, y = process(seed, 16)
    at = np.linspace(-2.5, 2.5, 9)[:, None]
    model = SparseGPRegressor(random_state=0).fit(X, y)
    evidence, mean, variance = grid(model, X, y, at)
    assert model.lower_bound_ == pytest.approx(evidence, abs=0.1)
    found, spread = model.predict_latent(at)
    # Five nodes predict.
    np.testing.assert_allclose(found, mean, atol=0.25 * np.sqrt(variance).max())
    np.testing.assert_allclose(np.sqrt(spread), np.sqrt(variance), rtol=0.3)
    point = SparseGPRegressor(hyperparameters="point", random_state=0).fit(X, y)
    apart = [np.abs(np.log(part / variance)).max() for part in (spread, point.predict_latent(at)[1])]
    assert apart[0] < apart[1]


@pytest.mark.parametrize("bound", ["simple", "optimal", "v1"])
@pytest.mark.parametrize("n_inducing", [6, 200])
def test_the_density_of_nodes_is_the_bound_of_the_fit(bound, n_inducing):
    """Bound and log prior at the mode, as the engine has them."""
    from sksvi.models.gp.evaluations import explored

    X, _, y = process(4, 30)
    weight = np.random.default_rng(4).uniform(0.5, 3.0, 30)
    seen = []

    class Looked(SparseGPRegressor):
        def _refine(self, problem, state, looks):
            model = problem.model
            here = explored(model, state.q, problem.data, problem.exact, model.density, problem.frozen)
            seen.append((here.log_density(here.mode), state.bound))
            return super()._refine(problem, state, looks)

    Looked(bound=bound, n_inducing=n_inducing, random_state=0).fit(X, y, sample_weight=weight)
    assert seen[0][0] == pytest.approx(seen[0][1], rel=1e-5)


# ---- what a fit has
def test_a_node_a_row(global_random_seed):
    X, _, y = process(global_random_seed, 25, 2)
    frame = pd.DataFrame(X, columns=["east", "north"])
    model = SparseGPRegressor(random_state=0).fit(frame, y)
    nodes = model.hyperparameter_posterior_
    assert nodes.weight.sum() == pytest.approx(1.0) and (nodes.weight > 0).all()
    names = ["k1__constant_value", "length_scale(east)", "length_scale(north)", "noise_variance"]
    assert list(nodes) == ["weight", *names]
    table = model.summary().loc[names]
    np.testing.assert_allclose(table["mean"], nodes.weight @ nodes[names])
    assert (table["std"] > 0).all() and (table.lower < table["mean"]).all() and (table["mean"] < table.upper).all()
    noise, std = (model.summary().loc[name] for name in ("noise_variance", "std(residual)"))
    np.testing.assert_allclose(noise[["lower", "upper"]], std[["lower", "upper"]] ** 2)
    few = [part.weight for part in model._process.parts]
    assert sum(few) == pytest.approx(1.0) and len(few) <= 16 < len(nodes) <= 64


def test_fewer_nodes_predict_where_rows_are_many(global_random_seed):
    X, _, y = process(global_random_seed, 120, 2)
    model = SparseGPRegressor(random_state=0).fit(X, y)
    few = [part.weight for part in model._process.parts]
    assert sum(few) == pytest.approx(1.0) and len(few) <= 6 < len(model.hyperparameter_posterior_)


def test_a_point_has_no_nodes():
    X, _, y = process(5, 25)
    point = SparseGPRegressor(hyperparameters="point", random_state=0).fit(X, y)
    fixed = SparseGPRegressor(kernel=RBF(1.0), optimize_hyperparameters=False, random_state=0).fit(X, y)
    with pytest.warns(ConvergenceWarning):
        batches = SparseGPRegressor(batch_size=10, max_iter=5, random_state=0).fit(X, y)
    stream = SparseGPRegressor(random_state=0).partial_fit(X, y)
    for model in (point, fixed, batches, stream):
        with pytest.raises(AttributeError, match="hyperparameters='integrated'"):
            _ = model.hyperparameter_posterior_
        assert np.isnan(model.summary()["std"].iloc[0])
        assert len(model._process.parts) == 1
    assert point.lower_bound_ == pytest.approx(point.lower_bounds_[-1], rel=1e-12)


def test_many_rows_begin_with_a_sample(monkeypatch):
    X, _, y = process(8, 240, 2)
    settings = {"n_inducing": 12, "random_state": 0}
    whole = SparseGPRegressor(**settings).fit(X, y)
    monkeypatch.setattr("sksvi.models.gp.integrated.SAMPLED_ROWS", 50)
    monkeypatch.setattr("sksvi.models.gp.integrated.PER_POINT", 4)
    model = SparseGPRegressor(**settings).fit(X, y)
    assert not np.array_equal(model.inducing_points_, whole.inducing_points_)  # another way
    assert model.lower_bounds_[-1] == pytest.approx(whole.lower_bounds_[-1], abs=2.0)
    assert model.lower_bound_ == pytest.approx(whole.lower_bound_, abs=2.0)
    few, many = (fit.hyperparameter_posterior_ for fit in (model, whole))
    assert list(few.columns) == list(many.columns) and few.iloc[:, 0].sum() == pytest.approx(1.0)
    assert model.summary()["std"].iloc[-1] == pytest.approx(whole.summary()["std"].iloc[-1], rel=0.3)


def test_a_later_fit_or_chunk_forgets_nodes():
    X, _, y = process(6, 30)
    model = SparseGPRegressor(random_state=0).fit(X, y)
    model.partial_fit(X[:10], y[:10])
    assert not hasattr(model, "hyperparameter_posterior_")
    model.set_params(warm_start=True).fit(X, y)
    assert len(model.hyperparameter_posterior_) > 1
    again = SparseGPRegressor(random_state=0).fit(X, y).set_params(warm_start=True).fit(X, y)
    assert again.lower_bound_ == pytest.approx(SparseGPRegressor(random_state=0).fit(X, y).lower_bound_, abs=0.05)


MODELS = [
    (SparseGPRegressor, {}, "measured"),
    (SparseGPRegressor, {"bound": "v2", "n_inducing": 10}, "measured"),
    (SparseGPRegressor, {"covariance": "diag", "n_inducing": 10}, "measured"),
    (SparseGPRegressor, {"likelihood": "student-t"}, "measured"),
    (SparseGPRegressor, {"likelihood": "poisson"}, "counts"),
    (SparseGPRegressor, {"likelihood": "negative-binomial"}, "counts"),
    (SparseGPRegressor, {"likelihood": "ordinal"}, "levels"),
    (SparseGPRegressor, {"kernel": ConstantKernel(1.0) * RationalQuadratic(1.0)}, "measured"),
    (SparseGPClassifier, {"n_inducing": 15}, "labels"),
    (SparseGPClassifier, {"n_inducing": 15}, "classes"),
    (GPClassifier, {"likelihood": "probit"}, "labels"),
]


def rows(kind, seed=7, n=40):
    X, f, y = process(seed, n, 2)
    rng = np.random.default_rng(seed)
    targets = {
        "measured": y,
        "counts": rng.poisson(np.exp(1 + f)),
        "levels": np.digitize(y, [-0.5, 0.5]),
        "labels": (y > 0).astype(int),
        "classes": np.digitize(y, [-0.5, 0.5]),
    }
    return X, targets[kind]


@pytest.mark.costly
@pytest.mark.parametrize(("cls", "options", "kind"), MODELS)
def test_every_likelihood_and_bound(cls, options, kind, tmp_path):
    """Nodes there, predictions finite, in files to the same bits and for any number of threads."""
    X, y = rows(kind)
    model = cls(random_state=0, **options).fit(X, y)
    assert len(model.hyperparameter_posterior_) > 1 and np.isfinite(model.lower_bound_)
    assert np.isfinite(model.summary()[["mean", "std"]].iloc[0]).all()
    model.save(tmp_path / "model")
    read = sksvi.load(tmp_path / "model")
    threads = cls(random_state=0, n_jobs=2, **options).fit(X, y)
    ask = "predict_proba" if hasattr(model, "predict_proba") and kind != "measured" and kind != "counts" else "predict"
    here = getattr(model, ask)(X)
    assert np.isfinite(here).all()
    for other in (read, threads):
        np.testing.assert_array_equal(getattr(other, ask)(X), here)
        np.testing.assert_array_equal(other.log_predictive_density(X, y), model.log_predictive_density(X, y))
        pd.testing.assert_frame_equal(other.hyperparameter_posterior_, model.hyperparameter_posterior_)
    if ask == "predict_proba":
        np.testing.assert_allclose(here.sum(axis=1), 1.0)
    else:
        low, high = model.predict_interval(X).T
        assert np.all(low <= high)


@pytest.mark.parametrize("cls", [SparseGPRegressor, GPClassifier])
def test_a_weight_is_so_many_copies(cls):
    X, y = rows("measured" if cls is SparseGPRegressor else "labels")
    weight = np.random.default_rng(8).integers(1, 4, len(y))
    weighted = cls(random_state=0).fit(X, y, sample_weight=weight)
    copies = cls(random_state=0).fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    assert weighted.lower_bound_ == pytest.approx(copies.lower_bound_, abs=1e-6)
    np.testing.assert_allclose(weighted.predict_latent(X), copies.predict_latent(X), rtol=1e-5, atol=1e-7)


def test_units_of_rows_and_target_do_not_matter():
    X, y = rows("measured")
    model = SparseGPRegressor(random_state=0).fit(X, y)
    other = SparseGPRegressor(random_state=0).fit(X * [1e3, 1e-2], 1e4 * y)
    assert other.lower_bound_ + len(y) * np.log(1e4) == pytest.approx(model.lower_bound_, abs=0.02)
    apart = other.predict_interval(X * [1e3, 1e-2]) / 1e4 - model.predict_interval(X)
    assert np.abs(apart).max() < 0.02 * y.std()


@pytest.mark.costly
def test_mean_draws_are_of_the_mixture():
    X, y = rows("levels")
    model = SparseGPRegressor(likelihood="ordinal", random_state=0).fit(X, y)
    draws = np.concatenate([means for _, means in model._mean_draws(X[:5], 4000, 0)])
    error = draws.std(axis=1) / np.sqrt(4000)
    assert np.all(np.abs(draws.mean(axis=1)[:, 0] - model.predict(X[:5])) <= ERRORS * error[:, 0] + 1e-3)
    again = np.concatenate([means for _, means in model._mean_draws(X[3:5], 4000, 0)])
    np.testing.assert_allclose(again, draws[3:5], rtol=1e-6)


def test_a_sparse_copy_has_the_kernel_of_the_mode():
    X, y = rows("labels")
    full = GPClassifier().fit(X, y)
    sparse = full.to_sparse(20, random_state=0)
    assert sparse.kernel_ == full.kernel_ and not hasattr(sparse, "hyperparameter_posterior_")
    point = GPClassifier(kernel=full.kernel_, optimize_hyperparameters=False).fit(X, y)
    assert np.abs(sparse.predict_proba(X) - point.predict_proba(X)).max() < 0.05


# ---- coverage
def covered(model, X, f):
    """Share of f within 90 % intervals."""
    parts, latents = model._process.parts, model._latents(X, None)
    means, stds = np.array([m for m, _ in latents]), np.sqrt([v for _, v in latents])
    weights = np.array([part.weight for part in parts])
    low, high = (normal_quantiles(means, stds, weights, level) for level in (0.05, 0.95))
    return np.mean((low <= f) & (f <= high))


@pytest.mark.costly
def test_intervals_hold_where_rows_are_few():
    """f and y of 30 sets of 20 rows; of points these were 0.75 and 0.80."""
    shares, densities = [], []
    for seed in range(30):
        X, f, y = process(seed, 20, 2, more=40)
        models = [SparseGPRegressor(hyperparameters=how, random_state=0) for how in ("integrated", "point")]
        models = [model.fit(X[:20], y[:20]) for model in models]
        low, high = models[0].predict_interval(X[20:]).T
        shares.append([covered(models[0], X[20:], f[20:]), np.mean((low <= y[20:]) & (y[20:] <= high))])
        densities.append([model.log_predictive_density(X[20:], y[20:]).mean() for model in models])
    mean, error = np.mean(shares, axis=0), np.std(shares, axis=0) / np.sqrt(len(shares))
    assert np.all(mean + ERRORS * error >= 0.90) and np.all(mean >= 0.78)
    assert np.mean(densities, axis=0)[0] > np.mean(densities, axis=0)[1]


@pytest.mark.costly
def test_labels_few():
    """f of 25 sets of 30 labels; of points these were 0.68."""
    shares = []
    for seed in range(25):
        X, f, y = labels(seed, 30, more=60)
        if len(np.unique(y[:30])) == 2:
            shares.append(covered(GPClassifier().fit(X[:30], y[:30]), X[30:], f[30:]))
    error = np.std(shares) / np.sqrt(len(shares))
    assert np.mean(shares) + ERRORS * error >= 0.90 and np.mean(shares) >= 0.75


def spread_of_logs(table):
    """Standard deviations of log hyperparameters that 90 % intervals are of."""
    return np.log(table["upper"] / table["lower"]) / (2.0 * 1.6449)


def test_nodes_of_many_hyperparameters_are_as_wide_as_the_data_leave_them(global_random_seed):
    """With two dozen columns nodes lie far out, and as weighed by the density all but a few would weigh nothing."""
    rng = np.random.default_rng(global_random_seed)
    X = rng.normal(size=(150, 24))
    y = np.sin(X[:, 0]) + X[:, 1] + 0.3 * rng.normal(size=150)
    table = SparseGPRegressor(n_inducing=30, random_state=0).fit(X, y).summary()
    assert np.sqrt(2 / 150) < spread_of_logs(table.loc[["noise_variance"]]).item() < 2 * np.sqrt(2 / 150)


def test_of_many_rows_the_posterior_of_hyperparameters_is_normal(monkeypatch, global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    X = rng.uniform(-2, 2, (250, 2))
    y = np.sin(2.0 * X[:, 0]) + np.cos(2.0 * X[:, 1]) + 0.3 * rng.normal(size=250)
    followed = SparseGPRegressor(n_inducing=20, random_state=0).fit(X, y)
    monkeypatch.setattr(evaluations, "NORMAL_NUMBERS", 0)
    normal = SparseGPRegressor(n_inducing=20, random_state=0).fit(X, y)
    one, two = (model.summary().iloc[:4] for model in (followed, normal))
    np.testing.assert_allclose(spread_of_logs(two), spread_of_logs(one), rtol=0.3)
    assert normal.lower_bound_ == pytest.approx(followed.lower_bound_, abs=0.5)
    assert len(normal._process.parts) == 1 < len(followed._process.parts)
    np.testing.assert_allclose(normal.predict(X), followed.predict(X), atol=0.1)


@pytest.mark.parametrize("cls", [GPClassifier, SparseGPClassifier])
def test_of_many_rows_labels_take_the_mode_and_look_at_nothing_more(cls, monkeypatch, global_random_seed):
    X, _, y = labels(global_random_seed, 60)
    monkeypatch.setattr(evaluations, "MOST_NUMBERS", 60)
    for kind in (evaluations.FullEvaluations, evaluations.IterativeEvaluations):
        monkeypatch.setattr(kind, "__init__", lambda *args: pytest.fail("rows were looked at"))
    model = cls(random_state=0).fit(X, y)
    assert np.isnan(model.summary().loc["k1__k1__constant_value", "std"]) and len(model._process.parts) == 1
