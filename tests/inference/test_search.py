"""What a search for hyperparameters asks of the fit that it serves."""

from __future__ import annotations

import pytest

from sksvi.families import Point
from sksvi.inference.records import LineSearchState
from sksvi.inference.search import Fitting
from sksvi.inference.state import State


@pytest.mark.parametrize(
    ("searched", "names", "already"),
    [
        ({}, ["a"], False),
        ({"a": 1.0}, ["a"], True),
        ({"a": 1.0}, ["a", "b"], False),
        ({"a": 1.0, "b": 2.5}, ["a", "b"], False),
        ({"a": 1.0, "b": 2.0}, ["a", "b"], True),
    ],
)
def test_a_search_has_been_made_where_the_last_one_ended(searched, names, already):
    progress = LineSearchState(searched={name: Point([value]) for name, value in searched.items()})
    state = State({"a": Point([1.0]), "b": Point([2.0])}, seed=0, progress=progress)
    assert Fitting(None, state, lambda bound: False).already_searched(names) is already
