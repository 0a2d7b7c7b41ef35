"""Fitted objects as a tree of JSON nodes and plain arrays, the inner half of :mod:`sksvi.persistence`.

Only data goes in and comes out: numbers, strings, containers, arrays, pandas tables, and instances of the classes in a
closed table, rebuilt attribute by attribute without running a constructor. What the table does not name can neither be
written nor read.
"""

from __future__ import annotations

import functools
import importlib
import itertools
import math
import sys
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

# Callbacks and their contexts belong to the session that set them; metadata requests have a node of their own.
_NEVER_SAVED = frozenset(
    {"_skl_callbacks", "_callback_fit_ctx", "_parent_callback_ctx", "_skl_callbacks_to_teardown", "_metadata_request"}
)
_SCALARS = frozenset(np.dtype(code).name for code in "?bhilqBHILQefd")
_EXTENSION = frozenset(
    {"Int8", "Int16", "Int32", "Int64", "UInt8", "UInt16", "UInt32", "UInt64"}
    | {"Float32", "Float64", "boolean", "string", "str"}
)
_MAX_DEPTH = 100


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
    skip = _NEVER_SAVED | set(getattr(obj, "_not_saved", ()))
    state = {name: getattr(obj, name) for name in sorted(slot_names(cls)) if hasattr(obj, name)}
    state.update(getattr(obj, "__dict__", {}))
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
        if depth > _MAX_DEPTH:
            raise ValueError(f"Cannot save {where}: nested deeper than {_MAX_DEPTH} levels.")
        if value is None or type(value) in (bool, int, str):
            return value
        if type(value) is float:
            return value if math.isfinite(value) else {"type": "float", "value": repr(value)}
        if type(value) is list:
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
            return {"type": "random-state", "keys": self._own(keys, where, depth), "state": parts}
        pandas = sys.modules.get("pandas")
        if pandas is not None:
            node = self._pandas(pandas, value, where, depth)
            if node is not None:
                return node
        return self._object(value, where, depth)

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
            if value.kind not in "biufcUSMmO" or value.fields is not None:
                raise TypeError(f"Cannot save {where}: dtype {value} has no safe form.")
            return {"type": "dtype", "value": value.str}
        if isinstance(value, np.generic):
            if value.dtype.name in _SCALARS:
                return {"type": "scalar", "dtype": value.dtype.name, "value": self.encode(value.item(), where, depth)}
            return {"type": "scalar", "array": self._own(np.asarray(value), where, depth)}
        if type(value) not in (np.ndarray, np.memmap):
            raise TypeError(f"Cannot save {where}: {type(value).__name__} is not a plain array; convert it first.")
        if value.dtype.kind == "O":
            return self._object_array(value, where, depth)
        if value.dtype.kind not in "biufcUSMm":
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
        return None

    def _column(self, pandas: Any, values: Any, where: str, depth: int) -> dict[str, Any]:
        if isinstance(values.dtype, pandas.CategoricalDtype):
            categories = self.encode(values.dtype.categories, where, depth)
            codes = self._own(np.asarray(values.array.codes), where, depth)
            ordered = bool(values.dtype.ordered)
            return {"kind": "categorical", "codes": codes, "categories": categories, "ordered": ordered}
        if isinstance(values.dtype, np.dtype):
            return {"kind": "numpy", "values": self._own(values.to_numpy(), where, depth)}
        if str(values.dtype) not in _EXTENSION:
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


