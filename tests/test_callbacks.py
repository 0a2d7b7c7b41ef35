"""Callbacks and progress bars: through scikit-learn's interface where it has one, through the stand-in below 1.9."""

from __future__ import annotations

import builtins
import contextlib
import functools
import pickle
import time

import numpy as np
import pytest
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sksvi import callbacks
from sksvi.callbacks import CallbackSupport, Checkpoint, FitMonitor, KeepInterrupted
from sksvi.persistence import REGISTRY, load

try:
    import sklearn.callback as upstream
except ImportError:
    upstream = None

needs_upstream = pytest.mark.skipif(upstream is None, reason="scikit-learn below 1.9 has no callbacks")


class Learner(RegressorMixin, CallbackSupport, BaseEstimator):
    """Moves its one coefficient towards the mean of y, a tenth of the way each pass."""

    def __init__(self, *, max_iter=10, shift=0.0, verbose=0, fail_at=None):
        self.max_iter = max_iter
        self.shift = shift
        self.verbose = verbose
        self.fail_at = fail_at

    def fit(self, X, y, sample_weight=None):
        level, passes = 0.0, 0
        with FitMonitor(self, self.max_iter, self.verbose, X=X, y=y) as monitor:
            while passes < self.max_iter:
                if passes == self.fail_at:
                    raise FloatingPointError("the bound is not finite")
                level += 0.1 * (np.mean(y) + self.shift - level)
                passes += 1
                info = {"pass": passes, "bound": -1.0 / passes}
                if monitor.pass_end(info, functools.partial(self._at, level, passes)):
                    break
        self.level_, self.n_iter_ = level, passes
        return self

    def _at(self, level, passes):
        copy = clone(self)
        copy.level_, copy.n_iter_ = level, passes
        return copy

    def predict(self, X):
        return np.full(len(X), self.level_)


class StandInLearner(RegressorMixin, callbacks._StandInSupport, BaseEstimator):
    __init__ = Learner.__init__
    fit, predict, _at = Learner.fit, Learner.predict, Learner._at


class Recorder:
    """Notes every hook; stops after the pass `stop_after`."""

    def __init__(self, stop_after=None):
        self.stop_after = stop_after
        self.calls = []
        self.fitted = []

    def setup(self, estimator, context):
        self.calls.append("setup")

    def on_fit_task_begin(self, estimator, context):
        self.calls.append(f"begin {context.task_name}")

    def on_fit_task_end(self, estimator, context, *, X=None, y=None, metadata=None, fitted_estimator=None):
        self.calls.append(f"end {context.task_name}")
        self.fitted.append(fitted_estimator)
        return context.task_id + 1 == self.stop_after and context.task_name == "pass"

    def teardown(self, estimator, context):
        self.calls.append("teardown")


class NestedRecorder(Recorder):
    max_propagation_depth = None


