"""Rayleigh blocks: q of a positive number with one parameter, the noise variance of a mixed-effects model."""

from __future__ import annotations

from typing import Self

import numpy as np
from sklearn.utils import check_random_state

from sksvi._typing.arrays import RandomState
from sksvi.families.base import Draw, Message, NotPositiveDefinite
from sksvi.families.flat import Flat

Array = np.ndarray

#: E x / scale, and Var x / scale², of a Rayleigh variable x.
MEAN, SPREAD = float(np.sqrt(np.pi / 2)), 2.0 - np.pi / 2


class Rayleigh(Flat):
    """q(x) = (x / scale²) exp(-x² / (2 scale²)), x > 0; natural parameter -1/(2 scale²), moment E x² = 2 scale².

    Its standard deviation is 0.52 of its mean at every scale.

    Parameters
    ----------
    scale : float
        Mode of x.

    Raises
    ------
    NotPositiveDefinite
        For a scale that is not positive and finite.

    Examples
    --------
    >>> from sksvi.families import Rayleigh
    >>> q = Rayleigh(2.0)
    >>> print(q.mean.round(3), q.std.round(3), round(q.kl(Rayleigh(5.0)), 3))
    [2.507] [1.31] 0.993
    """

    LAYOUT = "scale number >0"

    #: What the rows of a fit knew of the moment: minus the curvature of what they said, (1, 1).
    information: Array | None = None

    def __init__(self, scale: float) -> None:
        if not 0 < scale < np.inf:
            raise NotPositiveDefinite(f"the scale of a Rayleigh distribution is {scale}")
        self.scale = float(scale)

    @property
    def instead(self) -> str:
        """A block of one number in a model that is not conjugate: its steps are cut or follow secants."""
        return "one-number"

    @property
    def mean(self) -> Array:
        """E x, (1,)."""
        return np.array([MEAN * self.scale])

    @property
    def variance(self) -> Array:
        """Var x, (1,)."""
        return np.array([SPREAD * self.scale**2])

    # ---- the family
    @property
    def theta(self) -> Array:
        """-1/(2 scale²), (1,)."""
        return np.array([-0.5 / self.scale**2])

    def of_theta(self, theta: Array) -> Rayleigh:
        """The distribution with this natural parameter."""
        value = float(theta[0])
        if not value < 0:
            raise NotPositiveDefinite(f"the natural parameter {value:g} of a Rayleigh distribution is not negative")
        return Rayleigh(np.sqrt(-0.5 / value))

    @property
    def moments(self) -> Array:
        """E x², (1,)."""
        return np.array([2.0 * self.scale**2])

    @property
    def log_normaliser(self) -> Array:
        """log scale², a number."""
        return np.asarray(2.0 * np.log(self.scale))

    def kl(self, prior: Rayleigh) -> float:
        """KL(q ‖ prior), nats."""
        return prior.kl_of(self)

    def kl_of(self, q: Rayleigh) -> float:
        """KL(q ‖ this prior), nats."""
        ratio = q.scale / self.scale
        return float(ratio**2 - 1.0 - 2.0 * np.log(ratio))  # the square may be too small for a logarithm

    def fisher(self, v: Array) -> Array:
        """(E x²)² v."""
        return np.square(self.moments) * v

    @property
    def stretch(self) -> Array:
        """∂θ/∂log scale."""
        return -2.0 * self.theta

    @property
    def standard_values(self) -> Array:
        """log scale, (1,)."""
        return np.array([np.log(self.scale)])

    def at(self, values: Array) -> Self:
        """The distribution at log scale."""
        return type(self)(np.exp(values[0]))

    def standard_gradient(self, prior: Rayleigh, gradient: tuple[Array]) -> Array:
        """Gradient of the bound, KL included, in the log scale: d/d log s = 4 s² d/d(2 s²) for the data's part."""
        square = self.scale**2  # of a scale whose natural parameter may be beyond all numbers
        return 2.0 - 2.0 * square / prior.scale**2 + 4.0 * square * gradient[0]

    @staticmethod
    def natural_gradient(gradient: tuple[Array, ...]) -> tuple[Array, ...]:
        """The gradient in the moment; a curvature beside it is for streams."""
        return gradient[:1]

    # ---- what rows that are gone said: a parabola in the moment, for a slope alone bears no other scale
    def message_from_gradient(self, gradient: tuple[Array, ...]) -> Message:
        """(g + J η, J) for a slope g and a curvature -J at the moment η."""
        slope, curvature = gradient
        return Message((slope - curvature @ self.moments, -curvature))

    def expected_log_message(self, message: Message) -> tuple[tuple[Array, ...], float]:
        """Slope and curvature at the moment η of h η - J η² / 2, and itself."""
        linear, information = message.added()
        there = information @ self.moments
        return (linear - there, -information), float(self.moments @ (linear - 0.5 * there))

    def summed(self, sites: tuple[Array, ...]) -> Message:
        """Parabolas add up."""
        linear, hessian = sites
        return Message((linear, -hessian))

    def exchanged(self, total: Message, old: Message, new: Message) -> Message:
        """The message `total` with its part `old` exchanged for `new`.

        The slope here changes by the difference, the curvature by the ratio, so that it keeps its sign.
        """
        (slope, curvature), (old_slope, old_curvature), (new_slope, new_curvature) = (
            self.expected_log_message(message)[0] for message in (total, old, new)
        )
        ratio = np.divide(new_curvature, old_curvature, out=np.ones_like(old_curvature), where=old_curvature < 0)
        return self.message_from_gradient((slope + new_slope - old_slope, curvature * ratio))

    def remembered(self, message: Message) -> Message:
        """The slope of what was said, with the fit's curvature."""
        curvature = np.zeros((1, 1)) if self.information is None else -self.information
        return self.message_from_gradient((*message.added(), curvature))

    def absorbed(self, curvature: Array) -> Self:
        """The distribution with the curvature of the data that it was fitted to."""
        new = type(self)(self.scale)
        new.information = -curvature
        return new

    # ---- draws
    def log_density(self, draws: Array) -> Array:
        """Log density of draws (n, 1), (n,)."""
        x = draws[:, 0]
        return np.asarray(np.log(x) - 2.0 * np.log(self.scale) - 0.5 * np.square(x / self.scale))

    def sample(self, n: int = 1, random_state: RandomState = None) -> Array:
        """Draw (n, 1)."""
        return check_random_state(random_state).rayleigh(self.scale, (n, 1))

    def draws_against(self, prior: Rayleigh, n: int, random_state: RandomState = None) -> tuple[Array, Array]:
        """Draws (n, 1), and log q - log prior at each, (n,): the prior may be of another family."""
        draws = self.sample(n, random_state)
        return draws, self.log_density(draws) - prior.log_density(draws)

    def drawn(self, rng: np.random.Generator) -> Draw:
        """A draw: the scale times a standard one."""
        return Draw(np.asarray(rng.rayleigh(self.scale, (1,))))

    def corrected(self, draw: Draw, gradient: tuple[Array]) -> tuple[Array]:
        """x² / E x² times the gradient: a draw moves with its scale."""
        return (np.square(draw.value) / self.moments * gradient[0],)

    @staticmethod
    def statistics(value: Array) -> Array:
        """x²."""
        return np.square(value)

    def in_statistics(self, draw: Draw, slope: Array) -> Array:
        """df/dx as df/dx²."""
        return slope / (2.0 * draw.value)
