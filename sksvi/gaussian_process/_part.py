"""The start of a full process on many rows: a fit to some of them, at a hundredth of the price."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from sksvi.families.base import Message
from sksvi.inference import plan
from sksvi.inference.problem import Problem
from sksvi.inference.start import first_state
from sksvi.models.data import Table
from sksvi.models.gp import kernels
from sksvi.models.gp.full import FullGP

Array = np.ndarray

#: Rows from which on a fit starts at one to a part of them, and one over that part.
MANY, PARTS = 400, 4
#: Most passes over the part.
MOST_PASSES = 100
#: Tolerance of the fit to a part, at least: it ends where all rows are better at telling.
ROUGH_TOL = 1e-3


def started_at_part(problem: Problem, model: FullGP, tol: float) -> FullGP:
    """The model with the first kernel and messages of a fit to a part of the rows; of few rows as it is."""
    data = problem.data
    if not (model.learned and model.kernel.theta.size and problem.deterministic) or len(data) < MANY:
        return model
    part = data.portion(len(data) // PARTS, 0)  # whatever the seed of the fit: it ends where it would from elsewhere
    own = FullGP(model.likelihood, model.kernel, part.X, True, model.density)
    on_part = plan.problem(own, part, problem.algorithm, problem.expect)
    q = plan.run(on_part, first_state(on_part, 0), MOST_PASSES, max(tol, ROUGH_TOL)).q
    kernel = model.kernel.clone_with_theta(q["kernel"].value)
    return model.replaced(kernel=kernel, first=predicted(problem, kernel, part, q))


def predicted(problem: Problem, kernel: Any, part: Table, q: dict[str, Any]) -> Message:
    """Messages of all rows where q of a part of them predicts their latents."""
    data, model, block = cast(Table, problem.data), cast(FullGP, problem.model), q["latents"]
    mean, variance = block.latents(kernels.cross(kernel, data.X, part.X), kernels.diagonal(kernel, data.X))
    rows = model.batch(data, slice(0, len(data)))
    alpha, gamma = model.pull_back(model.terms_at(q, mean, variance, rows, problem.exact, None), rows)["latents"]
    return Message((alpha - 2.0 * gamma * mean, -2.0 * gamma))
