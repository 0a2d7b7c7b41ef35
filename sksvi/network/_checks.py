"""Checks of a network before anything is computed: each error names the node and says what to do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from sksvi._runtime.kinds import WHOLE
from sksvi.models.network.distributions import Distribution
from sksvi.models.network.factors import Factor, Link, Slot

Array = np.ndarray

#: Families of nodes as users call them.
CALLED = {"gaussian": "a Gaussian", "gamma": "a Gamma", "beta": "a Beta", "dirichlet": "a Dirichlet"}


def check_structure(nodes: Mapping[str, Distribution], factors: Mapping[str, Factor]) -> None:
    """Raise ValueError or TypeError where names, families or the order of nodes make no network."""
    if not nodes:
        raise ValueError("a network needs at least one node: pass nodes={'name': distribution}.")
    for name, node in nodes.items():
        if not isinstance(name, str) or not name or "/" in name:
            raise ValueError(f"names of nodes are strings without '/'; found {name!r}.")
        if not isinstance(node, Distribution):
            raise TypeError(
                f"node {name!r} is {type(node).__name__}, not a distribution of sksvi.network such as Gaussian(0.0, "
                "1.0); terms of your own are factors."
            )
        without = [parameter for parameter, given in node.parameters.items() if given is None]
        if without:
            raise ValueError(
                f"node {name!r} has no prior: {type(node).__name__} needs {' and '.join(without)}, numbers or names of "
                "nodes."
            )
        for parameter, link in node.links.items():
            check_link(f"node {name!r}: {parameter}", link, nodes, node.kinds[parameter])
    for name, factor in factors.items():
        if not isinstance(factor, Factor):
            raise TypeError(f"factor {name!r} is {type(factor).__name__}: make it a subclass of sksvi.network.Factor.")
        if not factor.nodes:
            raise ValueError(f"factor {name!r} joins no node: set its attribute nodes to their names.")
        for joined in factor.nodes:
            check_name(f"factor {name!r}", joined, nodes)
    in_order(nodes)


def check_name(who: str, name: str, nodes: Mapping[str, Distribution]) -> None:
    """Raise ValueError for a name that is no node's."""
    if name not in nodes:
        raise ValueError(f"{who} names {name!r}, which is no node; nodes are {sorted(nodes)}.")


def check_link(who: str, link: Link, nodes: Mapping[str, Distribution], kind: str) -> None:
    """Raise ValueError for a node that cannot stand in the place of the parameter."""
    check_name(who, link.name, nodes)
    found = nodes[link.name].latent
    if found != kind:
        is_ = CALLED.get(str(found), type(nodes[link.name]).__name__)
        raise ValueError(f"{who} needs a number or {CALLED[kind]} node; {link.name!r} is {is_}.")
    if link.design is not None and kind != "gaussian":
        raise ValueError(f"{who} comes through a design, which only a Gaussian node can; use index.")
    if link.design is not None and link.index is not None:
        raise ValueError(f"{who} has both an index and a design: index the rows of the design.")


def in_order(nodes: Mapping[str, Distribution]) -> list[str]:
    """Names, parents before their children; ValueError where they depend on each other in a circle."""
    done: list[str] = []
    path: list[str] = []

    def visit(name: str) -> None:
        if name in path:
            circle = " -> ".join([*path[path.index(name) :], name])
            raise ValueError(f"nodes depend on each other in a circle: {circle}. One of them needs a prior of its own.")
        if name in done:
            return
        path.append(name)
        for link in nodes[name].links.values():
            visit(link.name)
        done.append(path.pop())

    for name in nodes:
        visit(name)
    return done


# ---- shapes
def size_of(who: str, sizes: Iterable[tuple[str, int]], given: int | None) -> int:
    """Elements of a node or of data from those of its parameters: each has one or as many as all."""
    sizes = list(sizes)
    n = given if given is not None else max((size for _, size in sizes), default=1)
    for parameter, size in sizes:
        if size not in (1, n):
            raise ValueError(
                f"{who} has {n} elements, and {parameter} has {size}: it must have 1 or {n}, or come through a Link "
                "with an index."
            )
    return n


def parameter_sizes(who: str, node: Distribution, sizes: Mapping[str, int]) -> list[tuple[str, int]]:
    """Elements that each parameter has for the child; the links' indices and designs are checked."""
    found = []
    for parameter, given in node.parameters.items():
        link = node.links.get(parameter)
        if link is None:
            values = np.asarray(given, float)
            if not np.all(np.isfinite(values)):
                raise ValueError(f"{who}: {parameter} has numbers that are not finite.")
            if values.ndim not in (node.own_axes, node.own_axes + 1) or not values.size:
                raise ValueError(
                    f"{who}: {parameter} must have {node.own_axes} or {node.own_axes + 1} dimensions and be not empty; "
                    f"found shape {values.shape}."
                )
            found.append((parameter, 1 if values.ndim == node.own_axes else len(values)))
        else:
            found.append((parameter, linked_size(f"{who}: {parameter}", link, sizes)))
    return found


def linked_size(who: str, link: Link, sizes: Mapping[str, int]) -> int:
    """Number of elements of the child that a link gives a parameter for."""
    have, slot = sizes[link.name], Slot(link)
    if slot.design is not None:
        if slot.design.ndim != 2 or slot.design.shape[1] != have or not np.all(np.isfinite(slot.design)):
            raise ValueError(
                f"{who}: the design must be finite numbers of shape (n, {have}), a column for each element of node "
                f"{link.name!r}; found shape {slot.design.shape}."
            )
        return len(slot.design)
    if slot.index is not None:
        index, whole = slot.index, slot.index.dtype.kind in WHOLE
        if index.ndim != 1 or not whole or (index.size and not 0 <= index.min() <= index.max() < have):
            found = f"{index.dtype} of shape {index.shape}" + (f" up to {index.max()}" if whole and index.size else "")
            raise ValueError(
                f"{who}: the index must be integers from 0 to {have - 1}, the elements of node {link.name!r}; found "
                f"{found}."
            )
        return len(index)
    return have


def check_data(name: str, node: Distribution, y: Any) -> Array:
    """The data of an observed node as numbers (n,)."""
    if not node.observed:
        raise ValueError(f"node {name!r} is {CALLED[str(node.latent)]}, which cannot be observed: take it out of data.")
    try:
        values = np.atleast_1d(np.asarray(y, float))
    except (TypeError, ValueError):
        raise ValueError(f"data[{name!r}] must be numbers.") from None
    if values.ndim != 1 or not len(values):
        raise ValueError(f"data[{name!r}] must be numbers of shape (n,), n >= 1; found shape {values.shape}.")
    if not np.all(np.isfinite(values)):
        row = int(np.argmin(np.isfinite(values)))
        raise ValueError(
            f"data[{name!r}] must be finite numbers; found {values[row]:g} in row {row}. Leave such rows out, "
            "of indices and designs too."
        )
    complaint = node.complaint(values)
    if complaint:
        raise ValueError(f"data[{name!r}] {complaint}, and the node is {type(node).__name__}.")
    return values
