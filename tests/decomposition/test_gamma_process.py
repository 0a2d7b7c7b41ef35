"""GammaProcessNMF: components found, doors, missing cells, scores, streams."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy.special import gammaln
from scipy.stats import nbinom
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import parametrize_with_checks

import sksvi
from sksvi import GammaProcessNMF
from sksvi._runtime import memory
from sksvi.callbacks import Checkpoint
from sksvi.datasets import make_spectra
from sksvi.estimators import first_rows
from sksvi.estimators.completion import halved_entries
from sksvi.families import Gamma
from sksvi.models.nmf import model as gamma_process
from sksvi.models.nmf.cells import cells
from support.interruptions import StopAfter
from tests.cases import best_of

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@parametrize_with_checks(
    [
        GammaProcessNMF(5, max_iter=5),
        GammaProcessNMF(5, max_iter=5, algorithm="mc-ssvi", init="random"),
    ]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.exhaustive
@parametrize_with_checks(
    [
        GammaProcessNMF(5, max_iter=5, algorithm="ssvi-a"),
        GammaProcessNMF(5, max_iter=5, algorithm="cvi", batch_size=16),
        GammaProcessNMF(5, max_iter=5, search_passes=3, prune=False),
    ]
)
def test_scikit_learn_checks_of_other_fits(estimator, check):
    check(estimator)


def sounds(seed=0, **options):
    return make_spectra(150, 60, n_components=4, mean_count=30.0, random_state=seed, **options)


def best(found, truth):
    """Correlation of each true component with the one that is most like it."""
    return np.corrcoef(found, truth)[: len(found), len(found) :].max(0)


@pytest.mark.costly
def test_components_are_found(global_random_seed):
    bunch = sounds(global_random_seed)
    model = GammaProcessNMF(12, search_passes=60, max_iter=150, random_state=global_random_seed).fit(bunch.data)
    assert np.all(best(model.components_, bunch.components) > 0.9)
    assert model.n_components_ == len(model.components_) == len(model.component_weights_) <= 12
    left_out = (12 - model.n_components_) * 1e-4  # each explains less than that
    assert np.all(np.diff(model.component_shares_) <= 0)
    assert 1.0 - left_out <= model.component_shares_.sum() * (1.0 + 1e-9) <= 1.0 + 1e-8
    rebuilt = model.inverse_transform(model.transform(bunch.data))
    means = bunch.activations @ bunch.components
    assert np.corrcoef(rebuilt.ravel(), means.ravel())[0, 1] > 0.98
    np.testing.assert_allclose(rebuilt, model.reconstruct(bunch.data))


@pytest.mark.costly
def test_a_start_with_some_to_spare_finds_sounds_that_overlap(monkeypatch):
    """The bound is the larger where twice as many components begin."""
    gains = []
    for seed in range(2):
        X = make_spectra(200, 40, n_components=10, mean_count=30.0, random_state=seed).data
        bounds = []
        for surplus in (1.0, 2.0):
            monkeypatch.setattr(gamma_process, "SURPLUS", surplus)
            bounds.append(GammaProcessNMF(10, max_iter=40, random_state=seed).fit(X).lower_bound_)
        gains.append(bounds[1] - bounds[0])
    assert np.all(np.array(gains) > 0.0)


@pytest.mark.costly
def test_a_start_with_some_to_spare_asks_for_its_memory(monkeypatch):
    X = sounds().data
    monkeypatch.setattr(memory, "SMALL", 0)
    monkeypatch.setattr(memory, "available", lambda: 6e5)  # enough for 10 components and their draws, not for 20
    with pytest.raises(ValueError, match=r'begun with 20, needs.*lower n_components, or take init="random"'):
        GammaProcessNMF(10, max_iter=2, random_state=0).fit(X)
    GammaProcessNMF(10, init="random", max_iter=2, random_state=0).fit(X)
    GammaProcessNMF(10, init="random", random_state=0).partial_fit(X)  # begins as a fit does


@pytest.mark.costly
def test_components_without_use_are_left_out():
    """Of 20 components for two rows' worth of patterns most explain nothing."""
    rng = np.random.default_rng(0)
    X = rng.poisson(np.kron(np.eye(2), np.ones((40, 6))) * 30.0)
    model = GammaProcessNMF(20, init="random", max_iter=150, tol=1e-7, random_state=0).fit(X)
    everything = clone(model).set_params(prune=False).fit(X)
    assert 2 <= model.n_components_ < 20 == everything.n_components_ == len(everything.components_)
    assert np.all(model.component_shares_ > 1e-4)
    np.testing.assert_array_equal(everything.components_[: model.n_components_], model.components_)
    assert np.all(everything.component_shares_[model.n_components_ :] <= 1e-4)
    assert model.transform(X).shape == (80, model.n_components_)
    assert list(model.get_feature_names_out()) == list(model.summary().index)


