"""Ctrl-C in a fit: kept where a pass ends when asked for; else nothing changes, and the message says what is left."""

from __future__ import annotations

import pickle
import signal
import subprocess
import sys
import threading
import warnings
from importlib import import_module
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import check_is_fitted

import sksvi
from sksvi import BayesianGLMRegressor, DynamicGLM, GMERegressor
from sksvi.callbacks import Checkpoint, FitMonitor, KeepInterrupted
from sksvi.estimators.base import BaseSVI
from sksvi.likelihoods import Poisson
from sksvi.persistence import REGISTRY
from support.small_fits import fingerprint, make_data, predictions

# Fits of few rows find what they find.
pytestmark = pytest.mark.filterwarnings("ignore:the fit explains its own rows worse")
ROOT = Path(__file__).resolve().parents[2]
GP = {"n_inducing": 8, "random_state": 0}
#: A fit of many short passes for every estimator.
OPTIONS = {
    "BayesianGLMClassifier": {"algorithm": "h-mc-ssvi"},
    "BayesianGLMRegressor": {"algorithm": "h-mc-ssvi", "likelihood": "poisson"},
    "BernoulliMixture": {"n_components": 4, "uncertainty": "variational", "random_state": 0},
    "BetaProcessFA": {"n_components": 4, "random_state": 0},
    "CategoricalMixture": {"n_components": 4, "uncertainty": "variational", "random_state": 0},
    "CorrelatedTopicModel": {"n_components": 3, "uncertainty": "variational", "random_state": 0},
    "DynamicGLM": {},
    "GMEClassifier": {"groups": "g", "algorithm": "h-mc-ssvi"},
    "GMERegressor": {"groups": "g", "likelihood": "poisson", "noise": False, "algorithm": "h-mc-ssvi"},
    "GPClassifier": {},
    "GammaFactorModel": {"n_components": 2, "random_state": 0, "tol": 1e-9},
    "GammaPoissonFactorization": {"n_components": 3, "random_state": 0},
    "GammaProcessNMF": {"n_components": 3, "search_passes": 3, "random_state": 0},
    "GeneralizedPMF": {"n_components": 2, "random_state": 0},
    "PoissonFactorization": {"n_components": 3, "random_state": 0},
    "SparseGPClassifier": GP,
    "StructuredLDA": {"n_components": 3, "uncertainty": "variational", "random_state": 0},
    "SparseGPRegressor": {**GP, "likelihood": "poisson"},
}
MORE = {"BetaProcessFA": {"algorithm": "gibbs"}, "SparseGPRegressor": {"optimize_hyperparameters": False}}
CASES = [(name, {}) for name in OPTIONS] + list(MORE.items())


