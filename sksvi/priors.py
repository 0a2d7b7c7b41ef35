"""Priors of single coefficients, which linear models and mixed effects take by name (`prior`)."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real

import numpy as np


@dataclass(frozen=True)
class Normal:
    """Normal prior of a coefficient, in the units of its column as it is given.

    Parameters
    ----------
    mean : float, default=0.0
    std : float, default=1.0
        Standard deviation, positive.

    Raises
    ------
    TypeError, ValueError
        A mean or standard deviation that is no finite number, or `std` of 0 or less.

    Examples
    --------
    >>> from sksvi.priors import Normal
    >>> Normal(0.5, 0.2)
    Normal(mean=0.5, std=0.2)
    """

    LAYOUT = "mean number; std number >0"

    mean: float = 0.0
    std: float = 1.0

    def __post_init__(self) -> None:
        for name, value in (("mean", self.mean), ("std", self.std)):
            if not isinstance(value, Real) or isinstance(value, bool):
                raise TypeError(f"{name} of a Normal prior must be a number; found {value!r}.")
            if not np.isfinite(value):
                raise ValueError(f"{name} of a Normal prior must be finite; found {value!r}.")
        if not self.std > 0:
            raise ValueError(f"std of a Normal prior must be positive; found {self.std!r}.")
