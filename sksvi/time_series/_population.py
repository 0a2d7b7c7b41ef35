"""Series of one population: the prior of their parameters, which all of them tell, and a series without data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from sksvi._runtime.user import warn_user
from sksvi.families import Free
from sksvi.families.gaussian.chain import ChainGaussian
from sksvi.inference import plan
from sksvi.inference.records import replace
from sksvi.inference.start import first_state
from sksvi.inference.state import State
from sksvi.integrals.nodes import Nodes, design
from sksvi.models.time_series.integrated import divided, nodes_of
from sksvi.models.time_series.model import DynamicModel
from sksvi.models.time_series.population import PopulationPrior, first_population, improved, prior_slope
from sksvi.models.time_series.weak_prior import WeakPrior
from sksvi.time_series._fit import after
from sksvi.time_series._frequency import clock_shifts
from sksvi.time_series._index import positions

Array = np.ndarray

#: Most times that all series are fitted to find their population, and the change of its mean (in standard deviations)
#: and log spread that ends them.
ROUNDS, SETTLED = 25, 0.05
#: Steps of the fit to the last states of all series, and the change of the variance of a further one that ends them:
#: a spread of 0 is come near, never reached.
STEPS, SMALL = 5000, 1e-4


def learned_population(
    likelihood: Any, members: list[Any], tables: list[Any], dynamics: list[Any], each: Callable[..., Any]
) -> list[dict[str, Any]]:
    """What each series begins with: its likelihood, parameters, and the population of all.

    Parameters
    ----------
    likelihood : Likelihood
        Where the search begins.
    members : list of DynamicGLM
    tables, dynamics : list of Table and of Dynamics
        Rows and states of each.
    each : callable
        Calls a function of a member and its own argument for each, in threads.
    """
    n = len(dynamics[0].parameters)
    spreads, lengths = [member._encoding.spread for member in members], [len(table) for table in tables]
    priors: list[Any] = list(map(WeakPrior, dynamics, [likelihood] * len(tables), spreads, lengths))
    if not n + len(likelihood.learned):
        raise ValueError("share_variances='partial', and every variance is a number: leave it out.")
    typical = WeakPrior(dynamics[0], likelihood, float(np.exp(np.mean(np.log(spreads)))), int(np.median(lengths)))
    starts: list[dict[str, Any]] = [{}] * len(tables)
    population: tuple[Array, Array] | None = None
    for _ in range(ROUNDS):
        models = [
            DynamicModel(start.pop("likelihood", likelihood), own, data.X, data.weight, prior=prior, **start)
            for own, data, prior, start in zip(dynamics, tables, priors, starts, strict=True)
        ]
        starts, nodes = map(list, zip(*each(_settled, list(zip(models, tables, strict=True))), strict=True))
        if population is None:
            population = first_population(nodes)
            priors = [PopulationPrior(*population, n)] * len(tables)
            continue
        mean, sd, error = improved(*population, nodes, lambda values: prior_slope(typical, values, n))
        moved = np.concatenate([(mean - population[0]) / sd, np.log(sd / population[1])])
        population = mean, sd
        if np.abs(moved).max() <= SETTLED:
            break
        priors = [PopulationPrior(*population, n)] * len(tables)
    else:
        warn_user(
            f"the population of {len(tables)} series had not settled after {ROUNDS} rounds: give some of the variances "
            "as numbers, or leave parts out of the model.",
            ConvergenceWarning,
        )
    common = {"population": population, "new": (mean, np.hypot(sd, error))}
    return [{"likelihood": start["likelihood"], "theta": start["theta"], **common} for start in starts]


def _settled(member: Any, own: tuple[DynamicModel, Any]) -> tuple[dict[str, Any], Nodes]:
    """Where the fit of a series ends under the prior of its model, and its nodes."""
    model, data = own
    problem = member._problem(model, data)
    # Under a proper prior each parameter is searched for, whatever the data say of it.
    problem = plan.changed(problem, frozen=problem.frozen - {"likelihood"})
    q = plan.run(problem, first_state(problem, 0), member._most_passes(), member.tol).shown
    found = nodes_of(model, data, member._rule(), q, False)
    assert found is not None
    start = {"theta": q["dynamics"].value, "messages": q["latents"].forgotten()}
    return start | {"likelihood": model.current_likelihood(q)}, found[0]


# ---- a series without data
def new_series(members: list[Any]) -> Any:
    """A fit without rows to a further series, which follows the one that ends last; None where times do not say how.

    Its parameters are those of the population, its states those that the series have at that time.
    """
    try:
        latest = max(members, key=lambda member: member.index_[-1])
        steps = [int(positions(one.index_, latest.index_[-1:])[0]) - len(one.index_) + 1 for one in members]
    except (TypeError, ValueError):  # their times have no common step
        return None
    means, covs = zip(*map(_states_after, members, steps), strict=True)
    mean, cov = normal_population(np.array(means), np.array(covs))
    new, fit = latest._without_rows(), latest._series.without_rows
    E, (centre, sd) = fit.dynamics.n_coefficients, latest._shared["new"]
    z, share = design(len(centre))
    nodes = Nodes(centre + z * sd, share)
    ends = [_with_stationary(fit.dynamics, fit.at_node(values)[0], mean, cov) for values in [centre, *nodes.values]]
    theta, likelihood = fit.at_node(centre)
    encoding = replace(fit.encoding, likelihood=likelihood, mean=0.0, centre=np.zeros(E), scale=np.ones(E))
    if encoding.clock is not None:
        encoding = replace(encoding, clock={**encoding.clock, "place": fit.left_out - 1})
    chain = after(fit.dynamics.chain(theta, fit.block.chain.X), *ends[0], fit.block.chain.X)
    block = ChainGaussian(chain, np.zeros(0), np.zeros(0))
    node_ends = tuple(np.array(part) for part in zip(*ends[1:], strict=True))
    own = {"last": ends[0][0], "last_cov": ends[0][1], "node_ends": node_ends, "node_messages": None, "gain": 0.0}
    new._series = fit.changed(encoding=encoding, likelihood=likelihood, block=block, nodes=nodes, **own)
    new._encoding, new.mean_ = encoding, 0.0
    q = {name: Free(value) for name, value in divided(centre, latest.state_.q).items()}
    state = State({**q, "latents": block}, latest.state_.seed, bound=0.0, finished=True, converged=True)
    new._finish(new._series.model_after(fit.series), state, 0.0)
    return new


def _states_after(member: Any, steps: int) -> tuple[Array, Array]:
    """Mean and covariance of the states some steps after the last point of a series, for columns as given."""
    ends, fit, encoding = [], member._series, member._encoding
    for view in fit.views:
        chain, mean, cov, A = view.block.chain, view.last, view.last_cov, view.block.chain.transition()
        for _ in range(steps):
            mean, cov = A @ mean, A @ cov @ A.T + np.diag(chain.noise)
        ends.append((mean, cov))
    means, covs = (np.array(part) for part in zip(*ends, strict=True))
    mean = fit.weights @ means
    cov = np.tensordot(fit.weights, covs, 1) + (fit.weights * (means - mean).T) @ (means - mean)
    columns = slice(len(mean) - len(encoding.scale), None)
    units, shift = np.eye(len(mean)), np.zeros(len(mean))
    units[columns, columns] /= encoding.scale
    for level in fit.dynamics.groups.get("level", [])[:1]:  # constants are of the level, or of its mean
        shift[level], units[level, columns] = encoding.mean, -encoding.centre / encoding.scale
    if encoding.clock is not None:  # seasons as the clock has them at that time
        ahead = clock_shifts(encoding.clock, len(fit.index) - 1 + np.array([steps]))
        units = units @ fit.dynamics.advanced(float(ahead[0]))
    return units @ mean + shift, units @ cov @ units.T


def normal_population(means: Array, covs: Array) -> tuple[Array, Array]:
    """Mean and covariance of a new member of a normal population of which each has a mean (n, m) and cov (n, m, m).

    By expectation and maximisation (Dempster, Laird and Rubin 1977); the error of the mean is in the covariance.
    """
    centre = np.median(means, axis=0)
    spread = np.diag(np.median(np.square(means - centre) + np.einsum("kii->ki", covs), axis=0))
    for _ in range(STEPS):
        precisions = np.linalg.inv(spread + covs)
        gains = spread @ precisions
        own = centre + np.einsum("kij,kj->ki", gains, means - centre)
        within = (spread - gains @ spread).mean(0)
        before, centre = spread, own.mean(0)
        spread = within + (own - centre).T @ (own - centre) / len(own)
        spread = 0.5 * (spread + spread.T)
        variance = np.diag(spread) + np.diag(np.linalg.inv(precisions.sum(0)))
        if np.all(np.abs(np.diag(spread - before)) <= SMALL * variance):
            break
    else:
        warn_user(
            f"the population of the last states of {len(means)} series had not settled after {STEPS} steps: forecasts "
            "of series that were not fitted may be off. Fit more series, or longer ones.",
            ConvergenceWarning,
        )
    return centre, spread + np.linalg.inv(np.linalg.inv(spread + covs).sum(0))


def _with_stationary(dynamics: Any, theta: Array, mean: Array, cov: Array) -> tuple[Array, Array]:
    """Moments of states, of which those that return to zero are as they are without data."""
    wide = dynamics.diffuse()
    first = dynamics.chain(theta, dynamics.template.X).cov
    return np.where(wide, mean, 0.0), np.where(np.outer(wide, wide), cov, first)
