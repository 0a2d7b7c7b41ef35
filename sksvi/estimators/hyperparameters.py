"""Hyperparameters with a posterior: what estimators that integrate them share."""

from __future__ import annotations

from typing import Any

from sksvi._typing import DataFrame
from sksvi.estimators.changes import FREE
from sksvi.estimators.validation import StrOptions
from sksvi.integrals.nodes import Nodes

#: Of the parameter `hyperparameters`.
CONSTRAINTS: dict[str, list[Any]] = {"hyperparameters": [StrOptions({"integrated", "point"})]}
CHANGES = {"hyperparameters": FREE}


class IntegratedHyperparameters:
    """An estimator whose `hyperparameters` are "integrated" over nodes, or a "point".

    A fit sets `_nodes`: None where hyperparameters are a point, or all fixed. An estimator says in
    `_hyperparameter_columns` what the values of its nodes are in the user's units.
    """

    hyperparameters: str
    _nodes: Nodes | None = None

    def _hyperparameter_columns(self, values: Any) -> dict[str, Any]:
        """Names to values (k,) in the user's units, of values (k, H) of nodes."""
        raise AttributeError(f"{type(self).__name__} does not name its hyperparameters")

    @property
    def hyperparameter_posterior_(self) -> DataFrame:
        """Nodes of the hyperparameters' posterior: a row a node, `weight` and a column per hyperparameter.

        Raises
        ------
        AttributeError
            Before a fit, and of one whose hyperparameters are a point.
        """
        import pandas as pd

        if self._nodes is None:
            raise AttributeError(
                "hyperparameter_posterior_ is there after a fit with hyperparameters='integrated' that learned any."
            )
        columns = self._hyperparameter_columns(self._nodes.values)
        return pd.DataFrame({"weight": self._nodes.weights, **columns}).rename_axis(index="node")
