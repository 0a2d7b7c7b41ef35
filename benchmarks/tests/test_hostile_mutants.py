"""Mutation testing's own parts: what a fork can change, and what is kept of what came of it."""

from __future__ import annotations

import importlib.util
import json

import pytest

from benchmarks.hostile import _mutants, _warm, mutants
from benchmarks.hostile._mutants import Mutant

TEXT = '''"""A module."""
import functools

LIMIT = 3


def plain(x: int, more: int = 2) -> int:
    """Doc."""
    return x + 1


def maker():
    return lambda x: x * 10


class Thing:
    size = 4

    @property
    def value(self) -> int:
        return self.size + 1


made = maker()


@functools.cache
def kept(x):
    return plain(x)
'''


@pytest.fixture
def changed_text(tmp_path, monkeypatch):
    """Mutants of a module of its own, with the module."""
    for place in (_mutants, _warm, mutants):
        monkeypatch.setattr(place, "ROOT", tmp_path)
    path = tmp_path / "mutated.py"
    path.write_text(TEXT)
    spec = importlib.util.spec_from_file_location("sksvi_mutated", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module, lambda before, after: Mutant("mutated.py", "Operator", 0, TEXT.replace(before, after))


@pytest.mark.costly
def test_functions_change_in_a_process_and_nothing_else_does(changed_text):
    module, mutant = changed_text
    assert module.plain(1) == 2 and module.made(2) == 20 and module.Thing().value == 5 and module.kept(1) == 2
    for before, after, name in [
        ("x + 1", "x - 1", "plain"),
        ("x * 10", "x * 11", "maker.<locals>.<lambda>"),
        ("self.size + 1", "self.size - 1", "Thing.value"),
    ]:
        assert [old.co_qualname for old, _ in _warm.changed(mutant(before, after))] == [name]
    for before, after in [("LIMIT = 3", "LIMIT = 4"), ("more: int = 2", "more: int = 3"), ("size = 4", "size = 5")]:
        assert _warm.changed(mutant(before, after)) == []
    _warm.patch(mutant("x + 1", "x - 1"))
    assert module.plain(1) == 0 and module.kept(1) == 0 and module.made(2) == 20
    _warm.patch(mutant("x * 10", "x * 11"))
    assert module.made(2) == 22


@pytest.mark.usefixtures("changed_text")
def test_what_numba_compiles_is_not_changed_in_a_process():
    text = TEXT.replace("import functools", "import numba")
    (mutants.ROOT / "mutated.py").write_text(text)
    assert _warm.changed(Mutant("mutated.py", "Operator", 0, text.replace("x + 1", "x - 1"))) == []


def test_annotations_docstrings_and_decorators_mean_nothing():
    for before, after in [("x: int", "x: str"), ("Doc.", "Text."), ("@functools.cache", "@functools.lru_cache(3)")]:
        assert _mutants.meaning(TEXT) == _mutants.meaning(TEXT.replace(before, after))
    assert _mutants.meaning(TEXT) != _mutants.meaning(TEXT.replace("LIMIT = 3", "LIMIT = 4"))


def test_a_run_goes_on_where_it_was(changed_text, monkeypatch):
    _, mutant = changed_text
    first, second, third = (mutant("x + 1", f"x + {n}")._replace(place=n) for n in (2, 3, 4))
    monkeypatch.setattr(mutants, "drawn", lambda folders, seed: iter([first, second, third]))
    group = mutants.Group([], [], [])

    def known(*records):
        return {mutants.key(record): record for record in records}

    killed = mutants.record_of("steps", first, "test_it", [])
    alive = mutants.record_of("steps", second, "", [])
    assert killed["change"] == "-return x + 1 +return x + 2"
    assert mutants.wanted(group, 2, {}) == [first, second]
    assert mutants.wanted(group, 3, known(killed, alive)) == [second, third]
    explained = {**alive, "why": "it is the same"}
    assert mutants.wanted(group, 3, known(killed, explained)) == [third]
    assert mutants.row("steps", [killed, alive])["survived (%)"] == 50.0
    row = mutants.row("steps", [killed, explained, mutants.record_of("steps", second, "test_new", [alive])])
    assert (row["killed"], row["killed by a test since"], row["equivalent"], row["survived"]) == (1, 1, 1, 0)
    assert row["survived at first (%)"] == 50.0
    # Another docstring changes nothing; with other code all of a file's mutants are met again, and a reason stands.
    (mutants.ROOT / "mutated.py").write_text("# new\n" + TEXT.replace("Doc.", "Text."))
    assert mutants.current([killed, explained]) == [killed, explained]
    (mutants.ROOT / "mutated.py").write_text("NEW = 1\n" + TEXT)
    assert mutants.current([killed, explained]) == []
    assert mutants.wanted(group, 3, known(killed, explained)) == [first, second, third]
    moved = second._replace(text="NEW = 1\n" + second.text)
    assert mutants.record_of("steps", moved, "", [explained])["why"] == "it is the same"
    assert mutants.record_of("steps", moved, "test_it", [explained])["why"] == ""


def test_what_is_stored_can_be_read():
    records = mutants.stored().values()
    assert records and all(json.loads(json.dumps(record)) == record for record in records)
    assert {record["group"] for record in records} <= set(mutants.GROUPS)
