"""Whether what a file holds fits together: each array's shape, dtype and range against the others.

Compiled loops and BLAS trust shapes, and a checksum says only that a file is as somebody wrote it. Each class of the
table says in its ``LAYOUT`` what its attributes are (:mod:`sksvi._runtime.layout`); here are kernels, which are classes
of scikit-learn's, and what ties the parts of a state to its blocks.

A new class, an encoding or a record of a fit, needs a ``LAYOUT`` and nothing here; parameters that must be right before
a fit too, such as a formula, have a ``PARAMETER_LAYOUT``. An estimator adds to that of its
base, by paths such as ``_encoding.scale (d)``, what ties its attributes to each other; `d` is its number of columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator

from sksvi._runtime.layout import check, require
from sksvi.families.base import Family
from sksvi.inference.messages import Sites
from sksvi.inference.state import PlateMemory, State

Array = np.ndarray

#: Parameters of kernels, by their key in the table.
KERNELS = {
    "kernel.RBF": ("length_scale",),
    "kernel.Matern": ("length_scale",),
    "kernel.RationalQuadratic": ("length_scale", "alpha"),
    "kernel.ExpSineSquared": ("length_scale", "periodicity"),
    "kernel.ConstantKernel": ("constant_value",),
    "kernel.DotProduct": ("sigma_0",),
    "kernel.PairwiseKernel": ("gamma",),
    "kernel.WhiteKernel": ("noise_level",),
}
#: Layout of a fit to several series, whose fits are those of its panel.
OF_PANEL = "_panel SeriesPanel where 'state_' not in vars(self)"
_PARAMETER = "{0}? (_) f >0 or no array; {0}_bounds? (_,2) f or no array"


def layout(key: str, cls: type) -> str:
    """Layout of a class of the table; empty where it has none."""
    if key in KERNELS:
        return ";".join(_PARAMETER.format(name) for name in KERNELS[key])
    return getattr(cls, "LAYOUT", "")


def check_parts(value: Any, where: str, key_of: Callable[[type], str | None]) -> None:
    """Check every object within a value, the innermost first; numbers of arrays must be finite wherever they are.

    Of a fitted estimator its parameters are the user's own, checked where they are used.

    Parameters
    ----------
    value : object
    where : str
        Its place, as users would write it.
    key_of : callable
        Class to its key in the table.
    """
    _descend(value, where, key_of, set())


def _descend(value: Any, where: str, key_of: Callable[[type], str | None], visited: set[int]) -> None:
    if isinstance(value, np.ndarray):
        require(value.dtype.kind != "c", where, "is complex")
        require(value.dtype.kind != "f" or np.isfinite(value).all(), where, "is not finite")
        return
    if value is None or isinstance(value, (str, int, float, np.generic, np.dtype)) or id(value) in visited:
        return
    visited.add(id(value))
    key = None
    if isinstance(value, dict):
        inner = {f"{where}[{name!r}]": part for name, part in value.items()}
    elif isinstance(value, (list, tuple)):
        inner = {f"{where}[{k}]": part for k, part in enumerate(value)}
    elif sp.issparse(value):
        inner = {f"{where}.data": value.data}  # type: ignore[attr-defined]
    else:
        key = key_of(type(value))
        # Sets and tables of pandas are no arrays of a fit.
        inner = {} if key is None else {f"{where}.{name}".lstrip("."): part for name, part in _own(value).items()}
    for name, part in inner.items():
        _descend(part, name, key_of, visited)
    if key is not None:
        check(value, getattr(type(value), "PARAMETER_LAYOUT", ""), where)
    if key is not None and is_fitted(value):
        check(value, layout(key, type(value)) if vars(value).get("_panel") is None else OF_PANEL, where)
        if isinstance(value, State):
            check_state(value, where)


def _own(value: Any) -> dict[str, Any]:
    """Attributes of an object; of an estimator without its parameters, but for a pipeline's steps, which are fitted."""
    parameters = value.get_params(deep=False) if is_estimator(type(value)) else {}
    return {name: part for name, part in vars(value).items() if name not in parameters or name == "steps"}


def is_estimator(cls: type) -> bool:
    """Whether objects of a class can be fitted."""
    return issubclass(cls, BaseEstimator) and hasattr(cls, "fit")


def is_fitted(value: Any) -> bool:
    """Whether an object is no estimator, or one with fitted attributes."""
    return not is_estimator(type(value)) or any(name.endswith("_") for name in _own(value))


# ---- what ties the parts of a state to its blocks
def check_state(state: State, where: str) -> None:
    """Check that what rules remember, what data said and what a pass goes on from is of the blocks of the state."""
    for name, memory in state.memory.items():
        place = f"{where}.memory[{name!r}]"
        _check_memory(memory, _block(state, name, place), place)
    _check_messages(state, f"{where}.messages")
    _check_progress(state, f"{where}.progress")


