"""How much a posterior leans on its prior and on its likelihood: power-scaling by importance weights, no fit anew."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator

from sksvi._runtime import parallel
from sksvi._typing.arrays import DataFrame, MatrixLike, PerRow, RandomState
from sksvi.estimators.base import drawn_seed
from sksvi.estimators.checks import check_count
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
    """Sensitivity of each coefficient's posterior to its prior and to its likelihood, without a fit anew.

    Prior and likelihood are raised to powers about 1, by importance weights of draws from q; sensitivity is the
    cumulative Jensen-Shannon distance to the weighted draws per doubling of the power.

    Parameters
    ----------
    model : fitted estimator
        One that `check_posterior` takes and whose coefficients have a Gaussian prior; or a Pipeline or search around
        one.
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
        A row per coefficient: ``prior``, ``likelihood`` and ``diagnosis``: "-", "prior-data conflict" where both are
        at least 0.05, "strong prior / weak likelihood" where the prior's alone is.

    Raises
    ------
    TypeError
        For estimators without such draws, and Dask collections.
    ValueError
        For rows that are not those of the fit.

    See Also
    --------
    check_posterior : Whether q, which draws are from, is the posterior.

    Notes
    -----
    Hyperparameters stay where the fit has them, so that the prior is that of coefficients given these; of mixed
    effects the levels' prior stays too. Draws are weighted as those of q, which is taken for the posterior.

    Every level of a categorical column has a coefficient, and what they share with the intercept is divided by the
    prior alone: they lean on it where their differences do not. A column of 0 and 1 has the difference itself.

    Source: Kallioinen, Paananen, Bürkner and Vehtari 2024 (Statistics and Computing 34:57).

    Examples
    --------
    >>> import numpy as np
    >>> from sksvi import BayesianGLMRegressor
    >>> from sksvi.inspection import power_scale
    >>> X = np.random.default_rng(0).normal(size=(50, 1))
    >>> model = BayesianGLMRegressor(prior_precision=100.0).fit(X, 2.0 * X[:, 0] + np.sin(9.0 * X[:, 0]))
    >>> power_scale(model, X, 2.0 * X[:, 0] + np.sin(9.0 * X[:, 0]))["diagnosis"].iloc[0]
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
            raise TypeError(f"{fit.name} has no Gaussian prior of coefficients that could be scaled.")
        joint.check_bound(bound_at(joint.problem, joint.q))
        prepare(joint.q)
        shown: list[Array] = []
        logs: tuple[list[Array], list[Array]] = ([], [])
        for _, draws, excess in drawn(joint.problem, joint.q, n_draws, seed):
            away = draws[joint.block] - prior.mean
            away[..., joint.levels] = 0.0
            logs[0].append(-0.5 * np.sum((away * prior.dot(away)).reshape(len(away), -1), axis=1))
            logs[1].append(_log_likelihood(joint.problem, joint.q, draws, len(excess)))
            shown.append(joint.shown(draws[joint.block]))
    values = np.concatenate(shown)
    table = pd.DataFrame(
        {name: sensitivity(values, np.concatenate(log)) for name, log in zip(("prior", "likelihood"), logs)},
        index=joint.index,
    )
    prior_leans, likelihood_leans = (table[name] >= LEANS for name in ("prior", "likelihood"))
    names = ["prior-data conflict", "strong prior / weak likelihood"]
    return table.assign(diagnosis=np.select([prior_leans & likelihood_leans, prior_leans], names, "-"))


def sensitivity(draws: Array, log_density: Array) -> Array:
    """Mean distance per doubling of the power of a density (S,), on both sides of 1, of draws (S, C)."""
    steps = np.log(POWER) * np.array([-1.0, 1.0])
    found = []
    for step in steps:
        weight = smoothed((np.exp(step) - 1.0) * log_density)[0]
        weight = np.exp(weight - weight.max())
        found.append([cumulative_distance(column, weight / weight.sum()) for column in draws.T])
    return np.mean(found, axis=0) / np.log2(POWER)


def cumulative_distance(draws: Array, weight: Array) -> float:
    """Cumulative Jensen-Shannon distance of draws (S,) from the same under weights, the larger of both directions."""
    return max(_one_way(draws, weight), _one_way(-draws, weight))


def _one_way(draws: Array, weight: Array) -> float:
    order = np.argsort(draws)
    width = np.diff(draws[order])
    P, Q = np.arange(1, len(draws)) / len(draws), np.cumsum(weight[order])[:-1]
    mean, total = 0.5 * (P + Q), float(width @ (P + Q))
    # What the paper adds to either divergence for mass that differs cancels in their sum.
    both = float(width @ (_log_times(P, mean) + _log_times(Q, mean)))
    return float(np.sqrt(max(both, 0.0) / total)) if total > 0 else 0.0


def _log_times(P: Array, M: Array) -> Any:
    """P log2(P / M), 0 where P is."""
    ratio = np.divide(P, M, out=np.ones_like(P), where=P > 0)
    return P * np.log2(ratio)
