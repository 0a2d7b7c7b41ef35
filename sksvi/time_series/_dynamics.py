"""The states of a latent in time, built from an estimator's parameters."""

from __future__ import annotations

from collections.abc import Iterator
from numbers import Real
from typing import Any

import numpy as np

from sksvi.models.time_series.components import LONGEST, WAVES, WIDE, Dynamics, Wide

Array = np.ndarray


#: What holds several values.
SEVERAL = list | tuple | np.ndarray


def plain(value: Any) -> Any:
    """A parameter as files hold it."""
    return [plain(part) for part in value] if isinstance(value, SEVERAL) else value


def periods_of(estimator: Any) -> list[float]:
    """The seasons' periods.

    Raises
    ------
    ValueError
        For a period below 2, or one that is given twice.
    """
    given = estimator.seasonal
    if given is None:
        return []
    found = [given] if isinstance(given, Real) else list(given)
    for period in found:
        if isinstance(period, bool) or not isinstance(period, Real) or not 2 <= float(period) < np.inf:
            raise ValueError(
                f"seasonal={given!r}: a period is a number of points in time, 2 or more; found {period!r}."
            )
    if len(set(found)) < len(found):
        raise ValueError(f"seasonal={given!r} has a period twice.")
    return [float(period) for period in found]


def long_seasons(estimator: Any) -> Iterator[str]:
    """Seasons that were asked for point by point, and have so many that waves stand for them."""
    long = [period for period in periods_of(estimator) if period > LONGEST and period == int(period)]
    if long and estimator.seasonal_type == "dummy":
        yield (
            f"seasons of {', '.join(f'{period:g}' for period in long)} points are longer than {LONGEST}, and were "
            f'fitted as {WAVES} waves each, not point by point: say seasonal_type="trigonometric" where a smooth '
            "season is meant, and give sharp dates as columns of X."
        )


def of_each(given: Any, periods: list[float]) -> list[Any]:
    """`seasonal_variance` of each season.

    Raises
    ------
    ValueError
        Where there are not as many as seasons.
    """
    if isinstance(given, str | Real):
        return [given] * len(periods)
    found = list(given)
    good = all(value == "auto" or (isinstance(value, Real) and float(value) >= 0) for value in found)
    if len(found) != len(periods) or not good:
        raise ValueError(
            f"seasonal_variance={given!r}: 'auto' or a number >= 0, for all seasons or one for each of the "
            f"{len(periods)} of seasonal={periods}."
        )
    return found


def dynamics_of(estimator: Any, unit: float, names: list[str], spreads: Array, length: int, turn: float) -> Dynamics:
    """The states that an estimator's parameters ask for.

    Parameters
    ----------
    estimator : DynamicGLM
    unit : float
        What f varies by.
    names, spreads : list of str and ndarray of shape (E,)
        Columns of the coefficients, and what they were divided by.
    length : int
        Points in time: the longest period of a learned cycle.
    turn : float
        Where the search for that period begins.

    Raises
    ------
    ValueError
        Where nothing is asked for, or what is asked for contradicts itself.
    """
    periods = periods_of(estimator)
    wide = estimator.initial_variance
    first = Wide(WIDE * unit**2) if isinstance(wide, str) else float(wide)
    dynamics = Dynamics(unit)
    damping = estimator.damping
    if estimator.trend and not estimator.level:
        raise ValueError("trend=True is the slope of a level, and level=False: set level=True.")
    if estimator.level:
        estimator_damping = damping if estimator.autoregressive else None
        dynamics.add_level(
            estimator.level_variance, estimator.trend, estimator.trend_variance, first, estimator_damping
        )
    elif estimator.autoregressive:
        dynamics.add_damped("level", "level", estimator.level_variance, damping)
    for period, given in zip(periods, of_each(estimator.seasonal_variance, periods), strict=True):
        dynamics.add_seasonal(period, estimator.seasonal_type, given, first)
    cycle = estimator.cycle
    if cycle is not False and cycle is not None:
        learned = cycle is True
        period, most = (turn, max(length, 4)) if learned else (cycle, 0)
        dynamics.add_damped("cycle", "cycle", "auto", damping, period, most)
    if names:
        dynamics.add_coefficients(names, estimator.coefficient_variance, spreads, first)
    if not dynamics.names:
        raise ValueError(
            "there is nothing to fit: level=False, seasonal=None, cycle=False, autoregressive=False and X has no "
            "column. Set one of them."
        )
    return dynamics
