"""Streams of fits at the mode: the first rows are fitted together, later chunks join them by their messages.

The scale of the prior and the temperature are judged by the loss of each chunk before it is learned (Dawid 1984:
prequentially). A posterior under another scale is that of the same messages under another prior, so that scales are
compared at the price of a prediction.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from sksvi.inference.messages import NoFactors
from sksvi.inference.passes.path import ERRORS, FACTOR, PathState, ScalePath, chosen, path_state, steps_of
from sksvi.inference.problem import Problem
from sksvi.inference.records import check_due, replace
from sksvi.inference.state import State, StepInfo
from sksvi.models.data import Table
from sksvi.models.linear.wide_stream import ChunkPath, Left, diagonal_block

Array = np.ndarray

#: Rows that are enough to begin with, and the growth after which fewer are fitted together again.
ENOUGH, ANEW = 2000, 2.0
#: Factors of the precision that are compared, the one in use in the middle, and standard errors that one must be ahead.
FACTORS, AHEAD = (FACTOR, 1.0, 1.0 / FACTOR), 2.0
#: Temperatures among which one is chosen, rows of a chunk at most that are looked at for it, as many as it takes
#: to leave what leave-one-out of the first rows chose.
TEMPERATURES, FEW_ROWS = (0.0, 0.01, 0.03, 0.1, 0.3, 1.0), 300
#: Narrower priors that learn beside the chosen one, the factor between them, rows after which one goes on alone, and
#: chunks from one that compares scales to the next.
NARROWER, APART, ALONE, EVERY = 2, 10.0, 20_000, 4
#: Passes over the first rows at most, and share of the earlier rows above which those of a chunk are many.
PASSES, MANY = 100, 0.5


@dataclass(frozen=True)
class Compared:
    """Losses of alternatives on the same rows: weight, sums (m,), and sums of products of two (m, m), nats."""

    LAYOUT = "weight number >=0; sums (m) f; products (m,m) f"

    weight: float
    sums: Array
    products: Array

    @classmethod
    def of(cls, m: int) -> Self:
        """No rows yet."""
        return cls(0.0, np.zeros(m), np.zeros((m, m)))

    def faded(self, share: float) -> Compared:
        """The sums of rows that count less."""
        return Compared(share * self.weight, share * self.sums, share * self.products)

    def with_rows(self, losses: Array, weight: Array) -> Compared:
        """The sums with rows more, (n, m)."""
        weighted = weight[:, None] * losses
        return Compared(
            self.weight + float(weight.sum()), self.sums + weighted.sum(0), self.products + weighted.T @ losses
        )

    def more(self, one: int, other: int) -> tuple[float, float]:
        """How much more one loses than another, summed over rows, and its standard error."""
        difference = float(self.sums[one] - self.sums[other])
        square = self.products[one, one] + self.products[other, other] - 2.0 * self.products[one, other]
        centred = square - difference**2 / self.weight if self.weight > 0 else 0.0
        return difference, float(np.sqrt(max(centred, 0.0)))


@dataclass
class WideStream(NoFactors):
    """What a stream of fits at the mode has of its rows.

    rivals: precision and block of what learns side by side under several scales, while rows are few; none: q alone.
    rows: all so far, while they are fewer, or None. began: their weight when they were fitted together last. weight: of
    all rows. scales, temperatures: losses of rows before they were learned, under neighbouring scales and under each
    temperature. loss: weight of such rows and of those that were fitted together and left out one by one, and their
    summed loss, the older half of them as good as forgotten.
    """

    LAYOUT = """
        rivals items; rivals[*] items 2; rivals[*][0] LowRankGaussian; rivals[*][1] number >0; rows? Table
        began number >=0; weight number >=0; scales Compared; temperatures Compared; loss (2) f
    """

    rivals: list[Any] = field(default_factory=list)
    rows: Table | None = None
    began: float = 0.0
    weight: float = 0.0
    scales: Compared = field(default_factory=lambda: Compared.of(len(FACTORS)))
    temperatures: Compared = field(default_factory=lambda: Compared.of(len(TEMPERATURES)))
    loss: Array = field(default_factory=lambda: np.zeros(2))

    @property
    def complete(self) -> bool:
        """Whether all rows are there."""
        return self.rows is not None

    def with_rows(self, data: Table, fade: float) -> Table | None:
        """All rows so far and these; None where some are not there."""
        if self.rows is None:
            return None
        earlier = self.rows if fade == 1.0 else self.rows.times(np.full(len(self.rows), fade))
        return earlier.concatenated(data)

    @property
    def without_rows(self) -> WideStream:
        """The messages without rows."""
        return replace(self, rows=None)


def absorb_chunk(problem: Problem, state: State, tol: float, keep: int, fade: float) -> tuple[State, StepInfo]:
    """The state after a chunk: all rows fitted anew while they are few and have doubled, else its message joins."""
    first, earlier = state.steps == 0, WideStream() if state.steps == 0 else stream_of(problem, state)
    data, weight = problem.data, problem.data.total_weight + (0.0 if first else fade * earlier.weight)
    assert isinstance(data, Table)
    rows = data if first else earlier.with_rows(data, fade)
    few = rows is not None and len(rows) < keep and not enough(problem, rows)
    last = not few or weight >= ANEW * earlier.began or is_new(earlier, data)  # before rows are gone, or by now stale
    if rows is not None and (first or last):
        state = fitted_together(problem, state, rows, tol)
    elif data.total_weight > MANY * fade * earlier.weight and has_every_class(problem, data):
        state = chunk_fitted(problem, state, earlier, tol, fade)
    else:
        state = chunk_learned(problem, state, earlier, tol, fade)
    stream = replace(state.messages, rows=rows if few else None, weight=weight)
    done = replace(state, messages=stream, steps=state.steps + 1, converged=True, bound=np.nan)
    return done, StepInfo(np.nan, False, 1.0, 0)


def stream_of(problem: Problem, state: State) -> WideStream:
    """What a stream has of its rows; of a fit there is what it left, under its own scale."""
    if isinstance(state.messages, WideStream):
        return state.messages
    weight, variance = state.counted - problem.data.total_weight, path_state(state).variance
    assert variance is not None
    block = diagonal_block(problem.model.traits.path.model.n_features, state.q["weights"].mean, 1.0 / variance)
    rivals = [(block, precision_of(problem, state))]
    return WideStream(rivals, began=weight, weight=weight, scales=Compared.of(1))


def is_new(earlier: WideStream, data: Table) -> bool:
    """Whether most of a chunk has labels that no stored row has."""
    return earlier.rows is not None and bool(np.mean(np.isin(data.y, earlier.rows.y)) < 0.5)


def enough(problem: Problem, rows: Table) -> bool:
    """Whether rows are enough to begin with: many, and of every class."""
    return rows.total_weight >= ENOUGH and has_every_class(problem, rows)


def has_every_class(problem: Problem, rows: Table) -> bool:
    """Whether every class has a row among these."""
    return len(np.unique(rows.y)) == max(2, problem.model.traits.path.model.likelihood.n_latents)


def precision_of(problem: Problem, state: State) -> float:
    """Precision of the prior in the state."""
    given = problem.model.traits.path.model.prior_precision
    return float(np.exp(state.q["prior_precision"].value[0])) if isinstance(given, str) else float(given)


def fitted_together(problem: Problem, state: State, rows: Table, tol: float) -> State:
    """The fit to all rows so far, and what this one and those under narrower priors leave to later rows."""
    path, walk, problem = problem.model.traits.path, ScalePath(), replace(problem, data=rows)
    inner = replace(state, q=path.model.begin(rows, None), progress=PathState())
    for _ in range(PASSES):
        inner, info = walk.once(problem, inner, tol)
        if info is None:
            break
    progress, fit = path_state(inner), path.fit(rows)
    point = progress.nearest(progress.widths[chosen(progress, fit)])
    rivals = [tuple(ChunkPath(path.model).left_by(fit, point))]
    for _ in range(NARROWER if fit.fixed_precision is None else 0):
        width = fit.mean_square / (APART * point.precision)
        point = fit.at(width, point.block.mean, point.parameters, steps_of(fit), tol)
        rivals.insert(0, tuple(ChunkPath(path.model).left_by(fit, point)))
    ended, total = walk.end(problem, inner), rows.total_weight
    loss = total * np.array([1.0, path_state(ended).loo])
    stream = WideStream(rivals, began=total, scales=Compared.of(len(rivals)), loss=loss)
    return replace(state, q=ended.q, messages=stream, progress=replace(path_state(ended), variance=None))


def chunk_fitted(problem: Problem, state: State, earlier: WideStream, tol: float, fade: float) -> State:
    """The state after a chunk of many rows beside the earlier ones: a fit of its own, which their message joins.

    The scale is that of the chunk: one that few rows chose may be a long way off.
    """
    path, total = ChunkPath(problem.model.traits.path.model), problem.data.total_weight
    assert isinstance(problem.data, Table)
    trials, middle = what_is_left(problem, state, earlier, fade)
    done = fitted_together(problem, state, problem.data, tol)
    stream, share = stream_of(problem, done), fade * earlier.weight / (earlier.weight + total)
    rivals = [path.with_message(Left(*rival), trials[middle][0]) for rival in stream.rivals]
    now, loss = rivals[-1], share * earlier.loss + stream.loss
    return replace(
        done,
        q=problem.model.traits.path.model.blocks(now.block, now.precision, np.zeros(0)),
        messages=replace(stream, rivals=[tuple(rival) for rival in rivals], began=earlier.began, loss=loss),
        progress=replace(path_state(done), loo=float(loss[1] / loss[0])),
    )


def what_is_left(
    problem: Problem, state: State, earlier: WideStream, fade: float
) -> tuple[list[tuple[Left, float]], int]:
    """What earlier rows leave to a chunk with the precisions that it compares, and the place of the one in use."""
    path, precision = ChunkPath(problem.model.traits.path.model), precision_of(problem, state)
    rivals = [path.faded(block, own, fade) for block, own in earlier.rivals]
    if rivals:
        at = int(np.argmin([abs(np.log(rival.precision / precision)) for rival in rivals]))
        return [(rival, rival.precision) for rival in rivals], at
    left = path.faded(state.q["weights"], precision, fade)
    trials = [(left, factor * precision) for factor in compared(problem, state, earlier)]
    return trials, len(trials) // 2


def chunk_learned(problem: Problem, state: State, earlier: WideStream, tol: float, fade: float) -> State:
    """The state after a chunk that was predicted, and then learned after what earlier rows left."""
    path, progress = ChunkPath(problem.model.traits.path.model), path_state(state)
    assert isinstance(problem.data, Table)
    chunk, total = path.chunk(problem.data), problem.data.total_weight
    share = fade * earlier.weight / (earlier.weight + total)
    trials, middle = what_is_left(problem, state, earlier, fade)
    losses = chunk.losses(trials)
    loss = share * earlier.loss + np.array([total, chunk.fit.weight @ losses[:, middle]])
    scales = earlier.scales.faded(share)
    if len(trials) == len(scales.sums):
        scales = scales.with_rows(losses, chunk.fit.weight)
    stream, temperature = replace(earlier, loss=loss, scales=scales), progress.temperature
    if not earlier.complete and (check_due(state.passes + 1) or earlier.temperatures.weight < FEW_ROWS):
        stream, found = tempered(stream, chunk, path.rescaled(*trials[middle]), share)
        temperature = found if stream.temperatures.weight >= FEW_ROWS else temperature
    rivals: list[Left] = []
    if earlier.rivals:
        rivals, best = [chunk.learned(rival, tol) for rival, _ in trials], narrowest(scales)
        now = rivals[best]
        if earlier.weight + total >= ALONE:
            rivals, scales = [], Compared.of(len(FACTORS))
    else:
        best = ahead(scales, middle) if len(trials) > 1 else middle
        now = chunk.learned(path.rescaled(*trials[best]), tol)
        scales = scales if best == middle else Compared.of(len(trials))
    return replace(
        state,
        q=problem.model.traits.path.model.blocks(now.block, now.precision, np.zeros(0)),
        messages=replace(stream, rivals=[tuple(rival) for rival in rivals], scales=scales),
        progress=PathState(polished=True, temperature=temperature, loo=float(loss[1] / loss[0])),
    )


def compared(problem: Problem, state: State, earlier: WideStream) -> tuple[float, ...]:
    """Factors of the precision that a chunk compares: of a long stream each fourth one does."""
    learned = isinstance(problem.model.traits.path.model.prior_precision, str)
    return FACTORS if learned and (earlier.weight < ALONE or state.passes % EVERY == 0) else (1.0,)


def narrowest(scales: Compared) -> int:
    """The first of some scales, from narrow to wide, that is as good as the best."""
    best = int(np.argmin(scales.sums))
    return next(at for at in range(len(scales.sums)) if _as_good(*scales.more(at, best)))


def ahead(scales: Compared, middle: int) -> int:
    """The scale that is ahead of the one in use by its noise, or this one."""
    best = int(np.argmin(scales.sums))
    difference, error = scales.more(best, middle)
    return best if difference < -AHEAD * error else middle


def tempered(stream: WideStream, chunk: Any, left: Any, share: float) -> tuple[WideStream, float]:
    """The stream with the losses of a chunk at each temperature, and the largest that is as good as the best."""
    point, n = chunk.point(left), len(chunk.fit.weight)
    rows = np.arange(n) if n <= FEW_ROWS else np.sort(np.random.default_rng(1).permutation(n)[:FEW_ROWS])
    losses = np.stack([chunk.fit.tempered_losses(point, at, rows) for at in TEMPERATURES], axis=1)
    found = stream.temperatures.faded(share).with_rows(losses, chunk.fit.weight[rows])
    best = int(np.argmin(found.sums))
    good = [at for at in range(len(TEMPERATURES)) if _as_good(*found.more(at, best))]
    return replace(stream, temperatures=found), TEMPERATURES[max(good)]


def _as_good(more: float, error: float) -> bool:
    return more <= ERRORS * error + 1e-12
