"""Rows of a table of coefficients, node by node: effects of columns, contrasts of levels and of classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from sksvi.estimators.categories import CategoricalColumns
from sksvi.models.linear.scales import own_effects, own_sets

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

    def followed_by(self, start: int, n: int) -> LevelContrasts:
        """With a row for each of n further coefficients as they are, from `start` on."""
        further, rows = np.arange(start, start + n), len(self.plain)
        order = np.where(self.order < rows, self.order, self.order + n)
        order = np.concatenate([order, np.arange(rows, rows + n)])
        return LevelContrasts(np.concatenate([self.plain, further]), self.factors, [*self.named, *further], order)

    def matrix(self, d: int, intercept: bool) -> Any:
        """Rows (R, d + 1) of a table from d coefficients and the intercept, which ends them where there is one."""
        units = sp.eye_array(d + intercept, format="csr")
        parts = [units[self.plain], *(sp.csr_array(factor.map) @ units[factor.at] for factor in self.factors)]
        rows = sp.vstack(parts, format="csr")[self.order]
        if not intercept:
            return rows
        base = np.append(np.zeros(d), 1.0)[None]
        for factor in self.factors:
            base[0, factor.at] = factor.base
        return sp.vstack([rows, sp.csr_array(base)], format="csr")


def _check_columns(given: Mapping[Any, Any], categories: CategoricalColumns, names: Sequence[Any]) -> None:
    factors = [names[j] for j in categories.columns]
    for name in given:
        if name not in factors:
            raise ValueError(f"reference_levels names {name!r}, which is no categorical column: these are {factors}.")


def _position(level: Any, levels: list[Any], column: Any) -> int:
    if level not in levels:
        raise ValueError(f"reference_levels has {level!r} for column {column!r}, whose levels are {levels}.")
    return levels.index(level)


# ---- what rows say
@dataclass(frozen=True)
class CategoricalEffect:
    """A categorical column: where its coefficients are, and what is shown of them.

    Parameters
    ----------
    at : ndarray of int, shape (L,)
    map : ndarray of shape (R, L)
        Contrasts of its coefficients, a row each.
    base : ndarray of shape (L,)
        What the intercept holds of them.
    """

    at: Array
    map: Array
    base: Array


@dataclass(frozen=True)
class Question:
    """Which rows are asked for.

    Parameters
    ----------
    plain : ndarray of int
        Coefficients that have a row of their own.
    factors : list of CategoricalEffect
    classes : ndarray of shape (C, K)
        Contrasts of the classes, a row each; of one latent [[1]].
    intercept : bool
        Whether there is one, behind the D coefficients.
    own : ndarray of shape (D,) or None
        Precision of the weak prior of each effect; None: under the prior that was learned for all.
    """

    plain: Array
    factors: list[CategoricalEffect]
    classes: Array
    intercept: bool
    own: Array | None

    @property
    def n_rows(self) -> int:
        """Rows of each class."""
        return len(self.plain) + sum(len(factor.map) for factor in self.factors) + int(self.intercept)


def answers(question: Question, view: Any, precision: Array) -> tuple[Array, Array]:
    """Mean and variance (C, R) of the rows: plain ones, those of factors in turn, the intercept.

    Parameters
    ----------
    question : Question
    view : Gaussian view
        Of the weights in the user's units.
    precision : ndarray of shape (D,)
        Of the prior under which they were fitted.
    """
    mean = np.atleast_2d(view.mean)
    parts = [_plain(question, view, mean, precision)]
    parts += [_mapped(question, view, mean, precision, f.at, f.map) for f in question.factors]
    if question.intercept:
        at = np.concatenate([*[factor.at for factor in question.factors], [len(precision)]]).astype(int)
        row = np.concatenate([*[factor.base for factor in question.factors], [1.0]])
        parts.append(_mapped(question, view, mean, precision, at, row[None]))
    means, variances = zip(*parts, strict=True)
    return np.concatenate(means, axis=1), np.concatenate(variances, axis=1)


def _plain(question: Question, view: Any, mean: Array, precision: Array) -> tuple[Array, Array]:
    at, C = question.plain, question.classes
    alone = view.alone() if question.own is not None and view.correlated_prior else None
    if len(mean) == 1:
        m, v = mean[:, at], np.atleast_2d(view.variance)[:, at]
        m, v = (m, v) if alone is None else (alone[0][at].T, alone[1][at, 0].T)
        return (m, v) if question.own is None else own_effects(m, v, precision[at], question.own[at])
    if view.independent:
        m, v = mean[:, at], view.variance[:, at]
        m, v = (m, v) if question.own is None else own_effects(m, v, precision[at], question.own[at])
        return C @ m, np.square(C) @ v
    m, S = (mean[:, at].T, view.across()[at]) if alone is None else (part[at] for part in alone)
    if question.own is not None:
        wide = np.ones(len(mean))
        m, S = own_sets(m, S, precision[at, None] * wide, question.own[at, None] * wide)
    return C @ m.T, np.einsum("ck,dkl,cl->cd", C, S, C)


def _mapped(
    question: Question, view: Any, mean: Array, precision: Array, at: Array, rows: Array
) -> tuple[Array, Array]:
    """Mean and variance of linear combinations `rows` (R, J) of the weights `at`, the last perhaps the intercept."""
    (m, S), C = weights_at(view, mean, precision, question.own, at), question.classes
    return C @ m @ rows.T, np.einsum("ck,rj,kjli,cl,ri->cr", C, rows, S, C, rows, optimize=True)


def weights_at(view: Any, mean: Array, prior: Array, own: Array | None, at: Array) -> tuple[Array, Array]:
    """Mean (K, J) and covariance (K, J, K, J) of the weights `at`, the last perhaps the intercept, under own scales."""
    k, j = len(mean), len(at)
    units = np.zeros((j, mean.shape[1]))
    units[np.arange(j), at] = 1.0
    m, S = mean[:, at].ravel(), view.crossed(units).reshape(k * j, k * j)
    if own is not None:  # the intercept has none
        before, after = (np.append(part, 0.0)[np.minimum(at, len(part))] for part in (prior, own))
        m, S = own_sets(m, S, np.tile(before, k), np.tile(after, k))
    return m.reshape(k, j), S.reshape(k, j, k, j)
