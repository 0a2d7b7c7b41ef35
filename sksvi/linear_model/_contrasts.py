"""Contrasts of the levels of categorical columns, as rows over the coefficients that these have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sksvi.linear_model._categories import CategoricalColumns
from sksvi.linear_model._effects import CategoricalEffect

Array = np.ndarray


@dataclass(frozen=True)
class LevelContrasts:
    """Which coefficients have rows of their own, which are compared, and the order in which a table has the rows.

    Parameters
    ----------
    plain : ndarray of int
        Coefficients with a row of their own.
    factors : list of CategoricalEffect
    named : list of int
        Of every row in the order of the columns the coefficient that it is called by.
    order : ndarray of int
        Where that row is among plain ones and those of factors in turn.
    """

    plain: Array
    factors: list[CategoricalEffect]
    named: list[int]
    order: Array

    @classmethod
    def plain_columns(cls, d: int) -> LevelContrasts:
        """The contrasts of d coefficients that are shown as they are, compared with nothing."""
        return cls(np.arange(d), [], list(range(d)), np.arange(d))

    @classmethod
    def of(
        cls,
        categories: CategoricalColumns,
        names: Sequence[Any],
        contrasts: str,
        reference_levels: Mapping[Any, Any] | None,
        shares: Array | None,
    ) -> LevelContrasts:
        """The contrasts of the coefficients of a table with categorical columns.

        Parameters
        ----------
        categories : CategoricalColumns
        names : sequence
            Of the columns of the table.
        contrasts : {"reference", "mean", "none"}
        reference_levels : mapping or None
            Column to level.
        shares : ndarray of shape (D,) or None
            Share of the rows that each level has.

        Raises
        ------
        ValueError
            A column or level that is not there, or that the fit itself has taken for the reference.
        """
        given = dict(reference_levels or {})
        _check_columns(given, categories, names)
        plain = np.flatnonzero(categories.numeric).tolist()
        factors, where = [], {j: (j, row) for row, j in enumerate(plain)}
        if categories.reference or contrasts == "none":  # coefficients are what is shown
            d = categories.width
            if given:
                raise ValueError(
                    "reference_levels is for contrasts of levels that all have a coefficient: leave it out under a "
                    "flat prior, whose first levels are the references, and with contrasts='none'."
                )
            return cls.plain_columns(d)
        row = len(plain)
        for column, levels in zip(categories.columns, categories.labels, strict=True):
            at = categories.at(column) + np.arange(len(levels))
            if contrasts == "mean":
                share = np.full(len(at), 1.0) if shares is None else shares[at]
                base = share / share.sum()
                rows, shown = np.eye(len(at)) - base, np.arange(len(at))
            else:
                first = _position(given.get(names[column], levels[0]), levels, names[column])
                base = np.eye(len(at))[first]
                shown = np.delete(np.arange(len(at)), first)
                rows = np.eye(len(at))[shown] - base
            factors.append(CategoricalEffect(at, rows, base))
            where |= {int(at[j]): (int(at[j]), row + i) for i, j in enumerate(shown)}
            row += len(shown)
        found = [where[j] for j in sorted(where)]
        return cls(np.array(plain, int), factors, [j for j, _ in found], np.array([r for _, r in found], int))


def _check_columns(given: Mapping[Any, Any], categories: CategoricalColumns, names: Sequence[Any]) -> None:
    factors = [names[j] for j in categories.columns]
    for name in given:
        if name not in factors:
            raise ValueError(f"reference_levels names {name!r}, which is no categorical column: these are {factors}.")


def _position(level: Any, levels: list[Any], column: Any) -> int:
    if level not in levels:
        raise ValueError(f"reference_levels has {level!r} for column {column!r}, whose levels are {levels}.")
    return levels.index(level)
