"""Rules: how a block moves. One object per block; the engine's loop asks nothing else.

==============  =====================================================================================
`Natural`       θ <- (1 - ρ) θ + ρ (θ_prior + gradient), every family
`FixedMean`     the same for a Gaussian whose mean stays
`OneNumber`     the same for a single scale, along secants without noise and cut to a trust region with it
`Hybrid`        AdaGrad on a Gaussian mean, the natural step on its covariance
`Euclidean`     AdaGrad on a Gaussian mean and Cholesky factor
`LiteralHybrid`, `LiteralEuclidean`  both as printed in their source
`StandardCoordinates`          AdaGrad on the unconstrained standard coordinates of any other family
`Newton`        a point along its gradient and curvature, data and memory together
`ClosedForm`    a point that only the prior of other blocks reads: its best value needs no data
`Adam`          a point that has a gradient and no curvature
`Searched`      a point that the model's own search moves, once q has settled
`Fixed`         a block that stays
==============  =====================================================================================
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from sksvi.algorithms import steps

Array = np.ndarray
Blocks = dict[str, Any]

#: Variance of every coordinate where a fit by rules as printed begins.
FIRST_VARIANCE = 10.0


class StepSize(NamedTuple):
    """How far a step goes: the schedule's rate (one per plate for plates), what halving left of it, the data's weight.

    ``weight`` is the population's: the N that gradients are blown up to. ``left`` is the prior that the block stood on,
    where hyperparameters have moved it in this very step.
    """

    rate: Any
    damping: float
    weight: float
    left: Any = None


class StepResult(NamedTuple):
    """A block after its step, what its rule remembers, and the gain that the step promises (nats; 0: ask the KL)."""

    block: Any
    memory: Any
    gain: float = 0.0


class Rule:
    """Rule by which one block moves.

    ``natural_coordinates`` : it steps in the coordinates of natural steps.
    ``scales`` : what the block says beside its prior is a sum over the population, and grows with it.
    ``lagged`` : q lags behind the block, and has to catch up at the end of a fit.
    ``streams`` : it learns from every portion of a stream, because it remembers what earlier ones said.
    """

    natural_coordinates = True
    streams = False
    scales = False
    lagged = False

    def start(self, block: Any, weight: float) -> tuple[Any, Any]:
        """The block in the coordinates that this rule steps in, and an empty memory."""
        return block, None

    def first(self, block: Any) -> Any:
        """The block that a fit begins with: the model's, but where the rule has a start of its own."""
        return block

    def knows(self, memory: Any) -> bool:
        """Whether a memory is of this rule."""
        return memory is None

    def step(self, name: str, q: Blocks, prior: Any, gradient: Any, memory: Any, pace: StepSize) -> StepResult:
        """The block `name` of q after one step; `gradient` is that of the population, in the block's moments."""
        raise AttributeError(f"{type(self).__name__} has no step")

    def log_density(self, q: Blocks) -> float:
        """Log density of a hyperparameter in its own coordinates, nats up to a constant: a part of the bound."""
        return 0.0

    def cautious(self, block: Any, memory: Any, share: Array, weight: float) -> Any:
        """The memory for a step of plates by a sample that is a `share` (P,) of what they have seen."""
        return memory


class Fixed(Rule):
    """A block that stays, or that something else moves.

    Parameters
    ----------
    density : callable, optional
        q to the log density of the block, nats.
    """

    def __init__(self, density: Callable[[Blocks], float] | None = None) -> None:
        self.density = density

    def step(self, name: str, q: Blocks, prior: Any, gradient: Any, memory: Any, pace: StepSize) -> StepResult:
        """The block as it is."""
        return StepResult(q[name], memory)

    def log_density(self, q: Blocks) -> float:
        """Log density of the block."""
        return 0.0 if self.density is None else self.density(q)


FIXED = Fixed()


class Searched(Fixed):
    """A block that the model's own search moves, once q has settled.

    Parameters
    ----------
    density : callable, optional
        q to the log density of the block, nats.
    """

    lagged = True


SEARCHED = Searched()


# ---- blocks with a prior
class Natural(Rule):
    """The natural step (doc/algorithms.md), halved while it leaves the family's domain."""

    scales = True

    def step(self, name: str, q: Blocks, prior: Any, gradient: Any, memory: Any, pace: StepSize) -> StepResult:
        """See `steps.natural_step`."""
        rate = pace.rate * pace.damping
        if np.ndim(rate) == 0 and rate > 1.0:
            return StepResult(steps.beyond_step(q[name], prior, q[name].in_domain(prior, gradient), rate), memory)
        gradient = q[name].in_domain(prior, gradient, rate)
        return StepResult(
            steps.shortened(lambda share: steps.natural_step(q[name], prior, gradient, rate * share, pace.left)), memory
        )


