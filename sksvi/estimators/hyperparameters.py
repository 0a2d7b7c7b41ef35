"""Hyperparameters with a posterior: what estimators that integrate them share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import ndtri

from sksvi._typing.arrays import DataFrame
from sksvi.estimators.refit import UNCHECKED
from sksvi.estimators.summaries import COLUMNS
from sksvi.estimators.validation import StrOptions
from sksvi.predictive.plain import tail_of

#: Of the parameter `hyperparameters`.
CONSTRAINTS: dict[str, list[Any]] = {"hyperparameters": [StrOptions({"integrated", "point"})]}
CHANGES = {"hyperparameters": UNCHECKED}


def node_table(values: dict[str, Any], weights: Any, coverage: float, positive: bool = True, within: Any = None) -> Any:
    """Rows of a summary of hyperparameters with nodes: moments, and intervals of a normal of their logarithms.

    Parameters
    ----------
    values : dict
        Names to values (k,) at the nodes.
    weights : ndarray of shape (k,)
    coverage : float
        Of the equal-tailed interval.
    positive : bool, default=True
        Whether values are positive: else the normal is one of the values.
    within : array-like, one per value, optional
        Variance about every node, of logarithms where values are positive.

    Returns
    -------
    DataFrame
        Columns mean, std, lower, upper.
    """
    import pandas as pd

    half, rows = ndtri(1.0 - tail_of(coverage)), {}
    for at, (name, value) in enumerate(values.items()):
        beside = 0.0 if within is None else within[at]
        mean = weights @ value
        std = np.sqrt(max(weights @ np.square(value - mean), 0.0) + beside * (mean**2 if positive else 1.0))
        on = np.log(value) if positive else value
        centre = weights @ on
        ends = centre + half * np.sqrt(max(weights @ np.square(on - centre), 0.0) + beside) * np.array([-1.0, 1.0])
        rows[name] = [mean, std, *(np.exp(ends) if positive else ends)]
    return pd.DataFrame.from_dict(rows, orient="index", columns=COLUMNS)


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


def integrates(estimator: Any) -> bool:
    """Whether hyperparameters get nodes: of a target at one end of what it may be they would be the prior's."""
    return estimator.hyperparameters == "integrated" and not estimator._record.one_sided
