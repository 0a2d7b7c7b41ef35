"""What fits cannot avoid, ``product.limits`` and ``product.limits_loops``: counts, quick runs and stored tables."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from benchmarks._lib.loaders import data_folder
from benchmarks._lib.tables import RESULTS
from benchmarks.product import limits, limits_loops


def stored(name: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads((RESULTS / f"product/{name}.json").read_text())["rows"]
    return rows


class Worker:
    """Something whose calls are counted."""

    def work(self, seconds: float) -> float:
        start = time.process_time()
        while time.process_time() - start < seconds:
            pass
        return seconds


def test_calls_are_counted_and_timed() -> None:
    worker, before = Worker(), Worker.work
    with limits.counted(Worker, "work", lambda _, seconds: seconds) as found:
        assert worker.work(0.001) == 0.001 and worker.work(0.0) == 0.0
    assert found == [0.001, 0.0]
    with limits_loops.timed({"work": (Worker, "work")}) as clocks:
        worker.work(0.01)
        worker.work(0.01)
    assert 0.02 <= clocks["work"].cpu < 1.0
    assert Worker.work is before
    assert limits.calls_of(lambda: [abs(-1) for _ in range(100)]) >= 100


@pytest.mark.exhaustive
@pytest.mark.parametrize("module", [limits, limits_loops])
def test_a_quick_run_prints_its_tables(module: Any, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        data_folder()
    except FileNotFoundError as error:
        pytest.skip(str(error))
    module.main(quick=True)
    printed = capsys.readouterr().out
    titles = {
        limits: ("Linear models and the products", "Small tables and streams", "Searches of sparse processes"),
        limits_loops: ("One pass of correlated topics", "Small mixtures: passes and calls"),
    }
    assert all(title in printed for title in titles[module])


def test_stored_floors_are_parts_of_their_fits() -> None:
    """A floor that takes longer than its fit would be no floor."""
    assert len(stored("limits")) == 5
    assert all(0.0 < row["share of bare passes"] < 1.0 for row in stored("limits"))
    assert {row["data"] for row in stored("limits_processes")} == set(limits.ASKED)
    assert all(0.0 < row["share of bare looks"] < 1.0 for row in stored("limits_processes"))
    (topics,) = stored("limits_topics")
    assert topics["bare visits, s"] < topics["pass, s"]
    assert topics["bare products of the start, s"] < topics["start, s"]
    assert topics["start, s"] + topics["pass, s"] + topics["last look, s"] < topics["fit, s"]
    assert all(row["bare passes, s"] < row["ours, s"] for row in stored("limits_mixtures"))
