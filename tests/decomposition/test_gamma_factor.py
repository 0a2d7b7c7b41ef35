"""GammaFactorModel: doors, densities, units, streams, odd tables."""

from __future__ import annotations

import copy
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import linear_sum_assignment
from scipy.special import logsumexp
from scipy.stats import multivariate_normal
from sklearn.base import clone
from sklearn.decomposition import FactorAnalysis
from sklearn.utils.estimator_checks import parametrize_with_checks

import sksvi
from sksvi import GammaFactorModel
from sksvi.algorithms import CVI, SDSVI
from sksvi.decomposition._gamma_factor_methods import densities
from sksvi.expectations import MonteCarlo
from sksvi.schedules import AdaDelta, Constant

KINDS = [0.1, "auto", "per-feature"]


@parametrize_with_checks([GammaFactorModel(2), GammaFactorModel(1, noise_variance="auto", fit_mean=False)])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.exhaustive
@parametrize_with_checks(
    [
        GammaFactorModel(2, noise_variance="per-feature"),
        GammaFactorModel(2, algorithm="mc-ssvi", init="random"),
        GammaFactorModel(2, algorithm="s-dsvi", max_iter=10),
    ]
)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_scikit_learn_checks_of_other_fits(estimator, check):
    check(estimator)


def rows(seed, n=200, d=6, k=2, noise=0.3):
    rng = np.random.default_rng(seed)
    loadings = rng.uniform(0.5, 1.5, (k, d)) * (np.arange(d) % k == np.arange(k)[:, None])
    return rng.standard_normal((n, k)) @ loadings + noise * rng.standard_normal((n, d)), loadings


# ---- what is found
def test_parts_are_found(global_random_seed):
    X, loadings = rows(global_random_seed, 2000)
    model = GammaFactorModel(2, noise_variance="per-feature", random_state=global_random_seed).fit(X + 5.0)
    assert model.converged_ and np.all(model.components_ >= 0)
    closest = np.abs(model.components_[:, None] - loadings).max(-1).min(1)
    assert np.all(closest < 0.2)
    np.testing.assert_allclose(model.noise_variance_, 0.09, rtol=0.3)
    np.testing.assert_allclose(model.mean_, X.mean(0) + 5.0, rtol=1e-9)
    assert np.all(np.diff(np.square(model.components_ / model.scale_).sum(1)) <= 1e-3)
    table = model.summary()
    assert list(table.index.names) == ["component", "feature"] and len(table) == 12 + 6
    np.testing.assert_allclose(np.square(table["mean"][12:]), model.noise_variance_, rtol=0.1)
    # Wider than that of 2,000 draws, as factors may explain a part of it.
    noise = table[12:]
    assert np.all(np.abs(noise["mean"] - 0.3) < 5 * noise["std"])
    assert np.all(noise["std"] > noise["mean"] / np.sqrt(4000))
    assert np.all((table.lower <= table["mean"]) & (table["mean"] <= table.upper))
    assert model.posterior_["loadings"].sample(7, 0).shape == (7, 2, 6)


def test_densities_average_over_the_posterior(global_random_seed):
    X, _ = rows(global_random_seed, 40)
    model = GammaFactorModel(3, fit_mean=True, uncertainty="variational", random_state=0).fit(X)
    wide = 1.0 + 1.0 / 40
    plain = multivariate_normal(model.mean_, wide * model.get_covariance()).logpdf(X)
    np.testing.assert_allclose(model.score_samples(X, plug_in=True), plain, rtol=1e-9)
    draws = model.posterior_["loadings"].sample(2000, 1)
    each = [
        multivariate_normal(model.mean_, wide * (L.T @ L + np.diag(model.noise_variance_))).logpdf(X) for L in draws
    ]
    direct = logsumexp(each, axis=0) - np.log(len(each))
    error = np.exp(np.array(each) - direct).std(0) * np.sqrt(1 / 2000 + 1 / 512)
    assert np.all(np.abs(model.score_samples(X, n_draws=512) - direct) <= 5 * error)
    np.testing.assert_array_equal(model.score_samples(X), model.log_predictive_density(X))
    assert model.score(X) == pytest.approx(model.score_samples(X).mean())


