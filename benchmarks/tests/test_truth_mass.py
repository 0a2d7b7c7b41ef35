"""Intervals of small sets at the defaults hold the mass that long runs, all scales sampled, have there."""

from __future__ import annotations

import json

import pytest

from benchmarks._lib.tables import RESULTS
from benchmarks.truth._mass import CASES
from benchmarks.truth.mass import masses

#: Least mass of the run inside an interval of 90 %, and most. Of a standard deviation between levels that may be zero
#: the interval is that of a normal of its logarithm, which is not.
LIMITS = {"df": (0.8, 0.95), "noise": (0.8, 0.96), "std between levels": (0.75, 0.97)}


@pytest.mark.parametrize("name", CASES)
def test_intervals_hold_what_a_long_run_has_there(name):
    runs = json.loads((RESULTS / "truth/mass_reference_quantiles.json").read_text())
    for kind, held in masses(name, runs[name]).items():
        least, most = LIMITS.get(kind, (0.85, 0.95))
        assert least < min(held) <= max(held) < most, kind
