"""The evidence of a Gaussian linear model as a function of one prior precision of all weights, with the best noise.

With weights w ~ N(0, I/δ), noise s and an intercept under a flat prior, A = XᵀX and b = Xᵀy of centred columns,
A = V diag(λ) Vᵀ, z = Vᵀb and c = yᵀy, the evidence is one of the ridge penalty k = sδ alone once
s = R(k)/(n - 1), R(k) = c - Σ zᵢ²/(λᵢ + k):

    ln p(y | k) = -(n - 1)/2 ln R(k) - 1/2 Σ ln(1 + λᵢ/k) + constant.

It may have several maxima where rows are few or columns nearly repeat each other: one takes y for noise, another
explains it. Steps that improve prior and noise in turn end at the one that is nearest.

Of other likelihoods A and b are the messages of a fit that has settled, as if they were data of noise 1, which does not
move: -R(k)/2 stands for the first term. Messages are of where they were found, so that what is promised far from there
has to be tried.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve, eigh

from sksvi.algorithms.rules import Rule
from sksvi.families.base import Message, NotPositiveDefinite

Array = np.ndarray

#: Ridge penalties that are looked at, over the largest eigenvalue.
PENALTIES = np.logspace(-10, 5, 151)
#: Information of columns so small that penalties of it are no numbers: beside any prior it is none.
NOTHING = 1e-290
#: Least promise of messages that is tried, nats: fits of labels that are nearly told apart creep up by less for long.
PROMISING = 0.5


class WeightsModel(Protocol):
    """A model whose weights have a learned prior precision, with all that its evidence depends on."""

    fit_intercept: bool
    relative_scale: Any

    @property
    def n_fixed(self) -> int:
        """Weights that share the learned precision, the first ones."""
        ...

    @property
    def hyper(self) -> dict[str, Rule]:
        """Rules of the learned hyperparameters."""
        ...

    def current_likelihood(self, q: dict[str, Any]) -> Any:
        """The likelihood with its learned parameters as q has them."""
        ...

    def precision(self, q: dict[str, Any]) -> Array:
        """Prior precision of every weight but the intercept."""
        ...

    def log_prior(self, h: Array) -> Array:
        """Log density of log precisions of all weights, nats."""
        ...

    def prior(self, q: dict[str, Any]) -> dict[str, Any]:
        """The prior of the weights."""
        ...


class Peak(NamedTuple):
    """Where the evidence is largest: its gain in nats, the precision there, and the noise over the present one."""

    gain: float
    precision: float
    noise: float


@dataclass(frozen=True)
class Evidence:
    """Log evidence of a Gaussian linear model as a function of the prior precisions, at the best noise.

    The data enter by quadratic terms, in units of the present noise: -wᵀA w / 2 + bᵀw - c / 2.

    Parameters
    ----------
    gram : ndarray of shape (D, D)
        A.
    slope : ndarray of shape (D,)
        b.
    square : float
        c.
    n : float or None
        Rows, by their weights, less one for an intercept; None: the noise stays.
    least : float
        Least noise.
    """

    gram: Array
    slope: Array
    square: float
    n: float | None
    least: float

    @classmethod
    def about(
        cls, mean: Array, gram: Array, slope: Array, square: float, n: float | None, least: float, centred: bool
    ) -> Evidence:
        """The evidence from Xᵀ(y - Xm) and |y - Xm|² at the mean m; ``centred``: the last weight is an intercept."""
        if centred:
            column, most = gram[:-1, -1], gram[-1, -1]
            square, n = square - slope[-1] ** 2 / most, None if n is None else n - 1.0
            slope = slope[:-1] - column * (slope[-1] / most)
            gram, mean = gram[:-1, :-1] - np.outer(column, column) / most, mean[:-1]
        moved = gram @ mean
        return cls(gram, slope + moved, square + float(mean @ (2.0 * slope + moved)), n, least)

    def __call__(self, precision: Array) -> float:
        """Log evidence at one precision per weight, nats, but for the constant of `peak`."""
        root = cho_factor(self.gram + np.diag(precision), lower=True)
        fitted, _ = self._fitted(np.asarray(self.slope @ cho_solve(root, self.slope)))
        log_ratio = 2.0 * np.sum(np.log(np.diag(root[0]))) - np.sum(np.log(precision))
        return float(fitted - 0.5 * log_ratio)

    def _fitted(self, explained: Array) -> tuple[Array, Array]:
        """What y says where so much of its square is explained, nats, and the noise."""
        if self.n is None:
            return 0.5 * explained, np.ones_like(explained)
        noise = np.maximum((self.square - explained) / self.n, self.least)
        return -0.5 * self.n * np.log(noise), noise

    def peak(self, precision: Array, log_prior: Callable[[Array], Array]) -> Peak:
        """The largest at one precision for all weights; its gain is over these precisions.

        `log_prior`: of the logarithms of such precisions, nats.
        """
        values, vectors = eigh(self.gram)
        # Messages of a likelihood that is not log-concave may say less than nothing of a direction.
        values, z = np.maximum(values, 0.0), np.where(values > 0, vectors.T @ self.slope, 0.0)
        k = (values[-1] * PENALTIES)[:, None]
        fitted, noise = self._fitted((np.square(z) / (values + k)).sum(axis=1))
        evidence = fitted - 0.5 * np.log1p(values / k).sum(axis=1) + log_prior(np.log(k[:, 0] / noise))
        best = int(np.argmax(evidence))
        return Peak(float(evidence[best]) - self(precision), float(k[best, 0] / noise[best]), float(noise[best]))


@np.errstate(over="ignore", invalid="ignore")  # what is no number promises nothing
def elsewhere(model: WeightsModel, q: dict[str, Any], gradient: Any, n: float, worth: float) -> dict[str, Any] | None:
    """q at the largest evidence of one precision for all weights; None where that does not gain `worth`, nats.

    `gradient` is that of n rows at q, and says all about them: no row is looked at.
    """
    block, likelihood = q["weights"], model.current_likelihood(q)
    slope = gradient["weights"][0]
    linear, gram = block.message_from_gradient(gradient["weights"]).added()
    square, least, closed = 0.0, 0.0, likelihood.noise_variance is not None and "likelihood" in q
    if closed:
        # What the slope in the noise says of E (y - f)², which it holds beside n.
        least = likelihood.least / likelihood.noise_variance
        squares = n + 2.0 * float(gradient["likelihood"][0][0]) / (1.0 - least)
        square = squares - block.structure.expected_quadratic(gram, np.zeros_like(block.mean), block)
    unit = np.append(np.broadcast_to(model.relative_scale, model.n_fixed), [1.0] * model.fit_intercept)
    own = unit * block.mean, gram / np.outer(unit, unit), slope / unit
    evidence = Evidence.about(*own, square, n if closed else None, least, model.fit_intercept)
    if not np.any(np.abs(evidence.gram) > NOTHING) or (evidence.n is not None and evidence.n <= 0.0):  # nothing varies
        return None
    if not (
        np.all(np.isfinite(evidence.gram)) and np.all(np.isfinite(evidence.slope)) and np.isfinite(evidence.square)
    ):
        return None
    try:
        gain, precision, noise = evidence.peak(model.precision(q) / np.square(unit[: model.n_fixed]), model.log_prior)
        gain -= model.hyper["prior_precision"].log_density(q)
    except LinAlgError:  # messages that say less than nothing where the prior is weak
        return None
    if not gain > (worth if closed else max(worth, PROMISING)):
        return None
    there = {
        **q,
        "prior_precision": q["prior_precision"].at(np.full_like(q["prior_precision"].value, np.log(precision))),
    }
    if closed:
        variance = noise * likelihood.noise_variance - likelihood.least
        there["likelihood"] = q["likelihood"].at(np.log([max(variance, likelihood.least)]))
    try:
        return {**there, "weights": model.prior(there)["weights"].times(Message((linear / noise, gram / noise)))}
    except NotPositiveDefinite:
        return None
