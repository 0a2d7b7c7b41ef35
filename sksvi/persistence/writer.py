"""Fitted objects as a tree of JSON nodes and plain arrays, the writing half of :mod:`sksvi.persistence`.

Only data goes into a file: numbers, strings, containers, arrays, pandas tables, and instances of the classes in a
closed table, rebuilt attribute by attribute without running a constructor. What the table does not name can neither be
written nor read.
"""

from __future__ import annotations

import functools
import importlib
import math
import sys
from collections.abc import Mapping
from datetime import tzinfo
from types import MappingProxyType
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator

from sksvi._runtime.layout import Malformed, check
from sksvi._typing.arrays import FILED

# Callbacks, their contexts and warnings given belong to the session; metadata requests have a node of their own.
NEVER_SAVED = frozenset(
    {
        "_skl_callbacks",
        "_callback_fit_ctx",
        "_parent_callback_ctx",
        "_skl_callbacks_to_teardown",
        "_metadata_request",
        "_offset_warning",
    }
)
SCALARS = frozenset(np.dtype(code).name for code in "?bhilqBHILQefd")
EXTENSION = frozenset(
    {"Int8", "Int16", "Int32", "Int64", "UInt8", "UInt16", "UInt32", "UInt64"}
    | {"Float32", "Float64", "boolean", "string", "str"}
)
MAX_DEPTH = 100
#: How times come to what files can tell.
_OTHERWISE = {"time zone": 'tz_convert("UTC")', "frequency": 'y.asfreq("D")'}
#: Lists of numbers, or dicts of numbers, from this length on are arrays in a file.
LONG = 16
COLUMN_OF: dict[type, str] = {bool: "?", int: "<i8", float: "<f8"}


def slot_names(cls: type) -> set[str]:
    """Return the names of all ``__slots__`` of a class and its bases."""
    names: set[str] = set()
    for base in cls.__mro__:
        slots = base.__dict__.get("__slots__", ())
        names.update((slots,) if isinstance(slots, str) else slots)
    return names - {"__dict__", "__weakref__"}


def saved_state(obj: Any) -> dict[str, Any]:
    """Return the attributes of an object that go into a file.

    Left out are callbacks, ``functools.cached_property`` values (they are found again), and the names in the object's
    own ``_not_saved``.
    """
    cls = type(obj)
    skip = NEVER_SAVED | set(getattr(obj, "_not_saved", ()))
    state = {name: getattr(obj, name) for name in sorted(slot_names(cls)) if hasattr(obj, name)}
    state.update(obj.__getstate__() if isinstance(obj, BaseEstimator) else getattr(obj, "__dict__", {}))
    return {
        name: value
        for name, value in state.items()
        if name not in skip and not isinstance(getattr(cls, name, None), functools.cached_property)
    }


def resolve_class(target: str) -> type:
    """Import the class that an entry ``"module:Class"`` of the closed table names."""
    module, _, name = target.partition(":")
    return getattr(importlib.import_module(module), name)


def class_key(registry: Mapping[str, str], cls: type) -> str | None:
    """Return the key of a class in the closed table, or None; only entries of that name are imported."""
    named = [key for key, target in registry.items() if target.endswith(f":{cls.__qualname__}")]
    return next((key for key in named if resolve_class(registry[key]) is cls), None)


def as_columns(items: list) -> dict[str, np.ndarray] | None:
    """The columns of a list of dicts with the same keys, of numbers of one kind each; of floats a column named ""."""
    if len(items) < LONG:
        return None
    if all(type(item) is float for item in items):
        return {"": np.array(items)}
    first = items[0]
    if type(first) is not dict or not first or any(type(key) is not str or not key for key in first):
        return None
    names = list(first)
    if any(type(item) is not dict or list(item) != names for item in items):
        return None
    columns = {}
    for name in names:
        kind = type(first[name])
        if kind not in COLUMN_OF or any(type(item[name]) is not kind for item in items):
            return None
        if kind is int and any(abs(item[name]) >= 2**62 for item in items):
            return None
        columns[name] = np.array([item[name] for item in items], COLUMN_OF[kind])
    return columns


