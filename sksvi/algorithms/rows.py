"""Algorithms: which step each kind of block takes, and how fast. A row each; none knows a model.

See Also
--------
sksvi.algorithms.steps : the updates themselves.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone

from sksvi.algorithms.steps import (
    AdaGradMemory,
    FlatMemory,
    euclidean_step,
    flat_step,
    hybrid_step,
    natural_step,
    secant_step,
    shortened,
    trusted_step,
)
from sksvi.schedules import AdaGrad, RobbinsMonro

Array = np.ndarray

#: Rates of mini-batch and sampled steps when none is given (chosen by benchmarks/algorithms.py); t counts steps.
STEP_RATE = RobbinsMonro(delay=10.0, kappa=0.55)
#: Rates of messages, t counts passes: they remember, so that mini-batches bring no lasting noise to be damped.
MESSAGE_RATE = RobbinsMonro(delay=0.0, kappa=0.3)


#: Up to this many rows a natural step takes all of them: it gains what a Newton step does.
FULL_BATCH_ROWS = 2**20
#: Up to this many rows every algorithm takes all of them.
SMALL_ROWS = 128


class Algorithm(BaseEstimator):
    """What the engine asks of an algorithm.

    ``remembers`` : keeps a site per datum, so that mini-batch noise vanishes at the optimum (CVI).
    ``samples_globals`` : where a model can draw its globals for the local step, it does; else expectations enter there.
    ``batch_only`` : cannot work with mini-batches.
    ``mean_solver`` : solves for the mean at a fixed covariance in every pass (FP).
    ``natural`` : every step is a natural one, whose length says what there is to gain.
    ``local`` : steps of the variables that a model has for each row, such as a document's log odds: "natural", "hybrid"
    (AdaGrad on means), "standard" (AdaGrad on means and Cholesky factors) or "messages".
    ``adagrad`` : what the user set of AdaGrad's steps, or None.
    """

    remembers = False
    samples_globals = True
    batch_only = False
    mean_solver = False
    natural = True
    local = "natural"
    adagrad: AdaGrad | None = None

    def rate(self, t: int, deterministic: bool, messages: bool = False) -> float:
        """Rate of the natural step t; of the messages in pass t for an algorithm that remembers them."""
        schedule = self.schedule
        if schedule is None and deterministic:
            return 1.0
        if schedule is None:
            schedule = MESSAGE_RATE if messages else STEP_RATE
        return float(schedule.rate(t))

    def auto_batch(self, n: int) -> int | None:
        """Rows of a batch for n rows when the user leaves it to us; None: all of them."""
        return None if n <= FULL_BATCH_ROWS else FULL_BATCH_ROWS // 8

    def start(self, q: Any, n: float) -> tuple[Any, Any]:
        """The block in the coordinates that this algorithm steps in, and its memory."""
        return q, FlatMemory.start(q) if q.kind == "logistic" else None

    def cautious(self, q: Any, memory: Any, share: Array, n: float) -> Any:
        """The memory for a step of plates by a sample that is a `share` (P,) of what they have seen."""
        return memory

    def step(
        self, q: Any, prior: Any, gradient: Any, rate: float, damping: float, memory: Any, n: float
    ) -> tuple[Any, Any]:
        """One step of a block; `damping` <= 1 shortens it, `n` is the population size."""
        if q.kind == "logistic":
            return flat_step(q, prior, gradient, memory, AdaGrad(AdaGrad().rate * damping), n)
        if q.one_number and rate == 1.0:
            return secant_step(q, prior, gradient, damping, memory)
        if q.one_number:
            return trusted_step(q, prior, gradient, rate * damping), memory
        return shortened(lambda share: natural_step(q, prior, gradient, rate * damping * share)), memory


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

    def __init__(self, schedule: Any = None) -> None:
        self.schedule = schedule


class CVI(Algorithm):
    """One damped site per datum, natural steps through the sites (Khan and Lin 2017, CVI).

    Parameters
    ----------
    schedule : schedule, default=None
        None: rate 1 for full batches without noise (NC-VMP); mini-batches with a full covariance `MESSAGE_RATE`, where
        t counts passes because a datum is visited once a pass; else `STEP_RATE`.
    """

    remembers = True
    samples_globals = False
    local = "messages"

    def __init__(self, schedule: Any = None) -> None:
        self.schedule = schedule


class _Gradient(Algorithm):
    natural = False

    def auto_batch(self, n: int) -> int | None:
        """Many short steps: a gradient step on all rows gains little more than one on a sixteenth of them."""
        return None if n <= SMALL_ROWS else min(max(n // 16, 32), 512)

    def __init__(self, schedule: Any = None, adagrad: Any = None) -> None:
        self.schedule = schedule
        self.adagrad = adagrad

    def _adagrad(self) -> AdaGrad:
        return AdaGrad() if self.adagrad is None else self.adagrad

    def cautious(self, q: Any, memory: Any, share: Array, n: float) -> Any:
        """AdaGrad's sums raised to where steps are no longer than natural ones of that rate."""
        return memory.raised(q, share, n, self._adagrad())


