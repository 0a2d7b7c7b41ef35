"""PoissonFactorization: the fit of the matrix, ids, weights, new users and items, intervals, what is refused."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy import stats
from sklearn.base import clone

import sksvi
from sksvi import GammaPoissonFactorization, PoissonFactorization
from sksvi.decomposition import FoldedCounts
from sksvi.decomposition._gamma_fit import in_order
from sksvi.models.nmf.cells import cells
from sksvi.models.nmf.density import CountPredictive

FEW = {"uncertainty": "variational", "n_components": 3, "max_iter": 20, "tol": 0.0, "random_state": 0}
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def plays(seed, n_users=40, n_items=25, mean=3.0):
    """A frame of pairs with text as ids, their counts, and the matrix of users by items, ids sorted."""
    rng = np.random.default_rng(seed)
    rates = mean * rng.gamma(0.3, 1.0, (n_users, 3)) @ rng.gamma(0.3, 1.0, (3, n_items))
    counts = rng.poisson(rates)
    counts[np.arange(n_users), np.arange(n_users) % n_items] += 1  # every user and item is named
    user, item = np.nonzero(counts)
    frame = pd.DataFrame({"who": [f"u{i:02d}" for i in user], "what": [f"i{j:02d}" for j in item]})
    order = rng.permutation(len(frame))
    return frame.iloc[order].reset_index(drop=True), counts[user, item][order], counts


@pytest.mark.parametrize("algorithm", ["cvi", "mc-ssvi"])
def test_a_fit_is_that_of_the_matrix_to_the_bit(algorithm, global_random_seed):
    X, y, counts = plays(global_random_seed)
    model = PoissonFactorization(algorithm=algorithm, **FEW).fit(X, y)
    table = GammaPoissonFactorization(algorithm=algorithm, **FEW).fit(sp.csr_matrix(counts))
    np.testing.assert_array_equal(model.components_, table.components_)
    np.testing.assert_array_equal(model.lower_bounds_, table.lower_bounds_)
    # Users are left as the fit split their counts, new ones and rows begin with nothing: some end at another split.
    order = in_order((table.state_.shown["components"].shape - table.component_shape).sum(1))[1]
    shape, rate = table._activations(cells(sp.csr_matrix(counts)), table.state_.locals.values[:, order])
    np.testing.assert_array_equal(model.user_factors_, shape / rate)
    new = X.assign(who="new " + X["who"]).sort_values(["who", "what"])
    guests = model.fold_in(new, y[new.index])
    np.testing.assert_array_equal(model.transform(guests), table.transform(sp.csr_matrix(counts)))
    assert model.n_samples_seen_ == len(X) and list(model.feature_names_in_) == ["who", "what"]
    mean, std = table.reconstruct(counts, return_std=True)
    where = [ids.searchsorted(X[name]) for ids, name in ((model.users_, "who"), (model.items_, "what"))]
    found = model.predict(guests.pairs(X.assign(who="new " + X["who"])), return_std=True)
    np.testing.assert_allclose(found[0], mean[tuple(where)])
    assert np.all(
        found[1] <= np.sqrt(mean + np.square(std))[tuple(where)] * (1 + 1e-12)
    )  # users of pairs by mean field
    ours, theirs = model.recommend(guests, n=4), table.recommend(counts, n=4)
    assert list(ours) == ["who", "what", "rank", "score", "mean", "std"]
    np.testing.assert_array_equal(ours["what"], model.items_[theirs["column"].to_numpy(int)])
    assert np.all(ours["std"] <= theirs["std"] * (1 + 1e-12))


@pytest.mark.costly
@pytest.mark.parametrize("options", [{}, {"batch_size": 10}, {"algorithm": "mc-ssvi"}])
def test_threads_change_no_bit(options, global_random_seed):
    X, y, _ = plays(global_random_seed, 200)
    one, two = (PoissonFactorization(n_jobs=n, **{**FEW, **options}).fit(X, y) for n in (1, 3))
    np.testing.assert_array_equal(one.components_, two.components_)
    np.testing.assert_array_equal(one.predict(X), two.predict(X))


def test_pairs_add_up_and_weights_are_copies(global_random_seed):
    X, y, _ = plays(global_random_seed)
    model = PoissonFactorization(**FEW).fit(X, y)
    events = X.loc[np.repeat(np.arange(len(X)), y)]
    weight = y.astype(float)
    weighted_out = pd.concat([X, X[:3].assign(who="nobody")])
    for other in (
        PoissonFactorization(**FEW).fit(events),
        PoissonFactorization(**FEW).fit(X, sample_weight=weight),
        PoissonFactorization(**FEW).fit(weighted_out, [*y, 1, 1, 1], [*np.ones(len(X)), 0, 0, 0]),
    ):
        np.testing.assert_array_equal(other.components_, model.components_)
        np.testing.assert_array_equal(other.users_, model.users_)
    twice = PoissonFactorization(**FEW).fit(X, y, np.full(len(X), 2.0))
    np.testing.assert_array_equal(
        twice.components_, PoissonFactorization(**FEW).fit(pd.concat([X, X]), [*y, *y]).components_
    )
    assert twice.n_samples_seen_ == 2 * len(X)


def test_a_zero_names_an_item_and_says_nothing_else(global_random_seed):
    X, y, counts = plays(global_random_seed)
    more = pd.concat([X, pd.DataFrame({"who": ["u00"], "what": ["new"]})])
    model = PoissonFactorization(**FEW).fit(more, [*y, 0])
    wide = np.column_stack([counts, np.zeros(len(counts))])
    table = GammaPoissonFactorization(**FEW).fit(sp.csr_matrix(wide))
    np.testing.assert_array_equal(model.components_, table.components_)
    assert "new" in model.recommend(["u00"], n=99)["what"].tolist()  # nobody has had it, u00 neither


def test_ids_that_are_unseen_or_missing_get_the_prior(global_random_seed):
    X, y, _ = plays(global_random_seed)
    model = PoissonFactorization(**FEW).fit(X, y)
    H, W = 0.3 / model.activation_rate_, 0.3 / model.component_rate_
    asked = [("u01", "strange"), (None, "i03"), ("strange", None)]
    at = [np.flatnonzero(model.users_ == "u01")[0], np.flatnonzero(model.items_ == "i03")[0]]
    expected = [W * model.user_factors_[at[0]].sum(), H * model.components_[:, at[1]].sum(), 3 * H * W]
    np.testing.assert_allclose(model.predict(asked), expected)
    np.testing.assert_allclose(model.transform(asked)[1:], H)
    popular = model.recommend(["strange"], n=25, exclude_seen=False)
    assert popular["what"].tolist() == model.items_[np.argsort(-model.components_.sum(0), kind="stable")].tolist()
    with pytest.raises(ValueError, match=r"users in column 'who' of X that the fit has not seen.*'strange'"):
        model.set_params(on_unseen="error").predict(pd.DataFrame({"who": ["strange"], "what": ["i03"]}))


def test_users_that_are_folded_in_are_those_of_the_matrix(global_random_seed):
    X, y, counts = plays(global_random_seed)
    model = PoissonFactorization(**FEW).fit(X, y)
    table = GammaPoissonFactorization(**FEW).fit(sp.csr_matrix(counts))
    before = model.components_.copy()
    some = X["who"].isin(["u03", "u05"]).to_numpy()
    guests = model.fold_in(X[some].assign(who=X["who"][some].map({"u03": "a", "u05": "b"})), y[some])
    assert type(guests) is FoldedCounts and set(guests.ids) == {"a", "b"}
    assert repr(guests).startswith("FoldedCounts of 2")
    rows = sp.csr_matrix(counts[[{"a": 3, "b": 5}[who] for who in guests.ids]])
    (mean, std), expected = model.transform(guests, return_std=True), table.transform(rows, return_std=True)
    np.testing.assert_array_equal(mean, expected[0])
    assert np.all((std > 0.0) & (std <= expected[1]))
    np.testing.assert_allclose(model.predict(guests).reshape(2, -1), table.reconstruct(rows))
    theirs = table.recommend(rows, n=3)["column"].to_numpy(int)
    assert model.recommend(guests, n=3)["what"].tolist() == model.items_[theirs].tolist()
    known = model.fold_in(pd.DataFrame({"who": ["u03"], "what": ["i07"]}), [2])  # what the fit counted stays
    more = counts[3].copy()
    more[7] += 2
    np.testing.assert_array_equal(known.mean, table.transform(sp.csr_matrix(more[None])))
    assert "i07" not in model.recommend(known, n=99)["what"].tolist()
    np.testing.assert_array_equal(model.components_, before)
    assert model.log_predictive_density(guests.pairs([("a", "i01")])).shape == (1,)
    alone = model.fold_in(pd.DataFrame({"who": ["c", "c"], "what": ["i01", "strange"]}))
    np.testing.assert_array_equal(alone.mean, model.fold_in(pd.DataFrame({"who": ["c"], "what": ["i01"]})).mean)
    with pytest.raises(ValueError, match="folded into another fit"):
        PoissonFactorization(2, max_iter=3, random_state=0).fit(X, y).predict(guests)
    with pytest.raises(ValueError, match="user id in row 0 of X is missing"):
        model.fold_in(pd.DataFrame({"who": [None], "what": ["i01"]}))


def test_a_warm_start_takes_new_users_and_items(global_random_seed):
    X, y, _ = plays(global_random_seed)

    def best(*data):  # starts of so few counts end in optima up to a tenth apart
        models = [PoissonFactorization(3, random_state=s, warm_start=True).fit(*data) for s in range(4)]
        return max(models, key=lambda model: model.lower_bound_)

    model = best(X, y)
    more = pd.concat([X, pd.DataFrame({"who": ["guest", "guest", "u00"], "what": ["i00", "new", "new"]})])
    passes = model.n_iter_
    model.fit(more, [*y, 2, 3, 1])
    assert model.items_[-1] == "new" and "guest" in model.users_ and model.components_.shape == (3, 26)
    assert passes < model.n_iter_ and np.all(model.components_[:, -1] > 0) and model.converged_
    fresh = best(more, [*y, 2, 3, 1])
    assert model.lower_bound_ > fresh.lower_bound_ - 0.03 * abs(fresh.lower_bound_)
    with pytest.raises(ValueError, match="n_components was 3"):
        model.set_params(n_components=2).fit(X, y)


def test_intervals_and_draws_are_of_negative_binomials(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    rate, spread = np.array([0.3, 4.0, 4.0]), np.array([0.05, 9.0, 0.0])
    found = CountPredictive(rate, spread)
    size = np.square(rate[:2]) / spread[:2]
    exact = [stats.nbinom(n, n / (n + m)) for n, m in zip(size, rate[:2], strict=True)] + [stats.poisson(4.0)]
    np.testing.assert_array_equal(found.quantile(np.array([0.1, 0.9])), [law.ppf([0.1, 0.9]) for law in exact])
    np.testing.assert_allclose(found.std(), [law.std() for law in exact])
    logs = [law.logpmf(k) for law, k in zip(exact, [0, 7, 2], strict=True)]
    np.testing.assert_allclose(found.log_prob(np.array([0.0, 7.0, 2.0])), logs)
    draws = found.sample(4000, rng)
    assert np.all(np.abs(draws.mean(1) - rate) < 4 * found.std() / np.sqrt(4000))
    sd = np.array([law.std() * np.sqrt((float(law.stats("k")) + 2) / 4 / 4000) for law in exact])
    assert np.all(np.abs(draws.std(1) - found.std()) < 4 * sd)


@pytest.mark.parametrize("size", [1e8, 1e12, 1e15])
def test_intervals_of_counts_of_any_size(size, global_random_seed):
    """SciPy's quantiles of a negative binomial ended the process from about 1e15 on, and were NaN from 1e11 on."""
    rng = np.random.default_rng(global_random_seed)
    X = np.column_stack([rng.integers(0, 9, 80), rng.integers(100, 107, 80)])
    model = PoissonFactorization(2, overdispersion="none", max_iter=10, random_state=0)
    model.fit(X, rng.poisson(1.0, 80) + size)
    mean = model.predict(X)
    low, high = model.predict_interval(X).T
    assert np.all((low < mean) & (mean < high))
    low, high = model.predict_interval(X, coverage=0.5).T
    assert np.all(np.isfinite(low) & (low <= high))


