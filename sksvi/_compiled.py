"""The doors of compiled loops: what Python hands over is checked against the loop's own words, so that none writes
past a buffer, whatever file or mistake its arguments come from.

A loop that Python calls has `@entry(...)` above `@numba.njit`; one that only other loops call begins with `_` or is
called from the folder of its own loops. `tests/contracts/test_compiled.py` holds the package to it.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

#: name(dims) kind, then what its numbers are below, or what they cut.
WORDS = re.compile(
    r"(?P<name>[\w.]+)\((?P<dims>[^)]*)\)(?P<kind>[fi])?((?P<cuts>cuts)(?P<of>\w+)|(?P<none>\?)?<(?P<below>\w+))?"
)
KINDS = {"f": "f", "i": "iu", None: "fiub"}


class Rule(NamedTuple):
    """What an argument must be."""

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


def entry(*rules: str) -> Callable[[Any], Any]:
    """Decorator of a compiled function: what each of its arrays is, as ``"indices (e) i < P"``.

    Parameters
    ----------
    *rules : str
        A name, or ``record.field``. In brackets its dimensions: a letter stands for one size wherever it stands, after
        which ``n+1``, ``L*r``, ``F~`` (the packed pairs of F), ``F^`` (its square; both F where the argument `full` is
        false) and ``>=P`` are known; ``_`` for any; ``n|0`` as the first for an array that may be left out. f (floats)
        or i (integers), else either. ``< P``: indices from 0, with ``? < P`` from -1. ``cuts e``: rising, over e
        entries.

    Returns
    -------
    callable
        The decorator: what it makes checks its arguments and calls the loop, its attribute ``compiled``.
    """

    def guarded(loop: Any) -> Any:
        code = loop.py_func.__code__
        names = code.co_varnames[: code.co_argcount]
        guard = Guard([_read(rule, names) for rule in rules], names.index("full") if "full" in names else None)

        @functools.wraps(loop.py_func)
        def checked(*arguments: Any) -> Any:
            guard(arguments)
            return loop(*arguments)

        checked.compiled, checked.guard = loop, guard  # type: ignore[attr-defined]
        return checked

    return guarded


class Guard:
    """What stands before one loop: its rules, and where the argument `full` is, if it has one.

    A call is first checked by a function that is written for these rules; where that finds fault, rule by rule for the
    words of the error.
    """

    def __init__(self, rules: list[Rule], full: int | None) -> None:
        self.rules, self.full = rules, full
        names: dict[str, Any] = {"ndarray": np.ndarray, "least": np.minimum.reduce, "most": np.maximum.reduce}
        names["unsigned"] = {np.dtype(kind).itemsize: kind for kind in (np.uint8, np.uint16, np.uint32, np.uint64)}
        exec(_written(rules), names)
        self.holds: Callable[..., bool] = names["holds"]

    def __call__(self, arguments: tuple[Any, ...]) -> None:
        """Raise where an argument breaks its rule."""
        sizes = MATRICES if self.full is None or arguments[self.full] else DIAGONALS
        if not self.holds(arguments, sizes["packed"], sizes["squared"]):
            self.explain(arguments, dict(sizes))

    def explain(self, arguments: tuple[Any, ...], sizes: dict[str, Any]) -> None:
        """Raise at the first rule that is broken."""
        for rule in self.rules:
            value = arguments[rule.position]
            _check(rule, value if rule.field is None else getattr(value, rule.field), sizes)


def _written(rules: list[Rule]) -> str:
    """Source of ``holds(arguments, packed, squared)``: whether arguments keep the rules; letters are its variables."""
    known: set[str] = set()
    lines = ["def holds(arguments, packed, squared):"]
    for rule in rules:
        lines.append(f" v_ = arguments[{rule.position}]" + (f".{rule.field}" if rule.field else ""))
        lines.append(f" if not isinstance(v_, ndarray) or v_.ndim != {len(rule.dims)}: return False")
        lines.append(f" if v_.dtype.kind not in {rule.kind!r}: return False")
        lines += _written_sizes(rule, known)
    return "\n".join([*lines, " return True"])


def _written_sizes(rule: Rule, known: set[str]) -> list[str]:
    """What is asked of an array's sizes and numbers."""
    lines, indent = [" s_ = v_.shape"], " "
    if rule.dims[0].endswith("|0"):  # which is known by then, or is learned from one that is not left out
        lines, indent = [" s_ = v_.shape", " if s_[0]:"], "  "
    for i, (dim, words) in enumerate(zip(rule.dims, rule.words, strict=True)):
        if dim == "_":
            continue
        if words.isidentifier() and words not in known:
            known.add(words)
            if indent == "  ":
                raise ValueError(f"a rule of a compiled loop meets {words} first in what may be left out: {rule.name}")
            lines.append(f"{indent}{words} = s_[{i}]")
            continue
        lines.append(f"{indent}if s_[{i}] {'<' if dim.startswith('>=') else '!='} {words}: return False")
    if rule.cuts is not None:
        lines.append(f"{indent}if not s_[0] or v_[0] < 0 or (v_[1:] < v_[:-1]).any(): return False")
        span = "int(v_[-1] - v_[0])"
        lines.append(
            f"{indent}if {span} != {rule.cuts}: return False" if rule.cuts in known else f" {rule.cuts} = {span}"
        )
        known.add(rule.cuts)
    elif rule.below is not None:
        axes = "" if len(rule.dims) == 1 else ", axis=None"
        broken = f"least(v_{axes}) < {rule.least} or most(v_{axes}) >= {rule.below}"
        if rule.kind == KINDS["i"] and rule.least == 0:  # below 0 is far above as an unsigned number: one look for both
            broken = f"most(v_.view(unsigned[v_.itemsize]){axes}) >= {rule.below}"
        lines.append(f"{indent}if v_.size and ({broken}): return False")
    return lines