@pytest.mark.costly
@pytest.mark.parametrize("algorithm", ["svi", "ssvi-a"])
def test_names_of_one_algorithm(algorithm):
    X, other = sounds().data, {"svi": "cvi", "ssvi-a": "mc-ssvi"}[algorithm]
    one, two = (GammaProcessNMF(4, algorithm=name, max_iter=6, random_state=0).fit(X) for name in (algorithm, other))
    np.testing.assert_array_equal(one.components_, two.components_)
    if algorithm == "svi":
        assert np.all(np.diff(one.lower_bounds_) >= 0)
    assert np.isfinite(one.lower_bound_)


@pytest.mark.costly
def test_the_bound_is_that_of_its_definition():
    """Equation 8's, in its own words; rows are one half-step further than where the fit took its bound."""
    X = sounds().data
    model = GammaProcessNMF(4, max_iter=200, tol=1e-8, prune=False, random_state=0).fit(X)
    counts = model.state_.locals.values
    np.testing.assert_allclose(counts.sum(1), X.sum(1))
    W, theta = (model.state_.q[name] for name in ("components", "weights"))
    H = Gamma(0.2 + counts, np.broadcast_to(0.2 + theta.mean * W.mean.sum(1), counts.shape))
    logs = np.exp(H.mean_log + theta.mean_log) @ np.exp(W.mean_log)
    value = np.sum(X * np.log(logs) - gammaln(X + 1)) - np.sum((H.mean * theta.mean) @ W.mean)
    a, b, alpha = 0.25, 0.2, 0.25
    value -= W.kl(Gamma(np.full(W.mean.shape, a), np.full(W.mean.shape, a)))
    value -= H.kl(Gamma(np.full(H.mean.shape, b), np.full(H.mean.shape, b)))
    value -= theta.kl(Gamma(np.full(4, alpha), np.full(4, 1.0 / X.mean())))
    assert model.lower_bound_ <= value + 1e-9 * abs(value)
    assert model.lower_bound_ == pytest.approx(value, rel=1e-4)


@pytest.mark.costly
def test_sparse_frames_and_float32():
    bunch = sounds()
    X = bunch.data
    model = GammaProcessNMF(4, max_iter=8, search_passes=3, random_state=0).fit(X)
    sparse = clone(model).fit(sp.csr_array(X))
    np.testing.assert_allclose(sparse.components_, model.components_, rtol=1e-10)
    np.testing.assert_allclose(sparse.transform(sp.csr_matrix(X)), model.transform(X), rtol=1e-10)
    assert sparse.score(sp.csr_matrix(X)) == pytest.approx(model.score(X), rel=1e-10)
    frame = pd.DataFrame(X, columns=[f"{f:.0f} Hz" for f in bunch.frequencies])
    named = clone(model).set_output(transform="pandas").fit(frame)
    assert list(named.feature_names_in_) == list(frame.columns)
    assert list(named.transform(frame).columns) == list(named.get_feature_names_out())
    single = clone(model).fit(X.astype(np.float32))
    assert single.components_.dtype == single.transform(X.astype(np.float32)).dtype == np.float32
    np.testing.assert_allclose(single.components_, model.components_, rtol=1e-3)


