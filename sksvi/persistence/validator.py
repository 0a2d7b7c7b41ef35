"""Checks of the contents of a file, whose errors name the member that is at fault."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from sksvi._runtime.layout import Malformed

Array = np.ndarray
_MISSING = object()
#: Kinds of numbers that fits leave behind, of what width in bytes; "x": those that have the precision of X.
_DTYPES = {"f": ("f", (8,)), "x": ("f", (4, 8)), "i": ("i", (4, 8)), "b": ("b", (1,))}
_NAMES = {"f": "float64", "x": "float32 or float64", "i": "int32 or int64", "b": "bool"}


class Validator:
    """A value of a file and its place there, with checks of the value.

    Parameters
    ----------
    value : object
    where : str
        As users would write it: ``state_.q['weights'].mean``.
    """

    def __init__(self, value: Any, where: str = "") -> None:
        self.value, self.where = value, where

    def fail(self, text: str) -> Malformed:
        """Error to be raised about this value."""
        return Malformed(f"{self.where or type(self.value).__name__} {text}")

    def require(self, right: Any, text: str) -> Validator:
        """Raise unless a condition holds; return this validator."""
        if not right:
            raise self.fail(text)
        return self

    # ---- going down
    def has(self, name: str) -> bool:
        """Whether the value has an attribute that is not None."""
        return self._raw(name) not in (_MISSING, None) if not isinstance(self._raw(name), np.ndarray) else True

    def _raw(self, name: str) -> Any:
        own = getattr(self.value, "__dict__", {})
        if name in own:
            return own[name]
        found = inspect.getattr_static(type(self.value), name, _MISSING)
        if inspect.ismemberdescriptor(found):
            return getattr(self.value, name, _MISSING)
        return _MISSING if hasattr(type(found), "__get__") else found

    def at(self, name: str) -> Validator:
        """An attribute."""
        value = self._raw(name)
        there = Validator(value, f"{self.where}.{name}" if self.where else name)
        if value is _MISSING:
            raise there.fail("is missing")
        return there

    def item(self, key: Any) -> Validator:
        """An item of a dict, list or tuple."""
        return Validator(self.value[key], f"{self.where}[{key!r}]")

    def items(self) -> list[Validator]:
        """All items."""
        return [self.item(key) for key in (self.value if isinstance(self.value, dict) else range(len(self.value)))]

    # ---- questions
    def a(self, *classes: type) -> Validator:
        """Check that the value is of one of these classes; return this validator."""
        names = " or ".join(cls.__name__ for cls in classes)
        self.require(isinstance(self.value, classes), f"is a {type(self.value).__name__}, not a {names}")
        return self

    def array(
        self,
        shape: tuple[int | None, ...] | None = None,
        kind: str = "f",
        *,
        least: float | None = None,
        above: float | None = None,
        below: float | None = None,
    ) -> Array:
        """The array, of this shape (None: any length) and kind, finite and within these limits."""
        value = self.value
        self.require(isinstance(value, np.ndarray), f"is a {type(value).__name__}, not an array")
        letter, sizes = _DTYPES[kind]
        right = value.dtype.kind == letter and value.dtype.itemsize in sizes
        self.require(right, f"has dtype {value.dtype}, not {_NAMES[kind]}")
        if shape is not None:
            fits = value.ndim == len(shape) and all(n in (None, m) for n, m in zip(shape, value.shape, strict=True))
            wanted = str(tuple("any" if n is None else n for n in shape)).replace("'", "")
            self.require(fits, f"has shape {value.shape}, not {wanted}")
        if value.size:
            self.require(letter != "f" or np.isfinite(value).all(), "is not finite")
            low = value.min()
            self.require(least is None or low >= least, f"has the value {low}, below {least}")
            self.require(above is None or low > above, f"has the value {low}, not above {above}")
            self.require(below is None or value.max() < below, f"has the value {value.max()}, not below {below}")
        return value

    def number(self, *, least: float | None = None, above: float | None = None, finite: bool = True) -> float:
        """A number, of Python's or NumPy's."""
        value = self.value
        right = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
        self.require(right, f"is a {type(value).__name__}, not a number")
        self.require(not finite or np.isfinite(value), "is not finite")
        self.require(least is None or value >= least, f"is {value}, below {least}")
        self.require(above is None or value > above, f"is {value}, not above {above}")
        return value

    def count(self, least: int = 0) -> int:
        """A whole number."""
        self.require(isinstance(self.value, (int, np.integer)), f"is a {type(self.value).__name__}, not a whole number")
        return int(self.number(least=least))

    def flag(self) -> bool:
        """A truth value."""
        self.require(isinstance(self.value, (bool, np.bool_)), f"is a {type(self.value).__name__}, not a truth value")
        return bool(self.value)

    def sequence(self, length: int | None = None) -> list[Validator]:
        """The items of a list or tuple."""
        self.a(list, tuple)
        self.require(length in (None, len(self.value)), f"has {len(self.value)} items, not {length}")
        return self.items()

    def mapping(self) -> list[Validator]:
        """The values of a dict with names."""
        self.a(dict)
        self.require(all(isinstance(key, str) for key in self.value), "has a key that is no name")
        return self.items()

    def unless_none(self, name: str, ask: Callable[[Validator], Any]) -> None:
        """Check an attribute by a function, unless it is missing or None."""
        if self.has(name):
            ask(self.at(name))
