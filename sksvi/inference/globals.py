"""How a local step sees the global blocks: by expectations, by one draw, or by a draw that the gradient knows of."""

from __future__ import annotations

from typing import Any

import numpy as np

from sksvi.models.base import Blocks, Gradient, Model


class Expected:
    """Expectations under q (SVI)."""

    random = False

    def view(self, model: Model, q: Blocks, rng: np.random.Generator) -> Any:
        """What `terms` reads."""
        return model.view(q, None)

    def corrected(self, gradient: Gradient, q: Blocks, view: Any) -> Gradient:
        """The summed gradient as it is."""
        return gradient


class Sampled(Expected):
    """One draw from q per step (SSVI-A)."""

    random = True

    def view(self, model: Model, q: Blocks, rng: np.random.Generator) -> Any:
        """What `terms` reads."""
        return model.view(q, rng)


class Corrected(Sampled):
    """One draw, and the matrix V of equations.md 8: how the draw moves with its parameters (SSVI)."""

    def corrected(self, gradient: Gradient, q: Blocks, view: Any) -> Gradient:
        """The summed gradient, V applied block by block: V is linear, and costs as much as the block."""
        moved = {name: q[name].corrected(draw, gradient[name]) for name, draw in view.draws.items()}
        return {**gradient, **moved}


GLOBALS = {"expected": Expected(), "sampled": Sampled(), "corrected": Corrected()}
