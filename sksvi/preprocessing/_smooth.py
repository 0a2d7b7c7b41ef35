"""Penalised splines as columns: a straight line, and bends whose coefficients are independent under the prior."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import Any, Self

import numpy as np
from scipy.interpolate import BSpline
from sklearn.base import BaseEstimator, TransformerMixin, _fit_context
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted

from sksvi._typing.arrays import ArrayLike, MatrixLike
from sksvi.estimators.checks import check_row_values
from sksvi.estimators.tables import Levels, as_table, codes_of, column_of, fixed_columns, position
from sksvi.estimators.validation import check_table, validate_data

Array = np.ndarray

#: Distinct values of a column that bend more than a parabola through them does.
LEAST_VALUES = 4
#: Intervals between knots that hold rows, at least: in fewer a column is a clump and its outliers.
LEAST_INTERVALS = 3
#: Part of the largest bend, less than which is rounding.
ROUNDING = 1e-10


@dataclass(frozen=True)
class Smooth:
    """Columns of a smooth of one variable: the centred line, and r bends along which rows are orthogonal.

    Parameters
    ----------
    low, width : float
        Range of the variable in the rows of the fit.
    mean : float
        Its mean there.
    bends : BSpline
        Values (r,) at u = (x - low) / width.
    """

    low: float
    width: float
    mean: float
    bends: BSpline

    @classmethod
    def fit(cls, x: Array, weight: Array, n_basis: int, degree: int, name: str) -> Self:
        """The smooth of a variable (n,), rows by their weights; `name`: what errors call it."""
        low, high = float(x.min()), float(x.max())
        n_values, n_intervals = len(np.unique(x)), n_basis - degree
        if n_values < LEAST_VALUES:
            raise ValueError(
                f"{name}: a smooth of {n_values} distinct values, and needs {LEAST_VALUES} or more. Give the column to "
                "the model as it is, or as a categorical one."
            )
        u, width = (x - low) / (high - low), high - low
        occupied = len(np.unique(np.minimum(np.floor(u * n_intervals), n_intervals - 1)))
        if occupied < min(LEAST_INTERVALS, n_intervals):
            raise ValueError(
                f"{name}: its values lie in {occupied} of the {n_intervals} intervals between knots, which are of one "
                f"length from {low:g} to {high:g}. Transform it first (its logarithm, its ranks), or leave out the "
                "outliers."
            )
        share = weight / weight.sum()
        return cls(low, width, float(share @ x), bends_of(u, share, n_basis, degree))

    @property
    def n_columns(self) -> int:
        """Columns of the smooth."""
        return 1 + int(self.bends.c.shape[1])

    def columns(self, x: Array) -> Array:
        """The columns (n, 1 + r) of values (n,); beyond the range of the fit they go on as straight lines."""
        u = (x - self.low) / self.width
        inside = np.clip(u, 0.0, 1.0)
        slopes = self.bends.derivative()(np.where(u < 0.5, 0.0, 1.0))
        return np.column_stack([x - self.mean, self.bends(inside) + (u - inside)[:, None] * slopes])


def bends_of(u: Array, share: Array, n_basis: int, degree: int) -> BSpline:
    """Splines on [0, 1] whose independent standard normal coefficients are the prior of the difference penalty.

    With D the second differences of the B-spline coefficients β and D β = θ ~ N(0, I), β = D⁺ θ but for a straight
    line. Lines are taken out of the rows of B D⁺, which the rotation to their principal axes makes orthogonal.

    Parameters
    ----------
    u : ndarray of shape (n,)
    share : ndarray of shape (n,)
        Weights of the rows, of sum 1.
    n_basis, degree : int
    """
    knots = np.arange(-degree, n_basis + 1) / (n_basis - degree)
    averages = np.array([knots[j + 1 : j + degree + 1].mean() for j in range(n_basis)])  # coefficients of u itself
    inverse = np.linalg.pinv(np.diff(np.eye(n_basis), 2, axis=0))
    root = np.sqrt(share)[:, None]
    lines = root * np.column_stack([np.ones_like(u), u])
    rows = root * BSpline(knots, inverse, degree)(u)
    coefficients = inverse - np.column_stack([np.ones(n_basis), averages]) @ np.linalg.lstsq(lines, rows)[0]
    _, deviations, axes = np.linalg.svd(root * BSpline(knots, coefficients, degree)(u), full_matrices=False)
    axes = axes[deviations > ROUNDING * deviations[0]]
    # A smooth of unit coefficients has variance 1 on average over the rows.
    coefficients = coefficients @ axes.T / np.sqrt(np.sum(np.square(deviations)))
    end = BSpline(knots, coefficients, degree)(1.0)
    return BSpline(knots, coefficients * np.where(end < 0, -1.0, 1.0), degree)


class SmoothTransformer(TransformerMixin, BaseEstimator):
    """Penalised splines of every column, as columns for a linear model.

    A column x becomes a straight line and n_basis - 2 bends: f(x) = b (x - mean) + Σ_k w_k s_k(x). The spline is that
    of Eilers and Marx (1996), B-splines on equidistant knots with a penalty on the second differences of their
    coefficients, which is the prior w_k ~ N(0, τ²) of independent coefficients with one τ per smooth
    (Wood 2017, section 5.4.2; Kammann and Wand 2003); the line has no penalty. On the rows of the fit all columns have
    mean 0, bends are orthogonal to the line and to each other, and go from the smoothest, ``s1``, to the roughest; at
    τ = 1 the bends together have variance 1, averaged over the rows.

    The lengths of the bends are the prior: do not standardise them, and give those of each smooth a precision of its
    own, as in the last example, where it is learned. Under ``prior_precision="auto"``, one precision for all columns on
    scales of their own, rough bends are as likely as smooth ones: intervals hold, but are wider.

    Parameters
    ----------
    n_basis : int, default=20
        B-splines of each column. The penalty decides how smooth f is; more of them let it bend more where the data ask
        for it.

    degree : int, default=3
        Degree of their polynomials.

    by : str, int or None, default=None
        A categorical column, which gets no smooth: each of the others has one per level, whose columns are 0 in rows
        of the other levels, and have mean 0 in its own. The levels' own means are no columns here: give the column to
        the model too, as it is.

    Attributes
    ----------
    levels_ : ndarray
        Levels of `by`; none without it.

    n_features_in_ : int

    feature_names_in_ : ndarray of str
        Only where X had names.

    Notes
    -----
    Beyond the range of the fit every column goes on as a straight line with the slope that it has at the end, so that
    f does: the prior does not widen there but along these lines.

    References
    ----------
    P. H. C. Eilers and B. D. Marx (1996). Flexible smoothing with B-splines and penalties. Statistical Science 11(2).

    E. E. Kammann and M. P. Wand (2003). Geoadditive models. Journal of the Royal Statistical Society C 52(1).

    S. N. Wood (2017). Generalized Additive Models: An Introduction with R, second edition. CRC Press.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from sksvi.preprocessing import SmoothTransformer
    >>> X = pd.DataFrame({"age": np.linspace(20.0, 60.0, 50)})
    >>> smooth = SmoothTransformer(n_basis=5).set_output(transform="pandas").fit(X)
    >>> list(smooth.transform(X))
    ['age_linear', 'age_s1', 'age_s2', 'age_s3']
    >>> print(smooth.transform(X).std(ddof=0).round(3).tolist())
    [11.78, 0.983, 0.167, 0.072]

    In a pipeline, where the model learns how smooth f is:

    >>> from sklearn.pipeline import make_pipeline
    >>> from sksvi import BayesianGLMRegressor
    >>> y = np.sin(X["age"] / 8.0) + 0.1 * np.cos(np.arange(50.0))
    >>> smooth = SmoothTransformer().set_output(transform="pandas")
    >>> model = make_pipeline(smooth, BayesianGLMRegressor(prior_precision={"age_s*": "auto"})).fit(X, y)
    >>> print(float(np.abs(model.predict(X) - np.sin(X["age"] / 8.0)).max().round(1)))
    0.1
    """

    _parameter_constraints: dict[str, list[Any]] = {
        "n_basis": [Interval(Integral, 3, None, closed="left")],
        "degree": [Interval(Integral, 1, None, closed="left")],
        "by": [str, Integral, None],
    }

    def __init__(self, n_basis: int = 20, degree: int = 3, by: str | int | None = None) -> None:
        self.n_basis = n_basis
        self.degree = degree
        self.by = by

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: MatrixLike, y: object = None, sample_weight: ArrayLike | None = None) -> Self:
        """Find range, centre and bends of every column.

        Parameters
        ----------
        X : array-like of shape (n, D)
            Numbers, and the levels of `by`.
        y : None
            Ignored.
        sample_weight : array-like of shape (n,), optional
            A weight of k is as k rows, one of 0 leaves the row out.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            Naming a column with fewer than four distinct values or with values in fewer than three of the intervals
            between knots (in the rows of a level, with `by`), one that is no number, or missing levels.
        """
        if self.n_basis <= self.degree:
            raise ValueError(f"n_basis={self.n_basis} must be above the degree, which is {self.degree}.")
        values, column = self._read(X, True)
        weight = check_row_values(sample_weight, len(values), "sample_weight", weights=True)
        weight = np.ones(len(values)) if weight is None else weight
        levels = self._present(column, weight > 0)
        smooths = []
        for j, name in enumerate(self._smoothed(_check_feature_names_in(self))):
            for level, rows in self._rows_of(column, levels, len(values)):
                counted = rows & (weight > 0)
                called = f"column {name!r} of X" + ("" if column is None else f", level {level!r} of {self.by!r}")
                smooths.append(Smooth.fit(values[counted, j], weight[counted], self.n_basis, self.degree, called))
        self.levels_, self._smooths = levels, smooths
        return self

    def transform(self, X: MatrixLike) -> Array:
        """The columns of every smooth: its line, then its bends.

        Parameters
        ----------
        X : array-like of shape (n, D)

        Returns
        -------
        ndarray of shape (n, n_columns)
            A DataFrame after ``set_output(transform="pandas")``.

        Raises
        ------
        ValueError
            For missing values, and for a level of `by` that no row of the fit had.
        """
        check_is_fitted(self)
        values, column = self._read(X, False)
        smooths, parts = iter(self._smooths), []
        groups = self._rows_of(column, self.levels_, len(values))
        for j in range(values.shape[1]):
            for _, rows in groups:
                smooth = next(smooths)
                part = np.zeros((len(values), smooth.n_columns))
                part[rows] = smooth.columns(values[rows, j])
                parts.append(part)
        return np.hstack(parts)

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> Array:
        """Names of the columns: ``age_linear``, ``age_s1``, …, with `by` ``age_level_linear`` and so on.

        Parameters
        ----------
        input_features : array-like of str, optional
            Names of the columns of X where it had none; else x0, x1, …

        Returns
        -------
        ndarray of str
        """
        check_is_fitted(self)
        names = self._smoothed(_check_feature_names_in(self, input_features))
        if self.by is not None:
            names = [f"{name}_{level}" for name in names for level in self.levels_]
        found = []
        for name, smooth in zip(names, self._smooths, strict=True):
            found += [f"{name}_linear", *(f"{name}_s{k}" for k in range(1, smooth.n_columns))]
        return np.array(found, dtype=object)

    # ---- columns and levels
    def _read(self, X: Any, fresh: bool) -> tuple[Array, Any]:
        """Numbers of the columns that have a smooth, (n, D), and the column `by` as a Series, or None."""
        least = 2 if fresh else 1
        if self.by is None:
            return validate_data(self, X, reset=fresh, dtype=np.float64, ensure_min_samples=least), None
        table = as_table(X)
        validate_data(self, table, skip_check_array=True, reset=fresh)
        at = position(self, self.by, "by")
        numbers = check_table(fixed_columns(table, [at]), dtype=np.float64, ensure_min_samples=least)
        column = column_of(table, at)
        if column.isna().any():
            row = int(np.argmax(column.isna()))
            raise ValueError(f"by={self.by!r}: row {row} of that column has no level. Fill it in or leave it out.")
        return numbers, column

    def _smoothed(self, names: Array) -> list[str]:
        """Names of the columns that have a smooth."""
        return list(names if self.by is None else np.delete(names, position(self, self.by, "by")))

    def _present(self, column: Any, counted: Array) -> Array:
        """Levels that some row has which counts."""
        if column is None:
            return np.empty(0)
        return Levels.of_column(column[counted], f"column {self.by!r} of X").present

    def _rows_of(self, column: Any, levels: Array, n: int) -> list[tuple[Any, Array]]:
        """Levels, each with its rows (n,): without `by` all rows."""
        if column is None:
            return [(None, np.ones(n, bool))]
        codes, _ = codes_of(column, levels)
        if np.any(codes < 0):
            raise ValueError(
                f"level {column.iloc[int(np.argmin(codes))]!r} of column {self.by!r} has no smooth: no row of the fit "
                f"had it. They had {list(levels)}."
            )
        return [(level, codes == k) for k, level in enumerate(levels)]
