"""The targets by which a fit starts: one rule for rows in memory and in partitions, whatever the likelihood."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from sksvi import BayesianGLMClassifier, BayesianGLMRegressor, GeneralizedPMF, GMERegressor, SparseGPRegressor
from sksvi._runtime import parallel
from sksvi.likelihoods import Gaussian
from sksvi.models import targets
from sksvi.models.data import Table

pytest.importorskip("dask", reason="needs the extra dask")
pytest.importorskip("pyarrow", reason="needs the extra dask")
import dask.array as da
import dask.dataframe as dd

from sksvi.partitions import encoded
from sksvi.partitions.summary import Targets

pytestmark = pytest.mark.usefixtures("local_scheduler")
N = 240


@pytest.fixture
def small(monkeypatch):
    """Samples of a few rows, drawn from several blocks."""
    monkeypatch.setattr(targets, "SAMPLE", 64)
    monkeypatch.setattr(targets, "DISTINCT", 16)
    monkeypatch.setattr(parallel, "SAMPLE_BLOCK", 100)


@pytest.fixture
def looks(monkeypatch):
    """Partitions that were looked at a second time."""
    seen = []
    before = encoded.TargetSample.__call__
    monkeypatch.setattr(
        encoded.TargetSample, "__call__", lambda self, k, *rest: (seen.append(k), before(self, k, *rest))[1]
    )
    return seen


def rows(rng):
    X = rng.standard_normal((N, 2))
    return X, X @ [1.0, -0.7], 0.5 * rng.standard_normal(N)


def cut(values):
    """Partitions of several sizes, one of them empty."""
    return da.from_array(values, chunks=((70, 0, 110, 60), *values.shape[1:]))


def drawn_targets(likelihood, f, rng):
    return {
        "gaussian": lambda: 3.0 + 2.0 * f + rng.standard_normal(N),
        "student-t": lambda: 3.0 + 2.0 * f + rng.standard_t(3, N),
        "poisson": lambda: rng.poisson(np.exp(f)),
        "counts": lambda: rng.poisson(200.0 * np.exp(0.3 * f)),
        "negative-binomial": lambda: rng.poisson(np.exp(f) * rng.gamma(2.0, 0.5, N)),
        "logit": lambda: np.where(rng.random(N) < 1 / (1 + np.exp(-f)), "yes", "no"),
        "binomial": lambda: np.stack([rng.binomial(20, 1 / (1 + np.exp(-f))), rng.integers(0, 9, N)], axis=1),
        "ordinal": lambda: np.digitize(f + rng.logistic(size=N), [-1.0, 0.5]) * 2.0,
    }[likelihood]()


def fitted(model, *args, **kwargs):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return clone(model).fit(*args, **kwargs)


def assert_same(spread, inside):
    assert spread.n_iter_ == inside.n_iter_
    assert spread.lower_bound_ == pytest.approx(inside.lower_bound_, rel=1e-9)
    for name, block in inside.posterior_.items():
        apart = np.max(np.abs(spread.posterior_[name].mean - block.mean) / block.std)
        assert apart < 1e-9, f"means of {name!r} are {apart:.1e} standard deviations apart"


CASES = [
    ("gaussian", False, False),
    ("gaussian", True, False),
    ("student-t", False, True),
    ("student-t", True, True),
    ("poisson", False, False),
    ("poisson", True, True),
    ("counts", False, True),
    ("negative-binomial", True, True),
    ("logit", False, False),
    ("logit", True, True),
    ("binomial", False, True),
    ("ordinal", False, False),
    ("ordinal", True, True),
]


@pytest.mark.filterwarnings("ignore:sample_weight says how many rows")
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("likelihood, with_offset, looks_again", CASES)
@pytest.mark.filterwarnings("ignore:y varies .* times as much as:UserWarning")  # failures are drawn alone
def test_a_fit_starts_where_the_fit_in_memory_does(likelihood, with_offset, looks_again, weighted, small, looks):
    rng = np.random.default_rng(0)
    X, f, offset = rows(rng)
    y = drawn_targets(likelihood, f + with_offset * offset, rng)
    maker = BayesianGLMClassifier if likelihood == "logit" else BayesianGLMRegressor
    model = maker(likelihood="poisson" if likelihood == "counts" else likelihood, random_state=0)
    if likelihood in ("student-t", "negative-binomial"):  # nodes of their parameters need rows at hand
        model.set_params(hyperparameters="point")
    given = {"offset": offset} if with_offset else {}
    if weighted:
        given["sample_weight"] = np.where(np.arange(N) % 9 == 0, 0.0, rng.uniform(0.5, 2.0, N))
    inside = fitted(model, X, y, **given)
    assert not looks
    spread = fitted(model, cut(X), cut(y), **{name: cut(values) for name, values in given.items()})
    assert_same(spread, inside)
    assert sorted(looks) == ([0, 2, 3] if looks_again else [])


@pytest.mark.costly
@pytest.mark.parametrize("likelihood", ["poisson", "student-t"])
def test_mixed_effects_start_there_too(likelihood, small):
    rng = np.random.default_rng(0)
    X, f, offset = rows(rng)
    y = drawn_targets(likelihood, f + offset, rng)
    table = pd.DataFrame(X, columns=["a", "b"]).assign(g=rng.choice(["u", "v", "w", "x"], N))
    model = GMERegressor(likelihood=likelihood, groups="g", max_iter=40, random_state=0)
    inside = fitted(model, table, y, offset=offset)
    frame = [dd.from_pandas(part, npartitions=4) for part in (table, pd.Series(y), pd.Series(offset))]
    assert_same(fitted(model, *frame[:2], offset=frame[2]), inside)


@pytest.mark.parametrize("likelihood", ["gaussian", "student-t", "poisson"])
@pytest.mark.parametrize("whole", [100, 300])
def test_units_of_sparse_processes(likelihood, whole, small, monkeypatch):
    """More rows than are brought together, and no more: units and the first kernel are those of memory."""
    from sksvi.gaussian_process import _base, _encoding, _start

    assert _start.MERGED_ROWS <= 2**16 <= _base.FULL_BATCH_ROWS  # equal rows are merged where none is left out
    monkeypatch.setattr(_start, "MERGED_ROWS", targets.SAMPLE)
    for module in (_base, _encoding):
        monkeypatch.setattr(module, "FULL_BATCH_ROWS", whole)
    rng = np.random.default_rng(0)
    X, f, offset = rows(rng)
    y = drawn_targets(likelihood, f + offset, rng)
    model = SparseGPRegressor(
        likelihood=likelihood, n_inducing=5, max_iter=1, optimize_hyperparameters=False, random_state=0
    )
    inside = fitted(model, X, y, offset=offset)
    spread = fitted(model, cut(X), cut(y), offset=cut(offset))
    assert spread.mean_ == pytest.approx(inside.mean_, rel=1e-9)
    assert spread._encoding.target_unit == pytest.approx(inside._encoding.target_unit, rel=1e-9)
    np.testing.assert_allclose(spread.kernel_.theta, inside.kernel_.theta, rtol=1e-9)


@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
def test_scales_of_ratings(weighted, small):
    rng = np.random.default_rng(0)
    pairs = pd.DataFrame({"user": rng.integers(0, 20, N), "item": rng.integers(0, 12, N)})
    y = rng.standard_normal(N)
    weight = {"sample_weight": np.where(np.arange(N) % 9 == 0, 0.0, 1.5)} if weighted else {}
    model = GeneralizedPMF(2, max_iter=3, random_state=0)
    inside = fitted(model, pairs, y, **weight)
    spread = fitted(
        model,
        dd.from_pandas(pairs, npartitions=4),
        dd.from_pandas(pd.Series(y), npartitions=4),
        **{name: dd.from_pandas(pd.Series(values), npartitions=4) for name, values in weight.items()},
    )
    assert (spread._encoding.unit, spread._encoding.offset) == (inside._encoding.unit, inside._encoding.offset)


def test_levels_that_a_sample_lacks_are_there(small):
    """An ordinal target with an offset: its levels and cut points are those of all rows."""
    rng = np.random.default_rng(0)
    X, f, offset = rows(rng)
    y = drawn_targets("ordinal", f, rng)
    sample = set(parallel.sample(N, targets.SAMPLE, targets.SEED))
    y[[i for i in range(N) if i not in sample][:2]] = 9.0
    model = BayesianGLMRegressor(likelihood="ordinal", random_state=0)
    inside = fitted(model, X, y, offset=offset)
    spread = fitted(model, cut(X), cut(y), offset=cut(offset))
    assert spread.levels_.tolist() == inside.levels_.tolist() == [0.0, 2.0, 4.0, 9.0]
    assert_same(spread, inside)


def test_events_that_a_sample_lacks_are_not_forgotten(small):
    """Counts with an offset, all events in rows that no sample has: no finding says that there was none."""
    rng = np.random.default_rng(0)
    X, _, offset = rows(rng)
    sample = set(parallel.sample(N, targets.SAMPLE, targets.SEED))
    y = np.zeros(N)
    y[[i for i in range(N) if i not in sample][:20]] = 1.0
    model = BayesianGLMRegressor(likelihood="poisson", random_state=0)
    inside = model.fit(X, y, offset=offset)  # warnings are errors
    spread = clone(model).fit(cut(X), cut(y), offset=cut(offset))
    assert spread.n_iter_ == inside.n_iter_
    assert spread.lower_bound_ == pytest.approx(inside.lower_bound_, rel=1e-9)


# ---- the rule itself
def test_a_weight_of_k_is_k_rows_where_all_are_looked_at():
    rng = np.random.default_rng(0)
    X, f, offset = rows(rng)
    y = drawn_targets("student-t", f, rng)
    k = rng.integers(1, 4, N)
    model = BayesianGLMRegressor(likelihood="student-t", random_state=0)
    one = fitted(model, X, y, sample_weight=k.astype(float), offset=offset)
    other = fitted(model, np.repeat(X, k, axis=0), np.repeat(y, k), offset=np.repeat(offset, k))
    assert_same(one, other)


def test_mean_and_variance_are_exact_of_any_partitions(small):
    rng = np.random.default_rng(0)
    y, offset, weight = 1e3 + rng.standard_normal(N), 5.0 * rng.standard_normal(N), rng.uniform(0.5, 2.0, N)
    parts = [Targets.of(y[s], weight[s], offset[s]) for s in (slice(0, 50), slice(50, 51), slice(51, N))]
    few = parts[0].merged(parts[1]).merged(parts[2]).few(by_moments=True)
    assert len(few) == 2 and few.n_rows == N
    for got, own in ((few.alone.y, y), (few.y - few.offset, y - offset)):
        mean = np.average(own, weights=weight)
        assert np.average(got, weights=few.weight) == pytest.approx(mean, rel=1e-12)
        variance = np.average(np.square(own - mean), weights=weight)
        assert np.average(np.square(got - mean), weights=few.weight) == pytest.approx(variance, rel=1e-9)
    started = [Gaussian().start(one.y, one.weight).variance for one in (few, Table(offset[:, None], y, weight))]
    assert started[0] == pytest.approx(started[1], rel=1e-9)


def test_partitions_draw_what_memory_draws(small):
    rng = np.random.default_rng(0)
    data = Table(np.empty((N, 0)), rng.standard_normal(N), rng.uniform(0.5, 2.0, N), rng.standard_normal(N))
    found = targets.starting(data, by_moments=False)
    assert len(found) == targets.SAMPLE and found.n_rows == N
    parts = [
        targets.drawn(Table(np.empty((b - a, 0)), *(v[a:b] for v in (data.y, data.weight, data.offset)), a), N)
        for a, b in ((0, 99), (99, 101), (101, N))
    ]
    concatenated = parts[0].concatenated(parts[1]).concatenated(parts[2])
    for name in ("y", "weight", "offset"):
        np.testing.assert_array_equal(getattr(concatenated, name), getattr(found, name))
    assert targets.starting(found, by_moments=False) is found


@pytest.mark.parametrize("columns", [1, 2])
def test_values_are_few_by_their_number(columns, small):
    """Whether they are, partitions and memory agree."""
    few = np.arange(300.0) % 16
    many = np.arange(300.0) % 17
    for y, expected in ((few, True), (many, False)):
        y = y if columns == 1 else np.stack([y // 4, y % 4], axis=1)
        assert (targets.counted(y, None) is not None) is expected
        halves = Targets.of(y[:8], None, None).merged(Targets.of(y[8:], None, None))
        assert (halves.values is not None) is expected


@pytest.mark.parametrize("y", [np.array([3, -2, 3, 0, -2]), np.array([0.5, 2.0, 0.5]), np.array([1.0, 0.0, 1.0, 5.0])])
@pytest.mark.parametrize("weighted", [False, True])
def test_counted_targets_are_those_of_unique(y, weighted):
    weight = np.arange(1.0, len(y) + 1) if weighted else None
    found = targets.counted(y, weight)
    values, at = np.unique(y, return_inverse=True)
    np.testing.assert_array_equal(found.y, values)
    np.testing.assert_array_equal(found.weight, np.bincount(at, weight))
