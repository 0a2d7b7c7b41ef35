"""The table of diagnoses: every kind is in it, and it holds what the page says."""

from __future__ import annotations

import json

from benchmarks._lib.tables import RESULTS
from benchmarks.truth import diagnose
from benchmarks.truth._fits import BAD, GOOD, OTHER_BAD, OTHER_GOOD


def test_the_quick_run_goes_through(capsys):
    diagnose.main(quick=True)
    assert "Poisson on overdispersed counts" in capsys.readouterr().out


def test_the_stored_table_has_every_kind():
    rows = json.loads((RESULTS / "truth/diagnose.json").read_text())["rows"]
    assert [row["case"] for row in rows] == [kind.name for kind in [*BAD, *GOOD, *OTHER_BAD, *OTHER_GOOD]]
    assert all(row["sets"] == len(diagnose.SEEDS) for row in rows)
    rows = [row for row in rows if row["thresholds"] == "other seeds"]
    bad = [row for row in rows if row["misleads"] == "yes"]
    assert sum(2 * row["reason right"] > row["sets"] for row in bad) >= 13
    assert sum(2 * row["flagged"] > row["sets"] for row in rows if row["misleads"] == "no") <= 1
