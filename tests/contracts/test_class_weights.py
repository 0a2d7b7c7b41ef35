"""Weights of classes are no numbers of rows: a fit says how much too narrow its intervals are."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pytest
from scipy.special import expit

from sksvi import BayesianGLMClassifier, GPClassifier

TEXT = r"class_weight counts rows .* intervals of coefficients have about (\d+)% of the width"


@pytest.fixture
def rng(global_random_seed):
    return np.random.default_rng([global_random_seed, 71])


def labels(rng, n=2000, base=-3.0):
    X = rng.standard_normal((n, 5))
    return X, (rng.random(n) < expit(X @ np.array([0.5, -0.3, 0.0, 0.2, 0.4]) + base)) * 1


def sandwich_share(X, y, w, model):
    """Median over coefficients of the width by the curvature over that of how estimates vary (White 1980)."""
    A = np.column_stack([X, np.ones(len(X))])
    p = model.predict_proba(X)[:, 1]
    bread = np.linalg.inv(A.T @ (A * (w * p * (1 - p))[:, None]))
    meat = A.T @ (A * np.square(w * (y - p))[:, None])
    return np.median(np.sqrt(np.diag(bread) / np.diag(bread @ meat @ bread)))


def test_a_fit_says_how_much_too_narrow_intervals_are(rng):
    X, y = labels(rng)
    for given in ("balanced", {1: 5.0}):
        model = BayesianGLMClassifier(class_weight=given)
        with pytest.warns(UserWarning, match=TEXT) as found:
            model.fit(X, y)
        share = float(re.search(TEXT, str(found[0].message))[1]) / 100
        counts = np.bincount(y)
        w = (counts.sum() / (2 * counts))[y] if given == "balanced" else np.where(y == 1, 5.0, 1.0)
        assert share == pytest.approx(sandwich_share(X, y, w, model), rel=0.25)
        with pytest.warns(UserWarning, match=TEXT):  # copies of rows
            model.fit(X, y, sample_weight=np.full(len(y), 2.0))


def test_weights_that_hardly_differ_are_not_spoken_of(rng):
    X, y = labels(rng, 400, 0.0)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        for given in ("balanced", {0: 1.1, 1: 0.9}, None):
            BayesianGLMClassifier(class_weight=given).fit(X, y)
        BayesianGLMClassifier(class_weight={1: 9.0}).partial_fit(X[y == 1], y[y == 1], classes=[0, 1])
    assert not [each for each in found if "class_weight" in str(each.message)]


def test_rows_of_weight_0_do_not_count(rng):
    X, y = labels(rng, 120, 0.0)
    names = np.array(["no", "yes", "unasked"])[np.where(np.arange(120) < 20, 2, y)]
    weight = (names != "unasked") * 1.0
    with pytest.warns(UserWarning, match=TEXT):
        GPClassifier(class_weight={"yes": 8.0}).fit(X, names, sample_weight=weight)
