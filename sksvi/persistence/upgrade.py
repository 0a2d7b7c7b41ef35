"""Files of earlier versions: what a fit knows, as it is called today."""

from __future__ import annotations

import inspect
from typing import Any

from sksvi.families.base import Message
from sksvi.inference.memory.factors import NO_FACTORS, BlockFactors
from sksvi.inference.memory.locals import NO_LOCALS, Locals
from sksvi.inference.memory.plates import PlateMemory
from sksvi.inference.progress import AlternatingState, AveragingState, LineSearchState


def upgraded(estimator: Any) -> None:
    """Bring what an earlier version saved up to date: units, parameters that it did not have, states without passes."""
    bring = getattr(type(estimator), "_from_earlier", None)
    if bring is not None:
        bring(estimator)
    for name, parameter in inspect.signature(type(estimator).__init__).parameters.items():
        if parameter.default is not parameter.empty:
            vars(estimator).setdefault(name, parameter.default)
    state = vars(estimator).get("state_")
    if state is None:
        return
    progress = vars(state).get("progress")
    if isinstance(progress, LineSearchState):
        vars(progress).setdefault("searched", {})
    if "absorbed" not in vars(state):
        return
    old = vars(state)
    sites, absorbed, local = old.pop("sites"), old.pop("absorbed"), old.pop("local", None)
    repairs = old.pop("local_repairs", 0)
    old["messages"] = sites if sites is not None else _said(absorbed)
    old["locals"] = NO_LOCALS if local is None else Locals(local, repairs)
    old["progress"] = _progress(old)


def _said(absorbed: Any) -> Any:
    """Messages by block; a Gaussian one was a block with the linear part as its mean."""
    if absorbed is None:
        return NO_FACTORS
    return BlockFactors({name: _message(said) for name, said in absorbed.items()})


def _message(said: Any) -> Message:
    if isinstance(said, tuple):
        return Message(said)
    if isinstance(said, Message):  # packed, of plates
        parts = vars(said)
        parts["parts"] = parts.pop("linear"), parts.pop("precision")
        return said
    return Message((said.mean, said.precision))


def _progress(old: dict[str, Any]) -> Any:
    """The record of the pass that was under way, and memories of plates side by side."""
    here, damping, small = old.pop("previous"), old.pop("damping"), old.pop("small_changes")
    average, checks, memory = old.pop("average"), old.pop("checks"), old["memory"]
    sides = [name.removesuffix("_clock") for name in memory if name.endswith("_clock")]
    if sides:
        points, value = memory.pop("likelihood", (None, float("-inf")))
        for side in sides:
            clock, seen = memory.pop(f"{side}_clock"), memory.pop(f"{side}_seen", None)
            rule = memory.get(side)
            memory[side] = PlateMemory(clock, 0.0 * clock if seen is None else seen, rule)
        gradient = {} if points is None else {"likelihood": points}
        return AlternatingState(gradient, value, None if here is None else here.bound, small, checks)
    if average or checks:
        return AveragingState(damping, average, checks)
    return LineSearchState(here, damping, small)