@pytest.fixture
def data(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    return rng.normal(size=(30, 2)), rng.normal(3.0, size=30)


@pytest.fixture(params=["upstream", "stand-in"])
def learner(request, monkeypatch):
    if request.param == "upstream":
        if upstream is None:
            pytest.skip("scikit-learn below 1.9 has no callbacks")
        return Learner()
    monkeypatch.setattr(callbacks, "_management", callbacks._stand_in_management)
    return StandInLearner()


def session_attributes(estimator):
    return [name for name in vars(estimator) if "callback" in name]


def test_every_pass_is_a_task_and_every_beginning_has_its_end(learner, data):
    recorder = Recorder()
    learner.set_params(max_iter=2).set_callbacks(recorder).fit(*data)
    passes = ["begin pass", "end pass"] * 2
    assert recorder.calls == ["setup", "begin fit", *passes, "end fit", "teardown"]
    assert [est.n_iter_ for est in recorder.fitted] == [1, 2, 2]
    assert recorder.fitted[-1].predict(data[0])[0] == learner.predict(data[0])[0]


def test_a_callback_stops_the_fit(learner, data):
    recorder = Recorder(stop_after=3)
    learner.set_callbacks(recorder).fit(*data)
    assert learner.n_iter_ == 3
    assert recorder.calls.count("end pass") == 3 and recorder.calls[-1] == "teardown"


def test_a_failing_fit_is_torn_down_and_leaves_nothing(learner, data):
    recorder = Recorder()
    learner.set_params(fail_at=1).set_callbacks(recorder)
    with pytest.raises(FloatingPointError, match="not finite"):
        learner.fit(*data)
    assert recorder.calls[-1] == "teardown" and "end fit" not in recorder.calls
    assert session_attributes(learner) == ["_skl_callbacks"]


def test_a_failing_callback_does_not_hide_the_teardown_of_others(learner, data):
    class Failing(Recorder):
        def on_fit_task_end(self, estimator, context):
            raise RuntimeError("callback failed")

        def teardown(self, estimator, context):
            raise RuntimeError("teardown failed")

    recorder = Recorder()
    learner.set_callbacks(Failing(), recorder)
    with pytest.raises(RuntimeError, match="teardown failed") as caught:
        learner.fit(*data)
    assert "callback failed" in str(caught.value.__context__)
    assert recorder.calls[-1] == "teardown"


def test_no_leftovers_in_parameters_clones_and_pickles(learner, data):
    before = learner.get_params()
    recorder = Recorder()
    learner.set_callbacks(recorder).fit(*data)
    assert learner.get_params() == before
    assert session_attributes(learner) == ["_skl_callbacks"]
    copy = clone(learner)
    assert session_attributes(copy) == ["_skl_callbacks"] and copy._skl_callbacks[0] is recorder
    learner.set_callbacks()
    assert session_attributes(learner) == []
    assert session_attributes(clone(learner)) == []
    assert session_attributes(pickle.loads(pickle.dumps(learner))) == []


def test_only_callbacks_are_accepted(learner):
    for wrong in (Recorder, object(), "progress"):
        with pytest.raises(TypeError, match="callbacks must be instances"):
            learner.set_callbacks(wrong)


def test_nothing_is_built_where_nobody_listens(learner, data, monkeypatch):
    monkeypatch.setattr(type(learner), "_at", lambda *_: pytest.fail("a snapshot was taken"))
    monkeypatch.setattr(callbacks, "_make_bar", lambda *_: pytest.fail("a bar was made"))
    learner.fit(*data)
    assert session_attributes(learner) == []

    class Silent(Recorder):
        def on_fit_task_end(self, estimator, context):
            return None

    learner.set_callbacks(Silent()).fit(*data)  # asks for no fitted estimator


def test_a_silent_monitor_costs_nothing_that_counts():
    def once():
        start = time.perf_counter()
        with FitMonitor(Learner(), 1000) as monitor:
            for _ in range(1000):
                monitor.pass_end({}, lambda: None)
        return time.perf_counter() - start

    assert min(once() for _ in range(5)) < 0.005  # 5 µs a pass would still be nothing beside one


# Inside meta-estimators ----------------------------------------------------------------------------------------------


@needs_upstream
def test_nested_in_pipeline_and_search(data):
    X, y = data
    recorder = NestedRecorder()
    pipeline = make_pipeline(StandardScaler(), Learner(max_iter=3))
    search = GridSearchCV(pipeline, {"learner__shift": [0.0, 5.0]}, cv=2).set_callbacks(recorder).fit(X, y)
    n_fits = 2 * 2 + 1
    assert recorder.calls.count("end pass") == 3 * n_fits
    assert recorder.calls.count("setup") == recorder.calls.count("teardown") == 1
    inner = search.best_estimator_[-1]
    assert session_attributes(inner) == []
    assert search.best_params_ == {"learner__shift": 5.0}
    search.predict(X)


@needs_upstream
def test_a_callback_of_the_inner_estimator_works_inside_meta_estimators(data):
    recorder = Recorder(stop_after=2)
    pipeline = make_pipeline(StandardScaler(), Learner().set_callbacks(recorder)).fit(*data)
    assert pipeline[-1].n_iter_ == 2
    GridSearchCV(pipeline, {"learner__shift": [0.0, 1.0]}, cv=2).fit(*data)
    assert recorder.calls.count("setup") == recorder.calls.count("teardown") == 1 + 5


def test_the_stand_in_works_inside_meta_estimators(data, monkeypatch):
    monkeypatch.setattr(callbacks, "_management", callbacks._stand_in_management)
    recorder = Recorder(stop_after=2)
    search = GridSearchCV(StandInLearner().set_callbacks(recorder), {"shift": [0.0, 1.0]}, cv=2)
    if upstream is None:
        search.fit(*data)
        assert recorder.calls.count("setup") == recorder.calls.count("teardown") == 5
    pipeline = make_pipeline(StandInLearner().set_callbacks(recorder))
    if upstream is None:
        assert pipeline.fit(*data)[-1].n_iter_ == 2


@needs_upstream
def test_the_official_callbacks_run(data, capsys):
    pytest.importorskip("rich")
    monitor = upstream.ScoringMonitor(scoring="r2")
    learner = Learner(max_iter=4).set_callbacks(upstream.ProgressBar(), monitor).fit(*data)
    assert "Learner - fit" in capsys.readouterr().out
    log = monitor.get_logs().data_as_pandas
    scores = log.loc[log["task_name"] == "pass", "r2"].to_numpy()
    assert len(scores) == 4 and np.all(np.diff(scores) > 0)
    assert scores[-1] == pytest.approx(learner.score(*data))


# verbose=1 -----------------------------------------------------------------------------------------------------------


def test_verbose_shows_a_bar_on_standard_error(data, capsys):
    pytest.importorskip("rich")
    Learner(verbose=1).fit(*data)
    out, err = capsys.readouterr()
    assert out == "" and "Learner" in err and "10/10" in err and "bound -0.1 nats" in err


def test_verbose_without_rich_is_a_plain_line(data, capsys, monkeypatch):
    real = builtins.__import__

    def without_rich(name, *args, **kwargs):
        if name.startswith("rich"):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without_rich)
    Learner(verbose=1).fit(*data)
    assert capsys.readouterr().err == "Learner: pass 10 of at most 10, bound -0.1 nats\n"
    monkeypatch.setattr(callbacks.sys.stderr, "isatty", lambda: True, raising=False)
    Learner(verbose=1, max_iter=2).fit(*data)
    assert capsys.readouterr().err.split("\r")[-1].strip() == "Learner: pass 2 of at most 2, bound -0.5 nats"


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("bar", [callbacks._PlainBar, callbacks._RichBar])
def test_a_bar_says_how_the_fit_ended(bar, data, capsys, monkeypatch):
    from sksvi import BayesianGLMRegressor

    pytest.importorskip("rich")
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(callbacks, "_make_bar", bar)

    def raising(error):
        def end(estimator, context):
            if context.task_name == "pass":
                raise error

        recorder = Recorder()
        recorder.on_fit_task_end = end
        return recorder

    for options, hooks, expected in (
        ({}, [], "converged"),
        ({"max_iter": 1, "tol": 0.0}, [], "not converged"),
        ({"tol": 0.0}, [Recorder(stop_after=2)], "stopped"),
        ({}, [KeepInterrupted(), raising(KeyboardInterrupt())], "interrupted"),
        ({}, [raising(KeyboardInterrupt())], "interrupted"),
        ({}, [raising(FloatingPointError("so"))], "failed: FloatingPointError"),
    ):
        model = BayesianGLMRegressor(verbose=1, **options).set_callbacks(*hooks)
        with contextlib.suppress(KeyboardInterrupt, FloatingPointError):
            model.fit(*data)
        line = capsys.readouterr().err.strip().splitlines()[-1]
        assert line.endswith(f" {expected}") and line.startswith("BayesianGLMRegressor") and "bound" in line


