"""Weak priors of what a dynamic model learns: variances, dampings, periods, and the likelihood's parameters.

Each is a density of the unconstrained parameter, stated in the user's units. The standard deviation of a level's steps
has an exponential prior (penalised complexity, Simpson et al. 2017), that of a slope, season or coefficient a half
Cauchy one: both have their mass at the simpler model, where nothing moves.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import gammaln

from sksvi.models.time_series.components import Damped, Dynamics, Parameter

Array = np.ndarray

#: Prior means, or scales, of standard deviations of steps, in units of f: that of what moves over all points of the
#: series, by independent steps (of a slope by steps of steps), and the most that it is.
SPANS = {"level": 1.5, "trend": 2.0, "seasonal": 0.5, "cycle": 0.5, "coefficient": 0.5}
MOST = {"level": 0.5, "trend": 0.1, "seasonal": 0.1, "cycle": 0.5, "coefficient": 0.1}
#: By how much more of a measured y, whose unit is that of all that it moves.
MEASURED = 2.0
#: Prior mean of the stationary standard deviation of what returns, in units of f.
STATIONARY = 0.7
#: The logit of a damping is normal: dampings of 0.28 to 0.99.
DAMPING_MEAN, DAMPING_SD = 2.0, 1.5
#: Degrees of freedom of the half-t prior of a noise's standard deviation, whose scale is the unit of f.
NOISE_DF = 3.0
HALF_T = float(np.log(2.0) + gammaln(0.5 * (NOISE_DF + 1.0)) - gammaln(0.5 * NOISE_DF) - 0.5 * np.log(np.pi * NOISE_DF))
#: Prior mean of the square root of a dispersion, the relative standard deviation of a rate from point to point: where
#: most counts are 0 it is 3 and more.
DISPERSION = 1.5
#: Shape and rate of the gamma prior of degrees of freedom (Juárez and Steel 2010).
DF_SHAPE, DF_RATE = 2.0, 0.1
#: A standard deviation that is all but none beside its prior mean: where a finished search looks too.
SMALL = 0.04
#: Step of the differences that give second derivatives.
STEP = 1e-4


class WeakPrior:
    """Log density of the parameters of states and likelihood, and its slope.

    Parameters
    ----------
    dynamics : Dynamics
    likelihood : Likelihood
    unit : float
        What f varies by, whatever a few values far off do to that of the dynamics.
    length : int
        Points of the series.
    """

    def __init__(self, dynamics: Dynamics, likelihood: Any, unit: float, length: int) -> None:
        self.likelihood, self.unit = likelihood, unit
        by_steps = {kind: span / np.sqrt(length) for kind, span in SPANS.items()}
        by_steps["trend"] *= np.sqrt(3.0) / length
        by_steps["level"] *= MEASURED if likelihood.traits.additive else 1.0
        self.steps = {kind: float(min(MOST[kind], by_steps[kind])) for kind in SPANS}
        damped = {part.amount.learned: part for part in dynamics.damped if part.amount.learned >= 0}
        self.parts = [(place, p, damped.get(place)) for place, p in enumerate(dynamics.parameters)]

    def starts(self, other: dict[int, float]) -> dict[int, float]:
        """An alternative start of a search, its variances small but not so small that the prior alone moves them."""
        found = dict(other)
        for place, parameter, _ in self.parts:
            if place in other and parameter.name.endswith("_variance"):
                mean = self.steps[parameter.name.split("_")[0]]
                found[place] = max(other[place], 2.0 * float(np.log(SMALL * mean * self.unit)))
        return found

    def dynamic(self, theta: Array) -> tuple[float, Array]:
        """Log density of the parameters of the states, and its slope."""
        total, slope = 0.0, np.zeros(len(theta))
        for place, parameter, part in self.parts:
            if parameter.name.endswith("_variance"):
                total += self._variance(theta, slope, place, parameter, part)
            elif parameter.name.endswith("_damping"):
                off = (theta[place] - DAMPING_MEAN) / DAMPING_SD
                total -= 0.5 * off**2 + float(np.log(DAMPING_SD * np.sqrt(2.0 * np.pi)))
                slope[place] -= off / DAMPING_SD
            else:  # the logarithm of a period is uniform
                total -= float(np.log(parameter.high - parameter.low)) if parameter.high > parameter.low else 0.0
        return float(total), slope

    def _variance(self, theta: Array, slope: Array, place: int, parameter: Parameter, part: Damped | None) -> float:
        """Log density of the logarithm of a variance, whose slope is added to `slope`.

        A part that returns to zero has its prior on the stationary standard deviation.
        """
        kind = parameter.name.split("_")[0]
        if part is None and kind != "level":  # a few of these move much, most hardly at all
            density, own = _half_cauchy(0.5 * theta[place], self.steps[kind] * self.unit)
            slope[place] += 0.5 * own
            return density - float(np.log(2.0))
        if part is None:
            mean, log_sd = self.steps[kind], 0.5 * theta[place]
        else:
            damping = part.damping.at(theta)
            mean, log_sd = STATIONARY, 0.5 * (theta[place] - np.log1p(-(damping**2)))
        log_rate = -float(np.log(mean * self.unit))
        ratio = float(np.exp(log_rate + log_sd))
        slope[place] += 0.5 * (1.0 - ratio)
        if part is not None and part.damping.learned >= 0:
            slope[part.damping.learned] += (1.0 - ratio) * damping**2 / (1.0 + damping)
        return log_rate + log_sd - ratio - float(np.log(2.0))

    @property
    def _as_series(self) -> bool:
        """Whether the likelihood's parameters have the priors of series, not their own."""
        return bool(self.likelihood.traits.additive or self.likelihood.scales.takes_excess)

    def of_likelihood(self, values: Array) -> tuple[float, Array]:
        """Log density of the likelihood's unconstrained parameters, and its slope; cut points have none.

        Measurements in the unit of f and overdispersed counts have priors of series, other likelihoods their own.
        """
        total, slope = 0.0, np.zeros(len(values))
        if not self._as_series:
            own = None if self.likelihood.traits.ordered else self.likelihood.replace(values).scales.prior()
            return (total, slope) if own is None else own[:2]
        for place, name in enumerate(self.likelihood.learned):
            density, change = _DENSITIES[name](float(values[place]), self.unit)
            total, slope[place] = total + density, change
        return total, slope

    # ---- draws
    def drawn(self, rng: Any) -> Array:
        """Parameters of the states, (P,), from their prior; of dampings first, which stationary deviations rest on."""
        theta = np.zeros(len(self.parts))
        for place, parameter, _ in self.parts:
            if parameter.name.endswith("_damping"):
                theta[place] = DAMPING_MEAN + DAMPING_SD * rng.standard_normal()
            elif not parameter.name.endswith("_variance"):
                theta[place] = rng.uniform(parameter.low, parameter.high)
        for place, parameter, part in self.parts:
            if parameter.name.endswith("_variance"):
                kind = parameter.name.split("_")[0]
                mean, within = (self.steps[kind], 0.0) if part is None else (STATIONARY, part.damping.at(theta) ** 2)
                relative = abs(rng.standard_cauchy()) if part is None and kind != "level" else rng.exponential()
                theta[place] = 2.0 * np.log(mean * self.unit * relative) + np.log1p(-within)
        return theta

    @property
    def flat(self) -> tuple[str, ...]:
        """Learned parameters of the likelihood that have no proper prior."""
        return () if self._as_series else tuple(self.likelihood.scales.flat)

    def drawn_likelihood(self, rng: Any) -> Any:
        """The likelihood with learned parameters from their prior, none of which is `flat`."""
        likelihood = self.likelihood
        if not likelihood.learned:
            return likelihood
        if not self._as_series:
            return likelihood.replace(np.asarray(likelihood.scales.drawn(self.unit, rng)))
        return likelihood.replace(np.array([_DRAWS[name](rng, self.unit) for name in likelihood.learned]))

    def bend(self, values: Array) -> Array:
        """Second derivatives of the log density of the likelihood's parameters, (P, P)."""
        out = np.zeros((len(values), len(values)))
        for place, step in enumerate(STEP * np.eye(len(values))):
            ends = (self.of_likelihood(values + side * step)[1] for side in (1.0, -1.0))
            out[place] = np.subtract(*ends) / (2.0 * STEP)
        return 0.5 * (out + out.T)


