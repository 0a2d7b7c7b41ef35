"""How many components rows speak for: the bound on the log evidence, and BIC beside it."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import gammaln

from sksvi.mixture._split_merge import OTHER_SHARE
from sksvi.models.data import Table
from sksvi.models.mixture.model import MixtureModel

#: Starts of expectation maximisation, its most steps, and the gain in nats that ends it.
STARTS, STEPS, GAIN = 10, 1000, 1e-3
#: Count that is added to every value, so that logarithms are finite.
COUNT = 1e-6


def log_labelings(n_components: int, n_used: int) -> float:
    """Log of the number of ways to name the used components, each a mode of the posterior as high as the fitted one."""
    return float(gammaln(n_components + 1) - gammaln(n_components - n_used + 1))


def bic(n_components: int, sizes: tuple[int, ...], binary: bool, cells: Any, rng: np.random.Generator) -> float:
    """Log likelihood at its maximum less half of log n for each free parameter, nats: -1/2 of BIC (Schwarz 1978).

    The maximum is the highest that expectation maximisation finds from random rows.
    """
    options: dict[str, Any] = {"concentration": COUNT * n_components, "value_prior": COUNT, "binary": binary}
    model = MixtureModel(n_components, sizes, **options).replaced(start_share=OTHER_SHARE)
    data = Table(cells, np.zeros(len(cells)))
    highest = max(_climbed(model, data, rng) for _ in range(STARTS if n_components > 1 else 1))
    free = n_components - 1 + n_components * (sum(sizes) - len(sizes))
    return highest - 0.5 * free * float(np.log(len(cells)))


def _climbed(model: MixtureModel, data: Table, rng: np.random.Generator) -> float:
    """Log likelihood of all rows where expectation maximisation ends."""
    q, before = model.begin(data, rng), -np.inf
    for _ in range(STEPS):
        terms = model.terms(model.view_at_mean(q), data, None, None)
        here = float(terms.value.sum())
        if here - before < GAIN:
            break
        q, before = model.updated(model.pull_back(terms, data), {}), here
    return here
