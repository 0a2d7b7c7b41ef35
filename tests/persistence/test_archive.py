"""Files: everything comes back as it was, and a hostile file ends in a ValueError, never in code or memory."""

from __future__ import annotations

import functools
import io
import json
import os
import struct
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from numpy.testing import assert_array_equal
from sklearn.base import BaseEstimator

import sksvi
from sksvi import persistence
from sksvi.persistence import REGISTRY, VersionWarning, load, save
from sksvi.persistence.container import MANIFEST, Budget
from sksvi.persistence.reader import Decoder
from sksvi.persistence.writer import Encoder, class_key, resolve_class


@dataclass(frozen=True, slots=True)
class Block:
    mean: np.ndarray
    name: str = "weights"


@dataclass
class Store:
    blocks: dict = field(default_factory=dict)
    scratch: object = None
    _not_saved = ("scratch",)

    @functools.cached_property
    def size(self):
        return len(self.blocks)


class Model(BaseEstimator):
    __metadata_request__fit = {"offset": None}

    def __init__(self, *, value=None, other=None):
        self.value = value
        self.other = other

    def fit(self, X, y=None, sample_weight=None):
        return self


class Unlisted(Model):
    pass


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    for cls in (Block, Store, Model):
        monkeypatch.setitem(REGISTRY, f"test-{cls.__name__}", f"{__name__}:{cls.__name__}")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.sksvi"


def round_trip(value, path):
    save(Model(value=value), path)
    return load(path).value


def same(a, b):
    """Equality that also compares types, dtypes and missing values."""
    assert type(a) is type(b)
    if isinstance(a, np.ndarray):
        assert a.dtype == b.dtype and a.flags.writeable == b.flags.writeable
        if a.dtype != object:
            assert_array_equal(a, b)
        assert a.shape == b.shape and a.flags.f_contiguous == b.flags.f_contiguous
        if a.dtype == object:
            for x, y in zip(a.ravel(), b.ravel(), strict=True):
                same(x, y)
    elif isinstance(a, (list, tuple)):
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            same(x, y)
    elif isinstance(a, (dict, MappingProxyType)):
        assert list(a) == list(b)
        for key in a:
            same(a[key], b[key])
    elif isinstance(a, (float, np.floating)):
        assert a == b or (a != a and b != b)
    elif a is pd.NA or a is pd.NaT:
        assert a is b
    else:
        assert a == b


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        -3,
        2**200,
        0.1,
        float("nan"),
        float("-inf"),
        -0.0,
        "naïve \ud800 ∑",
        [1, [2.5, None]],
        (1, ("a", ())),
        {"a": 1, 2: "b", (3, "c"): [4]},
        MappingProxyType({"weights": 1.5}),
        {1, 2},
        frozenset({"x"}),
        np.float32(0.1),
        np.float64("nan"),
        np.int8(-3),
        np.bool_(True),
        np.str_("text"),
        np.complex128(1 + 2j),
        np.datetime64("2020-01-02"),
        np.dtype("float32"),
        pd.NA,
        pd.NaT,
    ],
    ids=lambda v: f"{type(v).__name__}-{v}".encode("ascii", "replace").decode(),
)
def test_plain_values_come_back(value, path):
    same(value, round_trip(value, path))


@pytest.mark.parametrize(
    "array",
    [
        np.arange(6.0).reshape(2, 3),
        np.asfortranarray(np.arange(6.0, dtype=np.float32).reshape(2, 3)),
        np.array(3.5),
        np.empty((0, 4)),
        np.array([True, False]),
        np.array(["no", "yes", "ÿ∑"]),
        np.array([b"a", b"bc"]),
        np.array(["no", "yes", ""], dtype=object),
        np.array([["a", "b"], ["c", "d"]], dtype=object),
        np.array([1, "b", None, 2.5, True, float("nan")], dtype=object),
        np.array([(1, 2), (3, 4), None], dtype=object),
        np.array(["2020-01-01", "NaT"], dtype="M8[D]"),
        np.array([], dtype=object),
        np.array([1 + 2j]),
    ],
    ids=lambda a: f"{a.dtype}-{a.shape}",
)
def test_arrays_come_back(array, path):
    same(array, round_trip(array, path))


