"""Long series: where the search for variances and scales begins is learned from their first points."""

from __future__ import annotations

from typing import Any

import numpy as np

from sksvi.inference import plan
from sksvi.inference.problem import Problem
from sksvi.inference.start import first_state
from sksvi.models.base import Table

#: Points of a long series, and one over the share of them that parameters are first learned from.
LONG, PARTS = 2**14, 8
#: The fewest seasons, and the least share of points observed, that say something.
SEASONS, OBSERVED = 20, 0.5


def first_part(problem: Problem, periods: list[float]) -> Table | None:
    """The first points of a long series, where they make one of their own and are to be searched over; else None."""
    model: Any = problem.model
    n = len(problem.data) // PARTS
    # The search of a closed posterior takes as long as what it saves.
    sweeps = model.traits.bound.exact_search and model.likelihood.noise_variance is None
    if not sweeps or len(problem.data) < LONG or n < SEASONS * max(periods, default=0.0):
        return None
    part: Table = problem.data.take(slice(0, n))
    n_observed = n if part.weight is None else np.count_nonzero(part.weight)
    return part if n_observed >= OBSERVED * n else None


def begun_from(part: Problem, model: Any, most_passes: int, tol: float) -> Any:
    """The model with parameters that begin where a fit to a part of the points ends: most of the way at an eighth."""
    try:
        q = plan.run(part, first_state(part, 0), most_passes, tol).q
    except ValueError:  # of a part that has no fit nothing is known
        return model
    theta = model.dynamics.moving(q["dynamics"].value)
    return model.replaced(theta=theta, likelihood=model.current_likelihood(q))
