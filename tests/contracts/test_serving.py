"""Threads that predict while another one fits or takes chunks: every answer is of one fit, and none is an error."""

from __future__ import annotations

import copy
import sys
import threading

import numpy as np
import pandas as pd
import pytest
from sklearn.utils._param_validation import InvalidParameterError

import sksvi
from sksvi import BayesianGLMRegressor, GammaPoissonFactorization, GMERegressor, PoissonFactorization, StructuredLDA
from sksvi.families.implicit_loops import digamma, slope, tetragamma, trigamma
from sksvi.models.chains import sliced
from sksvi.models.topics.loops.algebra import log_gamma
from support.estimator_cases import NAMES, fitted_estimator, valid_data

pytestmark = pytest.mark.filterwarnings("ignore")
THREADS, CHUNKS = 4, 12


def of_numbers(rng):
    X = rng.standard_normal((40, 3))
    return X, X[:, 0] + rng.standard_normal(40)


def of_groups(rng):
    x = rng.standard_normal(40)
    return pd.DataFrame({"x": x, "g": rng.choice(list("abcdef"), 40)}), x + rng.standard_normal(40)


def of_pairs(rng):
    X = np.column_stack([rng.integers(0, 6, 60), rng.integers(0, 5, 60)])
    return X[np.unique(X, axis=0, return_index=True)[1]], rng.poisson(2.0, len(np.unique(X, axis=0)))


def of_counts(rng):
    return (rng.poisson(2.0, (30, 6)),)


CASES = {
    "glm": (lambda: BayesianGLMRegressor(), of_numbers, "predict"),
    "mixed": (lambda: GMERegressor(groups="g", noise=False), of_groups, "predict"),
    "pairs": (lambda: PoissonFactorization(2, random_state=0, max_iter=5), of_pairs, "predict"),
    "rows": (lambda: GammaPoissonFactorization(2, random_state=0, max_iter=5), of_counts, "transform"),
    "topics": (lambda: StructuredLDA(2, random_state=0, max_iter=5), of_counts, "transform"),
}


def content(answer):
    return tuple(part.tobytes() for part in answer)


def asked(model, method, X, stop, found):
    while not stop.is_set():
        try:
            found.append(content(getattr(model, method)(X, return_std=True)))
        except Exception as error:
            found.append(repr(error))


@pytest.fixture
def eager():
    """Threads take turns at almost every step."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


@pytest.mark.costly
@pytest.mark.parametrize(
    "case",
    ["glm", "rows", *(pytest.param(case, marks=pytest.mark.exhaustive) for case in ("mixed", "pairs", "topics"))],
)
def test_every_answer_is_of_one_fit(case, eager, global_random_seed):
    make, data, method = CASES[case]
    rng = np.random.default_rng(global_random_seed)
    first, *rest = data(rng)
    model = make().partial_fit(first, *rest)
    known, found, stop = {content(getattr(model, method)(first, return_std=True))}, [], threading.Event()
    threads = [threading.Thread(target=asked, args=(model, method, first, stop, found)) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(CHUNKS):
            model.partial_fit(*data(rng))
            known.add(content(getattr(model, method)(first, return_std=True)))
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert found and not [answer for answer in found if isinstance(answer, str)]
    assert not set(found) - known


def test_a_fit_is_published_whole_or_not_at_all(global_random_seed):
    X, y = of_numbers(np.random.default_rng(global_random_seed))
    model = BayesianGLMRegressor().fit(X, y)
    attributes = vars(model)
    assert model.fit(2.0 * X, y) is model and vars(model) is not attributes
    kept = dict(vars(model))
    with pytest.raises(ValueError, match="NaN"):
        model.fit(np.full_like(X, np.nan), y)
    assert vars(model) == kept
    with pytest.raises(AttributeError):
        model.partial_fit(X, y).nothing  # noqa: B018


@pytest.mark.parametrize("name", NAMES)
def test_methods_of_every_estimator_are_of_one_fit(name):
    cls = getattr(sksvi, name)
    own = [method for method in dir(cls) if method in ("fit", "partial_fit", "predict", "transform", "score", "save")]
    for method in own:
        function = vars(cls).get(method)
        function = getattr(function, "fn", function)
        assert function is None or hasattr(function, "of_one_fit"), method


@pytest.mark.parametrize("name", NAMES)
def test_parameters_that_were_set_since_the_fit_are_checked_by_answers(name):
    """`GammaProcessNMF.transform` after ``activation_shape=0.0`` was a compiled loop without an end."""
    model = copy.deepcopy(fitted_estimator(name, 0)).set_params(tol=-1.0)
    X, _ = valid_data(name, 0)
    asked = [method for method in ("predict", "transform") if hasattr(model, method)]
    for method in asked:
        with pytest.raises(InvalidParameterError, match="'tol' parameter"):
            getattr(model, method)(X)
    assert asked


def test_an_activation_shape_of_zero_is_no_loop_without_an_end():
    model = copy.deepcopy(fitted_estimator("GammaProcessNMF", 0)).set_params(activation_shape=0.0)
    with pytest.raises(InvalidParameterError, match="activation_shape"):
        model.transform(valid_data("GammaProcessNMF", 0)[0])


@pytest.mark.parametrize("x", [-np.inf, -1e20, np.nan])
def test_compiled_series_end_at_any_number(x):
    for function in (digamma, trigamma, tetragamma, log_gamma):
        assert np.isnan(function(x))
    assert np.isnan(slope(1.0, -x, 1e4))
    with pytest.raises(ValueError, match="cannot go on"):
        sliced(lambda at: np.nan, 0.0, np.random.default_rng(0))