def test_covariances_are_those_of_the_posterior(global_random_seed):
    model = GammaFactorModel(3, fit_mean=True, uncertainty="variational", random_state=0)
    model.fit(rows(global_random_seed, 40)[0])
    draws = model.posterior_["loadings"].sample(4000, global_random_seed)
    each = np.swapaxes(draws, 1, 2) @ draws + np.diag(model.noise_variance_)
    error = each.std(0) / np.sqrt(4000)
    assert np.all(np.abs(model.get_covariance() - each.mean(0)) <= 5 * error + 1e-12)
    np.testing.assert_allclose(model.get_precision() @ model.get_covariance(), np.eye(6), atol=1e-9)
    drawn = model.sample(20_000, global_random_seed)
    wide = model.get_covariance() * (1 + 1 / 40)
    assert np.all(np.abs(np.cov(drawn.T) - wide) <= 6 * np.sqrt(2.0 / 20_000) * np.sqrt(np.outer(*[np.diag(wide)] * 2)))
    assert np.all(np.abs(drawn.mean(0) - model.mean_) <= 5 * np.sqrt(np.diag(wide) / 20_000))


def test_factors_are_those_of_factor_analysis_at_the_same_loadings(global_random_seed):
    X, _ = rows(global_random_seed, 3000)
    model = GammaFactorModel(2, noise_variance="auto", random_state=0).fit(X)
    peer = FactorAnalysis(2).fit(X)
    peer.components_, peer.noise_variance_, peer.mean_ = model.components_, model.noise_variance_, model.mean_
    factors = model.transform(X)
    np.testing.assert_allclose(factors, peer.transform(X), atol=0.05)
    assert np.mean(np.square(model.inverse_transform(factors) - X)) < 2.0 * 0.09
    assert list(model.get_feature_names_out()) == ["gammafactormodel0", "gammafactormodel1"]


PER_FEATURE = {"n_components": 2, "noise_variance": "per-feature", "random_state": 0}


# ---- units and means
def test_per_feature_noise_knows_no_unit(global_random_seed):
    X, _ = rows(global_random_seed, d=8)  # three columns a factor leave their noises all but open
    unit = np.array([1e4, 1.0, 1e-4, 3.0, 100.0, 0.5, 1e3, 2.0])
    options = {**PER_FEATURE, "fit_mean": True, "tol": 1e-8, "max_iter": 1000}
    plain, scaled = GammaFactorModel(**options).fit(X), GammaFactorModel(**options).fit(X * unit + 7.0 * unit)
    np.testing.assert_allclose(scaled.components_ / unit, plain.components_, atol=5e-3)
    np.testing.assert_allclose(scaled.noise_variance_, plain.noise_variance_ * unit**2, rtol=5e-3)
    shift = 199 * np.log(unit).sum()
    assert scaled.lower_bound_ + shift == pytest.approx(plain.lower_bound_, abs=0.1)
    new = X[:5]  # rows of other loadings are so far off that a thousandth of a variance is seen
    np.testing.assert_allclose(
        scaled.score_samples((new + 7.0) * unit) + np.log(unit).sum(), plain.score_samples(new), atol=0.01
    )


@pytest.mark.costly
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("first", [0, 200])
def test_units_of_columns_change_nothing_in_a_stream(first, global_random_seed):
    """Thousands and thousandths; of a column that is constant at first the chunks to come say in which unit it is."""
    X, _ = rows(global_random_seed, 300, d=8)
    X[:first, :2] = 7.0
    unit = np.array([1e3, 1e-3, 1.0, 1e3, 1e-3, 1.0, 1e-3, 1e3])
    options = {"noise_variance": "per-feature", "uncertainty": "variational", "tol": 1e-7, "random_state": 0}
    found, options = [], {"fit_mean": True, "max_iter": 500, **options}
    for u in (np.ones(8), unit):
        model = GammaFactorModel(2, **options)
        for part in (slice(0, 200), slice(200, 250), slice(250, 300)):
            model.partial_fit(X[part] * u)
        found.append(model)
    whole = GammaFactorModel(2, **options).fit(X)
    plain, scaled = found
    np.testing.assert_allclose(scaled.scale_, plain.scale_ * unit)
    for one, u in ((scaled, unit), (plain, np.ones(8))):
        assert one.lower_bound_ + 299 * np.log(u).sum() > whole.lower_bound_ - 2.0
        rows_at = one.score_samples(X * u) + np.log(u).sum()
        assert abs(np.mean(rows_at - whole.score_samples(X))) < 0.01


