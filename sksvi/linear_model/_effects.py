"""Rows of a table of coefficients: effects of columns and contrasts of levels and classes, node by node."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sksvi.models.linear.scales import own_effects, own_sets

Array = np.ndarray


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
        parts.append(_intercept(question, view, mean, precision))
    means, variances = zip(*parts, strict=True)
    return np.concatenate(means, axis=1), np.concatenate(variances, axis=1)


def _plain(question: Question, view: Any, mean: Array, precision: Array) -> tuple[Array, Array]:
    at, C = question.plain, question.classes
    if len(mean) == 1:
        m, v = mean[:, at], np.atleast_2d(view.variance)[:, at]
        return (m, v) if question.own is None else own_effects(m, v, precision[at], question.own[at])
    m, S = mean[:, at].T, view.across()[at]
    if question.own is not None:
        wide = np.ones(len(mean))
        m, S = own_sets(m, S, precision[at, None] * wide, question.own[at, None] * wide)
    return C @ m.T, np.einsum("ck,dkl,cl->cd", C, S, C)


def _mapped(
    question: Question, view: Any, mean: Array, precision: Array, at: Array, rows: Array
) -> tuple[Array, Array]:
    """Mean and variance of linear combinations `rows` (R, J) of the weights `at`, the last perhaps the intercept."""
    k, (width, j) = len(mean), (mean.shape[1], len(at))
    units = np.zeros((j, width))
    units[np.arange(j), at] = 1.0
    m, S = mean[:, at].ravel(), view.crossed(units).reshape(k * j, k * j)
    if question.own is not None:
        prior, own = (np.append(part, 0.0)[np.minimum(at, len(part))] for part in (precision, question.own))
        m, S = own_sets(m, S, np.tile(prior, k), np.tile(own, k))
    S = S.reshape(k, j, k, j)
    C = question.classes
    variance = np.einsum("ck,rj,kjli,cl,ri->cr", C, rows, S, C, rows, optimize=True)
    return C @ m.reshape(k, j) @ rows.T, variance


def _intercept(question: Question, view: Any, mean: Array, precision: Array) -> tuple[Array, Array]:
    at = np.concatenate([*[factor.at for factor in question.factors], [len(precision)]]).astype(int)
    row = np.concatenate([*[factor.base for factor in question.factors], [1.0]])
    return _mapped(question, view, mean, precision, at, row[None])