def test_read_only_and_strided_arrays_come_back(path):
    array = np.arange(12.0)
    array.flags.writeable = False
    same(array, round_trip(array, path))
    assert_array_equal(round_trip(np.arange(12.0)[::3], path), [0, 3, 6, 9])
    assert_array_equal(round_trip(np.arange(3, dtype=">f8"), path), [0, 1, 2])


@pytest.mark.parametrize(
    "labels",
    [
        ["no", "yes", "no"],
        [3, 1, 2],
        np.array(["no", "yes"]),
        np.array(["no", "yes"], dtype=object),
        pd.Series(["no", "yes", "no"]).to_numpy(),
        pd.Series(["no", "yes"], dtype="category").to_numpy(),
        pd.Series(["no", "yes"], dtype="string").to_numpy(),
    ],
    ids=str,
)
def test_class_labels_come_back(labels, path):
    model = Model()
    model.classes_ = np.unique(labels)
    save(model, path)
    same(model.classes_, load(path).classes_)


def frames():
    yield pd.DataFrame({"pass": [1, 2], "bound": [-3.5, np.nan], "exact": [True, False]})
    yield pd.DataFrame({"a": ["x", "y"], "b": pd.Categorical(["u", None], ["v", "u"], ordered=True)}, index=["r", "s"])
    yield pd.DataFrame({"a": pd.array([1, None], "Int64"), "b": pd.array(["x", None], "string"), 3: [None, (1, 2)]})
    yield pd.DataFrame([[1, 2.0]], columns=pd.MultiIndex.from_tuples([("a", 1), ("b", 2)], names=["k", None]))
    yield pd.DataFrame({"t": pd.to_datetime(["2020-01-01", None])}, index=pd.Index([5, 5], name="id"))
    yield pd.DataFrame([[1, "x"]], columns=["same", "same"])
    yield pd.DataFrame(index=["a", "b"])


@pytest.mark.parametrize("frame", list(frames()), ids=lambda f: str(list(f.columns)))
def test_tables_come_back(frame, path):
    pd.testing.assert_frame_equal(round_trip(frame, path), frame)
    for j in range(frame.shape[1]):
        pd.testing.assert_series_equal(round_trip(frame.iloc[:, j], path), frame.iloc[:, j])
    pd.testing.assert_index_equal(round_trip(frame.index, path), frame.index)


def test_object_strings_stay_objects_in_tables(path):
    series = pd.Series(["a", "b"], dtype=object, index=pd.Index(["r", "s"], dtype=object))
    pd.testing.assert_series_equal(round_trip(series, path), series)


def test_random_state_continues_with_the_same_numbers(path, global_random_seed):
    state = np.random.RandomState(global_random_seed)
    state.normal(size=3)
    loaded = round_trip(state, path)
    assert_array_equal(loaded.normal(size=5), state.normal(size=5))


def test_objects_keep_shared_parts_and_leave_out_what_they_ask(path):
    mean = np.arange(3.0)
    block = Block(mean)
    store = Store({"weights": block}, scratch=lambda: None)
    assert store.size == 1
    model = Model(value=store, other={"again": block, "mean": mean, "self": store, "q": store.blocks})
    save(model, path)
    loaded = load(path)
    assert loaded.value.blocks["weights"] is loaded.other["again"]
    assert loaded.other["mean"] is loaded.other["again"].mean
    assert loaded.other["self"] is loaded.value
    assert loaded.other["q"] is loaded.value.blocks
    assert "size" not in vars(loaded.value) and loaded.value.size == 1
    assert loaded.value.scratch is None
    assert_array_equal(loaded.other["mean"], mean)
    with zipfile.ZipFile(path) as archive:
        assert sorted(archive.namelist()) == ["0.npy", MANIFEST]


def test_an_object_may_refer_to_itself(path):
    model = Model()
    model.value = [model]
    save(model, path)
    loaded = load(path)
    assert loaded.value[0] is loaded


