"""``GeneralizedPMF`` over time: chunks, new users and items, fold-in, files."""

from __future__ import annotations

import pickle
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest

from sksvi import GeneralizedPMF, load
from sksvi.likelihoods import Gaussian
from tests.cases import best_of
from tests.models.factorization import oracles as oracle

# Fits of a few passes: most of what is asked here holds at any q.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

ALGORITHMS = ["cvi", "mc-ssvi", "h-mc-ssvi", "s-dsvi"]


def ratings(seed, n_users=40, n_items=25, k=2, share=0.5, noise=0.3):
    """Pairs and values in random order, then those left out."""
    rng = np.random.default_rng([seed, 21])
    f = 1.0 + 0.5 * rng.standard_normal((n_users, 1)) + 0.5 * rng.standard_normal(n_items)
    f = f + rng.standard_normal((n_users, k)) @ rng.standard_normal((k, n_items))
    values = f + np.sqrt(noise) * rng.standard_normal(f.shape)
    pairs = rng.permutation(np.argwhere(np.ones(f.shape)))
    y = values[tuple(pairs.T)]
    size = int(share * len(y))
    return pairs[:size], y[:size], pairs[size:], y[size:]


#: What the fit itself says; what corrects it has tests of its own (test_pmf_uncertainty.py).
VARIATIONAL = {"uncertainty": "variational"}


def pmf(**options):
    options = {
        "n_components": 2,
        "likelihood": Gaussian(variance=0.3),
        "random_state": 0,
        "max_iter": 50,
        **VARIATIONAL,
        **options,
    }
    return GeneralizedPMF(**options)


def in_chunks(model, X, y, size):
    for first in range(0, len(y), size):
        model.partial_fit(X[first : first + size], y[first : first + size])
    return model


def density(model, X, y):
    return model.log_predictive_density(X, y).mean()


def same(a, b, X):
    """Two models say the same of pairs, bit for bit."""
    return all(np.array_equal(*pair) for pair in zip(a.predict_latent(X), b.predict_latent(X), strict=True))


# ---- chunks
@pytest.mark.parametrize("covariance", ["full", "diag"])
def test_the_first_chunk_is_a_fit(covariance, global_random_seed):
    X, y, test, _ = ratings(global_random_seed)
    model, chunk = pmf(covariance=covariance).fit(X, y), pmf(covariance=covariance).partial_fit(X, y)
    for a, b in zip(model.predict_latent(test), chunk.predict_latent(test), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9)
    assert chunk.n_iter_ == len(chunk.lower_bounds_) == 1 and chunk.n_samples_seen_ == len(y)
    assert chunk.lower_bound_ == pytest.approx(model.lower_bound_, rel=1e-9)


def test_two_chunks_come_near_to_all_at_once(global_random_seed):
    X, y, test, truth = ratings(global_random_seed, 60, 40, share=0.8)
    half = len(y) // 2
    whole = pmf(likelihood="gaussian").fit(X, y)
    stream = best_of(lambda seed: pmf(likelihood="gaussian", random_state=seed).partial_fit(X[:half], y[:half]))
    first = density(stream, test, truth)
    stream.partial_fit(X[half:], y[half:])
    best, found = density(whole, test, truth), density(stream, test, truth)
    assert first < found < best + 0.02
    assert best - found < 0.35 * (best - first)
    distance = (stream.predict_latent(test)[0] - whole.predict_latent(test)[0]) / np.sqrt(whole.predict_latent(test)[1])
    assert np.sqrt(np.mean(np.square(distance))) < 1.0
    assert stream.n_samples_seen_ == len(y) and stream.n_iter_ == 2 and np.isfinite(stream.lower_bound_)


