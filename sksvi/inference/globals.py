"""How local steps see the globals: by expectations, at their mean, by a draw, or by one that the gradient knows of."""

from __future__ import annotations

from typing import Any

import numpy as np

from sksvi.inference.records import replace
from sksvi.models.base import Blocks, Gradient, Model


class ExpectedGlobals:
    """Globals seen by their expectations under q (SVI).

    ``judged`` : a step climbs the bound that it is judged by, without noise.
    """

    judged = True

    def view(self, model: Model, q: Blocks, rng: np.random.Generator) -> Any:
        """The view of the globals that the model's `terms` reads."""
        return model.view(q, None)

    def corrected(self, gradient: Gradient, q: Blocks, view: Any) -> Gradient:
        """The summed gradient as it is."""
        return gradient


class GlobalsAtMean:
    """A block whose moments are its statistics at the mean: t(E x) in the place of E t(x); all else is the block's."""

    def __init__(self, block: Any) -> None:
        self._block = block

    def __getattr__(self, name: str) -> Any:
        return getattr(self._block, name)

    @property
    def moments(self) -> Any:
        """Statistics at the mean, t(E x), in the place of E t(x)."""
        return self._block.statistics(self._block.mean)


class MeanGlobals(ExpectedGlobals):
    """Statistics at the mean of q, as in EM; the view's `bounded` has the expectations, which a bound is taken at."""

    judged = False

    def view(self, model: Model, q: Blocks, rng: np.random.Generator) -> Any:
        """The view of the globals that the model's `terms` reads."""
        at_mean = {name: GlobalsAtMean(block) if block.column != "hyper" else block for name, block in q.items()}
        return replace(model.view(at_mean, None), bounded=model.view(q, None))


class SampledGlobals(ExpectedGlobals):
    """Globals seen by one draw from q per step (SSVI-A)."""

    judged = False

    def view(self, model: Model, q: Blocks, rng: np.random.Generator) -> Any:
        """The view of the globals that the model's `terms` reads."""
        return model.view(q, rng)


class CorrectedGlobals(SampledGlobals):
    """One draw, and the matrix V of equations.md 8: how the draw moves with its parameters (SSVI)."""

    def corrected(self, gradient: Gradient, q: Blocks, view: Any) -> Gradient:
        """The summed gradient, V applied block by block: V is linear, and costs as much as the block."""
        moved = {name: q[name].corrected(draw, gradient[name]) for name, draw in view.draws.items()}
        return {**gradient, **moved}


GLOBALS = {
    "expected": ExpectedGlobals(),
    "sampled": SampledGlobals(),
    "corrected": CorrectedGlobals(),
    "mean": MeanGlobals(),
}
