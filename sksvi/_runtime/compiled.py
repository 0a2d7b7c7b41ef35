"""Compiled loops: kept on disk for the next process where numba finds a place; their arguments are checked.

Arrays from Python are compared with the sizes and ranges that the loop declares, so that none writes past a buffer,
whatever file or mistake its arguments come from. A loop that Python calls has `@entry(...)` above `@njit`; one that
only other loops call begins with `_` or is called from the folder of its own loops. `tests/contracts/test_compiled.py`
holds the package to it.
"""

from __future__ import annotations

import functools
import gc
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import numba
import numpy as np
from numba._dynfunc import make_function
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder, Flags
from numba.core.compiler_machinery import PassManager

from sksvi._runtime import layout
from sksvi._runtime.layout import DIAGONALS, MATRICES, expression
from sksvi._runtime.user import warn_user
from sksvi._typing.arrays import NUMBERS, WHOLE

_WARNED: list[str] = []


class _PartLibrary(JITCodeLibrary):
    """Code that is optimised, and made machine code, only as a part of what links it."""

    def _optimize_functions(self, ll_module: Any) -> None:
        ll_module.data_layout = self._codegen._data_layout

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalized = True


class _WholeLibrary(JITCodeLibrary):
    """Code whose parts nothing else calls: LLVM then sees which calls cannot fail, and that no array needs counting.

    Where other code might take a part's place, as numba says, arrays are counted, under locks, at calls of it.
    """

    def _optimize_final_module(self) -> None:
        for part in self._final_module.functions:
            if part.linkage.name == "linkonce_odr":
                part.linkage = "internal"
        super()._optimize_final_module()


#: numba's passes that look for what no loop has: closures, tuples to unroll, `with` blocks.
UNUSED = ("InlineClosureLikes", "LiteralPropagationSubPipelinePass", "LiteralUnroll", "WithLifting")


class _Shared(Flags):
    """Options that what numba compiles of NumPy is looked up by, thousands of times in a loop: one object, one hash."""

    __slots__ = ()
    instances: ClassVar[dict[Flags, Flags]] = {}

    def __hash__(self) -> int:
        return 0


class _Options(Flags):
    """Options of a loop, by which numba compiles functions of NumPy anew for each loop that differs in any."""

    __slots__ = ()

    def copy(self) -> Flags:
        """What numba takes for the options of the caller: only those that these functions take over from it."""
        shared: Any = _Shared(self)
        shared.no_cpython_wrapper = shared.no_cfunc_wrapper = True
        shared.no_compile = shared.release_gil = False
        return _Shared.instances.setdefault(shared, shared)


class _Compiler(CompilerBase):
    """numba's compiler, while which Python collects no garbage: that took a fifth of the time."""

    library: ClassVar[type[JITCodeLibrary]] = _WholeLibrary

    def define_pipelines(self) -> list[Any]:
        self.state.flags.no_compile = self.library is _PartLibrary
        self.state.library = self.library(self.state.targetctx.codegen(), self.state.func_id.func_qualname)
        self.state.library.enable_object_caching()
        passes = PassManager("loop")
        every = DefaultPassBuilder.define_nopython_pipeline(self.state).passes
        passes.passes = [one for one in every if one[0].__name__ not in UNUSED]
        passes.finalize()
        return [passes]

    def compile_extra(self, func: Callable[..., Any]) -> Any:
        self.state.flags, collects = _Options(self.state.flags), gc.isenabled()
        gc.disable()
        try:
            return super().compile_extra(func)
        finally:
            if collects:
                gc.enable()


class _PartCompiler(_Compiler):
    """numba's compiler, whose code other compiled functions can call but Python cannot."""

    library = _PartLibrary

    def compile_extra(self, func: Callable[..., Any]) -> Any:
        result = super().compile_extra(func)
        described, library = result.fndesc, result.library
        address = make_function(described.lookup_module(), func.__name__, "", 0, result.environment, (library,))
        self.state.targetctx.insert_user_function(address, described, [library])
        return result._replace(entry_point=address)