@pytest.mark.costly
@pytest.mark.parametrize("covariance", ["full", "diag"])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize(
    "likelihood", ["gaussian", *(pytest.param(name, marks=pytest.mark.exhaustive) for name in ("logit", "ordinal"))]
)
def test_every_algorithm_takes_chunks_with_new_ids(likelihood, algorithm, covariance, global_random_seed):
    X, y, *_ = ratings(global_random_seed, 12, 8)
    y = {"gaussian": y, "logit": (y > 1).astype(float), "ordinal": np.clip(np.round(y), -1, 3)}[likelihood]
    old = (X[:, 0] < 9) & (X[:, 1] < 6)
    if likelihood == "ordinal":  # the levels are those of the first chunk
        levels = np.unique(y[old])
        y = levels[np.argmin(np.abs(y[:, None] - levels), axis=1)]
    new = ~old
    model = pmf(likelihood=likelihood, algorithm=algorithm, covariance=covariance)
    model.partial_fit(X[~new], y[~new])
    for _ in range(10 if algorithm in ("h-mc-ssvi", "s-dsvi") else 2):
        model.partial_fit(X[new], y[new])
    first, later = np.unique(X[~new, 0]), np.unique(X[new, 0])
    np.testing.assert_array_equal(model.users_, [*first, *later[~np.isin(later, first)]])
    assert model.user_factors_.shape == (len(model.users_), 2) and model.item_biases_.shape == (len(model.items_),)
    spread = model.user_covariance_
    assert np.all(np.isfinite(spread)) and np.all((np.linalg.eigvalsh(spread) if covariance == "full" else spread) > 0)


def test_what_was_learned_is_the_prior_of_what_comes(global_random_seed):
    X, y, *_ = ratings(global_random_seed)
    model = pmf().fit(X, y)
    spread = model.posterior_["users"].std.copy(), model.user_factors_.copy()
    chunk = X[:, 0] < 5
    model.partial_fit(X[chunk], y[chunk])
    # The same ratings once more count as more ratings; users without any stay as they were.
    assert np.all(model.posterior_["users"].std[:5].mean(1) < spread[0][:5].mean(1))
    np.testing.assert_array_equal(model.user_factors_[5:], spread[1][5:])
    np.testing.assert_array_equal(model.posterior_["users"].std[5:], spread[0][5:])


def test_every_plate_has_its_own_clock(global_random_seed):
    X, y, *_ = ratings(global_random_seed)
    model = pmf(algorithm="mc-ssvi", batch_size=4, max_iter=3).fit(X, y)
    assert np.all(model.state_.memory["users"].clock == 3) and np.all(model.state_.memory["items"].clock == 3)
    model = pmf(algorithm="mc-ssvi", max_iter=1).fit(X, y)
    for low, high in ((0, 10), (5, 10)):
        part = (X[:, 0] >= low) & (X[:, 0] < high)
        model.partial_fit(X[part], y[part])
    users, n = model.state_.memory["users"].clock, np.bincount(X[:, 0], minlength=40)
    np.testing.assert_array_equal(users, [2] * 5 + [3] * 5 + [1] * 30)
    np.testing.assert_allclose(model.state_.memory["users"].seen, n * users)
    assert np.all(model.state_.memory["items"].clock >= 1)


def test_total_errors_come_before_any_change(global_random_seed):
    X, y, *_ = ratings(global_random_seed)
    model = pmf(likelihood="poisson").partial_fit(X, np.abs(np.round(y)))
    before = pickle.dumps(model)
    bad = [
        (X, np.where(np.arange(len(y)) == 3, -1.0, 1.0), "y >= 0"),
        (X, np.full(len(y), np.nan), "NaN"),
        (np.full(X.shape, np.nan), np.abs(y), "every user id|user id in row 0"),
        (X[:, :1], np.abs(y), "1 features|1 columns"),
        (X, np.abs(y)[:-1], "inconsistent"),
    ]
    for pairs, values, text in bad:
        for method in (model.partial_fit, model.fit, model.fold_in):
            with pytest.raises(ValueError, match=text):
                method(pairs, values)
    for name, old, new in (
        ("n_components", 2, 3),
        ("likelihood", "poisson", "gaussian"),
        ("covariance", "full", "diag"),
    ):
        with pytest.raises(ValueError, match=f"{name} was '?{old}'?"):
            model.set_params(**{name: new}).partial_fit(X, np.abs(np.round(y)))
        model.set_params(**{name: old})
    assert pickle.dumps(model) == before


