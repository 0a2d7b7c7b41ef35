"""The corrected covariance of a fit to a quantile, in the place of that of its working likelihood."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from sksvi.families.base import Message
from sksvi.inference.engine import evaluate, whole, with_fixed_hyper
from sksvi.inference.problem import DIRECT, Problem
from sksvi.inference.records import replace
from sksvi.inference.state import State
from sksvi.likelihoods import AsymmetricLaplace, Gaussian, Likelihood
from sksvi.likelihoods.quantile import bandwidth
from sksvi.models.linear.glm import LinearModel

Array = np.ndarray


def corrected_weights(problem: Problem, state: State) -> Any:
    """The block of the weights whose message has the precision H J⁻¹ H of an estimate, in the place of H.

    J = q (1 - q) XᵀX / scale² is the covariance of the rows' scores at the true quantile, H = Σ xxᵀ p(y = f) / scale
    their slope (Yang, Wang and He 2016, eq. 7; here before the prior is added, which weighs what the rows say). The
    density of y at f is that of a normal kernel about f, of the bandwidth of Hall and Sheather (1988).
    """
    model, q = cast(LinearModel, problem.model), state.shown
    likelihood = model.current_likelihood(q)
    tau, scale = float(likelihood.quantile), float(likelihood.scale)
    weights = q["weights"] if q["weights"].natural_coordinates else q["weights"].natural_form()
    prior = model.prior(q)["weights"]
    linear, from_rows = weights.over(prior).added()
    J = curvature(problem, state, weights, Gaussian(variance=scale**2 / (tau * (1.0 - tau))))
    spread = np.trace(np.linalg.solve(weights.precision, J)) / (tau * (1.0 - tau) * problem.data.total_weight)
    wider = np.square(bandwidth(tau, problem.data.total_weight)) / spread
    block = weights.structure.block(weights.mean, weights.precision / wider)
    H = curvature(problem, state, block, AsymmetricLaplace(tau, scale=scale))
    precision = H @ np.linalg.pinv(J, hermitian=True) @ H
    centre = np.linalg.pinv(from_rows, hermitian=True) @ linear
    return prior.times(Message((precision @ centre, 0.5 * (precision + precision.T))))


def curvature(problem: Problem, state: State, weights: Any, likelihood: Likelihood) -> Array:
    """What all rows add to the precision of the weights under a block of them and a fixed likelihood."""
    model = problem.model.replaced(likelihood=likelihood)
    still = with_fixed_hyper(replace(problem, model=model), expect=problem.exact, messages=DIRECT)
    given = {name: block for name, block in state.shown.items() if name != "likelihood"}
    gradient, _ = evaluate(still, replace(state, q={**given, "weights": weights}), whole(problem))
    found: Array = -2.0 * gradient["weights"][1]
    return found
