"""Intervals of quantiles: a small run through the benchmark's own runner."""

from __future__ import annotations

import pytest

from benchmarks.truth import quantiles, quantiles_of_latents


@pytest.mark.costly
def test_intervals_of_a_quantile_hold_and_uncorrected_ones_do_not(global_random_seed):
    row = quantiles.run("normal", 0.75, 200, 30, global_random_seed)
    assert abs(row["covers"] - 0.93) < 4.0 * (0.07 / 90) ** 0.5
    assert row["without the correction"] < row["covers"] - 0.05


@pytest.mark.exhaustive
def test_the_quick_table_is_printed(capsys, monkeypatch):
    monkeypatch.setattr(quantiles, "SIZES", (60,))
    quantiles.main(quick=True)
    assert "Student-t" in capsys.readouterr().out


@pytest.mark.exhaustive
def test_intervals_of_a_mixed_models_quantiles_hold_at_the_calibrated_scale(global_random_seed):
    """Over sets of rows a share has a standard deviation of 0.04 to 0.08."""
    row = quantiles_of_latents.run("mixed, 10 rows a level", "one", 0.9, 8, global_random_seed)
    assert abs(row["covers"] - 0.88) < 4.0 * 0.08 / 8**0.5
    assert row["at the likeliest scale"] < row["covers"] - 0.05