@pytest.mark.costly
@pytest.mark.parametrize("expectation", ["monte-carlo", "quadrature", "gauss-hermite"])
@pytest.mark.parametrize("likelihood", ["logit", "student-t", "gaussian"])
def test_every_expectation_takes_chunks(likelihood, expectation, global_random_seed):
    X, y, *_ = ratings(global_random_seed, 12, 8)
    y = (y > 1).astype(float) if likelihood == "logit" else y
    model = pmf(likelihood=likelihood, expectation=expectation, max_iter=12).fit(X[:20], y[:20])
    model.partial_fit(X[20:40], y[20:40]).partial_fit(X[40:], y[40:])
    assert np.isfinite(model.lower_bound_) and model.n_samples_seen_ == len(y)
    assert np.all(np.isfinite(model.predict(X)))


def test_a_population_larger_than_what_was_seen_counts(global_random_seed):
    X, y, *_ = ratings(global_random_seed)
    spread = [
        pmf(algorithm="mc-ssvi", total_samples=total).partial_fit(X, y).posterior_["users"].std.mean()
        for total in (None, len(y), 10 * len(y))
    ]
    assert spread[0] == pytest.approx(spread[1]) and spread[2] < spread[1]


@pytest.mark.costly
def test_first_ratings_that_stand_for_a_population_are_fitted_too(global_random_seed):
    X, y, test, truth = ratings(global_random_seed, 60, 40, share=0.6)
    options = {"algorithm": "mc-ssvi", "total_samples": 3000.0}
    stream = best_of(lambda seed: in_chunks(pmf(random_state=seed, **options), X, y, 60), 2)
    model = best_of(lambda seed: pmf(random_state=seed, **options).fit(X, y), 2)
    np.testing.assert_allclose(stream.state_.memory["users"].seen, np.bincount(X[:, 0])[stream.users_])
    assert density(stream, test, truth) > density(model, test, truth) - 0.2


@pytest.mark.costly
@pytest.mark.parametrize("algorithm", ["cvi", "mc-ssvi", "h-mc-ssvi", "s-dsvi"])
def test_a_stream_after_a_fit_does_not_undo_it(algorithm, global_random_seed):
    """Chunks with a few ratings of each user: their noise is not taken for news."""
    rng = np.random.default_rng([global_random_seed, 21])
    n, left, right = 6000, rng.standard_normal((60, 3)), rng.standard_normal((50, 3))
    X = np.column_stack([rng.integers(0, 60, n), rng.integers(0, 50, n)])
    y = np.sum(left[X[:, 0]] * right[X[:, 1]], axis=1) + 0.7 * rng.standard_normal(n)
    test = slice(4500, n)
    model = pmf(n_components=4, algorithm=algorithm, max_iter=60).fit(X[:2000], y[:2000])

    def scores():
        return model.log_predictive_density(X[test], y[test])

    # What a chunk gains is a mean over 1,500 ratings, of the same ones before and after: its standard error is known.
    first, gains = scores(), []
    for rows in np.array_split(np.arange(2000, 4500), 10):
        model.partial_fit(X[rows], y[rows])
        gains.append(scores() - first)
    assert min(gain.mean() + 4 * gain.std() / np.sqrt(len(first)) for gain in gains) > -0.05
    assert gains[-1].mean() > -4 * gains[-1].std() / np.sqrt(len(first))


