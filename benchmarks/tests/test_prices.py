"""The price of a bound, ``mixed.price`` and ``topics.price``: small runs, and what the stored tables say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks._lib.tables import RESULTS
from benchmarks.mixed import price as mixed_price
from benchmarks.topics import price as topics_price


def stored(name: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads((RESULTS / f"{name}.json").read_text())["rows"]
    return rows


def test_simulated_ticks_have_the_shape_of_the_real_ones() -> None:
    data = mixed_price.grouse(0)
    assert data.X["brood"].nunique() == 118 and data.X["place"].nunique() == 63 and len(data.y) == 403
    assert np.all(data.X.groupby("brood")[["place", "year 96", "year 97", "height"]].nunique() == 1)


@pytest.mark.exhaustive
def test_a_small_run_finds_the_order_that_theory_asks_for(capsys: pytest.CaptureFixture[str]) -> None:
    found = mixed_price.fitted_reports(mixed_price.epil())
    for _, report in found.values():
        assert np.all(report.rows[["optimal - mean-field", "optimal - simple"]] >= -1e-9)
    mixed_price.main(quick=True)
    assert "mean-field loses" in capsys.readouterr().out


@pytest.mark.parametrize("data", ["like grouseticks", "epil"])
def test_stored_prices_fall_with_counts_for_the_mean_field_and_end_high_for_the_simple_bound(data: str) -> None:
    rows = [row for row in stored("mixed/price_rows") if row["data"] == data]
    assert np.all(np.diff([row["mean-field loses"] for row in rows]) < 0)
    simple = [row["simple loses"] for row in rows]
    assert simple[-1] == max(simple) and simple[-1] > 10 * simple[0]


@pytest.mark.costly
def test_a_small_run_of_topics(shared_data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    topics_price.main(quick=True)
    assert "simulated" in capsys.readouterr().out