def _half_cauchy(log_sd: float, scale: float) -> tuple[float, float]:
    """Log density of the logarithm of a standard deviation with a half-Cauchy prior, and its slope."""
    x = float(np.exp(log_sd)) / scale
    square = x * x
    return float(np.log(2.0 * x / np.pi) - np.log1p(square)), 1.0 - 2.0 * square / (1.0 + square)


def _scale(log_sd: float, unit: float) -> tuple[float, float]:
    """Log density of the logarithm of a standard deviation with a half-t prior, and its slope."""
    x = float(np.exp(log_sd)) / unit
    density = HALF_T - 0.5 * (NOISE_DF + 1.0) * float(np.log1p(x**2 / NOISE_DF)) + float(np.log(x))
    return density, 1.0 - (NOISE_DF + 1.0) * x**2 / (NOISE_DF + x**2)


def _variance(value: float, unit: float) -> tuple[float, float]:
    """Log density of the logarithm of a noise variance, whose root has a half-t prior, and its slope."""
    density, slope = _scale(0.5 * value, unit)
    return density - float(np.log(2.0)), 0.5 * slope


def _dispersion(value: float, unit: float) -> tuple[float, float]:
    """Log density of the logarithm of a dispersion, whose root has an exponential prior, and its slope."""
    ratio = float(np.exp(0.5 * value)) / DISPERSION
    return float(np.log(0.5 * ratio)) - ratio, 0.5 * (1.0 - ratio)


def _df(value: float, unit: float) -> tuple[float, float]:
    """Log density of the logarithm of degrees of freedom with a gamma prior, and its slope."""
    df = float(np.exp(value))
    constant = DF_SHAPE * float(np.log(DF_RATE)) - float(gammaln(DF_SHAPE))
    return constant + DF_SHAPE * value - DF_RATE * df, DF_SHAPE - DF_RATE * df


#: By the names of likelihoods' learned parameters, whose unconstrained values are logarithms.
_DENSITIES = {"variance": _variance, "scale": _scale, "dispersion": _dispersion, "df": _df}
_DRAWS = {
    "variance": lambda rng, unit: 2.0 * np.log(unit * abs(rng.standard_t(NOISE_DF))),
    "scale": lambda rng, unit: np.log(unit * abs(rng.standard_t(NOISE_DF))),
    "dispersion": lambda rng, unit: 2.0 * np.log(DISPERSION * rng.exponential()),
    "df": lambda rng, unit: np.log(rng.gamma(DF_SHAPE, 1.0 / DF_RATE)),
}
