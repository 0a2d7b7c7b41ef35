"""Rows in time as a model takes them: missing values, weights, columns in units of their own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.special import gammaln
from sklearn.utils import check_array, check_consistent_length, column_or_1d

from sksvi._runtime.user import warn_user
from sksvi.estimators.censoring import is_censored
from sksvi.estimators.checks import LEAST_SPREAD, check_magnitudes, check_numeric_target
from sksvi.estimators.fit_warnings import OF_COUNTS, may_vary_more
from sksvi.estimators.validation import columns_named
from sksvi.families.gaussian.chain import ChainGaussian
from sksvi.likelihoods import Likelihood
from sksvi.likelihoods.traits import LARGEST_TARGET
from sksvi.models.data import Table
from sksvi.models.time_series.search import first_messages

Array = np.ndarray

#: Beyond rounding of a whole number, relative to it.
FRACTION = 1e-9
#: Too little: less than this share of a Poisson's variance, and how rarely its own counts have as little.
SHARE, CHANCE = 0.5, 1e-6
#: Tilts at which Chernoff's bound of that is looked at; sums of two counts from which on their difference is as normal.
TILTS, NORMAL = np.geomspace(0.05, 25.0, 60), 200.0
#: Between the quartiles of a standard normal.
NORMAL_QUARTILES = 1.3489795
#: Least share of what a series moves by that it moves by from point to point.
SMOOTHEST = 0.01


def roughness(y: Array) -> float:
    """Ratio of how a series bends from point to point to how far it moves: 1 of noise alone, little of slopes."""
    spread = float(np.std(y))
    if len(y) < 3 or not spread > 0.0:
        return 1.0
    bends = float(np.sqrt(np.mean(np.square(np.diff(y, 2) / spread)) / 6.0))  # noise: six times its own
    return min(max(bends, SMOOTHEST), 1.0)


def middle_spread(y: Array) -> float:
    """Standard deviation of a normal with the quartiles of y, which few values far off leave; inf where these meet."""
    low, high = np.quantile(y, [0.25, 0.75])
    return float(high - low) / NORMAL_QUARTILES or np.inf


def check_series(estimator: Any, y: Any, paired: bool) -> Array:
    """y as numbers, NaN where nothing was observed: (T,), or (T, 2) successes and failures.

    Raises
    ------
    ValueError
        No target, numbers that are infinite, another shape.
    """
    if y is None:
        name = type(estimator).__name__
        raise ValueError(f"{name} requires y to be passed, but the target y is None.")
    if is_censored(y):
        raise ValueError(
            f"{type(estimator).__name__} takes no censored y: give the times alone, or use another estimator."
        )
    dates = getattr(getattr(y, "dtype", None), "kind", "") in ("m", "M")  # which are no numbers
    if hasattr(y, "to_numpy") and not dates:
        try:
            y = y.to_numpy(dtype=float, na_value=np.nan)
        except (TypeError, ValueError):
            y = y.to_numpy()
    # What else y might be takes scikit-learn longer to find than a short fit.
    numbers = type(y) is np.ndarray and y.ndim == 1 and y.size and y.dtype == np.float64
    if numbers and not paired and not np.isinf(y).any():
        check_magnitudes(y, "y", largest=LARGEST_TARGET)
        return np.asarray(y)
    check_numeric_target(y)
    with columns_named(np.zeros((1, 1)), name="y"):
        found = check_array(
            y,
            ensure_2d=False,
            dtype=np.float64,
            ensure_all_finite="allow-nan",
            input_name="y",
            ensure_min_samples=1,
            estimator=estimator,
        )
    found = column_or_1d(found, warn=True) if not paired and found.ndim > 1 else found
    check_magnitudes(found, "y", largest=LARGEST_TARGET)
    return np.asarray(found)


def counting(data: Table) -> Array:
    """Mask of the rows that have weight, (T,)."""
    return np.ones(len(data), bool) if data.weight is None else data.weight > 0


def values_of(likelihood: Likelihood, data: Table) -> tuple[Array, Array | None]:
    """Values that a likelihood begins with, those of rows that have weight without their offsets, and the weights."""
    if data.weight is not None:
        data = data.take(np.flatnonzero(data.weight > 0))
    return data.centred if likelihood.traits.additive else data.y, data.weight


def observed(y: Array) -> Array:
    """Mask of the points where y has a value, (T,)."""
    return ~np.isnan(y) if y.ndim == 1 else ~np.isnan(y).any(axis=1)


def same_length(X: Any, y: Array) -> None:
    """An error where X and y differ in length."""
    if X is not None:
        try:
            check_consistent_length(X, y)
        except ValueError as error:
            raise ValueError(f"X and y differ in length. {error}") from error


def own_units(X: Array, centred: bool) -> tuple[Array, Array]:
    """Centre and scale of each column; a constant one has centre 0, and so has every one without a level to hold it."""
    if not X.shape[1]:
        return np.zeros(0), np.ones(0)
    constant = np.all(X == X[:1], axis=0)
    centre = X.mean(axis=0) if centred else np.zeros(X.shape[1])
    centre = np.where(constant, 0.0, centre)
    scale = np.sqrt(np.mean(np.square(X - centre), axis=0))
    return centre, np.where(scale > LEAST_SPREAD, scale, 1.0)


def unobserved_seasons(periods: list[float], data: Table) -> Iterator[str]:
    """Warnings about seasons of which some points were never observed: the wide prior alone speaks of these."""
    at = np.flatnonzero(counting(data))
    for period in periods:
        phases = len(np.unique(at % period)) if period == int(period) else len(at)
        if phases < period:
            yield (
                f"only {phases} of the {period:g} points of a season were ever observed: forecasts of the others have "
                "nothing but a wide prior, and absurd means behind a link. Give at least one whole season, or set "
                "initial_variance to what you know."
            )


def count_warnings(likelihood: Likelihood, name: Any, data: Table) -> Iterator[str]:
    """Warnings about a likelihood of counts whose target is measured, by its fractions or by how little it varies.

    Weights that are neither 0 nor 1 say that rows are means of several counts, or rates with their exposures.
    """
    counts = likelihood.traits.discrete and not (likelihood.traits.classifies or likelihood.traits.paired)
    if not counts or not (data.weight is None or np.isin(data.weight, (0.0, 1.0)).all()):
        return
    there = counting(data)
    y = data.y[there]
    broken = np.abs(y - np.round(y)) > FRACTION * np.maximum(np.abs(y), 1.0)
    instead = (
        'of measured values say likelihood="gaussian" ("student-t" where some are far off), or give their logarithms; '
        "of rates give the counts with offset=np.log(exposure)."
    )
    if np.any(broken):
        yield (
            f"y has fractions in {np.sum(broken)} of {len(y)} rows, such as {y[np.argmax(broken)]:g}, and "
            f"likelihood={name!r} takes it for counts, with a variance that follows from the mean: {instead}"
        )
        return
    share, f = noise_share(np.round(data.y), there), likelihood.centre(y)
    if share < SHARE and np.all(likelihood.conditional_variance(f) >= likelihood.mean(f)):
        yield (
            f"y varies far less than counts do, with {share:.2g} of the variance that likelihood={name!r} lets it have "
            f"at the least from one point to the next, so that intervals are too wide: {instead}"
        )


#: Error about points so far from the fit that no message has a positive precision.
TOO_FAR = (
    "X, or the offset, of the points after the fit lies so far from the fit's that f there has no variance among "
    "numbers: give these columns in the unit that they had."
)


def noise_share(y: Array, there: Array) -> float:
    """Mean of (a - b)² / (a + b) over pairs of neighbours: 1 at least of independent Poisson counts of any means.

    Given their sum, two counts of one mean are binomial, whose ratio has mean 1; of different means, or of more than a
    Poisson's variance, they lie further apart. inf: chance alone may bring them as near.
    """
    half = len(y) // 2
    a, b = y[0 : 2 * half : 2], y[1 : 2 * half : 2]
    total = a + b
    valid = there[0 : 2 * half : 2] & there[1 : 2 * half : 2] & (total > 0)
    found = np.square(a - b)[valid] / total[valid]
    return float(found.mean()) if chance_of(float(found.sum()), total[valid]) <= CHANCE else np.inf


def chance_of(found: float, totals: Array) -> float:
    """At most how often pairs of independent Poisson counts with these sums lie so near (Chernoff's bound).

    P(S <= s) <= exp(ts) E exp(-tS) for every t > 0; S has one term for each pair, independent given their sums.
    """
    sizes, times = np.unique(totals, return_counts=True)
    bound = TILTS * found - 0.5 * np.log1p(2.0 * TILTS) * times[sizes > NORMAL].sum()
    for n, k in zip(sizes[sizes <= NORMAL], times, strict=False):
        at = np.arange(n + 1.0)
        p = np.exp(gammaln(n + 1.0) - gammaln(at + 1.0) - gammaln(n - at + 1.0) - n * np.log(2.0))
        bound += k * np.log(np.exp(-np.outer(TILTS, np.square(n - 2.0 * at) / n)) @ p)
    return float(np.exp(min(bound.min(), 0.0)))


def filled(y: Array, there: Array) -> Array:
    """y with its first value where it is missing: such rows have weight 0, and are never read."""
    y = y.copy()
    y[~there] = y[int(np.argmax(there))]
    return y


def series(X: Array, y: Array, there: Array, weight: Array | None, offset: Array | None) -> Table:
    """The rows, with weight 0 where y is missing."""
    whole = there.all()
    if weight is not None or not whole:
        weight = np.where(there, 1.0 if weight is None else weight, 0.0)
    return Table(X, y if whole else filled(y, there), weight, offset)


def with_gaps(rows: Table, index: Any, times: Any) -> Table:
    """The rows at all `times`, those absent with weight 0 and with the columns and offset of the row before."""
    warn_user(
        f"the time index leaves out {len(times) - len(index)} of the {len(times)} times of {times.freq!r} from "
        f"{index[0]!r} to {index[-1]!r}: these are gaps, and seasons count them. Where points are to follow each other "
        "as they do, drop the index; give the rows of gaps, with y=NaN, where columns or offsets are known there."
    )
    at = times.get_indexer(index)
    found = rows.take(np.searchsorted(at, np.arange(len(times)), side="right") - 1)
    there = np.isin(np.arange(len(times)), at)
    return Table(found.X, found.y, np.where(there, 1.0 if found.weight is None else found.weight, 0.0), found.offset)


def shown(likelihood: Likelihood, data: Table) -> Array:
    """Value of f that each point alone suggests, (T,), interpolated where a point says nothing."""
    linear, weights = first_messages(likelihood, data)
    informative, at = weights > 0, np.arange(len(data))
    if not np.any(informative):
        return np.zeros(0)
    return np.interp(at, at[informative], linear[informative] / weights[informative])


#: Standard errors by which residuals alternate, and by which more noise would raise the bound, before a user is told.
ALTERNATES, RAISES = 3.5, 2.5


def noise_taken_in(
    likelihood: Likelihood, name: Any, learned: bool, block: ChainGaussian, data: Table
) -> Iterator[str]:
    """Counts that vary more than a Poisson lets them, under a learned variance that grew until they did not.

    Steps that follow such noise go back at once: residuals of one step alternate, and noise of its own beside f, one
    draw for each point, would raise the bound.

    Parameters
    ----------
    likelihood : Likelihood
    name : str or Likelihood
        What the user calls it.
    learned : bool
        Whether a variance, or a damping, was learned.
    block : ChainGaussian
    data : Table
    """
    if likelihood.traits.paired or not learned or not may_vary_more(likelihood, data.y):
        return
    if worth_of_noise(block) < RAISES:  # asked first: the other loop is compiled for few fits
        return
    along = alternating(block)
    if along is None or along[1] < ALTERNATES:
        return
    yield (
        f"y varies more from one point to the next than likelihood={name!r} lets it, and the learned variances took it "
        f"in: what is off at one point is off the other way at the next (autocorrelation {-along[0]:.2f} of the "
        f'residuals), and forecasts fan out. Of counts say {OF_COUNTS}, of measured values "gaussian" or "student-t"; '
        "or give the season that they have."
    )


def steps_of_a_quantile(likelihood: Likelihood, name: Any, learned: bool) -> Iterator[str]:
    """Warning about learned variances of a quantile that moves: the working likelihood finds about half of them."""
    if likelihood.traits.quantile and learned:
        yield (
            f"likelihood={name!r} with learned variances: its steps are found too small, and 90 % intervals of the "
            "quantile held 0.70 to 0.80 where that was measured. Give level_variance (and others that are learned) a "
            "number, for which they hold 0.88 to 0.91, or model all of y."
        )


def alternating(block: ChainGaussian) -> tuple[float, float] | None:
    """Minus the autocorrelation of one-step residuals at lag 1, and in standard errors; None: too few of them.

    Residuals of the messages as they are, which a sweep predicts; the first ones, of the wide prior, are left out.
    """
    mean, variance = block.ahead()
    weights, first = np.maximum(block.weights, 0.0), len(block.chain.noise)
    spread = np.sqrt(weights * (1.0 + weights * variance))
    informative = spread > 0.0
    informative[:first] = False
    off = np.where(informative, (block.linear - weights * mean) / np.where(informative, spread, 1.0), 0.0)
    pairs, square = int(np.sum(informative[1:] & informative[:-1])), float(off @ off)
    if not pairs or not square > 0.0:
        return None
    share = -float(off[1:] @ off[:-1]) / square
    return share, share * float(np.sqrt(pairs))


def worth_of_noise(block: ChainGaussian) -> float:
    """Slope of the evidence of the messages in the variance of independent noise beside f, in standard errors."""
    weights, dual = block.weights, block.dual
    information = weights * (1.0 - weights * block.variance)
    spread = float(np.sqrt(0.5 * (information @ information)))
    return 0.5 * float(dual @ dual - information.sum()) / spread if spread > 0.0 else 0.0