def _read(rule: str, names: tuple[str, ...]) -> Rule:
    """A rule in pieces."""
    match = WORDS.fullmatch(rule.replace(" ", ""))
    if match is None:
        raise ValueError(f"a rule of a compiled loop cannot be read: {rule!r}")
    name, _, field = match["name"].partition(".")
    dims = tuple(filter(None, match["dims"].split(",")))
    least = -1 if match["none"] else 0
    words = tuple(_words(dim.removesuffix("|0").removeprefix(">=")) for dim in dims)
    sizes = tuple(size if size.isidentifier() else compile(size, size, "eval") for size in words)
    position, kind = names.index(name), KINDS[match["kind"]]
    return Rule(match["name"], position, field or None, dims, words, sizes, kind, match["below"], least, match["of"])


def _words(dim: str) -> str:
    """A letter as it is, anything else as what computes it from letters."""
    return re.sub(r"(\w)\^", r"squared(\1)", re.sub(r"(\w)~", r"packed(\1)", dim))


def _pairs(n: int) -> int:
    return n * (n + 1) // 2


def _square(n: int) -> int:
    return n * n


#: What words for matrices say of a size.
MATRICES, DIAGONALS = {"packed": _pairs, "squared": _square}, {"packed": int, "squared": int}


def _check(rule: Rule, value: Any, sizes: dict[str, Any]) -> None:
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
            known = {letter: size for letter, size in sizes.items() if isinstance(size, int)}
            raise ValueError(
                f"a compiled loop takes {rule.name} with dimensions {rule.dims}; found {value.shape}, where {known}."
            )
    if rule.cuts is not None:
        entries = sizes.setdefault(rule.cuts, int(value[-1] - value[0]))
        if value[0] < 0 or value[-1] - value[0] != entries or np.any(value[1:] < value[:-1]):
            raise ValueError(f"a compiled loop takes {rule.name} as rising cuts of {entries} entries; found others.")
    elif rule.below is not None and value.size and (value.min() < rule.least or value.max() >= sizes[rule.below]):
        raise ValueError(f"a compiled loop takes {rule.name} as indices below {sizes[rule.below]}; found others.")
