"""Models of published sets beside NUTS, where the folder of reference fits is there: what a fit of each may be away."""

from __future__ import annotations

import pytest

from benchmarks.truth import references, responses


@pytest.mark.parametrize("name", ["kidiq", "cbpp", "kidney"])
def test_a_fit_is_near_its_judge(name):
    try:
        stored = responses.references()
    except FileNotFoundError as error:
        pytest.skip(str(error))
    row = next(one for one in references.models() if one.data == name)
    found = references.compared(row, next(one for one in stored if (one["set"], one["model"]) == (name, row.judge)))
    assert found["most distance, se"] < 0.25
    assert 0.9 < found["sd / se, least"] <= found["most"] < 1.1
    assert found["held out less judge's"] > -found["error"]
    if row.group is not None:
        assert abs(found["group sd"] - found["judge's"]) < 0.25 * found["sd of that"]
