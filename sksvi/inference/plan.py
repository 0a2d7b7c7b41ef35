"""The plan of a fit: the one place that decides, before the first step, which parts serve, and that refuses others.

A pair of model and algorithm (or expectation, or batch size) that has no meaning is refused with both names and the
remedy. After that nothing asks: the pass, the globals and the messages are objects.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from sklearn.base import clone

from sksvi.algorithms.specs import SPECS, VARIATIONAL, Algorithm
from sksvi.expectations import Auto, Expectation
from sksvi.inference import engine
from sksvi.inference.engine import Pass
from sksvi.inference.passes.alternating import Alternating
from sksvi.inference.passes.blockwise import Blockwise
from sksvi.inference.passes.line_search import LineSearch
from sksvi.inference.passes.path import ScalePath
from sksvi.inference.passes.stochastic import GibbsPass, Noisy
from sksvi.inference.problem import DIRECT, GLOBALS, PlainGradients, Problem
from sksvi.inference.records import replace
from sksvi.inference.search import search
from sksvi.inference.site_updates import LatentUpdates, SiteUpdates
from sksvi.inference.start import initialized
from sksvi.inference.state import LookEnd, State, with_own_lists
from sksvi.models.base import Bipartite, Linear, Model, Sampleable
from sksvi.models.data import Data, Lost


def problem(
    model: Model,
    data: Data,
    algorithm: Algorithm,
    expect: Expectation | None = None,
    *,
    batch_size: int | None = None,
    threads: int = 1,
    **options: Any,
) -> Problem:
    """The problem of a fit, with what its parts decide filled in.

    Parameters
    ----------
    model, data : Model and its data
    algorithm : Algorithm
    expect : Expectation, optional
        Of the steps; None: ``Auto()``. The bound that a fit reports is without noise in any case.
    batch_size : int or None
        Rows of a step; None: all.
    threads : int
    **options
        Further fields of `Problem`.
    """
    expect = Auto() if expect is None else expect
    exact = expect if expect.exact else Auto()
    bare = Problem(model, data, algorithm, expect, exact, batch_size=batch_size, threads=threads, **options)
    ready = decided(bare)
    own = algorithm.schedule is None and not (algorithm.spec.sampler or algorithm.spec.literal)
    steps = model.traits.steps
    few = ready.steps_per_pass <= steps.full_batch_steps and not ready.stream
    rate = steps.full_batch_schedule if few and steps.full_batch_schedule is not None else steps.schedule
    if rate is not None and own and not ready.deterministic:
        ready.algorithm = clone(algorithm).set_params(schedule=rate)
    return ready


def decided(bare: Problem) -> Problem:
    """The problem with the globals and messages that its parts ask for."""
    mode = GLOBALS[bare.model.globals or bare.algorithm.spec.globals]  # as the model says, or as the algorithm does
    # Local steps see the globals at their mean in warm-up passes, where the model begins so.
    warmup = None if mode is GLOBALS["mean"] or not bare.model.traits.warmup.passes else GLOBALS["mean"]
    return replace(bare, globals=mode, warmup_globals=warmup, messages=messages_of(bare))


def changed(before: Problem, **changes: Any) -> Problem:
    """The problem with other parts, decided anew."""
    return decided(replace(before, **changes))


def remembers(bare: Problem) -> bool:
    """Whether data keep messages; for conjugate blocks the damped message is the natural step."""
    return bare.algorithm.spec.messages and isinstance(bare.model, Linear | Bipartite)


def messages_of(bare: Problem) -> PlainGradients:
    """A site per row where batches would otherwise bring noise that stays."""
    wanted = bare.algorithm.spec.messages and not bare.full_batch
    if not (wanted and isinstance(bare.model, Linear)):
        return DIRECT
    return (LatentUpdates if bare.model.traits.steps.own_messages else SiteUpdates)(bare.model.main)


def pass_of(ready: Problem) -> Pass:
    """The kind of pass that the problem's parts ask for."""
    if ready.model.traits.path is not None:
        return ScalePath()
    if ready.algorithm.spec.sampler:
        return GibbsPass()
    if isinstance(ready.model, Bipartite):
        return Alternating()
    if not ready.deterministic:
        return Noisy()
    return Blockwise() if ready.model.traits.steps.blockwise else LineSearch()


#: Attempts at a fit whose workers are lost with what only they kept: each begins anew, to the same bits.
MOST_REPLAYS = 5


def run(
    ready: Problem,
    state: State,
    max_iter: int,
    tol: float,
    pass_end: Callable[[State], bool] = lambda state: False,
    look_end: LookEnd | None = None,
) -> State:
    """A fit from `state`, `start.first_state` or one to go on from, to where it settles or to pass `max_iter`.

    ``pass_end`` sees the state after every pass, and True ends the fit. ``look_end`` does so for the passes of a
    search, and sees the state that a fit that is cut off goes on from, too: of the search's beginning, or of where it
    is; None: `pass_end`.
    """
    search_callback: LookEnd = (lambda state, search_start: pass_end(state)) if look_end is None else look_end
    relay = CallbackRelay(pass_end, search_callback)
    for _ in range(MOST_REPLAYS):
        first, searching = initialized(ready, with_own_lists(state)), partial(search, look_end=relay.look_end)
        try:
            return engine.fit(ready, first, pass_of(ready), searching, max_iter, tol, relay.pass_end)
        except Lost:
            relay = CallbackRelay(pass_end, search_callback, relay.last_pass)
    raise Lost(f"workers were lost with what rows keep beside them in {MOST_REPLAYS} attempts at the fit.")


