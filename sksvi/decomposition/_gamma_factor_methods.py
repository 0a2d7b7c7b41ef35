"""Methods of a fitted gamma factor model: densities and factors of rows, draws, and a table of loadings and noise."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.special import gammaincinv, logsumexp
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from sksvi._names import feature_names
from sksvi._runtime import parallel
from sksvi._typing.arrays import DataFrame, MatrixLike, RandomState
from sksvi.decomposition._gamma_factor_encoding import ROWS, ScatterEncoding
from sksvi.estimators.base import BaseSVI
from sksvi.estimators.checks import check_count, check_flag, check_seed
from sksvi.estimators.completion import checked_factors
from sksvi.estimators.draws import PosteriorDraws
from sksvi.estimators.summaries import columns_of_draws, concatenated, point_rows
from sksvi.estimators.validation import validate_data
from sksvi.families import Gamma
from sksvi.integrals.gamma_nodes import nodes, orders
from sksvi.models.gamma_factor.density import Scatter, projection
from sksvi.partitions.lazy import added
from sksvi.predictive.plain import tail_of

Array = np.ndarray

#: Points of the posterior over which the projection to factors is averaged, and rows that are drawn at a time.
POINTS, DRAWN_ROWS = 64, 256
#: Least learned noise variance, as a share of its columns' variance.
NOISE_FLOOR = 1e-4
#: A fixed noise variance is far off below and above these shares of the columns' mean variance.
TOO_SMALL, TOO_LARGE = 1e-4, 2.0
#: Standard deviations of columns that differ by such a factor have no unit in common.
FAR_APART = 1e3


class GammaFactorMethods(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseSVI):
    """Methods of a fitted gamma factor model."""

    LAYOUT = (
        BaseSVI.LAYOUT
        + """
        _record.choices.n_components count k
        state_.q.loadings.mean (k,d); posterior_._blocks.loadings.mean (k,d); components_ (k,d) x >=0
        noise_variance_ (d) f >0; scale_ (d) f >0; mean_ (d) f; _encoding.scale (d)
        _own.mean (k,d); posterior_._blocks where all(np.shape(q.mean) in ((k, d), (d,)) for q in it.values())
        posterior_._blocks where len({len(vars(q).get('draws', ())) for q in it.values()}) <= 1
        fit_mean_ flag where not it or self._encoding.scatter.centred
        state_.q.noise.value? (1|d) f
    """
    )

    components_: Array
    noise_variance_: Array
    mean_: Array
    fit_mean_: bool
    scale_: Array
    noise_variance: str | float
    n_components: int
    n_jobs: int | None
    _encoding: ScatterEncoding
    #: Loadings under q, in the units of X.
    _own: Gamma

    def _rows(self, X: Any) -> Array:
        check_is_fitted(self)
        return np.asarray(validate_data(self, X, reset=False, **ROWS))

    def _points(self, n_points: int, number: int) -> Array:
        """Points (S, K, D) of q, in an order of their own for each use."""
        q = self._own
        order = orders(n_points, q.shape.size, self.state_.seed + number)
        return nodes(q.shape.ravel(), order)[0].reshape(-1, *q.shape.shape) / q.rate

    @property
    def _widened(self) -> float:
        """Variance of a new row over that of a row about the true mean: 1 + 1/n where the mean was learned."""
        return 1.0 + 1.0 / self._encoding.scatter.n if self.fit_mean_ else 1.0

    @property
    def _fitted_to(self) -> Scatter:
        """The scatter of the rows about the mean that the fit has."""
        return self._encoding.scatter if self.fit_mean_ else self._encoding.scatter.about_zero()

    # ---- rows
    def transform(self, X: MatrixLike) -> Array:
        """Posterior mean of the factors of every row, averaged over the loadings under q.

        Parameters
        ----------
        X : array-like of shape (n, D)

        Returns
        -------
        ndarray of shape (n, K)
            In units of their standard deviation a priori; they may be negative.
        """
        X = self._rows(X)
        average = projection(self._points(POINTS, 2), self.noise_variance_).mean(0)
        with parallel.working():
            return ((X.astype(np.float64) - self.mean_) @ average.T).astype(X.dtype, copy=False)

    def inverse_transform(self, X: MatrixLike) -> Array:
        """Expected rows from factors, by `components_`.

        Parameters
        ----------
        X : array-like of shape (n, K)

        Returns
        -------
        ndarray of shape (n, D)

        Raises
        ------
        ValueError
            For another number of columns than factors.
        """
        check_is_fitted(self)
        factors = checked_factors(X, len(self.components_), order="C")
        return (factors @ self.components_ + self.mean_).astype(factors.dtype, copy=False)

    def score_samples(self, X: MatrixLike, n_draws: int = 64, plug_in: bool = False) -> Array:
        """Log density of every row, integrated over q of the loadings and the posterior of the mean.

        Parameters
        ----------
        X : array-like of shape (n, D)
        n_draws : int, default=64
            Points of q over which densities are averaged; the same in every call.
        plug_in : bool, default=False
            Whether to take the density at `get_covariance` instead: one Gaussian, and so much faster.

        Returns
        -------
        ndarray of shape (n,)
            Nats.
        """
        X, (K, D) = self._rows(X), self.components_.shape
        n_draws = check_count(n_draws, "n_draws", bytes_each=8.0 * D * (K + 2 * D))
        if check_flag(plug_in, "plug_in"):
            covariances = self.get_covariance()[None]
        else:
            L = self._points(n_draws, 3)
            covariances = np.swapaxes(L, -1, -2) @ L + np.diag(self.noise_variance_)
        whiten = np.linalg.inv(np.linalg.cholesky(covariances * self._widened))
        log_det = np.log(np.diagonal(whiten, axis1=-2, axis2=-1)).sum(-1) - 0.5 * X.shape[1] * np.log(2.0 * np.pi)

        def one(part: slice) -> Array:
            rows = (X[part] - self.mean_).T
            each = np.stack([c - 0.5 * np.square(W @ rows).sum(0) for W, c in zip(whiten, log_det, strict=True)])
            return logsumexp(each, axis=0) - np.log(len(each))

        with parallel.working():
            parts = parallel.slices(len(X), parallel.chunk_rows(X.shape[1], False))
            return np.concatenate(list(parallel.in_order(one, parts, parallel.n_threads(self.n_jobs))))

    def log_predictive_density(self, X: MatrixLike) -> Array:
        """Log density of every row, integrated over the posterior: `score_samples`.

        Parameters
        ----------
        X : array-like of shape (n, D)

        Returns
        -------
        ndarray of shape (n,)
            Nats.
        """
        return self.score_samples(X)

    def score(self, X: MatrixLike, y: object = None) -> float:
        """Mean log density of rows, nats.

        Parameters
        ----------
        X : array-like of shape (n, D)
        y : None
            Ignored.

        Returns
        -------
        float
        """
        total, n = added(self, "_scored", X)
        return float(total / n)

    def _scored(self, X: Any) -> tuple[float, int]:
        each = self.score_samples(X)
        return np.sum(each), len(each)

    # ---- the distribution of a row
    def get_covariance(self) -> Array:
        """Mean of the covariance of rows, ΛΛᵀ + Ψ, under q.

        Returns
        -------
        ndarray of shape (D, D)
        """
        check_is_fitted(self)
        q = self._own
        return q.mean.T @ q.mean + np.diag(q.variance.sum(0) + self.noise_variance_)

    def get_precision(self) -> Array:
        """Inverse of `get_covariance`.

        Returns
        -------
        ndarray of shape (D, D)
        """
        return np.linalg.inv(self.get_covariance())

    def sample(self, n_samples: int = 1, random_state: RandomState = None) -> Array:
        """New rows, each from a draw of the posterior.

        Parameters
        ----------
        n_samples : int, default=1
        random_state : int, RandomState or None

        Returns
        -------
        ndarray of shape (n_samples, D)
        """
        check_is_fitted(self)
        n_samples = check_count(n_samples, "n_samples", bytes_each=16.0 * self.components_.shape[1])
        rng = check_seed(random_state)
        return np.concatenate(list(self._drawn(n_samples, rng))).astype(self._encoding.dtype, copy=False)

    def _drawn(self, n: int, rng: np.random.RandomState) -> Iterator[Array]:
        for part in parallel.slices(n, DRAWN_ROWS):
            size, noise = part.stop - part.start, self.noise_variance_
            factors = rng.standard_normal((size, len(self.components_)))
            drawn = self._posterior_draws(size, rng).variables
            common = np.einsum("nk,nkd->nd", factors, drawn["loadings"].values)
            own = np.sqrt(drawn["noise_variance"].values if "noise_variance" in drawn else noise)
            yield self.mean_ + np.sqrt(self._widened) * (common + own * rng.standard_normal((size, len(noise))))

    # ---- loadings
    def summary(self, coverage: float = 0.9) -> DataFrame:
        """Posterior of the loadings, and the learned noise.

        With ``uncertainty="corrected"`` means and quantiles of draws, which know what a loading shares and trades with
        the others and with learned noise, and how far factors may turn into each other, which the data do not tell;
        else those of q, each given all others: too narrow.

        Parameters
        ----------
        coverage : float, default=0.9
            Of the equal-tailed interval (lower, upper).

        Returns
        -------
        DataFrame
            Columns mean, std, lower, upper; one row per component and column of X. Learned noise follows under an empty
            component, as ``std(residual)`` or per column as ``std(residual, name)``: of q it is a point with the spread
            that the data's curvature leaves it at the loadings of the fit.

        Raises
        ------
        ValueError
            For a coverage outside (0, 1).
        """
        import pandas as pd

        check_is_fitted(self)
        tail, q = tail_of(coverage), self._own
        names = list(feature_names(self))
        index = pd.MultiIndex.from_product([self.get_feature_names_out(), names], names=["component", "feature"])
        drawn = vars(self.posterior_["loadings"]).get("draws")
        if drawn is None:
            ends = (gammaincinv(q.shape, end) / q.rate for end in (tail, 1.0 - tail))
            found = zip(("mean", "std", "lower", "upper"), (q.mean, q.std, *ends), strict=True)
            columns = {name: values.ravel() for name, values in found}
        else:
            columns = columns_of_draws(drawn.reshape(len(drawn), -1), tail)
        return concatenated([pd.DataFrame(columns, index=index), self._noise_rows(names, coverage)])

    def _noise_rows(self, names: list[Any], coverage: float) -> DataFrame:
        """Rows of `summary` of learned noise, none of noise that is given."""
        import pandas as pd

        learned = self.state_.q.get("noise")
        if learned is None:
            return pd.DataFrame()
        labels = ["std(residual)"] if len(learned.value) == 1 else [f"std(residual, {name})" for name in names]
        if "noise_variance" in self.posterior_:
            std = np.sqrt(self.posterior_["noise_variance"].draws[:, : len(labels)])
            return pd.DataFrame(columns_of_draws(std, tail_of(coverage)), index=labels)

        def noise(log_noise: Array) -> dict[str, float]:
            std = np.sqrt(NOISE_FLOOR + np.exp(log_noise)) * self.scale_[: len(labels)]
            return dict(zip(labels, std.tolist(), strict=True))

        return point_rows(noise(learned.value), noise, learned.value, learned.information, coverage)

    def _posterior_draws(self, n: int, rng: Any) -> PosteriorDraws:
        # One seed: blocks that were drawn are of the same draws.
        return super()._posterior_draws(n, rng.randint(np.iinfo(np.int32).max))

    def _axes_of_blocks(self) -> dict[str, dict[str, Any]]:
        columns = {"feature": feature_names(self)}
        return {"loadings": {"component": self.get_feature_names_out(), **columns}, "noise_variance": columns}

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def noise_warnings(model: GammaFactorMethods) -> Iterator[str]:
    """Warnings about the noise: a variance that does not fit the columns, or a learned one at its lower limit."""
    if model._fitted_to.freedom < 2:
        return
    if model.noise_variance != "per-feature":
        yield from common_noise_warnings(model)
    if isinstance(model.noise_variance, str):
        yield from least_noise_warnings(model, NOISE_FLOOR)
    if model.noise_variance == "per-feature":
        yield from constant_column_warnings(model)


def common_noise_warnings(model: GammaFactorMethods) -> Iterator[str]:
    """Warnings about one noise variance for all columns: a wrong unit, else a fit worse than independent columns."""
    variance, informed = model._fitted_to.variances, model._fitted_to.informed
    given = model.noise_variance
    if not isinstance(given, str):
        mean = float(variance[informed].mean()) if informed.any() else float(given)
        if not TOO_SMALL <= given / mean <= TOO_LARGE:
            yield (
                f"noise_variance={given:g} is absolute, as is the prior of the loadings, and the "
                f"columns of X have a mean variance of {mean:g}: standardise them, or learn the noise with "
                'noise_variance="per-feature", which needs no unit.'
            )
            return
    own, alone = densities(model)
    if own < alone:
        yield (
            f"the fit explains its own rows worse than columns that are independent would: {own:.4g} nats a row for "
            f"{alone:.4g}. A noise variance of {float(model.noise_variance_[0]):.3g} in every column is not what "
            f"{model.n_components} factors leave of variances of {variance[informed].min():.3g} to "
            f'{variance[informed].max():.3g}: set noise_variance="per-feature".'
        )


def densities(model: GammaFactorMethods) -> tuple[float, float]:
    """Mean log density of the rows of a fit at its covariance, and under independent columns: from the scatter alone.

    Columns that are constant are left out of both. What learning a variance per column gains by chance is taken off.
    """
    data = model._fitted_to
    informed = data.informed
    size = int(informed.sum())
    at = np.ix_(informed, informed)
    covariance = model.get_covariance()[at] * model._widened
    log_det = float(np.linalg.slogdet(covariance)[1])
    square = float(np.trace(np.linalg.solve(covariance, data.products[at]))) / data.n
    constant = size * np.log(2.0 * np.pi)
    alone = constant + float(np.log(data.variances[informed]).sum()) + size
    return -0.5 * (constant + log_det + square), -0.5 * alone - size / data.freedom


def constant_column_warnings(model: GammaFactorMethods) -> Iterator[str]:
    """Warning about columns without a unit of their own, where there is no common one either."""
    informed = model._encoding.scatter.informed
    scale = model.scale_[informed]
    if not informed.all() and len(scale) and scale.max() > FAR_APART * scale.min():
        names = np.asarray(feature_names(model))[~informed]
        yield (
            f"{len(names)} columns ({', '.join(map(repr, names[:5].tolist()))}) are constant, which says nothing of "
            f"their units, and standard deviations of the others are {scale.min():.3g} to {scale.max():.3g}: noise and "
            f"loadings of constant columns are measured in {model.scale_[~informed][0]:.3g}. Drop them, or give all "
            "columns units in which they are alike."
        )


def least_noise_warnings(model: GammaFactorMethods, floor: float) -> Iterator[str]:
    """Warning about learned noise variances at their lower limit, a share `floor` of the column's variance."""
    names = np.asarray(getattr(model, "feature_names_in_", np.arange(model.n_features_in_)))
    ended = model._fitted_to.informed & (model.noise_variance_ < 2.0 * floor * model.scale_**2)
    if ended.any():
        what = ", ".join(repr(name) for name in names[ended][:5].tolist())
        yield (
            f"the learned noise variance has run to its least value ({floor:g} of the variance) in "
            f"{int(ended.sum())} columns ({what}): factors explain them altogether. Lower n_components, drop "
            "columns that others determine, or give noise_variance as a number."
        )