class Decoder:
    """Turns JSON nodes back into values; ValueError, KeyError or TypeError for anything that an encoder does not write.

    Parameters
    ----------
    registry : mapping of str to str
        Closed table, key to ``"module:Class"``; nothing else is ever imported.

    read : callable
        Member name to its verified array.

    budget : int
        Bytes that copies of members (strings, pandas columns) may take in all, so that one member referred to a million
        times is refused.
    """

    def __init__(self, registry: Mapping[str, str], read: Callable[[str], np.ndarray], budget: int) -> None:
        self.registry = registry
        self._read = read
        self._budget = budget
        self._arrays: dict[str, np.ndarray] = {}
        self._objects: dict[int, Any] = {}
        self._handlers = {
            "float": lambda node: float({"nan": "nan", "inf": "inf", "-inf": "-inf"}[node["value"]]),
            "tuple": lambda node: tuple(self._list(node["items"])),
            "set": lambda node: (frozenset if node["frozen"] else set)(self._list(node["items"])),
            "dict": self._mapping,
            "dtype": lambda node: _checked_dtype(np.dtype(str(node["value"])), "biufcUSMmO"),
            "scalar": self._scalar,
            "array": self._array,
            "objects": self._object_array,
            "strings": self._strings,
            "random-state": self._random_state,
            "object": self._object,
            "reference": lambda node: self._objects[node["id"]],
            **{name: self._pandas for name in ("frame", "series", "range-index", "multi-index", "index", "missing")},
        }

    def decode(self, node: Any) -> Any:
        """Return the value of a node."""
        if isinstance(node, list):
            return self._list(node)
        if not isinstance(node, dict):
            return node
        return self._handlers[node["type"]](node)

    def _list(self, items: Any) -> list:
        if not isinstance(items, list):
            raise TypeError("a list was expected")
        return [self.decode(item) for item in items]

    def _mapping(self, node: dict) -> Any:
        value: dict = {}
        self._register(node["id"], MappingProxyType(value) if node["proxy"] else value)
        for key, child in node["items"]:
            value[self.decode(key)] = self.decode(child)
        return self._objects[node["id"]]

    def _register(self, number: Any, value: Any) -> None:
        if type(number) is not int or number in self._objects:
            raise ValueError("malformed object number")
        self._objects[number] = value

    def _scalar(self, node: dict) -> Any:
        if "array" in node:
            return self._array(node["array"])[()]
        if node["dtype"] not in _SCALARS:
            raise ValueError(f"unknown scalar type {node['dtype']!r}")
        return np.dtype(node["dtype"]).type(self.decode(node["value"]))

    def _array(self, node: dict) -> np.ndarray:
        name = node["member"]
        if name not in self._arrays:
            array = self._arrays[name] = self._read(name)
            array.flags.writeable = bool(node["writeable"])
        return self._arrays[name]

    def _spend(self, n_bytes: int) -> None:
        self._budget -= n_bytes
        if self._budget < 0:
            raise ValueError("its contents would take far more memory than the file is long")

    def _object_array(self, node: dict) -> np.ndarray:
        return _filled(self._list(node["items"]), node["shape"])

    def _strings(self, node: dict) -> np.ndarray:
        offsets, data = self._array(node["offsets"]), self._array(node["data"])
        if offsets.dtype != np.int64 or data.dtype != np.uint8 or offsets.ndim != 1 or data.ndim != 1:
            raise ValueError("malformed strings")
        if offsets.size == 0 or offsets[0] != 0 or offsets[-1] != data.size or (np.diff(offsets) < 0).any():
            raise ValueError("malformed string offsets")
        self._spend(72 * offsets.size + 4 * data.size)
        raw, ends = data.tobytes(), offsets.tolist()
        texts = [raw[a:b].decode("utf-8", "surrogatepass") for a, b in itertools.pairwise(ends)]
        return _filled(texts, node["shape"])

    def _random_state(self, node: dict) -> np.random.RandomState:
        keys = self._array(node["keys"])
        position, has_gauss, cached = self._list(node["state"])
        # An unchecked position would make NumPy read outside the key.
        if keys.shape != (624,) or keys.dtype != np.uint32 or type(position) is not int or not 0 <= position <= 624:
            raise ValueError("malformed random state")
        state = np.random.RandomState()
        state.set_state(("MT19937", keys, position, int(bool(has_gauss)), float(cached)))
        return state

    def _object(self, node: dict) -> Any:
        key = node["class"]
        if key not in self.registry:
            raise ValueError(f"unknown class key {key!r}; it may come from a newer sksvi or not from sksvi at all")
        cls = resolve_class(self.registry[key])
        value = cls.__new__(cls)
        self._register(node["id"], value)
        slots = slot_names(cls)
        for name, child in node["state"]:
            if not (isinstance(name, str) and name.isidentifier()) or name.startswith("__") or name in _NEVER_SAVED:
                raise ValueError(f"attribute name {name!r} of {key} is not allowed")
            if name in slots:
                object.__setattr__(value, name, self.decode(child))
            else:
                value.__dict__[name] = self.decode(child)
        if "requests" in node:
            self._set_requests(value, self.decode(node["requests"]))
        return value

    @staticmethod
    def _set_requests(estimator: Any, requests: dict[str, dict[str, Any]]) -> None:
        from sklearn import config_context

        with config_context(enable_metadata_routing=True):
            for method, asked in requests.items():
                getattr(estimator, f"set_{method}_request")(**asked)

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
            return pd.RangeIndex(*map(int, node["range"]), name=name)
        values = self._column(node["values"])
        return values.rename(name) if kind == "index" else pd.Series(values, self.decode(node["index"]), name=name)

    def _column(self, node: dict) -> Any:
        """Return one column as an Index, which unlike an array keeps its dtype in every pandas constructor."""
        import pandas as pd

        values = self.decode(node["codes" if node["kind"] == "categorical" else "values"])
        if not isinstance(values, np.ndarray):
            raise TypeError("a column must be an array")
        self._spend(values.nbytes)
        if node["kind"] == "categorical":
            categories = self.decode(node["categories"])
            return pd.Index(pd.Categorical.from_codes(values, categories=categories, ordered=bool(node["ordered"])))
        if node["kind"] == "numpy":
            return pd.Index(values, dtype=values.dtype)
        if node["kind"] != "extension" or node["dtype"] not in _EXTENSION:
            raise ValueError("unknown kind of column")
        # pandas below 3 has no "str" type of its own and keeps such columns as objects.
        old = node["dtype"] == "str" and int(pd.__version__.split(".")[0]) < 3
        return pd.Index(values, dtype=object if old else node["dtype"])


def _filled(items: list, shape: Any) -> np.ndarray:
    if not isinstance(shape, list) or any(type(n) is not int or n < 0 for n in shape) or math.prod(shape) != len(items):
        raise ValueError("malformed shape")
    array = np.empty(len(items), dtype=object)
    for i, item in enumerate(items):  # one by one: a slice would unpack tuples
        array[i] = item
    return array.reshape(shape)


def _checked_dtype(dtype: np.dtype, kinds: str) -> np.dtype:
    if dtype.kind not in kinds or dtype.fields is not None or dtype.subdtype is not None:
        raise ValueError(f"dtype {dtype} is not allowed")
    return dtype
