"""The training loop: scaling of batches, bits, resuming, repairs, and errors that keep what was fitted."""

from __future__ import annotations

import copy
import warnings
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from sksvi import BayesianGLMClassifier, BayesianGLMRegressor, load
from sksvi._runtime import parallel
from sksvi.algorithms import VARIATIONAL, specs
from sksvi.families import DiagonalGaussian
from sksvi.inference import engine, plan
from sksvi.inference.passes import line_search
from sksvi.inference.start import first_state
from sksvi.inference.state import State
from sksvi.likelihoods import Gaussian, Poisson
from sksvi.models.base import Segment
from sksvi.models.data import Table
from tests.cases import NAMES, data_for, design, fitted, model_for, problem_for, simulate

FULL = pytest.mark.parametrize("full", [True, False], ids=["full", "diag"])


def parts_of(gradient):
    return [part for pair in gradient.values() for part in pair]


def bits(model):
    """Everything that a fit leaves in numbers, as bytes."""
    q = model.posterior_["weights"]
    return b"".join(
        np.ascontiguousarray(part).tobytes() for part in (q.mean, q.std, model.lower_bounds_, model.lower_bound_)
    )


# ---- unbiased
@FULL
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weights"])
@pytest.mark.parametrize("name", NAMES)
def test_mini_batches_average_to_the_whole(name, weighted, full, global_random_seed):
    """Batches of one size (in weight): the mean of their scaled gradients and bounds is the full one."""
    data = data_for(name, n=60, seed=global_random_seed, weight=weighted)
    if weighted:
        data = replace(data, weight=np.repeat(np.random.default_rng(0).uniform(0.5, 2.0, 12), 5))
    model = model_for(name, data, full, learned=True)
    problem = problem_for(model, data, batch_size=12)
    state = State(model.begin(data, None), 0)
    whole, value = engine.evaluate(problem, state, engine.whole(problem))
    segments = list(model.sweep(data, 12, 3, 0))
    shares = np.array([1 / segment.scale for segment in segments])
    assert shares.sum() == pytest.approx(1.0)
    pieces = [engine.evaluate(problem, state, segment) for segment in segments]
    assert shares @ [piece[1] for piece in pieces] == pytest.approx(value, rel=1e-10)
    for i, part in enumerate(parts_of(whole)):
        mean = sum(share * parts_of(piece)[i] for share, (piece, _) in zip(shares, pieces, strict=True))
        np.testing.assert_allclose(mean, part, rtol=1e-10, atol=1e-10 * (1 + np.abs(part).max()))


def test_batches_without_weight_are_left_out():
    data = replace(data_for("logit", n=40), weight=np.r_[np.zeros(35), np.ones(5)])
    model = model_for("logit", data)
    scales = [segment.scale for segment in model.sweep(data, 4, 0, 0)]
    assert len(scales) < 10
    assert np.all(np.isfinite(scales))


def test_population_scale_is_applied_once():
    data = data_for("logit")
    problem = problem_for(model_for("logit", data), data)
    state = State(problem.model.begin(data, None), 0)
    gradient, value = engine.evaluate(problem, state, engine.whole(problem))
    larger, more = engine.evaluate(replace(problem, total=600.0), state, engine.whole(problem))
    assert more == pytest.approx(10 * value)
    np.testing.assert_allclose(larger["weights"][1], 10 * gradient["weights"][1])


# ---- bits
@pytest.fixture(scope="module")
def many_rows():
    X = design(20_000, 5, 0)
    y = simulate("logit", X, 0)
    assert len(parallel.slices(len(X), parallel.chunk_rows(6, True))) > 2
    return X, y


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"covariance": "diag"},
        {"batch_size": 9000, "max_iter": 2},
        {"batch_size": 9000, "max_iter": 2, "algorithm": "mc-ssvi", "expectation": "monte-carlo"},
        {"expectation": "monte-carlo", "max_iter": 2},
        {"algorithm": "fp", "max_iter": 3},
    ],
    ids=str,
)
@pytest.mark.parametrize("form", ["dense", "sparse"])
def test_bits_do_not_depend_on_threads(many_rows, form, options):
    X, y = many_rows
    X = sp.csr_array(X * (np.abs(X) > 1.0)) if form == "sparse" else X
    found = []
    for n_jobs in (1, 2, 4):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = BayesianGLMClassifier(random_state=7, n_jobs=n_jobs, **options).fit(X, y)
        found.append(bits(model))
    assert found[0] == found[1] == found[2]


