"""Small files that would take long or much, and paths that are no files: each is refused at once, by its kind."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import time
from dataclasses import replace

import numpy as np
import pytest

import sksvi
from sksvi.persistence import container
from support import file_mutations, saved_models

#: CPU seconds that a refusal of a file of a few kB may take, with room for a loaded machine.
SECONDS = 3.0


def refused(path, parts, tree, match):
    path.write_bytes(file_mutations.archive_bytes({**parts, file_mutations.MANIFEST: json.dumps(tree).encode()}))
    started = time.process_time()
    with pytest.raises(ValueError, match=match):
        sksvi.load(path)
    assert time.process_time() - started < SECONDS


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "model"
    saved_models.fit_model("glm").save(path)
    parts = file_mutations.read_members(path)
    return path, parts, json.loads(parts[file_mutations.MANIFEST])


def array(number):
    return {"type": "array", "member": f"{number}.npy", "writeable": True}


@pytest.mark.parametrize("depth", [12, 22, 40])
def test_a_kernel_that_refers_to_itself(saved, depth):
    path, parts, tree = saved
    node = {"type": "object", "class": "kernel.RBF", "id": 10**6, "state": [["length_scale", 1.0]]}
    for number in range(10**6, 10**6 + depth):
        both = [["k1", node], ["k2", {"type": "reference", "id": number}]]
        node = {"type": "object", "class": "kernel.Sum", "id": number + 1, "state": both}
    tree["estimator"]["state"].append(["kernel", node])
    refused(path, parts, tree, "a kernel has more than|far more memory")


@pytest.mark.parametrize("depth", [22, 40])
def test_dicts_that_refer_to_themselves(saved, depth):
    path, parts, tree = saved
    node = {"type": "dict", "id": 10**6, "proxy": False, "items": []}
    for number in range(10**6, 10**6 + depth):
        items = [["a", node], ["b", {"type": "reference", "id": number}]]
        node = {"type": "dict", "id": number + 1, "proxy": False, "items": items}
    tree["estimator"]["state"].append(["extra_", node])
    refused(path, parts, tree, "far more memory")


def test_a_range_of_categories(saved):
    path, parts, tree = saved
    names = {"type": "range-index", "range": [0, 2 * 10**8, 1], "name": None}
    values = {"kind": "categorical", "codes": array(900), "categories": names, "ordered": False}
    tree["estimator"]["state"].append(["extra_", {"type": "index", "name": None, "values": values}])
    refused(path, {**parts, "900.npy": file_mutations.npy_bytes(np.zeros(0, np.int8))}, tree, "far more memory")


def of_one_hash(n):
    """Pairs whose hashes agree: the second undoes what the first did to CPython's hash of a tuple."""
    first, second, start, size = 11400714785074694791, 14029467366897019727, 2870177450012600261, 2**64
    inverse, pairs, a = pow(second, -1, size), [], 0
    while len(pairs) < n:
        a += 1
        mixed = (start + a * second) % size
        mixed = ((mixed << 31) | (mixed >> 33)) % size * first % size
        b = (12345 - mixed) * inverse % size
        if 0 < b < 2**60:
            pairs.append((a, b))
    assert len({hash(pair) for pair in pairs}) == 1
    return [{"type": "tuple", "items": list(pair)} for pair in pairs]


@pytest.mark.parametrize("kind", ["dict", "set"])
def test_keys_of_one_hash(saved, kind):
    path, parts, tree = saved
    keys = of_one_hash(500)
    node = {"type": "set", "frozen": False, "items": keys}
    if kind == "dict":
        node = {"type": "dict", "id": 10**6, "proxy": False, "items": [[key, 0] for key in keys]}
    tree["estimator"]["state"].append(["extra_", node])
    refused(path, parts, tree, "many of its keys have one hash")


def test_labels_of_one_hash_of_pandas(tmp_path):
    path, low = tmp_path / "model", np.arange(1, 3 * 5000, dtype=np.uint64)
    high = (np.uint64(0x1234567) ^ low ^ low << np.uint64(11)) & np.uint64(0xFFFFFFFF)
    labels = ((high << np.uint64(33)) | low)[high < 2**30][:3000].astype(np.int64)
    x = np.random.default_rng(0).standard_normal(40)
    model = sksvi.GMERegressor(groups=1).fit(np.column_stack([x, np.arange(40) % 4]), x + np.cos(7.0 * x))
    (factor,) = model._encoding.factors
    model._encoding = replace(model._encoding, factors=(replace(factor, names=labels),))
    model.save(path)
    with pytest.raises(ValueError, match="one hash"):
        sksvi.load(path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names here")
def test_a_pipe_in_the_folder_holds_up_nobody(tmp_path):
    model, path = sksvi.BayesianGLMRegressor(), tmp_path / "model"
    name = hashlib.sha256(b"model").hexdigest()[:16]
    os.mkfifo(tmp_path / f".sksvi-{name}-000000000000.tmp")
    model.save(path)
    assert sksvi.load(path).get_params() == model.get_params()
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match="no regular file"):
        sksvi.load(tmp_path / "pipe")
    with pytest.raises(IsADirectoryError, match="this is a folder"):
        sksvi.load(tmp_path)


def test_paths_of_any_type(tmp_path):
    model, path = sksvi.BayesianGLMRegressor(tol=0.25), tmp_path / "model"
    model.save(os.fsencode(path))
    assert sksvi.load(os.fsencode(path)).tol == 0.25
    for call in (model.save, sksvi.load):
        with pytest.raises(TypeError, match=r"path must be a str or path-like.*found 3"):
            call(3)


def test_a_full_disk_names_the_path_and_what_to_do(tmp_path, monkeypatch):
    def full(file, *_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    path = tmp_path / "model"
    path.write_bytes(b"old")
    monkeypatch.setattr(container.os, "fsync", full)
    with pytest.raises(OSError, match=r"no room is left.*make room there.*model"):
        sksvi.BayesianGLMRegressor().save(path)
    assert path.read_bytes() == b"old" and os.listdir(tmp_path) == ["model"]
