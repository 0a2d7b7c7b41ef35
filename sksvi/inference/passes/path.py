"""Passes along the scale of a prior, each a fit at the mode that is judged by its leave-one-out loss: no bound.

The prior gets wider while that lowers the loss beyond its noise, or narrower while it does not raise it; the last steps
are under the narrowest scale whose loss is as good as the best one's. At the end the variance of predictions is
tempered by the same loss.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sksvi.inference.problem import Problem
from sksvi.inference.records import Progress, replace
from sksvi.inference.state import State, StepInfo
from sksvi.models.linear.wide_stream import ChunkPath

Array = np.ndarray

#: Prior variance of a latent to begin with, in the fit's unit, and the factor between two of the path.
FIRST, FACTOR = 10.0, 10.0**0.5
#: Ends of the path.
LEAST, MOST = 1e-3, 1e7
#: Standard errors of a difference of losses, and share of what columns gain, that are as good as nothing.
ERRORS, SHARE = 0.25, 0.005
#: Steps of L-BFGS under a scale of the path, at least and at most, and products of rows and weights for all of them;
#: steps where it ends, with what is left of `tol` there.
LEAST_STEPS, MOST_STEPS, PRODUCTS = 20, 100, 2e8
LAST_STEPS, LAST_TOL = 100, 0.1
#: Mean variances of predictions, temperature times that of latents, in the same unit, among which one is chosen; and
#: rows at least, numbers at most, that are looked at for it.
VARIANCES = (0.0, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, np.inf)
FEW_ROWS, NUMBERS = 300, 2**15


@dataclass
class PathState(Progress):
    """Record of a walk along scales.

    widths, losses: prior variances of a latent in the order in which they were tried, and each row's loss there.
    points: fits that are still of use (the last two, the one that is shown), by their position among these.
    selected: position of the scale that the last steps are under, once the path has ended. polished: whether they have.
    loo: mean loss of the fit that is shown, in the end of its tempered predictions, nats a row.
    variance: what labels leave to a stream, variances of independent weights about the mode; None before the end.
    """

    LAYOUT = """
        damping number >=0; temperature number >=0; loo number; widths items n; widths[*] number >0; losses items n
        losses[*] (_) f; points dict; points[*] PathPoint; selected? count <n; polished flag; variance? (…) f >0
    """

    widths: list[float] = field(default_factory=list)
    losses: list[Array] = field(default_factory=list)
    points: dict[int, Any] = field(default_factory=dict)
    selected: int | None = None
    polished: bool = False
    temperature: float = 1.0
    loo: float = 0.0
    variance: Array | None = None

    @property
    def without_rows(self) -> PathState:
        """The record without losses of rows."""
        return PathState(polished=self.polished, temperature=self.temperature, loo=self.loo, variance=self.variance)

    def with_point(self, width: float, point: Any) -> PathState:
        """The record with a fit more, or with a better one at a width that was tried already."""
        at = self.widths.index(width) if width in self.widths else len(self.widths)
        widths, losses = [*self.widths[:at], width, *self.widths[at + 1 :]], [*self.losses[:at], point.losses]
        return PathState(widths, [*losses, *self.losses[at + 1 :]], {**self.points, at: point}, self.selected)

    def nearest(self, width: float) -> Any:
        """The fit whose width is nearest, of those that are still of use."""
        return self.points[min(self.points, key=lambda at: abs(np.log(self.widths[at] / width)))]


def path_state(state: State) -> PathState:
    """The record of the walk in the state."""
    assert isinstance(state.progress, PathState)
    return state.progress


class ScalePath:
    """A fit under one scale of the prior is a pass."""

    def begin(self, problem: Problem, state: State) -> State:
        """The state at the beginning of the path, unless a fit that was cut off goes on."""
        cut_off = isinstance(state.progress, PathState) and state.progress.widths
        return state if cut_off else replace(state, progress=PathState())

    def once(self, problem: Problem, state: State, tol: float) -> tuple[State, StepInfo | None]:
        """A fit under the next scale, or the last steps under the chosen one."""
        progress, path = path_state(state), problem.model.traits.path
        fit = path.fit(problem.data)
        if progress.polished:
            return state, None
        width = following(progress, fit)
        if width is None:
            progress = replace(progress, selected=chosen(progress, fit))
            width = progress.widths[chosen(progress, fit)]
            start, steps, tol = progress.nearest(width).block.mean, LAST_STEPS, LAST_TOL * tol
        else:
            start, steps = extrapolated(progress, width, state, fit), steps_of(fit)
        point = fit.at(width, start, parameters(progress, width, state), steps, tol)
        progress = progress.with_point(width, point)
        progress.polished = progress.selected is not None and point.settled
        best, newest = chosen(progress, fit), len(progress.widths) - 1
        progress.points = {at: one for at, one in progress.points.items() if at in (best, newest - 1, newest)}
        shown = progress.nearest(progress.widths[best])
        progress.loo = fit.average(shown.losses)[0]
        q = path.model.blocks(fit.widened(shown), shown.precision, shown.parameters)
        state = replace(state, q=q, progress=progress, passes=state.passes + 1, steps=state.steps + 1)
        return state, StepInfo(np.nan, False, 1.0, 0)

    def end(self, problem: Problem, state: State) -> State:
        """The fit at the chosen scale with its temperature; of its weights there is no bound."""
        progress, path = path_state(state), problem.model.traits.path
        fit = path.fit(problem.data)
        point = progress.nearest(progress.widths[chosen(progress, fit)])
        temperature = tempered(fit, point)
        loo = fit.average(fit.left_out_losses(point, temperature))[0]
        streams = path.model.likelihood.traits.classifies
        left = ChunkPath(path.model).left_by(fit, point).block.variance if streams else None
        progress = PathState(polished=progress.polished, temperature=temperature, loo=loo, variance=left)
        block = fit.widened(fit.sharpened(point))
        q = path.model.blocks(block, point.precision, point.parameters, fit.information(point))
        return replace(state, q=q, progress=progress, bound=np.nan, finished=True)


def steps_of(fit: Any) -> int:
    """Steps at most under a scale of the path: the fewer, the more a step costs."""
    return int(np.clip(PRODUCTS / max(fit.products, 1.0), LEAST_STEPS, MOST_STEPS))


def chosen(progress: PathState, fit: Any) -> int:
    """Position of the narrowest prior that is as good as the best, by a margin of its error or a share of the gain."""
    if progress.selected is not None:
        return progress.selected
    means = [fit.average(losses)[0] for losses in progress.losses]
    best = int(np.argmin(means))
    gain = SHARE * (fit.null_loss - means[best])
    for at in np.argsort(progress.widths).tolist():
        more, error = fit.average(progress.losses[at] - progress.losses[best])
        if more <= max(ERRORS * error, gain) + 1e-12:
            return int(at)
    return best


def following(progress: PathState, fit: Any) -> float | None:
    """The next width of the path; None at its end."""
    widths = progress.widths
    if not widths:
        return FIRST
    if fit.fixed_precision is not None or progress.selected is not None:
        return None
    best = widths[chosen(progress, fit)]
    if best == max(widths) < MOST and min(widths) == FIRST:
        return best * FACTOR
    return best / FACTOR if best == min(widths) > LEAST else None


def extrapolated(progress: PathState, width: float, state: State, fit: Any) -> Array:
    """Weights to begin with: along the line through those of the last two scales in their logarithm."""
    if not progress.widths:
        return np.asarray(fit.narrowed(state.q["weights"]))
    if len(progress.widths) > 1:
        before, last = np.log(progress.widths[-2:])
        share = (np.log(width) - last) / (last - before)
        if share > 0.0:
            older, newer = (progress.points[len(progress.widths) - back].block.mean for back in (2, 1))
            return np.asarray(newer + share * (newer - older))
    return np.asarray(progress.nearest(width).block.mean)


def parameters(progress: PathState, width: float, state: State) -> Array:
    """Unconstrained parameters of the likelihood to begin with, (P,)."""
    if progress.widths:
        return np.asarray(progress.nearest(width).parameters)
    return np.asarray(state.q["likelihood"].value if "likelihood" in state.q else np.zeros(0))


def tempered(fit: Any, point: Any) -> float:
    """The largest temperature, at most 1, whose loss is within a share of its standard error of the best one's."""
    n, k = point.variance.shape
    most = max(FEW_ROWS, NUMBERS // k)
    rows = np.arange(n) if n <= most else np.sort(np.random.default_rng(1).permutation(n)[:most])
    some, unit = replace(fit, weight=fit.weight[rows]), fit.unit_of(fit.likelihood_at(point.parameters))
    mean = max(float(point.variance.mean()) / unit, np.finfo(float).tiny)
    tried = np.unique(np.minimum(1.0, np.array(VARIANCES) / mean)).tolist()
    losses = [fit.left_out_losses(point, temperature, rows) for temperature in tried]
    best = losses[int(np.argmin([some.average(one)[0] for one in losses]))]
    good = []
    for temperature, one in zip(tried, losses, strict=True):
        more, error = some.average(one - best)
        if more <= ERRORS * error + 1e-12:
            good.append(temperature)
    return float(max(good))
