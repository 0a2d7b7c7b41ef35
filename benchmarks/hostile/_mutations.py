"""Files that are damaged, or crafted: the bytes of a saved model changed, checksums as a hostile writer's would be."""

from __future__ import annotations

import copy
import hashlib
import io
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._lib import Array

MANIFEST = "manifest.json"


def members(path: Path) -> dict[str, bytes]:
    """The members of a file."""
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def written(parts: dict[str, bytes]) -> bytes:
    """A file of these members, with right checksums."""
    tree = json.loads(parts[MANIFEST])
    tree["sha256"] = {name: hashlib.sha256(part).hexdigest() for name, part in parts.items() if name != MANIFEST}
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, part in parts.items():
            archive.writestr(name, json.dumps(tree) if name == MANIFEST else part)
    return file.getvalue()


def npy(array: Array) -> bytes:
    file = io.BytesIO()
    np.lib.format.write_array(file, array, allow_pickle=False)
    return file.getvalue()


def array_of(part: bytes) -> Array:
    return np.lib.format.read_array(io.BytesIO(part), allow_pickle=False)


def changed(array: Array) -> Iterator[tuple[str, Array]]:
    """An array resized, of another type, or with numbers that it cannot have."""
    if array.ndim and array.size:
        yield "rows doubled", np.concatenate([array, array])
        yield "rows times 50", np.concatenate([array] * 50)
        yield "a row dropped", array[:-1]
        yield "no rows", array[:0]
    if array.ndim:
        yield "another axis", array[None]
    if array.ndim > 1 and array.size:
        yield "columns doubled", np.concatenate([array, array], -1)
        yield "a column dropped", array[..., :-1]
        yield "flat", array.ravel()
    yield "text", np.full(array.shape, "x")
    yield "truth values", np.zeros(array.shape, bool)
    if array.dtype.kind == "f":
        yield "float32", array.astype(np.float32)
        yield "float16", np.zeros(array.shape, np.float16)
        yield "integers", array.astype(np.int64)
        yield "complex", array.astype(complex)
        yield "zeros", 0.0 * array
        yield "negative", -np.abs(array) - 1.0
        for name, value in (("NaN", np.nan), ("infinite", np.inf)):
            if array.size:
                bad = array.copy()
                bad.flat[-1] = value
                yield name, bad
    if array.dtype.kind == "i":
        yield "floats", array.astype(float)
        yield "beyond", array + 10**6
        yield "before", array - 10**6
        yield "far", np.full_like(array, np.iinfo(array.dtype).max)


def resized(parts: dict[str, bytes], rng: np.random.Generator) -> tuple[str, bytes]:
    """One array changed."""
    name = str(rng.choice([name for name in parts if name != MANIFEST]))
    choices = list(changed(array_of(parts[name])))
    what, array = choices[int(rng.integers(len(choices)))]
    return what, written({**parts, name: npy(array)})


def _nodes(tree: Any) -> Iterator[tuple[Any, Any]]:
    """Every place in a tree, as container and key."""
    for key in range(len(tree)) if isinstance(tree, list) else list(tree):
        yield tree, key
        if isinstance(tree[key], (list, dict)):
            yield from _nodes(tree[key])


STRANGE: tuple[Any, ...] = (None, True, -1, 0, 2**63, 1e308, "", "x" * 1000, "\x1b[31m", [], {}, [[]], [0] * 100)


def rewritten(parts: dict[str, bytes], rng: np.random.Generator) -> tuple[str, bytes]:
    """The manifest changed in one to three places: values, attribute names, classes, nodes swapped or dropped."""
    tree = json.loads(parts[MANIFEST])
    for _ in range(int(rng.integers(1, 4))):
        places = list(_nodes(tree["estimator"]))
        if not places:
            break
        where, key = places[int(rng.integers(len(places)))]
        other, its = places[int(rng.integers(len(places)))]
        kind = int(rng.integers(4))
        if kind == 0:
            where[key] = copy.deepcopy(STRANGE[int(rng.integers(len(STRANGE)))])
        elif kind == 1:
            where[key] = copy.deepcopy(other[its])
        elif kind == 2:
            del where[key]
        elif isinstance(where[key], bool) or not isinstance(where[key], (int, float)):
            where[key] = [copy.deepcopy(where[key])] * 2
        else:
            where[key] = where[key] * int(rng.integers(-3, 1000))
    return "manifest", written({**parts, MANIFEST: json.dumps(tree).encode()})


