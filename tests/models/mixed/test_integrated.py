"""Effects of levels integrated one by one, beside dense quadrature."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit, logsumexp
from sklearn.exceptions import ConvergenceWarning

import sksvi
from sksvi import GMEClassifier
from sksvi.inspection import loo
from sksvi.likelihoods import Bernoulli
from sksvi.models.data import Table
from sksvi.models.mixed import integrated
from sksvi.models.mixed.covariances import GROUP_PRIOR_SCALE
from sksvi.models.mixed.integrated import LevelRows
from sksvi.models.mixed.levels import GroupedDesign


def strong(seed, levels=60, rows=5, std=3.0):
    """Binary rows of few to a level, whose effects are strong."""
    rng = np.random.default_rng([seed, 77])
    g = np.repeat(np.arange(levels), rows)
    X = pd.DataFrame({"x": rng.standard_normal(len(g)), "g": g.astype(str)})
    f = 0.5 + X["x"].to_numpy() + std * rng.standard_normal(levels)[g]
    return X, (rng.random(len(g)) < expit(f)).astype(int), g


def log_likelihood(b, std, X, y, g):
    """log p(y | b, std) on a dense grid."""
    z = np.linspace(-8.0, 8.0, 801)
    f = (b[0] * X["x"].to_numpy() + b[1])[:, None] + std * z
    logs = -0.5 * np.square(z) - 0.5 * np.log(2.0 * np.pi) + np.log(z[1] - z[0])
    by_level = np.zeros((g.max() + 1, len(z)))
    np.add.at(by_level, g, -np.logaddexp(0.0, np.where(y[:, None] == 1, -f, f)))
    return float(np.sum(logsumexp(by_level + logs, axis=1)))


def table(X, y, g):
    design = GroupedDesign(X[["x"]].to_numpy(), g[:, None].astype(np.int32), (None,), (g.max() + 1,))
    return LevelRows(Table(design, y.astype(float)), True)


@pytest.fixture(scope="module")
def data(global_random_seed):
    return strong(global_random_seed)


@pytest.fixture(scope="module")
def model(data):
    return GMEClassifier(groups="g", prior_precision="flat").fit(*data[:2])


def test_moments_are_those_of_dense_quadrature(data):
    X, y, g = data
    rows, b, std = table(X, y, g), np.array([0.8, -0.3]), 2.5
    centre, spread = np.zeros(g.max() + 1), np.full(g.max() + 1, 2.0)
    first = rows.moments(Bernoulli(), b, std, centre, spread)
    found = rows.moments(Bernoulli(), b, std, first.mean, first.std)
    assert abs(found.value - log_likelihood(b, std, X, y, g)) < 1e-3
    h, unit = 1e-2, np.eye(2)

    def at(move):
        return log_likelihood(b + h * move, std, X, y, g)

    slope = [(at(e) - at(-e)) / (2.0 * h) for e in unit]
    np.testing.assert_allclose(found.gradient, slope, rtol=1e-3, atol=1e-2)
    bend = [[at(a + c) - at(a - c) - at(c - a) + at(-a - c) for c in unit] for a in unit]
    np.testing.assert_allclose(found.curvature, -np.array(bend) / (4.0 * h**2), rtol=1e-3, atol=1e-2)


@pytest.mark.costly
def test_a_fit_has_the_posterior_of_a_grid(data, model):
    """Weights by a normal about the best ones at each of many deviations between levels."""
    X, y, g = data
    rows, grid, logs, means, covs = table(X, y, g), np.log(np.geomspace(0.5, 15.0, 31)), [], [], []
    b = np.zeros(2)
    for log_std in grid:
        centre, spread = np.zeros(g.max() + 1), np.full(g.max() + 1, np.exp(log_std))
        for _ in range(12):
            found = rows.moments(Bernoulli(), b, np.exp(log_std), centre, spread)
            cov = np.linalg.inv(found.curvature)
            step = cov @ found.gradient
            b, centre, spread = b + step / (1.0 + np.sqrt(found.gradient @ step)), found.mean, found.std
        squared = np.square(np.exp(log_std) / GROUP_PRIOR_SCALE)
        logs.append(found.value + 0.5 * np.linalg.slogdet(cov)[1] + log_std - 2.0 * np.log1p(squared / 3.0))
        means.append(b)
        covs.append(np.diag(cov))
    weight = np.exp(logs - logsumexp(logs))
    mean, group = weight @ np.array(means), weight @ np.exp(grid)
    std = np.sqrt(weight @ (np.array(covs) + np.square(means - mean)))
    spread = np.sqrt(weight @ np.square(np.exp(grid) - group))
    shown = model.summary(effects="joint")
    np.testing.assert_array_less(np.abs(shown.loc[["x", "intercept"], "mean"] - mean) / std, 0.1)
    np.testing.assert_allclose(shown.loc[["x", "intercept"], "std"], std, rtol=0.08)
    assert abs(shown.loc["std(g, intercept)", "mean"] - group) < 0.15 * spread
    assert abs(shown.loc["std(g, intercept)", "std"] / spread - 1.0) < 0.15


@pytest.mark.parametrize(("limit", "found"), [("STEPS", "not settled after"), ("MOST_NODES", "nodes do not follow")])
def test_integrals_that_fall_short_are_a_warning_with_a_remedy(limit, found, monkeypatch):
    X, y, _ = strong(0, levels=12)
    monkeypatch.setattr(integrated, limit, {"STEPS": 1, "MOST_NODES": 21}[limit])
    with pytest.warns(ConvergenceWarning, match=f"{found}.*prior_precision"):
        model = GMEClassifier(groups="g").fit(X, y)
    monkeypatch.undo()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(X, y)


@pytest.mark.costly
def test_a_weight_is_as_many_copies(data, model):
    X, y, _ = data
    twice = GMEClassifier(groups="g", prior_precision="flat").fit(pd.concat([X, X]), np.r_[y, y])
    weighted = GMEClassifier(groups="g", prior_precision="flat").fit(X, y, sample_weight=np.full(len(y), 2.0))
    np.testing.assert_allclose(weighted.group_std_, twice.group_std_, rtol=1e-2)
    np.testing.assert_allclose(weighted.coef_, twice.coef_, rtol=1e-2)


def test_files_and_draws_have_what_the_summary_has(data, model, tmp_path, global_random_seed):
    X, y, _ = data
    model.save(tmp_path / "model.sksvi")
    loaded = sksvi.load(tmp_path / "model.sksvi")
    pd.testing.assert_frame_equal(loaded.summary(), model.summary())
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
    draws = model.posterior_["weights"].sample(4000, global_random_seed)
    np.testing.assert_allclose(draws[:, 0].std(), model.coef_std_[0], rtol=0.1)
    assert loo(model, X, y).elpd_loo < 0.0
