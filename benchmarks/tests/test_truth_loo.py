"""Leave-one-out from messages is within a quarter of a standard error of refits, or k-hat tells."""

from __future__ import annotations

import pytest

from benchmarks.truth._loo_sets import CASES
from benchmarks.truth.loo import measured
from benchmarks.truth.loo_series import cases
from benchmarks.truth.loo_series import measured as series_measured


@pytest.mark.costly
@pytest.mark.parametrize(
    "name",
    ["spector 32 × 3", "labels 40 × 30, prior given", "stackloss 21 × 3", "levels 60 × 3", "schools, one by one"],
)
def test_estimates_are_near_refits(name):
    found = measured(CASES[name][1]())
    assert abs(found["off, in se"]) < 0.25
    assert found["in sample"] > found["elpd, loo"]


def test_points_of_a_series():
    """A fifth of a standard error above refits, as variances are found by the whole series."""
    found = series_measured(*cases()["counts, walk"], 7)
    assert abs(found["off, in se"]) < 0.35


@pytest.mark.costly
def test_a_row_without_which_the_scale_is_another_is_named():
    """Texas, far ahead of the other states, is what the prior's scale is learned from."""
    found = measured(CASES["cpunish 17 × 6 (Texas)"][1]())
    assert found["worst row"] > 1.0 and found["its k-hat"] > 0.7