@pytest.mark.costly
@pytest.mark.parametrize("algorithm", ["svi", "ssvi-a"])
@pytest.mark.parametrize("batch_size", [None, 40])
def test_threads_change_no_bit(algorithm, batch_size):
    X = sounds().data
    options = {"algorithm": algorithm, "batch_size": batch_size, "search_passes": 2, "max_iter": 4, "random_state": 0}
    one, two = (GammaProcessNMF(5, n_jobs=n, **options).fit(X) for n in (1, 3))
    np.testing.assert_array_equal(one.components_, two.components_)
    np.testing.assert_array_equal(one.transform(X), two.transform(X))
    assert one.lower_bound_ == two.lower_bound_


# ---- missing cells and scores
@pytest.mark.costly
def test_missing_cells_are_filled_in_with_their_spread(global_random_seed):
    bunch, rng = sounds(global_random_seed), np.random.default_rng(global_random_seed)
    missing = rng.random(bunch.data.shape) < 0.2
    X = np.where(missing, np.nan, bunch.data)
    model = best_of(lambda start: GammaProcessNMF(6, random_state=start).fit(X))  # one in 45 ends far below
    filled, std = model.impute(X, return_std=True)
    np.testing.assert_array_equal(filled[~missing], bunch.data[~missing])
    assert np.all(std[~missing] == 0) and np.all(std[missing] > 0)
    # Roots, so that a few cells of thousands of counts do not decide: at least 0.983 in 30 seeds, the truth 0.992.
    assert np.corrcoef(np.sqrt(filled[missing]), np.sqrt(bunch.data[missing]))[0, 1] > 0.97
    means, spread = model.reconstruct(X, return_std=True)
    np.testing.assert_allclose(filled[missing], means[missing])
    np.testing.assert_allclose(std[missing] ** 2, means[missing] + spread[missing] ** 2)
    assert model.score(X) > model.score(rng.permuted(X, axis=1))


@pytest.mark.costly
def test_intervals_of_missing_cells_hold_most_of_them(global_random_seed):
    """About 90 % with the Poisson's noise; q is too sure of the expected counts themselves."""
    covers = []
    for seed in range(3):
        bunch = make_spectra(150, 30, n_components=3, mean_count=10.0, random_state=[global_random_seed, seed])
        missing = np.random.default_rng([global_random_seed, seed]).random(bunch.data.shape) < 0.1
        X = np.where(missing, np.nan, bunch.data)
        model = GammaProcessNMF(6, max_iter=60, random_state=seed).fit(X)
        filled, std = model.impute(X, return_std=True)
        mean, spread = model.reconstruct(X, return_std=True)
        errors = (filled - bunch.data)[missing], (mean - bunch.activations @ bunch.components)[missing]
        covers.append([np.mean(np.abs(e) <= 1.645 * s[missing]) for e, s in zip(errors, (std, spread), strict=True)])
    counts, means = np.mean(covers, 0)
    assert 0.82 < counts < 0.96 and 0.4 < means < counts


def test_the_score_is_the_mean_log_probability_of_the_other_half():
    X = sounds().data
    model = GammaProcessNMF(4, max_iter=20, random_state=0).fit(X)
    known, asked = halved_entries(X[:7])
    mean, std = model.reconstruct(known, return_std=True)
    size = np.square(mean / std)
    want = np.where(np.isnan(asked), 0.0, nbinom.logpmf(np.nan_to_num(asked), size, size / (size + mean)))
    np.testing.assert_allclose(model.log_predictive_density(known, asked), want.sum(1), rtol=1e-8)
    assert model.score(X[:7]) == pytest.approx(want.sum() / np.sum(~np.isnan(asked)))
    with pytest.raises(ValueError, match="at least one cell"):
        model.score(np.full((2, 60), np.nan))


def test_rows_are_answered_by_themselves():
    X = sounds().data
    model = GammaProcessNMF(4, max_iter=10, uncertainty="variational", random_state=0).fit(X)
    np.testing.assert_array_equal(model.transform(X)[[5, 3]], model.transform(X[[5, 3]]))
    mean, std = model.transform(X, return_std=True)
    assert np.all(std > 0) and mean.shape == std.shape
    shape, rate = model._activations(cells(X))
    assert np.all(std > np.sqrt(shape) / rate * (1 - 1e-12))  # mean field takes the other activations for known
    np.testing.assert_array_equal(model.transform(np.zeros((1, 60))), model.transform(np.zeros((3, 60)))[2:])


