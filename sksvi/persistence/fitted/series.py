"""Checks of fitted time series, one and several."""

from __future__ import annotations

from typing import Any

import numpy as np

from sksvi.persistence.fitted.shared import block_of
from sksvi.persistence.validator import Validator


def check_dynamic(look: Validator) -> None:
    """Check points in time, the states of the fit, and the messages over them."""
    d = look.at("n_features_in_").count()
    encoding, fit = look.at("_encoding"), look.at("_series")
    for name in ("centre", "scale"):
        encoding.at(name).array((d,), above=0.0 if name == "scale" else None)
    encoding.at("unit").number(above=0.0)
    encoding.at("spread").number(above=0.0)
    look.at("mean_").number()
    series = fit.at("series")
    T, width = series.at("X").array((None, d)).shape
    before = fit.at("left_out").count()
    series.require(T + before >= 1, "has no point")
    structure = fit.at("structure").a(dict)
    structure.require("length" in structure.value, "has no length")
    structure.item("length").count(1)
    try:
        dynamics = look.value._series.dynamics
    except (AttributeError, TypeError, ValueError) as error:
        raise structure.fail(f"describes no states: {error}") from error
    n, chain = dynamics.n_states, block_of(look, "latents").at("chain")
    right = len(chain.value.noise) == n and chain.value.X.shape == (T, width)
    chain.require(
        right, f"has {len(chain.value.noise)} states and rows {chain.value.X.shape}, not {n} and {(T, width)}"
    )
    block_of(look, "dynamics").at("value").array((len(dynamics.parameters),))
    fit.at("last").array((n,))
    fit.at("last_cov").array((n, n))
    if fit.value.nodes is not None:
        check_nodes(look, fit, len(dynamics.parameters), n)
    times = fit.at("times").a(dict)
    times.require({"kind", "values", "name"} <= times.value.keys(), "is no index")
    try:
        found = len(look.value.index_)
    except (IndexError, KeyError, TypeError, ValueError) as error:
        raise times.fail(f"is no index: {error}") from error
    times.require(found == T + before, f"has {found} times for {T + before} points")


def check_nodes(look: Validator, fit: Validator, p: int, n: int) -> None:
    """Check the nodes: values of p parameters of states and the likelihood's, messages, and last states of n each."""
    k, value = len(fit.at("nodes").at("weights").value), fit.value
    P = p + np.size(look.value.likelihood_.unconstrained)
    fit.at("nodes").at("values").array((k, P))
    if value.node_messages is not None:
        messages = fit.at("node_messages")
        n_points, T = messages.array((k, 2, None)).shape[2], len(block_of(look, "latents").at("chain").value)
        messages.require(n_points <= T, f"are of {n_points} points, the series of {T}")
    if value.node_ends is not None:
        ends = fit.at("node_ends").a(tuple)
        ends.require(len(ends.value) == 2, "is no pair")
        ends.item(0).array((k, n))
        ends.item(1).array((k, n, n))
    own = value.node_messages
    if np.any(block_of(look, "latents").value.weights < 0) or (own is not None and np.any(own[:, 1] < 0)):
        try:  # under the prior of every node
            _ = value.views
        except (ArithmeticError, ValueError) as error:
            raise fit.at("nodes").fail(f"has no posterior: {error}") from error


def check_panel(look: Validator) -> list[Any]:
    """Check fits to several series, each of this class, with names and rows; return these fits."""
    members = look.at("_members").a(list)
    alone = all(type(one).__name__ == "DynamicGLM" and one._panel is None for one in members.value)
    members.require(members.value and alone, "are no fits to one series each")
    members.require(all("state_" in vars(member) for member in members.value), "are not all fitted")
    names, rows = look.at("_labels").a(list), look.at("_rows").a(list)
    n = len(members.value)
    names.require(len(names.value) == n and len(set(map(repr, names.value))) == n, f"are no {n} names")
    rows.require(len(rows.value) == n, f"has {len(rows.value)} parts for {n} series")
    for part, member in zip(rows.sequence(), members.value, strict=True):
        part.array((len(member.posterior_["latents"].mean),), "i", least=0)
    whole = np.concatenate(rows.value)
    rows.require(np.array_equal(np.sort(whole), np.arange(len(whole))), "are not each row once")
    for name in ("n_iter_", "n_steps_", "n_features_in_"):
        look.at(name).count()
    look.at("converged_").flag()
    look.at("lower_bound_").number()
    return list(members.value)
