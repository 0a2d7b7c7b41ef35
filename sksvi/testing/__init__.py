"""Checks for one's own likelihoods, families and models, and data whose truth is known.

The checks are those that the package's tests run on its own parts; the simulations are those by which the tests and
the benchmarks count how often an interval holds.

Modules below have what the tests and benchmarks of the package share, and may change between versions: `small_fits`
(every estimator by every algorithm), `interruptions` and `concurrency` (such fits killed, interrupted, in threads),
`estimator_cases`, `invalid_arguments`, `random_calls` and `call_outcomes` (calls with one invalid argument),
`saved_models` and `file_mutations` (files, and damage to them), `memory_cases` (memory that a fit estimates) and
`networks` (reference evaluations of the bound of a network).
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
