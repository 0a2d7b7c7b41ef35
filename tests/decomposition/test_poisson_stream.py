"""PoissonFactorization in chunks: what is counted and forgotten, and how near the stream is to the fit to all pairs."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import sksvi
from sksvi import PoissonFactorization
from tests.decomposition.test_poisson_pairs import plays

THREE = {"n_components": 3, "random_state": 0}


def shapes(model):
    """Counts of each user and each item, by the shapes of q."""
    users, items = model.posterior_["users"].shape, model.posterior_["components"].shape
    return (users - model.activation_shape).sum(1), (items - model.component_shape).sum(0)


def bound(model):
    """Of the fit."""
    return model.lower_bound_


def totals(X, y, ids, name):
    """The same by the table."""
    return np.bincount(ids.searchsorted(X[name]), y, len(ids))


def split(seed, share, **sizes):
    """A table of pairs, and its rows in two parts, the first of so large a share."""
    X, y, counts = plays(seed, **sizes)
    n = int(share * len(X))
    return X, y, counts, slice(0, n), slice(n, None)


def test_the_first_chunk_is_the_fit(global_random_seed):
    X, y, _ = plays(global_random_seed)
    fit, stream = PoissonFactorization(**THREE).fit(X, y), PoissonFactorization(**THREE).partial_fit(X, y)
    np.testing.assert_array_equal(stream.components_, fit.components_)
    np.testing.assert_array_equal(stream.user_factors_, fit.user_factors_)
    assert stream.lower_bound_ == fit.lower_bound_ and stream.n_samples_seen_ == fit.n_samples_seen_
    assert stream.n_iter_ == 1 and fit.n_iter_ > 1


@pytest.mark.parametrize("options", [{}, {"algorithm": "mc-ssvi", "max_iter": 30}, {"batch_size": 10, "max_iter": 30}])
@pytest.mark.parametrize("share", [0.6, 0.95])  # of 0.95 the others are fitted beside it
def test_every_count_belongs_to_its_user_and_item(options, share, global_random_seed):
    X, y, _, first, second = split(global_random_seed, share)
    model = PoissonFactorization(**THREE, **options).partial_fit(X[first], y[first])
    assert model.partial_fit(X[second], y[second]) is model
    X = pd.concat([X[first], X[second]])
    ids = np.sort(model.users_), np.sort(model.items_)
    assert set(ids[0]) == set(X["who"]) and set(ids[1]) == set(X["what"])
    users, items = shapes(model)
    np.testing.assert_allclose(users, totals(X, y, ids[0], "who")[ids[0].searchsorted(model.users_)], rtol=1e-9)
    # Steps on ten users have their noise: 0.7 % on average over a dozen seeds, 2.2 % at most.
    assert items.sum() == pytest.approx(y.sum(), rel=0.08 if "batch_size" in options else 1e-3)
    assert model.n_samples_seen_ == len(X)
    starts, seen = model.seen_
    assert len(seen) == len(X) and len(starts) == len(model.users_) + 1
    assert model._counted.counts.sum() == y.sum()


@pytest.mark.costly
@pytest.mark.parametrize("by", ["rows", "users", "items"])
def test_a_stream_comes_near_the_fit_to_all_pairs(by, global_random_seed):
    X, y, _ = plays(global_random_seed, 120, 60)
    key = {"rows": np.arange(len(X)), "users": X["who"], "items": X["what"]}[by]
    order = np.argsort(np.asarray(key), kind="stable")
    fits, streams = [], []
    for state in range(3):  # either ends in a lesser optimum now and then: one in twelve, of some tables one in two
        fits.append(PoissonFactorization(3, uncertainty="variational", random_state=state).fit(X, y))
        streams.append(PoissonFactorization(3, uncertainty="variational", random_state=state))
        for part in np.array_split(order, 7):
            streams[-1].partial_fit(X.iloc[part], y[part])
    batch, stream = max(fits, key=bound), max(streams, key=bound)
    assert stream.lower_bound_ > batch.lower_bound_ - 0.03 * abs(batch.lower_bound_)
    where = [np.argsort(ids) for ids in (stream.users_, stream.items_)]
    expected = (stream.user_factors_ @ stream.components_)[np.ix_(*where)]
    theirs = batch.user_factors_ @ batch.components_
    assert np.corrcoef(np.log(expected).ravel(), np.log(theirs).ravel())[0, 1] > 0.9
    rates = [model.activation_rate_ * model.component_rate_ for model in (stream, batch)]
    assert rates[0] == pytest.approx(rates[1], rel=0.2)


@pytest.mark.costly
def test_a_chunk_that_says_nothing_changes_little(global_random_seed):
    X, y, _ = plays(global_random_seed)
    model = PoissonFactorization(3, tol=1e-7, random_state=0).fit(X, y)
    # Users split their counts as the fit did: as rows that begin anew, some did otherwise, and the bound rose by 2 %.
    counts = [shape.sum(0) for shape in (model.posterior_["users"].shape, model.posterior_["components"].shape.T)]
    own = [len(model.users_) * model.activation_shape, len(model.items_) * model.component_shape]
    np.testing.assert_allclose(counts[0] - own[0], counts[1] - own[1], atol=1e-3 * y.sum())
    for _ in range(2):
        before, bound = model.predict(X), model.lower_bound_
        model.partial_fit(X[:3], np.zeros(3))
        assert bound - 1e-9 * abs(bound) <= model.lower_bound_ < bound + 1e-5 * abs(bound)
        np.testing.assert_allclose(model.predict(X), before, rtol=1e-3)
    model.partial_fit(X[:3].assign(what="new"), np.zeros(3))  # an item that nobody has yet
    shape = model.posterior_["components"].shape[:, -1]
    assert model.items_[-1] == "new" and np.all(shape == pytest.approx(model.component_shape))
    assert model.predict(X[:3].assign(what="new")).max() < model.predict(X).max()


@pytest.mark.costly
def test_counts_are_forgotten_as_weights_are(global_random_seed):
    X, y, _, first, second = split(global_random_seed, 0.6)
    model = PoissonFactorization(**THREE, forgetting=0.5).partial_fit(X[first], y[first])
    model.partial_fit(X[second], y[second])  # so many that all are fitted together
    weight = np.where(np.arange(len(X)) < second.start, 0.5, 1.0)
    batch = PoissonFactorization(**THREE).fit(X, y, weight)
    where = np.argsort(model.users_)
    assert model.state_.counted == pytest.approx(weight.sum())
    np.testing.assert_allclose(model._counted.counts.sum(), (weight * y).sum())
    np.testing.assert_allclose(shapes(model)[0][where], shapes(batch)[0], rtol=1e-9)
    last = X[-2:]
    model.partial_fit(last, [1, 1])  # so few that they are fitted beside the others
    expected = 0.5 * shapes(batch)[0] + totals(last, [1, 1], batch.users_, "who")
    np.testing.assert_allclose(shapes(model)[0][where], expected, rtol=1e-9)
    half = PoissonFactorization(**THREE, half_life=len(X) - second.start).partial_fit(X[first], y[first])
    half.partial_fit(X[second], y[second])
    np.testing.assert_allclose(half._counted.counts.sum(), (weight * y).sum())
    with pytest.raises(ValueError, match=r"forgetting=0.5 and half_life=3"):
        model.set_params(half_life=3).partial_fit(last, [1, 1])


@pytest.mark.costly
def test_streams_go_on_from_files(global_random_seed, tmp_path):
    X, y, _, first, second = split(global_random_seed, 0.95)
    model = PoissonFactorization(**THREE).fit(X[first], y[first])
    model.save(tmp_path / "model.sksvi")
    model.save(tmp_path / "bare.sksvi", training_rows=False)
    whole, bare = sksvi.load(tmp_path / "model.sksvi"), sksvi.load(tmp_path / "bare.sksvi")
    assert bare.seen_ is None
    for each in (model, whole, bare):
        each.partial_fit(X[second], y[second])
    for other in (whole, bare):
        np.testing.assert_array_equal(other.components_, model.components_)
        np.testing.assert_array_equal(other.user_factors_, model.user_factors_)
    whole.save(tmp_path / "again.sksvi")
    again = sksvi.load(tmp_path / "again.sksvi")
    many = X.assign(who=X["who"] + "b")
    for each in (model, again, bare):
        each.partial_fit(many, y)  # more than there were: all are fitted together where they are known
    np.testing.assert_array_equal(again.components_, model.components_)
    assert bare.seen_ is None and len(bare.users_) == len(model.users_)
    assert shapes(bare)[0].sum() == pytest.approx(2 * y.sum())


def test_other_priors_serve_from_then_on(global_random_seed):
    X, y, _, first, second = split(global_random_seed, 0.95)
    model = PoissonFactorization(**THREE).fit(X[first], y[first])
    model.set_params(component_shape=0.1, activation_shape=0.7).partial_fit(X[second], y[second])
    users, items = shapes(model)
    assert users.sum() == pytest.approx(y.sum()) and items.sum() == pytest.approx(y.sum(), rel=0.02)
    with pytest.raises(ValueError, match="n_components was 3"):
        model.set_params(n_components=2).partial_fit(X[second], y[second])


@pytest.mark.parametrize("init", ["random", None])
def test_a_stream_may_begin_with_few_pairs(init, global_random_seed):
    X, y, _ = plays(global_random_seed)
    init = np.random.default_rng(0).random((3, X["what"][:5].nunique())) + 0.1 if init is None else init
    model = PoissonFactorization(**THREE, init=init)
    for part in (slice(0, 5), slice(5, 20), slice(20, None)):
        model.partial_fit(X[part], y[part])
    assert shapes(model)[0].sum() == pytest.approx(y.sum())


def test_threads_change_no_bit_and_errors_nothing(global_random_seed):
    X, y, _, first, second = split(global_random_seed, 0.95, n_users=200)
    one, two = (PoissonFactorization(**THREE, n_jobs=n).fit(X[first], y[first]) for n in (1, 3))
    for model in (one, two):
        model.partial_fit(X[second], y[second])
    np.testing.assert_array_equal(one.components_, two.components_)
    before = dict(vars(one))
    with pytest.raises(ValueError, match=r"y must be counts, y >= 0; found -1"):
        one.partial_fit(X[second], -np.ones(len(X[second])))
    with pytest.raises(ValueError, match="user id in row 0"):
        one.partial_fit(X[second].assign(who=None), y[second])
    assert vars(one) == before or all(vars(one)[name] is value for name, value in before.items())


def test_a_fit_after_a_stream_forgets_it_and_a_warm_one_goes_on(global_random_seed):
    X, y, _, first, second = split(global_random_seed, 0.95)
    model = PoissonFactorization(**THREE).fit(X[first], y[first]).partial_fit(X[second], y[second])
    again = PoissonFactorization(**THREE).fit(X, y)
    streamed = model.lower_bound_
    warm = model.set_params(warm_start=True).fit(X, y)  # to the optimum that the first chunk led to, lesser or not
    assert warm.lower_bound_ > streamed - 1e-3 * abs(streamed)
    model.set_params(warm_start=False).fit(X, y)
    np.testing.assert_array_equal(model.components_, again.components_)


def test_dask_partitions_are_a_stream(global_random_seed):
    dd = pytest.importorskip("dask.dataframe")
    X, y, _ = plays(global_random_seed)
    frame = X.assign(y=y.astype(float))
    parts = dd.from_pandas(frame, npartitions=2)
    model = PoissonFactorization(**THREE).partial_fit(parts[["who", "what"]], parts["y"])
    assert shapes(model)[0].sum() == pytest.approx(y.sum()) and model.n_samples_seen_ == len(X)
