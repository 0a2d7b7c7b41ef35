"""Implicit feedback: a zero of some weight for every pair, summed in closed form."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from sksvi import GeneralizedPMF
from sksvi.persistence import load

WEIGHT = 2.0


def clicks(seed):
    """Who clicked what, two tastes of 24 users and 16 items, some more often than others."""
    rng = np.random.default_rng(seed)
    alike = np.arange(24)[:, None] % 2 == np.arange(16) % 2
    user, item = np.nonzero(rng.random((24, 16)) < np.where(alike, 0.8, 0.05))
    pairs = pd.DataFrame({"user": [f"u{k}" for k in user], "film": [f"f{k}" for k in item]})
    return pairs, rng.integers(4, 8, len(pairs)).astype(float)


def model(**parameters):
    options = {"n_components": 2, "max_iter": 200, "random_state": 0, "uncertainty": "variational"}
    return GeneralizedPMF(**(options | parameters))


@pytest.fixture(scope="module")
def fitted():
    pairs, weight = clicks(0)
    return model(zero_weight=WEIGHT).fit(pairs, np.ones(len(pairs)), weight)


@pytest.mark.parametrize("biases", [True, False])
def test_zeros_in_closed_form_are_zeros_in_the_table(biases, global_random_seed):
    pairs, weight = clicks(global_random_seed)
    every = pd.MultiIndex.from_product([pairs["user"].unique(), pairs["film"].unique()], names=["user", "film"])
    every = every.to_frame(index=False)
    both = pd.concat([pairs, every], ignore_index=True)
    y = np.append(np.ones(len(pairs)), np.zeros(len(every)))
    options = {"biases": biases, "max_iter": 12, "tol": 0.0}
    with pytest.warns(match="did not converge"):
        closed = model(zero_weight=WEIGHT, **options).fit(pairs, np.ones(len(pairs)), weight)
        table = model(**options).fit(both, y, np.append(weight, np.full(len(every), WEIGHT)))
    for a, b in zip(closed.predict_latent(every), table.predict_latent(every), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-8)
    assert closed.lower_bound_ == pytest.approx(table.lower_bound_) and closed.noise_ == pytest.approx(table.noise_)


def test_a_fit_recommends_what_the_same_taste_has(fitted, tmp_path):
    found = fitted.recommend(["u2", "u3"], n=2, exclude_seen=False)
    parity = found["film"].str[1:].astype(int) % 2
    assert parity.tolist() == [0, 0, 1, 1]
    assert all(int(film[1:]) % 2 == 1 for film in fitted.similar_items("f3", n=4)["film"])
    assert len(fitted.recommend(["u2"], n=2, strategy="thompson", random_state=0)) == 2
    fitted.save(tmp_path / "clicks.sksvi")
    again = load(tmp_path / "clicks.sksvi").recommend(["u2", "u3"], n=2, exclude_seen=False)
    pd.testing.assert_frame_equal(again, found)


def test_new_users_have_zeros_of_all_items(fitted):
    """Given the items, a new user is as one of the fit with the same clicks."""
    pairs, weight = clicks(0)
    mine = (pairs["user"] == "u2").to_numpy()
    new = fitted.fold_in(pairs[mine].assign(user="new"), np.ones(mine.sum()), weight[mine])
    np.testing.assert_allclose(new.mean, fitted.transform(pairs[mine][:1]), atol=0.01)
    with pytest.raises(ValueError, match="'u2' is of the fit"):
        fitted.fold_in(pairs[mine], np.ones(mine.sum()))


def test_zeros_without_a_closed_sum_are_refused():
    pairs, _ = clicks(0)
    y = np.ones(len(pairs))
    for parameters in ({"likelihood": "poisson"}, {"covariance": "diag"}, {"batch_size": 10}):
        with pytest.raises(ValueError, match="zero_weight: zeros of all pairs"):
            model(zero_weight=WEIGHT, **parameters).fit(pairs, y)
    with pytest.raises(ValueError, match="partial_fit"):
        model(zero_weight=WEIGHT).partial_fit(pairs, y)
    with pytest.raises(ValueError, match="y is 0 in every row"):
        model(zero_weight=WEIGHT).fit(pairs, 0 * y)
    with pytest.raises(ValueError, match="zero_weight"):
        model(zero_weight=0.0).fit(pairs, y)
