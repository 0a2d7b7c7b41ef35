"""Intervals at learned hyperparameters: small runs through the benchmark's own runner."""

from __future__ import annotations

import pytest

from benchmarks.truth import group_coverage


def test_intervals_of_groups_of_precisions_hold(global_random_seed):
    row = group_coverage.run("", lambda rng: group_coverage.precisions(60, rng), 12, global_random_seed)
    assert abs(row["coefficients"] - 0.9) < 4.0 * (0.09 / (12 * 16)) ** 0.5 + 0.02


@pytest.mark.exhaustive
def test_strong_effects_of_binary_rows_hold(global_random_seed):
    row = group_coverage.run("", lambda rng: group_coverage.strong(3.0, rng), 12, global_random_seed)
    assert row["deviations"] > 0.9 - 4.0 * (0.09 / 12) ** 0.5
    assert abs(row["effects"] - 0.9) < 4.0 * (0.09 / 60) ** 0.5
