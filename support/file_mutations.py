"""Damaged and crafted files of saved models: bytes changed, or contents changed behind valid checksums."""

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

Array = np.ndarray

#: Name of the member that describes the others.
MANIFEST = "manifest.json"


def read_members(path: Path) -> dict[str, bytes]:
    """Contents of the members of a file, by name."""
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def archive_bytes(parts: dict[str, bytes]) -> bytes:
    """Contents of a file of these members, with valid checksums.

    Parameters
    ----------
    parts : dict of str to bytes
        Members by name, the manifest among them; its checksums are computed anew.

    Returns
    -------
    content : bytes
        The file.
    """
    tree = json.loads(parts[MANIFEST])
    tree["sha256"] = {name: hashlib.sha256(part).hexdigest() for name, part in parts.items() if name != MANIFEST}
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, part in parts.items():
            archive.writestr(name, json.dumps(tree) if name == MANIFEST else part)
    return file.getvalue()


def npy_bytes(array: Array) -> bytes:
    """Member that holds an array."""
    file = io.BytesIO()
    np.lib.format.write_array(file, array, allow_pickle=False)
    return file.getvalue()


def read_array(part: bytes) -> Array:
    """Array that a member holds."""
    return np.lib.format.read_array(io.BytesIO(part), allow_pickle=False)


def array_mutations(array: Array) -> Iterator[tuple[str, Array]]:
    """Resize an array, change its type, and fill it with invalid numbers, one at a time.

    Parameters
    ----------
    array : array
        Valid array.

    Yields
    ------
    kind : str
        Name of the change.
    changed : array
        The array with that change.
    """
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


def mutate_array(parts: dict[str, bytes], rng: np.random.Generator) -> tuple[str, bytes]:
    """Change one array of a file at random: name of the change, and the file."""
    name = str(rng.choice([name for name in parts if name != MANIFEST]))
    choices = list(array_mutations(read_array(parts[name])))
    what, array = choices[int(rng.integers(len(choices)))]
    return what, archive_bytes({**parts, name: npy_bytes(array)})


def _nodes(tree: Any) -> Iterator[tuple[Any, Any]]:
    """Container and key of every node of a tree."""
    for key in range(len(tree)) if isinstance(tree, list) else list(tree):
        yield tree, key
        if isinstance(tree[key], (list, dict)):
            yield from _nodes(tree[key])


#: Values that replace those of a manifest.
STRANGE_VALUES: tuple[Any, ...] = (None, True, -1, 0, 2**63, 1e308, "", "x" * 1000, "\x1b[31m", [], {}, [[]], [0] * 100)


def mutate_manifest(parts: dict[str, bytes], rng: np.random.Generator) -> tuple[str, bytes]:
    """Change values, names, classes or nodes of a manifest in one to three places: "manifest", and the file."""
    tree = json.loads(parts[MANIFEST])
    for _ in range(int(rng.integers(1, 4))):
        places = list(_nodes(tree["estimator"]))
        if not places:
            break
        where, key = places[int(rng.integers(len(places)))]
        other, its = places[int(rng.integers(len(places)))]
        kind = int(rng.integers(4))
        if kind == 0:
            where[key] = copy.deepcopy(STRANGE_VALUES[int(rng.integers(len(STRANGE_VALUES)))])
        elif kind == 1:
            where[key] = copy.deepcopy(other[its])
        elif kind == 2:
            del where[key]
        elif isinstance(where[key], bool) or not isinstance(where[key], (int, float)):
            where[key] = [copy.deepcopy(where[key])] * 2
        else:
            where[key] = where[key] * int(rng.integers(-3, 1000))
    return "manifest", archive_bytes({**parts, MANIFEST: json.dumps(tree).encode()})


def _large_nodes(n: int) -> list[tuple[str, Any]]:
    """Nodes of a manifest that n nodes, or references to members 900 to 902, make large; with names."""

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
    return [
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


def decompression_bomb(parts: dict[str, bytes], rng: np.random.Generator, log10_size: float = 5.7) -> tuple[str, bytes]:
    """Make a small file that would need much memory or time: many nodes, or one member referred to many times.

    Parameters
    ----------
    parts : dict of str to bytes
        Members of a valid file.
    rng : Generator
        Draws the kind and the number of nodes.
    log10_size : float, default=5.7
        There are up to ``10**log10_size`` nodes.

    Returns
    -------
    kind : str
        Name of what is repeated.
    content : bytes
        The file.
    """
    n = int(10 ** rng.uniform(3, log10_size))
    big = np.zeros(n, np.uint8)
    offsets = np.arange(n + 1, dtype=np.int64)
    extra = {
        "900.npy": npy_bytes(big),
        "901.npy": npy_bytes(offsets),
        "902.npy": npy_bytes(np.zeros(n)),
        "903.npy": npy_bytes(offsets[:1]),
    }
    nodes = _large_nodes(n)
    what, node = nodes[int(rng.integers(len(nodes)))]
    tree = json.loads(parts[MANIFEST])
    tree["estimator"]["state"].append(["bomb", node])
    return what, archive_bytes({**parts, **extra, MANIFEST: json.dumps(tree).encode()})


def replace_bytes(data: bytes, rng: np.random.Generator) -> tuple[str, bytes]:
    """Replace one to four bytes of a file."""
    out = bytearray(data)
    for at in rng.integers(len(out), size=int(rng.integers(1, 5))):
        out[at] = int(rng.integers(256))
    return "flips", bytes(out)


def remove_bytes(data: bytes, rng: np.random.Generator) -> tuple[str, bytes]:
    """Remove the end, the beginning or the middle of a file."""
    a, b = sorted(rng.integers(len(data), size=2))
    return "cut", [data[:b], data[a:], data[:a] + data[b:]][int(rng.integers(3))]


def insert_bytes(data: bytes, rng: np.random.Generator) -> tuple[str, bytes]:
    """Insert random bytes, or a piece of the file, somewhere in it."""
    at, (a, b) = int(rng.integers(len(data) + 1)), sorted(rng.integers(len(data), size=2))
    piece = rng.bytes(int(rng.integers(1, 64))) if rng.random() < 0.5 else data[a:b]
    return "insertion", data[:at] + piece + data[at:]
