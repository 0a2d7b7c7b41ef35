"""Tweedie likelihood of y >= 0 with a mass at zero: a Poisson number of gamma jumps.

With q = power - 1, shape a = 1/q - 1 and s = log dispersion, y > 0 has log p = c/q - y exp(-q f) / (dispersion q)
- exp((1 - q) f) / (dispersion (1 - q)) - log y + log sum_j exp(-(c/q) D(j/c) + log(a j) - S(j) - S(a j)), where
c = y^(1-q) / (dispersion (1 - q)) is about the likeliest number of jumps, D(r) = r log r - r + 1 and S(x) =
log Gamma(x + 1) - x log x + x. That is the series of Dunn and Smyth (2005) about its largest term.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.special import digamma, gammainc, gammaincinv, gammaln, polygamma, xlog1py, xlogy

from sksvi.likelihoods.base import Likelihood
from sksvi.likelihoods.continuous_quantiles import quantile_between
from sksvi.likelihoods.counts import poisson_draw
from sksvi.likelihoods.positive import LogLink
from sksvi.likelihoods.scales import LEAST_NOISE, Scales, weighted_moments
from sksvi.likelihoods.traits import Array, Support, as_float, safe_exp, sigmoid

#: A learned power stays between these: towards 1 the density of rounded y has no end.
POWERS = (1.01, 1.99)
#: Standard deviations of the number of jumps on either side that a sum runs over, and terms more above.
REACH, MORE = 9.0, 12.0
#: Most terms in memory.
TERMS = 1 << 20
#: Above it, the series of log Gamma is exact.
LARGE = 30.0


class SeriesSlopes(NamedTuple):
    """Derivatives in s and q of the logarithm of the series, of each y."""

    in_s: Array
    in_q: Array
    in_ss: Array
    in_sq: Array
    in_qq: Array


def _stirling(x: Array) -> Array:
    """log Gamma(x + 1) - x log x + x."""
    large = np.maximum(x, LARGE)
    inverse = 1.0 / (large * large)
    series = (1.0 - inverse * (1.0 / 30.0 - inverse * (1.0 / 105.0 - inverse / 140.0))) / (12.0 * large)
    small = np.minimum(x, LARGE)
    return np.where(
        x < LARGE, gammaln(small + 1.0) - xlogy(small, small) + small, 0.5 * np.log(2.0 * np.pi * large) + series
    )


def _departure(j: Array, centre: Array, log_centre: Array) -> Array:
    """j log(j / centre) - j + centre, accurate near the centre."""
    from_centre = j - centre
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        ratio = from_centre / centre
        close = xlog1py(j, ratio) - from_centre
    return np.where(np.abs(from_centre) < 0.5 * centre, close, j * (np.log(j) - log_centre) - from_centre)


def _windows(centre: Array, spread: Array, stride: Array) -> Iterator[tuple[slice, Array, Array, Array, Array]]:
    """Numbers of jumps about `centre`, of some rows at a time: rows, row of each, numbers, firsts and strides of rows.

    A sum over every h-th number, h times, is that over all, to exp(-2 (pi spread / h)^2), where no end cuts it off.
    """
    low = np.maximum(1.0, np.floor(centre - REACH * spread - 1.0))
    stride = np.where(low > 1.0, np.maximum(1.0, np.floor(stride)), 1.0)
    count = np.ceil((centre + REACH * spread + MORE - low) / stride).astype(np.intp) + 1
    ends, first = np.cumsum(count), 0
    while first < len(count):
        before = ends[first] - count[first]
        last = max(first + 1, int(np.searchsorted(ends, before + TERMS)))
        own = count[first:last]
        row, starts = np.repeat(np.arange(first, last), own), ends[first:last] - own - before
        j = low[row] + stride[row] * (np.arange(len(row)) - np.repeat(starts, own))
        yield slice(first, last), row, j, starts, stride[first:last]
        first = last


class Tweedie(LogLink):
    """Tweedie likelihood with mean exp(f) and variance dispersion * mean^power, 1 < power < 2; y >= 0, 0 with a mass.

    Costs, rainfall, catches: y is a sum of gamma jumps, of which there is a Poisson number, often none. Log-concave in
    f.

    Parameters
    ----------
    power : float or "auto", default="auto"
        Between 1 (Poisson) and 2 (gamma); "auto" learns it between 1.01 and 1.99, uniform a priori.
    dispersion : float or "auto", default="auto"
        Variance of y given f over its mean to the `power`, in the unit of y to 2 - power; "auto" learns its logarithm,
        whose prior is flat.

    References
    ----------
    P. K. Dunn and G. K. Smyth, Series evaluation of Tweedie exponential dispersion model densities, Statistics and
    Computing 15 (2005), 267-280.

    Examples
    --------
    >>> from sksvi.likelihoods import Tweedie
    >>> likelihood = Tweedie(power=1.5, dispersion=2.0)
    >>> print(likelihood.log_prob(0.0, 0.0), likelihood.conditional_variance(0.0))
    -1.0 2.0
    """

    support = Support(0.0, np.inf, False, "y >= 0")

    def __init__(self, *, power: float | str = "auto", dispersion: float | str = "auto") -> None:
        self.power = power
        self.dispersion = dispersion

    @property
    def _q(self) -> float:
        """power - 1."""
        power = self._number("power")
        if not 1.0 < power < 2.0:
            raise ValueError(f"Tweedie needs a power strictly between 1 and 2; found {power!r}.")
        return power - 1.0

    @property
    def _log_dispersion(self) -> float:
        return float(np.log(self._number("dispersion")))

    # ---- the density
    def _terms(self, y: Array, m: Array, v: Array | float) -> tuple[Array, Array, Array]:
        """What log p does not owe to f, and minus E of its two exponentials of f ~ N(m, v)."""
        m, q, log_phi = as_float(m), self._q, self._log_dispersion
        y = np.asarray(y, m.dtype)
        with np.errstate(divide="ignore"):
            log_y = np.log(y)
        up = np.where(y > 0, safe_exp(log_y - q * m + 0.5 * q * q * v - (log_phi + float(np.log(q)))), 0.0)
        down = safe_exp((1.0 - q) * m + 0.5 * (1.0 - q) ** 2 * v - (log_phi + float(np.log1p(-q))))
        return self._constant(y).astype(m.dtype, copy=False), up.astype(m.dtype, copy=False), down

    def derivatives(self, y: Array, f: Array) -> tuple[Array, Array, Array]:
        q, (constant, up, down) = self._q, self._terms(y, f, 0.0)
        return constant - up - down, q * up - (1.0 - q) * down, -(q * q * up) - (1.0 - q) ** 2 * down

    def expected(self, y: Array, m: Array, v: Array) -> tuple[Array, Array, Array]:
        q, (constant, up, down) = self._q, self._terms(y, m, v)
        return constant - up - down, q * up - (1.0 - q) * down, -0.5 * (q * q * up + (1.0 - q) ** 2 * down)

    def _sums(self, log_y: Array) -> Iterator[tuple[slice, Array, Array, Array, Array, Array]]:
        """The series of some rows at a time: rows, row of each term, jumps, shares, first terms, log sums."""
        q, alpha = self._q, 1.0 / self._q - 1.0
        log_centre = (1.0 - q) * log_y - self._log_dispersion - float(np.log1p(-q))
        centre = safe_exp(log_centre)
        spread = np.sqrt(q * centre)
        for rows, row, j, starts, stride in _windows(centre, spread, 0.5 * spread):
            term = np.log(alpha * j) - _stirling(j) - _stirling(alpha * j)
            term -= _departure(j, centre[row], log_centre[row]) / q
            top = np.maximum.reduceat(term, starts)
            term = np.exp(term - top[row - rows.start])
            total = np.add.reduceat(term, starts)
            yield rows, row, j, term / total[row - rows.start], starts, top + np.log(total * stride) + centre[rows] / q

    def _constant(self, y: Array) -> Array:
        """What log p(y | f) does not owe to f, of the shape of y."""
        values, place = np.unique(y, return_inverse=True)  # nodes and ties repeat them
        found, positive = np.zeros(len(values)), values > 0
        log_y = np.log(values[positive].astype(float))
        sums = [log_sum for *_, log_sum in self._sums(log_y)]
        found[positive] = np.concatenate([*sums, []]) - log_y
        return found[place].reshape(np.shape(y))

    def _moments(self, y: Array) -> SeriesSlopes:
        """Derivatives of `_constant` by moments of the terms of its series, each of the shape of y."""
        q, alpha = self._q, 1.0 / self._q - 1.0
        first, second = -1.0 / q**2, 2.0 / q**3  # of alpha in q
        values, place = np.unique(y, return_inverse=True)
        found, at = np.zeros((5, len(values))), np.flatnonzero(values > 0)
        log_y = np.log(values[at].astype(float))
        log_ratio = log_y - float(np.log(q)) - self._log_dispersion
        slope = first * log_ratio - alpha / q + 1.0 / (1.0 - q)
        bend = second * log_ratio - 2.0 * first / q + alpha / q**2 + 1.0 / (1.0 - q) ** 2
        for rows, row, j, share, starts, _ in self._sums(log_y):
            psi = digamma(alpha * j)
            in_q = j * (slope[row] - first * psi)
            in_qq = j * (bend[row] - second * psi) - np.square(j * first) * polygamma(1, alpha * j)
            mean, mean_q, mean_qq = (np.add.reduceat(share * part, starts) for part in (j, in_q, in_qq))
            off, off_q = j - mean[row - rows.start], in_q - mean_q[row - rows.start]
            own, cross, other = (
                np.add.reduceat(share * part, starts) for part in (off * off, off * off_q, off_q * off_q)
            )
            found[:, at[rows]] = -mean / q, mean_q, own / q**2, mean / q**2 - cross / q, mean_qq + other
        return SeriesSlopes(*found[:, np.ravel(place)].reshape(5, *np.shape(y)))

    # ---- the distribution of y
    def conditional_variance(self, f: Array) -> Array:
        power = 1.0 + self._q
        return self._number("dispersion") * safe_exp(np.minimum(power * as_float(f), 690.0))

    def _jumps(self, f: Array) -> tuple[Array, Array]:
        """Logarithms of the mean number of jumps and of their scale."""
        q, log_phi = self._q, self._log_dispersion
        return (1.0 - q) * f - log_phi - float(np.log1p(-q)), log_phi + float(np.log(q)) + q * f

    def cdf(self, y: Array, f: Array) -> Array:
        y, f = np.broadcast_arrays(np.asarray(y, dtype=float), np.asarray(f, dtype=float))
        shape, alpha = f.shape, 1.0 / self._q - 1.0
        log_rate, log_scale = self._jumps(f.ravel())
        rate = safe_exp(log_rate)
        with np.errstate(divide="ignore"):
            x = safe_exp(np.log(np.maximum(y.ravel(), 0.0)) - log_scale)
        found = np.exp(-rate)
        at = np.flatnonzero(x > 0)
        rate, log_rate, x = rate[at], log_rate[at], x[at]
        # A sum of j jumps passes y over a number of them that is narrower than the Poisson's where jumps are even.
        spread = np.sqrt(rate)
        for rows, row, j, starts, stride in _windows(rate, spread, 0.5 * spread / max(1.0, alpha) ** 0.5):
            term = np.exp(-_departure(j, rate[row], log_rate[row]) - _stirling(j)) * gammainc(alpha * j, x[row])
            found[at[rows]] += np.add.reduceat(term, starts) * stride
        return np.where(y < 0, 0.0, np.minimum(found, 1.0).reshape(shape))

    def ppf(self, p: Array | float, f: Array) -> Array:
        p, f = np.broadcast_arrays(np.asarray(p, dtype=float), np.asarray(f, dtype=float))
        shape, p, f = f.shape, p.ravel(), f.ravel()
        log_rate, log_scale = self._jumps(f)
        none, y = np.exp(-safe_exp(log_rate)), np.zeros(f.size)
        at = np.flatnonzero(p > none)
        level, f = p[at], f[at]
        # One jump is the least there is beside none; above, Cantelli's inequality.
        share = (level - none[at]) / (1.0 - none[at])
        low = np.maximum(gammaincinv(1.0 / self._q - 1.0, share) * safe_exp(log_scale[at]), np.nextafter(0.0, 1.0))
        mean, spread = self.mean(f), np.sqrt(self.conditional_variance(f))
        with np.errstate(divide="ignore", over="ignore"):
            high = np.maximum(mean + spread * np.sqrt(level / (1.0 - level)), low)

        def cdf_and_density(values: Array, rows: Array) -> list[Array]:
            return [self.cdf(values, f[rows]), np.exp(self.log_prob(values, f[rows]))]

        y[at] = quantile_between(cdf_and_density, level, mean, low, high)
        return y.reshape(shape)

    def sample(self, f: Array, rng: np.random.Generator) -> Array:
        log_rate, log_scale = self._jumps(np.asarray(f, dtype=float))
        return rng.gamma((1.0 / self._q - 1.0) * poisson_draw(safe_exp(log_rate), rng)) * safe_exp(log_scale)

    # ---- where quadrature puts its nodes
    def _log_or(self, y: Array, jumps: float) -> Array:
        """log y, or the f at which so many jumps are expected where that is more."""
        none = (np.log(jumps) + self._log_dispersion + np.log1p(-self._q)) / (1.0 - self._q)
        return np.log(np.maximum(as_float(y), safe_exp(np.asarray(none))))

    def centre(self, y: Array) -> Array:
        return np.where(as_float(y) > 0, np.log(np.where(as_float(y) > 0, y, 1.0)), self._log_or(np.zeros(()), 1.0))

    def cdf_centre(self, y: Array) -> Array:
        return self._log_or(y, float(np.log(2.0)))

    def cdf_width(self, y: Array) -> Array:
        return np.minimum(1.0, np.exp(0.5 * (self._log_dispersion - (1.0 - self._q) * self.cdf_centre(y))))

    def unit_deviance(self, y: Array, mu: Array) -> Array:
        q, y, mu = self._q, as_float(y), as_float(mu)
        return 2.0 * (y ** (1.0 - q) / (-q * (1.0 - q)) + y * mu**-q / q + mu ** (1.0 - q) / (1.0 - q))

    # ---- learned parameters
    def start(self, y: Array, weight: Array | None = None) -> Likelihood:
        automatic = self._automatic()
        values: dict[str, Any] = {"power": 1.5} if "power" in automatic else {}
        power = values["power"] if values else 1.0 + self._q
        if "dispersion" in automatic:
            mean, variance = weighted_moments(y, weight)
            # half of the variance is left to the features
            values["dispersion"] = 0.5 * variance / mean**power if variance > 0 else 1.0
        started = self._replaced(values, automatic)
        started.least = LEAST_NOISE**2 * values.get("dispersion", 0.0)
        return started

    @property
    def scales(self) -> Scales[Likelihood]:
        return PowerAndDispersion(self)

    @property
    def _share(self) -> float:
        """Place of a learned power between its ends."""
        return (self._q - (POWERS[0] - 1.0)) / (POWERS[1] - POWERS[0])

    @property
    def unconstrained(self) -> np.ndarray:
        found = {"dispersion": lambda: self._log_dispersion, "power": lambda: np.log(self._share / (1.0 - self._share))}
        return np.array([found[name]() for name in self.learned])

    def _constrain(self, unconstrained: np.ndarray) -> dict[str, Any]:
        values = dict(zip(self.learned, unconstrained, strict=True))
        if "dispersion" in values:
            values["dispersion"] = max(float(np.exp(values["dispersion"])), self.least)
        if "power" in values:
            values["power"] = POWERS[0] + (POWERS[1] - POWERS[0]) * float(sigmoid(values["power"]))
        return values

    def d_parameters(self, y: Array, f: Array) -> tuple[Array, Array]:
        return self._in_parameters(y, as_float(f), 0.0)

    def _in_parameters(self, y: Array, m: Array, v: Array | float) -> tuple[Array, Array]:
        """E of the derivatives of log p(y | f) in `unconstrained` under f ~ N(m, v)."""
        q, y = self._q, as_float(y)
        _, up, down = self._terms(y, m, v)
        of_up, of_down = m - q * v + 1.0 / q, m + (1.0 - q) * v - 1.0 / (1.0 - q)
        own = self._moments(y)
        in_q = up * of_up + down * of_down
        in_qq = -up * (of_up**2 + v + 1.0 / q**2) - down * (of_down**2 + v + 1.0 / (1.0 - q) ** 2)
        in_q, in_qq = in_q + own.in_q, in_qq + own.in_qq
        # from q to the logit of its place
        rate = (POWERS[1] - POWERS[0]) * self._share * (1.0 - self._share)
        cross = rate * (own.in_q + own.in_sq - in_q)
        first = {"dispersion": up + down + own.in_s, "power": rate * in_q}
        second = {
            ("dispersion", "dispersion"): own.in_ss - up - down,
            ("dispersion", "power"): cross,
            ("power", "dispersion"): cross,
            ("power", "power"): rate**2 * in_qq + rate * (1.0 - 2.0 * self._share) * in_q,
        }
        shape, names = np.shape(up + 0.0 * m), self.learned
        g = np.array([np.broadcast_to(first[a], shape) for a in names]).reshape(len(names), *shape)
        h = np.array([[np.broadcast_to(second[a, b], shape) for b in names] for a in names])
        return g, h.reshape(len(names), len(names), *shape)


@dataclass(frozen=True)
class PowerAndDispersion(Scales[Tweedie]):
    """The power, uniform a priori, and the dispersion, whose logarithm is flat."""

    @property
    def size(self) -> int:
        return len(self.likelihood.learned)

    @property
    def noise(self) -> float:
        return self.likelihood._number("dispersion")

    @property
    def flat(self) -> tuple[str, ...]:
        return tuple(name for name in self.likelihood.learned if name == "dispersion")

    def informed(self, y: Array) -> bool:
        return bool(np.any(np.asarray(y) > 0))

    def expected(self, y: Array, m: Array, v: Array) -> tuple[Array, Array]:
        return self.likelihood._in_parameters(y, as_float(m), v)

    def drawn(self, unit: float, rng: Any) -> Array:
        return super().drawn(unit, rng) if self.flat else rng.logistic(size=self.size)

    @property
    def log_jacobian(self) -> float:
        found = self.prior()
        return 0.0 if found is None else found[0]

    def prior(self) -> tuple[float, np.ndarray, np.ndarray] | None:
        learned = self.likelihood.learned
        if "power" not in learned:
            return None
        share, at = self.likelihood._share, learned.index("power")
        gradient, hessian = np.zeros(self.size), np.zeros((self.size, self.size))
        gradient[at], hessian[at, at] = 1.0 - 2.0 * share, -2.0 * share * (1.0 - share)
        return float(np.log(share) + np.log1p(-share)), gradient, hessian