def test_two_bars_at_once(data, capsys):
    pytest.importorskip("rich")
    outer = FitMonitor(Learner(), None, 1)
    with outer as monitor:
        Learner(verbose=1).fit(*data)
        assert not monitor.pass_end({"pass": 1, "bound": None}, lambda: None)
    assert "Learner" in capsys.readouterr().err


@needs_upstream
def test_a_bar_inside_a_search_with_a_progress_callback(data):
    pytest.importorskip("rich")
    search = GridSearchCV(Learner(verbose=1, max_iter=2), {"shift": [0.0, 1.0]}, cv=2)
    search.set_callbacks(upstream.ProgressBar(max_propagation_depth=None)).fit(*data)
    assert search.best_estimator_.get_params()["verbose"] == 1


# Checkpoint ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def listed(monkeypatch):
    """Let files hold the test's learners, and Checkpoint take them for estimators of ours."""
    for cls in (Learner, StandInLearner):
        monkeypatch.setitem(REGISTRY, f"test-{cls.__name__}", f"{__name__}:{cls.__name__}")


def test_checkpoint_leaves_the_latest_file(learner, data, tmp_path, listed):
    path = tmp_path / "fit.sksvi"
    learner.set_params(max_iter=20, fail_at=8).set_callbacks(Checkpoint(path, every=3))
    with contextlib.suppress(FloatingPointError):
        learner.fit(*data)
    loaded = load(path)
    assert loaded.n_iter_ == 6
    assert session_attributes(loaded) == []
    assert loaded.predict(data[0])[0] == pytest.approx(np.mean(data[1]) * (1 - 0.9**6))
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


