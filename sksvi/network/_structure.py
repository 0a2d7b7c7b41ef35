"""Structure of a network before any data: names, families, the order of nodes; errors name the node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sksvi.models.network.distributions import Distribution, Gaussian, Likelihood
from sksvi.models.network.model import Factor
from sksvi.models.network.slots import Link

#: Families of nodes as users call them.
CALLED = {
    "gaussian": "a Gaussian",
    "gamma": "a Gamma",
    "rayleigh": "a Rayleigh",
    "beta": "a Beta",
    "dirichlet": "a Dirichlet",
}


def named(factors: Mapping[str, Factor] | Sequence[Factor]) -> dict[str, Factor]:
    """Factors by name; those of a sequence are numbered."""
    if isinstance(factors, Mapping):
        return dict(factors)
    return {f"factor {number}": factor for number, factor in enumerate(factors)}


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
        if isinstance(node, Gaussian) and node.precision is not None and node.variance is not None:
            raise ValueError(f"node {name!r} has a precision and a variance: give one of them.")
    for name, factor in factors.items():
        if not isinstance(factor, Factor):
            raise TypeError(f"factor {name!r} is {type(factor).__name__}: make it a subclass of sksvi.network.Factor.")
        if not factor.nodes:
            raise ValueError(f"factor {name!r} joins no node: set its attribute nodes to their names.")
        for neighbour in factor.nodes:
            check_name(f"factor {name!r}", neighbour, nodes)
    for name, node in nodes.items():
        if node.integrated:
            check_integrated(name, nodes, factors)
    in_order(nodes)


def check_integrated(name: str, nodes: Mapping[str, Distribution], factors: Mapping[str, Factor]) -> None:
    """Raise ValueError for a node that cannot be integrated out: more than one likelihood of a row depends on it."""
    children = {
        child: links for child, node in nodes.items() if (links := [x for x in node.links.values() if x.name == name])
    }
    beside = [child for child in children if not isinstance(nodes[child], Likelihood)]
    beside += [key for key, factor in factors.items() if name in factor.nodes]
    if beside or len(children) != 1:
        found = ", ".join(map(repr, [*children, *beside])) or "nothing"
        raise ValueError(
            f"node {name!r} is integrated, and {found} depends on it: it takes one Likelihood. Set integrated=False."
        )
    (child,) = children
    link, likelihood = children[child][0], nodes[child].likelihood  # type: ignore[attr-defined]
    if link.design is not None:
        raise ValueError(
            f"node {name!r} is integrated, and {child!r} comes through a design: it takes an element for each row, or "
            "an index. Set integrated=False."
        )
    if not likelihood.traits.log_concave and (likelihood.scale_mixture is None or link.index is not None):
        raise ValueError(
            f"node {name!r} is integrated, and {type(likelihood).__name__} is not log-concave in f: it takes a "
            "mixture of Gaussians with one row for each element at most. Set integrated=False."
        )


def local_nodes(nodes: Mapping[str, Distribution]) -> set[str]:
    """Names of the latent nodes that belong to the rows of data: whose size they give, and what depends on those."""
    found: set[str] = set()
    for name in in_order(nodes):
        node = nodes[name]
        by_row = isinstance(node.size, str) or any(link.data_names for link in node.links.values())
        if by_row or any(link.name in found for link in node.links.values()):
            found.add(name)
    return found


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
