"""Portions of rows: exact where all is conjugate, near one fit elsewhere; refusals come before any change."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from sksvi import GMERegressor
from sksvi.network import (
    Beta,
    Binomial,
    Categorical,
    Dirichlet,
    Function,
    Gamma,
    Gaussian,
    Likelihood,
    Link,
    Network,
    Poisson,
    Rayleigh,
    SampledFunction,
)


def portions(data, cuts):
    """The rows of all data, cut alike."""
    n = len(next(iter(data.values())))
    return [{name: np.asarray(values)[rows] for name, values in data.items()} for rows in np.split(np.arange(n), cuts)]


def streamed(network, data, cuts, **options):
    for portion in portions(data, cuts):
        network.partial_fit(portion, **options)
    return network


CUTS = [3, 50, 51, 90]


def conjugate(seed):
    """Nodes and data by name, 100 rows each: every message is conjugate and depends on no other node."""
    rng = np.random.default_rng(seed)
    X, group = rng.standard_normal((100, 3)), rng.integers(0, 4, 100)
    line, noise = Gaussian(0.0, 1.5, size=3, covariance="full"), 0.5 * rng.standard_normal(100)
    return {
        "design": ({"w": line, "y": Gaussian(Link("w", design="X"), 4.0)}, {"X": X, "y": X @ [1, -1, 0.5] + noise}),
        "groups": (
            {"a": Gamma(2.0, 1.0, size=4), "y": Poisson(Link("a", index="group"), exposure="hours")},
            {"y": rng.poisson(3.0, 100), "group": group, "hours": rng.uniform(0.5, 2.0, 100)},
        ),
        "counts": ({"p": Beta(1.0, 2.0), "y": Binomial("p", trials="n")}, {"y": rng.poisson(2, 100), "n": [30] * 100}),
        "shares": ({"p": Dirichlet([0.5, 1.0, 2.0]), "y": Categorical("p")}, {"y": rng.integers(0, 3, 100)}),
        "spread": ({"t": Gamma(1.0, 1.0), "y": Gaussian(0.0, "t")}, {"y": noise}),
    }


def same(block, other, rtol=1e-10):
    for name in ("mean", "precision", "shape", "rate", "a", "b", "concentration"):
        if hasattr(block, name):
            np.testing.assert_allclose(getattr(block, name), getattr(other, name), rtol=rtol, atol=rtol)


@pytest.mark.parametrize("case", conjugate(0))
def test_portions_are_one_fit_where_all_is_conjugate(case, global_random_seed):
    """Posterior and bound to 1e-10, in portions of 3, 47, 1, 39 and 10 rows, after a fit to the first of them too."""
    nodes, data = conjugate(global_random_seed)[case]
    whole, stream = Network(nodes).fit(data, tol=1e-14), streamed(Network(nodes), data, CUTS)
    first, *rest = portions(data, CUTS)
    after_fit = Network(nodes).fit(first)
    for portion in rest:
        after_fit.partial_fit(portion)
    for found in (stream, after_fit):
        for name, block in whole.posterior_.items():
            same(found.posterior_[name], block)
            for wanted, part in zip(whole.messages(name)["y"].parts, found.messages(name)["y"].parts, strict=True):
                np.testing.assert_allclose(part, wanted, rtol=1e-10, atol=1e-10)
        assert found.lower_bound_ == pytest.approx(whole.lower_bound_, rel=1e-10)
        assert found.converged_ and found.n_iter_ == found.state_.passes
    assert stream.n_iter_ == len(stream.lower_bounds_) == 5 and stream.state_.rows == 100


def test_an_own_factor_has_rows_by_name(global_random_seed):
    """A quadratic as a function of the nodes: to the accuracy of its integrals that of the conjugate node."""
    y = np.random.default_rng(global_random_seed).normal(1.0, 0.5, 60)

    def log_density(m, y):
        return -2.0 * np.square(y - m)

    own = Network({"m": Gaussian(0.0, 1.0)}, [Function(["m"], log_density, data=["y"])])
    exact = Network({"m": Gaussian(0.0, 1.0), "y": Gaussian("m", 4.0)}).fit({"y": y})
    streamed(own, {"y": y}, [20, 40])
    same(own.posterior_["m"], exact.posterior_["m"], 1e-6)


def test_mean_and_precision_end_near_one_fit(global_random_seed):
    """Messages to each depend on the other, as it was: half a deviation in portions of 20 rows."""
    rng = np.random.default_rng(global_random_seed)
    X = rng.standard_normal((400, 3))
    y = X @ [1.0, -1.0, 0.5] + 0.5 * rng.standard_normal(400)
    line, child = Gaussian(0.0, 1.5, size=3, covariance="full"), Gaussian(Link("w", design="X"), "t")
    nodes = {"w": line, "t": Gamma(1.0, 1.0), "y": child}
    whole = Network(nodes).fit({"X": X, "y": y})
    found = streamed(Network(nodes), {"X": X, "y": y}, range(20, 400, 20))
    for name, block in whole.posterior_.items():
        assert np.all(np.abs(found.posterior_[name].mean - block.mean) < 0.5 * block.std)
        np.testing.assert_allclose(found.posterior_[name].std, block.std, rtol=0.1)


def overdispersed(integrated, spread=None):
    return {
        "centre": Gaussian(0.0, 0.01),
        "precision": Gamma(2.0, 1.0),
        "f": Gaussian("centre", "precision", size="y", integrated=integrated),
        "y": Likelihood("poisson", "f"),
    }


@pytest.mark.costly
@pytest.mark.parametrize(("integrated", "most"), [(True, 1.5), (False, 4.0)])
def test_local_nodes_end_near_one_fit(integrated, most, global_random_seed):
    """Eight portions of 50: integrated locals within 1.5 deviations of one fit; with a q of their own within four.

    Under mean field a deviation is too narrow, and the locals of a portion are fitted to globals that later rows move.
    """
    rng = np.random.default_rng(global_random_seed)
    y = rng.poisson(np.exp(rng.normal(1.0, 0.7, 400))).astype(float)
    whole = Network(overdispersed(integrated)).fit({"y": y})
    found = streamed(Network(overdispersed(integrated)), {"y": y}, range(50, 400, 50))
    for name in ("centre", "precision"):
        q, wanted = found.posterior_[name], whole.posterior_[name]
        assert abs(q.mean[0] - wanted.mean[0]) < most * wanted.std[0]
        assert q.std[0] == pytest.approx(wanted.std[0], rel=0.3)
    assert found.posterior_["f"].mean.shape == (50,)  # those of the last portion
    assert ("f" in found.state_.q) != integrated
    assert found.lower_bound_ == pytest.approx(whole.lower_bound_, abs=6.0)


@pytest.mark.costly
def test_a_stream_is_that_of_the_mixed_effects_model(global_random_seed):
    """Portions of one model as a network and as an estimator that keeps no sample of earlier rows."""
    rng = np.random.default_rng(global_random_seed)
    X = rng.standard_normal((150, 2))
    y = rng.poisson(np.exp(X @ [0.5, -0.3] + rng.normal(0.0, 0.6, 150))).astype(float)
    f = Gaussian(Link("w", design="X"), variance="noise", size="y", integrated=True)
    line = Gaussian(0.0, 1.0, size=2, covariance="full")
    found = streamed(
        Network({"w": line, "noise": Rayleigh(3.0), "f": f, "y": Likelihood("poisson", "f")}),
        {"X": X, "y": y},
        [50, 100],
    )
    options = {"prior_precision": 1.0, "fit_intercept": False, "stream_sample": 0, "tol": 1e-9}
    theirs = GMERegressor(
        likelihood="poisson", bound="optimal", noise=True, noise_prior_scale=3.0, algorithm="cvi", **options
    )
    for first in range(0, 150, 50):
        theirs.partial_fit(X[first : first + 50], y[first : first + 50])
    weights = theirs.posterior_["weights"]
    np.testing.assert_allclose(found.posterior_["w"].mean, weights.mean, atol=1e-3 * weights.std.min())
    assert found.posterior_["noise"].scale == pytest.approx(theirs.posterior_["noise"].scale, rel=1e-3)


def test_earlier_rows_fade():
    nodes = {"rate": Gamma(1.0, 1.0), "y": Poisson("rate")}
    network = Network(nodes).partial_fit({"y": [8.0, 8.0]}).partial_fit({"y": [2.0]}, forgetting=0.25)
    np.testing.assert_allclose([network.posterior_["rate"].shape[0], network.posterior_["rate"].rate[0]], [7.0, 2.5])
    np.testing.assert_allclose(network.messages("rate")["y"].parts[0], [[6.0, -1.5]])


def test_memory_does_not_grow(tmp_path):
    """Nor does the file: portions of as many rows leave as many bytes, but for a bound each."""
    network, sizes = Network(overdispersed(False)), []
    y = np.random.default_rng(0).poisson(2.0, 300).astype(float)
    for portion in portions({"y": y}, range(30, 300, 30)):
        network.partial_fit(portion, max_iter=30, tol=1e-3)
        network.save(tmp_path / "n.sksvi")
        sizes.append((tmp_path / "n.sksvi").stat().st_size)
    assert max(sizes[5:]) < sizes[2] + 2000
    assert {name for name, m in network.state_.messages.by_block.items()} == {"centre", "precision"}


# ---- refusals
def untouched(network, change, words, error=ValueError):
    before = copy.deepcopy(vars(network)), network.state_, network.summary()
    with pytest.raises(error, match=words):
        change(network)
    assert network.state_ is before[1] and network.summary().equals(before[2])
    assert vars(network).keys() == before[0].keys() and network.n_iter_ == before[0]["n_iter_"]


REFUSED = {
    "no data": (lambda n: n.partial_fit({}), "takes 'y' from data"),
    "bad counts": (lambda n: n.partial_fit({"y": [-1.0]}), "Poisson needs"),
    "forgetting": (lambda n: n.partial_fit({"y": [1.0]}, forgetting=0.0), r"forgetting must lie in \(0, 1\]"),
    "order": (lambda n: n.partial_fit({"y": [1.0]}, order="backwards"), "order must be"),
    "another node": (
        lambda n: n.set_params(nodes={**n.nodes, "z": Gamma(1.0, 1.0)}).partial_fit({"y": [1.0]}),
        "node 'z' is unknown here and had data before",
    ),
    "another shape": (
        lambda n: n.set_params(nodes={**n.nodes, "precision": Gamma(2.0, [1.0, 2.0])}).partial_fit({"y": [1.0, 2.0]}),
        r"node 'precision' is a Gamma of shape \(2,\) and was a Gamma of shape \(1,\)",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals_come_before_any_change(case):
    change, words = REFUSED[case]
    untouched(Network(overdispersed(False)).partial_fit({"y": [1.0, 3.0, 0.0]}), change, words)


def test_an_interrupt_leaves_the_network_as_it_was():
    calls = []

    def log_density(x, y):
        calls.append(1)
        if len(calls) > 12:
            raise KeyboardInterrupt
        return -np.square(y - x)

    factor = Function(["x"], log_density, data=["y"])
    network = Network({"x": Gaussian(0.0, 1.0)}, [factor]).partial_fit({"y": [1.0, 2.0]}, tol=1e-2)
    calls.extend([1] * 9)
    untouched(network, lambda n: n.partial_fit({"y": [-30.0, 2.0]}), None, KeyboardInterrupt)
    untouched(network, lambda n: n.fit({"y": [-30.0, 2.0]}), None, KeyboardInterrupt)
    assert len(calls) > 13  # both were cut off


def test_drawn_factors_do_not_stream():
    factor = SampledFunction(["p"], lambda p: p[:, 0], lambda p: [np.ones_like(p)])
    with pytest.raises(TypeError, match="'factor 0' is: fit all rows"):
        Network({"p": Gaussian(0.0, 1.0), "y": Gaussian("p", 1.0)}, [factor]).partial_fit({"y": [1.0]})


def test_integrated_nodes_are_of_the_portion():
    child = Likelihood("logit", Link("f", index="place"))
    nodes = {"s": Gamma(2.0, 1.0), "f": Gaussian(0.0, "s", size=3, integrated=True), "y": child}
    rows = {"y": [0.0, 1.0, 1.0], "place": [0, 1, 1]}
    with pytest.raises(ValueError, match=r"'f' is integrated and has no size from the data.*Set size"):
        Network(nodes).partial_fit(rows)
    nodes["f"] = Gaussian(0.0, "s", size="places", integrated=True)
    network = Network(nodes).partial_fit({**rows, "places": ["a", "b"]}).partial_fit({**rows, "places": ["c", "d"]})
    whole = {"y": rows["y"] * 2, "place": [0, 1, 1, 2, 3, 3], "places": ["a", "b", "c", "d"]}
    q, wanted = network.posterior_["s"], Network(nodes).fit(whole).posterior_["s"]
    assert abs(q.mean[0] - wanted.mean[0]) < 0.1 * wanted.std[0]


def test_a_portion_that_is_not_done_warns():
    with pytest.warns(ConvergenceWarning, match="on this portion after 1 passes"):
        network = Network(overdispersed(False)).partial_fit({"y": [1.0, 3.0, 0.0]}, max_iter=1)
    assert not network.converged_
