"""Completion: what the known entries of a row say about the others."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import logsumexp

from sksvi.models.base import Data
from sksvi.models.beta_process import BetaProcess, Globals, at_values

Array = np.ndarray


def halves(X: Array) -> tuple[Array, Array]:
    """Every second observed entry of each row (the first, third, ...) and the others, NaN elsewhere."""
    seen = ~np.isnan(X)
    odd = np.cumsum(seen, 1) % 2 == 1
    return np.where(seen & odd, X, np.nan), np.where(seen & ~odd, X, np.nan)


def local_draws(model: BetaProcess, view: Globals, data: Data, rows: slice, key: int, random: bool) -> Array:
    """z w of the rows under their local posterior, (S, n, K): draws, or with random=False E z w where it is known.

    Every row draws from the same stream, so that results depend on nothing but the row.
    """
    batch = model.batch(data, rows)
    batch.streams = np.zeros_like(batch.streams)
    terms = model.terms(view, batch, None, np.random.default_rng(key))
    if not random or terms.law is None:
        return terms.omega
    theta, u, inverse = terms.law
    rng = np.random.default_rng([key, 1])
    shape = (model.n_local_samples, 1, theta.shape[1])
    used = rng.random(shape) < theta
    return np.where(used, u + np.sqrt(inverse) * rng.standard_normal(shape), 0.0)


def stored_view(draws: dict[str, Any], i: int, order: Array) -> Globals:
    """The i-th draw of the full sampler."""
    features = draws["features"][i][order]
    logit, noise = draws["logit"][i][order], draws["noise"][i]
    return at_values(features, logit, noise, float(draws["weight"][i]), features.shape[1])


def log_density(view: Globals, omega: Array, target: Array, wanted: Array) -> Array:
    """log N(target | omega Φ, 1/noise) summed over the wanted entries of each row, (S, n)."""
    error = np.square(target - omega @ view.features)
    return 0.5 * ((view.log_noise - np.log(2 * np.pi) - view.noise * error) * wanted).sum(-1)


def log_mean(logs: Array) -> Array:
    """Log of the mean of exp(logs) over the first axis."""
    return logsumexp(logs, axis=0) - np.log(len(logs))
