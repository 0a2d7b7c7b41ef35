"""The best mean of a Gaussian block at its covariance: FP's second line, and the mean of a diagonal block."""

from __future__ import annotations

from typing import Any

import numpy as np

from sksvi import _parallel
from sksvi.inference.state import Problem, State, prior_of

Array = np.ndarray

#: Most steps of L-BFGS: in FP (Sheth and Khardon's supplement), and in other algorithms.
FP_STEPS, MEAN_STEPS = 500, 30


def solves_mean(problem: Problem, state: State) -> bool:
    """FP does; and so does a natural step on a diagonal block without noise, whose mean would creep: it ignores how
    columns correlate, while the best mean at fixed variances is a concave problem that costs no Gram product."""
    if not problem.model.linear:
        return False
    creeps = problem.deterministic and problem.algorithm.schedule is None and not state.q[problem.model.block].full
    return problem.algorithm.mean_solver or (problem.algorithm.natural and creeps)


def solved_mean(problem: Problem, state: State) -> Any:
    """The Gaussian block with the mean that is best at its covariance: a concave problem without Gram products."""
    from scipy.optimize import minimize

    if hasattr(problem.model, "solved_mean"):
        return problem.model.solved_mean(problem, state)
    model, data, q = problem.model, problem.data, state.q
    name = model.block
    block, prior = q[name], prior_of(problem, state)[name]
    block.prepare()
    rows = model.blocks(slice(0, len(data)), data)
    variances = list(
        _parallel.in_order(lambda r: model.latent_variance(q, model.batch(data, r)), rows, problem.threads)
    )

    def negative(flat: Array) -> tuple[float, Array]:
        mean = block.mean + block.coloured(flat.reshape(block.mean.shape))
        here = {**q, name: type(block)(mean, block.precision, block.root)}

        def one(item: tuple[Any, Array]) -> tuple[Array, float]:
            batch = model.batch(data, item[0])
            terms = model.terms(here, batch, problem.expect, None, variance=item[1])
            return model.pull_back_mean(terms, batch), float(terms.value.sum())

        g, value = _parallel.tree_sum(_parallel.in_order(one, list(zip(rows, variances, strict=True)), problem.threads))
        delta = mean - prior.mean
        slope = g * problem.scale - prior.dot(delta)
        return 0.5 * float(np.sum(delta * prior.dot(delta))) - value * problem.scale, -block.uncoloured(slope).ravel()

    steps = FP_STEPS if problem.algorithm.mean_solver else MEAN_STEPS
    options = {"gtol": 1e-5, "maxiter": steps}
    best = minimize(negative, np.zeros(block.mean.size), jac=True, method="L-BFGS-B", options=options)  # type: ignore[call-overload]
    return type(block)(block.mean + block.coloured(best.x.reshape(block.mean.shape)), block.precision, block.root)