def test_metadata_requests_and_output_settings_are_kept_and_callbacks_are_not(path):
    from sklearn import config_context

    model = Model()
    with config_context(enable_metadata_routing=True):
        model.set_fit_request(sample_weight=True, offset="exposure")
    model._skl_callbacks = [object()]
    model._sklearn_output_config = {"transform": "pandas"}
    save(model, path)
    loaded = load(path)
    with config_context(enable_metadata_routing=True):
        requests = loaded.get_metadata_routing().fit.requests
    assert requests == {"sample_weight": True, "offset": "exposure"}
    assert loaded._sklearn_output_config == {"transform": "pandas"}
    assert not hasattr(loaded, "_skl_callbacks")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (lambda x: x, r"Model\.value.*function"),
        ([1, {"k": object()}], r"Model\.value\[1\]\['k'\].*object"),
        (Unlisted(), "Unlisted"),
        (b"bytes", "bytes"),
        (np.zeros(2, dtype=[("a", "f8")]), "dtype"),
        (np.ma.masked_array([1.0]), "MaskedArray"),
        (pd.Series(pd.date_range("2020", periods=2, tz="UTC")), "datetime64"),
        (np.random.default_rng(0), "Generator"),
    ],
    ids=lambda v: type(v).__name__,
)
def test_what_has_no_safe_form_is_refused_by_name_and_leaves_no_file(value, message, path):
    with pytest.raises(TypeError, match=message):
        save(Model(value=value), path)
    assert os.listdir(path.parent) == []


def test_only_estimators_are_saved(path):
    with pytest.raises(TypeError, match="estimator must be an estimator of sksvi; found dict"):
        save({"a": 1}, path)
    deep = []
    for _ in range(200):
        deep = [deep]
    with pytest.raises(ValueError, match="nested deeper"):
        save(Model(value=deep), path)


def test_a_failed_save_keeps_the_old_file(path, monkeypatch):
    save(Model(value=1), path)
    monkeypatch.setattr(persistence.container.os, "replace", lambda *_: (_ for _ in ()).throw(OSError("disk")))
    with pytest.raises(OSError, match="disk"):
        save(Model(value=2), path)
    assert load(path).value == 1
    assert os.listdir(path.parent) == [path.name]


def test_the_same_estimator_gives_the_same_bytes(path):
    model = Model(value=np.arange(3.0), other={"b", "a"})
    save(model, path)
    first = path.read_bytes()
    save(model, path)
    assert path.read_bytes() == first


def test_another_version_warns(path, monkeypatch):
    save(Model(), path)
    monkeypatch.setattr("sksvi.__version__", "9.9")
    with pytest.warns(VersionWarning, match=r"read by 9\.9"):
        load(path)


# Hostile files -------------------------------------------------------------------------------------------------------


def rewrite(path, *, manifest=None, members=None, compression=zipfile.ZIP_STORED, extra=()):
    """Write the file again with changed parts; checksums follow the members, as a hostile writer's would."""
    import hashlib

    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    tree = json.loads(parts.pop(MANIFEST))
    parts.update(members or {})
    tree["sha256"] = {name: hashlib.sha256(data).hexdigest() for name, data in parts.items()}
    if manifest is not None:
        manifest(tree)
    with zipfile.ZipFile(path, "w", compression) as archive:
        archive.writestr(MANIFEST, json.dumps(tree))
        for name, data in [*parts.items(), *extra]:
            archive.writestr(name, data)


def npy(header: str, data: bytes = b"") -> bytes:
    text = header.encode("latin1") + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + data


def header(descr="'<f8'", shape="(3,)"):
    return f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}"


@pytest.fixture
def saved(path):
    save(Model(value=np.arange(3.0), other=Block(np.arange(2))), path)
    return path


def set_class(tree):
    tree["estimator"]["class"] = "os:system"


def set_child(node):
    def change(tree):
        tree["estimator"]["state"] = [["value", node]]

    return change


def set_name(name):
    def change(tree):
        tree["estimator"]["state"] = [[name, 1]]

    return change


NESTED = [0]
for _ in range(300):
    NESTED = [NESTED]
