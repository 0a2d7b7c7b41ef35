"""The page of the papers' claims is what the stored tables and the tests say."""

from __future__ import annotations

import json

import pytest

from benchmarks import __main__ as bench
from benchmarks._lib.tables import RESULTS
from benchmarks.papers._claim import HOLDS, IN_PART, NOT, NOT_RUN, Rows, judged, summary_of
from benchmarks.papers.claims import PAPERS, line


@pytest.mark.parametrize("name", PAPERS)
def test_the_stored_page_is_what_the_tables_say(name):
    """`python -m benchmarks papers.claims` is run again where a table of another command has changed."""
    page = json.loads((RESULTS / "papers" / f"claims_{name}.json").read_text(encoding="utf-8"))["rows"]
    assert page == [line(claim) for claim in PAPERS[name][1]]


@pytest.mark.parametrize("name", PAPERS)
def test_every_claim_names_a_command_or_a_reason(name):
    found = bench.discovered()
    for claim in PAPERS[name][1]:
        if claim.command.startswith("tests/"):
            assert summary_of(claim.command)
        elif claim.command:
            assert set(claim.command.split(", ")) <= set(found), claim.command
        else:
            assert claim.judge().verdict == NOT_RUN
            assert claim.judge().figures


def test_verdicts_count_their_cases():
    assert [judged(h, "").verdict for h in ([True, True], [True, False], [False, False])] == [HOLDS, IN_PART, NOT]


def test_rows_are_selected_by_their_values():
    rows = Rows([{"a b": 1, "passes": 1, "x": 2.0}, {"a b": 1, "passes": 3, "x": 5.0}])
    assert rows.end("x", a_b=1) == 5.0
    assert rows.value("x", passes=1) == 2.0
    with pytest.raises(LookupError, match="no stored row has"):
        rows.where(a_b=2)
    with pytest.raises(LookupError, match="no test"):
        summary_of("benchmarks/tests/test_papers_claims.py::test_that_is_not_there")