def test_features_of_new_ids_come_with_a_new_table(global_random_seed):
    X, y, *_ = ratings(global_random_seed)
    old, later = X[:, 0] < 30, X[:, 0] >= 30
    table = pd.DataFrame({"a": np.linspace(-1, 1, 40), "b": np.arange(40) % 2}, dtype=float)
    y = y + 3 * table["a"].to_numpy()[X[:, 0]]
    model = pmf(user_features=table.iloc[:30]).partial_fit(X[old], y[old])
    whole = pmf(user_features=table).partial_fit(X[old], y[old])
    few = np.flatnonzero(later)[:3]
    model.set_params(user_features=table).partial_fit(X[few], y[few])
    whole.partial_fit(X[few], y[few])
    for a, b in zip(model.predict_latent(X), whole.predict_latent(X), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)
    before = model.predict(X)
    for bad in (table[["b", "a"]], table.assign(c=1.0)):
        with pytest.raises(ValueError, match="user_features has columns"):
            model.set_params(user_features=bad).partial_fit(X, y)
    np.testing.assert_array_equal(model.predict(X), before)


def test_cvi_refuses_a_part_of_a_column(global_random_seed):
    X, y, *_ = ratings(global_random_seed)
    for method in ("fit", "partial_fit"):
        with pytest.raises(ValueError, match=r"keeps one site per user or item.*batch_size=3"):
            getattr(pmf(batch_size=3), method)(X, y)
    largest = max(np.bincount(X[:, 0]).max(), np.bincount(X[:, 1]).max())
    assert same(pmf(batch_size=int(largest)).fit(X, y), pmf().fit(X, y), X)


def test_ordinal_levels_are_those_of_the_first_chunk(global_random_seed):
    X, y, *_ = ratings(global_random_seed)
    y = np.clip(np.round(y), 0, 3)
    model = pmf(likelihood="ordinal").partial_fit(X, y)
    with pytest.raises(ValueError, match="not in levels_: 4"):
        model.partial_fit(X, y + 1)


