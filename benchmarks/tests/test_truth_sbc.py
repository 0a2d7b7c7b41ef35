"""The simulation-based calibration of the page about calibration: its cases run, and what is stored is of them."""

from __future__ import annotations

import json

import numpy as np
import pytest

from benchmarks._lib.tables import RESULTS
from benchmarks.truth._sbc_cases import cases
from benchmarks.truth.sbc import kind, ranks, rows_of

CASES = cases()


@pytest.mark.parametrize(
    "name",
    [
        "GLM gaussian, all given",
        pytest.param("GLM gaussian, units held", marks=pytest.mark.exhaustive),
        "SparseGPRegressor, all given",
        "GeneralizedPMF gaussian",
        "BernoulliMixture, priors given",
        "DynamicGLM gaussian, variances given",
    ],
)
def test_a_row_of_the_table(name):
    found, seconds = ranks(name, CASES[name], 8)
    rows = rows_of(name, CASES[name], found, seconds)
    assert {row["quantity"] for row in rows} == {kind(quantity) for quantity in found.ranks}
    assert sum(row["entries"] for row in rows) == found.ranks.shape[1] and seconds > 0


def test_exact_posteriors_are_calibrated_in_what_is_stored():
    rows = json.loads((RESULTS / "truth/sbc.json").read_text())["rows"]
    assert {row["row"] for row in rows} <= set(CASES) and min(row["simulations"] for row in rows) >= 280
    exact = [row for row in rows if row["row"].endswith("all given") or "gaussian, variances given" in row["row"]]
    assert exact and all(row["verdict"] == "calibrated" for row in exact)
    assert np.all([abs(row["90 % interval"] - 0.9) < 4 * row["error"] for row in exact])
