"""Contrasts hold the simulated differences, one by one and all together; the stored table has every kind of data."""

from __future__ import annotations

import json

import numpy as np
import pytest

from benchmarks._lib.tables import RESULTS
from benchmarks.truth.contrasts import MODELS, Case, cases, measured, pooled, row_of, sets_of, simulated


@pytest.mark.costly
@pytest.mark.parametrize("model", MODELS)
def test_intervals_hold_with_nothing_set(model, global_random_seed):
    found = [measured(Case(model, 3, 120, "balanced", "moderate"), i, global_random_seed) for i in range(12)]
    error = 0.3 / np.sqrt(len(found))
    assert np.mean([one["one by one"] for one in found]) > 0.85 - 4 * error
    assert np.mean([one["together"] for one in found]) > 0.85 - 4 * error
    assert all(1.1 < one["times as wide"] < 1.4 for one in found)


def test_data_are_as_their_kind_says():
    case = Case("mixed, Gaussian", 6, 40, "unbalanced", "one strong")
    X, y, truth = simulated(case, np.random.default_rng(0))
    assert X["plan"].value_counts().tolist() == [16, 12, 4, 4, 2, 2] and X["group"].nunique() == 8
    assert truth.tolist() == [0.0] * 5 + [1.5] and y.shape == (40,)
    row = row_of(Case("Gaussian", 3, 40, "balanced", "none"), 2, n_jobs=1)
    assert row["sets"] == 2 and 0 <= row["one by one"] <= 1


def test_the_stored_table_has_every_kind_and_holds_what_its_page_says():
    rows = json.loads((RESULTS / "truth/contrasts.json").read_text())["rows"]
    kinds = [Case(*(row[name] for name in ("model", "levels", "rows", "balance", "effects"))) for row in rows]
    assert kinds == cases() and [row["sets"] for row in rows] == [sets_of(case) for case in kinds]
    for row in pooled(rows, ("model", "levels")):
        assert row["one by one"] > 0.85 and row["together"] > 0.85, row
