"""How much a posterior leans on its prior and on its likelihood: power-scaling by importance weights, no fit anew."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator

from sksvi._runtime import parallel
from sksvi._typing.arrays import DataFrame, MatrixLike, PerRow, RandomState
from sksvi.estimators.base import drawn_seed
from sksvi.estimators.checks import check_count
from sksvi.estimators.posterior import HyperparameterPoints, PosteriorTarget, TargetNode
from sksvi.estimators.summaries import concatenated
from sksvi.inference.engine import prepare
from sksvi.inspection._fitted_rows import FittedRows
from sksvi.inspection._posterior import SUPPORTED, _log_likelihood, bound_at, drawn
from sksvi.integrals.pareto import LEAST_DRAWS, smoothed

Array = np.ndarray

#: Power that prior and likelihood are raised to, as its inverse is, and sensitivity from which on a posterior leans.
POWER, LEANS = 1.01, 0.05


def power_scale(
    model: BaseEstimator,
    X: MatrixLike | None = None,
    y: PerRow | None = None,
    *,
    sample_weight: PerRow | None = None,
    offset: PerRow | None = None,
    exposure: PerRow | None = None,
    n_draws: int = 4000,
    random_state: RandomState = 0,
) -> DataFrame:
    """Sensitivity of each coefficient and hyperparameter to the prior and to the likelihood, without a fit anew.

    Prior and likelihood are raised to powers about 1, by importance weights of draws from q; sensitivity is the
    cumulative Jensen-Shannon distance to the weighted draws per doubling of the power.

    Parameters
    ----------
    model : fitted estimator
        A linear model, one with mixed effects, or a sparse Gaussian process; or a Pipeline or search around one.
    X : {DataFrame, array-like, sparse matrix} of shape (n, D), default=None
        The rows of the fit, in their order.
    y : array-like of shape (n,), binomial (n, 2), default=None
        Their targets.
    sample_weight, offset, exposure : array-like of shape (n,), default=None
        As the fit had them.
    n_draws : int, default=4000
        Draws from q, at least 25.
    random_state : int, RandomState or None, default=0
        Of the draws.

    Returns
    -------
    DataFrame
        A row per coefficient as in ``summary``, levels of a categorical column less the first of them, classes less
        their mean; then per hyperparameter, under the names of ``hyperparameter_posterior_``. Columns ``prior``,
        ``likelihood`` and ``diagnosis``: "-", "prior-data conflict" where both are at least 0.05, "strong prior / weak
        likelihood" where the prior's alone is.

    Raises
    ------
    TypeError
        For estimators without such draws or without a prior of coefficients, and Dask collections.
    ValueError
        For rows that are not those of the fit.

    See Also
    --------
    check_posterior : Whether q, which draws are from, is the posterior.

    Notes
    -----
    Scaled is what is given and not learned: the prior of the intercept, that of coefficients of a given precision, and
    the priors of hyperparameters, as densities of standard deviations (of degrees of freedom; of the variance of noise
    per row). A prior whose scale has a posterior, N(0, s²) of coefficients or of levels of groups, is a part of the
    model and is left as it is, as in the hierarchical case of the authors (``case-studies/bacteria`` of
    github.com/n-kall/powerscaling-sensitivity). A few coefficients say little of their scale: it leans on its prior,
    and matters where they do.

    Hyperparameters that are a point (``hyperparameters="point"``, ``prior_precision="ard"``, ``covariance="low-rank"``)
    stay, and the prior of coefficients given these is scaled; of a sparse Gaussian process that of f at its inducing
    points given the kernel. They have no row then. Nor do those of mixed effects with groups unless noise is Gaussian:
    standard deviations of groups were settled by fits at few nodes, which do not tell how they move.

    Draws are weighted as those of q, which is taken for the posterior; what has a row as a hyperparameter is weighted
    at 1,000 points of its density, exact for Gaussian noise and of first order about q else. With 4,000 draws rows are
    right to about 0.02.

    Source: Kallioinen, Paananen, Bürkner and Vehtari 2024, "Detecting and diagnosing prior and likelihood sensitivity
    with power-scaling" (Statistics and Computing 34:57).

    Examples
    --------
    >>> import numpy as np
    >>> from sksvi import BayesianGLMRegressor
    >>> from sksvi.inspection import power_scale
    >>> X = np.random.default_rng(0).normal(size=(50, 1))
    >>> y = 0.5 * X[:, 0] + 0.5 * np.sin(9.0 * X[:, 0])
    >>> model = BayesianGLMRegressor(prior_precision=100.0).fit(X, y)
    >>> power_scale(model, X, y)["diagnosis"].iloc[0]
    'prior-data conflict'
    """
    n_draws = check_count(n_draws, "n_draws", LEAST_DRAWS, bytes_each=32.0)
    fit = FittedRows(model, X, y, sample_weight, offset, exposure)
    fit.require("_joint", "cannot weigh draws of its posterior", SUPPORTED)
    seed = drawn_seed(random_state)
    with parallel.working():
        joint = fit.call("_joint")
        prior = joint.problem.model.prior(joint.q)[joint.block]
        if not (hasattr(prior, "dot") and hasattr(prior, "mean")):
            raise TypeError(
                f"{fit.name} has a prior of f, whose kernel or components say how strong it is, and none of "
                "coefficients that could be scaled: fit anew under other ones, and compare the fits by their scores."
            )
        joint.check_bound(bound_at(joint.problem, joint.q))
        values, logs = weighed(joint, n_draws, seed)
        points = joint.hyperparameters()
    table = pd.DataFrame({name: sensitivity(values, log) for name, log in logs.items()})
    names = [*joint.scalars.values(), *(() if points is None else points.values)]
    if points is not None:
        table = pd.concat([table, pd.DataFrame(of_hyperparameters(points, 0.5 / n_draws))])
    size = len(joint.index)
    table = concatenated([table[:size].set_axis(joint.index), table[size:].set_axis(names)])
    prior_leans, likelihood_leans = (table[name] >= LEANS for name in ("prior", "likelihood"))
    names = ["prior-data conflict", "strong prior / weak likelihood"]
    return table.assign(diagnosis=np.select([prior_leans & likelihood_leans, prior_leans], names, "-"))


def weighed(joint: PosteriorTarget, n_draws: int, seed: int) -> tuple[Array, dict[str, Array]]:
    """Draws of all nodes, (S, C), of rows and scalars; and log densities (S,) that a power scales, nats."""
    nodes = joint.nodes or [TargetNode(1.0, joint.q, joint.shown, 0.0)]
    ends = np.round(n_draws * np.cumsum([0.0, *(node.weight for node in nodes)])).astype(int)
    values: list[Array] = []
    logs: dict[str, list[Array]] = {"prior": [], "likelihood": []}
    for number, (node, count) in enumerate(zip(nodes, np.diff(ends), strict=True)):
        prepare(node.q)
        prior = joint.problem.model.prior(node.q)
        for _, draws, excess in drawn(joint.problem, node.q, int(count), seed + number):
            values.append(np.hstack([node.shown(draws[joint.block]), *(draws[name] for name in joint.scalars)]))
            logs["prior"].append(node.log_prior + _log_prior(joint, prior, draws))
            logs["likelihood"].append(_log_likelihood(joint.problem, node.q, draws, len(excess)))
    return np.concatenate(values), {name: np.concatenate(parts) for name, parts in logs.items()}


def _log_prior(joint: PosteriorTarget, prior: dict[str, Any], draws: dict[str, Array]) -> Array:
    """Log prior density of draws, (S,), without what is hierarchical, up to a constant."""
    away = draws[joint.block] - prior[joint.block].mean
    if joint.hierarchical is not None:
        away[:, joint.hierarchical] = 0.0
    total = -0.5 * np.sum((away * prior[joint.block].dot(away)).reshape(len(away), -1), axis=1)
    for name in joint.scalars:
        total = total + prior[name].log_density(draws[name])
    return np.asarray(total)


def sensitivity(draws: Array, log_density: Array) -> Array:
    """Mean distance per doubling of the power of a density (S,), on both sides of 1, of draws (S, C)."""
    base = np.full(len(draws), 1.0 / len(draws))
    return _per_doubling(draws, base, lambda power: smoothed((power - 1.0) * log_density)[0])


def of_hyperparameters(points: HyperparameterPoints, tail: float) -> dict[str, Array]:
    """Sensitivities of hyperparameters, whose scaled density at their points is known.

    `tail`: probability beyond which nothing is looked at, as draws do not reach there; a distance is relative to the
    range of its values.
    """
    values = np.column_stack([_within(own, points.weights, tail) for own in points.values.values()])
    return {
        "prior": _per_doubling(values, points.weights, lambda power: points.log_ratio(power, 1.0)),
        "likelihood": _per_doubling(values, points.weights, lambda power: points.log_ratio(1.0, power)),
    }


def _within(values: Array, weight: Array, tail: float) -> Array:
    """Values with those in either tail moved to where it begins."""
    order = np.argsort(values)
    below = np.cumsum(weight[order])
    first, last = np.searchsorted(below, [tail, 1.0 - tail])
    return np.clip(values, values[order[first]], values[order[min(last, len(order) - 1)]])


def _per_doubling(values: Array, base: Array, log_ratio: Callable[[float], Array]) -> Array:
    """Mean distance of values (S, C) of weights (S,) from the same under scaled weights, per doubling of the power."""
    found = []
    for power in (1.0 / POWER, POWER):
        logs = log_ratio(power)
        weight = base * np.exp(logs - logs.max())
        found.append([cumulative_distance(column, weight / weight.sum(), base) for column in values.T])
    return np.mean(found, axis=0) / np.log2(POWER)


def cumulative_distance(values: Array, weight: Array, base: Array) -> float:
    """Cumulative Jensen-Shannon distance of values (S,) under two sets of weights, the larger of both directions."""
    return max(_one_way(values, weight, base), _one_way(-values, weight, base))


def _one_way(values: Array, weight: Array, base: Array) -> float:
    order = np.argsort(values)
    width = np.diff(values[order])
    P, Q = np.cumsum(base[order])[:-1], np.cumsum(weight[order])[:-1]
    mean, total = 0.5 * (P + Q), float(width @ (P + Q))
    # What the paper adds to either divergence for mass that differs cancels in their sum.
    both = float(width @ (_log_times(P, mean) + _log_times(Q, mean)))
    return float(np.sqrt(max(both, 0.0) / total)) if total > 0 else 0.0


def _log_times(P: Array, M: Array) -> Any:
    """P log2(P / M), 0 where P is."""
    return P * np.log2(np.divide(P, M, out=np.ones_like(P), where=P > 0))