def test_an_algorithm_of_all_rows_takes_them_however_many(monkeypatch, global_random_seed):
    data = data_for("poisson", n=300, seed=global_random_seed)
    model = BayesianGLMRegressor(likelihood="poisson", algorithm="fp", random_state=0)
    expected = bits(model.fit(data.X, data.y))
    monkeypatch.setattr(specs, "FULL_BATCH_ROWS", 100)
    assert bits(model.fit(data.X, data.y)) == expected
    assert specs.SPECS["cvi"].rows(300) == 12  # others take batches of so many


def test_the_seed_decides_all_that_is_random(global_random_seed):
    data = data_for("poisson", n=300, seed=global_random_seed)
    options = {"batch_size": 50, "expectation": "monte-carlo", "max_iter": 3}

    def fit(seed):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            return bits(BayesianGLMRegressor(likelihood="poisson", random_state=seed, **options).fit(data.X, data.y))

    assert fit(1) == fit(1) != fit(2)


# ---- resume
class Interrupt(Exception):
    """The power cut."""


def crashing(problem, state, passes, at, max_iter=30, tol=1e-7):
    """Run until pass `at`, keep a copy of the state of that pass, crash."""
    kept = []

    def pass_end(state):
        if state.passes == at:
            kept.append(copy.deepcopy(state))
            raise Interrupt
        return False

    with pytest.raises(Interrupt):
        plan.run(problem, state, max_iter, tol, pass_end)
    return kept[0]


@FULL
@pytest.mark.parametrize("batch_size", [None, 25])
@pytest.mark.parametrize("expectation", ["auto", "monte-carlo"])
@pytest.mark.parametrize("algorithm", VARIATIONAL)
def test_a_resumed_fit_has_the_same_bits(algorithm, expectation, batch_size, full, global_random_seed):
    if algorithm == "fp" and (batch_size or expectation == "monte-carlo"):
        pytest.skip("fp works on all rows, without noise")
    data = data_for("logit", n=100, seed=global_random_seed)
    model = model_for("logit", data, full, prior_precision="auto")
    problem = problem_for(model, data, algorithm, expectation, batch_size=batch_size)
    straight = plan.run(problem, first_state(problem, 3), 12, 1e-12, lambda state: False)
    held = crashing(problem, first_state(problem, 3), 12, at=5, max_iter=12, tol=1e-12)
    resumed = plan.run(problem, held, 12, 1e-12, lambda state: False)
    assert resumed.bounds == straight.bounds
    assert resumed.bound == straight.bound
    for name, block in straight.q.items():
        np.testing.assert_array_equal(resumed.q[name].mean, block.mean)
        np.testing.assert_array_equal(resumed.q[name].cov, block.cov)


@pytest.mark.parametrize("options", [{}, {"batch_size": 40}, {"batch_size": 40, "expectation": "monte-carlo"}], ids=str)
def test_resume_from_a_checkpoint_file(options, tmp_path, global_random_seed):
    from sksvi.callbacks import Checkpoint

    data = data_for("poisson", n=160, seed=global_random_seed)
    settings = {"likelihood": "poisson", "random_state": 5, "max_iter": 9, "tol": 1e-12, **options}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        straight = BayesianGLMRegressor(**settings).fit(data.X, data.y)
        path = tmp_path / "half.sksvi"
        stopped = BayesianGLMRegressor(**{**settings, "max_iter": 4}).set_callbacks(Checkpoint(path))
        stopped.fit(data.X, data.y)
        resumed = load(path).set_params(max_iter=9, warm_start=True).fit(data.X, data.y)
    assert bits(resumed) == bits(straight)


# ---- the loop
def test_history_says_what_happened():
    data = data_for("poisson")
    model = BayesianGLMRegressor(likelihood="poisson").fit(data.X, data.y)
    history = model.history_
    assert list(history.columns) == ["pass", "step", "rows", "seconds", "bound", "exact", "rate", "repairs"]
    np.testing.assert_array_equal(history["pass"], np.arange(1, model.n_iter_ + 1))
    np.testing.assert_array_equal(history["rows"], 60.0 * history["pass"])
    np.testing.assert_array_equal(history["bound"], model.lower_bounds_)
    assert np.all(np.diff(history["seconds"]) >= 0)
    assert model.lower_bounds_[-1] == model.state_.bound


