"""Factors of whole nodes, by draws: against grids and against the rules of nodes."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy import stats
from sklearn.exceptions import ConvergenceWarning

from sksvi.network import Beta, Dirichlet, Gaussian, Link, Network, SampledFunction
from support.networks import POSITIVE, TESTED, positive_share, prevalence

#: Blood groups A, B, AB, O.
COUNTS = np.array([182.0, 60.0, 17.0, 176.0])


def blood(p):
    a, b, o = p.T
    return COUNTS @ np.log([a * a + 2 * a * o, b * b + 2 * b * o, 2 * a * b, o * o])


def slopes(p):
    a, b, o = p.T
    in_a = COUNTS[0] * (2 * a + 2 * o) / (a * a + 2 * a * o) + COUNTS[2] / a
    in_b = COUNTS[1] * (2 * b + 2 * o) / (b * b + 2 * b * o) + COUNTS[2] / b
    in_o = COUNTS[0] * 2 / (a + 2 * o) + COUNTS[1] * 2 / (b + 2 * o) + 2 * COUNTS[3] / o
    return [np.stack([in_a, in_b, in_o], -1)]


def fitted(network, seed, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return network.fit(random_state=seed, **options)


def test_shares_of_alleles(global_random_seed):
    """The posterior of three shares on a grid: mean within a fifth of a deviation, the bound below the evidence.

    Steps from 100 draws leave the mean 0.03 deviations off, from 20 draws 0.08.
    """
    factor = SampledFunction(["p"], blood, slopes, 100)
    network = fitted(Network({"p": Dirichlet([1.0, 1.0, 1.0])}, [factor]), global_random_seed, max_iter=300, tol=1e-9)
    step = 1.0 / 600
    a, b = (part.ravel() for part in np.meshgrid(*[np.arange(step / 2, 1, step)] * 2))
    p = np.stack([a, b, 1.0 - a - b], -1)[a + b < 1.0 - 1e-9]
    logs = blood(p) + np.log(2.0)
    weight = np.exp(logs - logs.max())
    evidence = logs.max() + np.log(weight.sum() * step**2)
    mean = weight @ p / weight.sum()
    spread = np.sqrt(weight @ np.square(p - mean) / weight.sum())
    q = network.posterior_["p"]
    assert np.all(np.abs(q.mean - mean) < 0.2 * spread)
    np.testing.assert_allclose(q.std, spread, rtol=0.15)
    error = np.std(blood(q.sample(4096, 0))) / np.sqrt(4096)
    assert evidence - 0.1 - 4 * error < network.lower_bound_ < evidence + 4 * error


@pytest.mark.costly
def test_draws_and_rules_end_alike(global_random_seed):
    """The errors of a test, three Beta nodes: by draws as by a product rule.

    400 steps from 200 draws leave means 0.12 deviations short, with 0.04 of noise.
    """
    nodes, factors, *_ = prevalence()

    def log_density(sick, sensitivity, specificity, y, n):
        return stats.binom.logpmf(y, n, positive_share(sick, sensitivity, specificity))

    def slopes(sick, sensitivity, specificity, y, n):
        p = positive_share(sick, sensitivity, specificity)
        slope = y / p - (n - y) / (1.0 - p)
        in_specificity = -(slope * (1.0 - sick)).sum(1, keepdims=True)
        return slope * (sensitivity + specificity - 1.0), (slope * sick).sum(1, keepdims=True), in_specificity

    factor = SampledFunction(list(nodes), log_density, slopes, 200, data=[POSITIVE, TESTED])
    wanted = Network(nodes, factors).fit()
    found = fitted(Network(nodes, [factor]), global_random_seed, max_iter=400, tol=1e-9)
    assert found.lower_bound_ == pytest.approx(wanted.lower_bound_, abs=0.1)
    for name, q in wanted.posterior_.items():
        assert np.all(np.abs(found.posterior_[name].mean - q.mean) < 0.3 * q.std)


def test_what_is_conjugate_is_found_by_draws(global_random_seed):
    """A quadratic of a whole Gaussian vector with correlations, beside the same as a conjugate node, in batches too."""
    rng = np.random.default_rng(global_random_seed)
    X = rng.standard_normal((60, 3))
    y = X @ np.array([1.0, -1.0, 0.5]) + 0.5 * rng.standard_normal(60)

    def log_density(w, y, *columns):
        return -2.0 * np.square(y - w @ np.array(columns)) - 0.5 * np.log(2 * np.pi / 4.0)

    def slopes(w, y, *columns):
        return [4.0 * (y - w @ np.array(columns)) @ np.array(columns).T]

    node = Gaussian(0.0, 1.0, size=3, covariance="full")
    exact = Network({"w": node, "y": Gaussian(Link("w", design=X), 4.0)}).fit({"y": y})
    factor = SampledFunction(["w"], log_density, slopes, 50, data=[y, *X.T])
    for options in ({}, {"batch_size": 20}):
        found = fitted(Network({"w": node}, [factor]), global_random_seed, max_iter=200, tol=1e-9, **options)
        assert np.all(np.abs(found.posterior_["w"].mean - exact.posterior_["w"].mean) < 0.3 * exact.posterior_["w"].std)
        assert found.lower_bound_ == pytest.approx(exact.lower_bound_, abs=0.3)


def test_slopes_of_another_shape_are_named():
    factor = SampledFunction(["p"], lambda p: p[:, 0], lambda p: [p[:, 0]])
    with pytest.raises(ValueError, match=r"'factor 0'.*slopes in node 'p' must have its draws' shape, \(20, 1\)"):
        Network({"p": Beta(1.0, 1.0)}, [factor]).fit()