def bomb(parts: dict[str, bytes], rng: np.random.Generator, largest: float = 5.7) -> tuple[str, bytes]:
    """A small file that would be large: many nodes, or one member again and again; of up to 10**largest nodes."""
    n = int(10 ** rng.uniform(3, largest))
    big = np.zeros(n, np.uint8)
    offsets = np.arange(n + 1, dtype=np.int64)
    extra = {"900.npy": npy(big), "901.npy": npy(offsets), "902.npy": npy(np.zeros(n)), "903.npy": npy(offsets[:1])}

    def member(number: int) -> dict[str, Any]:
        return {"type": "array", "member": f"{number}.npy", "writeable": True}

    strings = {"type": "strings", "shape": [n], "offsets": member(901), "data": member(900)}
    column = {"kind": "numpy", "values": member(902)}
    table = {"type": "index", "name": None, "values": column}
    sparse = {"type": "csr", "parts": [member(902), member(901), member(901)], "shape": [n, n + 1]}
    deep: Any = 0
    for _ in range(min(n, 900)):
        deep = [deep]
    again = min(n, 20_000)
    nodes: list[tuple[str, Any]] = [
        ("lists", [[]] * n),
        ("objects", [{"type": "tuple", "items": []}] * n),
        ("dicts", {"type": "dict", "id": 10**6, "proxy": False, "items": [[k * (2**61 - 1), 0] for k in range(n)]}),
        ("sets", {"type": "set", "frozen": True, "items": list(range(n))}),
        ("strings", [strings] * again),
        ("columns", {"type": "frame", "names": table, "index": table, "columns": [column] * again}),
        ("indices", [table] * again),
        ("matrices", [sparse] * again),
        ("states", [{"type": "random-state", "keys": member(902), "state": [0, 0, 0.0]}] * again),
        ("ranges", {"type": "range-index", "range": [0, 10**15, 1], "name": None}),
        ("records", {"type": "records", "n": n, "columns": [[f"a{k}", member(902)] for k in range(min(n, 200))]}),
        ("deep", deep),
        ("texts", ["x" * n] * 8),
        ("numbers", list(range(n))),
    ]
    what, node = nodes[int(rng.integers(len(nodes)))]
    tree = json.loads(parts[MANIFEST])
    tree["estimator"]["state"].append(["bomb", node])
    return what, written({**parts, **extra, MANIFEST: json.dumps(tree).encode()})


def flipped(data: bytes, rng: np.random.Generator) -> tuple[str, bytes]:
    """One to four bytes changed."""
    out = bytearray(data)
    for at in rng.integers(len(out), size=int(rng.integers(1, 5))):
        out[at] = int(rng.integers(256))
    return "flips", bytes(out)


def cut(data: bytes, rng: np.random.Generator) -> tuple[str, bytes]:
    """The end, the beginning or the middle missing."""
    a, b = sorted(rng.integers(len(data), size=2))
    return "cut", [data[:b], data[a:], data[:a] + data[b:]][int(rng.integers(3))]


def inserted(data: bytes, rng: np.random.Generator) -> tuple[str, bytes]:
    """Bytes more, or a piece of the file twice."""
    at, (a, b) = int(rng.integers(len(data) + 1)), sorted(rng.integers(len(data), size=2))
    piece = rng.bytes(int(rng.integers(1, 64))) if rng.random() < 0.5 else data[a:b]
    return "insertion", data[:at] + piece + data[at:]
