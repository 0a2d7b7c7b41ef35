"""Conditional draws of counts: they leave the joint distribution as it is; where counts came from is multinomial."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from sksvi.families import Gamma, Gaussian, Point
from sksvi.models.nmf.cells import cells
from sksvi.models.nmf.chain import CountChain, CountPoint, activations
from sksvi.models.nmf.chain_loops import allocate
from sksvi.models.nmf.model import GammaProcess
from sksvi.models.nmf.poisson import GammaPoisson
from sksvi.models.nmf.side_information import COEFFICIENTS, Columns, SideInformation


@pytest.mark.parametrize("count", [1.0, 3.0, 12.0, 700.0])
def test_counts_are_allocated_as_multinomial_numbers(count, global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    weight, n = np.array([0.5, 2.0, 1e-9, 1.5]), 2000
    column = sp.csr_matrix(np.full((n, 1), count))
    rows, total = np.zeros((n, 4)), np.zeros((1, 4))
    key = int(rng.integers(2**40))
    allocate(column.indptr, column.indices, column.data, np.tile(weight, (n, 1)), np.ones((1, 4)), key, rows, total)
    np.testing.assert_array_equal(rows.sum(1), count)
    np.testing.assert_allclose(rows.sum(0), total[0])
    p = weight / weight.sum()
    error = np.sqrt(np.maximum(count * p * (1 - p), 1e-9) / n)
    assert np.all(np.abs(rows.mean(0) - count * p) < 4.5 * error + 1e-6)
    np.testing.assert_allclose(np.cov(rows.T)[0, 1], -count * p[0] * p[1], rtol=0.25)


def test_fractions_are_rounded_up_as_often_as_they_say(global_random_seed):
    column = sp.csr_matrix(np.full((4000, 1), 1.3))
    rows, total = np.zeros((4000, 1)), np.zeros((1, 1))
    allocate(
        column.indptr, column.indices, column.data, np.ones((4000, 1)), np.ones((1, 1)), global_random_seed, rows, total
    )
    assert set(np.unique(rows)) == {1.0, 2.0}
    assert abs(rows.mean() - 1.3) < 4 * np.sqrt(0.21 / 4000)


def simulated(kind, rng):
    """A model, a point drawn from its prior, and counts given it, some of them not seen."""
    n, K, F = 3, 2, 4
    columns = None
    if kind == "poisson":
        model = GammaPoisson(K, F, component_shape=0.8, activation_shape=0.7)
        scales = {"activation_rate": Point(np.log([0.5])), "component_rate": Point(np.log([0.6]))}
        own, W, theta = rng.gamma(0.7, 2.0, (n, K)), rng.gamma(0.8, 1 / 0.6, (F, K)), np.ones(K)
    elif kind == "columns":
        columns, cell_columns = np.array([[-1.0], [0.0], [1.0]]), Columns(np.array([[1.0], [0.5], [-0.5], [-1.0]]))
        coefficients = Gaussian(np.array([[0.8], [-0.4]]), np.full((K, 1, 1), 1e6))
        side = SideInformation(1, cell_columns)
        model = GammaPoisson(K, F, component_shape=0.8, activation_shape=0.7, side=side)
        scales = {"activation_rate": Point(np.log([0.5])), "component_rate": Point(np.log([0.6]))}
        scales |= dict.fromkeys(COEFFICIENTS, coefficients)
        own = rng.gamma(0.7, 2.0, (n, K)) * np.exp(columns @ coefficients.mean.T)
        W, theta = rng.gamma(0.8, 1 / 0.6, (F, K)) * np.exp(cell_columns.values @ coefficients.mean.T), np.ones(K)
    else:
        model = GammaProcess(K, F, component_shape=0.8, activation_shape=0.7, concentration=2.0, mean=3.0)
        scales = {}
        own, W, theta = rng.gamma(0.7, 1 / 0.7, (n, K)), rng.gamma(0.8, 1 / 0.8, (F, K)), rng.gamma(1.0, 1.5, K)
    y = rng.poisson((own * theta) @ W.T).astype(float)
    y[0, 1] = y[2, 3] = np.nan
    return model, CountPoint(own, W, theta, scales), replace(cells(y), columns=columns)


@pytest.mark.parametrize("kind", ["poisson", "process", pytest.param("columns", marks=pytest.mark.costly)])
def test_a_sweep_leaves_the_joint_distribution_as_it_is(kind, global_random_seed):
    """Drawn from the prior, with counts given them, all numbers are so distributed after a sweep as before."""
    rng, gaps = np.random.default_rng(global_random_seed), []
    for _ in range(1500):
        model, before, found = simulated(kind, rng)
        if kind != "process":  # rates stay: they have an improper prior
            model.drawn_scales = lambda point, counted, covered, rates, rng: point
        gaps.append(functionals(CountChain(model, found, {}).sweep(before, rng, 0)) - functionals(before))
    moved = np.std(gaps, axis=0) > 0  # weights of components without any are 1
    z = np.mean(gaps, axis=0)[moved] / (np.std(gaps, axis=0)[moved] / np.sqrt(len(gaps)))
    assert moved.sum() >= 8 and np.all(np.abs(z) < 4.0), z


def functionals(point):
    """Bounded functions of a draw."""
    mean = (point.activations * point.weights) @ point.components.T
    parts = [mean[0], point.activations[1], point.components[2], point.weights]
    return np.concatenate([np.arctan(part) for part in parts])


def test_rates_have_their_conditional_distribution(global_random_seed):
    """What multiplies activations divides components: r s is what is drawn, of two Gamma numbers."""
    rng = np.random.default_rng(global_random_seed)
    model, before, _ = simulated("poisson", rng)
    found = []
    for _ in range(2000):
        after = model.drawn_scales(before, None, None, 0.5, rng)
        np.testing.assert_allclose(after.activations @ after.components.T, before.activations @ before.components.T)
        found.append(np.exp(after.scales["component_rate"].value[0]))
    rates = [
        rng.gamma(shape * part.size, 1 / part.sum(), 100_000)
        for shape, part in ((0.7, before.activations), (0.8, before.components))
    ]
    exact = rates[0] * rates[1] / 0.5
    assert abs(np.mean(found) - exact.mean()) < 4 * exact.std() / np.sqrt(2000)


def test_rows_have_the_moments_of_their_conditional(global_random_seed):
    """One component: the posterior of an activation given it is Gamma, whatever other rows there are."""
    rng = np.random.default_rng(global_random_seed)
    model = GammaPoisson(1, 5, activation_shape=0.7)
    bases = rng.gamma(1.0, 1.0, (5, 8, 1)).astype(np.float32)
    y = rng.poisson(2.0, (6, 5)).astype(float)
    mean, variance = activations(model, 0.5, bases, cells(y), np.ones((6, 1)), 1)
    exact = Gamma(np.tile(0.7 + y.sum(1)[:, None], (1, 8)), np.tile(0.5 + bases.sum(0)[:, 0], (6, 1)))
    np.testing.assert_allclose(mean[..., 0], exact.mean, rtol=1e-5)
    np.testing.assert_allclose(variance[..., 0], exact.variance, rtol=1e-5)
    y[0, 2] = np.nan
    some = activations(model, 0.5, bases, cells(y[:3]), np.ones((3, 1)), 1)[0]
    np.testing.assert_allclose(some[1:], mean[1:3], rtol=1e-5)
    np.testing.assert_allclose(
        some[0, :, 0], (0.7 + np.nansum(y[0])) / (0.5 + bases.sum(0)[:, 0] - bases[2, :, 0]), rtol=1e-5
    )


def test_rows_of_two_components_have_exact_moments(global_random_seed):
    """The mean count of a cell against a sum over all ways to split the counts of a row."""
    rng = np.random.default_rng(global_random_seed)
    model, W = GammaPoisson(2, 2, activation_shape=0.7), np.array([[1.0, 0.2], [0.3, 0.8]])
    y = np.array([[2.0, 1.0]])
    bases = np.repeat(W[:, None], 6000, axis=1).astype(np.float32)
    mean, variance = activations(model, 0.5, bases, cells(y), np.ones((1, 2)), 1)
    h = rng.gamma(0.7, 1 / 0.5, (400_000, 2))
    rates = h @ W.T
    weight = np.exp((y * np.log(rates) - rates).sum(1))
    weight /= weight.sum()
    exact = weight @ h
    np.testing.assert_allclose(mean[0].mean(0), exact, rtol=0.05)
    second = variance[0].mean(0) + np.square(mean[0]).mean(0)
    np.testing.assert_allclose(second, weight @ np.square(h), rtol=0.08)
