"""Networks end where L-BFGS on the same bound ends, from good and bad starts, at every rate and in either order."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from scipy.special import gammaincinv

from sksvi.network import Function, Gamma, Gaussian, Likelihood, Link, Network
from support.networks import EXAMPLES, Bound, bound_after_plain_steps, bound_by_draws, counts


@cache
def reached(name):
    """The bound that L-BFGS finds from the first start (the benchmark looks from all)."""
    nodes, factors, data, starts, _ = EXAMPLES[name]()
    bound = Bound(nodes, factors, data)
    return bound.maximum({**bound.priors, **starts[0]})


def fitted(name, which=0, **options):
    nodes, factors, data, starts, _ = EXAMPLES[name]()
    return Network(nodes, factors).fit(data, start=starts[which], **options)


@pytest.mark.parametrize("which", [0, 1, 2])
@pytest.mark.parametrize("order", ["in turn", "parallel"])
@pytest.mark.parametrize("name", EXAMPLES)
def test_ends_where_lbfgs_ends(name, order, which):
    """From any of three starts, and the bound never falls."""
    network = fitted(name, which, order=order)
    assert network.converged_
    assert np.diff(network.lower_bounds_).min() >= -1e-9 * abs(network.lower_bound_)
    assert network.lower_bound_ == pytest.approx(reached(name), abs=1e-4)


@pytest.mark.exhaustive
@pytest.mark.parametrize("rate", [0.1, 0.5])
@pytest.mark.parametrize("which", [0, 1, 2])
@pytest.mark.parametrize("order", ["in turn", "parallel"])
@pytest.mark.parametrize("name", EXAMPLES)
def test_at_every_rate(name, order, which, rate):
    network = fitted(name, which, order=order, rate=rate, max_iter=5000)
    assert network.converged_ and np.diff(network.lower_bounds_).min() >= -1e-9 * abs(network.lower_bound_)
    assert network.lower_bound_ == pytest.approx(reached(name), abs=1e-4)


@pytest.mark.parametrize("covariance", ["full", "diag"])
@pytest.mark.parametrize("unit", [7.0, 10.0, 30.0])
def test_a_first_bound_that_tells_nothing_is_left(unit, covariance, global_random_seed):
    """Nodes narrow until it does: the first q was the last one, as converged, at a bound of -1e116."""
    rng = np.random.default_rng(global_random_seed)
    x = rng.standard_normal((100, 2))
    y = rng.poisson(np.exp(0.5 + 0.8 * x[:, 0]))

    def fit(scale):
        nodes = {"b": Gaussian(0.0, 1e-4, size=3, covariance=covariance)}
        nodes["y"] = Likelihood("poisson", Link("b", design=np.c_[np.ones(100), scale * x]))
        return Network(nodes).fit({"y": y})

    plain, other = fit(1.0), fit(unit)
    assert other.converged_
    shift = 2.0 * np.log(unit)  # of the prior of two coefficients, about
    assert other.lower_bound_ == pytest.approx(plain.lower_bound_ - shift, abs=0.01)
    scales = np.array([1.0, unit, unit])
    np.testing.assert_allclose(other.posterior_["b"].mean * scales, plain.posterior_["b"].mean, atol=1e-3)
    np.testing.assert_allclose(other.posterior_["b"].std * scales, plain.posterior_["b"].std, rtol=1e-3)


@pytest.mark.parametrize("name", EXAMPLES)
def test_gradient_of_the_bound(name, global_random_seed):
    """What L-BFGS follows, and with it every message, is the slope of the bound."""
    nodes, factors, data, starts, _ = EXAMPLES[name]()
    bound = Bound(nodes, factors, data)
    rng = np.random.default_rng(global_random_seed)
    x = bound.pack({**bound.priors, **starts[0]})
    x = x + 0.2 * rng.standard_normal(len(x))
    along = rng.standard_normal(len(x))
    found = (bound(x + 1e-5 * along)[0] - bound(x - 1e-5 * along)[0]) / 2e-5
    products = bound(x)[1] * along  # which may cancel
    assert abs(products.sum() - found) < 2e-4 * np.abs(products).sum()


@pytest.mark.parametrize("name", EXAMPLES)
def test_bound_against_draws(name, global_random_seed):
    """E log p(everything) - E log q, from draws and scipy's densities."""
    network = fitted(name)
    mean, error = bound_by_draws(dict(network.posterior_), EXAMPLES[name]()[-1], 4000, global_random_seed)
    assert abs(mean - network.lower_bound_) < 4 * error + 1e-6