class FixedMean(Natural):
    """The natural step of a Gaussian's covariance, its mean held (fixed point, eq. 18)."""

    def step(self, name: str, q: Blocks, prior: Any, gradient: Any, memory: Any, pace: StepSize) -> StepResult:
        """See `steps.natural_step`; the slope in the mean is what the prior takes away, so that the mean stays."""
        own = q[name]
        at_rest = own.natural(own)[0] - prior.natural(own)[0]
        return super().step(name, q, prior, (at_rest, gradient[1]), memory, pace)


class OneNumber(Rule):
    """The natural step of a single scale in a model that is not conjugate.

    At rate 1 it jumps back and forth about the optimum, so that without noise the step follows secants; with noise it
    is cut to a factor of two.
    """

    def knows(self, memory: Any) -> bool:
        """The last coordinate and its slope, once there was a step."""
        return memory is None or isinstance(memory, tuple)

    def step(self, name: str, q: Blocks, prior: Any, gradient: Any, memory: Any, pace: StepSize) -> StepResult:
        """See `steps.secant_step` and `steps.trusted_step`."""
        if pace.rate == 1.0:
            return StepResult(*steps.secant_step(q[name], prior, gradient, min(pace.damping, 1.0), memory))
        return StepResult(steps.trusted_step(q[name], prior, gradient, pace.rate * pace.damping), memory)


@dataclass(frozen=True)
class _ByAdaGrad(Rule):
    """Base of rules by AdaGrad, with its step sizes."""

    adagrad: Any

    def __post_init__(self) -> None:
        """Refuse step sizes that cannot serve the blocks of this rule."""

    def damped(self, pace: StepSize) -> Any:
        """The step sizes of a step that is shortened or lengthened."""
        if pace.damping == 1.0:
            return self.adagrad
        return clone(self.adagrad).set_params(rate=self.adagrad.rate * pace.damping)


class _GaussianRule(_ByAdaGrad):
    """Base of rules by AdaGrad for a Gaussian block, with its memory."""

    def __post_init__(self) -> None:
        """Refuse step sizes that say nothing of how far a Gaussian may step."""
        if not self.adagrad.of_gaussians:
            raise ValueError(
                f"adagrad={self.adagrad!r} is for blocks that are not Gaussian, and this model has one: give AdaGrad()."
            )

    def knows(self, memory: Any) -> bool:
        """Whether a memory is AdaGrad's sums."""
        return isinstance(memory, steps.AdaGradMemory)

    def cautious(self, block: Any, memory: Any, share: Array, weight: float) -> Any:
        """AdaGrad's sums raised to where steps are no longer than natural ones of that rate."""
        return memory.raised(block, share, weight, self.adagrad)


class Hybrid(_GaussianRule):
    """AdaGrad on a Gaussian mean, the natural step on its covariance (H-MC-SSVI)."""

    def start(self, block: Any, weight: float) -> tuple[Any, Any]:
        """Natural coordinates, and AdaGrad's sums."""
        return block, steps.AdaGradMemory.start(block, weight)

    def step(self, name: str, q: Blocks, prior: Any, gradient: Any, memory: Any, pace: StepSize) -> StepResult:
        """See `steps.hybrid_step`."""
        rate, adagrad, most = pace.rate * min(pace.damping, 1.0), self.damped(pace), min(pace.damping, 1.0)
        return StepResult(
            *steps.shortened(
                lambda share: steps.hybrid_step(
                    q[name], prior, gradient, rate * share, memory, adagrad, pace.weight, most
                )
            )
        )


class Euclidean(_GaussianRule):
    """AdaGrad on a Gaussian mean and Cholesky factor (S-DSVI)."""

    natural_coordinates = False

    def start(self, block: Any, weight: float) -> tuple[Any, Any]:
        """Mean and Cholesky factor, and AdaGrad's sums."""
        block = block.standard()
        return block, steps.AdaGradMemory.start(block, weight)

    def step(self, name: str, q: Blocks, prior: Any, gradient: Any, memory: Any, pace: StepSize) -> StepResult:
        """See `steps.euclidean_step`."""
        most = min(pace.damping, 1.0)
        return StepResult(*steps.euclidean_step(q[name], prior, gradient, memory, self.damped(pace), pace.weight, most))


class _LiteralRule(_ByAdaGrad):
    """Base of rules as printed: raw coordinates, no longest step, nothing halved."""

    def first(self, block: Any) -> Any:
        """N(0, 10 I)."""
        precision = np.full_like(block.mean, 1.0 / FIRST_VARIANCE)
        return type(block)(np.zeros_like(block.mean), block.structure.of_diagonal(precision, block))

    def knows(self, memory: Any) -> bool:
        """Whether a memory is sums of squared gradients."""
        return isinstance(memory, steps.GradientSums)


class LiteralHybrid(_LiteralRule):
    """AdaGrad on a Gaussian mean, the natural step on its covariance, as Sheth and Khardon (2016) print them."""

    def start(self, block: Any, weight: float) -> tuple[Any, Any]:
        """Natural coordinates, and empty sums."""
        return block, steps.GradientSums.start(block)

    def step(self, name: str, q: Blocks, prior: Any, gradient: Any, memory: Any, pace: StepSize) -> StepResult:
        """See `steps.literal_hybrid_step`."""
        return StepResult(*steps.literal_hybrid_step(q[name], prior, gradient, pace.rate, memory, self.adagrad))


