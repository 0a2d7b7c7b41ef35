"""Mean-field networks of your own: nodes, what they and data are distributed as, and factors; fitted node by node.

Conjugate-computation variational inference for networks (Khan and Lin 2017, Algorithm 2): variational message passing
where nodes are conjugate, its natural gradients where they are not.
"""

from sksvi.models.network.distributions import (
    Beta,
    Binomial,
    Categorical,
    Dirichlet,
    Gamma,
    Gaussian,
    Likelihood,
    Poisson,
    Rayleigh,
)
from sksvi.models.network.function import Function, SampledFunction
from sksvi.models.network.model import Factor
from sksvi.models.network.slots import Link
from sksvi.network._network import Network

__all__ = [
    "Beta",
    "Binomial",
    "Categorical",
    "Dirichlet",
    "Factor",
    "Function",
    "Gamma",
    "Gaussian",
    "Likelihood",
    "Link",
    "Network",
    "Poisson",
    "Rayleigh",
    "SampledFunction",
]
