"""BetaProcessFA as users meet it: fits, missing entries, densities, streams, bad input, scikit-learn's checks."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks

import sksvi
from sksvi import BetaProcessFA
from sksvi.datasets import make_beta_process
from sksvi.decomposition import _beta_process_methods
from sksvi.families import DiagonalGaussian
from sksvi.models.beta_process import model as beta_process

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

ALGORITHMS = ["mc-ssvi", "h-mc-ssvi", "s-dsvi", "cvi"]
LOCAL_STEPS = ["gibbs", "mean-field", "spike-slab"]
PAIRS = [(a, step) for a in ALGORITHMS for step in LOCAL_STEPS] + [("gibbs", "gibbs")]
QUICK = {"n_components": 6, "max_iter": 5, "random_state": 0, "n_jobs": 1}


@pytest.fixture(scope="module")
def problem():
    """Rows of four overlapping factors, a tenth of the entries held out."""
    bunch = make_beta_process(600, 12, 4, a=6.0, b=4.0, noise_precision=400.0, random_state=3)
    held = np.random.default_rng(3).random(bunch.data.shape) < 0.1
    truth = 5.0 + 3.0 * bunch.data
    return np.where(held, np.nan, truth), np.where(held, truth, np.nan), truth, held


@pytest.fixture(scope="module")
def model(problem):
    return BetaProcessFA(n_components=12, max_iter=60, random_state=0).fit(problem[0])


#: Checks that call partial_fit, which a sampler of all rows refuses.
WITHOUT_CHUNKS = dict.fromkeys(("check_fit_score_takes_y", "check_n_features_in_after_fitting"), "keeps all rows")


@parametrize_with_checks(
    [
        BetaProcessFA(n_components=5, max_iter=8),
        BetaProcessFA(n_components=3, max_iter=4, algorithm="cvi", local_step="mean-field"),
        BetaProcessFA(n_components=3, max_iter=4, algorithm="gibbs"),
    ],
    expected_failed_checks=lambda estimator: WITHOUT_CHUNKS if estimator.algorithm == "gibbs" else {},
)
def test_checks_of_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.parametrize(("algorithm", "local_step"), PAIRS)
def test_every_pair_fits_and_predicts(algorithm, local_step, problem):
    X, held_out, _, _ = problem
    X, held_out = X[:150], held_out[:150]
    model = BetaProcessFA(algorithm=algorithm, local_step=local_step, batch_size=50, **QUICK).fit(X)
    codes = model.transform(X)
    assert codes.shape == (150, 6)
    assert model.inverse_transform(codes).shape == X.shape
    filled, std = model.impute(X, return_std=True)
    assert np.all(np.isfinite(filled)) and np.all(std[np.isnan(X)] > 0) and np.all(std[~np.isnan(X)] == 0)
    np.testing.assert_array_equal(filled[~np.isnan(X)], X[~np.isnan(X)])
    density = model.log_predictive_density(X, held_out)
    assert density.shape == (150,) and np.all(np.isfinite(density))
    assert np.all(density[np.isnan(held_out).all(1)] == 0)
    assert np.isfinite(model.score(X)) and np.isfinite(model.lower_bound_)
    assert np.all(np.diff(model.feature_probability_) <= 0)


@pytest.mark.costly
@pytest.mark.parametrize(
    "init", ["gibbs", *(pytest.param(init, marks=pytest.mark.exhaustive) for init in ("random", "data"))]
)
def test_held_out_entries_are_found(init, problem):
    X, held_out, truth, held = problem
    model = BetaProcessFA(n_components=12, init=init, max_iter=60, random_state=0).fit(X)
    filled, std = model.impute(X, return_std=True)
    error = (filled - truth)[held]
    assert np.mean(error**2) < 0.5 * np.var(truth[held])
    # Calibrated: errors in units of the predicted standard deviation have size 1.
    assert 0.7 < np.sqrt(np.mean((error / std[held]) ** 2)) < 1.4
    column = -0.5 * np.log(2 * np.pi * np.var(truth[held])) - 0.5
    assert model.log_predictive_density(X, held_out).sum() / held.sum() > column + 0.1


@pytest.mark.costly
def test_given_factors_are_where_a_fit_starts(problem):
    """The true factors explain rows after one pass, as random ones do not; wrong shapes and types are refused."""
    X, D = problem[0], problem[0].shape[1]
    fitted = BetaProcessFA(n_components=12, max_iter=60, random_state=0).fit(X)
    factors = fitted.components_ / fitted.scale_

    def noise(init):
        return (
            1 / BetaProcessFA(n_components=12, init=init, max_iter=2, tol=0.0, random_state=1).fit(X).noise_precision_
        )

    assert noise(factors) < 0.7 * noise("random")
    for wrong in (factors[:-1], np.full((12, D), np.nan), np.full((12, D), 1j)):
        with pytest.raises(ValueError, match=r"init must be a string or finite numbers of shape \(12, "):
            BetaProcessFA(n_components=12, init=wrong).fit(X)


@pytest.mark.costly
def test_noise_is_learned(problem, model):
    assert 1 / np.sqrt(model.noise_precision_) == pytest.approx(3.0 / 20.0, rel=0.3)
    columns = BetaProcessFA(n_components=12, noise="columns", max_iter=40, random_state=0).fit(problem[0])
    assert columns.noise_precision_.shape == (12,)
    known = BetaProcessFA(n_components=12, noise=0.15, max_iter=10, random_state=0).fit(problem[0])
    assert 1 / np.sqrt(known.noise_precision_) == pytest.approx(0.15, rel=1e-3)


@pytest.mark.parametrize(
    ("rows", "total", "same"), [(90, None, 1.0), (89, None, "learned"), (20, 90, 1.0), (20, None, "learned")]
)
def test_weights_have_a_known_precision_where_rows_are_many(rows, total, same, global_random_seed):
    X = make_beta_process(rows, 60, n_components=4, random_state=global_random_seed).data
    fits = []
    for precision in ("auto", same):
        options = {"n_components": 5, "max_iter": 3, "random_state": 0, "total_samples": total}
        model = BetaProcessFA(weight_precision=precision, **options)
        whole = model.fit(X).posterior_
        stream = model.partial_fit(X).partial_fit(X[:3]).posterior_
        fits.append((whole, stream))
    for one, other in zip(*fits, strict=True):
        np.testing.assert_array_equal(one["features"].mean, other["features"].mean)
        assert (one["weight_precision"].mean[0] == pytest.approx(1.0, rel=1e-3)) == (same == 1.0)


@pytest.mark.costly
def test_intervals_of_little_seen_digits_hold_most_of_the_rest(global_random_seed):
    from sklearn.datasets import load_digits

    X = load_digits().data[::9]
    seen = np.random.default_rng(global_random_seed).random(X.shape) < 0.4
    model = BetaProcessFA(max_iter=300, random_state=0).fit(np.where(seen, X, np.nan))
    mean, std = model.impute(np.where(seen, X, np.nan), return_std=True)
    # 0.86 in `beta_process.weights`, 0.71 where the precision is learned.
    assert np.mean(np.abs(X - mean)[~seen] < 1.645 * std[~seen]) > 0.8


@pytest.mark.costly
@pytest.mark.parametrize("algorithm", ["mc-ssvi", "gibbs"])
def test_a_known_precision_of_the_weights_stays(algorithm, problem):
    X = problem[0]
    used = []
    for precision in (0.05, 5.0):
        model = BetaProcessFA(**{**QUICK, "algorithm": algorithm, "weight_precision": precision}).fit(X)
        assert model.posterior_["weight_precision"].mean[0] == pytest.approx(precision, rel=1e-3)
        used.append(model.feature_probability_.sum())
    assert used[0] < used[1]  # wide weights make each factor dear
    with pytest.raises(ValueError, match="weight_precision"):
        model.set_params(weight_precision=-1.0).fit(X)


@pytest.mark.costly
def test_log_predictive_density_is_the_log_of_a_mean_over_draws(problem, model, monkeypatch):
    """Equation 12 with its log: draws of the weights agree with their integral, and fewer are worse on average."""
    from sksvi.estimators.completion import halved_entries

    X, held_out, _, _ = problem
    X, held_out = X[:100], held_out[:100]

    def collect(view, terms, rows):
        error = held_out[rows] - (model.mean_ + model.scale_ * (terms.omega @ view.features))
        precision = view.noise / model.scale_**2
        logs_here = 0.5 * (np.log(precision / (2 * np.pi)) - precision * error**2)
        return np.nansum(logs_here, -1)

    logs = np.concatenate(
        [np.concatenate(part) for part in model._local(model._encoding.scaled(model, X), 10, collect, min_samples=300)],
        1,
    )
    wanted, *few = (np.log(np.mean(np.exp(part), 0)) for part in (logs, *(logs[k::100] for k in range(100))))
    monkeypatch.setattr(_beta_process_methods, "DENSITY_SAMPLES", 300)
    found = model.log_predictive_density(X, held_out)
    spread = np.exp(logs - wanted)
    error = np.sqrt(np.sum(np.var(spread, 0, ddof=1) / len(spread)))
    # z are the same draws in both; the log of a noisy mean is half of its relative variance too low.
    assert abs(wanted.sum() + 0.5 * error**2 - found.sum()) < 4 * error
    assert np.all(np.mean(few, axis=0) <= wanted + 1e-12)  # Jensen's inequality: they are parts of the same draws
    np.testing.assert_array_equal(found[np.isnan(held_out).all(1)], 0.0)
    given, asked = halved_entries(X[:5])
    assert np.array_equal(np.isnan(given) & np.isnan(asked), np.isnan(X[:5]))
    counts = (~np.isnan(given)).sum(1) - (~np.isnan(asked)).sum(1)
    assert np.all((counts == 0) | (counts == -1))


def test_results_depend_on_the_row_alone(problem, model):
    X = problem[0]
    order = np.random.default_rng(0).permutation(len(X))
    for method in ("transform", "impute"):
        whole = getattr(model, method)(X)
        np.testing.assert_array_equal(getattr(model, method)(X[order]), whole[order])
        np.testing.assert_array_equal(getattr(model, method)(X[5:6]), whole[5:6])
    assert model.transform_draws(X[:7], 3, 0).shape == (3, 7, 12)


@pytest.mark.costly
@pytest.mark.parametrize("algorithm", ["mc-ssvi", "gibbs"])
def test_threads_never_change_a_bit(algorithm, problem, monkeypatch):
    X = problem[0]
    monkeypatch.setattr(beta_process, "CHUNK_WORK", X.size)  # else these rows are one block, and need no thread
    assert len(beta_process.BetaProcess(6, X.shape[1]).chunks(slice(0, len(X)), None)) == 6
    fits = [BetaProcessFA(algorithm=algorithm, **{**QUICK, "n_jobs": jobs}).fit(X) for jobs in (1, 2)]
    np.testing.assert_array_equal(fits[0].components_, fits[1].components_)
    assert fits[0].lower_bound_ == fits[1].lower_bound_
    np.testing.assert_array_equal(fits[0].transform(X), fits[1].transform(X))


@pytest.mark.costly
def test_results_are_in_the_units_of_the_data(problem):
    X = problem[0]
    plain = BetaProcessFA(**QUICK).fit(X)
    other = BetaProcessFA(**QUICK).fit(1000.0 * X - 7.0)
    np.testing.assert_allclose(other.components_, 1000.0 * plain.components_, rtol=1e-6)
    assert other.noise_precision_ == pytest.approx(plain.noise_precision_ / 1e6, rel=1e-6)
    np.testing.assert_allclose(other.impute(1000.0 * X - 7.0), 1000.0 * plain.impute(X) - 7.0, rtol=1e-6)


def test_streams_save_and_continue(problem, tmp_path):
    X = problem[0]
    model = BetaProcessFA(**QUICK, total_samples=600, batch_size=100)
    for start in range(0, 600, 200):
        model.partial_fit(X[start : start + 200])
    assert model.n_samples_seen_ == 600 and model.n_steps_ == 6
    model.save(tmp_path / "model.sksvi")
    loaded = sksvi.load(tmp_path / "model.sksvi")
    np.testing.assert_array_equal(loaded.transform(X), model.transform(X))
    model.partial_fit(X[:200])
    loaded.partial_fit(X[:200])
    np.testing.assert_array_equal(loaded.components_, model.components_)
    sampler = BetaProcessFA(algorithm="gibbs", **QUICK).fit(X)
    sampler.save(tmp_path / "sampler.sksvi")
    np.testing.assert_array_equal(sksvi.load(tmp_path / "sampler.sksvi").impute(X), sampler.impute(X))
    with pytest.raises(ValueError, match="cannot take chunks"):
        sampler.partial_fit(X)


@pytest.mark.costly
def test_a_fit_that_goes_on_keeps_its_shape(problem):
    X = problem[0]
    model = BetaProcessFA(**QUICK, warm_start=True).fit(X)
    steps = model.n_steps_
    assert model.fit(X).n_steps_ > steps
    with pytest.raises(ValueError, match="n_components was 6"):
        model.set_params(n_components=7).fit(X)


@pytest.mark.costly
def test_pruning_ordering_and_tables(problem):
    X = pd.DataFrame(problem[0], columns=[f"gene {d}" for d in range(12)])
    pruned = BetaProcessFA(n_components=40, prune=True, max_iter=30, random_state=0).fit(X)
    kept = len(pruned.components_)
    assert kept < 40
    assert pruned.transform(X).shape == (600, kept)
    assert pruned.posterior_["features"].mean.shape == (kept, 12)
    variational = clone(pruned).set_params(uncertainty="variational").fit(X)
    assert isinstance(variational.posterior_["features"], DiagonalGaussian)
    np.testing.assert_array_equal(variational.components_, pruned.components_)
    assert list(pruned.get_feature_names_out())[:2] == ["betaprocessfa0", "betaprocessfa1"]
    assert isinstance(clone(pruned).set_output(transform="pandas").fit(X).transform(X), pd.DataFrame)
    table = pruned.summary()
    assert list(table.columns) == ["mean", "std", "lower", "upper"]
    assert list(table.index[-2:]) == ["weight_precision", "noise_precision"]
    assert np.all(table["lower"] <= table["upper"])
    # Names are asked for once.
    assert np.isfinite(pruned.score(X)) and pruned.impute(X).shape == X.shape
    effective = pruned.effective_components()
    assert effective["lower"] <= pruned.n_effective_components_ * 1.5
    assert 1 <= effective["mean"] <= kept


def test_single_precision_stays(problem):
    X = problem[0].astype(np.float32)
    model = BetaProcessFA(**QUICK).fit(X)
    assert model.components_.dtype == np.float32
    assert model.transform(X).dtype == model.impute(X).dtype == np.float32
    small = np.float32(1e-25)  # whose square is none
    _, std = model.fit(small * X).reconstruct(small * X, return_std=True)
    assert std.dtype == np.float32 and np.median(std / small) > 0.01


# ---- bad input
HOSTILE = {
    "one row": np.arange(5.0)[None],
    "constant columns": np.c_[np.ones(30), np.random.default_rng(0).standard_normal((30, 2))],
    "constant": np.full((20, 3), 7.0),
    "huge": 1e12 * np.random.default_rng(0).standard_normal((30, 3)),
    "huge offset": 1e12 + np.random.default_rng(0).standard_normal((30, 3)),
    "beyond squares": 1e120 * np.random.default_rng(0).standard_normal((30, 3)),
    "tiny": 1e-120 * np.random.default_rng(0).standard_normal((30, 3)),
    "a row of NaN": np.r_[np.random.default_rng(0).standard_normal((20, 3)), np.full((1, 3), np.nan)],
    "integers": np.random.default_rng(0).integers(0, 255, (30, 4)).astype(np.uint8),
    "one column": np.random.default_rng(0).standard_normal((30, 1)),
}


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("K", [1, 4])
def test_hostile_rows_give_finite_results(name, K):
    X = HOSTILE[name]
    model = BetaProcessFA(n_components=K, max_iter=4, random_state=0).fit(X)
    for result in (model.transform(X), *model.impute(X, return_std=True), model.components_, model.lower_bound_):
        assert np.all(np.isfinite(result))


def test_errors_name_what_is_wrong():
    X = np.random.default_rng(0).standard_normal((20, 3))
    empty = X.copy()
    empty[:, 1] = np.nan
    with pytest.raises(ValueError, match="column 1 of X has no observed entry"):
        BetaProcessFA().fit(empty)
    with pytest.raises(ValueError, match="column 'b' of X has no observed"):
        BetaProcessFA().fit(pd.DataFrame(empty, columns=list("abc")))
    with pytest.raises(ValueError, match="no observed entry"):
        BetaProcessFA().fit(np.full((4, 3), np.nan))
    with pytest.raises(ValueError, match="infinity"):
        BetaProcessFA().fit(np.where(X > 1, np.inf, X))
    with pytest.raises(NotFittedError):
        BetaProcessFA().transform(X)
    for parameters in (
        {"local_step": "cvb0"},
        {"a": 0},
        {"init_factors": 0},
        {"n_components": 0},
        {"noise": -1.0},
        {"algorithm": "fp"},
    ):
        with pytest.raises(ValueError, match=next(iter(parameters))):
            BetaProcessFA(**parameters).fit(X)
    model = BetaProcessFA(n_components=2, max_iter=2, random_state=0).fit(X)
    before = model.components_.copy()
    with pytest.raises(ValueError, match="no observed entry"):
        model.fit(empty)
    np.testing.assert_array_equal(model.components_, before)
    with pytest.raises(ValueError, match=r"held_out.shape"):
        model.log_predictive_density(X, X[:5])
    with pytest.raises(ValueError, match="at least one observed"):
        model.score(np.full_like(X, np.nan))
    with pytest.raises(ValueError, match="has 5 columns"):
        model.inverse_transform(np.ones((2, 5)))
    with pytest.raises(ValueError, match="coverage"):
        model.summary(coverage=1.0)


def test_too_few_passes_are_told(problem):
    with pytest.warns(ConvergenceWarning, match="max_iter=5"):
        BetaProcessFA(**QUICK).fit(problem[0])


@pytest.mark.costly
def test_example_of_cells(tmp_path, monkeypatch, capsys):
    pytest.importorskip("matplotlib")
    from examples import cytometry

    monkeypatch.setattr(cytometry, "N_CELLS", 400)
    rng = np.random.default_rng(0)
    counts, marker, label = cytometry.simulated(500, rng)
    np.savez(tmp_path / "cells.npz", X=counts, marker=marker, label=label)
    for cells in ([], [str(tmp_path / "cells.npz")]):
        monkeypatch.setattr("sys.argv", ["cytometry", *cells, "--output", str(tmp_path / "figures")])
        cytometry.main()
        printed = capsys.readouterr().out
        for text in ("lost entries: root mean square error", "factor 0, used by", "strongest factor and population"):
            assert text in printed
    assert [path.name for path in (tmp_path / "figures").iterdir()] == ["cytometry.png"]


def test_a_sampler_that_was_cut_off_goes_on(problem, tmp_path):
    """The chain, its draws and where rows were are in the file: the same bits as in one go; then it goes on further."""
    from sksvi import load
    from sksvi.callbacks import Checkpoint

    X = problem[0][:60]
    settings = {"n_components": 4, "algorithm": "gibbs", "random_state": 0}
    straight = BetaProcessFA(max_iter=9, **settings).fit(X)
    path = tmp_path / "half.sksvi"
    BetaProcessFA(max_iter=4, **settings).set_callbacks(Checkpoint(path)).fit(X)
    resumed = load(path).set_params(max_iter=9, warm_start=True).fit(X)
    for name in ("components_", "feature_probability_", "lower_bounds_"):
        np.testing.assert_array_equal(getattr(resumed, name), getattr(straight, name))
    np.testing.assert_array_equal(resumed.transform(X), straight.transform(X))
    further = resumed.set_params(max_iter=3).fit(X)
    assert further.n_iter_ == 12 and np.all(np.isfinite(further.components_))


@pytest.mark.costly
@pytest.mark.parametrize("shape", [(150, 8), (300, 12)])
def test_a_default_fit_ends_by_itself(shape, global_random_seed):
    """Its bound has the noise of drawn weights, which no tolerance is below; a warning would be an error here.

    One data set of forty still gains at the last check before the 1,000 passes of "auto": it has more of them here.
    """
    X = make_beta_process(*shape, n_components=4, random_state=global_random_seed).data
    model = BetaProcessFA(random_state=global_random_seed, max_iter=5000).fit(X)
    assert model.converged_
    assert model.n_effective_components_ < 40  # of 150, where steps that are too short leave most


@pytest.mark.costly
def test_a_default_fit_by_mini_batches_ends_soon():
    """Three steps a pass are as good as one: short ones left features that nothing needs for hundreds of passes."""
    X = make_beta_process(600, 8, n_components=3, random_state=0).data
    model = BetaProcessFA(50, random_state=0).fit(X)
    assert model.n_steps_ == 3 * model.n_iter_
    assert model.converged_ and model.n_iter_ < 150
    assert model.n_effective_components_ < 15


@pytest.mark.costly
@pytest.mark.parametrize(("algorithm", "most"), [("mc-ssvi", 1000), ("gibbs", 100)])
def test_auto_passes_are_those_of_the_algorithm(algorithm, most):
    """A sampler runs all its sweeps: the many passes that a variational fit may take, and hardly takes, are not its."""
    X = make_beta_process(12, 2, n_components=1, random_state=0).data
    settings = {"algorithm": algorithm, "tol": 0.0, "random_state": 0}
    model = BetaProcessFA(1, **settings).fit(X)
    assert model.max_iter == "auto"
    assert model.n_iter_ == most  # a tolerance of zero


@pytest.mark.costly
@pytest.mark.parametrize("local_step", ["mean-field", "spike-slab"])
def test_a_structured_bound_is_no_worse_where_features_are_drawn(local_step, global_random_seed):
    """At one q of the globals rows that see a draw have the better bound; one draw's differs by about 40 nats."""
    rng = np.random.default_rng(global_random_seed)
    use, weights = rng.random((400, 6)) < 0.35, rng.standard_normal((400, 6))
    Y = (use * weights) @ rng.standard_normal((6, 20)) + 0.1 * rng.standard_normal((400, 20))
    model = BetaProcessFA(12, local_step=local_step, algorithm="cvi", random_state=0, warm_start=True).fit(Y)
    before = model.lower_bound_
    with pytest.warns(ConvergenceWarning):
        model.set_params(algorithm="mc-ssvi", max_iter=1, tol=0.0).fit(Y)
    assert model.lower_bound_ > before - 160


