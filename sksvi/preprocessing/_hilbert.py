"""Gaussian processes as columns: sines on a box about the rows, with lengths that the spectral density gives."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any, Self

import numpy as np
from scipy.special import gammaln, softmax
from scipy.stats import norm, t
from sklearn.base import BaseEstimator, TransformerMixin, _fit_context
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted

from sksvi._typing.arrays import ArrayLike, MatrixLike, PerRow
from sksvi.estimators.checks import check_row_values
from sksvi.estimators.validation import StrOptions, validate_data
from sksvi.models.linear.scales import Evidence, log_half_cauchy

Array = np.ndarray

#: Kernels by the smoothness ν of Matérn; infinity is the squared exponential.
KERNELS = {"matern32": 1.5, "matern52": 2.5, "rbf": np.inf}
#: Length scales between the ends of the box and the last place where columns are needed: what is reflected at the ends
#: has there a correlation of less than 0.01 with f.
MARGIN = 2.0
#: Share of the prior variance along one axis in frequencies beyond those of the columns, of one column and of several.
LEFT_OUT, LEFT_OUT_OF_SEVERAL = 0.001, 0.01
#: Part of that for "rbf", whose frequencies fall off so fast that it costs few columns.
FALLS_FAST = 0.01
#: Length scales in the range of a column without y, in processes of one, two and three columns.
SHARES = (5.0, 3.0, 2.0)
#: Those among which y chooses, in processes of one and of two columns; three have too many columns to look at several.
CANDIDATES = (np.geomspace(0.5, 40.0, 14), np.geomspace(0.5, 10.0, 8))
#: Least noise variance of the working model, over the variance of y.
LEAST_NOISE = 1e-6
#: Most columns of one process: more are better served by inducing points.
MOST = 5000


@dataclass(frozen=True)
class Box:
    """Sines on a box: f(x) = Σ_j β_j √S(ω_j) Π_d sin(ω_jd (u_d + L_d)) / √L_d, u = (x - centre) / length scale.

    Parameters
    ----------
    centre, scale, half : ndarray of shape (D,)
        Centre of the box, length scales, and L, half its sides in length scales.
    frequencies : ndarray of shape (m, D)
        ω.
    lengths : ndarray of shape (m,)
        √(S(ω) / Π L).
    """

    LAYOUT = "centre (d) f; scale (d) f >0; half (d) f >0; frequencies (m,d) f; lengths (m) f"

    centre: Array
    scale: Array
    half: Array
    frequencies: Array
    lengths: Array

    @classmethod
    def fit(cls, X: Array, scale: Array, nu: float, beyond: float) -> Self:
        """The box about the rows X (n, D)."""
        low, high = X.min(axis=0), X.max(axis=0)
        half = 0.5 * (high - low) / scale + beyond + MARGIN
        # Along one axis frequencies of a Matérn process are distributed as Student's t with 2 ν degrees of freedom.
        share = LEFT_OUT if X.shape[1] == 1 else LEFT_OUT_OF_SEVERAL
        highest = norm.isf(0.5 * FALLS_FAST * share) if np.isinf(nu) else t(2.0 * nu).isf(0.5 * share)
        counts = np.ceil(2.0 * half * highest / np.pi).astype(int)
        if np.prod(counts.astype(float)) > MOST:
            raise ValueError(
                f"length_scale={scale.tolist()} asks for {' x '.join(map(str, counts))} columns, more than {MOST}: "
                "give larger length scales, fewer columns, or use SparseGPRegressor."
            )
        grid = np.meshgrid(*(np.arange(1, m + 1) for m in counts), indexing="ij")
        frequencies = np.stack([axis.ravel() for axis in grid], axis=1) * (0.5 * np.pi / half)
        lengths = np.sqrt(spectral_density(frequencies, nu) / np.prod(half))
        order = np.argsort(-lengths, kind="stable")
        return cls(0.5 * (low + high), scale, half, frequencies[order], lengths[order])

    def columns(self, X: Array) -> Array:
        """The columns (n, m) of rows (n, D)."""
        places = (X - self.centre) / self.scale + self.half
        out = np.broadcast_to(self.lengths, (len(X), len(self.lengths))).copy()
        for d in range(places.shape[1]):
            out *= np.sin(places[:, d : d + 1] * self.frequencies[:, d])
        return out


def spectral_density(frequencies: Array, nu: float) -> Array:
    """S(ω) of frequencies (m, D) at length scale and variance 1 (Rasmussen and Williams 2006, eqs. 4.11 and 4.15)."""
    D, squares = frequencies.shape[1], np.sum(np.square(frequencies), axis=1)
    if np.isinf(nu):
        return (2.0 * np.pi) ** (0.5 * D) * np.exp(-0.5 * squares)
    log_constant = D * np.log(2.0) + 0.5 * D * np.log(np.pi) + gammaln(nu + 0.5 * D) - gammaln(nu)
    return np.exp(log_constant + nu * np.log(2.0 * nu) - (nu + 0.5 * D) * np.log(2.0 * nu + squares))


def working_responses(y: Any, n: int) -> Array | None:
    """Numbers (n, K) by which a length scale is learned: y, or an indicator per label; None of tables."""
    values = np.asarray(y)
    if values.ndim != 1:
        return None
    if len(values) != n:
        raise ValueError(f"y has {len(values)} rows, and X {n}.")
    values = values[:, None] == np.unique(values) if values.dtype.kind not in "biuf" else values
    return values.reshape(n, -1).astype(float)


def log_evidence(columns: Array, responses: Array, weight: Array) -> float:
    """Sum of the log evidences of responses (n, K), each a Gaussian process at its best variance and noise, nats."""
    centred = responses - np.average(responses, axis=0, weights=weight)
    spread = np.sqrt(np.average(np.square(centred), axis=0, weights=weight))
    root = np.sqrt(weight)[:, None]
    design = root * np.column_stack([columns, np.ones(len(columns))])
    values = root * (centred / np.where(spread > 0, spread, 1.0))[:, spread > 0]
    gram, slopes, squares = design.T @ design, design.T @ values, np.sum(np.square(values), axis=0)
    start, one, total = np.zeros(len(gram)), np.ones(columns.shape[1]), 0.0
    for slope, square in zip(slopes.T, squares, strict=True):
        evidence = Evidence.about(start, gram, slope, float(square), float(weight.sum()), LEAST_NOISE, True)
        total += evidence.peak(one, lambda h: log_half_cauchy(np.exp(-h))).gain + evidence(one)
    return total


class HilbertGPTransformer(TransformerMixin, BaseEstimator):
    """Gaussian processes of columns, as columns for a linear model.

    With independent standard normal coefficients f is a Gaussian process of variance 1 and the given length scale,
    approximately: the eigenfunctions of the Laplacian on a box about the rows, times the root of the kernel's spectral
    density at their frequencies (Solin and Särkkä 2020; Riutort-Mayol et al. 2022). A precision of the group, as in the
    example, learns the variance; the cost is that of a linear model, whatever the number of rows.

    Parameters
    ----------
    kernel : {"matern32", "matern52", "rbf"}, default="matern32"
        Once differentiable f, twice, or infinitely often.

    length_scale : "auto", float or array-like of shape (D,), default="auto"
        In the units of the columns. "auto" learns it from y, one share of the ranges for all columns of a process:
        the posterior mean of its logarithm among 14 values (8 in processes of two columns), equally likely before, by
        the marginal likelihood of y as this process with Gaussian noise, at the best variance and noise of each. It is
        fixed from there on, and other terms of the model are noise to it. Labels count as an indicator per label.
        Without y, for a table of counts or times, and in processes of three columns, it is a convention: the range of
        each column over 5, in processes of two columns over 3, of three over 2. Variation over less than about a third
        of it is left out with the high frequencies, so that one that is too long misses what is there, and one that is
        too short has wider intervals than are needed.

    additive : bool, default=False
        False: one process of all columns together, three at most. True: one of each column, f is their sum.

    beyond : float, default=1.0
        Length scales beyond the rows of the fit up to which rows to come may lie; others are refused.

    Attributes
    ----------
    length_scale_ : ndarray of shape (D,)

    n_features_in_ : int

    feature_names_in_ : ndarray of str
        Only where X had names.

    Notes
    -----
    The box reaches two length scales beyond what is needed, and frequencies hold 99.9 % of the variance of a process of
    one column, 99 % along each axis of others, more for "rbf". Covariances are off by at most 0.01 of the variance in
    one column, 0.03 in two and 0.04 in three, the evidence of 80 rows of one column by at most 0.5 nats
    (`tests/preprocessing/test_hilbert.py`).

    References
    ----------
    C. E. Rasmussen and C. K. I. Williams (2006). Gaussian Processes for Machine Learning. MIT Press.

    G. Riutort-Mayol, P.-C. Bürkner, M. R. Andersen, A. Solin and A. Vehtari (2022). Practical Hilbert space approximate
    Bayesian Gaussian processes for probabilistic programming. Statistics and Computing 33(17).

    A. Solin and S. Särkkä (2020). Hilbert space methods for reduced-rank Gaussian process regression. Statistics and
    Computing 30.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from sklearn.pipeline import make_pipeline
    >>> from sksvi import BayesianGLMRegressor
    >>> from sksvi.preprocessing import HilbertGPTransformer
    >>> X = pd.DataFrame({"age": np.linspace(20.0, 60.0, 50)})
    >>> y = np.sin(X["age"] / 8.0) + 0.1 * np.cos(np.arange(50.0))
    >>> process = HilbertGPTransformer().set_output(transform="pandas")
    >>> model = make_pipeline(process, BayesianGLMRegressor(prior_precision={"age_gp*": "auto"})).fit(X, y)
    >>> print(float(np.abs(model.predict(X) - np.sin(X["age"] / 8.0)).max().round(1)))
    0.1
    """

    LAYOUT = """
        n_features_in_ count d; length_scale_ (d) f >0; _boxes list; _boxes[*] items 2; _boxes[*][1] Box
        _boxes where all(box.scale.shape == (len(own),) and set(own) <= set(range(d)) for own, box in it)
    """
    _parameter_constraints: dict[str, list[Any]] = {
        "kernel": [StrOptions(set(KERNELS))],
        "length_scale": [StrOptions({"auto"}), Interval(Real, 0, None, closed="neither"), "array-like"],
        "additive": ["boolean"],
        "beyond": [Interval(Real, 0, None, closed="left")],
    }

    def __init__(
        self,
        kernel: str = "matern32",
        length_scale: str | float | ArrayLike = "auto",
        additive: bool = False,
        beyond: float = 1.0,
    ) -> None:
        self.kernel = kernel
        self.length_scale = length_scale
        self.additive = additive
        self.beyond = beyond

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: MatrixLike, y: PerRow | None = None, sample_weight: ArrayLike | None = None) -> Self:
        """Find length scales, the box about the rows, and the frequencies.

        Parameters
        ----------
        X : array-like of shape (n, D)
        y : array-like of shape (n,), optional
            Numbers or labels, by which "auto" chooses length scales.
        sample_weight : array-like of shape (n,), optional
            A weight of k is as k rows, one of 0 leaves the row out.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            Naming a column without two values, more than three columns together, or length scales that are not
            positive, or so small that columns are too many.
        """
        values = validate_data(self, X, reset=True, dtype=np.float64, ensure_min_samples=2)
        names, n_columns = _check_feature_names_in(self), values.shape[1]
        if not self.additive and n_columns > 3:
            raise ValueError(
                f"X has {n_columns} columns, and a process is of three at most: set additive=True for one of each, or "
                "name the columns in a ColumnTransformer."
            )
        given = check_row_values(sample_weight, len(values), "sample_weight", weights=True)
        weight = np.ones(len(values)) if given is None else given
        responses, counted = working_responses(y, len(values)), weight > 0
        values, weight = values[counted], weight[counted]
        ranges = np.ptp(values, axis=0)
        if np.any(ranges == 0.0):
            raise ValueError(f"column {names[int(np.argmin(ranges))]!r} of X has one value alone: leave it out.")
        groups = [[d] for d in range(n_columns)] if self.additive else [list(range(n_columns))]
        scales = self._scales(ranges)
        if isinstance(self.length_scale, str) and len(groups[0]) <= len(CANDIDATES) and responses is not None:
            for own in groups:
                scales[own] = self._learned(values[:, own], ranges[own], responses[counted], weight)
        self.length_scale_ = scales
        nu = KERNELS[self.kernel]
        self._boxes = [(own, Box.fit(values[:, own], scales[own], nu, self.beyond)) for own in groups]
        return self

    def transform(self, X: MatrixLike) -> Array:
        """The columns of every process, in the order of their prior variance.

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
            For a row that lies further than `beyond` length scales from the rows of the fit.
        """
        check_is_fitted(self)
        values = validate_data(self, X, reset=False, dtype=np.float64)
        for own, box in self._boxes:
            outside = np.abs(values[:, own] - box.centre) / box.scale > (box.half - MARGIN) * (1.0 + 1e-9)
            if outside.any():
                row, d = np.argwhere(outside)[0]
                reach = (box.half[d] - MARGIN) * box.scale[d]
                raise ValueError(
                    f"column {_check_feature_names_in(self)[own[d]]!r} of X is {values[row, own[d]]:g} in row {row}, "
                    f"and columns are there from {box.centre[d] - reach:g} to {box.centre[d] + reach:g}: fit with a "
                    f"larger beyond, which is {self.beyond:g}."
                )
        return np.hstack([box.columns(values[:, own]) for own, box in self._boxes])

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> Array:
        """Names of the columns: ``age_gp1``, …; of a process of two ``lon_lat_gp1`` and so on.

        Parameters
        ----------
        input_features : array-like of str, optional
            Names of the columns of X where it had none; else x0, x1, …

        Returns
        -------
        ndarray of str
        """
        check_is_fitted(self)
        names = _check_feature_names_in(self, input_features)
        found = []
        for own, box in self._boxes:
            process = "_".join(str(names[d]) for d in own)
            found += [f"{process}_gp{k}" for k in range(1, len(box.lengths) + 1)]
        return np.array(found, dtype=object)

    def _learned(self, X: Array, ranges: Array, responses: Array, weight: Array) -> Array:
        """Length scales at the posterior mean of the logarithm of their share of the ranges."""
        shares = CANDIDATES[len(ranges) - 1]
        columns = (Box.fit(X, ranges / share, KERNELS[self.kernel], 0.0).columns(X) for share in shares)
        chances = softmax([log_evidence(part, responses, weight) for part in columns])
        return ranges / np.exp(chances @ np.log(shares))

    def _scales(self, ranges: Array) -> Array:
        """Length scale of each column, without y."""
        if isinstance(self.length_scale, str):
            return ranges / SHARES[0 if self.additive else len(ranges) - 1]
        if isinstance(self.length_scale, Real):
            return np.full(len(ranges), float(self.length_scale))
        scales = check_row_values(self.length_scale, len(ranges), "length_scale", each="column")
        assert scales is not None
        if not np.all(scales > 0):
            raise ValueError(f"length_scale must be positive; found {scales[~(scales > 0)][0]:g}.")
        return scales