class HybridMCSSVI(_Gradient):
    """AdaGrad on Gaussian means, natural steps on everything else (Sheth and Khardon 2016, H-MC-SSVI).

    Parameters
    ----------
    schedule : schedule, default=None
        Of the natural steps.
    adagrad : AdaGrad, default=None
        Of the means; None: ``AdaGrad()``.
    """

    local = "hybrid"

    def start(self, q: Any, n: float) -> tuple[Any, Any]:
        """Natural coordinates; AdaGrad's sums for a Gaussian block."""
        return (q, AdaGradMemory.start(q, n)) if q.kind == "gaussian" else super().start(q, n)

    def step(
        self, q: Any, prior: Any, gradient: Any, rate: float, damping: float, memory: Any, n: float
    ) -> tuple[Any, Any]:
        """AdaGrad on the mean, natural step on the covariance and on every other family."""
        if q.kind != "gaussian":
            return super().step(q, prior, gradient, rate, damping, memory, n)
        adagrad = AdaGrad(self._adagrad().rate * damping, self._adagrad().epsilon)
        return shortened(lambda share: hybrid_step(q, prior, gradient, rate * damping * share, memory, adagrad, n))


class SDSVI(_Gradient):
    """Standard gradients on mean and Cholesky factor with AdaGrad (doubly stochastic variational inference).

    Parameters
    ----------
    schedule : schedule, default=None
        Of hyperparameters only.
    adagrad : AdaGrad, default=None
        None: ``AdaGrad()``.
    """

    local = "standard"

    def start(self, q: Any, n: float) -> tuple[Any, Any]:
        """Mean and Cholesky factor, or other unconstrained coordinates, and AdaGrad's sums."""
        if q.kind != "gaussian":
            return q, FlatMemory.start(q)
        q = q.standard()
        return q, AdaGradMemory.start(q, n)

    def step(
        self, q: Any, prior: Any, gradient: Any, rate: float, damping: float, memory: Any, n: float
    ) -> tuple[Any, Any]:
        """AdaGrad on mean and factor, or on other unconstrained coordinates."""
        adagrad = AdaGrad(self._adagrad().rate * damping, self._adagrad().epsilon)
        if q.kind != "gaussian":
            return flat_step(q, prior, gradient, memory, adagrad, n)
        return euclidean_step(q, prior, gradient, memory, adagrad, n)


class FixedPoint(Algorithm):
    """Batch fixed point: covariance by the natural step with rate 1, mean solved at that covariance (FPi).

    Parameters
    ----------
    schedule : schedule, default=None
        Of the covariance; None: rate 1, halved when the bound falls.
    """

    batch_only = True
    mean_solver = True

    def __init__(self, schedule: Any = None) -> None:
        self.schedule = schedule


ALGORITHMS = {"mc-ssvi": MCSSVI, "h-mc-ssvi": HybridMCSSVI, "s-dsvi": SDSVI, "cvi": CVI, "fp": FixedPoint}


def resolve(spec: Any) -> Algorithm:
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
