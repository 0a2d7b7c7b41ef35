"""What every estimator covers with nothing set: a small run of each kind through the benchmark's own runner."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.truth import _cells
from benchmarks.truth.defaults import covered, densities, numbers, run
from benchmarks.truth.trust import panel

#: A kind of data, how many sets of it, and for each quantity the cover that must lie between two numbers.
HOLDS = [
    (_cells.glm("gaussian", 50, 3), 60, {"null": (0.84, 1.0), "f, new": (0.8, 1.0), "y, new": (0.84, 0.96)}),
    (_cells.glm("logit", 200, 10), 40, {"null": (0.84, 1.0), "f, new": (0.75, 1.0)}),
    (_cells.glm("probit", 200, 10), 30, {"null": (0.84, 1.0)}),
    (_cells.glm("poisson", 200, 10), 40, {"null": (0.84, 1.0), "y, new": (0.86, 1.0)}),
    (_cells.glm("negative-binomial", 300, 2, "one", "factor"), 30, {"y, new": (0.86, 1.0)}),
    (_cells.glm("student-t", 200, 10), 30, {"null": (0.84, 1.0), "y, new": (0.84, 0.96)}),
    (_cells.glm("ordinal", 200, 10), 30, {"null": (0.84, 1.0), "y, new": (0.86, 1.0)}),
    (_cells.glm("softmax", 240, 3, (1.0, -1.0)), 30, {"null": (0.84, 1.0)}),
    (_cells.mixed("gaussian", 10, 10, 25, between=None, std=0.7), 25, {"y, known levels": (0.84, 0.96)}),
    (_cells.mixed("logit", 20, 30, 20, between=1.0), 20, {"f, known levels": (0.84, 0.96)}),
    (_cells.mixed("poisson", 10, 10, 8, between=None, std=0.7), 8, {"y, known levels": (0.86, 1.0)}),
    (_cells.gp("SparseGPRegressor", 50, 2, 20), 20, {"y, inside": (0.8, 0.96)}),
    (_cells.gp("GPClassifier", 100, 2, 20, amplitude=4.0), 20, {"f, inside": (0.75, 0.96)}),
    (_cells.gp("SparseGPClassifier", 30, 2, 15, amplitude=2.0), 15, {"f, inside": (0.6, 1.0)}),
    (_cells.series("gaussian", 50), 60, {"f, fitted": (0.8, 0.96), "y, 1 ahead": (0.84, 1.0)}),
    (_cells.series("poisson", 50), 60, {"f, fitted": (0.78, 0.96), "y, 1 ahead": (0.86, 1.0)}),
]
#: Numbers that are no cover: the same of their means.
NUMBERS = [(_cells.glm("negative-binomial", 300, 2, "one", "factor"), 30, "direction of a factor", (0.6, 1.0))]


def allowed(error: float | None, n_sets: int) -> float:
    """Four standard errors; one is at least that of a cover of 0.9 with an answer for each set."""
    return 4 * max(error or 0.0, 0.3 / np.sqrt(n_sets))


@pytest.mark.parametrize("share", [0.3, pytest.param(1.0, marks=pytest.mark.exhaustive)], ids=["some", "all"])
@pytest.mark.parametrize(("cell", "n_sets", "bands"), HOLDS, ids=[cell.name for cell, *_ in HOLDS])
def test_intervals_hold_with_nothing_set(cell, n_sets, bands, share, global_random_seed):
    found = run(replace(cell, peer=None), round(share * n_sets), seed=global_random_seed)
    rows = {row["quantity"]: row for row in covered(cell, found)}
    assert all(np.isfinite(one.seconds_after) for one in found), [one.warned for one in found]
    for quantity, (low, high) in bands.items():
        row = rows[quantity]
        spread = allowed(row["error"], row["data sets"])
        assert low - spread <= row["covered"] <= high + spread, f"{quantity}: {row['covered']:.3f} of {cell.name}"


@pytest.mark.costly
@pytest.mark.parametrize("share", [0.3, pytest.param(1.0, marks=pytest.mark.exhaustive)], ids=["some", "all"])
@pytest.mark.parametrize(("cell", "n_sets", "name", "band"), NUMBERS)
def test_other_numbers_hold_with_nothing_set(cell, n_sets, name, band, share, global_random_seed):
    row = next(
        row
        for row in numbers(cell, run(replace(cell, peer=None), round(share * n_sets), seed=global_random_seed))
        if row["number"] == name
    )
    spread = 4 * (row["error"] or 0.0)
    assert band[0] - spread <= row["mean"] <= band[1] + spread


def test_cells_have_names_of_their_own_and_known_quantities(global_random_seed):
    grid = _cells.cells()
    assert len({cell.name for cell in grid}) == len(grid)
    small = [next(cell for cell in grid if cell.family == family) for family in ("GLM gaussian", "Series poisson")]
    for cell in small:
        found = run(cell, 3, seed=global_random_seed)
        assert all(panel(row["quantity"]) for row in covered(cell, found))
        assert all(row["peer"] == cell.peer for row in densities(cell, found))