def test_mini_batch_history_counts_steps():
    data = data_for("poisson", n=100)
    with pytest.warns(ConvergenceWarning, match="max_iter=3"):
        model = BayesianGLMRegressor(likelihood="poisson", batch_size=30, max_iter=3).fit(data.X, data.y)
    np.testing.assert_array_equal(model.history_["step"], [4, 8, 12])
    assert not model.history_["exact"].any()
    assert model.n_steps_ == 12


def test_a_step_that_lowers_the_bound_is_taken_back(global_random_seed):
    """Correlated columns and a diagonal covariance: the whole step overshoots."""
    rng = np.random.default_rng(global_random_seed)
    X = rng.standard_normal((80, 1)) + 0.05 * rng.standard_normal((80, 8))
    data = Table(X, simulate("logit", X, global_random_seed))
    model = model_for("logit", data, full=True)
    problem = problem_for(model, data)
    # A first q far from its optimum: whole Newton steps diverge from there.
    q = {**model.begin(data, None), "weights": DiagonalGaussian(np.full(9, 3.0), np.full(9, 0.5))}
    diagonal = replace(problem, model=model_for("logit", data, full=False))
    state = plan.run(diagonal, State(q, 0), 300, 1e-9, lambda state: False)
    assert np.all(np.diff(state.bounds) >= -2e-10 * np.abs(state.bounds[:-1]))
    best = fitted(diagonal)
    assert state.bound == pytest.approx(best.bound, rel=1e-5)


def test_wild_starts_end_at_the_same_optimum(global_random_seed):
    from sksvi.families import Gaussian as Block

    for seed in {global_random_seed, 22}:  # 22 has a row under which the first bound is -1e35 nats
        data = data_for("poisson", seed=seed)
        problem = problem_for(model_for("poisson", data), data)
        best = fitted(problem)
        for mean, precision in [(np.zeros(4), 0.1), (np.full(4, 3.0), 1.0), (np.full(4, -4.0), 100.0)]:
            start = State({"weights": Block(mean, precision * np.eye(4))}, 0)
            state = plan.run(problem, start, 300, 1e-9, lambda state: False)
            assert state.bound == pytest.approx(best.bound, rel=1e-7)


def test_a_callback_stops_a_fit():
    data = data_for("logit")
    problem = problem_for(model_for("logit", data), data)
    state = plan.run(problem, first_state(problem, 0), 50, 1e-12, lambda state: state.passes == 2)
    assert state.passes == 2
    assert state.finished
    assert not state.converged


def test_rough_start_saves_passes_and_not_the_answer(global_random_seed, monkeypatch):
    X = design(12_000, 4, global_random_seed)
    data = Table(X, simulate("logit", X, global_random_seed))
    problem = problem_for(model_for("logit", data), data)
    quick = fitted(problem, tol=1e-8)
    monkeypatch.setattr(line_search, "ROUGH_ROWS", 10**9)
    plain = fitted(problem, tol=1e-8)
    assert quick.bound == pytest.approx(plain.bound, rel=1e-8)
    assert quick.passes <= plain.passes
    np.testing.assert_allclose(quick.q["weights"].mean, plain.q["weights"].mean, atol=1e-4)


@pytest.mark.parametrize("algorithm", ["cvi", "mc-ssvi", "h-mc-ssvi", "s-dsvi"])
def test_no_false_stop_with_mini_batches(algorithm, global_random_seed):
    """A fit that says it converged is within what the stopping rule promises, or half a nat of noise."""
    data = data_for("logit", n=2000, seed=global_random_seed)
    model = model_for("logit", data)
    best = fitted(problem_for(model, data), tol=1e-10).bound
    state = fitted(problem_for(model, data, algorithm, batch_size=200), tol=1e-4)
    assert state.converged
    assert best - state.bound <= 20e-4 * (abs(best) + 1) + 0.5
    assert state.bound <= best + 1e-6 * abs(best)


