"""A fit together with its rows, for comparisons of q with the exact posterior (`sksvi.inspection`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from sksvi._runtime.user import warn_user
from sksvi.inference.problem import Problem
from sksvi.models.base import Blocks

Array = np.ndarray

#: Relative differences that are no rounding: of the weight of rows, and of the bound at them.
ROUNDING, APART = 1e-6, 1e-3


@dataclass(frozen=True)
class PosteriorTarget:
    """A fit with its rows: q, its problem, and the coordinates of one block as users see them.

    ``block`` : its name in q. ``index`` , ``mean`` , ``std`` (C,): what users call its coordinates, and what they have
    of it. ``shown`` : these coordinates (S, C) of draws of the block. ``final_bound`` : the bound that the fit ended
    at, without the log density of the hyperparameters; None: it is no number to compare with.
    """

    problem: Problem
    q: Blocks
    block: str
    index: Any
    mean: Array
    std: Array
    shown: Callable[[Array], Array]
    final_bound: float | None = None

    def check_bound(self, found: float) -> None:
        """Warn where the bound at these rows differs from the one that the fit ended at."""
        expected = self.final_bound
        if expected is not None and abs(found - expected) > APART * (abs(expected) + 1.0):
            warn_user(
                f"the bound of q is {found:.6g} at these rows and was {expected:.6g} where the fit ended: X and y are "
                "not those of the fit, or not as it had them (in a pipeline give the pipeline), or q was changed "
                "since. What follows is about q and these rows."
            )


def final_bound(estimator: Any, paid: float) -> float | None:
    """Bound that a fit ended at, less `paid`; None of a fit that was cut off, and of a stream, which saw no row twice.

    ``paid`` : log density of the hyperparameters, a part of the bound that the fit ended at.
    """
    state = estimator.state_
    if not state.finished or state.counted:
        return None
    return float(state.bound - paid)


def paid_by(estimator: Any, model: Any) -> float:
    """Log prior density of the hyperparameters of a model, by their rules."""
    return float(sum(rule.log_density(estimator.state_.shown) for rule in model.hyper.values()))


def check_same_rows(estimator: Any, weight: float, offset: Any) -> None:
    """Raise for rows that are not those of the fit, by total weight and offset, or that the fit counts otherwise.

    Parameters
    ----------
    estimator : fitted estimator
    weight : float
        Of the rows that are given, in sum.
    offset : array-like or None
        Theirs.
    """
    name, fitted, state = type(estimator).__name__, estimator.n_samples_seen_, estimator.state_
    if offset is None and estimator._record.had_offset:
        raise ValueError(f"this {name} was fitted with an offset: give the rows theirs (offset=..., or exposure=...).")
    if abs(weight - fitted) > ROUNDING * fitted:
        raise ValueError(
            f"X has rows of a total weight of {weight:g}, and this {name} was fitted to {fitted:g}: give the rows, and "
            "the sample_weight, of the fit (of a stream all of its chunks together)."
        )
    meant = getattr(estimator, "total_samples", None) or state.counted
    if state.counted and abs(meant - fitted) > ROUNDING * fitted:
        raise ValueError(
            f"this {name} counts what its stream said as that of {meant:g} rows, and has seen {fitted:g} "
            "(total_samples, forgetting or half_life): its posterior is not that of rows which count once each."
        )
