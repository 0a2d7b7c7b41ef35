"""The states of a latent in time, built from an estimator's parameters."""

from __future__ import annotations

from collections.abc import Iterator
from numbers import Integral, Real
from typing import Any

import numpy as np

from sksvi.models.time_series.components import LONGEST, WAVES, WIDE, Dynamics, Wide

Array = np.ndarray


#: What holds several values.
SEVERAL = list | tuple | np.ndarray


def plain(value: Any) -> Any:
    """A parameter as files hold it: a dict as pairs, since keys of files are text."""
    value = list(value.items()) if isinstance(value, dict) else value
    return [plain(part) for part in value] if isinstance(value, SEVERAL) else value


def seasons_of(estimator: Any) -> list[tuple[float, int | None]]:
    """The seasons' periods, each with its number of waves where that is given, else None.

    Raises
    ------
    ValueError
        For a period below 2, one that is given twice, or waves that a period has not.
    """
    given = plain(estimator.seasonal)
    if given is None:
        return []
    several = given if isinstance(given, list) else [given]
    found: list[Any] = [one if isinstance(one, list) else [one, None] for one in several]
    for period, waves in found:
        if isinstance(period, bool) or not isinstance(period, Real) or not 2 <= float(period) < np.inf:
            raise ValueError(
                f"seasonal={estimator.seasonal!r}: a period is a number of points in time, 2 or more; found {period!r}."
            )
        most = int(float(period) // 2)
        whole = isinstance(waves, Integral) and not isinstance(waves, bool) and 1 <= int(waves) <= most
        if not whole and waves not in ("full", None):
            raise ValueError(
                f"seasonal={estimator.seasonal!r}: of a period of {period:g} points say 'full' or a number of waves, 1 "
                f"to {most}; found {waves!r}."
            )
    if len({period for period, _ in found}) < len(found):
        raise ValueError(f"seasonal={estimator.seasonal!r} has a period twice.")
    return [(float(period), int(period // 2) if waves == "full" else waves) for period, waves in found]


def periods_of(estimator: Any) -> list[float]:
    """The seasons' periods."""
    return [period for period, _ in seasons_of(estimator)]


def long_seasons(estimator: Any) -> Iterator[str]:
    """Seasons that were asked for point by point, and have so many that waves stand for them."""
    seasons = seasons_of(estimator)
    long = [period for period, waves in seasons if waves is None and period > LONGEST and period == int(period)]
    if long and estimator.seasonal_type == "dummy":
        yield (
            f"seasons of {', '.join(f'{period:g}' for period in long)} points are longer than {LONGEST}, and were "
            f'fitted as {WAVES} waves each, not point by point: say seasonal_type="trigonometric" where a smooth '
            f'season is meant, or seasonal={{{long[0]:g}: "full"}}, and give sharp dates as columns of X.'
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
    seasons = seasons_of(estimator)
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
    variances = of_each(estimator.seasonal_variance, [period for period, _ in seasons])
    for (period, waves), given in zip(seasons, variances, strict=True):
        if waves is None:
            dynamics.add_seasonal(period, estimator.seasonal_type, given, first)
        else:  # profiles that stay, unless their variance is said
            dynamics.add_waves(period, waves, 0.0 if given == "auto" else given, first)
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
