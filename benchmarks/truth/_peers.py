"""Log predictive densities of what a user would have called before."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import stats
from scipy.special import gammaln, xlogy

from benchmarks._lib import Array

#: A peer's log density of y at the rows of X.
Density = Callable[[Any, Array], Array]


def plain(X: Any, groups: tuple[str, ...] = (), like: Any = None) -> Array:
    """Numbers as they are, text and groups as columns of 0 and 1 (those that ``like`` has)."""
    if not hasattr(X, "columns"):
        return np.asarray(X, dtype=float)
    import pandas as pd

    wide = pd.get_dummies(X.astype(dict.fromkeys(groups, str)), dtype=float)
    if like is not None:
        seen = pd.get_dummies(like.astype(dict.fromkeys(groups, str)), dtype=float).columns
        wide = wide.reindex(columns=seen, fill_value=0.0)
    return wide.to_numpy(float)


def bayesian_ridge(X: Array, y: Array) -> Density:
    from sklearn.linear_model import BayesianRidge

    model = BayesianRidge().fit(X, y)
    return lambda Z, t: stats.norm.logpdf(t, *model.predict(Z, return_std=True))


def ridge_cv(X: Array, y: Array) -> Density:
    """RidgeCV() of standardised columns with the variance of its residuals, n - 1 degrees of freedom."""
    from sklearn.linear_model import RidgeCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    model = make_pipeline(StandardScaler(), RidgeCV()).fit(X, y)
    sd = np.sqrt(np.sum((y - model.predict(X)) ** 2) / (len(y) - 1))
    return lambda Z, t: stats.norm.logpdf(t, model.predict(Z), max(sd, 1e-9))


def logistic(X: Array, y: Array) -> Density:
    """LogisticRegression() on columns as they are; ``max_iter`` alone is raised."""
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(max_iter=1000).fit(X, y)
    return _classes(model)


def scaled_logistic(X: Array, y: Array) -> Density:
    """LogisticRegression() on standardised columns."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return _classes(make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)).fit(X, y))


def _classes(model: Any) -> Density:
    """Log probability of each label; one that was never fitted has the smallest positive number."""
    columns = {label: k for k, label in enumerate(model.classes_)}

    def density(Z: Array, t: Array) -> Array:
        p = model.predict_proba(Z)
        return np.log([max(row[columns[k]], 1e-300) if k in columns else 1e-300 for row, k in zip(p, t)])

    return density


def poisson_regressor(X: Array, y: Array) -> Density:
    """PoissonRegressor() of standardised columns."""
    from sklearn.linear_model import PoissonRegressor
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    model = make_pipeline(StandardScaler(), PoissonRegressor(max_iter=1000)).fit(X, y)
    return lambda Z, t: _poisson(t, model.predict(Z))


def _poisson(y: Array, mean: Array) -> Array:
    mean = np.maximum(mean, 1e-300)
    return xlogy(y, mean) - mean - gammaln(y + 1)


def poisson_glm(X: Array, y: Array) -> Density:
    """Statsmodels' Poisson GLM by maximum likelihood."""
    import statsmodels.api as sm

    _enough(X)
    coef = sm.GLM(y, sm.add_constant(X, has_constant="add"), family=sm.families.Poisson()).fit().params
    return lambda Z, t: _poisson(t, np.exp(np.minimum(coef[0] + Z @ coef[1:], 700.0)))


def negative_binomial(X: Array, y: Array) -> Density:
    """Statsmodels' negative binomial by maximum likelihood, its dispersion too."""
    import statsmodels.api as sm

    _enough(X)
    found = sm.NegativeBinomial(y, sm.add_constant(X, has_constant="add")).fit(disp=0, maxiter=200).params
    size = 1 / max(found[-1], 1e-6)

    def density(Z: Array, t: Array) -> Array:
        mean = np.exp(np.clip(found[0] + Z @ found[1:-1], -300, 300))
        return stats.nbinom.logpmf(t, size, size / (size + mean))

    return density


def ordered(X: Array, y: Array) -> Density:
    """Statsmodels' proportional odds by maximum likelihood."""
    from statsmodels.miscmodels.ordinal_model import OrderedModel

    _enough(X)
    model = OrderedModel(y, X, distr="logit")
    found, levels = model.fit(method="bfgs", disp=0).params, {label: k for k, label in enumerate(np.unique(y))}

    def density(Z: Array, t: Array) -> Array:
        p = model.predict(found, exog=Z)
        return np.log([max(row[levels[k]], 1e-300) if k in levels else 1e-300 for row, k in zip(p, t)])

    return density


def process(X: Array, y: Array) -> Density:
    """scikit-learn's GaussianProcessRegressor with one length scale and noise learned."""
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

    kernel = ConstantKernel() * RBF() + WhiteKernel()
    model = GaussianProcessRegressor(kernel, normalize_y=True).fit(X, y)
    return lambda Z, t: stats.norm.logpdf(t, *model.predict(Z, return_std=True))


def process_labels(X: Array, y: Array) -> Density:
    """scikit-learn's GaussianProcessClassifier with one length scale learned."""
    from sklearn.gaussian_process import GaussianProcessClassifier
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel

    return _classes(GaussianProcessClassifier(ConstantKernel() * RBF()).fit(X, y))


def local_level(y: Array, X: Any = None) -> Callable[[int, Any], tuple[Array, Array]]:
    """Statsmodels' local level by maximum likelihood: mean and sd of y, so many steps ahead."""
    import statsmodels.api as sm

    found = sm.tsa.UnobservedComponents(y, "llevel", exog=None if X is None else np.asarray(X)).fit(disp=0)

    def ahead(steps: int, Z: Any) -> tuple[Array, Array]:
        forecast = found.get_forecast(steps, exog=None if Z is None else np.asarray(Z))
        return forecast.predicted_mean, forecast.se_mean

    return ahead


def _enough(X: Array) -> None:
    """Maximum likelihood wants two rows a coefficient."""
    if len(X) < 2 * (X.shape[1] + 1):
        raise ValueError("fewer than two rows a coefficient")


#: Peers by name, as cells name them.
PEERS: dict[str, Callable[[Array, Array], Density]] = {
    "BayesianRidge()": bayesian_ridge,
    "LogisticRegression()": logistic,
    "statsmodels Poisson": poisson_glm,
    "statsmodels NegativeBinomial": negative_binomial,
    "statsmodels OrderedModel": ordered,
    "PoissonRegressor()": poisson_regressor,
    "GaussianProcessRegressor": process,
    "GaussianProcessClassifier": process_labels,
}


def fitted_peer(name: str, X: Any, y: Array, groups: tuple[str, ...] = ()) -> Density | None:
    """The peer's density, or None where it cannot be fitted to these rows."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            density = PEERS[name](plain(X, groups), y)
        except Exception:
            return None
    return lambda Z, t: density(plain(Z, groups, X if hasattr(X, "columns") else None), t)
