"""What likelihoods with one learned number have in common: its logarithm, its least value and its prior."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

import numpy as np

from sksvi.likelihoods.base import Likelihood
from sksvi.likelihoods.scales import Scales
from sksvi.likelihoods.traits import Array

L = TypeVar("L", bound="OneScale", covariant=True)


class OneScale(Likelihood):
    """Base of likelihoods that learn one positive number, by its logarithm.

    Attributes
    ----------
    scale_name : str
        Parameter that is learned.
    spread_power : float or None
        The relative spread of y is about this power of it; None: it has no spread without a unit.
    """

    scale_name: ClassVar[str]
    spread_power: ClassVar[float | None] = None

    @property
    def scales(self) -> Scales[Likelihood]:
        return RelativeSpread(self)

    @property
    def unconstrained(self) -> np.ndarray:
        return np.log([self._number(self.scale_name)]) if self.learned else np.zeros(0)

    def _constrain(self, unconstrained: np.ndarray) -> dict[str, Any]:
        return {self.scale_name: max(float(np.exp(unconstrained[0])), self.least)} if self.learned else {}

    def _started(self, y: Array, weight: Array | None) -> tuple[float, float]:
        """First value of the number, and the least it may have, found from y and its weights."""
        raise TypeError(f"{type(self).__name__} needs a method _started")

    def start(self, y: Array, weight: Array | None = None) -> Likelihood:
        if not self._automatic():
            return self._replaced({}, ())
        first, least = self._started(y, weight)
        started = self._replaced({self.scale_name: max(first, least)}, (self.scale_name,))
        started.least = least
        return started

    def _in_log_size(self, y: Array, f: Array) -> tuple[Array, Array]:
        """First and second derivative of log p(y | f) in the logarithm of the number."""
        raise TypeError(f"{type(self).__name__} needs a method _in_log_size")

    def d_parameters(self, y: Array, f: Array) -> tuple[Array, Array]:
        if not self.learned:
            return super().d_parameters(y, f)
        first, second = self._in_log_size(y, f)
        return first[None], second[None, None]


@dataclass(frozen=True)
class RelativeSpread(Scales[L]):
    """A number whose power is the relative spread of y, which is exponential of mean 1 a priori.

    Simpson et al. (2017) call it the prior that penalises complexity. Without such a power the logarithm is flat.
    """

    @property
    def size(self) -> int:
        return len(self.likelihood.learned)

    @property
    def noise(self) -> float:
        return self.likelihood._number(self.likelihood.scale_name)

    @property
    def flat(self) -> tuple[str, ...]:
        return self.likelihood.learned if self.likelihood.spread_power is None else ()

    @property
    def log_jacobian(self) -> float:
        power = self.likelihood.spread_power if self.size else None
        return 0.0 if power is None else power * float(np.log(self.noise))

    def drawn(self, unit: float, rng: Any) -> Array:
        if self.flat:
            return super().drawn(unit, rng)
        return np.log(rng.standard_exponential(self.size)) / self.likelihood.spread_power

    def prior(self) -> tuple[float, np.ndarray, np.ndarray] | None:
        power = self.likelihood.spread_power
        if not self.likelihood.learned or power is None:
            return None
        spread = self.noise**power
        gradient, hessian = np.array([power - power * spread]), np.array([[-(power**2) * spread]])
        return float(np.log(abs(power) * spread) - spread), gradient, hessian
