"""From nodes, factors and data to the model that the engine fits; errors name the node and say what to do."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from sksvi import families
from sksvi._typing.arrays import WHOLE
from sksvi.families.base import NotPositiveDefinite
from sksvi.models.base import Blocks
from sksvi.models.network import distributions
from sksvi.models.network.function import RULES, Function
from sksvi.models.network.integrated import LEAST_SHAPE, IntegratedFactor
from sksvi.models.network.model import Factor, zero
from sksvi.models.network.slots import Link, Slot
from sksvi.network._structure import CALLED, check_name, in_order

Array = np.ndarray


class Built:
    """Priors and factors of a network with its data; errors name the node.

    Parameters
    ----------
    nodes, factors : dict
    data : dict
    centres : dict of str to Family, default={}
        Blocks of nodes whose q is there already: priors of their children are made at these.
    """

    def __init__(
        self,
        nodes: Mapping[str, distributions.Distribution],
        factors: Mapping[str, Factor],
        data: Mapping[str, Any],
        centres: Mapping[str, Any] | None = None,
    ) -> None:
        parts: list[Any] = [*nodes.values(), *factors.values()]
        columns = {name for part in parts for name in part.data_names}
        for name in data:
            if name not in columns:
                check_name("data", name, nodes)
        nodes = {name: completed(f"node {name!r}", node, data) for name, node in nodes.items()}
        self.centres = {} if centres is None else centres
        self.priors: Blocks = {}
        self.sizes: dict[str, int] = {}
        self.factors: dict[str, Factor] = {}
        self.integrated: dict[str, distributions.Gaussian] = {}
        for name in in_order(nodes):
            if name in data:
                self._observe(name, nodes[name], check_data(name, nodes[name], data[name]))
            else:
                self._add(name, nodes[name])
        if not self.priors:
            raise ValueError("every node is observed: there is nothing to fit.")
        for name, factor in factors.items():
            self._add_factor(name, completed(f"factor {name!r}", factor, data), set(data))

    def _observe(self, name: str, node: distributions.Distribution, y: Array) -> None:
        """Add the factor of an observed node: its data given their parameters."""
        self._check_parents(name, node)
        size_of(f"data[{name!r}]", parameter_sizes(f"node {name!r}", node, self.sizes), len(y))
        for extra in node.per_row:
            values = np.asarray(getattr(node, extra), float)
            if values.size not in (1, len(y)) or not np.all(np.isfinite(values)):
                raise ValueError(f"node {name!r}: {extra} must be finite numbers, 1 or {len(y)}; found {values.shape}.")
        for parameter, link in node.links.items():
            kind = node.kinds[parameter]
            if kind == "dirichlet" and y.max() >= (n := self.priors[link.name].concentration.shape[-1]):
                raise ValueError(f"data[{name!r}] has category {y.max():g}; node {link.name!r} has {n}.")
        local = next((link.name for link in node.links.values() if link.name in self.integrated), None)
        if local is not None:
            assert isinstance(node, distributions.Likelihood)
            self._add_integrated(local, name, node, y)
            return
        rows = 0 if self._by_element(node, len(y)) else len(y)
        self.factors[name] = distributions.DistributionFactor(name, node, y, rows)

    def _add_integrated(self, name: str, child: str, node: distributions.Likelihood, y: Array) -> None:
        """Add the factor of data and the local node that they depend on."""
        local, size, by_index = self.integrated[name], self.sizes[name], node.links["f"].index is not None
        self._check_spread(name, local)
        if not by_index and size != len(y):
            raise ValueError(
                f"node {name!r} is integrated and has {size} elements, and data[{child!r}] {len(y)} rows: each row "
                f"needs its own, or an index. Set size={child!r}."
            )
        n_rows = 0 if by_index or self._by_element(local, len(y)) else len(y)
        self.factors[child] = IntegratedFactor(name, local, size, node, y, n_rows)

    def _check_spread(self, name: str, node: distributions.Gaussian) -> None:
        """Raise ValueError for a precision whose prior is wider than integrals over a local node can follow."""
        link = node.links.get("precision")
        if link is not None and (least := self.priors[link.name].shape.min()) < LEAST_SHAPE:
            raise ValueError(
                f"node {name!r} is integrated, and its precision {link.name!r} has a prior of shape {least:g}, under "
                f"which the variance has no bound: the shape must be at least {LEAST_SHAPE:g}. Or set "
                "integrated=False."
            )

    def _by_element(self, node: distributions.Distribution, n: int) -> bool:
        """Whether a node has an element for every row, so that no mini-batch informs all of it."""
        plain = [link.name for link in node.links.values() if link.index is None and link.design is None]
        return any(n > 1 and self.sizes[name] == n for name in plain)

    def _check_parents(self, name: str, node: distributions.Distribution) -> None:
        for parameter, link in node.links.items():
            if link.name not in self.sizes:
                raise ValueError(f"node {name!r}: {parameter} is node {link.name!r}, which is observed: pass its data.")

    def _add(self, name: str, node: distributions.Distribution) -> None:
        """Add a latent node: its prior where that is numbers, else the one that its parents' priors make."""
        if node.latent is None:
            raise ValueError(f"node {name!r} is {type(node).__name__}, which must be observed: pass data[{name!r}].")
        self._check_parents(name, node)
        sizes = parameter_sizes(f"node {name!r}", node, self.sizes)
        assert not isinstance(node.size, str)  # which the data have replaced
        n = size_of(f"node {name!r}", sizes, node.size)
        self.sizes[name] = n
        if isinstance(node, distributions.Gaussian) and node.integrated:
            self.integrated[name] = node
            return
        constants = node if not node.links else self._without_links(node, n)
        try:
            self.priors[name] = block_of(constants, n)
        except NotPositiveDefinite as error:
            raise ValueError(f"node {name!r}: {error}.") from None
        if node.links:
            self.factors[name] = distributions.DistributionFactor(name, node, None, 0)
            self.factors[f"{name}/prior"] = distributions.DistributionFactor(name, constants, None, 0, -1.0)

    def _without_links(self, node: distributions.Distribution, n: int) -> distributions.Distribution:
        """The distribution at the means of its parents' priors, or of their q."""
        values, blocks = {}, {**self.priors, **self.centres}
        for parameter in node.kinds:
            moments = node.slot(parameter).moments(blocks, slice(None))
            values[parameter] = np.broadcast_to(node.constant(parameter, moments), n).copy()
        new = copy.copy(node)
        vars(new).update(values)
        return new

    def _add_factor(self, name: str, factor: Factor, observed: set[str]) -> None:
        """Add a factor of the user's, whose first messages must fit their nodes."""
        if name in self.factors:
            raise ValueError(f"factor {name!r} has the name of a node.")
        for node in factor.nodes:
            if node in observed:
                raise ValueError(f"factor {name!r} joins node {node!r}, which is observed.")
        factor = self._checked_function(name, factor) if isinstance(factor, Function) else factor
        try:
            with np.errstate(all="ignore"):
                value, messages = factor.terms(self.priors, slice(None))
        except (IndexError, ValueError, TypeError) as error:
            raise ValueError(f"factor {name!r} cannot be evaluated at the priors: {error}") from error
        rows = (factor.n_rows,) if factor.n_rows else np.shape(value)
        if np.shape(value) != rows:
            raise ValueError(f"factor {name!r} has {factor.n_rows} rows and a value of shape {np.shape(value)}.")
        if set(messages) != set(factor.nodes):
            raise ValueError(f"factor {name!r} joins {sorted(factor.nodes)} and has messages to {sorted(messages)}.")
        for node, parts in messages.items():
            found, wanted = [[np.shape(part) for part in each] for each in (parts, zero(self.priors[node]))]
            if found != wanted:
                raise ValueError(
                    f"factor {name!r} has a message of shapes {found} to node {node!r}, whose moments have {wanted}."
                )
        self.factors[name] = factor

    def _checked_function(self, name: str, factor: Function) -> Function:
        """A `Function` after checks: of at most three scalar nodes, with as many elements as there are rows of data."""
        who = f"factor {name!r}"
        if len(factor.nodes) not in RULES or len(set(factor.nodes)) != len(factor.nodes):
            raise ValueError(
                f"{who} is a function of {list(factor.nodes)}: it takes one to three nodes, each once; a "
                "SampledFunction takes more."
            )
        sizes = [("data", len(part)) for part in factor.data]
        for slot in factor.slots:
            block = self.priors[str(slot.name)]
            vector = isinstance(block, families.Dirichlet) and not isinstance(block, families.Beta)
            if vector or slot.design is not None:
                raise ValueError(
                    f"{who}: node {slot.name!r} is no number of a row (a Dirichlet, or a design): take a "
                    "SampledFunction."
                )
            sizes.append((f"node {slot.name!r}", linked_size(f"{who}: {slot.name}", slot.link, self.sizes)))  # type: ignore[arg-type]
        n = size_of(who, sizes, factor.n_rows or None)
        if any(n > 1 and s.index is None and self.sizes[str(s.name)] == n for s in factor.slots):
            factor = copy.copy(factor)
            factor.n_rows = 0  # no mini-batch informs all elements of that node
        return factor


