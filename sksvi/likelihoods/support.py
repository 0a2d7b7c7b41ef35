"""The values that y may take."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sksvi.likelihoods.links import Array

#: The largest magnitude of a number: the square of a thousandfold is still one.
LARGEST = 1e100
#: Of a measured target, which a fit divides by its own unit: the square is still a number.
LARGEST_TARGET = 1e153
#: Counts beyond have no whole number beside them; positive ones below the other have no logarithm worth having.
LARGEST_COUNT, SMALLEST_COUNT = 2.0**53, 1e-100


@dataclass(frozen=True)
class Support:
    """The values y may take, as data, so that one generic line validates every target.

    Parameters
    ----------
    low, high : float
        Bounds, both allowed.
    integer : bool
        Whether y must be a whole number.
    text : str
        The condition in words, for the error message.
    """

    low: float
    high: float
    integer: bool
    text: str

    def first_outside(self, y: Array) -> int | None:
        """Row of the first value outside the support, or None."""
        values = np.asarray(y, dtype=float)
        # Where all are well, as nearly always, two ends say so; what is no number is within none.
        least, most = (values.min(), values.max()) if values.size else (0.0, 0.0)
        within = self.low <= least and most <= self.high and -np.inf < least and most < np.inf
        if not values.size or (within and not (self.integer and np.any(values % 1))):
            return None
        finite = np.isfinite(values)
        good = finite & (values >= self.low) & (values <= self.high)
        if self.integer:
            good = good & (np.where(finite, values, 0.5) % 1 == 0)
        bad = np.logical_not(good)
        if bad.ndim > 1:
            bad = bad.any(axis=tuple(range(1, bad.ndim)))
        return int(np.argmax(bad)) if bad.any() else None
