"""Likelihoods of real-valued y: Gaussian and Student-t."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.special import digamma, gammaln, log_ndtr, ndtr, ndtri, polygamma, stdtr, stdtrit

from sksvi.likelihoods.base import Likelihood
from sksvi.likelihoods.scales import LEAST_NOISE, Scales, weighted_median, weighted_moments
from sksvi.likelihoods.tails import AdditiveTails
from sksvi.likelihoods.traits import (
    LOG_SQRT_2PI,
    Array,
    InverseGammaVariance,
    LikelihoodTraits,
    Support,
    as_float,
    safe_exp,
)

REAL = Support(-np.inf, np.inf, False, "finite real y")
_MAD_TO_SD = 1.4826
#: Degrees of freedom below which a user is told: tails of 1/|y|^1.5 and heavier describe no noise.
LOW_DF = 0.5
#: Most of them that a warm fit begins with where it wants fewer: among more the bound hardly slopes.
HIGH_DF = 50.0
#: Most that are learned, nearly a Gaussian: among more the slope is lost in rounding.
MOST_DF = 1e6
#: Rate of the prior of degrees of freedom, Gamma(2, rate): its mean is 20.
DF_RATE = 0.1


def expected_from_squares(likelihood: Likelihood, square: Array | float, n: float = 1.0) -> tuple[Any, Any]:
    """Σ E log p(y | f) of n data with Gaussian noise whose E (y - f)² sum to `square`.

    With its derivative in the unconstrained variance, log(s - least).
    """
    noise = likelihood.noise_variance
    if noise is None:
        name = type(likelihood).__name__
        raise TypeError(f"{name} has no noise_variance: its E log p(y | f) needs more than squares")
    half = 0.5 * square / noise
    return -half - n * (LOG_SQRT_2PI + 0.5 * np.log(noise)), (1.0 - likelihood.least / noise) * (half - 0.5 * n)


class NoiseVariance(Scales["Gaussian"]):
    """The variance of a Gaussian: the part above its least value moves on the real line."""

    @property
    def size(self) -> int:
        return len(self.likelihood.learned)

    @property
    def given(self) -> float | None:
        return None if self.size else float(np.sqrt(self.likelihood.noise_variance))

    def at_given(self, scale: float) -> Gaussian:
        return self.likelihood._replaced({"variance": scale**2}, self.likelihood.learned)

    def with_less_noise(self, share: float) -> Gaussian:
        found = self.likelihood._replaced({}, self.likelihood.learned)
        found.least = share**2 * self.likelihood.least
        return found

    @property
    def flat(self) -> tuple[str, ...]:
        return ()

    @property
    def log_jacobian(self) -> float:
        return 0.5 * float(np.log(self.likelihood.noise_variance)) if self.size else 0.0

    def drawn(self, unit: float, rng: Any) -> Array:
        """Log variance above the least one; the standard deviation is half-Cauchy in the unit."""
        return 2.0 * np.log(unit * np.abs(rng.standard_cauchy(self.size)))

    def expected(self, y: Array, m: Array, v: Array) -> tuple[Array, Array] | None:
        square = (as_float(y) - as_float(m)) ** 2 + as_float(v)
        return self.likelihood._in_variance(square) if self.size else None


class NoiseScale(Scales["StudentT"]):
    """Scale and degrees of freedom of a Student-t distribution."""

    @property
    def noise(self) -> float:
        return self.likelihood._number("scale")

    @property
    def given(self) -> float | None:
        return None if "scale" in self.likelihood.learned else self.noise

    def at_given(self, scale: float) -> StudentT:
        return self.likelihood._replaced({"scale": scale}, self.likelihood.learned)

    def with_less_noise(self, share: float) -> StudentT:
        found = self.likelihood._replaced({}, self.likelihood.learned)
        found.least = share * self.likelihood.least
        return found

    def moved_off_limits(self) -> StudentT:
        own = self.likelihood
        return own._replaced({"df": min(own._number("df"), HIGH_DF)}, own.learned) if "df" in own.learned else own

    @property
    def flat(self) -> tuple[str, ...]:
        return tuple(name for name in self.likelihood.learned if name != "df")

    @property
    def log_jacobian(self) -> float:
        return float(np.log(self.likelihood._number("df"))) if "df" in self.likelihood.learned else 0.0

    def drawn(self, unit: float, rng: Any) -> Array:
        return super().drawn(unit, rng) if self.flat else np.log(rng.gamma(2.0, 1.0 / DF_RATE, self.size))

    def warnings(self) -> list[str]:
        df = self.likelihood._number("df")
        if "df" not in self.likelihood.learned or df > LOW_DF:
            return []
        return [
            f"Student's t has {df:.2g} degrees of freedom: most of y is nearly fitted and the rest lies orders of "
            "magnitude away, so that intervals say little. Look for many equal values or a target that should be "
            "transformed (its logarithm); else fix df, as in StudentT(df=4)."
        ]

    def prior(self) -> tuple[float, np.ndarray, np.ndarray] | None:
        """Log prior of learned degrees of freedom with its derivatives; None where they are not learned.

        It is Gamma(2, 0.1) (Juárez & Steel 2010): few rows do not tell heavy tails from none.
        """
        learned = self.likelihood.learned
        if "df" not in learned:
            return None
        df, at = self.likelihood._number("df"), learned.index("df")
        gradient, hessian = np.zeros(len(learned)), np.zeros((len(learned), len(learned)))
        gradient[at], hessian[at, at] = 2.0 - DF_RATE * df, -DF_RATE * df
        return 2.0 * np.log(DF_RATE * df) - DF_RATE * df, gradient, hessian


def above(least: float, logarithm: float) -> float:
    """A number by the logarithm of its excess over the least one; the next one where the excess is lost in rounding."""
    return max(least + float(np.exp(logarithm)), math.nextafter(least, math.inf))


class Gaussian(Likelihood):
    """Normal likelihood, y ~ N(f, variance).

    Parameters
    ----------
    variance : float or "auto", default="auto"
        Noise variance of y given f; "auto" learns it, down to 1e-8 of the variance of y.

    Examples
    --------
    >>> from sksvi.likelihoods import Gaussian
    >>> print(round(float(Gaussian(variance=1.0).log_prob(0.0, 0.0)), 4))
    -0.9189
    """

    support = REAL
    traits = LikelihoodTraits(additive=True, by_moments=True)
    predictable = {"scale": ("variance", 2.0)}

    @property
    def noise_variance(self) -> float:
        return self._number("variance")

    def __init__(self, *, variance: float | str = "auto") -> None:
        self.variance = variance

    def derivatives(self, y: Array, f: Array) -> tuple[Array, Array, Array]:
        variance = self._number("variance")
        f = as_float(f)
        residual = np.asarray(y, dtype=f.dtype) - f
        slope = residual * (1.0 / variance)
        value = -0.5 * residual * slope - (LOG_SQRT_2PI + 0.5 * np.log(variance)).astype(residual.dtype)
        return value, slope, np.full_like(residual, -1.0 / variance)

    def mean(self, f: Array) -> Array:
        return as_float(f)

    def conditional_variance(self, f: Array) -> Array:
        return np.full_like(as_float(f), self._number("variance"))

    def cdf(self, y: Array, f: Array) -> Array:
        return ndtr((y - as_float(f)) / np.sqrt(self._number("variance")))

    @property
    def tails(self) -> AdditiveTails:
        return AdditiveTails(self)

    def _log_tails(self, y: Array, f: Array) -> tuple[Array, Array]:
        z = (y - as_float(f)) / np.sqrt(self._number("variance"))
        return log_ndtr(z), log_ndtr(-z)

    def ppf(self, p: Array | float, f: Array) -> Array:
        return f + ndtri(p) * np.sqrt(self._number("variance"))

    def sample(self, f: Array, rng: np.random.Generator) -> Array:
        return rng.normal(f, np.sqrt(self._number("variance")))

    def centre(self, y: Array) -> Array:
        return as_float(y)

    def expected(self, y: Array, m: Array, v: Array) -> tuple[Array, Array, Array]:
        value, slope, curve = self.derivatives(y, m)
        curve = 0.5 * curve
        return value + curve * v, slope, curve

    def expected_of_predictors(self, y: Array, m: Array, v: Array) -> tuple[Array, Array, Array]:
        # exp(-2g) tilts the pair: f moves by -2 cov(f, g) beside g, and its variance stays.
        precision = safe_exp(2.0 * (v[:, 1, 1] - m[:, 1]))
        residual = np.asarray(y, dtype=m.dtype) - m[:, 0] + 2.0 * v[:, 0, 1]
        square = precision * (np.square(residual) + v[:, 0, 0])
        value = -LOG_SQRT_2PI - m[:, 1] - 0.5 * square
        slope = precision * residual
        bend = np.stack([np.stack([-0.5 * precision, -slope], -1), np.stack([-slope, -square], -1)], -2)
        return value, np.stack([slope, square - 1.0], -1), bend

    def log_predictive(self, y: Array, m: Array, v: Array) -> Array:
        total = as_float(v) + self._number("variance")
        return -0.5 * (np.log(total) + (y - m) ** 2 / total) - LOG_SQRT_2PI

    def start(self, y: Array, weight: Array | None = None) -> Likelihood:
        if not self._automatic():
            return self._replaced({}, ())
        mean, variance = weighted_moments(y, weight)
        size = variance or mean**2 or 1.0
        # half of the variance of y is a fair share for the noise before anything is explained
        started = self._replaced({"variance": 0.5 * size}, ("variance",))
        started.least = LEAST_NOISE**2 * size
        return started

    @property
    def scales(self) -> Scales[Gaussian]:
        return NoiseVariance(self)

    @property
    def reported(self) -> dict[str, float]:
        return {"std(residual)": float(np.sqrt(self._number("variance")))} if self.learned else {}

    @property
    def unconstrained(self) -> np.ndarray:
        return np.log([self._number("variance") - self.least]) if self.learned else np.zeros(0)

    def _constrain(self, unconstrained: np.ndarray) -> dict[str, Any]:
        return {"variance": above(self.least, unconstrained[0])} if self.learned else {}

    def d_parameters(self, y: Array, f: Array) -> tuple[Array, Array]:
        return self._in_variance((as_float(y) - as_float(f)) ** 2) if self.learned else super().d_parameters(y, f)

    def _in_variance(self, square: Array) -> tuple[Array, Array]:
        """Derivatives in the unconstrained variance, given squared residuals or their expectations."""
        _, slope = expected_from_squares(self, square)
        share = 1.0 - self.least / self._number("variance")
        return slope[None], ((1.0 - share) * slope - share * (slope + 0.5 * share))[None, None]


class StudentT(Likelihood):
    """Student-t likelihood, (y - f) / scale ~ t(df): robust to outliers, not log-concave in f.

    Parameters
    ----------
    scale : float or "auto", default="auto"
        Scale of y given f, in the units of y (not its standard deviation); "auto" learns it, down to
        1e-4 of its first guess.
    df : float or "auto", default="auto"
        Degrees of freedom; "auto" learns it, up to 1e6. With df <= 1 `mean` is the median, with df <= 2 the variance is
        infinite.

    Examples
    --------
    >>> from sksvi.likelihoods import StudentT
    >>> print(StudentT(scale=1.0, df=3.0).conditional_variance(0.0))
    3.0
    """

    support = REAL
    traits = LikelihoodTraits(additive=True, log_concave=False)
    predictable = {"scale": ("scale", 1.0)}

    @property
    def scale_mixture(self) -> InverseGammaVariance:
        return InverseGammaVariance(self._number("scale"), self._number("df"), self.least, self.learned)

    def __init__(self, *, scale: float | str = "auto", df: float | str = "auto") -> None:
        self.scale = scale
        self.df = df

    @property
    def width(self) -> float:
        return float(np.sqrt(self._number("df"))) * self._number("scale") / 3.0

    def derivatives(self, y: Array, f: Array) -> tuple[Array, Array, Array]:
        scale, df = self._number("scale"), self._number("df")
        f = as_float(f)
        residual = np.asarray(y, dtype=f.dtype) - f
        constant = gammaln(0.5 * (df + 1)) - gammaln(0.5 * df) - 0.5 * np.log(df * np.pi) - np.log(scale)
        constant = constant.astype(f.dtype)
        # in units of sqrt(df) * scale, so that squares of data far from 1 stay finite
        unit = float(np.sqrt(df)) * scale
        ratio = residual * (1.0 / unit)
        square = ratio * ratio
        inverse = 1.0 / (1.0 + square)
        value = constant - (0.5 * (df + 1)) * np.log1p(square)
        slope = ((df + 1) / unit) * ratio * inverse
        curve = ((df + 1) / unit**2) * (square - 1.0) * inverse * inverse
        return value, slope, curve

    def mean(self, f: Array) -> Array:
        return as_float(f)

    def conditional_variance(self, f: Array) -> Array:
        df = self._number("df")
        return np.full_like(as_float(f), self._number("scale") ** 2 * df / (df - 2) if df > 2 else np.inf)

    def cdf(self, y: Array, f: Array) -> Array:
        return stdtr(self._number("df"), (y - as_float(f)) / self._number("scale"))

    @property
    def tails(self) -> AdditiveTails:
        return AdditiveTails(self)

    def _log_tails(self, y: Array, f: Array) -> tuple[Array, Array]:
        z, df = (y - as_float(f)) / self._number("scale"), self._number("df")
        with np.errstate(divide="ignore"):
            return np.log(stdtr(df, z)), np.log(stdtr(df, -z))

    def ppf(self, p: Array | float, f: Array) -> Array:
        return f + stdtrit(self._number("df"), p) * self._number("scale")

    def sample(self, f: Array, rng: np.random.Generator) -> Array:
        return f + self._number("scale") * rng.standard_t(self._number("df"), size=np.shape(f))

    def centre(self, y: Array) -> Array:
        return as_float(y)

    def cdf_width(self, y: Array) -> Array:
        # with many degrees of freedom the density is narrower than its singularities are far
        return np.full(np.shape(y), min(self.width, self._number("scale")))

    def start(self, y: Array, weight: Array | None = None) -> Likelihood:
        automatic = self._automatic()
        y = np.asarray(y, dtype=float)
        values: dict[str, Any] = {}
        if "scale" in automatic:
            # median based, so that the outliers this likelihood is for do not set its start
            spread = _MAD_TO_SD * weighted_median(np.abs(y - weighted_median(y, weight)), weight)
            if spread == 0.0:
                mean, variance = weighted_moments(y, weight)
                spread = float(np.sqrt(variance)) or abs(mean) or 1.0
            values["scale"] = 0.7 * spread
        if "df" in automatic:
            values["df"] = 5.0
        started = self._replaced(values, automatic)
        started.least = LEAST_NOISE * values.get("scale", 0.0)
        return started

    @property
    def scales(self) -> Scales[StudentT]:
        return NoiseScale(self)

    @property
    def unconstrained(self) -> np.ndarray:
        least = {"scale": self.least}
        return np.log([self._number(name) - least.get(name, 0.0) for name in self.learned])

    def _constrain(self, unconstrained: np.ndarray) -> dict[str, Any]:
        least = {"scale": self.least}
        pairs = zip(self.learned, unconstrained, strict=True)
        found = {name: above(least.get(name, 0.0), value) for name, value in pairs}
        return found | ({"df": min(found["df"], MOST_DF)} if "df" in found else {})

    def d_parameters(self, y: Array, f: Array) -> tuple[Array, Array]:
        if not self.learned:
            return super().d_parameters(y, f)
        df = self._number("df")
        square = ((as_float(y) - as_float(f)) / (np.sqrt(df) * self._number("scale"))) ** 2
        share = square / (1.0 + square)
        change = share / (1.0 + square)
        log_square = np.log1p(square)
        digammas = 0.5 * df * (digamma(0.5 * (df + 1)) - digamma(0.5 * df))
        trigammas = 0.25 * df**2 * (polygamma(1, 0.5 * (df + 1)) - polygamma(1, 0.5 * df))
        first = {"scale": (df + 1) * share - 1.0, "df": digammas - 0.5 - 0.5 * df * log_square + 0.5 * (df + 1) * share}
        # of the scale that exp moves, the part above the least one
        part = 1.0 - self.least / self._number("scale")
        first["scale"] = part * first["scale"]
        cross = part * (df * share - (df + 1) * change)
        second = {
            ("scale", "scale"): (1.0 - part) * first["scale"] - part**2 * 2.0 * (df + 1) * change,
            ("df", "df"): digammas + trigammas - 0.5 * df * (log_square - 2.0 * share) - 0.5 * (df + 1) * change,
            ("scale", "df"): cross,
            ("df", "scale"): cross,
        }
        g = np.stack([first[name] for name in self.learned])
        return g, np.stack([np.stack([second[row, name] for name in self.learned]) for row in self.learned])
