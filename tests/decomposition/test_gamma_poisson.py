"""GammaPoissonFactorization: components found, doors, missing cells, scores, streams."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.utils.estimator_checks import parametrize_with_checks

import sksvi
from sksvi import GammaPoissonFactorization
from sksvi.callbacks import Checkpoint
from sksvi.estimators import first_rows
from sksvi.families import Gamma, Point
from sksvi.models.nmf import poisson
from sksvi.models.nmf.cells import cells, table
from sksvi.models.nmf.density import log_negative_binomial, moments_of
from sksvi.models.nmf.poisson import SURPLUS, GammaPoisson
from sksvi.models.nmf.rows import CountChunk
from support.interruptions import StopAfter

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@parametrize_with_checks(
    [
        GammaPoissonFactorization(5, max_iter=5),
        GammaPoissonFactorization(3, max_iter=4, bound="tight"),
    ]
)
@pytest.mark.filterwarnings("ignore:X has fractions")
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.exhaustive
@parametrize_with_checks(
    [
        GammaPoissonFactorization(5, max_iter=5, algorithm="mc-ssvi"),
        GammaPoissonFactorization(5, max_iter=5, batch_size=16, init="random"),
    ]
)
@pytest.mark.filterwarnings("ignore:X has fractions")
def test_scikit_learn_checks_of_other_fits(estimator, check):
    check(estimator)


@pytest.mark.costly
def test_rows_that_go_beyond_end_where_others_do(global_random_seed):
    """Sweeps of a share further, in single precision too: the same activations and terms of the bound, sooner."""
    rng = np.random.default_rng(global_random_seed)
    W, H = rng.gamma(2.0, 1.0, (3, 40)), rng.gamma(0.4, 4.0, (40, 3))  # components that have all columns in common
    found = cells(sp.csr_matrix(rng.poisson(H @ W).astype(float)))
    plain = GammaPoisson(3, 40)
    q = {"components": Gamma(5.0 * W + 0.3, np.full(W.shape, 5.0)), "activation_rate": Point(np.log([0.3]))}
    batch = CountChunk(found, table(found).y, np.zeros((40, 3)))

    def ended(model, sweeps, tol):
        return model.settled(model.view(q, None), batch, replace(model.visit, sweeps=sweeps, tol=tol))

    exact = ended(plain, 30000, 1e-14)  # some rows creep
    for precision, largest, near in ((np.float32, 1e7, 1e-4), (np.float64, 1e8, 1e-5)):
        model = plain.of_batches(largest)
        assert model.precision is precision and plain.precision is np.float64 and plain.visit.beyond == 0.0
        terms = ended(model, 10000, 1e-13)
        np.testing.assert_allclose(terms.activations, exact.activations, rtol=near, atol=near * H.max())
        np.testing.assert_allclose(terms.value, exact.value, rtol=near, atol=near)
    sooner, later = (np.abs(ended(each, 10, 0.0).activations - exact.activations).sum() for each in (model, plain))
    assert sooner < 0.9 * later


@pytest.mark.costly
def test_batches_take_counts_of_any_size(global_random_seed):
    X, _, _ = parts(global_random_seed, 60)
    for unit in (1.0, 1e12):  # rows of more than single precision is trusted with
        model = GammaPoissonFactorization(3, batch_size=10, max_iter=3, random_state=0, activation_shape=0.001).fit(
            unit * X
        )
        assert np.all(np.isfinite(model.components_)) and np.isfinite(model.lower_bound_)


def parts(seed=0, n=300, F=40, K=3, mean=4.0):
    """Counts, activations and components of columns in turn."""
    rng = np.random.default_rng(seed)
    W = np.kron(np.eye(K), np.ones(F // K + 1))[:, :F] * rng.gamma(2.0, 1.0, F)
    H = rng.gamma(0.4, mean, (n, K))
    return rng.poisson(H @ W).astype(float), H, W


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("make", [np.asarray, sp.csr_matrix])
def test_fractions_that_say_little_are_told(make, streamed):
    X, _, _ = parts(n=60)
    model = GammaPoissonFactorization(3, max_iter=3, random_state=0)
    fit = model.partial_fit if streamed else model.fit
    with pytest.warns(UserWarning, match=r"fractions, and its cells .* mean of 0\.\d+: .*Multiply X"):
        fit(make(X / X.max()))
    fit(make(X))
    fit(make(np.minimum(X, 1.0)))  # counts, however small


def test_components_are_found(global_random_seed):
    X, H, W = parts(global_random_seed)
    model = GammaPoissonFactorization(3, random_state=global_random_seed).fit(X)
    assert model.converged_ and np.all(np.diff(model.lower_bounds_) >= -1e-9 * np.abs(model.lower_bounds_[1:]))
    assert np.all(np.corrcoef(model.components_, W)[:3, 3:].max(0) > 0.95)
    assert np.all(np.diff(model.component_shares_) <= 0) and model.component_shares_.sum() == pytest.approx(1.0)
    rebuilt = model.inverse_transform(model.transform(X))
    assert np.corrcoef(rebuilt.ravel(), (H @ W).ravel())[0, 1] > 0.98
    np.testing.assert_allclose(rebuilt, model.reconstruct(X))
    table = model.summary()
    assert list(table.index) == list(model.get_feature_names_out())
    np.testing.assert_allclose(table["mean"], model.components_.sum(1))
    assert np.all((table["lower"] < table["mean"]) & (table["mean"] < table["upper"]))


@pytest.mark.exhaustive
def test_few_components_hold_two_bases(global_random_seed, monkeypatch):
    """Against a fit that begins at the bases; without components to spare at the start three times as much is lost."""
    lost = {SURPLUS: [], 1.0: []}
    for i in range(8):
        rng = np.random.default_rng([global_random_seed, i])
        W = rng.gamma(0.2, 2.0, (10, 100))
        X = rng.poisson(rng.gamma(0.3, 1.0, (200, 10)) @ W)
        best = GammaPoissonFactorization(init=W + 1e-3, n_components=10, tol=1e-5).fit(X).lower_bound_
        for surplus, of in lost.items():
            monkeypatch.setattr(poisson, "SURPLUS", surplus)
            model = GammaPoissonFactorization(10, random_state=i).fit(X)
            assert model.converged_
            of.append((best - model.lower_bound_) / -best)
    assert np.mean(lost[SURPLUS]) < 0.009
    assert np.mean(lost[SURPLUS]) < 0.6 * np.mean(lost[1.0])


@pytest.mark.costly
def test_batches_begin_without_components_to_spare(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.poisson(rng.gamma(0.5, 2.0, (60, 3)) @ rng.gamma(0.5, 2.0, (3, 8)))
    model = GammaPoissonFactorization(3, max_iter=1, random_state=0)
    fits = {size: clone(model).set_params(batch_size=size).fit(X).components_ for size in (20, None)}
    monkeypatch.setattr(poisson, "SURPLUS", 1.0)
    np.testing.assert_array_equal(model.set_params(batch_size=20).fit(X).components_, fits[20])
    assert np.any(model.set_params(batch_size=None).fit(X).components_ != fits[None])


@pytest.mark.costly
def test_sparse_is_dense():
    X = parts()[0]
    model = GammaPoissonFactorization(4, max_iter=8, random_state=0).fit(X)
    sparse = clone(model).fit(sp.csr_array(X))
    np.testing.assert_array_equal(sparse.components_, model.components_)
    np.testing.assert_array_equal(sparse.transform(sp.csr_matrix(X)), model.transform(X))
    assert sparse.score(sp.csr_matrix(X)) == pytest.approx(model.score(X), rel=1e-9)
    frame = pd.DataFrame(X, columns=[f"pixel {f}" for f in range(X.shape[1])])
    named = clone(model).set_output(transform="pandas").fit(frame)
    assert list(named.transform(frame).columns) == list(named.get_feature_names_out())
    single = clone(model).fit(X.astype(np.float32))
    assert single.components_.dtype == np.float32
    np.testing.assert_allclose(single.components_, model.components_, rtol=1e-3)


@pytest.mark.costly
@pytest.mark.parametrize("algorithm", ["cvi", "mc-ssvi"])
@pytest.mark.parametrize("batch_size", [None, 100])
def test_threads_change_no_bit(algorithm, batch_size):
    X = parts()[0]
    options = {"algorithm": algorithm, "batch_size": batch_size, "max_iter": 4, "random_state": 0}
    one, two = (GammaPoissonFactorization(5, n_jobs=n, **options).fit(X) for n in (1, 3))
    np.testing.assert_array_equal(one.components_, two.components_)
    np.testing.assert_array_equal(one.transform(X), two.transform(X))
    assert one.lower_bound_ == two.lower_bound_


def test_missing_cells_are_filled_in(global_random_seed):
    X, H, W = parts(global_random_seed)
    rng = np.random.default_rng(global_random_seed)
    hidden = np.where(rng.random(X.shape) < 0.3, np.nan, X)
    model = GammaPoissonFactorization(3, random_state=0).fit(hidden)
    filled, std = model.impute(hidden, return_std=True)
    missing = np.isnan(hidden)
    np.testing.assert_array_equal(filled[~missing], X[~missing])
    assert np.all(std[~missing] == 0) and np.all(std[missing] > 0)
    error = np.square(filled - X)[missing].mean()
    assert error < 2.0 * (H @ W)[missing].mean() + 1.0  # a Poisson's own variance is its mean
    density = model.log_predictive_density(hidden, np.where(missing, X, np.nan))
    assert density.shape == (300,) and np.all(density <= 0)


def test_intervals_of_missing_counts_cover(global_random_seed):
    """q is too sure of means, but most of a count's spread is the Poisson's own."""
    X, _, _ = parts(global_random_seed, n=400)
    hidden = np.where(np.random.default_rng(global_random_seed).random(X.shape) < 0.2, np.nan, X)
    model = GammaPoissonFactorization(3, random_state=0).fit(hidden)
    missing = np.isnan(hidden)
    mean, std = (part[missing] for part in model.impute(hidden, return_std=True))
    inside = np.abs(X[missing] - mean) <= 2.0 * std
    assert 0.9 < inside.mean() < 0.99


@pytest.mark.costly
def test_densities_of_missing_counts_heed_that_activations_go_together():
    """Half of the pixels of digits from the others: with independent activations densities are too narrow."""
    X = load_digits().data[:500]
    model = GammaPoissonFactorization(10, random_state=0).fit(X[:400])
    known, asked = X[400:].copy(), X[400:].copy()
    known[:, ::2], asked[:, 1::2] = np.nan, np.nan
    shape, rate = model._activations(cells(known))
    mean, variance = moments_of(shape / rate, shape / np.square(rate), model.posterior_["components"])
    independent = log_negative_binomial(np.nan_to_num(asked), mean, variance)[:, ::2].sum(1)
    gain = model.log_predictive_density(known, asked) - independent
    assert gain.mean() > 4.0 * gain.std() / np.sqrt(len(gain))


def test_columns_are_recommended(global_random_seed):
    """Each kind of row gets columns of its own kind, seen ones only where they are asked for."""
    X, _, W = parts(global_random_seed, n=200)
    kind, rng = W.argmax(0), np.random.default_rng(global_random_seed)
    hidden = np.where(rng.random(X.shape) < 0.3, 0.0, X)
    model = GammaPoissonFactorization(3, random_state=0).fit(sp.csr_matrix(hidden))
    own = np.zeros((1, X.shape[1]))
    own[0, np.flatnonzero(kind == 1)[:4]] = 5.0
    found = model.recommend(own, n=6)
    assert list(found.columns) == ["row", "column", "rank", "mean", "std"] and list(found["rank"]) == [1, 2, 3, 4, 5, 6]
    assert np.mean(kind[found["column"]] == 1) >= 5 / 6 and not np.any(own[0, found["column"]])
    assert np.all(np.diff(found["mean"]) <= 0) and np.all(found["std"] ** 2 >= found["mean"])
    everything = model.recommend(sp.csr_matrix(hidden[:3]), n=99, exclude_seen=False)
    assert list(everything["row"]) == list(np.repeat([0, 1, 2], X.shape[1]))
    np.testing.assert_allclose(
        everything.pivot(index="row", columns="column", values="mean"), model.reconstruct(hidden[:3])
    )
    frame = pd.DataFrame(hidden, columns=[f"film {f}" for f in range(X.shape[1])])
    frame.index = [f"user {i}" for i in range(200)]
    named = GammaPoissonFactorization(3, max_iter=3, random_state=0).fit(frame).recommend(frame[:2], n=2)
    assert list(named["row"]) == ["user 0"] * 2 + ["user 1"] * 2 and named["column"].str.startswith("film ").all()
    with pytest.raises((TypeError, ValueError), match="n must be"):
        model.recommend(own, n=0)


@pytest.mark.parametrize(
    "X",
    [
        np.zeros((4, 3)),
        np.array([[1e6, 0.0, 3.0], [0.0, 0.0, 1e6]]),
        np.array([[0.0, 2.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 0.0]]),
        np.array([[0.25, 1e-9, 3.7], [1e-3, 0.0, 0.1]]),
        np.array([[np.nan, 2.0], [np.nan, np.nan]]),
        np.where(np.random.default_rng(0).random((30, 20)) < 0.9, np.nan, 3.0),
    ],
    ids=["zeros", "huge", "empty row and columns", "fractions", "nothing seen", "nine in ten missing"],
)
@pytest.mark.parametrize("options", [{}, {"algorithm": "mc-ssvi"}, {"batch_size": 2}], ids=str)
@pytest.mark.filterwarnings("ignore:X has fractions")
def test_odd_tables_have_finite_answers(X, options):
    """More components than rows and columns, too."""
    model = GammaPoissonFactorization(30, max_iter=30, random_state=0, **options).fit(X)
    parts = (model.components_, model.transform(X), model.reconstruct(X), model.summary(), model.lower_bound_)
    assert all(np.all(np.isfinite(part)) for part in parts)
    seen = np.where(np.isnan(X), 0.0, X)
    if not seen.any():
        assert model.reconstruct(X).max() < 0.5


def test_negative_counts_are_named():
    with pytest.raises(ValueError, match="column 1 of X has -1 in row 0"):
        GammaPoissonFactorization(2).fit(np.array([[1.0, -1.0]]))


def test_components_that_are_given():
    X = np.kron(np.random.default_rng(0).poisson(3.0, (9, 2)), np.ones((1, 2)))
    given = np.array([[1.0, 0.0, 0.0, 3.0], [0.0, 2.0, 2.0, 0.0]])
    assert GammaPoissonFactorization(2, init=given, max_iter=3).fit(X).components_.shape == (2, 4)
    with pytest.raises(ValueError, match=r"init.shape == \(2, 4\), expected \(3, 4\)"):
        GammaPoissonFactorization(3, init=given).fit(X)


# ---- going on
@pytest.mark.costly
def test_a_stream_learns(global_random_seed, monkeypatch):
    monkeypatch.setattr(first_rows, "ENOUGH", 0)  # steps from the first chunk on
    X = parts(global_random_seed, n=1200)[0]
    X, rest = X[:1000], X[1000:]
    stream = GammaPoissonFactorization(3, batch_size=20, random_state=0)
    for part in np.array_split(X, 10):
        stream.partial_fit(part)
    first = GammaPoissonFactorization(3, random_state=0).partial_fit(X[:20])
    assert stream.n_steps_ == 50
    batch = GammaPoissonFactorization(3, random_state=0).fit(X)
    assert stream.n_samples_seen_ == 1000
    assert stream.score(rest) > first.score(rest)
    assert stream.score(rest) > batch.score(rest) - 0.1 * abs(batch.score(rest))


@pytest.mark.costly
@pytest.mark.parametrize("size", [1, 7, 60])
def test_a_stream_in_small_chunks_is_about_a_fit(size, global_random_seed):
    """Not one component, which is where steps from one row or a few would stay."""
    X = parts(global_random_seed, n=400)[0]
    X, rest = X[:300], X[300:]
    stream = GammaPoissonFactorization(3, random_state=0)
    for first in range(0, len(X), size):
        stream.partial_fit(X[first : first + size])
    few, batch, one = (
        GammaPoissonFactorization(k, random_state=0).fit(X[:n]).score(rest) for k, n in ((3, 150), (3, 300), (1, 300))
    )
    assert stream.n_samples_seen_ == 300
    assert stream.score(rest) > min(few, batch) - 0.05 * abs(batch - one)


def test_saved_and_gone_on(tmp_path):
    X = parts()[0]
    model = GammaPoissonFactorization(3, random_state=0).partial_fit(X[:100])
    model.save(tmp_path / "m.sksvi")
    again = sksvi.load(tmp_path / "m.sksvi").partial_fit(X[100:])
    np.testing.assert_array_equal(again.components_, model.partial_fit(X[100:]).components_)
    more = GammaPoissonFactorization(3, max_iter=5, warm_start=True, random_state=0).fit(X)
    assert more.fit(X).lower_bound_ > more.lower_bounds_[3] and more.n_iter_ == 10


@pytest.mark.costly
def test_the_tight_bound_begins_with_auxiliary_counts(tmp_path):
    """And a fit that is cut off in either part goes on to the same bits."""
    X = parts(n=60)[0]
    first = GammaPoissonFactorization(3, max_iter=30, tol=1e-3, random_state=0).fit(X)
    tight = clone(first).set_params(bound="tight")
    whole = clone(tight).fit(X)
    exact = whole.history_["exact"].to_numpy()
    assert exact[: first.n_iter_].all() and not exact[first.n_iter_ :].any() and whole.n_iter_ > first.n_iter_
    assert whole.lower_bound_ > first.lower_bound_
    assert whole.transform(X).shape == (60, 3) and np.isfinite(whole.score(X))
    for after in (2, first.n_iter_, first.n_iter_ + 3):
        path = tmp_path / f"{after}.sksvi"
        with pytest.raises(InterruptedError):
            clone(tight).set_callbacks(Checkpoint(path), StopAfter(after)).fit(X)
        again = sksvi.load(path).set_params(warm_start=True).fit(X)
        np.testing.assert_array_equal(again.components_, whole.components_)
        assert again.n_iter_ == whole.n_iter_ and again.lower_bound_ == whole.lower_bound_
    stream = clone(tight).partial_fit(X[:30]).partial_fit(X[30:])
    assert stream.n_samples_seen_ == 60 and np.isfinite(stream.lower_bound_)


@pytest.mark.costly
def test_half_of_an_image_says_much_of_the_other():
    """Digits: scikit-learn's NMF is at -2.17 or below in the same split (benchmarks/nmf/poisson.py)."""
    from sklearn.datasets import load_digits

    X = load_digits().data
    rng = np.random.default_rng(0)
    seen = rng.random(64) < 0.5
    model = GammaPoissonFactorization(20, random_state=0).fit(X[:1400])
    known = np.where(seen, X[1400:], np.nan)
    asked = np.where(seen, np.nan, X[1400:])
    assert model.log_predictive_density(known, asked).sum() / np.sum(~np.isnan(asked)) > -2.05
