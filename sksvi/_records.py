"""Copies of records: dataclasses whose making runs no code of their own."""

from __future__ import annotations

from typing import Any, TypeVar

Record = TypeVar("Record")


def replace(record: Record, **changes: Any) -> Record:
    """`dataclasses.replace` of a record, in half of the time: a pass over few rows makes a dozen.

    Parameters
    ----------
    record : dataclass
        Without ``__post_init__`` and slots.
    **changes
        Fields and their new values.

    Raises
    ------
    TypeError
        For a name that is no field.

    Examples
    --------
    >>> from sksvi._records import replace
    >>> from sksvi.inference.state import State
    >>> replace(State({}, seed=3), passes=2).passes
    2
    """
    kind: Any = type(record)
    fields = kind.__dataclass_fields__
    if not changes.keys() <= fields.keys():
        raise TypeError(f"{kind.__name__} has no fields {sorted(changes.keys() - fields.keys())}")
    new = object.__new__(kind)
    held = new.__dict__
    for name, value in record.__dict__.items():
        if name in fields:  # what else lies there was found from the fields as they were
            held[name] = value
    held.update(changes)
    return new  # type: ignore[no-any-return]