def test_checkpoint_says_what_it_cannot_save(data, tmp_path, learner):
    with pytest.raises(TypeError, match=r"Checkpoint saves estimators of sksvi; found \w*Learner"):
        learner.set_callbacks(Checkpoint(tmp_path / "x")).fit(*data)
    for every in (0, 1.5, True):
        with pytest.raises(ValueError, match="every must be an integer of at least 1"):
            Checkpoint(tmp_path / "x", every=every)


@needs_upstream
def test_checkpoint_on_a_pipeline_is_refused(data, tmp_path):
    pipeline = make_pipeline(StandardScaler(), Learner()).set_callbacks(Checkpoint(tmp_path / "x"))
    with pytest.raises(TypeError, match="found Pipeline"):
        pipeline.fit(*data)


@needs_upstream
def test_checkpoint_works_inside_meta_estimators(data, tmp_path, listed):
    path = tmp_path / "fit.sksvi"
    pipeline = make_pipeline(StandardScaler(), Learner(max_iter=4).set_callbacks(Checkpoint(path)))
    pipeline.fit(*data)
    assert load(path).level_ == pipeline[-1].level_


# With the estimators -------------------------------------------------------------------------------------------------


class Crash(Recorder):
    """Ends the process's interest in a fit after some passes."""

    def on_fit_task_end(self, estimator, context):
        if context.task_name == "pass" and context.task_id + 1 == self.stop_after:
            raise KeyboardInterrupt


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("batch_size", [None, 40])
@pytest.mark.parametrize("algorithm", ["cvi", "mc-ssvi", "h-mc-ssvi", "s-dsvi"])
def test_a_crashed_fit_goes_on_to_the_same_bits(algorithm, batch_size, data, tmp_path, global_random_seed):
    from sksvi import BayesianGLMRegressor

    rng = np.random.default_rng(global_random_seed)
    X = rng.normal(size=(150, 3))
    y = rng.poisson(np.exp(0.5 * X[:, 0]))
    settings = {"algorithm": algorithm, "batch_size": batch_size, "max_iter": 9, "tol": 0.0, "random_state": 3}
    whole = BayesianGLMRegressor(likelihood="poisson", **settings).fit(X, y)
    path = tmp_path / "fit.sksvi"
    broken = BayesianGLMRegressor(likelihood="poisson", **settings)
    with pytest.raises(KeyboardInterrupt):
        broken.set_callbacks(Checkpoint(path, every=2), Crash(stop_after=5)).fit(X, y)
    assert not hasattr(broken, "coef_")
    checkpoint = load(path)
    assert checkpoint.n_iter_ == 4 and np.all(np.isfinite(checkpoint.predict(X)))
    resumed = checkpoint.set_params(warm_start=True).fit(X, y)
    assert resumed.n_iter_ == whole.n_iter_
    assert np.array_equal(resumed.lower_bounds_, whole.lower_bounds_)
    assert np.array_equal(resumed.coef_, whole.coef_) and np.array_equal(resumed.coef_std_, whole.coef_std_)
    assert resumed.lower_bound_ == whole.lower_bound_


def test_a_callback_stops_an_estimator(data, recwarn):
    from sksvi import BayesianGLMRegressor

    recorder = Recorder(stop_after=2)
    model = BayesianGLMRegressor(tol=0.0).set_callbacks(recorder).fit(*data)
    assert model.n_iter_ == 2 and len(model.history_) == 2
    assert recorder.calls.count("begin pass") == recorder.calls.count("end pass") == 2
    assert session_attributes(model) == ["_skl_callbacks"]
    assert not [w for w in recwarn if "converge" in str(w.message)]  # it was asked to stop


@needs_upstream
def test_the_official_callbacks_run_on_an_estimator_in_a_search(data, capsys):
    from sksvi import BayesianGLMRegressor

    pytest.importorskip("rich")
    X, y = data
    monitor = upstream.ScoringMonitor(scoring="neg_mean_squared_error")
    model = BayesianGLMRegressor(prior_precision=1.0).set_callbacks(monitor).fit(X, y)
    log = monitor.get_logs().data_as_pandas
    assert (log["task_name"] == "pass").sum() == len(model.history_)
    assert np.all(np.isfinite(log["neg_mean_squared_error"]))
    pipeline = make_pipeline(StandardScaler(), BayesianGLMRegressor(verbose=1))
    search = GridSearchCV(pipeline, {"bayesianglmregressor__prior_precision": [0.1, 1.0]}, cv=2)
    search.set_callbacks(upstream.ProgressBar(max_propagation_depth=None)).fit(X, y)
    assert "BayesianGLMRegressor - fit" in capsys.readouterr().out
    assert session_attributes(search.best_estimator_[-1]) == []
