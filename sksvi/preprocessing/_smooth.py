"""Penalised splines as columns for linear models, of single columns and of pairs."""

from __future__ import annotations

from numbers import Integral
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin, _fit_context
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted

from sksvi._typing.arrays import ArrayLike, MatrixLike
from sksvi.estimators.checks import check_row_values
from sksvi.estimators.tables import Levels, as_table, codes_of, column_of, fixed_columns, position
from sksvi.estimators.validation import check_table, validate_data
from sksvi.preprocessing._bends import Interaction, Smooth

Array = np.ndarray

#: Columns of an interaction.
ALL = slice(None)


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

    interaction : bool, default=False
        X has two columns, and gets their interaction alone, ``ti()`` of mgcv: the product of their lines, and 40 bends
        at most (see Notes). Give the model a smooth of each of both besides.

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

    An interaction has the products of lines and bends of one column with those of the other. Coefficients of all but
    line by line are independent N(0, τ²), lines standardised, so that bends by bends are a tensor product of both
    priors; one τ for all of them, where Wood, Scheipl and Faraway (2013) have one for each kind. A rotation does not
    change this prior: the columns are the principal axes of the products over the rows, the 40 with the most variance.
    They have mean 0 over the rows but need not be orthogonal to columns of x or z alone.

    References
    ----------
    P. H. C. Eilers and B. D. Marx (1996). Flexible smoothing with B-splines and penalties. Statistical Science 11(2).

    E. E. Kammann and M. P. Wand (2003). Geoadditive models. Journal of the Royal Statistical Society C 52(1).

    S. N. Wood (2017). Generalized Additive Models: An Introduction with R, second edition. CRC Press.

    S. N. Wood, F. Scheipl and J. J. Faraway (2013). Straightforward intermediate rank tensor product smoothing in mixed
    models. Statistics and Computing 23(3).

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

    A surface is a smooth of each column and their interaction:

    >>> from sklearn.compose import make_column_transformer
    >>> X["dose"] = np.tile(np.linspace(0.0, 1.0, 10), 5)
    >>> surface = make_column_transformer(
    ...     (SmoothTransformer(n_basis=5), ["age", "dose"]),
    ...     (SmoothTransformer(n_basis=5, interaction=True), ["age", "dose"]),
    ...     verbose_feature_names_out=False,
    ... ).set_output(transform="pandas")
    >>> list(surface.fit_transform(X))[-3:]
    ['age:dose_s13', 'age:dose_s14', 'age:dose_s15']
    """

    LAYOUT = "n_features_in_ count; levels_ labels; _smooths list; _smooths[*] Smooth/Interaction"
    _parameter_constraints: dict[str, list[Any]] = {
        "n_basis": [Interval(Integral, 3, None, closed="left")],
        "degree": [Interval(Integral, 1, None, closed="left")],
        "by": [str, Integral, None],
        "interaction": ["boolean"],
    }

    def __init__(
        self, n_basis: int = 20, degree: int = 3, by: str | int | None = None, interaction: bool = False
    ) -> None:
        self.n_basis = n_basis
        self.degree = degree
        self.by = by
        self.interaction = interaction

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
            between knots (in the rows of a level, with `by`), one that is no number, or missing levels; for an
            interaction of other than two columns.
        """
        if self.n_basis <= self.degree:
            raise ValueError(f"n_basis={self.n_basis} must be above the degree, which is {self.degree}.")
        values, column = self._read(X, True)
        weight = check_row_values(sample_weight, len(values), "sample_weight", weights=True)
        weight = np.ones(len(values)) if weight is None else weight
        own = f"column {self.by!r} of X"
        levels = np.empty(0) if column is None else Levels.of_column(column[weight > 0], own).present
        names = self._smoothed(_check_feature_names_in(self))
        if self.interaction and len(names) != 2:
            raise ValueError(f"interaction=True is of two columns of X; found {len(names)}: {names[:20]}.")
        smooths = list[Smooth | Interaction]()
        for at in self._variables(len(names)):
            for level, rows in self._rows_of(column, levels, len(values)):
                counted = rows & (weight > 0)
                where = "" if column is None else f", level {level!r} of {self.by!r}"
                called = [f"column {name!r} of X{where}" for name in names]
                given = values[counted, at], weight[counted], self.n_basis, self.degree
                smooths.append(Interaction.fit(*given, called) if at is ALL else Smooth.fit(*given, called[at]))
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
        for at in self._variables(values.shape[1]):
            for _, rows in groups:
                smooth = next(smooths)
                part = np.zeros((len(values), smooth.n_columns))
                part[rows] = smooth.columns(values[rows, at])
                parts.append(part)
        return np.hstack(parts)

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> Array:
        """Names of the columns: ``age_linear``, ``age_s1``, with `by` ``age_level_s1``, interactions ``age:dose_s1``.

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
        names = [":".join(names)] if self.interaction else names
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

    def _variables(self, n: int) -> list[Any]:
        """Which of n columns each smooth is of."""
        return [ALL] if self.interaction else list(range(n))

    def _smoothed(self, names: Array) -> list[str]:
        """Names of the columns that have a smooth."""
        return list(names if self.by is None else np.delete(names, position(self, self.by, "by")))

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
