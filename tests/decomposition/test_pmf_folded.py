"""What `fold_in` returns: taken by every method that predicts pairs, as if its users were those of the fit."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

from sksvi import GeneralizedPMF, load
from sksvi.decomposition import FoldedUsers

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

LIKELIHOODS = ["gaussian", "poisson", "logit", "ordinal"]


def ratings(seed, likelihood="gaussian", n_users=30, n_items=20):
    rng = np.random.default_rng(seed)
    U, V = rng.standard_normal((n_users, 2)), rng.standard_normal((n_items, 2))
    users, items = np.nonzero(rng.random((n_users, n_items)) < 0.6)
    f = 0.5 + np.sum(U[users] * V[items], axis=1)
    y = {
        "gaussian": f + 0.3 * rng.standard_normal(len(f)),
        "poisson": rng.poisson(np.exp(np.clip(f, -3, 2))),
        "logit": f + rng.logistic(size=len(f)) > 0,
        "ordinal": np.clip(np.round(f), -1, 2),
    }[likelihood].astype(float)
    return pd.DataFrame({"user": np.char.add("u", users.astype(str)), "film": items}), y


#: What the fit itself says; what corrects it has tests of its own (test_pmf_uncertainty.py).
VARIATIONAL = {"uncertainty": "variational"}


def pmf(likelihood="gaussian", **options):
    return GeneralizedPMF(
        **{"n_components": 2, "max_iter": 8, "random_state": 0, "likelihood": likelihood, **VARIATIONAL, **options}
    )


def known(model, user):
    """A user of the fit as `fold_in` would hold it: a rating of weight nearly zero changes nothing."""
    pairs = pd.DataFrame({"user": user, "film": [model.items_[0]] * len(user)})
    value = 0.0 if not hasattr(model, "levels_") else model.levels_[0]
    return model.fold_in(pairs, np.full(len(user), value), sample_weight=np.full(len(user), 1e-13))


@pytest.mark.parametrize("covariance", ["full", "diag"])
@pytest.mark.parametrize("biases", [True, False])
@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_folded_users_are_predicted_as_those_of_the_fit(likelihood, biases, covariance, global_random_seed):
    """Of users folded in with next to nothing every method says what it says of the fit's own."""
    X, y = ratings(global_random_seed, likelihood)
    model = pmf(likelihood, biases=biases, covariance=covariance).fit(X, y)
    users = list(model.users_[[4, 0, 7]])
    folded = known(model, users)
    chosen = X[X["user"].isin(users)]
    values = y[X["user"].isin(users)]
    close = {"rtol": 1e-6, "atol": 1e-8}
    pairs = folded.pairs(chosen)
    for name in ("predict", "predict_latent", "predict_interval", *["predict_proba"] * hasattr(model, "levels_")):
        np.testing.assert_allclose(getattr(model, name)(pairs), getattr(model, name)(chosen), err_msg=name, **close)
    for name in ("score", "log_predictive_density"):
        asked, own = getattr(model, name)(pairs, values), getattr(model, name)(chosen, values)
        np.testing.assert_allclose(asked, own, err_msg=name, **close)
    draws = (model.sample_y(which, 3, random_state=0) for which in (pairs, chosen))
    assert np.mean(np.isclose(*draws, rtol=1e-4)) > 0.99
    np.testing.assert_allclose(model.transform(pairs), model.transform(chosen), **close)
    every = pd.DataFrame({"user": np.repeat(users, 20), "film": np.tile(model.items_, 3)})
    for name, shape in (("predict", (60,)), ("predict_interval", (60, 2))):
        found = getattr(model, name)(folded)
        assert found.shape == shape
        np.testing.assert_allclose(found, getattr(model, name)(every), **close)
    for strategy in ("mean", "ucb", "thompson"):
        options = {"n": 4, "strategy": strategy, "random_state": 3, "exclude_seen": False}
        ours, theirs = model.recommend(folded, **options), model.recommend(users, **options)
        pd.testing.assert_frame_equal(ours, theirs, rtol=1e-5, atol=1e-7)


def test_recommendations_follow_what_was_folded_in(global_random_seed):
    """The best of what has not been rated, by the user's own posterior; neither the fit's nor the prior's list."""
    X, y = ratings(global_random_seed)
    model = pmf(max_iter=30).fit(X, y)
    rng = np.random.default_rng(global_random_seed)
    tastes = {"left": np.array([2.0, 0.0]), "right": np.array([-2.0, 0.0])}
    known = rng.choice(20, 8, replace=False)
    pairs = pd.DataFrame([(name, film) for name in tastes for film in known], columns=["user", "film"])
    values = np.concatenate([model.item_factors_[known] @ taste for taste in tastes.values()])
    folded = model.fold_in(pairs, values)
    table = model.recommend(folded, n=5)
    assert list(table) == ["user", "film", "rank", "score", "mean", "std"]
    for name in tastes:
        mine = table[table["user"] == name]
        assert list(mine["rank"]) == [1, 2, 3, 4, 5] and not set(mine["film"]) & set(known)
        left = [film for film in model.items_ if film not in known]
        asked = model.predict(folded.pairs(pd.DataFrame({"user": name, "film": left})))
        np.testing.assert_allclose(mine["score"], np.sort(asked)[::-1][:5], rtol=1e-12)
    lists = [list(table.loc[table["user"] == name, "film"]) for name in tastes]
    assert lists[0] != lists[1] and list(model.recommend("left", n=5)["film"]) not in lists
    everything = model.recommend(folded, n=99, exclude_seen=False)
    assert len(everything) == 40
    # What the posterior says is what was folded in, as in the fit.
    assert np.corrcoef(model.predict(folded.pairs(pairs)), values)[0, 1] > 0.95
    one = model.fold_in(pairs[:8], values[:8])
    pd.testing.assert_frame_equal(model.recommend(one, n=5), table[:5], rtol=1e-9)


