"""Mixed models beside their judges, where the folder of reference fits is there: what a fit of each may be away."""

from __future__ import annotations

import pytest

from benchmarks.truth import groups, responses


@pytest.mark.parametrize("name", ["sleepstudy", "Contraception", "salamander_mating"])
def test_a_fit_is_near_its_judge(name):
    try:
        stored = responses.references()
    except FileNotFoundError as error:
        pytest.skip(str(error))
    model = next(one for one in groups.models() if one.data == name and ("NUTS" in one.judge or name == "sleepstudy"))
    row = groups.compared(model, next(one for one in stored if one["set"] == name and one["model"] == model.judge))
    assert row["most distance, sd"] < 0.25
    assert 0.9 < row["sd / sd, least"] <= row["most"] < 1.15
    assert 0.9 < row["group sd / judge's, least"] <= row["most of these"] < 1.2
