"""Additive models beside mgcv: one published set through the benchmark's own runner, where its folder is."""

from __future__ import annotations

import pytest

from benchmarks.truth import gam, responses


def test_a_curve_and_its_spread_are_those_of_mgcv():
    pytest.importorskip("formulaic")
    try:
        stored = responses.references()
    except FileNotFoundError as error:
        pytest.skip(str(error))
    row = gam.ROWS[1]
    judge = next(one for one in stored if one["set"] == row.data and one["model"] == row.judge)
    found = gam.compared(row, judge)
    assert found["f off, se"] < 1.5 and found["its mode off, se"] < 1.5 < found["log sd off, se"]
    assert abs(found["held out"] - found["mgcv's"]) < 4.0 * found["error"]
