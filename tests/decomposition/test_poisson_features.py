"""PoissonFactorization with tables of features: cold starts, noise, streams, users folded in, files."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import sksvi
from sksvi import PoissonFactorization
from sksvi.metrics import ndcg_score
from support.cold_starts import ColdStarts, K

SHAPES = {"component_shape": 1.0, "activation_shape": 1.0}
FEW = {"uncertainty": "variational", "overdispersion": "none", "random_state": 0, "on_unseen": "ignore", **SHAPES}
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.fixture(scope="module")
def truth(global_random_seed):
    return ColdStarts(global_random_seed)


@pytest.fixture(scope="module")
def fits(truth):
    tables = {
        "none": {},
        "both": {"user_features": truth.users, "item_features": truth.items},
        "noise": {"user_features": truth.noise},
    }
    return {name: PoissonFactorization(K, **FEW, **given).fit(truth.X, truth.y) for name, given in tables.items()}


def gains(fits, name, pairs, y):
    """Log probability of pairs beyond that without features, summed by user, nats."""
    gain = fits[name].log_predictive_density(pairs, y) - fits["none"].log_predictive_density(pairs, y)
    return gain.reshape(len(pd.unique(pairs["user"])), -1).sum(1)


@pytest.mark.parametrize("cold", ["users", "items", "both"])
def test_features_inform_those_without_counts(cold, truth, fits):
    users = np.arange(200) if cold == "items" else np.arange(200, 300)
    items = np.arange(60) if cold == "users" else np.arange(60, 80)
    gain = gains(fits, "both", *truth.pairs(users, items))
    assert gain.mean() > 0.0  # about three to ten of its standard errors


def test_recommendations_to_new_users_are_their_own(truth, fits):
    pairs, y = truth.pairs(np.arange(200, 300), np.arange(60))
    held = pairs[y > 0]
    found = [ndcg_score(held, fits[name].recommend(pd.unique(held["user"]), 10), k=10) for name in ("both", "none")]
    assert found[0] > found[1] + 0.03, found
    assert fits["both"].lower_bound_ > fits["none"].lower_bound_ + 20.0


def test_noise_costs_nothing_to_speak_of(truth, fits):
    gain = gains(fits, "noise", *truth.pairs(np.arange(200, 300), np.arange(60)))
    useful = gains(fits, "both", *truth.pairs(np.arange(200, 300), np.arange(60)))
    assert gain.mean() > -0.05 * useful.mean() - 4.0 * gain.std() / np.sqrt(len(gain))
    assert fits["noise"].lower_bound_ > fits["none"].lower_bound_ - 20.0


def test_a_known_id_is_no_stranger_and_others_have_the_mean(truth, fits):
    model = fits["both"]
    q = model.posterior_["activation_coefficients"]
    mean = model.activation_shape / model.activation_rate_
    np.testing.assert_allclose(model.transform([("stranger", "i0")])[0], mean)
    new = model.transform([("u250", "i0"), ("u251", "i0")])
    assert np.all(np.abs(np.log(new / mean)).max(1) > 0.05)
    assert q.mean.shape == (K, 4) and model.posterior_["component_coefficients"].mean.shape == (K, 3)


def test_a_unit_changes_nothing(truth, fits):
    scaled = truth.users * [1.0, 1.0, 1.0, 1e4] + [0.0, 0.0, 5.0, 1e5]
    model = PoissonFactorization(K, **FEW, user_features=scaled, item_features=truth.items).fit(truth.X, truth.y)
    pairs, _ = truth.pairs([3, 250], [1, 70])
    np.testing.assert_allclose(model.predict(pairs), fits["both"].predict(pairs), rtol=1e-5)


def test_users_that_are_folded_in_keep_their_features(truth, fits):
    model, (pairs, y) = fits["both"], truth.pairs([1, 5], np.arange(60))
    users = [f"u{i}" for i in range(250, 300)]
    unseen = pd.DataFrame({"user": users, "item": "i0"})
    nothing = model.fold_in(unseen, np.zeros(50))  # zeros name a user and say nothing that an absent pair would not
    own = [np.log(mean) - np.log(mean).mean(axis=0) for mean in (nothing.mean, model.transform(unseen))]
    assert np.corrcoef(*(part.ravel() for part in own))[0, 1] > 0.8
    whole = model.fold_in(pairs.assign(user="u2" + pairs["user"].str[1:]), y)
    assert np.all(np.isfinite(model.predict(whole)))


def test_a_stream_takes_new_ids_with_their_features(truth):
    half = truth.X["user"].isin([f"u{i}" for i in range(100)]).to_numpy()
    model = PoissonFactorization(K, **FEW, user_features=truth.users[:100], item_features=truth.items)
    model.partial_fit(truth.X[half], truth.y[half])
    model.set_params(user_features=truth.users).partial_fit(truth.X[~half], truth.y[~half])
    once = PoissonFactorization(K, **FEW, user_features=truth.users, item_features=truth.items).fit(truth.X, truth.y)
    pairs, y = truth.pairs(np.arange(200, 300), np.arange(60))
    scores = [fit.score(pairs, y) for fit in (model, once)]
    assert scores[0] > 1.1 * scores[1], scores
    with pytest.raises(ValueError, match="user_features has columns"):
        model.set_params(user_features=truth.noise).partial_fit(truth.X, truth.y)
    with pytest.raises(ValueError, match=r"user_features was True .* cannot change it"):
        model.set_params(user_features=None).partial_fit(truth.X, truth.y)


@pytest.mark.costly
def test_overdispersed_counts_draws_files_and_threads(truth, tmp_path):
    options = {"user_features": truth.users, "item_features": truth.items, "overdispersion": "negative-binomial"}
    one, two = (
        PoissonFactorization(K, random_state=0, max_iter=5, n_jobs=n, **options).fit(truth.X, truth.y) for n in (1, 3)
    )
    pairs, _ = truth.pairs([3, 250], [1, 70])
    np.testing.assert_array_equal(one.predict(pairs, return_std=True), two.predict(pairs, return_std=True))
    assert one.draws_ is not None and one.dispersion_ > 1.0
    sksvi.save(one, tmp_path / "m.sksvi")
    again = sksvi.load(tmp_path / "m.sksvi")
    np.testing.assert_array_equal(again.predict(pairs), one.predict(pairs))
    guests = [model.fold_in(pairs[:1], [2]).mean for model in (one, again)]
    np.testing.assert_array_equal(*guests)


@pytest.mark.parametrize(
    "table, error, message",
    [
        (np.ones((3, 1)), TypeError, "item_features must be a DataFrame indexed by id"),
        (pd.DataFrame({"c": ["red"]}, index=["i0"]), ValueError, "item_features has column 'c'.*get_dummies"),
    ],
)
def test_tables_that_cannot_be_read(table, error, message, truth):
    with pytest.raises(error, match=message):
        PoissonFactorization(K, **FEW, item_features=table).fit(truth.X, truth.y)
