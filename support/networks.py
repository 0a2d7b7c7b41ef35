"""Three networks with data, and reference evaluations of their bounds: by draws, by L-BFGS, by steps without safeguard.

An example is a function that returns nodes, factors, data, three starts (one of them good) and the log joint density of
draws.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from scipy import stats
from scipy.optimize import minimize

from sksvi import families
from sksvi.algorithms.steps import natural_step
from sksvi.families.base import Family
from sksvi.models.base import Blocks
from sksvi.models.network.distributions import Distribution
from sksvi.models.network.model import Factor
from sksvi.network import Beta, Function, Gamma, Gaussian, Likelihood, Link, Network
from sksvi.network._build import Built
from sksvi.network._structure import named

Array = np.ndarray
Factors = Mapping[str, Factor] | Sequence[Factor]
LogJoint = Callable[[Mapping[str, Array]], Any]
#: Nodes, factors, data, starts and the log joint density of draws.
Example = tuple[Mapping[str, Distribution], Factors, Mapping[str, Array], Sequence[Mapping[str, Family]], LogJoint]


# ---- examples
def groups(n_groups: int = 30, seed: int = 0) -> Example:
    """Gamma variables in groups, of unknown shapes and one shared rate."""
    rng = np.random.default_rng(seed)
    group = np.repeat(np.arange(n_groups), rng.integers(3, 12, n_groups))
    y = rng.gamma(rng.gamma(3.0, 1.0, n_groups)[group], 1.0 / 1.7)
    nodes = {
        "rate": Gamma(2.0, 1.0),
        "shapes": Gamma(2.0, 0.5, size=n_groups),
        "y": Gamma(Link("shapes", index=group), "rate"),
    }
    starts = [
        {"shapes": families.Gamma(np.full(n_groups, a), np.full(n_groups, b)), "rate": families.Gamma([c], [d])}
        for a, b, c, d in ((2.0, 0.5, 2.0, 1.0), (0.1, 0.1, 300.0, 1.0), (100.0, 1.0, 0.05, 5.0))
    ]

    def log_joint(x: Mapping[str, Array]) -> Any:
        shape, rate = x["shapes"][:, group], x["rate"]
        value = np.sum(stats.gamma.logpdf(y, shape, scale=1.0 / rate), 1) + stats.gamma.logpdf(rate[:, 0], 2.0)
        return value + np.sum(stats.gamma.logpdf(x["shapes"], 2.0, scale=2.0), 1)

    return nodes, [], {"y": y}, starts, log_joint


def counts(n: int = 40, seed: int = 0, level: float = 1.0) -> Example:
    """Poisson counts whose log rates are Gaussian with an unknown mean and an unknown precision."""
    rng = np.random.default_rng(seed)
    y = rng.poisson(np.exp(rng.normal(level, 0.7, n))).astype(float)
    nodes = {
        "centre": Gaussian(0.0, 0.01),
        "precision": Gamma(1.0, 1.0),
        "log_rate": Gaussian("centre", "precision", size=n),
        "y": Likelihood("poisson", "log_rate"),
    }
    starts = [
        {
            "log_rate": families.DiagonalGaussian(np.full(n, m), np.full(n, p)),
            "precision": families.Gamma([c], [d]),
            "centre": families.DiagonalGaussian(np.array([m]), np.ones(1)),
        }
        for m, p, c, d in ((0.0, 1.0, 1.0, 1.0), (-6.0, 0.5, 0.01, 1.0), (5.0, 0.1, 50.0, 1.0))
    ]

    def log_joint(x: Mapping[str, Array]) -> Any:
        f, centre, precision = x["log_rate"], x["centre"], x["precision"]
        value = np.sum(stats.poisson.logpmf(y, np.exp(f)), 1) + stats.norm.logpdf(centre[:, 0], 0.0, 10.0)
        value = value + np.sum(stats.norm.logpdf(f, centre, 1 / np.sqrt(precision)), 1)
        return value + stats.expon.logpdf(precision[:, 0])

    return nodes, [], {"y": y}, starts, log_joint


#: Positive tests, and tests, of two places.
POSITIVE, TESTED = np.array([14.0, 31.0]), np.array([120.0, 150.0])


def positive_share(sick: Array, sensitivity: Array, specificity: Array) -> Array:
    """Share of tests that are positive, of the sick and of the healthy."""
    return sick * sensitivity + (1.0 - sick) * (1.0 - specificity)


def prevalence() -> Example:
    """Positive tests of two places where the test errs both ways: a factor given as a function."""

    def log_density(sick: Array, sensitivity: Array, specificity: Array, y: Array, n: Array) -> Any:
        return stats.binom.logpmf(y, n, positive_share(sick, sensitivity, specificity))

    nodes = {"sick": Beta(1.0, 3.0, size=2), "sensitivity": Beta(18.0, 2.0), "specificity": Beta(40.0, 1.0)}
    factor = Function(["sick", "sensitivity", "specificity"], log_density, data=[POSITIVE, TESTED])
    starts = [
        {"sick": families.Beta(np.full(2, a), np.full(2, b)), "sensitivity": families.Beta([c], [d])}
        for a, b, c, d in ((1.0, 3.0, 18.0, 2.0), (40.0, 0.5, 0.5, 40.0), (0.2, 90.0, 1.0, 1.0))
    ]

    def log_joint(x: Mapping[str, Array]) -> Any:
        share = positive_share(x["sick"], x["sensitivity"], x["specificity"])
        value = np.sum(stats.binom.logpmf(POSITIVE, TESTED, share), 1)
        value += np.sum(stats.beta.logpdf(x["sick"], 1.0, 3.0), 1) + stats.beta.logpdf(
            x["sensitivity"][:, 0], 18.0, 2.0
        )
        return value + stats.beta.logpdf(x["specificity"][:, 0], 40.0, 1.0)

    return nodes, {"tests": factor}, {}, starts, log_joint


#: Examples by name.
EXAMPLES = {"groups": groups, "counts": counts, "prevalence": prevalence}


def bound_after_plain_steps(bound: Bound, q: Blocks, rate: float, order: str, passes: int) -> float:
    """Make natural steps without a safeguard, as in Algorithm 2 of the paper.

    Parameters
    ----------
    bound : Bound
        Network and data.
    q : dict of str to Family
        Blocks to start from.
    rate : float
        Rate of every step.
    order : {"in turn", "parallel"}
        Whether a node's step uses the steps of the nodes before it.
    passes : int
        Number of steps of each node.

    Returns
    -------
    value : float
        The bound at the end; -inf where a step leaves the domain.
    """
    with np.errstate(all="ignore"):
        for _ in range(passes):
            new = dict(q)
            for name in q:
                others = q if order == "parallel" else new
                messages = [f.terms(others, slice(None))[1][name] for f in bound.factors if name in f.nodes]
                try:
                    new[name] = natural_step(
                        q[name], bound.priors[name], tuple(map(sum, zip(*messages, strict=True))), rate
                    )
                    new[name].std  # noqa: B018
                except families.NotPositiveDefinite:
                    return -np.inf
            q = new
        return bound.value(q)


# ---- the bound in unconstrained coordinates
class Bound:
    """Evidence lower bound of a network with its data, as a function of unconstrained coordinates.

    Parameters
    ----------
    nodes, factors
        As `sksvi.network.Network` takes them.
    data : dict
        Observed nodes.
    """

    def __init__(self, nodes: Mapping[str, Distribution], factors: Factors, data: Mapping[str, Any]) -> None:
        Network(nodes, factors)  # checks them
        built = Built(nodes, named(factors), data)
        self.priors, self.factors = built.priors, list(built.factors.values())

    def value(self, q: Blocks) -> float:
        """Bound at blocks q, in nats."""
        return sum(float(np.sum(f.terms(q, slice(None))[0])) for f in self.factors) - sum(
            q[name].kl(prior) for name, prior in self.priors.items()
        )

    def pack(self, q: Blocks) -> Array:
        """Coordinates of blocks: mean and log precision of a Gaussian, logarithms of the parameters of others."""
        return np.concatenate([np.ravel(part) for name in self.priors for part in coordinates(q[name])])

    def unpack(self, x: Array) -> Blocks:
        """Blocks of coordinates."""
        q, first = {}, 0
        for name, prior in self.priors.items():
            parts = []
            for like in coordinates(prior):
                parts.append(x[first : first + like.size].reshape(like.shape))
                first += like.size
            if prior.column == "gaussian":
                q[name] = type(prior)(parts[0], np.exp(parts[1]))
            else:
                q[name] = prior.at(parts[0])
        return q

    def __call__(self, x: Array) -> tuple[float, Array]:
        """Negative bound and its gradient at coordinates x; 1e10 where the bound is not finite."""
        try:
            with np.errstate(all="ignore"):
                q = self.unpack(x)
                value = self.value(q)
                gradients: dict[str, Any] = {name: 0.0 for name in self.priors}
                for factor in self.factors:
                    for name, parts in factor.terms(q, slice(None))[1].items():
                        old = gradients[name]
                        gradients[name] = parts if isinstance(old, float) else tuple(map(np.add, old, parts))
        except ValueError:
            return 1e10, np.zeros(len(x))
        slopes = [
            np.ravel(part)
            for name, prior in self.priors.items()
            for part in gradient_in_coordinates(q[name], prior, gradients[name])
        ]
        fine = np.isfinite(value) and np.all(np.isfinite(np.concatenate(slopes)))
        return (-value, -np.concatenate(slopes)) if fine else (1e10, np.zeros(len(x)))

    def maximum(self, q: Blocks) -> float:
        """Bound that L-BFGS reaches from blocks q."""
        options: Any = {"maxiter": 5000, "maxfun": 20000, "ftol": 1e-15, "gtol": 1e-9}
        negative: Any = self
        return -minimize(negative, self.pack(q), jac=True, method="L-BFGS-B", options=options).fun


def coordinates(block: Any) -> tuple[Array, ...]:
    """Unconstrained coordinates of a block, as arrays."""
    gaussian = block.column == "gaussian"
    return (block.mean, np.log(block.precision)) if gaussian else (block.standard_values,)


def gradient_in_coordinates(block: Any, prior: Any, gradient: Any) -> tuple[Array, ...]:
    """Gradient of the bound in the coordinates of a block, from that in its moments."""
    if block.column != "gaussian":
        return (block.standard_gradient(prior, gradient),)
    in_mean, in_variance = gradient
    bend = in_variance - 0.5 * prior.precision + 0.5 * block.precision
    return in_mean + prior.precision * (prior.mean - block.mean), -bend / block.precision


def bound_by_draws(q: Blocks, log_joint: LogJoint, n: int, seed: int) -> tuple[float, float]:
    """Estimate the bound from draws of q and scipy's densities, without the network.

    Parameters
    ----------
    q : dict of str to Family
        Blocks.
    log_joint : callable
        Log joint density of draws by name.
    n : int
        Number of draws.
    seed : int
        Seed.

    Returns
    -------
    value, error : float
        The bound and its standard error.
    """
    x = {name: block.sample(n, 1000 * seed + k) for k, (name, block) in enumerate(q.items())}
    each = log_joint(x)
    for name, block in q.items():
        each = each - log_density(block, x[name]).sum(1)
    return each.mean(), each.std() / np.sqrt(n)


def log_density(block: Family, x: Array) -> Any:
    """Log density of a block by element."""
    if isinstance(block, families.Gamma):
        return stats.gamma.logpdf(x, block.shape, scale=1.0 / block.rate)
    if isinstance(block, families.Beta):
        return stats.beta.logpdf(x, block.a, block.b)
    return stats.norm.logpdf(x, block.mean, block.std)
