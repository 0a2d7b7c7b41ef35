"""Intervals of proportions and weights with nothing set: small runs through the benchmark's own runner."""

from __future__ import annotations

import pytest

from benchmarks.truth import structural, topics

#: A case, how many sets of it, and how far its cover spreads between sets.
SMALL = [
    (topics.documents("StructuredLDA", 200, 8, 4, alpha=0.5), 0.03),
    (topics.documents("StructuredLDA", 100, 100, 4, alpha=0.5), 0.02),
    (topics.documents("CorrelatedTopicModel", 200, 30, 4), 0.02),
    (topics.mixture("BernoulliMixture", 200, 10, 3, 5), 0.25),
    (topics.mixture("CategoricalMixture", 200, 10, 3, 6, values=3), 0.25),
]
#: Kinds that the quick suite runs one of.
LONG = pytest.mark.exhaustive
CASES = [pytest.param(*one, id=one[0].name, marks=[LONG] * (i in (1, 3, 4))) for i, one in enumerate(SMALL)]


@pytest.mark.costly
@pytest.mark.parametrize(("case", "spread"), CASES)
def test_intervals_hold_where_those_of_q_did_not(case, spread, global_random_seed):
    row = topics.run(case, case.sets, global_random_seed)
    error = spread / case.sets**0.5
    assert 0.84 - 4 * error <= row["corrected: covers"] <= 0.94 + 4 * error
    assert row["corrected: covers"] >= row["variational: covers"]
    assert row["corrected: width"] > 0.0 and row["times the fit"] > 0.0


@LONG
def test_the_quick_table_is_printed(capsys):
    topics.main(quick=True)
    assert "corrected: covers" in capsys.readouterr().out


@pytest.mark.exhaustive
def test_intervals_of_effects_hold_what_they_say(global_random_seed):
    row = structural.run(150, 60, 3, False, global_random_seed)
    # Between sets the share of intervals that hold varies by 0.12.
    assert abs(row["covers"] - 0.89) <= 4 * 0.12 / 3**0.5
