"""What is no network, and what does not fit one, is said with the node's name before anything changes."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from sksvi import families
from sksvi.likelihoods import Softmax, StudentT
from sksvi.network import (
    Beta,
    Binomial,
    Categorical,
    Dirichlet,
    Factor,
    Function,
    Gamma,
    Gaussian,
    Likelihood,
    Link,
    Network,
    Poisson,
)


class Says(Factor):
    """A factor that says what it is told to."""

    def __init__(self, nodes, value, said, n_rows=0):
        self.nodes, self.value, self.said, self.n_rows = nodes, value, said, n_rows

    def terms(self, q, rows, expect=None):
        return self.value, self.said


STRUCTURES = {
    "no nodes": (lambda: Network({}), "at least one node"),
    "circle": (
        lambda: Network({"a": Gaussian("b", 1.0), "b": Gaussian("c", 1.0), "c": Gaussian("a", 1.0)}),
        "in a circle: a -> b -> c -> a",
    ),
    "of itself": (lambda: Network({"a": Gaussian("a", 1.0)}), "in a circle: a -> a"),
    "no prior": (lambda: Network({"a": Gaussian(size=3)}), "node 'a' has no prior: Gaussian needs mean and precision"),
    "half a prior": (lambda: Network({"a": Gamma(2.0)}), "node 'a' has no prior: Gamma needs rate"),
    "no link": (lambda: Network({"y": Poisson()}), "node 'y' has no prior: Poisson needs rate"),
    "unknown": (
        lambda: Network({"a": Gaussian("mew", 1.0), "mu": Gaussian(0.0, 1.0)}),
        r"node 'a': mean names 'mew', which is no node; nodes are \['a', 'mu'\]",
    ),
    "other family": (
        lambda: Network({"mu": Gaussian(0.0, 1.0), "a": Gaussian(0.0, "mu")}),
        "node 'a': precision needs a number or a Gamma node; 'mu' is a Gaussian",
    ),
    "design of a Gamma": (
        lambda: Network({"r": Gamma(1.0, 1.0), "y": Poisson(Link("r", design=np.ones((3, 1))))}),
        "node 'y': rate comes through a design",
    ),
    "both": (
        lambda: Network({"w": Gaussian(0.0, 1.0), "y": Gaussian(Link("w", index=[0], design=[[1.0]]), 1.0)}),
        "has both an index and a design",
    ),
    "a scale to learn": (
        lambda: Likelihood("gaussian", "f"),
        r"'gaussian'.*network learns nodes.*sksvi.likelihoods.Gaussian\(variance=\.\.\.\)",
    ),
    "scales to learn": (lambda: Likelihood(StudentT(scale=1.0), "f"), r"StudentT\(df=\.\.\.\)"),
    "cut points to learn": (lambda: Likelihood("ordinal", "f"), r"Ordinal\(cut_points=\.\.\.\)"),
    "pairs": (lambda: Likelihood("binomial", "f"), r"'binomial' has y of shape \(n, 2\).*Binomial\(p, trials\)"),
    "latents for classes": (lambda: Likelihood(Softmax(3), "f"), r"a latent for every class.*Categorical\(p\)"),
    "no distribution": (lambda: Network({"a": 3.0}), "node 'a' is float, not a distribution"),
    "no name": (lambda: Network({"a/b": Gamma(1.0, 1.0)}), "without '/'"),
    "no factor": (lambda: Network({"a": Gamma(1.0, 1.0)}, [abs]), "factor 'factor 0' is builtin_function"),
    "factor of nothing": (lambda: Network({"a": Gamma(1.0, 1.0)}, {"f": Factor()}), "factor 'f' joins no node"),
    "factor of unknown": (
        lambda: Network({"a": Gamma(1.0, 1.0)}, {"f": Function(["z"], np.log)}),
        r"factor 'f' names 'z', which is no node; nodes are \['a'\]",
    ),
}


@pytest.mark.parametrize("make", STRUCTURES)
def test_structures(make):
    build, words = STRUCTURES[make]
    with pytest.raises((ValueError, TypeError), match=words):
        build()


RATE = {"r": Gamma(1.0, 1.0), "y": Poisson("r")}
PAIR = {"a": Gamma([1.0, 2.0], 1.0), "b": Beta(1.0, 1.0)}
LATENT = {"f": Gaussian(0.0, 1.0)}
FITS = {
    "unknown data": (RATE, (), {"z": [1.0]}, {}, "data names 'z', which is no node"),
    "missing data": (RATE, (), {}, {}, r"node 'y' is Poisson, which must be observed: pass data\['y'\]"),
    "no counts": (RATE, (), {"y": [1.5]}, {}, r"data\['y'\] has numbers that are no counts"),
    "no exposure": (
        {"r": Gamma(1.0, 1.0), "y": Poisson("r", exposure=[1.0, 0.0])},
        (),
        {"y": [1.0, 2.0]},
        {},
        r"data\['y'\] has exposure=\[1.0, 0.0\], of which some are not positive",
    ),
    "nan": (RATE, (), {"y": [np.nan]}, {}, r"data\['y'\] must be finite numbers; found nan in row 0"),
    "infinite data": (RATE, (), {"y": [1.0, 2.0, np.inf]}, {}, "found inf in row 2"),
    "words": (RATE, (), {"y": ["a"]}, {}, r"data\['y'\] must be numbers"),
    "table": (RATE, (), {"y": [[1.0, 2.0]]}, {}, r"shape \(1, 2\)"),
    "nothing": (RATE, (), {"y": []}, {}, r"shape \(0,\)"),
    "negative": ({"r": Gamma(1.0, 1.0), "y": Gamma(1.0, "r")}, (), {"y": [-1.0]}, {}, "not positive"),
    "too many": (
        {"p": Beta(1.0, 1.0), "y": Binomial("p", 3)},
        (),
        {"y": [4]},
        {},
        "between 0 and the number of trials",
    ),
    "labels of -1": (
        LATENT | {"y": Likelihood("logit", "f")},
        (),
        {"y": [-1, 1]},
        {},
        r"data\['y'\] is no target.* row 0",
    ),
    "labels to 2": (
        LATENT | {"y": Likelihood("logit", "f")},
        (),
        {"y": [0, 2]},
        {},
        "Bernoulli needs .* found 2 in row 1",
    ),
    "measured labels": (LATENT | {"y": Likelihood("probit", "f")}, (), {"y": [0.0, 0.3]}, {}, "found 0.3 in row 1"),
    "no count": (
        LATENT | {"y": Likelihood("poisson", "f")},
        (),
        {"y": [2, -1]},
        {},
        "Poisson needs .* found -1 in row 1",
    ),
    "no category": (
        {"p": Dirichlet([1.0, 1.0]), "y": Categorical("p")},
        (),
        {"y": [2]},
        {},
        "has category 2; node",
    ),
    "observed Beta": (PAIR, (), {"b": [0.5]}, {}, "node 'b' is a Beta, which cannot be observed"),
    "nothing latent": ({"y": Gaussian(0.0, 1.0)}, (), {"y": [0.5]}, {}, "every node is observed"),
    "of data": (
        {"m": Gaussian(0.0, 1.0), "y": Gaussian("m", 1.0)},
        (),
        {"m": [1.0], "y": [0.5]},
        {},
        "node 'y': mean is node 'm', which is observed",
    ),
    "bad prior": ({"r": Gamma(-1.0, 1.0)}, (), {}, {}, "node 'r': the shape of a Gamma distribution is -1"),
    "no precision": ({"m": Gaussian(0.0, 0.0)}, (), {}, {}, "node 'm': the precision of a Gaussian is 0"),
    "infinite": ({"m": Gaussian(np.inf, 1.0)}, (), {}, {}, "node 'm': mean has numbers that are not finite"),
    "covariance": ({"m": Gaussian(0.0, 1.0, covariance="half")}, (), {}, {}, "covariance must be 'diag' or 'full'"),
    "scalar Dirichlet": ({"p": Dirichlet(1.0)}, (), {}, {}, "node 'p': concentration must have 1 or 2 dimensions"),
    "sizes": ({"m": Gaussian([0.0] * 3, [1.0] * 4)}, (), {}, {}, "node 'm' has 4 elements, and mean has 3"),
    "sizes of data": ({"r": Gamma([1.0, 2.0], 1.0), "y": Poisson("r")}, (), {"y": [1, 2, 3]}, {}, "rate has 2"),
    "exposure": ({"r": Gamma(1.0, 1.0), "y": Poisson("r", [1.0, 2.0])}, (), {"y": [1, 2, 3]}, {}, "node 'y': exposure"),
    "index": (
        {"r": Gamma([1.0, 2.0], 1.0), "y": Poisson(Link("r", index=[0, 2]))},
        (),
        {"y": [1, 2]},
        {},
        "node 'y': rate: the index must be integers from 0 to 1, the elements of node 'r'.* up to 2",
    ),
    "design": (
        {"w": Gaussian(0.0, 1.0, size=2), "y": Gaussian(Link("w", design=np.ones((3, 3))), 1.0)},
        (),
        {"y": [1.0, 2.0, 3.0]},
        {},
        r"the design must be finite numbers of shape \(n, 2\).* found shape \(3, 3\)",
    ),
    "short message": (
        PAIR,
        {"f": Says(("a",), 0.0, {"a": (np.zeros((1, 2)),)})},
        {},
        {},
        r"message of shapes",
    ),
    "no message": (PAIR, {"f": Says(("a",), 0.0, {})}, {}, {}, r"joins \['a'\] and has messages to \[\]"),
    "rows": (PAIR, {"f": Says(("a",), 0.0, {"a": (np.zeros((2, 2)),)}, 5)}, {}, {}, r"has 5 rows and a value of shape"),
    "name taken": (
        RATE,
        {"y": Says(("r",), 0.0, {"r": (np.zeros((1, 2)),)})},
        {"y": [1]},
        {},
        "has the name of a node",
    ),
    "fails": (PAIR, {"f": Function(["a", "b"], lambda a: a)}, {}, {}, "factor 'f' cannot be evaluated at the priors"),
    "lengths": (
        PAIR,
        {"f": Function(["a"], np.add, data=[np.ones(3)])},
        {},
        {},
        "'f' has 3 elements, and node",
    ),
    "vector": (
        {"p": Dirichlet([1.0, 1.0])},
        {"f": Function(["p"], np.log)},
        {},
        {},
        "factor 'f': node 'p' is no number of a row .*: take a SampledFunction",
    ),
    "four": (
        {name: Beta(1.0, 1.0) for name in "abcd"},
        {"f": Function(["a", "b", "c", "d"], np.log)},
        {},
        {},
        "takes one to three nodes",
    ),
    "order": (RATE, (), {"y": [1]}, {"order": "random"}, "order must be 'in turn' or 'parallel'"),
    "rate": (RATE, (), {"y": [1]}, {"rate": 2.0}, r"lie in \(0, 1\]"),
    "passes": (RATE, (), {"y": [1]}, {"max_iter": 0}, "max_iter must be at least 1"),
    "no batch": (RATE, (), {"y": [1]}, {"batch_size": 0}, "batch_size must be at least 1"),
    "no rows": (PAIR, (), {}, {"batch_size": 2}, "no factor is a sum over rows"),
    "an element each": (
        {"f": Gaussian(0.0, 1.0, size=3), "y": Likelihood("poisson", "f")},
        (),
        {"y": [1, 2, 3]},
        {"batch_size": 2},
        "no factor is a sum over rows",
    ),
    "other rows": (
        {"r": Gamma(1.0, 1.0), "y": Poisson("r"), "z": Poisson("r")},
        (),
        {"y": [1, 2], "z": [1, 2, 3]},
        {"batch_size": 2},
        "different numbers of rows, {'y': 2, 'z': 3}",
    ),
    "start": (RATE, (), {"y": [1]}, {"start": {"q": None}}, "start names 'q', which is no latent node"),
    "other start": (
        RATE,
        (),
        {"y": [1]},
        {"start": {"r": families.Gamma([1.0, 1.0], [1.0, 1.0])}},
        r"start\['r'\] must be a Gamma of shape \(1,\)",
    ),
    "no bound": (
        {"a": Gamma(1.0, 1.0)},
        {"f": Function(["a"], lambda a: -np.inf * a)},
        {},
        {},
        "'f' has no finite expectation at the first q: pass a start",
    ),
}


@pytest.mark.parametrize("what", FITS)
def test_fits(what):
    nodes, factors, data, options, words = FITS[what]
    network = Network(nodes, factors)
    before = dict(vars(network))
    with pytest.raises(ValueError, match=words):
        network.fit(data, **options)
    assert vars(network) == before


def test_a_failed_fit_leaves_the_last_one():
    network = Network(RATE).fit({"y": [3.0]})
    kept = network.posterior_
    with pytest.raises(ValueError, match="counts"):
        network.fit({"y": [0.5]})
    assert network.posterior_ is kept
    with pytest.raises(ValueError, match="'y' is no latent node"):
        network.messages("y")


def test_what_is_there_after_fit():
    network = Network(RATE)
    for call in (network.summary, lambda: network.messages("r")):
        with pytest.raises(NotFittedError, match="after fit"):
            call()
    summary = network.fit({"y": [3.0, 4.0]}).summary()
    assert list(summary.columns) == ["node", "element", "mean", "std"] and len(summary) == 1
    assert summary["mean"][0] == pytest.approx(8.0 / 3.0)


def test_too_few_passes_are_a_warning():
    from sklearn.exceptions import ConvergenceWarning

    nodes = {"m": Gaussian(0.0, 0.1), "t": Gamma(1.0, 1.0), "y": Gaussian("m", "t")}
    with pytest.warns(ConvergenceWarning, match="after 1 passes"):
        assert not Network(nodes).fit({"y": [1.0, 2.0, 4.0]}, max_iter=1).converged_


@pytest.mark.parametrize(
    ("node", "grows", "left"),
    [(Gaussian(0.0, 1.0), lambda a: a**2, "precision"), (Gamma(1.0, 1.0), lambda a: 2.0 * a, "rate")],
    ids=["Gaussian", "Gamma"],
)
def test_an_improper_density_is_told(node, grows, left):
    with pytest.warns(UserWarning, match=f"node 'a' has .* of its prior's {left} left.* improper.*'up' grows faster"):
        network = Network({"a": node, "b": Gamma(1.0, 1.0)}, {"up": Function(["a"], grows)}).fit(max_iter=100)
    assert not network.converged_
    Network({"a": node}, {"up": Function(["a"], lambda a: 0.4 * grows(a))}).fit()  # proper, however wide


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_magnitudes(scale):
    """Counts and measurements of any size have a posterior that is a number."""
    y = scale * np.array([1.0, 2.0, 4.0, 3.0])
    counts = np.floor(scale * np.array([0.0, 2.0, 4.0, 3.0]))
    nodes = {
        "m": Gaussian(0.0, 1e-12),
        "t": Gamma(1e-3, 1e-3),
        "y": Gaussian("m", "t"),
        "f": Gaussian(0.0, 0.01),
        "n": Likelihood("poisson", "f"),
    }
    network = Network(nodes).fit({"y": y, "n": counts})
    assert np.isfinite(network.lower_bound_)
    assert network.converged_ and np.all(np.isfinite(network.summary()[["mean", "std"]]))
