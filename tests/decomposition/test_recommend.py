"""What estimators of pairs recommend and find alike: candidates, strategies, cosines, ids as they were given."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import gamma

from sksvi import GammaPoissonFactorization, GeneralizedPMF, PoissonFactorization

N_USERS, N_ITEMS = 30, 16
OPTIONS = {"tol": 1e-3, "random_state": 0}


def pairs(seed):
    """Two kinds of users, each with half of the items: pairs, counts, and which are there."""
    rng = np.random.default_rng([seed, 44])
    rate = np.where(np.arange(N_USERS)[:, None] % 2 == np.arange(N_ITEMS) % 2, 4.0, 0.3)
    counts = rng.poisson(rate) * (rng.random(rate.shape) < 0.8)
    user, item = np.nonzero(counts)
    named = {"who": [f"u{u}" for u in user], "what": [("i", int(i)) for i in item]}
    return pd.DataFrame(named), counts[user, item].astype(float)


@pytest.fixture(scope="module", params=["ratings", "ratings, variational", "counts", "counts, variational"])
def model(request, global_random_seed):
    kind, _, uncertainty = request.param.partition(", ")
    options = {"n_components": 2, "uncertainty": uncertainty or "corrected", **OPTIONS}
    estimator = GeneralizedPMF(**options) if kind == "ratings" else PoissonFactorization(**options)
    return estimator.fit(*pairs(global_random_seed))


def test_candidates_are_all_that_is_offered(model):
    users, some = ["u1", "u2", "new"], [("i", 3), ("i", 4), ("i", 8)]
    everything = model.recommend(users, n=99, exclude_seen=False)
    chosen = model.recommend(users, n=99, exclude_seen=False, items=some)
    rows = everything[everything["what"].isin(some)].drop(columns="rank").reset_index(drop=True)
    pd.testing.assert_frame_equal(chosen.drop(columns="rank"), rows, rtol=1e-9)
    without = model.recommend(users, n=99, exclude_seen=False, exclude=some)
    assert set(without["what"]) == set(model.items_) - set(some)
    assert set(model.recommend(users, items=some, exclude=some[:1], exclude_seen=False)["what"]) == set(some[1:])
    unseen = model.recommend(["u1"], n=99)["what"]
    assert model.recommend(["u1"], n=99, items=some)["what"].tolist() == [item for item in unseen if item in some]


def test_strategies_order_by_what_they_say(model):
    user = list(model.users_[:3])
    lists = {s: model.recommend(user, 99, False, strategy=s, random_state=0) for s in ("mean", "lower", "ucb")}
    scores = {s: table.sort_values(["who", "what"])["score"].to_numpy() for s, table in lists.items()}
    assert np.all(scores["lower"] < scores["mean"]) and np.all(scores["mean"] < scores["ucb"])
    drawn = [model.recommend(user, 99, False, strategy="thompson", random_state=seed) for seed in (0, 0, 1)]
    pd.testing.assert_frame_equal(drawn[0], drawn[1])
    assert not drawn[0]["score"].equals(drawn[2]["score"])
    for table in (*lists.values(), *drawn):
        assert all(np.all(np.diff(own["score"]) <= 0) for _, own in table.groupby("who"))
    narrow = model.recommend(user, 3, False, "thompson", 0, items=drawn[0]["what"][:1])  # the same draw of all
    assert narrow["score"].iloc[0] == pytest.approx(drawn[0]["score"].iloc[0], rel=1e-5)


def test_quantiles_and_draws_of_counts_have_the_posterior_s_moments(global_random_seed):
    model = PoissonFactorization(2, **OPTIONS).fit(*pairs(global_random_seed))
    asked = {"n": 99, "exclude_seen": False}
    lower = model.recommend(["u1"], strategy="lower", **asked)
    mean, std = lower["mean"].to_numpy(), lower["std"].to_numpy()
    variance = np.square(std) - model.dispersion_ * mean
    np.testing.assert_allclose(lower["score"], gamma.ppf(0.05, np.square(mean) / variance, scale=variance / mean))
    gaps = []
    for seed in range(80):
        drawn = model.recommend(["u1"], strategy="thompson", random_state=seed, **asked)
        gaps.append(drawn["score"].to_numpy() - drawn["mean"].to_numpy())
    # 80 of 80 draws that the variance is of: f has two degrees of freedom, of which a mean square is known to a tenth.
    assert np.mean(np.square(gaps)) == pytest.approx(variance.mean(), rel=0.4)


def test_similar_items_are_those_that_the_same_users_have(model):
    table = model.similar_items(("i", 3), n=7)
    assert list(table) == ["what", "similarity"] and len(table) == 7
    if isinstance(model, PoissonFactorization):  # ratings of what one has been through say little of kinds
        assert {i % 2 for _, i in table["what"]} == {1}
    users = model.similar_users("u4", n=99)
    assert list(users) == ["who", "similarity"] and len(users) == N_USERS - 1 and "u4" not in set(users["who"])
    assert np.all(np.diff(users["similarity"]) <= 0) and users["similarity"].between(-1, 1).all()
    expected = model.user_factors_ @ model.item_factors_.T  # the cosine is that of what is expected of all items
    lengths = np.linalg.norm(expected, axis=1)
    at = list(model.users_).index("u4")
    cosine = pd.Series(expected @ expected[at] / (lengths * lengths[at]), index=model.users_)
    np.testing.assert_allclose(users["similarity"], cosine[users["who"]], rtol=1e-6)


def test_ids_that_the_fit_has_not_are_named(model):
    cases = {
        r"item names 'i3' \(str\), which is none of the items": lambda: model.similar_items("i3"),
        "user names 'u99'": lambda: model.similar_users("u99"),
        "items names 'x'": lambda: model.recommend("u1", items=[("i", 3), "x"]),
        "exclude names 'y'": lambda: model.recommend("u1", exclude="y"),
        "items is empty": lambda: model.recommend("u1", items=[]),
        "n must be an integer": lambda: model.similar_items(("i", 3), n=0),
        "strategy must be one of 'mean', 'lower'": lambda: model.recommend("u1", strategy="best"),
    }
    for message, call in cases.items():
        with pytest.raises(ValueError, match=message):
            call()
    with pytest.raises(TypeError, match="items is a table"):
        model.recommend("u1", items=np.zeros((2, 2)))


def test_columns_of_a_table_may_be_chosen_too(global_random_seed):
    counts = np.random.default_rng(global_random_seed).poisson(1.0, (20, 5))
    frame = pd.DataFrame(counts, columns=list("abcde"))
    model = GammaPoissonFactorization(2, **OPTIONS).fit(frame)
    chosen = model.recommend(frame[:4], exclude_seen=False, items=["b", "d"], exclude=["d"])
    assert chosen["column"].tolist() == ["b"] * 4
    everything = model.recommend(frame[:4], n=5, exclude_seen=False)
    expected = everything[everything["column"] == "b"].set_index("row")["mean"]
    np.testing.assert_array_equal(chosen.set_index("row")["mean"], expected[chosen["row"]])
    with pytest.raises(ValueError, match=r"exclude names 'z'.*columns of the fit"):
        model.recommend(frame[:4], exclude=["z"])