# ---- a chain that begins at q
@pytest.mark.costly
def test_spreads_of_a_chain_hold_missing_entries(global_random_seed, tmp_path):
    """Means without spreads are those of q; 90 % intervals of three tables hold what they say."""
    shares = []
    for number in range(3):
        rng = np.random.default_rng([global_random_seed, number])
        use = (rng.random((150, 4)) < 0.3) * rng.standard_normal((150, 4))
        truth, missing = use @ rng.standard_normal((4, 12)), rng.random((150, 12)) < 0.2
        X = np.where(missing, np.nan, truth + 0.3 * rng.standard_normal(truth.shape))
        model = BetaProcessFA(8, random_state=0).fit(X)
        mean, std = (part[missing] for part in model.reconstruct(X, return_std=True))
        shares.append(np.mean(np.abs(mean - truth[missing]) < 1.645 * std))
    error = max(float(np.std(shares)) / np.sqrt(3), 0.01)
    assert 0.85 - 4 * error < np.mean(shares) < 0.95 + 4 * error
    plain = BetaProcessFA(8, uncertainty="variational", random_state=0).fit(X)
    np.testing.assert_array_equal(model.transform(X), plain.transform(X))
    np.testing.assert_array_equal(model.components_, plain.components_)
    assert model.summary().loc["noise_precision", "std"] > plain.summary().loc["noise_precision", "std"]
    model.save(tmp_path / "fit.sksvi")
    np.testing.assert_array_equal(sksvi.load(tmp_path / "fit.sksvi").summary(), model.summary())


def test_few_draws_have_the_variance_of_many():
    """Of rows of no entry, and of one, on average."""
    rng = np.random.default_rng(0)
    X = (rng.random((200, 3)) < 0.5) * rng.standard_normal((200, 3)) @ rng.standard_normal((3, 10))
    X += 0.5 * rng.standard_normal(X.shape)
    model = BetaProcessFA(random_state=0).fit(X)
    few = X[:100].copy()
    few[:, 1:] = np.nan
    for rows in (np.full((1, 10), np.nan), few):
        ten, fifty = (np.square(model.reconstruct(rows, return_std=True, n_draws=n)[1]).sum() for n in (None, 50))
        assert 0.85 < ten / fifty < 1.15
