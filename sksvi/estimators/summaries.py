"""Parts of tables of `summary`: signs, parameters of the likelihood, ratios, contrasts of classes, hyperparameters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri, stdtr, stdtrit

from sksvi._names import own_name
from sksvi._typing.arrays import DataFrame
from sksvi.estimators.checks import interval_table
from sksvi.estimators.posterior import DrawnBlock
from sksvi.estimators.refit import UNCHECKED
from sksvi.estimators.validation import StrOptions
from sksvi.predictive.mixture import normal_quantiles
from sksvi.predictive.plain import tail_of

Array = np.ndarray

#: What every table has first, what further rows have of it, and what `exponentiate=True` adds.
COLUMNS = ["mean", "std", "lower", "upper"]
RATIOS = ["mean", "lower", "upper"]
#: Step of the finite differences that bring a spread from unconstrained to reported parameters.
STEP = 1e-5


def direction(mean: Array, std: Array) -> Array:
    """Probability that an effect has the sign of its mean, Φ(|mean| / std); NaN where there is no spread to ask.

    Examples
    --------
    >>> import numpy as np
    >>> from sksvi.estimators.summaries import direction
    >>> direction(np.array([0.0, -1.96, 2.0]), np.array([1.0, 1.0, 0.0])).round(3)
    array([0.5  , 0.975, 1.   ])
    """
    mean, std = np.asarray(mean, float), np.asarray(std, float)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(ndtr(np.abs(mean) / std))


def effect_table(mean: Array, std: Array, coverage: float, index: Any) -> Any:
    """`interval_table` of effects, which have a sign: with their `direction`."""
    return interval_table(mean, std, coverage, index).assign(direction=direction(np.ravel(mean), np.ravel(std)))


def mixture_table(
    means: Array, stds: Array, weights: Array, coverage: float, index: Any, df: float | None = None
) -> Any:
    """Table of effects over nodes of hyperparameters: moments, quantiles and direction of mixtures of normals.

    Parameters
    ----------
    means, stds : ndarray of shape (k, ...)
        Of each node.
    weights : ndarray of shape (k,)
    coverage : float
        Of the equal-tailed interval.
    index : Index
    df : float, optional
        Degrees of freedom of t quantiles, of a single node.
    """
    tail = tail_of(coverage)
    if len(weights) == 1:
        table = effect_table(means[0], stds[0], coverage, index)
        if df is not None:
            half = stdtrit(df, 1.0 - tail) * stds[0]
            sign = stdtr(df, np.abs(means[0]) / stds[0])
            own = {"lower": means[0] - half, "upper": means[0] + half, "direction": sign}
            table = table.assign(**{name: np.ravel(values) for name, values in own.items()})
        return table
    mean = np.tensordot(weights, means, 1)
    std = np.sqrt(np.tensordot(weights, np.square(stds) + np.square(means - mean), 1))
    table = effect_table(mean, std, coverage, index)
    ends = [normal_quantiles(means, stds, weights, level) for level in (tail, 1.0 - tail)]
    with np.errstate(divide="ignore", invalid="ignore"):
        positive = np.clip(np.tensordot(weights, ndtr(means / stds), 1), 0.0, 1.0)  # sums round
    sign = np.maximum(positive, 1.0 - positive)
    return table.assign(lower=np.ravel(ends[0]), upper=np.ravel(ends[1]), direction=np.ravel(sign))


# ---- parameters of the likelihood
def learned_rows(
    likelihood: Any, learned: Any, coverage: float, reported: Callable[[Any], dict[str, float]] | None = None
) -> Any:
    """The learned parameters of a likelihood with the spread that the curvature of its data leaves them.

    They are points of a fit. Their spread is that of a normal in unconstrained coordinates whose precision is the
    curvature of the expected log likelihood at the fitted q, all else as it is; NaN where the fit keeps no curvature,
    or one that does not tell the parameters apart. Intervals of positive parameters are those of their logarithm.

    Parameters
    ----------
    likelihood : Likelihood
        As fitted.
    learned : Point or None
        The block "likelihood" of q.
    coverage : float
        Of the equal-tailed interval.
    reported : callable, optional
        Of a likelihood the names and numbers of the rows; None: those that it reports itself.

    Returns
    -------
    DataFrame
        Columns mean, std, lower, upper; without rows where nothing was learned.
    """
    ask = reported or (lambda likelihood: likelihood.reported)

    def at(unconstrained: Array) -> dict[str, float]:
        return ask(likelihood.replace(unconstrained))

    information = getattr(learned, "information", None)
    return point_rows(ask(likelihood), at, likelihood.unconstrained, information, coverage, likelihood.traits.positive)


def point_rows(
    rows: dict[str, float],
    at: Callable[[Array], dict[str, float]],
    value: Array,
    information: Array | None,
    coverage: float,
    positive: bool = True,
) -> Any:
    """Named functions of a point that was learned, by the delta method with the curvature that it keeps.

    Parameters
    ----------
    rows : dict
        Names and numbers, at the point.
    at : callable
        The same at other unconstrained values, (P,).
    value, information : ndarray of shape (P,) and (P, P), or None
        The point and its curvature.
    coverage : float
        Of the equal-tailed interval.
    positive : bool, default=True
        Whether intervals are of logarithms.

    Returns
    -------
    DataFrame
        Columns mean, std, lower, upper.
    """
    import pandas as pd

    half, mean = ndtri(1.0 - tail_of(coverage)), np.array(list(rows.values()), float)
    std = np.full(len(mean), np.nan)
    curvature = np.linalg.eigvalsh(information) if len(mean) and information is not None else np.empty(0)
    identified = len(curvature) and curvature[0] > np.finfo(float).eps * curvature[-1]
    if information is not None and identified:
        slopes = np.empty((len(mean), len(value)))
        for p, step in enumerate(STEP * np.eye(len(value))):
            high, low = (np.array(list(at(value + side * step).values())) for side in (1.0, -1.0))
            slopes[:, p] = (high - low) / (2.0 * STEP)
        # In units of their own: slopes of a variance of 1e200 have no squares.
        unit = np.maximum(np.abs(slopes).max(1, keepdims=True), np.finfo(float).tiny)
        slopes /= unit
        std = unit[:, 0] * np.sqrt(np.einsum("rp,pr->r", slopes, np.linalg.solve(information, slopes.T)))
    with np.errstate(over="ignore"):  # of what is hardly known the upper end may be infinite
        ends = [mean * np.exp(side * half * std / mean) if positive else mean + side * half * std for side in (-1, 1)]
    return pd.DataFrame(dict(zip(COLUMNS, [mean, std, *ends], strict=True)), index=list(rows))


def columns_of_draws(draws: Array, tail: float) -> dict[str, Array]:
    """Columns of a table, (R,) each: mean, standard deviation and ends of equal-tailed intervals of draws (S, R)."""
    draws = draws.astype(float)
    lower, upper = DrawnBlock(draws).quantiles([tail, 1.0 - tail])
    return {"mean": draws.mean(0), "std": draws.std(0, ddof=1), "lower": lower, "upper": upper}


def concatenated(tables: Sequence[Any]) -> Any:
    """Tables one below the other, under the index of the first; a plain name is the last level of an index of several.

    What further tables have no column for is NaN, or False where it is a flag. Their rows get names that no row above
    them has.
    """
    import pandas as pd

    names = tables[0].index.names
    first, *others = [table for table in tables if len(table)] or tables[:1]
    if not others:
        return first.rename_axis(index=names)
    flags = [name for name in first if first[name].dtype == bool]
    others = [table.assign(**dict.fromkeys(flags, False)) for table in others]
    levels = first.index.nlevels
    names_above = first.index if levels == 1 else first.index[first.index.get_level_values(0) == ""]
    taken = set(names_above.get_level_values(-1))
    for at, table in enumerate(others):
        own = [own_name(name, taken) for name in table.index]
        others[at] = table.set_axis(pd.Index(own) if levels == 1 else _last_level(own, levels), axis=0)
        taken.update(own)
    missing = [table.reindex(columns=list(first)) for table in others]
    table = pd.concat([first, *missing]).astype({name: bool for name in flags})
    return table.rename_axis(index=names)


def _last_level(names: Any, levels: int) -> Any:
    """An index of so many levels, of which the names are the last and the others empty."""
    import pandas as pd

    return pd.MultiIndex.from_tuples([("",) * (levels - 1) + (name,) for name in names])


# ---- ratios
def exponentiated(table: Any, likelihood: Any, what: str) -> Any:
    """A table of effects with exp of their means and of the ends of their intervals.

    Raises
    ------
    ValueError
        Where exp of an effect is no ratio, naming the likelihood.
    """
    if likelihood.ratio is None:
        raise ValueError(
            f"exponentiate=True needs a logit or log link, of whose coefficients exp is an odds or rate ratio; {what} "
            f"was fitted with {likelihood!r}: leave exponentiate=False."
        )
    with np.errstate(over="ignore"):
        return table.assign(**{f"exp({name})": np.exp(table[name].to_numpy(float)) for name in RATIOS})


# ---- classes
def checked_reference(reference: Any, classes: Any, several: bool, what: str) -> int:
    """Position of the reference class; `several`: each class has coefficients of its own.

    Raises
    ------
    ValueError
        Naming `reference`: coefficients are not by class, or it is none of the classes.
    """
    if not several:
        found = "has no classes" if classes is None else f"has the two classes {classes.tolist()}"
        raise ValueError(
            f"reference={reference!r} is for more than two classes, where each has coefficients of its own; {what} "
            f"{found}: leave it out."
        )
    names = classes.tolist()
    if reference not in names:
        raise ValueError(f"reference={reference!r} is none of the classes, which are {names}.")
    return int(names.index(reference))


# ---- hyperparameters with a posterior
#: Of the parameter `hyperparameters`.
CONSTRAINTS: dict[str, list[Any]] = {"hyperparameters": [StrOptions({"integrated", "point"})]}
CHANGES = {"hyperparameters": UNCHECKED}


def node_table(values: dict[str, Any], weights: Any, coverage: float, positive: bool = True, within: Any = None) -> Any:
    """Rows of a summary of hyperparameters with nodes: moments, and intervals of their logarithms by `node_ends`.

    Parameters
    ----------
    values : dict
        Names to values (k,) at the nodes.
    weights : ndarray of shape (k,)
    coverage : float
        Of the equal-tailed interval.
    positive : bool, default=True
        Whether values are positive: else intervals are of the values.
    within : array-like, one per value, optional
        Variance about every node, of logarithms where values are positive.

    Returns
    -------
    DataFrame
        Columns mean, std, lower, upper.
    """
    import pandas as pd

    tail, rows = tail_of(coverage), {}
    for at, (name, value) in enumerate(values.items()):
        beside = 0.0 if within is None else within[at]
        mean = weights @ value
        std = np.sqrt(max(weights @ np.square(value - mean), 0.0) + beside * (mean**2 if positive else 1.0))
        ends = node_ends(np.log(value) if positive else value, weights, tail, beside)
        rows[name] = [mean, std, *(np.exp(ends) if positive else ends)]
    return pd.DataFrame.from_dict(rows, orient="index", columns=COLUMNS)


#: Values of nodes that differ by this share of their range have the same.
ALIKE = 1e-9


def node_ends(values: Array, weights: Array, tail: float, within: float = 0.0) -> Array:
    """Ends of the equal-tailed interval of a normal about the median of nodes that has a width of its own to each side.

    Parameters
    ----------
    values, weights : ndarray of shape (k,)
    tail : float
        Probability beyond either end.
    within : float, default=0.0
        Variance about every node.

    Returns
    -------
    ndarray of shape (2,)
    """
    order = np.argsort(values, kind="stable")
    below = np.cumsum(weights[order])
    centre = values[order[np.searchsorted(below, [0.5 - ALIKE, 0.5 + ALIKE])]].mean()
    off, ends = values - centre, np.empty(2)
    off[np.abs(off) <= ALIKE * np.ptp(values)] = 0.0
    for at, side in enumerate((-1.0, 1.0)):
        beyond = weights * (side * off > 0.0)
        share = beyond.sum() + 0.5 * weights[off == 0.0].sum()
        ends[at] = centre + side * np.sqrt(beyond @ np.square(off) / share + within) * ndtri(1.0 - 0.5 * tail / share)
    return ends


def posterior_of_nodes(nodes_of: Callable[[Any], Any], columns_of: Callable[[Any, Any], dict[str, Any]]) -> property:
    """Property `hyperparameter_posterior_` of an estimator.

    Parameters
    ----------
    nodes_of : function
        Nodes of an estimator, or None.
    columns_of : function
        Names to values (k,) in the user's units, of an estimator and values (k, H) of its nodes.
    """

    def table(self: Any) -> DataFrame:
        import pandas as pd

        nodes = nodes_of(self)
        if nodes is None:
            raise AttributeError(
                "hyperparameter_posterior_ is there after a fit with hyperparameters='integrated' that learned any."
            )
        columns = columns_of(self, nodes.values)
        return pd.DataFrame({"weight": nodes.weights, **columns}).rename_axis(index="node")

    return property(
        table,
        doc="""Nodes of the hyperparameters' posterior: a row a node, `weight` and a column per hyperparameter.

        Raises
        ------
        AttributeError
            Before a fit, and of one whose hyperparameters are a point.
        """,
    )
