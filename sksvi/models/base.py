"""What every model answers, and the records that travel between model and engine."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from sksvi import _parallel

Array = np.ndarray


@dataclass(frozen=True)
class Data:
    """Encoded training data: design (dense or CSR), target, and per-row weight and offset (None: ones, zeros)."""

    X: Any
    y: Array
    weight: Array | None = None
    offset: Array | None = None

    def __len__(self) -> int:
        return int(self.X.shape[0])

    @property
    def total_weight(self) -> float:
        """Sum of the weights: the N of every formula."""
        return float(len(self)) if self.weight is None else float(self.weight.sum())

    def take(self, rows: slice | Array) -> Data:
        """These rows."""
        return Data(
            self.X[rows],
            self.y[rows],
            None if self.weight is None else self.weight[rows],
            None if self.offset is None else self.offset[rows],
        )


@dataclass(frozen=True)
class Segment:
    """One step's share of the data: which blocks and plates move, on which rows, blown up by `scale`."""

    rows: Array | slice
    scale: float
    blocks: tuple[str, ...] | None = None
    plates: Array | None = None


@dataclass
class Terms:
    """Numbers per datum, before any sum.

    value (n,): E log p(y|f), nats. alpha, gamma (n,) or (n, K), jointly over classes gamma (n, K, K): its derivatives
    in mean and (co)variance of f. linear: hᵀm, the mean of f without offset (what a site needs). points: derivatives
    in the unconstrained likelihood parameters, (n, P) and (n, P, P). scalars (n,): gradient in the one moment of
    a further block.
    """

    value: Array
    alpha: Array
    gamma: Array
    linear: Array
    points: dict[str, tuple[Array, Array]] = field(default_factory=dict)
    scalars: dict[str, Array] = field(default_factory=dict)

    def weighted(self, weight: Array | None) -> Terms:
        """Every number times its row's weight: a row of weight k counts as k rows."""
        if weight is None:
            return self

        def times(values: Array) -> Array:
            return values * weight.reshape(-1, *[1] * (values.ndim - 1))

        points = {k: (g * weight[:, None], h * weight[:, None, None]) for k, (g, h) in self.points.items()}
        scalars = {k: g * weight for k, g in self.scalars.items()}
        alpha, gamma = times(self.alpha), times(self.gamma)
        return replace(self, value=self.value * weight, alpha=alpha, gamma=gamma, points=points, scalars=scalars)

    def message(self) -> tuple[Array, Array]:
        """Natural parameters of each datum's message about f: (alpha - 2 gamma hᵀm, gamma)."""
        if self.gamma.ndim == 3:
            return self.alpha - 2 * np.einsum("nkl,nl->nk", self.gamma, self.linear), self.gamma
        return self.alpha - 2 * self.gamma * self.linear, self.gamma


class Model:
    """A model knows data and structure, never a step size.

    ``block`` : the Gaussian block that the latents are linear in; else the block that messages name.
    ``linear`` : latents are linear in that block, so that a datum's message is a few numbers (sites, Newton's mean).
    ``plates`` : its segments name one side of plates at a time (`rounds`), of those in ``sides``; `columns` gives the
    terms of some plates of one.
    ``batchable`` : the bound is a sum over data (False: mini-batches are refused).
    ``rule_error`` : relative error of the bound's deterministic rule.
    ``remedy`` : what a user can do about a numerically impossible step.
    """

    block = "weights"
    linear = True
    plates = False
    sides: tuple[str, ...] = ()
    batchable = True
    rule_error = 0.0
    remedy = "Standardise the columns, or drop duplicated ones."

    def prior(self, q: dict[str, Any]) -> dict[str, Any]:
        """Prior of every block that has one; may read point blocks."""
        raise AttributeError(f"{type(self).__name__} has no prior")

    def init(self, data: Data) -> dict[str, Any]:
        """The first q."""
        raise AttributeError(f"{type(self).__name__} has no init")

    def local_start(self, data: Data) -> Array | None:
        """Where each row's local variables start, (n, ...), for models that keep them between passes."""
        return None

    def noisy(self, sampled: bool) -> bool:
        """Whether the terms are random although no expectation is: sampled globals or local draws."""
        return False

    def view(self, q: dict[str, Any], sampled: bool, rng: Any) -> dict[str, Any]:
        """What `terms` reads of q, once per step: one draw of the globals, or expectations; default q itself."""
        return q

    def corrected(self, gradient: dict[str, Any], view: dict[str, Any]) -> dict[str, Any]:
        """The summed gradient after what is linear in it and knows the draw of the globals (V of equations.md 8)."""
        return gradient

    def first(self, data: Data, rng: np.random.Generator) -> dict[str, Any]:
        """The first q where it is drawn; default `init`."""
        return self.init(data)

    def start_weight(self, name: str, data: Data) -> float:
        """Weight of the data that say how far the mean of a block may have to go, in its first deviations."""
        return data.total_weight

    def sweep(self, data: Data, batch_size: int | None, seed: int, pass_number: int) -> Iterator[Segment]:
        """One pass over the data as segments: all blocks, one batch of rows each."""
        return default_sweep(data, batch_size, seed, pass_number)

    def blocks(self, rows: Array | slice, data: Data) -> list[Any]:
        """The rows of a segment in blocks of fixed size."""
        raise AttributeError(f"{type(self).__name__} has no blocks")

    def batch(self, data: Data, rows: Array | slice) -> Any:
        """What `terms` needs of these rows."""
        raise AttributeError(f"{type(self).__name__} has no batch")

    def terms(self, q: dict[str, Any], batch: Any, expect: Any, rng: Any, variance: Array | None = None) -> Terms:
        """Per datum: gradients and E log p, unscaled; `variance` of the latents where it is known already."""
        raise AttributeError(f"{type(self).__name__} has no terms")

    def pull_back(self, terms: Terms, batch: Any) -> dict[str, Any]:
        """Linear in the terms: gradient per block."""
        raise AttributeError(f"{type(self).__name__} has no pull_back")

    def point_steps(self, q: dict[str, Any], gradient: dict[str, Any]) -> dict[str, tuple[Array, float]]:
        """Step of each point block in its own coordinates, and the gain it promises, nats."""
        return {}

    def prior_steps(self, q: dict[str, Any]) -> dict[str, Array]:
        """Steps of the point blocks that only the prior of the Gaussian block reads; they need no data."""
        return {}

    def log_hyperprior(self, q: dict[str, Any]) -> float:
        """Log density of the point blocks in their own coordinates, nats up to a constant; part of the bound."""
        return 0.0

    def free_gradients(self, q: dict[str, Any], gradient: dict[str, Any]) -> dict[str, Array]:
        """Gradient of the bound in each free block, from the sums that `pull_back` left."""
        return {}

    def improved(self, problem: Any, state: Any, tick: Any, tol: float) -> tuple[Any, bool]:
        """A settled fit with its free blocks moved to where the bound is larger, and whether that was worth `tol`."""
        return state, False


def default_sweep(data: Data, batch_size: int | None, seed: int, pass_number: int) -> Iterator[Segment]:
    """All blocks, rows in shuffled batches, scalar scale N/B by weight."""
    n = len(data)
    if batch_size is None or batch_size >= n:
        yield Segment(slice(0, n), 1.0)
        return
    total = data.total_weight
    for rows in _parallel.shuffled(n, batch_size, seed, pass_number):
        weight = float(len(rows)) if data.weight is None else float(data.weight[rows].sum())
        if weight > 0:
            yield Segment(rows, total / weight)
