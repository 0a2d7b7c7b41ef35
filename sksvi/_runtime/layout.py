"""Layouts: what shapes, types and ranges the attributes of an object have, in one small language.

A class that is saved has a class attribute ``LAYOUT``, rules that are divided by lines or semicolons; a subclass that
adds to them begins its own with ``Base.LAYOUT``. The reader of files checks each object by its layout
(:mod:`sksvi.persistence.states`), compiled loops their arguments (:mod:`sksvi._runtime.compiled`), where a rule is that
of one argument. A rule is a place and what is there::

    mean (…,D) f; precision (…,D,D) f diag>0; _root? (…,D,D) f diag>0

A place is an attribute; ``a.b`` that of another object, ``q.weights`` an item of a dict, ``a[0]`` one of a list, and
``a[*]`` each item, whose letters are its own. After ``name?`` the rule is for what is there and not None. What is there
is one of, with ``or`` between them:

=========================  ============================================================================================
``(n,D) f``                an array, finite. A letter stands for one size wherever it stands in the object; ``n+1``,
                           ``F~`` (the packed pairs of F), ``F^`` (its square; both F where `full` is false), ``1|d``
                           (either), ``>=P``, ``_`` (any), ``…`` (leading axes). ``f`` float64, ``x`` float32 or
                           float64, ``i`` int32 or int64, ``b`` bool; loops take each width, and without a letter
                           each number; ``u`` is ``i`` without negative numbers, which a loop is given unsigned.
``number``                 one number, finite
``count n``, ``flag full`` a whole number from 0, a truth value; also names it
``items n``, ``labels n``  a list or tuple, names that are distinct (in an array), and how many
``list dict tuple text``   that type
``Table/Sites``            an object of one of these classes
``no array``               anything else
=========================  ============================================================================================

Limits follow: ``>0``, ``>=0``, ``<=n``, ``<n`` (of integers: indices from 0, with ``?<n`` from -1), ``diag>0`` (of a
matrix), ``distinct``, ``rising``, ``cuts e`` (rising from 0 over e entries). ``where`` and an expression of Python end
a rule: `it` is what is there, `self` the object, letters are sizes.
"""

from __future__ import annotations

import inspect
import operator
import re
from collections.abc import Callable, Iterator
from functools import cache
from types import CodeType
from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray
Sizes = dict[str, Any]

_PLACE = re.compile(r"(?P<place>\w+(?:\.\w+|\[\w+\]|\[\*\])*)(?P<optional>\?)?\s*(?P<rest>.*)", re.DOTALL)
_ARRAY = re.compile(r"\((?P<dims>[^)]*)\)\s*(?P<kind>[fxiub](?!\w))?")
_WORD = re.compile(r"(?P<word>no array|[\w/]+)(?:[ ]+(?P<size>(?!distinct|rising|cuts)[\w.+*~^-]+))?")
_LIMIT = re.compile(
    r"\s*(?:(?P<of>diag|\?)?\s*(?P<sign>[<>]=?)\s*|(?P<word>distinct|rising|cuts)\s*)(?P<bound>[\w.+*~^-]*)"
)
_STEP = re.compile(r"\.?(\w+)|\[(\w+|\*)\]")

#: Letter of a kind -> dtype kind, widths in bytes, words of an error.
KINDS = {
    "f": ("f", (8,), "float64"),
    "x": ("f", (4, 8), "float32 or float64"),
    "i": ("i", (4, 8), "int32 or int64"),
    "u": ("i", (4, 8), "int32 or int64"),
    "b": ("b", (1,), "bool"),
}
_SIGNS: dict[str, tuple[Callable[[Any, Any], Any], str]] = {
    ">": (operator.gt, "not above"),
    ">=": (operator.ge, "below"),
    "<": (operator.lt, "not below"),
    "<=": (operator.le, "above"),
}
_TYPES = {"list": (list,), "dict": (dict,), "tuple": (tuple,), "text": (str,), "items": (list, tuple)}
_MISSING = object()
#: Labels that may have one hash: random ones share it in threes, those that were made to would take hours.
MOST_OF_ONE_HASH = 1_000


class Malformed(ValueError):
    """An attribute that does not fit what its object says elsewhere."""


class Limit(NamedTuple):
    """Range of the numbers of an array, or how they follow each other."""

    word: str
    bound: str
    of: str | None


class Spec(NamedTuple):
    """One thing that may be at a place: an array with its dimensions, a number, a type."""

    word: str
    dims: tuple[str, ...]
    kind: str | None
    size: str | None
    limits: tuple[Limit, ...]


