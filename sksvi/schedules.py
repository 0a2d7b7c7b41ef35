"""Step sizes: how far a step goes at time t."""

from __future__ import annotations

import numpy as np
from sklearn.base import BaseEstimator

Array = np.ndarray


class Constant(BaseEstimator):
    """Constant step size: every step has one rate.

    Parameters
    ----------
    value : float, default=1.0
        In (0, 1] for natural steps.

    Examples
    --------
    >>> from sksvi.schedules import Constant
    >>> Constant(0.5).rate(7)
    0.5
    """

    def __init__(self, value: float = 1.0) -> None:
        self.value = value

    def rate(self, t: int) -> float:
        """Rate of step t = 0, 1, ..."""
        return float(self.value)


class RobbinsMonro(BaseEstimator):
    """rho_t = min(1, scale (t + delay)^-kappa), t = 1, 2, ...

    Parameters
    ----------
    scale : float, default=1.0
    delay : float, default=10.0
    kappa : float, default=0.55
        In (0.5, 1] for the classical conditions of Robbins and Monro.

    Examples
    --------
    >>> from sksvi.schedules import RobbinsMonro
    >>> RobbinsMonro(delay=0.0, kappa=1.0).rate(3)
    0.25
    """

    def __init__(self, scale: float = 1.0, delay: float = 10.0, kappa: float = 0.55) -> None:
        self.scale = scale
        self.delay = delay
        self.kappa = kappa

    def rate(self, t: int) -> float:
        """Rate of step t = 0, 1, ..."""
        return min(1.0, float(self.scale * (t + 1 + self.delay) ** -self.kappa))


class AdaGrad(BaseEstimator):
    """Elementwise steps rate * g / sqrt(sum g²) (Duchi et al. 2011), in coordinates of unit prior scale.

    Parameters
    ----------
    rate : float, default=3.0
    epsilon : float, default=1e-12
        Added to the sum of squares of the gradient per datum.

    Examples
    --------
    >>> import numpy as np
    >>> from sksvi.schedules import AdaGrad
    >>> step, total = AdaGrad(rate=0.5).step(np.array([4.0]), np.zeros(1))
    >>> step.round(6), total
    (array([0.5]), array([16.]))
    """

    #: Whether its sums say how far a Gaussian block may step.
    of_gaussians = True

    def __init__(self, rate: float = 3.0, epsilon: float = 1e-12) -> None:
        self.rate = rate
        self.epsilon = epsilon

    def begin(self, values: Array) -> Array:
        """Initial sums of squared gradients, zeros, for coordinates of this shape."""
        return np.zeros_like(values)

    def step(self, gradient: Array, total: Array, least: Array | float = 0.0) -> tuple[Array, Array]:
        """Step and the new sum of squares for a gradient per datum; the root of the sum counts as `least` at least."""
        total = total + np.square(gradient)
        return self.rate * gradient / np.maximum(np.sqrt(total + self.epsilon), least), total


class AdaDelta(BaseEstimator):
    """Elementwise steps of the length of earlier ones (Zeiler 2012), which Knowles (2015) takes for gamma variables.

    With a and d decaying means of squared gradients and squared steps, a step is rate * g sqrt(d + ε) / sqrt(a + ε).
    For blocks that are not Gaussian, in the place of `AdaGrad`.

    Parameters
    ----------
    rate : float, default=1.0
    decay : float, default=0.95
        Of both means, in (0, 1).
    epsilon : float, default=1e-6
        Decides how long the first steps are, sqrt(ε / (1 - decay)), and is compared with squared gradients per datum.

    Examples
    --------
    >>> import numpy as np
    >>> from sksvi.schedules import AdaDelta
    >>> rule = AdaDelta(decay=0.75, epsilon=1e-4)
    >>> step, means = rule.step(np.array([4.0]), rule.begin(np.zeros(1)))
    >>> step.round(4), means.round(4)
    (array([0.02]), array([[4.e+00, 1.e-04]]))
    """

    of_gaussians = False

    def __init__(self, rate: float = 1.0, decay: float = 0.95, epsilon: float = 1e-6) -> None:
        self.rate = rate
        self.decay = decay
        self.epsilon = epsilon

    def begin(self, values: Array) -> Array:
        """Initial means of squared gradients and squared steps, zeros: two numbers per coordinate."""
        return np.zeros((*values.shape, 2))

    def step(self, gradient: Array, means: Array) -> tuple[Array, Array]:
        """Step and the new means of squared gradients and squared steps, for a gradient per datum."""
        squares = self.decay * means[..., 0] + (1 - self.decay) * np.square(gradient)
        step = gradient * np.sqrt(means[..., 1] + self.epsilon) / np.sqrt(squares + self.epsilon)
        steps = self.decay * means[..., 1] + (1 - self.decay) * np.square(step)
        return self.rate * step, np.stack([squares, steps], -1)
