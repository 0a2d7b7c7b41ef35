"""A small run of ``python -m benchmarks hostile.files``: damaged and crafted files are refused, harmless or of use."""

from __future__ import annotations

import json

import numpy as np
import pytest

from benchmarks.hostile import files
from support import file_mutations, saved_models


def test_hostile_files_are_refused_or_do_no_harm(tmp_path, monkeypatch, global_random_seed):
    # Four small models, and no bombs: those are in the test below.
    monkeypatch.setattr(saved_models, "NAMES", ["glm", "mixed", "factors", "topics"])
    monkeypatch.setattr(files, "BOMBS", 10**9)
    # Seconds and bytes are the benchmark's: other tests run beside this one.
    monkeypatch.setattr(files, "FREE_SECONDS", np.inf)
    monkeypatch.setattr(files, "FREE_BYTES", np.inf)
    rows = files.attacked(100, global_random_seed, None, tmp_path)
    assert files.short(rows) == []
    table = {row["files"]: row for row in files.summary(rows)}
    assert table["all"]["number"] == 100 and table["all"]["refused"] > 60


@pytest.mark.costly
@pytest.mark.parametrize("seed", range(8))
def test_files_that_would_be_large_are_not(seed, tmp_path):
    path = tmp_path / "model"
    saved_models.fit_model("glm").save(path)
    _, data = file_mutations.decompression_bomb(file_mutations.read_members(path), np.random.default_rng(seed), 4.3)
    path.write_bytes(data)
    assert files.traced(str(path)) < files.FREE_BYTES + 8 * len(data)


@pytest.mark.parametrize("times", [100, 560])
def test_a_table_of_one_column_again_and_again_is_not_large(times, tmp_path):
    path, n = tmp_path / "model", 10_000
    saved_models.fit_model("glm").save(path)
    parts = {**file_mutations.read_members(path), "900.npy": file_mutations.npy_bytes(np.zeros(n))}
    tree = json.loads(parts[file_mutations.MANIFEST])
    column = {"kind": "numpy", "values": {"type": "array", "member": "900.npy", "writeable": True}}
    axes = [{"type": "range-index", "range": [0, size, 1], "name": None} for size in (times, n)]
    node = {"type": "frame", "names": axes[0], "index": axes[1], "columns": [column] * times}
    tree["estimator"]["state"].append(["bomb", node])
    data = file_mutations.archive_bytes({**parts, file_mutations.MANIFEST: json.dumps(tree).encode()})
    path.write_bytes(data)
    assert files.traced(str(path)) < files.FREE_BYTES + 8 * len(data)


def test_what_is_mishandled_is_told():
    fine = {"kind": "flips", "outcome": "refused", "long": False, "large": False}
    bad = [
        {**fine, "outcome": "same kind"},
        {**fine, "outcome": "crash"},
        {**fine, "kind": "arrays", "outcome": "no use"},
        {**fine, "long": True},
        {**fine, "large": True},
    ]
    allowed = [fine, {**fine, "kind": "manifest", "outcome": "no use"}, {**fine, "outcome": "same model"}]
    assert files.short([*allowed, *bad]) == bad