# ---- doors
@pytest.mark.parametrize(
    ("X", "words"),
    [
        (pd.DataFrame({"a": [1.0, 2.0], "b": [1.0, -2.0]}), "column 'b' of X has -2 in row 1"),
        (np.array([[1.0, -1.0]]), "column 1 of X has -1 in row 0"),
        (sp.csr_matrix([[0.0, -1.0]]), "column 1 of X has -1 in row 0"),
        (sp.csr_matrix([[0.0, np.nan]]), "column 1 of X, row 0: X contains NaN.*dense"),
    ],
)
def test_what_is_no_count_is_named(X, words):
    model = GammaProcessNMF(2)
    before = dict(vars(model))
    with pytest.raises(ValueError, match=words):
        model.fit(X)
    assert vars(model) == before


@pytest.mark.parametrize(
    ("init", "words"),
    [
        (np.ones((3, 4)), r"init.shape == \(3, 4\), expected \(2, 4\)"),
        (-np.ones((2, 4)), "init must have no negative number"),
        (np.zeros((2, 4)), "init must have"),
    ],
)
def test_components_that_are_given(init, words):
    X = np.random.default_rng(0).poisson(3.0, (9, 4))
    with pytest.raises(ValueError, match=words):
        GammaProcessNMF(2, init=init).fit(X)
    given = np.array([[1.0, 0.0, 0.0, 3.0], [0.0, 2.0, 2.0, 0.0]])
    near = GammaProcessNMF(2, init=given, max_iter=3, prune=False).fit(np.kron(X[:, :2], np.ones((1, 2))))
    assert near.components_.shape == (2, 4)


@pytest.mark.parametrize(
    "X",
    [
        np.zeros((4, 3)),
        np.array([[1e9, 0.0, 3.0], [0.0, 0.0, 1e9]]),
        np.array([[0.0, 2.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 0.0]]),
        np.array([[0.25, 1e-9, 3.7], [1e-3, 0.0, 0.1]]),
        np.array([[np.nan, 2.0], [np.nan, np.nan]]),
    ],
    ids=["zeros", "huge", "empty row and columns", "fractions", "nothing seen"],
)
@pytest.mark.parametrize("options", [{}, {"algorithm": "ssvi-a"}, {"search_passes": 3}], ids=str)
def test_odd_tables_have_finite_answers(X, options):
    model = GammaProcessNMF(30, max_iter=6, random_state=0, **options).fit(X)
    parts = (model.components_, model.transform(X), model.reconstruct(X), model.summary(), model.lower_bound_)
    assert all(np.all(np.isfinite(part)) for part in parts) and model.n_components_ >= 1


@pytest.mark.parametrize("options", [{"algorithm": "ssvi-a"}, {"search_passes": 20}], ids=str)
def test_weights_that_are_drawn_as_zero(options):
    """exp(log U / (α/K)) is 0 in most draws of components without use: what they leave is no division by it."""
    X = np.random.default_rng(0).poisson(3.0, (20, 4))
    model = GammaProcessNMF(20, concentration=1e-3, max_iter=25, random_state=0, **options).fit(X)
    assert np.isfinite(model.lower_bound_) and np.all(np.isfinite(model.component_weights_))


def test_predictions_refuse_what_has_no_missing_cells():
    X = sounds().data
    model = GammaProcessNMF(3, max_iter=3, random_state=0).fit(X)
    with pytest.raises(ValueError, match="X is sparse"):
        model.impute(sp.csr_matrix(X))
    with pytest.raises(ValueError, match="held_out is sparse"):
        model.log_predictive_density(X, sp.csr_matrix(X))
    with pytest.raises(ValueError, match="of held_out has -"):
        model.log_predictive_density(X, -X)
    with pytest.raises(ValueError, match="has 9 columns; this model has 3 components"):
        model.inverse_transform(np.ones((2, 9)))


