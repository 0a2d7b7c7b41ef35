"""What an estimator says of its fit to whoever compares q with the posterior that it stands for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from sksvi.inference.problem import Problem
from sksvi.models.base import Blocks

Array = np.ndarray

#: Relative difference of the weight of rows that adding them up in another order explains.
ROUNDING = 1e-6


@dataclass(frozen=True)
class Joint:
    """A fit with its rows: q, the problem that it is of, and what users see of one block.

    ``block`` : its name in q. ``index`` , ``mean`` , ``std`` (C,): what users call its coordinates, and what they have
    of it. ``shown`` : these coordinates (S, C) of draws of the block.
    """

    problem: Problem
    q: Blocks
    block: str
    index: Any
    mean: Array
    std: Array
    shown: Callable[[Array], Array]


def check_same_rows(estimator: Any, weight: float, offset: Any) -> None:
    """An error for rows that are not those of the fit, as far as their weight and offset say, or that count otherwise.

    Parameters
    ----------
    estimator : fitted estimator
    weight : float
        Of the rows that are given, in sum.
    offset : array-like or None
        Theirs.
    """
    name, seen, state = type(estimator).__name__, estimator.n_samples_seen_, estimator.state_
    if offset is None and getattr(estimator, "_had_offset", False):
        raise ValueError(f"this {name} was fitted with an offset: give the rows theirs (offset=..., or exposure=...).")
    if abs(weight - seen) > ROUNDING * seen:
        raise ValueError(
            f"X has rows of a total weight of {weight:g}, and this {name} was fitted to {seen:g}: give the rows, and "
            "the sample_weight, of the fit (of a stream all of its chunks together)."
        )
    meant = getattr(estimator, "total_samples", None) or state.counted
    if state.counted and abs(meant - seen) > ROUNDING * seen:
        raise ValueError(
            f"this {name} counts what its stream said as that of {meant:g} rows, and has seen {seen:g} (total_samples, "
            "forgetting or half_life): its posterior is not that of rows which count once each."
        )
