"""Ways to forecast a series of counts: parameters from its first points, then one point after the other."""

from __future__ import annotations

import warnings
from typing import Any, Protocol

import numpy as np

from benchmarks._lib import Array
from benchmarks.series._data import Series


class Method(Protocol):
    """`fit` sees the first points; `ahead` gives log probabilities of what follows the first t, t never smaller."""

    def fit(self, series: Series) -> None: ...

    def ahead(self, t: int, steps: int) -> Array: ...


class Dynamic:
    """`DynamicGLM`: variances from the first points, then `partial_fit`."""

    def __init__(self, **parameters: Any) -> None:
        self.parameters = parameters

    def fit(self, series: Series) -> None:
        """Variances, and the states after the first points."""
        from sksvi import DynamicGLM

        self.series, self.at = series, series.first
        rows = slice(0, self.at)
        self.model = DynamicGLM(**{**series.dynamic, **self.parameters})
        self.model.fit(series.columns(rows), series.y[rows], offset=series.shift(rows))

    def ahead(self, t: int, steps: int) -> Array:
        """Each point alone, given the first t."""
        from sksvi.predictive import Predictive

        series = self.series
        for at in range(self.at, t):
            row = slice(at, at + 1)
            self.model.partial_fit(series.columns(row), series.y[row], offset=series.shift(row))
        self.at, rows = t, slice(t, t + steps)
        latent = self.model.forecast_latent(steps, series.columns(rows), series.shift(rows))
        mean, std = latent["mean"].to_numpy(), latent["std"].to_numpy()
        return Predictive(self.model.likelihood_, mean, std**2).log_prob(series.y[rows])


class Static:
    """`BayesianGLMRegressor` without a memory but its coefficients, fitted anew to the first t points.

    Columns: those of the series, and where it has a season one per phase; `line`: time itself too.
    """

    def __init__(self, likelihood: str, line: bool = False) -> None:
        self.likelihood, self.line = likelihood, line

    def fit(self, series: Series) -> None:
        """The columns."""
        parts = [np.zeros((len(series), 1)) if series.X is None else series.X]
        if series.dynamic.get("seasonal"):
            parts.append((np.arange(len(series))[:, None] % series.lag == np.arange(1, series.lag)).astype(float))
        if self.line:
            parts.append(np.arange(len(series))[:, None] / series.first)
        self.series, self.X = series, np.hstack(parts)

    def ahead(self, t: int, steps: int) -> Array:
        """Each point alone, given the first t."""
        from sksvi import BayesianGLMRegressor

        past, rows = slice(0, t), slice(t, t + steps)
        model = BayesianGLMRegressor(likelihood=self.likelihood)
        model.fit(self.X[past], self.series.y[past], offset=self.series.shift(past))
        return model.log_predictive_density(self.X[rows], self.series.y[rows], offset=self.series.shift(rows))


class Naive:
    """Negative binomial around a multiple of what came a season ago; multiple and dispersion from the first points."""

    def _before(self, rows: Array, known: int) -> Array:
        lag = self.series.lag
        back = lag * np.maximum(1, -(-(rows - known + 1) // lag))
        y = self.series.y[rows - back] + 0.5
        shift = self.series.offset
        return np.log(y) if shift is None else np.log(y) + shift[rows] - shift[rows - back]

    def fit(self, series: Series) -> None:
        """Multiple and dispersion."""
        from sksvi import BayesianGLMRegressor

        self.series = series
        rows = np.arange(series.lag, series.first)
        self.model = BayesianGLMRegressor(likelihood="negative-binomial", fit_intercept=False)
        self.model.fit(np.ones((len(rows), 1)), series.y[rows], offset=self._before(rows, len(series)))

    def ahead(self, t: int, steps: int) -> Array:
        """Each point alone, given the first t."""
        rows = np.arange(t, t + steps)
        ones = np.ones((steps, 1))
        return self.model.log_predictive_density(ones, self.series.y[rows], offset=self._before(rows, t))


class Structural:
    """statsmodels' `UnobservedComponents` of log(1 + y), which gives a count the mass between its neighbours' halves.

    Variances from the first points; coefficients are states, as ours.
    """

    def __init__(self, level: str = "llevel", **parameters: Any) -> None:
        self.parameters = {"level": level, **parameters}

    def fit(self, series: Series) -> None:
        """Variances."""
        self.series = series
        self.z = np.log1p(series.y) - (0.0 if series.offset is None else series.offset)
        self.params = self._model(series.first).fit(disp=0).params

    def _model(self, t: int) -> Any:
        from statsmodels.tsa.statespace.structural import UnobservedComponents

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            own = {**self.series.structural, **self.parameters}
            return UnobservedComponents(self.z[:t], exog=self.series.columns(slice(0, t)), mle_regression=False, **own)

    def ahead(self, t: int, steps: int) -> Array:
        """Each point alone, given the first t."""
        from scipy.stats import norm

        rows = slice(t, t + steps)
        found = self._model(t).filter(self.params).get_forecast(steps, exog=self.series.columns(rows))
        mean, std = np.asarray(found.predicted_mean), np.asarray(found.se_mean)
        y, shift = self.series.y[rows], self.series.shift(rows)
        mean = mean if shift is None else mean + shift
        high = (np.log(y + 1.5) - mean) / std
        low = np.where(y > 0, (np.log(y + 0.5) - mean) / std, -np.inf)
        # The tail on the side where both ends are: differences of probabilities near 1 lose digits.
        flip = low > 0
        low, high = np.where(flip, -high, low), np.where(flip, -low, high)
        return norm.logcdf(high) + np.log1p(-np.exp(norm.logcdf(low) - norm.logcdf(high)))
