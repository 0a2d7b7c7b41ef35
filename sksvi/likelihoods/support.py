"""What a likelihood declares of itself: the values that y may take, and its traits."""

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


@dataclass(frozen=True)
class LikelihoodTraits:
    """Traits of a likelihood, each of which adds a closed form, spares nodes or says what kind of number y is.

    Parameters
    ----------
    discrete : bool, default=False
        Whether y is counted rather than measured.
    classifies : bool, default=False
        y is a label, 0 or 1, or a class code: classifiers take it.
    ordered : bool, default=False
        y has one of several ordered levels.
    paired : bool, default=False
        y is a pair, (successes, failures); `outcomes` gives them.
    symmetric : bool, default=False
        There are two levels, and P(y = 1 | f) = P(y = 0 | -f).
    additive : bool, default=False
        y is f plus noise whose distribution does not depend on f.
    log_concave : bool, default=True
        p(y | f) is log-concave in f.
    by_moments : bool, default=False
        Mean and variance of y are all that `start` and the best constant f depend on.
    poles_only : bool, default=False
        p(y | f) is smooth up to the poles that `width` is measured to, so that a coarser grid serves. False is safe:
        for exp(-exp(f)), and for high powers of a logistic function.
    exponential : bool, default=False
        log p = y f - exp(f) - log y!, which falls beyond any fixed range of nodes: by closed form alone, and in
        compiled loops.
    positive : bool, default=True
        Learned parameters are positive numbers, so that tables have intervals of their logarithms.

    Examples
    --------
    >>> from sksvi.likelihoods import Poisson
    >>> Poisson().traits.discrete
    True
    """

    discrete: bool = False
    classifies: bool = False
    ordered: bool = False
    paired: bool = False
    symmetric: bool = False
    additive: bool = False
    log_concave: bool = True
    by_moments: bool = False
    poles_only: bool = False
    exponential: bool = False
    positive: bool = True

    @property
    def measured(self) -> bool:
        """Whether y is a number with a unit, neither counted nor one of several levels."""
        return not (self.discrete or self.ordered)
