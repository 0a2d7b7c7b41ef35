"""Networks of tests and tables, their bounds by draws, and L-BFGS on the bound in unconstrained coordinates."""

from __future__ import annotations

import numpy as np
from scipy import stats
from scipy.optimize import minimize

from sksvi import families
from sksvi.algorithms.steps import natural_step
from sksvi.network import Beta, Function, Gamma, Gaussian, Likelihood, Link, Network
from sksvi.network._build import Built

Q = families


# ---- three examples: nodes and factors, data, bad starts, log joint density of draws
def groups(n_groups=30, seed=0):
    """Grouped Gamma numbers: unknown shapes, one shared rate."""
    rng = np.random.default_rng(seed)
    group = np.repeat(np.arange(n_groups), rng.integers(3, 12, n_groups))
    y = rng.gamma(rng.gamma(3.0, 1.0, n_groups)[group], 1.0 / 1.7)
    nodes = {
        "rate": Gamma(2.0, 1.0),
        "shapes": Gamma(2.0, 0.5, size=n_groups),
        "y": Gamma(Link("shapes", index=group), "rate"),
    }
    starts = [
        {"shapes": Q.Gamma(np.full(n_groups, a), np.full(n_groups, b)), "rate": Q.Gamma([c], [d])}
        for a, b, c, d in ((2.0, 0.5, 2.0, 1.0), (0.1, 0.1, 300.0, 1.0), (100.0, 1.0, 0.05, 5.0))
    ]

    def log_joint(x):
        shape, rate = x["shapes"][:, group], x["rate"]
        value = stats.gamma.logpdf(y, shape, scale=1.0 / rate).sum(1) + stats.gamma.logpdf(rate[:, 0], 2.0)
        return value + stats.gamma.logpdf(x["shapes"], 2.0, scale=2.0).sum(1)

    return nodes, [], {"y": y}, starts, log_joint


def counts(n=40, seed=0, level=1.0):
    """Poisson counts, whose log rates are Gaussian with an unknown mean and an unknown precision."""
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
            "log_rate": Q.DiagonalGaussian(np.full(n, m), np.full(n, p)),
            "precision": Q.Gamma([c], [d]),
            "centre": Q.DiagonalGaussian(np.array([m]), np.ones(1)),
        }
        for m, p, c, d in ((0.0, 1.0, 1.0, 1.0), (-6.0, 0.5, 0.01, 1.0), (5.0, 0.1, 50.0, 1.0))
    ]

    def log_joint(x):
        f, centre, precision = x["log_rate"], x["centre"], x["precision"]
        value = stats.poisson.logpmf(y, np.exp(f)).sum(1) + stats.norm.logpdf(centre[:, 0], 0.0, 10.0)
        return value + stats.norm.logpdf(f, centre, 1 / np.sqrt(precision)).sum(1) + stats.expon.logpdf(precision[:, 0])

    return nodes, [], {"y": y}, starts, log_joint


POSITIVE, TESTED = np.array([14.0, 31.0]), np.array([120.0, 150.0])


def share(sick, sensitivity, specificity):
    """Of tests that are positive."""
    return sick * sensitivity + (1.0 - sick) * (1.0 - specificity)


def prevalence():
    """A factor of one's own: positive tests of two places, when the test errs both ways."""

    def log_density(sick, sensitivity, specificity, y, n):
        return stats.binom.logpmf(y, n, share(sick, sensitivity, specificity))

    nodes = {"sick": Beta(1.0, 3.0, size=2), "sensitivity": Beta(18.0, 2.0), "specificity": Beta(40.0, 1.0)}
    factor = Function(["sick", "sensitivity", "specificity"], log_density, data=[POSITIVE, TESTED])
    starts = [
        {"sick": Q.Beta(np.full(2, a), np.full(2, b)), "sensitivity": Q.Beta([c], [d])}
        for a, b, c, d in ((1.0, 3.0, 18.0, 2.0), (40.0, 0.5, 0.5, 40.0), (0.2, 90.0, 1.0, 1.0))
    ]

    def log_joint(x):
        value = stats.binom.logpmf(POSITIVE, TESTED, share(x["sick"], x["sensitivity"], x["specificity"])).sum(1)
        value += stats.beta.logpdf(x["sick"], 1.0, 3.0).sum(1) + stats.beta.logpdf(x["sensitivity"][:, 0], 18.0, 2.0)
        return value + stats.beta.logpdf(x["specificity"][:, 0], 40.0, 1.0)

    return nodes, {"tests": factor}, {}, starts, log_joint