class LayoutRule(NamedTuple):
    """A place, what may be there, and a condition."""

    place: str
    steps: tuple[str | int, ...]
    optional: bool
    specs: tuple[Spec, ...]
    condition: str | None


# ---- reading rules
@cache
def rules(text: str) -> tuple[LayoutRule, ...]:
    """Rules of a layout."""
    return tuple(rule(line) for line in re.split(r"[;\n]", text) if line.strip())


@cache
def rule(text: str) -> LayoutRule:
    """Parse one rule.

    Raises
    ------
    ValueError
        Where the text is none.
    """
    plain, _, condition = text.partition(" where ")
    match = _PLACE.fullmatch(plain.strip())
    if match is None:
        raise ValueError(f"a rule of a layout cannot be read: {text!r}")
    steps = tuple(int(s) if s.isdigit() else s for s in (a or b for a, b in _STEP.findall(match["place"])))
    specs = tuple(_spec(part.strip(), text) for part in re.split(r"\bor\b", match["rest"]) if part.strip())
    return LayoutRule(match["place"], steps, bool(match["optional"]), specs, condition.strip() or None)


def _spec(text: str, whole: str) -> Spec:
    match = _ARRAY.match(text) or _WORD.match(text)
    if match is None:
        raise ValueError(f"a rule of a layout cannot be read: {whole!r}")
    parts, limits, end = match.groupdict(), [], match.end()
    while end < len(text):
        limit = _LIMIT.match(text, end)
        if limit is None:
            raise ValueError(f"a rule of a layout cannot be read: {whole!r}")
        limits.append(Limit(limit["sign"] or limit["word"], limit["bound"], limit["of"]))
        end = limit.end()
    dims = tuple(dim.strip() for dim in parts.get("dims", "").split(",") if dim.strip())
    return Spec(parts.get("word", "array"), dims, parts.get("kind"), parts.get("size"), tuple(limits))


def expression(size: str) -> str:
    """Python expression of a size: a letter as it is, anything else as calls of `packed` and `squared`."""
    return re.sub(r"(\w)\^", r"squared(\1)", re.sub(r"(\w)~", r"packed(\1)", size))


@cache
def _code(text: str) -> CodeType:
    return compile(text, text, "eval")


def _pairs(n: int) -> int:
    return n * (n + 1) // 2


def _square(n: int) -> int:
    return n * n


#: What words for matrices say of a size, and of that of a diagonal.
MATRICES: Sizes = {"packed": _pairs, "squared": _square}
DIAGONALS: Sizes = {"packed": int, "squared": int}


def _evaluated(text: str, sizes: Sizes) -> Any:
    return eval(_code(expression(text)), {**(MATRICES if sizes.get("full", True) else DIAGONALS), **sizes})


# ---- checking objects
def check(value: Any, layout: str, where: str = "", sizes: Sizes | None = None) -> Sizes:
    """Check an object by a layout.

    Parameters
    ----------
    value : object
    layout : str
    where : str
        Its place, as users would write it: ``state_.q['weights']``.
    sizes : dict, optional
        Letters that stand for a size already.

    Returns
    -------
    dict
        All letters, with their sizes.

    Raises
    ------
    Malformed
        Where a rule is broken; the error names the attribute.
    """
    sizes = {} if sizes is None else dict(sizes)
    for own in rules(layout):
        for there, name in _places(value, own.steps, where, own.optional):
            letters = dict(sizes) if "*" in own.steps else sizes
            _check_one(own, there, name, letters, value)
    return sizes


def _places(value: Any, steps: tuple[str | int, ...], where: str, optional: bool) -> Iterator[tuple[Any, str]]:
    """Each value at a place, with its name."""
    if not steps:
        if value is not None or not optional:
            yield value, where
        return
    step, *rest = steps
    if step == "*":
        require(isinstance(value, (list, tuple, dict)), where, f"is a {type(value).__name__}, not a list")
        keys = value if isinstance(value, dict) else range(len(value))
        require(all(isinstance(key, (str, int)) for key in keys), where, "has a key that is no name")
        for key in keys:
            yield from _places(value[key], tuple(rest), f"{where}[{key!r}]", optional)
        return
    inner, name = _attribute(value, step, where)
    if inner is not _MISSING and not (optional and inner is None):
        yield from _places(inner, tuple(rest), name, optional)
    elif not optional:
        raise Malformed(f"{name} is missing")


