"""Input of ``GeneralizedPMF``: tables of features, values outside the support, very little data, units."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import coo_array

from sksvi import likelihoods
from tests.decomposition.test_pmf import NAMES, everything, pmf, ratings

# Fits of a few passes: most of what is asked here holds at any q.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


# ---- features
def test_features_inform_those_without_ratings(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    table = pd.DataFrame({"age": 40 + 10 * rng.standard_normal(80), "old": rng.integers(0, 2, 80)}, dtype=float)
    table.loc[5, "age"] = np.nan
    age = table["age"].fillna(40).to_numpy()
    pairs = rng.permutation(np.argwhere(np.ones((80, 12))))[:600]
    y = 0.2 * (age[pairs[:, 0]] - 40) + rng.standard_normal(12)[pairs[:, 1]] + 0.3 * rng.standard_normal(600)
    old = pairs[:, 0] < 60  # the others are in the table alone
    with_table = pmf(user_features=table, max_iter=30).fit(pairs[old], y[old])
    without = pmf(max_iter=30, on_unseen="ignore").fit(pairs[old], y[old])
    assert with_table.score(pairs[~old], y[~old]) > 0.9 > without.score(pairs[~old], y[~old])
    assert np.all(with_table.predict_latent([(70, 1)])[1] < without.predict_latent([(70, 1)])[1])
    low, high = with_table.predict_interval(pairs[~old]).T
    assert np.mean((low < y[~old]) & (y[~old] < high)) > 0.75
    # An id that the table lacks counts as the mean of the ids of the fit; a missing value as its column's.
    means = table.iloc[np.unique(pairs[old, 0])].mean().to_frame().T
    with_mean = pmf(user_features=pd.concat([table, means.set_axis([99])]), max_iter=30).fit(pairs[old], y[old])
    np.testing.assert_allclose(with_mean.predict([(98, 1)]), with_mean.predict([(99, 1)]), rtol=1e-9)
    assert with_table.fold_in([(70, 1)], [0.0]).mean.shape == (1, 2)
    X, item = pairs[:, ::-1], pmf(item_features=table, max_iter=30).fit(pairs[old][:, ::-1], y[old])
    np.testing.assert_allclose(item.score(X[~old], y[~old]), with_table.score(pairs[~old], y[~old]), atol=0.05)


@pytest.mark.parametrize(
    ("table", "error", "text"),
    [
        (np.ones((3, 1)), TypeError, "user_features must be a DataFrame indexed by id"),
        (
            pd.DataFrame({"a": [1.0, 2.0]}, index=["u", "u"]),
            ValueError,
            "user_features has id 'u' in more than one row",
        ),
        (pd.DataFrame({"a": ["x"]}), ValueError, "column 'a' of type"),
        (pd.DataFrame({"a": [np.inf]}), ValueError, "infinite value in column 'a'"),
    ],
)
def test_bad_features_are_refused(table, error, text):
    X, y = ratings()
    with pytest.raises(error, match=text):
        pmf(user_features=table).fit(X, y)


# ---- bad input and small input
@pytest.mark.parametrize(
    ("likelihood", "y", "text"),
    [
        ("gaussian", [1.0, np.nan, 2.0], "NaN"),
        ("gaussian", [1.0, np.inf, 2.0], "infinity"),
        ("poisson", [1.0, -1.0, 2.0], "Poisson needs y >= 0; found -1 in row 1"),
        ("logit", [1.0, 0.0, 2.0], "found 2 in row 2"),
        ("ordinal", [1.0, 1.0, 1.0], "at least two levels"),
        (likelihoods.Binomial(), [1.0, 0.0, 1.0], "choose a scalar one"),
        (likelihoods.Ordinal(cut_points=(0.0,)), [0.0, 1.0, 2.0], "has 2 levels; y has 3"),
    ],
)
def test_values_outside_the_support_are_refused(likelihood, y, text):
    model = pmf(likelihood)
    with pytest.raises(ValueError, match=re.escape(text)):
        model.fit([("a", 1), ("a", 2), ("b", 1)], y)
    assert not [name for name in vars(model) if name.endswith("_")]


def test_bad_tables_are_refused():
    X, y = ratings()
    bad = [
        (X.assign(more=1), "3 columns; GeneralizedPMF takes two"),
        (X["user"], "1 dimension"),
        (X.to_numpy()[:, 0], "takes two"),
        (X.iloc[:0], "no rows"),
        (X.assign(user=None), "every user id of X is missing"),
        (X.assign(item=np.nan), "every item id of X is missing"),
    ]
    for table, text in bad:
        with pytest.raises(ValueError, match=text):
            pmf().fit(table, y)
    with pytest.raises(TypeError, match="sparse matrix; GeneralizedPMF takes a table of pairs"):
        pmf().fit(coo_array(np.eye(3)), y)
    with pytest.raises(TypeError, match="item ids of X contain a list"):
        pmf().fit(pd.DataFrame({"user": [1, 2], "item": [[1], 2]}), [1.0, 2.0])
    for weight, text in ((-np.ones(len(y)), "Negative values"), (np.zeros(len(y)), "zero in every row")):
        with pytest.raises(ValueError, match=text):
            pmf().fit(X, y, sample_weight=weight)


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
@pytest.mark.parametrize("algorithm", ["cvi", "h-mc-ssvi"])
def test_a_missing_id_is_one_of_its_own(method, algorithm, global_random_seed):
    """As if each had an id that nothing else has; afterwards nobody knows of it."""
    X, y = ratings(seed=global_random_seed)
    X = X.astype(object)
    gaps, named = X.copy(), X.copy()
    gaps.loc[[3, 8], "user"], gaps.loc[[2, 8], "item"] = None, np.nan
    # Nameless plates come after the others, and so do these names; streams number them in the order of users.
    named.loc[[3, 8], "user"], named.loc[[2, 8], "item"] = [10**6, 10**6 + 1], [10**6, 10**6 + 1]
    table = pd.DataFrame({"a": np.arange(200.0)}, index=range(200))
    options = {"algorithm": algorithm, "user_features": table, "on_unseen": "ignore"}
    model, asked = (getattr(pmf(**options), method)(Z, y) for Z in (gaps, named))
    np.testing.assert_allclose(model.predict_latent(X), asked.predict_latent(X), rtol=1e-6, atol=1e-8)
    if method == "fit":
        model.set_params(warm_start=True)
    later = pd.concat([gaps, pd.DataFrame({"user": ["new", None], "item": [None, "new"]})])
    for _ in range(2):
        getattr(model, method)(later, np.append(y, [1.0, 0.0]))
        assert set(model.users_) == {"new", *gaps["user"].dropna()} and "new" in model.items_
        assert len(model.user_factors_) == len(model.users_) and len(model.item_biases_) == len(model.items_)
        assert set(model.recommend(X["user"][:1], n=50, exclude_seen=False)["item"]) == set(model.items_)


def test_duplicates_are_repeated_observations(global_random_seed):
    X, y = ratings(seed=global_random_seed)
    once, twice = pmf().fit(X, y), pmf().fit(pd.concat([X, X.head(5)]), np.concatenate([y, y[:5] + 3]))
    assert twice.n_samples_seen_ == len(y) + 5
    moved = twice.predict(X.head(5)) - once.predict(X.head(5))
    assert moved.mean() > 0


@pytest.mark.costly
@pytest.mark.parametrize("name", NAMES)
def test_very_small_and_very_wide(name):
    y, pairs = [1.0, 0.0], [("a", "b"), ("a", "c")]
    model = pmf(name, n_components=5, max_iter=20).fit(pairs, y)
    both = [*pairs, ("a", "x"), ("x", "b"), (None, None)]
    assert not np.any(np.isnan(everything(model, both)))
    assert model.recommend("a").empty and len(model.recommend("x")) == len(y)
    X, y = ratings(name, 3, 4, 3, 1.0)
    for covariance in ("full", "diag"):
        wide = pmf(name, n_components=12, covariance=covariance, max_iter=20).fit(X, y)
        assert not np.any(np.isnan(everything(wide, X))) and wide.user_factors_.shape == (4, 12)


@pytest.mark.parametrize("name", ["gaussian", "poisson", "logit", "ordinal"])
def test_one_single_value_is_an_error(name):
    X, y = ratings(name, 0)
    model = pmf(name)
    with pytest.raises(ValueError, match=f"at least two.*all {len(y)} are 1|at least two levels"):
        model.fit(X, np.ones(len(y)))
    assert not hasattr(model, "users_")


@pytest.mark.parametrize("name", ["logit", "probit", "poisson", "poisson-softplus"])
def test_values_that_are_all_alike_leave_doubt(name, global_random_seed):
    """Of n zeros, which may come first in a stream, more say more, and none says that there is nothing else."""
    X, y = ratings(name, global_random_seed)
    model = pmf(name).partial_fit(X, np.zeros(len(y)))
    little = pmf(name).partial_fit([("a", "b")], [0.0])
    found, first = model.predict(X).mean(), little.predict([("a", "b")])[0]
    at_zero = np.log(2.0) if name == "poisson-softplus" else 0.5  # or less: what a latent of 0 means
    assert 1e-4 < found < 0.1 and found < first < at_zero


@pytest.mark.parametrize("scale", [1e-150, 1e-6, 1e6, 1e150])
def test_units_do_not_matter(scale, global_random_seed):
    X, y = ratings(seed=global_random_seed)
    model, scaled = pmf(tol=0.0).fit(X, y), pmf(tol=0.0).fit(X, scale * y)
    np.testing.assert_allclose(scaled.predict(X) / scale, model.predict(X), rtol=1e-4, atol=1e-5)
