"""Draws of a process from its prior: kernel and likelihood, f at rows, and what y follows."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from scipy.linalg import eigh
from sklearn.base import clone
from sklearn.utils.validation import validate_data

from sksvi.estimators.checks import n_rows
from sksvi.estimators.draws import NodeDraws, PosteriorDraws, Variable, constant, placeholder, scalars
from sksvi.estimators.encoding import WHOLE, GivenRows
from sksvi.estimators.offsets import given_likelihood
from sksvi.models.gp import kernels
from sksvi.models.gp.hyperpriors import HyperPrior, hyper_prior
from sksvi.partitions.collections import is_collection

Array = np.ndarray


def fixed_by(estimator: Any, X: Any, offset: Any) -> tuple[Any, Any, HyperPrior | None]:
    """An estimator with what the data fix, its kernel, and the priors of its hyperparameters; None: it learns none.

    Before a fit these are rows with targets of `placeholder`; after one units are those of the fit.
    """
    if is_collection(X):
        raise TypeError("X is a Dask collection, and draws are made in memory: give X.compute().")
    fitted = hasattr(estimator, "_process")
    twin = copy.copy(estimator) if fitted else clone(estimator)
    learns = bool(twin.optimize_hyperparameters)
    if fitted:
        kernel, likelihood, unit = twin.kernel_, twin.likelihood_, getattr(twin._encoding, "target_unit", 1.0)
        density = hyper_prior(kernel, likelihood, twin._column_spread, unit, twin.kernel) if learns else None
    else:
        data = twin._encoded(GivenRows(X, placeholder(twin, n_rows(X)), None, offset), True, WHOLE)
        model = twin._build_model(data)[0]
        kernel, likelihood, density = model.kernel, model.likelihood, model.density
        learns = learns and kernel.n_dims > 0
    name = type(twin).__name__
    if twin.hyperparameters == "point" and learns:
        raise ValueError(
            f"hyperparameters='point' of this {name} finds its kernel by the bound, without a prior: set "
            "hyperparameters='integrated', or optimize_hyperparameters=False for the kernel that you gave."
        )
    if likelihood.learned and not twin.optimize_hyperparameters:
        raise ValueError(
            f"likelihood={given_likelihood(twin)!r} of this {name} learns {', '.join(likelihood.learned)} without a "
            f"prior beside optimize_hyperparameters=False: give numbers, as in {likelihood.scales.example}."
        )
    return twin, kernel, density


def prior_draws(estimator: Any, X: Any, n: int, rng: Any, offset: Any = None) -> tuple[Any, PosteriorDraws]:
    """An estimator with what the data fix, and draws of hyperparameters and of f at the rows of X.

    Raises
    ------
    TypeError, ValueError
        Where there is no prior, and for rows in partitions.
    """
    twin, kernel, density = fixed_by(estimator, X, offset)
    likelihood, size = twin.likelihood_, kernel.n_dims
    rows = validate_data(twin, X, reset=False, dtype=np.float64)
    columns = (len(rows), *([likelihood.n_latents] if likelihood.n_latents > 1 else []))
    root, nodes, latents, values = None, [], [], np.tile(kernel.theta, (n, 1))
    if density is not None:
        values = np.array([density.drawn(kernel, rng) for _ in range(n)])
    for s, h in enumerate(values):
        if root is None or density is not None:
            variances, vectors = eigh(kernels.cross(kernel.clone_with_theta(h[:size]), rows, rows))
            root = vectors * np.sqrt(np.maximum(variances, 0.0))  # zeros that rounding has made negative
        f = root @ rng.standard_normal(columns) + getattr(twin, "mean_", 0.0)
        f = f if offset is None else f + np.reshape(offset, (-1, *[1] * (f.ndim - 1)))
        latents.append(f)
        own = likelihood.replace(h[size:]) if len(h) > size else likelihood
        nodes.append(NodeDraws(np.array([s]), own, constant(f[:, None])))
    places = {"row": np.arange(len(rows))} | ({"class": np.asarray(twin.classes_)} if len(columns) > 1 else {})
    drawn = {"latents": Variable(np.array(latents), places), **scalars(twin._columns_of(kernel, values))}
    return twin, PosteriorDraws(n, drawn, nodes)
