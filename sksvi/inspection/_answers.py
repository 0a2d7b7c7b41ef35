"""Answers about levels of a column: mixtures of normals of linear combinations, or draws of means of y."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import ndtr, stdtr

from sksvi.estimators.offsets import checked_offset, with_exposure
from sksvi.estimators.summaries import mixture_table
from sksvi.inspection._changed_rows import ChangedRowMeans
from sksvi.inspection._simultaneous import joint_coverage, joint_coverage_of
from sksvi.predictive.plain import tail_of

Array = np.ndarray

#: Columns of simultaneous intervals, and the ends that they are of.
SIMULTANEOUS = {"simultaneous_lower": "lower", "simultaneous_upper": "upper"}
#: Weights of coefficients that are rounding, of the largest.
ROUNDING = 1e-8


def identity_link(inner: Any) -> bool:
    """Whether the mean of y is a linear function of coefficients."""
    return hasattr(inner, "_linear_effects") and bool(inner.likelihood_.traits.additive)


@dataclass(frozen=True)
class ResponseDraws:
    """Draws (S, C, R) of differences of the mean of y, and their classes; `own`: under a weak prior of their own."""

    draws: Array
    classes: list[Any]
    own: bool
    df: float | None = None

    def pointwise(self, c: int, rows: slice, coverage: float) -> Any:
        """Table of some rows of a class."""
        return table_of_draws(self.draws[:, c, rows], coverage)

    def positive(self, c: int) -> Array:
        """Probability that each is positive, (R,)."""
        return np.mean(self.draws[:, c] > 0.0, axis=0)

    def plus(self, constants: Array) -> ResponseDraws:
        """Combinations with constants (R,) added."""
        return replace(self, draws=self.draws + constants)

    def joint(self, c: int, rows: slice, coverage: float) -> float:
        """Coverage of each at which all hold together."""
        return joint_coverage_of(self.draws[:, c, rows], coverage)


@dataclass(frozen=True)
class LinearMixture:
    """Linear combinations of coefficients (`Combinations`), as `ResponseDraws` are asked."""

    found: Any

    @property
    def classes(self) -> list[Any]:
        """Labels, or [None]."""
        return list(self.found.classes)

    @property
    def own(self) -> bool:
        """Whether they are under a weak prior of their own."""
        return bool(self.found.own)

    @property
    def df(self) -> float | None:
        """Degrees of freedom of t quantiles."""
        return None if self.found.df is None else float(self.found.df)

    def pointwise(self, c: int, rows: slice, coverage: float) -> Any:
        """Table of some rows of a class."""
        means, stds = self.found.means[:, c, rows], self.found.stds[:, c, rows]
        return mixture_table(means, stds, self.found.weights, coverage, None, self.found.df)

    def positive(self, c: int) -> Array:
        """Probability that each is positive, (R,)."""
        ratio = self.found.means[:, c] / self.found.stds[:, c]
        return np.tensordot(self.found.weights, ndtr(ratio) if self.df is None else stdtr(self.df, ratio), 1)

    def plus(self, constants: Array) -> LinearMixture:
        """Combinations with constants (R,) added."""
        return LinearMixture(replace(self.found, means=self.found.means + constants))

    def joint(self, c: int, rows: slice, coverage: float) -> float:
        """Coverage of each at which all hold together."""
        covs = self.found.covs[:, c, rows, c, rows]
        return joint_coverage(self.found.means[:, c, rows], covs, self.found.weights, self.found.df, coverage)


@dataclass(frozen=True)
class ChangedLevels:
    """Rows with a column at each of its levels in turn, and contrasts (R, L) of these within groups of rows."""

    answers: ChangedRowMeans
    changed: list[Any]
    matrix: Array
    codes: Array
    n_groups: int
    weight: Array | None

    def linear(self, effects: str | None, reference: Any) -> LinearMixture:
        """Contrasts of the latent, groups in turn.

        Raises
        ------
        TypeError
            Of a model without coefficients.
        ValueError
            A column that changes nothing.
        """
        inner = self.answers.inner
        if not hasattr(inner, "_linear_effects"):
            raise TypeError(f"{type(inner).__name__} has no coefficients to combine: set scale='response'.")
        ask, group = inner._linear_effects, (self.codes, self.n_groups, self.weight)
        designs = [ask.averaged_design(self.answers.transformed(rows), *group) for rows in self.changed]
        rows = np.einsum("rl,lgd->grd", self.matrix, np.array(designs)).reshape(-1, designs[0].shape[1])
        rows[np.abs(rows) < ROUNDING * np.abs(rows).max(initial=0.0)] = 0.0
        if not rows.any():
            raise ValueError("the levels do not differ in what the model sees of them: there is nothing to compare.")
        return LinearMixture(ask.combinations(rows, effects, reference))

    def mean_offset(self) -> Array:
        """Average of the offset over the rows of each group, for every row of the matrix, groups in turn."""
        rows, inner = self.answers.transformed(self.changed[0]), self.answers.inner
        given = checked_offset(inner, with_exposure(inner, self.answers.offset, self.answers.exposure, rows), rows)
        if given is None:
            return np.zeros(self.n_groups * len(self.matrix))
        weight = np.ones(len(self.codes)) if self.weight is None else self.weight
        sums = (np.bincount(self.codes, part, self.n_groups) for part in (weight * given, weight))
        return np.repeat(np.divide(*sums), len(self.matrix))

    def draws(self, effects: str | None) -> ResponseDraws:
        """Contrasts of the mean of y, groups in turn."""
        first, *others = self.changed
        effect = self.answers.effect_of_all([(first, rows) for rows in others], effects)
        group = (self.codes, self.n_groups, self.weight, effect)
        means = np.array([self.answers.averages(rows, *group) for rows in self.changed])
        draws = np.einsum("rl,lgsc->scgr", self.matrix, means)
        return ResponseDraws(draws.reshape(*draws.shape[:2], -1), list(self.answers.names), effect is not None)


def intervals_table(found: Any, n_groups: int, coverage: float, index: Any) -> Any:
    """Table of pointwise and simultaneous intervals, of groups of rows in turn, class by class."""
    size, frames = len(index) // n_groups, []
    for c, label in enumerate(found.classes):
        parts = []
        for g in range(n_groups):
            rows = slice(g * size, (g + 1) * size)
            together = found.pointwise(c, rows, found.joint(c, rows, coverage))
            ends = {name: together[end] for name, end in SIMULTANEOUS.items()}
            parts.append(found.pointwise(c, rows, coverage).assign(**ends))
        frames.append(pd.concat(parts).set_axis(index if label is None else with_class(index, label), axis=0))
    return pd.concat(frames)


def with_class(index: Any, label: Any) -> Any:
    """An index with the class ahead."""
    frame = index.to_frame(index=False)
    frame.insert(0, "class", [label] * len(frame))
    return pd.MultiIndex.from_frame(frame)


def table_of_draws(draws: Array, coverage: float) -> Any:
    """Mean, spread, equal-tailed interval and direction of columns of draws (S, R)."""
    mean, tail = draws.mean(axis=0), tail_of(coverage)
    lower, upper = np.quantile(draws, [tail, 1.0 - tail], axis=0)
    share = np.mean(np.sign(draws) == np.sign(mean), axis=0)
    return pd.DataFrame({"mean": mean, "std": draws.std(axis=0), "lower": lower, "upper": upper, "direction": share})