KEYS = {"type": "array", "member": "0.npy", "writeable": True}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (set_class, "unknown class key 'os:system'"),
        (lambda t: t.update(format="other"), "not one of sksvi"),
        (lambda t: t.update(format_version=4), "format version 4"),
        (lambda t: t.update(format_version=True), "format version True"),
        (lambda t: t.pop("estimator"), "missing 'estimator'"),
        (lambda t: t.pop("sha256"), "missing 'sha256'"),
        (lambda t: t.update(estimator=3), "no estimator"),
        (lambda t: t["sha256"].update({"0.npy": "0" * 64}), "checksum of member '0.npy'"),
        (lambda t: t["sha256"].pop("0.npy"), "do not agree"),
        (lambda t: t["sha256"].update({"7.npy": ""}), "do not agree"),
        (set_child({"type": "array", "member": "7.npy", "writeable": True}), "missing '7.npy'"),
        (set_child({"type": "eval", "value": "1"}), "missing 'eval'"),
        (set_child({"type": "reference", "id": 99}), "missing 99"),
        (set_child({"type": "dtype", "value": "V8"}), "not allowed"),
        (set_child({"type": "scalar", "dtype": "object", "value": 1}), "unknown scalar type"),
        (set_child({"type": "float", "value": "1e5"}), "missing"),
        (set_child({"type": "objects", "shape": [10**18], "items": [1]}), "malformed shape"),
        (set_child({"type": "strings", "shape": [1], "offsets": KEYS, "data": KEYS}), "malformed strings"),
        (set_child({"type": "random-state", "keys": KEYS, "state": [700, 0, 0.0]}), "malformed random state"),
        (set_child({"type": "dict", "id": 5, "proxy": False, "items": [[[1], 2]]}), "unhashable"),
        (set_child(NESTED * 2), None),
        (set_name("__class__"), "not allowed"),
        (set_name("_skl_callbacks"), "not allowed"),
        (set_name("a.b"), "not allowed"),
        (set_name(7), "not allowed"),
    ],
)
def test_a_hostile_manifest_is_a_value_error(saved, change, message):
    rewrite(saved, manifest=change)
    if message is None:  # depth alone is harmless; it loads or is refused
        try:
            load(saved)
        except ValueError:
            pass
        return
    with pytest.raises(ValueError, match=message):
        load(saved)


@pytest.mark.parametrize(
    ("member", "message"),
    [
        (npy(header(shape="(1000000000000,)"), b"\0" * 24), "declares 8000000000000 bytes of data and has 24"),
        (npy(header(shape="(-3,)"), b"\0" * 24), "shape"),
        (npy(header(shape="(True,)"), b"\0" * 8), "shape"),
        (npy(header(shape="(0, 10**30)"), b""), "header"),
        (npy(header(shape=f"(0, {10**30})"), b""), "shape"),
        (npy(header(descr="'|O'"), b"\0" * 24), "dtype"),
        (npy(header(descr="[('a', '<f8')]"), b"\0" * 24), "dtype"),
        (npy(header(descr="'|b1'"), b"\2\0\1"), "truth"),
        (npy(header(descr="'<U1'"), b"\xff" * 12), "characters"),
        (npy("__import__('os').system('true')", b""), "header"),
        (npy("{'descr': (" * 500, b""), "header"),
        (b"\x93NUMPY\x09\x00", "header"),
        (b"", "header"),
        (b"not an array at all", "header"),
    ],
)
def test_a_lying_array_is_a_value_error(saved, member, message):
    rewrite(saved, members={"0.npy": member})
    with pytest.raises(ValueError, match=message):
        load(saved)


@pytest.mark.parametrize("name", ["../evil.npy", "/etc/passwd", "a/0.npy", "0.npy.exe", "..\\0.npy"])
def test_foreign_member_names_are_refused(saved, name):
    rewrite(saved, extra=[(name, b"x")])
    with pytest.raises(ValueError, match="not allowed"):
        load(saved)


def test_two_members_of_one_name_are_refused(saved):
    with pytest.warns(UserWarning, match="Duplicate"):
        rewrite(saved, extra=[("0.npy", b"x")])
    with pytest.raises(ValueError, match=r"same name|Overlapped"):
        load(saved)


def test_a_zip_bomb_is_refused_unopened(saved):
    rewrite(saved, members={"0.npy": b"\0" * 10**7}, compression=zipfile.ZIP_DEFLATED)
    assert saved.stat().st_size < 10**5
    with pytest.raises(ValueError, match="compressed"):
        load(saved)


