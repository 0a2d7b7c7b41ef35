"""Sufficient statistics of rows with Gaussian noise, and the evidence from one factor."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from sksvi import BayesianGLMRegressor, GMERegressor
from sksvi.families import Gaussian
from sksvi.families.base import Message
from sksvi.families.gaussian.dense import DiagonalGaussian
from sksvi.families.gaussian.structures import DENSE, Structure
from sksvi.inference import engine


def table(seed, noise=1.0, n=120):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.normal(3.0, 2.0, (n, 3)), columns=list("abc"))
    X["g"], X["h"] = rng.integers(0, 8, n).astype(str), rng.integers(0, 11, n).astype(str)
    effects = rng.standard_normal(8)[X["g"].astype(int)]
    return X, X["a"] - 0.5 * X["b"] + noise * (effects + rng.standard_normal(n)), rng


def count_looks(monkeypatch):
    looks, look = [], engine.from_rows
    monkeypatch.setattr(engine, "from_rows", lambda *given: looks.append(1) or look(*given))
    return looks


@pytest.mark.parametrize("groups", [None, ["g"], ["g", "h"]], ids=str)
def test_a_fit_is_that_of_looks_at_every_step(groups, global_random_seed, monkeypatch):
    X, y, rng = table(global_random_seed)
    model = GMERegressor(groups=groups, noise=False, tol=1e-10) if groups else BayesianGLMRegressor(tol=1e-10)
    X = X if groups else X[list("abc")]
    given = {"sample_weight": rng.integers(0, 3, len(y)), "offset": rng.standard_normal(len(y))}
    looks = count_looks(monkeypatch)
    model.fit(X, y, **given)
    assert len(looks) == 1 < model.n_iter_
    found = model.lower_bound_, model.coef_, model.summary()["std"]
    monkeypatch.setattr(engine, "from_sums", lambda *given: None)
    model.fit(X, y, **given)
    assert len(looks) > model.n_iter_
    for a, b in zip(found, (model.lower_bound_, model.coef_, model.summary()["std"]), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-8)


def test_rows_without_noise_are_looked_at_again(global_random_seed, monkeypatch):
    X, y, _ = table(global_random_seed, noise=0.0)
    looks = count_looks(monkeypatch)
    model = BayesianGLMRegressor().fit(X[list("abc")], y)
    assert len(looks) > 1
    np.testing.assert_allclose(model.coef_, [1.0, -0.5, 0.0], atol=1e-5)


def test_the_evidence_is_that_of_the_product(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    half, linear = rng.standard_normal((4, 6)), rng.standard_normal(4)
    message, prior = Message((linear, half @ half.T)), DiagonalGaussian(rng.standard_normal(4), rng.gamma(2.0, size=4))
    post = prior.times(message.faded(0.3))
    square = post.mean @ post.dot(post.mean) - prior.mean @ prior.dot(prior.mean)
    wanted = 0.5 * (post.log_det_cov() + prior.log_det_precision() + square)
    assert prior.log_evidence(message, 0.3) == pytest.approx(wanted, rel=1e-10)
    dense = Gaussian(prior.mean, np.diag(prior.precision))
    assert dense.log_evidence(message, 0.3) == pytest.approx(wanted, rel=1e-10)
    P = post.precision
    assert DENSE.log_gain(P, linear) == pytest.approx(Structure.log_gain(DENSE, P, linear), rel=1e-10)
