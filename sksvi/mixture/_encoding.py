"""What the rows of a mixture fix: how many values each column has, and which."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from sksvi.estimators.checks import check_row_values
from sksvi.estimators.encoding import GivenRows, Part, RowEncoding
from sksvi.models.base import Table
from sksvi.models.mixture.cells import MixtureRows

Array = np.ndarray


@dataclass(frozen=True)
class MixtureEncoding(RowEncoding):
    """Columns of a mixture.

    Parameters
    ----------
    sizes : tuple of int
        Values of each column.
    """

    LAYOUT = "sizes tuple; sizes[*] count"

    sizes: tuple[int, ...]

    @classmethod
    @abstractmethod
    def cells(cls, estimator: Any, X: Any, fixed: Self | None) -> MixtureRows:
        """Validated rows as the model reads them; `fixed`: None, these rows fix what the columns hold."""

    @classmethod
    def read(cls, estimator: Any, given: GivenRows, fixed: Self | None, part: Part) -> Table:
        """Rows with their weights."""
        return cls.weighted(estimator, cls.cells(estimator, given.X, fixed), given.sample_weight)

    @abstractmethod
    def shapes(self, n_components: int) -> dict[str, tuple[int, ...]]:
        """Shapes of the blocks of a fit, by their names."""

    @staticmethod
    def weighted(estimator: Any, cells: MixtureRows, sample_weight: Any) -> Table:
        """A table of cells with the weights of their rows.

        Raises
        ------
        ValueError
            Weights with an algorithm that draws a label per row.
        """
        weight = check_row_values(sample_weight, len(cells), "sample_weight", weights=True)
        if weight is not None and estimator._algorithm().spec.sampler and np.any(weight != 1.0):
            raise ValueError("sample_weight with algorithm='gibbs', which draws a label per row: choose 'svi'.")
        return Table(cells, np.broadcast_to(0.0, (len(cells),)), weight)


def column_name(estimator: Any, column: int) -> Any:
    """Name of a column, or its position."""
    names = getattr(estimator, "feature_names_in_", None)
    return column if names is None else names[column]