# ---- fold-in
def test_fold_in_is_the_column_s_exact_solution(global_random_seed):
    """Gaussian ratings: one linear solve given the items' q, and no change of the estimator."""
    X, y, *_ = ratings(global_random_seed)
    model = pmf(biases=False, prior_covariance="spherical").fit(X, y)
    before = pickle.dumps(model)
    rng = np.random.default_rng(global_random_seed)
    pairs = pd.DataFrame({0: np.repeat(["p", "q"], [6, 3]), 1: rng.integers(0, 25, 9)})
    values = rng.standard_normal(9)
    folded = model.fold_in(pairs, values)
    items = oracle.Factors(model.item_factors_, model.item_covariance_)
    variance = np.exp(-model.state_.q["users_precision"].value[0])
    row = np.repeat([0, 1], [6, 3])
    exact = oracle.gaussian_side(row, pairs[1], values, items, 2, 0.3, variance, model._encoding.offset)
    np.testing.assert_allclose(folded.mean, exact.mean, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(folded.cov, exact.cov, rtol=1e-8, atol=1e-9)
    assert list(folded.ids) == ["p", "q"] and folded.bias_mean is None
    assert pickle.dumps(model) == before
    # A known user starts from what is known: as if all its ratings were there.
    more = model.fold_in([(3, 4), (3, 4)], [0.5, 1.5])
    known = model.posterior_["users"]
    moment = items.cov[4] + np.outer(items.mean[4], items.mean[4])
    precision = np.linalg.inv(known.cov[3]) + 2 * moment / 0.3
    linear = np.linalg.solve(known.cov[3], known.mean[3]) + (2.0 - 2 * model._encoding.offset) * items.mean[4] / 0.3
    np.testing.assert_allclose(more.cov[0], np.linalg.inv(precision), rtol=1e-7)
    np.testing.assert_allclose(more.mean[0], np.linalg.solve(precision, linear), rtol=1e-7, atol=1e-8)


def test_fold_in_settles_where_the_gradient_is_the_prior_s(global_random_seed):
    X, y, *_ = ratings(global_random_seed)
    model = pmf(likelihood="logit", biases=False, prior_covariance="spherical").fit(X, (y > 1).astype(float))
    pairs, values = np.array([[77, 1], [77, 4], [77, 9], [77, 11]]), np.array([1.0, 0.0, 0.0, 1.0])
    folded = model.fold_in(pairs, values)
    items = oracle.Factors(model.item_factors_, model.item_covariance_)
    users = oracle.Factors(folded.mean, folded.cov)
    swapped = np.column_stack([pairs[:, 1], np.zeros(4, int)])
    d, D = oracle.surrogate_gradient(oracle.logit(), swapped, values, items, users, (model._encoding.offset, 0.0))
    precision = np.exp(model.state_.q["users_precision"].value[0])
    np.testing.assert_allclose(d, precision * folded.mean, atol=2e-3)
    np.testing.assert_allclose(np.linalg.inv(folded.cov), precision * np.eye(2) - 2 * D, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("covariance", ["full", "diag"])
def test_fold_in_is_near_to_a_chunk_of_one_user(covariance, global_random_seed):
    """Few ratings of one user move the items less than what is unknown of the user: at most 0.7 of it in 60 seeds."""
    X, y, *_ = ratings(global_random_seed)
    model = pmf(covariance=covariance).fit(X, y)
    pairs, values = np.array([[77, 1], [77, 4], [77, 9]]), np.array([1.0, 0.0, 2.0])
    folded = model.fold_in(pairs, values)
    weighted = model.fold_in(pairs[[0, 1]], values[[0, 1]], sample_weight=[2.0, 1.0])
    repeated = model.fold_in(pairs[[0, 0, 1]], values[[0, 0, 1]])
    np.testing.assert_allclose(weighted.mean, repeated.mean, rtol=1e-6, atol=1e-8)
    model.partial_fit(pairs, values)
    plate = list(model.users_).index(77)
    np.testing.assert_allclose(folded.mean[0], model.user_factors_[plate], atol=folded.std.max())
    np.testing.assert_allclose(folded.std[0], model.posterior_["users"].std[plate], rtol=0.2)
    assert folded.bias_mean == pytest.approx(model.user_biases_[plate], abs=0.5 * folded.bias_std[0])
    assert folded.sample(5, 0).shape == (5, 1, 2)


def test_fold_in_of_unknown_items_says_little(global_random_seed):
    X, y, *_ = ratings(global_random_seed)
    model = pmf(on_unseen="ignore").fit(X, y)
    known, unknown = model.fold_in([("a", 1)], [3.0]), model.fold_in([("a", "never"), ("a", None)], [3.0, 3.0])
    assert np.all(np.isfinite(unknown.mean)) and np.abs(unknown.mean).max() < np.abs(known.mean).max()
    with pytest.raises(ValueError, match="user id in row 1 of X is missing"):
        model.fold_in([("a", 1), (None, 2)], [1.0, 2.0])
    with pytest.raises(ValueError, match="inconsistent"):
        model.fold_in([("a", 1)], [1.0, 2.0])


# ---- files
IDS = {
    "int": lambda codes: codes * 7 - 3,
    "big int": lambda codes: codes + 2**62,
    "str": lambda codes: np.char.add("u", codes.astype(str)),
    "mixed": lambda codes: pd.Series([c if c % 3 else f"u{c}" for c in codes.tolist()], dtype=object),
    "tuple": lambda codes: pd.Series([(c, "x") if c % 2 else (c,) for c in codes.tolist()], dtype=object),
    "pair": lambda codes: pd.Series([(c, c + 1) for c in codes.tolist()], dtype=object),
    "float": lambda codes: codes / 2.0,
    "time": lambda codes: pd.to_datetime(codes, unit="D"),
    "category": lambda codes: pd.Categorical(np.char.add("u", codes.astype(str))),
    "string": lambda codes: pd.array(np.char.add("u", codes.astype(str)), dtype="string"),
}


@pytest.mark.parametrize("kind", IDS)
def test_ids_of_any_kind_are_found_again(kind, tmp_path, global_random_seed):
    X, y, test, _ = ratings(global_random_seed, 12, 9, share=0.8)
    table, later = (pd.DataFrame({"user": IDS[kind](a[:, 0]), "item": IDS[kind](a[:, 1])}) for a in (X, test))
    plain, model = pmf(max_iter=3).fit(X, y), pmf(max_iter=3, on_unseen="ignore").fit(table, y)
    # Ids without an order stay as they came, so that the first factors are others.
    if kind not in ("mixed", "tuple"):
        np.testing.assert_allclose(np.sort(model.predict(later)), np.sort(plain.predict(test)), rtol=0.3, atol=0.3)
    model.save(tmp_path / "model.sksvi")
    again = load(tmp_path / "model.sksvi")
    assert same(again, model, later) and list(again.users_) == list(model.users_)
    assert type(again.users_[0]) is type(model.users_[0])
    users = list(table["user"][:3])
    pd.testing.assert_frame_equal(again.recommend(users, n=2), model.recommend(users, n=2))
    # Known ids are known, others have the prior's spread.
    unknown = model.predict_latent([("nobody", "nothing")] if kind != "time" else [(None, None)])[1]
    assert np.all(model.predict_latent(table)[1] < unknown)
    model.partial_fit(table[:9], y[:9])
    assert len(model.users_) == 12 and same(again.partial_fit(table[:9], y[:9]), model, later)


@pytest.mark.costly
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_stream_goes_on_from_a_file_or_a_fit(algorithm, tmp_path, global_random_seed):
    X, y, test, truth = ratings(global_random_seed, 60, 40, share=0.8)
    half = len(y) // 2
    options = {"likelihood": "gaussian", "algorithm": algorithm, "max_iter": 20}
    model = best_of(lambda seed: pmf(random_state=seed, **options).fit(X[:half], y[:half]))
    first = density(model, test, truth)
    model.save(tmp_path / "model.sksvi")
    again = load(tmp_path / "model.sksvi")
    for part in np.array_split(np.arange(half, len(y)), 3):
        model.partial_fit(X[part], y[part])
        again.partial_fit(X[part], y[part])
    assert same(model, again, test) and model.lower_bound_ == again.lower_bound_
    # A step of AdaGrad's default rate on a chunk is too long to keep what a fit had found.
    # So few ratings tell densities apart by 0.02 at best.
    assert density(model, test, truth) > first - 0.02 or algorithm in ("h-mc-ssvi", "s-dsvi")
    assert model.n_samples_seen_ == len(y)
    np.testing.assert_array_equal(model.state_.memory["users"].seen, np.bincount(X[:, 0], minlength=60))


def test_warm_start_takes_new_ids(global_random_seed):
    X, y, test, truth = ratings(global_random_seed)
    old = (X[:, 0] < 35) & (X[:, 1] < 20)
    model = best_of(lambda seed: pmf(warm_start=True, random_state=seed).fit(X[old], y[old]))
    passes = model.n_iter_
    model.fit(X, y)
    whole = pmf().fit(X, y)
    assert model.n_iter_ > passes and model.user_factors_.shape == (40, 2)
    assert density(model, test, truth) > density(whole, test, truth) - 0.05


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_pair_is_remembered_once_however_often_it_comes(tmp_path):
    rng = np.random.default_rng(0)
    pairs, y = np.column_stack([rng.integers(0, 9, 60), rng.integers(0, 7, 60)]), rng.standard_normal(60)
    model = GeneralizedPMF(n_components=1, max_iter=2, warm_start=True, random_state=0).fit(pairs, y)
    once = [part.copy() for part in model.seen_]
    assert len(once[1]) == len(np.unique(pairs, axis=0)) < 60
    model.fit(pairs, y).partial_fit(pairs[:20], y[:20])
    for part, its in zip(model.seen_, once, strict=True):
        np.testing.assert_array_equal(part, its)
    model.partial_fit([[3, 50], [77, 2]], [0.5, 1.0])
    starts, items = model.seen_
    rated = [set(model.items_[items[a:b]]) for a, b in pairwise(starts)]
    for user, of in zip(model.users_, rated, strict=True):
        told = {*pairs[pairs[:, 0] == user, 1], *([50] if user == 3 else []), *([2] if user == 77 else [])}
        assert of == told


@pytest.mark.costly
@pytest.mark.parametrize("chunk", [500, 1000])
def test_a_stream_from_scratch_keeps_its_factors(chunk, global_random_seed):
    """A first chunk of five entries per user has no evidence for factors; what it shrank to zero never came back."""
    rng = np.random.default_rng(global_random_seed)
    U, V = rng.standard_normal((100, 3)), rng.standard_normal((50, 3))
    X = np.column_stack([rng.integers(0, 100, 8000), rng.integers(0, 50, 8000)])
    y = np.sum(U[X[:, 0]] * V[X[:, 1]], axis=1) + 0.3 * rng.standard_normal(8000)
    stream, test = GeneralizedPMF(6, random_state=0), slice(6000, None)
    for start in range(0, 6000, chunk):
        stream.partial_fit(X[start : start + chunk], y[start : start + chunk])
    assert stream.score(X[test], y[test]) > 0.85


@pytest.mark.costly
@pytest.mark.parametrize("algorithm", ["cvi", pytest.param("mc-ssvi", marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize("order", [pytest.param("at random", marks=pytest.mark.exhaustive), "by user"])
def test_chunks_of_a_rating_or_less_for_each_id_come_near_to_a_fit(order, algorithm, tmp_path, global_random_seed):
    """What few ratings say was read while both sides were near zero, and left biases alone.

    Ids are missing here and there, and the stream goes on from files.
    """
    rng = np.random.default_rng(global_random_seed)
    n, left, right = 6000, rng.standard_normal((120, 3)), rng.standard_normal((80, 3))
    codes = np.column_stack([rng.integers(0, 120, n), rng.integers(0, 80, n)])
    y = np.sum(left[codes[:, 0]] * right[codes[:, 1]], axis=1) + 0.7 * rng.standard_normal(n)
    X = pd.DataFrame(codes, columns=["user", "item"]).astype(object)
    for column in X:
        X.loc[rng.random(n) < 0.02, column] = None
    rows, test = np.arange(4800), slice(4800, None)
    fit = GeneralizedPMF(6, random_state=0, **VARIATIONAL).fit(X.iloc[rows], y[rows])
    rows = rows[np.argsort(codes[rows, 0], kind="stable")] if order == "by user" else rows
    stream, kept = GeneralizedPMF(6, algorithm=algorithm, random_state=0, **VARIATIONAL), []
    for number, part in enumerate(np.array_split(rows, 24)):
        stream.partial_fit(X.iloc[part], y[part])
        kept.append(0 if stream._first_rows is None else len(stream._first_rows))
        if number in (1, 7):
            stream.save(tmp_path / "model")
            stream = load(tmp_path / "model")
    assert stream.score(X[test], y[test]) > fit.score(X[test], y[test]) - 0.1
    assert stream.n_samples_seen_ == len(rows) and stream.n_iter_ == 24 == len(stream.lower_bounds_)
    # All of them are kept until they are enough, and none from then on.
    enough = kept.index(0)
    assert kept[:enough] == [200 * (k + 1) for k in range(enough)] and not any(kept[enough:])


def test_what_a_file_says_of_first_ratings_is_checked(tmp_path, global_random_seed):
    X, y, *_ = ratings(global_random_seed, 60, 50, share=0.1)
    stream = pmf().partial_fit(X, y)
    stream.save(tmp_path / "model")
    assert stream._without_rows()._first_rows is None
    for wrong, why in (([[60.0, 0.0]], "_first_rows.X"), ([[0.0, -2.0]], "below -1"), ([[0.5, 0.0]], "_first_rows.X")):
        stream._first_rows = replace(stream._first_rows, X=np.array(wrong), y=y[:1])
        stream.save(tmp_path / "model")
        with pytest.raises(ValueError, match=why):
            load(tmp_path / "model")
