"""Intervals of two latents: small runs through the benchmark's own runner."""

from __future__ import annotations

import pytest

from benchmarks.truth import two_latents


@pytest.mark.parametrize(
    "likelihood", ["gaussian", pytest.param("zero-inflated-poisson", marks=pytest.mark.exhaustive)]
)
def test_intervals_of_both_latents_hold(likelihood, global_random_seed):
    row = two_latents.run(likelihood, 100, 20, global_random_seed)
    assert abs(row["f covers"] - 0.9) < 4.0 * (0.09 / 60) ** 0.5
    assert abs(row["second covers"] - 0.9) < 4.0 * (0.09 / 40) ** 0.5
