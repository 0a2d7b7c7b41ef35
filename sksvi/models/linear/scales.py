"""The prior of the scales that columns share: half-Cauchy on the deviation of f that each kind of columns makes.

A coefficient on the spread of its column is N(0, exp(-h)); columns of one kind share h. Under the prior the columns of
kind k give f the variance W_k u² = exp(-h_k) v_k, v_k the sum of the variances of the columns on their spreads and u
the unit of f, and √W_k is half-Cauchy(1) between the least and the largest scale that are allowed.

The evidence of a Gaussian linear model is a function of one prior precision of all weights, with the best noise. With
weights w ~ N(0, I/δ), noise s and an intercept under a flat prior, A = XᵀX and b = Xᵀy of centred columns,
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

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve, eigh

from sksvi.algorithms.rules import Rule
from sksvi.families.base import Message, NotPositiveDefinite
from sksvi.models.data import Table

# ---- prior and limits of scales
Array = np.ndarray

#: Largest prior standard deviation of the effect of one standard deviation of a column, in units of the target.
WIDEST = 2.5
#: Columns that may be as uncertain as the target is wide, however few the rows, and rows that each further one needs.
FREE_COLUMNS, ROWS_PER_COLUMN = 3, 5.0


def log_half_cauchy(square: Array) -> Array:
    """Log density of the log of a square whose root is half-Cauchy(1), up to -log π, nats."""
    return 0.5 * np.log(square) - np.log1p(square)


@dataclass(frozen=True)
class ScalePrior:
    """Prior of the log precisions h (K,), one of each kind of columns.

    Parameters
    ----------
    kinds : ndarray of int, shape (D,)
        Kind of each column.
    variance : ndarray of shape (K,)
        v: variance of f that the columns of each kind make at coefficients of variance 1 on their spread.
    unit : float or ndarray of shape (K,)
        u: unit of f, or of the latent of each kind.
    lowest, highest : ndarray of shape (K,)
        Limits of h.
    """

    kinds: Array
    variance: Array
    unit: Any
    lowest: Array
    highest: Array

    @classmethod
    def of(cls, kinds: Array, variances: Array, rows: Array, target: Any, link: Any, varies: Array) -> ScalePrior:
        """The prior found from the kinds and variances of the columns.

        Parameters
        ----------
        kinds : ndarray of int, shape (D,)
        variances : ndarray of shape (D,)
            Of the columns on their spreads, two standard deviations or the distance of two values.
        rows : ndarray of shape (K,)
            Rows that inform each kind, one that tells all of f counting 1.
        target : float or ndarray of shape (K,)
            Unit of the target: its standard deviation where it is measured, else 1.
        link : float or ndarray of shape (K,)
            Unit of f in units of the target: 1, of a logit 2.
        varies : ndarray of bool, shape (D,)
            Which columns do: others count for nothing.
        """
        n_kinds = len(rows)
        count = np.bincount(kinds, varies, n_kinds)
        variance = np.bincount(kinds, variances, n_kinds)
        with np.errstate(divide="ignore"):
            share = 1.0 - ROWS_PER_COLUMN * np.maximum(count - FREE_COLUMNS, 0.0) / np.maximum(rows, 1e-300)
            # A coefficient on two standard deviations is twice that on one.
            least = link / np.sqrt(4.0 * variance) * np.sqrt(np.maximum(share, 0.0))
            highest = -2.0 * np.log(2.0 * target * np.minimum(WIDEST, least))
        lowest = np.full(n_kinds, -2.0 * np.log(2.0 * target * WIDEST))
        return cls(kinds, variance, target * link, lowest, highest)

    def alike(self, size: int) -> ScalePrior:
        """The prior for `size` coordinates of one kind, as those of a subspace that the columns span."""
        return replace(self, kinds=np.zeros(size, int))

    def ratio(self, h: Array) -> Array:
        """Ratio W of the variance of f that each kind of columns makes to u², (K,) or (..., K)."""
        return np.exp(-h) * self._variance_in_units

    @cached_property
    def _variance_in_units(self) -> Array:
        return self.variance / np.square(self.unit)

    @cached_property
    def free(self) -> Array:
        """Which scales are learned: those of limits that do not meet, of columns that vary, (K,)."""
        return (self.highest > self.lowest) & (self.variance > 0)

    @cached_property
    def _log_constant(self) -> float:
        """Log normalising constant of the half-Cauchy density between the limits, summed over free scales."""
        low, high = (np.arctan(np.sqrt(self.ratio(end)[self.free])) for end in (self.highest, self.lowest))
        return float(-np.sum(np.log(2.0 * (high - low))))

    def log_density(self, h: Array) -> Array:
        """log p(h) summed over kinds, nats; -inf beyond the limits."""
        inside = ((h >= self.lowest - 1e-9) & (h <= self.highest + 1e-9)).all(axis=-1)
        return np.where(inside, self.log_density_within(h), -np.inf)

    def log_density_within(self, h: Array) -> Array:
        """log p(h) summed over kinds, nats, of h between the limits."""
        return np.asarray(log_half_cauchy(self.ratio(h)[..., self.free]).sum(axis=-1) + self._log_constant)

    def step(self, h: Array, determined: Array, squares: Array) -> tuple[Array, float]:
        """The step to the best h for q, and the gain that it promises, nats.

        With γ well-determined coefficients of a kind and δ = exp(h) the bound is stationary where
        δ Σ m² + 1 = γ + 2 W / (1 + W) (MacKay 1992, eq. 4.10, with the slope of the prior).

        Parameters
        ----------
        h : ndarray of shape (K,)
        determined : ndarray of shape (D,)
            Share of each coefficient that the data determine.
        squares : ndarray of shape (D,)
            m² of each coefficient on the spread of its column.
        """
        size, W = len(h), self.ratio(h)
        total = np.maximum(np.bincount(self.kinds, determined, size), 0.0)
        norm = np.bincount(self.kinds, squares, size)
        wanted = np.log(np.maximum(total + 2.0 * W / (1.0 + W), np.finfo(float).tiny))
        new = np.minimum(np.maximum(h + wanted - np.log1p(np.exp(h) * norm), self.lowest), self.highest)
        moved = new - h
        return moved, 0.25 * float(((total + 1.0) * np.square(moved)).sum())


# ---- the prior of weights in the span of fewer rows
# With rows L Bᵀ of squared singular values λ² the weights are B z + u, u off the span, and the prior of power p is
#     z ~ N(0, diag(g) / δ),  g = ρ + (1 - ρ) λ²ᵖ Σ λ² / Σ λ²ᵖ⁺²,    u ~ N(0, ρ (I - BBᵀ) / δ),
# of covariance ρ I + (1 - ρ) c (XᵀX)ᵖ, and ρ = 1 at p = 0. Whatever the power, latents of the rows have the same
# variance on average, so that δ keeps its meaning. Powers are hypotheses with prior probabilities: the bound is that of
# the likeliest one, log probability included, at most that of all together.
#: Powers of XᵀX in the prior covariance, and their prior probabilities: for another than 0 the data have to speak by
#: 2.9 nats, odds of 18 ("strong" evidence is 20, Kass and Raftery 1995).
POWERS, PROBABILITIES = (0, 1, 2), (0.9, 0.05, 0.05)
#: Share of the prior variance that all directions have alike.
REST = 0.1


@dataclass(frozen=True)
class SpectralPrior:
    """Prior variances of weights in the span of the rows, one choice for each power.

    Parameters
    ----------
    squares : ndarray of shape (r,)
        λ²: sums of the squares of the rows' coordinates along each direction.

    Examples
    --------
    >>> import numpy as np
    >>> from sksvi.models.linear.scales import SpectralPrior
    >>> prior = SpectralPrior(np.array([3.0, 1.0]))
    >>> prior.variance(0), prior.variance(1), prior.rest(1)
    (array([1., 1.]), array([1.18, 0.46]), 0.1)
    """

    LAYOUT = "squares (_) f >0"

    squares: Array

    @classmethod
    def of(cls, data: Table) -> SpectralPrior:
        """The prior of rows in coordinates of their span; a row of weight k counts as k rows."""
        weight = np.ones(len(data)) if data.weight is None else data.weight
        return cls(weight @ np.square(data.X))

    def variance(self, power: int) -> Array:
        """Prior variance g of each coordinate in the span over 1/δ, (r,)."""
        if power == 0:
            return np.ones_like(self.squares)
        relative = self.squares / self.squares.max(initial=0.0)
        raised = relative**power
        return REST + (1.0 - REST) * raised * (relative.sum() / (relative * raised).sum())

    def rest(self, power: int) -> float:
        """Prior variance off the span, in every direction, over 1/δ."""
        return 1.0 if power == 0 else REST

    def of_weights(self, power: int, basis: Array) -> Array:
        """Prior variance of each weight over 1/δ, (D,), for the basis (D, r) of the span."""
        if power == 0:
            return np.ones(len(basis))
        return REST + np.square(basis) @ (self.variance(power) - REST)

    @staticmethod
    def log_probability(power: int) -> float:
        """Log prior probability of a power, nats."""
        return float(np.log(PROBABILITIES[POWERS.index(power)]))


def prior_power(q: Mapping[str, Any]) -> int:
    """The power of a spectral prior that q has; 0 of any other prior."""
    return int(q["prior_power"].value[0]) if "prior_power" in q else 0


# ---- the posterior of one effect under a weak prior of its own
# A prior that is learned for prediction shrinks each effect towards what effects are on average. A row of a table
# answers for one: there its prior is replaced by a weak one. With S the covariance under q, Δ the precisions of the
# prior that q has and W those of the weak one, for a set J of effects
#     L = S_JJ⁻¹ - Δ_J + W_J,    mean = L⁻¹ S_JJ⁻¹ m_J,    covariance = L⁻¹,
# exact for a Gaussian likelihood at its noise, of first order through the messages of q otherwise. What q knows beyond
# its prior, S_JJ⁻¹ - Δ_J, is at least nothing: its eigenvalues are floored at 0.
def own_effects(mean: Array, variance: Array, precision: Array, own: Array) -> tuple[Array, Array]:
    """Mean and variance of every effect, each under a prior of its own.

    Parameters
    ----------
    mean, variance : ndarray of shape (..., D)
        Under q.
    precision, own : ndarray of shape (D,)
        Of the prior that q has, and of the weak one.

    Examples
    --------
    >>> import numpy as np
    >>> from sksvi.models.linear.scales import own_effects
    >>> mean, variance = own_effects(np.array([0.5]), np.array([0.5]), np.array([1.0]), np.array([0.0]))
    >>> mean, variance
    (array([1.]), array([1.]))
    """
    information = np.maximum(1.0 / variance - precision, 0.0)
    total = information + own
    return mean / (variance * total), 1.0 / total


def own_sets(mean: Array, cov: Array, precision: Array, own: Array) -> tuple[Array, Array]:
    """Mean and covariance of sets of effects, each set under a prior of its own.

    Parameters
    ----------
    mean : ndarray of shape (..., J)
        Under q.
    cov : ndarray of shape (..., J, J)
    precision, own : ndarray of shape (..., J)
        Of the prior that q has, and of the weak one.
    """
    unit = np.sqrt(np.diagonal(cov, axis1=-2, axis2=-1))
    inverse = np.linalg.inv(cov / (unit[..., :, None] * unit[..., None, :]))
    square = np.square(unit)
    information = inverse - _diagonal(precision * square)
    values, vectors = np.linalg.eigh(0.5 * (information + np.swapaxes(information, -1, -2)))
    information = (vectors * np.maximum(values, 0.0)[..., None, :]) @ np.swapaxes(vectors, -1, -2)
    after = np.linalg.inv(information + _diagonal(own * square))
    moved = after @ (inverse @ (mean / unit)[..., None])
    return unit * moved[..., 0], after * (unit[..., :, None] * unit[..., None, :])


def _diagonal(values: Array) -> Array:
    """Diagonal matrices (..., J, J)."""
    return values[..., :, None] * np.eye(values.shape[-1])


# ---- the evidence as a function of one scale
#: Ridge penalties that are looked at, over the largest eigenvalue.
PENALTIES = np.logspace(-10, 5, 151)
#: Information of columns so small that penalties of it are no numbers: beside any prior it is none.
NOTHING = 1e-290
#: Least promise of messages that is tried, nats: fits of labels that are nearly told apart creep up by less for long.
PROMISING = 0.5


class WeightsModel(Protocol):
    """A model whose weights have a learned prior precision, with all that its evidence depends on."""

    fit_intercept: bool

    def units(self, q: dict[str, Any]) -> Array:
        """What the learned precision is of: each of these weights times its unit."""
        ...

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
    unit = np.append(model.units(q), [1.0] * model.fit_intercept)
    own = unit * block.mean, gram / np.outer(unit, unit), slope / unit
    # The prior of the noise is worth a row less.
    evidence = Evidence.about(*own, square, n - 1.0 if closed else None, least, model.fit_intercept)
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
