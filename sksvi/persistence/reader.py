"""Values from the nodes that :mod:`sksvi.persistence.writer` writes; whatever it does not write is refused.

Nodes may come from anywhere. No constructor runs, no attribute of a file is called, nothing but the closed table's
classes is imported, and all that takes more memory than the file itself counts against a budget.
"""

from __future__ import annotations

import inspect
import itertools
import math
import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import scipy.sparse as sp

from sksvi._typing.arrays import FILED, NUMBERS
from sksvi.persistence.writer import EXTENSION, MAX_DEPTH, NEVER_SAVED, SCALARS, resolve_class, slot_names

#: Values within one another; the writer's own steps down may be two of these.
DEEPEST = 2 * MAX_DEPTH + 10
#: Bytes that Python adds to what a file has: of an object, a random state, a string, a row of records.
KEYED, STATE, TEXT, ROW = 256, 8192, 64, 240
#: Bytes of a column of pandas, and how often its values are copied until a table is made.
COLUMN, COPIES = 1024, 3
#: Bytes of a number in a range, which whoever reads it may write out, and of a value that is referred to again.
IN_RANGE, AGAIN = 8, 1024
KERNELS = "kernel."
#: Values in a kernel, those that it refers to again included: scikit-learn walks through each of them several times.
MOST_OF_KERNEL = 2_000
#: Keys that may have the hash of another one: each of these is compared with all before it.
MOST_OF_ONE_HASH = 32
#: Whole numbers from here on may be made to have one hash, which turns a dict into a search through a list.
HASHED = 2**60
#: Strings that are made at a time.
PART = 4096
_DTYPE = re.compile(r"[<>|=]?[a-zA-Z]\d{0,9}(\[\d{0,9}[a-zA-Z]{1,2}\])?")


