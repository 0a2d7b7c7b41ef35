"""`uncertainty` of mixtures: weights and probabilities by draws of their joint posterior."""

from dataclasses import replace
from itertools import product

import numpy as np
import pandas as pd
import pytest
from scipy.special import gammaln, logsumexp

from sksvi import BernoulliMixture, CategoricalMixture, load
from sksvi.mixture import _joint
from sksvi.mixture._joint import ENOUGH
from sksvi.models.mixture.sampler import MixtureSampler

BOTH = pytest.mark.parametrize("cls", [BernoulliMixture, CategoricalMixture])


def rows(seed, n=80, d=6):
    rng = np.random.default_rng(seed)
    chances = np.array([np.full(d, 0.15), np.full(d, 0.8)])
    return (rng.random((n, d)) < chances[rng.choice(2, n, p=[0.4, 0.6])]).astype(float)


def fitted(cls, X, n_components=4, **options):
    table = X if cls is BernoulliMixture else pd.DataFrame(X.astype(int)).astype("category")
    return cls(n_components, max_iter=200, concentration=2.0, random_state=0, **options).fit(table)


@pytest.mark.costly
def test_weights_have_the_exact_posterior_of_a_few_rows():
    """Σ w² does not know the components' names: its mean over all 2^6 ways to label six rows."""
    X = np.array([[1, 1], [1, 1], [1, 0], [0, 0], [0, 0], [0, 1.0]])
    weights, squares = [], []
    for labels in product(range(2), repeat=6):
        z = np.array(labels)
        log_p = 0.0
        N = np.array([np.sum(z == k) for k in range(2)], float)
        for k in range(2):
            ones = X[z == k].sum(0)
            log_p += np.sum(gammaln(1 + ones) + gammaln(1 + N[k] - ones) - gammaln(2 + N[k])) + gammaln(1 + N[k])
        weights.append(log_p)
        squares.append(np.sum((1 + N) * (2 + N)) / (8 * 9))
    expected = np.exp(np.array(weights) - logsumexp(weights)) @ squares
    options = {"concentration": 2.0, "probability_prior": 1.0, "max_iter": 500}
    found = np.array(
        [
            np.square(BernoulliMixture(2, random_state=seed, **options).fit(X).posterior_["weights"].draws)
            .sum(1)
            .mean()
            for seed in range(12)
        ]
    )
    assert abs(found.mean() - expected) < 4 * found.std() / np.sqrt(len(found))


@BOTH
def test_a_small_group_has_its_weight(cls, global_random_seed):
    """Sixty rows, six of them apart in every column: a prior that counts more than a few rows a group would hide it."""
    rng = np.random.default_rng(global_random_seed)
    X = np.where(rng.random((60, 20)) < 0.05, 1.0, 0.0)
    X[:6] = 1.0 - X[:6]
    table = X if cls is BernoulliMixture else pd.DataFrame(X.astype(int)).astype("category")
    weights = cls(2, random_state=0).fit(table).summary().xs("weight", level=1).sort_values("mean")
    assert np.all((weights["lower"] < [0.1, 0.9]) & ([0.1, 0.9] < weights["upper"]))
    assert weights["mean"].iloc[0] == pytest.approx(8 / 64, abs=0.01)


@pytest.mark.costly
@BOTH
def test_variational_has_the_fit_without_draws(cls, global_random_seed):
    X = rows(global_random_seed)
    plain, corrected = fitted(cls, X, uncertainty="variational"), fitted(cls, X)
    assert plain.lower_bound_ == corrected.lower_bound_
    assert hasattr(plain.posterior_["weights"], "concentration") and hasattr(corrected.posterior_["weights"], "draws")
    for name, block in plain.state_.q.items():
        np.testing.assert_array_equal(block.mean, corrected.state_.q[name].mean)


@pytest.mark.costly
def test_means_are_those_of_the_draws(global_random_seed):
    """Of groups that overlap q's lie outside of the intervals; averages given labels vary less than draws do."""
    rng = np.random.default_rng(global_random_seed)
    chances, X = rng.uniform(0.25, 0.75, (2, 12)), rng.random((3000, 12))
    X = (X < chances[(rng.random(3000) < 0.3).astype(int)]).astype(float)
    model = BernoulliMixture(2, random_state=0).fit(X)
    table = model.summary()
    off = np.append(model.weights_[:, None], model.means_, axis=1)[: model.n_components_].ravel() - table["mean"]
    assert np.all(np.abs(off) < 4.0 * table["std"] / np.sqrt(ENOUGH))
    # Predictions are theirs.
    logs = np.log(model.weights_) + X @ np.log(model.means_).T + (1.0 - X) @ np.log1p(-model.means_).T
    np.testing.assert_allclose(model.score_samples(X), logsumexp(logs, axis=1), rtol=1e-9)