def test_scores_are_nats_per_pair(global_random_seed):
    X, y, _ = plays(global_random_seed)
    model = PoissonFactorization(**FEW).fit(X, y)
    each, weight = model.log_predictive_density(X, y), 1.0 + np.arange(len(X)) % 3
    assert model.score(X, y, weight) == pytest.approx(np.average(each, weights=weight))
    assert model.score(X) == pytest.approx(model.score(X, np.ones(len(X))))
    low, high = model.predict_interval(X, 0.8).T
    np.testing.assert_array_equal(model.predict_quantiles(X, [0.1, 0.9]), np.column_stack([low, high]))
    assert model.sample_y(X, 5, 0).shape == (len(X), 5)


def test_saved_cloned_and_named(global_random_seed, tmp_path):
    X, y, _ = plays(global_random_seed)
    model = PoissonFactorization(**FEW).fit(X, y)
    model.save(tmp_path / "model.sksvi")
    loaded = sksvi.load(tmp_path / "model.sksvi")
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    pd.testing.assert_frame_equal(loaded.recommend(["u01"]), model.recommend(["u01"]))
    guests = model.fold_in(X[:3].assign(who="new"))
    np.testing.assert_array_equal(loaded.predict(guests), model.predict(guests))
    assert not hasattr(clone(model), "users_")
    named = model.set_output(transform="pandas").transform(X[:2])
    assert list(named.columns) == list(model.get_feature_names_out()) and named.shape == (2, 3)
    assert model.user_covariance_.shape == (40, 3) and model.item_factors_.shape == (25, 3)
    np.testing.assert_allclose(np.sqrt(model.item_covariance_), model.posterior_["components"].std.T)