# ---- going on
@pytest.mark.exhaustive
def test_a_stream_learns(global_random_seed):
    bunch = make_spectra(600, 40, n_components=3, mean_count=20.0, random_state=global_random_seed)
    X, rest = bunch.data[:500], bunch.data[500:]

    def streamed(start):
        model = GammaProcessNMF(6, uncertainty="variational", random_state=start)
        for part in np.array_split(X, 10):
            model.partial_fit(part)
        assert model.n_samples_seen_ == 500
        return model

    # Streams have no draws. Either may end in a lesser optimum: of 400 rows a thousand nats below the best of three
    # starts, now and then.
    stream = best_of(streamed)
    batch = best_of(lambda start: GammaProcessNMF(6, uncertainty="variational", random_state=start).fit(X))
    assert stream.score(rest) > batch.score(rest) - 0.13 * abs(batch.score(rest))  # four deviations, over 25 seeds
    # 400 rows were fitted together, and steps followed: 0.3 % from that fit at most, in 18 streams.
    first = GammaProcessNMF(6, uncertainty="variational", random_state=stream.random_state).fit(X[:400])
    assert stream.score(rest) == pytest.approx(first.score(rest), rel=0.01)


@pytest.mark.costly
def test_steps_learn(global_random_seed, monkeypatch):
    monkeypatch.setattr(first_rows, "ENOUGH", 0)  # from the first chunk on
    bunch = make_spectra(600, 40, n_components=3, mean_count=20.0, random_state=global_random_seed)
    X, rest = bunch.data[:500], bunch.data[500:]
    stream = GammaProcessNMF(6, random_state=0)
    for part in np.array_split(X, 10):
        stream.partial_fit(part)
    first = GammaProcessNMF(6, random_state=0).partial_fit(X[:50])
    batch = GammaProcessNMF(6, random_state=0).fit(X)
    assert stream.score(rest) > first.score(rest)
    assert stream.score(rest) > batch.score(rest) - 0.25 * abs(batch.score(rest))


@pytest.mark.costly
def test_a_search_that_was_cut_off_goes_on_to_the_same_bits(tmp_path):
    X = sounds().data
    model = GammaProcessNMF(5, search_passes=6, max_iter=10, random_state=0)
    whole = clone(model).fit(X)
    assert whole.n_iter_ == 10
    for after in (3, 6, 8):
        path = tmp_path / f"{after}.sksvi"
        with pytest.raises(InterruptedError):
            clone(model).set_callbacks(Checkpoint(path), StopAfter(after)).fit(X)
        again = sksvi.load(path).set_params(warm_start=True).fit(X)
        np.testing.assert_array_equal(again.components_, whole.components_)
        assert again.n_iter_ == 10 and again.lower_bound_ == whole.lower_bound_


@pytest.mark.costly
def test_a_search_settles_nowhere():
    """All its passes are made, whatever `tol`; then the fit settles by the rule of the others."""
    X = sounds().data
    with pytest.warns(ConvergenceWarning):
        GammaProcessNMF(4, search_passes=40, max_iter=41, tol=0.05, random_state=0).fit(X)
    model = GammaProcessNMF(4, search_passes=25, max_iter=400, tol=1e-3, random_state=0).fit(X)
    assert 25 < model.n_iter_ < 400 and model.converged_
    exact = model.history_["exact"].to_numpy()
    assert not exact[:25].any() and exact[25:].all()


@pytest.mark.costly
def test_a_stream_is_many_small_steps(global_random_seed, monkeypatch):
    """Two chunks leave more than one component would, and most of what a fit finds."""
    monkeypatch.setattr(first_rows, "ENOUGH", 0)
    rng = np.random.default_rng(global_random_seed)
    X = rng.poisson(rng.gamma(0.5, 4.0, (400, 3)) @ rng.gamma(0.5, 3.0, (3, 30)))
    stream = GammaProcessNMF(10, random_state=0)
    for first in (0, 200):
        stream.partial_fit(X[first : first + 200])
    whole, one = (GammaProcessNMF(k, random_state=0).fit(X).score(X) for k in (10, 1))
    assert stream.n_steps_ == 20
    assert stream.score(X) > one + 0.5 * (whole - one)