def test_declared_sizes_beyond_the_file_are_refused(saved):
    data = bytearray(saved.read_bytes())
    entry = data.rindex(b"PK\x01\x02", 0, data.rindex(b"PK\x01\x02"))  # central entry of the last array
    for at in (entry + 20, entry + 24):
        data[at : at + 4] = (2**31).to_bytes(4, "little")
    saved.write_bytes(data)
    with pytest.raises(ValueError, match=r"declare|damaged"):
        load(saved)


def test_a_manifest_beyond_the_cap_is_refused(saved, monkeypatch):
    monkeypatch.setattr(persistence.container, "MAX_MANIFEST_BYTES", 10)
    with pytest.raises(ValueError, match="at most 10 are allowed"):
        load(saved)
    with pytest.raises(ValueError, match="at most 10 can be saved"):
        save(Model(), saved)


def spend_at_most(n_bytes):
    budget = Budget(0)
    budget.left = n_bytes
    return budget.spend


def test_one_member_used_a_million_times_is_refused():
    encoder = Encoder(REGISTRY)
    node = encoder.encode(pd.DataFrame({"a": np.zeros(1000)}), "frame")
    node["columns"] *= 100
    with pytest.raises(ValueError, match="far more memory"):
        Decoder(REGISTRY, lambda name: encoder.arrays[name].copy(), spend_at_most(80_000)).decode(node)


@pytest.mark.parametrize("content", [b"", b"PK", b"\x80\x04pickle", b"PK\x03\x04" + b"\0" * 100])
def test_other_files_are_refused(path, content):
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"not a file of sksvi|damaged"):
        load(path)