class Encoder:
    """Turns values into JSON nodes; collects the arrays they refer to.

    Parameters
    ----------
    registry : mapping of str to str
        Closed table, key to ``"module:Class"``.

    Attributes
    ----------
    arrays : dict of str to ndarray
        Member name to array, each array once however often it is referred to.
    """

    def __init__(self, registry: Mapping[str, str]) -> None:
        self.registry = registry
        self.arrays: dict[str, np.ndarray] = {}
        self._members: dict[tuple, str] = {}
        self._objects: dict[int, int] = {}
        self._alive: list[Any] = []  # ids are unique only among living objects

    def encode(self, value: Any, where: str, depth: int = 0) -> Any:
        """Return the JSON node of ``value``; ``where`` names it in errors (TypeError for what has no safe form)."""
        if depth > MAX_DEPTH:
            raise ValueError(f"Cannot save {where}: nested deeper than {MAX_DEPTH} levels.")
        if value is None or type(value) in (bool, int, str):
            return value
        if type(value) is float:
            return value if math.isfinite(value) else {"type": "float", "value": repr(value)}
        if type(value) is list:
            columns = as_columns(value)
            if columns is not None:
                return self._columns(columns, len(value), where, depth)
            return [self.encode(v, f"{where}[{i}]", depth + 1) for i, v in enumerate(value)]
        if type(value) is tuple:
            return {"type": "tuple", "items": self.encode(list(value), where, depth)}
        if type(value) in (set, frozenset):
            items = sorted((self.encode(v, where, depth + 1) for v in value), key=repr)
            return {"type": "set", "frozen": type(value) is frozenset, "items": items}
        if isinstance(value, (dict, MappingProxyType)):
            return self._mapping(value, where, depth)
        if isinstance(value, (np.ndarray, np.generic, np.dtype)):
            return self._numpy(value, where, depth)
        if type(value) is np.random.RandomState:
            _, keys, position, has_gauss, cached = value.get_state(legacy=True)
            parts = self.encode([int(position), int(has_gauss), float(cached)], where, depth)
            return {"type": "random-state", "keys": self._own(np.asarray(keys), where, depth), "state": parts}
        if isinstance(value, sp.csr_matrix | sp.csr_array):
            parts = [self._own(part, where, depth) for part in (value.data, value.indices, value.indptr)]
            return {"type": "csr", "parts": parts, "shape": list(map(int, value.shape))}
        pandas = sys.modules.get("pandas")
        if pandas is not None:
            node = self._pandas(pandas, value, where, depth)
            if node is not None:
                return node
        return self._object(value, where, depth)

    def _columns(self, columns: dict[str, np.ndarray], n: int, where: str, depth: int) -> dict[str, Any]:
        """Lists of numbers, or of dicts of numbers, as arrays: a history in JSON would be most of a file."""
        if "" in columns:
            return {"type": "numbers", "values": self._own(columns[""], where, depth)}
        return {"type": "records", "n": n, "columns": [[k, self._own(v, where, depth)] for k, v in columns.items()]}

    def _mapping(self, value: Any, where: str, depth: int) -> Any:
        if id(value) in self._objects:
            return {"type": "reference", "id": self._objects[id(value)]}
        if type(value) not in (dict, MappingProxyType):
            raise TypeError(f"Cannot save {where}: {type(value).__name__} is not a plain dict; convert it first.")
        number = self._number(value)
        items = [
            [self.encode(k, f"key {k!r} of {where}", depth + 1), self.encode(v, f"{where}[{k!r}]", depth + 1)]
            for k, v in value.items()
        ]
        return {"type": "dict", "id": number, "proxy": type(value) is MappingProxyType, "items": items}

    def _number(self, value: Any) -> int:
        self._alive.append(value)
        return self._objects.setdefault(id(value), len(self._objects))

    def _numpy(self, value: Any, where: str, depth: int) -> Any:
        if isinstance(value, np.dtype):
            if value.kind not in FILED + "O" or value.fields is not None:
                raise TypeError(f"Cannot save {where}: dtype {value} has no safe form.")
            return {"type": "dtype", "value": value.str}
        if isinstance(value, np.generic):
            if value.dtype.name in SCALARS:
                return {"type": "scalar", "dtype": value.dtype.name, "value": self.encode(value.item(), where, depth)}
            return {"type": "scalar", "array": self._own(np.asarray(value), where, depth)}
        if type(value) not in (np.ndarray, np.memmap):
            raise TypeError(f"Cannot save {where}: {type(value).__name__} is not a plain array; convert it first.")
        if value.dtype.kind == "O":
            return self._object_array(value, where, depth)
        if value.dtype.kind not in FILED:
            raise TypeError(f"Cannot save {where}: arrays of dtype {value.dtype} have no safe form.")
        return self._array(value)

    def _array(self, value: np.ndarray) -> dict[str, Any]:
        writeable = bool(value.flags.writeable)
        key = (value.__array_interface__["data"][0], value.shape, value.strides, value.dtype.str, writeable)
        if key not in self._members:
            self._members[key] = f"{len(self.arrays)}.npy"
            self.arrays[self._members[key]] = value
        return {"type": "array", "member": self._members[key], "writeable": writeable}

    def _object_array(self, value: np.ndarray, where: str, depth: int) -> dict[str, Any]:
        items = value.ravel().tolist()
        shape = list(value.shape)
        if any(type(item) not in (str, np.str_) for item in items):
            return {"type": "objects", "shape": shape, "items": self.encode(items, where, depth)}
        texts = [str(item).encode("utf-8", "surrogatepass") for item in items]
        offsets = np.cumsum([0, *map(len, texts)], dtype=np.int64)
        data = np.frombuffer(b"".join(texts), dtype=np.uint8)
        self._alive += [offsets, data]
        return {"type": "strings", "shape": shape, "offsets": self._array(offsets), "data": self._array(data)}

    def _pandas(self, pandas: Any, value: Any, where: str, depth: int) -> dict[str, Any] | None:
        depth += 1
        if type(value) is pandas.DataFrame:
            columns = [self._column(pandas, value.iloc[:, j], where, depth) for j in range(value.shape[1])]
            names, index = (self.encode(axis, where, depth) for axis in (value.columns, value.index))
            return {"type": "frame", "names": names, "index": index, "columns": columns}
        if type(value) is pandas.Series:
            node = {"type": "series", "index": self.encode(value.index, where, depth)}
            name = self.encode(value.name, where, depth)
            return node | {"name": name, "values": self._column(pandas, value, where, depth)}
        if type(value) is pandas.RangeIndex:
            node = {"type": "range-index", "range": [value.start, value.stop, value.step]}
            return node | {"name": self.encode(value.name, where, depth)}
        if isinstance(value, pandas.MultiIndex):
            levels = [value.get_level_values(i) for i in range(value.nlevels)]
            columns = [self._column(pandas, level, where, depth) for level in levels]
            return {"type": "multi-index", "names": self.encode(list(value.names), where, depth), "levels": columns}
        if isinstance(value, pandas.Index):
            name = self.encode(value.name, where, depth)
            return {"type": "index", "name": name, "values": self._column(pandas, value, where, depth)}
        if value is pandas.NA or value is pandas.NaT:
            return {"type": "missing", "value": "NA" if value is pandas.NA else "NaT"}
        if isinstance(value, pandas.offsets.BaseOffset | tzinfo):
            kind = "time zone" if isinstance(value, tzinfo) else "frequency"
            raise TypeError(
                f"Cannot save {where}: text and numbers do not tell all of the {kind} {value!r}. Fit to times with a "
                f"{kind} of pandas' own, for example by {_OTHERWISE[kind]}, or to a PeriodIndex."
            )
        return None

    def _column(self, pandas: Any, values: Any, where: str, depth: int) -> dict[str, Any]:
        if isinstance(values.dtype, pandas.CategoricalDtype):
            categories = self.encode(values.dtype.categories, where, depth)
            codes = self._own(np.asarray(values.array.codes), where, depth)
            ordered = bool(values.dtype.ordered)
            return {"kind": "categorical", "codes": codes, "categories": categories, "ordered": ordered}
        if isinstance(values.dtype, np.dtype):
            return {"kind": "numpy", "values": self._own(values.to_numpy(), where, depth)}
        if str(values.dtype) not in EXTENSION:
            raise TypeError(f"Cannot save {where}: pandas columns of dtype {values.dtype} have no safe form.")
        items = self._own(values.to_numpy(dtype=object, na_value=None), where, depth)
        return {"kind": "extension", "dtype": str(values.dtype), "values": items}

    def _own(self, array: np.ndarray, where: str, depth: int) -> Any:
        self._alive.append(array)
        return self._numpy(array, where, depth)

    def _object(self, value: Any, where: str, depth: int) -> dict[str, Any]:
        if id(value) in self._objects:
            return {"type": "reference", "id": self._objects[id(value)]}
        cls = type(value)
        key = class_key(self.registry, cls)
        if key is None:
            raise TypeError(
                f"Cannot save {where}: objects of {cls.__module__}.{cls.__qualname__} have no safe form. "
                "Files hold numbers, strings, containers, arrays, pandas tables and the classes of sksvi."
            )
        try:
            check(value, getattr(cls, "PARAMETER_LAYOUT", ""))
        except Malformed as error:
            raise TypeError(f"Cannot save {where}: {error}.") from error
        number = self._number(value)
        state = saved_state(value)
        nodes = [[name, self.encode(state[name], f"{where}.{name}", depth + 1)] for name in state]
        node: dict[str, Any] = {"type": "object", "class": key, "id": number, "state": nodes}
        requests = metadata_requests(value)
        return node | {"requests": self.encode(requests, where, depth + 1)} if requests else node


def metadata_requests(estimator: Any) -> dict[str, dict[str, Any]]:
    """Return what ``set_fit_request`` and its siblings were asked for, method to ``{parameter: request}``."""
    request = getattr(estimator, "__dict__", {}).get("_metadata_request")
    if request is None:
        return {}
    methods = [name for name in vars(request) if hasattr(estimator, f"set_{name}_request")]
    return {name: dict(getattr(request, name).requests) for name in methods if getattr(request, name).requests}