@pytest.mark.parametrize("convert", [lambda X: X.rename(columns={"who": 3, "what": "x y"}), pd.DataFrame.to_numpy])
def test_columns_may_be_called_anything(convert, global_random_seed):
    X, y, _ = plays(global_random_seed)
    model = PoissonFactorization(**FEW).fit(X, y)
    if isinstance(convert(X), pd.DataFrame):
        X = convert(X).set_axis(["x y", "user"], axis=1)
        other = PoissonFactorization(**FEW).fit(X, y)
        assert list(other.recommend(["u01"], 1))[:2] == ["x y", "user"]
    else:
        X = convert(X)
        other = PoissonFactorization(**FEW).fit(X, y)
    np.testing.assert_array_equal(other.components_, model.components_)


def test_what_is_refused(global_random_seed):
    X, y, _ = plays(global_random_seed)
    with pytest.raises(ValueError, match="item id in row 2 of X is missing"):
        PoissonFactorization().fit(X.assign(what=X["what"].where(X.index != 2)), y)
    with pytest.raises(ValueError, match=r"init.shape == \(2, 4\), expected \(3, 25\)"):
        PoissonFactorization(3, init=np.ones((2, 4))).fit(X, y)
    with pytest.warns(UserWarning, match="y has fractions, and its values that are not 0 have a mean"):
        PoissonFactorization(**FEW).fit(X, y / 100)
    with pytest.raises(TypeError, match="takes no Dask collection"):
        pytest.importorskip("dask.dataframe")
        import dask.dataframe as dd

        PoissonFactorization().fit(dd.from_pandas(X, npartitions=2))
