"""Intervals of additive curves: small runs through the benchmark's own runner."""

from __future__ import annotations

import pytest

from benchmarks.truth import smooths

#: How far the cover spreads between sets of 100 rows, where errors of neighbouring rows are nearly one.
SPREAD = 0.08


@pytest.mark.parametrize("prior", smooths.PRIORS)
def test_intervals_of_one_curve_hold(prior, global_random_seed):
    row = smooths.run("f2", 100, prior, 8, global_random_seed)
    assert abs(row["covers"] - 0.94) < 4.0 * SPREAD / 8**0.5
    assert row["rmse of f"] < smooths.NOISE["f2"] and row["width"] > 0.0


@pytest.mark.exhaustive
def test_the_quick_table_is_printed(capsys):
    smooths.main(quick=True)
    assert "unconditional" in capsys.readouterr().out