def _attribute(value: Any, name: str | int, where: str) -> tuple[Any, str]:
    """An attribute, a property or an item, and its name."""
    if isinstance(value, dict):
        return value.get(name, _MISSING), f"{where}[{name!r}]"
    if isinstance(name, int):
        there = isinstance(value, (list, tuple)) and name < len(value)
        return value[name] if there else _MISSING, f"{where}[{name}]"
    place = f"{where}.{name}" if where else name
    own = getattr(value, "__dict__", {})
    if name in own:
        return own[name], place
    found = inspect.getattr_static(type(value), name, _MISSING)
    if not hasattr(type(found), "__get__"):
        return found, place
    try:
        return getattr(value, name), place
    except Exception as error:  # whatever a property makes of a file
        raise Malformed(f"{place} cannot be had: {error}") from error


def require(right: Any, where: str, text: str) -> None:
    """Raise `Malformed` unless a condition holds."""
    if not right:
        raise Malformed(f"{where} {text}")


def _check_one(own: LayoutRule, value: Any, where: str, sizes: Sizes, whole: Any) -> None:
    errors = []
    for spec in own.specs:
        letters = dict(sizes)
        try:
            _check_spec(spec, value, where, letters)
        except Malformed as error:
            errors.append(error)
            continue
        sizes.update(letters)
        break
    else:
        if errors:
            raise Malformed(" and ".join(dict.fromkeys(map(str, errors))))
    if own.condition is not None:
        try:
            right = bool(np.all(eval(_code(own.condition), {"np": np, **sizes, "it": value, "self": whole})))
        except Exception as error:  # whatever a condition makes of a file
            raise Malformed(f"{where} cannot be checked for {own.condition}: {error}") from error
        require(right, where, f"does not have {own.condition}{_letters(sizes)}")


def _letters(sizes: Sizes) -> str:
    named = ", ".join(f"{letter}={size}" for letter, size in sizes.items() if isinstance(size, (int, np.integer)))
    return f", where {named}" if named else ""


def _named(size: str | None, found: int, sizes: Sizes) -> int:
    """The size that a place should have; a letter that stands for none yet is given the one that is there."""
    if size is None or size == "_":
        return found
    return sizes.setdefault(size, found) if size.isidentifier() else _evaluated(size, sizes)


def _check_spec(spec: Spec, value: Any, where: str, sizes: Sizes) -> None:
    found = type(value).__name__
    if spec.word == "array":
        _check_array(spec, value, where, sizes)
    elif spec.word == "number" or spec.word == "count":
        whole = spec.word == "count"
        classes: tuple[type, ...] = (int, np.integer) if whole else (int, float, np.integer, np.floating)
        right = isinstance(value, classes) and not isinstance(value, bool)
        require(right, where, f"is a {found}, not a {'whole ' * whole}number")
        require(np.isfinite(value), where, "is not finite")
        limits = (*spec.limits, *((Limit(">=", "0", None),) if whole else ()))
        for word, bound, _ in limits:
            compare, text = _SIGNS[word]
            require(compare(value, _evaluated(bound, sizes)), where, f"is {value}, {text} {_evaluated(bound, sizes)}")
        wanted = _named(spec.size, value, sizes)
        require(value == wanted, where, f"is {value}, not {wanted}")
    elif spec.word == "flag":
        require(isinstance(value, (bool, np.bool_)), where, f"is a {found}, not a truth value")
        _named(spec.size, bool(value), sizes)
    elif spec.word == "labels":
        n = distinct_labels(value, where)
        wanted = _named(spec.size, n, sizes)
        require(n == wanted, where, f"has {n} labels, not {wanted}")
    elif spec.word == "no array":
        require(not isinstance(value, np.ndarray), where, "is an array")
    elif spec.word in _TYPES:
        require(isinstance(value, _TYPES[spec.word]), where, f"is a {found}, not a {spec.word}")
        wanted = _named(spec.size, len(value), sizes)
        require(len(value) == wanted, where, f"has {len(value)} items, not {wanted}")
    else:
        classes_of = {cls.__name__ for cls in type(value).__mro__}
        require(classes_of & set(spec.word.split("/")), where, f"is a {found}, not a {spec.word.replace('/', ' or ')}")


def _check_array(spec: Spec, value: Any, where: str, sizes: Sizes) -> None:
    require(isinstance(value, np.ndarray), where, f"is a {type(value).__name__}, not an array")
    if spec.kind is not None:
        kind, widths, name = KINDS[spec.kind]
        right = value.dtype.kind == kind and value.dtype.itemsize in widths
        require(right, where, f"has dtype {value.dtype}, not {name}")
    _check_shape(spec.dims, value.shape, where, sizes)
    require(value.dtype.kind != "f" or np.isfinite(value).all(), where, "is not finite")
    for word, bound, of in spec.limits:
        if word in _FOLLOWING:
            _FOLLOWING[word](value, where, bound, sizes)
        elif value.size:
            _check_range(
                np.diagonal(value, axis1=-2, axis2=-1) if of == "diag" else value, word, bound, of, where, sizes
            )