@BOTH
def test_a_summary_is_that_of_the_draws(cls, tmp_path, global_random_seed):
    model = fitted(cls, rows(global_random_seed))
    table, used = model.summary(coverage=0.5), model.n_components_
    draws = model.posterior_["weights"].draws.astype(float)
    np.testing.assert_allclose(draws.sum(1), 1.0, rtol=1e-6)
    assert used >= 2 and np.all(draws[:, used + 1 :] == 0.0)
    own = table.xs("weight", level="column").to_numpy()
    low, high = np.quantile(draws[:, :used], [0.25, 0.75], axis=0, method="weibull")
    np.testing.assert_allclose(own.T, [draws.mean(0)[:used], draws.std(0, ddof=1)[:used], low, high], rtol=1e-9)
    chances = table.drop("weight", level="column")
    # Of 80 rows the mean under q is a standard deviation or two from that of the draws at most.
    shown = np.concatenate([np.ravel(model.posterior_[name].mean) for name in model.posterior_ if name != "weights"])
    assert np.all(np.isin(np.round(chances["mean"], 5), np.round(np.concatenate([shown, 1 - shown]), 5)))
    model.save(tmp_path / "model.sksvi")
    pd.testing.assert_frame_equal(load(tmp_path / "model.sksvi").summary(coverage=0.5), table)


@pytest.mark.costly
@BOTH
def test_what_has_no_draws_has_q(cls):
    X = rows(0)
    table = X if cls is BernoulliMixture else pd.DataFrame(X.astype(int)).astype("category")
    weighted = cls(4, max_iter=200, random_state=0).fit(table, sample_weight=np.r_[2.5, np.ones(79)])
    single = cls(1, max_iter=200, random_state=0).fit(table)
    model = fitted(cls, X)
    model.partial_fit(table[:10])
    for each in (weighted, single, model):
        assert hasattr(each.posterior_["weights"], "concentration") and len(each.summary())


@pytest.mark.costly
@BOTH
def test_draws_of_many_rows_side_by_side(cls, monkeypatch):
    """Spreads as of the collapsed chain, and the same bits for any number of threads."""
    X = rows(0, 2000)
    collapsed = fitted(cls, X, 2).posterior_["weights"].draws  # a component more would have rows now and then, for long
    monkeypatch.setattr(_joint, "SHARED", 0)
    first, second = (fitted(cls, X, 2, n_jobs=jobs).posterior_["weights"].draws for jobs in (1, 2))
    np.testing.assert_array_equal(first, second)
    shares = [draws[:, 0] for draws in (collapsed, first)]
    assert abs(shares[0].mean() - shares[1].mean()) < shares[0].std()
    assert 0.65 < shares[1].std() / shares[0].std() < 1.55


@BOTH
def test_components_of_draws_have_the_names_of_q(cls, monkeypatch):
    """A chain that names its components anew in each sweep is a chain of the same posterior."""
    sweep = MixtureSampler.sweep

    def renamed(self, draw, rng):
        draw, value = sweep(self, draw, rng)
        order = np.roll(np.arange(len(draw.rows)), 1)
        labels = np.argsort(order)[draw.labels]
        return replace(draw, labels=labels, rows=draw.rows[order], counts=draw.counts[:, order]), value

    monkeypatch.setattr(MixtureSampler, "sweep", renamed)
    model = fitted(cls, rows(0, 400))
    means = model.posterior_["weights"].draws.mean(0)
    assert np.all(np.abs(means - model.weights_) < 0.1)


def overlapping(seed, n, d=8):
    rng = np.random.default_rng(seed)
    chances = rng.uniform(0.3, 0.7, (3, d))
    return (rng.random((n, d)) < chances[rng.choice(3, n, p=[0.5, 0.3, 0.2])]).astype(float)


def fit_and_thinning(monkeypatch, X, **options):
    """A fit to X, and the sweeps between two draws in each walk of its chain."""
    thin, walk = [], _joint.walk

    def followed(chain, length, *args):
        thin.append(length.thin)
        return walk(chain, length, *args)

    monkeypatch.setattr(_joint, "walk", followed)
    return BernoulliMixture(3, max_iter=200, random_state=0, **options).fit(X), thin


@pytest.mark.costly
def test_sweeps_between_draws_double_where_weights_move_slowly(monkeypatch):
    monkeypatch.setattr(_joint, "MOST", 60)
    model, thin = fit_and_thinning(monkeypatch, overlapping(0, 1500))
    assert thin == [1, 2, 4, 8, 16][: len(thin)] and len(thin) > 2
    draws = model.posterior_["weights"].draws
    assert len(draws) == 60 and (_joint.effective_draws(draws) >= _joint.ENOUGH or 60 * 2 * thin[-1] > _joint.SWEEPS)
    apart, once = fit_and_thinning(monkeypatch, rows(0, 500, 30))
    assert once == [1] and len(apart.posterior_["weights"].draws) == 60


@pytest.mark.costly
def test_doubled_sweeps_are_the_same_for_any_number_of_threads(monkeypatch):
    monkeypatch.setattr(_joint, "SHARED", 0)
    monkeypatch.setattr(_joint, "MOST", 60)
    X, found = overlapping(0, 2000), []
    for jobs in (1, 2, 1):
        model, thin = fit_and_thinning(monkeypatch, X, n_jobs=jobs)
        assert len(thin) > 1
        found.append([model.posterior_[name].draws for name in model.posterior_])
    for other in found[1:]:
        for one, same in zip(found[0], other, strict=True):
            np.testing.assert_array_equal(one, same)