class CallbackRelay:
    """Callbacks after passes, called once for each pass even where a fit is run again.

    Parameters
    ----------
    pass_end, look_end : callables
        As in `run`.
    before : int, default=-1
        The last pass that they were called after in an earlier attempt.
    """

    def __init__(self, pass_end: Callable[[State], bool], look_end: LookEnd, before: int = -1) -> None:
        self._pass_end, self._look_end, self._before = pass_end, look_end, before
        self.last_pass = before

    def pass_end(self, state: State) -> bool:
        """Call the fit's callback after a pass; True ends the fit."""
        return self._new(state) and self._pass_end(state)

    def look_end(self, state: State, search_start: State) -> bool:
        """Call the search's callback after an evaluation of a search; True ends the fit."""
        return self._new(state) and self._look_end(state, search_start)

    def _new(self, state: State) -> bool:
        self.last_pass = max(self.last_pass, state.passes)
        return state.passes > self._before


# ---- refusals
def check(ready: Problem, estimator: str, given: dict[str, Any]) -> None:
    """Raise ValueError for parts that cannot serve each other; `given` has the user's words for them."""
    for refuses, text in REFUSALS:
        if refuses(ready):
            searched, fixed = ready.model.traits.searched
            fields = {"estimator": estimator, "steps": ", ".join(map(repr, steps(ready))), "searched": searched}
            raise ValueError(text.format(fixed=fixed, **fields, **given))


def steps(ready: Problem) -> list[str]:
    """Algorithms that serve the model with any data and expectation."""
    names = [name for name in VARIATIONAL if isinstance(ready.model, Linear) or not SPECS[name].solves_mean]
    return [name for name in names if SPECS[name].natural or not ready.model.traits.steps.natural_only]


#: What is refused, and how it is said.
REFUSALS = (
    (
        lambda p: p.model.traits.path is not None and not p.algorithm.spec.messages,
        "algorithm={algorithm!r} climbs a bound, and covariance='low-rank' is fitted at the mode by leave-one-out, "
        "without one: choose algorithm='cvi', or covariance='full' or 'diag'.",
    ),
    (
        lambda p: p.model.traits.path is not None and not p.full_batch,
        "covariance='low-rank' judges each scale of the prior on all rows at once and cannot take "
        "batch_size={batch_size}: set batch_size='auto', or covariance='diag'.",
    ),
    (
        lambda p: p.model.traits.path is not None and not isinstance(p.expect, Auto),
        "covariance='low-rank' is fitted at the mode, which takes no expectation={expectation!r}: choose 'auto', or "
        "covariance='full' or 'diag'.",
    ),
    (
        lambda p: p.algorithm.spec.structured and p.model.globals is not None,
        "algorithm={algorithm!r} says how local variables see conjugate globals, and {estimator} has none: choose "
        "{steps}.",
    ),
    (
        lambda p: p.model.globals is None and p.algorithm.spec.globals not in p.model.global_modes,
        "algorithm={algorithm!r} is not known to {estimator}: choose {steps}.",
    ),
    (
        lambda p: p.algorithm.spec.sampler and not isinstance(p.model, Sampleable),
        "algorithm={algorithm!r} draws from the posterior itself and {estimator} has no sampler: choose {steps}.",
    ),
    (
        lambda p: p.model.traits.steps.own_messages and not p.algorithm.spec.messages and not p.full_batch,
        "algorithm={algorithm!r} moves the messages of all rows of {estimator} at every step, which those of a batch "
        "say nothing of, and cannot take batch_size={batch_size}: set batch_size=None or choose 'cvi'.",
    ),
    (
        lambda p: p.algorithm.spec.whole and not p.full_batch,
        "algorithm={algorithm!r} works on all rows at once and cannot take batch_size={batch_size}: set "
        "batch_size=None or choose 'cvi', 'mc-ssvi', 'h-mc-ssvi' or 's-dsvi'.",
    ),
    (
        lambda p: not p.model.traits.bound.additive and not p.model.traits.steps.own_messages and not p.full_batch,
        "the bound of {estimator} is no sum over rows: set batch_size=None.",
    ),
    (
        lambda p: not p.model.traits.bound.batched and not p.full_batch,
        "the terms of this bound of {estimator} are not concave in q, and steps on mini-batches, here of "
        "batch_size={batch_size}, do not find its optimum: set batch_size=None, or choose bound='simple' or 'v1'.",
    ),
    (
        lambda p: p.algorithm.spec.solves_mean and not isinstance(p.model, Linear),
        "algorithm={algorithm!r} solves for the mean of one Gaussian block that all rows share, at its covariance; "
        "{estimator} has no such block: choose 'mc-ssvi', 'h-mc-ssvi', 's-dsvi' or 'cvi'.",
    ),
    (
        lambda p: p.algorithm.spec.solves_mean and not p.expect.exact,
        "algorithm={algorithm!r} solves for the mean of a bound without noise and cannot take "
        "expectation={expectation!r}, such as 'monte-carlo': choose 'auto' or 'quadrature', or another algorithm.",
    ),
    (
        lambda p: p.model.traits.steps.natural_only and not p.algorithm.spec.natural,
        "algorithm={algorithm!r} steps on a Cholesky factor of all latents, which {estimator} does not hold: choose "
        "'cvi', 'fp' or 'mc-ssvi'.",
    ),
    (
        lambda p: p.model.traits.bound.exact_search and not p.expect.exact,
        "expectation={expectation!r} makes the bound noisy, and {searched} are found by line searches on it: choose "
        "'auto' or 'quadrature', or {fixed}.",
    ),
    (
        lambda p: isinstance(p.model, Bipartite) and p.algorithm.spec.messages and not p.full_batch,
        "algorithm={algorithm!r} keeps one site per user or item, from all of its entries, and cannot take "
        "batch_size={batch_size}: set batch_size=None, or choose 'mc-ssvi'.",
    ),
)