def _block(state: State, name: str, where: str) -> Any:
    require(name in state.q, where, "is of a block that is not there")
    return state.q[name]


def _check_memory(memory: Any, block: Family, where: str) -> None:
    if isinstance(memory, PlateMemory):
        n = block.n_plates
        require(len(memory.clock) == n, where, f"has {len(memory.clock)} plates, the block {n}")
        memory, where = memory.rule, f"{where}.rule"
    # Adam's memory ends with the number of its steps, a secant's is of arrays alone.
    parts: Iterable[Any] = memory if isinstance(memory, tuple) else getattr(memory, "__dict__", {}).values()
    shape = np.shape(_coordinates(block))
    size = int(np.prod(shape))
    for part in parts:
        if isinstance(part, np.ndarray):  # AdaDelta has two numbers per coordinate
            own = part.dtype == np.float64 and part.size in (size, 2 * size, size * (*shape, 1)[len(shape) - 1])
            require(own, where, f"has {part.dtype} of shape {part.shape}, for a block of {size} coordinates")
        elif isinstance(memory, tuple):
            require(isinstance(part, int) and part >= 0, where, "has what is neither an array nor a number of steps")


def _coordinates(block: Any) -> Array:
    """The array whose shape a gradient of the block has first."""
    return np.asarray(block.standard_values if hasattr(block, "standard_values") else block.mean)


def _natural(block: Any) -> tuple[int, ...]:
    return np.shape(block.theta if hasattr(block, "theta") else block.mean)


def _gaussian_part(part: Any, block: Any) -> bool:
    """Whether the shape is that of a message to P m or to P, the natural parameters of a Gaussian block."""
    shape = np.shape(block.mean)
    if not isinstance(part, np.ndarray):
        own: Any = getattr(block, "precision", None)
        return type(part) is type(own) and part.diag.shape == own.diag.shape and part.start == own.start
    return part.shape in (shape, (*shape, *shape[-1:]))


def _check_messages(state: State, where: str) -> None:
    messages: Any = state.messages
    if isinstance(messages, Sites):
        gaussian = [block for block in state.q.values() if block.column == "gaussian"]
        for part in (*messages.total, *messages.first):
            require(any(_gaussian_part(part, block) for block in gaussian), where, "has sums of no block's shape")
        return
    for name, message in getattr(messages, "by_block", {}).items():
        place = f"{where}.by_block[{name!r}]"
        block = _block(state, name, place)
        for number, part in enumerate(message.parts):
            right = np.shape(part) in (np.shape(block.mean), np.shape(_coordinates(block)), _natural(block))
            if number == 1:
                packed = hasattr(block, "values") and np.shape(part) == np.shape(block.values)
                right = right or packed or _gaussian_part(part, block)
            require(right, f"{place}.parts[{number}]", f"is not of the shape of its block, {np.shape(block.mean)}")


def _check_progress(state: State, where: str) -> None:
    progress: Any = state.progress
    here = getattr(progress, "here", None)
    blocks: dict[str, Any] = {f"{where}.average": getattr(progress, "average", None)}
    gradients = {f"{where}.gradient": getattr(progress, "gradient", None)}
    if here is not None:
        blocks[f"{where}.here.q"], gradients[f"{where}.here.gradient"] = here.q, here.gradient
    for place, q in blocks.items():
        if q or place.endswith("q"):
            require(isinstance(q, dict) and q.keys() == state.q.keys(), place, "has other blocks than the fit")
            for name, block in state.q.items():
                shape, found = np.shape(block.mean), np.shape(getattr(q[name], "mean", ()))
                right = isinstance(q[name], Family) and found == shape
                require(right, f"{place}[{name!r}]", f"has shape {found}, the fit's {shape}")
    for place, gradient in gradients.items():
        for name, parts in (gradient or {}).items():
            _check_gradient(parts, _block(state, name, f"{place}[{name!r}]"), f"{place}[{name!r}]")


def _check_gradient(parts: Any, block: Any, where: str) -> None:
    require(isinstance(parts, (list, tuple)) and parts, where, "is no gradient")
    sizes = {np.size(block.mean), int(np.prod(_natural(block))), np.size(_coordinates(block))}
    first = np.size(parts[0])
    require(first in sizes, where, f"has {first} numbers, its block {sizes}")
    for number, part in enumerate(parts):
        if isinstance(part, np.ndarray):
            right = part.dtype == np.float64 and part.size in (first, first**2)
            require(right, f"{where}[{number}]", "has numbers of another block")
