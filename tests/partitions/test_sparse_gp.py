"""Sparse Gaussian processes of a collection: the bits of a fit in memory where rows are few, else sums of parts."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from sksvi import SparseGPClassifier, SparseGPRegressor
from sksvi._runtime import parallel
from sksvi.gaussian_process import _base, _encoding, _start
from sksvi.models.data import Table
from sksvi.models.gp import inducing
from sksvi.models.gp.sparse import SparseGPModel
from sksvi.partitions.executor import Executor
from sksvi.partitions.summary import Moments

dask = pytest.importorskip("dask", reason="needs the extra dask")
da = pytest.importorskip("dask.array", reason="needs the extra dask")
#: Where partitions end: of very different sizes, one without rows.
CUTS = [0, 3, 150, 150, 395, 400]
pytestmark = pytest.mark.filterwarnings("ignore:.* did not converge in max_iter")


def table(seed, n=400):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-3.0, 3.0, (n, 2))
    X[200:220] = X[:20]  # equal rows in different partitions
    f = np.sin(X[:, 0]) + 0.5 * X[:, 1]
    return X, f, rng


def targets(likelihood, f, rng):
    if likelihood == "gaussian":
        return f + 0.2 * rng.standard_normal(len(f))
    if likelihood == "poisson":
        return rng.poisson(np.exp(f)).astype(float)
    if likelihood == "ordinal":
        return np.clip(np.round(f + 0.3 * rng.standard_normal(len(f))), -1.0, 1.0)
    y = np.where(f + 0.3 * rng.standard_normal(len(f)) > 0, "yes", "no")
    return np.where(np.abs(f) < 0.4, "between", y) if likelihood == "softmax" else y


def parts(values, cuts=CUTS):
    return None if values is None else da.from_array(values, chunks=(tuple(np.diff(cuts)), *values.shape[1:]))


def both(model, X, y, **more):
    apart = clone(model).fit(parts(X), parts(y), **{name: parts(values) for name, values in more.items()})
    return apart, model.fit(X, y, **more)


def numbers(model):
    q = model.posterior_["inducing"]
    return model.lower_bounds_, q.mean, q.std, model.kernel_.theta, model.inducing_points_


def of(likelihood, **options):
    # A fit to a collection keeps the hyperparameters at a point, whatever is asked.
    options = {"n_inducing": 12, "max_iter": 15, "random_state": 0, "hyperparameters": "point", **options}
    if likelihood in ("logit", "softmax"):
        return SparseGPClassifier(**options)
    return SparseGPRegressor(likelihood=likelihood, **options)


@pytest.mark.costly
@pytest.mark.parametrize("likelihood", ["gaussian", "poisson", "ordinal", "logit", "softmax"])
def test_same_bits(likelihood, global_random_seed, monkeypatch):
    # Blocks of a few rows, as a fit to many has them: parts hold one, two or four of them.
    monkeypatch.setattr(parallel, "CHUNK_NUMBERS", 64 * 12)
    X, f, rng = table(global_random_seed)
    more = {"sample_weight": rng.integers(0, 3, len(f)).astype(float)}
    if likelihood != "softmax":
        more["offset"] = 0.1 * rng.standard_normal(len(f))
    model = of(likelihood, max_iter=4 if likelihood == "softmax" else 15)
    apart, model = both(model, X, targets(likelihood, f, rng), **more)
    for found, wanted in zip(numbers(apart), numbers(model), strict=True):
        np.testing.assert_array_equal(found, wanted)
    predicted = apart.predict(parts(X), offset=parts(more.get("offset")))
    assert predicted.chunks == (parts(X).chunks[0],)
    wanted = model.predict(X, offset=more.get("offset"))
    if likelihood in ("logit", "softmax"):
        np.testing.assert_array_equal(predicted.compute(), wanted)
    else:  # BLAS sums rows of other blocks in another order
        np.testing.assert_allclose(predicted.compute(), wanted, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    "options",
    [
        {"bound": "v1"},
        {"bound": "v2"},
        {"covariance": "diag", "inducing": "random"},
        {"kernel": ConstantKernel() * RBF(), "noise_variance": 0.1},
        {"n_inducing": 500, "max_iter": 2},
        {"inducing": [[0.0, 0.0], [1.0, 1.0]], "optimize_hyperparameters": False},
    ],
    ids=lambda options: "-".join(options),
)
def test_same_bits_of_a_regression(options, global_random_seed):
    X, f, rng = table(global_random_seed)
    apart, model = both(of("gaussian", **options), X, targets("gaussian", f, rng))
    for found, wanted in zip(numbers(apart), numbers(model), strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_goes_on(global_random_seed):
    X, f, rng = table(global_random_seed)
    y = targets("logit", f, rng)
    model = of("logit", warm_start=True, max_iter=8)
    apart = clone(model).fit(parts(X), parts(y)).fit(parts(X), parts(y))
    model.fit(X, y).fit(X, y)
    np.testing.assert_array_equal(apart.lower_bounds_, model.lower_bounds_)


@pytest.fixture
def many(monkeypatch):
    """Rows count as too many to lie in one place, and to be looked at one by one."""
    for module in (_base, _encoding):
        monkeypatch.setattr(module, "FULL_BATCH_ROWS", 100)
    monkeypatch.setattr(_start, "MERGED_ROWS", 100)
    monkeypatch.setattr(inducing, "WHOLE_ROWS", 100)
    monkeypatch.setattr(inducing, "SAMPLED_ROWS", 100)


@pytest.mark.parametrize("likelihood", ["gaussian", "poisson", "logit"])
def test_many_rows_by_sums(likelihood, many, global_random_seed):
    X, f, rng = table(global_random_seed)
    more = {"sample_weight": 1.0 + rng.integers(0, 2, len(f)), "offset": 0.1 * rng.standard_normal(len(f))}
    held = {"optimize_hyperparameters": False, "optimize_inducing": False}
    held |= {"noise_variance": 0.2} if likelihood == "gaussian" else {}
    model = of(likelihood, batch_size=None, **held)
    y = targets(likelihood, f, rng)
    apart, model = both(model, X, y, **more)
    assert len(model.inducing_points_) == 12
    for found, wanted in zip(numbers(apart), numbers(model), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-9 * np.max(np.abs(wanted)))
    # A search blows roundings up: few of its steps.
    learning = of(likelihood, batch_size=None, max_iter=10)
    apart, model = both(learning, X, y, **more)
    assert apart.lower_bound_ == pytest.approx(model.lower_bound_, rel=1e-9)
    assert np.any(model.kernel_.theta != model.kernel_.clone_with_theta(model.kernel_.bounds[:, 0]).theta)


def test_types_of_targets_differ(many, global_random_seed):
    """Numbers are whole in one partition, and the first partition has labels of another type."""
    X, f, _ = table(global_random_seed)
    y = np.round(f)
    y[250:] = f[250:]
    pieces = [dask.delayed(y[:250].astype(int)), dask.delayed(y[250:])]
    apart = da.concatenate([da.from_delayed(piece, (n,), float) for piece, n in zip(pieces, (250, 150), strict=True)])
    options = {"batch_size": None, "noise_variance": 0.3, "optimize_hyperparameters": False, "max_iter": 3}
    model, rows = of("gaussian", **options), parts(X, [0, 250, 400])
    found = clone(model).fit(rows, apart).lower_bound_
    assert found == pytest.approx(model.fit(X, y).lower_bound_, rel=1e-9)
    labels = np.where(y > 0.0, 1.0, 0.0)
    pieces = [dask.delayed(labels[:250].astype(int)), dask.delayed(labels[250:])]
    apart = da.concatenate([da.from_delayed(piece, (n,), float) for piece, n in zip(pieces, (250, 150), strict=True)])
    options = {"batch_size": None, "optimize_hyperparameters": False, "max_iter": 3}
    model = of("logit", **options)
    found = clone(model).fit(rows, apart).lower_bound_
    assert found == pytest.approx(model.fit(X, labels).lower_bound_, rel=1e-9)


def test_many_rows_of_which_few_differ(many, global_random_seed):
    X, f, rng = table(global_random_seed)
    X = np.round(X / 3.0)
    apart, model = both(of("gaussian", batch_size=None, max_iter=2), X, targets("gaussian", f, rng))
    np.testing.assert_allclose(model.inducing_points_, np.unique(X, axis=0), atol=1e-15)
    np.testing.assert_allclose(apart.inducing_points_, model.inducing_points_, atol=1e-15)


def test_a_sample_of_rows_is_a_matter_of_their_numbers(global_random_seed, monkeypatch):
    monkeypatch.setattr(inducing, "SAMPLE_BLOCK", 64)
    drawn = inducing.uniforms(global_random_seed, 0, 300)
    for a, b in ((0, 10), (10, 64), (64, 300), (63, 65), (300, 300)):
        np.testing.assert_array_equal(inducing.uniforms(global_random_seed, a, b - a), drawn[a:b])
    assert np.std(drawn) == pytest.approx(np.sqrt(1 / 12), abs=4 * np.sqrt(1 / 180 / 300 * 3))


def test_a_sample_stands_for_all_weights(monkeypatch, global_random_seed):
    """A heavy row is in the sample, and rows of any weight stand for about what there is of them."""
    monkeypatch.setattr(inducing, "WHOLE_ROWS", 0)
    monkeypatch.setattr(inducing, "SAMPLED_ROWS", 2000)
    rng = np.random.default_rng(global_random_seed)
    weight = np.where(np.arange(20000) % 2, 0.1, 2.0)
    weight[7] = 1e5
    data = Table(np.column_stack([np.arange(20000.0), rng.standard_normal(20000)]), np.zeros(20000), weight)
    rows, found = inducing.candidates(data, 10, global_random_seed)
    number = rows[:, 0].astype(int)
    assert 7 in number
    for own in (0, 1):
        mine = (np.arange(20000) % 2 == own) & (np.arange(20000) != 7)
        chance = -np.expm1(-2000 / weight.sum() * weight[mine])
        error = np.sqrt(np.sum(np.square(weight[mine]) * (1.0 / chance - 1.0)))
        assert np.sum(found[(number % 2 == own) & (number != 7)]) == pytest.approx(weight[mine].sum(), abs=4 * error)


def test_moments_of_parts(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    X, weight = 5.0 + rng.standard_normal((50, 2)), rng.uniform(0.5, 2.0, 50)
    X[:, 1] = 0.1
    found = Moments.of(X[:7], weight[:7]).merged(Moments.of(X[7:], weight[7:]))
    wanted = Moments.of(X, weight)
    for name in ("weight", "mean", "variance", "low", "high"):
        np.testing.assert_allclose(getattr(found, name), getattr(wanted, name), rtol=1e-13, atol=1e-30)
    assert found.deviation[1] == 0.0


@pytest.mark.parametrize("count", [1, 2, 3, 7, 8, 9, 12, 20, 28, 63, 64, 69])
def test_a_tree_over_parts_is_the_tree_over_chunks(count):
    values = [np.random.default_rng(k).standard_normal(2) * 10.0**k for k in range(count)]
    kept = [value.copy() for value in values]
    found = Executor._tree([dask.delayed(value) for value in values], parallel.add).compute(scheduler="sync")
    np.testing.assert_array_equal(found, parallel.tree_sum(value.copy() for value in values))
    np.testing.assert_array_equal(values, kept)


def test_a_model_travels_without_its_place():
    model = SparseGPModel(None, RBF(), scale=np.ones(1))
    model._place = (None, None, "a geometry")
    there = pickle.loads(pickle.dumps(model))
    assert there._place is None and there._adjoint is None
    with there._lock:
        assert there.n_inducing == model.n_inducing


def test_what_is_refused():
    X, f, _ = table(0)
    with pytest.raises(TypeError, match="bound='optimal' is no sum over rows and cannot take a Dask collection"):
        of("gaussian", bound="optimal").fit(parts(X), parts(f))
    with pytest.raises(ValueError, match="every column of X is constant"):
        of("gaussian").fit(parts(np.ones_like(X)), parts(f))
    with pytest.raises(ValueError, match="found n_samples=1"):
        of("gaussian").fit(parts(X[:1], [0, 0, 1]), parts(f[:1], [0, 0, 1]))
    broken = X.copy()
    broken[160, 1] = np.nan
    model = of("gaussian")
    with pytest.raises(ValueError, match="partition 3: column 1 of X, row 10: Input X contains NaN"):
        model.fit(parts(broken), parts(f))
    assert not hasattr(model, "kernel_")
