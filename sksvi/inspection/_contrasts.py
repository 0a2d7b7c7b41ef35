"""Contrasts of the levels of a column, pointwise and simultaneous."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import combinations as pairs_of
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator

from sksvi._typing.arrays import ArrayLike, DataFrame, MatrixLike, PerRow, RandomState
from sksvi.estimators.base import drawn_seed
from sksvi.estimators.checks import check_choice, check_count, check_flag, check_row_values
from sksvi.estimators.summaries import exponentiated
from sksvi.inspection._answers import ROUNDING, SIMULTANEOUS, ChangedLevels, identity_link, intervals_table
from sksvi.inspection._changed_rows import ChangedRowMeans, constant, groups_of, with_column
from sksvi.inspection._grid import compared_levels, rows_to_average
from sksvi.predictive.plain import tail_of

Array = np.ndarray

SCALES = ("link", "response")
#: Draws without which there is no spread.
LEAST_DRAWS = 2


@dataclass(frozen=True)
class Contrasts:
    """Contrasts of the levels of a column, with pointwise and simultaneous intervals.

    Parameters
    ----------
    table : DataFrame
        A row per contrast (by the value of `by`, and class): mean, std, lower, upper, direction, simultaneous_lower and
        simultaneous_upper; with ``exponentiate=True`` exp of the mean and of the ends besides.
    feature : str or int
        The column.
    scale : {"link", "response"}
        Of the estimates.
    effects : {"own", "joint"}
        Whether they are under a weak prior of their own.
    coverage : float
        Of the intervals.
    df : float or None
        Degrees of freedom of t quantiles; None: quantiles are those of the posterior's mixture, or of draws.
    """

    table: DataFrame
    feature: str | int
    scale: str
    effects: str
    coverage: float
    df: float | None

    def __str__(self) -> str:
        prior = "under a weak prior of their own" if self.effects == "own" else "under the joint posterior"
        where = "link (f)" if self.scale == "link" else "response (mean of y)"
        quantiles = "" if self.df is None else f", t quantiles with {self.df:.4g} degrees of freedom"
        head = (
            f"Contrasts of {self.feature!r} on the {where} scale, {prior};\n"
            f"intervals of {100 * self.coverage:g} %, one by one and all together{quantiles}"
        )
        return f"{head}\n{self.table.to_string(float_format=lambda value: f'{value:.4g}')}"

    __repr__ = __str__


def checked_draws(n_draws: Any, coverage: float, scale: str, effects: str | None) -> int:
    """The number of draws, checked with the other options of a comparison."""
    tail_of(coverage)
    check_choice(scale, "scale", SCALES)
    check_choice(effects, "effects", (None, "own", "joint"))
    return check_count(n_draws, "n_draws", least=LEAST_DRAWS, bytes_each=16.0)


def contrasts(
    model: BaseEstimator,
    feature: str | int,
    by: str | int | ArrayLike | None = None,
    *,
    pairs: str | ArrayLike | DataFrame | Mapping[str, ArrayLike] = "all",
    X: MatrixLike | None = None,
    grid: str = "observed",
    scale: str = "link",
    reference: object = None,
    reference_level: object = None,
    effects: str | None = None,
    exponentiate: bool = False,
    coverage: float = 0.9,
    sample_weight: PerRow | None = None,
    offset: PerRow | None = None,
    exposure: PerRow | None = None,
    n_draws: int = 2000,
    random_state: RandomState = 0,
) -> Contrasts:
    """Differences between the levels of a column, with intervals that hold one by one and all together.

    On the link scale they are differences of the latent f, exact linear combinations of the coefficients; on the
    response scale differences of the mean of y (of classifiers: of probabilities), over draws. Where rows are given and
    columns interact, in a pipeline or by columns of the user's, the differences are averages over the rows.

    Parameters
    ----------
    model : fitted estimator
        A linear model, one with mixed effects (or, on the response scale, a sparse Gaussian process), or a Pipeline or
        search around one.
    feature : str or int
        The column, by name, or by number in an array.
    by : str, int or array-like of shape (n,), default=None
        A column, or a value per row of X: contrasts within the rows of each of its values.
    pairs : {"all", "reference", "sequential"}, array-like of shape (R, L), DataFrame or dict, default="all"
        "all": each level less each later one, as emmeans has pairs. "reference": each level less `reference_level`.
        "sequential": each level less the one before. A matrix, with a row of weights of the L levels in order for each
        contrast, which sum to 0; a DataFrame or dict of rows names them.
    X : {DataFrame, array-like} of shape (n, D), default=None
        Rows over which is averaged. None: a balanced grid of the levels and means that the fit has, or the encoders and
        scalers of a pipeline.
    grid : {"observed", "balanced"}, default="observed"
        Average over the rows of X, or over every combination of the levels that they have, numbers at their means.
    scale : {"link", "response"}, default="link"
        Of the differences.
    reference : label, default=None
        For more than two classes, on the link scale: the class that others are compared with, as in `summary`.
    reference_level : level, default=None
        For ``pairs="reference"``; None: the first.
    effects : {"own", "joint"}, default=None
        "own": all coefficients of the question together under weak priors of their own, the others as learned.
        "joint": under the posterior that predicts. None: as in `summary`.
    exponentiate : bool, default=False
        Whether to add exp of the mean and the ends: odds ratios of a logit, rate ratios of a log link.
    coverage : float, default=0.9
        Of the intervals: lower and upper each by itself, simultaneous_lower and simultaneous_upper for all contrasts
        within a value of `by` and a class together.
    sample_weight : array-like of shape (n,), default=None
        Weights of the rows in averages.
    offset, exposure : array-like of shape (n,), default=None
        On the response scale, as in `marginal_effects`.
    n_draws : int, default=2000
        Of the response scale, at least 2.
    random_state : int, RandomState or None, default=0
        Of these draws.

    Returns
    -------
    Contrasts

    Raises
    ------
    TypeError
        On the link scale of a model without coefficients.
    ValueError
        An unknown column, level or class, a column of fewer than two or of more than 40 numbers, `pairs` of another
        width or whose rows do not sum to 0; X that is needed and not given; exponentiate=True on the response scale.

    See Also
    --------
    hypothesis : Any linear question.
    marginal_effects : Averages of slopes and differences, and means.

    Notes
    -----
    Simultaneous intervals are pointwise ones of a larger coverage, at which all hold together: max-t of the joint
    distribution (Hothorn, Bretz & Westfall 2008, Biometrical Journal 50), of draws by their ranks (Besag et al. 1995,
    Statistical Science 10, section 6.3). `direction` is not corrected for many looks.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from sksvi import BayesianGLMRegressor
    >>> from sksvi.inspection import contrasts
    >>> X = pd.DataFrame({"plan": np.repeat(["A", "B", "C"], 10)})
    >>> y = np.tile([-1.0, 1.0], 15) + X["plan"].map({"A": 0.0, "B": 2.0, "C": 6.0})
    >>> contrasts(BayesianGLMRegressor().fit(X, y), "plan").table["mean"].round()
    contrast
    A - B   -2.0
    A - C   -6.0
    B - C   -4.0
    Name: mean, dtype: float64
    """
    n_draws = checked_draws(n_draws, coverage, scale, effects)
    if check_flag(exponentiate, "exponentiate") and scale == "response":
        raise ValueError("exponentiate=True is for differences on the link scale: set scale='link'.")
    answers = ChangedRowMeans(model, n_draws, drawn_seed(random_state), offset, exposure)
    linear = scale == "link" or identity_link(answers.inner)
    # Of a linear f no other column changes what these do.
    table, named = rows_to_average(answers, X, grid, [feature, by] if linear and X is None else None)
    levels = compared_levels(answers, table, feature)
    names, matrix = _matrix(pairs, levels, reference_level)
    codes, values = groups_of(by, table)
    weight = check_row_values(sample_weight, len(table), "sample_weight", weights=True)
    changed = [with_column(table, feature, constant(table[feature], level), named) for level in levels]
    question = ChangedLevels(answers, changed, matrix, codes, len(values), weight)
    found: Any = question.linear(effects, reference) if linear else question.draws(effects)
    index = pd.MultiIndex.from_product([values, names], names=[by if isinstance(by, str | int) else "by", "contrast"])
    whole = intervals_table(found, len(values), coverage, index if by is not None else index.droplevel(0))
    if exponentiate:  # means and all ends
        whole = exponentiated(whole, answers.inner.likelihood_, type(answers.inner).__name__)
        whole = whole.assign(**{f"exp({name})": np.exp(whole[name]) for name in SIMULTANEOUS})
    return Contrasts(whole, feature, scale, "own" if found.own else "joint", coverage, found.df)


# ---- which levels, and what of them
def _matrix(pairs: Any, levels: list[Any], reference_level: Any) -> tuple[list[str], Array]:
    """Names and weights (R, L) of contrasts."""
    n = len(levels)
    if isinstance(pairs, str):
        at = PAIRS[check_choice(pairs, "pairs", tuple(PAIRS))](n, _position(reference_level, levels, pairs))
        units = np.eye(n)
        names = [f"{levels[i]} - {levels[j]}" for i, j in at]
        return names, np.array([units[i] - units[j] for i, j in at])
    if reference_level is not None:
        raise ValueError("reference_level is for pairs='reference': leave it out beside a matrix.")
    pairs = pd.DataFrame.from_dict(dict(pairs), orient="index") if isinstance(pairs, Mapping) else pairs
    given = list(map(str, pairs.index)) if hasattr(pairs, "iloc") else []
    matrix = np.atleast_2d(np.asarray(pairs, float))
    if matrix.ndim != 2 or matrix.shape[1] != n or not len(matrix) or not np.all(np.isfinite(matrix)):
        raise ValueError(
            f"pairs must have a finite weight for each of the {n} levels {levels}; found shape {matrix.shape}."
        )
    off = np.abs(matrix.sum(axis=1)) > ROUNDING * np.abs(matrix).max(axis=1)
    if np.any(off | ~matrix.any(axis=1)):
        row = int(np.argmax(off | ~matrix.any(axis=1)))
        raise ValueError(
            f"row {row} of pairs, {matrix[row].tolist()}, is no contrast: weights must not all be 0 and must sum to 0; "
            "means are those of marginal_effects(kind='means')."
        )
    return given or [_weighted(row, levels) for row in matrix], matrix


def _position(reference_level: Any, levels: list[Any], pairs: str) -> int:
    if reference_level is None:
        return 0
    if pairs != "reference":
        raise ValueError(f"reference_level is for pairs='reference'; found pairs={pairs!r}: leave it out.")
    if reference_level not in levels:
        raise ValueError(f"reference_level={reference_level!r} is none of the levels {levels}.")
    return levels.index(reference_level)


def _weighted(row: Array, levels: list[Any]) -> str:
    """What a row of weights is called."""
    parts = [f"{weight:+.4g} {level}" for weight, level in zip(row, levels, strict=True) if weight]
    return " ".join(parts)


#: Levels that are compared, (level, less which).
PAIRS: dict[str, Callable[[int, int], list[tuple[int, int]]]] = {
    "all": lambda n, first: list(pairs_of(range(n), 2)),
    "reference": lambda n, first: [(i, first) for i in range(n) if i != first],
    "sequential": lambda n, first: [(i + 1, i) for i in range(n - 1)],
}
