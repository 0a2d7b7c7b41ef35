"""Linear combinations of the coefficients of a fitted linear model, all together, at every node."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from sksvi._names import grouping_columns, own_name
from sksvi.linear_model._contrasts import weights_at
from sksvi.linear_model._prior import own_precision
from sksvi.linear_model._summaries import class_contrasts, degrees_of_freedom, shown_reference, views_and_priors

Array = np.ndarray


@dataclass(frozen=True)
class Combinations:
    """Linear combinations of the coefficients: a mixture of normals over the nodes of the hyperparameters.

    Parameters
    ----------
    means : ndarray of shape (k, C, R)
        Of each node, class and combination.
    covs : ndarray of shape (k, C, R, C, R)
    weights : ndarray of shape (k,)
        Of the nodes; their sum is 1.
    df : float or None
        Degrees of freedom of t quantiles, of a single node; None: quantiles are normal.
    classes : list
        Labels of the C classes, or [None] where there is one latent.
    own : bool
        Whether they are under a weak prior of their own.
    """

    means: Array
    covs: Array
    weights: Array
    df: float | None
    classes: list[Any]
    own: bool

    @property
    def stds(self) -> Array:
        """Standard deviations, (k, C, R)."""
        return np.sqrt(np.maximum(np.einsum("kcrcr->kcr", self.covs), 0.0))


@dataclass(frozen=True)
class LinearEffects:
    """What the coefficients of a fitted linear model say of columns and levels, asked by linear combinations.

    Parameters
    ----------
    estimator : fitted linear model
    """

    estimator: Any

    def combinations(self, rows: Array, effects: str | None = None, reference: Any = None) -> Combinations:
        """Moments of linear combinations of the coefficients, and of the intercept, in the user's units.

        Parameters
        ----------
        rows : ndarray of shape (R, D + 1)
            Weights of the coefficients and, last, of the intercept where there is one.
        effects : {"own", "joint"} or None
            "own": the coefficients that rows touch, with the other levels of their columns, are a set under weak
            priors of its own. None: as `summary` has it.
        reference : label or None
            For more than two classes: the one that others are compared with.

        Raises
        ------
        ValueError
            An unknown `reference`; "own" of a prior that was given, or that has correlations, or without those of q.
        """
        estimator = self.estimator
        view = estimator.posterior_["weights"]
        own, several = own_precision(estimator, effects), view.mean.ndim == 2
        parts = views_and_priors(estimator, view)
        if own is not None and parts[0][0].correlated_prior:
            if effects == "own":
                raise ValueError(
                    "effects='own' of several columns needs a prior under which they are independent, and this fit of "
                    "fewer rows than columns has one along the directions of the rows: set effects='joint'."
                )
            own = None
        reference = shown_reference(estimator, reference)
        classes, labels = class_contrasts(estimator, reference, several, own is not None)
        at, categories = np.flatnonzero(np.any(rows != 0.0, axis=0)), estimator._encoding.categorical
        at = at if categories is None else categories.with_other_levels(at)
        found = [_moments(part, precision, own, at, rows[:, at], classes) for part, precision in parts]
        return Combinations(
            means=np.array([m for m, _ in found]),
            covs=np.array([v for _, v in found]),
            weights=np.ones(1) if len(parts) == 1 else estimator._fitted.nodes.weights,
            df=degrees_of_freedom(estimator) if len(parts) == 1 else None,
            classes=[estimator.classes_[k] for k in labels] if several else [None],
            own=own is not None,
        )

    def averaged_design(self, X: Any, groups: Array, n_groups: int, weight: Array | None) -> Array:
        """Means over the rows of each group of what the coefficients and the intercept multiply, (groups, D + 1)."""
        estimator = self.estimator
        design = estimator._encoding.fixed_part(estimator._validated(X))
        share = np.ones(len(groups)) if weight is None else weight
        share = share / np.bincount(groups, share, n_groups)[groups]
        by_group = sp.csr_matrix((share, (groups, np.arange(len(groups)))), (n_groups, len(groups)))
        sums: Any = by_group @ design
        means: Any = sums.toarray() if hasattr(sums, "toarray") else np.asarray(sums, np.float64)
        return np.hstack([means, np.ones((n_groups, int(estimator.fit_intercept)))])

    def named_rows(self, names: Sequence[tuple[str, Any]]) -> Array:
        """Rows (R, D + 1) of what `summary` shows under names: (name, None), or (column, level) of a category.

        A level is its difference from the first one, with which `summary` compares; the intercept is f at first levels.

        Raises
        ------
        ValueError
            A name that is not there, with those that are.
        """
        estimator = self.estimator
        columns, categories = estimator._column_names(), estimator._encoding.categorical
        d, base = len(columns), []
        rows: dict[tuple[str, Any], tuple[list[int], list[int]]] = {  # what is added, what is taken away
            (str(name), None): ([j], []) for j, name in enumerate(columns)
        }
        if categories is not None:
            table = estimator._names_of_columns()
            for column, levels in zip(categories.columns, categories.labels, strict=True):
                start, name = categories.at(column) - int(categories.reference), table[column]
                first = [] if categories.reference else [start]
                base += first
                for i, level in enumerate(levels):
                    row = ([start + i], first) if i else ([], [])
                    rows[str(name), str(level)] = rows[f"{name}_{level}", None] = row
        if estimator.fit_intercept:
            rows[own_name("intercept", columns), None] = ([d, *base], [])
        found = np.zeros((len(names), d + estimator.fit_intercept))
        for r, (name, level) in enumerate(names):
            if (name, level) not in rows:
                there = [own if part is None else f"{own}[{part}]" for own, part in rows]
                what = name if level is None else f"{name}[{level}]"
                raise ValueError(f"{what!r} is no effect of this fit, whose effects are {', '.join(there[:20])}.")
            found[r, rows[name, level][0]] += 1.0
            found[r, rows[name, level][1]] -= 1.0
        return found

    def typical_values(self, means: bool) -> tuple[list[Any], dict[Any, list[Any]]]:
        """Columns of X, and values that a grid has of each: all levels of a category, a mean, None of one that groups.

        `means`: whether it matters where columns of numbers are; else they are 0 where their means are not there.

        Raises
        ------
        ValueError
            Where the fit does not have the means of its columns.
        """
        estimator = self.estimator
        encoding = estimator._encoding
        stats, categories, grouping = encoding.columns.stats, encoding.categorical, grouping_columns(estimator)
        names = list(getattr(estimator, "feature_names_in_", range(estimator.n_features_in_)))
        others = [name for j, name in enumerate(names) if j not in grouping]
        values: dict[Any, list[Any]] = {names[j]: [None] for j in grouping}
        coefficients = np.arange(len(others)) if categories is None else np.flatnonzero(categories.numeric)
        numbers = [name for j, name in enumerate(others) if categories is None or j not in categories.columns]
        if stats is None and numbers and means:
            raise ValueError(f"the means of columns {numbers[:5]} are not in this fit: give rows as X.")
        if numbers:
            centre = np.zeros(len(encoding.columns.scale)) if stats is None else stats.centre + stats.mean
            values |= {name: [float(centre[j])] for name, j in zip(numbers, coefficients, strict=True)}
        if categories is not None:
            for j, levels, missing in zip(categories.columns, categories.levels, categories.missing, strict=True):
                values[others[j]] = [*levels.tolist(), *[None] * missing]
        return names, values


def _moments(view: Any, prior: Array, own: Array | None, at: Array, rows: Array, C: Array) -> tuple[Array, Array]:
    """Mean (C, R) and covariance (C, R, C, R) of combinations `rows` (R, J) of the weights `at`."""
    m, S = weights_at(view, np.atleast_2d(view.mean), prior, own, at)
    return C @ m @ rows.T, np.einsum("ck,rj,kjli,dl,si->crds", C, rows, S, C, rows, optimize=True)