@pytest.mark.costly
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_column_that_another_determined_gets_noise_once_it_has_some(global_random_seed):
    X, _ = rows(global_random_seed, 350)
    X[:200, 1] = X[:200, 0]
    options = {"noise_variance": "per-feature", "uncertainty": "variational", "tol": 1e-7, "random_state": 0}
    whole = GammaFactorModel(2, max_iter=500, **options).fit(X)
    stream = GammaFactorModel(2, max_iter=500, **options).partial_fit(X[:200]).partial_fit(X[200:])
    assert stream.lower_bound_ > whole.lower_bound_ - 15.0  # 40 to 370 where it stays at the least


def test_a_constant_column_beside_different_units_is_told(global_random_seed):
    X, _ = rows(global_random_seed, 60)
    X[:, 1] = 2.0
    options = {"noise_variance": "per-feature", "uncertainty": "variational", "max_iter": 3, "random_state": 0}
    message = r"1 columns \('x1'\) are constant.*Drop them"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.warns(UserWarning, match=message):
            GammaFactorModel(2, **options).fit(X * [1e3, 1.0, 1.0, 1e-3, 1.0, 1.0])
        warnings.filterwarnings("error", message)
        GammaFactorModel(2, **options).fit(X)


@pytest.mark.costly
@pytest.mark.parametrize("away", [1e7, 1e9, 1e11])
def test_a_column_far_from_zero_is_no_constant(away, global_random_seed):
    X = rows(global_random_seed)[0] + away * (np.arange(6) == 2)
    options = {**PER_FEATURE, "fit_mean": True, "tol": 1e-8, "max_iter": 1000}
    model, plain = GammaFactorModel(**options).fit(X), GammaFactorModel(**options).fit(X - X.round().mean(0))
    np.testing.assert_allclose(model.scale_, X.std(0), rtol=1e-4)
    assert model.score(X) == pytest.approx(plain.score(X - X.round().mean(0)), abs=0.01)


@pytest.mark.costly
def test_common_noise_knows_no_common_unit(global_random_seed):
    X, _ = rows(global_random_seed)
    options = {"n_components": 2, "noise_variance": "auto", "tol": 1e-8, "max_iter": 1000, "random_state": 0}
    plain, scaled = GammaFactorModel(**options).fit(X), GammaFactorModel(**options).fit(1e4 * X)
    np.testing.assert_allclose(scaled.components_ / 1e4, plain.components_, atol=5e-3)


@pytest.mark.parametrize("noise", [0.1, "auto"])
def test_a_common_noise_that_does_not_fit_the_columns_is_told(noise):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 8)) * np.array([0.05, 0.1, 1.0, 1.0, 2.0, 4.0, 4.0, 8.0])
    model = GammaFactorModel(2, noise_variance=noise, fit_mean=True, random_state=0)
    with pytest.warns(UserWarning, match=r'worse than columns that are independent.*noise_variance="per-feature"'):
        model.fit(X)
    own, alone = densities(model)
    assert own == pytest.approx(model.score_samples(X, plug_in=True).mean())
    chance = 8 / 199
    peer = multivariate_normal(X.mean(0), np.diag(X.var(0))).logpdf(X).mean()
    assert alone == pytest.approx(peer - chance)
    model.set_params(noise_variance="per-feature").fit(X)


@pytest.mark.parametrize("factor", [1e4, 1e-4])
def test_a_fixed_noise_that_is_far_off_is_told(factor):
    X, _ = rows(0)
    with pytest.warns(UserWarning, match=r'noise_variance=0.1 is absolute.*"per-feature"'):
        GammaFactorModel(2, random_state=0).fit(factor * X)


def test_the_mean_is_left_out_where_columns_have_none(global_random_seed):
    X, _ = rows(global_random_seed, 30)
    model = GammaFactorModel(2, fit_mean=False, random_state=0).fit(X)
    np.testing.assert_array_equal(model.mean_, 0.0)
    plain = multivariate_normal(np.zeros(6), model.get_covariance()).logpdf(X)
    np.testing.assert_allclose(model.score_samples(X, plug_in=True), plain, rtol=1e-9)