class Loop:
    """A loop that numba compiles, without Python's lock: other loops call it, and its code becomes a part of theirs.

    Code of its own, in the attribute `standalone`, is made only for Python. numba would make it of every loop, and
    optimise what a loop calls anew with each of its callers: first fits took half as much time again.
    """

    def __init__(self, loop: Callable[..., Any], options: dict[str, Any]) -> None:
        functools.update_wrapper(self, loop)
        self.py_func = loop
        own: dict[str, Any] = {"nogil": True, "no_cfunc_wrapper": True, "error_model": "numpy"}
        self.targetoptions = own | {"pipeline_class": _Compiler} | options

    @functools.cached_property
    def part(self) -> Any:
        """The loop for other loops."""
        options = {**self.targetoptions, "pipeline_class": _PartCompiler, "no_cpython_wrapper": True}
        return numba.njit(**options)(self.py_func)

    @property
    def _numba_type_(self) -> Any:
        return self.part._numba_type_

    @functools.cached_property
    def standalone(self) -> Any:
        """The loop for Python.

        What is compiled is kept beside the source, in the user's cache folder, or in ``NUMBA_CACHE_DIR``. Where none of
        them can be written to, as in a container with read-only site-packages and no home, it is compiled anew in every
        process, which is warned of once.
        """
        try:
            return numba.njit(cache=True, **self.targetoptions)(self.py_func)
        except RuntimeError as error:
            if "cannot cache function" not in str(error):
                raise
            if not _WARNED:
                _WARNED.append(self.py_func.__name__)
                warn_user(
                    "compiled loops cannot be kept on disk, because neither the folder of sksvi nor the user's cache "
                    "folder can be written to: each process compiles them anew, for seconds of each first fit. Set "
                    "NUMBA_CACHE_DIR to a folder that can be written to, or fill one when the image is made by "
                    "python -m sksvi.precompile."
                )
            return numba.njit(**self.targetoptions)(self.py_func)

    def __call__(self, *arguments: Any) -> Any:
        return self.standalone(*arguments)


def njit(**options: Any) -> Callable[[Callable[..., Any]], Loop]:
    """Decorator of a `Loop`; `options` are those of `numba.njit`. Division by zero is NumPy's."""
    return functools.partial(Loop, options=options)


#: Letter of a layout -> kinds of dtype that a loop takes: it is compiled for each width.
KINDS = {"f": "f", "i": WHOLE, "u": "i", None: NUMBERS}


@njit()
def _entries(cuts: Any) -> int | np.int64:
    """Number of entries that sorted boundaries `cuts` span; -1 unless they begin at 0 or later and never fall.

    NumPy takes eight times as long for the cuts of a few documents.
    """
    rises = len(cuts) > 0 and cuts[0] >= 0
    for i in range(1, len(cuts)):
        rises &= cuts[i] >= cuts[i - 1]
    return np.int64(cuts[-1]) - np.int64(cuts[0]) if rises else -1


@njit()
def _within(indices: Any, least: int, below: int) -> bool:
    """Whether every index lies in [least, below)."""
    inside = True
    for i in range(len(indices)):
        inside &= (indices[i] >= least) & (indices[i] < below)
    return inside


#: What the functions that are written for rules call.
NAMES: dict[str, Any] = {
    "ndarray": np.ndarray,
    "least": np.minimum.reduce,
    "most": np.maximum.reduce,
    "entries": _entries.standalone,
    "within": _within.standalone,
    "float64": np.dtype(np.float64),
    "int32": np.dtype(np.int32),
}


class ArgumentRule(NamedTuple):
    """Shape, dtype kind and range that one argument of a compiled loop must have."""

    name: str
    position: int
    field: str | None
    dims: tuple[str, ...]
    words: tuple[str, ...]
    sizes: tuple[Any, ...]
    kind: str
    below: str | None
    least: int
    cuts: str | None
    unsigned: bool