def test_a_missing_file_is_the_usual_error(path):
    with pytest.raises(FileNotFoundError):
        load(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("0.npy", b"")
    with pytest.raises(ValueError, match=r"manifest\.json is missing"):
        load(path)


def test_random_damage_is_a_value_error_or_harmless(saved, global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    original = saved.read_bytes()
    for _ in range(300):
        data = bytearray(original[: rng.integers(len(original))] if rng.random() < 0.2 else original)
        for at in rng.integers(max(len(data), 1), size=rng.integers(1, 4)):
            if len(data):
                data[at] = rng.integers(256)
        saved.write_bytes(data)
        try:
            loaded = load(saved)
        except (ValueError, VersionWarning):
            continue
        assert isinstance(loaded, Model)


def test_random_damage_inside_the_manifest_is_a_value_error_or_harmless(saved, global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    with zipfile.ZipFile(saved) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    for _ in range(300):
        text = bytearray(parts[MANIFEST])
        for at in rng.integers(len(text), size=rng.integers(1, 4)):
            text[at] = rng.choice(np.frombuffer(b'{}[],:"0123456789aetypn', dtype=np.uint8))
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w") as archive:
            for name, data in parts.items():
                archive.writestr(name, bytes(text) if name == MANIFEST else data)
        saved.write_bytes(file.getvalue())
        try:
            load(saved)
        except (ValueError, VersionWarning):
            continue


# What decoding may do ------------------------------------------------------------------------------------------------


def set_state(*state):
    def change(tree):
        tree["estimator"]["state"] = [list(item) for item in state]

    return change


@pytest.mark.parametrize("name", ["fit", "get_params", "set_fit_request", "_get_metadata_request", "__sklearn_tags__"])
def test_names_that_the_class_defines_are_no_attributes_of_a_file(saved, name):
    rewrite(saved, manifest=set_state([name, 1]))
    with pytest.raises(ValueError, match=f"attribute name '{name}' of test-Model is not allowed"):
        load(saved)


def test_cached_properties_and_methods_of_parts_are_no_attributes_either(saved):
    node = {"type": "object", "class": "test-Store", "id": 7, "state": [["size", 3]]}
    rewrite(saved, manifest=set_child(node))
    with pytest.raises(ValueError, match="attribute name 'size' of test-Store"):
        load(saved)


def test_requests_are_made_by_the_class_and_by_nothing_else(saved):
    def change(tree):
        tree["estimator"]["requests"] = {"type": "dict", "id": 9, "proxy": False, "items": [["clone", {"type": "x"}]]}

    rewrite(saved, manifest=change)
    with pytest.raises(ValueError, match="cannot be loaded"):
        load(saved)


@pytest.mark.parametrize(
    "node",
    [
        [[]] * 500_000,
        [{}] * 200_000,
        {"type": "tuple", "items": [[0]] * 400_000},
    ],
    ids=["lists", "objects", "tuples"],
)
def test_a_manifest_of_many_small_things_is_refused_before_they_are_made(saved, node):
    rewrite(saved, manifest=set_child(node))
    with pytest.raises(ValueError, match="far more memory"):
        load(saved)


@pytest.mark.parametrize(
    ("node", "message"),
    [
        ({"type": "csr", "parts": [KEYS] * 3, "shape": [1, 1]}, "malformed sparse"),
        ({"type": "dtype", "value": ",".join(["f8"] * 1000)}, "not allowed"),
        ({"type": "scalar", "dtype": "float64", "value": [1.0, 2.0]}, "must be a number"),
        ({"type": "dict", "id": 5, "proxy": False, "items": [[2**61 - 1, 0], [2**62 - 2, 0]]}, "too large a number"),
        ({"type": "records", "n": 3, "columns": []}, "malformed records"),
        ({"type": "records", "n": 2, "columns": [["a", KEYS]]}, "malformed column"),
        ({"type": "records", "n": 3, "columns": [["a", KEYS], ["a", KEYS]]}, "malformed records"),
        ({"type": "numbers", "values": {"type": "array", "member": "1.npy", "writeable": True}}, "malformed column"),
    ],
)
def test_more_hostile_nodes(saved, node, message):
    rewrite(saved, manifest=set_child(node))
    with pytest.raises(ValueError, match=message):
        load(saved)


def test_nesting_is_limited_whatever_the_stack(saved):
    deep = [0]
    for _ in range(230):
        deep = [deep]
    rewrite(saved, manifest=set_child(deep))
    with pytest.raises(ValueError, match=r"nested deeper than 100 levels|recursion"):
        load(saved)


def test_too_many_members_are_refused_before_one_is_listed(saved, monkeypatch):
    monkeypatch.setattr(persistence.container, "MAX_MEMBERS", 1)
    with pytest.raises(ValueError, match="more than 1 members"):
        load(saved)
    with pytest.raises(ValueError, match="has 2 arrays; at most 1"):
        save(Model(value=[np.arange(2), np.arange(3)]), saved)


def with_a_long_end(data, size, n_bytes):
    """A file whose end is that of archives of more than 65,535 members, with these sizes of the directory in both."""
    plain = bytearray(data[-22:])
    members, start = struct.unpack("<H", plain[10:12])[0], struct.unpack("<L", plain[16:20])[0]
    longer = struct.pack("<4sQ2H2L4Q", b"PK\x06\x06", 44, 45, 45, 0, 0, members, members, n_bytes, start)
    locator = struct.pack("<4sLQL", b"PK\x06\x07", 0, len(data) - 22, 1)
    plain[8:12], plain[12:16] = b"\xff" * 4, struct.pack("<L", size)
    return data[:-22] + longer + locator + bytes(plain)


def test_an_archive_with_a_long_end_is_read_and_counted(saved):
    data = saved.read_bytes()
    value = load(saved).value
    directory = struct.unpack("<L", data[-10:-6])[0]
    saved.write_bytes(with_a_long_end(data, 2**32 - 1, directory))
    same(load(saved).value, value)
    for size, n_bytes in ((2**32 - 1, 5 * 10**6), (5 * 10**6, directory)):
        saved.write_bytes(with_a_long_end(data, size, n_bytes))
        with pytest.raises(ValueError, match="more than 100000 members"):
            load(saved)


def test_memory_that_is_not_there_is_a_value_error(saved, monkeypatch):
    def none(*_):
        raise MemoryError

    monkeypatch.setattr(persistence.container, "read_array", none)
    with pytest.raises(ValueError, match="does not fit into memory"):
        load(saved)


@pytest.mark.parametrize("version", ["9\x1b[31m\n\x07", "é" * 10_000])
def test_messages_hold_no_control_characters_of_a_file(saved, version):
    rewrite(saved, manifest=lambda tree: tree["versions"].update(sksvi=version))
    with pytest.warns(VersionWarning) as told:
        load(saved)
    text = str(told[0].message)
    assert text.isprintable() and len(text) < 600
    rewrite(saved, manifest=lambda tree: tree["versions"].update(sksvi=[version]))
    with pytest.raises(ValueError, match="its version is no text"):
        load(saved)


@pytest.mark.parametrize("key", ["test-Block", "Gaussian", "Poisson", "kernel.RBF"])
def test_only_estimators_are_loaded(saved, key):
    def change(tree):
        tree["estimator"] = {"type": "object", "class": key, "id": 0, "state": []}

    rewrite(saved, manifest=change)
    with pytest.raises(ValueError, match="holds no estimator"):
        load(saved)
    from sksvi.likelihoods import Poisson

    with pytest.raises(TypeError, match="must be an estimator of sksvi; found Poisson"):
        save(Poisson(), saved)


# Histories -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "rows",
    [
        [{"pass": i, "bound": -0.5 * i, "exact": i % 2 == 0} for i in range(50)],
        [float(i) for i in range(40)] + [float("nan"), float("-inf")],
        [{"a": 1, "b": 2.0}] * 20 + [{"a": 1}],
        [{"a": 1}] * 20 + [{"a": 1.5}],
        [{"a": 2**80}] * 20,
        list(range(40)),
        [1.0] * 20 + [2],
        [{}] * 20,
    ],
    ids=["records", "numbers", "other keys", "other types", "large", "integers", "mixed", "empty"],
)
def test_long_lists_come_back(rows, path):
    same(rows, round_trip(rows, path))


def test_a_history_is_arrays_in_a_file(path):
    rows = [{"pass": i, "bound": -0.5 * i} for i in range(10_000)]
    save(Model(value=rows), path)
    with zipfile.ZipFile(path) as archive:
        assert archive.getinfo(MANIFEST).file_size < 3000
    assert path.stat().st_size < 170_000


# Estimators ----------------------------------------------------------------------------------------------------------


def some_data(n, seed):
    """Rows, string labels and counts whose seventh digit marks each row."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    f = X[:, 0] - 0.5 * X[:, 1]
    return X, np.where(f + rng.logistic(size=n) > 0, "yes", "no"), rng.poisson(np.exp(0.5 * f))


def estimator(kind, **parameters):
    from sksvi import BayesianGLMClassifier, BayesianGLMRegressor

    if kind == "classifier":
        return BayesianGLMClassifier(random_state=0, **parameters)
    return BayesianGLMRegressor(likelihood="poisson", random_state=0, **parameters)


def test_every_entry_of_the_table_is_found_by_its_class():
    for key, target in REGISTRY.items():
        assert class_key(REGISTRY, resolve_class(target)) == key


def test_a_file_of_an_earlier_format_is_refused_by_the_version_that_wrote_it():
    with pytest.raises(ValueError, match=r"format version 1 and was written by sksvi 0\.1\.0\.dev0, .* reads format 3"):
        load(Path(__file__).with_name("files") / "0.1.0.dev0-format1.sksvi")


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("covariance", ["full", "diag"])
@pytest.mark.parametrize("algorithm", ["cvi", "mc-ssvi", "h-mc-ssvi", "s-dsvi", "fp"])
@pytest.mark.parametrize("kind", ["classifier", "regressor"])
def test_fitted_estimators_come_back_to_the_same_bits(kind, algorithm, covariance, path, global_random_seed):
    X, labels, counts = some_data(200, global_random_seed)
    y = labels if kind == "classifier" else counts
    model = estimator(kind, algorithm=algorithm, covariance=covariance, max_iter=60).fit(X, y)
    model.save(path)
    loaded = load(path)
    assert type(loaded) is type(model)
    assert_array_equal(loaded.predict(X), model.predict(X))
    assert_array_equal(loaded.coef_std_, model.coef_std_)
    assert loaded.lower_bound_ == model.lower_bound_
    pd.testing.assert_frame_equal(loaded.history_, model.history_)
    assert repr(loaded) == repr(model)
    if algorithm != "fp":
        for each in (model, loaded):
            each.partial_fit(X, y)
        assert_array_equal(loaded.coef_, model.coef_)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("algorithm", ["cvi", "mc-ssvi", "h-mc-ssvi", "s-dsvi", "fp"])
@pytest.mark.parametrize("batch_size", [None, 50])
def test_a_file_holds_no_training_rows(algorithm, batch_size, path, global_random_seed):
    if algorithm == "fp" and batch_size is not None:
        return
    n = 4000
    X, y, _ = some_data(n, global_random_seed)
    estimator("classifier", algorithm=algorithm, batch_size=batch_size, max_iter=5).fit(X, y).save(path)
    with zipfile.ZipFile(path) as archive:
        arrays = {name: archive.read(name) for name in archive.namelist() if name != MANIFEST}
        manifest = archive.read(MANIFEST).decode()
    assert max(map(len, arrays.values())) < n  # less than one byte a row
    assert path.stat().st_size < 8 * n
    data = b"".join(arrays.values())
    # Of single rows the least and the greatest value of each column are there, which may lie in any of them.
    least, greatest = X.min(axis=0), X.max(axis=0)
    assert least.tobytes() in data and greatest.tobytes() in data
    for value in X[:100][(least < X[:100]) & (X[:100] < greatest)]:
        assert value.tobytes() not in data and repr(float(value)) not in manifest


def test_an_estimator_with_everything_set_comes_back(path, global_random_seed):
    from sksvi import BayesianGLMRegressor, algorithms, expectations, likelihoods, schedules

    X, _, counts = some_data(100, global_random_seed)
    frame = pd.DataFrame(X, columns=["age", "dose", "weight"])
    model = BayesianGLMRegressor(
        likelihood=likelihoods.NegativeBinomial(dispersion=0.5),
        algorithm=algorithms.MCSSVI(schedule=schedules.RobbinsMonro(kappa=0.75)),
        expectation=expectations.GaussHermite(n=12),
        prior_precision=np.array([1.0, 2.0, 3.0]),
        random_state=np.random.RandomState(global_random_seed),
    ).fit(frame, counts)
    model.save(path)
    loaded = load(path)
    assert list(loaded.feature_names_in_) == list(frame.columns)
    assert loaded.get_params()["algorithm__schedule__kappa"] == 0.75
    assert_array_equal(loaded.predict(frame), model.predict(frame))
    assert_array_equal(loaded.prior_precision, model.prior_precision)


def test_an_unfitted_estimator_comes_back(path):
    model = estimator("classifier", prior_precision="ard", tol=1e-6)
    model.save(path)
    assert load(path).get_params() == model.get_params()


def test_a_sparse_matrix_comes_back_and_a_wrong_index_is_refused():
    matrix = sp.csr_matrix(np.array([[0.0, 2.0, 0.0], [1.0, 0.0, 3.0]]))
    encoder = Encoder(REGISTRY)
    node = encoder.encode(matrix, "matrix")

    def decoded(arrays):
        return Decoder(REGISTRY, arrays.__getitem__, spend_at_most(2**20)).decode(node)

    assert_array_equal(decoded(encoder.arrays).toarray(), matrix.toarray())
    for name, array in encoder.arrays.items():
        for wrong in (array[:-1], array.astype(float) if array.dtype.kind == "i" else array.astype("S4")):
            with pytest.raises(ValueError, match="sparse"):
                decoded({**encoder.arrays, name: wrong})
    indices = encoder.arrays[node["parts"][1]["member"]]
    with pytest.raises(ValueError, match="sparse"):
        decoded({**encoder.arrays, node["parts"][1]["member"]: indices + 2})


def test_what_a_file_should_hold_may_be_said(tmp_path):
    sksvi.BayesianGLMRegressor(likelihood="poisson").save(tmp_path / "a")
    again = load(tmp_path / "a", sksvi.BayesianGLMRegressor)
    assert type(again) is sksvi.BayesianGLMRegressor and again.likelihood == "poisson"
    assert isinstance(load(tmp_path / "a", BaseEstimator), sksvi.BayesianGLMRegressor)  # a base says less
    with pytest.raises(ValueError, match="holds a BayesianGLMRegressor, not the StructuredLDA that was expected"):
        load(tmp_path / "a", sksvi.StructuredLDA)
    for wrong in ("StructuredLDA", sksvi.StructuredLDA()):
        with pytest.raises(TypeError, match="expected must be a class"):
            load(tmp_path / "a", wrong)
