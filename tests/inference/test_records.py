"""Copies of records."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

import pytest

from sksvi.inference.records import replace


@dataclass(frozen=True)
class Record:
    """Fields, a constant, and what is found once."""

    size: int
    parts: list[int] = field(default_factory=list)
    kind: ClassVar[str] = "record"

    @cached_property
    def double(self) -> int:
        """Found from the fields."""
        return 2 * self.size


def test_a_copy_is_that_of_dataclasses():
    record = Record(3, [1, 2])
    assert replace(record, size=4) == dataclasses.replace(record, size=4)
    assert replace(record).parts is record.parts
    assert record.size == 3


def test_what_was_found_from_other_fields_is_not_copied():
    record = Record(3)
    assert record.double == 6
    assert replace(record, size=5).double == 10


@pytest.mark.parametrize("name", ["length", "double"])
def test_a_name_that_is_no_field_is_an_error(name):
    with pytest.raises(TypeError, match=f"Record has no fields .*'{name}'"):
        replace(Record(3), **{name: 1})