@pytest.fixture(autouse=True)
def sigint_enabled():
    """SIGINT raises KeyboardInterrupt, also where tests run in the background of a shell, which ignores it there."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def made(name, **options):
    module, cls = REGISTRY[name].split(":")
    return getattr(import_module(module), cls)(**{"tol": 0.0, "max_iter": 30, **OPTIONS[name], **options})


class At:
    """Does something after the pass `after`."""

    def __init__(self, after, what):
        self.after, self.what = after, what

    def setup(self, estimator, context): ...

    def on_fit_task_begin(self, estimator, context): ...

    def on_fit_task_end(self, estimator, context):
        return self.what() if context.task_name == "pass" and context.task_id + 1 == self.after else None

    def teardown(self, estimator, context): ...


def interrupt():
    raise KeyboardInterrupt


def keeping(keep):
    return [KeepInterrupted()] if keep else []


def test_every_estimator_is_here():
    estimators = {
        name
        for name, path in REGISTRY.items()
        if isinstance(cls := getattr(import_module(path.split(":")[0]), path.split(":")[1]), type)
        and issubclass(cls, BaseSVI)
    }
    assert estimators == set(OPTIONS)


@pytest.mark.parametrize("how", [interrupt, lambda: signal.raise_signal(signal.SIGINT)], ids=["raised", "signal"])
@pytest.mark.parametrize(("name", "more"), CASES)
def test_a_kept_fit_is_one_of_fewer_passes(name, more, how, global_random_seed, tmp_path):
    X, y = make_data(name, global_random_seed)
    if "GP" in name or name == "DynamicGLM":  # an interrupt leaves no time for nodes, which a callback's end does
        more = {**more, "hyperparameters": "point"}
    model = made(name, **more).set_callbacks(KeepInterrupted(), At(3, how))
    before = signal.getsignal(signal.SIGINT)
    with pytest.warns(ConvergenceWarning, match=r"was interrupted and keeps .* after 3 passes .*warm_start=True"):
        assert model.fit(X, y) is model
    assert signal.getsignal(signal.SIGINT) is before
    assert model.n_iter_ == 3 == len(model.history_) and model.converged_ is False and np.isfinite(model.lower_bound_)
    stopped = clone(made(name, **more)).set_callbacks(At(3, lambda: True)).fit(X, y)
    np.testing.assert_array_equal(predictions(model, X), predictions(stopped, X))
    assert model.lower_bound_ == stopped.lower_bound_
    model.set_callbacks().save(tmp_path / "model.sksvi")
    again = sksvi.load(tmp_path / "model.sksvi")
    for one in (model, again):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            one.set_params(warm_start=True, max_iter=2).fit(X, y)
        assert one.n_iter_ >= 3 and np.all(np.isfinite(predictions(one, X)))


@pytest.mark.parametrize("name", OPTIONS)
def test_otherwise_nothing_changes_and_the_message_says_what_is_left(name, global_random_seed, tmp_path):
    X, y = make_data(name, global_random_seed)
    model = made(name).set_callbacks(At(3, interrupt))
    with pytest.raises(KeyboardInterrupt, match=f"{name} is as it was before. callbacks.KeepInterrupted"):
        model.fit(X, y)
    with pytest.raises(NotFittedError):
        check_is_fitted(model)
    path = tmp_path / "fit.sksvi"
    with pytest.raises(KeyboardInterrupt, match=r"fit\.sksvi' \(pass 2\) goes on with sksvi\.load\('.*fit\.sksvi'\)"):
        model.set_callbacks(Checkpoint(path, every=2), At(3, interrupt)).fit(X, y)
    assert sksvi.load(path).n_iter_ == 2
    # A file of an earlier fit is not this one's.
    late = Checkpoint(path, every=5)
    with pytest.raises(KeyboardInterrupt, match=r"callbacks\.KeepInterrupted"):
        model.set_callbacks(late, At(1, interrupt)).fit(X, y)
    assert late.saved is None


@pytest.fixture
def exiting():
    """SIGTERM ends the program in order, as a user's own handler makes it."""
    before = signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(143))
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.mark.usefixtures("exiting")
@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("name", OPTIONS)
def test_a_handler_that_exits_leaves_the_estimator_and_the_checkpoint(name, keep, global_random_seed, tmp_path):
    """Also with `KeepInterrupted`, which is about Ctrl-C: who exits does not go on."""
    X, y = make_data(name, global_random_seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        straight = made(name).fit(X, y)
        held = fingerprint(straight)
        terminated = At(3, lambda: signal.raise_signal(signal.SIGTERM))
        path = tmp_path / "fit.sksvi"
        model = made(name).set_callbacks(*keeping(keep), Checkpoint(path), terminated)
        with pytest.raises(SystemExit) as exit:
            model.fit(X, y)
        assert exit.value.code == 143
        with pytest.raises(NotFittedError):
            check_is_fitted(model)
        with pytest.raises(SystemExit):
            straight.set_callbacks(At(3, lambda: signal.raise_signal(signal.SIGTERM))).fit(X, y)
        assert fingerprint(straight.set_callbacks()) == held
        resumed = sksvi.load(path).set_params(warm_start=True)
        left = resumed.n_iter_
        np.testing.assert_array_equal(predictions(resumed.fit(X, y), X), predictions(straight, X))
    assert 2 <= left < straight.n_iter_


@pytest.mark.usefixtures("exiting")
@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_a_handler_that_exits_within_a_pass(method, global_random_seed, monkeypatch):
    X, y = make_data("BayesianGLMRegressor", global_random_seed)
    model = BayesianGLMRegressor(likelihood="poisson").partial_fit(X, y)
    held, expected, calls = fingerprint(model), Poisson.expected, []

    def terminated(self, y, m, v):
        calls.append(1)
        if len(calls) == 2:
            signal.raise_signal(signal.SIGTERM)
        return expected(self, y, m, v)

    monkeypatch.setattr(Poisson, "expected", terminated)
    with pytest.raises(SystemExit):
        getattr(model, method)(X, y)
    assert len(calls) == 2 and fingerprint(model) == held


class Interrupting(Poisson):
    """Sends SIGINT while a pass is under way."""

    calls, at = 0, ()

    def expected(self, y, m, v):
        cls = type(self)
        cls.calls += 1
        for _ in range(cls.at.count(cls.calls)):
            signal.raise_signal(signal.SIGINT)
        return super().expected(y, m, v)


@pytest.mark.parametrize("at", [(5,), (5, 5), (5, 6)])
def test_the_pass_under_way_ends_and_a_second_signal_ends_the_fit_at_once(at, global_random_seed, monkeypatch):
    X, y = make_data("BayesianGLMRegressor", global_random_seed)
    monkeypatch.setattr(Interrupting, "at", at)
    monkeypatch.setattr(Interrupting, "calls", 0)
    # Noisy steps of all rows: one look at the data per pass.
    options = {"algorithm": "h-mc-ssvi", "batch_size": 30, "max_iter": 30, "tol": 0.0, "random_state": 0}
    model = BayesianGLMRegressor(likelihood=Interrupting(), **options).set_callbacks(KeepInterrupted())
    before = pickle.dumps(model), signal.getsignal(signal.SIGINT)
    if len(at) > 1:
        with pytest.raises(KeyboardInterrupt):
            model.fit(X, y)
        assert (pickle.dumps(model), signal.getsignal(signal.SIGINT)) == before
        return
    with pytest.warns(ConvergenceWarning, match="interrupted"):
        model.fit(X, y)
    assert 1 <= model.n_iter_ < 5 < Interrupting.calls
    plain = BayesianGLMRegressor(likelihood="poisson", **{**options, "max_iter": model.n_iter_})
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        plain.fit(X, y)
    np.testing.assert_array_equal(model.coef_, plain.coef_)


def test_handlers_of_others_are_respected(global_random_seed):
    """One that is ignored stays ignored; the second signal goes to the handler that was there; threads have none."""
    X, y = make_data("BayesianGLMRegressor", global_random_seed)
    heard, before = [], signal.getsignal(signal.SIGINT)
    twice = At(2, lambda: [signal.raise_signal(signal.SIGINT) for _ in range(2)] and None)
    model = made("BayesianGLMRegressor", max_iter=5).set_callbacks(KeepInterrupted(), twice)
    try:
        signal.signal(signal.SIGINT, lambda number, frame: heard.append(number))
        with pytest.warns(ConvergenceWarning, match="interrupted"):
            model.fit(X, y)
        assert model.n_iter_ == 2 and heard == [signal.SIGINT]
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        with pytest.warns(ConvergenceWarning, match="max_iter"):
            model.fit(X, y)
        assert model.n_iter_ == 5 and signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)
    model = made("BayesianGLMRegressor", tol=1e-3, max_iter=300).set_callbacks(KeepInterrupted())
    thread = threading.Thread(target=model.fit, args=(X, y))
    thread.start()
    thread.join()
    assert model.converged_


