"""The posterior of the groups' standard deviations against brute-force integrals of the marginal likelihood."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy.special import ndtr

from sksvi.estimators.summaries import node_ends, node_table
from sksvi.families import Gaussian, Point
from sksvi.integrals.nodes import Nodes
from sksvi.models.data import Table
from sksvi.models.linear.hyperposterior import SHARP, LinearHyperposterior
from sksvi.models.mixed.covariances import Groups, LogScales
from sksvi.models.mixed.glm import MixedModel
from sksvi.models.mixed.levels import GroupedDesign
from tests.cases import TRUTH, fitted, gaussian_answer, problem_for
from tests.models.mixed.test_glm import data_for, expanded, log_hyperprior, model_for


@pytest.fixture
def rng(global_random_seed):
    return np.random.default_rng([global_random_seed, 8])


def one_factor(rng, levels, rows=6, std=0.8):
    """Gaussian data with fixed variance, one factor, no column."""
    n = levels * rows
    codes = np.repeat(np.arange(levels), rows)[:, None].astype(np.int32)
    y = 0.4 + std * rng.standard_normal(levels)[codes[:, 0]] + np.sqrt(0.5) * rng.standard_normal(n)
    return Table(GroupedDesign(np.empty((n, 0)), codes, (None,), (levels,)), y)


def log_evidence(A, y, scales, n_fixed=0):
    """Of the linear mixed model with these standard deviations of the effects."""
    return gaussian_answer(A, y, 0.5, np.concatenate([np.full(n_fixed, 1.5), scales**-2.0, [0.2]]))[2]


def log_scales(model, q):
    """Nodes of the standard deviations between levels, as a fit finds them."""
    nodes = LinearHyperposterior(model, dict(q), 0.0, 1.0).nodes()
    return LogScales(nodes.values, nodes.weights, nodes.within)


def moments(values, log_density):
    """E s and sd s for (k, P) grid points of log s."""
    weight = np.exp(log_density - np.max(log_density))
    weight /= weight.sum()
    s = np.exp(values)
    mean = weight @ s
    return mean, np.sqrt(weight @ np.square(s - mean))


@pytest.mark.parametrize("levels", [5, 12, 40])
def test_one_scale_against_a_grid(levels, rng, monkeypatch):
    data = one_factor(rng, levels)
    model = model_for("gaussian", data, noise=None)
    q = fitted(problem_for(model, data), tol=1e-10).q
    few = log_scales(model, q)
    monkeypatch.setattr(Nodes, "few", lambda self: self)
    found = log_scales(model, q)
    A = expanded(data.X)
    h = np.linspace(-6.0, 4.0, 501)
    density = [log_evidence(A, data.y, np.full(levels, np.exp(v))) + log_hyperprior(np.array([v])) for v in h]
    mean, std = moments(h[:, None], np.array(density))
    assert h[np.argmax(density)] == pytest.approx(q["group_std"].value[0], abs=0.02)
    np.testing.assert_allclose(found.mean, mean, rtol=0.02 if levels > 5 else 0.08)
    np.testing.assert_allclose(found.std, std, rtol=0.06 if levels > 5 else 0.1)
    # Without the lightest nodes, two hundredths of the weight, which lie far out in a tail.
    assert len(few.weights) < len(found.weights)
    np.testing.assert_allclose(few.mean, mean, rtol=0.03 if levels > 5 else 0.08)
    np.testing.assert_allclose(few.std, std, rtol=0.15 if levels > 5 else 0.3)
    # A plug-in of the mode would be narrower and lower than what is known.
    assert np.exp(q["group_std"].value[0]) < found.mean[0]


def test_two_scales_against_a_grid(rng):
    data = data_for("gaussian", rng, n=60)
    data = Table(data.X, data.y)
    model = model_for("gaussian", data, noise=None)
    q = fitted(problem_for(model, data), tol=1e-10).q
    found = log_scales(model, q)
    A, of = expanded(data.X), model.groups.scale_of
    axis = np.linspace(-6.0, 2.5, 46)
    grid = np.array(list(product(axis, axis)))
    density = [log_evidence(A, data.y, np.exp(h)[of], n_fixed=2) + log_hyperprior(h) for h in grid]
    mean, std = moments(grid, np.array(density))
    np.testing.assert_allclose(found.mean, mean, rtol=0.25)
    np.testing.assert_allclose(found.std, std, rtol=0.5)


def test_the_density_of_the_nodes_is_the_evidence(rng):
    """What is integrated is the exact evidence with its prior, up to a constant."""
    data = one_factor(rng, 8)
    model = model_for("gaussian", data, noise=None)
    q = fitted(problem_for(model, data), tol=1e-10).q
    density = LinearHyperposterior(model, dict(q), 0.0, 1.0)
    A = expanded(data.X)
    h = np.linspace(-3.0, 2.0, 11)
    exact = np.array([log_evidence(A, data.y, np.full(8, np.exp(v))) + log_hyperprior(np.array([v])) for v in h])
    found = np.array([density(np.array([v])) for v in h])
    np.testing.assert_allclose(found - found[5], exact - exact[5], atol=1e-5)


def nearly_known(n_scales, levels, rng):
    """Messages that say everything about many effects: the fitted blocks, and the mode of log s."""
    effects = np.exp(np.linspace(-0.5, 0.5, n_scales)) * rng.standard_normal((levels, n_scales))
    layout = Groups((0, levels * n_scales), (levels,), (n_scales,))
    model = MixedModel(
        TRUTH["gaussian"],
        bound="optimal",
        noise_prior_scale=None,
        groups=layout,
        prior_precision=1.0,
        intercept_precision=1.0,
        n_features=levels * n_scales,
        fit_intercept=False,
        full=True,
    )
    # Each effect is known to a thousandth of its standard deviation.
    mode = 0.5 * np.log(np.mean(np.square(effects), axis=0))
    q = {"group_std": Point(mode)}
    prior = model.prior(q)["weights"]
    said = np.diag(np.full(levels * n_scales, 1e6))
    precision = said + np.diag(prior.precision)
    q["weights"] = Gaussian(np.linalg.solve(precision, said @ effects.ravel()), precision)
    return model, q, mode


@pytest.mark.parametrize(("n_scales", "levels"), [(1, 40), (2, 40), (4, 30)])
def test_rule_of_any_number_of_scales(n_scales, levels, rng):
    """For messages that say everything about many effects log s is Gaussian: its mean and sd are known."""
    model, q, mode = nearly_known(n_scales, levels, rng)
    found = log_scales(model, q)
    assert found.nodes.shape[1] == n_scales
    assert found.weights.sum() == pytest.approx(1.0)
    wanted = 1 / np.sqrt(2 * levels)
    np.testing.assert_allclose(found.weights @ found.nodes, mode, atol=0.4 * wanted)
    spread = np.sqrt(found.weights @ np.square(found.nodes - found.weights @ found.nodes))
    assert wanted > SHARP
    np.testing.assert_allclose(spread, wanted, rtol=0.08)


@pytest.mark.parametrize("n_scales", [1, 2])
def test_scales_that_are_known_well_stay_at_the_mode(n_scales, rng):
    model, q, mode = nearly_known(n_scales, 60, rng)  # to 0.09
    found = log_scales(model, q)
    np.testing.assert_allclose(found.nodes, mode[None], atol=1e-12)
    np.testing.assert_allclose(found.weights, 1.0)
    np.testing.assert_allclose(found.within, 1 / 120, rtol=0.02)  # which tables have of them
    np.testing.assert_allclose(found.std, np.exp(mode) / np.sqrt(120), rtol=0.05)


def test_moments_and_table():
    nodes, weights = np.array([[-1.0, 0.0], [1.0, 0.0]]), np.array([0.5, 0.5])
    scales = LogScales(nodes, weights)
    np.testing.assert_allclose(scales.mean, [np.cosh(1.0), 1.0])
    squares = [cov[0, 0] for cov in scales.mean_covariances(Groups((0, 2, 4), (2, 2), (1, 1)))]
    np.testing.assert_allclose(squares, [np.cosh(2.0), 1.0])
    np.testing.assert_allclose(scales.std, [np.sinh(1.0), 0.0])
    table = node_table({"a": np.exp(nodes[:, 0]), "b": np.ones(2)}, weights, coverage=ndtr(1.0) - ndtr(-1.0))
    assert list(table.columns) == ["mean", "std", "lower", "upper"]
    np.testing.assert_allclose(table.loc["a", ["mean", "std"]].astype(float), [scales.mean[0], scales.std[0]])
    np.testing.assert_allclose(table.loc["a", ["lower", "upper"]].astype(float), np.exp([-1.0, 1.0]))
    np.testing.assert_allclose(table.loc["b", ["lower", "upper"]].astype(float), 1.0)


def test_ends_are_quantiles_of_two_halves_of_normals():
    """Of widths 1 and 3 about their median, 2; of nodes at one place with a variance within, of a normal."""
    grid = np.linspace(-4.0, 20.0, 4801)
    width = np.where(grid < 2.0, 1.0, 3.0)
    weights = np.exp(-0.5 * np.square((grid - 2.0) / width)) / width
    ends = node_ends(grid, weights / weights.sum(), ndtr(-1.5))
    np.testing.assert_allclose(ends, [2.0 - 1.5, 2.0 + 1.5 * 3.0], atol=0.02)
    np.testing.assert_allclose(node_ends(np.full(2, 5.0), np.array([0.3, 0.7]), ndtr(-1.5), 4.0), [2.0, 8.0])


@pytest.mark.parametrize("name", ["poisson", "logit"])
@pytest.mark.parametrize("noise", [None, 2.0])
def test_arrow_and_dense_blocks_say_the_same(name, noise, global_random_seed):
    found = []
    for arrow in (None, 0, 1):
        rng = np.random.default_rng([global_random_seed, 9])
        data = data_for(name, rng, arrow=arrow)
        model = model_for(name, data, "simple", noise=noise)
        found.append(log_scales(model, fitted(problem_for(model, data), tol=1e-9).q))
    for other in found[1:]:
        np.testing.assert_allclose(other.mean, found[0].mean, rtol=1e-3)
        np.testing.assert_allclose(other.std, found[0].std, rtol=1e-3)


def test_diagonal_and_standard_blocks(rng):
    """A diagonal q and the coordinates of s-dsvi are heard too."""
    data = one_factor(rng, 12)
    model = model_for("gaussian", data, noise=None)
    exact = log_scales(model, fitted(problem_for(model, data), tol=1e-9).q)
    standard = fitted(problem_for(model, data, "s-dsvi"), tol=1e-6, max_iter=400).q
    np.testing.assert_allclose(log_scales(model, standard).mean, exact.mean, rtol=0.1)
    model = model.replaced(full=False)
    diagonal = log_scales(model, fitted(problem_for(model, data), tol=1e-9).q)
    np.testing.assert_allclose(diagonal.mean, exact.mean, rtol=0.2)
    assert np.all(np.isfinite(diagonal.std)) and np.all(diagonal.std > 0)


@pytest.mark.parametrize("shrink", [1.0, 30.0])
def test_a_fit_that_has_not_settled_has_a_posterior_too(shrink, rng):
    """Messages may be negative under such a q: nodes where nothing is defined have no weight."""
    data = one_factor(rng, 12)
    model = model_for("gaussian", data, noise=None)
    q = dict(fitted(problem_for(model, data), tol=1e-9).q)
    prior = np.diag(model.prior(q)["weights"].precision)
    less = prior + (q["weights"].precision - prior) / shrink - (0.3 if shrink > 1 else 0.0) * prior
    q["weights"] = Gaussian(q["weights"].mean, less)
    found = log_scales(model, q)
    assert np.all(np.isfinite(found.mean)) and np.all(found.std >= 0) and found.weights.sum() == pytest.approx(1.0)