def test_means_that_chance_explains_are_left_out(global_random_seed):
    """Rows whose mean is 1.2 standard errors from 0, or 1.7, along every factor and column of noise at once."""
    X, loadings = rows(global_random_seed, 60)
    C = loadings.T @ loadings + 0.09 * np.eye(6)
    away = np.linalg.cholesky(C).sum(1) / np.sqrt(60)
    options = {"noise_variance": 0.09, "random_state": 0}
    for far, learned in ((1.0, False), (1.8, True)):
        moved = X - X.mean(0) + far * away
        model = GammaFactorModel(2, **options).fit(moved)
        same = GammaFactorModel(2, fit_mean=learned, **options).fit(moved)
        assert model.fit_mean_ is learned is same.fit_mean_
        np.testing.assert_allclose(model.mean_, learned * moved.mean(0))
        assert model.score(X) == pytest.approx(same.score(X), abs=0.02)
        assert model.lower_bound_ == pytest.approx(same.lower_bound_, abs=1.0)


@pytest.mark.costly
def test_rows_far_from_zero_say_the_same_wherever_they_are(global_random_seed):
    """Means that are learned change nothing but themselves; rows that were centred had theirs learned before."""
    options, same = {"tol": 1e-8, "max_iter": 1000, "random_state": 0}, 0
    for number in range(3):
        X, _ = rows([global_random_seed, number], 60)
        at = X - X.mean(0)
        plain = GammaFactorModel(2, **options).fit(at)
        assert plain.fit_mean_
        others = [GammaFactorModel(2, **options).fit(at + far) for far in (5.0, 700.0)]
        assert all(other.fit_mean_ for other in others)
        # A rounding of the rows takes a search another way: of one set in thirty a tenth of a nat off.
        assert all(other.lower_bound_ == pytest.approx(plain.lower_bound_, abs=0.5) for other in others)
        same += all(
            np.allclose(other.components_, plain.components_, rtol=0.0, atol=5e-3)
            and np.allclose(other.score_samples(at + far), plain.score_samples(at), rtol=0.0, atol=0.02)
            for far, other in zip((5.0, 700.0), others, strict=True)
        )
    assert same >= 2


def test_a_stream_learns_means_once_rows_have_some():
    X, _ = rows(0, 60)
    X = X - X.mean(0) + 0.01
    model = GammaFactorModel(2, random_state=0).partial_fit(X)
    assert not model.fit_mean_ and np.all(model.mean_ == 0.0)
    model.partial_fit(X + 3.0)
    assert model.fit_mean_
    np.testing.assert_allclose(model.mean_, X.mean(0) + 1.5)
    warm = GammaFactorModel(2, random_state=0, warm_start=True).fit(X)
    assert not warm.fit_mean_ and warm.fit(X + 3.0).fit_mean_


def test_a_warm_fit_asks_of_means_what_a_new_one_does():
    X, _ = rows(0, 60)
    X = X - X.mean(0) + 0.01
    asked = GammaFactorModel(2, random_state=0, warm_start=True).fit(X)
    centred = copy.copy(asked)
    assert not asked.fit_mean_ and asked.set_params(fit_mean=True).fit(X).fit_mean_
    np.testing.assert_allclose(asked.mean_, X.mean(0))
    assert centred.fit(X - X.mean(0)).fit_mean_