def block_of(node: distributions.Distribution, n: int) -> Any:
    """The family of a node whose parameters are numbers."""
    parts = [np.asarray(part, float) for part in node.parameters.values()]
    if isinstance(node, distributions.Dirichlet):
        return families.Dirichlet(parts[0])
    if isinstance(node, distributions.Rayleigh):
        if n > 1:
            raise NotPositiveDefinite(f"a Rayleigh is one number, and scale has {n}")
        return families.Rayleigh(parts[0].item())
    first, second = (np.broadcast_to(part, n).copy() for part in parts)
    if isinstance(node, distributions.Gaussian):
        second = 1.0 / second if node.spread == "variance" else second
        if node.covariance not in ("diag", "full"):
            raise NotPositiveDefinite(f"covariance must be 'diag' or 'full', not {node.covariance!r}")
        full = node.covariance == "full"
        return families.Gaussian(first, np.diag(second)) if full else families.DiagonalGaussian(first, second)
    return {distributions.Gamma: families.Gamma, distributions.Beta: families.Beta}[type(node)](first, second)


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


def parameter_sizes(who: str, node: distributions.Distribution, sizes: Mapping[str, int]) -> list[tuple[str, int]]:
    """Elements that each parameter has for the child; the links' indices and designs are checked."""
    found = []
    for parameter, given in node.parameters.items():
        link = node.links.get(parameter)
        if link is None:
            values = np.asarray(given, float)
            if not np.all(np.isfinite(values)):
                raise ValueError(f"{who}: {parameter} has numbers that are not finite.")
            if parameter in ("precision", "variance") and values.size and not np.all(values > 0):
                raise ValueError(f"{who}: the {parameter} of a Gaussian is {values.min():g}, and must be positive.")
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


def completed(who: str, part: Any, data: Mapping[str, Any]) -> Any:
    """A distribution or factor with rows of the data in the place of their names."""
    for name in part.data_names:
        if name not in data:
            raise ValueError(f"{who} takes {name!r} from data, which has {sorted(data)}: pass data[{name!r}].")
    return part.with_data(data) if part.data_names else part


def check_data(name: str, node: distributions.Distribution, y: Any) -> Array:
    """The data of an observed node as numbers (n,)."""
    if node.integrated:
        raise ValueError(f"node {name!r} is integrated, and data[{name!r}] gives it: set integrated=False.")
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
