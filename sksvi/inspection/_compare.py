"""Models side by side by how well they predict rows that are left out, and the weights of their best mixture."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
from scipy.special import softmax

from sksvi._runtime.user import warn_user
from sksvi._typing.arrays import DataFrame
from sksvi.inspection._loo import TRUSTED, ElpdResult, std_error

Array = np.ndarray

#: Relative change of weights that ends their search, and rounds at most.
CLOSE, ROUNDS = 1e-10, 100_000


def compare(results: Mapping[str, ElpdResult]) -> DataFrame:
    """Models by their expected log density of new rows, best first, with the weights of their best mixture.

    Parameters
    ----------
    results : dict
        Name of each model to what `loo` or `kfold` found for it, all of the same rows.

    Returns
    -------
    DataFrame
        A row per model: ``elpd`` and its standard error ``se``; ``p_loo``; ``difference``, the elpd less that of the
        best, and ``difference_se``, its standard error, from differences row by row; ``weight``, by which predictive
        distributions are mixed to predict left-out rows best (stacking); ``k_hat_above``, how many rows have a k-hat
        above 0.7. Nats.

    Raises
    ------
    TypeError
        For what is no result of `loo` or `kfold`.
    ValueError
        Without models; for results of other rows, or that left out other groups.

    Warns
    -----
    UserWarning
        Where a model has rows with a k-hat above 0.7.

    Notes
    -----
    Stacking weights are those of Yao, Vehtari, Simpson and Gelman (2018, eq. 8). A difference below about four nats is
    small whatever its standard error, which is too small for models alike, few rows and bad models (Sivula, Magnusson,
    Matamoros and Vehtari 2020).

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sksvi import BayesianGLMRegressor
    >>> from sksvi.inspection import compare, loo
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> fits = {"all": X, "bmi": X[["bmi"]]}
    >>> table = compare({name: loo(BayesianGLMRegressor().fit(part, y), part, y) for name, part in fits.items()})
    >>> table["difference"].round().to_dict()
    {'all': 0.0, 'bmi': -59.0}
    """
    check_results(results)
    names = sorted(results, key=lambda name: -results[name].elpd_loo)
    best = results[names[0]].pointwise
    rows = {}
    for name in names:
        found = results[name]
        off = found.pointwise["elpd"].to_numpy() - best["elpd"].to_numpy()
        rows[name] = {
            "elpd": found.elpd_loo,
            "se": found.se,
            "p_loo": found.p_loo,
            "difference": found.elpd_loo - results[names[0]].elpd_loo,
            "difference_se": std_error(best, off),
            "k_hat_above": len(found.untrusted),
        }
    table = pd.DataFrame.from_dict(rows, orient="index").rename_axis("model")
    weight = best["weight"].to_numpy() if "weight" in best else np.ones(len(best))
    densities = np.stack([results[name].pointwise["elpd"].to_numpy() for name in names], axis=1)
    table.insert(5, "weight", stacking_weights(densities, weight))
    for name in names:
        if len(results[name].untrusted):
            warn_user(
                f"{name!r} has {len(results[name].untrusted)} rows with a k-hat above {TRUSTED}, whose densities "
                "cannot be trusted: compare what kfold finds."
            )
    return table


def check_results(results: Mapping[str, ElpdResult]) -> None:
    """Raise unless these are results of the same rows."""
    if not isinstance(results, Mapping) or not results:
        raise ValueError("results must be a dict of names to what loo or kfold found, of one model at least.")
    for name, found in results.items():
        if not isinstance(found, ElpdResult):
            raise TypeError(
                f"results[{name!r}] is a {type(found).__name__}: give what loo or kfold found for the model."
            )
    (first, one), *others = results.items()
    for name, found in others:
        if not one.pointwise.index.equals(found.pointwise.index):
            raise ValueError(
                f"{first!r} and {name!r} are of other rows ({len(one.pointwise)} and {len(found.pointwise)}): "
                "densities compare row by row. Give both the same rows, in the same order."
            )
        if ("group" in one.pointwise) != ("group" in found.pointwise):
            raise ValueError(
                f"of {first!r} and {name!r} one leaves out groups, the other rows: give both the same groups."
            )


def stacking_weights(densities: Array, weight: Array) -> Array:
    """Weights (M,) of the mixture of M models with the largest sum of log densities of rows.

    Parameters
    ----------
    densities : ndarray of shape (n, M)
        Log densities of left-out rows, nats.
    weight : ndarray of shape (n,)
        How often a row counts.
    """
    from scipy.optimize import minimize

    m = densities.shape[1]
    if m == 1:
        return np.ones(1)
    shifted = np.exp(densities - densities.max(axis=1, keepdims=True))

    def loss(free: Array) -> tuple[float, Array]:
        w = softmax(np.append(free, 0.0))
        mixed = shifted @ w
        slope = (weight / mixed) @ shifted / weight.sum()
        return -float(weight @ np.log(mixed)) / weight.sum(), -(w * (slope - slope @ w))[:-1]

    found = minimize(loss, np.zeros(m - 1), jac=True, method="BFGS", options={"gtol": 1e-8})
    return _polished(softmax(np.append(found.x, 0.0)), shifted, weight / weight.sum())


def _polished(w: Array, shifted: Array, share: Array) -> Array:
    """The weights after steps of EM, none of which loses, until they stay."""
    for _ in range(ROUNDS):
        new = w * ((share / (shifted @ w)) @ shifted)
        if np.all(np.abs(new - w) <= CLOSE):
            return new
        w = new
    return w