# ---- intervals
@pytest.mark.costly
def test_intervals_cover_loadings_and_covariances(global_random_seed):
    """Eight tables of the model with two factors that share all columns, matched: q holds half of them."""
    covered = {"corrected": [], "variational": []}
    for number in range(8):
        rng = np.random.default_rng([global_random_seed, number])
        truth = rng.gamma(1.0, 1.0, (2, 6))
        X = rng.standard_normal((200, 2)) @ truth + rng.standard_normal((200, 6))
        for uncertainty, hits in covered.items():
            options = {"noise_variance": 1.0, "prior_shape": 1.0, "fit_mean": False, "uncertainty": uncertainty}
            model = GammaFactorModel(2, random_state=0, **options).fit(X)
            order = linear_sum_assignment(np.square(model.components_[:, None] - truth).sum(-1).T)[1]
            low, high = (model.summary()[end].to_numpy().reshape(2, 6)[order] for end in ("lower", "upper"))
            drawn = model.posterior_["loadings"].sample(200, 0)
            ends = np.quantile(np.swapaxes(drawn, 1, 2) @ drawn, (0.05, 0.95), axis=0)
            both = truth.T @ truth
            hits.append([np.mean((low < truth) & (truth < high)), np.mean((ends[0] < both) & (both < ends[1]))])
    mean, error = np.mean(covered["corrected"], 0), np.std(covered["corrected"], 0) / np.sqrt(8)
    assert np.all((0.85 - 4 * error < mean) & (mean < 0.93 + 4 * error))
    assert np.all(mean - 0.05 > np.mean(covered["variational"], 0))


@pytest.mark.parametrize("noise", KINDS)
def test_means_are_those_of_q_and_spreads_those_of_draws(noise, tmp_path):
    X, _ = rows(0, 300, d=8)
    options = {"noise_variance": noise, "random_state": 0}
    model, plain = (GammaFactorModel(2, uncertainty=name, **options).fit(X) for name in ("corrected", "variational"))
    np.testing.assert_array_equal(model.components_, plain.components_)
    np.testing.assert_array_equal(model.transform(X), plain.transform(X))
    assert model.lower_bound_ == plain.lower_bound_
    q = plain.posterior_["loadings"]
    np.testing.assert_allclose(plain.summary()["std"][:16], q.std.ravel())
    large = model.components_.ravel() > 0.5
    table = model.summary()
    assert np.median((table["std"] / plain.summary()["std"])[:16][large]) > 1.1
    assert list(table.index) == list(plain.summary().index)
    np.testing.assert_allclose(np.square(table["mean"][16:]), model.noise_variance_[: len(table) - 16], rtol=0.2)
    np.testing.assert_array_equal(model.get_covariance(), plain.get_covariance())
    assert model.score(X) == plain.score(X)
    again = clone(model).set_params(n_jobs=2).fit(X)
    pd.testing.assert_frame_equal(again.summary(), table)
    for fit in (model, plain):
        fit.save(tmp_path / "fit.sksvi")
        same = sksvi.load(tmp_path / "fit.sksvi")
        pd.testing.assert_frame_equal(same.summary(), fit.summary())
        np.testing.assert_array_equal(same.sample(3, 0), fit.sample(3, 0))
    model.set_params(prior_shape=5.0, n_components=7)
    pd.testing.assert_frame_equal(model.summary(), table)


def test_spreads_of_many_rows_are_those_of_maximum_likelihood(global_random_seed):
    """One factor: the inverse of the whole information, which q alone falls short of."""
    rng = np.random.default_rng(global_random_seed)
    truth, noise, n = np.array([[0.8, 1.0, 1.2, 0.9, 1.1]]), 0.2, 20_000
    X = rng.standard_normal((n, 1)) @ truth + np.sqrt(noise) * rng.standard_normal((n, 5))
    options = {"noise_variance": noise, "prior_shape": 1.0, "fit_mean": False, "random_state": 0}
    model = GammaFactorModel(1, **options).fit(X)
    L, inverse = truth[0], np.linalg.inv(np.outer(truth, truth) + noise * np.eye(5))
    information = n * (inverse * (L @ inverse @ L) + np.outer(inverse @ L, inverse @ L))
    known = np.sqrt(np.diag(np.linalg.inv(information)))
    np.testing.assert_allclose(model.summary()["std"], known, rtol=0.05 + 4 / np.sqrt(2 * 100))
    assert np.all(model.set_params(uncertainty="variational").fit(X).summary()["std"] < 0.75 * known)


def test_streams_have_draws_of_all_their_rows(global_random_seed):
    X, _ = rows(global_random_seed, 400)
    stream = GammaFactorModel(2, noise_variance="auto", half_life=300, random_state=0)
    spreads = [stream.partial_fit(part).summary()["std"].to_numpy() for part in (X[:40], X[40:])]
    assert np.median(spreads[1] / spreads[0]) < 0.8


