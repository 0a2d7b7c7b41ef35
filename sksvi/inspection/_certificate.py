"""How long natural steps may be: the spectrum of their map at a fitted q, by power iteration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from sksvi._runtime import parallel
from sksvi._runtime.user import warn_user
from sksvi._typing.arrays import MatrixLike, PerRow
from sksvi.algorithms.rules import FixedMean, Natural, Rule, StepSize
from sksvi.estimators.checks import check_choice
from sksvi.estimators.posterior import PosteriorTarget
from sksvi.inference.engine import evaluate, prepare, whole
from sksvi.inference.state import State
from sksvi.inspection._fitted_rows import FittedRows
from sksvi.inspection._posterior import SUPPORTED

#: Length of a difference, as the root of twice its divergence, nats; relative change at which power iteration ends.
STEP, SETTLED = 1e-3, 1e-4
#: Most products with the Jacobian.
MOST_PRODUCTS = 200
RULES: dict[str, Rule] = {"free": Natural(), "fixed": FixedMean()}

Direction = tuple[Any, ...]


@dataclass(frozen=True)
class FixedPointCertificate:
    """What `fixed_point_certificate` found.

    Parameters
    ----------
    overshoot : float
        Minus the least eigenvalue of the Jacobian of a step of rate 1. Above 1 steps of rate 1 end in a cycle.
    largest_rate : float
        Rates below it contract near q: 2 / (1 + overshoot).
    best_rate : float
        The rate of fastest contraction if no eigenvalue is above zero: 2 / (2 + overshoot), at most 1.
    n_products : int
        Products with the Jacobian, each of two looks at all rows.
    """

    overshoot: float
    largest_rate: float
    best_rate: float
    n_products: int


def fixed_point_certificate(
    model: BaseEstimator,
    X: MatrixLike | None = None,
    y: PerRow | None = None,
    *,
    mean: str = "free",
    sample_weight: PerRow | None = None,
    offset: PerRow | None = None,
    exposure: PerRow | None = None,
) -> FixedPointCertificate:
    """The largest rate at which natural steps on all rows contract to a fitted q, found before any is taken.

    Fits test each step against the bound and need no such number. Rates that are given are not tested: those of
    mini-batches and sampled gradients, ``MCSSVI(schedule=Constant(0.5))``.

    Parameters
    ----------
    model : fitted estimator
        A linear model, one with mixed effects, a Gaussian process or a `DynamicGLM`; or a Pipeline or search around
        one.
    X : {DataFrame, array-like, sparse matrix} of shape (n, D), default=None
        The rows of the fit; None for a `DynamicGLM`, which holds its series.
    y : array-like of shape (n,), binomial (n, 2), default=None
        Their targets; None for a `DynamicGLM`.
    mean : {"free", "fixed"}, default="free"
        "free": steps on mean and covariance, those of ``"mc-ssvi"`` and ``"cvi"``. "fixed": on the covariance at the
        mean of q, as ``FixedPoint(order="batch")`` takes them; the overshoot with the mean solved for after each, as
        `FixedPoint` does by default, is no larger.
    sample_weight, offset, exposure : array-like of shape (n,), default=None
        As the fit had them.

    Returns
    -------
    FixedPointCertificate
        With overshoot, largest_rate, best_rate and n_products.

    Raises
    ------
    TypeError
        If there is no such estimator inside, or for Dask collections.
    ValueError
        For another `mean`, and rows that are not those of the fit.

    Warns
    -----
    UserWarning
        Where the eigenvalue has not settled: the rates are too large by what its last change leaves open.

    Notes
    -----
    A step of rate 1 is the fixed-point operator of Sheth and Khardon (2016, supplement, eqs. 17 and 18). Its Jacobian
    is self-adjoint under the Fisher information, so that eigenvalues are real; those of a step of rate ``r`` are
    ``1 - r (1 - eigenvalue)``. Hyperparameters and all blocks but that of the weights or latents stay. The page on the
    fixed point derives it.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sksvi import BayesianGLMClassifier
    >>> from sksvi.inspection import fixed_point_certificate
    >>> X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    >>> model = BayesianGLMClassifier().fit(X, y)
    >>> print(f"{fixed_point_certificate(model, X, y).largest_rate:.2f}")
    1.03
    """
    check_choice(mean, "mean", tuple(RULES))
    fit = FittedRows(model, X, y, sample_weight, offset, exposure)
    fit.require("_joint", "has no natural steps on one block", SUPPORTED)
    with parallel.working():
        largest, products = largest_eigenvalue(NaturalMap(fit.call("_joint"), RULES[mean]))
    return FixedPointCertificate(largest - 1.0, 2.0 / largest, min(1.0, 2.0 / (1.0 + largest)), products)


class NaturalMap:
    """A step of rate 1 on one block, as a map of its natural parameters about a q.

    Parameters
    ----------
    joint : PosteriorTarget
        q, its problem, and the name of the block.
    rule : Rule
        How the block steps.
    """

    def __init__(self, joint: PosteriorTarget, rule: Rule) -> None:
        block = joint.q[joint.block]
        self.block = block if block.natural_coordinates else block.natural_form()
        self.problem, self.name, self.rule = joint.problem.for_bound, joint.block, rule
        self.q = {**joint.q, joint.block: self.block}
        self.prior = joint.problem.model.prior(self.q)[joint.block]
        self.own: Direction = tuple(self.block.natural(self.block))

    @property
    def message(self) -> Direction:
        """What the data say in q, as a direction; of the precision alone where the mean stays."""
        pairs = zip(self.own, self.prior.natural(self.block), strict=True)
        linear, precision = (own - start for own, start in pairs)
        return (0.0 * linear if isinstance(self.rule, FixedMean) else linear), precision

    def moved(self, u: Direction, size: float) -> Any:
        """The block moved along a direction."""
        return self.block.replace(added(self.own, u, size))

    def image(self, u: Direction, size: float) -> Direction:
        """Natural parameters after a step from there."""
        q = {**self.q, self.name: self.moved(u, size)}
        prepare(q)
        gradient = evaluate(self.problem, State(q, 0), whole(self.problem))[0][self.name]
        pace = StepSize(1.0, 1.0, self.problem.weight)
        return tuple(self.rule.step(self.name, q, self.prior, gradient, None, pace).block.natural(self.block))

    def product(self, u: Direction) -> Direction:
        """J u, by central differences."""
        difference = added(self.image(u, STEP), self.image(u, -STEP), -1.0)
        return tuple(part / (2.0 * STEP) for part in difference)

    def squared_norm(self, u: Direction) -> float:
        """Squared length of a direction under the Fisher information, by the divergence of a small move."""
        return 2.0 * float(self.moved(u, STEP).kl(self.block)) / STEP**2


def added(a: Direction, b: Direction, share: float) -> Direction:
    """a plus a share of b."""
    return tuple(one + share * other for one, other in zip(a, b, strict=True))


def largest_eigenvalue(step: NaturalMap) -> tuple[float, int]:
    """The largest eigenvalue of I - J by power iteration with Rayleigh quotients, and the products that it took."""
    u, found, before = step.message, 1.0, np.inf
    for number in range(1, MOST_PRODUCTS + 1):
        length = np.sqrt(max(step.squared_norm(u), 0.0))
        if length == 0.0:  # no row says a thing: a step goes nowhere
            return 1.0, number
        u = tuple(part / length for part in u)
        there = added(u, step.product(u), -1.0)
        both = (step.squared_norm(added(u, there, sign)) for sign in (1.0, -1.0))
        before, found = found, (next(both) - next(both)) / 4.0
        if number > 1 and abs(found - before) <= SETTLED * abs(found):
            return found, number
        u = there
    warn_user(
        f"the largest eigenvalue had not settled after {MOST_PRODUCTS} products: it was {before:.4g}, then "
        f"{found:.4g}. The rates are too large by what that leaves open."
    )
    return found, MOST_PRODUCTS