class Decoder:
    """Turns JSON nodes back into values; ValueError, KeyError or TypeError for anything that an encoder does not write.

    Parameters
    ----------
    registry : mapping of str to str
        Closed table, key to ``"module:Class"``; nothing else is ever imported.

    read : callable
        Member name to its verified array.

    spend : callable
        Is told the bytes that what is made of members (strings, pandas columns) takes, and raises where they are too
        many, so that one member referred to a million times is refused.
    """

    def __init__(
        self, registry: Mapping[str, str], read: Callable[[str], np.ndarray], spend: Callable[[int], None]
    ) -> None:
        self.registry = registry
        self._read = read
        self._spend = spend
        self._arrays: dict[str, np.ndarray] = {}
        self._objects: dict[int, Any] = {}
        #: Values made so far, with those that are referred to again counted again; and in each object that is finished.
        self._made = 0
        self._sizes: dict[int, int] = {}
        self._depth = 0
        self._handlers = {
            "float": lambda node: float({"nan": "nan", "inf": "inf", "-inf": "-inf"}[node["value"]]),
            "tuple": lambda node: tuple(self._list(node["items"])),
            "set": lambda node: (frozenset if node["frozen"] else set)(_checked_keys(self._list(node["items"]))),
            "dict": self._mapping,
            "dtype": lambda node: _read_dtype(node["value"]),
            "records": self._records,
            "numbers": lambda node: self._column_of(node["values"], "f", None),
            "scalar": self._scalar,
            "array": self._array,
            "objects": self._object_array,
            "strings": self._strings,
            "random-state": self._random_state,
            "csr": self._csr,
            "object": self._object,
            "reference": self._reference,
            **{name: self._pandas for name in ("frame", "series", "range-index", "multi-index", "index", "missing")},
        }

    def decode(self, node: Any) -> Any:
        """Return the value of a node."""
        if not isinstance(node, (list, dict)):
            return node
        self._depth += 1
        if self._depth > DEEPEST:
            raise ValueError(f"it is nested deeper than {MAX_DEPTH} levels")
        value = self._list(node) if isinstance(node, list) else self._handlers[node["type"]](node)
        self._depth -= 1
        return value

    def _list(self, items: Any) -> list:
        if not isinstance(items, list):
            raise TypeError("a list was expected")
        self._made += len(items)
        return [self.decode(item) for item in items]

    def _mapping(self, node: dict) -> Any:
        value: dict = {}
        self._register(node["id"], MappingProxyType(value) if node["proxy"] else value)
        before = self._made
        # Keys are no objects: nothing is referred to before it is there.
        for key, (_, child) in zip(_checked_keys([self.decode(key) for key, _ in node["items"]]), node["items"]):
            value[key] = self.decode(child)
        self._finished(node["id"], before, len(value))
        return self._objects[node["id"]]

    def _finished(self, number: int, before: int, own: int) -> int:
        """Count the values of an object, of which `own` are its own; how many they are with all that is in it."""
        self._made += 1 + own
        self._sizes[number] = self._made - before
        return self._sizes[number]

    def _reference(self, node: dict) -> Any:
        """An object again: whoever walks through it does so once for every reference, so each costs all that it has."""
        value, size = self._objects[node["id"]], self._sizes.get(node["id"], 1)
        self._spend(AGAIN * size)
        self._made += size
        return value

    def _register(self, number: Any, value: Any) -> None:
        if type(number) is not int or number in self._objects:
            raise ValueError("malformed object number")
        self._objects[number] = value

    def _scalar(self, node: dict) -> Any:
        if "array" in node:
            return self._array(node["array"])[()]
        if node["dtype"] not in SCALARS:
            raise ValueError(f"unknown scalar type {node['dtype']!r}")
        value = self.decode(node["value"])
        if type(value) not in (bool, int, float):
            raise ValueError("a scalar must be a number")
        return np.dtype(node["dtype"]).type(value)

    def _array(self, node: dict) -> np.ndarray:
        name = node["member"]
        if name not in self._arrays:
            array = self._arrays[name] = self._read(name)
            array.flags.writeable = bool(node["writeable"])
        return self._arrays[name]

    def _object_array(self, node: dict) -> np.ndarray:
        return _filled(self._list(node["items"]), node["shape"])

    def _strings(self, node: dict) -> np.ndarray:
        offsets, data = self._array(node["offsets"]), self._array(node["data"])
        if offsets.dtype != np.int64 or data.dtype != np.uint8 or offsets.ndim != 1 or data.ndim != 1:
            raise ValueError("malformed strings")
        if offsets.size == 0 or offsets[0] != 0 or offsets[-1] != data.size or (np.diff(offsets) < 0).any():
            raise ValueError("malformed string offsets")
        n, plain = len(offsets) - 1, data.size == 0 or data.max() < 128
        self._spend(TEXT * n + (1 if plain else 4) * data.size)
        shape = _checked_shape(node["shape"], n)
        texts = np.empty(n, dtype=object)
        for start in range(0, n, PART):  # numbers of Python's, one per offset, would be most of the memory
            ends = offsets[start : start + PART + 1].tolist()
            raw = data[ends[0] : ends[-1]].tobytes()
            for k, (a, b) in enumerate(itertools.pairwise(ends), start):
                texts[k] = raw[a - ends[0] : b - ends[0]].decode("utf-8", "surrogatepass")
        return texts.reshape(shape)

    def _column_of(self, node: Any, kinds: str, n: int | None) -> list:
        """A one-dimensional array as a list of Python's numbers."""
        values = self._array(node)
        if values.ndim != 1 or values.dtype.kind not in kinds or (n is not None and len(values) != n):
            raise ValueError("malformed column of numbers")
        self._spend(TEXT * len(values))
        return values.tolist()

    def _records(self, node: dict) -> list[dict[str, Any]]:
        """Dicts with the same keys, a column of numbers for each key."""
        n = node["n"]
        if type(n) is not int or not 0 <= n or not node["columns"]:
            raise ValueError("malformed records")
        names = [name for name, _ in node["columns"]]
        if any(type(name) is not str for name in names) or len(set(names)) != len(names):
            raise ValueError("malformed records")
        columns = [self._column_of(child, "bif", n) for _, child in node["columns"]]
        self._spend((ROW + TEXT * len(names)) * n)
        return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]

    def _csr(self, node: dict) -> sp.csr_matrix:
        data, indices, indptr = (self._array(part) for part in node["parts"])
        rows, columns = node["shape"]
        if any(part.ndim != 1 for part in (data, indices, indptr)) or data.dtype.kind not in NUMBERS:
            raise ValueError("malformed sparse matrix")
        if indices.dtype.kind != "i" or indptr.dtype.kind != "i" or any(type(n) is not int for n in (rows, columns)):
            raise ValueError("malformed sparse matrix")
        self._spend(3 * (data.nbytes + indices.nbytes + indptr.nbytes))
        # Compiled loops trust the indices: every one is checked.
        within = len(indptr) == rows + 1 and len(data) == len(indices) == indptr[-1] and indptr[0] == 0
        if (
            not within
            or (np.diff(indptr) < 0).any()
            or (len(indices) and not 0 <= indices.min() <= indices.max() < columns)
        ):
            raise ValueError("malformed sparse matrix")
        return sp.csr_matrix((data, indices, indptr), shape=(rows, columns))

    def _random_state(self, node: dict) -> np.random.RandomState:
        keys = self._array(node["keys"])
        position, has_gauss, cached = self._list(node["state"])
        # An unchecked position would make NumPy read outside the key.
        if keys.shape != (624,) or keys.dtype != np.uint32 or type(position) is not int or not 0 <= position <= 624:
            raise ValueError("malformed random state")
        self._spend(STATE)
        state = np.random.RandomState(0)
        state.set_state(("MT19937", keys, position, int(bool(has_gauss)), float(cached)))
        return state

    def _object(self, node: dict) -> Any:
        key = node["class"]
        if key not in self.registry:
            raise ValueError(f"unknown class key {key!r}; it may come from a newer sksvi or not from sksvi at all")
        cls = resolve_class(self.registry[key])
        value: Any = object.__new__(cls)
        self._register(node["id"], value)
        slots, before = slot_names(cls), self._made
        self._spend(KEYED)
        for name, child in node["state"]:
            if not allowed_name(cls, name, slots):
                raise ValueError(f"attribute name {name!r} of {key} is not allowed")
            if name in slots:
                object.__setattr__(value, name, self.decode(child))
            else:
                value.__dict__[name] = self.decode(child)
        if "requests" in node:
            self._set_requests(value, self.decode(node["requests"]))
        size = self._finished(node["id"], before, len(node["state"]))
        if key.startswith(KERNELS) and size > MOST_OF_KERNEL:
            raise ValueError(f"a kernel has more than {MOST_OF_KERNEL} parts")
        return value

    @staticmethod
    def _set_requests(estimator: Any, requests: dict[str, dict[str, Any]]) -> None:
        from sklearn import config_context

        cls = type(estimator)
        with config_context(enable_metadata_routing=True):
            for method, requested in requests.items():
                # The class's own: whatever else has this name came from the file.
                inspect.getattr_static(cls, f"set_{method}_request").__get__(estimator, cls)(**requested)

    def _pandas(self, node: dict) -> Any:
        import pandas as pd

        kind = node["type"]
        if kind == "missing":
            return {"NA": pd.NA, "NaT": pd.NaT}[node["value"]]
        if kind == "frame":
            columns = dict(enumerate(map(self._column, node["columns"])))
            frame = pd.DataFrame(columns, index=self.decode(node["index"]))
            return frame.set_axis(self.decode(node["names"]), axis=1)
        if kind == "multi-index":
            return pd.MultiIndex.from_arrays(list(map(self._column, node["levels"])), names=self.decode(node["names"]))
        name = self.decode(node["name"])
        if kind == "range-index":
            numbers = range(*node["range"])
            self._spend(IN_RANGE * max(0, -((numbers.start - numbers.stop) // numbers.step)))  # len() has an end
            return pd.RangeIndex.from_range(numbers, name=name)
        values = self._column(node["values"])
        return values.rename(name) if kind == "index" else pd.Series(values, self.decode(node["index"]), name=name)

    def _column(self, node: dict) -> Any:
        """Return one column as an Index, which unlike an array keeps its dtype in every pandas constructor."""
        import pandas as pd

        values = self.decode(node["codes" if node["kind"] == "categorical" else "values"])
        if not isinstance(values, np.ndarray):
            raise TypeError("a column must be an array")
        self._spend(COLUMN + COPIES * values.nbytes)
        if node["kind"] == "categorical":
            categories = self.decode(node["categories"])
            return pd.Index(pd.Categorical.from_codes(values, categories=categories, ordered=bool(node["ordered"])))
        if node["kind"] == "numpy":
            return pd.Index(values, dtype=values.dtype)
        if node["kind"] != "extension" or node["dtype"] not in EXTENSION:
            raise ValueError("unknown kind of column")
        # pandas below 3 has no "str" type of its own and keeps such columns as objects.
        old = node["dtype"] == "str" and int(pd.__version__.split(".")[0]) < 3
        return pd.Index(values, dtype=object if old else node["dtype"])


def allowed_name(cls: type, name: Any, slots: set[str]) -> bool:
    """Whether a file may set this attribute: none of a session, no method or property of the class."""
    if not (isinstance(name, str) and name.isidentifier()) or name.startswith("__") or name in NEVER_SAVED:
        return False
    own = inspect.getattr_static(cls, name, None)
    return name in slots or not (callable(own) or hasattr(type(own), "__get__"))


def _checked_keys(keys: list) -> list:
    """Keys of a dict or a set; an error where so many have one hash that each would be compared with all the others."""
    for key in keys:
        numbers = key if isinstance(key, tuple) else (key,)
        if any(isinstance(number, (int, float)) and HASHED <= abs(number) < math.inf for number in numbers):
            raise ValueError("a key is too large a number")
    if len(keys) - len(set(map(hash, keys))) > MOST_OF_ONE_HASH:
        raise ValueError("many of its keys have one hash")
    return keys


def _filled(items: list, shape: Any) -> np.ndarray:
    shape = _checked_shape(shape, len(items))
    array = np.empty(len(items), dtype=object)
    for i, item in enumerate(items):  # one by one: a slice would unpack tuples
        array[i] = item
    return array.reshape(shape)


def _checked_shape(shape: Any, size: int) -> list[int]:
    if not isinstance(shape, list) or any(type(n) is not int or n < 0 for n in shape) or math.prod(shape) != size:
        raise ValueError("malformed shape")
    return shape


def _read_dtype(text: Any) -> np.dtype:
    if not (isinstance(text, str) and _DTYPE.fullmatch(text)):
        raise ValueError(f"dtype {str(text)[:40]!r} is not allowed")
    dtype = np.dtype(text)
    if dtype.kind not in FILED + "O" or dtype.fields is not None or dtype.subdtype is not None:
        raise ValueError(f"dtype {dtype} is not allowed")
    return dtype