# ---- odd tables
@pytest.mark.parametrize("noise", KINDS)
def test_one_row_says_little(noise):
    model = GammaFactorModel(2, noise_variance=noise, uncertainty="variational", random_state=0)
    model.fit(np.array([[1.0, 2.0, 3.0]]))
    np.testing.assert_allclose(model.posterior_["loadings"].shape, 0.1, rtol=0.05)  # the prior: its mean is learned
    assert np.all(np.isfinite(model.score_samples(np.zeros((2, 3)))))
    drawn = model.set_params(uncertainty="corrected").fit(np.array([[1.0, 2.0, 3.0]])).summary()
    assert np.all(np.isfinite(drawn)) and np.all(drawn["lower"] <= drawn["upper"])


@pytest.mark.parametrize("noise", KINDS)
def test_constant_columns_have_small_loadings(noise, global_random_seed):
    X = np.column_stack([rows(global_random_seed)[0], np.zeros(200), np.full(200, 3.7)])
    model = GammaFactorModel(2, noise_variance=noise, random_state=0).fit(X)
    assert model.components_[:, 6:].max() < 0.1 and np.all(model.noise_variance_ > 0)
    assert np.all(np.isfinite(model.score_samples(X)))


def test_all_columns_constant():
    for noise in KINDS:
        model = GammaFactorModel(2, noise_variance=noise, random_state=0).fit(np.ones((20, 3)))
        assert np.all(np.isfinite(model.components_)) and np.isfinite(model.lower_bound_)


def test_more_factors_than_columns_end_at_the_least_noise_and_say_so(global_random_seed):
    X = np.random.default_rng(global_random_seed).standard_normal((500, 2)) @ np.array(
        [[1.0, 1.0, 0.5], [0.0, 1.0, 2.0]]
    )
    with pytest.warns(UserWarning, match=r"run to its least value.*Lower n_components"):
        model = GammaFactorModel(5, noise_variance="auto", random_state=0).fit(X)
    assert model.noise_variance_[0] >= 1e-4 * X.var() * 0.5
    assert np.all(np.isfinite(model.score_samples(X)))
    GammaFactorModel(5, random_state=0).fit(X)  # a number stays


def test_what_is_missing_is_an_error():
    X = pd.DataFrame(rows(0)[0], columns=list("abcdef"))
    X.loc[3, "c"] = np.nan
    with pytest.raises(ValueError, match=r"column 'c' of X, row 3.*NaN"):
        GammaFactorModel(2).fit(X)


def test_too_few_draws_are_refused():
    X, _ = rows(0)
    with pytest.raises(ValueError, match="fewer than 4 draws"):
        GammaFactorModel(2, expectation=MonteCarlo(3)).fit(X)


# ---- the same from every way
def test_columns_keep_their_names_and_single_precision_its_type():
    X = pd.DataFrame(rows(0)[0], columns=list("abcdef"))
    model = GammaFactorModel(2, random_state=0).fit(X)
    assert model.summary().index.get_level_values("feature")[:6].tolist() == list("abcdef")
    assert model.summary().index[-1][1] == "f"
    learned = GammaFactorModel(2, noise_variance="auto", random_state=0).fit(X)
    assert learned.summary().index[-1] == ("", "std(residual)")
    small = GammaFactorModel(2, random_state=0).fit(X.to_numpy(np.float32))
    assert small.components_.dtype == small.transform(X.to_numpy(np.float32)).dtype == np.float32
    np.testing.assert_allclose(small.components_, model.components_, atol=5e-3)


def test_threads_change_no_bit(monkeypatch):
    from sksvi._runtime import parallel

    monkeypatch.setattr(parallel, "chunk_rows", lambda width, full: 16)
    X, _ = rows(0)
    found = []
    for jobs in (1, 3):
        model = GammaFactorModel(2, random_state=0, n_jobs=jobs).fit(X)
        found.append((model.components_, model.score_samples(X), model.lower_bound_))
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.costly
@pytest.mark.parametrize("noise", KINDS)
def test_chunks_say_what_all_rows_say(noise, global_random_seed):
    X, _ = rows(global_random_seed, 300, d=8)  # of three columns a factor, sixty rows may say that one has no noise
    whole = GammaFactorModel(2, noise_variance=noise, tol=1e-7, random_state=0).fit(X)
    stream = clone(whole)
    for part in np.array_split(X, 5):
        stream.partial_fit(part)
    assert stream.n_samples_seen_ == 300 and stream.n_iter_ == len(stream.history_) == 5
    assert stream.n_steps_ >= 5 and stream.history_["rows"].iloc[-1] == 300
    np.testing.assert_allclose(stream.get_covariance(), whole.get_covariance(), atol=0.03)
    assert stream.lower_bound_ == pytest.approx(whole.lower_bound_, abs=2.0)


