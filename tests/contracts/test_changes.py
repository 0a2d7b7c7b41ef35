"""What may change before a fit that goes on: every parameter of every estimator, as its table says."""

from __future__ import annotations

import pickle
import warnings
from numbers import Integral

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.base import is_classifier
from sklearn.gaussian_process.kernels import RBF
from sklearn.utils._param_validation import Interval, StrOptions

import sksvi
from sksvi import BayesianGLMRegressor, CorrelatedTopicModel, SparseGPRegressor, algorithms, expectations, likelihoods
from sksvi.callbacks import Checkpoint
from sksvi.estimators.refit import UNCHECKED
from sksvi.priors import Normal
from support.interruptions import StopAfter
from support.small_fits import (
    FitCase,
    algorithm_names,
    estimator_classes,
    fingerprint,
    ignore_convergence_warnings,
    make_data,
    make_estimator,
    predictions,
)

ESTIMATORS = estimator_classes()
#: Values that no rule of a parameter lists.
INSTANCES = {
    "algorithm": [algorithms.MCSSVI(), algorithms.CVI()],
    "expectation": [expectations.MonteCarlo()],
    "likelihood": [likelihoods.Gaussian(variance=1.0), "probit"],
    "kernel": [RBF(2.0)],
    "inducing": [np.eye(3)],
    "groups": ["a", None],
    "random_slopes": ["a"],
    "categorical_features": [[0]],
    "prior": [{"*": Normal()}],
    "prior_words": [{0: [1, 2]}],
    "random_state": [3],
    "user_features": [{i: [float(i)] for i in range(9)}],
    "item_features": [{i: [float(i)] for i in range(7)}],
}
# Fits of few rows find what they find.
pytestmark = [
    pytest.mark.filterwarnings("ignore:the components of this .* began among"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore:degrees of freedom"),
    pytest.mark.filterwarnings("ignore:prior_precision=.* is one prior for columns"),
    pytest.mark.filterwarnings("ignore:algorithm=.* keeps a message per row"),
    pytest.mark.filterwarnings("ignore:the intercept lies"),
    pytest.mark.filterwarnings("ignore:the fit explains its own rows worse"),
]


def values(cls, name):
    """Values that a parameter may have and a few that it may not, from the rules that scikit-learn checks."""
    found = list(INSTANCES.get(name, []))
    for rule in cls._parameter_constraints[name]:
        if isinstance(rule, StrOptions):
            found += sorted(rule.options)
        elif isinstance(rule, Interval):
            least, top = rule.left, rule.right
            inside = (least + 1, least + 4) if rule.type is Integral else (0.5 if top is not None else least + 0.7,)
            found += [*inside, least - 1]
        elif isinstance(rule, str):
            found += {"boolean": [False, True]}.get(rule, [])
        elif rule is Integral:
            found.append(2)
        elif rule is None:
            found.append(None)
    return found


def started(cls, how, tmp_path, **options):
    """A fit, a stream or a checkpoint, pickled, and its data."""
    # Draws after the fit are those of one value alone.
    own = {"uncertainty": "variational"} if "uncertainty" in cls._parameter_constraints else {}
    model = make_estimator(FitCase(cls.__name__, {"algorithm": "cvi", "tol": 0.0, **own, **options}), 4)
    X, y = make_data(cls.__name__, 3)
    with ignore_convergence_warnings():
        if how == "fit":
            model.fit(X, y)
        elif how == "stream":
            model.partial_fit(X, y, **({"classes": [0, 1]} if is_classifier(model) else {}))
        else:
            with pytest.raises(InterruptedError):
                model.set_callbacks(Checkpoint(tmp_path / "fit.sksvi"), StopAfter(2)).fit(X, y)
            model = sksvi.load(tmp_path / "fit.sksvi")
    return pickle.dumps(model), X, y


def goes_on(blob, name, value, then, X, y):
    """The estimator after the call, or None where it refused: then it is as it was."""
    model = pickle.loads(blob).set_params(**{name: value})
    if then == "fit" and name != "warm_start":
        model.set_params(warm_start=True)
    if not hasattr(model, then):  # the optimal bound of a GP does not stream
        return None
    held = fingerprint(model)
    try:
        with ignore_convergence_warnings(), np.errstate(over="ignore"):
            getattr(model, then)(X, y)
    except (ValueError, TypeError) as error:
        # A checkpoint is no stream, whatever it is told.
        assert name in str(error) or "this is the checkpoint" in str(error), error
        assert fingerprint(model) == held
        return None
    with warnings.catch_warnings():  # a fit with another variance may say that its means are wide
        warnings.filterwarnings("ignore", "the logarithm of the rate", UserWarning)
        said = predictions(model, X)
    assert np.all(np.isfinite(said)) and np.isfinite(model.lower_bound_)
    return model


@pytest.mark.parametrize("cls", ESTIMATORS.values(), ids=ESTIMATORS)
def test_every_parameter_has_an_entry(cls):
    assert set(cls._changes) == set(cls().get_params(deep=False))


@pytest.mark.exhaustive
@pytest.mark.parametrize("cls", ESTIMATORS.values(), ids=ESTIMATORS)
@pytest.mark.parametrize("how", ["fit", "stream", "checkpoint"])
def test_every_change_is_taken_or_refused(cls, how, tmp_path):
    """Finite numbers, or an error that names the parameter and leaves the estimator as it was."""
    if how == "stream" and not hasattr(cls(), "partial_fit"):
        pytest.skip("takes no chunks")
    blob, X, y = started(cls, how, tmp_path)
    model = pickle.loads(blob)
    refused = set()
    for name in sorted(cls._changes):
        given = getattr(model, name)
        for value in values(cls, name):
            if type(value) is type(given) and not isinstance(value, np.ndarray) and value == given:
                continue
            for then in ("fit",) if how == "checkpoint" else ("fit", "partial_fit"):  # a checkpoint is no stream
                if goes_on(blob, name, value, then, X, y) is None and then == "fit":
                    refused.add(name)
    # All that the table refuses was refused at least once.
    assert {name for name, change in cls._changes.items() if change.why} <= refused | {"intercept_precision"}


@pytest.mark.exhaustive
@pytest.mark.parametrize("cls", ESTIMATORS.values(), ids=ESTIMATORS)
def test_every_algorithm_goes_on_from_every_other(cls, tmp_path):
    """Local states, sites and memories of one are not read by another: fits, streams and checkpoints."""
    names = algorithm_names(cls)
    for i, before in enumerate(names):
        for how in ("fit", "stream", "checkpoint"):
            if how == "stream" and (not hasattr(cls(), "partial_fit") or before in ("gibbs", "fp")):
                continue
            blob, X, y = started(cls, how, tmp_path, algorithm=before)
            for after in names[i + 1 :] + names[:i]:
                for then in ("fit", "partial_fit"):
                    goes_on(blob, "algorithm", after, then, X, y)


def test_a_changed_value_is_named_with_the_reason():
    X, y = make_data("SparseGPRegressor", 3)
    model = SparseGPRegressor(n_inducing=8, noise_variance=0.1, random_state=0, warm_start=True, max_iter=5).fit(X, y)
    for name, value in (("n_inducing", 9), ("noise_variance", 0.2), ("inducing", X[:8])):
        changed = pickle.loads(pickle.dumps(model)).set_params(**{name: value})
        with pytest.raises(ValueError, match=f"{name} was .* cannot change it, as "):
            changed.fit(X, y)


def test_another_number_of_a_fixed_prior_of_the_intercept_counts():
    X, y = make_data("BayesianGLMRegressor", 3)
    model = BayesianGLMRegressor(prior_precision=1.0, intercept_precision=1e-4, warm_start=True).fit(X, y + 5.0)
    there = model.set_params(intercept_precision=100.0, tol=1e-10).fit(X, y + 5.0)
    fresh = BayesianGLMRegressor(prior_precision=1.0, intercept_precision=100.0, tol=1e-10).fit(X, y + 5.0)
    np.testing.assert_allclose(there.intercept_, fresh.intercept_, rtol=1e-3)


@pytest.mark.parametrize(("rows", "options"), [(40, {"prior_precision": 50.0}), (30, {})], ids=["prior", "rows"])
def test_a_checkpoint_does_not_keep_the_bound_of_another_prior_or_of_other_rows(rows, options, tmp_path):
    X, y = make_data("BayesianGLMRegressor", 3)
    X, y = X[:40], y[:40] + X[:40, 1]
    model = BayesianGLMRegressor(prior_precision=1.0, intercept_precision=1.0)
    with pytest.raises(InterruptedError):
        model.set_callbacks(Checkpoint(tmp_path / "fit.sksvi"), StopAfter(2)).fit(X, y)
    model = sksvi.load(tmp_path / "fit.sksvi").set_params(warm_start=True, **options).fit(X[:rows], y[:rows])
    kept = {"prior_precision": 1.0, "intercept_precision": 1.0, **options}
    fresh = BayesianGLMRegressor(**kept).fit(X[:rows], y[:rows])
    assert model.lower_bound_ == pytest.approx(fresh.lower_bound_, rel=1e-2)


def test_local_states_of_another_covariance_are_not_read():
    X, _ = make_data("CorrelatedTopicModel", 3)
    model = CorrelatedTopicModel(3, max_iter=3, random_state=0, warm_start=True).fit(csr_matrix(X))
    for covariance in ("full", "diag"):
        model.set_params(covariance=covariance).fit(csr_matrix(X))
        assert np.isfinite(model.lower_bound_)
        assert model.state_.locals.rule == f"natural, {covariance}"


def test_what_is_free_is_free_everywhere():
    """Budgets, threads and the like: no table refuses them."""
    for cls in ESTIMATORS.values():
        assert all(cls._changes[name] == UNCHECKED for name in ("max_iter", "tol", "n_jobs", "verbose", "warm_start"))


def test_files_that_do_not_say_whose_their_parts_are_go_on(tmp_path):
    """As the version before wrote them."""
    for name in ("SparseGPRegressor", "CorrelatedTopicModel"):
        X, y = make_data(name, 3)
        model = make_estimator(FitCase(name, {"warm_start": True}), 3).fit(X, y)
        for part in (model.state_, model.state_.progress, model.state_.locals):
            for attribute in ("moved_by", "searched", "rule"):
                vars(part).pop(attribute, None)
        model.save(tmp_path / "model.sksvi")
        again = sksvi.load(tmp_path / "model.sksvi")
        np.testing.assert_array_equal(predictions(again, X), predictions(model, X))
        assert np.isfinite(again.fit(X, y).lower_bound_)
