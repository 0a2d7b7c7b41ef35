"""Factorization of a sparsely observed matrix: f_ij = offset + x_iᵀ z_j (doc/factorization.md).

Users have coordinates x = (u, b, 1) and items z = (v, 1, c), so that f = uᵀv + b + c + offset and biases are factors
whose other side is the constant one; without biases x = u and z = v. A column is one user or one item: given the other
side it is a generalized linear model whose rows are uncertain, E zzᵀ in the place of z zᵀ. The mean of f is xᵀz and its
variance tr(E xxᵀ E zzᵀ) - (xᵀz)²; by the deterministic routes the bound is that of f's own Gaussian: a surrogate, exact
for a Gaussian likelihood.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from sksvi.algorithms.rules import FIXED, Fixed, Newton, Rule
from sksvi.families import Free, GaussianPlates, Point
from sksvi.models.base import Bipartite, Segment
from sksvi.models.factorization.columns import SIDES, ColumnView, SideColumns, SideLayout, other_side
from sksvi.models.factorization.ratings import Entries, Ratings
from sksvi.models.factorization.side_prior import SidePrior, rotation
from sksvi.models.traits import AlternatingTraits, BoundTraits, Traits

Array = np.ndarray

#: Standard deviation of a first factor, in units of the prior's; smaller ones start in a saddle point.
FIRST_SPREAD = 1.0
#: Factors whose part of f has less than this share of its first width are shrunk away.
SHRUNK = 0.02
#: Passes before the priors are learned: factors that have not found their part yet would be switched off. More where
#: ratings are too few for all factors: there the variances of the others hide what one explains.
FIRST_PASSES, FEW_RATINGS_PASSES = 3, 10
#: Factors that begin at least, and the share of the first variance of those that ratings are too few for.
FEWEST, INACTIVE = 3, 1e-6
#: Passes before a dispersion is learned: beside factors that are draws it would take all that they are to explain.
HELD_PASSES = 2
#: Where the variance of noise that is given less begins, in squared units of f: twice what first draws leave. It is
#: halved from pass to pass, by more where that took more than so many. Begun at little noise, users and items fix each
#: other where their first draws happened to lead.
HOT, MOST_COOLING = 4.0, 20
#: Largest Newton step of the likelihood's parameters (logarithms, and shares of its width) that is taken unseen: over
#: it the curvature changes by a tenth or so, and the step goes up.
TRUSTED_STEP = 0.1
#: Parameters that the model under another prior or likelihood has too.
OWN = ("n_components", "biases", "full", "offset", "unit", "learn_priors", "cooling", "zero_weight", "n_active")
#: First variance of a bias, in squared units of f.
BIAS_START = 0.3


class FactorModel(Bipartite):
    """Users and items as Gaussian plates, with one Gaussian prior per side whose precision is learned.

    Parameters
    ----------
    likelihood : Likelihood
        Scalar, every parameter a number; those in ``likelihood.learned`` become the point block "likelihood".
    n_components : int
    biases, full : bool
    priors : dict
        `SidePrior` of "users" and "items".
    offset : float
        Constant part of f.
    unit : float
        Natural scale of f.
    learn_priors : bool, default=True
    cooling : int, default=20
        Most first passes under more noise than is given.
    zero_weight : float, default=0.0
        Of a y of 0 for every pair, besides the entries; for a Gaussian likelihood and full covariances.
    n_active : int, default=None
        Factors that begin; None: all.
    """

    def __init__(
        self,
        likelihood: Any,
        *,
        n_components: int,
        biases: bool,
        full: bool,
        priors: dict[str, SidePrior],
        offset: float = 0.0,
        unit: float = 1.0,
        learn_priors: bool = True,
        cooling: int = MOST_COOLING,
        zero_weight: float = 0.0,
        n_active: int | None = None,
    ) -> None:
        self.likelihood, self.offset, self.unit = likelihood, offset, unit
        self.n_components, self.biases, self.full = n_components, biases, full
        self.priors, self.learn_priors, self.cooling = priors, learn_priors, cooling
        self.zero_weight, self.n_active = zero_weight, n_components if n_active is None else n_active
        self.layouts = {side: SideLayout(n_components, biases, side, full) for side in SIDES}

    @cached_property
    def traits(self) -> Traits:  # type: ignore[override]
        """A measured target has a unit."""
        log_unit = float(np.log(self.unit)) if self.likelihood.traits.additive else 0.0
        remedy = "Lower n_components, or fix the likelihood's parameters."
        return Traits(bound=BoundTraits(log_unit=log_unit), remedy=remedy)

    @cached_property
    def alternating(self) -> AlternatingTraits:  # type: ignore[override]
        """Steps of the likelihood's parameters begin late where a dispersion could absorb what factors explain."""
        waits = HELD_PASSES if self.likelihood.scales.takes_excess else 0
        first = FIRST_PASSES if self.n_active == self.n_components else FEW_RATINGS_PASSES
        return AlternatingTraits(SIDES, first, waits, TRUSTED_STEP * min(1.0, self.likelihood.width))

    @cached_property
    def hyper(self) -> dict[str, Rule]:
        """The likelihood's parameters by Newton; means and precisions of the priors by `learned`."""
        learned: dict[str, Rule] = {"likelihood": Newton()} if self.likelihood.learned else {}
        for side in SIDES:
            learned[f"{side}_mean"] = Fixed(partial(_log_density_of_means, self.priors[side], side))
            learned[f"{side}_precision"] = FIXED
        return learned

    def current_likelihood(self, q: dict[str, Any]) -> Any:
        """The likelihood with its learned parameters as q has them."""
        return self.likelihood.replace(q["likelihood"].value) if "likelihood" in q else self.likelihood

    def tempered(self, passes: int) -> FactorModel | None:
        """The model with more noise than is given, while it comes down."""
        given = self.likelihood.scales.given
        if given is None:
            return None
        halvings = float(np.log2(HOT) + 2.0 * np.log2(self.unit / given))
        n = min(int(np.ceil(halvings)), self.cooling)
        if passes >= n:
            return None
        scale = given * 2.0 ** (0.5 * halvings * (1.0 - passes / n))
        return self._with(self.priors, self.likelihood.scales.at_given(scale))

    # ---- blocks
    def begin(self, data: Ratings, rng: np.random.Generator, threads: int = 1) -> dict[str, Any]:
        """Factors drawn from a first prior, biases at zero."""
        q: dict[str, Any] = {}
        for side in SIDES:
            variance = self.first_variance()
            q[side] = self._first_plates(side, data, rng)
            q[f"{side}_precision"] = Free(-np.log(variance))
            q[f"{side}_mean"] = Free(np.zeros((self.priors[side].n_columns, len(variance))))
        if self.likelihood.learned:
            q["likelihood"] = Point(self.likelihood.unconstrained)
        return q

    def _first_plates(self, side: str, data: Ratings, rng: np.random.Generator) -> GaussianPlates:
        variance = self.first_variance()
        n, n_other = (len(data.sides[name].starts) - 1 for name in (side, other_side(side)))
        k, mean = self.n_components, np.zeros((n, len(variance)))
        mean[:, :k] = FIRST_SPREAD * np.sqrt(variance[:k]) * rng.standard_normal((n, k))
        informed = 1.0 + (data.total_weight / max(n, 1) + self.zero_weight * n_other) / len(variance)
        return GaussianPlates.constant(mean, variance / informed, self.full)

    def revived(self, q: dict[str, Any], data: Ratings, rng: np.random.Generator) -> dict[str, Any]:
        """q whose factors that had been shrunk away begin anew: zero times zero would stay, whatever the data say."""
        variance, k = self.first_variance(), self.n_components
        size = [np.sqrt(np.mean(np.square(q[side].mean[:, :k]), axis=0)) for side in SIDES]
        # Others are smaller than those, or were never drawn.
        gone = np.flatnonzero((size[0] * size[1] < SHRUNK * variance[:k])[: self.n_active])
        if not len(gone):
            return q
        q, fresh = dict(q), np.isin(np.arange(len(variance)), gone)
        for side in SIDES:
            q[side] = q[side].anew(gone, self._first_plates(side, data, rng))
            q[f"{side}_precision"] = Free(np.where(fresh, -np.log(variance), q[f"{side}_precision"].value))
            q[f"{side}_mean"] = Free(np.where(fresh, 0.0, q[f"{side}_mean"].value))
        return q

    def first_variance(self) -> Array:
        """Prior variances before any is learned: the inner product has variance `unit`²."""
        factors = np.full(self.n_components, self.unit / np.sqrt(self.n_active))
        factors[self.n_active :] *= INACTIVE
        return np.append(factors, BIAS_START * self.unit**2) if self.biases else factors

    def prior(self, q: dict[str, Any]) -> dict[str, Any]:
        """Gaussians per plate, their means from the side's features."""
        return {side: self.priors[side].block(q, side) for side in SIDES}

    def for_users(self, prior: SidePrior) -> FactorModel:
        """The model of other users."""
        return self._with({**self.priors, "users": prior}, self.likelihood)

    def _with(self, priors: dict[str, SidePrior], likelihood: Any) -> FactorModel:
        own = {name: getattr(self, name) for name in OWN}
        return FactorModel(likelihood, priors=priors, **own)

    def grown(self, q: dict[str, Any], data: Ratings) -> dict[str, Any]:
        """Plates for the ids that are new in the data: they begin at the prior."""
        q = dict(q)
        for side in SIDES:
            old, n = len(q[side]), len(data.sides[side].starts) - 1
            if n == old:
                continue
            prior = self.prior(q)[side]
            mean = np.broadcast_to(prior.mean, (n, q[side].mean.shape[1]))[old:]
            q[side] = q[side].concatenated(GaussianPlates.constant(mean, 1.0 / prior.precision, self.full))
        return q

    # ---- columns
    def sweep(self, data: Ratings, batch_size: int | None, seed: int, pass_number: int) -> Iterator[Segment]:
        """Users given items, then items given users."""
        for side in SIDES:
            yield Segment(slice(0, len(data)), 1.0, (side,))

    def side_view(self, q: dict[str, Any], side: str, expect: Any = None, rng: Any = None) -> ColumnView:
        """The other side as columns of `side` use it: moments, or draws for a sampled expectation."""
        block = q[other_side(side)]
        likelihood = self.current_likelihood(q)
        view = ColumnView.of(self.layouts, side, block, likelihood, self.offset, self.zero_weight)
        if expect is None or expect.exact:
            return view
        samples = block.sample(expect.n, np.random.RandomState(rng.integers(2**31)))
        return replace(view, draws=np.stack([view.other_layout.embedded(sample) for sample in samples], axis=1))

    # ---- the bound of all entries, as the engine evaluates it
    def view(self, q: dict[str, Any], rng: Any) -> Any:
        """The items' view, and the items."""
        return self.side_view(q, "items"), q["items"]

    def chunks(self, rows: Array | slice, data: Ratings) -> list[Any]:
        """Items in chunks."""
        return self.layouts["items"].chunks(data.sides["items"])

    def batch(self, data: Ratings, rows: Any, start: Any = None) -> tuple[Any, Entries]:
        """The entries of some items."""
        return rows, data.sides["items"].of(rows)

    def terms(self, view: Any, batch: Any, expect: Any, rng: Any) -> Any:
        """Value of some items at q."""
        (column_view, items), (plates, entries) = view, batch
        return Evaluated(column_view.plates(entries, expect, rng), items[plates])

    def pull_back(self, terms: Any, batch: Any) -> dict[str, Any]:
        """Gradient in the likelihood's parameters."""
        gradient: dict[str, Any] = terms.columns.hyper(terms.block)
        return gradient

    # ---- what is learned of all columns
    def expanded(self, q: dict[str, Any]) -> dict[str, Any]:
        """q in the coordinates of least divergence from the priors, f unchanged; for full covariances, plates in place.

        u -> R u, v -> R⁻ᵀ v leaves f and its distribution alone. With a learned variance per coordinate the divergence
        is least where both sides' second moments are diagonal: what many passes would creep to is one step.
        """
        if not (self.full and self.learn_priors and all(prior.by_coordinate for prior in self.priors.values())):
            return q
        k = self.n_components
        turn = rotation(*(self.priors[side].second_moment(q, side, k) for side in SIDES))
        q = dict(q)
        for side, matrix in zip(SIDES, (turn, np.linalg.inv(turn).T), strict=True):
            q[side].turn(matrix)
            coefficients = q[f"{side}_mean"].value.copy()
            coefficients[:, :k] = coefficients[:, :k] @ matrix.T
            q[f"{side}_mean"] = Free(coefficients)
        return q

    def learned(self, q: dict[str, Any], natural: bool) -> dict[str, Any]:
        """Coefficients of the features and precisions of the factors in closed form."""
        q = dict(self.expanded(q) if natural else q)
        for side in SIDES:
            q.update(self.priors[side].learned(q, side, self.n_components, self.learn_priors))
        return q


class Evaluated:
    """Some columns at their q."""

    repairs = 0

    def __init__(self, columns: SideColumns, block: GaussianPlates) -> None:
        self.columns, self.block = columns, block
        self.value = columns.value(block)


def _log_density_of_means(prior: Any, side: str, q: dict[str, Any]) -> float:
    """What the coefficients of a side's prior means cost, nats."""
    return -float(prior.divergence(q, side))