def entry(*rules: str) -> Callable[[Any], Any]:
    """Decorator of a compiled function: what each of its arrays is, as ``"indices (e) i < P"``.

    Parameters
    ----------
    *rules : str
        Rules of a layout (`sksvi._runtime.layout`) for arrays: a name, or ``record.field``, its dimensions and limits.
        ``n|0`` as the first dimension is for an array that may be left out, whose others are then not checked.

    Returns
    -------
    callable
        The decorator: what it makes checks its arguments and calls the loop, its attribute ``compiled``.
    """

    def guarded(own: Loop) -> Any:
        loop, code = own.standalone, own.py_func.__code__
        names = code.co_varnames[: code.co_argcount]
        guard = Guard([_read(rule, names) for rule in rules], names.index("full") if "full" in names else None)

        @functools.wraps(own.py_func)
        def checked(*arguments: Any) -> Any:
            guard(arguments)
            return loop(*(guard.unsigned(arguments) if guard.positions else arguments))

        checked.compiled, checked.guard = loop, guard  # type: ignore[attr-defined]
        return checked

    return guarded


class Guard:
    """Check of the arguments of one compiled loop: its rules, and the position of the argument `full`, if it has one.

    A call is first checked by a function that is written for these rules; where that finds fault, rule by rule for the
    words of the error.
    """

    def __init__(self, rules: list[ArgumentRule], full: int | None) -> None:
        self.rules, self.full = rules, full
        self.positions = [rule.position for rule in rules if rule.unsigned]
        names = dict(NAMES)
        exec(_written(rules), names)
        self.holds: Callable[..., bool] = names["holds"]

    def __call__(self, arguments: tuple[Any, ...]) -> None:
        """Raise where an argument breaks its rule."""
        sizes = MATRICES if self.full is None or arguments[self.full] else DIAGONALS
        if not self.holds(arguments, sizes["packed"], sizes["squared"]):
            self.explain(arguments, dict(sizes))

    def unsigned(self, arguments: tuple[Any, ...]) -> list[Any]:
        """The arguments, those that are checked to have no negative number as unsigned ones.

        A loop asks before each look at an array whether a signed index is negative, which takes as long as the look.
        """
        out = list(arguments)
        for at in self.positions:
            out[at] = out[at].view(f"u{out[at].itemsize}")
        return out

    def explain(self, arguments: tuple[Any, ...], sizes: dict[str, Any]) -> None:
        """Raise at the first rule that is broken."""
        for rule in self.rules:
            value = arguments[rule.position]
            _check(rule, value if rule.field is None else getattr(value, rule.field), sizes)


def _written(rules: list[ArgumentRule]) -> str:
    """Source of ``holds(arguments, packed, squared)``: whether arguments keep the rules; letters are its variables."""
    defined: set[str] = set()
    last = None
    lines = ["def holds(arguments, packed, squared):"]
    for rule in rules:
        if (rule.name, rule.kind) != last:
            lines.append(f" v_ = arguments[{rule.position}]" + (f".{rule.field}" if rule.field else ""))
            lines += [" if not isinstance(v_, ndarray): return False", " s_ = v_.shape"]
            usual = "int32" if rule.kind == KINDS["i"] else "float64"  # of which there is one object: no letter is read
            lines.append(f" if v_.dtype is not {usual} and v_.dtype.kind not in {rule.kind!r}: return False")
        last = rule.name, rule.kind
        lines += _written_sizes(rule, defined)
    return "\n".join([*lines, " return True"])


def _written_sizes(rule: ArgumentRule, defined: set[str]) -> list[str]:
    """Lines of source that check an array's sizes and numbers; `defined`: letters whose size earlier lines have set."""
    optional = rule.dims[0].endswith("|0")  # its letters are defined by then, by an array that is not left out
    new = [words for words in rule.words if words.isidentifier() and words != "_" and words not in defined]
    if optional and new:
        raise ValueError(f"a rule of a compiled loop meets {new[0]} first in what may be left out: {rule.name}")
    if not new and "_" not in rule.dims and not any(dim.startswith(">=") for dim in rule.dims):
        lines = [f"if s_ != ({', '.join(rule.words)},): return False", *_written_numbers(rule, defined)]
        few = f" if len(s_) != {len(rule.dims)}: return False"
        return [few, " if s_[0]:", *("  " + line for line in lines)] if optional else [" " + line for line in lines]
    lines = [f"if len(s_) != {len(rule.dims)}: return False"]
    for i, (dim, words) in enumerate(zip(rule.dims, rule.words, strict=True)):
        if words in new and words not in defined:
            defined.add(words)
            lines.append(f"{words} = s_[{i}]")
        elif dim != "_":
            lines.append(f"if s_[{i}] {'<' if dim.startswith('>=') else '!='} {words}: return False")
    lines += _written_numbers(rule, defined)
    if optional:
        lines = [lines[0], "if s_[0]:", *(" " + line for line in lines[1:])]
    return [" " + line for line in lines]