# ---- errors
def test_infinite_bound_raises_and_keeps_what_was_fitted():
    """A hidden failure: the fourth evaluation of the likelihood returns nan."""

    class Flaky(Poisson):
        countdown = [10**9]

        def expected(self, y, m, v):
            value, dm, dv = super().expected(y, m, v)
            Flaky.countdown[0] -= 1
            return (value * (np.nan if Flaky.countdown[0] < 0 else 1.0)), dm, dv

    data = data_for("poisson", n=100)
    for options in ({"batch_size": 20, "max_iter": 3}, {"batch_size": 20, "algorithm": "mc-ssvi", "max_iter": 3}):
        model = BayesianGLMRegressor(likelihood=Flaky(), random_state=0, **options)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            Flaky.countdown[0] = 10**9
            model.fit(data.X, data.y)
        before = {name: copy.deepcopy(value) for name, value in vars(model).items() if name != "state_"}
        was = bits(model)
        Flaky.countdown[0] = 7
        with pytest.raises(ValueError, match=r"not finite in pass \d"):
            model.set_params(max_iter=5).fit(data.X[:, :2], data.y)
        model.set_params(max_iter=3)
        assert bits(model) == was
        assert vars(model).keys() - {"state_"} == before.keys()
        assert model.n_features_in_ == 3
        Flaky.countdown[0] = 10**9
        assert np.all(np.isfinite(model.predict(data.X)))


def test_a_first_fit_that_fails_leaves_nothing():
    class Broken(Poisson):
        def expected(self, y, m, v):
            value, dm, dv = super().expected(y, m, v)
            return value, dm * np.nan, dv

    data = data_for("poisson")
    model = BayesianGLMRegressor(likelihood=Broken())
    with pytest.raises(ValueError, match="gradient of block 'weights' is not finite in pass 1"):
        model.fit(data.X, data.y)
    assert not [name for name in vars(model) if name.endswith("_")]


def test_a_passing_nan_in_a_judged_fit_is_stepped_back_from(global_random_seed):
    """A full batch judges: the step to a place without a bound is halved."""

    class Edge(Gaussian):
        def expected(self, y, m, v):
            value, dm, dv = super().expected(y, m, v)
            return np.where(m > 50.0, np.nan, value), dm, dv

    data = data_for("gaussian", seed=global_random_seed)
    plain = fitted(problem_for(model_for("gaussian", data), data))
    model = model_for("gaussian", data).replaced(likelihood=Edge(variance=0.5))
    state = fitted(problem_for(model, data))
    assert state.bound == pytest.approx(plain.bound)


def test_an_impossible_step_names_block_pass_and_remedy():
    data = data_for("gaussian")
    X = np.column_stack([data.X, data.X[:, 0]])
    model = BayesianGLMRegressor(likelihood=Gaussian(variance=1e-6), prior_precision=1e-14)
    with pytest.raises(ValueError, match=r"block 'weights', pass 1: .*(coordinate|column) \d.*raise prior_precision"):
        model.fit(X * 1e5, data.y)


@pytest.mark.parametrize("chunk", [1, 7, 60])
def test_chunks_count_their_rows(chunk):
    data = data_for("logit")
    model = BayesianGLMClassifier()
    for start in range(0, 60, chunk):
        part = slice(start, start + chunk)
        model.partial_fit(data.X[part], data.y[part], classes=[0.0, 1.0])
    assert model.n_samples_seen_ == 60
    assert len(model.lower_bounds_) == -(-60 // chunk)


@pytest.mark.parametrize("algorithm", ["mc-ssvi", "h-mc-ssvi", "s-dsvi"])
def test_streams_without_memory_come_near_the_batch_fit(algorithm, global_random_seed):
    data = data_for("logit", n=4000, seed=global_random_seed)
    whole = BayesianGLMClassifier(prior_precision=1.5).fit(data.X, data.y)
    stream = BayesianGLMClassifier(prior_precision=1.5, algorithm=algorithm, batch_size=100, total_samples=4000)
    for start in range(0, 4000, 500):
        stream.partial_fit(data.X[start : start + 500], data.y[start : start + 500], classes=[0.0, 1.0])
    # Forty steps in all, none of them averaged: near, by the size of the coefficients (1.3 from first to last).
    np.testing.assert_allclose(stream.coef_, whole.coef_, atol=0.65)
    assert np.all(np.abs(np.log(stream.coef_std_ / whole.coef_std_)) <= np.log(3.0))


def test_segments_are_what_a_sweep_yields():
    data = data_for("logit", n=50)
    model = model_for("logit", data)
    (only,) = model.sweep(data, None, 0, 0)
    assert only == Segment(slice(0, 50), 1.0)
    (only,) = model.sweep(data, 50, 0, 0)
    assert only == Segment(slice(0, 50), 1.0)
    assert len(list(model.sweep(data, 20, 0, 0))) == 3
