"""Algorithms: a row each of one table. None knows a model, and the classes hold parameters only.

See Also
--------
sksvi.algorithms.rules : how each kind of block moves.
sksvi.algorithms.steps : the updates themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from sklearn.base import BaseEstimator, clone

from sksvi._typing.arrays import Schedule
from sksvi.algorithms import rules
from sksvi.schedules import AdaGrad, Constant, RobbinsMonro

#: Rates of mini-batch and sampled steps when none is given (benchmarks/product/algorithms.py); t counts steps.
STEP_RATE = RobbinsMonro(delay=10.0, kappa=0.55)
#: Rates of messages, t counts passes: they remember, so that mini-batches bring no lasting noise to be damped.
MESSAGE_RATE = RobbinsMonro(delay=0.0, kappa=0.3)
#: Rates as Sheth and Khardon (2016) print them: of natural steps 1/t, of others AdaGrad's.
LITERAL_RATE, LITERAL_ADAGRAD = RobbinsMonro(delay=0.0, kappa=1.0), AdaGrad(rate=1.0)

#: Up to this many rows a natural step takes all of them: it gains what a Newton step does.
FULL_BATCH_ROWS = 2**20
#: Up to this many rows every algorithm takes all of them, each step judged; and rows of a gradient step on more.
SMALL_ROWS, GRADIENT_ROWS = 4096, 512


def many_rows(n: int) -> int | None:
    """Rows of a natural step on n rows: all of them, up to a size; None: all."""
    return None if n <= FULL_BATCH_ROWS else FULL_BATCH_ROWS // 8


def all_rows(n: int) -> None:
    """Rows of a step that has to see all of them: None."""


def few_rows(n: int) -> int | None:
    """Rows of a gradient step on many rows, of which a part says enough; on few it costs as much as all do."""
    return None if n <= SMALL_ROWS else GRADIENT_ROWS


def natural(adagrad: AdaGrad) -> rules.Rule:
    """The natural step; it has no use for AdaGrad."""
    return rules.Natural()


def covariance_only(adagrad: AdaGrad) -> rules.Rule:
    """The natural step of a Gaussian whose mean stays."""
    return rules.FixedMean()


@dataclass(frozen=True)
class AlgorithmSpec:
    """Properties of an algorithm, a row of `SPECS`.

    Parameters
    ----------
    gaussian, other : callable
        AdaGrad's step sizes to the rule of Gaussian blocks, and of blocks of every other family.
    globals : {"expected", "sampled", "corrected", "mean"}
        How a local step sees the global blocks, where a model has one and leaves that to the algorithm.
    structured : bool, default=False
        Only for models that leave it: to others the algorithm says nothing that they could do.
    messages : bool, default=False
        A site is kept per datum, so that mini-batch noise vanishes at the optimum; streams absorb what a portion said.
    solves_mean : bool, default=False
        Solves for the mean at the covariance in every pass.
    nested : bool, default=False
        Before it does, lets the covariance settle at the mean.
    whole : bool, default=False
        Works on all rows at once, without noise.
    natural : bool, default=True
        Every step is a natural one, whose length says what there is to gain.
    sampler : bool, default=False
        Draws from the posterior itself: a model that has one runs its own sweeps.
    local : str, default="natural"
        The step of local variables inside a model that has several.
    literal : bool, default=False
        Steps are those of the source: from m = 0 and S = 10 I, neither judged nor averaged.
    rows : callable
        Number of rows to those of a batch, where the user leaves it to us; None: all.
    """

    gaussian: Callable[[AdaGrad], rules.Rule]
    other: Callable[[AdaGrad], rules.Rule]
    globals: str = "sampled"
    structured: bool = False
    messages: bool = False
    solves_mean: bool = False
    nested: bool = False
    whole: bool = False
    natural: bool = True
    sampler: bool = False
    local: str = "natural"
    literal: bool = False
    rows: Callable[[int], int | None] = many_rows


SPECS = {
    "mc-ssvi": AlgorithmSpec(natural, natural),
    "h-mc-ssvi": AlgorithmSpec(rules.Hybrid, natural, natural=False, local="hybrid", rows=few_rows),
    "s-dsvi": AlgorithmSpec(rules.Euclidean, rules.StandardCoordinates, natural=False, local="standard", rows=few_rows),
    "cvi": AlgorithmSpec(natural, natural, globals="expected", messages=True, local="messages"),
    "fp": AlgorithmSpec(natural, natural, solves_mean=True, whole=True, rows=all_rows),
    "fp-batch": AlgorithmSpec(natural, natural, solves_mean=True, nested=True, whole=True, rows=all_rows),
    "fp-covariance": AlgorithmSpec(covariance_only, natural, whole=True, rows=all_rows),
    "svi": AlgorithmSpec(natural, natural, globals="expected", structured=True),
    "ssvi-a": AlgorithmSpec(natural, natural, globals="sampled", structured=True),
    "ssvi": AlgorithmSpec(natural, natural, globals="corrected", structured=True),
    "map": AlgorithmSpec(natural, natural, globals="mean", structured=True),
    "gibbs": AlgorithmSpec(natural, natural, sampler=True),
}
#: The two whose source prints other settings than those that need no tuning.
LITERAL_SPECS = {
    "h-mc-ssvi": replace(SPECS["h-mc-ssvi"], gaussian=rules.LiteralHybrid, literal=True),
    "s-dsvi": replace(SPECS["s-dsvi"], gaussian=rules.LiteralEuclidean, literal=True),
}
#: Rules that families ask for in the place of another (`Family.instead`).
REPLACEMENTS: dict[tuple[Callable[[AdaGrad], rules.Rule], str | None], Callable[[AdaGrad], rules.Rule]] = {
    (natural, "one-number"): lambda adagrad: rules.OneNumber(),
    (natural, "flat"): rules.StandardCoordinates,
    (rules.StandardCoordinates, "one-number"): rules.OneStandardNumber,
}

#: Rows of the table for the orders in which `FixedPoint` moves covariance and mean.
FIXED_POINT_ORDERS = {"incremental": "fp", "batch": "fp-batch"}


class Algorithm(BaseEstimator):
    """The parameters of an algorithm; ``spec`` says what it is. A subclass has the specification of its base.

    Attributes
    ----------
    name : str
        Key of the table.
    """

    name = ""
    schedule: Schedule | None = None
    adagrad: AdaGrad | None = None

    @property
    def spec(self) -> AlgorithmSpec:
        """Properties of the algorithm."""
        return SPECS[self.name]

    def rule(self, block: Any) -> rules.Rule:
        """The rule by which a block of q with a prior moves."""
        make = self.spec.gaussian if block.column == "gaussian" else self.spec.other
        make = REPLACEMENTS.get((make, block.instead), make)
        return make(AdaGrad() if self.adagrad is None else self.adagrad)

    def rate(self, t: int, deterministic: bool, messages: bool = False) -> float:
        """Rate of the natural step t; of the messages in pass t for an algorithm that remembers them."""
        schedule = self.schedule
        if schedule is None and deterministic:
            return 1.0
        schedule = (MESSAGE_RATE if messages else STEP_RATE) if schedule is None else schedule
        return float(schedule.rate(t))


class MCSSVI(Algorithm):
    """Natural-gradient steps on every block (Sheth and Khardon 2016, MC-SSVI).

    Parameters
    ----------
    schedule : schedule, default=None
        None: rate 1 for full batches without noise (a step that lowers the bound is taken back), else `STEP_RATE`.

    Examples
    --------
    >>> from sksvi.algorithms import MCSSVI
    >>> from sksvi.schedules import RobbinsMonro
    >>> MCSSVI(schedule=RobbinsMonro(kappa=0.75))
    MCSSVI(schedule=RobbinsMonro(kappa=0.75))
    """

    name = "mc-ssvi"

    def __init__(self, schedule: Schedule | None = None) -> None:
        self.schedule = schedule


class CVI(Algorithm):
    """One damped site per datum, natural steps through the sites (Khan and Lin 2017, CVI).

    Parameters
    ----------
    schedule : schedule, default=None
        None: rate 1 for full batches without noise (NC-VMP); for mini-batches `MESSAGE_RATE`, where t counts passes
        because a datum is visited once a pass; else `STEP_RATE`.
    """

    name = "cvi"

    def __init__(self, schedule: Schedule | None = None) -> None:
        self.schedule = schedule


class _ByGradients(Algorithm):
    """What the two algorithms with AdaGrad share: its step sizes, and whether all is done as printed."""

    def __init__(self, schedule: Schedule | None = None, adagrad: AdaGrad | None = None, literal: bool = False) -> None:
        self.schedule = schedule
        self.adagrad = adagrad
        self.literal = literal

    @property
    def spec(self) -> AlgorithmSpec:
        """Properties of the algorithm, as printed or with the steps that need no tuning."""
        return (LITERAL_SPECS if self.literal else SPECS)[self.name]

    def rule(self, block: Any) -> rules.Rule:
        """The rule by which a block of q with a prior moves."""
        if not self.literal:
            return super().rule(block)
        if block.column != "gaussian":
            raise ValueError(
                f"algorithm={self!r} takes the printed steps of Gaussian blocks, and this model has a block of the "
                f"family {type(block).__name__}: leave literal=False."
            )
        return self.spec.gaussian(LITERAL_ADAGRAD if self.adagrad is None else self.adagrad)

    def rate(self, t: int, deterministic: bool, messages: bool = False) -> float:
        """Rate of the natural step t."""
        if self.literal and self.schedule is None:
            return LITERAL_RATE.rate(t)
        return super().rate(t, deterministic, messages)


class HybridMCSSVI(_ByGradients):
    """AdaGrad on Gaussian means, natural steps on everything else (Sheth and Khardon 2016, H-MC-SSVI).

    Parameters
    ----------
    schedule : schedule, default=None
        Of the natural steps; with `literal` None is 1/t.
    adagrad : AdaGrad, default=None
        Of the means, and of blocks that have no natural step; None: ``AdaGrad()``, with `literal`
        ``AdaGrad(rate=1.0)``.
    literal : bool, default=False
        Whether the paper's equations (24) and (63) are iterated as printed: from mean 0 and covariance 10 I, in the
        coordinates of the model (those of the prior for Gaussian processes), without a longest step, with no step
        judged, and the last iterate returned in the place of an average. For models with Gaussian blocks only.

    Examples
    --------
    >>> from sksvi.algorithms import HybridMCSSVI
    >>> HybridMCSSVI(literal=True).rate(3, True)
    0.25
    """

    name = "h-mc-ssvi"


class SDSVI(_ByGradients):
    """Standard gradients on mean and Cholesky factor with AdaGrad (doubly stochastic variational inference).

    Parameters
    ----------
    schedule : schedule, default=None
        Of hyperparameters only.
    adagrad : AdaGrad, default=None
        None: ``AdaGrad()``, with `literal` ``AdaGrad(rate=1.0)``.
    literal : bool, default=False
        Whether equations (63), (64) and (67) of Sheth and Khardon (2016) are iterated as printed, see `HybridMCSSVI`:
        with an upper triangular factor, where the other steps have a lower triangular one.

    Examples
    --------
    >>> from sksvi.algorithms import SDSVI
    >>> SDSVI(literal=True)
    SDSVI(literal=True)
    """

    name = "s-dsvi"


class FixedPoint(Algorithm):
    """Fixed point on all rows: covariance by natural steps of rate 1, mean solved for at it (Sheth and Khardon 2016).

    A portion of a stream takes one natural step, as under `MCSSVI`: the mean best for it alone is no mean of all rows.

    Parameters
    ----------
    schedule : schedule, default=None
        Of the covariance; None: rate 1, halved when the bound falls.
    order : {"incremental", "batch"}, default="incremental"
        "incremental" solves for the mean after every step of the covariance (FPi). "batch" takes steps of the
        covariance until it has settled at the mean before it solves for the next mean (FPb); such a pass reads the
        rows many times, and ``history_`` counts the halvings of all its steps.

    Raises
    ------
    ValueError
        By a fit, for another order.

    Examples
    --------
    >>> from sksvi.algorithms import FixedPoint
    >>> FixedPoint(order="batch").spec.nested
    True
    """

    name = "fp"

    def __init__(self, schedule: Schedule | None = None, order: str = "incremental") -> None:
        self.schedule = schedule
        self.order = order

    @property
    def spec(self) -> AlgorithmSpec:
        """Properties of the algorithm in its order."""
        if self.order not in FIXED_POINT_ORDERS:
            raise ValueError(
                f"order={self.order!r} of FixedPoint is unknown: choose one of {sorted(FIXED_POINT_ORDERS)}."
            )
        return SPECS[FIXED_POINT_ORDERS[self.order]]


class CovarianceSteps(Algorithm):
    """Steps of the covariance at a fixed mean: the inner iteration of ``FixedPoint(order="batch")``."""

    name = "fp-covariance"

    def __init__(self, schedule: Schedule | None = None) -> None:
        self.schedule = Constant(1.0) if schedule is None else schedule


class _Structured(Algorithm):
    """What the four ways of seeing conjugate globals share: natural steps, and a schedule."""

    def __init__(self, schedule: Schedule | None = None) -> None:
        self.schedule = schedule


class SVI(_Structured):
    """Natural steps; local steps see the expected statistics of the globals (Hoffman et al. 2013).

    Parameters
    ----------
    schedule : schedule, default=None
        None: the model's own.
    """

    name = "svi"


class SSVIA(_Structured):
    """Natural steps; local steps see a draw of the globals, whose gradient ignores it (Hoffman and Blei 2015, SSVI-A).

    Parameters
    ----------
    schedule : schedule, default=None
        None: the model's own.
    """

    name = "ssvi-a"


class SSVI(_Structured):
    """Natural steps; local steps see a draw of the globals, and the gradient follows it (Hoffman and Blei 2015, SSVI).

    Unbiased for the structured bound: the matrix V of each family.

    Parameters
    ----------
    schedule : schedule, default=None
        None: the model's own.
    """

    name = "ssvi"


class MAP(_Structured):
    """Natural steps; local steps see the statistics at the mean of the globals, as an EM algorithm would.

    It climbs no bound on the evidence, and is a start of the others: rare words of topics that have not formed are not
    starved.

    Parameters
    ----------
    schedule : schedule, default=None
        None: the model's own.
    """

    name = "map"


class Gibbs(Algorithm):
    """Draws from the posterior by sweeps over all rows, where a model has a sampler: the reference.

    Examples
    --------
    >>> from sksvi.algorithms import Gibbs
    >>> Gibbs().spec.sampler
    True
    """

    name = "gibbs"


ALGORITHMS: dict[str, type[Algorithm]] = {
    cls.name: cls for cls in (MCSSVI, HybridMCSSVI, SDSVI, CVI, FixedPoint, SVI, SSVIA, SSVI, MAP, Gibbs)
}
#: Those that fit q by steps, whatever the model: what an estimator takes unless it says otherwise.
VARIATIONAL = tuple(name for name in ALGORITHMS if not (SPECS[name].sampler or SPECS[name].structured))
#: Those that say how local steps see conjugate globals.
STRUCTURED = tuple(name for name in ALGORITHMS if SPECS[name].structured)


def resolve(spec: str | Algorithm) -> Algorithm:
    """The algorithm for a string of the table, or a copy of an instance.

    Parameters
    ----------
    spec : str or Algorithm

    Returns
    -------
    Algorithm

    Raises
    ------
    ValueError
        For an unknown string, listing the valid ones.

    Examples
    --------
    >>> from sksvi.algorithms import resolve
    >>> resolve("cvi")
    CVI()
    """
    if isinstance(spec, Algorithm):
        return clone(spec)
    if spec in ALGORITHMS:
        return ALGORITHMS[spec]()
    raise ValueError(f"algorithm={spec!r} is unknown: choose one of {sorted(ALGORITHMS)} or give an instance.")