def _written_numbers(rule: ArgumentRule, defined: set[str]) -> list[str]:
    """Lines of source that check the range of an array's numbers; `defined` as in `_written_sizes`."""
    if rule.cuts is not None:
        if rule.cuts in defined:
            return [f"if entries(v_) != {rule.cuts}: return False"]
        defined.add(rule.cuts)
        return [f"{rule.cuts} = entries(v_)", f"if {rule.cuts} < 0: return False"]
    if rule.below is None:
        return []
    if len(rule.dims) == 1:
        return [f"if not within(v_, {rule.least}, {rule.below}): return False"]
    broken = f"least(v_, axis=None) < {rule.least} or most(v_, axis=None) >= {rule.below}"
    return [f"if v_.size and ({broken}): return False"]


def _read(text: str, names: tuple[str, ...]) -> ArgumentRule:
    """Rule of one argument; `names`: parameters of the loop."""
    read = layout.rule(text)
    (spec,), (name, *field) = read.specs, read.steps
    if not spec.dims:
        raise ValueError(f"a rule of a compiled loop cannot be read: {text!r}")
    words = tuple(expression(dim.removesuffix("|0").removeprefix(">=")) for dim in spec.dims)
    sizes = tuple(size if size.isidentifier() else compile(size, size, "eval") for size in words)
    limits = {limit.word: limit for limit in spec.limits}
    below, cuts = limits.get("<"), limits.get("cuts")
    if spec.kind == "u" and cuts is None and (below is None or below.of):
        raise ValueError(f"a rule of a compiled loop does not ask whether unsigned numbers may be negative: {text!r}")
    return ArgumentRule(
        read.place,
        names.index(str(name)),
        str(field[0]) if field else None,
        spec.dims,
        words,
        sizes,
        KINDS[spec.kind],
        below.bound if below else None,
        -1 if below and below.of else 0,
        cuts.bound if cuts else None,
        spec.kind == "u",
    )


def _check(rule: ArgumentRule, value: Any, sizes: dict[str, Any]) -> None:
    """Raise where an array is not what its loop takes it for; sizes met first are remembered."""
    if not isinstance(value, np.ndarray) or value.ndim != len(rule.dims) or value.dtype.kind not in rule.kind:
        found = f"{type(value).__name__} of shape {np.shape(value)} and type {getattr(value, 'dtype', None)}"
        raise ValueError(f"a compiled loop takes {rule.name} with dimensions {rule.dims}; found {found}.")
    if rule.dims[0].endswith("|0") and not len(value):
        return
    for dim, wanted, size in zip(rule.dims, rule.sizes, value.shape):
        if dim == "_":
            continue
        wanted = sizes.setdefault(wanted, size) if isinstance(wanted, str) else eval(wanted, sizes)
        if size != wanted and not (size > wanted and dim.startswith(">=")):
            letters = {letter: size for letter, size in sizes.items() if isinstance(size, int)}
            raise ValueError(
                f"a compiled loop takes {rule.name} with dimensions {rule.dims}; found {value.shape}, where {letters}."
            )
    if rule.cuts is not None:
        entries = sizes.setdefault(rule.cuts, int(value[-1] - value[0]))
        if value[0] < 0 or value[-1] - value[0] != entries or np.any(value[1:] < value[:-1]):
            raise ValueError(f"a compiled loop takes {rule.name} as rising cuts of {entries} entries; found others.")
    elif rule.below is not None and value.size and (value.min() < rule.least or value.max() >= sizes[rule.below]):
        raise ValueError(f"a compiled loop takes {rule.name} as indices below {sizes[rule.below]}; found others.")