@pytest.mark.costly
@pytest.mark.parametrize("rate", [0.5, 1.0])
@pytest.mark.parametrize("order", ["in turn", "parallel"])
def test_without_the_safeguard_a_poisson_network_diverges(order, rate):
    """Plain steps from a start far below the counts fall beneath -1e100; the network's do not, from any start."""
    nodes, factors, data, starts, _ = counts(level=5.0)
    bound = Bound(nodes, factors, data)
    assert not bound_after_plain_steps(bound, {**bound.priors, **starts[1]}, rate, order, 60) > -1e100
    found = [Network(nodes).fit(data, start=start, order=order, rate=rate).lower_bound_ for start in starts]
    np.testing.assert_allclose(found, bound.maximum({**bound.priors, **starts[0]}), atol=1e-4)


def test_messages_add_up_to_the_posterior():
    network = fitted("counts", tol=1e-12)
    for name, prior in (("centre", (0.0, 0.01)), ("precision", (1.0, -1.0))):
        said = [message.added() for message in network.messages(name).values()]
        q = network.posterior_[name]
        if name == "centre":
            total = prior[0] + sum(part[0] for part in said), prior[1] + sum(part[1] for part in said)
            np.testing.assert_allclose(total[0] / total[1], q.mean, rtol=1e-4)
            np.testing.assert_allclose(total[1], q.precision, rtol=1e-4)
        else:
            np.testing.assert_allclose(np.array([prior]) + sum(part[0] for part in said), q.theta, rtol=1e-4)


def test_derivatives_and_values_say_the_same(global_random_seed):
    """A Function of a Gaussian and a Gamma: a curve that saturates, with and without its slopes."""
    rng = np.random.default_rng(global_random_seed)
    t = np.linspace(0.1, 4.0, 25)
    y = 2.0 * (1.0 - np.exp(-1.3 * t)) + 0.1 * rng.standard_normal(25)

    def log_density(height, speed, t, y):
        return -0.5 * np.square((y - height * (1.0 - np.exp(-speed * t))) / 0.1) - np.log(0.1 * np.sqrt(2 * np.pi))

    def slopes(height, speed, t, y):
        rise = 1.0 - np.exp(-speed * t)
        off = (y - height * rise) / 0.01
        return off * rise, off * height * t * np.exp(-speed * t)

    nodes = {"height": Gaussian(0.0, 0.1), "speed": Gamma(2.0, 1.0)}
    with_slopes, without = (
        Network(nodes, [Function(["height", "speed"], log_density, given, data=[t, y])]).fit()
        for given in (slopes, None)
    )
    assert with_slopes.lower_bound_ == pytest.approx(without.lower_bound_, abs=1e-6)
    # Height and speed are correlated, of which q knows nothing: the deviations of least squares.
    design = np.stack([1.0 - np.exp(-1.3 * t), 2.0 * t * np.exp(-1.3 * t)], 1) / 0.1
    stds = np.sqrt(np.diag(np.linalg.inv(design.T @ design)))
    for (name, truth), std in zip({"height": 2.0, "speed": 1.3}.items(), stds, strict=True):
        q = with_slopes.posterior_[name]
        np.testing.assert_allclose(q.mean, without.posterior_[name].mean, rtol=1e-4)
        assert abs(q.mean[0] - truth) < 4 * std + 0.02 and q.std[0] < std  # and the pull of a prior


@pytest.mark.exhaustive
@pytest.mark.parametrize(("groups", "rows", "share"), [(1, 100, 0.5), (30, 8, 0.87)])
def test_intervals_of_a_shape_and_its_rate_are_too_narrow(groups, rows, share, global_random_seed):
    """What the page says of mean field: of 90 % intervals so many hold: a rate rises and falls with its shapes."""
    group, held = np.repeat(np.arange(groups), rows), []
    for seed in range(100):
        rng = np.random.default_rng([global_random_seed, seed])
        truth = {"shapes": rng.gamma(2.0, 2.0, groups), "rate": rng.gamma(2.0, 1.0)}
        y = np.maximum(rng.gamma(truth["shapes"][group], 1.0 / truth["rate"]), np.finfo(float).tiny)
        shapes = Gamma(2.0, 0.5, size=groups)
        nodes = {"shapes": shapes, "rate": Gamma(2.0, 1.0), "y": Gamma(Link("shapes", index=group), "rate")}
        q = Network(nodes).fit({"y": y}, tol=1e-7).posterior_
        low, high = ({name: gammaincinv(q[name].shape, end) / q[name].rate for name in truth} for end in (0.05, 0.95))
        held.append([np.mean((low[name] <= truth[name]) & (truth[name] <= high[name])) for name in truth])
    assert np.all(np.abs(np.mean(held, 0) - [share, 0.5]) < 0.2)  # four standard errors of a half
    assert np.mean(held, 0)[0] < 0.9