def test_a_known_user_keeps_what_it_had_rated(global_random_seed):
    X, y = ratings(global_random_seed)
    model = pmf().fit(X, y)
    user = model.users_[0]
    rated = set(X.loc[X["user"] == user, "film"])
    more = next(film for film in model.items_ if film not in rated)
    folded = model.fold_in([(user, more), (user, "never"), (user, None)], [1.0, 2.0, 3.0])
    assert set(model.recommend(folded, n=99)["film"]) == set(model.items_) - rated - {more}
    assert set(model.recommend(user, n=99)["film"]) == set(model.items_) - rated


def test_it_is_small_and_says_who_it_is(global_random_seed, tmp_path):
    X, y = ratings(global_random_seed)
    model = pmf().fit(X, y)
    folded = model.fold_in([("b", 1), ("a", 2), ("b", 3)], [1.0, 0.0, 2.0])
    assert type(folded) is FoldedUsers and len(folded) == 2 and list(folded.ids) == ["b", "a"]
    assert repr(folded) == "FoldedUsers of 2: 'b', 'a'"
    names = {name for name in dir(folded) if not name.startswith("_")}
    assert names == {"ids", "mean", "std", "cov", "bias_mean", "bias_std", "sample", "pairs"}
    assert folded.mean.shape == folded.std.shape == (2, 2) and folded.cov.shape == (2, 2, 2)
    np.testing.assert_allclose(np.sqrt(np.diagonal(folded.cov, axis1=1, axis2=2)), folded.std)
    assert folded.bias_mean.shape == folded.bias_std.shape == (2,) and folded.sample(5, 0).shape == (5, 2, 2)
    np.testing.assert_array_equal(model.transform(folded), folded.mean)
    assert model.set_output(transform="pandas").transform(folded).shape == (2, 2)
    # It goes with its fit, in copies and files of either too.
    model.save(tmp_path / "model.sksvi")
    again = pickle.loads(pickle.dumps(folded))
    np.testing.assert_array_equal(load(tmp_path / "model.sksvi").predict(again), model.predict(folded))


@pytest.mark.parametrize("go_on", [lambda m, X, y: m.partial_fit(X, y), lambda m, X, y: m.fit(X, y + 1)])
def test_users_of_another_fit_are_refused(go_on, global_random_seed):
    """Its factors are turned: what was folded in means something else now."""
    X, y = ratings(global_random_seed)
    model = pmf().fit(X, y)
    folded = model.fold_in([("a", 1)], [1.0])
    pairs = folded.pairs([("a", 2)])
    go_on(model, X, y)
    for ask in (model.predict, model.predict_interval, model.transform, model.recommend):
        for what in (folded, pairs)[: 1 if ask == model.recommend else 2]:
            with pytest.raises(ValueError, match=r"folded into another fit.*fold_in again"):
                ask(what)
    for ask in (pmf().predict, pmf().transform, pmf().recommend):
        with pytest.raises(NotFittedError):
            ask(folded)


def test_pairs_name_users_that_are_folded_in(global_random_seed):
    X, y = ratings(global_random_seed)
    model = pmf().fit(X, y)
    folded = model.fold_in([("a", 1)], [1.0])
    for stranger in ("b", model.users_[0], None):
        with pytest.raises(ValueError, match=r"row 1 of X has the user .*none of these FoldedUsers of 1: 'a'"):
            model.predict(folded.pairs([("a", 1), (stranger, 1)]))
    with pytest.raises(ValueError, match="3 columns"):
        model.predict(folded.pairs([("a", 1, 2)]))
    with pytest.raises(ValueError, match="inconsistent"):
        model.score(folded.pairs([("a", 1)]), [1.0, 2.0])
    with pytest.warns(UserWarning, match="none of the 2 items in column 1 of X"):
        model.predict(folded.pairs([("a", "x"), ("a", "y")]))
    with pytest.raises(TypeError, match="recommend takes users"):
        model.recommend(folded.pairs([("a", 1)]))
    with pytest.raises(ValueError, match="strategy"):
        model.recommend(folded, strategy="best")


def test_folding_in_is_for_strangers(global_random_seed):
    """New users are never refused or told of; items that nobody knows are."""
    X, y = ratings(global_random_seed)
    model = pmf(on_unseen="error").fit(X, y)
    folded = model.fold_in([("a", 1), ("b", 2)], [1.0, 2.0])
    assert len(model.recommend(folded, n=1)) == 2 and len(model.predict(folded)) == 40
    with pytest.raises(ValueError, match="items in column 1 of X that the fit has not seen, the first in row 1"):
        model.fold_in([("a", 1), ("b", 99)], [1.0, 2.0])