@pytest.mark.parametrize("keep", [True, False])
def test_what_follows_the_passes_may_be_cut_short(keep, global_random_seed, monkeypatch):
    X, y = make_data("GMERegressor", global_random_seed)
    monkeypatch.setattr(GMERegressor, "_refine", lambda self, problem, state, looks: interrupt())
    model = GMERegressor(groups="g", likelihood="poisson", noise=False).set_callbacks(*keeping(keep))
    if not keep:
        with pytest.raises(KeyboardInterrupt):
            model.fit(X, y)
        assert not hasattr(model, "state_")
        return
    with pytest.warns(ConvergenceWarning, match="interrupted"):
        model.fit(X, y)
    assert np.all(np.isfinite(model.group_std_)) and np.all(np.isfinite(model.predict(X)))


def test_a_failing_fit_gives_the_handler_back(global_random_seed):
    X, y = make_data("BayesianGLMRegressor", global_random_seed)

    def fail():
        raise FloatingPointError("as it happens")

    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(FloatingPointError, match="as it happens"):
        made("BayesianGLMRegressor").set_callbacks(KeepInterrupted(), At(2, fail)).fit(X, y)
    assert signal.getsignal(signal.SIGINT) is before


def test_clones_and_pickles_keep_what_was_interrupted(global_random_seed):
    X, y = make_data("BayesianGLMRegressor", global_random_seed)
    model = made("BayesianGLMRegressor").set_callbacks(KeepInterrupted(), At(2, interrupt))
    for copied in (clone(model), pickle.loads(pickle.dumps(model))):
        with pytest.warns(ConvergenceWarning, match="interrupted"):
            assert copied.fit(X, y).n_iter_ == 2
    assert not hasattr(model, "state_")


