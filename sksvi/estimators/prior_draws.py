"""y from the prior of an estimator, for every estimator that draws its parameters."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import is_classifier

from sksvi.estimators.checks import n_rows
from sksvi.estimators.draws import PosteriorDraws, draws_of_y
from sksvi.estimators.levels import are_numbers

Array = np.ndarray


def drawn_from_prior(estimator: Any, X: Any, n: int, rng: Any, offset: Any = None) -> tuple[PosteriorDraws, Array]:
    """Draws of the parameters from their prior, and of y at the rows of X, (n, n_rows), as users have them.

    Raises
    ------
    TypeError
        For an estimator without draws from its prior.
    """
    if not hasattr(estimator, "_prior_draws"):
        raise TypeError(
            f"{type(estimator).__name__} has no draws from its prior: linear models and mixed effects have, of proper "
            "priors."
        )
    twin, draws = estimator._prior_draws(X, n, rng, offset)
    return draws, shown_targets(twin, drawn_targets(twin, draws, n_rows(X), rng))


def drawn_targets(twin: Any, draws: PosteriorDraws, n_rows: int, rng: Any) -> Array:
    """One y of each row at every draw, (S, n), as the likelihood has it; of a binomial target one trial."""
    paired = draws.nodes[0].likelihood.traits.paired
    return draws_of_y(twin, draws, None, n_rows, None, rng, np.ones(n_rows, int) if paired else None)


def shown_targets(twin: Any, values: Array) -> Array:
    """Targets as a fit takes them: labels, levels, numbers."""
    if is_classifier(twin):
        return np.asarray(twin.classes_)[values.astype(int)]
    likelihood = twin.likelihood_
    if likelihood.traits.ordered and hasattr(twin, "levels_") and are_numbers(twin.levels_):
        return np.asarray(twin.levels_)[values.astype(int)]
    return values
