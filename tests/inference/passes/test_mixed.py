"""Steps from the best of what the last q span."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import load_iris, load_wine

from sksvi.families import Gaussian
from sksvi.families.base import Message
from sksvi.inference.passes import line_search, subspace
from sksvi.inference.passes.subspace import Iterate, highest, paired
from sksvi.linear_model import BayesianGLMClassifier


def test_the_highest_point_of_a_parabola_leaves_directions_that_bend_up(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    A = rng.standard_normal((3, 3))
    bend, climb = A @ A.T + np.eye(3), rng.standard_normal(3)
    assert_allclose(highest(bend, climb), np.linalg.solve(bend, climb))
    assert_allclose(highest(np.diag([2.0, -1.0]), np.array([4.0, 1.0])), [2.0, 0.0])
    assert highest(np.diag([-2.0, -1.0]), np.ones(2)) is None


def test_slopes_pair_with_moments_as_the_bound_changes():
    # Of a conjugate bound the slope is what is left to say, and q one such step on is where it ends.
    prior = Gaussian(np.zeros(2), np.eye(2))
    target = Message((np.array([1.0, -2.0]), np.array([[3.0, 1.0], [1.0, 2.0]])))
    block = prior.times(target.faded(0.25))
    seen = Iterate(block, prior, block.expected_log_message(target)[0], np.empty(0), np.empty(0), np.empty((0, 0)))
    assert_allclose(seen.message.parts[1], 0.25 * target.parts[1])
    assert_allclose(seen.slope.parts[0], 0.75 * target.parts[0])
    assert_allclose(seen.slope.parts[1], 0.75 * target.parts[1])
    assert_allclose(paired(seen.moments, target), block.expected_log_message(target)[1])


def evaluations(monkeypatch, model, X, y):
    """How often a fit evaluated its bound on all rows, and the bound that it ended at."""
    found, evaluated = [], line_search.evaluated
    monkeypatch.setattr(line_search, "evaluated", lambda *given: found.append(evaluated(*given)) or found[-1])
    model.fit(X, y)
    monkeypatch.setattr(line_search, "evaluated", evaluated)
    return len(found), model.lower_bounds_[-1]


@pytest.mark.filterwarnings("ignore:a combination of columns")
@pytest.mark.parametrize("classes", [2, 3])
def test_labels_that_columns_separate_take_fewer_evaluations(classes, monkeypatch):
    X, y = load_wine(return_X_y=True)
    y = y if classes == 3 else y == 0
    number, bound = evaluations(monkeypatch, BayesianGLMClassifier(), X, y)
    monkeypatch.setattr(subspace, "MOST_WEIGHTS", 0)
    number_of_natural_steps, bound_of_natural_steps = evaluations(monkeypatch, BayesianGLMClassifier(), X, y)
    assert number < number_of_natural_steps
    assert bound > bound_of_natural_steps


def test_steps_that_settle_fast_are_natural_ones(monkeypatch, global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    X = rng.standard_normal((400, 5))
    y = rng.random(400) < 1.0 / (1.0 + np.exp(-X[:, 0]))
    found = evaluations(monkeypatch, BayesianGLMClassifier(), X, y)
    monkeypatch.setattr(subspace, "MOST_WEIGHTS", 0)
    assert evaluations(monkeypatch, BayesianGLMClassifier(), X, y) == found


def test_a_fit_of_classes_ends_where_no_step_is_above_the_error_of_its_rule(monkeypatch):
    X, y = load_iris(return_X_y=True)
    X = X + np.random.default_rng(0).standard_normal(X.shape)
    number, _ = evaluations(monkeypatch, BayesianGLMClassifier(tol=1e-12, max_iter=200), X, y)
    assert number < 60