def _check_range(numbers: Array, sign: str, bound: str, of: str | None, where: str, sizes: Sizes) -> None:
    compare, text = _SIGNS[sign]
    limit, worst = _evaluated(bound, sizes), numbers.min() if sign[0] == ">" else numbers.max()
    about = " on its diagonal" if of == "diag" else ""
    require(compare(worst, limit), where, f"has the value {worst}{about}, {text} {limit}")
    if sign[0] == "<" and numbers.dtype.kind == "i":
        least = -1 if of == "?" else 0
        require(numbers.min() >= least, where, f"has the value {numbers.min()}, below {least}")


def _check_shape(dims: tuple[str, ...], shape: tuple[int, ...], where: str, sizes: Sizes) -> None:
    right, axes = len(dims) == len(shape), dims
    if "…" in dims:
        at, n = dims.index("…"), len(shape) - len(dims) + 1
        among = sizes.setdefault("…", shape[at : at + n]) if n >= 0 else sizes.get("…", ("any",))
        axes = (*dims[:at], *map(str, among), *dims[at + 1 :])
        right = len(axes) == len(shape)
    wanted = []
    for k, dim in enumerate(axes):
        least, choices = dim.startswith(">="), dim.removeprefix(">=").split("|")
        if dim in ("_", "any") or (not right and any(c.isidentifier() and c not in sizes for c in choices)):
            wanted.append("any")
            continue
        sized = [_named(choice, shape[k] if right else -1, sizes) for choice in choices]
        wanted.append(" or ".join(map(str, sized)))
        right = right and (shape[k] in sized or (least and shape[k] > sized[0]))
    text = ", ".join(wanted) + ("," if len(wanted) == 1 else "")
    require(right, where, f"has shape {shape}, not ({text})")


# ---- how numbers follow each other
def _check_distinct(value: Array, where: str, bound: str, sizes: Sizes) -> None:
    require(len(np.unique(value)) == value.size, where, "has a value twice")


def _check_rising(value: Array, where: str, bound: str, sizes: Sizes) -> None:
    require(np.all(np.diff(value) > 0), where, "does not increase")


def _check_cuts(value: Array, where: str, bound: str, sizes: Sizes) -> None:
    entries = _named(bound, int(value[-1]) if value.size else -1, sizes)
    right = value.size and value[0] == 0 and value[-1] == entries and np.all(np.diff(value) >= 0)
    require(right, where, f"does not divide {entries} values")


_FOLLOWING: dict[str, Callable[[Array, str, str, Sizes], None]] = {
    "distinct": _check_distinct,
    "rising": _check_rising,
    "cuts": _check_cuts,
}


# ---- labels
def distinct_labels(value: Any, where: str) -> int:
    """Check that names of columns, classes, levels or ids are distinct; return their number."""
    require(isinstance(value, np.ndarray), where, f"is a {type(value).__name__}, not an array")
    require(value.ndim == 1, where, f"has shape {value.shape}, not (any,)")
    try:
        distinct = _are_distinct(value, where)
    except TypeError as error:
        raise Malformed(f"{where} has values that are no labels") from error
    require(distinct, where, "has a label twice")
    return len(value)


def _are_distinct(labels: Array, where: str) -> bool:
    """Whether labels differ, found by sorting them: a table of hashes is a search through a list where those agree."""
    import pandas as pd

    if labels.dtype.kind in "iufb":
        in_order = np.sort(labels)
        missing = int(np.sum(np.isnan(in_order))) if labels.dtype.kind == "f" else 0
        require(_most_of_one_hash(labels) <= MOST_OF_ONE_HASH, where, "has labels made to have one hash")
        return missing <= 1 and not np.any(in_order[1:] == in_order[:-1])
    if labels.dtype == object:
        hashes = len(set(map(hash, labels.tolist())))
        require(len(labels) - hashes <= MOST_OF_ONE_HASH, where, "has labels made to have one hash, or the same")
    return bool(pd.Index(labels).is_unique)


def _most_of_one_hash(labels: Array) -> int:
    """Largest number of integers with one hash in the table of pandas in which predictions look them up."""
    if labels.dtype.kind not in "iu" or labels.dtype.itemsize < 8 or not labels.size:
        return 0
    bits = labels.astype(np.int64).view(np.uint64)
    hashes = (bits >> np.uint64(33) ^ bits ^ bits << np.uint64(11)).astype(np.uint32)
    return int(np.unique(hashes, return_counts=True)[1].max())
