"""Priors of a process's hyperparameters: weak ones, in the units of the columns and of y.

==================  =========================================================================================
length scale        unit / length is exponential: most mass where f is simple (a penalised-complexity prior)
standard deviation  half-t with `DF` degrees of freedom: of the signal, of the noise
anything else       normal in its logarithm about what the user gave, `SPREAD` wide; of likelihoods as `LIKELIHOODS`
==================  =========================================================================================

All densities are of unconstrained coordinates, logarithms mostly, Jacobians included.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, log, log1p, pi
from typing import Any

import numpy as np
from scipy.special import gammaln, stdtr, stdtrit
from sklearn.gaussian_process import kernels as sk

Array = np.ndarray

#: Degrees of freedom of half-t priors, and the spread of a normal one, in the logarithm.
DF, SPREAD = 3.0, 1.5
#: Scale of the standard deviation of f behind a link: of odds and levels, of rates.
ODDS, RATES = 2.0, 1.0
#: Where the data speak of nothing: what is neither learned nor integrated.
NOTHING = 0.0, 0.0
#: Centre and spread of a normal prior of a likelihood's parameter in its unconstrained coordinate; of any other.
LIKELIHOODS = {"dispersion": (float(np.log(0.5)), 1.5), "df": (float(np.log(10.0)), 1.0)}
CUTS, OTHERS = ((0.0, 3.0), (0.0, 1.5)), (0.0, 3.0)
LOG_HALF_T = float(np.log(2.0) + gammaln(0.5 * (DF + 1)) - gammaln(0.5 * DF) - 0.5 * np.log(np.pi * DF))


@dataclass(frozen=True)
class Length:
    """unit / exp(x) is exponential with mean 1."""

    unit: float

    def __call__(self, x: float) -> tuple[float, float]:
        """Log density and its slope."""
        rate = self.unit * exp(-x)
        return log(self.unit) - x - rate, rate - 1.0

    def drawn(self, rng: Any) -> float:
        """x."""
        return float(np.log(self.unit / rng.standard_exponential()))


@dataclass(frozen=True)
class Deviation:
    """(least + exp(x)) ** power is half-t with scale `unit`, of which nothing below `least` is there."""

    unit: float
    power: float = 1.0
    least: float = 0.0

    def __call__(self, x: float) -> tuple[float, float]:
        """Log density and its slope."""
        above = exp(x)
        size = self.least + above
        square = (size**self.power / self.unit) ** 2 / DF
        jacobian = log(self.power / self.unit) + x + (self.power - 1.0) * log(size)
        value = LOG_HALF_T - 0.5 * (DF + 1) * log1p(square) + jacobian
        share = above / size
        slope = 1.0 + share * (self.power - 1.0 - (DF + 1) * self.power * square / (1.0 + square))
        return value, slope

    def drawn(self, rng: Any) -> float:
        """x, of sizes above `least` alone."""
        below = stdtr(DF, self.least**self.power / self.unit)
        root = self.unit * stdtrit(DF, below + (1.0 - below) * rng.random_sample())
        return float(np.log(root ** (1.0 / self.power) - self.least))


@dataclass(frozen=True)
class About:
    """x is normal about a value."""

    centre: float
    spread: float = SPREAD

    def __call__(self, x: float) -> tuple[float, float]:
        """Log density and its slope."""
        z = (x - self.centre) / self.spread
        return -0.5 * z**2 - log(self.spread) - 0.5 * log(2.0 * pi), -z / self.spread

    def drawn(self, rng: Any) -> float:
        """x."""
        return float(self.centre + self.spread * rng.standard_normal())


Prior = Length | Deviation | About


@dataclass(frozen=True)
class HyperPrior:
    """Independent priors of kernel parameters and of those of the likelihood.

    ``columns`` : which kernel parameters the data speak of: not lengths of columns that are constant.
    """

    kernel: tuple[Prior, ...]
    likelihood: tuple[Prior, ...]
    columns: tuple[bool, ...]

    def __call__(self, q: dict[str, Any]) -> float:
        """Log density of what q has of both, nats."""
        return sum(
            value for name in ("kernel", "likelihood") if name in q for value, _ in self._each(name, q[name].value)
        )

    def of(self, name: str, values: Array) -> tuple[float, Array]:
        """Log density of a block and its slope."""
        found = self._each(name, values)
        return sum(value for value, _ in found), np.array([slope for _, slope in found], float)

    def drawn(self, kernel: Any, rng: Any) -> Array:
        """Parameters of the kernel, those that data say nothing of as it has them, and of the likelihood."""
        pairs = zip(self.kernel, kernel.theta.tolist(), self.columns, strict=True)
        own = [prior.drawn(rng) if counts else x for prior, x, counts in pairs]
        return np.array(own + [prior.drawn(rng) for prior in self.likelihood], float)

    def _each(self, name: str, values: Array) -> list[tuple[float, float]]:
        priors = getattr(self, name)
        counts = self.columns if name == "kernel" else (True,) * len(priors)
        pairs = zip(priors, values.ravel().tolist(), counts, strict=True)
        return [prior(x) if own else NOTHING for prior, x, own in pairs]


def hyper_prior(kernel: Any, likelihood: Any, spread: Array, target: float, given: Any = None) -> HyperPrior:
    """Priors of a kernel's and a likelihood's free parameters.

    Parameters
    ----------
    kernel : scikit-learn kernel
        As the fit begins.
    likelihood : Likelihood
        As it begins.
    spread : ndarray of shape (D,)
        Standard deviations of the columns.
    target : float
        Standard deviation of a measured y.
    given : scikit-learn kernel, optional
        What the user gave, about whose numbers normal priors are; None: there are no such numbers.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.gaussian_process.kernels import ConstantKernel, RBF
    >>> from sksvi.likelihoods import Gaussian
    >>> from sksvi.models.gp.hyperpriors import hyper_prior
    >>> prior = hyper_prior(ConstantKernel(1.0) * RBF(1.0), Gaussian(variance=1.0), np.ones(2), 1.0)
    >>> prior.kernel
    (Deviation(unit=1.0, power=0.5, least=0.0), Length(unit=1.4142135623730951))
    """
    levels = likelihood.n_latents > 1 or likelihood.levels is not None
    signal = target if likelihood.traits.additive else ODDS if levels else RATES
    parts, columns = [], []
    for part in kernel.hyperparameters:
        if part.fixed:
            continue
        for j in range(part.n_elements):
            found, varies = _of_number(kernel if given is None else given, part, j, spread, signal)
            parts.append(found)
            columns.append(varies)
    return HyperPrior(tuple(parts), _of_likelihood(likelihood, target), tuple(columns))


def _of_number(kernel: Any, part: Any, j: int, spread: Array, signal: float) -> tuple[Prior, bool]:
    """Prior of a kernel's number, and whether the data can speak of it."""
    path, _, name = part.name.rpartition("__")
    owner = kernel.get_params()[path] if path else kernel
    if name in ("constant_value", "sigma_0"):
        return Deviation(signal, 0.5 if name == "constant_value" else 1.0), True
    if name == "length_scale" and isinstance(owner, sk.RBF | sk.RationalQuadratic):
        varying = max(int(np.sum(spread > 0)), 1)
        if part.n_elements == 1:
            return Length(float(np.sqrt(np.sum(np.square(spread)))) or 1.0), True
        return Length(float(np.sqrt(varying) * spread[j]) or 1.0), bool(spread[j] > 0)
    return About(float(np.log(np.ravel(owner.get_params()[name])[j]))), True


def _of_likelihood(likelihood: Any, target: float) -> tuple[Prior, ...]:
    """Priors of the likelihood's unconstrained parameters."""
    size, powers = likelihood.scales.size, {"variance": 0.5, "scale": 1.0}
    if likelihood.traits.ordered:
        return tuple(About(*CUTS[min(k, 1)]) for k in range(size))
    names = likelihood.learned if len(likelihood.learned) == size else ("",) * size
    return tuple(
        Deviation(target, powers[name], likelihood.least)
        if name in powers and likelihood.traits.additive
        else About(*LIKELIHOODS.get(name, OTHERS))
        for name in names
    )
