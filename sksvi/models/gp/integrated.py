"""The posterior of a process's hyperparameters: nodes about the mode of bound + log prior, and q at each of them.

With Gaussian noise the best q has a closed form at every node. Else what the data said at the mode, a Gaussian message
about each latent, is kept while curvature and scales are looked for: the integral of the prior at a node times these
messages has a closed form. At the nodes themselves q takes a few natural steps from there, and a node weighs what its
bound does.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from copy import copy, deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np

from sksvi.families import Free, NotPositiveDefinite, Point
from sksvi.integrals.nodes import Nodes, design, scattered, shape_about, simplex
from sksvi.models.gp.collapsed import WIDEST
from sksvi.models.gp.hyperpriors import HyperPrior

Array = np.ndarray

#: Numbers of a block of all rows by inducing points up to which many points are looked at, and how many: with few rows
#: a posterior has heavy tails, and a look costs little.
SCATTERED_NUMBERS, SCATTERED = 2500, 32
#: Most hyperparameters whose corners are looked at.
CORNERS = 3
#: Numbers of a block of all rows by inducing points beyond which the mode is taken.
MOST_NUMBERS = 2**23
#: Step of the finite differences in a log parameter.
STEP = 0.2
#: Standard deviation of an axis, in every log parameter, below which its middle predicts as well.
NARROW = 0.1


@dataclass
class HyperparameterNodes:
    """Nodes of the hyperparameters, and the few that predict, with q's main block at each (None: that of the mode)."""

    nodes: Nodes
    few: Nodes
    blocks: list[Any]


class Explored(ABC):
    """Bound + log prior about a fit's mode, as a function of the hyperparameters that are learned.

    Parameters
    ----------
    model : SparseGPModel or FullGP
    q : dict of blocks
        Where the fit ended.
    data : Table
    expect : Expectation
    density : HyperPrior
    names : list of str
        Blocks of q that were learned, of "kernel" and "likelihood".
    """

    main = "inducing"

    def __init__(self, model: Any, q: dict[str, Any], data: Any, expect: Any, density: HyperPrior, names: list[str]):
        self.model, self.q, self.data, self.expect, self.density = copy(model), q, data, expect, density
        self.names = names
        self.full = {name: np.ravel(q[name].value) for name in names}
        moves = [
            np.array(density.columns) if name == "kernel" else np.ones(self.full[name].size, bool) for name in names
        ]
        self.moves = np.concatenate(moves) if moves else np.zeros(0, bool)
        self.kernel = deepcopy(model.current_kernel(q))
        self.cache: dict[bytes, float] = {}
        free = [part for part in self.kernel.hyperparameters if not part.fixed]
        owners = self.kernel.get_params()
        paths = [part.name.rpartition("__") for part in free]
        sizes = [part.n_elements for part in free]
        self.slots = [
            (owners[path] if path else self.kernel, name, n) for (path, _, name), n in zip(paths, sizes, strict=True)
        ]

    @property
    def mode(self) -> Array:
        """Values at the mode of the hyperparameters that move."""
        return self._everything()[self.moves]

    def _everything(self) -> Array:
        """Values of all learned blocks, also of hyperparameters that the data say nothing of."""
        return np.concatenate([np.zeros(0), *(self.full[name] for name in self.names)])

    def ends(self) -> tuple[Array, Array]:
        """Lower and upper bounds of the hyperparameters that move."""
        box = []
        for name in self.names:
            if name == "kernel":
                box.append(np.reshape(self.model.kernel.bounds, (-1, 2)))
            else:
                box.append(self.full[name][:, None] + WIDEST * np.array([-1.0, 1.0]))
        both = np.concatenate(box)[self.moves]
        # A mode at an end that a search has clipped to may lie a rounding beyond it.
        return np.minimum(both[:, 0], self.mode), np.maximum(both[:, 1], self.mode)

    def at(self, h: Array) -> dict[str, Any]:
        """q with these hyperparameters."""
        whole = self._everything()
        whole[self.moves] = h
        q, begin = dict(self.q), 0
        for name in self.names:
            values = whole[begin : begin + self.full[name].size]
            begin += len(values)
            q[name] = Point(values) if name == "likelihood" else Free(values)
        return q

    def kernel_at(self, q: dict[str, Any]) -> Any:
        """The kernel with q's parameters: one object that is set anew, as scikit-learn's copies take their time."""
        begin, values = 0, np.exp(q["kernel"].value)
        for owner, name, size in self.slots:
            setattr(owner, name, values[begin : begin + size] if size > 1 else float(values[begin]))
            begin += size
        return self.kernel

    @abstractmethod
    def quick(self, q: dict[str, Any]) -> float:
        """Bound at the best q, or what the messages of the mode say of it."""

    @abstractmethod
    def settled(self, q: dict[str, Any]) -> tuple[float, Any]:
        """Bound beyond `quick`, and main block, after a few steps."""

    def log_density(self, h: Array) -> float:
        """Log density at hyperparameters h: `quick` plus the log prior; cached."""
        key = h.tobytes()
        if key not in self.cache:
            q = self.at(h)
            try:
                self.cache[key] = self.quick(q) + self.density(q)
            except NotPositiveDefinite:
                self.cache[key] = -np.inf
        return self.cache[key]

    def integrated(self) -> HyperparameterNodes | None:
        """Nodes with their blocks; None where nothing was learned."""
        mode = self.mode
        if not len(mode):
            return None
        low, high = self.ends()
        shape = shape_about(self.log_density, mode, None, low, high, step=STEP)
        wide = shape.wide(NARROW)
        few_rows = len(mode) > 1 and len(self.data) * np.size(self.q[self.main].mean) <= SCATTERED_NUMBERS
        rule = scattered(len(mode), SCATTERED) if few_rows else design(len(mode), CORNERS)
        nodes, few = shape.nodes(rule).few(), wide.nodes(simplex(wide.axes.shape[1]))
        blocks, gains = [], []
        for h in few.values:
            block, gain = None, 0.0
            if not np.array_equal(h, mode):
                try:
                    gain, block = self.settled(self.at(h))
                except NotPositiveDefinite:
                    gain = -np.inf
            blocks.append(block)
            gains.append(gain)
        left = np.isfinite(gains)
        own = Nodes(few.values[left], few.weights[left], 0.0).corrected(np.array(gains)[left])
        # What a few steps gain beyond the messages is the same share of the integral over either set of nodes.
        nodes = Nodes(nodes.values, nodes.weights, nodes.log_integral + own.log_integral)
        blocks = [block for block, here in zip(blocks, left, strict=True) if here]
        return HyperparameterNodes(self.whole(nodes), self.whole(own), blocks)

    def whole(self, nodes: Nodes) -> Nodes:
        """Nodes with the kernel parameters that stay."""
        values = np.tile(self._everything(), (len(nodes.values), 1))
        values[:, self.moves] = nodes.values
        return Nodes(values, nodes.weights, nodes.log_integral)