EXAMPLES = {"groups": groups, "counts": counts, "prevalence": prevalence}


def plainly(bound, q, rate, order, passes):
    """The bound after natural steps that nobody judges: Algorithm 2 as it is printed."""
    with np.errstate(all="ignore"):
        for _ in range(passes):
            new = dict(q)
            for name in q:
                seen = q if order == "parallel" else new
                said = [f.terms(seen, slice(None))[1][name] for f in bound.factors if name in f.nodes]
                try:
                    new[name] = natural_step(
                        q[name], bound.priors[name], tuple(map(sum, zip(*said, strict=True))), rate
                    )
                    new[name].std  # noqa: B018
                except families.NotPositiveDefinite:
                    return -np.inf
            q = new
        return bound.value(q)


# ---- the bound in unconstrained coordinates
class Bound:
    """The bound of a network with its data as a function of numbers without bounds, and its gradient."""

    def __init__(self, nodes, factors, data):
        network = Network(nodes, factors)
        built = Built(network.nodes, network.factors, data)
        self.priors, self.factors = built.priors, list(built.joined.values())

    def value(self, q):
        """Nats."""
        return sum(float(np.sum(f.terms(q, slice(None))[0])) for f in self.factors) - sum(
            q[name].kl(prior) for name, prior in self.priors.items()
        )

    def packed(self, q):
        """Mean and log precision of Gaussians, logarithms of the parameters of others."""
        return np.concatenate([np.ravel(part) for name in self.priors for part in coordinates(q[name])])

    def at(self, x):
        """The blocks."""
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

    def __call__(self, x):
        """-value and -gradient; 1e10 where there is none."""
        try:
            with np.errstate(all="ignore"):
                q = self.at(x)
                value = self.value(q)
                said = {name: 0.0 for name in self.priors}
                for factor in self.factors:
                    for name, parts in factor.terms(q, slice(None))[1].items():
                        old = said[name]
                        said[name] = parts if isinstance(old, float) else tuple(map(np.add, old, parts))
        except ValueError:
            return 1e10, np.zeros(len(x))
        slopes = [np.ravel(part) for name, prior in self.priors.items() for part in uphill(q[name], prior, said[name])]
        fine = np.isfinite(value) and np.all(np.isfinite(np.concatenate(slopes)))
        return (-value, -np.concatenate(slopes)) if fine else (1e10, np.zeros(len(x)))

    def best(self, q):
        """The bound that L-BFGS reaches from q."""
        options = {"maxiter": 5000, "maxfun": 20000, "ftol": 1e-15, "gtol": 1e-9}
        return -minimize(self, self.packed(q), jac=True, method="L-BFGS-B", options=options).fun


def coordinates(block):
    """Unconstrained ones."""
    gaussian = block.column == "gaussian"
    return (block.mean, np.log(block.precision)) if gaussian else (block.standard_values,)


def uphill(block, prior, said):
    """The gradient of the bound in them."""
    if block.column != "gaussian":
        return (block.standard_gradient(prior, said),)
    in_mean, in_variance = said
    bend = in_variance - 0.5 * prior.precision + 0.5 * block.precision
    return in_mean + prior.precision * (prior.mean - block.mean), -bend / block.precision


def by_draws(q, log_joint, n, seed):
    """The bound and its standard error, from draws of q and nothing of the network's."""
    x = {name: block.sample(n, 1000 * seed + k) for k, (name, block) in enumerate(q.items())}
    each = log_joint(x)
    for name, block in q.items():
        each = each - log_density(block, x[name]).sum(1)
    return each.mean(), each.std() / np.sqrt(n)


def log_density(block, x):
    """Of q by element."""
    if isinstance(block, Q.Gamma):
        return stats.gamma.logpdf(x, block.shape, scale=1.0 / block.rate)
    if isinstance(block, Q.Beta):
        return stats.beta.logpdf(x, block.a, block.b)
    return stats.norm.logpdf(x, block.mean, block.std)
