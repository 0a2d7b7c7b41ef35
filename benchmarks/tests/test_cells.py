"""Tables by cells: a run that goes on runs what is missing, and a quick one stores nothing."""

from __future__ import annotations

import json

import pytest

from benchmarks._lib import cells, tables

CELLS = [{"data": "a", "method": 1}, {"data": "a", "method": 2}, {"data": "b", "method": 1}]


@pytest.fixture
def run(tmp_path, monkeypatch):
    """A table of a folder of its own; the argument of the returned function are cells, its value which of them ran."""
    for module in (cells, tables):
        monkeypatch.setattr(module, "RESULTS", tmp_path)

    def runs(some, quick=False):
        ran = []

        def one(cell):
            ran.append(cell)
            return [{"passes": n, "value": len(ran)} for n in (1, 2)]

        cells.by_cells("x/y", "A table", some, one, ["A note."], quick)
        return ran

    return runs


def test_cells_that_are_stored_are_not_run_again_and_rows_have_the_order_of_the_cells(run, tmp_path):
    assert run(CELLS[1:2]) == CELLS[1:2]
    assert run(CELLS) == [CELLS[0], CELLS[2]]
    assert run(CELLS) == []
    rows = json.loads((tmp_path / "x" / "y.json").read_text())["rows"]
    assert [(row["data"], row["method"], row["passes"]) for row in rows] == [
        (cell["data"], cell["method"], n) for cell in CELLS for n in (1, 2)
    ]
    assert "| a " in (tmp_path / "x" / "y.md").read_text()


def test_a_quick_run_stores_nothing(run, tmp_path):
    assert run(CELLS[:1], quick=True) == CELLS[:1]
    assert not list(tmp_path.rglob("*.json"))