@pytest.mark.costly
def test_a_stream_forgets(global_random_seed):
    X, _ = rows(global_random_seed, 400)
    model = GammaFactorModel(2, noise_variance="auto", half_life=50, random_state=0).partial_fit(X)
    before = model.get_covariance()
    for _ in range(4):
        model.partial_fit(3.0 * X[:, ::-1])
    assert np.diag(model.get_covariance()).sum() > 4.0 * np.diag(before).sum()
    assert model._encoding.scatter.n < 410


def test_a_fit_is_saved_with_its_rows(tmp_path):
    X, _ = rows(0)
    model = GammaFactorModel(2, noise_variance="per-feature", random_state=0).fit(X)
    model.save(tmp_path / "fit.sksvi")
    again = sksvi.load(tmp_path / "fit.sksvi")
    np.testing.assert_array_equal(again.score_samples(X), model.score_samples(X))
    for fit in (model, again):
        fit.partial_fit(X[:50] + 1.0)
    np.testing.assert_array_equal(again.components_, model.components_)


def test_a_warm_fit_goes_on():
    X, _ = rows(0, 40)
    cold = GammaFactorModel(2, tol=1e-6, random_state=0).fit(X)
    warm = GammaFactorModel(2, tol=1e-6, random_state=0, max_iter=3, warm_start=True)
    with pytest.warns(UserWarning, match="did not converge"):
        warm.fit(X)
    warm.set_params(max_iter=200).fit(X)
    assert warm.converged_ and warm.lower_bound_ == pytest.approx(cold.lower_bound_, abs=0.05)


# ---- the paper's own iterations
@pytest.mark.filterwarnings("ignore:the fit explains its own rows worse")
def test_the_papers_iterations_can_be_said(global_random_seed, tmp_path):
    X, _ = rows(global_random_seed, 500)
    options = {"fit_mean": False, "init": "random", "expectation": MonteCarlo(10), "tol": 0.0, "max_iter": 60}
    ours = GammaFactorModel(2, fit_mean=False, random_state=0).fit(X).lower_bound_
    for steps in (CVI(schedule=Constant(0.05)), SDSVI(adagrad=AdaDelta(epsilon=1e-2))):
        with pytest.warns(UserWarning, match="did not converge"):
            model = GammaFactorModel(2, algorithm=steps, random_state=0, **options).fit(X)
        assert np.isfinite(model.lower_bound_) and model.lower_bound_ < ours + 5.0
        assert model.history_["bound"].iloc[-1] > model.history_["bound"].iloc[0]
        model.save(tmp_path / "fit.sksvi")
        again = sksvi.load(tmp_path / "fit.sksvi").set_params(warm_start=True, max_iter=5)
        model.set_params(warm_start=True, max_iter=5)
        with pytest.warns(UserWarning, match="did not converge"):
            np.testing.assert_array_equal(again.fit(X).components_, model.fit(X).components_)


def test_adadelta_is_refused_where_a_block_is_gaussian():
    with pytest.raises(ValueError, match=r"AdaDelta.*not Gaussian.*AdaGrad"):
        sksvi.BayesianGLMRegressor(algorithm=SDSVI(adagrad=AdaDelta())).fit(np.eye(8), np.arange(8.0))


@pytest.mark.parametrize("seed", [-1, [], "three"])
def test_a_seed_that_is_none_is_named(seed, global_random_seed):
    X = np.random.default_rng(global_random_seed).standard_normal((30, 4))
    model = GammaFactorModel(n_components=2, max_iter=2, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X)
    with pytest.raises(ValueError, match="random_state must be an integer"):
        model.sample(3, random_state=seed)
