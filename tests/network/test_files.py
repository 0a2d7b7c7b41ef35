"""A network in a file, as a parameter of scikit-learn's, and with its data given by name."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import NotFittedError

import sksvi
from sksvi.families import Beta as BetaBlock
from sksvi.families import DiagonalGaussian
from sksvi.families import Gamma as GammaBlock
from sksvi.families.base import Message
from sksvi.network import Factor, Function, Gamma, Gaussian, Likelihood, Link, Network, Poisson
from support import saved_models

NODES = {
    "centre": Gaussian(0.0, 0.1),
    "spread": Gamma(2.0, 1.0),
    "f": Gaussian("centre", "spread", size="y"),
    "y": Likelihood("poisson", "f", offset="offset"),
}
ROWS = {"y": np.array([1.0, 4.0, 0.0, 2.0, 7.0]), "offset": np.array([0.1, -0.2, 0.3, 0.0, 0.5])}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "network.sksvi"


def loaded(network, path):
    network.save(path)
    return sksvi.load(path, Network)


def identical(network, other):
    assert network.summary().equals(other.summary())
    assert network.lower_bound_ == other.lower_bound_ and network.lower_bounds_ == other.lower_bounds_
    assert (network.n_iter_, network.converged_) == (other.n_iter_, other.converged_)
    for name in network.state_.q:
        ours, its = network.messages(name), other.messages(name)
        assert ours.keys() == its.keys()
        for key in ours:
            for one, two in zip(ours[key].parts, its[key].parts, strict=True):
                np.testing.assert_array_equal(one, two)


@pytest.mark.costly
@pytest.mark.parametrize("how", ["fit", "stream", "unfitted"])
def test_a_loaded_network_is_the_saved_one_to_the_bit(how, path):
    network = saved_models.fit_model("network") if how == "stream" else Network(NODES)
    network = network.fit(ROWS) if how == "fit" else network
    other = loaded(network, path)
    assert repr(other) == repr(network)
    if how == "unfitted":
        with pytest.raises(NotFittedError):
            other.summary()
        network, other = network.fit(ROWS), other.fit(ROWS)
    identical(network, other)


@pytest.mark.parametrize("training_rows", [True, False])
def test_a_stream_goes_on_from_its_file_to_the_bit(training_rows, path):
    network = Network(NODES).fit(ROWS)
    network.save(path, training_rows=training_rows)
    other = sksvi.load(path)
    assert list(other.posterior_) == ["centre", "spread", *["f"] * training_rows]
    assert training_rows or {*other._messages} == {"centre", "spread"}
    identical(network.partial_fit(ROWS), other.partial_fit(ROWS))


def test_a_file_holds_no_row(path):
    """Without local nodes no number of the data, and no more bytes for more rows."""
    rng, sizes = np.random.default_rng(0), []
    for n in (50, 500):
        rows = {"y": rng.poisson(2.0, n).astype(float), "offset": rng.standard_normal(n)}
        Network(NODES).fit(rows).save(path, training_rows=False)
        sizes.append(path.stat().st_size)
        file = path.read_bytes()
        assert not [x for x in rows["offset"] if x.tobytes() in file or repr(float(x)).encode() in file]
    assert abs(sizes[1] - sizes[0]) < 500


class Own(Factor):
    nodes = ("a",)

    def terms(self, q, rows, expect=None):
        return 0.0, {"a": (np.zeros((1, 2)),)}


@pytest.mark.parametrize("factor", [Function(["a"], np.log), Own()], ids=["function", "class"])
def test_code_is_not_saved(factor, path):
    network = Network({"a": Gamma(2.0, 1.0)}, {"own": factor}).fit()
    with pytest.raises(TypeError, match=r"factor 'own' is code, which files do not hold.*summary\(\)"):
        network.save(path)
    assert not path.exists()
    with pytest.raises(TypeError, match="no safe form"):
        sksvi.persistence.save(network, path)


HOSTILE = {
    "another family": (lambda n: n.state_.q.update(spread=BetaBlock([2.0], [1.0])), "is_consistent"),
    "an unknown block": (lambda n: n.state_.q.update(z=GammaBlock([2.0], [1.0])), "is_consistent"),
    "another posterior": (
        lambda n: n.posterior_._blocks.update(spread=GammaBlock([2.0], [1.0])),
        "is_consistent",
    ),
    "a message of another shape": (
        lambda n: n._messages["spread"].update(f=Message((np.ones((1, 3)),))),
        "is_consistent",
    ),
    "a local node that nothing integrates": (
        lambda n: n.posterior_._blocks.update(z=DiagonalGaussian(np.zeros(2), np.ones(2))),
        "is_consistent",
    ),
    "messages that are none": (lambda n: n._messages["spread"].update(f=3.0), "not a Message"),
    "no stream": (lambda n: vars(n.state_).update(messages=Message((np.ones(1),))), "not a StreamState"),
    "a node without attributes": (lambda n: vars(n.nodes["f"]).clear(), "cannot be checked"),
    "nodes in a circle": (lambda n: vars(n.nodes["centre"]).update(mean="f"), "in a circle"),
    "a prior that is no number": (lambda n: vars(n.state_.q["spread"]).update(rate=np.zeros(1)), "not above 0"),
    "a bound that is none": (lambda n: vars(n).update(lower_bound_="high"), "lower_bound_ is a str"),
    "nothing fitted": (lambda n: vars(n).pop("state_"), "state_ is missing"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_files_that_do_not_fit_together_are_refused(case, path):
    change, words = HOSTILE[case]
    nodes = {name: pickle.loads(pickle.dumps(node)) for name, node in NODES.items()}
    network = Network(nodes).fit(ROWS)
    change(network)
    sksvi.persistence.save(network, path)
    with pytest.raises(ValueError, match=words):
        sksvi.load(path)


# ---- what users of scikit-learn expect
def test_a_network_is_an_estimator():
    network = Network(NODES, [Function(["centre"], lambda x: -np.square(x))]).fit(ROWS)
    assert isinstance(network, BaseEstimator) and set(network.get_params(deep=False)) == {"nodes", "factors"}
    again = clone(network)
    assert (
        not hasattr(again, "posterior_") and repr(again) == repr(network) == "Network(centre, spread, f, y, factor 0)"
    )
    identical(again.fit(ROWS), network)
    assert sksvi.network.Network is Network
    plain = Network(NODES).fit(ROWS)
    identical(pickle.loads(pickle.dumps(plain)), plain)
    with pytest.raises(ValueError, match="in a circle"):
        plain.set_params(nodes={"a": Gaussian("a", 1.0)}).fit({})


# ---- data by name
def test_rows_by_name_are_rows_in_the_nodes():
    """Index, design, offset, exposure, trials and size from the data, as a dict or a table of pandas."""
    rng = np.random.default_rng(0)
    group, hours = rng.integers(0, 3, 30), rng.uniform(0.5, 2.0, 30)
    y = rng.poisson(2.0, 30).astype(float)
    rate = Gamma(2.0, 1.0, size=3)
    inside = Network({"r": rate, "y": Poisson(Link("r", index=group), exposure=hours)}).fit({"y": y})
    by_name = Network({"r": rate, "y": Poisson(Link("r", index="group"), exposure="hours")})
    for data in ({"y": y, "group": group, "hours": hours}, pd.DataFrame({"y": y, "group": group, "hours": hours})):
        assert by_name.fit(data).summary().equals(inside.summary())
    with pytest.raises(ValueError, match=r"node 'y' takes 'group' from data, which has \['hours', 'y'\]: pass data\["):
        by_name.fit({"y": y, "hours": hours})
    with pytest.raises(ValueError, match="the index must be integers from 0 to 2"):
        by_name.fit({"y": y, "group": group + 1, "hours": hours})
    with pytest.raises(ValueError, match="exposure must be finite numbers"):
        by_name.fit({"y": y, "group": group, "hours": hours[:3]})
    with pytest.raises(ValueError, match="data names 'days', which is no node"):
        by_name.fit({"y": y, "group": group, "hours": hours, "days": hours})
