"""Checks for one's own likelihoods, families and models, and data whose truth is known.

The checks are those that the package's tests run on its own parts; the simulations are those by which the tests and
the benchmarks count how often an interval holds.
"""

from sksvi.testing.families import check_family
from sksvi.testing.likelihoods import check_likelihood
from sksvi.testing.models import check_model
from sksvi.testing.processes import simulate_gp, simulate_intermittent, simulate_series
from sksvi.testing.simulations import Effect, Rows, Simulated, draw_targets, simulate_glm, simulate_mixed

__all__ = [
    "Effect",
    "Rows",
    "Simulated",
    "check_family",
    "check_likelihood",
    "check_model",
    "draw_targets",
    "simulate_glm",
    "simulate_gp",
    "simulate_intermittent",
    "simulate_mixed",
    "simulate_series",
]
