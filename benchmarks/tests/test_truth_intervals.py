"""Predictive intervals beside conformal ones: the quick run goes through, the stored table is as the page has it."""

from __future__ import annotations

import json

import numpy as np
import pytest

from benchmarks._lib.tables import RESULTS
from benchmarks.truth import _interval_methods as methods
from benchmarks.truth import intervals
from benchmarks.truth._interval_methods import OURS


@pytest.mark.costly
def test_the_quick_run_says_what_is_missing(capsys):
    intervals.main(quick=True)
    printed = capsys.readouterr().out
    assert OURS in printed and "bootstrap, linear" in printed
    assert ("CV+" in printed) == (methods.missing() is None)
    assert ("MAPIE is not installed" in printed) == (methods.missing() is not None)


def test_ends_of_a_bootstrap(global_random_seed):
    rng = np.random.default_rng(global_random_seed)
    X, noise = rng.normal(size=(2200, 2)), rng.normal(size=2200)
    y = X[:, 0] + noise
    low, high = methods.bootstrap(lambda: methods.linear("measured"))(X[:200], y[:200], X[200:], 0).T
    # 100 draws have quantiles of 5 and 95 % that cover about 0.88, 200 rows a noise that is known to 5 %
    assert abs(np.mean((low <= y[200:]) & (y[200:] <= high)) - 0.88) < 4 * 0.02


def test_the_stored_table_has_every_set_and_method():
    rows = json.loads((RESULTS / "truth/intervals.json").read_text())["rows"]
    assert {row["set"] for row in rows} == set(intervals.NAMES)
    assert min(len([row for row in rows if row["set"] == name]) for name in intervals.NAMES) >= 6
    summary = {(row["kind"], row["method"]): row for row in intervals.summed(rows)}
    assert summary["measured", OURS]["lowest"] > 0.85 and summary["counts", OURS]["lowest"] > 0.95
    assert summary["counts", f"{OURS}, Poisson"]["covered"] < 0.88
    assert summary["measured", "conformal quantiles, boosted trees"]["better"] == 3