def test_pipelines_and_searches(global_random_seed):
    """The interrupted fit of a search remains, and the next one begins; a Pipeline has no passes of its own."""
    X, y = make_data("BayesianGLMRegressor", global_random_seed)
    model = made("BayesianGLMRegressor").set_callbacks(KeepInterrupted(), At(2, interrupt))
    with pytest.warns(ConvergenceWarning, match="interrupted"):
        pipeline = make_pipeline(StandardScaler(), model).fit(X, y)
    assert pipeline[-1].n_iter_ == 2
    with pytest.warns(ConvergenceWarning, match="interrupted"):
        search = GridSearchCV(pipeline, {"bayesianglmregressor__prior_precision": [0.1, 1.0]}, cv=2).fit(X, y)
    assert search.best_estimator_[-1].n_iter_ == 2 and np.all(np.isfinite(search.cv_results_["mean_test_score"]))
    if hasattr(pipeline, "set_callbacks"):
        with pytest.raises(TypeError, match=r"found Pipeline\. Inside a Pipeline or a search, set it on the estimator"):
            pipeline.set_callbacks(KeepInterrupted()).fit(X, y)


def test_one_series_of_several(global_random_seed):
    """The series under way ends, the others are fitted; other callbacks are refused."""
    y = np.random.default_rng(global_random_seed).poisson(3.0, 90)
    table = pd.DataFrame({"g": np.repeat(["a", "b", "c"], 30)})
    model = DynamicGLM(groups="g", likelihood="poisson", max_iter=100).set_callbacks(KeepInterrupted())
    passes, end = [], FitMonitor.pass_end

    def interrupted(self, info, *arguments):
        passes.append(info["pass"])
        if len(passes) == 1:
            signal.raise_signal(signal.SIGINT)
        return end(self, info, *arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FitMonitor, "pass_end", interrupted)
        with pytest.warns(ConvergenceWarning, match=r"\('a'\): DynamicGLM was interrupted"):
            model.fit(table, y)
    assert [series.converged_ for series in model.series_.values()] == [False, True, True]
    assert model.series_["a"].n_iter_ == 1
    with pytest.raises(ValueError, match="no callback but KeepInterrupted"):
        model.set_callbacks(KeepInterrupted(), At(2, interrupt)).fit(table, y)


def test_rows_in_partitions(global_random_seed):
    array = pytest.importorskip("dask.array")
    X, y = make_data("BayesianGLMRegressor", global_random_seed)
    X, y = np.asarray(X, float), np.asarray(y, float)
    model = made("BayesianGLMRegressor").set_callbacks(KeepInterrupted(), At(2, interrupt))
    with pytest.warns(ConvergenceWarning, match="interrupted"):
        model.fit(array.from_array(X, chunks=(30, -1)), array.from_array(y, chunks=30))
    assert model.n_iter_ == 2 and np.all(np.isfinite(model.predict(X)))


SCRIPT = """
import signal
import numpy as np
from sksvi import BayesianGLMRegressor
from sksvi.callbacks import Checkpoint
from tests.contracts.test_interrupted import At, keeping

signal.signal(signal.SIGINT, signal.default_int_handler)
X = np.random.default_rng(0).standard_normal((50, 2))
model = BayesianGLMRegressor(algorithm="h-mc-ssvi", tol=0.0, max_iter=10**6, random_state=0)
model.set_callbacks(*keeping({keep}), Checkpoint({path!r}, every=2), At(3, lambda: print("third", flush=True)))
model.fit(X, X[:, 0])
print(model.n_iter_, model.converged_, np.isfinite(model.predict(X)).all())
"""


@pytest.mark.costly
@pytest.mark.parametrize("keep", [True, pytest.param(False, marks=pytest.mark.exhaustive)])
def test_a_real_signal_from_outside(keep, tmp_path):
    path = str(tmp_path / "fit.sksvi")
    child = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", SCRIPT.format(keep=keep, path=path)],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert child.stdout.readline() == "third\n"
    child.send_signal(signal.SIGINT)
    try:
        out, error = child.communicate(timeout=120)
    finally:
        child.kill()
    if keep:
        passes, converged, finite = out.split()
        assert child.returncode == 0 and 3 <= int(passes) < 10**6 and (converged, finite) == ("False", "True")
    else:
        assert child.returncode != 0 and out == "" and "KeyboardInterrupt: the fit of BayesianGLMRegressor" in error
        assert path in error and sksvi.load(path).n_iter_ >= 2