class LiteralEuclidean(_LiteralRule):
    """AdaGrad on a Gaussian mean and upper triangular factor, as Sheth and Khardon (2016) print it."""

    natural_coordinates = False

    def start(self, block: Any, weight: float) -> tuple[Any, Any]:
        """Mean and factor, and empty sums."""
        block = block.standard()
        return block, steps.GradientSums.start(block)

    def step(self, name: str, q: Blocks, prior: Any, gradient: Any, memory: Any, pace: StepSize) -> StepResult:
        """See `steps.literal_euclidean_step`."""
        return StepResult(*steps.literal_euclidean_step(q[name], prior, gradient, memory, self.adagrad))


class StandardCoordinates(_ByAdaGrad):
    """AdaGrad on unconstrained standard coordinates, for every family but Gaussians."""

    def start(self, block: Any, weight: float) -> tuple[Any, Any]:
        """The block as it is, and AdaGrad's sums."""
        return block, steps.FlatMemory(self.adagrad.begin(block.standard_values))

    def knows(self, memory: Any) -> bool:
        """Whether a memory is AdaGrad's sums."""
        return isinstance(memory, steps.FlatMemory)

    def step(self, name: str, q: Blocks, prior: Any, gradient: Any, memory: Any, pace: StepSize) -> StepResult:
        """See `steps.flat_step`."""
        return StepResult(*steps.flat_step(q[name], prior, gradient, memory, self.damped(pace), pace.weight))


class OneStandardNumber(StandardCoordinates):
    """AdaGrad on the coordinate of a single scale; without noise the step follows secants, as `OneNumber` does."""

    def knows(self, memory: Any) -> bool:
        """Whether a memory is AdaGrad's sums, or a secant."""
        return super().knows(memory) or isinstance(memory, tuple)

    def step(self, name: str, q: Blocks, prior: Any, gradient: Any, memory: Any, pace: StepSize) -> StepResult:
        """See `steps.secant_step` and `steps.flat_step`."""
        secant = isinstance(memory, tuple)
        if pace.rate == 1.0:
            memory = memory if secant else None
            return StepResult(*steps.secant_step(q[name], prior, gradient, min(pace.damping, 1.0), memory))
        memory = steps.FlatMemory.start(q[name]) if secant else memory
        return super().step(name, q, prior, gradient, memory, pace)


# ---- hyperparameters: blocks whose q is a point
class Newton(Rule):
    """A point by Newton's step on the data's gradient and Hessian and on what it remembers of earlier data.

    Parameters
    ----------
    density : callable, optional
        q to the block's log density (nats), its gradient and its Hessian; or to None, where it is flat.
    """

    streams = True

    def __init__(self, density: Callable[[Blocks], tuple[float, Array, Array] | None] | None = None) -> None:
        self.density = density

    def log_density(self, q: Blocks) -> float:
        """Log density of the block."""
        found = None if self.density is None else self.density(q)
        return 0.0 if found is None else found[0]

    def with_density(self, q: Blocks, gradient: tuple[Array, Array]) -> tuple[Array, Array]:
        """The data's gradient and Hessian with those of the block's density."""
        found = None if self.density is None else self.density(q)
        return gradient if found is None else (gradient[0] + found[1], gradient[1] + found[2])

    def step(self, name: str, q: Blocks, prior: Any, gradient: Any, memory: Any, pace: StepSize) -> StepResult:
        """The step, cut to the trust radius; half of |step · gradient| is what it promises."""
        if gradient is None:
            return StepResult(q[name], memory)
        gradient = self.with_density(q, gradient)
        step = q[name].newton(gradient)
        gain = 0.5 * float(np.abs(step @ gradient[0]))
        return StepResult(q[name].moved(step, pace.rate * pace.damping), memory, gain)


class ClosedForm(Fixed):
    """A point that only the prior of other blocks reads.

    Parameters
    ----------
    find : callable
        q to the step to the block's best value and the gain that it promises (nats): no data needed.
    density : callable, optional
        q to the log density of the block, nats.
    """

    def __init__(
        self, find: Callable[[Blocks], tuple[Array, float]], density: Callable[[Blocks], float] | None = None
    ) -> None:
        super().__init__(density)
        self.find = find

    def step(self, name: str, q: Blocks, prior: Any, gradient: Any, memory: Any, pace: StepSize) -> StepResult:
        """The step, by the rate."""
        step, gain = self.find(q)
        return StepResult(q[name].moved(step, pace.rate * pace.damping), memory, gain)


class Adam(Rule):
    """A point that has a gradient and no curvature: kernel parameters, inducing inputs."""

    lagged = True

    def step(self, name: str, q: Blocks, prior: Any, gradient: Any, memory: Any, pace: StepSize) -> StepResult:
        """See `steps.adam_step`; its rate is its own."""
        if gradient is None:
            return StepResult(q[name], memory)
        return StepResult(*steps.adam_step(q[name], gradient[0], memory))
